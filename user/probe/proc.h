/* SPDX-License-Identifier: Apache-2.0 */
/* Processes as /proc shows them: identity, mappings, the mapped files themselves. */
#ifndef CLIKA_USER_PROBE_PROC_H
#define CLIKA_USER_PROBE_PROC_H

#include "user/base/base.h"

struct proc_map {
	uint64_t start, end, offset;
	uint32_t dev_major, dev_minor; /* a cache key only: never compared with stat */
	uint64_t inode;
	bool exec, write;
	const char *path; /* "" = anonymous; octal escapes undone; " (deleted)" cut off */
	bool deleted;
};
/* Each mapping of @pid. Non-zero from @fn stops and is returned. -ESRCH: no such process. */
int proc__maps(pid_t pid, int (*fn)(void *ctx, const struct proc_map *m), void *ctx);
/* The mapped file itself: map_files first, then the path below /proc/PID/root (RESOLVE_IN_ROOT,
 * no other procfs, regular files only, not blocking) checked by inode. Descriptor or -errno. */
int proc__open_mapped(pid_t pid, const struct proc_map *m, struct clika_error *err);
int proc__open_exe(pid_t pid, struct clika_error *err);

struct proc_stat {
	pid_t pid, ppid;
	uint64_t start_ticks; /* matches only: identity comes from the kernel in ns */
	char state;
	uint64_t args_at; /* where argv lies; 0 = not told */
	char comm[64];
};
int proc__stat(pid_t pid, struct proc_stat *st);
/* Details for people; every string malloc'ed, NULL when not readable. */
struct proc_details {
	uid_t uid;
	pid_t ns_pid;               /* innermost of NSpid */
	char *comm, *exe, *cmdline; /* arguments joined by one space */
	char *cgroup;               /* v2 path, or the first v1 one */
	char *container;            /* id or name found in the cgroup path, NULL = none */
};
int proc__details(pid_t pid, struct proc_details *d);
void proc_details__free(struct proc_details *d);
bool proc__is_32bit(pid_t pid); /* by its executable; false when unknown */
/* Threads of @pid; non-zero from @fn stops. */
int proc__threads(pid_t pid, int (*fn)(void *ctx, pid_t tid), void *ctx);
int proc__thread_name(pid_t pid, pid_t tid, char name[64]);
/* All processes / the descendants of @pid that exist now. */
int proc__each(int (*fn)(void *ctx, pid_t pid), void *ctx);
int proc__descendants(pid_t pid, int (*fn)(void *ctx, pid_t pid), void *ctx);
/*
 * Memory of a target, with a deadline: bytes read (may be fewer), or -errno (-ETIMEDOUT).
 * timeout_ms < 0: no deadline, for processes that are trusted.
 */
ssize_t proc__read_memory(pid_t pid, uint64_t addr, void *to, size_t n, int timeout_ms);
/* Many ranges at the price of one hand-over to the reading thread: prefer it for more than one. */
struct proc_range {
	uint64_t addr;
	void *to;
	size_t n;
	ssize_t got; /* bytes, or -errno for this range */
};
/* 0, or -ETIMEDOUT: then the ranges that were not reached say so in @got. */
int proc__read_memoryv(pid_t pid, struct proc_range *ranges, size_t n, int timeout_ms);
/* Container id or name in a cgroup path, malloc'ed; NULL = none. */
char *cgroup__container(const char *path);

#endif
