// SPDX-License-Identifier: Apache-2.0
#include "export/perfetto_flows.h"

#include <errno.h>
#include <stdlib.h>

/* Beyond this the places of flows are forgotten, and arrows get instants. */
#define MAX_FLOWS (1u << 19)

struct pf_arrow {
	uint64_t id;
	uint32_t depth; /* of its span */
	bool last;
};

struct pf_place { /* of the newest step of a flow */
	uint64_t begin,
		end;     /* of the slice that carries the arrow; free: begin leads to the next */
	uint64_t ts, id; /* of the step, and of the arrow that leaves there */
};

int pf_flows__init(struct pf_flows *f, uint64_t seed)
{
	*f = (struct pf_flows){ .at = map64__new(), .seed = seed };
	return f->at ? 0 : -ENOMEM;
}

void pf_flows__free(struct pf_flows *f)
{
	map64__free(f->at);
	free(f->places);
}

static void *grow(void *array, size_t n, size_t *cap, size_t bytes)
{
	void *bigger;

	if (n < *cap)
		return array;
	bigger = realloc(array, (*cap ? *cap * 2 : 16) * bytes);
	if (bigger)
		*cap = *cap ? *cap * 2 : 16;
	return bigger;
}

/*
 * An arrow is known by the flow and by the moment that it leaves; a second one of that moment by
 * the one before.
 */
static uint64_t arrow_id(const struct pf_flows *f, const struct item *it, uint64_t leaves,
			 const struct pf_place *before)
{
	uint64_t id = before && before->ts == leaves ? hash__mix(before->id, leaves)
						     : hash__mix(f->seed ^ it->flow_key, leaves);

	return id ? id : 1;
}

static const struct open_span *written_span(const struct open_span *span)
{
	while (span && span->depth >= PF_MAX_DEPTH)
		span = span->parent;
	return span;
}

/* --- places ---------------------------------------------------------------------------------- */

static struct pf_place *place_of(const struct pf_flows *f, const struct item *it)
{
	const uint64_t *at = map64__get(f->at, it->flow_key);

	return at ? &f->places[*at] : NULL;
}

static struct pf_place *new_place(struct pf_flows *f, uint64_t key)
{
	struct pf_place *bigger;
	uint64_t index = f->free - 1;

	if (f->free) {
		f->free = f->places[index].begin;
	} else {
		if (f->n >= MAX_FLOWS) {
			map64__clear(f->at);
			f->n = 0;
		}
		bigger = grow(f->places, f->n, &f->cap, sizeof(*bigger));
		if (!bigger)
			return NULL;
		f->places = bigger;
		index = f->n++;
	}
	return map64__put(f->at, key, index) ? &f->places[index] : NULL;
}

void pf_flows__over(struct pf_flows *f, const struct item *it)
{
	struct pf_place *place = place_of(f, it);

	if (!place)
		return;
	place->begin = f->free;
	f->free = (uint64_t)(place - f->places) + 1;
	map64__del(f->at, it->flow_key);
}

/* --- arrows ---------------------------------------------------------------------------------- */

static bool hang(struct pf_flows *f, struct pf_arrows *a, const struct open_span *span, uint64_t id,
		 bool last)
{
	struct pf_arrow *bigger;
	size_t i, same = 0;

	for (i = a->n; i && a->at[i - 1].depth == span->depth && same < PF_MAX_ARROWS; i--)
		same++;
	if (same == PF_MAX_ARROWS)
		return false;
	bigger = grow(a->at, a->n, &a->cap, sizeof(*bigger));
	if (!bigger) {
		f->err = -ENOMEM;
		return true;
	}
	a->at = bigger;
	a->at[a->n++] = (struct pf_arrow){ id, span->depth, last };
	return true;
}

/*
 * Readers point an arrow at the slice that began later, whatever the flow says. Where that would
 * turn it round, or where nothing is known of its tail, an instant marks the true moment. An
 * arrow may be declared the last only if its tail is read before.
 */
bool pf_flows__arrive(struct pf_flows *f, struct pf_arrows *a, const struct item *it, uint64_t *id)
{
	const struct open_span *span = written_span(it->span);
	const struct pf_place *from = place_of(f, it);
	uint64_t end = span->ev.ts + span->ev.dur;
	bool after = from && from->end < end;

	*id = from ? from->id : arrow_id(f, it, it->flow_from_ts, NULL);
	if (!from || from->begin > span->ev.ts || (from->begin == span->ev.ts && !after))
		return false;
	return hang(f, a, span, *id, it->flow_last && after);
}

bool pf_flows__leave(struct pf_flows *f, struct pf_arrows *a, const struct item *it, uint64_t *id)
{
	const struct open_span *span = written_span(it->span);
	struct pf_place *place = place_of(f, it);
	bool hangs;

	*id = arrow_id(f, it, it->ts, place);
	hangs = hang(f, a, span, *id, false);
	if (!place)
		place = new_place(f, it->flow_key);
	if (!place)
		f->err = -ENOMEM;
	else if (hangs)
		*place = (struct pf_place){ span->ev.ts, span->ev.ts + span->ev.dur, it->ts, *id };
	else
		*place = (struct pf_place){ it->ts, it->ts, it->ts, *id };
	return hangs;
}

void pf_arrows__take(struct pf_arrows *a, uint32_t depth, uint64_t *ids, size_t *n, uint64_t *last,
		     size_t *n_last)
{
	const struct pf_arrow *arrow;

	*n = *n_last = 0;
	while (a->n && a->at[a->n - 1].depth >= depth) {
		arrow = &a->at[--a->n];
		if (*n + *n_last == PF_MAX_ARROWS)
			continue;
		if (arrow->last)
			last[(*n_last)++] = arrow->id;
		else
			ids[(*n)++] = arrow->id;
	}
}
