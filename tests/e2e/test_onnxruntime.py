# SPDX-License-Identifier: Apache-2.0
"""The recipe for ONNX Runtime on a process that nobody prepared: a stripped library, attached to by its pid.

What ONNX Runtime's own profile of the same session says is what must be in the recording.
"""
import collections
import json
import os

import lib
from onnxruntime_target import DIR, Driver, files

def ours(trace):
    """Our spans of operators by node."""
    nodes = collections.defaultdict(list)
    for s in trace.spans:
        if "node" in s.args:
            nodes[s.args["node"]].append(s.dur)
    return nodes


@lib.needs_root
class OnnxRuntimeTest(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        files()

    def attach(self, target, *more):
        return self.record("-p", target.pid, "--budget", "off", *more)

    def devices(self, result):
        with open(result.path("memory_stats.json")) as f:
            return json.load(f)["devices"]

    def test_runs_and_operators_are_those_of_its_own_profile(self):
        target = Driver(self, profile=os.path.join(self.tmp(), "own"))
        recorder = self.attach(target)
        self.assertEqual(target.ask("run 40")["runs"], 40)
        result = recorder.stop()
        runs, nodes = target.profile()
        trace = result.trace()
        self.assertNothingLost(result.info())
        self.assertNests(trace.spans)
        self.assertEqual(len(runs), 40)
        self.assertGreater(len(nodes), 20)
        seen = ours(trace)
        self.assertEqual({n: len(of) for n, of in seen.items()}, {n: len(of) for n, of in nodes.items()})
        self.assertEqual(trace.names()["Run"], 40)
        # Its times hold our probes inside; those of runs lie in our span of the API's function. The shortest calls are
        # compared: where a probe is hit is where the kernel likes to run somebody else for a while.
        for node, of in nodes.items():
            theirs, mine = min(of), min(seen[node])
            self.assertLess(mine, theirs * 1.05 + 3000, node)
            self.assertLess(theirs, mine * 1.05 + 40000, node)
        theirs = min(runs)
        mine = min(s.dur for s in trace.spans if s.name == "Run")
        self.assertLess(abs(theirs - mine), 0.05 * theirs + 500000)

    def test_operators_lie_in_runs_and_runs_say_what_they_got(self):
        target = Driver(self)
        recorder = self.attach(target)
        target.ask("run 5")
        target.ask("bind 4")  # one plain run first
        target.ask("fail 3")
        result = recorder.stop()
        trace = result.trace()
        self.assertNothingLost(result.info())
        self.assertNests(trace.spans)
        names = trace.names()
        self.assertEqual(names["Run"], 5 + 1 + 3)
        self.assertEqual(names["RunWithBinding"], 4)
        self.assertEqual(names["Softmax"], 5 + 1 + 4)
        self.assertGreater(names["Conv"], names["Softmax"])
        runs = [s for s in trace.spans if s.name == "Run"]
        failed = [s for s in runs if "error" in s.args]
        self.assertEqual([s.args["error"] for s in failed], ["Invalid input name: no-such-input"] * 3)
        self.assertEqual({s.args["input"] for s in failed}, {"no-such-input"})
        for s in runs:
            self.assertEqual(s.args["inputs"], 1)
            self.assertEqual(s.args["shape_4d"], "[1,3,224,224]")
            self.assertNotIn("shape_2d", s.args)
        self.assertEqual({s.args["input"] for s in runs if s not in failed}, {"data_0"})
        outer = [(s.ts, s.ts + s.dur) for s in trace.spans if s.name.startswith("Run")]
        for s in trace.spans:
            if "node" in s.args:
                self.assertTrue(any(a <= s.ts and s.ts + s.dur <= b for a, b in outer), s)

    def test_memory_of_arena_and_api_is_balanced(self):
        target = Driver(self)
        target.ask("keep 2 5000")  # taken before anybody looks
        recorder = self.attach(target)
        target.ask("keep 12 100000")
        target.ask("run 6")
        target.ask("alloc 50 3000")
        target.ask("drop")
        result = recorder.stop()
        self.assertNothingLost(result.info())
        device, = self.devices(result)
        self.assertEqual(device["device"], 0)
        by = {op["name"]: op for op in device["by_op"]}
        self.assertEqual(by["AllocatorAlloc"]["allocated"], {"count": 62, "bytes": 12 * 100000 + 50 * 3000})
        self.assertEqual(device["freed_but_older"]["before_recording"], 2)
        self.assertEqual(device["allocated"]["count"], device["freed"]["count"] - 2)
        self.assertEqual(device["current_bytes"], 0)
        # The result of a run is there until the next one is asked for, beside what the operators work in.
        self.assertGreater(device["peak_bytes"], 12 * 100000 + 4 * 1000)
        pools = {p["pool"] for p in device["pools"]}
        self.assertEqual(pools, {"C API", "Cpu arena"})

    def test_sessions_are_spans_with_their_model(self):
        library, model = files()
        # Its library is mapped while it runs: what follows is known once the recorder says so.
        recorder = self.record("--budget", "off", "--", os.path.join(DIR, "drive"), library, model, "-", "wait")
        recorder.expect(lambda l: l.startswith("loaded "), "'loaded'")
        recorder.err.wait(lambda l: "recipe onnxruntime" in l, "'recipe onnxruntime'")
        recorder.send("open")
        recorder.expect(lambda l: l.startswith("ready "), "'ready'")
        recorder.send("run 2")
        recorder.result()
        recorder.send("quit")
        recorder.wait()
        trace = recorder.load().trace()
        created = [s for s in trace.spans if s.name == "CreateSession"]
        self.assertEqual([s.args["model"] for s in created], [model[:63]])
        self.assertEqual(trace.names()["Run"], 2)
        self.assertEqual(trace.names()["ReleaseSession"], 1)

    def test_results_are_the_same_with_and_without(self):
        target = Driver(self)
        before = target.ask("run 10")
        recorder = self.attach(target)
        during = target.ask("run 10")
        recorder.stop()
        after = target.ask("run 10")
        self.assertEqual({before["first"]}, {during["first"], after["first"]})
        target.send("quit")
        self.assertEqual(target.wait(), 0)


if __name__ == "__main__":
    lib.unittest.main()
