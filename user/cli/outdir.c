// SPDX-License-Identifier: Apache-2.0
/* Output folders, and whom they belong to when root works for somebody. */
#define _GNU_SOURCE
#include "user/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOBODY_ID 0xfffffffeu /* the highest that is no special value */

struct owner owner__from(uid_t euid, const char *sudo_uid, const char *sudo_gid,
			 const char *pkexec_uid)
{
	const struct owner none = { (uid_t)-1, (gid_t)-1 };
	const struct passwd *pw;
	uint32_t uid, gid;

	/* Who is not root cannot give files away, and owns what is made anyhow. */
	if (euid != 0)
		return none;
	if (sudo_uid && sudo_gid) {
		if (parse__u32(sudo_uid, &uid) || parse__u32(sudo_gid, &gid) || !uid ||
		    uid > NOBODY_ID || gid > NOBODY_ID)
			return none;
		return (struct owner){ uid, gid };
	}
	if (pkexec_uid && !parse__u32(pkexec_uid, &uid) && uid && uid <= NOBODY_ID) {
		pw = getpwuid(uid);
		if (pw)
			return (struct owner){ uid, pw->pw_gid };
	}
	return none;
}

struct owner owner__invoking(void)
{
	return owner__from(geteuid(), getenv("SUDO_UID"), getenv("SUDO_GID"), getenv("PKEXEC_UID"));
}

/*
 * mkdir with the rights of @owner: what that user may not write to must not become writable
 * through us by way of a link on the path.
 */
static int mkdir_as(const char *path, const struct owner *owner)
{
	int err;

	if (owner->uid == (uid_t)-1)
		return mkdir(path, 0700) ? -errno : 0;
	setfsgid(owner->gid);
	setfsuid(owner->uid);
	err = mkdir(path, 0700) ? -errno : 0;
	setfsuid(geteuid());
	setfsgid(getegid());
	return err;
}

/*
 * In a place where only root may write: make it as root, then give it away. Somebody else who
 * may write there could have put another folder in its place, so only a new one of ours is given.
 */
static int mkdir_and_give(const char *path, const struct owner *owner)
{
	struct open_how no_links = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				     .resolve = RESOLVE_NO_SYMLINKS };
	char parent[4096];
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	struct stat st;
	int dir, fd, err = 0;

	/* As root no link is followed on the way: somebody else may have put it there. */
	snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		 slash ? path : ".");
	dir = (int)syscall(SYS_openat2, AT_FDCWD, parent, &no_links, sizeof(no_links));
	if (dir < 0)
		return -errno;
	if (mkdirat(dir, name, 0700)) {
		err = -errno;
		close(dir);
		return err;
	}
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	err = fd < 0 ? -errno : 0;
	close(dir);
	if (err)
		return err;
	if (fstat(fd, &st) || st.st_uid != geteuid() || (st.st_mode & 0777) != 0700)
		err = -EPERM;
	else if (fchown(fd, owner->uid, owner->gid))
		err = -errno;
	close(fd);
	return err;
}

static int check_existing(const char *path, const struct owner *owner, char *why, size_t n)
{
	uid_t mine = owner->uid == (uid_t)-1 ? geteuid() : owner->uid;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st, link;
	int err = 0;

	if (fd < 0) {
		err = -errno;
		/* O_DIRECTORY hides that it was the link that O_NOFOLLOW refused. */
		if (!lstat(path, &link) && S_ISLNK(link.st_mode))
			err = -ELOOP;
		snprintf(why, n, "%s: %s", path,
			 err == -ELOOP     ? "is a symbolic link; name the folder itself"
			 : err == -ENOTDIR ? "is there already and is no folder"
					   : strerror(-err));
		return err;
	}
	if (fstat(fd, &st))
		err = -errno;
	else if (st.st_uid != mine && st.st_uid != geteuid() && st.st_uid != 0 && geteuid() == 0)
		err = -EPERM;
	if (err)
		snprintf(why, n, "%s: %s", path,
			 err == -EPERM ? "belongs to another user" : strerror(-err));
	close(fd);
	return err;
}

int outdir__open(const char *path, const struct owner *owner, bool *created, char *why, size_t n)
{
	int err;

	*created = false;
	err = mkdir_as(path, owner);
	if ((err == -EACCES || err == -EPERM) && owner->uid != (uid_t)-1)
		err = mkdir_and_give(path, owner);
	if (err == -EEXIST)
		return check_existing(path, owner, why, n);
	if (err) {
		snprintf(why, n, "cannot make the folder %s: %s (-o names another)", path,
			 strerror(-err));
		return err;
	}
	*created = true;
	return 0;
}

int outdir__default(char *path, size_t n)
{
	time_t now = time(NULL);
	struct tm tm;
	char stamp[32];
	struct stat st;
	int i;

	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	snprintf(path, n, "clika-%s", stamp);
	for (i = 2; i < 100 && !lstat(path, &st); i++)
		snprintf(path, n, "clika-%s-%d", stamp, i);
	return i < 100 ? 0 : -EEXIST;
}

const char *outdir__holds(const char *path, const char *const *names)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const char *found = NULL;
	struct stat st;

	if (fd < 0)
		return NULL;
	for (; *names && !found; names++) {
		if (!fstatat(fd, *names, &st, AT_SYMLINK_NOFOLLOW))
			found = *names;
	}
	close(fd);
	return found;
}
