# SPDX-License-Identifier: Apache-2.0
"""Markers of another provider, as <sys/sdt.h> makes them: every hit once, every argument right."""
import collections
import os
import shutil
import unittest

import lib

ROUNDS = 120


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def expected_integers(i):
    return [signed(-i, 8), 255 - i % 100, signed(-300 - i, 16), (40000 + i) & 0xffff, -70000 - i,
            (4000000000 + i) & 0xffffffff, -(1 << 40) - i, (1 << 63) + i]


def expected_memory(i):
    k = i % 4
    return [1 << (60 - k), -1000 - k, 65535 - k, -128 + k]


class Hits:
    """Instant events of a trace by marker name, in time order, with their arguments in order."""

    def __init__(self, trace):
        self.by_name = collections.defaultdict(list)
        events = [e for e in trace.events if e["ph"] in ("i", "I", "X")]
        for e in sorted(events, key=lambda e: lib._ns(e["ts"])):
            name = e["name"].split(":")[-1]
            self.by_name[name].append(self.values(e))

    @staticmethod
    def values(event):
        args = event.get("args", {})
        keys = sorted((k for k in args if k.startswith("arg")), key=lambda k: int(k[3:]))
        return [int(args[k]) for k in keys]

    def counts(self):
        return {k: len(v) for k, v in self.by_name.items()}


@lib.needs_root
class UsdtTest(lib.Case):
    def check(self, path, *options):
        target = lib.Target(self, path, "--rounds", ROUNDS, "--stay")
        recorder = self.record("-p", target.pid, "--usdt", "acme:*", *options)
        said = target.run()
        result = recorder.stop()
        target.end()
        hits = Hits(result.trace())
        checksum = said.pop("checksum")
        self.assertEqual(hits.counts(), said)
        self.assertNothingLost(result.info())
        self.assertEqual(hits.by_name["integers"], [expected_integers(i) for i in range(ROUNDS)])
        self.assertEqual(hits.by_name["constants"], [[42, -7, 0x7fffffffffffffff, 200]] * ROUNDS)
        self.assertEqual(hits.by_name["memory"], [expected_memory(i) for i in range(ROUNDS)])
        self.assertEqual(hits.by_name["none"], [[]] * ROUNDS)
        self.assertEqual([v[1] for v in hits.by_name["inlined"]], [1, 2, 3] * ROUNDS)
        self.assertEqual([v[0] for v in hits.by_name["inlined"]],
                         [x for i in range(ROUNDS) for x in (i, i + 1, i ^ 0xff)])
        self.assertEqual([v[1] for v in hits.by_name["text"]], list(range(ROUNDS)))
        # Events carry at most eight arguments.
        self.assertEqual([v[:8] for v in hits.by_name["twelve"]],
                         [list(range(i, i + 8)) for i in range(ROUNDS)])
        return checksum

    def test_arguments_of_unguarded_markers_are_right(self):
        self.check(lib.fixture("sdt_plain"))

    def test_arguments_of_guarded_markers_are_right_and_semaphores_return(self):
        path = lib.fixture("sdt_guarded")
        target = self.target("sdt_guarded", "--stay")
        self.assertEqual(set(lib.semaphores(target.pid, path)), {0})
        recorder = self.record("-p", target.pid, "--usdt", "acme:*")
        self.assertNotIn(0, lib.semaphores(target.pid, path))
        recorder.stop()
        self.assertEqual(set(lib.semaphores(target.pid, path)), {0})
        target.end()
        shutil.rmtree(recorder.dir)
        self.check(path)

    def test_arguments_are_right_for_every_compiler_and_level(self):
        for cc in filter(shutil.which, ("gcc", "clang")):
            for flags in (["-O0"], ["-O1"], ["-O3", "-funroll-loops"], ["-Os"], ["-O2", "-flto"],
                          ["-O2", "-no-pie", "-fno-pie"], ["-O0", "-fomit-frame-pointer"]):
                if cc == "clang" and "-flto" in flags:
                    continue  # needs a linker plugin that not every machine has
                with self.subTest(cc=cc, flags=flags):
                    checksum = self.check(self.compile("sdt_plain.c", "variant", *flags, cc=cc))
                    plain = lib.Target(self, os.path.join(self.tmp(), "variant"), "--now",
                                       "--rounds", ROUNDS).result()
                    self.assertEqual(plain["checksum"], checksum)
                    shutil.rmtree(os.path.join(self.tmp(), "out"))

    def test_only_the_markers_that_were_asked_for_are_recorded(self):
        target = self.target("sdt_plain", "--rounds", 10, "--stay")
        recorder = self.record("-p", target.pid, "--usdt", "acme:in*")
        said = target.run()
        hits = Hits(recorder.stop().trace())
        self.assertEqual(hits.counts(), {"integers": 10, "inlined": said["inlined"]})

    def test_list_shows_markers_of_every_provider_when_asked(self):
        target = self.target("sdt_plain", "--stay")
        text = lib.tool("list", "-p", target.pid, "--all-providers", "--markers").stdout
        for name in ("integers", "constants", "inlined", "memory", "text", "none", "twelve"):
            self.assertIn(f"acme:{name}", text)


if __name__ == "__main__":
    unittest.main()
