// SPDX-License-Identifier: Apache-2.0
/* libclika-client: one session of the loader service, or of a private loader. */
#include <clika/client.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "user/client/loader.h"
#include "user/service/proto.h"

#define DEFAULT_SOCKET "/run/clika-prof/clika-prof.sock"
#define DEFAULT_TIMEOUT_MS 10000
/* Attaching the first time loads the BPF programs and looks at what the target maps. */
#define NEW_TIMEOUT_MS 30000
#define EXPORT_TIMEOUT_MS 600000
/* How long a call waits until it asks again whether it shall end. */
#define ASK_NS (50 * NSEC_PER_MSEC)

/* A request on its way. Lies on the stack of the thread that waits for the answer. */
struct request {
	struct request *next;
	uint32_t seq;
	bool done;
	int ret;               /* nothing came: why */
	struct proto_header h; /* of the answer */
	struct buf answer;
};

/*
 * Several threads may wait at once, so that a long export holds up no capture. One of them
 * receives for all; when it has its own answer, another takes over.
 */
struct clika_client {
	pthread_mutex_t lock;   /* of everything below; not held while waiting */
	pthread_cond_t changed; /* an answer came, nobody receives, or an export has ended */
	struct request *waiting;
	bool receiving;
	bool exporting; /* the loader writes one export at a time */
	pthread_t exporter;
	int sock;
	uint32_t seq;
	int timeout_ms;
	bool private_loader;
	bool gone;
	pid_t owner;                    /* a forked child must not talk on this connection */
	bool (*interrupted)(void *ctx); /* may be NULL */
	void *interrupted_ctx;
	struct held_command command;
	struct proto_message in;
};

void clika_client_opts__init(struct clika_client_opts *o)
{
	memset(o, 0, sizeof(*o));
	o->sz = sizeof(*o);
}

static int fail(struct clika_client_error *err, int code, const char *fmt, ...) CLIKA_PRINTF(3, 4);
static int fail(struct clika_client_error *err, int code, const char *fmt, ...)
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

static int lost_loader(int code, struct clika_client_error *err)
{
	if (code == -ETIMEDOUT)
		return fail(err, code,
			    "the loader does not answer; the session is given up, what was "
			    "exported before is kept");
	return fail(err, -EPIPE, "the loader has gone%s; what was exported before is kept",
		    code == -EBADMSG ? " (it does not speak this protocol)" : "");
}

/* Nothing will come any more: for whoever waits, and for all later calls. */
static void give_up(struct clika_client *c, int code)
{
	c->gone = true;
	for (struct request *r = c->waiting; r; r = r->next) {
		if (!r->done)
			r->ret = code;
		r->done = true;
	}
	/* Wakes the thread that receives. */
	shutdown(c->sock, SHUT_RDWR);
	pthread_cond_broadcast(&c->changed);
}

/* An answer to a call that was given up earlier is passed over. */
static void deliver(struct clika_client *c)
{
	for (struct request *r = c->waiting; r; r = r->next) {
		if (r->seq != c->in.h.seq || r->done)
			continue;
		r->h = c->in.h;
		buf__append(&r->answer, c->in.payload, c->in.payload_len);
		r->done = true;
	}
	proto_message__close_fds(&c->in);
}

static void wait_for_change(struct clika_client *c, uint64_t deadline)
{
	uint64_t now = clock__boottime_ns(), left = deadline > now ? deadline - now : 0;
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	left += (uint64_t)ts.tv_nsec;
	ts.tv_sec += (time_t)(left / NSEC_PER_SEC);
	ts.tv_nsec = (long)(left % NSEC_PER_SEC);
	pthread_cond_timedwait(&c->changed, &c->lock, &ts);
}

/* Whoever is asked may call this client: no lock is held meanwhile, and nobody is receiving for it. */
static bool is_interrupted(struct clika_client *c)
{
	bool yes;

	pthread_mutex_unlock(&c->lock);
	yes = c->interrupted(c->interrupted_ctx);
	pthread_mutex_lock(&c->lock);
	return yes;
}

static void receive_for_all(struct clika_client *c, uint64_t until)
{
	int ret;

	c->receiving = true;
	pthread_mutex_unlock(&c->lock);
	ret = proto__receive(c->sock, &c->in, until);
	pthread_mutex_lock(&c->lock);
	c->receiving = false;
	if (!ret)
		deliver(c);
	else if (ret != -ETIMEDOUT)
		give_up(c, ret);
	pthread_cond_broadcast(&c->changed);
}

/* Until @r is done. The lock is held, and given up while waiting. */
static void wait_for_answer(struct clika_client *c, struct request *r, uint64_t deadline, bool ask)
{
	uint64_t next = ask ? clock__boottime_ns() + ASK_NS : UINT64_MAX, now, until;

	while (!r->done) {
		now = clock__boottime_ns();
		until = next < deadline ? next : deadline;
		if (now >= deadline) {
			give_up(c, -ETIMEDOUT);
		} else if (now >= next) {
			if (is_interrupted(c)) {
				r->ret = -ECANCELED;
				r->done = true;
			}
			next = clock__boottime_ns() + ASK_NS;
		} else if (c->receiving) {
			wait_for_change(c, until);
		} else {
			receive_for_all(c, until);
		}
	}
}

/* The export that nobody waits for any more ends; the answers are passed over when they come. */
static void cancel_export(struct clika_client *c, uint32_t seq)
{
	struct proto_header h = { .type = REQ_CANCEL, .seq = ++c->seq };
	struct buf b = { 0 };

	buf__u32le(&b, seq);
	if (proto__send(c->sock, &h, &b, NULL, 0, clock__boottime_ns() + NSEC_PER_SEC))
		give_up(c, -EPIPE);
	buf__free(&b);
}

static int exchange(struct clika_client *c, struct request *r, enum proto_request type,
		    const struct buf *payload, const int *fds, size_t n_fds, int timeout_ms)
{
	struct proto_header h = { .type = type };
	uint64_t deadline = clock__boottime_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;
	/* An answer that nobody takes would leave a capture open, or its end unsure. */
	bool ask = c->interrupted && type != REQ_CAPTURE_BEGIN && type != REQ_CAPTURE_END;
	struct request **at;
	int ret;

	pthread_mutex_lock(&c->lock);
	if (c->gone) {
		pthread_mutex_unlock(&c->lock);
		return -EPIPE;
	}
	h.seq = r->seq = ++c->seq;
	ret = proto__send(c->sock, &h, payload, fds, n_fds, deadline);
	/* A loader that refuses says why before it closes. */
	if (ret == -EPIPE)
		ret = 0;
	if (!ret) {
		r->next = c->waiting;
		c->waiting = r;
		wait_for_answer(c, r, deadline, ask);
		for (at = &c->waiting; *at != r; at = &(*at)->next)
			;
		*at = r->next;
		ret = r->ret;
		if (!ret && (r->h.code > 0 || r->h.code < -4095)) {
			ret = -EBADMSG;
			give_up(c, ret);
		}
		if (ret == -ECANCELED && type == REQ_EXPORT && !c->gone)
			cancel_export(c, r->seq);
	} else if (ret != -EMSGSIZE && ret != -ENOMEM) {
		give_up(c, ret);
	}
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/* One request and its answer, whose payload goes to @answer (may be NULL). */
static int call(struct clika_client *c, enum proto_request type, const struct buf *payload,
		const int *fds, size_t n_fds, int timeout_ms, struct buf *answer,
		struct clika_client_error *err)
{
	struct request r = { 0 };
	struct cursor cur;
	char *why;
	int ret;

	/* Before any lock: a forked child may have copied one that is held. */
	if (c->owner != getpid())
		return fail(err, -EPERM,
			    "this session belongs to the process that made it (pid %d), "
			    "not to a forked child",
			    (int)c->owner);
	ret = exchange(c, &r, type, payload, fds, n_fds, timeout_ms);
	if (!ret)
		ret = buf__error(&r.answer);
	if (ret == -EMSGSIZE || ret == -ENOMEM) {
		ret = fail(err, ret, "%s",
			   ret == -ENOMEM ? "out of memory" : "too much for one request");
	} else if (ret == -ECANCELED) {
		ret = fail(err, ret, "the call was interrupted");
	} else if (ret) {
		ret = lost_loader(ret, err);
	} else if (r.h.code) {
		cur = cursor__over(r.answer.data, r.answer.len);
		why = proto__get_string(&cur);
		ret = fail(err, r.h.code, "%s", why ? why : strerror(-r.h.code));
		free(why);
	} else if (answer) {
		*answer = r.answer;
		return 0;
	}
	buf__free(&r.answer);
	return ret;
}

/* An answer that makes no sense. */
static int bad_answer(struct clika_client *c, struct clika_client_error *err)
{
	pthread_mutex_lock(&c->lock);
	give_up(c, -EBADMSG);
	pthread_mutex_unlock(&c->lock);
	return lost_loader(-EBADMSG, err);
}

/* --- connecting ------------------------------------------------------------------------------ */

static int connect_service(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int sock;

	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	memcpy(a.sun_path, path, strlen(path) + 1);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	if (connect(sock, (struct sockaddr *)&a, sizeof(a))) {
		int e = errno;

		close(sock);
		return -e;
	}
	return sock;
}

static int open_connection(struct clika_client *c, const struct clika_client_opts *o,
			   struct clika_client_error *err)
{
	const char *path = o->socket_path;
	char loader[4096], why[300] = "";
	int sock = -ENOENT;

	if (!path)
		path = secure_getenv("CLIKA_PROF_SOCKET");
	if (!path)
		path = DEFAULT_SOCKET;
	if (o->via != CLIKA_VIA_PRIVATE)
		sock = connect_service(path);
	if (sock >= 0) {
		c->sock = sock;
		return 0;
	}
	if (o->via == CLIKA_VIA_SERVICE)
		return fail(
			err, sock == -EACCES ? -EACCES : -ECONNREFUSED,
			"no loader service at %s: %s; %s", path, strerror(-sock),
			sock == -EACCES
				? "add yourself to the group with "
				  "'sudo usermod -aG clika-prof $USER' and log in again"
				: "start it with 'sudo systemctl start clika-bpf-prof.socket' or "
				  "'sudo clika-bpf-prof serve'");
	if (!loader__find(o->loader_path, loader, sizeof(loader)))
		return fail(err, -ENOENT,
			    "no loader service at %s (%s), and no clika-bpf-prof to start: "
			    "install it, or name it in CLIKA_PROF_LOADER",
			    path, strerror(-sock));
	if (!loader__may_load(why, sizeof(why)) && o->via != CLIKA_VIA_PRIVATE)
		return fail(err, -ECONNREFUSED,
			    "no loader service at %s (%s), and this process may not load "
			    "BPF itself (%s): start the service with 'sudo clika-bpf-prof serve', "
			    "or run as root",
			    path, strerror(-sock), why);
	c->sock = loader__start(loader);
	if (c->sock < 0)
		return fail(err, c->sock, "cannot start %s: %s", loader, strerror(-c->sock));
	c->private_loader = true;
	return 0;
}

static int hello(struct clika_client *c, struct clika_client_error *err)
{
	struct buf b = { 0 }, answer = { 0 };
	struct cursor cur;
	uint32_t version;
	int ret;

	buf__u32le(&b, PROTO_VERSION);
	ret = call(c, REQ_HELLO, &b, NULL, 0, c->timeout_ms, &answer, err);
	buf__free(&b);
	if (ret)
		return ret;
	cur = cursor__over(answer.data, answer.len);
	version = cursor__u32le(&cur);
	buf__free(&answer);
	if (cur.bad || version != PROTO_VERSION)
		return fail(err, -EPROTONOSUPPORT,
			    "the loader speaks protocol %u, this library %u: install "
			    "the same version of both",
			    version, PROTO_VERSION);
	return 0;
}

/* In millionths; the least that is not the default. */
static uint32_t budget_of(double share)
{
	if (share < 0)
		return PROTO_BUDGET_OFF;
	return share > 0 && share < 1e-6 ? 1 : (uint32_t)(share * 1e6 + 0.5);
}

static int new_session(struct clika_client *c, const struct clika_client_opts *o,
		       struct clika_client_error *err)
{
	struct proto_new m = { .target = o->target,
			       .pid = (uint32_t)o->pid,
			       .ring_bytes = o->ring_bytes,
			       .max_bytes = o->max_bytes,
			       .probes = (char **)(uintptr_t)o->probes,
			       .usdts = (char **)(uintptr_t)o->usdts,
			       .n_probes = o->n_probes,
			       .n_usdts = o->n_usdts,
			       .recipes = (char **)(uintptr_t)o->recipes,
			       .n_recipes = o->n_recipes,
			       .budget = budget_of(o->budget) };
	struct buf b = { 0 };
	int ret;

	m.flags = (o->children ? NEW_CHILDREN : 0) | (o->redact ? NEW_REDACT : 0) |
		  (o->flight_recorder ? NEW_FLIGHT : 0) | (o->no_auto ? NEW_NO_AUTO : 0);
	if (o->target == CLIKA_CLIENT_COMMAND) {
		/* Held by this process, as its child, and recorded by its number. */
		ret = held_command__start(&c->command, o->argv);
		if (ret)
			return fail(err, ret, "cannot start the command: %s", strerror(-ret));
		m.target = CLIKA_CLIENT_PID;
		m.pid = (uint32_t)c->command.pid;
		m.flags |= NEW_CHILDREN;
	}
	proto__put_new(&b, &m);
	ret = call(c, REQ_NEW, &b, NULL, 0, NEW_TIMEOUT_MS, NULL, err);
	buf__free(&b);
	if (!ret && c->command.pid) {
		ret = held_command__go(&c->command);
		if (ret)
			ret = fail(err, ret, "cannot run '%s': %s", o->argv[0], strerror(-ret));
	}
	return ret;
}

int clika_client__new(const struct clika_client_opts *o, struct clika_client **out,
		      struct clika_client_error *err)
{
	pthread_condattr_t monotonic;
	struct clika_client *c;
	int ret;

	*out = NULL;
	if (o->sz < sizeof(*o))
		return fail(err, -EINVAL, "clika_client_opts: size %zu is not this library's %zu",
			    o->sz, sizeof(*o));
	if (o->target == CLIKA_CLIENT_COMMAND && (!o->argv || !o->argv[0]))
		return fail(err, -EINVAL, "no command is given");
	if (!(o->budget <= PROTO_BUDGET_MAX / 1e6))
		return fail(err, -EINVAL, "a budget is a share of CPU time of at most %u",
			    PROTO_BUDGET_MAX / 1000000);
	if (o->n_probes > PROTO_MAX_STRINGS || o->n_usdts > PROTO_MAX_STRINGS ||
	    o->n_recipes > PROTO_MAX_STRINGS)
		return fail(err, -EINVAL, "at most %d probes, USDT markers and recipes each",
			    PROTO_MAX_STRINGS);
	c = calloc(1, sizeof(*c));
	if (!c)
		return fail(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	c->sock = -1;
	c->owner = getpid();
	c->interrupted = o->interrupted;
	c->interrupted_ctx = o->interrupted_ctx;
	c->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : DEFAULT_TIMEOUT_MS;
	c->command.go = c->command.failed = -1;
	ret = open_connection(c, o, err);
	if (!ret)
		ret = hello(c, err);
	if (!ret)
		ret = new_session(c, o, err);
	if (ret) {
		clika_client__free(c);
		return ret;
	}
	*out = c;
	return 0;
}

void clika_client__free(struct clika_client *c)
{
	if (!c)
		return;
	held_command__drop(&c->command);
	if (c->sock >= 0)
		close(c->sock);
	/* In a forked child threads that are not there may still seem to wait. */
	if (c->owner == getpid()) {
		pthread_cond_destroy(&c->changed);
		pthread_mutex_destroy(&c->lock);
	}
	free(c);
}

void clika_client__after_fork(struct clika_client *c)
{
	if (!c || c->owner == getpid())
		return;
	/* The copy of the descriptor keeps the connection open: closing it here tells the loader
	 * nothing as long as the parent has its own. */
	if (c->sock >= 0)
		close(c->sock);
	c->sock = -1;
	c->gone = true;
}

/* --- captures and results ----------------------------------------------------------------------- */

int64_t clika_client__capture_begin(struct clika_client *c, const char *tag,
				    struct clika_client_error *err)
{
	struct buf b = { 0 }, answer = { 0 };
	struct cursor cur;
	int64_t id = -EBADMSG;
	int ret;

	if (tag && strlen(tag) > PROTO_MAX_STRING)
		return fail(err, -ENAMETOOLONG, "a tag has at most %d bytes", PROTO_MAX_STRING);
	proto__put_string(&b, tag && *tag ? tag : "default");
	ret = call(c, REQ_CAPTURE_BEGIN, &b, NULL, 0, c->timeout_ms, &answer, err);
	if (!ret) {
		cur = cursor__over(answer.data, answer.len);
		id = (int64_t)cursor__u64le(&cur);
		if (cur.bad || id <= 0)
			id = bad_answer(c, err);
	}
	buf__free(&answer);
	buf__free(&b);
	return ret ? ret : id;
}

int clika_client__capture_end(struct clika_client *c, int64_t id, struct clika_client_error *err)
{
	struct buf b = { 0 };
	int ret;

	buf__u64le(&b, (uint64_t)id);
	ret = call(c, REQ_CAPTURE_END, &b, NULL, 0, c->timeout_ms, NULL, err);
	buf__free(&b);
	return ret;
}

int clika_client__flush(struct clika_client *c, struct clika_client_error *err)
{
	return call(c, REQ_FLUSH, NULL, NULL, 0, c->timeout_ms, NULL, err);
}

static int begin_export(struct clika_client *c, struct clika_client_error *err)
{
	uint64_t deadline = clock__boottime_ns() + EXPORT_TIMEOUT_MS * NSEC_PER_MSEC;
	int ret = 0;

	pthread_mutex_lock(&c->lock);
	while (c->exporting && !ret) {
		if (pthread_equal(c->exporter, pthread_self())) {
			ret = fail(err, -EDEADLK,
				   "this thread is within an export of this session: what "
				   "interrupts it "
				   "cannot make another");
		} else if (clock__boottime_ns() >= deadline) {
			ret = fail(err, -EBUSY, "another thread's export does not end");
		} else {
			wait_for_change(c, clock__boottime_ns() + ASK_NS);
			if (c->interrupted && is_interrupted(c))
				ret = fail(err, -ECANCELED, "the call was interrupted");
		}
	}
	if (!ret) {
		c->exporting = true;
		c->exporter = pthread_self();
	}
	pthread_mutex_unlock(&c->lock);
	return ret;
}

static void end_export(struct clika_client *c)
{
	pthread_mutex_lock(&c->lock);
	c->exporting = false;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

int clika_client__export_view(struct clika_client *c, const char *const *formats, const int *fds,
			      size_t n, const struct clika_client_view *view,
			      struct clika_client_error *err)
{
	struct buf b = { 0 };
	int ret;

	if (!n || n > PROTO_MAX_FDS)
		return fail(err, -EINVAL, "between 1 and %d formats at once", PROTO_MAX_FDS);
	if (view && view->sz < sizeof(*view))
		return fail(err, -EINVAL, "clika_client_view: size %zu is not this library's %zu",
			    view->sz, sizeof(*view));
	if (view && view->capture && strlen(view->capture) > PROTO_MAX_STRING)
		return fail(err, -ENAMETOOLONG, "a tag has at most %d bytes", PROTO_MAX_STRING);
	proto__put_strings(&b, formats, n);
	proto__put_string(&b, view && view->capture ? view->capture : "");
	buf__u64le(&b, view ? view->last_ns : 0);
	/* A forked child is told so by call(), which takes no lock. */
	ret = c->owner == getpid() ? begin_export(c, err) : 0;
	if (!ret) {
		ret = call(c, REQ_EXPORT, &b, fds, n, EXPORT_TIMEOUT_MS, NULL, err);
		if (c->owner == getpid())
			end_export(c);
	}
	buf__free(&b);
	return ret;
}

int clika_client__export_fds(struct clika_client *c, const char *const *formats, const int *fds,
			     size_t n, struct clika_client_error *err)
{
	return clika_client__export_view(c, formats, fds, n, NULL, err);
}

int clika_client__export_fd(struct clika_client *c, const char *format, int fd,
			    struct clika_client_error *err)
{
	return clika_client__export_fds(c, &format, &fd, 1, err);
}

int clika_client__export_mem(struct clika_client *c, const char *format, char **data, size_t *len,
			     struct clika_client_error *err)
{
	__cleanup_close int fd = memfd_create("clika-export", MFD_CLOEXEC);
	size_t have = 0;
	off_t size;
	int ret;

	*data = NULL;
	*len = 0;
	if (fd < 0)
		return fail(err, -errno, "cannot make a memory file: %s", strerror(errno));
	ret = clika_client__export_fd(c, format, fd, err);
	if (ret)
		return ret;
	size = lseek(fd, 0, SEEK_END);
	if (size < 0)
		return fail(err, -errno, "cannot read the result: %s", strerror(errno));
	*data = malloc((size_t)size + 1);
	if (!*data)
		return fail(err, -ENOMEM, "the result has %lld bytes: out of memory",
			    (long long)size);
	while (have < (size_t)size) {
		ssize_t n = pread(fd, *data + have, (size_t)size - have, (off_t)have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	(*data)[have] = 0;
	*len = have;
	return 0;
}

int clika_client__stats(struct clika_client *c, struct clika_client_stats *st,
			struct clika_client_error *err)
{
	struct clika_client_stats full = { .sz = sizeof(full), .command_status = -1 };
	size_t sz = st->sz < sizeof(full) ? st->sz : sizeof(full);
	struct proto_stats p = { 0 };
	struct buf answer = { 0 };
	struct cursor cur;
	int ret;

	ret = call(c, REQ_STATS, NULL, NULL, 0, c->timeout_ms, &answer, err);
	if (!ret) {
		cur = cursor__over(answer.data, answer.len);
		if (proto__get_stats(&cur, &p))
			ret = bad_answer(c, err);
	}
	buf__free(&answer);
	if (ret)
		return ret;
	pthread_mutex_lock(&c->lock);
	full.command_status = held_command__status(&c->command);
	pthread_mutex_unlock(&c->lock);
	full.elapsed_ns = p.elapsed_ns;
	full.records = p.records;
	full.spans = p.spans;
	full.lost = p.lost;
	full.filtered = p.filtered;
	full.unknown_at_most = p.unknown_at_most;
	full.file_bytes = p.file_bytes;
	full.processes = p.processes;
	full.threads = p.threads;
	full.captures_open = p.captures_open;
	full.targets_alive = p.targets_alive;
	full.ended = p.ended;
	full.full = p.full;
	full.private_loader = c->private_loader;
	memcpy(st, &full, sz);
	st->sz = sz;
	return 0;
}

bool clika_client__alive(struct clika_client *c)
{
	char byte;

	if (c->gone || c->owner != getpid())
		return false;
	/* An orderly end of the other side reads as nothing; no data is no news. */
	return !(recv(c->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0);
}
