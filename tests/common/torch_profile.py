# SPDX-License-Identifier: Apache-2.0
"""What torch.profiler itself counts of a piece of work, raw: its tables merge an operator with the one of the same name
that it calls. For processes under test."""
import collections
import time

import torch
from torch.profiler import ProfilerActivity, profile


def profiled(work):
    """Nanoseconds of each call of each operator that @work calls, by begin, and the memory it takes and gives back."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        work()
    calls = collections.defaultdict(list)
    allocated = freed = 0
    for e in sorted(p.profiler.kineto_results.events(), key=start):
        if e.name() == "[memory]":
            allocated += max(e.nbytes(), 0)
            freed += max(-e.nbytes(), 0)
        else:
            calls[e.name()].append(e.duration_ns() if hasattr(e, "duration_ns") else e.duration_us() * 1000)
    return {"calls": calls, "allocated": allocated, "freed": freed}


def start(event):
    return event.start_ns() if hasattr(event, "start_ns") else event.start_us()


def tiny_ns(times=2000):
    """Nanoseconds of an operator that does next to nothing: what it takes more under a profiler is what that costs a call."""
    x = torch.ones(1)
    best = None
    for _ in range(10):
        begin = time.perf_counter_ns()
        for _ in range(times // 10):
            x.detach()
        took = (time.perf_counter_ns() - begin) / (times // 10)
        best = took if best is None else min(best, took)
    return best
