// SPDX-License-Identifier: Apache-2.0
/*
 * Entry and exits of a function, by disassembly.
 *
 * The code is swept from its first byte to its last. That is sound for compiled code, which
 * keeps no data among its instructions, and it is checked: every direct jump within the function
 * must arrive at an instruction that the sweep saw.
 */
#include <capstone/capstone.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/elf_internal.h"

#define MAX_CODE (4u << 20)
#define NEAR 8u /* instructions between an epilogue and its jump */

struct disasm {
	csh handle;
	cs_insn *insn;
	Dwarf_CFI *cfi;
	bool cfi_looked_for;
};

/* Where the present value of a register comes from; tells a pointer from a jump table. */
enum origin { ORIGIN_CALLER, ORIGIN_LOADED, ORIGIN_COMPUTED };

struct sweep {
	struct elf_file *f;
	const struct elf_func *fu;
	struct disasm *d;
	struct func_sites *out;
	struct clika_error *err;
	uint8_t *code;
	size_t size;
	uint8_t *marks;      /* a byte for each byte of code */
	enum origin origin[32];
	unsigned since_epilogue;
};

enum { MARK_INSN = 1, MARK_TARGET = 2, MARK_EXIT = 4, MARK_LOCK = 8 };

#define REFUSE(s, fmt, ...)                                                                        \
	error__set((s)->err, -ENOTSUP, "%s: function %s: " fmt, (s)->f->name, (s)->fu->symbol,     \
		   ##__VA_ARGS__)

/* --- what the frame looks like at an instruction ------------------------------------------- */

enum frame_state { FRAME_UNKNOWN, FRAME_AS_AT_ENTRY, FRAME_IN_USE };

/*
 * A jump leaves the function only when the frame has been taken down: unwind tables say so
 * exactly. They also tell a jump to the function's cold part in a file without symbols.
 */
static enum frame_state frame_at(struct sweep *s, uint64_t vaddr)
{
	bool x86 = s->f->ident.machine == EM_X86_64;
	Dwarf_Frame *frame = NULL;
	enum frame_state st = FRAME_UNKNOWN;
	Dwarf_Op *ops;
	size_t n;

	if (!s->d->cfi_looked_for) {
		s->d->cfi_looked_for = true;
		s->d->cfi = dwarf_getcfi_elf(s->f->elf);
	}
	if (!s->d->cfi || dwarf_cfi_addrframe(s->d->cfi, vaddr, &frame) != 0)
		return FRAME_UNKNOWN;
	if (dwarf_frame_cfa(frame, &ops, &n) == 0 && n >= 1) {
		uint8_t sp = x86 ? DW_OP_breg7 : DW_OP_breg31;
		Dwarf_Word regno = x86 ? 7 : 31, above = x86 ? 8 : 0;

		st = n == 1 && ((ops[0].atom == sp && ops[0].number == above) ||
				(ops[0].atom == DW_OP_bregx && ops[0].number == regno &&
				 ops[0].number2 == above))
			     ? FRAME_AS_AT_ENTRY
			     : FRAME_IN_USE;
	}
	free(frame);
	return st;
}

/* --- exits ------------------------------------------------------------------------------------ */

static int add_exit(struct sweep *s, size_t at, bool tail)
{
	struct func_sites *o = s->out;

	if (o->n_exits == FUNC_MAX_EXITS)
		return REFUSE(s, "more than %d exits", FUNC_MAX_EXITS);
	o->exits[o->n_exits] = s->fu->offset + at;
	o->tail_exit[o->n_exits++] = tail;
	s->marks[at] |= MARK_EXIT;
	return 0;
}

static void branch_to(struct sweep *s, uint64_t target)
{
	if (target - s->fu->vaddr < s->size)
		s->marks[target - s->fu->vaddr] |= MARK_TARGET;
}

static int direct_jump(struct sweep *s, size_t at, uint64_t target, bool conditional)
{
	enum frame_state st;

	if (target - s->fu->vaddr < s->size) {
		branch_to(s, target);
		return 0;
	}
	if (elf_file__in_cold_part(s->f, target))
		return 0;
	st = frame_at(s, s->fu->vaddr + at);
	if (st == FRAME_IN_USE)
		return 0;
	if (conditional) {
		s->out->unsure++;
		return 0;
	}
	return add_exit(s, at, true);
}

static int indirect_jump(struct sweep *s, size_t at, enum origin from)
{
	enum frame_state st = frame_at(s, s->fu->vaddr + at);

	if (st == FRAME_IN_USE)
		return 0;
	if (s->since_epilogue <= NEAR || (st == FRAME_AS_AT_ENTRY && from != ORIGIN_COMPUTED))
		return add_exit(s, at, true);
	s->out->unsure++;
	return 0;
}

/* --- x86-64 ------------------------------------------------------------------------------------ */

static int x86_index(unsigned reg)
{
	static const uint16_t r64[] = {
		X86_REG_RAX, X86_REG_RBX, X86_REG_RCX, X86_REG_RDX, X86_REG_RSI, X86_REG_RDI,
		X86_REG_RBP, X86_REG_RSP, X86_REG_R8,  X86_REG_R9,  X86_REG_R10, X86_REG_R11,
		X86_REG_R12, X86_REG_R13, X86_REG_R14, X86_REG_R15,
	};
	static const uint16_t r32[] = {
		X86_REG_EAX,  X86_REG_EBX,  X86_REG_ECX,  X86_REG_EDX,	X86_REG_ESI,  X86_REG_EDI,
		X86_REG_EBP,  X86_REG_ESP,  X86_REG_R8D,  X86_REG_R9D,	X86_REG_R10D, X86_REG_R11D,
		X86_REG_R12D, X86_REG_R13D, X86_REG_R14D, X86_REG_R15D,
	};
	int i;

	for (i = 0; i < (int)ARRAY_SIZE(r64); i++)
		if (reg == r64[i] || reg == r32[i])
			return i;
	return -1;
}

static bool x86_takes_frame_down(const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;

	if (in->id == X86_INS_LEAVE)
		return true;
	if (in->id == X86_INS_POP)
		return x->op_count == 1 && x->operands[0].type == X86_OP_REG;
	return in->id == X86_INS_ADD && x->op_count == 2 && x->operands[0].type == X86_OP_REG &&
	       x->operands[0].reg == X86_REG_RSP && x->operands[1].type == X86_OP_IMM;
}

static void x86_follow_values(struct sweep *s, const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;
	int reg;

	if (x86_takes_frame_down(in))
		s->since_epilogue = 0;
	else if (s->since_epilogue <= NEAR)
		s->since_epilogue++;
	if (!x->op_count || x->operands[0].type != X86_OP_REG || in->id == X86_INS_CMP ||
	    in->id == X86_INS_TEST || in->id == X86_INS_PUSH)
		return;
	reg = x86_index(x->operands[0].reg);
	if (reg < 0)
		return;
	if (in->id == X86_INS_POP)
		s->origin[reg] = ORIGIN_LOADED;
	else if (in->id == X86_INS_MOV && x->operands[1].type == X86_OP_MEM)
		s->origin[reg] = x->operands[1].mem.index == X86_REG_INVALID ? ORIGIN_LOADED
									     : ORIGIN_COMPUTED;
	else if (in->id == X86_INS_MOV && x->operands[1].type == X86_OP_REG &&
		 x86_index(x->operands[1].reg) >= 0)
		s->origin[reg] = s->origin[x86_index(x->operands[1].reg)];
	else
		s->origin[reg] = ORIGIN_COMPUTED;
}

static int x86_jump(struct sweep *s, const cs_insn *in, size_t at)
{
	const cs_x86_op *op = &in->detail->x86.operands[0];
	bool conditional = in->id != X86_INS_JMP;
	int reg;

	if (in->detail->x86.op_count < 1)
		return 0;
	if (op->type == X86_OP_IMM)
		return direct_jump(s, at, (uint64_t)op->imm, conditional);
	/* "notrack" is what compilers put before the jump of a switch and nothing else. */
	if (s->code[at] == 0x3e)
		return 0;
	if (op->type == X86_OP_MEM)
		return indirect_jump(s, at, op->mem.index == X86_REG_INVALID ? ORIGIN_LOADED
									    : ORIGIN_COMPUTED);
	reg = op->type == X86_OP_REG ? x86_index(op->reg) : -1;
	return indirect_jump(s, at, reg < 0 ? ORIGIN_COMPUTED : s->origin[reg]);
}

static int x86_look(struct sweep *s, const cs_insn *in, size_t at)
{
	switch (in->id) {
	case X86_INS_RET:
	case X86_INS_RETF:
	case X86_INS_RETFQ:
		return add_exit(s, at, false);
	case X86_INS_IRET:
	case X86_INS_IRETD:
	case X86_INS_IRETQ:
	case X86_INS_SYSEXIT:
	case X86_INS_SYSRET:
	case X86_INS_LJMP:
		return REFUSE(s, "no ordinary function (%s)", in->mnemonic);
	default:
		break;
	}
	if (s->code[at] == 0xf0)
		s->marks[at] |= MARK_LOCK;
	if (cs_insn_group(s->d->handle, in, CS_GRP_JUMP))
		return x86_jump(s, in, at);
	x86_follow_values(s, in);
	return 0;
}

/* --- arm64 -------------------------------------------------------------------------------------- */

static int arm64_index(unsigned reg)
{
	if (reg >= ARM64_REG_X0 && reg <= ARM64_REG_X28)
		return (int)(reg - ARM64_REG_X0);
	if (reg >= ARM64_REG_W0 && reg <= ARM64_REG_W30)
		return (int)(reg - ARM64_REG_W0);
	return reg == ARM64_REG_X29 ? 29 : reg == ARM64_REG_X30 ? 30 : -1;
}

static void arm64_follow_values(struct sweep *s, const cs_insn *in)
{
	const cs_arm64 *a = &in->detail->arm64;
	const cs_arm64_op *last;
	int reg;

	if (s->since_epilogue <= NEAR)
		s->since_epilogue++;
	if (!a->op_count)
		return;
	last = &a->operands[a->op_count - 1];
	/* "ldp x29, x30, [sp], #32", "ldr x30, [sp], #16", "add sp, sp, #32" */
	if (((in->id == ARM64_INS_LDP || in->id == ARM64_INS_LDR) && a->writeback &&
	     (last->type == ARM64_OP_IMM || last->type == ARM64_OP_MEM)) ||
	    (in->id == ARM64_INS_ADD && a->operands[0].type == ARM64_OP_REG &&
	     a->operands[0].reg == ARM64_REG_SP))
		s->since_epilogue = 0;
	if (a->operands[0].type != ARM64_OP_REG || in->id == ARM64_INS_STR ||
	    in->id == ARM64_INS_STP || in->id == ARM64_INS_CMP)
		return;
	reg = arm64_index(a->operands[0].reg);
	if (reg < 0)
		return;
	if (in->id == ARM64_INS_LDR && a->op_count >= 2 && a->operands[1].type == ARM64_OP_MEM)
		s->origin[reg] = a->operands[1].mem.index == ARM64_REG_INVALID ? ORIGIN_LOADED
									       : ORIGIN_COMPUTED;
	else if (in->id == ARM64_INS_MOV && a->op_count == 2 &&
		 a->operands[1].type == ARM64_OP_REG && arm64_index(a->operands[1].reg) >= 0)
		s->origin[reg] = s->origin[arm64_index(a->operands[1].reg)];
	else
		s->origin[reg] = ORIGIN_COMPUTED;
}

static int arm64_look(struct sweep *s, const cs_insn *in, size_t at)
{
	const cs_arm64 *a = &in->detail->arm64;
	const cs_arm64_op *last = a->op_count ? &a->operands[a->op_count - 1] : NULL;
	int reg;

	if (in->id == ARM64_INS_RET)
		return add_exit(s, at, false);
	if (in->id == ARM64_INS_ERET)
		return REFUSE(s, "no ordinary function (%s)", in->mnemonic);
	if (in->id == ARM64_INS_BR) {
		reg = last && last->type == ARM64_OP_REG ? arm64_index(last->reg) : -1;
		return indirect_jump(s, at, reg < 0 ? ORIGIN_COMPUTED : s->origin[reg]);
	}
	if (in->id == ARM64_INS_B || in->id == ARM64_INS_CBZ || in->id == ARM64_INS_CBNZ ||
	    in->id == ARM64_INS_TBZ || in->id == ARM64_INS_TBNZ) {
		bool plain = in->id == ARM64_INS_B &&
			     (a->cc == ARM64_CC_INVALID || a->cc == ARM64_CC_AL);

		if (!last || last->type != ARM64_OP_IMM)
			return REFUSE(s, "a jump without a target");
		return direct_jump(s, at, (uint64_t)last->imm, !plain);
	}
	arm64_follow_values(s, in);
	return 0;
}

/* Instructions newer than the disassembler. All are 4 bytes, so only those that return matter. */
static int arm64_unknown(struct sweep *s, size_t at)
{
	uint32_t w;

	memcpy(&w, s->code + at, sizeof(w));
	if (w == 0xd65f0bff || w == 0xd65f0fff) /* retaa, retab */
		return add_exit(s, at, false);
	if ((w & 0xfefff800) == 0xd61f0800) { /* braa, brab and their zero forms */
		s->out->unsure++;
		return 0;
	}
	return 0;
}

/* --- the sweep --------------------------------------------------------------------------------- */

static bool only_padding(const uint8_t *p, size_t n)
{
	while (n && (*p == 0xcc || *p == 0x90 || *p == 0))
		p++, n--;
	return !n;
}

static int sweep__run(struct sweep *s)
{
	bool x86 = s->f->ident.machine == EM_X86_64;
	size_t at = 0;
	int rc = 0;

	s->since_epilogue = NEAR + 1;
	while (at < s->size && !rc) {
		const uint8_t *p = s->code + at;
		size_t left = s->size - at;
		uint64_t vaddr = s->fu->vaddr + at;

		s->marks[at] |= MARK_INSN;
		if (cs_disasm_iter(s->d->handle, &p, &left, &vaddr, s->d->insn)) {
			const cs_insn *in = s->d->insn;

			rc = x86 ? x86_look(s, in, at) : arm64_look(s, in, at);
			at += in->size;
		} else if (!x86 && left >= 4) {
			rc = arm64_unknown(s, at);
			at += 4;
		} else if (only_padding(s->code + at, s->size - at)) {
			break;
		} else {
			return REFUSE(s, "bytes at +%#zx are no known instruction", at);
		}
	}
	return rc;
}

static int check_targets(struct sweep *s)
{
	size_t i;

	for (i = 0; i < s->size; i++) {
		if (!(s->marks[i] & MARK_TARGET) || (s->marks[i] & MARK_INSN))
			continue;
		/* Jumping over a "lock" prefix is an idiom of C libraries. */
		if (i && (s->marks[i - 1] & MARK_LOCK))
			continue;
		return REFUSE(s, "a jump to +%#zx, into an instruction", i);
	}
	return 0;
}

/* The length of an instruction that is better not probed as the entry, 0 = probe this one. */
static size_t skippable(const struct sweep *s, size_t at)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00 };
	static const uint8_t bti[] = { 0x1f, 0x24, 0x03, 0xd5 };
	const uint8_t *p = s->code + at;
	size_t left = s->size - at;

	if (s->f->ident.machine == EM_AARCH64)
		return left >= 4 && (p[0] & 0x3f) == bti[0] && !memcmp(p + 1, bti + 1, 3) ? 4 : 0;
	if (left >= 4 && !memcmp(p, endbr64, 4))
		return 4;
	return left >= 5 && !memcmp(p, nop5, 4) ? 5 : 0;
}

/*
 * endbr64 and bti are single-stepped or worse, the instruction behind them often emulated. But
 * a loop may jump there, and then a call would be seen more than once.
 */
static int choose_entry(struct sweep *s)
{
	size_t at = 0, n;

	while ((n = skippable(s, at))) {
		bool must = n == 5;

		if (at + n < s->size && !(s->marks[at + n] & (MARK_TARGET | MARK_EXIT)) &&
		    (s->marks[at + n] & MARK_INSN)) {
			at += n;
			continue;
		}
		if (must)
			return REFUSE(s, "it begins with a 5-byte nop, and what follows cannot be "
					 "probed as its entry");
		break;
	}
	if (s->marks[at] & MARK_EXIT)
		return REFUSE(s, "its first instruction is its last");
	if (s->f->ident.machine == EM_X86_64 && strchr("\xf0\x26\x2e\x36\x3e", s->code[at]) &&
	    s->code[at])
		return REFUSE(s, "its first instruction has a prefix that the kernel refuses");
	s->out->entry = s->fu->offset + at;
	return 0;
}

static int find_sites(struct sweep *s)
{
	int rc = sweep__run(s);

	if (!rc)
		rc = check_targets(s);
	if (!rc && !s->out->n_exits)
		rc = REFUSE(s, "no way out of it was found");
	return rc ? rc : choose_entry(s);
}

/* --- entry point --------------------------------------------------------------------------------- */

static void disasm__free(void *p)
{
	struct disasm *d = p;

	if (d->insn)
		cs_free(d->insn, 1);
	if (d->handle)
		cs_close(&d->handle);
	if (d->cfi)
		dwarf_cfi_end(d->cfi);
	free(d);
}

static int open_disasm(struct elf_file *f, struct clika_error *err)
{
	bool x86 = f->ident.machine == EM_X86_64;
	struct disasm *d;
	cs_err rc;

	if (f->disasm)
		return 0;
	d = calloc(1, sizeof(*d));
	if (!d)
		return error__set(err, -ENOMEM, "%s: out of memory", f->name);
	rc = cs_open(x86 ? CS_ARCH_X86 : CS_ARCH_ARM64, x86 ? CS_MODE_64 : CS_MODE_LITTLE_ENDIAN,
		     &d->handle);
	if (rc == CS_ERR_OK)
		rc = cs_option(d->handle, CS_OPT_DETAIL, CS_OPT_ON);
	if (rc == CS_ERR_OK)
		d->insn = cs_malloc(d->handle);
	if (!d->insn) {
		disasm__free(d);
		return error__set(err, rc == CS_ERR_OK ? -ENOMEM : -ENOTSUP, "disassembler: %s",
				  cs_strerror(rc));
	}
	f->disasm = d;
	f->disasm_free = disasm__free;
	return 0;
}

int func_sites__find(struct elf_file *f, const struct elf_func *fu, struct func_sites *out,
		     struct clika_error *err)
{
	struct sweep s = { .f = f, .fu = fu, .out = out, .err = err };
	int rc;

	memset(out, 0, sizeof(*out));
	if (!fu->size || fu->size > MAX_CODE)
		return REFUSE(&s, "it has %llu bytes", (unsigned long long)fu->size);
	rc = open_disasm(f, err);
	if (rc)
		return rc;
	s.d = f->disasm;
	s.size = (size_t)fu->size;
	s.code = malloc(s.size);
	s.marks = calloc(1, s.size);
	if (!s.code || !s.marks)
		rc = error__set(err, -ENOMEM, "%s: out of memory", f->name);
	else if (elf_file__read(f, fu->vaddr, s.code, s.size) != s.size)
		rc = REFUSE(&s, "its code is not in the file");
	else
		rc = find_sites(&s);
	free(s.code);
	free(s.marks);
	return rc;
}
