// SPDX-License-Identifier: Apache-2.0
/* Where a member of a runtime's structure lies in the version at hand. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "user/probe/follow.h"
#include "user/probe/layout.h"
#include "user/probe/layout_debug.h"

#define MAX_ACCESSORS 16u
#define MAX_OFFSET (1 << 20) /* of a member that is believed */

struct accessors {
	const struct recipe_layout *l;
	struct elf_file *f;
	struct clika_error *err;
	unsigned seen;
	bool found;
	int64_t value;
	char first[128]; /* the function that told it */
	int rc;
};

/* @what is set to the reason when the code does not tell the number. */
static bool number_of(enum recipe_how how, const struct followed *got, int64_t *n, const char **why)
{
	enum value_kind kind = how == RECIPE_HOW_ADDRESS ? VALUE_ARG : VALUE_LOADED;
	bool found = false;
	unsigned i;

	*why = got->cut;
	if (*why)
		return false;
	if (how == RECIPE_HOW_LOAD) {
		*n = got->lowest_read;
		found = got->reads;
		*why = "it reads nothing through its first argument";
	} else {
		for (i = 0; i < got->n_returns; i++) {
			if (got->returns[i].kind != kind)
				continue;
			if (found && *n != got->returns[i].n) {
				*why = "what it returns lies at different places";
				return false;
			}
			*n = got->returns[i].n;
			found = true;
		}
		*why = kind == VALUE_ARG ? "it returns no address within its first argument"
					 : "it returns nothing read through its first argument";
	}
	if (found && (*n >= MAX_OFFSET || *n <= -MAX_OFFSET)) {
		*why = "the place is too far away to be believed";
		return false;
	}
	return found;
}

static int ask_accessor(void *ctx, const struct elf_func *fu)
{
	struct accessors *a = ctx;
	struct followed got;
	const char *why;
	int64_t n;
	int rc;

	if (a->seen++ == MAX_ACCESSORS)
		return 1;
	rc = follow__function(a->f, NULL, fu->vaddr, fu->size, &got, a->err);
	if (rc) {
		a->rc = rc;
		return 1;
	}
	if (!number_of(a->l->how, &got, &n, &why)) {
		if (!a->rc)
			a->rc = error__set(a->err, -ENOTSUP, "%s: function %s does not tell %s: %s",
					   a->f->name, fu->symbol, a->l->name, why);
		return 0;
	}
	if (a->found && a->value != n) {
		a->found = false;
		a->rc = error__set(a->err, -ENOTSUP, "%s: functions %s and %s tell different %s",
				   a->f->name, a->first, fu->symbol, a->l->name);
		return 1;
	}
	if (!a->found)
		snprintf(a->first, sizeof(a->first), "%s", fu->symbol);
	a->found = true;
	a->value = n;
	return 0;
}

/* All functions that the pattern names must agree, but for those whose code tells nothing. */
static int by_accessor(const struct recipe_layout *l, struct elf_file *f, int64_t *value,
		       struct clika_error *err)
{
	struct accessors a = { .l = l, .f = f, .err = err };
	struct clika_error unused;
	int rc;

	if (!l->accessor)
		return 0;
	rc = elf_file__functions(f, l->accessor, ask_accessor, &a, NULL, &unused);
	if (rc == -ENOMEM)
		return error__set(err, rc, "%s: out of memory", f->name);
	if (!a.found)
		return a.rc;
	*value = (int64_t)((uint64_t)a.value + (uint64_t)l->add);
	return 1;
}

static bool row_fits(const struct recipe_layout_row *row, struct elf_file *f)
{
	if (!row->build_id && !row->exports)
		return false;
	if (row->build_id && strcasecmp(row->build_id, f->ident.build_id) != 0)
		return false;
	return !row->exports || elf_file__exports(f, row->exports);
}

static int by_version(const struct recipe_layout *l, struct elf_file *f, int64_t *value)
{
	size_t i;

	for (i = 0; i < l->n_rows; i++) {
		if (!row_fits(&l->rows[i], f))
			continue;
		*value = l->rows[i].value;
		return 1;
	}
	return 0;
}

int layout__find(const struct recipe_layout *l, struct elf_file *f, int64_t *value,
		 struct clika_error *err)
{
	int told = by_accessor(l, f, value, err), rc = 0;
	struct elf_file *debug;

	if (told == 1 || told == -ENOMEM)
		return told;
	if (l->debug_type && l->debug_member) {
		rc = debug__member(f, l->debug_type, l->debug_member, value);
		debug = rc ? NULL : elf_file__open_debug(f);
		if (debug)
			rc = debug__member(debug, l->debug_type, l->debug_member, value);
		elf_file__close(debug);
	}
	if (!rc)
		rc = by_version(l, f, value);
	return rc == 1 ? 1 : told;
}
