// SPDX-License-Identifier: Apache-2.0
#include "user/stream/ring.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define STOP_HERE (-ECANCELED)

struct ring {
	/* One manager a ring: a ring that is written to without pause must not starve the others. */
	struct ring_buffer **rbs;
	unsigned n;
	int epoll;
	int (*fn)(void *ctx, const void *rec, size_t size);
	void *ctx;
	int err;
	size_t budget; /* bytes that may still be taken from the ring in hand */
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

static int ring__add(struct ring *r, int fd, struct clika_error *err)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct ring_buffer *rb = ring_buffer__new(fd, ring__sample, r, NULL);

	if (!rb)
		return error__set(err, -errno, "cannot map ring buffer %u: %s", r->n,
				  strerror(errno));
	r->rbs[r->n++] = rb;
	if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, ring_buffer__epoll_fd(rb), &ev))
		return error__set(err, -errno, "cannot wait for ring buffer %u: %s", r->n - 1,
				  strerror(errno));
	return 0;
}

int ring__new(struct attacher *a, int (*fn)(void *ctx, const void *rec, size_t size), void *ctx,
	      struct ring **out, struct clika_error *err)
{
	struct ring *r = calloc(1, sizeof(*r));
	int ret = 0;

	if (!r)
		return error__set(err, -ENOMEM, "out of memory");
	r->fn = fn;
	r->ctx = ctx;
	r->capacity = attacher__ring_bytes(a);
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	r->rbs = calloc(attacher__n_rings(a), sizeof(*r->rbs));
	if (r->epoll < 0 || !r->rbs)
		ret = error__set(err, -ENOMEM, "cannot make an epoll descriptor");
	for (unsigned i = 0; !ret && i < attacher__n_rings(a); i++)
		ret = ring__add(r, attacher__ring_fd(a, i), err);
	if (ret) {
		ring__free(r);
		return ret;
	}
	*out = r;
	return 0;
}

void ring__free(struct ring *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->n; i++)
		ring_buffer__free(r->rbs[i]);
	free(r->rbs);
	if (r->epoll >= 0)
		close(r->epoll);
	free(r);
}

int ring__fd(const struct ring *r)
{
	return r->epoll;
}

ssize_t ring__drain(struct ring *r)
{
	uint64_t before = r->bytes;

	r->err = 0;
	for (unsigned i = 0; i < r->n; i++) {
		int ret;

		r->budget = r->capacity;
		ret = ring_buffer__consume(r->rbs[i]);
		if (ret < 0 && ret != STOP_HERE && !r->err)
			r->err = ret;
	}
	return r->err ? r->err : (ssize_t)(r->bytes - before);
}

uint64_t ring__bytes(const struct ring *r)
{
	return r->bytes;
}
