#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a C source of a file, so that it is part of the library: for a/b/report.css a
# "const struct embed embed_report_css" (export/embed.h).
#
#   embed.sh FILE
set -eu

name=embed_$(basename "$1" | tr -c 'A-Za-z0-9\n' _)
sum=$(sha256sum <"$1" | cut -c1-64 | sed 's/../0x& /g')
# shellcheck disable=SC2059,SC2086
base64=$(printf "$(printf '\\%03o' $sum)" | base64)

cat <<END
/* Made of $1 by tools/embed.sh. */
#include "export/embed.h"

static const unsigned char bytes[] = {
$(od -An -v -tu1 -w24 "$1" | sed 's/  *\([0-9][0-9]*\)/\1,/g')
0 };
const struct embed $name = { (const char *)bytes, sizeof(bytes) - 1, "sha256-$base64" };
END
