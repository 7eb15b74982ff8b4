// SPDX-License-Identifier: Apache-2.0
#include "export/summary.h"

#include "export/losses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_CAPTURES_SHOWN 20
#define WARNINGS_SHOWN 3 /* of one kind */

static const char *known(const char *s)
{
	return s && *s ? s : "?";
}

static void put_pair(struct summary *m, const char *key, const char *value)
{
	struct buf b = { 0 };

	if (!value || !*value)
		return;
	buf__printf(&b, "%-9s %s", key, value);
	text_out__wrap(&m->t, 10, (const char *)b.data, b.len);
	buf__free(&b);
}

static void utc(char *out, size_t n, uint64_t realtime_ns)
{
	time_t t = (time_t)(realtime_ns / NSEC_PER_SEC);
	struct tm tm;

	out[0] = '\0';
	if (realtime_ns && gmtime_r(&t, &tm))
		strftime(out, n, "%Y-%m-%d %H:%M:%S UTC", &tm);
}

static void put_captures(struct summary *m)
{
	char length[TEXT_CELL], spans[TEXT_CELL], late[TEXT_CELL], at[TEXT_CELL];
	size_t i, n = session__n_captures(m->s);
	const struct session_capture *c;
	const struct capture_stats *cs;
	uint64_t from;

	for (i = 0; i < n && i < m->st->n_captures && i < MAX_CAPTURES_SHOWN; i++) {
		c = session__capture(m->s, i);
		cs = &m->st->captures[i];
		from = c->begin > session__origin(m->s) ? c->begin - session__origin(m->s) : 0;
		text__duration(length, c->end - c->begin);
		text__duration(at, from);
		text__count(spans, cs->spans);
		text__count(late, cs->late);
		text_out__line(&m->t, "%-9s \"%s\": %s from %s%s, %s spans%s%s",
			       i ? "" : "captures", c->tag, length, at,
			       c->open ? ", still open" : "", spans,
			       cs->late ? ", of late work " : "", cs->late ? late : "");
	}
	if (n > i)
		text_out__line(&m->t, "%-9s ... and %zu more", "", n - i);
}

/* The recorder's notes on which recipes it applied: "recipe NAME: ...". */
static const char *recipe_note(const struct stats_warning *w)
{
	return strcmp(w->code, "recipe")         ? NULL
	       : !strncmp(w->text, "recipe ", 7) ? w->text + 7
						 : w->text;
}

static void put_recipes(struct summary *m)
{
	const char *note;
	bool first = true;

	for (size_t i = 0; i < m->st->n_warnings; i++) {
		note = recipe_note(&m->st->warnings[i]);
		if (!note)
			continue;
		put_pair(m, first ? "recipes" : "", note);
		first = false;
	}
}

/* Numbers that are too low are said to be so before they are shown. */
static void put_lost(struct summary *m)
{
	for (size_t i = 0; i < m->st->n_warnings; i++)
		if (!strcmp(m->st->warnings[i].code, "lost"))
			put_pair(m, "LOST", m->st->warnings[i].text);
}

void summary__recorded(struct summary *m)
{
	const struct recording *r = session__recording(m->s);
	const struct recording_state *f = recording__state(r);
	const struct recording_meta *meta = recording__meta(r);
	char length[TEXT_CELL], size[TEXT_CELL], ram[TEXT_CELL], events[TEXT_CELL], when[64];
	struct buf b = { 0 };

	text__duration(length, session__end(m->s) - session__begin(m->s));
	text__bytes(size, f->bytes);
	text__bytes(ram, meta->ram_bytes);
	text__count(events, f->events);
	utc(when, sizeof(when), meta->created_realtime);
	text_out__line(&m->t, "%s", "");
	buf__printf(&b, "%s%s%s by %s %s", length, *when ? ", " : "", when, known(meta->tool),
		    meta->version ? meta->version : "");
	buf__append(&b, "", 1);
	put_pair(m, "recorded", (const char *)b.data);
	buf__reset(&b);
	buf__printf(&b, "%s, Linux %.*s, %s, %u CPUs, %s", known(meta->host),
		    (int)strcspn(known(meta->kernel), " "), known(meta->kernel), known(meta->arch),
		    meta->cpus, ram);
	buf__append(&b, "", 1);
	put_pair(m, "where", (const char *)b.data);
	put_pair(m, "targets", meta->targets);
	put_pair(m, "command", meta->command);
	buf__reset(&b);
	buf__printf(&b, "%s events, %s, %s", events, size,
		    f->incomplete ? "INCOMPLETE: recovered up to the last whole segment"
				  : "complete");
	buf__append(&b, "", 1);
	put_pair(m, "file", (const char *)b.data);
	put_lost(m);
	put_captures(m);
	put_recipes(m);
	buf__free(&b);
}

/* How many warnings of @code there are among those from number @from to before @to, at most @max. */
static size_t warnings_of(const struct stats *st, const char *code, size_t from, size_t to,
			  size_t max)
{
	size_t i, n = 0;

	for (i = from; i < to && n < max; i++)
		n += !strcmp(st->warnings[i].code, code);
	return n;
}

/* Many of one kind would push the tables off the screen. */
void summary__warnings(struct summary *m)
{
	const struct stats *st = m->st;
	struct buf b = { 0 };
	const char *code;
	size_t i, before, more;
	bool any = false;

	text_out__heading(&m->t, "Warnings");
	for (i = 0; i < st->n_warnings; i++) {
		code = st->warnings[i].code;
		before = warnings_of(st, code, 0, i, WARNINGS_SHOWN);
		if (before == WARNINGS_SHOWN || recipe_note(&st->warnings[i]))
			continue;
		any = true;
		buf__reset(&b);
		buf__printf(&b, "%s: %s", code, st->warnings[i].text);
		text_out__wrap(&m->t, 2, (const char *)b.data, b.len);
		more = before + 1 < WARNINGS_SHOWN
			       ? 0
			       : warnings_of(st, code, i + 1, st->n_warnings, SIZE_MAX);
		if (more)
			text_out__line(&m->t, "%s: %zu more of these; report.json has them all",
				       code, more);
	}
	if (!any)
		text_out__line(&m->t, "none");
	buf__free(&b);
}

/* --- memory ---------------------------------------------------------------------------------- */

static bool in_use(const struct memory_stats *d)
{
	return d->allocs || d->frees || d->reserves || d->releases;
}

static void put_device(struct summary *m, const struct memory_stats *d)
{
	char a[TEXT_CELL], b[TEXT_CELL], c[TEXT_CELL], n[TEXT_CELL], o[TEXT_CELL], at[TEXT_CELL];

	text__signed_bytes(a, d->peak);
	text__signed_bytes(b, d->current);
	text__signed_bytes(c, d->baseline);
	text__duration(at,
		       d->peak_at > session__begin(m->s) ? d->peak_at - session__begin(m->s) : 0);
	text_out__line(&m->t, "%s (pid %u), device %u%s%s: peak %s at %s, now %s, at first %s",
		       d->track->proc->comm ? d->track->proc->comm : "?", d->track->pid, d->device,
		       d->device_name ? " " : "", session__str(m->s, d->device_name), a, at, b, c);
	text__count(a, d->allocs);
	text__bytes(b, d->alloc_bytes);
	text__count(c, d->frees);
	text__bytes(n, d->freed_bytes);
	text__count(o, d->older_frees);
	text_out__line(&m->t, "  %s allocations of %s, %s frees of %s, %s frees of older memory", a,
		       b, c, n, o);
	if (!d->reserves && !d->releases)
		return;
	text__signed_bytes(a, d->reserved_peak);
	text__signed_bytes(b, d->reserved);
	text__count(c, d->reserves);
	text__count(n, d->releases);
	text_out__line(&m->t, "  reserved by pools: peak %s, now %s, %s taken, %s given back", a, b,
		       c, n);
}

static int by_bytes(const void *a, const void *b)
{
	const struct op_stats *x = *(const struct op_stats *const *)a;
	const struct op_stats *y = *(const struct op_stats *const *)b;

	if (x->alloc_bytes != y->alloc_bytes)
		return x->alloc_bytes > y->alloc_bytes ? -1 : 1;
	return x < y ? -1 : x > y; /* both lie in one array that is sorted by time */
}

static void put_memory_by_op(struct summary *m)
{
	static const char *const titles[] = { "allocations", "bytes", "frees", "freed" };
	static const unsigned int widths[] = { 11, 9, 11, 9 };
	const struct op_stats **sorted = calloc(m->st->n_ops + 1, sizeof(*sorted));
	char cells[4][TEXT_CELL];
	struct text_table tab;
	size_t i, n = 0;

	for (i = 0; sorted && i < m->st->n_ops; i++)
		if (m->st->ops[i].allocs || m->st->ops[i].frees)
			sorted[n++] = &m->st->ops[i];
	if (!sorted || !n)
		goto out;
	qsort(sorted, n, sizeof(*sorted), by_bytes);
	text_out__line(&m->t, "%s", "");
	text_table__begin(&tab, &m->t, "by operation", titles, widths, ARRAY_SIZE(widths));
	for (i = 0; i < n && i < m->top; i++) {
		const char *name = sorted[i]->other ? "(all other names)"
						    : session__str(m->s, sorted[i]->name);

		text__count(cells[0], sorted[i]->allocs);
		text__bytes(cells[1], sorted[i]->alloc_bytes);
		text__count(cells[2], sorted[i]->frees);
		text__bytes(cells[3], sorted[i]->freed_bytes);
		text_table__row(&tab, name, strlen(name), (const char(*)[TEXT_CELL])cells);
	}
	if (n > m->top)
		text_out__line(&m->t, "... and %zu more operations", n - m->top);
out:
	free(sorted);
}

/* Pools that only took memory from their device have handed nothing out. */
static bool handed_out(const struct pool_stats *p)
{
	return p->allocs || p->frees;
}

static void put_pools(struct summary *m)
{
	static const char *const titles[] = { "allocations", "bytes", "peak", "now" };
	static const unsigned int widths[] = { 11, 9, 9, 9 };
	char cells[4][TEXT_CELL];
	struct text_table tab;
	size_t i, n = 0, named = 0, shown = 0;

	for (i = 0; i < m->st->n_pools; i++) {
		n += handed_out(&m->st->pools[i]);
		named += handed_out(&m->st->pools[i]) && m->st->pools[i].pool;
	}
	if (!named)
		return;
	text_out__line(&m->t, "%s", "");
	text_table__begin(&tab, &m->t, "by pool or tag", titles, widths, ARRAY_SIZE(widths));
	for (i = 0; i < m->st->n_pools && shown < m->top; i++) {
		const struct pool_stats *p = &m->st->pools[i];
		const char *name = p->pool ? session__str(m->s, p->pool) : "(none)";

		if (!handed_out(p))
			continue;
		shown++;
		text__count(cells[0], p->allocs);
		text__bytes(cells[1], p->alloc_bytes);
		text__signed_bytes(cells[2], p->peak);
		text__signed_bytes(cells[3], p->current);
		text_table__row(&tab, name, strlen(name), (const char(*)[TEXT_CELL])cells);
	}
	if (n > shown)
		text_out__line(&m->t, "... and %zu more", n - shown);
}

void summary__memory(struct summary *m)
{
	size_t i, n = 0, shown = 0;

	for (i = 0; i < m->st->n_memory; i++)
		n += in_use(&m->st->memory[i]);
	text_out__heading(&m->t, "Memory");
	if (!n) {
		text_out__line(&m->t, "nothing was allocated or freed through markers");
		return;
	}
	for (i = 0; i < m->st->n_memory && shown < m->top; i++) {
		if (!in_use(&m->st->memory[i]))
			continue;
		put_device(m, &m->st->memory[i]);
		shown++;
	}
	if (n > shown)
		text_out__line(&m->t, "... and %zu more devices of processes", n - shown);
	put_memory_by_op(m);
	put_pools(m);
}

/* --- losses ---------------------------------------------------------------------------------- */

static void put_line(struct summary *m, const char *what, uint64_t n, uint64_t at_most)
{
	char count[TEXT_CELL], more[TEXT_CELL];

	text__count(count, n);
	text__count(more, at_most);
	if (at_most)
		text_out__line(&m->t, "  %-62s %11s, at most %s more", what, count, more);
	else
		text_out__line(&m->t, "  %-62s %11s", what, count);
}

static void put_probes(struct summary *m)
{
	const struct recording *r = session__recording(m->s);
	size_t i, shown = 0;

	for (i = 0; i < recording__n_losses(r) && shown < m->top; i++) {
		const struct loss_info *l = recording__loss(r, i);
		char what[256];

		if (!l->probe || (!l->records && !l->at_most))
			continue;
		snprintf(what, sizeof(what), "at probe %s: %s", l->probe, losses__text(l->cause));
		put_line(m, what, l->records, l->at_most);
		shown++;
	}
}

void summary__losses(struct summary *m)
{
	const struct recording *r = session__recording(m->s);
	const struct session_counts *n = session__counts(m->s);
	const struct count_info *c = recording__counts(r);
	char e[TEXT_CELL], rec[TEXT_CELL], lost[TEXT_CELL], f[TEXT_CELL];
	struct losses l;
	unsigned int i;

	losses__sum(&l, r);
	text__count(e, c->emitted);
	text__count(rec, c->recorded);
	text__count(lost, c->lost);
	text__count(f, c->filtered);
	text_out__heading(&m->t, "Losses");
	text_out__line(&m->t,
		       "emitted %s = recorded %s + lost %s; %s of the recorded were filtered out",
		       e, rec, lost, f);
	for (i = 1; i < LOSS_CAUSE_COUNT; i++)
		put_line(m, losses__text(i), l.records[i], l.at_most[i]);
	put_probes(m);
	text_out__line(&m->t, "%s", "repaired or left out:");
	put_line(m, "spans without an end, closed", n->unfinished, 0);
	put_line(m, "spans that ran already when recording began", n->no_begin, 0);
	put_line(m, "spans that did not nest, cut", n->clipped, 0);
	put_line(m, "ends of async spans or requests without begin", n->orphan_ends, 0);
	put_line(m, "events with times outside the recording, left out", n->bad_times, 0);
	put_line(m, "spans outside every capture, left out", n->outside, 0);
}

/* --- processes ------------------------------------------------------------------------------- */

/* Tracks are sorted by pid: whether another image of the pid is in the result. */
static bool has_twin(const struct session *s, size_t track)
{
	uint32_t pid = session__track(s, track)->pid;
	size_t i = track, leads = 0;

	while (i && session__track(s, i - 1)->pid == pid)
		i--;
	for (; i < session__n_tracks(s) && session__track(s, i)->pid == pid; i++)
		leads += session__track(s, i)->leads;
	return leads > 1;
}

static unsigned int image_number(const struct session *s, size_t track)
{
	uint32_t pid = session__track(s, track)->pid;
	unsigned int n = 1;

	while (track && session__track(s, --track)->pid == pid)
		n += session__track(s, track)->leads;
	return n;
}

void summary__processes(struct summary *m)
{
	size_t i, n = 0, shown = 0;

	text_out__heading(&m->t, "Processes");
	for (i = 0; i < session__n_tracks(m->s); i++)
		n += session__track(m->s, i)->leads;
	if (!n)
		text_out__line(&m->t, "none");
	for (i = 0; i < session__n_tracks(m->s) && shown < m->top; i++) {
		const struct track *t = session__track(m->s, i);
		const struct process_info *p = t->proc;
		struct buf b = { 0 };

		if (!t->leads)
			continue;
		shown++;
		buf__printf(&b, "%u %s%s%s", p->pid, known(p->comm),
			    p->label && *p->label ? ", " : "", p->label ? p->label : "");
		if (p->ns_pid && p->ns_pid != p->pid)
			buf__printf(&b, ", sees itself as %u", p->ns_pid);
		if (has_twin(m->s, i))
			buf__printf(&b, ", image %u of its pid", image_number(m->s, i));
		buf__printf(&b, ", container %s",
			    p->container && *p->container ? p->container : "none");
		buf__printf(&b, ", cgroup %s", known(p->cgroup));
		if (p->exe && *p->exe)
			buf__printf(&b, ", %s", p->exe);
		if (p->ended)
			buf__printf(&b, ", ended");
		text_out__wrap(&m->t, 2, (const char *)b.data, b.len);
		buf__free(&b);
	}
	if (n > shown)
		text_out__line(&m->t, "... and %zu more", n - shown);
}
