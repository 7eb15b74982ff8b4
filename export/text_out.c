// SPDX-License-Identifier: Apache-2.0
#include "export/text_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_out__init(struct text_out *t, struct outfile *out, unsigned int columns)
{
	memset(t, 0, sizeof(*t));
	t->out = out;
	t->columns = columns < 60 ? 60 : columns > 1000 ? 1000 : columns;
}

void text_out__free(struct text_out *t)
{
	buf__free(&t->line);
}

int text_out__error(const struct text_out *t)
{
	return t->err ? t->err : buf__error(&t->line);
}

/* Characters, not bytes; what comes here is valid UTF-8. */
static size_t width_of(const char *s, size_t len)
{
	size_t i, n = 0;

	for (i = 0; i < len; i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80;
	return n;
}

/* Bytes of the first @width characters. */
static size_t bytes_of(const char *s, size_t len, size_t width)
{
	size_t i, n = 0;

	for (i = 0; i < len; i++)
		if (((unsigned char)s[i] & 0xc0) != 0x80 && n++ == width)
			break;
	return i;
}

static void put(struct text_out *t, const void *p, size_t n)
{
	int err = outfile__write(t->out, p, n);

	if (err && !t->err)
		t->err = err;
}

/* Ends the line that was collected, cut to the width, without blanks at its end. */
static void end_line(struct text_out *t)
{
	const char *s = (const char *)t->line.data;
	size_t len = t->line.len;

	if (width_of(s, len) > t->columns) {
		len = bytes_of(s, len, t->columns - 3);
		put(t, s, len);
		put(t, "...\n", 4);
	} else {
		while (len && s[len - 1] == ' ')
			len--;
		put(t, s, len);
		put(t, "\n", 1);
	}
	buf__reset(&t->line);
}

void text_out__line(struct text_out *t, const char *fmt, ...)
{
	char small[512], *text = small;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n >= (int)sizeof(small)) {
		va_start(ap, fmt);
		n = vasprintf(&text, fmt, ap);
		va_end(ap);
	}
	if (n < 0)
		return;
	text__append_printable(&t->line, text, (size_t)n);
	end_line(t);
	if (text != small)
		free(text);
}

void text_out__heading(struct text_out *t, const char *text)
{
	size_t n = strlen(text);

	put(t, "\n", 1);
	put(t, text, n);
	put(t, "\n", 1);
	while (n--)
		put(t, "-", 1);
	put(t, "\n", 1);
}

static void pad(struct buf *b, size_t n)
{
	while (n--)
		buf__append(b, " ", 1);
}

void text_out__wrap(struct text_out *t, unsigned int indent, const char *text, size_t len)
{
	struct buf shown = { 0 };
	size_t from = 0, to, room;
	const char *s;
	bool first = true;

	text__append_printable(&shown, text, len);
	s = (const char *)shown.data;
	while (from < shown.len) {
		room = t->columns - (first ? 0 : indent);
		if (!first)
			pad(&t->line, indent);
		to = from + bytes_of(s + from, shown.len - from, room);
		if (to < shown.len) {
			size_t space = to;

			while (space > from && s[space] != ' ')
				space--;
			to = space > from ? space : to;
		}
		buf__append(&t->line, s + from, to - from);
		end_line(t);
		while (to < shown.len && s[to] == ' ')
			to++;
		from = to;
		first = false;
	}
	buf__free(&shown);
}

/* --- tables ---------------------------------------------------------------------------------- */

static void right(struct buf *b, const char *text, unsigned int width)
{
	size_t n = width_of(text, strlen(text));

	buf__append(b, " ", 1);
	if (n < width)
		pad(b, width - n);
	buf__append(b, text, strlen(text));
}

void text_table__begin(struct text_table *tab, struct text_out *t, const char *what,
		       const char *const *titles, const unsigned int *widths, unsigned int n)
{
	unsigned int i, used = 0;

	tab->t = t;
	tab->n = n < ARRAY_SIZE(tab->width) ? n : ARRAY_SIZE(tab->width);
	for (i = 0; i < tab->n; i++) {
		tab->width[i] = widths[i];
		used += widths[i] + 1;
	}
	tab->first = t->columns > used + 12 ? t->columns - used : 12;
	buf__append(&t->line, what, strlen(what));
	if (strlen(what) < tab->first)
		pad(&t->line, tab->first - strlen(what));
	for (i = 0; i < tab->n; i++)
		right(&t->line, titles[i], tab->width[i]);
	end_line(t);
}

void text_table__row(struct text_table *tab, const char *name, size_t len,
		     const char (*cells)[TEXT_CELL])
{
	struct text_out *t = tab->t;
	size_t width, from = t->line.len;
	unsigned int i;

	text__append_printable(&t->line, name, len);
	width = width_of((const char *)t->line.data + from, t->line.len - from);
	if (width > tab->first) {
		end_line(t);
		width = 0;
	}
	pad(&t->line, tab->first - width);
	for (i = 0; i < tab->n; i++)
		right(&t->line, cells[i], tab->width[i]);
	end_line(t);
}

/* --- numbers --------------------------------------------------------------------------------- */

/* Three significant digits of n / unit. */
static void scaled(char *out, uint64_t n, uint64_t unit, const char *name)
{
	double v = (double)n / (double)unit;

	snprintf(out, TEXT_CELL,
		 v < 9.995   ? "%.2f %s"
		 : v < 99.95 ? "%.1f %s"
			     : "%.0f %s",
		 v, name);
}

void text__duration(char *out, uint64_t ns)
{
	if (ns < 1000)
		snprintf(out, TEXT_CELL, "%u ns", (unsigned int)ns);
	else if (ns < 999500)
		scaled(out, ns, 1000, "us");
	else if (ns < 999500000)
		scaled(out, ns, 1000000, "ms");
	else if (ns < 9999500000000)
		scaled(out, ns, 1000000000, "s");
	else
		scaled(out, ns, 3600000000000, "h");
}

void text__bytes(char *out, uint64_t bytes)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned int i = 0;

	if (bytes < 1000) {
		snprintf(out, TEXT_CELL - 1, "%u B", (unsigned int)bytes);
		return;
	}
	while (i + 1 < ARRAY_SIZE(units) && bytes >= 1023488ull << 10 * i)
		i++;
	scaled(out, bytes, 1024ull << 10 * i, units[i]);
}

void text__signed_bytes(char *out, int64_t bytes)
{
	if (bytes >= 0) {
		text__bytes(out, (uint64_t)bytes);
		return;
	}
	out[0] = '-';
	text__bytes(out + 1, 0 - (uint64_t)bytes);
}

void text__count(char *out, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), i;

	/* With separators the greatest numbers would not fit; nobody counts that far. */
	if (len > 15) {
		snprintf(out, TEXT_CELL, "%s", digits);
		return;
	}
	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
}

void text__percent(char *out, uint64_t part, uint64_t of)
{
	double p = of ? (double)part * 100 / (double)of : 0;

	snprintf(out, TEXT_CELL, p > 999.9 ? "%.0f%%" : "%.1f%%", p > 999999 ? 999999 : p);
}

void text__rate(char *out, uint64_t n, uint64_t ns)
{
	double r = ns ? (double)n * 1e9 / (double)ns : 0;

	snprintf(out, TEXT_CELL,
		 r < 9.995   ? "%.2f/s"
		 : r < 99.95 ? "%.1f/s"
			     : "%.0f/s",
		 r > 1e15 ? 1e15 : r);
}
