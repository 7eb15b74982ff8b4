// SPDX-License-Identifier: Apache-2.0
/*
 * Memory by process and device, by pool, by the operation that asked for it and by capture.
 *
 * What was held at the peak is known without a copy at each new peak: a row is stamped with the
 * peak it was last changed after, and remembers what it held then. One that has not changed since
 * the last peak still holds what it held there.
 */
#include "user/session/stats_internal.h"

#include <errno.h>
#include <stdlib.h>

static int64_t signed_bytes(uint64_t bytes)
{
	return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

static void sum__add(int64_t *sum, int64_t bytes)
{
	if (__builtin_add_overflow(*sum, bytes, sum))
		*sum = bytes > 0 ? INT64_MAX : 0;
	if (*sum < 0)
		*sum = 0;
}

/* --- what is held ---------------------------------------------------------------------------- */

static void held__touch(struct held *h, const struct memory_stats *m)
{
	if (h->stamp == m->peaks)
		return;
	h->at_peak = h->bytes;
	h->stamp = m->peaks;
}

static void held__take(struct held *h, const struct memory_stats *m, uint64_t bytes)
{
	held__touch(h, m);
	h->blocks++;
	stats__add(&h->bytes, bytes);
}

static void held__give(struct held *h, const struct memory_stats *m, uint64_t bytes)
{
	held__touch(h, m);
	h->blocks -= h->blocks > 0;
	h->bytes -= bytes < h->bytes ? bytes : h->bytes;
}

uint64_t held__at_peak(const struct held *h, const struct memory_stats *m)
{
	return h->stamp == m->peaks ? h->at_peak : h->bytes;
}

/* --- rows ------------------------------------------------------------------------------------ */

static size_t memory_of(struct stats *st, const struct track *t, uint32_t device)
{
	bool fresh;
	size_t i = STATS_ROW(st, TABLE_MEMORY, (uint64_t)t->process << 32 | device, memory,
			     n_memory, &fresh);

	if (i != SIZE_MAX && fresh) {
		st->memory[i].track = t;
		st->memory[i].device = device;
	}
	return i;
}

static size_t pool_of(struct stats *st, size_t memory, uint32_t pool)
{
	bool fresh;
	size_t i =
		STATS_ROW(st, TABLE_POOLS, (uint64_t)memory << 32 | pool, pools, n_pools, &fresh);

	if (i != SIZE_MAX && fresh) {
		st->pools[i].memory = (uint32_t)memory;
		st->pools[i].pool = pool;
	}
	return i;
}

static size_t memory_op_of(struct stats *st, size_t memory, bool in_span, uint32_t name,
			   uint32_t cat)
{
	size_t i, op = 0;
	struct memory_op *row;
	bool fresh;

	if (in_span) {
		op = stats__op(st, name, cat);
		if (op == SIZE_MAX)
			return SIZE_MAX;
		op++;
	}
	i = STATS_ROW(st, TABLE_MEMORY_OPS, (uint64_t)memory << 32 | op, memory_ops, n_memory_ops,
		      &fresh);
	if (i == SIZE_MAX || !fresh)
		return i;
	row = &st->memory_ops[i];
	row->memory = (uint32_t)memory;
	row->in_span = in_span;
	if (in_span) {
		row->name = st->ops[op - 1].name;
		row->cat = st->ops[op - 1].cat;
		row->other = st->ops[op - 1].other;
	}
	return i;
}

/* --- captures -------------------------------------------------------------------------------- */

static struct capture_memory *in_capture(struct stats *st, unsigned int capture, size_t memory)
{
	bool fresh;
	size_t i = STATS_ROW(st, TABLE_CAPTURE_MEMORY, (uint64_t)capture << 32 | memory,
			     capture_memory, n_capture_memory, &fresh);

	if (i == SIZE_MAX)
		return NULL;
	st->capture_memory[i].capture = capture;
	st->capture_memory[i].memory = (uint32_t)memory;
	return &st->capture_memory[i];
}

static struct capture_memory_op *op_in_capture(struct stats *st, unsigned int capture, size_t op)
{
	uint64_t key = (uint64_t)capture << 32 | op;
	bool fresh;
	size_t i;

	if (st->n_capture_memory_ops >= STATS_MAX_OPS &&
	    !map64__get(st->index->of[TABLE_CAPTURE_MEMORY_OPS], key)) {
		op = CAPTURE_MEMORY_REST;
		key = (uint64_t)capture << 32 | op;
	}
	i = STATS_ROW(st, TABLE_CAPTURE_MEMORY_OPS, key, capture_memory_ops, n_capture_memory_ops,
		      &fresh);
	if (i == SIZE_MAX)
		return NULL;
	st->capture_memory_ops[i].capture = capture;
	st->capture_memory_ops[i].op = (uint32_t)op;
	return &st->capture_memory_ops[i];
}

static int captures_take(struct stats *st, uint64_t captures, size_t op, uint64_t bytes)
{
	struct capture_memory_op *o;
	struct capture_memory *c;

	for (; captures; captures &= captures - 1) {
		unsigned int i = (unsigned int)__builtin_ctzll(captures);

		c = in_capture(st, i, st->memory_ops[op].memory);
		o = op_in_capture(st, i, op);
		if (!c || !o)
			return -ENOMEM;
		c->allocs++;
		c->unfreed++;
		stats__add(&c->alloc_bytes, bytes);
		stats__add(&c->unfreed_bytes, bytes);
		o->allocs++;
		o->unfreed++;
		stats__add(&o->alloc_bytes, bytes);
		stats__add(&o->unfreed_bytes, bytes);
	}
	return 0;
}

static int captures_give(struct stats *st, uint64_t captures, size_t op, uint64_t bytes)
{
	struct capture_memory_op *o;
	struct capture_memory *c;

	for (; captures; captures &= captures - 1) {
		unsigned int i = (unsigned int)__builtin_ctzll(captures);

		c = in_capture(st, i, st->memory_ops[op].memory);
		o = op_in_capture(st, i, op);
		if (!c || !o)
			return -ENOMEM;
		c->unfreed -= c->unfreed > 0;
		c->unfreed_bytes -= bytes < c->unfreed_bytes ? bytes : c->unfreed_bytes;
		o->unfreed -= o->unfreed > 0;
		o->unfreed_bytes -= bytes < o->unfreed_bytes ? bytes : o->unfreed_bytes;
	}
	return 0;
}

/* --- blocks ---------------------------------------------------------------------------------- */

/* What it had before it takes memory for the first time. */
static int pool__begin_time(struct pool_stats *p, uint64_t ts)
{
	return p->reserves || p->releases ? 0
					  : timeline__add(&p->time, ts, p->current, p->reserved);
}

static int pool__note(struct pool_stats *p, uint64_t ts)
{
	p->current = signed_bytes(p->held.bytes);
	if (p->current > p->peak) {
		p->peak = p->current;
		p->peak_at = ts;
		p->reserved_at_peak = p->reserved;
	}
	if (p->reserved > p->reserved_peak)
		p->reserved_peak = p->reserved;
	return p->reserves || p->releases ? timeline__add(&p->time, ts, p->current, p->reserved)
					  : 0;
}

static int sizes__add(struct size_classes **s, uint64_t bytes)
{
	unsigned int k = bytes ? 64 - (unsigned int)__builtin_clzll(bytes) : 0;

	if (!*s)
		*s = calloc(1, sizeof(**s));
	if (!*s)
		return -ENOMEM;
	(*s)->count[k]++;
	stats__add(&(*s)->bytes[k], bytes);
	return 0;
}

/* A block that the result saw allocated is in use no more. */
static int block_gone(struct stats *st, const struct item *it, size_t memory, uint64_t bytes)
{
	size_t op, pool;

	if (!it->alloc_shown)
		return 0;
	op = memory_op_of(st, memory, it->alloc_in_span, it->alloc_name, it->alloc_cat);
	pool = pool_of(st, memory, it->alloc_pool);
	if (op == SIZE_MAX || pool == SIZE_MAX)
		return -ENOMEM;
	held__give(&st->memory[memory].unfreed, &st->memory[memory], bytes);
	held__give(&st->memory_ops[op].unfreed, &st->memory[memory], bytes);
	held__give(&st->pools[pool].held, &st->memory[memory], bytes);
	return captures_give(st, it->alloc_captures & it->captures & st->index->known, op, bytes);
}

static bool again_inside(const struct open_span *from, const struct open_span *p)
{
	for (; from != p; from = from->parent)
		if (from->ev.name == p->ev.name && from->ev.cat == p->ev.cat)
			return true;
	return false;
}

/* Everything that lies around has it too; what is recursive has it once. */
static int by_span_around(struct stats *st, const struct item *it)
{
	const struct open_span *p = it->span;
	struct op_stats *op;
	int depth;
	size_t i;

	for (depth = 0; p && depth < STATS_LOOK; depth++, p = p->parent) {
		if (again_inside(it->span, p))
			continue;
		i = stats__op(st, p->ev.name, p->ev.cat);
		if (i == SIZE_MAX)
			return -ENOMEM;
		op = &st->ops[i];
		stats__add(it->ev->kind == EV_ALLOC ? &op->all_alloc_bytes : &op->all_freed_bytes,
			   it->bytes);
	}
	return 0;
}

static int by_innermost_span(struct stats *st, const struct item *it)
{
	struct op_stats *op;
	size_t i;

	if (!it->span)
		return 0;
	i = stats__op(st, it->span->ev.name, it->span->ev.cat);
	if (i == SIZE_MAX)
		return -ENOMEM;
	op = &st->ops[i];
	if (it->ev->kind == EV_ALLOC) {
		op->allocs++;
		stats__add(&op->alloc_bytes, it->bytes);
	} else {
		op->frees++;
		stats__add(&op->freed_bytes, it->bytes);
	}
	return by_span_around(st, it);
}

static int alloc(struct stats *st, const struct item *it, size_t memory)
{
	struct memory_stats *m = &st->memory[memory];
	size_t op, pool;
	int err = 0;

	m->allocs++;
	stats__add(&m->alloc_bytes, it->bytes);
	if (it->replaced) {
		m->replaced++;
		stats__add(&m->replaced_bytes, it->replaced_bytes);
		err = block_gone(st, it, memory, it->replaced_bytes);
	}
	op = memory_op_of(st, memory, it->span, it->span ? it->span->ev.name : 0,
			  it->span ? it->span->ev.cat : 0);
	pool = pool_of(st, memory, it->ev->pool);
	if (err || op == SIZE_MAX || pool == SIZE_MAX || sizes__add(&m->sizes, it->bytes))
		return -ENOMEM;
	st->memory_ops[op].allocs++;
	stats__add(&st->memory_ops[op].alloc_bytes, it->bytes);
	st->pools[pool].allocs++;
	stats__add(&st->pools[pool].alloc_bytes, it->bytes);
	held__take(&m->unfreed, m, it->bytes);
	held__take(&st->memory_ops[op].unfreed, m, it->bytes);
	held__take(&st->pools[pool].held, m, it->bytes);
	err = captures_take(st, it->captures & st->index->known, op, it->bytes);
	return err ? err : pool__note(&st->pools[pool], it->ts);
}

static int release_block(struct stats *st, const struct item *it, size_t memory)
{
	struct memory_stats *m = &st->memory[memory];
	struct pool_stats *p;
	size_t pool;
	int err;

	m->frees++;
	stats__add(&m->freed_bytes, it->bytes);
	if (it->older) { /* neither its size nor its pool is known */
		m->older_frees++;
		return 0;
	}
	if (!it->alloc_shown) {
		m->earlier_frees++;
		stats__add(&m->earlier_bytes, it->bytes);
	}
	pool = pool_of(st, memory, it->alloc_pool);
	err = pool == SIZE_MAX ? -ENOMEM : block_gone(st, it, memory, it->bytes);
	if (err)
		return err;
	p = &st->pools[pool];
	p->frees++;
	stats__add(&p->freed_bytes, it->bytes);
	err = histogram__add(&m->lifetimes, it->ts - it->alloc_ts);
	if (!err)
		err = histogram__add(&p->lifetimes, it->ts - it->alloc_ts);
	return err ? err : pool__note(p, it->ts);
}

/* --- reservations of pools ------------------------------------------------------------------- */

static int reserve(struct stats *st, const struct item *it, size_t memory)
{
	size_t old = it->replaced ? pool_of(st, memory, it->alloc_pool) : 0;
	size_t pool = pool_of(st, memory, it->ev->pool);
	struct memory_stats *m = &st->memory[memory];

	if (pool == SIZE_MAX || old == SIZE_MAX)
		return -ENOMEM;
	if (pool__begin_time(&st->pools[pool], it->ts))
		return -ENOMEM;
	m->reserves++;
	stats__add(&m->reserved_bytes, it->bytes);
	if (it->replaced && it->alloc_shown)
		sum__add(&st->pools[old].reserved, -signed_bytes(it->replaced_bytes));
	st->pools[pool].reserves++;
	stats__add(&st->pools[pool].reserved_bytes, it->bytes);
	sum__add(&st->pools[pool].reserved, signed_bytes(it->bytes));
	return pool__note(&st->pools[pool], it->ts);
}

static int release(struct stats *st, const struct item *it, size_t memory)
{
	struct memory_stats *m = &st->memory[memory];
	size_t pool;

	m->releases++;
	stats__add(&m->released_bytes, it->bytes);
	if (it->older) {
		m->older_releases++;
		return 0;
	}
	pool = pool_of(st, memory, it->alloc_pool);
	if (pool == SIZE_MAX || pool__begin_time(&st->pools[pool], it->ts))
		return -ENOMEM;
	st->pools[pool].releases++;
	stats__add(&st->pools[pool].released_bytes, it->bytes);
	if (it->alloc_shown)
		sum__add(&st->pools[pool].reserved, -signed_bytes(it->bytes));
	return pool__note(&st->pools[pool], it->ts);
}

/* --- the sink -------------------------------------------------------------------------------- */

/* What was there before the event, from what is there after it. */
static void begin(struct memory_stats *m, const struct item *it)
{
	int64_t gone = signed_bytes(it->replaced_bytes), bytes = signed_bytes(it->bytes);

	m->first_at = it->ts;
	m->baseline = it->current;
	m->reserved_baseline = it->reserved;
	if (it->ev->kind == EV_ALLOC)
		m->baseline += gone - bytes;
	else if (it->ev->kind == EV_FREE)
		sum__add(&m->baseline, bytes);
	else if (it->ev->kind == EV_RESERVE)
		m->reserved_baseline += gone - bytes;
	else
		sum__add(&m->reserved_baseline, bytes);
	m->baseline = m->baseline > 0 ? m->baseline : 0;
	m->reserved_baseline = m->reserved_baseline > 0 ? m->reserved_baseline : 0;
	m->peak = m->baseline;
	m->reserved_peak = m->reserved_at_peak = m->reserved_baseline;
	m->peak_at = m->reserved_peak_at = it->ts;
}

static void balances(struct memory_stats *m, const struct item *it)
{
	m->current = it->current;
	m->reserved = it->reserved;
	if (m->current > m->peak) {
		m->peak = m->current;
		m->peak_at = it->ts;
		m->reserved_at_peak = m->reserved;
		m->peaks++;
	}
	if (m->reserved > m->reserved_peak) {
		m->reserved_peak = m->reserved;
		m->reserved_peak_at = it->ts;
	}
}

int stats__memory(struct stats *st, const struct item *it)
{
	size_t i = memory_of(st, it->track, it->ev->aux);
	struct memory_stats *m;
	int err;

	if (i == SIZE_MAX)
		return -ENOMEM;
	m = &st->memory[i];
	if (!m->allocs && !m->frees && !m->reserves && !m->releases) {
		begin(m, it);
		err = timeline__add(&m->time, it->ts, m->baseline, m->reserved_baseline);
		if (err)
			return err;
	}
	switch (it->ev->kind) {
	case EV_ALLOC:
		err = alloc(st, it, i);
		break;
	case EV_FREE:
		err = release_block(st, it, i);
		break;
	case EV_RESERVE:
		err = reserve(st, it, i);
		break;
	default:
		err = release(st, it, i);
	}
	if (err)
		return err;
	balances(m, it);
	err = timeline__add(&m->time, it->ts, m->current, m->reserved);
	if (!err && (it->ev->kind == EV_ALLOC || it->ev->kind == EV_FREE))
		err = by_innermost_span(st, it);
	return err;
}

int stats__device_name(struct stats *st, const struct item *it)
{
	size_t i = memory_of(st, it->track, it->ev->aux);

	if (i == SIZE_MAX)
		return -ENOMEM;
	st->memory[i].device_name = it->ev->name;
	return 0;
}

void stats__free_memory(struct stats *st)
{
	size_t i;

	for (i = 0; i < st->n_memory; i++) {
		free(st->memory[i].sizes);
		histogram__free(&st->memory[i].lifetimes);
		timeline__free(&st->memory[i].time);
	}
	for (i = 0; i < st->n_pools; i++) {
		histogram__free(&st->pools[i].lifetimes);
		timeline__free(&st->pools[i].time);
	}
	free(st->memory);
	free(st->pools);
	free(st->memory_ops);
	free(st->capture_memory);
	free(st->capture_memory_ops);
}
