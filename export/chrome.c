// SPDX-License-Identifier: Apache-2.0
/*
 * Chrome trace events, object form. Every span is one complete event written where it begins, so
 * nothing is held back; times are relative to the begin of the recording, since readers keep them
 * as doubles.
 */
#include "export/digits.h"
#include "export/exporter.h"
#include "export/json_emit.h"
#include "export/trace_ids.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/chrome_meta.h"

struct escaped { /* of a name: its JSON form, made when first used */
	char *text;
	uint32_t len;
	bool unusual; /* as a key: has our prefix, or may look like another one */
};

#define OWN_PREFIX "\"clika."

/*
 * What spans of one kind have in common, ready to be copied; the last kinds seen are kept. Copies
 * are made in whole chunks, which is why the text is followed by room to read.
 */
#define COPY_CHUNK 32u
#define FRAME_TEXT 320u
#define N_FRAMES 512u
struct span_frame {
	uint32_t name, cat, src;
	uint16_t flags; /* FRAME_FLAGS of its spans */
	uint16_t head;  /* bytes up to the time; 0: not in use */
	uint16_t tail;  /* from there on: what stands in "args" beside the arguments */
	char text[FRAME_TEXT + COPY_CHUNK];
};
#define FRAME_FLAGS (EVS_FUNCTION | EVS_USDT)

struct who { /* pid, tid, and up to the arguments */
	char text[64];
	uint32_t whole; /* bytes */
	uint32_t ids;   /* bytes of these that are pid and tid alone */
};

struct last_sample { /* of a counter; written again at the end, or viewers do not draw it */
	const struct track *track;
	struct event ev;
};

struct balance_track { /* memory of (process, device) */
	const struct track *track;
	int64_t current, reserved;
	bool used_current, used_reserved;
	/* Of both counters: their events up to the time. */
	char heads[2][96];
	uint32_t head_len[2];
};

struct chrome {
	struct session *s;
	struct json j;
	struct trace_ids ids;
	struct escaped *names;
	size_t n_names;
	struct who *who; /* by track */
	struct span_frame *frames;
	uint64_t base;
	uint64_t end; /* of the trace: not before anything written */
	uint64_t n_arrows;
	uint64_t not_finite;    /* counter samples that no JSON number can say */
	struct map64 *counters; /* process << 32 | name -> index */
	struct last_sample *samples;
	size_t n_samples, cap_samples;
	struct map64 *memory; /* process << 32 | device -> index */
	struct balance_track *balances;
	size_t n_balances, cap_balances;
	bool args;
};

/* --- parts of an event ----------------------------------------------------------------------- */

/* NULL: out of memory. */
static const struct escaped *escaped_name(struct chrome *c, uint32_t id)
{
	struct escaped *e;
	struct buf b = { 0 };
	size_t i;

	if (id >= c->n_names)
		id = 0;
	e = &c->names[id];
	if (e->text)
		return e;
	json__escape(&b, session__str(c->s, id), strpool__len(session__names(c->s), id));
	if (buf__error(&b)) {
		c->j.err = c->j.err ? c->j.err : -ENOMEM;
		buf__free(&b);
		return NULL;
	}
	e->text = (char *)b.data;
	e->len = (uint32_t)b.len;
	e->unusual = !strncmp(e->text, OWN_PREFIX, strlen(OWN_PREFIX));
	/* Two that differ never look alike in ASCII. */
	for (i = 0; i < b.len; i++)
		e->unusual |= b.data[i] >= 0x80;
	return e;
}

static void put_name(struct chrome *c, uint32_t id)
{
	const struct escaped *e = escaped_name(c, id);

	if (e)
		json__raw(&c->j, e->text, e->len);
	else
		json__null(&c->j);
}

static void put_cat(struct chrome *c, const struct event *ev, const char *otherwise)
{
	json__key(&c->j, "cat");
	if (ev->cat)
		put_name(c, ev->cat);
	else
		json__str(&c->j, otherwise, strlen(otherwise));
}

static void put_ts(struct chrome *c, uint64_t ts)
{
	json__key(&c->j, "ts");
	json__us(&c->j, ts - c->base);
}

static void put_who(struct chrome *c, const struct track *t)
{
	const struct who *who = &c->who[t->index];
	static const char key[] = ",\"pid\":";

	json__key(&c->j, "pid");
	json__raw(&c->j, who->text + strlen(key), who->ids - strlen(key));
}

static void event_open(struct chrome *c, const char *ph)
{
	json__line(&c->j);
	json__object(&c->j);
	json__key(&c->j, "ph");
	json__raw(&c->j, ph, 3);
}

static void put_value(struct chrome *c, const struct event_arg *a)
{
	switch (a->type) {
	case ARG_I64:
		json__i64(&c->j, a->i);
		break;
	case ARG_U64:
		json__u64(&c->j, a->u);
		break;
	case ARG_F64:
		json__f64(&c->j, a->f);
		break;
	case ARG_STR:
		json__str(&c->j, a->str, a->len);
		break;
	default:
		json__null(&c->j);
	}
}

/* A key that comes again, at the end of a span: the newer value stands. */
static bool comes_again(const struct event *ev, size_t arg)
{
	size_t i;

	for (i = arg + 1; i < ev->nargs; i++)
		if (ev->args[i].key == ev->args[arg].key)
			return true;
	return false;
}

/*
 * The key of one argument. Keys that differ in bytes that are no UTF-8 look alike once repaired,
 * and keys of ours have a prefix that a target might use, too; no object may have a key twice.
 */
static void put_arg_key(struct chrome *c, const struct event *ev, size_t arg)
{
	const struct escaped *e = escaped_name(c, ev->args[arg].key), *other;
	unsigned int same = 0;
	struct buf b = { 0 };
	bool own;
	size_t i;

	if (!e)
		return;
	if (!e->unusual) {
		json__raw_key(&c->j, e->text, e->len);
		return;
	}
	for (i = 0; i < arg; i++) {
		if (comes_again(ev, i))
			continue;
		other = escaped_name(c, ev->args[i].key);
		same += other && other->len == e->len && !memcmp(other->text, e->text, e->len);
	}
	own = !strncmp(e->text, OWN_PREFIX, strlen(OWN_PREFIX));
	if (!same && !own) {
		json__raw_key(&c->j, e->text, e->len);
		return;
	}
	buf__printf(&b, "\"%s%.*s", own ? "arg." : "", (int)e->len - 2, e->text + 1);
	if (same)
		buf__printf(&b, " #%u", same + 1);
	buf__printf(&b, "\"");
	json__raw_key(&c->j, (const char *)b.data, b.len);
	buf__free(&b);
}

static void put_args(struct chrome *c, const struct event *ev)
{
	size_t i;

	for (i = 0; c->args && i < ev->nargs; i++) {
		if (comes_again(ev, i))
			continue;
		put_arg_key(c, ev, i);
		put_value(c, &ev->args[i]);
	}
}

static void put_flag(struct chrome *c, const char *key, bool set)
{
	if (!set)
		return;
	json__key(&c->j, key);
	json__bool(&c->j, true);
}

static void put_source(struct chrome *c, const struct event *ev)
{
	if (!ev->src || !c->args)
		return;
	json__key(&c->j, "clika.source");
	put_name(c, ev->src);
}

static void put_span_flags(struct chrome *c, const struct item *it)
{
	uint16_t flags = it->ev->flags;

	put_flag(c, "clika.unfinished", flags & EVS_UNFINISHED);
	put_flag(c, "clika.no_begin", flags & EVS_NO_BEGIN);
	put_flag(c, "clika.clipped", flags & EVS_CLIPPED);
	put_flag(c, "clika.redacted", flags & EVS_REDACTED);
	put_flag(c, "clika.late", it->span->late);
	put_flag(c, "clika.cut", it->span->cut);
}

/* --- items ----------------------------------------------------------------------------------- */

static const char *span_cat(uint16_t flags)
{
	return flags & EVS_FUNCTION ? "function" : flags & EVS_USDT ? "usdt" : "span";
}

/* A span like no other: its text is too long to be kept. */
static int chrome__long_span(struct chrome *c, const struct item *it)
{
	const struct event *ev = it->ev;
	uint16_t flags = ev->flags;

	event_open(c, "\"X\"");
	json__key(&c->j, "name");
	put_name(c, ev->name);
	put_cat(c, ev, span_cat(flags));
	put_ts(c, ev->ts);
	json__key(&c->j, "dur");
	json__us(&c->j, ev->dur);
	put_who(c, it->track);
	json__key(&c->j, "args");
	json__object(&c->j);
	put_args(c, ev);
	put_source(c, ev);
	put_span_flags(c, it);
	json__end_object(&c->j);
	json__end_object(&c->j);
	return c->j.err;
}

static bool frame__is_for(const struct span_frame *f, const struct event *ev)
{
	return f->head && f->name == ev->name && f->src == ev->src && f->cat == ev->cat &&
	       f->flags == (ev->flags & FRAME_FLAGS);
}

/* False: it does not fit, or there is no memory. */
static bool frame__make(struct chrome *c, struct span_frame *f, const struct event *ev)
{
	const struct escaped *name = escaped_name(c, ev->name), *cat, *src;
	int n;

	f->head = 0;
	cat = ev->cat ? escaped_name(c, ev->cat) : NULL;
	src = ev->src && c->args ? escaped_name(c, ev->src) : NULL;
	if (!name || (ev->cat && !cat) || (ev->src && c->args && !src))
		return false;
	if ((size_t)name->len + (cat ? cat->len : 0) + (src ? src->len : 0) > FRAME_TEXT - 80)
		return false;
	n = snprintf(f->text, FRAME_TEXT, "\n{\"ph\":\"X\",\"name\":%.*s,\"cat\":", (int)name->len,
		     name->text);
	n += cat ? snprintf(f->text + n, FRAME_TEXT - (size_t)n, "%.*s", (int)cat->len, cat->text)
		 : snprintf(f->text + n, FRAME_TEXT - (size_t)n, "\"%s\"", span_cat(ev->flags));
	n += snprintf(f->text + n, FRAME_TEXT - (size_t)n, ",\"ts\":");
	f->head = (uint16_t)n;
	if (src)
		n += snprintf(f->text + n, FRAME_TEXT - (size_t)n, "\"clika.source\":%.*s",
			      (int)src->len, src->text);
	f->tail = (uint16_t)((unsigned int)n - f->head);
	f->name = ev->name;
	f->cat = ev->cat;
	f->src = ev->src;
	f->flags = ev->flags & FRAME_FLAGS;
	return true;
}

static const struct span_frame *frame_of(struct chrome *c, const struct event *ev)
{
	uint32_t hash = (ev->name * 31 + ev->src) * 31 + ev->cat;
	struct span_frame *f = &c->frames[hash % N_FRAMES];

	return frame__is_for(f, ev) || frame__make(c, f, ev) ? f : NULL;
}

/* Reads and writes whole chunks: both ends have room for one more. */
static char *copy_chunks(char *to, const char *from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i += COPY_CHUNK)
		memcpy(to + i, from + i, COPY_CHUNK);
	return to + n;
}

static int chrome__span(struct chrome *c, const struct item *it)
{
	const struct event *ev = it->ev;
	const struct span_frame *f = frame_of(c, ev);
	const struct who *who = &c->who[it->track->index];
	bool more = (c->args && ev->nargs) || (ev->flags & ~FRAME_FLAGS) || it->span->late ||
		    it->span->cut;
	char *p;

	if (!f)
		return c->j.err ? c->j.err : chrome__long_span(c, it);
	p = json__room(&c->j, FRAME_TEXT + sizeof(who->text) + 4 * COPY_CHUNK + 2 * DIGITS_US + 16);
	if (!p)
		return c->j.err;
	if (c->j.comma)
		*p++ = ',';
	p = copy_chunks(p, f->text, f->head);
	p = digits__us(p, ev->ts - c->base);
	memcpy(p, ",\"dur\":", 7);
	p = digits__us(p + 7, ev->dur);
	memcpy(p, who->text, sizeof(who->text));
	p += who->whole;
	if (more) {
		json__used(&c->j, p, false);
		put_args(c, ev);
		put_source(c, ev);
		put_span_flags(c, it);
		json__end_object(&c->j);
		json__end_object(&c->j);
		return c->j.err;
	}
	p = copy_chunks(p, f->text + f->head, f->tail);
	memcpy(p, "}}", 2);
	json__used(&c->j, p + 2, true);
	return c->j.err;
}

static int chrome__instant(struct chrome *c, const struct item *it, const char *prefix)
{
	const char *name = session__str(c->s, it->ev->name);
	struct buf text = { 0 };

	event_open(c, "\"i\"");
	json__key(&c->j, "s");
	json__str(&c->j, "t", 1);
	json__key(&c->j, "name");
	if (*prefix) {
		buf__printf(&text, "%s", prefix);
		buf__append(&text, name, strpool__len(session__names(c->s), it->ev->name));
		json__str(&c->j, (const char *)text.data, text.len);
		buf__free(&text);
	} else {
		put_name(c, it->ev->name);
	}
	put_cat(c, it->ev, "instant");
	put_ts(c, it->ts);
	put_who(c, it->track);
	json__key(&c->j, "args");
	json__object(&c->j);
	put_args(c, it->ev);
	put_source(c, it->ev);
	json__end_object(&c->j);
	json__end_object(&c->j);
	return c->j.err;
}

static void counter_event(struct chrome *c, const struct track *t, const struct event *ev,
			  uint64_t ts)
{
	double f;

	memcpy(&f, &ev->value, sizeof(f));
	if (ev->kind == EV_COUNTER_F64 && !isfinite(f)) {
		c->not_finite++;
		return;
	}
	event_open(c, "\"C\"");
	json__key(&c->j, "name");
	put_name(c, ev->name);
	put_ts(c, ts);
	put_who(c, t);
	json__key(&c->j, "args");
	json__object(&c->j);
	json__key(&c->j, "value");
	if (ev->kind == EV_COUNTER_F64)
		json__f64(&c->j, f);
	else
		json__i64(&c->j, (int64_t)ev->value);
	json__end_object(&c->j);
	json__end_object(&c->j);
}

static void *grow(void *array, size_t n, size_t *cap, size_t bytes)
{
	void *bigger;

	if (n < *cap)
		return array;
	bigger = realloc(array, (*cap ? *cap * 2 : 16) * bytes);
	if (bigger)
		*cap = *cap ? *cap * 2 : 16;
	return bigger;
}

static int chrome__counter(struct chrome *c, const struct item *it)
{
	uint64_t key = (uint64_t)it->track->process << 32 | it->ev->name;
	uint64_t *at = map64__get(c->counters, key);
	struct last_sample *bigger;

	if (!at) {
		bigger = grow(c->samples, c->n_samples, &c->cap_samples, sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		c->samples = bigger;
		at = map64__put(c->counters, key, c->n_samples++);
		if (!at)
			return -ENOMEM;
	}
	c->samples[*at] = (struct last_sample){ it->track, *it->ev };
	c->samples[*at].ev.nargs = 0;
	counter_event(c, it->track, it->ev, it->ts);
	return c->j.err;
}

/* Allocations come by the million: what their events have in common is copied. */
static void memory_event(struct chrome *c, const struct balance_track *b, bool reserved,
			 uint64_t ts)
{
	static const char key[] = ",\"args\":{\"bytes\":";
	const struct who *who = &c->who[b->track->index];
	char *p = json__room(&c->j, sizeof(b->heads[0]) + sizeof(who->text) + sizeof(key) +
					    DIGITS_US + 32);
	int64_t v = reserved ? b->reserved : b->current;
	uint64_t bytes = v < 0 ? -(uint64_t)v : (uint64_t)v;

	if (!p)
		return;
	if (c->j.comma)
		*p++ = ',';
	memcpy(p, b->heads[reserved], sizeof(b->heads[0]));
	p = digits__us(p + b->head_len[reserved], ts - c->base);
	memcpy(p, who->text, sizeof(who->text));
	p += who->ids;
	memcpy(p, key, sizeof(key));
	p += sizeof(key) - 1;
	if (v < 0)
		*p++ = '-';
	p += digits__count(bytes);
	digits__u64(p, bytes);
	memcpy(p, "}}", 2);
	json__used(&c->j, p + 2, true);
}

static void balance__name(struct balance_track *b, bool reserved, uint32_t device)
{
	b->head_len[reserved] =
		(uint32_t)snprintf(b->heads[reserved], sizeof(b->heads[0]),
				   "\n{\"ph\":\"C\",\"name\":\"memory %s (device %u)\",\"ts\":",
				   reserved ? "reserved" : "in use", device);
}

static int chrome__memory(struct chrome *c, const struct item *it)
{
	bool reserved = it->ev->kind == EV_RESERVE || it->ev->kind == EV_RELEASE;
	uint64_t key = (uint64_t)it->track->process << 32 | it->ev->aux;
	uint64_t *at = map64__get(c->memory, key);
	struct balance_track *b;

	if (!at) {
		b = grow(c->balances, c->n_balances, &c->cap_balances, sizeof(*b));
		if (!b)
			return -ENOMEM;
		c->balances = b;
		c->balances[c->n_balances] = (struct balance_track){ .track = it->track };
		b = &c->balances[c->n_balances];
		balance__name(b, false, it->ev->aux);
		balance__name(b, true, it->ev->aux);
		at = map64__put(c->memory, key, c->n_balances++);
		if (!at)
			return -ENOMEM;
	}
	b = &c->balances[*at];
	b->current = it->current;
	b->reserved = it->reserved;
	b->used_current |= !reserved;
	b->used_reserved |= reserved;
	memory_event(c, b, reserved, it->ts);
	return c->j.err;
}

/* Async spans and requests: nestable, one id a lane, so that each lane is a row of its own. */
static void lane_event(struct chrome *c, const struct item *it, const char *ph, uint32_t name,
		       const char *cat, const char *suffix)
{
	char id[20] = "\"0x", *end;

	end = digits__hex(id + 3, it->lane_key);
	*end++ = '"';

	event_open(c, ph);
	json__key(&c->j, "cat");
	json__str(&c->j, cat, strlen(cat));
	json__key(&c->j, "id");
	json__raw(&c->j, id, (size_t)(end - id));
	json__key(&c->j, "name");
	if (*suffix)
		json__str(&c->j, suffix, strlen(suffix));
	else
		put_name(c, name);
	put_ts(c, it->ts);
	put_who(c, it->track);
	json__key(&c->j, "args");
	json__object(&c->j);
}

static int chrome__async(struct chrome *c, const struct item *it)
{
	bool begin = it->kind == IT_ASYNC_BEGIN;

	lane_event(c, it, begin ? "\"b\"" : "\"e\"", it->async_begin->name, "async", "");
	if (begin || !it->async_flags)
		put_args(c, it->ev);
	if (begin) {
		json__key(&c->j, "clika.id");
		json__u64(&c->j, it->ev->id);
		if (it->ev->cat) {
			json__key(&c->j, "clika.category");
			put_name(c, it->ev->cat);
		}
		put_source(c, it->ev);
	}
	put_flag(c, "clika.unfinished", it->async_flags & EVS_UNFINISHED);
	json__end_object(&c->j);
	json__end_object(&c->j);
	return c->j.err;
}

static int chrome__request(struct chrome *c, const struct item *it)
{
	bool begin = it->ev->kind == EV_REQUEST_BEGIN, end = it->ev->kind == EV_REQUEST_END;

	if (!it->lane_key) /* its begin was not seen: there is no span to hang it on */
		return chrome__instant(c, it, end ? "end of " : "output of ");
	lane_event(c, it,
		   begin ? "\"b\""
		   : end ? "\"e\""
			 : "\"n\"",
		   it->request_name, "request",
		   it->ev->kind == EV_REQUEST_FIRST    ? "first output"
		   : it->ev->kind == EV_REQUEST_OUTPUT ? "output"
						       : "");
	if (!it->request_unfinished)
		put_args(c, it->ev);
	if (begin) {
		json__key(&c->j, "clika.id");
		json__u64(&c->j, it->ev->id);
		put_source(c, it->ev);
	} else {
		json__key(&c->j, "clika.units");
		json__u64(&c->j, it->units);
	}
	put_flag(c, "clika.unfinished", it->request_unfinished);
	json__end_object(&c->j);
	json__end_object(&c->j);
	return c->j.err;
}

static void arrow_end(struct chrome *c, const struct item *it, const char *ph,
		      const struct track *t, uint64_t ts)
{
	event_open(c, ph);
	if (ph[1] == 'f') {
		json__key(&c->j, "bp");
		json__str(&c->j, "e", 1);
	}
	json__key(&c->j, "cat");
	json__str(&c->j, "flow", 4);
	json__key(&c->j, "name");
	put_name(c, it->ev->name);
	json__key(&c->j, "id");
	json__u64(&c->j, c->n_arrows);
	put_ts(c, ts);
	put_who(c, t);
	json__end_object(&c->j);
}

static void arrow_instant(struct chrome *c, const struct item *it)
{
	event_open(c, "\"i\"");
	json__key(&c->j, "s");
	json__str(&c->j, "t", 1);
	json__key(&c->j, "name");
	put_name(c, it->ev->name);
	json__key(&c->j, "cat");
	json__str(&c->j, "flow", 4);
	put_ts(c, it->ts);
	put_who(c, it->track);
	json__end_object(&c->j);
}

/*
 * An arrow is written when its head is known to exist; an id starts once in the whole trace.
 *
 * Trace processor binds an end to the last slice that began on the thread, even if that has ended.
 * Where that is not the enclosing one, the arrow's end moves to the begin of the enclosing span;
 * where that would turn the arrow round, it ends at an instant made for it.
 */
static int chrome__flow(struct chrome *c, const struct item *it)
{
	uint64_t from = it->flow_from_inner ? it->flow_from_begin : it->flow_from_ts, to = it->ts;

	if (!it->flow_arrow)
		return 0;
	if (it->span->inner && it->span->ev.ts >= from)
		to = it->span->ev.ts;
	else if (it->span->inner)
		arrow_instant(c, it);
	c->n_arrows++;
	arrow_end(c, it, "\"s\"", it->flow_from, from);
	arrow_end(c, it, "\"f\"", it->track, to);
	return c->j.err;
}

static int chrome__event(struct chrome *c, const struct item *it)
{
	switch (it->ev->kind) {
	case EV_INSTANT:
		return chrome__instant(c, it, "");
	case EV_COUNTER_I64:
	case EV_COUNTER_F64:
		return chrome__counter(c, it);
	case EV_CAPTURE_BEGIN:
		return chrome__instant(c, it, "capture begin: ");
	case EV_CAPTURE_END:
		return chrome__instant(c, it, "capture end: ");
	default:
		return 0; /* names: the tracks carry them already */
	}
}

static int chrome__item(void *state, const struct item *it)
{
	struct chrome *c = state;

	c->end = it->ts > c->end ? it->ts : c->end;
	switch (it->kind) {
	case IT_SPAN_BEGIN:
		return chrome__span(c, it);
	case IT_SPAN_END:
		return 0;
	case IT_EVENT:
		return chrome__event(c, it);
	case IT_ASYNC_BEGIN:
	case IT_ASYNC_END:
		return chrome__async(c, it);
	case IT_FLOW:
		return chrome__flow(c, it);
	case IT_MEMORY:
		return chrome__memory(c, it);
	case IT_REQUEST:
		return chrome__request(c, it);
	}
	return 0;
}

/* --- head and tail --------------------------------------------------------------------------- */

static void chrome__closing_samples(struct chrome *c)
{
	const struct balance_track *b;
	uint64_t told = c->not_finite;
	size_t i;

	for (i = 0; i < c->n_samples; i++)
		if (c->samples[i].ev.ts < c->end)
			counter_event(c, c->samples[i].track, &c->samples[i].ev, c->end);
	c->not_finite = told;
	for (i = 0; i < c->n_balances; i++) {
		b = &c->balances[i];
		if (b->used_current)
			memory_event(c, b, false, c->end);
		if (b->used_reserved)
			memory_event(c, b, true, c->end);
	}
}

static int chrome__close(void *state, struct clika_error *err)
{
	struct chrome *c = state;

	(void)err;
	chrome__closing_samples(c);
	chrome_meta__loss_event(&c->j, c->s, &c->ids, c->end - c->base);
	json__end_array(&c->j);
	json__key(&c->j, "otherData");
	chrome_meta__tail(&c->j, c->s, &c->ids, c->not_finite);
	json__end_object(&c->j);
	return json__flush(&c->j);
}

static void chrome__free(void *state)
{
	struct chrome *c = state;
	size_t i;

	for (i = 0; c->names && i < c->n_names; i++)
		free(c->names[i].text);
	free(c->names);
	free(c->who);
	free(c->frames);
	free(c->samples);
	free(c->balances);
	map64__free(c->counters);
	map64__free(c->memory);
	trace_ids__free(&c->ids);
	json__free(&c->j);
	free(c);
}

static int chrome__open(struct session *s, struct outfile *out, const struct export_opts *o,
			void **state, struct clika_error *err)
{
	struct chrome *c = calloc(1, sizeof(*c));
	size_t i;

	if (!c)
		return error__set(err, -ENOMEM, "out of memory");
	*state = c;
	c->s = s;
	c->args = o->stack_args;
	c->base = session__origin(s);
	c->end = session__end(s);
	json__init(&c->j, out);
	c->n_names = (size_t)strpool__count(session__names(s)) + 1;
	c->names = calloc(c->n_names, sizeof(*c->names));
	c->counters = map64__new();
	c->memory = map64__new();
	if (!c->names || !c->counters || !c->memory || trace_ids__init(&c->ids, s))
		return error__set(err, -ENOMEM, "out of memory");
	c->who = calloc(c->ids.n ? c->ids.n : 1, sizeof(*c->who));
	c->frames = calloc(N_FRAMES, sizeof(*c->frames));
	if (!c->who || !c->frames)
		return error__set(err, -ENOMEM, "out of memory");
	for (i = 0; i < c->ids.n; i++) {
		struct who *w = &c->who[i];

		w->ids = (uint32_t)snprintf(w->text, sizeof(w->text), ",\"pid\":%u,\"tid\":%u",
					    c->ids.pid[i], c->ids.tid[i]);
		w->whole = w->ids + (uint32_t)snprintf(w->text + w->ids, sizeof(w->text) - w->ids,
						       ",\"args\":{");
	}
	chrome_meta__head(&c->j, s, c->base);
	chrome_meta__names(&c->j, s, &c->ids);
	return c->j.err;
}

const struct exporter_ops exporter_chrome = {
	.format = "chrome",
	.file = "chrome_trace.json",
	.summary = "Chrome trace events: opens in ui.perfetto.dev and chrome://tracing",
	.standard = true,
	.open = chrome__open,
	.item = chrome__item,
	.close = chrome__close,
	.free = chrome__free,
};
