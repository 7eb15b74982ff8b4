/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"

#include <clika/markers.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HOST 0 /* the device */
#define ALIGN 64u
#define CHUNK_BYTES (1024u * 1024u)
#define N_CLASSES 88 /* 64 bytes to 224 MiB, four steps to each doubling */

struct chunk {
	struct chunk *next;
	size_t bytes, used; /* used: carved into blocks so far, this header included */
	size_t live;        /* blocks handed out */
} __attribute__((aligned(ALIGN)));

/* Lies in front of what the caller gets. */
struct block {
	struct block *next; /* in the free list of its class */
	struct chunk *chunk;
	size_t bytes; /* that the caller asked for; 0 = free */
	unsigned class;
} __attribute__((aligned(ALIGN)));

struct arena {
	pthread_mutex_t lock;
	enum pool pool;
	struct tally *tally;
	struct chunk *chunks;
	struct block *cache[N_CLASSES];
};

struct arena *arena__new(enum pool pool, struct tally *tally)
{
	struct arena *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	pthread_mutex_init(&a->lock, NULL);
	a->pool = pool;
	a->tally = tally;
	return a;
}

/*
 * A pool's name is a literal of the marker, so each pool has a marker of its own. Blocks are
 * marked under the lock, as the tally counts them: a recorder then sees them in the order in
 * which they changed hands, and the same peak.
 */
static void arena__mark_alloc(const struct arena *a, const void *at, size_t bytes)
{
	switch (a->pool) {
	case POOL_WEIGHTS:
		CLIKA_ALLOC(HOST, at, bytes, "weights");
		break;
	case POOL_REQUESTS:
		CLIKA_ALLOC(HOST, at, bytes, "requests");
		break;
	default:
		CLIKA_ALLOC(HOST, at, bytes, "activations");
		break;
	}
}

static void arena__mark_reserve(const struct arena *a, const void *at, size_t bytes)
{
	switch (a->pool) {
	case POOL_WEIGHTS:
		CLIKA_RESERVE(HOST, at, bytes, "weights");
		break;
	case POOL_REQUESTS:
		CLIKA_RESERVE(HOST, at, bytes, "requests");
		break;
	default:
		CLIKA_RESERVE(HOST, at, bytes, "activations");
		break;
	}
}

static size_t class_size(unsigned class)
{
	size_t base = (size_t)ALIGN << class / 4;
	size_t size = base + base / 4 * (class % 4);

	return (size + ALIGN - 1) / ALIGN * ALIGN;
}

static unsigned size_class(size_t bytes)
{
	unsigned class = 0;

	while (class < N_CLASSES && class_size(class) < bytes)
		class ++;
	return class;
}

static struct chunk *arena__reserve(struct arena *a, size_t room)
{
	size_t bytes = room + sizeof(struct chunk);
	struct chunk *c;

	if (bytes < CHUNK_BYTES)
		bytes = CHUNK_BYTES;
	bytes = (bytes + 4095) / 4096 * 4096;
	c = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c == MAP_FAILED)
		return NULL;
	c->bytes = bytes;
	c->used = sizeof(*c);
	c->next = a->chunks;
	a->chunks = c;
	tally__reserve(a->tally, a->pool, bytes);
	arena__mark_reserve(a, c, bytes);
	return c;
}

static struct block *arena__carve(struct arena *a, unsigned class)
{
	size_t room = sizeof(struct block) + class_size(class);
	struct chunk *c = a->chunks;
	struct block *b;

	while (c && c->bytes - c->used < room)
		c = c->next;
	if (!c)
		c = arena__reserve(a, room);
	if (!c)
		return NULL;
	b = (struct block *)((char *)c + c->used);
	c->used += room;
	b->chunk = c;
	b->class = class;
	return b;
}

void *arena__alloc(struct arena *a, size_t bytes)
{
	unsigned class;
	struct block *b;

	if (!bytes)
		bytes = 1;
	class = size_class(bytes);
	if (class == N_CLASSES)
		return NULL;

	pthread_mutex_lock(&a->lock);
	b = a->cache[class];
	if (b)
		a->cache[class] = b->next;
	else
		b = arena__carve(a, class);
	if (b) {
		b->next = NULL;
		b->bytes = bytes;
		b->chunk->live++;
		tally__alloc(a->tally, a->pool, bytes);
		arena__mark_alloc(a, b + 1, bytes);
	}
	pthread_mutex_unlock(&a->lock);
	return b ? b + 1 : NULL;
}

void arena__dealloc(struct arena *a, void *block)
{
	struct block *b;

	if (!block)
		return;
	b = (struct block *)block - 1;
	pthread_mutex_lock(&a->lock);
	if (!b->bytes)
		abort(); /* freed twice: the free list would hand it to two callers */
	tally__dealloc(a->tally, a->pool, b->bytes);
	CLIKA_FREE(HOST, block);
	b->bytes = 0;
	b->chunk->live--;
	b->next = a->cache[b->class];
	a->cache[b->class] = b;
	pthread_mutex_unlock(&a->lock);
}

static void arena__forget_blocks(struct arena *a, const struct chunk *c)
{
	for (unsigned class = 0; class < N_CLASSES; class ++) {
		struct block **at = &a->cache[class];

		while (*at) {
			if ((*at)->chunk == c)
				*at = (*at)->next;
			else
				at = &(*at)->next;
		}
	}
}

static size_t arena__trim_locked(struct arena *a)
{
	struct chunk **at = &a->chunks;
	size_t sum = 0;

	while (*at) {
		struct chunk *c = *at;

		if (c->live) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		arena__forget_blocks(a, c);
		sum += c->bytes;
		tally__release(a->tally, a->pool, c->bytes);
		CLIKA_RELEASE(HOST, c);
		munmap(c, c->bytes);
	}
	return sum;
}

size_t arena__trim(struct arena *a)
{
	size_t sum;

	pthread_mutex_lock(&a->lock);
	sum = arena__trim_locked(a);
	pthread_mutex_unlock(&a->lock);
	return sum;
}

void arena__free(struct arena *a)
{
	if (!a)
		return;
	arena__trim(a);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
