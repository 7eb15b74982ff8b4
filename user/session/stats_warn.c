// SPDX-License-Identifier: Apache-2.0
/* Judgements after the walk. Each warning names the numbers that made it one. */
#include "user/session/stats_internal.h"

#include "user/recording/losses.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With fewer cases than this a mean says nothing. */
#define ENOUGH 10
#define BUSY_PERCENT 95
#define IDLE_PERCENT 50
/* A probed call costs microseconds; below this its time is to a large part the probe's. */
#define PROBE_COST_NS 5000

static int warn(struct stats *st, const char *code, const char *fmt, ...) CLIKA_PRINTF(3, 4);
static int warn(struct stats *st, const char *code, const char *fmt, ...)
{
	struct stats_warning *w = realloc(st->warnings, (st->n_warnings + 1) * sizeof(*w));
	va_list ap;
	int n;

	if (!w)
		return -ENOMEM;
	st->warnings = w;
	w += st->n_warnings;
	va_start(ap, fmt);
	n = vasprintf(&w->text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	snprintf(w->code, sizeof(w->code), "%s", code);
	w->n_facts = 0;
	st->n_warnings++;
	return 0;
}

/* A number of the warning made last, for programs. */
static void fact(struct stats *st, const char *key, uint64_t value)
{
	struct stats_warning *w = st->n_warnings ? &st->warnings[st->n_warnings - 1] : NULL;

	if (w && w->n_facts < WARNING_FACTS)
		w->facts[w->n_facts++] = (struct stats_fact){ key, value };
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Milliseconds with three decimals, for a text that people read and programs may, too. */
static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static const char *name_of(const struct stats *st, uint32_t id)
{
	return session__str(st->s, id);
}

static int warn_recorder(struct stats *st)
{
	const struct recording *r = session__recording(st->s);
	const struct warning_info *w;
	int err = 0;
	size_t i;

	for (i = 0; !err && i < recording__n_warnings(r); i++) {
		w = recording__warning(r, i);
		err = warn(st, w->code ? w->code : "recorder", "%s", w->text ? w->text : "");
	}
	return err;
}

static int warn_file(struct stats *st)
{
	const struct recording_state *f = recording__state(session__recording(st->s));
	const struct dropped_info *d = recording__dropped(session__recording(st->s));
	const struct session_counts *n = session__counts(st->s);
	int err = 0;

	if (d->segments) {
		err = warn(st, "dropped",
			   "%llu older event%s overwritten to keep the file within its size: what "
			   "is shown are the last %.3f ms, of which nothing is missing",
			   (unsigned long long)d->events, d->events == 1 ? " was" : "s were",
			   ms(session__end(st->s) - session__begin(st->s)));
		fact(st, "dropped_events", d->events);
	}
	if (!err && f->incomplete) {
		err = warn(st, "incomplete",
			   "the recorder did not finish the file: everything up to its last whole "
			   "segment is here (%llu segment%s, %llu bytes after them)",
			   (unsigned long long)f->segments, plural(f->segments),
			   (unsigned long long)f->trailing_bytes);
		fact(st, "segments", f->segments);
		fact(st, "trailing_bytes", f->trailing_bytes);
	}
	if (!err && (f->bad_segments || n->damaged)) {
		err = warn(st, "damaged",
			   "%llu segments and %llu blocks of the file are damaged and "
			   "left out",
			   (unsigned long long)f->bad_segments, (unsigned long long)n->damaged);
		fact(st, "segments", f->bad_segments);
		fact(st, "blocks", n->damaged);
	}
	return err;
}

static int warn_losses(struct stats *st)
{
	const struct recording *r = session__recording(st->s);
	const struct count_info *n = recording__counts(r);
	uint64_t lost, at_most;
	struct losses l;
	int err = 0;

	losses__sum(&l, r);
	lost = l.all_records;
	at_most = l.all_at_most;
	if (lost)
		err = warn(st, "lost", "%llu of %llu records lost%s: counts and times are too low",
			   (unsigned long long)lost, (unsigned long long)n->emitted,
			   at_most ? ", and perhaps more" : "");
	else if (at_most)
		err = warn(st, "lost",
			   "up to %llu records may be lost: what was in memory that "
			   "could not be read is not known",
			   (unsigned long long)at_most);
	if (lost || at_most) {
		fact(st, "lost", lost);
		fact(st, "unknown_at_most", at_most);
		fact(st, "emitted", n->emitted);
	}
	return err;
}

static int warn_spans(struct stats *st)
{
	const struct session_counts *n = session__counts(st->s);
	int err = 0;

	if (n->unfinished) {
		err = warn(
			st, "unfinished",
			"%llu span%s (async spans and requests counted in) without an end: closed "
			"where the thread, the process or the recording ended",
			(unsigned long long)n->unfinished, plural(n->unfinished));
		fact(st, "count", n->unfinished);
	}
	if (!err && n->clipped) {
		err = warn(st, "clipped",
			   "%llu span%s ran past the end of the span around and got cut there: "
			   "markers of one thread that do not nest",
			   (unsigned long long)n->clipped, plural(n->clipped));
		fact(st, "count", n->clipped);
	}
	if (!err && n->orphan_ends) {
		err = warn(st, "orphan-ends",
			   "%llu end%s of async spans or requests without a begin in the recording",
			   (unsigned long long)n->orphan_ends, plural(n->orphan_ends));
		fact(st, "count", n->orphan_ends);
	}
	if (!err && n->bad_times) {
		err = warn(st, "bad-times",
			   "%llu event%s with times outside the recording, left out",
			   (unsigned long long)n->bad_times, plural(n->bad_times));
		fact(st, "count", n->bad_times);
	}
	if (!err && n->forgotten) {
		err = warn(
			st, "too-many-alive",
			"%llu flow%s, async spans, requests or allocations given up, because too "
			"many were never ended",
			(unsigned long long)n->forgotten, plural(n->forgotten));
		fact(st, "count", n->forgotten);
	}
	return err;
}

static unsigned int percent(uint64_t part, uint64_t of)
{
	return of ? (unsigned int)((double)part * 100 / (double)of) : 0;
}

/* How much of the time the threads that take it are in spans, on average. */
static unsigned int receivers_busy(const struct stats *st, const struct wait_stats *w)
{
	unsigned int sum = 0;

	for (uint32_t i = 0; i < w->n_receivers; i++)
		sum += percent(st->threads[w->receivers[i]].busy_ns, st->observed_ns);
	return w->n_receivers ? sum / w->n_receivers : 0;
}

static int warn_waits(struct stats *st)
{
	const struct wait_stats *w;
	unsigned int busy;
	uint64_t wait, run;
	int err = 0;
	size_t i;

	for (i = 0; !err && i < st->n_waits; i++) {
		w = &st->waits[i];
		if (w->wait.count < ENOUGH || !w->ran)
			continue;
		wait = histogram__mean(&w->wait);
		run = w->ran_ns / w->ran;
		if (wait <= run)
			continue;
		busy = receivers_busy(st, w);
		err = warn(st, "queue-wait",
			   "\"%s\" waits %.3f ms on average for \"%s\", which then runs "
			   "%.3f ms: the queue costs more than the work. What takes it (%u%s "
			   "thread%s) is "
			   "in spans %u %% of the time: %s",
			   name_of(st, w->name), ms(wait), name_of(st, w->into), ms(run),
			   w->n_receivers, w->n_receivers == WAIT_RECEIVERS ? " or more" : "",
			   plural(w->n_receivers), busy,
			   busy < IDLE_PERCENT
				   ? "more workers would not help, waking them sooner might"
				   : "more workers or larger batches might help");
		fact(st, "receivers_busy_percent", busy);
		fact(st, "count", w->wait.count);
		fact(st, "mean_wait_ns", wait);
		fact(st, "mean_run_ns", run);
	}
	return err;
}

/* One thread does everything while the others of its process have room. */
static int warn_bottleneck(struct stats *st, size_t from, size_t to)
{
	const struct thread_stats *busiest = NULL, *t;
	size_t i, idle = 0, used = 0;
	int err;

	for (i = from; i < to; i++) {
		t = &st->threads[i];
		if (!t->spans)
			continue;
		used++;
		if (!busiest || t->busy_ns > busiest->busy_ns)
			busiest = t;
		idle += percent(t->busy_ns, st->observed_ns) < IDLE_PERCENT;
	}
	if (used < 2 || idle < used - 1 ||
	    percent(busiest->busy_ns, st->observed_ns) < BUSY_PERCENT)
		return 0;
	err = warn(st, "one-busy-thread",
		   "thread %u \"%s\" of process %u is busy %u %% of the time, while the other %zu "
		   "are below %d %%",
		   busiest->track->tid, busiest->track->name, busiest->track->pid,
		   percent(busiest->busy_ns, st->observed_ns), used - 1, IDLE_PERCENT);
	fact(st, "pid", busiest->track->pid);
	fact(st, "tid", busiest->track->tid);
	fact(st, "busy_ns", busiest->busy_ns);
	fact(st, "observed_ns", st->observed_ns);
	return err;
}

static int warn_threads(struct stats *st)
{
	size_t from, to;
	int err = 0;

	for (from = 0; !err && from < st->n_threads; from = to) {
		for (to = from + 1; to < st->n_threads; to++)
			if (st->threads[to].track->process != st->threads[from].track->process)
				break;
		err = warn_bottleneck(st, from, to);
	}
	return err;
}

static int warn_probe_cost(struct stats *st)
{
	const struct op_stats *op;
	uint64_t p50;
	int err = 0, told = 0;
	size_t i;

	for (i = 0; !err && i < st->n_ops && told < 3; i++) {
		op = &st->ops[i];
		p50 = histogram__quantile(&op->dur, 500);
		if (!(op->flags & EVS_FUNCTION) || op->dur.count < 1000 || p50 >= PROBE_COST_NS)
			continue;
		told++;
		err = warn(st, "probe-cost",
			   "half of the %llu calls of \"%s\" take less than %.1f us, which is near "
			   "what its probes cost: the call alone is shorter",
			   (unsigned long long)op->dur.count, name_of(st, op->name),
			   (double)(p50 + 1) / 1000);
		fact(st, "calls", op->dur.count);
		fact(st, "p50_ns", p50);
	}
	return err;
}

static int warn_requests(struct stats *st)
{
	const struct request_stats *r;
	int err = 0;
	size_t i;

	for (i = 0; !err && i < st->n_requests; i++) {
		r = &st->requests[i];
		if (!r->unfinished)
			continue;
		err = warn(st, "open-requests",
			   "%llu of %llu requests \"%s\" have no end: latencies are of "
			   "those that ended",
			   (unsigned long long)r->unfinished, (unsigned long long)r->begun,
			   name_of(st, r->name));
		fact(st, "unfinished", r->unfinished);
		fact(st, "begun", r->begun);
	}
	return err;
}

int stats__warn(struct stats *st)
{
	static int (*const all[])(struct stats *) = {
		warn_file,  warn_losses,  warn_recorder,   warn_spans,
		warn_waits, warn_threads, warn_probe_cost, warn_requests,
	};
	size_t i;
	int err = 0;

	for (i = 0; !err && i < ARRAY_SIZE(all); i++)
		err = all[i](st);
	return err;
}
