# SPDX-License-Identifier: Apache-2.0
"""Files of targets while a recording goes on: each is attached once, and none is given up too early."""
import os
import shutil
import signal
import subprocess
import unittest

import lib


@lib.needs_root
class KnownFileTest(lib.Case):
    def test_a_file_whose_mode_or_links_change_is_not_attached_a_second_time(self):
        path = os.path.join(self.tmp(), "touched")
        shutil.copy(lib.fixture("spans_mt_simple"), path)
        args = ("--threads", 1, "--spans", 500, "--plain")
        early = lib.Target(self, path, *args)
        recorder = self.record()
        os.chmod(path, 0o700)
        os.link(path, path + ".link")
        # The loader takes notices of mappings in order: once the second program, mapped later, has its
        # probes, the first one's mapping has been looked at.
        late = lib.Target(self, path, *args)
        other = self.target("every_marker_simple")
        lib.wait_for(lambda: any(lib.semaphores(other.pid, other.path)), "the other program's semaphore")
        for target in (early, late):
            target.run()
        trace = recorder.stop().trace()
        for target in (early, late):
            self.assertEqual(sum(trace.names(target.pid).values()), 500)

    def test_a_file_first_seen_in_a_process_that_is_gone_by_then_is_attached_later(self):
        path = os.path.join(self.tmp(), "brief")
        shutil.copy(lib.fixture("obeys"), path)
        recorder = self.record()
        recorder.signal(signal.SIGSTOP)
        try:
            subprocess.run([path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        finally:
            recorder.signal(signal.SIGCONT)
        late = lib.Target(self, path)
        lib.wait_for(lambda: any(lib.semaphores(late.pid, late.path)), "the late process's semaphore")
        late.send("spans 7")
        late.result()
        self.assertEqual(recorder.stop().trace().names(late.pid)["step"], 7)


if __name__ == "__main__":
    unittest.main()
