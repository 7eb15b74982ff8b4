// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/scratch.h"
#include "user/probe/elf_file.h"
#include "user/probe/proc.h"

/* --- helpers ----------------------------------------------------------------------------------- */

struct wanted {
	uint64_t addr; /* 0 = by name */
	const char *path;
	struct proc_map m;
	char found[4096];
};

static int find_map(void *ctx, const struct proc_map *m)
{
	struct wanted *w = ctx;

	if (w->addr ? w->addr < m->start || w->addr >= m->end
		    : strcmp(m->path, w->path) != 0 || !m->exec)
		return 0;
	w->m = *m;
	snprintf(w->found, sizeof(w->found), "%s", m->path);
	w->m.path = w->found;
	return 1;
}

static struct elf_file *open_elf(int fd)
{
	struct clika_error err = { 0 };
	struct elf_file *f;

	if (elf_file__open(fd, "mapped", &f, &err))
		fail_msg("%s", err.msg);
	close(fd);
	return f;
}

static int say_yes(void *ctx, const struct elf_func *fu)
{
	(void)fu;
	*(bool *)ctx = true;
	return 1;
}

static bool has_function(int fd, const char *name)
{
	struct elf_file *f = open_elf(fd);
	bool yes = false;

	elf_file__functions(f, name, say_yes, &yes, NULL, NULL);
	elf_file__close(f);
	return yes;
}

static const char *library(const char *name, const char *function)
{
	char source[256];

	snprintf(source, sizeof(source), "int %s(int x);\nint %s(int x) { return x + 1; }\n",
		 function, function);
	return scratch__build(name, source, "-fPIC -shared -O1");
}

/* A child that has run @fn and waits to be killed. */
static pid_t child(void (*fn)(void))
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn();
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* --- mappings ------------------------------------------------------------------------------------ */

static void finds_the_mapping_of_its_own_code(void **state)
{
	struct wanted w = { .addr = (uint64_t)(uintptr_t)finds_the_mapping_of_its_own_code };
	char exe[4096];
	struct stat st;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	int fd;

	(void)state;
	exe[n] = 0;
	assert_int_equal(proc__maps(getpid(), find_map, &w), 1);
	assert_true(w.m.exec && !w.m.write && !w.m.deleted);
	assert_string_equal(w.m.path, exe);
	assert_int_equal(stat(exe, &st), 0);
	fd = proc__open_mapped(getpid(), &w.m, NULL);
	assert_true(has_function(fd, "proc__maps"));
	fd = proc__open_exe(getpid(), NULL);
	assert_true(has_function(fd, "proc__maps"));
	assert_false(proc__is_32bit(getpid()));
	w = (struct wanted){ .addr = (uint64_t)(uintptr_t)&w };
	assert_int_equal(proc__maps(getpid(), find_map, &w), 1);
	assert_true(w.m.write && !w.m.exec);
	assert_int_equal(proc__maps(0x3fffffff, find_map, &w), -ESRCH);
}

static void reads_names_with_spaces_and_newlines(void **state)
{
	static const char *const names[] = { "lib with  spaces.so", "lib\nnewline.so",
					     "lib ends in (deleted)", "lib\\012.so x" };
	const char *lib = library("odd.so", "odd");
	struct wanted w = { 0 };
	char name[64];
	void *handle;
	size_t i;
	int fd;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		const char *path = scratch__path(names[i]);

		scratch__run("cp '%s' '%s'", lib, path);
		handle = dlopen(path, RTLD_NOW);
		assert_non_null(handle);
		w.addr = (uint64_t)(uintptr_t)dlsym(handle, "odd");
		assert_int_equal(proc__maps(getpid(), find_map, &w), 1);
		snprintf(name, sizeof(name), "%s%s", strrchr(w.m.path, '/') + 1,
			 w.m.deleted ? " (deleted)" : "");
		/* A file that is called "\012" reads like one with a newline: the kernel's maps
		 * do not tell them apart. It is found all the same. */
		if (i != 3)
			assert_string_equal(name, names[i]);
		if (i != 3 || geteuid() == 0) {
			fd = proc__open_mapped(getpid(), &w.m, NULL);
			assert_true(fd >= 0);
			assert_true(has_function(fd, "odd"));
		}
		dlclose(handle);
	}
}

static const char *replaced, *next;

static void build_replaced(void)
{
	replaced = library("replaced.so", "old_one");
	next = library("next.so", "new_one");
}

/* The library that is mapped must be opened, never what lies under its name now. */
static int open_replaced(bool remove, struct clika_error *err)
{
	void *handle = dlopen(replaced, RTLD_NOW);
	struct wanted w = { 0 };
	int fd;

	if (!handle || (remove ? unlink(replaced) : rename(next, replaced)))
		return -EIO;
	w.addr = (uint64_t)(uintptr_t)dlsym(handle, "old_one");
	if (proc__maps(getpid(), find_map, &w) != 1 || !w.m.deleted ||
	    strcmp(w.m.path, replaced) != 0)
		return -EIO;
	fd = proc__open_mapped(getpid(), &w.m, err);
	dlclose(handle);
	return fd;
}

static bool may_use_map_files(void)
{
	struct wanted w = { .addr = (uint64_t)(uintptr_t)may_use_map_files };
	char path[128];
	int fd;

	proc__maps(getpid(), find_map, &w);
	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)w.m.start,
		 (unsigned long)w.m.end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void opens_deleted_and_replaced_libraries(void **state)
{
	struct clika_error err = { 0 };
	int fd;

	(void)state;
	if (!may_use_map_files())
		skip();
	build_replaced();
	fd = open_replaced(true, &err);
	assert_true(fd >= 0);
	assert_true(has_function(fd, "old_one"));
	build_replaced();
	fd = open_replaced(false, &err);
	assert_true(fd >= 0);
	assert_true(has_function(fd, "old_one"));
}

static void without_rights_a_replaced_library_is_refused_by_name(void **state)
{
	struct clika_error err = { 0 };
	int status;
	pid_t pid;

	(void)state;
	build_replaced();
	scratch__run("chmod 777 '%s'", scratch__path("."));
	pid = fork();
	if (!pid) {
		struct wanted w = { .addr = (uint64_t)(uintptr_t)may_use_map_files };
		int fd;

		if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
			_exit(10);
		prctl(PR_SET_DUMPABLE, 1);
		if (may_use_map_files())
			_exit(11);
		/* by path: what still lies where it was mapped from */
		proc__maps(getpid(), find_map, &w);
		fd = proc__open_mapped(getpid(), &w.m, &err);
		if (fd < 0 && fd != -EACCES) /* the build folder may be closed to others */
			_exit(12);
		fd = open_replaced(false, &err);
		if (fd >= 0)
			_exit(13);
		_exit(strstr(err.msg, "CAP_CHECKPOINT_RESTORE") &&
				      strstr(err.msg, "another file under its name")
			      ? 0
			      : 14);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static const char *inner_lib, *cover;

static void cover_folder_and_load(void)
{
	char line[1024];

	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", cover, "tmpfs", 0, NULL))
		_exit(1);
	snprintf(line, sizeof(line), "cp '%s' '%s/lib.so'", inner_lib, cover);
	if (system(line) != 0)
		_exit(1);
	snprintf(line, sizeof(line), "%s/lib.so", cover);
	if (!dlopen(line, RTLD_NOW))
		_exit(1);
}

static void opens_what_a_process_in_another_mount_namespace_maps(void **state)
{
	struct wanted w = { 0 };
	char path[512];
	int fd;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	inner_lib = library("inner.so", "inner_one");
	cover = scratch__path("cover");
	assert_int_equal(mkdir(cover, 0755), 0);
	scratch__run("cp '%s' '%s/lib.so'", library("decoy.so", "decoy"), cover);
	pid = child(cover_folder_and_load);
	snprintf(path, sizeof(path), "%s/lib.so", cover);
	w.path = path;
	assert_int_equal(proc__maps(pid, find_map, &w), 1);
	fd = proc__open_mapped(pid, &w.m, NULL);
	assert_true(fd >= 0);
	assert_true(has_function(fd, "inner_one"));
	end(pid);
}

static void map_a_device(void)
{
	int fd = open("/dev/zero", O_RDWR);

	if (mmap((void *)0x700000000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
		 0) == MAP_FAILED)
		_exit(1);
}

static void refuses_what_is_no_regular_file(void **state)
{
	struct wanted w = { .addr = 0x700000000000 };
	struct clika_error err;
	pid_t pid = child(map_a_device);

	(void)state;
	assert_int_equal(proc__maps(pid, find_map, &w), 1);
	assert_true(proc__open_mapped(pid, &w.m, &err) < 0);
	w.m.inode = 0;
	assert_int_equal(proc__open_mapped(pid, &w.m, &err), -ENOENT);
	end(pid);
}

/* --- identity ------------------------------------------------------------------------------------- */

static void take_an_odd_name(void)
{
	prctl(PR_SET_NAME, ") R 1 (x y");
}

static void reads_stat_whatever_the_command_is_called(void **state)
{
	pid_t pid = child(take_an_odd_name);
	struct proc_stat st;

	(void)state;
	assert_int_equal(proc__stat(pid, &st), 0);
	assert_string_equal(st.comm, ") R 1 (x y");
	assert_int_equal(st.pid, pid);
	assert_int_equal(st.ppid, getpid());
	assert_int_not_equal(st.start_ticks, 0);
	assert_non_null(strchr("SRD", st.state));
	end(pid);
	assert_int_equal(proc__stat(pid, &st), -ESRCH);
}

static void tells_details_for_people(void **state)
{
	struct proc_details d;
	char exe[4096];
	pid_t pid;
	int in[2], status;

	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		execl("/bin/cat", "cat", "/dev/fd/0", "--", "-", (char *)NULL);
		_exit(1);
	}
	close(in[0]);
	/* exec gives the new name first, the arguments a little later */
	do {
		assert_int_equal(proc__details(pid, &d), 0);
		if (d.comm && strcmp(d.comm, "cat") == 0 && d.cmdline &&
		    strncmp(d.cmdline, "cat", 3) == 0)
			break;
		proc_details__free(&d);
	} while (true);
	assert_string_equal(d.cmdline, "cat /dev/fd/0 -- -");
	assert_non_null(realpath("/bin/cat", exe));
	assert_string_equal(d.exe, exe);
	assert_int_equal(d.uid, getuid());
	assert_int_equal(d.ns_pid, pid);
	proc_details__free(&d);
	close(in[1]);
	waitpid(pid, &status, 0);
	assert_int_equal(proc__details(pid, &d), -ESRCH);
	assert_null(d.comm);
}

static void names_containers_by_their_cgroup(void **state)
{
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
	static const struct {
		const char *path, *name;
	} all[] = {
		{ "/", NULL },
		{ "/user.slice/user-1000.slice/session-3.scope", NULL },
		{ "/system.slice/ssh.service", NULL },
		{ "/docker/" ID, ID },
		{ "/system.slice/docker-" ID ".scope", ID },
		{ "/system.slice/docker-" ID ".scope/init.scope", ID },
		{ "/../../system.slice/docker-" ID ".scope", ID },
		{ "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_34.slice/"
		  "cri-containerd-" ID ".scope",
		  ID },
		{ "/kubepods/besteffort/pod1234-5678/" ID, ID },
		{ "/kubepods.slice/kubepods-pod1.slice/crio-" ID ".scope/container", ID },
		{ "/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:" ID, ID },
		{ "/machine.slice/libpod-" ID ".scope/container", ID },
		{ "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope",
		  ID },
		{ "/docker/" ID "/docker/" ID2, ID2 },
		{ "/docker/" ID "f", NULL }, /* 65 digits */
		{ "/lxc/web01/system.slice", "web01" },
		{ "/lxc.payload.web02/init.scope", "web02" },
		{ "/lxc.payload/web03", "web03" },
		{ "/machine.slice/machine-my\\x2dbox.scope/payload", "my-box" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		char *name = cgroup__container(all[i].path);

		if (!name != !all[i].name || (name && strcmp(name, all[i].name) != 0))
			fail_msg("%s: %s", all[i].path, name ? name : "none");
		free(name);
	}
}

/* --- lists ----------------------------------------------------------------------------------------- */

struct pids {
	pid_t p[4096];
	size_t n;
};

static int note_pid(void *ctx, pid_t pid)
{
	struct pids *all = ctx;

	assert_true(all->n < ARRAY_SIZE(all->p));
	all->p[all->n++] = pid;
	return 0;
}

static bool has_pid(const struct pids *all, pid_t pid)
{
	size_t i;

	for (i = 0; i < all->n; i++)
		if (all->p[i] == pid)
			return true;
	return false;
}

static pid_t *grandchild;

static void have_a_child(void)
{
	int ready[2];
	char c;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		_exit(1);
	pid = fork();
	if (!pid) {
		/* before the parent may be killed, or nobody ever ends this one */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (read(ready[0], &c, 1) != 1)
		_exit(1);
	*grandchild = pid;
}

static void nothing(void)
{
}

static void finds_descendants_and_no_strangers(void **state)
{
	struct pids all = { .n = 0 };
	pid_t parent, stranger;

	(void)state;
	grandchild = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	parent = child(have_a_child);
	stranger = child(nothing);
	assert_int_equal(proc__descendants(parent, note_pid, &all), 0);
	assert_int_equal(all.n, 1);
	assert_int_equal(all.p[0], *grandchild);
	all.n = 0;
	assert_int_equal(proc__descendants(getpid(), note_pid, &all), 0);
	assert_true(has_pid(&all, parent) && has_pid(&all, *grandchild) && has_pid(&all, stranger));
	assert_false(has_pid(&all, getpid()));
	all.n = 0;
	assert_int_equal(proc__each(note_pid, &all), 0);
	assert_true(has_pid(&all, getpid()) && has_pid(&all, *grandchild));
	end(parent);
	end(stranger);
	munmap(grandchild, 4096);
}

static pthread_barrier_t barrier;
static pid_t thread_id;

static void *named_thread(void *arg)
{
	prctl(PR_SET_NAME, "worker (2)");
	thread_id = (pid_t)syscall(SYS_gettid);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return arg;
}

static void lists_threads_with_their_names(void **state)
{
	struct pids all = { .n = 0 };
	pthread_t t;
	char name[64];

	(void)state;
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&t, NULL, named_thread, NULL);
	pthread_barrier_wait(&barrier);
	assert_int_equal(proc__threads(getpid(), note_pid, &all), 0);
	assert_true(has_pid(&all, getpid()) && has_pid(&all, thread_id));
	assert_int_equal(proc__thread_name(getpid(), thread_id, name), 0);
	assert_string_equal(name, "worker (2)");
	pthread_barrier_wait(&barrier);
	pthread_join(t, NULL);
	assert_int_equal(proc__thread_name(getpid(), 0x3fffffff, name), -ESRCH);
	assert_int_equal(proc__threads(0x3fffffff, note_pid, &all), -ESRCH);
}

/* --- memory ---------------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void reads_memory_up_to_the_first_bad_page(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *area =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char to[64];
	uint64_t at = (uint64_t)(uintptr_t)area;
	int timeout;

	(void)state;
	memset(area, 'a', 2 * page);
	assert_int_equal(munmap(area + page, page), 0);
	for (timeout = -1; timeout <= 0; timeout++) {
		memset(to, 0, sizeof(to));
		assert_int_equal(proc__read_memory(getpid(), at, to, 64, timeout < 0 ? -1 : 20000),
				 64);
		assert_int_equal(to[63], 'a');
		assert_int_equal(proc__read_memory(getpid(), at + page - 10, to, 64,
						   timeout < 0 ? -1 : 20000),
				 10);
		assert_int_equal(proc__read_memory(getpid(), at + page, to, 64,
						   timeout < 0 ? -1 : 20000),
				 -EFAULT);
		assert_int_equal(proc__read_memory(0x3fffffff, at, to, 64,
						   timeout < 0 ? -1 : 20000),
				 -ESRCH);
	}
	munmap(area, page);
}

static void reads_many_ranges_in_one_go(void **state)
{
	static char memory[1000][16];
	static char to[1000][16];
	struct proc_range r[1000];
	int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		sprintf(memory[i], "range %d", i);
		r[i] = (struct proc_range){ (uint64_t)(uintptr_t)memory[i], to[i], 16, -1 };
	}
	r[500].addr = 8;
	assert_int_equal(proc__read_memoryv(getpid(), r, 1000, 5000), 0);
	for (i = 0; i < 1000; i++) {
		assert_int_equal(r[i].got, i == 500 ? -EFAULT : 16);
		assert_string_equal(to[i], i == 500 ? "" : memory[i]);
	}
	r[0].n = (size_t)1 << 40;
	assert_int_equal(proc__read_memoryv(getpid(), r, 1, 5000), -E2BIG);
}

static int uffd = -1;
static char *hostile;

/* A page that nobody ever supplies. */
static void map_a_page_that_never_comes(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	hostile = mmap((void *)0x600000000000, 4096, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	reg.range.start = (uint64_t)(uintptr_t)hostile;
	reg.range.len = 4096;
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &reg))
		prctl(PR_SET_NAME, "no uffd");
}

static void leaves_a_read_behind_that_never_returns(void **state)
{
	static char good[16] = "still there", to[16];
	struct proc_range r[2];
	struct proc_stat st;
	uint64_t start;
	int i;
	pid_t pid = child(map_a_page_that_never_comes);

	(void)state;
	assert_int_equal(proc__stat(pid, &st), 0);
	if (strcmp(st.comm, "no uffd") == 0) {
		end(pid);
		skip();
	}
	/* the good range is in hand though the other one hangs: fork gave it the same address */
	r[0] = (struct proc_range){ (uint64_t)(uintptr_t)good, to, sizeof(to), 0 };
	r[1] = (struct proc_range){ 0x600000000000, to, sizeof(to), 0 };
	start = now_ms();
	assert_int_equal(proc__read_memoryv(pid, r, 2, 2000), -ETIMEDOUT);
	assert_in_range(now_ms() - start, 2000, 30000);
	assert_int_equal(r[0].got, sizeof(good));
	assert_string_equal(to, "still there");
	assert_int_equal(r[1].got, -ETIMEDOUT);
	/* the same target gets no second thread to hold on to */
	start = now_ms();
	for (i = 0; i < 100; i++)
		assert_int_equal(proc__read_memory(pid, 0x600000000000, to, 16, 20000), -ETIMEDOUT);
	assert_in_range(now_ms() - start, 0, 60000); /* not 100 deadlines */
	/* others do */
	assert_int_equal(proc__read_memory(getpid(), (uint64_t)(uintptr_t)good, to, 16, 20000), 16);
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_mapping_of_its_own_code),
		cmocka_unit_test(reads_names_with_spaces_and_newlines),
		cmocka_unit_test(opens_deleted_and_replaced_libraries),
		cmocka_unit_test(without_rights_a_replaced_library_is_refused_by_name),
		cmocka_unit_test(opens_what_a_process_in_another_mount_namespace_maps),
		cmocka_unit_test(refuses_what_is_no_regular_file),
		cmocka_unit_test(reads_stat_whatever_the_command_is_called),
		cmocka_unit_test(tells_details_for_people),
		cmocka_unit_test(names_containers_by_their_cgroup),
		cmocka_unit_test(finds_descendants_and_no_strangers),
		cmocka_unit_test(lists_threads_with_their_names),
		cmocka_unit_test(reads_memory_up_to_the_first_bad_page),
		cmocka_unit_test(reads_many_ranges_in_one_go),
		cmocka_unit_test(leaves_a_read_behind_that_never_returns),
	};

	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
