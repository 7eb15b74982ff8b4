// SPDX-License-Identifier: Apache-2.0
/*
 * Kernels step a return instruction: two exceptions where a jump or a call, which they emulate, takes
 * one; in a virtual machine, where the second one goes through the host, ten times as much. But before
 * it returns a function runs straight on for a while (registers are restored, the frame is taken down),
 * and into that last piece there are few ways: jumps, which can be probed instead. A conditional one
 * is such a way out in one of its two directions, which the flags tell when it is hit.
 *
 * So a return instruction is replaced by all ways into the piece that it ends, if each of them is an
 * instruction that the kernel emulates and no call runs more than once. What is left of the call then is
 * neither a call nor a jump. One exception: locals that are given back by a last free() lie behind.
 *
 * The stack pointer at the entry, which calls are paired by, follows from what the piece itself does to it.
 */
#include <string.h>

#include "user/probe/early_exits.h"
#include "user/probe/elf_internal.h"

#define MAX_CODE (64u << 10)
#define MAX_LOOKED_AT 1024u
#define MAX_PART (64u << 10)
#define MAX_BACK 64u
#define MAX_WAYS 8u      /* of a function: each that a call passes is a hit */
#define MAX_PIECE 64u    /* instructions of a piece */
#define MAX_WORDS 0x7fff /* of a frame: what a cookie holds */

/* A function and where its parts that lie elsewhere jump back to. */
struct graph {
	const struct func_code *c;
	uint64_t entry;
	uint32_t back[MAX_BACK];
	size_t n_back;
};

static const struct flow *flow_at(const struct func_code *c, size_t at)
{
	size_t lo = 0, hi = c->n_flows;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->flows[mid].at < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < c->n_flows ? &c->flows[lo] : NULL;
}

/* --- does it run more than once? --------------------------------------------------------------- */

struct walk {
	const struct graph *g;
	bool seen[MAX_LOOKED_AT], seen_back;
	uint16_t todo[MAX_LOOKED_AT];
	size_t n_todo;
};

/* The code from @at on runs up to the next flow. */
static void go_to(struct walk *w, size_t at)
{
	const struct func_code *c = w->g->c;
	const struct flow *f = at == FLOW_NOWHERE ? NULL : flow_at(c, at);
	size_t i;

	if (!f)
		return;
	i = (size_t)(f - c->flows);
	if (w->seen[i])
		return;
	w->seen[i] = true;
	w->todo[w->n_todo++] = (uint16_t)i;
}

static void go_on(struct walk *w, const struct flow *f)
{
	size_t i;

	if (f->away && !w->seen_back) {
		w->seen_back = true;
		for (i = 0; i < w->g->n_back; i++)
			go_to(w, w->g->back[i]);
	}
	if (f->kind == FLOW_CONDITIONAL || f->kind == FLOW_JUMP)
		go_to(w, f->target);
	if (f->kind != FLOW_JUMP && f->kind != FLOW_STOP)
		go_to(w, f->at + 1);
}

static bool is_in_a_loop(const struct graph *g, const struct flow *f)
{
	struct walk w = { .g = g };

	go_on(&w, f);
	while (w.n_todo) {
		const struct flow *next = &g->c->flows[w.todo[--w.n_todo]];

		if (next == f)
			return true;
		go_on(&w, next);
	}
	return false;
}

/* --- parts that lie elsewhere -------------------------------------------------------------------- */

/* False: no one knows where the instruction goes. */
static bool look_in_part(struct graph *g, const cs_insn *in, const struct func_part *part)
{
	const cs_x86_op *op = &in->detail->x86.operands[0];
	const struct func_code *c = g->c;
	uint64_t target;

	if (in->id == X86_INS_LOOP || in->id == X86_INS_LOOPE || in->id == X86_INS_LOOPNE ||
	    in->id == X86_INS_XBEGIN)
		return false;
	if (!cs_insn_group(c->handle, in, CS_GRP_JUMP))
		return true;
	if (in->detail->x86.op_count < 1 || op->type != X86_OP_IMM)
		return false;
	target = (uint64_t)op->imm;
	if (target - c->vaddr >= c->size)
		return target - part->vaddr < part->size;
	if (g->n_back == MAX_BACK)
		return false;
	g->back[g->n_back++] = (uint32_t)(target - c->vaddr);
	return true;
}

static bool read_part(struct graph *g, const struct func_part *part)
{
	const struct func_code *c = g->c;
	size_t size = (size_t)part->size, at = 0, n;
	__cleanup_free uint8_t *code = NULL;

	if (part->size > MAX_PART)
		return false;
	code = malloc(size);
	if (!code || elf_file__read(c->f, part->vaddr, code, size) != size)
		return false;
	while (at < size) {
		const uint8_t *p = code + at;
		size_t left = size - at;
		uint64_t vaddr = part->vaddr + at;

		if (cs_disasm_iter(c->handle, &p, &left, &vaddr, c->insn)) {
			if (!look_in_part(g, c->insn, part))
				return false;
			at += c->insn->size;
			continue;
		}
		n = c->unknown_size(code + at, size - at);
		if (!n)
			return false;
		at += n;
	}
	return true;
}

/* --- what a piece does to the stack pointer ------------------------------------------------------ */

/* The stack pointer as so much above its value at the piece's begin, or above that of the frame pointer. */
struct sp_value {
	bool from_fp, fp_lost;
	int64_t above;
};

static bool sp__be_fp(struct sp_value *v, int64_t above)
{
	if (v->fp_lost)
		return false;
	v->from_fp = true;
	v->above = above;
	return true;
}

/* False: what the instruction makes of it is not known. */
static bool sp__follow(const struct func_code *c, const cs_insn *in, struct sp_value *v)
{
	const cs_x86 *x = &in->detail->x86;
	const cs_x86_op *to = &x->operands[0], *from = &x->operands[1];
	bool sets_sp = x->op_count == 2 && to->type == X86_OP_REG && to->reg == X86_REG_RSP;
	cs_regs reads, writes;
	uint8_t n_reads, n_writes, i;

	switch (in->id) {
	case X86_INS_POP:
		if (to->type != X86_OP_REG || to->size != 8 || to->reg == X86_REG_RSP)
			return false;
		v->fp_lost |= to->reg == X86_REG_RBP;
		v->above += 8;
		return true;
	case X86_INS_LEAVE:
		if (in->size != 1 || !sp__be_fp(v, 8))
			return false;
		v->fp_lost = true;
		return true;
	case X86_INS_ADD:
	case X86_INS_SUB:
		if (!sets_sp || from->type != X86_OP_IMM)
			break;
		v->above += in->id == X86_INS_ADD ? from->imm : -from->imm;
		return true;
	case X86_INS_MOV:
		if (!sets_sp || from->type != X86_OP_REG || from->reg != X86_REG_RBP)
			break;
		return sp__be_fp(v, 0);
	case X86_INS_LEA:
		if (!sets_sp || from->mem.index != X86_REG_INVALID)
			break;
		if (from->mem.base == X86_REG_RBP)
			return sp__be_fp(v, from->mem.disp);
		if (from->mem.base != X86_REG_RSP)
			return false;
		v->above += from->mem.disp;
		return true;
	default:
		break;
	}
	if (cs_regs_access(c->handle, in, reads, &n_reads, writes, &n_writes) != CS_ERR_OK)
		return false;
	for (i = 0; i < n_writes; i++) {
		if (writes[i] == X86_REG_RSP || writes[i] == X86_REG_ESP || writes[i] == X86_REG_SP)
			return false;
		v->fp_lost |= writes[i] == X86_REG_RBP || writes[i] == X86_REG_EBP ||
			      writes[i] == X86_REG_BP || writes[i] == X86_REG_BPL;
	}
	return true;
}

/* How far above the stack pointer, or the frame pointer, at @at the one lies that @ret returns with. */
static bool frame_above(const struct func_code *c, size_t at, size_t ret, struct early_exit *e)
{
	struct sp_value v = { .above = 0 };

	while (at < ret) {
		const uint8_t *p = c->code + at;
		size_t left = c->size - at;
		uint64_t vaddr = c->vaddr + at;

		if (!cs_disasm_iter(c->handle, &p, &left, &vaddr, c->insn) ||
		    !sp__follow(c, c->insn, &v))
			return false;
		at += c->insn->size;
	}
	if (at != ret || v.above < 0 || v.above % 8 || v.above / 8 > MAX_WORDS)
		return false;
	e->from_fp = v.from_fp;
	e->words = (uint16_t)(v.above / 8);
	return true;
}

/* --- the piece before a return ----------------------------------------------------------------- */

/* Ways into pieces, each by an instruction in one of its directions or in both. */
struct ways {
	const struct flow *flow[MAX_WAYS];
	struct early_exit exit[MAX_WAYS];
	size_t n;
};

/* @from: where it leads into the piece that ends at @ret. */
static bool ways__add(const struct graph *g, struct ways *ws, const struct flow *f, uint8_t how,
		      size_t from, size_t ret)
{
	const struct func_code *c = g->c;
	struct early_exit e = { .offset = c->offset + f->at, .how = how };
	size_t i;

	if (!f->emulated || e.offset == g->entry || !frame_above(c, from, ret, &e))
		return false;
	for (i = 0; i < ws->n; i++) {
		if (ws->flow[i] != f)
			continue;
		/* The same direction again cannot be; the other one makes it both. */
		ws->exit[i].how = EXIT_ALWAYS;
		return ws->exit[i].from_fp == e.from_fp && ws->exit[i].words == e.words;
	}
	if (ws->n == MAX_WAYS || c->refused(c->ctx, f->at) || is_in_a_loop(g, f))
		return false;
	ws->flow[ws->n] = f;
	ws->exit[ws->n++] = e;
	return true;
}

/* The instruction before @at, SIZE_MAX at the function's begin. */
static size_t before(const struct func_code *c, size_t at)
{
	while (at--)
		if (c->begins[at] & 1)
			return at;
	return SIZE_MAX;
}

static bool add_jumps_to(const struct graph *g, size_t at, size_t ret, struct ways *ws,
			 size_t *found)
{
	const struct func_code *c = g->c;
	size_t i;

	for (i = 0; i < g->n_back; i++)
		if (g->back[i] == at)
			return false;
	for (i = 0; i < c->n_flows; i++) {
		const struct flow *f = &c->flows[i];

		if ((f->kind != FLOW_CONDITIONAL && f->kind != FLOW_JUMP) || f->target != at)
			continue;
		if (!ways__add(g, ws, f, f->kind == FLOW_JUMP ? EXIT_ALWAYS : f->condition, at,
			       ret))
			return false;
		++*found;
	}
	return true;
}

/* All ways into the piece that ends at @ret. False: it is better probed there. */
static bool find_ways(const struct graph *g, size_t ret, struct ways *ws)
{
	const struct func_code *c = g->c;
	size_t at = ret, prev, found = 0, i;

	for (i = 0; i < MAX_PIECE; i++, at = prev) {
		const struct flow *f;

		/* Something that is probed already, as an entry that jumps may arrive at. */
		if (c->offset + at == g->entry || !add_jumps_to(g, at, ret, ws, &found))
			return false;
		prev = before(c, at);
		if (prev == SIZE_MAX)
			return false;
		f = flow_at(c, prev);
		if (!f || f->at != prev)
			continue;
		switch (f->kind) {
		case FLOW_JUMP:
		case FLOW_STOP:
			/* Without a way that is known there may be one that is not. */
			return found;
		case FLOW_CONDITIONAL:
			return ways__add(g, ws, f, f->condition ^ 1, at, ret);
		case FLOW_CALL:
			return elf_file__frees(c->f, f->callee) &&
			       ways__add(g, ws, f, EXIT_ALWAYS, at, ret);
		default:
			return false;
		}
	}
	return false;
}

/* Whether it is worth a look. */
static bool returns(const struct func_sites *s)
{
	uint32_t i;

	for (i = 0; i < s->n_exits; i++)
		if (!s->tail_exit[i])
			return true;
	return false;
}

void early_exits__find(const struct func_code *c, struct func_sites *out)
{
	struct graph g = { .c = c, .entry = out->entry };
	struct ways ws = { .n = 0 };
	uint32_t n = 0, i;
	size_t k;

	if (c->size > MAX_CODE || c->n_flows > MAX_LOOKED_AT || !returns(out))
		return;
	for (k = 0; k < c->n_parts; k++)
		if (!read_part(&g, &c->parts[k]))
			return;
	for (i = 0; i < out->n_exits; i++) {
		struct ways with = ws;

		if (!out->tail_exit[i] &&
		    find_ways(&g, (size_t)(out->exits[i] - c->offset), &with)) {
			ws = with;
			continue;
		}
		out->early[n].offset = out->exits[i];
		out->early[n].from_fp = false;
		out->early[n].words = 0;
		out->early[n++].how = out->tail_exit[i] ? EXIT_TAIL : EXIT_RETURN;
	}
	if (!ws.n || n + ws.n > FUNC_MAX_EXITS)
		return;
	for (k = 0; k < ws.n; k++)
		out->early[n++] = ws.exit[k];
	out->n_early = n;
}
