# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own trace processor, asked from tests: what it complains about and what SQL finds."""
import json
import os
import struct
import subprocess

import lib

TOOLS = os.path.join(lib.ROOT, "tests", "tools")
FOLDER = os.path.join(lib.BUILD, "tools", "trace-processor")
PLAIN = set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/")

SLICES = """select s.id, s.ts, s.dur, s.depth, s.parent_id, s.category, s.name, s.arg_set_id, th.tid,
    p1.pid as thread_pid, p1.start_ts as thread_start, p2.pid as track_pid, p2.start_ts as track_start, t.name as track
  from slice s join track t on t.id = s.track_id
    left join thread_track tt on tt.id = t.id left join thread th on th.utid = tt.utid
    left join process p1 on p1.upid = th.upid
    left join process_track pt on pt.id = t.id left join process p2 on p2.upid = pt.upid
  order by s.id"""
ARGS = "select arg_set_id, key, value_type, string_value, int_value, real_value from args"
FLOWS = "select slice_out, slice_in from flow"
COUNTERS = """select c.ts, c.value, t.name, p.pid, p.start_ts
  from counter c join process_counter_track t on t.id = c.track_id join process p on p.upid = t.upid"""
ALL = (SLICES, ARGS, FLOWS, COUNTERS)


def setup():
    """Puts it into the build folder, once."""
    subprocess.run([os.path.join(TOOLS, "setup-trace-processor.sh"), FOLDER], check=True, timeout=600)


def ask(trace, *queries):
    """(complaints, [rows of a query ...])"""
    run = subprocess.run(["node", os.path.join(TOOLS, "tpcheck.cjs"), trace, *queries],
                         env=dict(os.environ, TPDIR=FOLDER), capture_output=True, text=True, timeout=300)
    if run.returncode not in (0, 1):
        raise AssertionError(f"trace processor could not read {trace}: {run.stderr.strip()}")
    answer = json.loads(run.stdout)
    return answer["bad"], answer["rows"]


def shown(text):
    """As the lines of perfetto_text.h show it."""
    if not text:
        return "-"
    return "".join(chr(b) if b in PLAIN else f"%{b:02X}" for b in text.encode())


def number(value):
    """Doubles as their bits; what JSON cannot say is '?'."""
    if value is None:
        return "f?"
    return f"f{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016x}"


class Args:
    def __init__(self, rows):
        self.sets = {}
        for row in rows:
            self.sets.setdefault(row["arg_set_id"], {})[row["key"]] = row

    def source(self, which):
        found = self.sets.get(which, {})
        if "source.file_name" not in found:
            return ""
        text = found["source.file_name"]["string_value"] or ""
        line = found.get("source.line_number")
        if line and line["int_value"] not in (None, "0", 0):
            text += f":{line['int_value']}"
        return " @" + shown(text)

    def listed(self, which):
        parts = []
        for key, row in self.sets.get(which, {}).items():
            if not key.startswith("debug."):
                continue
            kind = row["value_type"]
            if kind in ("int", "uint"):
                value = f"i{row['int_value']}"
            elif kind == "real":
                value = number(row["real_value"])
            elif kind == "bool":
                value = "btrue" if str(row["int_value"]) == "1" else "bfalse"
            else:
                value = "s" + shown(row["string_value"])
            parts.append(f"{shown(key[len('debug.'):])}={value}")
        return "{" + " ".join(sorted(parts, key=str.encode)) + "}"


def made_up(n):
    """Numbers that readers give a meaning of their own are replaced in traces."""
    return "?" if int(n) >= 10_000_000 else n


def process(pid, start):
    return f"{made_up(pid)}@{start or 0}"


def who(row):
    if row["tid"] is not None:
        return f"{process(row['thread_pid'], row['thread_start'])}/{made_up(row['tid'])}"
    if row["track_pid"] is not None:
        return f"{process(row['track_pid'], row['track_start'])}:{shown(row['track'])}"
    return shown(row["track"])


def flow_lines(flows, by_id):
    def span(slice_id):
        row = by_id[slice_id]
        return by_id[row["parent_id"]] if row["category"] == "flow" else row

    for row in flows:
        ends = [span(row["slice_out"]), span(row["slice_in"])]
        texts = [f"{who(e)}@{e['ts']} {shown(e['name'])}" for e in ends]
        if ends[0]["ts"] == ends[1]["ts"]:
            texts.sort(key=str.encode)
        yield f"flow {texts[0]} -> {texts[1]}"


def lines(rows):
    """The answer to ALL, as the lines of perfetto_text.h, sorted."""
    slices, args, flows, counters = rows
    args = Args(args)
    found = list(flow_lines(flows, {row["id"]: row for row in slices}))
    for row in slices:
        if row["category"] == "flow" or row["track"] == "records lost":
            continue
        found.append(f"slice {who(row)} {row['ts']} +{row['dur']} d{row['depth']} {shown(row['category'])} "
                     f"{shown(row['name'])}{args.source(row['arg_set_id'])} {args.listed(row['arg_set_id'])}")
    for row in counters:
        found.append(f"counter {process(row['pid'], row['start_ts'])} {shown(row['name'])} {row['ts']} {number(row['value'])}")
    return sorted(found, key=str.encode)


def expected_lines(text):
    """Counters are doubles to the importer, whatever they were."""
    found = []
    for line in text.split("\n"):
        if line.startswith("counter "):
            head, value = line.rsplit(" ", 1)
            if value.startswith("i"):
                value = number(int(value[1:]))
            line = f"{head} {value}"
        if line:
            found.append(line)
    return sorted(found, key=str.encode)
