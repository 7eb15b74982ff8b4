# SPDX-License-Identifier: Apache-2.0
"""Perfetto traces in Perfetto's trace processor: no complaint, and SQL finds exactly what was recorded."""
import concurrent.futures
import gzip
import os
import re
import shutil
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


UNIT = os.path.join(lib.BUILD, "tests/unit/test_perfetto")
# A trace says itself that records were lost; these are the importer's words for it.
LOSS = {"traced_buf_trace_writer_packet_loss"}
GOLDEN = os.path.join(lib.ROOT, "tests", "golden")


def expected_of(recording, *tag):
    """What the walk over a recording says that an importer must find."""
    run = subprocess.run([UNIT, "--expect", recording, *tag], check=True, capture_output=True, text=True,
                         timeout=120)
    return trace_processor.expected_lines(run.stdout)


@unittest.skipUnless(shutil.which("node") and shutil.which("npm"), "node and npm run the trace processor")
class PerfettoTrace(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        trace_processor.setup()

    def check(self, trace, expected, allowed=()):
        bad, rows = trace_processor.ask(trace, *trace_processor.ALL)
        self.assertEqual([b for b in bad if b["name"] not in allowed], [])
        self.assertSameLines(trace_processor.lines(rows), expected)
        return bad

    def assertSameLines(self, seen, expected):
        for a, b in zip(seen, expected):
            self.assertEqual(a, b)
        self.assertEqual(len(seen), len(expected))

    def trace_of(self, recording, *options, name="trace.pftrace"):
        return export(recording, os.path.join(self.tmp(), name), *options)

    def test_random_recordings_are_read_to_the_last_value(self):
        folder = self.tmp()
        subprocess.run([UNIT, "--write", folder, str(SAMPLES)], check=True, timeout=120)

        def one(i):
            with open(f"{folder}/{i}.expected", encoding="utf-8") as f:
                expected = trace_processor.expected_lines(f.read())
            return trace_processor.ask(export(f"{folder}/{i}.clika", f"{folder}/{i}.pftrace"),
                                       *trace_processor.ALL), expected

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for i, ((bad, rows), expected) in enumerate(pool.map(one, range(1, SAMPLES + 1)), 1):
                with self.subTest(recording=i):
                    self.assertEqual(bad, [])
                    self.assertSameLines(trace_processor.lines(rows), expected)

    def test_golden_traces_are_read_to_the_last_value(self):
        for scene in ("serving", "images"):
            with self.subTest(scene):
                recording = os.path.join(GOLDEN, f"{scene}.clika")
                self.check(os.path.join(GOLDEN, f"{scene}.pftrace"), expected_of(recording))

    def test_losses_are_all_that_the_importer_says_of_a_damaged_recording(self):
        recording = os.path.join(GOLDEN, "repaired.clika")
        bad = self.check(os.path.join(GOLDEN, "repaired.pftrace"), expected_of(recording), LOSS)
        self.assertEqual([(b["name"], b["value"]) for b in bad], [("traced_buf_trace_writer_packet_loss", "20")])

    def test_view_of_one_capture_is_clean_too(self):
        recording = os.path.join(GOLDEN, "serving.clika")
        self.check(self.trace_of(recording, "--capture", "steady"), expected_of(recording, "steady"))

    def test_gzip_by_file_name_is_read_as_it_is(self):
        recording = os.path.join(GOLDEN, "serving.clika")
        trace = self.trace_of(recording, name="trace.pftrace.gz")
        with open(trace, "rb") as f, open(os.path.join(GOLDEN, "serving.pftrace"), "rb") as plain:
            self.assertEqual(gzip.decompress(f.read()), plain.read())
        self.check(trace, expected_of(recording))

    def test_packed_packets_are_read_as_they_are(self):
        recording = os.path.join(GOLDEN, "serving.clika")
        trace = self.trace_of(recording, "--compress-packets")
        self.assertLess(os.path.getsize(trace), os.path.getsize(os.path.join(GOLDEN, "serving.pftrace")) / 2)
        self.check(trace, expected_of(recording))

    def test_processes_of_one_pid_stay_apart(self):
        """A pid that three images had, one of which still worked when the next had begun."""
        trace = os.path.join(GOLDEN, "images.pftrace")
        bad, (rows,) = trace_processor.ask(trace, """select p.pid, p.name, th.tid, th.name as thread, count(*) as n
            from slice s join thread_track tt on tt.id = s.track_id join thread th using (utid)
            join process p using (upid) group by p.upid, th.utid order by 1, 2, 3""")
        self.assertEqual(bad, [])
        self.assertEqual([(r["pid"], r["name"], r["thread"], r["n"]) for r in rows], [
            ("50", "app", "app", "1"), ("50", "app", "helper", "1"), ("50", "later", "later", "1"),
            ("50", "sh", "sh", "1"), ("60", "other", "same tid", "1"), ("60", "other", "zero", "1")])

    def test_spans_deeper_than_the_importer_goes_are_left_out_and_counted(self):
        folder = self.tmp()
        subprocess.run([UNIT, "--deep", f"{folder}/deep.clika"], check=True, timeout=120)
        trace = export(f"{folder}/deep.clika", f"{folder}/deep.pftrace")
        self.check(trace, expected_of(f"{folder}/deep.clika"))
        _, (rows,) = trace_processor.ask(trace, """select int_value as n from metadata
            where name = 'trace_attribute.clika.count.too_deep'""")
        self.assertEqual(rows, [{"n": "89"}])

    def test_live_server_is_read_to_the_last_value(self):
        server = lib.Process(self, [os.path.join(lib.BUILD, "digits"), "serve", "--rate", "200"])
        lib.wait_for(lambda: server.out.lines or server.err.lines, "the server's first line")
        recorder = self.record("-p", server.pid, "-d", 2, "--format", "perfetto")
        self.assertEqual(recorder.wait(), 0, recorder.err.text())
        expected = expected_of(recorder.path("recording.clika"))
        self.check(recorder.path("trace.pftrace"), expected)
        for what in ("slice .* layer conv2d", "flow .* submit -> .* dispatch", "slice .*:classify .* request",
                     "counter .* memory%20in%20use"):
            self.assertGreater(sum(bool(re.match(what, line)) for line in expected), 10, what)

    @lib.needs_root
    def test_losses_of_a_live_process_are_seen_where_it_lost_them(self):
        target = self.target("spans_mt_simple", "--threads", 2, "--instants", 100_000, "--stay")
        recorder = self.record("-p", target.pid, "--ring-size", "64K", "--format", "perfetto")
        # A stopped reader: the ring fills whatever the machine's speed.
        recorder.signal(lib.signal.SIGSTOP)
        said = target.run(120)
        recorder.signal(lib.signal.SIGCONT)
        result = recorder.stop(120)
        lost = result.info().lost
        self.assertGreater(lost, 0)
        bad, (rows, told) = trace_processor.ask(
            recorder.path("trace.pftrace"),
            "select count(*) as n from slice join thread_track on thread_track.id = track_id",
            """select s.name, p.pid from slice s join track t on t.id = s.track_id
               left join process_track pt on pt.id = t.id left join process p using (upid)
               where t.name = 'records lost' order by p.pid""")
        self.assertEqual([(b["name"], b["value"]) for b in bad], [("traced_buf_trace_writer_packet_loss", str(lost))])
        self.assertEqual(int(rows[0]["n"]) + lost, said["total"])
        self.assertEqual(told, [{"name": f"records lost: {lost}", "pid": None},
                                {"name": f"records lost: {lost}", "pid": str(target.pid)}])
