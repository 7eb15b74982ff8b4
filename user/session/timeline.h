/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two balances over time in at most TIMELINE_POINTS points, whatever happens in between: time is
 * cut into slots of equal length, and each keeps the least, the greatest and the last value. When
 * slots run out, neighbours become one of twice the length, so that no extreme is ever lost.
 */
#ifndef CLIKA_USER_SESSION_TIMELINE_H
#define CLIKA_USER_SESSION_TIMELINE_H

#include "user/base/base.h"

#define TIMELINE_POINTS 1000

enum timeline_value { TIMELINE_IN_USE, TIMELINE_RESERVED, TIMELINE_VALUES };

struct timeline_range {
	int64_t last, min, max; /* min and max take in what was there when the slot began */
};

struct timeline_slot {
	bool seen; /* something changed in it */
	struct timeline_range of[TIMELINE_VALUES];
};

struct timeline {
	uint64_t begin;    /* ns: of slot 0 */
	unsigned int log2; /* a slot is 1 << log2 ns long */
	uint32_t n;        /* slots up to the last seen one */
	int64_t last[TIMELINE_VALUES];
	struct timeline_slot *slots;
};

/* Times never decrease. 0 or -ENOMEM. */
int timeline__add(struct timeline *t, uint64_t ts, int64_t in_use, int64_t reserved);
void timeline__free(struct timeline *t);

#endif
