/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Batched markers: one hit hands over what a thread collected in its buffer. */
#ifndef CLIKA_BPF_BATCH_H
#define CLIKA_BPF_BATCH_H

#include "bpf/common.h"

/* The head of the target's struct clika_buffer (marker ABI 1), read in one go. */
struct target_buffer {
	__u32 magic;
	__u16 abi, data_offset;
	__u64 head, flushed, count, flushed_count, dropped, next, object;
	__u32 pid, tid;
	__u64 born;
	__u32 depth, announced, busy, dead;
};
WIRE_ASSERT_SIZE(struct target_buffer, 96);

#define OPEN_OFFSET 168 /* of the open spans in struct clika_buffer */
#define DEAD_ENDING 3   /* its thread is ending and has handed everything over */

#define BUFFER_MAGIC 0x4655424bu

struct batch_small {
	struct wire_batch b;
	__u8 data[WIRE_SMALL_BATCH];
};
struct batch_large {
	struct wire_batch b;
	__u8 data[WIRE_HALF];
};

static __always_inline void batch__fill(struct wire_batch *b, struct task_struct *task, __u64 start,
					const struct target_buffer *tb, __u64 addr, __u64 from,
					__u32 len, __u32 file, __u8 flags, __u64 records)
{
	hdr__fill(&b->hdr, sizeof(*b) + len, W_BATCH, flags, bpf_ktime_get_boot_ns());
	task__fill(&b->task, task, start);
	b->buffer = addr;
	b->born = tb->born;
	b->object = tb->object;
	b->from = from;
	b->dropped = tb->dropped;
	b->records = records;
	b->len = len;
	b->file = file;
	b->ns_tid = tb->tid;
	bpf_probe_read_kernel(b->comm, sizeof(b->comm), &task->comm);
}

/*
 * Copies [from, to) of the buffer at @addr into the ring. Everything in @tb comes from the target:
 * lengths and counts are clamped to what a half can hold, the loader checks the rest.
 */
static __always_inline int batch__take(struct task_struct *task, __u64 start, __u64 addr,
				       const struct target_buffer *tb, __u64 from, __u64 to,
				       __u32 file, __u8 flags)
{
	struct wire_stats *st = stats__mine();
	__u64 records = tb->count - tb->flushed_count;
	__u64 src = addr + tb->data_offset + from % (2 * WIRE_HALF);
	__u64 len = to - from;
	__u32 cause = WL_RING_FULL;
	void *ring;
	long err;

	if (!st)
		return 0;
	if (records > WIRE_HALF / 8)
		records = WIRE_HALF / 8;
	stats__add(&st->emitted, records);
	if (len == 0 || len > WIRE_HALF || from % WIRE_HALF + len > WIRE_HALF) {
		cause = WL_BAD_RECORD;
		goto lost;
	}
	ring = ring__mine();
	if (!ring)
		goto lost;
	if (len <= WIRE_SMALL_BATCH) {
		struct batch_small *s = bpf_ringbuf_reserve(ring, sizeof(*s), 0);

		if (!s)
			goto lost;
		batch__fill(&s->b, task, start, tb, addr, from, len, file, flags, records);
		err = bpf_probe_read_user(s->data, len, (void *)src);
		if (err) {
			bpf_ringbuf_discard(s, BPF_RB_NO_WAKEUP);
			cause = WL_READ_FAULT;
			goto lost;
		}
		ring__submit(ring, s);
	} else {
		struct batch_large *l = bpf_ringbuf_reserve(ring, sizeof(*l), 0);

		if (!l)
			goto lost;
		batch__fill(&l->b, task, start, tb, addr, from, len, file, flags, records);
		err = bpf_probe_read_user(l->data, len, (void *)src);
		if (err) {
			bpf_ringbuf_discard(l, BPF_RB_NO_WAKEUP);
			cause = WL_READ_FAULT;
			goto lost;
		}
		ring__submit(ring, l);
	}
	stats__add(&st->recorded, records);
	return 1;
lost:
	loss__count(task->tgid, start, 0, cause, records);
	return 0;
}

/* A buffer has been made: remembered so that the exit hook finds it. */
static __always_inline void batch__register(struct task_struct *task, __u64 start, __u64 addr,
					    const struct target_buffer *tb, __u32 file)
{
	struct wire_buffer_key key = { .tid = task->pid };
	struct wire_buffer val = { .addr = addr, .file = file }, *old;
	struct wire_stats *st = stats__mine();
	struct wire_register *r;
	void *ring;
	int i;

	val.tstart = task->start_boottime;
	val.ns_tid = tb->tid;
	for (i = 0; i < WIRE_SLOTS; i++) {
		key.slot = i;
		old = bpf_map_lookup_elem(&buffers, &key);
		if (old && old->tstart == val.tstart && old->addr != addr)
			continue;
		if (bpf_map_update_elem(&buffers, &key, &val, BPF_ANY) && st)
			stats__add(&st->map_full, 1);
		break;
	}
	if (i == WIRE_SLOTS && st) /* more objects than that mark in this thread */
		stats__add(&st->map_full, 1);
	ring = ring__mine();
	if (!ring || !st)
		return;
	r = bpf_ringbuf_reserve(ring, sizeof(*r), 0);
	if (!r) {
		stats__add(&st->life_lost, 1);
		return;
	}
	hdr__fill(&r->hdr, sizeof(*r), W_REGISTER, 0, bpf_ktime_get_boot_ns());
	task__fill(&r->task, task, start);
	r->buffer = addr;
	r->born = tb->born;
	r->object = tb->object;
	r->file = file;
	r->ns_tid = tb->tid;
	ring__submit(ring, r);
}

/* The thread has handed everything over and will not write to this buffer again. */
static __always_inline void batch__forget(struct task_struct *task, __u64 addr)
{
	struct wire_buffer_key key = { .tid = task->pid };
	struct wire_buffer *b;
	int i;

	for (i = 0; i < WIRE_SLOTS; i++) {
		key.slot = i;
		b = bpf_map_lookup_elem(&buffers, &key);
		if (b && b->addr == addr)
			b->drained = 2;
	}
}

static __always_inline int batch__hit(__u64 addr, __u64 from, __u64 to, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 start = admit(task);
	struct target_buffer tb;
	struct wire_stats *st;

	if (!start)
		return 0;
	if (bpf_probe_read_user(&tb, sizeof(tb), (void *)addr) || tb.magic != BUFFER_MAGIC) {
		st = stats__mine();
		if (st)
			stats__add(&st->emitted, 1);
		loss__count(task->tgid, start, 0, WL_BAD_RECORD, 1);
		return 0;
	}
	if (from == to && tb.dead == DEAD_ENDING) {
		batch__forget(task, addr);
		return 0;
	}
	if (from == to) {
		batch__register(task, start, addr, &tb, cookie);
		return 0;
	}
	batch__take(task, start, addr, &tb, from, to, cookie, 0);
	return 0;
}

/* Spans that are open when their thread ends have no record yet, only their place on the stack. */
static __always_inline void batch__tell_open(struct task_struct *task, __u64 start,
					     const struct wire_buffer *b,
					     const struct target_buffer *tb)
{
	struct wire_stats *st = stats__mine();
	void *ring = ring__mine();
	struct wire_open *o;

	if (!ring || !st)
		return;
	o = bpf_ringbuf_reserve(ring, sizeof(*o), 0);
	if (!o) {
		stats__add(&st->life_lost, 1);
		return;
	}
	hdr__fill(&o->hdr, sizeof(*o), W_OPEN, 0, bpf_ktime_get_boot_ns());
	task__fill(&o->task, task, start);
	o->buffer = b->addr;
	o->born = tb->born;
	o->object = tb->object;
	o->file = b->file;
	o->ns_tid = tb->tid;
	o->pad = 0;
	o->depth = tb->depth > WIRE_MAX_OPEN ? WIRE_MAX_OPEN : tb->depth;
	if (bpf_probe_read_user(o->open, sizeof(o->open), (void *)(b->addr + OPEN_OFFSET)))
		o->depth = 0;
	ring__submit(ring, o);
}

/*
 * The current thread is about to lose its memory (exit, fatal signal, exec): what lies in its
 * buffers is taken now. Several hooks may come here for one thread; what is seen twice is
 * recognised by its position in the stream. A half at a time: [flushed, head) can cross one.
 */
static __always_inline void batch__drain(struct task_struct *task, __u64 start, bool forget,
					 bool last)
{
	struct wire_buffer_key key = { .tid = task->pid };
	struct target_buffer tb;
	struct wire_buffer *b;
	struct wire_stats *st;
	__u64 mid;
	int i;

	for (i = 0; i < WIRE_SLOTS; i++) {
		key.slot = i;
		b = bpf_map_lookup_elem(&buffers, &key);
		if (!b)
			break;
		if (b->tstart && b->tstart != task->start_boottime)
			goto next;
		if (bpf_probe_read_user(&tb, sizeof(tb), (void *)b->addr)) {
			/* Which hook can still read depends on the kernel: the loss is unknown, at
			 * most a half, unless another hook has taken all before. */
			st = stats__mine();
			if (st && !b->drained)
				stats__add(&st->unknown_bytes, WIRE_HALF);
			goto next;
		}
		/* A thread that has ended gives its buffer away before this hook comes: what lies there
		 * then belongs to the next owner. */
		if (tb.magic != BUFFER_MAGIC || tb.tid != b->ns_tid || b->drained == 2)
			goto next;
		if (last)
			b->drained = 1;
		if (tb.head == tb.flushed)
			goto open;
		mid = (tb.flushed / WIRE_HALF + 1) * WIRE_HALF;
		if (tb.head > mid)
			tb.head = mid;
		batch__take(task, start, b->addr, &tb, tb.flushed, tb.head, b->file, WF_DRAINED);
	open:
		/* After the batch, which may hold the begins of some of them. */
		if (tb.depth && last)
			batch__tell_open(task, start, b, &tb);
	next:
		if (forget)
			bpf_map_delete_elem(&buffers, &key);
	}
}

#endif
