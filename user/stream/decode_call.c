// SPDX-License-Identifier: Apache-2.0
/*
 * Calls of probed functions: an entry and a return are joined by the stack pointer. What a recipe
 * says of a function (name, arguments, memory, flows, requests) is applied here.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/stream/call.h"
#include "user/stream/decode_internal.h"

/* Stacks of one thread that lie further apart than this are different ones (signal stacks, fibers):
 * one says nothing of the other's frames. */
#define SAME_STACK (16ull << 20)
#define MAX_FRAMES 65536
/* Kept of entries until the returns, in all threads: stack pointers are what targets make them. */
#define MAX_FRAME_BYTES (64u << 20)
#define FRAMES_BACK 256 /* looked at for a return: stacks may take turns */
#define MAX_TEXT 256
/* An argument is judged by its first values: half of them implausible, and it is left out. */
#define JUDGED 16
#define MAX_ELEMENTS 64
#define MAX_DEVICES 4096

/* --- what the decoder knows of each function ---------------------------------------------------- */

struct call_state {
	struct call_count count;
	uint32_t name, cat;
	bool ready, hidden, dynamic; /* dynamic: its name depends on arguments */
	uint8_t off;                 /* bit i: argument i has proved implausible */
	uint8_t seen[RECIPE_MAX_ARGS], bad[RECIPE_MAX_ARGS];
};

static struct call_state *call_state__get(struct decoder *d, uint32_t func,
					  const struct func_probe *f)
{
	struct call_state *s;

	if (func >= d->n_calls) {
		size_t n = files__n_funcs(d->o.files);

		s = realloc(d->calls, n * sizeof(*s));
		if (!s)
			return NULL;
		memset(s + d->n_calls, 0, (n - d->n_calls) * sizeof(*s));
		d->calls = s;
		d->n_calls = n;
	}
	s = &d->calls[func];
	if (!s->ready) {
		struct strpool *pool = names__pool(d->o.names);
		const char *cat = "function";

		if (f->kind)
			cat = f->kind->rule->category ? f->kind->rule->category
						      : f->kind->recipe->category;
		s->dynamic = f->names || (f->kind && strchr(f->name, '{'));
		if (!s->dynamic) {
			struct name_ids ids = names__text(d->o.names, f->name, strlen(f->name));

			s->name = ids.name;
			s->hidden = ids.hidden;
		}
		s->cat = strpool__ids(pool, cat ? cat : f->kind->recipe->name);
		s->ready = true;
	}
	return s;
}

void decoder__calls_free(struct decoder *d)
{
	free(d->calls);
	map64__free(d->devices);
}

void decoder__on_implausible(struct decoder *d,
			     void (*fn)(void *ctx, const struct func_probe *f,
					const struct recipe_arg *a),
			     void *ctx)
{
	d->on_implausible = fn;
	d->implausible_ctx = ctx;
}

const struct call_count *decoder__call_count(const struct decoder *d, uint32_t func)
{
	return func < d->n_calls ? &d->calls[func].count : NULL;
}

/* --- values -------------------------------------------------------------------------------------- */

struct call_values {
	bool ok[RECIPE_MAX_ARGS];
	uint64_t u[RECIPE_MAX_ARGS];
	const char *text[RECIPE_MAX_ARGS];
	uint16_t len[RECIPE_MAX_ARGS];
	char room[RECIPE_MAX_ARGS][MAX_TEXT]; /* arrays as text */
};

/* What --redact leaves out: texts, and bytes, which are texts as often as not. */
static bool is_private(const struct recipe_arg *a)
{
	if (a->type == RECIPE_ARRAY || a->type == RECIPE_COUNTED)
		return recipe_type__bytes(a->element) == 1;
	return recipe_type__is_text(a->type);
}

static double bits_as_float(enum recipe_type t, uint64_t v)
{
	double f;

	if (t == RECIPE_F32) {
		float g;
		uint32_t bits = (uint32_t)v;

		memcpy(&g, &bits, sizeof(g));
		return g;
	}
	memcpy(&f, &v, sizeof(f));
	return f;
}

static int64_t element(const uint8_t *p, enum recipe_type t, unsigned i)
{
	unsigned n = recipe_type__bytes(t);
	uint64_t v = 0;

	memcpy(&v, p + (size_t)i * n, n);
	if (recipe_type__is_signed(t) && n < 8 && v >> (8 * n - 1))
		v |= UINT64_MAX << (8 * n);
	return (int64_t)v;
}

/* "[2,3,4]". False: implausible. */
static bool array__text(const struct recipe_arg *a, const uint8_t *p, size_t have, char *to,
			uint16_t *len)
{
	unsigned size = recipe_type__bytes(a->element), n = a->count;
	size_t used = 0;

	if (a->type == RECIPE_COUNTED) {
		uint64_t count;

		if (have < 8)
			return false;
		memcpy(&count, p, 8);
		if (count > MAX_ELEMENTS)
			return false;
		p += 8;
		have -= 8;
		if (count > a->count) {
			*len = (uint16_t)snprintf(to, MAX_TEXT, "[...]");
			return true;
		}
		n = (unsigned)count;
	}
	if ((size_t)n * size > have)
		return false;
	to[used++] = '[';
	for (unsigned i = 0; i < n; i++) {
		int64_t v = element(p, a->element, i);
		double x;

		if (used > MAX_TEXT - 32) {
			used += snprintf(to + used, MAX_TEXT - used, ",...");
			break;
		}
		if (a->element == RECIPE_F32 || a->element == RECIPE_F64) {
			x = bits_as_float(a->element, (uint64_t)v);
			if (a->positive && !(x > 0))
				return false;
			used += snprintf(to + used, MAX_TEXT - used, "%s%g", i ? "," : "", x);
			continue;
		}
		/* Counts of elements and lengths are what arrays hold: none is below 0. */
		if (v < (a->positive ? 1 : 0) && recipe_type__is_signed(a->element))
			return false;
		if (a->element == RECIPE_U64 || a->element == RECIPE_POINTER)
			used += snprintf(to + used, MAX_TEXT - used, "%s%llu", i ? "," : "",
					 (unsigned long long)v);
		else
			used += snprintf(to + used, MAX_TEXT - used, "%s%lld", i ? "," : "",
					 (long long)v);
	}
	to[used++] = ']';
	*len = (uint16_t)used;
	return true;
}

static bool text__plausible(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 127)
			return false;
	return utf8__valid(s, len);
}

/* A text that was cut inside a character is no less plausible. */
static size_t whole_characters(const char *s, size_t len, size_t room)
{
	size_t n = len;

	if (len + 1 < room)
		return len;
	while (n && len - n < 3 && ((unsigned char)s[n - 1] & 0xc0) == 0x80)
		n--;
	if (n && (unsigned char)s[n - 1] >= 0xc0)
		return n - 1;
	return len;
}

static bool value__take(struct call_values *v, unsigned i, const struct recipe_arg *a, uint64_t val,
			const char *text)
{
	if (!recipe_type__is_text(a->type)) {
		v->u[i] = val;
		return !a->positive || (int64_t)val >= 1;
	}
	if (!text || val > WIRE_FETCH_BYTES)
		return false;
	if (a->type == RECIPE_ARRAY || a->type == RECIPE_COUNTED) {
		v->text[i] = v->room[i];
		return array__text(a, (const uint8_t *)text, val, v->room[i], &v->len[i]);
	}
	v->text[i] = text;
	v->len[i] = (uint16_t)whole_characters(text, val, WIRE_FETCH_BYTES);
	return text__plausible(text, v->len[i]);
}

static void arg__judge(struct decoder *d, struct call_state *s, const struct func_probe *f,
		       unsigned i, bool good)
{
	const struct recipe_arg *a = &f->kind->rule->args[i];

	if (s->seen[i] >= JUDGED)
		return;
	s->seen[i]++;
	s->bad[i] += !good;
	if (s->seen[i] < JUDGED || s->bad[i] * 2 < JUDGED)
		return;
	s->off |= 1u << i;
	d->n.implausible++;
	/* One line an argument of a rule, however many functions have it. */
	if (d->on_implausible)
		d->on_implausible(d->implausible_ctx, f, a);
}

static bool ifs__hold(const struct recipe_ifs *ifs, const struct call_values *v)
{
	for (unsigned i = 0; i < ifs->n; i++) {
		const struct recipe_if *c = &ifs->all[i];
		int64_t is = (int64_t)v->u[c->arg];
		bool holds = false;

		if (!v->ok[c->arg])
			return false;
		switch (c->op) {
		case RECIPE_EQ:
			holds = is == c->value;
			break;
		case RECIPE_NE:
			holds = is != c->value;
			break;
		case RECIPE_LT:
			holds = is < c->value;
			break;
		case RECIPE_LE:
			holds = is <= c->value;
			break;
		case RECIPE_GT:
			holds = is > c->value;
			break;
		case RECIPE_GE:
			holds = is >= c->value;
			break;
		}
		if (!holds)
			return false;
	}
	return true;
}

/* The values that @when brings, by argument. @again: they were judged when they came. */
static void values__take(struct decoder *d, struct call_state *s, const struct func_probe *f,
			 enum fetch_when when, bool again, const uint64_t *vals, unsigned n,
			 uint8_t faults, const char *texts, unsigned n_texts, struct call_values *v)
{
	const struct recipe_function *rule = f->kind->rule;
	uint8_t taken = 0;

	for (unsigned i = 0; i < rule->n_args; i++) {
		const struct fetch_arg *at = &f->kind->args[i];
		bool text = recipe_type__is_text(rule->args[i].type);

		if (at->when != when || at->val >= n || (text && at->slot >= n_texts) ||
		    s->off & (1u << i))
			continue;
		v->ok[i] = !(faults & (1u << at->val)) &&
			   value__take(v, i, &rule->args[i], vals[at->val],
				       text ? texts + (size_t)at->slot * WIRE_FETCH_BYTES : NULL);
		taken |= 1u << i;
	}
	/* An argument that is there only sometimes is judged only then. */
	for (unsigned i = 0; i < rule->n_args && !again; i++) {
		const struct recipe_arg *a = &rule->args[i];

		if (taken & (1u << i) && (a->n_path || recipe_type__is_text(a->type)) &&
		    ifs__hold(&a->ifs, v))
			arg__judge(d, s, f, i, v->ok[i]);
	}
}

static const char *value_name(const struct recipe_arg *a, uint64_t v)
{
	for (size_t i = 0; i < a->n_values; i++)
		if (a->values[i].value == (int64_t)v)
			return a->values[i].text;
	return NULL;
}

static void arg__print(struct decoder *d, const struct recipe_arg *a, const struct call_values *v,
		       unsigned i, struct buf *b)
{
	const char *named = a->n_values && v->ok[i] ? value_name(a, v->u[i]) : NULL;

	if (!v->ok[i])
		buf__printf(b, "?");
	else if (is_private(a) && d->o.redact)
		buf__printf(b, "(redacted)");
	else if (a->type == RECIPE_ARRAY || a->type == RECIPE_COUNTED)
		buf__append(b, v->text[i], v->len[i]);
	else if (recipe_type__is_text(a->type))
		buf__append(b, v->text[i], v->len[i]);
	else if (named)
		buf__printf(b, "%s", named);
	else if (a->type == RECIPE_F32 || a->type == RECIPE_F64)
		buf__printf(b, "%g", bits_as_float(a->type, v->u[i]));
	else if (a->type == RECIPE_POINTER)
		buf__printf(b, "0x%llx", (unsigned long long)v->u[i]);
	else if (recipe_type__is_signed(a->type))
		buf__printf(b, "%lld", (long long)v->u[i]);
	else
		buf__printf(b, "%llu", (unsigned long long)v->u[i]);
}

/* @text with its "{arg}"s filled in. Id 0: no memory. */
static struct name_ids text__fill(struct decoder *d, const struct func_probe *f, const char *text,
				  const struct call_values *v)
{
	const struct recipe_function *rule = f->kind->rule;
	struct buf b = { 0 };
	struct name_ids ids = { 0 };

	if (!strchr(text, '{'))
		return names__text(d->o.names, text, strlen(text));
	while (*text) {
		const char *end = *text == '{' ? strchr(text, '}') : NULL;
		unsigned i = rule->n_args;

		if (end)
			for (i = 0; i < rule->n_args; i++)
				if (strlen(rule->args[i].name) == (size_t)(end - text - 1) &&
				    !strncmp(rule->args[i].name, text + 1, end - text - 1))
					break;
		if (i < rule->n_args) {
			arg__print(d, &rule->args[i], v, i, &b);
			text = end + 1;
		} else {
			buf__u8(&b, (uint8_t)*text++);
		}
	}
	if (!buf__error(&b))
		ids = names__text(d->o.names, (const char *)b.data, b.len);
	buf__free(&b);
	return ids;
}

static struct name_ids call__name(struct decoder *d, const struct call_state *s,
				  const struct func_probe *f, const struct call_values *v)
{
	const struct recipe_function *rule;

	if (!s->dynamic || !f->kind)
		return (struct name_ids){ .name = s->name, .hidden = s->hidden };
	rule = f->kind->rule;
	for (unsigned i = 0; f->names && i < rule->n_names; i++)
		if (ifs__hold(&rule->names[i].ifs, v))
			return text__fill(d, f, f->names[i], v);
	return text__fill(d, f, f->name, v);
}

/* The arguments that @when brings and that are shown. */
static unsigned call__args(struct decoder *d, const struct func_probe *f, enum fetch_when when,
			   const struct call_values *v, struct event *ev, struct event_arg *args)
{
	const struct recipe_function *rule = f->kind->rule;
	unsigned n = 0;

	for (unsigned i = 0; i < rule->n_args; i++) {
		const struct recipe_arg *a = &rule->args[i];
		struct event_arg *to = &args[n];
		const char *named;

		if (f->kind->args[i].when != when || a->hidden || !v->ok[i] ||
		    !ifs__hold(&a->ifs, v))
			continue;
		to->key = strpool__ids(names__pool(d->o.names), a->name);
		named = a->n_values ? value_name(a, v->u[i]) : NULL;
		to->u = v->u[i];
		if (recipe_type__is_text(a->type) && !is_private(a)) {
			to->type = ARG_STR;
			to->str = v->text[i];
			to->len = v->len[i];
		} else if (recipe_type__is_text(a->type)) {
			step__arg_text(d, ev, to, v->text[i], v->len[i]);
		} else if (named) {
			to->type = ARG_STR;
			to->str = named;
			to->len = (uint16_t)strlen(named);
		} else if (a->type == RECIPE_F32 || a->type == RECIPE_F64) {
			to->type = ARG_F64;
			to->f = bits_as_float(a->type, v->u[i]);
		} else {
			to->type = recipe_type__is_signed(a->type) ? ARG_I64 : ARG_U64;
		}
		n++;
	}
	return n;
}

/* --- what a call means --------------------------------------------------------------------------- */

static const uint8_t event_kinds[] = {
	[RECIPE_ALLOC] = EV_ALLOC,         [RECIPE_FREE] = EV_FREE,
	[RECIPE_RESERVE] = EV_RESERVE,     [RECIPE_RELEASE] = EV_RELEASE,
	[RECIPE_FLOW_OUT] = EV_FLOW_OUT,   [RECIPE_FLOW_STEP] = EV_FLOW_STEP,
	[RECIPE_FLOW_IN] = EV_FLOW_IN,     [RECIPE_ASYNC_BEGIN] = EV_ASYNC_BEGIN,
	[RECIPE_ASYNC_END] = EV_ASYNC_END, [RECIPE_COUNTER] = EV_COUNTER_I64,
	[RECIPE_INSTANT] = EV_INSTANT,
};

/* Ends that do not say of which name: it is the one that was begun under that id. */
#define MAX_ASYNC_NAMES 65536u

static void async__begun(struct decoder *d, struct person_thread *th, uint64_t id, uint32_t name)
{
	if (!d->async_names)
		d->async_names = map64__new();
	if (!d->async_names)
		return;
	if (map64__count(d->async_names) >= MAX_ASYNC_NAMES)
		map64__clear(d->async_names);
	map64__put(d->async_names, hash__mix(th->info.process, id), name);
}

/* 0 = none is open. */
static uint32_t async__ended(struct decoder *d, struct person_thread *th, uint64_t id)
{
	uint64_t key = hash__mix(th->info.process, id), *name;
	uint32_t found = 0;

	name = d->async_names ? map64__get(d->async_names, key) : NULL;
	if (name) {
		found = (uint32_t)*name;
		map64__del(d->async_names, key);
	}
	return found;
}

/* The name of a device, when it is new or another. */
static int device__name(struct decoder *d, struct person_thread *th, const struct func_probe *f,
			const struct recipe_does *w, const struct call_values *v, uint32_t device,
			uint64_t ts)
{
	uint64_t key = hash__mix((uint64_t)th->info.process << 32 | device, 2), *had;
	struct event ev = {
		.kind = EV_DEVICE_NAME, .ts = ts, .aux = device, .flags = EVS_FUNCTION
	};

	ev.name = text__fill(d, f, w->device_name, v).name;
	if (!d->devices)
		d->devices = map64__new();
	had = d->devices ? map64__get(d->devices, key) : NULL;
	if (!ev.name || !d->devices || (had && *had == ev.name))
		return 0;
	/* A number is made up in no time: a target that does that loses the names that it gave before. */
	if (map64__count(d->devices) >= MAX_DEVICES)
		map64__clear(d->devices);
	map64__put(d->devices, key, ev.name);
	return chain__event(th->calls, &ev);
}

static int does__apply(struct decoder *d, struct person_thread *th, const struct call_state *s,
		       const struct func_probe *f, const struct recipe_does *w,
		       const struct call_values *v, uint64_t ts)
{
	struct event ev = { .ts = ts, .flags = EVS_FUNCTION };
	struct name_ids name = { 0 };

	if ((w->id >= 0 && !v->ok[w->id]) || (w->amount >= 0 && !v->ok[w->amount]) ||
	    (w->device >= 0 && !v->ok[w->device]) || !ifs__hold(&w->ifs, v))
		return 0;
	/* Frees have no name, so a filter on names has nothing to say of them. */
	if (w->what != RECIPE_FREE && w->what != RECIPE_RELEASE)
		name = text__fill(d, f, w->name ? w->name : f->kind->recipe->name, v);
	ev.id = w->id >= 0 ? v->u[w->id] : 0;
	ev.value = w->amount >= 0 ? v->u[w->amount] : (uint64_t)w->amount_value;
	ev.aux = (uint32_t)(w->device >= 0 ? v->u[w->device] : (uint64_t)w->device_value);
	switch (w->what) {
	case RECIPE_REQUEST_BEGIN:
		return requests__begin(d, th, name.name, ev.id, ts);
	case RECIPE_REQUEST_OUTPUT:
		return requests__output(d, th, name.name, ev.id, ev.value, ts);
	case RECIPE_REQUEST_END:
		return requests__end(d, th, name.name, ev.id, ts);
	case RECIPE_ALLOC:
	case RECIPE_RESERVE:
		ev.pool = name.name;
		/* fall through */
	case RECIPE_FREE:
	case RECIPE_RELEASE:
		/* A failed allocation; freeing nothing. */
		if (!ev.id)
			return 0;
		if (w->device_name) {
			int ret = device__name(d, th, f, w, v, ev.aux, ts);

			if (ret < 0)
				return ret;
		}
		break;
	case RECIPE_ASYNC_BEGIN:
		async__begun(d, th, ev.id, name.name);
		ev.name = name.name;
		ev.cat = s->cat;
		break;
	case RECIPE_ASYNC_END:
		if (!w->name)
			name = (struct name_ids){ .name = async__ended(d, th, ev.id) };
		if (!name.name)
			return 0;
		ev.name = name.name;
		ev.cat = s->cat;
		break;
	default:
		ev.name = name.name;
		ev.cat = s->cat;
	}
	ev.kind = event_kinds[w->what];
	if (name.hidden && !ev.pool)
		return 0;
	return chain__event(th->calls, &ev);
}

static int call__does(struct decoder *d, struct person_thread *th, const struct call_state *s,
		      const struct func_probe *f, bool at_return, const struct call_values *v,
		      uint64_t ts)
{
	const struct recipe_function *rule = f->kind->rule;
	int ret = 0;

	for (unsigned i = 0; i < rule->n_does && ret >= 0; i++)
		if (rule->does[i].at_return == at_return)
			ret = does__apply(d, th, s, f, &rule->does[i], v, ts);
	return ret < 0 && ret != -E2BIG ? ret : 0;
}

/* --- frames ----------------------------------------------------------------------------------------- */

/* At a call every frame at or below the new one has gone; at a return every deeper one has. */
static bool frame_left_by_call(uint64_t key, void *ctx)
{
	uint64_t sp = *(uint64_t *)ctx;

	return key <= sp && sp - key < SAME_STACK;
}

static bool frame_left_by_return(uint64_t key, void *ctx)
{
	uint64_t sp = *(uint64_t *)ctx;

	return key < sp && sp - key < SAME_STACK;
}

static void frames__unwind(struct decoder *d, struct person_thread *th,
			   bool (*left)(uint64_t sp, void *ctx), uint64_t sp)
{
	while (th->n_frames && left(th->frames[th->n_frames - 1].sp, &sp))
		person_thread__drop_frame(th, d->o.env);
}

/*
 * Calls that ran when the probes of their function were taken off have no end. Where what follows on the thread
 * does not tell that they are over, they are closed before it: the time after belongs to their callers.
 */
static void frames__left_off(struct decoder *d, struct person_thread *th, uint64_t ts)
{
	while (th->n_frames) {
		const struct call_frame *top = &th->frames[th->n_frames - 1];
		const struct func_probe *f = files__func(d->o.files, top->func);

		if (!f || !f->off || ts <= f->off_ts)
			break;
		if (!f->kind || f->kind->rule->span)
			chain__end(th->calls, top->sp, ts, EVS_UNFINISHED, NULL, 0);
		person_thread__drop_frame(th, d->o.env);
	}
}

/* Takes the frame of a return out. False: there is none. */
static bool frame__take(struct decoder *d, struct person_thread *th, uint32_t func, uint64_t sp,
			struct call_frame *out)
{
	uint32_t i = th->n_frames;

	while (i && th->n_frames - i < FRAMES_BACK) {
		struct call_frame *fr = &th->frames[--i];

		if (fr->sp != sp || fr->func != func)
			continue;
		*out = *fr;
		d->o.env->frame_bytes -= fr->data_bytes;
		memmove(fr, fr + 1, (--th->n_frames - i) * sizeof(*fr));
		return true;
	}
	return false;
}

/* Of so many the outer ones have been left without a word. */
static void frames__drop_outer(struct decoder *d, struct person_thread *th)
{
	uint32_t half = th->n_frames / 2;

	for (uint32_t i = 0; i < half; i++) {
		d->o.env->frame_bytes -= th->frames[i].data_bytes;
		free(th->frames[i].data);
	}
	th->n_frames -= half;
	memmove(th->frames, th->frames + half, th->n_frames * sizeof(*th->frames));
}

static int frame__push(struct decoder *d, struct person_thread *th, uint32_t func, uint64_t sp,
		       uint64_t ts, const struct wire_call_data *w)
{
	struct call_frame *fr;

	if (th->n_frames == MAX_FRAMES)
		frames__drop_outer(d, th);
	if (th->n_frames == th->cap_frames) {
		uint32_t cap = th->cap_frames ? th->cap_frames * 2 : 16;
		struct call_frame *more = realloc(th->frames, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		th->frames = more;
		th->cap_frames = cap;
	}
	fr = &th->frames[th->n_frames];
	*fr = (struct call_frame){ .sp = sp, .start = ts, .func = func };
	if (w && d->o.env->frame_bytes < MAX_FRAME_BYTES) {
		size_t vals = w->n * sizeof(w->vals[0]),
		       texts = (size_t)w->texts * WIRE_FETCH_BYTES;

		fr->data = malloc(vals + texts + 1);
		if (!fr->data)
			return -ENOMEM;
		fr->data_bytes = (uint16_t)(vals + texts + 1);
		d->o.env->frame_bytes += fr->data_bytes;
		memcpy(fr->data, w->vals, vals);
		memcpy(fr->data + vals, w + 1, texts);
		fr->n_vals = w->n;
		fr->faults = w->faults;
		fr->texts = w->texts;
	}
	th->n_frames++;
	return 0;
}

/* --- records ------------------------------------------------------------------------------------------ */

static bool wants_entry_later(const struct func_kind *k)
{
	for (unsigned i = 0; i < k->rule->n_does; i++)
		if (k->rule->does[i].at_return)
			return true;
	for (unsigned i = 0; i < k->rule->n_args; i++)
		if (k->args[i].when == FETCH_AT_RETURN && k->rule->args[i].ifs.n)
			return true;
	return false;
}

static int call__begin(struct decoder *d, struct person_thread *th, struct call_state *s,
		       const struct func_probe *f, const struct wire_call *w,
		       const struct wire_call_data *data)
{
	struct event ev = { .kind = EV_SPAN, .ts = w->hdr.ts, .flags = EVS_FUNCTION };
	struct event_arg args[RECIPE_MAX_ARGS];
	struct call_values v;
	struct name_ids ids;
	uint64_t sp = w->sp;
	int ret;

	memset(v.ok, 0, sizeof(v.ok));
	chain__unwind(th->calls, w->hdr.ts, frame_left_by_call, &sp);
	frames__unwind(d, th, frame_left_by_call, sp);
	frames__left_off(d, th, w->hdr.ts);
	if (data && f->kind)
		values__take(d, s, f, FETCH_AT_ENTRY, false, data->vals, data->n, data->faults,
			     (const char *)(data + 1), data->texts, &v);
	s->count.calls++;
	if (!f->kind || f->kind->returns) {
		ret = frame__push(d, th, w->task.aux, sp, w->hdr.ts,
				  f->kind && data && wants_entry_later(f->kind) ? data : NULL);
		if (ret)
			return ret;
	}
	if (f->kind && !f->kind->rule->span)
		return call__does(d, th, s, f, false, &v, w->hdr.ts);
	ids = call__name(d, s, f, &v);
	if (ids.hidden) {
		d->n.hidden++;
		ret = chain__begin_hidden(th->calls, sp);
		return ret == -E2BIG ? 0 : ret;
	}
	ev.name = ids.name;
	ev.cat = s->cat;
	if (f->kind) {
		ev.nargs = call__args(d, f, FETCH_AT_ENTRY, &v, &ev, args);
		ev.args = args;
	}
	ret = chain__begin(th->calls, sp, &ev);
	if (ret == -E2BIG)
		ret = 0;
	return ret < 0 || !f->kind ? ret : call__does(d, th, s, f, false, &v, w->hdr.ts);
}

/* Self time of the call: what the budget goes by. */
static void frame__account(struct decoder *d, struct person_thread *th, const struct call_frame *fr,
			   uint64_t ts)
{
	uint64_t dur = ts > fr->start ? ts - fr->start : 0;

	if (fr->func < d->n_calls) {
		struct call_count *c = &d->calls[fr->func].count;

		c->ended++;
		c->self_ns += dur > fr->child_ns ? dur - fr->child_ns : 0;
	}
	if (th->n_frames)
		th->frames[th->n_frames - 1].child_ns += dur;
}

static int call__end(struct decoder *d, struct person_thread *th, struct call_state *s,
		     const struct func_probe *f, const struct wire_call *w,
		     const struct wire_call_data *data)
{
	struct event_arg args[RECIPE_MAX_ARGS];
	struct call_frame fr = { 0 };
	struct event ev = { 0 };
	struct call_values v;
	uint64_t sp = w->sp, ts = w->hdr.ts;
	bool known = false;
	unsigned n = 0;
	int ret = 0;

	memset(v.ok, 0, sizeof(v.ok));
	chain__unwind(th->calls, ts, frame_left_by_return, &sp);
	frames__unwind(d, th, frame_left_by_return, sp);
	known = frame__take(d, th, w->task.aux, sp, &fr);
	if (known)
		frame__account(d, th, &fr, ts);
	if (f->kind && known) {
		if (fr.data)
			values__take(d, s, f, FETCH_AT_ENTRY, true,
				     (const uint64_t *)(void *)fr.data, fr.n_vals, fr.faults,
				     (const char *)fr.data + fr.n_vals * sizeof(uint64_t), fr.texts,
				     &v);
		if (data)
			values__take(d, s, f, FETCH_AT_RETURN, false, data->vals, data->n,
				     data->faults, (const char *)(data + 1), data->texts, &v);
		/* Inside the span: its end belongs to what follows. */
		ret = call__does(d, th, s, f, true, &v, ts - 1 > fr.start ? ts - 1 : ts);
		if (data)
			n = call__args(d, f, FETCH_AT_RETURN, &v, &ev, args);
	}
	if (ret >= 0 && (!f->kind || f->kind->rule->span))
		ret = chain__end(th->calls, sp, ts, 0, args, n);
	free(fr.data);
	return ret < 0 ? ret : 0;
}

/* While a smaller link takes the place of another both tell of a hit, the newer one first: the kernel runs
 * the handlers of one place in that order. */
static bool is_told_again(struct person_thread *th, const struct wire_call *w, bool is_return)
{
	struct last_call was = th->last_call;
	bool parity = w->hdr.flags & WF_PARITY;

	th->last_call = (struct last_call){ w->sp, w->task.aux, is_return, parity };
	return w->hdr.flags & WF_AGAIN && was.sp == w->sp && was.func == w->task.aux &&
	       was.is_return == is_return && was.parity != parity;
}

int decoder__call(struct decoder *d, const void *rec, size_t size)
{
	const struct wire_call *w = rec;
	const struct wire_call_data *data = NULL;
	const struct func_probe *f = files__func(d->o.files, w->task.aux);
	bool is_return = w->hdr.kind == W_RETURN || w->hdr.kind == W_RETURN_DATA;
	struct person_thread *th;
	struct call_state *s;

	d->n.singles++;
	if (w->hdr.kind == W_CALL_DATA || w->hdr.kind == W_RETURN_DATA)
		data = rec;
	if (!f || (data && (data->n > WIRE_FETCHES || data->texts > WIRE_FETCH_TEXTS ||
			    size < sizeof(*data) + (size_t)data->texts * WIRE_FETCH_BYTES))) {
		d->n.bad++;
		return 0;
	}
	s = call_state__get(d, w->task.aux, f);
	th = people__thread(d->o.people, &w->task, NULL);
	if (!th || !s)
		return -ENOMEM;
	if (!th->calls)
		th->calls = chain__new(d->o.env, th->index);
	if (!th->calls)
		return -ENOMEM;
	if (is_told_again(th, w, is_return)) {
		d->n.duplicates++;
		return 0;
	}
	d->n.records++;
	chain__counted(th->calls, 1);
	th->process->recorded++;
	th->probe_hits++;
	s->count.hits++;
	if (is_return)
		return call__end(d, th, s, f, w, data);
	return call__begin(d, th, s, f, w, data);
}
