/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Function probes: a record at the entry, one at each way out; the loader pairs them by stack
 * pointer. What a recipe wants of a call (arguments, texts, the value it returns) is described by a
 * wire_fetch_set; a call without one costs nothing more than the two records.
 */
#ifndef CLIKA_BPF_CALLS_H
#define CLIKA_BPF_CALLS_H

#include "bpf/common.h"

#define MAX_FETCH_SETS 4096
#define MAX_FRAMES 8192
#define MAX_BLOCKS 131072

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_FETCH_SETS);
	__type(key, __u32);
	__type(value, struct wire_fetch_set);
} fetches __weak SEC(".maps");

/* Calls whose return wants something of their entry. The oldest give way: frames that an exception
 * left are never taken out otherwise. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FRAMES);
	__type(key, struct wire_frame_key);
	__type(value, struct wire_frame);
} frames __weak SEC(".maps");

/* Blocks of memory that were worth a record when they were allocated. The oldest give way: those of
 * processes that have ended are never taken out otherwise. The loader makes it small when no rule
 * keeps by size. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_BLOCKS);
	__type(key, struct wire_block_key);
	__type(value, __u64);
} blocks __weak SEC(".maps");

/* By switch: SWITCH_PARITY, the parity of the links that count; SWITCH_BOTH, while one link takes the
 * place of another. Hits of both are told then, and the loader drops what is told again. */
__u8 switches[COOKIE_SWITCHES] __weak = {};

struct call_text {
	char c[WIRE_FETCH_BYTES];
};
struct call_small {
	struct wire_call_data d;
};
struct call_mid {
	struct wire_call_data d;
	struct call_text text[2];
};
struct call_full {
	struct wire_call_data d;
	struct call_text text[WIRE_FETCH_TEXTS];
};

/* What fetches start from: arguments 0 to 5, the value returned, the stack pointer. */
struct call_bases {
	__u64 at[8];
};

/* What an early exit is told by beside what fetches start from. */
struct call_state {
	__u64 fp, flags;
};

/* Is a conditional jump of x86 taken? @condition: the low half of its opcode. */
static __always_inline bool jump__taken(__u64 flags, __u32 condition)
{
	bool carry = flags & 1, parity = flags & 1 << 2, zero = flags & 1 << 6;
	bool sign = flags & 1 << 7, overflow = flags & 1 << 11, taken;

	switch (condition >> 1) {
	case 0:
		taken = overflow;
		break;
	case 1:
		taken = carry;
		break;
	case 2:
		taken = zero;
		break;
	case 3:
		taken = carry || zero;
		break;
	case 4:
		taken = sign;
		break;
	case 5:
		taken = parity;
		break;
	case 6:
		taken = sign != overflow;
		break;
	default:
		taken = zero || sign != overflow;
		break;
	}
	return taken != (condition & 1);
}

/* An early exit becomes a return like others; false: the jump goes elsewhere this time. */
static __always_inline bool call__early(struct call_bases *b, const struct call_state *st,
					__u64 *cookie)
{
	__u64 c = *cookie;

	if (!(c & COOKIE_EARLY))
		return true;
	if (!(c & COOKIE_ALWAYS) && !jump__taken(st->flags, c >> COOKIE_CONDITION_AT & 15))
		return false;
	b->at[FETCH_BASE_SP] = (c & COOKIE_FROM_FP ? st->fp : b->at[FETCH_BASE_SP]) +
			       (c >> COOKIE_WORDS_AT & 0x7fff) * 8;
	*cookie = c & ((1ull << COOKIE_WORDS_AT) - 1);
	return true;
}

/* What a record of this link says of it; -1: it counts no more, or not yet. */
static __always_inline int switch__flags(__u64 cookie)
{
	__u32 s = (cookie >> COOKIE_SWITCH_AT) & (COOKIE_SWITCHES - 1);
	__u8 state = *(volatile __u8 *)&switches[s];
	bool parity = cookie & COOKIE_PARITY;
	int flags = parity ? WF_PARITY : 0;

	if (!s || !!(state & SWITCH_PARITY) == parity)
		return flags;
	return state & SWITCH_BOTH ? flags | WF_AGAIN : -1;
}

static __always_inline void call__fill(struct wire_call *c, struct task_struct *task, __u64 start,
				       __u16 size, __u8 kind, __u8 flags, __u64 ts, __u64 sp,
				       __u64 cookie)
{
	hdr__fill(&c->hdr, size, kind, flags | (cookie & COOKIE_TAIL ? WF_TAIL : 0), ts);
	task__fill(&c->task, task, start);
	c->task.aux = (__u32)cookie;
	c->sp = sp;
}

static __always_inline __u64 value__cut(__u64 v, __u8 bytes, __u8 is_signed)
{
	__u8 shift = (64 - bytes * 8) & 63;

	v <<= shift;
	return is_signed ? (__u64)((__s64)v >> shift) : v >> shift;
}

/* @n as a number from 1 to @max, a power of two, for a reader that has limited it already: a mask is a
 * bound that every verifier understands and none forgets. */
static __always_inline __u32 size__bounded(__u32 n, __u32 max)
{
	n--;
	barrier_var(n);
	n &= max - 1;
	return n + 1;
}

/* The place that the steps lead to. False: a word on the way cannot be read. */
static __always_inline bool fetch__place(const struct wire_fetch *f, const struct call_bases *b,
					 __u64 *place)
{
	__u64 at = b->at[f->base & 7];
	__u32 i, n = f->n_steps;

	for (i = 0; i < WIRE_STEPS; i++) {
		if (i >= n)
			break;
		at += (__s64)f->steps[i];
		if (i + 1 == n)
			break;
		if (bpf_probe_read_user(&at, sizeof(at), (void *)at))
			return false;
	}
	*place = at;
	return true;
}

/*
 * These two are functions of their own, which the verifier looks at once: inside of loops over a set it
 * would go through all their ways for each of its fetches, which older kernels give up on. 0, or not
 * to be read.
 */
__noinline __weak int fetch__value(const struct wire_fetch *f, const struct call_bases *b,
				   __u64 *to)
{
	__u64 place = 0, v = 0;

	if (!f || !b || !to || !fetch__place(f, b, &place))
		return -1;
	if (!f->n_steps)
		v = place;
	else if (bpf_probe_read_user(&v, size__bounded(f->bytes, sizeof(v)), (void *)place))
		return -1;
	v = value__cut(v >> (f->shift & 63), f->bytes, f->is_signed);
	if (f->times)
		v *= b->at[(f->times - 1) & 7];
	*to = v;
	return 0;
}

__noinline __weak int fetch__text(const struct wire_fetch *f, const struct call_bases *b,
				  struct call_text *text, __u64 *to)
{
	__u64 place = 0, word[2];
	__u32 n;
	long got;

	if (!f || !b || !text || !to)
		return -1;
	text->c[0] = 0;
	n = f->bytes;
	if (n > WIRE_FETCH_BYTES)
		n = WIRE_FETCH_BYTES;
	if (!fetch__place(f, b, &place))
		return -1;
	switch (f->kind) {
	case FETCH_STRING:
		if (bpf_probe_read_user(word, sizeof(word), (void *)place))
			return -1;
		place = word[0];
		if (word[1] < n)
			n = word[1];
		/* fallthrough */
	case FETCH_BYTES:
		*to = n;
		if (!n)
			return 0;
		return bpf_probe_read_user(text->c, size__bounded(n, WIRE_FETCH_BYTES),
					   (void *)place)
			       ? -1
			       : 0;
	default:
		got = bpf_probe_read_user_str(text->c, size__bounded(n, WIRE_FETCH_BYTES),
					      (void *)place);
		if (got < 0)
			return -1;
		*to = got > 0 ? got - 1 : 0;
		return 0;
	}
}

/* All of a set into a reserved record with room for @texts texts. */
static __always_inline void call__fetch(struct wire_call_data *d, struct call_text *text,
					__u32 texts, const struct wire_fetch_set *s,
					const struct call_bases *b)
{
	__u32 i, n = s->n, slot;
	__u64 v;

	/* In the record, not in a register: verifiers would tell all its values apart. */
	d->faults = 0;
	d->n = n;
	d->texts = texts;
	__builtin_memset(d->pad, 0, sizeof(d->pad));
	for (i = 0; i < WIRE_FETCHES; i++) {
		const struct wire_fetch *f = &s->f[i];
		bool ok;

		v = 0;
		if (i >= n) {
			d->vals[i] = 0;
			continue;
		}
		if (f->kind == FETCH_VALUE) {
			ok = !fetch__value(f, b, &v);
		} else {
			/* @texts is 0, 2 or 4; a mask is a bound that every verifier understands. */
			slot = f->slot;
			barrier_var(slot);
			slot &= texts ? texts - 1 : 0;
			ok = texts && !fetch__text(f, b, &text[slot], &v);
		}
		d->vals[i] = v;
		if (!ok)
			d->faults |= 1u << i;
	}
}

static __always_inline int call__key(struct wire_frame_key *k, struct task_struct *task, __u64 sp)
{
	k->sp = sp;
	k->tid = task->pid;
	k->pad = 0;
	return 0;
}

/*
 * Is the call worth a record? An entry leaves what its return will ask for; a return takes it. What
 * lies there of an earlier call, which an exception has left, belongs to nobody: it is not told by a
 * call that is not kept, nor by one of another function.
 */
static __always_inline bool call__kept(const struct wire_fetch_set *s, struct task_struct *task,
				       struct call_bases *b, __u32 func, bool is_return)
{
	struct wire_frame_key key;
	struct wire_frame fresh = {}, *frame;
	struct wire_block_key block = {};
	struct wire_stats *st;
	__u64 v = 0;
	__u32 i, n = 0;

	if (is_return) {
		if (!(s->keep & KEEP_FRAME) && !s->save)
			return true;
		call__key(&key, task, b->at[FETCH_BASE_SP]);
		frame = bpf_map_lookup_elem(&frames, &key);
		if (frame && frame->func != func)
			frame = NULL;
		if (!frame && s->keep & KEEP_FRAME)
			return false;
		for (i = 0; i < 6; i++) {
			if (!(s->save & (1u << i)))
				continue;
			/* 0 can be read by nobody: the fetch says that it failed. */
			b->at[i] = frame ? frame->saved[n & (WIRE_SAVED - 1)] : 0;
			n++;
		}
		if (frame)
			bpf_map_delete_elem(&frames, &key);
		return true;
	}
	call__key(&key, task, b->at[FETCH_BASE_SP]);
	if (s->keep) {
		bool kept = s->keep & KEEP_AT_LEAST && !fetch__value(&s->f[0], b, &v) &&
			    v >= s->least;

		if (s->keep & KEEP_KNOWN &&
		    !fetch__value(&s->f[s->known & (WIRE_FETCHES - 1)], b, &block.addr)) {
			block.tgid = task->tgid;
			kept |= !bpf_map_delete_elem(&blocks, &block);
		}
		if (!kept) {
			if (s->frame)
				bpf_map_delete_elem(&frames, &key);
			return false;
		}
	}
	if (!s->frame)
		return true;
	fresh.func = func;
	for (i = 0; i < 6; i++) {
		if (!(s->save & (1u << i)))
			continue;
		fresh.saved[n & (WIRE_SAVED - 1)] = b->at[i];
		n++;
	}
	if (bpf_map_update_elem(&frames, &key, &fresh, BPF_ANY)) {
		st = stats__mine();
		if (st)
			stats__add(&st->map_full, 1);
	}
	return true;
}

static __always_inline void call__remember(struct task_struct *task, __u64 addr)
{
	struct wire_block_key block = { .addr = addr, .tgid = task->tgid };
	struct wire_stats *st;
	__u64 one = 1;

	if (!addr || !bpf_map_update_elem(&blocks, &block, &one, BPF_ANY))
		return;
	st = stats__mine();
	if (st)
		stats__add(&st->map_full, 1);
}

static __always_inline int call__rich(const struct wire_fetch_set *s, struct task_struct *task,
				      __u64 start, struct call_bases *b, __u64 ts, __u64 cookie,
				      __u8 flags, void *ring)
{
	__u8 kind = cookie & COOKIE_RETURN ? W_RETURN_DATA : W_CALL_DATA;
	__u64 sp = b->at[FETCH_BASE_SP];
	__u32 at;

	if (s->remember) {
		__u64 addr = 0;

		at = (s->remember - 1) & (WIRE_FETCHES - 1);
		if (!fetch__value(&s->f[at], b, &addr))
			call__remember(task, addr);
	}
	if (s->texts > 2) {
		struct call_full *c = bpf_ringbuf_reserve(ring, sizeof(*c), 0);

		if (!c)
			goto lost;
		call__fill(&c->d.call, task, start, sizeof(*c), kind, flags, ts, sp, cookie);
		call__fetch(&c->d, c->text, WIRE_FETCH_TEXTS, s, b);
		ring__submit(ring, c);
	} else if (s->texts) {
		struct call_mid *c = bpf_ringbuf_reserve(ring, sizeof(*c), 0);

		if (!c)
			goto lost;
		call__fill(&c->d.call, task, start, sizeof(*c), kind, flags, ts, sp, cookie);
		call__fetch(&c->d, c->text, 2, s, b);
		ring__submit(ring, c);
	} else {
		struct call_small *c = bpf_ringbuf_reserve(ring, sizeof(*c), 0);

		if (!c)
			goto lost;
		call__fill(&c->d.call, task, start, sizeof(*c), kind, flags, ts, sp, cookie);
		call__fetch(&c->d, NULL, 0, s, b);
		ring__submit(ring, c);
	}
	return 0;
lost:
	loss__single(task, start, (__u32)cookie + 1, WL_RING_FULL | 0x100);
	return 0;
}

static __always_inline int call__hit(struct call_bases *b, const struct call_state *st,
				     __u64 cookie)
{
	struct task_struct *task;
	__u64 ts, start;
	struct wire_call *c;
	void *ring;
	__u32 set;
	int flags;

	if (!call__early(b, st, &cookie))
		return 0;
	task = bpf_get_current_task_btf();
	ts = bpf_ktime_get_boot_ns();
	set = cookie >> COOKIE_FETCH_AT;
	flags = switch__flags(cookie);
	start = flags < 0 ? 0 : admit(task);
	if (!start)
		return 0;
	ring = ring__mine();
	if (!ring)
		return 0;
		/* Both ends of a call carry the stack pointer that points at the return address; on x86 a
	 * return probe runs when that has been popped. */
#if defined(__TARGET_ARCH_x86)
	if (cookie & COOKIE_RETPROBE)
		b->at[FETCH_BASE_SP] -= 8;
#endif
	if (set) {
		struct wire_fetch_set *s = bpf_map_lookup_elem(&fetches, &set);

		if (!s)
			return 0;
		if (!call__kept(s, task, b, (__u32)cookie, cookie & COOKIE_RETURN))
			return 0;
		/* What a function returns is not known where it jumps into another. */
		if (s->n && !(cookie & COOKIE_TAIL))
			return call__rich(s, task, start, b, ts, cookie, flags, ring);
	}
	c = bpf_ringbuf_reserve(ring, sizeof(*c), 0);
	if (!c) {
		loss__single(task, start, (__u32)cookie + 1, WL_RING_FULL | 0x100);
		return 0;
	}
	call__fill(c, task, start, sizeof(*c), cookie & COOKIE_RETURN ? W_RETURN : W_CALL, flags,
		   ts, b->at[FETCH_BASE_SP], cookie);
	ring__submit(ring, c);
	return 0;
}

#endif
