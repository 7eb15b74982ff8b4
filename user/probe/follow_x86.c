// SPDX-License-Identifier: Apache-2.0
/* One x86-64 instruction, by what it does to the values that are followed. */
#include <string.h>

#include "user/probe/follow.h"

enum { RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP, R8 };

static const struct value unknown = { VALUE_UNKNOWN, 0 };

/* The register's index, and how many bytes of it are meant; -1 = one that is not followed. */
static int find_register(unsigned reg, unsigned *bytes)
{
	static const uint16_t names[4][16] = {
		{ X86_REG_RAX, X86_REG_RBX, X86_REG_RCX, X86_REG_RDX, X86_REG_RSI, X86_REG_RDI,
		  X86_REG_RBP, X86_REG_RSP, X86_REG_R8, X86_REG_R9, X86_REG_R10, X86_REG_R11,
		  X86_REG_R12, X86_REG_R13, X86_REG_R14, X86_REG_R15 },
		{ X86_REG_EAX, X86_REG_EBX, X86_REG_ECX, X86_REG_EDX, X86_REG_ESI, X86_REG_EDI,
		  X86_REG_EBP, X86_REG_ESP, X86_REG_R8D, X86_REG_R9D, X86_REG_R10D, X86_REG_R11D,
		  X86_REG_R12D, X86_REG_R13D, X86_REG_R14D, X86_REG_R15D },
		{ X86_REG_AX, X86_REG_BX, X86_REG_CX, X86_REG_DX, X86_REG_SI, X86_REG_DI,
		  X86_REG_BP, X86_REG_SP, X86_REG_R8W, X86_REG_R9W, X86_REG_R10W, X86_REG_R11W,
		  X86_REG_R12W, X86_REG_R13W, X86_REG_R14W, X86_REG_R15W },
		{ X86_REG_AL, X86_REG_BL, X86_REG_CL, X86_REG_DL, X86_REG_SIL, X86_REG_DIL,
		  X86_REG_BPL, X86_REG_SPL, X86_REG_R8B, X86_REG_R9B, X86_REG_R10B, X86_REG_R11B,
		  X86_REG_R12B, X86_REG_R13B, X86_REG_R14B, X86_REG_R15B },
	};
	static const uint16_t high[] = { X86_REG_AH, X86_REG_BH, X86_REG_CH, X86_REG_DH };
	int i, k;

	for (k = 0; k < 4; k++)
		for (i = 0; i < 16; i++)
			if (reg == names[k][i]) {
				*bytes = 8u >> k;
				return i;
			}
	for (i = 0; i < 4; i++)
		if (reg == high[i]) {
			*bytes = 1;
			return i;
		}
	return -1;
}

/* What a part of a register holds: something read from memory may be small. */
static struct value part_of(struct value v, unsigned bytes)
{
	if (bytes == 8 || v.kind == VALUE_LOADED)
		return v;
	return bytes == 4 ? value__low_half(v) : unknown;
}

static struct value get_register(const struct follow *w, unsigned reg)
{
	unsigned bytes;
	int i = find_register(reg, &bytes);

	if (i < 0)
		return unknown;
	return part_of(w->now.reg[i], bytes);
}

static void set_register(struct follow *w, unsigned reg, struct value v)
{
	unsigned bytes;
	int i = find_register(reg, &bytes);

	if (i >= 0)
		w->now.reg[i] = part_of(v, bytes);
}

/* The address that a memory operand means. */
static struct value address_of(const struct follow *w, const cs_insn *in, const cs_x86_op *op)
{
	struct value at = value__number(op->mem.disp);

	if (op->mem.segment == X86_REG_FS || op->mem.segment == X86_REG_GS)
		return unknown;
	if (op->mem.base == X86_REG_RIP)
		return value__number((int64_t)((uint64_t)op->mem.disp + in->address + in->size));
	if (op->mem.base != X86_REG_INVALID)
		at = value__plus(get_register(w, op->mem.base), at);
	if (op->mem.index != X86_REG_INVALID)
		at = value__plus(at, value__times(get_register(w, op->mem.index), op->mem.scale));
	return at;
}

static struct value get(struct follow *w, const cs_insn *in, const cs_x86_op *op)
{
	switch (op->type) {
	case X86_OP_REG:
		return get_register(w, op->reg);
	case X86_OP_IMM:
		return value__number(op->imm);
	case X86_OP_MEM:
		return follow__load(w, address_of(w, in, op), op->size);
	default:
		return unknown;
	}
}

static void set(struct follow *w, const cs_insn *in, const cs_x86_op *op, struct value v)
{
	if (op->type == X86_OP_REG)
		set_register(w, op->reg, v);
	else if (op->type == X86_OP_MEM)
		follow__store(w, address_of(w, in, op), op->size, v);
}

static void move_stack(struct follow *w, int64_t by)
{
	w->now.reg[RSP] = value__plus(w->now.reg[RSP], value__number(by));
}

static struct value pop(struct follow *w)
{
	struct value v = follow__load(w, w->now.reg[RSP], 8);

	move_stack(w, 8);
	return v;
}

/* Behind "test %rdi, %rdi": the path on which the argument is null is not of interest. */
static bool only_for_null(const struct follow *w, unsigned id, bool taken)
{
	if (!w->now.argument_tested)
		return false;
	if (id == X86_INS_JE || id == X86_INS_CMOVE)
		return taken;
	return (id == X86_INS_JNE || id == X86_INS_CMOVNE) && !taken;
}

static enum follow_next jump(struct follow *w, const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;

	if (x->op_count != 1 || x->operands[0].type != X86_OP_IMM) {
		if (x->op_count == 1)
			get(w, in, &x->operands[0]);
		return NEXT_END;
	}
	w->target = (uint64_t)x->operands[0].imm;
	if (in->id == X86_INS_JMP || only_for_null(w, in->id, false))
		return NEXT_JUMP;
	return only_for_null(w, in->id, true) ? NEXT_ON : NEXT_BRANCH;
}

static bool is_conditional_move(unsigned id)
{
	switch (id) {
	case X86_INS_CMOVA:
	case X86_INS_CMOVAE:
	case X86_INS_CMOVB:
	case X86_INS_CMOVBE:
	case X86_INS_CMOVE:
	case X86_INS_CMOVG:
	case X86_INS_CMOVGE:
	case X86_INS_CMOVL:
	case X86_INS_CMOVLE:
	case X86_INS_CMOVNE:
	case X86_INS_CMOVNO:
	case X86_INS_CMOVNP:
	case X86_INS_CMOVNS:
	case X86_INS_CMOVO:
	case X86_INS_CMOVP:
	case X86_INS_CMOVS:
		return true;
	default:
		return false;
	}
}

static void conditional_move(struct follow *w, const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;
	struct value v = get(w, in, &x->operands[1]);

	if (only_for_null(w, in->id, true))
		return;
	if (!only_for_null(w, in->id, false)) {
		w->forked = true;
		w->other = w->now;
	}
	set(w, in, &x->operands[0], v);
}

/* The value that lies in register or memory @a, combined with @b. */
static struct value combine(unsigned id, struct value a, struct value b)
{
	bool numbers = a.kind == VALUE_NUMBER && b.kind == VALUE_NUMBER;

	switch (id) {
	case X86_INS_ADD:
		return value__plus(a, b);
	case X86_INS_SUB:
		return value__minus(a, b);
	case X86_INS_SHL:
		return b.kind == VALUE_NUMBER ? value__times(a, (int64_t)(1ull << (b.n & 63)))
					      : unknown;
	case X86_INS_AND:
		return numbers ? value__number(a.n & b.n) : unknown;
	case X86_INS_OR:
		return numbers ? value__number(a.n | b.n) : unknown;
	case X86_INS_XOR:
		return numbers ? value__number(a.n ^ b.n) : unknown;
	default:
		return unknown;
	}
}

static void arithmetic(struct follow *w, const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;
	const cs_x86_op *a = &x->operands[0], *b = &x->operands[1];
	struct value was = get(w, in, a);

	if ((in->id == X86_INS_XOR || in->id == X86_INS_SUB) && a->type == X86_OP_REG &&
	    b->type == X86_OP_REG && a->reg == b->reg)
		set(w, in, a, value__number(0));
	else
		set(w, in, a, combine(in->id, was, get(w, in, b)));
}

static struct value sign_extended(struct value v, unsigned bytes)
{
	if (v.kind == VALUE_NUMBER)
		return bytes == 4 ? value__number((int32_t)v.n) : unknown;
	return v.kind == VALUE_LOADED ? v : unknown;
}

/* "test %rdi, %rdi", "cmp $0, %rdi", "cmpq $0, -8(%rbp)" */
static void compare(struct follow *w, const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;
	struct value a = get(w, in, &x->operands[0]), b = get(w, in, &x->operands[1]);

	if (a.kind != VALUE_ARG || a.n)
		return;
	w->now.argument_tested = in->id == X86_INS_TEST ? b.kind == VALUE_ARG && !b.n
							: b.kind == VALUE_NUMBER && !b.n;
}

/* All that is not known in particular: what it reads counts, what it writes is unknown from then on. */
static void forget_results(struct follow *w, const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;
	unsigned i;

	for (i = 0; i < x->op_count; i++)
		if (x->operands[i].type == X86_OP_MEM &&
		    (i || x->operands[i].access != CS_AC_WRITE))
			follow__load(w, address_of(w, in, &x->operands[i]), x->operands[i].size);
	for (i = 0; i < x->op_count; i++)
		if (!i || (x->operands[i].access & CS_AC_WRITE))
			set(w, in, &x->operands[i], unknown);
	for (i = 0; i < in->detail->regs_write_count; i++)
		set_register(w, in->detail->regs_write[i], unknown);
}

/* movups, movdqu, movaps ...: a first operand in memory is written only. */
static bool is_vector_store(const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;

	return !strncmp(in->mnemonic, "mov", 3) || !strncmp(in->mnemonic, "vmov", 4)
		       ? x->op_count == 2 && x->operands[0].type == X86_OP_MEM
		       : false;
}

static void call(struct follow *w, const cs_insn *in)
{
	static const uint8_t clobbered[] = { RAX, RCX, RDX, RSI, RDI, R8, R8 + 1, R8 + 2, R8 + 3 };
	const cs_x86 *x = &in->detail->x86;
	size_t i;

	if (x->op_count == 1 && x->operands[0].type == X86_OP_MEM)
		get(w, in, &x->operands[0]);
	for (i = 0; i < sizeof(clobbered); i++)
		w->now.reg[clobbered[i]] = unknown;
}

static enum follow_next other_instruction(struct follow *w, const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;

	if (cs_insn_group(w->handle, in, CS_GRP_JUMP))
		return jump(w, in);
	if (is_conditional_move(in->id) && x->op_count == 2)
		conditional_move(w, in);
	else if (is_vector_store(in))
		follow__store(w, address_of(w, in, &x->operands[0]), x->operands[0].size, unknown);
	else
		forget_results(w, in);
	return NEXT_ON;
}

static void moves(struct follow *w, const cs_insn *in)
{
	const cs_x86_op *a = &in->detail->x86.operands[0], *b = &in->detail->x86.operands[1];
	struct value v;

	switch (in->id) {
	case X86_INS_LEA:
		set(w, in, a, address_of(w, in, b));
		break;
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
		v = get(w, in, b);
		set(w, in, a, sign_extended(v, b->size));
		break;
	case X86_INS_MOVZX:
		v = get(w, in, b);
		set(w, in, a, v.kind == VALUE_LOADED ? v : unknown);
		break;
	default:
		v = get(w, in, b);
		set(w, in, a, v);
		break;
	}
}

/* Instructions that leave the flags alone or set them for what follows at once. */
static bool keeps_flags(unsigned id)
{
	return id == X86_INS_MOV || id == X86_INS_LEA || id == X86_INS_MOVABS ||
	       id == X86_INS_PUSH || id == X86_INS_POP || id == X86_INS_NOP || id == X86_INS_JE ||
	       id == X86_INS_JNE || is_conditional_move(id);
}

static void stack(struct follow *w, const cs_insn *in)
{
	const cs_x86_op *op = &in->detail->x86.operands[0];
	struct value v;

	if (in->id == X86_INS_LEAVE) {
		w->now.reg[RSP] = w->now.reg[RBP];
		w->now.reg[RBP] = pop(w);
	} else if (in->id == X86_INS_PUSH) {
		v = get(w, in, op);
		move_stack(w, -8);
		follow__store(w, w->now.reg[RSP], 8, v);
	} else {
		v = pop(w);
		set(w, in, op, v);
	}
}

enum follow_next follow_x86__step(struct follow *w, const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;
	unsigned n = x->op_count;

	if (!keeps_flags(in->id))
		w->now.argument_tested = false;
	switch (in->id) {
	case X86_INS_RET:
		w->result = w->now.reg[RAX];
		return NEXT_RETURN;
	case X86_INS_CALL:
		call(w, in);
		return NEXT_ON;
	case X86_INS_UD2:
	case X86_INS_HLT:
	case X86_INS_INT3:
		return NEXT_END;
	case X86_INS_NOP:
	case X86_INS_ENDBR64:
		return NEXT_ON;
	case X86_INS_CDQE:
		w->now.reg[RAX] = sign_extended(w->now.reg[RAX], 4);
		return NEXT_ON;
	case X86_INS_LEAVE:
		stack(w, in);
		return NEXT_ON;
	case X86_INS_PUSH:
	case X86_INS_POP:
		if (n != 1)
			break;
		stack(w, in);
		return NEXT_ON;
	case X86_INS_MOV:
	case X86_INS_MOVABS:
	case X86_INS_LEA:
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
	case X86_INS_MOVZX:
		if (n != 2)
			break;
		moves(w, in);
		return NEXT_ON;
	case X86_INS_ADD:
	case X86_INS_SUB:
	case X86_INS_SHL:
	case X86_INS_AND:
	case X86_INS_OR:
	case X86_INS_XOR:
		if (n != 2)
			break;
		arithmetic(w, in);
		return NEXT_ON;
	case X86_INS_CMP:
	case X86_INS_TEST:
		if (n != 2)
			break;
		compare(w, in);
		return NEXT_ON;
	default:
		break;
	}
	return other_instruction(w, in);
}
