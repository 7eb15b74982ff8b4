// SPDX-License-Identifier: Apache-2.0
/*
 * What ids join: flows, async spans, requests. An id lives in (process image, name, id) from its
 * begin to its end; begun again it is a new one.
 */
#include "user/session/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct flow {
	struct id_entry e;
	uint64_t key;
	uint64_t ts; /* of the newest step */
	const struct track *track;
	struct cause cause;
	uint64_t span_begin; /* of the span of the result that the newest step lies in */
	bool drawable;       /* there is one */
	bool inner;          /* something had begun in it before the step */
};

/* Async spans and requests of one name take the lowest lane that is free. */
enum lane_domain { LANES_ASYNC, LANES_REQUEST };

struct lane {
	uint64_t key;
	uint32_t index;
};

struct async {
	struct id_entry e;
	uint64_t key;
	struct walk_track *wt;
	struct event ev; /* of its begin, without arguments */
	uint64_t mask;
	struct cause cause;
	struct lane lane;
	bool shown;
};

struct lanes { /* of one (process, name) */
	struct id_entry e;
	uint64_t *keys;     /* by lane; LANE_TAKEN or-ed in while in use */
	uint32_t n, lowest; /* no lane below @lowest is free */
};

struct request {
	struct id_entry e;
	uint64_t key, mask, units, first_ns, last_ns, served_ns;
	struct walk_track *wt;
	struct event ev; /* of its begin, without arguments */
	struct cause cause;
	struct lane lane;
	bool shown;
};

struct id_table *link__new_flows(size_t n)
{
	return id_table__new(sizeof(struct flow), n);
}

struct id_table *link__new_asyncs(size_t n)
{
	return id_table__new(sizeof(struct async), n);
}

struct id_table *link__new_lanes(size_t n)
{
	return id_table__new(sizeof(struct lanes), n);
}

struct id_table *link__new_requests(size_t n)
{
	return id_table__new(sizeof(struct request), n);
}

/* --- cause ----------------------------------------------------------------------------------- */

/* What is sent from here, now, causes work for these captures. */
static struct cause sent_here(const struct walk *w, const struct walk_track *wt)
{
	struct cause c = { w->open_mask & WINDOW_CAPTURES, 0 };

	if (wt->top && wt->top->cause.mask & ~c.mask) {
		c.mask |= wt->top->cause.mask;
		c.hops = wt->top->cause.hops;
	}
	return c;
}

/*
 * The innermost span runs what was sent with @c at @sent. From now on what begins in it or is
 * sent by it has that cause, and no longer the one of the job before. It belongs itself; what
 * ran in it before comes along only if all of the span can be an effect.
 */
static void received(const struct walk *w, struct walk_track *wt, struct cause c, uint64_t sent)
{
	struct span_node *n = wt->top;

	if (!n)
		return;
	if (c.hops >= w->s->opts.max_cause_depth)
		c.mask = 0;
	n->cause = (struct cause){ c.mask, c.hops + 1 };
	n->found |= c.mask;
	if (n->pub.ev.ts >= sent)
		n->found_drag |= c.mask;
}

/* The span does something for an async span or a request begun elsewhere; that makes it an effect
 * when it began later. It says nothing about the jobs that follow on this thread. */
static void served(const struct walk *w, struct walk_track *wt, struct cause c, uint64_t begun)
{
	struct span_node *n = wt->top;

	if (!n || n->pub.ev.ts < begun || c.hops >= w->s->opts.max_cause_depth)
		return;
	n->found |= c.mask;
	n->found_drag |= c.mask;
}

static int note_overlap(struct walk *w, enum late_kind kind, uint64_t key, uint64_t begun)
{
	uint64_t mask;

	if (!walk__first_pass(w))
		return 0;
	mask = windows__begin_between(&w->s->windows, begun, w->now);
	return mask ? walk__note_late(w, kind, key, mask) : 0;
}

/* --- flows ----------------------------------------------------------------------------------- */

static struct flow *flow__start(struct walk *w, struct walk_track *wt, const struct event *ev)
{
	uint32_t process = walk__process(w, wt);
	struct flow *f = id_table__get(w->flows, process, ev->name, ev->id);

	if (f)
		id_table__del(w->flows, f);
	if (id_table__count(w->flows) >= MAX_ALIVE) {
		id_table__del(w->flows, id_table__oldest(w->flows));
		w->s->counts.forgotten++;
	}
	f = id_table__put(w->flows, process, ev->name, ev->id);
	if (f) {
		f->key = ++w->n_flows;
		f->cause = sent_here(w, wt);
	}
	return f;
}

static int flow_event(struct walk *w, struct walk_track *wt, const struct event *ev)
{
	struct cause none = { 0, 0 };
	struct flow *f = NULL;
	bool known, drawable;
	uint64_t mask = 0;
	struct item it;
	int err = 0;

	if (ev->kind != EV_FLOW_OUT) {
		f = id_table__get(w->flows, walk__process(w, wt), ev->name, ev->id);
		received(w, wt, f ? f->cause : none, f ? f->ts : w->now);
		if (f && f->cause.hops < w->s->opts.max_cause_depth)
			mask = f->cause.mask;
	}
	known = f;
	if (!f && ev->kind != EV_FLOW_IN && !(f = flow__start(w, wt, ev)))
		return -ENOMEM;
	mask |= span__point_mask(w, wt);
	walk__item(w, wt, IT_FLOW, ev, mask, &it);
	it.flow_key = f ? f->key : ++w->n_flows;
	it.flow_first = !known && ev->kind != EV_FLOW_IN;
	it.flow_last = ev->kind == EV_FLOW_IN;
	drawable = it.span && walk__shows(w, wt, mask);
	if (known) {
		it.flow_wait_ns = w->now - f->ts;
		it.flow_from_ts = f->ts;
		it.flow_from = f->track;
		it.flow_from_begin = f->span_begin;
		it.flow_from_inner = f->inner;
		it.flow_arrow = f->drawable && drawable;
	}
	if (walk__shows(w, wt, mask)) {
		w->s->counts.flows++;
		err = walk__emit(w, &it);
	}
	if (!f)
		return err;
	if (ev->kind == EV_FLOW_IN) {
		id_table__del(w->flows, f);
		return err;
	}
	if (known) {
		struct cause c = sent_here(w, wt);

		f->cause.mask |= c.mask;
		f->cause.hops++;
	}
	f->ts = w->now;
	f->track = wt->track;
	f->drawable = drawable;
	f->span_begin = it.span ? it.span->ev.ts : 0;
	f->inner = it.span && it.span->inner;
	return err;
}

/* --- async spans ----------------------------------------------------------------------------- */

#define LANE_TAKEN (1ull << 63)

static int lane__take(struct walk *w, uint32_t process, enum lane_domain domain, uint32_t name,
		      struct lane *out)
{
	struct lanes *l = id_table__get(w->lanes, process, domain, name);
	uint64_t *keys;
	uint32_t i, n;

	if (!l && !(l = id_table__put(w->lanes, process, domain, name)))
		return -ENOMEM;
	for (i = l->lowest; i < l->n && l->keys[i] & LANE_TAKEN; i++)
		;
	if (i == l->n) {
		n = l->n ? l->n * 2 : 4;
		keys = realloc(l->keys, n * sizeof(*keys));
		if (!keys)
			return -ENOMEM;
		memset(keys + l->n, 0, (n - l->n) * sizeof(*keys));
		l->keys = keys;
		l->n = n;
	}
	if (!l->keys[i])
		l->keys[i] = ++w->n_lanes;
	*out = (struct lane){ l->keys[i], i };
	l->keys[i] |= LANE_TAKEN;
	l->lowest = i + 1;
	return 0;
}

static void lane__give_back(struct walk *w, uint32_t process, enum lane_domain domain,
			    uint32_t name, const struct lane *lane)
{
	struct lanes *l = id_table__get(w->lanes, process, domain, name);

	if (!l || !lane->key)
		return;
	l->keys[lane->index] &= ~LANE_TAKEN;
	if (lane->index < l->lowest)
		l->lowest = lane->index;
}

static void lanes__drop(struct walk *w, struct lanes *l)
{
	free(l->keys);
	id_table__del(w->lanes, l);
}

void link__free_lanes(struct walk *w)
{
	struct lanes *l;

	while (w->lanes && (l = id_table__oldest(w->lanes)))
		lanes__drop(w, l);
	id_table__free(w->lanes);
	w->lanes = NULL;
}

static void async__item(const struct async *a, struct item *it)
{
	it->async_key = a->key;
	it->async_begin = &a->ev;
	it->begin_ts = a->ev.ts;
	it->lane = a->lane.index;
	it->lane_key = a->lane.key;
}

/* The end that an async span or a request gets when nobody marked one. */
static struct event closing_event(const struct walk *w, const struct event *begin, uint8_t kind)
{
	struct event ev = *begin;

	ev.ts = w->now;
	ev.kind = kind;
	return ev;
}

static struct event without_args(const struct event *ev)
{
	struct event copy = *ev;

	copy.args = NULL;
	copy.nargs = 0;
	return copy;
}

/* A merged recording has ends that nobody marked: where one of its parts ended. */
static bool is_marked(const struct event *ev)
{
	return ev && !(ev->flags & EVS_UNFINISHED);
}

/* @ev: its end, NULL when none was seen. */
static int async__end(struct walk *w, struct async *a, struct walk_track *wt,
		      const struct event *ev)
{
	int err = note_overlap(w, LATE_ASYNC, a->key, a->ev.ts);
	struct event closing = closing_event(w, &a->ev, EV_ASYNC_END);
	bool marked = is_marked(ev);
	struct item it;

	if (!err && a->shown) {
		lane__give_back(w, a->e.process, LANES_ASYNC, a->ev.name, &a->lane);
		walk__item(w, wt, IT_ASYNC_END, ev ? ev : &closing, a->mask, &it);
		if (!marked)
			it.span = NULL;
		async__item(a, &it);
		it.async_flags = marked ? 0 : EVS_UNFINISHED;
		w->s->counts.unfinished += !marked;
		err = walk__emit(w, &it);
	}
	id_table__del(w->asyncs, a);
	return err;
}

static int async_begin(struct walk *w, struct walk_track *wt, const struct event *ev)
{
	struct async *a = id_table__get(w->asyncs, walk__process(w, wt), ev->name, ev->id);
	struct item it;
	int err = 0;

	if (!a && id_table__count(w->asyncs) >= MAX_ALIVE) {
		a = id_table__oldest(w->asyncs);
		w->s->counts.forgotten++;
	}
	if (a)
		err = async__end(w, a, a->wt, NULL);
	if (err)
		return err;
	a = id_table__put(w->asyncs, walk__process(w, wt), ev->name, ev->id);
	if (!a)
		return -ENOMEM;
	a->key = ++w->n_asyncs;
	a->wt = wt;
	a->ev = without_args(ev);
	a->cause = sent_here(w, wt);
	a->mask = span__point_mask(w, wt) | walk__late(w, LATE_ASYNC, a->key);
	a->shown = walk__shows(w, wt, a->mask) && walk__shows_name(w, ev->name);
	if (!a->shown || walk__first_pass(w))
		return 0;
	err = lane__take(w, a->e.process, LANES_ASYNC, ev->name, &a->lane);
	if (err)
		return err;
	walk__item(w, wt, IT_ASYNC_BEGIN, ev, a->mask, &it);
	async__item(a, &it);
	w->s->counts.asyncs++;
	return walk__emit(w, &it);
}

static int async_end(struct walk *w, struct walk_track *wt, const struct event *ev)
{
	struct async *a = id_table__get(w->asyncs, walk__process(w, wt), ev->name, ev->id);

	if (!a) {
		w->s->counts.orphan_ends += walk__shows(w, wt, span__point_mask(w, wt));
		return 0;
	}
	served(w, wt, a->cause, a->ev.ts);
	return async__end(w, a, wt, ev);
}

/* --- requests -------------------------------------------------------------------------------- */

static void request__item(const struct walk *w, const struct request *r, struct item *it)
{
	it->request_key = r->key;
	it->request_name = r->ev.name;
	it->since_begin_ns = w->now - r->ev.ts;
	it->first_ns = r->first_ns;
	it->units = r->units;
	it->served_ns = r->served_ns;
	it->last_ns = r->last_ns;
	it->lane = r->lane.index;
	it->lane_key = r->lane.key;
}

/* @ev: its end, NULL when none was seen. */
static int request__end(struct walk *w, struct request *r, struct walk_track *wt,
			const struct event *ev)
{
	int err = note_overlap(w, LATE_REQUEST, r->key, r->ev.ts);
	struct event closing = closing_event(w, &r->ev, EV_REQUEST_END);
	struct item it;

	if (!err && r->shown) {
		lane__give_back(w, r->e.process, LANES_REQUEST, r->ev.name, &r->lane);
		walk__item(w, wt, IT_REQUEST, ev ? ev : &closing, r->mask, &it);
		request__item(w, r, &it);
		if (!is_marked(ev)) {
			it.span = NULL;
			it.request_unfinished = true;
			w->s->counts.unfinished++;
		}
		err = walk__emit(w, &it);
	}
	id_table__del(w->requests, r);
	return err;
}

static int request_begin(struct walk *w, struct walk_track *wt, const struct event *ev,
			 struct request *old)
{
	struct request *r = old;
	struct item it;
	int err = 0;

	if (!r && id_table__count(w->requests) >= MAX_ALIVE) {
		r = id_table__oldest(w->requests);
		w->s->counts.forgotten++;
	}
	if (r)
		err = request__end(w, r, r->wt, NULL);
	if (err)
		return err;
	r = id_table__put(w->requests, walk__process(w, wt), ev->name, ev->id);
	if (!r)
		return -ENOMEM;
	r->key = ++w->n_requests;
	r->wt = wt;
	r->ev = without_args(ev);
	r->first_ns = r->last_ns = r->served_ns = UINT64_MAX;
	r->cause = sent_here(w, wt);
	r->mask = span__point_mask(w, wt) | walk__late(w, LATE_REQUEST, r->key);
	r->shown = walk__shows(w, wt, r->mask) && walk__shows_name(w, ev->name);
	if (!r->shown || walk__first_pass(w))
		return 0;
	err = lane__take(w, r->e.process, LANES_REQUEST, ev->name, &r->lane);
	if (err)
		return err;
	walk__item(w, wt, IT_REQUEST, ev, r->mask, &it);
	request__item(w, r, &it);
	w->s->counts.requests++;
	return walk__emit(w, &it);
}

/* The spans that are open where the first output (or the end) is marked serve the request; those
 * around that were open when it began serve more than this one. */
static void request__served(struct request *r, const struct walk_track *wt)
{
	const struct span_node *n;

	if (r->served_ns != UINT64_MAX || r->first_ns != UINT64_MAX)
		return;
	for (n = wt->top; n && n->pub.ev.ts >= r->ev.ts; n = n->up)
		r->served_ns = n->pub.ev.ts - r->ev.ts;
}

static void request__add(const struct walk *w, struct request *r, const struct event *ev)
{
	r->last_ns = w->now - r->ev.ts;
	if (r->first_ns == UINT64_MAX)
		r->first_ns = r->last_ns;
	if (ev->kind == EV_REQUEST_OUTPUT && __builtin_add_overflow(r->units, ev->value, &r->units))
		r->units = UINT64_MAX;
}

/* Output or end of a request whose begin nobody saw. */
static int request_orphan(struct walk *w, struct walk_track *wt, const struct event *ev)
{
	uint64_t mask = span__point_mask(w, wt);
	/* Counted whether shown or not: both passes must give the same numbers. */
	uint64_t key = ++w->n_requests;
	struct item it;

	if (!walk__shows(w, wt, mask) || !walk__shows_name(w, ev->name))
		return 0;
	walk__item(w, wt, IT_REQUEST, ev, mask, &it);
	it.request_key = key;
	it.request_name = ev->name;
	it.since_begin_ns = it.first_ns = it.last_ns = it.served_ns = UINT64_MAX;
	w->s->counts.orphan_ends += ev->kind == EV_REQUEST_END;
	span__had_point(wt); /* without a begin it can only be shown as an instant */
	return walk__emit(w, &it);
}

static int request_event(struct walk *w, struct walk_track *wt, const struct event *ev)
{
	struct request *r = id_table__get(w->requests, walk__process(w, wt), ev->name, ev->id);
	struct item it;

	if (ev->kind == EV_REQUEST_BEGIN)
		return request_begin(w, wt, ev, r);
	if (!r)
		return request_orphan(w, wt, ev);
	served(w, wt, r->cause, r->ev.ts);
	request__served(r, wt);
	if (ev->kind == EV_REQUEST_END)
		return request__end(w, r, wt, ev);
	request__add(w, r, ev);
	if (!r->shown || walk__first_pass(w))
		return 0;
	walk__item(w, wt, IT_REQUEST, ev, r->mask, &it);
	request__item(w, r, &it);
	return walk__emit(w, &it);
}

/* --- all of them ----------------------------------------------------------------------------- */

int link__event(struct walk *w, struct walk_track *wt, const struct event *ev)
{
	switch (ev->kind) {
	case EV_FLOW_OUT:
	case EV_FLOW_STEP:
	case EV_FLOW_IN:
		return flow_event(w, wt, ev);
	case EV_ASYNC_BEGIN:
		return async_begin(w, wt, ev);
	case EV_ASYNC_END:
		return async_end(w, wt, ev);
	default:
		return request_event(w, wt, ev);
	}
}

int link__close_process(struct walk *w, uint32_t process)
{
	struct request *r;
	struct lanes *l;
	struct async *a;
	struct flow *f;
	int err = 0;

	while (!err && (a = id_table__oldest_of(w->asyncs, process)))
		err = async__end(w, a, a->wt, NULL);
	while (!err && (r = id_table__oldest_of(w->requests, process)))
		err = request__end(w, r, r->wt, NULL);
	while ((f = id_table__oldest_of(w->flows, process)))
		id_table__del(w->flows, f);
	while ((l = id_table__oldest_of(w->lanes, process)))
		lanes__drop(w, l);
	return err;
}
