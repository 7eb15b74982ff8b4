# SPDX-License-Identifier: Apache-2.0
"""What the tests of clika_runtime share.

tools/python-tests.sh runs them twice: as root with a private loader, and as an ordinary user with a service
that root has started. What needs root says so.
"""
import collections
import json
import os
import subprocess
import sys
import textwrap
import time

import pytest

ROOT = os.environ.get("CLIKA_TEST_ROOT") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.environ.get("CLIKA_TEST_TOOL") or os.path.join(ROOT, "build", "clika-bpf-prof")
EXAMPLES = os.path.join(ROOT, "examples")
SERVICE = os.environ.get("CLIKA_TEST_VIA") == "service"
PATIENCE = 60

needs_root = pytest.mark.needs_root


def pytest_configure(config):
    config.addinivalue_line("markers", "needs_root: it starts loaders, or looks into them")


def pytest_collection_modifyitems(config, items):
    """What needs root runs in the round that root makes; only who has no such round is told of skips."""
    if os.geteuid() == 0:
        return
    mine = [i for i in items if not i.get_closest_marker("needs_root")]
    if SERVICE:
        config.hook.pytest_deselected(items=[i for i in items if i not in mine])
        items[:] = mine
        return
    for i in items:
        if i not in mine:
            i.add_marker(pytest.mark.skip(reason="needs root"))


def until(condition, what, seconds=PATIENCE):
    """Waits for a condition, never for time to pass."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.005)


def events(session, ph=None, **export):
    trace = json.loads(session.chrome_trace_json())
    return [e for e in trace["traceEvents"] if ph is None or e["ph"] == ph]


def counts(trace):
    """How many spans there are of each name; async spans count at their begin."""
    if not isinstance(trace, str):
        trace = trace.chrome_trace_json()
    return collections.Counter(e["name"] for e in json.loads(trace)["traceEvents"] if e["ph"] in "Xb")


class Done:
    def __init__(self, p):
        self.code, self.out, self.err = p.returncode, p.stdout, p.stderr

    @property
    def json(self):
        return json.loads(self.out.splitlines()[-1])


PRELUDE = """
import json, os, sys, threading, time, warnings, collections
from clika_runtime.profiler import *
import clika_runtime.profiler as profiler
def counts(s):
    return dict(collections.Counter(e["name"] for e in json.loads(s.chrome_trace_json())["traceEvents"] if e["ph"] in "Xb"))
def say(v):
    print(json.dumps(v), flush=True)
def work(name, n=1):
    for _ in range(n):
        with span(name):
            pass
"""


def python(code, *args, check=0, env=None, timeout=PATIENCE, warn="error", **kw):
    """A host process of its own, strict about warnings, that runs @code."""
    argv = [sys.executable, "-X", "dev", "-W", warn, "-c", PRELUDE + textwrap.dedent(code), *map(str, args)]
    p = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})}, **kw)
    assert check is None or p.returncode == check, f"ended with {p.returncode}\n{p.stdout}\n{p.stderr}"
    return Done(p)


def start(code, *args, env=None, **kw):
    argv = [sys.executable, "-X", "dev", "-W", "error", "-c", PRELUDE + textwrap.dedent(code), *map(str, args)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **(env or {})}, **kw)


@pytest.fixture
def session():
    from clika_runtime.profiler import ProfileSession

    with ProfileSession() as s:
        yield s
