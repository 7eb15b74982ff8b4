# SPDX-License-Identifier: Apache-2.0
"""The demo does what the README says."""
import os
import re
import subprocess
import unittest

import lib


@lib.needs_root
class DemoTest(lib.Case):
    def test_the_demo_records_a_serving_process_and_says_where_the_files_are(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SUDO_")}
        done = subprocess.run(["tools/demo.sh"], cwd=lib.ROOT, env=dict(env, DEMO_SECONDS="2"),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("chrome_trace.json", "summary.txt", "recording.clika"):
            self.assertIn(f"build/demo/{name}", done.stdout)
            self.assertGreater(os.path.getsize(os.path.join(lib.BUILD, "demo", name)), 1000)
        self.assertIn("ui.perfetto.dev", done.stdout)
        # The summary is on the terminal as it is in the file.
        with open(os.path.join(lib.BUILD, "demo", "summary.txt")) as f:
            self.assertIn(f.read().splitlines()[0], done.stdout)
        names = lib.Trace(os.path.join(lib.BUILD, "demo", "chrome_trace.json")).names()
        self.assertGreater(names["conv2d"], 100)
        server = int(re.search(r"The server is process (\d+)", done.stdout).group(1))
        self.assertFalse(os.path.exists(f"/proc/{server}"), "the server still runs")


if __name__ == "__main__":
    unittest.main()
