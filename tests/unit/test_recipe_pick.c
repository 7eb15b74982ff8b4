// SPDX-License-Identifier: Apache-2.0
/* Recipes against files: libraries, rules, names. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/scratch.h"
#include "user/probe/glob_set.h"
#include "user/probe/recipe.h"

static struct elf_file *open_path(const char *path)
{
	struct clika_error err = { 0 };
	struct elf_file *f;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || elf_file__open(fd, path, &f, &err))
		fail_msg("%s: %s", path, err.msg);
	close(fd);
	return f;
}

static struct recipe *parse(const char *libraries, const char *functions)
{
	struct clika_error err = { 0 };
	struct recipe *r;
	struct buf b = { 0 };

	buf__printf(
		&b,
		"{ \"recipe\": 1, \"name\": \"t\", \"libraries\": [ %s ], \"functions\": [ %s ] }",
		libraries, functions);
	if (recipe__parse((const char *)b.data, b.len, "t", &r, &err))
		fail_msg("%s", err.msg);
	buf__free(&b);
	return r;
}

static const char any[] = "{ \"id\": \"any\", \"file\": \"*\" }";

static const char cxx[] =
	"namespace at {\n"
	"struct Tensor { long n; };\n"
	"namespace _ops {\n"
	"#define OP(name) struct name { static long call(const Tensor &, long); }; \\\n"
	"	__attribute__((noinline)) long name::call(const Tensor &t, long b) { return t.n * "
	"b; }\n"
	"OP(add_Tensor) OP(mul_Tensor) OP(size_int)\n"
	"}\n"
	"template <typename T> __attribute__((noinline)) T twice(T v) { return v + v; }\n"
	"template long twice<long>(long);\n"
	"}\n"
	"const char *names[] = { \"demo::add\", \"demo::size_int\" };\n"
	"extern \"C\" {\n"
	"long demo_run(long x) { return x + 1; }\n"
	"long demo_run_alias(long x) __attribute__((alias(\"demo_run\")));\n"
	"long demo_stop(long x) { return x + 2; }\n"
	"long other(long x) { return x + 3; }\n"
	"}\n";

static const char *cxx_library(void)
{
	static const char *path;

	if (!path)
		path = scratch__build("libcxx-demo.so", cxx,
				      "c++ -O1 -fPIC -shared -std=c++17 -Wl,-soname,libdemo.so.3");
	return path;
}

/* "rule:name" of every function, sorted by text, with blanks between. */
struct got {
	const struct recipe *r;
	char *lines[512];
	size_t n;
	char text[8192];
};

static int note(void *ctx, const struct recipe_pick *p)
{
	struct got *g = ctx;

	assert_true(g->n < ARRAY_SIZE(g->lines));
	assert_true(asprintf(&g->lines[g->n++], "%d:%s", (int)(p->rule - g->r->functions),
			     p->names[0]) > 0);
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *pick_in(struct got *g, const char *path, const char *functions,
			   bool (*on)(void *ctx, const struct recipe_function *fn),
			   struct recipe_found *found)
{
	struct recipe *r = parse(any, functions);
	struct elf_file *f = open_path(path);
	struct clika_error err = { 0 };
	size_t i;

	memset(g, 0, sizeof(*g));
	g->r = r;
	if (recipe__pick(r, 1, f, on, note, g, found, NULL, &err))
		fail_msg("%s", err.msg);
	qsort(g->lines, g->n, sizeof(*g->lines), by_text);
	for (i = 0; i < g->n; i++) {
		snprintf(g->text + strlen(g->text), sizeof(g->text) - strlen(g->text), "%s%s",
			 i ? " " : "", g->lines[i]);
		free(g->lines[i]);
	}
	elf_file__close(f);
	recipe__free(r);
	return g->text;
}

static const char *pick(struct got *g, const char *functions)
{
	return pick_in(g, cxx_library(), functions, NULL, NULL);
}

static void a_name_is_made_of_what_the_stars_stand_for(void **state)
{
	struct got g;

	(void)state;
	assert_string_equal(pick(&g,
				 "{ \"match\": \"at::_ops::*::call\", \"name\": \"aten::$1\" }"),
			    "0:aten::add_Tensor 0:aten::mul_Tensor 0:aten::size_int");
	assert_string_equal(
		pick(&g, "{ \"match\": \"at::*::*_Tensor::*\", \"name\": \"$2 of $1: $3\" }"),
		"0:add of _ops: call 0:mul of _ops: call");
	/* the symbol itself comes before its demangled forms */
	assert_string_equal(pick(&g, "{ \"match\": \"_ZN2at4_ops8size*\", \"name\": \"$1 $0\" }"),
			    "0:_int4callERKNS_6TensorEl at::_ops::size_int::call");
	/* parameters only when the pattern has them */
	assert_string_equal(pick(&g, "{ \"match\": \"at::_ops::size_*\", \"name\": \"$1\" }"),
			    "0:int::call");
	assert_string_equal(
		pick(&g, "{ \"match\": \"at::_ops::size_*(*, long)\", \"name\": \"$1|$2\" }"),
		"0:int::call|at::Tensor const&");
	assert_string_equal(pick(&g, "{ \"match\": \"at::twice<*>\", \"name\": \"twice $1\" }"),
			    "0:twice long");
	assert_string_equal(pick(&g, "{ \"match\": \"demo_*[np]\" }"), "0:demo_run 0:demo_stop");
}

static void the_first_rule_that_matches_wins(void **state)
{
	struct got g;

	(void)state;
	assert_string_equal(
		pick(&g, "{ \"match\": \"at::_ops::mul_*::call\", \"name\": \"mul\" },"
			 "{ \"match\": [\"demo_stop\", \"at::_ops::*::call\"], \"name\": \"op\" },"
			 "{ \"match\": \"demo_*n\", \"name\": \"$1\" }"),
		"0:mul 1:op 1:op 1:op 2:ru");
	/* Two names of one function: the rule counts, not the order of the symbols. */
	assert_string_equal(pick(&g,
				 "{ \"match\": \"demo_run_alias\" }, { \"match\": \"demo_run\" }"),
			    "0:demo_run_alias");
	assert_string_equal(pick(&g,
				 "{ \"match\": \"demo_run\" }, { \"match\": \"demo_run_alias\" }"),
			    "0:demo_run");
	/* Within a rule, the first pattern. */
	assert_string_equal(pick(&g,
				 "{ \"match\": [\"demo_s*\", \"demo_*[np]\"], \"name\": \"$1\" }"),
			    "0:ru 0:top");
}

static void an_exception_leaves_a_name_to_later_rules(void **state)
{
	struct got g;

	(void)state;
	assert_string_equal(pick(&g,
				 "{ \"match\": \"at::_ops::*::call\", \"except\": [\"*size_int*\", "
				 "\"at::_ops::mul_Tensor::call\"], \"name\": \"$1\" },"
				 "{ \"match\": \"*::size_*::call\", \"name\": \"late $2\" }"),
			    "0:add_Tensor 1:late int");
}

static bool second_only(void *ctx, const struct recipe_function *fn)
{
	const struct got *g = ctx;

	return fn == &g->r->functions[1];
}

static void a_rule_that_is_off_keeps_its_functions(void **state)
{
	struct recipe_found found[2];
	struct got g;

	(void)state;
	assert_string_equal(pick_in(&g, cxx_library(),
				    "{ \"match\": \"at::_ops::add*\", \"off\": \"hot\" },"
				    "{ \"match\": \"at::_ops::*::call\", \"name\": \"$1\" }",
				    second_only, found),
			    "1:mul_Tensor 1:size_int");
	assert_int_equal(found[0].functions, 1);
	assert_int_equal(found[1].functions, 2);
}

static void rules_of_other_libraries_do_not_count(void **state)
{
	struct recipe *r =
		parse("{ \"id\": \"a\", \"file\": \"a\" }, { \"id\": \"b\", \"file\": \"b\" }",
		      "{ \"library\": \"a\", \"match\": \"demo_run\" },"
		      "{ \"library\": \"b\", \"match\": \"demo_*\" }");
	struct elf_file *f = open_path(cxx_library());
	struct clika_error err = { 0 };
	struct got g = { .r = r };
	struct func_skips skips;

	(void)state;
	assert_int_equal(recipe__pick(r, 1, f, NULL, note, &g, NULL, &skips, &err), 0);
	assert_int_equal(g.n, 1);
	assert_string_equal(g.lines[0], "0:demo_run");
	assert_int_equal(recipe__pick(r, 2, f, NULL, note, &g, NULL, NULL, NULL), 0);
	assert_int_equal(g.n, 3);
	assert_int_equal(recipe__pick(r, 4, f, NULL, note, &g, NULL, NULL, NULL), 0);
	assert_int_equal(g.n, 3);
	while (g.n)
		free(g.lines[--g.n]);
	elf_file__close(f);
	recipe__free(r);
}

static int stop(void *ctx, const struct recipe_pick *p)
{
	(void)p;
	return ++*(int *)ctx == 2 ? 77 : 0;
}

static void what_the_callback_says_comes_back(void **state)
{
	struct recipe *r = parse(any, "{ \"match\": \"*\" }");
	struct elf_file *f = open_path(cxx_library());
	int calls = 0;

	(void)state;
	assert_int_equal(recipe__pick(r, 1, f, NULL, stop, &calls, NULL, NULL, NULL), 77);
	assert_int_equal(calls, 2);
	elf_file__close(f);
	recipe__free(r);
}

static void stripped_files_have_what_they_export(void **state)
{
	const char *path = scratch__path("libstripped.so");
	struct got g;

	(void)state;
	scratch__run("strip -o %s %s", path, cxx_library());
	assert_string_equal(pick_in(&g, path,
				    "{ \"match\": \"at::_ops::*::call\", \"name\": \"$1\" }", NULL,
				    NULL),
			    "0:add_Tensor 0:mul_Tensor 0:size_int");
}

/* Every name of libstdc++ against each glob alone: the set must find the same. */
struct one {
	char *names[30000];
	size_t n;
};

static int note_symbol(void *ctx, const struct elf_func *fu)
{
	struct one *o = ctx;

	if (o->n < ARRAY_SIZE(o->names))
		o->names[o->n++] = strdup(fu->symbol);
	return 0;
}

static int count(void *ctx, const struct recipe_pick *p)
{
	size_t *counts = ctx;

	counts[p->match]++;
	return 0;
}

static int count_one(void *ctx, const struct elf_func *fu)
{
	(void)fu;
	++*(size_t *)ctx;
	return 0;
}

static const char *libstdcxx(void)
{
	static char path[512];
	FILE *p;

	if (!*path) {
		p = popen("cc -print-file-name=libstdc++.so.6", "r");
		assert_non_null(p);
		if (!fgets(path, sizeof(path), p))
			fail_msg("where is libstdc++?");
		pclose(p);
		path[strcspn(path, "\n")] = 0;
	}
	return path;
}

static void many_globs_find_what_each_finds_alone(void **state)
{
	/* Apart from one another, so that none takes another's functions. */
	static const char *const globs[] = {
		"std::locale::*",
		"std::basic_filebuf<char, *>::underflow",
		"std::thread::*",
		"__cxa_guard_*",
		"__cxa_throw",
		"operator new*(*)",
		"std::filesystem::*::recursive_directory_iterator::*",
		"*memory_resource*::do_deallocate(*",
		"std::random_device::?*",
		"no such function",
	};
	struct elf_file *f = open_path(libstdcxx());
	size_t counts[ARRAY_SIZE(globs)] = { 0 }, alone, i, total = 0;
	struct buf b = { 0 };
	struct clika_error err;
	struct recipe *r;

	(void)state;
	buf__printf(&b, "{ \"match\": [");
	for (i = 0; i < ARRAY_SIZE(globs); i++)
		buf__printf(&b, "%s\"%s\"", i ? ", " : "", globs[i]);
	buf__printf(&b, "] }");
	buf__u8(&b, 0);
	r = parse(any, (const char *)b.data);
	buf__free(&b);
	assert_int_equal(recipe__pick(r, 1, f, NULL, count, counts, NULL, NULL, NULL), 0);
	for (i = 0; i < ARRAY_SIZE(globs); i++) {
		alone = 0;
		assert_int_equal(elf_file__functions(f, globs[i], count_one, &alone, NULL, &err),
				 0);
		if (counts[i] != alone)
			fail_msg("%s: %zu, alone %zu", globs[i], counts[i], alone);
		total += alone;
	}
	assert_true(counts[0] > 20 && total > 60);
	assert_int_equal(counts[ARRAY_SIZE(globs) - 1], 0);
	elf_file__close(f);
	recipe__free(r);
}

static void a_set_leaves_out_no_glob_that_matches(void **state)
{
	static const char *const globs[] = { "a*",    "*bc*",     "abcd",   "*abcdef*", "*cdef",
					     "[ab]*", "x?z_long", "*_long", "",         "ab*ef" };
	static const char *const names[] = { "",       "a",          "abcd",
					     "abcdef", "zzabcdefzz", "xyz_long",
					     "bcdefg", "cdefcdef",   "abcdabcd" };
	struct glob_set *s = glob_set__new(globs, ARRAY_SIZE(globs));
	uint32_t list[ARRAY_SIZE(globs)];
	size_t i, k, n, at;

	(void)state;
	assert_non_null(s);
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		n = glob_set__candidates(s, names[i], list);
		for (k = 0; k + 1 < n; k++)
			assert_true(list[k] < list[k + 1]);
		for (k = 0; k < ARRAY_SIZE(globs); k++) {
			for (at = 0; at < n && list[at] != k; at++)
				;
			if (text__glob(globs[k], names[i]) && at == n)
				fail_msg("'%s' was not tried on '%s'", globs[k], names[i]);
		}
	}
	glob_set__free(s);
	s = glob_set__new(globs + 2, 3);
	assert_false(glob_set__any(s, "nothing of these"));
	assert_true(glob_set__any(s, "_cdef_"));
	glob_set__free(s);
}

/* --- libraries -------------------------------------------------------------------------------------------- */

static uint64_t library_of(const char *libraries, const char *path, const char *shown)
{
	struct recipe *r = parse(libraries, "{ \"match\": \"f\" }");
	struct elf_file *f = open_path(path);
	uint64_t bits = recipe__library_of(r, f, shown);

	elf_file__close(f);
	recipe__free(r);
	return bits;
}

static void a_library_fits_all_that_is_said_of_it(void **state)
{
	const char *path = cxx_library();

	(void)state;
	assert_int_equal(
		library_of("{ \"id\": \"a\", \"file\": \"libcxx-*.so\" },"
			   "{ \"id\": \"b\", \"file\": [\"no\", \"*/lib/libcxx-demo.so\"] },"
			   "{ \"id\": \"c\", \"file\": \"libcxx\" }",
			   path, "/opt/lib/libcxx-demo.so"),
		3);
	assert_int_equal(
		library_of(
			"{ \"id\": \"a\", \"soname\": [\"x\", \"libdemo.so.*\"] },"
			"{ \"id\": \"b\", \"soname\": \"libdemo.so\" },"
			"{ \"id\": \"c\", \"exports\": [\"demo_run\", \"demo_stop\"] },"
			"{ \"id\": \"d\", \"exports\": [\"demo_run\", \"demo_start\"] },"
			"{ \"id\": \"e\", \"exports\": \"demo_run\", \"file\": \"x\" },"
			"{ \"id\": \"f\", \"build_id\": \"00\" },"
			"{ \"id\": \"g\", \"soname\": \"libdemo.so.3\", \"exports\": \"other\" }",
			path, path),
		1 | 4 | 64);
}

static void knows_a_build_id(void **state)
{
	struct elf_file *f = open_path(cxx_library());
	char text[256];

	(void)state;
	assert_true(elf_file__ident(f)->build_id[0]);
	snprintf(text, sizeof(text), "{ \"id\": \"a\", \"build_id\": [\"00\", \"%s\"] }",
		 elf_file__ident(f)->build_id);
	elf_file__close(f);
	assert_int_equal(library_of(text, cxx_library(), "x"), 1);
}

/* Both tables, and without section headers. */
static void exports_are_looked_up_as_a_loader_does(void **state)
{
	static const char *const styles[] = { "gnu", "sysv", "both" };
	char flags[128], name[64];
	struct elf_file *f;
	struct one all;
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(styles); i++) {
		snprintf(flags, sizeof(flags),
			 "c++ -O1 -fPIC -shared -Wl,-soname,libh.so,--hash-style=%s", styles[i]);
		snprintf(name, sizeof(name), "lib%s.so", styles[i]);
		f = open_path(scratch__build(name, cxx, flags));
		assert_string_equal(elf_file__soname(f), "libh.so");
		assert_true(elf_file__exports(f, "demo_run"));
		assert_true(elf_file__exports(f, "_ZN2at4_ops8size_int4callERKNS_6TensorEl"));
		assert_false(elf_file__exports(f, "demo_ru"));
		assert_false(elf_file__exports(f, "demo_runs"));
		assert_false(elf_file__exports(f, ""));
		assert_false(elf_file__exports(f, "__cxa_finalize")); /* imported */
		elf_file__close(f);
	}
	/* All that a large library exports, and nothing else. */
	f = open_path(libstdcxx());
	assert_string_equal(elf_file__soname(f), "libstdc++.so.6");
	memset(&all, 0, sizeof(all));
	assert_int_equal(elf_file__functions(f, "*", note_symbol, &all, NULL, NULL), 0);
	assert_true(all.n > 3000);
	for (k = 0, i = 0; i < all.n; i++) {
		k += elf_file__exports(f, all.names[i]);
		all.names[i][0] ^= 1;
		assert_false(elf_file__exports(f, all.names[i]));
		free(all.names[i]);
	}
	assert_true(k > all.n / 2); /* a symbol table apart knows local ones, too */
	elf_file__close(f);
}

static void damaged_hash_tables_end(void **state)
{
	int fd = open(cxx_library(), O_RDONLY | O_CLOEXEC), copy;
	off_t size = lseek(fd, 0, SEEK_END);
	uint8_t *bytes = malloc((size_t)size);
	struct elf_file *f;
	unsigned seed, i, hits = 0;

	(void)state;
	assert_true(bytes && pread(fd, bytes, (size_t)size, 0) == size);
	close(fd);
	for (seed = 1; seed < 400; seed++) {
		copy = memfd_create("damaged", MFD_CLOEXEC);
		assert_true(copy >= 0 && write(copy, bytes, (size_t)size) == size);
		/* The tables lie in the first pages, behind the headers. */
		for (i = 0; i < 40; i++) {
			uint64_t r = hash__mix(seed, i);
			uint8_t value = i % 3 ? (uint8_t)(r >> 32) : 0xff;

			assert_int_equal(pwrite(copy, &value, 1, 64 + (off_t)(r % 4000)), 1);
		}
		if (elf_file__open(copy, "damaged", &f, NULL) == 0) {
			hits += elf_file__exports(f, "demo_run");
			hits += elf_file__exports(f, "no such name");
			elf_file__soname(f);
			elf_file__close(f);
		}
		close(copy);
	}
	assert_true(hits < 400);
	free(bytes);
}

static void a_second_list_narrows_the_first(void **state)
{
	struct got g;

	(void)state;
	assert_string_equal(pick_in(&g, cxx_library(),
				    "{ \"match\": \"at::_ops::*::call(at::Tensor const&*\", "
				    "\"only\": [\"*::size_*\", \"at::_ops::mul_Tensor::*\"], "
				    "\"except\": \"*mul_*\", \"name\": \"number $1\" },"
				    "{ \"match\": \"at::_ops::*::call\", \"name\": \"$1\" }",
				    NULL, NULL),
			    "0:number size_int 1:add_Tensor 1:mul_Tensor");
}

static void cuts_names_to_texts_of_the_file(void **state)
{
	struct got g;

	(void)state;
	/* add is a text, so is size_int, mul is not. */
	assert_string_equal(pick_in(&g, cxx_library(),
				    "{ \"match\": \"at::_ops::*::call\", \"name\": \"demo::$1\", "
				    "\"cut_to_text\": \"_\" }",
				    NULL, NULL),
			    "0:demo::add 0:demo::mul_Tensor 0:demo::size_int");
	/* Rules that cut to texts of another beginning take turns with them. */
	assert_string_equal(pick_in(&g, cxx_library(),
				    "{ \"match\": \"at::_ops::mul*::call\", \"name\": \"mul$1\", "
				    "\"cut_to_text\": \"_\" },"
				    "{ \"match\": \"at::_ops::*::call\", \"name\": \"demo::$1\", "
				    "\"cut_to_text\": \"_\" }",
				    NULL, NULL),
			    "0:mul_Tensor 1:demo::add 1:demo::size_int");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_made_of_what_the_stars_stand_for),
		cmocka_unit_test(the_first_rule_that_matches_wins),
		cmocka_unit_test(an_exception_leaves_a_name_to_later_rules),
		cmocka_unit_test(a_rule_that_is_off_keeps_its_functions),
		cmocka_unit_test(rules_of_other_libraries_do_not_count),
		cmocka_unit_test(what_the_callback_says_comes_back),
		cmocka_unit_test(stripped_files_have_what_they_export),
		cmocka_unit_test(many_globs_find_what_each_finds_alone),
		cmocka_unit_test(a_set_leaves_out_no_glob_that_matches),
		cmocka_unit_test(a_library_fits_all_that_is_said_of_it),
		cmocka_unit_test(a_second_list_narrows_the_first),
		cmocka_unit_test(cuts_names_to_texts_of_the_file),
		cmocka_unit_test(knows_a_build_id),
		cmocka_unit_test(exports_are_looked_up_as_a_loader_does),
		cmocka_unit_test(damaged_hash_tables_end),
	};

	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
