// SPDX-License-Identifier: Apache-2.0
#include "export/otlp_context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Flows that are never taken are forgotten, oldest first. */
#define MAX_FLOWS (1u << 18)

struct frame { /* an open span, or the thread itself below all of them */
	uint64_t seq, ts;
	struct ot_place place;
	uint64_t current; /* request for which what begins here works, 0 = that of the place */
	bool begun_here;  /* the current request began here: it is current until it ends */
	bool settled;     /* something has begun in it: its place stays */
	bool taken;       /* its place comes from a flow */
	bool fresh;       /* current was set, and nothing has begun since */
};

struct track_state {
	struct frame *frames; /* [0]: the thread */
	uint32_t n, cap;
};

struct ot_context {
	const struct session *s;
	struct track_state *tracks;
	size_t n_tracks;
	struct map64 *requests; /* request_key -> struct ot_request * */
	struct map64 *by_id;    /* mixed process and id -> request_key */
	struct map64 *flows;    /* flow_key -> request_key */
	uint64_t oldest_flow;   /* keys count up: none below is known */
	struct map64 *asyncs;   /* async_key -> struct ot_place * */
};

struct ot_context *ot_context__new(const struct session *s)
{
	struct ot_context *c = calloc(1, sizeof(*c));
	size_t n = session__n_tracks(s);

	if (!c)
		return NULL;
	c->s = s;
	c->n_tracks = n;
	c->tracks = calloc(n ? n : 1, sizeof(*c->tracks));
	c->requests = map64__new();
	c->by_id = map64__new();
	c->flows = map64__new();
	c->asyncs = map64__new();
	if (!c->tracks || !c->requests || !c->by_id || !c->flows || !c->asyncs) {
		ot_context__free(c);
		return NULL;
	}
	return c;
}

static void request__free(struct ot_request *r)
{
	free(r->links);
	free(r->attributes);
	free(r);
}

void ot_context__free(struct ot_context *c)
{
	uint64_t *value;
	size_t i, at;

	if (!c)
		return;
	for (i = 0; c->tracks && i < c->n_tracks; i++)
		free(c->tracks[i].frames);
	for (at = 0; c->requests && map64__next(c->requests, &at, NULL, &value);)
		request__free((struct ot_request *)(uintptr_t)*value);
	for (at = 0; c->asyncs && map64__next(c->asyncs, &at, NULL, &value);)
		free((void *)(uintptr_t)*value);
	free(c->tracks);
	map64__free(c->requests);
	map64__free(c->by_id);
	map64__free(c->flows);
	map64__free(c->asyncs);
	free(c);
}

/* --- frames ----------------------------------------------------------------------------------------- */

static struct frame *frame__push(struct track_state *t)
{
	struct frame *bigger;

	if (t->n == t->cap) {
		uint32_t cap = t->cap ? t->cap * 2 : 8;

		bigger = realloc(t->frames, cap * sizeof(*bigger));
		if (!bigger)
			return NULL;
		t->frames = bigger;
		t->cap = cap;
	}
	t->frames[t->n] = (struct frame){ 0 };
	return &t->frames[t->n++];
}

static struct frame *frame__top(struct ot_context *c, const struct track *track)
{
	struct track_state *t = &c->tracks[track->index];

	if (!t->n && !frame__push(t))
		return NULL;
	return &t->frames[t->n - 1];
}

struct ot_request *ot_context__request(struct ot_context *c, uint64_t key)
{
	uint64_t *at = key ? map64__get(c->requests, key) : NULL;

	return at ? (struct ot_request *)(uintptr_t)*at : NULL;
}

static struct ot_place in_request(uint64_t key)
{
	struct ot_ref r = { OT_REQUEST, key };

	return (struct ot_place){ r, r };
}

static uint64_t current_request(struct ot_context *c, const struct frame *f)
{
	return f->begun_here && !ot_context__request(c, f->current) ? 0 : f->current;
}

/* Where something lies that begins here, now. @self: what it is. */
static struct ot_place place_in(struct ot_context *c, const struct frame *f, struct ot_ref self)
{
	struct ot_place p = { self, { OT_NONE, 0 } };
	uint64_t current = current_request(c, f);

	if (current && !(f->place.trace.kind == OT_REQUEST && f->place.trace.key == current))
		return in_request(current);
	if (f->seq)
		p = (struct ot_place){ f->place.trace, { OT_SPAN, f->seq } };
	return p;
}

/* The request that this thread works for, 0 = none. */
static uint64_t working_for(struct ot_context *c, const struct frame *f)
{
	uint64_t current = current_request(c, f);

	if (current)
		return current;
	return f->place.trace.kind == OT_REQUEST ? f->place.trace.key : 0;
}

int ot_context__span_begin(struct ot_context *c, const struct item *it)
{
	struct frame *outer = frame__top(c, it->track), *f;
	struct ot_ref self = { OT_SPAN, it->span->seq };
	struct ot_place place;

	if (!outer)
		return -ENOMEM;
	place = place_in(c, outer, self);
	outer->settled = true;
	outer->fresh = false;
	f = frame__push(&c->tracks[it->track->index]);
	if (!f)
		return -ENOMEM;
	f->seq = it->span->seq;
	f->ts = it->ts;
	f->place = place;
	return 0;
}

struct ot_place ot_context__span_end(struct ot_context *c, const struct item *it)
{
	struct track_state *t = &c->tracks[it->track->index];

	return t->frames[--t->n].place;
}

/* --- async spans -------------------------------------------------------------------------------------- */

int ot_context__async_begin(struct ot_context *c, const struct item *it)
{
	struct ot_ref self = { OT_ASYNC, it->async_key };
	struct ot_place *p = malloc(sizeof(*p));
	struct frame *f = frame__top(c, it->track);

	if (!p || !f) {
		free(p);
		return -ENOMEM;
	}
	*p = place_in(c, f, self);
	/* The span it began in can no longer move to another trace. */
	if (f->seq && p->parent.kind == OT_SPAN)
		f->settled = true;
	if (!map64__put(c->asyncs, it->async_key, (uintptr_t)p)) {
		free(p);
		return -ENOMEM;
	}
	return 0;
}

struct ot_place ot_context__async_end(struct ot_context *c, const struct item *it)
{
	uint64_t *at = map64__get(c->asyncs, it->async_key);
	struct ot_place place = { { OT_ASYNC, it->async_key }, { OT_NONE, 0 } };

	if (at) {
		place = *(struct ot_place *)(uintptr_t)*at;
		free((void *)(uintptr_t)*at);
		map64__del(c->asyncs, it->async_key);
	}
	return place;
}

/* --- requests ------------------------------------------------------------------------------------------ */

static uint64_t id_key(uint32_t process, uint64_t id)
{
	return hash__mix(process, id);
}

static struct ot_request *request_with_id(struct ot_context *c, const struct track *t, uint64_t id)
{
	uint64_t *key = map64__get(c->by_id, id_key(t->process, id));
	struct ot_request *r = key ? ot_context__request(c, *key) : NULL;

	return r && r->id == id && r->process == t->process ? r : NULL;
}

static int request__link(struct ot_request *r, struct ot_ref trace, struct ot_ref span)
{
	struct ot_link *bigger;

	if (r->n_links == OT_MAX_LINKS) {
		r->more_links++;
		return 0;
	}
	if (r->n_links == r->cap_links) {
		uint32_t cap = r->cap_links ? r->cap_links * 2 : 2;

		bigger = realloc(r->links, cap * sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		r->links = bigger;
		r->cap_links = cap;
	}
	r->links[r->n_links++] = (struct ot_link){ trace, span };
	return 0;
}

struct ot_request *ot_context__request_begin(struct ot_context *c, const struct item *it)
{
	struct frame *f = frame__top(c, it->track);
	struct ot_request *r = calloc(1, sizeof(*r));

	if (!f || !r)
		goto fail;
	r->key = it->request_key;
	r->begin_ts = it->ts;
	r->id = it->ev->id;
	r->process = it->track->process;
	r->track = it->track->index;
	/* The span that made the request is older than it, so no effect of it. */
	if (f->seq) {
		f->settled = true;
		if (request__link(r, f->place.trace, (struct ot_ref){ OT_SPAN, f->seq }))
			goto fail;
	}
	if (!map64__put(c->requests, r->key, (uintptr_t)r))
		goto fail;
	if (!map64__put(c->by_id, id_key(r->process, r->id), r->key))
		return NULL; /* freed with the context */
	f->current = r->key;
	f->begun_here = true;
	f->fresh = false;
	return r;
fail:
	if (r)
		request__free(r);
	return NULL;
}

void ot_context__request_end(struct ot_context *c, struct ot_request *r)
{
	uint64_t key = id_key(r->process, r->id), *at = map64__get(c->by_id, key);

	if (at && *at == r->key)
		map64__del(c->by_id, key);
	map64__del(c->requests, r->key);
	request__free(r);
}

/* --- flows --------------------------------------------------------------------------------------------- */

static int flow__remember(struct ot_context *c, uint64_t flow, uint64_t request)
{
	if (map64__get(c->flows, flow))
		return 0;
	while (map64__count(c->flows) >= MAX_FLOWS)
		map64__del(c->flows, c->oldest_flow++);
	return map64__put(c->flows, flow, request) ? 0 : -ENOMEM;
}

static int flow__sent(struct ot_context *c, const struct item *it, const struct frame *f)
{
	struct ot_request *same = request_with_id(c, it->track, it->ev->id);
	uint64_t request = working_for(c, f);

	/* A thread that begins many requests says by the id which one it sends on. */
	if (same && (!request || same->track == it->track->index))
		request = same->key;
	return request ? flow__remember(c, it->flow_key, request) : 0;
}

static int flow__taken(struct ot_context *c, const struct item *it, struct frame *f)
{
	uint64_t *known = map64__get(c->flows, it->flow_key), request = known ? *known : 0;
	struct ot_request *r = ot_context__request(c, request);
	uint64_t sent = it->flow_from ? it->flow_from_ts : UINT64_MAX;
	int err = 0;

	if (!request && (r = request_with_id(c, it->track, it->ev->id))) {
		request = r->key;
		sent = it->flow_from ? sent : r->begin_ts;
	}
	if (known && it->flow_last)
		map64__del(c->flows, it->flow_key);
	if (f->seq && request && f->ts >= sent) {
		if (!f->settled && !f->taken) {
			f->place = in_request(request);
			f->taken = true;
			f->current = 0;
			return 0;
		}
		if (r && !(f->place.trace.kind == OT_REQUEST && f->place.trace.key == request))
			err = request__link(r, f->place.trace, (struct ot_ref){ OT_SPAN, f->seq });
		/* A batch: what begins in it works for all of them and stays in it. */
		if (f->taken)
			return err;
	}
	if (!f->fresh) {
		f->current = request;
		f->begun_here = false;
	}
	f->fresh = true;
	return err;
}

int ot_context__flow(struct ot_context *c, const struct item *it)
{
	struct frame *f = frame__top(c, it->track);
	int err = 0;

	if (!f)
		return -ENOMEM;
	if (!it->flow_first)
		err = flow__taken(c, it, f);
	if (!err && it->ev->kind != EV_FLOW_IN)
		err = flow__sent(c, it, f);
	return err;
}
