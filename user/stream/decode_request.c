// SPDX-License-Identifier: Apache-2.0
/*
 * Requests of runtimes that do not say where a request ends: a new one begins where its prompt is
 * taken in, and that ends the one before, at its last output.
 */
#include <stdlib.h>
#include <string.h>

#include "user/stream/decode_internal.h"

/* Requests that are remembered at once; beyond that the table starts anew. */
#define MAX_REQUESTS 65536

struct request_state {
	uint64_t id, last_output; /* ns; 0 = no output yet */
	uint32_t process, kind;
	bool open;
};

struct request_table {
	struct map64 *at; /* hash of process, kind, id -> index */
	struct request_state *r;
	size_t n, cap;
};

struct request_table *requests__new(void)
{
	struct request_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->at = map64__new();
	if (!t->at) {
		free(t);
		return NULL;
	}
	return t;
}

void requests__free(struct request_table *t)
{
	if (!t)
		return;
	map64__free(t->at);
	free(t->r);
	free(t);
}

static struct request_state *request__get(struct decoder *d, uint32_t process, uint32_t kind,
					  uint64_t id)
{
	uint64_t key = hash__mix(hash__mix((uint64_t)process << 32 | kind, id), 1), *v;
	struct request_table *t = d->requests;
	struct request_state *r;

	if (!t)
		t = d->requests = requests__new();
	if (!t)
		return NULL;
	v = map64__get(t->at, key);
	/* Another one under the same hash takes its place. */
	if (v && t->r[*v].process == process && t->r[*v].kind == kind && t->r[*v].id == id)
		return &t->r[*v];
	if (t->n == MAX_REQUESTS) {
		map64__clear(t->at);
		t->n = 0;
	}
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 16;
		struct request_state *more = realloc(t->r, cap * sizeof(*more));

		if (!more)
			return NULL;
		t->r = more;
		t->cap = cap;
	}
	if (!map64__put(t->at, key, t->n))
		return NULL;
	r = &t->r[t->n++];
	*r = (struct request_state){ .process = process, .kind = kind, .id = id };
	return r;
}

static int request__tell(struct person_thread *th, const struct request_state *r, uint8_t kind,
			 uint64_t ts, uint64_t units)
{
	struct event ev = { .kind = kind,
			    .ts = ts,
			    .id = r->id,
			    .name = r->kind,
			    .value = units,
			    .flags = EVS_FUNCTION };

	return chain__event(th->calls, &ev);
}

static int request__close(struct person_thread *th, struct request_state *r, uint64_t ts)
{
	r->open = false;
	return request__tell(th, r, EV_REQUEST_END, ts, 0);
}

int requests__begin(struct decoder *d, struct person_thread *th, uint32_t kind, uint64_t id,
		    uint64_t ts)
{
	struct request_state *r = request__get(d, th->info.process, kind, id);
	int ret = 0;

	if (!r)
		return 0;
	if (r->open && !r->last_output)
		return 0;
	if (r->open)
		ret = request__close(th, r, r->last_output);
	r->open = true;
	r->last_output = 0;
	return ret ? ret : request__tell(th, r, EV_REQUEST_BEGIN, ts, 0);
}

int requests__output(struct decoder *d, struct person_thread *th, uint32_t kind, uint64_t id,
		     uint64_t units, uint64_t ts)
{
	struct request_state *r = request__get(d, th->info.process, kind, id);
	int ret = 0;

	/* Of a request that began before the recording. */
	if (!r || !r->open)
		return 0;
	if (!r->last_output)
		ret = request__tell(th, r, EV_REQUEST_FIRST, ts, 0);
	r->last_output = ts;
	return ret ? ret : request__tell(th, r, EV_REQUEST_OUTPUT, ts, units);
}

int requests__end(struct decoder *d, struct person_thread *th, uint32_t kind, uint64_t id,
		  uint64_t ts)
{
	struct request_state *r = request__get(d, th->info.process, kind, id);

	if (!r || !r->open)
		return 0;
	/* Cleaning up afterwards is not part of it. */
	return request__close(th, r, r->last_output ? r->last_output : ts);
}
