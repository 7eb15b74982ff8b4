// SPDX-License-Identifier: Apache-2.0
/*
 * The bytes of the file: the example of docs/recording-format.md, and files as a later version
 * might write them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "tests/common/recording_reseal.h"
#include "tests/common/recording_samples.h"
#include "user/recording/format.h"

/* As printed in the documentation. */
static const uint8_t example[] = {
	0x89, 0x43, 0x4c, 0x49, 0x4b, 0x41, 0x0d, 0x0a, 0x01, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00,
	0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0c,
	0x42, 0xe7, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x93, 0x63, 0x6c, 0x6b, 0x73, 0x65, 0x67, 0x0a, 0x01, 0x23, 0x45,
	0x67, 0x89, 0xab, 0xcd, 0xef, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00,
	0x00, 0x00, 0x0f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f,
	0x19, 0x45, 0xad, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x41, 0x3d, 0xb2, 0xcd, 0x04, 0x0d, 0x02, 0x74, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x93, 0x63, 0x6c, 0x6b, 0x73, 0x65,
	0x67, 0x0a, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x5a, 0x00, 0x00, 0x00, 0x29, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x71, 0x64, 0x08, 0x28, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x27, 0x6b, 0x4e, 0x4b, 0x01, 0x0e,
	0x02, 0x02, 0x6f, 0x70, 0x02, 0x05, 0x61, 0x2e, 0x63, 0x3a, 0x37, 0x02, 0x01, 0x6e, 0x02,
	0x17, 0x00, 0xac, 0x02, 0x01, 0xac, 0x02, 0x00, 0xe8, 0x07, 0x00, 0x88, 0x27, 0x00, 0x00,
	0x04, 0x73, 0x72, 0x76, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x0a, 0x00, 0x00, 0xac, 0x02,
	0xac, 0x02, 0xe8, 0x07, 0x00, 0x00, 0x04, 0x0d, 0x02, 0x74, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x0d, 0x00, 0x00, 0x03, 0xf0, 0x2e, 0x3c, 0x5a,
	0x00, 0x29, 0xd4, 0x8f, 0xee, 0xf8, 0x0b, 0x05, 0x02, 0xa8, 0x5f, 0x00, 0x00, 0x03, 0x08,
	0x01, 0x01, 0x02, 0x01, 0x00, 0x02, 0x00, 0x00, 0x08, 0x01, 0x00, 0x01, 0x01, 0x00, 0x02,
	0x00, 0x00, 0x0a, 0x01, 0x00, 0x01, 0x01, 0x00, 0x02, 0x00, 0x01, 0x03, 0x08, 0x00, 0x00,
	0x02, 0x01, 0x0a, 0x28, 0x02, 0x32, 0x1e, 0xc8, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
};

static const uint8_t example_id[8] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef };

static struct recording *open_bytes(const void *data, size_t len)
{
	struct clika_error err = { 0 };
	struct recording *r = NULL;
	int fd = samples__memfd();

	assert_int_equal(fd__write_all(fd, data, len), 0);
	if (recording__open_fd(fd, &r, &err))
		fail_msg("%s", err.msg);
	close(fd);
	return r;
}

/* --- the example --------------------------------------------------------------------------- */

static void write_example(int fd)
{
	struct recording_meta meta = { .tool = (char *)"t" };
	struct process_info p = { .pid = 300,
				  .ppid = 1,
				  .ns_pid = 300,
				  .start = 1000,
				  .first_seen = 5000,
				  .comm = (char *)"srv" };
	struct thread_info t = { .tid = 300, .ns_tid = 300, .start = 1000 };
	struct event_arg a = { .type = ARG_U64, .u = 200 };
	struct span_end end = { .open_id = 1, .ts = 6100 };
	struct strpool *names = strpool__new(0, 0);
	struct recording_writer *w;
	struct event ev[3];
	uint32_t process, thread, op, src;

	assert_int_equal(writer__create_fd(dup(fd), &meta, names, NULL, &w, NULL), 0);
	assert_int_equal(writer__add_process(w, &p, &process), 0);
	t.process = process;
	assert_int_equal(writer__add_thread(w, &t, &thread), 0);
	op = strpool__ids(names, "op");
	src = strpool__ids(names, "a.c:7");
	a.key = strpool__ids(names, "n");
	ev[0] = (struct event){
		.kind = EV_SPAN, .ts = 6000, .name = op, .src = src, .flags = EVS_OPEN, .id = 1
	};
	ev[1] = (struct event){ .kind = EV_SPAN, .ts = 6010, .dur = 40, .name = op, .src = src };
	ev[2] = (struct event){ .kind = EV_SPAN,
				.ts = 6060,
				.dur = 30,
				.name = op,
				.src = src,
				.nargs = 1,
				.args = &a };
	assert_int_equal(writer__block(w, thread, 0, ev, 3, NULL, 0), 0);
	assert_int_equal(writer__block(w, thread, 0, NULL, 0, &end, 1), 0);
	assert_int_equal(writer__finish(w, NULL), 0);
	strpool__free(names);
}

static void the_writer_writes_the_documented_example(void **state)
{
	uint8_t got[sizeof(example) + 1];
	int fd = samples__memfd();
	size_t i;

	(void)state;
	write_example(fd);
	assert_int_equal(pread(fd, got, sizeof(got), 0), sizeof(example));
	/* all but the random number of the recording */
	memcpy(got + 16, example_id, 8);
	for (i = FMT_FILE_HEADER; i + FMT_SEGMENT_HEADER <= sizeof(example); i += 8)
		if (!memcmp(got + i, FMT_SEGMENT_MAGIC, FMT_MAGIC_BYTES))
			memcpy(got + i + 8, example_id, 8);
	recording__reseal(got, sizeof(example));
	for (i = 0; i < sizeof(example); i++)
		if (got[i] != example[i])
			fail_msg("byte %zu is %02x, not %02x", i, got[i], example[i]);
	close(fd);
}

static void the_reader_reads_the_documented_example(void **state)
{
	struct recording *r = open_bytes(example, sizeof(example));
	const struct strpool *names = recording__names(r);
	const struct span_end *end;
	struct block_reader br;
	struct event ev;

	(void)state;
	assert_int_equal(recording__state(r)->segments, 2);
	assert_int_equal(recording__state(r)->bad_segments, 0);
	assert_int_equal(recording__state(r)->version, FMT_MAJOR << 16 | FMT_MINOR);
	assert_false(recording__state(r)->incomplete);
	assert_string_equal(recording__meta(r)->tool, "t");
	assert_int_equal(recording__n_processes(r), 1);
	assert_string_equal(recording__process(r, 0)->comm, "srv");
	assert_int_equal(recording__thread(r, 0)->tid, 300);
	assert_int_equal(recording__n_blocks(r), 1);
	assert_int_equal(recording__block(r, 0)->last_end, 6090);
	assert_int_equal(block_reader__init(&br, r, 0), 0);
	assert_int_equal(block_reader__next(&br, &ev), 1);
	assert_int_equal(ev.flags, EVS_OPEN);
	end = recording__span_end(r, ev.id);
	assert_non_null(end);
	assert_int_equal(end->ts, 6100);
	assert_int_equal(block_reader__next(&br, &ev), 1);
	assert_int_equal(ev.ts, 6010);
	assert_int_equal(ev.dur, 40);
	assert_string_equal(strpool__str(names, ev.name), "op");
	assert_string_equal(strpool__str(names, ev.src), "a.c:7");
	assert_int_equal(block_reader__next(&br, &ev), 1);
	assert_int_equal(ev.nargs, 1);
	assert_int_equal(ev.args[0].u, 200);
	assert_string_equal(strpool__str(names, ev.args[0].key), "n");
	assert_int_equal(block_reader__next(&br, &ev), 0);
	recording__close(r);
}

/* --- what a later version might write ---------------------------------------------------------- */

struct maker { /* a file made by hand, from the page alone */
	struct buf file, index, data, item;
};

static void maker__item(struct maker *m, unsigned type)
{
	buf__varint(&m->index, type);
	buf__varint(&m->index, m->item.len);
	buf__append(&m->index, m->item.data, m->item.len);
	buf__reset(&m->item);
}

static void put_text(struct buf *b, const char *s)
{
	buf__varint(b, strlen(s) + 1);
	buf__append(b, s, strlen(s));
}

static void put_future(struct buf *b)
{
	buf__append(b, "\xff what a later version added", 29);
}

static void maker__definitions(struct maker *m)
{
	struct buf *b = &m->item;
	unsigned i;

	/* strings: 1 "name", 9 "key" */
	buf__svarint(b, 1);
	buf__varint(b, 4);
	buf__append(b, "name", 4);
	buf__svarint(b, 8);
	buf__varint(b, 3);
	buf__append(b, "key", 3);
	maker__item(m, ITEM_STRINGS);
	/* process 5, pid 77 */
	buf__varint(b, 5);
	buf__varint(b, 77);
	for (i = 0; i < 7; i++)
		buf__varint(b, 0);
	buf__svarint(b, -3);
	put_text(b, "comm");
	for (i = 0; i < 5; i++)
		buf__varint(b, 0);
	put_future(b);
	maker__item(m, ITEM_PROCESS);
	/* thread 8 of process 5 */
	buf__varint(b, 8);
	buf__varint(b, 5);
	for (i = 0; i < 5; i++)
		buf__varint(b, 0);
	put_future(b);
	maker__item(m, ITEM_THREAD);
	put_future(b);
	maker__item(m, 12345); /* an item that is not known */
	buf__append(b, "\x04\x03\x02\x01", 4);
	put_future(b);
	maker__item(m, ITEM_COUNTS);
}

static void maker__shape(struct buf *body, const struct buf *shape)
{
	buf__varint(body, shape->len);
	buf__append(body, shape->data, shape->len);
}

static void put_shape_head(struct buf *b, unsigned kind, unsigned mask, unsigned nargs)
{
	buf__reset(b);
	buf__varint(b, kind);
	buf__varint(b, 0x10000 | EVS_FUNCTION); /* a flag beyond those known */
	buf__varint(b, mask);
	buf__varint(b, 1); /* name */
	buf__varint(b, 0);
	buf__varint(b, 0);
	buf__varint(b, 0);
	buf__varint(b, nargs);
}

/* Three shapes: a span with a field and arguments of later versions, an unknown kind, a span. */
static void maker__body(struct buf *body)
{
	struct buf sh = { 0 };
	unsigned i;

	buf__varint(body, 3);
	put_shape_head(&sh, EV_SPAN, SHAPE_DUR | 0x40, EVENT_MAX_ARGS + 3);
	buf__varint(&sh, 9);
	buf__varint(&sh, 20u << 2 | CLASS_FIXED64);
	buf__varint(&sh, 9);
	buf__varint(&sh, 21u << 2 | CLASS_BYTES);
	for (i = 0; i < EVENT_MAX_ARGS + 1; i++) {
		buf__varint(&sh, 9);
		buf__varint(&sh, ARG_U64 << 2 | CLASS_VARINT);
	}
	put_future(&sh);
	maker__shape(body, &sh);
	put_shape_head(&sh, 200, SHAPE_ID | SHAPE_VALUE | 0x100, 1);
	buf__varint(&sh, 0);
	buf__varint(&sh, ARG_STR << 2 | CLASS_BYTES);
	maker__shape(body, &sh);
	put_shape_head(&sh, EV_SPAN, SHAPE_DUR, 0);
	maker__shape(body, &sh);
	buf__free(&sh);

	buf__varint(body, 0); /* shape 0 at 1000 */
	buf__varint(body, 0);
	buf__varint(body, 7);   /* dur */
	buf__varint(body, 999); /* the field that is not known */
	buf__u64le(body, 1);
	buf__varint(body, 2);
	buf__append(body, "xy", 2);
	for (i = 0; i < EVENT_MAX_ARGS + 1; i++)
		buf__varint(body, 100 + i);
	buf__varint(body, 1); /* the unknown kind, at 1005 */
	buf__varint(body, 5);
	buf__svarint(body, 3);
	buf__varint(body, 4);
	buf__varint(body, 5);
	buf__varint(body, 1);
	buf__append(body, "z", 1);
	buf__varint(body, 2); /* shape 2 at 1006 */
	buf__varint(body, 1);
	buf__varint(body, 8);
}

static void maker__finish(struct maker *m, uint64_t seq, unsigned minor)
{
	struct buf *f = &m->file;
	uint8_t zero[12] = { 0 };

	if (!f->len) {
		buf__append(f, FMT_FILE_MAGIC, FMT_MAGIC_BYTES);
		buf__u16le(f, FMT_MAJOR);
		buf__u16le(f, (uint16_t)minor);
		buf__u32le(f, FMT_FILE_HEADER);
		buf__u64le(f, 42);
		buf__u64le(f, 1);
		buf__u64le(f, 0);
		buf__u32le(f, 0x80); /* a flag that is not known */
		buf__u32le(f, 0);
		buf__append(f, zero, 8);
		buf__append(f, zero, 8);
	}
	buf__append(f, FMT_SEGMENT_MAGIC, FMT_MAGIC_BYTES);
	buf__u64le(f, 42);
	buf__u64le(f, seq);
	buf__u32le(f, FMT_SEGMENT_HEADER);
	buf__u32le(f, (uint32_t)m->index.len);
	buf__u64le(f, m->data.len);
	buf__u32le(f, 0);
	buf__u16le(f, FMT_MAJOR);
	buf__u16le(f, (uint16_t)minor);
	buf__append(f, zero, 12);
	buf__u32le(f, 0);
	buf__append(f, m->index.data, m->index.len);
	buf__append(f, m->data.data, m->data.len);
	while (f->len % FMT_ALIGN)
		buf__u8(f, 0);
	recording__reseal(f->data, f->len);
}

static void maker__free(struct maker *m)
{
	buf__free(&m->file);
	buf__free(&m->index);
	buf__free(&m->data);
	buf__free(&m->item);
}

static void maker__block(struct maker *m, const struct buf *body, uint64_t count, uint64_t off)
{
	buf__varint(&m->item, 8); /* thread */
	buf__varint(&m->item, 0); /* stream */
	buf__varint(&m->item, count);
	buf__varint(&m->item, 1000);
	buf__varint(&m->item, 6);  /* last */
	buf__varint(&m->item, 14); /* end of the last */
	buf__varint(&m->item, off);
	buf__varint(&m->item, body->len);
	buf__u32le(&m->item, (uint32_t)crc32_z(0, body->data, body->len));
	put_future(&m->item);
	maker__item(m, ITEM_BLOCK);
}

static void what_a_later_minor_version_adds_is_passed_over(void **state)
{
	struct maker m = { 0 };
	struct buf body = { 0 };
	struct block_reader br;
	struct recording *r;
	struct event ev;
	unsigned i;

	(void)state;
	maker__definitions(&m);
	maker__body(&body);
	put_future(&m.data); /* data that no known item speaks of */
	maker__block(&m, &body, 3, m.data.len);
	buf__append(&m.data, body.data, body.len);
	maker__finish(&m, 0, 7);
	r = open_bytes(m.file.data, m.file.len);
	assert_int_equal(recording__state(r)->version, FMT_MAJOR << 16 | 7);
	assert_int_equal(recording__state(r)->bad_segments, 0);
	assert_int_equal(recording__state(r)->segments, 1);
	assert_int_equal(recording__n_processes(r), 1);
	assert_int_equal(recording__process(r, 0)->pid, 77);
	assert_int_equal(recording__process(r, 0)->exit_code, -3);
	assert_string_equal(recording__process(r, 0)->comm, "comm");
	assert_int_equal(recording__counts(r)->emitted, 4);
	assert_int_equal(recording__n_blocks(r), 1);
	assert_int_equal(block_reader__init(&br, r, 0), 0);
	assert_int_equal(block_reader__next(&br, &ev), 1);
	assert_int_equal(ev.kind, EV_SPAN);
	assert_int_equal(ev.flags, EVS_FUNCTION);
	assert_int_equal(ev.ts, 1000);
	assert_int_equal(ev.dur, 7);
	assert_int_equal(ev.nargs, EVENT_MAX_ARGS);
	for (i = 0; i < EVENT_MAX_ARGS; i++) {
		assert_int_equal(ev.args[i].u, 100 + i);
		assert_string_equal(strpool__str(recording__names(r), ev.args[i].key), "key");
	}
	assert_int_equal(block_reader__next(&br, &ev), 1);
	assert_int_equal(ev.ts, 1006);
	assert_int_equal(ev.dur, 8);
	assert_string_equal(strpool__str(recording__names(r), ev.name), "name");
	assert_int_equal(block_reader__next(&br, &ev), 0);
	recording__close(r);
	buf__free(&body);
	maker__free(&m);
}

/* Blocks that share bytes could make a small file say a lot: only the first is taken. */
static void bodies_may_not_overlap(void **state)
{
	struct maker m = { 0 };
	struct buf body = { 0 };
	struct recording *r;
	unsigned i;

	(void)state;
	maker__definitions(&m);
	maker__body(&body);
	buf__append(&m.data, body.data, body.len);
	for (i = 0; i < 1000; i++)
		maker__block(&m, &body, 3, 0);
	maker__finish(&m, 0, 0);
	r = open_bytes(m.file.data, m.file.len);
	assert_int_equal(recording__n_blocks(r), 1);
	assert_int_equal(recording__state(r)->bad_segments, 1);
	recording__close(r);
	buf__free(&body);
	maker__free(&m);
}

static void a_count_that_the_body_cannot_hold_is_refused(void **state)
{
	struct maker m = { 0 };
	struct buf body = { 0 };
	struct recording *r;

	(void)state;
	maker__definitions(&m);
	maker__body(&body);
	maker__block(&m, &body, body.len / 2 + 1, 0);
	buf__append(&m.data, body.data, body.len);
	maker__finish(&m, 0, 0);
	r = open_bytes(m.file.data, m.file.len);
	assert_int_equal(recording__n_blocks(r), 0);
	assert_int_equal(recording__state(r)->events, 0);
	recording__close(r);
	buf__free(&body);
	maker__free(&m);
}

static void a_body_that_ends_early_gives_what_it_has_then_an_error(void **state)
{
	struct maker m = { 0 };
	struct buf body = { 0 };
	struct block_reader br;
	struct recording *r;
	struct event ev;
	unsigned n = 0;
	int rc;

	(void)state;
	maker__definitions(&m);
	maker__body(&body);
	maker__block(&m, &body, 10, 0);
	buf__append(&m.data, body.data, body.len);
	maker__finish(&m, 0, 0);
	r = open_bytes(m.file.data, m.file.len);
	assert_int_equal(block_reader__init(&br, r, 0), 0);
	while ((rc = block_reader__next(&br, &ev)) == 1)
		n++;
	assert_int_equal(rc, -EBADMSG);
	assert_int_equal(n, 2);
	assert_int_equal(block_reader__next(&br, &ev), 0);
	recording__close(r);
	buf__free(&body);
	maker__free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_writer_writes_the_documented_example),
		cmocka_unit_test(the_reader_reads_the_documented_example),
		cmocka_unit_test(what_a_later_minor_version_adds_is_passed_over),
		cmocka_unit_test(bodies_may_not_overlap),
		cmocka_unit_test(a_count_that_the_body_cannot_hold_is_refused),
		cmocka_unit_test(a_body_that_ends_early_gives_what_it_has_then_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
