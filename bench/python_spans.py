#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Costs of clika_runtime beside their peers, as one JSON object on standard output:

    {"values": {NAME: number, ...}, "rows": [[what, value, unit, note], ...], "missing": [peer, ...]}

Run with a Python that has clika_runtime (tools/python-env.sh --bench says which), where it may record: as root with
$CLIKA_PROF_LOADER, or with a service. In each round everything is measured once, one after the other; ratios are
taken round by round, and the medians of them reported.
"""
import gc
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings

from clika_runtime.profiler import ProfileSession, is_recording, span

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = int(os.environ.get("CLIKA_BENCH_ROUNDS", "5")) * 3
N = 20_000
N_SLOW = 4_000


def empty_type(folder):
    """Compiled in the same way as the native module is: limited API, -O2."""
    cc = next(c for c in (os.environ.get("CC"), "gcc", "clang") if c and shutil.which(c))
    subprocess.run([cc, "-O2", "-fPIC", "-shared", "-DPy_LIMITED_API=0x03090000",
                    "-I" + sysconfig.get_paths()["include"], os.path.join(HERE, "python_empty.c"),
                    "-o", os.path.join(folder, "python_empty.abi3.so")], check=True)
    sys.path.insert(0, folder)
    from python_empty import Empty

    return Empty


def loop(body, n, names):
    """ns an iteration of @body, less the loop around it."""
    scope = dict(names)
    exec("def empty(r):\n for _ in r:\n  pass\n"
         f"def full(r):\n for _ in r:\n  {body}\n", scope)

    def measure():
        t = time.perf_counter_ns()
        scope["full"](range(n))
        t1 = time.perf_counter_ns()
        scope["empty"](range(n))
        return (t1 - t - (time.perf_counter_ns() - t1)) / n

    return measure


def record_function():
    if not importlib.util.find_spec("torch"):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch.profiler
    body = loop("with record_function('decode'): pass", N_SLOW, {"record_function": torch.profiler.record_function})

    def measure():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            return body()

    return measure


def otel():
    try:
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        return None
    tracer = TracerProvider().get_tracer("bench")  # it exports nothing: only what a span costs its thread
    return loop("with start('decode'): pass", N_SLOW, {"start": tracer.start_as_current_span})


def spans(result, empty):
    """Medians of costs and of ratios, round by round."""
    off = {"empty": loop("with Empty(): pass", N, {"Empty": empty}),
           "off": loop("with span('decode'): pass", N, {"span": span}),
           "off, 1 argument": loop("with span('decode', batch=8): pass", N, {"span": span})}
    on = {"empty": off["empty"], "on": loop("with span('decode'): pass", N, {"span": span}),
          "on, 1 argument": loop("with span('decode', batch=8): pass", N, {"span": span})}
    peers = {"record_function": record_function(), "otel": otel()}
    result["missing"] += [name for name, fn in peers.items() if fn is None]
    on.update({name: fn for name, fn in peers.items() if fn})

    def rounds(what):
        seen = [{name: fn() for name, fn in what.items()} for _ in range(ROUNDS + 1)][1:]
        return {name: [r[name] for r in seen] for name in what}

    gc.collect()
    gc.disable()
    assert not is_recording(), "somebody records this process"
    idle = rounds(off)
    with ProfileSession() as s:
        with s.start_capture():
            assert is_recording()
            busy = rounds(on)
        lost = s.losses["lost"]
    gc.enable()

    def ratio(a, b):
        return statistics.median(x / y for x, y in zip(a, b))

    v, rows = result["values"], result["rows"]
    v["python.span_off_over_empty"] = ratio(idle["off"], idle["empty"])
    v["python.span_on_over_empty"] = ratio(busy["on"], busy["empty"])
    if "record_function" in busy:
        v["python.span_over_record_function"] = ratio(busy["on"], busy["record_function"])
    if "otel" in busy:
        v["python.span_over_otel"] = ratio(busy["on"], busy["otel"])
    names = {"empty": "empty context manager of a C type", "off": "span(), nobody records",
             "off, 1 argument": "span() with an argument, nobody records", "on": "span(), recorded",
             "on, 1 argument": "span() with an argument, recorded",
             "record_function": "torch.profiler.record_function, profiled", "otel": "OpenTelemetry span, not exported"}
    for seen in (idle, busy):
        for name, values in seen.items():
            if name != "empty" or seen is idle:
                rows.append([f"Python: {names[name]}", statistics.median(values), "ns",
                             f"{lost} lost" if name == "on" and lost else ""])


def sessions(result):
    first, later, snapshots = [], [], []
    for _ in range(5):
        with ProfileSession() as s:
            t = time.perf_counter()
            s.start_capture().stop()
            first.append(time.perf_counter() - t)
            for _ in range(20):
                t = time.perf_counter()
                scope = s.start_capture()
                later.append(time.perf_counter() - t)
                scope.stop()
    with ProfileSession() as s:
        with s.start_capture():
            for _ in range(100_000):
                with span("decode"):
                    pass
        for _ in range(5):
            t = time.perf_counter()
            size = len(s.perfetto_trace())
            snapshots.append(time.perf_counter() - t)
        count = s.stats()["spans"]
    assert count == 100_000, f"{count} of 100,000 spans arrived"
    for name, values, note in (("first_capture_ms", first, "attaches"), ("start_capture_ms", later, "attached"),
                               ("snapshot_100k_ms", snapshots, f"Perfetto, {size / 1e6:.1f} MB")):
        ms = statistics.median(values) * 1e3
        result["values"]["python." + name] = ms
        result["rows"].append([f"Python: {name[:-3].replace('_', ' ')}", ms, "ms", note])


def main():
    result = {"values": {}, "rows": [], "missing": []}
    with tempfile.TemporaryDirectory() as folder:
        spans(result, empty_type(folder))
    sessions(result)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
