// SPDX-License-Identifier: Apache-2.0
/* An export in a process without rights: what a client sees of a recording is made by code that
 * could do the client no favour, and a descriptor that blocks holds up nobody else. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user/service/session.h"

#define WORKER_MEMORY (4ull << 30)

/* Links and maps that stay open here would stay attached as long as this process is held up. */
static void close_others(const int *keep, size_t n)
{
	int from = 3;

	for (;;) {
		int next = -1;

		for (size_t i = 0; i < n; i++)
			if (keep[i] >= from && (next < 0 || keep[i] < next))
				next = keep[i];
		if (next < 0)
			break;
		if (next > from)
			syscall(SYS_close_range, from, next - 1, 0);
		from = next + 1;
	}
	syscall(SYS_close_range, from, ~0u, 0);
}

static bool drop_rights(const struct peer *peer)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (geteuid() != 0)
		return true;
	return !setgroups(0, NULL) && !setresgid(peer->gid, peer->gid, peer->gid) &&
	       !setresuid(peer->uid, peer->uid, peer->uid);
}

static int open_part(int recording_fd, const struct export_job *job, struct clika_recording **r,
		     struct clika_prof_error *err)
{
	struct clika_view_opts view = { .sz = sizeof(view), .live = true };
	struct clika_recording_info info = { .sz = sizeof(info) };
	int ret;

	if (job->capture[0])
		view.capture = job->capture;
	if (job->last_ns) {
		ret = clika_recording__open_fd(recording_fd, NULL, r, err);
		if (ret)
			return ret;
		clika_recording__info(*r, &info);
		clika_recording__close(*r);
		if (info.duration_ns > job->last_ns)
			view.from_ns = info.duration_ns - job->last_ns;
	}
	return clika_recording__open_fd(recording_fd, &view, r, err);
}

static void worker__run(int recording_fd, const struct export_job *job, const struct peer *peer,
			unsigned seconds, int say, pid_t session)
{
	int keep[PROTO_MAX_FDS + 2] = { recording_fd, say };
	struct rlimit memory = { WORKER_MEMORY, WORKER_MEMORY };
	struct clika_prof_error err = { 0 };
	struct clika_recording *r;
	int ret;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	alarm(seconds);
	memcpy(keep + 2, job->fds, job->n * sizeof(int));
	close_others(keep, job->n + 2);
	setrlimit(RLIMIT_AS, &memory);
	if (!drop_rights(peer) || prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != session) {
		ret = snprintf(err.msg, sizeof(err.msg),
			       "the export worker cannot drop its rights");
	} else {
		ret = open_part(recording_fd, job, &r, &err);
		if (!ret) {
			ret = clika_recording__export_fds(r, (const char *const *)job->formats,
							  job->fds, job->n, NULL, &err);
			clika_recording__close(r);
		}
	}
	if (ret && write(say, err.msg, strlen(err.msg)) < 0)
		_exit(2);
	_exit(ret ? 1 : 0);
}

int worker__start(struct worker *w, int recording_fd, const struct export_job *job,
		  const struct peer *peer, unsigned seconds)
{
	pid_t session = getpid();
	int say[2];

	if (pipe2(say, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	w->pid = fork();
	if (w->pid == 0) {
		close(say[0]);
		worker__run(recording_fd, job, peer, seconds, say[1], session);
	}
	close(say[1]);
	if (w->pid < 0) {
		w->pid = 0;
		close(say[0]);
		return -errno;
	}
	w->said = say[0];
	w->deadline = clock__boottime_ns() + (seconds + 1) * NSEC_PER_SEC;
	return 0;
}

int worker__ended(struct worker *w, char *why, size_t n)
{
	int status;
	ssize_t got;

	if (!w->pid)
		return 0;
	if (waitpid(w->pid, &status, WNOHANG) != w->pid) {
		if (clock__boottime_ns() < w->deadline)
			return 0;
		kill(w->pid, SIGKILL);
		while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	w->pid = 0;
	why[0] = 0;
	got = read(w->said, why, n - 1);
	why[got > 0 ? got : 0] = 0;
	close(w->said);
	if (WIFSIGNALED(status))
		snprintf(why, n, "%s",
			 WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGKILL
				 ? "the export took longer than the service allows"
				 : "the export worker failed");
	else if (WEXITSTATUS(status) && !why[0])
		snprintf(why, n, "the export failed");
	return 1;
}

void worker__kill(struct worker *w)
{
	char why[64];

	if (!w->pid)
		return;
	w->deadline = 0;
	worker__ended(w, why, sizeof(why));
}
