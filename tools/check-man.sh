#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Manual pages are well-formed, and every option of --help is in the verb's page and the other way
# round. mandoc is used when it is installed; the options are compared in any case.
set -euo pipefail
cd "$(dirname "$0")/.."

bad=0
tool=${TOOL:-build/clika-bpf-prof}

for page in docs/man/*.1; do
	if command -v mandoc >/dev/null; then
		mandoc -T lint -W warning "$page" || bad=1
	elif command -v man >/dev/null; then
		problems=$(LC_ALL=C.UTF-8 MANROFFSEQ='' man --warnings=all -E UTF-8 -l "$page" 2>&1 >/dev/null)
		if [ -n "$problems" ]; then
			echo "$problems" >&2
			bad=1
		fi
	fi
done

for verb in $("$tool" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
	page=docs/man/clika-bpf-prof-$verb.1
	if [ ! -e "$page" ]; then
		echo "$page is missing" >&2
		bad=1
		continue
	fi
	missing=$(comm -3 \
		<("$tool" "$verb" --help | sed -n 's/^  \(-., \|    \)--\([a-z-]*\).*/\2/p' | sort -u) \
		<(sed -n 's/^\.It.* Fl -\([a-z][a-z-]*\).*/\1/p' "$page" | sort -u))
	if [ -n "$missing" ]; then
		echo "$page and '$verb --help' differ in:" $missing >&2
		bad=1
	fi
done
exit $bad
