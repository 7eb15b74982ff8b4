# SPDX-License-Identifier: Apache-2.0
"""Options of record on a live target: windows, what is left out, how it ends, whose files they are."""
import json
import os
import signal
import stat
import subprocess
import unittest

import lib


@lib.needs_root
class WindowTest(lib.Case):
    def test_delay_leaves_the_warm_up_out(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid, "--delay", "2s")
        target.send("spans 50")  # warm-up
        target.result()
        opened = lib.time.monotonic() + 2.5
        lib.wait_for(lambda: lib.time.monotonic() > opened, "the end of the warm-up")
        target.send("spans 9")
        target.result()
        self.assertSpans(recorder.stop().trace(), {"step": 9})

    def test_duration_ends_the_recording_by_itself(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid, "-d", "500ms")
        target.send("spans 3")
        target.result()
        self.assertEqual(recorder.wait(), 0, recorder.err.text())
        info = recorder.load().info()
        self.assertFalse(info.incomplete)
        self.assertSpans(recorder.load().trace(), {"step": 3})

    def test_tag_names_the_capture(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid, "--tag", "my experiment")
        target.send("spans 3")
        target.result()
        result = recorder.stop()
        path = os.path.join(self.tmp(), "tagged.json")
        lib.export(result.recording, "chrome", path, "--capture", "my experiment")
        self.assertSpans(lib.Trace(path), {"step": 3})
        done = lib.export(result.recording, "chrome", path, "--capture", "another", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("my experiment", done.stderr)


@lib.needs_root
class LeftOutTest(lib.Case):
    def test_redact_leaves_texts_of_the_target_out(self):
        target = self.target("every_marker_batched", "--stay")
        recorder = self.record("-p", target.pid, "--redact")
        target.run()
        result = recorder.stop()
        with open(result.recording, "rb") as f:
            recorded = f.read()
        for text in (b"quoted", b"because", b"to device", b"--stay"):
            self.assertNotIn(text, recorded)
        trace = result.trace()
        span = next(s for s in trace.spans if s.name == "all_arguments")
        self.assertEqual(span.args["i_max"], (1 << 63) - 1)

    def test_minimum_duration_leaves_short_spans_out_and_counts_them(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid, "--min-duration", "1h")
        target.send("spans 500")
        target.result()
        result = recorder.stop()
        info = result.info()
        self.assertSpans(result.trace(), {})
        self.assertEqual(info.lost, 0)
        self.assertGreaterEqual(info.filtered, 500)

    def test_no_markers_records_functions_alone(self):
        marked, functions = self.target("obeys"), self.target("func_target", "--rounds", 10, "--stay")
        recorder = self.record("-p", f"{marked.pid},{functions.pid}", "--no-markers",
                               "--probe", "func_target:ft_nested")
        self.assertEqual(set(lib.semaphores(marked.pid, marked.path)), {0})
        marked.send("spans 5")
        marked.result()
        functions.run()
        self.assertSpans(recorder.stop().trace(), {"ft_nested": 10})


@lib.needs_root
class EndTest(lib.Case):
    def test_sigterm_saves_as_ctrl_c_does(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send("spans 30")
        target.result()
        recorder.signal(signal.SIGTERM)
        self.assertEqual(recorder.wait(), 0)
        self.assertSpans(recorder.load().trace(), {"step": 30})

    def test_stop_takes_less_than_two_seconds_at_full_load(self):
        target = self.target("spans_mt_batched", "--threads", 2, "--spans", 3_000_000, "--plain", "--stay")
        recorder = self.record("-p", target.pid, "--no-export")
        target.go()
        path = recorder.path("recording.clika")
        lib.wait_for(lambda: os.path.exists(path) and os.path.getsize(path) > 1 << 20, "data on disk")
        t0 = lib.time.monotonic()
        recorder.stop()
        self.assertLess(lib.time.monotonic() - t0, 2.0)
        target.result(120)

    def test_a_recorder_leaves_no_bpf_object_behind(self):
        def objects():
            out = subprocess.run(["bpftool", "--json", "prog", "show"], capture_output=True, text=True)
            return {p["id"] for p in json.loads(out.stdout) if "clika" in p.get("name", "")}

        if subprocess.run(["bpftool", "version"], capture_output=True).returncode:
            self.skipTest("bpftool is not installed")
        before = objects()
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send("spans 5")
        target.result()
        recorder.stop()
        # Programs are freed after a grace period.
        lib.wait_for(lambda: objects() <= before, "BPF programs to go")

    def test_files_belong_to_the_user_behind_sudo_and_are_private(self):
        target = self.target("obeys")
        folder = os.path.join(self.tmp(), "home")
        os.mkdir(folder)
        os.chown(folder, 65534, 65534)
        out = os.path.join(folder, "out")
        env = dict(os.environ, SUDO_UID="65534", SUDO_GID="65534", SUDO_USER="nobody")
        recorder = lib.Recorder(self, "-p", target.pid, output=out, env=env).wait_started()
        target.send("spans 5")
        target.result()
        recorder.stop()
        for path in [out] + [os.path.join(out, n) for n in os.listdir(out)]:
            st = os.lstat(path)
            self.assertEqual((st.st_uid, st.st_gid), (65534, 65534), path)
            self.assertEqual(stat.S_IMODE(st.st_mode) & 0o077, 0, path)
        self.assertLessEqual({"recording.clika", "chrome_trace.json", "summary.txt"}, set(os.listdir(out)))


if __name__ == "__main__":
    unittest.main()
