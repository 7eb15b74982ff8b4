/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the elf_*.c files and func_sites.c only. */
#ifndef CLIKA_USER_PROBE_ELF_INTERNAL_H
#define CLIKA_USER_PROBE_ELF_INTERNAL_H

#include <elf.h>
#include <gelf.h>

#include "user/probe/elf_file.h"

/* Limits on what a file may make us read or keep; far above what real files need. */
#define ELF_MAX_PHDRS 1024u
#define ELF_MAX_SECTIONS 100000u
#define ELF_MAX_NOTE_BYTES (32u << 20)
#define ELF_MAX_SITES 200000u

struct elf_load {
	uint64_t vaddr, offset;
	uint64_t filesz; /* clamped to what the file really holds */
	uint64_t memsz;
	uint32_t flags;
};

struct elf_notes {
	Elf_Data *data;
	uint64_t vaddr; /* of the first byte; 0 when not allocated */
	bool allocated;
};

/* Part of a function that the compiler moved away ("name.cold"): never called, only jumped to. */
struct cold_part {
	uint64_t vaddr, size;
};

/* What PT_DYNAMIC tells; addresses are unchecked. */
struct elf_dynamic {
	uint64_t symbols, strings, strings_size, hash, gnu_hash, entry_size;
	uint64_t soname; /* in the strings; UINT64_MAX = none */
};

struct elf_file {
	int fd;
	Elf *elf;
	char *name;
	uint64_t size;
	struct elf_ident ident;

	struct elf_load *loads; /* by vaddr */
	size_t n_loads;

	struct elf_notes
		notes[32]; /* PT_NOTE first, those of sections when markers are asked for */
	size_t n_notes;
	uint64_t note_bytes;

	bool usdts_read;
	struct usdt_site *usdts; /* by pc, provider, name; strings lie in the notes */
	size_t n_usdts;

	bool dynamic_read;
	struct elf_dynamic dynamic;
	char *soname;

	bool colds_read;
	struct cold_part *colds; /* by vaddr */
	size_t n_colds, cap_colds;

	/* Slots of the procedure linkage table whose function gives memory back. */
	bool freeing_read;
	uint64_t *freeing;
	size_t n_freeing;

	/* Of func_sites.c: kept from one function to the next. */
	void *disasm;
	void (*disasm_free)(void *);
};

/* Bytes read at a file offset; fewer than @n at the end of the file or on an error. */
size_t elf_file__pread(const struct elf_file *f, uint64_t offset, void *to, size_t n);
/* The PT_LOAD whose memory image holds @vaddr, NULL = none. */
const struct elf_load *elf_file__load_at(const struct elf_file *f, uint64_t vaddr);
/* Fills colds; cheap when elf_file__functions() has gone over the names before. */
int elf_file__read_colds(struct elf_file *f);
bool elf_file__in_cold_part(struct elf_file *f, uint64_t vaddr);
/* The dynamic symbol table and its strings as PT_DYNAMIC tells them; false when it does not. */
bool elf_file__dynamic_symbols(struct elf_file *f, GElf_Shdr *symbols, GElf_Shdr *strings);
/* The file with the debug information of @f (/usr/lib/debug, by build id), NULL = none. */
struct elf_file *elf_file__open_debug(const struct elf_file *f);
/* What the index of .eh_frame says about the function around @vaddr; false = nothing. */
bool elf_file__fde_at(const struct elf_file *f, uint64_t vaddr, uint64_t *start, uint64_t *size);

/* Words of the file's data that the loader makes point to something in the file; by place. */
struct elf_relocs {
	struct elf_reloc {
		uint64_t at, to; /* both as addresses of the file */
	} * all;
	size_t n, cap;
	/* Where something of another kind begins: the lists of initialisers, the global offset table. */
	uint64_t borders[8];
	size_t n_borders;
};
int elf_relocs__read(const struct elf_file *f, struct elf_relocs *r, struct clika_error *err);
void elf_relocs__free(struct elf_relocs *r);
/* Is the code at @vaddr the file's way to free() or one of C++'s operators delete? */
bool elf_file__frees(struct elf_file *f, uint64_t vaddr);
bool elf_relocs__at(const struct elf_relocs *r, uint64_t at, uint64_t *to);
/* Index of the first whose place is not below @at. */
size_t elf_relocs__from(const struct elf_relocs *r, uint64_t at);

/* Reads the notes of a file range; appends to f->notes. */
int elf_file__add_notes(struct elf_file *f, uint64_t offset, uint64_t size, uint64_t align,
			uint64_t vaddr, bool allocated, struct clika_error *err);

#endif
