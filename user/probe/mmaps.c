// SPDX-License-Identifier: Apache-2.0
#include "user/probe/mmaps.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RING_PAGES 64
#define MAX_RECORD 8192

struct mmap_ring {
	int fd;
	struct perf_event_mmap_page *page;
};

struct mmaps {
	struct mmap_ring *rings;
	unsigned n;
	int epoll;
	size_t page_size;
	uint64_t lost;
	uint8_t rec[MAX_RECORD];
};

static int open_event(int cpu)
{
	struct perf_event_attr pe = {
		.size = sizeof(pe),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1,
		.mmap2 = 1,
		.watermark = 1,
		.wakeup_watermark = 1, /* a new file waits for its probes: wake at once */
	};

	return syscall(__NR_perf_event_open, &pe, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

int mmaps__new(struct mmaps **out, struct clika_error *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct mmaps *m = calloc(1, sizeof(*m));
	int ret = 0;

	if (!m)
		return error__set(err, -ENOMEM, "out of memory");
	m->page_size = sysconf(_SC_PAGESIZE);
	m->epoll = epoll_create1(EPOLL_CLOEXEC);
	m->rings = calloc(cpus, sizeof(*m->rings));
	if (m->epoll < 0 || !m->rings) {
		ret = error__set(err, -ENOMEM, "cannot make an epoll descriptor");
		goto out;
	}
	for (long cpu = 0; cpu < cpus; cpu++) {
		struct epoll_event ev = { .events = EPOLLIN };
		struct mmap_ring *r = &m->rings[m->n];

		r->fd = open_event((int)cpu);
		if (r->fd < 0) {
			if (errno == ENODEV) /* this CPU is offline */
				continue;
			ret = error__set(err, -errno, "cannot watch new mappings on CPU %ld: %s",
					 cpu, strerror(errno));
			goto out;
		}
		r->page = mmap(NULL, (RING_PAGES + 1) * m->page_size, PROT_READ | PROT_WRITE,
			       MAP_SHARED, r->fd, 0);
		if (r->page == MAP_FAILED) {
			r->page = NULL;
			ret = -errno;
			close(r->fd);
			error__set(err, ret,
				   "cannot map the event buffer of CPU %ld: %s (the kernel's "
				   "limit is kernel.perf_event_mlock_kb)",
				   cpu, strerror(-ret));
			goto out;
		}
		m->n++;
		if (epoll_ctl(m->epoll, EPOLL_CTL_ADD, r->fd, &ev)) {
			ret = error__set(err, -errno, "cannot wait for events: %s",
					 strerror(errno));
			goto out;
		}
	}
	*out = m;
	return 0;
out:
	mmaps__free(m);
	return ret;
}

void mmaps__free(struct mmaps *m)
{
	if (!m)
		return;
	for (unsigned i = 0; i < m->n; i++) {
		munmap(m->rings[i].page, (RING_PAGES + 1) * m->page_size);
		close(m->rings[i].fd);
	}
	free(m->rings);
	if (m->epoll >= 0)
		close(m->epoll);
	free(m);
}

int mmaps__fd(const struct mmaps *m)
{
	return m->epoll;
}

/* Layout of PERF_RECORD_MMAP2 behind its header; the file name follows. */
struct mmap2_body {
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
};

static void mmaps__record(struct mmaps *m, const struct perf_event_header *h,
			  void (*fn)(void *ctx, const struct mmap_event *e), void *ctx)
{
	const uint8_t *p = m->rec + sizeof(*h);
	struct mmap2_body b;
	struct mmap_event e;

	if (h->type == PERF_RECORD_LOST && h->size >= sizeof(*h) + 16) {
		uint64_t lost;

		memcpy(&lost, p + 8, sizeof(lost));
		m->lost += lost;
		return;
	}
	if (h->type != PERF_RECORD_MMAP2 || h->size < sizeof(*h) + sizeof(b) + 1)
		return;
	memcpy(&b, p, sizeof(b));
	m->rec[h->size - 1] = 0;
	e = (struct mmap_event){ b.pid,
				 b.tid,
				 b.addr,
				 b.len,
				 b.pgoff,
				 b.maj,
				 b.min,
				 b.ino,
				 b.ino_generation,
				 (const char *)p + sizeof(b) };
	fn(ctx, &e);
}

static void ring__copy(const struct mmaps *m, const struct mmap_ring *r, uint64_t at, void *to,
		       size_t n)
{
	const uint8_t *data = (const uint8_t *)r->page + m->page_size;
	size_t size = RING_PAGES * m->page_size, off = at % size;
	size_t first = n < size - off ? n : size - off;

	memcpy(to, data + off, first);
	memcpy((uint8_t *)to + first, data, n - first);
}

int mmaps__drain(struct mmaps *m, void (*fn)(void *ctx, const struct mmap_event *e), void *ctx)
{
	for (unsigned i = 0; i < m->n; i++) {
		struct mmap_ring *r = &m->rings[i];
		uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
		uint64_t tail = r->page->data_tail;

		while (tail < head) {
			struct perf_event_header h;

			ring__copy(m, r, tail, &h, sizeof(h));
			if (h.size < sizeof(h))
				break;
			if (h.size <= sizeof(m->rec)) {
				ring__copy(m, r, tail, m->rec, h.size);
				mmaps__record(m, &h, fn, ctx);
			}
			tail += h.size;
		}
		__atomic_store_n(&r->page->data_tail, head, __ATOMIC_RELEASE);
	}
	return 0;
}

uint64_t mmaps__lost(const struct mmaps *m)
{
	return m->lost;
}
