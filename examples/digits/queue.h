/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded first-in-first-out queue of pointers between threads. */
#ifndef DIGITS_QUEUE_H
#define DIGITS_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

/*
 * Told of every change, under the queue's lock: called in the order in which the depth changed,
 * which a caller outside the lock could not promise.
 */
typedef void (*queue_depth_fn)(void *ctx, size_t depth);

struct queue *queue__new(size_t capacity, queue_depth_fn on_depth, void *ctx);
void queue__free(struct queue *q);

/*
 * A slot is taken first and filled later, so that a producer can announce its item between the
 * two and never has to take that back. Every successful reserve is followed by push or cancel.
 * reserve: 0; 1 = a slot, but had to wait for it; -EAGAIN (full, !block); -ESHUTDOWN.
 */
int queue__reserve(struct queue *q, bool block);
void queue__push(struct queue *q, void *item);
void queue__cancel(struct queue *q);

/*
 * @deadline: CLOCK_MONOTONIC ns, 0 = none. -ETIMEDOUT: it has passed; -EAGAIN: there is a
 * deadline, but the producers said that nothing follows; -ESHUTDOWN: closed and empty.
 */
int queue__pop(struct queue *q, uint64_t deadline, void **item);

/* Nothing follows for now: who waits with a deadline need not. Holds until the next push. */
void queue__hurry(struct queue *q);
/* No new reservations; what is in the queue, or reserved, still comes out. */
void queue__close(struct queue *q);

#endif
