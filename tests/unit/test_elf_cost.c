// SPDX-License-Identifier: Apache-2.0
/* Files that are made to cost whoever reads them much: circles, and holes that pass for tables without end. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/scratch.h"
#include "user/probe/layout.h"
#include "user/probe/vtables.h"

#define TOO_LONG 60 /* s; what is bounded takes some seconds, the rest hours */
#define HOLE (1ull << 40)
#define VADDR 0x10000ull
#define DYNAMIC_AT 0x400
#define SECTIONS_AT 0x800
#define NAMES_AT 0x700
#define TABLES_AT 0x2000

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

struct made {
	Elf64_Ehdr h;
	Elf64_Phdr ph[2];
};

/* A file of some pages and a hole of a terabyte, with @dynamic and a section that spans the hole. */
static struct elf_file *make_hole(const Elf64_Dyn *dynamic, size_t bytes, uint64_t names_size)
{
	static const char names[] = "\0.rodata\0.debug_info";
	const char *path = scratch__path("hole.so");
	Elf64_Shdr sh[4] = { 0 };
	struct made m = {
		.h = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				    EV_CURRENT },
		       .e_type = ET_DYN,
#ifdef __x86_64__
		       .e_machine = EM_X86_64,
#else
		       .e_machine = EM_AARCH64,
#endif
		       .e_version = EV_CURRENT,
		       .e_phoff = sizeof(Elf64_Ehdr),
		       .e_shoff = SECTIONS_AT,
		       .e_ehsize = sizeof(Elf64_Ehdr),
		       .e_phentsize = sizeof(Elf64_Phdr),
		       .e_phnum = 2,
		       .e_shentsize = sizeof(Elf64_Shdr),
		       .e_shnum = 4,
		       .e_shstrndx = 3 },
		.ph = { { .p_type = PT_LOAD,
			  .p_flags = PF_R,
			  .p_vaddr = VADDR,
			  .p_filesz = HOLE,
			  .p_memsz = HOLE },
			{ .p_type = PT_DYNAMIC, .p_offset = DYNAMIC_AT, .p_filesz = bytes } }
	};
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	if (ftruncate(fd, (off_t)HOLE)) {
		close(fd);
		return NULL; /* file systems of other limits */
	}
	sh[1] = (Elf64_Shdr){ .sh_name = 1,
			      .sh_type = SHT_PROGBITS,
			      .sh_flags = SHF_ALLOC,
			      .sh_offset = TABLES_AT,
			      .sh_size = HOLE - TABLES_AT };
	sh[2] = (Elf64_Shdr){
		.sh_name = 9, .sh_type = SHT_PROGBITS, .sh_offset = TABLES_AT, .sh_size = 64
	};
	sh[3] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = NAMES_AT, .sh_size = names_size };
	assert_int_equal(pwrite(fd, &m, sizeof(m), 0), sizeof(m));
	assert_int_equal(pwrite(fd, dynamic, bytes, DYNAMIC_AT), bytes);
	assert_int_equal(pwrite(fd, names, sizeof(names), NAMES_AT), sizeof(names));
	assert_int_equal(pwrite(fd, sh, sizeof(sh), SECTIONS_AT), sizeof(sh));
	close(fd);
	return open_path(path);
}

static const Elf64_Dyn rela[] = {
	{ DT_RELA, { VADDR + TABLES_AT } },
	{ DT_RELASZ, { HOLE - TABLES_AT } },
	{ DT_RELAENT, { sizeof(Elf64_Rela) } },
	{ 0 },
};
static const Elf64_Dyn relr[] = {
	{ 36 /* DT_RELR */, { VADDR + TABLES_AT } },
	{ 35 /* DT_RELRSZ */, { HOLE - TABLES_AT } },
	{ 37 /* DT_RELRENT */, { 8 } },
	{ 0 },
};

static void ends_reading_relocations(void **state)
{
	struct recipe_table t = { .name = (char *)"api", .at_least = 1 };
	const struct {
		const Elf64_Dyn *d;
		size_t bytes;
	} all[] = { { rela, sizeof(rela) }, { relr, sizeof(relr) } };
	struct clika_error err;
	uint64_t at, *slots;
	struct vtables *x;
	size_t n;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
		struct elf_file *f = make_hole(all[i].d, all[i].bytes, 32);

		if (!f)
			skip();
		alarm(TOO_LONG);
		assert_true(pointer_table__find(&t, f, &at, &slots, &n, &err) <= 0);
		if (!vtables__read(f, &x, &err))
			vtables__free(x);
		alarm(0);
		elf_file__close(f);
	}
}

static void ends_looking_for_texts(void **state)
{
	struct elf_file *f = make_hole(rela, sizeof(rela), 32);
	struct recipe_texts *t;

	(void)state;
	if (!f)
		skip();
	alarm(TOO_LONG);
	assert_int_equal(recipe_texts__read(f, "ns::", &t, NULL), 0);
	assert_int_equal(recipe_texts__count(t), 0);
	alarm(0);
	recipe_texts__free(t);
	elf_file__close(f);
}

/* libelf would read all names of sections at once. */
static void keeps_no_table_of_names_of_any_size(void **state)
{
	struct recipe_layout l = { .name = (char *)"place",
				   .debug_type = (char *)"type",
				   .debug_member = (char *)"member" };
	struct elf_file *f = make_hole(rela, sizeof(rela), 2ull << 30);
	struct rusage before, after;
	int64_t value;

	(void)state;
	if (!f)
		skip();
	getrusage(RUSAGE_SELF, &before);
	assert_int_equal(layout__find(&l, f, &value, NULL), 0);
	getrusage(RUSAGE_SELF, &after);
	assert_true(after.ru_maxrss - before.ru_maxrss < 256 << 10);
	elf_file__close(f);
}

/* Debug information in which two typedefs are each other's, and one is its own. */
static const char circles[] = ".section .debug_abbrev,\"\",%progbits\n"
			      ".byte 1, 0x11, 1, 0, 0\n"
			      ".byte 2, 0x16, 0, 3, 8, 0x49, 0x13, 0, 0\n"
			      ".byte 0\n"
			      ".section .debug_info,\"\",%progbits\n"
			      "start: .long end - begin\n"
			      "begin: .value 4\n.long 0\n.byte 8\n"
			      ".byte 1\n"
			      "one: .byte 2\n.asciz \"one\"\n.long two - start\n"
			      "two: .byte 2\n.asciz \"two\"\n.long one - start\n"
			      "own: .byte 2\n.asciz \"own\"\n.long own - start\n"
			      ".byte 0\n"
			      "end:\n";

static void ends_in_circles_of_types(void **state)
{
	static const char *const types[] = { "one", "two", "own" };
	struct recipe_layout l = { .name = (char *)"place", .debug_member = (char *)"member" };
	const char *source = scratch__write("circles.s", circles, sizeof(circles) - 1);
	struct elf_file *f;
	int64_t value;

	(void)state;
	scratch__run("cc -shared -nostdlib -o '%s' '%s'", scratch__path("circles.so"), source);
	f = open_path(scratch__path("circles.so"));
	alarm(TOO_LONG);
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		l.debug_type = (char *)types[i];
		assert_int_equal(layout__find(&l, f, &value, NULL), 0);
	}
	alarm(0);
	elf_file__close(f);
}

/* As many units as fit: libdw keeps a part of each of them. */
static void keeps_no_units_without_end(void **state)
{
	static const char units[] = ".section .debug_abbrev,\"\",%progbits\n"
				    ".byte 1, 0x11, 0, 0, 0, 0\n"
				    ".section .debug_info,\"\",%progbits\n"
				    ".rept 1000000\n"
				    ".long 8\n.value 4\n.long 0\n.byte 8\n.byte 1\n"
				    ".endr\n";
	struct recipe_layout l = { .name = (char *)"place",
				   .debug_type = (char *)"type",
				   .debug_member = (char *)"member" };
	const char *source = scratch__write("units.s", units, sizeof(units) - 1);
	struct rusage before, after;
	struct elf_file *f;
	int64_t value;

	(void)state;
	scratch__run("cc -shared -nostdlib -o '%s' '%s'", scratch__path("units.so"), source);
	f = open_path(scratch__path("units.so"));
	getrusage(RUSAGE_SELF, &before);
	alarm(TOO_LONG);
	assert_int_equal(layout__find(&l, f, &value, NULL), 0);
	alarm(0);
	getrusage(RUSAGE_SELF, &after);
	assert_true(after.ru_maxrss - before.ru_maxrss < 256 << 10);
	elf_file__close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_reading_relocations),
		cmocka_unit_test(ends_looking_for_texts),
		cmocka_unit_test(keeps_no_table_of_names_of_any_size),
		cmocka_unit_test(ends_in_circles_of_types),
		cmocka_unit_test(keeps_no_units_without_end),
	};

	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
