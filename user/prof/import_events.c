// SPDX-License-Identifier: Apache-2.0
/* The events of an imported trace: translated, sorted in pieces, written. */
#include "user/prof/import.h"
#include "user/prof/import_pairs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A piece: sorted and written when either is reached. */
#define PIECE_EVENTS 32768
#define PIECE_BYTES (8u << 20)
/* Longer strings and nested values are cut; nobody reads more of an argument. */
#define MAX_TEXT 1024

struct pending {
	struct event ev;
	uint32_t track, depth, seq;
	size_t args; /* index of its first argument */
};

struct piece {
	struct import *im;
	struct import_pairs *pairs;
	struct pending *events;
	struct event_arg *args;
	struct event *run; /* of one track, in order */
	char *text;
	size_t n, n_args, used;
	uint32_t stream; /* pieces so far */
	uint64_t taken;
};

/* --- writing ---------------------------------------------------------------------------------- */

/* By track, then time; what encloses comes before what lies in it, spans before points. */
static int by_order(const void *a, const void *b)
{
	const struct pending *x = a, *y = b;

	if (x->track != y->track)
		return x->track < y->track ? -1 : 1;
	if (x->ev.ts != y->ev.ts)
		return x->ev.ts < y->ev.ts ? -1 : 1;
	if ((x->ev.kind == EV_SPAN) != (y->ev.kind == EV_SPAN))
		return x->ev.kind == EV_SPAN ? -1 : 1;
	if (x->ev.dur != y->ev.dur)
		return x->ev.dur > y->ev.dur ? -1 : 1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	return x->seq < y->seq ? -1 : 1;
}

static int flush(struct piece *p)
{
	size_t i, from, n;
	int err = 0;

	qsort(p->events, p->n, sizeof(*p->events), by_order);
	for (from = 0; !err && from < p->n; from += n) {
		for (n = 0; from + n < p->n; n++) {
			if (p->events[from + n].track != p->events[from].track)
				break;
			p->run[n] = p->events[from + n].ev;
			p->run[n].args = p->args + p->events[from + n].args;
		}
		for (i = 0; !err && i < n; i += 1024)
			err = writer__block(p->im->m->w,
					    p->im->tracks[p->events[from].track].thread, p->stream,
					    p->run + i, n - i < 1024 ? n - i : 1024, NULL, 0);
	}
	p->n = p->n_args = p->used = 0;
	p->stream++;
	return err;
}

/* --- arguments -------------------------------------------------------------------------------- */

static uint32_t name_id(struct piece *p, const char *s)
{
	size_t len = strlen(s);

	return strpool__id(p->im->m->names, s, len < 4095 ? len : 4095);
}

static void put_text(struct piece *p, struct event_arg *arg, const char *s)
{
	size_t len = strlen(s);

	len = len < MAX_TEXT ? len : MAX_TEXT;
	memcpy(p->text + p->used, s, len);
	arg->type = ARG_STR;
	arg->len = (uint16_t)len;
	arg->str = p->text + p->used;
	p->used += len;
}

static bool put_arg(struct piece *p, struct event_arg *arg, const cJSON *v)
{
	char *json;

	if (cJSON_IsNumber(v) && v->valuedouble == floor(v->valuedouble) &&
	    fabs(v->valuedouble) < 9e15) {
		arg->type = ARG_I64;
		arg->i = (int64_t)v->valuedouble;
	} else if (cJSON_IsNumber(v)) {
		arg->type = ARG_F64;
		arg->f = v->valuedouble;
	} else if (cJSON_IsString(v)) {
		put_text(p, arg, v->valuestring);
	} else if (cJSON_IsBool(v)) {
		put_text(p, arg, cJSON_IsTrue(v) ? "true" : "false");
	} else {
		json = cJSON_IsNull(v) ? NULL : cJSON_PrintUnformatted(v);
		if (!json)
			return false;
		put_text(p, arg, json);
		cJSON_free(json);
	}
	return true;
}

static void put_args(struct piece *p, struct pending *e, const cJSON *args)
{
	struct event_arg *arg;
	const cJSON *v;

	cJSON_ArrayForEach(v, args)
	{
		if (e->ev.nargs == EVENT_MAX_ARGS)
			return;
		arg = &p->args[p->n_args];
		*arg = (struct event_arg){ .key = name_id(p, v->string ? v->string : "") };
		if (!put_arg(p, arg, v))
			continue;
		p->n_args++;
		e->ev.nargs++;
	}
}

/* --- events ----------------------------------------------------------------------------------- */

static const char *text(const cJSON *event, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(event, key);

	return cJSON_IsString(v) ? v->valuestring : NULL;
}

static struct pending *add(struct piece *p, const struct pending *like)
{
	struct pending *e = &p->events[p->n];

	*e = *like;
	e->seq = (uint32_t)p->n++;
	e->args = p->n_args;
	return e;
}

/* A counter event holds a value a series; each is a counter of its own. */
static void add_counters(struct piece *p, const struct pending *like, const char *name,
			 const cJSON *args)
{
	struct pending *e;
	const cJSON *v;
	char full[512];

	cJSON_ArrayForEach(v, args)
	{
		if (!cJSON_IsNumber(v) || p->n == PIECE_EVENTS)
			continue;
		e = add(p, like);
		snprintf(full, sizeof(full), "%s%s%s", name, v->string && *v->string ? " " : "",
			 v->string ? v->string : "");
		e->ev.name = name_id(p, full);
		if (v->valuedouble == floor(v->valuedouble) && fabs(v->valuedouble) < 9e15) {
			e->ev.kind = EV_COUNTER_I64;
			e->ev.value = (uint64_t)(int64_t)v->valuedouble;
		} else {
			e->ev.kind = EV_COUNTER_F64;
			memcpy(&e->ev.value, &v->valuedouble, sizeof(e->ev.value));
		}
	}
}

static bool whole(const cJSON *args, const char *key, int64_t *v)
{
	const cJSON *n = cJSON_GetObjectItemCaseSensitive(args, key);

	if (!cJSON_IsNumber(n) || !(fabs(n->valuedouble) < 9e18))
		return false;
	*v = (int64_t)n->valuedouble;
	return true;
}

/* PyTorch tells of memory by instants; devices count from 1 here, and 0 is the host. */
static bool add_memory(struct piece *p, const struct pending *like, const cJSON *args)
{
	int64_t addr, bytes, type, device;
	struct pending *e;

	if (!whole(args, "Addr", &addr) || !whole(args, "Bytes", &bytes) || !bytes ||
	    !whole(args, "Device Type", &type))
		return false;
	if (!whole(args, "Device Id", &device) || device < 0 || device > 1000)
		device = 0;
	e = add(p, like);
	e->ev.kind = bytes > 0 ? EV_ALLOC : EV_FREE;
	e->ev.id = (uint64_t)addr;
	e->ev.value = bytes > 0 ? (uint64_t)bytes : 0;
	e->ev.aux = type ? 1 + (uint32_t)device : 0;
	e->ev.name = 0;
	return true;
}

/* Ids of flows and async spans count for their category (and of flows, their name). */
static uint64_t id_of(struct json_text event, const cJSON *tree, bool flow)
{
	struct json_text id = json_text__member(event, "id");
	const char *cat = text(tree, "cat"), *name = text(tree, "name");
	uint64_t h = 0;

	if (!id.p)
		id = json_text__member(event, "id2");
	if (cat)
		h = hash__bytes(cat, strlen(cat), h);
	if (flow && name)
		h = hash__bytes(name, strlen(name), h);
	return id.p ? hash__bytes(id.p, (size_t)(id.end - id.p), h) : h;
}

static uint8_t kind_of(char phase)
{
	switch (phase) {
	case 'X':
	case 'B':
		return EV_SPAN;
	case 's':
		return EV_FLOW_OUT;
	case 't':
		return EV_FLOW_STEP;
	case 'f':
		return EV_FLOW_IN;
	case 'b':
		return EV_ASYNC_BEGIN;
	case 'e':
		return EV_ASYNC_END;
	default:
		return EV_INSTANT;
	}
}

static int translate(struct piece *p, struct json_text event, const cJSON *tree, char phase,
		     struct pending *like)
{
	const cJSON *args = cJSON_GetObjectItemCaseSensitive(tree, "args");
	const char *name = text(tree, "name"), *cat = text(tree, "cat");

	like->ev.kind = kind_of(phase);
	like->ev.name = name_id(p, name ? name : "");
	like->ev.cat = cat && *cat ? name_id(p, cat) : 0;
	if (!like->ev.name)
		return -ENOMEM;
	if (phase == 'C') {
		add_counters(p, like, name ? name : "", args);
		return 0;
	}
	if (like->ev.kind == EV_INSTANT && name && !strcmp(name, "[memory]") &&
	    add_memory(p, like, args))
		return 0;
	if (like->ev.kind == EV_FLOW_OUT || like->ev.kind == EV_FLOW_STEP ||
	    like->ev.kind == EV_FLOW_IN)
		like->ev.id = id_of(event, tree, true);
	else if (like->ev.kind == EV_ASYNC_BEGIN || like->ev.kind == EV_ASYNC_END)
		like->ev.id = id_of(event, tree, false);
	put_args(p, add(p, like), args);
	return 0;
}

static int make_room(struct piece *p)
{
	if (p->n + 64 > PIECE_EVENTS || p->used + 2 * EVENT_MAX_ARGS * MAX_TEXT > PIECE_BYTES)
		return flush(p);
	return 0;
}

static struct pending pending_of(const struct piece *p, size_t track, int64_t ts, uint64_t dur)
{
	return (struct pending){ .track = (uint32_t)track,
				 .ev = { .ts = p->im->begin + (uint64_t)(ts - p->im->first),
					 .dur = dur } };
}

/* @end: an event whose arguments are added, .p NULL: none. */
static int put(struct piece *p, struct json_text event, char phase, struct pending *like,
	       struct json_text end)
{
	cJSON *tree = cJSON_ParseWithLength(event.p, (size_t)(event.end - event.p));
	cJSON *more = end.p ? cJSON_ParseWithLength(end.p, (size_t)(end.end - end.p)) : NULL;
	size_t before = p->n;
	int err = 0;

	if (tree)
		err = translate(p, event, tree, phase, like);
	p->im->left_out += !tree + (end.p && !more);
	if (!err && more && p->n > before)
		put_args(p, &p->events[p->n - 1], cJSON_GetObjectItemCaseSensitive(more, "args"));
	p->taken += p->n - before;
	cJSON_Delete(tree);
	cJSON_Delete(more);
	return err;
}

static int put_pair(void *ctx, const struct import_pair *pair)
{
	struct piece *p = ctx;
	struct pending like = pending_of(p, pair->track, pair->begin_ts,
					 (uint64_t)(pair->end_ts - pair->begin_ts));
	int err = make_room(p);

	like.depth = pair->depth;
	like.ev.flags = pair->end.p ? 0 : EVS_UNFINISHED;
	return err ? err : put(p, pair->begin, 'B', &like, pair->end);
}

static int take(void *ctx, struct json_text event)
{
	struct piece *p = ctx;
	struct json_text ph = json_text__member(event, "ph");
	struct import_track *t;
	struct pending like;
	int64_t ts, dur = 0;
	size_t track;
	int err;

	if (!ph.p || ph.end - ph.p != 3 || !strchr(IMPORT_PHASES, ph.p[1]) ||
	    !trace_scan__us(json_text__member(event, "ts"), &ts) ||
	    (ph.p[1] == 'X' && !trace_scan__us(json_text__member(event, "dur"), &dur)) || dur < 0)
		return 0; /* counted already */
	t = import__track(p->im, json_text__member(event, "pid"), json_text__member(event, "tid"));
	if (!t || !t->events || ts < p->im->first || ts > p->im->last)
		return 0; /* the file has changed since */
	track = (size_t)(t - p->im->tracks);
	if (ph.p[1] == 'B')
		return import_pairs__begin(p->pairs, track, event, ts);
	if (ph.p[1] == 'E')
		return import_pairs__end(p->pairs, track, event, ts);
	err = make_room(p);
	like = pending_of(p, track, ts, (uint64_t)dur);
	return err ? err : put(p, event, ph.p[1], &like, (struct json_text){ 0 });
}

int import__events(struct import *im, struct clika_error *err)
{
	struct piece p = {
		.im = im,
		.events = calloc(PIECE_EVENTS, sizeof(*p.events)),
		.args = calloc(PIECE_EVENTS * EVENT_MAX_ARGS, sizeof(*p.args)),
		.run = calloc(PIECE_EVENTS, sizeof(*p.run)),
		.text = malloc(PIECE_BYTES),
	};
	struct trace_scan scan = { .event = take, .ctx = &p };
	int code;

	p.pairs = import_pairs__new(im->n_tracks, put_pair, &p);
	code = p.pairs && p.events && p.args && p.run && p.text ? 0 : -ENOMEM;
	if (!code)
		code = trace_scan__file(&scan, im->path, err);
	if (!code)
		code = import_pairs__finish(p.pairs, im->last);
	if (!code)
		code = flush(&p);
	im->m->result.imported += p.taken;
	im->left_out += p.pairs ? import_pairs__left_out(p.pairs) : 0;
	import_pairs__free(p.pairs);
	free(p.events);
	free(p.args);
	free(p.run);
	free(p.text);
	return code;
}
