// SPDX-License-Identifier: Apache-2.0
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
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/scratch.h"
#include "user/probe/demangle.h"
#include "user/probe/elf_file.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

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

/* --- names ----------------------------------------------------------------------------------- */

struct found {
	char names[64][256]; /* symbols, in the order given */
	char demangled[64][512];
	uint64_t vaddr[64];
	size_t n;
	struct func_skips skips;
};

static int note_function(void *ctx, const struct elf_func *fu)
{
	struct found *f = ctx;

	assert_true(f->n < 64);
	snprintf(f->names[f->n], sizeof(f->names[0]), "%s", fu->symbol);
	snprintf(f->demangled[f->n], sizeof(f->demangled[0]), "%s",
		 fu->demangled ? fu->demangled : "");
	f->vaddr[f->n++] = fu->vaddr;
	return 0;
}

static int find(const char *path, const char *glob, struct found *found)
{
	struct elf_file *f = open_path(path);
	struct clika_error err = { 0 };
	int rc;

	memset(found, 0, sizeof(*found));
	rc = elf_file__functions(f, glob, note_function, found, &found->skips, &err);
	if (rc && rc != -ENODATA)
		fail_msg("%s: %s", glob, err.msg);
	elf_file__close(f);
	return rc;
}

static bool has(const struct found *f, const char *demangled)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		if (strcmp(*f->demangled[i] ? f->demangled[i] : f->names[i], demangled) == 0)
			return true;
	return false;
}

static const char cxx[] =
	"#include <string>\n"
	"#include <vector>\n"
	"namespace ns {\n"
	"struct Tensor { long n; long size() const; };\n"
	"__attribute__((noinline)) long Tensor::size() const { return n; }\n"
	"__attribute__((noinline)) long add(long a, long b) { return a + b; }\n"
	"__attribute__((noinline)) long add(const Tensor &a, const Tensor &b) { return a.n + b.n; "
	"}\n"
	"template <typename T> __attribute__((noinline)) T twice(T v) { return v + v; }\n"
	"template int twice<int>(int);\n"
	"template double twice<double>(double);\n"
	"__attribute__((noinline)) long operator+(const Tensor &a, long b) { return a.n + b; }\n"
	"struct Caller { long operator()(long x); };\n"
	"__attribute__((noinline)) long Caller::operator()(long x) { return x * 3; }\n"
	"__attribute__((noinline)) std::string name(const std::vector<std::string> &v)\n"
	"{ return v.empty() ? std::string() : v[0]; }\n"
	"namespace { __attribute__((noinline, used)) long hidden(long x) { return x * 7; } }\n"
	"}\n"
	"extern \"C\" {\n"
	"long plain(long x) { return x + 1; }\n"
	"long plain_alias(long x) __attribute__((alias(\"plain\")));\n"
	"typedef long (*fn)(long);\n"
	"static fn choose(void) { return plain; }\n"
	"long picked(long) __attribute__((ifunc(\"choose\")));\n"
	"long data_named_plain = 4;\n"
	"long unsized(long);\n"
	"long imported_plain(long);\n"
	"long uses(long x) { return imported_plain(x) + unsized(x); }\n"
	"}\n"
	"__asm__(\".globl unsized\\n.type unsized, @function\\nunsized: ret\\n\");\n";

static const char *cxx_library(void)
{
	static const char *path;

	if (!path)
		path = scratch__build("cxx.so", cxx, "c++ -O1 -fPIC -shared -std=c++17");
	return path;
}

static void matches_c_names_and_skips_what_is_no_function(void **state)
{
	struct found f;

	(void)state;
	assert_int_equal(find(cxx_library(), "plain", &f), 0);
	assert_int_equal(f.n, 1);
	assert_string_equal(f.names[0], "plain");
	assert_string_equal(f.demangled[0], "");
	find(cxx_library(), "*plain*", &f);
	assert_int_equal(f.n, 1); /* the alias is the same function */
	assert_int_equal(f.skips.not_code, 1);
	find(cxx_library(), "plain_alias", &f);
	assert_int_equal(f.n, 1);
	find(cxx_library(), "picked", &f);
	assert_int_equal(f.n, 0);
	assert_int_equal(f.skips.ifunc, 1);
	find(cxx_library(), "unsized", &f);
	assert_int_equal(f.n, 0);
	assert_int_equal(f.skips.no_size, 1);
	find(cxx_library(), "no such function", &f);
	assert_int_equal(f.n, 0);
}

static void matches_cxx_names_in_every_spelling(void **state)
{
	static const struct {
		const char *glob;
		size_t n;
		const char *one;
	} all[] = {
		{ "ns::add", 2, "ns::add(long, long)" },
		{ "ns::add(long, long)", 1, "ns::add(long, long)" },
		{ "ns::add(*Tensor*)", 1, "ns::add(ns::Tensor const&, ns::Tensor const&)" },
		{ "_ZN2ns3addEll", 1, "ns::add(long, long)" },
		{ "ns::Tensor::size", 1, "ns::Tensor::size() const" },
		{ "ns::twice<int>", 1, "int ns::twice<int>(int)" },
		{ "ns::twice<*>", 2, "double ns::twice<double>(double)" },
		{ "int ns::twice<int>(int)", 1, "int ns::twice<int>(int)" },
		{ "ns::operator+", 1, "ns::operator+(ns::Tensor const&, long)" },
		{ "ns::Caller::operator()", 1, "ns::Caller::operator()(long)" },
		{ "ns::(anonymous namespace)::hidden", 1,
		  "ns::(anonymous namespace)::hidden(long)" },
		{ "ns::*hidden*", 1, "ns::(anonymous namespace)::hidden(long)" },
		{ "ns::name", 1, NULL },
		{ "ns::[a]dd", 2, NULL },
		{ "ns::?dd", 2, NULL },
		{ "*::add", 2, NULL },
		{ "std::add", 0, NULL },
	};
	struct found f;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		assert_int_equal(find(cxx_library(), all[i].glob, &f), 0);
		if (f.n != all[i].n || (all[i].one && !has(&f, all[i].one)))
			fail_msg("%s: %zu functions, the first %s", all[i].glob, f.n,
				 f.n ? f.demangled[0] : "-");
	}
}

static void gives_functions_by_address_at_their_code(void **state)
{
	struct elf_file *file = open_path(cxx_library());
	struct found f;
	uint64_t offset;
	size_t i;

	(void)state;
	find(cxx_library(), "ns::*", &f);
	assert_true(f.n > 5);
	for (i = 0; i < f.n; i++) {
		assert_true(i == 0 || f.vaddr[i] > f.vaddr[i - 1]);
		assert_true(elf_file__offset(file, f.vaddr[i], &offset));
	}
	elf_file__close(file);
}

static void finds_exported_names_in_a_stripped_library(void **state)
{
	const char *out = scratch__path("stripped.so"), *bare = scratch__path("nosyms");
	struct clika_error err = { 0 };
	struct elf_file *file;
	struct found f;

	(void)state;
	scratch__run("strip -o '%s' '%s'", out, cxx_library());
	find(out, "ns::add", &f);
	assert_int_equal(f.n, 2);
	find(out, "*hidden*", &f);
	assert_int_equal(f.n, 0);
	/* no section headers at all: as a file is left by sstrip */
	scratch__run("printf '\\0\\0\\0\\0\\0\\0\\0\\0' | dd of='%s' bs=1 seek=40 conv=notrunc "
		     "2>/dev/null && printf '\\0\\0\\0\\0' | dd of='%s' bs=1 seek=60 conv=notrunc "
		     "2>/dev/null",
		     out, out);
	find(out, "ns::add", &f);
	assert_int_equal(f.n, 2);
	find(out, "plain", &f);
	assert_int_equal(f.n, 1);
	scratch__build("static", "int main(void) { return 0; }\n", "-static -s");
	scratch__run("mv '%s' '%s'", scratch__path("static"), bare);
	file = open_path(bare);
	assert_int_equal(elf_file__functions(file, "main", note_function, &f, NULL, &err),
			 -ENODATA);
	assert_non_null(strstr(err.msg, "stripped"));
	elf_file__close(file);
}

static void leaves_out_cold_parts(void **state)
{
	static const char source[] =
		"void outside(const char *);\n"
		"long hot(long x);\n"
		"__attribute__((noinline)) long hot(long x)\n"
		"{\n"
		"	if (__builtin_expect(x < 0, 0)) {\n"
		"		outside(\"a\"); outside(\"b\"); outside(\"c\");\n"
		"		__builtin_trap();\n"
		"	}\n"
		"	return x * 3;\n"
		"}\n"
		"__asm__(\".section .text.unlikely\\n.type hot.cold, @function\\n\"\n"
		"	\"hot.cold: nop\\nnop\\nud2\\n.size hot.cold, . - "
		"hot.cold\\n.text\\n\");\n";
	const char *path = scratch__build("cold.so", source,
					  "-O2 -fPIC -shared -fno-reorder-blocks-and-partition");
	struct found f;

	(void)state;
	find(path, "hot*", &f);
	assert_int_equal(f.n, 1);
	assert_string_equal(f.names[0], "hot");
	assert_int_equal(f.skips.cold, 1);
}

/* --- size ------------------------------------------------------------------------------------ */

/* Of this process: other load does not count. */
static uint64_t cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Sanitizers keep freed memory for a while: then only time is checked. */
static long peak_kib(void)
{
#ifdef SANITIZED
	return 0;
#else
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
#endif
}

#define N_SYMS 2000000u

struct layout {
	Elf64_Ehdr h;
	Elf64_Phdr load;
	Elf64_Shdr sh[6];
	char names[64];
	uint8_t code[64];
	uint8_t note[80];
};

static void put_note(struct layout *l)
{
	static const uint32_t head[] = { 8, 40, 3 };
	uint64_t pc = 0x10000 + offsetof(struct layout, code);

	memcpy(l->note, head, sizeof(head));
	memcpy(l->note + 12, "stapsdt", 8);
	memcpy(l->note + 20, &pc, 8);
	memcpy(l->note + 44, "acme\0mark\0", 11);
}

/*
 * A library of two million functions, written straight: no linker makes one in a test's time.
 * @name gives the name of each.
 */
static int write_large(unsigned n, int (*name)(char *to, unsigned i))
{
	int fd = memfd_create("large", MFD_CLOEXEC);
	FILE *out = fdopen(dup(fd), "w");
	struct layout l = {
		.h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		       .e_type = ET_DYN,
		       .e_machine = EM_X86_64,
		       .e_version = EV_CURRENT,
		       .e_phoff = offsetof(struct layout, load),
		       .e_shoff = offsetof(struct layout, sh),
		       .e_ehsize = sizeof(Elf64_Ehdr),
		       .e_phentsize = sizeof(Elf64_Phdr),
		       .e_phnum = 1,
		       .e_shentsize = sizeof(Elf64_Shdr),
		       .e_shnum = 6,
		       .e_shstrndx = 1 },
		.load = { .p_type = PT_LOAD,
			  .p_flags = PF_R | PF_X,
			  .p_vaddr = 0x10000,
			  .p_filesz = sizeof(l),
			  .p_memsz = sizeof(l) },
		.names = "\0.shstrtab\0.symtab\0.strtab\0.note.stapsdt\0.stapsdt.base",
	};
	Elf64_Sym sym = { .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			  .st_shndx = 4,
			  .st_size = 16,
			  .st_value = 0x10000 + offsetof(struct layout, code) };
	uint64_t strings = 1;
	char text[512];
	unsigned i;

	assert_true(fd >= 0 && out);
	memset(l.code, 0x90, sizeof(l.code));
	put_note(&l);
	l.sh[1] = (Elf64_Shdr){ .sh_name = 1,
				.sh_type = SHT_STRTAB,
				.sh_offset = offsetof(struct layout, names),
				.sh_size = sizeof(l.names) };
	l.sh[2] = (Elf64_Shdr){ .sh_name = 11,
				.sh_type = SHT_SYMTAB,
				.sh_link = 3,
				.sh_entsize = sizeof(sym),
				.sh_offset = sizeof(l),
				.sh_size = (uint64_t)(n + 1) * sizeof(sym) };
	for (i = 0; i < n; i++)
		strings += (uint64_t)name(text, i) + 1;
	l.sh[3] = (Elf64_Shdr){ .sh_name = 19,
				.sh_type = SHT_STRTAB,
				.sh_offset = sizeof(l) + l.sh[2].sh_size,
				.sh_size = strings };
	l.sh[4] = (Elf64_Shdr){ .sh_name = 27,
				.sh_type = SHT_NOTE,
				.sh_offset = offsetof(struct layout, note),
				.sh_size = 60,
				.sh_addralign = 4 };
	fwrite(&l, sizeof(l), 1, out);
	fwrite(&(Elf64_Sym){ 0 }, sizeof(sym), 1, out);
	for (strings = 1, i = 0; i < n; i++) {
		sym.st_name = (uint32_t)strings;
		fwrite(&sym, sizeof(sym), 1, out);
		strings += (uint64_t)name(text, i) + 1;
	}
	putc(0, out);
	for (i = 0; i < n; i++)
		fwrite(text, 1, (size_t)name(text, i) + 1, out);
	assert_int_equal(fclose(out), 0);
	return fd;
}

static int mangled_name(char *to, unsigned i)
{
	return sprintf(to, "_ZN2at6native10op_%07uERKNS_6TensorES3_l", i);
}

static int note_site(void *ctx, const struct usdt_site *s)
{
	(void)s;
	++*(int *)ctx;
	return 0;
}

static int count_function(void *ctx, const struct elf_func *fu)
{
	(void)fu;
	++*(int *)ctx;
	return 0;
}

static void two_million_symbols_cost_markers_nothing(void **state)
{
	int fd = write_large(N_SYMS, mangled_name), n = 0;
	long before = peak_kib();
	uint64_t start = cpu_ms();
	struct clika_note note;
	struct elf_file *f;

	(void)state;
	assert_int_equal(elf_file__open(fd, "large", &f, NULL), 0);
	assert_int_equal(elf_file__clika(f, &note, NULL), 0);
	assert_int_equal(elf_file__usdts(f, note_site, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_in_range(cpu_ms() - start, 0, 200);
	assert_in_range(peak_kib() - before, 0, 4096);

	n = 0;
	start = cpu_ms();
	assert_int_equal(elf_file__functions(f, "at::native::op_012345?", count_function, &n, NULL,
					     NULL),
			 0);
	assert_int_equal(n, 1); /* all lie at one address */
	assert_in_range(cpu_ms() - start, 0, 6000);
	assert_in_range(peak_kib() - before, 0, 60000);
	elf_file__close(f);
	close(fd);
}

/* "_Z1fSt4pairIiiES_IS0_S0_ES_IS1_S1_E...": 265 bytes that unfold to gigabytes. */
static int unfolding_name(char *to, unsigned i)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	int n = sprintf(to, "_Z4f%03uSt4pairIiiE", i % 1000), k;

	for (k = 0; k < 35; k++)
		n += sprintf(to + n, "S_IS%c_S%c_E", digits[k], digits[k]);
	return n;
}

static void does_not_unfold_names_to_gigabytes(void **state)
{
	int fd = write_large(1000, unfolding_name), n = 0;
	long before = peak_kib();
	uint64_t start = cpu_ms();
	struct elf_file *f;

	(void)state;
	assert_int_equal(elf_file__open(fd, "unfolding", &f, NULL), 0);
	assert_int_equal(elf_file__functions(f, "f0*", count_function, &n, NULL, NULL), 0);
	assert_int_equal(elf_file__functions(f, "*", count_function, &n, NULL, NULL), 0);
	assert_int_equal(n, 1);
	assert_in_range(cpu_ms() - start, 0, 2000);
	assert_in_range(peak_kib() - before, 0, 50000);
	elf_file__close(f);
	close(fd);
}

static void unfolds_names_as_they_are_met(void **state)
{
	char *name = demangle__name("_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE");

	(void)state;
	assert_string_equal(name,
			    "at::_ops::add_Tensor::call(at::Tensor const&, at::Tensor const&, "
			    "c10::Scalar const&)");
	assert_true(demangle__matches("at::_ops::*::call", name));
	assert_true(demangle__matches("*add_Tensor*", name));
	assert_false(demangle__matches("at::_ops::*::redispatch", name));
	free(name);
	name = demangle__name(
		"_ZNSt8_Rb_treeINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4pairIKS5_"
		"S5_ESt10_Select1stIS8_ESt4lessIS5_ESaIS8_EE24_M_get_insert_unique_posERS7_");
	assert_non_null(name);
	assert_true(demangle__matches("std::_Rb_tree<*>::_M_get_insert_unique_pos", name));
	free(name);
	assert_null(demangle__name("plain"));
	assert_null(demangle__name("_Z"));
	assert_null(demangle__name("_ZN2at"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_million_symbols_cost_markers_nothing),
		cmocka_unit_test(does_not_unfold_names_to_gigabytes),
		cmocka_unit_test(unfolds_names_as_they_are_met),
		cmocka_unit_test(matches_c_names_and_skips_what_is_no_function),
		cmocka_unit_test(matches_cxx_names_in_every_spelling),
		cmocka_unit_test(gives_functions_by_address_at_their_code),
		cmocka_unit_test(finds_exported_names_in_a_stripped_library),
		cmocka_unit_test(leaves_out_cold_parts),
	};

	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
