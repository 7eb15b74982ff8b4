// SPDX-License-Identifier: Apache-2.0
/* From ring records to the recording: what is taken, what is taken once, what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CLIKA_ABI_ONLY
#include <clika/markers.h>

#include "tests/common/decode_bench.h"
#include "user/recording/reader.h"

#define T0 1000000ull

struct batch {
	struct wire_batch b;
	uint8_t data[CLIKA_HALF_BYTES];
	size_t len;
	uint32_t records;
};

static void batch__start(struct batch *b, uint64_t from)
{
	memset(b, 0, sizeof(*b));
	b->b.hdr.kind = W_BATCH;
	b->b.hdr.ts = T0 + 900000;
	b->b.task = (struct wire_task){
		.tgid = 0x3ffffff0, .tid = 0x3ffffff1, .start = 5, .tstart = 6
	};
	b->b.buffer = 0x1000;
	b->b.born = 1;
	b->b.from = from;
	strcpy(b->b.comm, "worker");
}

/* A record with an inline name; @fixed words follow the header. */
static void put(struct batch *b, uint8_t kind, const char *name, uint64_t ts, const uint64_t *fixed,
		size_t words)
{
	uint16_t len = name ? strlen(name) : 0;
	size_t size = 16 + words * 8 + (name ? (2 + len + 7u) / 8 * 8 : 0);
	struct clika_rec r = {
		.size = size, .kind = kind, .flags = name ? CLIKA_RECF_INLINE : 0, .ts = ts
	};
	uint8_t *p = b->data + b->len;

	memset(p, 0, size);
	memcpy(p, &r, 16);
	if (words)
		memcpy(p + 16, fixed, words * 8);
	if (name) {
		memcpy(p + 16 + words * 8, &len, 2);
		memcpy(p + 18 + words * 8, name, len);
	}
	b->len += size;
	b->records++;
}

static void put_span(struct batch *b, const char *name, uint64_t start, uint64_t end)
{
	put(b, CLIKA_REC_SPAN, name, start, &end, 1);
}

static int feed(struct decode_bench *d, struct batch *b)
{
	static union {
		struct wire_batch b;
		uint8_t bytes[sizeof(struct wire_batch) + CLIKA_HALF_BYTES];
	} rec;

	b->b.len = b->len;
	if (!b->b.records)
		b->b.records = b->records;
	b->b.hdr.size = sizeof(b->b) + b->len;
	memcpy(&rec, &b->b, sizeof(b->b));
	memcpy(rec.bytes + sizeof(b->b), b->data, b->len);
	return decoder__record(d->d, &rec, sizeof(b->b) + b->len, 1);
}

struct seen {
	char name[32];
	uint64_t ts, dur;
	uint16_t flags;
};

static size_t read_back(struct decode_bench *d, struct seen *s, size_t max)
{
	struct recording *r;
	struct block_reader br;
	struct event ev;
	size_t n = 0;

	assert_int_equal(decode_bench__finish(d), 0);
	assert_int_equal(recording__open_fd(d->fd, &r, NULL), 0);
	for (size_t i = 0; i < recording__n_blocks(r); i++) {
		assert_int_equal(block_reader__init(&br, r, i), 0);
		while (block_reader__next(&br, &ev) == 1) {
			assert_true(n < max);
			snprintf(s[n].name, sizeof(s[n].name), "%s",
				 strpool__str(recording__names(r), ev.name));
			s[n].ts = ev.ts;
			s[n].dur = ev.dur;
			s[n++].flags = ev.flags;
		}
	}
	recording__close(r);
	return n;
}

static void puts_spans_in_order_of_their_starts(void **state)
{
	struct decode_bench d;
	struct batch b;
	struct seen s[8];

	(void)state;
	assert_int_equal(decode_bench__open(&d, T0, false), 0);
	batch__start(&b, 0);
	put_span(&b, "child1", T0 + 20, T0 + 30);
	put_span(&b, "child2", T0 + 40, T0 + 50);
	put_span(&b, "parent", T0 + 10, T0 + 60);
	assert_int_equal(feed(&d, &b), 0);
	assert_int_equal(decoder__counts(d.d)->records, 3);
	assert_int_equal(read_back(&d, s, 8), 3);
	assert_string_equal(s[0].name, "parent");
	assert_int_equal(s[0].dur, 50);
	assert_string_equal(s[1].name, "child1");
	decode_bench__close(&d);
}

static void takes_bytes_once_however_often_they_come(void **state)
{
	struct decode_bench d;
	struct batch b, again;
	struct seen s[8];

	(void)state;
	assert_int_equal(decode_bench__open(&d, T0, false), 0);
	batch__start(&b, 0);
	put_span(&b, "a", T0 + 1, T0 + 2);
	put_span(&b, "b", T0 + 3, T0 + 4);
	assert_int_equal(feed(&d, &b), 0);
	assert_int_equal(feed(&d, &b), 0);
	/* Drained by another hook meanwhile: the same bytes and one record more. */
	again = b;
	again.b.records = 0;
	put_span(&again, "c", T0 + 5, T0 + 6);
	again.b.hdr.flags = WF_DRAINED;
	assert_int_equal(feed(&d, &again), 0);
	assert_int_equal(decoder__counts(d.d)->records, 3);
	assert_int_equal(decoder__counts(d.d)->duplicates, 4);
	assert_int_equal(decoder__counts(d.d)->bad, 0);
	assert_int_equal(read_back(&d, s, 8), 3);
	decode_bench__close(&d);
}

static void harvest_and_hand_over_of_the_same_bytes_give_one_event(void **state)
{
	struct wire_task t = { .tgid = 0x3ffffff0, .tid = 0x3ffffff1, .start = 5, .tstart = 6 };
	struct person_thread *th;
	struct thread_buffer *tb;
	struct decode_bench d;
	struct batch b;
	struct seen s[8];

	(void)state;
	assert_int_equal(decode_bench__open(&d, T0, false), 0);
	batch__start(&b, 0);
	put_span(&b, "a", T0 + 1, T0 + 2);
	th = people__thread(d.people, &t, "worker");
	assert_non_null(th);
	tb = people__buffer(d.people, th, 0x1000, 1);
	assert_non_null(tb);
	tb->file = 0;
	assert_int_equal(decoder__harvest(d.d, th, tb, 0, b.data, b.len), 0);
	put_span(&b, "b", T0 + 3, T0 + 4);
	assert_int_equal(feed(&d, &b), 0);
	assert_int_equal(decoder__counts(d.d)->records, 2);
	assert_int_equal(decoder__counts(d.d)->harvested, 1);
	assert_int_equal(decoder__counts(d.d)->duplicates, 1);
	assert_int_equal(read_back(&d, s, 8), 2);
	decode_bench__close(&d);
}

static void counts_what_a_batch_promised_and_did_not_hold(void **state)
{
	struct decode_bench d;
	struct batch b;

	(void)state;
	assert_int_equal(decode_bench__open(&d, T0, false), 0);
	batch__start(&b, 0);
	put_span(&b, "a", T0 + 1, T0 + 2);
	put_span(&b, "b", T0 + 3, T0 + 4);
	put_span(&b, "c", T0 + 5, T0 + 6);
	b.data[b.len / 3] = 3; /* a size that is no multiple of 8 */
	assert_int_equal(feed(&d, &b), 0);
	assert_int_equal(decoder__counts(d.d)->records, 1);
	assert_int_equal(decoder__counts(d.d)->bad, 2);
	decode_bench__finish(&d);
	decode_bench__close(&d);
}

static void leaves_out_what_was_marked_before_the_recording(void **state)
{
	struct decode_bench d;
	struct batch b;
	struct seen s[8];

	(void)state;
	assert_int_equal(decode_bench__open(&d, T0, false), 0);
	batch__start(&b, 0);
	put_span(&b, "stale", T0 - 50, T0 - 40);
	put_span(&b, "across", T0 - 10, T0 + 10);
	put_span(&b, "fresh", T0 + 1, T0 + 2);
	assert_int_equal(feed(&d, &b), 0);
	assert_int_equal(decoder__counts(d.d)->older, 1);
	assert_int_equal(decoder__counts(d.d)->records, 2);
	assert_int_equal(read_back(&d, s, 8), 2);
	assert_string_equal(s[0].name, "across");
	decode_bench__close(&d);
}

static void a_begin_closes_what_was_left_at_its_depth(void **state)
{
	static const uint64_t depth0 = 0, depth1 = 1;
	struct decode_bench d;
	struct batch b;
	struct seen s[8];

	(void)state;
	assert_int_equal(decode_bench__open(&d, T0, false), 0);
	batch__start(&b, 0);
	put(&b, CLIKA_REC_BEGIN, "outer", T0 + 1, &depth0, 1);
	put(&b, CLIKA_REC_BEGIN, "left", T0 + 2, &depth1, 1);
	put(&b, CLIKA_REC_BEGIN, "next", T0 + 3, &depth1, 1);
	put(&b, CLIKA_REC_END, NULL, T0 + 4, &depth1, 1);
	put(&b, CLIKA_REC_END, NULL, T0 + 5, &depth0, 1);
	assert_int_equal(feed(&d, &b), 0);
	assert_int_equal(read_back(&d, s, 8), 3);
	assert_int_equal(s[0].flags, 0);
	assert_int_equal(s[1].flags, EVS_UNFINISHED);
	assert_int_equal(s[1].dur, 1);
	assert_int_equal(s[2].flags, 0);
	decode_bench__close(&d);
}

static void threads_are_named_by_their_runtime_first(void **state)
{
	struct decode_bench d;
	struct batch b;
	struct recording *r;

	(void)state;
	assert_int_equal(decode_bench__open(&d, T0, false), 0);
	batch__start(&b, 0);
	put(&b, CLIKA_REC_THREAD_NAME, "matmul worker number 17", T0 + 1, NULL, 0);
	assert_int_equal(feed(&d, &b), 0);
	batch__start(&b, 64);
	put_span(&b, "a", T0 + 2, T0 + 3);
	assert_int_equal(feed(&d, &b), 0);
	assert_int_equal(decode_bench__finish(&d), 0);
	assert_int_equal(recording__open_fd(d.fd, &r, NULL), 0);
	assert_int_equal(recording__n_threads(r), 1);
	assert_string_equal(recording__thread(r, 0)->name, "matmul worker number 17");
	recording__close(r);
	decode_bench__close(&d);
}

static void redaction_leaves_no_text_of_an_argument(void **state)
{
	struct decode_bench d;
	struct batch b;
	uint8_t *p;
	struct clika_rec r = { .size = 16 + 8 + 8 + 16,
			       .kind = CLIKA_REC_INSTANT,
			       .flags = CLIKA_RECF_INLINE | 1,
			       .ts = T0 + 1 };
	struct clika_rec_arg a = { .type = CLIKA_ARG_STR, .len = 11 };
	uint16_t len = 1;
	char file[8192];
	ssize_t n;

	(void)state;
	assert_int_equal(decode_bench__open(&d, T0, true), 0);
	batch__start(&b, 0);
	p = b.data;
	memcpy(p, &r, 16);
	memcpy(p + 16, &len, 2);
	p[18] = 'x';
	memcpy(p + 24, &a, 8);
	memcpy(p + 32, "tell nobody", 11);
	b.len = r.size;
	b.records = 1;
	assert_int_equal(feed(&d, &b), 0);
	assert_int_equal(decoder__counts(d.d)->records, 1);
	assert_int_equal(decode_bench__finish(&d), 0);
	n = pread(d.fd, file, sizeof(file), 0);
	assert_true(n > 0);
	assert_null(memmem(file, n, "nobody", 6));
	decode_bench__close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(puts_spans_in_order_of_their_starts),
		cmocka_unit_test(takes_bytes_once_however_often_they_come),
		cmocka_unit_test(harvest_and_hand_over_of_the_same_bytes_give_one_event),
		cmocka_unit_test(counts_what_a_batch_promised_and_did_not_hold),
		cmocka_unit_test(leaves_out_what_was_marked_before_the_recording),
		cmocka_unit_test(a_begin_closes_what_was_left_at_its_depth),
		cmocka_unit_test(threads_are_named_by_their_runtime_first),
		cmocka_unit_test(redaction_leaves_no_text_of_an_argument),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
