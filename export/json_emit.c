// SPDX-License-Identifier: Apache-2.0
#include "export/json_emit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/digits.h"

/* As much as outfile__write() passes on without a copy. */
#define FLUSH_BYTES (256u << 10)

void json__init(struct json *j, struct outfile *out)
{
	memset(j, 0, sizeof(*j));
	j->out = out;
}

void json__free(struct json *j)
{
	buf__free(&j->b);
	buf__free(&j->scratch);
}

static void json__spill(struct json *j)
{
	int err = buf__error(&j->b);

	if (!j->out)
		return;
	if (!err && j->b.len)
		err = outfile__write(j->out, j->b.data, j->b.len);
	if (err && !j->err)
		j->err = err;
	buf__reset(&j->b);
}

int json__flush(struct json *j)
{
	json__spill(j);
	return j->err;
}

/* Out of line: rare. */
static __attribute__((noinline)) char *more_room(struct json *j, size_t n)
{
	if (j->b.len >= FLUSH_BYTES)
		json__spill(j);
	if (buf__reserve(&j->b, n < FLUSH_BYTES ? FLUSH_BYTES + n : n)) {
		j->err = j->err ? j->err : -ENOMEM;
		return NULL;
	}
	return (char *)j->b.data + j->b.len;
}

/* Room for @n more bytes; they are then written without further checks. */
static inline char *room(struct json *j, size_t n)
{
	if (j->b.len >= FLUSH_BYTES || j->b.cap - j->b.len < n)
		return more_room(j, n);
	return (char *)j->b.data + j->b.len;
}

char *json__room(struct json *j, size_t n)
{
	return room(j, n);
}

static inline void used(struct json *j, const char *end)
{
	j->b.len = (size_t)(end - (char *)j->b.data);
}

static void literal(struct json *j, const char *s, size_t n)
{
	char *p = room(j, n + 1);

	if (!p)
		return;
	if (j->comma)
		*p++ = ',';
	memcpy(p, s, n);
	used(j, p + n);
	j->comma = true;
}

static void open_with(struct json *j, char c)
{
	char *p = room(j, 2);

	if (!p)
		return;
	if (j->comma)
		*p++ = ',';
	*p++ = c;
	used(j, p);
	j->comma = false;
}

static void close_with(struct json *j, char c)
{
	char *p = room(j, 1);

	if (!p)
		return;
	*p++ = c;
	used(j, p);
	j->comma = true;
}

void json__object(struct json *j)
{
	open_with(j, '{');
}

void json__end_object(struct json *j)
{
	close_with(j, '}');
}

void json__array(struct json *j)
{
	open_with(j, '[');
}

void json__end_array(struct json *j)
{
	close_with(j, ']');
}

void json__key_len(struct json *j, const char *key, size_t n)
{
	char *p = room(j, n + 4);

	if (!p)
		return;
	if (j->comma)
		*p++ = ',';
	*p++ = '"';
	memcpy(p, key, n);
	p += n;
	*p++ = '"';
	*p++ = ':';
	used(j, p);
	j->comma = false;
}

void json__raw_key(struct json *j, const char *s, size_t len)
{
	char *p = room(j, len + 2);

	if (!p)
		return;
	if (j->comma)
		*p++ = ',';
	memcpy(p, s, len);
	p += len;
	*p++ = ':';
	used(j, p);
	j->comma = false;
}

void json__line(struct json *j)
{
	char *p = room(j, 2);

	if (!p)
		return;
	if (j->comma) {
		*p++ = ',';
		j->comma = false;
	}
	*p++ = '\n';
	used(j, p);
}

/* What a byte becomes: 0 itself, 1 six characters, else backslash and this. */
static const char escapes[256] = {
	[0 ... 7] = 1, ['\b'] = 'b',    ['\t'] = 't', ['\n'] = 'n',  [11] = 1,  ['\f'] = 'f',
	['\r'] = 'r',  [14 ... 31] = 1, ['"'] = '"',  ['\\'] = '\\', [127] = 1,
};

/* @p has room for six times @len. */
static char *escape_into(char *p, const char *s, size_t len)
{
	static const char hex[] = "0123456789abcdef";
	size_t i;

	for (i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];
		char e = escapes[c];

		if (!e) {
			*p++ = (char)c;
		} else if (e == 1) {
			memcpy(p, "\\u00", 4);
			p[4] = hex[c >> 4];
			p[5] = hex[c & 15];
			p += 6;
		} else {
			*p++ = '\\';
			*p++ = e;
		}
	}
	return p;
}

static bool all_ascii(const char *s, size_t len)
{
	unsigned char any = 0;
	size_t i;

	for (i = 0; i < len; i++)
		any |= (unsigned char)s[i];
	return any < 0x80;
}

static void put_str(struct json *j, const char *s, size_t len, char after)
{
	char *p;

	if (!all_ascii(s, len) && !utf8__valid(s, len)) {
		buf__reset(&j->scratch);
		utf8__append_valid(&j->scratch, s, len);
		if (buf__error(&j->scratch)) {
			j->err = j->err ? j->err : -ENOMEM;
			return;
		}
		s = (const char *)j->scratch.data;
		len = j->scratch.len;
	}
	p = room(j, 6 * len + 4);
	if (!p)
		return;
	if (j->comma)
		*p++ = ',';
	*p++ = '"';
	p = escape_into(p, s, len);
	*p++ = '"';
	if (after)
		*p++ = after;
	used(j, p);
	j->comma = !after;
}

void json__key_str(struct json *j, const char *key, size_t len)
{
	put_str(j, key, len, ':');
}

void json__str(struct json *j, const char *s, size_t len)
{
	put_str(j, s, len, 0);
}

void json__cstr(struct json *j, const char *s)
{
	if (s)
		json__str(j, s, strlen(s));
	else
		json__null(j);
}

void json__escape(struct buf *out, const char *s, size_t len)
{
	struct buf fixed = { 0 };
	char *p;

	utf8__append_valid(&fixed, s, len);
	if (!buf__error(&fixed) && !buf__reserve(out, 6 * fixed.len + 2)) {
		p = (char *)out->data + out->len;
		*p++ = '"';
		p = escape_into(p, (const char *)fixed.data, fixed.len);
		*p++ = '"';
		out->len = (size_t)(p - (char *)out->data);
	}
	out->failed |= fixed.failed;
	buf__free(&fixed);
}

/* One number with its sign. */
static void put_number(struct json *j, bool minus, uint64_t v)
{
	char *p = room(j, 22);

	if (!p)
		return;
	if (j->comma)
		*p++ = ',';
	if (minus)
		*p++ = '-';
	p += digits__count(v);
	digits__u64(p, v);
	used(j, p);
	j->comma = true;
}

void json__u64(struct json *j, uint64_t v)
{
	put_number(j, false, v);
}

void json__i64(struct json *j, int64_t v)
{
	put_number(j, v < 0, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void json__us(struct json *j, uint64_t ns)
{
	char *p = room(j, DIGITS_US + 1);

	if (!p)
		return;
	if (j->comma)
		*p++ = ',';
	used(j, digits__us(p, ns));
	j->comma = true;
}

void json__f64(struct json *j, double v)
{
	char text[40], *comma;
	int n;

	if (!isfinite(v)) {
		json__null(j);
		return;
	}
	n = snprintf(text, sizeof(text), "%.17g", v);
	/* The host program's locale may write a comma. */
	comma = memchr(text, ',', (size_t)n);
	if (comma)
		*comma = '.';
	literal(j, text, (size_t)n);
}

void json__bool(struct json *j, bool v)
{
	literal(j, v ? "true" : "false", v ? 4 : 5);
}

void json__null(struct json *j)
{
	literal(j, "null", 4);
}

void json__raw(struct json *j, const char *s, size_t len)
{
	literal(j, s, len);
}
