/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader of marker records that shares nothing with the writer but the ABI, strict where a
 * profiler would be lenient. C and C++, nothing to link.
 */
#ifndef CLIKA_TESTS_MARKERS_RECORDS_H
#define CLIKA_TESTS_MARKERS_RECORDS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mark_arg {
	unsigned int type;
	const char *key;
	int64_t i;
	double f;
	char str[256];
};

struct mark {
	unsigned int kind, flags, depth, size;
	uint64_t ts, end; /* end: of a SPAN */
	uint64_t id, value;
	uint32_t device;
	char name[256];
	const char *cat, *src, *pool;
	unsigned int nargs;
	struct mark_arg args[CLIKA_MAX_ARGS];
};

#define MARKS__REQUIRE(what)                                                                       \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: wrong: %s\n", __FILE__, __LINE__, #what);          \
			return -1;                                                                 \
		}                                                                                  \
	} while (0)

static inline const char *marks__literal(const struct clika_object *o, int32_t displacement)
{
	return (const char *)o + displacement;
}

static inline uint32_t marks__fixed_bytes(unsigned int kind)
{
	switch (kind) {
	case CLIKA_REC_INSTANT:
	case CLIKA_REC_THREAD_NAME:
	case CLIKA_REC_PROCESS_LABEL:
	case CLIKA_REC_CAPTURE_BEGIN:
	case CLIKA_REC_CAPTURE_END:
		return 0;
	case CLIKA_REC_REQUEST_OUTPUT:
	case CLIKA_REC_FREE:
	case CLIKA_REC_RELEASE:
		return 16;
	case CLIKA_REC_ALLOC:
	case CLIKA_REC_RESERVE:
		return 24;
	default:
		return 8;
	}
}

static inline int marks__has_args(unsigned int kind)
{
	switch (kind) {
	case CLIKA_REC_BEGIN:
	case CLIKA_REC_END:
	case CLIKA_REC_INSTANT:
	case CLIKA_REC_ASYNC_BEGIN:
	case CLIKA_REC_ASYNC_END:
	case CLIKA_REC_REQUEST_BEGIN:
	case CLIKA_REC_REQUEST_END:
		return 1;
	default:
		return 0;
	}
}

static inline int marks__decode_args(const struct clika_object *o, const unsigned char *p,
				     const unsigned char *end, struct mark *m)
{
	for (unsigned int i = 0; i < m->nargs; i++) {
		struct mark_arg *a = &m->args[i];
		struct clika_rec_arg raw;

		MARKS__REQUIRE(end - p >= 16 || (end - p >= 8 && p[0] == CLIKA_ARG_STR));
		memcpy(&raw, p, sizeof(raw));
		p += sizeof(raw);
		a->type = raw.type;
		a->key = raw.key ? marks__literal(o, raw.key) : "";
		MARKS__REQUIRE(raw.key_len == 0);
		if (raw.type == CLIKA_ARG_STR) {
			uint32_t whole = (raw.len + 7u) & ~7u;

			MARKS__REQUIRE(raw.len <= 255 && end - p >= (long)whole);
			memcpy(a->str, p, raw.len);
			a->str[raw.len] = 0;
			for (uint32_t k = raw.len; k < whole; k++)
				MARKS__REQUIRE(p[k] == 0);
			p += whole;
			continue;
		}
		MARKS__REQUIRE(raw.type >= CLIKA_ARG_I64 && raw.type <= CLIKA_ARG_F64);
		MARKS__REQUIRE(raw.len == 8 && end - p >= 8);
		memcpy(&a->i, p, 8);
		memcpy(&a->f, p, 8);
		p += 8;
	}
	MARKS__REQUIRE(p == end);
	return 0;
}

static inline int marks__decode_one(const struct clika_object *o, const unsigned char *p,
				    uint32_t size, struct mark *m)
{
	const unsigned char *end = p + size;
	struct clika_rec rec;
	uint64_t w[3] = { 0, 0, 0 };
	uint32_t fixed;
	uint16_t len;

	memset(m, 0, sizeof(*m));
	MARKS__REQUIRE(size >= sizeof(rec) && size <= CLIKA_MAX_RECORD);
	memcpy(&rec, p, sizeof(rec));
	m->kind = rec.kind;
	m->flags = rec.flags;
	m->size = size;
	m->ts = rec.ts;
	m->nargs = rec.flags & CLIKA_RECF_NARGS;
	m->cat = m->src = m->pool = "";
	MARKS__REQUIRE(rec.kind >= CLIKA_REC_SPAN && rec.kind <= CLIKA_REC_CAPTURE_END);
	MARKS__REQUIRE((rec.flags & ~(CLIKA_RECF_NARGS | CLIKA_RECF_INLINE)) == 0);
	MARKS__REQUIRE(m->nargs <= CLIKA_MAX_ARGS && rec.ts != 0);
	MARKS__REQUIRE(m->nargs == 0 || marks__has_args(rec.kind));
	p += sizeof(rec);
	fixed = marks__fixed_bytes(rec.kind);
	MARKS__REQUIRE(end - p >= (long)fixed);
	memcpy(w, p, fixed);
	p += fixed;
	if (rec.flags & CLIKA_RECF_INLINE) {
		MARKS__REQUIRE(rec.name == 0 && end - p >= 8);
		memcpy(&len, p, 2);
		MARKS__REQUIRE(len <= 255 && end - p >= (long)((2 + len + 7u) & ~7u));
		memcpy(m->name, p + 2, len);
		for (uint32_t k = 2u + len; k < ((2 + len + 7u) & ~7u); k++)
			MARKS__REQUIRE(p[k] == 0);
		p += (2 + len + 7u) & ~7u;
	} else if (rec.name) {
		const char *s = marks__literal(o, rec.name);

		MARKS__REQUIRE(strlen(s) < sizeof(m->name));
		strcpy(m->name, s);
		m->cat = s + strlen(s) + 1;
		m->src = m->cat + strlen(m->cat) + 1;
	}
	switch (rec.kind) {
	case CLIKA_REC_SPAN:
		m->end = w[0];
		MARKS__REQUIRE(m->end >= m->ts);
		break;
	case CLIKA_REC_BEGIN:
	case CLIKA_REC_END:
		m->depth = (unsigned int)w[0];
		MARKS__REQUIRE(w[0] < CLIKA_MAX_OPEN);
		break;
	case CLIKA_REC_COUNTER_I64:
	case CLIKA_REC_COUNTER_F64:
		m->value = w[0];
		break;
	case CLIKA_REC_ALLOC:
	case CLIKA_REC_RESERVE:
		m->id = w[0];
		m->value = w[1];
		m->device = (uint32_t)w[2];
		if (w[2] >> 32)
			m->pool = marks__literal(o, (int32_t)(w[2] >> 32));
		break;
	case CLIKA_REC_FREE:
	case CLIKA_REC_RELEASE:
		m->id = w[0];
		m->device = (uint32_t)w[1];
		MARKS__REQUIRE(w[1] >> 32 == 0);
		break;
	default:
		m->id = w[0];
		m->value = w[1];
		break;
	}
	return marks__decode_args(o, p, end, m);
}

/*
 * Decodes [from, to) of the stream of @b. Padding is skipped. Returns how many records there
 * are, of which the first @max are stored; -1 when a byte is out of order.
 */
static inline int marks__decode(const struct clika_buffer *b, uint64_t from, uint64_t to,
				struct mark *out, int max)
{
	const struct clika_object *o = (const struct clika_object *)(uintptr_t)b->object;
	const unsigned char *data = (const unsigned char *)b + b->data_offset;
	struct mark m;
	int n = 0;

	MARKS__REQUIRE(b->magic == CLIKA_BUFFER_MAGIC && b->abi == CLIKA_ABI_VERSION);
	MARKS__REQUIRE(b->data_offset >= sizeof(*b) && b->data_offset % 8 == 0);
	MARKS__REQUIRE(o->magic == CLIKA_OBJECT_MAGIC && o->bytes == sizeof(*o));
	MARKS__REQUIRE(from <= to && to <= b->head && b->head - from <= CLIKA_DATA_BYTES);
	while (from < to) {
		const unsigned char *p = data + from % CLIKA_DATA_BYTES;
		uint32_t left = CLIKA_HALF_BYTES - (uint32_t)(from % CLIKA_HALF_BYTES);
		uint16_t size;

		memcpy(&size, p, 2);
		MARKS__REQUIRE(size >= 8 && size % 8 == 0 && size <= left && size <= to - from);
		if (p[2] == CLIKA_REC_PAD) {
			MARKS__REQUIRE(size == left);
		} else {
			if (marks__decode_one(o, p, size, n < max ? &out[n] : &m) < 0)
				return -1;
			n++;
		}
		from += size;
	}
	return n;
}

/*
 * Somebody may be recording the whole machine, this process included. 0 once nobody looks;
 * tests that turn markers on by hand would mix with what that recording turns on.
 */
static inline int marks__wait_unwatched(const volatile uint16_t *semaphore)
{
	for (int i = 0; i < 600 && *semaphore; i++)
		usleep(100000);
	if (*semaphore)
		fprintf(stderr, "markers of this process are being recorded\n");
	return *semaphore ? -1 : 0;
}

/* The newest buffer of @o that thread @tid owns; NULL = none. */
static inline struct clika_buffer *marks__buffer(const struct clika_object *o, uint32_t tid)
{
	struct clika_buffer *b = (struct clika_buffer *)(uintptr_t)o->buffers;

	while (b && !(b->magic == CLIKA_BUFFER_MAGIC && b->tid == tid && !b->dead))
		b = (struct clika_buffer *)(uintptr_t)b->next;
	return b;
}

#endif
