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
from conftest import PATIENCE, needs_root, python, until


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


# Each attaches, records, is read and detaches. CLIKA_TEST_SESSIONS=1000 takes some minutes.
SESSIONS = int(os.environ.get("CLIKA_TEST_SESSIONS", "240"))


@needs_root
def test_hundreds_of_sessions_that_attach_leave_nothing():
    """Eight threads make sessions, each with a private loader, its BPF programs and its recording."""
    bpftool = shutil.which("bpftool") or shutil.which("bpftool", path="/usr/sbin:/sbin")
    done = python("""
        import gc, glob
        MARK = b"CLIKA_TEST_MARK=" + sys.argv[1].encode()
        os.environ["CLIKA_TEST_MARK"] = sys.argv[1]

        def read(path):
            try:
                with open(path, "rb") as f:
                    return f.read()
            except OSError:
                return b""

        def loaders():
            return [d for d in os.listdir("/proc") if d.isdigit() and b"--private" in read(f"/proc/{d}/cmdline").split(b"\\0")
                    and MARK in read(f"/proc/{d}/environ").split(b"\\0")]

        def objects():
            held = set()
            for path in (f"/proc/{d}/fdinfo/{fd}" for d in loaders() for fd in os.listdir(f"/proc/{d}/fdinfo")):
                for line in read(path).decode().splitlines():
                    key, _, value = line.partition(":")
                    if key in ("prog_id", "map_id", "link_id"):
                        held.add((key[:-3], int(value)))
            return held

        NAMES = [f"x {k}" for k in range(8)]
        seen, wrong = set(), []
        def once(i):
            name = NAMES[i % 8]  # of this thread alone: others mark, too
            s = ProfileSession()
            with s.start_capture("a"):
                with span(name, i=i, s=f"text {i}"):
                    instant("y")
            if counts(s).get(name) != 1 or s.losses["lost"]:
                wrong.append(i)
            if i % 16 == 0:
                try:
                    seen.update(objects())
                except OSError:
                    pass  # a loader of another thread has ended meanwhile
            if i % 3:
                s.close()  # else the last reference ends it

        def many(first, last):
            def run(k):
                for i in range(first + k, last, 8):
                    once(i)
            threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            del threads
            gc.collect()
            while loaders() or is_recording():
                time.sleep(0.01)

        def state():
            gc.collect()  # free lists are blocks, too
            with open("/proc/self/statm") as f:
                rss = int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
            return dict(blocks=sys.getallocatedblocks(), tracked=len(gc.get_objects()), fds=len(os.listdir("/proc/self/fd")),
                        types=[sys.getrefcount(t) for t in (ProfileSession, CaptureScope)],
                        maps=len(read("/proc/self/maps").splitlines()), rss=rss)

        many(0, 24)
        seen.clear()
        before = state()
        many(24, 24 + int(sys.argv[2]))
        ids = json.dumps(sorted(seen))
        seen.clear()
        after = state()
        say([before, after, wrong, json.loads(ids)])
    """, f"leaks{os.getpid()}", SESSIONS, timeout=SESSIONS * 2 + PATIENCE)
    before, after, wrong, ids = done.json
    kinds = sorted({kind for kind, _ in ids})
    assert wrong == [] and kinds == ["link", "map", "prog"]
    # One object a session would be as many as there were sessions.
    few = SESSIONS // 4
    assert after["blocks"] - before["blocks"] < few, (before, after)
    assert after["tracked"] - before["tracked"] < few, (before, after)
    assert after["fds"] == before["fds"] and after["types"] == before["types"], (before, after)
    assert after["maps"] - before["maps"] < few and after["rss"] - before["rss"] < 8 << 20, (before, after)
    if not bpftool:
        pytest.skip("bpftool is not there to look")
    for kind in kinds:
        mine = {i for k, i in ids if k == kind}

        def left():
            said = subprocess.run([bpftool, "-j", kind, "show"], capture_output=True, text=True).stdout
            return {o["id"] for o in json.loads(said or "[]")} & mine

        until(lambda: not left(), f"each BPF {kind} to go")


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
