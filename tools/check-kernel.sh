#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boots another kernel in an emulator, with what is built here, and records a program under a recipe there:
#
#     tools/check-kernel.sh VMLINUZ        e.g. of Debian's linux-image-*-cloud-amd64, unpacked by dpkg-deb -x
#
# Needs qemu-system-x86_64, a static busybox and cpio; neither root nor KVM. Older kernels verify BPF
# programs by stricter rules and know single uprobes only.
set -euo pipefail
cd "$(dirname "$0")/.."

kernel=${1:?usage: tools/check-kernel.sh VMLINUZ}
for tool in qemu-system-x86_64 busybox cpio; do
	command -v "$tool" >/dev/null || { echo "check-kernel: $tool is missing" >&2; exit 3; }
done
make -s build/clika-bpf-prof build/fixtures/recipe_target
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,t}
cp "$(command -v busybox)" "$root/bin/busybox"
for name in sh mount cat sleep grep uname mkfifo kill poweroff; do
	ln -s busybox "$root/bin/$name"
done
for file in build/clika-bpf-prof build/fixtures/recipe_target; do
	cp "$file" "$root/t/"
	ldd "$file" | grep -o '/[^ ]*' | while read -r lib; do
		mkdir -p "$root/$(dirname "$lib")"
		cp -L "$lib" "$root/$lib"
	done
done
cat >"$root/t/own.json" <<'JSON'
{ "recipe": 1, "name": "own", "title": "t", "records": "r", "libraries": [ { "id": "l", "file": "recipe_target" } ],
  "functions": [
    { "match": "rt_op", "args": [
      { "name": "label", "from": "arg0", "path": [16, 0], "type": "string" },
      { "name": "shape", "from": "arg0", "path": [24], "type": "array", "element": "i64", "count": 3 } ] },
    { "match": "rt_alloc", "span": false, "keep": { "arg": "bytes", "at_least": 4096 },
      "args": [ { "name": "bytes", "from": "arg0", "type": "u64" }, { "name": "at", "from": "return", "type": "pointer" } ],
      "does": [ { "what": "alloc", "address": "at", "bytes": "bytes" } ] },
    { "match": "rt_free", "span": false, "keep": { "arg": "at", "known": true },
      "args": [ { "name": "at", "from": "arg0", "type": "pointer" } ],
      "does": [ { "what": "free", "address": "at" } ] } ] }
JSON
cat >"$root/init" <<'SH'
#!/bin/sh
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tracefs t /sys/kernel/tracing
mount -t tmpfs t /tmp
echo "kernel $(uname -r)"
cd /t
mkfifo /tmp/in
./recipe_target </tmp/in >/tmp/said &
target=$!
exec 3>/tmp/in
./clika-bpf-prof record -v -o /tmp/out -p $target --no-auto --recipe ./own.json --budget off >/tmp/log 2>&1 &
recorder=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
	grep -q "Recording " /tmp/log && break
	sleep 2
done
echo "ops 30" >&3
echo "memory 20" >&3
sleep 3
kill -INT $recorder
wait $recorder
echo "recorder $?"
cat /tmp/log /tmp/said /tmp/out/summary.txt
poweroff -f
SH
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd.gz"
timeout 600 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 1500 -smp 2 -nographic -no-reboot \
	-kernel "$kernel" -initrd "$work/initrd.gz" -append "console=ttyS0 quiet panic=-1" |
	tr -d '\r' >"$work/console"
for want in '^recorder 0' '^rt_op \[own\]  *30 ' '21 allocations of 90.0 KiB, 20 frees of 80.2 KiB' ' + lost 0;'; do
	if ! grep -q -- "$want" "$work/console"; then
		cat "$work/console" >&2
		echo "check-kernel: not found: $want" >&2
		exit 1
	fi
done
echo "check-kernel: $(grep -o 'kernel [0-9].*' "$work/console"): recorded exactly"
