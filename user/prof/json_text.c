// SPDX-License-Identifier: Apache-2.0
#include "user/prof/json_text.h"

#include <string.h>

static const struct json_text nothing;

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(struct json_text *t)
{
	while (t->p < t->end && is_blank(*t->p))
		t->p++;
}

/* Behind the string that begins at @p; NULL when it has no end. */
static const char *end_of_string(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\')
			p++;
	return p < end ? p + 1 : NULL;
}

static const char *end_of_scalar(const char *p, const char *end)
{
	while (p < end && !is_blank(*p) && *p != ',' && *p != '}' && *p != ']' && *p != ':')
		p++;
	return p;
}

static const char *end_of_value(const char *p, const char *end)
{
	size_t depth = 0;

	if (p < end && *p != '{' && *p != '[' && *p != '"')
		return end_of_scalar(p, end);
	do {
		if (p >= end)
			return NULL;
		if (*p == '"') {
			p = end_of_string(p, end);
			if (!p)
				return NULL;
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		p++;
	} while (depth);
	return p;
}

struct json_text json_text__value(struct json_text *t)
{
	struct json_text v;

	if (!t->p)
		return nothing;
	skip_blanks(t);
	v.p = t->p;
	v.end = t->p < t->end ? end_of_value(t->p, t->end) : NULL;
	if (!v.end || v.end == v.p)
		return *t = nothing;
	t->p = v.end;
	return v;
}

/* Moves over @c. */
static bool take(struct json_text *t, char c)
{
	if (!t->p)
		return false;
	skip_blanks(t);
	if (t->p >= t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

struct json_text json_text__member(struct json_text object, const char *path)
{
	size_t len = strcspn(path, ".");
	struct json_text key, value;

	if (!take(&object, '{'))
		return nothing;
	do {
		key = json_text__value(&object);
		if (!key.p || !take(&object, ':'))
			return nothing;
		value = json_text__value(&object);
		if ((size_t)(key.end - key.p) != len + 2 || memcmp(key.p + 1, path, len))
			continue;
		return path[len] ? json_text__member(value, path + len + 1) : value;
	} while (take(&object, ','));
	return nothing;
}

struct json_text json_text__element(struct json_text *at)
{
	if (!take(at, '[') && !take(at, ','))
		return nothing;
	return json_text__value(at);
}
