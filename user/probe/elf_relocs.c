// SPDX-License-Identifier: Apache-2.0
/*
 * Pointers in a file's data, as its dynamic relocations make the loader fill them in: DT_RELA, the
 * packed DT_RELR, and those of DT_JMPREL. Taken from PT_DYNAMIC, which needs no section headers.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/elf_internal.h"

#define MAX_DYNAMIC 4096u
#define MAX_RELOCS (4u << 20)
#define MAX_ENTRIES (16u << 20) /* of one table; files with holes hold any number of empty ones */
#define AT_ONCE 4096u
#define MAX_SLOTS (256u << 10) /* of the procedure linkage table */
#define MAX_FREEING 16u        /* of them that lead to free() and the like */

/* Older headers do not have them. */
#define TAG_RELRSZ 35
#define TAG_RELR 36
#define TAG_RELRENT 37

struct tables {
	uint64_t rela, rela_size, rela_entry, jmprel, jmprel_size, jmprel_type;
	uint64_t relr, relr_size, relr_entry, symbols, symbol_entry, strings;
	uint64_t got, init, init_size, fini, fini_size, preinit, preinit_size;
};

struct reader {
	const struct elf_file *f;
	struct elf_relocs *r;
	struct tables t;
	struct clika_error *err;
	uint64_t window_at; /* of @window in the file's addresses */
	size_t window_n;
	uint8_t window[64 << 10];
};

static void take_entry(const Elf64_Dyn *d, struct tables *t)
{
	static const struct {
		int64_t tag;
		size_t at;
	} all[] = {
		{ DT_RELA, offsetof(struct tables, rela) },
		{ DT_RELASZ, offsetof(struct tables, rela_size) },
		{ DT_RELAENT, offsetof(struct tables, rela_entry) },
		{ DT_JMPREL, offsetof(struct tables, jmprel) },
		{ DT_PLTRELSZ, offsetof(struct tables, jmprel_size) },
		{ DT_PLTREL, offsetof(struct tables, jmprel_type) },
		{ TAG_RELR, offsetof(struct tables, relr) },
		{ TAG_RELRSZ, offsetof(struct tables, relr_size) },
		{ TAG_RELRENT, offsetof(struct tables, relr_entry) },
		{ DT_SYMTAB, offsetof(struct tables, symbols) },
		{ DT_SYMENT, offsetof(struct tables, symbol_entry) },
		{ DT_STRTAB, offsetof(struct tables, strings) },
		{ DT_PLTGOT, offsetof(struct tables, got) },
		{ DT_INIT_ARRAY, offsetof(struct tables, init) },
		{ DT_INIT_ARRAYSZ, offsetof(struct tables, init_size) },
		{ DT_FINI_ARRAY, offsetof(struct tables, fini) },
		{ DT_FINI_ARRAYSZ, offsetof(struct tables, fini_size) },
		{ DT_PREINIT_ARRAY, offsetof(struct tables, preinit) },
		{ DT_PREINIT_ARRAYSZ, offsetof(struct tables, preinit_size) },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].tag == d->d_tag)
			*(uint64_t *)((char *)t + all[i].at) = d->d_un.d_val;
}

static void read_dynamic(const struct elf_file *f, struct tables *t)
{
	GElf_Phdr ph;
	size_t n, i;
	uint64_t k;
	Elf64_Dyn e;

	if (elf_getphdrnum(f->elf, &n) < 0)
		return;
	for (i = 0; i < n; i++)
		if (gelf_getphdr(f->elf, (int)i, &ph) && ph.p_type == PT_DYNAMIC)
			break;
	if (i == n)
		return;
	for (k = 0; k < ph.p_filesz / sizeof(e) && k < MAX_DYNAMIC; k++) {
		if (elf_file__pread(f, ph.p_offset + k * sizeof(e), &e, sizeof(e)) != sizeof(e) ||
		    e.d_tag == DT_NULL)
			return;
		take_entry(&e, t);
	}
}

static int add(struct reader *rd, uint64_t at, uint64_t to)
{
	struct elf_relocs *r = rd->r;

	if (r->n == MAX_RELOCS)
		return error__set(rd->err, -EBADMSG, "%s: more than %u relocations", rd->f->name,
				  MAX_RELOCS);
	if (r->n == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 1024;
		void *p = reallocarray(r->all, cap, sizeof(*r->all));

		if (!p)
			return error__set(rd->err, -ENOMEM, "%s: out of memory", rd->f->name);
		r->all = p;
		r->cap = cap;
	}
	r->all[r->n].at = at;
	r->all[r->n++].to = to;
	return 0;
}

/* A symbol that the file itself defines; another file may still put its own in its place. */
static bool find_symbol(const struct reader *rd, uint32_t index, uint64_t *value)
{
	Elf64_Sym sym;

	if (!index || rd->t.symbol_entry != sizeof(sym) ||
	    elf_file__read(rd->f, rd->t.symbols + (uint64_t)index * sizeof(sym), &sym,
			   sizeof(sym)) != sizeof(sym) ||
	    sym.st_shndx == SHN_UNDEF || sym.st_shndx >= SHN_LORESERVE ||
	    GELF_ST_TYPE(sym.st_info) == STT_GNU_IFUNC || GELF_ST_TYPE(sym.st_info) == STT_TLS)
		return false;
	*value = sym.st_value;
	return true;
}

static int take_rela(struct reader *rd, const Elf64_Rela *e)
{
	bool x86 = rd->f->ident.machine == EM_X86_64;
	uint64_t to = 0;

	switch (GELF_R_TYPE(e->r_info)) {
	case R_X86_64_RELATIVE:
		return x86 ? add(rd, e->r_offset, (uint64_t)e->r_addend) : 0;
	case R_AARCH64_RELATIVE:
		return x86 ? 0 : add(rd, e->r_offset, (uint64_t)e->r_addend);
	case R_X86_64_64:
	case R_X86_64_GLOB_DAT:
	case R_X86_64_JUMP_SLOT:
		if (!x86)
			return 0;
		break;
	case R_AARCH64_ABS64:
	case R_AARCH64_GLOB_DAT:
	case R_AARCH64_JUMP_SLOT:
		if (x86)
			return 0;
		break;
	default:
		return 0;
	}
	if (!find_symbol(rd, (uint32_t)GELF_R_SYM(e->r_info), &to))
		return 0;
	return add(rd, e->r_offset, to + (uint64_t)e->r_addend);
}

static int read_rela(struct reader *rd, uint64_t vaddr, uint64_t size)
{
	__cleanup_free Elf64_Rela *some = malloc(AT_ONCE * sizeof(*some));
	uint64_t i, left = size / sizeof(*some);
	size_t n, want;
	int rc = 0;

	if (left > MAX_ENTRIES)
		left = MAX_ENTRIES;
	if (!some)
		return error__set(rd->err, -ENOMEM, "%s: out of memory", rd->f->name);
	while (left && !rc) {
		want = left < AT_ONCE ? (size_t)left : AT_ONCE;
		n = elf_file__read(rd->f, vaddr, some, want * sizeof(*some)) / sizeof(*some);
		for (i = 0; i < n && !rc; i++)
			rc = take_rela(rd, &some[i]);
		if (n < want)
			break;
		vaddr += n * sizeof(*some);
		left -= n;
	}
	return rc;
}

/* The word that lies there in the file. Places come in rising order. */
static bool read_word(struct reader *rd, uint64_t vaddr, uint64_t *v)
{
	uint64_t in = vaddr - rd->window_at;

	if (in >= rd->window_n || rd->window_n - in < sizeof(*v)) {
		rd->window_at = vaddr;
		rd->window_n = elf_file__read(rd->f, vaddr, rd->window, sizeof(rd->window));
		in = 0;
	}
	if (rd->window_n < in + sizeof(*v))
		return false;
	memcpy(v, rd->window + in, sizeof(*v));
	return true;
}

static int take_packed(struct reader *rd, uint64_t at)
{
	uint64_t to;

	return read_word(rd, at, &to) ? add(rd, at, to) : 0;
}

/* An even word is the place of a pointer; an odd one has a bit for each of the 63 words behind the last place. */
static int read_relr(struct reader *rd)
{
	__cleanup_free uint64_t *words = malloc(AT_ONCE * sizeof(*words));
	uint64_t vaddr = rd->t.relr, left = rd->t.relr_size / sizeof(*words), at = 0;
	size_t n, want, i;
	unsigned bit;
	int rc = 0;

	if (left > MAX_ENTRIES)
		left = MAX_ENTRIES;
	if (!words)
		return error__set(rd->err, -ENOMEM, "%s: out of memory", rd->f->name);
	while (left && !rc) {
		want = left < AT_ONCE ? (size_t)left : AT_ONCE;
		n = elf_file__read(rd->f, vaddr, words, want * sizeof(*words)) / sizeof(*words);
		for (i = 0; i < n && !rc; i++) {
			if (!(words[i] & 1)) {
				rc = take_packed(rd, words[i]);
				at = words[i] + 8;
				continue;
			}
			for (bit = 1; bit < 64 && !rc; bit++)
				if (words[i] >> bit & 1)
					rc = take_packed(rd, at + 8 * (uint64_t)(bit - 1));
			at += 63 * 8;
		}
		if (n < want)
			break;
		vaddr += n * sizeof(*words);
		left -= n;
	}
	return rc;
}

static int by_place(const void *a, const void *b)
{
	const struct elf_reloc *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static void sort(struct elf_relocs *r)
{
	size_t i, n = 0;

	if (r->n)
		qsort(r->all, r->n, sizeof(*r->all), by_place);
	for (i = 0; i < r->n; i++)
		if (!n || r->all[i].at != r->all[n - 1].at)
			r->all[n++] = r->all[i];
	r->n = n;
}

static void find_borders(struct elf_relocs *r, const struct tables *t)
{
	const uint64_t all[] = {
		t->got,
		t->init,
		t->init + t->init_size,
		t->fini,
		t->fini + t->fini_size,
		t->preinit,
		t->preinit + t->preinit_size,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i])
			r->borders[r->n_borders++] = all[i];
}

int elf_relocs__read(const struct elf_file *f, struct elf_relocs *r, struct clika_error *err)
{
	struct reader *rd = calloc(1, sizeof(*rd));
	int rc = 0;

	memset(r, 0, sizeof(*r));
	if (!rd)
		return error__set(err, -ENOMEM, "%s: out of memory", f->name);
	rd->f = f;
	rd->r = r;
	rd->err = err;
	read_dynamic(f, &rd->t);
	find_borders(r, &rd->t);
	if (rd->t.rela_size && rd->t.rela_entry == sizeof(Elf64_Rela))
		rc = read_rela(rd, rd->t.rela, rd->t.rela_size);
	if (!rc && rd->t.jmprel_size && rd->t.jmprel_type == DT_RELA)
		rc = read_rela(rd, rd->t.jmprel, rd->t.jmprel_size);
	if (!rc && rd->t.relr_size && rd->t.relr_entry == sizeof(uint64_t))
		rc = read_relr(rd);
	free(rd);
	if (rc)
		elf_relocs__free(r);
	else
		sort(r);
	return rc;
}

void elf_relocs__free(struct elf_relocs *r)
{
	free(r->all);
	memset(r, 0, sizeof(*r));
}

size_t elf_relocs__from(const struct elf_relocs *r, uint64_t at)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->all[mid].at < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool elf_relocs__at(const struct elf_relocs *r, uint64_t at, uint64_t *to)
{
	size_t i = elf_relocs__from(r, at);

	if (i == r->n || r->all[i].at != at)
		return false;
	*to = r->all[i].to;
	return true;
}

/* --- the way to free() --------------------------------------------------------------------------- */

static bool is_freeing(const struct elf_file *f, const struct tables *t, const Elf64_Rela *e)
{
	static const char *const names[] = { "free",
					     "_ZdlPv",
					     "_ZdaPv",
					     "_ZdlPvm",
					     "_ZdaPvm",
					     "_ZdlPvSt11align_val_t",
					     "_ZdlPvmSt11align_val_t" };
	char name[32] = "";
	Elf64_Sym sym;
	size_t i;

	if (GELF_R_TYPE(e->r_info) != R_X86_64_JUMP_SLOT || t->symbol_entry != sizeof(sym) ||
	    elf_file__read(f, t->symbols + GELF_R_SYM(e->r_info) * sizeof(sym), &sym,
			   sizeof(sym)) != sizeof(sym))
		return false;
	elf_file__read(f, t->strings + sym.st_name, name, sizeof(name) - 1);
	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static void read_freeing(struct elf_file *f)
{
	__cleanup_free Elf64_Rela *some = malloc(AT_ONCE * sizeof(*some));
	struct tables t = { 0 };
	uint64_t left, at;
	size_t n, i;

	f->freeing_read = true;
	read_dynamic(f, &t);
	if (!some || t.jmprel_type != DT_RELA || f->ident.machine != EM_X86_64)
		return;
	left = t.jmprel_size / sizeof(*some);
	if (left > MAX_SLOTS)
		left = MAX_SLOTS;
	for (at = t.jmprel; left; at += n * sizeof(*some), left -= n) {
		size_t want = left < AT_ONCE ? (size_t)left : AT_ONCE;

		n = elf_file__read(f, at, some, want * sizeof(*some)) / sizeof(*some);
		for (i = 0; i < n; i++) {
			uint64_t *more;

			if (!is_freeing(f, &t, &some[i]))
				continue;
			if (f->n_freeing == MAX_FREEING)
				return;
			more = reallocarray(f->freeing, f->n_freeing + 1, sizeof(*more));
			if (!more)
				return;
			f->freeing = more;
			f->freeing[f->n_freeing++] = some[i].r_offset;
		}
		if (n < want)
			return;
	}
}

bool elf_file__frees(struct elf_file *f, uint64_t vaddr)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	uint8_t b[12] = { 0 };
	size_t at = 0, i;
	uint64_t slot;
	int32_t d;

	if (f->ident.machine != EM_X86_64 || elf_file__read(f, vaddr, b, sizeof(b)) < sizeof(b))
		return false;
	/* "jmp *slot(%rip)", with what control-flow enforcement puts before it */
	if (!memcmp(b, endbr64, sizeof(endbr64)))
		at += sizeof(endbr64);
	if (b[at] == 0xf2)
		at++;
	if (b[at] != 0xff || b[at + 1] != 0x25)
		return false;
	memcpy(&d, b + at + 2, sizeof(d));
	slot = vaddr + at + 6 + (uint64_t)(int64_t)d;
	if (!f->freeing_read)
		read_freeing(f);
	for (i = 0; i < f->n_freeing; i++)
		if (f->freeing[i] == slot)
			return true;
	return false;
}
