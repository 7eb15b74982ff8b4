// SPDX-License-Identifier: Apache-2.0
#include "user/probe/attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clika.skel.h"

#define ATTACH_TYPE_UPROBE_MULTI 48
#define UPROBE_MULTI_RETURN 1 /* flag of multi-uprobe links */
#define UPROBE_RETPROBE 1     /* config bit of the uprobe PMU */
#define CPUS_PER_RING 8
#define MAX_RINGS 64
#define FEW_BLOCKS 1024     /* where nothing asks for them */
#define KERNEL_ENOTSUPP 524 /* the kernel's own ENOTSUPP */
#define MAX_REFUSED 64      /* sites of one file that the kernel may refuse one by one */

struct attacher {
	struct clika_bpf *skel;
	const struct logger *log;
	bool multi, multi_pid;
	unsigned n_rings;
	size_t ring_bytes;
	int ring_fds[MAX_RINGS];
	struct bpf_link *hooks[8];
	unsigned n_hooks;
	struct held_link {
		int fd;
		uint32_t group;
	} * links;
	size_t n_links, cap_links;
	uint32_t group; /* of the attachment made last */
	size_t n_probes;
	uint32_t level, self, self_gen;
	uint64_t self_start;
};

/* The kernel's arguments of BPF_LINK_CREATE for multi-uprobes; libbpf 1.1 does not know them. */
struct multi_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t cnt, multi_flags, pid, pad;
	uint8_t rest[64];
};

static void raise_fd_limit(void)
{
	struct rlimit lim;

	if (!getrlimit(RLIMIT_NOFILE, &lim) && lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
}

static void attacher__configure(struct attacher *a, const struct attach_opts *o)
{
	struct clika_bpf__rodata *ro = a->skel->rodata;
	size_t len;

	ro->cfg_rings = a->n_rings;
	ro->cfg_wake_bytes = a->ring_bytes / 4;
	ro->cfg_system = o->system;
	ro->cfg_follow = o->follow;
	ro->cfg_guarded = o->guarded;
	if (o->uid >= 0) {
		ro->cfg_has_uid = 1;
		ro->cfg_uid = (uint32_t)o->uid;
	}
	ro->cfg_cgroup = o->cgroup_id;
	ro->cfg_cgroup_level = o->cgroup_level;
	if (o->comm && *o->comm) {
		len = strlen(o->comm);
		if (o->comm[len - 1] == '*') {
			ro->cfg_comm_prefix = 1;
			len--;
		}
		if (len > 15) {
			len = 15;
			ro->cfg_comm_prefix = 1;
		}
		memcpy((char *)ro->cfg_comm, o->comm, len);
		ro->cfg_comm_len = len;
	}
}

static int attacher__rings(struct attacher *a, struct clika_error *err)
{
	char name[16];

	for (unsigned i = 0; i < a->n_rings; i++) {
		snprintf(name, sizeof(name), "clika_ring%u", i & 0xff);
		a->ring_fds[i] =
			bpf_map_create(BPF_MAP_TYPE_RINGBUF, name, 0, 0, a->ring_bytes, NULL);
		if (a->ring_fds[i] < 0)
			return error__set(err, -errno, "cannot make a ring buffer of %zu KiB: %s",
					  a->ring_bytes >> 10, strerror(errno));
		if (bpf_map_update_elem(bpf_map__fd(a->skel->maps.rings), &i, &a->ring_fds[i], 0))
			return error__set(err, -errno, "cannot place ring buffer %u: %s", i,
					  strerror(errno));
	}
	return 0;
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list args)
{
	(void)level;
	(void)fmt;
	(void)args;
	return 0;
}

static void attacher__choose(struct attacher *a, const struct features *f)
{
	struct clika_bpf *s = a->skel;

	if (f->multi_uprobe) {
		bpf_program__set_expected_attach_type(s->progs.probe_batch,
						      ATTACH_TYPE_UPROBE_MULTI);
		bpf_program__set_expected_attach_type(s->progs.probe_hit, ATTACH_TYPE_UPROBE_MULTI);
		bpf_program__set_expected_attach_type(s->progs.probe_call,
						      ATTACH_TYPE_UPROBE_MULTI);
		a->multi = true;
		a->multi_pid = f->multi_pid;
	}
	bpf_program__set_autoload(s->progs.twin_batch, false);
	bpf_program__set_autoload(s->progs.twin_hit, false);
	bpf_program__set_autoload(s->progs.twin_call, false);
	bpf_program__set_autoload(s->progs.life_fork, f->tp_fork);
	bpf_program__set_autoload(s->progs.life_exec, f->tp_exec);
	bpf_program__set_autoload(s->progs.life_exit, f->tp_exit);
	bpf_program__set_autoload(s->progs.life_prepare_exec, f->tp_prepare_exec);
	bpf_program__set_autoload(s->progs.life_signal, f->tp_signal_deliver);
	bpf_program__set_autoload(s->progs.life_rename, f->tp_task_rename);
}

int attacher__new(const struct features *f, const struct attach_opts *o, struct attacher **out,
		  struct clika_error *err)
{
	int cpus = libbpf_num_possible_cpus(), ret;
	struct attacher *a = calloc(1, sizeof(*a));

	if (!a)
		return error__set(err, -ENOMEM, "out of memory");
	raise_fd_limit();
	/* Since 5.11 BPF memory is charged to the cgroup; the limit of the process is left alone. */
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL & ~LIBBPF_STRICT_AUTO_RLIMIT_MEMLOCK);
	if (!o->log || o->log->max < LOG_DEBUG)
		libbpf_set_print(quiet);
	a->log = o->log;
	a->ring_bytes = o->ring_bytes;
	a->n_rings = cpus < 1 ? 1 : (cpus + CPUS_PER_RING - 1) / CPUS_PER_RING;
	if (a->n_rings > MAX_RINGS)
		a->n_rings = MAX_RINGS;
	memset(a->ring_fds, -1, sizeof(a->ring_fds));
	a->skel = clika_bpf__open();
	if (!a->skel) {
		ret = error__set(err, -errno, "cannot open the built-in BPF object: %s",
				 strerror(errno));
		goto out;
	}
	attacher__configure(a, o);
	if (!o->blocks)
		bpf_map__set_max_entries(a->skel->maps.blocks, FEW_BLOCKS);
	attacher__choose(a, f);
	ret = clika_bpf__load(a->skel);
	if (ret) {
		error__set(err, ret,
			   "the kernel refuses the BPF programs: %s; `clika-bpf-prof doctor` "
			   "tells what is missing, -v shows the verifier's words",
			   strerror(-ret));
		goto out;
	}
	ret = attacher__rings(a, err);
	if (ret)
		goto out;
	*out = a;
	return 0;
out:
	attacher__free(a, NULL, NULL);
	return ret;
}

static int attacher__find_self(struct attacher *a, struct clika_error *err);

int attacher__hooks(struct attacher *a, struct clika_error *err)
{
	int ret = attacher__find_self(a, err);
	struct bpf_program *progs[] = {
		a->skel->progs.life_fork,   a->skel->progs.life_exec,
		a->skel->progs.life_exit,   a->skel->progs.life_prepare_exec,
		a->skel->progs.life_signal, a->skel->progs.life_rename,
	};

	if (ret)
		return ret;
	for (size_t i = 0; i < ARRAY_SIZE(progs); i++) {
		struct bpf_link *l;

		if (!bpf_program__autoload(progs[i]))
			continue;
		l = bpf_program__attach(progs[i]);
		if (!l)
			return error__set(err, -errno, "cannot attach %s: %s",
					  bpf_program__name(progs[i]), strerror(errno));
		a->hooks[a->n_hooks++] = l;
	}
	return 0;
}

static int attacher__keep(struct attacher *a, int fd)
{
	if (a->n_links == a->cap_links) {
		size_t cap = a->cap_links ? a->cap_links * 2 : 64;
		struct held_link *more = realloc(a->links, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		a->links = more;
		a->cap_links = cap;
	}
	a->links[a->n_links++] = (struct held_link){ fd, a->group };
	return 0;
}

static void attacher__drop_to(struct attacher *a, size_t n)
{
	while (a->n_links > n)
		close(a->links[--a->n_links].fd);
}

uint32_t attacher__group(const struct attacher *a)
{
	return a->group;
}

void attacher__detach(struct attacher *a, uint32_t group)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n_links; i++) {
		if (a->links[i].group == group)
			close(a->links[i].fd);
		else
			a->links[n++] = a->links[i];
	}
	a->n_links = n;
}

const char *attacher__reason(int ret)
{
	/* Not among the C library's numbers. */
	if (ret == -KERNEL_ENOTSUPP || ret == -ENOEXEC)
		return "the kernel cannot put a probe on this instruction";
	return strerror(-ret);
}

struct attach_job {
	int prog;
	bool at_return;
	pid_t pid;
	void (*refused)(void *ctx, const struct probe_site *s, int why);
	void *ctx;
	char path[64];
};

static int prog_fd(const struct attacher *a, enum probe_family family)
{
	switch (family) {
	case PROBE_BATCH:
		return bpf_program__fd(a->skel->progs.probe_batch);
	case PROBE_HIT:
		return bpf_program__fd(a->skel->progs.probe_hit);
	default:
		return bpf_program__fd(a->skel->progs.probe_call);
	}
}

static int link_multi(struct attacher *a, int prog, bool at_return, const char *path,
		      const struct probe_site *sites, size_t n, pid_t pid)
{
	uint64_t *words = calloc(n * 3, sizeof(*words));
	struct multi_attr attr = { .prog_fd = prog, .attach_type = ATTACH_TYPE_UPROBE_MULTI };
	bool semaphores = false;
	int fd, ret = 0;

	if (!words)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		words[i] = sites[i].offset;
		words[n + i] = sites[i].semaphore;
		words[2 * n + i] = sites[i].cookie;
		semaphores |= sites[i].semaphore != 0;
	}
	attr.path = (uint64_t)(uintptr_t)path;
	attr.offsets = (uint64_t)(uintptr_t)words;
	attr.ref_ctr_offsets = semaphores ? (uint64_t)(uintptr_t)(words + n) : 0;
	attr.cookies = (uint64_t)(uintptr_t)(words + 2 * n);
	attr.cnt = n;
	attr.multi_flags = at_return ? UPROBE_MULTI_RETURN : 0;
	/* Early kernels take it for a thread: there the process set in BPF decides alone. */
	attr.pid = a->multi_pid ? pid : 0;
	fd = syscall(__NR_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	if (fd < 0) {
		ret = -errno;
	} else {
		ret = attacher__keep(a, fd);
		if (ret)
			close(fd);
	}
	free(words);
	return ret;
}

/* What the kernel says of an instruction that it cannot put a probe on. */
static bool is_refusal(int ret)
{
	return ret == -KERNEL_ENOTSUPP || ret == -EOPNOTSUPP || ret == -ENOEXEC || ret == -EINVAL ||
	       ret == -EIO;
}

/*
 * One site that the kernel refuses costs the whole link, and the kernel does not say which it was:
 * halves are tried until it stands alone. @left bounds the search; a file that is refused as a
 * whole is not taken apart site by site.
 */
static int attach_multi(struct attacher *a, const struct attach_job *j,
			const struct probe_site *sites, size_t n, unsigned *left)
{
	int ret = link_multi(a, j->prog, j->at_return, j->path, sites, n, j->pid);

	if (!ret || !is_refusal(ret) || !j->refused || !*left)
		return ret;
	if (n == 1) {
		--*left;
		j->refused(j->ctx, sites, ret);
		return 0;
	}
	ret = attach_multi(a, j, sites, n / 2, left);
	return ret ? ret : attach_multi(a, j, sites + n / 2, n - n / 2, left);
}

static int uprobe_pmu_type(void)
{
	__cleanup_free char *text = NULL;
	size_t len;

	if (file__read_all(-1, "/sys/bus/event_source/devices/uprobe/type", 64, &text, &len))
		return -ENOTSUP;
	return atoi(text);
}

static int attach_single(struct attacher *a, int prog, bool at_return, const char *path,
			 const struct probe_site *s, int type, pid_t pid)
{
	struct perf_event_attr pe = { .size = sizeof(pe), .type = type };
	LIBBPF_OPTS(bpf_link_create_opts, lo);
	int ev, link, ret;

	pe.config1 = (uint64_t)(uintptr_t)path;
	pe.config2 = s->offset;
	/* By the PMU's format files: the upper half is the counter's offset, bit 0 asks for the return. */
	pe.config = s->semaphore << 32 | (at_return ? UPROBE_RETPROBE : 0);
	ev = syscall(__NR_perf_event_open, &pe, pid ? pid : -1, pid ? -1 : 0, -1,
		     PERF_FLAG_FD_CLOEXEC);
	if (ev < 0)
		return -errno;
	lo.perf_event.bpf_cookie = s->cookie;
	link = bpf_link_create(prog, ev, BPF_PERF_EVENT, &lo);
	if (link < 0) {
		ret = -errno;
		close(ev);
		return ret;
	}
	/* The link holds the event; closing it first keeps one descriptor a probe. */
	close(ev);
	ret = attacher__keep(a, link);
	if (ret)
		close(link);
	return ret;
}

static int attach_singles(struct attacher *a, const struct attach_job *j,
			  const struct probe_site *sites, size_t n, unsigned *left)
{
	int type = uprobe_pmu_type(), ret;

	for (size_t i = 0; i < n; i++) {
		ret = attach_single(a, j->prog, j->at_return, j->path, &sites[i], type, j->pid);
		if (ret && is_refusal(ret) && j->refused && *left) {
			--*left;
			j->refused(j->ctx, &sites[i], ret);
		} else if (ret) {
			return ret;
		}
	}
	return 0;
}

int attacher__attach_some(struct attacher *a, enum probe_family family, int fd,
			  const struct probe_site *sites, size_t n, pid_t pid,
			  void (*refused)(void *ctx, const struct probe_site *s, int why),
			  void *ctx, struct clika_error *err)
{
	size_t had = a->n_links;
	unsigned left = MAX_REFUSED;
	struct attach_job j = { .prog = prog_fd(a, family),
				.at_return = family == PROBE_RETURN,
				.pid = pid,
				.refused = refused,
				.ctx = ctx };
	int ret;

	if (n == 0)
		return 0;
	if (!a->multi && uprobe_pmu_type() < 0)
		return error__set(err, -ENOTSUP,
				  "this kernel has no uprobes (CONFIG_UPROBE_EVENTS)");
	a->group++;
	/* By descriptor: the file that is mapped, whatever its name says by now. */
	snprintf(j.path, sizeof(j.path), "/proc/self/fd/%d", fd);
	ret = a->multi ? attach_multi(a, &j, sites, n, &left)
		       : attach_singles(a, &j, sites, n, &left);
	if (ret) {
		attacher__drop_to(a, had);
		return error__set(err, ret, "cannot attach %zu probe%s: %s", n, n == 1 ? "" : "s",
				  attacher__reason(ret));
	}
	a->n_probes += n;
	return (int)(a->n_links - had);
}

int attacher__attach(struct attacher *a, enum probe_family family, int fd,
		     const struct probe_site *sites, size_t n, pid_t pid, struct clika_error *err)
{
	return attacher__attach_some(a, family, fd, sites, n, pid, NULL, NULL, err);
}

bool attacher__has_multi(const struct attacher *a)
{
	return a->multi;
}

size_t attacher__n_links(const struct attacher *a)
{
	return a->n_links;
}

int attacher__target_add(struct attacher *a, pid_t pid, uint64_t start)
{
	struct wire_target t = { .start = start, .taken = 1 };
	uint32_t key = pid;

	return bpf_map_update_elem(bpf_map__fd(a->skel->maps.targets), &key, &t, BPF_ANY) ? -errno
											  : 0;
}

uint32_t attacher__self(const struct attacher *a)
{
	return a->self;
}

int attacher__admit_self(struct attacher *a, bool on)
{
	int cpus = libbpf_num_possible_cpus(), fd = bpf_map__fd(a->skel->maps.last_admitted);
	struct wire_target self = { .start = a->self_start, .taken = 1, .told = a->self_gen + 1 };
	uint32_t zero = 0;
	void *none;
	int ret;

	/* Told of already: nothing in the recording is to know it. */
	if (on)
		return bpf_map_update_elem(bpf_map__fd(a->skel->maps.targets), &a->self, &self,
					   BPF_ANY)
			       ? -errno
			       : 0;
	if (bpf_map_delete_elem(bpf_map__fd(a->skel->maps.targets), &a->self) && errno != ENOENT)
		return -errno;
	none = calloc(cpus, (bpf_map__value_size(a->skel->maps.last_admitted) + 7) & ~7u);
	if (!none)
		return -ENOMEM;
	ret = bpf_map_update_elem(fd, &zero, none, BPF_ANY) ? -errno : 0;
	free(none);
	return ret;
}

bool attacher__is_target(const struct attacher *a, pid_t pid)
{
	uint32_t key = pid;
	struct wire_target t;

	return !bpf_map_lookup_elem(bpf_map__fd(a->skel->maps.targets), &key, &t) && t.taken;
}

int attacher__quiesce(struct attacher *a)
{
	uint32_t zero = 0;

	__atomic_store_n(&a->skel->bss->stopped, 1, __ATOMIC_SEQ_CST);
	/* Changing a map in a map waits for every program that may still use the old one; uprobe
	 * programs run inside that same grace period. */
	return bpf_map_update_elem(bpf_map__fd(a->skel->maps.rings), &zero, &a->ring_fds[0], 0)
		       ? -errno
		       : 0;
}

size_t attacher__targets(const struct attacher *a)
{
	int fd = bpf_map__fd(a->skel->maps.targets);
	uint32_t key, next, *prev = NULL;
	struct wire_target t;
	size_t n = 0;

	while (n < 1u << 20 && !bpf_map_get_next_key(fd, prev, &next)) {
		key = next;
		prev = &key;
		if (!bpf_map_lookup_elem(fd, &key, &t) && t.taken)
			n++;
	}
	return n;
}

int attacher__buffer_add(struct attacher *a, pid_t tid, uint64_t addr, uint32_t file, pid_t ns_tid)
{
	struct wire_buffer val = { .addr = addr, .file = file, .ns_tid = ns_tid }, old;
	int fd = bpf_map__fd(a->skel->maps.buffers);

	for (uint32_t slot = 0; slot < WIRE_SLOTS; slot++) {
		struct wire_buffer_key key = { .tid = tid, .slot = slot };

		if (!bpf_map_lookup_elem(fd, &key, &old)) {
			if (old.addr == addr)
				return 0;
			continue;
		}
		return bpf_map_update_elem(fd, &key, &val, BPF_NOEXIST) ? -errno : 0;
	}
	return -E2BIG;
}

int attacher__site_set(struct attacher *a, uint32_t index, const struct wire_site *s)
{
	return bpf_map_update_elem(bpf_map__fd(a->skel->maps.sites), &index, s, BPF_ANY) ? -errno
											 : 0;
}

uint32_t attacher__max_sites(const struct attacher *a)
{
	return bpf_map__max_entries(a->skel->maps.sites);
}

int attacher__fetch_set(struct attacher *a, uint32_t number, const struct wire_fetch_set *s)
{
	return bpf_map_update_elem(bpf_map__fd(a->skel->maps.fetches), &number, s, BPF_ANY) ? -errno
											    : 0;
}

uint32_t attacher__max_fetch_sets(const struct attacher *a)
{
	return bpf_map__max_entries(a->skel->maps.fetches);
}

void attacher__switch(struct attacher *a, unsigned number, bool parity, bool both)
{
	uint8_t state = (parity ? SWITCH_PARITY : 0) | (both ? SWITCH_BOTH : 0);

	__atomic_store_n(&a->skel->bss->switches[number % COOKIE_SWITCHES], state,
			 __ATOMIC_SEQ_CST);
}

unsigned attacher__n_rings(const struct attacher *a)
{
	return a->n_rings;
}

int attacher__ring_fd(const struct attacher *a, unsigned i)
{
	return i < a->n_rings ? a->ring_fds[i] : -1;
}

size_t attacher__ring_bytes(const struct attacher *a)
{
	return a->ring_bytes;
}

int attacher__stats(const struct attacher *a, struct wire_stats *sum,
		    void (*each)(void *ctx, int cpu, const struct wire_stats *st), void *ctx)
{
	int cpus = libbpf_num_possible_cpus();
	struct wire_stats *per;
	uint32_t zero = 0;
	int ret = 0;

	memset(sum, 0, sizeof(*sum));
	if (cpus < 1)
		return -EINVAL;
	per = calloc(cpus, sizeof(*per));
	if (!per)
		return -ENOMEM;
	if (bpf_map_lookup_elem(bpf_map__fd(a->skel->maps.stats), &zero, per)) {
		ret = -errno;
		goto out;
	}
	for (int i = 0; i < cpus; i++) {
		const uint64_t *from = (const uint64_t *)&per[i];
		uint64_t *to = (uint64_t *)sum;

		for (size_t w = 0; w < sizeof(*sum) / sizeof(*to); w++)
			to[w] += from[w];
		if (each)
			each(ctx, i, &per[i]);
	}
out:
	free(per);
	return ret;
}

int attacher__losses(const struct attacher *a,
		     void (*each)(void *ctx, const struct wire_loss_key *k, uint64_t n), void *ctx)
{
	int fd = bpf_map__fd(a->skel->maps.losses);
	struct wire_loss_key key, next, *prev = NULL;
	uint64_t n;

	while (!bpf_map_get_next_key(fd, prev, &next)) {
		key = next;
		prev = &key;
		if (!bpf_map_lookup_elem(fd, &key, &n))
			each(ctx, &key, n);
	}
	return 0;
}

uint32_t attacher__level(const struct attacher *a)
{
	return a->level;
}

uint32_t attacher__local_pid(const struct attacher *a, const struct wire_task_info *t)
{
	return a->level <= t->level && a->level < WIRE_NS_LEVELS ? t->numbers[a->level] : 0;
}

static int tasks__read(int it, int (*fn)(void *, const struct wire_task_info *), void *ctx)
{
	struct wire_task_info t[64];
	size_t have = 0;
	ssize_t n;
	int ret;

	for (;;) {
		n = read(it, (char *)t + have, sizeof(t) - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		have += n;
		for (size_t i = 0; i < have / sizeof(t[0]); i++) {
			ret = fn(ctx, &t[i]);
			if (ret)
				return ret;
		}
		memmove(t, (char *)t + have / sizeof(t[0]) * sizeof(t[0]), have % sizeof(t[0]));
		have %= sizeof(t[0]);
	}
}

int attacher__tasks(struct attacher *a, int (*fn)(void *ctx, const struct wire_task_info *t),
		    void *ctx, struct clika_error *err)
{
	struct bpf_link *link = bpf_program__attach_iter(a->skel->progs.tasks, NULL);
	__cleanup_close int it = -1;
	int ret;

	if (!link)
		return error__set(err, -errno, "cannot list tasks through BPF: %s",
				  strerror(errno));
	it = bpf_iter_create(bpf_link__fd(link));
	if (it < 0)
		ret = error__set(err, -errno, "cannot list tasks through BPF: %s", strerror(errno));
	else
		ret = tasks__read(it, fn, ctx);
	bpf_link__destroy(link);
	return ret;
}

static int find_self(void *ctx, const struct wire_task_info *t)
{
	struct attacher *a = ctx;

	/* Not by number: processes of other namespaces may have the same one. */
	if (t->task.tgid != t->task.tid || t->task.tgid != t->reader)
		return 0;
	a->level = t->level;
	a->self = t->task.tgid;
	a->self_start = t->task.start;
	a->self_gen = t->task.exec_gen;
	return 1;
}

static int attacher__find_self(struct attacher *a, struct clika_error *err)
{
	int ret = attacher__tasks(a, find_self, a, err);

	if (ret < 0)
		return ret;
	a->skel->bss->loader_level = a->level;
	a->skel->bss->loader_tgid = a->self;
	return 0;
}

void attacher__free(struct attacher *a, void (*progress)(void *ctx, size_t done, size_t total),
		    void *ctx)
{
	uint64_t since;
	size_t total;

	if (!a)
		return;
	for (unsigned i = 0; i < a->n_hooks; i++)
		bpf_link__destroy(a->hooks[i]);
	total = a->n_links;
	since = clock__boottime_ns();
	while (a->n_links) {
		close(a->links[--a->n_links].fd);
		if (progress)
			progress(ctx, total - a->n_links, total);
	}
	if (total)
		logger__log(a->log, LOG_INFO, "attach", "%zu probes taken off in %.1f ms",
			    a->n_probes, (double)(clock__boottime_ns() - since) / NSEC_PER_MSEC);
	free(a->links);
	for (unsigned i = 0; i < a->n_rings; i++)
		if (a->ring_fds[i] >= 0)
			close(a->ring_fds[i]);
	clika_bpf__destroy(a->skel);
	free(a);
}
