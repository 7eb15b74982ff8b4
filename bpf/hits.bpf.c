// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "bpf/hits.h"

char LICENSE[] SEC("license") __weak = "Dual BSD/GPL";

SEC("uprobe")
int probe_hit(struct pt_regs *ctx)
{
	return hit__marker(ctx, bpf_get_attach_cookie(ctx));
}

/* Twin: args[0] is the cookie, args[1] the address of a struct pt_regs in the test's memory. */
SEC("raw_tp")
int twin_hit(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs regs;

	if (bpf_probe_read_user(&regs, sizeof(regs), (void *)ctx->args[1]))
		return 1;
	return hit__marker(&regs, ctx->args[0]);
}
