// SPDX-License-Identifier: Apache-2.0
/* What was recorded, where and how, and what of it is missing; the rows of the timeline. */
#include "export/html_parts.h"
#include "export/losses.h"

#include <string.h>

#define MAX_CAPTURES 1000
#define MAX_PROBES 200

static void put_recorder(struct html *h)
{
	const struct recording *r = session__recording(h->s);
	const struct recording_meta *m = recording__meta(r);
	const struct recording_state *f = recording__state(r);

	json__key(&h->j, "recorder");
	json__object(&h->j);
	html__cstr(h, "tool", m->tool);
	html__cstr(h, "version", m->version);
	html__cstr(h, "command", m->command);
	html__cstr(h, "targets", m->targets);
	html__cstr(h, "host", m->host);
	html__cstr(h, "kernel", m->kernel);
	html__cstr(h, "arch", m->arch);
	html__u64(h, "cpus", m->cpus);
	html__u64(h, "ram", m->ram_bytes);
	html__u64(h, "created", m->created_realtime);
	html__u64(h, "events", f->events);
	html__u64(h, "bytes", f->bytes);
	html__bool(h, "incomplete", f->incomplete);
	html__u64(h, "badSegments", f->bad_segments);
	html__u64(h, "trailing", f->trailing_bytes);
	json__end_object(&h->j);
}

static void put_time(struct html *h)
{
	json__key(&h->j, "time");
	json__object(&h->j);
	html__at(h, "begin", session__begin(h->s));
	html__at(h, "end", session__end(h->s));
	html__u64(h, "realtime", session__realtime(h->s, session__origin(h->s)));
	html__u64(h, "boottime", session__origin(h->s));
	html__bool(h, "onlyCaptures", session__only_captures(h->s));
	html__u64(h, "observed", h->st->observed_ns);
	html__u64(h, "self", h->st->self_ns);
	json__end_object(&h->j);
}

static void put_causes(struct html *h, const struct losses *l)
{
	unsigned int i;

	json__key(&h->j, "causes");
	json__array(&h->j);
	for (i = 1; i < LOSS_CAUSE_COUNT; i++) {
		json__object(&h->j);
		html__cstr(h, "code", losses__code(i));
		html__cstr(h, "text", losses__text(i));
		html__u64(h, "records", l->records[i]);
		html__u64(h, "atMost", l->at_most[i]);
		json__end_object(&h->j);
	}
	json__end_array(&h->j);
}

static void put_probes(struct html *h)
{
	const struct recording *r = session__recording(h->s);
	size_t i, n = 0;

	json__key(&h->j, "probes");
	json__array(&h->j);
	for (i = 0; i < recording__n_losses(r) && n < MAX_PROBES; i++) {
		const struct loss_info *l = recording__loss(r, i);

		if (!l->probe || (!l->records && !l->at_most))
			continue;
		n++;
		json__object(&h->j);
		html__cstr(h, "probe", l->probe);
		html__cstr(h, "text", losses__text(l->cause));
		html__u64(h, "records", l->records);
		html__u64(h, "atMost", l->at_most);
		json__end_object(&h->j);
	}
	json__end_array(&h->j);
}

static void put_losses(struct html *h)
{
	const struct recording *r = session__recording(h->s);
	const struct count_info *c = recording__counts(r);
	const struct dropped_info *d = recording__dropped(r);
	struct losses l;

	losses__sum(&l, r);
	json__key(&h->j, "loss");
	json__object(&h->j);
	html__u64(h, "emitted", c->emitted);
	html__u64(h, "recorded", c->recorded);
	html__u64(h, "lost", c->lost);
	html__u64(h, "filtered", c->filtered);
	html__u64(h, "records", l.all_records);
	html__u64(h, "atMost", l.all_at_most);
	put_causes(h, &l);
	put_probes(h);
	if (d && d->events) {
		json__key(&h->j, "dropped");
		json__object(&h->j);
		html__u64(h, "events", d->events);
		html__at(h, "until", d->until);
		json__end_object(&h->j);
	}
	json__end_object(&h->j);
}

static void put_counts(struct html *h)
{
	const struct session_counts *c = session__counts(h->s);

	json__key(&h->j, "counts");
	json__object(&h->j);
	html__u64(h, "spans", c->spans);
	html__u64(h, "instants", c->instants);
	html__u64(h, "counters", c->counters);
	html__u64(h, "asyncs", c->asyncs);
	html__u64(h, "flows", c->flows);
	html__u64(h, "memory", c->memory);
	html__u64(h, "requests", c->requests);
	html__u64(h, "unfinished", c->unfinished);
	html__u64(h, "noBegin", c->no_begin);
	html__u64(h, "clipped", c->clipped);
	html__u64(h, "orphanEnds", c->orphan_ends);
	html__u64(h, "badTimes", c->bad_times);
	html__u64(h, "late", c->late);
	html__u64(h, "damaged", c->damaged);
	html__u64(h, "forgotten", c->forgotten);
	html__u64(h, "outside", c->outside);
	json__end_object(&h->j);
}

static void put_warnings(struct html *h)
{
	size_t i;

	json__key(&h->j, "warnings");
	json__array(&h->j);
	for (i = 0; i < h->st->n_warnings && i < HTML_MAX_ROWS_SHOWN; i++) {
		json__object(&h->j);
		html__cstr(h, "code", h->st->warnings[i].code);
		html__cstr(h, "text", h->st->warnings[i].text);
		json__end_object(&h->j);
	}
	json__end_array(&h->j);
}

static void put_captures(struct html *h)
{
	size_t i, n = session__n_captures(h->s);
	const struct session_capture *c;

	json__key(&h->j, "captures");
	json__array(&h->j);
	for (i = 0; i < n && i < MAX_CAPTURES; i++) {
		c = session__capture(h->s, i);
		json__object(&h->j);
		html__cstr(h, "tag", c->tag);
		html__at(h, "begin", c->begin);
		html__at(h, "end", c->end);
		html__bool(h, "open", c->open);
		if (i < h->st->n_captures) {
			html__u64(h, "spans", h->st->captures[i].spans);
			html__u64(h, "late", h->st->captures[i].late);
			html__u64(h, "cut", h->st->captures[i].cut);
			html__u64(h, "self", h->st->captures[i].self_ns);
		}
		json__end_object(&h->j);
	}
	json__end_array(&h->j);
	html__u64(h, "nCaptures", n);
}

static void put_process(struct html *h, const struct track *t)
{
	const struct process_info *p = t->proc;

	json__object(&h->j);
	html__u64(h, "process", t->process);
	html__u64(h, "pid", p->pid);
	html__u64(h, "nsPid", p->ns_pid);
	html__cstr(h, "comm", p->comm);
	html__cstr(h, "label", p->label);
	html__cstr(h, "exe", p->exe);
	html__cstr(h, "cmdline", p->cmdline);
	html__cstr(h, "container", p->container);
	html__cstr(h, "cgroup", p->cgroup);
	html__u64(h, "image", p->exec_gen);
	html__bool(h, "ended", p->ended != 0);
	html__i64(h, "exit", p->exit_code);
	json__end_object(&h->j);
}

static void put_processes(struct html *h)
{
	size_t i, n = 0;

	json__key(&h->j, "processes");
	json__array(&h->j);
	for (i = 0; i < session__n_tracks(h->s); i++) {
		const struct track *t = session__track(h->s, i);

		if (t->leads && n++ < HTML_MAX_ROWS_SHOWN)
			put_process(h, t);
	}
	json__end_array(&h->j);
	html__u64(h, "nProcesses", n);
}

void html__put_context(struct html *h)
{
	put_recorder(h);
	put_time(h);
	put_losses(h);
	put_counts(h);
	put_warnings(h);
	put_captures(h);
	put_processes(h);
	html__flush(h);
}

/* --- rows of the timeline ----------------------------------------------------------------------- */

static void put_track(struct html *h, const struct track *t)
{
	const struct thread_stats *th = &h->st->threads[t->index];

	json__object(&h->j);
	html__u64(h, "stream", t->index);
	html__u64(h, "process", t->process);
	html__u64(h, "pid", t->pid);
	html__u64(h, "tid", t->tid);
	html__cstr(h, "name", t->name);
	html__u64(h, "spans", th->spans);
	html__u64(h, "busy", th->busy_ns);
	html__u64(h, "gap", th->longest_gap_ns);
	html__at(h, "gapAt", th->longest_gap_at);
	json__end_object(&h->j);
}

static void put_lane(struct html *h, uint32_t i)
{
	const struct html_lane *l = &h->spans.lanes[i];

	json__object(&h->j);
	html__u64(h, "stream", h->spans.n_tracks + i);
	html__u64(h, "process", l->track->process);
	html__u64(h, "pid", l->track->pid);
	html__cstr(h, "kind", l->kind == LANE_REQUEST ? "request" : "async");
	html__text(h, "name", l->name);
	html__u64(h, "lane", l->lane);
	json__end_object(&h->j);
}

static void put_ops(struct html *h)
{
	uint32_t i;

	json__key(&h->j, "opName");
	json__array(&h->j);
	for (i = 0; i < h->spans.n_ops; i++)
		json__u64(&h->j, i ? html__text_id(h, h->spans.ops[i].name) : 0);
	json__end_array(&h->j);
	json__key(&h->j, "opCat");
	json__array(&h->j);
	for (i = 0; i < h->spans.n_ops; i++)
		json__u64(&h->j, html__text_id(h, h->spans.ops[i].cat));
	json__end_array(&h->j);
}

void html__put_streams(struct html *h)
{
	size_t i, n = 0;
	uint32_t k;

	json__key(&h->j, "tracks");
	json__array(&h->j);
	for (i = 0; i < session__n_tracks(h->s); i++) {
		const struct track *t = session__track(h->s, i);

		if (t->used && n++ < HTML_MAX_TRACKS)
			put_track(h, t);
	}
	json__end_array(&h->j);
	html__u64(h, "nTracks", n);
	json__key(&h->j, "lanes");
	json__array(&h->j);
	for (k = 0; k < h->spans.n_lanes; k++)
		put_lane(h, k);
	json__end_array(&h->j);
	put_ops(h);
	html__flush(h);
}
