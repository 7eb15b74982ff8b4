// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/follow.h"
#include "user/probe/layout.h"

#define MAX_STEPS 8192u      /* instructions in all */
#define MAX_PENDING 64u      /* paths that wait */
#define MAX_PLACES 512u      /* that jumps go to */
#define MAX_ARRIVALS 6u      /* at one such place: what goes round more often is a loop */
#define MAX_PARTS 4u         /* the function and what it jumps to outside of itself */
#define PART_SIZE 4096u      /* of a part whose end nothing tells */
#define MAX_BYTES (1u << 20) /* of a function */

struct pending {
	uint64_t at;
	struct follow_state state;
};

struct paths {
	struct follow w;
	struct pending *pending; /* MAX_PENDING */
	size_t n_pending;
	struct place {
		uint64_t at;
		unsigned arrivals;
	} places[MAX_PLACES]; /* by hash */
	size_t n_places;
	struct part {
		uint64_t start, end;
	} parts[MAX_PARTS];
	size_t n_parts;
	unsigned steps;
	bool x86;
};

/* --- values ------------------------------------------------------------------------------------ */

static const struct value unknown = { VALUE_UNKNOWN, 0 };

struct value value__number(int64_t n)
{
	return (struct value){ VALUE_NUMBER, n };
}

/* Overflow of what a hostile file makes us add up is no error. */
static int64_t wrap_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

struct value value__plus(struct value a, struct value b)
{
	if (a.kind == VALUE_NUMBER) {
		struct value swap = a;

		a = b;
		b = swap;
	}
	if (b.kind != VALUE_NUMBER || a.kind == VALUE_UNKNOWN)
		return unknown;
	if (a.kind == VALUE_LOADED)
		return b.n ? unknown : a;
	a.n = wrap_add(a.n, b.n);
	return a;
}

struct value value__minus(struct value a, struct value b)
{
	if (b.kind != VALUE_NUMBER)
		return unknown;
	b.n = (int64_t)(0 - (uint64_t)b.n);
	return value__plus(a, b);
}

struct value value__times(struct value a, int64_t by)
{
	if (by == 1)
		return a;
	if (a.kind != VALUE_NUMBER)
		return unknown;
	return value__number((int64_t)((uint64_t)a.n * (uint64_t)by));
}

struct value value__low_half(struct value v)
{
	if (v.kind == VALUE_NUMBER)
		return value__number((int64_t)(uint32_t)v.n);
	return v.kind == VALUE_LOADED ? v : unknown;
}

/* --- memory ------------------------------------------------------------------------------------ */

struct value follow__load(struct follow *w, struct value at, unsigned size)
{
	uint64_t to;
	size_t i;

	switch (at.kind) {
	case VALUE_ARG:
		if (!w->out->reads || at.n < w->out->lowest_read)
			w->out->lowest_read = at.n;
		w->out->reads = true;
		return (struct value){ VALUE_LOADED, at.n };
	case VALUE_STACK:
		for (i = 0; i < w->now.n_slots; i++)
			if (w->now.slot[i].at == at.n && size <= w->now.slot[i].size)
				return size == w->now.slot[i].size
					       ? w->now.slot[i].v
					       : value__low_half(w->now.slot[i].v);
		return unknown;
	case VALUE_NUMBER:
		if (size == 8 && w->relocs && elf_relocs__at(w->relocs, (uint64_t)at.n, &to))
			return value__number((int64_t)to);
		return unknown;
	default:
		return unknown;
	}
}

void follow__store(struct follow *w, struct value at, unsigned size, struct value v)
{
	struct follow_state *s = &w->now;
	uint8_t i = 0;

	if (at.kind != VALUE_STACK)
		return;
	while (i < s->n_slots) {
		uint64_t above = (uint64_t)at.n - (uint64_t)s->slot[i].at;
		uint64_t below = (uint64_t)s->slot[i].at - (uint64_t)at.n;

		if (above < s->slot[i].size || below < size)
			s->slot[i] = s->slot[--s->n_slots];
		else
			i++;
	}
	if (v.kind == VALUE_UNKNOWN || s->n_slots == FOLLOW_SLOTS || (size != 8 && size != 4))
		return;
	s->slot[s->n_slots].at = at.n;
	s->slot[s->n_slots].size = (uint8_t)size;
	s->slot[s->n_slots++].v = size == 8 ? v : value__low_half(v);
}

/* --- paths ------------------------------------------------------------------------------------- */

static void cut(struct paths *p, const char *why)
{
	if (!p->w.out->cut)
		p->w.out->cut = why;
}

static bool in_parts(const struct paths *p, uint64_t at)
{
	size_t i;

	for (i = 0; i < p->n_parts; i++)
		if (at >= p->parts[i].start && at < p->parts[i].end)
			return true;
	return false;
}

/* A function that ends by jumping to another one, or the part of it that was moved away. */
static bool add_part(struct paths *p, uint64_t at)
{
	const struct elf_load *l = elf_file__load_at(p->w.f, at);
	uint64_t start, size;

	if (p->n_parts == MAX_PARTS || !l || !(l->flags & PF_X))
		return false;
	if (!elf_file__fde_at(p->w.f, at, &start, &size) || size > PART_SIZE ||
	    at - start >= size) {
		start = at;
		size = PART_SIZE;
	}
	p->parts[p->n_parts++] = (struct part){ at, start + size };
	return true;
}

/* Has this place been arrived at so often that there is nothing new to see? */
static bool enough_of(struct paths *p, uint64_t at)
{
	size_t i = (size_t)(at * 0x9e3779b97f4a7c15ull >> 55) % MAX_PLACES;

	while (p->places[i].arrivals && p->places[i].at != at)
		i = (i + 1) % MAX_PLACES;
	if (!p->places[i].arrivals) {
		if (p->n_places == MAX_PLACES - 1) {
			cut(p, "it has too many branches");
			return true;
		}
		p->n_places++;
		p->places[i].at = at;
	}
	return ++p->places[i].arrivals > MAX_ARRIVALS;
}

static void go_later(struct paths *p, uint64_t at, const struct follow_state *s)
{
	if (p->n_pending == MAX_PENDING) {
		cut(p, "it has too many branches");
		return;
	}
	p->pending[p->n_pending].at = at;
	p->pending[p->n_pending++].state = *s;
}

static void jump_to(struct paths *p, uint64_t at)
{
	if (!in_parts(p, at) && !add_part(p, at))
		return; /* somewhere else: as if it returned something unknown */
	if (!enough_of(p, at))
		go_later(p, at, &p->w.now);
}

static void take_return(struct followed *out, struct value v)
{
	unsigned i;

	if (v.kind == VALUE_UNKNOWN || v.kind == VALUE_STACK)
		return;
	for (i = 0; i < out->n_returns; i++)
		if (out->returns[i].kind == v.kind && out->returns[i].n == v.n)
			return;
	if (out->n_returns == FOLLOW_MAX_RETURNS)
		out->cut = "it returns too many things";
	else
		out->returns[out->n_returns++] = v;
}

/* One instruction; false: the path ends. */
static bool step(struct paths *p, uint64_t *at)
{
	uint8_t bytes[16];
	const uint8_t *b = bytes;
	size_t left = elf_file__read(p->w.f, *at, bytes, sizeof(bytes));
	uint64_t vaddr = *at;
	enum follow_next next;

	if (!in_parts(p, *at))
		return false;
	if (!left || !cs_disasm_iter(p->w.handle, &b, &left, &vaddr, p->w.insn)) {
		cut(p, "it has an instruction that is not known");
		return false;
	}
	p->w.forked = false;
	next = p->x86 ? follow_x86__step(&p->w, p->w.insn) : follow_arm64__step(&p->w, p->w.insn);
	*at += p->w.insn->size;
	if (p->w.forked && !enough_of(p, *at))
		go_later(p, *at, &p->w.other);
	if (next == NEXT_RETURN)
		take_return(p->w.out, p->w.result);
	if (next == NEXT_JUMP || next == NEXT_BRANCH)
		jump_to(p, p->w.target);
	return next == NEXT_ON || next == NEXT_BRANCH;
}

static void follow_all(struct paths *p)
{
	uint64_t at;

	while (p->n_pending) {
		at = p->pending[--p->n_pending].at;
		p->w.now = p->pending[p->n_pending].state;
		do {
			if (p->steps++ == MAX_STEPS) {
				cut(p, "it is too long");
				return;
			}
		} while (step(p, &at));
	}
}

static int open_disasm(struct paths *p, struct clika_error *err)
{
	cs_err rc = cs_open(p->x86 ? CS_ARCH_X86 : CS_ARCH_ARM64,
			    p->x86 ? CS_MODE_64 : CS_MODE_LITTLE_ENDIAN, &p->w.handle);

	if (rc == CS_ERR_OK)
		rc = cs_option(p->w.handle, CS_OPT_DETAIL, CS_OPT_ON);
	if (rc == CS_ERR_OK) {
		p->w.insn = cs_malloc(p->w.handle);
		if (!p->w.insn)
			rc = CS_ERR_MEM;
	}
	return rc == CS_ERR_OK ? 0
			       : error__set(err, rc == CS_ERR_MEM ? -ENOMEM : -ENOTSUP,
					    "disassembler: %s", cs_strerror(rc));
}

int follow__function(struct elf_file *f, const struct elf_relocs *relocs, uint64_t vaddr,
		     uint64_t size, struct followed *out, struct clika_error *err)
{
	struct follow_state entry = { 0 };
	struct paths *p;
	int rc;

	memset(out, 0, sizeof(*out));
	p = calloc(1, sizeof(*p));
	if (p)
		p->pending = calloc(MAX_PENDING, sizeof(*p->pending));
	if (!p || !p->pending) {
		free(p);
		return error__set(err, -ENOMEM, "%s: out of memory", f->name);
	}
	p->w.f = f;
	p->w.relocs = relocs;
	p->w.out = out;
	p->x86 = f->ident.machine == EM_X86_64;
	rc = open_disasm(p, err);
	if (!rc) {
		p->parts[p->n_parts++] =
			(struct part){ vaddr,
				       vaddr + (size && size < MAX_BYTES ? size : PART_SIZE) };
		entry.reg[p->x86 ? 5 : 0] = (struct value){ VALUE_ARG, 0 };
		entry.reg[p->x86 ? 7 : 31] = (struct value){ VALUE_STACK, 0 };
		go_later(p, vaddr, &entry);
		follow_all(p);
	}
	if (p->w.insn)
		cs_free(p->w.insn, 1);
	if (p->w.handle)
		cs_close(&p->w.handle);
	free(p->pending);
	free(p);
	return rc;
}
