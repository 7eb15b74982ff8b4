// SPDX-License-Identifier: Apache-2.0
/*
 * libdw reads the tables, but it never sees the file: given one with bad section headers it leaks,
 * and it reads whatever sizes they claim. It gets a small image made here, with nothing in it but
 * the two tables at their distance from each other.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/elf_internal.h"
#include "user/probe/unwind.h"

#define MAX_TABLES (64u << 20)
#define PAYLOAD 128u /* behind the ELF header and one program header */

struct unwind {
	uint16_t machine;
	char *image;
	Elf *elf;
	Dwarf_CFI *cfi;
};

static bool find_header(const struct elf_file *f, GElf_Phdr *ph)
{
	size_t n, i;

	if (elf_getphdrnum(f->elf, &n) < 0)
		return false;
	for (i = 0; i < n; i++)
		if (gelf_getphdr(f->elf, (int)i, ph) && ph->p_type == PT_GNU_EH_FRAME)
			return true;
	return false;
}

/* The address of .eh_frame from the header of its index; linkers write one encoding only. */
static bool find_frames(const struct elf_file *f, const GElf_Phdr *ph, uint64_t *vaddr)
{
	uint8_t b[8];
	int32_t d;

	if (elf_file__read(f, ph->p_vaddr, b, sizeof(b)) != sizeof(b) || b[0] != 1 ||
	    b[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4))
		return false;
	memcpy(&d, b + 4, sizeof(d));
	*vaddr = ph->p_vaddr + 4 + (uint64_t)(int64_t)d;
	return true;
}

static size_t make_image(struct unwind *u, const struct elf_file *f, const GElf_Phdr *ph,
			 uint64_t from, size_t n)
{
	Elf64_Ehdr h = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = f->ident.machine,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(h),
		.e_ehsize = sizeof(h),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
	};
	Elf64_Phdr p = {
		.p_type = PT_GNU_EH_FRAME,
		.p_offset = PAYLOAD + (ph->p_vaddr - from),
		.p_vaddr = ph->p_vaddr,
		.p_paddr = ph->p_vaddr,
		.p_filesz = ph->p_filesz,
		.p_memsz = ph->p_filesz,
		.p_flags = PF_R,
		.p_align = 4,
	};

	u->image = calloc(1, PAYLOAD + n);
	if (!u->image || elf_file__read(f, from, u->image + PAYLOAD, n) != n)
		return 0;
	memcpy(u->image, &h, sizeof(h));
	memcpy(u->image + sizeof(h), &p, sizeof(p));
	return PAYLOAD + n;
}

static void open_tables(struct unwind *u, const struct elf_file *f)
{
	const struct elf_load *l;
	uint64_t frames, from, end;
	GElf_Phdr ph;
	size_t n;

	if (!find_header(f, &ph) || !find_frames(f, &ph, &frames))
		return;
	l = elf_file__load_at(f, ph.p_vaddr);
	if (!l || l != elf_file__load_at(f, frames))
		return;
	from = frames < ph.p_vaddr ? frames : ph.p_vaddr;
	end = l->vaddr + l->filesz;
	if (from >= end || end - from > MAX_TABLES || ph.p_filesz > end - ph.p_vaddr)
		return;
	n = make_image(u, f, &ph, from, (size_t)(end - from));
	if (!n)
		return;
	u->elf = elf_memory(u->image, n);
	if (u->elf)
		u->cfi = dwarf_getcfi_elf(u->elf);
}

struct unwind *unwind__new(const struct elf_file *f)
{
	struct unwind *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->machine = f->ident.machine;
	open_tables(u, f);
	return u;
}

void unwind__free(struct unwind *u)
{
	if (!u)
		return;
	if (u->cfi)
		dwarf_cfi_end(u->cfi);
	if (u->elf)
		elf_end(u->elf);
	free(u->image);
	free(u);
}

enum frame_state unwind__frame_at(struct unwind *u, uint64_t vaddr)
{
	bool x86 = u->machine == EM_X86_64;
	Dwarf_Word sp = x86 ? 7 : 31, above = x86 ? 8 : 0;
	enum frame_state st = FRAME_UNKNOWN;
	Dwarf_Frame *frame = NULL;
	Dwarf_Op *ops;
	size_t n;

	if (!u->cfi || dwarf_cfi_addrframe(u->cfi, vaddr, &frame) != 0)
		return FRAME_UNKNOWN;
	/* At the entry the frame begins right above the return address. */
	if (dwarf_frame_cfa(frame, &ops, &n) == 0 && n >= 1)
		st = n == 1 && ((ops[0].atom == DW_OP_breg0 + sp && ops[0].number == above) ||
				(ops[0].atom == DW_OP_bregx && ops[0].number == sp &&
				 ops[0].number2 == above))
			     ? FRAME_AS_AT_ENTRY
			     : FRAME_IN_USE;
	free(frame);
	return st;
}
