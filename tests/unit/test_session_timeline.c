// SPDX-License-Identifier: Apache-2.0
#include "user/session/timeline.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t seen(const struct timeline *t)
{
	uint32_t i, n = 0;

	for (i = 0; i < t->n; i++)
		n += t->slots[i].seen;
	return n;
}

static void one_slot_keeps_first_least_greatest_and_last(void **state)
{
	struct timeline t = { 0 };

	(void)state;
	assert_int_equal(timeline__add(&t, 1000, 50, 7), 0);
	assert_int_equal(timeline__add(&t, 1001, 90, 7), 0);
	assert_int_equal(timeline__add(&t, 1001, 20, 9), 0);
	assert_int_equal(timeline__add(&t, 1002, 60, 9), 0);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.slots[0].of[TIMELINE_IN_USE].min, 20);
	assert_int_equal(t.slots[0].of[TIMELINE_IN_USE].max, 90);
	assert_int_equal(t.slots[0].of[TIMELINE_IN_USE].last, 60);
	assert_int_equal(t.slots[0].of[TIMELINE_RESERVED].min, 7);
	assert_int_equal(t.slots[0].of[TIMELINE_RESERVED].max, 9);
	timeline__free(&t);
}

static void a_slot_takes_in_what_was_there_when_it_began(void **state)
{
	struct timeline t = { 0 };

	(void)state;
	assert_int_equal(timeline__add(&t, 1000, 100, 0), 0);
	assert_int_equal(timeline__add(&t, 100000, 10, 0), 0);
	assert_int_equal(seen(&t), 2);
	assert_int_equal(t.slots[t.n - 1].of[TIMELINE_IN_USE].max, 100);
	assert_int_equal(t.slots[t.n - 1].of[TIMELINE_IN_USE].min, 10);
	timeline__free(&t);
}

/* Any slot against what happened in its time. */
static void slots_are_what_happened_in_them_at_every_length(void **state)
{
	enum { EVENTS = 5000 };
	uint64_t *ts = calloc(EVENTS, sizeof(*ts)), seed = 7, now;
	int64_t *value = calloc(EVENTS, sizeof(*value));
	unsigned int scale;

	(void)state;
	for (scale = 2; scale < 40; scale += 5) {
		struct timeline t = { 0 };
		size_t i, k, from = 0;

		for (i = 0, now = 1ull << 50; i < EVENTS; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			now += seed >> (64 - scale);
			ts[i] = now;
			value[i] = (int64_t)(seed >> 40 & 0xffff);
			assert_int_equal(timeline__add(&t, now, value[i], -value[i]), 0);
		}
		assert_true(t.n <= TIMELINE_POINTS);
		for (k = 0; k < t.n; k++) {
			uint64_t end = t.begin + ((uint64_t)(k + 1) << t.log2);
			int64_t min = from ? value[from - 1] : value[0], max = min;

			if (!t.slots[k].seen) {
				assert_true(from == EVENTS || ts[from] >= end);
				continue;
			}
			for (i = from; i < EVENTS && ts[i] < end; i++) {
				min = value[i] < min ? value[i] : min;
				max = value[i] > max ? value[i] : max;
			}
			assert_true(i > from);
			from = i;
			assert_int_equal(t.slots[k].of[TIMELINE_IN_USE].min, min);
			assert_int_equal(t.slots[k].of[TIMELINE_IN_USE].max, max);
			assert_int_equal(t.slots[k].of[TIMELINE_IN_USE].last, value[from - 1]);
			assert_int_equal(t.slots[k].of[TIMELINE_RESERVED].min, -max);
		}
		assert_int_equal(from, EVENTS);
		timeline__free(&t);
	}
	free(ts);
	free(value);
}

static void absurd_times_end_in_the_last_slot(void **state)
{
	struct timeline t = { 0 };

	(void)state;
	assert_int_equal(timeline__add(&t, 0, 1, 0), 0);
	assert_int_equal(timeline__add(&t, UINT64_MAX, INT64_MAX, INT64_MIN), 0);
	assert_int_equal(timeline__add(&t, 5, 3, 0), 0); /* earlier than the one before */
	assert_true(t.n <= TIMELINE_POINTS);
	assert_int_equal(t.slots[t.n - 1].of[TIMELINE_IN_USE].max, INT64_MAX);
	timeline__free(&t);
	timeline__free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_slot_keeps_first_least_greatest_and_last),
		cmocka_unit_test(a_slot_takes_in_what_was_there_when_it_began),
		cmocka_unit_test(slots_are_what_happened_in_them_at_every_length),
		cmocka_unit_test(absurd_times_end_in_the_last_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
