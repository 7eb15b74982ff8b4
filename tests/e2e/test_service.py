# SPDX-License-Identifier: Apache-2.0
"""The loader service and its clients: captures, results, rights, limits, and every way to go wrong."""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lib  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TOOL = os.path.join(lib.BUILD, "clika-bpf-prof")
NOBODY = 65534


def bpf_links():
    """BPF links of the kernel that a recorder would make, by id."""
    def listed():
        out = subprocess.run(["bpftool", "-j", "link", "list"], capture_output=True, text=True, check=False).stdout
        found = json.loads(out or "[]")
        # It stops with an error when somebody else's link goes in that moment.
        return None if any("id" not in link for link in found) else ({link["id"] for link in found},)
    return lib.wait_for(listed, "a whole list of links")[0]


class Client:
    def __init__(self, case, program, where, user=None):
        env = dict(os.environ, CLIKA_PROF_LOADER=TOOL)
        kw = {"user": user, "group": user, "extra_groups": []} if user else {}
        self.process = subprocess.Popen([program, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=env, **kw)
        case.addCleanup(self.end)
        self.pid = int(self.process.stdout.readline().split()[1])

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def is_listening(path):
    """A socket has its name a moment before it takes connections."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        # Num RefCount Protocol Flags Type St Inode Path; SO_ACCEPTCON is 0x10000
        return any(line.split()[3] == "00010000" for line in f if line.rstrip("\n").endswith(" " + path))


class ServiceCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root: loads BPF")
        cls.scratch = tempfile.mkdtemp(prefix="clika-service-")
        os.chmod(cls.scratch, 0o755)
        cls.program = os.path.join(cls.scratch, "client")
        subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-I", os.path.join(ROOT, "include"),
                        os.path.join(HERE, "service", "client.c"), os.path.join(lib.BUILD, "libclika-client.a"),
                        "-o", cls.program, "-lpthread"], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch)

    def service(self, *options):
        folder = tempfile.mkdtemp(prefix="run-", dir=self.scratch)
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "s.sock")
        process = subprocess.Popen([TOOL, "serve", "--socket", path, *options], stderr=subprocess.PIPE, text=True)

        def stop():
            if process.poll() is None:
                process.terminate()
            process.wait(10)
            process.stderr.close()
        self.addCleanup(stop)
        lib.wait_for(lambda: is_listening(path), "the service's socket")
        return path, process

    def client(self, where, user=None):
        return Client(self, self.program, where, user)

    def names(self, client, out="t.json"):
        path = os.path.join(tempfile.mkdtemp(dir=self.scratch), out)
        os.chmod(os.path.dirname(path), 0o777)
        self.assertEqual(client.say(f"export chrome {path}"), "ok")
        with open(path, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        counts = {}
        for e in events:
            if e.get("ph") == "X":
                counts[e["name"]] = counts.get(e["name"], 0) + 1
        return counts


class CaptureTest(ServiceCase):
    def check_captures(self, client):
        self.assertEqual(client.say("new"), "ok")
        client.say("spans 5 before")
        first = client.say("begin one").split()[1]
        client.say("spans 700 inside")
        self.assertEqual(self.names(client), {"inside": 700})  # while it is open
        second = client.say("begin two").split()[1]
        client.say("spans 3 both")
        self.assertEqual(client.say(f"end {first}"), "ok")
        client.say("spans 4 second")
        self.assertEqual(client.say(f"end {second}"), "ok")
        client.say("spans 5 after")
        expected = {"inside": 700, "both": 3, "second": 4}
        self.assertEqual(self.names(client), expected)
        self.assertEqual(self.names(client), expected)
        self.assertIn("lost 0 open 0", client.say("stats"))
        self.assertTrue(client.say(f"end {first}").startswith("error"))
        self.assertTrue(client.say("export nonsense /dev/null").startswith("error"))

    def test_captures_and_snapshots_through_the_service(self):
        path, _ = self.service("--everyone")
        client = self.client(path, NOBODY)
        self.check_captures(client)
        self.assertIn("private 0", client.say("stats"))

    def test_captures_and_snapshots_through_a_private_loader(self):
        client = self.client("private")
        self.check_captures(client)
        self.assertIn("private 1", client.say("stats"))

    def test_a_private_loader_ends_with_its_client_and_is_nobodys_child(self):
        client = self.client("private")
        self.assertEqual(client.say("new"), "ok")
        with open(f"/proc/{client.pid}/task/{client.pid}/children", encoding="ascii") as f:
            self.assertEqual(f.read().split(), [])
        links = bpf_links()
        client.end()
        lib.wait_for(lambda: not (links & bpf_links()), "the loader's links to be gone")

    def test_two_sessions_on_two_processes_do_not_see_each_other(self):
        path, _ = self.service("--everyone")
        a, b = self.client(path, NOBODY), self.client(path)
        for c, name in ((a, "of_a"), (b, "of_b")):
            self.assertEqual(c.say("new"), "ok")
            c.say("begin x")
            c.say(f"spans 10 {name}")
        self.assertEqual(self.names(a), {"of_a": 10})
        self.assertEqual(self.names(b), {"of_b": 10})
        out = subprocess.run([TOOL, "sessions", "-s", path], capture_output=True, text=True, check=True).stdout
        self.assertIn(str(a.pid), out)
        self.assertIn(str(b.pid), out)

    def test_a_forked_child_may_not_use_its_parents_session(self):
        path, _ = self.service("--everyone")
        client = self.client(path)
        self.assertEqual(client.say("new"), "ok")
        self.assertEqual(client.say("fork"), "ok child 0")
        client.say("begin x")
        client.say("spans 2 parent")
        self.assertEqual(self.names(client), {"parent": 2})


class RightsTest(ServiceCase):
    def test_an_ordinary_user_may_not_record_foreign_processes_or_the_machine(self):
        path, _ = self.service("--everyone")
        mine = self.client(path)  # root's
        client = self.client(path, NOBODY)
        for what in (f"pid {mine.pid}", "pid 1", "system"):
            answer = client.say(f"new {what}")
            self.assertTrue(answer.startswith("error -1 "), answer)

    def test_root_may_record_another_users_process(self):
        path, _ = self.service("--everyone")
        other = self.client(path, NOBODY)
        client = self.client(path)
        self.assertEqual(client.say(f"new pid {other.pid}"), "ok")
        client.say("begin x")
        other.say("spans 6 other")
        self.assertEqual(self.names(client), {"other": 6})

    def test_a_user_outside_the_group_is_told_how_to_get_in(self):
        path, _ = self.service()
        answer = self.client(path, NOBODY).say("new")
        self.assertTrue(answer.startswith("error -13 "), answer)
        self.assertIn("clika-prof", answer)

    def test_without_a_service_the_error_names_the_command_that_helps(self):
        answer = self.client(os.path.join(self.scratch, "none.sock"), NOBODY).say("new")
        self.assertIn("clika-bpf-prof serve", answer)

    def test_the_socket_is_not_made_where_others_may_write(self):
        folder = tempfile.mkdtemp(dir=self.scratch)
        os.chmod(folder, 0o777)
        run = subprocess.run([TOOL, "serve", "--socket", os.path.join(folder, "s.sock")], capture_output=True,
                             text=True, timeout=20, check=False)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("written by others", run.stderr)

    def test_no_more_sessions_than_allowed_are_open_at_a_time(self):
        path, _ = self.service("--everyone", "--max-sessions", "2")
        held = []
        for _ in range(2):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(path)
            held.append(s)
        answer = self.client(path).say("new")
        self.assertIn("as many sessions open as it allows", answer)
        for s in held:
            s.close()
        lib.wait_for(lambda: self.client(path).say("new") == "ok", "a free place")


class TroubleTest(ServiceCase):
    def test_garbage_ends_the_connection_and_nothing_else(self):
        path, process = self.service("--everyone")
        for junk in (b"x", b"\0" * 60000, struct.pack("<IIIHHiI", 0x50414b43, 24, 1, 99, 1, 0, 0),
                     struct.pack("<IIIHHiI", 0x50414b43, 24, 1, 2, 1, 0, 0)):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(path)
            s.send(junk)
            s.settimeout(5)
            s.recv(65536)
            s.close()
        self.assertIsNone(process.poll())
        self.assertEqual(self.client(path).say("new"), "ok")

    def test_a_client_that_dies_leaves_nothing_attached(self):
        path, _ = self.service("--everyone")
        before = bpf_links()
        client = self.client(path, NOBODY)
        self.assertEqual(client.say("new"), "ok")
        links = bpf_links() - before
        self.assertTrue(links)
        os.kill(client.pid, signal.SIGKILL)
        lib.wait_for(lambda: not (links & bpf_links()), "the session's links to be gone")

    def test_a_killed_service_gives_errors_not_hangs(self):
        path, process = self.service("--everyone")
        client = self.client(path, NOBODY)
        self.assertEqual(client.say("new"), "ok")
        client.say("begin x")
        before = bpf_links()
        process.kill()
        process.wait()
        begun = time.monotonic()
        answer = client.say("flush")
        self.assertTrue(answer.startswith("error -32 "), answer)
        self.assertLess(time.monotonic() - begun, 6)
        self.assertEqual(client.say("spans 10 alive"), "ok")
        lib.wait_for(lambda: bpf_links() < before, "the session's links to be gone")

    def test_a_stopped_loader_is_given_up_after_the_deadline(self):
        path, _ = self.service("--everyone")
        client = self.client(path)
        self.assertEqual(client.say("new"), "ok")
        out = subprocess.run(["pgrep", "-f", f"serve --socket {path}"], capture_output=True, text=True,
                             check=True).stdout.split()
        for pid in out:
            os.kill(int(pid), signal.SIGSTOP)
        try:
            begun = time.monotonic()
            answer = client.say("flush")
            self.assertTrue(answer.startswith("error -110 "), answer)
            self.assertLess(time.monotonic() - begun, 8)
        finally:
            for pid in out:
                os.kill(int(pid), signal.SIGCONT)

    def test_a_descriptor_that_blocks_holds_up_nobody_else(self):
        path, _ = self.service("--everyone")
        client = self.client(path, NOBODY)
        self.assertEqual(client.say("new"), "ok")
        client.say("begin x")
        client.say("spans 60000 many")
        fifo = os.path.join(tempfile.mkdtemp(dir=self.scratch), "fifo")
        os.chmod(os.path.dirname(fifo), 0o777)
        os.mkfifo(fifo)
        os.chmod(fifo, 0o666)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        client.process.stdin.write(f"export chrome {fifo}\n")
        client.process.stdin.flush()
        other = self.client(path)
        self.assertEqual(other.say("new"), "ok")
        other.say("begin y")
        other.say("spans 3 other")
        self.assertEqual(self.names(other), {"other": 3})
        os.close(reader)  # the worker gets a broken pipe
        self.assertTrue(client.process.stdout.readline().startswith("error"))

    def test_a_killed_service_leaves_no_export_worker_and_nothing_attached(self):
        path, process = self.service("--everyone")
        before = bpf_links()
        client = self.client(path, NOBODY)
        self.assertEqual(client.say("new"), "ok")
        links = bpf_links() - before
        client.say("begin x")
        client.say("spans 60000 many")
        reader = self.blocked_export(client)
        worker = lib.wait_for(lambda: self.worker_of(process.pid), "the export worker")
        # It cannot be told from its user's own processes: neither maps nor links may be held by it.
        held = [os.readlink(f"/proc/{worker}/fd/{fd}") for fd in os.listdir(f"/proc/{worker}/fd")]
        self.assertEqual([h for h in held if "bpf" in h or "socket" in h or "perf" in h], [])
        os.kill(worker, signal.SIGSTOP)
        process.kill()
        process.wait()
        lib.wait_for(lambda: not (links & bpf_links()), "the session's links to be gone")
        lib.wait_for(lambda: not os.path.exists(f"/proc/{worker}"), "the worker to be gone")
        os.close(reader)

    def blocked_export(self, client):
        """An export into a pipe that nobody reads. The reading end."""
        fifo = os.path.join(tempfile.mkdtemp(dir=self.scratch), "fifo")
        os.chmod(os.path.dirname(fifo), 0o777)
        os.mkfifo(fifo)
        os.chmod(fifo, 0o666)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        client.process.stdin.write(f"export chrome {fifo}\n")
        client.process.stdin.flush()
        return reader

    @staticmethod
    def worker_of(service):
        def read(path):
            with open(path, encoding="ascii") as f:
                return f.read()

        def children(pid):
            return read(f"/proc/{pid}/task/{pid}/children").split()

        workers = [w for session in children(service) for w in children(session)]
        # One that has given up its rights, which it does after its descriptors.
        return next((int(w) for w in workers if f"Uid:\t{NOBODY}" in read(f"/proc/{w}/status")), None)


PROTOCOL = 2
HELLO = struct.pack("<I", PROTOCOL)


def new(target=0, flags=0, budget=0, probes=(), usdts=(), recipes=()):
    """The payload of a request for a session."""
    return struct.pack("<IIIIQQ", target, 0, flags, budget, 0, 0) + b"".join(
        struct.pack("<I", len(each)) + b"".join(text(s) for s in each) for each in (probes, usdts, recipes))


class Raw:
    """A client that speaks as it likes."""

    def __init__(self, case, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(30)
        self.sock.connect(path)
        self.seq = 0
        case.addCleanup(self.sock.close)

    def message(self, kind, payload=b"", version=PROTOCOL):
        self.seq += 1
        return struct.pack("<IIIHHiI", 0x50414b43, 24 + len(payload), self.seq, kind, version, 0, 0) + payload

    def ask(self, kind, payload=b"", fds=()):
        socket.send_fds(self.sock, [self.message(kind, payload)], fds) if fds else self.sock.send(self.message(kind, payload))
        return self.answer()

    def answer(self):
        """(code, payload), or None: the other side has closed."""
        data = self.sock.recv(65536)
        return (struct.unpack_from("<i", data, 16)[0], data[24:]) if data else None

    def new(self):
        assert self.ask(1, HELLO)[0] == 0
        return self.ask(2, new())


def text(s):
    return struct.pack("<I", len(s)) + s.encode()


class RecipesTest(ServiceCase):
    def setUp(self):
        self.path, self.process = self.service("--everyone")

    def ask(self, payload):
        raw = Raw(self, self.path)
        self.assertEqual(raw.ask(1, HELLO)[0], 0)
        code, why = raw.ask(2, payload)
        raw.sock.close()
        return code, why[4:].decode()

    def test_named_ones_and_budgets_are_taken(self):
        for more in ({}, {"flags": 8}, {"recipes": ["pytorch"]}, {"recipes": ["libc-memory", "pytorch:all"]},
                     {"budget": 1}, {"budget": 50_000}, {"budget": 0xffffffff}):
            self.assertEqual(self.ask(new(**more))[0], 0, more)

    def test_unknown_ones_are_named_with_those_that_there_are(self):
        code, why = self.ask(new(recipes=["nothing-like-it"]))
        self.assertEqual(code, -22)
        self.assertIn("there is no recipe 'nothing-like-it'", why)
        self.assertIn("pytorch", why)
        self.assertIn("did you mean 'pytorch'", self.ask(new(recipes=["pytorhc"]))[1])
        self.assertIn("has no group 'x'", self.ask(new(recipes=["pytorch:x"]))[1])

    def test_the_service_opens_no_file_of_a_callers(self):
        mine = os.path.join(self.scratch, "mine.json")
        with open(os.path.join(ROOT, "recipes", "openmp.json"), encoding="ascii") as f, open(mine, "w", encoding="ascii") as to:
            to.write(f.read())
        os.chmod(mine, 0o644)
        for name in (mine, "/nonexistent.json", "mine.json", "./mine", mine + ":all", "/etc/shadow", "/dev/zero"):
            code, why = self.ask(new(recipes=["pytorch", name]))
            self.assertEqual(code, -1, name)
            self.assertIn("no file is opened for you here", why)

    def test_recipes_of_whoever_started_the_service_do_not_count(self):
        home = tempfile.mkdtemp(prefix="home-", dir=self.scratch)
        os.makedirs(os.path.join(home, "clika-bpf-prof", "recipes"))
        with open(os.path.join(ROOT, "recipes", "openmp.json"), encoding="ascii") as f:
            recipe = f.read().replace('"openmp"', '"of-the-admin"')
        with open(os.path.join(home, "clika-bpf-prof", "recipes", "x.json"), "w", encoding="ascii") as f:
            f.write(recipe)
        os.environ["XDG_CONFIG_HOME"] = home
        self.addCleanup(os.environ.pop, "XDG_CONFIG_HOME")
        seen = subprocess.run([TOOL, "recipes"], capture_output=True, text=True, check=True).stdout
        self.assertIn("of-the-admin", seen)
        self.path, _ = self.service("--everyone")
        code, why = self.ask(new(recipes=["of-the-admin"]))
        self.assertEqual(code, -22)
        self.assertIn("there is no recipe 'of-the-admin'", why)

    def test_a_caller_of_another_version_is_told_so(self):
        for version in (1, PROTOCOL + 1):
            raw = Raw(self, self.path)
            raw.sock.send(raw.message(1, struct.pack("<I", version), version))
            code, answer = raw.answer()
            self.assertEqual((code, struct.unpack_from("<I", answer)[0]), (0, PROTOCOL))
            raw.sock.send(raw.message(2, new(), version))
            code, why = raw.answer()
            self.assertEqual(code, -93)
            self.assertIn(f"the loader speaks protocol {PROTOCOL}, its caller {version}", why[4:].decode())


class HostileTest(ServiceCase):
    """Clients that mean harm: they lose their own connection at most."""

    def setUp(self):
        self.path, self.process = self.service("--everyone", "--max-sessions", "4")

    def tearDown(self):
        self.assertIsNone(self.process.poll())
        client = self.client(self.path, NOBODY)
        self.assertEqual(client.say("new"), "ok")
        client.say("begin x")
        client.say("spans 7 fine")
        self.assertEqual(self.names(client), {"fine": 7})

    def test_oversized_and_half_messages(self):
        for junk in (b"\0", b"CKAP", struct.pack("<IIIHHiI", 0x50414b43, 1 << 31, 1, 1, 1, 0, 0),
                     struct.pack("<IIIHHiI", 0x50414b43, 24, 1, 1, 1, 0, 0)[:23],
                     struct.pack("<IIIHHiI", 0x50414b43, 28, 1, 1, 1, 0, 0)):
            raw = Raw(self, self.path)
            raw.sock.send(junk)
            self.assertIsNone(raw.answer())
        raw = Raw(self, self.path)
        raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        raw.sock.send(raw.message(1, b"\0" * 100_000))
        self.assertIsNone(raw.answer())

    def test_lengths_and_counts_inside_that_lie(self):
        fixed = new()[:-12]
        for payload in (b"", b"\xff" * 44, fixed + struct.pack("<III", 0xffffffff, 0, 0),
                        fixed + struct.pack("<II", 1, 0xfffffff0) + b"x", new(target=9), new(probes=["a\0b"]),
                        fixed, new()[:-4], fixed + struct.pack("<III", 0, 0, 0xffffffff), new(recipes=["a"])[:-1],
                        new(recipes=["a\0b"]), new(recipes=["x" * 4097]), new(recipes=["cuda"] * 65),
                        new(budget=10_000_001), new(budget=0xfffffffe)):
            raw = Raw(self, self.path)
            self.assertEqual(raw.ask(1, HELLO)[0], 0)
            self.assertLess(raw.ask(2, payload)[0], 0)
            self.assertEqual(raw.ask(2, new())[0], 0)  # it listens still
            raw.sock.close()
            lib.wait_for(lambda: len(self.sessions()) == 0, "the session to end")

    def test_requests_out_of_order(self):
        raw = Raw(self, self.path)
        self.assertLess(raw.ask(2, new())[0], 0)  # before hello
        self.assertEqual(raw.ask(1, HELLO)[0], 0)
        for kind in (3, 4, 5, 6, 7, 9, 0, 99, 65535):
            self.assertLess(raw.ask(kind, text("x"))[0], 0)
        self.assertEqual(raw.ask(2, new())[0], 0)
        self.assertLess(raw.ask(2, new())[0], 0)  # a second session
        self.assertLess(raw.ask(4, struct.pack("<Q", 12345))[0], 0)
        self.assertEqual(raw.ask(9, struct.pack("<I", 12345))[0], 0)  # nothing to cancel
        self.assertLess(raw.ask(9, b"")[0], 0)
        self.assertEqual(raw.ask(7)[0], 0)

    def test_descriptors_that_nobody_asked_for_are_not_kept(self):
        raw = Raw(self, self.path)
        self.assertEqual(raw.new()[0], 0)
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as f:
            (session,) = f.read().split()

        def held():
            return [os.readlink(f"/proc/{session}/fd/{fd}") for fd in os.listdir(f"/proc/{session}/fd")].count(os.devnull)

        before = held()
        null = os.open(os.devnull, os.O_RDWR)
        for _ in range(200):
            self.assertEqual(raw.ask(7, b"", [null] * 16)[0], 0)
            self.assertLess(raw.ask(6, struct.pack("<I", 1) + text("chrome") + text("") + struct.pack("<Q", 0), [null] * 3)[0], 0)
        lib.wait_for(lambda: held() == before, "the descriptors to be let go", 10)
        socket.send_fds(raw.sock, [raw.message(7)], [null] * 17)  # more than a message may carry
        self.assertIsNone(raw.answer())
        os.close(null)

    def test_a_client_that_never_reads_holds_up_only_itself(self):
        raw = Raw(self, self.path)
        self.assertEqual(raw.new()[0], 0)
        raw.sock.settimeout(0.2)
        sent = 0
        end = time.monotonic() + 20
        try:
            while time.monotonic() < end:
                raw.sock.send(raw.message(8))
                sent += 1
        except (TimeoutError, OSError):
            pass
        self.assertGreater(sent, 10)
        other = Raw(self, self.path)
        begun = time.monotonic()
        self.assertEqual(other.new()[0], 0)
        self.assertLess(time.monotonic() - begun, 5)
        other.sock.close()
        lib.wait_for(lambda: len(self.sessions()) == 0, "both sessions to end")

    def test_connections_that_stay_silent_lose_their_place(self):
        held = [Raw(self, self.path) for _ in range(4)]
        for raw in held[:2]:
            self.assertEqual(raw.ask(1, HELLO)[0], 0)
        lib.wait_for(lambda: self.client(self.path).say("new") == "ok", "a free place", 30)
        for raw in held:
            self.assertIsNone(raw.answer())

    def test_a_cancelled_export_is_answered_and_the_next_one_runs(self):
        raw = Raw(self, self.path)
        self.assertEqual(raw.new()[0], 0)
        r, w = os.pipe()
        self.addCleanup(os.close, r)
        export = struct.pack("<I", 1) + text("html") + text("") + struct.pack("<Q", 0)
        socket.send_fds(raw.sock, [raw.message(6, export)], [w])
        export_seq = raw.seq
        os.close(w)
        os.read(r, 1)  # it writes, more than the pipe takes
        self.assertEqual(raw.ask(9, struct.pack("<I", export_seq))[0], -125)
        self.assertEqual(raw.answer()[0], 0)
        null = os.open(os.devnull, os.O_RDWR)
        self.assertEqual(raw.ask(6, export, [null])[0], 0)
        os.close(null)

    def sessions(self):
        out = subprocess.run([TOOL, "sessions", "-s", self.path], capture_output=True, text=True, check=False)
        return [line for line in out.stdout.splitlines()[1:] if line.strip()] if out.returncode == 0 else ["?"]


if __name__ == "__main__":
    unittest.main()
