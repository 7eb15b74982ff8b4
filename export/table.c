// SPDX-License-Identifier: Apache-2.0
#include "export/exporter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern const struct exporter_ops exporter_chrome;
extern const struct exporter_ops exporter_perfetto;
extern const struct exporter_ops exporter_report;
extern const struct exporter_ops exporter_memory;
extern const struct exporter_ops exporter_summary;
extern const struct exporter_ops exporter_pprof;
extern const struct exporter_ops exporter_folded;
extern const struct exporter_ops exporter_flamegraph;
extern const struct exporter_ops exporter_speedscope;
extern const struct exporter_ops exporter_firefox;
extern const struct exporter_ops exporter_kineto;
extern const struct exporter_ops exporter_otlp;
extern const struct exporter_ops exporter_csv;
extern const struct exporter_ops exporter_html;

const struct exporter_ops *const exporters[] = {
	&exporter_chrome,  &exporter_perfetto,   &exporter_report,
	&exporter_memory,  &exporter_summary,    &exporter_pprof,
	&exporter_folded,  &exporter_flamegraph, &exporter_speedscope,
	&exporter_firefox, &exporter_kineto,     &exporter_otlp,
	&exporter_csv,     &exporter_html,       NULL,
};

void export_opts__init(struct export_opts *o)
{
	*o = (struct export_opts){
		.sz = sizeof(*o), .stack_args = true, .columns = 100, .top = 30
	};
}

const struct exporter_ops *exporter__find(const char *format)
{
	size_t i;

	for (i = 0; exporters[i]; i++)
		if (!strcmp(exporters[i]->format, format))
			return exporters[i];
	return NULL;
}

struct run {
	const struct exporter_ops *ops;
	void *state;
	bool open;
	int err;
	uint64_t failed_at; /* ts of the item */
	struct clika_error why;
};

/* A run that wants items: what is needed for each one lies close together. */
struct taker {
	int (*item)(void *state, const struct item *it);
	void *state;
	struct run *run;
};

struct fan {
	struct run *runs;
	size_t n;
	struct taker *takers;
	size_t n_takers;
	struct stats *stats; /* shared; NULL: nobody wants them */
};

static void run__fail(struct run *r, int code)
{
	r->open = false;
	r->err = code;
	/* An exporter that knows more has said so itself. */
	if (!r->why.msg[0])
		error__set(&r->why, code, "cannot write %s: %s", r->ops->file, strerror(-code));
}

static void fan__fail_stats(struct fan *f, int code)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		if (f->runs[i].open && f->runs[i].ops->stats)
			run__fail(&f->runs[i], code);
	stats__free(f->stats);
	f->stats = NULL;
}

static void fan__want_stats(struct fan *f, struct session *s)
{
	size_t i;
	int code;

	for (i = 0; i < f->n; i++)
		if (f->runs[i].open && f->runs[i].ops->stats)
			break;
	if (i == f->n)
		return;
	code = stats__new(s, &f->stats);
	if (code)
		fan__fail_stats(f, code);
}

static void fan__give_stats(struct fan *f, int walk_err)
{
	size_t i;
	int code;

	if (!f->stats || walk_err)
		return;
	code = stats__finish(f->stats);
	if (code)
		fan__fail_stats(f, code);
	for (i = 0; i < f->n; i++)
		if (f->runs[i].open && f->runs[i].ops->stats)
			f->runs[i].ops->stats(f->runs[i].state, f->stats);
}

/* A job that failed gets nothing more; the walk goes on while any other wants items. */
static int fan__item(void *ctx, const struct item *it)
{
	struct fan *f = ctx;
	size_t i = 0;
	int err = f->stats ? stats__item(f->stats, it) : 0;

	if (err)
		fan__fail_stats(f, err);
	while (i < f->n_takers) {
		err = f->takers[i].item(f->takers[i].state, it);
		if (!err) {
			i++;
			continue;
		}
		f->takers[i].run->failed_at = it->ts;
		run__fail(f->takers[i].run, err);
		f->takers[i] = f->takers[--f->n_takers];
	}
	return f->n_takers || f->stats ? 0 : -ECANCELED;
}

static void run__finish(struct run *r, struct export_job *job, int walk_err)
{
	int code;

	if (r->open && walk_err)
		run__fail(r, walk_err);
	if (r->open) {
		code = r->ops->close(r->state, &r->why);
		if (code)
			run__fail(r, code);
	}
	if (r->state)
		r->ops->free(r->state);
	if (r->open)
		r->err = outfile__commit(job->out, &r->why);
	else
		outfile__abort(job->out);
	job->out = NULL;
	job->err = r->err;
	job->failed_at = r->failed_at;
}

static void fan__open(struct fan *f, struct session *s, struct export_job *jobs,
		      const struct export_opts *o)
{
	struct run *r;
	size_t i;
	int code;

	for (i = 0; i < f->n; i++) {
		r = &f->runs[i];
		r->ops = jobs[i].ops;
		code = r->ops->open(s, jobs[i].out, o, &r->state, &r->why);
		r->open = !code;
		if (code)
			run__fail(r, code);
		else if (r->ops->item)
			f->takers[f->n_takers++] = (struct taker){ r->ops->item, r->state, r };
	}
	fan__want_stats(f, s);
}

int exporter__run(struct session *s, struct export_job *jobs, size_t n, const struct export_opts *o,
		  struct clika_error *err)
{
	struct fan fan = {
		.runs = calloc(n ? n : 1, sizeof(*fan.runs)),
		.n = n,
		.takers = calloc(n ? n : 1, sizeof(*fan.takers)),
	};
	struct export_opts defaults;
	int code, first = 0;
	size_t i;

	export_opts__init(&defaults);
	if (!fan.runs || !fan.takers) {
		for (i = 0; i < n; i++) {
			outfile__abort(jobs[i].out);
			jobs[i].out = NULL;
			jobs[i].err = -ENOMEM;
		}
		first = error__set(err, -ENOMEM, "out of memory");
		goto out;
	}
	fan__open(&fan, s, jobs, o ? o : &defaults);
	code = session__walk(s, fan__item, &fan);
	fan__give_stats(&fan, code);
	for (i = 0; i < n; i++) {
		run__finish(&fan.runs[i], &jobs[i], code);
		if (fan.runs[i].err && !first) {
			first = fan.runs[i].err;
			error__set(err, first, "%s", fan.runs[i].why.msg);
		}
	}
out:
	stats__free(fan.stats);
	free(fan.runs);
	free(fan.takers);
	return first;
}
