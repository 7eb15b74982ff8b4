// SPDX-License-Identifier: Apache-2.0
/* Recipes against a file: which of their libraries it is, and the functions that their rules name. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/demangle.h"
#include "user/probe/glob_set.h"
#include "user/probe/layout.h"
#include "user/probe/patterns.h"
#include "user/probe/recipe.h"
#include "user/probe/vtables.h"

#define MAX_STARS 9u
#define MAX_PICKED (1u << 20)
#define MAX_PICKED_TEXT (256u << 20)

/* --- libraries -------------------------------------------------------------------------------------- */

static bool any_glob(char *const *globs, size_t n, const char *text)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (text__glob(globs[i], text))
			return true;
	return false;
}

/* What costs least comes first: most files of a machine are no library of any recipe. */
static bool is_library(const struct recipe_library *l, struct elf_file *f, const char *path)
{
	const char *soname, *build_id = elf_file__ident(f)->build_id;
	bool fits = !l->n_files;
	size_t i;

	for (i = 0; i < l->n_files && !fits; i++)
		fits = pattern__lib_matches(l->files[i], path);
	if (!fits)
		return false;
	for (i = 0; i < l->n_build_ids && strcmp(l->build_ids[i], build_id) != 0; i++)
		;
	if (l->n_build_ids && i == l->n_build_ids)
		return false;
	if (l->n_sonames) {
		soname = elf_file__soname(f);
		if (!soname || !any_glob(l->sonames, l->n_sonames, soname))
			return false;
	}
	for (i = 0; i < l->n_exports; i++)
		if (!elf_file__exports(f, l->exports[i]))
			return false;
	return true;
}

uint64_t recipe__library_of(const struct recipe *r, struct elf_file *f, const char *path)
{
	uint64_t bits = 0;
	size_t i;

	for (i = 0; i < r->n_libraries; i++)
		if (is_library(&r->libraries[i], f, path))
			bits |= 1ull << i;
	return bits;
}

/* --- which rule a name falls under ---------------------------------------------------------------------- */

/* One glob of one rule. */
struct choice {
	uint32_t rule, match;
};

/* In the order of the recipe; lists have fewer than 65,536 entries. */
static int64_t rank_of(size_t rule, size_t match)
{
	return (int64_t)(rule << 16 | match);
}

struct picked {
	uint64_t vaddr, offset, size;
	int64_t rank;
	size_t symbol, demangled; /* in texts; 0 = none */
};

struct picking {
	const struct recipe *r;
	uint64_t libraries;
	struct choice *choices;
	const char **globs;
	size_t n_choices;
	struct glob_set *set;
	uint32_t *candidates;

	struct vtables *vtables; /* read when the first rule asks */
	struct picked *picked;
	size_t n, cap;
	struct buf texts;
	int failed; /* to add one */
};

/* A name in all forms that globs are tried on; those of C++ are made when first asked for. */
struct forms {
	const char *symbol;
	bool code, tried;
	char **text; /* demangled, the caller's */
	struct demangled d;
};

static int forms__demangle(struct forms *f)
{
	if (f->tried || !f->code)
		return 0;
	f->tried = true;
	if (!*f->text)
		*f->text = demangle__name(f->symbol);
	return *f->text ? demangled__make(*f->text, &f->d) : 0;
}

/* 1, 0 or -ENOMEM */
static int forms__match(struct forms *f, const char *glob)
{
	unsigned i;

	if (text__glob(glob, f->symbol))
		return 1;
	if (forms__demangle(f))
		return -ENOMEM;
	for (i = 0; i < f->d.n; i++)
		if (text__glob(glob, f->d.forms[i]))
			return 1;
	return 0;
}

static int forms__match_any(struct forms *f, char *const *globs, size_t n)
{
	size_t i;
	int rc = 0;

	for (i = 0; i < n && !rc; i++)
		rc = forms__match(f, globs[i]);
	return rc;
}

/* What else the rule says of names that fit one of its globs. */
static int forms__wanted(struct forms *f, const struct recipe_function *fn)
{
	int rc = forms__match_any(f, fn->except, fn->n_except);

	if (rc)
		return rc < 0 ? rc : 0;
	return fn->n_only ? forms__match_any(f, fn->only, fn->n_only) : 1;
}

static bool maybe(void *ctx, const char *symbol)
{
	struct picking *p = ctx;

	return glob_set__any(p->set, symbol);
}

static int64_t choose(struct picking *p, struct forms *f, const uint32_t *list, size_t n)
{
	uint32_t unwanted = UINT32_MAX; /* the rule that does not want this name */
	size_t i;
	int rc;

	for (i = 0; i < n; i++) {
		const struct choice *c = &p->choices[list[i]];
		const struct recipe_function *fn = &p->r->functions[c->rule];

		if (c->rule == unwanted)
			continue;
		rc = forms__match(f, fn->match[c->match]);
		if (rc > 0) {
			rc = forms__wanted(f, fn);
			if (rc > 0)
				return rank_of(c->rule, c->match);
			unwanted = c->rule;
		}
		if (rc < 0)
			return rc;
	}
	return -1;
}

static int64_t rank(void *ctx, const char *symbol, bool code, char **demangled)
{
	struct picking *p = ctx;
	struct forms f = { .symbol = symbol, .code = code, .text = demangled };
	size_t n = glob_set__candidates(p->set, symbol, p->candidates);
	int64_t at = choose(p, &f, p->candidates, n);

	demangled__free(&f.d);
	return at;
}

/* --- functions that were found ------------------------------------------------------------------------ */

static size_t keep_text(struct picking *p, const char *s)
{
	size_t at;

	if (!p->texts.len)
		buf__u8(&p->texts, 0);
	at = p->texts.len;
	buf__append(&p->texts, s, strlen(s) + 1);
	return at;
}

static int add_picked(struct picking *p, const struct elf_func *fu)
{
	struct picked *k;

	if (p->n == MAX_PICKED || p->texts.len > MAX_PICKED_TEXT)
		return -E2BIG;
	if (p->n == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 64;
		void *more = reallocarray(p->picked, cap, sizeof(*p->picked));

		if (!more)
			return -ENOMEM;
		p->picked = more;
		p->cap = cap;
	}
	k = &p->picked[p->n++];
	*k = (struct picked){ fu->vaddr,
			      fu->offset,
			      fu->size,
			      fu->rank,
			      keep_text(p, fu->symbol),
			      fu->demangled ? keep_text(p, fu->demangled) : 0 };
	return buf__error(&p->texts);
}

static int on_function(void *ctx, const struct elf_func *fu)
{
	struct picking *p = ctx;

	return p->failed = add_picked(p, fu);
}

/* The globs of the rules that are about symbols of this file. */
static int list_choices(struct picking *p)
{
	size_t total = 1, i, k;

	for (i = 0; i < p->r->n_functions; i++)
		total += p->r->functions[i].n_match;
	p->choices = calloc(total, sizeof(*p->choices));
	p->globs = calloc(total, sizeof(*p->globs));
	p->candidates = calloc(total, sizeof(*p->candidates));
	if (!p->choices || !p->globs || !p->candidates)
		return -ENOMEM;
	for (i = 0; i < p->r->n_functions; i++) {
		const struct recipe_function *fn = &p->r->functions[i];

		for (k = 0; k < fn->n_match; k++) {
			if (fn->table >= 0 || !(fn->libraries & p->libraries))
				continue;
			p->choices[p->n_choices] = (struct choice){ (uint32_t)i, (uint32_t)k };
			p->globs[p->n_choices++] = fn->match[k];
		}
	}
	p->set = glob_set__new(p->globs, p->n_choices);
	return p->set ? 0 : -ENOMEM;
}

/* --- tables ---------------------------------------------------------------------------------------------- */

static int64_t rank_of_slot(const struct picking *p, int table, const char *name)
{
	size_t i, k;

	for (i = 0; i < p->r->n_functions; i++) {
		const struct recipe_function *fn = &p->r->functions[i];

		if (fn->table != table || !(fn->libraries & p->libraries) ||
		    any_glob(fn->except, fn->n_except, name) ||
		    (fn->n_only && !any_glob(fn->only, fn->n_only, name)))
			continue;
		for (k = 0; k < fn->n_match; k++)
			if (text__glob(fn->match[k], name))
				return rank_of(i, k);
	}
	return -1;
}

/* A slot of a table: a function of no name but the recipe's. */
static int add_slot(struct picking *p, struct elf_file *f, int table, const char *name,
		    uint64_t vaddr, struct func_skips *skips)
{
	struct elf_func fu = { .symbol = name, .vaddr = vaddr };
	uint64_t start;

	fu.rank = vaddr ? rank_of_slot(p, table, name) : -1;
	if (fu.rank < 0)
		return 0;
	if (p->r->tables[table].follow_jumps) {
		uint64_t to = elf_file__jumps_on(f, vaddr);

		fu.vaddr = to ? to : vaddr;
	}
	if (!elf_file__offset(f, fu.vaddr, &fu.offset)) {
		skips->not_code++;
		return 0;
	}
	if (!elf_file__function_at(f, fu.vaddr, &start, &fu.size) || start != fu.vaddr) {
		skips->no_size++;
		return 0;
	}
	return add_picked(p, &fu);
}

static int could_not_add(struct clika_error *err, int rc)
{
	return error__set(err, rc, "%s",
			  rc == -E2BIG ? "it picks more functions than any file can have"
				       : "out of memory");
}

static int pick_slots(struct picking *p, struct elf_file *f, int table, struct func_skips *skips,
		      struct clika_error *err)
{
	const struct recipe_table *t = &p->r->tables[table];
	__cleanup_free uint64_t *slots = NULL;
	uint64_t at;
	size_t n, i;
	int rc = pointer_table__find(t, f, &at, &slots, &n, err);

	if (rc <= 0)
		return rc;
	for (i = 0, rc = 0; i < t->n_slots && !rc; i++)
		if (t->slots[i].index < n)
			rc = add_slot(p, f, table, t->slots[i].name, slots[t->slots[i].index],
				      skips);
	return rc ? could_not_add(err, rc) : 0;
}

struct classes {
	struct picking *p;
	struct elf_file *f;
	int table;
	struct func_skips *skips;
	size_t fewest; /* functions of a table; the base's own has as many */
};

static int count_entries(void *ctx, const struct vtable *v)
{
	struct classes *c = ctx;

	if (v->n_slots < c->fewest)
		c->fewest = v->n_slots;
	return 0;
}

static int pick_class(void *ctx, const struct vtable *v)
{
	const struct classes *c = ctx;
	const struct recipe_table *t = &c->p->r->tables[c->table];
	char name[1024];
	size_t i;
	int rc = 0;

	for (i = 0; i < t->n_slots && !rc; i++) {
		const struct recipe_slot *s = &t->slots[i];

		if (s->index >= v->n_slots ||
		    (size_t)snprintf(name, sizeof(name), "%s::%s", v->class_name, s->name) >=
			    sizeof(name))
			continue;
		rc = add_slot(c->p, c->f, c->table, name, v->slots[s->index], c->skips);
	}
	return rc;
}

static int pick_classes(struct picking *p, struct elf_file *f, int table, struct func_skips *skips,
			struct clika_error *err)
{
	const struct recipe_table *t = &p->r->tables[table];
	struct classes c = { p, f, table, skips, SIZE_MAX };
	int rc = p->vtables ? 0 : vtables__read(f, &p->vtables, err);

	if (!rc)
		rc = vtables__each(p->vtables, t->derived_from, count_entries, &c, err);
	if (rc <= 0 || (t->entries && t->entries != c.fewest) || c.fewest < t->at_least)
		return rc < 0 ? rc : 0;
	rc = vtables__each(p->vtables, t->derived_from, pick_class, &c, err);
	return rc < 0 ? could_not_add(err, rc) : 0;
}

static int pick_tables(struct picking *p, struct elf_file *f, struct func_skips *skips,
		       struct clika_error *err)
{
	size_t i, k;
	int rc = 0;

	for (i = 0; i < p->r->n_tables && !rc; i++) {
		for (k = 0; k < p->r->n_functions; k++)
			if (p->r->functions[k].table == (int)i &&
			    (p->r->functions[k].libraries & p->libraries))
				break;
		if (k < p->r->n_functions && (p->r->tables[i].libraries & p->libraries))
			rc = p->r->tables[i].derived_from ? pick_classes(p, f, (int)i, skips, err)
							  : pick_slots(p, f, (int)i, skips, err);
	}
	return rc;
}

/* --- names ------------------------------------------------------------------------------------------------- */

/* "$n" filled in. */
static void expand(struct buf *to, const char *text, const char *whole,
		   const struct text_part *parts)
{
	for (; *text; text++) {
		if (*text != '$' || !isdigit((unsigned char)text[1])) {
			buf__u8(to, (uint8_t)*text);
		} else if (*++text == '0') {
			buf__append(to, whole, strlen(whole));
		} else {
			const struct text_part *part = &parts[*text - '1'];

			buf__append(to, part->at, part->len);
		}
	}
	buf__u8(to, 0);
}

static int fill_names(const struct recipe_function *fn, const char *glob, const struct elf_func *fu,
		      struct buf *to, struct recipe_pick *pick)
{
	struct text_part parts[MAX_STARS];
	const char *whole = fu->symbol;
	struct demangled d = { 0 };
	size_t at[RECIPE_MAX_NAMES];
	unsigned i;

	if (fu->demangled && demangled__make(fu->demangled, &d))
		return -ENOMEM;
	if (d.forms[0])
		whole = d.forms[0];
	if (!text__glob_parts(glob, fu->symbol, parts, MAX_STARS))
		for (i = 0; i < d.n && !text__glob_parts(glob, d.forms[i], parts, MAX_STARS); i++)
			;
	buf__reset(to);
	for (i = 0; i < fn->n_names; i++) {
		at[i] = to->len;
		expand(to, fn->names[i].text, whole, parts);
	}
	demangled__free(&d);
	if (buf__error(to))
		return -ENOMEM;
	for (i = 0; i < fn->n_names; i++)
		pick->names[i] = (const char *)to->data + at[i];
	return 0;
}

/* Texts of the file, by what they begin with: functions come by address, so that rules which cut differently take
 * turns. */
#define MAX_KNOWN 8u

struct known_texts {
	struct {
		char *begin;
		struct recipe_texts *texts;
	} all[MAX_KNOWN];
	unsigned n;
};

static void known_texts__free(struct known_texts *k)
{
	while (k->n) {
		k->n--;
		recipe_texts__free(k->all[k->n].texts);
		free(k->all[k->n].begin);
	}
}

/* More beginnings than any recipe has: names stay whole. */
static int known_texts__get(struct known_texts *k, struct elf_file *f, const char *text, size_t len,
			    const struct recipe_texts **out, struct clika_error *err)
{
	unsigned i;
	int rc;

	*out = NULL;
	for (i = 0; i < k->n; i++) {
		if (strncmp(k->all[i].begin, text, len) == 0 && !k->all[i].begin[len]) {
			*out = k->all[i].texts;
			return 0;
		}
	}
	if (i == MAX_KNOWN)
		return 0;
	k->all[i].begin = strndup(text, len);
	if (!k->all[i].begin)
		return error__set(err, -ENOMEM, "out of memory");
	rc = recipe_texts__read(f, k->all[i].begin, &k->all[i].texts, err);
	if (rc) {
		free(k->all[i].begin);
		return rc;
	}
	*out = k->all[i].texts;
	k->n++;
	return 0;
}

static int cut_name(struct known_texts *known, struct elf_file *f, const struct recipe_function *fn,
		    struct buf *name, struct clika_error *err)
{
	const char *text = fn->names[0].text;
	const struct recipe_texts *texts;
	size_t len = strcspn(text, "$");
	int rc = known_texts__get(known, f, text, len, &texts, err);

	if (!rc && texts)
		recipe_texts__cut(texts, (char *)name->data + len, fn->cut_at);
	return rc;
}

/* --- all of it ---------------------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
	const struct picked *x = a, *y = b;

	if (x->vaddr != y->vaddr)
		return x->vaddr < y->vaddr ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	/* A function that classes inherit has the name that came first: that of the class nearest to the base. */
	return x->symbol < y->symbol ? -1 : x->symbol > y->symbol;
}

struct giving {
	bool (*on)(void *ctx, const struct recipe_function *fn);
	int (*fn)(void *ctx, const struct recipe_pick *p);
	void *ctx;
	struct recipe_found *found;
};

static int give(struct picking *p, struct elf_file *f, const struct giving *g,
		struct clika_error *err)
{
	struct known_texts known = { 0 };
	const char *texts = p->texts.data ? (const char *)p->texts.data : "";
	struct buf names = { 0 };
	int rc = 0;
	size_t i;

	if (p->n)
		qsort(p->picked, p->n, sizeof(*p->picked), by_address);
	for (i = 0; i < p->n && !rc; i++) {
		const struct picked *k = &p->picked[i];
		size_t rule = (size_t)k->rank >> 16;
		struct elf_func fu = { .symbol = texts + k->symbol,
				       .demangled = k->demangled ? texts + k->demangled : NULL,
				       .vaddr = k->vaddr,
				       .offset = k->offset,
				       .size = k->size,
				       .rank = k->rank };
		struct recipe_pick pick = { .rule = &p->r->functions[rule],
					    .match = (size_t)k->rank & 0xffff,
					    .func = &fu };

		if (i && k->vaddr == p->picked[i - 1].vaddr)
			continue;
		if (g->found)
			g->found[rule].functions++;
		if (g->on && !g->on(g->ctx, pick.rule))
			continue;
		rc = fill_names(pick.rule, pick.rule->match[pick.match], &fu, &names, &pick);
		if (rc)
			error__set(err, rc, "out of memory");
		if (!rc && pick.rule->cut_at)
			rc = cut_name(&known, f, pick.rule, &names, err);
		if (!rc)
			rc = g->fn(g->ctx, &pick);
	}
	known_texts__free(&known);
	buf__free(&names);
	return rc;
}

int recipe__pick(const struct recipe *r, uint64_t libraries, struct elf_file *f,
		 bool (*on)(void *ctx, const struct recipe_function *fn),
		 int (*fn)(void *ctx, const struct recipe_pick *p), void *ctx,
		 struct recipe_found *found, struct func_skips *skips, struct clika_error *err)
{
	struct giving g = { on, fn, ctx, found };
	struct picking p = { .r = r, .libraries = libraries };
	struct func_chooser chooser = { &p, maybe, rank };
	struct func_skips unused;
	int rc, symbols = 0;

	if (!skips)
		skips = &unused;
	memset(skips, 0, sizeof(*skips));
	if (found)
		memset(found, 0, r->n_functions * sizeof(*found));
	rc = list_choices(&p);
	if (rc)
		error__set(err, rc, "out of memory");
	if (!rc && p.n_choices)
		rc = symbols = elf_file__choose_functions(f, &chooser, on_function, &p, skips, err);
	if (rc == -ENODATA)
		rc = 0;
	if (p.failed)
		could_not_add(err, p.failed);
	if (!rc)
		rc = pick_tables(&p, f, skips, err);
	if (!rc && !p.n)
		rc = symbols; /* stripped, and no table either */
	if (!rc)
		rc = give(&p, f, &g, err);
	vtables__free(p.vtables);
	glob_set__free(p.set);
	buf__free(&p.texts);
	free(p.choices);
	free(p.globs);
	free(p.candidates);
	free(p.picked);
	return rc;
}
