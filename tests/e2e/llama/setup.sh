#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Gets what test_llama.py and test_ggml_recipe.py run: the prebuilt llama.cpp libraries and their Node.js binding from npm, a
# tiny model with random weights written with PyPI's gguf, plain and with packed weights, and C drivers over
# the libraries' own API.
# Everything goes below DIR; nothing is installed elsewhere. Exit code 77: something could not be had.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:?usage: setup.sh DIR}
npm_version=3.22.1
gguf_version=0.19.0

case $(uname -m) in
x86_64) platform=linux-x64 ;;
aarch64) platform=linux-arm64 ;;
*)
	echo "llama setup: no prebuilt llama.cpp for $(uname -m)" >&2
	exit 77
	;;
esac

unavailable() {
	echo "llama setup: $*" >&2
	exit 77
}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
command -v npm >/dev/null || unavailable "npm is not installed (Debian package npm)"
command -v node >/dev/null || unavailable "node is not installed (Debian package nodejs)"

if [ ! -e "$dir/node_modules/.version-$npm_version" ]; then
	echo "llama setup: installing node-llama-cpp@$npm_version into $dir"
	echo '{ "name": "clika-llama-test", "private": true }' >"$dir/package.json"
	# Install scripts would fetch sources and build them; the prebuilt package needs none.
	(cd "$dir" && timeout 300 npm install --ignore-scripts --omit=optional --no-audit --no-fund \
		--loglevel=error "node-llama-cpp@$npm_version" \
		"@node-llama-cpp/$platform@$npm_version") ||
		unavailable "npm could not install node-llama-cpp (is its registry reachable?)"
	touch "$dir/node_modules/.version-$npm_version"
fi

if [ ! -e "$dir/tiny.gguf" ] || [ "$here/make_model.py" -nt "$dir/tiny.gguf" ]; then
	if ! "$dir/venv/bin/python" -c 'import gguf' 2>/dev/null; then
		echo "llama setup: installing gguf==$gguf_version into $dir/venv"
		python3 -m venv "$dir/venv" ||
			unavailable "python3 -m venv failed (Debian package python3-venv)"
		timeout 300 "$dir/venv/bin/pip" install --quiet --disable-pip-version-check \
			"gguf==$gguf_version" ||
			unavailable "pip could not install gguf (is its index reachable?)"
	fi
	"$dir/venv/bin/python" "$here/make_model.py" "$dir/tiny-q4_0.gguf" q4_0
	"$dir/venv/bin/python" "$here/make_model.py" "$dir/tiny.gguf.tmp"
	mv "$dir/tiny.gguf.tmp" "$dir/tiny.gguf"
fi

if [ ! -e "$dir/drive" ] || [ "$here/drive.c" -nt "$dir/drive" ]; then
	${CC:-cc} -std=gnu11 -O2 -g -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
		-Wmissing-prototypes -rdynamic -o "$dir/drive" "$here/drive.c" -ldl
fi

if [ ! -e "$dir/graph" ] || [ "$here/graph.c" -nt "$dir/graph" ]; then
	${CC:-cc} -std=gnu11 -O2 -g -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
		-Wmissing-prototypes -o "$dir/graph" "$here/graph.c" -ldl
fi

# serve.mjs must lie beside node_modules for the module to be found.
cp "$here/serve.mjs" "$dir/serve.mjs"
echo "libs=$dir/node_modules/@node-llama-cpp/$platform/bins/$platform"
