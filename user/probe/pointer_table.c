// SPDX-License-Identifier: Apache-2.0
/* Tables of function pointers: in the file by what the loader fills in, in a process by its memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/follow.h"
#include "user/probe/layout.h"
#include "user/probe/proc.h"

#define MAX_SLOTS 65536u
#define READ_TIMEOUT_MS 1000

static bool is_code(const struct elf_file *f, uint64_t vaddr)
{
	const struct elf_load *l = elf_file__load_at(f, vaddr);

	return l && (l->flags & PF_X) && vaddr - l->vaddr < l->filesz;
}

static bool is_border(const struct elf_relocs *r, uint64_t at)
{
	size_t i;

	for (i = 0; i < r->n_borders; i++)
		if (r->borders[i] == at)
			return true;
	return false;
}

/* Slots from the @i-th relocation to @end that lie one behind the other, up to the last that holds a
 * function. @only_code: the first one that does not ends it. */
static size_t run_length(const struct elf_file *f, const struct elf_relocs *r, size_t i,
			 uint64_t end, bool only_code)
{
	size_t n, used = 0;

	for (n = 0; i + n < r->n && n < MAX_SLOTS; n++) {
		if (r->all[i + n].at >= end || r->all[i + n].at - r->all[i].at != 8 * (uint64_t)n ||
		    (n && is_border(r, r->all[i + n].at)))
			break;
		if (is_code(f, r->all[i + n].to))
			used = n + 1;
		else if (only_code)
			break;
	}
	return used;
}

static size_t longest_run(const struct elf_file *f, const struct elf_relocs *r, size_t *first)
{
	size_t i = 0, n, best = 0;

	while (i < r->n) {
		n = run_length(f, r, i, UINT64_MAX, true);
		if (n > best) {
			best = n;
			*first = i;
		}
		i += n ? n : 1;
	}
	return best;
}

/* --- by the functions that hand it out ----------------------------------------------------------- */

struct getter {
	const struct recipe_table *t;
	struct elf_file *f;
	const struct elf_relocs *r;
	struct clika_error *err;
	bool seen;
	size_t first, n; /* of the table */
	int rc;
};

/* Another table may lie right behind one. */
static uint64_t next_start(const struct followed *got, uint64_t at)
{
	uint64_t end = UINT64_MAX;
	unsigned i;

	for (i = 0; i < got->n_returns; i++)
		if (got->returns[i].kind == VALUE_NUMBER && (uint64_t)got->returns[i].n > at &&
		    (uint64_t)got->returns[i].n < end)
			end = (uint64_t)got->returns[i].n;
	return end;
}

/* Of the addresses that the function returns the one at which most pointers lie. */
static void find_table(struct getter *g, const struct followed *got)
{
	unsigned i;

	for (i = 0; i < got->n_returns; i++) {
		uint64_t at = (uint64_t)got->returns[i].n;
		size_t first = elf_relocs__from(g->r, at), n;

		if (got->returns[i].kind != VALUE_NUMBER || first == g->r->n ||
		    g->r->all[first].at != at)
			continue;
		n = run_length(g->f, g->r, first, next_start(got, at), false);
		if (n > g->n) {
			g->n = n;
			g->first = first;
		}
	}
}

/* @got: what the exported function returns, the addresses of structures. */
static int ask_first_words(struct getter *g, const struct followed *got)
{
	struct followed next;
	uint64_t start, size, to;
	unsigned i;
	int rc = 0;

	for (i = 0; i < got->n_returns && !rc; i++) {
		if (got->returns[i].kind != VALUE_NUMBER ||
		    !elf_relocs__at(g->r, (uint64_t)got->returns[i].n, &to) || !is_code(g->f, to))
			continue;
		if (!elf_file__fde_at(g->f, to, &start, &size) || start != to)
			size = 0;
		rc = follow__function(g->f, g->r, to, size, &next, g->err);
		if (!rc)
			find_table(g, &next);
	}
	return rc;
}

static int ask_getter(void *ctx, const struct elf_func *fu)
{
	struct getter *g = ctx;
	struct followed got;

	g->seen = true;
	g->rc = follow__function(g->f, g->r, fu->vaddr, fu->size, &got, g->err);
	if (!g->rc)
		g->rc = ask_first_words(g, &got);
	if (!g->rc && !g->n)
		g->rc = error__set(
			g->err, -ENOTSUP,
			"%s: function %s does not lead to the table %s as far as its code is "
			"understood",
			g->f->name, fu->symbol, g->t->name);
	return 1;
}

static int by_getter(const struct recipe_table *t, struct elf_file *f, const struct elf_relocs *r,
		     size_t *first, size_t *n, struct clika_error *err)
{
	struct getter g = { .t = t, .f = f, .r = r, .err = err };
	struct clika_error unused;
	int rc = elf_file__functions(f, t->getter, ask_getter, &g, NULL, &unused);

	if (rc == -ENOMEM)
		return error__set(err, rc, "%s: out of memory", f->name);
	*first = g.first;
	*n = g.n;
	return g.seen ? g.rc : 0;
}

int pointer_table__find(const struct recipe_table *t, struct elf_file *f, uint64_t *table_vaddr,
			uint64_t **slots, size_t *n, struct clika_error *err)
{
	struct elf_relocs r;
	size_t first = 0, i;
	int rc;

	*slots = NULL;
	*n = 0;
	if (t->derived_from)
		return 0; /* classes have many tables, which vtables.h finds */
	rc = elf_relocs__read(f, &r, err);
	if (rc)
		return rc;
	if (t->getter)
		rc = by_getter(t, f, &r, &first, n, err);
	else
		*n = longest_run(f, &r, &first);
	if (!rc && *n && *n >= t->at_least) {
		*slots = calloc(*n, sizeof(**slots));
		rc = *slots ? 1 : error__set(err, -ENOMEM, "%s: out of memory", f->name);
	}
	for (i = 0; *slots && i < *n; i++)
		if (is_code(f, r.all[first + i].to))
			(*slots)[i] = r.all[first + i].to;
	if (rc == 1)
		*table_vaddr = r.all[first].at;
	else
		*n = 0;
	elf_relocs__free(&r);
	return rc;
}

int pointer_table__confirm(pid_t pid, uint64_t at, uint64_t bias, const uint64_t *slots, size_t n)
{
	__cleanup_free uint64_t *there = NULL;
	bool any = false;
	ssize_t got;
	size_t i;

	if (!n || n > MAX_SLOTS)
		return 0;
	there = malloc(n * sizeof(*there));
	if (!there)
		return -ENOMEM;
	got = proc__read_memory(pid, at, there, n * sizeof(*there), READ_TIMEOUT_MS);
	if (got < 0)
		return (int)got;
	if ((size_t)got != n * sizeof(*there))
		return -EFAULT;
	for (i = 0; i < n; i++) {
		if (!slots[i])
			continue;
		if (there[i] != bias + slots[i])
			return 0;
		any = true;
	}
	return any;
}
