/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread buffers read from outside: what a thread has marked but not handed over yet. Never writes
 * to a target; bytes that the writer may have gone over meanwhile are dropped (head, data, head).
 */
#ifndef CLIKA_USER_STREAM_HARVEST_H
#define CLIKA_USER_STREAM_HARVEST_H

#include "user/stream/decode.h"

/* A thread buffer as seen at one moment. */
struct seen_buffer {
	uint64_t addr, born, head, flushed, count, flushed_count, dropped, object;
	uint32_t pid, tid; /* as the target sees them */
	uint16_t data_offset;
	bool dead;
	char thread_name[64];
	unsigned depth;
	struct {
		uint64_t start;
		int32_t name;
	} open[WIRE_MAX_OPEN];
};

struct seen_names {
	char label[64];
	uint32_t n;
	struct {
		uint32_t kind;
		uint64_t id;
		char name[48];
	} names[32];
};

/*
 * Lists the buffers of an object. @fn non-zero stops. Damaged or circular lists end early.
 * Returns buffers seen or -errno (-ESRCH, -ETIMEDOUT, -EFAULT when the process does not let us).
 */
int harvest__buffers(pid_t lpid, uint64_t object, struct seen_names *names,
		     int (*fn)(void *ctx, const struct seen_buffer *b), void *ctx);

/* One buffer's head by its address: 1 when it is one, 0 when not (any more), or -errno. */
int harvest__look(pid_t lpid, uint64_t addr, struct seen_buffer *s);

struct harvested {
	uint64_t from; /* first byte that can be trusted */
	uint64_t to;
	size_t len;
	uint8_t data[2 * WIRE_HALF];
};
/* Bytes [max(@from, what is left), head) of a buffer. 1: something, 0: nothing new, or -errno. */
int harvest__read(pid_t lpid, const struct seen_buffer *b, uint64_t from, struct harvested *h);

#endif
