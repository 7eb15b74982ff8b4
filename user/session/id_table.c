// SPDX-License-Identifier: Apache-2.0
#include "user/session/id_table.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_ENTRIES 256

struct slab {
	struct slab *next;
	max_align_t entries[];
};

struct ends {
	struct id_entry *oldest, *newest;
};

struct id_table {
	size_t entry_bytes;
	size_t count, n_buckets; /* buckets: a power of two */
	struct id_entry **buckets;
	struct id_entry *unused;
	struct slab *slabs;
	struct ends all;
	struct ends *of_process;
	size_t n_processes;
};

struct id_table *id_table__new(size_t entry_bytes, size_t n_processes)
{
	const size_t align = _Alignof(max_align_t);
	struct id_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->entry_bytes = (entry_bytes + align - 1) / align * align;
	t->n_buckets = 64;
	t->n_processes = n_processes;
	t->buckets = calloc(t->n_buckets, sizeof(*t->buckets));
	t->of_process = calloc(n_processes ? n_processes : 1, sizeof(*t->of_process));
	if (!t->buckets || !t->of_process) {
		id_table__free(t);
		return NULL;
	}
	return t;
}

void id_table__free(struct id_table *t)
{
	struct slab *s, *next;

	if (!t)
		return;
	for (s = t->slabs; s; s = next) {
		next = s->next;
		free(s);
	}
	free(t->of_process);
	free(t->buckets);
	free(t);
}

static size_t bucket_of(const struct id_table *t, uint32_t process, uint32_t domain, uint64_t id)
{
	uint64_t h = hash__mix(id, (uint64_t)process << 32 | domain);

	return (size_t)(h ^ h >> 29) & (t->n_buckets - 1);
}

void *id_table__get(const struct id_table *t, uint32_t process, uint32_t domain, uint64_t id)
{
	struct id_entry *e = t->buckets[bucket_of(t, process, domain, id)];

	while (e && (e->id != id || e->process != process || e->domain != domain))
		e = e->chain;
	return e;
}

static void grow(struct id_table *t)
{
	struct id_entry **old = t->buckets, *e, *next;
	size_t i, n = t->n_buckets, b;

	t->buckets = calloc(n * 2, sizeof(*t->buckets));
	if (!t->buckets) { /* longer chains are slower, not wrong */
		t->buckets = old;
		return;
	}
	t->n_buckets = n * 2;
	for (i = 0; i < n; i++) {
		for (e = old[i]; e; e = next) {
			next = e->chain;
			b = bucket_of(t, e->process, e->domain, e->id);
			e->chain = t->buckets[b];
			t->buckets[b] = e;
		}
	}
	free(old);
}

static struct id_entry *take(struct id_table *t)
{
	struct id_entry *e;
	struct slab *s;
	size_t i;

	if (!t->unused) {
		s = malloc(sizeof(*s) + SLAB_ENTRIES * t->entry_bytes);
		if (!s)
			return NULL;
		s->next = t->slabs;
		t->slabs = s;
		for (i = SLAB_ENTRIES; i-- > 0;) {
			e = (struct id_entry *)((char *)s->entries + i * t->entry_bytes);
			e->chain = t->unused;
			t->unused = e;
		}
	}
	e = t->unused;
	t->unused = e->chain;
	memset(e, 0, t->entry_bytes);
	return e;
}

void *id_table__put(struct id_table *t, uint32_t process, uint32_t domain, uint64_t id)
{
	struct id_entry *e;
	struct ends *p;
	size_t b;

	if (process >= t->n_processes)
		return NULL;
	if (t->count >= t->n_buckets)
		grow(t);
	e = take(t);
	if (!e)
		return NULL;
	e->process = process;
	e->domain = domain;
	e->id = id;
	b = bucket_of(t, process, domain, id);
	e->chain = t->buckets[b];
	t->buckets[b] = e;

	e->older = t->all.newest;
	*(e->older ? &e->older->newer : &t->all.oldest) = e;
	t->all.newest = e;
	p = &t->of_process[process];
	e->p_older = p->newest;
	*(e->p_older ? &e->p_older->p_newer : &p->oldest) = e;
	p->newest = e;
	t->count++;
	return e;
}

void id_table__del(struct id_table *t, void *entry)
{
	struct id_entry *e = entry, **at;
	struct ends *p = &t->of_process[e->process];

	at = &t->buckets[bucket_of(t, e->process, e->domain, e->id)];
	while (*at != e)
		at = &(*at)->chain;
	*at = e->chain;
	*(e->older ? &e->older->newer : &t->all.oldest) = e->newer;
	*(e->newer ? &e->newer->older : &t->all.newest) = e->older;
	*(e->p_older ? &e->p_older->p_newer : &p->oldest) = e->p_newer;
	*(e->p_newer ? &e->p_newer->p_older : &p->newest) = e->p_older;
	e->chain = t->unused;
	t->unused = e;
	t->count--;
}

void *id_table__oldest(const struct id_table *t)
{
	return t->all.oldest;
}

void *id_table__oldest_of(const struct id_table *t, uint32_t process)
{
	return process < t->n_processes ? t->of_process[process].oldest : NULL;
}

size_t id_table__count(const struct id_table *t)
{
	return t->count;
}
