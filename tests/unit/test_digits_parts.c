/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the example runtime, one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "examples/digits/arena.c"
#include "examples/digits/gemm.c"
#include "examples/digits/queue.c"
#include "examples/digits/tally.c"

static uint32_t random_next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* ---- queue --------------------------------------------------------------------------------------- */

#define PRODUCERS 3
#define CONSUMERS 3
#define EACH 2000

struct crowd {
	struct queue *q;
	pthread_t threads[PRODUCERS + CONSUMERS];
	_Atomic unsigned next_producer;
	_Atomic unsigned char seen[PRODUCERS * EACH];
	_Atomic unsigned out_of_order;
	size_t deepest; /* under the queue's lock */
};

static void note_depth(void *ctx, size_t depth)
{
	struct crowd *c = ctx;

	if (depth > c->deepest)
		c->deepest = depth;
}

static void *produce(void *arg)
{
	struct crowd *c = arg;
	uintptr_t base = atomic_fetch_add(&c->next_producer, 1) * EACH;

	for (uintptr_t i = 0; i < EACH; i++) {
		if (queue__reserve(c->q, true) < 0)
			abort();
		if (i % 64 == 5) { /* a change of mind must leave no hole */
			queue__cancel(c->q);
			if (queue__reserve(c->q, true) < 0)
				abort();
		}
		queue__push(c->q, (void *)(base + i + 1));
	}
	return NULL;
}

static void *consume(void *arg)
{
	struct crowd *c = arg;
	uintptr_t last[PRODUCERS] = { 0 };
	void *item;

	while (!queue__pop(c->q, 0, &item)) {
		uintptr_t n = (uintptr_t)item - 1;

		if ((uintptr_t)item <= last[n / EACH])
			c->out_of_order++;
		last[n / EACH] = (uintptr_t)item;
		c->seen[n]++;
	}
	return NULL;
}

static void queue_gives_each_item_to_one_thread_in_order(void **state)
{
	static struct crowd c;

	(void)state;
	c.q = queue__new(7, note_depth, &c);
	assert_non_null(c.q);
	for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
		assert_int_equal(pthread_create(&c.threads[i], NULL,
						i < PRODUCERS ? produce : consume, &c),
				 0);
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(c.threads[i], NULL);
	queue__close(c.q);
	for (int i = PRODUCERS; i < PRODUCERS + CONSUMERS; i++)
		pthread_join(c.threads[i], NULL);
	for (int i = 0; i < PRODUCERS * EACH; i++)
		assert_int_equal(c.seen[i], 1);
	assert_int_equal(c.out_of_order, 0);
	assert_in_range(c.deepest, 1, 7);
	queue__free(c.q);
}

static void queue_refuses_when_full_counting_reservations(void **state)
{
	struct queue *q = queue__new(2, NULL, NULL);
	void *item;

	(void)state;
	assert_int_equal(queue__reserve(q, false), 0);
	assert_int_equal(queue__reserve(q, false), 0);
	assert_int_equal(queue__reserve(q, false), -EAGAIN);
	queue__cancel(q);
	assert_int_equal(queue__reserve(q, false), 0);
	queue__push(q, q);
	queue__push(q, NULL);
	assert_int_equal(queue__reserve(q, false), -EAGAIN);
	assert_int_equal(queue__pop(q, 0, &item), 0);
	assert_ptr_equal(item, q);
	assert_int_equal(queue__reserve(q, false), 0);
	queue__cancel(q);
	queue__free(q);
}

static void queue_pop_ends_at_its_deadline_or_when_hurried(void **state)
{
	struct queue *q = queue__new(2, NULL, NULL);
	struct timespec now;
	void *item;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_int_equal(queue__pop(q, now.tv_sec * 1000000000ull + now.tv_nsec + 1000000, &item),
			 -ETIMEDOUT);
	queue__hurry(q);
	assert_int_equal(queue__pop(q, UINT64_MAX / 2, &item), -EAGAIN);
	/* An item in it comes first, and what follows ends the hurry. */
	queue__reserve(q, true);
	queue__push(q, q);
	queue__hurry(q);
	assert_int_equal(queue__pop(q, UINT64_MAX / 2, &item), 0);
	queue__reserve(q, true);
	queue__push(q, q);
	assert_int_equal(queue__pop(q, 0, &item), 0);
	assert_int_equal(queue__pop(q, 1, &item), -ETIMEDOUT);
	queue__free(q);
}

static void *push_later(void *arg)
{
	queue__push(arg, arg);
	return NULL;
}

static void queue_gives_out_what_was_reserved_before_it_closed(void **state)
{
	struct queue *q = queue__new(2, NULL, NULL);
	pthread_t thread;
	void *item = NULL;

	(void)state;
	assert_int_equal(queue__reserve(q, true), 0);
	queue__close(q);
	assert_int_equal(queue__reserve(q, true), -ESHUTDOWN);
	assert_int_equal(queue__reserve(q, false), -ESHUTDOWN);
	assert_int_equal(pthread_create(&thread, NULL, push_later, q), 0);
	assert_int_equal(queue__pop(q, 0, &item), 0);
	assert_ptr_equal(item, q);
	assert_int_equal(queue__pop(q, 0, &item), -ESHUTDOWN);
	pthread_join(thread, NULL);
	queue__free(q);
}

/* ---- arena --------------------------------------------------------------------------------------- */

static void arena_gives_a_freed_block_to_the_next_of_its_size(void **state)
{
	struct tally *t = tally__new();
	struct arena *a = arena__new(POOL_ACTIVATIONS, t);
	void *first = arena__alloc(a, 1000);
	void *other;

	(void)state;
	assert_non_null(first);
	arena__dealloc(a, first);
	assert_ptr_equal(arena__alloc(a, 990), first);
	other = arena__alloc(a, 990);
	assert_ptr_not_equal(other, first);
	assert_int_equal(t->pools[POOL_ACTIVATIONS].reserves, 1);
	arena__dealloc(a, first);
	arena__dealloc(a, other);
	arena__free(a);
	tally__free(t);
}

static void arena_trim_keeps_chunks_that_are_in_use(void **state)
{
	struct tally *t = tally__new();
	struct arena *a = arena__new(POOL_REQUESTS, t);
	struct pool_tally *p = &t->pools[POOL_REQUESTS];
	char *small = arena__alloc(a, 64);
	void *big = arena__alloc(a, 8u << 20);

	(void)state;
	memset(small, 7, 64);
	assert_int_equal(arena__trim(a), 0);
	arena__dealloc(a, big);
	assert_in_range(arena__trim(a), 8u << 20, 11u << 20);
	assert_int_equal(arena__trim(a), 0);
	assert_int_equal(small[63], 7);
	big = arena__alloc(a, 8u << 20);
	assert_non_null(big);
	memset(big, 1, 8u << 20);
	arena__dealloc(a, big);
	arena__dealloc(a, small);
	arena__free(a);
	assert_int_equal(p->reserves, p->releases);
	assert_int_equal(p->reserve_bytes, p->release_bytes);
	assert_int_equal(p->in_use, 0);
	assert_int_equal(p->peak, (8u << 20) + 64);
	tally__free(t);
}

static void arena_blocks_are_aligned_and_never_overlap(void **state)
{
	struct tally *t = tally__new();
	struct arena *a = arena__new(POOL_WEIGHTS, t);
	struct {
		unsigned char *p;
		size_t bytes;
	} live[64] = { 0 };
	uint32_t random = 2463534242u;

	(void)state;
	for (unsigned round = 0; round < 4000; round++) {
		unsigned i = random_next(&random) % 64;
		size_t bytes = random_next(&random) % (1u << random_next(&random) % 17);

		for (size_t k = 0; live[i].p && k < live[i].bytes; k++)
			assert_int_equal(live[i].p[k], i);
		arena__dealloc(a, live[i].p);
		if (round % 100 == 99)
			arena__trim(a);
		live[i].p = arena__alloc(a, bytes);
		live[i].bytes = bytes;
		assert_non_null(live[i].p);
		assert_int_equal((uintptr_t)live[i].p % 64, 0);
		memset(live[i].p, i, bytes);
	}
	for (unsigned i = 0; i < 64; i++)
		arena__dealloc(a, live[i].p);
	arena__free(a);
	assert_int_equal(t->pools[POOL_WEIGHTS].allocs, 4000);
	assert_int_equal(t->pools[POOL_WEIGHTS].frees, 4000);
	assert_int_equal(t->pools[POOL_WEIGHTS].in_use, 0);
	tally__free(t);
}

static void arena_refuses_what_is_too_large(void **state)
{
	struct tally *t = tally__new();
	struct arena *a = arena__new(POOL_WEIGHTS, t);

	(void)state;
	assert_null(arena__alloc(a, SIZE_MAX));
	assert_null(arena__alloc(a, 1ull << 40));
	assert_int_equal(t->pools[POOL_WEIGHTS].allocs, 0);
	arena__dealloc(a, NULL);
	arena__free(a);
	tally__free(t);
}

/* ---- gemm ---------------------------------------------------------------------------------------- */

static float *random_matrix(size_t n, uint32_t *random)
{
	float *m = malloc(n * sizeof(*m));

	assert_non_null(m);
	for (size_t i = 0; i < n; i++)
		m[i] = (int32_t)random_next(random) * 0x1p-31f;
	return m;
}

static float *multiply(size_t m, size_t n, size_t k, const float *a, const float *b)
{
	float *packed = malloc(gemm__packed_size(m, k) * sizeof(float));
	float *scratch = malloc(gemm__scratch_size(n, k) * sizeof(float));
	float *c = malloc(m * n * sizeof(float));

	gemm__pack(m, k, a, packed);
	gemm(m, n, k, packed, b, c, scratch);
	free(packed);
	free(scratch);
	return c;
}

/* In the order that the header promises: ascending, by blocks of GEMM_BLOCK_K. */
static float plain(size_t n, size_t k, const float *a, const float *b)
{
	float sum = 0;

	for (size_t k0 = 0; k0 < k; k0 += GEMM_BLOCK_K) {
		float block = 0;

		for (size_t p = k0; p < k && p < k0 + GEMM_BLOCK_K; p++)
			block += a[p] * b[p * n];
		sum = k0 ? sum + block : block;
	}
	return sum;
}

static void gemm_equals_three_plain_loops(void **state)
{
	static const size_t shapes[][3] = {
		{ 1, 1, 1 },   { 4, 8, 3 },     { 5, 9, 7 },     { 8, 512, 9 },    { 16, 130, 72 },
		{ 10, 3, 64 }, { 3, 129, 256 }, { 7, 127, 257 }, { 33, 257, 300 },
	};
	uint32_t random = 88172645u;

	(void)state;
	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		size_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
		float *a = random_matrix(m * k, &random);
		float *b = random_matrix(k * n, &random);
		float *c = multiply(m, n, k, a, b);

		for (size_t i = 0; i < m; i++)
			for (size_t j = 0; j < n; j++) {
				float want = plain(n, k, a + i * k, b + j);

				/* Where the compiler fuses, the last bits may differ. */
				assert_true(c[i * n + j] - want < 1e-4f &&
					    want - c[i * n + j] < 1e-4f);
			}
		free(a);
		free(b);
		free(c);
	}
}

static void gemm_computes_a_column_alike_in_any_company(void **state)
{
	const size_t m = 13, n = 141, k = 290;
	uint32_t random = 1u;
	float *a = random_matrix(m * k, &random);
	float *b = random_matrix(k * n, &random);
	float *all = multiply(m, n, k, a, b);
	float *column = malloc(k * sizeof(float));

	(void)state;
	for (size_t j = 0; j < n; j++) {
		float *alone;

		for (size_t p = 0; p < k; p++)
			column[p] = b[p * n + j];
		alone = multiply(m, 1, k, a, column);
		for (size_t i = 0; i < m; i++)
			assert_memory_equal(&alone[i], &all[i * n + j], sizeof(float));
		free(alone);
	}
	free(column);
	free(all);
	free(a);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue_gives_each_item_to_one_thread_in_order),
		cmocka_unit_test(queue_refuses_when_full_counting_reservations),
		cmocka_unit_test(queue_pop_ends_at_its_deadline_or_when_hurried),
		cmocka_unit_test(queue_gives_out_what_was_reserved_before_it_closed),
		cmocka_unit_test(arena_gives_a_freed_block_to_the_next_of_its_size),
		cmocka_unit_test(arena_trim_keeps_chunks_that_are_in_use),
		cmocka_unit_test(arena_blocks_are_aligned_and_never_overlap),
		cmocka_unit_test(arena_refuses_what_is_too_large),
		cmocka_unit_test(gemm_equals_three_plain_loops),
		cmocka_unit_test(gemm_computes_a_column_alike_in_any_company),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
