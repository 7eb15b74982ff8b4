#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts pprof into build/tools/pprof: built from its Go module where the Go compiler is new enough,
# else the one that the distribution's Go compiler brings along.
#
# usage: setup-pprof.sh [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/tools/fetching.sh"

module=github.com/google/pprof@v0.0.0-20250403155104-27863c87afa6
dest=${1:-$here/build/tools/pprof}

if [ -x "$dest/pprof" ]; then
	exit 0
fi
mkdir -p "$dest"
minor=$(go version 2>/dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')
if [ "${minor:-0}" -ge 23 ]; then
	echo "setup-pprof: building $module"
	work=$(mktemp -d "$dest/.work.XXXXXX")
	trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
	fetching env GOBIN="$work" GOTOOLCHAIN=local GOFLAGS=-modcacherw go install "$module"
	mv "$work/pprof" "$dest/pprof"
	exit 0
fi
for tool in /usr/lib/go-*/pkg/tool/*/pprof /usr/lib/go/pkg/tool/*/pprof; do
	if [ -x "$tool" ]; then
		ln -sfn "$tool" "$dest/pprof"
		exit 0
	fi
done
echo "setup-pprof: neither Go 1.23 nor a distribution's Go compiler is there (apt-get install golang-go)" >&2
exit 1
