// SPDX-License-Identifier: Apache-2.0
#include "user/session/stats_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How far out a span of the same operation is looked for, to count recursive time once. */
#define RECURSION_LOOK 64

/* --- tables ---------------------------------------------------------------------------------- */

/*
 * Index of @key in the table, a zeroed row when it is new (*@fresh). @rows and @n are the
 * table's members of struct stats. SIZE_MAX: out of memory.
 */
static size_t row_of(struct stats *st, enum stats_table table, uint64_t key, void **rows, size_t *n,
		     size_t bytes, bool *fresh)
{
	struct stats_index *x = st->index;
	uint64_t *at = map64__get(x->of[table], key);
	void *bigger;

	*fresh = !at;
	if (at)
		return *at;
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
	return (*n)++;
}

#define ROW(st, table, key, member, n, fresh)                                                      \
	row_of(st, table, key, (void **)&(st)->member, &(st)->n, sizeof(*(st)->member), fresh)

/* Also counts what did not fit: the sum of counts of all keys stays right. */
static void add(uint64_t *sum, uint64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = UINT64_MAX;
}

/* --- operations ------------------------------------------------------------------------------ */

static struct op_stats *op_of(struct stats *st, const struct event *ev)
{
	uint64_t key = (uint64_t)ev->name << 32 | ev->cat;
	bool fresh, other = false;
	size_t i;

	if (st->n_ops >= STATS_MAX_OPS && !map64__get(st->index->of[TABLE_OPS], key)) {
		key = UINT64_MAX;
		other = true;
	}
	i = ROW(st, TABLE_OPS, key, ops, n_ops, &fresh);
	if (i == SIZE_MAX)
		return NULL;
	if (fresh && other)
		st->ops[i].other = true;
	else if (fresh)
		st->ops[i].name = ev->name, st->ops[i].cat = ev->cat;
	return &st->ops[i];
}

static bool inside_itself(const struct open_span *span)
{
	const struct open_span *p = span->parent;
	int i;

	for (i = 0; p && i < RECURSION_LOOK; i++, p = p->parent)
		if (p->ev.name == span->ev.name && p->ev.cat == span->ev.cat)
			return true;
	return false;
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
		add(&c->self_ns, it->self_ns);
	}
}

static int span_end(struct stats *st, const struct item *it)
{
	struct op_stats *op = op_of(st, it->ev);
	int err;

	if (!op)
		return -ENOMEM;
	err = histogram__add(&op->dur, it->ev->dur);
	if (err)
		return err;
	add(&op->self_ns, it->self_ns);
	add(&st->self_ns, it->self_ns);
	if (!inside_itself(it->span))
		add(&op->total_ns, it->ev->dur);
	op->flags |= it->ev->flags;
	op->unfinished += (it->ev->flags & EVS_UNFINISHED) != 0;
	op->late += it->span->late;
	count_captures(st, it);
	return 0;
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

	t->spans++;
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

static int flow(struct stats *st, const struct item *it)
{
	uint32_t into = it->span ? it->span->ev.name : 0;
	struct wait_stats *w;
	bool fresh;
	size_t i;

	if (!it->flow_from)
		return 0;
	i = ROW(st, TABLE_WAITS, (uint64_t)it->ev->name << 32 | into, waits, n_waits, &fresh);
	if (i == SIZE_MAX)
		return -ENOMEM;
	w = &st->waits[i];
	w->name = it->ev->name;
	w->into = into;
	if (it->span) {
		add(&w->ran_ns, it->span->ev.dur);
		w->ran++;
	}
	return histogram__add(&w->wait, it->flow_wait_ns);
}

static int async(struct stats *st, const struct item *it)
{
	uint32_t name = it->async_begin->name;
	struct async_stats *a;
	bool fresh;
	size_t i = ROW(st, TABLE_ASYNCS, name, asyncs, n_asyncs, &fresh);

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

static int request_ended(struct request_stats *r, const struct item *it)
{
	uint64_t rest;
	int err;

	r->ended++;
	r->last_end = it->ts;
	err = histogram__add(&r->latency, it->since_begin_ns);
	if (!err && it->first_ns != UINT64_MAX) {
		err = histogram__add(&r->first, it->first_ns);
		rest = it->since_begin_ns - it->first_ns;
		if (!err && it->units > 1)
			err = histogram__add(&r->per_unit, rest / (it->units - 1));
	}
	return err;
}

static int request(struct stats *st, const struct item *it)
{
	bool fresh, end = it->ev->kind == EV_REQUEST_END;
	size_t i = ROW(st, TABLE_REQUESTS, it->request_name, requests, n_requests, &fresh);
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
		add(&r->units, it->ev->value);
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
		return 0;
	}
	return request_ended(r, it);
}

/* --- memory ---------------------------------------------------------------------------------- */

static int64_t signed_bytes(uint64_t bytes)
{
	return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

static int pool(struct stats *st, const struct item *it, size_t memory)
{
	bool alloc = it->ev->kind == EV_ALLOC, fresh;
	uint32_t name = alloc ? it->ev->pool : it->alloc_pool;
	struct pool_stats *p;
	size_t i;

	if (it->older) /* whose it was is not known */
		return 0;
	i = ROW(st, TABLE_POOLS, (uint64_t)memory << 32 | name, pools, n_pools, &fresh);
	if (i == SIZE_MAX)
		return -ENOMEM;
	p = &st->pools[i];
	p->memory = (uint32_t)memory;
	p->pool = name;
	if (alloc) {
		p->allocs++;
		add(&p->alloc_bytes, it->bytes);
		if (__builtin_add_overflow(p->current, signed_bytes(it->bytes), &p->current))
			p->current = INT64_MAX;
		p->peak = p->current > p->peak ? p->current : p->peak;
		return 0;
	}
	p->frees++;
	add(&p->freed_bytes, it->bytes);
	/* A block of before the window may be freed in it. */
	p->current -= signed_bytes(it->bytes);
	p->current = p->current < 0 ? 0 : p->current;
	return 0;
}

static int alloc_or_free(struct stats *st, const struct item *it, struct memory_stats *m)
{
	bool alloc = it->ev->kind == EV_ALLOC;
	struct op_stats *op = NULL;

	if (it->span && !(op = op_of(st, &it->span->ev)))
		return -ENOMEM;
	if (alloc) {
		m->allocs++;
		add(&m->alloc_bytes, it->bytes);
	} else {
		m->frees++;
		m->older_frees += it->older;
		add(&m->freed_bytes, it->bytes);
	}
	if (op && alloc) {
		op->allocs++;
		add(&op->alloc_bytes, it->bytes);
	} else if (op) {
		op->frees++;
		add(&op->freed_bytes, it->bytes);
	}
	return 0;
}

static void reserve_or_release(const struct item *it, struct memory_stats *m)
{
	if (it->ev->kind == EV_RESERVE) {
		m->reserves++;
		add(&m->reserved_bytes, it->bytes);
	} else {
		m->releases++;
		add(&m->released_bytes, it->bytes);
	}
}

static struct memory_stats *memory_of(struct stats *st, const struct track *t, uint32_t device,
				      bool *fresh)
{
	size_t i =
		ROW(st, TABLE_MEMORY, (uint64_t)t->process << 32 | device, memory, n_memory, fresh);
	struct memory_stats *m;

	if (i == SIZE_MAX)
		return NULL;
	m = &st->memory[i];
	if (*fresh) {
		m->track = t;
		m->device = device;
	}
	return m;
}

static int memory(struct stats *st, const struct item *it)
{
	bool alloc = it->ev->kind == EV_ALLOC, fresh;
	bool program = alloc || it->ev->kind == EV_FREE;
	struct memory_stats *m = memory_of(st, it->track, it->ev->aux, &fresh);

	if (!m)
		return -ENOMEM;
	if (!m->allocs && !m->frees && !m->reserves && !m->releases) {
		m->baseline = it->current;
		if (program)
			m->baseline -= alloc ? signed_bytes(it->bytes) : -signed_bytes(it->bytes);
		m->peak = m->baseline > 0 ? m->baseline : 0;
		m->peak_at = it->ts;
	}
	m->current = it->current;
	m->reserved = it->reserved;
	if (m->current > m->peak) {
		m->peak = m->current;
		m->peak_at = it->ts;
	}
	if (m->reserved > m->reserved_peak)
		m->reserved_peak = m->reserved;
	if (!program) {
		reserve_or_release(it, m);
		return 0;
	}
	if (alloc_or_free(st, it, m))
		return -ENOMEM;
	return pool(st, it, (size_t)(m - st->memory));
}

/* --- the sink -------------------------------------------------------------------------------- */

int stats__item(struct stats *st, const struct item *it)
{
	struct memory_stats *m;
	bool fresh;

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
		return memory(st, it);
	case IT_REQUEST:
		return request(st, it);
	case IT_EVENT:
		if (it->ev->kind != EV_DEVICE_NAME)
			return 0;
		m = memory_of(st, it->track, it->ev->aux, &fresh);
		if (!m)
			return -ENOMEM;
		m->device_name = it->ev->name;
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
	n = session__n_captures(s);
	n = n < WINDOW_CAPTURE_BITS ? n : WINDOW_CAPTURE_BITS;
	st->captures = calloc(n ? n : 1, sizeof(*st->captures));
	if (!st->captures || plan_observed(st))
		goto fail;
	for (; st->n_captures < n; st->n_captures++)
		st->captures[st->n_captures].capture = session__capture(s, st->n_captures);
	*out = st;
	return 0;
fail:
	stats__free(st);
	return -ENOMEM;
}

void stats__free(struct stats *st)
{
	size_t i;

	if (!st)
		return;
	for (i = 0; i < st->n_ops; i++)
		histogram__free(&st->ops[i].dur);
	for (i = 0; i < st->n_waits; i++)
		histogram__free(&st->waits[i].wait);
	for (i = 0; i < st->n_asyncs; i++)
		histogram__free(&st->asyncs[i].dur);
	for (i = 0; i < st->n_requests; i++) {
		histogram__free(&st->requests[i].latency);
		histogram__free(&st->requests[i].first);
		histogram__free(&st->requests[i].per_unit);
	}
	for (i = 0; i < st->n_warnings; i++)
		free(st->warnings[i].text);
	for (i = 0; st->index && i < TABLE_COUNT; i++)
		map64__free(st->index->of[i]);
	if (st->index)
		free(st->index->observed);
	free(st->index);
	free(st->ops);
	free(st->threads);
	free(st->waits);
	free(st->asyncs);
	free(st->requests);
	free(st->memory);
	free(st->pools);
	free(st->captures);
	free(st->warnings);
	free(st);
}

/* --- order ----------------------------------------------------------------------------------- */

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

int stats__finish(struct stats *st)
{
	size_t i, used = 0;

	/* An operation that only allocated, and whose end the walk did not give, is none. */
	for (i = 0; i < st->n_ops; i++)
		if (st->ops[i].dur.count)
			st->ops[used++] = st->ops[i];
		else
			histogram__free(&st->ops[i].dur);
	st->n_ops = used;
	sort(st, st->ops, st->n_ops, sizeof(*st->ops), by_self);
	sort(st, st->waits, st->n_waits, sizeof(*st->waits), by_wait);
	sort(st, st->asyncs, st->n_asyncs, sizeof(*st->asyncs), by_async);
	sort(st, st->requests, st->n_requests, sizeof(*st->requests), by_request);
	return stats__warn(st);
}
