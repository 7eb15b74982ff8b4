// SPDX-License-Identifier: Apache-2.0
/* What ids join: flows, async spans on lanes, requests; balances of memory. */
#include "tests/common/rec_builder.h"
#include "tests/common/walk_text.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
	struct rec *b;
	uint32_t server, main, worker;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->b = rec__new();
	w->server = rec__process(w->b, 100, "server");
	w->main = rec__thread(w->b, w->server, 100, "main");
	w->worker = rec__thread(w->b, w->server, 101, "worker");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	rec__free(w->b);
	free(w);
	return 0;
}

static void at(struct world *w, uint32_t thread, uint8_t kind, uint64_t ts, const char *name,
	       uint64_t id)
{
	rec__event(w->b, thread, kind, ts, name)->id = id;
}

/* --- flows ----------------------------------------------------------------------------------- */

static void each_pair_of_a_flow_gives_one_arrow(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 100, "enqueue");
	at(w, w->main, EV_FLOW_OUT, 1010, "job", 5);
	rec__span(w->b, w->worker, 2000, 100, "prepare");
	at(w, w->worker, EV_FLOW_STEP, 2010, "job", 5);
	rec__span(w->b, w->worker, 3000, 100, "run");
	at(w, w->worker, EV_FLOW_IN, 3010, "job", 5);
	assert_walk_only(rec__open(w->b), NULL, "flow",
			 "1010 main flow out job #1\n"
			 "2010 worker flow step job #1 wait 1000 arrow from main 1010\n"
			 "3010 worker flow in job #1 wait 1000 arrow from worker 2010\n");
}

static void arrow_needs_a_span_at_both_ends(void **state)
{
	struct world *w = *state;

	at(w, w->main, EV_FLOW_OUT, 1010, "job", 1);
	rec__span(w->b, w->worker, 2000, 100, "run");
	at(w, w->worker, EV_FLOW_IN, 2010, "job", 1);
	rec__span(w->b, w->main, 3000, 100, "enqueue");
	at(w, w->main, EV_FLOW_OUT, 3010, "job", 2);
	at(w, w->worker, EV_FLOW_IN, 3020, "job", 2);
	rec__span(w->b, w->worker, 4000, 100, "run");
	at(w, w->worker, EV_FLOW_IN, 4010, "job", 3);
	at(w, w->worker, EV_FLOW_OUT, 4020, "job", 4);
	assert_walk_only(rec__open(w->b), NULL, "flow",
			 "1010 main flow out job #1\n"
			 "2010 worker flow in job #1 wait 1000\n"
			 "3010 main flow out job #2\n"
			 "3020 worker flow in job #2 wait 10\n"
			 "4010 worker flow in job #3\n"
			 "4020 worker flow out job #4\n");
}

static void arrow_needs_both_ends_in_the_result(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1500, 9000, "c");
	rec__span(w->b, w->main, 1000, 100, "warm-up");
	at(w, w->main, EV_FLOW_OUT, 1010, "job", 1);
	rec__span(w->b, w->worker, 2000, 100, "run");
	at(w, w->worker, EV_FLOW_IN, 2010, "job", 1);
	assert_walk_only(rec__open(w->b), NULL, "flow",
			 "2010 worker flow in job #1 wait 1000 [c]\n");
}

static void flow_begun_again_is_another_flow(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 9000, "enqueue");
	rec__span(w->b, w->worker, 1000, 9000, "run");
	at(w, w->main, EV_FLOW_OUT, 1010, "job", 1);
	at(w, w->main, EV_FLOW_OUT, 1020, "job", 1);
	at(w, w->worker, EV_FLOW_IN, 1030, "job", 1);
	at(w, w->worker, EV_FLOW_IN, 1040, "job", 1);
	assert_walk_only(rec__open(w->b), NULL, "flow",
			 "1010 main flow out job #1\n"
			 "1020 main flow out job #2\n"
			 "1030 worker flow in job #2 wait 10 arrow from main 1020\n"
			 "1040 worker flow in job #3\n");
}

static void step_whose_begin_was_not_seen_starts_the_flow(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->worker, 1000, 9000, "run");
	at(w, w->worker, EV_FLOW_STEP, 1010, "job", 1);
	at(w, w->worker, EV_FLOW_IN, 1030, "job", 1);
	assert_walk_only(rec__open(w->b), NULL, "flow",
			 "1010 worker flow step job #1\n"
			 "1030 worker flow in job #1 wait 20 arrow from worker 1010\n");
}

/* --- async spans ----------------------------------------------------------------------------- */

static void async_spans_take_the_lowest_free_lane(void **state)
{
	struct world *w = *state;

	at(w, w->main, EV_ASYNC_BEGIN, 1000, "copy", 1);
	at(w, w->main, EV_ASYNC_BEGIN, 1010, "copy", 2);
	at(w, w->main, EV_ASYNC_BEGIN, 1020, "copy", 3);
	at(w, w->main, EV_ASYNC_BEGIN, 1030, "send", 1);
	at(w, w->worker, EV_ASYNC_END, 1040, "copy", 2);
	at(w, w->main, EV_ASYNC_BEGIN, 1050, "copy", 4);
	at(w, w->worker, EV_ASYNC_END, 1060, "copy", 1);
	at(w, w->worker, EV_ASYNC_END, 1070, "copy", 3);
	at(w, w->worker, EV_ASYNC_END, 1080, "copy", 4);
	at(w, w->worker, EV_ASYNC_END, 1090, "send", 1);
	at(w, w->main, EV_ASYNC_BEGIN, 1100, "copy", 5);
	at(w, w->main, EV_ASYNC_END, 1110, "copy", 5);
	assert_walk(rec__open(w->b), NULL,
		    "1000 main ( copy lane 0\n"
		    "1010 main ( copy lane 1\n"
		    "1020 main ( copy lane 2\n"
		    "1030 main ( send lane 0\n"
		    "1040 worker ) copy lane 1 dur 30\n"
		    "1050 main ( copy lane 1\n"
		    "1060 worker ) copy lane 0 dur 60\n"
		    "1070 worker ) copy lane 2 dur 50\n"
		    "1080 worker ) copy lane 1 dur 30\n"
		    "1090 worker ) send lane 0 dur 60\n"
		    "1100 main ( copy lane 0\n"
		    "1110 main ) copy lane 0 dur 10\n");
}

static void async_span_without_an_end_closes_with_its_process(void **state)
{
	struct world *w = *state;
	uint32_t p = rec__process(w->b, 200, "child"), t = rec__thread(w->b, p, 200, "child");

	rec__process_info(w->b, p)->ended = 2000;
	at(w, t, EV_ASYNC_BEGIN, 1000, "copy", 1);
	at(w, w->main, EV_ASYNC_BEGIN, 1500, "copy", 1);
	at(w, w->main, EV_INSTANT, 5000, "last", 0);
	assert_walk(rec__open(w->b), NULL,
		    "1000 child ( copy lane 0\n"
		    "1500 main ( copy lane 0\n"
		    "2000 child ) copy lane 0 dur 1000 unfinished\n"
		    "5000 main . instant last\n"
		    "5000 main ) copy lane 0 dur 3500 unfinished\n");
}

static void end_of_an_async_span_that_nobody_began_is_counted(void **state)
{
	struct world *w = *state;
	struct session *s;
	char *text;

	at(w, w->main, EV_ASYNC_END, 1000, "copy", 1);
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	text = walk__text(s, NULL);
	assert_string_equal(text, "");
	assert_int_equal(session__counts(s)->orphan_ends, 1);
	free(text);
	session__free(s);
}

static void async_id_begun_again_closes_the_old_one(void **state)
{
	struct world *w = *state;

	at(w, w->main, EV_ASYNC_BEGIN, 1000, "copy", 1);
	at(w, w->main, EV_ASYNC_BEGIN, 1100, "copy", 1);
	at(w, w->main, EV_ASYNC_END, 1200, "copy", 1);
	assert_walk(rec__open(w->b), NULL,
		    "1000 main ( copy lane 0\n"
		    "1100 main ) copy lane 0 dur 100 unfinished\n"
		    "1100 main ( copy lane 0\n"
		    "1200 main ) copy lane 0 dur 100\n");
}

/* --- requests -------------------------------------------------------------------------------- */

static void output(struct world *w, uint64_t ts, uint64_t id, uint64_t units)
{
	struct event *ev = rec__event(w->b, w->worker, EV_REQUEST_OUTPUT, ts, "chat");

	ev->id = id;
	ev->value = units;
}

static void requests_know_their_times_and_units(void **state)
{
	struct world *w = *state;

	at(w, w->main, EV_REQUEST_BEGIN, 1000, "chat", 1);
	at(w, w->worker, EV_REQUEST_FIRST, 1200, "chat", 1);
	output(w, 1200, 1, 1);
	output(w, 1300, 1, 4);
	at(w, w->main, EV_REQUEST_END, 1500, "chat", 1);
	assert_walk(rec__open(w->b), NULL,
		    "1000 main request begin chat\n"
		    "1200 worker request first chat since 200 first 200 units 0\n"
		    "1200 worker request output chat since 200 first 200 units 1\n"
		    "1300 worker request output chat since 300 first 200 units 5\n"
		    "1500 main request end chat since 500 first 200 units 5\n");
}

static void output_alone_tells_the_first_output(void **state)
{
	struct world *w = *state;

	at(w, w->main, EV_REQUEST_BEGIN, 1000, "chat", 1);
	output(w, 1250, 1, 3);
	at(w, w->main, EV_REQUEST_END, 1500, "chat", 1);
	assert_walk_only(rec__open(w->b), NULL, "end chat",
			 "1500 main request end chat since 500 first 250 units 3\n");
}

static void request_without_begin_or_end_is_told_apart(void **state)
{
	struct world *w = *state;
	struct session *s;
	char *text;

	at(w, w->main, EV_REQUEST_END, 1000, "chat", 1);
	at(w, w->main, EV_REQUEST_BEGIN, 1100, "chat", 2);
	at(w, w->main, EV_INSTANT, 2000, "last", 0);
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	text = walk__text(s, "request");
	assert_string_equal(text,
			    "1000 main request end chat since - first - units 0\n"
			    "1100 main request begin chat\n"
			    "2000 main request end chat since 900 first - units 0 unfinished\n");
	assert_int_equal(session__counts(s)->orphan_ends, 1);
	assert_int_equal(session__counts(s)->unfinished, 1);
	assert_int_equal(session__counts(s)->requests, 1);
	free(text);
	session__free(s);
}

/* --- memory ---------------------------------------------------------------------------------- */

static void memory(struct world *w, uint8_t kind, uint64_t ts, uint64_t address, uint64_t bytes,
		   uint32_t device)
{
	struct event *ev = rec__event(w->b, w->main, kind, ts, NULL);

	ev->id = address;
	ev->value = bytes;
	ev->aux = device;
}

static void balances_are_kept_by_device_and_pools_apart(void **state)
{
	struct world *w = *state;

	memory(w, EV_RESERVE, 1000, 0x1000, 65536, 1);
	memory(w, EV_ALLOC, 1010, 0x1000, 100, 1);
	memory(w, EV_ALLOC, 1020, 0x1000, 7, 0);
	memory(w, EV_ALLOC, 1030, 0x2000, 50, 1);
	memory(w, EV_FREE, 1040, 0x1000, 0, 1);
	memory(w, EV_RELEASE, 1050, 0x1000, 0, 1);
	assert_walk(rec__open(w->b), NULL,
		    "1000 main reserve 65536 device 1: 0 in use, 65536 reserved\n"
		    "1010 main alloc 100 device 1: 100 in use, 65536 reserved\n"
		    "1020 main alloc 7 device 0: 7 in use, 0 reserved\n"
		    "1030 main alloc 50 device 1: 150 in use, 65536 reserved\n"
		    "1040 main free 100 device 1: 50 in use, 65536 reserved\n"
		    "1050 main release 65536 device 1: 50 in use, 0 reserved\n");
}

static void frees_of_memory_from_before_never_make_it_negative(void **state)
{
	struct world *w = *state;

	memory(w, EV_FREE, 1000, 0x1000, 0, 0);
	memory(w, EV_ALLOC, 1010, 0x1000, 10, 0);
	memory(w, EV_FREE, 1020, 0x1000, 0, 0);
	memory(w, EV_FREE, 1030, 0x1000, 0, 0);
	assert_walk(rec__open(w->b), NULL,
		    "1000 main free 0 device 0: 0 in use, 0 reserved older\n"
		    "1010 main alloc 10 device 0: 10 in use, 0 reserved\n"
		    "1020 main free 10 device 0: 0 in use, 0 reserved\n"
		    "1030 main free 0 device 0: 0 in use, 0 reserved older\n");
}

static void address_handed_out_twice_was_freed_unseen(void **state)
{
	struct world *w = *state;

	memory(w, EV_ALLOC, 1000, 0x1000, 10, 0);
	memory(w, EV_ALLOC, 1010, 0x1000, 30, 0);
	memory(w, EV_FREE, 1020, 0x1000, 0, 0);
	assert_walk(rec__open(w->b), NULL,
		    "1000 main alloc 10 device 0: 10 in use, 0 reserved\n"
		    "1010 main alloc 30 device 0: 30 in use, 0 reserved\n"
		    "1020 main free 30 device 0: 0 in use, 0 reserved\n");
}

static void absurd_sizes_stop_at_the_end_of_the_scale(void **state)
{
	struct world *w = *state;

	memory(w, EV_ALLOC, 1000, 1, UINT64_MAX, 0);
	memory(w, EV_ALLOC, 1010, 2, UINT64_MAX, 0);
	memory(w, EV_FREE, 1020, 1, 0, 0);
	memory(w, EV_FREE, 1030, 2, 0, 0);
	assert_walk_only(rec__open(w->b), NULL, "free",
			 "1020 main free 18446744073709551615 device 0: 0 in use, 0 reserved\n"
			 "1030 main free 18446744073709551615 device 0: 0 in use, 0 reserved\n");
}

static void memory_of_one_process_is_not_that_of_another(void **state)
{
	struct world *w = *state;
	uint32_t p = rec__process(w->b, 200, "other"), t = rec__thread(w->b, p, 200, "lone");
	struct event *ev;

	memory(w, EV_ALLOC, 1000, 1, 10, 0);
	ev = rec__event(w->b, t, EV_FREE, 1010, NULL);
	ev->id = 1;
	assert_walk_only(rec__open(w->b), NULL, "free",
			 "1010 lone free 0 device 0: 0 in use, 0 reserved older\n");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_pair_of_a_flow_gives_one_arrow),
		TEST(arrow_needs_a_span_at_both_ends),
		TEST(arrow_needs_both_ends_in_the_result),
		TEST(flow_begun_again_is_another_flow),
		TEST(step_whose_begin_was_not_seen_starts_the_flow),
		TEST(async_spans_take_the_lowest_free_lane),
		TEST(async_span_without_an_end_closes_with_its_process),
		TEST(end_of_an_async_span_that_nobody_began_is_counted),
		TEST(async_id_begun_again_closes_the_old_one),
		TEST(requests_know_their_times_and_units),
		TEST(output_alone_tells_the_first_output),
		TEST(request_without_begin_or_end_is_told_apart),
		TEST(balances_are_kept_by_device_and_pools_apart),
		TEST(frees_of_memory_from_before_never_make_it_negative),
		TEST(address_handed_out_twice_was_freed_unseen),
		TEST(absurd_sizes_stop_at_the_end_of_the_scale),
		TEST(memory_of_one_process_is_not_that_of_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
