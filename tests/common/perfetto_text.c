// SPDX-License-Identifier: Apache-2.0
#include "tests/common/perfetto_text.h"
#include "tests/common/perfetto_lines.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- lines shared by both sides ------------------------------------------------------------------- */

void line__text(struct buf *b, const void *text, size_t len)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/";
	const unsigned char *s = text;
	size_t i;

	if (!len)
		buf__printf(b, "-");
	for (i = 0; i < len; i++) {
		if (s[i] && strchr(plain, s[i]))
			buf__u8(b, s[i]);
		else
			buf__printf(b, "%%%02X", s[i]);
	}
}

void line__valid(struct buf *b, const char *s, size_t len)
{
	struct buf valid = { 0 };

	utf8__append_valid(&valid, s, len);
	line__text(b, valid.data, valid.len);
	buf__free(&valid);
}

/* Importers know no dots in keys. */
void line__key(struct buf *b, const char *key, size_t len)
{
	size_t from = b->len, i;

	line__valid(b, key, len);
	for (i = from; i < b->len; i++)
		if (b->data[i] == '.')
			b->data[i] = '_';
}

void line__f64(struct buf *b, double f)
{
	uint64_t bits;

	memcpy(&bits, &f, sizeof(bits));
	if (isfinite(f))
		buf__printf(b, "f%016llx", (unsigned long long)bits);
	else
		buf__printf(b, "f?");
}

void line__number(struct buf *b, uint64_t n)
{
	if (n && n < 10000000)
		buf__printf(b, "%llu", (unsigned long long)n);
	else
		buf__printf(b, "?");
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void parts__add(struct parts *p, struct buf *b)
{
	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 64;
		p->at = realloc(p->at, p->cap * sizeof(*p->at));
		assert_non_null(p->at);
	}
	buf__u8(b, 0);
	assert_int_equal(buf__error(b), 0);
	p->at[p->n++] = (char *)b->data;
	*b = (struct buf){ 0 };
}

void parts__add_arg(struct parts *p, struct buf *b)
{
	const char *value = memchr(b->data, '=', b->len);
	size_t key = (size_t)(value - (const char *)b->data) + 1, i;

	for (i = 0; i < p->n; i++) {
		if (!strncmp(p->at[i], (const char *)b->data, key)) {
			free(p->at[i]);
			p->at[i] = p->at[--p->n];
			break;
		}
	}
	parts__add(p, b);
}

char *parts__join(struct parts *p, const char *between)
{
	struct buf b = { 0 };
	size_t i;

	if (p->n)
		qsort(p->at, p->n, sizeof(*p->at), by_text);
	for (i = 0; i < p->n; i++) {
		buf__printf(&b, "%s%s", i ? between : "", p->at[i]);
		free(p->at[i]);
	}
	buf__u8(&b, 0);
	assert_int_equal(buf__error(&b), 0);
	free(p->at);
	*p = (struct parts){ 0 };
	return (char *)b.data;
}

/* --- what a walk says --------------------------------------------------------------------------------- */

struct end { /* of an arrow */
	char *text;
	uint64_t ts; /* of its span */
};

struct lane {
	struct buf head, name, args;
	struct parts more;
	uint64_t begin;
	bool open;
};

struct expect {
	struct session *s;
	struct parts lines;
	struct map64 *tails; /* (flow, time) -> index */
	struct end *ends;
	size_t n_ends;
	struct map64 *lanes; /* lane key -> index */
	struct lane *lane;
	size_t n_lanes;
	struct map64 *last; /* counter -> index of its last sample */
	struct {
		struct buf head, value;
		uint64_t ts;
	} * samples;
	size_t n_samples;
	uint64_t last_ts;
};

static void put_string(struct expect *e, struct buf *b, uint32_t id)
{
	line__valid(b, session__str(e->s, id), strpool__len(session__names(e->s), id));
}

static void put_process(struct buf *b, const struct track *t)
{
	line__number(b, t->pid);
	buf__printf(b, "@%llu", (unsigned long long)t->proc->start);
}

static void put_who(struct buf *b, const struct track *t)
{
	put_process(b, t);
	buf__u8(b, '/');
	line__number(b, t->tid);
}

static void add_arg(struct expect *e, struct parts *p, const struct event_arg *a)
{
	struct buf b = { 0 };

	line__key(&b, session__str(e->s, a->key), strpool__len(session__names(e->s), a->key));
	buf__u8(&b, '=');
	switch (a->type) {
	case ARG_I64:
	case ARG_U64:
		buf__printf(&b, "i%lld", (long long)a->i);
		break;
	case ARG_F64:
		line__f64(&b, a->f);
		break;
	default:
		buf__u8(&b, 's');
		line__valid(&b, a->str, a->len);
	}
	parts__add_arg(p, &b);
}

static void add_args(struct expect *e, struct parts *p, const struct event *ev)
{
	size_t i, k;

	for (i = 0; i < ev->nargs; i++) {
		for (k = i + 1; k < ev->nargs && ev->args[k].key != ev->args[i].key; k++)
			;
		if (k == ev->nargs)
			add_arg(e, p, &ev->args[i]);
	}
}

static void add_flag(struct parts *p, const char *name, bool set)
{
	struct buf b = { 0 };

	if (!set)
		return;
	buf__printf(&b, "clika_%s=btrue", name);
	parts__add(p, &b);
}

static void add_number(struct parts *p, const char *name, uint64_t v)
{
	struct buf b = { 0 };

	buf__printf(&b, "clika_%s=i%lld", name, (long long)v);
	parts__add(p, &b);
}

static void put_source(struct expect *e, struct buf *b, uint32_t src)
{
	if (!src)
		return;
	buf__printf(b, " @");
	put_string(e, b, src);
}

static void put_args(struct buf *b, struct parts *p)
{
	char *text = parts__join(p, " ");

	buf__printf(b, " {%s}", text);
	free(text);
}

static void expect_slice(struct expect *e, const struct item *it, uint64_t dur, unsigned int depth,
			 uint32_t cat, const char *cat_else, const char *prefix)
{
	struct buf b = { 0 };
	struct parts p = { 0 };
	uint16_t f = it->ev->flags;

	buf__printf(&b, "slice ");
	put_who(&b, it->track);
	buf__printf(&b, " %llu +%llu d%u ", (unsigned long long)it->ts, (unsigned long long)dur,
		    depth);
	if (cat)
		put_string(e, &b, cat);
	else
		line__text(&b, cat_else, strlen(cat_else));
	buf__u8(&b, ' ');
	if (*prefix)
		line__text(&b, prefix, strlen(prefix));
	if (!*prefix || strpool__len(session__names(e->s), it->ev->name))
		put_string(e, &b, it->ev->name);
	put_source(e, &b, it->ev->src);
	add_args(e, &p, it->ev);
	if (it->kind == IT_SPAN_BEGIN) {
		add_flag(&p, "unfinished", f & EVS_UNFINISHED);
		add_flag(&p, "no_begin", f & EVS_NO_BEGIN);
		add_flag(&p, "clipped", f & EVS_CLIPPED);
		add_flag(&p, "redacted", f & EVS_REDACTED);
		add_flag(&p, "late", it->span->late);
		add_flag(&p, "cut", it->span->cut);
	}
	put_args(&b, &p);
	parts__add(&e->lines, &b);
}

static unsigned int depth_in(const struct item *it)
{
	return it->span ? it->span->depth + 1 : 0;
}

static void expect_span(struct expect *e, const struct item *it)
{
	uint16_t f = it->ev->flags;

	if (it->span->depth < 512)
		expect_slice(e, it, it->ev->dur, it->span->depth, it->ev->cat,
			     f & EVS_FUNCTION ? "function"
			     : f & EVS_USDT   ? "usdt"
					      : "",
			     "");
}

static void expect_instant(struct expect *e, const struct item *it, const char *prefix)
{
	if (depth_in(it) < 512)
		expect_slice(e, it, 0, depth_in(it), it->ev->cat, "instant", prefix);
}

static void sample(struct expect *e, const struct item *it, uint64_t key, struct buf *head,
		   struct buf *value)
{
	uint64_t *at = map64__get(e->last, key);
	struct buf b = { 0 };
	size_t i;

	if (!at) {
		e->samples = realloc(e->samples, (e->n_samples + 1) * sizeof(*e->samples));
		assert_non_null(e->samples);
		memset(&e->samples[e->n_samples], 0, sizeof(*e->samples));
		at = map64__put(e->last, key, e->n_samples++);
	}
	i = *at;
	buf__free(&e->samples[i].head);
	buf__free(&e->samples[i].value);
	e->samples[i].head = *head;
	e->samples[i].value = *value;
	e->samples[i].ts = it->ts;
	buf__append(&b, head->data, head->len);
	buf__printf(&b, " %llu ", (unsigned long long)it->ts);
	buf__append(&b, value->data, value->len);
	parts__add(&e->lines, &b);
}

static void closing_samples(struct expect *e)
{
	uint64_t end = session__end(e->s) > e->last_ts ? session__end(e->s) : e->last_ts;
	size_t i;

	for (i = 0; i < e->n_samples; i++) {
		struct buf b = { 0 };

		if (e->samples[i].ts < end) {
			buf__append(&b, e->samples[i].head.data, e->samples[i].head.len);
			buf__printf(&b, " %llu ", (unsigned long long)end);
			buf__append(&b, e->samples[i].value.data, e->samples[i].value.len);
			parts__add(&e->lines, &b);
		}
		buf__free(&e->samples[i].head);
		buf__free(&e->samples[i].value);
	}
	free(e->samples);
}

static void expect_counter(struct expect *e, const struct item *it)
{
	struct buf head = { 0 }, value = { 0 };
	double f;

	memcpy(&f, &it->ev->value, sizeof(f));
	if (it->ev->kind == EV_COUNTER_F64 && !isfinite(f))
		return;
	buf__printf(&head, "counter ");
	put_process(&head, it->track);
	buf__u8(&head, ' ');
	put_string(e, &head, it->ev->name);
	if (it->ev->kind == EV_COUNTER_F64)
		line__f64(&value, f);
	else
		buf__printf(&value, "i%lld", (long long)it->ev->value);
	sample(e, it, hash__mix((uint64_t)it->track->process << 3, it->ev->name), &head, &value);
}

static void expect_balance(struct expect *e, const struct item *it)
{
	bool reserved = it->ev->kind == EV_RESERVE || it->ev->kind == EV_RELEASE;
	struct buf head = { 0 }, value = { 0 };

	buf__printf(&head, "counter ");
	put_process(&head, it->track);
	buf__printf(&head, " memory%%20%s%%20%%28device%%20%u%%29",
		    reserved ? "reserved" : "in%20use", it->ev->aux);
	buf__printf(&value, "i%lld", (long long)(reserved ? it->reserved : it->current));
	sample(e, it, hash__mix((uint64_t)it->track->process << 3 | 1 | reserved << 1, it->ev->aux),
	       &head, &value);
}

static struct lane *lane_of(struct expect *e, const struct item *it)
{
	uint64_t *at = map64__get(e->lanes, it->lane_key);

	if (!at) {
		e->lane = realloc(e->lane, (e->n_lanes + 1) * sizeof(*e->lane));
		assert_non_null(e->lane);
		memset(&e->lane[e->n_lanes], 0, sizeof(*e->lane));
		at = map64__put(e->lanes, it->lane_key, e->n_lanes++);
	}
	return &e->lane[*at];
}

static void lane_begin(struct expect *e, const struct item *it, uint32_t name, const char *cat)
{
	struct lane *l = lane_of(e, it);

	assert_false(l->open);
	l->open = true;
	l->begin = it->ts;
	buf__printf(&l->head, "slice ");
	put_process(&l->head, it->track);
	buf__u8(&l->head, ':');
	put_string(e, &l->head, name);
	buf__printf(&l->head, " %llu", (unsigned long long)it->ts);
	if (it->ev->cat)
		put_string(e, &l->name, it->ev->cat);
	else
		buf__printf(&l->name, "%s", cat);
	buf__u8(&l->name, ' ');
	put_string(e, &l->name, name);
	put_source(e, &l->name, it->ev->src);
	add_number(&l->more, "id", it->ev->id);
	add_args(e, &l->more, it->ev);
}

static void lane_end(struct expect *e, const struct item *it, bool unfinished)
{
	struct lane *l = lane_of(e, it);
	struct buf b = { 0 };

	assert_true(l->open);
	l->open = false;
	if (!unfinished)
		add_args(e, &l->more, it->ev);
	add_flag(&l->more, "unfinished", unfinished);
	buf__append(&b, l->head.data, l->head.len);
	buf__printf(&b, " +%llu d0 ", (unsigned long long)(it->ts - l->begin));
	buf__append(&b, l->name.data, l->name.len);
	put_args(&b, &l->more);
	parts__add(&e->lines, &b);
	buf__reset(&l->head);
	buf__reset(&l->name);
}

static void expect_request(struct expect *e, const struct item *it)
{
	struct buf b = { 0 };
	struct parts p = { 0 };
	struct lane *l;

	if (!it->lane_key) {
		expect_instant(e, it, it->ev->kind == EV_REQUEST_END ? "end of " : "output of ");
		return;
	}
	if (it->ev->kind == EV_REQUEST_BEGIN) {
		lane_begin(e, it, it->request_name, "request");
		return;
	}
	l = lane_of(e, it);
	if (it->ev->kind == EV_REQUEST_END) {
		add_number(&l->more, "units", it->units);
		if (it->first_ns != UINT64_MAX)
			add_number(&l->more, "first_output_ns", it->first_ns);
		lane_end(e, it, it->request_unfinished);
		return;
	}
	buf__printf(&b, "slice ");
	put_process(&b, it->track);
	buf__u8(&b, ':');
	put_string(e, &b, it->request_name);
	buf__printf(&b, " %llu +0 d1 request %s", (unsigned long long)it->ts,
		    it->ev->kind == EV_REQUEST_FIRST ? "first%20output" : "output");
	add_number(&p, "units", it->units);
	add_args(e, &p, it->ev);
	put_args(&b, &p);
	parts__add(&e->lines, &b);
}

static struct end flow_end(struct expect *e, const struct item *it)
{
	const struct open_span *span = it->span;
	struct buf b = { 0 };

	while (span->depth >= 512)
		span = span->parent;
	put_who(&b, it->track);
	buf__printf(&b, "@%llu ", (unsigned long long)span->ev.ts);
	put_string(e, &b, span->ev.name);
	buf__u8(&b, 0);
	return (struct end){ (char *)b.data, span->ev.ts };
}

/* Between spans of one moment an arrow has no direction that readers would keep. */
void line__flow(struct parts *lines, const char *from, uint64_t from_ts, const char *to,
		uint64_t to_ts)
{
	struct buf b = { 0 };

	if (from_ts == to_ts && strcmp(from, to) > 0)
		buf__printf(&b, "flow %s -> %s", to, from);
	else
		buf__printf(&b, "flow %s -> %s", from, to);
	parts__add(lines, &b);
}

static void expect_flow(struct expect *e, const struct item *it)
{
	uint64_t *tail;
	struct end head;

	if (!it->span)
		return;
	head = flow_end(e, it);
	if (it->flow_arrow) {
		tail = map64__get(e->tails, hash__mix(it->flow_key, it->flow_from_ts));
		assert_non_null(tail);
		line__flow(&e->lines, e->ends[*tail].text, e->ends[*tail].ts, head.text, head.ts);
	}
	e->ends = realloc(e->ends, (e->n_ends + 1) * sizeof(*e->ends));
	assert_non_null(e->ends);
	e->ends[e->n_ends] = head;
	map64__put(e->tails, hash__mix(it->flow_key, it->ts), e->n_ends++);
}

static int expect__item(void *ctx, const struct item *it)
{
	struct expect *e = ctx;

	e->last_ts = it->ts;
	switch (it->kind) {
	case IT_SPAN_BEGIN:
		expect_span(e, it);
		break;
	case IT_SPAN_END:
		break;
	case IT_EVENT:
		if (it->ev->kind == EV_INSTANT)
			expect_instant(e, it, "");
		else if (it->ev->kind == EV_CAPTURE_BEGIN)
			expect_instant(e, it, "capture begin: ");
		else if (it->ev->kind == EV_CAPTURE_END)
			expect_instant(e, it, "capture end: ");
		else if (it->ev->kind == EV_COUNTER_I64 || it->ev->kind == EV_COUNTER_F64)
			expect_counter(e, it);
		break;
	case IT_ASYNC_BEGIN:
		lane_begin(e, it, it->ev->name, "async");
		break;
	case IT_ASYNC_END:
		lane_end(e, it, it->async_flags & EVS_UNFINISHED);
		break;
	case IT_FLOW:
		expect_flow(e, it);
		break;
	case IT_MEMORY:
		expect_balance(e, it);
		break;
	case IT_REQUEST:
		expect_request(e, it);
		break;
	}
	return 0;
}

static void expect_captures(struct expect *e)
{
	const struct session_capture *c;
	size_t i;

	for (i = 0; i < session__n_captures(e->s); i++) {
		struct buf b = { 0 };

		c = session__capture(e->s, i);
		if (c->info->process == UINT32_MAX)
			continue;
		buf__printf(&b, "slice captures %llu +%llu d0 capture ",
			    (unsigned long long)c->begin, (unsigned long long)(c->end - c->begin));
		line__valid(&b, c->tag, strlen(c->tag));
		buf__printf(&b, " {%s}", c->open ? "clika_unfinished=btrue" : "");
		parts__add(&e->lines, &b);
	}
}

char *perfetto__expected(struct session *s)
{
	struct expect e = { .s = s };
	size_t i;

	e.tails = map64__new();
	e.lanes = map64__new();
	e.last = map64__new();
	assert_true(e.tails && e.lanes && e.last);
	assert_int_equal(session__walk(s, expect__item, &e), 0);
	closing_samples(&e);
	expect_captures(&e);
	for (i = 0; i < e.n_lanes; i++) {
		assert_false(e.lane[i].open);
		buf__free(&e.lane[i].head);
		buf__free(&e.lane[i].name);
	}
	for (i = 0; i < e.n_ends; i++)
		free(e.ends[i].text);
	free(e.lane);
	free(e.ends);
	map64__free(e.tails);
	map64__free(e.lanes);
	map64__free(e.last);
	return parts__join(&e.lines, "\n");
}
