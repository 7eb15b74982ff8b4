/* SPDX-License-Identifier: Apache-2.0 */
#include "tally.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef _Atomic uint64_t count_t;

struct pool_tally {
	count_t allocs, alloc_bytes, frees, free_bytes;
	count_t reserves, reserve_bytes, releases, release_bytes;
	count_t in_use, peak;
};

struct tally {
	count_t spans[N_SPANS];
	count_t async_begins[N_ASYNCS];
	count_t async_ends[N_ASYNCS];
	count_t instants[N_INSTANTS];
	count_t counters[N_COUNTERS];
	count_t counts[N_COUNTS];
	struct pool_tally pools[N_POOLS];
};

#define TALLY_NAME(id, name) name,
static const char *const span_names[] = { TALLY_SPANS(TALLY_NAME) };
static const char *const async_names[] = { TALLY_ASYNCS(TALLY_NAME) };
static const char *const instant_names[] = { TALLY_INSTANTS(TALLY_NAME) };
static const char *const counter_names[] = { TALLY_COUNTERS(TALLY_NAME) };
static const char *const count_names[] = { TALLY_COUNTS(TALLY_NAME) };
static const char *const pool_names[] = { TALLY_POOLS(TALLY_NAME) };

struct tally *tally__new(void)
{
	return calloc(1, sizeof(struct tally));
}

void tally__free(struct tally *t)
{
	free(t);
}

static void add(count_t *c, uint64_t n)
{
	atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

void tally__span(struct tally *t, enum tally_span id)
{
	add(&t->spans[id], 1);
}

void tally__async_begin(struct tally *t, enum tally_async id)
{
	add(&t->async_begins[id], 1);
}

void tally__async_end(struct tally *t, enum tally_async id)
{
	add(&t->async_ends[id], 1);
}

void tally__instant(struct tally *t, enum tally_instant id)
{
	add(&t->instants[id], 1);
}

void tally__counter(struct tally *t, enum tally_counter id)
{
	add(&t->counters[id], 1);
}

void tally__add(struct tally *t, enum tally_count id, uint64_t n)
{
	add(&t->counts[id], n);
}

/* The memory counts of a pool are only changed under its arena's lock. */
void tally__alloc(struct tally *t, enum pool pool, uint64_t bytes)
{
	struct pool_tally *p = &t->pools[pool];

	add(&p->allocs, 1);
	add(&p->alloc_bytes, bytes);
	add(&p->in_use, bytes);
	if (p->in_use > p->peak)
		p->peak = p->in_use;
}

void tally__dealloc(struct tally *t, enum pool pool, uint64_t bytes)
{
	struct pool_tally *p = &t->pools[pool];

	add(&p->frees, 1);
	add(&p->free_bytes, bytes);
	add(&p->in_use, -bytes);
}

void tally__reserve(struct tally *t, enum pool pool, uint64_t bytes)
{
	add(&t->pools[pool].reserves, 1);
	add(&t->pools[pool].reserve_bytes, bytes);
}

void tally__release(struct tally *t, enum pool pool, uint64_t bytes)
{
	add(&t->pools[pool].releases, 1);
	add(&t->pools[pool].release_bytes, bytes);
}

struct out {
	char *buf;
	size_t len, at;
};

static void __attribute__((format(printf, 2, 3))) put(struct out *o, const char *fmt, ...)
{
	size_t room = o->at < o->len ? o->len - o->at : 0;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(room ? o->buf + o->at : NULL, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		o->at += n;
}

static void put_list(struct out *o, const char *key, const char *const *names,
		     const count_t *counts, size_t n)
{
	put(o, "\"%s\": {", key);
	for (size_t i = 0; i < n; i++)
		put(o, "%s\"%s\": %llu", i ? ", " : "", names[i], (unsigned long long)counts[i]);
	put(o, "}, ");
}

static void put_pool(struct out *o, const char *name, const struct pool_tally *p)
{
	const struct {
		const char *key;
		uint64_t n;
	} rows[] = {
		{ "allocs", p->allocs },     { "alloc_bytes", p->alloc_bytes },
		{ "frees", p->frees },       { "free_bytes", p->free_bytes },
		{ "reserves", p->reserves }, { "reserve_bytes", p->reserve_bytes },
		{ "releases", p->releases }, { "release_bytes", p->release_bytes },
		{ "in_use", p->in_use },     { "peak", p->peak },
	};

	put(o, "\"%s\": {", name);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		put(o, "%s\"%s\": %llu", i ? ", " : "", rows[i].key, (unsigned long long)rows[i].n);
	put(o, "}");
}

int tally__json(const struct tally *t, char *buf, size_t len)
{
	struct out o = { .buf = buf, .len = len };

	put(&o, "{");
	put_list(&o, "spans", span_names, t->spans, N_SPANS);
	put_list(&o, "async_begins", async_names, t->async_begins, N_ASYNCS);
	put_list(&o, "async_ends", async_names, t->async_ends, N_ASYNCS);
	put_list(&o, "instants", instant_names, t->instants, N_INSTANTS);
	put_list(&o, "counters", counter_names, t->counters, N_COUNTERS);
	put_list(&o, "counts", count_names, t->counts, N_COUNTS);
	put(&o, "\"memory\": {");
	for (size_t i = 0; i < N_POOLS; i++) {
		put_pool(&o, pool_names[i], &t->pools[i]);
		put(&o, i + 1 < N_POOLS ? ", " : "}}\n");
	}
	return o.at;
}
