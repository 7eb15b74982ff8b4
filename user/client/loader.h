/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that a client starts: a private loader, a command to record. */
#ifndef CLIKA_USER_CLIENT_LOADER_H
#define CLIKA_USER_CLIENT_LOADER_H

#include "user/base/base.h"

/* The loader's program: @named, $CLIKA_PROF_LOADER, PATH, /usr/local/bin, /usr/bin. */
bool loader__find(const char *named, char *path, size_t n);
/* May this process load BPF (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN)? Says what is missing. */
bool loader__may_load(char *why, size_t n);
/* Starts it with one end of a socket pair; gives the other end or -errno. It is nobody's child: the
 * host's waitpid(-1) never sees it. It ends when the connection does. */
int loader__start(const char *path);

struct held_command {
	pid_t pid; /* 0 = none */
	int go, failed;
	int status; /* wait status, once it has ended */
	bool ended;
};
int held_command__start(struct held_command *c, char *const *argv);
int held_command__go(struct held_command *c);
int held_command__status(struct held_command *c); /* wait status, -1 = still running or none */
void held_command__drop(struct held_command *c);

#endif
