// SPDX-License-Identifier: Apache-2.0
/* Which processes carry markers, and which. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <clika/prof.h>

#include "user/base/base.h"
#include "user/probe/elf_file.h"
#include "user/probe/proc.h"

#define MAX_NAMES 100000u

/* What one file carries; kept, since every process maps the same C library. */
struct file {
	bool carries;
	bool batched;
	char build_id[sizeof(((struct elf_ident *)0)->build_id)];
	uint32_t n_markers;
	char **names;
	size_t n_names, cap_names;
};

struct listing {
	bool all_providers;
	int (*fn)(void *ctx, const struct clika_marked_process *p);
	void *ctx;
	struct clika_prof_error *err;

	struct map64 *index; /* hash of (device, inode) -> file + 1 */
	struct file **files;
	size_t n_files, cap_files;
	int skipped;

	/* the process at hand */
	pid_t pid;
	struct clika_marked_object *objects;
	size_t n_objects, cap_objects;
	struct map64 *seen;
};

static int fail(struct listing *l, int code, const char *what)
{
	if (l->err) {
		struct clika_error e;

		error__set(&e, code, "%s", what);
		l->err->code = code;
		memcpy(l->err->msg, e.msg, sizeof(l->err->msg));
	}
	return code;
}

/* --- one file ------------------------------------------------------------------------------- */

struct reading {
	struct file *file;
	bool all_providers;
};

static int add_marker(void *ctx, const struct usdt_site *s)
{
	struct reading *r = ctx;
	struct file *f = r->file;
	struct buf b = { 0 };

	if (!r->all_providers && strcmp(s->provider, "clika") != 0)
		return 0;
	f->n_markers++;
	if (f->n_names == MAX_NAMES)
		return 0;
	if (f->n_names == f->cap_names) {
		size_t cap = f->cap_names ? f->cap_names * 2 : 16;
		void *p = reallocarray(f->names, cap, sizeof(*f->names));

		if (!p)
			return -ENOMEM;
		f->names = p;
		f->cap_names = cap;
	}
	buf__printf(&b, "%s:%s", s->provider, s->name);
	if (buf__error(&b)) {
		buf__free(&b);
		return -ENOMEM;
	}
	f->names[f->n_names++] = (char *)b.data;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_names(struct file *f)
{
	size_t i, n = 0;

	if (f->n_names)
		qsort(f->names, f->n_names, sizeof(*f->names), by_name);
	for (i = 0; i < f->n_names; i++) {
		if (n && strcmp(f->names[i], f->names[n - 1]) == 0)
			free(f->names[i]);
		else
			f->names[n++] = f->names[i];
	}
	f->n_names = n;
}

static void file__free(struct file *f)
{
	size_t i;

	for (i = 0; i < f->n_names; i++)
		free(f->names[i]);
	free(f->names);
	free(f);
}

/* What is no proper ELF file carries nothing: a listing is no place to argue with a file. */
static int read_file(const struct listing *l, const struct proc_map *m, int fd, struct file *f)
{
	struct reading r = { f, l->all_providers };
	struct clika_note note;
	struct elf_file *elf;
	int rc;

	if (elf_file__open(fd, m->path, &elf, NULL))
		return 0;
	memcpy(f->build_id, elf_file__ident(elf)->build_id, sizeof(f->build_id));
	f->batched = elf_file__clika(elf, &note, NULL) == 1;
	rc = elf_file__usdts(elf, add_marker, &r, NULL);
	elf_file__close(elf);
	sort_names(f);
	f->carries = f->batched || f->n_markers;
	return rc == -ENOMEM ? rc : 0;
}

static struct file *new_file(struct listing *l)
{
	struct file *f;

	if (l->n_files == l->cap_files) {
		size_t cap = l->cap_files ? l->cap_files * 2 : 64;
		void *p = reallocarray(l->files, cap, sizeof(*l->files));

		if (!p)
			return NULL;
		l->files = p;
		l->cap_files = cap;
	}
	f = calloc(1, sizeof(*f));
	if (f)
		l->files[l->n_files++] = f;
	return f;
}

static int find_file(struct listing *l, const struct proc_map *m, uint64_t key,
		     const struct file **out)
{
	uint64_t *at = map64__get(l->index, key);
	__cleanup_close int fd = -1;
	struct file *f;

	*out = NULL;
	if (at) {
		*out = l->files[*at];
		return 0;
	}
	/* Not kept when it fails: the next process may be one that may be looked into. */
	fd = proc__open_mapped(l->pid, m, NULL);
	if (fd < 0)
		return 0;
	f = new_file(l);
	if (!f || !map64__put(l->index, key, l->n_files - 1))
		return -ENOMEM;
	*out = f;
	return read_file(l, m, fd, f);
}

/* --- one process ------------------------------------------------------------------------------ */

static int add_object(struct listing *l, const struct proc_map *m, const struct file *f)
{
	struct clika_marked_object *o;

	if (l->n_objects == l->cap_objects) {
		size_t cap = l->cap_objects ? l->cap_objects * 2 : 16;
		void *p = reallocarray(l->objects, cap, sizeof(*l->objects));

		if (!p)
			return -ENOMEM;
		l->objects = p;
		l->cap_objects = cap;
	}
	o = &l->objects[l->n_objects];
	memset(o, 0, sizeof(*o));
	o->path = strdup(m->path);
	if (!o->path)
		return -ENOMEM;
	l->n_objects++;
	o->deleted = m->deleted;
	o->build_id = f->build_id;
	o->batched = f->batched;
	o->n_markers = f->n_markers;
	o->markers = (const char *const *)f->names;
	o->n_marker_names = f->n_names;
	return 0;
}

static int on_map(void *ctx, const struct proc_map *m)
{
	struct listing *l = ctx;
	const struct file *f;
	uint64_t key;
	int rc;

	if (!m->exec || !m->inode || m->path[0] != '/')
		return 0;
	key = hash__mix((uint64_t)m->dev_major << 32 | m->dev_minor, m->inode);
	if (map64__get(l->seen, key))
		return 0;
	if (!map64__put(l->seen, key, 1))
		return -ENOMEM;
	rc = find_file(l, m, key, &f);
	return rc || !f || !f->carries ? rc : add_object(l, m, f);
}

static int report(struct listing *l)
{
	struct clika_marked_process p = { .pid = l->pid };
	struct proc_details d;
	int rc;

	if (proc__details(l->pid, &d)) /* gone meanwhile */
		return 0;
	p.uid = d.uid;
	p.comm = d.comm ? d.comm : "";
	p.exe = d.exe ? d.exe : "";
	p.cgroup = d.cgroup ? d.cgroup : "";
	p.container = d.container ? d.container : "";
	p.objects = l->objects;
	p.n_objects = l->n_objects;
	rc = l->fn(l->ctx, &p);
	proc_details__free(&d);
	return rc;
}

static int on_process(void *ctx, pid_t pid)
{
	struct listing *l = ctx;
	size_t i;
	int rc;

	l->pid = pid;
	l->n_objects = 0;
	map64__clear(l->seen);
	rc = proc__maps(pid, on_map, l);
	if (rc == -EACCES || rc == -EPERM)
		l->skipped++;
	if (rc != -ENOMEM)
		rc = l->n_objects ? report(l) : 0;
	for (i = 0; i < l->n_objects; i++)
		free((char *)l->objects[i].path);
	return rc;
}

static int one_process(struct listing *l, pid_t pid)
{
	char line[96];
	int rc;

	if (kill(pid, 0) < 0 && errno == ESRCH) {
		snprintf(line, sizeof(line), "there is no process %d", (int)pid);
		return fail(l, -ESRCH, line);
	}
	rc = on_process(l, pid);
	if (!rc && l->skipped) {
		snprintf(line, sizeof(line), "process %d may not be looked into%s", (int)pid,
			 geteuid() ? ": try sudo" : "");
		return fail(l, -EPERM, line);
	}
	return rc;
}

int clika_list(pid_t pid, bool all_providers,
	       int (*fn)(void *ctx, const struct clika_marked_process *p), void *ctx,
	       struct clika_prof_error *err)
{
	struct listing l = {
		.all_providers = all_providers,
		.fn = fn,
		.ctx = ctx,
		.err = err,
		.index = map64__new(),
		.seen = map64__new(),
	};
	size_t i;
	int rc = l.index && l.seen ? 0 : -ENOMEM;

	if (err)
		err->code = 0;
	if (!rc)
		rc = pid ? one_process(&l, pid) : proc__each(on_process, &l);
	if (rc == -ENOMEM)
		fail(&l, rc, "out of memory");
	for (i = 0; i < l.n_files; i++)
		file__free(l.files[i]);
	free(l.files);
	free(l.objects);
	map64__free(l.index);
	map64__free(l.seen);
	return rc ? rc : l.skipped;
}
