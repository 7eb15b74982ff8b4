/* SPDX-License-Identifier: Apache-2.0 */
/* The loader as a service: sessions for processes that may not load BPF themselves. */
#ifndef CLIKA_SERVICE_H
#define CLIKA_SERVICE_H

#include <clika/prof.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLIKA_SERVICE_SOCKET "/run/clika-prof/clika-prof.sock"
#define CLIKA_SERVICE_GROUP "clika-prof"

struct clika_service_opts {
	size_t sz;               /* set by clika_service_opts__init() */
	const char *socket_path; /* NULL = CLIKA_SERVICE_SOCKET */
	int listen_fd;  /* >= 0: a listening socket that was handed over (socket activation) */
	int private_fd; /* >= 0: serve this one connection and return */
	bool everyone;  /* socket mode 0666 instead of 0660 and group clika-prof */
	unsigned max_sessions;         /* 0 = 32 */
	unsigned max_sessions_per_uid; /* 0 = 8 */
	uint64_t max_bytes;            /* of one session's recording; 0 = 1 GiB */
	unsigned export_seconds;       /* deadline of one export; 0 = 300 */
	unsigned max_seconds;          /* life of one session; 0 = a day */
	clika_prof_log_fn log;
	void *log_ctx;
};
CLIKA_API void clika_service_opts__init(struct clika_service_opts *o);

/* Serves until *@stop becomes true (checked at least four times a second and after signals). */
CLIKA_API int clika_service__run(const struct clika_service_opts *o, const volatile int *stop,
				 struct clika_prof_error *err);

struct clika_service_session {
	uint32_t loader_pid, client_pid, uid, target_pid;
	bool system_wide;
	uint64_t seconds; /* since it began */
	uint64_t records, lost, bytes;
};
/* The sessions of the service that the caller may see: its own, all for root. */
CLIKA_API int clika_service__sessions(const char *socket_path,
				      int (*fn)(void *ctx, const struct clika_service_session *s),
				      void *ctx, struct clika_prof_error *err);

#ifdef __cplusplus
}
#endif
#endif
