// SPDX-License-Identifier: Apache-2.0
/* What becomes of the sums after the walk: sorted rows, operations added up by category and tag. */
#include "user/session/stats_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Sorting has no argument for the names, and results must not depend on how ids were given. */
static int by_text(const struct strpool *names, uint32_t a, uint32_t b)
{
	return a == b ? 0 : strcmp(strpool__str(names, a), strpool__str(names, b));
}

#define LARGER_FIRST(a, b)                                                                         \
	do {                                                                                       \
		if ((a) != (b))                                                                    \
			return (a) > (b) ? -1 : 1;                                                 \
	} while (0)

static int by_self(const void *a, const void *b, void *names)
{
	const struct op_stats *x = a, *y = b;
	int c;

	LARGER_FIRST(x->self_ns, y->self_ns);
	LARGER_FIRST(x->dur.count, y->dur.count);
	c = by_text(names, x->name, y->name);
	return c ? c : by_text(names, x->cat, y->cat);
}

static int by_wait(const void *a, const void *b, void *names)
{
	const struct wait_stats *x = a, *y = b;
	int c;

	LARGER_FIRST(x->wait.sum, y->wait.sum);
	c = by_text(names, x->name, y->name);
	return c ? c : by_text(names, x->into, y->into);
}

static int by_async(const void *a, const void *b, void *names)
{
	const struct async_stats *x = a, *y = b;

	LARGER_FIRST(x->dur.sum, y->dur.sum);
	return by_text(names, x->name, y->name);
}

static int by_request(const void *a, const void *b, void *names)
{
	const struct request_stats *x = a, *y = b;

	LARGER_FIRST(x->latency.sum, y->latency.sum);
	return by_text(names, x->name, y->name);
}

static void sort(struct stats *st, void *rows, size_t n, size_t bytes,
		 int (*compare)(const void *, const void *, void *))
{
	if (n)
		qsort_r(rows, n, bytes, compare, (void *)(uintptr_t)session__names(st->s));
}

static int by_tag(const void *a, const void *b, void *names)
{
	const struct op_stats *x = a, *y = b;

	if (x->tag != y->tag)
		return x->tag < y->tag ? -1 : 1;
	return by_self(a, b, names);
}

static int by_type(const void *a, const void *b, void *names)
{
	const struct type_stats *x = a, *y = b;

	LARGER_FIRST(x->self_ns, y->self_ns);
	LARGER_FIRST(x->dur.count, y->dur.count);
	return by_text(names, x->cat, y->cat);
}

static int by_counter(const void *a, const void *b, void *names)
{
	const struct counter_stats *x = a, *y = b;

	if (x->track->index != y->track->index)
		return x->track->index < y->track->index ? -1 : 1;
	return by_text(names, x->name, y->name);
}

/* An operation that only allocated, and whose end the walk did not give, is none. */
static void drop_empty(struct stats *st)
{
	size_t i, used = 0;
	int k;

	for (i = 0; i < st->n_ops; i++) {
		if (st->ops[i].dur.count) {
			st->ops[used++] = st->ops[i];
			continue;
		}
		histogram__free(&st->ops[i].dur);
		for (k = 0; k < OP_TEXTS; k++)
			free(st->ops[i].args.text[k]);
	}
	st->n_ops = used;
}

static int add_up_types(struct stats *st)
{
	const struct op_stats *op;
	struct type_stats *t;
	size_t i, used = 0;
	int err;

	for (i = 0; i < st->n_ops; i++) {
		op = &st->ops[i];
		t = &st->types[op->type];
		if (!t->n_ops++ || op->first < t->first)
			t->first = op->first;
		t->last = op->last > t->last ? op->last : t->last;
		stats__add(&t->self_ns, op->self_ns);
		t->allocs += op->allocs;
		t->frees += op->frees;
		stats__add(&t->alloc_bytes, op->alloc_bytes);
		stats__add(&t->freed_bytes, op->freed_bytes);
		err = histogram__merge(&t->dur, &op->dur);
		if (err)
			return err;
	}
	for (i = 0; i < st->n_types; i++)
		if (st->types[i].n_ops)
			st->types[used++] = st->types[i];
	st->n_types = used;
	return 0;
}

static void give_tags_their_ops(struct stats *st)
{
	struct tag_stats *t;
	size_t i;

	if (st->index->one_tag) {
		st->tags[0].ops = st->ops;
		st->tags[0].n_ops = st->n_ops;
		return;
	}
	for (i = 0; i < st->n_tag_ops; i++) {
		t = &st->tags[st->tag_ops[i].tag];
		if (!t->n_ops++)
			t->ops = &st->tag_ops[i];
	}
}

int stats__order(struct stats *st)
{
	int err;

	drop_empty(st);
	err = add_up_types(st);
	if (err)
		return err;
	sort(st, st->ops, st->n_ops, sizeof(*st->ops), by_self);
	sort(st, st->tag_ops, st->n_tag_ops, sizeof(*st->tag_ops), by_tag);
	sort(st, st->types, st->n_types, sizeof(*st->types), by_type);
	sort(st, st->waits, st->n_waits, sizeof(*st->waits), by_wait);
	sort(st, st->asyncs, st->n_asyncs, sizeof(*st->asyncs), by_async);
	sort(st, st->requests, st->n_requests, sizeof(*st->requests), by_request);
	sort(st, st->counters, st->n_counters, sizeof(*st->counters), by_counter);
	give_tags_their_ops(st);
	return 0;
}
