# SPDX-License-Identifier: Apache-2.0
# For scripts that fetch a tool for a test. `fetching COMMAND...` runs the command; when it fails
# because a registry cannot be reached, the script ends with 75, and the test is skipped by name.
# Whatever else fails is a failure.

fetching() {
	local log rc=0
	log=$(mktemp)
	"$@" >"$log" 2>&1 </dev/null || rc=$?
	if [ "$rc" != 0 ]; then
		tail -n 20 "$log" >&2
		if grep -qE 'EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|ECONNRESET|no such host|i/o timeout|network is unreachable|connection refused|NewConnectionError|Temporary failure in name resolution|Could not resolve' "$log"; then
			rc=75
		else
			rc=1
		fi
	fi
	rm -f "$log"
	[ "$rc" = 0 ] || exit "$rc"
}
