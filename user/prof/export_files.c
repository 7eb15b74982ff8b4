// SPDX-License-Identifier: Apache-2.0
/*
 * Exports to files: several formats in one pass, packed or not. What would be larger than allowed
 * is split by time, into parts that are whole files each.
 */
#include "user/prof/recording_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A part that does not fit and is shorter than this is not split further. */
#define MIN_PART_NS NSEC_PER_USEC
#define MAX_PARTS 10000

static void jobs__add(struct export_jobs *j, const struct exporter_ops *ops)
{
	size_t i;

	for (i = 0; i < j->n; i++)
		if (j->job[i].ops == ops)
			return;
	if (j->n < EXPORT_MAX_JOBS)
		j->job[j->n++].ops = ops;
}

static int unknown_format(const char *name, size_t len, struct clika_error *err)
{
	struct buf all = { 0 };
	int code;
	size_t i;

	for (i = 0; exporters[i]; i++)
		buf__printf(&all, "%s%s", i ? ", " : "", exporters[i]->format);
	code = error__set(err, -EINVAL, "unknown format \"%.*s\"; there are: standard, %.*s",
			  (int)(len < 60 ? len : 60), name, (int)all.len, (const char *)all.data);
	buf__free(&all);
	return code;
}

int export_jobs__parse(struct export_jobs *j, const char *formats, struct clika_error *err)
{
	const struct exporter_ops *ops;
	char name[32];
	size_t len, i;

	for (; *formats; formats += len + (formats[len] == ',')) {
		len = strcspn(formats, ",");
		if (!len)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(len < 31 ? len : 31), formats);
		if (!strcmp(name, "standard")) {
			for (i = 0; exporters[i]; i++)
				if (exporters[i]->standard)
					jobs__add(j, exporters[i]);
			continue;
		}
		ops = len < sizeof(name) ? exporter__find(name) : NULL;
		if (!ops)
			return unknown_format(formats, len, err);
		jobs__add(j, ops);
	}
	return j->n ? 0 : error__set(err, -EINVAL, "no format was named");
}

/* --- names ------------------------------------------------------------------------------------ */

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

/* "dir/trace.pb.gz" and 2 give "dir/trace.part2.pb.gz". */
static char *part_path(const char *path, unsigned int part)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *dot = *name ? strchr(name + 1, '.') : NULL;
	char *to = NULL;

	if (!dot)
		dot = name + strlen(name);
	return asprintf(&to, "%.*s.part%u%s", (int)(dot - path), path, part, dot) < 0 ? NULL : to;
}

static char *job_path(const struct exporter_ops *ops, const char *dir, const char *path,
		      const struct clika_export_opts *o)
{
	const char *file = dir ? ops->file : path, *gz;
	char *to = NULL;
	int n;

	gz = o->gzip && !ends_with(file, ".gz") ? ".gz" : "";
	if (dir)
		n = asprintf(&to, "%s/%s%s", *dir ? dir : ".", file, gz);
	else
		n = asprintf(&to, "%s%s", file, gz);
	return n < 0 ? NULL : to;
}

/* Made for the owner of the files; one that is there already is left as it is. */
static int make_dir(const char *dir, const struct clika_export_opts *o, struct clika_error *err)
{
	if (!*dir || !mkdir(dir, 0700)) {
		if (*dir && o->owner != (uid_t)-1 && lchown(dir, o->owner, o->group))
			goto fail;
		return 0;
	}
	if (errno == EEXIST)
		return 0;
fail:
	return error__set(err, -errno, "cannot create the folder %s: %s", dir, strerror(errno));
}

/* --- parts ------------------------------------------------------------------------------------ */

struct split {
	struct clika_recording *r;
	const struct clika_export_opts *o;
	const struct exporter_ops *ops;
	const char *path;
	char **parts; /* written so far */
	unsigned int n, cap;
	uint64_t failed_at; /* where the part that was tried last grew too large; 0 = at its end */
	uint64_t bytes;     /* of the part written last */
};

static int split__run(struct split *s, uint64_t from, uint64_t to, const char *path,
		      struct clika_error *err)
{
	struct session_opts view = *session__opts(s->r->s);
	struct export_opts e = export_opts__of(s->o);
	struct export_job job = { .ops = s->ops };
	struct session *part = NULL;
	struct stat st;
	int code;

	view.relative = false;
	view.from = from;
	view.to = to;
	code = session__new(s->r->r, &view, &part, err);
	if (!code)
		code = outfile__create(path, s->o->owner, s->o->group, &job.out, err);
	if (!code) {
		outfile__limit(job.out, s->o->max_bytes);
		code = exporter__run(part, &job, 1, &e, err);
	}
	s->failed_at = job.failed_at;
	s->bytes = !code && !stat(path, &st) ? (uint64_t)st.st_size : 0;
	session__free(part);
	return code;
}

static int split__part(struct split *s, uint64_t from, uint64_t to, struct clika_error *err)
{
	char **parts;
	int code;

	if (s->n == s->cap) {
		parts = realloc(s->parts, (s->cap + 64) * sizeof(*parts));
		if (!parts)
			return error__set(err, -ENOMEM, "out of memory");
		s->parts = parts;
		s->cap += 64;
	}
	s->parts[s->n] = part_path(s->path, s->n + 1);
	if (!s->parts[s->n])
		return error__set(err, -ENOMEM, "out of memory");
	code = split__run(s, from, to, s->parts[s->n], err);
	if (code)
		free(s->parts[s->n]);
	else
		s->n++;
	return code;
}

/* How much of [from, from + length), which was too large, to try instead. */
static uint64_t shorter(const struct split *s, uint64_t from, uint64_t length)
{
	uint64_t fits = s->failed_at > from ? (s->failed_at - from) / 10 * 9 : length / 2;

	return fits && fits < length ? fits : length / 2;
}

/* What follows is probably as dense as the part just written. */
static uint64_t next_length(const struct split *s, uint64_t length)
{
	double by = s->bytes ? (double)s->o->max_bytes / (double)s->bytes * 0.9 : 2;

	return (uint64_t)((double)length * (by < 0.5 ? 0.5 : by > 4 ? 4 : by)) + 1;
}

/* Some parts alone would pass for all of it. */
static void split__undo(struct split *s)
{
	while (s->n) {
		unlink(s->parts[--s->n]);
		free(s->parts[s->n]);
	}
}

/* @failed_at: where the whole got too large. */
static int split__write(struct split *s, uint64_t failed_at, struct clika_error *err)
{
	uint64_t from = session__begin(s->r->s), end = session__end(s->r->s) + 1, length, to;
	int code = 0;

	s->failed_at = failed_at;
	length = shorter(s, from, end - from);
	while (!code && from < end) {
		to = length < end - from ? from + length : end;
		code = split__part(s, from, to, err);
		if (!code) {
			length = next_length(s, to - from);
			from = to;
			if (s->n == MAX_PARTS && from < end)
				code = error__set(
					err, -EFBIG,
					"%s would be more than %u parts: allow larger ones",
					s->path, MAX_PARTS);
		} else if (code == -EFBIG && to - from > MIN_PART_NS) {
			length = shorter(s, from, to - from);
			code = 0;
		} else if (code == -EFBIG) {
			error__set(err, code,
				   "not even %llu ns of %s fit into %llu bytes: allow larger parts",
				   (unsigned long long)(to - from), s->path,
				   (unsigned long long)s->o->max_bytes);
		}
	}
	if (code)
		split__undo(s);
	return code;
}

static void wrote(const struct clika_export_opts *o, const char *path)
{
	if (o->wrote)
		o->wrote(o->wrote_ctx, path);
}

static int split(struct clika_recording *r, const struct clika_export_opts *o,
		 const struct export_job *job, const char *path, struct clika_error *err)
{
	struct split s = { .r = r, .o = o, .ops = job->ops, .path = path };
	int code = split__write(&s, job->failed_at, err);
	unsigned int i;

	for (i = 0; i < s.n; i++) {
		wrote(o, s.parts[i]);
		free(s.parts[i]);
	}
	free(s.parts);
	return code;
}

/* --- all formats ------------------------------------------------------------------------------ */

struct files {
	struct export_jobs j;
	char *path[EXPORT_MAX_JOBS];
};

static int files__create(struct files *f, const char *dir, const char *path,
			 const struct clika_export_opts *o, struct clika_error *err)
{
	struct export_job *job;
	size_t i;
	int code = 0;

	for (i = 0; !code && i < f->j.n; i++) {
		job = &f->j.job[i];
		f->path[i] = job_path(job->ops, dir, path, o);
		if (!f->path[i])
			return error__set(err, -ENOMEM, "out of memory");
		code = outfile__create(f->path[i], o->owner, o->group, &job->out, err);
		if (!code && o->max_bytes)
			outfile__limit(job->out, o->max_bytes);
	}
	return code;
}

/* After the pass over everything: splits what got too large, and tells what there is. */
static int files__finish(struct files *f, struct clika_recording *r,
			 const struct clika_export_opts *o, int code, struct clika_error *err)
{
	struct export_job *job;
	size_t i;

	for (i = 0; i < f->j.n; i++) {
		job = &f->j.job[i];
		if (job->err && !(o->max_bytes && job->err == -EFBIG))
			return code;
	}
	code = 0;
	for (i = 0; !code && i < f->j.n; i++) {
		job = &f->j.job[i];
		if (job->err)
			code = split(r, o, job, f->path[i], err);
		else
			wrote(o, f->path[i]);
	}
	return code;
}

int clika_recording__export(struct clika_recording *r, const char *formats, const char *dir,
			    const char *path, const struct clika_export_opts *given,
			    struct clika_prof_error *error)
{
	struct clika_export_opts o = export_opts__own(given);
	struct export_opts e = export_opts__of(&o);
	struct clika_error err = { 0 };
	struct files f = { 0 };
	size_t i;
	int code = export_jobs__parse(&f.j, formats, &err);

	if (!code && !dir == !path)
		code = error__set(&err, -EINVAL, "give a folder or the path of one file");
	if (!code && path && f.j.n > 1)
		code = error__set(&err, -EINVAL, "several formats need a folder, not one file");
	if (!code && dir)
		code = make_dir(dir, &o, &err);
	if (!code)
		code = files__create(&f, dir, path, &o, &err);
	if (code) {
		for (i = 0; i < f.j.n; i++)
			outfile__abort(f.j.job[i].out);
	} else {
		code = exporter__run(r->s, f.j.job, f.j.n, &e, &err);
		code = files__finish(&f, r, &o, code, &err);
	}
	for (i = 0; i < f.j.n; i++)
		free(f.path[i]);
	return error__give(error, &err, code);
}
