// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/scratch.h"
#include "user/probe/layout.h"

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

/* --- accessors -------------------------------------------------------------------------------- */

static const char things[] =
	"struct part { short a, b; };\n"
	"struct thing { int kind; void *buffer; unsigned long extents[4]; char name[64];\n"
	"  struct thing *next; union { long whole; struct part part; }; };\n"
	"int printf(const char *, ...);\n"
	"char *get_name(struct thing *t) { return t->name; }\n"
	"char *get_name_or_null(struct thing *t) { return t ? t->name : 0; }\n"
	"char *get_name_if(struct thing *t, int x) { if (x > 3) return 0; if (x == 2) "
	"printf(\"2\");\n"
	"  return t->name; }\n"
	"unsigned long second(struct thing *t) { return t->extents[1]; }\n"
	"unsigned long count(struct thing *t) { unsigned long n = 1; int i;\n"
	"  for (i = 0; i < 4; i++) n *= t->extents[i]; return n; }\n"
	"int is_empty(struct thing *t) { int i; for (i = 0; i < 4; i++)\n"
	"  if (!t->extents[i]) return 1; return 0; }\n"
	"unsigned long rows(struct thing *t) { return t->extents[1] * t->extents[2] * "
	"t->extents[3]; }\n"
	"struct thing *next(struct thing *t) { return t->next; }\n"
	"struct thing *last(struct thing *t) { while (t->next) t = t->next; return t; }\n"
	"int kind(struct thing *t) { return t->kind; }\n"
	"short small(struct thing *t) { return t->part.b; }\n"
	"void *either(struct thing *t, int x) { return x ? (void *)t->name : &t->next; }\n"
	"void *elsewhere(struct thing *t) { return t->next->name; }\n"
	"void set_kind(struct thing *t, int kind_) { t->kind = kind_; }\n"
	"long other(struct thing *t, long x) { (void)t; return x; }\n"
	"unsigned long at(struct thing *t, int i) { return t->extents[i]; }\n"
	"char *name_via(struct thing *t) { return get_name(t); }\n";

struct want {
	const char *accessor;
	enum recipe_how how;
	int64_t value; /* -1 = refused */
};

static void check(struct elf_file *f, const char *prefix, const struct want *w)
{
	char glob[64];
	struct recipe_layout l = { .name = "place", .accessor = glob, .how = w->how };
	struct clika_error err = { 0 };
	int64_t value = -1;
	int rc;

	snprintf(glob, sizeof(glob), "%s%s", prefix, w->accessor);
	rc = layout__find(&l, f, &value, &err);
	if (w->value < 0) {
		if (rc != -ENOTSUP || !strstr(err.msg, glob) || !strstr(err.msg, "place"))
			fail_msg("%s by %d: %d %lld %s", glob, w->how, rc, (long long)value,
				 err.msg);
	} else if (rc != 1 || value != w->value) {
		fail_msg("%s by %d: %d %lld %s", glob, w->how, rc, (long long)value, err.msg);
	}
}

static const struct want common[] = {
	{ "get_name", RECIPE_HOW_ADDRESS, 48 }, { "get_name_or_null", RECIPE_HOW_ADDRESS, 48 },
	{ "get_name", RECIPE_HOW_LOAD, -1 },    { "get_name", RECIPE_HOW_VALUE, -1 },
	{ "second", RECIPE_HOW_VALUE, 24 },     { "second", RECIPE_HOW_LOAD, 24 },
	{ "second", RECIPE_HOW_ADDRESS, -1 },   { "count", RECIPE_HOW_LOAD, 16 },
	{ "next", RECIPE_HOW_VALUE, 112 },      { "small", RECIPE_HOW_VALUE, 122 },
	{ "other", RECIPE_HOW_LOAD, -1 },       { "other", RECIPE_HOW_VALUE, -1 },
	{ "other", RECIPE_HOW_ADDRESS, -1 },
};

static const struct want compiled[] = {
	{ "get_name_if", RECIPE_HOW_ADDRESS, 48 }, { "is_empty", RECIPE_HOW_LOAD, 16 },
	{ "rows", RECIPE_HOW_LOAD, 24 },           { "last", RECIPE_HOW_LOAD, 112 },
	{ "kind", RECIPE_HOW_VALUE, 0 },           { "kind", RECIPE_HOW_LOAD, 0 },
	{ "either", RECIPE_HOW_ADDRESS, -1 },      { "elsewhere", RECIPE_HOW_ADDRESS, -1 },
	{ "elsewhere", RECIPE_HOW_VALUE, -1 },     { "elsewhere", RECIPE_HOW_LOAD, 112 },
	{ "set_kind", RECIPE_HOW_LOAD, -1 },
};

static void reads_accessors_at_every_level(void **state)
{
	static const char *const flags[] = {
		"-O0",
		"-O1",
		"-O2",
		"-O3",
		"-Os",
		"-O0 -fomit-frame-pointer",
#ifdef __x86_64__
		"-O2 -fcf-protection=none",
#endif
		"-O2 -fstack-protector-all",
		"-O1 -g0 -s -fno-asynchronous-unwind-tables",
	};
	static const char *const compilers[] = { "gcc", "clang" };
	size_t c, i, k;
	int tried = 0;

	(void)state;
	for (c = 0; c < ARRAY_SIZE(compilers); c++) {
		char command[128];

		snprintf(command, sizeof(command), "command -v %s >/dev/null", compilers[c]);
		if (system(command) != 0)
			continue;
		for (i = 0; i < ARRAY_SIZE(flags); i++) {
			const char *in = scratch__write("things.c", things, sizeof(things) - 1);
			const char *out = scratch__path("things.so");
			struct elf_file *f;

			scratch__run("%s %s -fPIC -shared -w -o '%s' '%s'", compilers[c], flags[i],
				     out, in);
			f = open_path(out);
			for (k = 0; k < ARRAY_SIZE(common); k++)
				check(f, "", &common[k]);
			for (k = 0; k < ARRAY_SIZE(compiled); k++)
				check(f, "", &compiled[k]);
			elf_file__close(f);
			tried++;
		}
	}
	assert_true(tried > 0);
}

static void reads_accessors_on_arm64(void **state)
{
	static const char *const levels[] = { "O0_", "O1_", "O2_", "Os_" };
	static const struct want arm[] = {
		{ "name", RECIPE_HOW_ADDRESS, 48 }, { "name_or_null", RECIPE_HOW_ADDRESS, 48 },
		{ "name", RECIPE_HOW_VALUE, -1 },   { "second", RECIPE_HOW_VALUE, 24 },
		{ "second", RECIPE_HOW_LOAD, 24 },  { "all", RECIPE_HOW_LOAD, 16 },
		{ "next", RECIPE_HOW_VALUE, 112 },  { "small", RECIPE_HOW_VALUE, 120 },
		{ "nothing", RECIPE_HOW_LOAD, -1 }, { "nothing", RECIPE_HOW_ADDRESS, -1 },
		{ "extent", RECIPE_HOW_LOAD, -1 },
	};
	struct elf_file *f = open_path("tests/fixtures/elf/layout_arm64.so");
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(levels); i++)
		for (k = 0; k < ARRAY_SIZE(arm); k++)
			check(f, levels[i], &arm[k]);
	elf_file__close(f);
}

#ifdef __x86_64__
/* clang-format off */
#define F(name, body)                                                                              \
	"__asm__(\".globl " name "\\n.type " name ", @function\\n" name ":\\n" body                  \
	"\\n.size " name ", . - " name "\\n\");\n"
static const char code[] =
	F("lo_tail", "lea 8(%rdi), %rdi\\njmp lo_plain")
	F("lo_plain", "mov %rdi, %rax\\nadd $40, %rax\\nret")
	F("lo_plt", "jmp lo_imported@PLT")
	F("lo_null", "test %rdi, %rdi\\nlea 24(%rdi), %rax\\ncmove %rdi, %rax\\nret")
	F("lo_null_other", "test %rsi, %rsi\\nlea 24(%rdi), %rax\\ncmove %rdi, %rax\\nret")
	F("lo_saved", "push %rbx\\nmov %rdi, %rbx\\ncall lo_plain\\nlea 16(%rbx), %rax\\npop %rbx\\nret")
	F("lo_clobbered", "call lo_plain\\nlea 16(%rdi), %rax\\nret")
	F("lo_partly", "mov %rdi, %rax\\nmov %si, %ax\\nret")
	F("lo_half", "lea 8(%rdi), %eax\\nret")
	F("lo_scaled", "mov $3, %ecx\\nlea 8(%rdi,%rcx,8), %rax\\nret")
	F("lo_forever", "1: jmp 1b")
	F("lo_ever", "1: add $8, %rdi\\ntest %rsi, %rsi\\nje 1b\\nmov (%rdi), %rax\\nret")
	F("lo_far", "lea 0x7fffffff(%rdi), %rax\\nret")
	F("lo_negative", "lea -16(%rdi), %rax\\nret")
	F("lo_vector", "movups 32(%rdi), %xmm0\\nmovups %xmm0, (%rdi)\\nret")
	F("lo_store", "movq $1, 8(%rdi)\\nmov %rsi, 16(%rdi)\\nret")
	F("lo_compare", "cmpl $3, 12(%rdi)\\nsete %al\\nret")
	F("lo_rmw", "addq $1, 8(%rdi)\\nret")
	F("lo_add", "xor %eax, %eax\\nadd 56(%rdi), %rax\\nret")
	F("lo_nop", "nopl 4(%rdi)\\nmov 20(%rdi), %eax\\nret")
	F("lo_undecodable", "mov (%rdi), %rax\\n.byte 0x06\\nret")
	F("lo_long", ".rept 9000\\ninc %rcx\\n.endr\\nlea 8(%rdi), %rax\\nret")
	F("lo_branches", ".set i, 0\\n.rept 600\\ncmp %rsi, %rdx\\nje 1f\\ninc %rcx\\n1:\\n.endr\\n"
			 "lea 8(%rdi), %rax\\nret")
	F("lo_overlap", "mov %rdi, -8(%rsp)\\nmovl $1, -4(%rsp)\\nmov -8(%rsp), %rax\\nret")
	F("lo_notrack", "notrack jmp *%rax")
	F("lo_same_1", "lea 8(%rdi), %rax\\nret") F("lo_same_2", "mov %rdi, %rax\\nadd $8, %rax\\nret")
	F("lo_same_3", "jmp *%rax")
	F("lo_differ_1", "lea 8(%rdi), %rax\\nret") F("lo_differ_2", "lea 9(%rdi), %rax\\nret");
/* clang-format on */

static void understands_what_compilers_do_not_write_every_day(void **state)
{
	static const struct want wants[] = {
		{ "lo_tail", RECIPE_HOW_ADDRESS, 48 },
		{ "lo_plt", RECIPE_HOW_ADDRESS, -1 },
		{ "lo_null", RECIPE_HOW_ADDRESS, 24 },
		{ "lo_null_other", RECIPE_HOW_ADDRESS, -1 },
		{ "lo_saved", RECIPE_HOW_ADDRESS, 16 },
		{ "lo_clobbered", RECIPE_HOW_ADDRESS, -1 },
		{ "lo_partly", RECIPE_HOW_ADDRESS, -1 },
		{ "lo_half", RECIPE_HOW_ADDRESS, -1 },
		{ "lo_scaled", RECIPE_HOW_ADDRESS, 32 },
		{ "lo_forever", RECIPE_HOW_ADDRESS, -1 },
		{ "lo_ever", RECIPE_HOW_LOAD, 8 },
		{ "lo_far", RECIPE_HOW_ADDRESS, -1 },
		{ "lo_vector", RECIPE_HOW_LOAD, 32 },
		{ "lo_store", RECIPE_HOW_LOAD, -1 },
		{ "lo_compare", RECIPE_HOW_LOAD, 12 },
		{ "lo_rmw", RECIPE_HOW_LOAD, 8 },
		{ "lo_add", RECIPE_HOW_LOAD, 56 },
		{ "lo_nop", RECIPE_HOW_LOAD, 20 },
		{ "lo_undecodable", RECIPE_HOW_LOAD, -1 },
		{ "lo_long", RECIPE_HOW_ADDRESS, -1 },
		{ "lo_branches", RECIPE_HOW_ADDRESS, -1 },
		{ "lo_overlap", RECIPE_HOW_ADDRESS, -1 },
		{ "lo_notrack", RECIPE_HOW_ADDRESS, -1 },
		{ "lo_same_*", RECIPE_HOW_ADDRESS, 8 },
	};
	const char *path = scratch__build("code.so", code, "-fPIC -shared -w");
	struct recipe_layout l = { .name = "place", .how = RECIPE_HOW_ADDRESS };
	struct elf_file *f = open_path(path);
	struct clika_error err = { 0 };
	int64_t value;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wants); i++) {
		/* the message names the function, not the pattern */
		if (strchr(wants[i].accessor, '*')) {
			l.accessor = (char *)wants[i].accessor;
			assert_int_equal(layout__find(&l, f, &value, &err), 1);
			assert_int_equal(value, wants[i].value);
		} else {
			check(f, "", &wants[i]);
		}
	}
	l.accessor = (char *)"lo_negative";
	assert_int_equal(layout__find(&l, f, &value, &err), 1);
	assert_int_equal(value, -16);
	l.add = 20;
	assert_int_equal(layout__find(&l, f, &value, &err), 1);
	assert_int_equal(value, 4);
	l.accessor = (char *)"lo_differ_*";
	assert_int_equal(layout__find(&l, f, &value, &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "lo_differ_1"));
	assert_non_null(strstr(err.msg, "lo_differ_2"));
	elf_file__close(f);
}
#endif

/* --- debug information and versions --------------------------------------------------------------- */

static const char types[] = "struct empty_before { int x; };\n"
			    "namespace outer { struct forward; struct base { long b0, b1; };\n"
			    " struct other { long value; };\n"
			    " namespace inner { struct deep : base { int d; union { long u; struct "
			    "{ char c0, c1; }; }; }; }\n"
			    " struct holder { forward *f; other o; inner::deep in; unsigned bits : "
			    "3; virtual ~holder(); };\n"
			    " holder::~holder() {} }\n"
			    "typedef struct { int one; long two; } plain;\n"
			    "outer::holder keep; plain keep_too;\n";

static int by_debug(struct elf_file *f, const char *type, const char *member, int64_t *value)
{
	struct recipe_layout l = { .name = "place",
				   .debug_type = (char *)type,
				   .debug_member = (char *)member };
	struct clika_error err = { 0 };

	*value = -1;
	return layout__find(&l, f, value, &err);
}

static void expect_debug(struct elf_file *f, const char *flags)
{
	static const struct {
		const char *type, *member;
		int64_t value;
	} wants[] = {
		{ "outer::holder", "f", 8 },
		{ "outer::holder", "in", 24 },
		{ "outer::inner::deep", "d", 16 },
		{ "outer::inner::deep", "b1", 8 },
		{ "outer::inner::deep", "u", 24 },
		{ "outer::inner::deep", "c1", 25 },
		{ "plain", "two", 8 },
		{ "outer::holder", "value", -1 },
		{ "outer::holder", "bits", -1 },
		{ "outer::forward", "f", -1 },
		{ "holder", "f", -1 },
		{ "outer", "f", -1 },
		{ "outer::holder", "none", -1 },
		{ "", "f", -1 },
		{ "plain::two", "two", -1 },
	};
	int64_t value;
	size_t i;
	int rc;

	for (i = 0; i < ARRAY_SIZE(wants); i++) {
		rc = by_debug(f, wants[i].type, wants[i].member, &value);
		if (rc != (wants[i].value >= 0) || (rc && value != wants[i].value))
			fail_msg("%s: %s %s: %d %lld", flags, wants[i].type, wants[i].member, rc,
				 (long long)value);
	}
}

static void reads_debug_information(void **state)
{
	static const char *const flags[] = { "-gdwarf-4", "-gdwarf-5",
					     "-gdwarf-4 -fdebug-types-section",
					     "-gdwarf-5 -fdebug-types-section", "-g -gz" };
	char line[128];
	struct elf_file *f;
	int64_t value;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		snprintf(line, sizeof(line), "c++ %s -fPIC -shared -w", flags[i]);
		f = open_path(scratch__build("types.so", types, line));
		expect_debug(f, flags[i]);
		elf_file__close(f);
	}
	f = open_path(scratch__build("types.so", types, "c++ -g0 -fPIC -shared -w"));
	assert_int_equal(by_debug(f, "outer::holder", "f", &value), 0);
	elf_file__close(f);
}

static void falls_back_from_accessor_to_debug_information_to_version(void **state)
{
	const char *path = scratch__build(
		"things.so", things, "-g -O1 -fPIC -shared -w -Wl,--build-id=0x00aabbccddee1122");
	struct recipe_layout_row rows[] = {
		{ .build_id = (char *)"00aabbccddee1123", .value = 1 },
		{ .exports = (char *)"no_such", .value = 2 },
		{ .build_id = (char *)"00aabbccddee1122",
		  .exports = (char *)"no_such",
		  .value = 3 },
		{ .value = 4 },
		{ .build_id = (char *)"00AABBCCDDEE1122", .value = 5 },
		{ .exports = (char *)"get_name", .value = 6 },
	};
	struct recipe_layout l = {
		.name = "place",
		.accessor = (char *)"get_name",
		.how = RECIPE_HOW_ADDRESS,
		.add = 2,
		.debug_type = (char *)"thing",
		.debug_member = (char *)"next",
		.rows = rows,
		.n_rows = ARRAY_SIZE(rows),
	};
	struct elf_file *f = open_path(path);
	struct clika_error err = { 0 };
	int64_t value;

	(void)state;
	assert_int_equal(layout__find(&l, f, &value, &err), 1);
	assert_int_equal(value, 50);
	l.accessor = (char *)"other"; /* is there, but does not tell */
	assert_int_equal(layout__find(&l, f, &value, &err), 1);
	assert_int_equal(value, 112);
	l.accessor = (char *)"no_such";
	assert_int_equal(layout__find(&l, f, &value, &err), 1);
	assert_int_equal(value, 112);
	l.debug_member = (char *)"no_such";
	assert_int_equal(layout__find(&l, f, &value, &err), 1);
	assert_int_equal(value, 5);
	l.rows += 5;
	l.n_rows = 1;
	assert_int_equal(layout__find(&l, f, &value, &err), 1);
	assert_int_equal(value, 6);
	l.n_rows = 0;
	assert_int_equal(layout__find(&l, f, &value, &err), 0);
	l.accessor = (char *)"other";
	assert_int_equal(layout__find(&l, f, &value, &err), -ENOTSUP);
	elf_file__close(f);
	/* A file without any symbols is no error: it does not tell. */
	scratch__run(
		"objcopy -R .gnu.hash -R .hash --strip-section-headers '%s' '%s' 2>/dev/null || "
		"cp '%s' '%s'",
		path, scratch__path("bare.so"), path, scratch__path("bare.so"));
	f = open_path(scratch__path("bare.so"));
	l.accessor = (char *)"no_such";
	assert_int_equal(layout__find(&l, f, &value, &err), 0);
	elf_file__close(f);
}

/* --- tables of pointers ---------------------------------------------------------------------------- */

static const char api[] =
	"#define F(n) KEEP int f##n(int x) { return x * 3 + n; }\n"
	"#define G(n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7)\n"
	"#define A(n) f##n,\n"
	"#define B(n) A(n##0) A(n##1) A(n##2) A(n##3) A(n##4) A(n##5) A(n##6) A(n##7)\n"
	"G(1) G(2) G(3) G(4) G(5)\n"
	"typedef int (*fn)(int); static int data;\n"
	"struct table { fn first[40]; void *data; fn more[3]; void *hole; fn behind[2]; };\n"
	"static const struct table latest = { { B(1) B(2) B(3) B(4) B(5) }, &data, { A(11) A(12) "
	"A(13) },\n"
	"  0, { A(14) A(15) } };\n"
	"static const fn old[3] = { A(20) A(21) A(22) };\n"
	"static const struct table *get(unsigned v) {\n"
	"  if (v - 1u <= 21u) return &latest; if (v == 50) return (void *)old; return 0; }\n"
	"static const char *version(void) { return \"1\"; }\n"
	"static const struct { const struct table *(*get)(unsigned); const char *(*version)(void); "
	"long n; "
	"}\n"
	"  base = { get, version, 7 };\n"
	"const void *api_base(void) { return &base; }\n"
	"const void *api_nothing(int x) { return x ? &data : 0; }\n";

struct named {
	const char *name;
	uint64_t vaddr;
};

static int on_named(void *ctx, const struct elf_func *fu)
{
	((struct named *)ctx)->vaddr = fu->vaddr;
	return 1;
}

static uint64_t vaddr_of(struct elf_file *f, const char *name)
{
	struct named n = { name, 0 };

	elf_file__functions(f, name, on_named, &n, NULL, NULL);
	assert_true(n.vaddr != 0);
	return n.vaddr;
}

/* 44 slots: up to the hole; the fortieth points to data. */
static void expect_table(const char *path, const char *getter, bool confirm)
{
	struct recipe_table t = { .name = (char *)"api", .getter = (char *)getter, .at_least = 40 };
	size_t n, i, want = getter ? 44 : 40;
	struct elf_file *f = open_path(path);
	struct clika_error err = { 0 };
	uint64_t at = 0, *slots, bias;
	struct link_map *map;
	char name[16];
	void *lib;

	if (pointer_table__find(&t, f, &at, &slots, &n, &err) != 1)
		fail_msg("%s: %s", path, err.msg);
	if (n != want)
		fail_msg("%s: %zu slots", path, n);
	for (i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "f%zu%zu", 1 + i / 8, i % 8);
		assert_int_equal(slots[i], vaddr_of(f, name));
	}
	if (getter) {
		assert_int_equal(slots[40], 0);
		assert_int_equal(slots[43], vaddr_of(f, "f13"));
	}
	if (confirm) {
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		assert_non_null(lib);
		assert_int_equal(dlinfo(lib, RTLD_DI_LINKMAP, &map), 0);
		bias = map->l_addr;
		assert_int_equal(pointer_table__confirm(getpid(), bias + at, bias, slots, n), 1);
		slots[17]++;
		assert_int_equal(pointer_table__confirm(getpid(), bias + at, bias, slots, n), 0);
		slots[17] = 0; /* not known: not compared */
		assert_int_equal(pointer_table__confirm(getpid(), bias + at, bias, slots, n), 1);
		assert_int_equal(pointer_table__confirm(getpid(), bias + at + 8, bias, slots, n),
				 0);
		assert_true(pointer_table__confirm(getpid(), 8, bias, slots, n) < 0);
		assert_int_equal(pointer_table__confirm(getpid(), bias + at, bias, slots, 0), 0);
		dlclose(lib);
	}
	free(slots);
	t.at_least = (unsigned)want + 1;
	assert_int_equal(pointer_table__find(&t, f, &at, &slots, &n, &err), 0);
	assert_null(slots);
	t.at_least = 1;
	t.derived_from = (char *)"ns::Class";
	assert_int_equal(pointer_table__find(&t, f, &at, &slots, &n, &err), 0);
	assert_null(slots);
	t.derived_from = NULL;
	if (getter) {
		t.getter = (char *)"no_such";
		assert_int_equal(pointer_table__find(&t, f, &at, &slots, &n, &err), 0);
		t.getter = (char *)"api_nothing";
		assert_int_equal(pointer_table__find(&t, f, &at, &slots, &n, &err), -ENOTSUP);
		assert_non_null(strstr(err.msg, "api_nothing"));
	}
	elf_file__close(f);
}

static void finds_tables_however_their_pointers_are_told(void **state)
{
	static const char *const flags[] = {
		"-O2 -DKEEP=static",
		"-O2 -DKEEP=", /* those need their symbols */
		"-O0 -DKEEP=static",
		"-O1 -fno-asynchronous-unwind-tables -DKEEP=static",
		"-O2 -DKEEP=static -nostdlib -Wl,-z,pack-relative-relocs",
		"-O2 -DKEEP=static -g -fcf-protection=none -fvisibility=hidden -Dapi_base="
		"'__attribute__((visibility(\"default\")))api_base' -Dapi_nothing="
		"'__attribute__((visibility(\"default\")))api_nothing'",
	};
	char line[512], name[32];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		snprintf(line, sizeof(line), "%s -fPIC -shared -w", flags[i]);
#ifndef __x86_64__
		if (strstr(line, "-fcf-protection"))
			continue;
#endif
		snprintf(name, sizeof(name), "api%zu.so", i);
		expect_table(scratch__build(name, api, line), "api_base",
			     !strstr(line, "-nostdlib"));
		expect_table(scratch__path(name), NULL, false);
	}
}

static void finds_a_table_behind_packed_relocations_on_arm64(void **state)
{
	struct recipe_table t = { .name = (char *)"api",
				  .getter = (char *)"arm_base",
				  .at_least = 80 };
	struct elf_file *f = open_path("tests/fixtures/elf/layout_arm64.so");
	struct clika_error err = { 0 };
	uint64_t at, *slots;
	char name[16];
	size_t n, i;

	(void)state;
	if (pointer_table__find(&t, f, &at, &slots, &n, &err) != 1)
		fail_msg("%s", err.msg);
	assert_int_equal(n, 80); /* another table lies right behind it */
	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "f%zu", 10 + i);
		assert_int_equal(slots[i], vaddr_of(f, name));
	}
	free(slots);
	elf_file__close(f);
}

/* --- functions without names ------------------------------------------------------------------------ */

struct count {
	struct elf_file *f;
	int seen, same;
};

static int ask_around(void *ctx, const struct elf_func *fu)
{
	struct count *c = ctx;
	uint64_t start = 0, size = 0;

	c->seen++;
	c->same += elf_file__function_at(c->f, fu->vaddr + fu->size / 2, &start, &size) &&
		   start == fu->vaddr && size == fu->size;
	return 0;
}

static void finds_functions_by_unwind_tables(void **state)
{
	const char *bare = scratch__path("stripped.so"), *full;
	struct count c = { 0 };
	uint64_t start, size;
	struct elf_file *f;

	(void)state;
	full = scratch__build("around.so", things, "-O2 -fPIC -shared -w");
	scratch__run("strip -s -o '%s' '%s'", bare, full);
	f = open_path(full);
	c.f = open_path(bare);
	assert_int_equal(elf_file__functions(f, "*", ask_around, &c, NULL, NULL), 0);
	/* What the C library's start files add has no unwind tables. */
	assert_true(c.same >= 17 && c.seen - c.same <= 6);
	assert_false(elf_file__function_at(c.f, 0, &start, &size));
	assert_false(elf_file__function_at(c.f, UINT64_MAX, &start, &size));
	elf_file__close(c.f);
	elf_file__close(f);

	f = open_path(scratch__build("around.so", things,
				     "-O2 -fPIC -shared -w -fno-asynchronous-unwind-tables"));
	memset(&c, 0, sizeof(c));
	c.f = f;
	assert_int_equal(elf_file__functions(f, "*e*", ask_around, &c, NULL, NULL), 0);
	assert_true(c.seen > 8 && c.same == c.seen);
	elf_file__close(f);

	f = open_path("tests/fixtures/elf/layout_arm64.so");
	memset(&c, 0, sizeof(c));
	c.f = f;
	assert_int_equal(elf_file__functions(f, "*", ask_around, &c, NULL, NULL), 0);
	assert_true(c.seen > 100 && c.same == c.seen);
	elf_file__close(f);
}

/* --- damage ----------------------------------------------------------------------------------------- */

static void ask_everything(const char *path)
{
	struct recipe_layout l = { .name = (char *)"place",
				   .debug_type = (char *)"outer::holder",
				   .debug_member = (char *)"in" };
	struct recipe_table t = { .name = (char *)"api", .at_least = 1 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t at, *slots, start, size;
	struct elf_file *f;
	int64_t value;
	size_t n, i;
	int how;

	assert_true(fd >= 0);
	if (elf_file__open(fd, path, &f, NULL) == 0) {
		layout__find(&l, f, &value, NULL);
		l.debug_type = NULL;
		l.accessor = (char *)"*";
		for (how = RECIPE_HOW_ADDRESS; how <= RECIPE_HOW_VALUE; how++) {
			l.how = (enum recipe_how)how;
			layout__find(&l, f, &value, NULL);
		}
		for (i = 0; i < 2; i++) {
			t.getter = i ? (char *)"*base*" : NULL;
			if (pointer_table__find(&t, f, &at, &slots, &n, NULL) == 1)
				assert_true(n > 0);
			free(slots);
		}
		elf_file__function_at(f, elf_file__base_vaddr(f) + 0x1100, &start, &size);
		elf_file__close(f);
	}
	close(fd);
}

static void survives_damaged_files(void **state)
{
	const char *paths[] = {
		scratch__build("damage1.so", types, "c++ -g -fPIC -shared -w"),
		scratch__build("damage2.so", api,
			       "-O1 -DKEEP=static -fPIC -shared -w -nostdlib "
			       "-Wl,-z,pack-relative-relocs"),
		"tests/fixtures/elf/layout_arm64.so",
	};
	const char *out = scratch__path("damaged.so");
	uint64_t random = 88172645463325252ull;
	size_t i, k, round, n;
	char *bytes;
	FILE *file;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(paths); i++) {
		bytes = malloc(1 << 20);
		file = fopen(paths[i], "r");
		assert_non_null(bytes);
		assert_non_null(file);
		n = fread(bytes, 1, 1 << 20, file);
		fclose(file);
		for (round = 0; round < 150; round++) {
			struct {
				size_t at;
				char was;
			} undo[24];

			for (k = 0; k < ARRAY_SIZE(undo); k++) {
				random ^= random << 13;
				random ^= random >> 7;
				random ^= random << 17;
				/* Half of it among the headers. */
				undo[k].at = random % (k % 8 ? n : 1024 < n ? 1024 : n);
				undo[k].was = bytes[undo[k].at];
				bytes[undo[k].at] = (char)(random >> 40);
			}
			file = fopen(out, "w");
			assert_non_null(file);
			fwrite(bytes, 1, round % 10 ? n : random % n, file);
			fclose(file);
			ask_everything(out);
			while (k--)
				bytes[undo[k].at] = undo[k].was;
		}
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_accessors_at_every_level),
		cmocka_unit_test(reads_accessors_on_arm64),
#ifdef __x86_64__
		cmocka_unit_test(understands_what_compilers_do_not_write_every_day),
#endif
		cmocka_unit_test(reads_debug_information),
		cmocka_unit_test(falls_back_from_accessor_to_debug_information_to_version),
		cmocka_unit_test(finds_tables_however_their_pointers_are_told),
		cmocka_unit_test(finds_a_table_behind_packed_relocations_on_arm64),
		cmocka_unit_test(finds_functions_by_unwind_tables),
		cmocka_unit_test(survives_damaged_files),
	};

	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
