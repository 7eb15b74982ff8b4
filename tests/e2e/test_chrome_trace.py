# SPDX-License-Identifier: Apache-2.0
"""Loads our Chrome traces into Perfetto's trace processor, the importer behind ui.perfetto.dev.

It must have nothing to complain about, and must see what the trace says: every span with its name, its
time and length to the nanosecond, its thread and parent; every arrow at its two spans; every counter.
"""
import glob
import json
import math
import os
import shutil
import subprocess
import tempfile
import unittest
from decimal import Decimal

import lib

GOLDEN = os.path.join(lib.ROOT, "tests", "golden")
TOOLS = os.path.join(lib.ROOT, "tests", "tools")
INCOMPLETE = 5  # exit status: exported, but the recording was not finished
PROCESSOR = os.path.join(lib.BUILD, "tools", "trace-processor")

SPANS = """select s.id, s.name, s.ts, s.dur, s.parent_id as parent, t.tid, p.pid from slice s
    join thread_track tt on s.track_id = tt.id join thread t using (utid) left join process p using (upid)
    where s.dur > 0 order by s.ts, s.id"""
ASYNC = """select s.name, s.ts, s.dur, t.name as track from slice s join track t on s.track_id = t.id
    where s.track_id not in (select id from thread_track) and s.dur > 0 order by s.ts, s.id"""
FLOWS = """select a.name as out, a.ts as out_ts, b.name as into_, b.ts as into_ts from flow
    join slice a on a.id = slice_out join slice b on b.id = slice_in order by 2, 4"""
COUNTERS = "select t.name, count(*) as n from counter c join track t on t.id = c.track_id group by 1 order by 1"
THREADS = "select tid, t.name, pid, p.name as process from thread t left join process p using (upid) order by tid"


def strict(text):
    """Python takes NaN and Infinity for JSON unless told not to, and silently drops repeated keys."""
    def refuse(token):
        raise ValueError(f"{token} is not JSON")

    def unique(pairs):
        keys = [k for k, _ in pairs]
        if len(set(keys)) != len(keys):
            raise ValueError(f"a key comes twice in {keys}")
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=unique, parse_float=Decimal)


def ns(value):
    scaled = Decimal(value) * 1000
    assert scaled == scaled.to_integral_value(), value
    return int(scaled)


def parents(spans):
    """Index of the parent of each span, by nesting on its thread; spans in the order of the file."""
    stacks, result = {}, []
    for i, s in enumerate(spans):
        stack = stacks.setdefault((s["pid"], s["tid"]), [])
        while stack and stack[-1][1] <= s["ts"]:
            stack.pop()
        if stack:
            assert s["ts"] + s["dur"] <= stack[-1][1], f"{s} crosses {spans[stack[-1][0]]}"
        result.append(stack[-1][0] if stack else None)
        stack.append((i, s["ts"] + s["dur"]))
    return result


class Trace:
    """What the file itself says. Spans without length are left out: the importer has instants for them."""

    def __init__(self, text):
        self.tree = strict(text)
        self.events = self.tree["traceEvents"]
        self.spans = [{"name": e["name"], "ts": ns(e["ts"]), "dur": ns(e["dur"]), "pid": e["pid"], "tid": e["tid"]}
                      for e in self.phase("X") if ns(e["dur"])]
        self.parents = parents(self.spans)

    def phase(self, ph):
        return [e for e in self.events if e["ph"] == ph]

    def enclosing(self, e):
        """The innermost span of the event's thread around it."""
        best, ts = None, ns(e["ts"])
        for s in self.spans:
            if (s["pid"], s["tid"]) == (e["pid"], e["tid"]) and s["ts"] <= ts < s["ts"] + s["dur"]:
                best = s
        return best

    def arrows(self):
        starts = {e["id"]: e for e in self.phase("s")}
        ends = {e["id"]: e for e in self.phase("f")}
        assert starts.keys() == ends.keys() and len(starts) == len(self.phase("s")) == len(self.phase("f"))
        for i, s in starts.items():
            yield s, ends[i]

    def moments(self):
        """Where something without length lies, or begins: the importer takes it for the innermost slice."""
        return {ns(e["ts"]) for e in self.events if e["ph"] == "i" or (e["ph"] == "X" and not ns(e["dur"]))}


@unittest.skipUnless(shutil.which("node") and shutil.which("npm"), "node and npm run the trace processor")
class ChromeTrace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([os.path.join(TOOLS, "setup-trace-processor.sh"), PROCESSOR], check=True, timeout=300)
        cls.folder = tempfile.mkdtemp(prefix="clika-test-")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def ask(self, path, *queries):
        """Rows of each query; fails when the importer complains."""
        run = subprocess.run(["node", os.path.join(TOOLS, "tpcheck.cjs"), path, *queries], capture_output=True,
                             text=True, timeout=300, env={**os.environ, "TPDIR": PROCESSOR})
        self.assertNotEqual(run.returncode, 2, run.stderr)
        answer = json.loads(run.stdout)
        self.assertEqual(answer["bad"], [])
        self.assertEqual(run.returncode, 0)
        return answer["rows"]

    def exported(self, recording, *options, status=0):
        path = os.path.join(self.folder, "trace.json")
        run = subprocess.run([lib.TOOL, "export", recording, "--format", "chrome", "-o", path, *options],
                             timeout=120, capture_output=True, text=True)
        self.assertEqual(run.returncode, status, run.stderr)
        return path

    def check(self, path):
        with open(path, encoding="utf-8", errors="strict") as f:
            trace = Trace(f.read())
        spans, flows, counters, threads = self.ask(path, SPANS, FLOWS, COUNTERS, THREADS)

        self.check_spans(trace, spans)
        self.check_arrows(trace, flows)

        expected = {}
        for e in trace.phase("C"):
            (series,) = e["args"]
            expected[f"{e['name']} {series}"] = expected.get(f"{e['name']} {series}", 0) + 1
        self.assertEqual({r["name"]: int(r["n"]) for r in counters}, expected)

        names = {int(r["tid"]): (r["name"], r["process"]) for r in threads}
        processes = {e["pid"]: e["args"]["name"] for e in trace.phase("M") if e["name"] == "process_name"}
        for e in trace.phase("M"):
            if e["name"] == "thread_name":
                self.assertEqual(names[e["tid"]], (e["args"]["name"], processes[e["pid"]]))
        return trace

    def check_arrows(self, trace, rows):
        def name(text):
            return "" if text == "[No name]" else text

        seen = [(name(r["out"]), int(r["out_ts"]), name(r["into_"]), int(r["into_ts"])) for r in rows]
        self.assertEqual(len(seen), len(list(trace.arrows())))
        moments = trace.moments()
        for s, f in trace.arrows():
            if ns(s["ts"]) not in moments and ns(f["ts"]) not in moments:
                a, b = trace.enclosing(s), trace.enclosing(f)
                seen.remove((a["name"], a["ts"], b["name"], b["ts"]))

    def check_spans(self, trace, rows):
        def key(s):
            return (s["ts"], s["pid"], s["tid"], -s["dur"], s["name"])

        by_id = {r["id"]: {"name": r["name"] if r["name"] != "[No name]" else "", "ts": int(r["ts"]), "dur": int(r["dur"]), "tid": int(r["tid"]),
                           "pid": int(r["pid"])} for r in rows}
        seen = [(key(by_id[r["id"]]), key(by_id[r["parent"]]) if r["parent"] else None) for r in rows]
        said = [(key(s), key(trace.spans[p]) if p is not None else None)
                for s, p in zip(trace.spans, trace.parents)]
        self.assertEqual(sorted(seen, key=repr), sorted(said, key=repr))

    def test_golden_traces_are_read_as_they_are_meant(self):
        paths = sorted(glob.glob(os.path.join(GOLDEN, "*.chrome.json")))
        self.assertGreaterEqual(len(paths), 3)
        for path in paths:
            with self.subTest(os.path.basename(path)):
                self.assertGreater(len(self.check(path).spans), 0)

    def test_random_traces_are_read_as_they_are_meant(self):
        random = os.path.join(lib.BUILD, "tests", "unit", "test_export_random")
        subprocess.run([random], check=True, timeout=120, capture_output=True,
                       env={**os.environ, "CLIKA_KEEP_TRACES": self.folder})
        paths = sorted(glob.glob(os.path.join(self.folder, "[0-9]*.json")), key=os.path.getsize)
        self.assertGreater(len(paths), 50)
        for path in paths[::len(paths) // 8]:
            with self.subTest(os.path.basename(path)):
                self.check(path)

    def test_tool_exports_what_the_golden_traces_hold(self):
        for recording in sorted(glob.glob(os.path.join(GOLDEN, "*.clika"))):
            with self.subTest(os.path.basename(recording)):
                status = INCOMPLETE if "repaired" in recording else 0
                with open(self.exported(recording, status=status), encoding="utf-8") as got, \
                        open(recording.replace(".clika", ".chrome.json"), encoding="utf-8") as want:
                    self.assertEqual(got.read(), want.read())

    def test_async_spans_and_requests_lie_on_tracks_of_their_own(self):
        path = os.path.join(GOLDEN, "serving.chrome.json")
        with open(path, encoding="utf-8") as f:
            trace = Trace(f.read())
        (rows,) = self.ask(path, ASYNC)
        begun, expected = {}, []
        for e in trace.events:
            if e["ph"] == "b":
                begun[e["cat"], e["id"]] = e
            elif e["ph"] == "e":
                b = begun.pop((e["cat"], e["id"]))
                expected.append((b["name"], ns(b["ts"]), ns(e["ts"]) - ns(b["ts"])))
        self.assertEqual(begun, {})
        self.assertEqual(sorted((r["name"], int(r["ts"]), int(r["dur"])) for r in rows), sorted(expected))

    def test_view_of_one_capture_is_clean_too(self):
        path = self.exported(os.path.join(GOLDEN, "serving.clika"), "--capture", "steady")
        trace = self.check(path)
        self.assertEqual([c["tag"] for c in trace.tree["otherData"]["captures"]], ["steady"])

    def test_time_range_is_clean_too(self):
        path = self.exported(os.path.join(GOLDEN, "serving.clika"), "--from", "25ms", "--to", "35ms")
        self.assertGreater(len(self.check(path).spans), 0)

    def test_trace_without_events_is_recognised(self):
        path = self.exported(os.path.join(GOLDEN, "serving.clika"), "--pid", "1")
        (rows,) = self.ask(path, "select count(*) as n from slice")
        self.assertEqual(rows, [{"n": "0"}])

    def test_large_times_keep_their_nanoseconds(self):
        """A double tells microseconds with three decimals apart for months; a recording is shorter."""
        for days in (1, 30):
            us = Decimal(days * 86400 * 10**6) + Decimal("0.001")
            self.assertEqual(round(math.fsum([float(us)]) * 1000), ns(us))


if __name__ == "__main__":
    unittest.main()
