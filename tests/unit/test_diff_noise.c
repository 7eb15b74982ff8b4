// SPDX-License-Identifier: Apache-2.0
/* Whether the limits of a side hold as often as they say. */
#include "user/prof/diff.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed;

static double uniform(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static void assert_near(double got, double want, double by)
{
	if (!(fabs(got - want) <= by))
		fail_msg("got %.9g, want %.9g within %.3g", got, want, by);
}

/*
 * An operation of @n calls, log-normal around 100 us with a heavy tail; @drift: how much the level
 * differs between slots (standard deviations of its logarithm).
 */
static void sample(struct diff_op *op, unsigned int n, double drift, bool slots)
{
	double level[DIFF_SLOTS], *d = calloc(n, sizeof(*d)), sum = 0;
	struct diff_slot *s;
	unsigned int i;

	assert_non_null(d);
	*op = (struct diff_op){ .calls = n };
	for (i = 0; i < DIFF_SLOTS; i++)
		level[i] = drift * normal();
	for (i = 0; i < n; i++) {
		d[i] = 1e5 * exp(level[i * DIFF_SLOTS / n] + 0.5 * normal());
		sum += floor(d[i]);
		assert_int_equal(histogram__add(&op->dur, (uint64_t)d[i]), 0);
	}
	op->total = sum;
	op->mean = sum / n;
	op->stddev = (double)histogram__stddev(&op->dur);
	op->median = (double)histogram__quantile(&op->dur, 500);
	op->slots = slots ? calloc(DIFF_SLOTS, sizeof(*op->slots)) : NULL;
	for (i = 0; slots && i < n; i++) {
		s = &op->slots[i * DIFF_SLOTS / n];
		s->calls++;
		s->below += floor(d[i]) <= op->median;
		s->sum += floor(d[i]);
	}
	op->quantile[DIFF_MIN] = (double)op->dur.min;
	op->quantile[DIFF_P50] = op->median;
	op->quantile[DIFF_P90] = (double)histogram__quantile(&op->dur, 900);
	op->quantile[DIFF_P95] = (double)histogram__quantile(&op->dur, 950);
	op->quantile[DIFF_P99] = (double)histogram__quantile(&op->dur, 990);
	op->quantile[DIFF_MAX] = (double)op->dur.max;
	free(d);
}

static void drop(struct diff_op *op)
{
	histogram__free(&op->dur);
	free(op->slots);
}

static void quantiles_are_those_of_the_tables(void **state)
{
	(void)state;
	assert_near(noise__z(0.3173105), 1, 1e-6);
	assert_near(noise__z(0.05), 1.959964, 1e-5);
	assert_near(noise__z(0.01), 2.575829, 1e-5);
	assert_near(noise__z(1e-6), 4.891638, 1e-5);
	assert_near(noise__t(0.05, 19), 2.0930, 1e-3);
	assert_near(noise__t(0.01, 19), 2.8609, 3e-3);
	assert_near(noise__t(0.001, 19), 3.8834, 2e-2);
	assert_near(noise__t(0.05, 4), 2.7764, 3e-2);
	assert_near(noise__t(0.05, 100000), noise__z(0.05), 1e-4);
}

struct covered {
	unsigned int of, median, total;
};

/* How often 95 % limits hold the true median and the expected total. */
static struct covered coverage(unsigned int n, double drift, bool slots, unsigned int rounds)
{
	/* Of a log-normal distribution around 1e5, levels included. */
	double mean = 1e5 * exp((0.25 + drift * drift) / 2);
	struct covered h = { .of = rounds };
	struct diff_value v;
	struct diff_op op;
	unsigned int i;

	seed = 88172645463325252ull + n;
	for (i = 0; i < rounds; i++) {
		sample(&op, n, drift, slots);
		noise__median(&op, 0.05, &v);
		assert_true(v.low <= op.median && op.median <= v.high);
		h.median += v.low <= 1e5 && 1e5 <= v.high;
		noise__total(&op, 0.05, true, &v);
		h.total += v.low <= mean * n && mean * n <= v.high;
		drop(&op);
	}
	return h;
}

static void limits_hold_as_often_as_they_say(void **state)
{
	static const unsigned int sizes[] = { 30, 200, 2000 };
	struct covered h;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		h = coverage(sizes[i], 0, true, 400);
		assert_in_range(h.median, h.of * 94 / 100, h.of);
		assert_in_range(h.total, h.of * 91 / 100, h.of); /* heavy tails, few calls */
		h = coverage(sizes[i], 0, false, 400);
		assert_in_range(h.median, h.of * 93 / 100, h.of);
	}
}

static void drift_between_slots_widens_them_and_without_slots_it_is_missed(void **state)
{
	struct covered with, without;

	(void)state;
	with = coverage(2000, 0.5, true, 400);
	assert_in_range(with.median, with.of * 90 / 100, with.of);
	assert_in_range(with.total, with.of * 88 / 100, with.of);
	without = coverage(2000, 0.5, false, 400);
	assert_in_range(without.median, 0, without.of * 70 / 100);
}

static void a_wider_certainty_gives_wider_limits(void **state)
{
	struct diff_value a, b;
	struct diff_op op;

	(void)state;
	seed = 5;
	sample(&op, 500, 0, true);
	noise__median(&op, 0.05, &a);
	noise__median(&op, 0.0001, &b);
	assert_true(b.low < a.low && b.high > a.high);
	noise__total(&op, 0.05, true, &a);
	noise__total(&op, 0.05, false, &b);
	assert_true(b.low < a.low && b.high > a.high); /* the count is chance, too */
	noise__count(&op, 0.05, &a);
	assert_true(a.low <= 500 - 1.9 * sqrt(500) && a.high >= 500 + 1.9 * sqrt(500));
	drop(&op);
}

static void few_calls_have_no_limits(void **state)
{
	struct diff_value v;
	struct diff_op op;

	(void)state;
	seed = 7;
	sample(&op, 5, 0, true);
	noise__median(&op, 0.01, &v);
	assert_true(isnan(v.low) && isnan(v.high));
	drop(&op);
	sample(&op, 1, 0, true);
	op.stddev = NAN;
	noise__total(&op, 0.01, true, &v);
	assert_true(isnan(v.low));
	drop(&op);
	op = (struct diff_op){ .median = NAN };
	noise__total(&op, 0.01, false, &v);
	assert_true(v.v == 0 && v.low == 0 && v.high == 0);
	noise__count(&op, 0.01, &v);
	assert_true(v.v == 0 && v.high > 2);
	noise__median(&op, 0.01, &v);
	assert_true(isnan(v.v));
}

static void a_burst_does_not_make_a_count_uncertain(void **state)
{
	struct diff_slot slots[DIFF_SLOTS] = { 0 };
	struct diff_op op = { .calls = 10000, .slots = slots };
	struct diff_value v;
	unsigned int i;

	(void)state;
	for (i = 0; i < DIFF_SLOTS; i++)
		slots[i].calls = i == 3 ? 9810 : 10;
	noise__count(&op, 0.05, &v);
	assert_near(v.high - v.v, 1.96 * 100, 1);
	for (i = 0; i < DIFF_SLOTS; i++) /* clumps: half of the slots are empty */
		slots[i].calls = i % 2 ? 1000 : 0;
	noise__count(&op, 0.05, &v);
	assert_true(v.high - v.v > 1000);
}

static void changes_add_the_distances_that_face_each_other(void **state)
{
	struct diff_value a = { 100, 97, 104 }, b = { 110, 107, 118 }, none = { 110, NAN, NAN };
	struct diff_change c;

	(void)state;
	noise__change(&a, &b, &c);
	assert_near(c.change, 10, 0);
	assert_near(c.noise, 5, 1e-9); /* 3 below b, 4 above a */
	assert_true(c.significant);
	noise__change(&b, &a, &c);
	assert_near(c.change, -10, 0);
	assert_near(c.noise, 5, 1e-9);
	assert_true(c.significant);
	noise__change(&a, &a, &c);
	assert_false(c.significant);
	noise__change(&a, &none, &c);
	assert_true(isnan(c.noise));
	assert_false(c.significant);
}

static void bounds_of_a_rank_hold_the_value(void **state)
{
	uint64_t values[500], least, greatest;
	struct histogram h = { 0 };
	unsigned int i, k;

	(void)state;
	seed = 11;
	for (i = 0; i < 500; i++) {
		values[i] = (uint64_t)exp(uniform() * 40);
		assert_int_equal(histogram__add(&h, values[i]), 0);
		for (k = i; k && values[k - 1] > values[k]; k--) {
			uint64_t v = values[k];

			values[k] = values[k - 1];
			values[k - 1] = v;
		}
	}
	for (i = 0; i < 500; i++) {
		histogram__bounds(&h, i + 1, &least, &greatest);
		assert_in_range(values[i], least, greatest);
		assert_true((double)greatest <= (double)least * (1 + 1.0 / 64) + 1);
	}
	histogram__bounds(&h, 501, &least, &greatest);
	assert_true(least == values[0] && greatest == values[499]);
	histogram__free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_those_of_the_tables),
		cmocka_unit_test(limits_hold_as_often_as_they_say),
		cmocka_unit_test(drift_between_slots_widens_them_and_without_slots_it_is_missed),
		cmocka_unit_test(a_wider_certainty_gives_wider_limits),
		cmocka_unit_test(few_calls_have_no_limits),
		cmocka_unit_test(a_burst_does_not_make_a_count_uncertain),
		cmocka_unit_test(changes_add_the_distances_that_face_each_other),
		cmocka_unit_test(bounds_of_a_rank_hold_the_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
