// SPDX-License-Identifier: Apache-2.0
/* What a recipe finds in a file: the first thing to look at when a runtime shows nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/layout.h"
#include "user/prof/recipe_view.h"

struct count {
	uint32_t functions;
	uint32_t
		jumps; /* of them, that end in a jump only, where the rule asks for what they return */
};

struct counting {
	const struct recipe *r;
	struct elf_file *f;
	struct count **counts; /* by rule and pattern */
	uint32_t functions;
};

static bool asks_for_result(const struct recipe_function *fn)
{
	unsigned i;

	for (i = 0; i < fn->n_args; i++)
		if (fn->args[i].source == RECIPE_RETURN)
			return true;
	return false;
}

/* A call that ends by a jump into another function has not returned yet: its result is that one's. */
static bool only_jumps_away(struct elf_file *f, const struct elf_func *fu)
{
	struct func_sites sites;
	uint32_t i;

	/* One that is nothing but the jump is refused, with its exit known. */
	if (func_sites__find(f, fu, &sites, NULL) && sites.n_exits != 1)
		return false;
	for (i = 0; i < sites.n_exits; i++)
		if (!sites.tail_exit[i])
			return false;
	return sites.n_exits > 0;
}

static int on_pick(void *ctx, const struct recipe_pick *p)
{
	struct counting *c = ctx;
	struct count *n = &c->counts[p->rule - c->r->functions][p->match];

	n->functions++;
	n->jumps += asks_for_result(p->rule) && only_jumps_away(c->f, p->func);
	c->functions++;
	return 0;
}

static void counts__free(struct counting *c)
{
	size_t i;

	for (i = 0; c->counts && i < c->r->n_functions; i++)
		free(c->counts[i]);
	free(c->counts);
}

static int counts__new(struct counting *c)
{
	size_t i;

	c->counts = calloc(c->r->n_functions, sizeof(*c->counts));
	if (!c->counts)
		return -ENOMEM;
	for (i = 0; i < c->r->n_functions; i++) {
		c->counts[i] = calloc(c->r->functions[i].n_match, sizeof(**c->counts));
		if (!c->counts[i])
			return -ENOMEM;
	}
	return 0;
}

static void patterns(struct buf *out, const struct counting *c, uint64_t libraries,
		     unsigned columns, struct clika_recipe_check *result)
{
	struct buf text = { 0 };
	char count[16];
	size_t i, k;

	buf__printf(out, "  functions  pattern\n");
	for (i = 0; i < c->r->n_functions; i++) {
		const struct recipe_function *fn = &c->r->functions[i];

		for (k = 0; (fn->libraries & libraries) && k < fn->n_match; k++) {
			const struct count *n = &c->counts[i][k];

			result->silent += !n->functions;
			snprintf(count, sizeof(count), "%9u", n->functions);
			buf__reset(&text);
			buf__printf(&text, "%s", fn->match[k]);
			if (fn->table >= 0)
				buf__printf(&text, ", table %s", c->r->tables[fn->table].name);
			if (fn->off)
				buf__printf(&text, " (off)");
			if (!n->functions)
				buf__printf(&text, "  <-- none");
			if (n->jumps)
				buf__printf(&text,
					    "  <-- %u end in a jump to another function: what they "
					    "return is not seen",
					    n->jumps);
			buf__u8(&text, 0);
			if (!buf__error(&text))
				recipe_view__line(out, 2, 13, count, (const char *)text.data,
						  columns);
		}
	}
	buf__free(&text);
}

/* By each of its ways alone: when they differ, one of them is wrong. */
static void layout(struct buf *out, const struct recipe_layout *l, struct elf_file *f)
{
	struct recipe_layout code = *l, debug = *l, rows = *l;
	const struct {
		const struct recipe_layout *l;
		const char *by;
		bool has;
	} ways[] = {
		{ &code, "its code", l->accessor },
		{ &debug, "debug information", l->debug_type },
		{ &rows, "the list of versions", l->n_rows },
	};
	struct clika_error err = { 0 };
	bool found = false, differ = false;
	int64_t value, first = 0;
	size_t i;
	int rc;

	code.debug_type = debug.accessor = rows.accessor = rows.debug_type = NULL;
	code.n_rows = debug.n_rows = 0;
	buf__printf(out, "  number     %s: ", l->name);
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		rc = ways[i].has ? layout__find(ways[i].l, f, &value, &err) : 0;
		if (rc != 1)
			continue;
		if (found)
			differ |= value != first;
		else
			first = value;
		buf__printf(out, "%s%lld by %s", found ? ", " : "", (long long)value, ways[i].by);
		found = true;
	}
	if (!found) {
		buf__printf(out, "not found");
		if (layout__find(l, f, &value, &err) < 0) {
			buf__printf(out, ": ");
			text__append_printable(out, err.msg, strlen(err.msg));
		}
	}
	buf__printf(out, "%s\n", differ ? "  <-- they differ" : "");
}

static void tables(struct buf *out, const struct recipe *r, uint64_t libraries, struct elf_file *f)
{
	struct clika_error err = { 0 };
	size_t i, k, n, there;
	uint64_t at, *slots;
	int rc;

	for (i = 0; i < r->n_tables; i++) {
		const struct recipe_table *t = &r->tables[i];

		if (!(t->libraries & libraries) || t->derived_from)
			continue;
		rc = pointer_table__find(t, f, &at, &slots, &n, &err);
		if (rc <= 0) {
			buf__printf(out, "  table      %s: not found%s", t->name,
				    rc < 0 ? ": " : "");
			text__append_printable(out, err.msg, rc < 0 ? strlen(err.msg) : 0);
			buf__u8(out, '\n');
			continue;
		}
		for (k = 0, there = 0; k < n; k++)
			there += slots[k] != 0;
		buf__printf(out, "  table      %s: at 0x%llx, %zu entries, %zu of them functions\n",
			    t->name, (unsigned long long)at, n, there);
		free(slots);
	}
}

static void skipped(struct buf *out, const struct func_skips *s)
{
	if (!(s->ifunc | s->no_size | s->not_code | s->cold))
		return;
	buf__printf(
		out,
		"  left out   %u chosen at load time (IFUNC), %u without a size, %u that are no "
		"code, %u cold parts\n",
		s->ifunc, s->no_size, s->not_code, s->cold);
}

int recipe_view__check(struct buf *out, const struct recipe *r, struct elf_file *f,
		       const char *path, unsigned columns, struct clika_recipe_check *result,
		       struct clika_error *err)
{
	uint64_t libraries = recipe__library_of(r, f, path);
	struct counting c = { .r = r, .f = f };
	struct func_skips skips;
	size_t i, n = 0;
	int rc;

	if (!libraries)
		return 0;
	result->recipes++;
	buf__printf(out, "%s, as ", r->name);
	for (i = 0; i < r->n_libraries; i++)
		if (libraries >> i & 1)
			buf__printf(out, "%s%s", n++ ? ", " : "", r->libraries[i].id);
	buf__printf(out, "%s\n", r->automatic ? "" : " (applies only when it is named)");
	rc = counts__new(&c);
	if (rc)
		error__set(err, rc, "out of memory");
	else
		rc = recipe__pick(r, libraries, f, NULL, on_pick, &c, NULL, &skips, err);
	if (rc == -ENODATA) { /* stripped: that is what there is to say */
		buf__printf(out, "  %s\n", err->msg);
		rc = 0;
	} else if (!rc) {
		patterns(out, &c, libraries, columns, result);
		skipped(out, &skips);
	}
	for (i = 0; i < r->n_layouts && !rc; i++)
		if (r->layouts[i].libraries & libraries)
			layout(out, &r->layouts[i], f);
	if (!rc)
		tables(out, r, libraries, f);
	result->functions += c.functions;
	counts__free(&c);
	return rc;
}
