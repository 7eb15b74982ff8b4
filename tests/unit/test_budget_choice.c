// SPDX-License-Identifier: Apache-2.0
/* Which functions lose their probes when these cost too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "user/prof/budget_choice.h"

#define US 1000.0

/* @calls of @self_us each, whose probes cost 2 us a call. */
static struct candidate function(uint32_t func, uint64_t calls, double self_us)
{
	struct candidate c = { .func = func,
			       .calls = calls,
			       .cost_call = 2 * US,
			       .cost = (double)calls * 2 * US,
			       .mean_self = self_us * US,
			       .self_ns = (uint64_t)((double)calls * self_us * US) };

	c.cheap = c.mean_self < 2 * c.cost_call;
	return c;
}

static double cost_of(const struct candidate *c, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += c[i].cost;
	return sum;
}

static void takes_the_most_frequent_of_the_cheap_first(void **state)
{
	struct candidate c[] = { function(1, 1000, 5000), function(2, 50000, 1),
				 function(3, 90000, 1), function(4, 20000, 3) };
	double cost = cost_of(c, 4);
	size_t n;

	(void)state;
	/* Those that are not cheap stay when that is enough. */
	n = budget__choose(c, 4, cost, cost / 8);
	assert_int_equal(n, 3);
	assert_int_equal(c[0].func, 3);
	assert_int_equal(c[1].func, 2);
	assert_int_equal(c[2].func, 4);
}

static void leaves_what_is_telling_above_half_of_the_budget(void **state)
{
	struct candidate c[] = { function(1, 30000, 50), function(2, 30000, 40),
				 function(3, 30000, 1) };
	double cost = cost_of(c, 3), each = c[0].cost;

	(void)state;
	/* Without the cheap one it is below the budget, though not below its half. */
	assert_int_equal(budget__choose(c, 3, cost, 2.5 * each), 1);
	assert_int_equal(c[0].func, 3);
	/* It is not: of the others the one that accounts for less. */
	assert_int_equal(budget__choose(c, 3, cost, 1.5 * each), 2);
	assert_int_equal(c[1].func, 2);
}

static void nothing_goes_for_nothing(void **state)
{
	struct candidate c[] = { function(1, 100000, 1), function(2, 10, 1) };
	double cost = cost_of(c, 2);

	(void)state;
	assert_int_equal(budget__choose(c, 2, cost, cost), 1); /* half of the budget is the aim */
	assert_int_equal(c[0].func, 1);
	assert_int_equal(budget__choose(c, 0, cost, cost / 10), 0);
	/* One whose probes cost next to nothing comes after one that is long. */
	c[0] = function(1, 50000, 100);
	c[1] = function(2, 10, 1);
	cost = cost_of(c, 2);
	assert_int_equal(budget__choose(c, 2, cost, cost / 2), 1);
	assert_int_equal(c[0].func, 1);
}

static void memory_goes_last_and_as_a_whole(void **state)
{
	struct candidate c[] = { function(1, 90000, 1), function(2, 80000, 1),
				 function(3, 100, 900), function(4, 70000, 1) };
	double cost;
	size_t n;

	(void)state;
	c[0].does = c[1].does = c[2].does = true;
	cost = cost_of(c, 4);
	n = budget__choose(c, 4, cost, cost * 0.8);
	assert_int_equal(n, 1);
	assert_int_equal(c[0].func, 4);
	/* Not enough: one after the other would leave frees without allocations. */
	n = budget__choose(c, 4, cost, cost * 0.6);
	assert_int_equal(n, 4);
	assert_int_equal(c[0].func, 4);
}

/* What others cost, which cannot be taken off, weighs on those that can. */
static void costs_of_what_stays_count(void **state)
{
	struct candidate c[] = { function(1, 1000, 1), function(2, 1000, 100) };

	(void)state;
	assert_int_equal(budget__choose(c, 2, cost_of(c, 2) + 5e6, 6e6), 2);
	assert_int_equal(c[0].func, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_the_most_frequent_of_the_cheap_first),
		cmocka_unit_test(leaves_what_is_telling_above_half_of_the_budget),
		cmocka_unit_test(nothing_goes_for_nothing),
		cmocka_unit_test(memory_goes_last_and_as_a_whole),
		cmocka_unit_test(costs_of_what_stays_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
