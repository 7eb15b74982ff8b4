// SPDX-License-Identifier: Apache-2.0
#include "user/base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { SLOT_FREE, SLOT_USED, SLOT_GONE };

struct map64_slot {
	uint64_t key, value;
};

/*
 * Linear probing. A removed slot becomes SLOT_GONE, never shifted, so that the key just returned
 * by map64__next() may be removed during the iteration. Rehashing sizes by what is there: a map
 * under steady churn does not grow.
 */
struct map64 {
	struct map64_slot *slots;
	uint8_t *state;
	size_t mask, count, gone;
	uint64_t seed; /* keys may be chosen by who wants the map to be slow */
};

static uint64_t mix64(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	return x;
}

uint64_t hash__bytes(const void *p, size_t n, uint64_t seed)
{
	const uint8_t *b = p;
	uint64_t h = 0xcbf29ce484222325ull ^ seed;
	size_t i;

	for (i = 0; i < n; i++)
		h = (h ^ b[i]) * 0x100000001b3ull;
	return h;
}

uint64_t hash__seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
		seed = clock__boottime_ns() ^ (uintptr_t)&seed;
	return seed;
}

uint64_t hash__mix(uint64_t a, uint64_t b)
{
	return mix64(mix64(a) + 0x9e3779b97f4a7c15ull + b);
}

static int map64__resize(struct map64 *m, size_t slots)
{
	struct map64_slot *old = m->slots, *s = calloc(slots, sizeof(*s));
	uint8_t *old_state = m->state, *state = calloc(slots, 1);
	size_t i, at, n = old ? m->mask + 1 : 0;

	if (!s || !state) {
		free(s);
		free(state);
		return -1;
	}
	for (i = 0; i < n; i++) {
		if (old_state[i] != SLOT_USED)
			continue;
		for (at = mix64(old[i].key ^ m->seed) & (slots - 1); state[at];
		     at = (at + 1) & (slots - 1))
			;
		state[at] = SLOT_USED;
		s[at] = old[i];
	}
	free(old);
	free(old_state);
	m->slots = s;
	m->state = state;
	m->mask = slots - 1;
	m->gone = 0;
	return 0;
}

struct map64 *map64__new(void)
{
	struct map64 *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->seed = hash__seed();
	if (map64__resize(m, 16)) {
		free(m);
		return NULL;
	}
	return m;
}

void map64__free(struct map64 *m)
{
	if (!m)
		return;
	free(m->slots);
	free(m->state);
	free(m);
}

uint64_t *map64__get(const struct map64 *m, uint64_t key)
{
	size_t at = mix64(key ^ m->seed) & m->mask;

	for (; m->state[at] != SLOT_FREE; at = (at + 1) & m->mask)
		if (m->state[at] == SLOT_USED && m->slots[at].key == key)
			return &m->slots[at].value;
	return NULL;
}

uint64_t *map64__put(struct map64 *m, uint64_t key, uint64_t value)
{
	uint64_t *have = map64__get(m, key);
	size_t at, slots;

	if (have) {
		*have = value;
		return have;
	}
	if ((m->count + m->gone + 1) * 4 > (m->mask + 1) * 3) {
		for (slots = 16; slots < (m->count + 1) * 2; slots *= 2)
			;
		if (map64__resize(m, slots))
			return NULL;
	}
	for (at = mix64(key ^ m->seed) & m->mask; m->state[at] == SLOT_USED;
	     at = (at + 1) & m->mask)
		;
	if (m->state[at] == SLOT_GONE)
		m->gone--;
	m->state[at] = SLOT_USED;
	m->slots[at] = (struct map64_slot){ key, value };
	m->count++;
	return &m->slots[at].value;
}

bool map64__del(struct map64 *m, uint64_t key)
{
	uint64_t *have = map64__get(m, key);
	size_t at;

	if (!have)
		return false;
	at = (size_t)((struct map64_slot *)((char *)have - offsetof(struct map64_slot, value)) -
		      m->slots);
	if (m->state[(at + 1) & m->mask] == SLOT_FREE) {
		m->state[at] = SLOT_FREE;
	} else {
		m->state[at] = SLOT_GONE;
		m->gone++;
	}
	m->count--;
	return true;
}

size_t map64__count(const struct map64 *m)
{
	return m->count;
}

bool map64__next(const struct map64 *m, size_t *it, uint64_t *key, uint64_t **value)
{
	size_t at;

	for (at = *it; at <= m->mask; at++) {
		if (m->state[at] != SLOT_USED)
			continue;
		*it = at + 1;
		if (key)
			*key = m->slots[at].key;
		if (value)
			*value = &m->slots[at].value;
		return true;
	}
	*it = m->mask + 1;
	return false;
}

void map64__clear(struct map64 *m)
{
	memset(m->state, SLOT_FREE, m->mask + 1);
	m->count = m->gone = 0;
}
