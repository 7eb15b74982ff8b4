/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the measured programs share. Each prints "ready PID" and obeys lines on stdin:
 *   run KIND N   measures N operations of a kind and prints nanoseconds an operation
 *   quit
 * An operation's cost is the median over chunks, so that one preemption does not count.
 */
#ifndef CLIKA_BENCH_BENCH_H
#define CLIKA_BENCH_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BENCH_CHUNK_MAX 4096u
#define BENCH_CHUNK_NS 300000 /* short enough that most are never preempted on a busy machine */

static inline uint64_t bench__now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline int bench__compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What the loop costs by itself is in every kind, so differences are the operation's. */
#define BENCH_BARRIER() __asm__ volatile("" ::: "memory")

typedef void (*bench_fn)(uint64_t n);

static inline uint64_t bench__chunk(bench_fn fn)
{
	uint64_t t0 = bench__now(), ns, chunk;

	fn(64);
	ns = bench__now() - t0;
	chunk = ns ? 64 * (uint64_t)BENCH_CHUNK_NS / ns : BENCH_CHUNK_MAX;
	return chunk < 64 ? 64 : chunk > BENCH_CHUNK_MAX ? BENCH_CHUNK_MAX : chunk;
}

static inline double bench__run(bench_fn fn, uint64_t n)
{
	uint64_t chunk = bench__chunk(fn);
	size_t chunks = (size_t)(n / chunk) + 1;
	double *ns = calloc(chunks, sizeof(*ns)), median;

	if (!ns)
		exit(1);
	for (size_t i = 0; i < chunks; i++) {
		uint64_t t0 = bench__now();

		fn(chunk);
		ns[i] = (double)(bench__now() - t0) / (double)chunk;
	}
	qsort(ns, chunks, sizeof(*ns), bench__compare);
	median = ns[chunks / 2];
	free(ns);
	return median;
}

#endif
