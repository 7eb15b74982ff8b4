/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t not_empty, not_full;
	queue_depth_fn on_depth;
	void *ctx;
	bool closed, hurry;
	size_t capacity, head, depth;
	size_t reserved; /* slots taken and not yet filled; depth + reserved <= capacity */
	void *items[];
};

struct queue *queue__new(size_t capacity, queue_depth_fn on_depth, void *ctx)
{
	struct queue *q;
	pthread_condattr_t attr;

	q = calloc(1, sizeof(*q) + capacity * sizeof(q->items[0]));
	if (!q)
		return NULL;
	q->capacity = capacity;
	q->on_depth = on_depth;
	q->ctx = ctx;
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&q->not_empty, &attr);
	pthread_cond_init(&q->not_full, &attr);
	pthread_condattr_destroy(&attr);
	return q;
}

void queue__free(struct queue *q)
{
	if (!q)
		return;
	pthread_cond_destroy(&q->not_full);
	pthread_cond_destroy(&q->not_empty);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static void queue__changed(struct queue *q)
{
	if (q->on_depth)
		q->on_depth(q->ctx, q->depth);
}

int queue__reserve(struct queue *q, bool block)
{
	int ret = 0;

	pthread_mutex_lock(&q->lock);
	while (!q->closed && q->depth + q->reserved == q->capacity) {
		if (!block) {
			ret = -EAGAIN;
			goto out;
		}
		ret = 1;
		pthread_cond_wait(&q->not_full, &q->lock);
	}
	if (q->closed) {
		ret = -ESHUTDOWN;
		goto out;
	}
	q->reserved++;
out:
	pthread_mutex_unlock(&q->lock);
	return ret;
}

void queue__push(struct queue *q, void *item)
{
	pthread_mutex_lock(&q->lock);
	q->items[(q->head + q->depth) % q->capacity] = item;
	q->depth++;
	q->reserved--;
	q->hurry = false;
	queue__changed(q);
	/* Closed: others may wait for the last reservation to be filled, and only one gets it. */
	if (q->closed)
		pthread_cond_broadcast(&q->not_empty);
	else
		pthread_cond_signal(&q->not_empty);
	pthread_mutex_unlock(&q->lock);
}

void queue__cancel(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->reserved--;
	pthread_cond_signal(&q->not_full);
	if (q->closed)
		pthread_cond_broadcast(&q->not_empty);
	pthread_mutex_unlock(&q->lock);
}

static int queue__wait(struct queue *q, uint64_t deadline)
{
	struct timespec until = {
		.tv_sec = deadline / 1000000000u,
		.tv_nsec = deadline % 1000000000u,
	};

	if (!deadline)
		return -pthread_cond_wait(&q->not_empty, &q->lock);
	if (q->hurry)
		return -EAGAIN;
	return -pthread_cond_timedwait(&q->not_empty, &q->lock, &until);
}

int queue__pop(struct queue *q, uint64_t deadline, void **item)
{
	int err = 0;

	pthread_mutex_lock(&q->lock);
	while (!q->depth) {
		if (q->closed && !q->reserved)
			err = -ESHUTDOWN;
		if (err)
			goto out;
		err = queue__wait(q, deadline);
	}
	err = 0; /* an item that came at the last moment counts as in time */
	*item = q->items[q->head];
	q->head = (q->head + 1) % q->capacity;
	q->depth--;
	queue__changed(q);
	pthread_cond_signal(&q->not_full);
	if (q->closed && !q->depth && !q->reserved)
		pthread_cond_broadcast(&q->not_empty);
out:
	pthread_mutex_unlock(&q->lock);
	return err;
}

void queue__hurry(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->hurry = true;
	pthread_cond_broadcast(&q->not_empty);
	pthread_mutex_unlock(&q->lock);
}

void queue__close(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->closed = true;
	pthread_cond_broadcast(&q->not_empty);
	pthread_cond_broadcast(&q->not_full);
	pthread_mutex_unlock(&q->lock);
}
