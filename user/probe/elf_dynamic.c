// SPDX-License-Identifier: Apache-2.0
/*
 * The dynamic symbol table without section headers. Some strippers remove those, the loader of
 * the target needs none: it goes by PT_DYNAMIC, and so does this.
 */
#include <stdlib.h>
#include <string.h>

#include "user/probe/elf_internal.h"

#define MAX_DYNAMIC 4096u
#define MAX_SYMBOLS (64u << 20)
#define MAX_CHAIN 65536u
#define MAX_SONAME 256u

static void read_entries(const struct elf_file *f, const GElf_Phdr *ph, struct elf_dynamic *d)
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
		case DT_SONAME:
			d->soname = e.d_un.d_val;
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

static uint64_t count_symbols(const struct elf_file *f, const struct elf_dynamic *d)
{
	uint32_t n;

	/* The older table has a chain entry for each symbol. */
	if (d->hash && read_word(f, d->hash + 4, &n))
		return n;
	return d->gnu_hash ? count_by_gnu_hash(f, d->gnu_hash) : 0;
}

static const struct elf_dynamic *dynamic_of(struct elf_file *f)
{
	GElf_Phdr ph;
	size_t n, i;

	if (f->dynamic_read)
		return &f->dynamic;
	f->dynamic_read = true;
	f->dynamic.soname = UINT64_MAX;
	if (elf_getphdrnum(f->elf, &n) < 0)
		return &f->dynamic;
	for (i = 0; i < n; i++)
		if (gelf_getphdr(f->elf, (int)i, &ph) && ph.p_type == PT_DYNAMIC)
			read_entries(f, &ph, &f->dynamic);
	return &f->dynamic;
}

bool elf_file__dynamic_symbols(struct elf_file *f, GElf_Shdr *symbols, GElf_Shdr *strings)
{
	const struct elf_dynamic *d = dynamic_of(f);

	memset(symbols, 0, sizeof(*symbols));
	memset(strings, 0, sizeof(*strings));
	if (d->entry_size != sizeof(Elf64_Sym) ||
	    !elf_file__offset(f, d->symbols, &symbols->sh_offset) ||
	    !elf_file__offset(f, d->strings, &strings->sh_offset))
		return false;
	symbols->sh_type = SHT_DYNSYM;
	symbols->sh_entsize = sizeof(Elf64_Sym);
	symbols->sh_size = count_symbols(f, d) * sizeof(Elf64_Sym);
	strings->sh_type = SHT_STRTAB;
	strings->sh_size = d->strings_size;
	return symbols->sh_size > 0;
}

const char *elf_file__soname(struct elf_file *f)
{
	const struct elf_dynamic *d = dynamic_of(f);
	char name[MAX_SONAME];
	size_t n;

	if (f->soname || d->soname >= d->strings_size)
		return f->soname;
	n = elf_file__read(f, d->strings + d->soname, name, sizeof(name));
	if (n && *name && memchr(name, 0, n))
		f->soname = strdup(name);
	return f->soname;
}

/* --- lookup ------------------------------------------------------------------------------------ */

/* Is symbol @index a defined one named @name. */
static bool symbol_is(const struct elf_file *f, const struct elf_dynamic *d, uint64_t index,
		      const char *name, size_t len)
{
	char text[512];
	size_t done = 0, n;
	Elf64_Sym sym;

	if (elf_file__read(f, d->symbols + index * sizeof(sym), &sym, sizeof(sym)) != sizeof(sym) ||
	    sym.st_shndx == SHN_UNDEF || sym.st_name >= d->strings_size)
		return false;
	for (len++; done < len; done += n) {
		n = len - done < sizeof(text) ? len - done : sizeof(text);
		if (elf_file__read(f, d->strings + sym.st_name + done, text, n) != n ||
		    memcmp(text, name + done, n) != 0)
			return false;
	}
	return true;
}

static bool in_gnu_hash(const struct elf_file *f, const struct elf_dynamic *d, const char *name,
			size_t len)
{
	uint64_t bloom, at = d->gnu_hash, chains;
	uint32_t head[4], h = 5381, index, word;
	size_t i;

	for (i = 0; i < len; i++)
		h = h * 33 + (unsigned char)name[i];
	if (elf_file__read(f, at, head, sizeof(head)) != sizeof(head) || !head[0] || !head[2])
		return false;
	at += sizeof(head);
	if (elf_file__read(f, at + 8ull * (h / 64 % head[2]), &bloom, 8) != 8 ||
	    !(bloom >> (h % 64) & 1) || !(bloom >> ((h >> (head[3] & 31)) % 64) & 1))
		return false;
	at += 8ull * head[2];
	if (!read_word(f, at + 4ull * (h % head[0]), &index) || index < head[1])
		return false;
	chains = at + 4ull * head[0];
	for (i = 0; i < MAX_CHAIN; i++, index++) {
		if (!read_word(f, chains + 4ull * (index - head[1]), &word))
			return false;
		if ((word | 1) == (h | 1) && symbol_is(f, d, index, name, len))
			return true;
		if (word & 1)
			return false;
	}
	return false;
}

static bool in_hash(const struct elf_file *f, const struct elf_dynamic *d, const char *name,
		    size_t len)
{
	uint32_t n_buckets, n_chains, h = 0, high, index;
	size_t i;

	for (i = 0; i < len; i++) {
		h = (h << 4) + (unsigned char)name[i];
		high = h & 0xf0000000;
		h = (h ^ high >> 24) & ~high;
	}
	if (!read_word(f, d->hash, &n_buckets) || !read_word(f, d->hash + 4, &n_chains) ||
	    !n_buckets || !read_word(f, d->hash + 8 + 4ull * (h % n_buckets), &index))
		return false;
	for (i = 0; i < MAX_CHAIN && index && index < n_chains; i++) {
		if (symbol_is(f, d, index, name, len))
			return true;
		if (!read_word(f, d->hash + 8 + 4ull * n_buckets + 4ull * index, &index))
			return false;
	}
	return false;
}

bool elf_file__exports(struct elf_file *f, const char *name)
{
	const struct elf_dynamic *d = dynamic_of(f);
	size_t len = strlen(name);

	if (d->entry_size != sizeof(Elf64_Sym))
		return false;
	if (d->gnu_hash)
		return in_gnu_hash(f, d, name, len);
	return d->hash && in_hash(f, d, name, len);
}
