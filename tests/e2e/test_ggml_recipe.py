# SPDX-License-Identifier: Apache-2.0
"""llama.cpp processes that nobody built for us, recorded by pid alone: the recipe "ggml" finds what to probe.

The drivers say what they did; what they say of graphs, operations and buffers comes from the library's own calls and
accessors. The recording must say the same.
"""
import collections
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

import lib

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "llama")
DIR = os.path.join(lib.BUILD, "llama")
PROMPT, GENERATION = "llama_decode (prompt)", "llama_decode (generation)"
GRAPH = "ggml_graph_compute"
NOTHING_TO_COMPUTE = {"NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"}
GLU = {"REGLU", "GEGLU", "SWIGLU", "SWIGLU_OAI", "GEGLU_ERF", "GEGLU_QUICK"}
# The tensors that llama.cpp names in the graph of a model of two layers.
LAYER_TENSORS = {f"{name}-{layer}" for layer in range(2) for name in
                 ("attn_norm", "Qcur", "Kcur", "Vcur", "attn_out", "ffn_inp", "ffn_norm", "ffn_gate", "ffn_up",
                  "ffn_swiglu", "ffn_out", "l_out")}
WEIGHTS = {f"blk.{layer}.{name}.weight" for layer in range(2) for name in
           ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")} | {"output.weight"}


@lib.needs_root
class GgmlRecipeTest(lib.Case):
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
        cls.packed_model = os.path.join(DIR, "tiny-q4_0.gguf")

    def drive(self, model=None):
        return lib.Process(self, [os.path.join(DIR, "drive"), self.libs, model or self.model], ready="ready ")

    def serve(self):
        return lib.Process(self, ["node", os.path.join(DIR, "serve.mjs"), self.model], ready="ready ", cwd=DIR)

    def command(self, process, line):
        process.send(line)
        return process.result()

    def watch(self, target, *options):
        """As a user would: the pid and nothing else. All calls are wanted here, whatever they cost."""
        out = tempfile.mkdtemp(dir=self.tmp())
        return self.record("-p", target.pid, "--budget", "off", *options, output=os.path.join(out, "out"))

    def cpu_library(self, pid):
        """The variant of the CPU backend that the process loaded, of all that lie there."""
        with open(f"/proc/{pid}/maps") as f:
            found = set(re.findall(r"libggml-cpu-\w+\.so", f.read()))
        self.assertEqual(len(found), 1, found)
        return found.pop()

    def report(self, result):
        with open(result.path("report.json")) as f:
            return json.load(f)

    def requests(self, result):
        rows = [r for r in self.report(result)["requests"] if r["kind"] == "llama"]
        self.assertEqual(len(rows), 1, rows)
        return rows[0]

    def expected_ops(self, said, threads=1):
        """Spans by name of the operations that the library's graph holds. A norm and the product behind it are one
        call."""
        ops = collections.Counter({k: v for k, v in said["ops"].items() if k not in NOTHING_TO_COMPUTE})
        fused = ops.pop("RMS_NORM", 0)
        ops["MUL"] -= fused
        ops["RMS_NORM_MUL_FUSED"] = fused
        ops["GLU"] = sum(ops.pop(k, 0) for k in GLU)
        return {k.lower(): v * threads for k, v in ops.items() if v}

    def ops(self, trace):
        """Spans of operations, but for the parts for single types that they jump on to."""
        return [s for s in trace.spans if s.cat == "ggml.op" and "<" not in s.name and
                s.name != "add_non_quantized" and not s.name.endswith("_f32") and not s.name.endswith("_bytes")]

    # --- counts ---

    def test_prompts_generation_tokens_and_graphs_are_what_the_program_did(self):
        target = self.drive()
        self.command(target, "generate 2 9 4")  # before anybody looks
        recorder = self.watch(target)
        said = self.command(target, "generate 5 20 11")
        result = recorder.stop()
        self.command(target, "generate 2 9 4")  # after the end
        trace = result.trace()
        names = trace.names()
        self.assertEqual((said["prompts"], said["decodes"], said["tokens"], said["sampled"]), (5, 55, 150, 55))
        self.assertEqual(names[PROMPT], said["prompts"])
        self.assertEqual(names[PROMPT] + names[GENERATION], said["decodes"])
        self.assertEqual(names["llama_sampler_sample"], said["sampled"])
        decodes = [s for s in trace.spans if s.name in (PROMPT, GENERATION)]
        self.assertEqual(sum(s.args["n_tokens"] for s in decodes), said["tokens"])
        self.assertEqual({s.args["n_tokens"] for s in decodes if s.name == PROMPT}, {20})
        self.assertEqual({s.args["n_tokens"] for s in decodes if s.name == GENERATION}, {1})
        graphs = [s for s in trace.spans if s.name == GRAPH]
        self.assertEqual(len(graphs), said["graphs"])
        self.assertEqual(sum(s.args["nodes"] for s in graphs), said["nodes"])
        self.assertEqual(sum(s.args["nodes"] for s in trace.spans
                             if s.name == "ggml_backend_sched_graph_compute_async"), said["nodes"])
        self.assertNothingLost(result.info())
        self.assertEqual(trace.pids(), {target.pid})
        self.assertNests(trace.spans)

    def test_requests_tell_time_to_first_token_and_tokens(self):
        target = self.drive()
        self.command(target, "generate 2 9 4")
        recorder = self.watch(target)
        said = self.command(target, "generate 6 300 40")  # long beside what a busy machine takes away
        row = self.requests(recorder.stop())
        # The next prompt is what ends an answer; the last one still tells of its tokens.
        self.assertEqual((row["begun"], row["ended"]), (said["prompts"], said["prompts"] - 1))
        self.assertEqual(row["units"], said["sampled"])
        # The driver's clock starts before the call and stops after the sampling.
        first = row["time_to_first_output"]
        self.assertEqual(first["count"], said["prompts"])
        self.assertLess(first["mean_ns"] * said["prompts"], said["first_ms"] * 1e6)
        self.assertGreater(first["mean_ns"] * said["prompts"], said["first_ms"] * 1e6 * 0.5)
        token = row["time_per_output_unit"]
        own = said["rest_ms"] * 1e6 / (said["sampled"] - said["prompts"])
        self.assertLess(abs(token["mean_ns"] - own), own * 0.5)
        self.assertGreater(row["units_per_second"], 0)

    def test_operations_are_those_of_the_graph_on_every_thread(self):
        target = self.drive()
        self.command(target, "ops 8")
        for threads in (1, 2):
            with self.subTest(threads=threads):
                self.command(target, f"threads {threads}")
                recorder = self.watch(target)
                said = self.command(target, "ops 8")
                trace = recorder.stop().trace()
                ops = self.ops(trace)
                self.assertEqual(collections.Counter(s.name for s in ops), self.expected_ops(said, threads))
                by_thread = collections.Counter(s.tid for s in ops)
                self.assertEqual(len(by_thread), threads)
                self.assertEqual(len(set(by_thread.values())), 1, by_thread)

    def test_tensors_have_the_names_shapes_and_weights_of_the_model(self):
        target = self.drive()
        recorder = self.watch(target)
        said = self.command(target, "ops 8")
        trace = recorder.stop().trace()
        ops = self.ops(trace)
        tensors = {s.args["tensor"] for s in ops}
        self.assertLessEqual(LAYER_TENSORS, tensors)
        self.assertIn(said["last"], tensors)
        shapes = {s.args["tensor"]: s.args["shape"] for s in ops}
        self.assertEqual(shapes["Qcur-0"], "[16,4,8,1]")  # of the rotation, the last to write it
        self.assertEqual(shapes["ffn_gate-0"], "[128,8,1,1]")
        self.assertEqual(shapes["result_output"], "[362,1,1,1]")
        products = [s for s in ops if s.name == "mul_mat"]
        self.assertEqual({s.args["weights"] for s in products}, WEIGHTS)
        self.assertEqual({s.args["weights_type"] for s in products}, {"f32"})
        # One product a weight: the result's first number is the weight's second.
        for s in products:
            if "ffn_up" in s.args["weights"]:
                self.assertEqual(s.args["shape"].split(",")[0], "[128")

    def test_packed_weights_are_seen_where_the_backend_has_its_own_code_for_them(self):
        target = self.drive(self.packed_model)
        self.command(target, "ops 8")
        recorder = self.watch(target)
        said = self.command(target, "ops 8")
        ops = self.ops(recorder.stop().trace())
        products = [s for s in ops if s.name.startswith("mul_mat")]
        self.assertEqual(len(products), said["ops"]["MUL_MAT"])
        self.assertEqual({s.args["weights"] for s in products}, WEIGHTS)
        types = collections.Counter(s.args["weights_type"] for s in products)
        self.assertEqual(types, {"q4_0": said["ops"]["MUL_MAT"] - 1, "f32": 1})

    def test_with_what_is_off_by_default_no_argument_is_implausible(self):
        target = self.drive()
        self.command(target, "ops 8")
        recorder = self.watch(target, "--recipe", "ggml:all")
        said = self.command(target, "generate 20 8 3")
        self.command(target, "again 2")
        result = recorder.stop()
        self.assertNotIn("recipe-argument", {w["code"] for w in self.report(result)["warnings"]})
        spans = result.trace().spans
        copies = collections.Counter((s.args["tensor"], s.args["bytes"]) for s in spans
                                     if s.name == "ggml_backend_tensor_set")
        # Numbers of 4 bytes: the tokens of each prompt, then one by one.
        self.assertEqual((copies["inp_tokens", 32], copies["inp_tokens", 4]), (20, 40))
        inside = collections.Counter((s.args["tensor"], s.args["bytes"]) for s in spans
                                     if s.name == "ggml_backend_cpu_buffer_set_tensor")
        self.assertEqual(inside, copies)
        self.assertEqual(sum(s.name == "llama_sampler_accept" for s in spans), said["sampled"])

    # --- memory ---

    def test_buffers_balance_and_their_bytes_are_those_the_library_tells(self):
        target = self.drive()
        self.command(target, "again 1")
        recorder = self.watch(target)
        said = self.command(target, "again 4")
        result = recorder.stop()
        with open(result.path("memory_stats.json")) as f:
            memory = json.load(f)
        self.assertEqual(len(memory["devices"]), 1)
        device = memory["devices"][0]
        self.assertGreater(said["allocs"], 0)
        self.assertEqual((device["allocated"]["count"], device["allocated"]["bytes"]),
                         (said["allocs"], said["alloc_bytes"]))
        self.assertEqual((device["freed"]["count"], device["freed"]["bytes"]), (said["frees"], said["freed_bytes"]))

    # --- node ---

    def test_node_is_profiled_with_nothing_but_its_pid(self):
        target = self.serve()
        self.command(target, "run 1 4")
        recorder = self.watch(target)
        said = self.command(target, "run 5 24")
        result = recorder.stop()
        trace = result.trace()
        names = trace.names()
        self.assertEqual(names[PROMPT] + names[GENERATION], said["decodes"])
        self.assertEqual(names[PROMPT], said["completions"])
        row = self.requests(result)
        self.assertEqual(row["begun"], said["completions"])
        # Each batch gives one token, the last of which ends a text and is not decoded any more.
        self.assertEqual(row["units"], said["decodes"])
        self.assertTrue(LAYER_TENSORS <= {s.args.get("tensor") for s in trace.spans})
        self.assertNothingLost(result.info())
        target.send("quit")
        self.assertEqual(target.wait(), 0)

    # --- budget ---

    def test_what_a_budget_takes_off_are_operations_not_the_requests_around_them(self):
        target = self.drive()
        self.command(target, "generate 2 400 3")
        recorder = self.record("-p", target.pid, "--budget", "3")
        said = self.command(target, "generate 150 400 3")
        result = recorder.stop()
        names = result.trace().names()
        self.assertIn("budget", {w["code"] for w in self.report(result)["warnings"]})
        self.assertLess(names["rope"], said["graphs"] * 4)
        self.assertEqual((names[PROMPT], names[GENERATION]),
                         (said["prompts"], said["decodes"] - said["prompts"]))
        row = self.requests(result)
        self.assertEqual((row["begun"], row["units"]), (said["prompts"], said["sampled"]))

    # --- which file ---

    def test_the_variant_of_the_backend_that_is_loaded_is_the_one_probed(self):
        target = self.drive()
        used = self.cpu_library(target.pid)
        recorder = self.watch(target)
        said = self.command(target, "ops 3")
        trace = recorder.stop().trace()
        self.assertIn(used, recorder.err.text())
        others = [f for f in os.listdir(self.libs) if f.startswith("libggml-cpu-") and f != used]
        self.assertGreater(len(others), 3)
        for name in others:
            self.assertNotIn(name, recorder.err.text())
        self.assertEqual(trace.names()["mul_mat"], said["ops"]["MUL_MAT"])

    def test_a_program_that_is_started_by_record_loads_its_libraries_later(self):
        recorder = self.record("--budget", "off", "--", os.path.join(DIR, "drive"), self.libs, self.model)
        pid = int(recorder.expect(lambda line: line.startswith("ready "), "'ready'").split()[1])
        # On its way it has looked into every variant of the backend, and kept one.
        for name in (self.cpu_library(pid), "libllama"):
            recorder.err.wait(lambda line: re.search(name + r"\S*: attached as", line), f"{name} attached")
        said = self.command(recorder, "generate 4 20 5")
        recorder.send("quit")
        self.assertEqual(recorder.wait(), 0, recorder.err.text())
        result = recorder.load()
        names = result.trace().names()
        self.assertEqual((names[PROMPT], names[GENERATION]), (4, 16))
        self.assertEqual(names["rms_norm_mul_fused"], said["graphs"] * 5)
        self.assertEqual(self.requests(result)["units"], said["sampled"])

    def test_libraries_that_come_and_go(self):
        used = self.cpu_library(self.drive().pid)
        target = lib.Process(self, [os.path.join(DIR, "graph"), self.libs, used], ready="ready ")
        first = self.command(target, "round 3 before")
        self.assertTrue(first["cpu_gone"])
        recorder = self.watch(target)
        # The probes of a file that is mapped later take a moment; once there, they stay while it comes and goes.
        self.command(target, "hold")
        recorder.err.wait(lambda line: used + ": attached as" in line, "the backend attached")
        self.assertTrue(self.command(target, "let go")["cpu_gone"])
        for n, name in ((400, "second"), (1, "third"), (700, "fourth")):
            said = self.command(target, f"round {n} {name}")
            self.assertEqual((said["cpu_gone"], said["sum"]), (True, first["sum"]))
        trace = recorder.stop().trace()
        target.send("quit")
        self.assertEqual(target.wait(), 0)
        products = collections.Counter(s.args["tensor"] for s in trace.spans if s.name == "mul_mat")
        self.assertEqual(products, {"hidden": 1101, "second": 400, "third": 1, "fourth": 700})
        self.assertEqual(trace.names()[GRAPH], 1101)
        weights = collections.Counter(s.args["weights"] for s in trace.spans if s.name == "mul_mat")
        self.assertEqual(weights, {"first.weight": 1101, "second.weight": 1101})

    # --- a bad end ---

    def test_killed_in_a_call(self):
        used = self.cpu_library(self.drive().pid)
        target = lib.Process(self, [os.path.join(DIR, "graph"), self.libs, used], ready="ready ")
        self.command(target, "endless")
        recorder = self.record("-p", target.pid)
        time.sleep(0.2)
        target.signal(signal.SIGKILL)
        rc = recorder.wait(30)
        self.assertEqual(rc, 0, recorder.err.text())
        result = recorder.load()
        trace = result.trace()
        self.assertGreater(trace.names()[GRAPH], 10)
        self.assertNests(trace.spans)
        self.assertTrue(all(s.dur >= 0 for s in trace.spans))

    def test_the_text_of_the_libraries_is_as_it_was(self):
        target = self.drive()
        before = self.text(target.pid)
        recorder = self.watch(target)
        self.command(target, "ops 3")
        self.assertNotEqual(self.text(target.pid), before)
        recorder.stop()
        self.assertEqual(self.text(target.pid), before)

    def text(self, pid):
        """What is mapped executable of the runtime's files."""
        found = []
        with open(f"/proc/{pid}/maps") as f, open(f"/proc/{pid}/mem", "rb", 0) as mem:
            for line in f:
                parts = line.split()
                if len(parts) > 5 and "x" in parts[1] and re.search(r"lib(ggml|llama)", parts[5]):
                    start, end = (int(x, 16) for x in parts[0].split("-"))
                    mem.seek(start)
                    found.append((parts[0], mem.read(end - start)))
        self.assertGreater(len(found), 2)
        return found


if __name__ == "__main__":
    unittest.main()
