# SPDX-License-Identifier: Apache-2.0
"""How `record` behaves towards a person: status line, signals, exit codes, what it leaves behind."""
import os
import pty
import re
import select
import signal
import stat
import subprocess
import time
import unittest

import lib


class Terminal:
    """A child on a terminal of its own."""

    def __init__(self, test, argv):
        master, slave = pty.openpty()
        self.proc = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        self.master = master
        self.text = ""
        test.addCleanup(self.end)

    def read_until(self, pattern, seconds=30):
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            ready = select.select([self.master], [], [], max(0, deadline - time.monotonic()))[0]
            try:
                chunk = os.read(self.master, 65536) if ready else b""
            except OSError:  # the other end is closed
                chunk = b""
            if not chunk:
                raise AssertionError(f"no {pattern!r} in {self.text!r}")
            self.text += chunk.decode(errors="replace")
        return self.text

    def rest(self):
        try:
            while True:
                chunk = os.read(self.master, 65536)
                if not chunk:
                    break
                self.text += chunk.decode(errors="replace")
        except OSError:
            pass
        return self.text

    def end(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        os.close(self.master)


def shown(text):
    """The lines that a terminal shows in the end, with carriage returns and "erase to end of line"."""
    lines = []
    for line in text.split("\n"):
        row, at = "", 0
        for part in re.split(r"(\r|\x1b\[K)", line):
            if part == "\r":
                at = 0
            elif part == "\x1b[K":
                row = row[:at]
            else:
                row = row[:at] + part + row[at + len(part):]
                at += len(part)
        lines.append(row)
    return lines


@lib.needs_root
class StatusLineTest(lib.Case):
    def test_a_terminal_shows_progress_and_no_trace_of_it_afterwards(self):
        target = self.target("obeys")
        out = os.path.join(self.tmp(), "out")
        t = Terminal(self, [lib.TOOL, "record", "-p", str(target.pid), "-o", out])
        t.read_until(r"recording \d+\.\d s  ")
        target.send("spans 50")
        target.result()
        t.read_until(r"recording \d+\.\d s  \S+( [kM])? spans/s  0 lost  \d\S* \S?B  1 process")
        t.proc.send_signal(signal.SIGINT)
        text = t.rest()
        self.assertEqual(t.proc.wait(30), 0, text)
        final = "\n".join(shown(text))
        self.assertNotIn("spans/s  ", final)
        self.assertNotIn("detaching", final)
        self.assertIn("Files in ", final)
        with open(os.path.join(out, "summary.txt")) as f:
            answer = f.readline().strip()
        self.assertIn(" of the time in spans is ", answer)
        self.assertEqual([line for line in final.replace("\r", "").split("\n") if line.strip()][-1], answer,
                         "the answer is where the terminal ends, too")

    def test_no_control_bytes_without_a_terminal(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send("spans 5")
        target.result()
        recorder.stop()
        said = recorder.err.text() + recorder.out.text()
        self.assertNotIn("\x1b", said)
        self.assertNotIn("\r", said)
        self.assertNotIn("spans/s  ", said)

    def test_quiet_says_nothing_when_all_went_well(self):
        target = self.target("obeys")
        recorder = lib.Recorder(self, "-q", "-d", "1s", "-p", target.pid)
        lib.wait_for(lambda: set(lib.semaphores(target.pid, target.path)) == {1}, "the recorder to attach")
        for _ in range(8):  # markers are on a little before the first of them is taken
            target.send("spans 5")
            target.result()
            time.sleep(0.05)
        self.assertEqual(recorder.wait(), 0)
        self.assertEqual((recorder.out.text(), recorder.err.text()), ("", ""))


@lib.needs_root
class SignalTest(lib.Case):
    def test_a_second_ctrl_c_aborts_and_leaves_a_recording_to_recover(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send("threads 2 50000")
        target.result()
        path = recorder.path("recording.clika")
        lib.wait_for(lambda: os.path.getsize(path) > 100_000, "data on disk")
        # Stopped, so that both arrive before it can do anything about the first.
        recorder.signal(signal.SIGSTOP)
        recorder.signal(signal.SIGINT)
        recorder.signal(signal.SIGTERM)
        recorder.signal(signal.SIGCONT)
        self.assertEqual(recorder.wait(), 130, recorder.err.text())
        self.assertIn("clika-bpf-prof export", recorder.err.text())
        self.assertFalse(os.path.exists(recorder.path("summary.txt")))
        lib.wait_for(lambda: set(lib.semaphores(target.pid, target.path)) == {0}, "semaphores back to zero")
        done = lib.tool("export", recorder.dir, "--format", "chrome", check=False)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertGreater(lib.Trace(recorder.path("chrome_trace.json")).names()["work"], 1000)

    def test_a_closed_terminal_saves_as_ctrl_c_does(self):
        target = self.target("obeys")
        recorder = self.record("-p", target.pid)
        target.send("spans 7")
        target.result()
        recorder.signal(signal.SIGHUP)
        self.assertEqual(recorder.wait(), 0, recorder.err.text())
        self.assertSpans(recorder.load().trace(), {"step": 7})


@lib.needs_root
class CommandTest(lib.Case):
    def test_the_status_of_a_command_is_shown_and_not_passed_on(self):
        program = lib.fixture("obeys")
        recorder = lib.Recorder(self, "--", "/bin/sh", "-c", f"{program}; exit 7")
        pid = int(recorder.expect(lambda l: l.startswith("ready "), "'ready'").split()[1])
        lib.wait_for(lambda: set(lib.semaphores(pid, program)) == {1}, "the recorder to attach")
        recorder.send("spans 5")
        recorder.send("quit")
        self.assertEqual(recorder.wait(), 0, recorder.err.text())
        self.assertIn("status 7", recorder.err.text())
        self.assertSpans(recorder.load().trace(), {"step": 5})

    def test_a_command_without_markers_records_nothing(self):
        recorder = lib.Recorder(self, "--", "/bin/true")
        self.assertEqual(recorder.wait(), 4, recorder.err.text())
        self.assertIn("nothing was recorded", recorder.err.text())

    def test_a_command_that_becomes_another_before_its_entry_is_held_there(self):
        recorder = lib.Recorder(self, "--", lib.fixture("execs_early"))
        self.assertEqual(recorder.wait(), 0, recorder.err.text())
        self.assertSpans(recorder.load().trace(), {"step": 3})

    def test_a_command_that_is_killed_is_told_with_its_signal(self):
        recorder = lib.Recorder(self, "--", "/bin/sh", "-c", "kill -9 $$")
        recorder.wait()
        self.assertIn("signal 9", recorder.err.text())

    def test_a_command_that_does_not_exist_leaves_no_folder(self):
        recorder = lib.Recorder(self, "--", "/no/such/program")
        self.assertEqual(recorder.wait(), 4, recorder.err.text())
        self.assertIn("/no/such/program", recorder.err.text())
        self.assertFalse(os.path.exists(recorder.dir))

    def test_what_could_not_begin_leaves_no_file(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        folder = os.path.join(self.tmp(), "given")
        os.mkdir(folder)
        recorder = lib.Recorder(self, "-p", ended.pid, output=folder)
        self.assertNotEqual(recorder.wait(), 0)
        self.assertIn(f"no process {ended.pid}", recorder.err.text())
        self.assertEqual(os.listdir(folder) if os.path.exists(folder) else [], [])

    def test_the_duration_ends_the_recording_and_not_the_command(self):
        done = os.path.join(self.tmp(), "done")
        recorder = lib.Recorder(self, "-d", "500ms", "--", "/bin/sh", "-c",
                                f"read line < {self.fifo()}; touch {done}")
        # The files are there while the command still runs.
        lib.wait_for(lambda: os.path.exists(recorder.path("summary.txt")), "the files")
        self.assertFalse(os.path.exists(done))
        with open(self.fifo(), "w") as f:
            f.write("go\n")
        self.assertEqual(recorder.wait(), 0, recorder.err.text())
        self.assertTrue(os.path.exists(done))

    def fifo(self):
        path = os.path.join(self.tmp(), "fifo")
        if not os.path.exists(path):
            os.mkfifo(path)
        return path


@lib.needs_root
class FolderTest(lib.Case):
    def test_the_folder_is_private_and_named_after_the_time(self):
        target = self.target("obeys")
        done = lib.tool("record", "-d", "200ms", "-p", target.pid, cwd=self.tmp())
        made = [n for n in os.listdir(self.tmp()) if n.startswith("clika-")]
        self.assertEqual(len(made), 1, done.stderr)
        self.assertRegex(made[0], r"^clika-\d{8}-\d{6}$")
        st = os.stat(os.path.join(self.tmp(), made[0]))
        self.assertEqual(stat.S_IMODE(st.st_mode), 0o700)
        for name in os.listdir(os.path.join(self.tmp(), made[0])):
            st = os.stat(os.path.join(self.tmp(), made[0], name))
            self.assertEqual(stat.S_IMODE(st.st_mode), 0o600, name)

    def test_force_replaces_an_earlier_recording(self):
        target = self.target("obeys")
        for spans in (3, 4):
            recorder = self.record("-p", target.pid, *(["--force"] if spans == 4 else []))
            target.send(f"spans {spans}")
            target.result()
            self.assertSpans(recorder.stop().trace(), {"step": spans})

    def test_planted_links_are_never_followed(self):
        target = self.target("obeys")
        victim = os.path.join(self.tmp(), "victim")
        with open(victim, "w") as f:
            f.write("precious")
        out = os.path.join(self.tmp(), "out")
        os.mkdir(out)
        for name in ("chrome_trace.json", "summary.txt", "recording.clika"):
            os.symlink(victim, os.path.join(out, name))
            done = lib.tool("record", "-d", "200ms", "-p", target.pid, "-o", out, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(name, done.stderr)
            lib.tool("record", "-d", "200ms", "-p", target.pid, "-o", out, "--force", check=False)
            with open(victim) as f:
                self.assertEqual(f.read(), "precious", name)
            for left in os.listdir(out):
                os.unlink(os.path.join(out, left))


if __name__ == "__main__":
    unittest.main()
