/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIKA_USER_SERVICE_SESSION_H
#define CLIKA_USER_SERVICE_SESSION_H

#include <clika/service.h>

#include "user/service/proto.h"

/* One row a session, in memory that the service and its sessions share. */
struct session_slot {
	uint32_t used;
	struct proto_session info;
};

struct peer { /* as the kernel tells, never as a message says */
	uint32_t pid, uid, gid;
};

struct service_session {
	int sock;
	struct peer peer;
	const struct clika_service_opts *o;
	struct session_slot *slots;
	unsigned n_slots;
	struct session_slot *slot; /* this session's; NULL in a private loader */
};

/* Serves one connection to its end. Runs in a process of its own. */
void service_session__run(struct service_session *s);

/* worker.c: an export by a process without rights. */
struct worker {
	pid_t pid; /* 0 = none */
	int said;  /* reads its error, if any */
	uint32_t seq;
	uint64_t deadline;
};
struct export_job {
	char **formats; /* formats[i] to fds[i] */
	const int *fds;
	size_t n;
	const char *capture; /* tag, "" = all */
	uint64_t last_ns;    /* 0 = all */
};
int worker__start(struct worker *w, int recording_fd, const struct export_job *job,
		  const struct peer *peer, unsigned seconds);
/* 1: ended (its error in @why, "" = it succeeded), 0: still at work. */
int worker__ended(struct worker *w, char *why, size_t n);
void worker__kill(struct worker *w);

#endif
