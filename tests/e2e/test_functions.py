# SPDX-License-Identifier: Apache-2.0
"""Function probes: exact counts and nesting, and targets that notice nothing of them."""
import collections
import json
import os
import shutil
import subprocess
import unittest

import lib

SMALL = """
#include <stdio.h>
#include <unistd.h>
void small_empty(void);
long small_work(long n);
void *small_api(void) { return 0; }
__attribute__((noinline)) void small_empty(void) { __asm__ volatile(""); }
__attribute__((noinline)) long small_work(long n) { volatile long sum = 0; while (n--) sum += n; return sum; }
int main(void)
{
	char line[64];
	printf("ready %d\\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 0; i < 10; i++) {
			small_empty();
			small_work(1000);
		}
		printf("{\\"calls\\": 10}\\n");
		fflush(stdout);
	}
	return small_api() != 0;
}
"""

NO_TABLE = """{ "recipe": 1, "name": "no-table", "libraries": [ { "id": "small", "file": "small" } ],
  "tables": [ { "name": "api", "getter": "small_api", "slots": { "0": "first" } } ],
  "functions": [ { "match": "first", "table": "api" } ] }"""
OTHER = """{ "recipe": 1, "name": "other", "libraries": [ { "id": "small", "file": "small" } ],
  "functions": [ { "match": "small_*", "name": "other $1" } ] }"""

WORK = """
import re
def f(n):
    try:
        if n % 7 == 0:
            raise ValueError(n)
        return repr({"a": [n, str(n), {"b": n / 3}]})
    except ValueError as e:
        return str(e)
for i in range(100):
    f(i); re.sub(r"(\\d+)", lambda m: m[1][::-1], "abc 123 def 456"); sorted(range(20, 0, -1)); "%s-%d" % ("x", i)
"""


def counts(said):
    return {k: v for k, v in said.items() if k not in ("checksum", "caught", "jumped")}


@lib.needs_root
class FunctionTest(lib.Case):
    def unrecorded(self, path, *args):
        return lib.Target(self, path, "--now", *args).result()

    def test_counts_every_call_of_a_running_process_exactly(self):
        target = self.target("func_target", "--rounds", 1000, "--stay")
        recorder = self.record("-p", target.pid, "--probe", "func_target:ft_*")
        said = target.run()
        result = recorder.stop()
        trace = result.trace()
        self.assertSpans(trace, counts(said))
        self.assertNothingLost(result.info())
        self.assertNests(trace.spans)

    def test_recursion_nests_to_its_depth(self):
        target = self.target("func_target", "--rounds", 20, "--depth", 15, "--stay")
        recorder = self.record("-p", target.pid, "--probe", "func_target:ft_recurse")
        target.run()
        spans = recorder.stop().trace().spans
        self.assertEqual(len(spans), 20 * 16)
        depths, stack = collections.Counter(), []
        for s in sorted(spans, key=lambda s: (s.ts, -s.dur)):
            while stack and stack[-1] <= s.ts:
                stack.pop()
            depths[len(stack)] += 1
            stack.append(s.ts + s.dur)
        self.assertEqual(depths, {d: 20 for d in range(16)})

    def test_children_lie_in_their_callers(self):
        target = self.target("func_target", "--rounds", 50, "--stay")
        recorder = self.record("-p", target.pid, "--probe", "func_target:ft_nested",
                               "--probe", "func_target:ft_leaf")
        said = target.run()
        spans = recorder.stop().trace().spans
        outer = [s for s in spans if s.name == "ft_nested"]
        inner = [s for s in spans if s.name == "ft_leaf"]
        self.assertEqual((len(outer), len(inner)), (said["ft_nested"], said["ft_leaf"]))
        for o in outer:
            inside = [i for i in inner if o.ts <= i.ts and i.ts + i.dur <= o.ts + o.dur]
            self.assertEqual(len(inside), 2, o)

    def test_the_rare_half_of_a_partitioned_function_belongs_to_it(self):
        target = self.target("func_target", "--rounds", 160, "--stay")
        recorder = self.record("-p", target.pid, "--probe", "func_target:ft_partitioned",
                               "--probe", "func_target:ft_rare")
        said = target.run()
        spans = recorder.stop().trace().spans
        outer = [s for s in spans if s.name == "ft_partitioned"]
        inner = [s for s in spans if s.name == "ft_rare"]
        self.assertEqual((len(outer), len(inner)), (said["ft_partitioned"], said["ft_rare"]))
        for i in inner:
            self.assertTrue([o for o in outer if o.ts <= i.ts and i.ts + i.dur <= o.ts + o.dur], i)

    def test_results_are_bit_identical_for_every_compiler_and_level(self):
        for cc in filter(shutil.which, ("gcc", "clang")):
            for flags in (["-O0"], ["-O1"], ["-O3"], ["-Os"], ["-O2", "-fcf-protection=full"],
                          ["-O2", "-no-pie", "-fno-pie"], ["-O2", "-fno-omit-frame-pointer"]):
                with self.subTest(cc=cc, flags=flags):
                    path = self.compile("func_target.c", "variant", *flags, cc=cc)
                    plain = self.unrecorded(path, "--rounds", 200)
                    target = lib.Target(self, path, "--rounds", 200, "--stay")
                    recorder = lib.Recorder(self, "-p", target.pid, "--probe", "variant:ft_*",
                                            output=os.path.join(self.tmp(), f"{cc}{''.join(flags)}"))
                    recorder.wait_started()
                    said = target.run()
                    result = recorder.stop()
                    target.end()
                    self.assertEqual(said, plain)
                    self.assertSpans(result.trace(), counts(said))

    def test_exceptions_through_probed_functions_are_caught_where_they_were(self):
        plain = self.unrecorded(lib.fixture("throwing"), "--rounds", 600)
        target = self.target("throwing", "--rounds", 600)
        recorder = self.record("-p", target.pid, "--probe", "throwing:th_*")
        said = target.run()
        self.assertEqual(target.wait(), 0)
        result = recorder.stop()
        self.assertEqual(said, plain)
        self.assertEqual(said["caught"], 200)
        trace = result.trace()
        self.assertSpans(trace, counts(said))
        self.assertNothingLost(result.info())
        self.assertNests(trace.spans)

    def test_frames_left_by_an_exception_are_closed_before_the_next_call(self):
        target = self.target("throwing", "--rounds", 300)
        recorder = self.record("-p", target.pid, "--probe", "throwing:th_*")
        target.run()
        target.wait()
        spans = recorder.stop().trace().spans
        roots = sorted((s for s in spans if s.name == "th_catches"), key=lambda s: s.ts)
        for a, b in zip(roots, roots[1:]):
            self.assertLessEqual(a.ts + a.dur, b.ts)
        walks = [s for s in spans if s.name == "th_walks"]
        for w in walks:
            inside = [s for s in spans if s.name != "th_walks" and s.ts <= w.ts and w.ts + w.dur <= s.ts + s.dur]
            self.assertEqual(inside, [], "th_walks is called by main alone")

    def test_functions_left_by_longjmp_hold_no_later_spans(self):
        plain = self.unrecorded(lib.fixture("longjmper"), "--rounds", 200)
        target = self.target("longjmper", "--rounds", 200)
        recorder = self.record("-p", target.pid, "--probe", "longjmper:lj_*")
        said = target.run()
        self.assertEqual(target.wait(), 0)
        result = recorder.stop()
        self.assertEqual(said, plain)
        spans = result.trace().spans
        self.assertEqual(dict(collections.Counter(s.name for s in spans)), counts(said))
        inner = [s for s in spans if s.name in ("lj_inner", "lj_jumps")]
        outer = [s for s in spans if s.name == "lj_outer"]
        for after in (s for s in spans if s.name == "lj_after"):
            self.assertFalse([i for i in inner if i.ts <= after.ts < i.ts + i.dur], after)
            self.assertEqual(len([o for o in outer if o.ts <= after.ts and
                                  after.ts + after.dur <= o.ts + o.dur]), 1, after)

    def test_a_command_is_recorded_from_its_first_call(self):
        recorder = self.record("--probe", "func_target:ft_*", "--", lib.fixture("func_target"), "--now",
                               "--rounds", 100, started=False)
        self.assertEqual(recorder.wait(), 0, recorder.err.text())
        expected = self.unrecorded(lib.fixture("func_target"), "--rounds", 100)
        self.assertSpans(recorder.load().trace(), counts(expected))

    def test_a_second_process_of_the_same_program_is_not_recorded(self):
        target = self.target("func_target", "--rounds", 50, "--stay")
        stranger = self.target("func_target", "--rounds", 5000, "--stay")
        recorder = self.record("-p", target.pid, "--probe", "func_target:ft_*")
        stranger.run()
        said = target.run()
        trace = recorder.stop().trace()
        self.assertEqual(trace.pids(), {target.pid})
        self.assertSpans(trace, counts(said))

    def test_a_stripped_program_says_so(self):
        path = os.path.join(self.tmp(), "stripped")
        shutil.copy(lib.fixture("func_target"), path)
        subprocess.run(["strip", "--strip-all", path], check=True)
        target = lib.Target(self, path, "--stay")
        recorder = self.record("-p", target.pid, "--probe", "stripped:ft_*")
        target.run()
        recorder.stop()
        self.assertIn("stripped", recorder.err.text().replace(path, ""))

    def small(self):
        path = os.path.join(self.tmp(), "small")
        subprocess.run(["cc", "-O2", "-x", "c", "-o", path, "-"], input=SMALL, text=True, check=True)
        return lib.Process(self, [path], ready="ready ")

    def call(self, process):
        process.send("go")
        self.assertEqual(process.result()["calls"], 10)

    def test_a_function_without_an_end_of_its_own_is_left_out(self):
        """A place takes one probe: calls of a function that is one instruction would seem to last long."""
        target = self.small()
        recorder = self.record("-p", target.pid, "--probe", "small:small_*")
        self.call(target)
        trace = recorder.stop().trace()
        self.assertEqual(dict(trace.names(target.pid)), {"small_work": 10})
        self.assertRegex(recorder.err.text(), "small_empty: its first instruction is its last")

    def test_a_recipe_that_fails_takes_nothing_else_with_it(self):
        target = self.small()
        recipes = []
        for name, text in (("no-table", NO_TABLE), ("other", OTHER)):
            recipes += ["--recipe", os.path.join(self.tmp(), name + ".json")]
            with open(recipes[-1], "w") as f:
                f.write(text)
        recorder = self.record("-p", target.pid, "--probe", "small:main", *recipes)
        self.call(target)
        trace = recorder.stop().trace()
        self.assertEqual(dict(trace.names(target.pid)), {"other work": 10})
        self.assertIn("recipe no-table: ", recorder.err.text())

    def test_a_glob_that_matches_nothing_is_named(self):
        """A library that is loaded later might still match: a warning, not an error."""
        target = self.target("func_target", "--stay")
        recorder = self.record("-p", target.pid, "--probe", "func_target:no_such_function")
        target.run()
        result = recorder.stop()
        self.assertIn("func_target:no_such_function", recorder.err.text())
        self.assertIn("func_target:no_such_function", result.summary())

    def test_return_probes_count_the_same_where_nothing_throws(self):
        target = self.target("func_target", "--rounds", 100, "--stay")
        recorder = self.record("-p", target.pid, "--retprobe", "--probe", "func_target:ft_nested",
                               "--probe", "func_target:ft_recurse")
        self.assertIn("exception", recorder.err.text())  # the danger is named
        said = target.run()
        result = recorder.stop()
        self.assertSpans(result.trace(), {k: said[k] for k in ("ft_nested", "ft_recurse")})
        self.assertNothingLost(result.info())

    def test_every_function_of_an_interpreter_begins_and_ends_as_often_as_with_return_probes(self):
        """Thousands of functions as compilers write them: loops, switches, cold parts, early returns."""
        python = os.path.realpath("/usr/bin/python3")
        program = os.path.basename(python)
        found = []
        for more in ((), ("--retprobe",)):
            recorder = self.record("--budget", "off", "--ring-size", "64M", "--force", *more,
                                   "--probe", program + ":Py*", "--probe", program + ":_Py*", "--", python, "-S", "-c", WORK)
            self.assertEqual(recorder.wait(120), 0, recorder.err.text())
            result = recorder.load()
            self.assertNothingLost(result.info())
            with open(result.path("report.json")) as f:
                report = json.load(f)
            found.append({op["name"]: op["calls"] for op in report["ops"]})
            if not more:  # without it functions that never return are left out
                self.assertEqual(set(report["repaired"].values()), {0}, report["repaired"])
        # Functions that are refused for their code have a return probe all the same.
        early, returns = found
        self.assertGreater(len(early), 300)
        self.assertGreater(sum(early.values()), 50_000)
        self.assertEqual(early, {name: returns.get(name) for name in early})


if __name__ == "__main__":
    unittest.main()
