// SPDX-License-Identifier: Apache-2.0
/*
 * Random sessions through the formats that add up or repeat spans: whatever the nesting, names and
 * filters, each of them tells the same number of spans and the same time as the statistics.
 */
#include "proto/pprof.pb-c.h"
#include "tests/common/export_text.h"
#include "user/session/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#define ROUNDS 60
#define THREADS 4
#define T0 1000000000000ull

struct totals {
	bool hides; /* a filter may hide spans inside of others: timelines show them as the outer one's */
	uint64_t spans, self_ns, wall_ns, allocs, alloc_bytes, asyncs, requests;
};

/* --- random sessions -------------------------------------------------------------------------------- */

static uint64_t dice = 0x2545f4914f6cdd1dull;

static uint64_t roll(uint64_t below)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice % below;
}

static const char *word(void)
{
	static const char *const words[] = {
		"conv2d",
		"gemm",
		"a;b",
		"a:b",
		"",
		"line\nbreak",
		"\xff\x1b[31m",
		"=1+1",
		"</title><script>alert(1)</script>",
		"]]>",
		"\xe2\x80\xae",
		"with \"quotes\", commas",
		"\xef\xbf\xbf",
		"very long name of an operation that no box is wide enough for",
	};

	return words[roll(ARRAY_SIZE(words))];
}

static void add_tree(struct rec *b, uint32_t thread, uint64_t ts, uint64_t dur, int depth)
{
	uint64_t at = ts, part;
	struct event *ev = rec__span(b, thread, ts, dur, word());

	ev->cat = rec__id(b, roll(2) ? word() : NULL);
	ev->src = rec__id(b, roll(2) ? "src/engine.c:7" : NULL);
	if (!roll(3))
		rec__arg_str(b, word(), "\"=x\n", 4);
	while (depth && roll(4) && at < ts + dur) {
		part = roll(ts + dur - at + 20); /* sometimes over its parent's end */
		add_tree(b, thread, at, part, depth - 1);
		at += part + roll(3);
	}
}

static void add_others(struct rec *b, uint32_t thread)
{
	uint64_t ts = T0 + roll(100000), id = roll(50);
	struct event *ev;

	switch (roll(6)) {
	case 0:
		ev = rec__event(b, thread, EV_ALLOC, ts, NULL);
		ev->id = id;
		ev->value = roll(100000);
		ev->aux = (uint32_t)roll(3);
		break;
	case 1:
		rec__event(b, thread, EV_FREE, ts, NULL)->id = id;
		break;
	case 2:
		rec__event(b, thread, EV_REQUEST_BEGIN, ts, word())->id = id;
		break;
	case 3:
		rec__event(b, thread, EV_REQUEST_END, ts, word())->id = id;
		break;
	case 4:
		rec__event(b, thread, (uint8_t)(EV_FLOW_OUT + roll(3)), ts, "job")->id = id;
		break;
	default:
		rec__event(b, thread, roll(2) ? EV_ASYNC_BEGIN : EV_ASYNC_END, ts, word())->id = id;
	}
}

static struct rec *random_session(void)
{
	struct rec *b = rec__new();
	uint32_t thread[THREADS], p = 0;
	uint64_t n, i;

	for (i = 0; i < THREADS; i++) {
		if (i % 2 == 0)
			p = rec__process(b, (uint32_t)(100 + i), word());
		thread[i] = rec__thread(b, p, (uint32_t)(100 + i), word());
	}
	rec__anchor(b, T0, 1700000000000000000);
	rec__anchor(b, T0 + 200000, 1700000000000200000);
	if (roll(2))
		rec__capture(b, T0 + roll(50000), T0 + 50000 + roll(50000), word());
	for (n = roll(40); n--;)
		add_tree(b, thread[roll(THREADS)], T0 + roll(90000), roll(20000), 6);
	for (n = roll(200); n--;)
		add_others(b, thread[roll(THREADS)]);
	if (roll(2))
		rec__open_span(b, thread[0], T0 + 95000, 0, word());
	rec__layout(b, 1 + roll(40), (unsigned int)roll(4));
	return b;
}

/* --- the statistics ---------------------------------------------------------------------------------- */

struct sums {
	struct stats *st;
	struct totals t;
};

static int to_stats(void *ctx, const struct item *it)
{
	struct sums *s = ctx;

	s->t.spans += it->kind == IT_SPAN_END;
	s->t.asyncs += it->kind == IT_ASYNC_END;
	s->t.requests += it->kind == IT_REQUEST && it->ev->kind == EV_REQUEST_END && it->lane_key;
	if (it->kind == IT_MEMORY && it->ev->kind == EV_ALLOC) {
		s->t.allocs++;
		s->t.alloc_bytes += it->ev->value;
	}
	return stats__item(s->st, it);
}

static struct totals expected(struct rec *b, const struct session_opts *o)
{
	struct sums s = { 0 };
	struct session *session;
	size_t i;

	assert_int_equal(session__new(rec__open(b), o, &session, NULL), 0);
	assert_int_equal(stats__new(session, &s.st), 0);
	assert_int_equal(session__walk(session, to_stats, &s), 0);
	assert_int_equal(stats__finish(s.st), 0);
	s.t.self_ns = s.st->self_ns;
	for (i = 0; i < s.st->n_ops; i++)
		s.t.wall_ns += s.st->ops[i].total_ns;
	stats__free(s.st);
	session__free(session);
	return s.t;
}

/* --- the formats -------------------------------------------------------------------------------------- */

static void check_folded(const char *text, const struct totals *t)
{
	uint64_t self = 0;
	const char *end, *line, *before = "";

	for (line = text; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		assert_true(*line != '#');
		assert_non_null(memchr(line, ';', (size_t)(end - line)));
		assert_true(strcmp(before, line) < 0); /* sorted, none twice */
		before = line;
		for (const char *p = end; p[-1] != ' '; p--)
			if (p[-1] < '0' || p[-1] > '9')
				fail_msg("no number ends: %.*s", (int)(end - line), line);
		self += strtoull((const char *)memrchr(line, ' ', (size_t)(end - line)) + 1, NULL,
				 10);
	}
	assert_int_equal(self, t->self_ns);
}

static void check_pprof(const char *data, size_t len, const struct totals *t)
{
	Pprof__Profile *p = pprof__profile__unpack(NULL, len, (const uint8_t *)data);
	struct totals is = { 0 };
	size_t i;

	assert_non_null(p);
	for (i = 0; i < p->n_string_table; i++)
		assert_true(
			utf8__valid((const char *)p->string_table[i].data, p->string_table[i].len));
	for (i = 0; i < p->n_sample; i++) {
		is.spans += (uint64_t)p->sample[i]->value[0];
		is.self_ns += (uint64_t)p->sample[i]->value[1];
		is.wall_ns += (uint64_t)p->sample[i]->value[2];
		is.allocs += (uint64_t)p->sample[i]->value[3];
		is.alloc_bytes += (uint64_t)p->sample[i]->value[4];
	}
	pprof__profile__free_unpacked(p, NULL);
	assert_int_equal(is.spans, t->spans);
	assert_int_equal(is.self_ns, t->self_ns);
	assert_int_equal(is.wall_ns, t->wall_ns);
	assert_int_equal(is.allocs, t->allocs);
	assert_int_equal(is.alloc_bytes, t->alloc_bytes);
}

static void check_csv(const char *text, const struct totals *t)
{
	uint64_t rows = 0, self = 0, column = 0;
	const char *p;
	bool quoted = false;

	for (p = strchr(text, '\n') + 1; *p; p++) {
		quoted ^= *p == '"';
		if (quoted || (*p != ',' && *p != '\n'))
			continue;
		column = *p == '\n' ? 0 : column + 1;
		rows += *p == '\n';
		if (column == 11)
			self += strtoull(p + 1, NULL, 10);
	}
	assert_int_equal(rows, t->spans);
	assert_int_equal(self, t->self_ns);
}

static cJSON *parse(const char *text)
{
	cJSON *tree = cJSON_ParseWithOpts(text, NULL, true);

	if (!tree)
		fail_msg("not JSON near %.100s", cJSON_GetErrorPtr());
	return tree;
}

static void check_speedscope(const char *text, const struct totals *t)
{
	cJSON *tree = parse(text);
	uint64_t opens = 0, depth = 0;
	double in_roots = 0, at;
	const cJSON *p, *e;

	cJSON_ArrayForEach(p, cJSON_GetObjectItem(tree, "profiles"))
	{
		cJSON_ArrayForEach(e, cJSON_GetObjectItem(p, "events"))
		{
			at = cJSON_GetObjectItem(e, "at")->valuedouble;
			if (*cJSON_GetObjectItem(e, "type")->valuestring == 'O') {
				opens++;
				in_roots -= depth++ ? 0 : at;
			} else {
				in_roots += --depth ? 0 : at;
			}
		}
		assert_int_equal(depth, 0);
	}
	assert_int_equal(opens, t->spans);
	assert_true(t->hides ? in_roots >= (double)t->self_ns : in_roots == (double)t->self_ns);
	cJSON_Delete(tree);
}

static void check_firefox(const char *text, const struct totals *t)
{
	cJSON *tree = parse(text);
	const cJSON *thread, *v, *list;
	uint64_t spans = 0;
	double weight = 0;

	cJSON_ArrayForEach(thread, cJSON_GetObjectItem(tree, "threads"))
	{
		list = cJSON_GetObjectItem(cJSON_GetObjectItem(thread, "samples"), "weight");
		cJSON_ArrayForEach(v, list) weight += round(v->valuedouble * 1e6);
		list = cJSON_GetObjectItem(cJSON_GetObjectItem(thread, "markers"), "data");
		cJSON_ArrayForEach(v, list)
			spans += !strcmp(cJSON_GetObjectItem(v, "type")->valuestring, "Span");
	}
	assert_int_equal(spans, t->spans);
	assert_true(t->hides ? weight >= (double)t->self_ns : weight == (double)t->self_ns);
	cJSON_Delete(tree);
}

static void check_kineto(const char *text, const struct totals *t)
{
	cJSON *tree = parse(text);
	uint64_t ops = 0, annotations = 0, asyncs = 0;
	const cJSON *e, *cat;

	cJSON_ArrayForEach(e, cJSON_GetObjectItem(tree, "traceEvents"))
	{
		cat = cJSON_GetObjectItem(e, "cat");
		if (!cat || strcmp(cJSON_GetObjectItem(e, "ph")->valuestring, "X"))
			continue;
		ops += !strcmp(cat->valuestring, "cpu_op");
		annotations += !strcmp(cat->valuestring, "user_annotation");
		asyncs += !strcmp(cat->valuestring, "clika.async");
	}
	assert_int_equal(ops, t->spans);
	assert_int_equal(annotations, t->requests);
	assert_int_equal(asyncs, t->asyncs);
	cJSON_Delete(tree);
}

static void check_ids(struct map64 *spans, struct map64 *parents, const cJSON *span)
{
	const cJSON *parent = cJSON_GetObjectItem(span, "parentSpanId");
	uint64_t id = strtoull(cJSON_GetObjectItem(span, "spanId")->valuestring, NULL, 16);

	assert_null(map64__get(spans, id));
	assert_non_null(map64__put(spans, id, 1));
	if (parent)
		map64__put(parents, strtoull(parent->valuestring, NULL, 16), 1);
}

static void check_otlp(const char *text, const struct totals *t)
{
	struct map64 *spans = map64__new(), *parents = map64__new();
	const char *line, *end;
	const cJSON *span;
	uint64_t key;
	size_t it = 0;
	cJSON *tree;

	for (line = text; *line; line = end + 1) {
		end = strchr(line, '\n');
		tree = cJSON_ParseWithLength(line, (size_t)(end - line));
		assert_non_null(tree);
		span = cJSON_GetObjectItem(tree, "resourceSpans")->child;
		span = cJSON_GetObjectItem(span, "scopeSpans")->child;
		cJSON_ArrayForEach(span, cJSON_GetObjectItem(span, "spans"))
			check_ids(spans, parents, span);
		cJSON_Delete(tree);
	}
	assert_int_equal(map64__count(spans), t->spans + t->asyncs + t->requests);
	while (map64__next(parents, &it, &key, NULL))
		assert_non_null(map64__get(spans, key));
	map64__free(spans);
	map64__free(parents);
}

static void check_flamegraph(const char *text, const struct totals *t)
{
	const char *p;
	double width = 0;

	/* Names are text: nothing that they hold became an element. */
	p = strstr(text, "<script>");
	assert_non_null(p);
	assert_null(strstr(p + 1, "<script"));
	assert_null(strstr(text, "</title><script>alert"));
	for (p = text; (p = strstr(p, "<svg class=\"f p")); p++)
		width += strtod(strstr(p, "width=\"") + 7, NULL);
	if (t->self_ns)
		assert_true(fabs(width - 100) < 0.3 * THREADS);
	else
		assert_non_null(strstr(text, "No spans."));
}

static void check(struct rec *b, const char *format, const struct clika_view_opts *view,
		  const struct totals *t)
{
	size_t len;
	char *text = export__text(b, format, view, NULL, &len);

	if (!strcmp(format, "pprof"))
		check_pprof(text, len, t);
	else
		assert_true(utf8__valid(text, len) && strlen(text) == len);
	if (!strcmp(format, "folded"))
		check_folded(text, t);
	else if (!strcmp(format, "csv"))
		check_csv(text, t);
	else if (!strcmp(format, "speedscope"))
		check_speedscope(text, t);
	else if (!strcmp(format, "firefox"))
		check_firefox(text, t);
	else if (!strcmp(format, "kineto"))
		check_kineto(text, t);
	else if (!strcmp(format, "otlp"))
		check_otlp(text, t);
	else if (!strcmp(format, "flamegraph"))
		check_flamegraph(text, t);
	free(text);
}

static void all_formats_tell_the_same_totals(void **state)
{
	static const char *const formats[] = { "pprof",   "folded", "csv",  "speedscope",
					       "firefox", "kineto", "otlp", "flamegraph" };
	static const struct {
		struct session_opts session;
		struct clika_view_opts view;
	} views[] = {
		{ { .relative = true }, { .sz = sizeof(struct clika_view_opts) } },
		{ { .relative = true, .outside_captures = true },
		  { .sz = sizeof(struct clika_view_opts), .outside_captures = true } },
		{ { .relative = true, .outside_captures = true, .from = 20000, .to = 60000 },
		  { .sz = sizeof(struct clika_view_opts),
		    .outside_captures = true,
		    .from_ns = 20000,
		    .to_ns = 60000 } },
	};
	unsigned int round;
	struct totals t;
	struct rec *b;
	size_t i, v;

	(void)state;
	for (round = 0; round < ROUNDS; round++) {
		b = random_session();
		v = round % ARRAY_SIZE(views);
		t = expected(b, &views[v].session);
		t.hides = v != 1;
		for (i = 0; i < ARRAY_SIZE(formats); i++)
			check(b, formats[i], &views[v].view, &t);
		rec__free(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_formats_tell_the_same_totals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
