// SPDX-License-Identifier: Apache-2.0
/* report.json: what it must say, and what it must not claim to know. */
#include "export/report_tree.h"
#include "tests/common/export_text.h"
#include "tests/common/json_path.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
	struct rec *b;
	uint32_t server, main, worker;
	char *text;
	cJSON *j;
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

	cJSON_Delete(w->j);
	free(w->text);
	rec__free(w->b);
	free(w);
	return 0;
}

static void export_view(struct world *w, const struct clika_view_opts *view)
{
	size_t len;

	cJSON_Delete(w->j);
	free(w->text);
	w->text = export__text(w->b, "report", view, NULL, &len);
	assert_true(utf8__valid(w->text, len));
	w->j = cJSON_Parse(w->text);
	assert_non_null(w->j);
}

static void export_all(struct world *w)
{
	export_view(w, NULL);
}

/* --- operations ------------------------------------------------------------------------------ */

static void operations_have_all_their_numbers(void **state)
{
	struct world *w = *state;
	uint64_t i;

	for (i = 0; i < 4; i++) {
		rec__span(w->b, w->main, 10000 + i * 1000, 800, "step");
		rec__span(w->b, w->main, 10100 + i * 1000, 100 + i * 20, "conv")->cat =
			rec__id(w->b, "layer");
		rec__event(w->b, w->main, EV_ALLOC, 10150 + i * 1000, NULL)->id = i + 1;
	}
	rec__event(w->b, w->main, EV_ALLOC, 14500, NULL)->value = 1; /* outside spans */
	export_all(w);
	assert_string_equal(json__text(w->j, "ops.0.name"), "step");
	assert_true(json__is_null(w->j, "ops.0.category"));
	assert_json(w->j, "ops.0.calls", 4);
	assert_json(w->j, "ops.0.total_ns", 3200);
	assert_json(w->j, "ops.0.self_ns", 3200 - 520);
	assert_string_equal(json__text(w->j, "ops.1.name"), "conv");
	assert_string_equal(json__text(w->j, "ops.1.category"), "layer");
	assert_string_equal(json__text(w->j, "ops.1.kind"), "span");
	assert_json(w->j, "ops.1.mean_ns", 130);
	assert_json(w->j, "ops.1.min_ns", 100);
	assert_json(w->j, "ops.1.max_ns", 160);
	assert_json(w->j, "ops.1.p50_ns", 120);
	assert_json(w->j, "ops.1.stddev_ns", 26); /* 25.8 */
	assert_json(w->j, "ops.1.first_call_ns", 100);
	assert_json(w->j, "ops.1.first_at_ns", 100);
	assert_json(w->j, "ops.1.last_end_ns", 3100 + 160);
	assert_json(w->j, "ops.1.memory.allocations", 4);
	assert_json(w->j, "ops.0.memory.allocations", 0);
	assert_near(w->j, "ops.0.share", 0.8375);
	assert_near(w->j, "ops.1.cumulative_share", 1);
	assert_json(w->j, "counts.self_ns", 3200);
	assert_json(w->j, "op_types.0.calls", 4);
	assert_string_equal(json__text(w->j, "op_types.1.category"), "layer");
	assert_json(w->j, "op_types.1.total_ns", 520);
}

static void a_category_inside_itself_counts_once(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 100, "outer")->cat = rec__id(w->b, "layer");
	rec__span(w->b, w->main, 1010, 80, "inner")->cat = rec__id(w->b, "layer");
	rec__span(w->b, w->main, 1020, 50, "gemm")->cat = rec__id(w->b, "kernel");
	export_all(w);
	assert_string_equal(json__text(w->j, "op_types.0.category"), "layer");
	assert_json(w->j, "op_types.0.total_ns", 100);
	assert_json(w->j, "op_types.0.self_ns", 50);
	assert_json(w->j, "op_types.0.ops", 2);
	assert_json(w->j, "op_types.1.total_ns", 50);
}

static void memory_of_an_operation_takes_in_the_spans_inside(void **state)
{
	struct world *w = *state;
	struct event *ev;

	rec__span(w->b, w->main, 1000, 100, "f");
	rec__span(w->b, w->main, 1010, 80, "g");
	rec__span(w->b, w->main, 1020, 60, "f");
	ev = rec__event(w->b, w->main, EV_ALLOC, 1030, NULL);
	ev->id = 1;
	ev->value = 4096;
	rec__event(w->b, w->main, EV_FREE, 1085, NULL)->id = 1;
	export_all(w);
	assert_string_equal(json__text(w->j, "ops.0.name"), "f");
	assert_json(w->j, "ops.0.memory.allocated_bytes", 4096);
	assert_json(w->j, "ops.0.memory.total_allocated_bytes", 4096);
	assert_json(w->j, "ops.0.memory.freed_bytes", 0);
	assert_json(w->j, "ops.0.memory.total_freed_bytes", 4096);
	assert_json(w->j, "ops.1.memory.allocated_bytes", 0);
	assert_json(w->j, "ops.1.memory.total_allocated_bytes", 4096);
	assert_json(w->j, "ops.1.memory.freed_bytes", 4096);
}

static void arguments_of_known_names_tell_about_an_operation(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "conv")->src = rec__id(w->b, "conv.c:7");
	rec__arg_u64(w->b, "flops", 9007199254740993); /* no double is this */
	rec__arg_str(w->b, "shape", "1x3", 3);
	rec__span(w->b, w->main, 2000, 10, "conv")->src = rec__id(w->b, "conv.c:9");
	rec__arg_u64(w->b, "flops", 2);
	rec__arg_str(w->b, "shape", "2x3", 3);
	rec__arg_str(w->b, "output_type", "f16", 3);
	rec__span(w->b, w->main, 3000, 5, "plain");
	rec__arg_f64(w->b, "flops", -1);
	export_all(w);
	assert_non_null(strstr(w->text, "\"flops\":9007199254740995,"));
	assert_string_equal(json__text(w->j, "ops.0.input.shape"), "1x3");
	assert_true(json__is_null(w->j, "ops.0.input.type"));
	assert_true(json__is_true(w->j, "ops.0.input.varies"));
	assert_string_equal(json__text(w->j, "ops.0.output.type"), "f16");
	assert_false(json__is_true(w->j, "ops.0.output.varies"));
	assert_string_equal(json__text(w->j, "ops.0.source"), "conv.c:7");
	assert_true(json__is_true(w->j, "ops.0.more_sources"));
	assert_true(json__is_null(w->j, "ops.1.flops"));
	assert_true(json__is_null(w->j, "ops.1.input"));
	assert_true(json__is_null(w->j, "ops.1.source"));
}

static void names_are_kept_or_repaired_never_dropped(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 30, "bad \xff\xfe\"\\\n</script>");
	rec__span(w->b, w->main, 2000, 20, "");
	rec__span(w->b, w->main, 3000, 10, "gr\xc3\xbc\xc3\x9f");
	rec__process_info(w->b, w->server)->cmdline = (char *)"a\x80z";
	export_all(w);
	assert_string_equal(json__text(w->j, "ops.0.name"),
			    "bad \xef\xbf\xbd\xef\xbf\xbd\"\\\n</script>");
	assert_string_equal(json__text(w->j, "ops.1.name"), "");
	assert_string_equal(json__text(w->j, "ops.2.name"), "gr\xc3\xbc\xc3\x9f");
	assert_string_equal(json__text(w->j, "targets.processes.0.command_line"), "a\xef\xbf\xbdz");
}

static void operations_are_told_by_the_tag_of_their_captures(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1000, 2000, "cold");
	rec__capture(w->b, 3000, 4000, "warm");
	rec__capture(w->b, 5000, 6000, "warm");
	rec__span(w->b, w->main, 1100, 500, "step");
	rec__span(w->b, w->main, 3100, 50, "step");
	rec__span(w->b, w->main, 5100, 60, "step");
	rec__span(w->b, w->main, 5200, 10, "extra");
	rec__span(w->b, w->main, 7000, 10, "outside");
	export_all(w);
	assert_json(w->j, "ops.0.calls", 3);
	assert_string_equal(json__text(w->j, "capture_tags.0.tag"), "cold");
	assert_json(w->j, "capture_tags.0.ops.0.mean_ns", 500);
	assert_string_equal(json__text(w->j, "capture_tags.1.tag"), "warm");
	assert_json(w->j, "capture_tags.1.captures", 2);
	assert_json(w->j, "capture_tags.1.spans", 3);
	assert_json(w->j, "capture_tags.1.ops.0.calls", 2);
	assert_json(w->j, "capture_tags.1.ops.0.total_ns", 110);
	assert_string_equal(json__text(w->j, "capture_tags.1.ops.1.name"), "extra");
	assert_json(w->j, "captures.1.begin_ns", 2000);
	assert_json(w->j, "captures.1.begin_boottime_ns", 3000);
	assert_json(w->j, "captures.2.spans", 2);
	assert_json(w->j, "left_out.spans_outside_captures", 1);
	assert_json(w->j, "clocks.observed_ns", 3000);
}

static void one_tag_for_all_tells_what_the_operations_tell(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 1000, 9000, "default");
	rec__span(w->b, w->main, 1100, 500, "step");
	rec__span(w->b, w->main, 3100, 50, "step");
	export_all(w);
	assert_json(w->j, "capture_tags.0.spans", 2);
	assert_json(w->j, "capture_tags.0.ops.0.total_ns", 550);
	assert_json(w->j, "ops.0.total_ns", 550);
}

static void more_captures_than_are_told_apart_are_not_guessed(void **state)
{
	struct world *w = *state;
	uint64_t i;

	for (i = 0; i < 70; i++) {
		rec__capture(w->b, 1000 + i * 100, 1100 + i * 100, i < 66 ? "step" : "last");
		rec__span(w->b, w->main, 1010 + i * 100, 10, "work");
	}
	export_all(w);
	assert_json(w->j, "ops.0.calls", 70);
	assert_json(w->j, "captures.61.spans", 1);
	assert_true(json__is_null(w->j, "captures.62.spans"));
	assert_true(json__is_null(w->j, "captures.69.spans"));
	assert_json(w->j, "capture_tags.0.captures", 62);
	assert_json(w->j, "capture_tags.0.spans", 62);
	assert_true(json__is_null(w->j, "capture_tags.1.tag"));
	assert_json(w->j, "capture_tags.1.captures", 8);
	assert_json(w->j, "capture_tags.1.spans", 8);
}

/* --- threads, requests, waiting, counters ---------------------------------------------------- */

static void threads_have_busy_share_and_longest_gap(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 500, "a");
	rec__span(w->b, w->main, 3000, 1000, "b");
	rec__event(w->b, w->worker, EV_INSTANT, 5000, "tick");
	export_all(w);
	assert_json(w->j, "threads.0.tid", 100);
	assert_json(w->j, "threads.0.busy_ns", 1500);
	assert_near(w->j, "threads.0.busy_share", 0.375);
	assert_json(w->j, "threads.0.longest_gap.length_ns", 1500);
	assert_json(w->j, "threads.0.longest_gap.at_ns", 500);
	assert_json(w->j, "threads.1.spans", 0);
	assert_true(json__is_null(w->j, "threads.1.longest_gap"));
	assert_true(json__is_null(w->j, "threads.1.first_at_ns"));
	assert_true(json__is_null(w->j, "threads.0.runnable_ns"));
}

static void request_event(struct world *w, uint32_t thread, uint8_t kind, uint64_t ts, uint64_t id)
{
	struct event *ev = rec__event(w->b, thread, kind, ts, "ask");

	ev->id = id;
	ev->value = 2;
}

static void requests_have_phases(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->worker, 500, 5000, "loop");
	request_event(w, w->main, EV_REQUEST_BEGIN, 1000, 1);
	rec__span(w->b, w->worker, 1300, 700, "batch");
	rec__span(w->b, w->worker, 1400, 500, "decode");
	request_event(w, w->worker, EV_REQUEST_OUTPUT, 1500, 1);
	request_event(w, w->worker, EV_REQUEST_OUTPUT, 1800, 1);
	request_event(w, w->main, EV_REQUEST_END, 2500, 1);
	export_all(w);
	assert_string_equal(json__text(w->j, "requests.0.kind"), "ask");
	assert_json(w->j, "requests.0.units", 4);
	assert_json(w->j, "requests.0.latency.mean_ns", 1500);
	assert_true(json__is_null(w->j, "requests.0.latency.stddev_ns"));
	assert_json(w->j, "requests.0.time_to_first_output.p50_ns", 500);
	assert_json(w->j, "requests.0.time_per_output_unit.mean_ns", 333);
	/* "loop" was open when the request began; "batch" is what served it. */
	assert_json(w->j, "requests.0.phases.queue_wait.mean_ns", 300);
	assert_json(w->j, "requests.0.phases.compute.mean_ns", 500);
	assert_json(w->j, "requests.0.phases.end_to_end.mean_ns", 1500);
	assert_true(json__is_null(w->j, "requests.0.phases.transfer_in"));
}

static void what_is_not_known_of_requests_is_null(void **state)
{
	struct world *w = *state;

	request_event(w, w->main, EV_REQUEST_BEGIN, 1000, 1);
	request_event(w, w->main, EV_REQUEST_END, 2500, 1);
	request_event(w, w->main, EV_REQUEST_BEGIN, 3000, 2);
	request_event(w, w->main, EV_REQUEST_END, 4000, 9);
	export_all(w);
	assert_json(w->j, "requests.0.begun", 2);
	assert_json(w->j, "requests.0.ended", 1);
	assert_json(w->j, "requests.0.unfinished", 1);
	assert_json(w->j, "requests.0.begun_before", 1);
	assert_json(w->j, "requests.0.time_to_first_output.count", 0);
	assert_true(json__is_null(w->j, "requests.0.time_to_first_output.mean_ns"));
	assert_true(json__is_null(w->j, "requests.0.phases.queue_wait.p99_ns"));
}

static void counters_have_last_least_greatest_and_mean(void **state)
{
	static const double values[] = { 1.5, -0.5, 0.0 / 0.0, 2 };
	struct world *w = *state;
	struct event *ev;
	size_t i;

	for (i = 0; i < 4; i++) {
		rec__event(w->b, w->main, EV_COUNTER_I64, 1000 + i, "depth")->value =
			(uint64_t)((int64_t)i - 2);
		ev = rec__event(w->b, w->main, EV_COUNTER_F64, 2000 + i, "fill");
		memcpy(&ev->value, &values[i], sizeof(ev->value));
	}
	rec__event(w->b, w->main, EV_COUNTER_I64, 3000, "big")->value = INT64_MAX;
	export_all(w);
	assert_string_equal(json__text(w->j, "counters.0.name"), "big");
	assert_non_null(strstr(w->text, "\"max\":9223372036854775807,"));
	assert_json(w->j, "counters.1.samples", 4);
	assert_json(w->j, "counters.1.last", 1);
	assert_json(w->j, "counters.1.min", -2);
	assert_near(w->j, "counters.1.mean", -0.5);
	assert_json(w->j, "counters.2.samples", 3);
	assert_json(w->j, "counters.2.not_finite", 1);
	assert_near(w->j, "counters.2.min", -0.5);
	assert_near(w->j, "counters.2.mean", 1);
}

/* --- call tree ------------------------------------------------------------------------------- */

static void call_tree_adds_up_by_path(void **state)
{
	struct world *w = *state;
	uint32_t threads[] = { w->main, w->worker };
	size_t i;

	for (i = 0; i < 2; i++) {
		rec__span(w->b, threads[i], 1000, 1000, "step");
		rec__span(w->b, threads[i], 1100, 300, "conv");
		rec__span(w->b, threads[i], 1500, 300, "conv");
	}
	rec__span(w->b, w->main, 5000, 100, "conv");
	export_all(w);
	assert_json(w->j, "call_tree.nodes", 3);
	assert_string_equal(json__text(w->j, "call_tree.children.0.name"), "step");
	assert_json(w->j, "call_tree.children.0.calls", 2);
	assert_json(w->j, "call_tree.children.0.total_ns", 2000);
	assert_json(w->j, "call_tree.children.0.self_ns", 800);
	assert_json(w->j, "call_tree.children.0.children.0.calls", 4);
	assert_json(w->j, "call_tree.children.0.children.0.total_ns", 1200);
	assert_string_equal(json__text(w->j, "call_tree.children.1.name"), "conv");
	assert_json(w->j, "call_tree.children.1.total_ns", 100);
	assert_true(json__is_null(w->j, "call_tree.other"));
}

static uint64_t sum_self(const cJSON *node)
{
	const cJSON *other = cJSON_GetObjectItem(node, "other"), *self, *child;
	uint64_t sum = 0;

	self = cJSON_GetObjectItem(node, "self_ns");
	sum += self ? (uint64_t)self->valuedouble : 0;
	if (cJSON_IsObject(other))
		sum += (uint64_t)cJSON_GetObjectItem(other, "self_ns")->valuedouble;
	cJSON_ArrayForEach(child, cJSON_GetObjectItem(node, "children")) sum += sum_self(child);
	return sum;
}

static void call_tree_is_bounded_and_loses_no_time(void **state)
{
	struct world *w = *state;
	char name[32];
	uint64_t i;

	for (i = 0; i < 200; i++) /* deep */
		rec__span(w->b, w->main, 1000 + i, 2000 - 2 * i, "down");
	for (i = 0; i < 300; i++) { /* wide */
		snprintf(name, sizeof(name), "child %u", (unsigned int)i);
		rec__span(w->b, w->main, 10000 + i * 10, 5 + i % 3, name);
	}
	export_all(w);
	assert_int_equal(cJSON_GetArraySize(json__at(w->j, "call_tree.children")),
			 CALL_TREE_CHILDREN);
	assert_json(w->j, "call_tree.other.paths", 301 - CALL_TREE_CHILDREN);
	assert_true(json__number(w->j, "call_tree.nodes") == 300 + CALL_TREE_DEPTH);
	assert_int_equal(sum_self(json__at(w->j, "call_tree")),
			 json__number(w->j, "counts.self_ns"));
}

static void call_tree_has_a_limit_of_nodes(void **state)
{
	struct world *w = *state;
	char name[32];
	uint64_t i;

	for (i = 0; i < CALL_TREE_MAX + 100; i++) {
		snprintf(name, sizeof(name), "n%u", (unsigned int)i);
		rec__span(w->b, w->main, 1000 + i * 10, 7, name);
	}
	rec__layout(w->b, 4096, 0);
	export_all(w);
	assert_json(w->j, "call_tree.nodes", CALL_TREE_MAX - 1);
	assert_int_equal(sum_self(json__at(w->j, "call_tree")), (CALL_TREE_MAX + 100) * 7);
	assert_json(w->j, "counts.self_ns", (CALL_TREE_MAX + 100) * 7);
}

/* --- losses, warnings, what is not known ------------------------------------------------------- */

static void losses_are_told_with_zeros(void **state)
{
	struct count_info n = { .emitted = 2000, .recorded = 766, .lost = 1234, .filtered = 5 };
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "a");
	rec__counts(w->b, &n);
	rec__loss(w->b, LOSS_RING_FULL, 1234, 0);
	rec__loss(w->b, LOSS_READ_FAULT, 0, 55);
	export_all(w);
	assert_json(w->j, "loss.records", 1234);
	assert_json(w->j, "loss.unknown_at_most", 55);
	assert_int_equal(cJSON_GetArraySize(json__at(w->j, "loss.causes")), LOSS_CAUSE_COUNT - 1);
	assert_string_equal(json__text(w->j, "loss.causes.0.cause"), "ring_full");
	assert_json(w->j, "loss.causes.0.records", 1234);
	assert_json(w->j, "loss.causes.2.records", 0);
	assert_int_equal(cJSON_GetArraySize(json__at(w->j, "loss.rows")), 2);
	assert_string_equal(json__text(w->j, "loss.sources.0.source"), "markers");
	assert_json(w->j, "loss.sources.0.records", 1234);
	assert_json(w->j, "records.emitted", 2000);
	assert_json(w->j, "left_out.filtered_records", 5);
	assert_string_equal(json__text(w->j, "warnings.0.code"), "lost");
	assert_json(w->j, "warnings.0.evidence.lost", 1234);
	assert_json(w->j, "warnings.0.evidence.emitted", 2000);
}

static void an_empty_recording_gives_a_whole_report(void **state)
{
	static const char *const unknown[] = { "kernels", "memory_copies", "api_calls",
					       "system_calls", "memory.resident_peak_bytes" };
	struct world *w = *state;
	size_t i;

	export_all(w);
	assert_int_equal(cJSON_GetArraySize(json__at(w->j, "ops")), 0);
	assert_int_equal(cJSON_GetArraySize(json__at(w->j, "requests")), 0);
	for (i = 0; i < ARRAY_SIZE(unknown); i++)
		assert_true(json__is_null(w->j, unknown[i]));
	assert_non_null(strstr(json__text(w->j, "memory.empty_because"), "markers"));
	assert_json(w->j, "schema_version", 1);
	assert_json(w->j, "loss.records", 0);
}

static void says_what_part_of_the_recording_it_is_about(void **state)
{
	struct clika_view_opts view = {
		.sz = sizeof(view), .from_ns = 500, .to_ns = 2500, .name = "a*", .pid = 100
	};
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "a");
	rec__span(w->b, w->main, 2000, 10, "ab");
	rec__span(w->b, w->main, 2100, 10, "b");
	export_view(w, &view);
	assert_json(w->j, "counts.spans", 1);
	assert_json(w->j, "view.from_ns", 500);
	assert_json(w->j, "view.to_ns", 2500);
	assert_json(w->j, "view.pid", 100);
	assert_string_equal(json__text(w->j, "view.name"), "a*");
	assert_true(json__is_null(w->j, "view.tid"));
	assert_json(w->j, "ops.0.first_at_ns", 1000);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(operations_have_all_their_numbers),
		TEST(a_category_inside_itself_counts_once),
		TEST(memory_of_an_operation_takes_in_the_spans_inside),
		TEST(arguments_of_known_names_tell_about_an_operation),
		TEST(names_are_kept_or_repaired_never_dropped),
		TEST(operations_are_told_by_the_tag_of_their_captures),
		TEST(one_tag_for_all_tells_what_the_operations_tell),
		TEST(more_captures_than_are_told_apart_are_not_guessed),
		TEST(threads_have_busy_share_and_longest_gap),
		TEST(requests_have_phases),
		TEST(what_is_not_known_of_requests_is_null),
		TEST(counters_have_last_least_greatest_and_mean),
		TEST(call_tree_adds_up_by_path),
		TEST(call_tree_is_bounded_and_loses_no_time),
		TEST(call_tree_has_a_limit_of_nodes),
		TEST(losses_are_told_with_zeros),
		TEST(an_empty_recording_gives_a_whole_report),
		TEST(says_what_part_of_the_recording_it_is_about),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
