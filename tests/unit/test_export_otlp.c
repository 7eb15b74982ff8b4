// SPDX-License-Identifier: Apache-2.0
/* OTLP traces: what belongs to a request, times, ids, attributes, bodies. */
#include "tests/common/export_text.h"

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#define EPOCH 1700000000000000000ull

struct world {
	struct rec *b;
	uint32_t server, main, worker;
	cJSON *bodies[64];
	size_t n_bodies;
	const cJSON *spans[4096];
	size_t n;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->b = rec__new();
	w->server = rec__process(w->b, 100, "server");
	w->main = rec__thread(w->b, w->server, 100, "main");
	w->worker = rec__thread(w->b, w->server, 101, "worker");
	rec__anchor(w->b, 1000, EPOCH);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	while (w->n_bodies)
		cJSON_Delete(w->bodies[--w->n_bodies]);
	rec__free(w->b);
	free(w);
	return 0;
}

static const char *str(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsString(v) ? v->valuestring : "";
}

static uint64_t u64(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	/* 64-bit numbers are text. */
	assert_true(cJSON_IsString(v));
	return strtoull(v->valuestring, NULL, 10);
}

static void assert_id(const char *id, size_t digits)
{
	size_t i, zeros = 0;

	assert_int_equal(strlen(id), digits);
	for (i = 0; i < digits; i++) {
		assert_true(isdigit((unsigned char)id[i]) || (id[i] >= 'a' && id[i] <= 'f'));
		zeros += id[i] == '0';
	}
	assert_true(zeros < digits);
}

static const cJSON *span_with_id(const struct world *w, const char *id)
{
	size_t i;

	for (i = 0; i < w->n; i++)
		if (!strcmp(str(w->spans[i], "spanId"), id))
			return w->spans[i];
	return NULL;
}

/* What a receiver asks for, and that no reference leads out of the file. */
static void check_span(const struct world *w, const cJSON *s)
{
	const char *parent = str(s, "parentSpanId");
	const cJSON *link, *to;

	assert_id(str(s, "traceId"), 32);
	assert_id(str(s, "spanId"), 16);
	assert_true(u64(s, "startTimeUnixNano") >= EPOCH);
	assert_true(u64(s, "endTimeUnixNano") >= u64(s, "startTimeUnixNano"));
	if (*parent) {
		to = span_with_id(w, parent);
		assert_non_null(to);
		assert_string_equal(str(to, "traceId"), str(s, "traceId"));
	}
	cJSON_ArrayForEach(link, cJSON_GetObjectItem(s, "links"))
	{
		to = span_with_id(w, str(link, "spanId"));
		assert_non_null(to);
		assert_string_equal(str(to, "traceId"), str(link, "traceId"));
	}
}

static void read_body(struct world *w, const char *line)
{
	const cJSON *resource, *scope, *span;
	cJSON *body = cJSON_ParseWithOpts(line, NULL, true);

	assert_non_null(body);
	assert_true(w->n_bodies < ARRAY_SIZE(w->bodies));
	w->bodies[w->n_bodies++] = body;
	cJSON_ArrayForEach(resource, cJSON_GetObjectItem(body, "resourceSpans"))
	{
		assert_non_null(cJSON_GetObjectItem(resource, "resource"));
		cJSON_ArrayForEach(scope, cJSON_GetObjectItem(resource, "scopeSpans"))
		{
			cJSON_ArrayForEach(span, cJSON_GetObjectItem(scope, "spans"))
			{
				assert_true(w->n < ARRAY_SIZE(w->spans));
				w->spans[w->n++] = span;
			}
		}
	}
}

static void export_traces(struct world *w)
{
	char *text = export__text(w->b, "otlp", NULL, NULL, NULL), *line, *end;
	size_t i;

	for (line = text; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		*end = '\0';
		read_body(w, line);
	}
	free(text);
	for (i = 0; i < w->n; i++)
		check_span(w, w->spans[i]);
}

/* Names from a trace's root down to the span: "chat/batch/conv". */
static void put_path(const struct world *w, const cJSON *s, char *out, size_t room)
{
	const cJSON *parent = span_with_id(w, str(s, "parentSpanId"));
	size_t n = 0;

	if (parent) {
		put_path(w, parent, out, room);
		n = strlen(out);
		n += (size_t)snprintf(out + n, room - n, "/");
	}
	snprintf(out + n, room - n, "%s", str(s, "name"));
}

static const cJSON *find(const struct world *w, const char *path)
{
	char p[256], all[4096] = "";
	size_t i, n = 0;

	for (i = 0; i < w->n; i++) {
		put_path(w, w->spans[i], p, sizeof(p));
		if (!strcmp(p, path))
			return w->spans[i];
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s\n", p);
	}
	fail_msg("no span %s; there are\n%s", path, all);
	return NULL;
}

static const char *attribute(const cJSON *s, const char *key, const char *type)
{
	static char text[64];
	const cJSON *a, *v;

	cJSON_ArrayForEach(a, cJSON_GetObjectItem(s, "attributes"))
	{
		if (strcmp(str(a, "key"), key))
			continue;
		v = cJSON_GetObjectItem(cJSON_GetObjectItem(a, "value"), type);
		if (cJSON_IsNumber(v)) {
			snprintf(text, sizeof(text), "%.17g", v->valuedouble);
			return text;
		}
		return cJSON_IsString(v) ? v->valuestring : cJSON_IsTrue(v) ? "true" : "?";
	}
	return "(none)";
}

static void id_event(struct rec *b, uint32_t thread, uint8_t kind, uint64_t ts, const char *name,
		     uint64_t id)
{
	rec__event(b, thread, kind, ts, name)->id = id;
}

static void a_request_is_a_trace_with_what_it_caused(void **state)
{
	struct world *w = *state;
	const cJSON *root, *batch;

	rec__span(w->b, w->main, 2000, 300, "submit");
	id_event(w->b, w->main, EV_REQUEST_BEGIN, 2050, "chat", 7);
	rec__arg_str(w->b, "model", "tiny", 4);
	id_event(w->b, w->main, EV_ASYNC_BEGIN, 2060, "queued", 7);
	id_event(w->b, w->main, EV_FLOW_OUT, 2100, "job", 7);
	id_event(w->b, w->worker, EV_ASYNC_END, 2950, "queued", 7);
	rec__span(w->b, w->worker, 3000, 1000, "batch");
	id_event(w->b, w->worker, EV_FLOW_IN, 3010, "job", 7);
	rec__span(w->b, w->worker, 3100, 500, "conv");
	rec__span(w->b, w->worker, 3200, 100, "gemm");
	id_event(w->b, w->worker, EV_REQUEST_FIRST, 3700, "chat", 7);
	rec__event(w->b, w->worker, EV_REQUEST_OUTPUT, 3800, "chat")->id = 7;
	id_event(w->b, w->main, EV_REQUEST_END, 5000, "chat", 7);
	rec__arg_i64(w->b, "error", -3);
	rec__span(w->b, w->worker, 6000, 10, "idle");
	export_traces(w);
	assert_int_equal(w->n, 7);
	root = find(w, "chat");
	assert_int_equal(cJSON_GetObjectItem(root, "kind")->valueint, 2);
	assert_true(u64(root, "startTimeUnixNano") == EPOCH + 1050);
	assert_true(u64(root, "endTimeUnixNano") == EPOCH + 4000);
	assert_string_equal(attribute(root, "clika.request.id", "intValue"), "7");
	assert_string_equal(attribute(root, "clika.request.first_output_ns", "intValue"), "1650");
	assert_string_equal(attribute(root, "model", "stringValue"), "tiny");
	assert_string_equal(attribute(root, "error", "intValue"), "-3");
	assert_true(u64(cJSON_GetObjectItem(root, "events")->child, "timeUnixNano") ==
		    EPOCH + 1050 + 1650);
	/* Made by a span that is older than it. */
	assert_string_equal(str(cJSON_GetObjectItem(root, "links")->child, "spanId"),
			    str(find(w, "submit"), "spanId"));
	batch = find(w, "chat/batch");
	assert_true(u64(batch, "startTimeUnixNano") == EPOCH + 2000);
	assert_string_equal(attribute(batch, "thread.name", "stringValue"), "worker");
	find(w, "chat/batch/conv");
	find(w, "chat/batch/conv/gemm");
	find(w, "chat/queued");
	assert_string_not_equal(str(find(w, "idle"), "traceId"), str(root, "traceId"));
}

static void requests_of_one_batch_link_to_it(void **state)
{
	struct world *w = *state;
	const cJSON *second, *link;
	size_t i;

	/* Begun together, then sent together: their ids tell which flow is whose. */
	id_event(w->b, w->main, EV_REQUEST_BEGIN, 2000, "chat", 1);
	id_event(w->b, w->main, EV_REQUEST_BEGIN, 2001, "chat", 2);
	id_event(w->b, w->main, EV_FLOW_OUT, 2002, "job", 1);
	id_event(w->b, w->main, EV_FLOW_OUT, 2003, "job", 2);
	rec__span(w->b, w->worker, 3000, 1000, "batch");
	id_event(w->b, w->worker, EV_FLOW_IN, 3001, "job", 1);
	id_event(w->b, w->worker, EV_FLOW_IN, 3002, "job", 2);
	rec__span(w->b, w->worker, 3100, 500, "conv");
	id_event(w->b, w->worker, EV_REQUEST_END, 3900, "chat", 1);
	id_event(w->b, w->worker, EV_REQUEST_END, 3950, "chat", 2);
	export_traces(w);
	assert_int_equal(w->n, 4);
	find(w, "chat/batch/conv");
	second = span_with_id(w, str(find(w, "chat/batch"), "parentSpanId"));
	assert_string_equal(attribute(second, "clika.request.id", "intValue"), "1");
	second = NULL;
	for (i = 0; i < w->n; i++)
		if (!strcmp(attribute(w->spans[i], "clika.request.id", "intValue"), "2"))
			second = w->spans[i];
	assert_non_null(second);
	link = cJSON_GetObjectItem(second, "links")->child;
	assert_string_equal(str(link, "spanId"), str(find(w, "chat/batch"), "spanId"));
}

static void a_loop_that_takes_jobs_stays_outside_of_them(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->worker, 1500, 9000, "loop");
	id_event(w->b, w->main, EV_REQUEST_BEGIN, 2000, "chat", 1);
	id_event(w->b, w->main, EV_FLOW_OUT, 2001, "job", 1);
	id_event(w->b, w->worker, EV_FLOW_IN, 2100, "job", 1);
	rec__span(w->b, w->worker, 2200, 100, "first");
	id_event(w->b, w->main, EV_REQUEST_END, 2250, "chat", 1); /* ends before its last work */
	rec__span(w->b, w->worker, 2400, 100, "late");
	id_event(w->b, w->main, EV_REQUEST_BEGIN, 3000, "draw", 2);
	id_event(w->b, w->main, EV_FLOW_OUT, 3001, "job", 2);
	id_event(w->b, w->worker, EV_FLOW_IN, 3100, "job", 2);
	rec__span(w->b, w->worker, 3200, 100, "second");
	id_event(w->b, w->main, EV_REQUEST_END, 4000, "draw", 2);
	export_traces(w);
	find(w, "loop");
	find(w, "chat/first");
	find(w, "chat/late");
	find(w, "draw/second");
}

static void a_handler_thread_works_for_its_request_until_it_ends(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1500, 9000, "connection");
	id_event(w->b, w->main, EV_REQUEST_BEGIN, 2000, "chat", 1);
	rec__span(w->b, w->main, 2100, 100, "parse");
	rec__span(w->b, w->main, 2300, 400, "answer");
	rec__span(w->b, w->main, 2400, 100, "write");
	id_event(w->b, w->main, EV_REQUEST_END, 2900, "chat", 1);
	rec__span(w->b, w->main, 3000, 100, "poll");
	export_traces(w);
	find(w, "chat/parse");
	find(w, "chat/answer/write");
	find(w, "connection/poll");
}

static void work_handed_on_stays_in_the_trace(void **state)
{
	struct world *w = *state;
	uint32_t third = rec__thread(w->b, w->server, 102, "gpu");

	id_event(w->b, w->main, EV_REQUEST_BEGIN, 2000, "chat", 1);
	id_event(w->b, w->main, EV_FLOW_OUT, 2001, "job", 41); /* an id of its own */
	rec__span(w->b, w->worker, 2100, 500, "plan");
	id_event(w->b, w->worker, EV_FLOW_IN, 2110, "job", 41);
	id_event(w->b, w->worker, EV_FLOW_OUT, 2200, "kernel", 9);
	rec__span(w->b, third, 2300, 100, "run");
	id_event(w->b, third, EV_FLOW_IN, 2310, "kernel", 9);
	id_event(w->b, w->main, EV_REQUEST_END, 3000, "chat", 1);
	export_traces(w);
	find(w, "chat/plan");
	find(w, "chat/run");
}

static void spans_without_a_request_are_traces_of_their_own(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 2000, 300, "step");
	rec__span(w->b, w->main, 2010, 100, "load");
	id_event(w->b, w->main, EV_ASYNC_BEGIN, 2120, "copy", 1);
	id_event(w->b, w->worker, EV_ASYNC_END, 2500, "copy", 1);
	rec__span(w->b, w->main, 3000, 300, "step");
	rec__open_span(w->b, w->worker, 4000, 0, "loop");
	export_traces(w);
	assert_int_equal(w->n, 5);
	find(w, "step/load");
	find(w, "step/copy");
	assert_string_equal(attribute(find(w, "loop"), "clika.flags", "stringValue"), "unfinished");
}

static void arguments_become_typed_attributes(void **state)
{
	struct world *w = *state;
	const cJSON *s;
	struct event *ev = rec__span(w->b, w->main, 2000, 300, "op");

	ev->src = rec__id(w->b, "src/engine.c:12");
	ev->cat = rec__id(w->b, "kernel");
	rec__arg_i64(w->b, "i", INT64_MIN);
	rec__arg_u64(w->b, "u", UINT64_MAX);
	rec__arg_f64(w->b, "f", 0.5);
	rec__arg_f64(w->b, "nan", NAN);
	rec__arg_str(w->b, "s", "a\xff\"", 3);
	rec__arg_i64(w->b, "thread.id", 5);
	export_traces(w);
	s = find(w, "op");
	assert_string_equal(attribute(s, "i", "intValue"), "-9223372036854775808");
	assert_string_equal(attribute(s, "u", "stringValue"), "18446744073709551615");
	assert_string_equal(attribute(s, "f", "doubleValue"), "0.5");
	assert_string_equal(attribute(s, "nan", "stringValue"), "NaN");
	assert_string_equal(attribute(s, "s", "stringValue"), "a\xef\xbf\xbd\"");
	assert_string_equal(attribute(s, "thread.id", "intValue"), "100");
	assert_string_equal(attribute(s, "arg.thread.id", "intValue"), "5");
	assert_string_equal(attribute(s, "code.file.path", "stringValue"), "src/engine.c");
	assert_string_equal(attribute(s, "code.line.number", "intValue"), "12");
	assert_string_equal(attribute(s, "clika.category", "stringValue"), "kernel");
}

static void a_clock_step_changes_no_duration(void **state)
{
	struct world *w = *state;
	const cJSON *s;

	rec__anchor(w->b, 5000, EPOCH + 3600 * NSEC_PER_SEC);
	rec__span(w->b, w->main, 2000, 6000, "over the step");
	rec__span(w->b, w->worker, 6000, 10, "after");
	export_traces(w);
	s = find(w, "over the step");
	assert_true(u64(s, "startTimeUnixNano") == EPOCH + 1000);
	assert_true(u64(s, "endTimeUnixNano") == EPOCH + 7000);
	s = find(w, "after");
	assert_true(u64(s, "startTimeUnixNano") == EPOCH + 3600 * NSEC_PER_SEC + 1000);
}

static void bodies_are_bounded_and_of_one_process(void **state)
{
	struct world *w = *state;
	uint32_t p = rec__process(w->b, 200, "other"), t = rec__thread(w->b, p, 200, "main");
	const cJSON *list, *resource;
	uint64_t i;
	size_t k;

	rec__process_info(w->b, p)->label = (char *)"other service";
	for (i = 0; i < 1500; i++) {
		rec__span(w->b, w->main, 2000 + 10 * i, 5, "a");
		rec__span(w->b, t, 2000 + 10 * i, 5, "b");
	}
	export_traces(w);
	assert_int_equal(w->n, 3000);
	assert_int_equal(w->n_bodies, 6);
	for (k = 0; k < w->n_bodies; k++) {
		list = cJSON_GetObjectItem(w->bodies[k], "resourceSpans");
		assert_int_equal(cJSON_GetArraySize(list), 1);
		resource = cJSON_GetObjectItem(list->child, "resource");
		list = cJSON_GetObjectItem(cJSON_GetObjectItem(list->child, "scopeSpans")->child,
					   "spans");
		assert_in_range(cJSON_GetArraySize(list), 1, 512);
		assert_string_equal(attribute(resource, "service.name", "stringValue"),
				    *str(list->child, "name") == 'a' ? "server" : "other service");
	}
}

static void the_same_recording_gives_the_same_ids(void **state)
{
	struct world *w = *state;
	char *a, *b;

	rec__span(w->b, w->main, 2000, 300, "op");
	a = export__text(w->b, "otlp", NULL, NULL, NULL);
	b = export__text(w->b, "otlp", NULL, NULL, NULL);
	assert_string_equal(a, b);
	free(a);
	free(b);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_is_a_trace_with_what_it_caused),
		TEST(requests_of_one_batch_link_to_it),
		TEST(a_loop_that_takes_jobs_stays_outside_of_them),
		TEST(a_handler_thread_works_for_its_request_until_it_ends),
		TEST(work_handed_on_stays_in_the_trace),
		TEST(spans_without_a_request_are_traces_of_their_own),
		TEST(arguments_become_typed_attributes),
		TEST(a_clock_step_changes_no_duration),
		TEST(bodies_are_bounded_and_of_one_process),
		TEST(the_same_recording_gives_the_same_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
