# SPDX-License-Identifier: Apache-2.0
"""The example server: right answers, the same bits with and without recording, and recordings that hold
exactly what it did, as it counted that itself without the markers."""
import collections
import ctypes
import glob
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import lib

DIGITS = os.path.join(lib.BUILD, "digits")
SHARED = os.path.join(lib.BUILD, "libdigits.so")
FOLDER = os.path.join(lib.ROOT, "examples", "digits")


class Said:
    """What the program printed."""

    def __init__(self, lines):
        text = "\n".join(lines)
        right = re.search(r"^right: (\d+) of (\d+)", text, re.M)
        self.right, self.requests = int(right[1]), int(right[2])
        self.checksum = re.search(r"^checksum: ([0-9a-f]{16})$", text, re.M)[1]
        counts = [l for l in lines if l.startswith("{")]
        self.counts = json.loads(counts[0]) if counts else None


def digits(*args, check=True):
    done = subprocess.run([DIGITS, *map(str, args)], capture_output=True, text=True, timeout=lib.PATIENCE)
    if check and done.returncode:
        raise AssertionError(f"digits {args} ended with {done.returncode}: {done.stderr}")
    return done


def run(*args):
    return Said(digits("run", *args).stdout.splitlines())


class DigitsCase(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.path.exists(DIGITS):
            raise AssertionError(f"{DIGITS} is not built")

    def recorded(self, *args, record=()):
        """A whole run under the recorder: what it said and what was recorded."""
        recorder = self.record(*record, "--", DIGITS, *args)
        recorder.wait()
        result = recorder.stop()
        return Said(recorder.out.lines), result


class AloneTest(DigitsCase):
    def test_reads_at_least_95_of_100_held_out_images(self):
        said = run("--requests", 360, "--seed", 0)
        self.assertEqual(said.requests, 360)
        self.assertGreaterEqual(said.right, 0.95 * 360)

    def test_results_depend_on_images_and_views_alone(self):
        first = run("-n", 700)
        for args in (["-w", 1, "-b", 1], ["-w", 4, "-b", 64], ["-q", 1, "-u", 0], ["--exact"]):
            said = run("-n", 700, *args)
            self.assertEqual((said.checksum, said.right), (first.checksum, first.right), args)
        self.assertNotEqual(run("-n", 700, "-s", 2).checksum, first.checksum)
        self.assertNotEqual(run("-n", 700, "-v", 3).checksum, first.checksum)

    def test_repeated_passes_are_told_one_by_one(self):
        lines = digits("run", "-n", 50, "--repeat=3").stdout.splitlines()
        self.assertEqual(len({l for l in lines if l.startswith("checksum")}), 1)
        self.assertEqual(len([l for l in lines if l.startswith("right")]), 3)

    def test_serves_until_it_is_told_to_stop(self):
        for sig in (signal.SIGTERM, signal.SIGINT):
            server = lib.Process(self, [DIGITS, "serve", "--rate", "500", "--exact"], ready="serving")
            lib.wait_for(lambda: lib.cpu_seconds(server.pid) > 0.02, "the server at work")
            server.signal(sig)
            self.assertEqual(server.wait(), 0)
            said = Said(server.out.lines)
            self.assertGreater(said.requests, 0)
            self.assertEqual(said.counts["counts"]["request_ends"], said.requests)

    def test_turns_requests_away_when_they_are_too_many(self):
        done = digits("serve", "--rate", 1000000, "--seconds", 0.3, "--queue", 2, "--batch", 1, "--exact")
        said = Said(done.stdout.splitlines())
        away = int(re.search(r"^turned away: (\d+)$", done.stdout, re.M)[1])
        self.assertEqual(said.counts["instants"]["request rejected"], away)
        self.assertEqual(said.counts["spans"]["submit"], said.requests + away)
        self.assertEqual(said.counts["counts"]["request_begins"], said.requests)

    def test_refuses_a_wrong_command_line(self):
        for args in ([], ["walk"], ["run", "serve"], ["run", "--workers", "0"], ["run", "--batch", "many"],
                     ["run", "--requests", "-1"], ["serve", "--rate", "nan"], ["run", "--unknown"],
                     ["run", "--capture-from", "5", "--capture-to", "5"]):
            self.assertEqual(digits(*args, check=False).returncode, 2, args)
        self.assertEqual(digits("--help").returncode, 0)

    @unittest.skipUnless(importlib.util.find_spec("sklearn"), "needs scikit-learn: training")
    def test_training_gives_the_same_weights_again(self):
        done = subprocess.run([sys.executable, os.path.join(FOLDER, "train.py"), "--check", "--quiet"],
                              capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Options(ctypes.Structure):
    _fields_ = [("sz", ctypes.c_size_t)] + [
        (n, ctypes.c_uint32) for n in ("workers", "batch", "batch_wait_us", "queue", "views")] + [
        ("capture_from", ctypes.c_uint64), ("capture_to", ctypes.c_uint64), ("label", ctypes.c_char_p)]


class Answer(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("tag", ctypes.c_uint64), ("error", ctypes.c_int32),
                ("digit", ctypes.c_int32), ("probability", ctypes.c_float),
                ("logits", ctypes.c_float * 10), ("batch", ctypes.c_uint32),
                ("queued_ns", ctypes.c_uint64), ("total_ns", ctypes.c_uint64)]


class Summary(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("requests", "right", "failed", "checksum", "elapsed_ns")]


class SharedLibraryTest(DigitsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = SHARED
        if os.path.exists(SHARED):
            return
        folder = tempfile.mkdtemp(prefix="clika-e2e-")
        cls.addClassCleanup(shutil.rmtree, folder, True)
        cls.path = os.path.join(folder, "libdigits.so")
        sources = [p for p in glob.glob(os.path.join(FOLDER, "*.c")) if not p.endswith("/main.c")]
        subprocess.run([lib.compiler(), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
                        "-fvisibility=hidden", "-I" + os.path.join(lib.ROOT, "include"), *sources,
                        "-o", cls.path, "-lm", "-lpthread"], check=True)

    def setUp(self):
        self.library = ctypes.CDLL(self.path)
        self.library.digits_data__pixels.restype = ctypes.c_void_p
        options = Options()
        self.library.digits_options__init(ctypes.byref(options))
        self.engine = ctypes.c_void_p()
        self.assertEqual(self.library.digits_engine__create(ctypes.byref(options),
                                                            ctypes.byref(self.engine)), 0)
        self.addCleanup(self.library.digits_engine__destroy, self.engine)

    def test_computes_what_the_program_computes(self):
        summary = Summary()
        rc = self.library.digits_engine__run(self.engine, ctypes.c_uint64(500), ctypes.c_uint64(9),
                                             ctypes.byref(summary))
        said = run("-n", 500, "-s", 9)
        self.assertEqual(rc, 0)
        self.assertEqual((summary.right, f"{summary.checksum:016x}"), (said.right, said.checksum))

    def test_answers_by_callback_and_by_id(self):
        lib_, answers = self.library, []
        done = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Answer))(
            lambda _, answer: answers.append((answer[0].tag, answer[0].digit)))
        ids = []
        for i in range(40):
            number = ctypes.c_uint64()
            pixels = ctypes.c_void_p(lib_.digits_data__pixels(i))
            rc = lib_.digits_engine__submit(self.engine, pixels, ctypes.c_uint64(i),
                                            done if i % 2 else None, None, ctypes.byref(number))
            self.assertEqual(rc, 0)
            ids.append(number)
        self.assertEqual(lib_.digits_engine__drain(self.engine), 0)
        for i in range(0, 40, 2):
            answer = Answer()
            self.assertEqual(lib_.digits_engine__wait(self.engine, ids[i], -1, ctypes.byref(answer)), 0)
            self.assertEqual((answer.id, answer.tag, answer.error), (ids[i].value, i, 0))
            answers.append((answer.tag, answer.digit))
        self.assertEqual(len(dict(answers)), 40)
        right = sum(lib_.digits_data__label(tag) == digit for tag, digit in answers)
        self.assertGreaterEqual(right, 36)

    def test_shows_only_its_interface(self):
        names = subprocess.run(["nm", "-D", "--defined-only", self.path], capture_output=True, text=True,
                               check=True).stdout.split()[2::3]
        self.assertTrue(names)
        self.assertEqual([n for n in names if not n.startswith(("digits_engine__", "digits_options__",
                                                                "digits_data__"))], [])


@lib.needs_root
class RecordedTest(DigitsCase):
    def counter_samples(self, trace, name):
        """Its values; the exporter closes a counter by repeating the last one."""
        samples = sorted((lib._ns(e["ts"]), e["args"]) for e in trace.of("C") if e["name"] == name)
        return [args for _, args in samples]

    def test_recording_holds_exactly_what_was_done(self):
        said, result = self.recorded("run", "-n", 2000, "-w", 3, "-b", 5, "--exact")
        trace, counts = result.trace(), said.counts
        n = counts["counts"]
        self.assertNothingLost(result.info())
        self.assertSpans(trace, counts["spans"])
        self.assertEqual(sum(s.args["size"] for s in trace.spans if s.name == "batch"), 2000)
        self.assertEqual(sum(s.args["flops"] for s in trace.spans if s.name == "gemm"), n["flops"])
        instants = collections.Counter(e["name"] for e in trace.of("i"))
        for name, count in counts["instants"].items():
            self.assertEqual(instants[name], count, name)
        for name, count in counts["counters"].items():
            self.assertIn(len(self.counter_samples(trace, name)), (count, count + 1), name)
        queued = collections.Counter((e["ph"], e["name"]) for ph in "ben" for e in trace.of(ph))
        for name in ("queued", "collect"):
            self.assertEqual((queued["b", name], queued["e", name]),
                             (counts["async_begins"][name], counts["async_ends"][name]), name)
        self.assertEqual((queued["b", "classify"], queued["e", "classify"]),
                         (n["request_begins"], n["request_ends"]))
        self.assertEqual((queued["n", "first output"], queued["n", "output"]),
                         (n["request_firsts"], n["request_outputs"]))
        # Out to step, step to in: two arrows a request.
        self.assertEqual((len(trace.of("s")), len(trace.of("f"))),
                         (n["flow_outs"] + n["flow_steps"], n["flow_steps"] + n["flow_ins"]))
        self.assertIn("classify", result.summary())

    def test_memory_is_recorded_to_the_byte(self):
        said, result = self.recorded("run", "-n", 500, "-w", 2, "--exact")
        trace, pools = result.trace(), said.counts["memory"].values()
        in_use = [a["bytes"] for a in self.counter_samples(trace, "memory in use (device 0)")]
        reserved = [a["bytes"] for a in self.counter_samples(trace, "memory reserved (device 0)")]
        self.assertIn(len(in_use) - sum(p["allocs"] + p["frees"] for p in pools), (0, 1))
        self.assertIn(len(reserved) - sum(p["reserves"] + p["releases"] for p in pools), (0, 1))
        self.assertEqual((in_use[-1], reserved[-1]), (0, 0))
        rises = sum(max(0, b - a) for a, b in zip([0] + in_use, in_use))
        self.assertEqual(rises, sum(p["alloc_bytes"] for p in pools))
        # All pools reserve early and release at the end: the sum stands at its peak in between.
        self.assertEqual(max(reserved), sum(p["reserve_bytes"] for p in pools))
        self.assertLessEqual(max(in_use), sum(p["peak"] for p in pools))

    def test_results_are_the_same_bits_while_recorded(self):
        alone = run("-n", 1500, "-s", 5)
        said, _ = self.recorded("run", "-n", 1500, "-s", 5)
        self.assertEqual((said.checksum, said.right), (alone.checksum, alone.right))

    def test_layers_nest_in_batches_and_tell_their_shapes(self):
        _, result = self.recorded("run", "-n", 64, "-w", 1, "-b", 8, "-u", 1000000, "-v", 2)
        spans = result.trace().spans
        batches = [s for s in spans if s.name == "batch"]
        self.assertEqual([b.args["size"] for b in batches], [8] * 8)
        for tid in {s.tid for s in spans}:
            self.assertNests([s for s in spans if s.tid == tid])
        for b in batches:
            inside = [s for s in spans if s.tid == b.tid and b.ts <= s.ts and s.ts + s.dur <= b.ts + b.dur]
            convs = [s.args for s in sorted(inside, key=lambda s: s.ts) if s.name == "conv2d"]
            self.assertEqual([(a["layer"], a["shape"]) for a in convs],
                             [("conv1", "16x1x8x8"), ("conv2", "16x8x8x8"), ("conv3", "16x16x4x4")])
            self.assertEqual(sum(s.name == "complete" for s in inside), 8)
            self.assertEqual({s.cat for s in inside if s.name in ("conv2d", "dense", "softmax")}, {"layer"})

    def test_threads_and_process_have_their_names(self):
        _, result = self.recorded("run", "-n", 50, "-w", 2)
        trace = result.trace()
        threads = {a["name"] for a in trace.metadata("thread_name").values()}
        self.assertLessEqual({"client", "batcher", "worker 0", "worker 1"}, threads)
        labels = " ".join(a["labels"] for a in trace.metadata("process_labels").values())
        self.assertIn("digits", labels)

    def test_a_capture_from_within_holds_what_its_requests_caused(self):
        _, result = self.recorded("run", "-n", 300, "-w", 1, "--capture-from", 100, "--capture-to", 120)
        path = os.path.join(self.tmp(), "window.json")
        lib.export(result.recording, "chrome", path, "--capture", "window")
        trace = lib.Trace(path)
        tags = {s.args["tag"] for s in trace.spans if s.name == "submit"}
        self.assertLessEqual(set(range(100, 120)), tags)
        self.assertNotIn(0, tags)
        self.assertLess(len(tags), 300)
        # The work of request 119 runs after the window has closed, and is there all the same.
        first = min(s.args["id"] for s in result.trace().spans if s.name == "complete")
        done = {s.args["id"] - first for s in trace.spans if s.name == "complete"}
        self.assertLessEqual(set(range(100, 120)), done)

    def test_a_server_at_work_is_recorded_and_serves_on(self):
        server = lib.Process(self, [DIGITS, "serve", "--rate", "800", "--exact"], ready="serving")
        recorder = self.record("-p", server.pid)
        lib.wait_for(lambda: os.path.exists(recorder.path("recording.clika")), "a recording")
        before = lib.cpu_seconds(server.pid)
        lib.wait_for(lambda: lib.cpu_seconds(server.pid) > before + 0.1, "the server at work")
        self.assertIn(1, lib.semaphores(server.pid, DIGITS))
        result = recorder.stop()
        lib.wait_for(lambda: set(lib.semaphores(server.pid, DIGITS)) == {0}, "semaphores back to zero")
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 0)
        names = result.trace().names()
        self.assertNothingLost(result.info())
        self.assertGreater(names["batch"], 10)
        self.assertEqual(names["im2col"], names["conv2d"])
        self.assertEqual(names["load_model"], 0)  # it was over when the recorder came


if __name__ == "__main__":
    unittest.main()
