/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The kernel types that our BPF programs touch, and only those. Every access is relocated
 * against the running kernel's BTF (preserve_access_index), so member order and size here do not
 * matter, names do. What differs between architectures is in <arch>/vmlinux.h, which includes this.
 */
#ifndef CLIKA_VMLINUX_KERNEL_H
#define CLIKA_VMLINUX_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
typedef int pid_t;

enum { false = 0, true = 1 };

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_NO_PREALLOC = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	u32 val;
} kuid_t;

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
};

struct cred {
	kuid_t uid;
};

struct signal_struct {
	atomic_t live;
	int group_exit_code;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct timespec64 {
	s64 tv_sec;
	long tv_nsec;
};

struct timens_offsets {
	struct timespec64 monotonic, boottime;
};

struct time_namespace {
	struct timens_offsets offsets;
};

struct nsproxy {
	struct time_namespace *time_ns;
};

struct task_struct {
	unsigned int flags;
	pid_t pid;
	pid_t tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	u64 start_boottime;
	const struct cred *real_cred;
	char comm[16];
	struct signal_struct *signal;
	u64 self_exec_id;
	struct mm_struct *mm;
	struct css_set *cgroups;
	struct nsproxy *nsproxy;
	int exit_code;
};

struct linux_binprm {
	const char *filename;
	unsigned int interp_flags;
	unsigned int secureexec : 1;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct kernel_siginfo;
struct k_sigaction;

#pragma clang attribute pop

struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

#endif
