// SPDX-License-Identifier: Apache-2.0
#include "user/stream/chain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Spans that are told at their end come in post-order: one stream a level of nesting. Beyond this
 * many an event is moved up to its stream's last time. */
#define MAX_STREAMS 80
#define MAX_DEPTH 65536

struct sub {
	uint32_t stream;
	uint64_t last_ts;
	struct event *ev;
	uint32_t *args_at; /* parallel to ev */
	size_t n, cap;
};

struct open_span_ref {
	uint64_t key;
	uint64_t open_id; /* not 0: announced in an earlier block */
	uint64_t start;
	uint32_t sub, slot;
	bool hidden;
	bool told; /* seen open from outside; the target's own record is still to come */
};

struct chain {
	struct chain_env *env;
	uint32_t thread;
	struct sub *subs;
	unsigned n_subs, cap_subs;
	struct open_span_ref *open;
	size_t n_open, cap_open, n_told;
	struct span_end *ends;
	uint32_t *ends_args_at;
	size_t n_ends, cap_ends;
	struct event_arg *args;
	uint32_t *
		text_at; /* parallel to args: offset of a string in text, which moves as it grows */
	size_t n_args, cap_args;
	struct buf text;
	uint64_t records; /* since the last flush */
};

struct chain *chain__new(struct chain_env *env, uint32_t thread)
{
	struct chain *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->env = env;
	c->thread = thread;
	return c;
}

void chain__free(struct chain *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < c->n_subs; i++) {
		c->env->pending_bytes -= c->subs[i].n * sizeof(struct event);
		free(c->subs[i].ev);
		free(c->subs[i].args_at);
	}
	c->env->pending_bytes -= c->text.len;
	free(c->subs);
	free(c->open);
	free(c->ends);
	free(c->ends_args_at);
	free(c->args);
	free(c->text_at);
	buf__free(&c->text);
	free(c);
}

/* Doubles an array and, when given, the one that runs beside it. */
static int grow(void *array, size_t size, uint32_t **beside, size_t *cap)
{
	void **a = array;
	size_t want = *cap ? *cap * 2 : 32;
	void *more = realloc(*a, want * size);

	if (!more)
		return -ENOMEM;
	*a = more;
	if (beside) {
		uint32_t *b = realloc(*beside, want * sizeof(*b));

		if (!b)
			return -ENOMEM;
		*beside = b;
	}
	*cap = want;
	return 0;
}

static int chain__copy_args(struct chain *c, const struct event_arg *args, unsigned n, uint32_t *at)
{
	*at = UINT32_MAX;
	if (!n)
		return 0;
	while (c->n_args + n > c->cap_args) {
		int ret = grow(&c->args, sizeof(*c->args), &c->text_at, &c->cap_args);

		if (ret)
			return ret;
	}
	*at = c->n_args;
	for (unsigned i = 0; i < n; i++) {
		c->args[c->n_args] = args[i];
		c->text_at[c->n_args++] = c->text.len;
		if (args[i].type == ARG_STR) {
			buf__append(&c->text, args[i].str, args[i].len);
			c->env->pending_bytes += args[i].len;
		}
	}
	return buf__error(&c->text);
}

static const struct event_arg *chain__args(struct chain *c, uint32_t at, unsigned n)
{
	if (at == UINT32_MAX)
		return NULL;
	for (unsigned i = 0; i < n; i++)
		if (c->args[at + i].type == ARG_STR)
			c->args[at + i].str = (const char *)c->text.data + c->text_at[at + i];
	return &c->args[at];
}

static int chain__place(struct chain *c, const struct event *ev, uint32_t *sub, uint32_t *slot)
{
	struct sub *s;
	unsigned i;
	int ret;

	for (i = 0; i < c->n_subs; i++)
		if (c->subs[i].last_ts <= ev->ts)
			break;
	if (i == MAX_STREAMS)
		i = MAX_STREAMS - 1;
	if (i == c->cap_subs) {
		unsigned cap = c->cap_subs ? c->cap_subs * 2 : 2;
		struct sub *more = realloc(c->subs, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		c->subs = more;
		c->cap_subs = cap;
	}
	s = &c->subs[i];
	if (i == c->n_subs) {
		memset(s, 0, sizeof(*s));
		s->stream = c->env->next_stream++;
		c->n_subs++;
	}
	if (s->n == s->cap) {
		ret = grow(&s->ev, sizeof(*s->ev), &s->args_at, &s->cap);
		if (ret)
			return ret;
	}
	s->ev[s->n] = *ev;
	s->ev[s->n].args = NULL;
	if (ev->ts < s->last_ts)
		s->ev[s->n].ts = s->last_ts;
	ret = chain__copy_args(c, ev->args, ev->nargs, &s->args_at[s->n]);
	if (ret)
		return ret;
	s->last_ts = s->ev[s->n].ts;
	*sub = i;
	*slot = s->n++;
	c->env->pending_bytes += sizeof(*ev);
	return 0;
}

int chain__event(struct chain *c, const struct event *ev)
{
	uint32_t sub, slot;

	if (ev->kind == EV_SPAN) {
		c->env->spans++;
		if (ev->dur < c->env->min_duration_ns) {
			c->env->filtered++;
			return 0;
		}
	}
	return chain__place(c, ev, &sub, &slot);
}

static int chain__push(struct chain *c, const struct open_span_ref *o)
{
	if (c->n_open >= MAX_DEPTH)
		return -E2BIG;
	if (c->n_open == c->cap_open) {
		int ret = grow(&c->open, sizeof(*c->open), NULL, &c->cap_open);

		if (ret)
			return ret;
	}
	c->open[c->n_open++] = *o;
	return 0;
}

static int begin(struct chain *c, uint64_t key, const struct event *ev, bool told)
{
	struct open_span_ref o = { .key = key, .start = ev->ts, .told = told };
	struct event e = *ev;
	int ret;

	e.kind = EV_SPAN;
	e.flags |= EVS_OPEN;
	e.id = 0;
	e.dur = 0;
	ret = chain__place(c, &e, &o.sub, &o.slot);
	if (ret)
		return ret;
	c->env->spans++;
	ret = chain__push(c, &o);
	if (!ret)
		c->n_told += told;
	return ret;
}

int chain__begin(struct chain *c, uint64_t key, const struct event *ev)
{
	return begin(c, key, ev, false);
}

int chain__begin_told(struct chain *c, uint64_t key, const struct event *ev)
{
	return begin(c, key, ev, true);
}

bool chain__begin_known(struct chain *c, uint64_t key, uint64_t start)
{
	for (size_t i = c->n_open; i-- > 0;) {
		struct open_span_ref *o = &c->open[i];

		if (o->key != key || o->start != start || o->hidden)
			continue;
		c->n_told -= o->told;
		o->told = false;
		return true;
	}
	return false;
}

bool chain__end_told(struct chain *c, uint64_t start, uint64_t end)
{
	if (!c->n_told)
		return false;
	for (size_t i = c->n_open; i-- > 0;) {
		if (!c->open[i].told || c->open[i].start != start)
			continue;
		chain__end(c, c->open[i].key, end, 0, NULL, 0);
		return true;
	}
	return false;
}

int chain__begin_hidden(struct chain *c, uint64_t key)
{
	struct open_span_ref o = { .key = key, .hidden = true };

	return chain__push(c, &o);
}

static int chain__add_end(struct chain *c, const struct span_end *e, uint32_t args_at)
{
	if (c->n_ends == c->cap_ends) {
		int ret = grow(&c->ends, sizeof(*c->ends), &c->ends_args_at, &c->cap_ends);

		if (ret)
			return ret;
	}
	c->ends[c->n_ends] = *e;
	c->ends_args_at[c->n_ends++] = args_at;
	return 0;
}

/* Arguments of begin and end joined; what is past the limit is left out. */
static int chain__join_args(struct chain *c, struct sub *s, uint32_t slot,
			    const struct event_arg *args, unsigned nargs)
{
	struct event_arg both[EVENT_MAX_ARGS];
	struct event *ev = &s->ev[slot];
	unsigned n = 0;

	if (!nargs)
		return 0;
	/* The copies below must not move what `both` points into. */
	if (buf__reserve(&c->text, EVENT_MAX_ARGS * 1024))
		return -ENOMEM;
	if (s->args_at[slot] != UINT32_MAX) {
		const struct event_arg *had = chain__args(c, s->args_at[slot], ev->nargs);

		for (; n < ev->nargs; n++)
			both[n] = had[n];
	}
	for (unsigned i = 0; i < nargs && n < EVENT_MAX_ARGS; i++)
		both[n++] = args[i];
	ev->nargs = n;
	return chain__copy_args(c, both, n, &s->args_at[slot]);
}

static int chain__pop(struct chain *c, uint64_t ts, uint16_t flags, const struct event_arg *args,
		      unsigned nargs)
{
	struct open_span_ref *o = &c->open[--c->n_open];
	struct span_end end = { .open_id = o->open_id, .ts = ts, .flags = flags };
	struct event *ev;
	struct sub *s;
	uint32_t at;
	int ret;

	c->n_told -= o->told;
	if (o->hidden)
		return 0;
	if (ts < o->start)
		ts = end.ts = o->start;
	if (o->open_id) {
		end.nargs = nargs;
		ret = chain__copy_args(c, args, nargs, &at);
		return ret ? ret : chain__add_end(c, &end, at);
	}
	s = &c->subs[o->sub];
	ev = &s->ev[o->slot];
	ev->flags = (ev->flags & ~EVS_OPEN) | flags;
	ev->dur = ts > ev->ts ? ts - ev->ts : 0;
	return chain__join_args(c, s, o->slot, args, nargs);
}

int chain__end(struct chain *c, uint64_t key, uint64_t ts, uint16_t flags,
	       const struct event_arg *args, unsigned nargs)
{
	size_t i = c->n_open;
	int ret;

	while (i > 0 && c->open[i - 1].key != key)
		i--;
	if (i == 0)
		return 0;
	while (c->n_open > i)
		chain__pop(c, ts, EVS_UNFINISHED, NULL, 0);
	ret = chain__pop(c, ts, flags, args, nargs);
	return ret ? ret : 1;
}

void chain__unwind(struct chain *c, uint64_t ts, bool (*left)(uint64_t key, void *ctx), void *ctx)
{
	while (c->n_open && left(c->open[c->n_open - 1].key, ctx))
		chain__pop(c, ts, EVS_UNFINISHED, NULL, 0);
}

bool chain__top(const struct chain *c, uint64_t *key)
{
	if (!c->n_open)
		return false;
	*key = c->open[c->n_open - 1].key;
	return true;
}

void chain__close_all(struct chain *c, uint64_t ts)
{
	while (c->n_open)
		chain__pop(c, ts, EVS_UNFINISHED, NULL, 0);
}

unsigned chain__depth(const struct chain *c)
{
	return c->n_open;
}

/* Spans that turned out too short are left out now that both ends are known. */
static void chain__compact(struct chain *c, struct sub *s)
{
	uint64_t min = c->env->min_duration_ns;
	size_t n = 0;

	if (!min)
		return;
	for (size_t i = 0; i < s->n; i++) {
		if (s->ev[i].kind == EV_SPAN && !(s->ev[i].flags & EVS_OPEN) &&
		    s->ev[i].dur < min) {
			c->env->filtered++;
			continue;
		}
		s->ev[n] = s->ev[i];
		s->args_at[n++] = s->args_at[i];
	}
	s->n = n;
}

void chain__counted(struct chain *c, uint64_t records)
{
	c->records += records;
}

int chain__flush(struct chain *c)
{
	int ret = 0, err;

	for (size_t i = 0; i < c->n_open; i++) {
		struct open_span_ref *o = &c->open[i];

		if (o->hidden || o->open_id)
			continue;
		o->open_id = ++c->env->next_open_id;
		c->subs[o->sub].ev[o->slot].id = o->open_id;
	}
	for (size_t i = 0; i < c->n_ends; i++)
		c->ends[i].args = chain__args(c, c->ends_args_at[i], c->ends[i].nargs);
	for (unsigned k = 0; k < c->n_subs; k++) {
		struct sub *s = &c->subs[k];
		size_t n_ends = k == 0 ? c->n_ends : 0, had = s->n;

		chain__compact(c, s);
		for (size_t i = 0; i < s->n; i++)
			s->ev[i].args = chain__args(c, s->args_at[i], s->ev[i].nargs);
		err = s->n || n_ends ? writer__block(c->env->w, c->thread, s->stream, s->ev, s->n,
						     c->ends, n_ends)
				     : 0;
		if (err && !c->env->err)
			c->env->err = err;
		ret = ret ? ret : err;
		c->env->pending_bytes -= had * sizeof(struct event);
		s->n = 0;
	}
	if (ret == -EFBIG)
		c->env->refused += c->records;
	c->records = 0;
	c->env->pending_bytes -= c->text.len;
	c->n_ends = 0;
	c->n_args = 0;
	buf__reset(&c->text);
	return ret;
}

bool chain__idle(const struct chain *c)
{
	if (c->n_open || c->n_ends)
		return false;
	for (unsigned i = 0; i < c->n_subs; i++)
		if (c->subs[i].n)
			return false;
	return true;
}
