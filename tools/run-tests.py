#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every test of the project and counts test cases, not programs.

One line a program, all of its output when something failed, and at the end one line
"N passed, N failed[, N skipped]". Tests that need root run through sudo when this is not root; without
either they are skipped by name, which fails under CI=true. A program ends after 300 seconds (end-to-end
files: 900), unless it says otherwise in a line "run-tests: timeout=SECONDS" near its top.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECONDS = {"e2e": 900, "markers": 900}
GROUPS = ["static", "unit", "golden", "bpf", "markers", "e2e", "python", "asan"]
SLOW_GROUPS = ["consumers", "runtimes"]  # only when named: what they set up takes minutes
# What sudo tells about its caller changes what the tool does; tests set it themselves.
SUDO_VARIABLES = ["SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND"]
KEPT_VARIABLES = ["CI", "CC", "CXX", "CLANG", "BPFTOOL", "CLIKA_RUNTIMES_PYTHON"]


class Program:
    def __init__(self, group, name, argv, source=None, root=False, kind="cmocka", env=None):
        self.group, self.name, self.argv, self.source = group, name, argv, source
        self.root, self.kind, self.env = root, kind, env or {}
        self.passed = self.failed = self.skipped = 0
        self.notes = []       # "skipped: NAME (reason)", "ended by a time limit"
        self.root_skips = 0   # skipped because root was missing
        self.output, self.seconds = "", 0.0

    def limit(self):
        head = ""
        if self.source:
            with open(self.source, errors="replace") as f:
                head = f.read(2000)
        m = re.search(r"run-tests: timeout=(\d+)", head)
        return int(m.group(1)) if m else SECONDS.get(self.group, 300)

    def names(self):
        """Test cases as the source names them, for programs that cannot be started."""
        with open(self.source, errors="replace") as f:
            text = f.read()
        if self.source.endswith(".py"):
            return re.findall(r"^\s+def (test_\w+)", text, re.M)
        return re.findall(r"cmocka_unit_test\w*\(\s*(\w+)", text)


def built(group, sub="build"):
    for source in sorted(glob.glob(f"tests/{group}/test_*.c")):
        if source.endswith(".bpf.c"):
            continue
        name = os.path.basename(source)[:-2]
        yield source, name, f"{sub}/tests/{group}/{name}"


def programs():
    make = ["make", "--no-print-directory"]
    yield Program("static", "layers", ["tools/check-layers.sh"], kind="script")
    yield Program("static", "headers", make + ["check-headers"], kind="script")
    yield Program("static", "bpf-arm64", make + ["bpf-arm64"], kind="script")
    yield Program("static", "man", ["tools/check-man.sh"], kind="script")
    for group in ("unit", "golden"):
        for source, name, path in built(group):
            yield Program(group, f"{group}/{name}", [path], source)
    for source, name, path in built("bpf"):
        yield Program("bpf", f"bpf/{name}", [path], source, root=True)
    for source in sorted(glob.glob("tests/markers/run.sh")):
        yield Program("markers", "markers", ["bash", source], source, kind="script")
    for source in sorted(glob.glob("tests/e2e/test_*.py")):
        name = os.path.basename(source)[:-3]
        yield Program("e2e", f"e2e/{name}", [sys.executable, "-m", "unittest", "-v", source], source,
                      root=True, kind="unittest", env={"PYTHONPATH": "tests/e2e"})
    for source in sorted(glob.glob("tests/consumers/test_*.py")):
        name = os.path.basename(source)[:-3]
        yield Program("consumers", f"consumers/{name}", [sys.executable, "-m", "unittest", "-v", source], source,
                      kind="unittest", env={"PYTHONPATH": "tests/e2e:tests/consumers"})
    for source in sorted(glob.glob("tests/runtimes/test_*.py")):
        name = os.path.basename(source)[:-3]
        yield Program("runtimes", f"runtimes/{name}", [sys.executable, "-m", "unittest", "-v", source], source,
                      root=True, kind="unittest", env={"PYTHONPATH": "tests/e2e:tests/runtimes"})
    yield Program("python", "python", ["tools/python-tests.sh"], "tools/python-tests.sh", root=True, kind="script")
    for group in ("unit", "golden"):
        for source, name, path in built(group, "build/asan"):
            yield Program("asan", f"asan/{group}/{name}", [path], source)


def count_cmocka(p, out, rc):
    ran = re.findall(r"^\[ RUN      \] (\S+)", out, re.M)
    ok = re.findall(r"^\[       OK \] (\S+)", out, re.M)
    skipped = re.findall(r"^\[  SKIPPED \] (\S+)$", out, re.M)
    p.passed, p.skipped = len(ok), len(skipped)
    p.failed = max(0, len(ran) - len(ok) - len(skipped))
    p.notes += [f"skipped: {name}" for name in skipped]
    if not ran and rc == 0:
        p.failed = 1
        p.notes.append("it ran no test")


def count_unittest(p, out, rc):
    ran = re.search(r"^Ran (\d+) tests?", out, re.M)
    said = {k: int(n) for k, n in re.findall(r"(failures|errors|skipped|unexpected successes)=(\d+)",
                                            out[ran.start():] if ran else "")}
    total = int(ran.group(1)) if ran else 0
    p.skipped = said.get("skipped", 0)
    # Subtests fail one by one; here each test counts once.
    bad = set(re.findall(r"^(?:FAIL|ERROR): (\w+ \([\w.]+\))", out, re.M))
    p.failed = len(bad) + said.get("unexpected successes", 0)
    p.passed = max(0, total - p.failed - p.skipped)
    for name, reason in re.findall(r"^(\w+)[^\n]*\.\.\. skipped ['\"](.*)['\"]$", out, re.M):
        p.notes.append(f"skipped: {name} ({reason})")
        p.root_skips += bool(re.search(r"\broot\b", reason))
    if not total and not p.skipped and rc == 0:
        p.failed = 1
        p.notes.append("it ran no test")


def count_script(p, out, rc):
    m = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", out, re.M)
    if m:
        p.passed, p.failed, p.skipped = (int(n or 0) for n in m[-1])
        p.root_skips = p.skipped if re.search(r"^needs root\b", out, re.M) else 0
    elif rc == 0:
        p.passed = 1


COUNT = {"cmocka": count_cmocka, "unittest": count_unittest, "script": count_script}


class Runner:
    def __init__(self):
        self.is_root = os.geteuid() == 0
        self.sudo = None  # command prefix that gives root, None: there is none

    def get_root(self):
        if self.is_root:
            self.sudo = []
            return
        try:
            quiet = subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if quiet.returncode and sys.stdin.isatty():
                print("Tests that load BPF programs need root; sudo may ask for your password.", flush=True)
                quiet = subprocess.run(["sudo", "-v"])
            if quiet.returncode == 0:
                self.sudo = ["sudo", "-n"]
        except FileNotFoundError:
            pass

    def command(self, p, env):
        argv = ["timeout", "-k", "5", str(p.limit())] + p.argv
        if not p.root or self.sudo is None:
            return argv
        clean = ["env"] + [a for v in SUDO_VARIABLES for a in ("-u", v)]
        if not self.sudo:
            return clean + argv
        # sudo clears the environment: what the test needs is said again.
        return self.sudo + clean + [f"{k}={v}" for k, v in env.items()] + argv

    def run(self, p):
        if p.root and self.sudo is None and p.kind == "cmocka":
            names = p.names()
            p.skipped = p.root_skips = len(names)
            p.notes = [f"skipped: {name} (needs root)" for name in names]
            return p
        env = {"PYTHONDONTWRITEBYTECODE": "1", **p.env}
        env.update({k: os.environ[k] for k in KEPT_VARIABLES if k in os.environ})
        began = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                rc = subprocess.run(self.command(p, env), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    env={**os.environ, **env}, cwd=ROOT).returncode
            except OSError as e:
                rc, p.output = 127, str(e)
            for f in (out, err):
                f.seek(0)
            text = [f.read().decode("utf-8", "replace") for f in (out, err)]
        p.seconds = time.monotonic() - began
        p.output += "".join(text)
        # CMocka's lines are in order on standard output only; the others use either.
        COUNT[p.kind](p, text[0] if p.kind == "cmocka" else "\n".join(text), rc)
        if rc == 124 or rc == 137:
            p.notes.append(f"ended by its time limit of {p.limit()} s")
        elif rc < 0 or rc > 128:
            p.notes.append(f"ended by signal {-rc if rc < 0 else rc - 128}")
        if rc and not p.failed:
            p.failed = 1
        return p

    def hand_back(self):
        """What root wrote below build/ belongs to whoever owns the tree afterwards, also under sudo make."""
        owner = os.stat(ROOT)
        if owner.st_uid == 0 or self.sudo is None or not os.path.isdir("build"):
            return
        subprocess.run(self.sudo + ["chown", "-hR", "--from=0", f"{owner.st_uid}:{owner.st_gid}", "build"])


def show(p):
    word = "FAIL" if p.failed else "ok  " if p.passed else "skip"
    counts = [f"{n} {what}" for n, what in
              ((p.passed, "passed"), (p.failed, "failed"), (p.skipped, "skipped")) if n]
    print(f"{word} {p.name:<36} {', '.join(counts):<34} {p.seconds:6.1f} s", flush=True)
    for note in p.notes:
        print(f"       {note}")
    if p.failed:
        print("\n".join("     | " + line for line in p.output.rstrip().splitlines()), flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--only", default=",".join(GROUPS), help="groups, of: " + ", ".join(GROUPS + SLOW_GROUPS))
    ap.add_argument("--match", default="", help="only programs whose name contains this")
    ap.add_argument("--also", default="", help="slow groups, or programs of them by name (consumers/test_hta), that run too")
    ap.add_argument("-j", type=int, default=2, help="unit programs at the same time")
    args = ap.parse_args()
    os.chdir(ROOT)

    wanted, also = args.only.split(","), [name for name in args.also.split(",") if name]
    todo = [p for p in programs() if p.group in wanted and args.match in p.name or p.name in also or p.group in also]
    unknown = set(also) - {p.name for p in todo} - {p.group for p in todo}
    if unknown:
        ap.error(f"there is no {', '.join(sorted(unknown))}")
    runner = Runner()
    if any(p.root for p in todo):
        runner.get_root()
    done = []
    try:
        for group in GROUPS + SLOW_GROUPS:
            mine = [p for p in todo if p.group == group]
            together = args.j if group in ("unit", "golden", "asan") else 1
            with concurrent.futures.ThreadPoolExecutor(together) as pool:
                for p in pool.map(runner.run, mine):
                    show(p)
                    done.append(p)
    finally:
        runner.hand_back()

    passed, failed, skipped = (sum(getattr(p, k) for p in done) for k in ("passed", "failed", "skipped"))
    bad = failed > 0
    root_skips = sum(p.root_skips for p in done)
    if root_skips and os.environ.get("CI", "") not in ("", "0", "false"):
        print(f"{root_skips} tests that need root were skipped; CI must run them")
        bad = True
    if not passed and not failed:
        print("no test ran")
        bad = True
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
