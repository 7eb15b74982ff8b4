/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What our markers cost their target: built with each transport.
 *   run KIND N           clock, empty, instant or span; see bench.h
 *   pace THREADS RATE N  N spans in all at RATE a second (0: flat out); prints how many there were
 */
#include <pthread.h>

#include <clika/markers.h>

#include "bench.h"

static volatile uint64_t sink;

static void clock_pair(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct timespec a, b;

		clock_gettime(CLOCK_BOOTTIME, &a);
		BENCH_BARRIER();
		clock_gettime(CLOCK_BOOTTIME, &b);
		sink = (uint64_t)(a.tv_nsec + b.tv_nsec);
	}
}

static void empty(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		BENCH_BARRIER();
}

static void instant(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		CLIKA_INSTANT("tick");
		BENCH_BARRIER();
	}
}

static void span(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		CLIKA_SPAN("step");
		BENCH_BARRIER();
	}
}

static const struct {
	const char *name;
	bench_fn fn;
} kinds[] = {
	{ "clock", clock_pair }, { "empty", empty }, { "instant", instant }, { "span", span }
};

struct pacer {
	pthread_t thread;
	uint64_t spans, rate;
};

/* A millisecond's worth at a time: what a rate means to a ring buffer. */
static void *pace(void *arg)
{
	struct pacer *p = arg;
	uint64_t t0 = bench__now(), done = 0;

	while (done < p->spans) {
		uint64_t due = p->spans;

		if (p->rate) {
			uint64_t ms = (bench__now() - t0) / 1000000 + 1;

			due = ms * p->rate / 1000;
			if (due > p->spans)
				due = p->spans;
		}
		span(due - done);
		done = due;
		if (p->rate) {
			uint64_t next = t0 + done * 1000000000ull / p->rate, now = bench__now();

			if (next > now)
				usleep((unsigned)((next - now) / 1000));
		}
	}
	return NULL;
}

static uint64_t pace_all(unsigned threads, uint64_t rate, uint64_t spans)
{
	struct pacer pacers[64];

	if (!threads || threads > 64)
		return 0;
	for (unsigned t = 0; t < threads; t++) {
		pacers[t] = (struct pacer){ .spans = spans / threads, .rate = rate / threads };
		if (pthread_create(&pacers[t].thread, NULL, pace, &pacers[t]))
			exit(1);
	}
	for (unsigned t = 0; t < threads; t++)
		pthread_join(pacers[t].thread, NULL);
	return spans / threads * threads;
}

int main(void)
{
	unsigned long long n, rate;
	char line[128], kind[64];
	unsigned threads;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "run %63s %llu", kind, &n) == 2) {
			for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
				if (!strcmp(kind, kinds[i].name))
					printf("%.3f\n", bench__run(kinds[i].fn, n));
		} else if (sscanf(line, "pace %u %llu %llu", &threads, &rate, &n) == 3) {
			printf("%llu\n", (unsigned long long)pace_all(threads, rate, n));
		} else if (!strncmp(line, "quit", 4)) {
			break;
		}
	}
	return 0;
}
