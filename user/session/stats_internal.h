/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIKA_USER_SESSION_STATS_INTERNAL_H
#define CLIKA_USER_SESSION_STATS_INTERNAL_H

#include "user/session/stats.h"
#include "user/session/windows.h"

enum stats_table {
	TABLE_OPS,
	TABLE_TYPES,
	TABLE_TAG_OPS,
	TABLE_WAITS,
	TABLE_ASYNCS,
	TABLE_REQUESTS,
	TABLE_COUNTERS,
	TABLE_MEMORY,
	TABLE_POOLS,
	TABLE_MEMORY_OPS,
	TABLE_CAPTURE_MEMORY,
	TABLE_CAPTURE_MEMORY_OPS,
	TABLE_COUNT,
};

#define STATS_ROLES 7
#define ROLE_FLOPS OP_TEXTS
/* How far out a span of the same operation is looked for, to count what is recursive once. */
#define STATS_LOOK 64

struct stats_role { /* what an argument's name says */
	uint32_t key;
	int role; /* enum op_text, ROLE_FLOPS */
};

#define RECENT_OPS 256 /* a power of two */

struct stats_index {
	struct map64 *of[TABLE_COUNT]; /* key -> index */
	size_t cap[TABLE_COUNT];
	struct { /* found last: most events are about what the one before was about */
		uint64_t key;
		size_t at; /* one more than the index, 0 = nothing yet */
	} last[TABLE_COUNT];
	struct {
		uint32_t name, cat;
		size_t at; /* the same */
	} recent_ops[RECENT_OPS];
	struct window *observed; /* disjoint, sorted */
	size_t n_observed;
	struct stats_role role[STATS_ROLES];
	size_t n_roles;
	uint8_t tag_of[64]; /* bit of a capture -> index into stats.tags */
	uint64_t known;     /* bits of captures that are told apart */
	bool one_tag;       /* and everything belongs to it */
};

/*
 * Index of @key in the table, a zeroed row when it is new (*@fresh). @rows and @n are the
 * table's members of struct stats. SIZE_MAX: out of memory.
 */
size_t stats__row(struct stats *st, enum stats_table table, uint64_t key, void **rows, size_t *n,
		  size_t bytes, bool *fresh);
#define STATS_ROW(st, table, key, member, n, fresh)                                                \
	stats__row(st, table, key, (void **)&(st)->member, &(st)->n, sizeof(*(st)->member), fresh)

/* Sums stop at the end of the scale. */
static inline void stats__add(uint64_t *sum, uint64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = UINT64_MAX;
}

/* Index into stats.ops, a new row for a new operation. SIZE_MAX: out of memory. */
size_t stats__op(struct stats *st, uint32_t name, uint32_t cat);

/* stats_memory.c */
int stats__memory(struct stats *st, const struct item *it);
int stats__device_name(struct stats *st, const struct item *it);
void stats__free_memory(struct stats *st);

/* stats_values.c */
int stats__counter(struct stats *st, const struct item *it);
void stats__plan_args(struct stats *st);
int stats__args(struct stats *st, struct op_stats *op, const struct event *ev);

/* stats_order.c */
int stats__order(struct stats *st);

/* stats_warn.c: everything that deserves a line, judged after the walk. */
int stats__warn(struct stats *st);

#endif
