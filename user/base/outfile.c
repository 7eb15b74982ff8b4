// SPDX-License-Identifier: Apache-2.0
#include "user/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define OUTFILE_BUFFER (256u << 10)
#define TEMP_TRIES 64

struct outfile {
	struct buf buf;    /* not yet written; for a memory sink: all of it */
	struct buf *sink;  /* memory sink */
	int dirfd, fd;     /* the directory is held: a rename cannot hit another one of that name */
	int err;           /* the first failure; everything after it is refused with it */
	uint64_t bytes;    /* as the caller gave them */
	char *path;        /* for messages */
	const char *name;  /* last component, inside path */
	char temp[NAME_MAX + 1];
	bool gzip;
	z_stream z;
	uint8_t *zout;
};

static int outfile__open_temp(struct outfile *f)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	int i, tries;

	for (tries = 0; tries < TEMP_TRIES; tries++) {
		uint8_t r[6];
		char tail[7] = "";

		if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
			return -EIO;
		for (i = 0; i < 6; i++)
			tail[i] = letters[r[i] & 63];
		snprintf(f->temp, sizeof(f->temp), ".%.*s.%s", NAME_MAX - 8, f->name, tail);
		f->fd = openat(f->dirfd, f->temp,
			       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (f->fd >= 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	f->temp[0] = '\0'; /* whatever has that name is not ours to remove */
	return -errno;
}

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

static int outfile__split(struct outfile *f, const char *path, struct clika_error *err)
{
	__cleanup_free char *dir = NULL;
	const char *slash;

	f->path = strdup(path);
	if (!f->path)
		return error__set(err, -ENOMEM, "out of memory");
	slash = strrchr(f->path, '/');
	f->name = slash ? slash + 1 : f->path;
	if (!*f->name || !strcmp(f->name, ".") || !strcmp(f->name, ".."))
		return error__set(err, -EINVAL, "%s is not the name of a file", path);
	dir = slash ? strndup(f->path, (size_t)(slash - f->path) + 1) : strdup(".");
	if (!dir)
		return error__set(err, -ENOMEM, "out of memory");
	f->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dirfd < 0) {
		int code = -errno;

		return error__set(err, code, "cannot open the folder %s: %s", dir, strerror(-code));
	}
	return 0;
}

int outfile__create(const char *path, uid_t owner, gid_t group, struct outfile **out,
		    struct clika_error *err)
{
	struct outfile *f = calloc(1, sizeof(*f));
	struct stat st;
	int code;

	*out = NULL;
	if (!f)
		return error__set(err, -ENOMEM, "out of memory");
	f->dirfd = f->fd = -1;
	code = outfile__split(f, path, err);
	if (code)
		goto fail;
	/* A rename would replace devices and links such as /dev/stdout or /dev/null. */
	if (!fstatat(f->dirfd, f->name, &st, AT_SYMLINK_NOFOLLOW) && !S_ISREG(st.st_mode)) {
		code = error__set(err, S_ISDIR(st.st_mode) ? -EISDIR : -EEXIST,
				  "%s exists and is not a regular file: it is not replaced", path);
		goto fail;
	}
	code = outfile__open_temp(f);
	if (!code && owner != (uid_t)-1 && fchown(f->fd, owner, group))
		code = -errno;
	if (!code && name__is_gzip(f->name))
		code = outfile__start_gzip(f);
	if (code) {
		error__set(err, code, "cannot create %s: %s", path, strerror(-code));
		goto fail;
	}
	*out = f;
	return 0;
fail:
	outfile__abort(f);
	return code;
}

int outfile__memory(struct buf *b, struct outfile **out)
{
	struct outfile *f = calloc(1, sizeof(*f));

	*out = f;
	if (!f)
		return -ENOMEM;
	f->dirfd = f->fd = -1;
	f->sink = b;
	return 0;
}

static int outfile__deflate(struct outfile *f, const uint8_t *p, size_t n, int flush)
{
	int rc;

	do {
		uInt part = n > (1u << 30) ? (1u << 30) : (uInt)n;

		f->z.next_in = (Bytef *)(uintptr_t)p;
		f->z.avail_in = part;
		do {
			f->z.next_out = f->zout;
			f->z.avail_out = OUTFILE_BUFFER;
			rc = deflate(&f->z, part == n ? flush : Z_NO_FLUSH);
			if (rc == Z_STREAM_ERROR)
				return -EIO;
			rc = fd__write_all(f->fd, f->zout, OUTFILE_BUFFER - f->z.avail_out);
			if (rc)
				return rc;
		} while (!f->z.avail_out);
		p += part;
		n -= part;
	} while (n);
	return 0;
}

static int outfile__put(struct outfile *f, const void *p, size_t n, int flush)
{
	return f->gzip ? outfile__deflate(f, p, n, flush) : fd__write_all(f->fd, p, n);
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
	/* Network file systems report a full disk here. */
	if (close(f->fd) && !f->err)
		f->err = -errno;
	f->fd = -1;
	if (!f->err && renameat(f->dirfd, f->temp, f->dirfd, f->name))
		f->err = -errno;
	if (!f->err)
		f->temp[0] = '\0';
	code = f->err;
	if (code)
		error__set(err, code, "cannot write %s: %s", f->path, strerror(-code));
	outfile__abort(f);
	return code;
}

void outfile__abort(struct outfile *f)
{
	int saved = errno;

	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd);
	if (f->temp[0])
		unlinkat(f->dirfd, f->temp, 0);
	if (f->dirfd >= 0)
		close(f->dirfd);
	if (f->gzip)
		deflateEnd(&f->z);
	free(f->zout);
	buf__free(&f->buf);
	free(f->path);
	free(f);
	errno = saved;
}
