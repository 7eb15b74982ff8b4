// SPDX-License-Identifier: Apache-2.0
/*
 * A glob that matches a name in any of its forms has pieces which occur in the symbol
 * (demangle__needle). Four bytes of the longest of each are in one hash table, so a name costs a
 * lookup a byte however many globs there are; most names of a large library end here. The
 * other pieces must occur as well, lest every name with a "Tensor" in it be demangled.
 */
#include <stdlib.h>
#include <string.h>

#include "user/probe/demangle.h"
#include "user/probe/glob_set.h"

#define GRAM 4u
#define BUCKETS 4096u /* a power of two */
#define NONE UINT32_MAX

struct entry {
	char needle[64];
	uint32_t len; /* 0 = every name is a candidate */
	uint32_t at;  /* the four bytes that are in the table */
	uint32_t next;
	uint64_t seen; /* number of the name that it was found in */
	char *all;     /* demangle__needles() */
};

struct glob_set {
	struct entry *entries;
	size_t n;
	uint64_t names;
	uint32_t others; /* entries with a short needle or none */
	uint32_t buckets[BUCKETS];
};

static uint32_t bucket_of(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return (v * 2654435761u) >> 20;
}

/* Needles often begin alike ("cudaMemcpy", "cudaMemset"): of its bytes each takes those that fewest have taken. */
static uint32_t *choose_bucket(struct glob_set *s, struct entry *e, uint32_t *taken)
{
	uint32_t i, b, best = bucket_of(e->needle);

	for (i = 1; i + GRAM <= e->len; i++) {
		b = bucket_of(e->needle + i);
		if (taken[b] < taken[best]) {
			best = b;
			e->at = i;
		}
	}
	taken[best]++;
	return &s->buckets[best];
}

struct glob_set *glob_set__new(const char *const *globs, size_t n)
{
	struct glob_set *s = calloc(1, sizeof(*s));
	uint32_t taken[BUCKETS] = { 0 };
	size_t i;

	if (s)
		s->entries = calloc(n ? n : 1, sizeof(*s->entries));
	if (!s || !s->entries) {
		free(s);
		return NULL;
	}
	s->n = n;
	s->others = NONE;
	memset(s->buckets, 0xff, sizeof(s->buckets));
	for (i = 0; i < n; i++) {
		struct entry *e = &s->entries[i];
		uint32_t *head = &s->others;

		e->all = demangle__needles(globs[i]);
		if (!e->all) {
			glob_set__free(s);
			return NULL;
		}
		if (demangle__needle(globs[i], e->needle, sizeof(e->needle)))
			e->len = (uint32_t)strlen(e->needle);
		if (e->len >= GRAM)
			head = choose_bucket(s, e, taken);
		e->next = *head;
		*head = (uint32_t)i;
	}
	return s;
}

void glob_set__free(struct glob_set *s)
{
	size_t i;

	if (!s)
		return;
	for (i = 0; i < s->n; i++)
		free(s->entries[i].all);
	free(s->entries);
	free(s);
}

static bool has_all(const struct entry *e, const char *symbol)
{
	const char *piece;

	for (piece = e->all; *piece; piece += strlen(piece) + 1)
		if (!strstr(symbol, piece))
			return false;
	return true;
}

static int by_index(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* @list NULL: the first one will do. */
static size_t find(struct glob_set *s, const char *symbol, uint32_t *list)
{
	size_t len = strlen(symbol), i, found = 0;
	uint32_t at;

	s->names++;
	for (at = s->others; at != NONE; at = s->entries[at].next) {
		if (!has_all(&s->entries[at], symbol))
			continue;
		if (!list)
			return 1;
		list[found++] = at;
	}
	for (i = 0; i + GRAM <= len; i++) {
		for (at = s->buckets[bucket_of(symbol + i)]; at != NONE; at = s->entries[at].next) {
			struct entry *e = &s->entries[at];

			if (e->seen == s->names || i < e->at ||
			    strncmp(symbol + i - e->at, e->needle, e->len) != 0)
				continue;
			e->seen = s->names;
			if (!has_all(e, symbol))
				continue;
			if (!list)
				return 1;
			list[found++] = at;
		}
	}
	return found;
}

size_t glob_set__candidates(struct glob_set *s, const char *symbol, uint32_t *list)
{
	size_t n = find(s, symbol, list);

	if (n > 1)
		qsort(list, n, sizeof(*list), by_index);
	return n;
}

bool glob_set__any(struct glob_set *s, const char *symbol)
{
	return find(s, symbol, NULL);
}
