// SPDX-License-Identifier: Apache-2.0
/*
 * The files a process has mapped, opened without being led astray: by path a replaced library
 * would give the new file, and a name from another mount namespace a file of ours.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "user/probe/proc.h"

#define DELETED " (deleted)"

/*
 * A descriptor to read from, for what an O_PATH descriptor names. Only regular files: opening
 * a device or a pipe has effects of its own.
 */
static int reopen(int path_fd, const struct stat *st)
{
	char self[64];
	int fd;

	if (!S_ISREG(st->st_mode))
		return -ENODEV;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

/* On overlay file systems the number in maps can be that of the layer below: then by name. */
static bool same_name(int path_fd, const struct proc_map *m)
{
	char self[64], name[PATH_MAX + sizeof(DELETED)];
	size_t n = strlen(m->path);
	ssize_t got;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	got = readlink(self, name, sizeof(name) - 1);
	if (got < 0)
		return false;
	name[got] = 0;
	return strncmp(name, m->path, n) == 0 && (!name[n] || strcmp(name + n, DELETED) == 0);
}

static int open_map_files(pid_t pid, const struct proc_map *m)
{
	__cleanup_close int path_fd = -1;
	struct stat st;
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, m->start,
		 m->end);
	path_fd = open(path, O_PATH | O_CLOEXEC);
	if (path_fd < 0 || fstat(path_fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_ino != m->inode && !same_name(path_fd, m))
		return -ESTALE;
	return reopen(path_fd, &st);
}

/* Below the target's root, absolute links kept inside, no magic links. */
static int open_in_root(int root_fd, const char *path, uint64_t inode)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	__cleanup_close int path_fd = -1;
	struct statfs fs;
	struct stat st;

	path_fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (path_fd < 0 || fstat(path_fd, &st) < 0 || fstatfs(path_fd, &fs) < 0)
		return -errno;
	if (fs.f_type == PROC_SUPER_MAGIC)
		return -ENODEV;
	if ((uint64_t)st.st_ino != inode)
		return -ESTALE;
	return reopen(path_fd, &st);
}

static int open_by_path(pid_t pid, const struct proc_map *m)
{
	char path[64], with_suffix[PATH_MAX + sizeof(DELETED)];
	__cleanup_close int root_fd = -1;
	int fd, direct;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	fd = open_in_root(root_fd, m->path, m->inode);
	if (fd < 0 && m->deleted) {
		/* Perhaps its name just ends like that. */
		snprintf(with_suffix, sizeof(with_suffix), "%s%s", m->path, DELETED);
		direct = open_in_root(root_fd, with_suffix, m->inode);
		if (direct >= 0)
			fd = direct;
	}
	return fd;
}

int proc__open_mapped(pid_t pid, const struct proc_map *m, struct clika_error *err)
{
	int direct, fd;

	if (!m->inode || m->path[0] != '/')
		return error__set(err, -ENOENT, "process %d: no file is mapped at %#" PRIx64,
				  (int)pid, m->start);
	direct = open_map_files(pid, m);
	if (direct >= 0)
		return direct;
	if (direct == -ENODEV)
		return error__set(err, direct, "process %d: %s is not a regular file", (int)pid,
				  m->path);
	fd = open_by_path(pid, m);
	if (fd >= 0)
		return fd;
	if (direct == -EPERM || direct == -EACCES)
		return error__set(err, fd,
				  "process %d: %s%s cannot be opened (%s); opening it through "
				  "map_files needs CAP_CHECKPOINT_RESTORE",
				  (int)pid, m->path, m->deleted ? DELETED : "",
				  fd == -ESTALE ? "there is another file under its name now"
						: strerror(-fd));
	return error__set(err, direct, "process %d: %s%s: %s", (int)pid, m->path,
			  m->deleted ? DELETED : "",
			  direct == -ESTALE ? "mapped differently by now" : strerror(-direct));
}

int proc__open_exe(pid_t pid, struct clika_error *err)
{
	__cleanup_close int path_fd = -1;
	struct stat st;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	path_fd = open(path, O_PATH | O_CLOEXEC);
	if (path_fd < 0 || fstat(path_fd, &st) < 0)
		fd = -errno;
	else
		fd = reopen(path_fd, &st);
	if (fd < 0)
		return error__set(err, fd, "process %d: its executable cannot be opened: %s",
				  (int)pid, strerror(-fd));
	return fd;
}

bool proc__is_32bit(pid_t pid)
{
	__cleanup_close int fd = proc__open_exe(pid, NULL);
	unsigned char ident[EI_NIDENT];

	return fd >= 0 && pread(fd, ident, sizeof(ident), 0) == (ssize_t)sizeof(ident) &&
	       memcmp(ident, ELFMAG, SELFMAG) == 0 && ident[EI_CLASS] == ELFCLASS32;
}
