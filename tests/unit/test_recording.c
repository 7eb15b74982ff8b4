// SPDX-License-Identifier: Apache-2.0
/* What a recording is given comes out of it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/recording_samples.h"

static struct recording *finish_and_open(struct recording_writer *w, int fd)
{
	struct clika_error err = { 0 };
	struct recording *r;

	if (writer__finish(w, &err))
		fail_msg("finish: %s", err.msg);
	if (recording__open_fd(fd, &r, &err))
		fail_msg("open: %s", err.msg);
	assert_false(recording__state(r)->incomplete);
	assert_int_equal(recording__state(r)->bad_segments, 0);
	assert_int_equal(recording__state(r)->trailing_bytes, 0);
	return r;
}

static void round_trip(uint64_t seed, unsigned blocks, size_t most_events, size_t segment_bytes)
{
	struct writer_opts opts = { .owner = (uid_t)-1, .segment_bytes = segment_bytes };
	struct samples *s = samples__new(seed);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, &opts);
	struct recording *r;
	unsigned i;

	for (i = 0; i < blocks; i++) {
		const struct sample_block *b = samples__block(
			s, samples__random(s) % SAMPLE_THREADS, samples__random(s) % SAMPLE_STREAMS,
			samples__random(s) % (most_events + 1), samples__random(s) % 8);

		assert_int_equal(samples__write(w, b), 0);
		if (samples__random(s) % 10 == 0)
			assert_int_equal(writer__flush(w), 0);
	}
	assert_int_equal(writer__events(w), s->events);
	r = finish_and_open(w, fd);
	samples__assert_all(s, r);
	assert_int_equal(recording__read_everything(r), s->events);
	recording__close(r);
	close(fd);
	samples__free(s);
}

static void gives_back_every_kind_field_flag_and_argument(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 40; seed++)
		round_trip(seed, 30, 60, 0);
}

static void gives_back_events_of_many_small_segments(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 100; seed < 110; seed++)
		round_trip(seed, 100, 40, 2000);
}

static void gives_back_calls_larger_than_a_block_and_a_segment(void **state)
{
	(void)state;
	round_trip(7, 4, 9000, 60000);
	round_trip(8, 4, 9000, 0);
}

static void a_recording_without_events_is_complete_and_empty(void **state)
{
	struct samples *s = samples__new(1);
	int fd = samples__memfd();
	struct recording *r = finish_and_open(samples__writer(s, fd, NULL), fd);

	(void)state;
	assert_int_equal(recording__state(r)->events, 0);
	assert_int_equal(recording__state(r)->first_ts, 0);
	assert_int_equal(recording__state(r)->last_ts, 0);
	assert_int_equal(recording__n_blocks(r), 0);
	assert_int_equal(recording__n_processes(r), 1);
	assert_int_equal(recording__n_threads(r), SAMPLE_THREADS);
	assert_null(recording__span_end(r, 1));
	assert_null(recording__block(r, 0));
	recording__close(r);
	close(fd);
	samples__free(s);
}

static void times_at_both_ends_of_the_range_survive(void **state)
{
	struct samples *s = samples__new(1);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, NULL);
	struct event ev[4] = { { .kind = EV_SPAN, .ts = 0, .dur = UINT64_MAX },
			       { .kind = EV_SPAN, .ts = 5, .dur = UINT64_MAX },
			       { .kind = EV_INSTANT, .ts = UINT64_MAX },
			       { .kind = EV_SPAN, .ts = UINT64_MAX, .dur = 1 } };
	struct block_reader br;
	struct recording *r;
	struct event got;

	(void)state;
	assert_int_equal(writer__block(w, 0, UINT32_MAX, ev, 4, NULL, 0), 0);
	r = finish_and_open(w, fd);
	assert_int_equal(recording__n_blocks(r), 1);
	assert_int_equal(recording__block(r, 0)->stream, UINT32_MAX);
	assert_int_equal(recording__block(r, 0)->last_end, UINT64_MAX);
	assert_int_equal(block_reader__init(&br, r, 0), 0);
	assert_int_equal(block_reader__next(&br, &got), 1);
	assert_int_equal(got.dur, UINT64_MAX);
	assert_int_equal(block_reader__next(&br, &got), 1);
	assert_int_equal(got.dur, UINT64_MAX - 5); /* cut: its end cannot be told */
	assert_int_equal(block_reader__next(&br, &got), 1);
	assert_int_equal(got.ts, UINT64_MAX);
	assert_int_equal(block_reader__next(&br, &got), 1);
	assert_int_equal(got.dur, 0);
	assert_int_equal(block_reader__next(&br, &got), 0);
	assert_int_equal(block_reader__next(&br, &got), 0);
	recording__close(r);
	close(fd);
	samples__free(s);
}

static void refuses_what_cannot_be_stored_and_stays_usable(void **state)
{
	struct event_arg bad_type = { .type = 9 };
	struct event back[2] = { { .kind = EV_INSTANT, .ts = 10 },
				 { .kind = EV_INSTANT, .ts = 9 } };
	struct event no_kind = { .ts = 10 }, new_kind = { .kind = EV_KIND_COUNT, .ts = 10 };
	struct event many = { .kind = EV_INSTANT, .nargs = EVENT_MAX_ARGS + 1, .args = &bad_type };
	struct event odd = { .kind = EV_INSTANT, .nargs = 1, .args = &bad_type };
	struct event fine = { .kind = EV_INSTANT, .ts = 10, .name = 4000000000u };
	struct capture_info capture = { .process = 7, .tag = (char *)"" };
	struct loss_info loss = { .process = 7 };
	struct thread_info thread = { .process = 7 };
	struct samples *s = samples__new(1);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, NULL);
	struct recording *r;
	uint32_t index;

	(void)state;
	assert_int_equal(writer__block(w, 0, 0, back, 2, NULL, 0), -EINVAL);
	assert_int_equal(writer__block(w, 0, 0, &no_kind, 1, NULL, 0), -EINVAL);
	assert_int_equal(writer__block(w, 0, 0, &new_kind, 1, NULL, 0), -EINVAL);
	assert_int_equal(writer__block(w, 0, 0, &many, 1, NULL, 0), -EINVAL);
	assert_int_equal(writer__block(w, 0, 0, &odd, 1, NULL, 0), -EINVAL);
	assert_int_equal(writer__block(w, 99, 0, &fine, 1, NULL, 0), -EINVAL);
	assert_int_equal(writer__capture(w, &capture), -EINVAL);
	assert_int_equal(writer__loss(w, &loss), -EINVAL);
	assert_int_equal(writer__add_thread(w, &thread, &index), -EINVAL);
	assert_int_equal(writer__set_thread(w, 0, &thread), -EINVAL);
	assert_int_equal(writer__block(w, 0, 0, &fine, 1, NULL, 0), 0);
	assert_int_equal(writer__block(w, 0, 0, NULL, 0, NULL, 0), 0);
	r = finish_and_open(w, fd);
	assert_int_equal(recording__state(r)->events, 1);
	assert_int_equal(recording__n_blocks(r), 1);
	recording__close(r);
	close(fd);
	samples__free(s);
}

static void assert_text(const char *got, const char *want)
{
	assert_non_null(got);
	assert_string_equal(got, want);
}

static void the_newest_definition_counts(void **state)
{
	struct process_info p = { .pid = 4711,
				  .ppid = 1,
				  .ns_pid = 5,
				  .uid = 1000,
				  .start = UINT64_MAX,
				  .exec_gen = 3,
				  .first_seen = 77,
				  .comm = (char *)"",
				  .exe = (char *)"/usr/bin/x" };
	struct thread_info t = { .tid = 9, .ns_tid = 2, .start = 12 };
	struct samples *s = samples__new(1);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, NULL);
	const struct process_info *gp;
	const struct thread_info *gt;
	struct recording *r;
	uint32_t pi, ti;

	(void)state;
	assert_int_equal(writer__add_process(w, &p, &pi), 0);
	t.process = pi;
	assert_int_equal(writer__add_thread(w, &t, &ti), 0);
	assert_int_equal(writer__flush(w), 0);
	p.ended = 99;
	p.exit_code = -9;
	p.label = (char *)"a label";
	p.cmdline = (char *)"x --model m";
	p.cgroup = (char *)"/a.slice";
	p.container = (char *)"abc";
	t.name = (char *)"worker";
	t.ended = 98;
	assert_int_equal(writer__set_process(w, pi, &p), 0);
	assert_int_equal(writer__set_thread(w, ti, &t), 0);
	assert_int_equal(writer__set_process(w, pi + 1, &p), -EINVAL);
	r = finish_and_open(w, fd);
	assert_int_equal(recording__n_processes(r), 2);
	gp = recording__process(r, pi);
	assert_int_equal(gp->pid, 4711);
	assert_int_equal(gp->ppid, 1);
	assert_int_equal(gp->ns_pid, 5);
	assert_int_equal(gp->uid, 1000);
	assert_int_equal(gp->start, UINT64_MAX);
	assert_int_equal(gp->exec_gen, 3);
	assert_int_equal(gp->first_seen, 77);
	assert_int_equal(gp->ended, 99);
	assert_int_equal(gp->exit_code, -9);
	assert_text(gp->comm, "");
	assert_text(gp->exe, "/usr/bin/x");
	assert_text(gp->cmdline, "x --model m");
	assert_text(gp->cgroup, "/a.slice");
	assert_text(gp->container, "abc");
	assert_text(gp->label, "a label");
	assert_null(recording__process(r, 0)->exe);
	gt = recording__thread(r, ti);
	assert_int_equal(gt->process, pi);
	assert_int_equal(gt->tid, 9);
	assert_int_equal(gt->ns_tid, 2);
	assert_int_equal(gt->start, 12);
	assert_int_equal(gt->ended, 98);
	assert_text(gt->name, "worker");
	assert_null(recording__process(r, 2));
	assert_null(recording__thread(r, 1000));
	recording__close(r);
	close(fd);
	samples__free(s);
}

static void gives_back_meta_losses_counts_captures_anchors_and_warnings(void **state)
{
	struct recording_meta meta = { .tool = (char *)"t",
				       .version = (char *)"1",
				       .command = (char *)"c",
				       .host = (char *)"h",
				       .kernel = (char *)"k",
				       .arch = (char *)"a",
				       .machine_id = (char *)"m",
				       .cpus = 64,
				       .page_size = 4096,
				       .ram_bytes = UINT64_MAX,
				       .created_realtime = 5 };
	struct loss_info loss = { .process = UINT32_MAX, .cpu = -1, .cause = LOSS_RING_FULL };
	struct loss_info probe = { .process = 0,
				   .cpu = 63,
				   .cause = LOSS_MAP_FULL,
				   .records = 2,
				   .at_most = 3,
				   .probe = (char *)"p" };
	struct count_info counts = { 10, 7, 3, 1 }, later = { UINT64_MAX, 8, 3, 1 };
	struct capture_info c = {
		.id = UINT64_MAX, .process = UINT32_MAX, .begin = 5, .tag = (char *)"warm"
	};
	struct clock_anchor a = { 5, 4, 3, UINT64_MAX, 1 }, earlier = { 4, 4, 3, 2, 1 };
	struct process_info p = { .pid = 1 };
	struct samples *s = samples__new(1);
	int fd = samples__memfd();
	struct recording_writer *w;
	const struct loss_info *l;
	const struct recording_meta *m;
	struct recording *r;
	uint32_t index;

	(void)state;
	assert_int_equal(writer__create_fd(dup(fd), &meta, s->names, NULL, &w, NULL), 0);
	assert_int_equal(writer__add_process(w, &p, &index), 0);
	assert_int_equal(writer__loss(w, &loss), 0);
	assert_int_equal(writer__loss(w, &probe), 0);
	assert_int_equal(writer__counts(w, &counts), 0);
	assert_int_equal(writer__capture(w, &c), 0);
	assert_int_equal(writer__anchor(w, &a), 0);
	assert_int_equal(writer__anchor(w, &earlier), 0);
	assert_int_equal(writer__warning(w, "late", "came late"), 0);
	assert_int_equal(writer__warning(w, "late", "came late"), 0);
	assert_int_equal(writer__flush(w), 0);
	loss.records = 9;
	c.end = 6;
	assert_int_equal(writer__loss(w, &loss), 0);
	assert_int_equal(writer__capture(w, &c), 0);
	assert_int_equal(writer__counts(w, &later), 0);
	r = finish_and_open(w, fd);

	m = recording__meta(r);
	assert_text(m->tool, "t");
	assert_text(m->version, "1");
	assert_text(m->command, "c");
	assert_text(m->host, "h");
	assert_text(m->kernel, "k");
	assert_text(m->arch, "a");
	assert_text(m->machine_id, "m");
	assert_text(m->targets, "");
	assert_int_equal(m->cpus, 64);
	assert_int_equal(m->page_size, 4096);
	assert_int_equal(m->ram_bytes, UINT64_MAX);
	assert_int_equal(m->created_realtime, 5);
	assert_int_equal(recording__n_losses(r), 2);
	l = recording__loss(r, 0);
	assert_int_equal(l->records, 9);
	assert_int_equal(l->process, UINT32_MAX);
	assert_int_equal(l->cpu, -1);
	assert_int_equal(l->cause, LOSS_RING_FULL);
	assert_null(l->probe);
	l = recording__loss(r, 1);
	assert_int_equal(l->process, 0);
	assert_int_equal(l->cpu, 63);
	assert_int_equal(l->at_most, 3);
	assert_text(l->probe, "p");
	assert_int_equal(recording__counts(r)->emitted, UINT64_MAX);
	assert_int_equal(recording__counts(r)->recorded, 8);
	assert_int_equal(recording__n_captures(r), 1);
	assert_int_equal(recording__capture(r, 0)->id, UINT64_MAX);
	assert_int_equal(recording__capture(r, 0)->end, 6);
	assert_text(recording__capture(r, 0)->tag, "warm");
	assert_int_equal(recording__n_anchors(r), 2);
	assert_int_equal(recording__anchor(r, 0)->boottime, 4);
	assert_int_equal(recording__anchor(r, 1)->realtime, UINT64_MAX);
	assert_int_equal(recording__n_warnings(r), 1);
	assert_text(recording__warning(r, 0)->code, "late");
	assert_text(recording__warning(r, 0)->text, "came late");
	recording__close(r);
	close(fd);
	samples__free(s);
}

static void each_cause_and_kind_has_a_name(void **state)
{
	unsigned i;

	(void)state;
	for (i = 1; i < EV_KIND_COUNT; i++)
		assert_non_null(event_kind__name(i));
	for (i = 1; i < LOSS_CAUSE_COUNT; i++)
		assert_non_null(loss_cause__text(i));
	assert_null(event_kind__name(0));
	assert_null(event_kind__name(EV_KIND_COUNT));
	assert_null(loss_cause__text(LOSS_CAUSE_COUNT));
	assert_int_equal(event_kind__fields(1000), 0);
}

static void a_span_without_arguments_takes_few_bytes(void **state)
{
	enum { N = 200000 };
	struct event *ev = calloc(N, sizeof(*ev));
	struct samples *s = samples__new(3);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, NULL);
	struct recording *r;
	uint64_t ts = 1ull << 60;
	size_t i;

	(void)state;
	for (i = 0; i < N; i++) {
		ts += samples__random(s) % 3000;
		ev[i] = (struct event){ .kind = EV_SPAN,
					.ts = ts,
					.dur = samples__random(s) % 50000,
					.name = 1 + (uint32_t)(samples__random(s) % 40),
					.cat = 1,
					.src = 2 };
	}
	assert_int_equal(writer__block(w, 0, 0, ev, N, NULL, 0), 0);
	r = finish_and_open(w, fd);
	assert_int_equal(recording__state(r)->events, N);
	assert_true(recording__state(r)->bytes <= N * 7);
	recording__close(r);
	close(fd);
	free(ev);
	samples__free(s);
}

static void many_distinct_names_stay_bounded(void **state)
{
	enum { CALLS = 1000000, CAP = 20000, BATCH = 1000 };
	struct strpool *names = strpool__new(CAP, 1u << 20);
	struct event *ev = calloc(BATCH, sizeof(*ev));
	struct recording_meta meta = { 0 };
	struct process_info p = { .pid = 1 };
	struct thread_info t = { .tid = 1 };
	int fd = samples__memfd();
	struct recording_writer *w;
	struct recording *r;
	uint32_t index, i, k, full;
	char text[40];

	(void)state;
	assert_int_equal(writer__create_fd(dup(fd), &meta, names, NULL, &w, NULL), 0);
	assert_int_equal(writer__add_process(w, &p, &index), 0);
	assert_int_equal(writer__add_thread(w, &t, &index), 0);
	for (i = 0; i < CALLS / BATCH; i++) {
		for (k = 0; k < BATCH; k++) {
			snprintf(text, sizeof(text), "request %u of many", i * BATCH + k);
			ev[k] = (struct event){ .kind = EV_SPAN,
						.ts = i * BATCH + k,
						.name = strpool__ids(names, text) };
		}
		assert_int_equal(writer__block(w, 0, 0, ev, BATCH, NULL, 0), 0);
	}
	assert_int_equal(strpool__count(names), CAP + 1);
	r = finish_and_open(w, fd);
	assert_int_equal(recording__state(r)->events, CALLS);
	assert_int_equal(strpool__count(recording__names(r)), CAP + 1);
	full = strpool__ids(names, "(too many distinct names)");
	assert_int_equal(ev[BATCH - 1].name, full);
	recording__close(r);
	close(fd);
	free(ev);
	strpool__free(names);
}

static void a_name_of_any_bytes_survives_and_a_huge_one_is_cut(void **state)
{
	struct samples *s = samples__new(1);
	char *huge = calloc(1, 100000);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, NULL);
	struct event ev[3] = { { .kind = EV_INSTANT },
			       { .kind = EV_INSTANT },
			       { .kind = EV_INSTANT } };
	struct block_reader br;
	struct recording *r;
	struct event got;

	(void)state;
	memset(huge, 'x', 100000);
	ev[0].name = strpool__id(s->names, "a\0b\xff\n", 5);
	ev[1].name = strpool__id(s->names, huge, 100000);
	ev[2].name = strpool__id(s->names, "", 0);
	assert_int_equal(writer__block(w, 0, 0, ev, 3, NULL, 0), 0);
	r = finish_and_open(w, fd);
	assert_int_equal(block_reader__init(&br, r, 0), 0);
	assert_int_equal(block_reader__next(&br, &got), 1);
	assert_int_equal(strpool__len(recording__names(r), got.name), 5);
	assert_memory_equal(strpool__str(recording__names(r), got.name), "a\0b\xff\n", 5);
	assert_int_equal(block_reader__next(&br, &got), 1);
	assert_int_equal(strpool__len(recording__names(r), got.name), 4095);
	assert_int_equal(block_reader__next(&br, &got), 1);
	assert_int_equal(strpool__len(recording__names(r), got.name), 0);
	recording__close(r);
	close(fd);
	free(huge);
	samples__free(s);
}

static void readers_may_be_interleaved_left_and_used_again(void **state)
{
	struct samples *s = samples__new(11);
	int fd = samples__memfd();
	struct recording_writer *w = samples__writer(s, fd, NULL);
	struct block_reader br[64];
	struct event ev;
	struct recording *r;
	size_t i, k;

	(void)state;
	for (i = 0; i < 64; i++) {
		struct event in[50];

		for (k = 0; k < 50; k++)
			in[k] = (struct event){ .kind = EV_INSTANT, .ts = i * 1000 + k, .name = 1 };
		assert_int_equal(writer__block(w, i % SAMPLE_THREADS, 0, in, 50, NULL, 0), 0);
	}
	r = finish_and_open(w, fd);
	assert_int_equal(recording__n_blocks(r), 64);
	for (i = 0; i < 64; i++)
		assert_int_equal(block_reader__init(&br[i], r, i), 0);
	for (i = 0; i < 64; i += 3)
		block_reader__stop(&br[i]);
	for (i = 0; i < 64; i += 3)
		assert_int_equal(block_reader__next(&br[i], &ev), 0);
	for (i = 0; i < 64; i += 3)
		assert_int_equal(block_reader__init(&br[i], r, i), 0);
	for (i = 0; i < 64; i += 2) /* again without having ended the first time */
		assert_int_equal(block_reader__init(&br[i], r, i), 0);
	for (k = 0; k < 50; k++)
		for (i = 0; i < 64; i++) {
			assert_int_equal(block_reader__next(&br[i], &ev), 1);
			assert_int_equal(ev.ts, i * 1000 + k);
		}
	assert_int_equal(block_reader__init(&br[0], r, recording__n_blocks(r)), -EINVAL);
	assert_int_equal(block_reader__next(&br[0], &ev), 0);
	recording__close(r);
	close(fd);
	samples__free(s);
}

static void arguments_of_the_last_event_live_until_the_next_call(void **state)
{
	static const char *const texts[] = { "short", "" };
	struct samples *s = samples__new(1);
	char *large = malloc(60000);
	int fd = samples__memfd(), i;
	struct recording_writer *w = samples__writer(s, fd, NULL);
	struct block_reader br[3];
	struct event got[3];
	struct recording *r;

	(void)state;
	memset(large, 'L', 60000);
	for (i = 0; i < 3; i++) {
		struct event_arg a = { .key = 1,
				       .type = ARG_STR,
				       .str = i == 2 ? large : texts[i],
				       .len = i == 2 ? 60000 : (uint16_t)strlen(texts[i]) };
		struct event ev = { .kind = EV_INSTANT, .nargs = 1, .args = &a };

		assert_int_equal(writer__block(w, 0, 0, &ev, 1, NULL, 0), 0);
	}
	r = finish_and_open(w, fd);
	for (i = 0; i < 3; i++) {
		assert_int_equal(block_reader__init(&br[i], r, (size_t)i), 0);
		assert_int_equal(block_reader__next(&br[i], &got[i]), 1);
	}
	for (i = 0; i < 3; i++) {
		assert_int_equal(got[i].args[0].len, i == 2 ? 60000 : strlen(texts[i]));
		assert_memory_equal(got[i].args[0].str, i == 2 ? large : texts[i],
				    got[i].args[0].len);
	}
	recording__close(r);
	close(fd);
	free(large);
	samples__free(s);
}

static void the_file_is_private_and_replaces_only_files(void **state)
{
	char dir[] = "/tmp/test_recording.XXXXXX", path[100], link[100];
	struct recording_meta meta = { 0 };
	struct strpool *names = strpool__new(0, 0);
	struct recording_writer *w = NULL;
	struct recording *r;
	struct clika_error err;
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/recording.clika", dir);
	snprintf(link, sizeof(link), "%s/link.clika", dir);
	assert_int_equal(writer__create(path, &meta, names, NULL, &w, &err), 0);
	/* there, readable and incomplete from the beginning */
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(recording__open(path, &r, &err), 0);
	assert_true(recording__state(r)->incomplete);
	recording__close(r);
	assert_int_equal(writer__finish(w, &err), 0);
	assert_int_equal(recording__open(path, &r, &err), 0);
	assert_false(recording__state(r)->incomplete);
	recording__close(r);

	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(writer__create(link, &meta, names, NULL, &w, &err), -EEXIST);
	assert_null(w);
	assert_int_equal(writer__create(dir, &meta, names, NULL, &w, &err), -EISDIR);
	assert_int_equal(writer__create("/nowhere/at/all", &meta, names, NULL, &w, &err), -ENOENT);
	assert_int_equal(recording__open("/nowhere/at/all", &r, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "/nowhere/at/all"));
	assert_int_equal(recording__open(dir, &r, &err), -EINVAL);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0); /* nothing else was left in it */
	strpool__free(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_back_every_kind_field_flag_and_argument),
		cmocka_unit_test(gives_back_events_of_many_small_segments),
		cmocka_unit_test(gives_back_calls_larger_than_a_block_and_a_segment),
		cmocka_unit_test(a_recording_without_events_is_complete_and_empty),
		cmocka_unit_test(times_at_both_ends_of_the_range_survive),
		cmocka_unit_test(refuses_what_cannot_be_stored_and_stays_usable),
		cmocka_unit_test(the_newest_definition_counts),
		cmocka_unit_test(gives_back_meta_losses_counts_captures_anchors_and_warnings),
		cmocka_unit_test(each_cause_and_kind_has_a_name),
		cmocka_unit_test(a_span_without_arguments_takes_few_bytes),
		cmocka_unit_test(many_distinct_names_stay_bounded),
		cmocka_unit_test(a_name_of_any_bytes_survives_and_a_huge_one_is_cut),
		cmocka_unit_test(readers_may_be_interleaved_left_and_used_again),
		cmocka_unit_test(arguments_of_the_last_event_live_until_the_next_call),
		cmocka_unit_test(the_file_is_private_and_replaces_only_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
