/* SPDX-License-Identifier: Apache-2.0 */
/* The example runtime as a whole, through its public interface. */
#define _GNU_SOURCE /* pthread_setname_np */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "examples/digits/arena.c"
#include "examples/digits/batcher.c"
#include "examples/digits/client.c"
#include "examples/digits/data.c"
#include "examples/digits/gemm.c"
#include "examples/digits/layers.c"
#include "examples/digits/model.c"
#include "examples/digits/queue.c"
#include "examples/digits/server.c"
#include "examples/digits/tally.c"

static struct digits_engine *engine(uint32_t workers, uint32_t batch, uint32_t wait_us)
{
	struct digits_options o;
	struct digits_engine *e;

	digits_options__init(&o);
	o.workers = workers;
	o.batch = batch;
	o.batch_wait_us = wait_us;
	assert_int_equal(digits_engine__create(&o, &e), 0);
	return e;
}

static void network_reads_at_least_95_of_100_held_out_images(void **state)
{
	struct digits_engine *e = engine(2, 8, 2000);
	struct digits_summary s;

	(void)state;
	assert_int_equal(digits_engine__run(e, DIGITS_IMAGES, 0, &s), 0);
	assert_int_equal(s.requests, DIGITS_IMAGES);
	assert_int_equal(s.failed, 0);
	assert_true(s.right * 100 >= s.requests * 95);
	digits_engine__destroy(e);
}

static void results_do_not_depend_on_workers_or_batches(void **state)
{
	static const uint32_t shapes[][3] = {
		{ 1, 1, 0 }, { 1, 256, 2000 }, { 3, 5, 100 }, { 4, 8, 0 }
	};
	struct digits_summary first, s;

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct digits_engine *e = engine(shapes[i][0], shapes[i][1], shapes[i][2]);

		assert_int_equal(digits_engine__run(e, 500, 3, &s), 0);
		if (!i)
			first = s;
		assert_int_equal(s.checksum, first.checksum);
		assert_int_equal(s.right, first.right);
		digits_engine__destroy(e);
	}
	assert_int_not_equal(first.checksum, 0);
}

static void wait_takes_a_result_once(void **state)
{
	struct digits_engine *e = engine(1, 4, 0);
	struct digits_result r;
	uint64_t ids[20];

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_int_equal(digits_engine__submit(e, digits_pixels[i], 100 + i, NULL, NULL,
						       &ids[i]),
				 0);
	for (int i = 19; i >= 0; i--) {
		assert_int_equal(digits_engine__wait(e, ids[i], -1, &r), 0);
		assert_int_equal(r.id, ids[i]);
		assert_int_equal(r.tag, 100 + i);
		assert_int_equal(r.error, 0);
		assert_in_range(r.digit, 0, 9);
		assert_in_range(r.batch, 1, 4);
		assert_true(r.probability > 0.1f && r.probability <= 1.0f);
		assert_true(r.queued_ns <= r.total_ns);
		assert_int_equal(digits_engine__wait(e, ids[i], -1, &r), -ENOENT);
	}
	assert_int_equal(digits_engine__wait(e, 0, 0, &r), -ENOENT);
	digits_engine__destroy(e);
}

static void wait_comes_back_when_time_is_up_and_may_be_repeated(void **state)
{
	/* The only request waits a minute for company, until the drain says that none will come. */
	struct digits_engine *e = engine(1, 2, 60000000);
	struct digits_result r;
	uint64_t id;

	(void)state;
	assert_int_equal(digits_engine__submit(e, digits_pixels[0], 0, NULL, NULL, &id), 0);
	assert_int_equal(digits_engine__wait(e, id, 0, &r), -ETIMEDOUT);
	assert_int_equal(digits_engine__wait(e, id, 5, &r), -ETIMEDOUT);
	assert_int_equal(digits_engine__drain(e), 0);
	assert_int_equal(digits_engine__wait(e, id, 0, &r), 0);
	assert_int_equal(r.digit, digits_labels[0]);
	digits_engine__destroy(e);
}

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool open;
	unsigned inside, passed;
};

static void pass_gate(void *ctx, const struct digits_result *r)
{
	struct gate *g = ctx;

	(void)r;
	pthread_mutex_lock(&g->lock);
	g->inside++;
	pthread_cond_broadcast(&g->moved);
	while (!g->open)
		pthread_cond_wait(&g->moved, &g->lock);
	g->passed++;
	pthread_mutex_unlock(&g->lock);
}

static void full_queue_turns_requests_away_and_loses_none_it_took(void **state)
{
	struct gate g = { .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER };
	struct digits_options o;
	struct digits_engine *e;
	unsigned taken = 1;
	int err;

	(void)state;
	digits_options__init(&o);
	o.workers = 1;
	o.batch = 1;
	o.queue = 3;
	assert_int_equal(digits_engine__create(&o, &e), 0);
	assert_int_equal(digits_engine__submit(e, digits_pixels[0], 0, pass_gate, &g, NULL), 0);
	pthread_mutex_lock(&g.lock);
	while (!g.inside)
		pthread_cond_wait(&g.moved, &g.lock);
	pthread_mutex_unlock(&g.lock);
	/* The worker stands at the gate: what can still be taken is bounded by the queues. */
	while (!(err = digits_engine__try_submit(e, digits_pixels[1], 0, pass_gate, &g, NULL)))
		assert_in_range(++taken, 1, 16);
	assert_int_equal(err, -EAGAIN);
	pthread_mutex_lock(&g.lock);
	g.open = true;
	pthread_cond_broadcast(&g.moved);
	pthread_mutex_unlock(&g.lock);
	assert_int_equal(digits_engine__drain(e), 0);
	assert_int_equal(g.passed, taken);
	digits_engine__destroy(e);
}

static void stop_finishes_what_was_taken_and_takes_no_more(void **state)
{
	struct gate g = { .lock = PTHREAD_MUTEX_INITIALIZER, .open = true };
	struct digits_engine *e = engine(2, 64, 60000000);

	(void)state;
	pthread_cond_init(&g.moved, NULL);
	for (int i = 0; i < 100; i++)
		assert_int_equal(digits_engine__submit(e, digits_pixels[i], i, pass_gate, &g, NULL),
				 0);
	digits_engine__stop(e);
	assert_int_equal(g.passed, 100);
	assert_int_equal(digits_engine__submit(e, digits_pixels[0], 0, pass_gate, &g, NULL),
			 -ESHUTDOWN);
	digits_engine__destroy(e);
}

static void *submit_and_wait(void *arg)
{
	struct digits_engine *e = arg;
	struct digits_result r;
	uintptr_t right = 0;
	uint64_t id;

	for (int i = 0; i < 100; i++) {
		if (digits_engine__submit(e, digits_pixels[i], i, NULL, NULL, &id) ||
		    (i % 10 == 9 && digits_engine__drain(e)) ||
		    digits_engine__wait(e, id, -1, &r) || r.id != id)
			return NULL;
		right += r.digit == digits_labels[i];
	}
	return (void *)right;
}

static void many_threads_may_submit_drain_and_wait_at_once(void **state)
{
	struct digits_engine *e = engine(2, 4, 200);
	void *right[4];
	pthread_t threads[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, submit_and_wait, e), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], &right[i]);
	for (int i = 0; i < 4; i++) {
		assert_in_range((uintptr_t)right[i], 90, 100);
		assert_int_equal((uintptr_t)right[i], (uintptr_t)right[0]);
	}
	digits_engine__destroy(e);
}

static void books_balance_after_stop(void **state)
{
	struct digits_engine *e = engine(3, 8, 500);
	struct tally *t = digits_engine__tally(e);
	struct digits_summary s;
	char text[8192];
	uint64_t id;

	(void)state;
	assert_int_equal(digits_engine__run(e, 300, 1, &s), 0);
	/* One that nobody waits for. */
	assert_int_equal(digits_engine__submit(e, digits_pixels[0], 0, NULL, NULL, &id), 0);
	digits_engine__stop(e);
	assert_int_equal(t->counts[COUNT_REQUEST_BEGINS], 301);
	assert_int_equal(t->counts[COUNT_REQUEST_ENDS], 301);
	assert_int_equal(t->async_begins[ASYNC_QUEUED], 301);
	assert_int_equal(t->async_ends[ASYNC_QUEUED], 301);
	assert_int_equal(t->async_begins[ASYNC_COLLECT], t->spans[SPAN_BATCH]);
	assert_int_equal(t->async_ends[ASYNC_COLLECT], t->spans[SPAN_BATCH]);
	assert_int_equal(t->counts[COUNT_BATCHED_REQUESTS], 301);
	assert_int_equal(t->spans[SPAN_BATCH], t->instants[INSTANT_FULL] +
						       t->instants[INSTANT_DEADLINE] +
						       t->instants[INSTANT_DRAINED]);
	assert_int_equal(t->spans[SPAN_CONV], 3 * t->spans[SPAN_BATCH]);
	for (int i = 0; i < N_POOLS; i++) {
		assert_int_equal(t->pools[i].allocs, t->pools[i].frees);
		assert_int_equal(t->pools[i].alloc_bytes, t->pools[i].free_bytes);
		assert_int_equal(t->pools[i].reserves, t->pools[i].releases);
		assert_int_equal(t->pools[i].reserve_bytes, t->pools[i].release_bytes);
		assert_int_equal(t->pools[i].in_use, 0);
	}
	assert_in_range(digits_engine__counts(e, text, sizeof(text)), 100, sizeof(text) - 1);
	assert_int_equal(digits_engine__counts(e, NULL, 0), strlen(text));
	digits_engine__destroy(e);
}

static void refuses_options_out_of_range(void **state)
{
	struct digits_options o;
	struct digits_engine *e;

	(void)state;
	assert_int_equal(digits_engine__create(NULL, &e), -EINVAL);
#define REFUSES(field, value)                                                                      \
	do {                                                                                       \
		digits_options__init(&o);                                                          \
		o.field = (value);                                                                 \
		assert_int_equal(digits_engine__create(&o, &e), -EINVAL);                          \
	} while (0)
	REFUSES(sz, 1);
	REFUSES(workers, 0);
	REFUSES(workers, DIGITS_MAX_WORKERS + 1);
	REFUSES(batch, 0);
	REFUSES(batch, DIGITS_MAX_BATCH + 1);
	REFUSES(queue, 0);
	REFUSES(views, 0);
	REFUSES(views, DIGITS_MAX_VIEWS + 1);
	REFUSES(capture_from, 5);
	digits_engine__destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(network_reads_at_least_95_of_100_held_out_images),
		cmocka_unit_test(results_do_not_depend_on_workers_or_batches),
		cmocka_unit_test(wait_takes_a_result_once),
		cmocka_unit_test(wait_comes_back_when_time_is_up_and_may_be_repeated),
		cmocka_unit_test(full_queue_turns_requests_away_and_loses_none_it_took),
		cmocka_unit_test(stop_finishes_what_was_taken_and_takes_no_more),
		cmocka_unit_test(many_threads_may_submit_drain_and_wait_at_once),
		cmocka_unit_test(books_balance_after_stop),
		cmocka_unit_test(refuses_options_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
