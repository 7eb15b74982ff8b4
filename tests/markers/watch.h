/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the batched transport: runs a body on a thread of its own, so that it begins
 * with an empty buffer, and keeps what every hit of the batch probe handed over.
 */
#ifndef CLIKA_TESTS_MARKERS_WATCH_H
#define CLIKA_TESTS_MARKERS_WATCH_H

#include <clika/markers.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/markers/records.h"
#include "tests/markers/trap.h"

#define WATCH_MARKS 4096
#define WATCH_BATCHES 512

/* Asserting with longjmp() must not happen on the body's thread: count, and judge afterwards. */
static int watch__failures;
#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);         \
			__atomic_fetch_add(&watch__failures, 1, __ATOMIC_RELAXED);                 \
		}                                                                                  \
	} while (0)

struct watch_batch {
	const struct clika_buffer *buffer;
	uint64_t from, to, records, born;
	uint32_t depth, announced;
	int first, n; /* of watch__mark */
};

static struct watch_batch watch__batch[WATCH_BATCHES];
static int watch__batches;
static struct mark watch__mark[WATCH_MARKS];
static int watch__marks;
static void (*watch__on_batch)(void); /* runs inside the hit, as a signal handler would */

static void watch__hit(uintptr_t site, const uint64_t arg[4])
{
	struct clika_buffer *b = (struct clika_buffer *)(uintptr_t)arg[0];
	struct watch_batch *w = &watch__batch[watch__batches];

	CHECK(site == (uintptr_t)clika_batch_v1);
	CHECK(watch__batches < WATCH_BATCHES);
	if (watch__batches == WATCH_BATCHES)
		return;
	w->buffer = b;
	w->from = arg[1];
	w->to = arg[2];
	w->records = b->count - b->flushed_count;
	w->born = b->born;
	w->depth = b->depth;
	w->announced = b->announced;
	w->first = watch__marks;
	CHECK(w->from == b->flushed && w->to == b->head);
	CHECK(w->from == w->to || w->from / CLIKA_HALF_BYTES == (w->to - 1) / CLIKA_HALF_BYTES);
	w->n = marks__decode(b, w->from, w->to, watch__mark + watch__marks,
			     WATCH_MARKS - watch__marks);
	CHECK(w->n >= 0 && (uint64_t)w->n == w->records);
	CHECK(b->announced == b->depth);
	if (w->n > 0)
		watch__marks += w->n;
	CHECK(watch__marks <= WATCH_MARKS);
	if (watch__marks > WATCH_MARKS)
		watch__marks = WATCH_MARKS;
	watch__batches++;
	if (watch__on_batch)
		watch__on_batch();
}

static inline void watch__forget(void)
{
	watch__batches = 0;
	watch__marks = 0;
	watch__on_batch = NULL;
}

static inline int watch__start(void)
{
	if (marks__wait_unwatched(&clika_semaphore_v1) != 0 || trap__listen(watch__hit) != 0)
		return -1;
	return trap__set((uintptr_t)clika_batch_v1);
}

static inline struct clika_buffer *watch__mine(void)
{
	return clika_tls_v1;
}

/* Hands over what this thread has; everything since watch__forget() is in watch__mark then. */
static inline int watch__collect(void)
{
	CLIKA_FLUSH();
	return watch__marks;
}

static inline void *watch__thread(void *body)
{
	void (*fn)(void);

	memcpy(&fn, &body, sizeof(fn));
	fn();
	return NULL;
}

/* Runs @fn on a new thread, enabled; 0 when all its checks held. */
static inline int watch__run(void (*fn)(void))
{
	pthread_t t;
	void *arg;
	int before = watch__failures;

	memcpy(&arg, &fn, sizeof(arg));
	watch__forget();
	clika_semaphore_v1 = 1;
	if (pthread_create(&t, NULL, watch__thread, arg) != 0 || pthread_join(t, NULL) != 0)
		return -1;
	clika_semaphore_v1 = 0;
	return watch__failures - before;
}

#endif
