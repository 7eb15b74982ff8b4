#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No include points backwards: a row says what a folder may include of the project (folders and
# single headers) and which libraries it may know. Offences are told as FILE:LINE.
set -euo pipefail
cd "$(dirname "$0")/.."

# folder           of the project                                                     libraries
rules='
user/base          user/base                                                          z
user/probe         user/base,user/probe,include/wire.h,include/clika/markers.h,skel    bpf,elf,disasm,demangle,json,z
user/recording     user/base,user/recording                                            z
user/stream        user/base,user/probe,user/recording,user/stream,include/wire.h,include/clika/markers.h,skel  bpf
user/session       user/base,user/recording,user/session                               json
export             user/base,user/recording,user/session,export                        json,z
user/service       user/base,user/service,include/clika/prof.h,include/clika/service.h,include/clika/client.h  -
user/client        user/base,user/client,user/service/proto.h,include/clika/client.h   -
user/prof          user/base,user/probe,user/recording,user/stream,user/session,user/prof,export,include/wire.h,include/clika/prof.h,include/clika/markers.h,skel  bpf,json,z
user/cli           user/cli,include/clika/prof.h,include/clika/service.h               json
bpf                bpf,vmlinux,include/wire.h,include/clika/markers.h                   bpf
include/clika      include/clika                                                                   -
include            include                                                             -
'

bad=0
while read -r folder may libs; do
	[ -n "$folder" ] && [ -d "$folder" ] || continue
	depth=9
	[ "$folder" = include ] && depth=1
	while IFS= read -r -d '' file; do
		if ! awk -v file="$file" -v folder="$folder" -v may=",$may," -v libs=",$libs," '
		function offence(what) {
			printf "%s:%d: %s\n", file, FNR, what > "/dev/stderr"
			bad = 1
		}
		function exists(path,   line, ok) {
			ok = (getline line < path) >= 0
			close(path)
			return ok
		}
		function library(h) {
			if (h ~ /^bpf\// || h == "linux/bpf.h" || h == "linux/perf_event.h") return "bpf"
			if (h ~ /^(libelf|gelf|dwarf|elfutils\/.*)(\.h)?$/) return "elf"
			if (h ~ /^capstone/) return "disasm"
			if (h ~ /^cjson\//) return "json"
			if (h ~ /^(zlib|zstd)\.h$/) return "z"
			return ""
		}
		/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
			h = $0
			sub(/^[^<"]*[<"]/, "", h)
			sub(/[>"].*/, "", h)
			dir = file
			sub(/\/[^\/]*$/, "", dir)
			quoted = $0 ~ /include[ \t]*"/
			if (h ~ /skel\.h$/) h = "skel"
			else if (h ~ /^clika\//) h = "include/" h
			else if (quoted && exists(dir "/" h)) h = dir "/" h
			else if (h ~ /^vmlinux/) h = "vmlinux/" h
			else if (h == "wire.h") h = "include/wire.h"
			lib = library(h)
			if (lib != "") {
				if (!index(libs, "," lib ","))
					offence(folder " must not know <" h ">")
				next
			}
			if (h != "skel" && h !~ /^(include|user|export|bpf|vmlinux|tests|bench|examples)\//)
				next # the system
			ok = index(may, "," h ",")
			parent = h
			while (!ok && sub(/\/[^\/]*$/, "", parent))
				ok = index(may, "," parent ",")
			if (!ok)
				offence(folder " must not include " h)
		}
		END { exit bad }' "$file"; then
			bad=1
		fi
	done < <(find "$folder" -maxdepth "$depth" -name '*.[ch]' -print0 | sort -z)
done <<<"$rules"

# Below main.c nothing ends the process or prints: errors are values, the log is a callback.
for room in user/base user/probe user/recording user/stream user/session user/service user/prof export; do
	[ -d "$room" ] || continue
	if grep -rnE '(^|[^_[:alnum:]])(exit|abort|printf|puts|perror|vprintf|fprintf[ ]*\((stderr|stdout))[ ]*\(' \
		--include='*.c' "$room" | grep -vE ':[[:space:]]*(\*|//|/\*)' ||
		grep -rnE 'fprintf[ ]*\([ ]*(stderr|stdout)' --include='*.c' "$room"; then
		echo "$room: a library neither prints nor exits" >&2
		bad=1
	fi
done
exit $bad
