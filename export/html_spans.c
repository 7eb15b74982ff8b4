// SPDX-License-Identifier: Apache-2.0
#include "export/html_spans.h"

#include "export/args.h"
#include "export/html_blob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of records before compression; the page's limit may ask for less in the end. */
#define SPAN_BYTES (9u << 20)
#define ARG_BYTES (3u << 20)
#define FLOW_BYTES (1u << 20)
#define LEAST_ROOM 4096
#define MAX_ARG_TEXTS 32768
#define ARG_TEXT_BYTES (600u << 10)

#define CHUNK 16384 /* spans */
#define INSTANT_COUNTS_AS (64 * NSEC_PER_USEC)

/* What name was an operation when it was asked for last. */
struct html_name {
	uint32_t cat, op;
	bool known;
};

int html_spans__init(struct html_spans *h, struct session *s, bool with_args)
{
	size_t n = session__n_tracks(s);
	int err;

	*h = (struct html_spans){
		.s = s,
		.with_args = with_args,
		.origin = session__origin(s),
		.n_tracks = n,
		.n_streams = n + HTML_MAX_LANES,
		.first = UINT64_MAX,
		.n_ops = 1,
		.cap_ops = 64,
		.n_names = (size_t)strpool__count(session__names(s)) + 1,
	};
	h->begin = session__begin(s) - h->origin;
	h->length = session__end(s) > session__begin(s) ? session__end(s) - session__begin(s) : 1;
	h->streams = calloc(h->n_streams, sizeof(*h->streams));
	h->lanes = calloc(HTML_MAX_LANES, sizeof(*h->lanes));
	h->ops = calloc(h->cap_ops, sizeof(*h->ops));
	h->names = calloc(h->n_names, sizeof(*h->names));
	h->lane_of = map64__new();
	h->op_of = map64__new();
	h->row_of = map64__new();
	h->spool = spool__new(h->n_streams + 1);
	err = keep__init(&h->keep, h->n_streams, SPAN_BYTES);
	err = err ? err : keep__init(&h->keep_args, h->n_streams, ARG_BYTES);
	err = err ? err : keep__init(&h->keep_flows, 1, FLOW_BYTES);
	err = err ? err : html_texts__init(&h->texts, MAX_ARG_TEXTS, ARG_TEXT_BYTES);
	if (err || !h->streams || !h->lanes || !h->ops || !h->names || !h->lane_of || !h->op_of ||
	    !h->row_of || !h->spool)
		return -ENOMEM;
	return 0;
}

void html_spans__free(struct html_spans *h)
{
	uint32_t i;

	for (i = 0; i < h->n_rows; i++)
		free(h->rows[i].slots);
	free(h->streams);
	free(h->lanes);
	free(h->ops);
	free(h->names);
	map64__free(h->lane_of);
	map64__free(h->op_of);
	map64__free(h->row_of);
	spool__free(h->spool);
	keep__free(&h->keep);
	keep__free(&h->keep_args);
	keep__free(&h->keep_flows);
	html_texts__free(&h->texts);
	buf__free(&h->record);
	buf__free(&h->args);
}

/* --- operations and lanes ------------------------------------------------------------------------ */

uint32_t html_spans__op(const struct html_spans *h, uint32_t name, uint32_t cat)
{
	uint64_t *at = map64__get(h->op_of, (uint64_t)name << 32 | cat);

	return at ? (uint32_t)*at : 0;
}

/* UINT32_MAX: out of memory. */
static uint32_t op_of(struct html_spans *h, uint32_t name, uint32_t cat)
{
	struct html_name *last = &h->names[name < h->n_names ? name : 0];
	struct html_op *bigger;
	uint32_t op;

	if (last->known && last->cat == cat)
		return last->op;
	op = html_spans__op(h, name, cat);
	if (!op && h->n_ops < HTML_MAX_OPS) {
		if (h->n_ops == h->cap_ops) {
			bigger = realloc(h->ops, (size_t)h->cap_ops * 2 * sizeof(*bigger));
			if (!bigger)
				return UINT32_MAX;
			h->ops = bigger;
			h->cap_ops *= 2;
		}
		op = h->n_ops;
		if (!map64__put(h->op_of, (uint64_t)name << 32 | cat, op))
			return UINT32_MAX;
		h->ops[op] = (struct html_op){ .name = name, .cat = cat };
		h->n_ops++;
	}
	*last = (struct html_name){ cat, op, true };
	return op;
}

/* *@stream is UINT32_MAX when there are too many lanes. */
static int lane_of(struct html_spans *h, const struct item *it, enum html_lane_kind kind,
		   uint32_t name, uint32_t *stream)
{
	uint64_t *at = map64__get(h->lane_of, it->lane_key);

	*stream = at ? (uint32_t)(h->n_tracks + *at) : UINT32_MAX;
	if (at)
		return 0;
	if (h->n_lanes == HTML_MAX_LANES) {
		h->lost_lanes++;
		return 0;
	}
	if (!map64__put(h->lane_of, it->lane_key, h->n_lanes))
		return -ENOMEM;
	h->lanes[h->n_lanes] = (struct html_lane){
		.kind = (uint8_t)kind, .name = name, .lane = it->lane, .track = it->track
	};
	*stream = (uint32_t)(h->n_tracks + h->n_lanes++);
	return 0;
}

/* --- arguments ------------------------------------------------------------------------------------- */

enum { VALUE_I64, VALUE_U64, VALUE_F64, VALUE_TEXT, VALUE_NS };

static int put_key(struct html_spans *h, uint32_t id)
{
	uint32_t key = html_texts__id(&h->texts, session__str(h->s, id),
				      strpool__len(session__names(h->s), id));

	buf__varint(&h->args, key);
	return key == UINT32_MAX ? -ENOMEM : 0;
}

static int put_own(struct html_spans *h, const char *key, unsigned int type, uint64_t v)
{
	uint32_t id = html_texts__id(&h->texts, key, strlen(key));

	buf__varint(&h->args, id);
	buf__u8(&h->args, (uint8_t)type);
	buf__varint(&h->args, v);
	return id == UINT32_MAX ? -ENOMEM : 0;
}

static int put_value(struct html_spans *h, const struct event_arg *a)
{
	uint32_t text;

	switch (a->type) {
	case ARG_I64:
		buf__u8(&h->args, VALUE_I64);
		buf__svarint(&h->args, a->i);
		return 0;
	case ARG_U64:
		buf__u8(&h->args, VALUE_U64);
		buf__varint(&h->args, a->u);
		return 0;
	case ARG_F64:
		buf__u8(&h->args, VALUE_F64);
		buf__u64le(&h->args, a->u);
		return 0;
	default:
		buf__u8(&h->args, VALUE_TEXT);
		text = a->type == ARG_STR ? html_texts__id(&h->texts, a->str, a->len) : 0;
		buf__varint(&h->args, text);
		return text == UINT32_MAX ? -ENOMEM : 0;
	}
}

/* About what they will take; their texts are only looked up when there is room for them. */
static size_t args_cost(const struct event *ev)
{
	size_t i, n = 0;

	for (i = 0; i < ev->nargs; i++)
		n += ev->args[i].type == ARG_F64 ? 10 : 4;
	return n;
}

static int put_args(struct html_spans *h, const struct event *ev)
{
	int err = 0;
	size_t i;

	for (i = 0; !err && i < ev->nargs; i++) {
		if (!args__is_newest(ev, i))
			continue;
		err = put_key(h, ev->args[i].key);
		err = err ? err : put_value(h, &ev->args[i]);
	}
	return err;
}

/* --- records ------------------------------------------------------------------------------------------ */

struct html_record { /* a span, an instant, a lane's span */
	uint32_t stream, depth, op, flags;
	uint64_t at, dur; /* from the origin */
	uint32_t class;
	const struct event *args;   /* NULL: none */
	const struct item *request; /* NULL: none of them */
	const struct event *own_id; /* of lanes */
};

static size_t varint_len(uint64_t v)
{
	return v ? (size_t)(70 - __builtin_clzll(v)) / 7 : 1;
}

static int put_request(struct html_spans *h, const struct item *it)
{
	int err = 0;

	if (it->first_ns != UINT64_MAX)
		err = put_own(h, "first output after", VALUE_NS, it->first_ns);
	if (!err && it->served_ns != UINT64_MAX)
		err = put_own(h, "waited", VALUE_NS, it->served_ns);
	if (!err && it->units)
		err = put_own(h, "units", VALUE_U64, it->units);
	return err;
}

static int put_record_args(struct html_spans *h, const struct html_record *r)
{
	size_t cost = r->args ? args_cost(r->args) : 0;
	int err;

	cost += (r->own_id ? 8 : 0) + (r->request ? 12 : 0);
	if (!cost)
		return 0;
	err = keep__admit(&h->keep_args, r->stream, r->class, cost);
	if (err <= 0)
		return err;
	err = 0;
	if (r->own_id)
		err = put_own(h, "id", VALUE_U64, r->own_id->id);
	if (!err && r->request)
		err = put_request(h, r->request);
	return !err && r->args ? put_args(h, r->args) : err;
}

static void see(struct html_spans *h, const struct html_record *r)
{
	struct html_op *op = &h->ops[r->op];
	uint64_t end = r->at + r->dur;

	h->first = r->at < h->first ? r->at : h->first;
	h->last = end > h->last ? end : h->last;
	if (!op->seen || r->dur > op->longest) {
		op->longest = r->dur;
		op->at = r->at;
		op->stream = r->stream;
		op->seen = true;
	}
}

static int put_record(struct html_spans *h, const struct html_record *r)
{
	struct html_stream *st = &h->streams[r->stream];
	struct buf *b = &h->record;
	int err;

	see(h, r);
	if (r->depth >= HTML_MAX_DEPTH) {
		h->too_deep++;
		return 0;
	}
	err = keep__admit(&h->keep, r->stream, r->class,
			  varint_len(r->at - st->last) + varint_len(r->dur) + varint_len(r->op) +
				  3);
	if (err < 0)
		return err;
	if (!err)
		return html_spans__merge(h, r->stream, r->depth, r->at, r->dur, r->op);
	buf__reset(&h->args);
	err = h->with_args ? put_record_args(h, r) : 0;
	if (err)
		return err;
	buf__reset(b);
	buf__svarint(b, (int64_t)(r->at - st->last));
	buf__varint(b, r->dur);
	buf__varint(b, r->op);
	buf__varint(b, r->depth);
	buf__varint(b, r->flags);
	buf__varint(b, r->class);
	buf__varint(b, h->args.len);
	buf__append(b, h->args.data, h->args.len);
	st->last = r->at;
	err = buf__error(b) ? buf__error(b) : buf__error(&h->args);
	return err ? err : spool__put(h->spool, r->stream, b->data, b->len);
}

/* --- items --------------------------------------------------------------------------------------------- */

static uint32_t flags_of(const struct open_span *span)
{
	uint16_t f = span->ev.flags;

	return (f & EVS_UNFINISHED ? HF_UNFINISHED : 0) | (f & EVS_NO_BEGIN ? HF_NO_BEGIN : 0) |
	       (f & EVS_CLIPPED ? HF_CLIPPED : 0) | (f & EVS_REDACTED ? HF_REDACTED : 0) |
	       (span->late ? HF_LATE : 0) | (span->cut ? HF_CUT : 0);
}

static int span(struct html_spans *h, const struct item *it)
{
	struct html_record r = {
		.stream = it->track->index,
		.depth = it->span->depth,
		.op = op_of(h, it->ev->name, it->ev->cat),
		.flags = flags_of(it->span),
		.at = it->ts - h->origin,
		.dur = it->ev->dur,
		.class = keep__class(it->ev->dur),
		.args = it->ev,
	};

	return r.op == UINT32_MAX ? -ENOMEM : put_record(h, &r);
}

static int instant(struct html_spans *h, const struct item *it)
{
	struct html_record r = {
		.stream = it->track->index,
		.depth = it->span ? it->span->depth + 1 : 0,
		.op = op_of(h, it->ev->name, it->ev->cat),
		.flags = HF_INSTANT,
		.at = it->ts - h->origin,
		.class = keep__class(INSTANT_COUNTS_AS),
		.args = it->ev,
	};

	return r.op == UINT32_MAX ? -ENOMEM : put_record(h, &r);
}

static int lane_span(struct html_spans *h, const struct item *it, enum html_lane_kind kind,
		     uint32_t name, uint32_t cat, uint64_t begin, bool unfinished)
{
	struct html_record r = {
		.op = op_of(h, name, cat),
		.flags = unfinished ? HF_UNFINISHED : 0,
		.at = begin - h->origin,
		.dur = it->ts - begin,
		.class = keep__class(it->ts - begin),
		.own_id = it->ev,
		.request = kind == LANE_REQUEST ? it : NULL,
	};
	int err = lane_of(h, it, kind, name, &r.stream);

	if (err || r.stream == UINT32_MAX)
		return err;
	return r.op == UINT32_MAX ? -ENOMEM : put_record(h, &r);
}

/* An arrow, with the longest receivers first. */
static int flow(struct html_spans *h, const struct item *it)
{
	struct buf *b = &h->record;
	uint32_t class;
	int err;

	if (!it->flow_arrow || !it->flow_from || !it->span)
		return 0;
	class = keep__class(it->span->ev.dur);
	buf__reset(b);
	buf__varint(b, class);
	buf__varint(b, it->ts - h->origin);
	buf__varint(b, it->track->index);
	buf__varint(b, it->ts - it->flow_from_ts);
	buf__varint(b, it->flow_from->index);
	buf__varint(b, op_of(h, it->ev->name, it->ev->cat));
	err = buf__error(b) ? buf__error(b) : keep__admit(&h->keep_flows, 0, class, b->len);
	h->flows++;
	h->lost_flows += err == 0;
	return err <= 0 ? err : spool__put(h->spool, h->n_streams, b->data, b->len);
}

int html_spans__item(struct html_spans *h, const struct item *it)
{
	switch (it->kind) {
	case IT_SPAN_BEGIN:
		return span(h, it);
	case IT_EVENT:
		return it->ev->kind == EV_INSTANT ? instant(h, it) : 0;
	case IT_ASYNC_END:
		return lane_span(h, it, LANE_ASYNC, it->async_begin->name, it->async_begin->cat,
				 it->begin_ts, it->async_flags & EVS_UNFINISHED);
	case IT_REQUEST:
		if (it->ev->kind != EV_REQUEST_END || it->since_begin_ns == UINT64_MAX)
			return 0;
		return lane_span(h, it, LANE_REQUEST, it->request_name, 0,
				 it->ts - it->since_begin_ns, it->request_unfinished);
	case IT_FLOW:
		return flow(h, it);
	default:
		return 0;
	}
}

/* --- the bytes ------------------------------------------------------------------------------------------- */

enum { PART_END, PART_SPANS, PART_SLOTS, PART_FLOWS };

/* One kind of field after the other: alike bytes beside each other compress well. */
enum { COL_AT, COL_DUR, COL_OP, COL_DEPTH, COL_FLAGS, COL_ARGS_LEN, COL_ARGS, COLS };

struct chunk {
	uint32_t n;
	struct buf cols[COLS];
};

static int chunk__put(struct chunk *c, struct html_blob *blob, uint32_t stream)
{
	struct buf head = { 0 };
	int i, err;

	if (!c->n)
		return 0;
	buf__u8(&head, PART_SPANS);
	buf__varint(&head, stream);
	buf__varint(&head, c->n);
	buf__varint(&head, c->cols[COL_ARGS].len);
	err = buf__error(&head) ? buf__error(&head) : html_blob__add(blob, head.data, head.len);
	for (i = 0; i < COLS; i++) {
		err = err ? err : buf__error(&c->cols[i]);
		err = err ? err : html_blob__add(blob, c->cols[i].data, c->cols[i].len);
		buf__reset(&c->cols[i]);
	}
	buf__free(&head);
	c->n = 0;
	return err;
}

struct pass { /* over what the spool has */
	struct html_spans *h;
	struct html_blob *blob;
	struct chunk chunk;
	bool no_rows;           /* not even the slots fit */
	const uint32_t *merged; /* by stream: shorter classes were merged by the pass before */
};

static int put_spooled(struct pass *p, uint32_t stream, struct cursor *c, uint64_t *at,
		       uint64_t *last)
{
	struct html_spans *h = p->h;
	struct chunk *k = &p->chunk;
	uint64_t dur, op, depth, flags, class, n;
	const uint8_t *args;

	*at += (uint64_t)cursor__svarint(c);
	dur = cursor__varint(c);
	op = cursor__varint(c);
	depth = cursor__varint(c);
	flags = cursor__varint(c);
	class = cursor__varint(c);
	n = cursor__varint(c);
	args = cursor__bytes(c, n);
	if (c->bad || class >= KEEP_CLASSES)
		return -EIO;
	if (!keep__has(&h->keep, stream, (uint32_t) class)) {
		if (class < p->merged[stream])
			return 0;
		return html_spans__merge(h, stream, (uint32_t)depth, *at, dur, (uint32_t)op);
	}
	if (!keep__has(&h->keep_args, stream, (uint32_t) class))
		n = 0;
	buf__svarint(&k->cols[COL_AT], (int64_t)(*at - *last));
	*last = *at;
	buf__varint(&k->cols[COL_DUR], dur);
	buf__varint(&k->cols[COL_OP], op);
	buf__u8(&k->cols[COL_DEPTH], (uint8_t)depth);
	buf__u8(&k->cols[COL_FLAGS], (uint8_t)flags);
	buf__varint(&k->cols[COL_ARGS_LEN], n);
	buf__append(&k->cols[COL_ARGS], args, n);
	return ++k->n == CHUNK ? chunk__put(k, p->blob, stream) : 0;
}

static int put_stream(struct pass *p, uint32_t stream)
{
	struct spool_reader r;
	uint64_t at = 0, last = 0;
	int err = 0;

	spool_reader__init(&r, p->h->spool, stream);
	while (!err && spool_reader__more(&r))
		err = put_spooled(p, stream, &r.c, &at, &last);
	err = err ? err : r.err;
	spool_reader__free(&r);
	return err ? err : chunk__put(&p->chunk, p->blob, stream);
}

static int put_flows(struct pass *p)
{
	struct html_spans *h = p->h;
	struct spool_reader r;
	uint64_t v[6];
	size_t i;
	int err = 0;

	spool_reader__init(&r, h->spool, h->n_streams);
	while (!err && spool_reader__more(&r)) {
		for (i = 0; i < ARRAY_SIZE(v); i++)
			v[i] = cursor__varint(&r.c);
		if (r.c.bad)
			break;
		if (v[0] < h->keep_flows.streams[0].least ||
		    !keep__has(&h->keep, v[2], (uint32_t)v[0])) {
			h->lost_flows++;
			continue;
		}
		buf__reset(&h->record);
		buf__u8(&h->record, PART_FLOWS);
		for (i = 1; i < ARRAY_SIZE(v); i++)
			buf__varint(&h->record, v[i]);
		err = buf__error(&h->record);
		err = err ? err : html_blob__add(p->blob, h->record.data, h->record.len);
	}
	err = err ? err : r.err;
	spool_reader__free(&r);
	return err;
}

static int put_all(struct pass *p)
{
	struct html_spans *h = p->h;
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < h->n_streams; i++)
		if (spool__has(h->spool, i))
			err = put_stream(p, i);
	buf__reset(&h->record);
	if (!p->no_rows)
		html_spans__put_rows(h, &h->record);
	err = err ? err : buf__error(&h->record);
	err = err ? err : html_blob__add(p->blob, h->record.data, h->record.len);
	err = err ? err : put_flows(p);
	buf__reset(&h->record);
	buf__u8(&h->record, PART_END);
	buf__varint(&h->record, h->unplaced + (p->no_rows ? html_spans__in_rows(h) : 0));
	buf__varint(&h->record, h->lost_flows);
	err = err ? err : buf__error(&h->record);
	err = err ? err : html_blob__add(p->blob, h->record.data, h->record.len);
	return err ? err : html_blob__finish(p->blob);
}

/* What is merged now stays merged when there has to be another pass. */
static void note_merged(const struct html_spans *h, uint32_t *merged)
{
	size_t i;

	for (i = 0; i < h->n_streams; i++)
		merged[i] = h->keep.streams[i].least;
}

int html_spans__put(struct html_spans *h, struct outfile *out, size_t max)
{
	uint32_t *merged = calloc(h->n_streams, sizeof(*merged));
	uint64_t room = SPAN_BYTES, lost_flows = h->lost_flows;
	struct html_blob blob = { .max = max / 4 * 3 };
	struct pass p = { .h = h, .blob = &blob, .merged = merged };
	int i, err;

	if (!merged)
		return -ENOMEM;
	do {
		keep__recount(&h->keep, room);
		keep__recount(&h->keep_args, room / 3);
		keep__recount(&h->keep_flows, room / 9);
		p.no_rows = room <= LEAST_ROOM;
		h->lost_flows = lost_flows;
		err = html_blob__start(&blob);
		err = err ? err : put_all(&p);
		note_merged(h, merged);
		for (i = 0; i < COLS; i++)
			buf__reset(&p.chunk.cols[i]);
		p.chunk.n = 0;
		room = room / 4 * 3;
	} while (err == -EFBIG && !p.no_rows);
	if (!err)
		err = html_blob__base64(&blob, out);
	html_blob__free(&blob);
	for (i = 0; i < COLS; i++)
		buf__free(&p.chunk.cols[i]);
	free(merged);
	return err;
}
