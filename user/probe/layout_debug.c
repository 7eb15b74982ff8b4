// SPDX-License-Identifier: Apache-2.0
/*
 * libdw reads the entries, but never the file: it gets an image made here, with the sections of the debug
 * information at sizes that were checked and nothing else.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "user/probe/elf_internal.h"
#include "user/probe/layout_debug.h"

#define MAX_BYTES (128u << 20)
#define MAX_ENTRIES (4u << 20)
#define MAX_UNITS 65536u               /* libdw keeps some kilobytes of each */
#define MAX_NAMES (16u << 20)          /* bytes of section names */
#define MAX_TIME_NS (5 * NSEC_PER_SEC) /* of the processor */
#define MAX_PEEL 32u                   /* typedefs and qualifiers in a row */
#define MAX_DEPTH 8u                   /* of namespaces, and of structures within structures */

/* --- the image ---------------------------------------------------------------------------------- */

static const char *const wanted[] = {
	".debug_info",     ".debug_types",       ".debug_abbrev", ".debug_str",
	".debug_line_str", ".debug_str_offsets", ".debug_addr",
};
#define N_WANTED ARRAY_SIZE(wanted)
#define N_SECTIONS (N_WANTED + 2) /* the empty one, and the names */

struct image {
	char *bytes;
	size_t n;
	GElf_Shdr from[N_WANTED]; /* sh_size 0 = the file does not have it */
	char names[256];
};

static void find_sections(const struct elf_file *f, struct image *im)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	const char *name;
	size_t names, i;

	/* libelf reads all of the names at once, however large they claim to be. */
	if (elf_getshdrstrndx(f->elf, &names) < 0 ||
	    !gelf_getshdr(elf_getscn(f->elf, names), &sh) || sh.sh_size > MAX_NAMES)
		return;
	while ((scn = elf_nextscn(f->elf, scn))) {
		if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_PROGBITS)
			continue;
		name = elf_strptr(f->elf, names, sh.sh_name);
		for (i = 0; name && i < N_WANTED; i++)
			if (!im->from[i].sh_size && !strcmp(name, wanted[i]))
				im->from[i] = sh;
	}
}

/* What it is when unpacked must not be too large either. */
static bool size_is_fine(const struct elf_file *f, const GElf_Shdr *sh, uint64_t *total)
{
	Elf64_Chdr ch;

	*total += sh->sh_size;
	if (sh->sh_size > MAX_BYTES || *total > MAX_BYTES)
		return false;
	if (!(sh->sh_flags & SHF_COMPRESSED))
		return true;
	if (sh->sh_size < sizeof(ch) ||
	    elf_file__pread(f, sh->sh_offset, &ch, sizeof(ch)) != sizeof(ch) ||
	    ch.ch_size > MAX_BYTES)
		return false;
	*total += ch.ch_size;
	return *total <= MAX_BYTES;
}

/* One after the other behind the header, each at a multiple of 8; then names and section headers. */
static bool lay_out(const struct elf_file *f, struct image *im, Elf64_Shdr *sh)
{
	uint64_t at = sizeof(Elf64_Ehdr), total = 0;
	size_t i, name = 1;

	for (i = 0; i < N_WANTED; i++) {
		if (!size_is_fine(f, &im->from[i], &total))
			return false;
		sh[i + 1].sh_name = (Elf64_Word)name;
		sh[i + 1].sh_type = SHT_PROGBITS;
		sh[i + 1].sh_flags = im->from[i].sh_flags & SHF_COMPRESSED;
		sh[i + 1].sh_offset = at;
		sh[i + 1].sh_size = im->from[i].sh_size;
		sh[i + 1].sh_addralign = im->from[i].sh_flags & SHF_COMPRESSED ? 8 : 1;
		at = (at + im->from[i].sh_size + 7) & ~7ull;
		name += (size_t)snprintf(im->names + name, sizeof(im->names) - name, "%s",
					 wanted[i]) +
			1;
	}
	sh[i + 1].sh_name = 0;
	sh[i + 1].sh_type = SHT_STRTAB;
	sh[i + 1].sh_offset = at;
	sh[i + 1].sh_size = sizeof(im->names);
	sh[i + 1].sh_addralign = 1;
	im->n = at + sizeof(im->names) + N_SECTIONS * sizeof(*sh);
	return im->from[0].sh_size > 0;
}

static bool make_image(const struct elf_file *f, struct image *im)
{
	Elf64_Shdr sh[N_SECTIONS] = { 0 };
	Elf64_Ehdr h = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = f->ident.machine,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(h),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = N_SECTIONS,
		.e_shstrndx = N_SECTIONS - 1,
	};
	size_t i;

	find_sections(f, im);
	if (!lay_out(f, im, sh))
		return false;
	h.e_shoff = im->n - sizeof(sh);
	im->bytes = calloc(1, im->n);
	if (!im->bytes)
		return false;
	memcpy(im->bytes, &h, sizeof(h));
	for (i = 0; i < N_WANTED; i++)
		if (elf_file__pread(f, im->from[i].sh_offset, im->bytes + sh[i + 1].sh_offset,
				    im->from[i].sh_size) != im->from[i].sh_size)
			return false;
	memcpy(im->bytes + sh[N_SECTIONS - 1].sh_offset, im->names, sizeof(im->names));
	memcpy(im->bytes + h.e_shoff, sh, sizeof(sh));
	return true;
}

/* --- the entries --------------------------------------------------------------------------------- */

struct lookup {
	const char *member;
	const void *declared[16]; /* places where the type is only declared */
	unsigned n_declared;
	int64_t offset;
	unsigned entries, units;
	uint64_t until; /* processor time of this thread */
};

static uint64_t processor_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

/* One step to the next sibling may go over all that lies below the entry, hence the time. */
static bool goes_on(struct lookup *k)
{
	if (!(++k->entries % 64) && processor_time() > k->until)
		k->entries = MAX_ENTRIES;
	return k->entries < MAX_ENTRIES;
}

/*
 * Attributes are those of the entry itself: libdw's functions that gather them from further entries
 * may open files that the entries name, or go in circles.
 */
static const char *name_of(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	return dwarf_attr(die, DW_AT_name, &attr) ? dwarf_formstring(&attr) : NULL;
}

static bool is_transparent(int tag)
{
	switch (tag) {
	case DW_TAG_typedef:
	case DW_TAG_const_type:
	case DW_TAG_volatile_type:
	case DW_TAG_restrict_type:
	case DW_TAG_atomic_type:
		return true;
	default:
		return false;
	}
}

/* What a member, base class or typedef is of, behind typedefs and qualifiers. */
static bool type_of(Dwarf_Die *of, Dwarf_Die *type)
{
	Dwarf_Attribute attr;
	Dwarf_Die at = *of;
	unsigned i;

	for (i = 0; i < MAX_PEEL; i++) {
		if (!dwarf_attr(&at, DW_AT_type, &attr) || !dwarf_formref_die(&attr, type))
			return false;
		if (!is_transparent(dwarf_tag(type)))
			return true;
		at = *type;
	}
	return false; /* a circle */
}

static bool is_structure(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

static bool offset_of(Dwarf_Die *member, int64_t *offset)
{
	Dwarf_Attribute attr;
	Dwarf_Word w;

	*offset = 0;
	if (dwarf_hasattr(member, DW_AT_bit_size))
		return false;
	if (!dwarf_attr(member, DW_AT_data_member_location, &attr))
		return true; /* of a union */
	if (dwarf_formudata(&attr, &w) || w > INT32_MAX)
		return false;
	*offset = (int64_t)w;
	return true;
}

/* Types may lie in units of their own, with a declaration that refers to them. */
static bool is_complete(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Die there;

	if (!dwarf_hasattr(die, DW_AT_declaration))
		return true;
	if (!dwarf_attr(die, DW_AT_signature, &attr) || !dwarf_formref_die(&attr, &there))
		return false;
	*die = there;
	return true;
}

static bool find_member(struct lookup *k, Dwarf_Die *structure, int64_t base, unsigned depth)
{
	Dwarf_Die die, type;
	int64_t offset;

	if (depth > MAX_DEPTH || dwarf_child(structure, &die))
		return false;
	do {
		int tag = dwarf_tag(&die);
		const char *name;

		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) ||
		    !offset_of(&die, &offset))
			continue;
		name = name_of(&die);
		if (tag == DW_TAG_member && name) {
			if (strcmp(name, k->member))
				continue;
			k->offset = base + offset;
			return true;
		}
		if (type_of(&die, &type) && is_structure(&type) && is_complete(&type) &&
		    find_member(k, &type, base + offset, depth + 1))
			return true;
	} while (goes_on(k) && dwarf_siblingof(&die, &die) == 0);
	return false;
}

/* The rest of @path behind @name and "::"; "" when @name is all of it; NULL when it is not that. */
static const char *behind(const char *path, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(path, name, n) != 0)
		return NULL;
	if (!path[n])
		return path + n;
	return path[n] == ':' && path[n + 1] == ':' ? path + n + 2 : NULL;
}

/* The structure that was declared in its namespace, then defined outside of it. */
static bool completes(struct lookup *k, Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Die before;
	unsigned i;

	if (!dwarf_attr(die, DW_AT_specification, &attr) || !dwarf_formref_die(&attr, &before))
		return false;
	for (i = 0; i < k->n_declared; i++)
		if (k->declared[i] == before.addr)
			return true;
	return false;
}

static bool is_it(struct lookup *k, Dwarf_Die *die)
{
	Dwarf_Die type;

	if (dwarf_tag(die) == DW_TAG_typedef)
		return type_of(die, &type) && is_structure(&type) && is_complete(&type) &&
		       find_member(k, &type, 0, 0);
	if (!is_structure(die))
		return false;
	type = *die;
	if (is_complete(&type))
		return find_member(k, &type, 0, 0);
	if (k->n_declared < ARRAY_SIZE(k->declared))
		k->declared[k->n_declared++] = die->addr;
	return false;
}

static bool find_type(struct lookup *k, Dwarf_Die *parent, const char *path, unsigned depth)
{
	Dwarf_Die die;

	if (depth > MAX_DEPTH || dwarf_child(parent, &die))
		return false;
	do {
		int tag = dwarf_tag(&die);
		bool structure = is_structure(&die);
		const char *name, *rest;

		if (!structure && tag != DW_TAG_namespace && tag != DW_TAG_typedef)
			continue;
		if (structure && dwarf_hasattr(&die, DW_AT_specification)) {
			if (completes(k, &die) && find_member(k, &die, 0, 0))
				return true;
			continue;
		}
		name = name_of(&die);
		rest = name ? behind(path, name) : NULL;
		if (!rest)
			continue;
		if (!*rest ? is_it(k, &die)
			   : tag != DW_TAG_typedef && find_type(k, &die, rest, depth + 1))
			return true;
	} while (goes_on(k) && dwarf_siblingof(&die, &die) == 0);
	return false;
}

int debug__member(const struct elf_file *f, const char *type, const char *member, int64_t *offset)
{
	struct lookup k = { .member = member, .until = processor_time() + MAX_TIME_NS };
	struct image im = { 0 };
	Dwarf_CU *unit = NULL;
	Dwarf *dw = NULL;
	Elf *elf = NULL;
	Dwarf_Die die;
	bool found = false;

	if (make_image(f, &im))
		elf = elf_memory(im.bytes, im.n);
	if (elf)
		dw = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	while (dw && !found && goes_on(&k) && k.units++ < MAX_UNITS &&
	       dwarf_get_units(dw, unit, &unit, NULL, NULL, &die, NULL) == 0) {
		k.n_declared = 0;
		found = find_type(&k, &die, type, 0);
	}
	if (found)
		*offset = k.offset;
	if (dw)
		dwarf_end(dw);
	if (elf)
		elf_end(elf);
	free(im.bytes);
	return found;
}
