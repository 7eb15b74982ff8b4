# SPDX-License-Identifier: Apache-2.0
"""Captures and results: what belongs to a session, in every order of doing things."""
import gc
import html
import json
import os
import re
import stat
import threading

import pytest

from clika_runtime.profiler import (NotPermittedError, ProfileSession, ProfilerError, ProfilerWarning, counter,
                                    instant, is_recording, span)
from conftest import SERVICE, counts, needs_root, python, until


def work(name, n=1):
    for _ in range(n):
        with span(name):
            pass


# ---- before the first capture -----------------------------------------------------------------------------


def test_empty_session_attaches_to_nothing(session):
    assert not session.started
    until(lambda: not is_recording(), "earlier sessions to let go")
    work("outside")
    assert not session.started


def test_results_before_the_first_capture_are_valid_and_empty(session, tmp_path):
    assert json.loads(session.chrome_trace_json())["traceEvents"] == []
    assert isinstance(session.perfetto_trace(), bytes) and session.perfetto_trace()
    assert "No spans" in session.summary_text()
    session.save_chrome_trace(str(tmp_path / "t.json"))
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"] == []
    assert session.losses == {"lost": 0, "unknown_at_most": 0, "filtered": 0, "full": False}
    assert session._repr_html_().startswith("<iframe")
    assert not session.started


def test_empty_standard_set_is_complete(session, tmp_path):
    session.save(str(tmp_path / "out"))
    assert sorted(os.listdir(tmp_path / "out")) == [
        "chrome_trace.json", "memory_stats.json", "report.json", "summary.txt"]


# ---- windows --------------------------------------------------------------------------------------------------


def test_capture_holds_what_ran_inside_and_nothing_else(session):
    work("before")
    with session.start_capture("a"):
        work("inside", 10)
    work("after", 3)
    assert counts(session) == {"inside": 10}


def test_first_capture_has_what_runs_right_after_it_began(session):
    for i in range(20):
        with session.start_capture("a"):
            work("inside", 1)
        work("between", 1)
    assert counts(session) == {"inside": 20}


def test_tag_is_default_unless_told(session):
    session.start_capture().stop()
    session.start_capture("prefill").stop()
    tags = [c["tag"] for c in json.loads(session.chrome_trace_json())["otherData"]["captures"]]
    assert tags == ["default", "prefill"]


def test_captures_nest_overlap_and_share_tags(session):
    a = session.start_capture("a")
    work("one")
    b = session.start_capture("b")
    work("two")
    a.stop()
    work("three")
    c = session.start_capture("b")
    work("four")
    b.stop()
    work("five")
    c.stop()
    work("six")
    assert counts(session) == {n: 1 for n in ("one", "two", "three", "four", "five")}
    captures = json.loads(session.chrome_trace_json())["otherData"]["captures"]
    assert [c["tag"] for c in captures] == ["a", "b", "b"]


def test_capture_can_be_exported_alone(session, tmp_path):
    with session.start_capture("a"):
        work("one", 2)
    with session.start_capture("b"):
        work("two", 3)
    session.export(tmp_path / "b.json", "chrome", capture="b")
    assert counts((tmp_path / "b.json").read_text()) == {"two": 3}
    assert counts(session) == {"one": 2, "two": 3}


def test_snapshot_while_captures_are_open_and_again(session):
    with session.start_capture():
        seen = []
        for i in range(1, 6):
            work("step", 100)
            seen.append(counts(session)["step"])
    assert seen == [100, 200, 300, 400, 500]
    assert counts(session)["step"] == 500


def test_open_span_is_in_a_snapshot(session):
    with session.start_capture():
        with span("outer", n=1):
            work("inner")
            assert counts(session) == {"outer": 1, "inner": 1}
        assert counts(session) == {"outer": 1, "inner": 1}


def test_span_that_reaches_over_the_edge_belongs_once(session):
    with span("unseen"):
        pass
    scope = session.start_capture()
    outer = span("outer")
    outer.__enter__()
    scope.stop()
    outer.__exit__(None, None, None)
    assert counts(session) == {"outer": 1}


def test_span_begun_before_the_session_is_not_told(session):
    with span("early"):
        with session.start_capture():
            work("inside")
    assert counts(session)["inside"] == 1


# ---- ends -------------------------------------------------------------------------------------------------------


def test_stop_is_idempotent_and_with_may_follow(session):
    scope = session.start_capture()
    assert scope.active and scope.tag == "default" and scope.session is session
    with scope:
        work("inside")
        scope.stop()
        work("outside")
    scope.stop()
    assert not scope.active
    assert counts(session) == {"inside": 1}


def test_capture_ends_on_another_thread(session):
    scope = session.start_capture()
    work("inside")
    t = threading.Thread(target=scope.stop)
    t.start()
    t.join()
    work("outside")
    assert counts(session) == {"inside": 1}


def test_only_one_of_many_threads_ends_it(session):
    scope = session.start_capture()
    gate = threading.Barrier(8)

    def stop():
        gate.wait()
        scope.stop()

    threads = [threading.Thread(target=stop) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert session.stats()["captures_open"] == 0


def test_exception_passes_through_and_ends_the_capture(session):
    with pytest.raises(KeyError, match="mine"):
        with session.start_capture():
            work("inside")
            raise KeyError("mine")
    work("outside")
    assert counts(session) == {"inside": 1}


def test_scope_left_to_the_collector_warns_and_ends(session):
    scope = session.start_capture("left")
    work("inside")
    with pytest.warns(ResourceWarning, match="'left' was left open"):
        del scope
        gc.collect()
    work("outside")
    assert counts(session) == {"inside": 1}
    assert session.stats()["captures_open"] == 0


def test_scope_in_a_cycle_warns_and_ends(session):
    scope = session.start_capture("cycle")
    session.scope = scope
    holder = [scope]
    holder.append(holder)
    del session.scope
    with pytest.warns(ResourceWarning, match="cycle"):
        del scope, holder
        gc.collect()
    assert session.stats()["captures_open"] == 0


def test_scope_keeps_its_session_alive():
    scope = ProfileSession().start_capture()
    work("inside")
    scope.stop()
    assert counts(scope.session) == {"inside": 1}
    scope.session.close()


def test_session_that_goes_while_a_capture_is_open_ends_quietly():
    done = python("""
        s = ProfileSession()
        with s.start_capture():
            work("x")
            s.close()
            work("y")
        say(s.closed)
    """)
    assert done.json is True


# ---- misuse --------------------------------------------------------------------------------------------------------


def test_closed_session_says_so(session):
    with session.start_capture():
        pass
    session.close()
    session.close()
    for use in (session.start_capture, session.summary_text, session.perfetto_trace, session.chrome_trace_json,
                lambda: session.save("/nonexistent-dir-never-made/x")):
        with pytest.raises((ProfilerError, OSError)):
            use()
    with pytest.raises(ProfilerError, match="closed"):
        session.summary_text()


def test_closed_before_the_first_capture_too(session):
    session.close()
    with pytest.raises(ProfilerError, match="closed"):
        session.start_capture()
    with pytest.raises(ProfilerError, match="closed"):
        session.summary_text()


@pytest.mark.parametrize("tag", [b"bytes", 1, None])
def test_tag_must_be_text(session, tag):
    with pytest.raises(TypeError):
        session.start_capture(tag)


@pytest.mark.parametrize("tag", ["", "ünï → 🦊", 'quote " and \\', "x" * 300])
def test_any_text_is_a_tag(session, tag):
    with session.start_capture(tag):
        work("inside")
    assert counts(session) == {"inside": 1}
    assert json.loads(session.chrome_trace_json())["otherData"]["captures"][0]["tag"][:200] == (tag or "default")[:200]


def test_absurd_tag_is_refused_and_the_session_lives(session):
    with pytest.raises(ProfilerError, match="tag"):
        session.start_capture("x" * 100_000)
    with session.start_capture():
        work("inside")
    assert counts(session) == {"inside": 1}


def test_unknown_format_is_refused_and_the_session_lives(session, tmp_path):
    with session.start_capture():
        work("inside")
    with pytest.raises(ProfilerError, match="(?i)format"):
        session.export(tmp_path / "x", "no-such-format")
    assert os.listdir(tmp_path) == []
    assert counts(session) == {"inside": 1}


# ---- files --------------------------------------------------------------------------------------------------------------


def test_save_writes_exactly_the_standard_set(session, tmp_path):
    with session.start_capture():
        work("inside", 5)
    out = tmp_path / "deep" / "out"
    session.save(str(out))
    assert sorted(os.listdir(out)) == ["chrome_trace.json", "memory_stats.json", "report.json", "summary.txt"]
    assert counts((out / "chrome_trace.json").read_text()) == {"inside": 5}
    assert "inside" in (out / "summary.txt").read_text()
    for name in ("report.json", "memory_stats.json"):
        json.loads((out / name).read_text(), parse_constant=lambda c: pytest.fail(f"{c} in {name}"))
    work("more")
    session.save(str(out))
    assert len(os.listdir(out)) == 4


def test_single_files_equal_the_snapshots(session, tmp_path):
    with session.start_capture():
        work("inside", 5)
    for save, name in ((session.save_chrome_trace, "chrome"), (session.save_memory_stats, "memory"),
                       (session.save_report_json, "report")):
        save(str(tmp_path / name))
    assert counts((tmp_path / "chrome").read_text()) == {"inside": 5}
    assert json.loads((tmp_path / "memory").read_text()).keys() == session.memory_stats().keys()
    assert json.loads((tmp_path / "report").read_text()).keys() == session.report().keys()
    session.export(tmp_path / "t.pftrace")
    assert (tmp_path / "t.pftrace").stat().st_size > 0
    session.export(tmp_path / "t.folded")
    assert "inside" in (tmp_path / "t.folded").read_text()


def test_files_belong_to_the_caller_and_obey_the_umask(session, tmp_path):
    with session.start_capture():
        work("inside")
    old = os.umask(0o027)
    try:
        session.save_chrome_trace(str(tmp_path / "t.json"))
    finally:
        os.umask(old)
    st = os.stat(tmp_path / "t.json")
    assert (st.st_uid, stat.S_IMODE(st.st_mode)) == (os.geteuid(), 0o640)


def test_file_that_cannot_be_written_leaves_the_old_one(session, tmp_path):
    with session.start_capture():
        work("inside")
    old = tmp_path / "t.json"
    old.write_text("old")
    with pytest.raises(ProfilerError):
        session.export(old, "no-such-format")
    assert old.read_text() == "old" and os.listdir(tmp_path) == ["t.json"]
    with pytest.raises(OSError):
        session.save(str(old))
    with pytest.raises(OSError):
        session.save_chrome_trace(str(tmp_path / "missing" / "t.json"))


def test_link_at_the_name_is_replaced_not_followed(session, tmp_path):
    with session.start_capture():
        work("inside")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.symlink(victim, tmp_path / "t.json")
    session.save_chrome_trace(str(tmp_path / "t.json"))
    assert victim.read_text() == "precious" and not os.path.islink(tmp_path / "t.json")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_is_an_error_and_the_session_lives(session):
    with session.start_capture():
        work("inside")
    with open("/dev/full", "wb") as full:
        with pytest.raises(ProfilerError):
            session._export(("chrome",), (full.fileno(),), None, 0)
    assert counts(session) == {"inside": 1}


# ---- several sessions, threads ----------------------------------------------------------------------------------------------


def test_two_sessions_on_one_process_have_their_own_windows():
    with ProfileSession() as a, ProfileSession() as b:
        with a.start_capture():
            work("one")
            with b.start_capture():
                work("two")
        work("none")
        with b.start_capture():
            work("three")
        assert counts(a) == {"one": 1, "two": 1}
        a.close()
        with b.start_capture():
            work("four")
        assert counts(b) == {"two": 1, "three": 1, "four": 1}
        assert is_recording()
    until(lambda: not is_recording(), "the loaders to detach")


def test_threads_start_the_first_capture_together(session):
    gate, scopes = threading.Barrier(6), []

    def begin(i):
        gate.wait()
        scopes.append(session.start_capture(str(i)))

    threads = [threading.Thread(target=begin, args=(i,)) for i in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    work("inside")
    [s.stop() for s in scopes]
    assert len(scopes) == 6 and counts(session) == {"inside": 1}


def test_all_threads_are_seen_also_those_that_were_there(session):
    gate, go = threading.Barrier(9), threading.Event()

    def worker():
        gate.wait()
        go.wait()
        work("inside", 200)

    threads = [threading.Thread(target=worker, name=f"worker-{i}") for i in range(4)]
    [t.start() for t in threads]
    scope = session.start_capture()
    more = [threading.Thread(target=worker, name=f"worker-{i}") for i in range(4, 8)]
    [t.start() for t in more]
    gate.wait()
    go.set()
    [t.join() for t in threads + more]
    scope.stop()
    trace = json.loads(session.chrome_trace_json())["traceEvents"]
    by_thread = {}
    for e in trace:
        if e["ph"] == "X":
            by_thread[e["tid"]] = by_thread.get(e["tid"], 0) + 1
    assert sorted(by_thread.values()) == [200] * 8
    names = {e["args"]["name"] for e in trace if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {f"worker-{i}" for i in range(8)} <= names


def test_snapshot_on_one_thread_while_others_work_and_begin_captures(session):
    stop, failed = threading.Event(), []
    scope = session.start_capture("all")

    def worker():
        try:
            while not stop.is_set():
                with session.start_capture("inner"):
                    work("x", 10)
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=worker) for _ in range(3)]
    [t.start() for t in threads]
    last = 0
    for _ in range(8):
        now = counts(session)["x"]
        assert now >= last
        last = now
    stop.set()
    [t.join() for t in threads]
    scope.stop()
    assert not failed and counts(session)["x"] % 10 == 0


def test_interpreter_runs_on_while_a_snapshot_waits(session):
    with session.start_capture():
        work("x", 20_000)
    ticks, stop = [0], threading.Event()

    def tick():
        while not stop.is_set():
            ticks[0] += 1
            stop.wait(0.0005)

    t = threading.Thread(target=tick)
    t.start()
    before = ticks[0]
    session.perfetto_trace()
    during = ticks[0] - before
    stop.set()
    t.join()
    assert during >= 3


def test_long_export_holds_up_no_capture(session):
    r, w = os.pipe()  # an export into a pipe that nobody reads yet is as slow as one can be
    with session.start_capture():
        work("x", 20_000)
    done = []
    t = threading.Thread(target=lambda: done.append(session._export(("chrome",), (w,), None, 0)))
    t.start()
    data = os.read(r, 1)
    for _ in range(20):
        session.start_capture().stop()
    assert session.stats()["captures_open"] == 0 and not done
    reader = threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(r, 1 << 20), b"")])
    reader.start()
    t.join()
    os.close(w)
    reader.join()
    os.close(r)
    assert data and done == [None]


# ---- schedule, flight recorder, other targets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait,warmup,active,repeat,steps", [
    (1, 1, 2, 2, 12), (0, 0, 1, 3, 5), (2, 0, 1, 0, 9), (0, 1, 3, 1, 4), (1, 2, 3, 0, 5)])
def test_windows_of_a_schedule_are_those_of_the_formula(session, wait, warmup, active, repeat, steps):
    ended = []
    session.schedule(wait, warmup, active, repeat, on_window=lambda s, n: ended.append(n))
    for i in range(steps):
        work(f"step {i}")
        session.step()
    cycle = wait + warmup + active
    expected = {f"step {i}" for i in range(steps)
                if i % cycle >= wait + warmup and (not repeat or i // cycle < repeat)}
    windows = min(steps // cycle, repeat or steps)
    assert ended == list(range(windows)) and session.windows == windows
    assert set(counts(session)) == expected
    if not windows:
        with pytest.warns(ProfilerWarning, match="before the first window"):
            session.close()


def test_each_window_is_saved_alone(session, tmp_path):
    session.schedule(1, 0, 2, 2, on_window=lambda s, n: s.save_window(n, str(tmp_path / str(n))))
    for i in range(6):
        work(f"step {i}")
        session.step()
    assert counts((tmp_path / "0" / "chrome_trace.json").read_text()) == {"step 1": 1, "step 2": 1}
    assert counts((tmp_path / "1" / "chrome_trace.json").read_text()) == {"step 4": 1, "step 5": 1}


def test_schedule_is_checked(session):
    with pytest.raises(ValueError):
        session.schedule(0, 0, 0)
    with pytest.raises(ValueError):
        session.schedule(-1, 0, 1)
    with pytest.raises(ProfilerError):
        session.step()


def test_flight_recorder_keeps_what_happened_last(tmp_path):
    import time

    with ProfileSession.flight_recorder(seconds=0.4) as s:
        work("old")
        t = time.monotonic()
        assert counts(s) == {"old": 1}
        while time.monotonic() - t < 1.0:
            work("filler")
            time.sleep(0.01)
        work("new")
        names = counts(s)
        assert "old" not in names and names["new"] == 1
        s.save(str(tmp_path))
        assert "old" not in counts((tmp_path / "chrome_trace.json").read_text())


def test_flight_recorder_stays_within_its_bytes():
    with ProfileSession.flight_recorder(seconds=3600, max_bytes=1 << 20) as s:
        for i in range(100):
            for j in range(100):
                instant(f"moment {i}", text=f"{i} {j} " * 30)
        assert s.stats()["file_bytes"] <= 1 << 20
        names = {e["name"] for e in json.loads(s.chrome_trace_json())["traceEvents"] if e["ph"] == "i"}
        assert "moment 99" in names and "moment 0" not in names


def test_children_are_recorded_by_option_only():
    code = """
        import subprocess
        s = ProfileSession.with_options(children=%s)
        child = "from clika_runtime.profiler import span\\nwith span('child'): pass"
        with s.start_capture():
            work("parent")
            subprocess.run([sys.executable, "-c", child], check=True)
            pid = os.fork()
            if not pid:
                work("forked")
                os._exit(0)
            os.waitpid(pid, 0)
        say(counts(s))
    """
    assert python(code % False, warn="default").json == {"parent": 1}
    assert python(code % True, warn="default").json == {"parent": 1, "child": 1, "forked": 1}


def test_another_process_of_the_same_user():
    from conftest import start

    p = start("""
        sys.stdin.readline()
        work("there", 50)
        say("done")
        sys.stdin.readline()
    """)
    try:
        with ProfileSession.for_process(p.pid) as s:
            with s.start_capture():
                work("here")
                p.stdin.write("\n")
                p.stdin.flush()
                assert "done" in p.stdout.readline()
            assert counts(s) == {"there": 50}
    finally:
        p.communicate("\n", timeout=30)
    assert p.returncode == 0


def test_command_is_recorded_from_its_beginning_to_its_end():
    import sys as _sys

    # Held until it is recorded is the program; the library that carries the markers is mapped later, and seen soon after.
    r, w = os.pipe()
    os.set_inheritable(r, True)
    child = ("import select\nfrom clika_runtime.profiler import span\n"
             f"while not select.select([{r}], [], [], 0.01)[0]:\n with span('early'): pass\n"
             "for _ in range(7):\n with span('child'): pass\nraise SystemExit(3)")
    try:
        with ProfileSession.for_command([_sys.executable, "-c", child]) as s:
            with s.start_capture():
                until(lambda: counts(s)["early"], "the child to be seen")
                os.write(w, b"x")
                assert os.waitstatus_to_exitcode(s.wait(30)) == 3
            assert counts(s)["child"] == 7 and counts(s).keys() == {"early", "child"}
    finally:
        os.close(r)
        os.close(w)


def test_command_that_is_not_there():
    with ProfileSession.for_command(["/nonexistent/program"]) as s:
        with pytest.raises(ProfilerError, match="nonexistent"):
            s.start_capture()


@needs_root
def test_root_may_record_the_whole_machine():
    from conftest import start

    p = start("sys.stdin.readline(); work('elsewhere', 5); say(1); sys.stdin.readline()")
    try:
        with ProfileSession.system_wide() as s:
            with s.start_capture():
                work("here", 2)
                p.stdin.write("\n")
                p.stdin.flush()
                p.stdout.readline()
            seen = counts(s)
            assert seen["here"] == 2 and seen["elsewhere"] == 5
    finally:
        p.communicate("\n", timeout=30)


@pytest.mark.parametrize("target,why", [
    (ProfileSession.system_wide, "only root"), (lambda: ProfileSession.for_process(1), "process 1 is not yours")])
def test_root_alone_may_look_at_others(target, why):
    with target() as s:
        if os.geteuid() != 0:
            with pytest.raises(NotPermittedError, match=why):
                s.start_capture()
        else:
            assert not s.started


@pytest.mark.parametrize("bad", [0, -1, True, "1", 1 << 40])
def test_only_numbers_of_processes_are_taken(bad):
    with pytest.raises(ValueError):
        ProfileSession.for_process(bad)


def test_options_are_checked():
    for bad in ({"via": "pigeon"}, {"timeout": 0}, {"max_bytes": -1}, {"probes": "x"}, {"recipes": "pytorch"},
                {"budget": 0}, {"budget": False}, {"budget": True}, {"budget": -0.1}, {"budget": 5}, {"budget": "5"},
                {"budget": "none"}, {"budget": "0%"}, {"budget": "101%"}, {"budget": float("nan")}):
        with pytest.raises(ValueError):
            ProfileSession.with_options(**bad)
    with pytest.raises(TypeError, match="unknown option"):
        ProfileSession.with_options(colour="red")


@pytest.mark.parametrize("options,given", [
    ({}, (False, (), 0.0)),
    ({"no_auto": True, "recipes": ["a", "b:all"], "budget": 0.05}, (True, ("a", "b:all"), 0.05)),
    ({"budget": "off", "recipes": []}, (False, (), -1.0)),
    ({"budget": float("inf"), "recipes": None}, (False, (), -1.0)),
    ({"budget": "5%"}, (False, (), 0.05)),
    ({"budget": None, "no_auto": False}, (False, (), 0.0)),
])
def test_recipes_and_budget_by_keyword(monkeypatch, options, given):
    for name in ("NO_AUTO", "RECIPES", "BUDGET"):
        monkeypatch.delenv(f"CLIKA_PROF_{name}", raising=False)
    assert told_of_recipes(ProfileSession.with_options(**options)) == given


def test_environment_says_what_no_keyword_says(monkeypatch):
    monkeypatch.setenv("CLIKA_PROF_NO_AUTO", "1")
    monkeypatch.setenv("CLIKA_PROF_RECIPES", "pytorch, cuda:all,")
    monkeypatch.setenv("CLIKA_PROF_BUDGET", "2.5%")
    assert told_of_recipes(ProfileSession()) == (True, ("pytorch", "cuda:all"), 0.025)
    assert told_of_recipes(ProfileSession.for_process(1)) == (True, ("pytorch", "cuda:all"), 0.025)
    s = ProfileSession.with_options(no_auto=False, recipes=[], budget="off")
    assert told_of_recipes(s) == (False, (), -1.0)
    monkeypatch.setenv("CLIKA_PROF_NO_AUTO", "0")
    monkeypatch.setenv("CLIKA_PROF_RECIPES", "")
    monkeypatch.setenv("CLIKA_PROF_BUDGET", "off")
    assert told_of_recipes(ProfileSession()) == (False, (), -1.0)


def told_of_recipes(session):
    """What a session hands to the loader when it begins."""
    from clika_runtime.profiler import _recipes

    o = _recipes.with_environment(session._options)
    return o["no_auto"], o["recipes"], o["budget"]


@pytest.mark.parametrize("name,bad", [("NO_AUTO", "yes"), ("BUDGET", "0.05"), ("BUDGET", "much")])
def test_environment_that_makes_no_sense_is_named(monkeypatch, session, name, bad):
    monkeypatch.setenv(f"CLIKA_PROF_{name}", bad)
    with pytest.raises(ProfilerError, match=f"CLIKA_PROF_{name}: .*{bad}"):
        session.start_capture()
    monkeypatch.delenv(f"CLIKA_PROF_{name}")
    with session.start_capture():
        work("x", 3)
    assert counts(session) == {"x": 3}


@pytest.mark.parametrize("name,why", [
    ("nothing-like-it", "there is no recipe 'nothing-like-it' .*onnxruntime.*pytorch"),
    ("pytorhc", "did you mean 'pytorch'"), ("pytorch:nothing-like-it", "has no group 'nothing-like-it'.*trivial")])
def test_unknown_recipe_is_told_with_those_that_there_are(name, why):
    with ProfileSession.with_options(recipes=["pytorch", name]) as s:
        with pytest.raises(ProfilerError, match=why) as e:
            s.start_capture()
        assert type(e.value) is ProfilerError and not s.started


def test_more_recipes_than_a_request_holds_are_refused():
    with ProfileSession.with_options(recipes=["pytorch"] * 65) as s:
        with pytest.raises(ProfilerError, match="at most 64"):
            s.start_capture()


RECIPE = """{
  "recipe": 1, "name": "of-a-test", "libraries": [ { "id": "libc", "file": "libc.so.6" } ],
  "functions": [ { "match": "getpriority", "name": "asked for priority" } ]
}"""


def test_file_is_a_recipe_for_a_private_loader_alone(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(RECIPE)
    with ProfileSession.with_options(recipes=[path]) as s:
        if SERVICE:
            with pytest.raises(NotPermittedError, match="no file is opened for you here"):
                s.start_capture()
            return
        with s.start_capture():
            for _ in range(4):
                os.getpriority(os.PRIO_PROCESS, 0)
        assert counts(s)["asked for priority"] == 4


# ---- notebooks -----------------------------------------------------------------------------------------------------------------


def test_html_is_safe(session):
    with session.start_capture():
        work("<script>alert(1)</script>")
    shown = session._repr_html_()
    assert shown.startswith("<iframe") and "<script>" not in shown
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', shown)[1])
    assert "<script>alert(1)</script>" not in page and "alert(1)" in page
    session.close()
    assert "closed" in session._repr_html_()


def test_repr_says_how_things_stand(session):
    assert "not started" in repr(session)
    session.start_capture().stop()
    assert "recording" in repr(session)
    session.close()
    assert "closed" in repr(session)
