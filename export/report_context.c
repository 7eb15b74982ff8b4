// SPDX-License-Identifier: Apache-2.0
/* What surrounds the work: tool, host, clocks, view, targets, captures, losses, warnings. */
#include "export/report.h"

#include "export/losses.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- tool, host, file, clocks ---------------------------------------------------------------- */

static void put_tool(struct report *r)
{
	const struct recording_meta *m = recording__meta(session__recording(r->s));

	put_object(r, "tool");
	put_cstr(r, "name", m->tool);
	put_cstr(r, "version", m->version);
	put_cstr(r, "command", m->command);
	put_end_object(r);
	json__line(&r->j);
	put_object(r, "host");
	put_cstr(r, "name", m->host);
	put_cstr(r, "kernel", m->kernel);
	put_cstr(r, "architecture", m->arch);
	if (m->cpus)
		put_u64(r, "cpus", m->cpus);
	else
		put_null(r, "cpus");
	if (m->page_size)
		put_u64(r, "page_size", m->page_size);
	else
		put_null(r, "page_size");
	if (m->ram_bytes)
		put_u64(r, "ram_bytes", m->ram_bytes);
	else
		put_null(r, "ram_bytes");
	put_cstr(r, "boot_id", m->machine_id);
	put_end_object(r);
}

static void put_file(struct report *r)
{
	const struct recording_state *f = recording__state(session__recording(r->s));

	put_object(r, "recording");
	put_bool(r, "complete", !f->incomplete && !f->bad_segments);
	put_u64(r, "format_version", f->version);
	put_u64(r, "bytes", f->bytes);
	put_u64(r, "segments", f->segments);
	put_u64(r, "bad_segments", f->bad_segments);
	put_u64(r, "trailing_bytes", f->trailing_bytes);
	put_u64(r, "events", f->events);
	put_end_object(r);
}

static void put_realtime(struct report *r, const char *key, uint64_t boottime)
{
	uint64_t t = session__realtime(r->s, boottime);

	if (t)
		put_u64(r, key, t);
	else
		put_null(r, key);
}

#define ANCHORS_SHOWN 64

/* Evenly spread; the first and the last are among them. */
static void put_anchors(struct report *r)
{
	const struct recording *rec = session__recording(r->s);
	size_t i, n = recording__n_anchors(rec), shown = n < ANCHORS_SHOWN ? n : ANCHORS_SHOWN;

	put_u64(r, "anchors_recorded", n);
	put_array(r, "anchors");
	for (i = 0; i < shown; i++) {
		size_t at = shown > 1 ? i * (n - 1) / (shown - 1) : 0;
		const struct clock_anchor *a = recording__anchor(rec, at);

		put_row(r);
		put_u64(r, "boottime_ns", a->boottime);
		put_u64(r, "monotonic_ns", a->monotonic);
		put_u64(r, "monotonic_raw_ns", a->monotonic_raw);
		put_u64(r, "realtime_ns", a->realtime);
		put_end_object(r);
	}
	put_end_array(r);
}

static void put_clocks(struct report *r)
{
	uint64_t begin = session__begin(r->s), end = session__end(r->s);
	uint64_t base = session__origin(r->s);

	put_object(r, "clocks");
	put_u64(r, "base_boottime_ns", base);
	put_realtime(r, "base_realtime_ns", base);
	put_at(r, "begin_ns", begin);
	put_at(r, "end_ns", end);
	put_u64(r, "duration_ns", end > begin ? end - begin : 0);
	put_u64(r, "observed_ns", r->st->observed_ns);
	put_anchors(r);
	put_end_object(r);
}

static void put_view(struct report *r)
{
	const struct session_opts *o = session__opts(r->s);

	put_object(r, "view");
	put_u64(r, "from_ns", o->from);
	if (o->to)
		put_u64(r, "to_ns", o->to);
	else
		put_null(r, "to_ns");
	put_bool(r, "times_count_from_begin", o->relative);
	put_cstr(r, "capture", o->capture_tag);
	if (o->pid)
		put_u64(r, "pid", o->pid);
	else
		put_null(r, "pid");
	if (o->tid)
		put_u64(r, "tid", o->tid);
	else
		put_null(r, "tid");
	put_cstr(r, "name", o->name_glob);
	put_bool(r, "only_captures", session__only_captures(r->s));
	put_end_object(r);
}

void report__head(struct report *r, const char *format)
{
	put_u64(r, "schema_version", REPORT_SCHEMA_VERSION);
	put_cstr(r, "format", format);
	json__line(&r->j);
	put_tool(r);
	json__line(&r->j);
	put_file(r);
	json__line(&r->j);
	put_clocks(r);
	json__line(&r->j);
	put_view(r);
}

/* --- targets --------------------------------------------------------------------------------- */

static void put_target(struct report *r, const struct track *t, size_t threads)
{
	const struct process_info *p = t->proc;

	put_row(r);
	put_u64(r, "process", t->process);
	put_u64(r, "pid", p->pid);
	if (p->ns_pid)
		put_u64(r, "own_pid", p->ns_pid);
	else
		put_null(r, "own_pid");
	put_u64(r, "parent_pid", p->ppid);
	put_u64(r, "uid", p->uid);
	put_u64(r, "image", p->exec_gen);
	put_u64(r, "started_boottime_ns", p->start);
	put_cstr(r, "command", p->comm);
	put_cstr(r, "executable", p->exe);
	put_cstr(r, "command_line", p->cmdline);
	put_cstr(r, "cgroup", p->cgroup);
	put_cstr(r, "container", p->container);
	put_cstr(r, "label", p->label);
	put_u64(r, "threads", threads);
	put_bool(r, "ended", p->ended != 0);
	if (p->ended) {
		put_at(r, "ended_at_ns", p->ended);
		put_i64(r, "wait_status", p->exit_code);
	} else {
		put_null(r, "ended_at_ns");
		put_null(r, "wait_status");
	}
	put_end_object(r);
}

static size_t threads_of(const struct session *s, size_t track)
{
	uint32_t process = session__track(s, track)->process;
	size_t n = 0;

	for (; track < session__n_tracks(s); track++) {
		if (session__track(s, track)->process != process)
			break;
		n += session__track(s, track)->used;
	}
	return n;
}

void report__targets(struct report *r)
{
	const struct recording_meta *m = recording__meta(session__recording(r->s));
	size_t i, n = 0;

	put_object(r, "targets");
	put_cstr(r, "asked_for", m->targets);
	put_array(r, "processes");
	for (i = 0; i < session__n_tracks(r->s); i++) {
		const struct track *t = session__track(r->s, i);

		if (t->leads && n++ < REPORT_MAX_ROWS)
			put_target(r, t, threads_of(r->s, i));
	}
	put_end_array(r);
	put_u64(r, "left_out", n > REPORT_MAX_ROWS ? n - REPORT_MAX_ROWS : 0);
	put_end_object(r);
}

/* --- captures -------------------------------------------------------------------------------- */

static void put_capture(struct report *r, size_t i)
{
	const struct session_capture *c = session__capture(r->s, i);
	const struct recording *rec = session__recording(r->s);
	const struct capture_stats *cs = i < r->st->n_captures ? &r->st->captures[i] : NULL;

	put_row(r);
	put_cstr(r, "tag", c->tag);
	if (c->info->process < recording__n_processes(rec))
		put_u64(r, "opened_by", c->info->process);
	else
		put_null(r, "opened_by");
	put_at(r, "begin_ns", c->begin);
	put_at(r, "end_ns", c->end);
	put_u64(r, "duration_ns", c->end - c->begin);
	put_u64(r, "begin_boottime_ns", c->begin);
	put_u64(r, "end_boottime_ns", c->end);
	put_realtime(r, "begin_realtime_ns", c->begin);
	put_realtime(r, "end_realtime_ns", c->end);
	put_bool(r, "open", c->open);
	if (cs) {
		put_u64(r, "spans", cs->spans);
		put_u64(r, "late_spans", cs->late);
		put_u64(r, "cut_spans", cs->cut);
		put_u64(r, "self_ns", cs->self_ns);
	} else {
		put_null(r, "spans");
		put_null(r, "late_spans");
		put_null(r, "cut_spans");
		put_null(r, "self_ns");
	}
	put_end_object(r);
}

void report__captures(struct report *r)
{
	size_t i, n = session__n_captures(r->s);

	put_array(r, "captures");
	for (i = 0; i < n && i < REPORT_MAX_ROWS; i++)
		put_capture(r, i);
	put_end_array(r);
	put_u64(r, "captures_left_out", n - i);
}

/* --- losses ---------------------------------------------------------------------------------- */

static void put_causes(struct report *r, const struct losses *l)
{
	unsigned int i;

	put_array(r, "causes");
	for (i = 1; i < LOSS_CAUSE_COUNT; i++) {
		put_row(r);
		put_cstr(r, "cause", losses__code(i));
		put_cstr(r, "text", losses__text(i));
		put_u64(r, "records", l->records[i]);
		put_u64(r, "unknown_at_most", l->at_most[i]);
		put_end_object(r);
	}
	put_end_array(r);
}

/* What came through one kind of marker or one probe; markers are always there. */
struct source {
	const char *probe; /* NULL = markers */
	struct losses l;
};

static int by_probe(const void *a, const void *b)
{
	const struct loss_info *x = *(const struct loss_info *const *)a;
	const struct loss_info *y = *(const struct loss_info *const *)b;

	if (!x->probe || !y->probe)
		return (x->probe != NULL) - (y->probe != NULL);
	return strcmp(x->probe, y->probe);
}

static void put_source(struct report *r, const struct source *s)
{
	put_row(r);
	put_cstr(r, "source", s->probe ? "probe" : "markers");
	put_cstr(r, "probe", s->probe);
	put_u64(r, "records", s->l.all_records);
	put_u64(r, "unknown_at_most", s->l.all_at_most);
	put_causes(r, &s->l);
	put_end_object(r);
}

static void put_sources(struct report *r, const struct loss_info **rows, size_t n)
{
	struct source s = { 0 };
	size_t i, shown = 0;

	qsort(rows, n, sizeof(*rows), by_probe);
	put_array(r, "sources");
	for (i = 0; i < n && shown < REPORT_MAX_ROWS; i++) {
		if (rows[i]->probe && (!s.probe || strcmp(s.probe, rows[i]->probe))) {
			put_source(r, &s);
			s = (struct source){ .probe = rows[i]->probe };
			shown++;
		}
		losses__add(&s.l, rows[i]);
	}
	put_source(r, &s);
	put_end_array(r);
}

static void put_loss_row(struct report *r, const struct loss_info *l)
{
	put_row(r);
	if (l->process < recording__n_processes(session__recording(r->s))) {
		put_u64(r, "process", l->process);
		put_u64(r, "pid", recording__process(session__recording(r->s), l->process)->pid);
	} else {
		put_null(r, "process");
		put_null(r, "pid");
	}
	if (l->cpu >= 0)
		put_u64(r, "cpu", (uint64_t)l->cpu);
	else
		put_null(r, "cpu");
	put_cstr(r, "probe", l->probe);
	put_cstr(r, "cause", losses__code(l->cause));
	put_u64(r, "records", l->records);
	put_u64(r, "unknown_at_most", l->at_most);
	put_end_object(r);
}

void report__loss(struct report *r)
{
	const struct recording *rec = session__recording(r->s);
	size_t i, n = recording__n_losses(rec);
	const struct loss_info **rows = calloc(n + 1, sizeof(*rows));
	struct losses all;

	if (!rows) {
		r->j.err = r->j.err ? r->j.err : -ENOMEM;
		return;
	}
	for (i = 0; i < n; i++)
		rows[i] = recording__loss(rec, i);
	losses__sum(&all, rec);
	put_object(r, "loss");
	put_u64(r, "records", all.all_records);
	put_u64(r, "unknown_at_most", all.all_at_most);
	put_causes(r, &all);
	put_array(r, "rows");
	for (i = 0; i < n && i < REPORT_MAX_ROWS; i++)
		put_loss_row(r, rows[i]);
	put_end_array(r);
	put_u64(r, "rows_left_out", n - i);
	put_sources(r, rows, n);
	put_end_object(r);
	free(rows);
}

/* --- counts, repairs, warnings --------------------------------------------------------------- */

static uint64_t redacted_spans(const struct stats *st)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < st->n_ops; i++)
		n += st->ops[i].redacted;
	return n;
}

void report__counts(struct report *r)
{
	const struct count_info *n = recording__counts(session__recording(r->s));
	const struct session_counts *c = session__counts(r->s);

	put_object(r, "records");
	put_u64(r, "emitted", n->emitted);
	put_u64(r, "recorded", n->recorded);
	put_u64(r, "lost", n->lost);
	put_end_object(r);
	json__line(&r->j);
	put_object(r, "counts");
	put_u64(r, "spans", c->spans);
	put_u64(r, "instants", c->instants);
	put_u64(r, "counter_samples", c->counters);
	put_u64(r, "async_spans", c->asyncs);
	put_u64(r, "flow_steps", c->flows);
	put_u64(r, "memory_events", c->memory);
	put_u64(r, "requests", c->requests);
	put_u64(r, "self_ns", r->st->self_ns);
	put_end_object(r);
	json__line(&r->j);
	put_object(r, "repaired");
	put_u64(r, "unfinished", c->unfinished);
	put_u64(r, "no_begin", c->no_begin);
	put_u64(r, "clipped", c->clipped);
	put_u64(r, "orphan_ends", c->orphan_ends);
	put_u64(r, "bad_times", c->bad_times);
	put_u64(r, "damaged_blocks", c->damaged);
	put_u64(r, "forgotten", c->forgotten);
	put_end_object(r);
	json__line(&r->j);
	put_object(r, "left_out");
	put_u64(r, "filtered_records", n->filtered);
	put_u64(r, "spans_outside_captures", c->outside);
	put_u64(r, "redacted_spans", redacted_spans(r->st));
	put_end_object(r);
}

void report__warnings(struct report *r)
{
	size_t i, k;

	put_array(r, "warnings");
	for (i = 0; i < r->st->n_warnings; i++) {
		const struct stats_warning *w = &r->st->warnings[i];

		put_row(r);
		json__key(&r->j, "code");
		json__cstr(&r->j, w->code);
		json__key(&r->j, "text");
		json__cstr(&r->j, w->text);
		if (w->n_facts) {
			put_object(r, "evidence");
			for (k = 0; k < w->n_facts; k++)
				put_u64(r, w->facts[k].key, w->facts[k].value);
			put_end_object(r);
		} else {
			put_null(r, "evidence");
		}
		put_end_object(r);
	}
	put_end_array(r);
}
