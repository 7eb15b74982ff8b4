// SPDX-License-Identifier: Apache-2.0
/* Processes as /proc shows them. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/probe/proc.h"

#define SMALL_FILE (1u << 20)
#define MAX_CMDLINE (16u << 10)
#define DELETED " (deleted)"

static int open_proc(pid_t pid, const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT && kill(pid, 0) < 0 && errno == ESRCH ? -ESRCH : -errno;
	return fd;
}

static int read_proc(pid_t pid, const char *name, size_t max, char **data, size_t *len)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return file__read_all(AT_FDCWD, path, max, data, len);
}

/* --- mappings --------------------------------------------------------------------------- */

/* The kernel escapes the newline in this file and nothing else. */
static void undo_escapes(char *s)
{
	char *to = s;

	while (*s) {
		if (strncmp(s, "\\012", 4) == 0) {
			*to++ = '\n';
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = 0;
}

static bool parse_map(char *line, struct proc_map *m)
{
	char perms[5];
	size_t len;
	int at = 0;

	memset(m, 0, sizeof(*m));
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 "%n", &m->start,
		   &m->end, perms, &m->offset, &m->dev_major, &m->dev_minor, &m->inode, &at) < 7 ||
	    strlen(perms) != 4)
		return false;
	m->write = perms[1] == 'w';
	m->exec = perms[2] == 'x';
	line += at;
	line += strspn(line, " ");
	undo_escapes(line);
	len = strlen(line);
	if (len > strlen(DELETED) && strcmp(line + len - strlen(DELETED), DELETED) == 0) {
		line[len - strlen(DELETED)] = 0;
		m->deleted = true;
	}
	m->path = line;
	return true;
}

int proc__maps(pid_t pid, int (*fn)(void *ctx, const struct proc_map *m), void *ctx)
{
	int fd = open_proc(pid, "maps", O_RDONLY), rc = 0;
	struct proc_map m;
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	FILE *in;

	if (fd < 0)
		return fd;
	in = fdopen(fd, "r");
	if (!in) {
		rc = -errno;
		close(fd);
		return rc;
	}
	errno = 0;
	while (!rc && (n = getline(&line, &cap, in)) > 0) {
		if (line[n - 1] == '\n')
			line[n - 1] = 0;
		if (parse_map(line, &m))
			rc = fn(ctx, &m);
		errno = 0;
	}
	if (!rc && errno)
		rc = -errno;
	free(line);
	fclose(in);
	return rc;
}

/* --- identity ------------------------------------------------------------------------------- */

int proc__stat(pid_t pid, struct proc_stat *st)
{
	__cleanup_free char *text = NULL;
	char *open, *close;
	size_t len;
	int ppid, rc = read_proc(pid, "stat", SMALL_FILE, &text, &len);

	memset(st, 0, sizeof(*st));
	if (rc)
		return rc == -ENOENT ? -ESRCH : rc;
	/* A command name may hold ")" and spaces: it ends at the last ")". */
	open = strchr(text, '(');
	close = strrchr(text, ')');
	if (!open || !close || close < open)
		return -EBADMSG;
	*close = 0;
	snprintf(st->comm, sizeof(st->comm), "%s", open + 1);
	st->pid = (pid_t)atoi(text);
	if (sscanf(close + 1,
		   " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		   "%" SCNu64 " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		   "%*s %*s %*s %*s "
		   "%*s %*s %*s %*s %*s %" SCNu64,
		   &st->state, &ppid, &st->start_ticks, &st->args_at) < 3)
		return -EBADMSG;
	st->ppid = ppid;
	return 0;
}

static char *read_link(pid_t pid, const char *name)
{
	char path[64], text[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	n = readlink(path, text, sizeof(text) - 1);
	if (n < 0)
		return NULL;
	text[n] = 0;
	return strdup(text);
}

static void read_status(pid_t pid, struct proc_details *d)
{
	__cleanup_free char *text = NULL;
	const char *p;
	unsigned uid;
	size_t len;

	d->uid = (uid_t)-1;
	d->ns_pid = pid;
	if (read_proc(pid, "status", SMALL_FILE, &text, &len))
		return;
	p = strstr(text, "\nUid:");
	if (p && sscanf(p + 5, "%u", &uid) == 1)
		d->uid = uid;
	p = strstr(text, "\nNSpid:");
	if (!p)
		return;
	for (p += 7; *p && *p != '\n';) {
		p += strspn(p, " \t");
		if (!isdigit((unsigned char)*p))
			break;
		d->ns_pid = (pid_t)atoi(p);
		p += strspn(p, "0123456789");
	}
}

/* Cut at MAX_CMDLINE: a command line may be megabytes long. */
static char *read_cmdline(pid_t pid)
{
	__cleanup_close int fd = open_proc(pid, "cmdline", O_RDONLY);
	char *text = fd >= 0 ? malloc(MAX_CMDLINE) : NULL;
	size_t len = 0, i;
	ssize_t n;

	if (!text)
		return NULL;
	while (len < MAX_CMDLINE - 1) {
		n = read(fd, text + len, MAX_CMDLINE - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	while (len && !text[len - 1])
		len--;
	text[len] = 0;
	for (i = 0; i < len; i++)
		if (!text[i])
			text[i] = ' ';
	return text;
}

static char *read_comm(pid_t pid)
{
	char *text;
	size_t len;

	if (read_proc(pid, "comm", 256, &text, &len))
		return NULL;
	if (len && text[len - 1] == '\n')
		text[len - 1] = 0;
	return text;
}

/* The v2 line "0::PATH"; without one the first v1 line. The container may be in any of them. */
static void read_cgroup(pid_t pid, struct proc_details *d)
{
	__cleanup_free char *text = NULL;
	char *line, *save = NULL, *path, *v1 = NULL, *v2 = NULL;
	size_t len;

	if (read_proc(pid, "cgroup", SMALL_FILE, &text, &len))
		return;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		path = strchr(line, ':');
		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			continue;
		path++;
		if (strncmp(line, "0::", 3) == 0)
			v2 = path;
		else if (!v1)
			v1 = path;
		if (!d->container)
			d->container = cgroup__container(path);
	}
	if (v2 || v1)
		d->cgroup = strdup(v2 ? v2 : v1);
}

int proc__details(pid_t pid, struct proc_details *d)
{
	struct proc_stat st;
	int rc;

	memset(d, 0, sizeof(*d));
	rc = proc__stat(pid, &st);
	if (rc)
		return rc;
	read_status(pid, d);
	d->comm = read_comm(pid);
	d->exe = read_link(pid, "exe");
	d->cmdline = read_cmdline(pid);
	read_cgroup(pid, d);
	return 0;
}

void proc_details__free(struct proc_details *d)
{
	free(d->comm);
	free(d->exe);
	free(d->cmdline);
	free(d->cgroup);
	free(d->container);
	memset(d, 0, sizeof(*d));
}

/* --- containers ------------------------------------------------------------------------------ */

static size_t hex_run(const char *p, const char *end)
{
	size_t n = 0;

	while (p + n < end && (isdigit((unsigned char)p[n]) || (p[n] >= 'a' && p[n] <= 'f')))
		n++;
	return n;
}

/* A run of exactly 64 hex digits: how docker, containerd, CRI-O and podman name theirs. */
static const char *long_id(const char *p, const char *end)
{
	while (p < end) {
		size_t n = hex_run(p, end);

		if (n == 64)
			return p;
		p += n ? n : 1;
	}
	return NULL;
}

static bool starts(const char *p, const char *end, const char *with)
{
	size_t n = strlen(with);

	return (size_t)(end - p) > n && memcmp(p, with, n) == 0;
}

/* "machine-NAME.scope" of systemd-nspawn; "\x2d" is how systemd writes a "-" of the name. */
static char *machine_name(const char *p, const char *end)
{
	char *name, *to;

	p += strlen("machine-");
	end -= strlen(".scope");
	name = to = malloc((size_t)(end - p) + 1);
	if (!name)
		return NULL;
	while (p < end) {
		if (end - p >= 4 && memcmp(p, "\\x2d", 4) == 0) {
			*to++ = '-';
			p += 4;
		} else {
			*to++ = *p++;
		}
	}
	*to = 0;
	return name;
}

char *cgroup__container(const char *path)
{
	const char *p = path, *end, *id;
	char *found = NULL, *one;
	bool lxc_dir = false;

	/* The innermost wins: containers inside containers are told by their own id. */
	while (*p) {
		p += strspn(p, "/");
		end = p + strcspn(p, "/");
		one = NULL;
		id = long_id(p, end);
		if (id)
			one = strndup(id, 64);
		else if (lxc_dir && end > p && !starts(p, end, "lxc."))
			one = strndup(p, (size_t)(end - p));
		else if (starts(p, end, "lxc.payload."))
			one = strndup(p + 12, (size_t)(end - p) - 12);
		else if (starts(p, end, "machine-") && end - p > 14 &&
			 memcmp(end - 6, ".scope", 6) == 0)
			one = machine_name(p, end);
		lxc_dir = (end - p == 3 && memcmp(p, "lxc", 3) == 0) ||
			  (end - p == 11 && memcmp(p, "lxc.payload", 11) == 0);
		if (one) {
			free(found);
			found = one;
		}
		p = end;
	}
	return found;
}

/* --- lists ------------------------------------------------------------------------------------ */

static int each_number(const char *path, int (*fn)(void *ctx, pid_t id), void *ctx)
{
	struct dirent *e;
	int rc = 0;
	DIR *dir = opendir(path);

	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while (!rc && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]))
			rc = fn(ctx, (pid_t)atoi(e->d_name));
	closedir(dir);
	return rc;
}

int proc__threads(pid_t pid, int (*fn)(void *ctx, pid_t tid), void *ctx)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return each_number(path, fn, ctx);
}

int proc__thread_name(pid_t pid, pid_t tid, char name[64])
{
	__cleanup_free char *text = NULL;
	char path[64];
	size_t len;
	int rc;

	name[0] = 0;
	snprintf(path, sizeof(path), "task/%d/comm", (int)tid);
	rc = read_proc(pid, path, 256, &text, &len);
	if (rc)
		return rc == -ENOENT ? -ESRCH : rc;
	if (len && text[len - 1] == '\n')
		text[len - 1] = 0;
	snprintf(name, 64, "%s", text);
	return 0;
}

int proc__each(int (*fn)(void *ctx, pid_t pid), void *ctx)
{
	return each_number("/proc", fn, ctx);
}

struct family {
	struct {
		pid_t pid, ppid;
		bool in;
	} * all;
	size_t n, cap;
	bool failed;
};

static int note_parent(void *ctx, pid_t pid)
{
	struct family *f = ctx;
	struct proc_stat st;

	if (proc__stat(pid, &st))
		return 0;
	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 256;
		void *p = reallocarray(f->all, cap, sizeof(*f->all));

		if (!p)
			return -ENOMEM;
		f->all = p;
		f->cap = cap;
	}
	f->all[f->n].pid = pid;
	f->all[f->n].ppid = st.ppid;
	f->all[f->n].in = false;
	f->n++;
	return 0;
}

/* Marks those whose parent is marked or is @root; false when nothing new was found. */
static bool grow(struct family *f, pid_t root, struct map64 *in)
{
	bool more = false;
	size_t i;

	for (i = 0; i < f->n; i++) {
		if (f->all[i].in || f->all[i].pid == root ||
		    (f->all[i].ppid != root && !map64__get(in, (uint64_t)f->all[i].ppid)))
			continue;
		if (!map64__put(in, (uint64_t)f->all[i].pid, 1))
			f->failed = true;
		f->all[i].in = true;
		more = true;
	}
	return more && !f->failed;
}

int proc__descendants(pid_t pid, int (*fn)(void *ctx, pid_t pid), void *ctx)
{
	struct map64 *in = map64__new();
	struct family f = { 0 };
	size_t i;
	int rc;

	if (!in)
		return -ENOMEM;
	rc = proc__each(note_parent, &f);
	while (!rc && grow(&f, pid, in))
		;
	if (f.failed)
		rc = -ENOMEM;
	for (i = 0; !rc && i < f.n; i++)
		if (f.all[i].in)
			rc = fn(ctx, f.all[i].pid);
	free(f.all);
	map64__free(in);
	return rc;
}
