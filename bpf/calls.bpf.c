// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "bpf/calls.h"

char LICENSE[] SEC("license") __weak = "Dual BSD/GPL";

SEC("uprobe")
int probe_call(struct pt_regs *ctx)
{
	return call__hit(PT_REGS_SP(ctx), bpf_get_attach_cookie(ctx));
}

SEC("raw_tp")
int twin_call(struct bpf_raw_tracepoint_args *ctx)
{
	return call__hit(ctx->args[0], ctx->args[1]);
}
