// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "bpf/calls.h"
#include "bpf/regs.h"

char LICENSE[] SEC("license") __weak = "Dual BSD/GPL";

SEC("uprobe")
int probe_call(struct pt_regs *ctx)
{
	struct call_bases b = {
		{ PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx), PT_REGS_PARM4(ctx),
		  PT_REGS_PARM5(ctx), PARM6(ctx), PT_REGS_RC(ctx), PT_REGS_SP(ctx) },
	};

	struct call_state st = STATE(ctx);

	return call__hit(&b, &st, bpf_get_attach_cookie(ctx));
}

/* Twin: args are the stack pointer, the cookie, and the address of seven words in the test's memory that
 * stand for the arguments and the value returned; 0 = all are 0. The seventh stands for the flags, too,
 * and the sixth for the frame pointer. */
SEC("raw_tp")
int twin_call(struct bpf_raw_tracepoint_args *ctx)
{
	struct call_bases b = {};
	struct call_state st;

	if (ctx->args[2] && bpf_probe_read_user(&b, 7 * sizeof(b.at[0]), (void *)ctx->args[2]))
		return 1;
	b.at[FETCH_BASE_SP] = ctx->args[0];
	st.fp = b.at[5];
	st.flags = b.at[6];
	return call__hit(&b, &st, ctx->args[1]);
}
