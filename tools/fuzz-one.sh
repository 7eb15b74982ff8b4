#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fuzz-one.sh FUZZER SECONDS: runs one libFuzzer target; new inputs stay below build/, seeds come
# from tests/fuzz/corpus/NAME.
set -euo pipefail
cd "$(dirname "$0")/.."

fuzzer=$1
seconds=${2:-20}
name=$(basename "$fuzzer")
found=build/fuzz/found/$name
seeds=tests/fuzz/corpus/${name#fuzz_}
mkdir -p "$found"
dirs=("$found")
[ -d "$seeds" ] && dirs+=("$seeds")
echo "fuzz $name for $seconds s"
if ! "$fuzzer" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -print_final_stats=0 \
	-artifact_prefix="$found/" "${dirs[@]}" >"$found.log" 2>&1; then
	tail -n 60 "$found.log" >&2
	exit 1
fi
