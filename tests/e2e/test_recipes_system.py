# SPDX-License-Identifier: Apache-2.0
"""The whole machine is recorded, then come processes of three runtimes: each is recognised by its own recipe."""
import json
import os
import subprocess
import unittest

import lib
import onnxruntime_target
import test_llama

PYTHON = "/usr/bin/python3"
TORCH = """
import json, os, sys, torch
torch.set_num_threads(1)
a = torch.ones(16, 16)
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    word, n = line.split()
    for _ in range(int(n)):
        torch.mm(a, a)
    print(json.dumps({"calls": int(n)}), flush=True)
"""


@lib.needs_root
class ThreeRuntimesTest(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode:
            raise unittest.SkipTest("python3-torch is not installed")
        onnxruntime_target.files()
        test_llama.LlamaTest.setUpClass()

    def ask(self, process, line):
        process.send(line)
        return process.result()

    def start(self, name, program, *args):
        """Under a name by which the recorder knows it."""
        link = os.path.join(self.tmp(), "three-rt-" + name)
        os.symlink(program, link)
        return lib.Process(self, [link, *args], ready="ready ")

    def test_each_is_recognised_although_it_starts_later(self):
        # Whatever else this machine computes meanwhile is left out by its name.
        recorder = self.record("--budget", "off", "--comm", "three-rt*")
        llama = self.start("llama", os.path.join(test_llama.DIR, "drive"), test_llama.LlamaTest.libs,
                           os.path.join(test_llama.DIR, "tiny.gguf"))
        library, model = onnxruntime_target.files()
        ort = self.start("ort", os.path.join(onnxruntime_target.DIR, "drive"), library, model, "-")
        torch = self.start("py", PYTHON, "-c", TORCH)
        # What a process does before its libraries have their probes is not seen; from then on all is.
        for path in (os.path.join(test_llama.LlamaTest.libs, "libllama"), library, "/libtorch_cpu"):
            recorder.err.wait(lambda l: path in l and "got their probes" in l, f"the probes of {path}")
        for recipe in ("ggml", "onnxruntime", "pytorch"):
            self.assertIn(f"recipe {recipe}: ", "\n".join(recorder.err.lines))
        decodes = self.ask(llama, "run 40")["decodes"]
        runs = self.ask(ort, "run 15")["runs"]
        calls = self.ask(torch, "mm 60")["calls"]
        result = recorder.stop()
        self.assertNothingLost(result.info())
        trace = result.trace()
        names = {p.pid: trace.names(p.pid) for p in (llama, ort, torch)}
        counted = {"decode": sum(n for name, n in names[llama.pid].items() if "decode" in name),
                   "Run": names[ort.pid]["Run"], "aten::mm": names[torch.pid]["aten::mm"]}
        self.assertEqual(counted, {"decode": decodes, "Run": runs, "aten::mm": calls})
        self.assertEqual(names[ort.pid]["Softmax"], runs)
        categories = {p.pid: {s.cat for s in trace.spans if s.pid == p.pid} for p in (llama, ort, torch)}
        self.assertEqual(categories[ort.pid], {"onnxruntime"})
        self.assertNotIn("onnxruntime", categories[llama.pid] | categories[torch.pid])
        with open(result.path("report.json")) as f:
            self.assertGreater(len(json.load(f)["ops"]), 10)


if __name__ == "__main__":
    unittest.main()
