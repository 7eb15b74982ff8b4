/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ELF file of a target: notes, markers, functions, bytes. Files are hostile input; nothing
 * of them is ever run. Opened by descriptor, so deleted and namespaced files work alike.
 */
#ifndef CLIKA_USER_PROBE_ELF_FILE_H
#define CLIKA_USER_PROBE_ELF_FILE_H

#include "include/wire.h"
#include "user/base/base.h"

struct elf_file;

struct elf_ident {
	uint16_t machine; /* EM_X86_64, EM_AARCH64 */
	bool is_64, is_exec_or_dyn;
	char build_id[64 + 1]; /* hex, "" = none */
};

/* Reads the headers only. -ENOEXEC: not ELF; -ENOTSUP: another machine or 32-bit (the message
 * says so); -EBADMSG: malformed. The file is mapped or read on demand; @fd is duped. */
int elf_file__open(int fd, const char *shown_as, struct elf_file **out, struct clika_error *err);
void elf_file__close(struct elf_file *f);
const struct elf_ident *elf_file__ident(const struct elf_file *f);
uint64_t elf_file__size(const struct elf_file *f); /* bytes */

/* vaddr <-> file offset by PT_LOAD; false when nothing of the file lies there. */
bool elf_file__offset(const struct elf_file *f, uint64_t vaddr, uint64_t *offset);
bool elf_file__vaddr(const struct elf_file *f, uint64_t offset, uint64_t *vaddr);
/* Lowest PT_LOAD vaddr, page-aligned: load bias = mapping start - this (for offset 0 mappings). */
uint64_t elf_file__base_vaddr(const struct elf_file *f);
/* Copies up to @n bytes at @vaddr from the file; returns bytes copied (0 when outside). */
size_t elf_file__read(const struct elf_file *f, uint64_t vaddr, void *to, size_t n);

/* The clika note (ABI in clika/markers.h). An object may hold several equal ones (one a
 * translation unit): they are united; different ones are an error. */
struct clika_note {
	uint32_t abi;
	uint64_t object_vaddr;
	uint64_t semaphore_vaddr, semaphore_offset;
	uint64_t probe_vaddr, probe_offset;
};
/* 1 found, 0 none, negative: malformed, or the probe site is not a nop. Program headers only. */
int elf_file__clika(const struct elf_file *f, struct clika_note *note, struct clika_error *err);

/* A stapsdt note. Duplicates (same pc, provider, name) are given once. */
struct usdt_site {
	const char *provider, *name, *args; /* live as long as the file is open */
	uint64_t pc_vaddr,
		pc_offset; /* adjusted by .stapsdt.base only when the note names a base */
	uint64_t semaphore_vaddr, semaphore_offset; /* 0 = none */
	bool is_nop;         /* 1-byte (x86) or any arm64 nop: safe to probe */
	bool is_nop5;        /* a 5-byte nop: never probed unless told it is safe */
	const char *refusal; /* why it must not be attached (pc_offset may be 0); NULL = may be */
};
/* Calls @fn for each; non-zero stops. Needs the note section only: cost does not grow with symbols. */
int elf_file__usdts(struct elf_file *f, int (*fn)(void *ctx, const struct usdt_site *s), void *ctx,
		    struct clika_error *err);

/*
 * "8@%rdi -4@$5 4@-20(%rbp,%rax,4)" to specs, for the file's machine. Returns the number of
 * arguments (<= WIRE_MAX_ARGS), or -ENOTSUP with a message that names the form that is not
 * understood (vector registers among them), -EINVAL when malformed.
 */
int argspec__parse(uint16_t machine, const char *args, struct wire_spec specs[WIRE_MAX_ARGS],
		   struct clika_error *err);

/* A function symbol (.symtab and .dynsym united; aliases at one address are given once, under
 * the first name that matched; IFUNCs, imports, size 0, data and the cold parts that compilers
 * split off are skipped and counted). Strings live until the callback returns. */
struct elf_func {
	const char *symbol;    /* as in the file */
	const char *demangled; /* NULL = not mangled */
	uint64_t vaddr, offset, size;
	int64_t rank; /* of elf_file__choose_functions() */
};
struct func_skips {
	uint32_t ifunc, no_size, not_code, cold;
};
/* Functions whose symbol or demangled name (with or without parameters) matches @glob, by address.
 * The symbol table of the debug file (/usr/lib/debug, by build id) counts too.
 * -ENODATA: the file has no symbol table at all ("stripped": message says what to do). */
int elf_file__functions(struct elf_file *f, const char *glob,
			int (*fn)(void *ctx, const struct elf_func *fu), void *ctx,
			struct func_skips *skips, struct clika_error *err);

/*
 * The same for any number of globs in one go: the caller says what a name is worth. Of the names of
 * one function the one with the lowest rank is given.
 */
struct func_chooser {
	void *ctx;
	/* False: no symbol of this name is wanted. Asked for every name of the file, so cheap. */
	bool (*maybe)(void *ctx, const char *symbol);
	/*
	 * Below 0: not wanted. Only what is code has a demangled name that counts; who needs it puts it
	 * in *@demangled, malloc'ed. -ENOMEM goes through as an error.
	 */
	int64_t (*rank)(void *ctx, const char *symbol, bool code, char **demangled);
};
int elf_file__choose_functions(struct elf_file *f, const struct func_chooser *c,
			       int (*fn)(void *ctx, const struct elf_func *fu), void *ctx,
			       struct func_skips *skips, struct clika_error *err);

/* DT_SONAME, NULL = none. Lives as long as the file is open. */
const char *elf_file__soname(struct elf_file *f);
/* Does the file export @name, by the hash table that a loader uses. */
bool elf_file__exports(struct elf_file *f, const char *name);

/*
 * Where a function's calls begin and end, found by a disassembler (Capstone): the best entry
 * (after endbr64 / bti where that is safe, never a 5-byte nop), and every return and tail-jump
 * instruction. Offsets are file offsets. A function whose code cannot be followed completely
 * (undecodable bytes, no way out found, too many exits) is refused with the reason.
 *
 * A jump counts as an exit only when that is sure: one that is taken for an exit wrongly would
 * end spans early, one that is missed leaves a frame that the next event on the thread with a
 * higher stack pointer closes. Conditional jumps out of the function are of the second kind (a
 * probe there fires whether or not they are taken). `unsure` counts them.
 */
#define FUNC_MAX_EXITS 64
/* How an exit is taken: by the condition of a jump (the low half of its opcode), or */
enum exit_how { EXIT_ALWAYS = 16, EXIT_RETURN, EXIT_TAIL };
struct early_exit {
	uint64_t offset;
	uint8_t how;
	/* Before the return: the stack pointer at the entry is as many words above the frame pointer, or
	 * the stack pointer. */
	bool from_fp;
	uint16_t words;
};
struct func_sites {
	uint64_t entry;
	uint32_t n_exits;
	uint32_t unsure; /* jumps that may leave the function but are not among the exits */
	uint64_t exits[FUNC_MAX_EXITS];
	bool tail_exit[FUNC_MAX_EXITS]; /* exits[i] is a jump out of the function */
	/* The same ways out for those who need not know what the function returns, in instructions that
	 * cost less to probe (early_exits.c); n_early 0: there are none. */
	uint32_t n_early;
	struct early_exit early[FUNC_MAX_EXITS];
};
int func_sites__find(struct elf_file *f, const struct elf_func *fu, struct func_sites *out,
		     struct clika_error *err);

#endif
