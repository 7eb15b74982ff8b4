// SPDX-License-Identifier: Apache-2.0
/*
 * A recipe from its text. Strict: what is not understood is an error with its line, since a
 * misspelt key that is passed over would look like a runtime that does nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/recipe_json.h"

static const char *const hows[] = { "", "address", "load", "value" };

void texts__free(char **list, size_t n)
{
	size_t i;

	for (i = 0; list && i < n; i++)
		free(list[i]);
	free(list);
}

/* --- libraries ----------------------------------------------------------------------------------- */

static int check_hex(const struct rj *j, const cJSON *at, char **list, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (list[i][strspn(list[i], "0123456789abcdef")] || strlen(list[i]) % 2)
			return rj__bad(j, at,
				       "'build_id' is written in pairs of 0-9 and a-f, not '%s'",
				       list[i]);
	return 0;
}

static int parse_library(const struct rj *j, const cJSON *o, struct recipe *r)
{
	static const char *const keys[] = { "id", "file", "soname", "exports", "build_id", NULL };
	struct recipe_library *l = &r->libraries[r->n_libraries];
	size_t i;
	int rc = rj__keys(j, o, "a library", keys);

	if (rc)
		return rc;
	r->n_libraries++;
	if ((rc = rj__required(j, o, "a library", "id")) || (rc = rj__text(j, o, "id", &l->id)) ||
	    (rc = rj__texts(j, o, "file", &l->files, &l->n_files)) ||
	    (rc = rj__texts(j, o, "soname", &l->sonames, &l->n_sonames)) ||
	    (rc = rj__texts(j, o, "exports", &l->exports, &l->n_exports)) ||
	    (rc = rj__texts(j, o, "build_id", &l->build_ids, &l->n_build_ids)) ||
	    (rc = check_hex(j, rj__get(o, "build_id"), l->build_ids, l->n_build_ids)))
		return rc;
	if (!l->n_files && !l->n_sonames && !l->n_exports && !l->n_build_ids)
		return rj__bad(j, o,
			       "library '%s' says nothing to be known by: file, soname, exports or "
			       "build_id",
			       l->id);
	for (i = 0; i + 1 < r->n_libraries; i++)
		if (strcmp(r->libraries[i].id, l->id) == 0)
			return rj__bad(j, rj__get(o, "id"), "two libraries have the id '%s'",
				       l->id);
	return 0;
}

static int parse_libraries(const struct rj *j, struct recipe *r)
{
	const cJSON *c;
	size_t n;
	int rc = rj__required(j, j->root, "a recipe", "libraries");

	if (!rc)
		rc = rj__array(j, j->root, "libraries", RECIPE_MAX_LIBRARIES, &c, &n);
	if (rc)
		return rc;
	if (!n)
		return rj__bad(j, rj__get(j->root, "libraries"), "'libraries' is empty");
	r->libraries = calloc(n, sizeof(*r->libraries));
	if (!r->libraries)
		return rj__no_memory(j);
	for (; c && !rc; c = c->next)
		rc = parse_library(j, c, r);
	return rc;
}

/* --- layouts --------------------------------------------------------------------------------------- */

static int parse_row(const struct rj *j, const cJSON *o, struct recipe_layout *l)
{
	static const char *const keys[] = { "build_id", "exports", "value", NULL };
	struct recipe_layout_row *row = &l->rows[l->n_rows];
	int rc = rj__keys(j, o, "an entry of 'versions'", keys);

	if (rc)
		return rc;
	l->n_rows++;
	if ((rc = rj__required(j, o, "an entry of 'versions'", "value")) ||
	    (rc = rj__int(j, o, "value", -(1ll << 31), 1ll << 31, &row->value)) ||
	    (rc = rj__text(j, o, "build_id", &row->build_id)) ||
	    (rc = rj__text(j, o, "exports", &row->exports)))
		return rc;
	if (!row->build_id == !row->exports)
		return rj__bad(j, o, "an entry of 'versions' needs either build_id or exports");
	return row->build_id ? check_hex(j, o, &row->build_id, 1) : 0;
}

static int parse_debug(const struct rj *j, const cJSON *o, struct recipe_layout *l)
{
	static const char *const keys[] = { "type", "member", NULL };
	int rc;

	if (!o)
		return 0;
	if ((rc = rj__keys(j, o, "'debug'", keys)) ||
	    (rc = rj__required(j, o, "'debug'", "type")) ||
	    (rc = rj__required(j, o, "'debug'", "member")) ||
	    (rc = rj__text(j, o, "type", &l->debug_type)))
		return rc;
	return rj__text(j, o, "member", &l->debug_member);
}

static int parse_layout(const struct rj *j, const cJSON *o, struct recipe *r)
{
	static const char *const keys[] = { "name", "library", "accessor", "how",
					    "add",  "debug",   "versions", NULL };
	struct recipe_layout *l = &r->layouts[r->n_layouts];
	const cJSON *c;
	int rc = rj__keys(j, o, "a layout", keys), how = RECIPE_HOW_ADDRESS;
	size_t n, i;

	if (rc)
		return rc;
	r->n_layouts++;
	if ((rc = rj__required(j, o, "a layout", "name")) ||
	    (rc = rj__text(j, o, "name", &l->name)) ||
	    (rc = rj__libraries(j, r, o, &l->libraries)) ||
	    (rc = rj__text(j, o, "accessor", &l->accessor)) ||
	    (rc = rj__int(j, o, "add", -(1ll << 31), 1ll << 31, &l->add)) ||
	    (rc = parse_debug(j, rj__get(o, "debug"), l)))
		return rc;
	c = rj__get(o, "how");
	rc = c ? rj__word_of(j, c, "'how'", hows, ARRAY_SIZE(hows), &how) : 0;
	l->how = (enum recipe_how)how;
	if (!rc)
		rc = rj__array(j, o, "versions", RECIPE_MAX_LIST, &c, &n);
	if (rc)
		return rc;
	l->rows = calloc(n ? n : 1, sizeof(*l->rows));
	if (!l->rows)
		return rj__no_memory(j);
	for (; c && !rc; c = c->next)
		rc = parse_row(j, c, l);
	if (rc)
		return rc;
	if (!l->accessor && !l->debug_type && !l->n_rows)
		return rj__bad(j, o, "layout '%s' has no accessor, debug or versions to find it by",
			       l->name);
	if (!l->accessor && (rj__get(o, "how") || rj__get(o, "add")))
		return rj__bad(j, o, "layout '%s': 'how' and 'add' are about an 'accessor'",
			       l->name);
	for (i = 0; i + 1 < r->n_layouts; i++)
		if (strcmp(r->layouts[i].name, l->name) == 0)
			return rj__bad(j, rj__get(o, "name"), "two layouts have the name '%s'",
				       l->name);
	return 0;
}

static int parse_layouts(const struct rj *j, struct recipe *r)
{
	const cJSON *c;
	size_t n;
	int rc = rj__array(j, j->root, "layouts", RECIPE_MAX_LAYOUTS, &c, &n);

	if (rc)
		return rc;
	r->layouts = calloc(n ? n : 1, sizeof(*r->layouts));
	if (!r->layouts)
		return rj__no_memory(j);
	for (; c && !rc; c = c->next)
		rc = parse_layout(j, c, r);
	return rc;
}

/* --- tables ------------------------------------------------------------------------------------------ */

static int parse_slot(const struct rj *j, const cJSON *item, struct recipe_table *t)
{
	struct recipe_slot *s = &t->slots[t->n_slots];
	const char *digits = item->string;
	unsigned long index;
	char *end, what[64];
	size_t i;

	index = strtoul(digits, &end, 10);
	if (*end || !*digits || strspn(digits, "0123456789") != strlen(digits) ||
	    (digits[0] == '0' && digits[1]) || index > 65535)
		return rj__bad(j, item, "'slots' has numbers for keys, from \"0\", not '%.60s'",
			       digits);
	for (i = 0; i < t->n_slots; i++)
		if (t->slots[i].index == index)
			return rj__bad(j, item, "slot %lu is there twice", index);
	s->index = (unsigned)index;
	t->n_slots++;
	snprintf(what, sizeof(what), "slot %lu", index);
	return rj__text_of(j, item, what, &s->name);
}

static int parse_table(const struct rj *j, const cJSON *o, struct recipe *r)
{
	static const char *const keys[] = { "name",         "library", "getter",
					    "derived_from", "entries", "at_least",
					    "follow_jumps", "slots",   NULL };
	struct recipe_table *t = &r->tables[r->n_tables];
	int rc = rj__keys(j, o, "a table", keys);
	const cJSON *slots = rj__get(o, "slots"), *c;
	int64_t least = 0, entries = 0;
	size_t i;
	int n;

	if (rc)
		return rc;
	r->n_tables++;
	if ((rc = rj__required(j, o, "a table", "name")) ||
	    (rc = rj__text(j, o, "name", &t->name)) ||
	    (rc = rj__libraries(j, r, o, &t->libraries)) ||
	    (rc = rj__text(j, o, "getter", &t->getter)) ||
	    (rc = rj__text(j, o, "derived_from", &t->derived_from)) ||
	    (rc = rj__int(j, o, "entries", 1, 65536, &entries)) ||
	    (rc = rj__bool(j, o, "follow_jumps", &t->follow_jumps)) ||
	    (rc = rj__int(j, o, "at_least", 1, 65536, &least)) ||
	    (rc = rj__required(j, o, "a table", "slots")))
		return rc;
	t->entries = (unsigned)entries;
	if (t->derived_from && t->getter)
		return rj__bad(j, rj__get(o, "getter"),
			       "classes ('derived_from') have no 'getter'");
	if (t->entries && !t->derived_from)
		return rj__bad(j, rj__get(o, "entries"),
			       "'entries' is for classes ('derived_from')");
	if (!cJSON_IsObject(slots) || !slots->child)
		return rj__bad(j, slots, "'slots' must be an object: { \"9\": \"Run\" }");
	n = cJSON_GetArraySize(slots);
	if ((unsigned)n > RECIPE_MAX_SLOTS)
		return rj__bad(j, slots, "'slots' has more than %u entries", RECIPE_MAX_SLOTS);
	t->slots = calloc((size_t)n, sizeof(*t->slots));
	if (!t->slots)
		return rj__no_memory(j);
	for (c = slots->child; c && !rc; c = c->next) {
		rc = parse_slot(j, c, t);
		if (!rc && least <= t->slots[t->n_slots - 1].index) {
			if (rj__get(o, "at_least"))
				return rj__bad(j, c, "slot %u is not among the 'at_least' %lld",
					       t->slots[t->n_slots - 1].index, (long long)least);
			least = t->slots[t->n_slots - 1].index + 1ll;
		}
	}
	t->at_least = (unsigned)least;
	for (i = 0; !rc && i + 1 < r->n_tables; i++)
		if (strcmp(r->tables[i].name, t->name) == 0)
			return rj__bad(j, rj__get(o, "name"), "two tables have the name '%s'",
				       t->name);
	return rc;
}

static int parse_tables(const struct rj *j, struct recipe *r)
{
	const cJSON *c;
	size_t n;
	int rc = rj__array(j, j->root, "tables", RECIPE_MAX_TABLES, &c, &n);

	if (rc)
		return rc;
	r->tables = calloc(n ? n : 1, sizeof(*r->tables));
	if (!r->tables)
		return rj__no_memory(j);
	for (; c && !rc; c = c->next)
		rc = parse_table(j, c, r);
	return rc;
}

/* --- the whole --------------------------------------------------------------------------------------- */

static int parse_head(const struct rj *j, struct recipe *r)
{
	static const char *const keys[] = { "recipe",  "name",     "title",     "versions",
					    "records", "category", "automatic", "libraries",
					    "layouts", "tables",   "functions", NULL };
	int64_t format = 0;
	int rc = rj__keys(j, j->root, "a recipe", keys);

	if (rc)
		return rc;
	if ((rc = rj__required(j, j->root, "a recipe", "recipe")) ||
	    (rc = rj__int(j, j->root, "recipe", 1, INT32_MAX, &format)))
		return rc;
	if (format != RECIPE_FORMAT)
		return rj__bad(j, rj__get(j->root, "recipe"),
			       "recipe format %lld, this program knows format %d only",
			       (long long)format, RECIPE_FORMAT);
	r->automatic = true;
	if ((rc = rj__required(j, j->root, "a recipe", "name")) ||
	    (rc = rj__text(j, j->root, "name", &r->name)) ||
	    (rc = rj__text(j, j->root, "title", &r->title)) ||
	    (rc = rj__text(j, j->root, "versions", &r->versions)) ||
	    (rc = rj__text(j, j->root, "records", &r->records)) ||
	    (rc = rj__text(j, j->root, "category", &r->category)) ||
	    (rc = rj__bool(j, j->root, "automatic", &r->automatic)))
		return rc;
	if (r->name[strspn(r->name, "abcdefghijklmnopqrstuvwxyz0123456789-")] ||
	    strlen(r->name) > 63 || r->name[0] == '-')
		return rj__bad(j, rj__get(j->root, "name"),
			       "'name' is made of a-z, 0-9 and '-', at most 63 of them");
	if (!r->category && !(r->category = strdup(r->name)))
		return rj__no_memory(j);
	if (!r->title && !(r->title = strdup(r->name)))
		return rj__no_memory(j);
	return 0;
}

static int parse_all(const struct rj *j, struct recipe *r)
{
	const cJSON *first;
	size_t n;
	int rc;

	if ((rc = parse_head(j, r)) || (rc = parse_libraries(j, r)) || (rc = parse_layouts(j, r)) ||
	    (rc = parse_tables(j, r)) || (rc = rj__required(j, j->root, "a recipe", "functions")) ||
	    (rc = rj__array(j, j->root, "functions", RECIPE_MAX_FUNCTIONS, &first, &n)))
		return rc;
	if (!n)
		return rj__bad(j, rj__get(j->root, "functions"), "'functions' is empty");
	r->functions = calloc(n, sizeof(*r->functions));
	if (!r->functions)
		return rj__no_memory(j);
	return recipe__parse_functions(j, r, first);
}

int recipe__parse(const char *text, size_t len, const char *shown_as, struct recipe **out,
		  struct clika_error *err)
{
	struct recipe *r = NULL;
	struct rj j;
	int rc;

	*out = NULL;
	rc = rj__open(&j, text, len, shown_as, err);
	if (rc)
		return rc;
	r = calloc(1, sizeof(*r));
	if (r) {
		r->path = strdup(shown_as);
		r->hash = hash__bytes(text, len, 0);
	}
	rc = r && r->path ? parse_all(&j, r) : rj__no_memory(&j);
	rj__close(&j);
	if (rc) {
		recipe__free(r);
		return rc;
	}
	*out = r;
	return 0;
}

static void layout__free(struct recipe_layout *l)
{
	size_t i;

	for (i = 0; i < l->n_rows; i++) {
		free(l->rows[i].build_id);
		free(l->rows[i].exports);
	}
	free(l->rows);
	free(l->name);
	free(l->accessor);
	free(l->debug_type);
	free(l->debug_member);
}

void recipe__free(struct recipe *r)
{
	size_t i, k;

	if (!r)
		return;
	for (i = 0; i < r->n_libraries; i++) {
		struct recipe_library *l = &r->libraries[i];

		free(l->id);
		texts__free(l->files, l->n_files);
		texts__free(l->sonames, l->n_sonames);
		texts__free(l->exports, l->n_exports);
		texts__free(l->build_ids, l->n_build_ids);
	}
	for (i = 0; i < r->n_layouts; i++)
		layout__free(&r->layouts[i]);
	for (i = 0; i < r->n_tables; i++) {
		for (k = 0; k < r->tables[i].n_slots; k++)
			free(r->tables[i].slots[k].name);
		free(r->tables[i].slots);
		free(r->tables[i].name);
		free(r->tables[i].getter);
		free(r->tables[i].derived_from);
	}
	for (i = 0; i < r->n_functions; i++)
		recipe_function__free(&r->functions[i]);
	free(r->libraries);
	free(r->layouts);
	free(r->tables);
	free(r->functions);
	free(r->path);
	free(r->name);
	free(r->title);
	free(r->versions);
	free(r->records);
	free(r->category);
	free(r);
}
