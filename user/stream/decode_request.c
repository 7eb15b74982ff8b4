// SPDX-License-Identifier: Apache-2.0
/*
 * Requests of runtimes that do not say where a request ends: a new one begins where its prompt is
 * taken in, and that ends the one before, at its last output.
 */
#include <stdlib.h>
#include <string.h>

#include "user/stream/decode_internal.h"

/* Requests that are open at once. Beyond that those of the process that opens one more are given up. */
#define MAX_REQUESTS 65536

struct request_state {
	uint64_t id, last_output; /* ns; 0 = no output yet */
	uint32_t process, kind;
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

static uint64_t request__key(uint32_t process, uint32_t kind, uint64_t id)
{
	return hash__mix(hash__mix((uint64_t)process << 32 | kind, id), 1);
}

static struct request_state *request__find(const struct decoder *d, uint32_t process, uint32_t kind,
					   uint64_t id)
{
	const struct request_table *t = d->requests;
	uint64_t *v = t ? map64__get(t->at, request__key(process, kind, id)) : NULL;
	struct request_state *r = v ? &t->r[*v] : NULL;

	return r && r->process == process && r->kind == kind && r->id == id ? r : NULL;
}

/* The last one takes its place. */
static void request__remove(struct request_table *t, struct request_state *r)
{
	const struct request_state *last = &t->r[t->n - 1];

	map64__del(t->at, request__key(r->process, r->kind, r->id));
	if (r != last) {
		*r = *last;
		*map64__get(t->at, request__key(r->process, r->kind, r->id)) = r - t->r;
	}
	t->n--;
}

/* One process with ever new numbers must not cost the others theirs. */
static void requests__make_room(struct request_table *t, uint32_t process)
{
	for (size_t i = t->n; i; i--)
		if (t->r[i - 1].process == process)
			request__remove(t, &t->r[i - 1]);
	if (t->n < MAX_REQUESTS / 4 * 3)
		return;
	map64__clear(t->at);
	t->n = 0;
}

static struct request_state *request__add(struct decoder *d, uint32_t process, uint32_t kind,
					  uint64_t id)
{
	uint64_t key = request__key(process, kind, id), *v;
	struct request_table *t = d->requests;
	struct request_state *r;

	if (!t)
		t = d->requests = requests__new();
	if (!t)
		return NULL;
	if (t->n == MAX_REQUESTS)
		requests__make_room(t, process);
	/* Another one under the same hash gives way. */
	v = map64__get(t->at, key);
	if (!v && t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 16;
		struct request_state *more = realloc(t->r, cap * sizeof(*more));

		if (!more)
			return NULL;
		t->r = more;
		t->cap = cap;
	}
	if (!t->r || (!v && !map64__put(t->at, key, t->n)))
		return NULL;
	r = &t->r[v ? *v : t->n++];
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

int requests__begin(struct decoder *d, struct person_thread *th, uint32_t kind, uint64_t id,
		    uint64_t ts)
{
	struct request_state *r = request__find(d, th->info.process, kind, id);
	int ret = 0;

	if (r && !r->last_output)
		return 0;
	if (r)
		ret = request__tell(th, r, EV_REQUEST_END, r->last_output, 0);
	else
		r = request__add(d, th->info.process, kind, id);
	if (!r)
		return ret;
	r->last_output = 0;
	return ret ? ret : request__tell(th, r, EV_REQUEST_BEGIN, ts, 0);
}

int requests__output(struct decoder *d, struct person_thread *th, uint32_t kind, uint64_t id,
		     uint64_t units, uint64_t ts)
{
	struct request_state *r = request__find(d, th->info.process, kind, id);
	int ret = 0;

	/* Of a request that began before the recording. */
	if (!r)
		return 0;
	if (!r->last_output)
		ret = request__tell(th, r, EV_REQUEST_FIRST, ts, 0);
	r->last_output = ts;
	return ret ? ret : request__tell(th, r, EV_REQUEST_OUTPUT, ts, units);
}

int requests__end(struct decoder *d, struct person_thread *th, uint32_t kind, uint64_t id,
		  uint64_t ts)
{
	struct request_state *r = request__find(d, th->info.process, kind, id);
	int ret;

	if (!r)
		return 0;
	/* Cleaning up afterwards is not part of it. */
	ret = request__tell(th, r, EV_REQUEST_END, r->last_output ? r->last_output : ts, 0);
	request__remove(d->requests, r);
	return ret;
}
