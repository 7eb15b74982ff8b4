# SPDX-License-Identifier: Apache-2.0
"""span() and its kin: exact counts, values, nesting, and what they do to the program, which is nothing."""
import asyncio
import json
import os
import threading

import pytest

from clika_runtime.profiler import (counter, flow_in, flow_out, instant, is_recording, memory_alloc, memory_free, span)
from conftest import counts, events, python, until


@pytest.fixture
def capture(session):
    with session.start_capture():
        yield session


def spans(session, name=None):
    return [e for e in events(session, "X") if name in (None, e["name"])]


# ---- while nobody records ---------------------------------------------------------------------------------------


def test_markers_do_nothing_while_nobody_records():
    until(lambda: not is_recording(), "sessions of other tests to detach")
    with span("x", a=1) as s:
        assert s.name == "x"
    instant("x")
    counter("x", 1)
    memory_alloc(1, 2)
    memory_free(1)


def test_arguments_are_not_looked_at_while_nobody_records():
    class Loud:
        def __str__(self):
            raise AssertionError("looked at")

    with span("x", a=Loud()):
        pass
    instant("x", a=Loud())


# ---- spans ----------------------------------------------------------------------------------------------------------


def test_counts_are_exact(capture):
    for i in range(20_000):
        with span("outer"):
            with span("inner", i=i):
                pass
    assert counts(capture) == {"outer": 20_000, "inner": 20_000}
    assert capture.losses["lost"] == 0


def test_arguments_keep_type_and_value(capture):
    values = {"i": -5, "big": 2**63, "f": 1.5, "s": "tëxt", "b": True, "n": None, "l": [1, 2]}
    with span("x", **values):
        pass
    instant("y", huge=2**70, e="")
    got = spans(capture, "x")[0]["args"]
    assert got["i"] == -5 and got["f"] == 1.5 and got["s"] == "tëxt" and got["b"] == 1
    assert int(got["big"]) == 2**63 and got["n"] == "None" and got["l"] == "[1, 2]"
    assert events(capture, "i")[0]["args"] == {"huge": str(2**70), "e": ""}


def test_long_and_odd_names_and_values(capture):
    for name in ("", "ünï → 🦊", "x" * 1000, "nul\0inside", "\ud800 lone", 'quo"te\\'):
        with span(name, **{"key " + "k" * 200: "v" * 5000, "other": 1}):
            pass
    assert len(spans(capture)) == 6 and "ünï → 🦊" in counts(capture)
    assert all(e["args"]["other"] == 1 for e in spans(capture))


def test_eight_long_strings_fit(capture):
    with span("n" * 300, **{f"{i}" + "k" * 100: "v" * 400 for i in range(8)}):
        pass
    (e,) = spans(capture)
    assert len([k for k in e["args"] if "kkk" in k]) == 8


def test_broken_str_harms_nothing(capture):
    class Bad:
        def __str__(self):
            raise RuntimeError("no")

        __repr__ = __str__

    with span("x", a=Bad(), b=2):
        pass
    assert spans(capture, "x")[0]["args"]["b"] == 2


def test_wrong_use_is_a_type_error():
    for bad in (lambda: span(), lambda: span(1), lambda: span("a", "b"), lambda: span("a", **{str(i): 1 for i in range(9)}),
                lambda: counter("a"), lambda: counter(1, 2), lambda: counter("a", 1, 2), lambda: counter("a", nope=1),
                lambda: memory_alloc(1), lambda: memory_free(), lambda: memory_alloc(1, 2, address=3), lambda: instant()):
        with pytest.raises(TypeError):
            bad()


def test_exception_ends_the_span_and_passes(capture):
    with pytest.raises(ValueError):
        with span("outer"):
            with span("inner"):
                raise ValueError
    with span("after"):
        pass
    assert counts(capture) == {"outer": 1, "inner": 1, "after": 1}
    outer, after = spans(capture, "outer")[0], spans(capture, "after")[0]
    assert outer["ts"] + outer["dur"] <= after["ts"]


def test_one_object_serves_many_times_nested_and_on_threads(capture):
    s = span("shared")

    def work():
        for _ in range(100):
            with s:
                with s:
                    pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert counts(capture) == {"shared": 800}


def test_recursion_beyond_what_nests_is_counted_not_fatal(capture):
    def down(n):
        with span("deep"):
            if n:
                down(n - 1)

    down(99)
    assert counts(capture)["deep"] == 64
    assert capture.losses["lost"] == 36


# ---- decorator ----------------------------------------------------------------------------------------------------------


def test_decorator_keeps_the_function(capture):
    @span("f", kind="test")
    def f(a, *, b=2):
        "Says it."
        return a + b

    assert f(1, b=3) == 4 and f.__name__ == "f" and f.__doc__ == "Says it."
    with pytest.raises(TypeError):
        f()
    assert counts(capture) == {"f": 2}
    assert spans(capture, "f")[0]["args"] == {"kind": "test"}


def test_decorator_on_methods(capture):
    class C:
        @span("method")
        def method(self):
            return self

        @span("class")
        @classmethod
        def klass(cls):
            return cls

        @staticmethod
        @span("static")
        def static():
            return 1

    c = C()
    assert c.method() is c and C.klass() is C and C.static() == 1
    assert counts(capture) == {"method": 1, "class": 1, "static": 1}


def test_decorated_recursion_nests(capture):
    @span("fib")
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    assert fib(10) == 55
    assert counts(capture) == {"fib": 177}


def test_generator_span_covers_its_life_and_breaks_no_stack(capture):
    @span("gen")
    def gen():
        got = yield 1
        try:
            yield got
        except KeyError:
            yield "caught"
        return "end"

    with span("around"):
        g = gen()
        assert next(g) == 1
        with span("between"):
            assert g.send("sent") == "sent"
        assert g.throw(KeyError()) == "caught"
        with pytest.raises(StopIteration) as e:
            next(g)
        assert e.value.value == "end"
    assert counts(capture) == {"gen": 1, "around": 1, "between": 1}
    around = spans(capture, "around")[0]
    inner = spans(capture, "between")[0]
    assert around["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= around["ts"] + around["dur"]
    assert {e["ph"] for e in events(capture) if e["name"] == "gen"} == {"b", "e"}


def test_generator_left_early_ends(capture):
    @span("gen")
    def gen():
        yield 1
        yield 2

    g = gen()
    next(g)
    g.close()
    assert [e["ph"] for e in events(capture) if e["name"] == "gen"] == ["b", "e"]


# ---- asyncio ---------------------------------------------------------------------------------------------------------------


def test_tasks_have_spans_of_their_own(capture):
    order = []

    async def task(i):
        with span("task", i=i):
            order.append(i)
            await asyncio.sleep(0.002 * (3 - i))
            with span("step"):
                await asyncio.sleep(0)
            order.append(i)

    async def main():
        await asyncio.gather(*(task(i) for i in range(3)))

    with span("thread"):
        asyncio.run(main())
    assert sorted(order[:3]) == [0, 1, 2]
    assert counts(capture) == {"task": 3, "step": 3, "thread": 1}
    begins = [e for e in events(capture, "b") if e["name"] == "task"]
    ends = [e for e in events(capture, "e") if e["name"] == "task"]
    assert len(begins) == len(ends) == 3
    assert sorted(e["args"]["i"] for e in begins) == [0, 1, 2]
    # All three were open at once.
    assert max(e["ts"] for e in begins) < min(e["ts"] for e in ends)


def test_one_object_in_many_tasks_ends_the_right_one(capture):
    s = span("shared")

    async def task(i):
        with s:
            await asyncio.sleep(0.001 * (5 - i))

    async def main():
        await asyncio.gather(*(task(i) for i in range(5)))

    asyncio.run(main())
    assert counts(capture) == {"shared": 5}
    assert s.__exit__(None, None, None) is None


def test_async_with_and_decorators(capture):
    @span("coro")
    async def coro(x):
        async with span("inside", x=x):
            await asyncio.sleep(0)
        return x

    @span("agen")
    async def agen():
        try:
            got = yield 1
            yield got
        finally:
            await asyncio.sleep(0)

    async def main():
        assert await coro(5) == 5
        g = agen()
        assert await g.__anext__() == 1
        assert await g.asend("sent") == "sent"
        await g.aclose()
        with pytest.raises(ValueError):
            await failing()

    @span("failing")
    async def failing():
        raise ValueError

    assert asyncio.iscoroutinefunction(coro)
    asyncio.run(main())
    assert counts(capture) == {"coro": 1, "inside": 1, "agen": 1, "failing": 1}
    for name in counts(capture):
        assert [e["ph"] for e in events(capture) if e["name"] == name] == ["b", "e"]


def test_span_that_another_task_ends_has_an_end(capture):
    """As the event loop does with asynchronous generators that are left open."""
    kept = []

    async def generator():
        with span("left"):
            yield 1

    async def leaves_it():
        kept.append(generator())
        await kept[0].__anext__()

    async def enter(s):
        await s.__aenter__()

    async def leave(s):
        await s.__aexit__(None, None, None)

    async def main():
        moved, shared = span("moved"), span("shared")
        await asyncio.create_task(enter(moved))
        await asyncio.create_task(leave(moved))
        # What a task that runs still has begun is that task's to end.
        gate = asyncio.Event()

        async def holds():
            async with shared:
                await gate.wait()

        holder = asyncio.create_task(holds())
        await asyncio.sleep(0)
        await asyncio.create_task(leave(shared))
        instant("not ended yet")
        gate.set()
        await holder
        await leaves_it()

    asyncio.run(main())
    instant("all ended")
    seen = events(capture)
    ends = {e["name"]: e for e in seen if e["ph"] == "e"}
    moments = {e["name"]: e["ts"] for e in seen if e["ph"] == "i"}
    assert ends.keys() == {"left", "moved", "shared"}
    assert not [e for e in ends.values() if e.get("args", {}).get("clika.unfinished")]
    assert max(e["ts"] for e in ends.values()) < moments["all ended"]
    assert ends["shared"]["ts"] > moments["not ended yet"] > ends["moved"]["ts"]


def test_sync_function_called_by_a_task_nests_on_the_thread(capture):
    @span("plain")
    def plain():
        pass

    async def main():
        plain()

    asyncio.run(main())
    assert [e["ph"] for e in events(capture) if e["name"] == "plain"] == ["X"]


# ---- values, memory, flows --------------------------------------------------------------------------------------------------


def test_points_and_counters(capture):
    instant("moment", k="v")
    counter("n", 3)
    counter("n", value=-4)
    counter(name="f", value=0.25)
    counter("bad", "text")
    (i,) = events(capture, "i")
    assert i["name"] == "moment" and i["args"] == {"k": "v"}
    values = {}
    for e in events(capture, "C"):
        if e["name"] in ("n", "f", "bad"):
            values.setdefault(e["name"], []).append(list(e["args"].values())[0])
    assert values["n"][:2] == [3, -4] and values["f"][0] == 0.25 and "bad" not in values


def test_memory_agrees_to_the_byte(capture):
    memory_alloc(0x1000, 4096, pool="kv")
    memory_alloc(0x9000, 100, device=0, pool="kv")
    memory_free(0x1000)
    memory_alloc(address=2**64 - 16, size=7, device=1)
    text = capture.summary_text()
    assert "kv" in text and "4.10 KiB" in text.replace("4.1 KiB", "4.10 KiB")
    host, other = sorted(capture.memory_stats()["devices"], key=lambda d: d["device"])
    assert (host["allocated"], host["freed"]) == ({"count": 2, "bytes": 4196}, {"count": 1, "bytes": 4096})
    assert (host["current_bytes"], host["peak_bytes"]) == (100, 4196)
    assert [p["pool"] for p in host["pools"]] == ["kv"]
    assert (other["device"], other["allocated"]["bytes"]) == (1, 7)


def test_late_worker_spans_belong_when_a_flow_says_so(session):
    queue, done = [], threading.Event()
    ready = threading.Event()

    def worker():
        ready.wait()
        for i in queue:
            with span("job"):
                flow_in("job", i)
                with span("part"):
                    pass
        with span("own"):
            pass
        done.set()

    t = threading.Thread(target=worker)
    t.start()
    with session.start_capture():
        for i in range(1, 6):
            with span("send"):
                flow_out("job", i)
            queue.append(i)
    ready.set()
    done.wait()
    t.join()
    assert counts(session) == {"send": 5, "job": 5, "part": 5}


# ---- processes -----------------------------------------------------------------------------------------------------------------


def test_spans_of_a_forked_child_are_its_own():
    done = python("""
        s = ProfileSession.with_options(children=True)
        with s.start_capture():
            with span("open in parent"):
                pid = os.fork()
                if not pid:
                    work("child")
                    os._exit(0)
                os.waitpid(pid, 0)
            work("parent")
        trace = json.loads(s.chrome_trace_json())["traceEvents"]
        say(sorted((e["name"], e["pid"] == os.getpid()) for e in trace if e["ph"] == "X"))
    """, warn="default")
    assert done.json == [["child", False], ["open in parent", True], ["parent", True]]
