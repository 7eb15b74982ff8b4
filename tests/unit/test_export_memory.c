// SPDX-License-Identifier: Apache-2.0
/* memory_stats.json: balances, who holds what, and what cannot be known. */
#include "tests/common/export_text.h"
#include "tests/common/json_path.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
	struct rec *b;
	uint32_t server, main;
	char *text;
	cJSON *j;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->b = rec__new();
	w->server = rec__process(w->b, 100, "server");
	w->main = rec__thread(w->b, w->server, 100, "main");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	cJSON_Delete(w->j);
	free(w->text);
	rec__free(w->b);
	free(w);
	return 0;
}

static void export_all(struct world *w)
{
	w->text = export__text(w->b, "memory", NULL, NULL, NULL);
	w->j = cJSON_Parse(w->text);
	assert_non_null(w->j);
}

static struct event *memory(struct world *w, uint8_t kind, uint64_t ts, uint64_t id, uint64_t bytes,
			    const char *pool)
{
	struct event *ev = rec__event(w->b, w->main, kind, ts, NULL);

	ev->id = id;
	ev->value = bytes;
	ev->pool = pool ? rec__id(w->b, pool) : 0;
	return ev;
}

#define ALLOC(ts, id, bytes) memory(w, EV_ALLOC, ts, id, bytes, "arena")
#define FREE(ts, id) memory(w, EV_FREE, ts, id, 0, NULL)

static void tells_totals_and_what_was_never_freed(void **state)
{
	struct world *w = *state;

	rec__process_info(w->b, w->server)->start = 5;
	rec__span(w->b, w->main, 1000, 1000, "load")->cat = rec__id(w->b, "io");
	ALLOC(1100, 1, 1000);
	ALLOC(1200, 2, 500);
	rec__span(w->b, w->main, 3000, 1000, "run");
	ALLOC(3100, 3, 200);
	FREE(3200, 2);
	FREE(3300, 77); /* older than the recording */
	export_all(w);
	assert_json(w->j, "devices.0.pid", 100);
	assert_json(w->j, "devices.0.recorded_baseline_bytes", 0);
	/* The process began before the recording: what it had then is not known. */
	assert_true(json__is_null(w->j, "devices.0.baseline_bytes"));
	assert_json(w->j, "devices.0.current_bytes", 1200);
	assert_json(w->j, "devices.0.peak_bytes", 1700);
	assert_json(w->j, "devices.0.peak_at_ns", 2100);
	assert_json(w->j, "devices.0.allocated.count", 3);
	assert_json(w->j, "devices.0.allocated.bytes", 1700);
	assert_json(w->j, "devices.0.freed.count", 2);
	assert_json(w->j, "devices.0.freed.bytes", 500);
	assert_json(w->j, "devices.0.freed_but_older.before_recording", 1);
	assert_true(json__is_null(w->j, "devices.0.freed_but_older.before_recording_bytes"));
	assert_json(w->j, "devices.0.not_freed.count", 2);
	assert_json(w->j, "devices.0.not_freed.bytes", 1200);
	assert_string_equal(json__text(w->j, "devices.0.by_op.0.name"), "load");
	assert_string_equal(json__text(w->j, "devices.0.by_op.0.category"), "io");
	assert_json(w->j, "devices.0.by_op.0.allocated.bytes", 1500);
	assert_json(w->j, "devices.0.by_op.0.not_freed.bytes", 1000);
	assert_json(w->j, "devices.0.by_op.1.not_freed.bytes", 200);
	assert_true(json__is_null(w->j, "devices.0.reserved"));
	assert_true(json__is_null(w->j, "devices.0.fragmentation"));
	assert_true(json__is_null(w->j, "empty_because"));
}

static void tells_who_held_the_peak(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 100, "weights");
	ALLOC(1010, 1, 100);
	rec__span(w->b, w->main, 2000, 100, "first");
	ALLOC(2010, 2, 50);
	FREE(2020, 2);
	rec__span(w->b, w->main, 3000, 100, "second");
	ALLOC(3010, 3, 70); /* the peak */
	FREE(3020, 3);
	FREE(3030, 1);
	rec__span(w->b, w->main, 4000, 100, "first");
	ALLOC(4010, 4, 60);
	export_all(w);
	assert_json(w->j, "devices.0.peak.bytes", 170);
	assert_int_equal(cJSON_GetArraySize(json__at(w->j, "devices.0.peak.held_by")), 2);
	assert_string_equal(json__text(w->j, "devices.0.peak.held_by.0.name"), "weights");
	assert_json(w->j, "devices.0.peak.held_by.0.bytes", 100);
	assert_string_equal(json__text(w->j, "devices.0.peak.held_by.1.name"), "second");
	assert_json(w->j, "devices.0.peak.held_by.1.bytes", 70);
	assert_json(w->j, "devices.0.peak.held_from_before_bytes", 0);
	assert_json(w->j, "devices.0.by_op.0.at_peak_bytes", 0); /* "first" had given it back */
	assert_json(w->j, "devices.0.pools.0.at_device_peak_bytes", 170);
}

/* The lazy snapshot against one that is taken at every new peak. */
static void the_peak_is_held_by_what_was_there(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	uint64_t held[4] = { 0 }, at_peak[4] = { 0 }, sum = 0, peak = 0, seed = 12345, block[64];
	bool used[64] = { false };
	struct world *w = *state;
	uint64_t i, total = 0;
	const cJSON *row;

	for (i = 0; i < 2000; i++) {
		size_t slot, op;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		slot = seed >> 33 & 63;
		op = slot & 3;
		rec__span(w->b, w->main, 1000 + i * 100, 90, names[op]);
		if (used[slot]) {
			FREE(1010 + i * 100, slot + 1);
			held[op] -= block[slot];
			sum -= block[slot];
		} else {
			block[slot] = 1 + (seed >> 50) % 5000;
			ALLOC(1010 + i * 100, slot + 1, block[slot]);
			held[op] += block[slot];
			sum += block[slot];
		}
		used[slot] = !used[slot];
		if (sum > peak) {
			peak = sum;
			memcpy(at_peak, held, sizeof(at_peak));
		}
	}
	export_all(w);
	assert_json(w->j, "devices.0.peak.bytes", peak);
	cJSON_ArrayForEach(row, json__at(w->j, "devices.0.by_op"))
	{
		assert_json(row, "at_peak_bytes", at_peak[*json__text(row, "name") - 'a']);
		assert_json(row, "not_freed.bytes", held[*json__text(row, "name") - 'a']);
		total += (uint64_t)json__number(row, "at_peak_bytes");
	}
	assert_int_equal(total, peak);
}

static void each_capture_tells_what_it_did_not_free(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1000, 2000, "cold");
	rec__capture(w->b, 3000, 4000, "warm");
	ALLOC(500, 9, 4000); /* before both */
	rec__span(w->b, w->main, 1000, 999, "step");
	ALLOC(1100, 1, 100);
	ALLOC(1200, 2, 30);
	FREE(1300, 2);
	rec__span(w->b, w->main, 3000, 999, "step");
	ALLOC(3100, 3, 7);
	FREE(3200, 1); /* of the first capture */
	FREE(3300, 9);
	export_all(w);
	assert_json(w->j, "devices.0.recorded_baseline_bytes", 4000);
	assert_json(w->j, "devices.0.peak_bytes", 4130);
	assert_json(w->j, "devices.0.peak.held_from_before_bytes", 4000);
	assert_json(w->j, "devices.0.freed_but_older.before_captures", 1);
	assert_json(w->j, "devices.0.freed_but_older.before_captures_bytes", 4000);
	assert_json(w->j, "devices.0.current_bytes", 7);
	assert_json(w->j, "devices.0.not_freed.bytes", 7);
	assert_string_equal(json__text(w->j, "devices.0.by_capture.0.tag"), "cold");
	assert_json(w->j, "devices.0.by_capture.0.allocated.bytes", 130);
	assert_json(w->j, "devices.0.by_capture.0.not_freed.count", 1);
	assert_json(w->j, "devices.0.by_capture.0.not_freed.bytes", 100);
	assert_string_equal(json__text(w->j, "devices.0.by_capture.0.ops.0.name"), "step");
	assert_json(w->j, "devices.0.by_capture.0.ops.0.not_freed.bytes", 100);
	assert_json(w->j, "devices.0.by_capture.1.capture", 1);
	assert_json(w->j, "devices.0.by_capture.1.not_freed.bytes", 7);
	assert_json(w->j, "devices.0.by_capture.1.other_ops_not_freed.bytes", 0);
}

static void an_address_given_out_again_was_freed_unseen(void **state)
{
	struct world *w = *state;

	ALLOC(1000, 1, 100);
	ALLOC(2000, 1, 70);
	export_all(w);
	assert_json(w->j, "devices.0.current_bytes", 70);
	assert_json(w->j, "devices.0.peak_bytes", 100);
	assert_json(w->j, "devices.0.freed_unseen.count", 1);
	assert_json(w->j, "devices.0.freed_unseen.bytes", 100);
	assert_json(w->j, "devices.0.not_freed.count", 1);
	assert_json(w->j, "devices.0.not_freed.bytes", 70);
	assert_string_equal(json__text(w->j, "devices.0.by_op.0.name"), "(outside spans)");
	assert_false(json__is_true(w->j, "devices.0.by_op.0.in_span"));
}

static void a_process_that_began_while_recorded_has_a_known_baseline(void **state)
{
	struct world *w = *state;

	rec__anchor(w->b, 1000, 1700000000000000000);
	rec__process_info(w->b, w->server)->start = 1500;
	ALLOC(2000, 1, 100);
	export_all(w);
	assert_json(w->j, "devices.0.baseline_bytes", 0);
}

static void sizes_and_lifetimes_are_classed(void **state)
{
	struct world *w = *state;

	ALLOC(1000, 1, 0);
	ALLOC(1000, 2, 1024);
	ALLOC(1000, 3, 2047);
	ALLOC(1000, 4, UINT64_MAX);
	FREE(1300, 2);
	FREE(1300, 3);
	FREE(6000, 1);
	export_all(w);
	assert_json(w->j, "devices.0.sizes.0.at_most", 0);
	assert_json(w->j, "devices.0.sizes.1.at_least", 1024);
	assert_json(w->j, "devices.0.sizes.1.count", 2);
	assert_json(w->j, "devices.0.sizes.1.bytes", 3071);
	assert_non_null(strstr(w->text, "\"at_most\":18446744073709551615,"));
	assert_json(w->j, "devices.0.lifetimes.count", 3);
	assert_json(w->j, "devices.0.lifetimes.max_ns", 5000);
	assert_json(w->j, "devices.0.lifetimes.classes_ns.0.at_least", 256);
	assert_json(w->j, "devices.0.lifetimes.classes_ns.0.count", 2);
	assert_json(w->j, "devices.0.lifetimes.classes_ns.1.at_least", 4096);
}

static void pools_show_what_they_reserve_and_do_not_use(void **state)
{
	struct world *w = *state;

	memory(w, EV_RESERVE, 1000, 0x1000, 4096, "arena");
	ALLOC(1100, 0x1000, 1024);
	memory(w, EV_RESERVE, 1200, 0x9000, 4096, "arena");
	ALLOC(1300, 0x9000, 2048); /* the peak */
	FREE(1400, 0x9000);
	memory(w, EV_RELEASE, 1500, 0x9000, 0, NULL);
	memory(w, EV_ALLOC, 1600, 0x5000, 64, "heap");
	export_all(w);
	assert_json(w->j, "devices.0.reserved.peak_bytes", 8192);
	assert_json(w->j, "devices.0.reserved.current_bytes", 4096);
	assert_json(w->j, "devices.0.reserved.taken.count", 2);
	assert_json(w->j, "devices.0.reserved.given_back.bytes", 4096);
	assert_json(w->j, "devices.0.fragmentation.at_peak.in_use_bytes", 3072);
	assert_json(w->j, "devices.0.fragmentation.at_peak.reserved_bytes", 8192);
	assert_near(w->j, "devices.0.fragmentation.at_peak.unused_share", 0.625);
	assert_string_equal(json__text(w->j, "devices.0.pools.0.pool"), "arena");
	assert_near(w->j, "devices.0.pools.0.fragmentation.at_end.unused_share", 0.75);
	assert_json(w->j, "devices.0.pools.0.not_freed.bytes", 1024);
	assert_int_equal(cJSON_GetArraySize(json__at(w->j, "devices.0.pools.0.timeline.points")),
			 1); /* all within a microsecond */
	assert_json(w->j, "devices.0.pools.0.timeline.points.0.5", 0);
	assert_json(w->j, "devices.0.pools.0.timeline.points.0.6", 8192);
	assert_true(json__is_null(w->j, "devices.0.pools.1.reserved"));
	assert_true(json__is_null(w->j, "devices.0.pools.1.timeline"));
}

static void what_was_reserved_unseen_is_not_called_fragmentation(void **state)
{
	struct world *w = *state;

	ALLOC(1000, 0x1000, 9000);
	memory(w, EV_RESERVE, 1100, 0x9000, 4096, "arena");
	export_all(w);
	assert_json(w->j, "devices.0.fragmentation.at_end.in_use_bytes", 9000);
	assert_true(json__is_null(w->j, "devices.0.fragmentation.at_end.unused_share"));
}

static void the_timeline_is_short_and_keeps_every_extreme(void **state)
{
	struct world *w = *state;
	int64_t most = 0;
	const cJSON *row;
	uint64_t i;
	int n = 0;

	for (i = 0; i < 20000; i++) {
		ALLOC(1000 + i * 100000, 1, i == 12345 ? 1 << 20 : 100);
		FREE(1000 + i * 100000 + 500, 1);
	}
	rec__layout(w->b, 4096, 0);
	export_all(w);
	cJSON_ArrayForEach(row, json__at(w->j, "devices.0.timeline.points"))
	{
		n++;
		most = json__number(row, "3") > (double)most ? (int64_t)json__number(row, "3")
							     : most;
		assert_json(row, "2", 0);
	}
	assert_true(n <= 1000 && n >= 400);
	assert_int_equal(most, 1 << 20);
}

static void devices_and_processes_are_told_apart(void **state)
{
	struct world *w = *state;
	uint32_t other = rec__process(w->b, 200, "other");
	uint32_t thread = rec__thread(w->b, other, 200, "main");
	struct event *ev;

	ALLOC(1000, 1, 10);
	ALLOC(1100, 1, 20)->aux = 3;
	ev = rec__event(w->b, thread, EV_ALLOC, 1200, NULL);
	ev->id = 1;
	ev->value = 30;
	rec__event(w->b, w->main, EV_DEVICE_NAME, 1300, "cuda:3")->aux = 3;
	export_all(w);
	assert_int_equal(cJSON_GetArraySize(json__at(w->j, "devices")), 3);
	assert_json(w->j, "devices.0.current_bytes", 10);
	assert_json(w->j, "devices.1.device", 3);
	assert_string_equal(json__text(w->j, "devices.1.device_name"), "cuda:3");
	assert_json(w->j, "devices.1.current_bytes", 20);
	assert_json(w->j, "devices.2.pid", 200);
	assert_json(w->j, "devices.2.current_bytes", 30);
}

static void says_why_there_is_nothing(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "a");
	export_all(w);
	assert_int_equal(cJSON_GetArraySize(json__at(w->j, "devices")), 0);
	assert_non_null(strstr(json__text(w->j, "empty_because"), "nothing was allocated"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tells_totals_and_what_was_never_freed),
		TEST(tells_who_held_the_peak),
		TEST(the_peak_is_held_by_what_was_there),
		TEST(each_capture_tells_what_it_did_not_free),
		TEST(an_address_given_out_again_was_freed_unseen),
		TEST(a_process_that_began_while_recorded_has_a_known_baseline),
		TEST(sizes_and_lifetimes_are_classed),
		TEST(pools_show_what_they_reserve_and_do_not_use),
		TEST(what_was_reserved_unseen_is_not_called_fragmentation),
		TEST(the_timeline_is_short_and_keeps_every_extreme),
		TEST(devices_and_processes_are_told_apart),
		TEST(says_why_there_is_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
