/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The windows of captures as bit masks. A window is [begin, end). Captures are sorted by begin;
 * the first ones have a bit each, all further ones share the last. One more bit, not a capture's,
 * stands for the time range that the caller asked for.
 */
#ifndef CLIKA_USER_SESSION_WINDOWS_H
#define CLIKA_USER_SESSION_WINDOWS_H

#include "user/base/base.h"

#define WINDOW_CAPTURE_BITS 63
#define WINDOW_RANGE (1ull << 63)
#define WINDOW_CAPTURES (WINDOW_RANGE - 1)

struct window {
	uint64_t begin, end; /* end: UINT64_MAX while open */
};

struct window_end {
	uint64_t end;
	uint64_t bit;
};

struct windows {
	size_t n;
	struct window *w;        /* sorted by begin: index gives the bit */
	struct window_end *ends; /* sorted by end */
	struct window range;
};

/* @w sorted by begin; taken over. The range is everything until the caller sets it. */
int windows__init(struct windows *ws, struct window *w, size_t n);
void windows__free(struct windows *ws);
uint64_t windows__bit(size_t index);
/* Bits of the windows that begin after @from and before @to. */
uint64_t windows__find_begin_between(const struct windows *ws, uint64_t from, uint64_t to);
static inline uint64_t windows__begin_between(const struct windows *ws, uint64_t from, uint64_t to)
{
	/* Mostly all have begun long ago. */
	if (ws->range.begin <= from && (!ws->n || ws->w[ws->n - 1].begin <= from))
		return 0;
	return windows__find_begin_between(ws, from, to);
}
/* True when some window leaves out part of [first, last]. */
bool windows__cut(const struct windows *ws, uint64_t first, uint64_t last);

/* Which windows are open at one moment, for moments that never decrease. Zeroed to start. */
struct window_sweep {
	size_t next_begin, next_end;
	size_t shared; /* open ones behind the shared bit */
	uint64_t mask;
};
uint64_t window_sweep__at(struct window_sweep *s, const struct windows *ws, uint64_t now);
/* The mask is the same at every moment from the last one asked for up to before this one. */
uint64_t window_sweep__until(const struct window_sweep *s, const struct windows *ws, uint64_t now);
/* Of the windows that had not ended at that moment, does one end before @ts? */
static inline bool window_sweep__ends_before(const struct window_sweep *s, const struct windows *ws,
					     uint64_t ts)
{
	if (s->next_end < ws->n && ws->ends[s->next_end].end < ts)
		return true;
	return ws->range.end < ts;
}

#endif
