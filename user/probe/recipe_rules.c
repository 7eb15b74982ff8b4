// SPDX-License-Identifier: Apache-2.0
/* The functions of a recipe: what they are found by, their arguments, names and meanings. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/recipe_json.h"

static const char *const types[] = {
	[RECIPE_I8] = "i8",           [RECIPE_U8] = "u8",
	[RECIPE_I16] = "i16",         [RECIPE_U16] = "u16",
	[RECIPE_I32] = "i32",         [RECIPE_U32] = "u32",
	[RECIPE_I64] = "i64",         [RECIPE_U64] = "u64",
	[RECIPE_POINTER] = "pointer", [RECIPE_F32] = "f32",
	[RECIPE_F64] = "f64",         [RECIPE_STRING] = "string",
	[RECIPE_CHARS] = "chars",     [RECIPE_STD_STRING] = "std_string",
	[RECIPE_ARRAY] = "array",     [RECIPE_COUNTED] = "counted",
};
static const char *const ops[] = {
	[RECIPE_EQ] = "eq", [RECIPE_NE] = "ne", [RECIPE_LT] = "lt",
	[RECIPE_LE] = "le", [RECIPE_GT] = "gt", [RECIPE_GE] = "ge",
};

/* Which keys a meaning has, and which of them it cannot do without. */
static const struct meaning {
	const char *what, *name, *id, *amount;
	bool name_must, id_must, amount_must, device;
} meanings[] = {
	[RECIPE_ALLOC] = { "alloc", "pool", "address", "bytes", false, true, true, true },
	[RECIPE_FREE] = { "free", NULL, "address", NULL, false, true, false, true },
	[RECIPE_RESERVE] = { "reserve", "pool", "address", "bytes", false, true, true, true },
	[RECIPE_RELEASE] = { "release", NULL, "address", NULL, false, true, false, true },
	[RECIPE_FLOW_OUT] = { "flow_out", "name", "id", NULL, false, true, false, false },
	[RECIPE_FLOW_STEP] = { "flow_step", "name", "id", NULL, false, true, false, false },
	[RECIPE_FLOW_IN] = { "flow_in", "name", "id", NULL, false, true, false, false },
	[RECIPE_ASYNC_BEGIN] = { "async_begin", "name", "id", NULL, true, true, false, false },
	[RECIPE_ASYNC_END] = { "async_end", "name", "id", NULL, false, true, false, false },
	[RECIPE_REQUEST_BEGIN] = { "request_begin", "name", "id", NULL, false, false, false,
				   false },
	[RECIPE_REQUEST_OUTPUT] = { "request_output", "name", "id", "units", false, false, false,
				    false },
	[RECIPE_REQUEST_END] = { "request_end", "name", "id", NULL, false, false, false, false },
	[RECIPE_COUNTER] = { "counter", "name", NULL, "value", true, false, true, false },
	[RECIPE_INSTANT] = { "instant", "name", NULL, NULL, true, false, false, false },
};

const char *recipe_what__name(enum recipe_what what)
{
	return what >= RECIPE_ALLOC && what <= RECIPE_INSTANT ? meanings[what].what : "";
}

const char *recipe_type__name(enum recipe_type type)
{
	return type >= RECIPE_I8 && type <= RECIPE_COUNTED ? types[type] : "";
}

const char *recipe_op__name(enum recipe_op op)
{
	return op >= RECIPE_EQ && op <= RECIPE_GE ? ops[op] : "";
}

static bool is_integer(enum recipe_type t)
{
	return t >= RECIPE_I8 && t <= RECIPE_POINTER;
}

static bool is_text(enum recipe_type t)
{
	return t >= RECIPE_STRING;
}

static unsigned size_of(enum recipe_type t)
{
	switch (t) {
	case RECIPE_I8:
	case RECIPE_U8:
		return 1;
	case RECIPE_I16:
	case RECIPE_U16:
		return 2;
	case RECIPE_I32:
	case RECIPE_U32:
	case RECIPE_F32:
		return 4;
	default:
		return 8;
	}
}

/* --- references to arguments --------------------------------------------------------------------- */

static int find_arg(const struct rj *j, const cJSON *at, const struct recipe_function *fn,
		    const char *name, size_t len, int *out)
{
	const char *names[RECIPE_MAX_ARGS];
	char word[64], hint[256];
	unsigned i;

	for (i = 0; i < fn->n_args; i++) {
		names[i] = fn->args[i].name;
		if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) {
			*out = (int)i;
			return 0;
		}
	}
	snprintf(word, sizeof(word), "%.*s", (int)(len < 60 ? len : 60), name);
	rj__suggest(word, names, i, hint, sizeof(hint));
	return rj__bad(j, at, "the function has no argument '%s'%s", word, hint);
}

/* An argument that is an integer or an address. */
static int integer_arg(const struct rj *j, const cJSON *item, const char *what,
		       const struct recipe_function *fn, int *out)
{
	int rc;

	if (!cJSON_IsString(item))
		return rj__bad(j, item, "%s must be the name of an argument", what);
	rc = find_arg(j, item, fn, item->valuestring, strlen(item->valuestring), out);
	if (!rc && !is_integer(fn->args[*out].type))
		return rj__bad(j, item, "%s must be an integer, but argument '%s' is of type %s",
			       what, fn->args[*out].name, types[fn->args[*out].type]);
	return rc;
}

/* A number, or the name of an argument. */
static int number_or_arg(const struct rj *j, const cJSON *o, const char *key,
			 const struct recipe_function *fn, int *arg, int64_t *value)
{
	const cJSON *item = rj__get(o, key);
	char what[64];

	snprintf(what, sizeof(what), "'%s'", key);
	if (!item)
		return 0;
	if (cJSON_IsString(item))
		return integer_arg(j, item, what, fn, arg);
	if (!cJSON_IsNumber(item))
		return rj__bad(j, item, "%s must be a number or the name of an argument", what);
	return rj__int_of(j, item, what, INT32_MIN, 1ll << 53, value);
}

static bool at_return(const struct recipe_function *fn, int arg)
{
	return arg >= 0 && (fn->args[arg].source == RECIPE_RETURN || fn->args[arg].late);
}

static bool ifs_at_return(const struct recipe_function *fn, const struct recipe_ifs *ifs)
{
	unsigned i;

	for (i = 0; i < ifs->n; i++)
		if (at_return(fn, ifs->all[i].arg))
			return true;
	return false;
}

static int parse_if(const struct rj *j, const cJSON *o, const struct recipe_function *fn,
		    struct recipe_ifs *ifs)
{
	static const char *const keys[] = { "arg", "eq", "ne", "lt", "le", "gt", "ge", NULL };
	struct recipe_if *i = &ifs->all[ifs->n];
	int rc = rj__keys(j, o, "'if'", keys), op;

	if (rc)
		return rc;
	if ((rc = rj__required(j, o, "'if'", "arg")) ||
	    (rc = integer_arg(j, rj__get(o, "arg"), "the 'arg' of 'if'", fn, &i->arg)))
		return rc;
	for (op = RECIPE_EQ; op <= RECIPE_GE; op++) {
		if (!rj__get(o, ops[op]))
			continue;
		if (i->op)
			return rj__bad(j, o,
				       "'if' has two comparisons; a list [ {...}, {...} ] joins "
				       "several by and");
		i->op = (enum recipe_op)op;
		rc = rj__int(j, o, ops[op], -(1ll << 53), 1ll << 53, &i->value);
		if (rc)
			return rc;
	}
	if (!i->op)
		return rj__bad(j, o, "'if' compares with nothing: add eq, ne, lt, le, gt or ge");
	ifs->n++;
	return 0;
}

static int parse_ifs(const struct rj *j, const cJSON *o, const struct recipe_function *fn,
		     struct recipe_ifs *ifs)
{
	const cJSON *item = rj__get(o, "if"), *c;
	int rc = 0;

	if (!item)
		return 0;
	if (!cJSON_IsArray(item))
		return parse_if(j, item, fn, ifs);
	if (!item->child)
		return rj__bad(j, item, "'if' is an empty list");
	for (c = item->child; c && !rc; c = c->next) {
		if (ifs->n == RECIPE_MAX_IFS)
			return rj__bad(j, c, "'if' has more than %d conditions", RECIPE_MAX_IFS);
		rc = parse_if(j, c, fn, ifs);
	}
	return rc;
}

/* "{arg}" in a text. @returned: one of them comes from "return". */
static int check_braces(const struct rj *j, const cJSON *at, const struct recipe_function *fn,
			const char *text, bool *returned)
{
	const char *open, *close;
	int arg = -1, rc;

	for (open = text; (open = strchr(open, '{')); open = close) {
		close = strchr(open, '}');
		if (!close)
			return rj__bad(j, at, "a '{' without '}' in '%.100s'", text);
		rc = find_arg(j, at, fn, open + 1, (size_t)(close - open - 1), &arg);
		if (rc)
			return rc;
		*returned |= at_return(fn, arg);
	}
	return 0;
}

/* --- arguments --------------------------------------------------------------------------------------- */

static int parse_from(const struct rj *j, const cJSON *item, struct recipe_arg *a)
{
	const char *s = cJSON_IsString(item) ? item->valuestring : "";
	unsigned long n = 0;
	char *end = NULL;

	if (strcmp(s, "return") == 0) {
		a->source = RECIPE_RETURN;
		return 0;
	}
	if (strncmp(s, "arg", 3) == 0 && isdigit((unsigned char)s[3])) {
		n = strtoul(s + 3, &end, 10);
		a->source = RECIPE_ARG;
		if (!*end && n > 5)
			return rj__bad(j, item,
				       "'from': arguments in registers are arg0 to arg5; the "
				       "seventh is stack0");
	} else if (strncmp(s, "stack", 5) == 0 && isdigit((unsigned char)s[5])) {
		n = strtoul(s + 5, &end, 10);
		a->source = RECIPE_STACK;
		if (!*end && n > 63)
			return rj__bad(j, item, "'from': stack0 to stack63 can be read");
	}
	if (!end || *end)
		return rj__bad(j, item,
			       "'from' is one of arg0 to arg5, stack0 and up, or return, not "
			       "'%.60s'",
			       s);
	a->index = (uint8_t)n;
	return 0;
}

static int find_layout(const struct rj *j, const struct recipe *r, const cJSON *item, int *out)
{
	const char *names[RECIPE_MAX_LAYOUTS];
	char hint[256];
	size_t i;

	if (!cJSON_IsString(item))
		return rj__bad(j, item, "a step of 'path' is a number or the name of a layout");
	for (i = 0; i < r->n_layouts; i++) {
		names[i] = r->layouts[i].name;
		if (strcmp(names[i], item->valuestring) == 0) {
			*out = (int)i;
			return 0;
		}
	}
	rj__suggest(item->valuestring, names, i, hint, sizeof(hint));
	return rj__bad(j, item, "there is no layout '%.60s'%s", item->valuestring, hint);
}

static int parse_step(const struct rj *j, const struct recipe *r, const cJSON *item,
		      struct recipe_step *s)
{
	static const char *const keys[] = { "layout", "add", NULL };
	int rc;

	s->layout = -1;
	if (cJSON_IsNumber(item))
		return rj__int_of(j, item, "a step of 'path'", -(1ll << 31), 1ll << 31, &s->value);
	if (!cJSON_IsObject(item))
		return find_layout(j, r, item, &s->layout);
	if ((rc = rj__keys(j, item, "a step of 'path'", keys)) ||
	    (rc = rj__required(j, item, "a step of 'path'", "layout")) ||
	    (rc = find_layout(j, r, rj__get(item, "layout"), &s->layout)))
		return rc;
	return rj__int(j, item, "add", -(1ll << 31), 1ll << 31, &s->value);
}

static int parse_path(const struct rj *j, const struct recipe *r, const cJSON *o,
		      struct recipe_arg *a)
{
	const cJSON *item = rj__get(o, "path"), *c;
	int rc;

	if (!item)
		return 0;
	if (!cJSON_IsArray(item))
		return rj__bad(j, item, "'path' must be a list of steps: [ 16, 0 ]");
	for (c = item->child; c; c = c->next) {
		if (a->n_path == RECIPE_MAX_PATH)
			return rj__bad(j, c, "'path' has more than %d steps", RECIPE_MAX_PATH);
		rc = parse_step(j, r, c, &a->path[a->n_path]);
		if (rc)
			return rc;
		a->n_path++;
	}
	return 0;
}

static int parse_values(const struct rj *j, const cJSON *o, struct recipe_arg *a)
{
	const cJSON *item = rj__get(o, "values"), *c;
	char *end;
	int n, rc;

	if (!item)
		return 0;
	if (!is_integer(a->type))
		return rj__bad(j, item, "'values' are for integers, '%s' is of type %s", a->name,
			       types[a->type]);
	if (!cJSON_IsObject(item) || !item->child)
		return rj__bad(j, item,
			       "'values' must be an object: { \"1\": \"host to device\" }");
	n = cJSON_GetArraySize(item);
	if ((unsigned)n > RECIPE_MAX_LIST)
		return rj__bad(j, item, "'values' has more than %u entries", RECIPE_MAX_LIST);
	a->values = calloc((size_t)n, sizeof(*a->values));
	if (!a->values)
		return rj__no_memory(j);
	for (c = item->child; c; c = c->next) {
		struct recipe_value *v = &a->values[a->n_values];

		errno = 0;
		v->value = strtoll(c->string, &end, 0);
		if (errno || *end || end == c->string || isspace((unsigned char)*c->string))
			return rj__bad(j, c, "'values' has numbers for keys, not '%.60s'",
				       c->string);
		rc = rj__text_of(j, c, "a text of 'values'", &v->text);
		if (rc)
			return rc;
		a->n_values++;
	}
	return 0;
}

/* "element" and "count", where the type has them. */
static int parse_count(const struct rj *j, const cJSON *o, struct recipe_arg *a)
{
	bool list = a->type == RECIPE_ARRAY || a->type == RECIPE_COUNTED;
	const cJSON *item = rj__get(o, "element");
	int element = RECIPE_I64, rc;
	int64_t count = 0;

	if (item && !list)
		return rj__bad(j, item, "'element' is for the types array and counted");
	if (rj__get(o, "count") && !list && a->type != RECIPE_CHARS)
		return rj__bad(j, rj__get(o, "count"),
			       "'count' is for the types chars, array and counted");
	if (!list && a->type != RECIPE_CHARS)
		return 0;
	rc = item ? rj__word_of(j, item, "'element'", types, RECIPE_F64 + 1, &element) : 0;
	if (!rc)
		rc = rj__required(j, o, types[a->type], "count");
	if (!rc)
		rc = rj__int(j, o, "count", 1, RECIPE_MAX_BYTES, &count);
	if (rc)
		return rc;
	if (list) {
		a->element = (enum recipe_type)element;
		if ((uint64_t)count * size_of(a->element) > RECIPE_MAX_BYTES)
			return rj__bad(j, rj__get(o, "count"),
				       "%lld elements of type %s are more than %d bytes",
				       (long long)count, types[element], RECIPE_MAX_BYTES);
	}
	a->count = (uint8_t)count;
	return 0;
}

/* "at": "return": a result that the function leaves where an argument points to. */
static int parse_at(const struct rj *j, const cJSON *o, const struct recipe_function *fn,
		    struct recipe_arg *a)
{
	static const char *const ats[] = { "", "entry", "return" };
	const cJSON *item = rj__get(o, "at");
	uint64_t kept = 0;
	int at = 0, rc;
	unsigned i;

	rc = item ? rj__word_of(j, item, "'at'", ats, ARRAY_SIZE(ats), &at) : 0;
	if (rc)
		return rc;
	if (at == 1 && a->source == RECIPE_RETURN)
		return rj__bad(j, item,
			       "'%s' comes from what the function returns: not known at the entry",
			       a->name);
	if (at != 2 || a->source == RECIPE_RETURN)
		return 0;
	if (a->source != RECIPE_ARG)
		return rj__bad(j, item, "'%s': only arg0 to arg5 are kept until the return",
			       a->name);
	if (!a->n_path && !is_text(a->type))
		return rj__bad(
			j, item,
			"'%s' is the same at the return: only what a 'path' leads to may change",
			a->name);
	a->late = true;
	for (i = 0; i < fn->n_args; i++)
		if (fn->args[i].late)
			kept |= 1ull << fn->args[i].index;
	if (__builtin_popcountll(kept) > 2)
		return rj__bad(j, item, "at most 2 different arguments are kept until the return");
	return 0;
}

/* "shift" and "times": numbers that are packed, or the product of two arguments. */
static int parse_arithmetic(const struct rj *j, const cJSON *o, struct recipe_arg *a)
{
	const cJSON *times = rj__get(o, "times");
	int64_t shift = 0;
	int rc = rj__int(j, o, "shift", 0, 63, &shift);

	if (rc)
		return rc;
	if ((shift || times) &&
	    (is_text(a->type) || a->type == RECIPE_F32 || a->type == RECIPE_F64))
		return rj__bad(j, o, "'%s': 'shift' and 'times' are for integers", a->name);
	a->shift = (uint8_t)shift;
	if (!times)
		return 0;
	if (!cJSON_IsString(times) || strncmp(times->valuestring, "arg", 3) ||
	    times->valuestring[3] < '0' || times->valuestring[3] > '5' || times->valuestring[4])
		return rj__bad(j, times, "'times' must be one of arg0 to arg5");
	if (a->source == RECIPE_RETURN)
		return rj__bad(j, times, "'times': arguments are not there any more at the return");
	a->times = (uint8_t)(1 + times->valuestring[3] - '0');
	return 0;
}

static int parse_arg(const struct rj *j, const struct recipe *r, const cJSON *o,
		     struct recipe_function *fn)
{
	static const char *const keys[] = { "name",  "from",  "path",     "type", "element",
					    "count", "show",  "positive", "if",   "values",
					    "at",    "shift", "times",    NULL };
	struct recipe_arg *a = &fn->args[fn->n_args];
	int rc = rj__keys(j, o, "an argument", keys), type = 0;
	bool show = true;
	unsigned i;

	if (rc)
		return rc;
	fn->n_args++;
	if ((rc = rj__required(j, o, "an argument", "name")) ||
	    (rc = rj__text(j, o, "name", &a->name)) ||
	    (rc = rj__required(j, o, "an argument", "from")) ||
	    (rc = parse_from(j, rj__get(o, "from"), a)) ||
	    (rc = rj__required(j, o, "an argument", "type")) ||
	    (rc = rj__word_of(j, rj__get(o, "type"), "'type'", types, ARRAY_SIZE(types), &type)))
		return rc;
	a->type = (enum recipe_type)type;
	if ((rc = parse_path(j, r, o, a)) || (rc = parse_count(j, o, a)) ||
	    (rc = rj__bool(j, o, "show", &show)) ||
	    (rc = rj__bool(j, o, "positive", &a->positive)) || (rc = parse_values(j, o, a)))
		return rc;
	a->hidden = !show;
	if ((rc = parse_arithmetic(j, o, a)) || (rc = parse_at(j, o, fn, a)))
		return rc;
	if (strlen(a->name) > 63 || strpbrk(a->name, "{}$"))
		return rj__bad(j, rj__get(o, "name"),
			       "the name of an argument has at most 63 bytes and no '{', '}' or "
			       "'$'");
	if ((a->type == RECIPE_F32 || a->type == RECIPE_F64) && !a->n_path)
		return rj__bad(j, o, "'%s': %s can be read from memory only, so it needs a 'path'",
			       a->name, types[a->type]);
	if (a->positive && is_text(a->type) && a->type != RECIPE_ARRAY && a->type != RECIPE_COUNTED)
		return rj__bad(j, rj__get(o, "positive"), "'positive' is for numbers, '%s' is text",
			       a->name);
	for (i = 0; i + 1 < fn->n_args; i++)
		if (strcmp(fn->args[i].name, a->name) == 0)
			return rj__bad(j, rj__get(o, "name"), "two arguments have the name '%s'",
				       a->name);
	return 0;
}

static int parse_args(const struct rj *j, const struct recipe *r, const cJSON *o,
		      struct recipe_function *fn)
{
	const cJSON *first, *c;
	unsigned i, texts = 0;
	size_t n;
	int rc = rj__array(j, o, "args", RECIPE_MAX_ARGS, &first, &n);

	for (c = first; c && !rc; c = c->next)
		rc = parse_arg(j, r, c, fn);
	/* Conditions may speak of arguments further down. */
	for (c = first, i = 0; c && !rc; c = c->next, i++) {
		struct recipe_arg *a = &fn->args[i];

		rc = parse_ifs(j, c, fn, &a->ifs);
		if (!rc && !at_return(fn, (int)i) && ifs_at_return(fn, &a->ifs))
			return rj__bad(j, rj__get(c, "if"),
				       "'%s' is read at entry, where what the function returns is "
				       "not known",
				       a->name);
		if (is_text(a->type) && !at_return(fn, (int)i) && ++texts > 4)
			return rj__bad(j, c, "at most 4 arguments at entry may be texts or arrays");
	}
	return rc;
}

/* --- names --------------------------------------------------------------------------------------------- */

static unsigned stars(const char *glob)
{
	unsigned n = 0;

	for (; *glob; glob++)
		n += *glob == '*';
	return n;
}

static int check_name(const struct rj *j, const cJSON *at, const struct recipe_function *fn,
		      const char *text)
{
	bool returned = false;
	const char *p;
	size_t i;
	int rc = check_braces(j, at, fn, text, &returned);

	if (rc)
		return rc;
	if (returned)
		return rj__bad(j, at,
			       "a name cannot hold what the function returns: it is needed "
			       "at entry");
	for (p = text; *p; p++) {
		if (*p != '$' || !isdigit((unsigned char)p[1]) || p[1] == '0')
			continue;
		for (i = 0; i < fn->n_match; i++)
			if (stars(fn->match[i]) < (unsigned)(p[1] - '0'))
				return rj__bad(j, at, "'$%c', but '%.100s' has %u stars", p[1],
					       fn->match[i], stars(fn->match[i]));
	}
	return 0;
}

static int parse_name(const struct rj *j, const cJSON *item, struct recipe_function *fn)
{
	static const char *const keys[] = { "if", "text", NULL };
	struct recipe_name *name = &fn->names[fn->n_names];
	int rc;

	if (fn->n_names && !fn->names[fn->n_names - 1].ifs.n)
		return rj__bad(j, item, "this name is never used: the one before has no 'if'");
	fn->n_names++;
	if (cJSON_IsString(item)) {
		rc = rj__text_of(j, item, "'name'", &name->text);
		return rc ? rc : check_name(j, item, fn, name->text);
	}
	if ((rc = rj__keys(j, item, "a name", keys)) ||
	    (rc = rj__required(j, item, "a name", "text")) ||
	    (rc = rj__text(j, item, "text", &name->text)) ||
	    (rc = parse_ifs(j, item, fn, &name->ifs)))
		return rc;
	if (ifs_at_return(fn, &name->ifs))
		return rj__bad(j, rj__get(item, "if"),
			       "a name is chosen at entry, where what the function returns is not "
			       "known");
	return check_name(j, item, fn, name->text);
}

static int parse_names(const struct rj *j, const cJSON *o, struct recipe_function *fn)
{
	const cJSON *item = rj__get(o, "name"), *c;
	int rc = 0;

	if (item && !cJSON_IsArray(item))
		rc = parse_name(j, item, fn);
	if (item && cJSON_IsArray(item) && !item->child)
		return rj__bad(j, item, "'name' is an empty list");
	for (c = item && cJSON_IsArray(item) ? item->child : NULL; c && !rc; c = c->next) {
		if (fn->n_names == RECIPE_MAX_NAMES)
			return rj__bad(j, c, "more than %d names", RECIPE_MAX_NAMES);
		rc = parse_name(j, c, fn);
	}
	if (rc || (fn->n_names && !fn->names[fn->n_names - 1].ifs.n))
		return rc;
	if (fn->n_names == RECIPE_MAX_NAMES)
		return rj__bad(j, item, "the last of %d names must have no 'if'", RECIPE_MAX_NAMES);
	fn->names[fn->n_names].text = strdup("$0");
	return fn->names[fn->n_names++].text ? 0 : rj__no_memory(j);
}

/* --- meanings -------------------------------------------------------------------------------------------- */

static int does_keys(const struct rj *j, const cJSON *o, const struct meaning *m)
{
	const char *keys[10], *must[4], *word;
	size_t n = 0, k = 0, i;
	char what[64];
	int rc;

	keys[n++] = "what";
	keys[n++] = "when";
	keys[n++] = "if";
	if (m->name)
		keys[n++] = m->name;
	if (m->id)
		keys[n++] = m->id;
	if (m->amount)
		keys[n++] = m->amount;
	if (m->device)
		keys[n++] = "device";
	/* Where memory comes from is told with the block. */
	if (m->device && m->amount)
		keys[n++] = "device_name";
	keys[n] = NULL;
	word = m->what;
	snprintf(what, sizeof(what), "'%s'", word);
	rc = rj__keys(j, o, what, keys);
	if (m->name_must)
		must[k++] = m->name;
	if (m->id_must)
		must[k++] = m->id;
	if (m->amount_must)
		must[k++] = m->amount;
	for (i = 0; i < k && !rc; i++)
		rc = rj__required(j, o, what, must[i]);
	return rc;
}

static int parse_when(const struct rj *j, const cJSON *o, const struct recipe_function *fn,
		      struct recipe_does *d, bool returned)
{
	static const char *const whens[] = { "", "entry", "return" };
	const cJSON *item = rj__get(o, "when");
	int when = 0, rc;

	returned |= at_return(fn, d->id) || at_return(fn, d->amount) || at_return(fn, d->device) ||
		    ifs_at_return(fn, &d->ifs);
	rc = item ? rj__word_of(j, item, "'when'", whens, ARRAY_SIZE(whens), &when) : 0;
	if (rc)
		return rc;
	if (when == 1 && returned)
		return rj__bad(j, item,
			       "'%s' at entry uses what the function returns, which is not known "
			       "there",
			       meanings[d->what].what);
	d->at_return = returned || when == 2;
	return 0;
}

static int parse_does(const struct rj *j, const cJSON *o, struct recipe_function *fn)
{
	struct recipe_does *d = &fn->does[fn->n_does];
	const char *whats[ARRAY_SIZE(meanings)];
	const struct meaning *m;
	bool returned = false;
	const cJSON *item;
	int rc, what = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(meanings); i++)
		whats[i] = meanings[i].what;
	if (!cJSON_IsObject(o))
		return rj__bad(j, o, "an entry of 'does' must be an object: { ... }");
	if ((rc = rj__required(j, o, "an entry of 'does'", "what")) ||
	    (rc = rj__word_of(j, rj__get(o, "what"), "'what'", whats, ARRAY_SIZE(whats), &what)))
		return rc;
	fn->n_does++;
	m = &meanings[what];
	*d = (struct recipe_does){ .what = (enum recipe_what)what,
				   .id = -1,
				   .amount = -1,
				   .device = -1,
				   .amount_value = what == RECIPE_REQUEST_OUTPUT ? 1 : 0 };
	if ((rc = does_keys(j, o, m)) || (m->name && (rc = rj__text(j, o, m->name, &d->name))) ||
	    (m->amount &&
	     (rc = number_or_arg(j, o, m->amount, fn, &d->amount, &d->amount_value))) ||
	    (rc = number_or_arg(j, o, "device", fn, &d->device, &d->device_value)) ||
	    (rc = rj__text(j, o, "device_name", &d->device_name)) ||
	    (rc = parse_ifs(j, o, fn, &d->ifs)))
		return rc;
	item = m->id ? rj__get(o, m->id) : NULL;
	if (item &&
	    (rc = integer_arg(j, item, what <= RECIPE_RELEASE ? "'address'" : "'id'", fn, &d->id)))
		return rc;
	item = m->name ? rj__get(o, m->name) : NULL;
	if (item && (rc = check_braces(j, item, fn, d->name, &returned)))
		return rc;
	item = rj__get(o, "device_name");
	if (item && (rc = check_braces(j, item, fn, d->device_name, &returned)))
		return rc;
	return parse_when(j, o, fn, d, returned);
}

static int parse_all_does(const struct rj *j, const cJSON *o, struct recipe_function *fn)
{
	const cJSON *c;
	size_t n;
	int rc = rj__array(j, o, "does", RECIPE_MAX_DOES, &c, &n);

	for (; c && !rc; c = c->next)
		rc = parse_does(j, c, fn);
	return rc;
}

static int parse_keep_one(const struct rj *j, const cJSON *item, struct recipe_function *fn)
{
	static const char *const keys[] = { "arg", "at_least", "known", NULL };
	bool known = false;
	int64_t least = 0;
	int rc, arg = -1;

	if ((rc = rj__keys(j, item, "'keep'", keys)) ||
	    (rc = rj__required(j, item, "'keep'", "arg")) ||
	    (rc = integer_arg(j, rj__get(item, "arg"), "the 'arg' of 'keep'", fn, &arg)) ||
	    (rc = rj__bool(j, item, "known", &known)) ||
	    (rc = rj__int(j, item, "at_least", 0, 1ll << 53, &least)))
		return rc;
	if (known == !!rj__get(item, "at_least"))
		return rj__bad(j, item, "'keep' needs either \"at_least\": N or \"known\": true");
	if (at_return(fn, arg))
		return rj__bad(j, item,
			       "'keep' is decided at entry, where what the function returns is not "
			       "known");
	if ((known ? fn->keep_block : fn->keep_size) >= 0)
		return rj__bad(j, item, "'keep' has \"%s\" twice", known ? "known" : "at_least");
	if (known) {
		fn->keep_block = arg;
	} else {
		fn->keep_size = arg;
		fn->keep_min = (uint64_t)least;
	}
	return 0;
}

/* Texts are looked for by how they begin, which must be told apart from what else a file holds. */
#define MIN_BEGINNING 3u

static int parse_cut(const struct rj *j, const cJSON *item, struct recipe_function *fn)
{
	if (!item)
		return 0;
	if (!cJSON_IsString(item) || strlen(item->valuestring) != 1)
		return rj__bad(j, item,
			       "'cut_to_text' must be the one character at which the name may be "
			       "cut: \"_\"");
	if (fn->n_names != 1 || strcspn(fn->names[0].text, "${") < MIN_BEGINNING ||
	    strchr(fn->names[0].text, '{'))
		return rj__bad(j, item,
			       "'cut_to_text' needs one 'name' that begins with a text of its own "
			       "and holds no "
			       "argument: \"ns::$1\"");
	fn->cut_at = item->valuestring[0];
	return 0;
}

/* One condition, or a list of which any will do. */
static int parse_keep(const struct rj *j, const cJSON *item, struct recipe_function *fn)
{
	const cJSON *c;
	int rc = 0;

	fn->keep_size = fn->keep_block = -1;
	if (!item || !cJSON_IsArray(item))
		return item ? parse_keep_one(j, item, fn) : 0;
	if (!item->child)
		return rj__bad(j, item, "'keep' is an empty list");
	for (c = item->child; c && !rc; c = c->next)
		rc = parse_keep_one(j, c, fn);
	return rc;
}

/* --- functions ---------------------------------------------------------------------------------------------- */

static int parse_table_of(const struct rj *j, const struct recipe *r, const cJSON *o,
			  struct recipe_function *fn)
{
	const cJSON *item = rj__get(o, "table");
	const char *names[RECIPE_MAX_TABLES];
	char hint[256];
	size_t i;

	fn->table = -1;
	if (!item)
		return 0;
	if (!cJSON_IsString(item))
		return rj__bad(j, item, "'table' must be the name of one of 'tables'");
	for (i = 0; i < r->n_tables; i++) {
		names[i] = r->tables[i].name;
		if (strcmp(names[i], item->valuestring) == 0) {
			fn->table = (int)i;
			if (!rj__get(o, "library"))
				fn->libraries = r->tables[i].libraries;
			return 0;
		}
	}
	rj__suggest(item->valuestring, names, i, hint, sizeof(hint));
	return rj__bad(j, item, "there is no table '%.60s'%s", item->valuestring, hint);
}

/* A pattern on slots that fits none is a misspelt one: all slots are known here. */
static int check_slots(const struct rj *j, const struct recipe *r, const cJSON *o,
		       const struct recipe_function *fn)
{
	const struct recipe_table *t = &r->tables[fn->table];
	size_t i, k;

	for (i = 0; i < fn->n_match; i++) {
		const char *slot = fn->match[i], *p;

		/* Which classes there are, only the file tells. */
		while (t->derived_from && (p = strstr(slot, "::")))
			slot = p + 2;
		for (k = 0; k < t->n_slots && !text__glob(slot, t->slots[k].name); k++)
			;
		if (k == t->n_slots)
			return rj__bad(j, rj__get(o, "match"),
				       "table '%s' has no slot named '%.100s'", t->name,
				       fn->match[i]);
	}
	return 0;
}

static int parse_function(const struct rj *j, struct recipe *r, const cJSON *o)
{
	static const char *const keys[] = { "library", "match",    "except",      "table", "name",
					    "span",    "category", "off",         "group", "args",
					    "does",    "keep",     "cut_to_text", "only",  NULL };
	struct recipe_function *fn = &r->functions[r->n_functions];
	int rc = rj__keys(j, o, "a function", keys);

	if (rc)
		return rc;
	r->n_functions++;
	fn->span = true;
	if ((rc = rj__required(j, o, "a function", "match")) ||
	    (rc = rj__libraries(j, r, o, &fn->libraries)) || (rc = parse_table_of(j, r, o, fn)) ||
	    (rc = rj__texts(j, o, "match", &fn->match, &fn->n_match)) ||
	    (rc = rj__texts(j, o, "only", &fn->only, &fn->n_only)) ||
	    (rc = rj__texts(j, o, "except", &fn->except, &fn->n_except)) ||
	    (rc = rj__bool(j, o, "span", &fn->span)) ||
	    (rc = rj__text(j, o, "category", &fn->category)) ||
	    (rc = rj__text(j, o, "off", &fn->why_off)) ||
	    (rc = rj__text(j, o, "group", &fn->group)) || (rc = parse_args(j, r, o, fn)) ||
	    (rc = parse_names(j, o, fn)) || (rc = parse_cut(j, rj__get(o, "cut_to_text"), fn)) ||
	    (rc = parse_all_does(j, o, fn)) || (rc = parse_keep(j, rj__get(o, "keep"), fn)))
		return rc;
	fn->line = (unsigned)rj__get(o, "match")->valueint;
	fn->off = fn->why_off != NULL;
	if (fn->table >= 0 && (rc = check_slots(j, r, o, fn)))
		return rc;
	if (!fn->span && !fn->n_does)
		return rj__bad(j, o, "no span, and it 'does' nothing: this function says nothing");
	if (fn->group && !fn->off)
		return rj__bad(j, rj__get(o, "group"),
			       "'group' is for functions that are off: add \"off\": \"why\"");
	if (fn->group && (strcmp(fn->group, "all") == 0 || strpbrk(fn->group, ":/,")))
		return rj__bad(j, rj__get(o, "group"),
			       "a group cannot be named 'all' or hold ':', '/' or ','");
	return 0;
}

int recipe__parse_functions(const struct rj *j, struct recipe *r, const cJSON *first)
{
	const cJSON *c;
	int rc = 0;

	for (c = first; c && !rc; c = c->next)
		rc = parse_function(j, r, c);
	return rc;
}

void recipe_function__free(struct recipe_function *fn)
{
	unsigned i;
	size_t k;

	texts__free(fn->match, fn->n_match);
	texts__free(fn->only, fn->n_only);
	texts__free(fn->except, fn->n_except);
	free(fn->group);
	free(fn->why_off);
	free(fn->category);
	for (i = 0; i < fn->n_names; i++)
		free(fn->names[i].text);
	for (i = 0; i < fn->n_args; i++) {
		for (k = 0; k < fn->args[i].n_values; k++)
			free(fn->args[i].values[k].text);
		free(fn->args[i].values);
		free(fn->args[i].name);
	}
	for (i = 0; i < fn->n_does; i++) {
		free(fn->does[i].name);
		free(fn->does[i].device_name);
	}
}
