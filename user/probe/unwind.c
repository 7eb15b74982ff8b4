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
#include "user/probe/layout.h"
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

/* --- the index of functions ------------------------------------------------------------------------ */

/* A row of the index: both relative to its header. Linkers write no other encoding. */
struct index_row {
	int32_t start, fde;
};

static bool read_row(const struct elf_file *f, uint64_t header, uint64_t i, struct index_row *row)
{
	return elf_file__read(f, header + 12 + i * sizeof(*row), row, sizeof(*row)) == sizeof(*row);
}

static uint64_t relative(uint64_t to, int32_t by)
{
	return to + (uint64_t)(int64_t)by;
}

/* The last row that begins at or before @vaddr. */
static bool find_row(const struct elf_file *f, const GElf_Phdr *ph, uint64_t vaddr,
		     struct index_row *row)
{
	struct {
		uint8_t version, frame_enc, count_enc, table_enc;
		int32_t frames;
		uint32_t count;
	} h;
	uint64_t lo = 0, hi;

	if (elf_file__read(f, ph->p_vaddr, &h, sizeof(h)) != sizeof(h) || h.version != 1 ||
	    h.frame_enc != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) || h.count_enc != DW_EH_PE_udata4 ||
	    h.table_enc != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		return false;
	hi = h.count;
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (!read_row(f, ph->p_vaddr, mid, row))
			return false;
		if (relative(ph->p_vaddr, row->start) <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && read_row(f, ph->p_vaddr, lo - 1, row);
}

bool elf_file__fde_at(const struct elf_file *f, uint64_t vaddr, uint64_t *start, uint64_t *size)
{
	struct {
		uint32_t length, cie;
		int32_t start;
		uint32_t size;
	} fde;
	struct index_row row;
	GElf_Phdr ph;
	uint64_t at;

	if (!find_header(f, &ph) || !find_row(f, &ph, vaddr, &row))
		return false;
	*start = relative(ph.p_vaddr, row.start);
	at = relative(ph.p_vaddr, row.fde);
	/* The encoding is told far away, by the entry that @cie leads to. That the start is the
	 * same as in the index tells as well that it is the common one: 4 bytes, relative to itself. */
	if (elf_file__read(f, at, &fde, sizeof(fde)) != sizeof(fde) ||
	    fde.length < sizeof(fde) - sizeof(fde.length) || !fde.cie ||
	    relative(at + 8, fde.start) != *start || vaddr - *start >= fde.size)
		return false;
	*size = fde.size;
	return true;
}

struct around {
	uint64_t vaddr, start, size;
	bool found;
};

static int look_around(void *ctx, const struct elf_func *fu)
{
	struct around *a = ctx;

	if (fu->vaddr > a->vaddr)
		return 1;
	if (a->vaddr - fu->vaddr < fu->size) {
		a->start = fu->vaddr;
		a->size = fu->size;
		a->found = true;
	}
	return 0;
}

bool elf_file__function_at(struct elf_file *f, uint64_t vaddr, uint64_t *start, uint64_t *size)
{
	struct around a = { .vaddr = vaddr };

	if (elf_file__fde_at(f, vaddr, start, size))
		return true;
	elf_file__functions(f, "*", look_around, &a, NULL, NULL);
	*start = a.start;
	*size = a.size;
	return a.found;
}
