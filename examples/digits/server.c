/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: takes requests in, runs the workers, hands results out.
 *
 *   submit -> queue of requests -> batcher -> queue of batches -> workers -> callback or wait
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "server.h"

#include <clika/markers.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "batcher.h"
#include "model.h"
#include "queue.h"
#include "request.h"

#define KEPT_LISTS 256       /* power of two */
#define IDLE_NS 250000000ull /* a worker without work for so long gives cached memory back */

struct worker {
	struct digits_engine *engine;
	unsigned index;
	pthread_t thread;
};

struct digits_engine {
	struct digits_options o;
	struct tally *tally;
	struct arena *weights, *requests, *activations;
	struct model *model;
	struct queue *queue, *batches;
	struct batcher *batcher;
	struct worker *workers;
	unsigned started;
	bool stopped;
	uint64_t first_id;

	pthread_mutex_t lock;
	pthread_cond_t progress;
	pthread_mutex_t draining; /* taken before the one above */
	uint64_t submitted;
	unsigned generation;   /* 0 or 1: each drain turns it and waits for the other one's */
	uint64_t in_flight[2]; /* requests by their generation */
	bool captured, capturing;
	struct request *kept[KEPT_LISTS]; /* without a callback, by id, until waited for */
};

static _Atomic uint64_t engines;

struct tally *digits_engine__tally(struct digits_engine *e)
{
	return e->tally;
}

/* ---- workers ------------------------------------------------------------------------------- */

static void fill_result(struct request *r, int error, const float *logits,
			const float *probabilities)
{
	struct digits_result *res = &r->result;
	int best = 0;

	res->error = error;
	res->digit = -1;
	if (error)
		return;
	for (int i = 1; i < DIGITS_CLASSES; i++)
		if (logits[i] > logits[best])
			best = i;
	res->digit = best;
	res->probability = probabilities[best];
	memcpy(res->logits, logits, sizeof(res->logits));
}

static void engine__hand_out(struct digits_engine *e, struct request *r)
{
	/* Copied: once it is done, a waiter may free it. */
	digits_done_fn fn = r->fn;
	unsigned generation = r->generation;

	if (fn) {
		fn(r->ctx, &r->result);
		arena__dealloc(e->requests, r);
	}
	pthread_mutex_lock(&e->lock);
	e->in_flight[generation]--;
	if (!fn)
		r->done = true;
	pthread_cond_broadcast(&e->progress);
	pthread_mutex_unlock(&e->lock);
}

static void engine__complete(struct digits_engine *e, struct request *r)
{
	uint64_t id = r->result.id;

	CLIKA_SPAN_CAT("complete", "runtime", CLIKA_U64("id", id));
	tally__span(e->tally, SPAN_COMPLETE);
	if (!r->result.error) {
		CLIKA_REQUEST_FIRST_OUTPUT("classify", id);
		CLIKA_REQUEST_OUTPUT("classify", id, 1);
		tally__add(e->tally, COUNT_REQUEST_FIRSTS, 1);
		tally__add(e->tally, COUNT_REQUEST_OUTPUTS, 1);
		tally__add(e->tally, COUNT_REQUEST_UNITS, 1);
	}
	CLIKA_REQUEST_END("classify", id, CLIKA_I64("error", r->result.error),
			  CLIKA_I64("digit", r->result.digit));
	tally__add(e->tally, COUNT_REQUEST_ENDS, 1);
	r->result.total_ns = now_ns() - r->submitted_ns;
	engine__hand_out(e, r);
}

static int engine__compute(struct digits_engine *e, const struct request *first, float *logits,
			   float *probabilities)
{
	const uint8_t *images[DIGITS_MAX_BATCH];
	uint32_t n = 0;

	if (!logits || !probabilities)
		return -ENOMEM;
	for (const struct request *r = first; r; r = r->next)
		images[n++] = r->pixels;
	return model__forward(e->model, e->activations, n, images, e->o.views, logits,
			      probabilities);
}

static void engine__run_batch(struct digits_engine *e, struct request *first)
{
	uint32_t n = first->batch;
	size_t bytes = n * DIGITS_CLASSES * sizeof(float);
	float *logits, *probabilities;
	struct request *r, *next;
	uint64_t now = now_ns();
	uint32_t i = 0;
	int err;

	CLIKA_SPAN_CAT("batch", "runtime", CLIKA_U64("size", n),
		       CLIKA_U64("first", first->result.id));
	tally__span(e->tally, SPAN_BATCH);
	tally__add(e->tally, COUNT_BATCHED_REQUESTS, n);
	for (r = first; r; r = r->next) {
		CLIKA_ASYNC_END_CAT("queued", "queue", r->result.id);
		CLIKA_FLOW_IN("request", r->result.id);
		tally__async_end(e->tally, ASYNC_QUEUED);
		tally__add(e->tally, COUNT_FLOW_INS, 1);
		r->result.queued_ns = now - r->submitted_ns;
		r->result.batch = n;
	}
	logits = arena__alloc(e->activations, bytes);
	probabilities = arena__alloc(e->activations, bytes);
	err = engine__compute(e, first, logits, probabilities);
	for (r = first; r; r = next, i++) {
		next = r->next;
		fill_result(r, err, logits + i * DIGITS_CLASSES,
			    probabilities + i * DIGITS_CLASSES);
		engine__complete(e, r);
	}
	arena__dealloc(e->activations, probabilities);
	arena__dealloc(e->activations, logits);
}

static void engine__idle(struct digits_engine *e)
{
	size_t bytes = arena__trim(e->activations);

	if (!bytes)
		return;
	CLIKA_INSTANT_CAT("arena trim", "memory", CLIKA_U64("bytes", bytes));
	tally__instant(e->tally, INSTANT_TRIM);
}

static void *worker__main(void *arg)
{
	struct worker *w = arg;
	struct digits_engine *e = w->engine;
	char name[16];
	void *first;
	int err;

	snprintf(name, sizeof(name), "worker %u", w->index);
	pthread_setname_np(pthread_self(), name);
	CLIKA_THREAD_NAME(name);
	tally__add(e->tally, COUNT_THREAD_NAMES, 1);
	for (;;) {
		err = queue__pop(e->batches, now_ns() + IDLE_NS, &first);
		if (err == -ETIMEDOUT) {
			engine__idle(e);
			err = queue__pop(e->batches, 0, &first);
		}
		if (err)
			return NULL;
		engine__run_batch(e, first);
	}
}

/* ---- capture from within ---------------------------------------------------------------------- */

/* Before anything is marked for request number capture_from; with one submitter, that is. */
static void engine__begin_capture(struct digits_engine *e)
{
	if (e->o.capture_from == e->o.capture_to)
		return;
	pthread_mutex_lock(&e->lock);
	if (!e->captured && e->submitted >= e->o.capture_from) {
		e->captured = e->capturing = true;
		CLIKA_CAPTURE_BEGIN("window");
		tally__add(e->tally, COUNT_CAPTURE_BEGINS, 1);
	}
	pthread_mutex_unlock(&e->lock);
}

/*
 * Once the first @submitted requests are in the queue; not when they are done, by intent: work
 * that a window caused belongs to it, wherever and whenever it runs.
 */
static void engine__end_capture(struct digits_engine *e, uint64_t submitted)
{
	if (e->o.capture_from == e->o.capture_to)
		return;
	pthread_mutex_lock(&e->lock);
	if (e->capturing && submitted >= e->o.capture_to) {
		e->capturing = false;
		CLIKA_CAPTURE_END("window");
		tally__add(e->tally, COUNT_CAPTURE_ENDS, 1);
	}
	pthread_mutex_unlock(&e->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

void digits_options__init(struct digits_options *o)
{
	*o = (struct digits_options){
		.sz = sizeof(*o),
		.workers = 2,
		.batch = 8,
		.batch_wait_us = 2000,
		.queue = 256,
		.views = 1,
	};
}

static bool options__valid(const struct digits_options *o)
{
	return o && o->sz == sizeof(*o) && o->workers >= 1 && o->workers <= DIGITS_MAX_WORKERS &&
	       o->batch >= 1 && o->batch <= DIGITS_MAX_BATCH && o->queue >= 1 &&
	       o->queue <= 1u << 20 && o->views >= 1 && o->views <= DIGITS_MAX_VIEWS &&
	       o->capture_from <= o->capture_to;
}

static void on_queue_depth(void *ctx, size_t depth)
{
	struct digits_engine *e = ctx;

	CLIKA_COUNTER_I64("queue depth", depth);
	tally__counter(e->tally, COUNTER_QUEUE_DEPTH);
}

static void on_batches_ready(void *ctx, size_t depth)
{
	struct digits_engine *e = ctx;

	CLIKA_COUNTER_I64("batches ready", depth);
	tally__counter(e->tally, COUNTER_BATCHES_READY);
}

static int engine__start_threads(struct digits_engine *e)
{
	struct batcher_opts bo = {
		.in = e->queue,
		.out = e->batches,
		.tally = e->tally,
		.max = e->o.batch,
		.wait_us = e->o.batch_wait_us,
	};
	int err;

	err = batcher__start(&bo, &e->batcher);
	if (err)
		return err;
	for (; e->started < e->o.workers; e->started++) {
		struct worker *w = &e->workers[e->started];

		w->engine = e;
		w->index = e->started;
		err = pthread_create(&w->thread, NULL, worker__main, w);
		if (err)
			return -err;
	}
	return 0;
}

static void engine__name(struct digits_engine *e, const char *label)
{
	CLIKA_DEVICE_NAME(0, "host memory");
	tally__add(e->tally, COUNT_DEVICE_NAMES, 1);
	if (!label)
		return;
	CLIKA_PROCESS_LABEL(label);
	tally__add(e->tally, COUNT_PROCESS_LABELS, 1);
}

static int engine__init(struct digits_engine *e, const char *label)
{
	e->tally = tally__new();
	if (!e->tally)
		return -ENOMEM;
	engine__name(e, label);
	e->weights = arena__new(POOL_WEIGHTS, e->tally);
	e->requests = arena__new(POOL_REQUESTS, e->tally);
	e->activations = arena__new(POOL_ACTIVATIONS, e->tally);
	e->queue = queue__new(e->o.queue, on_queue_depth, e);
	e->batches = queue__new(e->o.workers, on_batches_ready, e);
	e->workers = calloc(e->o.workers, sizeof(*e->workers));
	if (!e->weights || !e->requests || !e->activations || !e->queue || !e->batches ||
	    !e->workers)
		return -ENOMEM;
	return model__new(e->weights, e->tally, &e->model);
}

static void engine__init_locks(struct digits_engine *e)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&e->draining, NULL);
	pthread_mutex_init(&e->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&e->progress, &attr);
	pthread_condattr_destroy(&attr);
}

int digits_engine__create(const struct digits_options *o, struct digits_engine **out)
{
	struct digits_engine *e;
	int err;

	if (!options__valid(o))
		return -EINVAL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->o = *o;
	e->o.label = NULL; /* the caller's */
	/* Two engines of a process never use the same id. */
	e->first_id = (atomic_fetch_add(&engines, 1) << 40) + 1;
	engine__init_locks(e);
	err = engine__init(e, o->label);
	if (!err)
		err = engine__start_threads(e);
	if (err) {
		digits_engine__destroy(e);
		return err;
	}
	*out = e;
	return 0;
}

void digits_engine__stop(struct digits_engine *e)
{
	if (e->stopped)
		return;
	e->stopped = true;
	if (e->queue)
		queue__close(e->queue);
	/* Its last act is to close the other queue, which ends the workers. */
	if (e->batcher)
		batcher__join(e->batcher);
	else if (e->batches)
		queue__close(e->batches);
	for (unsigned i = 0; i < e->started; i++)
		pthread_join(e->workers[i].thread, NULL);
	engine__end_capture(e, UINT64_MAX);

	for (size_t i = 0; i < KEPT_LISTS; i++) {
		while (e->kept[i]) {
			struct request *r = e->kept[i];

			e->kept[i] = r->kept;
			arena__dealloc(e->requests, r);
		}
	}
	model__free(e->model);
	arena__free(e->activations);
	arena__free(e->requests);
	arena__free(e->weights);
}

void digits_engine__destroy(struct digits_engine *e)
{
	if (!e)
		return;
	digits_engine__stop(e);
	queue__free(e->queue);
	queue__free(e->batches);
	free(e->workers);
	tally__free(e->tally);
	pthread_cond_destroy(&e->progress);
	pthread_mutex_destroy(&e->lock);
	pthread_mutex_destroy(&e->draining);
	free(e);
}

int digits_engine__counts(const struct digits_engine *e, char *buf, size_t len)
{
	return tally__json(e->tally, buf, len);
}

/* ---- requests in, results out ---------------------------------------------------------------- */

static struct request **engine__kept(struct digits_engine *e, uint64_t id)
{
	return &e->kept[id & (KEPT_LISTS - 1)];
}

/* Numbers the request. */
static uint64_t engine__register(struct digits_engine *e, struct request *r)
{
	uint64_t number;

	pthread_mutex_lock(&e->lock);
	number = e->submitted++;
	r->generation = e->generation;
	e->in_flight[r->generation]++;
	r->result.id = e->first_id + number;
	if (!r->fn) {
		struct request **list = engine__kept(e, r->result.id);

		r->kept = *list;
		*list = r;
	}
	pthread_mutex_unlock(&e->lock);
	return number;
}

/* A slot in the queue. Waiting for one is told afterwards, when it is known that there was a wait. */
static int engine__reserve(struct digits_engine *e, bool block)
{
	uint64_t start = CLIKA_START();
	int err;

	err = queue__reserve(e->queue, block);
	if (err == -EAGAIN) {
		CLIKA_INSTANT_CAT("request rejected", "client");
		tally__instant(e->tally, INSTANT_REJECTED);
	} else if (err == 1) {
		CLIKA_SPAN_COMPLETE_CAT("wait_for_room", "client", start);
		tally__span(e->tally, SPAN_WAIT_FOR_ROOM);
		err = 0;
	}
	return err;
}

static int engine__enqueue(struct digits_engine *e, const uint8_t *pixels, uint64_t tag,
			   digits_done_fn fn, void *ctx, uint64_t *id, bool block)
{
	struct request *r;
	uint64_t number;
	int err;

	CLIKA_SPAN_CAT("submit", "client", CLIKA_U64("tag", tag));
	tally__span(e->tally, SPAN_SUBMIT);
	err = engine__reserve(e, block);
	if (err)
		return err;
	r = arena__alloc(e->requests, sizeof(*r));
	if (!r) {
		queue__cancel(e->queue);
		return -ENOMEM;
	}
	*r = (struct request){ .fn = fn, .ctx = ctx, .submitted_ns = now_ns() };
	r->result.tag = tag;
	memcpy(r->pixels, pixels, sizeof(r->pixels));
	number = engine__register(e, r);
	if (id)
		*id = r->result.id;

	/* All of this before the push: a worker may be faster than the next line. */
	CLIKA_REQUEST_BEGIN("classify", r->result.id, CLIKA_U64("tag", tag));
	CLIKA_ASYNC_BEGIN_CAT("queued", "queue", r->result.id);
	CLIKA_FLOW_OUT("request", r->result.id);
	tally__add(e->tally, COUNT_REQUEST_BEGINS, 1);
	tally__async_begin(e->tally, ASYNC_QUEUED);
	tally__add(e->tally, COUNT_FLOW_OUTS, 1);
	queue__push(e->queue, r);
	engine__end_capture(e, number + 1);
	return 0;
}

static int engine__submit(struct digits_engine *e, const uint8_t *pixels, uint64_t tag,
			  digits_done_fn fn, void *ctx, uint64_t *id, bool block)
{
	engine__begin_capture(e);
	return engine__enqueue(e, pixels, tag, fn, ctx, id, block);
}

int digits_engine__submit(struct digits_engine *e, const uint8_t pixels[DIGITS_PIXELS],
			  uint64_t tag, digits_done_fn fn, void *ctx, uint64_t *id)
{
	return engine__submit(e, pixels, tag, fn, ctx, id, true);
}

int digits_engine__try_submit(struct digits_engine *e, const uint8_t pixels[DIGITS_PIXELS],
			      uint64_t tag, digits_done_fn fn, void *ctx, uint64_t *id)
{
	return engine__submit(e, pixels, tag, fn, ctx, id, false);
}

static int engine__await(struct digits_engine *e, const struct request *r, int timeout_ms)
{
	uint64_t until = now_ns() + timeout_ms * 1000000ull;
	struct timespec ts = {
		.tv_sec = until / 1000000000u,
		.tv_nsec = until % 1000000000u,
	};
	int err = 0;

	while (!r->done && !err) {
		if (timeout_ms < 0)
			err = pthread_cond_wait(&e->progress, &e->lock);
		else
			err = pthread_cond_timedwait(&e->progress, &e->lock, &ts);
	}
	return r->done ? 0 : -err;
}

int digits_engine__wait(struct digits_engine *e, uint64_t id, int timeout_ms,
			struct digits_result *result)
{
	struct request **at, *r;
	int err = -ENOENT;

	pthread_mutex_lock(&e->lock);
	for (r = *engine__kept(e, id); r && r->result.id != id; r = r->kept)
		;
	if (!r || r->taken)
		goto out;
	r->taken = true;
	err = engine__await(e, r, timeout_ms);
	if (err) {
		r->taken = false;
		goto out;
	}
	/* Looked up again: the list may have changed during the wait. */
	for (at = engine__kept(e, id); *at != r; at = &(*at)->kept)
		;
	*at = r->kept;
	*result = r->result;
out:
	pthread_mutex_unlock(&e->lock);
	if (!err)
		arena__dealloc(e->requests, r);
	return err;
}

int digits_engine__drain(struct digits_engine *e)
{
	unsigned old;

	CLIKA_SPAN_CAT("drain", "client");
	tally__span(e->tally, SPAN_DRAIN);
	queue__hurry(e->queue);
	/* One at a time: the generation turned to must be empty, or it would be waited for too. */
	pthread_mutex_lock(&e->draining);
	pthread_mutex_lock(&e->lock);
	old = e->generation;
	e->generation = !old;
	while (e->in_flight[old])
		pthread_cond_wait(&e->progress, &e->lock);
	pthread_mutex_unlock(&e->lock);
	pthread_mutex_unlock(&e->draining);
	return 0;
}
