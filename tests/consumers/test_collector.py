# SPDX-License-Identifier: Apache-2.0
# run-tests: timeout=1800
"""A real OpenTelemetry Collector takes what we push, and prints the spans that the file holds."""
import collections
import datetime
import json
import os
import re
import shutil
import socket
import tempfile
import unittest
import urllib.request

import lib
import library
import readers

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(lib.ROOT, "tests", "golden")

CONFIG = """
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{port}
exporters:
  debug:
    verbosity: detailed
    use_internal_logger: false
    sampling_initial: 100000
    sampling_thereafter: 1
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [debug]
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Collector(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        readers.fetch("setup-collector.sh", HERE)

    def start(self):
        folder = tempfile.mkdtemp(prefix="clika-collector-")
        self.addCleanup(shutil.rmtree, folder)
        self.url = f"http://127.0.0.1:{free_port()}"
        config = os.path.join(folder, "config.yaml")
        with open(config, "w") as f:
            f.write(CONFIG.format(port=self.url.rsplit(":", 1)[1]))
        process = lib.Process(self, [os.path.join(lib.BUILD, "tools", "collector", "collector"),
                                     "--config", config])
        process.err.wait(lambda line: "Everything is ready" in line, "the collector to be ready")
        return process

    def printed(self, process, spans):
        """The spans as the collector shows them, once all are there."""
        lib.wait_for(lambda: sum(line.startswith("Span #") for line in process.out.lines) >= spans,
                     f"{spans} spans in the collector's output")
        text = "\n".join(process.out.lines)
        for block in re.split(r"^Span #\d+$", text, flags=re.M)[1:]:
            yield {key.strip(): value for key, value in re.findall(r"^    ([\w ]+?) *: ?(.*)$", block, re.M)}, block

    def file_spans(self, recording):
        path = os.path.join(self.tmp(), "otlp.jsonl")
        with library.Recording(recording) as r:
            r.export("otlp", path)
        with open(path) as f:
            for line in f:
                for resource in json.loads(line)["resourceSpans"]:
                    for scope in resource["scopeSpans"]:
                        yield from scope["spans"]

    def test_pushed_spans_arrive_with_times_names_and_parents(self):
        recording = os.path.join(GOLDEN, "serving.clika")
        expected = list(self.file_spans(recording))
        process = self.start()
        with library.Recording(recording) as r:
            result = r.push(self.url)
        self.assertEqual((result.spans, result.rejected, result.retries), (len(expected), 0, 0))
        found = {}
        for span, block in self.printed(process, len(expected)):
            found[span["ID"]] = (span, block)
        self.assertEqual(len(found), len(expected))
        for s in expected:
            span, block = found[s["spanId"]]
            self.assertEqual((span["Trace ID"], span["Name"]), (s["traceId"], s["name"]))
            self.assertEqual(span["Parent ID"], s.get("parentSpanId", ""))
            self.assertEqual(span["Kind"], {1: "Internal", 2: "Server"}[s["kind"]])
            for key, ns in (("Start time", s["startTimeUnixNano"]), ("End time", s["endTimeUnixNano"])):
                moment, fraction = re.match(r"(\d+-\d+-\d+ \d+:\d+:\d+)(?:\.(\d+))? \+0000 UTC", span[key]).groups()
                seconds = int(datetime.datetime.strptime(moment + "+0000", "%Y-%m-%d %H:%M:%S%z").timestamp())
                self.assertEqual(seconds * 10**9 + int((fraction or "").ljust(9, "0")), int(ns))
            for attribute in s["attributes"]:
                self.assertIn(f"-> {attribute['key']}: ", block)
        kinds = collections.Counter(span["Kind"] for span, _ in found.values())
        self.assertEqual(kinds["Server"], sum(s["kind"] == 2 for s in expected))

    def test_file_lines_are_requests_that_it_takes(self):
        recording = os.path.join(GOLDEN, "repaired.clika")
        path = os.path.join(self.tmp(), "otlp.jsonl")
        with library.Recording(recording) as r:
            r.export("otlp", path)
        process = self.start()
        spans = 0
        with open(path, "rb") as f:
            for line in f:
                request = urllib.request.Request(self.url + "/v1/traces", data=line,
                                                 headers={"Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=30) as answer:
                    self.assertEqual(answer.status, 200)
                spans += line.count(b'"spanId"') - line.count(b'"links"')
        self.assertTrue(spans)
        self.assertTrue(list(self.printed(process, 1)))


if __name__ == "__main__":
    unittest.main()
