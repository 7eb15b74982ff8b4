# SPDX-License-Identifier: Apache-2.0
"""The host process: nothing about profiling ends it, hangs it or changes what it does."""
import os
import textwrap
import time

import pytest

from conftest import PATIENCE, TOOL, needs_root, python, until

private_only = needs_root  # it harms a private loader

FIND_LOADER = """
def loader():
    # The private loader is nobody's child; it is found by what it was started with.
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                with open(f"/proc/{d}/cmdline", "rb") as f:
                    argv = f.read().split(b"\\0")
                with open(f"/proc/{d}/environ", "rb") as f:
                    env = f.read().split(b"\\0")
            except OSError:
                continue
            if b"--private" in argv and b"HOST_MARK=%d" % os.getpid() in env:
                return int(d)
os.environ["HOST_MARK"] = str(os.getpid())
"""


def harm(code, *args, **kw):
    """Host code that knows its loader."""
    return python(FIND_LOADER + textwrap.dedent(code), *args, **kw)


# ---- fork -------------------------------------------------------------------------------------------------------------


def test_child_of_fork_has_no_session_and_the_parents_lives():
    done = python("""
        s = ProfileSession()
        scope = s.start_capture()
        work("before")
        r, w = os.pipe()
        pid = os.fork()
        if not pid:
            said = [s.detached, s.alive, scope.active]
            scope.stop()
            for use in (s.start_capture, s.summary_text, lambda: s.save("/never/made")):
                try:
                    use()
                    said.append("no error")
                except Exception as e:
                    said.append(type(e).__name__ == "NotPermittedError" and "forked" in str(e))
            s.close()
            os.write(w, json.dumps(said).encode())
            os._exit(0)
        os.close(w)
        os.waitpid(pid, 0)
        work("after")
        scope.stop()
        work("outside")
        say([json.loads(os.read(r, 1000)), counts(s), s.detached])
    """, warn="default")
    child, seen, detached = done.json
    assert child == [True, False, False, True, True, True]
    assert seen == {"before": 1, "after": 1} and not detached


def test_child_can_have_a_session_of_its_own():
    done = python("""
        s = ProfileSession()
        with s.start_capture():
            work("parent")
            r, w = os.pipe()
            pid = os.fork()
            if not pid:
                mine = ProfileSession()
                with mine.start_capture():
                    work("child", 3)
                os.write(w, json.dumps(counts(mine)).encode())
                mine.close()
                os._exit(0)
            os.waitpid(pid, 0)
        say([json.loads(os.read(r, 1000)), counts(s)])
    """, warn="default")
    assert done.json == [{"child": 3}, {"parent": 1}]


@private_only
def test_session_ends_with_its_process_though_children_live():
    done = harm("""
        s = ProfileSession()
        s.start_capture()
        found = loader()
        pid = os.fork()
        if not pid:
            print(os.getpid(), flush=True)
            null = os.open(os.devnull, os.O_RDWR)
            for fd in 0, 1, 2:
                os.dup2(null, fd)
            while os.path.exists(f"/proc/{found}"):
                time.sleep(0.01)
            os._exit(0)
        print(found, flush=True)
        os._exit(7)
    """, check=7, warn="ignore")
    for pid in done.out.split():
        until(lambda: not os.path.exists(f"/proc/{pid}"), "the loader, then the child, to end")


def test_fork_while_other_threads_are_in_calls():
    done = python("""
        s = ProfileSession()
        stop = False
        def busy():
            while not stop:
                with s.start_capture("t"):
                    work("x")
                s.stats()
        threads = [threading.Thread(target=busy) for _ in range(3)]
        with s.start_capture():
            [t.start() for t in threads]
            for _ in range(20):
                pid = os.fork()
                if not pid:
                    os._exit(0 if s.detached else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            stop = True
            [t.join() for t in threads]
        say(counts(s)["x"] > 0)
    """, warn="ignore")
    assert done.json is True


def test_multiprocessing_workers_are_unharmed():
    done = python("""
        import multiprocessing as mp
        def square(x):
            with span("square"):
                return x * x
        s = ProfileSession.with_options(children=True)
        with s.start_capture():
            with mp.get_context("fork").Pool(2) as pool:
                r = pool.map(square, range(10))
        say([r, counts(s)["square"]])
    """, warn="ignore")
    assert done.json == [[x * x for x in range(10)], 10]


def test_wait_for_any_child_sees_no_loader():
    done = python("""
        s = ProfileSession()
        with s.start_capture():
            work("x")
            try:
                os.waitpid(-1, os.WNOHANG)
                say("there is a child")
            except ChildProcessError:
                say("none")
    """)
    assert done.json == "none"


def test_signals_and_descriptors_of_the_host_stay_as_they_were():
    done = python("""
        import signal
        def state():
            return ([str(signal.getsignal(n)) for n in range(1, 32)], os.getcwd(), os.umask(0o22) and 0,
                    sorted(os.sched_getaffinity(0)))
        before, fds = state(), len(os.listdir("/proc/self/fd"))
        s = ProfileSession()
        with s.start_capture():
            work("x")
        s.summary_text()
        s.close()
        say([before == state(), len(os.listdir("/proc/self/fd")) - fds])
    """)
    assert done.json == [True, 0]


# ---- signals while a call waits ------------------------------------------------------------------------------------------

# An export that takes seconds, and what tells how long something took.
LONG = """
    import signal, tempfile
    FORMATS = ["html", "otlp", "csv", "html", "otlp"]
    out = tempfile.mkdtemp()
    def export(s):
        s._write({f"{out}/{i}": f for i, f in enumerate(FORMATS)})
    def timed(f, *args):
        t = time.monotonic()
        try:
            f(*args)
            said = "done"
        except BaseException as e:
            said = type(e).__name__
        return said, time.monotonic() - t
    s = ProfileSession()
    with s.start_capture():
        for i in range(300_000):
            with span("x", i=i):
                pass
"""


def long(code):
    return python(textwrap.dedent(LONG) + textwrap.dedent(code), timeout=3 * PATIENCE, warn="default")


def test_ctrl_c_ends_a_long_export_and_the_session_goes_on():
    done = long("""
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        stopped = timed(export, s)
        left = os.listdir(out)
        again = timed(s.summary_text)
        whole = timed(export, s)
        with s.start_capture("more"):
            work("y")
        say([stopped, left, again, whole, sorted(os.listdir(out)), counts(s)])
    """)
    stopped, left, again, whole, files, seen = done.json
    assert stopped[0] == "KeyboardInterrupt" and left == []
    assert again[0] == whole[0] == "done" and len(files) == 5
    assert whole[1] > 1, "an export of this size shows nothing"
    assert stopped[1] < 0.3 + whole[1] / 3
    assert seen == {"x": 300_000, "y": 1}


def test_signal_handler_runs_while_an_export_waits_and_may_ask_for_what_waits_not_for_it():
    done = long("""
        seen = []
        def handler(n, frame):
            t = time.monotonic()
            s.start_capture("from the handler").stop()
            try:
                s.summary_text()
            except ProfilerError as e:
                seen.append([str(e), time.monotonic() - t])
        signal.signal(signal.SIGUSR1, handler)
        began = time.monotonic()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        whole = timed(export, s)
        say([seen, whole, len(os.listdir(out)), s.stats()["captures_open"]])
    """)
    seen, whole, files, captures_open = done.json
    assert len(seen) == 1 and "within an export" in seen[0][0] and seen[0][1] < 1
    assert whole[0] == "done" and files == 5 and captures_open == 0


def test_ctrl_c_on_the_main_thread_leaves_the_export_of_another_alone():
    done = long("""
        other = []
        t = threading.Thread(target=lambda: other.append(timed(export, s)))
        t.start()
        time.sleep(0.3)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        mine = timed(s.perfetto_trace)   # waits for its turn
        t.join()
        say([mine, other, len(os.listdir(out))])
    """)
    mine, other, files = done.json
    assert mine[0] == "KeyboardInterrupt" and mine[1] < other[0][1]
    assert other[0][0] == "done" and files == 5


def test_ctrl_c_ends_the_wait_for_a_loader_that_does_not_answer():
    done = python("""
        import signal, socket, tempfile
        path = os.path.join(tempfile.mkdtemp(), "s")
        server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server.bind(path)
        server.listen()
        s = ProfileSession.with_options(via="service", socket=path, timeout=20)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        t = time.monotonic()
        try:
            s.start_capture()
        except KeyboardInterrupt:
            say([time.monotonic() - t, s.started, s.closed])
        server.close()
    """)
    seconds, started, closed = done.json
    assert seconds < 5 and not started and not closed


# ---- ways to end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how,code", [
    ("pass", 0), ("sys.exit(3)", 3), ("os._exit(4)", 4), ("raise SystemExit(5)", 5),
    ("os.kill(os.getpid(), 9)", -9), ("os.abort()", -6)])
def test_exit_status_is_the_hosts_own(how, code):
    done = python(f"""
        import faulthandler; faulthandler.disable()
        s = ProfileSession()
        scope = s.start_capture()
        work("x")
        print("ready", flush=True)
        {how}
    """, check=code, warn="ignore")
    assert "ready" in done.out
    if code >= 0:
        assert done.err == ""


def test_uncaught_exception_shows_as_always():
    done = python("""
        s = ProfileSession()
        with s.start_capture():
            raise KeyError("mine")
    """, check=1)
    assert done.err.rstrip().endswith("KeyError: 'mine'") and "ProfilerError" not in done.err


def test_shutdown_with_open_captures_and_running_threads_is_quiet_and_quick():
    began = time.monotonic()
    done = python("""
        s = ProfileSession()
        kept = s.start_capture("open")
        def forever():
            while True:
                with s.start_capture("t"):
                    work("x")
        for _ in range(3):
            threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.2)
        print("end", flush=True)
    """, warn="ignore")
    assert done.err == "" and time.monotonic() - began < 20


def test_session_in_a_module_global_and_in_a_cycle_at_shutdown():
    done = python("""
        s = ProfileSession()
        s.me = s
        s.scope = s.start_capture()
        @span("f")
        def f(): pass
        f()
        class Late:
            def __del__(self):
                with span("late"):
                    pass
        late = Late()
        late.cycle = late
    """)
    assert done.err == ""


def test_reading_in_an_atexit_handler_works():
    done = python("""
        import atexit
        s = ProfileSession()
        atexit.register(lambda: say(counts(s)))
        with s.start_capture():
            work("x", 2)
    """)
    assert done.json == {"x": 2}


def test_exec_ends_the_session_and_goes_on():
    done = python("""
        s = ProfileSession()
        s.start_capture()
        os.execv(sys.executable, [sys.executable, "-c", "print('after')"])
    """, warn="ignore")
    assert done.out == "after\n"


# ---- a loader that is harmed ---------------------------------------------------------------------------------------------------


@private_only
def test_killed_loader_is_an_exception_with_what_was_saved(tmp_path):
    done = harm(f"""
        import signal
        s = ProfileSession()
        with s.start_capture():
            work("x")
        s.save_chrome_trace({str(tmp_path / 'saved.json')!r})
        scope = s.start_capture()
        os.kill(loader(), signal.SIGKILL)
        while s.alive:
            time.sleep(0.001)
        said = []
        for use in (s.start_capture, s.summary_text, s.flush, scope.stop, lambda: s.save({str(tmp_path / 'x')!r})):
            try:
                use()
                said.append("no error")
            except LoaderLostError as e:
                said.append(list(e.saved))
        work("the work goes on")
        say([said, is_recording()])
        """)
    said, recording = done.json
    saved = [str(tmp_path / "saved.json")]
    assert said == [saved, saved, saved, [], saved]
    assert os.path.exists(saved[0]) and os.listdir(tmp_path / "x") == []


@private_only
def test_block_that_ends_after_the_loader_warns_and_hides_nothing():
    done = harm("""
        import signal
        s = ProfileSession()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with s.start_capture():
                os.kill(loader(), signal.SIGKILL)
                result = 42
            try:
                with s.start_capture():
                    pass
            except LoaderLostError:
                pass
        say([result, [w.category.__name__ for w in seen]])
        """)
    assert done.json == [42, ["ProfilerWarning"]]


@private_only
def test_marker_checks_fall_back_to_nothing_after_a_kill():
    done = harm("""
        import signal
        s = ProfileSession()
        scope = s.start_capture()
        work("x", 10)
        os.kill(loader(), signal.SIGKILL)
        end = time.monotonic() + 20
        while is_recording() and time.monotonic() < end:
            work("y")
        say(is_recording())
        s.close()
        """)
    assert done.json is False


@private_only
def test_stopped_loader_costs_one_deadline_and_no_more():
    done = harm("""
        import signal
        s = ProfileSession.with_options(timeout=0.5)
        scope = s.start_capture()
        pid = loader()
        os.kill(pid, signal.SIGSTOP)
        def timed(f):
            t = time.monotonic()
            try:
                f()
                return ["no error", 0]
            except ProfilerError as e:
                return [type(e).__name__, time.monotonic() - t]
        said = [timed(s.flush), timed(s.start_capture), timed(scope.stop), timed(s.summary_text)]
        t = time.monotonic()
        s.close()
        said.append(time.monotonic() - t)
        os.kill(pid, signal.SIGKILL)
        say(said)
        """)
    first, *rest, close = done.json
    assert first[0] == "LoaderTimeoutError" and 0.4 < first[1] < 5
    assert [r[0] for r in rest] == ["LoaderLostError"] * 3 and all(r[1] < 0.3 for r in rest) and close < 0.3


@private_only
def test_loader_killed_while_an_export_waits_ends_the_wait():
    done = harm("""
        import signal
        s = ProfileSession()
        with s.start_capture():
            work("x", 10)
        pid = loader()
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
        t = time.monotonic()
        try:
            s.perfetto_trace()
            say("no error")
        except LoaderLostError:
            say(time.monotonic() - t < 10)
        """)
    assert done.json is True


@private_only
def test_loader_that_is_no_loader():
    for program in ("/bin/true", "/bin/cat", "/bin/false"):
        done = python(f"""
            s = ProfileSession.with_options(via="private", loader={program!r}, timeout=2)
            t = time.monotonic()
            try:
                s.start_capture()
                say("no error")
            except ProfilerError as e:
                say([type(e).__name__, time.monotonic() - t])
        """)
        name, seconds = done.json
        assert name in ("LoaderLostError", "LoaderTimeoutError") and seconds < 8, (program, done.json)


def fake_service(answer):
    """Host code: a service of its own making that answers every message with what @answer gives."""
    return f"""
        import socket, struct, tempfile
        path = os.path.join(tempfile.mkdtemp(), "s")
        server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server.bind(path)
        server.listen()
        def serve():
            c, _ = server.accept()
            try:
                while True:
                    m = c.recv(65536)
                    if not m:
                        break
                    a = ({answer})(m)
                    if a is None:
                        break
                    c.send(a)
            finally:
                c.close()
        threading.Thread(target=serve, daemon=True).start()
        s = ProfileSession.with_options(via="service", socket=path, timeout=1)
        t = time.monotonic()
        try:
            s.start_capture()
            said = "no error"
        except ProfilerError as e:
            said = type(e).__name__
        say([said, time.monotonic() - t])
    """


@pytest.mark.parametrize("answer", [
    "lambda m: b'garbage'", "lambda m: os.urandom(1000)", "lambda m: bytes(65536)", "lambda m: m[:10]",
    "lambda m: None", "lambda m: m[:4] + b'\\xff' * 4 + m[8:]", "lambda m: m[:16] + struct.pack('<i', -2**31) + m[20:]",
    "lambda m: m[:16] + struct.pack('<i', 2**31 - 1) + m[20:]", "lambda m: m[:24]",
    "lambda m: time.sleep(3)", "lambda m: struct.pack('<I', 24) + b'' or m * 2"])
def test_garbage_from_a_service_is_an_exception_in_time(answer):
    done = python(fake_service(answer), warn="ignore")
    said, seconds = done.json
    assert said.endswith("Error") and seconds < 8


def test_no_service_and_no_right_says_what_to_do(tmp_path):
    done = python("""
        s = ProfileSession.with_options(via="service", socket=sys.argv[1])
        try:
            s.start_capture()
        except LoaderUnavailableError as e:
            say([str(e), e.code])
    """, tmp_path / "nothing.sock")
    text, code = done.json
    assert str(tmp_path / "nothing.sock") in text and "clika-bpf-prof serve" in text and code > 0


@needs_root
def test_no_service_and_no_right_as_an_ordinary_user():
    done = python("""
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        s = ProfileSession()
        try:
            s.start_capture()
        except LoaderUnavailableError as e:
            say(str(e))
    """, env={"CLIKA_PROF_SOCKET": "/nonexistent/clika.sock", "CLIKA_PROF_LOADER": TOOL})
    assert "sudo clika-bpf-prof serve" in done.json and "CAP_BPF" in done.json


@needs_root
def test_no_loader_anywhere_says_how_to_name_one():
    done = python("""
        s = ProfileSession()
        try:
            s.start_capture()
        except LoaderUnavailableError as e:
            say(str(e))
    """, env={"CLIKA_PROF_SOCKET": "/nonexistent/clika.sock", "CLIKA_PROF_LOADER": "/nonexistent/loader"})
    assert "CLIKA_PROF_LOADER" in done.json


# ---- the target is unharmed ----------------------------------------------------------------------------------------------------------


def test_results_of_the_work_are_the_same_with_and_without():
    code = """
        import hashlib
        @span("f")
        def f(i):
            with span("g", i=i):
                return hashlib.sha256(str(i).encode()).hexdigest()
        def run():
            return hashlib.sha256("".join(f(i) for i in range(2000)).encode()).hexdigest()
        alone = run()
        s = ProfileSession()
        with s.start_capture():
            seen = run()
        say([alone == seen, counts(s)])
    """
    assert python(code).json == [True, {"f": 2000, "g": 2000}]
