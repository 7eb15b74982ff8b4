// SPDX-License-Identifier: Apache-2.0
/*
 * JSON with comments for files that people write: cJSON reads it, and a second look over the
 * text gives every value its line. Root reads files of users, so size and depth are bounded
 * before cJSON, which recurses, sees them.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/recipe_json.h"

#define MAX_DEPTH 24u
#define MAX_EXACT ((double)(1ll << 53)) /* cJSON's numbers are doubles */

static unsigned line_of(const char *text, const char *at)
{
	unsigned line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

static int bad_at(const struct rj *j, unsigned line, const char *fmt, ...) CLIKA_PRINTF(3, 4);
static int bad_at(const struct rj *j, unsigned line, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return error__set(j->err, -EINVAL, "%s:%u: %s", j->shown_as, line, text);
}

int rj__bad(const struct rj *j, const cJSON *at, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return bad_at(j, at ? (unsigned)at->valueint : 1, "%s", text);
}

int rj__no_memory(const struct rj *j)
{
	return error__set(j->err, -ENOMEM, "%s: out of memory", j->shown_as);
}

/* --- text ------------------------------------------------------------------------------------ */

/* The end of the string that begins at @p. */
static char *string_end(char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\' && p + 1 < end)
			p++;
	return p < end ? p + 1 : p;
}

static void blank(char *from, const char *to)
{
	for (; from < to; from++)
		if (*from != '\n')
			*from = ' ';
}

/* Comments become blanks, newlines stay. Depth is checked on the way. */
static int prepare(const struct rj *j, char *text, size_t len)
{
	char *p = text, *end = text + len, *to;
	unsigned depth = 0;

	while (p < end) {
		if (*p == '"') {
			p = string_end(p, end);
		} else if (*p == '/' && p[1] == '/') {
			to = memchr(p, '\n', (size_t)(end - p));
			blank(p, to ? to : end);
			p = to ? to : end;
		} else if (*p == '/' && p[1] == '*') {
			to = memmem(p + 2, (size_t)(end - p - 2), "*/", 2);
			if (!to)
				return bad_at(j, line_of(text, p), "this comment has no end");
			blank(p, to + 2);
			p = to + 2;
		} else {
			if (*p == '{' || *p == '[')
				depth++;
			else if ((*p == '}' || *p == ']') && depth)
				depth--;
			if (depth > MAX_DEPTH)
				return bad_at(j, line_of(text, p), "nested deeper than any recipe");
			p++;
		}
	}
	return 0;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The last character before @p that is no blank, 0 = none. */
static char before(const char *text, const char *p)
{
	while (p > text && is_space(p[-1]))
		p--;
	return p > text ? p[-1] : 0;
}

static int syntax_error(const struct rj *j, const char *text, size_t len, const char *at)
{
	const char *end = text + len, *p = at, *eol;
	unsigned line;

	/* cJSON points one too far when it wanted a key. */
	if (p > text && (p[-1] == '}' || p[-1] == ']') && before(text, p - 1) == ',')
		p--;
	if (before(text, p) == ',' && (*p == '}' || *p == ']'))
		return bad_at(j, line_of(text, p), "a comma before '%c', with nothing behind it",
			      *p);
	while (p < end && is_space(*p))
		p++;
	line = line_of(text, p);
	if (p >= end)
		return bad_at(j, line, "the file ends in the middle: a '}' or ']' is missing");
	eol = memchr(p, '\n', (size_t)(end - p));
	if (!eol)
		eol = end;
	if (eol - p > 40)
		eol = p + 40;
	if (*p == '"' && strchr("\"}]", before(text, p)) && before(text, p))
		return bad_at(j, line, "a comma is missing before %.*s", (int)(eol - p), p);
	return bad_at(j, line, "not understood as JSON: %.*s", (int)(eol - p), p);
}

/* --- lines ------------------------------------------------------------------------------------ */

struct marks {
	char *p;
	const char *end;
	unsigned line;
};

static void go_to(struct marks *m, char *to)
{
	for (; m->p < to; m->p++)
		m->line += *m->p == '\n';
}

static void to_token(struct marks *m)
{
	char *p = m->p;

	while (p < m->end && ((unsigned char)*p <= ' ' || strchr(",:]}", *p)))
		p++;
	go_to(m, p);
}

static void over_word(struct marks *m)
{
	char *p = m->p;

	while (p < m->end && (unsigned char)*p > ' ' && !strchr(",]}", *p))
		p++;
	go_to(m, p);
}

/* cJSON's tree is in the order of the text: both are walked together. */
static void mark_lines(struct marks *m, cJSON *item)
{
	for (; item; item = item->next) {
		to_token(m);
		item->valueint = (int)m->line;
		if (item->string) {
			go_to(m, string_end(m->p, m->end));
			to_token(m);
		}
		if (cJSON_IsObject(item) || cJSON_IsArray(item)) {
			if (m->p < m->end)
				go_to(m, m->p + 1);
			mark_lines(m, item->child);
		} else if (cJSON_IsString(item)) {
			if (m->p < m->end)
				go_to(m, string_end(m->p, m->end));
		} else {
			over_word(m);
		}
	}
}

int rj__open(struct rj *j, const char *text, size_t len, const char *shown_as,
	     struct clika_error *err)
{
	static const char bom[] = "\xef\xbb\xbf";
	__cleanup_free char *copy = NULL;
	const char *at = NULL;
	struct marks m;
	int rc;

	*j = (struct rj){ .shown_as = shown_as, .err = err };
	if (len >= 3 && memcmp(text, bom, 3) == 0) {
		text += 3;
		len -= 3;
	}
	if (len > RECIPE_MAX_FILE)
		return error__set(err, -EFBIG, "%s: larger than a recipe may be (%u bytes)",
				  shown_as, RECIPE_MAX_FILE);
	if (memchr(text, 0, len))
		return error__set(err, -EINVAL, "%s: holds zero bytes, it is no text", shown_as);
	if (!utf8__valid(text, len))
		return error__set(err, -EINVAL, "%s: not UTF-8", shown_as);
	copy = strndup(text, len);
	if (!copy)
		return rj__no_memory(j);
	rc = prepare(j, copy, len);
	if (rc)
		return rc;
	j->root = cJSON_ParseWithLengthOpts(copy, len + 1, &at, 1);
	if (!j->root)
		return syntax_error(j, copy, len, at ? at : copy);
	m = (struct marks){ copy, copy + len, 1 };
	mark_lines(&m, j->root);
	return 0;
}

void rj__close(struct rj *j)
{
	cJSON_Delete(j->root);
	j->root = NULL;
}

/* --- suggestions -------------------------------------------------------------------------------- */

#define MAX_WORD 40u

/* Letters to add, leave out or change. */
static unsigned distance(const char *a, const char *b)
{
	size_t n = strlen(a), k = strlen(b), i, l;
	unsigned row[MAX_WORD + 1], diagonal, up;

	if (n > MAX_WORD || k > MAX_WORD)
		return MAX_WORD;
	for (l = 0; l <= k; l++)
		row[l] = (unsigned)l;
	for (i = 0; i < n; i++) {
		diagonal = row[0];
		row[0] = (unsigned)i + 1;
		for (l = 0; l < k; l++) {
			up = row[l + 1];
			row[l + 1] = diagonal + (a[i] != b[l]);
			if (up + 1 < row[l + 1])
				row[l + 1] = up + 1;
			if (row[l] + 1 < row[l + 1])
				row[l + 1] = row[l] + 1;
			diagonal = up;
		}
	}
	return row[k];
}

void rj__suggest(const char *word, const char *const *words, size_t n, char *to, size_t size)
{
	unsigned best = MAX_WORD, d;
	const char *nearest = NULL;
	size_t i, used;

	to[0] = 0;
	for (i = 0; i < n; i++) {
		d = words[i] ? distance(word, words[i]) : MAX_WORD;
		if (d < best) {
			best = d;
			nearest = words[i];
		}
	}
	if (nearest && best <= 1 + strlen(word) / 4) {
		snprintf(to, size, " (did you mean '%s'?)", nearest);
		return;
	}
	used = (size_t)snprintf(to, size, " (there are: ");
	for (i = 0, d = 0; i < n && used < size; i++) {
		if (!words[i])
			continue;
		used += (size_t)snprintf(to + used, size - used, "%s%s", d ? ", " : "", words[i]);
		d++;
	}
	if (!d)
		snprintf(to, size, " (there are none)");
	else if (used + 1 < size)
		snprintf(to + used, size - used, ")");
	else
		snprintf(to + size - 5, 5, "...)");
}

/* --- values --------------------------------------------------------------------------------------- */

const cJSON *rj__get(const cJSON *o, const char *key)
{
	const cJSON *c;

	for (c = o ? o->child : NULL; c; c = c->next)
		if (c->string && strcmp(c->string, key) == 0)
			return c;
	return NULL;
}

int rj__keys(const struct rj *j, const cJSON *o, const char *what, const char *const *known)
{
	const cJSON *c;
	char hint[256];
	size_t n = 0, i;

	if (!cJSON_IsObject(o))
		return rj__bad(j, o, "%s must be an object: { ... }", what);
	while (known[n])
		n++;
	for (c = o->child; c; c = c->next) {
		for (i = 0; i < n && strcmp(known[i], c->string) != 0; i++)
			;
		if (i == n) {
			rj__suggest(c->string, known, n, hint, sizeof(hint));
			return rj__bad(j, c, "%s has no '%.60s'%s", what, c->string, hint);
		}
		if (rj__get(o, c->string) != c)
			return rj__bad(j, c, "'%s' is there twice", c->string);
	}
	return 0;
}

int rj__required(const struct rj *j, const cJSON *o, const char *what, const char *key)
{
	if (rj__get(o, key))
		return 0;
	return rj__bad(j, o, "%s needs \"%s\"", what, key);
}

int rj__text_of(const struct rj *j, const cJSON *item, const char *what, char **out)
{
	const char *p;

	if (!cJSON_IsString(item))
		return rj__bad(j, item, "%s must be a text: \"...\"", what);
	if (!*item->valuestring)
		return rj__bad(j, item, "%s is empty", what);
	if (strlen(item->valuestring) > RECIPE_MAX_TEXT)
		return rj__bad(j, item, "%s is longer than %u bytes", what, RECIPE_MAX_TEXT);
	for (p = item->valuestring; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return rj__bad(j, item, "%s holds a control character", what);
	*out = strdup(item->valuestring);
	return *out ? 0 : rj__no_memory(j);
}

int rj__text(const struct rj *j, const cJSON *o, const char *key, char **out)
{
	const cJSON *item = rj__get(o, key);
	char what[64];

	if (!item)
		return 0;
	snprintf(what, sizeof(what), "'%s'", key);
	return rj__text_of(j, item, what, out);
}

/* A text, or a list of them. */
int rj__texts(const struct rj *j, const cJSON *o, const char *key, char ***out, size_t *n)
{
	const cJSON *item = rj__get(o, key), *c;
	char what[64];
	int rc, count;

	if (!item)
		return 0;
	snprintf(what, sizeof(what), "'%s'", key);
	if (!cJSON_IsString(item) && !cJSON_IsArray(item))
		return rj__bad(j, item, "%s must be a text or a list of texts", what);
	count = cJSON_IsArray(item) ? cJSON_GetArraySize(item) : 1;
	if (!count)
		return rj__bad(j, item, "%s is an empty list", what);
	if ((unsigned)count > RECIPE_MAX_LIST)
		return rj__bad(j, item, "%s has more than %u entries", what, RECIPE_MAX_LIST);
	*out = calloc((size_t)count, sizeof(**out));
	if (!*out)
		return rj__no_memory(j);
	for (c = cJSON_IsArray(item) ? item->child : item; c; c = c->next) {
		rc = rj__text_of(j, c, what, &(*out)[*n]);
		if (rc)
			return rc;
		(*n)++;
		if (c == item)
			break;
	}
	return 0;
}

int rj__int_of(const struct rj *j, const cJSON *item, const char *what, int64_t min, int64_t max,
	       int64_t *out)
{
	double v;

	if (!cJSON_IsNumber(item))
		return rj__bad(j, item, "%s must be a number", what);
	v = item->valuedouble;
	if (!(fabs(v) <= MAX_EXACT) || v != floor(v))
		return rj__bad(j, item, "%s must be a whole number below 2^53", what);
	if ((int64_t)v < min || (int64_t)v > max)
		return rj__bad(j, item, "%s must be from %lld to %lld", what, (long long)min,
			       (long long)max);
	*out = (int64_t)v;
	return 0;
}

int rj__int(const struct rj *j, const cJSON *o, const char *key, int64_t min, int64_t max,
	    int64_t *out)
{
	const cJSON *item = rj__get(o, key);
	char what[64];

	if (!item)
		return 0;
	snprintf(what, sizeof(what), "'%s'", key);
	return rj__int_of(j, item, what, min, max, out);
}

int rj__bool(const struct rj *j, const cJSON *o, const char *key, bool *out)
{
	const cJSON *item = rj__get(o, key);

	if (!item)
		return 0;
	if (!cJSON_IsBool(item))
		return rj__bad(j, item, "'%s' must be true or false", key);
	*out = cJSON_IsTrue(item);
	return 0;
}

int rj__word_of(const struct rj *j, const cJSON *item, const char *what, const char *const *words,
		size_t n, int *out)
{
	char hint[256];
	size_t i;

	if (!cJSON_IsString(item))
		return rj__bad(j, item, "%s must be a text: \"...\"", what);
	for (i = 1; i < n; i++) {
		if (words[i] && strcmp(words[i], item->valuestring) == 0) {
			*out = (int)i;
			return 0;
		}
	}
	rj__suggest(item->valuestring, words + 1, n - 1, hint, sizeof(hint));
	return rj__bad(j, item, "%s cannot be '%.60s'%s", what, item->valuestring, hint);
}

int rj__array(const struct rj *j, const cJSON *o, const char *key, size_t max, const cJSON **first,
	      size_t *n)
{
	const cJSON *item = rj__get(o, key);

	*first = NULL;
	*n = 0;
	if (!item)
		return 0;
	if (!cJSON_IsArray(item))
		return rj__bad(j, item, "'%s' must be a list: [ ... ]", key);
	*n = (size_t)cJSON_GetArraySize(item);
	if (*n > max)
		return rj__bad(j, item, "'%s' has %zu entries, at most %zu are possible", key, *n,
			       max);
	*first = item->child;
	return 0;
}

int rj__libraries(const struct rj *j, const struct recipe *r, const cJSON *o, uint64_t *out)
{
	const cJSON *item = rj__get(o, "library"), *c;
	const char *ids[RECIPE_MAX_LIBRARIES];
	char hint[256];
	size_t i;

	if (!item) {
		*out = r->n_libraries == 64 ? ~0ull : (1ull << r->n_libraries) - 1;
		return 0;
	}
	*out = 0;
	if (!cJSON_IsString(item) && (!cJSON_IsArray(item) || !item->child))
		return rj__bad(j, item, "'library' must be an id of 'libraries' or a list of them");
	for (c = cJSON_IsArray(item) ? item->child : item; c; c = c == item ? NULL : c->next) {
		if (!cJSON_IsString(c))
			return rj__bad(j, c, "'library' must hold ids of 'libraries'");
		for (i = 0; i < r->n_libraries; i++) {
			ids[i] = r->libraries[i].id;
			if (strcmp(ids[i], c->valuestring) == 0)
				break;
		}
		if (i == r->n_libraries) {
			rj__suggest(c->valuestring, ids, i, hint, sizeof(hint));
			return rj__bad(j, c, "no library has the id '%.60s'%s", c->valuestring,
				       hint);
		}
		*out |= 1ull << i;
	}
	return 0;
}
