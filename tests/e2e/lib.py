# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: starting targets and recorders, waiting for conditions, reading results.

Everything here runs built binaries as a user would. Nothing sleeps for luck: each wait names its condition
and ends with an error that says which one did not come.
"""
import collections
import ctypes
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("CLIKA_BUILD", os.path.join(ROOT, "build"))
TOOL = os.environ.get("CLIKA_TOOL", os.path.join(BUILD, "clika-bpf-prof"))
LIBRARY = os.path.join(BUILD, "libclika-prof.so")
PATIENCE = float(os.environ.get("CLIKA_TEST_PATIENCE", "60"))  # seconds before a wait is called failed


def fixture(name):
    path = os.path.join(BUILD, "fixtures", name)
    if not os.path.exists(path):
        raise AssertionError(f"{path} is not built: run make fixtures")
    return path


def wait_for(condition, what, seconds=None, every=0.01):
    """Returns the first true value of condition()."""
    deadline = time.monotonic() + (PATIENCE if seconds is None else seconds)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for: {what}")
        time.sleep(every)


class Lines:
    """Reads a pipe in the background, so that a full pipe never stops the process that writes it."""

    def __init__(self, stream):
        self.lines = []
        self.closed = False
        self._stream = stream
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for line in self._stream:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def wait(self, match, what, seconds=None, start=0):
        """The first line from number @start on that match() accepts, with its number."""
        deadline = time.monotonic() + (PATIENCE if seconds is None else seconds)
        seen = start
        with self._changed:
            while True:
                while seen < len(self.lines):
                    if match(self.lines[seen]):
                        return seen, self.lines[seen]
                    seen += 1
                left = deadline - time.monotonic()
                if self.closed or left <= 0:
                    why = "its output ended" if self.closed else "time ran out"
                    raise AssertionError(f"no line with {what} ({why}); it said:\n" + self.text())
                self._changed.wait(left)

    def text(self):
        return "\n".join(self.lines[-60:])

    def join(self):
        self._thread.join(PATIENCE)


class Process:
    """A child whose output is kept. Ended by its pid when the test ends, whatever happened."""

    def __init__(self, test, argv, ready=None, **kw):
        self.argv = argv
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True, bufsize=1, errors="replace", **kw)
        self.pid = self.proc.pid
        self.out = Lines(self.proc.stdout)
        self.err = Lines(self.proc.stderr)
        self._next = 0
        test.addCleanup(self.end)
        if ready:
            self.expect(lambda l: l.startswith(ready), f"'{ready}'")

    def expect(self, match, what, seconds=None):
        try:
            n, line = self.out.wait(match, what, seconds, self._next)
        except AssertionError as e:
            raise AssertionError(f"{self.argv[0]}: {e}\nstderr:\n{self.err.text()}") from None
        self._next = n + 1
        return line

    def send(self, line):
        self.proc.stdin.write(line + "\n")
        self.proc.stdin.flush()

    def result(self, seconds=None):
        """The next line of JSON."""
        return json.loads(self.expect(lambda l: l.startswith("{"), "a JSON result", seconds))

    def close_stdin(self):
        try:
            self.proc.stdin.close()
        except OSError:
            pass

    def wait(self, seconds=None):
        """Exit status once the process has ended and all that it said is here."""
        try:
            rc = self.proc.wait(PATIENCE if seconds is None else seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.argv[0]} did not end; stderr:\n{self.err.text()}") from None
        self.out.join()
        self.err.join()
        return rc

    def signal(self, sig):
        self.proc.send_signal(sig)

    def end(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        self.close_stdin()
        self.out.join()
        self.err.join()
        self.proc.stdout.close()
        self.proc.stderr.close()


class Target(Process):
    """A fixture: says "ready PID", works on a line, says in JSON what it did."""

    def __init__(self, test, name, *args, **kw):
        ready = None if "--now" in args else "ready "
        path = name if "/" in name else fixture(name)
        super().__init__(test, [path, *map(str, args)], ready=ready, **kw)
        self.path = path

    def go(self):
        self.send("go")

    def run(self, seconds=None):
        """Lets it work; what it did. It keeps running after that when it was started with --stay."""
        self.go()
        return self.result(seconds)


# ---- ELF: just enough to find what a marker's semaphore is --------------------------------------------


class Elf:
    """Program headers, sections and notes of a 64-bit little-endian file. For files of our own."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        d = self.data
        assert d[:6] == b"\x7fELF\x02\x01", path
        phoff, shoff = struct.unpack_from("<QQ", d, 32)
        phsize, phnum, shsize, shnum, shstr = struct.unpack_from("<HHHHH", d, 54)
        self.loads = []  # (offset, vaddr, filesz, memsz, flags)
        self.note_segments = []
        for i in range(phnum):
            kind, flags, off, vaddr, _, filesz, memsz, _ = struct.unpack_from(
                "<IIQQQQQQ", d, phoff + i * phsize)
            if kind == 1:
                self.loads.append((off, vaddr, filesz, memsz, flags))
            elif kind == 4:
                self.note_segments.append((off, vaddr, filesz))
        raw = [struct.unpack_from("<IIQQQQIIQQ", d, shoff + i * shsize) for i in range(shnum)]
        names = raw[shstr][4] if shnum else 0
        self.sections = {}
        for s in raw:
            end = d.index(b"\0", names + s[0])
            self.sections[d[names + s[0]:end].decode()] = {
                "addr": s[3], "offset": s[4], "size": s[5]}

    def offset(self, vaddr):
        for off, start, filesz, _, _ in self.loads:
            if start <= vaddr < start + filesz:
                return off + vaddr - start
        raise AssertionError(f"{vaddr:#x} is not in the file")

    @staticmethod
    def _notes(data, base):
        pos = 0
        while pos + 12 <= len(data):
            namesz, descsz, kind = struct.unpack_from("<III", data, pos)
            name = data[pos + 12:pos + 12 + namesz].rstrip(b"\0").decode(errors="replace")
            at = pos + 12 + (namesz + 3 & ~3)
            yield name, kind, data[at:at + descsz], base + at
            pos = at + (descsz + 3 & ~3)

    def clika(self):
        """Virtual addresses of (object, semaphore, probe site), from the allocated note."""
        for off, vaddr, size in self.note_segments:
            for name, kind, desc, at in self._notes(self.data[off:off + size], vaddr):
                if name == "clika" and kind == 1:
                    _, obj, sem, probe = struct.unpack_from("<Iiii", desc)
                    return at + 4 + obj, at + 8 + sem, at + 12 + probe
        return None

    def usdts(self):
        """(provider, name, pc, semaphore, arguments) of every stapsdt note."""
        s = self.sections.get(".note.stapsdt")
        if not s:
            return []
        base_section = self.sections.get(".stapsdt.base")
        found = []
        data = self.data[s["offset"]:s["offset"] + s["size"]]
        for name, kind, desc, _ in self._notes(data, 0):
            if name != "stapsdt" or kind != 3:
                continue
            pc, base, sem = struct.unpack_from("<QQQ", desc)
            shift = base_section["addr"] - base if base_section and base else 0
            provider, marker, args = desc[24:].split(b"\0")[:3]
            found.append((provider.decode(), marker.decode(), pc + shift,
                          sem + shift if sem else 0, args.decode()))
        return found


def mapped_at(pid, path):
    """Load bias of a mapped file: what to add to its virtual addresses."""
    real = os.path.realpath(path)
    with open(f"/proc/{pid}/maps") as f:
        for line in f:
            parts = line.rstrip("\n").split(None, 5)
            if len(parts) == 6 and parts[5].removesuffix(" (deleted)") == real and int(parts[2], 16) == 0:
                first = min(v for _, v, _, _, _ in Elf(path).loads)
                return int(parts[0].split("-")[0], 16) - (first & ~0xfff)
    return None


def read_u16(pid, address):
    with open(f"/proc/{pid}/mem", "rb", 0) as f:
        f.seek(address)
        return struct.unpack("<H", f.read(2))[0]


def semaphores(pid, path):
    """Values of all marker semaphores of a file in a process: the batched one and those of single markers."""
    bias = mapped_at(pid, path)
    elf = Elf(path)
    addresses = {sem for _, _, _, sem, _ in elf.usdts() if sem}
    note = elf.clika()
    if note:
        addresses.add(note[1])
    return [read_u16(pid, bias + a) for a in sorted(addresses)]


# ---- the tool ------------------------------------------------------------------------------------------


def is_started(line):
    """What `record -v` says once everything is attached and data flows."""
    return "Recording " in line


class Recorder(Process):
    """A running `clika-bpf-prof record`."""

    def __init__(self, test, *args, output=None, **kw):
        self.test = test
        self.dir = output or os.path.join(test.tmp(), "out")
        argv = [TOOL, "record", "-v", "-o", self.dir, *map(str, args)]
        super().__init__(test, argv, **kw)

    def wait_started(self):
        """Until everything is attached and data flows."""
        try:
            self.err.wait(is_started, "'Recording ...'")
        except AssertionError as e:
            raise AssertionError(f"{' '.join(self.argv)}: {e}") from None
        return self

    def stop(self, seconds=None, expect=0):
        """Ends it as Ctrl-C does; all its files are there afterwards."""
        if self.proc.poll() is None:
            self.signal(signal.SIGINT)
        rc = self.wait(seconds)
        if expect is not None:
            self.test.assertEqual(rc, expect, f"{' '.join(self.argv)} said:\n{self.err.text()}")
        return self.load() if os.path.exists(self.path("recording.clika")) else None

    def path(self, name):
        return os.path.join(self.dir, name)

    def load(self):
        return Result(self)


class Info(ctypes.Structure):
    """struct clika_recording_info of clika/prof.h."""
    _fields_ = [("sz", ctypes.c_size_t), ("incomplete", ctypes.c_bool)] + [
        (n, ctypes.c_uint64) for n in ("segments", "bad_segments", "trailing_bytes", "events", "bytes",
                                       "duration_ns")] + [
        (n, ctypes.c_uint32) for n in ("processes", "threads", "captures")] + [
        (n, ctypes.c_uint64) for n in ("emitted", "recorded", "lost", "filtered", "unknown_at_most")]


class ProfError(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("msg", ctypes.c_char * 512)]


_library = None


def recording_info(path):
    """The counts of a recording, through the public library."""
    global _library
    if _library is None:
        _library = ctypes.CDLL(LIBRARY)
        _library.clika_recording__info.restype = None
        _library.clika_recording__close.restype = None
    handle, err, info = ctypes.c_void_p(), ProfError(), Info(sz=ctypes.sizeof(Info))
    rc = _library.clika_recording__open(os.fsencode(path), None, ctypes.byref(handle), ctypes.byref(err))
    if rc < 0:
        raise AssertionError(f"{path}: {err.msg.decode(errors='replace')}")
    try:
        _library.clika_recording__info(handle, ctypes.byref(info))
    finally:
        _library.clika_recording__close(handle)
    return info


Span = collections.namedtuple("Span", "name cat ts dur pid tid args")


def _ns(us):
    """Nanoseconds of a decimal text of microseconds, exactly."""
    whole, _, part = str(us).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


class Trace:
    """A Chrome trace, times as integer nanoseconds."""

    def __init__(self, path):
        with open(path) as f:
            self.json = json.load(f, parse_float=str, parse_int=int)
        self.events = self.json["traceEvents"]
        self.spans = [Span(e["name"], e.get("cat", ""), _ns(e["ts"]), _ns(e["dur"]), e["pid"], e["tid"],
                           e.get("args", {})) for e in self.events if e["ph"] == "X"]

    def of(self, ph):
        return [e for e in self.events if e["ph"] == ph]

    def names(self, pid=None):
        """How many spans there are of each name."""
        return collections.Counter(s.name for s in self.spans if pid is None or s.pid == pid)

    def pids(self):
        return {s.pid for s in self.spans}

    def metadata(self, name):
        return {(e["pid"], e.get("tid")): e["args"] for e in self.of("M") if e["name"] == name}


class Result:
    """What a recorder left in its folder."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.dir = recorder.dir
        self.check_reports()

    def check_reports(self):
        """Each JSON report that a test makes fits its schema (very large ones are left to the test itself)."""
        import schemas
        for path in map(self.path, schemas.FILES):
            if os.path.exists(path) and os.path.getsize(path) < 1 << 20:
                schemas.check(path)

    def path(self, name):
        return os.path.join(self.dir, name)

    @property
    def recording(self):
        return self.path("recording.clika")

    def info(self):
        return recording_info(self.recording)

    def trace(self):
        if not os.path.exists(self.path("chrome_trace.json")):
            export(self.recording, "chrome", self.path("chrome_trace.json"))
        return Trace(self.path("chrome_trace.json"))

    def summary(self):
        with open(self.path("summary.txt")) as f:
            return f.read()


def tool(*args, check=True, timeout=None, **kw):
    """Runs a verb to its end."""
    done = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, errors="replace",
                          timeout=timeout or PATIENCE, **kw)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, args))} ended with {done.returncode}:\n{done.stderr}")
    return done


def export(recording, fmt, path, *args, check=True, timeout=None):
    return tool("export", recording, "--format", fmt, "-o", path, *args, check=check, timeout=timeout)


# ---- test cases ------------------------------------------------------------------------------------------


def compiler(cxx=False):
    for name in ([os.environ.get("CXX"), "g++", "clang++"] if cxx else
                 [os.environ.get("CC"), "gcc", "clang"]):
        if name and shutil.which(name):
            return name
    return None


class Case(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.path.exists(TOOL):
            raise AssertionError(f"{TOOL} is not built")

    def tmp(self):
        """One folder a test, removed afterwards; every user may enter it."""
        if not hasattr(self, "_tmp"):
            self._tmp = tempfile.mkdtemp(prefix="clika-e2e-")
            os.chmod(self._tmp, 0o755)
            self.addCleanup(shutil.rmtree, self._tmp, True)
        return self._tmp

    def target(self, name, *args, **kw):
        return Target(self, name, *args, **kw)

    def record(self, *args, started=True, **kw):
        recorder = Recorder(self, *args, **kw)
        return recorder.wait_started() if started else recorder

    def compile(self, source, name, *flags, libs=(), cc=None):
        """A variant of a fixture in the test's own folder."""
        cxx = source.endswith(".cpp")
        cc = cc or compiler(cxx)
        out = os.path.join(self.tmp(), name)
        subprocess.run([cc, "-std=gnu++17" if cxx else "-std=gnu11", "-O2", "-g", "-pthread",
                        "-I" + ROOT, "-I" + os.path.join(ROOT, "include"), *flags, "-o", out,
                        os.path.join(ROOT, "tests", "fixtures", source), "-ldl", "-lm", *libs], check=True)
        return out

    def assertNothingLost(self, info):
        self.assertEqual((info.lost, info.unknown_at_most), (0, 0))
        self.assertEqual(info.emitted, info.recorded + info.lost)

    def assertSpans(self, trace, expected, pid=None):
        """Exactly these spans, by name."""
        self.assertEqual(dict(trace.names(pid)), {k: v for k, v in expected.items() if v})

    def assertNests(self, spans):
        """Spans of one thread: each pair disjoint or one inside the other."""
        stack = []
        for s in sorted(spans, key=lambda s: (s.ts, -s.dur)):
            while stack and stack[-1].ts + stack[-1].dur <= s.ts:
                stack.pop()
            if stack:
                self.assertLessEqual(s.ts + s.dur, stack[-1].ts + stack[-1].dur,
                                     f"{s} sticks out of {stack[-1]}")
            stack.append(s)


def needs_root(cls):
    return unittest.skipUnless(os.geteuid() == 0, "needs root: recording loads BPF programs")(cls)


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def status_kib(pid, key):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(rf"^{key}:\s+(\d+) kB", f.read(), re.M).group(1))


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def as_owner():
    """Arguments for subprocess: what is made below build/ belongs to whoever owns it, also under sudo."""
    st = os.stat(BUILD)
    if os.geteuid() != 0 or st.st_uid == 0:
        return {}
    return {"user": st.st_uid, "group": st.st_gid, "extra_groups": []}
