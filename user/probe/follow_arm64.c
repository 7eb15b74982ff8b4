// SPDX-License-Identifier: Apache-2.0
/* One arm64 instruction, by what it does to the values that are followed. */
#include <string.h>

#include "user/probe/follow.h"

#define SP 31
#define ZERO 32 /* the register that always reads as 0 */

static const struct value unknown = { VALUE_UNKNOWN, 0 };

static int find_register(unsigned reg, unsigned *bytes)
{
	*bytes = 8;
	if (reg >= ARM64_REG_X0 && reg <= ARM64_REG_X28)
		return (int)(reg - ARM64_REG_X0);
	if (reg == ARM64_REG_X29)
		return 29;
	if (reg == ARM64_REG_X30)
		return 30;
	if (reg == ARM64_REG_SP)
		return SP;
	if (reg == ARM64_REG_XZR)
		return ZERO;
	*bytes = 4;
	if (reg >= ARM64_REG_W0 && reg <= ARM64_REG_W30)
		return (int)(reg - ARM64_REG_W0);
	return reg == ARM64_REG_WZR ? ZERO : -1;
}

/* Of vector registers too. */
static unsigned register_size(unsigned reg)
{
	unsigned bytes;

	if (find_register(reg, &bytes) >= 0)
		return bytes;
	if (reg >= ARM64_REG_Q0 && reg <= ARM64_REG_Q31)
		return 16;
	return reg >= ARM64_REG_D0 && reg <= ARM64_REG_D31 ? 8 : 4;
}

static struct value get_register(const struct follow *w, unsigned reg)
{
	unsigned bytes;
	int i = find_register(reg, &bytes);

	if (i < 0)
		return unknown;
	if (i == ZERO)
		return value__number(0);
	return bytes == 8 ? w->now.reg[i] : value__low_half(w->now.reg[i]);
}

static void set_register(struct follow *w, unsigned reg, struct value v)
{
	unsigned bytes;
	int i = find_register(reg, &bytes);

	if (i >= 0 && i != ZERO)
		w->now.reg[i] = bytes == 8 ? v : value__low_half(v);
}

/* "lsl 3", "sxtw 3": what the last operand goes through before it is used. */
static struct value shifted(struct value v, const cs_arm64_op *op)
{
	if (op->ext == ARM64_EXT_SXTW && v.kind == VALUE_NUMBER)
		v.n = (int32_t)v.n;
	else if (op->ext != ARM64_EXT_INVALID && op->ext != ARM64_EXT_UXTX &&
		 op->ext != ARM64_EXT_SXTX && op->ext != ARM64_EXT_UXTW)
		return unknown;
	if (op->shift.type == ARM64_SFT_INVALID || !op->shift.value)
		return v;
	return op->shift.type == ARM64_SFT_LSL
		       ? value__times(v, (int64_t)(1ull << (op->shift.value & 63)))
		       : unknown;
}

static struct value get(const struct follow *w, const cs_arm64_op *op)
{
	if (op->type == ARM64_OP_REG)
		return shifted(get_register(w, op->reg), op);
	return op->type == ARM64_OP_IMM ? shifted(value__number(op->imm), op) : unknown;
}

static bool set(struct follow *w, const cs_arm64_op *op, struct value v)
{
	if (op->type == ARM64_OP_REG)
		set_register(w, op->reg, v);
	return true;
}

static struct value address_of(const struct follow *w, const cs_arm64_op *op)
{
	struct value at = value__plus(get_register(w, op->mem.base), value__number(op->mem.disp));

	if (op->mem.index == ARM64_REG_INVALID)
		return at;
	return value__plus(at, shifted(get_register(w, op->mem.index), op));
}

/* --- memory ------------------------------------------------------------------------------------ */

struct access {
	struct value at;
	unsigned n; /* registers before the address */
	const cs_arm64_op *op[2];
};

/* Where it reads or writes; moves the base register when the instruction does. */
static bool find_access(struct follow *w, const cs_arm64 *a, struct access *m)
{
	unsigned i;

	m->n = 0;
	for (i = 0; i < a->op_count && a->operands[i].type != ARM64_OP_MEM; i++)
		if (m->n < 2 && a->operands[i].type == ARM64_OP_REG)
			m->op[m->n++] = &a->operands[i];
	if (i == a->op_count)
		return false;
	m->at = address_of(w, &a->operands[i]);
	if (!a->writeback)
		return true;
	/* "[x1], 8" moves it afterwards, "[x1, 8]!" before. */
	set_register(w, a->operands[i].mem.base,
		     i + 1 < a->op_count ? value__plus(m->at, get(w, &a->operands[i + 1])) : m->at);
	return true;
}

static unsigned access_size(const cs_insn *in, const cs_arm64_op *op)
{
	char last = in->mnemonic[strlen(in->mnemonic) - 1];

	if (in->id == ARM64_INS_LDRSW || in->id == ARM64_INS_LDURSW)
		return 4;
	return last == 'b' ? 1 : last == 'h' ? 2 : register_size(op->reg);
}

static void load(struct follow *w, const cs_insn *in)
{
	const cs_arm64 *a = &in->detail->arm64;
	struct access m;
	struct value v;
	unsigned i, size;

	/* "ldr x0, label": a number among the code, of no interest. */
	if (!find_access(w, a, &m)) {
		set(w, &a->operands[0], unknown);
		return;
	}
	for (i = 0; i < m.n; i++) {
		size = access_size(in, m.op[i]);
		v = follow__load(w, value__plus(m.at, value__number((int64_t)i * size)), size);
		if (in->id == ARM64_INS_LDRSW || in->id == ARM64_INS_LDURSW)
			v = v.kind == VALUE_NUMBER ? value__number((int32_t)v.n) : v;
		set(w, m.op[i], v);
	}
	/* Structures of vectors: "ld1 {v0.2d, v1.2d}, [x0]". */
	if (!m.n)
		follow__load(w, m.at, 16);
}

static void store(struct follow *w, const cs_insn *in)
{
	const cs_arm64 *a = &in->detail->arm64;
	struct value v[2] = { unknown, unknown };
	struct access m;
	unsigned i, size;

	for (i = 0; i < 2 && i < a->op_count; i++)
		if (a->operands[i].type == ARM64_OP_REG)
			v[i] = get_register(w, a->operands[i].reg);
	if (!find_access(w, a, &m))
		return;
	for (i = 0; i < m.n && i < 2; i++) {
		size = access_size(in, m.op[i]);
		follow__store(w, value__plus(m.at, value__number((int64_t)i * size)), size, v[i]);
	}
}

/* --- the rest ------------------------------------------------------------------------------------ */

static bool null_only(const struct follow *w, const cs_arm64 *a, bool taken)
{
	return w->now.argument_tested &&
	       ((a->cc == ARM64_CC_EQ && taken) || (a->cc == ARM64_CC_NE && !taken));
}

static bool is_argument(struct value v)
{
	return v.kind == VALUE_ARG && !v.n;
}

static enum follow_next branch(struct follow *w, const cs_insn *in)
{
	const cs_arm64 *a = &in->detail->arm64;
	const cs_arm64_op *last = &a->operands[a->op_count ? a->op_count - 1 : 0];

	if (!a->op_count || last->type != ARM64_OP_IMM)
		return NEXT_END;
	w->target = (uint64_t)last->imm;
	switch (in->id) {
	case ARM64_INS_CBZ:
		return is_argument(get(w, &a->operands[0])) ? NEXT_ON : NEXT_BRANCH;
	case ARM64_INS_CBNZ:
		return is_argument(get(w, &a->operands[0])) ? NEXT_JUMP : NEXT_BRANCH;
	case ARM64_INS_B:
		if (a->cc == ARM64_CC_INVALID || a->cc == ARM64_CC_AL || null_only(w, a, false))
			return NEXT_JUMP;
		return null_only(w, a, true) ? NEXT_ON : NEXT_BRANCH;
	default:
		return NEXT_BRANCH;
	}
}

/* csel x0, x1, x2, ne */
static void select_one(struct follow *w, const cs_arm64 *a)
{
	struct value yes, no;

	yes = get(w, &a->operands[1]);
	no = get(w, &a->operands[2]);
	if (null_only(w, a, true)) {
		set(w, &a->operands[0], no);
		return;
	}
	if (!null_only(w, a, false)) {
		w->forked = true;
		set(w, &a->operands[0], no);
		w->other = w->now;
	}
	set(w, &a->operands[0], yes);
}

static bool arithmetic(struct follow *w, const cs_insn *in)
{
	const cs_arm64 *a = &in->detail->arm64;
	const cs_arm64_op *op = a->operands;
	struct value v;

	switch (in->id) {
	case ARM64_INS_MOV:
	case ARM64_INS_MOVZ:
	case ARM64_INS_ADR:
	case ARM64_INS_ADRP:
		return a->op_count == 2 && set(w, &op[0], get(w, &op[1]));
	case ARM64_INS_SXTW:
		if (a->op_count != 2)
			return false;
		v = get(w, &op[1]);
		if (v.kind == VALUE_NUMBER)
			v.n = (int32_t)v.n;
		return set(w, &op[0], v);
	case ARM64_INS_ADD:
		return a->op_count == 3 &&
		       set(w, &op[0], value__plus(get(w, &op[1]), get(w, &op[2])));
	case ARM64_INS_SUB:
		return a->op_count == 3 &&
		       set(w, &op[0], value__minus(get(w, &op[1]), get(w, &op[2])));
	case ARM64_INS_LSL:
		return a->op_count == 3 && op[2].type == ARM64_OP_IMM &&
		       set(w, &op[0],
			   value__times(get(w, &op[1]), (int64_t)(1ull << (op[2].imm & 63))));
	case ARM64_INS_CSEL:
		if (a->op_count != 3)
			return false;
		select_one(w, a);
		return true;
	case ARM64_INS_CMP:
		if (a->op_count != 2)
			return false;
		v = get(w, &op[1]);
		w->now.argument_tested = is_argument(get(w, &op[0])) && v.kind == VALUE_NUMBER &&
					 !v.n;
		return true;
	default:
		return false;
	}
}

static void call(struct follow *w)
{
	int i;

	for (i = 0; i <= 18; i++)
		w->now.reg[i] = unknown;
	w->now.reg[30] = unknown;
	w->now.argument_tested = false;
}

enum follow_next follow_arm64__step(struct follow *w, const cs_insn *in)
{
	const cs_arm64 *a = &in->detail->arm64;

	switch (in->id) {
	case ARM64_INS_RET:
		w->result = w->now.reg[0];
		return NEXT_RETURN;
	case ARM64_INS_BR:
	case ARM64_INS_BRK:
	case ARM64_INS_HLT:
	case ARM64_INS_ERET:
		return NEXT_END;
	case ARM64_INS_B:
	case ARM64_INS_CBZ:
	case ARM64_INS_CBNZ:
	case ARM64_INS_TBZ:
	case ARM64_INS_TBNZ:
		return branch(w, in);
	case ARM64_INS_BL:
	case ARM64_INS_BLR:
		call(w);
		return NEXT_ON;
	default:
		break;
	}
	if (arithmetic(w, in))
		return NEXT_ON;
	if (!a->op_count)
		return NEXT_ON;
	if (!strncmp(in->mnemonic, "ld", 2)) {
		load(w, in);
	} else if (!strncmp(in->mnemonic, "st", 2)) {
		store(w, in);
	} else {
		if (a->update_flags)
			w->now.argument_tested = false;
		set(w, &a->operands[0], unknown);
	}
	return NEXT_ON;
}
