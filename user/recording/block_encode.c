// SPDX-License-Identifier: Apache-2.0
#include "user/recording/block_encode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/recording/format.h"
#include "user/recording/varint.h"

#define TABLE_SIZE (2 * FMT_MAX_SHAPES) /* a power of two, at most half full */
#define KEEP_BYTES (4u << 20)           /* scratch above this is given back after the call */

/* What events of one shape share. Everything here costs an event one varint together. */
struct enc_shape {
	uint64_t hash;
	uint32_t name, cat, src, pool;
	uint16_t flags;
	uint8_t kind, nargs;
	uint32_t first_arg; /* in arg_keys */
};

struct enc_slot {
	uint32_t generation; /* of another one: the slot is free */
	uint32_t shape;
};

struct block_encoder {
	struct buf out, shapes_out, events_out;
	struct enc_shape shapes[FMT_MAX_SHAPES];
	uint32_t n_shapes, generation;
	struct enc_slot table[TABLE_SIZE];
	struct buf arg_keys; /* uint64_t: key << 8 | type */
	struct buf chunks;   /* struct enc_chunk */
	struct buf used;     /* uint32_t */
	const struct strpool *names;
	uint32_t max_id;
	size_t name_bytes; /* that the current chunk refers to */
	struct enc_chunk cur;
	uint64_t ts, id; /* of the event before */
};

struct block_encoder *block_encoder__new(void)
{
	struct block_encoder *e = calloc(1, sizeof(*e));

	if (e)
		e->generation = 1;
	return e;
}

void block_encoder__free(struct block_encoder *e)
{
	if (!e)
		return;
	buf__free(&e->out);
	buf__free(&e->shapes_out);
	buf__free(&e->events_out);
	buf__free(&e->arg_keys);
	buf__free(&e->chunks);
	buf__free(&e->used);
	free(e);
}

const struct buf *block_encoder__out(const struct block_encoder *e)
{
	return &e->out;
}

size_t block_encoder__chunks(const struct block_encoder *e, const struct enc_chunk **chunks)
{
	*chunks = (const struct enc_chunk *)(const void *)e->chunks.data;
	return e->chunks.len / sizeof(**chunks);
}

size_t block_encoder__used(const struct block_encoder *e, const uint32_t **ids)
{
	*ids = (const uint32_t *)(const void *)e->used.data;
	return e->used.len / sizeof(**ids);
}

static uint32_t encoder__string(struct block_encoder *e, uint32_t id)
{
	size_t len;

	if (!id || id > e->max_id)
		return 0;
	buf__append(&e->used, &id, sizeof(id));
	e->cur.n_used++;
	len = strpool__len(e->names, id);
	e->name_bytes += len < FMT_MAX_NAME ? len : FMT_MAX_NAME;
	return id;
}

static unsigned arg__class(uint8_t type)
{
	switch (type) {
	case ARG_F64:
		return CLASS_FIXED64;
	case ARG_STR:
		return CLASS_BYTES;
	default:
		return CLASS_VARINT;
	}
}

static uint64_t arg__key(const struct event_arg *a)
{
	return (uint64_t)a->key << 8 | a->type;
}

/* Adds the largest number of bytes of the values to *@bound. */
static int args__bound(const struct event_arg *args, uint8_t nargs, size_t *bound)
{
	unsigned i;

	if (nargs > EVENT_MAX_ARGS)
		return -EINVAL;
	for (i = 0; i < nargs; i++) {
		if (args[i].type < ARG_I64 || args[i].type > ARG_STR)
			return -EINVAL;
		*bound += VARINT_MAX + (args[i].type == ARG_STR ? args[i].len : 0);
	}
	return 0;
}

static uint8_t *arg__put(uint8_t *p, const struct event_arg *a)
{
	uint64_t bits;
	unsigned i;

	switch (a->type) {
	case ARG_I64:
		return varint__put(p, zigzag(a->i));
	case ARG_U64:
		return varint__put(p, a->u);
	case ARG_F64:
		memcpy(&bits, &a->f, sizeof(bits));
		for (i = 0; i < 8; i++)
			*p++ = (uint8_t)(bits >> (8 * i));
		return p;
	default:
		p = varint__put(p, a->len);
		if (a->len)
			memcpy(p, a->str, a->len);
		return p + a->len;
	}
}

/* Doubles that are small whole numbers have zeros in their low bytes: turned round, they are
 * short varints. */
static uint64_t event__stored_value(const struct event *ev)
{
	switch (ev->kind) {
	case EV_COUNTER_I64:
		return zigzag((int64_t)ev->value);
	case EV_COUNTER_F64:
		return __builtin_bswap64(ev->value);
	default:
		return ev->value;
	}
}

static unsigned event__mask(const struct event *ev)
{
	if (ev->kind == EV_SPAN && (ev->flags & EVS_OPEN))
		return SHAPE_ID;
	return event_kind__fields(ev->kind) & SHAPE_KNOWN;
}

static bool shape__is(const struct block_encoder *e, const struct enc_shape *s,
		      const struct event *ev, uint32_t pool)
{
	const uint64_t *keys;
	unsigned i;

	if (s->name != ev->name || s->cat != ev->cat || s->src != ev->src || s->pool != pool ||
	    s->flags != ev->flags || s->kind != ev->kind || s->nargs != ev->nargs)
		return false;
	keys = (const uint64_t *)(const void *)e->arg_keys.data;
	for (i = 0; i < ev->nargs; i++)
		if (keys[s->first_arg + i] != arg__key(&ev->args[i]))
			return false;
	return true;
}

static void encoder__add_shape(struct block_encoder *e, const struct event *ev, uint32_t pool)
{
	struct enc_shape *s = &e->shapes[e->n_shapes++];
	uint8_t raw[VARINT_MAX * (8 + 2 * EVENT_MAX_ARGS)], *p = raw;
	uint8_t len[VARINT_MAX];
	unsigned i;

	s->name = ev->name;
	s->cat = ev->cat;
	s->src = ev->src;
	s->pool = pool;
	s->flags = ev->flags;
	s->kind = ev->kind;
	s->nargs = ev->nargs;
	s->first_arg = (uint32_t)(e->arg_keys.len / sizeof(uint64_t));

	p = varint__put(p, ev->kind);
	p = varint__put(p, ev->flags);
	p = varint__put(p, event__mask(ev));
	p = varint__put(p, encoder__string(e, ev->name));
	p = varint__put(p, encoder__string(e, ev->cat));
	p = varint__put(p, encoder__string(e, ev->src));
	p = varint__put(p, encoder__string(e, pool));
	p = varint__put(p, ev->nargs);
	for (i = 0; i < ev->nargs; i++) {
		uint64_t key = arg__key(&ev->args[i]);
		uint8_t type = ev->args[i].type;

		buf__append(&e->arg_keys, &key, sizeof(key));
		p = varint__put(p, encoder__string(e, ev->args[i].key));
		p = varint__put(p, (uint64_t)type << 2 | arg__class(type));
	}
	buf__append(&e->shapes_out, len, (size_t)(varint__put(len, (uint64_t)(p - raw)) - len));
	buf__append(&e->shapes_out, raw, (size_t)(p - raw));
}

static uint32_t encoder__shape(struct block_encoder *e, const struct event *ev)
{
	uint32_t pool = event_kind__fields(ev->kind) & EVF_POOL ? ev->pool : 0, at;
	uint64_t h = (uint64_t)ev->name << 32 |
		     ((uint32_t)ev->flags << 16 | (uint32_t)ev->kind << 8 | ev->nargs);
	unsigned i;

	h *= 0x9e3779b97f4a7c15ull;
	h ^= ((uint64_t)ev->cat << 32 | ev->src) * 0xd6e8feb86659fd93ull + pool;
	for (i = 0; i < ev->nargs; i++)
		h = (h ^ arg__key(&ev->args[i])) * 0x9e3779b97f4a7c15ull;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ull;
	h ^= h >> 32;
	for (at = h & (TABLE_SIZE - 1);; at = (at + 1) & (TABLE_SIZE - 1)) {
		struct enc_slot *slot = &e->table[at];

		if (slot->generation != e->generation) {
			slot->generation = e->generation;
			slot->shape = e->n_shapes;
			e->shapes[slot->shape].hash = h;
			encoder__add_shape(e, ev, pool);
			return slot->shape;
		}
		if (e->shapes[slot->shape].hash == h &&
		    shape__is(e, &e->shapes[slot->shape], ev, pool))
			return slot->shape;
	}
}

static void encoder__forget_shapes(struct block_encoder *e)
{
	e->n_shapes = 0;
	if (!++e->generation) {
		memset(e->table, 0, sizeof(e->table));
		e->generation = 1;
	}
}

static void encoder__open_chunk(struct block_encoder *e)
{
	e->cur = (struct enc_chunk){ .off = e->out.len,
				     .first_used = e->used.len / sizeof(uint32_t) };
	e->name_bytes = 0;
}

static void encoder__close_chunk(struct block_encoder *e)
{
	struct enc_chunk *c = &e->cur;

	if (!c->count)
		return;
	c->off = e->out.len;
	buf__varint(&e->out, e->n_shapes);
	buf__append(&e->out, e->shapes_out.data, e->shapes_out.len);
	buf__append(&e->out, e->events_out.data, e->events_out.len);
	c->len = e->out.len - c->off;
	buf__append(&e->chunks, c, sizeof(*c));

	buf__reset(&e->shapes_out);
	buf__reset(&e->events_out);
	buf__reset(&e->arg_keys);
	e->id = 0;
	encoder__forget_shapes(e);
	encoder__open_chunk(e);
}

static int encoder__event(struct block_encoder *e, const struct event *ev)
{
	struct enc_chunk *c = &e->cur;
	size_t bound = VARINT_MAX * 6;
	uint64_t dur = 0;
	uint8_t *p;
	unsigned i, mask;
	int err;

	if (!event_kind__name(ev->kind))
		return -EINVAL;
	err = args__bound(ev->args, ev->nargs, &bound);
	if (!err)
		err = buf__reserve(&e->events_out, bound);
	if (err)
		return err;
	if (!c->count)
		c->first_ts = e->ts = ev->ts;
	mask = event__mask(ev);
	p = e->events_out.data + e->events_out.len;
	p = varint__put(p, encoder__shape(e, ev));
	p = varint__put(p, ev->ts - e->ts);
	if (mask & SHAPE_DUR) {
		dur = ev->dur <= UINT64_MAX - ev->ts ? ev->dur : UINT64_MAX - ev->ts;
		p = varint__put(p, dur);
	}
	if (mask & SHAPE_ID) {
		p = varint__put(p, zigzag((int64_t)(ev->id - e->id)));
		e->id = ev->id;
	}
	if (mask & SHAPE_VALUE)
		p = varint__put(p, event__stored_value(ev));
	if (mask & SHAPE_AUX)
		p = varint__put(p, ev->aux);
	for (i = 0; i < ev->nargs; i++)
		p = arg__put(p, &ev->args[i]);
	e->events_out.len = (size_t)(p - e->events_out.data);

	e->ts = c->last_ts = ev->ts;
	if (ev->ts + dur > c->last_end)
		c->last_end = ev->ts + dur;
	c->count++;
	if (e->events_out.len + e->shapes_out.len >= FMT_BLOCK_BYTES ||
	    e->name_bytes >= FMT_BLOCK_NAME_BYTES || e->n_shapes == FMT_MAX_SHAPES)
		encoder__close_chunk(e);
	return 0;
}

static void encoder__close_ends(struct block_encoder *e)
{
	struct enc_chunk *c = &e->cur;

	if (c->count) {
		c->len = e->out.len - c->off;
		c->ends = true;
		buf__append(&e->chunks, c, sizeof(*c));
	}
	encoder__open_chunk(e);
	e->ts = e->id = 0;
}

static int encoder__end(struct block_encoder *e, const struct span_end *end)
{
	struct enc_chunk *c = &e->cur;
	size_t bound = VARINT_MAX * (4 + 2 * EVENT_MAX_ARGS);
	uint8_t *p;
	unsigned i;
	int err;

	err = args__bound(end->args, end->nargs, &bound);
	if (!err)
		err = buf__reserve(&e->out, bound);
	if (err)
		return err;
	p = e->out.data + e->out.len;
	p = varint__put(p, zigzag((int64_t)(end->open_id - e->id)));
	p = varint__put(p, zigzag((int64_t)(end->ts - e->ts)));
	p = varint__put(p, end->flags);
	p = varint__put(p, end->nargs);
	for (i = 0; i < end->nargs; i++) {
		uint8_t type = end->args[i].type;

		p = varint__put(p, encoder__string(e, end->args[i].key));
		p = varint__put(p, (uint64_t)type << 2 | arg__class(type));
		p = arg__put(p, &end->args[i]);
	}
	e->out.len = (size_t)(p - e->out.data);
	e->id = end->open_id;
	e->ts = end->ts;
	c->count++;
	if (e->out.len - c->off >= FMT_BLOCK_BYTES || e->name_bytes >= FMT_BLOCK_NAME_BYTES)
		encoder__close_ends(e);
	return 0;
}

static void encoder__clear(struct block_encoder *e)
{
	if (e->out.cap > KEEP_BYTES)
		buf__free(&e->out);
	buf__reset(&e->out);
	buf__reset(&e->shapes_out);
	buf__reset(&e->events_out);
	buf__reset(&e->arg_keys);
	buf__reset(&e->chunks);
	buf__reset(&e->used);
	encoder__open_chunk(e);
	e->id = e->ts = 0;
	encoder__forget_shapes(e);
}

int block_encoder__run(struct block_encoder *e, const struct strpool *names,
		       const struct event *events, size_t n, const struct span_end *ends,
		       size_t n_ends)
{
	size_t i;
	int err = 0;

	encoder__clear(e);
	e->names = names;
	e->max_id = strpool__count(names);
	for (i = 0; !err && i < n; i++) {
		if (i && events[i].ts < events[i - 1].ts)
			return -EINVAL;
		err = encoder__event(e, &events[i]);
	}
	encoder__close_chunk(e);
	encoder__close_ends(e);
	for (i = 0; !err && i < n_ends; i++)
		err = encoder__end(e, &ends[i]);
	encoder__close_ends(e);
	if (!err && (e->out.failed || e->shapes_out.failed || e->events_out.failed ||
		     e->arg_keys.failed || e->chunks.failed || e->used.failed))
		err = -ENOMEM;
	return err;
}
