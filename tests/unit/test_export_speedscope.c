// SPDX-License-Identifier: Apache-2.0
/* speedscope's rules that its schema does not know: balance, order, bounds; and the spool below. */
#include "export/spool.h"
#include "tests/common/export_text.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

struct world {
	struct rec *b;
	uint32_t server, main, worker;
	cJSON *tree;
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

static double number(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	assert_true(cJSON_IsNumber(v));
	return v->valuedouble;
}

static const char *text(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	assert_true(cJSON_IsString(v));
	return v->valuestring;
}

static void check_profile(const cJSON *p, int n_frames)
{
	double at = number(p, "startValue"), frame;
	double open[64];
	const cJSON *e;
	size_t n = 0;

	assert_string_equal(text(p, "type"), "evented");
	assert_string_equal(text(p, "unit"), "nanoseconds");
	cJSON_ArrayForEach(e, cJSON_GetObjectItem(p, "events"))
	{
		assert_true(number(e, "at") >= at);
		at = number(e, "at");
		frame = number(e, "frame");
		assert_true(frame >= 0 && frame < n_frames);
		if (*text(e, "type") == 'O') {
			assert_true(n < ARRAY_SIZE(open));
			open[n++] = frame;
		} else {
			assert_true(n > 0);
			assert_true(open[--n] == frame);
		}
	}
	assert_int_equal(n, 0);
	assert_true(at <= number(p, "endValue"));
}

static const cJSON *export_profiles(struct world *w, const struct clika_view_opts *view)
{
	char *json = export__text(w->b, "speedscope", view, NULL, NULL);
	const cJSON *profiles, *p;
	int n_frames;

	w->tree = cJSON_ParseWithOpts(json, NULL, true);
	assert_non_null(w->tree);
	free(json);
	assert_string_equal(text(w->tree, "$schema"),
			    "https://www.speedscope.app/file-format-schema.json");
	n_frames = cJSON_GetArraySize(
		cJSON_GetObjectItem(cJSON_GetObjectItem(w->tree, "shared"), "frames"));
	profiles = cJSON_GetObjectItem(w->tree, "profiles");
	assert_true(cJSON_GetArraySize(profiles) > 0);
	cJSON_ArrayForEach(p, profiles) check_profile(p, n_frames);
	return profiles;
}

static void one_balanced_profile_a_thread(void **state)
{
	struct world *w = *state;
	const cJSON *profiles, *e, *frames;

	rec__anchor(w->b, 1000, 1);
	rec__anchor(w->b, 9000, 2);
	rec__span(w->b, w->main, 1000, 5000, "step")->src = rec__id(w->b, "engine.c:12");
	rec__span(w->b, w->main, 1100, 500, "load");
	rec__span(w->b, w->main, 1600, 500, "load");
	rec__span(w->b, w->worker, 1050, 1, "load");
	rec__open_span(w->b, w->worker, 2000, 0, "loop");
	profiles = export_profiles(w, NULL);
	assert_int_equal(cJSON_GetArraySize(profiles), 2);
	assert_string_equal(text(profiles->child, "name"), "server 100/100 (main)");
	assert_string_equal(text(profiles->child->next, "name"), "server 100/101 (worker)");
	e = cJSON_GetObjectItem(profiles->child, "events");
	assert_int_equal(cJSON_GetArraySize(e), 6);
	assert_true(number(cJSON_GetArrayItem(e, 2), "at") == 600);
	assert_true(number(cJSON_GetArrayItem(e, 5), "at") == 5000);
	frames = cJSON_GetObjectItem(cJSON_GetObjectItem(w->tree, "shared"), "frames");
	e = cJSON_GetArrayItem(frames, (int)number(e->child, "frame"));
	assert_string_equal(text(e, "name"), "step");
	assert_string_equal(text(e, "file"), "engine.c");
	assert_true(number(e, "line") == 12);
}

static void spans_over_the_edge_of_a_filter_lie_inside_their_profile(void **state)
{
	struct clika_view_opts view = { .sz = sizeof(view), .from_ns = 2000, .to_ns = 3000 };
	struct world *w = *state;

	rec__anchor(w->b, 1000, 1);
	rec__anchor(w->b, 9000, 2);
	rec__span(w->b, w->main, 1500, 6000, "over both edges");
	rec__span(w->b, w->worker, 3100, 100, "inside");
	assert_int_equal(cJSON_GetArraySize(export_profiles(w, &view)), 2);
}

static void a_file_without_spans_has_an_empty_profile(void **state)
{
	export_profiles(*state, NULL);
}

/* --- the spool ------------------------------------------------------------------------------------- */

static void fill(struct spool *sp, size_t stream, uint32_t n, size_t bytes)
{
	uint8_t record[256];
	uint32_t i;

	for (i = 0; i < n; i++) {
		memset(record, (int)stream, sizeof(record));
		memcpy(record, &i, sizeof(i));
		assert_int_equal(spool__put(sp, stream, record, bytes), 0);
	}
}

static void check(struct spool *sp, size_t stream, uint32_t n, size_t bytes)
{
	struct spool_reader r;
	const uint8_t *p;
	uint32_t i, at = 0;

	assert_int_equal(spool__has(sp, stream), n > 0);
	spool_reader__init(&r, sp, stream);
	while (spool_reader__more(&r)) {
		p = cursor__bytes(&r.c, bytes);
		assert_non_null(p);
		memcpy(&i, p, sizeof(i));
		assert_int_equal(i, at++);
		assert_int_equal(p[bytes - 1], (uint8_t)stream);
	}
	assert_int_equal(r.err, 0);
	assert_int_equal(at, n);
	spool_reader__free(&r);
}

static void spool_gives_back_each_stream_in_order(void **state)
{
	struct spool *sp = spool__new(3);

	(void)state;
	fill(sp, 0, 200000, 100); /* more than is kept in memory */
	fill(sp, 1, 3, 20);
	fill(sp, 0, 0, 100);
	check(sp, 0, 200000, 100);
	check(sp, 1, 3, 20);
	check(sp, 2, 0, 1);
	check(sp, 0, 200000, 100); /* as often as needed */
	spool__free(sp);
}

static void spool_holds_many_streams(void **state)
{
	size_t i, n = 20000;
	struct spool *sp = spool__new(n);

	(void)state;
	for (i = 0; i < n; i++)
		fill(sp, i, 10, 100);
	for (i = 0; i < n; i++)
		check(sp, i, 10, 100);
	spool__free(sp);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_balanced_profile_a_thread),
		TEST(spans_over_the_edge_of_a_filter_lie_inside_their_profile),
		TEST(a_file_without_spans_has_an_empty_profile),
		cmocka_unit_test(spool_gives_back_each_stream_in_order),
		cmocka_unit_test(spool_holds_many_streams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
