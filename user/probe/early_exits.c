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
 * The stack pointer at the entry, which calls are paired by, follows from the unwind tables.
 */
#include <string.h>

#include "user/probe/early_exits.h"
#include "user/probe/elf_internal.h"
#include "user/probe/unwind.h"

#define MAX_CODE (64u << 10)
#define MAX_LOOKED_AT 1024u
#define MAX_WAYS 8u      /* into one piece: each that a call passes is a hit */
#define MAX_PIECE 64u    /* instructions of a piece */
#define MAX_WORDS 0x7fff /* of a frame: what a cookie holds */

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
	const struct func_code *c;
	const struct flow *wanted;
	bool seen[MAX_LOOKED_AT];
	uint16_t todo[MAX_LOOKED_AT];
	size_t n_todo;
};

/* The code from @at on runs up to the next flow. */
static void go_to(struct walk *w, size_t at)
{
	const struct flow *f = at == FLOW_NOWHERE ? NULL : flow_at(w->c, at);
	size_t i;

	if (!f)
		return;
	i = (size_t)(f - w->c->flows);
	if (w->seen[i])
		return;
	w->seen[i] = true;
	w->todo[w->n_todo++] = (uint16_t)i;
}

static void go_on(struct walk *w, const struct flow *f)
{
	size_t i;

	for (i = 0; f->away && i < w->c->n_back; i++)
		go_to(w, w->c->back[i]);
	if (f->kind == FLOW_CONDITIONAL || f->kind == FLOW_JUMP)
		go_to(w, f->target);
	if (f->kind != FLOW_JUMP && f->kind != FLOW_STOP)
		go_to(w, f->at + 1);
}

static bool is_in_a_loop(const struct func_code *c, const struct flow *f)
{
	struct walk w = { .c = c, .wanted = f };

	go_on(&w, f);
	while (w.n_todo) {
		const struct flow *next = &c->flows[w.todo[--w.n_todo]];

		if (next == f)
			return true;
		go_on(&w, next);
	}
	return false;
}

/* --- the piece before a return ----------------------------------------------------------------- */

/* A way into a piece: by an instruction, in both of its directions or in one. */
struct way {
	const struct flow *flow;
	uint8_t how; /* condition, EXIT_ALWAYS */
};

struct ways {
	struct way way[FUNC_MAX_EXITS];
	size_t n;
};

static bool ways__add(struct ways *ws, const struct flow *f, uint8_t how)
{
	size_t i;

	for (i = 0; i < ws->n; i++) {
		if (ws->way[i].flow != f)
			continue;
		/* The same direction again cannot be; the other one makes it both. */
		ws->way[i].how = EXIT_ALWAYS;
		return true;
	}
	if (ws->n == ARRAY_SIZE(ws->way))
		return false;
	ws->way[ws->n++] = (struct way){ f, how };
	return true;
}

static bool is_usable(const struct func_code *c, const struct flow *f, uint64_t entry)
{
	return f->emulated && c->offset + f->at != entry && !c->refused(c->ctx, f->at) &&
	       !is_in_a_loop(c, f);
}

/* The instruction before @at, SIZE_MAX at the function's begin. */
static size_t before(const struct func_code *c, size_t at)
{
	while (at--)
		if (c->begins[at] & 1)
			return at;
	return SIZE_MAX;
}

static bool add_jumps_to(const struct func_code *c, size_t at, uint64_t entry, struct ways *ws)
{
	size_t i;

	for (i = 0; i < c->n_back; i++)
		if (c->back[i] == at)
			return false;
	for (i = 0; i < c->n_flows; i++) {
		const struct flow *f = &c->flows[i];

		if ((f->kind != FLOW_CONDITIONAL && f->kind != FLOW_JUMP) || f->target != at)
			continue;
		if (!is_usable(c, f, entry) ||
		    !ways__add(ws, f, f->kind == FLOW_JUMP ? EXIT_ALWAYS : f->condition))
			return false;
	}
	return true;
}

/* All ways into the piece that ends at @ret. False: it is better probed there. */
static bool find_ways(const struct func_code *c, size_t ret, uint64_t entry, struct ways *ws)
{
	size_t had = ws->n, at = ret, prev, i;

	for (i = 0; i < MAX_PIECE && ws->n - had <= MAX_WAYS; i++, at = prev) {
		const struct flow *f;

		/* Something that is probed already, as an entry that jumps may arrive at. */
		if (c->offset + at == entry || !add_jumps_to(c, at, entry, ws))
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
			return ws->n - had <= MAX_WAYS;
		case FLOW_CONDITIONAL:
			return is_usable(c, f, entry) && ways__add(ws, f, f->condition ^ 1);
		case FLOW_CALL:
			return elf_file__frees(c->f, f->callee) && is_usable(c, f, entry) &&
			       ways__add(ws, f, EXIT_ALWAYS);
		default:
			return false;
		}
	}
	return false;
}

static bool frame_at(const struct func_code *c, size_t at, struct early_exit *e)
{
	int64_t above;

	if (!c->unwind || !unwind__cfa_at(c->unwind, c->vaddr + at, &e->from_fp, &above))
		return false;
	above -= 8; /* the return address is part of the caller's frame */
	if (above < 0 || above % 8 || above / 8 > MAX_WORDS)
		return false;
	e->words = (uint16_t)(above / 8);
	return true;
}

void early_exits__find(const struct func_code *c, struct func_sites *out)
{
	struct ways ws = { .n = 0 };
	struct early_exit e;
	uint32_t n = 0, i;
	bool gained = false;
	size_t k;

	if (c->size > MAX_CODE || c->n_flows > MAX_LOOKED_AT)
		return;
	for (i = 0; i < out->n_exits; i++) {
		struct ways with = ws;

		if (!out->tail_exit[i] &&
		    find_ways(c, (size_t)(out->exits[i] - c->offset), out->entry, &with)) {
			ws = with;
			gained = true;
			continue;
		}
		e = (struct early_exit){ .offset = out->exits[i],
					 .how = out->tail_exit[i] ? EXIT_TAIL : EXIT_RETURN };
		out->early[n++] = e;
	}
	if (!gained || n + ws.n > FUNC_MAX_EXITS)
		return;
	for (k = 0; k < ws.n; k++) {
		e = (struct early_exit){ .offset = c->offset + ws.way[k].flow->at,
					 .how = ws.way[k].how };
		if (!frame_at(c, ws.way[k].flow->at, &e))
			return;
		out->early[n++] = e;
	}
	out->n_early = n;
}
