#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a bpftool that runs. Debian keeps it in /usr/sbin, which ordinary users have not in PATH;
# Ubuntu's /usr/sbin/bpftool is a wrapper that wants the tools of the running kernel.
for tool in bpftool /usr/sbin/bpftool /usr/local/sbin/bpftool \
	$(ls -d /usr/lib/linux-tools/*/bpftool /usr/lib/linux-tools-*/bpftool 2>/dev/null | sort -rV); do
	if "$tool" version >/dev/null 2>&1; then
		echo "$tool"
		exit 0
	fi
done
echo bpftool
exit 1
