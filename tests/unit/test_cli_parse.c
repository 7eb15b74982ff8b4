// SPDX-License-Identifier: Apache-2.0
/* What the command line tool makes of its arguments, and what it shows of foreign text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/cli/cli.h"

#define SEC 1000000000ull

static uint64_t duration(const char *s)
{
	uint64_t ns = 0;

	assert_int_equal(parse__duration(s, &ns), 0);
	return ns;
}

static uint64_t size(const char *s)
{
	uint64_t bytes = 0;

	assert_int_equal(parse__size(s, &bytes), 0);
	return bytes;
}

static void reads_durations_with_and_without_unit(void **state)
{
	(void)state;
	assert_int_equal(duration("10"), 10 * SEC);
	assert_int_equal(duration("10s"), 10 * SEC);
	assert_int_equal(duration("500ms"), SEC / 2);
	assert_int_equal(duration("20us"), 20000);
	assert_int_equal(duration("7ns"), 7);
	assert_int_equal(duration("2m"), 120 * SEC);
	assert_int_equal(duration("1h"), 3600 * SEC);
	assert_int_equal(duration("0"), 0);
}

static void reads_fractions_of_durations_exactly(void **state)
{
	(void)state;
	assert_int_equal(duration("0.1"), 100000000);
	assert_int_equal(duration("1.5m"), 90 * SEC);
	assert_int_equal(duration("0.000000001s"), 1);
	assert_int_equal(duration("0.0000000001s"), 0);
	assert_int_equal(duration("0.123456789"), 123456789);
}

static void rejects_what_is_no_duration(void **state)
{
	static const char *const bad[] = { "",    " 1", "1 s", "-1",  "+1",  "s",     "1.",
					   ".5s", "1x", "1e3", "0x1", "1s ", "1.5.5", "nan" };
	uint64_t ns = 42;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(parse__duration(bad[i], &ns), -EINVAL);
	assert_int_equal(ns, 42);
}

static void rejects_durations_and_sizes_that_overflow(void **state)
{
	uint64_t v;

	(void)state;
	assert_int_equal(duration("18446744073"), 18446744073 * SEC);
	assert_int_equal(parse__duration("18446744074", &v), -ERANGE);
	assert_int_equal(parse__duration("99999999999999999999ns", &v), -ERANGE);
	assert_int_equal(parse__duration("18446744073.8", &v), -ERANGE);
	assert_int_equal(size("16777215T"), 16777215ull << 40);
	assert_int_equal(parse__size("16777216T", &v), -ERANGE);
}

static void reads_sizes_with_binary_units(void **state)
{
	(void)state;
	assert_int_equal(size("65536"), 65536);
	assert_int_equal(size("64K"), 65536);
	assert_int_equal(size("64k"), 65536);
	assert_int_equal(size("64KiB"), 65536);
	assert_int_equal(size("16M"), 16u << 20);
	assert_int_equal(size("1.5G"), 3ull << 29);
	assert_int_equal(size("0.5K"), 512);
}

static void reads_lists_of_pids_each_once(void **state)
{
	struct pid_list l = { 0 };

	(void)state;
	assert_int_equal(parse__pids("12,7", &l), 0);
	assert_int_equal(parse__pids("7", &l), 0);
	assert_int_equal(parse__pids("2147483647", &l), 0);
	assert_int_equal(l.n, 3);
	assert_int_equal(l.pids[0], 12);
	assert_int_equal(l.pids[1], 7);
	assert_int_equal(l.pids[2], 2147483647);
	free(l.pids);
}

static void rejects_what_is_no_list_of_pids(void **state)
{
	static const char *const bad[] = { "",   "0",    "-1",         "1,",
					   ",1", "1,,2", "a",          "1a",
					   "1 ", " 1",   "2147483648", "99999999999999999999" };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct pid_list l = { 0 };

		assert_int_not_equal(parse__pids(bad[i], &l), 0);
		free(l.pids);
	}
}

static void knows_users_by_number_and_by_name(void **state)
{
	uid_t uid = 42;

	(void)state;
	assert_int_equal(parse__uid("1000", &uid), 0);
	assert_int_equal(uid, 1000);
	assert_int_equal(parse__uid("root", &uid), 0);
	assert_int_equal(uid, 0);
	assert_int_not_equal(parse__uid("no such user", &uid), 0);
	/* (uid_t)-1 means "any" in the options of the library. */
	assert_int_equal(parse__uid("4294967295", &uid), -ERANGE);
}

static void shows_control_and_invalid_bytes_escaped(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain", "plain" },
		{ "\033[31mred\a", "\\x1b[31mred\\x07" },
		{ "two\nlines\t", "two\\x0alines\\x09" },
		{ "\x7f", "\\x7f" },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
		{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
		{ "\xff\xfe", "\\xff\\xfe" },
		{ "\xc0\xaf", "\\xc0\\xaf" },          /* overlong */
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" }, /* surrogate */
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },
		{ "\xe2\x82", "\\xe2\\x82" }, /* cut off */
		{ "\xc2\x9b"
		  "2J",
		  "\\xc2\\x9b2J" }, /* CSI as one C1 character */
		{ "\xe2\x80\xae"
		  "evil",
		  "\\xe2\\x80\\xaeevil" }, /* right-to-left override */
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		char *shown = text__printable(cases[i].in);

		assert_string_equal(shown, cases[i].out);
		free(shown);
	}
}

static void replaces_invalid_bytes_for_json(void **state)
{
	char *s = text__utf8("a\xff"
			     "b\xc3\xbc\xe2");

	(void)state;
	assert_string_equal(s, "a\xef\xbf\xbd"
			       "b\xc3\xbc\xef\xbf\xbd");
	free(s);
}

static void counts_columns_by_code_points(void **state)
{
	(void)state;
	assert_int_equal(text__width("abc"), 3);
	assert_int_equal(text__width("\xc3\xbc\xf0\x9f\x98\x80"), 2);
}

static void aligns_columns_of_a_table(void **state)
{
	struct table *t = table__new(3);
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	static const char *const cells[] = { "A", "LONG", "C", "\xc3\xbc\xc3\xbc", NULL, "\n" };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(cells); i++)
		table__cell(t, cells[i]);
	assert_int_equal(table__print(t, out), 0);
	fclose(out);
	assert_string_equal(text, "A   LONG  C\n\xc3\xbc\xc3\xbc  -     \\x0a\n");
	free(text);
	table__free(t);
}

static void writes_amounts_for_people(void **state)
{
	char s[32];

	(void)state;
	format__bytes(s, sizeof(s), 999);
	assert_string_equal(s, "999 B");
	format__bytes(s, sizeof(s), 1234567);
	assert_string_equal(s, "1.2 MB");
	format__bytes(s, sizeof(s), 999999);
	assert_string_equal(s, "1.0 MB");
	format__bytes(s, sizeof(s), UINT64_MAX);
	assert_string_equal(s, "18446744 TB");
	format__count(s, sizeof(s), 2000000);
	assert_string_equal(s, "2 M");
	format__duration(s, sizeof(s), 1500);
	assert_string_equal(s, "1.5 us");
	format__duration(s, sizeof(s), 59 * SEC);
	assert_string_equal(s, "59 s");
	format__duration(s, sizeof(s), 61 * SEC);
	assert_string_equal(s, "1:01 min");
}

static void gives_files_to_the_user_behind_sudo(void **state)
{
	struct owner o = owner__from(0, "1000", "1001", NULL);

	(void)state;
	assert_int_equal(o.uid, 1000);
	assert_int_equal(o.gid, 1001);
}

static void ignores_junk_about_the_invoking_user(void **state)
{
	static const struct {
		uid_t euid;
		const char *uid, *gid, *pkexec;
	} junk[] = {
		{ 0, NULL, NULL, NULL },         { 0, "1000", NULL, NULL },
		{ 0, "0", "0", NULL },           { 0, "-1", "1000", NULL },
		{ 0, "1000x", "1000", NULL },    { 0, "", "", NULL },
		{ 0, "4294967295", "1", NULL },  { 0, "1", "4294967295", NULL },
		{ 0, "4294967296", "1", NULL },  { 0, "root", "root", NULL },
		{ 0, NULL, NULL, "4000000000" }, { 0, NULL, NULL, "x" },
		{ 1000, "1001", "1001", NULL },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(junk); i++) {
		struct owner o =
			owner__from(junk[i].euid, junk[i].uid, junk[i].gid, junk[i].pkexec);

		assert_int_equal(o.uid, (uid_t)-1);
		assert_int_equal(o.gid, (gid_t)-1);
	}
}

/* A scratch folder for the tests below. */
static int enter_scratch(void **state)
{
	char path[] = "/tmp/clika-test-XXXXXX";

	if (!mkdtemp(path) || chdir(path))
		return -1;
	*state = strdup(path);
	return *state ? 0 : -1;
}

static int leave_scratch(void **state)
{
	static const char *const dirs[] = { "new", "target" };
	static const char *const files[] = { "link", "file", "target/summary.txt" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++)
		unlink(files[i]);
	for (i = 0; i < ARRAY_LEN(dirs); i++)
		rmdir(dirs[i]);
	if (chdir("/") || rmdir(*state))
		return -1;
	free(*state);
	return 0;
}

static const struct owner nobody = { (uid_t)-1, (gid_t)-1 };

static void makes_output_folders_for_their_owner_alone(void **state)
{
	struct stat st;
	bool created;
	char why[256];

	(void)state;
	assert_int_equal(outdir__open("new", &nobody, &created, why, sizeof(why)), 0);
	assert_true(created);
	assert_int_equal(lstat("new", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(outdir__open("new", &nobody, &created, why, sizeof(why)), 0);
	assert_false(created);
}

static void refuses_a_link_as_output_folder(void **state)
{
	bool created;
	char why[256];

	(void)state;
	assert_int_equal(mkdir("target", 0700), 0);
	assert_int_equal(symlink("target", "link"), 0);
	assert_int_equal(outdir__open("link", &nobody, &created, why, sizeof(why)), -ELOOP);
	assert_non_null(strstr(why, "symbolic link"));
}

static void refuses_a_file_as_output_folder(void **state)
{
	bool created;
	char why[256];
	FILE *f = fopen("file", "w");

	(void)state;
	assert_non_null(f);
	fclose(f);
	assert_int_equal(outdir__open("file", &nobody, &created, why, sizeof(why)), -ENOTDIR);
}

static void finds_files_of_an_earlier_recording(void **state)
{
	static const char *const names[] = { "recording.clika", "summary.txt", NULL };

	(void)state;
	assert_null(outdir__holds("target", names)); /* no such folder */
	assert_int_equal(mkdir("target", 0700), 0);
	assert_null(outdir__holds("target", names));
	/* A dangling link is there, too: writing over it would go elsewhere. */
	assert_int_equal(symlink("/nowhere", "target/summary.txt"), 0);
	assert_string_equal(outdir__holds("target", names), "summary.txt");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_durations_with_and_without_unit),
		cmocka_unit_test(reads_fractions_of_durations_exactly),
		cmocka_unit_test(rejects_what_is_no_duration),
		cmocka_unit_test(rejects_durations_and_sizes_that_overflow),
		cmocka_unit_test(reads_sizes_with_binary_units),
		cmocka_unit_test(reads_lists_of_pids_each_once),
		cmocka_unit_test(rejects_what_is_no_list_of_pids),
		cmocka_unit_test(knows_users_by_number_and_by_name),
		cmocka_unit_test(shows_control_and_invalid_bytes_escaped),
		cmocka_unit_test(replaces_invalid_bytes_for_json),
		cmocka_unit_test(counts_columns_by_code_points),
		cmocka_unit_test(aligns_columns_of_a_table),
		cmocka_unit_test(writes_amounts_for_people),
		cmocka_unit_test(gives_files_to_the_user_behind_sudo),
		cmocka_unit_test(ignores_junk_about_the_invoking_user),
		cmocka_unit_test_setup_teardown(makes_output_folders_for_their_owner_alone,
						enter_scratch, leave_scratch),
		cmocka_unit_test_setup_teardown(refuses_a_link_as_output_folder, enter_scratch,
						leave_scratch),
		cmocka_unit_test_setup_teardown(refuses_a_file_as_output_folder, enter_scratch,
						leave_scratch),
		cmocka_unit_test_setup_teardown(finds_files_of_an_earlier_recording, enter_scratch,
						leave_scratch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
