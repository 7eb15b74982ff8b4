#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over everything that is compiled for users (.clang-tidy says which checks).
# With file names as arguments: over those alone.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 0 ]; then
	files=("$@")
else
	mapfile -t files < <(git ls-files 'user/*.c' 'export/*.c' 'examples/*.c')
fi
printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "${JOBS:-2}" sh -c '
	out=$(clang-tidy --quiet --warnings-as-errors="*" "$@" -- -std=gnu11 -D_GNU_SOURCE= -I. -Iinclude -Ibuild -pthread 2>&1) ||
		{ printf "%s\n" "$out" | grep -v "warnings generated\|Suppressed"; exit 1; }' sh
