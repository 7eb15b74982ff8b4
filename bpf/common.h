/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the families of BPF programs share: the maps, the one place that decides whose records are
 * taken, the one place that reserves ring space and counts what finds none.
 *
 * uprobe programs may be preempted, so nothing here lives in per-CPU scratch memory: records are
 * built in the ring itself, and per-CPU counters are changed atomically.
 */
#ifndef CLIKA_BPF_COMMON_H
#define CLIKA_BPF_COMMON_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "include/wire.h"

#define MAX_RINGS 64
#define CPUS_PER_RING 8

/* Set by the loader before loading. */
const volatile __u32 cfg_rings __weak = 1;
const volatile __u64 cfg_wake_bytes __weak = 0; /* fill of a ring that wakes the reader */
const volatile __u8 cfg_system __weak = 0;      /* every process, not only the targets */
const volatile __u8 cfg_follow __weak = 0;      /* children of targets are targets */
const volatile __u8 cfg_guarded __weak = 0;     /* for somebody without rights, see life_exec() */
const volatile __u8 cfg_has_uid __weak = 0;
const volatile __u32 cfg_uid __weak = 0;
const volatile __u64 cfg_cgroup __weak = 0;      /* id of a cgroup v2 folder, 0 = any */
const volatile __u8 cfg_cgroup_level __weak = 0; /* its depth */
const volatile __u8 cfg_comm_len __weak = 0;     /* 0 = any */
const volatile __u8 cfg_comm_prefix __weak = 0;  /* pattern ended in a star */
const volatile char cfg_comm[16] __weak = {};

/* Depth of the loader's pid namespace: set by the loader when it has found itself. */
__u32 loader_level __weak = 0;
__u32 loader_tgid __weak = 0; /* never recorded */
/* Set when the recording ends: what is counted from then on would have no reader. */
__u32 stopped __weak = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_RINGS);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_RINGBUF);
			__uint(max_entries, 4096);
		});
} rings __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_stats);
} stats __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct wire_loss_key);
	__type(value, __u64);
} losses __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct wire_target);
} targets __weak SEC(".maps");

/* The process that was admitted last on this CPU: most hits follow one of their own process. */
struct admitted {
	__u64 start;
	__u32 tgid, gen;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct admitted);
} last_admitted __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct wire_buffer_key);
	__type(value, struct wire_buffer);
} buffers __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct wire_site);
} sites __weak SEC(".maps");

static __always_inline struct wire_stats *stats__mine(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&stats, &zero);
}

static __always_inline void stats__add(__u64 *counter, __u64 n)
{
	__sync_fetch_and_add(counter, n);
}

/*
 * When the process began. Through the helper, and known to those that need it often: for each pointer that is followed
 * directly the verifier looks through all types of the kernel by their names, a millisecond each, on every path.
 */
static __always_inline __u64 task__start(struct task_struct *task)
{
	return BPF_CORE_READ(task, group_leader, start_boottime);
}

/* @start: task__start() */
static __always_inline void task__fill(struct wire_task *t, struct task_struct *task, __u64 start)
{
	t->tgid = task->tgid;
	t->tid = task->pid;
	t->start = start;
	t->tstart = task->start_boottime;
	t->exec_gen = (__u32)task->self_exec_id;
	t->aux = 0;
}

/* Loss is the rare path: who, why and how many, exactly. */
static __noinline int loss__count(__u32 tgid, __u64 start, __u32 probe, __u32 cause_call, __u64 n)
{
	struct wire_loss_key key = {};
	struct wire_stats *st = stats__mine();
	__u64 zero = 0, *v;
	__u32 cause = cause_call & 0xff;

	key.start = start;
	key.tgid = tgid;
	key.probe = probe;
	key.cause = cause;
	key.call = cause_call >> 8;

	if (!st)
		return 0;
	if (cause < WL_CAUSES)
		stats__add(&st->lost[cause], n);
	v = bpf_map_lookup_elem(&losses, &key);
	if (!v) {
		bpf_map_update_elem(&losses, &key, &zero, BPF_NOEXIST);
		v = bpf_map_lookup_elem(&losses, &key);
	}
	if (v)
		__sync_fetch_and_add(v, n);
	else
		stats__add(&st->unattributed, n);
	return 0;
}

/* A record of one hit that found no room. Those that did are counted where they are read: a counter
 * here would be a good part of a hit's cost. */
static __always_inline void loss__single(struct task_struct *task, __u64 start, __u32 probe,
					 __u32 cause_call)
{
	struct wire_stats *st = stats__mine();

	/* It has hits only to measure them. */
	if ((__u32)task->tgid == loader_tgid)
		return;
	if (st)
		stats__add(&st->emitted, 1);
	loss__count(task->tgid, start, probe, cause_call, 1);
}

static __always_inline void *ring__mine(void)
{
	__u32 i = bpf_get_smp_processor_id() / CPUS_PER_RING;

	if (i >= cfg_rings)
		i = cfg_rings - 1;
	return bpf_map_lookup_elem(&rings, &i);
}

/* The reader is woken when a quarter of the ring is filled; below that its own clock wakes it. */
static __always_inline void ring__submit(void *ring, void *rec)
{
	__u64 used = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);

	bpf_ringbuf_submit(rec, used > cfg_wake_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

static __always_inline void hdr__fill(struct wire_hdr *h, __u16 size, __u8 kind, __u8 flags,
				      __u64 ts)
{
	h->size = size;
	h->kind = kind;
	h->flags = flags;
	h->cpu = bpf_get_smp_processor_id();
	h->ts = ts;
}

static __always_inline bool comm__matches(const char *comm)
{
	int i;

	for (i = 0; i < 16; i++) {
		if (i == cfg_comm_len)
			return cfg_comm_prefix || comm[i] == 0;
		if (comm[i] != cfg_comm[i])
			return false;
	}
	return true;
}

/* The filters, asked once a process image. */
static __always_inline bool process__wanted(struct task_struct *task)
{
	struct task_struct *leader;
	char comm[16];

	if (cfg_has_uid && (__u32)bpf_get_current_uid_gid() != cfg_uid)
		return false;
	if (cfg_cgroup && bpf_get_current_ancestor_cgroup_id(cfg_cgroup_level) != cfg_cgroup)
		return false;
	if (cfg_comm_len) {
		/* The leader names the process; threads may carry names of their own. */
		leader = BPF_CORE_READ(task, group_leader);
		bpf_probe_read_kernel(comm, sizeof(comm), &leader->comm);
		if (!comm__matches(comm))
			return false;
	}
	return true;
}

/* The number of @task in the pid namespace at @at, or its own innermost one when @at < 0. */
static __always_inline __u32 task__nr(struct task_struct *task, int at)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	unsigned int level = BPF_CORE_READ(pid, level);
	__u32 nr = 0;

	if (level > 32 || at > (int)level)
		return 0;
	if (at >= 0)
		level = at;
	bpf_probe_read_kernel(&nr, sizeof(nr),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid) +
				      bpf_core_field_offset(struct upid, nr));
	return nr;
}

/* How far the task's clock is ahead: it may live in a time namespace. */
static __always_inline __s64 task__clock_ahead(struct task_struct *task)
{
	struct time_namespace *ns;

	if (!bpf_core_field_exists(struct time_namespace, offsets))
		return 0;
	ns = BPF_CORE_READ(task, nsproxy, time_ns);
	return BPF_CORE_READ(ns, offsets.boottime.tv_sec) * 1000000000ll +
	       BPF_CORE_READ(ns, offsets.boottime.tv_nsec);
}

/* What is known of @task's process at this moment. @self: it is the current one (its memory
 * can be read). No record space: the loader reads /proc or does without, the records stay. */
static __always_inline bool process__tell(struct task_struct *task, __u8 kind, bool self)
{
	void *ring = ring__mine();
	struct wire_stats *st = stats__mine();
	struct wire_process *p;
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	unsigned long start, end;
	__u64 len = 0;

	if (!ring || !st)
		return false;
	p = bpf_ringbuf_reserve(ring, sizeof(*p), 0);
	if (!p) {
		stats__add(&st->life_lost, 1);
		return false;
	}
	hdr__fill(&p->hdr, sizeof(*p), kind, 0, bpf_ktime_get_boot_ns());
	task__fill(&p->task, task, BPF_CORE_READ(leader, start_boottime));
	p->ptgid = BPF_CORE_READ(leader, real_parent, tgid);
	p->uid = BPF_CORE_READ(task, real_cred, uid.val);
	p->ns_pid = task__nr(leader, -1);
	p->lpid = task__nr(leader, loader_level);
	start = BPF_CORE_READ(task, mm, arg_start);
	p->args_at = (__u32)start;
	p->clock_ahead = task__clock_ahead(task);
	p->cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	bpf_probe_read_kernel(p->comm, sizeof(p->comm), &leader->comm);
	p->args[0] = 0;
	if (self) {
		end = BPF_CORE_READ(task, mm, arg_end);
		len = end - start;
		if (len > sizeof(p->args))
			len = sizeof(p->args);
		if (bpf_probe_read_user(p->args, len, (void *)start))
			len = 0;
	}
	p->args_len = len;
	ring__submit(ring, p);
	return true;
}

/*
 * Whose records are taken: the one filter, asked before any ring space. One map lookup for a
 * process that is known. Children of targets are put into the map when they are forked; with
 * cfg_system an unknown process is looked at once and remembered either way. Returns task__start(), or 0: not taken.
 */
static __always_inline __u64 admit(struct task_struct *task)
{
	__u32 tgid = task->tgid, zero = 0;
	__u64 start = task->group_leader->start_boottime;
	__u32 gen = (__u32)task->self_exec_id;
	struct admitted *last = bpf_map_lookup_elem(&last_admitted, &zero);
	struct wire_target fresh = {}, *t;
	struct wire_stats *st;

	if (stopped)
		return 0;
	/* Written under preemption it may be a mixture of two, which is neither of them. */
	if (last && last->tgid == tgid && last->start == start && last->gen == gen)
		return start;
	t = bpf_map_lookup_elem(&targets, &tgid);
	if (t && t->start == start) {
		if (!t->taken)
			return 0;
		if (t->told != gen + 1 && process__tell(task, W_PROCESS, true))
			t->told = gen + 1;
		if (last && t->told == gen + 1) {
			last->tgid = 0;
			last->start = start;
			last->gen = gen;
			last->tgid = tgid;
		}
		return start;
	}
	if (!cfg_system || tgid == loader_tgid)
		return 0;
	fresh.start = start;
	fresh.taken = process__wanted(task);
	if (fresh.taken && process__tell(task, W_PROCESS, true))
		fresh.told = gen + 1;
	if (bpf_map_update_elem(&targets, &tgid, &fresh, BPF_ANY)) {
		st = stats__mine();
		if (st)
			stats__add(&st->map_full, 1);
	}
	return fresh.taken ? start : 0;
}

#endif
