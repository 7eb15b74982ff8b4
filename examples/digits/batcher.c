/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "batcher.h"

#include <clika/markers.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "request.h"

struct batcher {
	struct batcher_opts o;
	pthread_t thread;
};

/* Marks why the batch goes now; @err is what ended the collecting, 0 = it is full. */
static void batcher__note_why(struct batcher *b, int err)
{
	switch (err) {
	case 0:
		CLIKA_INSTANT_CAT("batch full", "runtime");
		tally__instant(b->o.tally, INSTANT_FULL);
		break;
	case -ETIMEDOUT:
		CLIKA_INSTANT_CAT("batch deadline", "runtime");
		tally__instant(b->o.tally, INSTANT_DEADLINE);
		break;
	default:
		CLIKA_INSTANT_CAT("batch drained", "runtime");
		tally__instant(b->o.tally, INSTANT_DRAINED);
		break;
	}
}

/*
 * Fills the batch that @first began. Marked as an async span: the thread does nothing meanwhile,
 * and a span on it would make waiting look like the work that takes most of the time.
 */
static int batcher__collect(struct batcher *b, struct request *first)
{
	uint64_t deadline = now_ns() + b->o.wait_us * 1000ull;
	struct request *last = first;
	void *item;
	int err = 0;

	CLIKA_ASYNC_BEGIN_CAT("collect", "queue", first->result.id);
	tally__async_begin(b->o.tally, ASYNC_COLLECT);
	first->next = NULL;
	/* The slot before the others: while all workers are busy the batch can still grow. */
	queue__reserve(b->o.out, true);
	for (first->batch = 1; first->batch < b->o.max; first->batch++) {
		err = queue__pop(b->o.in, deadline, &item);
		if (err)
			break;
		last->next = item;
		last = item;
		last->next = NULL;
	}
	CLIKA_ASYNC_END_CAT("collect", "queue", first->result.id, CLIKA_U64("size", first->batch));
	tally__async_end(b->o.tally, ASYNC_COLLECT);
	return err;
}

static void batcher__dispatch(struct batcher *b, struct request *first, int err)
{
	CLIKA_SPAN_CAT("dispatch", "runtime", CLIKA_U64("size", first->batch));
	tally__span(b->o.tally, SPAN_DISPATCH);
	batcher__note_why(b, err);
	CLIKA_COUNTER_F64("batch fill", (double)first->batch / b->o.max);
	tally__counter(b->o.tally, COUNTER_BATCH_FILL);
	for (const struct request *r = first; r; r = r->next) {
		CLIKA_FLOW_STEP("request", r->result.id);
		tally__add(b->o.tally, COUNT_FLOW_STEPS, 1);
	}
	queue__push(b->o.out, first);
}

static void *batcher__main(void *arg)
{
	struct batcher *b = arg;
	void *first;

	pthread_setname_np(pthread_self(), "batcher");
	CLIKA_THREAD_NAME("batcher");
	tally__add(b->o.tally, COUNT_THREAD_NAMES, 1);
	while (!queue__pop(b->o.in, 0, &first)) {
		batcher__dispatch(b, first, batcher__collect(b, first));
	}
	queue__close(b->o.out);
	return NULL;
}

int batcher__start(const struct batcher_opts *o, struct batcher **out)
{
	struct batcher *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return -ENOMEM;
	b->o = *o;
	err = pthread_create(&b->thread, NULL, batcher__main, b);
	if (err) {
		free(b);
		return -err;
	}
	*out = b;
	return 0;
}

void batcher__join(struct batcher *b)
{
	if (!b)
		return;
	pthread_join(b->thread, NULL);
	free(b);
}
