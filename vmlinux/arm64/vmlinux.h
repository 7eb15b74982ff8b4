/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include "../kernel.h"

/* The context of uprobe programs: its layout is ABI, no relocation. */
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};

struct pt_regs {
	struct user_pt_regs user_regs;
};

#endif
