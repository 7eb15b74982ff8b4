# SPDX-License-Identifier: Apache-2.0
"""report, diff, merge, and what export does with files. Recordings are written here, with known contents; only the
last class needs root.
"""
import csv
import decimal
import fcntl
import gzip
import http.server
import io
import json
import os
import pty
import random
import re
import struct
import subprocess
import sys
import termios
import threading
import time
import unittest

import lib
import recording_file as rf
import schemas
import trace_processor

S, MS, US = 10**9, 10**6, 10**3
BOOT_A, BOOT_B = "aaaaaaaa-0000-0000-0000-000000000000", "bbbbbbbb-0000-0000-0000-000000000000"
WALL = 1_700_000_000 * S
VERBS = ["report", "diff", "merge"]


def run(*args, **kw):
    return lib.tool(*args, check=False, **kw)


class VerbCase(lib.Case):
    def path(self, name):
        return os.path.join(self.tmp(), name)

    def ok(self, *args, code=0):
        done = run(*args)
        self.assertEqual(done.returncode, code, f"{args}: {done.stdout}{done.stderr}")
        return done.stdout

    def refused(self, *args, code=1):
        done = run(*args)
        self.assertEqual(done.returncode, code, f"{args}: {done.stdout}{done.stderr}")
        return done.stderr

    def json(self, *args):
        return json.loads(self.ok(*args))

    def spans(self, recording, *args):
        """All spans, as the CSV export has them."""
        rows = csv.DictReader(io.StringIO(self.ok("export", recording, "-f", "csv", "-o", "-", *args)))
        return list(rows)

    def work(self, name, seed=1, calls=2000, mean=100 * US, spread=0.1, boot=BOOT_A, host="one", pid=300, start=10 * S,
             ops=("conv", "gemm", "softmax"), slower={}, drift=None, wall=WALL, complete=True):
        """One thread that runs ops one after the other, for two seconds."""
        rnd = random.Random(seed)
        r = rf.Recording(host=host, boot=boot, created=wall + start)
        t = r.thread(r.process(pid, start=start - S), pid, start=start - S)
        ts = start + 1000
        for i in range(calls):
            for op in ops:
                d = mean * slower.get(op, 1) * rnd.lognormvariate(0, spread)
                if drift:
                    d *= drift(i / calls)
                r.span(t, ts, int(d), op, "layer")
                ts += int(d) + 1000
        for at in (start, ts + MS):
            r.anchor(at, wall + at)
        r.counts(len(ops) * calls, len(ops) * calls, 0)
        return r.write(self.path(name), complete)


class HelpTest(VerbCase):
    def test_every_verb_has_help_that_teaches(self):
        for verb in VERBS:
            text = self.ok(verb, "--help")
            for part in (f"Usage: clika-bpf-prof {verb}", "Examples:", "Exit status:"):
                self.assertIn(part, text)
            self.assertLessEqual(max(map(len, text.splitlines())), 100)
        for option in ("--max-size", "--gzip", "--push", "--header"):
            self.assertIn(option, self.ok("export", "--help"))

    def test_wrong_command_lines_are_told_and_leave_nothing(self):
        a = self.work("a.clika", calls=10)
        for args in (["report"], ["report", a, "more"], ["report", a, "--top", "0"], ["report", a, "--by", "planet"],
                     ["report", a, "--sort", "colour"], ["diff", a], ["diff", a, a, a],
                     ["diff", a, a, "--fail-above", "x"], ["diff", a, a, "--metric", "mood"],
                     ["diff", a, a, "--from", "2s", "--to", "1s"], ["merge", a], ["merge", "-o", self.path("m")],
                     ["merge", a, "-o", self.path("m"), "--at", "x=mtime"],
                     ["merge", a, "-o", self.path("m"), "--at", f"{a}=noon"],
                     ["merge", a, "-o", self.path("m"), "--max-step", "0"],
                     ["export", a, "--header", "A: b"], ["export", a, "--push", "http://x", "--header", "none"],
                     ["export", a, "-f", "csv", "-o", "-", "-z"], ["export", a, "--max-size", "0"]):
            with self.subTest(args=args):
                self.assertIn("clika-bpf-prof", self.refused(*args, code=2))
        self.assertEqual(os.listdir(self.tmp()), ["a.clika"])


class ReportTest(VerbCase):
    def test_numbers_are_those_that_were_written(self):
        r = rf.Recording()
        t = r.thread(r.process(7), 7)
        for i in range(1000):
            r.span(t, S + i * MS, (i + 1) * 100, "op")
            r.span(t, S + i * MS + 10, 50, "inner", "cat")
        r.anchor(S, WALL)
        r.anchor(3 * S, WALL + 2 * S)
        rows = {row["name"]: row for row in self.json("report", r.write(self.path("a.clika")), "--by", "op", "--json")}
        self.assertEqual((rows["op"]["calls"], rows["op"]["total_ns"]), (1000, 100 * 1000 * 1001 // 2))
        self.assertEqual(rows["op"]["self_ns"], rows["op"]["total_ns"] - 50 * 1000)
        self.assertEqual((rows["inner"]["category"], rows["inner"]["p50_ns"]), ("cat", 50))
        self.assertAlmostEqual(rows["op"]["p50_ns"], 50000, delta=500)
        text = self.ok("report", self.path("a.clika"))
        self.assertRegex(text, r"(?m)^op +1,000 +50\.0 ms +99\.9% +50\.\d ms ")
        self.assertRegex(text, r"(?m)^inner \[cat\] +1,000 +50\.0 us ")

    def test_json_is_report_json_and_its_rows(self):
        a = self.work("a.clika", calls=50)
        whole = self.json("report", a, "--json")
        self.assertEqual(whole, json.loads(self.ok("export", a, "-f", "report", "-o", "-")))
        for by, key in (("op", "ops"), ("type", "op_types"), ("thread", "threads"), ("request", "requests"),
                        ("capture", "captures")):
            self.assertEqual(self.json("report", a, "--json", "--by", by), whole[key], by)
        self.assertEqual(self.json("report", a, "--json", "--by", "memory"), whole["memory"]["devices"])

    def test_rows_are_sorted_filtered_and_cut(self):
        a = self.work("a.clika", calls=50, slower={"softmax": 3, "gemm": 2})
        names = lambda *args: [r["name"] for r in self.json("report", a, "--json", "--by", "op", *args)]
        self.assertEqual(names(), ["softmax", "gemm", "conv"])
        self.assertEqual(names("--sort", "-p99"), ["conv", "gemm", "softmax"])
        self.assertEqual(names("--sort", "name"), ["conv", "gemm", "softmax"])
        self.assertEqual(names("--sort", "-name", "--top", "1"), ["softmax"])
        self.assertEqual(names("--filter", "*m*"), ["softmax", "gemm"])
        text = self.ok("report", a, "--by", "op", "--sort", "-total", "--filter", "*m*", "--top", "1")
        self.assertIn("\ngemm [layer]", text)
        self.assertNotIn("conv", text)
        self.assertIn("and 1 more", text)

    def test_unknown_tables_and_columns_are_answered_with_those_there_are(self):
        a = self.work("a.clika", calls=2)
        self.assertIn("op, type, thread, request, memory, capture", self.refused("report", a, "--by", "x", code=2))
        self.assertIn("busy, share, spans", self.refused("report", a, "--by", "thread", "--sort", "x", code=2))

    def test_each_column_that_help_lists_can_be_sorted_by(self):
        a = self.work("a.clika", calls=5)
        text = self.ok("report", "--help").split("Columns:\n")[1].split("\n\n")[0]
        tables = {}
        for line in text.splitlines():
            m = re.match(r"  (\w+) +name, (.*)", line)
            if m:
                table = m.group(1)
            tables.setdefault(table, "")
            tables[table] += m.group(2) if m else line
        self.assertEqual(set(tables), {"op", "type", "thread", "request", "memory", "capture"})
        for table, columns in tables.items():
            for column in filter(None, re.split(r"[,\s]+", columns)):
                self.ok("report", a, "--by", table, "--sort", column)
                self.ok("report", a, "--by", table, "--sort", column, "--json")

    def on_terminal(self, width, *args):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        p = subprocess.Popen([lib.TOOL, *args], stdout=slave, stderr=subprocess.PIPE)
        os.close(slave)
        out = b""
        while True:
            try:
                got = os.read(master, 65536)
            except OSError:
                break
            if not got:
                break
            out += got
        os.close(master)
        p.stderr.close()
        self.assertEqual(p.wait(lib.PATIENCE), 0)
        return out.decode().replace("\r\n", "\n")

    def test_text_fits_the_terminal_and_holds_no_control_bytes(self):
        r = rf.Recording()
        t = r.thread(r.process(7, comm="\033[31mred"), 7, name="th\033]0;title\007read")
        r.span(t, S, MS, "a\033[2J" + "long name " * 20, "c\nat")
        r.span(t, S + 2 * MS, MS, "short")
        r.request(t, S, MS, "req\033", 1)
        r.event(t, rf.ALLOC, S, id=4096, value=1 << 40)
        r.anchor(S, WALL)
        r.anchor(2 * S, WALL + S)
        a = r.write(self.path("a.clika"))
        for width in (60, 80, 100, 160):
            for by in ([], ["--by", "op"], ["--by", "thread"], ["--by", "request"], ["--by", "memory"]):
                text = self.on_terminal(width, "report", a, *by)
                self.assertLessEqual(max(map(len, text.splitlines())), width, text)
                self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f]")
            text = self.on_terminal(width, "diff", a, a)
            self.assertLessEqual(max(map(len, text.splitlines())), width, text)
            self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f]")
        self.assertIn("\\x1b[2J", self.ok("report", a))

    def test_the_column_sorted_by_is_shown_however_narrow(self):
        a = self.work("a.clika", calls=5)
        self.assertNotIn("stddev", self.on_terminal(80, "report", a, "--by", "op"))
        self.assertIn("stddev", self.on_terminal(80, "report", a, "--by", "op", "--sort", "stddev"))
        self.assertIn("stddev", self.on_terminal(160, "report", a, "--by", "op"))

    def test_parts_of_a_recording(self):
        a = self.work("a.clika", calls=100)
        every = self.json("report", a, "--json", "--by", "op")
        some = self.json("report", a, "--json", "--by", "op", "--to", "10ms")
        self.assertEqual(sum(r["calls"] for r in every), 300)
        self.assertTrue(0 < sum(r["calls"] for r in some) < 300)
        self.assertEqual([r["name"] for r in self.json("report", a, "--json", "--by", "op", "--name", "g*")], ["gemm"])

    def test_an_incomplete_recording_is_shown_and_told(self):
        done = run("report", self.work("a.clika", calls=5, complete=False))
        self.assertEqual(done.returncode, 5)
        self.assertIn("gemm", done.stdout)
        self.assertIn("incomplete", done.stderr)

    def test_what_is_no_recording_is_refused(self):
        with open(self.path("x"), "w") as f:
            f.write("hello")
        self.refused("report", self.path("x"))
        self.refused("report", self.path("nowhere"))


class DiffTest(VerbCase):
    def rows(self, *args):
        d = self.json("diff", *args, "--json")
        errors = [f"{list(e.absolute_path)}: {e.message[:200]}" for e in schemas.validator("diff").iter_errors(d)]
        self.assertEqual(errors, [])
        return {(r["kind"], r["name"]): r for r in d["rows"]}, d

    def test_a_recording_does_not_differ_from_itself(self):
        a = self.work("a.clika")
        rows, d = self.rows(a, a)
        self.assertEqual((d["significant"], d["failed"]), (0, 0))
        for r in rows.values():
            for m in ("count", "median_ns", "total_ns"):
                self.assertEqual((r[m]["change"], r[m]["significant"]), (0, False))
                self.assertLessEqual(r[m]["a"]["low"], r[m]["a"]["value"])
                self.assertGreaterEqual(r[m]["a"]["high"], r[m]["a"]["value"])

    def test_equal_work_does_not_differ_past_its_noise(self):
        for seed in range(10):
            a, b = self.work("a.clika", seed=seed, calls=500), self.work("b.clika", seed=100 + seed, calls=500)
            _, d = self.rows(a, b)
            self.assertEqual(d["significant"], 0, seed)
            self.ok("diff", a, b, "--fail-above", "0")

    def test_a_slower_operation_is_found_and_fails_the_build(self):
        a, b = self.work("a.clika"), self.work("b.clika", seed=2, slower={"gemm": 1.2})
        rows, d = self.rows(a, b)
        r = rows["op", "gemm"]
        self.assertAlmostEqual(r["median_ns"]["change_percent"], 20, delta=3)
        self.assertAlmostEqual(r["total_ns"]["change_percent"], 20, delta=3)
        self.assertTrue(r["median_ns"]["significant"] and r["total_ns"]["significant"])
        self.assertFalse(rows["op", "conv"]["median_ns"]["significant"])
        self.assertEqual(d["rows"][0]["name"], "gemm", "largest change of the total first")
        text = self.ok("diff", a, b, "--fail-above", "5%", code=1)
        self.assertRegex(text, r"past \+5% in median: 1: gemm")
        self.assertRegex(text, r"(?m)^gemm .*\+(19|20)\.\d%\* ")
        self.ok("diff", a, b, "--fail-above", "50%")
        self.ok("diff", a, b, "--metric", "total", "--fail-above", "5", code=1)
        self.ok("diff", a, b, "--metric", "count", "--fail-above", "5")
        self.ok("diff", a, b, "--filter", "conv", "--fail-above", "5")
        self.ok("diff", a, b)

    def test_faster_fails_only_when_asked_for(self):
        a, b = self.work("a.clika", slower={"gemm": 1.3}), self.work("b.clika", seed=2)
        self.ok("diff", a, b, "--fail-above", "5%")
        self.ok("diff", a, b, "--fail-above", "5%", "--either-way", code=1)

    def test_a_small_change_between_many_calls_is_more_than_noise(self):
        a, b = self.work("a.clika", calls=5000), self.work("b.clika", seed=2, calls=5000, mean=103 * US)
        rows, _ = self.rows(a, b)
        for op in ("conv", "gemm", "softmax"):
            self.assertTrue(rows["op", op]["median_ns"]["significant"], op)

    def test_few_calls_never_fail(self):
        a, b = self.work("a.clika", calls=1), self.work("b.clika", calls=1, slower={"gemm": 10})
        rows, _ = self.rows(a, b)
        self.assertIsNone(rows["op", "gemm"]["median_ns"]["noise"])
        self.ok("diff", a, b, "--fail-above", "5%")
        self.assertIn("?", self.ok("diff", a, b, "--metric", "total", "--fail-above", "5%"))

    def test_what_drifts_inside_a_recording_is_noise(self):
        """Half of each recording runs at another speed, as when a clock frequency changes."""
        slow_end = lambda x: 1.3 if x > 0.6 else 1
        slow_begin = lambda x: 1.3 if x < 0.55 else 1
        a, b = self.work("a.clika", drift=slow_end), self.work("b.clika", seed=2, drift=slow_begin)
        rows, _ = self.rows(a, b)
        self.assertFalse(rows["op", "gemm"]["median_ns"]["significant"])
        self.ok("diff", a, b, "--fail-above", "5%")
        for name in ("a", "b"):
            self.ok("export", self.path(name + ".clika"), "-f", "report", "-o", self.path(name + ".json"))
        rows, d = self.rows(self.path("a.json"), self.path("b.json"))
        self.assertTrue(rows["op", "gemm"]["median_ns"]["significant"], "a report cannot know")
        self.assertTrue(any("is a report" in n for n in d["notes"]))

    def test_reports_packed_or_not_compare_like_recordings(self):
        a, b = self.work("a.clika"), self.work("b.clika", seed=2, slower={"gemm": 1.2})
        self.ok("export", a, "-f", "report", "-o", self.path("a.json"))
        self.ok("export", b, "-f", "report", "-o", self.path("b.json.gz"))
        want, _ = self.rows(a, b)
        for x, y in ((self.path("a.json"), b), (a, self.path("b.json.gz")), (self.path("a.json"), self.path("b.json.gz"))):
            rows, _ = self.rows(x, y)
            for key, r in rows.items():
                for m in ("count", "median_ns", "total_ns"):
                    self.assertEqual(r[m]["change"], want[key][m]["change"], (key, m))
                    self.assertEqual(r[m]["significant"], want[key][m]["significant"], (key, m))
            self.ok("diff", x, y, "--fail-above", "5%", code=1)

    def test_new_and_vanished_operations_are_named(self):
        a = self.work("a.clika", ops=("conv", "old one"))
        b = self.work("b.clika", ops=("conv", "new one"))
        text = self.ok("diff", a, b)
        self.assertIn("only in B: 1: new one", text)
        self.assertIn("only in A: 1: old one", text)
        rows, _ = self.rows(a, b)
        self.assertEqual((rows["op", "new one"]["in"], rows["op", "old one"]["in"], rows["op", "conv"]["in"]),
                         ("b", "a", "both"))
        self.ok("diff", a, b, "--metric", "total", "--fail-above", "1000%", code=1)
        self.ok("diff", a, b, "--metric", "median", "--fail-above", "1000%")

    def test_latencies_of_requests_are_rows_too(self):
        for name, latency in (("a", 5 * MS), ("b", 8 * MS)):
            r = rf.Recording()
            t = r.thread(r.process(7), 7)
            for i in range(400):
                r.request(t, S + i * MS, latency + i % 50 * US, "infer", i + 1)
            r.anchor(S, WALL)
            r.anchor(2 * S, WALL + S)
            r.write(self.path(name + ".clika"))
        rows, _ = self.rows(self.path("a.clika"), self.path("b.clika"))
        r = rows["request", "infer"]
        self.assertAlmostEqual(r["median_ns"]["change"], 3 * MS, delta=100 * US)
        self.assertTrue(r["median_ns"]["significant"])
        self.assertEqual(r["count"]["change"], 0)

    def test_lengths_are_taken_out_per_second(self):
        a, b = self.work("a.clika", calls=1000), self.work("b.clika", calls=2000, seed=2)
        rows, d = self.rows(a, b)
        self.assertEqual(rows["op", "conv"]["count"]["change"], 1000)
        self.assertTrue(any("lengths differ" in n for n in d["notes"]))
        rows, d = self.rows(a, b, "--per-second")
        self.assertLess(abs(rows["op", "conv"]["count"]["change_percent"]), 2)
        self.assertFalse(rows["op", "conv"]["total_ns"]["significant"])
        self.assertEqual(d["notes"], [])

    def test_parts_of_recordings_are_compared_and_reports_refused_for_that(self):
        a = self.work("a.clika")
        rows, _ = self.rows(a, a, "--name", "conv")
        self.assertEqual(set(rows), {("op", "conv")})
        self.ok("export", a, "-f", "report", "-o", self.path("a.json"))
        self.assertIn("only a recording", self.refused("diff", self.path("a.json"), a, "--name", "conv", code=2))

    def test_hostile_reports_are_refused(self):
        a = self.work("a.clika", calls=50)
        report = json.loads(self.ok("export", a, "-f", "report", "-o", "-"))
        bad = []
        for change in (lambda d: d.pop("ops"), lambda d: d.update(ops=[1, {}]), lambda d: d.update(schema_version=99),
                       lambda d: d.update(format="other"), lambda d: d.pop("clocks"),
                       lambda d: d["ops"][0].update(p90_ns=1, p50_ns=2), lambda d: d["ops"][0].update(p50_ns=-1),
                       lambda d: d["ops"][0].update(p50_ns="x"), lambda d: d["ops"][0].update(mean_ns=None)):
            d = json.loads(json.dumps(report))
            change(d)
            bad.append(json.dumps(d))
        bad += ["", "{", "[" * 5000, "{\"a\":" * 5000, "nonsense", "\0" * 100, "\x1f\x8b" + "x" * 50]
        for i, text in enumerate(bad):
            with self.subTest(i=i):
                with open(self.path("bad.json"), "w", encoding="latin-1") as f:
                    f.write(text)
                self.assertTrue(self.refused("diff", a, self.path("bad.json")).startswith("clika-bpf-prof: "))


class MergeTest(VerbCase):
    def merge(self, *args, code=0):
        out = self.path("merged.clika")
        done = run("merge", *args, "-o", out)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.said = done.stderr
        return out

    def assertNothingLeft(self, before):
        self.assertEqual(sorted(os.listdir(self.tmp())), before)

    def refuse(self, *args):
        before = sorted(os.listdir(self.tmp()))
        err = self.refused("merge", *args, "-o", self.path("merged.clika"))
        self.assertNothingLeft(before)
        return err

    def moments(self, *recordings):
        """What ran when, in wall-clock nanoseconds."""
        return sorted((int(s["start_unix_ns"]), int(s["duration_ns"]), s["name"], s["category"], s["pid"], s["arguments"])
                      for r in recordings for s in self.spans(r))

    def test_two_processes_of_one_machine_keep_every_time(self):
        a = self.work("a.clika", calls=300, pid=300)
        b = self.work("b.clika", calls=300, pid=301, seed=2, start=10 * S + 5 * MS)
        m = self.merge(a, b)
        self.assertEqual(self.moments(m), self.moments(a, b))
        self.assertIn("2 recordings and 0 traces of 1 machine, 2 processes", self.said)

    def test_two_machines_are_aligned_by_their_wall_clocks(self):
        # The second machine was booted 1000 s later: its clock shows less at the same moment.
        a = self.work("a.clika", calls=200, host="alpha", boot=BOOT_A, start=2000 * S, wall=WALL)
        b = self.work("b.clika", calls=200, host="beta", boot=BOOT_B, start=1000 * S, wall=WALL + 1000 * S, seed=2)
        for order in ((a, b), (b, a)):
            m = self.merge(*order)
            self.assertEqual(self.moments(m), self.moments(a, b))
            self.assertIn("aligned by their wall clocks", self.said)
            report = self.json("report", m, "--json")
            self.assertEqual([(p["pid"], p["label"]) for p in report["targets"]["processes"]],
                             [(300, "alpha"), (300, "beta")] if order[0] is a else [(300, "beta"), (300, "alpha")])
            self.assertEqual(len({s["process"] + s["thread"] + str(i // 600) for i, s in enumerate(self.spans(m))}), 2)
            self.assertEqual(report["host"]["name"], "alpha, beta" if order[0] is a else "beta, alpha")
            pids = {e["pid"] for e in json.loads(self.ok("export", m, "-f", "chrome", "-o", "-"))["traceEvents"]
                    if e["ph"] == "X"}
            self.assertEqual(len(pids), 2, "equal pids of two machines are two processes")

    def test_a_wall_clock_that_was_set_is_refused_where_it_is_needed(self):
        r = rf.Recording(boot=BOOT_A, host="alpha")
        t = r.thread(r.process(1), 1)
        r.span(t, 10 * S, MS, "op")
        r.anchor(10 * S, WALL + 10 * S)
        r.anchor(11 * S, WALL + 11 * S + 200 * MS)
        a = r.write(self.path("a.clika"))
        b = self.work("b.clika", calls=5, boot=BOOT_B, host="beta")
        self.assertIn("was set by 200.000 ms", self.refuse(a, b))
        self.merge(a, b, "--max-step", "1s")
        self.assertIn("to 200.000 ms", self.said)
        c = self.work("c.clika", calls=5, boot=BOOT_A, pid=77)
        self.merge(a, c)
        self.assertIn("by the time since boot", self.said)

    def test_recordings_without_anchors_are_refused_unless_they_share_a_boot(self):
        def plain(name, boot, pid):
            r = rf.Recording(boot=boot, host="host " + name)
            r.span(r.thread(r.process(pid), pid), 10 * S, MS, "op")
            return r.write(self.path(name))
        a, b, c = plain("a", BOOT_A, 1), plain("b", BOOT_B, 2), plain("c", BOOT_A, 3)
        self.assertIn("no anchors", self.refuse(a, b))
        self.assertEqual(len(self.spans(self.merge(a, c))), 2)
        d = plain("d", "", 4)
        self.assertIn("no anchors", self.refuse(a, d))

    def test_anchors_of_one_recording_do_not_shut_another_out(self):
        def plain(name, pid, start, anchored):
            r = rf.Recording(boot=BOOT_A)
            r.span(r.thread(r.process(pid), pid), start, 500 * S, "op")
            if anchored:
                r.anchor(10 * S, WALL)
                r.anchor(11 * S, WALL + S)
            return r.write(self.path(name))
        a, b = plain("a", 1, 400 * S, False), plain("b", 2, 4000 * S, False)
        c = self.work("c.clika", calls=5)
        self.assertEqual(sorted(s["name"] for s in self.spans(self.merge(a, c, b)) if s["name"] == "op"), ["op", "op"])
        ort = self.path("ort.json")
        with open(ort, "w") as f:
            json.dump(ImportTest.ORT, f)
        self.assertEqual(len(self.spans(self.merge(a, ort, "--at", f"{ort}=+1000s"))), 4)

    def test_one_process_recorded_twice_at_once_is_refused(self):
        a = self.work("a.clika", calls=50)
        b = self.work("b.clika", calls=50, start=10 * S)
        self.assertIn("process 300 (srv) was recorded at the same time", self.refuse(a, b))
        self.assertIn("at the same time", self.refuse(a, a))

    def test_one_process_recorded_twice_in_a_row_stays_one(self):
        a = rf.Recording(boot=BOOT_A)
        t = a.thread(a.process(300, start=S), 300, start=S)
        a.span(t, 10 * S, MS, "first")
        b = rf.Recording(boot=BOOT_A)
        p = b.process(300, start=S)
        b.span(b.thread(p, 300, start=S, name="renamed"), 20 * S, MS, "second")
        b.span(b.thread(p, 301, start=2 * S), 20 * S, MS, "third")
        for r in (a, b):
            r.anchor(9 * S, WALL + 9 * S)
            r.anchor(21 * S, WALL + 21 * S)
        m = self.merge(a.write(self.path("a")), b.write(self.path("b")))
        self.assertIn("1 processes, 2 threads", self.said)
        spans = self.spans(m)
        self.assertEqual([(s["name"], s["thread"], s["tid"]) for s in spans],
                         [("first", "renamed", "300"), ("second", "renamed", "300"), ("third", "main", "301")])
        c = rf.Recording(boot=BOOT_A)  # the number was given to another process
        c.span(c.thread(c.process(300, start=15 * S), 300, start=15 * S), 20 * S, MS, "other")
        c.anchor(9 * S, WALL + 9 * S)
        c.anchor(21 * S, WALL + 21 * S)
        self.merge(self.path("a"), c.write(self.path("c")))
        self.assertIn("2 processes, 2 threads", self.said)

    def test_what_has_no_end_ends_with_its_own_recording(self):
        a = rf.Recording(boot=BOOT_A)
        t = a.thread(a.process(300, start=S), 300)
        a.event(t, rf.SPAN, 10 * S, "open", id=7, flags=rf.OPEN)
        a.event(t, rf.ASYNC_BEGIN, 10 * S, "async", id=1)
        a.event(t, rf.REQUEST_BEGIN, 10 * S, "request", id=1)
        a.anchor(10 * S, WALL)
        a.anchor(12 * S, WALL + 2 * S)
        b = rf.Recording(boot=BOOT_A)
        b.span(b.thread(b.process(301, start=S), 301), 100 * S, MS, "later")
        b.anchor(100 * S, WALL + 90 * S)
        b.anchor(101 * S, WALL + 91 * S)
        a, b = a.write(self.path("a")), b.write(self.path("b"))
        m = self.merge(a, b)
        spans = {s["name"]: s for s in self.spans(m)}
        self.assertEqual((spans["open"]["duration_ns"], spans["open"]["flags"]), (str(2 * S), "unfinished"))
        merged, alone = self.json("report", m, "--json"), self.json("report", a, "--json")
        for key in ("async_spans", "requests"):
            self.assertEqual(merged[key], [dict(r, **{k: merged[key][0][k] for k in r if "per_second" in k})
                                           for r in alone[key]], key)
        self.assertEqual(merged["async_spans"][0]["duration"]["total_ns"], 2 * S)
        self.assertEqual(merged["requests"][0]["unfinished"], 1)

    def test_losses_counts_and_warnings_are_added_up(self):
        paths = []
        for i in (1, 2):
            r = rf.Recording(boot=BOOT_A)
            p = r.process(300 + i)
            r.span(r.thread(p, 300 + i), 10 * S, MS, "op")
            r.loss(1, 10 * i)
            r.loss(1, 1, p)  # a part of the whole above
            r.loss(2, 5, p)  # a cause that no row tells as a whole
            r.counts(100, 90, 10)
            r.warning("late-attach", f"words {i}")
            paths.append(r.write(self.path(f"{i}.clika")))
        report = self.json("report", self.merge(*paths), "--json")
        self.assertEqual(report["loss"]["records"], 40)
        self.assertEqual((report["records"]["emitted"], report["records"]["recorded"], report["records"]["lost"]),
                         (200, 180, 20))
        words = [w["text"] for w in report["warnings"] if w["code"] == "late-attach"]
        self.assertEqual(len(words), 2)
        for i in (1, 2):
            self.assertTrue(any(w.endswith(f"{i}.clika: words {i}") for w in words), words)

    def test_captures_stay_and_a_recording_without_gets_one(self):
        a = rf.Recording(boot=BOOT_A)
        t = a.thread(a.process(300), 300)
        a.span(t, 10 * S, MS, "warm-up")
        a.span(t, 12 * S, MS, "measured")
        a.capture(11 * S, 13 * S, "steady")
        a = a.write(self.path("a"))
        b = rf.Recording(boot=BOOT_A)
        b.span(b.thread(b.process(301), 301), 20 * S, MS, "other")
        b = b.write(self.path("b"))
        m = self.merge(a, b)
        self.assertEqual([s["name"] for s in self.spans(m)], ["measured", "other"])
        self.assertEqual([s["name"] for s in self.spans(m, "--capture", "steady")], ["measured"])
        self.assertEqual([s["name"] for s in self.spans(m, "--outside-captures")], ["warm-up", "measured", "other"])

    def test_incomplete_recordings_are_merged_and_told(self):
        a = self.work("a.clika", calls=5, complete=False)
        b = self.work("b.clika", calls=5, pid=301)
        m = self.merge(a, b, code=5)
        self.assertEqual(len(self.spans(m)), 30)
        self.assertIn("incomplete", self.ok("report", m))

    def test_the_result_can_be_exported_and_merged_again(self):
        a, b = self.work("a.clika", calls=20), self.work("b.clika", calls=20, boot=BOOT_B, host="two", wall=WALL + S)
        m = self.merge(a, b)
        os.rename(m, self.path("first.clika"))
        c = self.work("c.clika", calls=20, pid=400)
        self.assertEqual(self.moments(self.merge(self.path("first.clika"), c)), self.moments(a, b, c))
        formats = re.findall(r"(?m)^[* ] (\w+) +\S+\.\S+ ", self.ok("export", "--help").split("Formats:")[1])
        self.assertIn("perfetto", formats)
        self.ok("export", self.path("first.clika"), "-f", ",".join(formats), "-o", self.path("all"))

    def test_merging_an_input_onto_itself_is_refused(self):
        a, b = self.work("a.clika", calls=5), self.work("b.clika", calls=5, pid=301)
        self.assertIn("one of the files", self.refused("merge", a, b, "-o", a))
        self.assertEqual(len(self.spans(a)), 15)

    def test_random_events_survive(self):
        rnd = random.Random(5)
        paths = []
        for i in range(3):
            r = rf.Recording(boot=BOOT_A)
            p = r.process(300 + i)
            threads = [r.thread(p, 310 + 10 * i + k) for k in range(3)]
            for k in range(3000):
                t, ts = rnd.choice(threads), 10 * S + rnd.randrange(S)
                args = [(f"k{rnd.randrange(9)}", rnd.choice([rnd.randrange(-9**9, 9**9), rnd.random(), "text" * rnd.randrange(9)]))
                        for _ in range(rnd.randrange(4))]
                r.event(t, rnd.choice([rf.SPAN, rf.INSTANT, rf.COUNTER, rf.FLOW_OUT, rf.FLOW_IN, rf.ALLOC, rf.FREE]), ts,
                        f"n{rnd.randrange(30)}", rnd.choice([None, "cat"]), dur=rnd.randrange(MS), id=rnd.randrange(1, 500),
                        value=rnd.randrange(1, 10**6), args=args, stream=rnd.randrange(3))
            r.anchor(10 * S, WALL)
            r.anchor(12 * S, WALL + 2 * S)
            paths.append(r.write(self.path(f"{i}.clika")))
        m = self.merge(*paths)
        self.assertEqual(self.moments(m), self.moments(*paths))
        merged = self.json("report", m, "--json")
        alone = [self.json("report", p, "--json") for p in paths]
        for key in ("spans", "instants", "counter_samples", "flow_steps", "memory_events"):
            self.assertGreater(merged["counts"][key], 0)
            self.assertEqual(merged["counts"][key], sum(d["counts"][key] for d in alone), key)


class ImportTest(VerbCase):
    merge, refuse, assertNothingLeft = MergeTest.merge, MergeTest.refuse, MergeTest.assertNothingLeft

    KINETO = {
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "displayTimeUnit": "ms",
        "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": "aten::conv2d", "pid": 900, "tid": 901, "ts": 100.125, "dur": 50.5,
             "args": {"External id": 7, "Input Dims": [[1, 3], [2]], "ratio": 0.5, "flag": True, "none": None}},
            {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 900, "tid": 901, "ts": 110.001, "dur": 10, "args": {}},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 900, "tid": 901, "ts": 112, "dur": 3},
            {"ph": "X", "cat": "kernel", "name": "vec_add", "pid": 0, "tid": 7, "ts": 130, "dur": 20, "args": {"stream": 7}},
            {"ph": "s", "id": 9, "cat": "ac2g", "name": "ac2g", "pid": 900, "tid": 901, "ts": 112},
            {"ph": "f", "bp": "e", "id": 9, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 7, "ts": 130},
            {"ph": "i", "s": "t", "name": "[memory]", "pid": 900, "tid": 901, "ts": 105,
             "args": {"Bytes": 4096, "Addr": 65536, "Device Id": 0, "Device Type": 1}},
            {"ph": "i", "s": "t", "name": "[memory]", "pid": 900, "tid": 901, "ts": 140,
             "args": {"Bytes": -4096, "Addr": 65536, "Device Id": 0, "Device Type": 1}},
            {"ph": "C", "name": "util", "pid": 900, "ts": 120, "args": {"gpu": 12.5, "mem": 3}},
            {"ph": "M", "name": "process_name", "pid": 900, "tid": 0, "args": {"name": "python"}},
            {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "GPU 0"}},
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
            {"ph": "X", "name": "broken", "pid": 1, "tid": 1, "ts": 5, "dur": -1},
            {"ph": "X", "name": "no time", "pid": 1, "tid": 1},
            {"ph": "N", "name": "an object", "pid": 1, "tid": 1, "ts": 5, "id": 1},
        ],
        "traceName": "t.json", "baseTimeNanoseconds": WALL + 10 * S,
    }
    ORT = [
        {"cat": "Session", "pid": 900, "tid": 901, "dur": 400, "ts": 3, "ph": "X", "name": "model_loading_uri", "args": {}},
        {"cat": "Node", "pid": 900, "tid": 901, "dur": 17, "ts": 1003, "ph": "X", "name": "conv1_kernel_time",
         "args": {"op_name": "Conv", "provider": "CPUExecutionProvider", "input_type_shape": [{"float": [1, 1, 28, 28]}]}},
        {"cat": "Session", "pid": 900, "tid": 901, "dur": 30, "ts": 1000, "ph": "X", "name": "SequentialExecutor::Execute"},
    ]

    def write(self, name, what):
        opener = gzip.open if name.endswith(".gz") else open
        with opener(self.path(name), "wt") as f:
            f.write(what if isinstance(what, str) else json.dumps(what))
        return self.path(name)

    def base(self):
        return self.work("a.clika", calls=20, start=10 * S)

    def imported(self, m):
        return {s["name"]: s for s in self.spans(m) if s["category"] != "layer"}

    def test_a_kineto_trace_lies_where_its_wall_clock_says(self):
        a = self.base()
        for name in ("k.json", "k.pt.trace.json.gz"):
            m = self.merge(a, self.write(name, self.KINETO))
            spans = self.imported(m)
            self.assertEqual(set(spans), {"aten::conv2d", "aten::add", "cudaLaunchKernel", "vec_add"})
            conv = spans["aten::conv2d"]
            self.assertEqual((int(conv["start_unix_ns"]), int(conv["duration_ns"])), (WALL + 10 * S + 100125, 50500))
            self.assertEqual(int(spans["aten::add"]["start_unix_ns"]), WALL + 10 * S + 110001)
            self.assertEqual(spans["aten::add"]["parent_id"], conv["id"])
            self.assertEqual((conv["process"], conv["pid"], conv["tid"]), ("python", "900", "901"))
            self.assertEqual(spans["vec_add"]["thread"], "GPU 0 0: stream 7")
            self.assertEqual(json.loads(conv["arguments"]), {"External id": 7, "Input Dims": "[[1,3],[2]]", "ratio": 0.5,
                                                            "flag": "true"})
            self.assertIn("1 recording and 1 trace", self.said)
            self.assertIn("3 rows", self.said)
            report = self.json("report", m, "--json")
            memory = [d for d in report["memory"]["devices"] if d["pid"] == 900]
            self.assertEqual([(d["device"], d["peak_bytes"], d["current_bytes"]) for d in memory], [(1, 4096, 0)])
            self.assertEqual({c["name"]: c["last"] for c in report["counters"]}, {"util gpu": 12.5, "util mem": 3})
            self.assertEqual([(f["name"], f["into"], f["wait"]["total_ns"]) for f in report["flows"]],
                             [("ac2g", "vec_add", 18000)])
            self.assertEqual([p["label"] for p in report["targets"]["processes"] if p["pid"] == 900],
                             [f"Kineto: {name}"])
            self.assertEqual(len(self.spans(m, "--capture", "imported")), 4 + len(
                [s for s in self.spans(a) if self.overlaps(s, WALL + 10 * S + 100125, WALL + 10 * S + 150625)]))

    @staticmethod
    def overlaps(span, begin, end):
        at = int(span["start_unix_ns"])
        return at <= end and at + int(span["duration_ns"]) > begin

    def test_a_kineto_trace_of_our_own_comes_back(self):
        a = self.base()
        b = self.work("b.clika", calls=20, pid=777, start=10 * S, seed=3)
        self.ok("export", b, "-f", "kineto", "-o", self.path("b.json"))
        m = self.merge(a, self.path("b.json"))
        want = sorted((int(s["start_unix_ns"]), int(s["duration_ns"]), s["name"]) for s in self.spans(b))
        got = sorted((int(s["start_unix_ns"]), int(s["duration_ns"]), s["name"])
                     for s in self.spans(m) if s["pid"] == "777")
        self.assertEqual([g for g in got if g[2] in ("conv", "gemm", "softmax")], want)

    def test_older_kineto_traces_with_wall_clock_times(self):
        old = json.loads(json.dumps(self.KINETO))
        del old["baseTimeNanoseconds"]
        for e in old["traceEvents"]:
            if "ts" in e:
                e["ts"] = (WALL + 10 * S) // 1000 + round(e["ts"])
        spans = self.imported(self.merge(self.base(), self.write("old.json", old)))
        self.assertEqual(int(spans["aten::conv2d"]["start_unix_ns"]), WALL + 10 * S + 100000)

    def test_onnx_runtime_needs_to_be_told_when(self):
        a, ort = self.base(), self.write("ort.json", self.ORT)
        self.assertIn("does not say when it was made", self.refuse(a, ort))
        for at, begin in ((f"@{(WALL + 10 * S) // S}.5", WALL + 10 * S + S // 2),
                          ("2023-11-14T22:13:30.25Z", WALL + 10 * S + S // 4),
                          ("2023-11-15T00:13:30.25+02:00", WALL + 10 * S + S // 4),
                          ("+5ms", WALL + 10 * S + 5 * MS)):
            with self.subTest(at=at):
                spans = self.imported(self.merge(a, ort, "--at", f"{ort}={at}"))
                first = int(spans["model_loading_uri"]["start_unix_ns"])
                self.assertEqual(first, begin if at[0] != "+" else self.first_moment(a) + 5 * MS)
                self.assertEqual(int(spans["conv1_kernel_time"]["start_unix_ns"]), first + MS)
                self.assertEqual(spans["conv1_kernel_time"]["parent_id"], spans["SequentialExecutor::Execute"]["id"])
                self.assertEqual(json.loads(spans["conv1_kernel_time"]["arguments"])["op_name"], "Conv")

    def first_moment(self, recording):
        return self.json("report", recording, "--json")["clocks"]["base_realtime_ns"]

    def test_onnx_runtime_by_the_time_in_its_name(self):
        a = self.base()
        for stamp, ns in (("", 0), ("_741", 741 * MS)):
            ort = self.write(time.strftime("my_ort_%Y-%m-%d_%H-%M-%S", time.localtime((WALL + 11 * S) // S)) + stamp + ".json",
                             self.ORT)
            spans = self.imported(self.merge(a, ort, "--at", f"{ort}=name"))
            self.assertEqual(int(spans["model_loading_uri"]["start_unix_ns"]), WALL + 11 * S + ns)
        plain = self.write("ort.json", self.ORT)
        self.refused("merge", a, plain, "--at", f"{plain}=name", "-o", self.path("m"), code=2)

    def test_onnx_runtime_by_the_time_its_file_was_written(self):
        a, ort = self.base(), self.write("ort.json", self.ORT)
        os.utime(ort, ns=(0, WALL + 11 * S))
        spans = self.imported(self.merge(a, ort, "--at", f"{ort}=mtime"))
        last = max(int(s["start_unix_ns"]) + int(s["duration_ns"]) for s in spans.values())
        self.assertEqual(last, WALL + 11 * S)
        self.assertIn("last written", self.said)

    def test_a_trace_far_away_is_pointed_out(self):
        ort = self.write("ort.json", self.ORT)
        m = self.merge(self.base(), ort, "--at", f"{ort}=@{(WALL + 5000 * S) // S}")
        self.assertIn("behind the recordings", self.said)
        self.assertEqual(len(self.imported(m)), 3)
        self.assertIn("booted", self.refuse(self.path("a.clika"), ort, "--at", f"{ort}=@5"))

    def test_a_number_that_is_recorded_too_keeps_the_recorded_process(self):
        a = self.work("a.clika", calls=5, pid=900, start=10 * S)
        m = self.merge(a, self.write("k.json", self.KINETO))
        processes = self.json("report", m, "--json")["targets"]["processes"]
        self.assertEqual(sorted((p["pid"], p["label"] or "") for p in processes), [(900, ""), (900, "Kineto: k.json")])
        trace = json.loads(self.ok("export", m, "-f", "chrome", "-o", "-"))["traceEvents"]
        self.assertEqual({e["pid"] for e in trace if e.get("name") == "gemm"}, {900})
        self.assertNotIn(900, {e["pid"] for e in trace if e.get("name") == "vec_add"})

    def test_damaged_traces(self):
        a = self.base()
        whole = json.dumps(self.KINETO)
        self.assertIn("cut off", self.refuse(a, self.write("t.json", whole[:-400])))
        for text in ("{}", "[]", '{"traceEvents": []}', '{"traceEvents": 5}', "{" * 3000, "[" * 3000, '{"a"', '[{"ph":"X"'):
            with self.subTest(text=text[:30]):
                self.refuse(a, self.write("t.json", text))
        array = json.dumps(self.ORT)
        for text in (array[:-1], array[:-1] + ",", array[:-1] + ",{"):
            ort = self.write("t.json", text)
            m = self.merge(a, ort, "--at", f"{ort}=+0s")
            self.assertEqual(len(self.imported(m)), 3, text[-20:])
            self.assertIn("cut off", self.said)

    def test_only_traces_are_refused(self):
        self.assertIn("no recording", self.refuse(self.write("k.json", self.KINETO)))

    def test_absurd_times_and_names(self):
        a = self.base()
        events = [{"ph": "X", "name": n, "pid": p, "tid": t, "ts": ts, "dur": d} for n, p, t, ts, d in (
            ("\u0000\u001b[2J", "x", "y", 1, 1), ("far", 1, 1, 9e18, 1), ("exp", 1, -1, 1e2, 1e1), ("big", 1, 2**70, 2, 1),
            ("", 0, 0, 3, 0), ("n" * 10000, 1, 1, 4, 1), ("dur", 1, 1, 5, 1e300))]
        t = self.write("t.json", [e for e in events] + [{"ph": "X", "name": "v", "pid": [1], "tid": {}, "ts": 6, "dur": 1}])
        m = self.merge(a, t, "--at", f"{t}=+0s")
        self.assertEqual(len(self.spans(m)), 60 + 6)
        self.ok("export", m, "-f", "chrome,perfetto,summary", "-o", self.path("all"))

    def test_begins_and_ends_are_spans(self):
        def event(ph, ts, name=None, tid=901, **more):
            return {"ph": ph, "ts": ts, "pid": 900, "tid": tid, **({"name": name} if name else {}), **more}

        t = self.write("t.json", [
            event("B", 10, "outer", cat="work", args={"n": 1, "way": "begin"}),
            event("B", 20, "inner"), event("B", 20, "innermost"), event("B", 25, "of another thread", tid=902),
            event("E", 30, "innermost"), event("E", 30, args={"found": 2}),
            event("X", 31, "whole", dur=4),
            event("B", 40, "left"), event("B", 41, "its child"), event("E", 50, "outer", args={"way": "end"}),
            event("E", 60, "nobody began it"), event("E", 61),
            event("B", 70, "open to the end"), event("B", 90, "backwards", tid=903), event("E", 80, "backwards", tid=903),
            event("i", 100, "last")])
        m = self.merge(self.base(), t, "--at", f"{t}=+0s")
        spans = self.imported(m)
        first = min(int(s["start_unix_ns"]) for s in spans.values())
        by_id = {s["id"]: s["name"] for s in spans.values()}
        self.assertEqual({n: ((int(s["start_unix_ns"]) - first) // 1000 + 10, int(s["duration_ns"]) // 1000,
                              by_id.get(s["parent_id"]), s["flags"]) for n, s in spans.items()}, {
            "outer": (10, 40, None, ""), "inner": (20, 10, "outer", ""), "innermost": (20, 10, "inner", ""),
            "whole": (31, 4, "outer", ""), "left": (40, 10, "outer", "unfinished"),
            "its child": (41, 9, "left", "unfinished"), "open to the end": (70, 30, None, "unfinished"),
            "of another thread": (25, 75, None, "unfinished")})
        self.assertEqual(spans["outer"]["category"], "work")
        self.assertEqual(json.loads(spans["outer"]["arguments"]), {"n": 1, "way": "end"})
        self.assertEqual(json.loads(spans["inner"]["arguments"]), {"found": 2})
        self.assertIn("4 rows", self.said)  # two ends of nothing, and a pair that goes back in time

    def test_many_begins_and_ends(self):
        events, total = [], 0
        for i in range(60000):
            name, tid = f"op{i % 5}", 901 + i % 2
            events += [{"ph": "B", "name": name, "pid": 900, "tid": tid, "ts": i * 10},
                       {"ph": "B", "name": "in it", "pid": 900, "tid": tid, "ts": i * 10 + 1},
                       {"ph": "E", "pid": 900, "tid": tid, "ts": i * 10 + 4}, {"ph": "E", "pid": 900, "tid": tid, "ts": i * 10 + 6}]
            total += 9000
        events += [{"ph": "B", "name": "deeper and deeper", "pid": 900, "tid": 999, "ts": 600000 + i} for i in range(3000)]
        events += [{"ph": "E", "name": "deeper and deeper", "pid": 900, "tid": 999, "ts": 610000 + i} for i in range(3000)]
        t = self.write("t.json.gz", {"traceEvents": events})
        m = self.merge(self.base(), t, "--at", f"{t}=+0s")
        rows = [r for r in self.json("report", m, "--json", "--by", "op") if r["category"] is None]
        shallow = [r for r in rows if r["name"] != "deeper and deeper"]
        self.assertEqual((sum(r["calls"] for r in shallow), sum(r["total_ns"] for r in shallow)), (120000, 60000 * 9000))
        self.assertEqual([r["calls"] for r in rows if r["name"] == "deeper and deeper"], [1000])
        self.assertIn("4 k rows", self.said)

    def per_operation(self, spans):
        found = {}
        for name, ns in spans:
            n, sum_ns = found.get(name, (0, 0))
            found[name] = (n + 1, sum_ns + ns)
        return found

    def told_by(self, path):
        """{name: (calls, ns)} of whole spans, as the file itself has them."""
        with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
            whole = json.load(f, parse_float=decimal.Decimal)
        events = whole["traceEvents"] if isinstance(whole, dict) else whole
        return self.per_operation((e["name"], int(e["dur"] * 1000)) for e in events if e["ph"] == "X")

    def test_a_trace_of_current_pytorch(self):
        """tests/e2e/traces/README says how it was made."""
        trace = os.path.join(lib.ROOT, "tests", "e2e", "traces", "torch-2.15.pt.trace.json.gz")
        m = self.merge(self.base(), trace)
        spans = list(csv.DictReader(io.StringIO(self.ok("export", m, "-f", "csv", "-o", "-"))))
        mine = [s for s in spans if s["category"] != "layer"]
        told = self.told_by(trace)
        self.assertEqual(self.per_operation((s["name"], int(s["duration_ns"])) for s in mine), told)
        self.assertGreater(told["aten::linear"][0], 5)
        self.assertEqual(self.json("report", m, "--json")["repaired"]["clipped"], 0)
        by_id = {s["id"]: s for s in mine}
        parents = {by_id[s["parent_id"]]["name"] for s in mine if s["name"] == "aten::addmm" and s["parent_id"]}
        self.assertEqual(parents, {"aten::linear"})
        linear = next(s for s in mine if s["name"] == "aten::linear")
        self.assertEqual(json.loads(linear["arguments"])["Input Dims"], "[[8,64],[64,64],[64]]")
        memory = self.json("report", m, "--json")["memory"]["devices"]
        self.assertEqual([(d["device"], d["peak_bytes"] > 0) for d in memory], [(0, True)])

    def test_a_trace_of_the_installed_pytorch(self):
        made = self.path("torch.json")
        done = subprocess.run([sys.executable if self.has_torch(sys.executable) else "/usr/bin/python3",
                               os.path.join(lib.ROOT, "tests", "e2e", "traces", "make_torch.py"), made],
                              capture_output=True, text=True)
        if done.returncode == 77:
            self.skipTest("PyTorch is not installed")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(made) as f:
            at = [] if "baseTimeNanoseconds" in f.read() else ["--at", f"{made}=+0s"]
        m = self.merge(self.base(), made, *at)
        rows = [r for r in self.json("report", m, "--json", "--by", "op") if r["category"] != "layer"]
        told = self.told_by(made)
        self.assertEqual({r["name"]: r["calls"] for r in rows}, {name: n for name, (n, _) in told.items()})
        # Profilers that round to microseconds let a span end behind the one around it: cut there.
        for r in rows:
            self.assertLessEqual(abs(r["total_ns"] - told[r["name"]][1]), 1000 * r["calls"], r["name"])

    @staticmethod
    def has_torch(python):
        return not subprocess.run([python, "-c", "import torch"], capture_output=True).returncode

    def test_many_events_in_any_order(self):
        rnd = random.Random(3)
        events = []
        for i in range(80000):
            events.append({"ph": "X", "name": f"op{i % 7}", "pid": 900, "tid": 901 + i % 3, "ts": i * 10, "dur": 5})
        rnd.shuffle(events)
        t = self.write("t.json.gz", {"traceEvents": events, "schemaVersion": 1, "baseTimeNanoseconds": WALL + 10 * S})
        m = self.merge(self.base(), t)
        rows = [r for r in self.json("report", m, "--json", "--by", "op") if r["category"] is None]
        self.assertEqual((sum(r["calls"] for r in rows), sum(r["total_ns"] for r in rows)), (80000, 80000 * 5000))
        self.assertEqual(self.json("report", m, "--json")["repaired"]["clipped"], 0)


class TraceTest(VerbCase):
    """Merged recordings and parts of large ones, in Perfetto's trace processor."""
    merge, write, KINETO = MergeTest.merge, ImportTest.write, ImportTest.KINETO

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        trace_processor.setup()

    def slices(self, path, where="1"):
        bad, (rows,) = trace_processor.ask(path, f"select count(1) as n from slice where {where}")
        self.assertEqual(bad, [], path)
        return int(rows[0]["n"])

    def test_a_merge_of_machines_and_traces_opens_without_complaint(self):
        a = self.work("a.clika", calls=50, start=10 * S)
        b = self.work("b.clika", calls=50, start=4 * S, boot=BOOT_B, host="two", wall=WALL + 6 * S)
        m = self.merge(a, b, self.write("k.json", self.KINETO))
        for fmt, name in (("perfetto", "t.pftrace"), ("chrome", "t.json")):
            self.ok("export", m, "-f", fmt, "-o", self.path(name))
            self.assertEqual(self.slices(self.path(name), "name in ('conv', 'gemm', 'softmax')"), 300)
            self.assertEqual(self.slices(self.path(name), "name in ('aten::conv2d', 'aten::add', 'vec_add')"), 3)
        bad, (rows,) = trace_processor.ask(self.path("t.pftrace"), "select count(1) as n from flow",)
        self.assertEqual((bad, int(rows[0]["n"])), ([], 1))

    def test_each_part_opens_without_complaint(self):
        a = self.work("a.clika", calls=3000)
        out = self.path("parts")
        for fmt, name, size in (("perfetto", "trace", "100K"), ("chrome", "chrome_trace", "400K")):
            self.ok("export", a, "-f", fmt, "-o", out + "/", "--max-size", size)
            files = ExportTest.parts(self, out, name)
            self.assertGreater(len(files), 1)
            n = sum(self.slices(f) for f in files)
            self.assertTrue(9000 <= n <= 9000 + len(files), n)


class ExportTest(VerbCase):
    def wrote(self, *args):
        done = run("export", *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [l for l in done.stderr.splitlines() if not l.startswith("clika-bpf-prof:")]

    def test_many_formats_in_one_pass_are_named_and_there(self):
        a = self.work("a.clika", calls=100)
        out = self.path("all")
        files = self.wrote(a, "-f", "standard,perfetto,csv,folded", "-o", out)
        self.assertEqual(sorted(os.path.basename(f) for f in files), sorted(os.listdir(out)))
        self.assertEqual(len(files), 7)
        self.assertEqual(self.wrote(a, "-f", "csv", "-o", out, "-q"), [])

    def test_filters_leave_out_what_they_say(self):
        a = self.work("a.clika", calls=100)
        b = self.work("b.clika", calls=100, pid=301)
        self.ok("merge", a, b, "-o", self.path("m.clika"))
        m = self.path("m.clika")
        self.assertEqual({s["pid"] for s in self.spans(m, "--pid", "301")}, {"301"})
        self.assertEqual({s["tid"] for s in self.spans(m, "--tid", "300")}, {"300"})
        self.assertEqual({s["name"] for s in self.spans(m, "--name", "*m*")}, {"gemm", "softmax"})
        part = self.spans(m, "--from", "5ms", "--to", "6ms")
        self.assertTrue(0 < len(part) < 100)
        for s in part:
            at = int(s["start_ns"])
            self.assertTrue(at <= 6 * MS and at + int(s["duration_ns"]) >= 5 * MS)

    def test_packing_by_name_and_by_option(self):
        a = self.work("a.clika", calls=100)
        plain = self.ok("export", a, "-f", "csv", "-o", "-")
        self.ok("export", a, "-f", "csv", "-o", self.path("t.csv.gz"))
        self.assertEqual(self.wrote(a, "-f", "csv,pprof", "-o", self.path("packed"), "-z"),
                         [self.path("packed/spans.csv.gz"), self.path("packed/profile.pb.gz")])
        self.assertEqual(self.wrote(a, "-f", "csv", "-o", self.path("u.csv"), "-z"), [self.path("u.csv.gz")])
        for f in ("t.csv.gz", "packed/spans.csv.gz", "u.csv.gz"):
            with gzip.open(self.path(f), "rt", newline="") as g:
                self.assertEqual(g.read().replace("\r\n", "\n"), plain.replace("\r\n", "\n"))

    def parts(self, folder, name):
        found = [f for f in os.listdir(folder) if f.startswith(name + ".part")]
        return [os.path.join(folder, f) for f in sorted(found, key=lambda f: int(re.search(r"part(\d+)", f).group(1)))]

    def test_what_is_too_large_is_split_into_whole_files(self):
        a = self.work("a.clika", calls=4000)
        out = self.path("all")
        files = self.wrote(a, "-f", "chrome,csv,summary,perfetto", "-o", out, "--max-size", "300K")
        self.assertEqual(sorted(os.path.basename(f) for f in files), sorted(os.listdir(out)))
        self.assertIn("summary.txt", os.listdir(out), "what is small stays whole")
        for f in files:
            self.assertLessEqual(os.path.getsize(f), 300 * 1024)
        want = {(int(s["start_ns"]), s["name"]) for s in self.spans(a)}
        got, edges = set(), 0
        for f in self.parts(out, "spans"):
            with open(f, newline="") as g:
                rows = [(int(s["start_ns"]), s["name"]) for s in csv.DictReader(g)]
            edges += len(got & set(rows))
            got |= set(rows)
        self.assertEqual(got, want)
        self.assertLess(edges, len(self.parts(out, "spans")), "only spans over an edge are in two parts")
        n = 0
        for f in self.parts(out, "chrome_trace"):
            with open(f) as g:
                n += sum(e["ph"] == "X" for e in json.load(g)["traceEvents"])
        self.assertTrue(len(want) <= n <= len(want) + len(self.parts(out, "chrome_trace")))
        self.assertGreater(len(self.parts(out, "chrome_trace")), 3)

    def test_packed_sizes_count(self):
        a = self.work("a.clika", calls=4000)
        out = self.path("all")
        self.wrote(a, "-f", "chrome", "-o", out + "/", "--max-size", "100K", "-z")
        files = self.parts(out, "chrome_trace")
        self.assertGreater(len(files), 1)
        for f in files:
            self.assertLessEqual(os.path.getsize(f), 100 * 1024)
            with gzip.open(f) as g:
                json.load(g)

    def test_what_cannot_be_split_small_enough_leaves_nothing(self):
        a = self.work("a.clika", calls=1000)
        err = self.refused("export", a, "-f", "chrome", "-o", self.path("t.json"), "--max-size", "100")
        self.assertIn("allow larger parts", err)
        self.assertEqual(os.listdir(self.tmp()), ["a.clika"])


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = self.server.answers.pop(0) if self.server.answers else (200, {})
        self.server.got.append((self.path, dict(self.headers), body))
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status == 503:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


class PushTest(VerbCase):
    def collector(self, *answers):
        server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
        server.answers, server.got = list(answers), []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server, f"http://127.0.0.1:{server.server_port}"

    def spans_of(self, server):
        return sum(len(scope["spans"]) for _, _, body in server.got
                   for rs in json.loads(gzip.decompress(body))["resourceSpans"] for scope in rs["scopeSpans"])

    def test_spans_reach_a_collector_with_headers(self):
        a = self.work("a.clika", calls=200)
        with open(self.path("token"), "w") as f:
            f.write("Authorization: Bearer secret\n\nX-More: yes\n")
        server, url = self.collector()
        done = run("export", a, "--format", "otlp", "--push", url, "--header", "X-Scope: test", "--header",
                   "@" + self.path("token"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({p for p, _, _ in server.got}, {"/v1/traces"})
        for _, headers, _ in server.got:
            self.assertEqual((headers["X-Scope"], headers["Authorization"], headers["X-More"]),
                             ("test", "Bearer secret", "yes"))
        self.assertEqual(self.spans_of(server), 600)
        self.assertIn("600 spans", done.stderr)
        self.assertEqual(sorted(os.listdir(self.tmp())), ["a.clika", "token"], "nothing is written")

    def test_files_are_written_too_when_asked_for(self):
        a = self.work("a.clika", calls=5)
        server, url = self.collector()
        self.ok("export", a, "--format", "csv", "-o", self.path("t.csv"), "--push", url + "/other/path")
        self.assertEqual([p for p, _, _ in server.got], ["/other/path"])
        self.assertTrue(os.path.exists(self.path("t.csv")))

    def test_a_busy_collector_is_tried_again(self):
        a = self.work("a.clika", calls=5)
        server, url = self.collector((503, {}))
        self.assertIn("tried again", run("export", a, "--push", url).stderr)
        self.assertEqual(len(server.got), 2)

    def test_spans_that_are_not_taken_are_a_failure(self):
        a = self.work("a.clika", calls=5)
        server, url = self.collector((200, {"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too\033old"}}))
        err = self.refused("export", a, "--push", url)
        self.assertIn("did not take 3 spans", err)
        self.assertNotIn("\033", err)
        server, url = self.collector((400, {}))
        self.refused("export", a, "--push", url)
        self.assertEqual(len(server.got), 1, "what is wrong is not sent again")


@lib.needs_root
class LiveTest(VerbCase):
    def test_a_live_server_is_recorded_twice_reported_compared_and_merged(self):
        target = self.target("obeys")
        paths = []
        for i in (1, 2):
            recorder = self.record("-p", target.pid, "--no-export", output=self.path(f"r{i}"))
            target.send("spans 2000")
            target.result()
            target.send("threads 2 1000")
            target.result()
            recorder.stop()
            paths.append(self.path(f"r{i}"))
        reports = [self.json("report", p, "--json", "--by", "op") for p in paths]
        for rows in reports:
            self.assertEqual({r["name"]: r["calls"] for r in rows}, {"step": 2000, "work": 2000})
        self.assertIn("Changes", self.ok("diff", *paths))
        m = self.path("m.clika")
        done = run("merge", *paths, "-o", m)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 recordings and 0 traces of 1 machine, 1 processes", done.stderr)
        merged = {r["name"]: (r["calls"], r["total_ns"]) for r in self.json("report", m, "--json", "--by", "op")}
        self.assertEqual(merged, {name: (4000, sum(r["total_ns"] for rows in reports for r in rows if r["name"] == name))
                                  for name in ("step", "work")})


if __name__ == "__main__":
    unittest.main()
