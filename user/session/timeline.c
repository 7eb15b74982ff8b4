// SPDX-License-Identifier: Apache-2.0
#include "user/session/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LOG2 10 /* a microsecond: shorter is of no use to anybody */

static void range__join(struct timeline_range *r, const struct timeline_range *later)
{
	r->last = later->last;
	r->min = later->min < r->min ? later->min : r->min;
	r->max = later->max > r->max ? later->max : r->max;
}

static void halve(struct timeline *t)
{
	struct timeline_slot *to, *from;
	uint32_t i;
	int v;

	for (i = 0; i < t->n; i++) {
		to = &t->slots[i / 2];
		from = &t->slots[i];
		if (to == from)
			continue;
		if (i % 2 == 0) {
			*to = *from;
		} else if (from->seen && to->seen) {
			for (v = 0; v < TIMELINE_VALUES; v++)
				range__join(&to->of[v], &from->of[v]);
		} else if (from->seen) {
			*to = *from;
		}
	}
	t->n = (t->n + 1) / 2;
	memset(t->slots + t->n, 0, (TIMELINE_POINTS - t->n) * sizeof(*t->slots));
	t->log2++;
}

static void slot__take(struct timeline *t, struct timeline_slot *s, const int64_t *values)
{
	int v;

	for (v = 0; v < TIMELINE_VALUES; v++) {
		struct timeline_range now = { values[v], values[v], values[v] };

		if (!s->seen)
			s->of[v] = (struct timeline_range){ t->last[v], t->last[v], t->last[v] };
		range__join(&s->of[v], &now);
		t->last[v] = values[v];
	}
	s->seen = true;
}

int timeline__add(struct timeline *t, uint64_t ts, int64_t in_use, int64_t reserved)
{
	int64_t values[TIMELINE_VALUES] = { in_use, reserved };
	uint64_t at;

	if (!t->slots) {
		t->slots = calloc(TIMELINE_POINTS, sizeof(*t->slots));
		if (!t->slots)
			return -ENOMEM;
		t->begin = ts;
		t->log2 = FIRST_LOG2;
		memcpy(t->last, values, sizeof(t->last));
	}
	at = ts > t->begin ? ts - t->begin : 0;
	while (at >> t->log2 >= TIMELINE_POINTS)
		halve(t);
	at >>= t->log2;
	slot__take(t, &t->slots[at], values);
	if (at >= t->n)
		t->n = (uint32_t)at + 1;
	return 0;
}

void timeline__free(struct timeline *t)
{
	free(t->slots);
	memset(t, 0, sizeof(*t));
}
