// SPDX-License-Identifier: Apache-2.0
/* A command to record: made, held before it becomes the program, let go when probes are on. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user/prof/recorder.h"

static bool is_executable_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

int command__find(const char *name, char *path, size_t n, struct clika_error *err)
{
	const char *dirs = getenv("PATH"), *end;

	if (strchr(name, '/')) {
		snprintf(path, n, "%s", name);
		if (is_executable_file(path))
			return 0;
		return error__set(err, access(name, F_OK) ? -ENOENT : -EACCES,
				  "cannot run '%s': %s", name,
				  access(name, F_OK) ? "no such file" : "not an executable file");
	}
	if (!dirs)
		dirs = "/usr/local/bin:/usr/bin:/bin";
	for (; *dirs; dirs = *end ? end + 1 : end) {
		end = strchrnul(dirs, ':');
		snprintf(path, n, "%.*s/%s", (int)(end - dirs), end == dirs ? "." : dirs, name);
		if (is_executable_file(path))
			return 0;
	}
	return error__set(err, -ENOENT, "cannot run '%s': not found in PATH", name);
}

/* Under sudo the command is the user's, not root's: its caches and files stay theirs. */
static void become(uid_t uid, gid_t gid)
{
	struct passwd *pw = getpwuid(uid);

	if (pw) {
		setenv("HOME", pw->pw_dir, 1);
		setenv("USER", pw->pw_name, 1);
		setenv("LOGNAME", pw->pw_name, 1);
	}
	if ((pw ? initgroups(pw->pw_name, gid) : setgroups(0, NULL)) || setresgid(gid, gid, gid) ||
	    setresuid(uid, uid, uid))
		_exit(126);
}

static void child(int go, int failed, const char *path, char *const *argv, uid_t uid, gid_t gid)
{
	sigset_t none;
	char c;
	int e;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	/* The recorder has gone away before it let us go: nothing to run. */
	if (read(go, &c, 1) != 1)
		_exit(125);
	if (uid != (uid_t)-1)
		become(uid, gid);
	execv(path, argv);
	e = errno;
	if (write(failed, &e, sizeof(e)) < 0)
		_exit(126);
	_exit(127);
}

int command__prepare(struct command *c, char *const *argv, uid_t uid, gid_t gid,
		     struct clika_error *err)
{
	int go[2] = { -1, -1 }, failed[2] = { -1, -1 };
	char path[4096];
	int ret;

	ret = command__find(argv[0], path, sizeof(path), err);
	if (ret)
		return ret;
	if (pipe2(go, O_CLOEXEC) || pipe2(failed, O_CLOEXEC)) {
		ret = error__set(err, -errno, "cannot make a pipe: %s", strerror(errno));
		goto out;
	}
	c->pid = fork();
	if (c->pid < 0) {
		ret = error__set(err, -errno, "cannot fork: %s", strerror(errno));
		c->pid = 0;
		goto out;
	}
	if (c->pid == 0) {
		close(go[1]);
		close(failed[0]);
		child(go[0], failed[1], path, argv, uid, gid);
	}
	close(go[0]);
	close(failed[1]);
	c->go = go[1];
	c->failed = failed[0];
	return 0;
out:
	for (int i = 0; i < 2; i++) {
		if (go[i] >= 0)
			close(go[i]);
		if (failed[i] >= 0)
			close(failed[i]);
	}
	return ret;
}

/*
 * Held at its first instruction, when the dynamic linker has mapped what it needs, a command can be
 * given its probes before it has marked anything. A breakpoint at the program's entry does it; the
 * word below it is put back before anything else happens.
 */
#if defined(__x86_64__)
#define BREAKPOINT(word) (((word) & ~0xfful) | 0xcc)
typedef struct user_regs_struct cpu_regs;
static void regs__to_entry(cpu_regs *regs, uint64_t entry)
{
	regs->rip = entry;
}
#elif defined(__aarch64__)
#define BREAKPOINT(word) (((word) & ~0xfffffffful) | 0xd4200000ul)
typedef struct user_pt_regs cpu_regs;
static void regs__to_entry(cpu_regs *regs, uint64_t entry)
{
	regs->pc = entry;
}
#endif

static uint64_t entry_of(pid_t pid)
{
	__cleanup_free char *data = NULL;
	char path[64];
	uint64_t pair[2];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	if (file__read_all(-1, path, 65536, &data, &len))
		return 0;
	for (size_t at = 0; at + sizeof(pair) <= len; at += sizeof(pair)) {
		memcpy(pair, data + at, sizeof(pair));
		if (pair[0] == AT_ENTRY)
			return pair[1];
	}
	return 0;
}

#define IS_EVENT(status, event) ((status) >> 8 == (SIGTRAP | (event) << 8))

/*
 * Waits until the command has become a program, or comes to a breakpoint; other signals are passed
 * on. False when it has ended. @became: whether it was the first of the two.
 */
static bool wait_stop(struct command *c, bool *became)
{
	int status, sig = 0;

	for (;;) {
		if (waitpid(c->pid, &status, __WALL) < 0) {
			if (errno == EINTR)
				continue;
			return false;
		}
		if (!WIFSTOPPED(status)) {
			c->ended = true;
			c->status = status;
			return false;
		}
		*became = IS_EVENT(status, PTRACE_EVENT_EXEC);
		if (*became || status >> 8 == SIGTRAP)
			return true;
		sig = status >> 16 ? 0 : WSTOPSIG(status);
		ptrace(PTRACE_CONT, c->pid, NULL, (void *)(intptr_t)sig);
	}
}

#define EXECS_MAX 100 /* on end, before any entry is reached */

/* A constructor of a library may exec before the entry is reached: @became, and to be run again. */
static bool run_to_entry(struct command *c, bool *became)
{
	uint64_t entry = entry_of(c->pid);
	cpu_regs regs;
	struct iovec iov = { &regs, sizeof(regs) };
	long word;

	*became = false;
	/* The registers of a 32-bit image have another layout. */
	if (!entry || proc__is_32bit(c->pid))
		return false;
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, c->pid, (void *)entry, NULL);
	if (errno || ptrace(PTRACE_POKETEXT, c->pid, (void *)entry, (void *)BREAKPOINT(word)))
		return false;
	if (ptrace(PTRACE_CONT, c->pid, NULL, NULL) || !wait_stop(c, became) || *became)
		return false;
	ptrace(PTRACE_POKETEXT, c->pid, (void *)entry, (void *)word);
	if (ptrace(PTRACE_GETREGSET, c->pid, (void *)NT_PRSTATUS, &iov))
		return false;
	regs__to_entry(&regs, entry);
	return !ptrace(PTRACE_SETREGSET, c->pid, (void *)NT_PRSTATUS, &iov);
}

int command__go(struct command *c, void (*at_entry)(void *ctx), void *ctx, struct clika_error *err)
{
	bool held = !ptrace(PTRACE_SEIZE, c->pid, NULL, (void *)PTRACE_O_TRACEEXEC);
	int e = 0, tries = EXECS_MAX;
	bool became = false;
	ssize_t n;

	if (write(c->go, "g", 1) != 1)
		return error__set(err, -errno, "cannot start the command: %s", strerror(errno));
	close(c->go);
	c->go = -1;
	while (held && !became && wait_stop(c, &became))
		if (!became) /* a trap of its own doing, before it was any program */
			ptrace(PTRACE_CONT, c->pid, NULL, NULL);
	if (became) {
		while (became && tries--)
			run_to_entry(c, &became);
		if (!c->ended)
			at_entry(ctx);
		ptrace(PTRACE_DETACH, c->pid, NULL, NULL);
	}
	/* Closed by the exec; an errno comes when that failed. */
	do {
		n = read(c->failed, &e, sizeof(e));
	} while (n < 0 && errno == EINTR);
	close(c->failed);
	c->failed = -1;
	if (n == (ssize_t)sizeof(e))
		return error__set(err, -e, "cannot run the command: %s", strerror(e));
	return 0;
}

void command__reap(struct command *c)
{
	int status;

	if (c->pid && !c->ended && waitpid(c->pid, &status, WNOHANG) == c->pid) {
		c->ended = true;
		c->status = status;
	}
}

void command__abort(struct command *c)
{
	bool never_ran = c->go >= 0;

	if (never_ran)
		close(c->go);
	/* Held in read(), it ends at once. */
	while (never_ran && !c->ended && waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (c->failed >= 0)
		close(c->failed);
	c->go = c->failed = -1;
}
