// SPDX-License-Identifier: Apache-2.0
/* The listening side: who may connect, how many, a process for each. */
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user/service/session.h"

#define DEFAULT_SESSIONS 32
#define DEFAULT_PER_UID 8

struct server {
	const struct clika_service_opts *o;
	int sock;
	char made[108]; /* socket file to remove, "" = none */
	struct session_slot *slots;
	unsigned n_slots;
};

void clika_service_opts__init(struct clika_service_opts *o)
{
	memset(o, 0, sizeof(*o));
	o->sz = sizeof(*o);
	o->listen_fd = -1;
	o->private_fd = -1;
}

static int fail(struct clika_prof_error *err, int code, const char *fmt, ...) CLIKA_PRINTF(3, 4);
static int fail(struct clika_prof_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		err->code = code;
		va_start(ap, fmt);
		vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
		va_end(ap);
	}
	return code;
}

static int peer_of(int sock, struct peer *p)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	p->pid = (uint32_t)cred.pid;
	p->uid = cred.uid;
	p->gid = cred.gid;
	return 0;
}

/* The folder is made if missing; only root may write there, so nobody can put a socket of his own
 * in our place. */
static int make_folder(const char *path, struct clika_prof_error *err)
{
	char folder[108];
	struct stat st;
	char *slash;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return 0;
	*slash = 0;
	if (mkdir(folder, 0755) && errno != EEXIST)
		return fail(err, -errno, "cannot make %s: %s", folder, strerror(errno));
	if (lstat(folder, &st) || !S_ISDIR(st.st_mode))
		return fail(err, -ENOTDIR, "%s is no folder", folder);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & 0022)
		return fail(err, -EPERM,
			    "%s can be written by others than root: the socket would not be safe "
			    "there",
			    folder);
	return 0;
}

static int open_socket(struct server *sv, struct clika_prof_error *err)
{
	const char *path = sv->o->socket_path ? sv->o->socket_path : CLIKA_SERVICE_SOCKET;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct group *gr;
	mode_t mask;
	int ret, e;

	if (strlen(path) >= sizeof(a.sun_path))
		return fail(err, -ENAMETOOLONG, "%s: too long for a socket", path);
	memcpy(a.sun_path, path, strlen(path) + 1);
	ret = make_folder(path, err);
	if (ret)
		return ret;
	sv->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sv->sock < 0)
		return fail(err, -errno, "cannot make a socket: %s", strerror(errno));
	if (!connect(sv->sock, (struct sockaddr *)&a, sizeof(a)))
		return fail(err, -EADDRINUSE, "a service is running at %s already", path);
	close(sv->sock);
	sv->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sv->sock < 0)
		return fail(err, -errno, "cannot make a socket: %s", strerror(errno));
	unlink(path);
	/* The mode is right from the first moment on: no chmod that comes too late. */
	mask = umask(sv->o->everyone ? 0111 : 0117);
	ret = bind(sv->sock, (struct sockaddr *)&a, sizeof(a));
	e = errno;
	umask(mask);
	if (ret)
		return fail(err, -e, "cannot listen at %s: %s", path, strerror(e));
	snprintf(sv->made, sizeof(sv->made), "%s", path);
	gr = sv->o->everyone ? NULL : getgrnam(CLIKA_SERVICE_GROUP);
	if (!gr && !sv->o->everyone && sv->o->log)
		sv->o->log(sv->o->log_ctx, 1, "service",
			   "there is no group " CLIKA_SERVICE_GROUP
			   ", so only root can connect: make "
			   "it with 'sudo groupadd --system " CLIKA_SERVICE_GROUP
			   "' and start again, or serve with --everyone");
	if (gr && lchown(path, (uid_t)-1, gr->gr_gid))
		return fail(err, -errno, "cannot give %s to the group " CLIKA_SERVICE_GROUP ": %s",
			    path, strerror(errno));
	if (listen(sv->sock, 64))
		return fail(err, -errno, "cannot listen at %s: %s", path, strerror(errno));
	return 0;
}

static void say_no(int sock, const char *why)
{
	struct proto_header h = { .type = REQ_HELLO, .seq = 1, .code = -EUSERS };
	struct buf b = { 0 };
	char request[64];

	proto__put_string(&b, why);
	proto__send(sock, &h, &b, NULL, 0, clock__boottime_ns() + 100 * NSEC_PER_MSEC);
	buf__free(&b);
	/* A request that lies unread at the close would take the place of this answer: ECONNRESET. */
	shutdown(sock, SHUT_RD);
	while (recv(sock, request, sizeof(request), MSG_DONTWAIT) > 0)
		;
	close(sock);
}

static struct session_slot *take_slot(struct server *sv, const struct peer *p, const char **why)
{
	unsigned most = sv->o->max_sessions_per_uid ? sv->o->max_sessions_per_uid : DEFAULT_PER_UID;
	struct session_slot *free_slot = NULL;
	unsigned own = 0;

	for (unsigned i = 0; i < sv->n_slots; i++) {
		if (!sv->slots[i].used)
			free_slot = free_slot ? free_slot : &sv->slots[i];
		else
			own += sv->slots[i].info.uid == p->uid;
	}
	if (own >= most && p->uid != 0) {
		*why = "you have as many sessions open as the service allows one user";
		return NULL;
	}
	if (!free_slot)
		*why = "the service has as many sessions open as it allows";
	return free_slot;
}

static void accept_one(struct server *sv)
{
	int sock = accept4(sv->sock, NULL, NULL, SOCK_CLOEXEC);
	struct session_slot *slot;
	const char *why = "";
	struct peer p = { 0 };
	pid_t pid, server = getpid();

	if (sock < 0)
		return;
	if (peer_of(sock, &p)) {
		close(sock);
		return;
	}
	slot = take_slot(sv, &p, &why);
	if (!slot) {
		say_no(sock, why);
		return;
	}
	memset(&slot->info, 0, sizeof(slot->info));
	slot->info.client = p.pid;
	slot->info.uid = p.uid;
	slot->info.begun = clock__boottime_ns();
	slot->used = 1;
	pid = fork();
	if (pid == 0) {
		struct service_session s = { .sock = sock,
					     .peer = p,
					     .o = sv->o,
					     .slots = sv->slots,
					     .n_slots = sv->n_slots,
					     .slot = slot };

		/* When the service is killed its sessions end: nothing stays attached. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != server)
			_exit(0);
		signal(SIGTERM, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		close(sv->sock);
		service_session__run(&s);
		_exit(0);
	}
	close(sock);
	if (pid < 0)
		slot->used = 0;
	else
		slot->info.pid = (uint32_t)pid;
}

static void reap(struct server *sv)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (unsigned i = 0; i < sv->n_slots; i++)
			if (sv->slots[i].used && sv->slots[i].info.pid == (uint32_t)pid)
				__atomic_store_n(&sv->slots[i].used, 0, __ATOMIC_RELEASE);
}

static void end_sessions(struct server *sv)
{
	for (unsigned i = 0; i < sv->n_slots; i++)
		if (sv->slots[i].used && sv->slots[i].info.pid)
			kill((pid_t)sv->slots[i].info.pid, SIGTERM);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static int serve_private(const struct clika_service_opts *o, struct clika_prof_error *err)
{
	struct service_session s = { .sock = o->private_fd, .o = o };
	int ret = peer_of(o->private_fd, &s.peer);

	if (ret)
		return fail(err, ret, "descriptor %d is no connected socket: %s", o->private_fd,
			    strerror(-ret));
	service_session__run(&s);
	return 0;
}

int clika_service__run(const struct clika_service_opts *o, const volatile int *stop,
		       struct clika_prof_error *err)
{
	struct server sv = { .o = o, .sock = -1 };
	int ret = 0;

	signal(SIGPIPE, SIG_IGN);
	if (o->private_fd >= 0)
		return serve_private(o, err);
	sv.n_slots = o->max_sessions ? o->max_sessions : DEFAULT_SESSIONS;
	sv.slots = mmap(NULL, sv.n_slots * sizeof(*sv.slots), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sv.slots == MAP_FAILED)
		return fail(err, -ENOMEM, "out of memory");
	if (o->listen_fd >= 0)
		sv.sock = o->listen_fd;
	else
		ret = open_socket(&sv, err);
	while (!ret && !*stop) {
		struct pollfd p = { .fd = sv.sock, .events = POLLIN };

		if (poll(&p, 1, 250) > 0)
			accept_one(&sv);
		reap(&sv);
	}
	if (!ret)
		end_sessions(&sv);
	if (sv.sock >= 0 && sv.sock != o->listen_fd)
		close(sv.sock);
	if (sv.made[0])
		unlink(sv.made);
	munmap(sv.slots, sv.n_slots * sizeof(*sv.slots));
	return ret;
}

/* --- the list of sessions --------------------------------------------------------------------------- */

static int ask(int sock, uint16_t type, const struct buf *payload, struct proto_message *m)
{
	struct proto_header h = { .type = type, .seq = type };
	uint64_t deadline = clock__boottime_ns() + 5 * NSEC_PER_SEC;
	int ret = proto__send(sock, &h, payload, NULL, 0, deadline);

	if (!ret)
		ret = proto__receive(sock, m, deadline);
	if (!ret)
		proto_message__close_fds(m);
	return ret ? ret : m->h.code;
}

int clika_service__sessions(const char *socket_path,
			    int (*fn)(void *ctx, const struct clika_service_session *s), void *ctx,
			    struct clika_prof_error *err)
{
	const char *path = socket_path ? socket_path : CLIKA_SERVICE_SOCKET;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	__cleanup_close int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct proto_message *m = NULL;
	struct buf b = { 0 };
	struct cursor c;
	uint64_t now = clock__boottime_ns();
	uint32_t n;
	int ret;

	if (strlen(path) >= sizeof(a.sun_path))
		return fail(err, -ENAMETOOLONG, "%s: too long for a socket", path);
	memcpy(a.sun_path, path, strlen(path) + 1);
	if (sock < 0 || connect(sock, (struct sockaddr *)&a, sizeof(a)))
		return fail(err, -errno, "no service at %s: %s", path, strerror(errno));
	m = malloc(sizeof(*m));
	if (!m)
		return fail(err, -ENOMEM, "out of memory");
	buf__u32le(&b, PROTO_VERSION);
	ret = ask(sock, REQ_HELLO, &b, m);
	if (!ret)
		ret = ask(sock, REQ_LIST, NULL, m);
	buf__free(&b);
	if (ret) {
		free(m);
		return fail(err, ret, "the service at %s does not answer: %s", path,
			    strerror(-ret));
	}
	c = cursor__over(m->payload, m->payload_len);
	n = cursor__u32le(&c);
	for (uint32_t i = 0; i < n && !ret; i++) {
		struct clika_service_session s = { 0 };
		struct proto_session p;

		if (proto__get_session(&c, &p))
			break;
		s.loader_pid = p.pid;
		s.client_pid = p.client;
		s.uid = p.uid;
		s.target_pid = p.target_pid;
		s.system_wide = p.target == 3;
		s.seconds = now > p.begun ? (now - p.begun) / NSEC_PER_SEC : 0;
		s.records = p.records;
		s.lost = p.lost;
		s.bytes = p.bytes;
		ret = fn(ctx, &s);
	}
	free(m);
	return ret;
}
