# SPDX-License-Identifier: Apache-2.0
"""Nothing is left behind: references, descriptors, memory, processes, BPF objects."""
import gc
import json
import os
import shutil
import subprocess
import sys

import pytest

from clika_runtime.profiler import CaptureScope, ProfileSession, ProfilerError, counter, instant, span
from conftest import needs_root, python, until


def test_a_thousand_sessions_leave_no_reference():
    def once(i):
        s = ProfileSession()
        s.summary_text()
        s.chrome_trace_json()
        with pytest.raises(ProfilerError):
            s.export("/tmp/never-made", "no-such-format")
        if i % 2:
            s.close()

    for i in range(50):
        once(i)
    gc.collect()
    before = len(gc.get_objects())
    for i in range(1000):
        once(i)
    gc.collect()
    assert len(gc.get_objects()) - before < 50


def test_sessions_that_recorded_leave_nothing():
    def once():
        with ProfileSession() as s:
            with s.start_capture("a"), s.start_capture("b"):
                with span("x", a=1, s="text"):
                    instant("y")
            s.chrome_trace_json()
            s.losses

    once()
    gc.collect()
    refs = [sys.getrefcount(o) for o in (None, ProfileSession, CaptureScope)][1:]
    fds, objects = len(os.listdir("/proc/self/fd")), len(gc.get_objects())
    for _ in range(8):
        once()
    gc.collect()
    assert [sys.getrefcount(o) for o in (ProfileSession, CaptureScope)] == refs
    assert len(os.listdir("/proc/self/fd")) == fds
    assert len(gc.get_objects()) - objects < 50


def test_markers_leave_no_reference(session):
    key, text = "k" * 5, "some text"
    name = "a name of its own"

    @span(name)
    def f():
        pass

    def once():
        for _ in range(1000):
            with span(name, key=text):
                pass
            instant(name, key=text)
            counter(name, 1)
            f()

    with session.start_capture():
        once()
        before = sys.getrefcount(name), sys.getrefcount(text), sys.getrefcount(key)
        once()
        assert (sys.getrefcount(name), sys.getrefcount(text), sys.getrefcount(key)) == before


def test_memory_stays_level_over_many_captures(session):
    def rss():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def many(n):
        for i in range(n):
            with session.start_capture("t"):
                with span(f"name {i}", text=f"{i}"):
                    pass

    many(200)
    before = rss()
    many(1000)
    assert rss() - before < 2 << 20


@needs_root
def test_no_bpf_object_and_no_process_is_left():
    bpftool = shutil.which("bpftool") or shutil.which("bpftool", path="/usr/sbin:/sbin")
    done = python("""
        os.environ["CLIKA_TEST_MARK"] = sys.argv[1]
        s = ProfileSession()
        with s.start_capture():
            work("x")
        def loader():
            for d in os.listdir("/proc"):
                try:
                    if d.isdigit() and b"--private" in open(f"/proc/{d}/cmdline", "rb").read().split(b"\\0") and (
                            b"CLIKA_TEST_MARK=" + sys.argv[1].encode() in open(f"/proc/{d}/environ", "rb").read().split(b"\\0")):
                        return d
                except OSError:
                    pass
        d = loader()
        ids = {"prog": set(), "map": set(), "link": set()}
        for fd in os.listdir(f"/proc/{d}/fdinfo"):
            for line in open(f"/proc/{d}/fdinfo/{fd}"):
                key, _, value = line.partition(":")
                if key in ("prog_id", "map_id", "link_id"):
                    ids[key[:-3]].add(int(value))
        s.close()
        say([d, {k: sorted(v) for k, v in ids.items()}])
    """, f"leak{os.getpid()}")
    loader, ids = done.json
    assert ids["prog"] and ids["map"]
    until(lambda: not os.path.exists(f"/proc/{loader}"), "the loader to end")
    if not bpftool:
        pytest.skip("bpftool is not there to look")
    for kind in ("prog", "map", "link"):
        def left():
            said = subprocess.run([bpftool, "-j", kind, "show"], capture_output=True, text=True).stdout
            return {o["id"] for o in json.loads(said or "[]")} & set(ids[kind])

        until(lambda: not left(), f"each BPF {kind} to go")
