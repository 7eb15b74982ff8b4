// SPDX-License-Identifier: Apache-2.0
/* Trace events in Kineto's flavour: rows, arguments and numbers that its readers look for. */
#include "export/trace_ids.h"
#include "tests/common/export_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

struct world {
	struct rec *b;
	uint32_t server, main, worker;
	cJSON *tree;
	const cJSON *events;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->b = rec__new();
	w->server = rec__process(w->b, 100, "server");
	w->main = rec__thread(w->b, w->server, 100, "main");
	w->worker = rec__thread(w->b, w->server, 101, "worker");
	rec__anchor(w->b, 1000, 1700000000000000000);
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

static void export_trace(struct world *w, const char *step)
{
	struct clika_export_opts o;
	const cJSON *e, *v;
	char *text;

	clika_export_opts__init(&o);
	o.step_name = step;
	text = export__text(w->b, "kineto", NULL, &o, NULL);
	w->tree = cJSON_ParseWithOpts(text, NULL, true);
	assert_non_null(w->tree);
	free(text);
	w->events = cJSON_GetObjectItem(w->tree, "traceEvents");
	cJSON_ArrayForEach(e, w->events)
	{
		v = cJSON_GetObjectItem(e, "pid");
		assert_true(cJSON_IsNumber(v) && v->valuedouble > 0);
		v = cJSON_GetObjectItem(e, "tid");
		assert_true(cJSON_IsNumber(v) && v->valuedouble > 0);
		if (*cJSON_GetObjectItem(e, "ph")->valuestring == 'X') {
			assert_non_null(cJSON_GetObjectItem(e, "cat"));
			assert_true(cJSON_GetObjectItem(e, "dur")->valuedouble >= 0);
		}
	}
}

static const char *str(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsString(v) ? v->valuestring : "";
}

static int64_t ns(const cJSON *e, const char *key)
{
	return llround(cJSON_GetObjectItemCaseSensitive(e, key)->valuedouble * 1000);
}

/* The @nth event of a category and name. */
static const cJSON *find(const struct world *w, const char *cat, const char *name, int nth)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, w->events) if (!strcmp(str(e, "cat"), cat) &&
					     !strcmp(str(e, "name"), name) && !nth--) return e;
	fail_msg("no event %s %s", cat, name);
	return NULL;
}

static double arg(const cJSON *e, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItem(e, "args"), key);

	assert_true(cJSON_IsNumber(v));
	return v->valuedouble;
}

static void spans_are_operators(void **state)
{
	struct world *w = *state;
	const cJSON *e, *dims;

	rec__span(w->b, w->main, 1000, 5001, "conv")->cat = rec__id(w->b, "layer");
	rec__arg_str(w->b, "shape", "1x3x224x224", 11);
	rec__span(w->b, w->main, 2000, 500, "gemm");
	rec__arg_str(w->b, "shape", "1x3 or so", 9);
	rec__arg_i64(w->b, "External id", 99999); /* as ours is named */
	rec__span(w->b, w->main, 3000, 500, "cudaLaunchKernel")->flags = EVS_FUNCTION;
	rec__span(w->b, w->main, 4000, 500, "cudaLike");
	export_trace(w, NULL);
	e = find(w, "cpu_op", "conv", 0);
	assert_int_equal(ns(e, "ts"), 0);
	assert_int_equal(ns(e, "dur"), 5001);
	dims = cJSON_GetObjectItem(cJSON_GetObjectItem(e, "args"), "Input Dims");
	assert_int_equal(cJSON_GetArraySize(dims), 1);
	assert_int_equal(cJSON_GetArraySize(dims->child), 4);
	assert_int_equal(cJSON_GetArrayItem(dims->child, 2)->valueint, 224);
	assert_string_equal(str(cJSON_GetObjectItem(e, "args"), "clika.category"), "layer");
	assert_true(arg(e, "External id") != arg(find(w, "cpu_op", "gemm", 0), "External id"));
	assert_null(cJSON_GetObjectItem(cJSON_GetObjectItem(find(w, "cpu_op", "gemm", 0), "args"),
					"Input Dims"));
	assert_true(arg(find(w, "cpu_op", "gemm", 0), "External id") != 99999);
	assert_true(arg(find(w, "cpu_op", "gemm", 0), "arg.External id") == 99999);
	e = find(w, "cuda_runtime", "cudaLaunchKernel", 0);
	assert_true(arg(e, "correlation") == arg(e, "External id"));
	find(w, "cpu_op", "cudaLike", 0); /* a name alone is no call */
	assert_true(cJSON_GetObjectItem(w->tree, "baseTimeNanoseconds")->valuedouble == 1.7e18);
	assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(w->tree, "distributedInfo"),
					     "rank")
				 ->valueint,
			 0);
}

static void allocations_are_memory_instants(void **state)
{
	struct world *w = *state;
	struct event *ev;
	const cJSON *e;

	ev = rec__event(w->b, w->main, EV_ALLOC, 1000, NULL);
	ev->id = 0x1000;
	ev->value = 4096;
	ev = rec__event(w->b, w->main, EV_ALLOC, 1100, NULL);
	ev->id = 0x2000;
	ev->value = 100;
	ev->aux = 2;
	ev = rec__event(w->b, w->main, EV_FREE, 1200, NULL);
	ev->id = 0x1000;
	export_trace(w, NULL);
	e = find(w, "cpu_instant_event", "[memory]", 0);
	assert_true(arg(e, "Bytes") == 4096 && arg(e, "Total Allocated") == 4096);
	assert_true(arg(e, "Device Type") == 0 && arg(e, "Device Id") == -1);
	assert_true(arg(e, "Addr") == 0x1000);
	e = find(w, "cpu_instant_event", "[memory]", 1);
	assert_true(arg(e, "Device Type") == 1 && arg(e, "Device Id") == 1);
	e = find(w, "cpu_instant_event", "[memory]", 2);
	assert_true(arg(e, "Bytes") == -4096 && arg(e, "Total Allocated") == 0);
}

static void requests_have_rows_of_their_own(void **state)
{
	struct world *w = *state;
	const cJSON *a, *b, *copy;

	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 1000, "chat")->id = 1;
	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 1500, "chat")->id = 2;
	rec__event(w->b, w->main, EV_ASYNC_BEGIN, 1600, "copy")->id = 3;
	rec__event(w->b, w->worker, EV_REQUEST_END, 2000, "chat")->id = 1;
	rec__event(w->b, w->worker, EV_ASYNC_END, 2100, "copy")->id = 3;
	rec__event(w->b, w->worker, EV_REQUEST_END, 2500, "chat")->id = 2;
	export_trace(w, NULL);
	a = find(w, "user_annotation", "chat", 0);
	b = find(w, "user_annotation", "chat", 1);
	copy = find(w, "clika.async", "copy", 0);
	assert_int_equal(ns(a, "ts"), 0);
	assert_int_equal(ns(a, "dur"), 1000);
	assert_int_equal(ns(b, "ts"), 500);
	assert_true(ns(a, "tid") != ns(b, "tid")); /* they overlap */
	assert_true(ns(copy, "tid") != ns(a, "tid") && ns(copy, "tid") != ns(b, "tid"));
	assert_true(ns(a, "tid") / 1000 > TRACE_PID_MAX);
}

static void flows_are_arrows_with_numbers_of_their_own(void **state)
{
	struct world *w = *state;
	const cJSON *e, *s = NULL, *f = NULL;

	rec__span(w->b, w->main, 1000, 500, "enqueue");
	rec__event(w->b, w->main, EV_FLOW_OUT, 1200, "job")->id = 1;
	rec__span(w->b, w->worker, 2000, 500, "run");
	rec__event(w->b, w->worker, EV_FLOW_IN, 2100, "job")->id = 1;
	export_trace(w, NULL);
	cJSON_ArrayForEach(e, w->events)
	{
		if (!strcmp(str(e, "ph"), "s"))
			s = e;
		if (!strcmp(str(e, "ph"), "f"))
			f = e;
	}
	assert_non_null(s);
	assert_non_null(f);
	assert_string_equal(str(s, "cat"), "ac2g");
	assert_string_equal(str(f, "bp"), "e");
	assert_int_equal(ns(s, "id"), ns(f, "id"));
	assert_int_equal(ns(s, "ts"), 200);
	assert_int_equal(ns(f, "ts"), 1100);
}

static void named_spans_are_steps_when_asked(void **state)
{
	struct world *w = *state;
	const cJSON *step;

	rec__span(w->b, w->main, 1000, 500, "decode token");
	rec__span(w->b, w->main, 2000, 500, "sample");
	rec__span(w->b, w->main, 3000, 500, "decode token");
	export_trace(w, "decode*");
	step = find(w, "user_annotation", "ProfilerStep#0", 0);
	assert_int_equal(ns(step, "ts"), 0);
	assert_int_equal(ns(step, "dur"), 500);
	assert_int_equal(ns(find(w, "user_annotation", "ProfilerStep#1", 0), "ts"), 2000);
	find(w, "cpu_op", "decode token", 1);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(spans_are_operators),
		TEST(allocations_are_memory_instants),
		TEST(requests_have_rows_of_their_own),
		TEST(flows_are_arrows_with_numbers_of_their_own),
		TEST(named_spans_are_steps_when_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
