// SPDX-License-Identifier: Apache-2.0
#include "user/client/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "clika-bpf-prof"

static bool is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

bool loader__find(const char *named, char *path, size_t n)
{
	static const char *const places[] = { "/usr/local/bin/" PROGRAM, "/usr/bin/" PROGRAM };
	const char *dirs = getenv("PATH"), *end;

	if (!named)
		named = secure_getenv("CLIKA_PROF_LOADER");
	if (named) {
		snprintf(path, n, "%s", named);
		return is_program(path);
	}
	for (; dirs && *dirs; dirs = *end ? end + 1 : end) {
		end = strchrnul(dirs, ':');
		snprintf(path, n, "%.*s/" PROGRAM, (int)(end - dirs), dirs);
		/* What runs with our rights is not looked for in the folder we happen to be in. */
		if (dirs[0] == '/' && is_program(path))
			return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, n, "%s", places[i]);
		if (is_program(path))
			return true;
	}
	return false;
}

bool loader__may_load(char *why, size_t n)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { { 0 } };
	uint64_t have;

	if (syscall(SYS_capget, &h, d))
		return true; /* not told: trying will tell */
	have = d[0].effective | (uint64_t)d[1].effective << 32;
	if (have & 1ull << CAP_SYS_ADMIN)
		return true;
	if (!(have & 1ull << CAP_BPF) || !(have & 1ull << CAP_PERFMON)) {
		snprintf(why, n, "%s%s%s missing", have & 1ull << CAP_BPF ? "" : "CAP_BPF",
			 !(have & 1ull << CAP_BPF) && !(have & 1ull << CAP_PERFMON) ? " and " : "",
			 have & 1ull << CAP_PERFMON ? "" : "CAP_PERFMON");
		return false;
	}
	return true;
}

/* A child that ends without a signal is not seen by waitpid(-1) of the host. */
static pid_t quiet_fork(void)
{
	return (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
}

static void close_others(int keep)
{
	if (keep > 3)
		syscall(SYS_close_range, 3, keep - 1, 0);
	syscall(SYS_close_range, keep + 1, ~0u, 0);
}

int loader__start(const char *path)
{
	char number[16];
	char *argv[] = { (char *)(uintptr_t)path, "serve", "--private", number, NULL };
	int pair[2], status, e;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	snprintf(number, sizeof(number), "%d", pair[1]);
	pid = quiet_fork();
	if (pid < 0) {
		e = errno;
		close(pair[0]);
		close(pair[1]);
		return -e;
	}
	if (pid == 0) {
		/* Only system calls from here: other threads may hold any lock. */
		pid = quiet_fork();
		if (pid)
			_exit(pid < 0);
		fcntl(pair[1], F_SETFD, 0);
		setsid();
		close_others(pair[1]);
		execv(path, argv);
		_exit(127);
	}
	close(pair[1]);
	while (waitpid(pid, &status, __WCLONE) < 0 && errno == EINTR)
		;
	return pair[0];
}

/* --- a command, held until it is being recorded ------------------------------------------------- */

int held_command__start(struct held_command *c, char *const *argv)
{
	int go[2], failed[2], e;
	char byte;

	if (pipe2(go, O_CLOEXEC))
		return -errno;
	if (pipe2(failed, O_CLOEXEC)) {
		e = errno;
		close(go[0]);
		close(go[1]);
		return -e;
	}
	c->pid = fork();
	if (c->pid == 0) {
		close(go[1]);
		close(failed[0]);
		if (read(go[0], &byte, 1) != 1)
			_exit(125);
		execvp(argv[0], argv);
		e = errno;
		if (write(failed[1], &e, sizeof(e)) < 0)
			_exit(126);
		_exit(127);
	}
	e = errno;
	close(go[0]);
	close(failed[1]);
	if (c->pid < 0) {
		c->pid = 0;
		close(go[1]);
		close(failed[0]);
		return -e;
	}
	c->go = go[1];
	c->failed = failed[0];
	return 0;
}

int held_command__go(struct held_command *c)
{
	int e = 0;
	ssize_t n;

	if (write(c->go, "g", 1) != 1)
		return -errno;
	close(c->go);
	c->go = -1;
	do {
		n = read(c->failed, &e, sizeof(e));
	} while (n < 0 && errno == EINTR);
	close(c->failed);
	c->failed = -1;
	return n == (ssize_t)sizeof(e) ? -e : 0;
}

int held_command__status(struct held_command *c)
{
	int status;

	if (!c->pid)
		return -1;
	if (!c->ended && waitpid(c->pid, &status, WNOHANG) == c->pid) {
		c->ended = true;
		c->status = status;
	}
	return c->ended ? c->status : -1;
}

void held_command__drop(struct held_command *c)
{
	if (c->go >= 0)
		close(c->go);
	if (c->failed >= 0)
		close(c->failed);
	c->go = c->failed = -1;
	held_command__status(c);
}
