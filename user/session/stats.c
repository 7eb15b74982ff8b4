// SPDX-License-Identifier: Apache-2.0
#include "user/session/stats_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- tables ---------------------------------------------------------------------------------- */

size_t stats__row(struct stats *st, enum stats_table table, uint64_t key, void **rows, size_t *n,
		  size_t bytes, bool *fresh)
{
	struct stats_index *x = st->index;
	uint64_t *at;
	void *bigger;

	*fresh = false;
	if (x->last[table].at && x->last[table].key == key)
		return x->last[table].at - 1;
	x->last[table].key = key;
	at = map64__get(x->of[table], key);
	if (at) {
		x->last[table].at = *at + 1;
		return *at;
	}
	x->last[table].at = 0;
	*fresh = true;
	if (*n == x->cap[table]) {
		size_t cap = *n ? *n * 2 : 16;

		bigger = realloc(*rows, cap * bytes);
		if (!bigger)
			return SIZE_MAX;
		*rows = bigger;
		x->cap[table] = cap;
	}
	if (!map64__put(x->of[table], key, *n))
		return SIZE_MAX;
	memset((char *)*rows + *n * bytes, 0, bytes);
	x->last[table].at = *n + 1;
	return (*n)++;
}

/* --- operations ------------------------------------------------------------------------------ */

static size_t type_of(struct stats *st, uint32_t cat)
{
	bool fresh;
	size_t i = STATS_ROW(st, TABLE_TYPES, cat, types, n_types, &fresh);

	if (i != SIZE_MAX && fresh)
		st->types[i].cat = cat;
	return i;
}

/* Beyond the limit all is one operation, which has no category. */
static size_t find_op(struct stats *st, uint32_t name, uint32_t cat)
{
	uint64_t key = (uint64_t)name << 32 | cat;
	bool fresh, other = false;
	struct op_stats *op;
	size_t i, type;

	if (st->n_ops >= STATS_MAX_OPS && !map64__get(st->index->of[TABLE_OPS], key)) {
		key = UINT64_MAX;
		other = true;
	}
	i = STATS_ROW(st, TABLE_OPS, key, ops, n_ops, &fresh);
	if (i == SIZE_MAX || !fresh)
		return i;
	type = type_of(st, other ? 0 : cat);
	if (type == SIZE_MAX)
		return SIZE_MAX;
	op = &st->ops[i];
	op->type = (uint32_t)type;
	op->other = other;
	op->name = other ? 0 : name;
	op->cat = other ? 0 : cat;
	return i;
}

size_t stats__op(struct stats *st, uint32_t name, uint32_t cat)
{
	uint32_t slot = (name + cat * 31) & (RECENT_OPS - 1);
	struct stats_index *x = st->index;
	size_t at;

	if (x->recent_ops[slot].at && x->recent_ops[slot].name == name &&
	    x->recent_ops[slot].cat == cat)
		return x->recent_ops[slot].at - 1;
	at = find_op(st, name, cat);
	if (at != SIZE_MAX) {
		x->recent_ops[slot].name = name;
		x->recent_ops[slot].cat = cat;
		x->recent_ops[slot].at = at + 1;
	}
	return at;
}

struct around { /* what a span lies in */
	bool op, type;
};

static struct around look_around(const struct open_span *span)
{
	const struct open_span *p = span->parent;
	struct around in = { false, false };
	int i;

	for (i = 0; p && i < STATS_LOOK && !in.op; i++, p = p->parent) {
		if (p->ev.cat != span->ev.cat)
			continue;
		in.type = true;
		in.op = p->ev.name == span->ev.name;
	}
	return in;
}

static void count_captures(struct stats *st, const struct item *it)
{
	uint64_t left = it->captures, late = it->span->late_captures;
	struct capture_stats *c;
	unsigned int i;

	for (; left; left &= left - 1) {
		i = (unsigned int)__builtin_ctzll(left);
		if (i >= st->n_captures)
			break;
		c = &st->captures[i];
		c->spans++;
		if (late & 1ull << i)
			c->late++;
		else if (it->ev->ts < c->capture->begin || it->ts > c->capture->end)
			c->cut++;
		stats__add(&c->self_ns, it->self_ns);
	}
}

static int op__add(struct op_stats *op, const struct item *it, struct around in)
{
	if (!in.op)
		stats__add(&op->total_ns, it->ev->dur);
	stats__add(&op->self_ns, it->self_ns);
	if (!op->dur.count || it->ev->ts < op->first) {
		op->first = it->ev->ts;
		op->first_dur = it->ev->dur;
	}
	if (it->ts > op->last)
		op->last = it->ts;
	return histogram__add(&op->dur, it->ev->dur);
}

static struct op_stats *tag_op_of(struct stats *st, unsigned int tag, size_t op)
{
	uint64_t key = (uint64_t)tag << 32 | op;
	bool fresh, other = st->ops[op].other;
	struct op_stats *row;
	size_t i;

	if (st->n_tag_ops >= STATS_MAX_OPS && !map64__get(st->index->of[TABLE_TAG_OPS], key)) {
		key = (uint64_t)tag << 32 | UINT32_MAX;
		other = true;
	}
	i = STATS_ROW(st, TABLE_TAG_OPS, key, tag_ops, n_tag_ops, &fresh);
	if (i == SIZE_MAX)
		return NULL;
	row = &st->tag_ops[i];
	if (fresh) {
		row->name = other ? 0 : st->ops[op].name;
		row->cat = other ? 0 : st->ops[op].cat;
		row->other = other;
		row->tag = tag;
	}
	return row;
}

/* The operation by tags; with one tag for everything it is the operation itself. */
static int count_tags(struct stats *st, const struct item *it, size_t op, struct around in)
{
	const struct stats_index *x = st->index;
	uint64_t left = it->captures, tags = 0;
	struct op_stats *row;
	int err = 0;

	for (; left; left &= left - 1)
		tags |= 1ull << x->tag_of[__builtin_ctzll(left)];
	for (; !err && tags; tags &= tags - 1) {
		unsigned int tag = (unsigned int)__builtin_ctzll(tags);

		st->tags[tag].spans++;
		stats__add(&st->tags[tag].self_ns, it->self_ns);
		if (x->one_tag)
			continue;
		row = tag_op_of(st, tag, op);
		err = row ? op__add(row, it, in) : -ENOMEM;
	}
	return err;
}

static int span_end(struct stats *st, const struct item *it)
{
	size_t i = stats__op(st, it->ev->name, it->ev->cat);
	struct around in = look_around(it->span);
	struct op_stats *op;
	int err;

	if (i == SIZE_MAX)
		return -ENOMEM;
	op = &st->ops[i];
	if (it->ev->src && !op->src)
		op->src = it->ev->src;
	else if (it->ev->src && it->ev->src != op->src)
		op->more_srcs = true;
	err = op__add(op, it, in);
	if (err)
		return err;
	if (!in.type)
		stats__add(&st->types[op->type].total_ns, it->ev->dur);
	stats__add(&st->self_ns, it->self_ns);
	op->flags |= it->ev->flags;
	op->unfinished += (it->ev->flags & EVS_UNFINISHED) != 0;
	op->redacted += (it->ev->flags & EVS_REDACTED) != 0;
	op->late += it->span->late;
	count_captures(st, it);
	if (it->captures) {
		err = count_tags(st, it, i, in);
		op = &st->ops[i];
	}
	return !err && it->ev->nargs ? stats__args(st, op, it->ev) : err;
}

/* --- threads --------------------------------------------------------------------------------- */

/* How much of [from, to) lies in the observed time. */
static uint64_t observed_part(const struct stats_index *x, uint64_t from, uint64_t to)
{
	size_t lo = 0, hi = x->n_observed, mid;
	uint64_t sum = 0, b, e;

	while (lo < hi) { /* the first window that ends after @from */
		mid = lo + (hi - lo) / 2;
		if (x->observed[mid].end <= from)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < x->n_observed && x->observed[lo].begin < to; lo++) {
		b = x->observed[lo].begin > from ? x->observed[lo].begin : from;
		e = x->observed[lo].end < to ? x->observed[lo].end : to;
		sum += e - b;
	}
	return sum;
}

static int span_begin(struct stats *st, const struct item *it)
{
	struct thread_stats *t = &st->threads[it->track->index];
	uint64_t end = it->ts + it->ev->dur, gap;

	if (!t->spans++)
		t->first_begin = it->ts;
	if (it->span->depth)
		return 0;
	t->busy_ns += observed_part(st->index, it->ts, end);
	if (t->last_end && it->ts > t->last_end) {
		gap = observed_part(st->index, t->last_end, it->ts);
		if (gap > t->longest_gap_ns) {
			t->longest_gap_ns = gap;
			t->longest_gap_at = t->last_end;
		}
	}
	if (end > t->last_end)
		t->last_end = end;
	return 0;
}

/* --- waiting, async spans -------------------------------------------------------------------- */

static void wait__receiver(struct wait_stats *w, uint32_t thread)
{
	for (uint32_t i = 0; i < w->n_receivers; i++)
		if (w->receivers[i] == thread)
			return;
	if (w->n_receivers < WAIT_RECEIVERS)
		w->receivers[w->n_receivers++] = thread;
}

static int flow(struct stats *st, const struct item *it)
{
	uint32_t into = it->span ? it->span->ev.name : 0;
	struct wait_stats *w;
	bool fresh;
	size_t i;

	if (!it->flow_from)
		return 0;
	i = STATS_ROW(st, TABLE_WAITS, (uint64_t)it->ev->name << 32 | into, waits, n_waits, &fresh);
	if (i == SIZE_MAX)
		return -ENOMEM;
	w = &st->waits[i];
	w->name = it->ev->name;
	w->into = into;
	wait__receiver(w, it->track->index);
	if (it->span) {
		stats__add(&w->ran_ns, it->span->ev.dur);
		w->ran++;
	}
	return histogram__add(&w->wait, it->flow_wait_ns);
}

static int async(struct stats *st, const struct item *it)
{
	uint32_t name = it->async_begin->name;
	struct async_stats *a;
	bool fresh;
	size_t i = STATS_ROW(st, TABLE_ASYNCS, name, asyncs, n_asyncs, &fresh);

	if (i == SIZE_MAX)
		return -ENOMEM;
	a = &st->asyncs[i];
	a->name = name;
	if (it->lane >= a->most)
		a->most = it->lane + 1;
	if (it->kind == IT_ASYNC_BEGIN)
		return 0;
	a->unfinished += (it->async_flags & EVS_UNFINISHED) != 0;
	return histogram__add(&a->dur, it->ts - it->begin_ts);
}

/* --- requests -------------------------------------------------------------------------------- */

/* Until the last output, if there was one: what comes then is no more work for the request. */
static uint64_t work_end(const struct item *it)
{
	return it->last_ns == UINT64_MAX ? it->since_begin_ns : it->last_ns;
}

/* What its outputs tell, @end after its begin. */
static int request_outputs(struct request_stats *r, const struct item *it, uint64_t end)
{
	int err;

	if (it->first_ns == UINT64_MAX)
		return 0;
	err = histogram__add(&r->first, it->first_ns);
	if (!err && it->units > 1)
		err = histogram__add(&r->per_unit, (end - it->first_ns) / (it->units - 1));
	return err;
}

static int request_ended(struct request_stats *r, const struct item *it)
{
	int err;

	r->ended++;
	r->last_end = it->ts;
	err = histogram__add(&r->latency, it->since_begin_ns);
	if (!err)
		err = request_outputs(r, it, it->since_begin_ns);
	if (!err && it->served_ns != UINT64_MAX) {
		err = histogram__add(&r->queued, it->served_ns);
		if (!err)
			err = histogram__add(&r->computed, work_end(it) - it->served_ns);
	}
	return err;
}

static int request(struct stats *st, const struct item *it)
{
	bool fresh, end = it->ev->kind == EV_REQUEST_END;
	size_t i = STATS_ROW(st, TABLE_REQUESTS, it->request_name, requests, n_requests, &fresh);
	struct request_stats *r;

	if (i == SIZE_MAX)
		return -ENOMEM;
	r = &st->requests[i];
	r->name = it->request_name;
	if (it->ev->kind == EV_REQUEST_BEGIN) {
		if (!r->begun++)
			r->first_begin = it->ts;
		if (++r->open > r->most)
			r->most = r->open;
	} else if (it->ev->kind == EV_REQUEST_OUTPUT) {
		stats__add(&r->units, it->ev->value);
	}
	if (!end)
		return 0;
	if (it->since_begin_ns == UINT64_MAX) {
		r->no_begin++;
		return 0;
	}
	r->open -= r->open > 0;
	if (it->request_unfinished) {
		r->unfinished++;
		return request_outputs(r, it, work_end(it));
	}
	return request_ended(r, it);
}

/* --- the sink -------------------------------------------------------------------------------- */

int stats__item(struct stats *st, const struct item *it)
{
	switch (it->kind) {
	case IT_SPAN_BEGIN:
		return span_begin(st, it);
	case IT_SPAN_END:
		return span_end(st, it);
	case IT_FLOW:
		return flow(st, it);
	case IT_ASYNC_BEGIN:
	case IT_ASYNC_END:
		return async(st, it);
	case IT_MEMORY:
		return stats__memory(st, it);
	case IT_REQUEST:
		return request(st, it);
	case IT_EVENT:
		if (it->ev->kind == EV_DEVICE_NAME)
			return stats__device_name(st, it);
		if (it->ev->kind == EV_COUNTER_I64 || it->ev->kind == EV_COUNTER_F64)
			return stats__counter(st, it);
		return 0;
	}
	return 0;
}

static int plan_observed(struct stats *st)
{
	const struct session *s = st->s;
	size_t i, n = session__only_captures(s) ? session__n_captures(s) : 0;
	struct stats_index *x = st->index;
	uint64_t lo = session__begin(s), hi = session__end(s);
	const struct session_capture *c;
	struct window w;

	x->observed = calloc(n ? n : 1, sizeof(*x->observed));
	if (!x->observed)
		return -ENOMEM;
	for (i = 0; i < n; i++) { /* sorted by begin */
		c = session__capture(s, i);
		w.begin = c->begin > lo ? c->begin : lo;
		w.end = c->end < hi ? c->end : hi;
		if (w.end <= w.begin)
			continue;
		if (x->n_observed && w.begin <= x->observed[x->n_observed - 1].end) {
			if (w.end > x->observed[x->n_observed - 1].end)
				x->observed[x->n_observed - 1].end = w.end;
		} else {
			x->observed[x->n_observed++] = w;
		}
	}
	if (!n)
		x->observed[x->n_observed++] = (struct window){ lo, hi };
	for (i = 0; i < x->n_observed; i++)
		st->observed_ns += x->observed[i].end - x->observed[i].begin;
	return 0;
}

/* Of captures that share a bit it is known which there are, not which one something belongs to. */
static int plan_captures(struct stats *st)
{
	size_t i, k, n = session__n_captures(st->s), bits = n, shared = SIZE_MAX;
	struct stats_index *x = st->index;
	const char *tag;

	if (bits > WINDOW_CAPTURE_BITS) {
		bits = WINDOW_CAPTURE_BITS;
		shared = bits - 1;
	}
	st->captures = calloc(bits ? bits : 1, sizeof(*st->captures));
	st->tags = calloc(bits ? bits : 1, sizeof(*st->tags));
	if (!st->captures || !st->tags)
		return -ENOMEM;
	st->n_captures = shared == SIZE_MAX ? bits : shared;
	x->known = st->n_captures < 64 ? (1ull << st->n_captures) - 1 : UINT64_MAX;
	for (i = 0; i < bits; i++) {
		st->captures[i].capture = session__capture(st->s, i);
		tag = st->captures[i].capture->tag;
		for (k = shared; k < n && tag; k++)
			if (i == shared && strcmp(session__capture(st->s, k)->tag, tag))
				tag = NULL;
		for (k = 0; k < st->n_tags; k++)
			if (tag ? st->tags[k].tag && !strcmp(st->tags[k].tag, tag)
				: !st->tags[k].tag)
				break;
		if (k == st->n_tags)
			st->tags[st->n_tags++].tag = tag;
		st->tags[k].n_captures += i == shared ? n - shared : 1;
		x->tag_of[i] = (uint8_t)k;
	}
	x->one_tag = st->n_tags == 1 && session__only_captures(st->s);
	return 0;
}

int stats__new(struct session *s, struct stats **out)
{
	struct stats *st = calloc(1, sizeof(*st));
	size_t i, n;

	*out = NULL;
	if (!st)
		return -ENOMEM;
	st->s = s;
	st->index = calloc(1, sizeof(*st->index));
	if (!st->index)
		goto fail;
	for (i = 0; i < TABLE_COUNT; i++)
		if (!(st->index->of[i] = map64__new()))
			goto fail;
	n = session__n_tracks(s);
	st->threads = calloc(n ? n : 1, sizeof(*st->threads));
	if (!st->threads)
		goto fail;
	for (; st->n_threads < n; st->n_threads++)
		st->threads[st->n_threads].track = session__track(s, st->n_threads);
	if (plan_captures(st) || plan_observed(st))
		goto fail;
	stats__plan_args(st);
	*out = st;
	return 0;
fail:
	stats__free(st);
	return -ENOMEM;
}

static void ops__free(struct op_stats *ops, size_t n)
{
	size_t i;
	int k;

	for (i = 0; i < n; i++) {
		histogram__free(&ops[i].dur);
		for (k = 0; k < OP_TEXTS; k++)
			free(ops[i].args.text[k]);
	}
	free(ops);
}

void stats__free(struct stats *st)
{
	size_t i;

	if (!st)
		return;
	ops__free(st->ops, st->n_ops);
	ops__free(st->tag_ops, st->n_tag_ops);
	for (i = 0; i < st->n_types; i++)
		histogram__free(&st->types[i].dur);
	for (i = 0; i < st->n_waits; i++)
		histogram__free(&st->waits[i].wait);
	for (i = 0; i < st->n_asyncs; i++)
		histogram__free(&st->asyncs[i].dur);
	for (i = 0; i < st->n_requests; i++) {
		histogram__free(&st->requests[i].latency);
		histogram__free(&st->requests[i].first);
		histogram__free(&st->requests[i].per_unit);
		histogram__free(&st->requests[i].queued);
		histogram__free(&st->requests[i].computed);
	}
	for (i = 0; i < st->n_warnings; i++)
		free(st->warnings[i].text);
	for (i = 0; st->index && i < TABLE_COUNT; i++)
		map64__free(st->index->of[i]);
	if (st->index)
		free(st->index->observed);
	free(st->index);
	stats__free_memory(st);
	free(st->types);
	free(st->threads);
	free(st->waits);
	free(st->asyncs);
	free(st->requests);
	free(st->counters);
	free(st->captures);
	free(st->tags);
	free(st->warnings);
	free(st);
}

int stats__finish(struct stats *st)
{
	int err = stats__order(st);

	return err ? err : stats__warn(st);
}
