// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/scratch.h"
#include "user/probe/elf_file.h"

/* --- helpers ------------------------------------------------------------------------------- */

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

struct bytes {
	uint8_t *p;
	size_t n;
};

static struct bytes slurp(const char *path)
{
	struct bytes b;
	char *data;

	assert_int_equal(file__read_all(AT_FDCWD, path, 64u << 20, &data, &b.n), 0);
	b.p = (uint8_t *)data;
	return b;
}

static int open_bytes(const void *p, size_t n, struct elf_file **f, struct clika_error *err)
{
	int fd = memfd_create("elf", MFD_CLOEXEC), rc;

	assert_true(fd >= 0);
	assert_int_equal(fd__write_all(fd, p, n), 0);
	rc = elf_file__open(fd, "bytes", f, err);
	close(fd);
	return rc;
}

static Elf64_Ehdr *ehdr(struct bytes b)
{
	return (Elf64_Ehdr *)b.p;
}

static Elf64_Shdr *section(struct bytes b, const char *name)
{
	Elf64_Shdr *sh = (Elf64_Shdr *)(b.p + ehdr(b)->e_shoff);
	const char *names = (const char *)b.p + sh[ehdr(b)->e_shstrndx].sh_offset;
	int i;

	for (i = 0; i < ehdr(b)->e_shnum; i++)
		if (strcmp(names + sh[i].sh_name, name) == 0)
			return &sh[i];
	return NULL;
}

struct sites {
	struct usdt_site s[64];
	size_t n;
};

static int collect(void *ctx, const struct usdt_site *s)
{
	struct sites *all = ctx;

	assert_true(all->n < ARRAY_SIZE(all->s));
	all->s[all->n++] = *s;
	return 0;
}

static const struct usdt_site *site(const struct sites *all, const char *name)
{
	size_t i;

	for (i = 0; i < all->n; i++)
		if (strcmp(all->s[i].name, name) == 0)
			return &all->s[i];
	return NULL;
}

/* --- headers and addresses ------------------------------------------------------------------ */

static int find_own_build_id(struct dl_phdr_info *info, size_t size, void *data)
{
	char *hex = data;
	int i;

	(void)size;
	if (info->dlpi_name[0]) /* the program itself has no name and comes first */
		return 1;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const uint8_t *p = (const uint8_t *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		const uint8_t *end = p + info->dlpi_phdr[i].p_memsz;
		uint32_t k;

		if (info->dlpi_phdr[i].p_type != PT_NOTE)
			continue;
		while (p < end) {
			const ElfW(Nhdr) *nh = (const void *)p;
			const uint8_t *name = p + sizeof(*nh);
			const uint8_t *desc = name + ((nh->n_namesz + 3) & ~3u);

			if (nh->n_type == NT_GNU_BUILD_ID && !memcmp(name, "GNU", 4))
				for (k = 0; k < nh->n_descsz; k++)
					sprintf(hex + 2 * k, "%02x", desc[k]);
			p = desc + ((nh->n_descsz + 3) & ~3u);
		}
	}
	return 1;
}

static void tells_machine_and_build_id_of_a_program(void **state)
{
	struct elf_file *f = open_path("/proc/self/exe");
	const struct elf_ident *id = elf_file__ident(f);
	char hex[129] = "";

	(void)state;
	dl_iterate_phdr(find_own_build_id, hex);
#ifdef __x86_64__
	assert_int_equal(id->machine, EM_X86_64);
#endif
	assert_true(id->is_64 && id->is_exec_or_dyn);
	assert_string_equal(id->build_id, hex);
	elf_file__close(f);
}

static int own_bias(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uint64_t *)data = info->dlpi_addr;
	return 1;
}

static void converts_addresses_and_reads_what_memory_holds(void **state)
{
	struct elf_file *f = open_path("/proc/self/exe");
	uint64_t bias = 0, vaddr, offset, back;
	uint8_t code[64];

	(void)state;
	dl_iterate_phdr(own_bias, &bias);
	vaddr = (uint64_t)(uintptr_t)converts_addresses_and_reads_what_memory_holds - bias;
	assert_true(elf_file__offset(f, vaddr, &offset));
	assert_true(elf_file__vaddr(f, offset, &back));
	assert_int_equal(back, vaddr);
	assert_int_equal(elf_file__read(f, vaddr, code, sizeof(code)), sizeof(code));
	assert_memory_equal(code, (void *)(uintptr_t)(vaddr + bias), sizeof(code));
	assert_false(elf_file__offset(f, UINT64_MAX - 5, &offset));
	assert_false(elf_file__vaddr(f, UINT64_MAX, &back));
	assert_int_equal(elf_file__read(f, UINT64_MAX, code, sizeof(code)), 0);
	elf_file__close(f);
}

static int refuse(const void *p, size_t n, struct clika_error *err)
{
	struct elf_file *f = (void *)1;
	int rc = open_bytes(p, n, &f, err);

	assert_true(rc < 0);
	assert_int_equal(err->code, rc);
	assert_null(f);
	return rc;
}

static void refuses_other_files_with_a_reason(void **state)
{
	struct bytes b = slurp("/proc/self/exe");
	struct clika_error err;
	struct elf_file *f;
	int fds[2];

	(void)state;
	assert_int_equal(refuse("", 0, &err), -ENOEXEC);
	assert_int_equal(refuse("#!/bin/sh\necho not an ELF file, but long enough for a header\n",
				60, &err),
			 -ENOEXEC);
	assert_int_equal(refuse(b.p, 40, &err), -EBADMSG);
	ehdr(b)->e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(refuse(b.p, b.n, &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "32-bit"));
	ehdr(b)->e_ident[EI_CLASS] = ELFCLASS64;
	ehdr(b)->e_machine = EM_PPC64;
	assert_int_equal(refuse(b.p, b.n, &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "machine"));
	ehdr(b)->e_machine = EM_X86_64;
	ehdr(b)->e_ident[EI_DATA] = ELFDATA2MSB;
	assert_int_equal(refuse(b.p, b.n, &err), -ENOTSUP);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(elf_file__open(fds[0], "pipe", &f, &err), -ENOEXEC);
	assert_int_equal(elf_file__open(-1, "closed", &f, &err), -EBADF);
	close(fds[0]);
	close(fds[1]);
	free(b.p);
}

/* --- the note of the batched transport ----------------------------------------------------- */

static const char marked[] = "#include <clika/markers.h>\n"
			     "void work(void);\n"
			     "void work(void)\n"
			     "{\n"
			     "	CLIKA_SPAN(\"work\");\n"
			     "	__asm__ volatile(\"\");\n"
			     "}\n";

static void check_note(const char *path)
{
	struct elf_file *f = open_path(path);
	struct clika_error err = { 0 };
	struct clika_note note;
	uint64_t vaddr;
	uint8_t byte;
	int rc = elf_file__clika(f, &note, &err);

	if (rc != 1)
		fail_msg("%s: %d %s", path, rc, err.msg);
	assert_int_equal(note.abi, 1);
	assert_int_equal(elf_file__read(f, note.probe_vaddr, &byte, 1), 1);
	assert_int_equal(byte, 0x90);
	assert_true(elf_file__vaddr(f, note.probe_offset, &vaddr));
	assert_int_equal(vaddr, note.probe_vaddr);
	assert_true(elf_file__vaddr(f, note.semaphore_offset, &vaddr));
	assert_int_equal(vaddr, note.semaphore_vaddr);
	assert_true(note.object_vaddr && note.object_vaddr % 8 == 0);
	elf_file__close(f);
}

static const char *marked_library(void)
{
	static const char *path;

	if (!path)
		path = scratch__build("marked.so", marked, "-O2 -fPIC -shared -g");
	return path;
}

static void finds_the_clika_note_even_without_any_section(void **state)
{
	const char *path = marked_library(), *stripped = scratch__path("stripped.so"), *bare;
	struct bytes b;

	(void)state;
	check_note(path);
	scratch__run("strip --strip-all -o '%s' '%s'", stripped, path);
	check_note(stripped);
	b = slurp(stripped);
	ehdr(b)->e_shoff = ehdr(b)->e_shnum = ehdr(b)->e_shstrndx = 0;
	bare = scratch__write("bare.so", b.p, b.n);
	check_note(bare);
	free(b.p);
}

static void finds_one_note_in_an_object_of_many_sources(void **state)
{
	const char *one = scratch__write("one.c", marked, strlen(marked));
	const char *two = scratch__path("two.c"), *out = scratch__path("many.so");

	(void)state;
	scratch__run("sed 's/work(/again(/' '%s' > '%s'", one, two);
	scratch__run("cc -Iinclude -O1 -fPIC -shared -o '%s' '%s' '%s'", out, one, two);
	check_note(out);
}

static void tells_that_there_is_no_note(void **state)
{
	struct elf_file *f = open_path("/proc/self/exe");
	struct clika_note note;

	(void)state;
	assert_int_equal(elf_file__clika(f, &note, NULL), 0);
	elf_file__close(f);
}

/* The note's descriptor in @b, found by its name. */
static uint8_t *note_desc(struct bytes b)
{
	size_t i;

	for (i = 12; i + 24 < b.n; i += 4)
		if (memcmp(b.p + i, "clika\0\0", 8) == 0 && b.p[i - 12] == 6 && b.p[i - 4] == 1)
			return b.p + i + 8;
	fail_msg("no clika note");
	return NULL;
}

static int clika_of(struct bytes b, struct clika_error *err)
{
	struct clika_note note;
	struct elf_file *f;
	int rc;

	assert_int_equal(open_bytes(b.p, b.n, &f, err), 0);
	err->code = 0;
	rc = elf_file__clika(f, &note, err);
	elf_file__close(f);
	return rc;
}

static void refuses_notes_that_lead_astray(void **state)
{
	struct bytes b = slurp(marked_library());
	struct clika_error err;
	uint8_t *desc = note_desc(b), keep[16];
	struct clika_note note;
	struct elf_file *f;
	int i;

	(void)state;
	memcpy(keep, desc, sizeof(keep));
	assert_int_equal(open_bytes(b.p, b.n, &f, &err), 0);
	assert_int_equal(elf_file__clika(f, &note, &err), 1);
	elf_file__close(f);

	desc[0] = 2;
	assert_int_equal(clika_of(b, &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "ABI 2"));
	desc[0] = 1;
	/* Far away, then a little off: object, semaphore, probe site. */
	for (i = 1; i < 4; i++) {
		memset(desc + 4 * i, 0x7f, 4);
		assert_int_equal(clika_of(b, &err), -EBADMSG);
		assert_int_equal(err.code, -EBADMSG);
		memcpy(desc, keep, sizeof(keep));
		desc[4 * i] ^= 1;
		assert_int_equal(clika_of(b, &err), -EBADMSG);
		memcpy(desc, keep, sizeof(keep));
	}
	b.p[note.probe_offset] = 0xcc;
	assert_int_equal(clika_of(b, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "nop"));
	b.p[note.probe_offset] = 0x90;
	assert_int_equal(clika_of(b, &err), 1);
	free(b.p);
}

static void reads_the_notes_of_an_arm64_library(void **state)
{
	struct elf_file *f = open_path("tests/fixtures/elf/arm64.so");
	struct wire_spec specs[WIRE_MAX_ARGS];
	struct sites all = { .n = 0 };
	struct clika_error err;
	struct clika_note note;

	(void)state;
	assert_int_equal(elf_file__ident(f)->machine, EM_AARCH64);
	assert_int_equal(elf_file__clika(f, &note, &err), 1);
	assert_int_equal(elf_file__usdts(f, collect, &all, &err), 0);
	assert_int_equal(all.n, 3);
	assert_true(all.s[0].is_nop && !all.s[0].refusal);
	assert_int_equal(argspec__parse(EM_AARCH64, site(&all, "forms")->args, specs, &err), 8);
	assert_int_equal(argspec__parse(EM_AARCH64, site(&all, "vector")->args, specs, &err),
			 -ENOTSUP);
	assert_int_not_equal(site(&all, "guarded")->semaphore_offset, 0);
	assert_int_equal(site(&all, "forms")->semaphore_offset, 0);
	elf_file__close(f);
}

/* --- stapsdt ------------------------------------------------------------------------------- */

static const char sdt[] =
	"#define _SDT_HAS_SEMAPHORES 1\n"
	"#include <sys/sdt.h>\n"
	"__extension__ unsigned short acme_guarded_semaphore "
	"__attribute__((section(\".probes\")));\n"
	"__extension__ unsigned short acme_second_semaphore "
	"__attribute__((section(\".probes\")));\n"
	"const unsigned short acme_constant_semaphore = 0;\n"
	"long f(long a, int b);\n"
	"long g(long a);\n"
	"long f(long a, int b) { STAP_PROBE2(acme, guarded, a, b); return a + b; }\n"
	"long g(long a) { STAP_PROBE1(acme, second, a); STAP_PROBE1(acme, constant, a); return a; "
	"}\n";

static const char *sdt_library(void)
{
	static const char *path;

	if (!path)
		path = scratch__build("sdt.so", sdt, "-O2 -fPIC -shared -g");
	return path;
}

static void sites_of(struct bytes b, struct sites *all)
{
	struct clika_error err;
	static struct elf_file *f;

	/* The strings live as long as the file: the one before is closed late. */
	elf_file__close(f);
	f = NULL;
	all->n = 0;
	if (!b.p)
		return;
	assert_int_equal(open_bytes(b.p, b.n, &f, &err), 0);
	if (elf_file__usdts(f, collect, all, &err))
		fail_msg("%s", err.msg);
}

static void finds_sdt_markers_with_arguments_and_semaphores(void **state)
{
	struct bytes b = slurp(sdt_library());
	struct wire_spec specs[WIRE_MAX_ARGS];
	Elf64_Shdr *probes = section(b, ".probes");
	const struct usdt_site *s;
	struct sites all;

	(void)state;
	sites_of(b, &all);
	assert_int_equal(all.n, 3);
	s = site(&all, "guarded");
	assert_non_null(s);
	assert_string_equal(s->provider, "acme");
	assert_true(s->is_nop && !s->is_nop5 && !s->refusal);
	assert_int_equal(b.p[s->pc_offset], 0x90);
	assert_in_range(s->semaphore_offset, probes->sh_offset,
			probes->sh_offset + probes->sh_size - 2);
	assert_int_equal(argspec__parse(EM_X86_64, s->args, specs, NULL), 2);
	assert_int_equal(specs[0].bytes, 8);
	assert_int_equal(specs[1].bytes, 4);
	assert_true(specs[0].is_signed && specs[1].is_signed);
	assert_int_not_equal(site(&all, "second")->semaphore_offset, s->semaphore_offset);
	s = site(&all, "constant");
	assert_int_equal(s->semaphore_offset, 0);
	assert_non_null(strstr(s->refusal, "writable"));
	sites_of((struct bytes){ 0 }, &all);
	free(b.p);
}

/* The descriptor of the n-th stapsdt note: pc, base, semaphore, then the strings. */
static uint8_t *sdt_desc(struct bytes b, int n)
{
	uint8_t *p = b.p + section(b, ".note.stapsdt")->sh_offset;
	Elf64_Nhdr nh;

	for (;;) {
		memcpy(&nh, p, sizeof(nh));
		p += sizeof(nh) + 8; /* "stapsdt" */
		if (!n--)
			return p;
		p += (nh.n_descsz + 3) & ~3u;
	}
}

enum { PC, BASE, SEMAPHORE };

static uint64_t sdt_get(struct bytes b, int n, int word)
{
	uint64_t v;

	memcpy(&v, sdt_desc(b, n) + 8 * word, sizeof(v));
	return v;
}

static void sdt_set(struct bytes b, int n, int word, uint64_t v)
{
	memcpy(sdt_desc(b, n) + 8 * word, &v, sizeof(v));
}

static void follows_the_base_only_when_the_note_names_one(void **state)
{
	struct bytes b = slurp(sdt_library());
	uint64_t pc = sdt_get(b, 0, PC), base = sdt_get(b, 0, BASE);
	uint64_t semaphore = sdt_get(b, 0, SEMAPHORE), moved = 0x100000;
	const struct usdt_site *s;
	struct sites all;

	(void)state;
	assert_int_not_equal(base, 0);
	/* As after prelink: everything moved by the same amount but the note. */
	sdt_set(b, 0, PC, pc - moved);
	sdt_set(b, 0, BASE, base - moved);
	sdt_set(b, 0, SEMAPHORE, semaphore - moved);
	sites_of(b, &all);
	s = site(&all, "guarded");
	assert_int_equal(s->pc_vaddr, pc);
	assert_int_equal(s->semaphore_vaddr, semaphore);
	assert_null(s->refusal);
	/* No base: taken as it stands, and that is no code. */
	sdt_set(b, 0, BASE, 0);
	sites_of(b, &all);
	s = site(&all, "guarded");
	assert_int_equal(s->pc_vaddr, pc - moved);
	assert_int_equal(s->pc_offset, 0);
	assert_non_null(s->refusal);
	sdt_set(b, 0, PC, pc);
	sdt_set(b, 0, SEMAPHORE, semaphore);
	sites_of(b, &all);
	assert_null(site(&all, "guarded")->refusal);
	assert_int_equal(site(&all, "guarded")->pc_vaddr, pc);
	sites_of((struct bytes){ 0 }, &all);
	free(b.p);
}

static void gives_duplicate_notes_once(void **state)
{
	struct bytes b = slurp(sdt_library());
	struct sites all;

	(void)state;
	sdt_set(b, 1, PC, sdt_get(b, 2, PC));
	memcpy(sdt_desc(b, 1) + 24, "acme\0twicex", 12);
	memcpy(sdt_desc(b, 2) + 24, "acme\0twicex", 12);
	sites_of(b, &all);
	assert_int_equal(all.n, 2);
	assert_non_null(site(&all, "twicex"));
	sites_of((struct bytes){ 0 }, &all);
	free(b.p);
}

static void refuses_sites_that_are_no_1_byte_nop(void **state)
{
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	struct bytes b = slurp(sdt_library());
	uint64_t offset;
	struct sites all;

	(void)state;
	sites_of(b, &all);
	offset = site(&all, "guarded")->pc_offset;
	memcpy(b.p + offset, nop5, sizeof(nop5));
	sites_of(b, &all);
	assert_true(site(&all, "guarded")->is_nop5);
	assert_false(site(&all, "guarded")->is_nop);
	assert_non_null(strstr(site(&all, "guarded")->refusal, "5-byte nop"));
	b.p[offset] = 0x55;
	sites_of(b, &all);
	assert_false(site(&all, "guarded")->is_nop5);
	assert_non_null(strstr(site(&all, "guarded")->refusal, "no nop"));
	assert_null(site(&all, "second")->refusal);
	sites_of((struct bytes){ 0 }, &all);
	free(b.p);
}

/* --- files that change or lie --------------------------------------------------------------- */

static int on_function(void *ctx, const struct elf_func *fu)
{
	struct func_sites sites;

	return func_sites__find(ctx, fu, &sites, NULL) == -ENOMEM;
}

static void use_everything(struct elf_file *f)
{
	struct clika_note note;
	struct clika_error err;
	struct sites all = { .n = 0 };
	uint8_t bytes[64];

	elf_file__clika(f, &note, &err);
	elf_file__usdts(f, collect, &all, &err);
	elf_file__functions(f, "*", on_function, f, NULL, &err);
	elf_file__read(f, elf_file__base_vaddr(f), bytes, sizeof(bytes));
}

static void survives_a_file_that_is_truncated_while_open(void **state)
{
	struct bytes b = slurp(sdt_library());
	size_t keep[] = { 0, 1, 64, 200, 0x1000, b.n - 1 }, i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(keep); i++) {
		int fd = memfd_create("elf", MFD_CLOEXEC);
		struct elf_file *f;

		assert_int_equal(fd__write_all(fd, b.p, b.n), 0);
		assert_int_equal(elf_file__open(fd, "cut", &f, NULL), 0);
		assert_int_equal(ftruncate(fd, (off_t)keep[i]), 0);
		use_everything(f);
		elf_file__close(f);
		close(fd);
	}
	free(b.p);
}

static void try_bytes(const struct bytes b)
{
	struct clika_error err;
	struct elf_file *f;

	if (open_bytes(b.p, b.n, &f, &err))
		return;
	use_everything(f);
	elf_file__close(f);
}

/* Every bit of a range, one at a time, and every byte as 0 and 0xff. */
static void flip(struct bytes b, size_t from, size_t to)
{
	size_t i;
	int bit;

	for (i = from; i < to && i < b.n; i++) {
		uint8_t keep = b.p[i];

		for (bit = 0; bit < 8; bit++) {
			b.p[i] = keep ^ (uint8_t)(1 << bit);
			try_bytes(b);
		}
		b.p[i] = 0;
		try_bytes(b);
		b.p[i] = 0xff;
		try_bytes(b);
		b.p[i] = keep;
	}
}

static void survives_any_flipped_bit_of_the_headers(void **state)
{
	struct bytes b = slurp("tests/fixtures/elf/arm64.so");

	(void)state;
	flip(b, 0, sizeof(Elf64_Ehdr) + ehdr(b)->e_phnum * sizeof(Elf64_Phdr));
	flip(b, ehdr(b)->e_shoff, b.n);
	free(b.p);
}

static void survives_any_flipped_bit_of_notes_and_tables(void **state)
{
	static const char *const names[] = { ".note.stapsdt", ".note.clika", ".dynsym",
					     ".dynstr",       ".eh_frame",   ".eh_frame_hdr" };
	struct bytes b = slurp("tests/fixtures/elf/arm64.so");
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		Elf64_Shdr *sh = section(b, names[i]);

		assert_non_null(sh);
		flip(b, sh->sh_offset, sh->sh_offset + sh->sh_size);
	}
	free(b.p);
}

static void survives_a_file_cut_off_anywhere(void **state)
{
	struct bytes b = slurp("tests/fixtures/elf/arm64.so");
	size_t n, all = b.n;

	(void)state;
	for (n = 0; n < all; n += n < 1024 ? 7 : 61) {
		uint8_t *copy = malloc(n ? n : 1); /* exact size: overruns are seen */

		memcpy(copy, b.p, n);
		try_bytes((struct bytes){ copy, n });
		free(copy);
	}
	free(b.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_machine_and_build_id_of_a_program),
		cmocka_unit_test(converts_addresses_and_reads_what_memory_holds),
		cmocka_unit_test(refuses_other_files_with_a_reason),
		cmocka_unit_test(finds_the_clika_note_even_without_any_section),
		cmocka_unit_test(finds_one_note_in_an_object_of_many_sources),
		cmocka_unit_test(tells_that_there_is_no_note),
		cmocka_unit_test(refuses_notes_that_lead_astray),
		cmocka_unit_test(reads_the_notes_of_an_arm64_library),
		cmocka_unit_test(finds_sdt_markers_with_arguments_and_semaphores),
		cmocka_unit_test(follows_the_base_only_when_the_note_names_one),
		cmocka_unit_test(gives_duplicate_notes_once),
		cmocka_unit_test(refuses_sites_that_are_no_1_byte_nop),
		cmocka_unit_test(survives_a_file_that_is_truncated_while_open),
		cmocka_unit_test(survives_any_flipped_bit_of_the_headers),
		cmocka_unit_test(survives_any_flipped_bit_of_notes_and_tables),
		cmocka_unit_test(survives_a_file_cut_off_anywhere),
	};

	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
