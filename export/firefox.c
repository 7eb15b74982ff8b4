// SPDX-License-Identifier: Apache-2.0
/*
 * Firefox Profiler, processed format, version 55: the newest one whose tables lie in each thread,
 * which is what other readers of the format know. Spans are there twice: as markers, each with its
 * times and arguments, and as samples whose weight is the time a stack was the innermost one.
 *
 * Tables are stored by column and thread by thread. Rows wait in a spool and are read once a
 * column; what is in memory goes with distinct stacks and names.
 */
#include "export/firefox_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- rows in the spool ------------------------------------------------------------------------------- */

struct sample { /* a time in which one stack was the innermost */
	uint64_t at, dur;
	uint32_t node;
};

static int put_sample(struct firefox *f, const struct track *t, uint64_t now)
{
	struct firefox_track *ft = &f->tracks[t->index];
	uint8_t bytes[48];
	struct buf b = { .data = bytes, .cap = sizeof(bytes) };
	int err = 0;

	if (ft->top != STACK_NONE && f->st.nodes[ft->top].role != STACK_THREAD && now > ft->since) {
		buf__varint(&b, ft->since - ft->last_sample);
		buf__varint(&b, now - ft->since);
		buf__varint(&b, ft->top);
		ft->last_sample = ft->since;
		err = spool__put(f->samples, t->index, b.data, b.len);
	}
	ft->since = now;
	return err;
}

static bool next_sample(struct spool_reader *r, struct sample *s)
{
	if (!spool_reader__more(r))
		return false;
	s->at += cursor__varint(&r->c);
	s->dur = cursor__varint(&r->c);
	s->node = (uint32_t)cursor__varint(&r->c);
	return true;
}

static int put_marker(struct firefox *f, const struct track *t, const struct marker *m)
{
	/* Markers of async spans and requests are known at their end: they follow the others. */
	size_t stream = m->kind == MARK_SPAN || m->kind == MARK_INSTANT
				? t->index
				: session__n_tracks(f->s) + t->index;

	buf__reset(&f->row);
	buf__u8(&f->row, (uint8_t)m->kind);
	buf__varint(&f->row, m->at);
	buf__varint(&f->row, m->dur);
	buf__varint(&f->row, m->name);
	buf__varint(&f->row, m->cat);
	buf__varint(&f->row, f->text.len);
	buf__append(&f->row, f->text.data, f->text.len);
	if (buf__error(&f->row) || buf__error(&f->text))
		return -ENOMEM;
	f->tracks[t->index].used = true;
	return spool__put(f->markers, stream, f->row.data, f->row.len);
}

static bool next_marker(struct spool_reader *r, struct marker *m)
{
	if (!spool_reader__more(r))
		return false;
	m->kind = (enum marker_kind)cursor__u8(&r->c);
	m->at = cursor__varint(&r->c);
	m->dur = cursor__varint(&r->c);
	m->name = (uint32_t)cursor__varint(&r->c);
	m->cat = (uint32_t)cursor__varint(&r->c);
	m->len = (size_t)cursor__varint(&r->c);
	m->text = (const char *)cursor__bytes(&r->c, m->len);
	return !r->c.bad;
}

/* --- items ----------------------------------------------------------------------------------------- */

static void describe(struct firefox *f, const struct event *ev)
{
	buf__reset(&f->text);
	if (f->args)
		args__text(&f->text, f->s, ev);
}

static void add_word(struct firefox *f, const char *word)
{
	buf__printf(&f->text, "%s[%s]", f->text.len ? " " : "", word);
}

static int span_marker(struct firefox *f, const struct item *it)
{
	struct marker m = {
		.kind = MARK_SPAN,
		.at = it->ts - f->base,
		.dur = it->ev->dur,
		.name = it->ev->name,
		.cat = it->ev->cat,
	};
	struct buf flags = { 0 };

	describe(f, it->ev);
	args__flags(&flags, it->span);
	buf__u8(&flags, 0);
	if (flags.len > 1)
		add_word(f, (const char *)flags.data);
	buf__free(&flags);
	return put_marker(f, it->track, &m);
}

static int async_marker(struct firefox *f, const struct item *it)
{
	const struct event *begin = it->async_begin;
	struct marker m = {
		.kind = MARK_ASYNC,
		.at = it->begin_ts - f->base,
		.dur = it->ts - it->begin_ts,
		.name = begin->name,
		.cat = begin->cat,
	};

	describe(f, it->ev);
	if (it->async_flags & EVS_UNFINISHED)
		add_word(f, "unfinished");
	return put_marker(f, it->track, &m);
}

static int request_marker(struct firefox *f, const struct item *it)
{
	struct marker m = {
		.kind = MARK_REQUEST,
		.at = it->ts - f->base - it->since_begin_ns,
		.dur = it->since_begin_ns,
		.name = it->request_name,
	};

	if (it->ev->kind != EV_REQUEST_END || it->since_begin_ns == UINT64_MAX)
		return 0;
	buf__reset(&f->text);
	buf__printf(&f->text, "id=%llu, units=%llu", (unsigned long long)it->ev->id,
		    (unsigned long long)it->units);
	if (it->request_unfinished)
		add_word(f, "unfinished");
	return put_marker(f, it->track, &m);
}

static int firefox__item(void *state, const struct item *it)
{
	struct firefox *f = state;
	struct marker m = {
		.kind = MARK_INSTANT,
		.at = it->ts - f->base,
		.name = it->ev->name,
		.cat = it->ev->cat,
	};
	int err = 0;

	switch (it->kind) {
	case IT_SPAN_BEGIN:
	case IT_SPAN_END:
		err = put_sample(f, it->track, it->ts);
		err = err ? err : stacks__item(&f->st, it);
		f->tracks[it->track->index].top = stacks__top(&f->st, it->track);
		if (!err && it->kind == IT_SPAN_BEGIN)
			err = span_marker(f, it);
		break;
	case IT_EVENT:
		if (it->ev->kind != EV_INSTANT)
			return 0;
		describe(f, it->ev);
		return put_marker(f, it->track, &m);
	case IT_ASYNC_END:
		return async_marker(f, it);
	case IT_REQUEST:
		return request_marker(f, it);
	default:
		break;
	}
	return err;
}

/* --- tables of one thread ----------------------------------------------------------------------------- */

enum sample_column { SAMPLE_STACK, SAMPLE_TIME, SAMPLE_WEIGHT, SAMPLE_CPU };

static int put_sample_column(struct firefox *f, const struct track *t, const char *name,
			     enum sample_column column, uint64_t *count)
{
	struct spool_reader r;
	struct sample s = { .at = f->base };
	uint64_t n = 0, before = 0;

	json__key(&f->j, name);
	json__array(&f->j);
	spool_reader__init(&r, f->samples, t->index);
	while (next_sample(&r, &s)) {
		if (column == SAMPLE_STACK)
			json__u64(&f->j, f->local[s.node]);
		else if (column == SAMPLE_TIME)
			firefox__ms(&f->j, s.at - f->base);
		else if (column == SAMPLE_WEIGHT)
			firefox__ms(&f->j, s.dur);
		else if (n)
			json__u64(&f->j, before); /* since the sample before */
		else
			json__null(&f->j);
		before = s.dur;
		n++;
	}
	json__end_array(&f->j);
	spool_reader__free(&r);
	*count = n;
	return r.err;
}

static int put_samples(struct firefox *f, const struct track *t)
{
	uint64_t n = 0;
	int err;

	json__key(&f->j, "samples");
	json__object(&f->j);
	json__key(&f->j, "weightType");
	json__cstr(&f->j, "tracing-ms");
	err = put_sample_column(f, t, "stack", SAMPLE_STACK, &n);
	err = err ? err : put_sample_column(f, t, "time", SAMPLE_TIME, &n);
	err = err ? err : put_sample_column(f, t, "weight", SAMPLE_WEIGHT, &n);
	err = err ? err : put_sample_column(f, t, "threadCPUDelta", SAMPLE_CPU, &n);
	json__key(&f->j, "length");
	json__u64(&f->j, n);
	json__end_object(&f->j);
	return err;
}

enum marker_column { MARK_DATA, MARK_NAME, MARK_START, MARK_END, MARK_PHASE, MARK_CATEGORY };

static void put_marker_cell(struct firefox *f, const struct marker *m, enum marker_column column)
{
	switch (column) {
	case MARK_DATA:
		firefox__marker_data(&f->j, m);
		break;
	case MARK_NAME:
		json__u64(&f->j, firefox__string(f, m->name, STRING_WHOLE));
		break;
	case MARK_START:
		firefox__ms(&f->j, m->at);
		break;
	case MARK_END:
		if (m->kind == MARK_INSTANT)
			json__null(&f->j);
		else
			firefox__ms(&f->j, m->at + m->dur);
		break;
	case MARK_PHASE:
		json__u64(&f->j, m->kind != MARK_INSTANT); /* 0: a point, 1: begin and end */
		break;
	case MARK_CATEGORY:
		json__u64(&f->j, firefox__category(f, m->cat));
		break;
	}
}

static int put_markers(struct firefox *f, const struct track *t)
{
	static const char *const names[] = { "data",    "name",  "startTime",
					     "endTime", "phase", "category" };
	size_t streams[] = { t->index, session__n_tracks(f->s) + t->index }, i;
	struct spool_reader r;
	struct marker m;
	uint64_t n = 0;
	unsigned int c;
	int err = 0;

	json__key(&f->j, "markers");
	json__object(&f->j);
	for (c = 0; !err && c < ARRAY_SIZE(names); c++) {
		json__key(&f->j, names[c]);
		json__array(&f->j);
		for (i = 0; !err && i < ARRAY_SIZE(streams); i++) {
			spool_reader__init(&r, f->markers, streams[i]);
			while (next_marker(&r, &m)) {
				put_marker_cell(f, &m, (enum marker_column)c);
				n += c == 0;
			}
			err = r.c.bad ? -EIO : r.err;
			spool_reader__free(&r);
		}
		json__end_array(&f->j);
		json__line(&f->j);
	}
	json__key(&f->j, "length");
	json__u64(&f->j, n);
	json__end_object(&f->j);
	return err;
}

static int put_thread(struct firefox *f, const struct track *t)
{
	int err;

	json__line(&f->j);
	json__object(&f->j);
	firefox__thread_head(f, t);
	err = firefox__stack_tables(f, t);
	err = err ? err : put_samples(f, t);
	err = err ? err : put_markers(f, t);
	firefox__string_array(f);
	json__end_object(&f->j);
	return err ? err : f->j.err;
}

/* --- head and tail ------------------------------------------------------------------------------------ */

/* Nodes of one thread together, parents first, each with its number in its thread. */
static int sort_nodes(struct firefox *f)
{
	const struct stack_node *n;
	uint32_t i, sum = 0, track;
	size_t k;

	f->local = calloc(f->st.n ? f->st.n : 1, sizeof(*f->local));
	f->order = calloc(f->st.n ? f->st.n : 1, sizeof(*f->order));
	f->track_of = calloc(f->st.n ? f->st.n : 1, sizeof(*f->track_of));
	f->frame_local = calloc(f->st.frames.n, sizeof(*f->frame_local));
	f->frame_thread = calloc(f->st.frames.n, sizeof(*f->frame_thread));
	if (!f->local || !f->order || !f->track_of || !f->frame_local || !f->frame_thread)
		return -ENOMEM;
	for (i = 0; i < f->st.n; i++) {
		n = &f->st.nodes[i];
		f->track_of[i] = n->role == STACK_THREAD ? n->key : f->track_of[n->parent];
		if (n->role != STACK_THREAD)
			f->local[i] = f->tracks[f->track_of[i]].n_nodes++;
	}
	for (k = 0; k < session__n_tracks(f->s); k++) {
		f->tracks[k].first_node = sum;
		sum += f->tracks[k].n_nodes;
	}
	for (i = 0; i < f->st.n; i++) {
		track = f->track_of[i];
		if (f->st.nodes[i].role != STACK_THREAD)
			f->order[f->tracks[track].first_node + f->local[i]] = i;
	}
	return 0;
}

static int firefox__close(void *state, struct clika_error *err)
{
	struct firefox *f = state;
	int code = sort_nodes(f);
	size_t i;

	(void)err;
	json__object(&f->j);
	firefox__meta(f);
	json__key(&f->j, "libs");
	json__array(&f->j);
	json__end_array(&f->j);
	json__key(&f->j, "pages");
	json__array(&f->j);
	json__end_array(&f->j);
	json__key(&f->j, "counters");
	json__array(&f->j);
	json__end_array(&f->j);
	json__key(&f->j, "threads");
	json__array(&f->j);
	for (i = 0; !code && i < session__n_tracks(f->s); i++)
		if (f->tracks[i].used)
			code = put_thread(f, session__track(f->s, i));
	json__end_array(&f->j);
	json__end_object(&f->j);
	return code ? code : json__flush(&f->j);
}

static void firefox__free(void *state)
{
	struct firefox *f = state;

	stacks__free(&f->st);
	spool__free(f->samples);
	spool__free(f->markers);
	trace_ids__free(&f->ids);
	json__free(&f->j);
	buf__free(&f->row);
	buf__free(&f->text);
	map64__free(f->string_at);
	map64__free(f->category_of);
	free(f->strings);
	free(f->tracks);
	free(f->local);
	free(f->order);
	free(f->track_of);
	free(f->frame_local);
	free(f->frame_thread);
	free(f);
}

static int firefox__open(struct session *s, struct outfile *out, const struct export_opts *o,
			 void **state, struct clika_error *err)
{
	struct firefox *f = calloc(1, sizeof(*f));
	size_t i, n = session__n_tracks(s);

	if (!f)
		return error__set(err, -ENOMEM, "out of memory");
	*state = f;
	f->s = s;
	f->args = o->stack_args;
	f->base = session__origin(s);
	json__init(&f->j, out);
	f->samples = spool__new(n);
	f->markers = spool__new(2 * n);
	f->tracks = calloc(n ? n : 1, sizeof(*f->tracks));
	f->string_at = map64__new();
	f->category_of = map64__new();
	if (!f->samples || !f->markers || !f->tracks || !f->string_at || !f->category_of ||
	    stacks__init(&f->st, s, STACKS_EXACT) || trace_ids__init(&f->ids, s))
		return error__set(err, -ENOMEM, "out of memory");
	for (i = 0; i < n; i++)
		f->tracks[i] = (struct firefox_track){ .top = STACK_NONE,
						       .since = f->base,
						       .last_sample = f->base };
	return 0;
}

const struct exporter_ops exporter_firefox = {
	.format = "firefox",
	.file = "firefox.json.gz",
	.summary = "Firefox Profiler: call tree, flame graph, marker chart of each thread",
	.open = firefox__open,
	.item = firefox__item,
	.close = firefox__close,
	.free = firefox__free,
};
