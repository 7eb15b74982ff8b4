// SPDX-License-Identifier: Apache-2.0
#include "record.h"

#include <string.h>

struct plan {
	uint32_t bytes;
	uint16_t len[CLIKA_MAX_ARGS], key_len[CLIKA_MAX_ARGS];
};

/* What an argument takes at least: its header, its key, one word. */
static uint32_t least(const struct plan *p, uint32_t i)
{
	return 16 + clika__pad8(p->key_len[i]);
}

static void plan(struct plan *p, const struct record *r)
{
	uint32_t later = 0, i;

	p->bytes = (uint32_t)sizeof(struct clika_rec) + r->fixed * 8;
	if (r->name)
		p->bytes += clika__pad8(2 + r->name_len);
	for (i = 0; i < r->nargs; i++) {
		uint16_t n = r->args[i].key_len;

		p->key_len[i] = n < RECORD_MAX_KEY ? n : RECORD_MAX_KEY;
		later += least(p, i);
	}
	for (i = 0; i < r->nargs; i++) {
		uint32_t left;

		later -= least(p, i);
		p->len[i] = 8;
		if (r->args[i].type == CLIKA_ARG_STR) {
			/* what is left, less what the arguments still to come need at least */
			left = CLIKA_MAX_RECORD - p->bytes - later - 8 - clika__pad8(p->key_len[i]);
			p->len[i] = r->args[i].len < CLIKA__MAX_STRING ? r->args[i].len
								       : CLIKA__MAX_STRING;
			if (p->len[i] > left)
				p->len[i] = (uint16_t)left;
		}
		p->bytes += 8 + clika__pad8(p->key_len[i]) + clika__pad8(p->len[i]);
	}
}

static void write_record(struct clika_buffer *b, const struct record *r, const struct plan *p,
			 uint64_t ts)
{
	uint64_t *at = clika__at(b);
	char *to = (char *)(at + 2 + r->fixed);
	uint32_t i;

	at[0] = clika__header(p->bytes, r->kind, r->nargs | (r->name ? CLIKA_RECF_INLINE : 0u), 0);
	at[1] = ts;
	for (i = 0; i < r->fixed; i++)
		at[2 + i] = r->words[i];
	if (r->name) {
		uint16_t n = (uint16_t)r->name_len;
		uint32_t whole = clika__pad8(2 + r->name_len);

		*(uint64_t *)(to + whole - 8) = 0;
		memcpy(to, &n, 2);
		memcpy(to + 2, r->name, r->name_len);
		to += whole;
	}
	for (i = 0; i < r->nargs; i++) {
		const struct record_arg *a = &r->args[i];

		*(uint64_t *)to = a->type | (uint64_t)p->key_len[i] << 8 |
				  (uint64_t)p->len[i] << 16;
		to = clika__put_bytes(to + 8, a->key, p->key_len[i]);
		if (a->type == CLIKA_ARG_STR)
			to = clika__put_bytes(to, (const char *)(uintptr_t)a->value, p->len[i]);
		else
			*(uint64_t *)to = a->value, to += 8;
	}
	clika__publish(b, p->bytes);
}

static struct clika_buffer *claim(uint32_t bytes)
{
	struct clika_buffer *b = clika__lock();

	return b ? clika__room(b, bytes) : b;
}

/* As the header's own: outer spans are announced first, so that depths are right. */
clika_token record__span_begin(const char *name, uint32_t len, uint32_t nargs,
			       const struct record_arg *args)
{
	struct record r = { .kind = CLIKA_REC_BEGIN,
			    .fixed = 1,
			    .name = name,
			    .name_len = len,
			    .nargs = nargs,
			    .args = args };
	struct clika_buffer *b;
	uint64_t start;
	struct plan p;
	uint32_t d;

	plan(&p, &r);
	b = claim(p.bytes);
	if (!b)
		return 0;
	d = b->depth;
	if (d >= CLIKA_MAX_OPEN) {
		clika__drop(b);
		clika__unlock(b);
		return 0;
	}
	clika__announce(b);
	start = clika__in_order(b, clika__now());
	r.words[0] = d;
	write_record(b, &r, &p, start);
	clika__push(b, start, 0);
	b->announced = d + 1;
	clika__unlock(b);
	return clika__token(start, d);
}

void record__span_end(clika_token token)
{
	clika__span_end(token);
}

bool record__span_end_last(clika_token token)
{
	struct clika_buffer *b = clika__lock_open(token);
	bool last;

	if (!b)
		return true;
	last = b->depth == (token & 0xff);
	clika__unlock(b);
	if (last)
		clika__span_end(token);
	return last;
}

static void emit_at(const struct record *r, uint64_t ts)
{
	struct clika_buffer *b;
	struct plan p;

	plan(&p, r);
	b = claim(p.bytes);
	if (!b)
		return;
	write_record(b, r, &p, ts);
	clika__unlock(b);
}

void record__emit(const struct record *r)
{
	emit_at(r, clika__now_after());
}

void record__span(const char *name, uint32_t len, uint64_t begin, uint64_t end)
{
	struct record r = { .kind = CLIKA_REC_SPAN, .fixed = 1, .name = name, .name_len = len };

	r.words[0] = end < begin ? begin : end;
	emit_at(&r, begin);
}

void record__thread_name(const char *name)
{
	CLIKA_THREAD_NAME(name);
}

bool record__enabled(void)
{
	return CLIKA_ENABLED();
}
