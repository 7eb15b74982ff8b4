// SPDX-License-Identifier: Apache-2.0
#include "export/html_blob.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <zlib.h>

#define LEVEL 6
#define STEP 16384

static void end(struct html_blob *blob)
{
	if (blob->stream)
		deflateEnd(blob->stream);
	free(blob->stream);
	blob->stream = NULL;
}

int html_blob__start(struct html_blob *blob)
{
	z_stream *z;

	end(blob);
	spool__free(blob->bytes);
	blob->bytes = spool__new(1);
	blob->len = 0;
	if (!blob->step)
		blob->step = malloc(STEP);
	z = calloc(1, sizeof(*z));
	if (!blob->bytes || !blob->step || !z || deflateInit(z, LEVEL) != Z_OK) {
		free(z);
		return -ENOMEM;
	}
	blob->stream = z;
	return 0;
}

static int pump(struct html_blob *blob, int flush)
{
	z_stream *z = blob->stream;
	int code, err = 0;
	size_t n;

	do {
		z->next_out = blob->step;
		z->avail_out = STEP;
		code = deflate(z, flush);
		n = STEP - z->avail_out;
		err = n ? spool__put(blob->bytes, 0, blob->step, n) : 0;
		blob->len += n;
	} while (!err && code == Z_OK && !z->avail_out && blob->len <= blob->max);
	return err ? err : code == Z_STREAM_ERROR ? -EIO : 0;
}

int html_blob__add(struct html_blob *blob, const void *p, size_t n)
{
	z_stream *z = blob->stream;
	int err = 0;

	if (n > UINT_MAX)
		return -EFBIG;
	if (blob->len > blob->max)
		return 0;
	z->next_in = (Bytef *)(uintptr_t)p;
	z->avail_in = (uInt)n;
	while (!err && z->avail_in && blob->len <= blob->max)
		err = pump(blob, Z_NO_FLUSH);
	return err;
}

int html_blob__finish(struct html_blob *blob)
{
	int err = blob->len > blob->max ? 0 : pump(blob, Z_FINISH);

	end(blob);
	return err ? err : blob->len > blob->max ? -EFBIG : 0;
}

/* --- base64 ----------------------------------------------------------------------------------- */

struct base64 {
	struct outfile *out;
	char line[4096];
	size_t n;
	uint8_t rest[3]; /* too few for four digits yet */
	size_t n_rest;
};

static int base64__digits(struct base64 *t)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *p = t->rest;
	uint32_t v = (uint32_t)p[0] << 16 | (t->n_rest > 1 ? (uint32_t)p[1] << 8 : 0) |
		     (t->n_rest > 2 ? p[2] : 0);
	char *to = t->line + t->n;
	int err = 0;

	to[0] = digits[v >> 18];
	to[1] = digits[v >> 12 & 63];
	to[2] = t->n_rest > 1 ? digits[v >> 6 & 63] : '=';
	to[3] = t->n_rest > 2 ? digits[v & 63] : '=';
	t->n_rest = 0;
	t->n += 4;
	if (t->n == sizeof(t->line)) {
		err = outfile__write(t->out, t->line, t->n);
		t->n = 0;
	}
	return err;
}

static int base64__add(struct base64 *t, const uint8_t *p, size_t n)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && i < n; i++) {
		t->rest[t->n_rest++] = p[i];
		if (t->n_rest == sizeof(t->rest))
			err = base64__digits(t);
	}
	return err;
}

int html_blob__base64(struct html_blob *blob, struct outfile *out)
{
	struct base64 to = { .out = out };
	struct spool_reader r;
	size_t n;
	int err = 0;

	spool_reader__init(&r, blob->bytes, 0);
	while (!err && spool_reader__more(&r)) {
		n = cursor__left(&r.c);
		err = base64__add(&to, cursor__bytes(&r.c, n), n);
	}
	err = err ? err : r.err;
	spool_reader__free(&r);
	if (!err && to.n_rest)
		err = base64__digits(&to);
	return err || !to.n ? err : outfile__write(out, to.line, to.n);
}

void html_blob__free(struct html_blob *blob)
{
	end(blob);
	spool__free(blob->bytes);
	free(blob->step);
	blob->bytes = NULL;
	blob->step = NULL;
}
