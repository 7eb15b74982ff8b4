// SPDX-License-Identifier: Apache-2.0
/*
 * Random recordings through every exporter: overlaps, unfinished spans, equal times, deep nesting,
 * hostile strings, extreme times, no events at all. The results must parse, nest and balance.
 *
 * CLIKA_KEEP_TRACES=FOLDER leaves Chrome traces with bounded times there, for other readers to try.
 */
#include "export/exporter.h"
#include "tests/common/export_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#define ROUNDS 150
#define THREADS 5

struct dice {
	uint64_t x;
};

static uint64_t roll(struct dice *d, uint64_t below)
{
	d->x ^= d->x << 13;
	d->x ^= d->x >> 7;
	d->x ^= d->x << 17;
	return below ? d->x % below : d->x;
}

static const char *const words[] = {
	"conv2d",
	"",
	"\"quoted\"",
	"back\\slash",
	"line\nbreak",
	"\x1b[31mred",
	"\xff\xfe\x80",
	"\xed\xa0\x80",
	"\xc3\xa9t\xc3\xa9",
	"</script>",
	"a;b c",
	"%s%n",
	"\xe2\x80\xae right to left",
};

static const char *word(struct dice *d)
{
	return words[roll(d, ARRAY_SIZE(words))];
}

static uint64_t some_time(struct dice *d)
{
	switch (roll(d, 20)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX - roll(d, 10);
	case 2:
		return 1000000000000 + roll(d, 5); /* many at one moment */
	default:
		return 1000000000000 + roll(d, 1000000);
	}
}

static uint64_t some_length(struct dice *d)
{
	static const uint64_t scale[] = { 1, 10, 1000, 100000, 2000000 };

	return roll(d, 50) ? roll(d, scale[roll(d, ARRAY_SIZE(scale))]) : UINT64_MAX - roll(d, 3);
}

static void add_args(struct rec *b, struct dice *d)
{
	size_t n = roll(d, 4) ? 0 : roll(d, EVENT_MAX_ARGS + 1);
	const char *s;

	while (n--) {
		switch (roll(d, 4)) {
		case 0:
			rec__arg_i64(b, word(d), (int64_t)roll(d, 0));
			break;
		case 1:
			rec__arg_u64(b, word(d), roll(d, 0));
			break;
		case 2:
			rec__arg_f64(b, word(d), roll(d, 2) ? INFINITY : (double)roll(d, 0) / 7);
			break;
		default:
			s = word(d);
			rec__arg_str(b, word(d), s, strlen(s));
		}
	}
}

static void add_event(struct rec *b, struct dice *d, uint32_t thread)
{
	uint8_t kind = (uint8_t)(1 + roll(d, EV_KIND_COUNT - 1));
	struct event *ev;

	if (roll(d, 2))
		kind = EV_SPAN;
	if (kind == EV_SPAN && !roll(d, 10)) {
		uint64_t ts = some_time(d), end = roll(d, 3) ? ts + some_length(d) : 0;

		rec__open_span(b, thread, ts, end, word(d));
		add_args(b, d);
		return;
	}
	ev = rec__event(b, thread, kind, some_time(d), word(d));
	ev->cat = rec__id(b, roll(d, 3) ? NULL : word(d));
	ev->src = rec__id(b, roll(d, 5) ? NULL : word(d));
	if (kind == EV_SPAN)
		ev->dur = some_length(d);
	else
		ev->id = roll(d, 6);
	ev->value = roll(d, 4) ? roll(d, 10000) : roll(d, 0);
	ev->aux = (uint32_t)roll(d, 3);
	ev->pool = rec__id(b, roll(d, 2) ? word(d) : NULL);
	add_args(b, d);
}

static void add_nest(struct rec *b, struct dice *d, uint32_t thread)
{
	uint64_t depth = roll(d, 400), i;

	for (i = 0; i < depth; i++)
		rec__span(b, thread, 1000000100000 + i, 10000 - 2 * i, word(d));
}

/* *@bounded: the recorder's own clock says which times are absurd. */
static struct rec *random_recording(struct dice *d, bool *bounded)
{
	struct rec *b = rec__new();
	uint32_t thread[THREADS], p = 0;
	uint64_t n, i;

	for (i = 0; i < THREADS; i++) {
		if (i % 2 == 0) {
			p = rec__process(b, (uint32_t)roll(d, 3) * 100, word(d));
			rec__process_info(b, p)->exec_gen = (uint32_t)i;
			rec__process_info(b, p)->ended = roll(d, 2) ? some_time(d) : 0;
			rec__process_info(b, p)->cgroup = (char *)(uintptr_t)word(d);
		}
		thread[i] = rec__thread(b, p, (uint32_t)roll(d, 4) * 100, word(d));
	}
	*bounded = roll(d, 4);
	if (*bounded) {
		rec__anchor(b, 1000000000000, 1700000000000000000);
		rec__anchor(b, 1000001000000, 1700000000001000000);
	}
	for (n = roll(d, 4); n--;)
		rec__capture(b, some_time(d), roll(d, 3) ? some_time(d) : 0, word(d));
	for (n = roll(d, 4); n--;)
		rec__loss(b, (uint16_t)roll(d, LOSS_CAUSE_COUNT + 1), roll(d, 100), roll(d, 2));
	if (roll(d, 2))
		rec__warning(b, word(d), word(d));
	for (n = roll(d, 10) ? roll(d, 600) : 0; n--;) {
		rec__stream(b, (uint32_t)roll(d, 3));
		add_event(b, d, thread[roll(d, THREADS)]);
	}
	if (!roll(d, 3))
		add_nest(b, d, thread[0]);
	rec__layout(b, 1 + roll(d, 50), (unsigned int)roll(d, 5));
	rec__finish_file(b, roll(d, 4) != 0);
	return b;
}

/* --- what must hold of a Chrome trace -------------------------------------------------------- */

static const char *text_of(const cJSON *e, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(e, key);

	return cJSON_IsString(v) ? v->valuestring : "";
}

/* Times as the nanoseconds they were written from: the text has three decimals. */
static int64_t ns_of(const cJSON *e, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(e, key);

	assert_true(cJSON_IsNumber(v));
	return llround(v->valuedouble * 1000);
}

struct stack {
	int64_t pid, tid, end[1024];
	size_t n;
};

/* Complete events of one thread come in order, nest or are disjoint. */
static void assert_nests(struct stack *stacks, size_t *n_stacks, const cJSON *e)
{
	int64_t pid = ns_of(e, "pid"), tid = ns_of(e, "tid"), ts = ns_of(e, "ts");
	int64_t end = ts + ns_of(e, "dur");
	struct stack *s;
	size_t i;

	assert_true(ts >= 0 && end >= ts);
	for (i = 0; i < *n_stacks; i++)
		if (stacks[i].pid == pid && stacks[i].tid == tid)
			break;
	s = &stacks[i];
	if (i == *n_stacks) {
		assert_true(i < 16);
		memset(s, 0, sizeof(*s));
		s->pid = pid;
		s->tid = tid;
		(*n_stacks)++;
	}
	while (s->n && s->end[s->n - 1] <= ts)
		s->n--;
	assert_true(!s->n || end <= s->end[s->n - 1]);
	if (end == ts)
		return;
	assert_true(s->n < ARRAY_SIZE(s->end));
	s->end[s->n++] = end;
}

struct tally {
	uint64_t spans, instants, begins, ends, starts, finishes;
	int64_t last_ts;
};

static void check_event(struct tally *t, struct stack *stacks, size_t *n_stacks, const cJSON *e,
			bool bounded)
{
	char ph = text_of(e, "ph")[0];

	assert_true(cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(e, "pid")));
	assert_true(ns_of(e, "pid") > 0);
	assert_true(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(e, "name")));
	switch (ph) {
	case 'M':
		return;
	case 'X':
		t->spans++;
		if (bounded)
			assert_nests(stacks, n_stacks, e);
		break;
	case 'b':
		t->begins++;
		break;
	case 'e':
		t->ends++;
		assert_true(t->ends <= t->begins);
		break;
	case 's':
		t->starts++;
		assert_int_equal(ns_of(e, "id") / 1000, t->starts);
		return; /* arrows are out of order on purpose */
	case 'f':
		t->finishes++;
		assert_int_equal(ns_of(e, "id") / 1000, t->starts);
		return;
	default:
		assert_non_null(strchr("niC", ph));
	}
	/* Without bounds a trace may span centuries, which no double tells to the nanosecond. */
	if (bounded)
		assert_true(ns_of(e, "ts") >= t->last_ts);
	t->last_ts = ns_of(e, "ts");
}

static void check_chrome(const char *text, size_t len, bool bounded)
{
	static struct stack stacks[16];
	const cJSON *e, *counts;
	struct tally t = { 0 };
	size_t n_stacks = 0;
	cJSON *tree;

	assert_true(utf8__valid(text, len));
	assert_int_equal(strlen(text), len);
	tree = cJSON_ParseWithOpts(text, NULL, true);
	if (!tree)
		fail_msg("not JSON near: %.200s", cJSON_GetErrorPtr());
	cJSON_ArrayForEach(e, cJSON_GetObjectItem(tree, "traceEvents"))
		check_event(&t, stacks, &n_stacks, e, bounded);
	counts = cJSON_GetObjectItem(cJSON_GetObjectItem(tree, "otherData"), "counts");
	assert_int_equal(t.begins, t.ends);
	assert_int_equal(t.starts, t.finishes);
	assert_int_equal(t.spans, cJSON_GetObjectItem(counts, "spans")->valuedouble);
	assert_int_equal(t.begins, cJSON_GetObjectItem(counts, "asyncs")->valuedouble +
					   cJSON_GetObjectItem(counts, "requests")->valuedouble);
	cJSON_Delete(tree);
}

/* --- what must hold of a walk ---------------------------------------------------------------- */

struct balance {
	struct session *s;
	uint64_t open, asyncs, last_ts, self_ns, root_ns, items;
};

static int balance__item(void *ctx, const struct item *it)
{
	struct balance *b = ctx;

	assert_true(it->ts >= b->last_ts && it->ts >= session__origin(b->s));
	b->last_ts = it->ts;
	b->items++;
	switch (it->kind) {
	case IT_SPAN_BEGIN:
		b->open++;
		assert_int_equal(it->span->depth,
				 it->span->parent ? it->span->parent->depth + 1 : 0);
		if (it->span->parent)
			assert_true(it->ts + it->ev->dur <=
				    it->span->parent->ev.ts + it->span->parent->ev.dur);
		else
			b->root_ns += it->ev->dur;
		break;
	case IT_SPAN_END:
		assert_true(b->open-- > 0);
		assert_int_equal(it->ts, it->ev->ts + it->ev->dur);
		assert_true(it->self_ns <= it->ev->dur);
		b->self_ns += it->self_ns;
		break;
	case IT_ASYNC_BEGIN:
		b->asyncs++;
		break;
	case IT_ASYNC_END:
		assert_true(b->asyncs-- > 0);
		break;
	case IT_MEMORY:
		assert_true(it->current >= 0 && it->reserved >= 0);
		break;
	default:
		break;
	}
	return 0;
}

static void check_walk(struct rec *b)
{
	struct session_opts all = { .outside_captures = true };
	struct balance t = { 0 }, again = { 0 };
	struct session *s;

	assert_int_equal(session__new(rec__open(b), &all, &s, NULL), 0);
	t.s = again.s = s;
	assert_int_equal(session__walk(s, balance__item, &t), 0);
	assert_int_equal(session__walk(s, balance__item, &again), 0);
	assert_int_equal(t.open, 0);
	assert_int_equal(t.asyncs, 0);
	assert_int_equal(t.items, again.items);
	/* Time in spans is somebody's own exactly once. */
	assert_int_equal(t.self_ns, t.root_ns);
	session__free(s);
}

static void keep_trace(const char *text, size_t len, unsigned int round)
{
	const char *dir = getenv("CLIKA_KEEP_TRACES");
	char path[512];
	FILE *f;

	if (!dir)
		return;
	snprintf(path, sizeof(path), "%s/%03u.json", dir, round);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void every_exporter_survives_random_recordings(void **state)
{
	struct clika_view_opts views[3] = { { .sz = sizeof(views[0]) },
					    { .sz = sizeof(views[0]), .outside_captures = true },
					    { .sz = sizeof(views[0]),
					      .from_ns = 1000,
					      .to_ns = 200000,
					      .outside_captures = true } };
	struct dice d = { 0x9e3779b97f4a7c15ull };
	unsigned int round;
	size_t i, len;
	bool bounded;
	char *text;

	(void)state;
	for (round = 0; round < ROUNDS; round++) {
		struct rec *b = random_recording(&d, &bounded);

		check_walk(b);
		for (i = 0; exporters[i]; i++) {
			const char *format = exporters[i]->format;

			text = export__text(b, format, &views[round % 3], NULL, &len);
			if (!strcmp(format, "chrome")) {
				check_chrome(text, len, bounded);
				if (bounded)
					keep_trace(text, len, round);
			} else if (!strcmp(format, "summary")) {
				assert_plain_text(text, len, 100);
			}
			free(text);
		}
		rec__free(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_exporter_survives_random_recordings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
