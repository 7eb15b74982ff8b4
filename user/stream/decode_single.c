// SPDX-License-Identifier: Apache-2.0
/* Records of one hit each: simple markers, other providers' markers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIKA_ABI_ONLY
#include <clika/markers.h>

#include "user/probe/proc.h"
#include "user/stream/decode_internal.h"

/* A record taken apart; values that it does not have are 0, texts "". */
struct hit {
	const struct wire_hit *rec;
	size_t size;
	uint64_t ts;
	const struct name_ids *literal; /* NULL: the texts tell */
	uint64_t vals[WIRE_MAX_ARGS];
	const char *text; /* n_texts of rec, each of text_bytes */
	size_t text_bytes;
};

static int hit__take(const struct decoder *d, struct hit *h, const struct hit_site *site,
		     const void *rec, size_t size)
{
	const struct wire_hit *r = rec;
	size_t vals;

	if (r->room > WIRE_MAX_ARGS || r->n_vals > r->room || r->n_texts > WIRE_HIT_TEXTS)
		return -EINVAL;
	vals = r->room * sizeof(*h->vals);
	h->rec = r;
	h->size = size;
	h->ts = r->hdr.ts;
	h->literal = r->task.aux ? names__simple_literal(d->o.names, site->file,
							 site->literals_vaddr, (int32_t)r->task.aux)
				 : NULL;
	h->text = (const char *)(r + 1) + vals;
	h->text_bytes = r->room == WIRE_MAX_ARGS ? WIRE_TEXT : WIRE_BRIEF;
	if (size < sizeof(*r) + vals + r->n_texts * h->text_bytes)
		return -EINVAL;
	memset(h->vals, 0, sizeof(h->vals));
	memcpy(h->vals, r + 1, r->n_vals * sizeof(*h->vals));
	return 0;
}

static const char *hit__text(const struct hit *h, unsigned i, size_t *len)
{
	const char *text = h->text + i * h->text_bytes;

	*len = 0;
	if (i >= h->rec->n_texts)
		return "";
	*len = strnlen(text, h->text_bytes);
	return text;
}

/* A text on a page that nobody has touched cannot be read in a probe; from here it can. */
static struct name_ids hit__name(struct decoder *d, const struct person_thread *th,
				 const struct hit *h, uint64_t addr, unsigned text_at,
				 uint16_t *flags)
{
	bool fault = h->rec->hdr.flags & WF_FAULT;
	char buf[WIRE_TEXT];
	size_t len;
	const char *text = hit__text(h, text_at, &len);
	ssize_t n;

	if (h->literal)
		return *h->literal;
	if (len || !addr)
		return names__text(d->o.names, text, len);
	if (fault && th->process->lpid) {
		n = proc__read_memory(th->process->lpid, addr, buf, sizeof(buf) - 1, 50);
		if (n > 0 && strnlen(buf, n) > 0)
			return names__text(d->o.names, buf, strnlen(buf, n));
	}
	if (!fault)
		return names__text(d->o.names, "", 0);
	*flags |= EVS_ADDRESS_NAME;
	snprintf(buf, sizeof(buf), "(name at 0x%llx)", (unsigned long long)addr);
	return names__text(d->o.names, buf, strlen(buf));
}

static void hit__args(struct decoder *d, const struct hit *h, struct step *s)
{
	const struct wire_hit_full *f = (const struct wire_hit_full *)h->rec;
	unsigned n = h->rec->n_args;

	if (h->size < sizeof(*f) || h->rec->room != WIRE_MAX_ARGS || n > CLIKA_MAX_ARGS)
		return;
	for (unsigned i = 0; i < n; i++) {
		const struct wire_hit_arg *w = &f->args[i];
		struct event_arg *a = &s->args[i];

		a->key = names__text(d->o.names, f->text[2 + i], strnlen(f->text[2 + i], WIRE_TEXT))
				 .name;
		a->type = w->type >= ARG_I64 && w->type <= ARG_F64 ? w->type : ARG_U64;
		a->u = w->value;
		if (w->type == CLIKA_ARG_STR)
			step__arg_text(d, &s->ev, a, f->text[10 + i],
				       strnlen(f->text[10 + i], WIRE_TEXT));
	}
	s->ev.nargs = n;
}

/* Values of a simple marker by its kind; the name comes first unless the kind says otherwise. */
static void marker_hit__values(struct decoder *d, struct person_thread *th, const struct hit *h,
			       const struct hit_site *site, struct step *s)
{
	const uint64_t *v = h->vals;
	unsigned name_at = 0;
	struct event *ev = &s->ev;

	switch (site->rec_kind) {
	case CLIKA_REC_COUNTER_I64:
	case CLIKA_REC_COUNTER_F64:
		ev->value = v[1];
		break;
	case CLIKA_REC_REQUEST_OUTPUT:
		ev->value = v[2];
		ev->id = v[1];
		break;
	case CLIKA_REC_ALLOC:
	case CLIKA_REC_RESERVE:
		ev->aux = (uint32_t)v[0];
		ev->id = v[1];
		ev->value = v[2];
		ev->pool = hit__name(d, th, h, v[3], 0, &ev->flags).name;
		return;
	case CLIKA_REC_FREE:
	case CLIKA_REC_RELEASE:
		ev->aux = (uint32_t)v[0];
		ev->id = v[1];
		return;
	case CLIKA_REC_QUEUE_NAME:
		ev->id = v[0];
		name_at = 1;
		break;
	case CLIKA_REC_DEVICE_NAME:
		ev->aux = (uint32_t)v[0];
		name_at = 1;
		break;
	case CLIKA_REC_BEGIN:
	case CLIKA_REC_INSTANT:
		if (v[1] && !h->literal)
			ev->cat = hit__name(d, th, h, v[1], 1, &ev->flags).name;
		break;
	case CLIKA_REC_END:
		return;
	default:
		ev->id = v[1];
		break;
	}
	{
		struct name_ids ids = hit__name(d, th, h, v[name_at], 0, &ev->flags);

		ev->name = ids.name;
		s->hidden = ids.hidden;
		if (h->literal) {
			ev->cat = ids.cat;
			ev->src = ids.src;
		}
	}
}

static uint8_t event_of(uint8_t rec_kind)
{
	switch (rec_kind) {
	case CLIKA_REC_BEGIN:
	case CLIKA_REC_END:
		return EV_SPAN;
	default:
		/* From instants on both number alike but for the first two. */
		return rec_kind - CLIKA_REC_INSTANT + EV_INSTANT;
	}
}
_Static_assert(CLIKA_REC_CAPTURE_END - CLIKA_REC_INSTANT + EV_INSTANT == EV_CAPTURE_END,
	       "record kinds and event kinds run in step");

static int marker_hit(struct decoder *d, struct person_thread *th, const struct hit *h,
		      const struct hit_site *site)
{
	struct step *s = &d->steps[0];
	const char *name;
	uint64_t key;

	memset(&s->ev, 0, sizeof(s->ev));
	s->hidden = false;
	s->ev.kind = event_of(site->rec_kind);
	s->ev.ts = s->ts = h->ts;
	s->kind = STEP_EVENT;
	marker_hit__values(d, th, h, site, s);
	if (site->with_args)
		hit__args(d, h, s);
	name = strpool__str(names__pool(d->o.names), s->ev.name);
	switch (site->rec_kind) {
	case CLIKA_REC_BEGIN:
		s->kind = STEP_BEGIN;
		s->key = ++d->hit_key;
		break;
	case CLIKA_REC_END:
		if (!chain__top(th->hits, &key))
			return 0;
		s->kind = STEP_END;
		s->key = key;
		break;
	case CLIKA_REC_THREAD_NAME:
		people__rename(d->o.people, th, name, strlen(name), true);
		return 0;
	case CLIKA_REC_PROCESS_LABEL:
		people__label(d->o.people, th->process, name, strlen(name));
		return 0;
	case CLIKA_REC_CAPTURE_BEGIN:
		s->ev.id = capture__begin(d, th->info.process, name, s->ts);
		break;
	case CLIKA_REC_CAPTURE_END:
		s->ev.id = 0;
		capture__end_tag(d, th->info.process, name, s->ts);
		break;
	}
	return marker__apply(d, th->hits, s);
}

static int usdt_hit(struct decoder *d, struct person_thread *th, const struct hit *h,
		    const struct hit_site *site)
{
	struct step *s = &d->steps[0];
	unsigned text = 0, n;
	char name[300], key[16];
	struct name_ids ids;

	memset(&s->ev, 0, sizeof(s->ev));
	snprintf(name, sizeof(name), "%s:%s", site->provider, site->name);
	ids = names__text(d->o.names, name, strlen(name));
	s->hidden = ids.hidden;
	s->kind = STEP_EVENT;
	s->ev.kind = EV_INSTANT;
	s->ev.flags = EVS_USDT;
	s->ev.ts = s->ts = h->ts;
	s->ev.name = ids.name;
	s->ev.cat = strpool__ids(names__pool(d->o.names), "usdt");
	n = site->n_args < EVENT_MAX_ARGS ? site->n_args : EVENT_MAX_ARGS;
	for (unsigned i = 0; i < n; i++) {
		struct event_arg *a = &s->args[i];

		snprintf(key, sizeof(key), "arg%u", i);
		a->key = strpool__ids(names__pool(d->o.names), key);
		a->type = site->is_signed[i] ? ARG_I64 : ARG_U64;
		a->u = h->vals[i];
		if (site->str_mask & (1u << i)) {
			size_t len;
			const char *t = hit__text(h, text++, &len);

			step__arg_text(d, &s->ev, a, t, len);
		}
	}
	s->ev.nargs = n;
	return marker__apply(d, th->hits, s);
}

/* Into the kernel's time. False: it is of before the recording. */
static bool hit__own_time(struct decoder *d, const struct person_thread *th, struct hit *h)
{
	h->ts -= (uint64_t)th->process->clock_ahead;
	/* The target may have read its clock just before somebody looked. */
	if (h->ts + NSEC_PER_MSEC < d->o.not_before) {
		d->n.older++;
		return false;
	}
	if (h->ts < d->o.not_before)
		h->ts = d->o.not_before;
	return true;
}

int decoder__hit(struct decoder *d, const void *rec, size_t size)
{
	const struct hit_site *site = files__hit(d->o.files, ((const struct wire_hit *)rec)->site);
	struct person_thread *th;
	struct hit h;
	int ret;

	d->n.singles++;
	if (!site || hit__take(d, &h, site, rec, size)) {
		d->n.bad++;
		return 0;
	}
	th = people__thread(d->o.people, &h.rec->task, NULL);
	if (!th)
		return -ENOMEM;
	if (!th->hits)
		th->hits = chain__new(d->o.env, th->index);
	if (!th->hits)
		return -ENOMEM;
	d->n.records++;
	chain__counted(th->hits, 1);
	th->process->recorded++;
	if (h.rec->hdr.flags & WF_OWN_TIME && !hit__own_time(d, th, &h))
		return 0;
	if (h.ts > d->last_ts)
		d->last_ts = h.ts;
	ret = site->role == ROLE_MARKER ? marker_hit(d, th, &h, site) : usdt_hit(d, th, &h, site);
	return ret == -E2BIG ? 0 : ret;
}
