// SPDX-License-Identifier: Apache-2.0
/* Processes, threads and what is told about a recording as a whole. */
#include "user/prof/merge.h"

#include "user/recording/losses.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t moved(const struct merge_input *in, uint64_t ts)
{
	return ts ? ts + in->shift : 0;
}

static const char *host_of(const struct merge *m, const struct merge_input *in)
{
	return m->boots[in->boot].host;
}

/* Names the machine when there are several: a pid alone no longer tells who it is. */
static char *label_of(const struct merge *m, const struct merge_input *in, const char *label)
{
	char *text = NULL;

	if (m->n_boots < 2)
		return strdup(label ? label : "");
	if (asprintf(&text, "%s%s%s", host_of(m, in), label && *label ? ": " : "",
		     label ? label : "") < 0)
		return NULL;
	return text;
}

/* --- a process that is in two recordings ------------------------------------------------------ */

static int note_activity(struct merge_input *in)
{
	size_t i, n = recording__n_processes(in->r);
	const struct recording_block *b;
	struct merge_activity *a;

	in->active = calloc(n + 1, sizeof(*in->active));
	if (!in->active)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		in->active[i].first = UINT64_MAX;
	for (i = 0; i < recording__n_blocks(in->r); i++) {
		b = recording__block(in->r, i);
		if (!b->count)
			continue;
		a = &in->active[recording__thread(in->r, b->thread)->process];
		a->first = b->first_ts < a->first ? b->first_ts : a->first;
		a->last = b->last_end > a->last ? b->last_end : a->last;
	}
	return 0;
}

/* The recorder counts images from when it attached, so the program has to be the same as well. */
static uint64_t who(const struct merge_input *in, const struct process_info *p)
{
	uint64_t is[] = { in->boot, p->pid, p->start, p->exec_gen };

	return hash__bytes(p->exe ? p->exe : "", p->exe ? strlen(p->exe) : 0,
			   hash__bytes(is, sizeof(is), 0));
}

static bool is_same(const struct process_info *a, const struct process_info *b)
{
	return a->pid == b->pid && a->start == b->start && a->exec_gen == b->exec_gen;
}

static int refuse_twice(const struct merge *m, const struct merge_input *in, uint32_t process,
			uint32_t row, struct clika_error *err)
{
	const struct process_info *p = recording__process(in->r, process);
	const struct merge_activity *mine = &in->active[process], *there;
	const struct merge_input *other;
	uint32_t k;

	for (other = m->in; other < in; other++) {
		for (k = 0; other->boot == in->boot && k < recording__n_processes(other->r); k++) {
			there = &other->active[k];
			if (other->process_of[k] != row || mine->first > there->last ||
			    there->first > mine->last)
				continue;
			return error__set(err, -EEXIST,
					  "process %u (%s) was recorded at the same time in %s and "
					  "in %s: everything in it would be there twice",
					  p->pid, p->comm ? p->comm : "?", other->path, in->path);
		}
	}
	return 0;
}

/* --- all of them ------------------------------------------------------------------------------ */

static void *grow(void *rows, size_t n, size_t *cap, size_t bytes)
{
	size_t more = *cap ? *cap * 2 : 64;
	void *grown;

	if (n < *cap)
		return rows;
	grown = realloc(rows, more * bytes);
	if (grown)
		*cap = more;
	return grown;
}

static int add_process(struct merge *m, const struct process_info *as_is,
		       const struct process_info *p, uint64_t key, uint32_t *index)
{
	struct process_info *rows =
		grow(m->processes, m->n_processes, &m->cap_processes, sizeof(*rows));
	int err;

	if (!rows)
		return -ENOMEM;
	m->processes = rows;
	err = writer__add_process(m->w, p, index);
	if (err)
		return err;
	m->processes[m->n_processes++] = *as_is;
	return map64__put(m->process_at, key, *index) ? 0 : -ENOMEM;
}

/* Seen in an earlier recording: what either knows counts. */
static int same_process(struct merge *m, struct merge_input *in, uint32_t i, struct process_info *p,
			uint32_t row, struct clika_error *err)
{
	const struct process_info *old = &m->processes[row];
	int code = refuse_twice(m, in, i, row, err);

	if (code)
		return code;
	if (old->first_seen && old->first_seen + in->shift < p->first_seen)
		p->first_seen = old->first_seen + in->shift;
	if (!p->ended && old->ended) {
		p->ended = old->ended + in->shift;
		p->exit_code = old->exit_code;
	}
	in->process_of[i] = row;
	return writer__set_process(m->w, row, p);
}

static int put_process(struct merge *m, struct merge_input *in, uint32_t i, struct clika_error *err)
{
	const struct process_info *as_is = recording__process(in->r, i);
	uint64_t key = who(in, as_is), *row = as_is->start ? map64__get(m->process_at, key) : NULL;
	struct process_info p = *as_is;
	int code;

	p.start = moved(in, p.start);
	p.first_seen = moved(in, p.first_seen);
	p.ended = moved(in, p.ended);
	p.label = label_of(m, in, p.label);
	if (!p.label)
		return -ENOMEM;
	/* Inside one recording processes are told apart already. */
	if (row && *row < in->first_process && is_same(&m->processes[*row], as_is))
		code = same_process(m, in, i, &p, (uint32_t)*row, err);
	else
		code = add_process(m, as_is, &p, key, &in->process_of[i]);
	free(p.label);
	return code;
}

static int put_thread(struct merge *m, struct merge_input *in, uint32_t i)
{
	const struct thread_info *as_is = recording__thread(in->r, i);
	struct thread_info t = *as_is, *rows;
	uint64_t is[3], key, *row = NULL;
	int err;

	t.process = in->process_of[t.process];
	t.start = moved(in, t.start);
	t.ended = moved(in, t.ended);
	is[0] = t.process;
	is[1] = t.tid;
	is[2] = t.start;
	key = hash__bytes(is, sizeof(is), 0);
	if (t.process < in->first_process && t.start)
		row = map64__get(m->thread_at, key);
	if (row && m->threads[*row].process == t.process && m->threads[*row].tid == t.tid &&
	    m->threads[*row].start == t.start) {
		in->thread_of[i] = (uint32_t)*row;
		t.ended = t.ended ? t.ended : m->threads[*row].ended;
		return writer__set_thread(m->w, (uint32_t)*row, &t);
	}
	rows = grow(m->threads, m->n_threads, &m->cap_threads, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	m->threads = rows;
	err = writer__add_thread(m->w, &t, &in->thread_of[i]);
	if (err)
		return err;
	m->threads[m->n_threads++] = t;
	return map64__put(m->thread_at, key, in->thread_of[i]) ? 0 : -ENOMEM;
}

static int put_people(struct merge *m, struct merge_input *in, struct clika_error *err)
{
	uint32_t i, n_processes = (uint32_t)recording__n_processes(in->r),
		    n_threads = (uint32_t)recording__n_threads(in->r);
	int code = note_activity(in);

	in->first_process = (uint32_t)m->n_processes;
	in->process_of = calloc(n_processes + 1, sizeof(*in->process_of));
	in->thread_of = calloc(n_threads + 1, sizeof(*in->thread_of));
	if (code || !in->process_of || !in->thread_of)
		return -ENOMEM;
	for (i = 0; !code && i < n_processes; i++)
		code = put_process(m, in, i, err);
	for (i = 0; !code && i < n_threads; i++)
		code = put_thread(m, in, i);
	return code;
}

int merge__people(struct merge *m, struct clika_error *err)
{
	size_t i;
	int code = 0;

	m->process_at = map64__new();
	m->thread_at = map64__new();
	if (!m->process_at || !m->thread_at)
		return -ENOMEM;
	for (i = 0; !code && i < m->n; i++)
		code = put_people(m, &m->in[i], err);
	return code;
}

/* --- losses, counts, captures, anchors, warnings ----------------------------------------------- */

static void add(uint64_t *sum, uint64_t n)
{
	if (__builtin_add_overflow(*sum, n, sum))
		*sum = UINT64_MAX;
}

/* Two recordings may have lost records for the same cause, in the same place: they add up. */
struct loss_sums {
	struct map64 *at; /* hash of the place -> index */
	struct loss_info *rows;
	size_t n, cap;
};

static bool same_place(const struct loss_info *a, const struct loss_info *b)
{
	const char *p = a->probe ? a->probe : "", *q = b->probe ? b->probe : "";

	return a->process == b->process && a->cpu == b->cpu && a->cause == b->cause &&
	       !strcmp(p, q);
}

static int add_loss(struct loss_sums *all, const struct loss_info *l)
{
	const char *probe = l->probe ? l->probe : "";
	uint64_t is[] = { l->process, (uint32_t)l->cpu, l->cause }, *row;
	uint64_t key = hash__bytes(probe, strlen(probe), hash__bytes(is, sizeof(is), 0));
	struct loss_info *rows;

	while ((row = map64__get(all->at, key)) && !same_place(&all->rows[*row], l))
		key++;
	if (row) {
		add(&all->rows[*row].records, l->records);
		add(&all->rows[*row].at_most, l->at_most);
		return 0;
	}
	rows = grow(all->rows, all->n, &all->cap, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	all->rows = rows;
	all->rows[all->n] = *l;
	return map64__put(all->at, key, all->n++) ? 0 : -ENOMEM;
}

/* What a recorder lost as a whole; its rows may or may not say so. */
static int add_wholes(struct loss_sums *all, const struct merge_input *in)
{
	struct loss_info l = { .process = UINT32_MAX, .cpu = -1 };
	struct losses sum;
	int err = 0;

	losses__sum(&sum, in->r);
	for (l.cause = 1; !err && l.cause < LOSS_CAUSE_COUNT; l.cause++) {
		l.records = sum.records[l.cause];
		l.at_most = sum.at_most[l.cause];
		err = add_loss(all, &l);
	}
	return err;
}

static int add_losses(struct merge *m, struct loss_sums *all, const struct merge_input *in)
{
	struct loss_info l;
	size_t i;
	int err = add_wholes(all, in);

	for (i = 0; !err && i < recording__n_losses(in->r); i++) {
		l = *recording__loss(in->r, i);
		if (l.process != UINT32_MAX)
			l.process = l.process < recording__n_processes(in->r)
					    ? in->process_of[l.process]
					    : UINT32_MAX;
		if (l.process == UINT32_MAX && !l.probe && l.cpu < 0 && l.cause < LOSS_CAUSE_COUNT)
			continue; /* the whole */
		if (l.cpu >= 0 && m->n_boots > 1)
			continue; /* CPU 0 of two machines is not one */
		err = add_loss(all, &l);
	}
	return err;
}

static int put_losses(struct merge *m)
{
	struct loss_sums all = { .at = map64__new() };
	int err = all.at ? 0 : -ENOMEM;
	size_t i;

	for (i = 0; !err && i < m->n; i++)
		err = add_losses(m, &all, &m->in[i]);
	for (i = 0; !err && i < all.n; i++)
		err = writer__loss(m->w, &all.rows[i]);
	map64__free(all.at);
	free(all.rows);
	return err;
}

static int put_counts(struct merge *m)
{
	struct count_info sum = { 0 };
	const struct count_info *c;
	size_t i;

	for (i = 0; i < m->n; i++) {
		c = recording__counts(m->in[i].r);
		add(&sum.emitted, c->emitted);
		add(&sum.recorded, c->recorded);
		add(&sum.lost, c->lost);
		add(&sum.filtered, c->filtered);
	}
	return writer__counts(m->w, &sum);
}

static int put_capture(struct merge *m, struct merge_input *in, const struct capture_info *from)
{
	struct capture_info c = *from;

	c.id = ++m->next_capture;
	c.begin = from->begin + in->shift;
	/* Open means open until its recording ended, and that is not the end here. */
	c.end = (from->end ? from->end : in->end) + in->shift;
	if (c.process != UINT32_MAX)
		c.process = c.process < recording__n_processes(in->r) ? in->process_of[c.process]
								      : UINT32_MAX;
	if (!map64__put(in->captures, from->id, c.id))
		return -ENOMEM;
	return writer__capture(m->w, &c);
}

/* Where any recording has captures, what lies in none is in no result: one that has none, and so
 * shows everything, gets one around everything. */
static int put_captures(struct merge *m, struct merge_input *in)
{
	struct capture_info all = { .process = UINT32_MAX,
				    .begin = in->begin,
				    .end = in->end + 1,
				    .tag = (char[]){ "default" } };
	size_t i, n = recording__n_captures(in->r);
	int err = 0;

	in->captures = map64__new();
	if (!in->captures)
		return -ENOMEM;
	if (!n)
		return put_capture(m, in, &all);
	for (i = 0; !err && i < n; i++)
		err = put_capture(m, in, recording__capture(in->r, i));
	return err;
}

int merge__put_edges(struct merge *m, uint64_t first, uint64_t last)
{
	struct clock_anchor begin, end;
	int err;

	if (!merge__anchor_at(m, first, &begin) || !merge__anchor_at(m, last, &end))
		return 0;
	err = writer__anchor(m->w, &begin);
	return err ? err : writer__anchor(m->w, &end);
}

static int put_anchors(struct merge *m, const struct merge_input *in)
{
	struct clock_anchor a;
	size_t i;
	int err = 0;

	if (!recording__n_anchors(in->r))
		return merge__put_edges(m, in->begin + in->shift, in->end + in->shift);
	for (i = 0; !err && i < recording__n_anchors(in->r); i++) {
		a = *recording__anchor(in->r, i);
		if (in->boot != m->base)
			merge__anchor_at(m, a.boottime + in->shift, &a);
		err = writer__anchor(m->w, &a);
	}
	return err;
}

static int warn(struct merge *m, const struct merge_input *in, const char *code, const char *text)
{
	char *all = NULL;
	int err;

	if (m->n < 2)
		return writer__warning(m->w, code, text);
	if (asprintf(&all, "%s: %s", in->label, text) < 0)
		return -ENOMEM;
	err = writer__warning(m->w, code, all);
	free(all);
	return err;
}

static int put_warnings(struct merge *m, struct merge_input *in)
{
	const struct recording_state *st = recording__state(in->r);
	const struct dropped_info *d = recording__dropped(in->r);
	const struct warning_info *w;
	char text[256];
	size_t i;
	int err = 0;

	for (i = 0; !err && i < recording__n_warnings(in->r); i++) {
		w = recording__warning(in->r, i);
		err = warn(m, in, w->code ? w->code : "recorder", w->text ? w->text : "");
	}
	if (!err && (st->incomplete || st->bad_segments)) {
		m->result.incomplete = true;
		snprintf(text, sizeof(text), "the recording was %s: %llu segments of it are here",
			 st->incomplete ? "not finished" : "damaged",
			 (unsigned long long)st->segments);
		err = warn(m, in, st->incomplete ? "incomplete" : "damaged", text);
	}
	if (!err && d->segments) {
		snprintf(text, sizeof(text), "a flight recorder had overwritten %llu older events",
			 (unsigned long long)d->events);
		err = warn(m, in, "overwritten", text);
	}
	return err;
}

int merge__account(struct merge *m)
{
	struct merge_input *in;
	int err = put_losses(m);

	if (!err)
		err = put_counts(m);
	for (in = m->in; !err && in < m->in + m->n; in++) {
		err = put_captures(m, in);
		if (!err)
			err = put_anchors(m, in);
		if (!err)
			err = put_warnings(m, in);
	}
	return err;
}
