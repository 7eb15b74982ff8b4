#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The benchmark as root, whoever calls: it loads BPF programs, and so do its peers.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(command -v python3)
if [ "$(id -u)" = 0 ]; then
	exec "$python" bench/run.py "$@"
fi
sudo -v
result=0
sudo env -u SUDO_UID -u SUDO_GID -u SUDO_USER "$python" bench/run.py "$@" || result=$?
sudo chown -hR --from=0 "$(id -u):$(id -g)" build
exit "$result"
