// SPDX-License-Identifier: Apache-2.0
/* One place that the kernel refuses costs a link all its probes: every place found must be taken. */
#include <bpf/bpf.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/probe/elf_file.h"
#include "user/probe/features.h"

#define UPROBE_MULTI 48

struct multi_link {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid, pad;
};

struct places {
	struct elf_file *f;
	uint64_t *p;
	size_t n, cap;
	int functions;
};

static void add(struct places *all, uint64_t offset)
{
	if (all->n == all->cap) {
		all->cap = all->cap ? all->cap * 2 : 4096;
		all->p = realloc(all->p, all->cap * sizeof(*all->p));
		assert_non_null(all->p);
	}
	all->p[all->n++] = offset;
}

static int on_function(void *ctx, const struct elf_func *fu)
{
	struct places *all = ctx;
	struct func_sites s;
	uint32_t i;

	all->functions++;
	if (func_sites__find(all->f, fu, &s, NULL))
		return 0;
	add(all, s.entry);
	for (i = 0; i < s.n_exits; i++)
		add(all, s.exits[i]);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void sort_once(struct places *all)
{
	size_t i, n = 0;

	qsort(all->p, all->n, sizeof(*all->p), by_value);
	for (i = 0; i < all->n; i++)
		if (!n || all->p[n - 1] != all->p[i])
			all->p[n++] = all->p[i];
	all->n = n;
}

/* A process that maps the library: places are only looked at where they are mapped. */
static pid_t map_library(const char *path)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!dlopen(path, RTLD_NOW) || write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static int attach(int prog, const char *path, pid_t pid, const struct places *all)
{
	struct multi_link a = {
		.prog_fd = (uint32_t)prog,
		.attach_type = UPROBE_MULTI,
		.path = (uint64_t)(uintptr_t)path,
		.offsets = (uint64_t)(uintptr_t)all->p,
		.count = (uint32_t)all->n,
		.pid = (uint32_t)pid,
	};
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &a, sizeof(a));

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void the_kernel_takes_every_place_of(const char *name, int at_least)
{
	static const struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, o, .expected_attach_type = UPROBE_MULTI);
	struct places all = { 0 };
	struct features f;
	char path[512];
	int prog, fd, rc;
	FILE *in;
	pid_t pid;

	if (features__probe(&f, NULL) || !f.multi_uprobe)
		skip();
	snprintf(path, sizeof(path), "c++ -print-file-name=%s", name);
	in = popen(path, "r");
	assert_non_null(in);
	assert_non_null(fgets(path, sizeof(path), in));
	pclose(in);
	path[strcspn(path, "\n")] = 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(elf_file__open(fd, path, &all.f, NULL), 0);
	close(fd);
	assert_int_equal(elf_file__functions(all.f, "*", on_function, &all, NULL, NULL), 0);
	assert_true(all.functions >= at_least);
	sort_once(&all);

	prog = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "nothing", "GPL", nothing, 2, &o);
	assert_true(prog >= 0);
	pid = map_library(path);
	rc = attach(prog, path, pid, &all);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(prog);
	elf_file__close(all.f);
	free(all.p);
	if (rc)
		fail_msg("%s: %zu places: %s", name, all.n, strerror(-rc));
}

static void the_kernel_takes_every_place_of_libstdcxx(void **state)
{
	(void)state;
	the_kernel_takes_every_place_of("libstdc++.so.6", 3000);
}

/* Hand-written vector code in many versions, given-up instruction sets among it. */
static void the_kernel_takes_every_place_of_libm(void **state)
{
	(void)state;
	the_kernel_takes_every_place_of("libm.so.6", 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_takes_every_place_of_libstdcxx),
		cmocka_unit_test(the_kernel_takes_every_place_of_libm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
