# SPDX-License-Identifier: Apache-2.0
"""report.json and memory_stats.json: they fit their schemas, say what the target counted itself, and
agree with each other, the summary and both traces to the last byte."""
import glob
import json
import os
import re
import subprocess
import unittest

import lib
import schemas
import trace_processor

DIGITS = os.path.join(lib.BUILD, "digits")
GOLDEN = sorted(glob.glob(os.path.join(lib.ROOT, "tests", "golden", "*.clika")))
VIEWS = ([], ["--outside-captures"], ["--from", "1us", "--to", "40ms"], ["--name", "*a*"], ["--name", "nothing"])
TAGS = {"serving.clika": ["steady", "default"]}


def both(recording, folder, *args):
    """Report and memory statistics of one view, checked."""
    os.makedirs(folder, exist_ok=True)
    # 5: a recording that is cut off gives a report all the same.
    done = lib.tool("export", recording, "--format", "report,memory", "-o", folder + "/", *args, check=False)
    if done.returncode not in (0, 5):
        raise AssertionError(done.stderr)
    return [schemas.check(os.path.join(folder, name)) for name in schemas.FILES]


def walk(node):
    yield node
    for child in node["children"]:
        yield from walk(child)


def tree_sum(tree, key):
    own = sum(node.get(key, 0) for node in walk(tree))
    return own + sum(node["other"][key] for node in walk(tree) if node["other"])


def significant(value):
    """A number as the summary's tables show it."""
    if value < 1000:
        return f"{value:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1000:
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    raise AssertionError(value)


class AgreeCase(lib.Case):
    def assertAddsUp(self, report, memory):
        """What is told twice in the two files is told the same."""
        self_ns = report["counts"]["self_ns"]
        self.assertEqual(sum(op["self_ns"] for op in report["ops"]), self_ns)
        self.assertEqual(sum(t["self_ns"] for t in report["op_types"]), self_ns)
        self.assertEqual(tree_sum(report["call_tree"], "self_ns"), self_ns)
        self.assertEqual(sum(op["calls"] for op in report["ops"]), report["counts"]["spans"])
        self.assertEqual(tree_sum(report["call_tree"], "calls"), report["counts"]["spans"])
        self.assertEqual(sum(t["spans"] for t in report["threads"]), report["counts"]["spans"])
        self.assertEqual(sum(c["records"] for c in report["loss"]["causes"]), report["loss"]["records"])
        self.assertEqual(sum(s["records"] for s in report["loss"]["sources"]), report["loss"]["records"])
        if report["ops"] and self_ns:
            self.assertAlmostEqual(report["ops"][-1]["cumulative_share"], 1, 5)
        for key in ("clocks", "captures", "loss", "counts", "repaired", "targets", "warnings", "view"):
            self.assertEqual(report[key], memory[key], key)
        self.assertEqual(report["memory"]["empty_because"], memory["empty_because"])
        self.assertEqual(len(report["memory"]["devices"]), len(memory["devices"]))
        for short, long in zip(report["memory"]["devices"], memory["devices"]):
            self.assertEqual(short, {key: long[key] for key in short})
            self.assertDeviceAddsUp(long)
        for op_key, key in (("allocations", "allocated"), ("frees", "freed")):
            inside = sum(op["memory"][op_key] for op in report["ops"])
            outside = 0 if op_key == "frees" else sum(
                op["allocated"]["count"] for d in memory["devices"] for op in d["by_op"] if not op["in_span"])
            told = sum(d[key]["count"] for d in memory["devices"])
            (self.assertEqual if op_key == "allocations" else self.assertLessEqual)(inside + outside, told)

    def assertDeviceAddsUp(self, device):
        def total(rows, key, part):
            return sum(row[key][part] for row in rows)
        self.assertEqual(device["ops_left_out"], 0)
        for part in ("count", "bytes"):
            for key in ("allocated", "not_freed"):
                self.assertEqual(total(device["by_op"], key, part), device[key][part])
                self.assertEqual(total(device["pools"], key, part), device[key][part])
        self.assertEqual(sum(c["count"] for c in device["sizes"]), device["allocated"]["count"])
        self.assertEqual(sum(c["bytes"] for c in device["sizes"]), device["allocated"]["bytes"])
        self.assertEqual(sum(c["count"] for c in device["lifetimes"]["classes_ns"]), device["lifetimes"]["count"])
        peak = device["peak"]
        self.assertEqual((peak["bytes"], peak["at_ns"]), (device["peak_bytes"], device["peak_at_ns"]))
        self.assertEqual(sum(op["bytes"] for op in peak["held_by"]) + peak["other"]["bytes"]
                         + peak["held_from_before_bytes"], peak["bytes"])
        points = device["timeline"]["points"]
        self.assertLessEqual(len(points), 1000)
        self.assertEqual(points, sorted(points))
        self.assertEqual(max(p[3] for p in points), device["peak_bytes"])
        self.assertEqual(points[-1][1], device["current_bytes"])
        if device["reserved"]:
            self.assertEqual(max(p[6] for p in points), device["reserved"]["peak_bytes"])
            self.assertEqual(points[-1][4], device["reserved"]["current_bytes"])


class SchemaTest(AgreeCase):
    def test_every_view_of_every_golden_recording_fits_and_adds_up(self):
        self.assertGreaterEqual(len(GOLDEN), 3)
        for recording in GOLDEN:
            name = os.path.basename(recording)
            tags = [["--capture", tag] for tag in TAGS.get(name, ())]
            for i, view in enumerate([*VIEWS, *tags]):
                with self.subTest(name, view=view):
                    self.assertAddsUp(*both(recording, os.path.join(self.tmp(), str(i)), *view))

    def test_every_report_of_the_unit_tests_fits(self):
        for test in ("test_export_report", "test_export_memory", "test_export_random"):
            folder = os.path.join(self.tmp(), test)
            os.mkdir(folder)
            subprocess.run([os.path.join(lib.BUILD, "tests", "unit", test)], check=True, capture_output=True,
                           timeout=300, env=dict(os.environ, CLIKA_KEEP_EXPORTS=folder))
            files = glob.glob(os.path.join(folder, "*.json"))
            self.assertGreaterEqual(len(files), 10, test)
            for path in files:
                schemas.check(path)

    def test_schema_refuses_what_is_missing_unknown_or_zero_for_null(self):
        document = both(GOLDEN[-1], self.tmp())[0]
        fits = schemas.validator("report")
        for spoil in (lambda d: d.pop("loss"), lambda d: d.update(more=1), lambda d: d.update(kernels=0),
                      lambda d: d["ops"][0].update(device_self_ns=0), lambda d: d["ops"][0].update(self_ns=1.5),
                      lambda d: d["clocks"].pop("anchors"), lambda d: d["threads"][0].update(cpu_ns=7)):
            changed = json.loads(json.dumps(document))
            self.assertTrue(fits.is_valid(changed))
            spoil(changed)
            self.assertFalse(fits.is_valid(changed))

    def test_schema_verb_prints_the_files_of_the_tree(self):
        for name, file in (("report", "report"), ("memory", "memory_stats")):
            with open(os.path.join(lib.ROOT, "export", "schemas", file + ".schema.json")) as f:
                self.assertEqual(lib.tool("schema", name).stdout, f.read())
        self.assertEqual(lib.tool("schema", "nothing", check=False).returncode, 2)
        self.assertEqual(lib.tool("schema", check=False).returncode, 2)


@lib.needs_root
class DigitsReportTest(AgreeCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        trace_processor.setup()

    def recorded(self, *args, record=()):
        recorder = self.record(*record, "--", DIGITS, *args, "--exact")
        recorder.wait()
        result = recorder.stop()
        counts = json.loads(next(l for l in recorder.out.lines if l.startswith("{")))
        return counts, result

    def test_says_what_the_server_counted_itself(self):
        counts, result = self.recorded("run", "-n", 1500, "-w", 3, "-b", 5)
        report, memory = [schemas.check(result.path(name)) for name in schemas.FILES]
        n = counts["counts"]
        self.assertNothingLost(result.info())
        self.assertAddsUp(report, memory)
        self.assertEqual({op["name"]: op["calls"] for op in report["ops"]},
                         {k: v for k, v in counts["spans"].items() if v})
        self.assertEqual(next(op["flops"] for op in report["ops"] if op["name"] == "gemm"), n["flops"])
        self.assertEqual({c["name"]: c["samples"] for c in report["counters"]}, counts["counters"])
        request = report["requests"][0]
        self.assertEqual((request["begun"], request["ended"], request["units"]),
                         (n["request_begins"], n["request_ends"], n["request_outputs"]))
        # The span that serves a request is its batch, on a worker.
        self.assertEqual(request["phases"]["queue_wait"]["count"], request["ended"])
        self.assertEqual(request["phases"]["compute"]["count"], request["ended"])
        self.assertLessEqual(request["phases"]["queue_wait"]["total_ns"] + request["phases"]["compute"]["total_ns"],
                             request["latency"]["total_ns"])
        pools = {p["pool"]: p for p in memory["devices"][0]["pools"]}
        for name, own in counts["memory"].items():
            pool = pools[name]
            self.assertEqual((pool["allocated"]["count"], pool["allocated"]["bytes"], pool["freed"]["count"]),
                             (own["allocs"], own["alloc_bytes"], own["frees"]), name)
            self.assertEqual((pool["reserved"]["taken"]["count"], pool["reserved"]["taken"]["bytes"],
                              pool["reserved"]["given_back"]["count"]),
                             (own["reserves"], own["reserve_bytes"], own["releases"]), name)
            self.assertEqual(pool["not_freed"]["bytes"], own["alloc_bytes"] - pool["freed"]["bytes"], name)
        # Recorded from its first instruction on: what it had before is known, and nothing.
        self.assertEqual(memory["devices"][0]["baseline_bytes"], 0)
        self.assertEqual(memory["devices"][0]["freed_but_older"]["before_recording"], 0)

    def memory_by_chrome(self, result, counter):
        trace = result.trace()
        samples = [e["args"]["bytes"] for e in sorted(trace.of("C"), key=lambda e: lib._ns(e["ts"]))
                   if e["name"] == counter]
        return max(samples), samples[-1]

    def memory_by_perfetto(self, result, name):
        trace = os.path.join(self.tmp(), "trace.pftrace")
        lib.export(result.recording, "perfetto", trace)
        bad, rows = trace_processor.ask(trace, trace_processor.COUNTERS)
        self.assertEqual(bad, [])
        samples = [int(float(row["value"])) for row in sorted(rows[0], key=lambda r: int(r["ts"]))
                   if row["name"].startswith(name)]
        return max(samples), samples[-1]

    def test_memory_agrees_with_traces_and_summary_to_the_byte(self):
        _, result = self.recorded("run", "-n", 600, "-w", 2)
        _, memory = [schemas.check(result.path(name)) for name in schemas.FILES]
        device = memory["devices"][0]
        told = (device["peak_bytes"], device["current_bytes"])
        self.assertEqual(self.memory_by_chrome(result, "memory in use (device 0)"), told)
        self.assertEqual(self.memory_by_perfetto(result, "memory in use"), told)
        reserved = (device["reserved"]["peak_bytes"], device["reserved"]["current_bytes"])
        self.assertEqual(self.memory_by_chrome(result, "memory reserved (device 0)"), reserved)
        self.assertEqual(self.memory_by_perfetto(result, "memory reserved"), reserved)
        summary = re.sub(r"\s+", " ", result.summary())
        self.assertIn(f"peak {significant(told[0])} at", summary)
        self.assertIn(f"now {significant(told[1])}, at first {significant(device['recorded_baseline_bytes'])}",
                      summary)
        self.assertIn(f"{device['allocated']['count']:,} allocations of {significant(device['allocated']['bytes'])}, "
                      f"{device['freed']['count']:,} frees of {significant(device['freed']['bytes'])}", summary)

    def test_a_server_that_was_running_has_no_known_baseline(self):
        server = subprocess.Popen([DIGITS, "serve", "--rate", "300"], stdout=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        recorder = self.record("-p", server.pid, "-d", 1)
        recorder.wait()
        result = recorder.stop()
        report, memory = [schemas.check(result.path(name)) for name in schemas.FILES]
        self.assertAddsUp(report, memory)
        self.assertIsNone(memory["devices"][0]["baseline_bytes"])
        self.assertEqual(report["targets"]["processes"][0]["pid"], server.pid)
        self.assertEqual(report["captures"][0]["tag"], "default")
        self.assertEqual(report["capture_tags"][0]["ops"][0]["self_ns"], report["ops"][0]["self_ns"])


if __name__ == "__main__":
    unittest.main()
