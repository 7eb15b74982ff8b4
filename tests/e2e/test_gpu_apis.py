# SPDX-License-Identifier: Apache-2.0
"""The recipes for CUDA and Vulkan on machines without a GPU: the real CUDA runtime, whose calls fail and say so, and Vulkan
on the processor by Mesa's lavapipe, whose calls work."""
import collections
import glob
import json
import os
import subprocess
import unittest

import lib

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu")
DIR = os.path.join(lib.BUILD, "gpu")
NO_DRIVER = 35
CUDA = ("cudaGetDeviceCount", "cudaMalloc", "cudaMemcpy", "cudaMemcpyAsync", "cudaMemset", "cudaLaunchKernel",
        "cudaEventRecord", "cudaEventSynchronize", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaFree")


class GpuCase(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = subprocess.run([os.path.join(HERE, "setup.sh"), DIR], capture_output=True, text=True, **lib.as_owner())
        if done.returncode == 77:
            raise unittest.SkipTest("not to be had here: " + done.stderr.strip())
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)

    def ask(self, target, line):
        target.send(line)
        return target.result()

    def memory(self, result):
        with open(result.path("memory_stats.json")) as f:
            return json.load(f)["devices"]


@lib.needs_root
class CudaTest(GpuCase):
    def test_calls_without_a_device_show_with_their_error_and_no_memory(self):
        target = lib.Process(self, [os.path.join(DIR, "cuda_calls"), os.path.join(DIR, "libcudart.so.12")],
                             ready="ready ")
        recorder = self.record("-p", target.pid, "--budget", "off")
        said = self.ask(target, "calls 25")
        result = recorder.stop()
        if said["count"] == 0:
            self.skipTest("this machine has a CUDA device")
        self.assertNothingLost(result.info())
        spans = [s for s in result.trace().spans if s.cat == "cuda"]
        self.assertEqual(collections.Counter(s.name for s in spans), {name: 25 for name in CUDA})
        args = {s.name: s.args for s in spans}
        self.assertEqual(said["malloc"], said["memcpy"])
        error = "driver too old" if said["malloc"] == NO_DRIVER else args["cudaMalloc"]["error"]
        self.assertEqual(args["cudaMalloc"], {"bytes": 1 << 20, "error": error})
        self.assertEqual(args["cudaMemcpy"], {"bytes": 1000, "kind": "host to host", "error": error})
        self.assertEqual(args["cudaMemcpyAsync"],
                         {"bytes": 2000, "kind": "host to device", "stream": 2, "error": error})
        self.assertEqual(args["cudaLaunchKernel"],
                         {"grid_x": 12, "grid_y": 3, "grid_z": 2, "block_x": 128, "block_y": 2, "block_z": 1,
                          "stream": 2, "error": error})
        self.assertEqual(args["cudaEventRecord"], {"event": 0x77, "stream": 2, "error": error})
        self.assertEqual(self.memory(result), [])


@lib.needs_root
class VulkanTest(GpuCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        icd = glob.glob("/usr/share/vulkan/icd.d/lvp_icd*.json")
        if not icd:
            raise unittest.SkipTest("Mesa's lavapipe is not installed (Debian package mesa-vulkan-drivers)")
        cls.env = {**os.environ, "VK_ICD_FILENAMES": icd[0]}

    def start(self):
        return lib.Process(self, [os.path.join(DIR, "vulkan_calls")], ready="ready ", env=self.env)

    def test_counts_submits_and_waits_exactly(self):
        target = self.start()
        self.ask(target, "run 3")
        recorder = self.record("-p", target.pid, "--budget", "off")
        said = self.ask(target, "run 20")
        self.ask(target, "idle 7")
        self.ask(target, "memory 5 4096")
        self.ask(target, "direct 9")
        result = recorder.stop()
        self.assertEqual(said["number"], 23)
        self.assertNothingLost(result.info())
        spans = [s for s in result.trace().spans if s.cat == "vulkan"]
        # What goes to the driver directly is nobody's call here.
        self.assertEqual(collections.Counter(s.name for s in spans),
                         {"vkQueueSubmit": 20, "vkWaitForFences": 20, "vkQueueWaitIdle": 7, "vkAllocateMemory": 5,
                          "vkFreeMemory": 5})
        for s in spans:
            if s.name == "vkQueueSubmit":
                self.assertEqual((s.args["submits"], s.args["command_buffers"]), (1, 1))
        fences = {s.args["fence"] for s in spans if "fence" in s.args}
        self.assertEqual(len(fences), 1)
        self.assertEqual({s.args["timeout_ns"] for s in spans if "timeout_ns" in s.args}, {"none"})
        self.assertEqual({s.args["bytes"] for s in spans if s.name == "vkAllocateMemory"}, {4096})
        # The loader's functions only jump on: no block's address is ever seen, so none is counted.
        self.assertEqual(self.memory(result), [])

    def test_return_probes_give_lengths_and_memory(self):
        target = self.start()
        recorder = self.record("-p", target.pid, "--budget", "off", "--retprobe")
        self.ask(target, "run 20")
        self.ask(target, "memory 6 65536")
        self.ask(target, "keep 5000")
        result = recorder.stop()
        self.assertNothingLost(result.info())
        trace = result.trace()
        spans = collections.defaultdict(list)
        for s in trace.spans:
            spans[s.name].append(s)
        self.assertEqual(len(spans["vkQueueSubmit"]), 20)
        # A wait ends after its work was done: the next submit begins after it.
        marks = sorted(spans["vkQueueSubmit"] + spans["vkWaitForFences"], key=lambda s: s.ts)
        self.assertEqual([s.name for s in marks], ["vkQueueSubmit", "vkWaitForFences"] * 20)
        for a, b in zip(marks, marks[1:]):
            self.assertLessEqual(a.ts + a.dur, b.ts)
        device, = self.memory(result)
        self.assertEqual(device["device"], 10)
        self.assertEqual(device["allocated"]["count"], 0)
        self.assertEqual(device["reserved"]["current_bytes"], 5000)
        self.assertGreaterEqual(device["reserved"]["peak_bytes"], 65536)


if __name__ == "__main__":
    unittest.main()
