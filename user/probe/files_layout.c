// SPDX-License-Identifier: Apache-2.0
/* What a recipe asks of the machine code and data of a file, and of those that are mapped with it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/probe/files_internal.h"

/* Files of one process that are looked into for the layouts of one recipe. */
#define MAX_LOOKED 4096
#define MAX_LIBRARIES 16 /* of these, that are libraries of the recipe: each is searched */

struct layout_search {
	struct files *f;
	const struct recipe *r;
	struct probed_file *p;
	int64_t *values;
	bool *known;
	bool *told;
	unsigned looked, libraries;
	bool all;
};

static void look_in(struct layout_search *s, uint64_t libraries, struct elf_file *elf,
		    const char *path)
{
	s->all = true;
	for (size_t i = 0; i < s->r->n_layouts; i++) {
		const struct recipe_layout *l = &s->r->layouts[i];
		struct clika_error err = { 0 };

		if (!s->known[i] && (l->libraries & libraries)) {
			int ret = layout__find(l, elf, &s->values[i], &err);

			s->known[i] = ret > 0;
			if (ret < 0 && !s->told[i]) {
				s->told[i] = true;
				files__warn(s->f, "layout",
					    "%s: recipe %s: where %s lies is not known: %s", path,
					    s->r->name, l->name, err.msg);
			}
		}
		s->all = s->all && s->known[i];
	}
}

static int look_at(void *ctx, const struct proc_map *m)
{
	struct layout_search *s = ctx;
	struct elf_file *elf = NULL;
	struct clika_error err;
	uint64_t libraries;
	int fd;

	if (!m->exec || m->path[0] != '/' || !m->inode || ++s->looked > MAX_LOOKED)
		return 0;
	fd = proc__open_mapped(s->f->pid, m, &err);
	if (fd < 0)
		return 0;
	if (!elf_file__open(fd, m->path, &elf, NULL)) {
		libraries = recipe__library_of(s->r, elf, m->path);
		if (libraries) {
			look_in(s, libraries, elf, m->path);
			s->libraries++;
		}
		elf_file__close(elf);
	}
	close(fd);
	return s->all || s->libraries == MAX_LIBRARIES;
}

void files__layouts(struct files *f, const struct recipe *r, uint64_t libraries,
		    struct probed_file *p, int64_t *values, bool *known)
{
	struct layout_search s = { .f = f, .r = r, .p = p, .values = values, .known = known };

	s.told = calloc(r->n_layouts + 1, sizeof(*s.told));
	if (s.told && r->n_layouts) {
		look_in(&s, libraries, p->elf, p->path);
		if (!s.all && f->pid)
			proc__maps(f->pid, look_at, &s);
	}
	free(s.told);
}

struct bias_search {
	const struct probed_file *p;
	uint64_t bias;
	bool found;
};

static int find_bias(void *ctx, const struct proc_map *m)
{
	struct bias_search *s = ctx;
	uint64_t vaddr;

	if (m->inode != s->p->st.st_ino || !elf_file__vaddr(s->p->elf, m->offset, &vaddr))
		return 0;
	s->bias = m->start - vaddr;
	s->found = true;
	return 1;
}

bool files__tables_confirmed(struct files *f, const struct recipe *r, uint64_t libraries,
			     struct probed_file *p)
{
	struct bias_search b = { .p = p };
	bool fine = true;

	if (!f->pid || !f->settled)
		return true;
	for (size_t i = 0; i < r->n_tables && fine; i++) {
		uint64_t at, *slots = NULL;
		size_t n;

		if (!(r->tables[i].libraries & libraries) ||
		    pointer_table__find(&r->tables[i], p->elf, &at, &slots, &n, NULL) <= 0)
			continue;
		if (!b.found)
			proc__maps(f->pid, find_bias, &b);
		if (b.found && !pointer_table__confirm(f->pid, at + b.bias, b.bias, slots, n)) {
			files__warn(f, "table",
				    "%s: recipe %s: the table %s of pid %d does not hold the "
				    "functions that "
				    "the file gives: left out",
				    p->path, r->name, r->tables[i].name, (int)f->pid);
			fine = false;
		}
		free(slots);
	}
	return fine;
}
