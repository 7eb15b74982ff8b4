// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "bpf/hits.h"
#include "bpf/regs.h"

char LICENSE[] SEC("license") __weak = "Dual BSD/GPL";

#define ARGUMENTS(ctx)                                                                             \
	{                                                                                          \
		PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx), PT_REGS_PARM4(ctx),    \
			PT_REGS_PARM5(ctx), PARM6(ctx)                                             \
	}

SEC("uprobe")
int probe_hit(struct pt_regs *ctx)
{
	struct hit_regs regs = { ARGUMENTS(ctx), ctx };

	return hit__marker(&regs, bpf_get_attach_cookie(ctx));
}

/* Not on the stack, which is full; only one test runs at a time. */
static struct pt_regs twin_regs;

/* Twin: args[0] is the cookie, args[1] the address of a struct pt_regs in the test's memory. */
SEC("raw_tp")
int twin_hit(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs *cpu = &twin_regs;
	struct hit_regs regs = { { 0 }, cpu };

	if (bpf_probe_read_user(cpu, sizeof(*cpu), (void *)ctx->args[1]))
		return 1;
	regs.arg[0] = PT_REGS_PARM1(cpu);
	regs.arg[1] = PT_REGS_PARM2(cpu);
	regs.arg[2] = PT_REGS_PARM3(cpu);
	regs.arg[3] = PT_REGS_PARM4(cpu);
	regs.arg[4] = PT_REGS_PARM5(cpu);
	regs.arg[5] = PARM6(cpu);
	return hit__marker(&regs, ctx->args[0]);
}
