// SPDX-License-Identifier: Apache-2.0
#include "export/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK_BYTES (64u << 10) /* of one stream, before they go to the file */
#define MEMORY_BYTES (8u << 20) /* of all streams together */
#define KEEP_BUFFERS 64         /* with more streams, memory goes back at once */

struct spool_block {
	uint64_t at;
	uint32_t len;
};

struct spool_stream {
	struct buf b; /* the newest records */
	struct spool_block *blocks;
	uint32_t n, cap;
};

struct spool {
	struct spool_stream *streams;
	size_t n;
	size_t held; /* bytes in all streams' buffers */
	uint64_t size;
	int fd;
};

struct spool *spool__new(size_t n_streams)
{
	struct spool *sp = calloc(1, sizeof(*sp));

	if (!sp)
		return NULL;
	sp->fd = -1;
	sp->n = n_streams;
	sp->streams = calloc(n_streams ? n_streams : 1, sizeof(*sp->streams));
	if (!sp->streams) {
		free(sp);
		return NULL;
	}
	return sp;
}

void spool__free(struct spool *sp)
{
	size_t i;

	if (!sp)
		return;
	for (i = 0; i < sp->n; i++) {
		buf__free(&sp->streams[i].b);
		free(sp->streams[i].blocks);
	}
	free(sp->streams);
	if (sp->fd >= 0)
		close(sp->fd);
	free(sp);
}

static int spool__open(struct spool *sp)
{
	const char *places[] = { secure_getenv("TMPDIR"), "/var/tmp", "/tmp" };
	size_t i;

	for (i = 0; sp->fd < 0 && i < ARRAY_SIZE(places); i++)
		if (places[i] && *places[i])
			sp->fd = open(places[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	/* File systems without unnamed files: memory, which can at least be swapped out. */
	if (sp->fd < 0)
		sp->fd = memfd_create("clika-export", MFD_CLOEXEC);
	return sp->fd < 0 ? -errno : 0;
}

static int stream__flush(struct spool *sp, struct spool_stream *st)
{
	struct spool_block *bigger;
	int err;

	if (!st->b.len)
		return 0;
	err = sp->fd < 0 ? spool__open(sp) : 0;
	if (err)
		return err;
	if (st->n == st->cap) {
		bigger = realloc(st->blocks, (st->cap ? st->cap * 2 : 4) * sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		st->blocks = bigger;
		st->cap = st->cap ? st->cap * 2 : 4;
	}
	err = fd__write_all(sp->fd, st->b.data, st->b.len);
	if (err)
		return err;
	st->blocks[st->n++] = (struct spool_block){ sp->size, (uint32_t)st->b.len };
	sp->size += st->b.len;
	sp->held -= st->b.len;
	if (sp->n > KEEP_BUFFERS)
		buf__free(&st->b);
	else
		buf__reset(&st->b);
	return 0;
}

/* Many streams that each hold little: all go, and give their memory back. */
static int spool__flush_all(struct spool *sp)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && i < sp->n; i++) {
		err = stream__flush(sp, &sp->streams[i]);
		buf__free(&sp->streams[i].b);
	}
	return err;
}

int spool__put(struct spool *sp, size_t stream, const void *p, size_t n)
{
	struct spool_stream *st = &sp->streams[stream];
	int err = 0;

	if (st->b.len && st->b.len + n > BLOCK_BYTES)
		err = stream__flush(sp, st);
	else if (sp->held + n > MEMORY_BYTES)
		err = spool__flush_all(sp);
	if (err)
		return err;
	buf__append(&st->b, p, n);
	sp->held += n;
	return buf__error(&st->b);
}

bool spool__has(const struct spool *sp, size_t stream)
{
	return sp->streams[stream].n || sp->streams[stream].b.len;
}

void spool_reader__init(struct spool_reader *r, struct spool *sp, size_t stream)
{
	*r = (struct spool_reader){ .sp = sp, .stream = stream };
}

void spool_reader__free(struct spool_reader *r)
{
	buf__free(&r->b);
}

static int reader__load(struct spool_reader *r, const struct spool_block *block)
{
	size_t got = 0;
	ssize_t n;

	buf__reset(&r->b);
	if (buf__reserve(&r->b, block->len))
		return -ENOMEM;
	while (got < block->len) {
		n = pread(r->sp->fd, r->b.data + got, block->len - got, (off_t)(block->at + got));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		got += (size_t)n;
	}
	r->c = cursor__over(r->b.data, block->len);
	return 0;
}

bool spool_reader__more(struct spool_reader *r)
{
	const struct spool_stream *st = &r->sp->streams[r->stream];

	/* Records are ours: a bad one means that the file is not what was written. */
	if (r->c.bad && !r->err)
		r->err = -EIO;
	if (r->err)
		return false;
	if (cursor__left(&r->c))
		return true;
	if (r->block < st->n)
		r->err = reader__load(r, &st->blocks[r->block]);
	else if (r->block == st->n && st->b.len)
		r->c = cursor__over(st->b.data, st->b.len);
	else
		return false;
	r->block++;
	return !r->err;
}
