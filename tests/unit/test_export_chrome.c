// SPDX-License-Identifier: Apache-2.0
/* The Chrome trace as readers see it, parsed back. */
#include "tests/common/export_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

struct world {
	struct rec *b;
	uint32_t server, main, worker;
	cJSON *tree, *events;
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

	cJSON_Delete(w->tree);
	rec__free(w->b);
	free(w);
	return 0;
}

static void export_trace(struct world *w)
{
	static const char head[] = "{\"displayTimeUnit\":\"ns\",\"schemaVersion\":1,";
	char *text = export__text(w->b, "chrome", NULL, NULL, NULL);

	/* Importers tell the format by the first key. */
	assert_int_equal(strncmp(text, head, strlen(head)), 0);
	w->tree = cJSON_ParseWithOpts(text, NULL, true);
	assert_non_null(w->tree);
	w->events = cJSON_GetObjectItemCaseSensitive(w->tree, "traceEvents");
	assert_true(cJSON_IsArray(w->events));
	free(text);
}

static const char *text_of(const cJSON *e, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(e, key);

	return cJSON_IsString(v) ? v->valuestring : "";
}

static double number(const cJSON *e, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(e, key);

	if (!cJSON_IsNumber(v))
		fail_msg("no number %s", key);
	return v->valuedouble;
}

static const cJSON *args(const cJSON *e)
{
	return cJSON_GetObjectItemCaseSensitive(e, "args");
}

/* The @nth event with this phase and name (NULL = any). */
static const cJSON *find(struct world *w, const char *ph, const char *name, int nth)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, w->events)
	{
		if (!strcmp(text_of(e, "ph"), ph) && (!name || !strcmp(text_of(e, "name"), name)) &&
		    !nth--)
			return e;
	}
	return NULL;
}

static void spans_are_complete_events_with_exact_relative_times(void **state)
{
	struct world *w = *state;
	const cJSON *e;

	rec__anchor(w->b, 5000000001, 1700000000123456789ull);
	rec__span(w->b, w->main, 5000000001, 1000007, "a");
	rec__span(w->b, w->main, 5000001003, 999, "b")->cat = rec__id(w->b, "cat");
	rec__arg_i64(w->b, "big", INT64_MIN);
	rec__arg_f64(w->b, "nan", NAN);
	rec__arg_str(w->b, "s", "x\0y", 3);
	export_trace(w);
	e = find(w, "X", "a", 0);
	assert_true(number(e, "ts") == 0 && number(e, "dur") == 1000.007);
	assert_true(number(e, "pid") == 100 && number(e, "tid") == 100);
	assert_string_equal(text_of(e, "cat"), "span");
	e = find(w, "X", "b", 0);
	assert_true(number(e, "ts") == 1.002 && number(e, "dur") == 0.999);
	assert_string_equal(text_of(e, "cat"), "cat");
	assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(args(e), "nan")));
	assert_true(number(args(e), "big") == (double)INT64_MIN);
	assert_true(number(w->tree, "baseTimeNanoseconds") == 1700000000123456789.0);
	assert_true(number(w->tree, "baseBoottimeNanoseconds") == 5000000001.0);
}

static void flags_are_arguments(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1000, 3000, "c");
	rec__span(w->b, w->main, 1000, 1000, "parent");
	rec__span(w->b, w->main, 1500, 1000, "child");
	rec__open_span(w->b, w->worker, 2000, 0, "open");
	rec__event(w->b, w->main, EV_INSTANT, 5000, "end");
	export_trace(w);
	assert_true(cJSON_IsTrue(
		cJSON_GetObjectItemCaseSensitive(args(find(w, "X", "child", 0)), "clika.clipped")));
	assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(args(find(w, "X", "open", 0)),
								  "clika.unfinished")));
	assert_true(cJSON_IsTrue(
		cJSON_GetObjectItemCaseSensitive(args(find(w, "X", "open", 0)), "clika.cut")));
	assert_int_equal(cJSON_GetArraySize(args(find(w, "X", "parent", 0))), 0);
}

static void key_given_at_begin_and_end_is_written_once(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 1000, "a");
	rec__arg_i64(w->b, "k", 1);
	rec__arg_i64(w->b, "k", 2);
	export_trace(w);
	assert_int_equal(cJSON_GetArraySize(args(find(w, "X", "a", 0))), 1);
	assert_true(number(args(find(w, "X", "a", 0)), "k") == 2);
}

static void keys_that_would_look_alike_are_told_apart(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 1000, "a");
	rec__arg_i64(w->b, "\xff", 1);
	rec__arg_i64(w->b, "\xfe", 2);
	rec__arg_i64(w->b, "clika.cut", 3);
	rec__arg_i64(w->b, "\xfd", 4);
	rec__arg_i64(w->b, "\xff", 5);
	export_trace(w);
	assert_int_equal(cJSON_GetArraySize(args(find(w, "X", "a", 0))), 4);
	assert_true(number(args(find(w, "X", "a", 0)), "\xef\xbf\xbd") == 2);
	assert_true(number(args(find(w, "X", "a", 0)), "\xef\xbf\xbd #2") == 4);
	assert_true(number(args(find(w, "X", "a", 0)), "\xef\xbf\xbd #3") == 5);
	assert_true(number(args(find(w, "X", "a", 0)), "arg.clika.cut") == 3);
}

static void unknown_names_are_made_up(void **state)
{
	struct world *w = *state;
	uint32_t p = rec__process(w->b, 300, NULL), t = rec__thread(w->b, p, 301, "");

	rec__span(w->b, t, 1000, 10, "a");
	export_trace(w);
	assert_string_equal(text_of(args(find(w, "M", "process_name", 0)), "name"), "process 300");
	assert_string_equal(text_of(args(find(w, "M", "thread_name", 0)), "name"), "thread 301");
}

static void names_come_first_and_tell_processes_apart(void **state)
{
	struct world *w = *state;
	uint32_t p = rec__process(w->b, 100, "image two"), t = rec__thread(w->b, p, 100, "main2");
	const cJSON *first, *e;

	rec__process_info(w->b, w->server)->container = (char *)"c0ffee";
	rec__process_info(w->b, w->server)->cgroup = (char *)"/sys.slice";
	rec__process_info(w->b, p)->exec_gen = 1;
	rec__span(w->b, w->main, 1000, 10, "before");
	rec__span(w->b, t, 2000, 10, "after");
	export_trace(w);
	first = cJSON_GetArrayItem(w->events, 0);
	assert_string_equal(text_of(first, "ph"), "M");
	assert_string_equal(text_of(first, "name"), "process_name");
	assert_string_equal(text_of(args(first), "name"), "server");
	e = find(w, "M", "process_labels", 0);
	assert_string_equal(text_of(args(e), "labels"), "container c0ffee, cgroup /sys.slice");
	e = find(w, "M", "process_labels", 1);
	assert_string_equal(text_of(args(e), "labels"), "pid 100, image 2");
	assert_true(number(e, "pid") >= 10000000);
	assert_true(number(find(w, "X", "before", 0), "pid") == 100);
	assert_true(number(find(w, "X", "after", 0), "pid") == number(e, "pid"));
	assert_true(number(find(w, "X", "after", 0), "tid") == number(e, "pid"));
	/* The worker did nothing, so viewers get no row for it. */
	assert_null(find(w, "M", "thread_name", 2));
}

static void numbers_that_viewers_misread_are_replaced(void **state)
{
	struct world *w = *state;
	uint32_t p = rec__process(w->b, 0, "zero"), t = rec__thread(w->b, p, 0, "zero");
	uint32_t q = rec__process(w->b, 300, "q"), twin = rec__thread(w->b, q, 101, "twin");
	uint32_t big = rec__thread(w->b, q, UINT32_MAX, "big");

	rec__span(w->b, w->worker, 1000, 10, "worker");
	rec__span(w->b, t, 1000, 10, "zero");
	rec__span(w->b, twin, 1000, 10, "twin");
	rec__span(w->b, big, 1000, 10, "big");
	export_trace(w);
	assert_true(number(find(w, "X", "worker", 0), "tid") == 101);
	assert_true(number(find(w, "X", "zero", 0), "pid") >= 10000000);
	assert_true(number(find(w, "X", "zero", 0), "tid") >= 10000000);
	assert_true(number(find(w, "X", "twin", 0), "tid") >= 10000000);
	assert_true(number(find(w, "X", "big", 0), "tid") >= 10000000);
	assert_true(number(find(w, "X", "big", 0), "tid") < UINT32_MAX);
	assert_true(number(find(w, "X", "big", 0), "pid") == 300);
}

static void arrows_have_two_ends_and_a_number_of_their_own(void **state)
{
	struct world *w = *state;
	const cJSON *s, *f;
	uint64_t i;

	rec__span(w->b, w->main, 1000, 9000, "enqueue");
	rec__span(w->b, w->worker, 1000, 9000, "run");
	for (i = 0; i < 3; i++) {
		rec__event(w->b, w->main, EV_FLOW_OUT, 2000 + i * 100, "job")->id = 1;
		rec__event(w->b, w->worker, EV_FLOW_IN, 2050 + i * 100, "job")->id = 1;
	}
	rec__event(w->b, w->main, EV_FLOW_OUT, 3000, "job")->id = 9;
	rec__event(w->b, w->main, EV_FLOW_IN, 3010, "job")->id = 8;
	export_trace(w);
	for (i = 0; i < 3; i++) {
		s = find(w, "s", "job", (int)i);
		f = find(w, "f", "job", (int)i);
		assert_true(number(s, "id") == (double)(i + 1));
		assert_true(number(f, "id") == (double)(i + 1));
		assert_true(number(s, "tid") == 100 && number(f, "tid") == 101);
		assert_string_equal(text_of(f, "bp"), "e");
		assert_string_equal(text_of(s, "cat"), text_of(f, "cat"));
	}
	assert_null(find(w, "s", NULL, 3));
	assert_null(find(w, "f", NULL, 3));
}

/* Trace processor takes the last span that began for the enclosing one. */
static void arrows_leave_and_reach_the_enclosing_span_after_inner_ones(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 5000, "enqueue");
	rec__span(w->b, w->main, 1100, 100, "inner");
	rec__event(w->b, w->main, EV_FLOW_OUT, 2000, "job")->id = 1;
	rec__span(w->b, w->worker, 3000, 5000, "run");
	rec__span(w->b, w->worker, 3100, 100, "inner");
	rec__event(w->b, w->worker, EV_FLOW_IN, 4000, "job")->id = 1;
	rec__span(w->b, w->main, 9000, 100, "enqueue");
	rec__event(w->b, w->main, EV_FLOW_OUT, 9010, "job")->id = 2;
	rec__span(w->b, w->worker, 8500, 5000, "loop");
	rec__span(w->b, w->worker, 8600, 100, "inner");
	rec__event(w->b, w->worker, EV_FLOW_IN, 9500, "job")->id = 2;
	export_trace(w);
	assert_true(number(find(w, "s", "job", 0), "ts") == 0);
	assert_true(number(find(w, "f", "job", 0), "ts") == 2);
	assert_null(find(w, "i", "job", 1));
	assert_true(number(find(w, "s", "job", 1), "ts") == 8.01);
	assert_true(number(find(w, "f", "job", 1), "ts") == 8.5);
	assert_true(number(find(w, "i", "job", 0), "ts") == 8.5);
	assert_true(number(find(w, "i", "job", 0), "tid") == 101);
}

static void counters_have_one_series_and_a_closing_sample(void **state)
{
	struct world *w = *state;
	double half = 0.5, nan = NAN;
	struct event *ev;

	rec__event(w->b, w->main, EV_COUNTER_I64, 1000, "depth")->value = (uint64_t)-3;
	ev = rec__event(w->b, w->worker, EV_COUNTER_F64, 1100, "load");
	memcpy(&ev->value, &half, sizeof(half));
	ev = rec__event(w->b, w->worker, EV_COUNTER_F64, 1200, "load");
	memcpy(&ev->value, &nan, sizeof(nan));
	rec__event(w->b, w->main, EV_INSTANT, 9000, "end");
	export_trace(w);
	assert_int_equal(cJSON_GetArraySize(args(find(w, "C", "depth", 0))), 1);
	assert_true(number(args(find(w, "C", "depth", 0)), "value") == -3);
	assert_true(number(find(w, "C", "depth", 1), "ts") == 8);
	assert_true(number(args(find(w, "C", "depth", 1)), "value") == -3);
	assert_true(number(args(find(w, "C", "load", 0)), "value") == 0.5);
	assert_null(find(w, "C", "load", 1)); /* the last sample says nothing that could be drawn */
	assert_true(number(cJSON_GetObjectItem(cJSON_GetObjectItem(w->tree, "otherData"), "counts"),
			   "not_finite_samples") == 1);
}

static void memory_is_two_counters_for_each_process_and_device(void **state)
{
	struct world *w = *state;
	struct event *ev;

	ev = rec__event(w->b, w->main, EV_RESERVE, 1000, NULL);
	ev->id = 1;
	ev->value = 4096;
	ev->aux = 2;
	ev = rec__event(w->b, w->main, EV_ALLOC, 1100, NULL);
	ev->id = 1;
	ev->value = 100;
	ev->aux = 2;
	rec__event(w->b, w->main, EV_INSTANT, 2000, "end");
	export_trace(w);
	assert_true(number(args(find(w, "C", "memory reserved (device 2)", 0)), "bytes") == 4096);
	assert_true(number(args(find(w, "C", "memory in use (device 2)", 0)), "bytes") == 100);
	assert_true(number(find(w, "C", "memory in use (device 2)", 1), "ts") == 1);
	assert_true(number(find(w, "C", "memory reserved (device 2)", 1), "ts") == 1);
}

static void async_spans_and_requests_are_balanced_on_lanes(void **state)
{
	struct world *w = *state;
	const cJSON *b, *e;

	rec__event(w->b, w->main, EV_ASYNC_BEGIN, 1000, "copy")->id = 1;
	rec__event(w->b, w->main, EV_ASYNC_BEGIN, 1010, "copy")->id = 2;
	rec__event(w->b, w->worker, EV_ASYNC_END, 1020, "copy")->id = 1;
	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 1030, "chat")->id = 1;
	rec__event(w->b, w->main, EV_REQUEST_FIRST, 1040, "chat")->id = 1;
	rec__event(w->b, w->main, EV_INSTANT, 2000, "end");
	export_trace(w);
	b = find(w, "b", "copy", 0);
	e = find(w, "e", "copy", 0);
	assert_string_equal(text_of(b, "id"), text_of(e, "id"));
	assert_string_not_equal(text_of(b, "id"), text_of(find(w, "b", "copy", 1), "id"));
	e = find(w, "e", "copy", 1);
	assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(args(e), "clika.unfinished")));
	assert_true(number(e, "ts") == 1);
	assert_string_equal(text_of(find(w, "n", "first output", 0), "id"),
			    text_of(find(w, "b", "chat", 0), "id"));
	assert_non_null(find(w, "e", "chat", 0));
}

static void losses_are_an_event_and_metadata_with_zeros(void **state)
{
	struct world *w = *state;
	const cJSON *loss;

	rec__span(w->b, w->main, 1000, 10, "a");
	rec__loss(w->b, LOSS_RING_FULL, 12, 0);
	rec__loss(w->b, LOSS_READ_FAULT, 0, 30);
	export_trace(w);
	assert_string_equal(text_of(find(w, "i", "records lost", 0), "s"), "g");
	loss = cJSON_GetObjectItem(cJSON_GetObjectItem(w->tree, "otherData"), "loss");
	assert_true(number(loss, "records") == 12);
	assert_true(number(loss, "unknown_at_most") == 30);
	loss = cJSON_GetObjectItem(loss, "causes");
	assert_true(number(cJSON_GetObjectItem(loss, "ring_full"), "records") == 12);
	assert_true(number(cJSON_GetObjectItem(loss, "read_fault"), "unknown_at_most") == 30);
	assert_true(number(cJSON_GetObjectItem(loss, "map_full"), "records") == 0);
	assert_int_equal(cJSON_GetArraySize(loss), LOSS_CAUSE_COUNT - 1);
}

static void nothing_lost_is_no_event(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "a");
	rec__loss(w->b, LOSS_RING_FULL, 0, 0);
	export_trace(w);
	assert_null(find(w, "i", NULL, 0));
}

static void recording_without_events_is_a_valid_trace(void **state)
{
	struct world *w = *state;

	export_trace(w);
	assert_int_equal(cJSON_GetArraySize(w->events), 0);
}

static void hostile_names_stay_one_string(void **state)
{
	struct world *w = *state;
	const char *bad = "\"},{\"ph\":\"X\n\x01\xff\\";

	rec__process_info(w->b, w->server)->cmdline = (char *)"./server \"\xfe\"";
	rec__span(w->b, w->main, 1000, 10, bad);
	rec__arg_str(w->b, bad, bad, strlen(bad));
	export_trace(w);
	assert_string_equal(text_of(find(w, "X", NULL, 0), "name"),
			    "\"},{\"ph\":\"X\n\x01\xef\xbf\xbd\\");
	assert_int_equal(cJSON_GetArraySize(w->events), 3);
}

/* Equal names with other categories and markers, more than are remembered, short and long ones. */
static void many_kinds_of_spans_keep_what_is_theirs(void **state)
{
	enum { KINDS = 1500 };
	struct world *w = *state;
	char name[512], source[64];
	const cJSON *e;
	struct event *ev;
	int i, round, seen = 0;

	for (round = 0; round < 2; round++)
		for (i = 0; i < KINDS; i++) {
			snprintf(name, sizeof(name), "op %0*d", i % 400, i % 700);
			snprintf(source, sizeof(source), "file.c:%d", i / 2);
			ev = rec__span(w->b, w->main, (uint64_t)(round * KINDS + i + 1) * 1000, 10,
				       name);
			ev->cat = i % 3 ? 0 : rec__id(w->b, "cat");
			ev->src = i % 5 ? rec__id(w->b, source) : 0;
			ev->flags = i % 7 ? 0 : EVS_FUNCTION;
		}
	export_trace(w);
	cJSON_ArrayForEach(e, w->events)
	{
		if (strcmp(text_of(e, "ph"), "X"))
			continue;
		i = seen++ % KINDS;
		snprintf(name, sizeof(name), "op %0*d", i % 400, i % 700);
		snprintf(source, sizeof(source), "file.c:%d", i / 2);
		assert_string_equal(text_of(e, "name"), name);
		assert_string_equal(text_of(e, "cat"), !(i % 3)   ? "cat"
						       : !(i % 7) ? "function"
								  : "span");
		assert_string_equal(text_of(args(e), "clika.source"), i % 5 ? source : "");
		assert_true(number(e, "ts") == seen - 1 && number(e, "dur") == 0.01);
	}
	assert_int_equal(seen, 2 * KINDS);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(spans_are_complete_events_with_exact_relative_times),
		TEST(flags_are_arguments),
		TEST(key_given_at_begin_and_end_is_written_once),
		TEST(keys_that_would_look_alike_are_told_apart),
		TEST(unknown_names_are_made_up),
		TEST(names_come_first_and_tell_processes_apart),
		TEST(numbers_that_viewers_misread_are_replaced),
		TEST(arrows_have_two_ends_and_a_number_of_their_own),
		TEST(arrows_leave_and_reach_the_enclosing_span_after_inner_ones),
		TEST(counters_have_one_series_and_a_closing_sample),
		TEST(memory_is_two_counters_for_each_process_and_device),
		TEST(async_spans_and_requests_are_balanced_on_lanes),
		TEST(losses_are_an_event_and_metadata_with_zeros),
		TEST(nothing_lost_is_no_event),
		TEST(recording_without_events_is_a_valid_trace),
		TEST(hostile_names_stay_one_string),
		TEST(many_kinds_of_spans_keep_what_is_theirs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
