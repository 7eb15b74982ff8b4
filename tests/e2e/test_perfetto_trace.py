# SPDX-License-Identifier: Apache-2.0
"""Perfetto traces in Perfetto's trace processor: no complaint, and SQL finds exactly what was recorded."""
import concurrent.futures
import gzip
import os
import subprocess
import unittest

import lib
import trace_processor

INCOMPLETE = 5  # exit status: exported, but the recording was not finished
SAMPLES = int(os.environ.get("CLIKA_PERFETTO_SAMPLES", "12"))


def export(recording, path, *more):
    run = subprocess.run([lib.TOOL, "export", recording, "--format", "perfetto", "-o", path, *more],
                         capture_output=True, text=True, timeout=120)
    if run.returncode not in (0, INCOMPLETE):
        raise AssertionError(f"export of {recording}: {run.stderr}")
    return path


class PerfettoTrace(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        trace_processor.setup()

    def check_sample(self, folder, i):
        trace = export(f"{folder}/{i}.clika", f"{folder}/{i}.pftrace")
        bad, rows = trace_processor.ask(trace, *trace_processor.ALL)
        with open(f"{folder}/{i}.expected", encoding="utf-8") as f:
            expected = trace_processor.expected_lines(f.read())
        return bad, trace_processor.lines(rows), expected

    def test_random_recordings_are_read_to_the_last_value(self):
        folder = self.tmp()
        subprocess.run([os.path.join(lib.BUILD, "tests/unit/test_perfetto"), "--write", folder, str(SAMPLES)],
                       check=True, timeout=120)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = pool.map(lambda i: self.check_sample(folder, i), range(1, SAMPLES + 1))
        for i, (bad, seen, expected) in enumerate(results, 1):
            with self.subTest(recording=i):
                self.assertEqual(bad, [])
                for a, b in zip(seen, expected):
                    self.assertEqual(a, b)
                self.assertEqual(len(seen), len(expected))
