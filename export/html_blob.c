// SPDX-License-Identifier: Apache-2.0
#include "export/html_blob.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#define LEVEL 6
#define STEP 65536

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
	buf__reset(&blob->b);
	z = calloc(1, sizeof(*z));
	if (!z || deflateInit(z, LEVEL) != Z_OK) {
		free(z);
		return -ENOMEM;
	}
	blob->stream = z;
	return 0;
}

static int pump(struct html_blob *blob, int flush)
{
	z_stream *z = blob->stream;
	int code;

	do {
		if (buf__reserve(&blob->b, STEP))
			return -ENOMEM;
		z->next_out = blob->b.data + blob->b.len;
		z->avail_out = STEP;
		code = deflate(z, flush);
		blob->b.len += STEP - z->avail_out;
	} while (code == Z_OK && !z->avail_out && blob->b.len <= blob->max);
	return code == Z_STREAM_ERROR ? -EIO : 0;
}

int html_blob__add(struct html_blob *blob, const void *p, size_t n)
{
	z_stream *z = blob->stream;
	int err = 0;

	if (n > UINT_MAX)
		return -EFBIG;
	if (blob->b.len > blob->max)
		return 0;
	z->next_in = (Bytef *)(uintptr_t)p;
	z->avail_in = (uInt)n;
	while (!err && z->avail_in && blob->b.len <= blob->max)
		err = pump(blob, Z_NO_FLUSH);
	return err;
}

int html_blob__finish(struct html_blob *blob)
{
	int err = blob->b.len > blob->max ? 0 : pump(blob, Z_FINISH);

	end(blob);
	return err ? err : blob->b.len > blob->max ? -EFBIG : 0;
}

int html_blob__base64(const struct html_blob *blob, struct outfile *out)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *p = blob->b.data;
	size_t left = blob->b.len, n;
	char line[4096];
	uint32_t v;
	int err = 0;

	while (left && !err) {
		for (n = 0; left && n < sizeof(line); n += 4) {
			v = (uint32_t)p[0] << 16 | (left > 1 ? (uint32_t)p[1] << 8 : 0) |
			    (left > 2 ? p[2] : 0);
			line[n] = digits[v >> 18];
			line[n + 1] = digits[v >> 12 & 63];
			line[n + 2] = left > 1 ? digits[v >> 6 & 63] : '=';
			line[n + 3] = left > 2 ? digits[v & 63] : '=';
			p += left > 2 ? 3 : left;
			left -= left > 2 ? 3 : left;
		}
		err = outfile__write(out, line, n);
	}
	return err;
}

void html_blob__free(struct html_blob *blob)
{
	end(blob);
	buf__free(&blob->b);
}
