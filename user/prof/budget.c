// SPDX-License-Identifier: Apache-2.0
/*
 * The overhead budget of function probes. Twice a second, or when a tenth of a second of CPU time has come
 * together: hits times what a hit costs, against the CPU time that the threads which had hits used meanwhile. When
 * that share passes the budget, probes are taken off, as budget_choice.c says.
 *
 * Functions that say more than a span (memory, requests, flows) go last and all at once, as frees without
 * allocations would be a lie. Functions that the user named (--probe) stay. What is taken off stays off; what remains is exact.
 * docs/record.md has the rule for people.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/prof/budget_choice.h"
#include "user/prof/recorder.h"
#include "user/stream/call.h"

#define LOOK_NS (500 * NSEC_PER_MSEC)
#define MIN_HITS 200 /* to go by: below that nothing is worth a change */
#define MIN_CPU_NS (100 * NSEC_PER_MSEC)
#define PATIENCE_NS (10 * NSEC_PER_SEC) /* until less CPU time than that must do */
#define NAMED 4                         /* functions that the message names */
#define TOLD 200                        /* that have a line of their own in the recording */

struct func_cost {
	uint64_t hits, calls, ended, self_ns; /* as of the last look */
	double entry_ns, return_ns;
	bool known, off;
};

struct budget {
	double share;
	uint64_t last, start;
	bool calibrated, failed;
	struct hit_costs costs;
	struct func_cost *funcs;
	size_t n_funcs;
	uint64_t cpu_sum, hit_sum; /* since the last decision */
	uint64_t looked;           /* ns, when the threads were looked at last */
	double lately;             /* -1 = not known */
	uint32_t n_off;
	bool does_stay; /* a function that does more than a span cannot be taken off: none is */
	bool does_off;  /* they are off: those in files that are mapped later go too */
	bool stuck;     /* said that some cannot be taken off */
};

struct budget *budget__new(double share)
{
	struct budget *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->share = share;
	b->lately = -1;
	return b;
}

void budget__free(struct budget *b)
{
	if (!b)
		return;
	free(b->funcs);
	free(b);
}

void budget__stats(const struct budget *b, struct clika_recorder_stats *st)
{
	st->functions_off = b->n_off;
	st->probe_share = b->lately;
}

/* --- CPU time of the threads that had hits ------------------------------------------------------- */

static uint64_t cpu_time(pid_t pid, uint32_t tid)
{
	unsigned long long ns = 0;
	char path[64], text[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%u/schedstat", (int)pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	return sscanf(text, "%llu", &ns) == 1 ? ns : 0;
}

struct cpu_sum {
	uint64_t elapsed, cpu;
	uint64_t hits;
};

static int sum_process(void *ctx, struct person_process *proc)
{
	struct cpu_sum *s = ctx;

	for (struct person_thread *th = proc->threads; th; th = th->next) {
		uint64_t now, used;

		if (!th->probe_hits)
			continue;
		s->hits += th->probe_hits;
		th->probe_hits = 0;
		now = proc->lpid ? cpu_time(proc->lpid, th->tid) : 0;
		/* Not known, or seen for the first time: as if it had run all the time. */
		used = th->probe_cpu_ns && now >= th->probe_cpu_ns ? now - th->probe_cpu_ns
								   : s->elapsed;
		s->cpu += used < s->elapsed ? used : s->elapsed;
		th->probe_cpu_ns = now;
	}
	return 0;
}

/* --- costs -------------------------------------------------------------------------------------------- */

static void learn_costs(struct budget *b, const struct files *files, uint32_t file)
{
	const struct probed_file *p = files__get(files, file);
	double *n;

	if (!p || !p->n_funcs)
		return;
	n = calloc(p->n_funcs, sizeof(*n));
	if (!n)
		return;
	for (size_t i = 0; i < p->n_func_sites; i++) {
		uint32_t func = (uint32_t)p->func_sites[i].cookie;
		double ns = b->costs.ns[hit__class(p->elf, p->func_sites[i].offset)];
		struct func_cost *c;

		if (func >= b->n_funcs || func < p->first_func ||
		    func - p->first_func >= p->n_funcs)
			continue;
		c = &b->funcs[func];
		if (!(p->func_sites[i].cookie & COOKIE_RETURN)) {
			c->entry_ns = ns;
			continue;
		}
		/* Which of its ways out a call takes is not known: their mean. Jumps before a return that
		 * are not taken are hits, too, but cheap ones that nobody counts. */
		n[func - p->first_func]++;
		c->return_ns += (ns - c->return_ns) / n[func - p->first_func];
	}
	for (uint32_t i = 0; i < p->n_funcs; i++)
		b->funcs[p->first_func + i].known = true;
	free(n);
}

static bool does_more(const struct func_probe *f)
{
	for (unsigned i = 0; f->kind && i < f->kind->rule->n_does; i++)
		if (f->kind->rule->does[i].what != RECIPE_COUNTER &&
		    f->kind->rule->does[i].what != RECIPE_INSTANT)
			return true;
	return false;
}

/* The kernel has only so many switches, which the first files got. */
static bool can_go(const struct files *files, const struct func_probe *f)
{
	const struct probed_file *p = files__get(files, f->file);

	return p && p->func_switch;
}

/* @late: some are among them that are off already. */
static int grow(struct budget *b, const struct files *files, bool *late)
{
	size_t n = files__n_funcs(files);
	struct func_cost *more;

	if (n <= b->n_funcs)
		return 0;
	more = realloc(b->funcs, n * sizeof(*more));
	if (!more)
		return -ENOMEM;
	memset(more + b->n_funcs, 0, (n - b->n_funcs) * sizeof(*more));
	b->funcs = more;
	for (; b->n_funcs < n; b->n_funcs++) {
		const struct func_probe *f = files__func(files, b->n_funcs);

		if (!does_more(f))
			continue;
		b->does_stay = b->does_stay || !can_go(files, f);
		if (!b->does_off)
			continue;
		more[b->n_funcs].off = true;
		*late = true;
	}
	return 0;
}

/* Functions with calls since the last look. malloc'ed. */
static struct candidate *list_candidates(struct budget *b, struct clika_recorder *r, size_t *n,
					 double *cost)
{
	struct candidate *all = calloc(b->n_funcs + 1, sizeof(*all));

	*n = 0;
	*cost = 0;
	for (uint32_t i = 0; all && i < b->n_funcs; i++) {
		const struct call_count *now = decoder__call_count(r->decoder, i);
		struct func_cost *was = &b->funcs[i];
		struct candidate *c = &all[*n];
		const struct func_probe *f;
		uint64_t calls, hits, ended;

		if (!now || now->hits == was->hits)
			continue;
		if (!was->known)
			learn_costs(b, r->files, files__func(r->files, i)->file);
		hits = now->hits - was->hits;
		calls = now->calls - was->calls;
		ended = now->ended - was->ended;
		c->func = i;
		c->calls = calls;
		c->self_ns = now->self_ns - was->self_ns;
		c->cost = (double)calls * was->entry_ns + (double)(hits - calls) * was->return_ns;
		c->cost_call = was->entry_ns + was->return_ns;
		c->mean_self = ended ? (double)c->self_ns / (double)ended : 0;
		c->cheap = c->mean_self < 2 * c->cost_call;
		c->does = does_more(files__func(r->files, i));
		was->hits = now->hits;
		was->calls = now->calls;
		was->ended = now->ended;
		was->self_ns = now->self_ns;
		if (was->off)
			continue;
		*cost += c->cost;
		/* What the user has named stays. */
		f = files__func(r->files, i);
		if (f->kind && can_go(r->files, f) && !(c->does && b->does_stay))
			++*n;
	}
	return all;
}

/* --- taking off ------------------------------------------------------------------------------------------ */

static bool is_off(void *ctx, uint32_t func)
{
	const struct budget *b = ctx;

	return func < b->n_funcs && b->funcs[func].off;
}

static void tell_off(struct budget *b, struct clika_recorder *r, const struct candidate *all,
		     size_t n, double share, uint64_t look_ns)
{
	double after = (double)(clock__boottime_ns() - r->start_ts) / NSEC_PER_SEC;
	double sec = (double)look_ns / NSEC_PER_SEC;
	char text[600];
	size_t used;

	used = snprintf(
		text, sizeof(text),
		"after %.1f s function probes cost an estimated %.1f %% of their threads' CPU time "
		"(--budget %g%%): %zu functions that tell least for that are not recorded from "
		"then "
		"on, their time counts as their callers'; --budget off keeps them: ",
		after, share * 100, b->share * 100, n);
	for (size_t i = 0; i < n && i < NAMED && used < sizeof(text); i++)
		used += snprintf(text + used, sizeof(text) - used, "%s%.60s", i ? ", " : "",
				 files__func(r->files, all[i].func)->name);
	if (n > NAMED && used < sizeof(text))
		snprintf(text + used, sizeof(text) - used, ", ...");
	writer__warning(r->w, "budget", text);
	logger__log(&r->log, LOG_INFO, "budget", "%s", text);
	for (size_t i = 0; i < n && i < TOLD; i++) {
		snprintf(text, sizeof(text),
			 "%.200s: not recorded from %.1f s on (%.0f calls/s, %.1f us each without "
			 "those "
			 "inside, its probes %.1f us a call)",
			 files__func(r->files, all[i].func)->name, after,
			 (double)all[i].calls / sec, all[i].mean_self / 1000,
			 all[i].cost_call / 1000);
		writer__warning(r->w, "budget-function", text);
	}
	if (r->o.note) {
		snprintf(text, sizeof(text),
			 "budget: probes of %zu functions taken off, all cost %.1f %% of CPU time "
			 "and %g %% "
			 "are allowed (--budget off keeps them)",
			 n, share * 100, b->share * 100);
		r->o.note(r->o.note_ctx, text);
	}
}

/* Also those that nobody has called yet. */
static void all_does_off(struct budget *b, struct clika_recorder *r)
{
	for (uint32_t i = 0; i < b->n_funcs; i++)
		if (does_more(files__func(r->files, i)))
			b->funcs[i].off = true;
}

/* Takes those off that are marked so; how many that were. */
static int apply(struct budget *b, struct clika_recorder *r)
{
	struct clika_error err = { 0 };
	int ret, done = 0;

	for (uint32_t i = 0; i < files__count(r->files); i++) {
		ret = files__take_off(r->files, i, is_off, b, &err);
		if (ret < 0) {
			logger__log(&r->log, LOG_WARN, "budget", "%s", err.msg);
			b->failed = true;
		}
		done += ret > 0 ? ret : 0;
	}
	b->n_off += done;
	return done;
}

static void take_off(struct budget *b, struct clika_recorder *r, struct candidate *all, size_t n,
		     double cost, double cpu, uint64_t look_ns)
{
	size_t taken = budget__choose(all, n, cost, cpu * b->share);

	for (size_t i = 0; i < taken; i++)
		b->funcs[all[i].func].off = true;
	if (taken && all[taken - 1].does) {
		b->does_off = true;
		all_does_off(b, r);
	}
	if (taken && apply(b, r)) {
		tell_off(b, r, all, taken, cost / cpu, look_ns);
	} else if (!taken && !b->stuck) {
		b->stuck = true;
		writer__warning(
			r->w, "budget",
			"function probes cost more than --budget allows, but those that are left "
			"cannot be taken off (named by --probe, put in by --retprobe, or on a "
			"kernel "
			"or in a file where single ones cannot): name fewer functions");
	}
}

/* Memory, requests and flows are off: what a file that was mapped since would tell of them is half a story. */
static void take_late_off(struct budget *b, struct clika_recorder *r)
{
	char text[200];
	int done = apply(b, r);

	if (!done)
		return;
	snprintf(text, sizeof(text),
		 "%d functions of files that were mapped later belong to those that are not "
		 "recorded any more",
		 done);
	writer__warning(r->w, "budget", text);
	logger__log(&r->log, LOG_INFO, "budget", "%s", text);
}

static void calibrate(struct budget *b, struct clika_recorder *r)
{
	struct clika_error err = { 0 };

	b->calibrated = true;
	if (calibrate__hits(r, &b->costs, &err)) {
		b->failed = true;
		logger__log(&r->log, LOG_WARN, "budget",
			    "what a probe costs could not be measured, so there is no budget: %s",
			    err.msg);
		return;
	}
	logger__log(
		&r->log, LOG_INFO, "budget",
		"a hit costs %.2f us (emulated instruction), %.2f us (stepped), %.2f us (return)",
		b->costs.ns[HIT_EMULATED] / 1000, b->costs.ns[HIT_STEPPED] / 1000,
		b->costs.ns[HIT_RETURN] / 1000);
}

/* Enough has been seen for a judgement. */
static bool ripe(struct budget *b, struct clika_recorder *r, uint64_t now)
{
	struct cpu_sum sum = { .elapsed = now - b->looked };

	b->looked = now;
	people__each_process(r->people, sum_process, &sum);
	b->cpu_sum += sum.cpu;
	b->hit_sum += sum.hits;
	return (b->cpu_sum >= MIN_CPU_NS && b->hit_sum >= MIN_HITS) || now - b->last >= PATIENCE_NS;
}

void budget__look(struct budget *b, struct clika_recorder *r)
{
	uint64_t now = clock__boottime_ns(), look_ns, cpu, seen;
	struct candidate *all;
	bool first = !b->last, late = false;
	double cost;
	size_t n;

	if (b->failed || !files__n_funcs(r->files) || !r->started)
		return;
	if (!b->calibrated) {
		calibrate(b, r);
		now = clock__boottime_ns();
	}
	if (!first && now - b->looked < LOOK_NS)
		return;
	if (!ripe(b, r, now) && !first)
		return;
	look_ns = now - b->last;
	cpu = b->cpu_sum;
	seen = b->hit_sum;
	b->last = now;
	b->cpu_sum = b->hit_sum = 0;
	if (grow(b, r->files, &late))
		return;
	if (late)
		take_late_off(b, r);
	all = list_candidates(b, r, &n, &cost);
	/* What came before the first look is only where it starts from. */
	if (all && !first) {
		b->lately = cpu ? cost / (double)cpu : -1;
		if (cpu && seen >= MIN_HITS && b->lately > b->share)
			take_off(b, r, all, n, cost, (double)cpu, look_ns);
	}
	free(all);
}
