// SPDX-License-Identifier: Apache-2.0
/* Chains: begins joined with ends within and across blocks, repair, order, filters. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/recording/reader.h"
#include "user/stream/chain.h"

struct bench {
	struct strpool *pool;
	struct chain_env env;
	struct recording *r;
	int fd;
	uint32_t thread;
	struct chain *c;
};

struct seen {
	struct event ev;
	uint64_t end; /* 0 = never */
	char name[32], arg[2][32];
	uint16_t end_flags;
};

static struct bench *bench__new(void)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct recording_meta m = { .tool = "test", .version = "0" };
	struct writer_opts o = { .owner = (uid_t)-1 };
	struct process_info p = { .pid = 10, .start = 1, .first_seen = 1 };
	struct thread_info t = { .tid = 10, .start = 1 };
	int fd;

	b->pool = strpool__new(1000, 1 << 20);
	fd = memfd_create("chain", 0);
	b->fd = dup(fd);
	assert_int_equal(writer__create_fd(fd, &m, b->pool, &o, &b->env.w, NULL), 0);
	assert_int_equal(writer__add_process(b->env.w, &p, &t.process), 0);
	assert_int_equal(writer__add_thread(b->env.w, &t, &b->thread), 0);
	b->env.next_stream = 1;
	b->c = chain__new(&b->env, b->thread);
	assert_non_null(b->c);
	return b;
}

static void bench__read(struct bench *b)
{
	struct clika_error err = { 0 };

	assert_int_equal(chain__flush(b->c), 0);
	chain__free(b->c);
	assert_int_equal(b->env.pending_bytes, 0);
	assert_int_equal(writer__finish(b->env.w, &err), 0);
	assert_int_equal(recording__open_fd(b->fd, &b->r, &err), 0);
}

static void bench__free(struct bench *b)
{
	recording__close(b->r);
	close(b->fd);
	strpool__free(b->pool);
	free(b);
}

static void ask(struct bench *b, struct seen *s, const struct event *ev)
{
	const struct span_end *e;

	memset(s, 0, sizeof(*s));
	s->ev = *ev;
	snprintf(s->name, sizeof(s->name), "%s", strpool__str(recording__names(b->r), ev->name));
	for (unsigned i = 0; i < ev->nargs && i < 2; i++)
		if (ev->args[i].type == ARG_STR)
			snprintf(s->arg[i], sizeof(s->arg[i]), "%.*s", ev->args[i].len,
				 ev->args[i].str);
	s->end = ev->ts + ev->dur;
	if (ev->kind == EV_SPAN && ev->flags & EVS_OPEN) {
		e = recording__span_end(b->r, ev->id);
		s->end = e ? e->ts : 0;
		s->end_flags = e ? e->flags : 0;
	}
}

static size_t all(struct bench *b, struct seen *out, size_t max)
{
	struct block_reader br;
	struct event ev;
	size_t n = 0;

	for (size_t i = 0; i < recording__n_blocks(b->r); i++) {
		uint64_t last = 0;

		assert_int_equal(block_reader__init(&br, b->r, i), 0);
		while (block_reader__next(&br, &ev) == 1) {
			assert_true(n < max);
			assert_true(ev.ts >= last);
			last = ev.ts;
			ask(b, &out[n++], &ev);
		}
	}
	return n;
}

static const struct seen *find(const struct seen *s, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(s[i].name, name))
			return &s[i];
	fail_msg("no span %s", name);
	return NULL;
}

static struct event span(struct bench *b, const char *name, uint64_t ts, uint64_t dur)
{
	return (struct event){
		.kind = EV_SPAN, .ts = ts, .dur = dur, .name = strpool__ids(b->pool, name)
	};
}

static void begin(struct bench *b, uint64_t key, const char *name, uint64_t ts)
{
	struct event ev = span(b, name, ts, 0);

	assert_int_equal(chain__begin(b->c, key, &ev), 0);
}

static void joins_a_begin_with_its_end_in_one_block(void **state)
{
	struct bench *b = bench__new();
	struct seen s[4];

	(void)state;
	begin(b, 0, "a", 100);
	assert_int_equal(chain__end(b->c, 0, 150, 0, NULL, 0), 1);
	bench__read(b);
	assert_int_equal(all(b, s, 4), 1);
	assert_int_equal(s[0].ev.flags, 0);
	assert_int_equal(s[0].ev.dur, 50);
	bench__free(b);
}

static void announces_what_is_open_at_a_flush_once_and_ends_it_later(void **state)
{
	struct bench *b = bench__new();
	struct seen s[4];
	size_t n;

	(void)state;
	begin(b, 0, "outer", 100);
	begin(b, 1, "inner", 110);
	assert_int_equal(chain__flush(b->c), 0);
	assert_int_equal(chain__flush(b->c), 0);
	assert_int_equal(chain__end(b->c, 1, 120, 0, NULL, 0), 1);
	assert_int_equal(chain__flush(b->c), 0);
	assert_int_equal(chain__end(b->c, 0, 130, 0, NULL, 0), 1);
	bench__read(b);
	n = all(b, s, 4);
	assert_int_equal(n, 2);
	assert_int_equal(find(s, n, "outer")->end, 130);
	assert_int_equal(find(s, n, "inner")->end, 120);
	assert_true(s[0].ev.id != s[1].ev.id);
	bench__free(b);
}

static void an_end_closes_what_was_left_open_deeper(void **state)
{
	struct bench *b = bench__new();
	struct seen s[4];
	size_t n;

	(void)state;
	begin(b, 0, "a", 100);
	begin(b, 1, "b", 110);
	begin(b, 2, "c", 120);
	assert_int_equal(chain__end(b->c, 0, 200, 0, NULL, 0), 1);
	assert_int_equal(chain__end(b->c, 1, 210, 0, NULL, 0), 0);
	assert_int_equal(chain__depth(b->c), 0);
	bench__read(b);
	n = all(b, s, 4);
	assert_int_equal(find(s, n, "a")->ev.flags, 0);
	assert_int_equal(find(s, n, "b")->ev.flags, EVS_UNFINISHED);
	assert_int_equal(find(s, n, "c")->ev.flags, EVS_UNFINISHED);
	assert_int_equal(find(s, n, "c")->end, 200);
	bench__free(b);
}

static void an_end_without_a_begin_changes_nothing(void **state)
{
	struct bench *b = bench__new();
	struct seen s[4];

	(void)state;
	begin(b, 5, "a", 100);
	assert_int_equal(chain__end(b->c, 4, 110, 0, NULL, 0), 0);
	assert_int_equal(chain__depth(b->c), 1);
	assert_int_equal(chain__end(b->c, 5, 120, 0, NULL, 0), 1);
	bench__read(b);
	assert_int_equal(all(b, s, 4), 1);
	assert_int_equal(s[0].end, 120);
	bench__free(b);
}

static void times_out_of_order_go_to_a_further_stream(void **state)
{
	struct bench *b = bench__new();
	struct seen s[300];
	struct event ev;
	size_t n;

	(void)state;
	/* Post-order at three levels: children, then what holds them. */
	for (int outer = 0; outer < 10; outer++) {
		for (int mid = 0; mid < 5; mid++) {
			for (int leaf = 0; leaf < 3; leaf++) {
				ev = span(b, "leaf", 1000 * (outer + 1) + 100 * mid + 20 * leaf + 2,
					  5);
				assert_int_equal(chain__event(b->c, &ev), 0);
			}
			ev = span(b, "mid", 1000 * (outer + 1) + 100 * mid + 1, 90);
			assert_int_equal(chain__event(b->c, &ev), 0);
		}
		ev = span(b, "outer", 1000 * (outer + 1), 900);
		assert_int_equal(chain__event(b->c, &ev), 0);
	}
	bench__read(b);
	n = all(b, s, 300); /* checks the order inside of every block */
	assert_int_equal(n, 10 + 50 + 150);
	assert_true(recording__n_blocks(b->r) <= 4);
	bench__free(b);
}

static void joins_arguments_of_begin_and_end(void **state)
{
	struct bench *b = bench__new();
	struct event_arg in = {
		.key = strpool__ids(b->pool, "in"), .type = ARG_STR, .len = 5, .str = "hello"
	};
	struct event_arg out = {
		.key = strpool__ids(b->pool, "out"), .type = ARG_STR, .len = 3, .str = "bye"
	};
	struct event ev = span(b, "a", 100, 0);
	char filler[1000];
	struct event_arg big = {
		.key = in.key, .type = ARG_STR, .len = sizeof(filler), .str = filler
	};
	struct seen s[300];

	(void)state;
	memset(filler, 'x', sizeof(filler));
	ev.nargs = 1;
	ev.args = &in;
	assert_int_equal(chain__begin(b->c, 0, &ev), 0);
	/* Text in between moves the memory that holds "hello". */
	for (int i = 0; i < 200; i++) {
		struct event x = {
			.kind = EV_INSTANT, .ts = 101 + i, .name = ev.name, .nargs = 1, .args = &big
		};

		assert_int_equal(chain__event(b->c, &x), 0);
	}
	assert_int_equal(chain__end(b->c, 0, 400, 0, &out, 1), 1);
	bench__read(b);
	assert_int_equal(all(b, s, 300), 201);
	assert_int_equal(s[0].ev.nargs, 2);
	assert_string_equal(s[0].arg[0], "hello");
	assert_string_equal(s[0].arg[1], "bye");
	bench__free(b);
}

static void leaves_out_spans_below_the_minimum_and_counts_them(void **state)
{
	struct bench *b = bench__new();
	struct event ev;
	struct seen s[8];
	size_t n;

	(void)state;
	b->env.min_duration_ns = 50;
	begin(b, 0, "kept", 100);
	begin(b, 1, "short", 110);
	chain__end(b->c, 1, 120, 0, NULL, 0);
	ev = span(b, "flat", 130, 10);
	chain__event(b->c, &ev);
	begin(b, 1, "open", 140);
	chain__flush(b->c);
	chain__end(b->c, 1, 145, 0, NULL, 0);
	chain__end(b->c, 0, 200, 0, NULL, 0);
	bench__read(b);
	n = all(b, s, 8);
	/* What was open at the flush is in the file already: its length was not known. */
	assert_int_equal(n, 2);
	assert_int_equal(find(s, n, "kept")->end, 200);
	assert_int_equal(find(s, n, "open")->end, 145);
	assert_int_equal(b->env.filtered, 2);
	bench__free(b);
}

static void hidden_begins_take_their_ends_along(void **state)
{
	struct bench *b = bench__new();
	struct seen s[4];

	(void)state;
	begin(b, 0, "a", 100);
	assert_int_equal(chain__begin_hidden(b->c, 1), 0);
	assert_int_equal(chain__end(b->c, 1, 110, 0, NULL, 0), 1);
	assert_int_equal(chain__depth(b->c), 1);
	assert_int_equal(chain__end(b->c, 0, 120, 0, NULL, 0), 1);
	bench__read(b);
	assert_int_equal(all(b, s, 4), 1);
	bench__free(b);
}

static bool above(uint64_t key, void *ctx)
{
	return key <= *(uint64_t *)ctx;
}

static void unwinds_frames_that_were_jumped_out_of(void **state)
{
	struct bench *b = bench__new();
	uint64_t sp = 900;
	struct seen s[8];
	size_t n;

	(void)state;
	begin(b, 1000, "main", 100);
	begin(b, 900, "f", 110);
	begin(b, 800, "g", 120);
	chain__unwind(b->c, 130, above, &sp);
	assert_int_equal(chain__depth(b->c), 1);
	begin(b, 900, "h", 130);
	chain__end(b->c, 900, 140, 0, NULL, 0);
	chain__end(b->c, 1000, 150, 0, NULL, 0);
	bench__read(b);
	n = all(b, s, 8);
	assert_int_equal(find(s, n, "f")->ev.flags & EVS_UNFINISHED, EVS_UNFINISHED);
	assert_int_equal(find(s, n, "g")->end, 130);
	assert_int_equal(find(s, n, "h")->ev.flags, 0);
	bench__free(b);
}

static void the_end_of_a_thread_closes_everything(void **state)
{
	struct bench *b = bench__new();
	struct seen s[4];
	size_t n;

	(void)state;
	begin(b, 0, "a", 100);
	chain__flush(b->c);
	begin(b, 1, "b", 110);
	chain__close_all(b->c, 500);
	assert_false(chain__idle(b->c));
	bench__read(b);
	n = all(b, s, 4);
	assert_int_equal(find(s, n, "a")->end, 500);
	assert_int_equal(find(s, n, "a")->end_flags, EVS_UNFINISHED);
	assert_int_equal(find(s, n, "b")->ev.flags, EVS_UNFINISHED);
	bench__free(b);
}

static void an_end_before_its_begin_gives_no_negative_length(void **state)
{
	struct bench *b = bench__new();
	struct seen s[4];

	(void)state;
	begin(b, 0, "a", 100);
	chain__end(b->c, 0, 40, 0, NULL, 0);
	bench__read(b);
	assert_int_equal(all(b, s, 4), 1);
	assert_int_equal(s[0].ev.dur, 0);
	bench__free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(joins_a_begin_with_its_end_in_one_block),
		cmocka_unit_test(announces_what_is_open_at_a_flush_once_and_ends_it_later),
		cmocka_unit_test(an_end_closes_what_was_left_open_deeper),
		cmocka_unit_test(an_end_without_a_begin_changes_nothing),
		cmocka_unit_test(times_out_of_order_go_to_a_further_stream),
		cmocka_unit_test(joins_arguments_of_begin_and_end),
		cmocka_unit_test(leaves_out_spans_below_the_minimum_and_counts_them),
		cmocka_unit_test(hidden_begins_take_their_ends_along),
		cmocka_unit_test(unwinds_frames_that_were_jumped_out_of),
		cmocka_unit_test(the_end_of_a_thread_closes_everything),
		cmocka_unit_test(an_end_before_its_begin_gives_no_negative_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
