// SPDX-License-Identifier: Apache-2.0
/* Reading small files; outputs that appear complete or not at all. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "user/base/base.h"

struct folder {
	char path[64];
};

static int setup(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));

	strcpy(f->path, "/tmp/test_base_file.XXXXXX");
	if (!mkdtemp(f->path))
		return -1;
	*state = f;
	return 0;
}

static unsigned folder__clear(const struct folder *f, bool count_only)
{
	DIR *d = opendir(f->path);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		n++;
		if (!count_only)
			unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
	return n;
}

static int teardown(void **state)
{
	struct folder *f = *state;

	folder__clear(f, false);
	rmdir(f->path);
	free(f);
	return 0;
}

static const char *in(const struct folder *f, const char *name)
{
	static char path[4][512];
	static unsigned turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", f->path, name);
	return path[turn];
}

static void assert_content(const char *path, const char *want)
{
	char *data;
	size_t len;

	assert_int_equal(file__read_all(AT_FDCWD, path, 1 << 20, &data, &len), 0);
	assert_string_equal(data, want);
	assert_int_equal(len, strlen(want));
	free(data);
}

static struct outfile *create(const char *path)
{
	struct clika_error err = { 0 };
	struct outfile *f = NULL;

	if (outfile__create(path, (uid_t)-1, (gid_t)-1, &f, &err))
		fail_msg("%s", err.msg);
	return f;
}

static void a_small_file_is_read_whole_and_a_large_one_refused(void **state)
{
	const struct folder *f = *state;
	const char *path = in(f, "file");
	struct outfile *o = create(path);
	char *data = (char *)1;
	size_t len, i;

	for (i = 0; i < 10000; i++)
		assert_int_equal(outfile__write(o, "x", 1), 0);
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_int_equal(file__read_all(AT_FDCWD, path, 10000, &data, &len), 0);
	assert_int_equal(len, 10000);
	assert_int_equal(data[10000], 0);
	free(data);
	assert_int_equal(file__read_all(AT_FDCWD, path, 9999, &data, &len), -EFBIG);
	assert_null(data);
	assert_int_equal(file__read_all(AT_FDCWD, in(f, "none"), 1, &data, NULL), -ENOENT);
	assert_int_equal(file__read_all(AT_FDCWD, f->path, 1000, &data, NULL), -EISDIR);
	assert_int_equal(file__read_all(AT_FDCWD, "/proc/self/stat", 100000, &data, &len), 0);
	assert_true(len > 10);
	free(data);
}

static void a_fifo_in_the_place_of_a_file_does_not_hold_the_reader(void **state)
{
	const struct folder *f = *state;
	const char *path = in(f, "fifo");
	char *data;

	assert_int_equal(mkfifo(path, 0600), 0);
	alarm(20);
	assert_int_equal(file__read_all(AT_FDCWD, path, 1000, &data, NULL), 0);
	alarm(0);
	assert_string_equal(data, "");
	free(data);
}

static void the_final_name_appears_on_commit_only(void **state)
{
	const struct folder *f = *state;
	const char *path = in(f, "out.json");
	struct outfile *o = create(path);
	struct stat st;

	assert_int_equal(outfile__write(o, "hello ", 6), 0);
	assert_int_equal(outfile__printf(o, "%s %d", "world", 7), 0);
	assert_int_equal(outfile__bytes(o), 13);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(folder__clear(f, true), 1);
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_content(path, "hello world 7");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(folder__clear(f, true), 1);
}

static void abort_leaves_the_older_file_and_nothing_else(void **state)
{
	const struct folder *f = *state;
	const char *path = in(f, "out");
	struct outfile *o = create(path);

	outfile__printf(o, "old");
	assert_int_equal(outfile__commit(o, NULL), 0);
	o = create(path);
	outfile__printf(o, "new");
	outfile__abort(o);
	outfile__abort(NULL);
	assert_content(path, "old");
	assert_int_equal(folder__clear(f, true), 1);
	o = create(path);
	outfile__printf(o, "newer");
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_content(path, "newer");
}

static void large_outputs_are_whole(void **state)
{
	const struct folder *f = *state;
	const char *path = in(f, "large");
	struct outfile *o = create(path);
	char *chunk = malloc(700000), *data;
	size_t sizes[] = { 1, 255 << 10, 1, 700000, 3, 256 << 10, 0, 5 }, i, total = 0, len;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(chunk, 'a' + (int)i, sizes[i]);
		assert_int_equal(outfile__write(o, chunk, sizes[i]), 0);
		total += sizes[i];
	}
	memset(chunk, 'z', 5000);
	chunk[5000] = '\0';
	assert_int_equal(outfile__printf(o, "%s!", chunk), 0);
	total += 5001;
	assert_int_equal(outfile__bytes(o), total);
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_int_equal(file__read_all(AT_FDCWD, path, 1 << 24, &data, &len), 0);
	assert_int_equal(len, total);
	for (i = 0, len = 0; i < ARRAY_SIZE(sizes); len += sizes[i++])
		if (sizes[i])
			assert_true(data[len] == 'a' + (int)i &&
				    data[len + sizes[i] - 1] == data[len]);
	assert_int_equal(data[total - 1], '!');
	free(data);
	free(chunk);
}

static void a_name_that_ends_in_gz_is_compressed(void **state)
{
	const struct folder *f = *state;
	const char *path = in(f, "trace.json.gz");
	struct outfile *o = create(path);
	struct stat st;
	char back[32];
	gzFile z;
	unsigned i;

	for (i = 0; i < 200000; i++)
		assert_int_equal(outfile__printf(o, "line %06u\n", i), 0);
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size < 200000 * 12 / 4);
	z = gzopen(path, "rb");
	assert_non_null(z);
	for (i = 0; i < 200000; i++) {
		char want[32];

		snprintf(want, sizeof(want), "line %06u\n", i);
		assert_non_null(gzgets(z, back, sizeof(back)));
		assert_string_equal(back, want);
	}
	assert_null(gzgets(z, back, sizeof(back)));
	gzclose(z);
	/* nothing written is still a gzip file */
	o = create(in(f, "empty.gz"));
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_int_equal(stat(in(f, "empty.gz"), &st), 0);
	assert_true(st.st_size > 10);
}

static void links_devices_and_folders_are_not_replaced(void **state)
{
	const struct folder *f = *state;
	struct clika_error err = { 0 };
	struct outfile *o = create(in(f, "victim"));

	outfile__printf(o, "mine");
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_int_equal(symlink("victim", in(f, "link")), 0);
	assert_int_equal(symlink("nowhere", in(f, "dangling")), 0);
	assert_int_equal(mkfifo(in(f, "fifo"), 0600), 0);
	assert_int_equal(outfile__create(in(f, "link"), (uid_t)-1, (gid_t)-1, &o, &err), -EEXIST);
	assert_null(o);
	assert_non_null(strstr(err.msg, "link"));
	assert_int_equal(outfile__create(in(f, "dangling"), (uid_t)-1, (gid_t)-1, &o, &err),
			 -EEXIST);
	assert_int_equal(outfile__create(in(f, "fifo"), (uid_t)-1, (gid_t)-1, &o, &err), -EEXIST);
	assert_int_equal(outfile__create("/dev/null", (uid_t)-1, (gid_t)-1, &o, &err), -EEXIST);
	assert_int_equal(outfile__create(f->path, (uid_t)-1, (gid_t)-1, &o, &err), -EISDIR);
	assert_int_equal(outfile__create(in(f, ""), (uid_t)-1, (gid_t)-1, &o, &err), -EINVAL);
	assert_int_equal(outfile__create(in(f, "a/b"), (uid_t)-1, (gid_t)-1, &o, &err), -ENOENT);
	assert_content(in(f, "victim"), "mine");
	assert_int_equal(folder__clear(f, true), 4);
}

/* In a child, because the limit of file size is of the process. */
static int commit_without_room(const char *path)
{
	struct rlimit small = { 300000, 300000 };
	struct clika_error err = { 0 };
	struct outfile *o;
	unsigned i;
	int rc = 0;

	if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &small) ||
	    outfile__create(path, (uid_t)-1, (gid_t)-1, &o, &err))
		return 1;
	for (i = 0; i < 100000; i++)
		rc = outfile__printf(o, "some text to write\n");
	if (rc != -EFBIG)
		return 2;
	if (outfile__commit(o, &err) != -EFBIG || err.code != -EFBIG || !strstr(err.msg, path))
		return 3;
	return 0;
}

static void a_failed_write_is_told_and_keeps_the_older_file(void **state)
{
	const struct folder *f = *state;
	const char *path = in(f, "out");
	struct outfile *o = create(path);
	int status;
	pid_t pid;

	outfile__printf(o, "old");
	assert_int_equal(outfile__commit(o, NULL), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(commit_without_room(path));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_content(path, "old");
	assert_int_equal(folder__clear(f, true), 1);
}

static void the_folder_is_held_while_writing(void **state)
{
	const struct folder *f = *state;
	char moved[80];
	struct outfile *o = create(in(f, "out"));

	snprintf(moved, sizeof(moved), "%s.moved", f->path);
	assert_int_equal(rename(f->path, moved), 0);
	assert_int_equal(mkdir(f->path, 0700), 0);
	outfile__printf(o, "x");
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_int_equal(folder__clear(f, true), 0); /* not into the one put in its place */
	assert_int_equal(rmdir(f->path), 0);
	assert_int_equal(rename(moved, f->path), 0);
	assert_content(in(f, "out"), "x");
}

static void very_long_names_work(void **state)
{
	const struct folder *f = *state;
	char name[256];
	struct outfile *o;

	memset(name, 'n', 255);
	name[255] = '\0';
	o = create(in(f, name));
	outfile__printf(o, "x");
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_content(in(f, name), "x");
}

static void the_owner_is_set_when_given(void **state)
{
	const struct folder *f = *state;
	struct clika_error err = { 0 };
	struct outfile *o;
	struct stat st;
	int rc = outfile__create(in(f, "owned"), 12345, 54321, &o, &err);

	if (geteuid()) {
		assert_int_equal(rc, -EPERM);
		assert_int_equal(folder__clear(f, true), 0);
		return;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_int_equal(stat(in(f, "owned"), &st), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_gid, 54321);
}

static void a_memory_sink_gives_its_bytes_on_commit(void **state)
{
	struct buf b = { 0 };
	struct outfile *o;

	(void)state;
	assert_int_equal(outfile__memory(&b, &o), 0);
	outfile__printf(o, "one");
	assert_int_equal(b.len, 0);
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_int_equal(outfile__memory(&b, &o), 0);
	outfile__printf(o, " two");
	assert_int_equal(outfile__commit(o, NULL), 0);
	assert_int_equal(outfile__memory(&b, &o), 0);
	outfile__printf(o, " three");
	outfile__abort(o);
	assert_int_equal(b.len, 7);
	assert_memory_equal(b.data, "one two", 7);
	buf__free(&b);
}

static void write_all_survives_a_full_pipe(void **state)
{
	enum { N = 1 << 20 };
	char *data = calloc(1, N), got[65536];
	size_t total = 0;
	int p[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(p, O_NONBLOCK), 0);
	pid = fork();
	if (!pid) {
		close(p[0]);
		_exit(fd__write_all(p[1], data, N) ? 1 : 0);
	}
	close(p[1]);
	assert_int_equal(fcntl(p[0], F_SETFL, 0), 0);
	for (;;) {
		ssize_t n = read(p[0], got, sizeof(got));

		assert_true(n >= 0);
		if (!n)
			break;
		total += (size_t)n;
	}
	assert_int_equal(total, N);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(p[0]);
	assert_int_equal(fd__write_all(-1, data, 1), -EBADF);
	assert_int_equal(fd__write_all(-1, data, 0), 0);
	free(data);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_small_file_is_read_whole_and_a_large_one_refused),
		T(a_fifo_in_the_place_of_a_file_does_not_hold_the_reader),
		T(the_final_name_appears_on_commit_only),
		T(abort_leaves_the_older_file_and_nothing_else),
		T(large_outputs_are_whole),
		T(a_name_that_ends_in_gz_is_compressed),
		T(links_devices_and_folders_are_not_replaced),
		T(a_failed_write_is_told_and_keeps_the_older_file),
		T(the_folder_is_held_while_writing),
		T(very_long_names_work),
		T(the_owner_is_set_when_given),
		T(a_memory_sink_gives_its_bytes_on_commit),
		T(write_all_survives_a_full_pipe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
