// SPDX-License-Identifier: Apache-2.0
/* Firefox profiles: the layout of version 55, column by column, and what they say. */
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
	const cJSON *threads;
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

static const cJSON *get(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	if (!v)
		fail_msg("no %s", key);
	return v;
}

static int length(const cJSON *table)
{
	return (int)get(table, "length")->valuedouble;
}

static const cJSON *cell(const cJSON *table, const char *column, int row)
{
	const cJSON *c = cJSON_GetArrayItem(get(table, column), row);

	assert_non_null(c);
	return c;
}

static const char *string_at(const cJSON *thread, const cJSON *index)
{
	const cJSON *s = cJSON_GetArrayItem(get(thread, "stringArray"), (int)index->valuedouble);

	assert_true(cJSON_IsString(s));
	return s->valuestring;
}

static void check_index(const cJSON *index, int n)
{
	assert_true(cJSON_IsNumber(index));
	assert_true(index->valuedouble >= 0 && index->valuedouble < n);
}

static void check_columns(const cJSON *table, const char *const *columns)
{
	for (; *columns; columns++)
		assert_int_equal(cJSON_GetArraySize(get(table, *columns)), length(table));
}

static void check_tables(const cJSON *t)
{
	static const char *const samples[] = { "stack", "time", "weight", "threadCPUDelta", NULL };
	static const char *const markers[] = { "data",  "name",     "startTime", "endTime",
					       "phase", "category", NULL };
	static const char *const stacks[] = { "frame", "prefix", NULL };
	static const char *const frames[] = {
		"address",      "inlineDepth",   "category", "subcategory", "func",
		"nativeSymbol", "innerWindowID", "line",     "column",      NULL
	};
	static const char *const funcs[] = { "name",     "isJS",       "relevantForJS", "resource",
					     "fileName", "lineNumber", "columnNumber",  NULL };
	static const char *const resources[] = { "lib", "name", "host", "type", NULL };
	static const char *const symbols[] = { "libIndex", "address", "name", "functionSize",
					       NULL };

	check_columns(get(t, "samples"), samples);
	check_columns(get(t, "markers"), markers);
	check_columns(get(t, "stackTable"), stacks);
	check_columns(get(t, "frameTable"), frames);
	check_columns(get(t, "funcTable"), funcs);
	check_columns(get(t, "resourceTable"), resources);
	check_columns(get(t, "nativeSymbols"), symbols);
}

static void check_references(const cJSON *t)
{
	const cJSON *samples = get(t, "samples"), *stacks = get(t, "stackTable");
	const cJSON *frames = get(t, "frameTable"), *funcs = get(t, "funcTable");
	const cJSON *markers = get(t, "markers"), *prefix;
	int i, strings = cJSON_GetArraySize(get(t, "stringArray"));
	double last = 0;

	for (i = 0; i < length(samples); i++) {
		check_index(cell(samples, "stack", i), length(stacks));
		assert_true(cell(samples, "time", i)->valuedouble >= last);
		last = cell(samples, "time", i)->valuedouble;
	}
	for (i = 0; i < length(stacks); i++) {
		check_index(cell(stacks, "frame", i), length(frames));
		prefix = cell(stacks, "prefix", i);
		if (!cJSON_IsNull(prefix))
			check_index(prefix, i);
	}
	for (i = 0; i < length(frames); i++)
		check_index(cell(frames, "func", i), length(funcs));
	for (i = 0; i < length(funcs); i++)
		check_index(cell(funcs, "name", i), strings);
	for (i = 0; i < length(markers); i++)
		check_index(cell(markers, "name", i), strings);
}

static void export_profile(struct world *w)
{
	char *text = export__text(w->b, "firefox", NULL, NULL, NULL);
	const cJSON *t;

	/* Importers tell the format by the first key. */
	assert_int_equal(strncmp(text, "{\"meta\"", 7), 0);
	w->tree = cJSON_ParseWithOpts(text, NULL, true);
	assert_non_null(w->tree);
	free(text);
	assert_true(get(get(w->tree, "meta"), "preprocessedProfileVersion")->valuedouble == 55);
	w->threads = get(w->tree, "threads");
	cJSON_ArrayForEach(t, w->threads)
	{
		assert_true(cJSON_IsString(get(t, "pid")));
		check_tables(t);
		check_references(t);
	}
}

static double ms(const cJSON *table, const char *column, int row)
{
	return cell(table, column, row)->valuedouble;
}

static bool is_ms(double v, double ns)
{
	return fabs(v - ns / 1e6) < 1e-9;
}

static void samples_weigh_what_each_stack_ran_innermost(void **state)
{
	struct world *w = *state;
	const cJSON *t, *s, *stacks;

	rec__anchor(w->b, 1000, 1700000000000000000);
	rec__span(w->b, w->main, 1000, 5000, "step")->src = rec__id(w->b, "engine.c:12");
	rec__span(w->b, w->main, 2000, 500, "load");
	rec__span(w->b, w->main, 9000, 100, "step");
	export_profile(w);
	assert_int_equal(cJSON_GetArraySize(w->threads), 1);
	t = w->threads->child;
	assert_string_equal(get(t, "name")->valuestring, "main");
	assert_string_equal(get(t, "pid")->valuestring, "100");
	s = get(t, "samples");
	assert_int_equal(length(s), 4);
	assert_true(is_ms(ms(s, "time", 0), 0) && is_ms(ms(s, "weight", 0), 1000));
	assert_true(is_ms(ms(s, "time", 1), 1000) && is_ms(ms(s, "weight", 1), 500));
	assert_true(is_ms(ms(s, "time", 2), 1500) && is_ms(ms(s, "weight", 2), 3500));
	assert_true(is_ms(ms(s, "time", 3), 8000) && is_ms(ms(s, "weight", 3), 100));
	assert_string_equal(get(s, "weightType")->valuestring, "tracing-ms");
	/* busy since the sample before */
	assert_true(cJSON_IsNull(cell(s, "threadCPUDelta", 0)));
	assert_true(cell(s, "threadCPUDelta", 1)->valuedouble == 1000);
	assert_true(cell(s, "threadCPUDelta", 3)->valuedouble == 3500);
	stacks = get(t, "stackTable");
	assert_int_equal(length(stacks), 3); /* another source is another stack */
	assert_true(cJSON_IsNull(cell(stacks, "prefix", 0)));
	assert_true(cell(stacks, "prefix", 1)->valuedouble == 0);
	assert_string_equal(string_at(t, cell(get(t, "funcTable"), "name", 1)), "load");
	assert_string_equal(string_at(t, cell(get(t, "funcTable"), "fileName", 0)), "engine.c");
	assert_true(cell(get(t, "funcTable"), "lineNumber", 0)->valuedouble == 12);
	assert_true(get(get(w->tree, "meta"), "startTime")->valuedouble == 1700000000000.0);
}

static void spans_instants_async_spans_and_requests_are_markers(void **state)
{
	struct world *w = *state;
	const cJSON *t, *m, *categories;

	rec__anchor(w->b, 1000, 1700000000000000000);
	rec__span(w->b, w->main, 1000, 5000, "step")->cat = rec__id(w->b, "runtime");
	rec__arg_u64(w->b, "size", 3);
	rec__arg_str(w->b, "prompt", "a\nb", 3);
	rec__event(w->b, w->main, EV_INSTANT, 2000, "tick")->cat = rec__id(w->b, "elsewhere");
	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 2100, "chat")->id = 5;
	rec__event(w->b, w->main, EV_ASYNC_BEGIN, 2200, "copy")->id = 1;
	rec__event(w->b, w->main, EV_ASYNC_END, 2300, "copy")->id = 1;
	rec__event(w->b, w->main, EV_REQUEST_END, 2900, "chat")->id = 5;
	export_profile(w);
	t = w->threads->child;
	m = get(t, "markers");
	assert_int_equal(length(m), 4);
	assert_string_equal(string_at(t, cell(m, "name", 0)), "step");
	assert_true(is_ms(ms(m, "startTime", 0), 0) && is_ms(ms(m, "endTime", 0), 5000));
	assert_true(cell(m, "phase", 0)->valuedouble == 1);
	assert_string_equal(get(cell(m, "data", 0), "details")->valuestring,
			    "size=3, prompt=a\\x0ab");
	categories = get(get(w->tree, "meta"), "categories");
	assert_int_equal(cJSON_GetArraySize(categories), 2);
	assert_string_equal(get(categories->child->next, "name")->valuestring, "runtime");
	assert_true(cell(m, "category", 0)->valuedouble == 1);
	assert_string_equal(string_at(t, cell(m, "name", 1)), "tick");
	assert_true(cell(m, "phase", 1)->valuedouble == 0);
	assert_true(cJSON_IsNull(cell(m, "endTime", 1)));
	/* No stack has its category: it is among the others. */
	assert_true(cell(m, "category", 1)->valuedouble == 0);
	assert_string_equal(string_at(t, cell(m, "name", 2)), "copy");
	assert_true(is_ms(ms(m, "startTime", 2), 1200) && is_ms(ms(m, "endTime", 2), 1300));
	assert_string_equal(string_at(t, cell(m, "name", 3)), "chat");
	assert_true(is_ms(ms(m, "startTime", 3), 1100) && is_ms(ms(m, "endTime", 3), 1900));
	assert_string_equal(get(cell(m, "data", 3), "type")->valuestring, "Request");
}

static void a_profile_of_nothing_is_valid(void **state)
{
	struct world *w = *state;

	export_profile(w);
	assert_int_equal(cJSON_GetArraySize(w->threads), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(samples_weigh_what_each_stack_ran_innermost),
		TEST(spans_instants_async_spans_and_requests_are_markers),
		TEST(a_profile_of_nothing_is_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
