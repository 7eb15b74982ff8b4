/* SPDX-License-Identifier: Apache-2.0 */
/* A request on its way; the batcher strings those of a batch together. */
#ifndef DIGITS_REQUEST_H
#define DIGITS_REQUEST_H

#include <stdbool.h>
#include <time.h>

#include "digits.h"

struct request {
	struct request *next; /* in the same batch */
	uint32_t batch;       /* of the first in a batch: how many there are */
	struct request *kept; /* in the list of those without a callback */
	bool done, taken;     /* of those: result is there; somebody waits for it */
	unsigned generation;  /* see digits_engine__drain() */
	digits_done_fn fn;
	void *ctx;
	uint64_t submitted_ns; /* CLOCK_MONOTONIC */
	struct digits_result result;
	uint8_t pixels[DIGITS_PIXELS];
};

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

#endif
