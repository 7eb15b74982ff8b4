// SPDX-License-Identifier: Apache-2.0
/*
 * speedscope: one evented profile a thread. The walk gives all threads in one order, the format
 * wants one after the other, so opens and closes wait in a spool.
 */
#include "export/exporter.h"
#include "export/json_emit.h"
#include "export/spool.h"
#include "export/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct speedscope_track {
	uint64_t first, last; /* times of its events; first: UINT64_MAX when there are none */
};

struct speedscope {
	struct session *s;
	struct json j;
	struct spool *spool;
	struct stack_frames frames;
	struct speedscope_track *tracks;
	uint64_t base;
	uint32_t *stack; /* open frames while a thread is written */
	size_t n_stack, cap_stack;
};

/* A record: 1 opens, 0 closes; time since the one before; what opens: its frame. */
static int speedscope__item(void *state, const struct item *it)
{
	struct speedscope *sc = state;
	struct speedscope_track *t;
	uint8_t bytes[32];
	struct buf b = { .data = bytes, .cap = sizeof(bytes) };
	uint32_t frame;

	if (it->kind != IT_SPAN_BEGIN && it->kind != IT_SPAN_END)
		return 0;
	t = &sc->tracks[it->track->index];
	buf__u8(&b, it->kind == IT_SPAN_BEGIN);
	buf__varint(&b, it->ts - t->last);
	t->last = it->ts;
	if (it->ts < t->first)
		t->first = it->ts;
	if (it->kind == IT_SPAN_BEGIN) {
		frame = stack_frames__of(&sc->frames, it->ev);
		if (frame == STACK_NONE)
			return -ENOMEM;
		buf__varint(&b, frame);
	}
	return spool__put(sc->spool, it->track->index, b.data, b.len);
}

static int push(struct speedscope *sc, uint32_t frame)
{
	uint32_t *bigger;

	if (sc->n_stack == sc->cap_stack) {
		size_t cap = sc->cap_stack ? sc->cap_stack * 2 : 64;

		bigger = realloc(sc->stack, cap * sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		sc->stack = bigger;
		sc->cap_stack = cap;
	}
	sc->stack[sc->n_stack++] = frame;
	return 0;
}

static int put_events(struct speedscope *sc, size_t track)
{
	struct spool_reader r;
	uint64_t at = sc->base;
	uint32_t frame;
	bool opens;
	int err = 0;

	sc->n_stack = 0;
	spool_reader__init(&r, sc->spool, track);
	while (!err && spool_reader__more(&r)) {
		opens = cursor__u8(&r.c);
		at += cursor__varint(&r.c);
		if (opens) {
			frame = (uint32_t)cursor__varint(&r.c);
			err = push(sc, frame);
		} else if (sc->n_stack) {
			frame = sc->stack[--sc->n_stack];
		} else {
			err = -EIO;
		}
		if (err)
			break;
		json__line(&sc->j);
		json__object(&sc->j);
		json__key(&sc->j, "type");
		json__raw(&sc->j, opens ? "\"O\"" : "\"C\"", 3);
		json__key(&sc->j, "frame");
		json__u64(&sc->j, frame);
		json__key(&sc->j, "at");
		json__u64(&sc->j, at - sc->base);
		json__end_object(&sc->j);
	}
	err = err ? err : r.err;
	spool_reader__free(&r);
	return err;
}

/* A span that reaches over the edge of a filter has its true times: so all threads may differ. */
static void put_profile_head(struct speedscope *sc, const char *name, size_t len, uint64_t first,
			     uint64_t last)
{
	uint64_t begin = session__begin(sc->s), end = session__end(sc->s);

	json__line(&sc->j);
	json__object(&sc->j);
	json__key(&sc->j, "type");
	json__cstr(&sc->j, "evented");
	json__key(&sc->j, "name");
	json__str(&sc->j, name, len);
	json__key(&sc->j, "unit");
	json__cstr(&sc->j, "nanoseconds");
	json__key(&sc->j, "startValue");
	json__u64(&sc->j, (first < begin ? first : begin) - sc->base);
	json__key(&sc->j, "endValue");
	json__u64(&sc->j, (last > end ? last : end) - sc->base);
	json__key(&sc->j, "events");
	json__array(&sc->j);
}

static int put_profile(struct speedscope *sc, const struct track *t)
{
	const struct speedscope_track *st = &sc->tracks[t->index];
	struct buf name = { 0 }, thread = { 0 };
	int err;

	stacks__process_name(&name, t);
	stacks__thread_name(&thread, t);
	buf__u8(&thread, 0);
	err = buf__error(&thread);
	if (!err)
		buf__printf(&name, " %u/%u (%s)", t->pid, t->tid, (const char *)thread.data);
	err = err ? err : buf__error(&name);
	if (!err) {
		put_profile_head(sc, (const char *)name.data, name.len, st->first, st->last);
		err = put_events(sc, t->index);
		json__end_array(&sc->j);
		json__end_object(&sc->j);
	}
	buf__free(&name);
	buf__free(&thread);
	return err ? err : sc->j.err;
}

/* The viewer shows the first profile; a file without one it cannot show. */
static int put_profiles(struct speedscope *sc)
{
	static const char nothing[] = "nothing recorded";
	size_t i, n = 0;
	int err = 0;

	json__key(&sc->j, "profiles");
	json__array(&sc->j);
	for (i = 0; !err && i < session__n_tracks(sc->s); i++) {
		if (!spool__has(sc->spool, i))
			continue;
		err = put_profile(sc, session__track(sc->s, i));
		n++;
	}
	if (!n) {
		put_profile_head(sc, nothing, sizeof(nothing) - 1, UINT64_MAX, 0);
		json__end_array(&sc->j);
		json__end_object(&sc->j);
	}
	json__end_array(&sc->j);
	return err;
}

static void put_frames(struct speedscope *sc)
{
	const char *name, *src;
	size_t len, file_len;
	uint32_t i, line;

	json__key(&sc->j, "shared");
	json__object(&sc->j);
	json__key(&sc->j, "frames");
	json__array(&sc->j);
	for (i = 0; i < sc->frames.n; i++) {
		name = stack_frames__name(&sc->frames, sc->s, i, &len);
		src = session__str(sc->s, sc->frames.of[i].src);
		line = stacks__line(src, &file_len);
		json__line(&sc->j);
		json__object(&sc->j);
		json__key(&sc->j, "name");
		json__str(&sc->j, name, len);
		if (file_len) {
			json__key(&sc->j, "file");
			json__str(&sc->j, src, file_len);
		}
		if (line) {
			json__key(&sc->j, "line");
			json__u64(&sc->j, line);
		}
		json__end_object(&sc->j);
	}
	json__end_array(&sc->j);
	json__end_object(&sc->j);
}

static int speedscope__close(void *state, struct clika_error *err)
{
	struct speedscope *sc = state;
	const struct recording_meta *m = recording__meta(session__recording(sc->s));
	struct buf b = { 0 };
	int code;

	(void)err;
	json__object(&sc->j);
	json__key(&sc->j, "$schema");
	json__cstr(&sc->j, "https://www.speedscope.app/file-format-schema.json");
	buf__printf(&b, "%s@%s", m->tool ? m->tool : "clika-bpf-prof",
		    m->version ? m->version : "");
	json__key(&sc->j, "exporter");
	json__str(&sc->j, (const char *)b.data, b.len);
	json__key(&sc->j, "name");
	json__cstr(&sc->j, m->targets ? m->targets : "");
	json__key(&sc->j, "activeProfileIndex");
	json__u64(&sc->j, 0);
	code = buf__error(&b);
	buf__free(&b);
	if (!code)
		code = put_profiles(sc);
	put_frames(sc);
	json__end_object(&sc->j);
	return code ? code : json__flush(&sc->j);
}

static void speedscope__free(void *state)
{
	struct speedscope *sc = state;

	spool__free(sc->spool);
	stack_frames__free(&sc->frames);
	json__free(&sc->j);
	free(sc->tracks);
	free(sc->stack);
	free(sc);
}

static int speedscope__open(struct session *s, struct outfile *out, const struct export_opts *o,
			    void **state, struct clika_error *err)
{
	struct speedscope *sc = calloc(1, sizeof(*sc));
	size_t i, n = session__n_tracks(s);

	(void)o;
	if (!sc)
		return error__set(err, -ENOMEM, "out of memory");
	*state = sc;
	sc->s = s;
	sc->base = session__origin(s);
	json__init(&sc->j, out);
	sc->spool = spool__new(n);
	sc->tracks = calloc(n ? n : 1, sizeof(*sc->tracks));
	if (!sc->spool || !sc->tracks || stack_frames__init(&sc->frames))
		return error__set(err, -ENOMEM, "out of memory");
	for (i = 0; i < n; i++)
		sc->tracks[i] = (struct speedscope_track){ UINT64_MAX, sc->base };
	return 0;
}

const struct exporter_ops exporter_speedscope = {
	.format = "speedscope",
	.file = "speedscope.json",
	.summary = "speedscope: spans of each thread over time, left heavy, sandwich",
	.open = speedscope__open,
	.item = speedscope__item,
	.close = speedscope__close,
	.free = speedscope__free,
};
