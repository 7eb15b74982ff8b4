#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone: public ones as C11 and C++17 with both compilers, inner ones as
# the project's own C.
set -euo pipefail
cd "$(dirname "$0")/.."

warn="-Wall -Wextra -Werror -Wshadow"
bad=0

try() { # header, compiler and flags
	local header=$1
	shift
	if ! "$@" $warn -I. -Iinclude -Ibuild -fsyntax-only -include "$header" /dev/null; then
		echo "$header does not compile alone: $*" >&2
		bad=1
	fi
}

for header in include/clika/*.h; do
	[ -e "$header" ] || continue
	for c in "${CC:-gcc}" "${CLANG:-clang}"; do
		try "$header" "$c" -x c -std=c11
	done
	for cxx in "${CXX:-g++}" "${CLANG:-clang}"; do
		try "$header" "$cxx" -x c++ -std=c++17
	done
done
while IFS= read -r header; do
	try "$header" "${CC:-gcc}" -x c -std=gnu11 -D_GNU_SOURCE=
done < <(find include user export examples -name '*.h' -not -path 'include/clika/*' | sort)
exit $bad
