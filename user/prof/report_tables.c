// SPDX-License-Identifier: Apache-2.0
/* What the tables of `report` hold. */
#include "user/prof/report_view.h"

#include <string.h>

/* Cells are given in the order of the columns. */
struct filling {
	struct view_row *row;
	size_t next;
};

static void put(struct filling *f, uint64_t v)
{
	if (f->row)
		f->row->cell[f->next++] =
			(struct view_cell){ v < INT64_MAX ? (int64_t)v : INT64_MAX, true };
}

static void put_signed(struct filling *f, int64_t v)
{
	if (f->row)
		f->row->cell[f->next++] = (struct view_cell){ v, true };
}

static void put_unknown(struct filling *f)
{
	f->next++;
}

static void put_share(struct filling *f, uint64_t part, uint64_t of)
{
	if (of)
		put(f, (uint64_t)((unsigned __int128)part * 1000000 / of));
	else
		put_unknown(f);
}

static void put_rate(struct filling *f, uint64_t n, uint64_t ns)
{
	unsigned __int128 r = ns ? (unsigned __int128)n * 1000 * NSEC_PER_SEC / ns : 0;

	if (ns)
		put(f, r < INT64_MAX ? (uint64_t)r : INT64_MAX);
	else
		put_unknown(f);
}

static void put_quantile(struct filling *f, const struct histogram *h, unsigned int permille)
{
	if (h->count)
		put(f, histogram__quantile(h, permille));
	else
		put_unknown(f);
}

static void put_mean(struct filling *f, const struct histogram *h)
{
	if (h->count)
		put(f, histogram__mean(h));
	else
		put_unknown(f);
}

static void put_at(struct filling *f, const struct view_rows *rows, uint64_t ts)
{
	uint64_t begin = session__begin(rows->st->s);

	put(f, ts > begin ? ts - begin : 0);
}

static const char *name_of(const struct view_rows *rows, uint32_t id)
{
	return session__str(rows->st->s, id);
}

static struct view_row *add_named(struct view_rows *rows, uint32_t name, uint32_t cat)
{
	struct view_row *row = view_rows__add(rows, "%s", name_of(rows, name));

	if (row && cat)
		row->category = name_of(rows, cat);
	return row;
}

/* --- operations and types -------------------------------------------------------------------- */

#define WORK_COLUMNS                                                                               \
	{ "self", "self", 7, CELL_NS, 0, "self_ns" },                                              \
		{ "share", "share", 6, CELL_SHARE, 0, "share" },                                   \
		{ "total", "total", 7, CELL_NS, 1, "total_ns" },                                   \
		{ "mean", "mean", 7, CELL_NS, 2, "mean_ns" },                                      \
		{ "p50", "p50", 7, CELL_NS, 1, "p50_ns" },                                         \
		{ "p90", "p90", 7, CELL_NS, 3, "p90_ns" },                                         \
		{ "p99", "p99", 7, CELL_NS, 1, "p99_ns" },                                         \
		{ "max", "max", 7, CELL_NS, 2, "max_ns" },                                         \
		{ "min", "min", 7, CELL_NS, 5, "min_ns" },                                         \
		{ "stddev", "stddev", 7, CELL_NS, 4, "stddev_ns" },                                \
	{                                                                                          \
		"allocated", "allocated", 9, CELL_BYTES, 6, "memory.allocated_bytes"               \
	}

static const struct view_column op_columns[] = {
	{ "calls", "calls", 9, CELL_COUNT, 0, "calls" },
	WORK_COLUMNS,
};

static const struct view_column type_columns[] = {
	{ "calls", "calls", 9, CELL_COUNT, 0, "calls" },
	WORK_COLUMNS,
	{ "ops", "ops", 5, CELL_COUNT, 2, "ops" },
};

static void put_work(struct filling *f, const struct view_rows *rows, const struct histogram *dur,
		     uint64_t self, uint64_t total, uint64_t alloc_bytes)
{
	put(f, dur->count);
	put(f, self);
	put_share(f, self, rows->st->self_ns);
	put(f, total);
	put_mean(f, dur);
	put_quantile(f, dur, 500);
	put_quantile(f, dur, 900);
	put_quantile(f, dur, 990);
	put(f, dur->max);
	put(f, dur->min);
	if (dur->count > 1)
		put(f, histogram__stddev(dur));
	else
		put_unknown(f);
	put(f, alloc_bytes);
}

static void fill_ops(struct view_rows *rows)
{
	const struct op_stats *op;
	struct filling f;
	size_t i;

	for (i = 0; i < rows->st->n_ops; i++) {
		op = &rows->st->ops[i];
		f = (struct filling){ 0 };
		if (op->other)
			f.row = view_rows__add(rows, "(all other names)");
		else
			f.row = add_named(rows, op->name, op->cat);
		put_work(&f, rows, &op->dur, op->self_ns, op->total_ns, op->alloc_bytes);
	}
}

static void fill_types(struct view_rows *rows)
{
	const struct type_stats *t;
	struct filling f;
	size_t i;

	for (i = 0; i < rows->st->n_types; i++) {
		t = &rows->st->types[i];
		f = (struct filling){
			.row = view_rows__add(rows, "%s", t->cat ? name_of(rows, t->cat) : "(none)")
		};
		put_work(&f, rows, &t->dur, t->self_ns, t->total_ns, t->alloc_bytes);
		put(&f, t->n_ops);
	}
}

/* --- threads --------------------------------------------------------------------------------- */

static const struct view_column thread_columns[] = {
	{ "busy", "busy", 8, CELL_NS, 0, "busy_ns" },
	{ "share", "share", 7, CELL_SHARE, 0, "busy_share" },
	{ "spans", "spans", 11, CELL_COUNT, 0, "spans" },
	{ "pid", "pid", 7, CELL_PLAIN, 0, "pid" },
	{ "tid", "tid", 7, CELL_PLAIN, 0, "tid" },
	{ "gap", "longest gap", 11, CELL_NS, 1, "longest_gap.length_ns" },
	{ "gap-at", "at", 8, CELL_AT, 2, "longest_gap.at_ns" },
};

static void fill_threads(struct view_rows *rows)
{
	const struct thread_stats *t;
	struct filling f;
	size_t i;

	for (i = 0; i < rows->st->n_threads; i++) {
		t = &rows->st->threads[i];
		if (!t->spans)
			continue;
		f = (struct filling){ .row = view_rows__add(rows, "%s", t->track->name) };
		put(&f, t->busy_ns);
		put_share(&f, t->busy_ns, rows->st->observed_ns);
		put(&f, t->spans);
		put(&f, t->track->pid);
		put(&f, t->track->tid);
		if (t->longest_gap_ns) {
			put(&f, t->longest_gap_ns);
			put_at(&f, rows, t->longest_gap_at);
		}
	}
}

/* --- requests -------------------------------------------------------------------------------- */

static const struct view_column request_columns[] = {
	{ "finished", "finished", 8, CELL_COUNT, 0, "ended" },
	{ "rate", "rate", 7, CELL_RATE, 1, "per_second" },
	{ "total", "total", 7, CELL_NS, 6, "latency.total_ns" },
	{ "mean", "mean", 7, CELL_NS, 2, "latency.mean_ns" },
	{ "p50", "p50", 7, CELL_NS, 0, "latency.p50_ns" },
	{ "p90", "p90", 7, CELL_NS, 2, "latency.p90_ns" },
	{ "p99", "p99", 7, CELL_NS, 0, "latency.p99_ns" },
	{ "max", "max", 7, CELL_NS, 1, "latency.max_ns" },
	{ "queued", "queued", 7, CELL_NS, 3, "phases.queue_wait.p50_ns" },
	{ "first", "first", 7, CELL_NS, 1, "time_to_first_output.p50_ns" },
	{ "unit", "unit", 7, CELL_NS, 1, "time_per_output_unit.p50_ns" },
	{ "units", "units/s", 8, CELL_RATE, 2, "units_per_second" },
	{ "open", "no end", 6, CELL_COUNT, 4, "unfinished" },
	{ "at-once", "at once", 7, CELL_COUNT, 4, "at_once" },
};

static void fill_requests(struct view_rows *rows)
{
	const struct request_stats *q;
	struct filling f;
	size_t i;

	for (i = 0; i < rows->st->n_requests; i++) {
		q = &rows->st->requests[i];
		f = (struct filling){ .row = view_rows__add(rows, "%s", name_of(rows, q->name)) };
		put(&f, q->ended);
		put_rate(&f, q->ended, rows->st->observed_ns);
		put(&f, q->latency.sum);
		put_mean(&f, &q->latency);
		put_quantile(&f, &q->latency, 500);
		put_quantile(&f, &q->latency, 900);
		put_quantile(&f, &q->latency, 990);
		if (q->latency.count)
			put(&f, q->latency.max);
		else
			put_unknown(&f);
		put_quantile(&f, &q->queued, 500);
		put_quantile(&f, &q->first, 500);
		put_quantile(&f, &q->per_unit, 500);
		put_rate(&f, q->units, rows->st->observed_ns);
		put(&f, q->unfinished);
		put(&f, q->most);
	}
}

/* --- memory ---------------------------------------------------------------------------------- */

static const struct view_column memory_columns[] = {
	{ "peak", "peak", 9, CELL_BYTES, 0, "peak_bytes" },
	{ "now", "now", 9, CELL_BYTES, 0, "current_bytes" },
	{ "baseline", "at first", 9, CELL_BYTES, 1, "recorded_baseline_bytes" },
	{ "allocations", "allocations", 11, CELL_COUNT, 1, "allocated.count" },
	{ "allocated", "allocated", 9, CELL_BYTES, 0, "allocated.bytes" },
	{ "frees", "frees", 11, CELL_COUNT, 2, "freed.count" },
	{ "freed", "freed", 9, CELL_BYTES, 1, "freed.bytes" },
	{ "older", "older", 7, CELL_COUNT, 4, "freed_but_older.before_recording" },
	{ "reserved", "reserved", 9, CELL_BYTES, 3, "reserved.peak_bytes" },
	{ "peak-at", "peak at", 8, CELL_AT, 3, "peak_at_ns" },
};

static void fill_memory(struct view_rows *rows)
{
	const struct memory_stats *m;
	const char *comm;
	struct filling f;
	size_t i;

	for (i = 0; i < rows->st->n_memory; i++) {
		m = &rows->st->memory[i];
		if (!m->allocs && !m->frees && !m->reserves && !m->releases)
			continue;
		comm = m->track->proc->comm ? m->track->proc->comm : "?";
		f = (struct filling){ 0 };
		if (m->device_name)
			f.row = view_rows__add(rows, "%s %u, %s", comm, m->track->pid,
					       name_of(rows, m->device_name));
		else
			f.row = view_rows__add(rows, "%s %u, device %u", comm, m->track->pid,
					       m->device);
		put_signed(&f, m->peak);
		put_signed(&f, m->current);
		put_signed(&f, m->baseline);
		put(&f, m->allocs);
		put(&f, m->alloc_bytes);
		put(&f, m->frees);
		put(&f, m->freed_bytes);
		put(&f, m->older_frees);
		put_signed(&f, m->reserved_peak);
		put_at(&f, rows, m->peak_at);
	}
}

static const struct view_column memory_op_columns[] = {
	{ "allocations", "allocations", 11, CELL_COUNT, 0, NULL },
	{ "allocated", "allocated", 9, CELL_BYTES, 0, NULL },
	{ "peak", "at peak", 9, CELL_BYTES, 0, NULL },
	{ "now", "not freed", 9, CELL_BYTES, 0, NULL },
	{ "blocks", "blocks", 9, CELL_COUNT, 1, NULL },
	{ "pid", "pid", 7, CELL_PLAIN, 2, NULL },
};

static void fill_memory_ops(struct view_rows *rows)
{
	const struct memory_stats *m;
	const struct memory_op *o;
	struct filling f;
	size_t i;

	for (i = 0; i < rows->st->n_memory_ops; i++) {
		o = &rows->st->memory_ops[i];
		if (!o->allocs && !o->unfreed.blocks)
			continue;
		m = &rows->st->memory[o->memory];
		f = (struct filling){ 0 };
		if (o->other)
			f.row = view_rows__add(rows, "(all other names)");
		else if (!o->in_span)
			f.row = view_rows__add(rows, "(outside spans)");
		else
			f.row = add_named(rows, o->name, o->cat);
		put(&f, o->allocs);
		put(&f, o->alloc_bytes);
		put(&f, held__at_peak(&o->unfreed, m));
		put(&f, o->unfreed.bytes);
		put(&f, o->unfreed.blocks);
		put(&f, m->track->pid);
	}
}

/* --- captures -------------------------------------------------------------------------------- */

static const struct view_column capture_columns[] = {
	{ "at", "at", 8, CELL_AT, 0, "begin_ns" },
	{ "length", "length", 8, CELL_NS, 0, "duration_ns" },
	{ "spans", "spans", 11, CELL_COUNT, 0, "spans" },
	{ "self", "self", 8, CELL_NS, 0, "self_ns" },
	{ "late", "late", 9, CELL_COUNT, 1, "late_spans" },
	{ "cut", "cut", 9, CELL_COUNT, 1, "cut_spans" },
};

static void fill_captures(struct view_rows *rows)
{
	const struct session_capture *c;
	const struct capture_stats *cs;
	struct filling f;
	size_t i;

	for (i = 0; i < rows->st->n_captures; i++) {
		cs = &rows->st->captures[i];
		c = cs->capture;
		f = (struct filling){ .row = view_rows__add(rows, "%s%s", c->tag,
							    c->open ? " (still open)" : "") };
		put_at(&f, rows, c->begin);
		put(&f, c->end - c->begin);
		put(&f, cs->spans);
		put(&f, cs->self_ns);
		put(&f, cs->late);
		put(&f, cs->cut);
	}
}

/* --- all of them ----------------------------------------------------------------------------- */

#define COLUMNS(c) (c), ARRAY_SIZE(c)

const struct view_table view_tables[] = {
	{ "op", "Operations", "operation",
	  "self: without spans inside; share: of all self time; total: with them, recursion once",
	  COLUMNS(op_columns), NULL, fill_ops, "ops", "name" },
	{ "type", "Operations by category", "category",
	  "self: without spans inside; share: of all self time; total: with them, recursion once",
	  COLUMNS(type_columns), NULL, fill_types, "op_types", "category" },
	{ "thread", "Threads", "thread", "busy: in any span; longest gap: between two spans",
	  COLUMNS(thread_columns), "busy", fill_threads, "threads", "name" },
	{ "request", "Requests", "request",
	  "latency; queued, first output and time for each output unit: medians",
	  COLUMNS(request_columns), NULL, fill_requests, "requests", "kind" },
	{ "memory", "Memory", "process and device", NULL, COLUMNS(memory_columns), NULL,
	  fill_memory, "memory.devices", "device_name" },
	{ "memory", "Memory by operation", "allocated in", NULL, COLUMNS(memory_op_columns), NULL,
	  fill_memory_ops, NULL, NULL },
	{ "capture", "Captures", "tag",
	  "late: spans of work that was enqueued in it and ran afterwards; cut: over its edge",
	  COLUMNS(capture_columns), NULL, fill_captures, "captures", "tag" },
	{ 0 },
};
