# SPDX-License-Identifier: Apache-2.0
"""Function probes on llama.cpp processes that nobody built for us: prebuilt libraries, no markers.

The drivers say exactly how many batches they decoded; the recording must say the same.
"""
import os
import subprocess
import unittest

import lib

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "llama")
DIR = os.path.join(lib.BUILD, "llama")
PROBES = ["--no-auto", "--probe", "libllama*:llama_decode", "--probe", "libggml-base*:ggml_backend_*graph_compute*"]
DECODE = "llama_decode"
SCHED = "ggml_backend_sched_graph_compute_async"
GRAPH = "ggml_backend_graph_compute_async"


@lib.needs_root
class LlamaTest(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = subprocess.run([os.path.join(HERE, "setup.sh"), DIR], capture_output=True, text=True,
                              **lib.as_owner())
        if done.returncode == 77:
            raise unittest.SkipTest("llama.cpp is not to be had here: " + done.stderr.strip())
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        cls.libs = done.stdout.strip().splitlines()[-1].removeprefix("libs=")
        cls.model = os.path.join(DIR, "tiny.gguf")

    def drive(self):
        return lib.Process(self, [os.path.join(DIR, "drive"), self.libs, self.model], ready="ready ")

    def command(self, process, line):
        process.send(line)
        return process.result()

    def assertInside(self, spans, inner, outer):
        """Each span named @inner lies in one named @outer on its thread."""
        starts = sorted((s.ts, s.ts + s.dur, s.tid) for s in spans if s.name == outer)
        for s in spans:
            if s.name == inner:
                self.assertTrue(any(t0 <= s.ts and s.ts + s.dur <= t1 and tid == s.tid
                                    for t0, t1, tid in starts), f"{s} is in no {outer}")

    def test_counts_calls_of_a_running_c_program_exactly(self):
        target = self.drive()
        self.command(target, "run 20")  # before anybody looks
        recorder = self.record("-p", target.pid, *PROBES)
        said = self.command(target, "run 150")
        result = recorder.stop()
        self.command(target, "run 10")  # after the end
        trace = result.trace()
        names = trace.names()
        self.assertEqual(said["decodes"], 150)
        self.assertEqual(names[DECODE], 150)
        # One token is one graph, computed by the one processor in one piece.
        self.assertEqual(names[SCHED], 150)
        self.assertEqual(names[GRAPH], 150)
        self.assertNothingLost(result.info())
        self.assertEqual({s.pid for s in trace.spans}, {target.pid})
        self.assertNests(trace.spans)
        self.assertInside(trace.spans, SCHED, DECODE)
        self.assertInside(trace.spans, GRAPH, SCHED)

    def test_results_are_the_same_with_and_without_probes(self):
        target = self.drive()
        before = self.command(target, "run 100")
        recorder = self.record("-p", target.pid, *PROBES)
        during = self.command(target, "run 100")
        recorder.stop()
        after = self.command(target, "run 100")
        self.assertEqual(before, during)
        self.assertEqual(before, after)
        target.send("quit")
        self.assertEqual(target.wait(), 0)

    def test_attaches_to_node_while_it_infers(self):
        target = lib.Process(self, ["node", os.path.join(DIR, "serve.mjs"), self.model], ready="ready ",
                             cwd=DIR)
        self.command(target, "run 1 4")
        # Attach in the middle of a long command: at least its last calls are there, no more than it made.
        target.send("run 60 32")
        recorder = self.record("-p", target.pid, *PROBES)
        cut = target.result()
        whole = self.command(target, "run 6 16")
        result = recorder.stop()
        after = self.command(target, "run 1 4")
        self.assertGreater(after["decodes"], 0)
        trace = result.trace()
        found = trace.names()[DECODE]
        self.assertNothingLost(result.info())
        self.assertGreaterEqual(found, whole["decodes"])
        self.assertLessEqual(found, whole["decodes"] + cut["decodes"])
        self.assertEqual(trace.names()[SCHED], found)
        self.assertInside(trace.spans, SCHED, DECODE)
        target.send("quit")
        self.assertEqual(target.wait(), 0)

    def test_counts_decodes_of_node_exactly(self):
        target = lib.Process(self, ["node", os.path.join(DIR, "serve.mjs"), self.model], ready="ready ",
                             cwd=DIR)
        self.command(target, "run 1 4")
        recorder = self.record("-p", target.pid, *PROBES)
        said = self.command(target, "run 5 24")
        result = recorder.stop()
        self.assertGreater(said["decodes"], 5 * 10)
        self.assertEqual(result.trace().names()[DECODE], said["decodes"])
        self.assertNothingLost(result.info())
        target.send("quit")
        self.assertEqual(target.wait(), 0)


if __name__ == "__main__":
    unittest.main()
