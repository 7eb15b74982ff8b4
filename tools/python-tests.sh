#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run-tests: timeout=1200
# The tests of clika_runtime, twice: as root with a private loader, and as an ordinary user through a service that
# root started. Arguments go to pytest; --runtimes first: those with runtimes from PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
venv=venv
tests=(tests/python --ignore tests/python/runtimes)
if [ "${1:-}" = --runtimes ]; then
	shift
	venv=runtimes
	tests=(tests/python/runtimes tests/python/test_torch.py tests/python/test_examples.py)
	python=$(tools/python-env.sh --runtimes)
else
	python=$(tools/python-env.sh)
fi
export CLIKA_TEST_TOOL=${CLIKA_TEST_TOOL:-$here/build/clika-bpf-prof}
export PYTHONDONTWRITEBYTECODE=1 CLIKA_PROF_LOADER=$CLIKA_TEST_TOOL
scratch=$(mktemp -d /tmp/clika-python.XXXXXX)
chmod 755 "$scratch"
service=
end() {
	[ -z "$service" ] || kill "$service" 2>/dev/null || true
	[ -z "$service" ] || wait "$service" 2>/dev/null || true
	rm -rf "$scratch"
}
trap end EXIT

passed=0 failed=0 skipped=0 bad=0
# Adds up what pytest says at its end.
count() {
	local line word n
	line=$(tail -n 1 "$1")
	for word in passed failed skipped error; do
		n=$(grep -oE "[0-9]+ $word" <<<"$line" | cut -d' ' -f1 || true)
		case $word in
		passed) passed=$((passed + ${n:-0})) ;;
		skipped) skipped=$((skipped + ${n:-0})) ;;
		*) failed=$((failed + ${n:-0})) ;;
		esac
	done
}

# NAME USER ARGS...: one run of pytest, as a user.
round() {
	local name=$1 user=$2 rc=0
	shift 2
	echo "== $name"
	local argv=("$python" -X dev -W error -m pytest -q -ra -p no:cacheprovider --basetemp "$scratch/$name" "${tests[@]}" "$@")
	cd "$here"
	if [ "$user" != 0 ]; then
		argv=(setpriv --reuid "$user" --regid "$user" --clear-groups env HOME="$scratch/home" "${argv[@]}")
	fi
	"${argv[@]}" >"$scratch/$name.log" 2>&1 </dev/null || rc=$?
	cat "$scratch/$name.log"
	[ $rc = 0 ] || bad=1
	count "$scratch/$name.log"
}

if [ "$(id -u)" != 0 ]; then
	echo "needs root: it starts loaders"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi

export CLIKA_PROF_SOCKET=$scratch/none.sock CLIKA_TEST_MARK=$$
CLIKA_TEST_VIA=private round private 0 "$@"

# Another user must be able to reach the tree; else it gets a copy.
user=65534
mkdir -p "$scratch/home"
chown $user:$user "$scratch/home"
if ! setpriv --reuid $user --regid $user --clear-groups test -r "$here/tests/python/conftest.py" -a -x "$python"; then
	mkdir -p "$scratch/tree/build/python/$venv" "$scratch/tree/tests"
	cp -a "build/python/$venv/env" "$scratch/tree/build/python/$venv/"
	cp -a tests/python "$scratch/tree/tests/"
	cp -a include examples docs "$scratch/tree/"
	here=$scratch/tree python=$scratch/tree/build/python/$venv/env/bin/python
fi
export CLIKA_PROF_SOCKET=$scratch/service/clika.sock
"$CLIKA_PROF_LOADER" serve --everyone --socket "$CLIKA_PROF_SOCKET" >"$scratch/service.log" 2>&1 </dev/null &
service=$!
for _ in $(seq 500); do
	[ ! -S "$CLIKA_PROF_SOCKET" ] || break
	sleep 0.02
done
[ -S "$CLIKA_PROF_SOCKET" ] || {
	cat "$scratch/service.log"
	exit 1
}
mkdir "$scratch/as-user"
chown $user:$user "$scratch/as-user"
CLIKA_TEST_VIA=service CLIKA_PROF_LOADER=/nonexistent TMPDIR=$scratch/home round as-user/service $user "$@"

echo "$passed passed, $failed failed, $skipped skipped"
[ $bad = 0 ] && [ "$failed" = 0 ]
