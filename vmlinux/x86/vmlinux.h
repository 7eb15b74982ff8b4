/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include "../kernel.h"

/* The context of uprobe programs: its layout is ABI, no relocation. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};

#endif
