// SPDX-License-Identifier: Apache-2.0
/* The public face of recordings: views, formats, files that appear whole or not at all. */
#include "include/clika/prof.h"
#include "tests/common/export_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
	struct rec *b;
	struct clika_recording *r;
	char dir[64], path[128];
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	uint32_t p, t;

	w->b = rec__new();
	p = rec__process(w->b, 100, "server");
	t = rec__thread(w->b, p, 100, "main");
	rec__capture(w->b, 1000, 3000, "first");
	rec__capture(w->b, 3000, 9000, "second");
	rec__span(w->b, t, 1000, 500, "a");
	rec__span(w->b, t, 4000, 500, "b");
	rec__loss(w->b, LOSS_READ_FAULT, 2, 5);
	strcpy(w->dir, "/tmp/clika-test-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/recording.clika", w->dir);
	rec__write(w->b, w->path);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	char command[128];

	clika_recording__close(w->r);
	rec__free(w->b);
	snprintf(command, sizeof(command), "rm -rf %s", w->dir);
	assert_int_equal(system(command), 0);
	free(w);
	return 0;
}

static void open_it(struct world *w, const struct clika_view_opts *view)
{
	struct clika_prof_error err;

	if (clika_recording__open(w->path, view, &w->r, &err))
		fail_msg("%s", err.msg);
}

static size_t files_in(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	size_t n = 0;

	assert_non_null(d);
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	return n;
}

static void info_tells_what_is_in_the_file(void **state)
{
	struct clika_recording_info i = { .sz = sizeof(i) };
	struct world *w = *state;

	open_it(w, NULL);
	clika_recording__info(w->r, &i);
	assert_false(i.incomplete);
	assert_int_equal(i.events, 2);
	assert_int_equal(i.processes, 1);
	assert_int_equal(i.threads, 1);
	assert_int_equal(i.captures, 2);
	assert_int_equal(i.unknown_at_most, 5);
	assert_int_equal(i.duration_ns, 8000);
	assert_true(i.bytes > 0);
}

static void info_fills_no_more_than_the_caller_has(void **state)
{
	struct world *w = *state;
	union {
		struct clika_recording_info info;
		unsigned char bytes[sizeof(struct clika_recording_info)];
	} u;

	open_it(w, NULL);
	memset(&u, 0xaa, sizeof(u));
	u.info.sz = offsetof(struct clika_recording_info, events);
	clika_recording__info(w->r, &u.info);
	assert_int_equal(u.info.sz, offsetof(struct clika_recording_info, events));
	assert_int_equal(u.bytes[offsetof(struct clika_recording_info, events)], 0xaa);
}

static void view_chooses_a_capture(void **state)
{
	struct clika_view_opts view = { .sz = sizeof(view), .capture = "second" };
	struct world *w = *state;
	char *text;
	size_t n;

	open_it(w, &view);
	assert_int_equal(clika_recording__export_mem(w->r, "chrome", NULL, &text, &n, NULL), 0);
	assert_null(strstr(text, "\"name\":\"a\""));
	assert_non_null(strstr(text, "\"name\":\"b\""));
	free(text);
}

static void view_of_an_unknown_capture_fails_with_advice(void **state)
{
	struct clika_view_opts view = { .sz = sizeof(view), .capture = "third" };
	struct clika_prof_error err = { 0 };
	struct world *w = *state;

	assert_int_equal(clika_recording__open(w->path, &view, &w->r, &err), -ENOENT);
	assert_null(w->r);
	assert_int_equal(err.code, -ENOENT);
	assert_non_null(strstr(err.msg, "\"first\", \"second\""));
}

static void missing_file_is_an_error_that_names_it(void **state)
{
	struct clika_prof_error err = { 0 };
	struct world *w = *state;

	assert_int_equal(clika_recording__open("/nonexistent/x.clika", NULL, &w->r, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "/nonexistent/x.clika"));
}

static void standard_set_lands_in_the_folder_under_its_names(void **state)
{
	struct clika_prof_error err = { 0 };
	struct world *w = *state;
	char dir[128], path[256];
	struct stat st;
	size_t i;

	open_it(w, NULL);
	snprintf(dir, sizeof(dir), "%s/out", w->dir);
	if (clika_recording__export(w->r, "standard", dir, NULL, NULL, &err))
		fail_msg("%s", err.msg);
	for (i = 0; clika_format__name(i); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, clika_format__file(i));
		if (clika_format__is_standard(i)) {
			assert_int_equal(stat(path, &st), 0);
			assert_int_equal(st.st_mode & 0777, 0600);
			assert_true(st.st_size > 0);
		} else {
			assert_int_equal(stat(path, &st), -1);
		}
	}
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

static void one_format_goes_to_the_file_that_is_named(void **state)
{
	struct world *w = *state;
	char path[256];
	struct stat st;

	open_it(w, NULL);
	snprintf(path, sizeof(path), "%s/t.json", w->dir);
	assert_int_equal(clika_recording__export(w->r, "chrome", NULL, path, NULL, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(files_in(w->dir), 2);
}

static void bad_requests_leave_no_file(void **state)
{
	struct clika_prof_error err = { 0 };
	struct world *w = *state;
	char path[256];

	open_it(w, NULL);
	snprintf(path, sizeof(path), "%s/t.json", w->dir);
	assert_int_equal(clika_recording__export(w->r, "nonsense", w->dir, NULL, NULL, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "\"nonsense\""));
	assert_non_null(strstr(err.msg, "chrome"));
	assert_int_equal(clika_recording__export(w->r, "chrome,summary", NULL, path, NULL, &err),
			 -EINVAL);
	assert_int_equal(clika_recording__export(w->r, "", w->dir, NULL, NULL, &err), -EINVAL);
	assert_int_equal(clika_recording__export(w->r, "chrome", NULL, NULL, NULL, &err), -EINVAL);
	assert_int_equal(clika_recording__export(w->r, "chrome", w->dir, path, NULL, &err),
			 -EINVAL);
	assert_int_equal(files_in(w->dir), 1);
}

static void failing_output_keeps_the_old_file_and_the_other_formats(void **state)
{
	struct clika_prof_error err = { 0 };
	struct world *w = *state;
	char path[256], dir[128];

	open_it(w, NULL);
	snprintf(dir, sizeof(dir), "%s/out", w->dir);
	snprintf(path, sizeof(path), "%s/out/chrome_trace.json", w->dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(mkdir(path, 0700), 0); /* a folder where the file should go */
	assert_true(clika_recording__export(w->r, "chrome,summary", dir, NULL, NULL, &err) < 0);
	assert_non_null(strstr(err.msg, "chrome_trace.json"));
	assert_int_equal(files_in(dir), 1);
}

static void exporting_twice_gives_the_same_bytes(void **state)
{
	struct world *w = *state;
	char *a, *b;
	size_t n, m, i;

	open_it(w, NULL);
	for (i = 0; clika_format__name(i); i++) {
		const char *f = clika_format__name(i);

		assert_int_equal(clika_recording__export_mem(w->r, f, NULL, &a, &n, NULL), 0);
		assert_int_equal(clika_recording__export_mem(w->r, f, NULL, &b, &m, NULL), 0);
		assert_int_equal(n, m);
		assert_memory_equal(a, b, n);
		free(a);
		free(b);
	}
	assert_true(i >= 2);
}

static void incomplete_file_is_read_and_said(void **state)
{
	struct clika_recording_info i = { .sz = sizeof(i) };
	struct world *w = *state;

	rec__finish_file(w->b, false);
	assert_int_equal(unlink(w->path), 0);
	rec__write(w->b, w->path);
	open_it(w, NULL);
	clika_recording__info(w->r, &i);
	assert_true(i.incomplete);
	assert_int_equal(i.events, 2);
}

static void version_is_the_header_s(void **state)
{
	(void)state;
	assert_string_equal(clika_prof_version(), CLIKA_PROF_VERSION);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(info_tells_what_is_in_the_file),
		TEST(info_fills_no_more_than_the_caller_has),
		TEST(view_chooses_a_capture),
		TEST(view_of_an_unknown_capture_fails_with_advice),
		TEST(missing_file_is_an_error_that_names_it),
		TEST(standard_set_lands_in_the_folder_under_its_names),
		TEST(one_format_goes_to_the_file_that_is_named),
		TEST(bad_requests_leave_no_file),
		TEST(failing_output_keeps_the_old_file_and_the_other_formats),
		TEST(exporting_twice_gives_the_same_bytes),
		TEST(incomplete_file_is_read_and_said),
		cmocka_unit_test(version_is_the_header_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
