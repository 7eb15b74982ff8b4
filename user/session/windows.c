// SPDX-License-Identifier: Apache-2.0
#include "user/session/windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHARED_INDEX (WINDOW_CAPTURE_BITS - 1)
#define SHARED_BIT (1ull << SHARED_INDEX)

uint64_t windows__bit(size_t index)
{
	return index < SHARED_INDEX ? 1ull << index : SHARED_BIT;
}

static int by_end(const void *a, const void *b)
{
	const struct window_end *x = a, *y = b;

	return x->end < y->end ? -1 : x->end > y->end;
}

int windows__init(struct windows *ws, struct window *w, size_t n)
{
	size_t i;

	memset(ws, 0, sizeof(*ws));
	ws->w = w;
	ws->n = n;
	ws->range.end = UINT64_MAX;
	if (!n)
		return 0;
	ws->ends = calloc(n, sizeof(*ws->ends));
	if (!ws->ends)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		ws->ends[i] = (struct window_end){ w[i].end, windows__bit(i) };
	qsort(ws->ends, n, sizeof(*ws->ends), by_end);
	return 0;
}

void windows__free(struct windows *ws)
{
	free(ws->w);
	free(ws->ends);
	memset(ws, 0, sizeof(*ws));
}

/* First index whose begin is greater than (or, with @equal, not less than) @ts. */
static size_t first_begin(const struct windows *ws, uint64_t ts, bool equal)
{
	size_t lo = 0, hi = ws->n, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (ws->w[mid].begin < ts || (!equal && ws->w[mid].begin == ts))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

uint64_t windows__find_begin_between(const struct windows *ws, uint64_t from, uint64_t to)
{
	uint64_t mask = 0;
	size_t lo, hi;

	if (ws->range.begin > from && ws->range.begin < to)
		mask |= WINDOW_RANGE;
	if (!ws->n || ws->w[ws->n - 1].begin <= from)
		return mask;
	lo = first_begin(ws, from, false);
	hi = first_begin(ws, to, true);
	if (hi > lo && hi > SHARED_INDEX)
		mask |= SHARED_BIT;
	if (hi > SHARED_INDEX)
		hi = SHARED_INDEX;
	if (hi > lo)
		mask |= ((1ull << hi) - 1) & ~((1ull << lo) - 1);
	return mask;
}

bool windows__cut(const struct windows *ws, uint64_t first, uint64_t last)
{
	size_t i;

	if (ws->range.begin > first || ws->range.end <= last)
		return true;
	for (i = 0; i < ws->n; i++)
		if (ws->w[i].begin > first || ws->w[i].end <= last)
			return true;
	return false;
}

uint64_t window_sweep__at(struct window_sweep *s, const struct windows *ws, uint64_t now)
{
	uint64_t mask;

	for (; s->next_begin < ws->n && ws->w[s->next_begin].begin <= now; s->next_begin++) {
		s->mask |= windows__bit(s->next_begin);
		if (s->next_begin >= SHARED_INDEX)
			s->shared++;
	}
	/* A window ends no earlier than it begins, so its begin has been seen above. */
	for (; s->next_end < ws->n && ws->ends[s->next_end].end <= now; s->next_end++) {
		if (ws->ends[s->next_end].bit != SHARED_BIT || --s->shared == 0)
			s->mask &= ~ws->ends[s->next_end].bit;
	}
	mask = s->mask;
	if (now >= ws->range.begin && now < ws->range.end)
		mask |= WINDOW_RANGE;
	return mask;
}

uint64_t window_sweep__until(const struct window_sweep *s, const struct windows *ws, uint64_t now)
{
	uint64_t until = UINT64_MAX;

	if (s->next_begin < ws->n)
		until = ws->w[s->next_begin].begin;
	if (s->next_end < ws->n && ws->ends[s->next_end].end < until)
		until = ws->ends[s->next_end].end;
	if (ws->range.begin > now && ws->range.begin < until)
		until = ws->range.begin;
	if (ws->range.end > now && ws->range.end < until)
		until = ws->range.end;
	return until;
}
