// SPDX-License-Identifier: Apache-2.0
/*
 * Entry and exits of a function, by disassembly.
 *
 * The code is swept from its first byte to its last. That is sound for compiled code, which
 * keeps no data among its instructions, and it is checked: every direct jump within the function
 * must arrive at an instruction that the sweep saw.
 */
#include <capstone/capstone.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/early_exits.h"
#include "user/probe/elf_internal.h"
#include "user/probe/unwind.h"

#define MAX_CODE (4u << 20)
#define NEAR 8u /* instructions between an epilogue and its jump */
#define MAX_PENDING 256u
#define MAX_FLOWS 4096u

struct disasm {
	csh handle;
	cs_insn *insn;
	struct unwind *unwind; /* made when first needed */
	struct flow flows[MAX_FLOWS + 1];
};

/* Where the present value of a register comes from; tells a pointer from a jump table. */
enum origin { ORIGIN_CALLER, ORIGIN_LOADED, ORIGIN_COMPUTED };

struct values {
	enum origin origin[32];
	unsigned since_epilogue; /* instructions; more than NEAR: it has not just been */
};

/* What is known at a place that an earlier jump goes to. */
struct pending {
	size_t at;
	struct values v;
};

struct sweep {
	struct elf_file *f;
	const struct elf_func *fu;
	struct disasm *d;
	struct func_sites *out;
	struct clika_error *err;
	uint8_t *code;
	size_t size;
	uint8_t *marks; /* a byte for each byte of code */
	struct values v;
	bool dead; /* the instruction before never goes on to this one */
	struct pending pending[MAX_PENDING];
	size_t n_pending;
	size_t n_flows;
	struct func_part parts[FUNC_MAX_PARTS];
	size_t n_parts;
	bool opaque; /* there are ways from one place of the function to another that are not known */
};

enum { MARK_INSN = 1, MARK_TARGET = 2, MARK_EXIT = 4, MARK_LOCK = 8, MARK_PENDING = 16 };

#define REFUSE(s, fmt, ...)                                                                        \
	error__set((s)->err, -ENOTSUP, "%s: function %s: " fmt, (s)->f->name,                      \
		   (s)->fu->demangled ? (s)->fu->demangled : (s)->fu->symbol, ##__VA_ARGS__)

/*
 * A jump leaves the function only when the frame has been taken down: unwind tables say so
 * exactly. They also tell a jump to the function's cold part in a file without symbols.
 */
static enum frame_state frame_at(struct sweep *s, size_t at)
{
	if (!s->d->unwind)
		s->d->unwind = unwind__new(s->f);
	return s->d->unwind ? unwind__frame_at(s->d->unwind, s->fu->vaddr + at) : FRAME_UNKNOWN;
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

/* --- what follows what ------------------------------------------------------------------------- */

static struct flow *add_flow(struct sweep *s, enum flow_kind kind, size_t at)
{
	struct flow *f = &s->d->flows[s->n_flows];

	/* The last place takes what is too much. */
	if (s->n_flows < MAX_FLOWS)
		s->n_flows++;
	else
		s->opaque = true;
	*f = (struct flow){ .kind = kind, .at = (uint32_t)at, .target = FLOW_NOWHERE };
	return f;
}

/* A jump of x86 that the kernel emulates: by one byte or four, without a prefix. */
static void add_jump_flow(struct sweep *s, size_t at, uint64_t target, bool conditional)
{
	struct flow *f = add_flow(s, conditional ? FLOW_CONDITIONAL : FLOW_JUMP, at);
	const uint8_t *p = s->code + at;

	if (target - s->fu->vaddr < s->size)
		f->target = (uint32_t)(target - s->fu->vaddr);
	else if (!conditional)
		f->kind = FLOW_STOP;
	if (conditional) {
		bool far = p[0] == 0x0f;

		f->emulated = far ? (p[1] & 0xf0) == 0x80 : (p[0] & 0xf0) == 0x70;
		f->condition = p[far] & 0x0f;
	} else {
		f->emulated = p[0] == 0xe9 || p[0] == 0xeb;
	}
}

/* The jump added last goes to a part of the function that lies elsewhere; that may come back. */
static void add_part(struct sweep *s, uint64_t target)
{
	uint64_t start, size;
	size_t i;

	if (s->n_flows)
		s->d->flows[s->n_flows - 1].away = true;
	for (i = 0; i < s->n_parts; i++)
		if (target - s->parts[i].vaddr < s->parts[i].size)
			return;
	if (s->n_parts == FUNC_MAX_PARTS || !elf_file__fde_at(s->f, target, &start, &size)) {
		s->opaque = true;
		return;
	}
	s->parts[s->n_parts].vaddr = start;
	s->parts[s->n_parts++].size = size;
}

/* --- what registers hold --------------------------------------------------------------------- */

static void know_nothing(struct values *v)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(v->origin); i++)
		v->origin[i] = ORIGIN_COMPUTED;
	v->since_epilogue = NEAR + 1;
}

static void merge(struct values *v, const struct values *with)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(v->origin); i++)
		if (with->origin[i] > v->origin[i])
			v->origin[i] = with->origin[i];
	if (with->since_epilogue > v->since_epilogue)
		v->since_epilogue = with->since_epilogue;
}

static struct pending *find_pending(struct sweep *s, size_t at)
{
	size_t i;

	for (i = 0; i < s->n_pending; i++)
		if (s->pending[i].at == at)
			return &s->pending[i];
	return NULL;
}

static void branch_to(struct sweep *s, size_t at, size_t target)
{
	struct pending *p;

	s->marks[target] |= MARK_TARGET;
	if (target <= at)
		return;
	if (s->marks[target] & MARK_PENDING) {
		p = find_pending(s, target);
		merge(&p->v, &s->v);
	} else if (s->n_pending < MAX_PENDING) {
		s->pending[s->n_pending++] = (struct pending){ target, s->v };
		s->marks[target] |= MARK_PENDING;
	}
}

/* Joins what falls through to @at with what jumps there. */
static void arrive(struct sweep *s, size_t at)
{
	if (s->marks[at] & MARK_PENDING) {
		struct pending *p = find_pending(s, at);

		if (s->dead)
			s->v = p->v;
		else
			merge(&s->v, &p->v);
		*p = s->pending[--s->n_pending];
		s->marks[at] &= (uint8_t)~MARK_PENDING;
	} else if (s->dead) {
		know_nothing(&s->v);
	}
	s->dead = false;
}

static int direct_jump(struct sweep *s, size_t at, uint64_t target, bool conditional)
{
	enum frame_state st;

	add_jump_flow(s, at, target, conditional);
	s->dead = !conditional;
	if (target - s->fu->vaddr < s->size) {
		branch_to(s, at, (size_t)(target - s->fu->vaddr));
		return 0;
	}
	if (elf_file__in_cold_part(s->f, target)) {
		add_part(s, target);
		return 0;
	}
	st = frame_at(s, at);
	if (st == FRAME_IN_USE) {
		add_part(s, target);
		return 0;
	}
	if (conditional) {
		s->out->unsure++;
		return 0;
	}
	return add_exit(s, at, true);
}

static int indirect_jump(struct sweep *s, size_t at, enum origin from)
{
	enum frame_state st = frame_at(s, at);

	add_flow(s, FLOW_STOP, at);
	s->dead = true;
	if (st != FRAME_IN_USE &&
	    (s->v.since_epilogue <= NEAR || (st == FRAME_AS_AT_ENTRY && from != ORIGIN_COMPUTED)))
		return add_exit(s, at, true);
	s->opaque = true;
	if (st != FRAME_IN_USE)
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
		X86_REG_EAX,  X86_REG_EBX,  X86_REG_ECX,  X86_REG_EDX,  X86_REG_ESI,  X86_REG_EDI,
		X86_REG_EBP,  X86_REG_ESP,  X86_REG_R8D,  X86_REG_R9D,  X86_REG_R10D, X86_REG_R11D,
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
		s->v.since_epilogue = 0;
	else if (s->v.since_epilogue <= NEAR)
		s->v.since_epilogue++;
	if (!x->op_count || x->operands[0].type != X86_OP_REG || in->id == X86_INS_CMP ||
	    in->id == X86_INS_TEST || in->id == X86_INS_PUSH)
		return;
	reg = x86_index(x->operands[0].reg);
	if (reg < 0)
		return;
	if (in->id == X86_INS_POP)
		s->v.origin[reg] = ORIGIN_LOADED;
	else if (in->id == X86_INS_MOV && x->operands[1].type == X86_OP_MEM)
		s->v.origin[reg] = x->operands[1].mem.index == X86_REG_INVALID ? ORIGIN_LOADED
									       : ORIGIN_COMPUTED;
	else if (in->id == X86_INS_MOV && x->operands[1].type == X86_OP_REG &&
		 x86_index(x->operands[1].reg) >= 0)
		s->v.origin[reg] = s->v.origin[x86_index(x->operands[1].reg)];
	else
		s->v.origin[reg] = ORIGIN_COMPUTED;
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
	if (s->code[at] == 0x3e) {
		add_flow(s, FLOW_STOP, at);
		s->opaque = s->dead = true;
		return 0;
	}
	if (op->type == X86_OP_MEM)
		return indirect_jump(
			s, at, op->mem.index == X86_REG_INVALID ? ORIGIN_LOADED : ORIGIN_COMPUTED);
	reg = op->type == X86_OP_REG ? x86_index(op->reg) : -1;
	return indirect_jump(s, at, reg < 0 ? ORIGIN_COMPUTED : s->v.origin[reg]);
}

static void x86_call(struct sweep *s, const cs_insn *in, size_t at)
{
	struct flow *f = add_flow(s, FLOW_OTHER_CALL, at);

	if (s->code[at] != 0xe8 || in->detail->x86.operands[0].type != X86_OP_IMM)
		return;
	f->kind = FLOW_CALL;
	f->emulated = true;
	f->callee = (uint64_t)in->detail->x86.operands[0].imm;
}

static int x86_look(struct sweep *s, const cs_insn *in, size_t at)
{
	switch (in->id) {
	case X86_INS_RET:
	case X86_INS_RETF:
	case X86_INS_RETFQ:
		add_flow(s, FLOW_STOP, at);
		s->dead = true;
		return add_exit(s, at, false);
	case X86_INS_IRET:
	case X86_INS_IRETD:
	case X86_INS_IRETQ:
	case X86_INS_SYSEXIT:
	case X86_INS_SYSRET:
	case X86_INS_LJMP:
		return REFUSE(s, "no ordinary function (%s)", in->mnemonic);
	case X86_INS_UD2:
	case X86_INS_HLT:
		add_flow(s, FLOW_STOP, at);
		s->dead = true;
		return 0;
	case X86_INS_INT3: /* a handler of SIGTRAP may return to what follows */
		add_flow(s, FLOW_OTHER_CALL, at);
		s->dead = true;
		return 0;
	case X86_INS_CALL:
		x86_call(s, in, at);
		break;
	case X86_INS_LOOP:
	case X86_INS_LOOPE:
	case X86_INS_LOOPNE:
	case X86_INS_XBEGIN:
		s->opaque = true;
		break;
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

/*
 * Instructions newer than the disassembler, nearly all of them vector instructions: length by
 * their regular encoding, 0 = none. They never jump, and which opcodes carry an immediate is
 * fixed by their map.
 */
static size_t x86_unknown_size(const uint8_t *p, size_t left)
{
	unsigned map, opcode, mod, rm;
	size_t n;

	if (left >= 6 && p[0] == 0x62) {
		map = p[1] & 7;
		n = 4;
	} else if (left >= 5 && p[0] == 0xc4) {
		map = p[1] & 31;
		n = 3;
	} else if (left >= 4 && p[0] == 0xc5) {
		map = 1;
		n = 2;
	} else {
		/* rdpkru and its kind: no operands in memory */
		return left >= 3 && p[0] == 0x0f && p[1] == 0x01 && p[2] >= 0xc0 ? 3 : 0;
	}
	if (!map || map > 6 || map == 4)
		return 0;
	opcode = p[n++];
	mod = p[n] >> 6;
	rm = p[n++] & 7;
	if (mod != 3 && rm == 4) {
		if (n >= left)
			return 0;
		if (mod == 0 && (p[n] & 7) == 5)
			n += 4;
		n++;
	} else if (mod == 0 && rm == 5) {
		n += 4;
	}
	n += mod == 1 ? 1 : mod == 2 ? 4 : 0;
	if (map == 3 || (map == 1 && ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
				      (opcode >= 0xc4 && opcode <= 0xc6))))
		n++;
	return n <= left ? n : 0;
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

	if (s->v.since_epilogue <= NEAR)
		s->v.since_epilogue++;
	if (!a->op_count)
		return;
	last = &a->operands[a->op_count - 1];
	/* "ldp x29, x30, [sp], #32", "ldr x30, [sp], #16", "add sp, sp, #32" */
	if (((in->id == ARM64_INS_LDP || in->id == ARM64_INS_LDR) && a->writeback &&
	     (last->type == ARM64_OP_IMM || last->type == ARM64_OP_MEM)) ||
	    (in->id == ARM64_INS_ADD && a->operands[0].type == ARM64_OP_REG &&
	     a->operands[0].reg == ARM64_REG_SP))
		s->v.since_epilogue = 0;
	if (a->operands[0].type != ARM64_OP_REG || in->id == ARM64_INS_STR ||
	    in->id == ARM64_INS_STP || in->id == ARM64_INS_CMP)
		return;
	reg = arm64_index(a->operands[0].reg);
	if (reg < 0)
		return;
	if (in->id == ARM64_INS_LDR && a->op_count >= 2 && a->operands[1].type == ARM64_OP_MEM)
		s->v.origin[reg] = a->operands[1].mem.index == ARM64_REG_INVALID ? ORIGIN_LOADED
										 : ORIGIN_COMPUTED;
	else if (in->id == ARM64_INS_MOV && a->op_count == 2 &&
		 a->operands[1].type == ARM64_OP_REG && arm64_index(a->operands[1].reg) >= 0)
		s->v.origin[reg] = s->v.origin[arm64_index(a->operands[1].reg)];
	else
		s->v.origin[reg] = ORIGIN_COMPUTED;
}

static int arm64_look(struct sweep *s, const cs_insn *in, size_t at)
{
	const cs_arm64 *a = &in->detail->arm64;
	const cs_arm64_op *last = a->op_count ? &a->operands[a->op_count - 1] : NULL;
	int reg;

	if (in->id == ARM64_INS_RET) {
		s->dead = true;
		return add_exit(s, at, false);
	}
	if (in->id == ARM64_INS_ERET)
		return REFUSE(s, "no ordinary function (%s)", in->mnemonic);
	if (in->id == ARM64_INS_BR) {
		reg = last && last->type == ARM64_OP_REG ? arm64_index(last->reg) : -1;
		return indirect_jump(s, at, reg < 0 ? ORIGIN_COMPUTED : s->v.origin[reg]);
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
	if (w == 0xd65f0bff || w == 0xd65f0fff) { /* retaa, retab */
		s->dead = true;
		return add_exit(s, at, false);
	}
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
	size_t at = 0, n;
	int rc = 0;

	s->v.since_epilogue = NEAR + 1; /* and all registers are the caller's */
	while (at < s->size && !rc) {
		const uint8_t *p = s->code + at;
		size_t left = s->size - at;
		uint64_t vaddr = s->fu->vaddr + at;
		bool skipped = s->dead && !(s->marks[at] & MARK_PENDING);

		s->marks[at] |= MARK_INSN;
		arrive(s, at);
		if (cs_disasm_iter(s->d->handle, &p, &left, &vaddr, s->d->insn)) {
			const cs_insn *in = s->d->insn;

			rc = x86 ? x86_look(s, in, at) : arm64_look(s, in, at);
			at += in->size;
			/* Nops that align what follows are not a way there. */
			s->dead |= skipped && in->id == (x86 ? (unsigned)X86_INS_NOP
							     : (unsigned)ARM64_INS_NOP);
		} else if (!x86 && left >= 4) {
			rc = arm64_unknown(s, at);
			at += 4;
		} else if (x86 && (n = x86_unknown_size(s->code + at, s->size - at))) {
			at += n;
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

/* Opcodes that the kernel does not probe: invalid, privileged or input/output. */
static bool is_bad_opcode(uint8_t op)
{
	static const uint8_t bad[] = {
		0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x26, 0x27, 0x2e, 0x2f, 0x36, 0x37,
		0x3e, 0x3f, 0x60, 0x61, 0x62, 0x66, 0x67, 0x6c, 0x6d, 0x6e, 0x6f, 0x82, 0x9a,
		0xc4, 0xc5, 0xcc, 0xcd, 0xce, 0xcf, 0xd4, 0xd5, 0xd6, 0xe4, 0xe5, 0xe6, 0xe7,
		0xea, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf4, 0xfa, 0xfb,
	};

	return memchr(bad, op, sizeof(bad));
}

/*
 * One refused place makes the kernel refuse all probes of a link. It looks up the opcode of a
 * vector instruction among those of one byte, so that vmovdqa passes for port output. And its
 * decoder does not know the instruction sets that were given up.
 */
static bool kernel_refuses(const struct sweep *s, size_t at)
{
	static const uint8_t sets[] = { X86_GRP_FMA4, X86_GRP_XOP, X86_GRP_3DNOW, X86_GRP_TBM };
	const uint8_t *p = s->code + at;
	size_t left = s->size - at, i;
	uint64_t vaddr = s->fu->vaddr + at;

	if (s->f->ident.machine != EM_X86_64)
		return false;
	i = p[0] == 0x62 ? 4 : p[0] == 0xc4 ? 3 : p[0] == 0xc5 ? 2 : 0;
	if (i && (left <= i || is_bad_opcode(p[i])))
		return true;
	if (memchr("\xf0\x26\x2e\x36\x3e", *p, 5))
		return true;
	if (!cs_disasm_iter(s->d->handle, &p, &left, &vaddr, s->d->insn))
		return !x86_unknown_size(p, left);
	for (i = 0; i < sizeof(sets); i++)
		if (cs_insn_group(s->d->handle, s->d->insn, sets[i]))
			return true;
	return false;
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
		    (s->marks[at + n] & MARK_INSN) && !kernel_refuses(s, at + n)) {
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
	if (kernel_refuses(s, at))
		return REFUSE(s, "the kernel takes no probe on its first instruction");
	s->out->entry = s->fu->offset + at;
	return 0;
}

static bool is_refused(void *ctx, size_t at)
{
	return kernel_refuses(ctx, at);
}

/* Jumps into an instruction, past its prefix, are ways that nobody follows here. */
static bool jumps_into_instructions(const struct sweep *s)
{
	size_t i;

	for (i = 0; i < s->size; i++)
		if (s->marks[i] & MARK_TARGET && !(s->marks[i] & MARK_INSN))
			return true;
	return false;
}

static void find_early_exits(struct sweep *s)
{
	struct func_code c = { .f = s->f,
			       .vaddr = s->fu->vaddr,
			       .offset = s->fu->offset,
			       .code = s->code,
			       .begins = s->marks,
			       .size = s->size,
			       .flows = s->d->flows,
			       .n_flows = s->n_flows,
			       .n_parts = s->n_parts,
			       .handle = s->d->handle,
			       .insn = s->d->insn,
			       .unknown_size = x86_unknown_size,
			       .refused = is_refused,
			       .ctx = s };

	if (s->opaque || s->f->ident.machine != EM_X86_64 || jumps_into_instructions(s))
		return;
	memcpy(c.parts, s->parts, sizeof(c.parts));
	early_exits__find(&c, s->out);
}

static int find_sites(struct sweep *s)
{
	int rc = sweep__run(s);

	if (!rc)
		rc = check_targets(s);
	if (!rc && !s->out->n_exits)
		rc = REFUSE(s, "no way out of it was found");
	if (!rc)
		rc = choose_entry(s);
	if (!rc)
		find_early_exits(s);
	return rc;
}

/* --- entry point --------------------------------------------------------------------------------- */

static void disasm__free(void *p)
{
	struct disasm *d = p;

	if (d->insn)
		cs_free(d->insn, 1);
	if (d->handle)
		cs_close(&d->handle);
	unwind__free(d->unwind);
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
