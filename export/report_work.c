// SPDX-License-Identifier: Apache-2.0
/* Work: operations, categories, captures' operations, threads, requests, waiting, counters. */
#include "export/report.h"

#include <errno.h>
#include <stdlib.h>

/* --- operations ------------------------------------------------------------------------------ */

static const char OTHER_OPS[] = "(all other names)";

static const char *kind_of(const struct op_stats *op)
{
	return op->flags & EVS_FUNCTION ? "function" : op->flags & EVS_USDT ? "usdt" : "span";
}

static void put_op_name(struct report *r, const struct op_stats *op)
{
	if (op->other)
		put_cstr(r, "name", OTHER_OPS);
	else
		put_name(r, "name", op->name);
	put_known(r, "category", op->cat);
}

/* Shape and type as the operation's arguments tell them; null when none does. */
static void put_tensor(struct report *r, const char *key, const struct op_args *a,
		       enum op_text shape, enum op_text type)
{
	if (!a->text[shape] && !a->text[type]) {
		put_null(r, key);
		return;
	}
	put_object(r, key);
	json__key(&r->j, "shape");
	json__cstr(&r->j, a->text[shape]);
	json__key(&r->j, "type");
	json__cstr(&r->j, a->text[type]);
	put_bool(r, "varies", a->varies[shape] || a->varies[type]);
	put_end_object(r);
}

/* Columns of other tools that nothing tells yet. */
static void put_unknown(struct report *r, const char *const *keys, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		put_null(r, keys[i]);
}

static void put_op_times(struct report *r, const struct op_stats *op, uint64_t all_self,
			 uint64_t *self_so_far)
{
	if (__builtin_add_overflow(*self_so_far, op->self_ns, self_so_far))
		*self_so_far = UINT64_MAX;
	put_u64(r, "calls", op->dur.count);
	put_u64(r, "total_ns", op->total_ns);
	put_u64(r, "self_ns", op->self_ns);
	put_share(r, "share", op->self_ns, all_self);
	put_share(r, "cumulative_share", *self_so_far, all_self);
	put_share(r, "total_share", op->total_ns, all_self);
	put_spread(r, &op->dur);
	put_at(r, "first_at_ns", op->first);
	put_at(r, "last_end_ns", op->last);
	put_u64(r, "first_call_ns", op->first_dur);
}

static void put_op_memory(struct report *r, const struct op_stats *op)
{
	put_object(r, "memory");
	put_u64(r, "allocations", op->allocs);
	put_u64(r, "allocated_bytes", op->alloc_bytes);
	put_u64(r, "frees", op->frees);
	put_u64(r, "freed_bytes", op->freed_bytes);
	put_u64(r, "total_allocated_bytes", op->all_alloc_bytes);
	put_u64(r, "total_freed_bytes", op->all_freed_bytes);
	put_end_object(r);
}

static void put_op(struct report *r, const struct op_stats *op, uint64_t *self_so_far)
{
	static const char *const unknown[] = {
		"device_total_ns",  "device_self_ns",  "device_allocated_bytes",
		"activation_bytes", "parameter_bytes", "output_bytes",
		"node_index",       "provider",        "status",
	};

	put_row(r);
	put_op_name(r, op);
	put_cstr(r, "kind", kind_of(op));
	put_op_times(r, op, r->st->self_ns, self_so_far);
	put_u64(r, "unfinished", op->unfinished);
	put_u64(r, "late", op->late);
	put_u64(r, "redacted", op->redacted);
	put_known(r, "source", op->src);
	put_bool(r, "more_sources", op->more_srcs);
	put_op_memory(r, op);
	if (op->args.with_flops)
		put_u64(r, "flops", op->args.flops);
	else
		put_null(r, "flops");
	put_tensor(r, "input", &op->args, OP_INPUT_SHAPE, OP_INPUT_TYPE);
	put_tensor(r, "output", &op->args, OP_OUTPUT_SHAPE, OP_OUTPUT_TYPE);
	put_unknown(r, unknown, ARRAY_SIZE(unknown));
	put_end_object(r);
}

void report__ops(struct report *r)
{
	uint64_t self = 0;
	size_t i;

	put_array(r, "ops");
	for (i = 0; i < r->st->n_ops; i++)
		put_op(r, &r->st->ops[i], &self);
	put_end_array(r);
}

void report__types(struct report *r)
{
	uint64_t self = 0;
	size_t i;

	put_array(r, "op_types");
	for (i = 0; i < r->st->n_types; i++) {
		const struct type_stats *t = &r->st->types[i];

		if (__builtin_add_overflow(self, t->self_ns, &self))
			self = UINT64_MAX;
		put_row(r);
		put_known(r, "category", t->cat);
		put_u64(r, "ops", t->n_ops);
		put_u64(r, "calls", t->dur.count);
		put_u64(r, "total_ns", t->total_ns);
		put_u64(r, "self_ns", t->self_ns);
		put_share(r, "share", t->self_ns, r->st->self_ns);
		put_share(r, "cumulative_share", self, r->st->self_ns);
		put_share(r, "total_share", t->total_ns, r->st->self_ns);
		put_spread(r, &t->dur);
		put_at(r, "first_at_ns", t->first);
		put_at(r, "last_end_ns", t->last);
		put_object(r, "memory");
		put_u64(r, "allocations", t->allocs);
		put_u64(r, "allocated_bytes", t->alloc_bytes);
		put_u64(r, "frees", t->frees);
		put_u64(r, "freed_bytes", t->freed_bytes);
		put_end_object(r);
		put_null(r, "device_total_ns");
		put_null(r, "device_self_ns");
		put_end_object(r);
	}
	put_end_array(r);
}

static void put_tag(struct report *r, const struct tag_stats *t)
{
	uint64_t self = 0;
	size_t i;

	put_row(r);
	put_cstr(r, "tag", t->tag);
	put_u64(r, "captures", t->n_captures);
	put_u64(r, "spans", t->spans);
	put_u64(r, "self_ns", t->self_ns);
	put_array(r, "ops");
	for (i = 0; i < t->n_ops; i++) {
		put_row(r);
		put_op_name(r, &t->ops[i]);
		put_op_times(r, &t->ops[i], t->self_ns, &self);
		put_end_object(r);
	}
	put_end_array(r);
	put_end_object(r);
}

void report__tags(struct report *r)
{
	size_t i;

	put_array(r, "capture_tags");
	for (i = 0; i < r->st->n_tags; i++)
		put_tag(r, &r->st->tags[i]);
	put_end_array(r);
}

/* --- threads --------------------------------------------------------------------------------- */

static int by_busy(const void *a, const void *b)
{
	const struct thread_stats *x = *(const struct thread_stats *const *)a;
	const struct thread_stats *y = *(const struct thread_stats *const *)b;

	if (x->busy_ns != y->busy_ns)
		return x->busy_ns > y->busy_ns ? -1 : 1;
	return x < y ? -1 : x > y; /* both lie in one array, in the order of tracks */
}

static void put_thread(struct report *r, const struct thread_stats *t)
{
	static const char *const unknown[] = { "cpu_ns", "runnable_ns", "blocked_ns",
					       "context_switches", "migrations" };
	const struct track *k = t->track;

	put_row(r);
	put_process(r, k);
	put_u64(r, "tid", k->tid);
	if (k->info->ns_tid)
		put_u64(r, "own_tid", k->info->ns_tid);
	else
		put_null(r, "own_tid");
	put_cstr(r, "name", k->name);
	put_u64(r, "spans", t->spans);
	put_u64(r, "busy_ns", t->busy_ns);
	put_share(r, "busy_share", t->busy_ns, r->st->observed_ns);
	if (t->longest_gap_ns) {
		put_object(r, "longest_gap");
		put_at(r, "at_ns", t->longest_gap_at);
		put_u64(r, "length_ns", t->longest_gap_ns);
		put_end_object(r);
	} else {
		put_null(r, "longest_gap");
	}
	if (t->spans) {
		put_at(r, "first_at_ns", t->first_begin);
		put_at(r, "last_end_ns", t->last_end);
	} else {
		put_null(r, "first_at_ns");
		put_null(r, "last_end_ns");
	}
	put_unknown(r, unknown, ARRAY_SIZE(unknown));
	put_end_object(r);
}

void report__threads(struct report *r)
{
	const struct thread_stats **sorted = calloc(r->st->n_threads + 1, sizeof(*sorted));
	size_t i, n = 0;

	if (!sorted) {
		r->j.err = r->j.err ? r->j.err : -ENOMEM;
		return;
	}
	for (i = 0; i < r->st->n_threads; i++)
		if (r->st->threads[i].track->used)
			sorted[n++] = &r->st->threads[i];
	qsort(sorted, n, sizeof(*sorted), by_busy);
	put_array(r, "threads");
	for (i = 0; i < n && i < REPORT_MAX_ROWS; i++)
		put_thread(r, sorted[i]);
	put_end_array(r);
	put_u64(r, "threads_left_out", n - i);
	free(sorted);
}

/* --- requests -------------------------------------------------------------------------------- */

/* Per second of the observed time. */
static void put_rate(struct report *r, const char *key, uint64_t n)
{
	if (r->st->observed_ns)
		put_f64(r, key, (double)n * 1e9 / (double)r->st->observed_ns);
	else
		put_null(r, key);
}

static void put_request(struct report *r, const struct request_stats *q)
{
	put_row(r);
	put_name(r, "kind", q->name);
	put_u64(r, "begun", q->begun);
	put_u64(r, "ended", q->ended);
	put_u64(r, "unfinished", q->unfinished);
	put_u64(r, "begun_before", q->no_begin);
	put_u64(r, "at_once", q->most);
	put_u64(r, "units", q->units);
	put_rate(r, "per_second", q->ended);
	put_rate(r, "units_per_second", q->units);
	json__line(&r->j);
	put_distribution(r, "latency", &q->latency);
	json__line(&r->j);
	put_distribution(r, "time_to_first_output", &q->first);
	json__line(&r->j);
	put_distribution(r, "time_per_output_unit", &q->per_unit);
	json__line(&r->j);
	put_object(r, "phases");
	put_distribution(r, "queue_wait", &q->queued);
	put_null(r, "enqueue");
	put_null(r, "transfer_in");
	put_distribution(r, "compute", &q->computed);
	put_null(r, "transfer_out");
	put_distribution(r, "end_to_end", &q->latency);
	put_end_object(r);
	put_end_object(r);
}

void report__requests(struct report *r)
{
	size_t i;

	put_array(r, "requests");
	for (i = 0; i < r->st->n_requests; i++)
		put_request(r, &r->st->requests[i]);
	put_end_array(r);
}

/* --- waiting, async spans, counters ------------------------------------------------------------ */

void report__flows(struct report *r)
{
	size_t i;

	put_array(r, "flows");
	for (i = 0; i < r->st->n_waits; i++) {
		const struct wait_stats *w = &r->st->waits[i];

		put_row(r);
		put_name(r, "name", w->name);
		put_known(r, "into", w->into);
		put_distribution(r, "wait", &w->wait);
		put_u64(r, "ran", w->ran);
		if (w->ran)
			put_u64(r, "ran_mean_ns", w->ran_ns / w->ran);
		else
			put_null(r, "ran_mean_ns");
		put_end_object(r);
	}
	put_end_array(r);
}

void report__asyncs(struct report *r)
{
	size_t i;

	put_array(r, "async_spans");
	for (i = 0; i < r->st->n_asyncs; i++) {
		const struct async_stats *a = &r->st->asyncs[i];

		put_row(r);
		put_name(r, "name", a->name);
		put_u64(r, "at_once", a->most);
		put_u64(r, "unfinished", a->unfinished);
		put_distribution(r, "duration", &a->dur);
		put_end_object(r);
	}
	put_end_array(r);
}

static void put_values(struct report *r, const struct counter_stats *c)
{
	if (!c->n) {
		static const char *const none[] = { "last", "min", "max", "mean", "last_at_ns" };

		put_unknown(r, none, ARRAY_SIZE(none));
		return;
	}
	if (c->real) {
		put_f64(r, "last", c->d.last);
		put_f64(r, "min", c->d.min);
		put_f64(r, "max", c->d.max);
		put_f64(r, "mean", c->d.sum / (double)c->n);
	} else {
		put_i64(r, "last", c->i.last);
		put_i64(r, "min", c->i.min);
		put_i64(r, "max", c->i.max);
		put_f64(r, "mean", (double)c->i.sum / (double)c->n);
	}
	put_at(r, "last_at_ns", c->last_at);
}

void report__counters(struct report *r)
{
	size_t i;

	put_array(r, "counters");
	for (i = 0; i < r->st->n_counters; i++) {
		const struct counter_stats *c = &r->st->counters[i];

		put_row(r);
		put_process(r, c->track);
		put_name(r, "name", c->name);
		put_u64(r, "samples", c->n);
		put_u64(r, "not_finite", c->not_finite);
		put_values(r, c);
		put_end_object(r);
	}
	put_end_array(r);
}
