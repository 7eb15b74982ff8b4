# SPDX-License-Identifier: Apache-2.0
"""Spans of running processes: all of them, once, with the right names, arguments, threads and nesting."""
import json
import os
import shutil
import subprocess
import unittest

import lib

BATCHED, SIMPLE = "spans_mt_batched", "spans_mt_simple"


@lib.needs_root
class ExactCountTest(lib.Case):
    def check(self, trace_path, threads, spans):
        done = subprocess.run([lib.fixture("check_spans"), trace_path, str(threads), str(spans)],
                              capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(done.stdout), {
            "spans": threads * spans, "right": threads * spans, "other": 0, "twice": 0, "bad_name": 0,
            "bad_args": 0, "bad_thread": 0, "missing": 0})

    def exact(self, program, threads, spans, *options, rate=0):
        target = self.target(program, "--threads", threads, "--spans", spans, "--rate", rate, "--stay")
        recorder = self.record("-p", target.pid, "--no-export", *options)
        said = target.run(120)
        self.assertEqual(said["total"], threads * spans)
        result = recorder.stop(120)
        target.end()
        info = result.info()
        self.assertNothingLost(info)
        self.assertFalse(info.incomplete)
        self.assertEqual(info.bad_segments, 0)
        path = os.path.join(self.tmp(), "trace.json")
        lib.export(result.recording, "chrome", path, timeout=180)
        self.check(path, threads, spans)
        os.unlink(path)
        return result, said

    def test_eight_threads_of_a_million_batched_spans_are_all_there(self):
        # A rate and a ring with which a busy machine of two processors still keeps up.
        self.exact(BATCHED, 8, 1_000_000, "--ring-size", "256M", rate=150_000)

    def test_eight_threads_of_simple_spans_are_all_there(self):
        self.exact(SIMPLE, 8, 50_000, "--ring-size", "256M", rate=8_000)

    def test_results_are_bit_identical_with_and_without_recording(self):
        for program in (BATCHED, SIMPLE):
            with self.subTest(program=program):
                args = ("--threads", 4, "--spans", 5000)
                plain = lib.Target(self, lib.fixture(program), "--now", *args).result()
                _, recorded = self.exact(program, 4, 5000)
                self.assertEqual(plain["checksum"], recorded["checksum"])
                shutil.rmtree(os.path.join(self.tmp(), "out"))

    def test_a_command_is_recorded_from_its_first_span(self):
        for program in (BATCHED, SIMPLE):
            with self.subTest(program=program):
                out = os.path.join(self.tmp(), program)
                recorder = self.record("--format", "chrome", "--", lib.fixture(program), "--now",
                                       "--threads", 2, "--spans", 3000, started=False, output=out)
                self.assertEqual(recorder.wait(), 0, recorder.err.text())
                self.check(os.path.join(out, "chrome_trace.json"), 2, 3000)

    def test_variants_of_compiler_and_linking_give_the_same_spans(self):
        for cc in filter(shutil.which, ("gcc", "clang")):
            for flags in (["-O0"], ["-O1"], ["-O3"], ["-O2", "-no-pie", "-fno-pie"], ["-O2", "-static"],
                          ["-O2", "-fcf-protection=full"], ["-O2", "-flto"]):
                if cc == "clang" and "-flto" in flags:
                    continue  # needs a linker plugin that not every machine has
                for source in (BATCHED + ".c", SIMPLE + ".c"):
                    with self.subTest(cc=cc, flags=flags, source=source):
                        self.exact(self.compile(source, "variant", *flags, cc=cc), 2, 1500)
                        shutil.rmtree(os.path.join(self.tmp(), "out"))


@lib.needs_root
class BarrierTest(lib.Case):
    def test_everything_marked_before_a_stop_is_in_the_result(self):
        """Few spans, so that they lie in thread buffers that nobody handed over."""
        target = self.target("obeys")
        for i in range(30):
            out = os.path.join(self.tmp(), f"out-{i}")
            recorder = lib.Recorder(self, "-p", target.pid, "--format", "chrome", output=out).wait_started()
            threads, spans = 1 + i % 4, 1 + i * 3
            target.send(f"threads {threads} {spans}")
            target.result()
            target.send(f"spans {spans}")
            target.result()
            result = recorder.stop()
            self.assertSpans(result.trace(), {"work": threads * spans, "step": spans})
            self.assertNothingLost(result.info())
            shutil.rmtree(out)

    def test_nothing_marked_before_the_start_or_after_the_stop_is_recorded(self):
        target = self.target("obeys")
        target.send("spans 100")
        target.result()
        recorder = self.record("-p", target.pid)
        target.send("spans 7")
        target.result()
        result = recorder.stop()
        target.send("spans 100")
        target.result()
        self.assertSpans(result.trace(), {"step": 7})

    def test_a_span_open_at_the_start_and_one_open_at_the_stop_are_told(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send("begin")
        target.result()
        target.send("spans 3")
        target.result()
        result = recorder.stop()
        trace = result.trace()
        self.assertSpans(trace, {"held": 1, "step": 3})
        held = next(s for s in trace.spans if s.name == "held")
        for s in trace.spans:
            if s.name == "step":
                self.assertTrue(held.ts <= s.ts and s.ts + s.dur <= held.ts + held.dur)
        target.send("end")
        target.result()
        # The end of a span that nobody saw begin leaves no ghost behind.
        recorder = self.record("-p", target.pid, output=os.path.join(self.tmp(), "second"))
        target.send("spans 2")
        target.result()
        self.assertSpans(recorder.stop().trace(), {"step": 2})

    def test_semaphores_count_while_somebody_looks_and_are_zero_otherwise(self):
        for program in (BATCHED, SIMPLE):
            with self.subTest(program=program):
                target = self.target(program, "--threads", 1, "--spans", 1, "--stay")
                self.assertEqual(set(lib.semaphores(target.pid, target.path)), {0})
                out = os.path.join(self.tmp(), program)
                recorder = lib.Recorder(self, "-p", target.pid, output=out).wait_started()
                self.assertNotIn(0, lib.semaphores(target.pid, target.path))
                recorder.stop()
                self.assertEqual(set(lib.semaphores(target.pid, target.path)), {0})


@lib.needs_root
class NumbersTest(lib.Case):
    def test_times_are_plausible_and_nested(self):
        target = self.target(BATCHED, "--threads", 3, "--spans", 2000, "--stay")
        recorder = self.record("-p", target.pid)
        target.run()
        trace = recorder.stop().trace()
        by_thread = {}
        for s in trace.spans:
            by_thread.setdefault(s.tid, []).append(s)
        self.assertEqual(len(by_thread), 3)
        for spans in by_thread.values():
            self.assertNests(spans)
            # In the order of "i", as the thread emitted them: outer begins before inner.
            starts = [s.ts for s in sorted(spans, key=lambda s: int(s.args["i"]))]
            self.assertEqual(starts, sorted(starts))

    def test_names_filter_and_minimum_duration_leave_out_and_count(self):
        target = self.target(BATCHED, "--threads", 2, "--spans", 1000, "--stay")
        recorder = self.record("-p", target.pid, "--name", "attention")
        target.run()
        result = recorder.stop()
        self.assertSpans(result.trace(), {"attention": 500})
        info = result.info()
        self.assertEqual(info.lost, 0)
        self.assertGreaterEqual(info.filtered, 1500)


if __name__ == "__main__":
    unittest.main()
