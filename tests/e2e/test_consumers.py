# SPDX-License-Identifier: Apache-2.0
# run-tests: timeout=1200
"""Recordings in the programs that people read them with: pprof, Perfetto's importers, speedscope, Firefox
Profiler, a browser, OpenTelemetry's own message definitions. All must take our files and tell the same."""
import base64
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

import lib
import readers
import trace_processor

GOLDEN = os.path.join(lib.ROOT, "tests", "golden")
RECORDINGS = ("serving", "images", "repaired")
INCOMPLETE = 5  # exit status: exported, but the recording was not finished
FORMATS = "pprof,folded,flamegraph,speedscope,firefox,kineto,csv,otlp"


class Exports(unittest.TestCase):
    """Every format of every recording, once, and what the table of spans says of them."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="clika-consumers-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for name in RECORDINGS:
            done = subprocess.run([lib.TOOL, "export", os.path.join(GOLDEN, name + ".clika"), "--format", FORMATS,
                                   "-o", os.path.join(cls.folder, name)], capture_output=True, text=True)
            if done.returncode not in (0, INCOMPLETE):
                raise AssertionError(done.stderr)

    def path(self, recording, name):
        return os.path.join(self.folder, recording, name)

    def each(self, name):
        for recording in RECORDINGS:
            yield recording, self.path(recording, name)

    def spans(self, recording):
        with open(self.path(recording, "spans.csv"), newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(f, strict=True))
        for row in rows:
            for key in ("id", "depth", "pid", "tid", "start_ns", "duration_ns", "self_ns"):
                row[key] = int(row[key])
            row["arguments"] = json.loads(row["arguments"] or "{}")
        return rows

    def self_ns(self, recording):
        return sum(row["self_ns"] for row in self.spans(recording))


class TablesAndText(Exports):
    def test_table_nests_and_self_times_add_up(self):
        for recording in RECORDINGS:
            with self.subTest(recording):
                rows = {row["id"]: row for row in self.spans(recording)}
                left = {i: row["duration_ns"] for i, row in rows.items()}
                for row in rows.values():
                    if not row["parent_id"]:
                        continue
                    parent = rows[int(row["parent_id"])]
                    self.assertEqual((parent["tid"], parent["depth"] + 1), (row["tid"], row["depth"]))
                    self.assertGreaterEqual(row["start_ns"], parent["start_ns"])
                    left[parent["id"]] -= row["duration_ns"]
                self.assertEqual(left, {i: row["self_ns"] for i, row in rows.items()})

    def test_folded_lines_are_the_stacks_of_the_table(self):
        for recording, path in self.each("stacks.folded"):
            with open(path, encoding="utf-8") as f:
                lines = [re.fullmatch(r"([^\n]+) (\d+)\n", line).groups() for line in f]
            self.assertEqual(lines, sorted(lines, key=lambda pair: f"{pair[0]} {pair[1]}".encode()))
            expected = {}
            rows = {row["id"]: row for row in self.spans(recording)}
            for row in rows.values():
                names, up = [], row
                while up:
                    names.append(up["name"].removeprefix("'") or "(unnamed)")
                    up = rows.get(int(up["parent_id"] or 0))
                stack = ";".join(n.replace(";", ":") for n in [row["process"], row["thread"], *reversed(names)])
                expected[stack] = expected.get(stack, 0) + row["self_ns"]
            self.assertEqual({stack: int(n) for stack, n in lines}, {s: n for s, n in expected.items() if n})


class Pprof(Exports):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        readers.fetch("setup-pprof.sh")

    def ask(self, *args):
        home = {"HOME": self.folder, "PPROF_TMPDIR": self.folder}
        return readers.run([os.path.join(lib.BUILD, "tools", "pprof", "pprof"), *args], env=home).stdout

    def test_pprof_sums_what_the_table_says(self):
        for recording, path in self.each("profile.pb.gz"):
            rows = self.spans(recording)
            samples = re.findall(r"^ +(\d+) +(\d+) +(\d+) +(\d+) +(\d+): ", self.ask("-raw", path), re.M)
            sums = [sum(int(s[i]) for s in samples) for i in range(5)]
            self.assertEqual(sums[0], len(rows))
            self.assertEqual(sums[1], self.self_ns(recording))

    def test_pprof_shows_each_operation_with_its_time(self):
        of = {}
        for row in self.spans("serving"):
            of[row["name"]] = of.get(row["name"], 0) + row["self_ns"]
        shown = self.ask("-top", "-unit=ns", "-nodefraction=0", self.path("serving", "profile.pb.gz"))
        self.assertIn("Type: self", shown)
        rows = [line.split(None, 5) for line in shown[shown.index("flat  flat%"):].splitlines()[1:]]
        self.assertEqual({row[5]: int(row[0].removesuffix("ns")) for row in rows if row[0] != "0"}, of)

    def test_pprof_knows_threads_and_devices(self):
        tags = self.ask("-tags", "-sample_index=alloc_space", self.path("serving", "profile.pb.gz"))
        self.assertIn("worker 0", tags)
        self.assertIn("cpu arena", tags)

    def test_pprof_draws_a_graph_of_hostile_names(self):
        self.assertIn("digraph", self.ask("-dot", self.path("repaired", "profile.pb.gz")))


class Perfetto(Exports):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        trace_processor.setup()

    SUMS = """select p.sample_type_type as type, sum(s.value) as value from __intrinsic_aggregate_sample s
        join __intrinsic_aggregate_profile p on p.id = s.aggregate_profile_id group by 1"""

    def test_trace_processor_sums_pprof_and_folded(self):
        for recording, path in self.each("profile.pb.gz"):
            bad, (rows,) = trace_processor.ask(path, self.SUMS)
            self.assertEqual(bad, [])
            sums = {row["type"]: int(row["value"]) for row in rows}
            self.assertEqual(sums["calls"], len(self.spans(recording)))
            self.assertEqual(sums["self"], self.self_ns(recording))
            bad, (rows,) = trace_processor.ask(self.path(recording, "stacks.folded"), self.SUMS)
            self.assertEqual((bad, int(rows[0]["value"])), ([], self.self_ns(recording)))

    def test_trace_processor_sees_each_sample_of_the_firefox_profile(self):
        sql = """with recursive up as (
              select s.id, s.ts, t.tid, s.callsite_id as at from cpu_profile_stack_sample s join thread t using (utid)
              union all
              select up.id, up.ts, up.tid, c.parent_id from up join stack_profile_callsite c on c.id = up.at
                where c.parent_id is not null)
            select up.tid, count(distinct up.id) as samples, count(*) as frames from up group by 1 order by 1"""
        for recording, path in self.each("firefox.json.gz"):
            bad, (rows,) = trace_processor.ask(path, sql)
            self.assertEqual(bad, [])
            with gzip.open(path) as f:
                threads = json.load(f)["threads"]
            expected = {}
            for t in threads:
                depth = []
                for prefix in t["stackTable"]["prefix"]:
                    depth.append(1 if prefix is None else depth[prefix] + 1)
                if t["samples"]["length"]:
                    expected[str(t["tid"])] = (t["samples"]["length"], sum(depth[s] for s in t["samples"]["stack"]))
            self.assertEqual({str(r["tid"]): (int(r["samples"]), int(r["frames"])) for r in rows}, expected)

    def test_trace_processor_has_no_complaint_about_kineto_events(self):
        sql = "select category, count(*) as n, sum(dur) as ns from slice group by 1"
        for recording, path in self.each("kineto.pt.trace.json"):
            bad, (rows,) = trace_processor.ask(path, sql)
            self.assertEqual(bad, [])
            seen = {row["category"]: (int(row["n"]), int(row["ns"])) for row in rows}
            spans = self.spans(recording)
            self.assertEqual(seen["cpu_op"], (len(spans), sum(row["duration_ns"] for row in spans)))


class Speedscope(Exports):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        readers.fetch("setup-npm-readers.sh")

    release = os.path.join(readers.NPM, "speedscope", "dist", "release")

    def test_files_fit_the_schema(self):
        for _, path in self.each("speedscope.json"):
            readers.node("check-schema.cjs", os.path.join(self.release, "file-format-schema.json"), path)

    def test_schema_check_can_fail(self):
        bad = os.path.join(self.folder, "bad.json")
        with open(self.path("serving", "speedscope.json")) as f:
            text = f.read().replace('"nanoseconds"', '"fortnights"')
        with open(bad, "w") as f:
            f.write(text)
        done = readers.node("check-schema.cjs", os.path.join(self.release, "file-format-schema.json"), bad, check=False)
        self.assertEqual(done.returncode, 1)

    def test_its_page_shows_each_thread_with_its_weight(self):
        for recording, path in self.each("speedscope.json"):
            with open(path, "rb") as f:
                data = f.read()
            script = os.path.join(self.folder, recording + ".js")
            with open(script, "w") as f:
                f.write(f'speedscope.loadFileFromBase64("speedscope.json", "{base64.b64encode(data).decode()}")')
            dom = readers.page(f"file://{self.release}/index.html#localProfilePath={script}")
            for profile in json.loads(data)["profiles"]:
                in_title = profile["name"].replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
                self.assertIn(in_title, dom)


class FirefoxProfiler(Exports):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        readers.fetch("setup-npm-readers.sh")

    def ask(self, *args, check=True):
        cli = os.path.join(readers.NPM, "@firefox-devtools", "profiler-cli", "dist", "profiler-cli.js")
        return readers.run(["node", cli, *args], env={"HOME": self.folder}, check=check)

    def load(self, path):
        """Its daemon is given half a second to start, and says itself that trying again helps."""
        self.addCleanup(self.ask, "stop", "--all", check=False)
        lib.wait_for(lambda: self.ask("load", path, check=False).returncode == 0, f"the profiler to load {path}",
                     every=0.5)

    def test_command_line_of_firefox_profiler_loads_and_sums(self):
        path = self.path("serving", "firefox.json.gz")
        self.load(path)
        threads = self.ask("thread", "list").stdout
        with gzip.open(path) as f:
            profile = json.load(f)
        for t in profile["threads"]:
            row = next(line for line in threads.splitlines() if f" {t['name']} " in line)
            self.assertTrue(row.endswith(f" {t['markers']['length']:,}"), row)
        worker = next(line for line in threads.splitlines() if " worker 0 " in line).replace("*", " ").split()[0]
        self.ask("thread", "select", worker)
        functions = self.ask("thread", "functions").stdout
        of = {}
        for row in self.spans("serving"):
            if row["thread"] == "worker 0":
                of[row["name"]] = of.get(row["name"], 0) + row["self_ns"]
        for name, ns in of.items():
            shown = re.search(rf"\. {re.escape(name)} - self: ([\d.]+)(ms|s|μs)", functions)
            self.assertIsNotNone(shown, functions)
            scale = {"s": 1e9, "ms": 1e6, "μs": 1e3}[shown[2]]
            self.assertAlmostEqual(float(shown[1]) * scale / ns, 1, delta=0.02)

    def test_hostile_profile_loads(self):
        self.load(self.path("repaired", "firefox.json.gz"))
        self.assertIn("samples", self.ask("thread", "info").stdout)


class FlameGraph(Exports):
    CLICK = """<script><![CDATA[
      addEventListener('load', () => {
        const f = Array.from(document.querySelectorAll('.f')).find((e) => e.lastElementChild.textContent === %s);
        f.dispatchEvent(new MouseEvent('click', { bubbles: true }));
        document.documentElement.setAttribute('data-clicked', f.getAttribute('width'));
      });
    ]]></script>
</svg>"""

    def frames(self, dom):
        """{text: (classes, x, width)} of the last frame of each text."""
        found = re.findall(r'<svg class="f ([^"]*)" x="([\d.-]+)%" width="([\d.]+)%"[^>]*>.*?<text[^>]*>(.*?)</text>', dom)
        return {text: (set(classes.split()), float(x), float(width)) for classes, x, width, text in found}

    def test_svg_is_well_formed_and_names_are_text(self):
        for recording, path in self.each("flamegraph.svg"):
            tree = xml.etree.ElementTree.parse(path)
            kinds = {e.tag.rsplit("}", 1)[1] for e in tree.iter()}
            self.assertLessEqual(kinds, {"svg", "title", "style", "rect", "text", "script"})
            self.assertEqual(len(tree.getroot().findall(".//{http://www.w3.org/2000/svg}script")), 1)
            for e in tree.iter():
                self.assertFalse([a for a in e.attrib if a.startswith("on") or "href" in a], e.attrib)
            shown = {e.text for e in tree.iter("{http://www.w3.org/2000/svg}text")}
            spans = self.spans(recording)
            widest = max(spans, key=lambda row: row["duration_ns"])
            self.assertIn(widest["name"], shown)

    def test_widths_are_shares_of_time(self):
        with open(self.path("serving", "flamegraph.svg"), encoding="utf-8") as f:
            frames = self.frames(f.read())
        rows = self.spans("serving")
        total = sum(row["self_ns"] for row in rows)
        for name in ("conv", "gemm", "batch"):
            ns = sum(row["duration_ns"] for row in rows if row["name"] == name)
            self.assertAlmostEqual(frames[name][2], ns / total * 100, places=3)

    def test_click_zooms_in_the_browser(self):
        with open(self.path("serving", "flamegraph.svg"), encoding="utf-8") as f:
            text = f.read()
        clicked = os.path.join(self.folder, "clicked.svg")
        with open(clicked, "w", encoding="utf-8") as f:
            f.write(text.rstrip().removesuffix("</svg>") + self.CLICK % '"conv"')
        before, after = self.frames(readers.page(f"file://{self.path('serving', 'flamegraph.svg')}")), \
            self.frames(readers.page(f"file://{clicked}"))
        self.assertLess(before["conv"][2], 60)
        self.assertEqual(after["conv"][1:], (0, 100))
        self.assertIn("up", after["batch"][0])
        self.assertEqual(after["batch"][1:], (0, 100))
        self.assertAlmostEqual(after["gemm"][2], before["gemm"][2] / before["conv"][2] * 100, places=2)
        self.assertIn("gone", after["softmax"][0])
        self.assertNotIn("gone", before["softmax"][0])


class OpenTelemetry(Exports):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        readers.fetch("setup-npm-readers.sh")

    def test_message_definitions_know_every_field(self):
        for recording, path in self.each("otlp_traces.jsonl"):
            spans = [json.loads(line) for line in readers.node("decode-otlp.cjs", path).stdout.splitlines()]
            threads = [s for s in spans if any(a["key"] == "thread.id" for a in s["attributes"])]
            self.assertEqual(len(threads), len(self.spans(recording)))
            ids = {(s["traceId"], s["spanId"]) for s in spans}
            self.assertEqual(len(ids), len(spans))
            for s in spans:
                if "parentSpanId" in s:
                    self.assertIn((s["traceId"], s["parentSpanId"]), ids)

    def test_decoder_finds_an_unknown_field(self):
        bad = os.path.join(self.folder, "bad.jsonl")
        with open(self.path("serving", "otlp_traces.jsonl")) as f:
            line = f.readline().replace('"startTimeUnixNano"', '"startTimeUnixMilli"', 1)
        with open(bad, "w") as f:
            f.write(line)
        self.assertNotEqual(readers.node("decode-otlp.cjs", bad, check=False).returncode, 0)

    def test_a_request_holds_its_layers(self):
        done = readers.node("decode-otlp.cjs", self.path("serving", "otlp_traces.jsonl")).stdout
        spans = [json.loads(line) for line in done.splitlines()]
        names = {}
        for s in spans:
            names.setdefault(s["traceId"], set()).add(s["name"])
        requests = [s for s in spans if s["name"] == "digit"]
        self.assertTrue(requests)
        self.assertTrue(any({"batch", "conv", "gemm", "softmax"} <= names[s["traceId"]] for s in requests))
        # Those that share a batch with another one point to it.
        for s in requests:
            batches = [p for p in spans if p["name"] == "batch" and p["traceId"] == s["traceId"]]
            self.assertTrue(batches or any("batch" in names[link["traceId"]] for link in s.get("links", [])))


if __name__ == "__main__":
    unittest.main()
