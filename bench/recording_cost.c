// SPDX-License-Identifier: Apache-2.0
/*
 * What the recording file costs: bytes of a span, time to write one, to open the file and to walk
 * it, on one core. Usage: recording_cost [spans [spans a block]]
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "user/recording/reader.h"
#include "user/recording/writer.h"

#define MOST 65536
#define NAMES 60
#define THREADS 8

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static long max_rss_kib(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return ru.ru_maxrss;
}

static void fill(struct event *ev, size_t n, uint64_t *ts, uint64_t *rnd, const uint32_t *names,
		 uint32_t cat, uint32_t src)
{
	size_t i;

	for (i = 0; i < n; i++) {
		uint64_t r = next_random(rnd);

		*ts += 200 + (r & 2047);
		ev[i] = (struct event){ .ts = *ts,
					.dur = 300 + (r >> 20 & 16383),
					.name = names[(r >> 40) % NAMES],
					.cat = cat,
					.src = src + (uint32_t)((r >> 40) % NAMES),
					.kind = EV_SPAN };
	}
}

static int write_file(int fd, uint64_t spans, uint64_t batch, uint64_t *ns, uint64_t *bytes)
{
	struct recording_meta meta = { 0 };
	struct writer_opts opts = { .owner = (uid_t)-1 };
	struct strpool *pool = strpool__new(0, 0);
	struct event *ev = calloc(batch, sizeof(*ev));
	struct process_info p = { .pid = 1 };
	struct recording_writer *w;
	uint32_t names[NAMES], threads[THREADS], process, cat, src = 0, i;
	uint64_t ts = 1000000000, rnd = 88172645463325252ull, done, before;
	struct clika_error err;
	char text[32];

	if (writer__create_fd(dup(fd), &meta, pool, &opts, &w, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	for (i = 0; i < NAMES; i++) {
		snprintf(text, sizeof(text), "operation_%u", i);
		names[i] = strpool__ids(pool, text);
	}
	cat = strpool__ids(pool, "category");
	for (i = 0; i < NAMES; i++) {
		snprintf(text, sizeof(text), "source.c:%u", i);
		src = strpool__ids(pool, text);
	}
	src -= NAMES - 1;
	if (writer__add_process(w, &p, &process))
		return 1;
	for (i = 0; i < THREADS; i++) {
		struct thread_info t = { .process = process, .tid = i + 1 };

		if (writer__add_thread(w, &t, &threads[i]))
			return 1;
	}
	*ns = 0;
	for (done = 0; done < spans; done += batch) {
		fill(ev, batch, &ts, &rnd, names, cat, src);
		before = cpu_ns();
		if (writer__block(w, threads[done / batch % THREADS], 0, ev, batch, NULL, 0))
			return 1;
		*ns += cpu_ns() - before;
	}
	before = cpu_ns();
	if (writer__flush(w))
		return 1;
	*ns += cpu_ns() - before;
	*bytes = writer__bytes(w);
	if (writer__finish(w, &err))
		return 1;
	free(ev);
	strpool__free(pool);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t spans = argc > 1 ? strtoull(argv[1], NULL, 10) : 4000000, ns, bytes, t, n = 0,
		 sum = 0;
	uint64_t batch = argc > 2 ? strtoull(argv[2], NULL, 10) : 4096;
	int fd = memfd_create("recording", MFD_CLOEXEC);
	struct recording *r;
	struct block_reader br;
	struct clika_error err;
	struct event ev;
	long rss;
	size_t i;
	int got = 0;

	batch = batch < 1 ? 1 : batch > MOST ? MOST : batch;
	spans = (spans + batch - 1) / batch * batch;
	if (fd < 0 || write_file(fd, spans, batch, &ns, &bytes))
		return 1;
	printf("spans           %" PRIu64 "\n", spans);
	printf("bytes per span  %.2f\n", (double)bytes / (double)spans);
	printf("write           %.1f ns a span, %.1f million spans/s\n", (double)ns / (double)spans,
	       (double)spans * 1e3 / (double)ns);
	rss = max_rss_kib();
	t = cpu_ns();
	if (recording__open_fd(fd, &r, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	t = cpu_ns() - t;
	printf("open            %.1f ms, %.2f GB/s\n", (double)t / 1e6, (double)bytes / (double)t);
	t = cpu_ns();
	for (i = 0; i < recording__n_blocks(r); i++) {
		if (block_reader__init(&br, r, i))
			return 1;
		while ((got = block_reader__next(&br, &ev)) > 0) {
			n++;
			sum += ev.dur + ev.name;
		}
		if (got)
			return 1;
	}
	t = cpu_ns() - t;
	printf("read            %.1f ns a span, %.1f million spans/s (checksum %" PRIx64 ")\n",
	       (double)t / (double)n, (double)n * 1e3 / (double)t, sum);
	printf("reader memory   %ld KiB more than the writer\n", max_rss_kib() - rss);
	recording__close(r);
	close(fd);
	return n == spans ? 0 : 1;
}
