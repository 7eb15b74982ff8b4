#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the checks beside this file in every way that a runtime may be built and runs them:
#   run.sh [quick|full]
# quick (the default unless CI=true) has each kind of object at -O0 in C and at -O2 in C++; full has
# all combinations. Tools that are not installed are skipped by name. Ends with 1 on any failure.

set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mode=${1:-$([ "${CI:-}" = true ] && echo full || echo quick)}
out=$(mktemp -d "${TMPDIR:-/tmp}/clika-markers.XXXXXX")
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1

base="-I$root -I$root/include -g -pthread -Wall -Wextra -Werror -Wshadow"
passed=0
failed=0
skipped=""

have()
{
	command -v "${1%% *}" >/dev/null 2>&1 && return 0
	case " $skipped " in *" $1 "*) ;; *) skipped="$skipped $1" ;; esac
	return 1
}

# Runs a command; on failure tells the test's name, the command and what it said.
step()
{
	if ! timeout 120 "$@" >log 2>&1; then
		echo "FAILED $name: $*"
		sed 's/^/    /' log | head -20
		failed=$((failed + 1))
		return 1
	fi
}

ok()
{
	passed=$((passed + 1))
}

compiler_of() # cc language -> compiler and the flags that make a .c file of that language
{
	case "$1-$2" in
	*gcc-c++) echo "${1%gcc}g++ -x c++ -std=c++17" ;;
	clang*-c++) echo "clang++ ${1#clang} -x c++ -std=c++17" ;;
	*) echo "$1 -std=gnu11" ;;
	esac
}

# batched NAME "compiler and flags" "link flags": a program that checks itself, then its notes
batched()
{
	name=$1
	step $2 $base "$here/everything.c" -c -o everything.o &&
		step $2 $base -DPART=part_a "$here/part.c" -c -o a.o &&
		step $2 $base -DPART=part_b "$here/part.c" -c -o b.o &&
		step $(plain "$2") $base everything.o a.o b.o ${4:-} $3 -o everything &&
		step ${runner:-} ./everything &&
		step python3 "$here/notes.py" everything && ok
}

# The compiler and its flags without the language, which would be taken for that of objects.
plain()
{
	echo "$1" | sed 's/-x c++//'
}

# What strip leaves must still run and be found.
stripped()
{
	name="$1 of a $2 program"
	cp everything stripped && step $1 stripped && step ${runner:-} ./stripped &&
		step python3 "$here/notes.py" stripped stripped && ok
}

# shared NAME "compiler and flags" "link flags" [strip command]
shared()
{
	local n
	name=$1
	for n in 1 2; do
		step $2 $base -fPIC -DSHARED=check_$n "$here/everything.c" -c -o everything.o &&
			step $2 $base -fPIC -DPART=part_a "$here/part.c" -c -o a.o &&
			step $2 $base -fPIC -DPART=part_b "$here/part.c" -c -o b.o &&
			step $(plain "$2") $base -shared everything.o a.o b.o $3 -o lib$n.so ||
			return
		if [ -n "${4:-}" ]; then
			step $4 lib$n.so || return
		fi
		step python3 "$here/notes.py" lib$n.so ${4:+stripped} || return
	done
	step gcc -Wall -Werror "$here/host.c" -pthread -ldl -o host &&
		step ./host ./lib1.so check_1 ./lib2.so check_2 && ok
}

exceptions()
{
	name=$1
	step $2 $base -std=c++17 "$here/exceptions.cpp" -c -o exceptions.o &&
		step $2 $base -x c++ -std=c++17 "$here/part.c" -c -o a.o &&
		step $2 $base exceptions.o a.o $3 -o exceptions &&
		step ${runner:-} ./exceptions && step python3 "$here/notes.py" exceptions && ok
}

simple()
{
	name=$1
	step $2 $base "$here/simple.c" -c -o simple.o &&
		step $(plain "$2") $base simple.o $3 -o simple &&
		step ${runner:-} ./simple && ok
}

compiles()
{
	name=$1
	shift
	step "$@" -I"$root/include" -I"$root" -c -o compiled.o && ok
}

if [ "$mode" = quick ]; then
	opts="-O2"
	pairs="c:-O0 c++:-O2"
	langs="c"
else
	opts="-O0 -O2 -O3"
	pairs="c:-O0 c:-O2 c:-O3 c++:-O0 c++:-O2 c++:-O3"
	langs="c c++"
fi

for cc in gcc clang; do
	have $cc || continue
	for pair in $pairs; do
		opt=${pair#*:}
		c=$(compiler_of $cc ${pair%:*})
		v="$cc ${pair%:*} $opt"
		batched "$v pie" "$c $opt -fPIE" "-pie"
		batched "$v no-pie" "$c $opt -fno-pie" "-no-pie"
		batched "$v static" "$c $opt" "-static"
		batched "$v static-pie" "$c $opt -fPIE" "-static-pie"
		shared "$v shared" "$c $opt" ""
		simple "$v simple pie" "$c $opt" "-pie"
		simple "$v simple no-pie" "$c $opt -fno-pie" "-no-pie"
	done
	c=$(compiler_of $cc c)
	batched "$cc hidden, no plt, now" "$c -O2 -fvisibility=hidden -fno-plt" "-Wl,-z,now"
	batched "$cc medium code model" "$c -O2 -mcmodel=medium -fno-pie" "-no-pie"
	batched "$cc large code model" "$c -O2 -mcmodel=large -fno-pie" "-no-pie"
	batched "$cc no unwind tables" "$c -O2 -fno-asynchronous-unwind-tables" ""
	batched "$cc sections collected" "$c -O2 -ffunction-sections -fdata-sections" \
		"-Wl,--gc-sections"
	for tool in strip "llvm-strip --strip-all" "objcopy --strip-unneeded"; do
		have "$tool" && stripped "$tool" $cc
	done
	for tool in strip "llvm-strip --strip-all"; do
		have "$tool" && shared "$cc shared, $tool" "$c -O2" "" "$tool"
	done
	batched "$cc address, undefined" "$c -O1 -fsanitize=address,undefined" ""
	simple "$cc simple, address, undefined" "$c -O1 -fsanitize=address,undefined" ""
	batched "$cc thread sanitizer" "$c -O1 -fsanitize=thread" ""
	simple "$cc simple, sections collected" "$c -O2 -ffunction-sections" "-Wl,--gc-sections"
	name="$cc both transports in one object"
	step $c -O2 $base -DCLIKA_TRANSPORT_SIMPLE -DPART=part_c "$here/part.c" -c -o c.o &&
		batched "$name" "$c -O2" "" c.o
	batched "$cc kernel's clock" "$c -O2 -DCLIKA_NO_TSC" ""
	name="$cc both clocks in one object"
	step $c -O2 $base -DCLIKA_NO_TSC -DPART=part_c "$here/part.c" -c -o c.o &&
		batched "$name" "$c -O2" "" c.o
	for opt in $opts; do
		exceptions "$cc exceptions $opt" "$(compiler_of $cc c++ | cut -d' ' -f1) $opt" ""
	done
	exceptions "$cc exceptions static" "$(compiler_of $cc c++ | cut -d' ' -f1) -O2" "-static"
done

for lang in $langs; do
	if have gcc; then
		c=$(compiler_of gcc $lang)
		batched "gcc $lang lto" "$c -O2 -flto" ""
		batched "gcc $lang lto, many partitions" "$c -O2 -flto" "-flto-partition=max"
		batched "gcc $lang lto, one partition" "$c -O3 -flto" "-flto-partition=none"
		shared "gcc $lang lto shared" "$c -O2 -flto" ""
		simple "gcc $lang lto simple" "$c -O2 -flto" ""
		exceptions "gcc $lang lto exceptions" "g++ -O2 -flto" ""
	fi
	if have gcc && have ld.gold; then
		batched "gold $lang sections collected" "$(compiler_of gcc $lang) -O2 -ffunction-sections" \
			"-fuse-ld=gold -Wl,--gc-sections"
	fi
	if have clang && have ld.lld; then
		c=$(compiler_of clang $lang)
		batched "lld $lang" "$c -O2" "-fuse-ld=lld"
		batched "lld $lang sections collected" "$c -O2 -ffunction-sections" \
			"-fuse-ld=lld -Wl,--gc-sections"
		shared "lld $lang shared, sections collected" "$c -O2 -ffunction-sections" \
			"-fuse-ld=lld -Wl,--gc-sections"
		simple "lld $lang simple, sections collected" "$c -O2 -ffunction-sections" \
			"-fuse-ld=lld -Wl,--gc-sections"
		for lto in full thin; do
			batched "clang $lang $lto lto" "$c -O2 -flto=$lto" "-fuse-ld=lld -flto=$lto"
			shared "clang $lang $lto lto shared" "$c -O2 -flto=$lto" \
				"-fuse-ld=lld -flto=$lto"
			simple "clang $lang $lto lto simple" "$c -O2 -flto=$lto" \
				"-fuse-ld=lld -flto=$lto"
			exceptions "clang $lto lto exceptions" "clang++ -O2 -flto=$lto" \
				"-fuse-ld=lld -flto=$lto"
		done
	fi
done
if have gcc; then
	batched "gcc intel syntax" "gcc -std=gnu11 -O2 -masm=intel" ""
	simple "gcc intel syntax simple" "gcc -std=gnu11 -O2 -masm=intel" ""
fi
if have musl-gcc; then
	batched "musl" "musl-gcc -std=gnu11 -O2" ""
	batched "musl static" "musl-gcc -std=gnu11 -O2" "-static"
	simple "musl simple" "musl-gcc -std=gnu11 -O2" ""
fi

strict="-O2 -Wall -Wextra -Werror -Wshadow -Wconversion -Wcast-qual -Wundef -pedantic"
for cc in gcc clang "aarch64-linux-gnu-gcc" "clang --target=aarch64-linux-gnu"; do
	have "$cc" || continue
	for d in BATCHED SIMPLE OFF; do
		compiles "$cc $d C11" $cc -std=c11 $strict -DCLIKA_TRANSPORT_$d \
			-Wstrict-prototypes -Wmissing-prototypes "$here/every_macro.c"
		for std in c++17 c++20; do
			compiles "$cc $d $std" $(compiler_of "$cc" c++) -std=$std $strict \
				-DCLIKA_TRANSPORT_$d -Wold-style-cast "$here/every_macro.c"
		done
	done
	compiles "$cc kernel's clock" $cc -std=c11 $strict -DCLIKA_NO_TSC "$here/every_macro.c"
	name="$cc header alone"
	echo '#include <clika/markers.h>' >alone.c
	compiles "$name" $cc -std=c11 $strict alone.c
	printf '#define CLIKA_ABI_ONLY\n#include <clika/markers.h>\nint clika__now;\n%s\n%s\n' \
		'#undef CLIKA_ABI_ONLY' '#define clika__now clika__time' >abi.c
	echo '#include <clika/markers.h>' >>abi.c
	compiles "$cc ABI first, markers afterwards" $cc -std=c11 $strict abi.c
done
if have aarch64-linux-gnu-gcc && have qemu-aarch64; then
	runner=qemu-aarch64
	for opt in $opts; do
		batched "arm64 $opt" "aarch64-linux-gnu-gcc -std=gnu11 $opt" "-static"
		simple "arm64 simple $opt" "aarch64-linux-gnu-gcc -std=gnu11 $opt" "-static"
		exceptions "arm64 exceptions $opt" "aarch64-linux-gnu-g++ $opt" "-static"
	done
	runner=
fi

[ -n "$skipped" ] && echo "skipped for want of:$skipped"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
