// SPDX-License-Identifier: Apache-2.0
/* Files that were cut, damaged, changed while being read, or made to do harm. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/recording_reseal.h"
#include "tests/common/recording_samples.h"
#include "user/recording/format.h"

#define SEGMENTS 5 /* with events; the first segment holds none */
#define EVENTS_EACH 12

/* A small file whose segments' ends are known; one stream, and each event says its number. */
struct small_file {
	struct samples *s;
	uint8_t *data;
	size_t len;
	size_t ends[SEGMENTS + 1];
};

static void small_file__write_segment(struct small_file *f, struct recording_writer *w, unsigned i)
{
	struct event ev[EVENTS_EACH];
	struct event_arg args[3];
	struct span_end end = { .open_id = i + 1, .ts = 1000 * (i + 1) };
	unsigned k;

	for (k = 0; k < EVENTS_EACH; k++) {
		uint64_t n = i * EVENTS_EACH + k;

		args[0] = (struct event_arg){ .key = 1, .type = ARG_U64, .u = n };
		args[1] = (struct event_arg){ .key = 2, .type = ARG_STR, .str = "text", .len = 4 };
		args[2] = (struct event_arg){ .key = 3, .type = ARG_F64, .f = 1.5 };
		ev[k] = (struct event){ .kind = k % 3 ? EV_SPAN : EV_ALLOC,
					.ts = n * 10,
					.dur = 5,
					.id = n,
					.value = n * n,
					.name = 1 + k % 5,
					.nargs = 3,
					.args = args };
		/* one event a call, because they share the arguments */
		assert_int_equal(writer__block(w, 0, 0, &ev[k], 1, k ? NULL : &end, k ? 0 : 1), 0);
	}
	assert_int_equal(writer__flush(w), 0);
	f->ends[i + 1] = writer__bytes(w);
}

static void read_file(int fd, uint8_t **data, size_t *len)
{
	*len = (size_t)lseek(fd, 0, SEEK_END);
	*data = malloc(*len);
	assert_non_null(*data);
	assert_int_equal(pread(fd, *data, *len, 0), *len);
}

static void small_file__make(struct small_file *f)
{
	int fd = samples__memfd();
	struct recording_writer *w;
	unsigned i;

	*f = (struct small_file){ .s = samples__new(5) };
	w = samples__writer(f->s, fd, NULL);
	assert_int_equal(writer__flush(w), 0);
	f->ends[0] = writer__bytes(w);
	for (i = 0; i < SEGMENTS; i++)
		small_file__write_segment(f, w, i);
	assert_int_equal(writer__finish(w, NULL), 0);
	read_file(fd, &f->data, &f->len);
	close(fd);
}

static void small_file__free(struct small_file *f)
{
	free(f->data);
	samples__free(f->s);
}

static int open_bytes(const uint8_t *data, size_t len, struct recording **r)
{
	struct clika_error err = { 0 };
	int fd = samples__memfd(), rc;

	assert_int_equal(fd__write_all(fd, data, len), 0);
	rc = recording__open_fd(fd, r, &err);
	close(fd);
	if (rc) {
		assert_null(*r);
		assert_int_equal(rc, err.code);
		assert_int_not_equal(err.msg[0], 0);
	}
	return rc;
}

/* Every event given is one that was written, in order, with its values; returns how many. */
static unsigned assert_given_events_are_true(const struct recording *r)
{
	struct block_reader br;
	struct event ev;
	unsigned given = 0;
	int64_t before = -1;
	size_t i;

	for (i = 0; i < recording__n_blocks(r); i++) {
		assert_int_equal(block_reader__init(&br, r, i), 0);
		while (block_reader__next(&br, &ev) == 1) {
			uint64_t n = ev.args[0].u;

			assert_true((int64_t)n > before);
			before = (int64_t)n;
			assert_int_equal(ev.ts, n * 10);
			assert_int_equal(ev.nargs, 3);
			assert_memory_equal(ev.args[1].str, "text", 4);
			if (ev.kind == EV_ALLOC)
				assert_int_equal(ev.value, n * n);
			else
				assert_int_equal(ev.dur, 5);
			given++;
		}
	}
	assert_int_equal(recording__read_everything(r), given);
	return given;
}

static void cut_anywhere_gives_all_whole_segments_and_says_so(void **state)
{
	struct small_file f;
	size_t n;

	(void)state;
	small_file__make(&f);
	for (n = 0; n < f.len; n++) {
		const struct recording_state *st;
		struct recording *r;
		unsigned whole = 0, given;

		if (n < FMT_FILE_HEADER) {
			assert_int_equal(open_bytes(f.data, n, &r), -EINVAL);
			continue;
		}
		assert_int_equal(open_bytes(f.data, n, &r), 0);
		st = recording__state(r);
		while (whole < SEGMENTS && f.ends[whole + 1] <= n)
			whole++;
		given = assert_given_events_are_true(r);
		assert_true(given >= whole * EVENTS_EACH);
		assert_int_equal(st->events, given);
		if (whole < SEGMENTS)
			assert_true(st->bad_segments > 0);
		if (n >= f.ends[0] && whole < SEGMENTS)
			assert_int_equal(st->trailing_bytes, n - f.ends[whole]);
		recording__close(r);
	}
	small_file__free(&f);
}

static void a_flipped_bit_anywhere_costs_at_most_a_segment_and_is_noticed(void **state)
{
	struct small_file f;
	size_t n;
	unsigned bit;

	(void)state;
	small_file__make(&f);
	for (n = 0; n < f.len * 8; n += 3) {
		const struct recording_state *st;
		struct recording *r;
		size_t at = n / 8;
		unsigned given;
		int rc;

		bit = n % 8;
		f.data[at] ^= (uint8_t)(1u << bit);
		rc = open_bytes(f.data, f.len, &r);
		f.data[at] ^= (uint8_t)(1u << bit);
		if (rc) {
			/* only the magic number may make a file unreadable */
			assert_int_equal(rc, -EINVAL);
			assert_true(at < FMT_MAGIC_BYTES);
			continue;
		}
		st = recording__state(r);
		given = assert_given_events_are_true(r);
		assert_true(given >= (SEGMENTS - 1) * EVENTS_EACH);
		if (at < FMT_FILE_HEADER)
			assert_int_equal(given, SEGMENTS * EVENTS_EACH);
		if (given < SEGMENTS * EVENTS_EACH)
			assert_true(st->bad_segments == 1);
		if (at >= FMT_FILE_HEADER && st->bad_segments == 0) {
			/* nothing but padding between segments may change unnoticed */
			assert_int_equal(given, SEGMENTS * EVENTS_EACH);
			assert_int_equal(f.data[at], 0);
		}
		recording__close(r);
	}
	small_file__free(&f);
}

static void finds_the_next_segment_after_lost_inserted_or_zeroed_bytes(void **state)
{
	struct small_file f;
	uint8_t *copy;
	size_t at, n;

	(void)state;
	small_file__make(&f);
	copy = malloc(f.len + 4096);
	assert_non_null(copy);
	for (at = FMT_FILE_HEADER; at < f.len; at += 37) {
		for (n = 1; n < 600; n = n * 3 + 1) {
			size_t gone = at + n < f.len ? n : f.len - at;
			unsigned least = (SEGMENTS - 2) * EVENTS_EACH;
			struct recording *r;

			/* lost */
			memcpy(copy, f.data, at);
			memcpy(copy + at, f.data + at + gone, f.len - at - gone);
			assert_int_equal(open_bytes(copy, f.len - gone, &r), 0);
			assert_true(assert_given_events_are_true(r) >= (gone > 200 ? 0 : least));
			recording__close(r);
			/* inserted */
			memcpy(copy, f.data, at);
			memset(copy + at, 0x93, n);
			memcpy(copy + at + n, f.data + at, f.len - at);
			assert_int_equal(open_bytes(copy, f.len + n, &r), 0);
			assert_true(assert_given_events_are_true(r) >= least);
			recording__close(r);
			/* zeroed, as by a lost disk block */
			memcpy(copy, f.data, f.len);
			memset(copy + at, 0, gone);
			assert_int_equal(open_bytes(copy, f.len, &r), 0);
			assert_given_events_are_true(r);
			recording__close(r);
		}
	}
	free(copy);
	small_file__free(&f);
}

static void garbage_behind_the_end_is_counted_not_read(void **state)
{
	struct small_file f;
	struct recording *r;

	(void)state;
	small_file__make(&f);
	f.data = realloc(f.data, f.len + 1000);
	assert_non_null(f.data);
	memset(f.data + f.len, 0xa5, 1000);
	assert_int_equal(open_bytes(f.data, f.len + 1000, &r), 0);
	assert_int_equal(assert_given_events_are_true(r), SEGMENTS * EVENTS_EACH);
	assert_int_equal(recording__state(r)->trailing_bytes, 1000);
	assert_int_equal(recording__state(r)->bad_segments, 0);
	recording__close(r);
	small_file__free(&f);
}

static void other_files_are_refused_with_a_reason(void **state)
{
	static const uint8_t elf[128] = { 0x7f, 'E', 'L', 'F' };
	struct small_file f;
	struct recording *r;
	int pipes[2];
	struct clika_error err;

	(void)state;
	assert_int_equal(open_bytes((const uint8_t *)"", 0, &r), -EINVAL);
	assert_int_equal(open_bytes(elf, sizeof(elf), &r), -EINVAL);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(recording__open_fd(pipes[0], &r, &err), -EINVAL);
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(recording__open_fd(-1, &r, &err), -EBADF);
	small_file__make(&f);
	f.data[8] = FMT_MAJOR + 1;
	recording__reseal(f.data, f.len);
	assert_int_equal(open_bytes(f.data, f.len, &r), -EPROTONOSUPPORT);
	small_file__free(&f);
}

/* A target writes a whole segment into a string, and the segment around it loses its header. */
static void a_segment_planted_in_a_string_is_not_believed(void **state)
{
	struct small_file f;
	struct samples *s = samples__new(2);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, NULL);
	struct recording *r;
	struct event_arg a = { .key = 1, .type = ARG_STR };
	struct event ev = { .kind = EV_INSTANT, .nargs = 1, .args = &a };
	size_t header, len;
	uint8_t *data;

	(void)state;
	small_file__make(&f);
	a.str = (const char *)f.data + f.ends[1];
	a.len = (uint16_t)(f.ends[2] - f.ends[1]);
	header = (writer__flush(w), writer__bytes(w));
	assert_int_equal(writer__block(w, 0, 0, &ev, 1, NULL, 0), 0);
	assert_int_equal(writer__finish(w, NULL), 0);
	read_file(fd, &data, &len);
	assert_non_null(memmem(data + header, len - header, a.str, a.len));
	data[header + 20] ^= 1;
	assert_int_equal(open_bytes(data, len, &r), 0);
	assert_int_equal(recording__state(r)->events, 0);
	assert_int_equal(recording__state(r)->bad_segments, 1);
	recording__close(r);
	free(data);
	close(fd);
	samples__free(s);
	small_file__free(&f);
}

static void damage_with_right_checksums_does_no_harm(void **state)
{
	struct small_file f;
	uint8_t *copy;
	unsigned round;

	(void)state;
	small_file__make(&f);
	copy = malloc(f.len);
	assert_non_null(copy);
	for (round = 0; round < 6000; round++) {
		unsigned changes = 1 + (unsigned)(samples__random(f.s) % 6);
		struct recording *r;

		memcpy(copy, f.data, f.len);
		while (changes--) {
			size_t at = samples__random(f.s) % f.len;

			copy[at] = samples__random(f.s) % 2 ? (uint8_t)samples__random(f.s)
							    : (uint8_t)(copy[at] + 1);
		}
		recording__reseal(copy, f.len);
		if (!open_bytes(copy, f.len, &r)) {
			recording__read_everything(r);
			recording__close(r);
		}
	}
	free(copy);
	small_file__free(&f);
}

/* Every 64 bytes a header that claims all that follows: nothing may be read again and again. */
static void a_file_full_of_segment_headers_is_read_once(void **state)
{
	enum { LEN = 4 << 20 };
	struct small_file f;
	uint8_t *copy;
	struct recording *r;
	size_t at;

	(void)state;
	small_file__make(&f);
	copy = malloc(LEN);
	assert_non_null(copy);
	memcpy(copy, f.data, FMT_FILE_HEADER);
	for (at = FMT_FILE_HEADER; at < LEN; at += FMT_SEGMENT_HEADER) {
		memcpy(copy + at, f.data + FMT_FILE_HEADER, FMT_SEGMENT_HEADER);
		reseal__put32(copy + at + 16, (uint32_t)at);
		reseal__put32(copy + at + 28, at < LEN - 256 ? (uint32_t)(LEN - at - 200) : 0);
		reseal__put32(copy + at + 32, 0);
		reseal__put32(copy + at + FMT_SEGMENT_CRC_AT,
			      (uint32_t)crc32_z(0, copy + at, FMT_SEGMENT_CRC_AT));
	}
	alarm(60);
	assert_int_equal(open_bytes(copy, LEN, &r), 0);
	recording__read_everything(r);
	recording__close(r);
	alarm(0);
	free(copy);
	small_file__free(&f);
}

static void a_file_cut_or_changed_while_it_is_read_ends_in_an_error(void **state)
{
	struct samples *s = samples__new(9);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, NULL);
	struct block_reader br, second;
	struct recording *r;
	struct event ev;
	uint64_t pos;
	unsigned i;
	uint8_t byte;

	(void)state;
	for (i = 0; i < 200; i++)
		assert_int_equal(samples__write(w, samples__block(s, 0, 0, 50, 0)), 0);
	assert_int_equal(writer__finish(w, NULL), 0);
	assert_int_equal(recording__open_fd(fd, &r, NULL), 0);
	/* the last byte of a body: all of it can still be decoded */
	pos = recording__block(r, 101)->pos - 1;
	assert_int_equal(pread(fd, &byte, 1, (off_t)pos), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)pos), 1);
	assert_int_equal(block_reader__init(&br, r, 100), -EBADMSG);
	assert_int_equal(block_reader__next(&br, &ev), 0);
	assert_int_equal(block_reader__init(&br, r, 50), 0);
	assert_int_equal(block_reader__next(&br, &ev), 1);
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_int_equal(block_reader__next(&br, &ev), 1);
	assert_int_equal(block_reader__init(&second, r, 51), -EBADMSG);
	block_reader__stop(&br);
	recording__close(r);
	close(fd);
	samples__free(s);
}

static void an_unfinished_recording_says_so_and_gives_what_was_flushed(void **state)
{
	struct samples *s = samples__new(13);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, NULL);
	struct recording *r;

	(void)state;
	assert_int_equal(samples__write(w, samples__block(s, 1, 1, 100, 5)), 0);
	assert_int_equal(writer__flush(w), 0);
	assert_int_equal(recording__open_fd(fd, &r, NULL), 0);
	assert_true(recording__state(r)->incomplete);
	assert_int_equal(recording__state(r)->bad_segments, 0);
	samples__assert_all(s, r);
	recording__close(r);

	/* given up: what was in memory is in the file, the mark stays */
	assert_int_equal(samples__write(w, samples__block(s, 1, 1, 100, 5)), 0);
	writer__abort(w);
	assert_int_equal(recording__open_fd(fd, &r, NULL), 0);
	assert_true(recording__state(r)->incomplete);
	samples__assert_all(s, r);
	recording__close(r);
	writer__abort(NULL);
	recording__close(NULL);
	close(fd);
	samples__free(s);
}

static void write_until_killed(int fd, int told)
{
	struct samples *s = samples__new(17);
	struct writer_opts opts = { .owner = (uid_t)-1, .segment_bytes = 20000 };
	struct recording_writer *w = samples__writer(s, fd, &opts);
	struct event ev = { .kind = EV_SPAN, .dur = 5 };
	uint64_t n = 0;

	for (;;) {
		struct event_arg args[3] = { { .key = 1, .type = ARG_U64, .u = n },
					     { .key = 2, .type = ARG_STR, .str = "text", .len = 4 },
					     { .key = 3, .type = ARG_F64, .f = 1.5 } };

		ev.ts = n++ * 10;
		ev.nargs = 3;
		ev.args = args;
		if (writer__block(w, 0, 0, &ev, 1, NULL, 0))
			_exit(1);
		if (n % 5000 == 0 && write(told, "", 1) != 1)
			_exit(1);
	}
}

static void a_recorder_killed_at_any_moment_leaves_a_readable_file(void **state)
{
	unsigned round;

	(void)state;
	for (round = 0; round < 10; round++) {
		int fd = samples__memfd(), told[2], status;
		struct recording *r;
		unsigned given, heard;
		char c;
		pid_t pid;

		assert_int_equal(pipe(told), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (!pid)
			write_until_killed(fd, told[1]);
		close(told[1]);
		for (heard = 0; heard < 1 + round; heard++)
			assert_int_equal(read(told[0], &c, 1), 1);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		close(told[0]);
		assert_int_equal(recording__open_fd(fd, &r, NULL), 0);
		assert_true(recording__state(r)->incomplete);
		assert_int_equal(recording__state(r)->bad_segments, 0);
		given = assert_given_events_are_true(r);
		/* all but what the last segment could hold */
		assert_true(given + 20000 / 8 >= heard * 5000);
		recording__close(r);
		close(fd);
	}
}

static void a_failed_write_is_told_from_then_on_and_the_file_stays_readable(void **state)
{
	struct samples *s = samples__new(19);
	int fd = memfd_create("full", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc = 0;
	struct writer_opts opts = { .owner = (uid_t)-1, .segment_bytes = 5000 };
	struct recording_writer *w;
	struct clika_error err = { 0 };
	struct count_info counts = { 0 };
	struct recording *r;
	unsigned i;

	(void)state;
	assert_true(fd >= 0);
	w = samples__writer(s, fd, &opts);
	assert_int_equal(samples__write(w, samples__block(s, 0, 0, 100, 3)), 0);
	assert_int_equal(writer__flush(w), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0); /* a full disk, so to say */
	for (i = 0; i < 1000 && !rc; i++) {
		struct event ev = { .kind = EV_INSTANT, .ts = i, .name = 1 + i % 10 };

		rc = writer__block(w, 0, 1, &ev, 1, NULL, 0);
	}
	assert_int_equal(rc, -EPERM);
	assert_int_equal(writer__flush(w), -EPERM);
	assert_int_equal(writer__counts(w, &counts), -EPERM);
	assert_int_equal(samples__write(w, &s->blocks[0]), -EPERM);
	assert_int_equal(writer__finish(w, &err), -EPERM);
	assert_int_equal(err.code, -EPERM);
	assert_int_not_equal(err.msg[0], 0);
	assert_int_equal(recording__open_fd(fd, &r, NULL), 0);
	assert_true(recording__state(r)->incomplete);
	assert_true(recording__state(r)->events >= 100);
	recording__read_everything(r);
	recording__close(r);
	close(fd);
	samples__free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_anywhere_gives_all_whole_segments_and_says_so),
		cmocka_unit_test(a_flipped_bit_anywhere_costs_at_most_a_segment_and_is_noticed),
		cmocka_unit_test(finds_the_next_segment_after_lost_inserted_or_zeroed_bytes),
		cmocka_unit_test(garbage_behind_the_end_is_counted_not_read),
		cmocka_unit_test(other_files_are_refused_with_a_reason),
		cmocka_unit_test(a_segment_planted_in_a_string_is_not_believed),
		cmocka_unit_test(damage_with_right_checksums_does_no_harm),
		cmocka_unit_test(a_file_full_of_segment_headers_is_read_once),
		cmocka_unit_test(a_file_cut_or_changed_while_it_is_read_ends_in_an_error),
		cmocka_unit_test(an_unfinished_recording_says_so_and_gives_what_was_flushed),
		cmocka_unit_test(a_recorder_killed_at_any_moment_leaves_a_readable_file),
		cmocka_unit_test(a_failed_write_is_told_from_then_on_and_the_file_stays_readable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
