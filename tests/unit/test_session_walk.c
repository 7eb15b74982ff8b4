// SPDX-License-Identifier: Apache-2.0
/* One order out of many blocks; nesting and its repair; bounds; filters. */
#include "tests/common/rec_builder.h"
#include "tests/common/walk_text.h"

#include <errno.h>
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

static void gives_parents_before_children_and_self_time(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 5000, "step");
	rec__span(w->b, w->main, 1100, 500, "load");
	rec__span(w->b, w->main, 2000, 2000, "conv");
	rec__span(w->b, w->main, 2500, 1000, "gemm");
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > step +5000\n"
		    "1100 main > load +500 in step\n"
		    "1600 main < load self 500\n"
		    "2000 main > conv +2000 in step\n"
		    "2500 main > gemm +1000 in conv\n"
		    "3500 main < gemm self 1000\n"
		    "4000 main < conv self 1000\n"
		    "6000 main < step self 2500\n");
}

static void ends_come_before_begins_of_the_same_moment(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 100, "a");
	rec__span(w->b, w->main, 1100, 100, "b");
	rec__span(w->b, w->worker, 1050, 50, "c");
	rec__span(w->b, w->worker, 1100, 10, "d");
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > a +100\n"
		    "1050 worker > c +50\n"
		    "1100 main < a self 100\n"
		    "1100 worker < c self 50\n"
		    "1100 main > b +100\n"
		    "1100 worker > d +10\n"
		    "1110 worker < d self 10\n"
		    "1200 main < b self 100\n");
}

static void longer_span_of_another_stream_is_the_parent(void **state)
{
	struct world *w = *state;

	rec__stream(w->b, 1);
	rec__span(w->b, w->main, 1000, 10, "inner");
	rec__event(w->b, w->main, EV_INSTANT, 1000, "point");
	rec__stream(w->b, 2);
	rec__span(w->b, w->main, 1000, 50, "outer");
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > outer +50\n"
		    "1000 main > inner +10 in outer\n"
		    "1000 main . instant point\n"
		    "1010 main < inner self 10\n"
		    "1050 main < outer self 40\n");
}

static void spans_of_no_length_are_balanced(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 0, "a");
	rec__span(w->b, w->main, 1000, 0, "b");
	rec__span(w->b, w->main, 1000, 5, "c");
	rec__span(w->b, w->main, 1005, 0, "d");
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > a +0\n"
		    "1000 main < a self 0\n"
		    "1000 main > b +0\n"
		    "1000 main < b self 0\n"
		    "1000 main > c +5\n"
		    "1005 main < c self 5\n"
		    "1005 main > d +0\n"
		    "1005 main < d self 0\n");
}

static void cuts_a_child_that_outlives_its_parent(void **state)
{
	struct world *w = *state;
	struct session *s;

	rec__span(w->b, w->main, 1000, 1000, "parent");
	rec__span(w->b, w->main, 1500, 1000, "child");
	rec__span(w->b, w->main, 1600, 2000, "grandchild");
	rec__span(w->b, w->main, 2000, 100, "next");
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > parent +1000\n"
		    "1500 main > child +500 in parent clipped\n"
		    "1600 main > grandchild +400 in child clipped\n"
		    "2000 main < grandchild self 400\n"
		    "2000 main < child self 100\n"
		    "2000 main < parent self 500\n"
		    "2000 main > next +100\n"
		    "2100 main < next self 100\n");
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	free(walk__text(s, NULL));
	assert_int_equal(session__counts(s)->clipped, 2);
	assert_int_equal(session__counts(s)->spans, 4);
	assert_int_equal(session__counts(s)->unfinished, 0);
	session__free(s);
}

/* Two sources of one thread: what lies around is told a little late by the other one's clock. */
static void clocks_of_two_sources_do_not_change_who_is_the_parent(void **state)
{
	struct world *w = *state;

	rec__stream(w->b, 1);
	rec__span(w->b, w->main, 1000, 3000, "inner");
	rec__span(w->b, w->main, 5000, 500, "alone");
	rec__stream(w->b, 2);
	rec__span(w->b, w->main, 1040, 3900, "outer");
	rec__open_span(w->b, w->main, 5101, 6000, "later");
	rec__layout(w->b, 1, 0);
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > outer +3940\n"
		    "1000 main > inner +3000 in outer\n"
		    "4000 main < inner self 3000\n"
		    "4940 main < outer self 940\n"
		    "5000 main > alone +500\n"
		    "5101 main > later +399 in alone clipped\n"
		    "5500 main < later self 399\n"
		    "5500 main < alone self 101\n");
}

static void child_that_ends_just_after_its_parent_is_not_called_clipped(void **state)
{
	struct world *w = *state;

	rec__stream(w->b, 1);
	rec__span(w->b, w->main, 1000, 1000, "function");
	rec__stream(w->b, 2);
	rec__span(w->b, w->main, 1500, 560, "marker");
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > function +1000\n"
		    "1500 main > marker +500 in function\n"
		    "2000 main < marker self 500\n"
		    "2000 main < function self 500\n");
}

static void span_that_begins_just_before_the_last_one_ends_follows_it(void **state)
{
	struct world *w = *state;

	rec__stream(w->b, 1);
	rec__span(w->b, w->main, 1000, 1000, "first");
	rec__stream(w->b, 2);
	rec__span(w->b, w->main, 1970, 1000, "second");
	rec__span(w->b, w->main, 1990, 500, "in it");
	rec__event(w->b, w->main, EV_INSTANT, 1995, "point");
	rec__span(w->b, w->main, 2600, 100, "in it, too");
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > first +1000\n"
		    "2000 main < first self 1000\n"
		    "2000 main > second +970\n"
		    "2000 main > in it +490 in second\n"
		    "2000 main . instant point\n"
		    "2490 main < in it self 490\n"
		    "2600 main > in it, too +100 in second\n"
		    "2700 main < in it, too self 100\n"
		    "2970 main < second self 380\n");
}

static void short_spans_side_by_side_stay_so(void **state)
{
	struct world *w = *state;

	rec__stream(w->b, 1);
	rec__span(w->b, w->main, 1000, 20, "a");
	rec__span(w->b, w->main, 1060, 20, "b");
	rec__stream(w->b, 2);
	rec__span(w->b, w->main, 1030, 20, "c");
	rec__span(w->b, w->main, 1090, 900, "d");
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > a +20\n"
		    "1020 main < a self 20\n"
		    "1030 main > c +20\n"
		    "1050 main < c self 20\n"
		    "1060 main > b +20\n"
		    "1080 main < b self 20\n"
		    "1090 main > d +900\n"
		    "1990 main < d self 900\n");
}

static void announced_span_gets_the_end_and_arguments_of_a_later_block(void **state)
{
	struct world *w = *state;

	rec__open_span(w->b, w->main, 1000, 9000, "serve");
	rec__arg_i64(w->b, "port", 80);
	rec__span(w->b, w->main, 2000, 1000, "accept");
	rec__arg_str(w->b, "from", "peer", 4);
	rec__layout(w->b, 1, 0);
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > serve +8000 port=80\n"
		    "2000 main > accept +1000 from=\"peer\" in serve\n"
		    "3000 main < accept self 1000\n"
		    "9000 main < serve self 7000\n");
}

static void span_without_an_end_closes_with_its_thread_or_the_recording(void **state)
{
	struct world *w = *state;

	rec__thread_info(w->b, w->worker)->ended = 4000;
	rec__open_span(w->b, w->main, 1000, 0, "serve");
	rec__open_span(w->b, w->worker, 1500, 0, "run");
	rec__span(w->b, w->main, 2000, 100, "accept");
	rec__event(w->b, w->main, EV_INSTANT, 7000, "last");
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > serve +6000 unfinished\n"
		    "1500 worker > run +2500 unfinished\n"
		    "2000 main > accept +100 in serve\n"
		    "2100 main < accept self 100\n"
		    "4000 worker < run self 2500\n"
		    "7000 main < serve self 5900\n"
		    "7000 main . instant last\n");
}

static void unfinished_child_is_left_with_its_parent_and_not_called_clipped(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 1000, "try");
	rec__open_span(w->b, w->main, 1200, 0, "thrower");
	rec__event(w->b, w->main, EV_INSTANT, 3000, "later");
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > try +1000\n"
		    "1200 main > thrower +800 in try unfinished\n"
		    "2000 main < thrower self 800\n"
		    "2000 main < try self 200\n"
		    "3000 main . instant later\n");
}

static void keeps_the_flag_of_spans_that_ran_before_the_attach(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "old")->flags = EVS_NO_BEGIN;
	assert_walk(rec__open(w->b), NULL,
		    "1000 main > old +10 no_begin\n"
		    "1010 main < old self 10\n");
}

static void rejects_and_counts_times_outside_the_recording(void **state)
{
	const uint64_t sec = NSEC_PER_SEC, begin = 1000 * sec;
	struct world *w = *state;
	struct session *s;
	char *text;

	rec__anchor(w->b, begin, 1);
	rec__anchor(w->b, begin + sec, 2);
	rec__event(w->b, w->main, EV_INSTANT, 5, "at boot");
	rec__span(w->b, w->main, begin + 10, UINT64_MAX / 2, "endless");
	rec__span(w->b, w->main, begin + 20, 5, "good");
	rec__event(w->b, w->worker, EV_INSTANT, UINT64_MAX - 5, "end of days");
	rec__span(w->b, w->worker, begin - sec, 5, "given start");
	rec__open_span(w->b, w->main, begin + 30, begin + 29, "backwards");
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	text = walk__text(s, " > ");
	assert_string_equal(text, "999000000000 worker > given start +5\n"
				  "1000000000020 main > good +5\n"
				  "1000000000030 main > backwards +999999970 unfinished\n");
	free(text);
	assert_int_equal(session__counts(s)->bad_times, 4);
	assert_int_equal(session__begin(s), begin - sec);
	assert_int_equal(session__end(s), begin + sec);
	session__free(s);
}

static void blocks_of_one_stream_that_overlap_in_time_are_merged(void **state)
{
	struct world *w = *state;
	struct recording *r;

	/* Two blocks of one stream, as no recorder writes them: the second begins before the first
	 * has ended. Nothing of either may be lost. */
	rec__span(w->b, w->main, 1000, 10, "a");
	rec__span(w->b, w->main, 3000, 10, "c");
	rec__stream(w->b, 1);
	rec__span(w->b, w->main, 2000, 10, "b");
	rec__span(w->b, w->main, 4000, 10, "d");
	r = rec__open(w->b);
	((struct recording_block *)(uintptr_t)recording__block(r, 1))->stream =
		recording__block(r, 0)->stream;
	assert_walk_only(r, NULL, " > ",
			 "1000 main > a +10\n"
			 "2000 main > b +10\n"
			 "3000 main > c +10\n"
			 "4000 main > d +10\n");
}

static void fill_mixed(struct world *w)
{
	uint32_t other = rec__process(w->b, 50, "other"), t = rec__thread(w->b, other, 50, "lone");
	uint64_t i;

	for (i = 0; i < 200; i++) {
		struct event *ev;

		rec__stream(w->b, 0);
		rec__span(w->b, w->main, 1000 + i * 100, 90, i & 1 ? "odd" : "even");
		rec__span(w->b, w->main, 1000 + i * 100, 40, "first half");
		rec__event(w->b, w->main, EV_FLOW_OUT, 1010 + i * 100, "job")->id = i;
		rec__stream(w->b, 5);
		rec__span(w->b, w->main, 1000 + i * 100, 40, "also first half");
		rec__span(w->b, w->main, 1045 + i * 100, 60, "crosses");
		rec__stream(w->b, 1);
		rec__span(w->b, w->worker, 1000 + i * 100, 90, "run");
		rec__event(w->b, w->worker, EV_FLOW_IN, 1020 + i * 100, "job")->id = i;
		rec__event(w->b, w->worker, EV_ASYNC_BEGIN, 1030 + i * 100, "copy")->id = i;
		rec__event(w->b, t, EV_ASYNC_BEGIN, 1030 + i * 100, "copy")->id = i;
		rec__event(w->b, t, EV_INSTANT, 1000 + i * 100, "tick");
		if (i > 2)
			rec__event(w->b, w->worker, EV_ASYNC_END, 1031 + i * 100, "copy")->id =
				i - 2;
		ev = rec__event(w->b, w->worker, EV_ALLOC, 1040 + i * 100, NULL);
		ev->id = i % 17;
		ev->value = 64 + i;
		rec__event(w->b, w->worker, EV_FREE, 1041 + i * 100, NULL)->id = i % 5;
	}
}

static void order_does_not_depend_on_how_the_file_was_written(void **state)
{
	static const size_t block_events[] = { 1, 3, 7, 100000 };
	struct world *w = *state;
	struct session *s;
	char *first = NULL;
	unsigned int seed;
	size_t i;

	fill_mixed(w);
	for (i = 0; i < ARRAY_SIZE(block_events); i++) {
		for (seed = 0; seed < 5; seed++) {
			char *text;

			rec__layout(w->b, block_events[i], seed);
			assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
			text = walk__text(s, NULL);
			session__free(s);
			if (first)
				assert_string_equal(text, first);
			else
				first = strdup(text);
			free(text);
		}
	}
	assert_true(strlen(first) > 10000);
	free(first);
}

static void filters_by_process_thread_name_and_time(void **state)
{
	struct world *w = *state;
	uint32_t p = rec__process(w->b, 200, "other"), t = rec__thread(w->b, p, 200, "lone");
	struct session_opts by_pid = { .pid = 200 }, by_tid = { .tid = 101 };
	struct session_opts by_name = { .name_glob = "conv*" };
	struct session_opts by_time = { .from = 2000, .to = 3000 };
	struct session_opts relative = { .from = 1000, .to = 2000, .relative = true };
	const char *in_time = "1000 main > step +2000 cut\n"
			      "1950 worker > conv1 +100 cut\n"
			      "2900 main > conv2 +50 in step\n";
	struct recording *r;

	rec__span(w->b, w->main, 1000, 2000, "step");
	rec__span(w->b, w->main, 1100, 100, "conv0");
	rec__span(w->b, w->worker, 1950, 100, "conv1");
	rec__span(w->b, w->main, 2900, 50, "conv2");
	rec__span(w->b, t, 3000, 50, "conv3");
	r = rec__open(w->b);
	assert_walk_only(r, &by_pid, " > ", "3000 lone > conv3 +50\n");
	assert_walk_only(r, &by_tid, " > ", "1950 worker > conv1 +100\n");
	assert_walk_only(r, &by_name, " > ",
			 "1100 main > conv0 +100\n"
			 "1950 worker > conv1 +100\n"
			 "2900 main > conv2 +50\n"
			 "3000 lone > conv3 +50\n");
	assert_walk_only(r, &by_time, " > ", in_time);
	assert_walk_only(r, &relative, " > ", in_time);
}

static void hidden_spans_between_are_skipped_as_parents_but_keep_their_time(void **state)
{
	struct session_opts o = { .name_glob = "[ac]" };
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 100, "a");
	rec__span(w->b, w->main, 1010, 50, "b");
	rec__span(w->b, w->main, 1020, 10, "c");
	assert_walk(rec__open(w->b), &o,
		    "1000 main > a +100\n"
		    "1020 main > c +10 in a\n"
		    "1030 main < c self 10\n"
		    "1100 main < a self 50\n");
}

static void empty_recording_gives_nothing(void **state)
{
	struct world *w = *state;

	assert_walk(rec__open(w->b), NULL, "");
}

static void images_of_one_pid_are_separate_tracks(void **state)
{
	struct world *w = *state;
	uint32_t p = rec__process(w->b, 100, "exec'd"), t = rec__thread(w->b, p, 100, "main2");
	struct session *s;

	rec__process_info(w->b, p)->exec_gen = 1;
	rec__process_info(w->b, p)->start = rec__process_info(w->b, w->server)->start;
	rec__span(w->b, w->main, 1000, 10, "before");
	rec__span(w->b, t, 2000, 10, "after");
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	assert_int_equal(session__n_tracks(s), 3);
	assert_string_equal(session__track(s, 0)->name, "main");
	assert_string_equal(session__track(s, 1)->name, "worker");
	assert_string_equal(session__track(s, 2)->name, "main2");
	assert_true(session__track(s, 0)->leads && session__track(s, 2)->leads);
	assert_false(session__track(s, 1)->used);
	session__free(s);
}

static void realtime_follows_the_nearest_anchor_before(void **state)
{
	struct world *w = *state;
	struct session *s;

	rec__anchor(w->b, 1000, 50000);
	rec__anchor(w->b, 2000, 90000); /* the wall clock was set forward in between */
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	assert_int_equal(session__realtime(s, 1500), 50500);
	assert_int_equal(session__realtime(s, 2000), 90000);
	assert_int_equal(session__realtime(s, 2600), 90600);
	assert_int_equal(session__realtime(s, 900), 49900);
	session__free(s);
}

static int stop_at_second(void *ctx, const struct item *it)
{
	(void)it;
	return ++*(int *)ctx == 2 ? -ECANCELED : 0;
}

static void sink_can_stop_the_walk(void **state)
{
	struct world *w = *state;
	struct session *s;
	int seen = 0;

	rec__span(w->b, w->main, 1000, 100, "a");
	rec__span(w->b, w->main, 1010, 50, "b");
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	assert_int_equal(session__walk(s, stop_at_second, &seen), -ECANCELED);
	assert_int_equal(seen, 2);
	session__free(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(gives_parents_before_children_and_self_time),
		TEST(ends_come_before_begins_of_the_same_moment),
		TEST(longer_span_of_another_stream_is_the_parent),
		TEST(spans_of_no_length_are_balanced),
		TEST(cuts_a_child_that_outlives_its_parent),
		TEST(announced_span_gets_the_end_and_arguments_of_a_later_block),
		TEST(span_without_an_end_closes_with_its_thread_or_the_recording),
		TEST(clocks_of_two_sources_do_not_change_who_is_the_parent),
		TEST(child_that_ends_just_after_its_parent_is_not_called_clipped),
		TEST(span_that_begins_just_before_the_last_one_ends_follows_it),
		TEST(short_spans_side_by_side_stay_so),
		TEST(unfinished_child_is_left_with_its_parent_and_not_called_clipped),
		TEST(keeps_the_flag_of_spans_that_ran_before_the_attach),
		TEST(rejects_and_counts_times_outside_the_recording),
		TEST(blocks_of_one_stream_that_overlap_in_time_are_merged),
		TEST(order_does_not_depend_on_how_the_file_was_written),
		TEST(filters_by_process_thread_name_and_time),
		TEST(hidden_spans_between_are_skipped_as_parents_but_keep_their_time),
		TEST(empty_recording_gives_nothing),
		TEST(images_of_one_pid_are_separate_tracks),
		TEST(realtime_follows_the_nearest_anchor_before),
		TEST(sink_can_stop_the_walk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
