#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every C file of ours is as clang-format makes it; --fix makes it so. Generated and foreign files
# stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t files < <(git ls-files '*.c' '*.h' '*.cpp' |
	grep -vxE 'vmlinux/.*|examples/digits/(weights|data)[a-z_]*\.[ch]')
if [ "${1:-}" = --fix ]; then
	exec clang-format -i "${files[@]}"
fi
clang-format --dry-run -Werror "${files[@]}"
