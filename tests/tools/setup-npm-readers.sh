#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts readers of our formats that npm has into build/tools/npm-readers: speedscope with the schema
# of its files, a validator for schemas, the command line of Firefox Profiler, a decoder for OTLP.
# Pinned by version; none of their install scripts is run.
#
# usage: setup-npm-readers.sh [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/tools/fetching.sh"

packages="speedscope@1.25.0 ajv@8.17.1 @firefox-devtools/profiler-cli@0.10.0 @opentelemetry/otlp-transformer@0.57.2"
dest=${1:-$here/build/tools/npm-readers}

if [ "$(cat "$dest/.complete" 2>/dev/null)" = "$packages" ]; then
	exit 0
fi
command -v npm >/dev/null || {
	echo "setup-npm-readers: npm is missing (apt-get install npm)" >&2
	exit 1
}
mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$(dirname "$dest")/.npm.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "setup-npm-readers: fetching $packages from npm"
echo '{"private": true}' >"$work/package.json"
# shellcheck disable=SC2086
fetching npm install --prefix "$work" --ignore-scripts --no-audit --no-fund --no-package-lock $packages
echo "$packages" >"$work/.complete"
rm -rf "$dest"
mv "$work" "$dest"
