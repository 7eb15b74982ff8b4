// SPDX-License-Identifier: Apache-2.0
#include "user/stream/harvest.h"

#include <errno.h>
#include <string.h>

#define CLIKA_ABI_ONLY
#include <clika/markers.h>

#include "user/probe/proc.h"

#define DEADLINE_MS 200
#define MAX_BUFFERS 65536
/* What a writer may have touched beyond the head that it has published: a record and padding. */
#define IN_FLIGHT (2 * CLIKA_MAX_RECORD)

static bool object__valid(const struct clika_object *o)
{
	return o->magic == CLIKA_OBJECT_MAGIC && o->abi == CLIKA_ABI_VERSION &&
	       o->bytes == sizeof(*o);
}

static void names__copy(struct seen_names *to, const struct clika_object *o)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->label, o->label, sizeof(to->label) - 1);
	for (unsigned i = 0; i < CLIKA_NAMES; i++) {
		const struct clika_name *n = &o->names[i];

		if (n->kind != CLIKA_REC_QUEUE_NAME && n->kind != CLIKA_REC_DEVICE_NAME)
			continue;
		to->names[to->n].kind = n->kind;
		to->names[to->n].id = n->id;
		memcpy(to->names[to->n].name, n->name, sizeof(n->name) - 1);
		to->n++;
	}
}

static bool buffer__seen(uint64_t addr, const struct clika_buffer *b, struct seen_buffer *s)
{
	if (b->magic != CLIKA_BUFFER_MAGIC || b->abi != CLIKA_ABI_VERSION ||
	    b->data_offset < offsetof(struct clika_buffer, open) || b->flushed > b->head)
		return false;
	memset(s, 0, sizeof(*s));
	s->addr = addr;
	s->born = b->born;
	s->head = b->head;
	s->flushed = b->flushed;
	s->count = b->count;
	s->flushed_count = b->flushed_count;
	s->dropped = b->dropped;
	s->object = b->object;
	s->pid = b->pid;
	s->tid = b->tid;
	s->data_offset = b->data_offset;
	s->dead = b->dead;
	memcpy(s->thread_name, b->thread_name, sizeof(s->thread_name) - 1);
	s->depth = b->depth < WIRE_MAX_OPEN ? b->depth : WIRE_MAX_OPEN;
	for (unsigned i = 0; i < s->depth; i++) {
		s->open[i].start = b->open[i].start;
		s->open[i].name = b->open[i].name;
	}
	return true;
}

int harvest__look(pid_t lpid, uint64_t addr, struct seen_buffer *s)
{
	struct clika_buffer b;
	const size_t head = sizeof(b);
	ssize_t n = proc__read_memory(lpid, addr, &b, head, DEADLINE_MS);

	if (n < 0)
		return (int)n;
	return (size_t)n == head && buffer__seen(addr, &b, s);
}

int harvest__buffers(pid_t lpid, uint64_t object, struct seen_names *names,
		     int (*fn)(void *ctx, const struct seen_buffer *b), void *ctx)
{
	struct clika_object o;
	struct seen_buffer s;
	uint64_t addr;
	ssize_t n;
	int seen = 0, ret;

	n = proc__read_memory(lpid, object, &o, sizeof(o), DEADLINE_MS);
	if (n < 0)
		return (int)n;
	/* Before the first marker the structure may be all zero. */
	if ((size_t)n < sizeof(o) || !object__valid(&o))
		return 0;
	if (names)
		names__copy(names, &o);
	for (addr = o.buffers; addr && seen < MAX_BUFFERS; seen++) {
		struct clika_buffer b;
		const size_t head = sizeof(b);

		n = proc__read_memory(lpid, addr, &b, head, DEADLINE_MS);
		if (n < 0)
			return (int)n;
		if ((size_t)n < head)
			break;
		if (buffer__seen(addr, &b, &s)) {
			ret = fn(ctx, &s);
			if (ret)
				return ret;
		}
		if (b.next == addr)
			break;
		addr = b.next;
	}
	return seen;
}

int harvest__read(pid_t lpid, const struct seen_buffer *b, uint64_t from, struct harvested *h)
{
	const size_t head_len = offsetof(struct clika_buffer, depth);
	struct clika_buffer now;
	struct proc_range ranges[3];
	uint64_t oldest, at, first;
	unsigned n = 0;
	int ret;

	/* What was handed over already comes by the ring; reading it as well would only be sorted out
	 * as seen twice, unless nobody listened when it was handed over. */
	if (from < b->flushed)
		from = b->flushed;
	if (from >= b->head)
		return 0;
	if (b->head - from > CLIKA_DATA_BYTES)
		from = b->head - CLIKA_DATA_BYTES;
	h->len = b->head - from;
	at = from % CLIKA_DATA_BYTES;
	first = CLIKA_DATA_BYTES - at < h->len ? CLIKA_DATA_BYTES - at : h->len;
	ranges[n++] = (struct proc_range){ b->addr + b->data_offset + at, h->data, first, 0 };
	if (first < h->len)
		ranges[n++] = (struct proc_range){ b->addr + b->data_offset, h->data + first,
						   h->len - first, 0 };
	ranges[n++] = (struct proc_range){ b->addr, &now, head_len, 0 };
	ret = proc__read_memoryv(lpid, ranges, n, DEADLINE_MS);
	if (ret)
		return ret;
	for (unsigned i = 0; i < n; i++) {
		if (ranges[i].got < 0)
			return (int)ranges[i].got;
		if ((size_t)ranges[i].got < ranges[i].n)
			return -EFAULT;
	}
	/* The memory has a new owner. */
	if (now.magic != CLIKA_BUFFER_MAGIC || now.born != b->born || now.head < b->head)
		return 0;
	oldest = now.head + IN_FLIGHT > CLIKA_DATA_BYTES ? now.head + IN_FLIGHT - CLIKA_DATA_BYTES
							 : 0;
	/* The writer has gone round, which it does by flushing: the probe has what is missing here. */
	if (oldest > from)
		return 0;
	h->from = from;
	h->to = b->head;
	return 1;
}
