// SPDX-License-Identifier: Apache-2.0
/* The public face of recordings: open one, look at it through a view, export it. */
#include "clika/prof.h"

#include "export/otlp_push.h"
#include "user/prof/recording_impl.h"
#include "user/recording/losses.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *clika_prof_version(void)
{
	return CLIKA_PROF_VERSION;
}

static int open_view(struct recording *r, const struct clika_view_opts *view,
		     struct clika_recording **out, struct clika_prof_error *error)
{
	struct clika_view_opts v = { .sz = sizeof(v) };
	struct session_opts o = { .relative = true };
	struct clika_recording *c = calloc(1, sizeof(*c));
	struct clika_error err = { 0 };
	int code;

	if (!c) {
		recording__close(r);
		return error__give(error, &err, error__set(&err, -ENOMEM, "out of memory"));
	}
	if (view)
		TAKE_OPTS(&v, view);
	o.from = v.from_ns;
	o.to = v.to_ns;
	o.capture_tag = v.capture;
	o.pid = v.pid;
	o.tid = v.tid;
	o.name_glob = v.name;
	o.outside_captures = v.outside_captures;
	if (v.live)
		recording__is_live(r);
	c->r = r;
	code = session__new(r, &o, &c->s, &err);
	if (code) {
		clika_recording__close(c);
		return error__give(error, &err, code);
	}
	*out = c;
	return 0;
}

int clika_recording__open(const char *path, const struct clika_view_opts *view,
			  struct clika_recording **out, struct clika_prof_error *error)
{
	struct clika_error err = { 0 };
	struct recording *r;
	int code;

	*out = NULL;
	code = recording__open(path, &r, &err);
	return code ? error__give(error, &err, code) : open_view(r, view, out, error);
}

int clika_recording__open_fd(int fd, const struct clika_view_opts *view,
			     struct clika_recording **out, struct clika_prof_error *error)
{
	struct clika_error err = { 0 };
	struct recording *r;
	int code;

	*out = NULL;
	code = recording__open_fd(fd, &r, &err);
	return code ? error__give(error, &err, code) : open_view(r, view, out, error);
}

void clika_recording__close(struct clika_recording *r)
{
	if (!r)
		return;
	session__free(r->s);
	recording__close(r->r);
	free(r);
}

void clika_recording__info(const struct clika_recording *r, struct clika_recording_info *out)
{
	const struct recording_state *st = recording__state(r->r);
	const struct count_info *n = recording__counts(r->r);
	struct clika_recording_info i = {
		.incomplete = st->incomplete,
		.segments = st->segments,
		.bad_segments = st->bad_segments,
		.trailing_bytes = st->trailing_bytes,
		.events = st->events,
		.bytes = st->bytes,
		.duration_ns = session__end(r->s) - session__begin(r->s),
		.processes = (uint32_t)recording__n_processes(r->r),
		.threads = (uint32_t)recording__n_threads(r->r),
		.captures = (uint32_t)recording__n_captures(r->r),
		.emitted = n->emitted,
		.recorded = n->recorded,
		.lost = n->lost,
		.filtered = n->filtered,
	};
	struct losses l;

	losses__sum(&l, r->r);
	i.unknown_at_most = l.all_at_most;
	i.sz = out->sz < sizeof(i) ? out->sz : sizeof(i);
	memcpy(out, &i, i.sz);
}

/* --- formats --------------------------------------------------------------------------------- */

static const struct exporter_ops *exporter_at(size_t i)
{
	size_t k;

	for (k = 0; exporters[k]; k++)
		if (k == i)
			return exporters[k];
	return NULL;
}

const char *clika_format__name(size_t i)
{
	const struct exporter_ops *ops = exporter_at(i);

	return ops ? ops->format : NULL;
}

const char *clika_format__file(size_t i)
{
	const struct exporter_ops *ops = exporter_at(i);

	return ops ? ops->file : NULL;
}

const char *clika_format__summary(size_t i)
{
	const struct exporter_ops *ops = exporter_at(i);

	return ops ? ops->summary : NULL;
}

bool clika_format__is_standard(size_t i)
{
	const struct exporter_ops *ops = exporter_at(i);

	return ops && ops->standard;
}

void clika_export_opts__init(struct clika_export_opts *o)
{
	*o = (struct clika_export_opts){ .sz = sizeof(*o), .owner = (uid_t)-1, .group = (gid_t)-1 };
}

/* --- export ---------------------------------------------------------------------------------- */

struct export_opts export_opts__of(const struct clika_export_opts *o)
{
	struct export_opts e;

	export_opts__init(&e);
	if (o->columns)
		e.columns = o->columns;
	if (o->top)
		e.top = o->top;
	e.compress_packets = o->compress_packets;
	e.step_name = o->step_name;
	return e;
}

struct clika_export_opts export_opts__own(const struct clika_export_opts *given)
{
	struct clika_export_opts o;

	clika_export_opts__init(&o);
	if (given)
		TAKE_OPTS(&o, given);
	return o;
}

int clika_recording__export_mem(struct clika_recording *r, const char *format,
				const struct clika_export_opts *given, char **data, size_t *len,
				struct clika_prof_error *error)
{
	struct clika_export_opts o = export_opts__own(given);
	struct export_opts e = export_opts__of(&o);
	struct clika_error err = { 0 };
	struct export_jobs j = { 0 };
	struct buf b = { 0 };
	int code = export_jobs__parse(&j, format, &err);

	*data = NULL;
	*len = 0;
	if (!code && j.n > 1)
		code = error__set(&err, -EINVAL, "one format at a time goes to memory");
	if (!code && outfile__memory(&b, &j.job[0].out))
		code = error__set(&err, -ENOMEM, "out of memory");
	if (!code)
		code = exporter__run(r->s, j.job, j.n, &e, &err);
	if (!code) {
		buf__u8(&b, 0);
		if (buf__error(&b))
			code = error__set(&err, -ENOMEM, "out of memory");
	}
	if (code) {
		buf__free(&b);
		return error__give(error, &err, code);
	}
	*data = (char *)b.data;
	*len = b.len - 1;
	return 0;
}

int clika_recording__export_fds(struct clika_recording *r, const char *const *formats,
				const int *fds, size_t n, const struct clika_export_opts *given,
				struct clika_prof_error *error)
{
	struct clika_export_opts o = export_opts__own(given);
	struct export_opts e = export_opts__of(&o);
	struct clika_error err = { 0 };
	struct export_job *jobs = calloc(n + 1, sizeof(*jobs));
	size_t made = 0;
	int code = jobs ? 0 : error__set(&err, -ENOMEM, "out of memory");

	for (; jobs && !code && made < n; made++) {
		jobs[made].ops = exporter__find(formats[made]);
		if (!jobs[made].ops)
			code = error__set(&err, -EINVAL, "there is no format '%.40s'",
					  formats[made]);
		else if (outfile__over_fd(fds[made], &jobs[made].out))
			code = error__set(&err, -ENOMEM, "out of memory");
	}
	if (!code)
		code = exporter__run(r->s, jobs, n, &e, &err);
	else
		for (size_t i = 0; jobs && i < made; i++)
			outfile__abort(jobs[i].out);
	free(jobs);
	return error__give(error, &err, code);
}

int clika_recording__push_otlp(struct clika_recording *r, const struct clika_push_opts *given,
			       struct clika_push_result *out, struct clika_prof_error *error)
{
	struct clika_push_opts o = { .sz = sizeof(o) };
	struct clika_push_result result = { 0 };
	struct otlp_push_result pushed;
	struct otlp_push_opts p;
	struct clika_error err = { 0 };
	struct export_opts e;
	int code;

	TAKE_OPTS(&o, given);
	export_opts__init(&e);
	otlp_push_opts__init(&p);
	p.url = o.url;
	p.headers = o.headers;
	p.n_headers = o.n_headers;
	p.timeout_ms = o.timeout_ms ? o.timeout_ms : p.timeout_ms;
	p.tries = o.tries ? o.tries : p.tries;
	p.backoff_ms = o.backoff_ms ? o.backoff_ms : p.backoff_ms;
	p.max_wait_ms = o.max_wait_ms ? o.max_wait_ms : p.max_wait_ms;
	code = otlp_push(r->s, &e, &p, &pushed, &err);
	if (out) {
		result.requests = pushed.bodies;
		result.spans = pushed.spans;
		result.rejected = pushed.rejected;
		result.retries = pushed.retries;
		memcpy(result.message, pushed.message, sizeof(result.message));
		result.sz = out->sz < sizeof(result) ? out->sz : sizeof(result);
		memcpy(out, &result, result.sz);
	}
	return error__give(error, &err, code);
}
