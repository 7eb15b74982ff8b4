// SPDX-License-Identifier: Apache-2.0
#include "user/cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Length of the UTF-8 sequence at @s (1 to 4), 0 when it is none. @cp gets the code point. The
 * second byte's bounds refuse overlong forms, surrogates and what lies above U+10FFFF.
 */
static size_t utf8_sequence(const unsigned char *s, uint32_t *cp)
{
	unsigned char lo = 0x80, hi = 0xbf;
	size_t len, i;

	if (s[0] < 0x80) {
		*cp = s[0];
		return 1;
	}
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		len = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		len = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (s[0] == 0xe0)
		lo = 0xa0;
	else if (s[0] == 0xed)
		hi = 0x9f;
	else if (s[0] == 0xf0)
		lo = 0x90;
	else if (s[0] == 0xf4)
		hi = 0x8f;
	if (s[1] < lo || s[1] > hi)
		return 0;
	*cp = s[0] & (0xff >> (len + 1));
	*cp = *cp << 6 | (s[1] & 0x3f);
	for (i = 2; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*cp = *cp << 6 | (s[i] & 0x3f);
	}
	return len;
}

/* C0, DEL, C1; and what turns text around or hides it, so that a name cannot pose as another. */
static bool shown_escaped(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || (cp >= 0x200b && cp <= 0x200f) ||
	       (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) || cp == 0xfeff;
}

char *text__printable(const char *str)
{
	const unsigned char *s = (const unsigned char *)str;
	char *out = malloc(4 * strlen(str) + 1), *to = out;

	if (!out)
		return NULL;
	while (*s) {
		uint32_t cp = 0;
		size_t len = utf8_sequence(s, &cp), i;

		if (len && !shown_escaped(cp)) {
			memcpy(to, s, len);
			to += len;
			s += len;
			continue;
		}
		for (i = 0; i < (len ? len : 1); i++)
			to += sprintf(to, "\\x%02x", *s++);
	}
	*to = 0;
	return out;
}

char *text__utf8(const char *str)
{
	const unsigned char *s = (const unsigned char *)str;
	char *out = malloc(3 * strlen(str) + 1), *to = out;

	if (!out)
		return NULL;
	while (*s) {
		uint32_t cp;
		size_t len = utf8_sequence(s, &cp);

		if (len) {
			memcpy(to, s, len);
			to += len;
			s += len;
		} else {
			memcpy(to, "\xef\xbf\xbd", 3);
			to += 3;
			s++;
		}
	}
	*to = 0;
	return out;
}

size_t text__width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

struct table {
	size_t columns, n, cap;
	char **cells;
	bool failed;
};

struct table *table__new(size_t columns)
{
	struct table *t = calloc(1, sizeof(*t));

	if (t)
		t->columns = columns;
	return t;
}

void table__free(struct table *t)
{
	size_t i;

	if (!t)
		return;
	for (i = 0; i < t->n; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t);
}

void table__cell(struct table *t, const char *s)
{
	if (t->n == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 64;
		char **cells = realloc(t->cells, cap * sizeof(*cells));

		if (!cells) {
			t->failed = true;
			return;
		}
		t->cells = cells;
		t->cap = cap;
	}
	t->cells[t->n] = text__printable(s && *s ? s : "-");
	if (!t->cells[t->n])
		t->failed = true;
	else
		t->n++;
}

int table__print(const struct table *t, FILE *out)
{
	size_t *width = calloc(t->columns, sizeof(*width));
	size_t i;

	if (!width || t->failed) {
		free(width);
		return -ENOMEM;
	}
	for (i = 0; i < t->n; i++) {
		size_t w = text__width(t->cells[i]);

		if (w > width[i % t->columns])
			width[i % t->columns] = w;
	}
	for (i = 0; i < t->n; i++) {
		size_t col = i % t->columns, pad = width[col] - text__width(t->cells[i]);

		fputs(t->cells[i], out);
		if (col + 1 == t->columns)
			fputc('\n', out);
		else
			fprintf(out, "%*s", (int)pad + 2, "");
	}
	free(width);
	return 0;
}

static void format_scaled(char *to, size_t n, double v, double step, const char *const *units)
{
	while (v >= step * 0.9995 && units[1]) {
		v /= step;
		units++;
	}
	snprintf(to, n, v < 99.95 && v != (double)(long)v ? "%.1f%s" : "%.0f%s", v, *units);
}

void format__bytes(char *to, size_t n, uint64_t bytes)
{
	static const char *const units[] = { " B", " kB", " MB", " GB", " TB", NULL };

	format_scaled(to, n, (double)bytes, 1000, units);
}

void format__count(char *to, size_t n, uint64_t count)
{
	static const char *const units[] = { "", " k", " M", " G", NULL };

	format_scaled(to, n, (double)count, 1000, units);
}

void format__duration(char *to, size_t n, uint64_t ns)
{
	static const char *const units[] = { " ns", " us", " ms", " s", NULL };

	if (ns >= 60000000000ull)
		snprintf(to, n, "%llu:%02llu min", (unsigned long long)(ns / 60000000000ull),
			 (unsigned long long)(ns / 1000000000ull % 60));
	else
		format_scaled(to, n, (double)ns, 1000, units);
}
