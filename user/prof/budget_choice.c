// SPDX-License-Identifier: Apache-2.0
/*
 * Which functions go when probes cost more than they may:
 *
 *  - first functions whose calls take less than twice what their own probes cost: they tell of the
 *    probes more than of themselves; the most frequent first, until the estimate is half of the
 *    budget, so that a little more work does not pass it again at once;
 *  - then, only while it is above the budget, by the time that they account for per cost, least first.
 *
 * Functions whose probes cost less than a hundredth of what is too much come after these: without the calls that
 * hold the others the picture has no frame, and little is won.
 *
 * Functions that say more than a span go last and all at once.
 */
#include "user/prof/budget_choice.h"

#include <stdlib.h>

static int by_worth(const void *x, const void *y)
{
	const struct candidate *a = x, *b = y;
	double wa, wb;

	if (a->does != b->does)
		return a->does ? 1 : -1;
	if (a->small != b->small)
		return a->small ? 1 : -1;
	if (a->cheap != b->cheap)
		return a->cheap ? -1 : 1;
	if (a->cheap)
		return a->calls > b->calls ? -1 : a->calls < b->calls;
	wa = a->cost > 0 ? (double)a->self_ns / a->cost : 0;
	wb = b->cost > 0 ? (double)b->self_ns / b->cost : 0;
	return wa < wb ? -1 : wa > wb;
}

static bool goes_early(const struct candidate *c)
{
	return c->cheap && !c->small && !c->does;
}

size_t budget__choose(struct candidate *all, size_t n, double cost, double allowed)
{
	double left = cost;
	size_t taken = 0;

	for (size_t i = 0; i < n; i++)
		all[i].small = all[i].cost * 100 < cost - allowed;
	qsort(all, n, sizeof(*all), by_worth);
	while (taken < n && (left > (goes_early(&all[taken]) ? allowed / 2 : allowed) ||
			     (taken && all[taken - 1].does)))
		left -= all[taken++].cost;
	return taken;
}
