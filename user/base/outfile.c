// SPDX-License-Identifier: Apache-2.0
#include "user/base/base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define OUTFILE_BUFFER (64u << 10)

struct outfile {
	struct buf buf;   /* not yet written; for a memory sink: all of it */
	struct buf *sink; /* memory sink */
	struct newfile file;
	int err;                 /* the first failure; everything after it is refused with it */
	uint64_t bytes;          /* as the caller gave them */
	uint64_t limit, written; /* written: to the file */
	bool gzip;
	bool foreign; /* the descriptor is the caller's */
	z_stream z;
	uint8_t *zout;
};

static bool name__is_gzip(const char *name)
{
	size_t n = strlen(name);

	return n > 3 && !strcmp(name + n - 3, ".gz");
}

static int outfile__start_gzip(struct outfile *f)
{
	f->zout = malloc(OUTFILE_BUFFER);
	/* 15 + 16: the largest window, with a gzip header */
	if (!f->zout || deflateInit2(&f->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
				     Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	f->gzip = true;
	return 0;
}

int outfile__create(const char *path, uid_t owner, gid_t group, struct outfile **out,
		    struct clika_error *err)
{
	struct outfile *f = calloc(1, sizeof(*f));
	int code;

	*out = NULL;
	if (!f)
		return error__set(err, -ENOMEM, "out of memory");
	code = newfile__create(&f->file, path, owner, group, err);
	if (!code && name__is_gzip(f->file.name)) {
		code = outfile__start_gzip(f);
		if (code)
			error__set(err, code, "out of memory");
	}
	if (code) {
		outfile__abort(f);
		return code;
	}
	*out = f;
	return 0;
}

int outfile__memory(struct buf *b, struct outfile **out)
{
	struct outfile *f = calloc(1, sizeof(*f));

	*out = f;
	if (!f)
		return -ENOMEM;
	f->file.dirfd = f->file.fd = -1;
	f->sink = b;
	return 0;
}

int outfile__over_fd(int fd, struct outfile **out)
{
	struct outfile *f = calloc(1, sizeof(*f));

	*out = f;
	if (!f)
		return -ENOMEM;
	f->file.dirfd = -1;
	f->file.fd = fd;
	f->foreign = true;
	return 0;
}

void outfile__limit(struct outfile *f, uint64_t bytes)
{
	f->limit = bytes;
}

static int outfile__to_file(struct outfile *f, const void *p, size_t n)
{
	f->written += n;
	return f->limit && f->written > f->limit ? -EFBIG : fd__write_all(f->file.fd, p, n);
}

static int outfile__deflate(struct outfile *f, const uint8_t *p, size_t n, int flush)
{
	size_t done = 0;
	int rc;

	do {
		uInt part = n - done > (1u << 30) ? (1u << 30) : (uInt)(n - done);

		f->z.next_in = (Bytef *)(uintptr_t)(p ? p + done : NULL);
		f->z.avail_in = part;
		do {
			f->z.next_out = f->zout;
			f->z.avail_out = OUTFILE_BUFFER;
			rc = deflate(&f->z, part == n - done ? flush : Z_NO_FLUSH);
			if (rc == Z_STREAM_ERROR)
				return -EIO;
			rc = outfile__to_file(f, f->zout, OUTFILE_BUFFER - f->z.avail_out);
			if (rc)
				return rc;
		} while (!f->z.avail_out);
		done += part;
	} while (done < n);
	return 0;
}

static int outfile__put(struct outfile *f, const void *p, size_t n, int flush)
{
	return f->gzip ? outfile__deflate(f, p, n, flush) : outfile__to_file(f, p, n);
}

int outfile__write(struct outfile *f, const void *p, size_t n)
{
	if (f->err)
		return f->err;
	f->bytes += n;
	if (!f->sink && f->buf.len + n > OUTFILE_BUFFER) {
		f->err = outfile__put(f, f->buf.data, f->buf.len, Z_NO_FLUSH);
		buf__reset(&f->buf);
		if (!f->err && n >= OUTFILE_BUFFER) {
			f->err = outfile__put(f, p, n, Z_NO_FLUSH);
			return f->err;
		}
	}
	if (!f->err) {
		buf__append(&f->buf, p, n);
		f->err = buf__error(&f->buf);
	}
	return f->err;
}

int outfile__printf(struct outfile *f, const char *fmt, ...)
{
	char small[512], *text = small;
	va_list ap;
	int n, err;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n < 0)
		return f->err ? f->err : (f->err = -EINVAL);
	if ((size_t)n >= sizeof(small)) {
		text = malloc((size_t)n + 1);
		if (!text)
			return f->err ? f->err : (f->err = -ENOMEM);
		va_start(ap, fmt);
		vsnprintf(text, (size_t)n + 1, fmt, ap);
		va_end(ap);
	}
	err = outfile__write(f, text, (size_t)n);
	if (text != small)
		free(text);
	return err;
}

uint64_t outfile__bytes(const struct outfile *f)
{
	return f->bytes;
}

static int outfile__commit_memory(struct outfile *f)
{
	if (f->err)
		return f->err;
	if (!f->sink->len && !f->sink->failed) {
		struct buf old = *f->sink;

		*f->sink = f->buf;
		f->buf = old;
		return 0;
	}
	buf__append(f->sink, f->buf.data, f->buf.len);
	return buf__error(f->sink);
}

int outfile__commit(struct outfile *f, struct clika_error *err)
{
	int code;

	if (f->sink) {
		code = outfile__commit_memory(f);
		if (code)
			error__set(err, code, "out of memory");
		outfile__abort(f);
		return code;
	}
	if (!f->err && (f->buf.len || f->gzip))
		f->err = outfile__put(f, f->buf.data, f->buf.len, Z_FINISH);
	if (f->foreign) {
		code = f->err;
		if (code)
			error__set(err, code, "cannot write the result: %s", strerror(-code));
		outfile__abort(f);
		return code;
	}
	/* Network file systems report a full disk here. */
	if (close(f->file.fd) && !f->err)
		f->err = -errno;
	f->file.fd = -1;
	if (!f->err)
		f->err = newfile__publish(&f->file);
	code = f->err;
	if (code)
		error__set(err, code, "cannot write %s: %s", f->file.path, strerror(-code));
	outfile__abort(f);
	return code;
}

void outfile__abort(struct outfile *f)
{
	int saved = errno;

	if (!f)
		return;
	if (!f->foreign)
		newfile__close(&f->file);
	if (f->gzip)
		deflateEnd(&f->z);
	free(f->zout);
	buf__free(&f->buf);
	free(f);
	errno = saved;
}
