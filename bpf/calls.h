/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Function probes: a record at the entry, one at each way out; the loader pairs them by stack pointer. */
#ifndef CLIKA_BPF_CALLS_H
#define CLIKA_BPF_CALLS_H

#include "bpf/common.h"

static __always_inline int call__hit(__u64 sp, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 ts = bpf_ktime_get_boot_ns();
	struct wire_call *c;
	void *ring;

	if (!admit(task))
		return 0;
	ring = ring__mine();
	if (!ring)
		return 0;
	c = bpf_ringbuf_reserve(ring, sizeof(*c), 0);
	if (!c) {
		loss__single(task, (__u32)cookie + 1, WL_RING_FULL | 0x100);
		return 0;
	}
	hdr__fill(&c->hdr, sizeof(*c), cookie & COOKIE_RETURN ? W_RETURN : W_CALL,
		  cookie & COOKIE_TAIL ? WF_TAIL : 0, ts);
	task__fill(&c->task, task);
	/* Both ends of a call carry the stack pointer that points at the return address; on x86 a
	 * return probe runs when that has been popped. */
#if defined(__TARGET_ARCH_x86)
	if (cookie & COOKIE_RETPROBE)
		sp -= 8;
#endif
	c->sp = sp;
	c->func = (__u32)cookie;
	c->pad = 0;
	ring__submit(ring, c);
	return 0;
}

#endif
