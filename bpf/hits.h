/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Markers of one hit each: the simple transport and any provider's USDT markers. */
#ifndef CLIKA_BPF_HITS_H
#define CLIKA_BPF_HITS_H

#include "bpf/common.h"

static __always_inline __u64 reg__read(const void *regs, __u16 off)
{
	__u64 v = 0;

	bpf_probe_read_kernel(&v, sizeof(v), regs + off);
	return v;
}

static __always_inline __u64 spec__value(const void *regs, const struct wire_spec *s)
{
	__u64 v = 0, addr;
	__u32 n;
	__u8 shift;

	switch (s->kind) {
	case SPEC_CONST:
		return s->value;
	case SPEC_REG:
		v = reg__read(regs, s->reg);
		break;
	case SPEC_MEM:
	case SPEC_SIB:
		addr = s->value;
		if (s->reg != 0xffff)
			addr += reg__read(regs, s->reg);
		if (s->kind == SPEC_SIB)
			addr += reg__read(regs, s->index) * s->scale;
		/* As many bytes as it has: the next may lie in no mapping. A fault gives 0: the marker
		 * itself did happen. */
		n = s->bytes;
		if (n > sizeof(v))
			n = sizeof(v);
		bpf_probe_read_user(&v, n, (void *)addr);
		break;
	}
	shift = 64 - (s->bytes * 8);
	shift &= 63;
	v <<= shift;
	return s->is_signed ? (__u64)((__s64)v >> shift) : v >> shift;
}

/* What follows the end is not looked at. */
static __always_inline int text__read(char *to, __u64 from)
{
	to[0] = 0;
	return from && bpf_probe_read_user_str(to, WIRE_TEXT, (void *)from) < 0;
}

/* Whether a brief record holds the text: it is readable and shorter. */
static __always_inline bool text__read_brief(__u64 to[WIRE_BRIEF / 8], __u64 from)
{
	long got;

	if (!from)
		return true;
	got = bpf_probe_read_user_str(to, WIRE_BRIEF, (void *)from);
	return got > 0 && got < WIRE_BRIEF;
}

/* The argument registers, read from the context itself, which costs nothing. */
struct hit_regs {
	__u64 arg[6];
	const void *all; /* struct pt_regs */
};

/* Index by comparison: an array that is indexed would have to be written to the stack first. */
static __always_inline __u64 hit__arg(const struct hit_regs *regs, __u8 i)
{
	switch (i) {
	case 0:
		return regs->arg[0];
	case 1:
		return regs->arg[1];
	case 2:
		return regs->arg[2];
	case 3:
		return regs->arg[3];
	case 4:
		return regs->arg[4];
	}
	return regs->arg[5];
}

/* A hit that is taken. */
struct hit_taken {
	struct task_struct *task;
	__u64 start, ts;
	__u32 site;
	__u32 literal; /* displacement, 0 = none */
	__u8 flags;
	const struct wire_site *s;
	const struct hit_regs *regs;
};

/* What a marker says behind its values. @at: 1 + index, 0 = nothing. */
static __always_inline __u64 hit__extra(const struct hit_taken *t, __u32 at)
{
	if (!at)
		return 0;
	at--;
	if (t->s->in_regs)
		return hit__arg(t->regs, at);
	return at < WIRE_MAX_ARGS ? spec__value(t->regs->all, &t->s->specs[at]) : 0;
}

/*
 * A record with room for @room values and @bytes more, both constants. Small ones are cheap: the ring
 * is read by another processor, so that nearly each of its lines has to be fetched when it is written.
 */
static __always_inline struct wire_hit *hit__reserve(void *ring, const struct hit_taken *t,
						     __u32 room, __u32 bytes)
{
	__u32 size = sizeof(struct wire_hit) + room * 8 + bytes;
	struct wire_hit *h = bpf_ringbuf_reserve(ring, size, 0);

	if (!h)
		return NULL;
	task__fill(&h->task, t->task, t->start);
	h->task.aux = t->literal;
	hdr__fill(&h->hdr, size, W_HIT, t->flags, t->ts);
	h->site = t->site;
	h->n_vals = t->s->n_specs < room ? t->s->n_specs : room;
	h->n_texts = 0;
	h->n_args = 0;
	h->room = room;
	return h;
}

static __always_inline __u64 *hit__vals(struct wire_hit *h)
{
	return (__u64 *)(h + 1);
}

static __always_inline char *hit__text(struct wire_hit *h, __u32 room, __u32 i)
{
	return (char *)(h + 1) + room * 8 + i * (room < WIRE_MAX_ARGS ? WIRE_BRIEF : WIRE_TEXT);
}

/* The first @room values and @texts texts that are read already. */
static __always_inline struct wire_hit *hit__brief(void *ring, const struct hit_taken *t,
						   __u32 room, __u32 texts,
						   __u64 text[2][WIRE_BRIEF / 8])
{
	struct wire_hit *h = hit__reserve(ring, t, room, texts * WIRE_BRIEF);
	__u32 i;

	if (!h)
		return NULL;
	for (i = 0; i < room; i++)
		hit__vals(h)[i] = t->regs->arg[i];
	for (i = 0; i < texts; i++)
		__builtin_memcpy(hit__text(h, room, i), text[i], WIRE_BRIEF);
	h->n_texts = texts;
	return h;
}

/* Every string of a marker and its typed arguments: the roomy, rare record. */
static __always_inline int hit__full(struct wire_hit_full *f, const struct wire_site *s,
				     bool literal)
{
	__u32 n, i, slot = 0, at;
	int fault = 0;
	__u64 ptr;

	for (i = 0; i < WIRE_MAX_ARGS; i++) {
		if (i >= s->n_specs)
			break;
		if (!(s->str_mask & (1u << i)) || slot >= WIRE_HIT_TEXTS)
			continue;
		fault |= text__read(f->text[slot], literal ? 0 : f->vals[i]);
		slot++;
	}
	f->hit.n_texts = slot;
	at = s->args_at;
	if (!at || at >= WIRE_MAX_ARGS)
		return fault;
	/* Older verifiers forget a bound across 32-bit arithmetic, a mask they understand; what lies
	 * behind the values up to there is this record's own. */
	barrier_var(at);
	n = f->vals[(at - 1) & 15];
	ptr = f->vals[at & 15];
	if (n > 8)
		n = 8;
	for (i = 0; i < 8; i++) {
		if (i >= n)
			break;
		if (bpf_probe_read_user(&f->args[i], sizeof(f->args[i]),
					(void *)(ptr + i * sizeof(f->args[i])))) {
			fault = 1;
			break;
		}
		fault |= text__read(f->text[2 + i], f->args[i].key);
		f->text[10 + i][0] = 0;
		if (f->args[i].type == 4)
			fault |= text__read(f->text[10 + i], f->args[i].value);
	}
	f->hit.n_args = i;
	f->hit.n_texts = WIRE_HIT_TEXTS;
	return fault;
}

/* Markers of few values and short texts, which nearly all are. False: not such a one. */
static __always_inline bool hit__record_brief(void *ring, const struct hit_taken *t,
					      struct wire_hit **h)
{
	const struct wire_site *s = t->s;
	__u64 text[2][WIRE_BRIEF / 8] = {}, second;
	bool two = false;

	if (!s->in_regs || s->n_specs > 4)
		return false;
	if (t->literal && s->n_strs == s->n_specs) {
		*h = hit__reserve(ring, t, 0, 0);
		return true;
	}
	if (!s->n_strs || t->literal) {
		*h = s->n_specs > 2 ? hit__brief(ring, t, 4, 0, text)
				    : hit__brief(ring, t, 2, 0, text);
		return true;
	}
	if (!text__read_brief(text[0], hit__arg(t->regs, s->str_at[0])))
		return false;
	if (s->n_strs == 2) {
		/* A category, which nearly always is none. */
		second = hit__arg(t->regs, s->str_at[1]);
		two = second;
		if (two && !text__read_brief(text[1], second))
			return false;
	}
	if (two)
		*h = hit__brief(ring, t, 4, 2, text);
	else if (s->n_specs > 2)
		*h = hit__brief(ring, t, 4, 1, text);
	else
		*h = hit__brief(ring, t, 2, 1, text);
	return true;
}

static __always_inline void hit__values(__u64 vals[WIRE_MAX_ARGS], const struct hit_taken *t)
{
	int i;

	if (t->s->in_regs) {
		for (i = 0; i < 6; i++)
			vals[i] = t->regs->arg[i];
		return;
	}
	for (i = 0; i < WIRE_MAX_ARGS; i++) {
		if (i >= t->s->n_specs)
			break;
		vals[i] = spec__value(t->regs->all, &t->s->specs[i]);
	}
}

/* Any marker with @texts strings: many values, ones that have to be looked for, long texts. */
static __always_inline struct wire_hit *hit__record_roomy(void *ring, const struct hit_taken *t,
							  __u32 texts)
{
	struct wire_hit *h = hit__reserve(ring, t, WIRE_MAX_ARGS, texts * WIRE_TEXT);
	const struct wire_site *s = t->s;
	__u64 *vals;
	int fault = 0;

	if (!h)
		return NULL;
	vals = hit__vals(h);
	hit__values(vals, t);
	/* The mask keeps older verifiers content; an index is below the number of values. */
	if (texts) {
		fault = text__read(hit__text(h, WIRE_MAX_ARGS, 0), vals[s->str_at[0] & 15]);
		h->n_texts = 1;
	}
	/* Lines of the ring that nobody needs are not touched. */
	if (texts == 2 && vals[s->str_at[1] & 15]) {
		fault |= text__read(hit__text(h, WIRE_MAX_ARGS, 1), vals[s->str_at[1] & 15]);
		h->n_texts = 2;
	}
	h->hdr.flags |= fault ? WF_FAULT : 0;
	return h;
}

static __always_inline struct wire_hit *hit__record_full(void *ring, const struct hit_taken *t)
{
	struct wire_hit_full *f;
	struct wire_hit *h;

	h = hit__reserve(ring, t, WIRE_MAX_ARGS, sizeof(*f) - sizeof(*h) - sizeof(f->vals));
	if (!h)
		return NULL;
	f = (struct wire_hit_full *)h;
	hit__values(f->vals, t);
	h->hdr.flags |= hit__full(f, t->s, t->literal) ? WF_FAULT : 0;
	return h;
}

static __always_inline int hit__marker(const struct hit_regs *regs, __u64 cookie)
{
	struct hit_taken t = { .task = bpf_get_current_task_btf(),
			       .site = (__u32)cookie,
			       .regs = regs };
	struct wire_hit *h = NULL;
	__u64 literal;
	void *ring;

	t.start = admit(t.task);
	if (!t.start)
		return 0;
	t.s = bpf_map_lookup_elem(&sites, &t.site);
	ring = ring__mine();
	if (!t.s || !ring)
		return 0;
	/* The target's own time, if it tells it, spares us asking the clock; so does a literal reading
	 * the target's memory. Either is a good part of a hit's cost. */
	t.ts = hit__extra(&t, t.s->time_at);
	t.flags = t.ts ? WF_OWN_TIME : 0;
	if (!t.ts)
		t.ts = bpf_ktime_get_boot_ns();
	literal = hit__extra(&t, t.s->literal_at);
	if (literal == (__u64)(__s32)literal)
		t.literal = (__u32)literal;
	if (!t.s->n_specs)
		h = hit__reserve(ring, &t, 0, 0);
	else if (t.s->args_at || t.s->n_strs > 2)
		h = hit__record_full(ring, &t);
	else if (hit__record_brief(ring, &t, &h))
		;
	else if (!t.s->n_strs)
		h = hit__record_roomy(ring, &t, 0);
	else if (t.s->n_strs == 1)
		h = hit__record_roomy(ring, &t, 1);
	else
		h = hit__record_roomy(ring, &t, 2);
	if (h)
		ring__submit(ring, h);
	else
		loss__single(t.task, t.start, t.site + 1, WL_RING_FULL);
	return 0;
}

#endif
