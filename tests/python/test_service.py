# SPDX-License-Identifier: Apache-2.0
"""Ordinary users and a service that root has started."""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import textwrap

import pytest

from conftest import TOOL, needs_root, python, start, until

pytestmark = needs_root

NOBODY = dict(user=65534, group=65534, extra_groups=[])
OTHER = dict(user=65533, group=65533, extra_groups=[])


@pytest.fixture
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    for p in (folder, folder.parent, folder.parent.parent):
        os.chmod(p, 0o755)
    path = str(folder / "s.sock")
    argv = [TOOL, "serve", "--everyone", "--socket", path]
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until(lambda: os.path.exists(path) or p.poll() is not None, "the socket")
        assert p.poll() is None, p.stdout.read()
        yield Service(p, path)
    finally:
        if p.poll() is None:
            p.terminate()
            p.wait(30)
        p.stdout.close()


class Service:
    def __init__(self, process, path):
        self.process, self.path = process, path
        self.env = {"CLIKA_PROF_SOCKET": path, "CLIKA_PROF_LOADER": "/nonexistent/loader"}

    def sessions(self):
        done = subprocess.run([TOOL, "sessions", "--socket", self.path], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout


def test_ordinary_user_gets_the_same_results(service, tmp_path):
    done = python("""
        s = ProfileSession()
        with s.start_capture("mine"):
            work("x", 1000)
        say([os.getuid(), counts(s), s.stats()["private_loader"]])
    """, env=service.env, **NOBODY)
    assert done.json == [65534, {"x": 1000}, False]


def test_process_of_another_user_is_refused(service):
    other = start("say(os.getpid()); sys.stdin.readline()", **OTHER)
    root = start("say(os.getpid()); sys.stdin.readline()")
    try:
        for p in (other, root):
            pid = int(p.stdout.readline())
            done = python("""
                s = ProfileSession.for_process(int(sys.argv[1]))
                try:
                    s.start_capture()
                    say("no error")
                except NotPermittedError as e:
                    say(str(e))
            """, pid, env=service.env, **NOBODY)
            assert f"process {pid} is not yours" in done.json
    finally:
        for p in (other, root):
            p.communicate("\n", timeout=30)


def test_own_process_that_is_not_dumpable_is_refused(service):
    p = start("import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); say(os.getpid()); sys.stdin.readline()", **NOBODY)
    try:
        pid = int(p.stdout.readline())
        done = python("""
            try:
                ProfileSession.for_process(int(sys.argv[1])).start_capture()
                say("no error")
            except NotPermittedError:
                say("refused")
        """, pid, env=service.env, **NOBODY)
        assert done.json == "refused"
    finally:
        p.communicate("\n", timeout=30)


@pytest.fixture
def programs(tmp_path):
    """The same program as anybody's, as one with set-user-id, and as one that may be run but not read."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for p in (folder, *folder.parents[:3]):
        os.chmod(p, 0o755)
    for name, mode in (("plain", 0o755), ("setuid", 0o4755), ("hidden", 0o711)):
        shutil.copy(shutil.which("dash") or shutil.which("sh"), folder / name)
        os.chmod(folder / name, mode)
    if subprocess.run([folder / "setuid", "-p", "-c", "test $(id -u) = 0"], **NOBODY).returncode:
        pytest.skip(f"{folder} is mounted nosuid, or the shell drops what it gained")
    return folder


SPANS_BY_PROGRAM = """
    def by_program(s):
        names, seen = {}, collections.Counter()
        for e in json.loads(s.chrome_trace_json())["traceEvents"]:
            if e["ph"] == "M" and e["name"] == "process_name":
                names[e["pid"]] = e["args"]["name"].split()[0]
            elif e["ph"] == "X":
                seen[e["pid"]] += 1
        return {names[pid]: n for pid, n in seen.items()}
"""


def test_programs_that_gain_rights_are_not_recorded_for_their_caller(service, programs):
    script = "sleep 0.5; for p in plain setuid hidden plain; do $0/$p -p -c 'x=$(echo $p); id >/dev/null; :'; done; :"
    code = textwrap.dedent(SPANS_BY_PROGRAM) + textwrap.dedent("""
        s = ProfileSession.for_command([f"{sys.argv[1]}/plain", "-c", sys.argv[2], sys.argv[1]], probes=["libc*:malloc"])
        with s.start_capture():
            status = s.wait(30)
        say([status, by_program(s)])
    """)
    status, seen = python(code, programs, script, env=service.env, **NOBODY).json
    assert status == 0 and seen.get("plain") and not {"setuid", "hidden"} & seen.keys(), seen
    # Root may: the others were there to be seen.
    status, seen = python(code, programs, script, env=service.env).json
    assert status == 0 and seen.get("plain") and seen.get("setuid") and seen.get("hidden"), seen


def test_children_that_have_gained_rights_already_are_not_recorded(service, programs):
    loop = "while :; do x=$(echo y); sleep 0.02; done"
    parent = subprocess.Popen([programs / "plain", "-c", f"{programs}/setuid -p -c '{loop}' & {loop}"],
                              start_new_session=True, **NOBODY)
    code = textwrap.dedent(SPANS_BY_PROGRAM) + textwrap.dedent("""
        s = ProfileSession.for_process(int(sys.argv[1]), children=True, probes=["libc*:malloc"])
        with s.start_capture():
            time.sleep(0.5)
        say(by_program(s))
    """)
    try:
        seen = python(code, parent.pid, env=service.env, **NOBODY).json
        assert seen.get("plain") and "setuid" not in seen, seen
        seen = python(code, parent.pid, env=service.env).json
        assert seen.get("plain") and seen.get("setuid"), seen
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()


def test_users_do_not_see_each_other(service):
    first = start("""
        s = ProfileSession()
        scope = s.start_capture()
        say("open")
        sys.stdin.readline()
        work("first", 5)
        scope.stop()
        say(counts(s))
    """, env=service.env, **NOBODY)
    try:
        assert json.loads(first.stdout.readline()) == "open"
        done = python("""
            s = ProfileSession()
            with s.start_capture():
                work("second", 3)
            say(counts(s))
        """, env=service.env, **OTHER)
        assert done.json == {"second": 3}
        assert str(first.pid) in service.sessions()
        out, _ = first.communicate("\n", timeout=60)
        assert json.loads(out) == {"first": 5}
    finally:
        first.kill()
        first.wait()


def test_session_whose_client_is_gone_is_freed(service):
    p = start("s = ProfileSession(); k = s.start_capture(); say('open'); sys.stdin.readline()", env=service.env,
              **NOBODY)
    assert p.stdout.readline()
    assert str(p.pid) in service.sessions()
    p.kill()
    p.communicate()
    until(lambda: str(p.pid) not in service.sessions(), "the session to be freed")


def test_killed_service_is_an_exception_and_the_host_goes_on(service, tmp_path):
    p = start("""
        s = ProfileSession()
        scope = s.start_capture()
        work("x")
        say("open")
        sys.stdin.readline()
        said = []
        for use in (scope.stop, s.start_capture, s.summary_text):
            try:
                use()
                said.append("no error")
            except LoaderLostError:
                said.append("lost")
        work("y")
        say(said)
    """, env=service.env, **NOBODY)
    assert p.stdout.readline()
    service.process.kill()
    service.process.wait()
    out, err = p.communicate("\n", timeout=60)
    assert p.returncode == 0, err
    assert json.loads(out) == ["lost"] * 3


def test_removed_socket_harms_no_session_that_is_open(service):
    p = start("""
        s = ProfileSession()
        scope = s.start_capture()
        say("open")
        sys.stdin.readline()
        work("x", 4)
        scope.stop()
        say(counts(s))
        try:
            ProfileSession().start_capture()
        except LoaderUnavailableError:
            say("unavailable")
    """, env=service.env, **NOBODY)
    assert p.stdout.readline()
    os.unlink(service.path)
    out, err = p.communicate("\n", timeout=60)
    assert p.returncode == 0, err
    assert [json.loads(line) for line in out.splitlines()] == [{"x": 4}, "unavailable"]


def test_files_are_the_users_own(service, tmp_path):
    out = tmp_path / "out"
    for p in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        os.chmod(p, 0o777 if p == tmp_path else 0o755)
    python("""
        s = ProfileSession()
        with s.start_capture():
            work("x")
        s.save(sys.argv[1])
    """, out, env=service.env, **NOBODY)
    for name in os.listdir(out):
        assert os.stat(out / name).st_uid == 65534


def test_service_survives_garbage(service):
    for junk in (b"x", b"", os.urandom(5000), struct.pack("<II", 0x50414b43, 24) + bytes(16), bytes(65000)):
        c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        c.connect(service.path)
        try:
            if junk:
                c.send(junk)
        except OSError:
            pass
        c.close()
    done = python("""
        s = ProfileSession()
        with s.start_capture():
            work("x")
        say(counts(s))
    """, env=service.env, **NOBODY)
    assert done.json == {"x": 1}


def test_more_sessions_than_allowed_are_refused_with_the_reason(service):
    done = python("""
        held, said = [], None
        try:
            for _ in range(20):
                s = ProfileSession()
                s.start_capture()
                held.append(s)
        except ProfilerError as e:
            said = str(e)
        for s in held[1:]:
            s.close()
        say([len(held), said, counts(held[0])])
    """, env=service.env, warn="ignore", timeout=120, **NOBODY)
    n, said, _ = done.json
    assert n == 8 and "sessions" in said


def test_session_and_record_tell_the_same(tmp_path):
    """Both at once on one process: every span with its times and arguments, from either."""
    p = start("""
        s = ProfileSession()
        scope = s.start_capture("default")
        say("ready")
        sys.stdin.readline()
        for i in range(500):
            with span("outer", i=i):
                work("inner", 2)
        instant("moment")
        scope.stop()
        s.save(sys.argv[1])
        s.export(sys.argv[1] + "/spans.csv")
        say("saved")
        sys.stdin.readline()
    """, tmp_path / "session")
    recorder = None
    try:
        assert p.stdout.readline()
        recorder = subprocess.Popen([TOOL, "record", "-v", "-p", str(p.pid), "-o", str(tmp_path / "record")],
                                    stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True)
        while "Recording " not in (line := recorder.stderr.readline()):
            assert line, "record has ended"
        p.stdin.write("\n")
        p.stdin.flush()
        assert p.stdout.readline()
        recorder.send_signal(signal.SIGINT)
        recorder.communicate(timeout=60)
        assert recorder.returncode == 0
    finally:
        out, err = p.communicate("\n", timeout=60)
        if recorder and recorder.poll() is None:
            recorder.kill()
            recorder.communicate()
    assert p.returncode == 0, err

    def spans(folder):
        with open(tmp_path / folder / "chrome_trace.json") as f:
            trace = json.load(f, parse_float=str)
        base = int(trace["baseBoottimeNanoseconds"])
        ns = lambda us: round(float(us) * 1000)
        return sorted((base + ns(e["ts"]), ns(e.get("dur", 0)), e["ph"], e["name"], json.dumps(e.get("args")))
                      for e in trace["traceEvents"] if e["ph"] in "Xi")

    session, record = spans("session"), spans("record")
    assert len(session) == 1501 and session == record
