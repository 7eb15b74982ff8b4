# SPDX-License-Identifier: Apache-2.0
"""Processes that end, crash, fork, execute and load libraries while they are recorded."""
import os
import shutil
import signal
import unittest

import lib


@lib.needs_root
class EndTest(lib.Case):
    def test_a_target_killed_inside_spans_leaves_everything_it_marked(self):
        for program in ("spans_mt_batched", "spans_mt_simple"):
            with self.subTest(program=program):
                out = os.path.join(self.tmp(), program)
                target = self.target(program, "--threads", 4, "--spans", 50, "--hang-in-span")
                recorder = lib.Recorder(self, "-p", target.pid, output=out).wait_started()
                said = target.run()
                target.signal(signal.SIGKILL)
                target.wait()
                self.assertEqual(recorder.wait(), 0, recorder.err.text())  # its natural end
                result = recorder.load()
                info, trace = result.info(), result.trace()
                names = trace.names()
                hanging = names.pop("hanging")
                if info.unknown_at_most == 0:
                    self.assertEqual(sum(names.values()), said["total"])
                    self.assertEqual(hanging, 4)
                self.assertEqual(info.lost, 0)
                for s in trace.spans:
                    self.assertGreaterEqual(s.dur, 0)

    def test_the_last_marker_before_exit_is_there(self):
        for program in ("spans_mt_batched", "spans_mt_simple"):
            with self.subTest(program=program):
                for i in range(10):
                    out = os.path.join(self.tmp(), f"{program}-{i}")
                    target = self.target(program, "--threads", 1, "--spans", 10 + i, "--exit-at-once")
                    recorder = lib.Recorder(self, "-p", target.pid, output=out).wait_started()
                    target.run()
                    self.assertEqual(target.wait(), 0)
                    self.assertEqual(recorder.wait(), 0, recorder.err.text())
                    result = recorder.load()
                    names = result.trace().names()
                    self.assertEqual(names["last_of_all"], 1)
                    self.assertEqual(sum(names.values()), 10 + i + 1)
                    self.assertNothingLost(result.info())

    def test_a_crash_of_its_own_leaves_everything_it_marked(self):
        for sig in (signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM):
            with self.subTest(sig=sig):
                out = os.path.join(self.tmp(), str(int(sig)))
                target = self.target("obeys")
                recorder = lib.Recorder(self, "-p", target.pid, output=out).wait_started()
                target.send("spans 20")
                target.result()
                target.send("begin")
                target.result()
                target.send(f"raise {int(sig)}")
                self.assertEqual(target.wait(), -sig)
                self.assertEqual(recorder.wait(), 0, recorder.err.text())
                self.assertSpans(recorder.load().trace(), {"step": 20, "held": 1})

    def test_threads_that_end_leave_everything_they_marked(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        for _ in range(50):
            target.send("threads 4 3")
            target.result()
        result = recorder.stop()
        self.assertSpans(result.trace(), {"work": 600})
        self.assertNothingLost(result.info())


@lib.needs_root
class KilledLoaderTest(lib.Case):
    def test_a_killed_loader_leaves_target_unharmed_and_recording_readable(self):
        target = self.target("spans_mt_batched", "--threads", 2, "--spans", 400_000, "--stay")
        recorder = self.record("-p", target.pid)
        self.assertNotIn(0, lib.semaphores(target.pid, target.path))
        target.go()
        recording = recorder.path("recording.clika")
        # Kill it while data is on its way to disk.
        lib.wait_for(lambda: os.path.exists(recording) and os.path.getsize(recording) > 100_000,
                     "data in the recording")
        recorder.signal(signal.SIGKILL)
        recorder.wait()
        said = target.result()
        lib.wait_for(lambda: set(lib.semaphores(target.pid, target.path)) == {0}, "semaphores back to zero")
        plain = lib.Target(self, target.path, "--now", "--threads", 2, "--spans", 400_000).result()
        self.assertEqual(said["checksum"], plain["checksum"])
        target.close_stdin()
        self.assertEqual(target.wait(), 0)
        info = lib.recording_info(recording)
        self.assertTrue(info.incomplete)
        path = os.path.join(self.tmp(), "recovered.json")
        done = lib.export(recording, "chrome", path, check=False)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("incomplete", done.stderr)
        trace = lib.Trace(path)
        self.assertGreater(len(trace.spans), 1000)
        self.assertLessEqual(len(trace.spans), said["total"])
        seen = {(s.args["thread"], s.args["i"]) for s in trace.spans}
        self.assertEqual(len(seen), len(trace.spans))

    def test_a_killed_loader_leaves_no_probe_of_functions_behind(self):
        target = self.target("func_target", "--rounds", 2000, "--stay")
        recorder = self.record("-p", target.pid, "--probe", "func_target:ft_*")
        recorder.signal(signal.SIGKILL)
        recorder.wait()
        said = target.run()
        plain = lib.Target(self, target.path, "--now", "--rounds", 2000).result()
        self.assertEqual(said, plain)

    def test_a_second_recorder_after_a_killed_one_gets_everything(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send("spans 10")
        target.result()
        recorder.signal(signal.SIGKILL)
        recorder.wait()
        lib.wait_for(lambda: set(lib.semaphores(target.pid, target.path)) == {0}, "semaphores back to zero")
        recorder = self.record("-p", target.pid, output=os.path.join(self.tmp(), "second"))
        target.send("spans 11")
        target.result()
        self.assertSpans(recorder.stop().trace(), {"step": 11})


@lib.needs_root
class FollowTest(lib.Case):
    def test_children_forked_after_the_attach_are_recorded(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        children = []
        for i in range(5):
            target.send(f"fork {10 + i}")
            children.append(target.result()["pid"])
        target.send("spans 4")
        target.result()
        result = recorder.stop()
        trace = result.trace()
        for i, pid in enumerate(children):
            self.assertSpans(trace, {"child_step": 10 + i}, pid)
        self.assertSpans(trace, {"step": 4}, target.pid)
        self.assertNothingLost(result.info())

    def test_grandchildren_with_threads_are_recorded(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send("forkdeep 3 5")
        said = target.result()
        trace = recorder.stop().trace()
        self.assertEqual(trace.names()["child_step"], said["spans"])
        self.assertEqual(len(trace.pids()), 3)

    def test_children_are_left_alone_without_following(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid, "--no-follow")
        target.send("fork 10")
        target.result()
        target.send("spans 3")
        target.result()
        trace = recorder.stop().trace()
        self.assertSpans(trace, {"step": 3})
        self.assertEqual(trace.pids(), {target.pid})

    def test_an_executed_image_is_recorded_as_one_of_its_own(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send("spans 5")
        target.result()
        target.send("exec")
        target.expect(lambda l: l.startswith("ready "), "the next image's 'ready'")
        target.send("spans 6")
        target.result()
        result = recorder.stop()
        self.assertSpans(result.trace(), {"step": 11})
        self.assertEqual(result.info().processes, 2)
        self.assertNothingLost(result.info())

    def test_an_image_that_is_gone_when_its_records_are_read_keeps_its_name(self):
        recorder = self.record()
        target = self.target("obeys")
        lib.wait_for(lambda: any(lib.semaphores(target.pid, target.path)), "the target's semaphore")
        recorder.signal(signal.SIGSTOP)
        try:
            target.send("spans 5")
            target.result()
            target.send("exec")
            target.expect(lambda l: l.startswith("ready "), "the next image's 'ready'")
        finally:
            recorder.signal(signal.SIGCONT)
        lib.wait_for(lambda: any(lib.semaphores(target.pid, target.path)), "the new image's semaphore")
        target.send("spans 6")
        target.result()
        names = [n["name"] for n in recorder.stop().trace().metadata("process_name").values()]
        # The whole machine is recorded: other processes may be there too.
        self.assertLessEqual({"exe", "obeys"}, {n.split()[0] for n in names})

    def test_a_marked_program_executed_by_an_unmarked_one_is_recorded(self):
        script = f"exec {lib.fixture('obeys')}"
        recorder = self.record("--", "/bin/sh", "-c", f"sleep 0; {script}", started=False)
        pid = int(recorder.expect(lambda l: "ready" in l, "'ready' of the command").split()[1])
        lib.wait_for(lambda: any(lib.semaphores(pid, lib.fixture("obeys"))), "the new image's semaphore")
        recorder.send("spans 9")
        recorder.expect(lambda l: "spans" in l, "the command's answer")
        recorder.send("quit")
        self.assertEqual(recorder.wait(), 0, recorder.err.text())
        self.assertSpans(recorder.load().trace(), {"step": 9})

    def test_a_command_that_is_a_script_is_recorded(self):
        script = os.path.join(self.tmp(), "script")
        with open(script, "w") as f:
            f.write(f"#!/bin/sh\nexec {lib.fixture('spans_mt_batched')} --threads 1 --spans 10 --plain\n")
        os.chmod(script, 0o755)
        recorder = self.record("--", script, started=False)
        pid = int(recorder.expect(lambda l: "ready" in l, "'ready' of the command").split()[1])
        lib.wait_for(lambda: any(lib.semaphores(pid, lib.fixture("spans_mt_batched"))), "the semaphore")
        recorder.send("go")
        self.assertEqual(recorder.wait(), 0, recorder.err.text())
        self.assertEqual(sum(recorder.load().trace().names().values()), 10)

    def test_a_library_loaded_after_the_attach_is_recorded(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send(f"dlopen {lib.fixture('libmarked.so')}")
        target.result()
        # New files are seen as they are mapped; the time of the attach is what a person is told.
        lib.wait_for(lambda: any(lib.semaphores(target.pid, lib.fixture("libmarked.so"))),
                     "the library's semaphore")
        target.send("library 25")
        target.result()
        target.send("dlclose")
        target.result()
        target.send("spans 2")
        target.result()
        result = recorder.stop()
        self.assertSpans(result.trace(), {"library_work": 25, "step": 2})
        self.assertNothingLost(result.info())

    def test_libraries_that_come_and_go_are_recorded_from_their_attach_on(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        for i in range(6):
            path = os.path.join(self.tmp(), f"libmarked{i}.so")
            shutil.copy(lib.fixture("libmarked.so"), path)
            target.send(f"dlopen {path}")
            target.result()
            # The probes are on, the loader may still be reading what else it wants to know.
            lib.wait_for(lambda: any(lib.semaphores(target.pid, path)), "the library's semaphore", every=0)
            target.send("library 5")
            target.result()
            target.send("dlclose")
            target.result()
        target.send("quit")
        self.assertEqual(recorder.wait(), 0, recorder.err.text())
        result = recorder.load()
        self.assertSpans(result.trace(), {"library_work": 30})
        self.assertNothingLost(result.info())

    def test_a_vfork_child_that_is_the_first_to_mark_disturbs_nothing(self):
        """It runs in its parent's memory: what it leaves there must not be taken for the parent's."""
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send("vfork")
        target.result()
        target.send("spans 3")
        target.result()
        self.assertSpans(recorder.stop().trace(), {"step": 3}, target.pid)

    def test_vfork_children_disturb_nothing(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send("spans 3")
        target.result()
        for i in range(5):
            target.send("vfork")
            target.result()
            target.send("spans 3")
            target.result()
        trace = recorder.stop().trace()
        self.assertSpans(trace, {"step": 18}, target.pid)


@lib.needs_root
class ChurnTest(lib.Case):
    def test_short_lived_processes_leave_no_growth(self):
        """Processes come and go by the thousand; the loader's memory and descriptors stay as they were."""
        total = int(os.environ.get("CLIKA_CHURN", "50000"))
        spawner = self.target("short_lived", "--stay")
        recorder = self.record("-p", spawner.pid, "--no-export")

        def spawn(n):
            spawner.send(f"spawn {n} 2")
            return spawner.result(300)["spans"]

        # Warm-up until caches have their size.
        spans = spawn(total // 6)
        rss, fds = lib.status_kib(recorder.pid, "VmRSS"), lib.open_files(recorder.pid)
        spans += spawn(total - total // 6)
        self.assertLessEqual(lib.open_files(recorder.pid), fds + 8)
        # What grows with the recording is its index of processes: a stated, small amount each.
        grown = (lib.status_kib(recorder.pid, "VmRSS") - rss) * 1024 / (total - total // 6)
        self.assertLess(grown, 2048, "bytes of resident memory for each process that has ended")
        result = recorder.stop(120)
        info = result.info()
        self.assertEqual(info.lost, 0)
        path = os.path.join(self.tmp(), "trace.json")
        lib.export(result.recording, "chrome", path, timeout=120)
        self.assertEqual(lib.Trace(path).names()["short"], spans)


if __name__ == "__main__":
    unittest.main()
