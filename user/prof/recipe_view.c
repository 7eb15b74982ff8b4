// SPDX-License-Identifier: Apache-2.0
/* A recipe in words: what it is known by, what it records, what is off and why. */
#include <string.h>

#include "user/prof/recipe_view.h"

#define LABEL_AT 4u
#define TEXT_AT 14u

void recipe_view__line(struct buf *out, unsigned from, unsigned indent, const char *label,
		       const char *text, unsigned columns)
{
	size_t width = columns > indent + 20 ? columns - indent : 20, left = strlen(text), n;
	size_t used = from + strlen(label);
	const char *p = text;

	buf__printf(out, "%*s%s", (int)from, "", label);
	if (*label)
		buf__printf(out, "%*s", used < indent ? (int)(indent - used) : 1, "");
	while (left > width) {
		for (n = width; n && p[n] != ' '; n--)
			;
		if (!n) /* one long word: it stays whole */
			n = strcspn(p, " ");
		text__append_printable(out, p, n);
		p += n;
		p += *p == ' ';
		left = strlen(p);
		if (left)
			buf__printf(out, "\n%*s", (int)indent, "");
	}
	text__append_printable(out, p, left);
	buf__u8(out, '\n');
}

/* Empty texts are left out. */
static void line(struct buf *out, const char *label, struct buf *text, unsigned columns)
{
	buf__u8(text, 0);
	if (!buf__error(text) && text->len > 1)
		recipe_view__line(out, LABEL_AT, TEXT_AT, label, (const char *)text->data, columns);
	buf__reset(text);
}

static void list(struct buf *text, const char *before, char *const *words, size_t n)
{
	size_t i;

	if (n && text->len)
		buf__printf(text, "; ");
	for (i = 0; i < n; i++)
		buf__printf(text, "%s%s", i ? ", " : before, words[i]);
}

static void heading(struct buf *out, const char *text)
{
	buf__printf(out, "\n%s\n", text);
}

static void libraries(struct buf *out, const struct recipe *r, unsigned columns)
{
	struct buf text = { 0 };
	size_t i;

	heading(out, "Libraries");
	for (i = 0; i < r->n_libraries; i++) {
		const struct recipe_library *l = &r->libraries[i];

		list(&text, "file ", l->files, l->n_files);
		list(&text, "soname ", l->sonames, l->n_sonames);
		list(&text, "exports ", l->exports, l->n_exports);
		list(&text, "build id ", l->build_ids, l->n_build_ids);
		line(out, l->id, &text, columns);
	}
	buf__free(&text);
}

static void layouts(struct buf *out, const struct recipe *r, unsigned columns)
{
	struct buf text = { 0 };
	size_t i;

	if (r->n_layouts)
		heading(out, "Numbers that differ between versions");
	for (i = 0; i < r->n_layouts; i++) {
		const struct recipe_layout *l = &r->layouts[i];

		if (l->accessor)
			buf__printf(&text, "from the code of %s (%s)", l->accessor,
				    l->how == RECIPE_HOW_LOAD ? "what it reads"
							      : "what it returns");
		if (l->accessor && l->add)
			buf__printf(&text, " %c %lld", l->add < 0 ? '-' : '+',
				    l->add < 0 ? -(long long)l->add : (long long)l->add);
		if (l->debug_type)
			buf__printf(&text, "%sfrom debug information: %s.%s", text.len ? "; " : "",
				    l->debug_type, l->debug_member);
		if (l->n_rows)
			buf__printf(&text, "%sknown for %zu version%s", text.len ? "; " : "",
				    l->n_rows, l->n_rows == 1 ? "" : "s");
		line(out, l->name, &text, columns);
	}
	buf__free(&text);
}

static void tables(struct buf *out, const struct recipe *r, unsigned columns)
{
	struct buf text = { 0 };
	size_t i;

	if (r->n_tables)
		heading(out, "Tables of functions");
	for (i = 0; i < r->n_tables; i++) {
		const struct recipe_table *t = &r->tables[i];

		if (t->derived_from)
			buf__printf(&text, "classes that derive from %s, ", t->derived_from);
		else if (t->getter)
			buf__printf(&text, "what %s leads to, ", t->getter);
		buf__printf(&text, "%zu of at least %u entries", t->n_slots, t->at_least);
		line(out, t->name, &text, columns);
	}
	buf__free(&text);
}

static void condition(struct buf *text, const struct recipe_function *fn,
		      const struct recipe_ifs *ifs)
{
	unsigned i;

	for (i = 0; i < ifs->n; i++)
		buf__printf(text, "%s%s %s %lld", i ? " and " : " if ",
			    fn->args[ifs->all[i].arg].name, recipe_op__name(ifs->all[i].op),
			    (long long)ifs->all[i].value);
}

static void names(struct buf *text, const struct recipe_function *fn)
{
	unsigned i;

	if (!fn->span) {
		buf__printf(text, "no span");
		return;
	}
	for (i = 0; i < fn->n_names; i++) {
		buf__printf(text, "%s%s", i ? ", else " : "", fn->names[i].text);
		condition(text, fn, &fn->names[i].ifs);
	}
	if (fn->cut_at)
		buf__printf(text, ", cut at a '%c' to a text that the library holds", fn->cut_at);
}

static void arguments(struct buf *text, const struct recipe_function *fn)
{
	unsigned i, shown = 0;

	for (i = 0; i < fn->n_args; i++) {
		const struct recipe_arg *a = &fn->args[i];

		if (a->hidden)
			continue;
		buf__printf(text, "%s%s (%s)", shown++ ? ", " : "", a->name,
			    recipe_type__name(a->type));
		condition(text, fn, &a->ifs);
	}
}

static void amount(struct buf *text, const struct recipe_function *fn, const char *before, int arg,
		   int64_t value)
{
	if (arg >= 0)
		buf__printf(text, "%s%s", before, fn->args[arg].name);
	else
		buf__printf(text, "%s%lld", before, (long long)value);
}

static void meaning(struct buf *text, const struct recipe_function *fn, const struct recipe_does *d)
{
	buf__printf(text, "%s", recipe_what__name(d->what));
	if (d->name)
		buf__printf(text, " \"%s\"", d->name);
	if (d->id >= 0)
		buf__printf(text, " of %s", fn->args[d->id].name);
	if (d->what == RECIPE_ALLOC || d->what == RECIPE_RESERVE)
		amount(text, fn, ", bytes ", d->amount, d->amount_value);
	else if (d->what == RECIPE_REQUEST_OUTPUT)
		amount(text, fn, ", units ", d->amount, d->amount_value);
	else if (d->what == RECIPE_COUNTER)
		amount(text, fn, " = ", d->amount, d->amount_value);
	if (d->device >= 0 || d->device_value)
		amount(text, fn, ", device ", d->device, d->device_value);
	condition(text, fn, &d->ifs);
	buf__printf(text, "%s", d->at_return ? ", at the return" : "");
}

static void library_ids(struct buf *text, const struct recipe *r, uint64_t bits)
{
	size_t i;

	for (i = 0; i < r->n_libraries; i++)
		if (bits >> i & 1)
			buf__printf(text, "%s%s", text->len ? ", " : "", r->libraries[i].id);
}

static void function(struct buf *out, const struct recipe *r, const struct recipe_function *fn,
		     unsigned columns)
{
	struct buf text = { 0 };
	unsigned i;

	buf__printf(out, "\n");
	list(&text, "", fn->match, fn->n_match);
	buf__u8(&text, 0);
	if (!buf__error(&text)) /* what one looks for stands out to the left */
		recipe_view__line(out, 2, 4, "", (const char *)text.data, columns);
	buf__reset(&text);
	list(&text, "", fn->only, fn->n_only);
	line(out, "only", &text, columns);
	list(&text, "", fn->except, fn->n_except);
	line(out, "except", &text, columns);
	if (fn->table >= 0)
		buf__printf(&text, "%s", r->tables[fn->table].name);
	line(out, "table", &text, columns);
	if (r->n_libraries > 1)
		library_ids(&text, r, fn->libraries);
	line(out, "in", &text, columns);
	if (fn->off)
		buf__printf(&text, "%s (turn on with --recipe %s:%s)", fn->why_off, r->name,
			    fn->group ? fn->group : "all");
	line(out, "off", &text, columns);
	names(&text, fn);
	line(out, "name", &text, columns);
	arguments(&text, fn);
	line(out, "shows", &text, columns);
	for (i = 0; i < fn->n_does; i++) {
		meaning(&text, fn, &fn->does[i]);
		line(out, i ? "" : "does", &text, columns);
	}
	buf__free(&text);
}

void recipe_view__show(struct buf *out, const struct recipe *r, unsigned columns)
{
	struct buf text = { 0 };
	size_t i;

	buf__printf(out, "%s: ", r->name);
	text__append_printable(out, r->title, strlen(r->title));
	buf__u8(out, '\n');
	buf__printf(&text, "%s", r->records ? r->records : "");
	line(out, "records", &text, columns);
	buf__printf(&text, "%s", r->versions ? r->versions : "");
	line(out, "versions", &text, columns);
	buf__printf(&text, "%s", r->path);
	line(out, "from", &text, columns);
	if (r->automatic)
		buf__printf(&text, "by itself, wherever a library of it is mapped");
	else
		buf__printf(&text, "only when it is named: --recipe %s", r->name);
	line(out, "applies", &text, columns);
	libraries(out, r, columns);
	layouts(out, r, columns);
	tables(out, r, columns);
	heading(out, "Functions; the first entry that fits one counts");
	for (i = 0; i < r->n_functions; i++)
		function(out, r, &r->functions[i], columns);
	buf__free(&text);
}
