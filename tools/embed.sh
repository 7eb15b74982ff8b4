#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes C sources of files, so that they are part of the library: of a/b/report.css a
# "const struct embed embed_report_css" (user/base/embed.h).
#
#   embed.sh FILE
#   embed.sh --table NAME FILE...    "const struct embed_entry NAME[]" that lists them
set -eu

symbol() {
	echo "embed_$(basename "$1" | tr -c 'A-Za-z0-9\n' _)"
}

if [ "$1" = --table ]; then
	table=$2
	shift 2
	printf '/* Made by tools/embed.sh. */\n#include "user/base/embed.h"\n\n'
	for f; do
		echo "extern const struct embed $(symbol "$f");"
	done
	echo "const struct embed_entry $table[] = {"
	for f; do
		echo "	{ \"$f\", &$(symbol "$f") },"
	done
	printf '\t{ NULL, NULL },\n};\n'
	exit
fi

sum=$(sha256sum <"$1" | cut -c1-64 | sed 's/../0x& /g')
# shellcheck disable=SC2059,SC2086
base64=$(printf "$(printf '\\%03o' $sum)" | base64)

cat <<END
/* Made of $1 by tools/embed.sh. */
#include "user/base/embed.h"

static const unsigned char bytes[] = {
$(od -An -v -tu1 -w24 "$1" | sed 's/  *\([0-9][0-9]*\)/\1,/g')
0 };
const struct embed $(symbol "$1") = { (const char *)bytes, sizeof(bytes) - 1, "sha256-$base64" };
END
