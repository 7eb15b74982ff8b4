/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of the batched transport: near the kernel's, never stepping back, given up when wrong. */
#include <setjmp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests/markers/watch.h"

/* A reading that lies outside of two of the kernel's around it by more than this is wrong. */
#define APART_NS 500

static uint64_t kernels(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void rest_ms(long ms)
{
	struct timespec ts = { 0, ms * 1000000 };

	nanosleep(&ts, NULL);
}

/* Compares with the kernel's for @ms: readings back to back, then a rest, as a runtime marks. */
static void compare(int ms)
{
	uint64_t end = kernels() + (uint64_t)ms * 1000000, before = 0, now, after = 0, last = 0;
	int n = 0;

	while (after < end) {
		before = kernels();
		now = n & 1 ? clika__now() : clika__now_after();
		after = kernels();
		if (now + APART_NS < before || now > after + APART_NS || now + APART_NS < last) {
			fprintf(stderr, "%llu, but between %llu and %llu, last %llu\n",
				(unsigned long long)now, (unsigned long long)before,
				(unsigned long long)after, (unsigned long long)last);
			__atomic_fetch_add(&watch__failures, 1, __ATOMIC_RELAXED);
			return;
		}
		last = now;
		if (++n % 5000 == 0)
			rest_ms(n % 7);
	}
}

static void *compare_moving(void *arg)
{
	cpu_set_t all, one;

	(void)arg;
	if (sched_getaffinity(0, sizeof(all), &all))
		return NULL;
	for (int i = 0; i < 40; i++) {
		CPU_ZERO(&one);
		CPU_SET(i % CPU_SETSIZE, &one);
		CPU_AND(&one, &one, &all);
		if (CPU_COUNT(&one))
			sched_setaffinity(0, sizeof(one), &one);
		compare(10);
	}
	return NULL;
}

static void tells_the_kernels_time(void **state)
{
	pthread_t threads[3];

	(void)state;
	watch__failures = 0;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, compare_moving, NULL), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(watch__failures, 0);
}

static void spans_follow_each_other_body(void)
{
	uint64_t last = 0;

	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 400; i++) {
			CLIKA_SPAN("step");
		}
		CLIKA_INSTANT("tick");
		CHECK(watch__collect() == 401);
		for (int i = 0; i < 401; i++) {
			CHECK(watch__mark[i].ts >= last);
			last = watch__mark[i].ts;
			if (watch__mark[i].kind != CLIKA_REC_SPAN)
				continue;
			CHECK(watch__mark[i].end >= last);
			last = watch__mark[i].end;
		}
		watch__forget();
	}
}

static void spans_follow_each_other(void **state)
{
	(void)state;
	assert_int_equal(watch__run(spans_follow_each_other_body), 0);
}

/* What one thread has told, another sees, and marks later: never at an earlier time. */
static volatile uint64_t told, turn;

static void *answer(void *arg)
{
	uint64_t mine = (uint64_t)(uintptr_t)arg, seen, now;

	for (int i = 0; i < 20000; i++) {
		while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) % 2 != mine)
			sched_yield();
		seen = told;
		now = clika__now_after();
		if (now + APART_NS < seen)
			__atomic_fetch_add(&watch__failures, 1, __ATOMIC_RELAXED);
		told = clika__now_after();
		__atomic_store_n(&turn, turn + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void threads_agree(void **state)
{
	pthread_t threads[2];

	(void)state;
	watch__failures = 0;
	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, answer, (void *)i), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(watch__failures, 0);
}

static void child_tells_the_kernels_time(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	compare(30);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		watch__failures = 0;
		compare(30);
		_exit(watch__failures != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void on_alarm(int sig)
{
	int failures = watch__failures;

	(void)sig;
	compare(0);
	clika__now();
	if (watch__failures != failures)
		_exit(1);
}

static void handlers_may_read_it(void **state)
{
	struct sigaction sa = { .sa_handler = on_alarm }, old;
	timer_t timer;
	struct itimerspec often = { { 0, 100000 }, { 0, 100000 } };

	(void)state;
	watch__failures = 0;
	assert_int_equal(sigaction(SIGALRM, &sa, &old), 0);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, NULL, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &often, NULL), 0);
	compare(300);
	timer_delete(timer);
	sigaction(SIGALRM, &old, NULL);
	assert_int_equal(watch__failures, 0);
}

#if defined(__x86_64__) && !defined(CLIKA_NO_TSC)

/* A counter of 2 ticks a ns that has just proved steady at tick 1 << 40, where it was 1 << 39 ns. */
#define TSC0 (1ull << 40)
#define NS0 (1ull << 39)
#define HALF (1ull << 31) /* ns a tick */

static struct clika_clock steady(void)
{
	struct clika_clock c = { .state = CLIKA__WARMING,
				 .old_tsc = TSC0 - CLIKA__RATE_TICKS,
				 .old_ns = NS0 - CLIKA__RATE_TICKS / 2 };

	assert_true(clika__clock_take(&c, TSC0, NS0) == NS0);
	assert_int_equal(c.state, CLIKA__STEADY);
	assert_true(c.rate == HALF && c.tsc == TSC0 && c.ns == NS0);
	return c;
}

static void rate_comes_from_two_readings_that_lie_apart(void **state)
{
	struct clika_clock c = { .state = CLIKA__WARMING, .old_tsc = TSC0, .old_ns = NS0 };

	(void)state;
	assert_true(clika__clock_take(&c, TSC0 + 1000, NS0 + 500) == NS0 + 500);
	assert_int_equal(c.state, CLIKA__WARMING);
	assert_true(c.rate == 0);
	steady();
	/* Days between: too far to divide, so it begins anew. */
	assert_true(clika__clock_take(&c, TSC0 + (1ull << 50), NS0 + (1ull << 49)) ==
		    NS0 + (1ull << 49));
	assert_int_equal(c.state, CLIKA__WARMING);
	assert_true(c.old_tsc == TSC0 + (1ull << 50));
}

static void counter_that_is_too_slow_is_refused(void **state)
{
	struct clika_clock c = { .state = CLIKA__WARMING, .old_tsc = TSC0, .old_ns = NS0 };

	(void)state;
	clika__clock_take(&c, TSC0 + CLIKA__RATE_TICKS, NS0 + 20ull * CLIKA__RATE_TICKS);
	assert_int_equal(c.state, CLIKA__REFUSED);
	assert_true(c.rate == 0);
}

static void reading_that_agrees_is_taken(void **state)
{
	struct clika_clock c = steady();
	uint64_t ticks = CLIKA__TICKS + 100, ns = NS0 + ticks / 2 + 40;

	(void)state;
	assert_true(clika__clock_take(&c, TSC0 + ticks, ns) == ns);
	assert_true(c.tsc == TSC0 + ticks && c.ns == ns && c.rate == HALF);
}

static void no_time_is_before_one_that_was_told(void **state)
{
	struct clika_clock c = steady();
	uint64_t ticks = CLIKA__TICKS + 2, last = NS0 + CLIKA__TICKS / 2;

	(void)state;
	assert_true(clika__clock_take(&c, TSC0 + ticks, NS0 + ticks / 2 - 60) == last);
	assert_true(c.tsc == TSC0 + ticks && c.ns == last);
	assert_int_equal(c.state, CLIKA__STEADY);
}

static void reading_that_disagrees_ends_it(void **state)
{
	static const int64_t off[] = { 1000, -1000, 1000000000 };

	(void)state;
	for (unsigned int i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		struct clika_clock c = steady();
		uint64_t ticks = CLIKA__TICKS + 100, ns = NS0 + ticks / 2 + (uint64_t)off[i];

		assert_true(clika__clock_take(&c, TSC0 + ticks, ns) == ns);
		assert_int_equal(c.state, CLIKA__REFUSED);
		assert_true(c.rate == 0);
	}
}

static void counter_that_was_set_back_is_refused(void **state)
{
	struct clika_clock c = steady();

	(void)state;
	assert_true(clika__clock_take(&c, TSC0 / 2, NS0 + 1000000) == NS0 + 1000000);
	assert_int_equal(c.state, CLIKA__REFUSED);
	/* Another processor's reading, just before the one that was taken, is not that. */
	c = steady();
	assert_true(clika__clock_take(&c, TSC0 - 50, NS0 - 25) == NS0 - 25);
	assert_int_equal(c.state, CLIKA__STEADY);
	assert_true(c.tsc == TSC0 && c.ns == NS0);
}

static void sleep_of_the_machine_does_not_change_the_rate(void **state)
{
	struct clika_clock c = steady();
	uint64_t ticks = 64ull * CLIKA__TICKS + CLIKA__RATE_TICKS, ns = NS0 + 1500000000;

	(void)state;
	assert_true(clika__clock_take(&c, TSC0 + ticks, ns) == ns);
	assert_int_equal(c.state, CLIKA__STEADY);
	assert_true(c.tsc == TSC0 + ticks && c.ns == ns && c.rate == HALF);
}

static void rate_follows_a_clock_that_is_slewed(void **state)
{
	struct clika_clock c = steady();
	uint64_t ticks = CLIKA__RATE_TICKS, ns = NS0 + ticks / 2 + ticks / 10000;

	(void)state;
	assert_true(clika__clock_take(&c, TSC0 + ticks, ns) == ns);
	assert_int_equal(c.state, CLIKA__STEADY);
	assert_true(c.rate > HALF && c.rate < HALF + HALF / 4000);
}

static void faster_thread_has_set_it(void **state)
{
	struct clika_clock c = steady();

	(void)state;
	assert_true(clika__clock_take(&c, TSC0 + 30, NS0 + 20) == NS0 + 20);
	assert_true(c.tsc == TSC0 && c.ns == NS0);
}

static void locked_refused_and_changing_clocks_ask_the_kernel(void **state)
{
	struct clika_clock *c = &clika_clock_v1, kept = *c;

	(void)state;
	watch__failures = 0;
	c->state = CLIKA__STEADY;
	c->rate = HALF;
	c->tsc = CLIKA__NEVER;
	c->ns = 0;
	c->lock = 1; /* as a handler finds it, or a child whose parent's thread was changing it */
	compare(5);
	assert_true(c->tsc == CLIKA__NEVER);
	c->lock = 0;
	clika__clock_refuse(c);
	compare(5);
	assert_int_equal(c->state, CLIKA__REFUSED);
	*c = kept;
	assert_int_equal(watch__failures, 0);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_the_kernels_time),
		cmocka_unit_test(spans_follow_each_other),
		cmocka_unit_test(threads_agree),
		cmocka_unit_test(child_tells_the_kernels_time),
		cmocka_unit_test(handlers_may_read_it),
#if defined(__x86_64__) && !defined(CLIKA_NO_TSC)
		cmocka_unit_test(rate_comes_from_two_readings_that_lie_apart),
		cmocka_unit_test(counter_that_is_too_slow_is_refused),
		cmocka_unit_test(reading_that_agrees_is_taken),
		cmocka_unit_test(no_time_is_before_one_that_was_told),
		cmocka_unit_test(reading_that_disagrees_ends_it),
		cmocka_unit_test(counter_that_was_set_back_is_refused),
		cmocka_unit_test(sleep_of_the_machine_does_not_change_the_rate),
		cmocka_unit_test(rate_follows_a_clock_that_is_slewed),
		cmocka_unit_test(faster_thread_has_set_it),
		cmocka_unit_test(locked_refused_and_changing_clocks_ask_the_kernel),
#endif
	};

	if (watch__start() != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
