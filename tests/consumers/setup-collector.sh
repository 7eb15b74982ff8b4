#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds an OpenTelemetry Collector into build/tools/collector: the receiver for OTLP and the exporter
# that prints what it got. Some three minutes; the result is kept. Ends with 75, like an unreachable
# registry, where the Go compiler is too old for it.
#
# usage: setup-collector.sh [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/tools/fetching.sh"

version=v0.165.0
needs=25
dest=${1:-$here/build/tools/collector}

if [ -x "$dest/collector" ] && [ "$(cat "$dest/version" 2>/dev/null)" = "$version" ]; then
	exit 0
fi
minor=$(go version 2>/dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')
if [ "${minor:-0}" -lt "$needs" ]; then
	echo "setup-collector: needs Go 1.$needs or later" >&2
	exit 75
fi
mkdir -p "$dest"
work=$(mktemp -d "$dest/.work.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export GOTOOLCHAIN=local GOFLAGS=-modcacherw

echo "setup-collector: building the collector $version"
fetching env GOBIN="$work" go install "go.opentelemetry.io/collector/cmd/builder@$version"
cat >"$work/builder.yaml" <<END
dist:
  name: collector
  description: reads OTLP and prints it
  output_path: $work/out
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver $version
exporters:
  - gomod: go.opentelemetry.io/collector/exporter/debugexporter $version
END
fetching "$work/builder" --config "$work/builder.yaml"
mv "$work/out/collector" "$dest/collector"
echo "$version" >"$dest/version"
