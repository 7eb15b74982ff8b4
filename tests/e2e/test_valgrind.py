# SPDX-License-Identifier: Apache-2.0
"""The loader under valgrind, for one short live recording with everything that it attaches."""
import os
import shutil
import unittest

import lib

SUPPRESSIONS = os.path.join(lib.ROOT, "tests", "valgrind.supp")


@lib.needs_root
class ValgrindTest(lib.Case):
    maxDiff = None

    def setUp(self):
        if not shutil.which("valgrind"):
            self.skipTest("valgrind is not installed")

    def test_a_live_recording_has_no_errors_and_no_leaks(self):
        target = self.target("obeys")
        functions = self.target("func_target", "--rounds", 20, "--stay")
        log = os.path.join(self.tmp(), "valgrind.log")
        out = os.path.join(self.tmp(), "out")
        recorder = lib.Process(self, [
            "valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite", "--num-callers=30", f"--log-file={log}",
            f"--suppressions={SUPPRESSIONS}", lib.TOOL, "record", "-v", "-o", out, "-p",
            f"{target.pid},{functions.pid}", "--probe", "func_target:ft_*"])
        recorder.err.wait(lib.is_started, "'Recording ...'", 120)
        target.send("threads 3 500")
        target.result()
        target.send("fork 20")
        target.result()
        said = functions.run()
        recorder.signal(lib.signal.SIGINT)
        rc = recorder.wait(180)
        with open(log) as f:
            # "--" lines tell of system calls that this valgrind is too old to know.
            errors = [line for line in f if line.startswith("==")]
        self.assertEqual("".join(errors), "")
        self.assertEqual(rc, 0)
        trace = lib.Trace(os.path.join(out, "chrome_trace.json"))
        self.assertEqual(trace.names()["work"], 1500)
        self.assertEqual(trace.names()["ft_leaf"], said["ft_leaf"])


if __name__ == "__main__":
    unittest.main()
