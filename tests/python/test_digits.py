# SPDX-License-Identifier: Apache-2.0
"""The example runtime as a shared library, driven from Python: its markers and ours in one result, counts as it
counted itself, and the late spans of its workers."""
import ctypes
import glob
import json
import os
import shutil
import subprocess

import pytest

from clika_runtime.profiler import span
from conftest import ROOT, counts, events


class Options(ctypes.Structure):
    _fields_ = [("sz", ctypes.c_size_t)] + [(n, ctypes.c_uint32) for n in (
        "workers", "batch", "batch_wait_us", "queue", "views")] + [
        ("capture_from", ctypes.c_uint64), ("capture_to", ctypes.c_uint64), ("label", ctypes.c_char_p)]


class Summary(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("requests", "right", "failed", "checksum", "elapsed_ns")]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    cc = next((c for c in (os.environ.get("CC"), "gcc", "clang") if c and shutil.which(c)), None)
    if not cc:
        pytest.skip("no compiler")
    path = tmp_path_factory.mktemp("digits") / "libdigits.so"
    sources = [p for p in glob.glob(os.path.join(ROOT, "examples", "digits", "*.c")) if not p.endswith("/main.c")]
    subprocess.run([cc, "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
                    "-I" + os.path.join(ROOT, "include"), *sources, "-o", str(path), "-lm", "-lpthread"], check=True)
    lib = ctypes.CDLL(str(path))
    lib.digits_data__pixels.restype = ctypes.c_void_p
    return lib


class Engine:
    def __init__(self, library, **options):
        self.lib, self.engine, o = library, ctypes.c_void_p(), Options()
        library.digits_options__init(ctypes.byref(o))
        for name, value in options.items():
            setattr(o, name, value)
        assert library.digits_engine__create(ctypes.byref(o), ctypes.byref(self.engine)) == 0

    def run(self, n):
        out = Summary()
        assert self.lib.digits_engine__run(self.engine, ctypes.c_uint64(n), ctypes.c_uint64(1), ctypes.byref(out)) == 0
        assert out.requests == n and out.failed == 0
        return out.checksum

    def submit(self, n):
        ids = []
        for i in range(n):
            ident = ctypes.c_uint64()
            pixels = ctypes.c_void_p(self.lib.digits_data__pixels(ctypes.c_uint32(i)))
            assert self.lib.digits_engine__submit(self.engine, pixels, ctypes.c_uint64(i), None, None,
                                                  ctypes.byref(ident)) == 0
            ids.append(ident.value)
        return ids

    def drain(self):
        assert self.lib.digits_engine__drain(self.engine) == 0

    def counts(self):
        buf = ctypes.create_string_buffer(8192)
        assert 0 < self.lib.digits_engine__counts(self.engine, buf, ctypes.c_size_t(8192)) < 8192
        return json.loads(buf.value)

    def stop(self):
        self.lib.digits_engine__stop(self.engine)

    def close(self):
        self.lib.digits_engine__destroy(self.engine)


@pytest.fixture
def engine(library):
    made = []

    def make(**options):
        made.append(Engine(library, **options))
        return made[-1]

    yield make
    [e.close() for e in made]


WORK = ("gather", "conv2d", "im2col", "gemm", "bias_relu", "max_pool2d", "flatten", "dense", "softmax", "complete")


def test_counts_are_what_the_runtime_counted_itself(session, engine):
    with session.start_capture("all"):
        e = engine(workers=3, batch=8)
        with span("from Python"):
            e.run(300)
        e.stop()
    seen, told = counts(session), e.counts()
    for name, n in told["spans"].items():
        assert seen.get(name, 0) == n, name
    for name, n in told["async_begins"].items():
        assert seen.get(name, 0) == n, name
    assert seen["from Python"] == 1 and session.losses["lost"] == 0


def test_each_capture_has_its_own_requests(session, engine, tmp_path):
    e = engine(workers=2, batch=4)
    e.run(50)
    last = e.counts()["spans"]
    for tag, n in (("first", 40), ("second", 70)):
        with session.start_capture(tag):
            e.run(n)
        e.run(10)
        session.export(tmp_path / tag, "chrome", capture=tag)
        seen = counts((tmp_path / tag).read_text())
        assert seen["submit"] == n and seen["gather"] > 0
    assert counts(session)["submit"] == 110
    assert last["submit"] == 50


def test_results_are_the_same_bits(session, engine):
    e = engine(workers=2)
    alone = e.run(200)
    with session.start_capture():
        assert e.run(200) == alone
    assert e.run(200) == alone


def test_late_worker_spans_are_there_after_the_user_has_synchronised(session, engine):
    e = engine(workers=2, batch=4, batch_wait_us=20000)
    e.run(20)
    before = e.counts()["spans"]
    with session.start_capture():
        e.submit(60)
    e.drain()
    after = e.counts()["spans"]
    e.stop()
    seen = counts(session)
    assert seen["submit"] == 60
    for name in WORK:
        assert seen[name] == after[name] - before[name], name


def test_allocations_balance_to_the_byte(session, engine):
    with session.start_capture():
        e = engine(workers=2)
        e.run(100)
        e.stop()
    (device,), told = session.memory_stats()["devices"], e.counts()["memory"]
    assert device["allocated"] == {"count": sum(p["allocs"] for p in told.values()),
                                   "bytes": sum(p["alloc_bytes"] for p in told.values())}
    assert device["freed"] == {"count": sum(p["frees"] for p in told.values()),
                               "bytes": sum(p["free_bytes"] for p in told.values())}
    assert device["current_bytes"] == 0
    assert {p["pool"]: p["allocated"]["bytes"] for p in device["pools"]} == {
        name: p["alloc_bytes"] for name, p in told.items()}


def test_late_worker_spans_in_every_format(session, engine, tmp_path):
    e = engine(workers=2)
    with session.start_capture():
        e.submit(20)
    e.drain()
    session.save(str(tmp_path))
    assert counts((tmp_path / "chrome_trace.json").read_text())["softmax"] == counts(session)["softmax"] > 0
    assert "softmax" in (tmp_path / "summary.txt").read_text()
    assert b"softmax" in session.perfetto_trace()
