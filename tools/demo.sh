#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo: an inference server at work, recorded for five seconds while it serves.
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/demo
rate=${DEMO_RATE:-200}
seconds=${DEMO_SECONDS:-5}

sudo=()
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || {
		echo "demo: recording needs root, and there is no sudo; run 'make demo' as root" >&2
		exit 3
	}
	echo "Recording loads BPF programs, which needs root: sudo may ask for your password."
	sudo -v
	sudo=(sudo)
fi

log=$(mktemp)
build/digits serve --rate "$rate" >"$log" 2>&1 &
server=$!
stop_server() {
	kill -TERM "$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
	rm -f "$log"
}
trap stop_server EXIT

for _ in $(seq 300); do
	grep -q '^serving' "$log" && break
	kill -0 "$server" 2>/dev/null || break
	sleep 0.1
done
echo "The server is process $server: handwritten digits, $rate requests a second (build/digits serve)."
recorded=0
"${sudo[@]}" build/clika-bpf-prof record -p "$server" -d "$seconds" -o "$out" --force || recorded=$?
if [ "$recorded" != 0 ] && ! kill -0 "$server" 2>/dev/null; then
	echo "demo: the server ended by itself; it said:" >&2
	cat "$log" >&2
fi
# Nothing in build/ stays root's: also when make itself was called through sudo.
if [ "$(id -u)" = 0 ] && [[ ${SUDO_UID:-} =~ ^[0-9]+$ ]] && [ "$(stat -c %u .)" = "$SUDO_UID" ]; then
	chown -hR --from=0 "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" build
fi
[ "$recorded" = 0 ] || exit "$recorded"

kill -TERM "$server"
wait "$server" || true
echo
echo "The server's own account:"
tail -n 12 "$log" | sed 's/^/  /'
cat <<END

Where to look:
  $out/trace.pftrace       open https://ui.perfetto.dev and drop this file in
  $out/chrome_trace.json   the same for chrome://tracing (and Perfetto)
  $out/summary.txt         the table above
  $out/recording.clika     everything; build/clika-bpf-prof export $out --format ... makes other files
END
