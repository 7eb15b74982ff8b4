# SPDX-License-Identifier: Apache-2.0
# run-tests: timeout=1800
"""HolisticTraceAnalysis, which was written for traces of PyTorch's profiler, reads ours: every operator with
its time and place in the call stack, and the steps."""
import csv
import json
import os
import shutil
import tempfile
import unittest

import lib
import library
import readers

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(lib.ROOT, "tests", "golden")

# Runs inside HTA's environment. Names are numbers there: the symbol table gives them back.
SCRIPT = r"""
import json, logging, sys
logging.disable(logging.CRITICAL)
from hta.common.trace_call_graph import CallGraph
from hta.trace_analysis import TraceAnalysis

analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
graph = CallGraph(analysis.t, ranks=[0])
names = analysis.t.symbol_table.get_sym_table()
frame = graph.trace_data.get_trace(0)
rows = [{"name": names[r["name"]], "cat": names[r["cat"]], "ts": r["ts"], "dur": r["dur"], "tid": int(r["tid"]),
         "depth": int(r["depth"]), "iteration": int(r["iteration"]), "external_id": r.get("external_id")}
        for _, r in frame.iterrows()]
print("ROWS " + json.dumps({"rows": rows, "iterations": [int(i) for i in analysis.t.get_iterations()]}, default=float))
"""


class Hta(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        readers.fetch("setup-hta.sh", HERE)
        cls.folder = tempfile.mkdtemp(prefix="clika-hta-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def read(self, trace):
        # It rounds to whole microseconds unless told not to, and stumbles over what becomes shorter than one.
        env = {"HTA_DISABLE_NS_ROUNDING": "1", "HOME": self.folder, "PYTHONPATH": ""}
        done = readers.run([os.path.join(lib.BUILD, "tools", "hta", "bin", "python"), "-W", "ignore", "-c", SCRIPT,
                            trace], env=env, timeout=600)
        line = next(line for line in done.stdout.splitlines() if line.startswith("ROWS "))
        return json.loads(line[5:])

    def export(self, formats, name, **kw):
        path = os.path.join(self.folder, name)
        with library.Recording(os.path.join(GOLDEN, "serving.clika")) as r:
            r.export(formats, path, **kw)
        return path

    def test_operators_keep_times_and_nesting(self):
        found = self.read(self.export("kineto", "serving.pt.trace.json"))["rows"]
        with open(self.export("csv", "spans.csv"), newline="", encoding="utf-8") as f:
            spans = list(csv.DictReader(f))
        # It counts time from the first event that it takes.
        ops = [r for r in found if r["cat"] == "cpu_op"]
        zero, begin = min(r["ts"] for r in ops), min(int(s["start_ns"]) for s in spans)
        self.assertEqual(sorted((r["name"], r["tid"], round((r["ts"] - zero) * 1000), round(r["dur"] * 1000),
                                 r["depth"]) for r in ops),
                         sorted((s["name"], int(s["tid"]), int(s["start_ns"]) - begin, int(s["duration_ns"]),
                                 int(s["depth"])) for s in spans))
        self.assertEqual(len({r["external_id"] for r in ops}), len(spans))
        requests = [r for r in found if r["cat"] == "user_annotation"]
        self.assertTrue(requests)
        self.assertEqual({r["name"] for r in requests}, {"digit"})

    def test_steps_are_iterations(self):
        read = self.read(self.export("kineto", "steps.pt.trace.json", step_name="batch"))
        batches = [r for r in read["rows"] if r["name"] == "batch"]
        self.assertEqual(read["iterations"], list(range(len(batches))))
        by_step = {}
        for r in read["rows"]:
            if r["name"] == "conv":
                by_step.setdefault(r["iteration"], []).append(r)
        self.assertEqual(sorted(by_step), list(range(len(batches))))


if __name__ == "__main__":
    unittest.main()
