# SPDX-License-Identifier: Apache-2.0
"""Too much for the ring: what is lost is counted to the last span, and said wherever one looks."""
import os
import subprocess
import unittest

import lib


@lib.needs_root
class OverloadTest(lib.Case):
    def overload(self, program, spans, *options):
        target = self.target(program, "--threads", 4, "--spans", spans, "--plain", "--stay")
        recorder = self.record("-p", target.pid, "--ring-size", "64K", *options)
        said = target.run(120)
        result = recorder.stop(120)
        return said["total"], result, recorder

    def test_emitted_is_recorded_plus_lost_for_batches(self):
        emitted, result, recorder = self.overload("spans_mt_batched", 1_000_000, "--no-export")
        info = result.info()
        path = os.path.join(self.tmp(), "trace.json")
        lib.export(result.recording, "chrome", path, timeout=120)
        recorded = int(subprocess.run(["grep", "-c", '"ph":"X"', path], capture_output=True,
                                      text=True).stdout)
        self.assertGreater(info.lost, 0, "a ring of 64 KiB must overflow here")
        self.assertEqual(emitted, recorded + info.lost)
        self.assertEqual(info.unknown_at_most, 0)
        self.assertEqual(info.emitted, info.recorded + info.lost)

    def test_emitted_is_recorded_plus_lost_for_single_markers(self):
        target = self.target("spans_mt_simple", "--threads", 4, "--instants", 100_000, "--stay")
        recorder = self.record("-p", target.pid, "--ring-size", "64K", "--no-export")
        # A stopped reader: the ring fills whatever the machine's speed.
        recorder.signal(lib.signal.SIGSTOP)
        said = target.run(120)
        recorder.signal(lib.signal.SIGCONT)
        info = recorder.stop(120).info()
        self.assertGreater(info.lost, 0)
        self.assertEqual(said["total"], info.recorded + info.lost)
        self.assertEqual(info.emitted, info.recorded + info.lost)

    def test_losses_are_told_in_every_output(self):
        _, result, recorder = self.overload("spans_mt_batched", 400_000)
        info = result.info()
        self.assertGreater(info.lost, 0)
        self.assertIn("lost", recorder.err.text())
        self.assertIn("lost", result.summary())
        with open(result.path("chrome_trace.json")) as f:
            self.assertIn("lost", f.read().lower())

    def test_a_recording_never_grows_past_its_size_limit(self):
        target = self.target("spans_mt_batched", "--threads", 2, "--spans", 1_000_000, "--plain", "--stay")
        recorder = self.record("-p", target.pid, "--max-size", "2M", "--no-export")
        target.go()
        self.assertEqual(recorder.wait(120), 5, recorder.err.text())
        target.result(120)
        self.assertLessEqual(os.path.getsize(recorder.path("recording.clika")), 3 << 20)
        self.assertIn("max-size", recorder.err.text())
        # What was read and found no room is lost, and counted: a plain span is one record.
        result = recorder.load()
        info = result.info()
        self.assertEqual(info.emitted, info.recorded + info.lost)
        self.assertGreater(info.lost, 0)
        path = os.path.join(self.tmp(), "trace.json")
        lib.export(result.recording, "chrome", path, timeout=120)
        self.assertEqual(len(lib.Trace(path).spans), info.recorded)
        lib.export(result.recording, "summary", result.path("summary.txt"))
        self.assertRegex(" ".join(result.summary().split()), r"max-size: .*after [0-9.]+ s")

    def test_a_flight_recorder_keeps_the_newest(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid, "--max-size", "4M", "--flight-recorder", "--no-export")
        for _ in range(8):
            target.send("threads 1 200000")
            target.result(60)
        target.send("spans 17")
        target.result()
        result = recorder.stop(120)
        self.assertLessEqual(os.path.getsize(result.recording), 5 << 20)
        path = os.path.join(self.tmp(), "trace.json")
        lib.export(result.recording, "chrome", path, timeout=120)
        self.assertEqual(lib.Trace(path).names()["step"], 17)


if __name__ == "__main__":
    unittest.main()
