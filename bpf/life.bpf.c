// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Processes and threads: who begins, becomes another image, changes its name, ends. */
#include "bpf/batch.h"

char LICENSE[] SEC("license") __weak = "Dual BSD/GPL";

static __always_inline struct wire_target *target__of(struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct wire_target *t = bpf_map_lookup_elem(&targets, &tgid);

	if (stopped || !t || !t->taken || t->start != task__start(task))
		return 0;
	return t;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(life_fork, struct task_struct *parent, struct task_struct *child)
{
	struct wire_target fresh = {};
	struct wire_stats *st;
	__u32 tgid = child->tgid;

	if (!cfg_follow || child->pid != child->tgid || !target__of(parent))
		return 0;
	fresh.start = child->start_boottime;
	fresh.taken = 1;
	/* Told here: the child may never mark anything, yet it is part of the tree. */
	if (process__tell(child, W_FORK, false))
		fresh.told = (__u32)BPF_CORE_READ(child, self_exec_id) + 1;
	if (bpf_map_update_elem(&targets, &tgid, &fresh, BPF_ANY)) {
		st = stats__mine();
		if (st)
			stats__add(&st->map_full, 1);
	}
	return 0;
}

/* Before the old image's memory goes (kernels that have this hook). */
SEC("tp_btf/sched_prepare_exec")
int BPF_PROG(life_prepare_exec, struct task_struct *task)
{
	if (target__of(task))
		batch__drain(task, task__start(task), false, false);
	return 0;
}

static __always_inline void life__tell(struct task_struct *task, __u8 kind, __u8 flags, int code,
				       const char *comm)
{
	struct wire_stats *st = stats__mine();
	void *ring = ring__mine();
	struct wire_exit *e;

	if (!st || !ring)
		return;
	e = bpf_ringbuf_reserve(ring, sizeof(*e), 0);
	if (!e) {
		stats__add(&st->life_lost, 1);
		return;
	}
	hdr__fill(&e->hdr, sizeof(*e), kind, flags, bpf_ktime_get_boot_ns());
	task__fill(&e->task, task, task__start(task));
	e->code = code;
	e->pad = 0;
	bpf_probe_read_kernel_str(e->comm, sizeof(e->comm), comm);
	ring__submit(ring, e);
}

#define BINPRM_ENFORCE_NONDUMP 1 /* a program that its user may run, not read */

/* The rules of ptrace: such a program, as one with set-user-id, is not its user's to look into. */
static __always_inline bool image__guarded(struct linux_binprm *bprm)
{
	return BPF_CORE_READ_BITFIELD_PROBED(bprm, secureexec) ||
	       BPF_CORE_READ(bprm, interp_flags) & BINPRM_ENFORCE_NONDUMP;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(life_exec, struct task_struct *task, pid_t old, struct linux_binprm *bprm)
{
	struct wire_buffer_key key = { .tid = task->pid };
	struct wire_target *t = target__of(task);
	__u32 tgid = task->tgid;
	int i;

	if (!t) {
		/* Another image may be wanted where the old one was not. */
		if (cfg_system)
			bpf_map_delete_elem(&targets, &tgid);
		return 0;
	}
	for (i = 0; i < WIRE_SLOTS; i++) {
		key.slot = i;
		bpf_map_delete_elem(&buffers, &key);
	}
	if (cfg_guarded && image__guarded(bprm)) {
		life__tell(task, W_EXIT, WF_LAST, 0, task->comm);
		bpf_map_delete_elem(&targets, &tgid);
		return 0;
	}
	if (cfg_system && !process__wanted(task)) {
		bpf_map_delete_elem(&targets, &tgid);
		return 0;
	}
	if (process__tell(task, W_EXEC, true))
		t->told = (__u32)BPF_CORE_READ(task, self_exec_id) + 1;
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(life_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	bool last = BPF_CORE_READ(task, signal, live.counter) == 0;

	if (!target__of(task)) {
		if (last)
			bpf_map_delete_elem(&targets, &tgid);
		return 0;
	}
	batch__drain(task, task__start(task), true, true);
	life__tell(task, W_EXIT, last ? WF_LAST : 0,
		   last ? BPF_CORE_READ(task, signal, group_exit_code)
				   ?: BPF_CORE_READ(task, exit_code)
			: 0,
		   task->comm);
	if (last)
		bpf_map_delete_elem(&targets, &tgid);
	return 0;
}

/* On kernels where the exit hook comes after the memory has gone. */
SEC("tp_btf/signal_deliver")
int BPF_PROG(life_signal, int sig)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (sig == 9 && target__of(task))
		batch__drain(task, task__start(task), false, true);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(life_rename, struct task_struct *task, const char *comm)
{
	if (target__of(task))
		life__tell(task, W_RENAME, 0, 0, comm);
	return 0;
}

/* What exists already: identities that /proc only gives in hundredths of a second. */
SEC("iter/task")
int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct wire_task_info info = {};
	unsigned int i;

	if (!task)
		return 0;
	task__fill(&info.task, task, task__start(task));
	info.reader = bpf_get_current_pid_tgid() >> 32;
	info.level = BPF_CORE_READ(task, thread_pid, level);
	info.ptgid = BPF_CORE_READ(task, group_leader, real_parent, tgid);
	for (i = 0; i < WIRE_NS_LEVELS; i++) {
		if (i > info.level)
			break;
		info.numbers[i] = task__nr(task, i);
	}
	bpf_seq_write(ctx->meta->seq, &info, sizeof(info));
	return 0;
}
