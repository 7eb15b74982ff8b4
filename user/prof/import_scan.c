// SPDX-License-Identifier: Apache-2.0
#include "user/prof/import_scan.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define BUFFER (256u << 10)
#define MAX_EVENT (1u << 20)
#define MAX_MEMBER (64u << 10)
#define MAX_DEPTH 1000

struct input {
	gzFile z;
	uint8_t *buf;
	size_t at, len;
	int err;
	struct buf value; /* the value read last */
};

/* The next byte, not taken; -1 at the end. */
static int peek(struct input *in)
{
	int n;

	if (in->at < in->len)
		return in->buf[in->at];
	n = gzread(in->z, in->buf, BUFFER);
	in->at = in->len = 0;
	if (n <= 0) {
		in->err = n < 0 ? -EBADMSG : in->err;
		return -1;
	}
	in->len = (size_t)n;
	return in->buf[0];
}

static int peek_token(struct input *in)
{
	int c;

	while ((c = peek(in)) == ' ' || c == '\t' || c == '\n' || c == '\r')
		in->at++;
	return c;
}

static bool take(struct input *in, int c)
{
	if (peek_token(in) != c)
		return false;
	in->at++;
	return true;
}

/* Keeps the byte, as far as there is room; one more than @max says that it was too much. */
static void keep(struct input *in, int c, size_t max)
{
	if (in->value.len <= max)
		buf__u8(&in->value, (uint8_t)c);
	in->at++;
}

static bool read_string(struct input *in, size_t max)
{
	int c;

	keep(in, '"', max);
	while ((c = peek(in)) != -1 && c != '"') {
		keep(in, c, max);
		if (c == '\\' && (c = peek(in)) != -1)
			keep(in, c, max);
	}
	if (c == -1)
		return false;
	keep(in, c, max);
	return true;
}

static bool ends_scalar(int c)
{
	return c == ',' || c == ':' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' ||
	       c == '\t';
}

/* Takes a whole value into .value; false: the file ends in it, or it is none. */
static bool read_value(struct input *in, size_t max)
{
	size_t depth = 0;
	bool closed;
	int c;

	buf__reset(&in->value);
	for (c = peek_token(in); c != -1 && depth <= MAX_DEPTH; c = peek(in)) {
		closed = c == '"' || c == '}' || c == ']';
		if (!depth && ends_scalar(c))
			return in->value.len > 0;
		if (c == '"') {
			if (!read_string(in, max))
				return false;
		} else {
			depth += c == '{' || c == '[';
			depth -= c == '}' || c == ']';
			keep(in, c, max);
		}
		if (!depth && closed)
			return true;
	}
	return c == -1 && !depth && in->value.len > 0;
}

static struct json_text value_of(const struct input *in)
{
	const char *p = (const char *)in->value.data;

	return (struct json_text){ p, p + in->value.len };
}

static int scan_events(struct trace_scan *s, struct input *in)
{
	int err;

	in->at++; /* [ */
	if (take(in, ']'))
		return 0;
	do {
		if (peek_token(in) == ']')
			break; /* a comma too many at the end is common */
		if (!read_value(in, MAX_EVENT)) {
			s->cut = true;
			return 0;
		}
		s->events++;
		if (in->value.len > MAX_EVENT) {
			s->large++;
			continue;
		}
		if (buf__error(&in->value))
			return -ENOMEM;
		err = in->value.data[0] == '{' ? s->event(s->ctx, value_of(in)) : 0;
		if (err)
			return err;
	} while (take(in, ','));
	if (!take(in, ']'))
		s->cut = true;
	return 0;
}

static int scan_object(struct trace_scan *s, struct input *in)
{
	char key[64];
	int err = 0;

	in->at++; /* { */
	if (take(in, '}'))
		return 0;
	do {
		if (peek_token(in) != '"' || !read_value(in, MAX_MEMBER) || !take(in, ':')) {
			s->cut = true;
			return 0;
		}
		snprintf(key, sizeof(key), "%.*s",
			 in->value.len >= 2 ? (int)(in->value.len - 2) : 0, in->value.data + 1);
		if (!strcmp(key, "traceEvents") && peek_token(in) == '[') {
			err = scan_events(s, in);
		} else if (!read_value(in, MAX_MEMBER)) {
			s->cut = true;
		} else if (s->member && in->value.len <= MAX_MEMBER) {
			err = buf__error(&in->value) ? -ENOMEM
						     : s->member(s->ctx, key, value_of(in));
		}
	} while (!err && !s->cut && take(in, ','));
	if (!err && !take(in, '}'))
		s->cut = true;
	return err;
}

int trace_scan__file(struct trace_scan *s, const char *path, struct clika_error *err)
{
	struct input in = { .z = gzopen(path, "rbe"), .buf = malloc(BUFFER) };
	int c, code;

	s->array = s->cut = false;
	s->events = s->large = 0;
	if (!in.z || !in.buf) {
		code = error__set(err, in.z ? -ENOMEM : -errno, "cannot open %s: %s", path,
				  strerror(in.z ? ENOMEM : errno));
		goto out;
	}
	c = peek_token(&in);
	s->array = c == '[';
	if (c == '[')
		code = scan_events(s, &in);
	else if (c == '{')
		code = scan_object(s, &in);
	else
		code = -EBADMSG;
	if (!code && in.err)
		code = in.err;
	if (code == -EBADMSG)
		error__set(err, code, "%s is no JSON trace, or damaged", path);
out:
	if (in.z)
		gzclose(in.z);
	free(in.buf);
	buf__free(&in.value);
	return code;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool trace_scan__us(struct json_text number, int64_t *ns)
{
	const char *p = number.p;
	int64_t v = 0, scale = 1000;
	bool minus;
	double d;
	char text[64];

	if (!p || p == number.end)
		return false;
	minus = *p == '-';
	p += minus;
	if (p == number.end || !is_digit(*p))
		return false;
	for (; p < number.end && is_digit(*p); p++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
			return false;
	if (__builtin_mul_overflow(v, 1000, &v))
		return false;
	if (p < number.end && *p == '.') {
		for (p++; p < number.end && is_digit(*p); p++) {
			scale /= 10;
			if (__builtin_add_overflow(v, scale * (*p - '0'), &v))
				return false;
		}
	}
	if (p < number.end) { /* an exponent: rare, and then not exact */
		snprintf(text, sizeof(text), "%.*s", (int)(number.end - number.p), number.p);
		d = strtod(text, NULL) * 1000;
		if (!(fabs(d) < 9e18))
			return false;
		*ns = (int64_t)d;
		return true;
	}
	*ns = minus ? -v : v;
	return true;
}
