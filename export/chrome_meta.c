// SPDX-License-Identifier: Apache-2.0
#include "export/chrome_meta.h"

#include "export/losses.h"

#include <stdio.h>
#include <string.h>

static void pair_str(struct json *j, const char *key, const char *value)
{
	json__key(j, key);
	json__cstr(j, value);
}

static void pair_u64(struct json *j, const char *key, uint64_t value)
{
	json__key(j, key);
	json__u64(j, value);
}

void chrome_meta__head(struct json *j, const struct session *s, uint64_t base)
{
	uint64_t realtime = session__realtime(s, base);

	json__object(j);
	pair_str(j, "displayTimeUnit", "ns");
	pair_u64(j, "schemaVersion", 1);
	/* Kineto's name: what CLOCK_REALTIME was when ts was 0. */
	json__key(j, "baseTimeNanoseconds");
	if (realtime)
		json__u64(j, realtime);
	else
		json__null(j);
	pair_u64(j, "baseBoottimeNanoseconds", base);
	json__key(j, "traceEvents");
	json__array(j);
}

/* --- names of tracks ------------------------------------------------------------------------- */

static void meta_open(struct json *j, const char *what, const struct trace_ids *ids, size_t track)
{
	json__line(j);
	json__object(j);
	pair_str(j, "ph", "M");
	pair_str(j, "name", what);
	pair_u64(j, "pid", ids->pid[track]);
	pair_u64(j, "tid", ids->tid[track]);
	json__key(j, "args");
	json__object(j);
}

static void meta_close(struct json *j)
{
	json__end_object(j);
	json__end_object(j);
}

static void label_add(struct buf *b, const char *key, const char *value)
{
	if (value && *value)
		buf__printf(b, "%s%s %s", b->len ? ", " : "", key, value);
}

static void put_labels(struct json *j, const struct track *t, const struct trace_ids *ids)
{
	const struct process_info *p = t->proc;
	struct buf b = { 0 };

	if (ids->pid[t->index] != t->pid)
		buf__printf(&b, "pid %u, image %u", t->pid, ids->image[t->index]);
	if (p->label && *p->label)
		buf__printf(&b, "%s%s", b.len ? ", " : "", p->label);
	label_add(&b, "container", p->container);
	label_add(&b, "cgroup", p->cgroup);
	if (b.len && !buf__error(&b)) {
		meta_open(j, "process_labels", ids, t->index);
		json__key(j, "labels");
		json__str(j, (const char *)b.data, b.len);
		meta_close(j);
	}
	buf__free(&b);
}

/* Importers take an empty name for a mistake. */
static void put_name(struct json *j, const char *name, const char *what, uint32_t number)
{
	char made_up[32];

	if (!name || !*name) {
		snprintf(made_up, sizeof(made_up), "%s %u", what, number);
		name = made_up;
	}
	pair_str(j, "name", name);
}

void chrome_meta__names(struct json *j, const struct session *s, const struct trace_ids *ids)
{
	const struct track *t;
	size_t i;

	for (i = 0; i < ids->n; i++) {
		t = session__track(s, i);
		if (!t->used)
			continue;
		if (t->leads) {
			meta_open(j, "process_name", ids, i);
			put_name(j, t->proc->comm, "process", t->pid);
			meta_close(j);
			put_labels(j, t, ids);
		}
		meta_open(j, "thread_name", ids, i);
		put_name(j, t->name, "thread", t->tid);
		if (ids->tid[i] != t->tid)
			pair_u64(j, "tid", t->tid);
		meta_close(j);
	}
}

/* --- losses ---------------------------------------------------------------------------------- */

static void put_losses(struct json *j, const struct losses *l)
{
	unsigned int i;

	json__object(j);
	pair_u64(j, "records", l->all_records);
	pair_u64(j, "unknown_at_most", l->all_at_most);
	json__key(j, "causes");
	json__object(j);
	for (i = 1; i < LOSS_CAUSE_COUNT; i++) {
		json__key(j, losses__code(i));
		json__object(j);
		pair_u64(j, "records", l->records[i]);
		pair_u64(j, "unknown_at_most", l->at_most[i]);
		json__end_object(j);
	}
	json__end_object(j);
	json__end_object(j);
}

void chrome_meta__loss_event(struct json *j, const struct session *s, const struct trace_ids *ids,
			     uint64_t ts)
{
	struct losses l;
	size_t i = 0;

	losses__sum(&l, session__recording(s));
	while (i < ids->n && !session__track(s, i)->used)
		i++;
	if (i == ids->n || (!l.all_records && !l.all_at_most))
		return;
	json__line(j);
	json__object(j);
	pair_str(j, "ph", "i");
	pair_str(j, "s", "g");
	pair_str(j, "name", "records lost");
	pair_str(j, "cat", "clika");
	json__key(j, "ts");
	json__us(j, ts);
	pair_u64(j, "pid", ids->pid[i]);
	pair_u64(j, "tid", ids->tid[i]);
	json__key(j, "args");
	put_losses(j, &l);
	json__end_object(j);
}

/* --- metadata -------------------------------------------------------------------------------- */

static void put_recorder(struct json *j, const struct recording_meta *m)
{
	json__object(j);
	pair_str(j, "tool", m->tool);
	pair_str(j, "version", m->version);
	pair_str(j, "command", m->command);
	pair_str(j, "targets", m->targets);
	pair_str(j, "host", m->host);
	pair_str(j, "kernel", m->kernel);
	pair_str(j, "arch", m->arch);
	pair_u64(j, "cpus", m->cpus);
	pair_u64(j, "ram_bytes", m->ram_bytes);
	pair_u64(j, "created_realtime_ns", m->created_realtime);
	json__end_object(j);
}

static void put_processes(struct json *j, const struct session *s, const struct trace_ids *ids)
{
	const struct process_info *p;
	const struct track *t;
	size_t i;

	json__array(j);
	for (i = 0; i < ids->n; i++) {
		t = session__track(s, i);
		if (!t->leads)
			continue;
		p = t->proc;
		json__line(j);
		json__object(j);
		pair_u64(j, "trace_pid", ids->pid[i]);
		pair_u64(j, "pid", p->pid);
		pair_u64(j, "ppid", p->ppid);
		pair_u64(j, "ns_pid", p->ns_pid);
		pair_u64(j, "uid", p->uid);
		pair_u64(j, "start_boottime_ns", p->start);
		pair_u64(j, "exec_generation", p->exec_gen);
		pair_str(j, "comm", p->comm);
		pair_str(j, "exe", p->exe);
		pair_str(j, "cmdline", p->cmdline);
		pair_str(j, "label", p->label);
		pair_str(j, "container", p->container);
		pair_str(j, "cgroup", p->cgroup);
		json__end_object(j);
	}
	json__end_array(j);
}

static void put_captures(struct json *j, const struct session *s)
{
	const struct session_capture *c;
	size_t i;

	json__array(j);
	for (i = 0; i < session__n_captures(s); i++) {
		c = session__capture(s, i);
		json__line(j);
		json__object(j);
		pair_str(j, "tag", c->tag);
		pair_u64(j, "begin_boottime_ns", c->begin);
		pair_u64(j, "end_boottime_ns", c->end);
		json__key(j, "open");
		json__bool(j, c->open);
		json__end_object(j);
	}
	json__end_array(j);
}

static void put_counts(struct json *j, const struct session *s, uint64_t not_finite)
{
	const struct recording_state *st = recording__state(session__recording(s));
	const struct count_info *r = recording__counts(session__recording(s));
	const struct session_counts *c = session__counts(s);

	json__object(j);
	pair_u64(j, "emitted", r->emitted);
	pair_u64(j, "recorded", r->recorded);
	pair_u64(j, "lost", r->lost);
	pair_u64(j, "filtered", r->filtered);
	pair_u64(j, "spans", c->spans);
	pair_u64(j, "instants", c->instants);
	pair_u64(j, "counters", c->counters);
	pair_u64(j, "asyncs", c->asyncs);
	pair_u64(j, "flows", c->flows);
	pair_u64(j, "memory", c->memory);
	pair_u64(j, "requests", c->requests);
	pair_u64(j, "unfinished", c->unfinished);
	pair_u64(j, "no_begin", c->no_begin);
	pair_u64(j, "clipped", c->clipped);
	pair_u64(j, "orphan_ends", c->orphan_ends);
	pair_u64(j, "bad_times", c->bad_times);
	pair_u64(j, "late", c->late);
	pair_u64(j, "outside_captures", c->outside);
	pair_u64(j, "forgotten", c->forgotten);
	pair_u64(j, "not_finite_samples", not_finite);
	pair_u64(j, "damaged_blocks", c->damaged);
	pair_u64(j, "bad_segments", st->bad_segments);
	pair_u64(j, "trailing_bytes", st->trailing_bytes);
	json__end_object(j);
}

static void put_warnings(struct json *j, const struct recording *r)
{
	const struct warning_info *w;
	size_t i;

	json__array(j);
	for (i = 0; i < recording__n_warnings(r); i++) {
		w = recording__warning(r, i);
		json__line(j);
		json__object(j);
		pair_str(j, "code", w->code);
		pair_str(j, "text", w->text);
		json__end_object(j);
	}
	json__end_array(j);
}

void chrome_meta__tail(struct json *j, const struct session *s, const struct trace_ids *ids,
		       uint64_t not_finite)
{
	const struct recording *r = session__recording(s);
	struct losses l;

	losses__sum(&l, r);
	json__object(j);
	json__key(j, "recorder");
	put_recorder(j, recording__meta(r));
	json__key(j, "incomplete");
	json__bool(j, recording__state(r)->incomplete);
	json__key(j, "begin_boottime_ns");
	json__u64(j, session__begin(s));
	json__key(j, "end_boottime_ns");
	json__u64(j, session__end(s));
	json__key(j, "loss");
	put_losses(j, &l);
	json__key(j, "counts");
	put_counts(j, s, not_finite);
	json__key(j, "captures");
	put_captures(j, s);
	json__key(j, "warnings");
	put_warnings(j, r);
	json__key(j, "processes");
	put_processes(j, s, ids);
	json__end_object(j);
}
