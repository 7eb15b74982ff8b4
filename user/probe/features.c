// SPDX-License-Identifier: Apache-2.0
/*
 * What this kernel and this process can do. Everything is tried: distributions backport, so
 * version numbers say little.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "user/probe/features.h"

#define ATTACH_UPROBE_MULTI 48
#define ATTACH_UPROBE_SESSION 57
#define CAPS "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_checkpoint_restore"

/* Numbers that older kernel headers do not know. */
#define CAP_NO_PERFMON 38
#define CAP_NO_BPF 39
#define CAP_NO_CHECKPOINT_RESTORE 40

/* BPF_LINK_CREATE with uprobe_multi, which the headers of libbpf 1.1 do not have. */
struct multi_link {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid, pad;
};

/* mov r0, 0; exit */
static const struct bpf_insn nothing[] = {
	{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
	{ .code = BPF_JMP | BPF_EXIT },
};

/* --- rights -------------------------------------------------------------------------------- */

static void read_caps(struct features *f)
{
	__cleanup_free char *status = NULL, *map = NULL;
	unsigned long long eff = 0;
	unsigned inside, outside, count;
	const char *p;
	size_t len;

	if (file__read_all(AT_FDCWD, "/proc/self/status", 1u << 20, &status, &len) == 0) {
		p = strstr(status, "\nCapEff:");
		if (p)
			eff = strtoull(p + 8, NULL, 16);
	}
	f->sys_admin = eff >> CAP_SYS_ADMIN & 1;
	f->cap_bpf = f->sys_admin || (eff >> CAP_NO_BPF & 1);
	f->cap_perfmon = f->sys_admin || (eff >> CAP_NO_PERFMON & 1);
	f->cap_checkpoint_restore = f->sys_admin || (eff >> CAP_NO_CHECKPOINT_RESTORE & 1);
	f->cap_sys_ptrace = eff >> CAP_SYS_PTRACE & 1;
	f->cap_dac_read_search = (eff >> CAP_DAC_READ_SEARCH & 1) || (eff >> CAP_DAC_OVERRIDE & 1);
	/* Only the first user namespace maps every id onto itself. */
	if (file__read_all(AT_FDCWD, "/proc/self/uid_map", 4096, &map, &len) == 0)
		f->in_user_ns = sscanf(map, "%u %u %u", &inside, &outside, &count) != 3 ||
				inside != 0 || outside != 0 || count != 4294967295u;
}

static void read_lockdown(struct features *f)
{
	__cleanup_free char *text = NULL;
	size_t len;

	if (file__read_all(AT_FDCWD, "/sys/kernel/security/lockdown", 4096, &text, &len) == 0)
		f->locked_down = !strstr(text, "[none]");
}

/* --- programs, maps, links -------------------------------------------------------------------- */

static int load_nothing(uint32_t expected_attach_type)
{
	LIBBPF_OPTS(bpf_prog_load_opts, o, .expected_attach_type = expected_attach_type);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "clika_try", "GPL", nothing,
			       ARRAY_SIZE(nothing), &o);

	return fd < 0 ? -errno : fd;
}

static bool can_make_ring(void)
{
	__cleanup_close int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "clika_try", 0, 0,
						(uint32_t)sysconf(_SC_PAGESIZE), NULL);

	return fd >= 0;
}

static int perf_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int first_cpu(void)
{
	__cleanup_free char *text = NULL;
	size_t len;

	if (file__read_all(AT_FDCWD, "/sys/devices/system/cpu/online", 4096, &text, &len))
		return 0;
	return atoi(text);
}

static int uprobe_type(void)
{
	__cleanup_free char *text = NULL;
	size_t len;

	if (file__read_all(AT_FDCWD, "/sys/bus/event_source/devices/uprobe/type", 64, &text, &len))
		return -1;
	return atoi(text);
}

/*
 * A probe on our own ELF header: nobody executes it, so no instruction is changed. Then a link
 * with a cookie on it.
 */
static void try_uprobe(struct features *f, int prog_fd)
{
	static const char path[] = "/proc/self/exe";
	struct perf_event_attr attr = { .size = sizeof(attr), .disabled = 1 };
	LIBBPF_OPTS(bpf_link_create_opts, o);
	__cleanup_close int event = -1, link = -1;
	int type = uprobe_type();

	if (type < 0)
		return;
	attr.type = (uint32_t)type;
	attr.config1 = (uint64_t)(uintptr_t)path;
	event = perf_open(&attr, -1, first_cpu());
	f->uprobe = event >= 0;
	if (!f->uprobe || prog_fd < 0)
		return;
	o.perf_event.bpf_cookie = 1;
	link = bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &o);
	f->attach_cookie = link >= 0;
}

static int multi_link(int prog_fd, uint32_t type, int32_t pid)
{
	uint64_t offset = 0;
	struct multi_link a = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = type,
		.path = (uint64_t)(uintptr_t) "/",
		.offsets = (uint64_t)(uintptr_t)&offset,
		.count = 1,
		.pid = (uint32_t)pid,
	};
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &a, sizeof(a));

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* A folder cannot be probed: EBADF comes from code that only kernels with such links have. */
static bool try_multi(uint32_t type, bool *by_process)
{
	__cleanup_close int prog = load_nothing(type);

	if (prog < 0 || multi_link(prog, type, 0) != -EBADF)
		return false;
	/* The kernels that filter by process are those that also refuse a negative one first. */
	if (by_process)
		*by_process = multi_link(prog, type, -1) == -EINVAL;
	return true;
}

static void try_mmap_events(struct features *f)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.mmap = 1,
		.mmap2 = 1,
	};
	__cleanup_close int fd = perf_open(&attr, -1, first_cpu());

	f->mmap_events = fd >= 0;
}

static void try_btf(struct features *f)
{
	const struct {
		const char *name;
		bool *has;
	} points[] = {
		{ "btf_trace_sched_process_fork", &f->tp_fork },
		{ "btf_trace_sched_process_exec", &f->tp_exec },
		{ "btf_trace_sched_process_exit", &f->tp_exit },
		{ "btf_trace_signal_deliver", &f->tp_signal_deliver },
		{ "btf_trace_sched_prepare_exec", &f->tp_prepare_exec },
		{ "btf_trace_task_rename", &f->tp_task_rename },
	};
	struct btf *btf = btf__load_vmlinux_btf();
	size_t i;

	f->btf = btf != NULL;
	for (i = 0; btf && i < ARRAY_SIZE(points); i++)
		*points[i].has = btf__find_by_name_kind(btf, points[i].name, BTF_KIND_TYPEDEF) > 0;
	btf__free(btf);
}

/* --- the whole ---------------------------------------------------------------------------------- */

int features__probe(struct features *f, struct clika_error *err)
{
	__cleanup_close int prog = -1;
	struct utsname u;
	char line[512];

	memset(f, 0, sizeof(*f));
	if (uname(&u) == 0)
		snprintf(f->kernel, sizeof(f->kernel), "%s", u.release);
	read_caps(f);
	read_lockdown(f);
	prog = load_nothing(0);
	f->load_bpf = prog >= 0;
	f->load_error = prog >= 0 ? 0 : -prog;
	f->ringbuf = can_make_ring();
	try_uprobe(f, prog);
	f->multi_uprobe = try_multi(ATTACH_UPROBE_MULTI, &f->multi_pid);
	f->multi_session = try_multi(ATTACH_UPROBE_SESSION, NULL);
	try_mmap_events(f);
	try_btf(f);
	if (f->load_bpf)
		return 0;
	features__missing(f, line, sizeof(line));
	return error__set(err, -f->load_error, "%s", line);
}

static void name_missing(const struct features *f, struct buf *b)
{
	const struct {
		bool has;
		const char *name;
	} caps[] = {
		{ f->cap_bpf, "CAP_BPF" },
		{ f->cap_perfmon, "CAP_PERFMON" },
		{ f->cap_sys_ptrace, "CAP_SYS_PTRACE" },
		{ f->cap_dac_read_search, "CAP_DAC_READ_SEARCH" },
		{ f->cap_checkpoint_restore, "CAP_CHECKPOINT_RESTORE" },
	};
	size_t i, n = 0, k = 0;

	for (i = 0; i < ARRAY_SIZE(caps); i++)
		n += !caps[i].has;
	for (i = 0; i < ARRAY_SIZE(caps); i++) {
		if (caps[i].has)
			continue;
		buf__printf(b, "%s%s", !k ? "" : k + 1 == n ? " and " : ", ", caps[i].name);
		k++;
	}
	buf__printf(b, " %s missing", n == 1 ? "is" : "are");
}

static void own_path(char *path, size_t n)
{
	ssize_t got = readlink("/proc/self/exe", path, n - 1);

	path[got < 0 ? 0 : got] = 0;
	if (got <= 0 || strpbrk(path, " \t\n'\"\\$`;&|<>()*?[]#~!{}"))
		snprintf(path, n, "FILE");
}

bool features__missing(const struct features *f, char *line, size_t n)
{
	char path[PATH_MAX];
	struct buf b = { 0 };

	*line = 0;
	if (f->load_bpf && f->cap_bpf && f->cap_perfmon)
		return false;
	if (!f->cap_bpf || !f->cap_perfmon) {
		own_path(path, sizeof(path));
		name_missing(f, &b);
		buf__printf(&b, ": run with sudo, or once: sudo setcap " CAPS "+ep %s", path);
	} else if (f->in_user_ns) {
		buf__printf(&b, "root of a user namespace (a rootless container?) may not load BPF "
				"programs: run it on the host");
	} else if (f->load_error == EPERM || f->load_error == EACCES) {
		buf__printf(&b,
			    "the kernel refuses to load BPF programs though the capabilities are "
			    "there: %s",
			    f->locked_down ? "kernel lockdown is on"
					   : "a seccomp filter or security module forbids it "
					     "(in a container: start it with --privileged)");
	} else {
		buf__printf(&b, "the kernel cannot load BPF programs: %s", strerror(f->load_error));
	}
	snprintf(line, n, "%.*s", (int)b.len, b.data ? (const char *)b.data : "");
	buf__free(&b);
	return true;
}
