#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts HolisticTraceAnalysis, which reads Kineto's traces, into a Python environment of its own at
# build/tools/hta (500 MB).
#
# usage: setup-hta.sh [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/tools/fetching.sh"

# Its own bounds let in a pandas that it fails with.
packages="HolisticTraceAnalysis==0.5.0 pandas<3"
dest=${1:-$here/build/tools/hta}

if [ "$(cat "$dest/.complete" 2>/dev/null)" = "$packages" ]; then
	exit 0
fi
rm -rf "$dest"
mkdir -p "$(dirname "$dest")"
echo "setup-hta: installing $packages from PyPI"
python3 -m venv "$dest"
fetching "$dest/bin/pip" install --quiet --disable-pip-version-check $packages
echo "$packages" >"$dest/.complete"
