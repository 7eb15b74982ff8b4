#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session around some work that marks itself. Needs nothing but clika_runtime.

    python quickstart.py [FOLDER]
"""
import hashlib
import queue
import sys
import threading

from clika_runtime.profiler import ProfileSession, counter, flow_in, flow_out, span

jobs = queue.Queue()


@span("digest")
def digest(data):
    return hashlib.sha256(data * 2000).hexdigest()


def worker():
    while (job := jobs.get()) is not None:
        number, data = job
        with span("job", number=number):
            flow_in("job", number)  # what runs here was caused where flow_out() was called
            digest(data)
        jobs.task_done()


def main():
    threads = [threading.Thread(target=worker, name=f"worker {i}", daemon=True) for i in range(2)]
    for t in threads:
        t.start()

    session = ProfileSession()
    with session.start_capture("submit"):
        for number in range(20):
            with span("submit", number=number):
                flow_out("job", number)
                jobs.put((number, b"x" * (number + 1)))
                counter("jobs waiting", jobs.qsize())
    jobs.join()  # the jobs run on after the capture has ended, and belong to it

    for _ in threads:
        jobs.put(None)
    for t in threads:
        t.join()
    print(session.summary_text())
    if len(sys.argv) > 1:
        session.save(sys.argv[1])
        print(f"written to {sys.argv[1]}: open chrome_trace.json in ui.perfetto.dev")
    session.close()


if __name__ == "__main__":
    main()
