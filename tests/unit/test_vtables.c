// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
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
#include "user/probe/recipe.h"
#include "user/probe/vtables.h"

/* Slots: 0 and 1 destructors, 2 compute, 3 name. */
static const char source[] =
	"namespace rt {\n"
	"struct Kernel { virtual ~Kernel(); virtual long compute(long) const = 0; virtual long "
	"name(long) const; };\n"
	"struct Other { virtual ~Other(); virtual long other(long) const; long x; };\n"
	"Kernel::~Kernel() {} long Kernel::name(long x) const { return x + 1; }\n"
	"Other::~Other() {} long Other::other(long x) const { return x + 2; }\n"
	"template <class T> struct MatMul : Kernel { long compute(long) const override; };\n"
	"template <class T> long MatMul<T>::compute(long x) const { return x * (long)sizeof(T); }\n"
	"template struct MatMul<float>; template struct MatMul<double>;\n"
	"struct Fused : MatMul<float> { long name(long) const override; };\n"
	"long Fused::name(long x) const { return x * 3; }\n"
	"struct First : Kernel, Other { long compute(long) const override; };\n"
	"long First::compute(long x) const { return x * 5; }\n"
	"struct Second : Other, Kernel { long compute(long) const override; };\n"
	"long Second::compute(long x) const { return x * 7; }\n"
	"struct Virtual : virtual Kernel { long compute(long) const override; };\n"
	"long Virtual::compute(long x) const { return x * 9; }\n"
	"struct Stranger { virtual ~Stranger(); virtual long compute(long) const; };\n"
	"Stranger::~Stranger() {} long Stranger::compute(long x) const { return x * 11; }\n"
	"namespace { struct Hidden final : Kernel { long compute(long x) const override; }; \n"
	"long Hidden::compute(long x) const { return x * 13; } }\n"
	"Kernel *make() { return new Hidden; }\n"
	"}\n";

struct seen {
	struct vtable v[32];
	char names[32][128];
	size_t n;
	int stop_at;
};

static int note(void *ctx, const struct vtable *v)
{
	struct seen *s = ctx;

	assert_true(s->n < 32);
	s->v[s->n] = *v;
	snprintf(s->names[s->n], sizeof(s->names[0]), "%s", v->class_name);
	s->n++;
	return s->stop_at && (int)s->n == s->stop_at ? 42 : 0;
}

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

static int look(const char *path, const char *base, struct seen *s)
{
	int stop_at = s->stop_at;
	struct clika_error err = { 0 };
	struct elf_file *f = open_path(path);
	struct vtables *x;
	int rc;

	if (vtables__read(f, &x, &err))
		fail_msg("%s", err.msg);
	/* What was asked before leaves no trace. */
	s->n = 0;
	s->stop_at = 0;
	assert_true(vtables__each(x, "rt::Other", note, s, &err) >= 0);
	s->n = 0;
	s->stop_at = stop_at;
	rc = vtables__each(x, base, note, s, &err);
	if (rc < 0)
		fail_msg("%s", err.msg);
	vtables__free(x);
	elf_file__close(f);
	return rc;
}

static const struct vtable *of(const struct seen *s, const char *name)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (!strcmp(s->names[i], name))
			return &s->v[i];
	return NULL;
}

static int note_address(void *ctx, const struct elf_func *fu)
{
	*(uint64_t *)ctx = fu->vaddr;
	return 0;
}

static uint64_t address(const char *path, const char *function)
{
	struct clika_error err = { 0 };
	struct elf_file *f = open_path(path);
	uint64_t vaddr = 0;

	assert_int_equal(elf_file__functions(f, function, note_address, &vaddr, NULL, &err), 0);
	elf_file__close(f);
	assert_int_not_equal(vaddr, 0);
	return vaddr;
}

#define FLAGS "c++ -O1 -fPIC -shared -std=c++17"

/* Builds the library with @flags and a copy without symbols. */
static void build(const char *name, const char *flags, const char **full, char stripped[512])
{
	*full = scratch__build(name, source, flags);
	snprintf(stripped, 512, "%s.stripped", *full);
	/* Local names go; what is exported stays, as nothing is exported from real ones the names are hidden there. */
	scratch__run("cp '%s' '%s' && strip --strip-all '%s'", *full, stripped, stripped);
}

static void finds_functions_of_classes_in_a_stripped_library(void **state)
{
	static const struct {
		const char *class, *compute;
		unsigned depth;
	} want[] = {
		{ "rt::MatMul<float>", "rt::MatMul<float>::compute", 1 },
		{ "rt::MatMul<double>", "rt::MatMul<double>::compute", 1 },
		{ "rt::Fused", "rt::MatMul<float>::compute", 2 },
		{ "rt::First", "rt::First::compute", 1 },
		{ "rt::(anonymous namespace)::Hidden", "rt::(anonymous namespace)::Hidden::compute",
		  1 },
	};
	static const char *const flags[] = {
		FLAGS,
		FLAGS " -fvisibility=hidden",
		FLAGS " -fvisibility=hidden -fuse-ld=lld -Wl,--pack-dyn-relocs=relr",
	};
	char stripped[512];
	const char *full;
	struct seen s = { 0 };
	size_t i, k;

	(void)state;
	for (k = 0; k < sizeof(flags) / sizeof(flags[0]); k++) {
		build("classes.so", flags[k], &full, stripped);
		assert_int_equal(look(stripped, "rt::Kernel", &s), 1);
		for (i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
			const struct vtable *v = of(&s, want[i].class);

			if (!v)
				fail_msg("%s: no %s", flags[k], want[i].class);
			assert_int_equal(v->n_slots, 4);
			assert_int_equal(v->depth, want[i].depth);
			assert_int_equal(v->slots[2], address(full, want[i].compute));
		}
		assert_int_equal(of(&s, "rt::Fused")->slots[3], address(full, "rt::Fused::name"));
		assert_int_equal(of(&s, "rt::First")->slots[3], address(full, "rt::Kernel::name"));
	}
}

static void gives_the_base_first_with_its_pure_function_as_none(void **state)
{
	char stripped[512];
	const char *full;
	struct seen s = { 0 };

	(void)state;
	build("classes.so", FLAGS, &full, stripped);
	assert_int_equal(look(stripped, "rt::Kernel", &s), 1);
	assert_string_equal(s.names[0], "rt::Kernel");
	assert_int_equal(s.v[0].depth, 0);
	assert_int_equal(s.v[0].slots[2], 0);
	assert_int_equal(s.v[0].slots[3], address(full, "rt::Kernel::name"));
	assert_string_equal(s.names[s.n - 1], "rt::Fused");
}

static void leaves_out_classes_whose_slots_are_others(void **state)
{
	char stripped[512];
	const char *full;
	struct seen s = { 0 };

	(void)state;
	build("classes.so", FLAGS, &full, stripped);
	look(stripped, "rt::Kernel", &s);
	assert_null(of(&s, "rt::Second"));
	assert_null(of(&s, "rt::Virtual"));
	assert_null(of(&s, "rt::Stranger"));
	assert_null(of(&s, "rt::Other"));
	assert_int_equal(look(stripped, "rt::Other", &s), 1);
	assert_non_null(of(&s, "rt::Second"));
	assert_null(of(&s, "rt::First"));
}

static void says_when_the_base_is_not_there(void **state)
{
	struct seen s = { 0 };
	char stripped[512];
	const char *full;

	(void)state;
	build("classes.so", FLAGS, &full, stripped);
	assert_int_equal(look(stripped, "rt::Kern", &s), 0);
	assert_int_equal(look(stripped, "Kernel", &s), 0);
	assert_int_equal(look("tests/fixtures/elf/arm64.so", "rt::Kernel", &s), 0);
	assert_int_equal(s.n, 0);
}

static void stops_when_told_to(void **state)
{
	struct seen s = { .stop_at = 2 };
	char stripped[512];
	const char *full;

	(void)state;
	build("classes.so", FLAGS, &full, stripped);
	assert_int_equal(look(stripped, "rt::Kernel", &s), 42);
	assert_int_equal(s.n, 2);
}

static int count_only(void *ctx, const struct vtable *v)
{
	assert_true(v->n_slots <= VTABLE_MAX_SLOTS);
	(*(size_t *)ctx)++;
	return 0;
}

/* Nothing of a broken file may crash it or keep it busy. */
static void survives_damaged_files(void **state)
{
	struct clika_error err = { 0 };
	char stripped[512];
	const char *full;
	struct stat st;
	size_t n, tables = 0;
	unsigned seed = 5;
	char *whole, *bad;
	int fd, i, k;

	(void)state;
	build("classes.so", FLAGS, &full, stripped);
	fd = open(stripped, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && !fstat(fd, &st));
	n = (size_t)st.st_size;
	whole = malloc(n);
	bad = malloc(n);
	assert_true(whole && bad && read(fd, whole, n) == (ssize_t)n);
	close(fd);
	for (i = 0; i < 400; i++) {
		struct vtables *x = NULL;
		struct elf_file *f;
		const char *path;

		memcpy(bad, whole, n);
		for (k = 0; k < 60; k++)
			bad[64 + (size_t)rand_r(&seed) % (n - 64)] = (char)rand_r(&seed);
		path = scratch__write("damaged.so", bad, i % 4 ? n : (size_t)rand_r(&seed) % n);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		if (!elf_file__open(fd, path, &f, &err)) {
			if (!vtables__read(f, &x, &err))
				vtables__each(x, "rt::Kernel", count_only, &tables, &err);
			vtables__free(x);
			elf_file__close(f);
		}
		close(fd);
	}
	assert_true(tables > 0);
	free(whole);
	free(bad);
}

/* --- by a recipe ----------------------------------------------------------------------------- */

static const char allocators[] =
	"extern \"C\" __attribute__((noinline)) void *work(void *self, long n, int zero, int how)\n"
	"{ return (char *)self + n * (how + 1) + zero; }\n"
	"namespace rt {\n"
	"struct Allocator { virtual ~Allocator(); virtual void *alloc(long n) = 0; virtual void "
	"free(void *p); };\n"
	"Allocator::~Allocator() {} void Allocator::free(void *) {}\n"
	"struct Arena : Allocator { void *alloc(long n) override; };\n"
	"void *Arena::alloc(long n) { return work(this, n, 0, 7); }\n"
	"struct Other : Allocator { void *alloc(long n) override; };\n"
	"void *Other::alloc(long n) { return work(this, n + 1, 0, 8); }\n"
	"}\n";

struct picks {
	char names[16][64];
	uint64_t vaddr[16];
	size_t n;
};

static int note_pick(void *ctx, const struct recipe_pick *p)
{
	struct picks *s = ctx;

	assert_true(s->n < 16);
	snprintf(s->names[s->n], sizeof(s->names[0]), "%s", p->names[0]);
	s->vaddr[s->n++] = p->func->vaddr;
	return 0;
}

/* @more: further keys of the table. */
static void pick(const char *path, const char *base, const char *more, struct picks *s)
{
	struct clika_error err = { 0 };
	struct elf_file *f = open_path(path);
	struct recipe *r;
	char text[1024];
	uint64_t bits;

	snprintf(text, sizeof(text),
		 "{ \"recipe\": 1, \"name\": \"t\", \"libraries\": [ { \"id\": \"l\", \"file\": "
		 "\"*\" } ],\n"
		 "\"tables\": [ { \"name\": \"c\", \"derived_from\": \"%s\"%s, \"slots\": { \"2\": "
		 "\"two\", "
		 "\"3\": \"three\" } } ],\n"
		 "\"functions\": [ { \"table\": \"c\", \"match\": \"rt::*::t*\", \"name\": "
		 "\"$1/$2\" } ] }\n",
		 base, more);
	if (recipe__parse(text, strlen(text), "t.json", &r, &err))
		fail_msg("%s", err.msg);
	bits = recipe__library_of(r, f, path);
	s->n = 0;
	if (recipe__pick(r, bits, f, NULL, note_pick, s, NULL, NULL, &err))
		fail_msg("%s", err.msg);
	recipe__free(r);
	elf_file__close(f);
}

static const char *name_at(const struct picks *s, uint64_t vaddr)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (s->vaddr[i] == vaddr)
			return s->names[i];
	return "";
}

static void recipes_name_functions_of_classes_each_once(void **state)
{
	char stripped[512];
	const char *full;
	struct picks s;

	(void)state;
	build("classes.so", FLAGS, &full, stripped);
	pick(stripped, "rt::Kernel", "", &s);
	assert_string_equal(name_at(&s, address(full, "rt::First::compute")), "First/wo");
	/* Two classes have these: the names are those of the one nearer to the base. */
	assert_string_equal(name_at(&s, address(full, "rt::MatMul<float>::compute")),
			    "MatMul<float>/wo");
	assert_string_equal(name_at(&s, address(full, "rt::Kernel::name")), "Kernel/hree");
	assert_string_equal(name_at(&s, address(full, "rt::Fused::name")), "Fused/hree");
	assert_int_equal(s.n, 6);
	pick(stripped, "rt::Kernel", ", \"entries\": 4", &s);
	assert_int_equal(s.n, 6);
	pick(stripped, "rt::Kernel", ", \"entries\": 5", &s);
	assert_int_equal(s.n, 0);
	pick(stripped, "rt::Nothing", "", &s);
	assert_int_equal(s.n, 0);
}

static void jumps_are_followed_only_where_the_arguments_stay(void **state)
{
	char stripped[512];
	const char *full;
	struct picks s;

	(void)state;
	full = scratch__build("allocators.so", allocators,
			      "c++ -O2 -fPIC -shared -std=c++17 -fvisibility=hidden "
			      "-fno-stack-protector -Wl,-Bsymbolic");
	snprintf(stripped, sizeof(stripped), "%s.stripped", full);
	scratch__run("cp '%s' '%s' && strip --strip-all '%s'", full, stripped, stripped);
	pick(stripped, "rt::Allocator", "", &s);
	assert_string_equal(name_at(&s, address(full, "rt::Arena::alloc")), "Arena/wo");
	pick(stripped, "rt::Allocator", ", \"follow_jumps\": true", &s);
	assert_string_equal(name_at(&s, address(full, "work")), "Arena/wo");
	assert_string_equal(name_at(&s, address(full, "rt::Arena::alloc")), "");
	assert_string_equal(name_at(&s, address(full, "rt::Other::alloc")), "Other/wo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_functions_of_classes_in_a_stripped_library),
		cmocka_unit_test(gives_the_base_first_with_its_pure_function_as_none),
		cmocka_unit_test(leaves_out_classes_whose_slots_are_others),
		cmocka_unit_test(says_when_the_base_is_not_there),
		cmocka_unit_test(stops_when_told_to),
		cmocka_unit_test(survives_damaged_files),
		cmocka_unit_test(recipes_name_functions_of_classes_each_once),
		cmocka_unit_test(jumps_are_followed_only_where_the_arguments_stay),
	};

	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
