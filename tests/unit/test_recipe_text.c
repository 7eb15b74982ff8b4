// SPDX-License-Identifier: Apache-2.0
/* Names that are cut to a text that the library holds. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/scratch.h"
#include "user/probe/recipe.h"

static struct elf_file *open_path(const char *path)
{
	struct clika_error err = { 0 };
	struct elf_file *f;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	if (elf_file__open(fd, path, &f, &err))
		fail_msg("%s", err.msg);
	close(fd);
	return f;
}

static struct recipe_texts *read_texts(const char *source, const char *begin)
{
	struct clika_error err = { 0 };
	struct recipe_texts *t;
	struct elf_file *f = open_path(scratch__build("texts.so", source, "-shared -fPIC"));

	if (recipe_texts__read(f, begin, &t, &err))
		fail_msg("%s", err.msg);
	elf_file__close(f);
	return t;
}

static void check(const struct recipe_texts *t, const char *name, const char *want, bool known)
{
	char copy[128];

	snprintf(copy, sizeof(copy), "%s", name);
	assert_int_equal(recipe_texts__cut(t, copy, '_'), known);
	assert_string_equal(copy, want);
}

static void cuts_to_the_longest_text(void **state)
{
	struct recipe_texts *t =
		read_texts("const char *const names[] = { \"ns::add\", \"ns::add_\", "
			   "\"ns::_soft_max\", \"xns::odd\", \"ns::\", \"ns\" };\n"
			   "char changes[] = \"ns::written\";\n",
			   "ns::");

	(void)state;
	check(t, "add", "add", true);
	check(t, "add_Tensor", "add", true);
	check(t, "add_Tensor_out", "add", true);
	check(t, "add__Tensor", "add_", true);
	check(t, "add_", "add_", true);
	check(t, "_soft_max", "_soft_max", true);
	check(t, "_soft_max_backward", "_soft_max", true);
	check(t, "odd_one", "odd", true); /* linkers join texts with equal ends */
	check(t, "addition", "addition", false);
	check(t, "_soft", "_soft", false);
	check(t, "written", "written", false);
	check(t, "", "", false);
	assert_int_equal(recipe_texts__count(t), 4);
	recipe_texts__free(t);
}

/* Texts of a file that is longer than what is read at once, some of them across the borders. */
static void finds_texts_across_reads(void **state)
{
	struct buf source = { 0 };
	struct recipe_texts *t;
	unsigned i;

	(void)state;
	buf__printf(&source, "const char big[] =\n");
	for (i = 0; i < 40000; i++)
		buf__printf(&source,
			    "\"nsp::n%u\\0filler filler filler filler filler filler %u\\0\"\n", i,
			    i);
	buf__printf(&source, ";\n");
	buf__u8(&source, 0);
	assert_int_equal(buf__error(&source), 0);
	t = read_texts((const char *)source.data, "nsp::");
	assert_int_equal(recipe_texts__count(t), 40000);
	for (i = 0; i < 40000; i++) {
		char name[32], want[32];

		snprintf(name, sizeof(name), "n%u_x", i);
		snprintf(want, sizeof(want), "n%u", i);
		check(t, name, want, true);
	}
	recipe_texts__free(t);
	buf__free(&source);
}

static void a_file_without_such_texts_gives_an_empty_set(void **state)
{
	struct recipe_texts *t = read_texts("int x;\n", "ns::");

	(void)state;
	assert_int_equal(recipe_texts__count(t), 0);
	check(t, "add_Tensor", "add_Tensor", false);
	recipe_texts__free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_to_the_longest_text),
		cmocka_unit_test(finds_texts_across_reads),
		cmocka_unit_test(a_file_without_such_texts_gives_an_empty_set),
	};

	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
