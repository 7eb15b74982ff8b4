// SPDX-License-Identifier: Apache-2.0
#include "user/probe/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/probe/files_internal.h"

/* Files remembered at most, attached ones not counted in: beyond that all are looked at anew. */
#define MAX_KNOWN (1u << 20)

int files__new(const struct files_opts *o, struct files **out, struct clika_error *err)
{
	struct files *f = calloc(1, sizeof(*f));
	int ret = -ENOMEM;

	if (!f)
		return error__set(err, ret, "out of memory");
	f->o = *o;
	f->known = map64__new();
	f->dull = map64__new();
	f->fetch_sets = map64__new();
	f->probes = calloc(o->n_probes + 1, sizeof(*f->probes));
	f->usdts = calloc(o->n_usdts + 1, sizeof(*f->usdts));
	if (!f->known || !f->dull || !f->fetch_sets || !f->probes || !f->usdts) {
		error__set(err, ret, "out of memory");
		goto out;
	}
	for (size_t i = 0; i < o->n_probes; i++) {
		ret = probe_pattern__parse(o->probes[i], &f->probes[i], err);
		if (ret)
			goto out;
	}
	for (size_t i = 0; i < o->n_usdts; i++) {
		ret = usdt_pattern__parse(o->usdts[i], &f->usdts[i], err);
		if (ret)
			goto out;
	}
	*out = f;
	return 0;
out:
	files__free(f);
	return ret;
}

void func_probe__free(struct func_probe *fp)
{
	for (unsigned i = 0; fp->names && i < fp->kind->rule->n_names; i++)
		free(fp->names[i]);
	free(fp->names);
	free(fp->name);
}

static void probed_file__free(struct probed_file *p)
{
	if (!p)
		return;
	elf_file__close(p->elf);
	if (p->fd >= 0)
		close(p->fd);
	free(p->func_sites);
	free(p->path);
	free(p);
}

void files__free(struct files *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n_files; i++)
		probed_file__free(f->files[i]);
	free(f->files);
	for (size_t i = 0; i < f->n_hits; i++) {
		free(f->hits[i].provider);
		free(f->hits[i].name);
	}
	free(f->hits);
	for (size_t i = 0; i < f->n_funcs; i++)
		func_probe__free(&f->funcs[i]);
	free(f->funcs);
	for (size_t i = 0; i < f->n_kinds; i++)
		free(f->kinds[i]);
	free(f->kinds);
	map64__free(f->fetch_sets);
	for (size_t i = 0; f->probes && i < f->o.n_probes; i++)
		probe_pattern__free(&f->probes[i]);
	for (size_t i = 0; f->usdts && i < f->o.n_usdts; i++)
		usdt_pattern__free(&f->usdts[i]);
	free(f->probes);
	free(f->usdts);
	map64__free(f->known);
	map64__free(f->dull);
	free(f);
}

static uint64_t stat_key(const struct stat *st)
{
	uint64_t a = hash__mix(((uint64_t)st->st_dev << 32) ^ st->st_dev, st->st_ino);

	return hash__mix(a, hash__mix(st->st_ctim.tv_sec * NSEC_PER_SEC + st->st_ctim.tv_nsec,
				      st->st_size));
}

/*
 * The key above holds the time of the last change, since the number of a file that is gone may be
 * given to another. A file that is attached is held open: its number is its own, and a change of
 * mode, owner or links must not have it attached a second time.
 */
static bool files__attached(const struct files *f, const struct stat *st, uint32_t *number)
{
	for (size_t i = 0; i < f->n_files; i++) {
		const struct stat *had = &f->files[i]->st;

		if (had->st_ino == st->st_ino && had->st_dev == st->st_dev &&
		    had->st_size == st->st_size && had->st_mtim.tv_sec == st->st_mtim.tv_sec &&
		    had->st_mtim.tv_nsec == st->st_mtim.tv_nsec) {
			*number = (uint32_t)i;
			return true;
		}
	}
	return false;
}

static int files__judge(struct files *f, int fd, const struct stat *st, const char *path,
			struct probed_file **out, struct clika_error *err)
{
	struct probed_file *p = calloc(1, sizeof(*p));
	int ret, sites;

	if (!p)
		return error__set(err, -ENOMEM, "out of memory");
	p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	p->path = strdup(path);
	p->number = f->n_files;
	p->st = *st;
	if (p->fd < 0 || !p->path) {
		ret = error__set(err, p->fd < 0 ? -errno : -ENOMEM, "%s: %s", path,
				 strerror(errno));
		goto drop;
	}
	ret = elf_file__open(fd, path, &p->elf, err);
	if (ret)
		goto drop;
	sites = files__attach(f, p, err);
	if (sites < 0) {
		ret = sites;
		goto drop;
	}
	if (sites == 0) {
		probed_file__free(p);
		*out = NULL;
		return 0;
	}
	*out = p;
	return 0;
drop:
	probed_file__free(p);
	return ret;
}

static int files__add(struct files *f, struct probed_file *p)
{
	if (f->n_files == f->cap_files) {
		size_t cap = f->cap_files ? f->cap_files * 2 : 32;
		struct probed_file **more = realloc(f->files, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		f->files = more;
		f->cap_files = cap;
	}
	f->files[f->n_files++] = p;
	return 0;
}

int files__opened(struct files *f, int fd, const char *path, uint32_t *number,
		  struct clika_error *err)
{
	struct probed_file *p = NULL;
	struct stat st;
	uint64_t key, *v;
	int ret;

	*number = UINT32_MAX;
	if (fstat(fd, &st))
		return error__set(err, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return 0;
	key = stat_key(&st);
	v = map64__get(f->known, key);
	if (v) {
		*number = (uint32_t)*v;
		return 0;
	}
	/* A machine that builds and runs programs all day shows ever new ones. */
	if (map64__count(f->known) > MAX_KNOWN)
		map64__clear(f->known);
	if (files__attached(f, &st, number)) {
		map64__put(f->known, key, *number);
		return 0;
	}
	ret = files__judge(f, fd, &st, path, &p, err);
	if (!ret && p) {
		ret = files__add(f, p);
		if (ret) {
			probed_file__free(p);
			return error__set(err, ret, "out of memory");
		}
		*number = p->number;
	}
	/* What failed once is not tried again for every process that maps it. */
	map64__put(f->known, key, *number);
	if (ret != -ENOEXEC)
		return ret;
	/* A script, data mapped as code: nothing to probe, which is no error. */
	if (err)
		memset(err, 0, sizeof(*err));
	return 0;
}

int files__mapped(struct files *f, pid_t pid, const struct proc_map *m, uint32_t *number,
		  struct clika_error *err)
{
	__cleanup_close int fd = -1;
	int ret;

	*number = UINT32_MAX;
	if (!m->path[0] || m->path[0] != '/' || !m->inode)
		return 0;
	fd = proc__open_mapped(pid, m, err);
	if (fd < 0)
		return fd == -ENOENT || fd == -ESRCH ? 1 : fd;
	f->pid = pid;
	ret = files__opened(f, fd, m->path, number, err);
	f->pid = 0;
	return ret;
}

void files__settled(struct files *f, bool settled)
{
	f->settled = settled;
}

static uint64_t event_key(uint32_t maj, uint32_t min, uint64_t ino, uint64_t gen)
{
	return hash__mix(hash__mix((uint64_t)maj << 32 | min, ino), gen);
}

bool files__is_dull(const struct files *f, uint32_t maj, uint32_t min, uint64_t ino, uint64_t gen)
{
	/* Without a generation a number that is used again would pass for the old file. */
	return gen && map64__get(f->dull, event_key(maj, min, ino, gen));
}

void files__set_dull(struct files *f, uint32_t maj, uint32_t min, uint64_t ino, uint64_t gen)
{
	if (!gen)
		return;
	if (map64__count(f->dull) > MAX_KNOWN)
		map64__clear(f->dull);
	map64__put(f->dull, event_key(maj, min, ino, gen), 1);
}

size_t files__count(const struct files *f)
{
	return f->n_files;
}

const struct probed_file *files__get(const struct files *f, uint32_t number)
{
	return number < f->n_files ? f->files[number] : NULL;
}

size_t files__n_sites(const struct files *f)
{
	return f->n_sites;
}

const struct hit_site *files__hit(const struct files *f, uint32_t site)
{
	return site < f->n_hits ? &f->hits[site] : NULL;
}

const struct func_probe *files__func(const struct files *f, uint32_t func)
{
	return func < f->n_funcs ? &f->funcs[func] : NULL;
}

size_t files__n_funcs(const struct files *f)
{
	return f->n_funcs;
}

const char *files__unmatched(const struct files *f, size_t i)
{
	for (size_t k = 0; k < f->o.n_probes; k++)
		if (!f->probes[k].matched && i-- == 0)
			return f->probes[k].text;
	for (size_t k = 0; k < f->o.n_usdts; k++)
		if (!f->usdts[k].matched && i-- == 0)
			return f->usdts[k].text;
	return NULL;
}
