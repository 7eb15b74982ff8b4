/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that makes batches of requests. */
#ifndef DIGITS_BATCHER_H
#define DIGITS_BATCHER_H

#include "queue.h"
#include "tally.h"

struct batcher;

struct batcher_opts {
	struct queue *in;  /* of struct request */
	struct queue *out; /* of struct request, the first of a batch each */
	struct tally *tally;
	uint32_t max;     /* requests a batch */
	uint32_t wait_us; /* from the first request until the batch goes as it is */
};

/* Runs until @in is closed and empty, then closes @out. */
int batcher__start(const struct batcher_opts *o, struct batcher **out);
void batcher__join(struct batcher *b); /* also frees it; NULL is fine */

#endif
