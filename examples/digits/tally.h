/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime did, counted by itself: the other side of the books. A test compares these
 * numbers with a recording; nothing here knows of markers.
 */
#ifndef DIGITS_TALLY_H
#define DIGITS_TALLY_H

#include <stddef.h>
#include <stdint.h>

#define TALLY_SPANS(X)                                                                             \
	X(LOAD, "load_model")                                                                      \
	X(SUBMIT, "submit")                                                                        \
	X(WAIT_FOR_ROOM, "wait_for_room")                                                          \
	X(DRAIN, "drain")                                                                          \
	X(DISPATCH, "dispatch")                                                                    \
	X(BATCH, "batch")                                                                          \
	X(GATHER, "gather")                                                                        \
	X(CONV, "conv2d")                                                                          \
	X(IM2COL, "im2col")                                                                        \
	X(GEMM, "gemm")                                                                            \
	X(BIAS_RELU, "bias_relu")                                                                  \
	X(MAX_POOL, "max_pool2d")                                                                  \
	X(FLATTEN, "flatten")                                                                      \
	X(DENSE, "dense")                                                                          \
	X(SOFTMAX, "softmax")                                                                      \
	X(COMPLETE, "complete")

#define TALLY_ASYNCS(X)                                                                            \
	X(QUEUED, "queued")                                                                        \
	X(COLLECT, "collect")

#define TALLY_INSTANTS(X)                                                                          \
	X(FULL, "batch full")                                                                      \
	X(DEADLINE, "batch deadline")                                                              \
	X(DRAINED, "batch drained")                                                                \
	X(REJECTED, "request rejected")                                                            \
	X(TRIM, "arena trim")

#define TALLY_COUNTERS(X)                                                                          \
	X(QUEUE_DEPTH, "queue depth")                                                              \
	X(BATCHES_READY, "batches ready")                                                          \
	X(BATCH_FILL, "batch fill")

/* Numbers that are no list of names. */
#define TALLY_COUNTS(X)                                                                            \
	X(FLOW_OUTS, "flow_outs")                                                                  \
	X(FLOW_STEPS, "flow_steps")                                                                \
	X(FLOW_INS, "flow_ins")                                                                    \
	X(REQUEST_BEGINS, "request_begins")                                                        \
	X(REQUEST_FIRSTS, "request_firsts")                                                        \
	X(REQUEST_OUTPUTS, "request_outputs")                                                      \
	X(REQUEST_UNITS, "request_units")                                                          \
	X(REQUEST_ENDS, "request_ends")                                                            \
	X(CAPTURE_BEGINS, "capture_begins")                                                        \
	X(CAPTURE_ENDS, "capture_ends")                                                            \
	X(THREAD_NAMES, "thread_names")                                                            \
	X(DEVICE_NAMES, "device_names")                                                            \
	X(PROCESS_LABELS, "process_labels")                                                        \
	X(BATCHED_REQUESTS, "batched_requests")                                                    \
	X(FLOPS, "flops")

#define TALLY_POOLS(X)                                                                             \
	X(WEIGHTS, "weights")                                                                      \
	X(REQUESTS, "requests")                                                                    \
	X(ACTIVATIONS, "activations")

#define TALLY_SPAN_ENUM(id, name) SPAN_##id,
#define TALLY_ASYNC_ENUM(id, name) ASYNC_##id,
#define TALLY_INSTANT_ENUM(id, name) INSTANT_##id,
#define TALLY_COUNTER_ENUM(id, name) COUNTER_##id,
#define TALLY_COUNT_ENUM(id, name) COUNT_##id,
#define TALLY_POOL_ENUM(id, name) POOL_##id,
enum tally_span { TALLY_SPANS(TALLY_SPAN_ENUM) N_SPANS };
enum tally_async { TALLY_ASYNCS(TALLY_ASYNC_ENUM) N_ASYNCS };
enum tally_instant { TALLY_INSTANTS(TALLY_INSTANT_ENUM) N_INSTANTS };
enum tally_counter { TALLY_COUNTERS(TALLY_COUNTER_ENUM) N_COUNTERS };
enum tally_count { TALLY_COUNTS(TALLY_COUNT_ENUM) N_COUNTS };
enum pool { TALLY_POOLS(TALLY_POOL_ENUM) N_POOLS };

struct tally;

struct tally *tally__new(void);
void tally__free(struct tally *t);

void tally__span(struct tally *t, enum tally_span id);
void tally__async_begin(struct tally *t, enum tally_async id);
void tally__async_end(struct tally *t, enum tally_async id);
void tally__instant(struct tally *t, enum tally_instant id);
void tally__counter(struct tally *t, enum tally_counter id);
void tally__add(struct tally *t, enum tally_count id, uint64_t n);

void tally__alloc(struct tally *t, enum pool pool, uint64_t bytes);
void tally__dealloc(struct tally *t, enum pool pool, uint64_t bytes);
void tally__reserve(struct tally *t, enum pool pool, uint64_t bytes);
void tally__release(struct tally *t, enum pool pool, uint64_t bytes);

int tally__json(const struct tally *t, char *buf, size_t len);

#endif
