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

static __always_inline bool word__ends(__u64 w)
{
	return (w - 0x0101010101010101ull) & ~w & 0x8080808080808080ull;
}

/* Two words hold most names and are read faster than a string; what follows the name is not looked at. */
static __always_inline int text__read(char *to, __u64 from)
{
	__u64 *w = (__u64 *)to;

	to[0] = 0;
	if (!from)
		return 0;
	if (!bpf_probe_read_user(to, 16, (void *)from) && (word__ends(w[0]) || word__ends(w[1])))
		return 0;
	return bpf_probe_read_user_str(to, WIRE_TEXT, (void *)from) < 0;
}

struct hit_one {
	struct wire_hit hit;
	char text[WIRE_TEXT];
};

struct hit_small {
	struct wire_hit hit;
	char text[2][WIRE_TEXT];
};

/* The argument registers, read from the context itself, which costs nothing. */
struct hit_regs {
	__u64 arg[6];
	const void *all; /* struct pt_regs */
};

static __always_inline void hit__head(struct wire_hit *h, struct task_struct *task, __u64 start,
				      __u64 ts, __u32 site, const struct wire_site *s,
				      const struct hit_regs *regs)
{
	int i;

	task__fill(&h->task, task, start);
	h->site = site;
	h->n_vals = s->n_specs;
	h->n_texts = 0;
	h->n_args = 0;
	h->pad = 0;
	if (!s->n_specs)
		return;
	if (s->in_regs) {
		h->vals[0] = regs->arg[0];
		h->vals[1] = regs->arg[1];
		if (s->n_specs <= 2)
			return;
		for (i = 2; i < 6; i++)
			h->vals[i] = regs->arg[i];
		return;
	}
	for (i = 0; i < WIRE_MAX_ARGS; i++) {
		if (i >= s->n_specs)
			break;
		h->vals[i] = spec__value(regs->all, &s->specs[i]);
	}
}

/* Every string of a marker and its typed arguments: the roomy, rare record. */
static __always_inline int hit__full(struct wire_hit_full *f, const struct wire_site *s)
{
	__u32 n, i, slot = 0, at;
	int fault = 0;
	__u64 ptr;

	for (i = 0; i < WIRE_MAX_ARGS; i++) {
		if (i >= s->n_specs)
			break;
		if (!(s->str_mask & (1u << i)) || slot >= WIRE_HIT_TEXTS)
			continue;
		fault |= text__read(f->text[slot], f->hit.vals[i]);
		slot++;
	}
	f->hit.n_texts = slot;
	at = s->args_at;
	if (!at || at >= WIRE_MAX_ARGS)
		return fault;
	/* Older verifiers forget a bound across 32-bit arithmetic, a mask they understand; what lies
	 * behind the values up to there is this record's own. */
	barrier_var(at);
	n = f->hit.vals[(at - 1) & 15];
	ptr = f->hit.vals[at & 15];
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

static __always_inline int hit__marker(const struct hit_regs *regs, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 ts = bpf_ktime_get_boot_ns(), start;
	__u32 site = (__u32)cookie, n;
	struct wire_site *s;
	void *ring;
	int fault = 0;

	start = admit(task);
	if (!start)
		return 0;
	s = bpf_map_lookup_elem(&sites, &site);
	ring = ring__mine();
	if (!s || !ring)
		return 0;
	n = s->n_strs;
	/* No category, as nearly always: less of the ring is used up, and fewer of its lines are cold. */
	if (n == 2 && s->in_regs && s->str_at[1] == 1 && !regs->arg[1])
		n = 1;
	if (s->args_at || n > 2) {
		struct wire_hit_full *f = bpf_ringbuf_reserve(ring, sizeof(*f), 0);

		if (!f)
			goto lost;
		hit__head(&f->hit, task, start, ts, site, s, regs);
		fault = hit__full(f, s);
		hdr__fill(&f->hit.hdr, sizeof(*f), W_HIT, fault ? WF_FAULT : 0, ts);
		ring__submit(ring, f);
	} else if (n == 1) {
		struct hit_one *o = bpf_ringbuf_reserve(ring, sizeof(*o), 0);

		if (!o)
			goto lost;
		hit__head(&o->hit, task, start, ts, site, s, regs);
		fault = text__read(o->text, o->hit.vals[s->str_at[0] & 15]);
		o->hit.n_texts = 1;
		hdr__fill(&o->hit.hdr, sizeof(*o), W_HIT, fault ? WF_FAULT : 0, ts);
		ring__submit(ring, o);
	} else if (n) {
		struct hit_small *o = bpf_ringbuf_reserve(ring, sizeof(*o), 0);

		if (!o)
			goto lost;
		hit__head(&o->hit, task, start, ts, site, s, regs);
		/* The mask keeps older verifiers content; an index is below the number of values. */
		fault = text__read(o->text[0], o->hit.vals[s->str_at[0] & 15]);
		/* Lines of the ring that nobody needs are not touched. */
		o->hit.n_texts = 1;
		if (n == 2 && o->hit.vals[s->str_at[1] & 15]) {
			fault |= text__read(o->text[1], o->hit.vals[s->str_at[1] & 15]);
			o->hit.n_texts = 2;
		}
		hdr__fill(&o->hit.hdr, sizeof(*o), W_HIT, fault ? WF_FAULT : 0, ts);
		ring__submit(ring, o);
	} else {
		struct wire_hit *h = bpf_ringbuf_reserve(ring, sizeof(*h), 0);

		if (!h)
			goto lost;
		hit__head(h, task, start, ts, site, s, regs);
		hdr__fill(&h->hdr, sizeof(*h), W_HIT, 0, ts);
		ring__submit(ring, h);
	}
	return 0;
lost:
	loss__single(task, start, site + 1, WL_RING_FULL);
	return 0;
}

#endif
