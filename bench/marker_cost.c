/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a marker costs in the target alone: disabled, over an empty loop; enabled and batched
 * with nobody attached, over two clock readings. Rounds are interleaved, medians count, so
 * that a machine with neighbours gives the same ratios as a quiet one.
 *
 * Prints one line a figure: name, value, unit.
 */
#include <clika/markers.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 31
#define LOOPS 200000u

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Keeps a loop a loop without giving it anything to do. */
#define KEEP(i) __asm__ volatile("" : "+r"(i) : : "memory")

static __attribute__((noinline)) void empty(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		KEEP(i);
}

static __attribute__((noinline)) void clocks(unsigned int n)
{
	struct timespec ts;

	for (unsigned int i = 0; i < n; i++) {
		KEEP(i);
		clock_gettime(CLOCK_BOOTTIME, &ts);
		clock_gettime(CLOCK_BOOTTIME, &ts);
	}
}

static __attribute__((noinline)) void span(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		CLIKA_SPAN("span");
		KEEP(i);
	}
}

static __attribute__((noinline)) void span_args(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		CLIKA_SPAN("span", CLIKA_I64("i", i), CLIKA_STR("s", "some text"));
		KEEP(i);
	}
}

static __attribute__((noinline)) void instant(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		CLIKA_INSTANT("instant");
		KEEP(i);
	}
}

static __attribute__((noinline)) void counter(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		CLIKA_COUNTER_I64("counter", i);
		KEEP(i);
	}
}

struct row {
	const char *name;
	void (*run)(unsigned int n);
	int enabled;
	double ns[ROUNDS];
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(struct row *r)
{
	qsort(r->ns, ROUNDS, sizeof(r->ns[0]), by_value);
	return r->ns[ROUNDS / 2];
}

int main(void)
{
	static struct row rows[] = {
		{ "empty_loop", empty, 0, { 0 } },    { "disabled_instant", instant, 0, { 0 } },
		{ "disabled_span", span, 0, { 0 } },  { "disabled_span_args", span_args, 0, { 0 } },
		{ "two_clocks", clocks, 0, { 0 } },   { "span", span, 1, { 0 } },
		{ "span_args", span_args, 1, { 0 } }, { "instant", instant, 1, { 0 } },
		{ "counter", counter, 1, { 0 } },
	};
	const size_t n = sizeof(rows) / sizeof(rows[0]);
	double base, clock;

	for (int round = -1; round < ROUNDS; round++) {
		for (size_t i = 0; i < n; i++) {
			uint64_t t;

			clika_semaphore_v1 = (uint16_t)rows[i].enabled;
			t = now_ns();
			rows[i].run(LOOPS);
			t = now_ns() - t;
			clika_semaphore_v1 = 0;
			if (round >= 0)
				rows[i].ns[round] = (double)t / LOOPS;
		}
	}
	for (size_t i = 0; i < n; i++)
		printf("%s %.3f ns\n", rows[i].name, median(&rows[i]));
	base = rows[0].ns[ROUNDS / 2];
	clock = rows[4].ns[ROUNDS / 2] - base;
	printf("disabled_over_empty %.3f ns\n", rows[1].ns[ROUNDS / 2] - base);
	printf("span_over_clocks %.3f ratio\n", (rows[5].ns[ROUNDS / 2] - base) / clock);
	return 0;
}
