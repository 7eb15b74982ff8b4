// SPDX-License-Identifier: Apache-2.0
/* What a walk adds up to, and the warnings that follow from it. */
#include "tests/common/rec_builder.h"
#include "user/session/stats.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
	struct rec *b;
	uint32_t server, main, worker;
	struct session *s;
	struct stats *st;
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

	stats__free(w->st);
	session__free(w->s);
	rec__free(w->b);
	free(w);
	return 0;
}

static int sink(void *st, const struct item *it)
{
	return stats__item(st, it);
}

static const struct stats *gather(struct world *w, const struct session_opts *o)
{
	assert_int_equal(session__new(rec__open(w->b), o, &w->s, NULL), 0);
	assert_int_equal(stats__new(w->s, &w->st), 0);
	assert_int_equal(session__walk(w->s, sink, w->st), 0);
	assert_int_equal(stats__finish(w->st), 0);
	return w->st;
}

static const struct op_stats *op(struct world *w, const char *name)
{
	size_t i;

	for (i = 0; i < w->st->n_ops; i++)
		if (!strcmp(session__str(w->s, w->st->ops[i].name), name))
			return &w->st->ops[i];
	fail_msg("no operation %s", name);
	return NULL;
}

static const char *warning(struct world *w, const char *code)
{
	size_t i;

	for (i = 0; i < w->st->n_warnings; i++)
		if (!strcmp(w->st->warnings[i].code, code))
			return w->st->warnings[i].text;
	return NULL;
}

static void operations_are_sorted_by_self_time(void **state)
{
	struct world *w = *state;
	uint64_t i;

	for (i = 0; i < 10; i++) {
		rec__span(w->b, w->main, 1000 + i * 1000, 900, "step");
		rec__span(w->b, w->main, 1000 + i * 1000, 700, "conv");
		rec__span(w->b, w->main, 1100 + i * 1000, 50 + i, "load");
	}
	gather(w, NULL);
	assert_int_equal(w->st->n_ops, 3);
	assert_string_equal(session__str(w->s, w->st->ops[0].name), "conv");
	assert_string_equal(session__str(w->s, w->st->ops[1].name), "step");
	assert_string_equal(session__str(w->s, w->st->ops[2].name), "load");
	assert_int_equal(op(w, "step")->total_ns, 9000);
	assert_int_equal(op(w, "step")->self_ns, 2000);
	assert_int_equal(op(w, "conv")->self_ns, 7000 - 545);
	assert_int_equal(op(w, "load")->dur.count, 10);
	assert_int_equal(op(w, "load")->dur.min, 50);
	assert_int_equal(op(w, "load")->dur.max, 59);
	assert_int_equal(histogram__quantile(&op(w, "load")->dur, 500), 54);
	/* Every nanosecond in a span is somebody's own exactly once. */
	assert_int_equal(w->st->self_ns, 9000);
}

static void one_name_in_two_categories_is_two_operations(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "x")->cat = rec__id(w->b, "io");
	rec__span(w->b, w->main, 2000, 10, "x")->cat = rec__id(w->b, "cpu");
	gather(w, NULL);
	assert_int_equal(w->st->n_ops, 2);
}

static void recursion_counts_total_time_once(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 100, "f");
	rec__span(w->b, w->main, 1010, 80, "g");
	rec__span(w->b, w->main, 1020, 60, "f");
	gather(w, NULL);
	assert_int_equal(op(w, "f")->total_ns, 100);
	assert_int_equal(op(w, "f")->self_ns, 20 + 60);
	assert_int_equal(op(w, "f")->dur.count, 2);
}

static void threads_know_their_busy_time_and_longest_gap(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 500, "a");
	rec__span(w->b, w->main, 1100, 100, "inside");
	rec__span(w->b, w->main, 1600, 100, "b");
	rec__span(w->b, w->main, 3000, 1000, "c");
	rec__event(w->b, w->worker, EV_INSTANT, 5000, "tick");
	gather(w, NULL);
	assert_int_equal(w->st->observed_ns, 4000);
	assert_int_equal(w->st->threads[0].busy_ns, 1600);
	assert_int_equal(w->st->threads[0].longest_gap_ns, 1300);
	assert_int_equal(w->st->threads[0].longest_gap_at, 1700);
	assert_int_equal(w->st->threads[0].spans, 4);
	assert_int_equal(w->st->threads[1].busy_ns, 0);
}

static void busy_time_counts_only_inside_the_windows(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 2000, 3000, "a");
	rec__capture(w->b, 2500, 4000, "b");
	rec__capture(w->b, 6000, 7000, "c");
	rec__span(w->b, w->main, 1000, 9000, "serve");
	gather(w, NULL);
	assert_int_equal(w->st->observed_ns, 3000);
	assert_int_equal(w->st->threads[0].busy_ns, 3000);
	assert_int_equal(w->st->n_captures, 3);
	assert_int_equal(w->st->captures[0].spans, 1);
	assert_int_equal(w->st->captures[0].cut, 1);
}

static void waits_compare_the_queue_with_the_work(void **state)
{
	struct world *w = *state;
	uint64_t i;

	for (i = 0; i < 20; i++) {
		rec__span(w->b, w->main, 10000 + i * 10000, 100, "enqueue");
		rec__event(w->b, w->main, EV_FLOW_OUT, 10010 + i * 10000, "job")->id = i;
		rec__span(w->b, w->worker, 15000 + i * 10000, 2000, "run");
		rec__event(w->b, w->worker, EV_FLOW_IN, 15010 + i * 10000, "job")->id = i;
	}
	gather(w, NULL);
	assert_int_equal(w->st->n_waits, 1);
	assert_int_equal(w->st->waits[0].wait.count, 20);
	assert_int_equal(histogram__mean(&w->st->waits[0].wait), 5000);
	assert_int_equal(w->st->waits[0].ran_ns / w->st->waits[0].ran, 2000);
	assert_non_null(warning(w, "queue-wait"));
	assert_non_null(strstr(warning(w, "queue-wait"), "\"job\""));
	assert_non_null(strstr(warning(w, "queue-wait"), "0.005 ms"));
	/* The worker runs 2 of every 10 us. */
	assert_non_null(strstr(warning(w, "queue-wait"), "(1 thread) is in spans 2"));
	assert_non_null(strstr(warning(w, "queue-wait"), "more workers would not help"));
}

static void waits_for_busy_workers_ask_for_more(void **state)
{
	struct world *w = *state;
	uint64_t i;

	for (i = 0; i < 20; i++) {
		rec__event(w->b, w->main, EV_FLOW_OUT, 10000 + i * 10000, "job")->id = i;
		rec__span(w->b, w->worker, 20000 + i * 10000, 9500, "run");
		rec__event(w->b, w->worker, EV_FLOW_IN, 20010 + i * 10000, "job")->id = i;
	}
	gather(w, NULL);
	assert_non_null(strstr(warning(w, "queue-wait"), "(1 thread) is in spans 9"));
	assert_non_null(strstr(warning(w, "queue-wait"), "more workers or larger batches"));
}

static void short_waits_give_no_warning(void **state)
{
	struct world *w = *state;
	uint64_t i;

	for (i = 0; i < 20; i++) {
		rec__span(w->b, w->main, 10000 + i * 10000, 100, "enqueue");
		rec__event(w->b, w->main, EV_FLOW_OUT, 10010 + i * 10000, "job")->id = i;
		rec__span(w->b, w->worker, 10050 + i * 10000, 5000, "run");
		rec__event(w->b, w->worker, EV_FLOW_IN, 10060 + i * 10000, "job")->id = i;
	}
	gather(w, NULL);
	assert_null(warning(w, "queue-wait"));
	assert_int_equal(w->st->n_warnings, 0);
}

static void requests_give_latency_first_output_and_time_per_unit(void **state)
{
	struct world *w = *state;
	uint64_t i;

	for (i = 0; i < 4; i++) {
		uint64_t t = 10000 + i * 10000;
		struct event *ev;

		rec__event(w->b, w->main, EV_REQUEST_BEGIN, t, "chat")->id = i;
		rec__event(w->b, w->worker, EV_REQUEST_FIRST, t + 1000, "chat")->id = i;
		ev = rec__event(w->b, w->worker, EV_REQUEST_OUTPUT, t + 5000, "chat");
		ev->id = i;
		ev->value = 11;
		rec__event(w->b, w->main, EV_REQUEST_END, t + 6000, "chat")->id = i;
	}
	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 60000, "chat")->id = 99;
	gather(w, NULL);
	assert_int_equal(w->st->n_requests, 1);
	assert_int_equal(w->st->requests[0].begun, 5);
	assert_int_equal(w->st->requests[0].ended, 4);
	assert_int_equal(w->st->requests[0].unfinished, 1);
	assert_int_equal(w->st->requests[0].units, 44);
	assert_int_equal(histogram__mean(&w->st->requests[0].latency), 6000);
	assert_int_equal(histogram__mean(&w->st->requests[0].first), 1000);
	assert_int_equal(histogram__mean(&w->st->requests[0].per_unit), 500);
	assert_non_null(warning(w, "open-requests"));
}

static void a_request_without_an_end_tells_of_its_outputs_but_no_latency(void **state)
{
	struct world *w = *state;
	struct event *ev;
	uint64_t i;

	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 10000, "chat")->id = 7;
	rec__event(w->b, w->main, EV_REQUEST_FIRST, 12000, "chat")->id = 7;
	for (i = 0; i < 5; i++) {
		ev = rec__event(w->b, w->main, EV_REQUEST_OUTPUT, 12000 + i * 300, "chat");
		ev->id = 7;
		ev->value = 1;
	}
	/* It is open long after its last output. */
	rec__event(w->b, w->main, EV_INSTANT, 90000, "later");
	gather(w, NULL);
	assert_int_equal(w->st->requests[0].unfinished, 1);
	assert_int_equal(w->st->requests[0].latency.count, 0);
	assert_int_equal(w->st->requests[0].first.count, 1);
	assert_int_equal(histogram__mean(&w->st->requests[0].first), 2000);
	assert_int_equal(w->st->requests[0].per_unit.count, 1);
	assert_int_equal(histogram__mean(&w->st->requests[0].per_unit), 300);
	assert_non_null(warning(w, "open-requests"));
}

static void memory_has_baseline_peak_and_the_operation_that_asked(void **state)
{
	struct world *w = *state;
	struct event *ev;

	rec__capture(w->b, 2000, 9000, "c");
	ev = rec__event(w->b, w->main, EV_ALLOC, 1000, NULL);
	ev->id = 1;
	ev->value = 1000;
	rec__span(w->b, w->main, 2500, 100, "conv");
	ev = rec__event(w->b, w->main, EV_ALLOC, 2550, NULL);
	ev->id = 2;
	ev->value = 500;
	ev->pool = rec__id(w->b, "workspace");
	rec__event(w->b, w->main, EV_FREE, 3000, NULL)->id = 1;
	rec__event(w->b, w->main, EV_FREE, 3100, NULL)->id = 77;
	rec__event(w->b, w->main, EV_DEVICE_NAME, 3200, "cuda:0");
	gather(w, NULL);
	assert_int_equal(w->st->n_memory, 1);
	assert_int_equal(w->st->memory[0].baseline, 1000);
	assert_int_equal(w->st->memory[0].peak, 1500);
	assert_int_equal(w->st->memory[0].peak_at, 2550);
	assert_int_equal(w->st->memory[0].current, 500);
	assert_int_equal(w->st->memory[0].older_frees, 1);
	assert_string_equal(session__str(w->s, w->st->memory[0].device_name), "cuda:0");
	assert_int_equal(op(w, "conv")->allocs, 1);
	assert_int_equal(op(w, "conv")->alloc_bytes, 500);
	assert_int_equal(w->st->n_pools, 2);
	assert_string_equal(session__str(w->s, w->st->pools[0].pool), "workspace");
	assert_int_equal(w->st->pools[0].peak, 500);
}

static void one_busy_thread_among_idle_ones_is_named(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 9900, "everything");
	rec__span(w->b, w->worker, 1000, 100, "little");
	rec__event(w->b, w->main, EV_INSTANT, 11000, "end");
	gather(w, NULL);
	assert_non_null(warning(w, "one-busy-thread"));
	assert_non_null(strstr(warning(w, "one-busy-thread"), "\"main\""));
	assert_non_null(strstr(warning(w, "one-busy-thread"), "99 %"));
}

static void what_is_wrong_with_the_recording_is_a_warning_with_numbers(void **state)
{
	struct count_info n = { .emitted = 1000, .recorded = 990, .lost = 10 };
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 400, "parent");
	rec__span(w->b, w->main, 1200, 400, "crosses");
	rec__open_span(w->b, w->main, 2000, 0, "open");
	rec__event(w->b, w->main, EV_ASYNC_END, 3000, "copy")->id = 4;
	rec__counts(w->b, &n);
	rec__loss(w->b, LOSS_RING_FULL, 10, 7);
	/* the same ones again, by CPU and by process */
	rec__loss(w->b, LOSS_RING_FULL, 10, 0);
	rec__loss_info(w->b, 1)->cpu = 0;
	rec__loss(w->b, LOSS_RING_FULL, 10, 7);
	rec__loss_info(w->b, 2)->process = 0;
	rec__warning(w->b, "late-attach", "attached 3 s after the start");
	rec__finish_file(w->b, false);
	gather(w, NULL);
	assert_non_null(strstr(warning(w, "lost"), "10 of 1000"));
	assert_non_null(strstr(warning(w, "lost"), "perhaps more"));
	assert_non_null(strstr(warning(w, "unfinished"), "1 span "));
	assert_non_null(strstr(warning(w, "clipped"), "1 span "));
	assert_non_null(strstr(warning(w, "orphan-ends"), "1 end "));
	assert_non_null(warning(w, "incomplete"));
	assert_string_equal(warning(w, "late-attach"), "attached 3 s after the start");
}

static void more_names_than_the_limit_are_added_up_as_one(void **state)
{
	struct world *w = *state;
	uint64_t i;
	char name[32];

	for (i = 0; i < STATS_MAX_OPS + 100; i++) {
		snprintf(name, sizeof(name), "n%u", (unsigned int)i);
		rec__span(w->b, w->main, 1000 + i * 10, i < STATS_MAX_OPS ? 9 : 5, name);
	}
	gather(w, NULL);
	assert_int_equal(w->st->n_ops, STATS_MAX_OPS + 1);
	assert_true(w->st->ops[0].other);
	assert_int_equal(w->st->ops[0].dur.count, 100);
	assert_int_equal(w->st->self_ns, STATS_MAX_OPS * 9 + 500);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(operations_are_sorted_by_self_time),
		TEST(one_name_in_two_categories_is_two_operations),
		TEST(recursion_counts_total_time_once),
		TEST(threads_know_their_busy_time_and_longest_gap),
		TEST(busy_time_counts_only_inside_the_windows),
		TEST(waits_compare_the_queue_with_the_work),
		TEST(waits_for_busy_workers_ask_for_more),
		TEST(short_waits_give_no_warning),
		TEST(requests_give_latency_first_output_and_time_per_unit),
		TEST(a_request_without_an_end_tells_of_its_outputs_but_no_latency),
		TEST(memory_has_baseline_peak_and_the_operation_that_asked),
		TEST(one_busy_thread_among_idle_ones_is_named),
		TEST(what_is_wrong_with_the_recording_is_a_warning_with_numbers),
		TEST(more_names_than_the_limit_are_added_up_as_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
