// SPDX-License-Identifier: Apache-2.0
/* What recording needs, tried one by one, with advice where something is missing. */
#include <stdio.h>
#include <string.h>

#include <clika/prof.h>

#include "user/base/base.h"
#include "user/probe/features.h"

struct doctor {
	int (*fn)(void *ctx, const struct clika_check *c);
	void *ctx;
	int missing, stopped;
};

static void tell(struct doctor *d, const char *name, enum clika_check_state state, bool required,
		 const char *detail, const char *advice)
{
	struct clika_check c = {
		.name = name,
		.state = state,
		.detail = detail,
		.advice = state == CLIKA_CHECK_OK ? NULL : advice,
		.required = required,
	};

	d->missing += required && state == CLIKA_CHECK_MISSING;
	if (!d->stopped)
		d->stopped = d->fn(d->ctx, &c);
}

static void need(struct doctor *d, const char *name, bool has, const char *detail,
		 const char *without, const char *advice)
{
	tell(d, name, has ? CLIKA_CHECK_OK : CLIKA_CHECK_MISSING, true, has ? detail : without,
	     advice);
}

static void want(struct doctor *d, const char *name, bool has, enum clika_check_state else_state,
		 const char *detail, const char *without, const char *advice)
{
	tell(d, name, has ? CLIKA_CHECK_OK : else_state, false, has ? detail : without, advice);
}

/* What follows from missing rights is said once, by the check of the rights. */
static void check_kernel(struct doctor *d, const struct features *f)
{
	const char *rights = "see \"BPF programs\" above: without them this cannot be tried";
	bool tried = f->load_bpf;

	need(d, "kernel types (BTF)", f->btf, "/sys/kernel/btf/vmlinux is readable",
	     "/sys/kernel/btf/vmlinux is not there or not readable",
	     "a kernel built with CONFIG_DEBUG_INFO_BTF=y (every current distribution's is)");
	need(d, "ring buffer", f->ringbuf, "can be made", "cannot be made",
	     tried ? "Linux 5.15 or later" : rights);
	need(d, "probes in user programs", f->uprobe, "can be made", "cannot be made",
	     tried ? "a kernel built with CONFIG_UPROBE_EVENTS=y" : rights);
	need(d, "probe cookies", f->attach_cookie, "work", "do not work",
	     tried ? "Linux 5.15 or later" : rights);
	need(d, "life of processes", f->tp_fork && f->tp_exec && f->tp_exit,
	     "fork, exec and exit can be followed", "fork, exec or exit cannot be followed",
	     "Linux 5.15 or later with BTF");
	want(d, "last spans of a process", f->tp_signal_deliver && f->tp_prepare_exec,
	     CLIKA_CHECK_SLOWER, "thread buffers can be read before exec and on a fatal signal",
	     f->tp_signal_deliver
		     ? "what a thread buffered may be lost when its process execs another program"
		     : "what a thread buffered may be lost when its process is killed or execs",
	     "Linux 6.14 or later; such losses are counted and reported in any case");
	want(d, "multi-uprobe links", f->multi_uprobe, CLIKA_CHECK_SLOWER,
	     f->multi_pid ? "one link holds all probes of a file"
			  : "one link holds all probes of a file, its filter is by thread",
	     "each probe is a link of its own: detaching takes 0.1 s for each",
	     tried ? "Linux 6.6 or later" : rights);
	want(d, "files mapped later", f->mmap_events, CLIKA_CHECK_MISSING,
	     "libraries and programs started later are seen",
	     "libraries and programs started later are not seen",
	     tried ? "a kernel built with CONFIG_PERF_EVENTS=y, and CAP_PERFMON" : rights);
}

int clika_doctor(int (*fn)(void *ctx, const struct clika_check *c), void *ctx)
{
	struct doctor d = { .fn = fn, .ctx = ctx };
	struct features f;
	char detail[512], advice[512];
	const char *how;

	features__probe(&f, NULL);
	tell(&d, "kernel", CLIKA_CHECK_OK, false, f.kernel, NULL);

	features__missing(&f, advice, sizeof(advice));
	/* "what is missing: how to get it" */
	how = strstr(advice, ": ");
	snprintf(detail, sizeof(detail), "%.*s", how ? (int)(how - advice) : (int)strlen(advice),
		 advice);
	need(&d, "BPF programs", f.load_bpf, "can be loaded", detail, how ? how + 2 : advice);
	check_kernel(&d, &f);

	want(&d, "other users' processes",
	     f.cap_sys_ptrace && f.cap_checkpoint_restore && f.cap_dac_read_search,
	     CLIKA_CHECK_MISSING, "can be looked into",
	     "only processes of this user can be recorded: CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH or "
	     "CAP_CHECKPOINT_RESTORE is missing",
	     "run with sudo, or give the program these capabilities too");
	return d.missing;
}
