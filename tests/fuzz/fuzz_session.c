// SPDX-License-Identifier: Apache-2.0
/*
 * Events that no sane target sends, in a file that is well formed: every eight bytes of the input
 * are one event or one capture. What the walk gives must be in order and balanced, and every
 * exporter must come to its end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/exporter.h"

#include "tests/common/rec_builder.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define THREADS 4
#define EPOCH 1000000000000ull

static const char *const names[] = { "a", "b", "\xff", "\"\n", "" };

static void add_event(struct rec *b, const uint32_t *thread, const uint8_t *p, uint64_t *ts)
{
	uint8_t kind = p[0] % EV_KIND_COUNT;
	const char *name = names[p[6] % ARRAY_SIZE(names)];
	uint64_t length = (uint64_t)(p[4] & 15) << (p[4] >> 4) * 3;
	struct event *ev;

	*ts += (uint64_t)p[3] << (p[1] >> 6) * 6;
	rec__stream(b, p[1] >> 2 & 3);
	if (!kind) {
		rec__capture(b, *ts, p[2] & 1 ? 0 : *ts + length, name);
		return;
	}
	if (kind == EV_SPAN && p[2] & 1) {
		rec__open_span(b, thread[p[1] & 3], *ts, p[2] & 2 ? *ts + length : 0, name);
		return;
	}
	ev = rec__event(b, thread[p[1] & 3], kind, *ts, name);
	if (kind == EV_SPAN)
		ev->dur = length;
	ev->id = p[5] & 7;
	ev->value = (uint64_t)p[7] << (p[5] >> 3) * 2;
	ev->aux = p[5] >> 7;
	ev->pool = rec__id(b, p[7] & 1 ? name : NULL);
	if (p[2] & 4)
		rec__arg_str(b, name, name, strlen(name));
	if (p[2] & 8)
		ev->flags = (uint16_t)(p[2] & 0xf0);
}

struct tally {
	uint64_t ts, open, asyncs, items;
};

static int check(void *ctx, const struct item *it)
{
	struct tally *t = ctx;

	if (it->ts < t->ts)
		abort();
	t->ts = it->ts;
	t->items++;
	t->open += it->kind == IT_SPAN_BEGIN;
	t->asyncs += it->kind == IT_ASYNC_BEGIN;
	if ((it->kind == IT_SPAN_END && !t->open--) || (it->kind == IT_ASYNC_END && !t->asyncs--))
		abort();
	if (it->kind == IT_SPAN_BEGIN && it->span->parent &&
	    it->ts + it->ev->dur > it->span->parent->ev.ts + it->span->parent->ev.dur)
		abort();
	return 0;
}

static void walk_and_export(const struct recording *r, const struct session_opts *o)
{
	struct tally once = { 0 }, twice = { 0 };
	struct buf b = { 0 };
	struct session *s;
	size_t i;

	if (session__new(r, o, &s, NULL))
		return; /* no such capture */
	if (session__walk(s, check, &once) || session__walk(s, check, &twice))
		abort();
	if (once.open || once.asyncs || once.items != twice.items)
		abort();
	for (i = 0; exporters[i]; i++) {
		struct export_job job = { .ops = exporters[i] };

		buf__reset(&b);
		if (outfile__memory(&b, &job.out) || exporter__run(s, &job, 1, NULL, NULL))
			abort();
	}
	buf__free(&b);
	session__free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session_opts all = { .outside_captures = true }, captured = { 0 };
	struct session_opts part = {
		.from = 1000, .to = 100000, .relative = true, .name_glob = "[ab]"
	};
	struct rec *b = rec__new();
	uint32_t thread[THREADS], p = 0;
	const struct recording *r;
	uint64_t ts = EPOCH;
	size_t i;

	for (i = 0; i < THREADS; i++) {
		if (i % 2 == 0)
			p = rec__process(b, 100, "p");
		thread[i] = rec__thread(b, p, 100 + (uint32_t)i / 2, "t");
	}
	if (size && data[0] & 1)
		rec__anchor(b, EPOCH, 1);
	if (size && data[0] & 2)
		rec__process_info(b, p)->ended = EPOCH + 5000;
	rec__layout(b, 1 + (size ? data[0] >> 2 & 7 : 0), 0);
	for (i = 1; i + 8 <= size && i < 8 * 400; i += 8)
		add_event(b, thread, data + i, &ts);
	r = rec__open(b);
	walk_and_export(r, &all);
	walk_and_export(r, &captured);
	walk_and_export(r, &part);
	rec__free(b);
	return 0;
}
