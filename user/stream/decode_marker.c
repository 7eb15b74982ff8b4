// SPDX-License-Identifier: Apache-2.0
/* Records of the batched transport (marker ABI 1). */
#include <errno.h>
#include <string.h>

#define CLIKA_ABI_ONLY
#include <clika/markers.h>

#include "user/stream/decode_internal.h"

#define REDACTED "(redacted)"

/* What a record kind becomes; one row a kind. */
struct marker_row {
	uint8_t kind;    /* enum event_kind, 0 = no such record */
	uint8_t fixed;   /* bytes of the fixed part behind struct clika_rec */
	uint8_t numbers; /* what they hold, enum below */
};
enum { NUM_NONE, NUM_ID, NUM_ID_VALUE, NUM_VALUE, NUM_BLOCK, NUM_FREE, NUM_AUX };

static const struct marker_row rows[] = {
	[CLIKA_REC_SPAN] = { EV_SPAN, 8, NUM_NONE },
	[CLIKA_REC_BEGIN] = { EV_SPAN, 8, NUM_NONE },
	[CLIKA_REC_END] = { EV_SPAN, 8, NUM_NONE },
	[CLIKA_REC_INSTANT] = { EV_INSTANT, 0, NUM_NONE },
	[CLIKA_REC_COUNTER_I64] = { EV_COUNTER_I64, 8, NUM_VALUE },
	[CLIKA_REC_COUNTER_F64] = { EV_COUNTER_F64, 8, NUM_VALUE },
	[CLIKA_REC_ASYNC_BEGIN] = { EV_ASYNC_BEGIN, 8, NUM_ID },
	[CLIKA_REC_ASYNC_END] = { EV_ASYNC_END, 8, NUM_ID },
	[CLIKA_REC_FLOW_OUT] = { EV_FLOW_OUT, 8, NUM_ID },
	[CLIKA_REC_FLOW_STEP] = { EV_FLOW_STEP, 8, NUM_ID },
	[CLIKA_REC_FLOW_IN] = { EV_FLOW_IN, 8, NUM_ID },
	[CLIKA_REC_REQUEST_BEGIN] = { EV_REQUEST_BEGIN, 8, NUM_ID },
	[CLIKA_REC_REQUEST_FIRST] = { EV_REQUEST_FIRST, 8, NUM_ID },
	[CLIKA_REC_REQUEST_OUTPUT] = { EV_REQUEST_OUTPUT, 16, NUM_ID_VALUE },
	[CLIKA_REC_REQUEST_END] = { EV_REQUEST_END, 8, NUM_ID },
	[CLIKA_REC_ALLOC] = { EV_ALLOC, 24, NUM_BLOCK },
	[CLIKA_REC_FREE] = { EV_FREE, 16, NUM_FREE },
	[CLIKA_REC_RESERVE] = { EV_RESERVE, 24, NUM_BLOCK },
	[CLIKA_REC_RELEASE] = { EV_RELEASE, 16, NUM_FREE },
	[CLIKA_REC_THREAD_NAME] = { EV_THREAD_NAME, 0, NUM_NONE },
	[CLIKA_REC_QUEUE_NAME] = { EV_QUEUE_NAME, 8, NUM_ID },
	[CLIKA_REC_DEVICE_NAME] = { EV_DEVICE_NAME, 8, NUM_AUX },
	[CLIKA_REC_PROCESS_LABEL] = { EV_PROCESS_LABEL, 0, NUM_NONE },
	[CLIKA_REC_CAPTURE_BEGIN] = { EV_CAPTURE_BEGIN, 0, NUM_NONE },
	[CLIKA_REC_CAPTURE_END] = { EV_CAPTURE_END, 0, NUM_NONE },
};

void step__arg_text(struct decoder *d, struct event *ev, struct event_arg *a, const char *s,
		    size_t len)
{
	a->type = ARG_STR;
	if (d->o.redact) {
		s = REDACTED;
		len = sizeof(REDACTED) - 1;
		ev->flags |= EVS_REDACTED;
	}
	a->str = s;
	a->len = len > CLIKA_MAX_RECORD ? CLIKA_MAX_RECORD : len;
}

static int marker__args(struct decoder *d, uint32_t file, struct cursor *c, unsigned n,
			struct step *s)
{
	if (n > CLIKA_MAX_ARGS)
		return -EBADMSG;
	for (unsigned i = 0; i < n; i++) {
		struct event_arg *a = &s->args[i];
		uint8_t type = cursor__u8(c), key_len = cursor__u8(c);
		uint16_t len = cursor__u16le(c);
		int32_t key = (int32_t)cursor__u32le(c);
		const uint8_t *text = cursor__bytes(c, key_len);

		cursor__bytes(c, -(size_t)key_len & 7);
		if (c->bad)
			return -EBADMSG;
		if (key_len)
			a->key = names__text(d->o.names, (const char *)text, key_len).name;
		else
			a->key = names__literal(d->o.names, file, key)->name;
		switch (type) {
		case CLIKA_ARG_I64:
		case CLIKA_ARG_U64:
		case CLIKA_ARG_F64:
			a->type = type;
			a->u = cursor__u64le(c);
			break;
		case CLIKA_ARG_STR:
			text = cursor__bytes(c, len);
			cursor__bytes(c, -(size_t)len & 7);
			if (c->bad)
				return -EBADMSG;
			step__arg_text(d, &s->ev, a, (const char *)text, len);
			break;
		default:
			return -EBADMSG;
		}
	}
	s->ev.nargs = n;
	s->ev.args = s->args;
	return c->bad ? -EBADMSG : 0;
}

static void marker__numbers(struct decoder *d, uint32_t file, struct cursor *c, uint8_t how,
			    struct event *ev)
{
	switch (how) {
	case NUM_ID:
		ev->id = cursor__u64le(c);
		break;
	case NUM_ID_VALUE:
		ev->id = cursor__u64le(c);
		ev->value = cursor__u64le(c);
		break;
	case NUM_VALUE:
		ev->value = cursor__u64le(c);
		break;
	case NUM_AUX:
		ev->aux = (uint32_t)cursor__u64le(c);
		break;
	case NUM_BLOCK:
		ev->id = cursor__u64le(c);
		ev->value = cursor__u64le(c);
		ev->aux = cursor__u32le(c);
		ev->pool = names__literal(d->o.names, file, (int32_t)cursor__u32le(c))->name;
		break;
	case NUM_FREE:
		ev->id = cursor__u64le(c);
		ev->aux = cursor__u32le(c);
		cursor__u32le(c);
		break;
	}
}

/* Naming and captures change definitions; the rest are events of the timeline. */
static int marker__define(struct decoder *d, struct person_thread *th, struct step *s)
{
	const char *name = strpool__str(names__pool(d->o.names), s->ev.name);
	uint32_t process = th->info.process;

	switch (s->ev.kind) {
	case EV_THREAD_NAME:
		people__rename(d->o.people, th, name, strlen(name), true);
		return 0;
	case EV_PROCESS_LABEL:
		people__label(d->o.people, th->process, name, strlen(name));
		return 0;
	case EV_CAPTURE_BEGIN:
		s->ev.id = capture__begin(d, process, name, s->ev.ts);
		return 1;
	case EV_CAPTURE_END:
		capture__end_tag(d, process, name, s->ev.ts);
		return 1;
	}
	return 1;
}

int marker__step(struct decoder *d, struct person_thread *th, uint32_t file, const uint8_t *p,
		 size_t size, struct step *s)
{
	struct cursor c = cursor__over(p, size);
	const struct marker_row *row;
	uint8_t kind, flags;
	int64_t ahead = th->process->clock_ahead;
	uint64_t word = 0;
	int32_t disp;

	cursor__u16le(&c);
	kind = cursor__u8(&c);
	flags = cursor__u8(&c);
	disp = (int32_t)cursor__u32le(&c);
	s->ts = cursor__u64le(&c) - (uint64_t)ahead;
	if (kind >= ARRAY_SIZE(rows) || !rows[kind].kind)
		return -EBADMSG;
	row = &rows[kind];
	memset(&s->ev, 0, sizeof(s->ev));
	s->kind = STEP_EVENT;
	s->ev.kind = row->kind;
	s->ev.ts = s->ts;
	if (cursor__left(&c) < row->fixed)
		return -EBADMSG;
	if (row->kind == EV_SPAN)
		word = cursor__u64le(&c);
	else
		marker__numbers(d, file, &c, row->numbers, &s->ev);
	if (flags & CLIKA_RECF_INLINE) {
		uint16_t len = cursor__u16le(&c);
		const uint8_t *text = cursor__bytes(&c, len);
		struct name_ids ids;

		cursor__bytes(&c, -(size_t)(len + 2) & 7);
		if (c.bad)
			return -EBADMSG;
		ids = names__text(d->o.names, (const char *)text, len);
		if (row->numbers == NUM_BLOCK) {
			s->ev.pool = ids.name;
		} else {
			s->ev.name = ids.name;
			s->hidden = ids.hidden;
		}
	} else {
		const struct name_ids *ids = names__literal(d->o.names, file, disp);

		s->ev.name = ids->name;
		s->ev.cat = ids->cat;
		s->ev.src = ids->src;
		s->hidden = ids->hidden;
	}
	if (marker__args(d, file, &c, flags & CLIKA_RECF_NARGS, s) || c.bad)
		return -EBADMSG;
	switch (kind) {
	case CLIKA_REC_SPAN:
		/* A clock that ran backwards in the target would give 580 years. */
		word -= (uint64_t)ahead;
		s->ev.dur = word > s->ts ? word - s->ts : 0;
		break;
	case CLIKA_REC_BEGIN:
		s->kind = STEP_BEGIN;
		s->key = (uint32_t)word;
		break;
	case CLIKA_REC_END:
		s->kind = STEP_END;
		s->key = (uint32_t)word;
		s->hidden = false;
		break;
	default:
		if (row->kind != EV_SPAN && row->numbers != NUM_NONE)
			break;
		return marker__define(d, th, s);
	}
	return 1;
}

/* A begin at some depth proves that what was open there, or deeper, has been left: its end was lost
 * or jumped over. */
static bool span_left(uint64_t key, void *ctx)
{
	return key >= *(const uint64_t *)ctx;
}

int marker__apply(struct decoder *d, struct chain *c, const struct step *s)
{
	struct event ev = s->ev;

	ev.args = s->args;
	if (s->hidden)
		d->n.hidden++;
	switch (s->kind) {
	case STEP_BEGIN:
		if (chain__begin_known(c, s->key, s->ts))
			return 0;
		chain__unwind(c, s->ts, span_left, (void *)&s->key);
		return s->hidden ? chain__begin_hidden(c, s->key) : chain__begin(c, s->key, &ev);
	case STEP_END: {
		int ret = chain__end(c, s->key, s->ts, 0, s->args, s->ev.nargs);

		return ret < 0 ? ret : 0;
	}
	default:
		if (s->hidden || (ev.kind == EV_SPAN && chain__end_told(c, ev.ts, ev.ts + ev.dur)))
			return 0;
		return chain__event(c, &ev);
	}
}
