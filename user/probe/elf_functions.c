// SPDX-License-Identifier: Apache-2.0
/*
 * Functions by name. Symbol tables of large libraries hold millions of names, so neither table
 * is ever held in memory: the symbols are read through once for where the names of functions
 * lie, then the names are read through in the order of their table.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/probe/demangle.h"
#include "user/probe/elf_internal.h"

#define SYMS_AT_ONCE 16384u
#define MAX_FUNCS (6u << 20)        /* in one table */
#define MAX_TABLE (1ull << 31)      /* bytes of a symbol table */
#define MAX_NAME 8192u              /* longer names match nothing */
#define MAX_NAME_BYTES (1ull << 30) /* read in all; overlapping names make more of them */
#define WINDOW (256u << 10)

enum match_kind { MATCH_IFUNC, MATCH_CODE, MATCH_NO_SIZE, MATCH_NOT_CODE, MATCH_COLD };

struct match {
	uint64_t vaddr, offset, size, order;
	int64_t rank;
	size_t name, demangled; /* in text; 0 = none */
	enum match_kind kind;
};

struct search {
	struct elf_file *f;                 /* whose addresses count */
	const struct func_chooser *chooser; /* NULL: cold parts only */
	bool any_table, has_symtab;
	struct buf text; /* names of matches */
	struct match *matches;
	size_t n, cap;
	uint64_t tables, order, name_bytes;
	struct clika_error *err;
};

struct names {
	const struct elf_file *f;
	uint64_t offset, size; /* of the string table */
	uint64_t at;           /* of the window within it */
	size_t len;
	char *window; /* WINDOW + 1 bytes */
};

/* The name at @off, NULL when it is cut off, too long or outside. Asked for in rising order. */
static const char *names__get(struct names *s, uint64_t off, size_t *len)
{
	const char *p;
	size_t left;

	if (off >= s->size)
		return NULL;
	if (off < s->at || off - s->at >= s->len ||
	    !memchr(s->window + (off - s->at), 0, s->len - (size_t)(off - s->at))) {
		size_t n = s->size - off < WINDOW ? (size_t)(s->size - off) : WINDOW;

		s->at = off;
		s->len = elf_file__pread(s->f, s->offset + off, s->window, n);
	}
	p = s->window + (off - s->at);
	left = s->len - (size_t)(off - s->at);
	if (left > MAX_NAME)
		left = MAX_NAME;
	*len = strnlen(p, left);
	return *len < left ? p : NULL;
}

static bool is_cold(const char *name)
{
	const char *p = strstr(name, ".cold");

	return p && p != name && (!p[5] || p[5] == '.');
}

static int add_cold(struct elf_file *f, const GElf_Sym *sym)
{
	if (f->n_colds == f->cap_colds) {
		size_t cap = f->cap_colds ? f->cap_colds * 2 : 256;
		void *p = reallocarray(f->colds, cap, sizeof(*f->colds));

		if (!p)
			return -ENOMEM;
		f->colds = p;
		f->cap_colds = cap;
	}
	f->colds[f->n_colds++] = (struct cold_part){ sym->st_value, sym->st_size };
	return 0;
}

static enum match_kind kind_of(const struct elf_file *f, const GElf_Sym *sym, const char *name,
			       uint64_t *offset)
{
	int type = GELF_ST_TYPE(sym->st_info);
	const struct elf_load *l;

	*offset = 0;
	if (type == STT_GNU_IFUNC)
		return MATCH_IFUNC;
	if (type != STT_FUNC || sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS)
		return MATCH_NOT_CODE;
	l = elf_file__load_at(f, sym->st_value);
	if (!l || !(l->flags & PF_X) || !elf_file__offset(f, sym->st_value, offset))
		return MATCH_NOT_CODE;
	if (is_cold(name))
		return MATCH_COLD;
	return sym->st_size ? MATCH_CODE : MATCH_NO_SIZE;
}

static int add_match(struct search *s, const GElf_Sym *sym, const char *name, const char *demangled,
		     int64_t rank)
{
	struct match *m;

	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		void *p = reallocarray(s->matches, cap, sizeof(*s->matches));

		if (!p)
			return -ENOMEM;
		s->matches = p;
		s->cap = cap;
	}
	m = &s->matches[s->n++];
	memset(m, 0, sizeof(*m));
	m->kind = kind_of(s->f, sym, name, &m->offset);
	m->vaddr = sym->st_value;
	m->size = sym->st_size;
	m->order = s->order;
	m->rank = rank;
	if (!s->text.len)
		buf__u8(&s->text, 0);
	m->name = s->text.len;
	buf__append(&s->text, name, strlen(name) + 1);
	if (demangled) {
		m->demangled = s->text.len;
		buf__append(&s->text, demangled, strlen(demangled) + 1);
	}
	return buf__error(&s->text);
}

static int look_at_symbol(struct search *s, const GElf_Sym *sym, const char *name)
{
	__cleanup_free char *demangled = NULL;
	bool code = GELF_ST_TYPE(sym->st_info) == STT_FUNC && sym->st_shndx != SHN_UNDEF;
	int64_t rank;

	if (!s->f->colds_read && code && sym->st_size && is_cold(name) && add_cold(s->f, sym))
		return -ENOMEM;
	if (!s->chooser)
		return 0;
	rank = s->chooser->rank(s->chooser->ctx, name, code, &demangled);
	if (rank < 0)
		return rank == -ENOMEM ? -ENOMEM : 0;
	if (!demangled)
		demangled = demangle__name(name);
	return add_match(s, sym, name, demangled, rank);
}

static int by_word(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Name offset and index of every symbol that may be a function; sorted by name offset. */
static int list_symbols(struct search *s, const struct elf_file *f, const GElf_Shdr *sh,
			uint64_t **list, size_t *n_list)
{
	uint64_t total = sh->sh_size / sizeof(Elf64_Sym), i, k, n;
	__cleanup_free Elf64_Sym *syms = malloc(SYMS_AT_ONCE * sizeof(*syms));
	size_t cap = 0, used = 0;

	*list = NULL;
	*n_list = 0;
	if (!syms)
		return error__set(s->err, -ENOMEM, "%s: out of memory", f->name);
	for (i = 0; i < total; i += n) {
		n = elf_file__pread(f, sh->sh_offset + i * sizeof(*syms), syms,
				    SYMS_AT_ONCE * sizeof(*syms)) /
		    sizeof(*syms);
		if (n > total - i)
			n = total - i;
		if (!n)
			return error__set(s->err, -EBADMSG, "%s: symbol table is cut off", f->name);
		for (k = 0; k < n; k++) {
			int type = ELF64_ST_TYPE(syms[k].st_info);

			if (!syms[k].st_name ||
			    (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_OBJECT))
				continue;
			if (used == MAX_FUNCS)
				return error__set(s->err, -E2BIG, "%s: more than %u symbols",
						  f->name, MAX_FUNCS);
			if (used == cap) {
				void *p;

				cap = cap ? cap + cap / 2 : 4096;
				p = reallocarray(*list, cap, sizeof(**list));
				if (!p)
					return error__set(s->err, -ENOMEM, "%s: out of memory",
							  f->name);
				*list = p;
			}
			(*list)[used++] = (uint64_t)syms[k].st_name << 32 | (i + k);
		}
	}
	if (used)
		qsort(*list, used, sizeof(**list), by_word);
	*n_list = used;
	return 0;
}

/* The symbols lie in the table's order, the names in another: one small read each, only for
 * names that are looked at. */
static int walk_names(struct search *s, const struct elf_file *f, const GElf_Shdr *sh,
		      struct names *names, const uint64_t *list, size_t n)
{
	size_t i, len;
	Elf64_Sym sym;
	int rc = 0;

	for (i = 0; i < n && !rc; i++) {
		const char *name = names__get(names, list[i] >> 32, &len);
		uint64_t index = list[i] & 0xffffffff;

		if (!name)
			continue;
		s->name_bytes += len;
		if (s->name_bytes > MAX_NAME_BYTES)
			return error__set(s->err, -EBADMSG, "%s: its symbol names overlap",
					  f->name);
		if (!(s->chooser && s->chooser->maybe(s->chooser->ctx, name)) &&
		    !(!s->f->colds_read && is_cold(name)))
			continue;
		if (elf_file__pread(f, sh->sh_offset + index * sizeof(sym), &sym, sizeof(sym)) !=
		    sizeof(sym))
			continue;
		s->order = s->tables << 32 | index;
		rc = look_at_symbol(s, (const GElf_Sym *)&sym, name);
	}
	if (rc)
		return error__set(s->err, rc, "%s: out of memory", f->name);
	return 0;
}

static int walk_table(struct search *s, const struct elf_file *f, const GElf_Shdr *sh,
		      const GElf_Shdr *str)
{
	__cleanup_free uint64_t *list = NULL;
	__cleanup_free char *window = NULL;
	struct names names = { .f = f };
	size_t n;
	int rc;

	if (sh->sh_entsize != sizeof(Elf64_Sym) || (sh->sh_flags & SHF_COMPRESSED) ||
	    sh->sh_size > MAX_TABLE || sh->sh_offset >= f->size || str->sh_type != SHT_STRTAB)
		return error__set(s->err, -EBADMSG, "%s: broken symbol table", f->name);
	s->any_table = true;
	s->tables++;
	rc = list_symbols(s, f, sh, &list, &n);
	if (rc)
		return rc;
	window = malloc(WINDOW + 1);
	if (!window)
		return error__set(s->err, -ENOMEM, "%s: out of memory", f->name);
	names.window = window;
	names.offset = str->sh_offset;
	names.size = str->sh_size;
	return walk_names(s, f, sh, &names, list, n);
}

/* .symtab before .dynsym: it also knows what is local. The format allows one of each. */
static int walk_file(struct search *s, struct elf_file *f)
{
	static const uint32_t types[] = { SHT_SYMTAB, SHT_DYNSYM };
	GElf_Shdr sh, str;
	Elf_Scn *scn;
	size_t i;
	int rc = 0;

	for (i = 0; i < ARRAY_SIZE(types) && !rc; i++) {
		for (scn = NULL; (scn = elf_nextscn(f->elf, scn));)
			if (gelf_getshdr(scn, &sh) && sh.sh_type == types[i])
				break;
		if (!scn)
			continue;
		if (!gelf_getshdr(elf_getscn(f->elf, sh.sh_link), &str))
			str.sh_type = SHT_NULL;
		rc = walk_table(s, f, &sh, &str);
		s->has_symtab |= types[i] == SHT_SYMTAB;
	}
	if (!rc && !s->any_table && elf_file__dynamic_symbols(f, &sh, &str))
		rc = walk_table(s, f, &sh, &str);
	return rc;
}

/* Distributions keep the symbol table of a stripped file apart, under its build id. */
struct elf_file *elf_file__open_debug(const struct elf_file *f)
{
	const char *id = f->ident.build_id;
	__cleanup_close int fd = -1;
	struct elf_file *debug;
	char path[160];

	if (strlen(id) < 4)
		return NULL;
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || elf_file__open(fd, path, &debug, NULL))
		return NULL;
	if (strcmp(debug->ident.build_id, id) == 0 && debug->ident.machine == f->ident.machine)
		return debug;
	elf_file__close(debug);
	return NULL;
}

static int walk_debug_file(struct search *s)
{
	struct elf_file *debug = elf_file__open_debug(s->f);
	int rc = debug ? walk_file(s, debug) : 0;

	elf_file__close(debug);
	return rc;
}

static int by_cold(const void *a, const void *b)
{
	const struct cold_part *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static int search__run(struct search *s)
{
	int rc = walk_file(s, s->f);

	if (!rc && !s->has_symtab)
		rc = walk_debug_file(s);
	if (s->f->colds_read)
		return rc;
	if (rc) {
		s->f->n_colds = 0;
		return rc;
	}
	if (s->f->n_colds)
		qsort(s->f->colds, s->f->n_colds, sizeof(*s->f->colds), by_cold);
	s->f->colds_read = true;
	return 0;
}

int elf_file__read_colds(struct elf_file *f)
{
	struct search s = { .f = f };

	return f->colds_read ? 0 : search__run(&s);
}

bool elf_file__in_cold_part(struct elf_file *f, uint64_t vaddr)
{
	size_t lo = 0, hi;

	if (elf_file__read_colds(f))
		return false;
	hi = f->n_colds;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->colds[mid].vaddr <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && vaddr - f->colds[lo - 1].vaddr < f->colds[lo - 1].size;
}

static int by_match(const void *a, const void *b, void *ctx)
{
	const struct match *x = a, *y = b;
	const char *text = ctx;

	if (x->vaddr != y->vaddr)
		return x->vaddr < y->vaddr ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->kind != MATCH_CODE)
		return strcmp(text + x->name, text + y->name);
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool same_match(const struct match *a, const struct match *b, const char *text)
{
	return a->vaddr == b->vaddr && a->kind == b->kind &&
	       (a->kind == MATCH_CODE || strcmp(text + a->name, text + b->name) == 0);
}

static int deliver(const struct search *s, int (*fn)(void *ctx, const struct elf_func *fu),
		   void *ctx, struct func_skips *skips)
{
	const char *text = (const char *)s->text.data;
	const struct match *resolver = NULL;
	size_t i;
	int rc = 0;

	if (s->n)
		qsort_r(s->matches, s->n, sizeof(*s->matches), by_match, s->text.data);
	for (i = 0; i < s->n && !rc; i++) {
		const struct match *m = &s->matches[i];
		struct elf_func fu = {
			.symbol = text + m->name,
			.demangled = m->demangled ? text + m->demangled : NULL,
			.vaddr = m->vaddr,
			.offset = m->offset,
			.size = m->size,
			.rank = m->rank,
		};

		if (i && same_match(m, m - 1, text))
			continue;
		if (m->kind == MATCH_IFUNC)
			resolver = m;
		skips->ifunc += m->kind == MATCH_IFUNC;
		skips->no_size += m->kind == MATCH_NO_SIZE;
		skips->not_code += m->kind == MATCH_NOT_CODE;
		skips->cold += m->kind == MATCH_COLD;
		/* A plain name at the address of an IFUNC names its resolver. */
		if (m->kind == MATCH_CODE && !(resolver && resolver->vaddr == m->vaddr))
			rc = fn(ctx, &fu);
	}
	return rc;
}

int elf_file__choose_functions(struct elf_file *f, const struct func_chooser *c,
			       int (*fn)(void *ctx, const struct elf_func *fu), void *ctx,
			       struct func_skips *skips, struct clika_error *err)
{
	struct search s = { .f = f, .chooser = c, .err = err };
	struct func_skips unused;
	int rc;

	if (!skips)
		skips = &unused;
	memset(skips, 0, sizeof(*skips));
	rc = search__run(&s);
	if (!rc && !s.any_table)
		rc = error__set(err, -ENODATA,
				"%s: stripped, it has no symbol table; its markers still work, "
				"for functions install its debug symbols under /usr/lib/debug",
				f->name);
	if (!rc)
		rc = deliver(&s, fn, ctx, skips);
	buf__free(&s.text);
	free(s.matches);
	return rc;
}

/* --- one glob ----------------------------------------------------------------------------------- */

struct one_glob {
	const char *glob;
	char *pieces; /* demangle__needles() */
};

static bool one__maybe(void *ctx, const char *symbol)
{
	const struct one_glob *o = ctx;

	const char *p;

	for (p = o->pieces; *p; p += strlen(p) + 1)
		if (!strstr(symbol, p))
			return false;
	return true;
}

static int64_t one__rank(void *ctx, const char *symbol, bool code, char **demangled)
{
	const struct one_glob *o = ctx;

	if (text__glob(o->glob, symbol))
		return 0;
	if (!code)
		return -1;
	*demangled = demangle__name(symbol);
	return *demangled && demangle__matches(o->glob, *demangled) ? 0 : -1;
}

int elf_file__functions(struct elf_file *f, const char *glob,
			int (*fn)(void *ctx, const struct elf_func *fu), void *ctx,
			struct func_skips *skips, struct clika_error *err)
{
	struct one_glob o = { .glob = glob };
	struct func_chooser c = { &o, one__maybe, one__rank };

	int rc;

	o.pieces = demangle__needles(glob);
	if (!o.pieces)
		return error__set(err, -ENOMEM, "%s: out of memory", f->name);
	rc = elf_file__choose_functions(f, &c, fn, ctx, skips, err);
	free(o.pieces);
	return rc;
}
