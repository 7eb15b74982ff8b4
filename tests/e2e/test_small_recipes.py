# SPDX-License-Identifier: Apache-2.0
"""The recipes for OpenMP and for large blocks of the C library, on programs that say what they did."""
import collections
import json
import os
import shutil
import subprocess
import unittest

import lib

OPENMP = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static double sum;
static void rounds(int n)
{
	static double v[1000];
	int r, i;

	for (r = 0; r < n; r++) {
		double s = 0;
#pragma omp parallel for num_threads(2)
		for (i = 0; i < 1000; i++)
			v[i] += i;
#pragma omp parallel reduction(+ : s)
		s += 1;
#pragma omp parallel for schedule(dynamic, 10) num_threads(3)
		for (i = 0; i < 1000; i++)
			v[i] *= 0.5;
		sum += s + v[r];
	}
}
int main(void)
{
	char line[64];

	rounds(1);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		rounds(40);
		printf("{\"rounds\": 40}\n");
		fflush(stdout);
	}
	return sum < 0;
}
"""

BLOCKS = r"""
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define MB (1ul << 20)
static void *volatile keep;
static void small_ones(void)
{
	int i;

	for (i = 0; i < 1000; i++) {
		keep = malloc(100 + i);
		free(keep);
		keep = calloc(100, 100);
		keep = realloc(keep, 200 * 1000);
		free(keep);
	}
}
int main(void)
{
	char line[64];

	mallopt(M_MMAP_THRESHOLD, MB); /* stays what it is, so that each large block is a mapping */
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		void *a = malloc(3 * MB), *b = calloc(2000, 1000), *c = malloc(5 * MB), *d = NULL, *m;

		small_ones();
		if (posix_memalign(&d, 64, 7 * MB))
			return 1;
		keep = a = realloc(a, 11 * MB); /* 3 free, 11 new */
		keep = b = realloc(b, 1000);    /* 2,000,000 free */
		m = mmap(NULL, 13 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		keep = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(keep, 4096);
		munmap(m, 13 * MB);
		free(c);
		free(d);
		free(b);
		printf("{\"left\": \"%p\"}\n", a);
		fflush(stdout);
	}
	return 0;
}
"""
MB = 1 << 20


@lib.needs_root
class SmallRecipesTest(lib.Case):
    def build(self, name, source, *flags, cc="gcc"):
        path = os.path.join(self.tmp(), name)
        with open(path + ".c", "w") as f:
            f.write(source)
        done = subprocess.run([cc, "-O1", "-fno-builtin", *flags, "-o", path, path + ".c"], capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stderr)
        return lib.Process(self, [path], ready="ready ", env={**os.environ, "OMP_NUM_THREADS": "2"})

    def go(self, target):
        target.send("go")
        return target.result()

    def test_parallel_regions_with_the_threads_that_were_asked_for(self):
        if not shutil.which("gcc"):
            self.skipTest("no gcc")
        target = self.build("regions", OPENMP, "-fopenmp")
        recorder = self.record("-p", target.pid, "--recipe", "openmp", "--budget", "off")
        self.go(target)
        spans = [s for s in recorder.stop().trace().spans if s.cat == "openmp"]
        self.assertEqual(collections.Counter((s.name, str(s.args["threads"])) for s in spans),
                         {("omp parallel", "2"): 40, ("omp parallel", "default"): 40, ("omp parallel", "3"): 40})
        self.assertEqual({s.tid for s in spans}, {target.pid})

    def test_parallel_regions_only_when_they_are_asked_for(self):
        if not shutil.which("gcc"):
            self.skipTest("no gcc")
        target = self.build("regions", OPENMP, "-fopenmp")
        recorder = self.record("-p", target.pid, "--probe", "libgomp*:GOMP_parallel", "--budget", "off")
        self.go(target)
        names = recorder.stop().trace().names()
        self.assertIn("GOMP_parallel", names)
        self.assertNotIn("omp parallel", names)

    def test_barriers_only_when_they_are_asked_for(self):
        if not shutil.which("gcc"):
            self.skipTest("no gcc")
        target = self.build("regions", OPENMP, "-fopenmp")
        recorder = self.record("-p", target.pid, "--no-auto", "--recipe", "openmp:all", "--budget", "off")
        self.go(target)
        names = recorder.stop().trace().names()
        self.assertEqual(names["omp parallel"], 120)

    def test_large_blocks_to_the_byte(self):
        target = self.build("blocks", BLOCKS)
        recorder = self.record("-p", target.pid, "--recipe", "libc-memory", "--budget", "off")
        self.go(target)
        result = recorder.stop()
        self.assertNothingLost(result.info())
        with open(result.path("memory_stats.json")) as f:
            device, = json.load(f)["devices"]
        pool, = (p for p in device["pools"] if p["pool"] == "malloc")
        # The block that realloc made small is known, so its 1,000 bytes count.
        self.assertEqual((pool["allocated"]["count"], pool["allocated"]["bytes"]), (6, (3 + 5 + 7 + 11) * MB + 2001000))
        self.assertEqual((pool["freed"]["count"], pool["freed"]["bytes"]), (5, (3 + 5 + 7) * MB + 2001000))
        self.assertEqual(pool["current_bytes"], 11 * MB)
        # Mappings: the one of the program, and those that malloc makes for large blocks, a page or two larger.
        reserved = device["reserved"]
        own = (3 + 5 + 7 + 13) * MB + 2000000
        self.assertEqual((reserved["taken"]["count"], reserved["given_back"]["count"]), (5, 4))
        self.assertTrue(own <= reserved["taken"]["bytes"] <= own + 5 * 12288, reserved)


if __name__ == "__main__":
    unittest.main()
