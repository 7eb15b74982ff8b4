// SPDX-License-Identifier: Apache-2.0
/* Which recipes are in force: built in, of folders, named. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/scratch.h"
#include "user/base/embed.h"
#include "user/probe/recipe.h"

extern const struct embed_entry embed_recipes[];

struct lines {
	char text[4096];
	unsigned n;
};

static void on_line(void *ctx, enum log_level level, const char *area, const char *line)
{
	struct lines *l = ctx;

	(void)level;
	(void)area;
	l->n++;
	snprintf(l->text + strlen(l->text), sizeof(l->text) - strlen(l->text), "%s\n", line);
}

static struct recipes *open_with(const struct recipes_opts *o, struct lines *l)
{
	struct logger log = { on_line, l, LOG_DEBUG };
	struct clika_error err = { 0 };
	struct recipes *rs;

	memset(l, 0, sizeof(*l));
	if (recipes__open(o, &log, &rs, &err))
		fail_msg("%s", err.msg);
	return rs;
}

static int open_fails(const char *wanted, struct clika_error *err)
{
	struct recipes_opts o = { .wanted = &wanted, .n_wanted = 1 };
	struct logger none = { 0 };
	struct recipes *rs;
	int rc = recipes__open(&o, &none, &rs, err);

	assert_null(rs);
	return rc;
}

static size_t index_of(const struct recipes *rs, const char *name)
{
	size_t i;

	for (i = 0; i < recipes__count(rs); i++)
		if (strcmp(recipes__get(rs, i)->name, name) == 0)
			return i;
	fail_msg("there is no recipe %s", name);
	return 0;
}

static const char *write_recipe(const char *file, const char *name, const char *title,
				bool automatic)
{
	char text[1024];
	int n = snprintf(
		text, sizeof(text),
		"{ \"recipe\": 1, \"name\": \"%s\", \"title\": \"%s\", \"automatic\": %s,\n"
		"  \"libraries\": [ { \"id\": \"l\", \"file\": \"lib%s.so\" } ],\n"
		"  \"functions\": [ { \"match\": \"f\" },\n"
		"    { \"match\": \"g\", \"off\": \"hot\", \"group\": \"inner\" },\n"
		"    { \"match\": \"h\", \"off\": \"hot\" } ] }\n",
		name, title, automatic ? "true" : "false", name);
	const char *path = scratch__write(file, text, (size_t)n);

	assert_int_equal(chmod(path, 0644), 0);
	return path;
}

static const char *folder(const char *name)
{
	const char *path = scratch__path(name);

	assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
	assert_int_equal(chmod(path, 0755), 0);
	return path;
}

static void every_built_in_recipe_is_right(void **state)
{
	struct recipes_opts o = { .automatic = true };
	const struct embed_entry *e;
	struct lines l;
	struct recipes *rs = open_with(&o, &l);
	char path[256];
	size_t i, len;

	(void)state;
	if (l.n)
		fail_msg("%s", l.text);
	for (e = embed_recipes, i = 0; e->file; e++, i++) {
		/* The file is named after the recipe, and people are told what it is about. */
		snprintf(path, sizeof(path), "recipes/%s.json", recipes__get(rs, i)->name);
		assert_string_equal(e->path, path);
		assert_string_equal(recipes__get(rs, i)->path, "built in");
		assert_non_null(recipes__get(rs, i)->records);
		assert_non_null(recipes__get(rs, i)->versions);
		assert_string_equal(recipes__text(rs, i, &len), e->file->data);
		assert_int_equal(len, e->file->len);
		assert_int_equal(recipes__applies(rs, i), recipes__get(rs, i)->automatic);
	}
	assert_true(i > 0);
	assert_true(recipes__count(rs) >= i); /* the machine may have more */
	recipes__free(rs);
}

static void a_folder_adds_and_replaces(void **state)
{
	struct recipes_opts o = { .automatic = true, .user_dir = folder("mine") };
	struct lines l;
	struct recipes *rs;
	char name[128], built_in[64];
	const char *dot = strrchr(embed_recipes[0].path, '.'),
		   *slash = strrchr(embed_recipes[0].path, '/');
	size_t i;

	(void)state;
	snprintf(built_in, sizeof(built_in), "%.*s", (int)(dot - slash - 1), slash + 1);
	write_recipe("mine/a-first.json", "first", "mine", true);
	write_recipe("mine/b-second.json", "second", "mine", false);
	write_recipe("mine/c.json", built_in, "replaced", true);
	write_recipe("mine/.hidden.json", "hidden", "mine", true);
	scratch__write("mine/notes.txt", "no recipe", 9);
	rs = open_with(&o, &l);
	assert_string_equal(l.text, "");
	i = index_of(rs, built_in);
	assert_int_equal(i, 0); /* where it stood */
	assert_string_equal(recipes__get(rs, i)->title, "replaced");
	snprintf(name, sizeof(name), "%s/c.json", o.user_dir);
	assert_string_equal(recipes__get(rs, i)->path, name);
	assert_true(recipes__applies(rs, index_of(rs, "first")));
	assert_false(recipes__applies(rs, index_of(rs, "second")));
	for (i = 0; i < recipes__count(rs); i++)
		assert_string_not_equal(recipes__get(rs, i)->name, "hidden");
	recipes__free(rs);
}

static void what_others_may_write_is_passed_over(void **state)
{
	struct recipes_opts o = { .user_dir = folder("open") };
	struct lines l;
	struct recipes *rs;
	size_t before;

	(void)state;
	rs = open_with(&(struct recipes_opts){ 0 }, &l);
	before = recipes__count(rs);
	recipes__free(rs);

	assert_int_equal(chmod(write_recipe("open/one.json", "one", "x", true), 0666), 0);
	write_recipe("open/two.json", "two", "x", true);
	rs = open_with(&o, &l);
	assert_int_equal(recipes__count(rs), before + 1);
	index_of(rs, "two");
	assert_int_equal(l.n, 1);
	assert_non_null(strstr(l.text, "/open/one.json: others may write it"));
	assert_non_null(strstr(l.text, "chmod go-w"));
	recipes__free(rs);

	assert_int_equal(chmod(o.user_dir, 0777), 0);
	rs = open_with(&o, &l);
	assert_int_equal(recipes__count(rs), before);
	assert_int_equal(l.n, 1);
	recipes__free(rs);
	assert_int_equal(chmod(o.user_dir, 0755), 0);

	if (geteuid() == 0) {
		assert_int_equal(chown(scratch__path("open/two.json"), 65534, 65534), 0);
		rs = open_with(&o, &l);
		assert_int_equal(recipes__count(rs), before);
		assert_non_null(strstr(l.text, "two.json: belongs to another user"));
		recipes__free(rs);
		/* Under sudo, files of the user behind it count. */
		setenv("SUDO_UID", "65534", 1);
		rs = open_with(&o, &l);
		assert_int_equal(recipes__count(rs), before + 1);
		recipes__free(rs);
		unsetenv("SUDO_UID");
	}
}

static void where_only_names_count_no_path_is_opened(void **state)
{
	const char *path = write_recipe("named-only.json", "named-only", "x", true);
	const char *wanted[] = { "pytorch", path };
	struct recipes_opts o = { .wanted = wanted, .n_wanted = 2 };
	struct clika_error err = { 0 };
	struct logger none = { 0 };
	struct recipes *rs;

	(void)state;
	assert_int_equal(recipes__open(&o, &none, &rs, &err), 0);
	index_of(rs, "named-only");
	recipes__free(rs);
	o.names_only = true;
	assert_int_equal(recipes__open(&o, &none, &rs, &err), -EPERM);
	assert_null(rs);
	assert_non_null(strstr(err.msg, "named-only.json"));
	/* Nor looked for: the answer is the same when it is not there. */
	wanted[1] = "/nonexistent/x.json:all";
	assert_int_equal(recipes__open(&o, &none, &rs, &err), -EPERM);
	o.n_wanted = 1;
	assert_int_equal(recipes__open(&o, &none, &rs, &err), 0);
	assert_true(recipes__applies(rs, index_of(rs, "pytorch")));
	recipes__free(rs);
}

static void a_broken_file_is_a_line_in_a_folder_and_an_error_when_named(void **state)
{
	struct recipes_opts o = { .user_dir = folder("broken") };
	const char *path = scratch__write("broken/bad.json", "{\n\"recipe\": 1,\n\"nam\": 1 }", 25);
	struct clika_error err = { 0 };
	struct lines l;
	struct recipes *rs;

	(void)state;
	assert_int_equal(chmod(path, 0644), 0);
	rs = open_with(&o, &l);
	assert_int_equal(l.n, 1);
	assert_non_null(strstr(l.text, "broken/bad.json:3: a recipe has no 'nam' (did you mean"));
	recipes__free(rs);
	assert_int_equal(open_fails(path, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "broken/bad.json:3: "));
	assert_int_equal(open_fails("./no/such.json", &err), -ENOENT);
	assert_non_null(strstr(err.msg, "./no/such.json"));
	assert_int_equal(open_fails(o.user_dir, &err), -EINVAL);
}

static void names_turn_on_recipes_and_their_groups(void **state)
{
	const char *path = write_recipe("named.json", "named", "x", false);
	struct recipes_opts o = { .n_wanted = 1 };
	const struct recipe_function *fn;
	struct clika_error err = { 0 };
	char with[512];
	const char *wanted[2] = { path, with };
	struct lines l;
	struct recipes *rs;
	size_t i;

	(void)state;
	o.wanted = wanted;
	rs = open_with(&o, &l);
	i = index_of(rs, "named");
	fn = recipes__get(rs, i)->functions;
	assert_true(recipes__applies(rs, i));
	assert_false(i && recipes__applies(rs, 0)); /* not automatic, not named */
	assert_true(recipes__function_on(rs, i, &fn[0]));
	assert_false(recipes__function_on(rs, i, &fn[1]));
	assert_false(recipes__function_on(rs, i, &fn[2]));
	recipes__free(rs);

	snprintf(with, sizeof(with), "named:inner"); /* the file is there, whatever the order */
	wanted[0] = with;
	wanted[1] = path;
	o.n_wanted = 2;
	rs = open_with(&o, &l);
	i = index_of(rs, "named");
	fn = recipes__get(rs, i)->functions;
	assert_true(recipes__function_on(rs, i, &fn[1]));
	assert_false(recipes__function_on(rs, i, &fn[2]));
	recipes__free(rs);

	snprintf(with, sizeof(with), "%s:all", path);
	o.n_wanted = 1;
	rs = open_with(&o, &l);
	i = index_of(rs, "named");
	fn = recipes__get(rs, i)->functions;
	assert_true(recipes__function_on(rs, i, &fn[1]));
	assert_true(recipes__function_on(rs, i, &fn[2]));
	recipes__free(rs);

	snprintf(with, sizeof(with), "%s:iner", path);
	assert_int_equal(open_fails(with, &err), -ENOENT);
	assert_non_null(
		strstr(err.msg, "recipe 'named' has no group 'iner' (did you mean 'inner'?)"));
	assert_int_equal(open_fails("nosuchrecipe", &err), -ENOENT);
	assert_non_null(strstr(err.msg, "there is no recipe 'nosuchrecipe'"));
	assert_int_equal(open_fails("named:", &err), -EINVAL);
	assert_int_equal(open_fails("", &err), -EINVAL);
}

static void the_users_folder_is_that_of_the_user_behind_sudo(void **state)
{
	char *dir;

	(void)state;
	setenv("XDG_CONFIG_HOME", "/x/config", 1);
	dir = recipes__user_dir();
	assert_string_equal(dir, "/x/config/clika-bpf-prof/recipes");
	free(dir);
	setenv("XDG_CONFIG_HOME", "relative", 1);
	setenv("HOME", "/x/home", 1);
	dir = recipes__user_dir();
	assert_string_equal(dir, "/x/home/.config/clika-bpf-prof/recipes");
	free(dir);
	unsetenv("XDG_CONFIG_HOME");
	if (geteuid() == 0) {
		setenv("SUDO_UID", "2", 1); /* bin, whose home is not /x/home */
		dir = recipes__user_dir();
		assert_string_equal(dir, "/bin/.config/clika-bpf-prof/recipes");
		free(dir);
		unsetenv("SUDO_UID");
	}
}

static void root_does_not_quote_what_the_user_cannot_read(void **state)
{
	struct clika_error err = { 0 };
	const char *path = scratch__write("secret.json", "secret words", 12);

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(path, 0600), 0);
	setenv("SUDO_UID", "65534", 1);
	assert_int_equal(open_fails(path, &err), -EACCES);
	assert_null(strstr(err.msg, "secret words"));
	unsetenv("SUDO_UID");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_built_in_recipe_is_right),
		cmocka_unit_test(a_folder_adds_and_replaces),
		cmocka_unit_test(what_others_may_write_is_passed_over),
		cmocka_unit_test(where_only_names_count_no_path_is_opened),
		cmocka_unit_test(a_broken_file_is_a_line_in_a_folder_and_an_error_when_named),
		cmocka_unit_test(names_turn_on_recipes_and_their_groups),
		cmocka_unit_test(the_users_folder_is_that_of_the_user_behind_sudo),
		cmocka_unit_test(root_does_not_quote_what_the_user_cannot_read),
	};

	unsetenv("SUDO_UID");
	unsetenv("PKEXEC_UID");
	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
