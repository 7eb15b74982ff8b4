/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small inference runtime: requests go into a bounded queue, a batcher collects them, workers
 * run batches through a convolutional network that reads handwritten digits.
 *
 * Functions return 0 or a negative errno. Nothing here prints or exits. They may be called from
 * any thread at any time, except stop and destroy: those want to be the last ones in the engine.
 */
#ifndef DIGITS_H
#define DIGITS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DIGITS_API __attribute__((visibility("default")))

#define DIGITS_CLASSES 10
#define DIGITS_PIXELS 64 /* eight rows of eight, 0 (paper) to 16 (ink) */
#define DIGITS_MAX_BATCH 256
#define DIGITS_MAX_WORKERS 256
#define DIGITS_MAX_VIEWS 9

struct digits_engine;

struct digits_options {
	size_t sz;              /* sizeof(struct digits_options), set by digits_options__init() */
	uint32_t workers;       /* threads that compute */
	uint32_t batch;         /* requests in a batch, at most */
	uint32_t batch_wait_us; /* how long the first request of a batch waits for others */
	uint32_t queue;         /* requests that may wait; more block the submitter */
	uint32_t views; /* 1 to 9: average over the image and this many - 1 shifted copies */
	/* An in-process capture around requests number from .. to - 1; from == to: none. */
	uint64_t capture_from, capture_to;
	const char *label; /* of this process in traces; NULL = leave it unnamed */
};
DIGITS_API void digits_options__init(struct digits_options *o);

struct digits_result {
	uint64_t id;
	uint64_t tag;  /* as given to submit */
	int32_t error; /* 0, or a negative errno: no memory for the batch */
	int32_t digit;
	float probability;
	float logits[DIGITS_CLASSES];
	uint32_t batch;     /* requests in the batch that it ran in */
	uint64_t queued_ns; /* from submit until a worker took it */
	uint64_t total_ns;  /* from submit until the result was there */
};

/*
 * Runs on a worker thread: keep it short. Only try_submit may be called from it; the other
 * functions can wait for the very thread they are on.
 */
typedef void (*digits_done_fn)(void *ctx, const struct digits_result *result);

DIGITS_API int digits_engine__create(const struct digits_options *o, struct digits_engine **out);
/*
 * Takes no more requests, finishes those it has, ends all threads, gives all memory back; results
 * that nobody has waited for are dropped.
 */
DIGITS_API void digits_engine__stop(struct digits_engine *e);
/* Stops if that has not been done. NULL is fine. */
DIGITS_API void digits_engine__destroy(struct digits_engine *e);

/*
 * Hands a request in and returns. The result goes to @fn if there is one, else it is kept for
 * digits_engine__wait(). @id (may be NULL) is unique in this process and never 0.
 * Blocks while the queue is full; try_submit returns -EAGAIN instead. -ESHUTDOWN after stop.
 */
DIGITS_API int digits_engine__submit(struct digits_engine *e, const uint8_t pixels[DIGITS_PIXELS],
				     uint64_t tag, digits_done_fn fn, void *ctx, uint64_t *id);
DIGITS_API int digits_engine__try_submit(struct digits_engine *e,
					 const uint8_t pixels[DIGITS_PIXELS], uint64_t tag,
					 digits_done_fn fn, void *ctx, uint64_t *id);
/*
 * Waits for a request that was submitted without a callback and takes its result; it can be taken
 * once. @timeout_ms < 0: for ever. -ETIMEDOUT: not there yet, wait again; -ENOENT: no such request.
 */
DIGITS_API int digits_engine__wait(struct digits_engine *e, uint64_t id, int timeout_ms,
				   struct digits_result *result);
/* Returns when everything submitted before the call, by any thread, is done. */
DIGITS_API int digits_engine__drain(struct digits_engine *e);

struct digits_summary {
	uint64_t requests, right, failed;
	uint64_t checksum; /* of all logits; does not depend on batches, threads or timing */
	uint64_t elapsed_ns;
};
/* Runs @n requests over the held-out images, in an order shuffled by @seed (0 = as they lie). */
DIGITS_API int digits_engine__run(struct digits_engine *e, uint64_t n, uint64_t seed,
				  struct digits_summary *out);

/*
 * How often this engine did each thing that it also marks, as JSON, counted without the markers.
 * Complete after stop. Returns the length as snprintf() does.
 */
DIGITS_API int digits_engine__counts(const struct digits_engine *e, char *buf, size_t len);

/* The held-out images. NULL or -1 when @i is out of range. */
DIGITS_API uint32_t digits_data__count(void);
DIGITS_API const uint8_t *digits_data__pixels(uint32_t i);
DIGITS_API int digits_data__label(uint32_t i);

#ifdef __cplusplus
}
#endif
#endif
