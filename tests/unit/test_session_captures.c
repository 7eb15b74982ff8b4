// SPDX-License-Identifier: Apache-2.0
/* Which spans belong to which capture: windows, edges, cause, depth, ids that are used again. */
#include "tests/common/rec_builder.h"
#include "tests/common/walk_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
	struct rec *b;
	uint32_t server, main, worker, helper;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->b = rec__new();
	w->server = rec__process(w->b, 100, "server");
	w->main = rec__thread(w->b, w->server, 100, "main");
	w->worker = rec__thread(w->b, w->server, 101, "worker");
	w->helper = rec__thread(w->b, w->server, 102, "helper");
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

static void out(struct world *w, uint32_t thread, uint64_t ts, uint64_t id)
{
	rec__event(w->b, thread, EV_FLOW_OUT, ts, "job")->id = id;
}

static void in(struct world *w, uint32_t thread, uint64_t ts, uint64_t id)
{
	rec__event(w->b, thread, EV_FLOW_IN, ts, "job")->id = id;
}

/* Something after everything, so that windows do not end with the recording. */
static void tail(struct world *w, uint64_t ts)
{
	rec__event(w->b, w->main, EV_INSTANT, ts, "tail");
}

static void warm_up_outside_every_window_is_in_no_result(void **state)
{
	struct world *w = *state;
	struct session *s;

	rec__capture(w->b, 2000, 3000, "bench");
	rec__span(w->b, w->main, 1000, 500, "warm-up");
	rec__span(w->b, w->main, 2100, 500, "work");
	rec__span(w->b, w->main, 3100, 500, "after");
	assert_walk(rec__open(w->b), NULL,
		    "2100 main > work +500 [bench]\n"
		    "2600 main < work self 500 [bench]\n");
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	free(walk__text(s, NULL));
	assert_int_equal(session__counts(s)->outside, 2);
	session__free(s);
}

static void touching_the_window_is_not_overlapping_it(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 2000, 3000, "c");
	rec__span(w->b, w->main, 1000, 1000, "until the begin");
	rec__span(w->b, w->main, 2000, 0, "at the begin");
	rec__span(w->b, w->main, 2999, 1, "until the end");
	rec__span(w->b, w->main, 3000, 10, "from the end");
	assert_walk_only(rec__open(w->b), NULL, " > ",
			 "2000 main > at the begin +0 [c]\n"
			 "2999 main > until the end +1 [c]\n");
}

static void span_cut_by_an_edge_keeps_its_times_and_is_flagged(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 2000, 3000, "c");
	rec__span(w->b, w->main, 1500, 1000, "over the begin");
	rec__span(w->b, w->main, 2600, 10, "inside");
	rec__span(w->b, w->main, 2900, 1000, "over the end");
	rec__span(w->b, w->worker, 1000, 5000, "over both");
	assert_walk_only(rec__open(w->b), NULL, " > ",
			 "1000 worker > over both +5000 cut [c]\n"
			 "1500 main > over the begin +1000 cut [c]\n"
			 "2600 main > inside +10 [c]\n"
			 "2900 main > over the end +1000 cut [c]\n");
}

static void captures_nest_overlap_and_share_a_tag(void **state)
{
	struct world *w = *state;
	struct session_opts inner = { .capture_tag = "inner" };
	struct recording *r;

	rec__capture(w->b, 1000, 9000, "outer");
	rec__capture(w->b, 2000, 4000, "inner");
	rec__capture(w->b, 3500, 6000, "crossing");
	rec__capture(w->b, 7000, 8000, "inner");
	rec__span(w->b, w->main, 1500, 10, "a");
	rec__span(w->b, w->main, 2500, 10, "b");
	rec__span(w->b, w->main, 3800, 10, "c");
	rec__span(w->b, w->main, 5000, 10, "d");
	rec__span(w->b, w->main, 7500, 10, "e");
	r = rec__open(w->b);
	assert_walk_only(r, NULL, " > ",
			 "1500 main > a +10 [outer]\n"
			 "2500 main > b +10 [outer inner]\n"
			 "3800 main > c +10 [outer inner crossing]\n"
			 "5000 main > d +10 [outer crossing]\n"
			 "7500 main > e +10 [outer inner]\n");
	assert_walk_only(r, &inner, " > ",
			 "2500 main > b +10 [inner]\n"
			 "3800 main > c +10 [inner]\n"
			 "7500 main > e +10 [inner]\n");
}

static void unknown_tag_is_an_error_that_names_the_tags(void **state)
{
	struct session_opts o = { .capture_tag = "nope" };
	struct world *w = *state;
	struct clika_error err;
	struct session *s;

	rec__capture(w->b, 1000, 2000, "bench");
	assert_int_equal(session__new(rec__open(w->b), &o, &s, &err), -ENOENT);
	assert_null(s);
	assert_non_null(strstr(err.msg, "\"nope\""));
	assert_non_null(strstr(err.msg, "\"bench\""));
}

static void without_captures_everything_belongs(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "a");
	assert_walk_only(rec__open(w->b), NULL, " > ", "1000 main > a +10\n");
}

static void outside_captures_can_be_asked_for(void **state)
{
	struct session_opts o = { .outside_captures = true };
	struct world *w = *state;

	rec__capture(w->b, 2000, 3000, "c");
	rec__span(w->b, w->main, 1000, 10, "a");
	rec__span(w->b, w->main, 2000, 10, "b");
	assert_walk_only(rec__open(w->b), &o, " > ",
			 "1000 main > a +10\n"
			 "2000 main > b +10 [c]\n");
}

static void open_capture_reaches_to_the_end(void **state)
{
	struct world *w = *state;
	struct session *s;

	rec__capture(w->b, 2000, 0, "c");
	rec__span(w->b, w->main, 1000, 10, "a");
	rec__span(w->b, w->main, 2000, 10, "b");
	rec__span(w->b, w->main, 9000, 10, "z");
	assert_walk_only(rec__open(w->b), NULL, " > ",
			 "2000 main > b +10 [c]\n"
			 "9000 main > z +10 [c]\n");
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	assert_true(session__capture(s, 0)->open);
	assert_int_equal(session__capture(s, 0)->end, session__end(s));
	session__free(s);
}

static void late_work_belongs_with_its_children(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1000, 2000, "c");
	rec__span(w->b, w->main, 1100, 100, "enqueue");
	out(w, w->main, 1150, 7);
	rec__span(w->b, w->worker, 2500, 40, "unrelated");
	rec__span(w->b, w->worker, 3000, 500, "run");
	rec__span(w->b, w->worker, 3001, 4, "before the flow");
	in(w, w->worker, 3010, 7);
	rec__span(w->b, w->worker, 3100, 100, "conv");
	rec__span(w->b, w->worker, 3110, 10, "gemm");
	rec__event(w->b, w->worker, EV_INSTANT, 3120, "mark");
	rec__span(w->b, w->worker, 3600, 10, "idle");
	tail(w, 9000);
	assert_walk(rec__open(w->b), NULL,
		    "1100 main > enqueue +100 [c]\n"
		    "1150 main flow out job #1 [c]\n"
		    "1200 main < enqueue self 100 [c]\n"
		    "3000 worker > run +500 late [c]\n"
		    "3001 worker > before the flow +4 in run late [c]\n"
		    "3005 worker < before the flow self 4 [c]\n"
		    "3010 worker flow in job #1 wait 1860 arrow from main 1150 [c]\n"
		    "3100 worker > conv +100 in run late [c]\n"
		    "3110 worker > gemm +10 in conv late [c]\n"
		    "3120 worker < gemm self 10 [c]\n"
		    "3120 worker . instant mark [c]\n"
		    "3200 worker < conv self 90 [c]\n"
		    "3500 worker < run self 396 [c]\n");
}

static void what_late_work_enqueues_comes_along_in_turn(void **state)
{
	struct world *w = *state;
	struct session *s;

	rec__capture(w->b, 1000, 2000, "c");
	rec__span(w->b, w->main, 1100, 100, "enqueue");
	out(w, w->main, 1150, 1);
	rec__span(w->b, w->worker, 3000, 500, "first hop");
	in(w, w->worker, 3010, 1);
	rec__span(w->b, w->worker, 3100, 100, "deeper");
	out(w, w->worker, 3150, 2);
	rec__span(w->b, w->helper, 4000, 500, "second hop");
	in(w, w->helper, 4010, 2);
	rec__span(w->b, w->helper, 5000, 500, "nobody's");
	tail(w, 9000);
	assert_walk_only(rec__open(w->b), NULL, " > ",
			 "1100 main > enqueue +100 [c]\n"
			 "3000 worker > first hop +500 late [c]\n"
			 "3100 worker > deeper +100 in first hop late [c]\n"
			 "4000 helper > second hop +500 late [c]\n");
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	free(walk__text(s, NULL));
	assert_int_equal(session__counts(s)->late, 3);
	session__free(s);
}

static void what_was_sent_before_the_flow_came_in_is_no_effect(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1000, 2000, "c");
	rec__span(w->b, w->main, 1100, 100, "enqueue");
	out(w, w->main, 1150, 1);
	rec__span(w->b, w->worker, 3000, 500, "run");
	out(w, w->worker, 3005, 9);
	in(w, w->worker, 3010, 1);
	rec__span(w->b, w->helper, 4000, 10, "of another cause");
	in(w, w->helper, 4001, 9);
	tail(w, 9000);
	assert_walk_only(rec__open(w->b), NULL, " > ",
			 "1100 main > enqueue +100 [c]\n"
			 "3000 worker > run +500 late [c]\n");
}

/* A worker that never leaves its outer span belongs by overlap; the jobs in it do by cause. */
static void loop_of_a_worker_does_not_drag_later_jobs_in(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1000, 2000, "c");
	rec__span(w->b, w->worker, 500, 8000, "loop");
	rec__span(w->b, w->main, 1100, 2800, "enqueue");
	out(w, w->main, 1150, 1);
	out(w, w->main, 2500, 2);
	in(w, w->worker, 3000, 1);
	rec__span(w->b, w->worker, 3010, 100, "job 1");
	in(w, w->worker, 4000, 2);
	rec__span(w->b, w->worker, 4010, 100, "job 2");
	tail(w, 9000);
	assert_walk_only(rec__open(w->b), NULL, " > ",
			 "500 worker > loop +8000 cut [c]\n"
			 "1100 main > enqueue +2800 cut [c]\n"
			 "3010 worker > job 1 +100 in loop late [c]\n");
}

static void chain_of_hops(struct world *w, unsigned int hops)
{
	uint64_t ts = 3000;
	unsigned int i;

	rec__capture(w->b, 1000, 2000, "c");
	rec__span(w->b, w->main, 1100, 100, "hop");
	out(w, w->main, 1150, 0);
	for (i = 0; i < hops; i++, ts += 100) {
		uint32_t thread = i & 1 ? w->helper : w->worker;

		rec__span(w->b, thread, ts, 50, "hop");
		in(w, thread, ts + 1, i);
		out(w, thread, ts + 2, i + 1);
	}
	tail(w, 90000);
}

static uint64_t spans_of(const struct recording *r, unsigned int depth)
{
	struct session_opts o = { .max_cause_depth = depth };
	struct session *s;
	uint64_t n;

	assert_int_equal(session__new(r, &o, &s, NULL), 0);
	free(walk__text(s, NULL));
	n = session__counts(s)->spans;
	session__free(s);
	return n;
}

static void cause_is_followed_over_a_bounded_number_of_hops(void **state)
{
	struct world *w = *state;
	struct recording *r;

	chain_of_hops(w, 100);
	r = rec__open(w->b);
	assert_int_equal(spans_of(r, 0), 1 + 16);
	assert_int_equal(spans_of(r, 1), 1 + 1);
	assert_int_equal(spans_of(r, 3), 1 + 3);
	assert_int_equal(spans_of(r, 1000), 1 + 100);
}

static void id_that_ended_and_is_used_again_is_another_one(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1000, 2000, "c");
	rec__span(w->b, w->main, 1100, 100, "enqueue");
	out(w, w->main, 1110, 1);
	rec__span(w->b, w->worker, 1500, 10, "run");
	in(w, w->worker, 1501, 1);
	rec__span(w->b, w->main, 3000, 100, "enqueue later");
	out(w, w->main, 3010, 1);
	rec__span(w->b, w->worker, 3500, 10, "run later");
	in(w, w->worker, 3501, 1);
	tail(w, 9000);
	assert_walk_only(rec__open(w->b), NULL, " > ",
			 "1100 main > enqueue +100 [c]\n"
			 "1500 worker > run +10 [c]\n");
}

static void ids_of_other_processes_and_other_names_are_others(void **state)
{
	struct world *w = *state;
	uint32_t p = rec__process(w->b, 200, "other"), t = rec__thread(w->b, p, 200, "stranger");

	rec__capture(w->b, 1000, 2000, "c");
	rec__span(w->b, w->main, 1100, 100, "enqueue");
	out(w, w->main, 1110, 1);
	rec__span(w->b, t, 3000, 10, "same id elsewhere");
	in(w, t, 3001, 1);
	rec__span(w->b, w->helper, 3000, 10, "same id, other name");
	rec__event(w->b, w->helper, EV_FLOW_IN, 3001, "batch")->id = 1;
	tail(w, 9000);
	assert_walk_only(rec__open(w->b), NULL, " > ", "1100 main > enqueue +100 [c]\n");
}

static void async_span_begun_in_the_window_belongs_and_makes_its_end_late_work(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1000, 2000, "c");
	rec__event(w->b, w->main, EV_ASYNC_BEGIN, 1500, "copy")->id = 3;
	rec__span(w->b, w->worker, 3000, 100, "on copied");
	rec__event(w->b, w->worker, EV_ASYNC_END, 3050, "copy")->id = 3;
	rec__event(w->b, w->main, EV_ASYNC_BEGIN, 4000, "copy")->id = 3;
	rec__event(w->b, w->main, EV_ASYNC_END, 4100, "copy")->id = 3;
	tail(w, 9000);
	assert_walk(rec__open(w->b), NULL,
		    "1500 main ( copy lane 0 [c]\n"
		    "3000 worker > on copied +100 late [c]\n"
		    "3050 worker ) copy lane 0 dur 1550 [c]\n"
		    "3100 worker < on copied self 100 [c]\n");
}

static void async_span_and_request_begun_before_the_window_belong_by_overlap(void **state)
{
	struct world *w = *state;
	struct event *ev;

	rec__capture(w->b, 2000, 3000, "c");
	rec__event(w->b, w->main, EV_ASYNC_BEGIN, 1000, "copy")->id = 1;
	rec__event(w->b, w->main, EV_ASYNC_BEGIN, 1010, "short")->id = 1;
	rec__event(w->b, w->main, EV_ASYNC_END, 1020, "short")->id = 1;
	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 1100, "chat")->id = 1;
	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 1110, "chat")->id = 2;
	rec__event(w->b, w->main, EV_REQUEST_END, 1120, "chat")->id = 2;
	rec__event(w->b, w->main, EV_REQUEST_FIRST, 2500, "chat")->id = 1;
	rec__event(w->b, w->main, EV_ASYNC_END, 2600, "copy")->id = 1;
	ev = rec__event(w->b, w->main, EV_REQUEST_OUTPUT, 2700, "chat");
	ev->id = 1;
	ev->value = 5;
	rec__event(w->b, w->main, EV_REQUEST_END, 3500, "chat")->id = 1;
	tail(w, 9000);
	assert_walk(rec__open(w->b), NULL,
		    "1000 main ( copy lane 0 [c]\n"
		    "1100 main request begin chat [c]\n"
		    "2500 main request first chat since 1400 first 1400 units 0 [c]\n"
		    "2600 main ) copy lane 0 dur 1600 [c]\n"
		    "2700 main request output chat since 1600 first 1400 units 5 [c]\n"
		    "3500 main request end chat since 2400 first 1400 units 5 [c]\n");
}

static void request_begun_in_the_window_makes_what_serves_it_late_work(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1000, 2000, "c");
	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 1500, "chat")->id = 1;
	rec__span(w->b, w->worker, 3000, 100, "answer");
	rec__event(w->b, w->worker, EV_REQUEST_END, 3050, "chat")->id = 1;
	tail(w, 9000);
	assert_walk(rec__open(w->b), NULL,
		    "1500 main request begin chat [c]\n"
		    "3000 worker > answer +100 late [c]\n"
		    "3050 worker request end chat since 1550 first - units 0 [c]\n"
		    "3100 worker < answer self 100 [c]\n");
}

static void late_work_follows_only_the_capture_that_caused_it(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1000, 2000, "first");
	rec__capture(w->b, 3000, 5000, "second");
	rec__span(w->b, w->main, 1100, 100, "enqueue");
	out(w, w->main, 1150, 7);
	rec__span(w->b, w->worker, 3500, 10, "run");
	in(w, w->worker, 3501, 7);
	tail(w, 9000);
	assert_walk_only(rec__open(w->b), NULL, " > ",
			 "1100 main > enqueue +100 [first]\n"
			 "3500 worker > run +10 late [first second]\n");
}

static void memory_and_points_follow_the_window(void **state)
{
	struct world *w = *state;
	struct event *ev;

	rec__capture(w->b, 2000, 3000, "c");
	ev = rec__event(w->b, w->main, EV_ALLOC, 1000, NULL);
	ev->id = 1;
	ev->value = 100;
	ev = rec__event(w->b, w->main, EV_ALLOC, 2500, NULL);
	ev->id = 2;
	ev->value = 50;
	rec__event(w->b, w->main, EV_FREE, 2600, NULL)->id = 1;
	rec__event(w->b, w->main, EV_FREE, 3100, NULL)->id = 2;
	rec__event(w->b, w->main, EV_COUNTER_I64, 1500, "depth")->value = 1;
	rec__event(w->b, w->main, EV_COUNTER_I64, 2550, "depth")->value = 2;
	assert_walk(rec__open(w->b), NULL,
		    "2500 main alloc 50 device 0: 150 in use, 0 reserved [c]\n"
		    "2550 main # depth 2 [c]\n"
		    "2600 main free 100 device 0: 50 in use, 0 reserved [c]\n");
}

static void more_captures_than_bits_are_all_in_the_result(void **state)
{
	struct world *w = *state;
	struct session *s;
	uint64_t i;

	for (i = 0; i < 200; i++) {
		rec__capture(w->b, 1000 + i * 100, 1050 + i * 100, "step");
		rec__span(w->b, w->main, 1010 + i * 100, 10, "in");
		rec__span(w->b, w->main, 1060 + i * 100, 10, "between");
	}
	tail(w, 90000);
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	free(walk__text(s, NULL));
	assert_int_equal(session__n_captures(s), 200);
	assert_int_equal(session__counts(s)->spans, 200);
	assert_int_equal(session__counts(s)->outside, 200);
	assert_int_not_equal(session__capture_bit(61), session__capture_bit(62));
	assert_int_equal(session__capture_bit(62), session__capture_bit(199));
	session__free(s);
}

static void membership_does_not_depend_on_how_the_file_was_written(void **state)
{
	struct world *w = *state;
	struct session *s;
	char *text, *first = NULL;
	unsigned int seed;

	chain_of_hops(w, 30);
	rec__capture(w->b, 3300, 3310, "tiny");
	for (seed = 0; seed < 8; seed++) {
		rec__layout(w->b, 1 + seed, seed);
		assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
		text = walk__text(s, NULL);
		session__free(s);
		if (first)
			assert_string_equal(text, first);
		else
			first = strdup(text);
		free(text);
	}
	free(first);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(warm_up_outside_every_window_is_in_no_result),
		TEST(touching_the_window_is_not_overlapping_it),
		TEST(span_cut_by_an_edge_keeps_its_times_and_is_flagged),
		TEST(captures_nest_overlap_and_share_a_tag),
		TEST(unknown_tag_is_an_error_that_names_the_tags),
		TEST(without_captures_everything_belongs),
		TEST(outside_captures_can_be_asked_for),
		TEST(open_capture_reaches_to_the_end),
		TEST(late_work_belongs_with_its_children),
		TEST(what_late_work_enqueues_comes_along_in_turn),
		TEST(what_was_sent_before_the_flow_came_in_is_no_effect),
		TEST(loop_of_a_worker_does_not_drag_later_jobs_in),
		TEST(cause_is_followed_over_a_bounded_number_of_hops),
		TEST(id_that_ended_and_is_used_again_is_another_one),
		TEST(ids_of_other_processes_and_other_names_are_others),
		TEST(async_span_begun_in_the_window_belongs_and_makes_its_end_late_work),
		TEST(async_span_and_request_begun_before_the_window_belong_by_overlap),
		TEST(request_begun_in_the_window_makes_what_serves_it_late_work),
		TEST(late_work_follows_only_the_capture_that_caused_it),
		TEST(memory_and_points_follow_the_window),
		TEST(more_captures_than_bits_are_all_in_the_result),
		TEST(membership_does_not_depend_on_how_the_file_was_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
