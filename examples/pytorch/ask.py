# SPDX-License-Identifier: Apache-2.0
"""Asks serve.py for embeddings, one request after the other: python ask.py PORT SECONDS."""
import http.client
import json
import sys
import time

TEXTS = json.dumps(["a small cat sits on the mat", "where does the time of a request go?", "profilers answer that"] * 4)
port, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
begin, n = time.monotonic(), 0
while time.monotonic() < end:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/", TEXTS)
    connection.getresponse().read()
    connection.close()
    n += 1
print(f"{n / (time.monotonic() - begin):.1f} requests/s")
