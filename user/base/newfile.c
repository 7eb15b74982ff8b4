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

#define TEMP_TRIES 64

static int newfile__open_temp(struct newfile *f)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	int i, tries, err = -EEXIST;

	for (tries = 0; tries < TEMP_TRIES && err == -EEXIST; tries++) {
		uint8_t r[6];
		char tail[7] = "";

		if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r)) {
			err = -EIO;
			break;
		}
		for (i = 0; i < 6; i++)
			tail[i] = letters[r[i] & 63];
		snprintf(f->temp, sizeof(f->temp), ".%.*s.%s", NAME_MAX - 8, f->name, tail);
		f->fd = openat(f->dirfd, f->temp,
			       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (f->fd >= 0)
			return 0;
		err = -errno;
	}
	f->temp[0] = '\0'; /* whatever has that name is not ours to remove */
	return err;
}

static int newfile__open_folder(struct newfile *f, struct clika_error *err)
{
	__cleanup_free char *dir = NULL;
	const char *slash = strrchr(f->path, '/');
	int code;

	f->name = slash ? slash + 1 : f->path;
	if (!*f->name || !strcmp(f->name, ".") || !strcmp(f->name, ".."))
		return error__set(err, -EINVAL, "%s is not the name of a file", f->path);
	dir = slash ? strndup(f->path, (size_t)(slash - f->path) + 1) : strdup(".");
	if (!dir)
		return error__set(err, -ENOMEM, "out of memory");
	f->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dirfd >= 0)
		return 0;
	code = -errno;
	return error__set(err, code, "cannot open the folder %s: %s", dir, strerror(-code));
}

int newfile__create(struct newfile *f, const char *path, uid_t owner, gid_t group,
		    struct clika_error *err)
{
	struct stat st;
	int code;

	*f = (struct newfile){ .dirfd = -1, .fd = -1 };
	f->path = strdup(path);
	if (!f->path)
		return error__set(err, -ENOMEM, "out of memory");
	code = newfile__open_folder(f, err);
	if (code)
		goto fail;
	/* A rename would replace devices and links such as /dev/null and /dev/stdout. */
	if (!fstatat(f->dirfd, f->name, &st, AT_SYMLINK_NOFOLLOW) && !S_ISREG(st.st_mode)) {
		code = error__set(err, S_ISDIR(st.st_mode) ? -EISDIR : -EEXIST,
				  "%s exists and is not a regular file: it is not replaced", path);
		goto fail;
	}
	code = newfile__open_temp(f);
	if (!code && owner != (uid_t)-1 && fchown(f->fd, owner, group))
		code = -errno;
	if (!code)
		return 0;
	error__set(err, code, "cannot create %s: %s", path, strerror(-code));
fail:
	newfile__close(f);
	return code;
}

int newfile__publish(struct newfile *f)
{
	if (renameat(f->dirfd, f->temp, f->dirfd, f->name))
		return -errno;
	f->temp[0] = '\0';
	return 0;
}

void newfile__close(struct newfile *f)
{
	int saved = errno;

	if (f->fd >= 0)
		close(f->fd);
	if (f->temp[0])
		unlinkat(f->dirfd, f->temp, 0);
	if (f->dirfd >= 0)
		close(f->dirfd);
	free(f->path);
	*f = (struct newfile){ .dirfd = -1, .fd = -1 };
	errno = saved;
}
