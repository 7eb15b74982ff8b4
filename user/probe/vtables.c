// SPDX-License-Identifier: Apache-2.0
/*
 * What the C++ ABI says lies in a file's data, as relocations see it:
 *
 *   type information of a class: address of the kind's own table + 16 (an imported symbol; the kinds are: no base,
 *       one base, several), address of the mangled name, then the base's type information, or flags, number and (base,
 *       flags | offset << 8) pairs
 *   table of a class: 0 (offset of the part to the whole), address of the type information, functions
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/demangle.h"
#include "user/probe/elf_internal.h"
#include "user/probe/vtables.h"

#define MAX_DYNAMIC 4096u
#define MAX_RELOCATIONS (4u << 20)
#define MAX_TYPES (1u << 18)
#define MAX_ALL_BASES (2u << 20)
#define MAX_NAME_BYTES (8u << 20) /* that are demangled, for one base */
#define MAX_NAME 4096
#define MAX_BASES 64
#define MAX_DEPTH 32

/* A word that the dynamic loader fills. Values above VALUE_LAST are no addresses. */
enum {
	VALUE_IMPORT = -1, /* some other symbol */
	VALUE_NO_BASE = -2,
	VALUE_ONE_BASE = -3,
	VALUE_BASES = -4,
};
#define VALUE_LAST ((uint64_t)-16)
struct word {
	uint64_t at, value;
};

struct type {
	uint64_t at, name_at;
	uint64_t *bases; /* those at offset 0 */
	unsigned n_bases;
	unsigned depth; /* + 1 below the base that is looked for; 0: does not derive from it */
	bool seen;
	uint64_t table; /* address of slot 0, 0 = none found */
};

struct vtables {
	struct elf_file *f;
	struct word *words; /* by address */
	size_t n_words, cap_words;
	struct type *types; /* by address */
	size_t n_types, cap_types;
	GElf_Shdr symbols, strings;
	bool has_symbols;
	size_t n_bases, name_bytes; /* looked at, demangled */
};

static int add_word(struct vtables *x, uint64_t at, uint64_t value)
{
	if (x->n_words == x->cap_words) {
		size_t cap = x->cap_words ? 2 * x->cap_words : 4096;
		struct word *more = realloc(x->words, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		x->words = more;
		x->cap_words = cap;
	}
	x->words[x->n_words++] = (struct word){ at, value };
	return 0;
}

static int word_order(const void *a, const void *b)
{
	const struct word *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static const struct word *word_at(const struct vtables *x, uint64_t at)
{
	struct word key = { at, 0 };

	return x->n_words ? bsearch(&key, x->words, x->n_words, sizeof(key), word_order) : NULL;
}

static uint64_t symbol_value(const struct vtables *x, uint64_t index, int64_t addend)
{
	char name[64] = { 0 };
	Elf64_Sym s;
	size_t i;
	static const struct {
		const char *symbol;
		int value;
	} kinds[] = {
		{ "_ZTVN10__cxxabiv117__class_type_infoE", VALUE_NO_BASE },
		{ "_ZTVN10__cxxabiv120__si_class_type_infoE", VALUE_ONE_BASE },
		{ "_ZTVN10__cxxabiv121__vmi_class_type_infoE", VALUE_BASES },
	};

	/* Not bounded by the number of symbols: hash tables of files that export nothing do not tell it. */
	if (!x->has_symbols || elf_file__pread(x->f, x->symbols.sh_offset + index * sizeof(s), &s,
					       sizeof(s)) != sizeof(s))
		return (uint64_t)VALUE_IMPORT;
	if (s.st_name < x->strings.sh_size)
		elf_file__pread(x->f, x->strings.sh_offset + s.st_name, name, sizeof(name) - 1);
	for (i = 0; addend == 16 && i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(name, kinds[i].symbol))
			return (uint64_t)kinds[i].value;
	return s.st_shndx != SHN_UNDEF && s.st_shndx < SHN_LORESERVE ? s.st_value + (uint64_t)addend
								     : (uint64_t)VALUE_IMPORT;
}

static int read_rela(struct vtables *x, uint64_t at, uint64_t bytes)
{
	bool arm = x->f->ident.machine == EM_AARCH64;
	uint32_t relative = arm ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE;
	uint32_t absolute = arm ? R_AARCH64_ABS64 : R_X86_64_64;
	Elf64_Rela buf[512];
	uint64_t done, last = (uint64_t)-1, value = 0;
	int64_t last_addend = 0;

	if (bytes / sizeof(buf[0]) > MAX_RELOCATIONS)
		return -E2BIG;
	for (done = 0; done + sizeof(buf[0]) <= bytes;) {
		size_t want = bytes - done < sizeof(buf) ? bytes - done : sizeof(buf);
		size_t n = elf_file__read(x->f, at + done, buf, want) / sizeof(buf[0]), i;
		int rc = 0;

		if (!n)
			break;
		for (i = 0; i < n && !rc; i++) {
			uint32_t type = (uint32_t)ELF64_R_TYPE(buf[i].r_info);
			uint64_t symbol = ELF64_R_SYM(buf[i].r_info);

			if (type == relative) {
				rc = add_word(x, buf[i].r_offset, (uint64_t)buf[i].r_addend);
			} else if (type == absolute) {
				/* Linkers sort them by symbol: mostly the one before again. */
				if (symbol != last || buf[i].r_addend != last_addend)
					value = symbol_value(x, symbol, buf[i].r_addend);
				last = symbol;
				last_addend = buf[i].r_addend;
				rc = add_word(x, buf[i].r_offset, value);
			}
		}
		if (rc)
			return rc;
		done += n * sizeof(buf[0]);
	}
	return 0;
}

static int add_relr(struct vtables *x, uint64_t at)
{
	uint64_t value;

	if (elf_file__read(x->f, at, &value, sizeof(value)) != sizeof(value))
		return 0;
	return x->n_words < MAX_RELOCATIONS ? add_word(x, at, value) : -E2BIG;
}

/* Addresses, each followed by bitmaps of which of the next 63 words are to be relocated too. */
static int read_relr(struct vtables *x, uint64_t at, uint64_t bytes)
{
	uint64_t i, bit, entry, next = 0;
	int rc = 0;

	for (i = 0; i < bytes / 8 && i < MAX_RELOCATIONS && !rc; i++) {
		if (elf_file__read(x->f, at + 8 * i, &entry, 8) != 8)
			break;
		if (!(entry & 1)) {
			rc = add_relr(x, entry);
			next = entry + 8;
			continue;
		}
		for (bit = 1; bit < 64 && !rc; bit++)
			if (entry >> bit & 1)
				rc = add_relr(x, next + 8 * (bit - 1));
		next += 8ull * 63;
	}
	return rc;
}

static int read_words(struct vtables *x)
{
	uint64_t rela = 0, rela_bytes = 0, relr = 0, relr_bytes = 0, i;
	size_t n, k;
	GElf_Phdr ph;
	Elf64_Dyn e;
	int rc;

	x->has_symbols = elf_file__dynamic_symbols(x->f, &x->symbols, &x->strings);
	if (elf_getphdrnum(x->f->elf, &n) < 0)
		return 0;
	for (k = 0; k < n; k++) {
		if (!gelf_getphdr(x->f->elf, (int)k, &ph) || ph.p_type != PT_DYNAMIC)
			continue;
		for (i = 0; i < ph.p_filesz / sizeof(e) && i < MAX_DYNAMIC; i++) {
			if (elf_file__pread(x->f, ph.p_offset + i * sizeof(e), &e, sizeof(e)) !=
				    sizeof(e) ||
			    e.d_tag == DT_NULL)
				break;
			if (e.d_tag == DT_RELA)
				rela = e.d_un.d_ptr;
			else if (e.d_tag == DT_RELASZ)
				rela_bytes = e.d_un.d_val;
			else if (e.d_tag == 36 /* DT_RELR */)
				relr = e.d_un.d_ptr;
			else if (e.d_tag == 35 /* DT_RELRSZ */)
				relr_bytes = e.d_un.d_val;
		}
	}
	rc = read_rela(x, rela, rela_bytes);
	if (!rc)
		rc = read_relr(x, relr, relr_bytes);
	if (!rc && x->n_words)
		qsort(x->words, x->n_words, sizeof(*x->words), word_order);
	return rc;
}

/* --- types --------------------------------------------------------------------------------------- */

static bool value_at(const struct vtables *x, uint64_t at, uint64_t *value)
{
	const struct word *w = word_at(x, at);

	*value = w ? w->value : 0;
	return w && w->value < VALUE_LAST;
}

static int add_base(struct type *t, uint64_t base)
{
	uint64_t *more = realloc(t->bases, (t->n_bases + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	t->bases = more;
	t->bases[t->n_bases++] = base;
	return 0;
}

static int read_bases(struct vtables *x, struct type *t, uint64_t kind)
{
	uint32_t head[2]; /* flags, number of bases */
	uint64_t base, flags, i;
	int rc = 0;

	if (kind == (uint64_t)VALUE_ONE_BASE)
		return value_at(x, t->at + 16, &base) ? add_base(t, base) : 0;
	if (kind != (uint64_t)VALUE_BASES ||
	    elf_file__read(x->f, t->at + 16, head, sizeof(head)) != sizeof(head))
		return 0;
	for (i = 0; i < head[1] && i < MAX_BASES && x->n_bases < MAX_ALL_BASES && !rc; i++) {
		uint64_t at = t->at + 24 + 16 * i;

		x->n_bases++;
		/* The lowest bit: a virtual base; the offset is above the flags. */
		if (elf_file__read(x->f, at + 8, &flags, 8) == 8 && !(flags & 1) && !(flags >> 8) &&
		    value_at(x, at, &base))
			rc = add_base(t, base);
	}
	return rc;
}

static int read_types(struct vtables *x)
{
	size_t i;
	int rc;

	for (i = 0; i < x->n_words; i++) {
		uint64_t kind = x->words[i].value;
		struct type *t;

		if (kind != (uint64_t)VALUE_NO_BASE && kind != (uint64_t)VALUE_ONE_BASE &&
		    kind != (uint64_t)VALUE_BASES)
			continue;
		if (x->n_types == x->cap_types) {
			size_t cap = x->cap_types ? 2 * x->cap_types : 256;

			if (cap > MAX_TYPES)
				return -E2BIG;
			t = realloc(x->types, cap * sizeof(*t));
			if (!t)
				return -ENOMEM;
			x->types = t;
			x->cap_types = cap;
		}
		t = &x->types[x->n_types];
		memset(t, 0, sizeof(*t));
		t->at = x->words[i].at;
		if (!value_at(x, t->at + 8, &t->name_at))
			continue;
		x->n_types++;
		rc = read_bases(x, t, kind);
		if (rc)
			return rc;
	}
	return 0;
}

static int type_order(const void *a, const void *b)
{
	const struct type *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static struct type *type_at(const struct vtables *x, uint64_t at)
{
	struct type key = { .at = at };

	return x->n_types ? bsearch(&key, x->types, x->n_types, sizeof(key), type_order) : NULL;
}

/* The mangled name as a symbol, so that it can be demangled; a star marks types that are local to the file. */
static bool read_name(const struct vtables *x, const struct type *t, char *name, size_t n)
{
	size_t got;

	if (n < 4)
		return false;
	memcpy(name, "_Z", 2);
	got = elf_file__read(x->f, t->name_at, name + 2, n - 3);
	name[2 + got] = 0;
	if (!memchr(name + 2, 0, got))
		return false;
	if (name[2] == '*')
		memmove(name + 2, name + 3, strlen(name + 3) + 1);
	return name[2] != 0;
}

/* Names may overlap, so that a small file has any number of long ones. */
static char *plain_name(struct vtables *x, const char *name)
{
	size_t n = strlen(name);

	if (n > MAX_NAME_BYTES - x->name_bytes)
		return NULL;
	x->name_bytes += n;
	return demangle__name(name);
}

/* Bases may form a diamond, and a hostile file a circle: each type is gone into once. */
static unsigned find_depth(struct vtables *x, struct type *t, unsigned level)
{
	unsigned i, depth = 0;

	if (t->seen || level > MAX_DEPTH)
		return t->depth;
	t->seen = true;
	for (i = 0; i < t->n_bases; i++) {
		struct type *base = type_at(x, t->bases[i]);
		unsigned d = base ? find_depth(x, base, level + 1) : 0;

		if (d && (!depth || d + 1 < depth))
			depth = d + 1;
	}
	t->depth = depth;
	return depth;
}

static bool mark_derived(struct vtables *x, const char *base)
{
	char name[MAX_NAME], last[256];
	const char *part = base, *p;
	bool found = false;
	size_t i;

	/* A class's last name occurs in the mangled one as it is: few need to be demangled. */
	while ((p = strstr(part, "::")))
		part = p + 2;
	snprintf(last, sizeof(last), "%.*s", (int)strcspn(part, "<"), part);
	for (i = 0; i < x->n_types; i++) {
		struct type *t = &x->types[i];
		char *plain;

		if (!read_name(x, t, name, sizeof(name)) || !strstr(name, last))
			continue;
		plain = plain_name(x, name);
		if (plain && !strcmp(plain, base)) {
			t->depth = 1;
			t->seen = true;
			found = true;
		}
		free(plain);
	}
	for (i = 0; found && i < x->n_types; i++)
		find_depth(x, &x->types[i], 0);
	return found;
}

/* --- tables -------------------------------------------------------------------------------------- */

static bool is_code(const struct vtables *x, uint64_t vaddr)
{
	const struct elf_load *l = elf_file__load_at(x->f, vaddr);

	return l && l->flags & PF_X;
}

/* What a slot may hold: a function, or one that is another library's (pure virtual ones are). */
static bool is_slot(const struct vtables *x, const struct word *w)
{
	return w->value < VALUE_LAST ? is_code(x, w->value) : w->value == (uint64_t)VALUE_IMPORT;
}

/* Destructors of an abstract class are never called through its table: compilers leave their two slots empty. */
static bool is_empty(const struct vtables *x, uint64_t at, size_t slots)
{
	uint64_t words[2] = { 1, 1 };

	return elf_file__read(x->f, at, words, 8 * slots) == 8 * slots && !words[0] &&
	       (slots < 2 || !words[1]);
}

static void find_tables(struct vtables *x)
{
	size_t i;

	for (i = 0; i + 1 < x->n_words; i++) {
		const struct word *w = &x->words[i];
		struct type *t = w->value < VALUE_LAST ? type_at(x, w->value) : NULL;

		if (!t || !t->depth || t->table || !is_slot(x, &w[1]))
			continue;
		if (w[1].at != w->at + 8 && (w[1].at != w->at + 24 || !is_empty(x, w->at + 8, 2)))
			continue;
		/* Tables of a further base have another offset. */
		if (is_empty(x, w->at - 8, 1) && !word_at(x, w->at - 8))
			t->table = w->at + 8;
	}
}

static void read_slots(const struct vtables *x, const struct type *t, struct vtable *v)
{
	const struct word *w = word_at(x, t->table - 8), *end = x->words + x->n_words;

	v->n_slots = 0;
	if (!w)
		return;
	for (w++; w < end && v->n_slots < VTABLE_MAX_SLOTS && is_slot(x, w); w++) {
		if (!v->n_slots && w->at == t->table + 16) {
			v->slots[0] = v->slots[1] = 0;
			v->n_slots = 2;
		}
		if (w->at != t->table + 8 * v->n_slots)
			break;
		v->slots[v->n_slots++] = w->value < VALUE_LAST ? w->value : 0;
	}
}

static int by_depth(const void *a, const void *b)
{
	const struct type *const *x = a, *const *y = b;

	if ((*x)->depth != (*y)->depth)
		return (*x)->depth < (*y)->depth ? -1 : 1;
	return type_order(*x, *y);
}

static int give_tables(struct vtables *x, int (*fn)(void *ctx, const struct vtable *v), void *ctx)
{
	const struct type **order = calloc(x->n_types + 1, sizeof(*order));
	char name[MAX_NAME];
	size_t i, n = 0;
	struct vtable v;
	int rc = 0;

	if (!order)
		return -ENOMEM;
	for (i = 0; i < x->n_types; i++)
		if (x->types[i].depth && x->types[i].table)
			order[n++] = &x->types[i];
	if (n)
		qsort(order, n, sizeof(*order), by_depth);
	for (i = 0; i < n && !rc; i++) {
		char *plain = read_name(x, order[i], name, sizeof(name)) ? plain_name(x, name)
									 : NULL;

		if (!plain)
			continue;
		v.class_name = plain;
		v.depth = order[i]->depth - 1;
		read_slots(x, order[i], &v);
		rc = fn(ctx, &v);
		free(plain);
	}
	free(order);
	return rc;
}

void vtables__free(struct vtables *x)
{
	size_t i;

	if (!x)
		return;
	for (i = 0; i < x->n_types; i++)
		free(x->types[i].bases);
	free(x->types);
	free(x->words);
	free(x);
}

int vtables__read(struct elf_file *f, struct vtables **out, struct clika_error *err)
{
	struct vtables *x = calloc(1, sizeof(*x));
	int rc = x ? 0 : -ENOMEM;

	*out = NULL;
	if (!rc) {
		x->f = f;
		rc = read_words(x);
	}
	if (!rc)
		rc = read_types(x);
	if (rc) {
		vtables__free(x);
		return error__set(err, rc, "%s: classes could not be read: %s", f->name,
				  strerror(-rc));
	}
	if (x->n_types)
		qsort(x->types, x->n_types, sizeof(*x->types), type_order);
	*out = x;
	return 0;
}

int vtables__each(struct vtables *x, const char *base, int (*fn)(void *ctx, const struct vtable *v),
		  void *ctx, struct clika_error *err)
{
	size_t i;
	int rc;

	x->name_bytes = 0;
	for (i = 0; i < x->n_types; i++) {
		x->types[i].depth = 0;
		x->types[i].seen = false;
		x->types[i].table = 0;
	}
	if (!mark_derived(x, base))
		return 0;
	find_tables(x);
	rc = give_tables(x, fn, ctx);
	if (rc == -ENOMEM)
		error__set(err, rc, "%s: out of memory", x->f->name);
	return rc ? rc : 1;
}
