# SPDX-License-Identifier: Apache-2.0
"""The recipe for ONNX Runtime on its newest Python package, whose extension module has no symbols and does not use the C API."""
import collections
import json
import os
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import lib

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("CLIKA_RUNTIMES_PYTHON", os.path.join(lib.ROOT, "build", "python", "runtimes", "env", "bin", "python"))


class Server(lib.Process):
    def __init__(self, test):
        super().__init__(test, [PYTHON, os.path.join(HERE, "onnxruntime_server.py"), os.path.join(test.tmp(), "own")])
        self.expect(lambda l: l.startswith("ready "), "'ready'", 120)

    def ask(self, line):
        self.send(line)
        return self.result(120)


@lib.needs_root
class OnnxRuntimeInPythonTest(lib.Case):
    def test_runs_and_operators_are_those_of_its_own_profile(self):
        server = Server(self)
        recorder = self.record("-p", server.pid, "--budget", "off")
        self.assertEqual(server.ask("run 30")["runs"], 30)
        result = recorder.stop()
        own = collections.defaultdict(list)
        runs = 0
        with open(server.ask("profile")["profile"]) as f:
            for e in json.load(f):
                runs += e.get("name") == "model_run"
                if e.get("cat") == "Node" and e["name"].endswith("_kernel_time"):
                    own[e["name"].removesuffix("_kernel_time")].append(e["dur"] * 1000)
        trace = result.trace()
        self.assertNothingLost(result.info())
        self.assertEqual(runs, 30)
        ours = collections.defaultdict(list)
        for s in trace.spans:
            if "node" in s.args:
                ours[s.args["node"]].append(s.dur)
        self.assertGreater(len(own), 20)
        self.assertEqual({n: len(of) for n, of in ours.items()}, {n: len(of) for n, of in own.items()})
        for node, of in own.items():
            theirs, mine = min(of), min(ours[node])
            self.assertLess(mine, theirs * 1.05 + 3000, node)
            self.assertLess(theirs, mine * 1.05 + 40000, node)
        with open(result.path("report.json")) as f:
            request, = json.load(f)["requests"]
        self.assertEqual((request["kind"], request["ended"]), ("run", 30))

    def test_memory_of_the_arena_comes_and_goes_with_the_runs(self):
        server = Server(self)
        first = server.ask("run 3")
        recorder = self.record("-p", server.pid, "--budget", "off")
        during = server.ask("run 20")
        result = recorder.stop()
        self.assertEqual(first["first"], during["first"])
        with open(result.path("memory_stats.json")) as f:
            device, = json.load(f)["devices"]
        # The last result is still there, that of the run before the recording went in it.
        self.assertLessEqual(abs(device["allocated"]["count"] - device["freed"]["count"]), 2)
        self.assertGreater(device["peak_bytes"], 1 << 20)
        self.assertEqual([p["pool"] for p in device["pools"]], ["Cpu arena"])

    def test_a_thousand_errors_thrown_by_an_operator(self):
        server = Server(self)
        recorder = self.record("-p", server.pid, "--budget", "off")
        self.assertEqual(server.ask("fail 1000")["caught"], 1000)
        self.assertEqual(server.ask("run 4")["runs"], 4)
        result = recorder.stop()
        self.assertEqual(server.ask("run 1")["runs"], 1)  # it lives
        self.assertNothingLost(result.info())
        trace = result.trace()
        thrown = [s for s in trace.spans if s.args.get("clika.unfinished")]
        self.assertEqual({(s.name, s.args["node"]) for s in thrown}, {("Reshape", "misfit")})
        self.assertEqual(len(thrown), 1000)
        self.assertEqual(trace.names()["Softmax"], 4)
        self.assertNests(trace.spans)

    def test_the_example_is_recorded_as_its_page_says(self):
        server = lib.Process(self, [PYTHON, os.path.join(lib.ROOT, "examples", "onnxruntime", "serve.py"), "0"])
        port = int(server.expect(lambda l: l.startswith("pid "), "'pid'", 120).split()[-1])
        recorder = self.record("-p", server.pid, "--budget", "off")
        for _ in range(12):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", data=b"", timeout=lib.PATIENCE) as answer:
                self.assertIn("class", json.load(answer))
        result = recorder.stop()
        names = result.trace().names()
        self.assertEqual(names["Softmax"], 12)
        self.assertGreater(names["Conv"], 12 * 10)
        with open(result.path("report.json")) as f:
            request, = json.load(f)["requests"]
        self.assertEqual((request["kind"], request["ended"]), ("run", 12))


if __name__ == "__main__":
    unittest.main()
