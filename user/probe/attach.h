/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel side of one recorder: its BPF objects, rings and links. Each recorder has its own,
 * so that one cannot see or starve another.
 */
#ifndef CLIKA_USER_PROBE_ATTACH_H
#define CLIKA_USER_PROBE_ATTACH_H

#include "include/wire.h"
#include "user/base/base.h"
#include "user/probe/features.h"

struct attacher;

struct attach_opts {
	size_t ring_bytes; /* each; a power of two, at least one page */
	bool system, follow;
	bool guarded;       /* let go of processes that begin a program with more rights */
	int64_t uid;        /* -1 = any */
	const char *comm;   /* NAME or NAME*; NULL = any */
	uint64_t cgroup_id; /* 0 = any */
	unsigned cgroup_level;
	bool blocks; /* some rule keeps allocations by size: their blocks are remembered */
	const struct logger *log;
};

/* PROBE_RETURN: return probes at function entries, see the warning in clika/prof.h. */
enum probe_family { PROBE_BATCH, PROBE_HIT, PROBE_CALL, PROBE_RETURN, PROBE_FAMILIES };

struct probe_site {
	uint64_t offset;    /* file offset of the instruction */
	uint64_t semaphore; /* file offset of the counter, 0 = none */
	uint64_t cookie;
};

/* Loads programs and maps; life-cycle hooks are attached by attacher__hooks(). */
int attacher__new(const struct features *f, const struct attach_opts *o, struct attacher **out,
		  struct clika_error *err);
int attacher__hooks(struct attacher *a, struct clika_error *err);
/*
 * Probes on a file: one link where the kernel can, else one a site. @fd: the mapped file itself.
 * @pid: 0 = in every process that maps it (the process set in BPF decides), else only there.
 * Returns the number of links made, or an error; then none stays.
 */
int attacher__attach(struct attacher *a, enum probe_family family, int fd,
		     const struct probe_site *sites, size_t n, pid_t pid, struct clika_error *err);
/* The same, but a site whose instruction the kernel refuses costs that site alone: @refused is told. */
int attacher__attach_some(struct attacher *a, enum probe_family family, int fd,
			  const struct probe_site *sites, size_t n, pid_t pid,
			  void (*refused)(void *ctx, const struct probe_site *s, int why),
			  void *ctx, struct clika_error *err);
/* The links that the last successful call of these two made; may be taken off on their own. */
uint32_t attacher__group(const struct attacher *a);
void attacher__detach(struct attacher *a, uint32_t group);
/* What an error of these two means, for people. */
const char *attacher__reason(int ret);
/* Single probes: slow to take off (about 0.1 s each), so callers limit them. */
bool attacher__has_multi(const struct attacher *a);
size_t attacher__n_links(const struct attacher *a);

int attacher__target_add(struct attacher *a, pid_t pid, uint64_t start);
/* The loader itself as a target, to measure what a hit costs; off again it is none, whatever the
 * kernel side remembers. */
int attacher__admit_self(struct attacher *a, bool on);
uint32_t attacher__self(const struct attacher *a); /* tgid as the kernel's records have it */
bool attacher__is_target(const struct attacher *a, pid_t pid);
/* No program takes anything when this returns; what was taken is in the rings. */
int attacher__quiesce(struct attacher *a);
size_t attacher__targets(const struct attacher *a); /* in the map now; walks it */
int attacher__buffer_add(struct attacher *a, pid_t tid, uint64_t addr, uint32_t file, pid_t ns_tid);
int attacher__site_set(struct attacher *a, uint32_t index, const struct wire_site *s);
uint32_t attacher__max_sites(const struct attacher *a);
/* What calls fetch; @number 1 and up goes into cookies. */
int attacher__fetch_set(struct attacher *a, uint32_t number, const struct wire_fetch_set *s);
uint32_t attacher__max_fetch_sets(const struct attacher *a);
/* Hits of links with this switch count from now on only with this parity; with @both those of the other
 * one still do, and are told by WF_AGAIN. */
void attacher__switch(struct attacher *a, unsigned number, bool parity, bool both);

unsigned attacher__n_rings(const struct attacher *a);
int attacher__ring_fd(const struct attacher *a, unsigned i);
size_t attacher__ring_bytes(const struct attacher *a);

/* Sums over CPUs in *@sum; @each (may be NULL) is called for every CPU. */
int attacher__stats(const struct attacher *a, struct wire_stats *sum,
		    void (*each)(void *ctx, int cpu, const struct wire_stats *st), void *ctx);
int attacher__losses(const struct attacher *a,
		     void (*each)(void *ctx, const struct wire_loss_key *k, uint64_t n), void *ctx);

/* Every task that exists now; non-zero from @fn stops and is returned. */
int attacher__tasks(struct attacher *a, int (*fn)(void *ctx, const struct wire_task_info *t),
		    void *ctx, struct clika_error *err);
/* Number of the task in the loader's own pid namespace, 0 = not visible. */
uint32_t
attacher__level(const struct attacher *a); /* depth of that namespace, 0 = the initial one */
uint32_t attacher__local_pid(const struct attacher *a, const struct wire_task_info *t);

/* Closes links with progress, then maps and programs. NULL is fine. */
void attacher__free(struct attacher *a, void (*progress)(void *ctx, size_t done, size_t total),
		    void *ctx);

#endif
