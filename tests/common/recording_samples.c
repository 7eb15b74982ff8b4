// SPDX-License-Identifier: Apache-2.0
#include "tests/common/recording_samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#define N_NAMES 40

struct samples *samples__new(uint64_t seed)
{
	struct samples *s = calloc(1, sizeof(*s));
	char text[300];
	int i;

	assert_non_null(s);
	s->seed = seed * 0x9e3779b97f4a7c15ull + 1;
	s->ts = 1000;
	s->next_open_id = 1;
	s->names = strpool__new(0, 0);
	assert_non_null(s->names);
	for (i = 0; i < N_NAMES; i++) {
		memset(text, 'a' + i % 26, sizeof(text));
		assert_int_not_equal(
			strpool__id(s->names, text,
				    (size_t)snprintf(text, sizeof(text), "name %d", i) +
					    (i % 7 ? 1 : 200)),
			0);
	}
	return s;
}

static void *samples__alloc(struct samples *s, size_t n)
{
	void *p = calloc(1, n ? n : 1);

	assert_non_null(p);
	buf__append(&s->memory, &p, sizeof(p));
	return p;
}

void samples__free(struct samples *s)
{
	void **p = (void **)(void *)s->memory.data;
	size_t i;

	for (i = 0; i < s->memory.len / sizeof(*p); i++)
		free(p[i]);
	buf__free(&s->memory);
	free(s->blocks);
	strpool__free(s->names);
	free(s);
}

uint64_t samples__random(struct samples *s)
{
	s->seed ^= s->seed << 13;
	s->seed ^= s->seed >> 7;
	s->seed ^= s->seed << 17;
	return s->seed * 0x2545f4914f6cdd1dull;
}

uint64_t samples__extreme(struct samples *s)
{
	uint64_t r = samples__random(s);

	switch (r % 8) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return (uint64_t)1 << (r >> 8) % 64;
	case 3:
		return ((uint64_t)1 << (r >> 8) % 64) - 1;
	case 4:
		return INT64_MAX;
	default:
		return samples__random(s) >> (r >> 8) % 64;
	}
}

static uint32_t samples__name(struct samples *s)
{
	return (uint32_t)(samples__random(s) % (N_NAMES + 1));
}

static const struct event_arg *samples__args(struct samples *s, uint8_t *nargs)
{
	struct event_arg *a;
	unsigned i, n = samples__random(s) % 3
				? 0
				: (unsigned)(samples__random(s) % (EVENT_MAX_ARGS + 1));

	*nargs = (uint8_t)n;
	if (!n)
		return NULL;
	a = samples__alloc(s, n * sizeof(*a));
	for (i = 0; i < n; i++) {
		a[i].key = samples__name(s);
		a[i].type = (uint8_t)(1 + samples__random(s) % 4);
		if (a[i].type == ARG_STR) {
			uint64_t r = samples__random(s);
			char *text;

			a[i].len = (uint16_t)(r % 64 == 0 ? (r >> 8) % 65536 : (r >> 8) % 50);
			text = samples__alloc(s, a[i].len);
			for (r = 0; r < a[i].len; r++)
				text[r] = (char)(a[i].len * 31 + r);
			a[i].str = text;
		} else {
			a[i].u = samples__extreme(s);
		}
	}
	return a;
}

static void samples__event(struct samples *s, struct event *ev)
{
	ev->kind = (uint8_t)(1 + samples__random(s) % (EV_KIND_COUNT - 1));
	s->ts += samples__random(s) % 3 ? samples__random(s) % 5000
					: samples__random(s) >> 30 & 0xfffff;
	ev->ts = s->ts;
	ev->dur = samples__random(s) % 16 ? samples__random(s) % 100000 : samples__extreme(s);
	if (ev->dur > UINT64_MAX - ev->ts)
		ev->dur = UINT64_MAX - ev->ts;
	ev->id = samples__extreme(s);
	ev->value = samples__extreme(s);
	ev->aux = (uint32_t)samples__extreme(s);
	ev->name = samples__name(s);
	ev->cat = samples__name(s);
	ev->src = samples__name(s);
	ev->pool = samples__name(s);
	ev->flags = samples__random(s) % 4 ? 0 : (uint16_t)samples__random(s);
	if (ev->kind == EV_SPAN && (ev->flags & EVS_OPEN))
		ev->id = s->next_open_id++;
	ev->args = samples__args(s, &ev->nargs);
}

const struct sample_block *samples__block(struct samples *s, uint32_t thread, uint32_t stream,
					  size_t n, size_t n_ends)
{
	struct sample_block *b;
	size_t i;

	s->blocks = realloc(s->blocks, (s->n_blocks + 1) * sizeof(*s->blocks));
	assert_non_null(s->blocks);
	b = &s->blocks[s->n_blocks++];
	b->thread = thread;
	b->stream = stream;
	b->n = n;
	b->n_ends = n_ends;
	b->events = samples__alloc(s, n * sizeof(*b->events));
	b->ends = samples__alloc(s, n_ends * sizeof(*b->ends));
	for (i = 0; i < n; i++)
		samples__event(s, &b->events[i]);
	for (i = 0; i < n_ends; i++) {
		/* each id once, far from those of the events above, in no order */
		b->ends[i].open_id = (s->n_ends++ * 0x9e3779b97f4a7c15ull) | 1ull << 63;
		b->ends[i].ts = samples__extreme(s);
		b->ends[i].flags = (uint16_t)samples__extreme(s);
		b->ends[i].args = samples__args(s, &b->ends[i].nargs);
	}
	s->events += n;
	return b;
}

int samples__memfd(void)
{
	int fd = memfd_create("recording", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

struct recording_writer *samples__writer(struct samples *s, int fd, const struct writer_opts *opts)
{
	struct recording_meta meta = { .tool = (char *)"tool", .cpus = 3 };
	struct process_info p = { .pid = 100, .comm = (char *)"sample" };
	struct recording_writer *w;
	struct clika_error err;
	uint32_t i, index;

	assert_int_equal(writer__create_fd(dup(fd), &meta, s->names, opts, &w, &err), 0);
	assert_int_equal(writer__add_process(w, &p, &index), 0);
	assert_int_equal(index, 0);
	for (i = 0; i < SAMPLE_THREADS; i++) {
		struct thread_info t = { .process = 0, .tid = 100 + i };

		assert_int_equal(writer__add_thread(w, &t, &index), 0);
		assert_int_equal(index, i);
	}
	return w;
}

int samples__write(struct recording_writer *w, const struct sample_block *b)
{
	return writer__block(w, b->thread, b->stream, b->events, b->n, b->ends, b->n_ends);
}

static void assert_same_name(const struct samples *s, const struct recording *r, uint32_t want,
			     uint32_t got)
{
	const struct strpool *names = recording__names(r);

	assert_int_equal(strpool__len(names, got), strpool__len(s->names, want));
	assert_memory_equal(strpool__str(names, got), strpool__str(s->names, want),
			    strpool__len(names, got));
	assert_int_equal(!want, !got);
}

static void assert_same_args(const struct samples *s, const struct recording *r,
			     const struct event_arg *want, unsigned n_want,
			     const struct event_arg *got, unsigned n_got)
{
	unsigned i;

	assert_int_equal(n_got, n_want);
	for (i = 0; i < n_want; i++) {
		assert_same_name(s, r, want[i].key, got[i].key);
		assert_int_equal(got[i].type, want[i].type);
		if (want[i].type == ARG_STR) {
			assert_int_equal(got[i].len, want[i].len);
			assert_memory_equal(got[i].str, want[i].str, want[i].len);
		} else {
			assert_int_equal(got[i].u, want[i].u);
		}
	}
}

void samples__assert_event(const struct samples *s, const struct recording *r,
			   const struct event *want, const struct event *got)
{
	unsigned fields = event_kind__fields(want->kind);

	if (want->kind == EV_SPAN && (want->flags & EVS_OPEN))
		fields = EVF_ID;
	assert_int_equal(got->kind, want->kind);
	assert_int_equal(got->flags, want->flags);
	assert_int_equal(got->ts, want->ts);
	assert_int_equal(got->dur, fields & EVF_DUR ? want->dur : 0);
	assert_int_equal(got->id, fields & EVF_ID ? want->id : 0);
	assert_int_equal(got->value, fields & EVF_VALUE ? want->value : 0);
	assert_int_equal(got->aux, fields & EVF_AUX ? want->aux : 0);
	assert_same_name(s, r, want->name, got->name);
	assert_same_name(s, r, want->cat, got->cat);
	assert_same_name(s, r, want->src, got->src);
	assert_same_name(s, r, fields & EVF_POOL ? want->pool : 0, got->pool);
	assert_same_args(s, r, want->args, want->nargs, got->args, got->nargs);
}

/* Reads the events of one stream, block after block. */
struct stream_reader {
	size_t block;
	struct block_reader br;
	bool open;
};

static int stream__next(struct stream_reader *sr, const struct recording *r, uint32_t thread,
			uint32_t stream, struct event *ev)
{
	for (;;) {
		if (sr->open) {
			int got = block_reader__next(&sr->br, ev);

			assert_true(got >= 0);
			if (got)
				return 1;
			sr->open = false;
		}
		for (; sr->block < recording__n_blocks(r); sr->block++) {
			const struct recording_block *b = recording__block(r, sr->block);

			if (b->thread == thread && b->stream == stream)
				break;
		}
		if (sr->block == recording__n_blocks(r))
			return 0;
		assert_int_equal(block_reader__init(&sr->br, r, sr->block++), 0);
		sr->open = true;
	}
}

void samples__assert_all(const struct samples *s, const struct recording *r)
{
	struct stream_reader *at = calloc(SAMPLE_THREADS * SAMPLE_STREAMS, sizeof(*at));
	struct event ev;
	size_t i, k;

	assert_int_equal(recording__state(r)->events, s->events);
	for (i = 0; i < s->n_blocks; i++) {
		const struct sample_block *b = &s->blocks[i];
		struct stream_reader *sr = &at[b->thread * SAMPLE_STREAMS + b->stream];

		for (k = 0; k < b->n; k++) {
			assert_int_equal(stream__next(sr, r, b->thread, b->stream, &ev), 1);
			samples__assert_event(s, r, &b->events[k], &ev);
		}
		for (k = 0; k < b->n_ends; k++) {
			const struct span_end *e = recording__span_end(r, b->ends[k].open_id);

			assert_non_null(e);
			assert_int_equal(e->open_id, b->ends[k].open_id);
			assert_int_equal(e->ts, b->ends[k].ts);
			assert_int_equal(e->flags, b->ends[k].flags);
			assert_same_args(s, r, b->ends[k].args, b->ends[k].nargs, e->args,
					 e->nargs);
		}
	}
	for (i = 0; i < SAMPLE_THREADS * SAMPLE_STREAMS; i++)
		assert_int_equal(stream__next(&at[i], r, (uint32_t)i / SAMPLE_STREAMS,
					      (uint32_t)i % SAMPLE_STREAMS, &ev),
				 0);
	free(at);
}

uint64_t recording__read_everything(const struct recording *r)
{
	const struct strpool *names = recording__names(r);
	struct block_reader br;
	struct event ev;
	uint64_t n = 0, sum = 0;
	size_t i, k;

	for (i = 0; i < recording__n_processes(r); i++)
		sum += recording__process(r, i)->pid;
	for (i = 0; i < recording__n_threads(r); i++)
		assert_true(recording__thread(r, i)->process < recording__n_processes(r));
	for (i = 0; i < recording__n_captures(r); i++)
		sum += strlen(recording__capture(r, i)->tag);
	for (i = 0; i < recording__n_losses(r); i++)
		sum += recording__loss(r, i)->records;
	for (i = 0; i < recording__n_anchors(r); i++)
		sum += recording__anchor(r, i)->realtime;
	for (i = 0; i < recording__n_warnings(r); i++)
		sum += strlen(recording__warning(r, i)->text);
	sum += strlen(recording__meta(r)->tool);
	for (i = 0; i < recording__n_blocks(r); i++) {
		const struct recording_block *b = recording__block(r, i);
		uint64_t before = b->first_ts;

		assert_true(b->thread < recording__n_threads(r));
		if (block_reader__init(&br, r, i))
			continue;
		while (block_reader__next(&br, &ev) > 0) {
			assert_true(ev.ts >= before && ev.ts <= b->last_ts);
			assert_true(ev.dur <= b->last_end - ev.ts);
			assert_true(ev.kind && ev.kind < EV_KIND_COUNT);
			before = ev.ts;
			sum += strpool__len(names, ev.name) + strpool__len(names, ev.src);
			for (k = 0; k < ev.nargs; k++)
				sum += ev.args[k].type == ARG_STR && ev.args[k].len
					       ? (uint64_t)ev.args[k].str[ev.args[k].len - 1]
					       : ev.args[k].u;
			if (ev.flags & EVS_OPEN && ev.kind == EV_SPAN) {
				const struct span_end *e = recording__span_end(r, ev.id);

				sum += e ? e->ts : 0;
			}
			n++;
		}
	}
	/* used, so that no compiler leaves the reading out */
	assert_true(sum != 0x5eed5eed5eed5eedull);
	return n;
}
