/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libclika-client: profile without privileges of one's own, through the loader service or through
 * a private loader process. Links neither libbpf nor anything else of the loader.
 *
 * One client is one session: its targets, its captures, its results. All functions may be called
 * from any thread; calls on one client take turns. Nothing that happens to the loader ends or
 * blocks the caller: every call has a deadline and gives an error that says what is missing and the
 * one command that mends it.
 */
#ifndef CLIKA_CLIENT_H
#define CLIKA_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CLIKA_API
#define CLIKA_API __attribute__((visibility("default")))
#endif

struct clika_client;

struct clika_client_error {
	int code; /* negative errno; -ECONNREFUSED: no service and no right to load BPF oneself,
		   * -EPIPE: the loader has gone, -ETIMEDOUT, -EPERM: not this process */
	char msg[512];
};

enum clika_client_target {
	CLIKA_CLIENT_SELF = 0, /* the calling process, all its threads */
	CLIKA_CLIENT_PID = 1,
	CLIKA_CLIENT_COMMAND = 2, /* started by the loader on the caller's behalf, as the caller */
	CLIKA_CLIENT_SYSTEM = 3,  /* only for root */
};

enum clika_client_via { CLIKA_VIA_AUTO = 0, CLIKA_VIA_SERVICE = 1, CLIKA_VIA_PRIVATE = 2 };

struct clika_client_opts {
	size_t sz; /* set by clika_client_opts__init() */
	enum clika_client_via via;
	const char
		*socket_path; /* NULL: $CLIKA_PROF_SOCKET, else /run/clika-prof/clika-prof.sock */
	const char *loader_path; /* NULL: $CLIKA_PROF_LOADER, PATH, /usr/local/bin, /usr/bin */
	enum clika_client_target target;
	pid_t pid;         /* CLIKA_CLIENT_PID */
	char *const *argv; /* CLIKA_CLIENT_COMMAND */
	bool children;     /* follow children of the targets (default false) */
	const char *const *probes, *const *usdts; /* as in clika/prof.h */
	size_t n_probes, n_usdts;
	/* Runtimes without markers, as in clika/prof.h: by default what is known applies by itself. */
	bool no_auto; /* only the recipes that are named here */
	const char *const
		*recipes; /* NAME, NAME:all, NAME:GROUP; a private loader takes files too */
	size_t n_recipes;
	double budget; /* share of CPU time that their probes may cost, at most 10; 0 = 0.1;
			* negative = no limit */
	bool redact;
	size_t ring_bytes;    /* 0 = default */
	uint64_t max_bytes;   /* of the recording; 0 = the loader's limit */
	bool flight_recorder; /* at max_bytes drop the oldest */
	int timeout_ms;       /* of each call; 0 = 10,000 */
	/* Asked some times a second, without a lock, by a call that waits: true ends the call with
	 * -ECANCELED; an export's files are then incomplete, and the session goes on. Begin and end
	 * of a capture are not asked about, they wait at most timeout_ms. NULL = wait on. */
	bool (*interrupted)(void *ctx);
	void *interrupted_ctx;
};
CLIKA_API void clika_client_opts__init(struct clika_client_opts *o);

/* Connects, makes the session, attaches; data flows when it returns. No capture is open. */
CLIKA_API int clika_client__new(const struct clika_client_opts *o, struct clika_client **out,
				struct clika_client_error *err);
/* Ends the session; what was not exported is gone. NULL is fine. */
CLIKA_API void clika_client__free(struct clika_client *c);

/* Id > 0. What is marked after it returned belongs to the capture. */
CLIKA_API int64_t clika_client__capture_begin(struct clika_client *c, const char *tag,
					      struct clika_client_error *err);
CLIKA_API int clika_client__capture_end(struct clika_client *c, int64_t id,
					struct clika_client_error *err);
/* Barrier: what was marked before the call is in every later export. */
CLIKA_API int clika_client__flush(struct clika_client *c, struct clika_client_error *err);
/* A snapshot (with barrier) in one format, written to @fd by an unprivileged worker of the loader;
 * the loader opens no path. @fd stays the caller's. */
CLIKA_API int clika_client__export_fd(struct clika_client *c, const char *format, int fd,
				      struct clika_client_error *err);
/* The same to memory; *@data is malloc'ed, NUL-terminated, *@len without the NUL. */
CLIKA_API int clika_client__export_mem(struct clika_client *c, const char *format, char **data,
				       size_t *len, struct clika_client_error *err);
/* Several formats in one snapshot: fds[i] takes formats[i]. */
CLIKA_API int clika_client__export_fds(struct clika_client *c, const char *const *formats,
				       const int *fds, size_t n, struct clika_client_error *err);

/* Which part of the session's results; all-zero = all. */
struct clika_client_view {
	size_t sz;           /* set by the caller */
	const char *capture; /* what belongs to captures with this tag; NULL = to any */
	uint64_t last_ns;    /* what ended at most so long ago; 0 = since the begin */
};
CLIKA_API int clika_client__export_view(struct clika_client *c, const char *const *formats,
					const int *fds, size_t n,
					const struct clika_client_view *view,
					struct clika_client_error *err);

struct clika_client_stats {
	size_t sz;
	uint64_t elapsed_ns, records, spans, lost, filtered, unknown_at_most, file_bytes;
	uint32_t processes, threads, captures_open, targets_alive;
	bool ended;         /* targets gone */
	bool full;          /* a limit of the loader was reached */
	int command_status; /* wait status of a command that ended, else -1 */
	bool private_loader;
};
CLIKA_API int clika_client__stats(struct clika_client *c, struct clika_client_stats *st,
				  struct clika_client_error *err);
/* False after the loader has gone: what was exported before stays the caller's. Never blocks. */
CLIKA_API bool clika_client__alive(struct clika_client *c);
/* In a forked child: lets go of the connection without telling the loader anything. */
CLIKA_API void clika_client__after_fork(struct clika_client *c);

#ifdef __cplusplus
}
#endif
#endif
