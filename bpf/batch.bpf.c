// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "bpf/batch.h"

char LICENSE[] SEC("license") __weak = "Dual BSD/GPL";

SEC("uprobe")
int probe_batch(struct pt_regs *ctx)
{
	return batch__hit(PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx),
			  bpf_get_attach_cookie(ctx));
}

/* Twin for bpf_prog_test_run: the kernel runs no uprobe program without its probe. */
SEC("raw_tp")
int twin_batch(struct bpf_raw_tracepoint_args *ctx)
{
	return batch__hit(ctx->args[0], ctx->args[1], ctx->args[2], ctx->args[3]);
}
