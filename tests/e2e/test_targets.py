# SPDX-License-Identifier: Apache-2.0
"""Whose spans are recorded: the targets', wherever their files and namespaces are, and nobody else's."""
import os
import resource
import shutil
import subprocess
import unittest

import lib


@lib.needs_root
class StrangerTest(lib.Case):
    def test_a_process_outside_the_targets_is_never_recorded(self):
        target, stranger = self.target("obeys"), self.target("obeys")
        recorder = self.record("-p", target.pid)
        for _ in range(20):
            stranger.send("threads 2 50")
            stranger.result()
            target.send("spans 5")
            target.result()
        stranger.send("fork 30")
        stranger.result()
        result = recorder.stop()
        trace = result.trace()
        self.assertEqual(trace.pids(), {target.pid})
        self.assertSpans(trace, {"step": 100})
        self.assertEqual(result.info().processes, 1)
        self.assertNothingLost(result.info())

    def test_the_whole_machine_is_every_marked_process_and_those_that_start_later(self):
        early = self.target("obeys")
        recorder = self.record()
        late = self.target("obeys")
        lib.wait_for(lambda: any(lib.semaphores(late.pid, late.path)), "the late process's semaphore")
        early.send("spans 3")
        early.result()
        late.send("spans 4")
        late.result()
        trace = recorder.stop().trace()
        self.assertEqual(trace.names(early.pid)["step"], 3)
        self.assertEqual(trace.names(late.pid)["step"], 4)

    def test_filters_by_command_name_and_user(self):
        other = os.path.join(self.tmp(), "othername")
        shutil.copy(lib.fixture("obeys"), other)
        wanted, unwanted = self.target("obeys"), lib.Target(self, other)
        nobody = lib.Target(self, other, user=65534, group=65534, extra_groups=[])
        for options, pids in ((["--comm", "obey*"], {wanted.pid}), (["--uid", "65534"], {nobody.pid})):
            with self.subTest(options=options):
                recorder = lib.Recorder(self, *options, output=os.path.join(self.tmp(), options[0]))
                recorder.wait_started()
                for target in (wanted, unwanted, nobody):
                    target.send("spans 3")
                    target.result()
                self.assertEqual(recorder.stop().trace().pids(), pids)

    def test_several_processes_are_recorded_under_their_own_pids(self):
        targets = [self.target("obeys") for _ in range(4)]
        recorder = self.record("-p", ",".join(str(t.pid) for t in targets))
        for i, t in enumerate(targets):
            t.send(f"spans {i + 1}")
            t.result()
        trace = recorder.stop().trace()
        for i, t in enumerate(targets):
            self.assertSpans(trace, {"step": i + 1}, t.pid)

    def test_a_process_that_does_not_exist_is_an_error_of_its_own(self):
        gone = self.target("obeys")
        gone.send("quit")
        gone.wait()
        recorder = self.record("-p", gone.pid, started=False)
        self.assertEqual(recorder.wait(), 4)
        self.assertIn(str(gone.pid), recorder.err.text())


@lib.needs_root
class FileTest(lib.Case):
    def test_a_program_replaced_on_disk_is_recorded_from_the_file_it_runs(self):
        path = os.path.join(self.tmp(), "replaced")
        shutil.copy(lib.fixture("obeys"), path)
        target = lib.Target(self, path)
        # Another program under the same name: its offsets are other offsets.
        os.unlink(path)
        shutil.copy(lib.fixture("spans_mt_batched"), path)
        recorder = self.record("-p", target.pid)
        target.send("spans 12")
        target.result()
        trace = recorder.stop().trace()
        self.assertSpans(trace, {"step": 12})

    def test_a_library_deleted_under_the_process_is_recorded(self):
        path = os.path.join(self.tmp(), "libgone.so")
        shutil.copy(lib.fixture("libmarked.so"), path)
        target = self.target("obeys")
        target.send(f"dlopen {path}")
        target.result()
        os.unlink(path)
        recorder = self.record("-p", target.pid)
        target.send("library 9")
        target.result()
        self.assertSpans(recorder.stop().trace(), {"library_work": 9})

    def test_a_program_stripped_of_everything_is_recorded(self):
        for flag in ("--strip-all", "--strip-unneeded"):
            path = os.path.join(self.tmp(), "stripped" + flag)
            shutil.copy(lib.fixture("obeys"), path)
            subprocess.run(["strip", flag, path], check=True)
            target = lib.Target(self, path)
            recorder = lib.Recorder(self, "-p", target.pid, output=os.path.join(self.tmp(), flag))
            recorder.wait_started()
            target.send("spans 12")
            target.result()
            self.assertSpans(recorder.stop().trace(), {"step": 12})

    def test_two_million_symbols_cost_no_more_than_the_notes(self):
        source = os.path.join(self.tmp(), "symbols.s")
        with open(source, "w") as f:
            f.write(".text\n.macro s\nbig_function_number_\\@:\n nop\n.endm\n.rept 2000000\ns\n.endr\n"
                    '.section .note.GNU-stack,"",@progbits\n')
        obj, library = os.path.join(self.tmp(), "symbols.o"), os.path.join(self.tmp(), "libbig.so")
        subprocess.run(["as", "-o", obj, source], check=True)
        subprocess.run([lib.compiler(), "-shared", "-fPIC", "-O2", "-I" + lib.ROOT,
                        "-I" + os.path.join(lib.ROOT, "include"), "-o", library,
                        os.path.join(lib.ROOT, "tests", "fixtures", "libmarked.c"), obj], check=True)
        self.assertGreater(os.path.getsize(library), 50_000_000)
        target = self.target("obeys")
        target.send(f"dlopen {library}")
        target.result()
        recorder = self.record("-p", target.pid)
        # Not a byte of the symbol table has to be looked at.
        self.assertLess(lib.cpu_seconds(recorder.pid), 3)
        self.assertLess(lib.status_kib(recorder.pid, "VmHWM"), 160 * 1024)
        target.send("library 5")
        target.result()
        self.assertSpans(recorder.stop().trace(), {"library_work": 5})


@lib.needs_root
class NamespaceTest(lib.Case):
    def setUp(self):
        if not shutil.which("unshare"):
            self.skipTest("unshare is not installed")

    def test_a_process_in_another_mount_namespace_is_recorded_and_a_decoy_is_not(self):
        """Inside, the path names our program; outside, the same path names another one."""
        inside, decoy = os.path.join(self.tmp(), "inside"), os.path.join(self.tmp(), "decoy")
        os.mkdir(inside)
        os.mkdir(decoy)
        shutil.copy(lib.fixture("obeys"), os.path.join(inside, "program"))
        shutil.copy(lib.fixture("spans_mt_batched"), os.path.join(decoy, "program"))
        target = lib.Process(self, ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c",
                                    f"mount --bind {inside} {decoy} && exec {decoy}/program"])
        target.expect(lambda l: l.startswith("ready "), "'ready'")
        recorder = self.record("-p", target.pid)
        target.send("spans 14")
        target.result()
        self.assertSpans(recorder.stop().trace(), {"step": 14})

    def test_a_process_in_another_time_namespace_is_recorded_at_the_kernels_time(self):
        for program in ("spans_mt_batched", "spans_mt_simple"):
            for ahead in (100_000, -5):
                with self.subTest(program=program, ahead=ahead):
                    holder = lib.Process(self, ["unshare", "--time", "--boottime", str(ahead), "--fork",
                                                lib.fixture(program), "--threads", "2", "--spans", "500", "--stay"])
                    pid = int(holder.expect(lambda l: l.startswith("ready "), "the program's pid").split()[1])
                    recorder = self.record("--force", "--format", "chrome", "-p", pid)
                    holder.send("go")
                    holder.expect(lambda l: l.startswith("{"), "its answer")
                    result = recorder.stop()
                    self.assertNothingLost(result.info())
                    self.assertEqual(len(result.trace().spans), 1000)
                    self.assertLess(result.info().duration_ns, 30_000_000_000)

    def test_a_process_in_another_pid_namespace_keeps_its_host_pid(self):
        holder = lib.Process(self, ["unshare", "--pid", "--fork", "--mount-proc", lib.fixture("obeys")])
        ready = holder.expect(lambda l: l.startswith("ready "), "'ready'")
        inner = int(ready.split()[1])
        with open(f"/proc/{holder.pid}/task/{holder.pid}/children") as f:
            pid = int(f.read().split()[0])
        self.assertNotEqual(inner, pid)
        recorder = self.record("-p", pid)
        holder.send("spans 8")
        holder.result()
        holder.send("fork 5")
        holder.result()
        result = recorder.stop()
        trace = result.trace()
        self.assertSpans(trace, {"step": 8}, pid)
        self.assertEqual(trace.names()["child_step"], 5)
        self.assertNothingLost(result.info())


@lib.needs_root
class ManyTest(lib.Case):
    def test_three_hundred_targets_need_few_descriptors(self):
        targets = [self.target("obeys") for _ in range(300)]
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200))  # noqa: E731
        recorder = self.record("-p", ",".join(str(t.pid) for t in targets), preexec_fn=limit)
        self.assertLess(lib.open_files(recorder.pid), 150)
        for t in targets:
            t.send("spans 2")
            t.result()
        result = recorder.stop(120)
        trace = result.trace()
        self.assertEqual(trace.pids(), {t.pid for t in targets})
        self.assertSpans(trace, {"step": 600})
        self.assertNothingLost(result.info())


if __name__ == "__main__":
    unittest.main()
