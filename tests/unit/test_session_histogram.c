// SPDX-License-Identifier: Apache-2.0
#include "user/session/histogram.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static void add_all(struct histogram *h, const uint64_t *v, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		assert_int_equal(histogram__add(h, v[i]), 0);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The nearest-rank definition, on the values themselves. */
static uint64_t exact(const uint64_t *sorted, size_t n, unsigned int permille)
{
	size_t rank = (n * permille + 999) / 1000;

	return sorted[rank ? rank - 1 : 0];
}

static void assert_within_one_percent(uint64_t got, uint64_t want)
{
	uint64_t off = got > want ? got - want : want - got;

	if (off > want / 100)
		fail_msg("%llu instead of %llu", (unsigned long long)got, (unsigned long long)want);
}

static void empty_histogram_gives_zero(void **state)
{
	struct histogram h = { 0 };

	(void)state;
	assert_int_equal(histogram__quantile(&h, 500), 0);
	assert_int_equal(histogram__mean(&h), 0);
	histogram__free(&h);
}

static void one_value_is_every_quantile(void **state)
{
	struct histogram h = { 0 };

	(void)state;
	assert_int_equal(histogram__add(&h, 123456789), 0);
	assert_int_equal(histogram__quantile(&h, 1), 123456789);
	assert_int_equal(histogram__quantile(&h, 500), 123456789);
	assert_int_equal(histogram__quantile(&h, 999), 123456789);
	assert_int_equal(h.min, 123456789);
	assert_int_equal(h.max, 123456789);
	histogram__free(&h);
}

static void quantiles_stay_within_one_percent_at_every_scale(void **state)
{
	enum { N = 4000 };
	static const unsigned int permille[] = { 1, 10, 250, 500, 900, 990, 999 };
	uint64_t *v = calloc(N, sizeof(*v)), x = 88172645463325252ull;
	unsigned int shift, p;
	size_t i;

	(void)state;
	assert_non_null(v);
	for (shift = 0; shift < 60; shift++) {
		struct histogram h = { 0 };

		for (i = 0; i < N; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			v[i] = x >> shift;
		}
		add_all(&h, v, N);
		qsort(v, N, sizeof(*v), by_value);
		for (p = 0; p < ARRAY_SIZE(permille); p++)
			assert_within_one_percent(histogram__quantile(&h, permille[p]),
						  exact(v, N, permille[p]));
		assert_int_equal(h.min, v[0]);
		assert_int_equal(h.max, v[N - 1]);
		histogram__free(&h);
	}
	free(v);
}

static void quantiles_follow_long_tails(void **state)
{
	struct histogram h = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < 990; i++)
		assert_int_equal(histogram__add(&h, 1000), 0);
	for (i = 0; i < 10; i++)
		assert_int_equal(histogram__add(&h, 1000000000), 0);
	assert_within_one_percent(histogram__quantile(&h, 990), 1000);
	assert_within_one_percent(histogram__quantile(&h, 991), 1000000000);
	assert_int_equal(histogram__mean(&h), (990 * 1000ull + 10 * 1000000000ull) / 1000);
	histogram__free(&h);
}

static void values_may_come_in_any_order(void **state)
{
	static const uint64_t up[] = { 0, 1, 63, 64, 127, 128, 1u << 20, UINT64_MAX };
	struct histogram a = { 0 }, b = { 0 };
	unsigned int p;
	size_t i;

	(void)state;
	add_all(&a, up, ARRAY_SIZE(up));
	for (i = ARRAY_SIZE(up); i-- > 0;)
		assert_int_equal(histogram__add(&b, up[i]), 0);
	for (p = 1; p <= 1000; p++)
		assert_int_equal(histogram__quantile(&a, p), histogram__quantile(&b, p));
	assert_int_equal(histogram__quantile(&a, 1), 0);
	assert_int_equal(histogram__quantile(&a, 1000), UINT64_MAX);
	assert_int_equal(a.sum, UINT64_MAX);
	histogram__free(&a);
	histogram__free(&b);
}

static void standard_deviation_is_that_of_a_sample(void **state)
{
	static const uint64_t v[] = { 2, 4, 4, 4, 5, 5, 7, 9 };
	uint64_t far = 1ull << 50;
	struct histogram h = { 0 }, g = { 0 };

	(void)state;
	add_all(&h, v, 1);
	assert_int_equal(histogram__stddev(&h), 0);
	add_all(&h, v + 1, 7);
	assert_int_equal(histogram__stddev(&h), 2); /* 2.14 */
	/* Far from zero, where squares of doubles would be all noise. */
	assert_int_equal(histogram__add(&g, far - 30), 0);
	assert_int_equal(histogram__add(&g, far), 0);
	assert_int_equal(histogram__add(&g, far + 30), 0);
	assert_int_equal(histogram__stddev(&g), 30);
	histogram__free(&h);
	histogram__free(&g);
}

static void merged_is_as_if_all_had_been_added_to_one(void **state)
{
	uint64_t a[] = { 5, 70, 1ull << 40 }, b[] = { 0, 1ull << 20, 33, UINT64_MAX };
	struct histogram all = { 0 }, x = { 0 }, y = { 0 }, none = { 0 };
	unsigned int permille;

	(void)state;
	add_all(&all, a, 3);
	add_all(&all, b, 4);
	add_all(&x, a, 3);
	add_all(&y, b, 4);
	assert_int_equal(histogram__merge(&x, &y), 0);
	assert_int_equal(histogram__merge(&x, &none), 0);
	assert_int_equal(histogram__merge(&none, &x), 0);
	assert_int_equal(none.count, 7);
	assert_int_equal(none.min, 0);
	assert_int_equal(none.max, UINT64_MAX);
	assert_true(none.sum == all.sum);
	assert_true(none.squares == all.squares);
	for (permille = 1; permille <= 1000; permille += 37)
		assert_int_equal(histogram__quantile(&none, permille),
				 histogram__quantile(&all, permille));
	histogram__free(&all);
	histogram__free(&x);
	histogram__free(&y);
	histogram__free(&none);
}

static void powers_of_two_hold_exactly_what_lies_in_them(void **state)
{
	uint64_t count[HISTOGRAM_POWERS], v;
	struct histogram h = { 0 };
	unsigned int k;

	(void)state;
	assert_int_equal(histogram__add(&h, 0), 0);
	for (k = 1; k <= 64; k++) {
		v = 1ull << (k - 1);
		assert_int_equal(histogram__add(&h, v), 0);
		assert_int_equal(histogram__add(&h, v | (v - 1)), 0);
	}
	histogram__powers(&h, count);
	assert_int_equal(count[0], 1);
	for (k = 1; k <= 64; k++)
		assert_int_equal(count[k], 2);
	histogram__free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_histogram_gives_zero),
		cmocka_unit_test(one_value_is_every_quantile),
		cmocka_unit_test(quantiles_stay_within_one_percent_at_every_scale),
		cmocka_unit_test(quantiles_follow_long_tails),
		cmocka_unit_test(values_may_come_in_any_order),
		cmocka_unit_test(standard_deviation_is_that_of_a_sample),
		cmocka_unit_test(merged_is_as_if_all_had_been_added_to_one),
		cmocka_unit_test(powers_of_two_hold_exactly_what_lies_in_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
