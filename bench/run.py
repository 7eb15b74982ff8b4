#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures clika-bpf-prof beside the other tracers that are installed, and says which goals are met.

Run by `make bench`, as root. Costs in a target are medians over rounds, and in each round everything is
measured once, one after the other, so that a slow minute hits all alike; ratios are taken round by round. Peers
that are missing are named in the table. The goals go to build/bench.json.
"""
import functools
import json
import os
import pwd
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import lib  # noqa: E402  (waiting for conditions, reading notes and recordings)
import recipes  # noqa: E402

OUT = os.path.join(lib.BUILD, "bench")
ROUNDS = int(os.environ.get("CLIKA_BENCH_ROUNDS", "5"))
EXPORT_ROUNDS = int(os.environ.get("CLIKA_BENCH_EXPORT_ROUNDS", "3"))
BURSTS = 9
EXPORTS = ("chrome", "perfetto")  # measured beside the peers' exports
REPORTS = ("report", "memory", "summary")
OTHER_EXPORTS = (*REPORTS, "pprof", "folded", "flamegraph", "speedscope", "firefox", "kineto", "csv", "otlp", "html")
LOAD_SECONDS = 10
LOAD_RATE = 2_000_000

# name: (unit, limit, "at most" or "at least", what)
GOALS = {
    "marker.disabled_ns": ("ns", 1.0, "<=", "disabled marker over the empty loop"),
    "span.batched_over_clock": ("ratio", 1.4, "<=", "batched span : two clock readings"),
    "span.batched_over_lttng": ("ratio", 0.25, "<=", "batched span : LTTng-UST begin and end"),
    "span.batched_over_uftrace": ("ratio", 0.5, "<=", "batched span : uftrace call"),
    "span.batched_over_perf": ("ratio", 0.05, "<=", "batched span : perf record, two events"),
    "marker.simple_over_bpftrace_count": ("ratio", 1.15, "<=", "simple marker : bpftrace count()"),
    "load.2m_lost": ("records", 0, "<=", "lost at 2 million spans/s, 10 s, one thread"),
    "load.2m_loader_cores": ("cores", 0.5, "<=", "loader's share of a core meanwhile"),
    "overload.unaccounted": ("spans", 0, "==", "64 KiB ring, 4 threads flat out: emitted - recorded - lost"),
    "export.chrome_speedup": ("ratio", 5.0, ">=", "fastest peer's time a span : ours"),
    "export.chrome_rss_growth": ("ratio", 1.1, "<=", "resident memory, 10 : 1 million spans"),
    "export.chrome_s_per_million": ("s", 1.5, "<=", "one million spans to a Chrome trace"),
    "export.perfetto_speedup": ("ratio", 5.0, ">=", "fastest peer's time a span : ours"),
    "export.perfetto_rss_growth": ("ratio", 1.1, "<=", "resident memory, 10 : 1 million spans"),
    "export.perfetto_s_per_million": ("s", 1.0, "<=", "one million spans to a Perfetto trace"),
    **{f"export.{fmt}_rss_growth": ("ratio", 1.1, "<=", "resident memory, 10 : 1 million spans")
       for fmt in OTHER_EXPORTS},
    **{f"export.{fmt}_s_per_million": ("s", 3.0, "<=", "one million spans") for fmt in OTHER_EXPORTS},
    "export.reports_s_per_million": ("s", 1.0, "<=", "report, memory and summary of one million spans, one pass"),
    "export.standard_over_slowest": ("ratio", 1.5, "<=", "standard set and Perfetto, one pass : its slowest member"),
    "perfetto.bytes_per_span": ("bytes", 32, "<=", "Perfetto trace, spans without arguments"),
    "perfetto.bytes_per_span_compressed": ("bytes", 10, "<=", "the same with packed packets"),
    "recording.bytes_per_span": ("bytes", 24, "<=", "recording file, spans without arguments"),
    "python.span_off_over_empty": ("ratio", 3.0, "<=", "Python span(), nobody records : empty context manager"),
    "python.span_on_over_empty": ("ratio", 10.0, "<=", "Python span(), recorded : empty context manager"),
    "python.span_over_record_function": ("ratio", 0.333, "<=", "Python span() : torch.profiler.record_function"),
    "python.span_over_otel": ("ratio", 0.1, "<=", "Python span() : OpenTelemetry's"),
    "python.start_capture_ms": ("ms", 50, "<=", "start_capture(), attached"),
    "python.first_capture_ms": ("ms", 500, "<=", "start_capture(), the first time: attaches"),
    "python.snapshot_100k_ms": ("ms", 150, "<=", "100,000 spans to Perfetto bytes, recording goes on"),
    **recipes.GOALS,
}


class Bench:
    """Cleanups and scratch space; stands in for a test case where helpers want one."""

    def __init__(self):
        self.cleanups = []
        self.values = {}
        self.rows = []
        self.missing = {}
        self.scratch = tempfile.mkdtemp(prefix="clika-bench-")
        os.chmod(self.scratch, 0o755)

    def addCleanup(self, fn, *args):
        self.cleanups.append((fn, args))

    def tmp(self):
        return self.scratch

    def assertEqual(self, a, b, why=""):
        if a != b:
            raise AssertionError(f"{a} != {b}: {why}")

    def close(self):
        while self.cleanups:
            fn, args = self.cleanups.pop()
            fn(*args)
        shutil.rmtree(self.scratch, True)

    def row(self, what, value, unit, note=""):
        self.rows.append((what, value, unit, note))

    def absent(self, peer, why="not installed"):
        self.missing.setdefault(peer, why)

    def has(self, *commands):
        for c in commands:
            if not shutil.which(c):
                self.absent(commands[0])
                return False
        return True


def say(text):
    print(text, file=sys.stderr, flush=True)


def quiet(argv, **kw):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
    if done.returncode:
        raise AssertionError(f"{' '.join(argv)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


# ---- building -------------------------------------------------------------------------------------------


def compile_program(source, name, *flags, libs=()):
    out = os.path.join(OUT, name)
    quiet([lib.compiler(), "-std=gnu11", "-O2", "-g", "-pthread", "-Ibench", "-I.", "-Iinclude", *flags,
           "-o", out, os.path.join("bench", source), *libs], cwd=ROOT, **lib.as_owner())
    return out


@functools.lru_cache(None)
def compile_once(source, name):
    return compile_program(source, name)


def has_lttng_headers():
    probe = subprocess.run([lib.compiler(), "-E", "-x", "c", "-"], input="#include <lttng/tracepoint.h>\n",
                           capture_output=True, text=True)
    return probe.returncode == 0


def has_tracefs():
    """Mounted where perf and bpftrace look for it; by us, and left so, when nobody has."""
    if os.path.exists(Perf.EVENTS):
        return True
    folder = os.path.dirname(Perf.EVENTS)
    done = subprocess.run(["mount", "-t", "tracefs", "tracefs", folder], capture_output=True, text=True)
    if done.returncode == 0 and os.path.exists(Perf.EVENTS):
        say(f"bench: mounted tracefs at {folder} for perf and bpftrace")
        return True
    say(f"bench: {done.stderr.strip() or folder + ' has no uprobe_events'}: perf and bpftrace are left out")
    return False


# ---- targets ---------------------------------------------------------------------------------------------


class Spans(lib.Process):
    """A measured program that obeys "run KIND N"."""

    def __init__(self, bench, path, **kw):
        super().__init__(bench, [path], ready="ready ", **kw)
        self.path = path

    def run(self, kind, n):
        self.send(f"run {kind} {n}")
        return float(self.expect(lambda l: l[:1].isdigit(), "a time", 120))

    def bursts(self, kind, n):
        """Median over short runs with rests between them: what an operation costs where it is made,
        not what a reader costs that works on the same core at the same time."""
        values = []
        for _ in range(BURSTS):
            values.append(self.run(kind, n))
            time.sleep(0.02)
        return median(values)

    def paired_bursts(self, kind, other, n):
        """(cost, cost of @other): in turns, so that what slows one slows the other."""
        values = []
        for _ in range(BURSTS):
            values.append((self.run(kind, n), self.run(other, n)))
            time.sleep(0.02)
        return median(v for v, _ in values), median(o for _, o in values)

    def wait_hit(self, kind):
        """Until each operation really hits its probes: semaphores are set before all of them are in."""
        hits = 0
        deadline = time.monotonic() + 60
        while hits < 3:
            hits = hits + 1 if self.run(kind, 1000) > 250 else 0
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.path}: no probe is hit by a {kind}")

    def wanted(self):
        return any(lib.semaphores(self.pid, self.path))

    def quit(self):
        self.send("quit")
        self.wait()


def stop(process, sig=signal.SIGINT):
    """Ends a tracer as its user would."""
    if process.proc.poll() is None:
        process.signal(sig)
    return process.wait(120)


# ---- tracers: each measures one operation in one round ------------------------------------------------------


class Ours:
    def __init__(self, bench):
        self.bench = bench
        self.n = 0

    def record(self, target, *args):
        self.n += 1
        out = os.path.join(self.bench.scratch, f"ours-{self.n}")
        recorder = lib.Recorder(self.bench, "-p", target.pid, "--no-export", *args, output=out)
        recorder.wait_started()
        lib.wait_for(target.wanted, "a semaphore set by our recorder")
        return recorder

    def measure(self, target, measuring):
        recorder = self.record(target)
        ns = measuring()
        result = recorder.stop(120)
        lib.wait_for(lambda: not target.wanted(), "semaphores back to zero")
        lost = result.info().lost
        if lost:
            # What is dropped would look cheap.
            raise AssertionError(f"{lost} records were lost while a cost was measured")
        shutil.rmtree(result.dir, True)
        return ns


class Bpftrace:
    def __init__(self, bench):
        self.bench = bench

    def measure(self, target, action, measuring):
        """@action with a map of its own for each marker, as its users write it."""
        markers = sorted({(p, m) for p, m, _, _, _ in lib.Elf(target.path).usdts()})
        program = " ".join(f"usdt:{target.path}:{p}:{m} {{ {action.format(m)} }}" for p, m in markers)
        tracer = lib.Process(self.bench, ["bpftrace", "-p", str(target.pid), "-e", program])
        target.wait_hit("span")
        ns = measuring()
        stop(tracer)
        lib.wait_for(lambda: not target.wanted(), "semaphores back to zero")
        return ns


class Perf:
    """perf record on the same sites, as uprobe events that know the markers' semaphores."""
    EVENTS = "/sys/kernel/tracing/uprobe_events"

    def __init__(self, bench, path):
        self.bench = bench
        self.data = os.path.join(bench.scratch, "perf.data")
        elf = lib.Elf(path)
        self.names = []
        for i, (_, marker, pc, sem, _) in enumerate(elf.usdts()):
            name = f"clika_bench/{marker}_{i}"
            self.tell(f"p:{name} {path}:{elf.offset(pc):#x}({elf.offset(sem):#x})")
            self.names.append(name.replace("/", ":"))
            bench.addCleanup(self.remove, name)

    def tell(self, line):
        fd = os.open(self.EVENTS, os.O_WRONLY | os.O_APPEND)  # not seekable: open() would try
        try:
            os.write(fd, line.encode() + b"\n")
        finally:
            os.close(fd)

    def remove(self, name):
        try:
            self.tell(f"-:{name}")
        except OSError as e:
            say(f"bench: could not remove uprobe event {name}: {e}")

    def measure(self, target, measuring):
        events = [a for name in self.names for a in ("-e", name)]
        tracer = lib.Process(self.bench, ["perf", "record", "-q", "-m", "16M", "-o", self.data, *events,
                                          "-p", str(target.pid)])
        target.wait_hit("span")
        ns = measuring()
        stop(tracer)
        lib.wait_for(lambda: not target.wanted(), "semaphores back to zero")
        return ns


class Lttng:
    """A session daemon of its own in a private folder, run as a user without rights."""

    def __init__(self, bench, program):
        self.bench = bench
        user = pwd.getpwnam("nobody")
        self.home = os.path.join(bench.scratch, "lttng")
        os.mkdir(self.home)
        os.chown(self.home, user.pw_uid, user.pw_gid)
        self.kw = {"env": dict(os.environ, LTTNG_HOME=self.home, HOME=self.home,
                               LTTNG_UST_REGISTER_TIMEOUT="10000"),
                   "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.trace = os.path.join(self.home, "trace")
        program = shutil.copy(program, self.home)
        self.daemon = lib.Process(bench, ["lttng-sessiond", "--no-kernel"], **self.kw)
        lib.wait_for(lambda: subprocess.run(["lttng", "list"], stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL, **self.kw).returncode == 0,
                     "LTTng's session daemon", 30, 0.1)
        bench.addCleanup(self.close)
        self.command("create", "bench", "--output=" + self.trace)
        # Large enough for a round: what is discarded would look cheap.
        self.command("enable-channel", "-u", "all", "--subbuf-size=8M", "--num-subbuf=8")
        self.command("enable-event", "-u", "-c", "all", "clika_bench:*")
        self.target = Spans(bench, program, **self.kw)

    def command(self, *args):
        return quiet(["lttng", *args], **self.kw)

    def measure(self, n):
        self.command("start")
        ns = self.target.bursts("lttng", n)
        self.command("stop")
        return ns

    def finish(self):
        """Completes the trace files."""
        self.target.quit()
        self.command("destroy", "bench")

    def close(self):
        if self.daemon.proc.poll() is None:
            self.daemon.signal(signal.SIGTERM)
            self.daemon.wait(30)


class Uftrace:
    def __init__(self, bench, program):
        self.bench = bench
        self.program = program
        self.data = os.path.join(bench.scratch, "uftrace.data")

    def measure(self, n):
        done = subprocess.run(["uftrace", "record", "--no-libcall", "-d", self.data, self.program, str(n)],
                              capture_output=True, text=True, check=True)
        return float(done.stderr.split()[-1])


# ---- what a marker costs its target ---------------------------------------------------------------------------


def median(values):
    return statistics.median(values) if values else None


def costs(bench, state):
    batched = state["batched"] = Spans(bench, compile_program("spans.c", "spans_batched"))
    simple = state["simple"] = Spans(bench, compile_program("spans.c", "spans_simple",
                                                            "-DCLIKA_TRANSPORT_SIMPLE"))
    ours = state["ours"] = Ours(bench)
    clock = []

    def batched_span():
        span, two = ours.measure(batched, lambda: batched.paired_bursts("span", "clock", 40_000))
        clock.append(two)
        return span

    steps = {
        "empty loop": lambda: batched.bursts("empty", 400_000),
        "disabled instant": lambda: batched.bursts("instant", 400_000),
        "disabled span": lambda: batched.bursts("span", 400_000),
        "batched span, recorded": batched_span,
        "simple span, recorded": lambda: ours.measure(simple, lambda: simple.bursts("span", 20_000)),
    }
    tracefs = has_tracefs()
    if not tracefs:
        for peer in ("bpftrace", "perf"):
            bench.absent(peer, "left out: tracefs cannot be mounted")
    if tracefs and bench.has("bpftrace"):
        bpftrace = Bpftrace(bench)
        steps["bpftrace count(), two markers"] = lambda: bpftrace.measure(
            simple, "@{} = count();", lambda: simple.bursts("span", 20_000))
    if tracefs and bench.has("perf"):
        perf = state["perf"] = Perf(bench, simple.path)
        steps["perf record, two events"] = lambda: perf.measure(simple, lambda: simple.bursts("span", 20_000))
    if bench.has("lttng", "lttng-sessiond") and (has_lttng_headers() or bench.absent("lttng-ust headers")):
        lttng = state["lttng"] = Lttng(bench, compile_program("lttng_spans.c", "lttng_spans",
                                                              libs=("-llttng-ust", "-ldl")))
        steps["LTTng-UST, two events"] = lambda: lttng.measure(20_000)
    if bench.has("uftrace"):
        uftrace = state["uftrace"] = Uftrace(bench, compile_program("uftrace_calls.c", "uftrace_calls",
                                                                    "-pg"))
        steps["uftrace, a call"] = lambda: uftrace.measure(200_000)

    found = {name: [] for name in steps}
    for i in range(ROUNDS):
        say(f"bench: costs in the target, round {i + 1} of {ROUNDS}")
        for name, step in steps.items():
            found[name].append(step())
    found["two clock readings"] = clock
    printing = None
    if "bpftrace count(), two markers" in steps:
        # Once: it takes long and its order of magnitude is what matters.
        printing = bpftrace.measure(simple, 'printf("{}\\n");', lambda: simple.run("span", 20_000))

    for name, values in found.items():
        bench.row(name, median(values), "ns", f"{min(values):.1f} to {max(values):.1f}")
    if printing:
        bench.row("bpftrace printf(), two markers", printing, "ns", "one round")

    def ratio(a, b):
        if b in found:
            return median(x / y for x, y in zip(found[a], found[b]))
        return None

    span = "batched span, recorded"
    empty = found["empty loop"]
    bench.values.update({
        # A span is two markers; whichever kind of marker costs more counts.
        "marker.disabled_ns": max(0.0, median(
            max(one - e, (two - e) / 2)
            for one, two, e in zip(found["disabled instant"], found["disabled span"], empty))),
        "span.batched_over_clock": ratio(span, "two clock readings"),
        "span.batched_over_lttng": ratio(span, "LTTng-UST, two events"),
        "span.batched_over_uftrace": ratio(span, "uftrace, a call"),
        "span.batched_over_perf": ratio(span, "perf record, two events"),
        "marker.simple_over_bpftrace_count": ratio("simple span, recorded",
                                                   "bpftrace count(), two markers"),
    })


# ---- load ---------------------------------------------------------------------------------------------------


def pace(target, threads, rate, total):
    """Spans at a rate (0: flat out); how many there were."""
    target.send(f"pace {threads} {rate} {total}")
    return int(target.expect(lambda l: l[:1].isdigit(), "a number of spans", 120))


def load(bench, state):
    say(f"bench: {LOAD_RATE} spans a second for {LOAD_SECONDS} s")
    target = state["batched"]
    recorder = state["ours"].record(target)
    cpu, t0 = lib.cpu_seconds(recorder.pid), time.monotonic()
    spans = pace(target, 1, LOAD_RATE, LOAD_RATE * LOAD_SECONDS)
    cpu, seconds = lib.cpu_seconds(recorder.pid) - cpu, time.monotonic() - t0
    result = recorder.stop(120)
    info = result.info()
    bench.row("reached rate", spans / seconds / 1e6, "M spans/s", f"{seconds:.1f} s")
    if spans / seconds < 0.9 * LOAD_RATE:
        bench.row("warning: this machine could not emit that many", spans / seconds, "spans/s")
    bench.values["load.2m_lost"] = info.lost + info.unknown_at_most
    bench.values["load.2m_loader_cores"] = cpu / seconds
    bench.values["recording.bytes_per_span"] = info.bytes / spans
    shutil.rmtree(result.dir, True)


def overload(bench, state):
    say("bench: overload")
    target = state["batched"]
    recorder = state["ours"].record(target, "--ring-size", "64K")
    emitted = pace(target, 4, 0, 8_000_000)
    result = recorder.stop(120)
    info = result.info()
    recorded = spans_in(result.recording, bench)
    bench.row("overload: emitted", emitted, "spans")
    bench.row("overload: recorded", recorded, "spans")
    bench.row("overload: lost", info.lost, "records")
    bench.values["overload.unaccounted"] = emitted - recorded - info.lost
    if info.unknown_at_most:
        bench.row("overload: unknown, at most", info.unknown_at_most, "records")
    shutil.rmtree(result.dir, True)


def spans_in(recording, bench):
    """Number of spans that an export of the recording shows."""
    path = os.path.join(bench.scratch, "count.json")
    timed_export(recording, path)
    n = 0
    with open(path, "rb") as f:
        for line in f:
            n += line.count(b'"ph":"X"')
    os.unlink(path)
    return n


# ---- exports --------------------------------------------------------------------------------------------------


def timed(argv, out):
    """(processor seconds, peak resident KiB) of a command whose output goes to a file. All that are
    compared here work on one thread; what a busy machine does meanwhile is not theirs."""
    report = os.path.join(tempfile.gettempdir(), f"clika-bench-{os.getpid()}.peak")
    with open(out, "wb") as f:
        code = subprocess.run([compile_once("peak.c", "peak"), report, *argv], stdin=subprocess.DEVNULL, stdout=f,
                              stderr=subprocess.DEVNULL).returncode
    if code:
        raise AssertionError(f"{' '.join(argv)} ended with {code}")
    with open(report) as f:
        seconds, peak = f.read().split()
    os.unlink(report)
    return float(seconds), int(peak)


def timed_export(recording, path, fmt="chrome", *options):
    if os.path.exists(path):
        os.unlink(path)
    return timed([lib.TOOL, "export", recording, "--format", fmt, "-o", path, *options], os.devnull)


def count_lines(path, needle):
    with open(path, "rb") as f:
        return sum(needle in line for line in f)


def recording_of(bench, state, spans):
    recorder = state["ours"].record(state["batched"])
    made = pace(state["batched"], 1, LOAD_RATE, spans)
    result = recorder.stop(120)
    info = result.info()
    if info.lost:
        raise AssertionError(f"{info.lost} records lost while making a recording of {spans} spans")
    return result, made


def exports(bench, state):
    say("bench: exports")
    small, n_small = recording_of(bench, state, 1_000_000)
    large, n_large = recording_of(bench, state, 10_000_000)
    scratch = bench.scratch
    text = os.path.join(scratch, "peer.out")
    ours = {fmt: os.path.join(scratch, f"ours.{fmt}") for fmt in EXPORTS}
    peers = {}
    if "perf" in state:
        state["perf"].measure(state["simple"], lambda: state["simple"].run("span", 500_000))
        peers["perf script"] = (["perf", "script", "-i", state["perf"].data], b"clika_bench:")
    if "uftrace" in state:
        state["uftrace"].measure(1_000_000)
        peers["uftrace dump --chrome"] = (["uftrace", "dump", "--chrome", "-d", state["uftrace"].data],
                                          b'"name":"traced_call"')
    if "lttng" in state:
        state["lttng"].finish()
        if bench.has("babeltrace2"):
            peers["babeltrace2"] = (["babeltrace2", state["lttng"].trace], b"clika_bench:")
    found = {name: [] for name in (*EXPORTS, *peers)}
    peak = {fmt: [] for fmt in EXPORTS}
    for i in range(EXPORT_ROUNDS):
        for fmt, path in ours.items():
            seconds, rss = timed_export(small.recording, path, fmt)
            found[fmt].append(seconds / n_small)
            peak[fmt].append(rss)
        for name, (argv, needle) in peers.items():
            seconds, _ = timed(argv, text)
            # Peers tell a span as two events.
            found[name].append(seconds / (count_lines(text, needle) / 2))
            os.unlink(text)
    sizes(bench, small.recording, n_small, ours["perfetto"])
    for fmt, path in ours.items():
        seconds, rss = timed_export(large.recording, path, fmt)
        os.unlink(path)
        bench.row(f"export --format {fmt}, 10 million spans", seconds / n_large * 1e9, "ns a span",
                  f"{seconds:.1f} s, {rss / 1024:.0f} MiB resident")
        bench.row(f"export --format {fmt}, 1 million spans", median(found[fmt]) * 1e9, "ns a span",
                  f"{median(found[fmt]) * n_small:.2f} s, {median(peak[fmt]) / 1024:.0f} MiB resident")
        bench.values[f"export.{fmt}_rss_growth"] = rss / median(peak[fmt])
        bench.values[f"export.{fmt}_s_per_million"] = median(found[fmt]) * 1e6
        if peers:
            bench.values[f"export.{fmt}_speedup"] = median(
                min(found[name][i] for name in peers) / found[fmt][i] for i in range(EXPORT_ROUNDS))
    for name in peers:
        bench.row(name, median(found[name]) * 1e9, "ns a span")
    other_exports(bench, small.recording, n_small, large.recording, n_large)
    one_pass(bench)


def other_exports(bench, small, n_small, large, n_large):
    """Formats without a peer: their time, and that memory does not grow with spans."""
    for fmt in OTHER_EXPORTS:
        path = os.path.join(bench.scratch, f"ours.{fmt}")
        found = [timed_export(small, path, fmt) for _ in range(EXPORT_ROUNDS)]
        seconds, rss = timed_export(large, path, fmt)
        os.unlink(path)
        per_span, peak = median(f[0] for f in found) / n_small, median(f[1] for f in found)
        bench.row(f"export --format {fmt}, 1 million spans", per_span * 1e9, "ns a span",
                  f"{peak / 1024:.0f} MiB resident; 10 million: {seconds:.1f} s, {rss / 1024:.0f} MiB")
        bench.values[f"export.{fmt}_rss_growth"] = rss / peak
        bench.values[f"export.{fmt}_s_per_million"] = per_span * 1e6


def one_pass(bench):
    """Several formats at once against each alone, of a server with arguments, memory, requests and flows."""
    source, folder = os.path.join(bench.scratch, "server.clika"), os.path.join(bench.scratch, "one-pass")
    spans = 1_000_000
    quiet([compile_program("export_input.c", "export_input", "-D_GNU_SOURCE=",
                           libs=[os.path.join(lib.BUILD, "libclika-prof.a"), "-lz", "-lm"]), source, str(spans)])
    members = ("chrome", *REPORTS, "perfetto")
    together, reports = ",".join(members), ",".join(REPORTS)
    found = {formats: [] for formats in (*members, reports, together)}
    for _ in range(EXPORT_ROUNDS):
        for formats, seconds in found.items():
            shutil.rmtree(folder, True)
            seconds.append(timed([lib.TOOL, "export", source, "--format", formats, "-o", folder + "/"], os.devnull)[0])
    shutil.rmtree(folder, True)
    os.unlink(source)
    for formats, seconds in found.items():
        bench.row(f"a server's million spans to {formats}", median(seconds) / spans * 1e9, "ns a span")
    bench.values["export.reports_s_per_million"] = median(found[reports]) / spans * 1e6
    bench.values["export.standard_over_slowest"] = median(
        found[together][i] / max(found[m][i] for m in members) for i in range(EXPORT_ROUNDS))


def sizes(bench, recording, spans, trace):
    bench.values["perfetto.bytes_per_span"] = os.path.getsize(trace) / spans
    timed_export(recording, trace, "perfetto", "--compress-packets")
    bench.values["perfetto.bytes_per_span_compressed"] = os.path.getsize(trace) / spans


# ---- the table ---------------------------------------------------------------------------------------------------


def met(name, value):
    _, limit, how, _ = GOALS[name]
    return {"<=": value <= limit, ">=": value >= limit, "==": value == limit}[how]


def number(v):
    if v is None:
        return "-"
    return f"{v:,.0f}" if float(v).is_integer() and abs(v) >= 100 else f"{v:,.3f}"


def python(bench, state):
    say("Python")
    interpreter = quiet([os.path.join(lib.ROOT, "tools", "python-env.sh"), "--bench"], **lib.as_owner()).strip()
    env = {**os.environ, "CLIKA_PROF_LOADER": lib.TOOL, "CLIKA_PROF_SOCKET": "/nonexistent",
           "CLIKA_BENCH_ROUNDS": str(ROUNDS)}
    told = json.loads(quiet([interpreter, os.path.join("bench", "python_spans.py")], cwd=ROOT, env=env))
    bench.values.update(told["values"])
    for row in told["rows"]:
        bench.row(*row)
    for peer in told["missing"]:
        bench.absent(peer)


def function_probes(bench, state):
    recipes.measure(bench, compile_program, say)


def report(bench):
    print(f"\n{'measured':<52}{'median':>14}  {'unit':<10} range")
    for what, value, unit, note in bench.rows:
        print(f"{what:<52}{number(value):>14}  {unit:<10} {note}")
    for peer, why in bench.missing.items():
        print(f"{peer:<52}{'-':>14}  {why}")
    print(f"\n{'goal':<36}{'value':>12}  {'target':>10}  {'':<8} what")
    out = {}
    for name, (unit, limit, how, what) in GOALS.items():
        value = bench.values.get(name)
        good = value is not None and met(name, value)
        state = "met" if good else "not measured" if value is None else "MISSED"
        print(f"{name:<36}{number(value):>12}  {how + ' ' + str(limit):>10}  {state:<8} {what}")
        out[name] = {"value": value, "unit": unit, "target": f"{how} {limit}", "met": good}
    path = os.path.join(lib.BUILD, "bench.json")
    with open(path + ".tmp", "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")
    st = os.stat(lib.BUILD)
    os.chown(path + ".tmp", st.st_uid, st.st_gid)
    os.rename(path + ".tmp", path)
    return all(v["met"] for v in out.values())


def main():
    if os.geteuid() != 0:
        say("bench: recording needs root; run it with sudo")
        return 3
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    if not os.path.isdir(OUT):
        os.mkdir(OUT)
        st = os.stat(lib.BUILD)
        os.chown(OUT, st.st_uid, st.st_gid)
    steps = {"costs": costs, "load": load, "overload": overload, "exports": exports,
             "python": python, "recipes": function_probes}
    only = sys.argv[1:] or list(steps)
    bench, state = Bench(), {}
    try:
        for name, step in steps.items():
            if name in only or (name == "costs" and only != ["recipes"]):
                step(bench, state)
        all_met = report(bench)
    finally:
        bench.close()
    # Goals are a matter of the machine too: missing one is told, not an error.
    say("" if all_met else "bench: not every goal is met on this machine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
