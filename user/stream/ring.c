// SPDX-License-Identifier: Apache-2.0
#include "user/stream/ring.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STOP_HERE (-ECANCELED)

struct ring {
	struct ring_buffer *rb;
	int (*fn)(void *ctx, const void *rec, size_t size);
	void *ctx;
	int err;
	size_t budget;  /* bytes that this drain may still handle */
	uint64_t bytes;
	size_t capacity;
};

static int ring__sample(void *ctx, void *data, size_t size)
{
	struct ring *r = ctx;
	size_t took = (size + 8 + 7) & ~(size_t)7;
	int ret = r->fn(r->ctx, data, size);

	r->bytes += took;
	if (ret && !r->err)
		r->err = ret;
	if (took >= r->budget) {
		r->budget = 0;
		return STOP_HERE; /* libbpf has moved past this record */
	}
	r->budget -= took;
	return 0;
}

int ring__new(struct attacher *a, int (*fn)(void *ctx, const void *rec, size_t size), void *ctx,
	      struct ring **out, struct clika_error *err)
{
	struct ring *r = calloc(1, sizeof(*r));
	int ret;

	if (!r)
		return error__set(err, -ENOMEM, "out of memory");
	r->fn = fn;
	r->ctx = ctx;
	r->rb = ring_buffer__new(attacher__ring_fd(a, 0), ring__sample, r, NULL);
	if (!r->rb) {
		ret = error__set(err, -errno, "cannot map the ring buffer: %s", strerror(errno));
		goto out;
	}
	for (unsigned i = 1; i < attacher__n_rings(a); i++) {
		ret = ring_buffer__add(r->rb, attacher__ring_fd(a, i), ring__sample, r);
		if (ret) {
			error__set(err, ret, "cannot map ring buffer %u: %s", i, strerror(-ret));
			goto out;
		}
	}
	r->capacity = attacher__ring_bytes(a) * attacher__n_rings(a);
	*out = r;
	return 0;
out:
	ring__free(r);
	return ret;
}

void ring__free(struct ring *r)
{
	if (!r)
		return;
	ring_buffer__free(r->rb);
	free(r);
}

int ring__fd(const struct ring *r)
{
	return ring_buffer__epoll_fd(r->rb);
}

ssize_t ring__drain(struct ring *r)
{
	uint64_t before = r->bytes;
	int ret;

	r->err = 0;
	r->budget = r->capacity;
	ret = ring_buffer__consume(r->rb);
	if (r->err)
		return r->err;
	if (ret < 0 && ret != STOP_HERE)
		return ret;
	return (ssize_t)(r->bytes - before);
}

uint64_t ring__bytes(const struct ring *r)
{
	return r->bytes;
}
