// SPDX-License-Identifier: Apache-2.0
/* `merge`: several recordings, and traces of other tools, in one. */
#include "user/prof/merge.h"

#include "user/prof/recording_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIME_SLACK_NS (60 * NSEC_PER_SEC) /* as a session has it */

void merge__note(const struct merge *m, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	if (!m->o.note)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	m->o.note(m->o.note_ctx, line);
}

/* --- inputs ----------------------------------------------------------------------------------- */

static int input__open(struct merge_input *in, const char *path, struct clika_error *err)
{
	const struct session_opts all = { .outside_captures = true };
	uint64_t last = 0;
	size_t i, n;
	int code;

	in->path = path;
	code = recording__open(path, &in->r, err);
	if (code)
		return code;
	code = session__new(in->r, &all, &in->s, err);
	if (code)
		return code;
	in->begin = session__origin(in->s);
	in->end = session__end(in->s);
	n = recording__n_anchors(in->r);
	for (i = 0; i < n; i++)
		if (recording__anchor(in->r, i)->boottime > last)
			last = recording__anchor(in->r, i)->boottime;
	in->horizon = n && last < UINT64_MAX - TIME_SLACK_NS ? last + TIME_SLACK_NS : UINT64_MAX;
	in->name_of =
		calloc((size_t)strpool__count(recording__names(in->r)) + 1, sizeof(*in->name_of));
	return in->name_of ? 0 : error__set(err, -ENOMEM, "out of memory");
}

static void input__close(struct merge_input *in)
{
	map64__free(in->captures);
	free(in->process_of);
	free(in->thread_of);
	free(in->active);
	free(in->name_of);
	free(in->label);
	session__free(in->s);
	recording__close(in->r);
}

/* What people call it: its machine, and when that is not enough, its file. */
static int label_inputs(struct merge *m)
{
	const char *host;
	size_t i, k, same;

	for (i = 0; i < m->n; i++) {
		host = m->boots[m->in[i].boot].host;
		for (k = same = 0; k < m->n; k++)
			same += !strcmp(host, m->boots[m->in[k].boot].host);
		m->in[i].label = strdup(same > 1 ? m->in[i].path : host);
		if (!m->in[i].label)
			return -ENOMEM;
	}
	return 0;
}

static int open_inputs(struct merge *m, const struct clika_merge_input *inputs, size_t n,
		       bool *is_trace, struct clika_error *err)
{
	size_t i;
	int code = 0;

	m->in = calloc(n + 1, sizeof(*m->in));
	if (!m->in)
		return error__set(err, -ENOMEM, "out of memory");
	for (i = 0; !code && i < n; i++) {
		is_trace[i] = import__is_trace(inputs[i].path);
		if (is_trace[i])
			continue;
		if (inputs[i].at != CLIKA_AT_TRACE)
			return error__set(err, -EINVAL,
					  "%s is a recording: it says itself when it was made",
					  inputs[i].path);
		code = input__open(&m->in[m->n++], inputs[i].path, err);
	}
	if (!code && !m->n)
		code = error__set(err, -EINVAL,
				  "there is no recording: traces of other tools are laid beside "
				  "one, to get its clock");
	return code;
}

/* --- the result ------------------------------------------------------------------------------- */

/* Different texts of the inputs, once each. */
static void join(struct buf *b, const struct merge *m, char *(*get)(const struct recording_meta *))
{
	const char *text, *before;
	size_t i, k;

	for (i = 0; i < m->n; i++) {
		text = get(recording__meta(m->in[i].r));
		for (k = 0; text && k < i; k++) {
			before = get(recording__meta(m->in[k].r));
			if (before && !strcmp(before, text))
				text = NULL;
		}
		if (text && *text && b->len + strlen(text) < 4000)
			buf__printf(b, "%s%s", b->len ? ", " : "", text);
	}
	buf__u8(b, 0);
}

static char *get_host(const struct recording_meta *meta)
{
	return meta->host;
}

static char *get_targets(const struct recording_meta *meta)
{
	return meta->targets;
}

static const struct recording_meta *base_meta(const struct merge *m)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		if (m->in[i].boot == m->base)
			return recording__meta(m->in[i].r);
	return recording__meta(m->in[0].r);
}

static int create(struct merge *m, struct newfile *f, struct clika_error *err)
{
	struct buf hosts = { 0 }, targets = { 0 };
	struct recording_meta meta = *base_meta(m);
	const struct writer_opts o = { .owner = (uid_t)-1, .group = (gid_t)-1 };
	size_t i;
	int fd, code;

	join(&hosts, m, get_host);
	join(&targets, m, get_targets);
	if (buf__error(&hosts) || buf__error(&targets)) {
		code = error__set(err, -ENOMEM, "out of memory");
		goto out;
	}
	meta.tool = (char[]){ "clika-bpf-prof" };
	meta.version = (char[]){ CLIKA_PROF_VERSION };
	meta.command = (char *)(uintptr_t)m->o.command;
	meta.host = (char *)hosts.data;
	meta.targets = (char *)targets.data;
	for (i = 0; i < m->n; i++)
		if (recording__meta(m->in[i].r)->created_realtime < meta.created_realtime)
			meta.created_realtime = recording__meta(m->in[i].r)->created_realtime;
	fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	code = fd < 0 ? error__set(err, -errno, "cannot write: %s", strerror(errno))
		      : writer__create_fd(fd, &meta, m->names, &o, &m->w, err);
out:
	buf__free(&hosts);
	buf__free(&targets);
	return code;
}

static int fill(struct merge *m, const struct clika_merge_input *inputs, size_t n,
		const bool *is_trace, struct clika_error *err)
{
	int code = label_inputs(m);
	size_t i;

	if (!code)
		code = merge__people(m, err);
	if (!code)
		code = merge__account(m);
	if (!code)
		code = merge__copy(m, err);
	for (i = 0; !code && i < n; i++)
		if (is_trace[i])
			code = import__trace(m, &inputs[i], err);
	if (code && !(err->code))
		error__set(err, code, "cannot merge: %s", strerror(-code));
	return code;
}

static int write_file(struct merge *m, const struct clika_merge_input *inputs, size_t n,
		      const char *path, const bool *is_trace, struct clika_error *err)
{
	struct newfile f;
	int code = newfile__create(&f, path, m->o.owner, m->o.group, err);

	if (code)
		return code;
	code = create(m, &f, err);
	if (!code) {
		code = fill(m, inputs, n, is_trace, err);
		m->result.events = writer__events(m->w);
		if (!code)
			code = writer__finish(m->w, err);
		else
			writer__abort(m->w);
		m->w = NULL;
	}
	if (!code) {
		struct stat st;

		m->result.bytes = fstat(f.fd, &st) ? 0 : (uint64_t)st.st_size;
		code = newfile__publish(&f);
		if (code)
			error__set(err, code, "cannot write %s: %s", path, strerror(-code));
	}
	newfile__close(&f);
	return code;
}

/* The name is taken by a rename, so this would work; but who wants it has mistyped. */
static int check_path(const struct clika_merge_input *inputs, size_t n, const char *path,
		      struct clika_error *err)
{
	struct stat out, in;
	size_t i;

	if (!n)
		return error__set(err, -EINVAL, "there is nothing to merge");
	for (i = 0; !stat(path, &out) && i < n; i++)
		if (!stat(inputs[i].path, &in) && in.st_dev == out.st_dev &&
		    in.st_ino == out.st_ino)
			return error__set(err, -EINVAL, "%s is one of the files to be merged",
					  path);
	return 0;
}

static void merge__free(struct merge *m)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		input__close(&m->in[i]);
	free(m->in);
	free(m->boots);
	free(m->processes);
	free(m->threads);
	map64__free(m->process_at);
	map64__free(m->thread_at);
	strpool__free(m->names);
}

void clika_merge_opts__init(struct clika_merge_opts *o)
{
	*o = (struct clika_merge_opts){ .sz = sizeof(*o), .owner = (uid_t)-1, .group = (gid_t)-1 };
}

int clika_merge(const struct clika_merge_input *inputs, size_t n, const char *path,
		const struct clika_merge_opts *given, struct clika_merge_result *result,
		struct clika_prof_error *error)
{
	bool *is_trace = calloc(n + 1, sizeof(*is_trace));
	struct clika_error err = { 0 };
	struct merge m = { 0 };
	int code;

	clika_merge_opts__init(&m.o);
	if (given)
		TAKE_OPTS(&m.o, given);
	m.names = strpool__new(0, 0);
	if (!is_trace || !m.names) {
		code = error__set(&err, -ENOMEM, "out of memory");
		goto out;
	}
	code = check_path(inputs, n, path, &err);
	if (!code)
		code = open_inputs(&m, inputs, n, is_trace, &err);
	if (!code)
		code = merge__align(&m, &err);
	if (!code)
		code = write_file(&m, inputs, n, path, is_trace, &err);
	if (!code && result) {
		m.result.recordings = (uint32_t)m.n;
		m.result.processes = (uint32_t)m.n_processes + m.result.traces;
		m.result.threads += (uint32_t)m.n_threads;
		m.result.duration_ns = m.end > m.begin ? m.end - m.begin : 0;
		m.result.sz = result->sz < sizeof(m.result) ? result->sz : sizeof(m.result);
		memcpy(result, &m.result, m.result.sz);
	}
out:
	merge__free(&m);
	free(is_trace);
	return error__give(error, &err, code);
}
