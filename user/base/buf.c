// SPDX-License-Identifier: Apache-2.0
#include "user/base/base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf__free(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ 0 };
}

void buf__reset(struct buf *b)
{
	b->len = 0;
	b->failed = false;
}

int buf__reserve(struct buf *b, size_t more)
{
	size_t need, cap;
	uint8_t *p;

	if (b->failed)
		return -ENOMEM;
	if (more <= b->cap - b->len)
		return 0;
	if (__builtin_add_overflow(b->len, more, &need) || need > SIZE_MAX / 2)
		goto fail;
	cap = b->cap ? b->cap : 64;
	while (cap < need)
		cap += cap / 2 + 16;
	p = realloc(b->data, cap);
	if (!p)
		goto fail;
	b->data = p;
	b->cap = cap;
	return 0;
fail:
	b->failed = true;
	return -ENOMEM;
}

void buf__append(struct buf *b, const void *p, size_t n)
{
	if (!n || buf__reserve(b, n))
		return;
	memcpy(b->data + b->len, p, n);
	b->len += n;
}

void buf__u8(struct buf *b, uint8_t v)
{
	buf__append(b, &v, 1);
}

static void buf__le(struct buf *b, uint64_t v, unsigned bytes)
{
	uint8_t raw[8];
	unsigned i;

	for (i = 0; i < bytes; i++)
		raw[i] = (uint8_t)(v >> (8 * i));
	buf__append(b, raw, bytes);
}

void buf__u16le(struct buf *b, uint16_t v)
{
	buf__le(b, v, 2);
}

void buf__u32le(struct buf *b, uint32_t v)
{
	buf__le(b, v, 4);
}

void buf__u64le(struct buf *b, uint64_t v)
{
	buf__le(b, v, 8);
}

void buf__varint(struct buf *b, uint64_t v)
{
	uint8_t raw[10];
	size_t n = 0;

	while (v >= 0x80) {
		raw[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	raw[n++] = (uint8_t)v;
	buf__append(b, raw, n);
}

void buf__svarint(struct buf *b, int64_t v)
{
	buf__varint(b, ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0));
}

void buf__printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (buf__reserve(b, 1))
		return;
	va_start(ap, fmt);
	n = vsnprintf((char *)b->data + b->len, b->cap - b->len, fmt, ap);
	va_end(ap);
	if (n < 0) {
		b->failed = true;
		return;
	}
	if ((size_t)n >= b->cap - b->len) {
		if (buf__reserve(b, (size_t)n + 1))
			return;
		va_start(ap, fmt);
		vsnprintf((char *)b->data + b->len, b->cap - b->len, fmt, ap);
		va_end(ap);
	}
	b->len += (size_t)n;
}

int buf__error(const struct buf *b)
{
	return b->failed ? -ENOMEM : 0;
}

const uint8_t *cursor__bytes(struct cursor *c, size_t n)
{
	const uint8_t *p = c->p;

	if (c->bad || n > (size_t)(c->end - c->p)) {
		c->bad = true;
		return NULL;
	}
	c->p += n;
	return p;
}

static uint64_t cursor__le(struct cursor *c, unsigned bytes)
{
	const uint8_t *p = cursor__bytes(c, bytes);
	uint64_t v = 0;
	unsigned i;

	for (i = 0; p && i < bytes; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

uint8_t cursor__u8(struct cursor *c)
{
	return (uint8_t)cursor__le(c, 1);
}

uint16_t cursor__u16le(struct cursor *c)
{
	return (uint16_t)cursor__le(c, 2);
}

uint32_t cursor__u32le(struct cursor *c)
{
	return (uint32_t)cursor__le(c, 4);
}

uint64_t cursor__u64le(struct cursor *c)
{
	return cursor__le(c, 8);
}

uint64_t cursor__varint(struct cursor *c)
{
	uint64_t v = 0;
	unsigned shift;

	if (c->bad)
		return 0;
	for (shift = 0; shift < 64 && c->p < c->end; shift += 7) {
		uint8_t byte = *c->p++;

		if (shift == 63 && byte > 1)
			break;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	c->bad = true;
	return 0;
}

int64_t cursor__svarint(struct cursor *c)
{
	uint64_t v = cursor__varint(c);

	return (int64_t)((v >> 1) ^ (v & 1 ? UINT64_MAX : 0));
}
