// SPDX-License-Identifier: Apache-2.0
/* What the notes of a file say: clika's own note and stapsdt markers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLIKA_ABI_ONLY
#include <clika/markers.h>

#include "user/probe/elf_internal.h"

#define STAPSDT_TYPE 3

int elf_file__add_notes(struct elf_file *f, uint64_t offset, uint64_t size, uint64_t align,
			uint64_t vaddr, bool allocated, struct clika_error *err)
{
	Elf_Data *data;

	if (!size || offset >= f->size)
		return 0;
	if (size > f->size - offset)
		size = f->size - offset;
	if (f->n_notes == ARRAY_SIZE(f->notes) || size > ELF_MAX_NOTE_BYTES - f->note_bytes)
		return error__set(err, -EBADMSG, "%s: more notes than a real file has", f->name);
	data = elf_getdata_rawchunk(f->elf, (int64_t)offset, size,
				    align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
	if (!data)
		return error__set(err, -EBADMSG, "%s: notes at %#llx: %s", f->name,
				  (unsigned long long)offset, elf_errmsg(-1));
	f->note_bytes += size;
	f->notes[f->n_notes++] = (struct elf_notes){ data, vaddr, allocated };
	return 0;
}

/* The first bytes at a probe site decide whether it may be patched at all. */
static void look_at_site(const struct elf_file *f, uint64_t vaddr, bool *nop, bool *nop5)
{
	static const uint8_t x86_nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	static const uint8_t arm64_nop[] = { 0x1f, 0x20, 0x03, 0xd5 };
	uint8_t b[5] = { 0 };
	size_t n = elf_file__read(f, vaddr, b, sizeof(b));

	*nop = *nop5 = false;
	if (f->ident.machine == EM_AARCH64) {
		*nop = n >= 4 && vaddr % 4 == 0 && memcmp(b, arm64_nop, 4) == 0;
	} else {
		*nop = n >= 1 && b[0] == 0x90;
		*nop5 = n == 5 && memcmp(b, x86_nop5, 5) == 0;
	}
}

static bool writable_offset(const struct elf_file *f, uint64_t vaddr, uint64_t *offset)
{
	const struct elf_load *l = elf_file__load_at(f, vaddr);

	/* The kernel counts in a u16 that must not cross a page and must come from the file. */
	return l && (l->flags & PF_W) && vaddr % 2 == 0 && vaddr - l->vaddr + 2 <= l->filesz &&
	       elf_file__offset(f, vaddr, offset) && *offset % 2 == 0;
}

static bool code_offset(const struct elf_file *f, uint64_t vaddr, uint64_t *offset)
{
	const struct elf_load *l = elf_file__load_at(f, vaddr);

	return l && (l->flags & PF_X) && elf_file__offset(f, vaddr, offset);
}

/* --- clika ----------------------------------------------------------------------------- */

static uint64_t displaced(const uint8_t *word, uint64_t vaddr)
{
	int32_t d;

	memcpy(&d, word, sizeof(d));
	return vaddr + (uint64_t)(int64_t)d;
}

static int read_clika(const struct elf_file *f, const uint8_t *desc, size_t n, uint64_t vaddr,
		      struct clika_note *note, struct clika_error *err)
{
	const struct elf_load *object;
	bool nop, nop5;

	memset(note, 0, sizeof(*note));
	if (n < 4)
		return error__set(err, -EBADMSG, "%s: clika note of %zu bytes", f->name, n);
	memcpy(&note->abi, desc, sizeof(note->abi));
	if (note->abi != CLIKA_ABI_VERSION)
		return error__set(err, -ENOTSUP,
				  "%s: its markers speak ABI %u, this program ABI %u", f->name,
				  note->abi, CLIKA_ABI_VERSION);
	if (n < 16)
		return error__set(err, -EBADMSG, "%s: clika note of %zu bytes", f->name, n);
	note->object_vaddr = displaced(desc + 4, vaddr + 4);
	note->semaphore_vaddr = displaced(desc + 8, vaddr + 8);
	note->probe_vaddr = displaced(desc + 12, vaddr + 12);

	object = elf_file__load_at(f, note->object_vaddr);
	if (!object || !(object->flags & PF_W) || note->object_vaddr % 8 ||
	    object->memsz - (note->object_vaddr - object->vaddr) < sizeof(struct clika_object))
		return error__set(err, -EBADMSG, "%s: clika note leads to no object", f->name);
	if (!writable_offset(f, note->semaphore_vaddr, &note->semaphore_offset))
		return error__set(err, -EBADMSG, "%s: clika note leads to no semaphore", f->name);
	if (!code_offset(f, note->probe_vaddr, &note->probe_offset))
		return error__set(err, -EBADMSG, "%s: clika note leads to no code", f->name);
	look_at_site(f, note->probe_vaddr, &nop, &nop5);
	if (!nop)
		return error__set(err, -EBADMSG,
				  "%s: the probe site of its markers is not a 1-byte nop", f->name);
	return 1;
}

static bool same_note(const struct clika_note *a, const struct clika_note *b)
{
	return a->object_vaddr == b->object_vaddr && a->semaphore_vaddr == b->semaphore_vaddr &&
	       a->probe_vaddr == b->probe_vaddr;
}

int elf_file__clika(const struct elf_file *f, struct clika_note *note, struct clika_error *err)
{
	size_t i, off, next, name, desc;
	struct clika_note one;
	GElf_Nhdr nh;
	int found = 0, rc;

	for (i = 0; i < f->n_notes; i++) {
		const struct elf_notes *s = &f->notes[i];

		if (!s->allocated)
			continue;
		for (off = 0; (next = gelf_getnote(s->data, off, &nh, &name, &desc)); off = next) {
			const uint8_t *p = s->data->d_buf;

			if (nh.n_type != CLIKA_NOTE_TYPE ||
			    nh.n_namesz != sizeof(CLIKA_NOTE_NAME) ||
			    memcmp(p + name, CLIKA_NOTE_NAME, sizeof(CLIKA_NOTE_NAME)) != 0)
				continue;
			rc = read_clika(f, p + desc, nh.n_descsz, s->vaddr + desc, &one, err);
			if (rc < 0)
				return rc;
			if (found && !same_note(&one, note))
				return error__set(err, -EBADMSG,
						  "%s: clika notes that contradict each other",
						  f->name);
			*note = one;
			found = 1;
		}
	}
	return found;
}

/* --- stapsdt ------------------------------------------------------------------------------ */

static bool section_is(const struct elf_file *f, const GElf_Shdr *names, const GElf_Shdr *sh,
		       const char *name)
{
	size_t n = strlen(name) + 1;
	char is[32];

	/* Straight from the file: a string table can be as large as the file. */
	return n <= sizeof(is) && sh->sh_name < names->sh_size &&
	       elf_file__pread(f, names->sh_offset + sh->sh_name, is, n) == n &&
	       memcmp(is, name, n) == 0;
}

/* Adds the notes of sections that no segment holds; finds where .stapsdt.base is now. */
static int read_note_sections(struct elf_file *f, uint64_t *base, struct clika_error *err)
{
	GElf_Shdr names = { 0 }, sh;
	Elf_Scn *scn = NULL;
	size_t strndx;
	int rc;

	*base = 0;
	if (elf_getshdrstrndx(f->elf, &strndx) == 0 && strndx)
		(void)gelf_getshdr(elf_getscn(f->elf, strndx), &names);
	while ((scn = elf_nextscn(f->elf, scn))) {
		if (!gelf_getshdr(scn, &sh))
			continue;
		if (sh.sh_type == SHT_NOTE && !(sh.sh_flags & SHF_ALLOC) &&
		    !(sh.sh_flags & SHF_COMPRESSED)) {
			rc = elf_file__add_notes(f, sh.sh_offset, sh.sh_size, sh.sh_addralign, 0,
						 false, err);
			if (rc)
				return rc;
		} else if (sh.sh_type == SHT_PROGBITS && (sh.sh_flags & SHF_ALLOC) &&
			   section_is(f, &names, &sh, ".stapsdt.base")) {
			*base = sh.sh_addr;
		}
	}
	return 0;
}

static const char *next_string(struct cursor *c)
{
	size_t left = cursor__left(c);
	const uint8_t *p = c->p, *nul = left ? memchr(p, 0, left) : NULL;

	if (!nul) {
		c->bad = true;
		return "";
	}
	c->p = nul + 1;
	return (const char *)p;
}

static int read_stapsdt(const struct elf_file *f, const uint8_t *desc, size_t n, uint64_t base_now,
			struct usdt_site *s, struct clika_error *err)
{
	struct cursor c = cursor__over(desc, n);
	const struct elf_load *l;
	uint64_t base;

	memset(s, 0, sizeof(*s));
	s->pc_vaddr = cursor__u64le(&c);
	base = cursor__u64le(&c);
	s->semaphore_vaddr = cursor__u64le(&c);
	s->provider = next_string(&c);
	s->name = next_string(&c);
	s->args = next_string(&c);
	if (c.bad)
		return error__set(err, -EBADMSG, "%s: a stapsdt note is cut off", f->name);
	/* Prelink moves code and section together, and leaves unallocated notes behind. */
	if (base && base_now) {
		s->pc_vaddr += base_now - base;
		if (s->semaphore_vaddr)
			s->semaphore_vaddr += base_now - base;
	}
	if (!code_offset(f, s->pc_vaddr, &s->pc_offset)) {
		s->pc_offset = 0;
		s->refusal = "its address is not in code";
		return 0;
	}
	look_at_site(f, s->pc_vaddr, &s->is_nop, &s->is_nop5);
	if (s->semaphore_vaddr && !writable_offset(f, s->semaphore_vaddr, &s->semaphore_offset)) {
		l = elf_file__load_at(f, s->semaphore_vaddr);
		s->semaphore_offset = 0;
		s->refusal = l && (l->flags & PF_W) ? "its semaphore is not in the file's data"
						    : "its semaphore is not in writable memory";
	} else if (s->is_nop5) {
		s->refusal = "it is a 5-byte nop, which the kernel may turn into a call that "
			     "overwrites live stack";
	} else if (!s->is_nop) {
		s->refusal = "there is no nop at its address";
	}
	return 0;
}

static int by_site(const void *a, const void *b)
{
	const struct usdt_site *x = a, *y = b;
	int d = x->pc_vaddr < y->pc_vaddr ? -1 : x->pc_vaddr > y->pc_vaddr;

	if (!d)
		d = strcmp(x->provider, y->provider);
	return d ? d : strcmp(x->name, y->name);
}

static int add_site(struct elf_file *f, const struct usdt_site *s, size_t *cap,
		    struct clika_error *err)
{
	if (f->n_usdts == ELF_MAX_SITES)
		return error__set(err, -E2BIG, "%s: more than %u markers", f->name, ELF_MAX_SITES);
	if (f->n_usdts == *cap) {
		size_t more = *cap ? *cap * 2 : 64;
		void *p = reallocarray(f->usdts, more, sizeof(*f->usdts));

		if (!p)
			return error__set(err, -ENOMEM, "%s: out of memory", f->name);
		f->usdts = p;
		*cap = more;
	}
	f->usdts[f->n_usdts++] = *s;
	return 0;
}

static int read_usdts(struct elf_file *f, struct clika_error *err)
{
	size_t i, n, off, next, name, desc, cap = 0;
	uint64_t base;
	GElf_Nhdr nh;
	int rc = read_note_sections(f, &base, err);

	if (rc)
		return rc;
	for (i = 0; i < f->n_notes; i++) {
		Elf_Data *data = f->notes[i].data;

		for (off = 0; (next = gelf_getnote(data, off, &nh, &name, &desc)); off = next) {
			const uint8_t *p = data->d_buf;
			struct usdt_site s;

			if (nh.n_type != STAPSDT_TYPE || nh.n_namesz != sizeof("stapsdt") ||
			    memcmp(p + name, "stapsdt", sizeof("stapsdt")) != 0)
				continue;
			rc = read_stapsdt(f, p + desc, nh.n_descsz, base, &s, err);
			if (!rc)
				rc = add_site(f, &s, &cap, err);
			if (rc)
				return rc;
		}
	}
	if (!f->n_usdts)
		return 0;
	qsort(f->usdts, f->n_usdts, sizeof(*f->usdts), by_site);
	for (i = n = 1; i < f->n_usdts; i++)
		if (by_site(&f->usdts[i], &f->usdts[n - 1]) != 0)
			f->usdts[n++] = f->usdts[i];
	f->n_usdts = n;
	return 0;
}

int elf_file__usdts(struct elf_file *f, int (*fn)(void *ctx, const struct usdt_site *s), void *ctx,
		    struct clika_error *err)
{
	size_t i;
	int rc;

	if (!f->usdts_read) {
		size_t notes = f->n_notes;

		rc = read_usdts(f, err);
		if (rc) {
			f->n_notes = notes;
			f->n_usdts = 0;
			return rc;
		}
		f->usdts_read = true;
	}
	for (i = 0; i < f->n_usdts; i++) {
		rc = fn(ctx, &f->usdts[i]);
		if (rc)
			return rc;
	}
	return 0;
}
