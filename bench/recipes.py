# SPDX-License-Identifier: Apache-2.0
"""What function probes cost, and a real PyTorch server under its recipe. A part of run.py."""
import http.client
import json
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import time

import lib

GOALS = {
    "recipes.attach_3110_s": ("s", 0.3, "<=", "3,110 functions of a running PyTorch server: probes on"),
    "recipes.detach_3110_s": ("s", 0.3, "<=", "the same: off"),
    "recipes.minilm_throughput_kept": ("share", 0.85, ">=", "MiniLM server, batches of eight, every operator probed"),
    "recipes.minilm_throughput_kept_budget": ("share", 0.95, ">=", "MiniLM server, batches of eight, default budget"),
    "recipes.hit_over_empty": ("ratio", 1.3, "<=", "a call's two hits : the same two with an empty program"),
    "recipes.loader_cores_at_50k": ("cores", 0.25, "<=", "loader's share of a core at 50,000 events/s"),
}
ROUNDS = int(os.environ.get("CLIKA_BENCH_ROUNDS", "5"))
SECONDS = 1.5      # of one measurement of the server: many short ones, as machines' speed drifts
SETTLE = 2.5       # until the budget has looked twice
CALLS = 20_000
# A batch as servers make them, and the shortest requests there are: a thousand operators in some 13 ms, which is
# nothing but calls.
SENTENCE = "The quick brown fox jumps over the lazy dog while the profiler watches every operator of the model, number {}."
TEXTS = [SENTENCE.format(i) for i in range(8)]
SHORT = ["A sentence of the length that people type.", "profilers tell where the time goes"]
SERVER = os.path.join(lib.ROOT, "tests", "runtimes", "minilm_server.py")


def median(values):
    return statistics.median(values)


class Recording:
    """record on a process, with what it says of attaching and detaching."""

    def __init__(self, bench, pid, *args):
        self.out = os.path.join(bench.scratch, f"recipes-{time.monotonic_ns()}")
        self.process = lib.Process(bench, [lib.TOOL, "record", "-v", "--no-export", "-p", str(pid), "-o", self.out,
                                           *args])
        self.process.err.wait(lambda l: l.startswith("Recording "), "the recording's begin", 120)

    def stop(self):
        self.process.signal(signal.SIGINT)
        if self.process.wait(120):
            raise AssertionError(self.process.err.text())
        shutil.rmtree(self.out, True)
        return self.process.err.text()


# ---- what a hit costs ------------------------------------------------------------------------------------------


class Calls(lib.Process):
    def __init__(self, bench, path):
        super().__init__(bench, [path], ready="ready ")

    def ask(self, line, seconds=120):
        self.send(line)
        return float(self.expect(lambda l: re.match(r"-?\d", l), "a number", seconds))

    def costs(self):
        """ns a call that ends at its return instruction, and one that ends at the jump before it."""
        return [median(self.ask(f"{kind} {CALLS // 10}") for _ in range(9)) for kind in ("run", "jump")]


def hits(bench, compile_program):
    target = Calls(bench, compile_program("call_cost.c", "call_cost", libs=["-lbpf"]))
    ours = ("--no-auto", "--budget", "off", "--probe", "*call_cost:work", "--probe", "*call_cost:work_jump")
    found = {"plain": [], "empty": [], "ours": []}
    for _ in range(2 * ROUNDS):
        found["plain"].append(target.costs())
        if target.ask("empty on"):
            raise AssertionError("the empty program was refused")
        found["empty"].append(target.costs())
        target.ask("empty off")
        recording = Recording(bench, target.pid, *ours)
        found["ours"].append(target.costs())
        recording.stop()
    ratios = []
    for i, end in enumerate(("its return", "a jump")):
        bench.row(f"a call to {end}, an empty program at both ends", median(c[i] for c in found["empty"]), "ns")
        bench.row(f"a call to {end}, recorded", median(c[i] for c in found["ours"]), "ns")
        ratios.append(median((o[i] - p[i]) / (e[i] - p[i])
                             for p, e, o in zip(found["plain"], found["empty"], found["ours"])))
    bench.values["recipes.hit_over_empty"] = max(ratios)
    recording = Recording(bench, target.pid, *ours)
    cpu, t0 = lib.cpu_seconds(recording.process.pid), time.monotonic()
    calls = target.ask("pace 25000 5")
    cpu, seconds = lib.cpu_seconds(recording.process.pid) - cpu, time.monotonic() - t0
    recording.stop()
    rate = 2 * calls / seconds
    bench.row("events", rate, "1/s")
    bench.values["recipes.loader_cores_at_50k"] = cpu / seconds * 50_000 / rate


# ---- a PyTorch server -------------------------------------------------------------------------------------------


def interpreter():
    """A Python with PyTorch and the sentence model: what `make check-runtimes` installs."""
    for path in (os.environ.get("CLIKA_RUNTIMES_PYTHON"),
                 os.path.join(os.environ.get("CLIKA_RUNTIMES_DIR", os.path.join(lib.BUILD, "python", "runtimes")),
                              "env", "bin", "python")):
        if path and os.path.exists(path):
            return path
    return None


class Server(lib.Process):
    def __init__(self, bench, python):
        super().__init__(bench, [python, SERVER])
        line = self.expect(lambda l: l.startswith("ready "), "the server's port", 300)
        self.client = http.client.HTTPConnection("127.0.0.1", int(line.split()[2]), timeout=120)

    def post(self, path, body):
        self.client.request("POST", path, json.dumps(body))
        return json.loads(self.client.getresponse().read())

    def rate(self, texts=TEXTS):
        """Requests a second of the server's own work."""
        ns, end = [], time.monotonic() + SECONDS
        while time.monotonic() < end:
            ns.append(self.post("/embed", {"texts": texts})["ns"])
        return 1e9 / median(ns)


def line_of(text, what):
    """Seconds and number of functions of the line "... N functions ... in T ms"."""
    found = [(int(n), float(ms) / 1e3) for n, ms in re.findall(what, text)]
    return max(found) if found else None


def server(bench, say):
    python = interpreter()
    if not python:
        bench.absent("PyTorch and a sentence model (make check-runtimes)")
        return
    target = Server(bench, python)
    for _ in range(3):
        target.rate()
    # What a recording keeps is measured against the moments just before and after.
    rates, kept = {"plain": [target.rate()], "all": [], "budget": []}, {"all": [], "budget": []}
    attach, detach = [], []

    def between_plain(name, rate):
        rates[name].append(rate)
        rates["plain"].append(target.rate())
        kept[name].append(2 * rate / sum(rates["plain"][-2:]))

    for i in range(2 * ROUNDS):
        say(f"bench: a PyTorch server, round {i + 1} of {2 * ROUNDS}")
        recording = Recording(bench, target.pid, "--budget", "off")
        rate = target.rate()
        said = recording.stop()
        between_plain("all", rate)
        on = line_of(said, r"attach: (\d+) functions .* got their probes in ([\d.]+) ms")
        off = re.search(r"(\d+) probes taken off in ([\d.]+) ms", said)
        attach.append(on[1] * 3110 / on[0])
        detach.append(float(off[2]) / 1e3 * 3110 / on[0])
        recording = Recording(bench, target.pid)
        end = time.monotonic() + SETTLE
        while time.monotonic() < end:
            target.post("/embed", {"texts": TEXTS})
        rate = target.rate()
        recording.stop()
        between_plain("budget", rate)
    bench.row("PyTorch server, not recorded", median(rates["plain"]), "requests/s")
    bench.row("PyTorch server, every operator", median(rates["all"]), "requests/s")
    bench.row("PyTorch server, default budget", median(rates["budget"]), "requests/s")
    n = 20
    told = [target.post("/profile", {"texts": TEXTS, "requests": n})["ns"] / n for _ in range(3)]
    bench.row("PyTorch server, torch.profiler on", 1e9 / median(told), "requests/s", "its own reading of the events included")
    plain = target.rate(SHORT)
    recording = Recording(bench, target.pid, "--budget", "off")
    rate = target.rate(SHORT)
    recording.stop()
    bench.row("the shortest requests, every operator", 2 * rate / (plain + target.rate(SHORT)), "kept", "one round")
    bpftrace(bench, target)
    bench.values.update({
        "recipes.attach_3110_s": median(attach),
        "recipes.detach_3110_s": median(detach),
        "recipes.minilm_throughput_kept": median(kept["all"]),
        "recipes.minilm_throughput_kept_budget": median(kept["budget"]),
    })


def bpftrace(bench, target):
    """The same functions counted by bpftrace, entries alone: it takes a link a probe."""
    if not bench.has("bpftrace"):
        return
    library = next(m.split()[-1] for m in open(f"/proc/{target.pid}/maps") if "libtorch_cpu.so" in m)
    env = {**os.environ, "BPFTRACE_MAX_PROBES": "8192"}
    tracer = subprocess.Popen(["bpftrace", "-p", str(target.pid), "-e",
                               f"uprobe:{library}:_ZN2at4_ops*4callE* {{ @[probe] = count(); }} BEGIN {{ printf(\"on\\n\"); }}"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    bench.addCleanup(tracer.wait)
    bench.addCleanup(tracer.kill)
    t0 = time.monotonic()
    while time.monotonic() - t0 < 60 and tracer.poll() is None:
        if select.select([tracer.stdout], [], [], 0.5)[0] and tracer.stdout.readline().strip() == "on":
            bench.row("PyTorch server, bpftrace count() at entries", target.rate(), "requests/s",
                      f"attached in {time.monotonic() - t0:.0f} s")
            break
    else:
        bench.row("PyTorch server, bpftrace count() at entries", None, "requests/s",
                  "ended by itself" if tracer.poll() is not None else "not attached after 60 s")
    tracer.kill()


def measure(bench, compile_program, say):
    say("bench: function probes")
    hits(bench, compile_program)
    server(bench, say)
