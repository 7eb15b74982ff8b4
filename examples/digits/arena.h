/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A caching allocator: takes chunks from the system, hands out blocks of them, keeps freed blocks
 * for the next caller of that size. Blocks are aligned to 64 bytes. Safe from any thread.
 */
#ifndef DIGITS_ARENA_H
#define DIGITS_ARENA_H

#include "tally.h"

struct arena;

struct arena *arena__new(enum pool pool, struct tally *tally);
/* Every block must be back. */
void arena__free(struct arena *a);

void *arena__alloc(struct arena *a, size_t bytes); /* NULL: no memory, or too large */
void arena__dealloc(struct arena *a, void *block); /* NULL is fine */
/* Returns unused chunks to the system; how many bytes that was. */
size_t arena__trim(struct arena *a);

#endif
