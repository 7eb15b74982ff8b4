// SPDX-License-Identifier: Apache-2.0
#include "user/recording/reader_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "user/recording/varint.h"

/*
 * Zeros behind the bytes of a body. The numbers of one event in front of its arguments are read
 * without looking for the end: each varint ends at the first zero, so this many bytes are enough
 * for one long varint and one byte for each of the others (shape, ts, 32 fields).
 */
#define BODY_PADDING 64
#define BODY_KEEP (256u << 10) /* a larger buffer is given back after its block */

void block_slot__free(struct block_slot *s)
{
	if (!s)
		return;
	buf__free(&s->body);
	free(s->shapes);
	free(s->args);
	free(s);
}

/*
 * Buffers belong to the recording, which is const for who only reads it. A reader that comes back
 * without having ended its block gets its buffer again; one that never does leaves it to
 * recording__close().
 */
static struct block_slot *slot__take(const struct recording *cr, const struct block_reader *br)
{
	struct recording *r = (struct recording *)(uintptr_t)cr;
	uint64_t *have = map64__get(r->slot_of, (uintptr_t)br);
	struct block_slot *s, **v;

	if (have)
		return r->slots[*have];
	s = r->free_slots;
	if (!s) {
		v = realloc(r->slots, (r->n_slots + 1) * sizeof(*v));
		if (!v)
			return NULL;
		r->slots = v;
		s = calloc(1, sizeof(*s));
		if (!s)
			return NULL;
		s->index = r->n_slots;
		r->slots[r->n_slots++] = s;
		s->next_free = r->free_slots;
		r->free_slots = s;
	}
	if (!map64__put(r->slot_of, (uintptr_t)br, s->index))
		return NULL;
	r->free_slots = s->next_free;
	s->owner = br;
	return s;
}

static void slot__release(const struct recording *cr, struct block_slot *s)
{
	struct recording *r = (struct recording *)(uintptr_t)cr;

	if (s->body.cap > BODY_KEEP)
		buf__free(&s->body);
	map64__del(r->slot_of, (uintptr_t)s->owner);
	s->owner = NULL;
	s->serial++;
	s->next_free = r->free_slots;
	r->free_slots = s;
}

/* --- the table of shapes ------------------------------------------------------------------ */

static struct dec_arg *slot__add_arg(struct block_slot *s)
{
	if (s->n_args == s->cap_args) {
		uint32_t cap = s->cap_args ? s->cap_args * 2 : 64;
		struct dec_arg *v = realloc(s->args, cap * sizeof(*v));

		if (!v)
			return NULL;
		s->args = v;
		s->cap_args = cap;
	}
	return &s->args[s->n_args++];
}

static uint8_t arg__known_type(uint64_t type, unsigned class)
{
	static const uint8_t classes[] = { [ARG_I64] = CLASS_VARINT,
					   [ARG_U64] = CLASS_VARINT,
					   [ARG_F64] = CLASS_FIXED64,
					   [ARG_STR] = CLASS_BYTES };

	return type >= ARG_I64 && type <= ARG_STR && classes[type] == class ? (uint8_t)type : 0;
}

static int shape__parse(const struct recording *r, struct block_slot *s, struct cursor *c,
			struct dec_shape *sh)
{
	uint64_t kind = cursor__varint(c), flags = cursor__varint(c), mask = cursor__varint(c), n,
		 i;

	sh->kind = kind < EV_KIND_COUNT ? (uint8_t)kind : 0;
	sh->flags = (uint16_t)flags;
	sh->mask = (uint32_t)mask;
	sh->name = recording__name_id(r, cursor__varint(c));
	sh->cat = recording__name_id(r, cursor__varint(c));
	sh->src = recording__name_id(r, cursor__varint(c));
	sh->pool = recording__name_id(r, cursor__varint(c));
	n = cursor__varint(c);
	if (c->bad || mask > UINT32_MAX || n > UINT16_MAX)
		return -EBADMSG;
	sh->nargs = (uint16_t)n;
	sh->first_arg = s->n_args;
	for (i = 0; i < n; i++) {
		uint64_t key = cursor__varint(c), type = cursor__varint(c);
		struct dec_arg *a;

		if (c->bad || (type & 3) > CLASS_BYTES)
			return -EBADMSG;
		a = slot__add_arg(s);
		if (!a)
			return -ENOMEM;
		a->key = recording__name_id(r, key);
		a->class = type & 3;
		a->type = arg__known_type(type >> 2, a->class);
	}
	return 0;
}

static int slot__parse_shapes(const struct recording *r, struct block_slot *s, struct cursor *c)
{
	uint64_t n = cursor__varint(c), i;
	int err;

	/* each takes 9 bytes at least */
	if (c->bad || n > cursor__left(c) / 9)
		return -EBADMSG;
	if (n > s->cap_shapes) {
		struct dec_shape *v = realloc(s->shapes, n * sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->shapes = v;
		s->cap_shapes = (uint32_t)n;
	}
	s->n_shapes = (uint32_t)n;
	s->n_args = 0;
	for (i = 0; i < n; i++) {
		uint64_t len = cursor__varint(c);
		const uint8_t *p = len <= cursor__left(c) ? cursor__bytes(c, (size_t)len) : NULL;
		struct cursor one;

		if (!p)
			return -EBADMSG;
		one = cursor__over(p, (size_t)len);
		err = shape__parse(r, s, &one, &s->shapes[i]);
		if (err)
			return err;
	}
	return 0;
}

/* --- a block --------------------------------------------------------------------------------- */

int block_reader__init(struct block_reader *br, const struct recording *r, size_t block)
{
	const struct stored_block *b;
	struct block_slot *s;
	struct cursor c;
	int err;

	br->r = r;
	br->left = 0;
	br->slot = NULL;
	if (block >= r->blocks.n)
		return -EINVAL;
	b = (const struct stored_block *)r->blocks.v + block;
	s = slot__take(r, br);
	if (!s)
		return -ENOMEM;
	buf__reset(&s->body);
	err = buf__reserve(&s->body, (size_t)b->len + BODY_PADDING);
	if (!err)
		err = fd__read_at(r->fd, s->body.data, b->len, b->pub.pos);
	/* checked again: the file may be one that is still being overwritten */
	if (!err && (uint32_t)crc32_z(0, s->body.data, b->len) != b->crc)
		err = -EBADMSG;
	if (!err) {
		memset(s->body.data + b->len, 0, BODY_PADDING);
		c = cursor__over(s->body.data, b->len);
		err = slot__parse_shapes(r, s, &c);
	}
	if (err) {
		slot__release(r, s);
		return err;
	}
	br->slot = s;
	br->serial = ++s->serial;
	br->p = c.p;
	br->end = c.end;
	br->left = b->pub.count;
	br->ts = b->pub.first_ts;
	br->id = 0;
	br->last_ts = b->pub.last_ts;
	br->last_end = b->pub.last_end;
	return 0;
}

void block_reader__stop(struct block_reader *br)
{
	if (br->slot && br->slot->serial == br->serial)
		slot__release(br->r, br->slot);
	br->slot = NULL;
	br->left = 0;
}

/* Reads or passes over the value of one argument; NULL when the body ends in it. */
static const uint8_t *arg__get(const uint8_t *p, const uint8_t *end, const struct dec_arg *d,
			       struct event_arg *a, bool *bad)
{
	uint64_t v;
	unsigned i;

	a->key = d->key;
	a->type = d->type;
	a->len = 0;
	a->u = 0;
	switch (d->class) {
	case CLASS_FIXED64:
		if (end - p < 8)
			return NULL;
		for (i = 0; i < 8; i++)
			a->u |= (uint64_t)p[i] << (8 * i);
		return p + 8;
	case CLASS_BYTES:
		if (p >= end)
			return NULL;
		p = varint__get(p, &v, bad);
		if (p > end || v > (uint64_t)(end - p))
			return NULL;
		a->str = (const char *)p;
		a->len = v < UINT16_MAX ? (uint16_t)v : UINT16_MAX;
		return p + v;
	default:
		if (p >= end)
			return NULL;
		p = varint__get(p, &v, bad);
		a->u = d->type == ARG_I64 ? (uint64_t)unzigzag(v) : v;
		return p;
	}
}

/* A later version may have more arguments, of more types: what fits is given. */
static const uint8_t *event__get_args(struct block_reader *br, const uint8_t *p,
				      const struct dec_shape *sh, uint8_t *nargs, bool *bad)
{
	const struct dec_arg *d = br->slot->args + sh->first_arg;
	struct event_arg beyond, *a;
	unsigned i, n = 0;

	for (i = 0; p && i < sh->nargs; i++) {
		a = d[i].type && n < EVENT_MAX_ARGS ? &br->args[n++] : &beyond;
		p = arg__get(p, br->end, &d[i], a, bad);
	}
	*nargs = (uint8_t)n;
	return p;
}

static uint64_t event__value(unsigned kind, uint64_t stored)
{
	switch (kind) {
	case EV_COUNTER_I64:
		return (uint64_t)unzigzag(stored);
	case EV_COUNTER_F64:
		return __builtin_bswap64(stored);
	default:
		return stored;
	}
}

static const uint8_t *event__get_fields(const uint8_t *p, const struct dec_shape *sh,
					struct event *ev, uint64_t *id, bool *bad)
{
	uint32_t mask = sh->mask;
	uint64_t v;

	if (mask & SHAPE_DUR)
		p = varint__get(p, &ev->dur, bad);
	if (mask & SHAPE_ID) {
		p = varint__get(p, &v, bad);
		*id += (uint64_t)unzigzag(v);
		ev->id = *id;
	}
	if (mask & SHAPE_VALUE) {
		p = varint__get(p, &v, bad);
		ev->value = event__value(sh->kind, v);
	}
	if (mask & SHAPE_AUX) {
		p = varint__get(p, &v, bad);
		ev->aux = (uint32_t)v;
	}
	for (mask &= ~SHAPE_KNOWN; mask; mask &= mask - 1)
		p = varint__get(p, &v, bad);
	return p;
}

/* The block is at its end: its buffer goes back, the strings of this event move out of it. */
static void block_reader__leave(struct block_reader *br, struct event *ev)
{
	size_t used = 0;
	unsigned i;

	for (i = 0; ev && i < ev->nargs; i++)
		if (br->args[i].type == ARG_STR)
			used += br->args[i].len;
	if (used > sizeof(br->strings))
		return; /* kept until this reader starts another block */
	for (i = 0, used = 0; ev && i < ev->nargs; i++) {
		struct event_arg *a = &br->args[i];

		if (a->type != ARG_STR)
			continue;
		memcpy(br->strings + used, a->str, a->len);
		a->str = br->strings + used;
		used += a->len;
	}
	block_reader__stop(br);
}

static int block_reader__damaged(struct block_reader *br)
{
	block_reader__stop(br);
	return -EBADMSG;
}

int block_reader__next(struct block_reader *br, struct event *ev)
{
	while (br->left) {
		const uint8_t *p = br->p;
		const struct dec_shape *sh;
		uint64_t shape, delta;
		bool bad = false;

		if (p >= br->end || br->slot->serial != br->serial)
			return block_reader__damaged(br);
		p = varint__get(p, &shape, &bad);
		p = varint__get(p, &delta, &bad);
		if (bad || shape >= br->slot->n_shapes || delta > br->last_ts - br->ts)
			return block_reader__damaged(br);
		br->ts += delta;
		sh = &br->slot->shapes[shape];
		*ev = (struct event){ .ts = br->ts,
				      .name = sh->name,
				      .cat = sh->cat,
				      .src = sh->src,
				      .pool = sh->pool,
				      .flags = sh->flags,
				      .kind = sh->kind,
				      .args = br->args };
		p = event__get_fields(p, sh, ev, &br->id, &bad);
		if (sh->nargs && p <= br->end)
			p = event__get_args(br, p, sh, &ev->nargs, &bad);
		if (bad || !p || p > br->end || ev->dur > br->last_end - ev->ts)
			return block_reader__damaged(br);
		br->p = p;
		br->left--;
		if (!sh->kind)
			continue;
		if (!br->left)
			block_reader__leave(br, ev);
		return 1;
	}
	block_reader__stop(br);
	return 0;
}

/* --- ends ---------------------------------------------------------------------------------------- */

static void *ends__memory(struct recording *r, size_t n)
{
	struct ends_chunk *c = r->ends_memory;
	void *p;

	n = (n + 7) & ~(size_t)7;
	if (!c || c->cap - c->used < n) {
		size_t cap = n > 32768 ? n : 32768;

		c = malloc(sizeof(*c) + cap);
		if (!c)
			return NULL;
		c->next = r->ends_memory;
		c->used = 0;
		c->cap = cap;
		r->ends_memory = c;
	}
	p = c->data + c->used;
	c->used += n;
	return p;
}

/* Copies what was decoded to memory that lives as long as the recording. */
static int end__keep_args(struct recording *r, struct span_end *e, const struct event_arg *args)
{
	struct event_arg *to;
	size_t bytes = e->nargs * sizeof(*to);
	char *str;
	unsigned i;

	for (i = 0; i < e->nargs; i++)
		bytes += args[i].type == ARG_STR ? args[i].len : 0;
	to = ends__memory(r, bytes);
	if (!to)
		return -ENOMEM;
	str = (char *)(to + e->nargs);
	for (i = 0; i < e->nargs; i++) {
		to[i] = args[i];
		if (args[i].type != ARG_STR)
			continue;
		memcpy(str, args[i].str, args[i].len);
		to[i].str = str;
		str += args[i].len;
	}
	e->args = to;
	return 0;
}

static int end__decode(struct recording *r, struct cursor *c, struct span_end *e)
{
	struct event_arg args[EVENT_MAX_ARGS], beyond, *a;
	uint64_t n, i;

	e->flags = (uint16_t)cursor__varint(c);
	n = cursor__varint(c);
	if (c->bad || n > cursor__left(c) / 3 + 1)
		return -EBADMSG;
	for (i = 0; i < n; i++) {
		uint64_t key = cursor__varint(c), type = cursor__varint(c), v = 0;
		struct dec_arg d = { .class = type & 3 };

		if (c->bad || d.class > CLASS_BYTES)
			return -EBADMSG;
		d.key = recording__name_id(r, key);
		d.type = arg__known_type(type >> 2, d.class);
		a = d.type && e->nargs < EVENT_MAX_ARGS ? &args[e->nargs++] : &beyond;
		*a = (struct event_arg){ .key = d.key, .type = d.type };
		switch (d.class) {
		case CLASS_FIXED64:
			a->u = cursor__u64le(c);
			break;
		case CLASS_BYTES:
			v = cursor__varint(c);
			a->len = v < UINT16_MAX ? (uint16_t)v : UINT16_MAX;
			a->str =
				(const char *)cursor__bytes(c, v < SIZE_MAX ? (size_t)v : SIZE_MAX);
			break;
		default:
			v = cursor__varint(c);
			a->u = d.type == ARG_I64 ? (uint64_t)unzigzag(v) : v;
		}
		if (c->bad)
			return -EBADMSG;
	}
	return e->nargs ? end__keep_args(r, e, args) : 0;
}

int ends__decode(struct recording *r, struct cursor *c)
{
	uint64_t id = 0, ts = 0;
	int err;

	while (cursor__left(c)) {
		struct span_end e = { 0 }, *to;

		id += (uint64_t)cursor__svarint(c);
		ts += (uint64_t)cursor__svarint(c);
		e.open_id = id;
		e.ts = ts;
		err = end__decode(r, c, &e);
		if (err)
			return err;
		if (r->ends.n && ((struct span_end *)r->ends.v)[r->ends.n - 1].open_id >= id)
			r->ends_unsorted = true;
		to = table__push(&r->ends, sizeof(*to));
		if (!to)
			return -ENOMEM;
		*to = e;
		if (!r->state.first_ts || ts < r->state.first_ts)
			r->state.first_ts = ts;
		if (ts > r->state.last_ts)
			r->state.last_ts = ts;
	}
	return 0;
}
