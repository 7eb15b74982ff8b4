// SPDX-License-Identifier: Apache-2.0
#include "user/probe/fetch.h"

#include <elf.h>
#include <string.h>

static const struct {
	uint8_t bytes;
	bool is_signed;
} numbers[] = {
	[RECIPE_I8] = { 1, true },   [RECIPE_U8] = { 1, false },  [RECIPE_I16] = { 2, true },
	[RECIPE_U16] = { 2, false }, [RECIPE_I32] = { 4, true },  [RECIPE_U32] = { 4, false },
	[RECIPE_I64] = { 8, true },  [RECIPE_U64] = { 8, false }, [RECIPE_POINTER] = { 8, false },
	[RECIPE_F32] = { 4, false }, [RECIPE_F64] = { 8, false },
};

bool recipe_type__is_text(enum recipe_type t)
{
	return t >= RECIPE_STRING;
}

unsigned recipe_type__bytes(enum recipe_type t)
{
	return (size_t)t < ARRAY_SIZE(numbers) ? numbers[t].bytes : 0;
}

bool recipe_type__is_signed(enum recipe_type t)
{
	return (size_t)t < ARRAY_SIZE(numbers) && numbers[t].is_signed;
}

enum fetch_when recipe_arg__when(const struct recipe_arg *a)
{
	return a->source == RECIPE_RETURN || a->late ? FETCH_AT_RETURN : FETCH_AT_ENTRY;
}

static unsigned at_most(unsigned n, unsigned max)
{
	return n < max ? n : max;
}

static void set_kind(struct wire_fetch *f, const struct recipe_arg *a)
{
	f->bytes = WIRE_FETCH_BYTES;
	switch (a->type) {
	case RECIPE_STRING:
		f->kind = FETCH_TEXT;
		break;
	case RECIPE_CHARS:
		f->kind = FETCH_TEXT;
		f->bytes = at_most(a->count, WIRE_FETCH_BYTES);
		break;
	case RECIPE_STD_STRING:
		f->kind = FETCH_STRING;
		break;
	case RECIPE_ARRAY:
		f->kind = FETCH_BYTES;
		f->bytes = at_most(a->count * recipe_type__bytes(a->element), WIRE_FETCH_BYTES);
		break;
	case RECIPE_COUNTED:
		f->kind = FETCH_BYTES;
		f->bytes = at_most(8 + a->count * recipe_type__bytes(a->element), WIRE_FETCH_BYTES);
		break;
	default:
		f->kind = FETCH_VALUE;
		f->bytes = recipe_type__bytes(a->type);
		f->is_signed = recipe_type__is_signed(a->type);
		f->shift = a->shift;
		f->times = a->times;
	}
}

/* False: a layout is not known, or a number fits no step. */
static bool set_steps(struct wire_fetch *f, const struct recipe_arg *a, uint16_t machine,
		      const int64_t *layouts, const bool *known)
{
	switch (a->source) {
	case RECIPE_ARG:
		f->base = a->index;
		break;
	case RECIPE_RETURN:
		f->base = FETCH_BASE_RETURN;
		break;
	case RECIPE_STACK:
		/* On x86 the return address lies below the arguments; on arm64 it is in a register. */
		f->base = FETCH_BASE_SP;
		f->steps[f->n_steps++] = (a->index + (machine == EM_X86_64 ? 1 : 0)) * 8;
		/* The word is the address of a text: one more look at it. */
		if (!a->n_path && recipe_type__is_text(a->type))
			f->steps[f->n_steps++] = 0;
		break;
	}
	for (unsigned i = 0; i < a->n_path && f->n_steps < WIRE_STEPS; i++) {
		int64_t v = a->path[i].value;
		int l = a->path[i].layout;

		if (l >= 0 && !known[l])
			return false;
		v += l >= 0 ? layouts[l] : 0;
		if (v < INT32_MIN || v > INT32_MAX)
			return false;
		f->steps[f->n_steps++] = (int32_t)v;
	}
	return true;
}

static void add_arg(struct fetch_plan *p, unsigned i, const struct recipe_arg *a, uint16_t machine,
		    const int64_t *layouts, const bool *known)
{
	enum fetch_when when = recipe_arg__when(a);
	struct wire_fetch_set *s = when == FETCH_AT_RETURN ? &p->ret : &p->entry;
	struct wire_fetch f = { 0 };

	if (p->args[i].when || s->n == WIRE_FETCHES ||
	    (recipe_type__is_text(a->type) && s->texts == WIRE_FETCH_TEXTS))
		return;
	set_kind(&f, a);
	if (!set_steps(&f, a, machine, layouts, known))
		return;
	if (recipe_type__is_text(a->type))
		f.slot = s->texts++;
	p->args[i] = (struct fetch_arg){ when, s->n, f.slot };
	s->f[s->n++] = f;
	if (a->late)
		p->entry.save |= 1u << a->index;
}

void fetch__plan(const struct recipe_function *fn, uint16_t machine, const int64_t *layouts,
		 const bool *known, struct fetch_plan *out)
{
	struct fetch_plan *p = out;
	bool size_known, block_known;

	memset(p, 0, sizeof(*p));
	/* What decides whether the call is kept comes first. */
	if (fn->keep_size >= 0)
		add_arg(p, fn->keep_size, &fn->args[fn->keep_size], machine, layouts, known);
	if (fn->keep_block >= 0)
		add_arg(p, fn->keep_block, &fn->args[fn->keep_block], machine, layouts, known);
	for (unsigned i = 0; i < fn->n_args; i++)
		add_arg(p, i, &fn->args[i], machine, layouts, known);
	p->returns = fn->span || p->ret.n;
	for (unsigned i = 0; i < fn->n_does; i++)
		p->returns |= fn->does[i].at_return;
	size_known = fn->keep_size >= 0 && p->args[fn->keep_size].when;
	block_known = fn->keep_block >= 0 && p->args[fn->keep_block].when;
	p->never = (fn->keep_size >= 0 || fn->keep_block >= 0) && !size_known && !block_known;
	if (size_known) {
		p->entry.keep |= KEEP_AT_LEAST;
		p->entry.least = fn->keep_min;
	}
	if (block_known) {
		p->entry.keep |= KEEP_KNOWN;
		p->entry.known = p->args[fn->keep_block].val;
	}
	p->ret.save = p->entry.save;
	p->entry.frame = p->returns && (p->entry.save || p->entry.keep);
	if (p->entry.frame && p->entry.keep)
		p->ret.keep = KEEP_FRAME;
	for (unsigned i = 0; i < fn->n_does && fn->keep_size >= 0; i++) {
		const struct recipe_does *d = &fn->does[i];

		if ((d->what == RECIPE_ALLOC || d->what == RECIPE_RESERVE) && d->id >= 0 &&
		    p->args[d->id].when == FETCH_AT_RETURN)
			p->ret.remember = 1 + p->args[d->id].val;
	}
	p->at_entry = p->entry.n || p->entry.keep || p->entry.frame;
	p->at_return = p->ret.n || p->ret.keep || p->ret.save;
}
