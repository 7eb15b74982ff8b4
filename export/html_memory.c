// SPDX-License-Identifier: Apache-2.0
/* What changes over time: memory and counters. */
#include "export/html_parts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 10
#define MAX_POOLS 200

/* --- memory ------------------------------------------------------------------------------------ */

/* Of each slot in which something changed: when, then least, greatest, last of both balances. */
static void put_timeline(struct html *h, const struct timeline *t)
{
	uint32_t i;
	int v;

	json__key(&h->j, "points");
	json__array(&h->j);
	for (i = 0; i < t->n; i++) {
		const struct timeline_slot *s = &t->slots[i];
		uint64_t at = t->begin + ((uint64_t)i << t->log2);

		if (!s->seen)
			continue;
		json__u64(&h->j, at > h->spans.origin ? at - h->spans.origin : 0);
		for (v = 0; v < TIMELINE_VALUES; v++) {
			json__i64(&h->j, s->of[v].min);
			json__i64(&h->j, s->of[v].max);
			json__i64(&h->j, s->of[v].last);
		}
	}
	json__end_array(&h->j);
	html__u64(h, "slot", 1ull << t->log2);
}

static void put_device(struct html *h, const struct memory_stats *m)
{
	json__object(&h->j);
	html__u64(h, "pid", m->track->pid);
	html__cstr(h, "comm", m->track->proc->comm);
	html__u64(h, "device", m->device);
	html__text(h, "name", m->device_name);
	html__i64(h, "baseline", m->baseline);
	html__i64(h, "current", m->current);
	html__i64(h, "peak", m->peak);
	html__at(h, "peakAt", m->peak_at);
	html__i64(h, "reserved", m->reserved);
	html__i64(h, "reservedPeak", m->reserved_peak);
	html__u64(h, "allocs", m->allocs);
	html__u64(h, "allocBytes", m->alloc_bytes);
	html__u64(h, "frees", m->frees);
	html__u64(h, "freedBytes", m->freed_bytes);
	html__u64(h, "olderFrees", m->older_frees);
	html__u64(h, "reserves", m->reserves);
	html__u64(h, "releases", m->releases);
	html__u64(h, "unfreedBlocks", m->unfreed.blocks);
	html__u64(h, "unfreedBytes", m->unfreed.bytes);
	put_timeline(h, &m->time);
	json__end_object(&h->j);
}

static bool in_use(const struct memory_stats *m)
{
	return m->allocs || m->frees || m->reserves || m->releases;
}

static void put_pools(struct html *h)
{
	size_t i, n = 0;

	json__key(&h->j, "pools");
	json__array(&h->j);
	for (i = 0; i < h->st->n_pools && n < MAX_POOLS; i++) {
		const struct pool_stats *p = &h->st->pools[i];
		const struct memory_stats *m = &h->st->memory[p->memory];

		n++;
		json__object(&h->j);
		html__u64(h, "pid", m->track->pid);
		html__u64(h, "device", m->device);
		html__text(h, "name", p->pool);
		html__i64(h, "current", p->current);
		html__i64(h, "peak", p->peak);
		html__u64(h, "allocs", p->allocs);
		html__u64(h, "allocBytes", p->alloc_bytes);
		html__u64(h, "frees", p->frees);
		html__i64(h, "reservedPeak", p->reserved_peak);
		json__end_object(&h->j);
	}
	json__end_array(&h->j);
}

void html__put_memory(struct html *h)
{
	size_t i, n = 0;

	json__key(&h->j, "memory");
	json__array(&h->j);
	for (i = 0; i < h->st->n_memory; i++)
		if (in_use(&h->st->memory[i]) && n++ < MAX_DEVICES)
			put_device(h, &h->st->memory[i]);
	json__end_array(&h->j);
	html__u64(h, "nMemory", n);
	put_pools(h);
	html__flush(h);
}

/* --- counters ---------------------------------------------------------------------------------- */

static struct html_series *series_of(struct html *h, const struct item *it, int *err)
{
	uint64_t key = (uint64_t)it->track->process << 32 | it->ev->name;
	uint64_t *at = map64__get(h->series_of, key);
	struct html_series *s;

	*err = 0;
	if (at)
		return &h->series[*at];
	if (h->n_series == HTML_MAX_COUNTERS)
		return NULL;
	s = &h->series[h->n_series];
	*s = (struct html_series){ it->track, it->ev->name,
				   calloc(HTML_COUNTER_SLOTS, sizeof(*s->slots)) };
	if (!s->slots || !map64__put(h->series_of, key, h->n_series)) {
		free(s->slots);
		*err = -ENOMEM;
		return NULL;
	}
	h->n_series++;
	return s;
}

int html__counter(struct html *h, const struct item *it)
{
	uint64_t from = it->ts > session__begin(h->s) ? it->ts - session__begin(h->s) : 0, slot;
	struct html_series *series;
	struct html_sample *s;
	double v;
	int err;

	if (it->ev->kind == EV_COUNTER_I64)
		v = (double)(int64_t)it->ev->value;
	else
		memcpy(&v, &it->ev->value, sizeof(v));
	series = series_of(h, it, &err);
	if (!series || !isfinite((float)v)) {
		h->lost_series += !err;
		return err;
	}
	slot = from >= h->spans.length
		       ? HTML_COUNTER_SLOTS - 1
		       : (uint64_t)((unsigned __int128)from * HTML_COUNTER_SLOTS / h->spans.length);
	s = &series->slots[slot];
	if (!s->seen)
		*s = (struct html_sample){ true, (float)v, (float)v, (float)v };
	s->last = (float)v;
	s->min = s->last < s->min ? s->last : s->min;
	s->max = s->last > s->max ? s->last : s->max;
	return 0;
}

/* Nine digits tell any float apart from the next. */
static void put_float(struct html *h, float v)
{
	char text[32], *comma;
	int n = snprintf(text, sizeof(text), "%.9g", (double)v);

	/* The host program's locale may write a comma. */
	comma = memchr(text, ',', (size_t)n);
	if (comma)
		*comma = '.';
	json__raw(&h->j, text, (size_t)n);
}

static void put_series(struct html *h, const struct html_series *s)
{
	uint32_t i;

	json__object(&h->j);
	html__u64(h, "process", s->track->process);
	html__u64(h, "pid", s->track->pid);
	html__text(h, "name", s->name);
	json__key(&h->j, "points");
	json__array(&h->j);
	for (i = 0; i < HTML_COUNTER_SLOTS; i++) {
		if (!s->slots[i].seen)
			continue;
		json__u64(&h->j, i);
		put_float(h, s->slots[i].min);
		put_float(h, s->slots[i].max);
		put_float(h, s->slots[i].last);
	}
	json__end_array(&h->j);
	json__end_object(&h->j);
}

void html__put_counters(struct html *h)
{
	uint32_t i;

	json__key(&h->j, "counters");
	json__array(&h->j);
	for (i = 0; i < h->n_series; i++)
		put_series(h, &h->series[i]);
	json__end_array(&h->j);
	html__u64(h, "counterSlots", HTML_COUNTER_SLOTS);
	html__u64(h, "lostCounters", h->lost_series);
	html__flush(h);
}
