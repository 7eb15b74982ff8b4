// SPDX-License-Identifier: Apache-2.0
#include "user/base/base.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 65536
static const char FULL_NAME[] = "(too many distinct names)";

struct strpool_entry {
	const char *str;
	uint32_t len;
	uint32_t hash;
};

struct strpool_chunk {
	struct strpool_chunk *next;
	size_t used, cap;
	char data[];
};

/*
 * Strings lie in chunks that never move, so strpool__str() stays valid while the pool grows.
 * The table holds ids; its size is a power of two and at most 2/3 full.
 */
struct strpool {
	struct strpool_entry *entries; /* by id; [0] is "" */
	uint32_t n, cap;
	uint32_t *table;
	uint32_t mask;
	struct strpool_chunk *chunks;
	size_t bytes, max_strings, max_bytes;
	uint64_t seed;
	uint32_t full_id; /* outside both limits, so that the pool can always say it is full */
};

struct strpool *strpool__new(size_t max_strings, size_t max_bytes)
{
	struct strpool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	/* ids are 32 bits; one is kept for the string that says the pool is full */
	if (!max_strings || max_strings > UINT32_MAX - 2)
		max_strings = UINT32_MAX - 2;
	p->max_strings = max_strings;
	p->max_bytes = max_bytes ? max_bytes : SIZE_MAX;
	p->seed = hash__seed();
	p->cap = 64;
	p->mask = 127;
	p->entries = calloc(p->cap, sizeof(*p->entries));
	p->table = calloc((size_t)p->mask + 1, sizeof(*p->table));
	if (!p->entries || !p->table) {
		strpool__free(p);
		return NULL;
	}
	p->entries[0].str = "";
	return p;
}

void strpool__free(struct strpool *p)
{
	struct strpool_chunk *c, *next;

	if (!p)
		return;
	for (c = p->chunks; c; c = next) {
		next = c->next;
		free(c);
	}
	free(p->entries);
	free(p->table);
	free(p);
}

static char *strpool__store(struct strpool *p, const char *s, size_t len)
{
	struct strpool_chunk *c = p->chunks;
	char *to;

	if (!c || c->cap - c->used < len + 1) {
		size_t cap = len + 1 > CHUNK_BYTES / 4 ? len + 1 : CHUNK_BYTES;

		c = malloc(sizeof(*c) + cap);
		if (!c)
			return NULL;
		c->used = 0;
		c->cap = cap;
		if (cap != CHUNK_BYTES && p->chunks) {
			/* a large string gets a chunk behind the one that is being filled */
			c->next = p->chunks->next;
			p->chunks->next = c;
		} else {
			c->next = p->chunks;
			p->chunks = c;
		}
	}
	to = c->data + c->used;
	if (len)
		memcpy(to, s, len);
	to[len] = '\0';
	c->used += len + 1;
	return to;
}

static int strpool__grow(struct strpool *p)
{
	if (p->n + 2 > p->cap) {
		size_t cap = (size_t)p->cap * 2;
		struct strpool_entry *e;

		if (cap > UINT32_MAX)
			cap = UINT32_MAX;
		e = realloc(p->entries, cap * sizeof(*e));
		if (!e)
			return -1;
		p->entries = e;
		p->cap = (uint32_t)cap;
	}
	if ((uint64_t)p->n + 1 > ((uint64_t)p->mask + 1) * 2 / 3 && p->mask < UINT32_MAX / 2) {
		uint32_t mask = p->mask * 2 + 1, id, at;
		uint32_t *table = calloc((size_t)mask + 1, sizeof(*table));

		if (!table)
			return -1;
		for (id = 1; id <= p->n; id++) {
			for (at = p->entries[id].hash & mask; table[at]; at = (at + 1) & mask)
				;
			table[at] = id;
		}
		free(p->table);
		p->table = table;
		p->mask = mask;
	}
	return 0;
}

static uint32_t strpool__find(const struct strpool *p, const char *s, size_t len, uint32_t hash)
{
	uint32_t at = hash & p->mask, id;

	for (; (id = p->table[at]); at = (at + 1) & p->mask) {
		const struct strpool_entry *e = &p->entries[id];

		if (e->hash == hash && e->len == len && !memcmp(e->str, s, len))
			return id;
	}
	return 0;
}

static uint32_t strpool__add(struct strpool *p, const char *s, size_t len, bool limited)
{
	uint64_t h = hash__mix(hash__bytes(s, len, p->seed), len);
	uint32_t hash = (uint32_t)(h ^ (h >> 32)), slot, id;
	char *str;

	id = strpool__find(p, s, len, hash);
	if (id)
		return id;
	if (limited && (p->n - (p->full_id ? 1 : 0) >= p->max_strings || len >= UINT32_MAX ||
			len > p->max_bytes || p->bytes > p->max_bytes - len)) {
		if (!p->full_id)
			p->full_id = strpool__add(p, FULL_NAME, sizeof(FULL_NAME) - 1, false);
		return p->full_id;
	}
	if (strpool__grow(p))
		return 0;
	str = strpool__store(p, s, len);
	if (!str)
		return 0;
	id = ++p->n;
	p->entries[id] = (struct strpool_entry){ str, (uint32_t)len, hash };
	/* found anew, because the table may have grown */
	for (slot = hash & p->mask; p->table[slot]; slot = (slot + 1) & p->mask)
		;
	p->table[slot] = id;
	p->bytes += len;
	return id;
}

uint32_t strpool__id(struct strpool *p, const char *s, size_t len)
{
	return strpool__add(p, len ? s : "", len, true);
}

uint32_t strpool__ids(struct strpool *p, const char *s)
{
	return s ? strpool__id(p, s, strlen(s)) : 0;
}

const char *strpool__str(const struct strpool *p, uint32_t id)
{
	return id <= p->n ? p->entries[id].str : "";
}

size_t strpool__len(const struct strpool *p, uint32_t id)
{
	return id <= p->n ? p->entries[id].len : 0;
}

uint32_t strpool__count(const struct strpool *p)
{
	return p->n;
}
