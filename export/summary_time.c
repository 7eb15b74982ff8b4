// SPDX-License-Identifier: Apache-2.0
#include "export/summary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void op_label(const struct summary *m, const struct op_stats *op, struct buf *b)
{
	buf__reset(b);
	if (op->other) {
		buf__printf(b, "(all other names)");
	} else {
		buf__printf(b, "%s", session__str(m->s, op->name));
		if (op->cat)
			buf__printf(b, " [%s]", session__str(m->s, op->cat));
	}
	if (!b->len)
		buf__printf(b, "(no name)");
}

void summary__headline(struct summary *m)
{
	const struct op_stats *op = m->st->ops;
	char share[TEXT_CELL], self[TEXT_CELL], calls[TEXT_CELL];
	struct buf b = { 0 }, line = { 0 };

	if (!m->st->n_ops) {
		text_out__line(&m->t,
			       "No spans: nothing marked ran in the time that was asked for.");
		return;
	}
	text__percent(share, op->self_ns, m->st->self_ns);
	text__duration(self, op->self_ns);
	text__count(calls, op->dur.count);
	op_label(m, op, &b);
	buf__printf(&line,
		    "%s of the time in spans is %.*s: %s in %s call%s, without spans inside.",
		    share, (int)(b.len < 200 ? b.len : 200), b.data ? (const char *)b.data : "",
		    self, calls, op->dur.count == 1 ? "" : "s");
	text_out__wrap(&m->t, 2, (const char *)line.data, line.len);
	buf__free(&b);
	buf__free(&line);
}

static void put_histogram(char (*cells)[TEXT_CELL], const struct histogram *h)
{
	text__duration(cells[0], histogram__mean(h));
	text__duration(cells[1], histogram__quantile(h, 500));
	text__duration(cells[2], histogram__quantile(h, 900));
	text__duration(cells[3], histogram__quantile(h, 990));
	text__duration(cells[4], h->max);
}

void summary__operations(struct summary *m)
{
	static const char *const titles[] = { "calls", "self", "share", "total", "mean",
					      "p50",   "p90",  "p99",   "max" };
	static const unsigned int widths[] = { 9, 7, 6, 7, 7, 7, 7, 7, 7 };
	char cells[9][TEXT_CELL], rest_self[TEXT_CELL];
	struct text_table tab;
	struct buf b = { 0 };
	uint64_t rest = 0;
	size_t i;

	text_out__heading(&m->t, "Operations, most self time first");
	if (!m->st->n_ops) {
		text_out__line(&m->t, "none");
		return;
	}
	text_table__begin(&tab, &m->t, "operation", titles, widths, ARRAY_SIZE(widths));
	for (i = 0; i < m->st->n_ops; i++) {
		const struct op_stats *op = &m->st->ops[i];

		if (i >= m->top) {
			rest += op->self_ns;
			continue;
		}
		text__count(cells[0], op->dur.count);
		text__duration(cells[1], op->self_ns);
		text__percent(cells[2], op->self_ns, m->st->self_ns);
		text__duration(cells[3], op->total_ns);
		put_histogram(&cells[4], &op->dur);
		op_label(m, op, &b);
		text_table__row(&tab, b.data ? (const char *)b.data : "", b.len, cells);
	}
	if (i > m->top) {
		text__duration(rest_self, rest);
		text_out__line(&m->t, "... and %zu more operations with %s self time", i - m->top,
			       rest_self);
	}
	text_out__line(&m->t,
		       "self: without spans inside; share: of all self time; total: with them, "
		       "recursion once");
	buf__free(&b);
}

/* --- threads --------------------------------------------------------------------------------- */

static int by_busy(const void *a, const void *b)
{
	const struct thread_stats *x = *(const struct thread_stats *const *)a;
	const struct thread_stats *y = *(const struct thread_stats *const *)b;

	if (x->busy_ns != y->busy_ns)
		return x->busy_ns > y->busy_ns ? -1 : 1;
	return x->track->index < y->track->index ? -1 : x->track->index > y->track->index;
}

void summary__threads(struct summary *m)
{
	static const char *const titles[] = { "pid",   "tid",         "busy", "share",
					      "spans", "longest gap", "at" };
	static const unsigned int widths[] = { 7, 7, 8, 7, 11, 11, 8 };
	const struct thread_stats **sorted = calloc(m->st->n_threads + 1, sizeof(*sorted));
	char cells[7][TEXT_CELL], observed[TEXT_CELL];
	struct text_table tab;
	size_t i, n = 0;

	if (!sorted) {
		m->t.err = -ENOMEM;
		return;
	}
	for (i = 0; i < m->st->n_threads; i++)
		if (m->st->threads[i].spans)
			sorted[n++] = &m->st->threads[i];
	qsort(sorted, n, sizeof(*sorted), by_busy);
	text__duration(observed, m->st->observed_ns);
	text_out__heading(&m->t, "Threads, busiest first");
	if (!n)
		text_out__line(&m->t, "none");
	else
		text_table__begin(&tab, &m->t, "thread", titles, widths, ARRAY_SIZE(widths));
	for (i = 0; i < n && i < m->top; i++) {
		const struct thread_stats *t = sorted[i];

		snprintf(cells[0], TEXT_CELL, "%u", t->track->pid);
		snprintf(cells[1], TEXT_CELL, "%u", t->track->tid);
		text__duration(cells[2], t->busy_ns);
		text__percent(cells[3], t->busy_ns, m->st->observed_ns);
		text__count(cells[4], t->spans);
		text__duration(cells[5], t->longest_gap_ns);
		text__duration(cells[6], t->longest_gap_at > session__begin(m->s)
						 ? t->longest_gap_at - session__begin(m->s)
						 : 0);
		text_table__row(&tab, t->track->name, strlen(t->track->name), cells);
	}
	if (n > m->top)
		text_out__line(&m->t, "... and %zu more threads", n - m->top);
	if (n)
		text_out__line(&m->t, "busy: in any span, of %s observed; gap: between two spans",
			       observed);
	free(sorted);
}

/* --- waiting --------------------------------------------------------------------------------- */

static void put_async(struct summary *m)
{
	static const char *const titles[] = {
		"count", "at once", "mean", "p50", "p90", "p99", "max"
	};
	static const unsigned int widths[] = { 9, 7, 7, 7, 7, 7, 7 };
	char cells[7][TEXT_CELL];
	struct text_table tab;
	size_t i;

	if (!m->st->n_asyncs)
		return;
	text_out__heading(&m->t, "Async spans");
	text_table__begin(&tab, &m->t, "span", titles, widths, ARRAY_SIZE(widths));
	for (i = 0; i < m->st->n_asyncs && i < m->top; i++) {
		const struct async_stats *a = &m->st->asyncs[i];
		const char *name = session__str(m->s, a->name);

		text__count(cells[0], a->dur.count);
		text__count(cells[1], a->most);
		put_histogram(&cells[2], &a->dur);
		text_table__row(&tab, name, strlen(name), cells);
	}
	if (m->st->n_asyncs > m->top)
		text_out__line(&m->t, "... and %zu more", m->st->n_asyncs - m->top);
}

void summary__waits(struct summary *m)
{
	static const char *const titles[] = { "count", "mean", "p50",      "p90",
					      "p99",   "max",  "then runs" };
	static const unsigned int widths[] = { 9, 7, 7, 7, 7, 7, 9 };
	char cells[7][TEXT_CELL];
	struct text_table tab;
	struct buf b = { 0 };
	size_t i;

	if (m->st->n_waits) {
		text_out__heading(&m->t, "Waiting between enqueue and run");
		text_table__begin(&tab, &m->t, "flow, into what", titles, widths,
				  ARRAY_SIZE(widths));
	}
	for (i = 0; i < m->st->n_waits && i < m->top; i++) {
		const struct wait_stats *w = &m->st->waits[i];

		text__count(cells[0], w->wait.count);
		put_histogram(&cells[1], &w->wait);
		if (w->ran)
			text__duration(cells[6], w->ran_ns / w->ran);
		else
			snprintf(cells[6], TEXT_CELL, "-");
		buf__reset(&b);
		buf__printf(&b, "%s > %s", session__str(m->s, w->name),
			    w->ran ? session__str(m->s, w->into) : "(no span)");
		text_table__row(&tab, (const char *)b.data, b.len, cells);
	}
	if (m->st->n_waits > m->top)
		text_out__line(&m->t, "... and %zu more", m->st->n_waits - m->top);
	buf__free(&b);
	put_async(m);
}

/* --- requests -------------------------------------------------------------------------------- */

static void request_row(struct text_table *tab, const char *what, const struct histogram *h)
{
	char cells[6][TEXT_CELL];

	if (!h->count)
		return;
	text__count(cells[0], h->count);
	put_histogram(&cells[1], h);
	text_table__row(tab, what, strlen(what), (const char(*)[TEXT_CELL])cells);
}

static void put_request(struct summary *m, const struct request_stats *r)
{
	static const char *const titles[] = { "count", "mean", "p50", "p90", "p99", "max" };
	static const unsigned int widths[] = { 9, 7, 7, 7, 7, 7 };
	char ended[TEXT_CELL], rate[TEXT_CELL], units[TEXT_CELL], unit_rate[TEXT_CELL];
	struct text_table tab;
	struct buf b = { 0 };

	text__count(ended, r->ended);
	text__rate(rate, r->ended, m->st->observed_ns);
	text__count(units, r->units);
	text__rate(unit_rate, r->units, m->st->observed_ns);
	buf__printf(&b, "%s: %s finished (%s), %llu at the same time at most",
		    session__str(m->s, r->name), ended, rate, (unsigned long long)r->most);
	if (r->unfinished)
		buf__printf(&b, ", %llu without an end", (unsigned long long)r->unfinished);
	if (r->no_begin)
		buf__printf(&b, ", %llu more begun before the recording",
			    (unsigned long long)r->no_begin);
	text_out__wrap(&m->t, 2, (const char *)b.data, b.len);
	buf__free(&b);
	if (r->units)
		text_out__line(&m->t, "  output: %s units (%s)", units, unit_rate);
	if (!r->ended)
		return;
	text_table__begin(&tab, &m->t, "", titles, widths, ARRAY_SIZE(widths));
	request_row(&tab, "  latency", &r->latency);
	request_row(&tab, "  time to first output", &r->first);
	request_row(&tab, "  time per output unit", &r->per_unit);
}

void summary__requests(struct summary *m)
{
	size_t i;

	if (!m->st->n_requests)
		return;
	text_out__heading(&m->t, "Requests");
	for (i = 0; i < m->st->n_requests && i < m->top; i++)
		put_request(m, &m->st->requests[i]);
	if (m->st->n_requests > m->top)
		text_out__line(&m->t, "... and %zu more kinds", m->st->n_requests - m->top);
}
