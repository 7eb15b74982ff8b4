# SPDX-License-Identifier: Apache-2.0
"""The recipe for PyTorch on Debian's python3-torch: a process that nobody prepared, attached to by its pid.

What torch.profiler counts in the process itself is what must be in the recording.
"""
import collections
import json
import os
import subprocess
import unittest

import lib

PYTHON = "/usr/bin/python3"
TARGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_target.py")


def counted_by_torch(said):
    """Operators and nodes of the backward graph: not what it says about them (evaluate_function)."""
    return {name: len(calls) for name, calls in said["calls"].items()
            if name.startswith(("aten::", "torch::autograd::")) or (":" not in name and name.endswith("Backward0"))}


def counted_by_us(trace):
    counts = collections.Counter(s.name for s in trace.spans if s.cat in ("operator", "autograd"))
    del counts["backward"]
    return dict(counts)


@lib.needs_root
class TorchRecipeTest(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, text=True)
        if done.returncode:
            raise unittest.SkipTest("python3-torch is not installed")

    def start(self):
        return lib.Process(self, [PYTHON, TARGET], ready="ready ")

    def ask(self, target, line):
        target.send(line)
        return target.result()

    def test_calls_and_memory_are_those_that_torch_counts(self):
        target = self.start()
        recorder = self.record("-p", target.pid, "--budget", "off")
        said = self.ask(target, "profile 20")
        result = recorder.stop()
        self.assertNothingLost(result.info())
        trace = result.trace()
        self.assertEqual(counted_by_us(trace), counted_by_torch(said))
        self.assertNests([s for s in trace.spans if s.tid == target.pid])
        with open(result.path("memory_stats.json")) as f:
            device, = json.load(f)["devices"]
        self.assertEqual(device["allocated"]["bytes"], said["allocated"])
        self.assertEqual(device["freed"]["bytes"], said["freed"])
        self.assertGreater(said["allocated"], 100000)

    def test_without_a_profiler_in_the_process_counts_are_the_same(self):
        target = self.start()
        self.ask(target, "run 5")
        recorder = self.record("-p", target.pid, "--budget", "off")
        self.ask(target, "run 30")
        trace = recorder.stop().trace()
        once = counted_by_torch(self.ask(target, "profile 1"))
        self.assertEqual(counted_by_us(trace), {name: 30 * n for name, n in once.items()})

    def test_operators_by_way_of_torch_ops_have_their_names(self):
        target = self.start()
        recorder = self.record("-p", target.pid, "--budget", "off")
        said = self.ask(target, "ops 50")
        trace = recorder.stop().trace()
        names = collections.Counter(s.name for s in trace.spans if s.cat == "operator")
        self.assertEqual(names, {name: len(calls) for name, calls in said["calls"].items()
                                 if name.startswith(("aten::", "ours::"))})
        self.assertEqual((names["ours::twice"], names["aten::add"]), (50, 50))

    def test_what_caching_allocators_of_devices_report_is_memory(self):
        target = self.start()
        recorder = self.record("-p", target.pid, "--budget", "off")
        self.ask(target, "device")
        result = recorder.stop()
        with open(result.path("memory_stats.json")) as f:
            devices = {d["device"]: d for d in json.load(f)["devices"]}
        self.assertEqual({n: d["device_name"] for n, d in devices.items()}, {1: "cuda:0", 257: "cuda:1"})
        self.assertEqual({n: (d["allocated"]["bytes"], d["freed"]["bytes"], d["current_bytes"], d["pools"][0]["pool"])
                          for n, d in devices.items()},
                         {1: (12288, 4096, 8192, "caching allocator"), 257: (512, 0, 512, "caching allocator")})
        reserved = [e["args"] for e in result.trace().of("C") if "reserved" in e["name"]]
        self.assertEqual([v for a in reserved for v in a.values()][:3], [2 << 20, 2 << 20, 4 << 20])

    def test_a_process_that_maps_torch_while_it_is_recorded(self):
        recorder = lib.Recorder(self, "--budget", "off", "--", PYTHON, TARGET)
        recorder.expect(lambda l: l.startswith("ready "), "'ready'")
        # Probes are on when the recorder says so: the library was mapped a while ago.
        recorder.err.wait(lambda l: "libtorch_cpu" in l and "got their probes" in l, "probes on libtorch_cpu")
        recorder.err.wait(lambda l: "libc10" in l and "got their probes" in l, "probes on libc10")
        recorder.send("profile 3")
        said = recorder.result()
        recorder.close_stdin()
        self.assertEqual(recorder.wait(), 0)
        trace = recorder.load().trace()
        counted, more = counted_by_torch(said), counted_by_us(trace)
        # Before that the model was made and one step done.
        self.assertEqual({name: n for name, n in counted.items() if more.get(name, 0) < n}, {})
        self.assertLessEqual(more["aten::conv2d"], counted["aten::conv2d"] * 4 // 3)

    def test_shapes_and_types_of_tensors(self):
        target = self.start()
        recorder = self.record("-p", target.pid, "--budget", "off")
        self.ask(target, "shapes")
        spans = {s.name: s.args for s in recorder.stop().trace().spans}
        self.assertEqual((spans["aten::mm"]["shape"], spans["aten::mm"]["shape2"], spans["aten::mm"]["type"]),
                         ("[3,4]", "[4,7]", "float64"))
        self.assertEqual((spans["aten::mul_"]["shape"], spans["aten::mul_"]["shape2"]), ("[3,4]", "[4]"))
        self.assertEqual((spans["aten::tanh"]["shape"], spans["aten::tanh"]["type"]), ("[2,0,3]", "float32"))
        self.assertEqual((spans["aten::neg"]["shape"], spans["aten::neg"]["type"]), ("[...]", "int32"))
        self.assertEqual(spans["aten::exp"]["shape"], "[]")

    def test_errors_that_operators_throw_are_caught_where_they_were(self):
        target = self.start()
        recorder = self.record("-p", target.pid, "--budget", "off")
        self.assertEqual(self.ask(target, "wrong 1000"), {"caught": 1000})
        once = self.ask(target, "profile 1")
        result = recorder.stop()
        self.assertIsNone(target.proc.poll())
        self.assertEqual(self.ask(target, "run 1"), {"ran": 1})
        self.assertNothingLost(result.info())
        trace = result.trace()
        self.assertNests([s for s in trace.spans if s.tid == target.pid])
        thrown = [s for s in trace.spans if s.args.get("clika.unfinished")]
        # mm, add, linear with t, transpose, as_strided and addmm in it, cat
        self.assertEqual(collections.Counter(s.name for s in thrown),
                         {"aten::mm": 250, "aten::add": 250, "aten::linear": 250, "aten::addmm": 250, "aten::cat": 250})
        ends = max(s.ts + s.dur for s in thrown)
        after = collections.Counter(s.name for s in trace.spans if s.ts > ends and s.cat == "operator")
        self.assertEqual(after["aten::convolution"], len(once["calls"]["aten::convolution"]))


if __name__ == "__main__":
    unittest.main()
