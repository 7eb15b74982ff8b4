/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The sixth argument, which older libbpf has no name for; frame pointer and flags. */
#ifndef CLIKA_BPF_REGS_H
#define CLIKA_BPF_REGS_H

#if defined(__TARGET_ARCH_x86)
#define PARM6(ctx) ((ctx)->r9)
#define STATE(ctx)                                                                                 \
	{                                                                                          \
		(ctx)->bp, (ctx)->flags                                                            \
	}
#else
#define PARM6(ctx) (((const struct user_pt_regs *)(ctx))->regs[5])
#define STATE(ctx)                                                                                 \
	{                                                                                          \
		0, 0 /* nothing is early there: returns are emulated */                            \
	}
#endif

#endif
