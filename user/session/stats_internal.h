/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIKA_USER_SESSION_STATS_INTERNAL_H
#define CLIKA_USER_SESSION_STATS_INTERNAL_H

#include "user/session/stats.h"
#include "user/session/windows.h"

enum stats_table {
	TABLE_OPS,
	TABLE_WAITS,
	TABLE_ASYNCS,
	TABLE_REQUESTS,
	TABLE_MEMORY,
	TABLE_POOLS,
	TABLE_COUNT,
};

struct stats_index {
	struct map64 *of[TABLE_COUNT]; /* key -> index */
	size_t cap[TABLE_COUNT];
	struct window *observed; /* disjoint, sorted */
	size_t n_observed;
};

/* stats_warn.c: everything that deserves a line, judged after the walk. */
int stats__warn(struct stats *st);

#endif
