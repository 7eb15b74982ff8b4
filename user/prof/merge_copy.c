// SPDX-License-Identifier: Apache-2.0
/* The events: block after block in the order of time, each with names, ids and times of the result. */
#include "user/prof/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_EVENTS 1024
#define CHUNK_BYTES (2u << 20) /* of strings; one event has less */

struct copy {
	struct merge *m;
	struct merge_input *in;
	uint32_t block;
	struct event *events;
	struct event_arg *args; /* EVENT_MAX_ARGS an event */
	struct event_arg *end_args;
	struct span_end *ends;
	size_t n, n_ends;
	char *text;
	size_t used;
};

uint32_t merge__name(struct merge *m, struct merge_input *in, uint32_t id)
{
	const struct strpool *from = recording__names(in->r);

	if (!id || id > strpool__count(from))
		return 0;
	if (!in->name_of[id])
		in->name_of[id] =
			strpool__id(m->names, strpool__str(from, id), strpool__len(from, id));
	return in->name_of[id];
}

/* --- arguments -------------------------------------------------------------------------------- */

static void copy_args(struct copy *c, struct event_arg *to, const struct event_arg *from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		to[i] = from[i];
		to[i].key = merge__name(c->m, c->in, from[i].key);
		if (from[i].type != ARG_STR)
			continue;
		memcpy(c->text + c->used, from[i].str, from[i].len);
		to[i].str = c->text + c->used;
		c->used += from[i].len;
	}
}

static size_t text_of(const struct event_arg *args, size_t n)
{
	size_t i, bytes = 0;

	for (i = 0; i < n; i++)
		bytes += args[i].type == ARG_STR ? args[i].len : 0;
	return bytes;
}

/* --- one block -------------------------------------------------------------------------------- */

static int flush(struct copy *c)
{
	const struct recording_block *b = recording__block(c->in->r, c->block);
	int err = 0;

	if (c->n)
		err = writer__block(c->m->w, c->in->thread_of[b->thread], b->stream, c->events,
				    c->n, c->ends, c->n_ends);
	c->n = c->n_ends = c->used = 0;
	return err;
}

/* When nothing closed it: the death of its thread or process did, or its recording's end. In the
 * result the recording goes on, so this has to be said here. */
static uint64_t left_open_until(const struct copy *c, uint64_t start)
{
	const struct recording_block *b = recording__block(c->in->r, c->block);
	const struct thread_info *t = recording__thread(c->in->r, b->thread);
	uint64_t end = t->ended ? t->ended : recording__process(c->in->r, t->process)->ended;

	if (!end || end > c->in->end)
		end = c->in->end;
	return end > start ? end : start;
}

/* Ends the span @to, which its block announced as open. */
static void close_span(struct copy *c, struct event *to, struct event_arg *args)
{
	const struct span_end *end = recording__span_end(c->in->r, to->id);
	struct span_end *e;

	if (end && (end->ts < to->ts || end->ts > c->in->horizon)) {
		c->in->bad_times++;
		end = NULL;
	}
	if (!end || to->nargs + end->nargs <= EVENT_MAX_ARGS) {
		to->flags &= (uint16_t)~EVS_OPEN;
		to->flags |= end ? end->flags : EVS_UNFINISHED;
		to->dur = (end ? end->ts : left_open_until(c, to->ts)) - to->ts;
		to->id = 0;
		if (end)
			copy_args(c, args + to->nargs, end->args, end->nargs);
		to->nargs += end ? end->nargs : 0;
		return;
	}
	to->id = ++c->m->next_open; /* too many arguments for one event */
	e = &c->ends[c->n_ends];
	*e = *end;
	e->open_id = to->id;
	e->ts += c->in->shift;
	e->args = c->end_args + c->n_ends * EVENT_MAX_ARGS;
	copy_args(c, c->end_args + c->n_ends * EVENT_MAX_ARGS, end->args, end->nargs);
	c->n_ends++;
}

static uint64_t capture_of(struct copy *c, uint64_t id)
{
	const uint64_t *ours = map64__get(c->in->captures, id);

	return ours ? *ours : 0;
}

static bool in_range(const struct copy *c, const struct event *ev)
{
	if (ev->ts < c->in->begin || ev->ts > c->in->horizon)
		return false;
	return ev->kind != EV_SPAN || ev->flags & EVS_OPEN || ev->dur <= c->in->horizon - ev->ts;
}

static int copy_event(struct copy *c, const struct event *ev)
{
	const struct span_end *end = NULL;
	struct event_arg *args;
	struct event *to;
	size_t bytes;
	int err;

	/* There it is out of range and in no result; here it could fall into range. */
	if (!in_range(c, ev)) {
		c->in->bad_times++;
		return 0;
	}
	if (ev->kind == EV_SPAN && ev->flags & EVS_OPEN)
		end = recording__span_end(c->in->r, ev->id);
	bytes = text_of(ev->args, ev->nargs) + (end ? text_of(end->args, end->nargs) : 0);
	if (c->n == CHUNK_EVENTS || c->used + bytes > CHUNK_BYTES) {
		err = flush(c);
		if (err)
			return err;
	}
	to = &c->events[c->n];
	args = &c->args[c->n++ * EVENT_MAX_ARGS];
	*to = *ev;
	to->args = args;
	to->name = merge__name(c->m, c->in, ev->name);
	to->cat = merge__name(c->m, c->in, ev->cat);
	to->src = merge__name(c->m, c->in, ev->src);
	to->pool = merge__name(c->m, c->in, ev->pool);
	copy_args(c, args, ev->args, ev->nargs);
	if (ev->kind == EV_SPAN && ev->flags & EVS_OPEN)
		close_span(c, to, args);
	else if (ev->kind == EV_CAPTURE_BEGIN || ev->kind == EV_CAPTURE_END)
		to->id = capture_of(c, ev->id);
	to->ts += c->in->shift;
	return 0;
}

static int copy_block(struct copy *c, struct merge_input *in, uint32_t block)
{
	struct block_reader br;
	struct event ev;
	int got, err = 0;

	c->in = in;
	c->block = block;
	got = block_reader__init(&br, in->r, block);
	if (got == -ENOMEM)
		return got;
	if (got) {
		in->bad_blocks++;
		return 0;
	}
	while (!err && (got = block_reader__next(&br, &ev)) > 0)
		err = copy_event(c, &ev);
	block_reader__stop(&br);
	if (got == -EBADMSG)
		in->bad_blocks++;
	else if (!err && got < 0)
		err = got;
	return err ? err : flush(c);
}

/* --- what was open at the end of a recording --------------------------------------------------- */

/*
 * An async span or a request that has no end is open until its recording ends. The result goes on,
 * so the end is written, flagged as one that nobody marked.
 */
static int close_item(void *ctx, const struct item *it)
{
	struct copy *c = ctx;
	struct event ev = { 0 };

	if (it->ts < c->in->end || it->track->proc->ended)
		return 0;
	if (it->kind == IT_ASYNC_END && it->async_flags & EVS_UNFINISHED)
		ev.kind = EV_ASYNC_END;
	else if (it->kind == IT_REQUEST && it->request_unfinished)
		ev.kind = EV_REQUEST_END;
	else
		return 0;
	ev.ts = it->ts + c->in->shift;
	ev.id = it->ev->id;
	ev.name = merge__name(c->m, c->in, it->ev->name);
	ev.cat = merge__name(c->m, c->in, it->ev->cat);
	ev.flags = EVS_UNFINISHED;
	/* A stream of its own: those of the thread may end later in another recording. */
	return writer__block(c->m->w, c->in->thread_of[it->track->thread], UINT32_MAX, &ev, 1, NULL,
			     0);
}

/* --- all of them ------------------------------------------------------------------------------ */

struct place {
	uint64_t ts;
	uint32_t input, block;
};

static int by_time(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	if (x->input != y->input)
		return x->input < y->input ? -1 : 1;
	return x->block < y->block ? -1 : 1;
}

/* Blocks of one stream stay in their order; of different ones, the earlier comes first. */
static struct place *places(const struct merge *m, size_t *n)
{
	struct place *all;
	uint32_t i, k;

	*n = 0;
	for (i = 0; i < m->n; i++)
		*n += recording__n_blocks(m->in[i].r);
	all = calloc(*n + 1, sizeof(*all));
	*n = 0;
	for (i = 0; all && i < m->n; i++)
		for (k = 0; k < recording__n_blocks(m->in[i].r); k++)
			all[(*n)++] = (struct place){
				recording__block(m->in[i].r, k)->first_ts + m->in[i].shift, i, k
			};
	if (all)
		qsort(all, *n, sizeof(*all), by_time);
	return all;
}

static int copy__init(struct copy *c, struct merge *m)
{
	*c = (struct copy){
		.m = m,
		.events = calloc(CHUNK_EVENTS, sizeof(*c->events)),
		.args = calloc(CHUNK_EVENTS * EVENT_MAX_ARGS, sizeof(*c->args)),
		.end_args = calloc(CHUNK_EVENTS * EVENT_MAX_ARGS, sizeof(*c->end_args)),
		.ends = calloc(CHUNK_EVENTS, sizeof(*c->ends)),
		.text = malloc(CHUNK_BYTES),
	};
	return c->events && c->args && c->end_args && c->ends && c->text ? 0 : -ENOMEM;
}

static void copy__free(struct copy *c)
{
	free(c->events);
	free(c->args);
	free(c->end_args);
	free(c->ends);
	free(c->text);
}

static int close_what_is_open(struct copy *c)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && i < c->m->n; i++) {
		c->in = &c->m->in[i];
		err = session__walk(c->in->s, close_item, c);
	}
	return err;
}

int merge__copy(struct merge *m, struct clika_error *err)
{
	struct place *all;
	struct copy c;
	size_t i, n;
	int code = copy__init(&c, m);

	all = places(m, &n);
	if (!all)
		code = -ENOMEM;
	for (i = 0; !code && i < n; i++)
		code = copy_block(&c, &m->in[all[i].input], all[i].block);
	if (!code)
		code = close_what_is_open(&c);
	for (i = 0; !code && i < m->n; i++) {
		if (m->in[i].bad_blocks) {
			m->result.incomplete = true;
			merge__note(m, "%s: %llu damaged blocks were left out", m->in[i].path,
				    (unsigned long long)m->in[i].bad_blocks);
		}
		if (m->in[i].bad_times)
			merge__note(m, "%s: %llu events with times outside it were left out",
				    m->in[i].path, (unsigned long long)m->in[i].bad_times);
	}
	free(all);
	copy__free(&c);
	return code ? error__set(err, code, "cannot copy the events: %s", strerror(-code)) : 0;
}
