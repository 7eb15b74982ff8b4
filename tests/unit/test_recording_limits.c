// SPDX-License-Identifier: Apache-2.0
/* Files that must not grow: those that stop at a size, and those that drop their oldest part. */
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/recording_samples.h"
#include "user/recording/format.h"
#include "user/session/session.h"

#define CALL_EVENTS 100

static uint64_t file_size(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_size;
}

/* Events that say their number: @n, n + 1, ... in time order. */
static int write_numbered(struct recording_writer *w, uint64_t n, size_t count)
{
	struct event ev[CALL_EVENTS];
	size_t i;

	assert_true(count <= CALL_EVENTS);
	for (i = 0; i < count; i++)
		ev[i] = (struct event){ .kind = EV_ASYNC_BEGIN,
					.ts = 1000000 + (n + i) * 100,
					.id = n + i,
					.name = 1 + (uint32_t)((n + i) % 30),
					.cat = 31,
					.src = 32 };
	return writer__block(w, (uint32_t)(n / CALL_EVENTS % SAMPLE_THREADS), 0, ev, count, NULL,
			     0);
}

/* What is there are the events from *@first on without a gap; returns how many. */
static uint64_t assert_one_run_of_events(const struct recording *r, uint64_t *first)
{
	const struct strpool *names = recording__names(r);
	struct block_reader br;
	struct event ev;
	uint64_t n = 0;
	char want[30][16];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(want); i++)
		snprintf(want[i], sizeof(want[i]), "name %u", (unsigned)i);
	for (i = 0; i < recording__n_blocks(r); i++) {
		assert_int_equal(block_reader__init(&br, r, i), 0);
		while (block_reader__next(&br, &ev) == 1) {
			const char *name = want[ev.id % ARRAY_SIZE(want)];

			if (!n)
				*first = ev.id;
			if (ev.id != *first + n || ev.ts != 1000000 + ev.id * 100 ||
			    strncmp(strpool__str(names, ev.name), name, strlen(name)) != 0)
				fail_msg("event %llu instead of %llu", (unsigned long long)ev.id,
					 (unsigned long long)(*first + n));
			n++;
		}
	}
	return n;
}

static void stops_at_the_limit_and_keeps_what_fits(void **state)
{
	static const uint64_t limits[] = { 64u << 10, 100001, 300000, 3000000 };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		struct writer_opts opts = { .owner = (uid_t)-1, .max_bytes = limits[i] };
		struct loss_info loss = {
			.process = UINT32_MAX, .cpu = -1, .cause = LOSS_FILE_LIMIT, .records = 77
		};
		struct samples *s = samples__new(1);
		int fd = samples__memfd(), rc = 0;
		struct recording_writer *w = samples__writer(s, fd, &opts);
		struct recording *r;
		uint64_t n = 0, first = 0, told;

		while (!(rc = write_numbered(w, n, CALL_EVENTS))) {
			n += CALL_EVENTS;
			assert_false(writer__full(w));
		}
		assert_int_equal(rc, -EFBIG);
		assert_true(writer__full(w));
		assert_int_equal(write_numbered(w, n, 1), -EFBIG); /* however small */
		told = writer__events(w);
		assert_int_equal(told, n);
		/* what says how it ended still has room */
		assert_int_equal(writer__loss(w, &loss), 0);
		assert_int_equal(writer__warning(w, "limit", "full"), 0);
		assert_int_equal(writer__flush(w), 0);
		assert_int_equal(writer__finish(w, NULL), 0);
		assert_true(file_size(fd) <= limits[i]);
		assert_true(file_size(fd) >= limits[i] * 8 / 10);
		assert_int_equal(recording__open_fd(fd, &r, NULL), 0);
		assert_false(recording__state(r)->incomplete);
		assert_int_equal(recording__state(r)->events, n);
		assert_int_equal(assert_one_run_of_events(r, &first), n);
		assert_int_equal(first, 0);
		assert_int_equal(recording__loss(r, 0)->records, 77);
		recording__close(r);
		close(fd);
		samples__free(s);
	}
}

static void a_call_that_does_not_fit_leaves_nothing_behind(void **state)
{
	struct writer_opts opts = { .owner = (uid_t)-1, .max_bytes = 64u << 10 };
	struct samples *s = samples__new(1);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, &opts);
	const struct sample_block *large = samples__block(s, 0, 0, 20000, 0);
	struct recording *r;
	uint64_t first = 0;

	(void)state;
	assert_int_equal(write_numbered(w, 0, 50), 0);
	assert_int_equal(samples__write(w, large), -EFBIG);
	assert_true(writer__full(w));
	assert_int_equal(writer__finish(w, NULL), 0);
	assert_int_equal(recording__open_fd(fd, &r, NULL), 0);
	assert_int_equal(recording__state(r)->events, 50);
	assert_int_equal(assert_one_run_of_events(r, &first), 50);
	recording__close(r);
	close(fd);
	samples__free(s);
}

static void limits_that_are_too_small_are_refused(void **state)
{
	struct writer_opts opts[] = { { .max_bytes = 1000 },
				      { .max_bytes = 100000, .drop_oldest = true } };
	struct recording_meta meta = { 0 };
	struct strpool *names = strpool__new(0, 0);
	struct recording_writer *w;
	struct clika_error err;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(opts); i++) {
		err = (struct clika_error){ 0 };
		assert_int_equal(writer__create_fd(samples__memfd(), &meta, names, &opts[i], &w,
						   &err),
				 -EINVAL);
		assert_null(w);
		assert_non_null(strstr(err.msg, "limit"));
	}
	strpool__free(names);
}

static void open_and_check(int fd, uint64_t last, uint64_t least)
{
	const struct dropped_info *d;
	struct recording *r;
	uint64_t first = 0, n;

	assert_int_equal(recording__open_fd(fd, &r, NULL), 0);
	assert_int_equal(recording__state(r)->bad_segments, 0);
	assert_int_equal(recording__state(r)->trailing_bytes, 0);
	n = assert_one_run_of_events(r, &first);
	assert_true(n >= least);
	if (n)
		assert_true(first + n <= last);
	assert_int_equal(recording__state(r)->events, n);
	d = recording__dropped(r);
	if (n) {
		assert_int_equal(d->events, first);
		assert_int_equal(d->until, first ? 1000000 + (first - 1) * 100 : 0);
		if (first)
			assert_true(d->segments > 0);
	}
	assert_string_equal(recording__meta(r)->tool, "tool");
	recording__close(r);
}

static void a_circular_file_keeps_the_newest_and_its_size(void **state)
{
	static const struct {
		uint64_t max;
		size_t segment;
	} v[] = { { 1u << 20, 0 }, { 1u << 20, 3000 }, { 1500001, 50000 }, { 4u << 20, 1u << 20 } };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(v); i++) {
		struct writer_opts opts = { .owner = (uid_t)-1,
					    .max_bytes = v[i].max,
					    .segment_bytes = v[i].segment,
					    .drop_oldest = true };
		struct samples *s = samples__new(i);
		int fd = samples__memfd();
		struct recording_writer *w = samples__writer(s, fd, &opts);
		uint64_t n = 0,
			 total = v[i].max / 2; /* 4 bytes an event and more: round and round */

		while (n < total) {
			size_t count = 1 + samples__random(s) % CALL_EVENTS;

			assert_int_equal(write_numbered(w, n, count), 0);
			n += count;
			assert_true(file_size(fd) <= v[i].max);
			assert_true(writer__bytes(w) <= v[i].max);
			if (samples__random(s) % 50 == 0)
				assert_int_equal(writer__flush(w), 0);
			if (samples__random(s) % 1000 == 0)
				open_and_check(fd, n, 0);
		}
		assert_false(writer__full(w));
		assert_int_equal(writer__events(w), n);
		assert_int_equal(writer__finish(w, NULL), 0);
		assert_true(file_size(fd) <= v[i].max);
		/* at least half of the room holds events: 10 bytes each are plenty */
		open_and_check(fd, n, v[i].max / 2 / 10);
		close(fd);
		samples__free(s);
	}
}

static void what_explains_the_data_survives_dropping(void **state)
{
	struct writer_opts opts = { .owner = (uid_t)-1,
				    .max_bytes = 1u << 20,
				    .drop_oldest = true };
	struct loss_info loss = { .process = 0, .cpu = 2, .cause = LOSS_RING_FULL, .records = 5 };
	struct count_info counts = { 4, 3, 2, 1 };
	struct capture_info open = {
		.id = 1, .process = UINT32_MAX, .begin = 10, .tag = (char *)"open"
	};
	struct capture_info over = {
		.id = 2, .process = UINT32_MAX, .begin = 10, .end = 1000001, .tag = (char *)"over"
	};
	struct capture_info late = { .id = 3, .process = 0, .tag = (char *)"late" };
	struct process_info gone = { .pid = 4, .comm = (char *)"gone" };
	struct clock_anchor a = { .boottime = 1 };
	struct samples *s = samples__new(1);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, &opts);
	struct recording *r;
	struct session *view;
	uint64_t n, first = 0;
	uint32_t index;
	unsigned anchors = 0;
	size_t i;

	(void)state;
	assert_int_equal(writer__add_process(w, &gone, &index), 0);
	assert_int_equal(writer__loss(w, &loss), 0);
	loss.process = index;
	assert_int_equal(writer__loss(w, &loss), 0);
	assert_int_equal(writer__counts(w, &counts), 0);
	assert_int_equal(writer__capture(w, &open), 0);
	assert_int_equal(writer__capture(w, &over), 0);
	assert_int_equal(writer__warning(w, "code", "text"), 0);
	for (n = 0; n < 1000000; n += CALL_EVENTS) {
		if (n % 10000 == 0) {
			a.boottime = 1000000 + n * 100;
			a.realtime = n;
			assert_int_equal(writer__anchor(w, &a), 0);
			anchors++;
		}
		if (n == 950000) {
			late.begin = 1000000 + n * 100;
			late.end = late.begin + 1;
			assert_int_equal(writer__capture(w, &late), 0);
		}
		assert_int_equal(write_numbered(w, n, CALL_EVENTS), 0);
	}
	assert_int_equal(writer__finish(w, NULL), 0);
	assert_int_equal(recording__open_fd(fd, &r, NULL), 0);
	assert_true(assert_one_run_of_events(r, &first) > 0);
	assert_true(first > 500000); /* so the beginning is gone indeed */
	assert_int_equal(recording__n_losses(r), 2);
	for (i = 0; i < 2; i++) {
		const struct loss_info *l = recording__loss(r, i);

		assert_int_equal(l->records, 5);
		assert_true(l->process < recording__n_processes(r));
	}
	assert_string_not_equal(recording__process(r, recording__loss(r, 0)->process)->comm,
				recording__process(r, recording__loss(r, 1)->process)->comm);
	assert_int_equal(recording__counts(r)->emitted, 4);
	assert_int_equal(recording__n_warnings(r), 1);
	/* the one that ended before all data is not kept */
	assert_int_equal(recording__n_captures(r), 2);
	for (i = 0; i < 2; i++)
		assert_string_not_equal(recording__capture(r, i)->tag, "over");
	/* anchors for the times that are left, and one before them */
	assert_true(recording__n_anchors(r) < anchors / 2);
	assert_true(recording__anchor(r, 0)->boottime <= 1000000 + first * 100);
	assert_int_equal(recording__anchor(r, recording__n_anchors(r) - 1)->boottime, a.boottime);
	/* and what is shown begins where the last dropped event was */
	assert_true(recording__dropped(r)->until > 1000000);
	assert_int_equal(session__new(r, NULL, &view, NULL), 0);
	assert_int_equal(session__begin(view), recording__dropped(r)->until);
	session__free(view);
	recording__close(r);
	close(fd);
	samples__free(s);
}

/*
 * A circular file is changed in place. At any moment of a write (pages go to the file in order)
 * the file gives one run of events: what was before, or what is after, less what is under the pen.
 */
static void a_circular_file_is_readable_at_every_moment_of_a_write(void **state)
{
	struct writer_opts opts = { .owner = (uid_t)-1,
				    .max_bytes = 1u << 20,
				    .segment_bytes = 60000,
				    .drop_oldest = true };
	struct samples *s = samples__new(3);
	int fd = samples__memfd(), half = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, &opts);
	static uint8_t before[1u << 20], after[1u << 20];
	uint64_t n = 0;
	unsigned round;

	(void)state;
	while (n < 500000) {
		assert_int_equal(write_numbered(w, n, CALL_EVENTS), 0);
		n += CALL_EVENTS;
	}
	for (round = 0; round < 20; round++) {
		size_t len_before, len_after, from, to, cut;

		assert_int_equal(writer__flush(w), 0);
		len_before = file_size(fd);
		assert_int_equal(pread(fd, before, len_before, 0), len_before);
		for (cut = 0; cut < 3000; cut += CALL_EVENTS) {
			assert_int_equal(write_numbered(w, n, CALL_EVENTS), 0);
			n += CALL_EVENTS;
		}
		assert_int_equal(writer__flush(w), 0);
		len_after = file_size(fd);
		assert_int_equal(pread(fd, after, len_after, 0), len_after);
		for (from = 0; from < len_before && from < len_after && before[from] == after[from];
		     from++)
			;
		from &= ~(size_t)7;
		to = len_after < len_before && from < len_after ? len_after : from + 30000;
		if (to > len_after)
			to = len_after;
		for (cut = from; cut <= to; cut += 2999) {
			struct recording *r;
			uint64_t first = 0, got;

			assert_int_equal(ftruncate(half, 0), 0);
			assert_int_equal(pwrite(half, before, len_before, 0), len_before);
			assert_int_equal(pwrite(half, after, cut, 0), cut);
			assert_int_equal(recording__open_fd(half, &r, NULL), 0);
			got = assert_one_run_of_events(r, &first);
			assert_true(got > 20000);
			assert_int_equal(recording__state(r)->events, got);
			recording__close(r);
		}
	}
	writer__abort(w);
	close(fd);
	close(half);
	samples__free(s);
}

static void a_circular_file_takes_every_kind_of_event_and_many_names(void **state)
{
	struct writer_opts opts = { .owner = (uid_t)-1,
				    .max_bytes = 1u << 20,
				    .drop_oldest = true };
	struct samples *s = samples__new(21);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, &opts);
	struct recording *r;
	unsigned i, k;

	(void)state;
	for (i = 0; i < 300; i++) {
		struct event ev[CALL_EVENTS];
		char text[3000];

		assert_int_equal(samples__write(w, samples__block(s, 0, 1, 100, 5)), 0);
		memset(text, 'n', sizeof(text));
		for (k = 0; k < CALL_EVENTS; k++) {
			snprintf(text, sizeof(text), "%u %u", i, k);
			text[strlen(text)] = ' ';
			ev[k] = (struct event){ .kind = EV_SPAN,
						.ts = i,
						.name = strpool__id(s->names, text, sizeof(text)) };
		}
		assert_int_equal(writer__block(w, 1, 0, ev, CALL_EVENTS, NULL, 0), 0);
		assert_true(file_size(fd) <= opts.max_bytes);
	}
	assert_int_equal(writer__finish(w, NULL), 0);
	assert_int_equal(recording__open_fd(fd, &r, NULL), 0);
	assert_int_equal(recording__state(r)->bad_segments, 0);
	assert_int_equal(recording__read_everything(r), recording__state(r)->events);
	recording__close(r);
	close(fd);
	samples__free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stops_at_the_limit_and_keeps_what_fits),
		cmocka_unit_test(a_call_that_does_not_fit_leaves_nothing_behind),
		cmocka_unit_test(limits_that_are_too_small_are_refused),
		cmocka_unit_test(a_circular_file_keeps_the_newest_and_its_size),
		cmocka_unit_test(what_explains_the_data_survives_dropping),
		cmocka_unit_test(a_circular_file_is_readable_at_every_moment_of_a_write),
		cmocka_unit_test(a_circular_file_takes_every_kind_of_event_and_many_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
