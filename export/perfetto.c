// SPDX-License-Identifier: Apache-2.0
/*
 * Perfetto's own format. A thread is a track and a sequence, so that a span takes two packets of
 * some 14 bytes; what has no thread (async spans, requests, counters) shares one sequence and
 * names its track in each event.
 */
#include "export/exporter.h"
#include "export/losses.h"
#include "export/perfetto_flows.h"
#include "export/perfetto_meta.h"
#include "export/perfetto_tracks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct thread {
	struct pf_seq seq;
	struct pf_arrows arrows;
};

struct sample { /* of a counter; written again at the end, or viewers do not draw it */
	const struct track *track;
	enum pf_counter what;
	uint32_t id;
	uint64_t ts, value;
	bool is_f64;
};

struct perfetto {
	struct session *s;
	struct pf_out o;
	struct pf_seq meta;   /* clocks, descriptions, attributes */
	struct pf_seq shared; /* events that have no thread */
	struct pf_seq losses, captures;
	struct pf_clocks clocks;
	struct pf_tracks tracks;
	struct thread *threads; /* by track */
	struct pf_flows flows;
	struct map64 *samples_at; /* track of the counter -> index */
	struct sample *samples;
	size_t n_samples, cap_samples;
	struct map64 *lost_at; /* process -> index */
	struct losses *lost;
	size_t n_lost, cap_lost;
	struct pf_counts counts;
	uint64_t last_ts; /* of all items */
	bool args;
};

static void *grow(void *array, size_t n, size_t *cap, size_t bytes)
{
	void *bigger;

	if (n < *cap)
		return array;
	bigger = realloc(array, (*cap ? *cap * 2 : 16) * bytes);
	if (bigger)
		*cap = *cap ? *cap * 2 : 16;
	return bigger;
}

static int status(const struct perfetto *p)
{
	return p->o.err ? p->o.err : p->tracks.err ? p->tracks.err : p->flows.err;
}

static struct pf_seq *thread_seq(struct perfetto *p, const struct track *t, uint64_t ts)
{
	struct pf_seq *q = &p->threads[t->index].seq;

	if (!q->id)
		q->track = pf_tracks__thread(&p->tracks, t, ts);
	return q;
}

/* --- annotations ----------------------------------------------------------------------------------- */

static void note_value(struct perfetto *p, const struct event_arg *a)
{
	Pf__DebugAnnotation *n = pf_event__note(&p->o, a->key);

	switch (a->type) {
	case ARG_I64:
		n->has_int_value = true;
		n->int_value = a->i;
		break;
	case ARG_U64:
		n->has_uint_value = true;
		n->uint_value = a->u;
		break;
	case ARG_F64:
		n->has_double_value = true;
		n->double_value = a->f;
		break;
	default:
		n->has_string_value = true;
		n->string_value = pf_out__text(&p->o, a->type == ARG_STR ? a->str : "",
					       a->type == ARG_STR ? a->len : 0);
	}
}

static void note_args(struct perfetto *p, const struct event *ev)
{
	size_t i, k;

	if (!p->args)
		return;
	for (i = 0; i < ev->nargs; i++) {
		/* A key that the end gives again: the newer value stands. */
		for (k = i + 1; k < ev->nargs && ev->args[k].key != ev->args[i].key; k++)
			;
		if (k == ev->nargs)
			note_value(p, &ev->args[i]);
	}
}

static void note_source(struct perfetto *p, const struct event *ev)
{
	if (p->args)
		pf_event__source(&p->o, ev->src);
}

/* --- spans -------------------------------------------------------------------------------------------- */

#define TELLING (EVS_UNFINISHED | EVS_NO_BEGIN | EVS_CLIPPED | EVS_REDACTED)

static void span__begin(struct perfetto *p, const struct item *it)
{
	const struct event *ev = it->ev;
	struct pf_seq *q = thread_seq(p, it->track, it->ts);
	uint32_t source = p->args ? ev->src : 0;
	uint32_t category = ev->cat                    ? ev->cat
			    : ev->flags & EVS_FUNCTION ? (uint32_t)PF_T_FUNCTION
			    : ev->flags & EVS_USDT     ? (uint32_t)PF_T_USDT
						       : 0;

	if (it->span->depth >= PF_MAX_DEPTH) {
		p->counts.too_deep++;
		return;
	}
	if ((!ev->nargs || !p->args) && !(ev->flags & TELLING) && !it->span->late &&
	    !it->span->cut) {
		pf_seq__span(&p->o, q, PF_BEGIN, it->ts, ev->name, category, source);
		return;
	}
	pf_event__open(&p->o, q, PF_BEGIN, it->ts, 0);
	pf_event__name(&p->o, ev->name);
	pf_event__category(&p->o, category);
	pf_event__source(&p->o, source);
	note_args(p, ev);
	pf_event__flag(&p->o, PF_T_UNFINISHED, ev->flags & EVS_UNFINISHED);
	pf_event__flag(&p->o, PF_T_NO_BEGIN, ev->flags & EVS_NO_BEGIN);
	pf_event__flag(&p->o, PF_T_CLIPPED, ev->flags & EVS_CLIPPED);
	pf_event__flag(&p->o, PF_T_REDACTED, ev->flags & EVS_REDACTED);
	pf_event__flag(&p->o, PF_T_LATE, it->span->late);
	pf_event__flag(&p->o, PF_T_CUT, it->span->cut);
	pf_event__write(&p->o);
}

static void span__end(struct perfetto *p, const struct item *it)
{
	struct thread *th = &p->threads[it->track->index];
	uint64_t ids[PF_MAX_ARROWS], last[PF_MAX_ARROWS];
	struct pf_event *e;
	size_t n, n_last;

	if (it->span->depth >= PF_MAX_DEPTH)
		return;
	pf_arrows__take(&th->arrows, it->span->depth, ids, &n, last, &n_last);
	if (!n && !n_last) {
		pf_seq__span(&p->o, &th->seq, PF_END, it->ts, 0, 0, 0);
		return;
	}
	e = pf_event__open(&p->o, &th->seq, PF_END, it->ts, 0);
	e->te.flow_ids = ids;
	e->te.n_flow_ids = n;
	e->te.terminating_flow_ids = last;
	e->te.n_terminating_flow_ids = n_last;
	pf_event__write(&p->o);
}

static bool instant_fits(struct perfetto *p, const struct item *it)
{
	if (!it->span || it->span->depth + 1 < PF_MAX_DEPTH)
		return true;
	p->counts.too_deep++;
	return false;
}

static void name_after(struct perfetto *p, const char *prefix, uint32_t name, struct buf *text)
{
	struct pf_event *e = &p->o.ev;
	ProtobufCBinaryData s = pf_out__string(&p->o, name);

	if (!*prefix) {
		pf_event__name(&p->o, name);
		return;
	}
	buf__append(text, prefix, strlen(prefix));
	buf__append(text, s.data, s.len);
	e->te.has_name = true;
	e->te.name = (ProtobufCBinaryData){ text->len, text->data };
	if (buf__error(text) && !p->o.err)
		p->o.err = -ENOMEM;
}

static void thread_instant(struct perfetto *p, const struct item *it, const char *prefix)
{
	const struct event *ev = it->ev;
	struct buf text = { 0 };

	if (!instant_fits(p, it))
		return;
	pf_event__open(&p->o, thread_seq(p, it->track, it->ts), PF_BEGIN, it->ts, 0);
	name_after(p, prefix, ev->name, &text);
	pf_event__category(&p->o, ev->cat ? ev->cat : (uint32_t)PF_T_INSTANT);
	note_source(p, ev);
	note_args(p, ev);
	pf_event__write_instant(&p->o);
	buf__free(&text);
}

/* --- counters ------------------------------------------------------------------------------------------ */

static void write_sample(struct perfetto *p, const struct sample *m, uint64_t track, uint64_t ts)
{
	struct pf_event *e = pf_event__open(&p->o, &p->shared, PF_COUNTER, ts, track);

	if (m->is_f64) {
		e->te.has_double_counter_value = true;
		memcpy(&e->te.double_counter_value, &m->value, sizeof(m->value));
	} else {
		e->te.has_counter_value = true;
		e->te.counter_value = (int64_t)m->value;
	}
	pf_event__write(&p->o);
}

static void take_sample(struct perfetto *p, const struct sample *m)
{
	uint64_t track = pf_tracks__counter(&p->tracks, m->track, m->what, m->id, m->ts);
	uint64_t *at = map64__get(p->samples_at, track);
	struct sample *bigger;

	if (!at) {
		bigger = grow(p->samples, p->n_samples, &p->cap_samples, sizeof(*bigger));
		if (bigger) {
			p->samples = bigger;
			at = map64__put(p->samples_at, track, p->n_samples++);
		}
		if (!at) {
			p->o.err = p->o.err ? p->o.err : -ENOMEM;
			return;
		}
	}
	p->samples[*at] = *m;
	write_sample(p, m, track, m->ts);
}

static void counter(struct perfetto *p, const struct item *it)
{
	struct sample m = {
		.track = it->track,
		.what = PF_COUNTER_PLAIN,
		.id = it->ev->name,
		.ts = it->ts,
		.value = it->ev->value,
		.is_f64 = it->ev->kind == EV_COUNTER_F64,
	};
	double f;

	memcpy(&f, &m.value, sizeof(f));
	if (m.is_f64 && !isfinite(f)) {
		p->counts.not_finite++;
		return;
	}
	take_sample(p, &m);
}

static void memory(struct perfetto *p, const struct item *it)
{
	bool reserved = it->ev->kind == EV_RESERVE || it->ev->kind == EV_RELEASE;
	struct sample m = {
		.track = it->track,
		.what = reserved ? PF_COUNTER_RESERVED : PF_COUNTER_IN_USE,
		.id = it->ev->aux,
		.ts = it->ts,
		.value = (uint64_t)(reserved ? it->reserved : it->current),
	};

	take_sample(p, &m);
}

/* What a filter leaves may reach over the end of its range. */
static uint64_t end_of(const struct perfetto *p)
{
	uint64_t end = session__end(p->s);

	return p->last_ts > end ? p->last_ts : end;
}

static void closing_samples(struct perfetto *p)
{
	uint64_t end = end_of(p);
	const struct sample *m;
	size_t i;

	for (i = 0; i < p->n_samples && !status(p); i++) {
		m = &p->samples[i];
		if (m->ts < end)
			write_sample(p, m,
				     pf_tracks__counter(&p->tracks, m->track, m->what, m->id, end),
				     end);
	}
}

/* --- async spans and requests ---------------------------------------------------------------------------- */

static void async(struct perfetto *p, const struct item *it)
{
	uint64_t lane = pf_tracks__lane(&p->tracks, it, it->async_begin->name, false);
	bool begin = it->kind == IT_ASYNC_BEGIN;

	pf_event__open(&p->o, &p->shared, begin ? PF_BEGIN : PF_END, it->ts, lane);
	if (begin) {
		pf_event__name(&p->o, it->ev->name);
		pf_event__category(&p->o, it->ev->cat ? it->ev->cat : (uint32_t)PF_T_ASYNC);
		note_source(p, it->ev);
		pf_event__note_u64(&p->o, PF_T_ID, it->ev->id);
	}
	if (begin || !it->async_flags)
		note_args(p, it->ev);
	pf_event__flag(&p->o, PF_T_UNFINISHED, it->async_flags & EVS_UNFINISHED);
	pf_event__write(&p->o);
}

static void request(struct perfetto *p, const struct item *it)
{
	bool begin = it->ev->kind == EV_REQUEST_BEGIN, end = it->ev->kind == EV_REQUEST_END;
	uint64_t lane;

	if (!it->lane_key) { /* its begin was not seen: there is no span to hang it on */
		thread_instant(p, it, end ? "end of " : "output of ");
		return;
	}
	lane = pf_tracks__lane(&p->tracks, it, it->request_name, true);
	pf_event__open(&p->o, &p->shared, end ? PF_END : PF_BEGIN, it->ts, lane);
	if (begin) {
		pf_event__name(&p->o, it->request_name);
		pf_event__category(&p->o, it->ev->cat ? it->ev->cat : (uint32_t)PF_T_REQUEST);
		note_source(p, it->ev);
		pf_event__note_u64(&p->o, PF_T_ID, it->ev->id);
	} else {
		if (!end) {
			pf_event__name(&p->o, it->ev->kind == EV_REQUEST_FIRST ? PF_T_FIRST_OUTPUT
									       : PF_T_OUTPUT);
			pf_event__category(&p->o, PF_T_REQUEST);
		}
		pf_event__note_u64(&p->o, PF_T_UNITS, it->units);
		if (end && it->first_ns != UINT64_MAX)
			pf_event__note_u64(&p->o, PF_T_FIRST_NS, it->first_ns);
	}
	if (!it->request_unfinished)
		note_args(p, it->ev);
	pf_event__flag(&p->o, PF_T_UNFINISHED, it->request_unfinished);
	if (begin || end)
		pf_event__write(&p->o);
	else
		pf_event__write_instant(&p->o);
}

/* --- flows ---------------------------------------------------------------------------------------------- */

static void arrow_instant(struct perfetto *p, const struct item *it, uint64_t id)
{
	struct pf_event *e;

	if (!instant_fits(p, it))
		return;
	e = pf_event__open(&p->o, thread_seq(p, it->track, it->ts), PF_BEGIN, it->ts, 0);
	pf_event__name(&p->o, it->ev->name);
	pf_event__category(&p->o, PF_T_FLOW);
	e->te.flow_ids = &id;
	e->te.n_flow_ids = 1;
	pf_event__write_instant(&p->o);
}

static void flow(struct perfetto *p, const struct item *it)
{
	struct pf_arrows *arrows = &p->threads[it->track->index].arrows;
	uint64_t id;

	if (it->flow_arrow && !pf_flows__arrive(&p->flows, arrows, it, &id))
		arrow_instant(p, it, id);
	if (it->flow_last)
		pf_flows__over(&p->flows, it);
	else if (it->span && !pf_flows__leave(&p->flows, arrows, it, &id))
		arrow_instant(p, it, id);
}

/* --- items ---------------------------------------------------------------------------------------------- */

static void event(struct perfetto *p, const struct item *it)
{
	switch (it->ev->kind) {
	case EV_INSTANT:
		thread_instant(p, it, "");
		break;
	case EV_COUNTER_I64:
	case EV_COUNTER_F64:
		counter(p, it);
		break;
	case EV_CAPTURE_BEGIN:
		thread_instant(p, it, "capture begin: ");
		break;
	case EV_CAPTURE_END:
		thread_instant(p, it, "capture end: ");
		break;
	default: /* names: the tracks carry them already */
		break;
	}
}

static int perfetto__item(void *state, const struct item *it)
{
	struct perfetto *p = state;

	p->last_ts = it->ts;
	if (it->ts >= p->clocks.next_at)
		pf_clocks__advance(&p->clocks, it->ts);
	switch (it->kind) {
	case IT_SPAN_BEGIN:
		span__begin(p, it);
		break;
	case IT_SPAN_END:
		span__end(p, it);
		break;
	case IT_EVENT:
		event(p, it);
		break;
	case IT_ASYNC_BEGIN:
	case IT_ASYNC_END:
		async(p, it);
		break;
	case IT_FLOW:
		flow(p, it);
		break;
	case IT_MEMORY:
		memory(p, it);
		break;
	case IT_REQUEST:
		request(p, it);
		break;
	}
	return status(p);
}

/* --- captures -------------------------------------------------------------------------------------------- */

static void write_capture(struct perfetto *p, const struct session_capture *c, uint64_t row)
{
	struct pf_event *e;

	e = pf_event__open(&p->o, &p->captures, PF_BEGIN, c->begin, row);
	e->te.has_name = true;
	e->te.name = pf_out__cstr(&p->o, c->tag);
	pf_event__category(&p->o, PF_T_CAPTURE);
	pf_event__flag(&p->o, PF_T_UNFINISHED, c->open);
	pf_event__write(&p->o);
	pf_event__open(&p->o, &p->captures, PF_END, c->end, row);
	pf_event__write(&p->o);
}

/* Windows that targets opened, each in the first row that is free; the recorder's own window is
 * the whole trace. */
static int captures(struct perfetto *p)
{
	size_t i, row, n_rows = 0, n = session__n_captures(p->s);
	const struct session_capture *c;
	struct {
		uint64_t uuid, end;
	} *rows = calloc(n ? n : 1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	p->captures.absolute = true;
	for (i = 0; i < n && !status(p); i++) {
		c = session__capture(p->s, i);
		if (c->info->process == UINT32_MAX)
			continue;
		if (!p->captures.id)
			pf_seq__start(&p->o, &p->captures, c->begin);
		for (row = 0; row < n_rows && rows[row].end > c->begin; row++)
			;
		if (row == n_rows)
			rows[n_rows++].uuid = pf_tracks__row(&p->tracks, NULL, "captures",
							     "windows that the targets opened",
							     c->begin);
		rows[row].end = c->end;
		write_capture(p, c, rows[row].uuid);
	}
	free(rows);
	return status(p);
}

/* --- losses ---------------------------------------------------------------------------------------------- */

static bool any_loss(const struct losses *l)
{
	return l->all_records || l->all_at_most;
}

/* By process: which ones lost something that is known to be theirs. */
static int find_losses(struct perfetto *p)
{
	const struct recording *r = session__recording(p->s);
	const struct loss_info *row;
	struct losses *bigger;
	uint64_t *at;
	size_t i;

	for (i = 0; i < recording__n_losses(r); i++) {
		row = recording__loss(r, i);
		if (row->process == UINT32_MAX || (!row->records && !row->at_most))
			continue;
		at = map64__get(p->lost_at, row->process);
		if (!at) {
			bigger = grow(p->lost, p->n_lost, &p->cap_lost, sizeof(*bigger));
			if (!bigger)
				return -ENOMEM;
			p->lost = bigger;
			memset(&bigger[p->n_lost], 0, sizeof(*bigger));
			at = map64__put(p->lost_at, row->process, p->n_lost++);
			if (!at)
				return -ENOMEM;
		}
		losses__add(&p->lost[*at], row);
	}
	return 0;
}

static void loss_instant(struct perfetto *p, const struct track *t, const struct losses *l)
{
	uint64_t end = end_of(p);
	uint64_t row = pf_tracks__row(&p->tracks, t, "records lost",
				      "what was emitted and is not in this trace", end);
	Pf__DebugAnnotation *a;
	struct buf name = { 0 };
	struct pf_event *e;
	unsigned int i;

	buf__printf(&name, "records lost: %llu", (unsigned long long)l->all_records);
	if (l->all_at_most)
		buf__printf(&name, ", at most %llu more", (unsigned long long)l->all_at_most);
	if (!any_loss(l)) {
		buf__reset(&name);
		buf__printf(&name, "the recording was not finished");
	}
	e = pf_event__open(&p->o, &p->losses, PF_BEGIN, end, row);
	e->te.has_name = true;
	e->te.name = (ProtobufCBinaryData){ name.len, name.data };
	pf_event__category(&p->o, PF_T_CLIKA);
	for (i = 1; i < LOSS_CAUSE_COUNT; i++) {
		if (!l->records[i] && !l->at_most[i])
			continue;
		a = pf_event__note_named(&p->o, losses__code(i));
		a->has_uint_value = true;
		a->uint_value = l->records[i] ? l->records[i] : l->at_most[i];
	}
	pf_event__write_instant(&p->o);
	if (buf__error(&name) && !p->o.err)
		p->o.err = -ENOMEM;
	buf__free(&name);
}

static void loss_instants(struct perfetto *p)
{
	const struct recording *r = session__recording(p->s);
	struct losses all;
	const struct track *t;
	const uint64_t *at;
	size_t i;

	losses__sum(&all, r);
	if (!any_loss(&all) && !recording__state(r)->incomplete)
		return;
	p->losses.absolute = true;
	p->losses.lossy = true;
	loss_instant(p, NULL, &all);
	for (i = 0; i < session__n_tracks(p->s) && !status(p); i++) {
		t = session__track(p->s, i);
		at = t->leads ? map64__get(p->lost_at, t->process) : NULL;
		if (at)
			loss_instant(p, t, &p->lost[*at]);
	}
}

/* --- the exporter ------------------------------------------------------------------------------------------ */

static int perfetto__close(void *state, struct clika_error *err)
{
	struct perfetto *p = state;
	int code;

	(void)err;
	closing_samples(p);
	code = captures(p);
	if (code)
		return code;
	loss_instants(p);
	pf_clocks__advance(&p->clocks, UINT64_MAX - 1);
	pf_meta__tail(&p->o, &p->meta, &p->counts);
	code = status(p);
	return code ? code : pf_out__flush(&p->o);
}

static void perfetto__free(void *state)
{
	struct perfetto *p = state;
	size_t i;

	for (i = 0; p->threads && i < session__n_tracks(p->s); i++)
		free(p->threads[i].arrows.at);
	free(p->threads);
	free(p->samples);
	free(p->lost);
	map64__free(p->samples_at);
	map64__free(p->lost_at);
	pf_flows__free(&p->flows);
	pf_tracks__free(&p->tracks);
	pf_out__free(&p->o);
	free(p);
}

static int perfetto__open(struct session *s, struct outfile *out, const struct export_opts *o,
			  void **state, struct clika_error *err)
{
	struct perfetto *p = calloc(1, sizeof(*p));
	size_t i, n = session__n_tracks(s);

	if (!p)
		return error__set(err, -ENOMEM, "out of memory");
	*state = p;
	p->s = s;
	p->args = o->stack_args;
	p->threads = calloc(n ? n : 1, sizeof(*p->threads));
	p->samples_at = map64__new();
	p->lost_at = map64__new();
	if (!p->threads || !p->samples_at || !p->lost_at || find_losses(p) ||
	    pf_out__init(&p->o, s, out, o->compress_packets) ||
	    pf_tracks__init(&p->tracks, s, &p->o, &p->meta) ||
	    pf_flows__init(&p->flows, p->tracks.host))
		return error__set(err, -ENOMEM, "out of memory");
	for (i = 0; i < n; i++)
		p->threads[i].seq.lossy = map64__get(p->lost_at, session__track(s, i)->process);
	p->meta.absolute = true;
	pf_clocks__start(&p->clocks, &p->o, &p->meta);
	pf_meta__head(&p->o, &p->meta);
	return status(p);
}

const struct exporter_ops exporter_perfetto = {
	.format = "perfetto",
	.file = "trace.pftrace",
	.summary = "Perfetto trace: opens in ui.perfetto.dev, read by trace_processor",
	.standard = false,
	.open = perfetto__open,
	.item = perfetto__item,
	.close = perfetto__close,
	.free = perfetto__free,
};
