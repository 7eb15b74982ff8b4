/* SPDX-License-Identifier: Apache-2.0 */
/* What this kernel and this process can do, found by trying. */
#ifndef CLIKA_USER_PROBE_FEATURES_H
#define CLIKA_USER_PROBE_FEATURES_H

#include "user/base/base.h"

struct features {
	bool cap_bpf, cap_perfmon, cap_sys_ptrace, cap_checkpoint_restore, cap_dac_read_search;
	bool sys_admin; /* stands in for the first two on older rules */
	bool btf;       /* /sys/kernel/btf/vmlinux is readable */
	bool load_bpf;  /* a small program loads */
	bool ringbuf, uprobe, attach_cookie;
	bool multi_uprobe;  /* attach type 48 links */
	bool multi_pid;     /* their pid filter means processes (early kernels: threads) */
	bool multi_session; /* attach type 57 links */
	bool mmap_events;   /* system-wide PERF_RECORD_MMAP2 */
	bool tp_fork, tp_exec, tp_exit, tp_signal_deliver, tp_prepare_exec,
		tp_task_rename; /* tp_btf */
	char kernel[65];
	int load_error;   /* errno of the small program when it did not load */
	bool in_user_ns;  /* capabilities here are worth nothing to BPF */
	bool locked_down; /* kernel lockdown is on (integrity or confidentiality) */
};
/* Always fills @f; the error (if any) says why nothing at all can be loaded. */
int features__probe(struct features *f, struct clika_error *err);
/* "CAP_BPF and CAP_PERFMON are missing: run with sudo, or ..." is written to @line. False, and an
 * empty line, when there is enough for recording. */
bool features__missing(const struct features *f, char *line, size_t n);

#endif
