// SPDX-License-Identifier: Apache-2.0
/* memory_stats.json: who holds memory, when there was most of it, and what was not given back. */
#include "export/report.h"

#include <errno.h>
#include <stdlib.h>

/* Operations that are named where a list is only to show the greatest. */
#define TOP_OPS 20

static const char OUTSIDE[] = "(outside spans)", OTHER[] = "(all other names)";

static void put_op(struct report *r, const struct memory_op *op)
{
	if (op->in_span && !op->other)
		put_name(r, "name", op->name);
	else
		put_cstr(r, "name", op->in_span ? OTHER : OUTSIDE);
	put_known(r, "category", op->cat);
	put_bool(r, "in_span", op->in_span);
}

/* --- sorted rows ----------------------------------------------------------------------------- */

struct ranked {
	const void *row;
	uint64_t bytes;
	size_t at; /* settles ties: rows stand as they turned up */
};

static int by_bytes(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

struct ranking {
	struct ranked *of;
	size_t n;
};

static int ranking__init(struct ranking *k, size_t room)
{
	k->of = calloc(room ? room : 1, sizeof(*k->of));
	k->n = 0;
	return k->of ? 0 : -ENOMEM;
}

static void ranking__add(struct ranking *k, const void *row, uint64_t bytes)
{
	k->of[k->n] = (struct ranked){ row, bytes, k->n };
	k->n++;
}

static void ranking__sort(struct ranking *k)
{
	qsort(k->of, k->n, sizeof(*k->of), by_bytes);
}

/* --- parts of a device ----------------------------------------------------------------------- */

static void put_classes(struct report *r, const uint64_t *count, const uint64_t *bytes)
{
	unsigned int k;

	json__array(&r->j);
	for (k = 0; k < SIZE_CLASSES; k++) {
		if (!count[k])
			continue;
		json__object(&r->j);
		put_u64(r, "at_least", k ? 1ull << (k - 1) : 0);
		put_u64(r, "at_most", k == 64 ? UINT64_MAX : (1ull << k) - 1);
		put_u64(r, "count", count[k]);
		if (bytes)
			put_u64(r, "bytes", bytes[k]);
		json__end_object(&r->j);
	}
	json__end_array(&r->j);
}

static void put_lifetimes(struct report *r, const struct histogram *h)
{
	uint64_t powers[HISTOGRAM_POWERS];

	put_object(r, "lifetimes");
	put_u64(r, "count", h->count);
	put_spread(r, h);
	histogram__powers(h, powers);
	json__key(&r->j, "classes_ns");
	put_classes(r, powers, NULL);
	put_end_object(r);
}

static void put_timeline(struct report *r, const struct timeline *t)
{
	static const char *const columns[] = { "at_ns",       "in_use",   "in_use_min",
					       "in_use_max",  "reserved", "reserved_min",
					       "reserved_max" };
	const struct timeline_range *v;
	uint32_t i;
	size_t c;

	if (!t->n) {
		put_null(r, "timeline");
		return;
	}
	put_object(r, "timeline");
	put_u64(r, "slot_ns", 1ull << t->log2);
	put_array(r, "columns");
	for (c = 0; c < ARRAY_SIZE(columns); c++)
		json__cstr(&r->j, columns[c]);
	put_end_array(r);
	put_array(r, "points");
	for (i = 0; i < t->n; i++) {
		if (!t->slots[i].seen)
			continue;
		json__array(&r->j);
		json__u64(&r->j, t->begin - session__origin(r->s) + ((uint64_t)i << t->log2));
		for (c = 0; c < TIMELINE_VALUES; c++) {
			v = &t->slots[i].of[c];
			json__i64(&r->j, v->last);
			json__i64(&r->j, v->min);
			json__i64(&r->j, v->max);
		}
		json__end_array(&r->j);
	}
	put_end_array(r);
	put_end_object(r);
}

/* Of what is reserved, the part that nobody uses; null where more is in use than we saw reserved. */
static void put_unused(struct report *r, const char *key, int64_t in_use, int64_t reserved)
{
	put_object(r, key);
	put_i64(r, "in_use_bytes", in_use);
	put_i64(r, "reserved_bytes", reserved);
	if (reserved > 0 && in_use <= reserved)
		put_share(r, "unused_share", (uint64_t)(reserved - in_use), (uint64_t)reserved);
	else
		put_null(r, "unused_share");
	put_end_object(r);
}

/* --- peak, operations, pools, captures ------------------------------------------------------- */

static void put_peak(struct report *r, const struct memory_stats *m, const struct ranking *held)
{
	uint64_t known = 0, rest = 0, peak = m->peak > 0 ? (uint64_t)m->peak : 0;
	size_t i;

	put_object(r, "peak");
	put_at(r, "at_ns", m->peak_at);
	put_u64(r, "bytes", peak);
	put_array(r, "held_by");
	for (i = 0; i < held->n; i++) {
		known += held->of[i].bytes;
		if (i >= TOP_OPS) {
			rest += held->of[i].bytes;
			continue;
		}
		put_row(r);
		put_op(r, held->of[i].row);
		put_u64(r, "bytes", held->of[i].bytes);
		put_end_object(r);
	}
	put_end_array(r);
	put_object(r, "other");
	put_u64(r, "ops", held->n > TOP_OPS ? held->n - TOP_OPS : 0);
	put_u64(r, "bytes", rest);
	put_end_object(r);
	/* Allocated in the recording, but before what this is about. */
	put_u64(r, "held_from_before_bytes", peak > known ? peak - known : 0);
	put_end_object(r);
}

static int put_ops(struct report *r, size_t memory)
{
	const struct memory_stats *m = &r->st->memory[memory];
	struct ranking held = { 0 }, asked = { 0 };
	const struct memory_op *op;
	size_t i;

	if (ranking__init(&held, r->st->n_memory_ops) ||
	    ranking__init(&asked, r->st->n_memory_ops)) {
		free(held.of);
		return -ENOMEM;
	}
	for (i = 0; i < r->st->n_memory_ops; i++) {
		op = &r->st->memory_ops[i];
		if (op->memory != memory)
			continue;
		ranking__add(&asked, op, op->alloc_bytes);
		if (held__at_peak(&op->unfreed, m))
			ranking__add(&held, op, held__at_peak(&op->unfreed, m));
	}
	ranking__sort(&held);
	ranking__sort(&asked);
	json__line(&r->j);
	put_peak(r, m, &held);
	json__line(&r->j);
	put_array(r, "by_op");
	for (i = 0; i < asked.n && i < REPORT_MAX_ROWS; i++) {
		op = asked.of[i].row;
		put_row(r);
		put_op(r, op);
		put_blocks(r, "allocated", op->allocs, op->alloc_bytes);
		put_blocks(r, "not_freed", op->unfreed.blocks, op->unfreed.bytes);
		put_u64(r, "at_peak_bytes", held__at_peak(&op->unfreed, m));
		put_end_object(r);
	}
	put_end_array(r);
	put_u64(r, "ops_left_out", asked.n - i);
	free(held.of);
	free(asked.of);
	return 0;
}

static void put_pool(struct report *r, const struct pool_stats *p)
{
	put_row(r);
	put_known(r, "pool", p->pool);
	put_i64(r, "current_bytes", p->current);
	put_i64(r, "peak_bytes", p->peak);
	if (p->peak)
		put_at(r, "peak_at_ns", p->peak_at);
	else
		put_null(r, "peak_at_ns");
	put_u64(r, "at_device_peak_bytes", held__at_peak(&p->held, &r->st->memory[p->memory]));
	put_blocks(r, "allocated", p->allocs, p->alloc_bytes);
	put_blocks(r, "freed", p->frees, p->freed_bytes);
	put_blocks(r, "not_freed", p->held.blocks, p->held.bytes);
	put_lifetimes(r, &p->lifetimes);
	if (!p->reserves && !p->releases) {
		put_null(r, "reserved");
		put_null(r, "fragmentation");
		put_null(r, "timeline");
		put_end_object(r);
		return;
	}
	put_object(r, "reserved");
	put_i64(r, "current_bytes", p->reserved);
	put_i64(r, "peak_bytes", p->reserved_peak);
	put_blocks(r, "taken", p->reserves, p->reserved_bytes);
	put_blocks(r, "given_back", p->releases, p->released_bytes);
	put_end_object(r);
	put_object(r, "fragmentation");
	put_unused(r, "at_peak", p->peak, p->reserved_at_peak);
	put_unused(r, "at_end", p->current, p->reserved);
	put_end_object(r);
	put_timeline(r, &p->time);
	put_end_object(r);
}

static void put_pools(struct report *r, size_t memory)
{
	size_t i;

	put_array(r, "pools");
	for (i = 0; i < r->st->n_pools; i++)
		if (r->st->pools[i].memory == memory)
			put_pool(r, &r->st->pools[i]);
	put_end_array(r);
}

static void put_capture_ops(struct report *r, const struct ranking *ops)
{
	uint64_t blocks = 0, bytes = 0;
	size_t i;

	put_array(r, "ops");
	for (i = 0; i < ops->n; i++) {
		const struct capture_memory_op *o = ops->of[i].row;

		if (i >= TOP_OPS || o->op == CAPTURE_MEMORY_REST) {
			blocks += o->unfreed;
			bytes += o->unfreed_bytes;
			continue;
		}
		put_row(r);
		put_op(r, &r->st->memory_ops[o->op]);
		put_blocks(r, "allocated", o->allocs, o->alloc_bytes);
		put_blocks(r, "not_freed", o->unfreed, o->unfreed_bytes);
		put_end_object(r);
	}
	put_end_array(r);
	put_blocks(r, "other_ops_not_freed", blocks, bytes);
}

static bool of_device(const struct stats *st, const struct capture_memory_op *o, size_t memory)
{
	/* Rows that had no room are of any device: they are told with the first. */
	return o->op == CAPTURE_MEMORY_REST ? !memory : st->memory_ops[o->op].memory == memory;
}

static int put_captures(struct report *r, size_t memory)
{
	const struct stats *st = r->st;
	struct ranking ops;
	size_t i, k;

	if (ranking__init(&ops, st->n_capture_memory_ops))
		return -ENOMEM;
	put_array(r, "by_capture");
	for (i = 0; i < st->n_capture_memory; i++) {
		const struct capture_memory *c = &st->capture_memory[i];

		if (c->memory != memory)
			continue;
		ops.n = 0;
		for (k = 0; k < st->n_capture_memory_ops; k++)
			if (st->capture_memory_ops[k].capture == c->capture &&
			    of_device(st, &st->capture_memory_ops[k], memory) &&
			    st->capture_memory_ops[k].unfreed)
				ranking__add(&ops, &st->capture_memory_ops[k],
					     st->capture_memory_ops[k].unfreed_bytes);
		ranking__sort(&ops);
		put_row(r);
		put_u64(r, "capture", c->capture);
		put_cstr(r, "tag", st->captures[c->capture].capture->tag);
		put_blocks(r, "allocated", c->allocs, c->alloc_bytes);
		put_blocks(r, "not_freed", c->unfreed, c->unfreed_bytes);
		put_capture_ops(r, &ops);
		put_end_object(r);
	}
	put_end_array(r);
	free(ops.of);
	return 0;
}

static int put_device(struct report *r, size_t memory)
{
	static const struct size_classes none;
	const struct memory_stats *m = &r->st->memory[memory];
	const struct size_classes *sizes = m->sizes ? m->sizes : &none;
	int err;

	put_row(r);
	put_memory_totals(r, m);
	err = put_ops(r, memory);
	if (err)
		return err;
	json__line(&r->j);
	json__key(&r->j, "sizes");
	put_classes(r, sizes->count, sizes->bytes);
	json__line(&r->j);
	put_lifetimes(r, &m->lifetimes);
	json__line(&r->j);
	if (m->reserves || m->releases) {
		put_object(r, "fragmentation");
		put_unused(r, "at_peak", m->peak, m->reserved_at_peak);
		put_unused(r, "at_end", m->current, m->reserved);
		put_end_object(r);
	} else {
		put_null(r, "fragmentation");
	}
	json__line(&r->j);
	put_pools(r, memory);
	json__line(&r->j);
	err = put_captures(r, memory);
	json__line(&r->j);
	put_timeline(r, &m->time);
	put_end_object(r);
	return err;
}

/* --- the exporter ---------------------------------------------------------------------------- */

static int memory__open(struct session *s, struct outfile *out, const struct export_opts *o,
			void **state, struct clika_error *err)
{
	struct report *r = calloc(1, sizeof(*r));

	(void)o;
	if (!r)
		return error__set(err, -ENOMEM, "out of memory");
	*state = r;
	return report__init(r, s, out) ? error__set(err, -ENOMEM, "out of memory") : 0;
}

static void memory__stats(void *state, const struct stats *st)
{
	struct report *r = state;

	r->st = st;
}

static int memory__close(void *state, struct clika_error *err)
{
	static void (*const sections[])(struct report *) = { report__targets, report__captures,
							     report__loss, report__counts,
							     report__warnings };
	struct report *r = state;
	const char *why = report__no_memory(r);
	int code = 0;
	size_t i;

	json__object(&r->j);
	report__head(r, "clika-bpf-prof memory statistics");
	for (i = 0; i < ARRAY_SIZE(sections); i++) {
		json__line(&r->j);
		sections[i](r);
	}
	json__line(&r->j);
	put_cstr(r, "empty_because", why);
	json__line(&r->j);
	put_array(r, "devices");
	for (i = 0; !code && i < r->st->n_memory; i++)
		if (memory__in_use(&r->st->memory[i]))
			code = put_device(r, i);
	if (code)
		return error__set(err, code, "out of memory");
	put_end_array(r);
	return report__end(r);
}

static void memory__free(void *state)
{
	struct report *r = state;

	report__free(r);
	free(r);
}

const struct exporter_ops exporter_memory = {
	.format = "memory",
	.file = "memory_stats.json",
	.summary = "JSON: memory by process, device, pool and operation, over time",
	.standard = true,
	.open = memory__open,
	.stats = memory__stats,
	.close = memory__close,
	.free = memory__free,
};
