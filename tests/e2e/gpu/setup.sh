#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Gets what test_gpu_apis.py runs: the CUDA runtime from PyPI, and two C programs that call it and Vulkan. Neither
# needs a device: CUDA says that there is none, and Mesa's lavapipe is a Vulkan device on the processor. Everything goes
# below DIR; nothing is installed elsewhere. Exit code 77: something could not be had.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:?usage: setup.sh DIR}
cuda_version=12.9.79
flags=(-std=gnu11 -O2 -g -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes)

unavailable() {
	echo "gpu setup: $*" >&2
	exit 77
}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ ! -e "$dir/libcudart.so.12" ]; then
	[ -x "$dir/venv/bin/pip" ] || python3 -m venv "$dir/venv" ||
		unavailable "python3 -m venv failed (Debian package python3-venv)"
	echo "gpu setup: downloading nvidia-cuda-runtime-cu12==$cuda_version into $dir"
	rm -rf "$dir/wheels"
	timeout 300 "$dir/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--dest "$dir/wheels" "nvidia-cuda-runtime-cu12==$cuda_version" ||
		unavailable "pip could not download nvidia-cuda-runtime-cu12 (is its index reachable?)"
	(cd "$dir/wheels" && "$dir/venv/bin/python" -m zipfile -e ./*.whl .)
	mv "$dir/wheels/nvidia/cuda_runtime/lib/libcudart.so.12" "$dir/"
	rm -rf "$dir/wheels"
fi

build() {
	local name=$1
	shift
	[ "$dir/$name" -nt "$here/$name.c" ] || ${CC:-cc} "${flags[@]}" -o "$dir/$name" "$here/$name.c" "$@"
}
build cuda_calls -ldl
[ -e /usr/include/vulkan/vulkan.h ] || unavailable "Vulkan's headers are not installed (Debian package libvulkan-dev)"
build vulkan_calls -lvulkan
