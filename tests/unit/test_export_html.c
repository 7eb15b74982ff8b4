// SPDX-License-Identifier: Apache-2.0
/*
 * The HTML report's data, read back as the page's scripts do it: every span, its times and arguments,
 * what is merged when there is no room, and that no name can become anything but text. How it looks
 * and works is the matter of tests/e2e/test_html.py.
 */
#include "export/exporter.h"
#include "export/html_keep.h"
#include "export/html_spans.h"
#include "tests/common/export_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <zlib.h>

#define T0 1000000000000ull
#define MAX_PAGE 10000000

/* --- a page taken apart ----------------------------------------------------------------------------- */

struct span {
	uint64_t stream, at, dur, op, depth, flags;
	struct cursor args;
};

struct slot {
	uint64_t stream, depth, slots, index, count, cover, op, longest;
};

struct arrow {
	uint64_t at, to, wait, from, op;
};

struct page {
	char *text;
	size_t len;
	cJSON *data;
	struct buf blob;
	struct span *spans;
	struct slot *slots;
	struct arrow *arrows;
	size_t n_spans, n_slots, n_arrows;
	uint64_t unplaced, lost_arrows;
};

static unsigned int sextet(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = strchr(digits, c);

	assert_true(c && at);
	return (unsigned int)(at - digits);
}

static void unpack(const char *base64, size_t len, struct buf *out)
{
	struct buf packed = { 0 };
	uint8_t step[65536];
	z_stream z = { 0 };
	size_t i;
	int code;

	assert_int_equal(len % 4, 0);
	for (i = 0; i < len; i += 4) {
		uint32_t v = sextet(base64[i]) << 18 | sextet(base64[i + 1]) << 12;

		v |= base64[i + 2] == '=' ? 0 : sextet(base64[i + 2]) << 6;
		v |= base64[i + 3] == '=' ? 0 : sextet(base64[i + 3]);
		buf__u8(&packed, (uint8_t)(v >> 16));
		if (base64[i + 2] != '=')
			buf__u8(&packed, (uint8_t)(v >> 8));
		if (base64[i + 3] != '=')
			buf__u8(&packed, (uint8_t)v);
	}
	assert_int_equal(inflateInit(&z), Z_OK);
	z.next_in = packed.data;
	z.avail_in = (uInt)packed.len;
	do {
		z.next_out = step;
		z.avail_out = sizeof(step);
		code = inflate(&z, Z_NO_FLUSH);
		assert_true(code == Z_OK || code == Z_STREAM_END);
		buf__append(out, step, sizeof(step) - z.avail_out);
	} while (code != Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	inflateEnd(&z);
	buf__free(&packed);
}

static void *more(void *rows, size_t n, size_t bytes)
{
	void *bigger = realloc(rows, (n + 1) * bytes);

	assert_non_null(bigger);
	return bigger;
}

static void read_spans(struct page *p, struct cursor *c, uint64_t *at)
{
	uint64_t stream = cursor__varint(c), n = cursor__varint(c), args = cursor__varint(c), i;
	struct span *s;
	const uint8_t *bytes;
	uint64_t sum = 0, *len = calloc(n, sizeof(*len));

	assert_true(n > 0 && n <= 16384);
	p->spans = more(p->spans, p->n_spans + n, sizeof(*p->spans));
	s = p->spans + p->n_spans;
	memset(s, 0, n * sizeof(*s));
	for (i = 0; i < n; i++)
		s[i].stream = stream, s[i].at = at[stream] += (uint64_t)cursor__svarint(c);
	for (i = 0; i < n; i++)
		s[i].dur = cursor__varint(c);
	for (i = 0; i < n; i++)
		s[i].op = cursor__varint(c);
	for (i = 0; i < n; i++)
		s[i].depth = cursor__u8(c);
	for (i = 0; i < n; i++)
		s[i].flags = cursor__u8(c);
	for (i = 0; i < n; i++)
		sum += len[i] = cursor__varint(c);
	assert_int_equal(sum, args);
	for (i = 0; i < n; i++) {
		bytes = cursor__bytes(c, len[i]);
		assert_false(c->bad);
		s[i].args = cursor__over(bytes, len[i]);
	}
	p->n_spans += n;
	free(len);
}

static void read_slots(struct page *p, struct cursor *c)
{
	struct slot s = { .stream = cursor__varint(c),
			  .depth = cursor__varint(c),
			  .slots = cursor__varint(c) };
	uint64_t n = cursor__varint(c), at = 0;

	for (; n; n--) {
		s.index = at += cursor__varint(c);
		s.count = cursor__varint(c);
		s.cover = cursor__varint(c);
		s.op = cursor__varint(c);
		s.longest = cursor__varint(c);
		assert_true(s.index < s.slots);
		p->slots = more(p->slots, p->n_slots, sizeof(*p->slots));
		p->slots[p->n_slots++] = s;
	}
}

static void read_blob(struct page *p)
{
	struct cursor c = cursor__over(p->blob.data, p->blob.len);
	uint64_t *at = calloc(HTML_MAX_LANES + 100000, sizeof(*at));
	unsigned int part;

	while ((part = cursor__u8(&c))) {
		assert_false(c.bad);
		assert_in_range(part, 1, 3);
		if (part == 1) {
			read_spans(p, &c, at);
		} else if (part == 2) {
			read_slots(p, &c);
		} else {
			struct arrow a = { cursor__varint(&c), cursor__varint(&c),
					   cursor__varint(&c), cursor__varint(&c),
					   cursor__varint(&c) };

			p->arrows = more(p->arrows, p->n_arrows, sizeof(*p->arrows));
			p->arrows[p->n_arrows++] = a;
		}
	}
	p->unplaced = cursor__varint(&c);
	p->lost_arrows = cursor__varint(&c);
	assert_false(c.bad);
	assert_int_equal(cursor__left(&c), 0);
	free(at);
}

static const char *element(const struct page *p, const char *open, size_t *len)
{
	const char *at = strstr(p->text, open), *end;

	assert_non_null(at);
	at += strlen(open);
	assert_null(strstr(at, open));
	end = strstr(at, "</script>");
	assert_non_null(end);
	*len = (size_t)(end - at);
	return at;
}

static struct page page_of(struct rec *b, const struct clika_view_opts *view)
{
	struct page p = { 0 };
	const char *at;
	size_t len;

	p.text = export__text(b, "html", view, NULL, &p.len);
	assert_int_equal(strlen(p.text), p.len);
	assert_true(utf8__valid(p.text, p.len));
	assert_true(p.len < MAX_PAGE);
	at = element(&p, "<script type=\"application/json\" id=\"data\">", &len);
	p.data = cJSON_ParseWithLength(at, len);
	assert_non_null(p.data);
	at = element(&p, "<script type=\"text/plain\" id=\"spans\">", &len);
	unpack(at, len, &p.blob);
	read_blob(&p);
	return p;
}

static void page__free(struct page *p)
{
	cJSON_Delete(p->data);
	buf__free(&p->blob);
	free(p->text);
	free(p->spans);
	free(p->slots);
	free(p->arrows);
}

static const cJSON *get(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	assert_non_null(v);
	return v;
}

static uint64_t number(const cJSON *o, const char *key)
{
	const cJSON *v = get(o, key);

	assert_true(cJSON_IsNumber(v));
	return (uint64_t)v->valuedouble;
}

static const char *text_at(const struct page *p, const char *array, uint64_t i)
{
	const cJSON *v = cJSON_GetArrayItem(get(p->data, array), (int)i);

	assert_non_null(v);
	return cJSON_IsNull(v) ? NULL : v->valuestring;
}

static const char *text(const struct page *p, const cJSON *o, const char *key)
{
	return text_at(p, "texts", number(o, key));
}

static const char *op_name(const struct page *p, uint64_t op)
{
	return text_at(p, "texts",
		       (uint64_t)cJSON_GetArrayItem(get(p->data, "opName"), (int)op)->valuedouble);
}

static const struct span *find(const struct page *p, const char *name, uint64_t at)
{
	size_t i;

	for (i = 0; i < p->n_spans; i++)
		if (p->spans[i].at == at && !strcmp(op_name(p, p->spans[i].op), name))
			return &p->spans[i];
	fail_msg("there is no %s at %llu", name, (unsigned long long)at);
	return NULL;
}

static const cJSON *lane_of(const struct page *p, uint64_t stream)
{
	const cJSON *lane;

	cJSON_ArrayForEach(lane,
			   get(p->data, "lanes")) if (number(lane, "stream") == stream) return lane;
	fail_msg("stream %llu is no lane", (unsigned long long)stream);
	return NULL;
}

static void args_text(const struct page *p, struct cursor c, char *out, size_t room)
{
	size_t n = 0;

	out[0] = '\0';
	while (cursor__left(&c)) {
		const char *key = text_at(p, "argTexts", cursor__varint(&c));
		unsigned int type = cursor__u8(&c);
		uint64_t bits;
		double d;

		n += (size_t)snprintf(out + n, room - n, "%s%s=", n ? " " : "", key);
		switch (type) {
		case 0:
			n += (size_t)snprintf(out + n, room - n, "%lld",
					      (long long)cursor__svarint(&c));
			break;
		case 2:
			bits = cursor__u64le(&c);
			memcpy(&d, &bits, sizeof(d));
			n += (size_t)snprintf(out + n, room - n, "%g", d);
			break;
		case 3:
			n += (size_t)snprintf(out + n, room - n, "%s",
					      text_at(p, "argTexts", cursor__varint(&c)));
			break;
		default:
			n += (size_t)snprintf(out + n, room - n, "%llu%s",
					      (unsigned long long)cursor__varint(&c),
					      type == 4 ? " ns" : "");
			break;
		}
	}
	assert_false(c.bad);
}

static void assert_args(const struct page *p, const struct span *s, const char *expected)
{
	char all[1024];

	args_text(p, s->args, all, sizeof(all));
	assert_string_equal(all, expected);
}

/* --- worlds --------------------------------------------------------------------------------------------- */

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

/* --- tests ------------------------------------------------------------------------------------------------ */

static void has_every_span_with_its_times_and_arguments(void **state)
{
	struct world *w = *state;
	const struct span *s;
	struct page p;

	rec__span(w->b, w->main, T0, 5000, "step")->src = rec__id(w->b, "engine.c:12");
	rec__span(w->b, w->main, T0 + 100, 500, "load");
	rec__arg_i64(w->b, "offset", -7);
	rec__arg_u64(w->b, "bytes", UINT64_MAX);
	rec__arg_f64(w->b, "ratio", 0.25);
	rec__arg_str(w->b, "layout", "NCHW", 4);
	rec__open_span(w->b, w->worker, T0 + 50, T0 + 2050, "load");
	rec__event(w->b, w->main, EV_INSTANT, T0 + 700, "tick");
	p = page_of(w->b, NULL);
	assert_int_equal(p.n_spans, 4);
	assert_int_equal(p.n_slots, 0);
	s = find(&p, "step", 0);
	assert_int_equal(s->dur, 5000);
	assert_int_equal(s->depth, 0);
	assert_int_equal(s->flags, 0);
	assert_int_equal(cursor__left(&s->args), 0);
	s = find(&p, "load", 100);
	assert_int_equal(s->dur, 500);
	assert_int_equal(s->depth, 1);
	assert_args(&p, s, "offset=-7 bytes=18446744073709551615 ratio=0.25 layout=NCHW");
	s = find(&p, "load", 50);
	assert_int_equal(s->dur, 2000);
	assert_int_not_equal(s->stream, find(&p, "step", 0)->stream);
	s = find(&p, "tick", 700);
	assert_int_equal(s->flags, HF_INSTANT);
	assert_int_equal(s->depth, 1);
	assert_int_equal(number(get(p.data, "counts"), "spans"), 3);
	assert_int_equal(cJSON_GetArraySize(get(p.data, "tracks")), 2);
	page__free(&p);
}

static void leaves_arguments_out_when_they_are_not_wanted(void **state)
{
	struct world *w = *state;
	struct export_job job = { .ops = exporter__find("html") };
	struct export_opts o;
	struct session *s;
	struct buf b = { 0 };

	rec__span(w->b, w->main, T0, 5000, "step");
	rec__arg_str(w->b, "prompt", "a secret", 8);
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	export_opts__init(&o);
	o.stack_args = false;
	assert_int_equal(outfile__memory(&b, &job.out), 0);
	assert_int_equal(exporter__run(s, &job, 1, &o, NULL), 0);
	buf__u8(&b, 0);
	assert_null(strstr((const char *)b.data, "a secret"));
	assert_null(strstr((const char *)b.data, "prompt"));
	buf__free(&b);
	session__free(s);
}

static struct event *lane_event(struct world *w, uint32_t thread, uint8_t kind, uint64_t ts,
				const char *name, uint64_t id)
{
	struct event *ev = rec__event(w->b, thread, kind, ts, name);

	ev->id = id;
	return ev;
}

static void has_a_lane_for_what_runs_at_once(void **state)
{
	struct world *w = *state;
	const struct span *a, *b, *c;
	struct page p;

	rec__span(w->b, w->main, T0, 100000, "loop");
	lane_event(w, w->main, EV_REQUEST_BEGIN, T0 + 100, "infer", 7);
	lane_event(w, w->main, EV_REQUEST_BEGIN, T0 + 200, "infer", 8);
	lane_event(w, w->worker, EV_REQUEST_FIRST, T0 + 600, "infer", 7);
	lane_event(w, w->worker, EV_REQUEST_END, T0 + 1100, "infer", 7);
	lane_event(w, w->main, EV_REQUEST_BEGIN, T0 + 1200, "infer", 9);
	lane_event(w, w->worker, EV_REQUEST_END, T0 + 5200, "infer", 8);
	lane_event(w, w->main, EV_ASYNC_BEGIN, T0 + 10, "queued", 55);
	lane_event(w, w->main, EV_ASYNC_END, T0 + 510, "queued", 55);
	p = page_of(w->b, NULL);
	a = find(&p, "infer", 100);
	assert_int_equal(a->dur, 1000);
	assert_args(&p, a, "id=7 first output after=500 ns");
	b = find(&p, "infer", 200);
	assert_int_equal(b->dur, 5000);
	assert_int_not_equal(a->stream, b->stream);
	c = find(&p, "infer", 1200); /* never ended; its lane is free again */
	assert_int_equal(c->stream, a->stream);
	assert_true(c->flags & HF_UNFINISHED);
	assert_string_equal(text(&p, lane_of(&p, a->stream), "kind"), "request");
	a = find(&p, "queued", 10);
	assert_int_equal(a->dur, 500);
	assert_string_equal(text(&p, lane_of(&p, a->stream), "kind"), "async");
	assert_string_equal(text(&p, lane_of(&p, a->stream), "name"), "queued");
	page__free(&p);
}

static void draws_an_arrow_between_two_spans(void **state)
{
	struct world *w = *state;
	struct page p;

	rec__span(w->b, w->main, T0, 1000, "submit");
	lane_event(w, w->main, EV_FLOW_OUT, T0 + 400, "request", 3);
	rec__span(w->b, w->worker, T0 + 3000, 2000, "run");
	lane_event(w, w->worker, EV_FLOW_IN, T0 + 3100, "request", 3);
	p = page_of(w->b, NULL);
	assert_int_equal(p.n_arrows, 1);
	assert_int_equal(p.arrows[0].at, 3100);
	assert_int_equal(p.arrows[0].wait, 2700);
	assert_int_equal(p.arrows[0].from, find(&p, "submit", 0)->stream);
	assert_int_equal(p.arrows[0].to, find(&p, "run", 3000)->stream);
	assert_string_equal(op_name(&p, p.arrows[0].op), "request");
	page__free(&p);
}

static void tells_what_is_missing_and_who_recorded(void **state)
{
	struct count_info counts = { 110, 100, 10, 3 };
	struct world *w = *state;
	const cJSON *loss;
	struct page p;

	rec__span(w->b, w->main, T0, 1000, "step");
	rec__loss(w->b, LOSS_RING_FULL, 10, 0);
	rec__loss(w->b, LOSS_OVERWRITTEN, 0, 5);
	rec__counts(w->b, &counts);
	rec__warning(w->b, "late-attach", "began after the target");
	rec__capture(w->b, T0 + 100, T0 + 900, "window");
	rec__finish_file(w->b, false);
	p = page_of(w->b, &(struct clika_view_opts){ .sz = sizeof(struct clika_view_opts),
						     .outside_captures = true });
	loss = get(p.data, "loss");
	assert_int_equal(number(loss, "emitted"), 110);
	assert_int_equal(number(loss, "lost"), 10);
	assert_int_equal(number(loss, "records"), 10);
	assert_int_equal(number(loss, "atMost"), 5);
	assert_int_equal(cJSON_GetArraySize(get(loss, "causes")), LOSS_CAUSE_COUNT - 1);
	assert_true(cJSON_IsTrue(get(get(p.data, "recorder"), "incomplete")));
	assert_true(cJSON_GetArraySize(get(p.data, "warnings")) > 0);
	assert_string_equal(text(&p, cJSON_GetArrayItem(get(p.data, "captures"), 0), "tag"),
			    "window");
	page__free(&p);
}

static uint64_t op_sum(const struct page *p, const char *key)
{
	const cJSON *op;
	uint64_t sum = 0;

	cJSON_ArrayForEach(op, get(p->data, "ops")) sum += number(op, key);
	return sum;
}

static void sums_agree_with_the_flame_graph(void **state)
{
	struct world *w = *state;
	const cJSON *nodes, *v;
	uint64_t self = 0, calls = 0;
	struct page p;
	int i = 0;

	rec__span(w->b, w->main, T0, 5000, "step");
	rec__span(w->b, w->main, T0 + 100, 500, "load");
	rec__span(w->b, w->main, T0 + 1000, 2000, "step");
	rec__span(w->b, w->worker, T0 + 1000, 100, "load");
	p = page_of(w->b, NULL);
	nodes = get(get(p.data, "flame"), "nodes");
	cJSON_ArrayForEach(v, nodes)
	{
		calls += i % 5 == 3 ? (uint64_t)v->valuedouble : 0;
		self += i % 5 == 4 ? (uint64_t)v->valuedouble : 0;
		i++;
	}
	assert_int_equal(i % 5, 0);
	assert_int_equal(i / 5, cJSON_GetArraySize(get(get(p.data, "flame"), "times")));
	assert_int_equal(calls, 4);
	assert_int_equal(self, 5100);
	assert_int_equal(op_sum(&p, "self"), 5100);
	assert_int_equal(number(get(p.data, "time"), "self"), 5100);
	page__free(&p);
}

static void has_memory_and_counters_over_time(void **state)
{
	struct world *w = *state;
	const cJSON *m, *c;
	struct page p;
	struct event *ev;
	double v = 2.5;

	rec__span(w->b, w->main, T0, 1000000, "step");
	ev = lane_event(w, w->main, EV_ALLOC, T0 + 1000, NULL, 0x1000);
	ev->value = 4096;
	lane_event(w, w->main, EV_FREE, T0 + 500000, NULL, 0x1000);
	ev = rec__event(w->b, w->main, EV_COUNTER_F64, T0 + 100, "fill");
	memcpy(&ev->value, &v, sizeof(v));
	ev = rec__event(w->b, w->main, EV_COUNTER_I64, T0 + 200, "depth");
	ev->value = (uint64_t)-3;
	v = (double)NAN;
	ev = rec__event(w->b, w->main, EV_COUNTER_F64, T0 + 300, "fill");
	memcpy(&ev->value, &v, sizeof(v));
	p = page_of(w->b, NULL);
	m = cJSON_GetArrayItem(get(p.data, "memory"), 0);
	assert_int_equal(number(m, "peak"), 4096);
	assert_int_equal(number(m, "peakAt"), 1000);
	assert_int_equal(number(m, "current"), 0);
	assert_int_equal(cJSON_GetArraySize(get(m, "points")) % 7, 0);
	assert_int_equal(cJSON_GetArraySize(get(p.data, "counters")), 2);
	cJSON_ArrayForEach(c, get(p.data, "counters"))
	{
		assert_int_equal(cJSON_GetArraySize(get(c, "points")), 4);
		v = cJSON_GetArrayItem(get(c, "points"), 3)->valuedouble;
		assert_true(!strcmp(text(&p, c, "name"), "fill") ? v == 2.5 : v == -3);
	}
	page__free(&p);
}

static void nothing_recorded_is_a_page(void **state)
{
	struct world *w = *state;
	struct page p = page_of(w->b, NULL);

	assert_int_equal(p.n_spans, 0);
	assert_int_equal(cJSON_GetArraySize(get(p.data, "ops")), 0);
	page__free(&p);
}

/* --- hostile names ------------------------------------------------------------------------------------------ */

static const char *const hostile[] = {
	"</script><script>alert(1)</script>",
	"<img src=x onerror=alert(1)>",
	"<!--<script>",
	"]]>\"'`&lt;&amp;",
	"\xe2\x80\xa8line\xe2\x80\xa9para",
	"\xe2\x80\xae"
	"desrever",
	"\x1b[31m\x01\x7f\xc2\x85",
	"bad \xff\xc0\x80\xed\xa0\x80 utf8",
	"${alert(1)}\\u003c/script>",
	"javascript:alert(1)",
	"__proto__",
};

static size_t occurrences(const char *s, const char *what)
{
	size_t n = 0;

	for (; (s = strstr(s, what)); s++)
		n++;
	return n;
}

static void assert_only_our_elements(const struct page *p)
{
	const char *at;
	size_t len, i;

	assert_int_equal(occurrences(p->text, "<script"), occurrences(p->text, "</script>"));
	assert_null(strstr(p->text, "<img"));
	assert_null(strstr(p->text, "\xe2\x80\xa8"));
	assert_null(strstr(p->text, "\xe2\x80\xa9"));
	at = element(p, "<script type=\"application/json\" id=\"data\">", &len);
	for (i = 0; i < len; i++) {
		assert_true(at[i] != '<' && at[i] != '>' && at[i] != '&');
		assert_true((unsigned char)at[i] >= 0x20 && at[i] != 0x7f);
	}
}

/* A recording in which every text is @h. */
static struct rec *hostile_recording(const char *h)
{
	char *text = (char *)(uintptr_t)h;
	struct rec *b = rec__new();
	uint32_t server = rec__process(b, 100, h), t = rec__thread(b, server, 100, h);
	struct process_info *info = rec__process_info(b, server);
	struct recording_meta *meta = rec__meta(b);
	struct event *ev;
	unsigned int k;

	info->exe = info->cmdline = info->label = info->cgroup = info->container = text;
	meta->targets = meta->command = meta->host = meta->kernel = meta->arch = text;
	ev = rec__span(b, t, T0, 5000, h);
	ev->cat = rec__id(b, h);
	ev->src = rec__id(b, h);
	rec__arg_str(b, h, h, (uint16_t)strlen(h));
	for (k = EV_COUNTER_I64; k <= EV_RELEASE; k++) {
		ev = rec__event(b, t, (uint8_t)k, T0 + 100 * k, h);
		ev->id = 77;
		ev->value = 100;
		ev->pool = rec__id(b, h);
	}
	rec__event(b, t, EV_DEVICE_NAME, T0 + 4000, h);
	rec__capture(b, T0, T0 + 5000, h);
	rec__capture(b, T0 + 1000, T0 + 2000, h);
	rec__warning(b, h, h);
	rec__loss(b, LOSS_RING_FULL, 1, 0);
	rec__loss_info(b, 0)->probe = text;
	return b;
}

static void no_name_becomes_more_than_text(void **state)
{
	struct page p;
	struct rec *b;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(hostile); i++) {
		b = hostile_recording(hostile[i]);
		p = page_of(b, NULL);
		assert_only_our_elements(&p);
		assert_int_equal(find(&p, op_name(&p, 1), 0)->dur, 5000);
		page__free(&p);
		rec__free(b);
	}
}

static void shows_names_as_printable_text(void **state)
{
	struct world *w = *state;
	struct page p;

	rec__span(w->b, w->main, T0, 5000, "</script><b>");
	rec__span(w->b, w->main, T0 + 10000, 5000, "\x1b[31m");
	rec__span(w->b, w->main, T0 + 20000, 5000,
		  "\xe2\x80\xae"
		  "x");
	rec__span(w->b, w->main, T0 + 30000, 5000, "bad\xff");
	p = page_of(w->b, NULL);
	find(&p, "</script><b>", 0);
	find(&p, "\\x1b[31m", 10000);
	find(&p, "\\u202ex", 20000);
	find(&p, "bad\xef\xbf\xbd", 30000);
	page__free(&p);
}

static void cuts_very_long_names_and_bounds_all_of_them(void **state)
{
	struct world *w = *state;
	char name[4000], *at;
	struct page p;
	size_t i, cut = 0, refused = 0, full = 0;

	memset(name, '<', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	/* Each '<' takes six bytes in the page. */
	for (i = 0; i < 5000; i++) {
		at = name + snprintf(name, 16, "%zu", i);
		*at = '<';
		rec__span(w->b, w->main, T0 + i * 1000, 500, name);
		rec__arg_str(w->b, "text", name, 2000);
	}
	p = page_of(w->b, NULL); /* which asserts its size */
	assert_int_equal(p.n_spans, 5000);
	for (i = 0; i < 5000; i++) {
		const char *s = op_name(&p, p.spans[i].op);

		refused += !s;
		full += s && !strcmp(s, "(too many distinct names)");
		cut += s && strlen(s) == HTML_TEXT_BYTES + 3;
	}
	assert_int_equal(cut + refused + full, 5000);
	assert_true(cut > 300 && refused > 300);
	page__free(&p);
}

/* --- room ---------------------------------------------------------------------------------------------------- */

static void classes_of_durations_are_in_order(void **state)
{
	uint64_t v;

	(void)state;
	for (v = 0; v < 100000; v++) {
		assert_true(keep__class(v) <= keep__class(v + 1));
		assert_true(keep__shortest(keep__class(v)) <= v);
		assert_true(keep__shortest(keep__class(v) + 1) > v);
	}
	assert_true(keep__class(UINT64_MAX) < KEEP_CLASSES);
}

static void keeps_the_longest_and_shares_room_between_streams(void **state)
{
	uint64_t kept[2] = { 0 };
	uint32_t class[2][20000], i, s;
	struct keep k;

	(void)state;
	assert_int_equal(keep__init(&k, 2, 40000), 0);
	for (i = 0; i < 20000; i++) {
		/* One stream has ten times as many, and longer ones. */
		s = i % 11 ? 0 : 1;
		class[s][i] = keep__class((s ? 10 : 1000) + i * 7919u % 1000);
		assert_true(keep__admit(&k, s, class[s][i], 10) >= 0);
		assert_true(k.held <= 60010);
	}
	keep__recount(&k, 40000);
	for (i = 0; i < 20000; i++)
		kept[i % 11 ? 0 : 1] += keep__has(&k, i % 11 ? 0 : 1, class[i % 11 ? 0 : 1][i]);
	assert_int_equal(kept[1], 1819); /* all of the small one */
	assert_true((kept[0] + kept[1]) * 10 <= 40000);
	assert_true((kept[0] + kept[1]) * 10 > 20000);
	keep__free(&k);
}

static void refuses_for_good(void **state)
{
	struct keep k;
	uint32_t i, least = 0;

	(void)state;
	assert_int_equal(keep__init(&k, 3, 1000), 0);
	for (i = 0; i < 5000; i++) {
		uint32_t c = keep__class(i * 48271u % 100000);
		int in = keep__admit(&k, i % 3, c, 8);

		assert_true(k.streams[0].least >= least);
		least = k.streams[0].least;
		assert_int_equal(in, keep__has(&k, i % 3, c));
	}
	assert_true(least > 0);
	keep__free(&k);
}

struct crowd {
	struct html_spans h;
	uint64_t n, time;
};

static int to_spans(void *ctx, const struct item *it)
{
	struct crowd *c = ctx;

	if (it->kind == IT_SPAN_BEGIN) {
		c->n++;
		c->time += it->ev->dur;
	}
	return html_spans__item(&c->h, it);
}

/* Many spans and a page with little room. */
static void crowded(struct world *w, size_t room, struct page *p, struct crowd *c)
{
	struct outfile *out;
	struct session *s;
	struct buf b = { 0 };

	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	assert_int_equal(html_spans__init(&c->h, s, true), 0);
	assert_int_equal(session__walk(s, to_spans, c), 0);
	assert_int_equal(outfile__memory(&b, &out), 0);
	assert_int_equal(html_spans__put(&c->h, out, room), 0);
	assert_int_equal(outfile__commit(out, NULL), 0);
	assert_true(b.len <= room);
	unpack((const char *)b.data, b.len, &p->blob);
	read_blob(p);
	buf__free(&b);
	html_spans__free(&c->h);
	session__free(s);
}

static void merges_the_shortest_when_room_is_short(void **state)
{
	struct world *w = *state;
	struct crowd c = { 0 };
	struct page p = { 0 };
	uint64_t ts = T0, merged = 0, shortest = UINT64_MAX, longest = 0, time = 0, length;
	uint32_t x = 1;
	size_t i;

	for (i = 0; i < 20000; i++) {
		x = x * 1664525 + 1013904223;
		rec__span(w->b, w->main, ts, 10 + (x >> 8) % 100000, i % 3 ? "a" : "b");
		rec__span(w->b, w->main, ts + 1, (10 + (x >> 8) % 100000) / 2, "inner");
		ts += 110000;
	}
	length = ts - T0;
	crowded(w, 60000, &p, &c);
	assert_int_equal(c.n, 40000);
	for (i = 0; i < p.n_spans; i++) {
		shortest = p.spans[i].dur < shortest ? p.spans[i].dur : shortest;
		time += p.spans[i].dur;
	}
	for (i = 0; i < p.n_slots; i++) {
		merged += p.slots[i].count;
		longest = p.slots[i].longest > longest ? p.slots[i].longest : longest;
		/* Thousandths of a slot, cut off: half of one is lost on average. */
		time += (uint64_t)(((double)p.slots[i].cover + 0.5) * (double)length / 1000 /
				   (double)p.slots[i].slots);
	}
	assert_int_equal(p.n_spans + merged, 40000);
	assert_true(p.n_spans > 2000 && merged > 2000);
	assert_int_equal(p.unplaced, 0);
	assert_true(longest < shortest);
	assert_true(time > c.time / 100 * 99 && time < c.time / 100 * 101);
	page__free(&p);
}

static void counts_all_even_when_there_is_no_room_at_all(void **state)
{
	struct world *w = *state;
	struct crowd c = { 0 };
	struct page p = { 0 };
	size_t i;

	for (i = 0; i < 20000; i++)
		rec__span(w->b, w->main, T0 + i * 1000, i * 7919 % 900, "a");
	crowded(w, 400, &p, &c);
	assert_int_equal(p.n_slots, 0);
	assert_int_equal(p.n_spans + p.unplaced, 20000);
	page__free(&p);
}

static void counts_what_is_nested_too_deep(void **state)
{
	struct world *w = *state;
	struct page p;
	uint64_t i;

	for (i = 0; i < HTML_MAX_DEPTH + 30; i++)
		rec__span(w->b, w->main, T0 + i, 100000 - 2 * i, "f");
	p = page_of(w->b, NULL);
	assert_int_equal(p.n_spans, HTML_MAX_DEPTH);
	assert_int_equal(number(get(p.data, "drawn"), "tooDeep"), 30);
	page__free(&p);
}

static void counts_lanes_beyond_the_limit(void **state)
{
	struct world *w = *state;
	struct page p;
	uint64_t i;

	for (i = 0; i < HTML_MAX_LANES + 20; i++)
		lane_event(w, w->main, EV_ASYNC_BEGIN, T0 + i, "wait", i + 1);
	for (i = 0; i < HTML_MAX_LANES + 20; i++)
		lane_event(w, w->main, EV_ASYNC_END, T0 + 100000 + i, "wait", i + 1);
	p = page_of(w->b, NULL);
	assert_int_equal(p.n_spans, HTML_MAX_LANES);
	assert_int_equal(number(get(p.data, "drawn"), "lostLanes"), 20);
	page__free(&p);
}

/* --- recordings for the tests in a browser --------------------------------------------------------------- */

static void write_file(struct rec *b, const char *path)
{
	if (rec__write(b, path) != -1)
		fail_msg("%s", path);
	rec__free(b);
}

/* @n spans on four threads, three deep, with a few of everything else. */
static struct rec *crowd_of(unsigned long n)
{
	static const char *const names[] = { "conv2d", "gemm", "softmax", "copy", "norm" };
	struct rec *b = rec__new();
	uint32_t server = rec__process(b, 4711, "bigserver"), t[4], x = 7, i, k;
	uint64_t ts[4], at, dur;
	char name[32];

	for (i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "worker %u", i);
		t[i] = rec__thread(b, server, 4711 + i, name);
		ts[i] = T0 + i * 777;
	}
	while (n) {
		i = n / 6 % 4;
		dur = 0;
		for (k = 0; k < 5 && n > 1; k++, n--) {
			x = x * 1664525 + 1013904223;
			at = ts[i] + 100 + dur;
			dur += 200 + (x >> 8) % 20000;
			rec__span(b, t[i], at, ts[i] + dur - at, names[x >> 28 & 3]);
		}
		rec__span(b, t[i], ts[i], dur + 300, "batch");
		rec__arg_u64(b, "size", x >> 20);
		n--;
		ts[i] += dur + 2000;
	}
	return b;
}

/* Recipes that were applied, and one thing to be warned of. */
static struct rec *noted_recording(void)
{
	struct rec *b = rec__new();
	uint32_t main = rec__thread(b, rec__process(b, 4711, "server"), 4711, "main");

	rec__span(b, main, T0, 1000, "step");
	rec__warning(b, "recipe", "recipe pytorch: 3879 functions of libtorch_cpu.so");
	rec__warning(b, "recipe", "recipe pytorch: 3 functions of libc10.so");
	rec__warning(b, "late-attach", "the process ran already");
	return b;
}

static int write_recording(const char *what, const char *path)
{
	if (!strncmp(what, "--hostile=", 10))
		write_file(hostile_recording(
				   hostile[strtoul(what + 10, NULL, 10) % ARRAY_SIZE(hostile)]),
			   path);
	else if (!strncmp(what, "--crowd=", 8))
		write_file(crowd_of(strtoul(what + 8, NULL, 10)), path);
	else if (!strcmp(what, "--notes"))
		write_file(noted_recording(), path);
	else
		return 2;
	return 0;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(has_every_span_with_its_times_and_arguments),
		TEST(leaves_arguments_out_when_they_are_not_wanted),
		TEST(has_a_lane_for_what_runs_at_once),
		TEST(draws_an_arrow_between_two_spans),
		TEST(tells_what_is_missing_and_who_recorded),
		TEST(sums_agree_with_the_flame_graph),
		TEST(has_memory_and_counters_over_time),
		TEST(nothing_recorded_is_a_page),
		TEST(no_name_becomes_more_than_text),
		TEST(shows_names_as_printable_text),
		TEST(cuts_very_long_names_and_bounds_all_of_them),
		cmocka_unit_test(classes_of_durations_are_in_order),
		cmocka_unit_test(keeps_the_longest_and_shares_room_between_streams),
		cmocka_unit_test(refuses_for_good),
		TEST(merges_the_shortest_when_room_is_short),
		TEST(counts_all_even_when_there_is_no_room_at_all),
		TEST(counts_what_is_nested_too_deep),
		TEST(counts_lanes_beyond_the_limit),
	};

	if (argc == 3)
		return write_recording(argv[1], argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
