#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the distribution's packages that are missing, and says which and why. Instant, silent
# and without root when nothing is missing.
#
#   install-deps.sh [--test] [--dev] [--bench] [--fuzz]     what the build needs, and the named further sets
set -euo pipefail
here=$(dirname "$0")

id=unknown
id_like=
[ -r /etc/os-release ] && id=$(. /etc/os-release && echo "$ID") &&
	id_like=$(. /etc/os-release && echo "${ID_LIKE:-}")
case $id in
ubuntu) bpftool="linux-tools-common linux-tools-generic" perf="linux-tools-common linux-tools-generic" ;;
*) bpftool=bpftool perf=linux-perf ;;
esac

clang_major=$(clang -dumpversion 2>/dev/null | cut -d. -f1 || true)
: "${clang_major:=14}"

# On x86 the markers are also compiled for arm64, and run in an emulator.
arm64=
[ "$(uname -m)" = x86_64 ] && arm64="test|cmd:aarch64-linux-gnu-gcc|gcc-aarch64-linux-gnu libc6-dev-arm64-cross|markers on arm64
test|cmd:aarch64-linux-gnu-g++|g++-aarch64-linux-gnu|markers on arm64
test|cmd:qemu-aarch64|qemu-user|markers on arm64"

# set | found by | packages | why. "cmd:" a command, "hdr:" a header, "run:" a
# command that works, "py:" a Python module, "sys:" one of the distribution's Python, "glob:" a file,
# "rt:" a runtime library of clang
table="
build|cmd:gcc|gcc|compiles the loader and the library
build|cmd:g++|g++|links the C++ name demangler
build|hdr:stdio.h|libc6-dev|C library headers
build|hdr:linux/bpf.h|linux-libc-dev|kernel interface headers
build|cmd:clang|clang|compiles the BPF programs
build|run:$here/find-bpftool.sh|$bpftool|links BPF objects and makes the skeleton
build|hdr:bpf/libbpf.h|libbpf-dev|loads BPF programs
build|hdr:libelf.h|libelf-dev|reads programs and libraries
build|hdr:dwarf.h|libdw-dev|reads symbols and debug files
build|hdr:capstone/capstone.h|libcapstone-dev|finds return instructions
build|hdr:cjson/cJSON.h|libcjson-dev|writes JSON
build|cmd:protoc-c|protobuf-c-compiler|compiles the description of Perfetto's format
build|hdr:protobuf-c/protobuf-c.h|libprotobuf-c-dev|writes Perfetto traces
build|hdr:zlib.h|zlib1g-dev|checksums and compression
build|hdr:curl/curl.h|libcurl4-openssl-dev|pushes traces to a collector
build|cmd:python3|python3|runs the demo's and the tests' scripts
test|hdr:cmocka.h|libcmocka-dev|unit tests
test|hdr:sys/sdt.h|systemtap-sdt-dev|target programs with markers of other providers
test|cmd:ld.lld|lld|markers under link-time optimisation
test|cmd:llvm-strip|llvm|markers in stripped programs
test|cmd:valgrind|valgrind|memory check of a live recording
test|cmd:npm|npm nodejs|llama.cpp, the unmodified runtime of an end-to-end test
test|cmd:go|golang-go|pprof, which reads our profiles
test|run:$here/find-chromium.sh|chromium|shows our SVG and speedscope's page
test|py:jsonschema|python3-jsonschema|checks JSON reports against their schemas
test|py:ensurepip|python3-venv|writes that test's model
test|sys:ensurepip|python3-venv|builds and tests the Python package
test|glob:/usr/include/python3*/Python.h|python3-dev|builds the Python package
test|sys:torch|python3-torch|PyTorch, recorded from Python
test|hdr:vulkan/vulkan.h|libvulkan-dev|a program on Vulkan, recorded
test|glob:/usr/share/vulkan/icd.d/lvp_icd*.json|mesa-vulkan-drivers|a Vulkan device on the processor
fuzz|rt:fuzzer|libclang-rt-$clang_major-dev|make fuzz
$arm64
dev|cmd:clang-format|clang-format|make check-format
dev|cmd:clang-tidy|clang-tidy|make check-tidy
dev|cmd:mandoc|mandoc|checks manual pages
bench|cmd:perf|$perf|a peer to measure against
bench|cmd:bpftrace|bpftrace|a peer to measure against
bench|cmd:uftrace|uftrace|a peer to measure against
bench|cmd:lttng|lttng-tools|a peer to measure against
bench|hdr:lttng/tracepoint.h|liblttng-ust-dev|a peer to measure against
bench|cmd:babeltrace2|babeltrace2|a peer to measure against
bench|sys:ensurepip|python3-venv|builds the Python package
bench|glob:/usr/include/python3*/Python.h|python3-dev|builds the Python package
bench|sys:torch|python3-torch|a peer to measure against
"

wanted=" build "
for arg in "$@"; do
	case $arg in
	--test | --dev | --bench | --fuzz) wanted+="${arg#--} " ;;
	*)
		echo "install-deps.sh: unknown argument $arg" >&2
		exit 2
		;;
	esac
done

have() {
	local kind=${1%%:*} what=${1#*:} f
	case $kind in
	cmd) PATH=$PATH:/usr/sbin:/sbin command -v "$what" >/dev/null ;;
	hdr)
		for f in /usr/include/"$what" /usr/include/*-linux-gnu*/"$what" /usr/local/include/"$what"; do
			[ -e "$f" ] && return 0
		done
		return 1
		;;
	run) "$what" >/dev/null 2>&1 ;;
	rt)
		for f in /usr/lib/llvm-*/lib/clang/*/lib/*linux*/libclang_rt."$what"*; do
			[ -e "$f" ] && return 0
		done
		return 1
		;;
	py) python3 -c "import $what" >/dev/null 2>&1 ;;
	sys) /usr/bin/python3 -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('$what'))" 2>/dev/null ;;
	glob) compgen -G "$what" >/dev/null ;;
	esac
}

missing=()
reasons=()
while IFS='|' read -r set probe packages why; do
	[ -n "$set" ] && [[ $wanted == *" $set "* ]] || continue
	have "$probe" && continue
	for package in $packages; do
		[[ " ${missing[*]-} " == *" $package "* ]] && continue
		missing+=("$package")
		reasons+=("$(printf '  %-22s %s' "$package" "$why")")
	done
done <<<"$table"

[ ${#missing[@]} -gt 0 ] || exit 0

case " $id $id_like " in
*" debian "* | *" ubuntu "*) ;;
*)
	echo "install-deps.sh: this distribution ($id) is neither Debian nor Ubuntu; please install what stands for:" >&2
	printf '%s\n' "${reasons[@]}" >&2
	exit 1
	;;
esac

as_root=()
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "install-deps.sh: these packages are missing, and there is no sudo to install them; as root run:" >&2
		echo "  apt-get install ${missing[*]}" >&2
		exit 1
	fi
	as_root=(sudo)
fi
echo "Installing packages of this distribution (apt-get${as_root:+, with sudo}):"
printf '%s\n' "${reasons[@]}"
# Output is shown only when it went wrong: it is long, and nobody reads it otherwise.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" \
		>>"$log" 2>&1 </dev/null
}
if ! { apt update && apt install --no-install-recommends -y "${missing[@]}"; }; then
	tail -n 40 "$log" >&2
	echo "install-deps.sh: the packages could not be installed: ${missing[*]}" >&2
	exit 1
fi
