// SPDX-License-Identifier: Apache-2.0
/*
 * The dynamic symbol table without section headers. Some strippers remove those, the loader of
 * the target needs none: it goes by PT_DYNAMIC, and so does this.
 */
#include <string.h>

#include "user/probe/elf_internal.h"

#define MAX_DYNAMIC 4096u
#define MAX_SYMBOLS (64u << 20)
#define MAX_CHAIN 65536u

struct dynamic {
	uint64_t symbols, strings, strings_size, hash, gnu_hash, entry_size;
};

static void read_entries(const struct elf_file *f, const GElf_Phdr *ph, struct dynamic *d)
{
	uint64_t i, n = ph->p_filesz / sizeof(Elf64_Dyn);
	Elf64_Dyn e;

	for (i = 0; i < n && i < MAX_DYNAMIC; i++) {
		if (elf_file__pread(f, ph->p_offset + i * sizeof(e), &e, sizeof(e)) != sizeof(e) ||
		    e.d_tag == DT_NULL)
			return;
		switch (e.d_tag) {
		case DT_SYMTAB:
			d->symbols = e.d_un.d_ptr;
			break;
		case DT_STRTAB:
			d->strings = e.d_un.d_ptr;
			break;
		case DT_STRSZ:
			d->strings_size = e.d_un.d_val;
			break;
		case DT_SYMENT:
			d->entry_size = e.d_un.d_val;
			break;
		case DT_HASH:
			d->hash = e.d_un.d_ptr;
			break;
		case DT_GNU_HASH:
			d->gnu_hash = e.d_un.d_ptr;
			break;
		}
	}
}

static bool read_word(const struct elf_file *f, uint64_t vaddr, uint32_t *v)
{
	return elf_file__read(f, vaddr, v, sizeof(*v)) == sizeof(*v);
}

/* A table for lookups, so the number of symbols is where its longest chain ends. */
static uint64_t count_by_gnu_hash(const struct elf_file *f, uint64_t at)
{
	uint32_t head[4], buckets[256], word, last = 0;
	uint64_t i, k, n, chains;

	if (elf_file__read(f, at, head, sizeof(head)) != sizeof(head) || head[0] > MAX_SYMBOLS ||
	    head[2] > MAX_SYMBOLS)
		return 0;
	at += sizeof(head) + 8ull * head[2];
	for (i = 0; i < head[0]; i += n) {
		n = head[0] - i < ARRAY_SIZE(buckets) ? head[0] - i : ARRAY_SIZE(buckets);
		if (elf_file__read(f, at + 4 * i, buckets, 4 * n) != 4 * n)
			return 0;
		for (k = 0; k < n; k++)
			if (buckets[k] > last)
				last = buckets[k];
	}
	if (last < head[1])
		return head[1]; /* nothing is exported */
	chains = at + 4ull * head[0];
	for (i = 0; i < MAX_CHAIN; i++, last++) {
		if (!read_word(f, chains + 4ull * (last - head[1]), &word))
			return 0;
		if (word & 1) /* the end of a chain */
			return (uint64_t)last + 1;
	}
	return 0;
}

static uint64_t count_symbols(const struct elf_file *f, const struct dynamic *d)
{
	uint32_t n;

	/* The older table has a chain entry for each symbol. */
	if (d->hash && read_word(f, d->hash + 4, &n))
		return n;
	return d->gnu_hash ? count_by_gnu_hash(f, d->gnu_hash) : 0;
}

bool elf_file__dynamic_symbols(const struct elf_file *f, GElf_Shdr *symbols, GElf_Shdr *strings)
{
	struct dynamic d = { 0 };
	GElf_Phdr ph;
	size_t n, i;

	memset(symbols, 0, sizeof(*symbols));
	memset(strings, 0, sizeof(*strings));
	if (elf_getphdrnum(f->elf, &n) < 0)
		return false;
	for (i = 0; i < n; i++)
		if (gelf_getphdr(f->elf, (int)i, &ph) && ph.p_type == PT_DYNAMIC)
			read_entries(f, &ph, &d);
	if (d.entry_size != sizeof(Elf64_Sym) ||
	    !elf_file__offset(f, d.symbols, &symbols->sh_offset) ||
	    !elf_file__offset(f, d.strings, &strings->sh_offset))
		return false;
	symbols->sh_type = SHT_DYNSYM;
	symbols->sh_entsize = sizeof(Elf64_Sym);
	symbols->sh_size = count_symbols(f, &d) * sizeof(Elf64_Sym);
	strings->sh_type = SHT_STRTAB;
	strings->sh_size = d.strings_size;
	return symbols->sh_size > 0;
}
