# SPDX-License-Identifier: Apache-2.0
"""Functions by a recipe: what is told of each call of real processes, and what the processes notice of it."""
import collections
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock

import lib
import test_service

NAME = "recipe_target"
ARG0 = {"name": "x", "from": "arg0", "type": "u64"}
OPS = [
    {"match": "rt_op", "name": [{"if": {"arg": "kind", "eq": 1}, "text": "matmul {name}"}, {"text": "op {kind}"}],
     "args": [
         {"name": "kind", "from": "arg0", "path": [0], "type": "i32", "values": {"2": "add"}},
         {"name": "name", "from": "arg0", "path": [4], "type": "chars", "count": 12, "show": False},
         {"name": "label", "from": "arg0", "path": [16, 0], "type": "string"},
         {"name": "shape", "from": "arg0", "path": [24], "type": "array", "element": "i64", "count": 3},
         {"name": "mode", "from": "arg1", "type": "i32"},
         {"name": "hash", "from": "return", "type": "u64"}]},
    {"match": "rt_stack", "args": [
        {"name": "fifth", "from": "arg4", "type": "i32"},
        {"name": "seventh", "from": "stack0", "type": "i64"},
        {"name": "eighth", "from": "stack1", "type": "string"},
        {"name": "sum", "from": "return", "type": "i32"}]},
    {"match": "rt_string", "args": [{"name": "text", "from": "arg0", "path": [0], "type": "std_string"}]}]
MEMORY = [
    {"match": "rt_alloc", "span": False, "keep": {"arg": "bytes", "at_least": 4096},
     "args": [{"name": "bytes", "from": "arg0", "type": "u64"}, {"name": "at", "from": "return", "type": "pointer"}],
     "does": [{"what": "alloc", "address": "at", "bytes": "bytes", "pool": "heap", "device": 1}]},
    {"match": "rt_free", "span": False, "keep": {"arg": "at", "known": True},
     "args": [{"name": "at", "from": "arg0", "type": "pointer"}],
     "does": [{"what": "free", "address": "at", "device": 1}]},
    {"match": "rt_get",
     "args": [{"name": "at", "from": "arg0", "path": [0], "type": "pointer", "at": "return"},
              {"name": "bytes", "from": "arg1", "type": "u64"}, {"name": "status", "from": "return", "type": "i32"}],
     "does": [{"what": "alloc", "address": "at", "bytes": "bytes", "pool": "got", "device": 2,
               "if": {"arg": "status", "eq": 0}}]},
    {"match": "rt_put", "args": [{"name": "at", "from": "arg0", "type": "pointer"}],
     "does": [{"what": "free", "address": "at", "device": 2}]}]
CTX = {"name": "ctx", "from": "arg0", "type": "pointer", "show": False}
REQUESTS = [
    {"match": "rt_decode", "name": [{"if": {"arg": "n", "gt": 1}, "text": "prompt"}, {"text": "step"}],
     "args": [CTX, {"name": "n", "from": "arg1", "type": "i32"}],
     "does": [{"what": "request_begin", "name": "chat", "id": "ctx", "if": {"arg": "n", "gt": 1}}]},
    {"match": "rt_sample", "args": [CTX], "does": [{"what": "request_output", "name": "chat", "id": "ctx", "units": 1}]},
    {"match": "rt_done", "args": [CTX], "does": [{"what": "request_end", "name": "chat", "id": "ctx"}]},
    {"match": "rt_send", "args": [ARG0], "does": [{"what": "flow_out", "name": "queue", "id": "x"}]},
    {"match": "rt_take", "args": [ARG0], "does": [{"what": "flow_in", "name": "queue", "id": "x"}]}]
CALLS = [
    {"match": "rt_small_throw", "args": [{"name": "bytes", "from": "arg0", "type": "u64"}],
     "keep": {"arg": "bytes", "at_least": 65}},
    {"match": ["rt_recurse", "rt_tail*", "rt_throws", "rt_middle", "rt_catches"],
     "args": [ARG0, {"name": "result", "from": "return", "type": "u64"}]}]
PLAIN = [{"match": ["rt_hold", "rt_inner", "rt_exits", "rt_long", "rt_cheap", "rt_catches", "rt_middle", "rt_throws"]}]


def unfinished(span):
    return "clika.unfinished" in span.args


@lib.needs_root
class RecipeCase(lib.Case):
    def recipe(self, functions, name="own", file=NAME + "*", **more):
        path = os.path.join(self.tmp(), name + ".json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"recipe": 1, "name": name, "title": "A test's own", "records": "calls",
                       "libraries": [{"id": "l", "file": [file]}], "functions": functions, **more}, f, indent=1)
        return path

    def options(self, functions, budget="off", **kw):
        return ["--no-auto", "--recipe", self.recipe(functions, **kw), "--budget", budget]

    def watch(self, target, functions, *more, output=None, **kw):
        return self.record("-p", target.pid, *self.options(functions, **kw), *more, output=output)

    def ask(self, target, line):
        target.send(line)
        return target.result()

    def report(self, result):
        with open(result.path("report.json"), encoding="utf-8") as f:
            return json.load(f)


class Told(RecipeCase):
    def test_names_texts_arrays_and_results(self):
        target = self.target(NAME)
        recorder = self.watch(target, OPS)
        said = self.ask(target, "ops 300")
        result = recorder.stop()
        trace = result.trace()
        rounds = said["rounds"]
        self.assertSpans(trace, {"matmul short": rounds // 3, "op 0": rounds // 3, "op add": rounds // 3,
                                 "rt_stack": rounds, "rt_string": rounds})
        ops = sorted((s for s in trace.spans if s.cat == "own" and s.name not in ("rt_stack", "rt_string")),
                     key=lambda s: s.ts)
        self.assertEqual([s.args["shape"] for s in ops], [f"[{i},3,4]" for i in range(rounds)])
        self.assertEqual([s.args["label"] for s in ops], ["odd" if i % 2 else "even" for i in range(rounds)])
        self.assertEqual({s.args["mode"] for s in ops}, {-1})
        self.assertEqual({s.args["kind"] for s in ops}, {0, 1, "add"})
        self.assertEqual(len({s.args["hash"] for s in ops}), 3)  # of kind and mode alone
        self.assertFalse([s for s in ops if "name" in s.args])
        stacks = sorted((s for s in trace.spans if s.name == "rt_stack"), key=lambda s: s.ts)
        self.assertEqual([(s.args["fifth"], s.args["seventh"], s.args["eighth"], s.args["sum"]) for s in stacks],
                         [(5, -700 - i, "on the stack", 21 - 700 - i + ord("o")) for i in range(rounds)])
        texts = sorted((s for s in trace.spans if s.name == "rt_string"), key=lambda s: s.ts)
        whole = "a text that is longer than sixty-three characters, so that its end is cut off somewhere"
        for i, s in enumerate(texts):
            wanted = whole[:i % 87]
            self.assertEqual(s.args["text"][:63], wanted[:63], i)
            self.assertLessEqual(len(s.args["text"]), 64)
        self.assertNothingLost(result.info())

    def test_memory_of_some_size_and_exactly_its_frees(self):
        target = self.target(NAME)
        recorder = self.watch(target, MEMORY)
        said = self.ask(target, "memory 500")
        result = recorder.stop()
        devices = {d["device"]: d for d in self.report(result)["memory"]["devices"]}
        heap, got = devices[1], devices[2]
        self.assertEqual(heap["allocated"], {"count": said["large"], "bytes": said["large_bytes"]})
        self.assertEqual(heap["freed"], {"count": said["large"] - 1, "bytes": said["large_bytes"] - 10000})
        self.assertEqual((heap["freed_but_older"]["before_recording"], heap["freed_unseen"]["count"]), (0, 0))
        self.assertEqual(got["allocated"], {"count": 500, "bytes": sum(100 + i for i in range(500))})
        self.assertEqual(got["freed"], got["allocated"])
        trace = result.trace()
        self.assertSpans(trace, {"rt_get": 1000, "rt_put": 500})
        self.assertEqual(collections.Counter(s.args["status"] for s in trace.spans if s.name == "rt_get"),
                         {0: 500, 2: 500})
        info = result.info()
        self.assertNothingLost(info)
        # Small blocks are decided on in the kernel: entry and return of large ones, one record of their frees.
        self.assertEqual(info.recorded, 2 * said["large"] + (said["large"] - 1) + 2 * 1500)

    def test_what_decides_on_memory_is_not_known(self):
        """No other argument decides in its place, and not each call is kept either."""
        target = self.target(NAME)
        recipe = [{"match": "rt_op", "keep": {"arg": "kind", "at_least": 1},
                   "args": [{"name": "mode", "from": "arg1", "type": "u32"},
                            {"name": "kind", "from": "arg0", "path": ["tensor.kind"], "type": "u32"}]},
                  {"match": "rt_string"}]
        recorder = self.watch(target, recipe, layouts=[{"name": "tensor.kind", "accessor": "rt_no_such_function"}])
        said = self.ask(target, "ops 30")
        result = recorder.stop()
        self.assertSpans(result.trace(), {"rt_string": said["rounds"]})
        self.assertIn("what decides which calls are kept is not known",
                      " ".join(w["text"] for w in self.report(result)["warnings"] if w["code"] == "layout"))

    def test_requests_and_flows(self):
        target = self.target(NAME)
        recorder = self.watch(target, REQUESTS)
        said = self.ask(target, "requests 40")
        result = recorder.stop()
        row, = self.report(result)["requests"]
        self.assertEqual((row["kind"], row["begun"], row["ended"], row["units"]),
                         ("chat", said["requests"], said["requests"], said["units"]))
        trace = result.trace()
        self.assertSpans(trace, {"prompt": 40, "step": 200, "rt_sample": 200, "rt_done": 40, "rt_send": 40,
                                 "rt_take": 40})
        out, back = trace.of("s"), trace.of("f")
        self.assertEqual((len(out), len(back)), (said["flows"], said["flows"]))
        self.assertEqual(len({e["id"] for e in out}), said["flows"])
        self.assertEqual({e["id"] for e in out}, {e["id"] for e in back})

    def test_recursion_tail_calls_and_exceptions(self):
        target = self.target(NAME)
        recorder = self.watch(target, CALLS)
        said = self.ask(target, "calls 300")
        said.pop("caught")
        result = recorder.stop()
        trace = result.trace()
        self.assertSpans(trace, said)
        self.assertNests(trace.spans)
        self.assertNothingLost(result.info())
        left = collections.Counter(s.name for s in trace.spans if unfinished(s))
        # An exception leaves them; rt_catches is where it ends.
        self.assertEqual(left, {"rt_throws": 100, "rt_middle": 100, "rt_small_throw": 300})
        for s in trace.spans:
            if s.name == "rt_tail":  # what a function returns is not known where it jumps into another
                self.assertNotIn("result", s.args)
            elif s.name != "rt_small_throw" and not unfinished(s):
                self.assertIn("result", s.args)
        # A small call from the place where a large one threw is not that one's end.
        large = sorted((s for s in trace.spans if s.name == "rt_small_throw"), key=lambda s: s.ts)
        self.assertTrue(all(unfinished(s) for s in large))
        self.assertEqual(self.ask(target, "inner 1")["sum"] > 0, True)

    def test_spans_nest_with_markers(self):
        target = self.target(NAME)
        recorder = self.watch(target, PLAIN)
        said = self.ask(target, "markers 50")
        result = recorder.stop()
        n = said["rounds"]
        trace = result.trace()
        self.assertSpans(trace, {"outer marker": n, "inner marker": n, "rt_long": 2 * n, "rt_catches": n,
                                 "rt_middle": n, "rt_throws": n})
        self.assertNests(trace.spans)

        def parents(name):
            found = collections.Counter()
            for s in (s for s in trace.spans if s.name == name):
                around = [o for o in trace.spans if o is not s and o.ts <= s.ts and s.ts + s.dur <= o.ts + o.dur]
                found[min(around, key=lambda o: o.dur).name if around else None] += 1
            return found
        self.assertEqual(parents("rt_long"), {"outer marker": 2 * n})
        self.assertEqual(parents("inner marker"), {"outer marker": n})
        self.assertEqual(parents("rt_catches"), {"inner marker": n})
        self.assertEqual(parents("rt_middle"), {"rt_catches": n})
        self.assertEqual(parents("outer marker"), {None: n})
        totals = {}
        for row in self.report(result)["ops"]:
            totals[row["name"]] = row
        durs = collections.Counter()
        for s in trace.spans:
            durs[s.name] += s.dur
        own = durs["outer marker"] - durs["rt_long"] - durs["inner marker"]
        self.assertAlmostEqual(totals["outer marker"]["self_ns"] / own, 1, delta=0.01)
        self.assertAlmostEqual(totals["inner marker"]["self_ns"] / (durs["inner marker"] - durs["rt_catches"]), 1,
                               delta=0.01)


class Life(RecipeCase):
    """Processes and threads that come and go while their functions have probes."""

    def test_attached_in_the_middle_of_a_call(self):
        target = self.target(NAME)
        target.send("hold")
        target.result()  # it is inside rt_hold() now
        recorder = self.watch(target, PLAIN)
        target.send("on")
        target.result()
        for _ in range(3):
            target.send("hold")
            target.result()
            target.send("on")
            target.result()
        result = recorder.stop()
        trace = result.trace()
        # The end of a call without begin is no span, and does nothing to the others.
        self.assertSpans(trace, {"rt_hold": 3, "rt_inner": 1 + 2 * 3})
        self.assertFalse([s for s in trace.spans if unfinished(s)])
        self.assertNests(trace.spans)
        self.assertNothingLost(result.info())

    def test_a_call_that_still_runs_at_the_end_is_there(self):
        target = self.target(NAME)
        recorder = self.watch(target, PLAIN)
        target.send("hold")
        target.result()
        result = recorder.stop()
        spans = {s.name: s for s in result.trace().spans}
        self.assertEqual(set(spans), {"rt_hold", "rt_inner"})
        self.assertTrue(unfinished(spans["rt_hold"]))
        self.assertNothingLost(result.info())
        target.send("on")
        self.assertGreater(target.result()["sum"], 0)

    def test_threads_that_end_inside_a_call(self):
        target = self.target(NAME)
        recorder = self.watch(target, PLAIN)
        said = self.ask(target, "threads 50")
        result = recorder.stop()
        trace = result.trace()
        self.assertSpans(trace, {"rt_inner": 50, "rt_exits": 50})
        self.assertEqual(collections.Counter(s.name for s in trace.spans if unfinished(s)), {"rt_exits": 50})
        self.assertEqual(len({s.tid for s in trace.spans}), said["threads"])
        self.assertNothingLost(result.info())

    def test_killed_in_a_call(self):
        target = self.target(NAME)
        recorder = self.watch(target, PLAIN)
        target.send("hold")
        target.result()
        target.signal(signal.SIGKILL)
        self.assertEqual(target.wait(), -signal.SIGKILL)
        self.assertEqual(recorder.wait(), 0)  # its only process has gone
        result = recorder.load()
        spans = {s.name: s for s in result.trace().spans}
        self.assertEqual(set(spans), {"rt_hold", "rt_inner"})
        self.assertTrue(unfinished(spans["rt_hold"]))
        self.assertNothingLost(result.info())

    def test_a_program_that_becomes_another(self):
        target = self.target(NAME)
        recorder = self.watch(target, PLAIN)
        self.ask(target, "inner 1")
        target.send("exec")
        target.expect(lambda l: l.startswith("ready "), "'ready' of the new image")
        self.ask(target, "inner 2")
        self.ask(target, "inner 3")
        result = recorder.stop()
        self.assertSpans(result.trace(), {"rt_inner": 3})
        self.assertNothingLost(result.info())
        self.assertEqual(len(self.report(result)["targets"]["processes"]), 2)  # two images

    def test_children_are_recorded_unless_they_are_not_wanted(self):
        for follow in (True, False):
            with self.subTest(follow=follow):
                target = self.target(NAME)
                recorder = self.watch(target, PLAIN, *([] if follow else ["--no-follow"]),
                                      output=os.path.join(self.tmp(), f"follow-{follow}"))
                said = self.ask(target, "fork 20")
                result = recorder.stop()
                trace = result.trace()
                self.assertSpans(trace, {"rt_inner": said["here"] + (said["in_children"] if follow else 0)})
                self.assertEqual(len(trace.pids()), 21 if follow else 1)
                self.assertNothingLost(result.info())
                target.end()


def text_bytes(pid, path, names):
    """The bytes of functions in a process, and where they lie in the file."""
    nm = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    at = {f[2]: int(f[0], 16) for f in map(str.split, nm.splitlines()) if len(f) == 3}
    bias = lib.mapped_at(pid, path)
    elf = lib.Elf(path)
    found = {}
    with open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for name in names:
            mem.seek(bias + at[name])
            offset = elf.offset(at[name])
            found[name] = (mem.read(8), elf.data[offset:offset + 8])
    return found


class Detached(RecipeCase):
    """Whatever ends a recording, the code of the target is as it was."""
    NAMES = ("rt_inner", "rt_long", "rt_cheap", "rt_hold")

    def is_plain(self, target):
        return all(now == file for now, file in text_bytes(target.pid, target.path, self.NAMES).values())

    def assertDetaches(self, target, end, *more, alive=True):
        self.assertTrue(self.is_plain(target))
        recorder = self.watch(target, PLAIN, *more)
        for name, (now, file) in text_bytes(target.pid, target.path, self.NAMES).items():
            self.assertEqual(now[0], 0xcc, name)
            # An early way out may lie near.
            self.assertTrue(all(n in (f, 0xcc) for n, f in zip(now, file)), (name, now, file))
        end(recorder)
        lib.wait_for(lambda: self.is_plain(target), "the target's code as it was")
        if alive:
            self.assertGreater(self.ask(target, "inner 5")["sum"], 0)
        return recorder

    def test_normal_end(self):
        target = self.target(NAME)
        self.assertDetaches(target, lambda r: self.assertEqual(r.wait(), 0), "--duration", "0.5s")

    def test_ctrl_c(self):
        target = self.target(NAME)
        self.assertDetaches(target, lambda r: r.stop())

    def test_a_recorder_that_is_killed(self):
        target = self.target(NAME)

        def kill(recorder):
            recorder.signal(signal.SIGKILL)
            recorder.wait()
        self.assertDetaches(target, kill)

    def test_a_recording_that_is_full(self):
        target = self.target(NAME)

        def fill(recorder):
            target.send("hot 2")
            target.result()
            recorder.wait()
            self.assertIn("max-size", recorder.err.text() + recorder.load().summary())
            target.send("enough")
            target.result()
        self.assertDetaches(target, fill, "--max-size", "256K")


class Files(RecipeCase):
    """Libraries that are replaced, deleted, loaded and unloaded; what is no function to probe."""
    WORK = [{"match": "marked_work", "args": [{"name": "n", "from": "arg0", "type": "i64"}]}]

    def copy(self, path):
        """The library under a name, always as a file of its own."""
        shutil.copy(lib.fixture("libmarked.so"), path + ".new")
        os.replace(path + ".new", path)
        return path

    def works(self, result):
        return collections.Counter(s.args["n"] for s in result.trace().spans if s.name == "marked_work")

    def spans(self, result):
        return result.trace().names()["library_work"]

    def test_a_library_that_was_replaced_before(self):
        path = self.copy(os.path.join(self.tmp(), "libmarked.so"))
        target = self.target("obeys")
        self.ask(target, f"dlopen {path}")
        self.copy(path)  # what the target maps is "(deleted)" now
        recorder = self.watch(target, self.WORK, file="libmarked.so")
        for n in (3, 4, 3):
            self.ask(target, f"library {n}")
        result = recorder.stop()
        self.assertEqual((self.works(result), self.spans(result)), ({3: 2, 4: 1}, 10))
        self.assertNothingLost(result.info())

    def test_a_library_that_is_replaced_while_it_is_recorded(self):
        path = self.copy(os.path.join(self.tmp(), "libmarked.so"))
        target = self.target("obeys")
        self.ask(target, f"dlopen {path}")
        recorder = self.watch(target, self.WORK, file="libmarked.so")
        self.ask(target, "library 1")
        self.copy(path)
        self.ask(target, "library 2")  # still the old one
        self.ask(target, "dlclose")
        self.ask(target, f"dlopen {path}")
        # A file of its own: its probes come with its mapping.
        lib.wait_for(lambda: recorder.err.text().count("recipe own: 1 functions of libmarked.so") == 2,
                     "the new file's probes")
        lib.wait_for(lambda: any(lib.semaphores(target.pid, path)), "the library's semaphore")
        for name, (now, _) in text_bytes(target.pid, path, ("marked_work",)).items():
            lib.wait_for(lambda: text_bytes(target.pid, path, (name,))[name][0][0] == 0xcc, "the probe")
        self.ask(target, "library 3")
        result = recorder.stop()
        self.assertEqual(self.works(result), {1: 1, 2: 1, 3: 1})
        self.assertNothingLost(result.info())

    def test_a_library_that_comes_and_goes(self):
        path = self.copy(os.path.join(self.tmp(), "libmarked.so"))
        target = self.target("obeys")
        self.ask(target, f"dlopen {path}")
        recorder = self.watch(target, self.WORK, file="libmarked.so")
        for i in range(30):
            self.ask(target, f"library {i}")
            self.ask(target, "dlclose")
            self.ask(target, f"dlopen {path}")
        self.assertEqual(recorder.err.text().count("recipe own: 1 functions"), 1)  # one file, one attachment
        result = recorder.stop()
        self.assertEqual(self.works(result), {i: 1 for i in range(30)})
        self.assertNothingLost(result.info())
        self.assertEqual(self.ask(target, "library 2")["result"], 0)

    def test_what_is_no_function_gets_no_probe(self):
        source = os.path.join(self.tmp(), "odd.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write("""
#include <stdlib.h>
long odd_data[4] = { 1, 2 };
const char odd_text[] = "text";
__attribute__((noinline)) long odd_plain(long x) { __asm__ volatile("" ::: "memory"); return x + atol(odd_text); }
static long twice(long x) { return 2 * x; }
static long thrice(long x) { return 3 * x; }
static long (*choose(void))(long) { return odd_data[0] ? twice : thrice; }
long odd_ifunc(long x) __attribute__((ifunc("choose")));
__asm__(".text\\n.globl odd_no_size\\n.type odd_no_size, @function\\nodd_no_size:\\n mov %rdi, %rax\\n ret\\n"
        ".globl odd_label\\nodd_label:\\n ret\\n");
int marked_work(long n) { return (int)(odd_plain(n) + odd_ifunc(n) != -1); }
""")
        path = os.path.join(self.tmp(), "libodd.so")
        subprocess.run([lib.compiler(), "-O2", "-fPIC", "-shared", "-o", path, source], check=True)
        target = self.target("obeys")
        self.ask(target, f"dlopen {path}")
        before = {n: text_bytes(target.pid, path, (n,))[n][0]
                  for n in ("choose", "odd_no_size", "odd_label", "odd_data", "twice")}
        recipe = [{"match": ["odd_*", "atol", "atol@*"]}]
        recorder = self.watch(target, recipe, file="libodd.so")
        self.assertIn("recipe own: 1 functions of libodd.so", recorder.err.text())
        for name, was in before.items():
            self.assertEqual(text_bytes(target.pid, path, (name,))[name][0], was, name)
        self.ask(target, "library 5")
        result = recorder.stop()
        self.assertSpans(result.trace(), {"odd_plain": 1})
        self.assertIn("ifunc-skipped", {w["code"] for w in self.report(result)["warnings"]})
        said = lib.tool("recipes", "check", self.recipe(recipe, file="libodd.so"), path).stdout
        self.assertIn("1 functions", said)
        self.assertIn("1 chosen at load time (IFUNC), 1 without a size, 2 that are no code", said)

    def test_a_mistake_is_one_line_and_nothing_is_written(self):
        target = self.target(NAME)
        for functions, reason in (
                ([{"match": "rt_op", "argz": []}], "argz"),
                ([{"match": "rt_op", "args": [{"name": "a", "from": "arg9", "type": "i32"}]}], "'from'"),
                ([{"match": "rt_op", "does": [{"what": "free", "address": "nobody"}]}], "nobody")):
            with self.subTest(reason):
                out = os.path.join(self.tmp(), "mistake-out")
                path = self.recipe(functions)
                done = lib.tool("record", "-p", target.pid, "--no-auto", "--recipe", path, "-o", out, check=False)
                self.assertIn(done.returncode, (1, 2))
                said = done.stderr.strip().splitlines()
                self.assertEqual(len(said), 1, done.stderr)
                self.assertRegex(said[0], rf"{path}:\d+: .*{reason}")
                self.assertFalse(os.path.exists(out))
        self.assertGreater(self.ask(target, "inner 1")["sum"], 0)

    def test_fifty_thousand_functions(self):
        source = os.path.join(self.tmp(), "bulk.s")
        with open(source, "w", encoding="utf-8") as f:
            f.write(".text\n.altmacro\n.macro one n\n.globl bulk_\\n\n.type bulk_\\n, @function\n"
                    "bulk_\\n: push %rbp\n lea 1(%rdi), %rax\n pop %rbp\n ret\n.size bulk_\\n, . - bulk_\\n\n.endm\n"
                    ".set i, 0\n.rept 50000\none %i\n.set i, i + 1\n.endr\n"
                    ".globl marked_work\n.type marked_work, @function\nmarked_work: sub $8, %rsp\n"
                    " call bulk_0@PLT\n call bulk_49999@PLT\n xor %eax, %eax\n add $8, %rsp\n ret\n"
                    ".size marked_work, . - marked_work\n"
                    '.section .note.GNU-stack,"",@progbits\n')
        path = os.path.join(self.tmp(), "libbulk.so")
        subprocess.run([lib.compiler(), "-shared", "-o", path, source], check=True)
        target = self.target("obeys")
        self.ask(target, f"dlopen {path}")
        begin = time.monotonic()
        recorder = self.watch(target, [{"match": "bulk_*", "args": [ARG0]}], file="libbulk.so")
        took = time.monotonic() - begin
        self.assertIn("recipe own: 50000 functions of libbulk.so", recorder.err.text())
        self.assertLess(took, 20)
        self.assertLess(lib.status_kib(recorder.pid, "VmHWM"), 256 * 1024)
        self.ask(target, "library 5")
        result = recorder.stop()
        self.assertSpans(result.trace(), {"bulk_0": 1, "bulk_49999": 1})
        self.assertNothingLost(result.info())
        self.assertEqual(self.ask(target, "library 5")["result"], 0)


class Budget(RecipeCase):
    """What costs too much is taken off; what stays is exact."""

    def warnings(self, result, code):
        return [w["text"] for w in self.report(result)["warnings"] if w["code"] == code]

    def taken_off(self, recorder):
        lib.wait_for(lambda: "budget: probes of " in recorder.err.text(), "probes taken off", seconds=20)

    def test_cheap_functions_go_and_the_long_one_is_exact(self):
        target = self.target(NAME)
        recorder = self.watch(target, PLAIN, budget="5%")
        begin = time.monotonic()
        target.send("hot 2")
        target.result()
        self.taken_off(recorder)
        took = time.monotonic() - begin
        lib.wait_for(lambda: text_bytes(target.pid, target.path, ("rt_cheap",))["rt_cheap"][0][0] != 0xcc,
                     "rt_cheap() as it was")
        self.assertEqual(text_bytes(target.pid, target.path, ("rt_long",))["rt_long"][0][0], 0xcc)
        time.sleep(0.5)  # some calls after the switch, too
        target.send("enough")
        said = target.result()
        result = recorder.stop()
        trace = result.trace()
        names = trace.names()
        self.assertLess(took, 5)
        self.assertEqual(names["rt_long"], said["rt_long"])  # before, over and after the switch
        self.assertGreater(names["rt_cheap"], 0)
        self.assertLess(names["rt_cheap"], said["rt_cheap"])
        self.assertNothingLost(result.info())
        for tid in {s.tid for s in trace.spans}:
            self.assertNests([s for s in trace.spans if s.tid == tid])
        self.assertTrue(any("rt_cheap" in t for t in self.warnings(result, "budget-function")))
        self.assertFalse(any("rt_long" in t for t in self.warnings(result, "budget-function")))
        self.assertIn("rt_cheap", result.summary())
        self.assertIn("--budget", result.summary())

    def test_off_keeps_all(self):
        target = self.target(NAME)
        recorder = self.watch(target, PLAIN, "--ring-size", "64M")
        target.send("hot 1")
        target.result()
        time.sleep(1.5)
        target.send("enough")
        said = target.result()
        result = recorder.stop()
        self.assertNothingLost(result.info())
        self.assertEqual({k: result.trace().names()[k] for k in said}, said)
        self.assertEqual(self.warnings(result, "budget"), [])

    def test_memory_goes_and_stays_as_a_whole(self):
        """Whatever is left out: never frees without allocations."""
        target = self.target(NAME)
        recorder = self.watch(target, MEMORY + [{"match": "rt_long"}], budget="2%")
        target.send("heap 4000")
        self.taken_off(recorder)
        said = target.result()
        result = recorder.stop()
        off = " ".join(self.warnings(result, "budget-function"))
        self.assertIn("rt_alloc", off)
        self.assertIn("rt_free", off)
        device, = [d for d in self.report(result)["memory"]["devices"] if d["device"] == 1]
        self.assertLess(device["allocated"]["count"], said["pairs"])
        self.assertLessEqual(abs(device["allocated"]["count"] - device["freed"]["count"]), 1)
        self.assertEqual(device["freed_unseen"]["count"], 0)
        self.assertNothingLost(result.info())

    def test_more_files_than_can_be_thinned(self):
        """Each of them is recorded; those that cannot lose their probes are not said to have lost them."""
        source = os.path.join(self.tmp(), "many.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write("__attribute__((noinline)) long many_FF(long x) { __asm__ volatile(\"\" ::: \"memory\"); return x * 3; }\n"
                    "int marked_work(long n) { long s = 1; for (long i = 0; i < n; i++) s += many_FF(i); return (int)(s & 1); }\n")
        target = self.target("obeys")
        first = os.path.join(self.tmp(), "first.so")
        subprocess.run([lib.compiler(), "-O2", "-fPIC", "-shared", "-Wl,-Bsymbolic,--build-id=none", "-o", first, source],
                       check=True)
        with open(first, "rb") as f:
            bytes_of_first = f.read()
        paths = []
        for i in range(70):
            paths.append(os.path.join(self.tmp(), f"libmany{i}.so"))
            with open(paths[-1], "wb") as f:
                f.write(bytes_of_first.replace(b"many_FF", b"many_%02d" % i))
            self.ask(target, f"dlopen {paths[-1]}")
        recorder = self.watch(target, [{"match": "many_*"}], file="libmany*.so", budget="1%")
        for path in paths:
            self.ask(target, f"dlopen {path}")
            self.ask(target, "library 10")
        time.sleep(1)  # a look of the budget
        # Files are looked at as the process maps them, downwards: the first loaded is the last.
        self.ask(target, f"dlopen {paths[0]}")
        for _ in range(40):
            self.ask(target, "library 2500")
            time.sleep(0.02)
        result = recorder.stop()
        names = result.trace().names()
        self.assertEqual({n for n in names if n.startswith("many_")}, {f"many_{i:02}" for i in range(70)})
        self.assertTrue(all(names[f"many_{i:02}"] == 10 for i in range(1, 70)), names)
        self.assertNothingLost(result.info())
        self.assertEqual(names["many_00"], 10 + 40 * 2500)
        self.assertEqual(self.warnings(result, "budget-function"), [])
        stuck, = self.warnings(result, "budget")
        self.assertIn("cannot be taken off", stuck)


class Calibration(RecipeCase):
    """What a hit costs is measured on the recorder itself, which is no part of the recording."""

    def test_the_recorder_does_not_show(self):
        for more in (["--ring-size", "64K"], ["--no-follow"], ["--comm", NAME], ["--uid", str(os.getuid())],
                     ["--retprobe"]):
            with self.subTest(more):
                target = self.target(NAME)
                recorder = self.watch(target, PLAIN, "-vv", *more, budget="50%",
                                      output=os.path.join(self.tmp(), "out" + "".join(more)))
                lib.wait_for(lambda: "a hit costs" in recorder.err.text(), "the measurement", seconds=10)
                self.ask(target, "inner 1")
                self.ask(target, "threads 20")
                result = recorder.stop()
                self.assertSpans(result.trace(), {"rt_inner": 21, "rt_exits": 20})
                self.assertNothingLost(result.info())
                self.assertEqual([p["pid"] for p in self.report(result)["targets"]["processes"]], [target.pid])
                cost, = [l for l in recorder.err.text().splitlines() if "a hit costs" in l]
                self.assertNotIn("0.00 us", cost)
                target.end()

    def test_nor_in_a_recording_of_the_machine(self):
        target = self.target(NAME)
        recorder = self.record(*self.options(PLAIN, budget="50%"))
        lib.wait_for(lambda: "a hit costs" in recorder.err.text(), "the measurement", seconds=10)
        self.ask(target, "inner 1")
        result = recorder.stop()
        self.assertEqual(result.trace().names(target.pid)["rt_inner"], 1)
        self.assertNotIn(recorder.pid, [p["pid"] for p in self.report(result)["targets"]["processes"]])
        self.assertNothingLost(result.info())

    def test_nor_while_a_busy_target_fills_a_small_ring(self):
        target = self.target(NAME)
        target.send("hot 2")
        target.result()
        recorder = self.watch(target, PLAIN, "--ring-size", "64K", budget="90%")
        lib.wait_for(lambda: "a hit costs" in recorder.err.text(), "the measurement", seconds=10)
        target.send("enough")
        target.result()
        result = recorder.stop()
        info = result.info()
        self.assertEqual(info.emitted, info.recorded + info.lost)
        report = self.report(result)
        self.assertEqual([p["pid"] for p in report["targets"]["processes"]], [target.pid])
        self.assertFalse([r for r in report["loss"]["rows"] if r["probe"] == "?"])
        self.assertFalse(any(w["code"] == "account" for w in report["warnings"]))


@lib.needs_root
class Service(test_service.ServiceCase):
    """A loader that a process starts for itself knows the recipes of its user, and measures what a hit costs."""

    def test_a_recipe_in_a_session(self):
        config = tempfile.mkdtemp(dir=self.scratch)
        os.makedirs(os.path.join(config, "clika-bpf-prof", "recipes"), 0o755)
        with open(os.path.join(config, "clika-bpf-prof", "recipes", "own.json"), "w", encoding="utf-8") as f:
            json.dump({"recipe": 1, "name": "own", "title": "A test's own", "records": "calls",
                       "libraries": [{"id": "l", "file": [NAME]}], "functions": PLAIN}, f)
        target = lib.Target(self, NAME)
        with unittest.mock.patch.dict(os.environ, {"XDG_CONFIG_HOME": config}):
            client = self.client("private")
        self.assertEqual(client.say(f"new pid {target.pid}"), "ok")
        first = client.say("begin one").split()[1]
        time.sleep(0.3)  # the measurement of what a hit costs is over
        for _ in range(30):
            target.send("inner 1")
            target.result()
        self.assertEqual(client.say(f"end {first}"), "ok")
        self.assertEqual(self.names(client), {"rt_inner": 30})
        self.assertIn("lost 0", client.say("stats"))
        out = os.path.join(self.scratch, "report.json")
        self.assertEqual(client.say(f"export report {out}"), "ok")
        with open(out, encoding="utf-8") as f:
            self.assertEqual([p["pid"] for p in json.load(f)["targets"]["processes"]], [target.pid])


if __name__ == "__main__":
    unittest.main()
