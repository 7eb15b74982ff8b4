// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "user/recording/reader_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define WINDOW (64u << 10)

int fd__read_at(int fd, void *p, size_t n, uint64_t off)
{
	char *to = p;

	while (n) {
		ssize_t got = pread(fd, to, n, (off_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			return -EBADMSG;
		to += got;
		n -= (size_t)got;
		off += (uint64_t)got;
	}
	return 0;
}

void scan__free(struct scan *s)
{
	free(s->v);
	*s = (struct scan){ 0 };
}

/* 1: a header of this recording is there, 0: none, or -errno. */
static int scan__header(struct scan *s, int fd, uint64_t off, uint64_t size,
			struct found_segment *f)
{
	uint8_t raw[FMT_SEGMENT_HEADER];
	struct cursor c = cursor__over(raw, sizeof(raw));
	uint64_t id, total;
	int err;

	if (off > size || size - off < sizeof(raw))
		return 0;
	err = fd__read_at(fd, raw, sizeof(raw), off);
	if (err)
		return err == -EBADMSG ? 0 : err;
	if (memcmp(cursor__bytes(&c, FMT_MAGIC_BYTES), FMT_SEGMENT_MAGIC, FMT_MAGIC_BYTES))
		return 0;
	*f = (struct found_segment){ .off = off };
	id = cursor__u64le(&c);
	f->seq = cursor__u64le(&c);
	if (cursor__u32le(&c) != FMT_SEGMENT_HEADER)
		return 0;
	f->index_bytes = cursor__u32le(&c);
	f->data_bytes = cursor__u64le(&c);
	f->index_crc = cursor__u32le(&c);
	if (cursor__u16le(&c) != FMT_MAJOR)
		return 0;
	c = cursor__over(raw + FMT_SEGMENT_CRC_AT, 4);
	if (cursor__u32le(&c) != (uint32_t)crc32_z(0, raw, FMT_SEGMENT_CRC_AT) ||
	    f->index_bytes > FMT_MAX_INDEX || f->data_bytes > FMT_MAX_DATA)
		return 0;
	if (s->id_known && id != s->id)
		return 0;
	s->id = id;
	s->id_known = true;
	total = FMT_SEGMENT_HEADER + f->index_bytes + f->data_bytes;
	f->limit = off + ((total + FMT_ALIGN - 1) & ~(uint64_t)(FMT_ALIGN - 1));
	return 1;
}

/* Offset of the next header at or behind @from; @size when there is none. */
static int scan__find(struct scan *s, int fd, uint64_t from, uint64_t size, uint8_t *window,
		      uint64_t *at)
{
	struct found_segment f;
	const uint8_t *hit;
	size_t n, k;
	int err;

	for (; from < size && size - from >= FMT_SEGMENT_HEADER;
	     from += n - (FMT_MAGIC_BYTES - 1)) {
		n = size - from < WINDOW ? (size_t)(size - from) : WINDOW;
		err = fd__read_at(fd, window, n, from);
		if (err == -EBADMSG)
			break; /* the file became shorter meanwhile */
		if (err)
			return err;
		for (k = 0; n - k >= FMT_MAGIC_BYTES; k = (size_t)(hit - window) + 1) {
			hit = memmem(window + k, n - k, FMT_SEGMENT_MAGIC, FMT_MAGIC_BYTES);
			if (!hit)
				break;
			err = scan__header(s, fd, from + (uint64_t)(hit - window), size, &f);
			if (err < 0)
				return err;
			if (err) {
				*at = from + (uint64_t)(hit - window);
				return 0;
			}
		}
		if (n == size - from)
			break;
	}
	*at = size;
	return 0;
}

static int scan__add(struct scan *s, const struct found_segment *f)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct found_segment *v = realloc(s->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = *f;
	return 0;
}

int scan__run(struct scan *s, int fd, uint64_t from, uint64_t size)
{
	__cleanup_free uint8_t *window = malloc(WINDOW);
	struct found_segment f = { 0 }, after;
	uint64_t pos = from, next;
	int err, leads;

	if (!window)
		return -ENOMEM;
	while (pos < size) {
		err = scan__header(s, fd, pos, size, &f);
		if (err < 0)
			return err;
		if (!err) {
			err = scan__find(s, fd, pos + 1, size, window, &pos);
			if (err)
				return err;
			continue;
		}
		next = f.limit;
		leads = next == size;
		if (next < size) {
			leads = scan__header(s, fd, next, size, &after);
			if (leads < 0)
				return leads;
		}
		if (!leads) {
			/* Its length leads nowhere: cut short, overwritten, or bytes are missing. */
			err = scan__find(s, fd, pos + FMT_SEGMENT_HEADER, size, window, &next);
			if (err)
				return err;
			f.cut = next < f.limit;
			if (f.cut)
				f.limit = next;
		}
		err = scan__add(s, &f);
		if (err)
			return err;
		pos = next;
	}
	return 0;
}
