/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the example runtime marks, read back from its thread buffers in this very process and
 * compared with what it counted. No recorder takes part: the run is so short that nothing in a
 * buffer has been overwritten yet.
 */
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

#define REQUESTS 10
#define BATCH 4

/* A record with its parts found. */
struct seen {
	const struct clika_rec *rec;
	const struct clika_buffer *buffer;
	const char *name, *category;
	uint64_t words[3];
	const struct clika_rec_arg *args;
};

static struct tally *counted;
static struct seen all[4096];
static size_t n_all;

static const char *literal(int32_t displacement)
{
	return displacement ? (const char *)&clika_object_v1 + displacement : "";
}

static void read_record(const struct clika_buffer *b, const struct clika_rec *rec)
{
	static const uint8_t fixed[] = {
		[CLIKA_REC_SPAN] = 1,
		[CLIKA_REC_BEGIN] = 1,
		[CLIKA_REC_END] = 1,
		[CLIKA_REC_COUNTER_I64] = 1,
		[CLIKA_REC_COUNTER_F64] = 1,
		[CLIKA_REC_ASYNC_BEGIN] = 1,
		[CLIKA_REC_ASYNC_END] = 1,
		[CLIKA_REC_FLOW_OUT] = 1,
		[CLIKA_REC_FLOW_STEP] = 1,
		[CLIKA_REC_FLOW_IN] = 1,
		[CLIKA_REC_REQUEST_BEGIN] = 1,
		[CLIKA_REC_REQUEST_FIRST] = 1,
		[CLIKA_REC_REQUEST_OUTPUT] = 2,
		[CLIKA_REC_REQUEST_END] = 1,
		[CLIKA_REC_ALLOC] = 3,
		[CLIKA_REC_FREE] = 2,
		[CLIKA_REC_RESERVE] = 3,
		[CLIKA_REC_RELEASE] = 2,
		[CLIKA_REC_QUEUE_NAME] = 1,
		[CLIKA_REC_DEVICE_NAME] = 1,
		[CLIKA_REC_CAPTURE_END] = 0,
	};
	struct seen *s = &all[n_all++];
	const char *at = (const char *)(rec + 1);

	assert_in_range(n_all, 1, sizeof(all) / sizeof(all[0]));
	assert_in_range(rec->kind, 1, CLIKA_REC_CAPTURE_END);
	s->rec = rec;
	s->buffer = b;
	memcpy(s->words, at, fixed[rec->kind] * 8);
	at += fixed[rec->kind] * 8;
	s->name = literal(rec->name);
	s->category = s->name + strlen(s->name) + (rec->name != 0);
	if (rec->flags & CLIKA_RECF_INLINE) {
		uint16_t n;

		memcpy(&n, at, 2);
		s->name = strndup(at + 2, n);
		at += (2 + n + 7) / 8 * 8;
	}
	s->args = (const struct clika_rec_arg *)at;
}

static void read_buffers(void)
{
	const struct clika_buffer *b = (const struct clika_buffer *)clika_object_v1.buffers;

	for (; b; b = (const struct clika_buffer *)b->next) {
		const char *data = (const char *)b + b->data_offset;

		assert_in_range(b->head, 0, CLIKA_DATA_BYTES);
		assert_int_equal(b->dropped, 0);
		assert_int_equal(b->depth, 0);
		for (uint64_t at = 0; at < b->head;) {
			const struct clika_rec *rec = (const struct clika_rec *)(data + at);

			assert_in_range(rec->size, 8, CLIKA_MAX_RECORD);
			if (rec->kind != CLIKA_REC_PAD)
				read_record(b, rec);
			at += rec->size;
		}
	}
}

static int run_marked(void **state)
{
	struct digits_options o;
	struct digits_engine *e;
	struct digits_summary s;

	(void)state;
	clika_semaphore_v1 = 1;
	digits_options__init(&o);
	o.workers = 1;
	o.batch = BATCH;
	o.batch_wait_us = 10000000;
	o.queue = 4;
	o.views = 2;
	o.capture_from = 3;
	o.capture_to = 7;
	o.label = "under test";
	if (digits_engine__create(&o, &e) || digits_engine__run(e, REQUESTS, 1, &s))
		return -1;
	digits_engine__stop(e);
	clika_semaphore_v1 = 0;
	/* The tally goes with the engine; this copy stays for the tests. */
	counted = tally__new();
	memcpy(counted, e->tally, sizeof(*counted));
	digits_engine__destroy(e);
	read_buffers();
	return 0;
}

static int forget(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_all; i++)
		if (all[i].rec->flags & CLIKA_RECF_INLINE)
			free((char *)all[i].name);
	tally__free(counted);
	return 0;
}

static size_t count(unsigned kind, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < n_all; i++)
		n += all[i].rec->kind == kind && (!name || !strcmp(all[i].name, name));
	return n;
}

/* Of what goes by a request's id; "collect" borrows that of the first in its batch. */
static size_t count_id(unsigned kind, uint64_t id)
{
	size_t n = 0;

	for (size_t i = 0; i < n_all; i++)
		n += all[i].rec->kind == kind && all[i].words[0] == id &&
		     strcmp(all[i].name, "collect") != 0;
	return n;
}

static const struct clika_rec_arg *arg(const struct seen *s, const char *key)
{
	const char *at = (const char *)s->args;

	for (unsigned i = 0; i < (s->rec->flags & CLIKA_RECF_NARGS); i++) {
		const struct clika_rec_arg *a = (const struct clika_rec_arg *)at;

		if (!strcmp(literal(a->key), key))
			return a;
		at += sizeof(*a) + (a->len + 7) / 8 * 8;
	}
	return NULL;
}

static uint64_t arg_u64(const struct seen *s, const char *key)
{
	const struct clika_rec_arg *a = arg(s, key);

	assert_non_null(a);
	return *(const uint64_t *)(a + 1);
}

static uint64_t sum_of(unsigned kind, const char *name, const char *key)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n_all; i++)
		if (all[i].rec->kind == kind && !strcmp(all[i].name, name))
			sum += arg_u64(&all[i], key);
	return sum;
}

static void every_span_is_marked_as_often_as_it_was_counted(void **state)
{
	size_t sum = 0;

	(void)state;
	for (int i = 0; i < N_SPANS; i++) {
		/* One that ended before anybody had to hear of it, or one that was announced. */
		size_t n = count(CLIKA_REC_SPAN, span_names[i]) +
			   count(CLIKA_REC_BEGIN, span_names[i]);

		if (n != counted->spans[i])
			print_error("%s\n", span_names[i]);
		assert_int_equal(n, counted->spans[i]);
		sum += n;
	}
	assert_int_equal(count(CLIKA_REC_SPAN, NULL) + count(CLIKA_REC_BEGIN, NULL), sum);
	assert_int_equal(count(CLIKA_REC_BEGIN, NULL), count(CLIKA_REC_END, NULL));
	assert_int_equal(counted->spans[SPAN_BATCH], (REQUESTS + BATCH - 1) / BATCH);
}

static void instants_and_counters_are_marked_as_counted(void **state)
{
	(void)state;
	for (int i = 0; i < N_INSTANTS; i++)
		assert_int_equal(count(CLIKA_REC_INSTANT, instant_names[i]), counted->instants[i]);
	for (int i = 0; i < N_COUNTERS; i++)
		assert_int_equal(count(CLIKA_REC_COUNTER_I64, counter_names[i]) +
					 count(CLIKA_REC_COUNTER_F64, counter_names[i]),
				 counted->counters[i]);
	assert_int_equal(counted->instants[INSTANT_FULL] + counted->instants[INSTANT_DRAINED],
			 counted->spans[SPAN_BATCH]);
}

static void async_spans_are_marked_as_counted(void **state)
{
	(void)state;
	for (int i = 0; i < N_ASYNCS; i++) {
		assert_int_not_equal(counted->async_begins[i], 0);
		assert_int_equal(count(CLIKA_REC_ASYNC_BEGIN, async_names[i]),
				 counted->async_begins[i]);
		assert_int_equal(count(CLIKA_REC_ASYNC_END, async_names[i]),
				 counted->async_ends[i]);
	}
}

static void each_request_goes_its_way_once(void **state)
{
	static const unsigned kinds[] = {
		CLIKA_REC_REQUEST_BEGIN, CLIKA_REC_REQUEST_FIRST, CLIKA_REC_REQUEST_OUTPUT,
		CLIKA_REC_REQUEST_END,   CLIKA_REC_ASYNC_BEGIN,   CLIKA_REC_ASYNC_END,
		CLIKA_REC_FLOW_OUT,      CLIKA_REC_FLOW_STEP,     CLIKA_REC_FLOW_IN,
	};
	uint64_t first = UINT64_MAX;

	(void)state;
	for (size_t i = 0; i < n_all; i++)
		if (all[i].rec->kind == CLIKA_REC_REQUEST_BEGIN && all[i].words[0] < first)
			first = all[i].words[0];
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		assert_int_equal(count(kinds[k], NULL) - count(kinds[k], "collect"), REQUESTS);
		for (uint64_t id = first; id < first + REQUESTS; id++)
			assert_int_equal(count_id(kinds[k], id), 1);
	}
	for (size_t i = 0; i < n_all; i++)
		if (all[i].rec->kind == CLIKA_REC_REQUEST_OUTPUT)
			assert_int_equal(all[i].words[1], 1);
}

static uint64_t time_of(unsigned kind, uint64_t id)
{
	for (size_t i = 0; i < n_all; i++)
		if (all[i].rec->kind == kind && all[i].words[0] == id &&
		    strcmp(all[i].name, "collect") != 0)
			return all[i].rec->ts;
	fail();
	return 0;
}

static void steps_of_a_request_follow_one_another(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_all; i++) {
		uint64_t id = all[i].words[0];

		if (all[i].rec->kind != CLIKA_REC_REQUEST_BEGIN)
			continue;
		assert_true(all[i].rec->ts <= time_of(CLIKA_REC_ASYNC_BEGIN, id));
		assert_true(time_of(CLIKA_REC_ASYNC_BEGIN, id) <= time_of(CLIKA_REC_FLOW_OUT, id));
		assert_true(time_of(CLIKA_REC_FLOW_OUT, id) <= time_of(CLIKA_REC_FLOW_STEP, id));
		assert_true(time_of(CLIKA_REC_FLOW_STEP, id) <= time_of(CLIKA_REC_FLOW_IN, id));
		assert_true(time_of(CLIKA_REC_ASYNC_END, id) <=
			    time_of(CLIKA_REC_REQUEST_FIRST, id));
		assert_true(time_of(CLIKA_REC_REQUEST_FIRST, id) <=
			    time_of(CLIKA_REC_REQUEST_END, id));
	}
}

static void check_pool(enum pool pool, unsigned take, unsigned give, uint64_t taken,
		       uint64_t taken_bytes, uint64_t given)
{
	uint64_t n_take = 0, n_give = 0, bytes = 0;
	static uint64_t addresses[4096];

	for (size_t i = 0; i < n_all; i++) {
		if (all[i].rec->kind != take ||
		    strcmp(literal((int32_t)(all[i].words[2] >> 32)), pool_names[pool]))
			continue;
		assert_int_equal((uint32_t)all[i].words[2], HOST);
		addresses[n_take++] = all[i].words[0];
		bytes += all[i].words[1];
	}
	/* Chunks of different pools never share an address while the engine lives. */
	for (size_t i = 0; i < n_all; i++)
		for (uint64_t k = 0; all[i].rec->kind == give && k < n_take; k++)
			if (addresses[k] == all[i].words[0]) {
				n_give++;
				break;
			}
	assert_int_equal(n_take, taken);
	assert_int_equal(bytes, taken_bytes);
	assert_int_equal(n_give, given);
}

static void memory_is_marked_to_the_byte(void **state)
{
	(void)state;
	for (int i = 0; i < N_POOLS; i++) {
		const struct pool_tally *p = &counted->pools[i];

		assert_int_not_equal(p->allocs, 0);
		check_pool(i, CLIKA_REC_ALLOC, CLIKA_REC_FREE, p->allocs, p->alloc_bytes, p->frees);
		check_pool(i, CLIKA_REC_RESERVE, CLIKA_REC_RELEASE, p->reserves, p->reserve_bytes,
			   p->releases);
	}
}

static void layers_tell_shapes_and_work(void **state)
{
	const struct clika_rec_arg *shape;
	unsigned conv1 = 0;

	(void)state;
	assert_int_equal(sum_of(CLIKA_REC_BEGIN, "gemm", "flops"), counted->counts[COUNT_FLOPS]);
	assert_int_equal(sum_of(CLIKA_REC_BEGIN, "conv2d", "flops") +
				 sum_of(CLIKA_REC_BEGIN, "dense", "flops"),
			 counted->counts[COUNT_FLOPS]);
	assert_int_equal(sum_of(CLIKA_REC_BEGIN, "batch", "size"), REQUESTS);
	assert_int_equal(sum_of(CLIKA_REC_BEGIN, "dispatch", "size"), REQUESTS);
	assert_int_equal(sum_of(CLIKA_REC_ASYNC_END, "collect", "size"), REQUESTS);
	for (size_t i = 0; i < n_all; i++) {
		const struct clika_rec_arg *layer;

		if (all[i].rec->kind != CLIKA_REC_BEGIN || strcmp(all[i].name, "conv2d"))
			continue;
		assert_string_equal(all[i].category, "layer");
		layer = arg(&all[i], "layer");
		assert_non_null(layer);
		if (memcmp(layer + 1, "conv1", layer->len))
			continue;
		shape = arg(&all[i], "shape");
		assert_int_equal(shape->type, CLIKA_ARG_STR);
		/* Four requests in two views each, but two requests in the last batch. */
		assert_true(!memcmp(shape + 1, "8x1x8x8", shape->len) ||
			    !memcmp(shape + 1, "4x1x8x8", shape->len));
		conv1++;
	}
	assert_int_equal(conv1, counted->spans[SPAN_BATCH]);
}

static bool any_buffer_is_named(const char *name)
{
	const struct clika_buffer *b = (const struct clika_buffer *)clika_object_v1.buffers;

	for (; b; b = (const struct clika_buffer *)b->next)
		if (!strcmp(b->thread_name, name))
			return true;
	return false;
}

static void names_stay_for_those_who_look_later(void **state)
{
	(void)state;
	assert_string_equal(clika_object_v1.label, "under test");
	assert_int_equal(clika_object_v1.n_names, 1);
	assert_string_equal(clika_object_v1.names[0].name, "host memory");
	assert_true(any_buffer_is_named("batcher"));
	assert_true(any_buffer_is_named("worker 0"));
	assert_int_equal(count(CLIKA_REC_THREAD_NAME, NULL), counted->counts[COUNT_THREAD_NAMES]);
	assert_int_equal(count(CLIKA_REC_PROCESS_LABEL, NULL), 1);
}

static void capture_opens_and_closes_around_its_requests(void **state)
{
	uint64_t begin = 0, end = 0, inside = 0;

	(void)state;
	assert_int_equal(count(CLIKA_REC_CAPTURE_BEGIN, "window"), 1);
	assert_int_equal(count(CLIKA_REC_CAPTURE_END, "window"), 1);
	for (size_t i = 0; i < n_all; i++) {
		if (all[i].rec->kind == CLIKA_REC_CAPTURE_BEGIN)
			begin = all[i].rec->ts;
		if (all[i].rec->kind == CLIKA_REC_CAPTURE_END)
			end = all[i].rec->ts;
	}
	for (size_t i = 0; i < n_all; i++)
		if (all[i].rec->kind == CLIKA_REC_REQUEST_BEGIN && all[i].rec->ts >= begin &&
		    all[i].rec->ts <= end) {
			assert_in_range(arg_u64(&all[i], "tag"), 3, 6);
			inside++;
		}
	assert_int_equal(inside, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_span_is_marked_as_often_as_it_was_counted),
		cmocka_unit_test(instants_and_counters_are_marked_as_counted),
		cmocka_unit_test(async_spans_are_marked_as_counted),
		cmocka_unit_test(each_request_goes_its_way_once),
		cmocka_unit_test(steps_of_a_request_follow_one_another),
		cmocka_unit_test(memory_is_marked_to_the_byte),
		cmocka_unit_test(layers_tell_shapes_and_work),
		cmocka_unit_test(names_stay_for_those_who_look_later),
		cmocka_unit_test(capture_opens_and_closes_around_its_requests),
	};

	return cmocka_run_group_tests(tests, run_marked, forget);
}
