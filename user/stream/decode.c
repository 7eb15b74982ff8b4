// SPDX-License-Identifier: Apache-2.0
#include "user/stream/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLIKA_ABI_ONLY
#include <clika/markers.h>

#include "user/stream/decode_internal.h"

#define MAX_OPEN_CAPTURES 1024
#define MAX_CAPTURES 65536

_Static_assert(WIRE_HALF == CLIKA_HALF_BYTES, "both sides know one batch size");
_Static_assert(WIRE_MAX_OPEN == CLIKA_MAX_OPEN, "both sides know one depth");
_Static_assert(offsetof(struct clika_buffer, open) == 168, "the BPF side reads open spans there");

struct decoder *decoder__new(const struct decoder_opts *o)
{
	struct decoder *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->o = *o;
	d->next_capture = 1;
	d->steps = calloc(MAX_BATCH_RECORDS, sizeof(*d->steps));
	if (!d->steps) {
		free(d);
		return NULL;
	}
	return d;
}

void decoder__free(struct decoder *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n_captures; i++)
		free(d->captures[i].info.tag);
	free(d->captures);
	free(d->steps);
	decoder__calls_free(d);
	requests__free(d->requests);
	map64__free(d->async_names);
	free(d);
}

const struct decoder_counts *decoder__counts(const struct decoder *d)
{
	return &d->n;
}

/* --- captures ---------------------------------------------------------------------------- */

uint64_t capture__begin(struct decoder *d, uint32_t process, const char *tag, uint64_t ts)
{
	struct open_capture *c;

	/* Captures are opened by hand, or a few a request; a loop that opens them is a mistake. */
	if (d->n_captures >= MAX_OPEN_CAPTURES || d->next_capture > MAX_CAPTURES) {
		if (!d->captures_full++)
			writer__warning(d->o.w, "captures",
					"too many captures: later ones are left out");
		return 0;
	}
	if (d->n_captures == d->cap_captures) {
		size_t cap = d->cap_captures ? d->cap_captures * 2 : 8;
		struct open_capture *more = realloc(d->captures, cap * sizeof(*more));

		if (!more)
			return 0;
		d->captures = more;
		d->cap_captures = cap;
	}
	c = &d->captures[d->n_captures];
	c->process = process;
	c->info = (struct capture_info){ .id = d->next_capture, .process = process, .begin = ts };
	c->info.tag = strdup(*tag ? tag : "default");
	if (!c->info.tag || writer__capture(d->o.w, &c->info)) {
		free(c->info.tag);
		return 0;
	}
	d->n_captures++;
	return d->next_capture++;
}

static int capture__close(struct decoder *d, size_t i, uint64_t ts)
{
	struct open_capture *c = &d->captures[i];
	int ret;

	c->info.end = ts > c->info.begin ? ts : c->info.begin + 1;
	ret = writer__capture(d->o.w, &c->info);
	free(c->info.tag);
	memmove(c, c + 1, (d->n_captures - i - 1) * sizeof(*c));
	d->n_captures--;
	return ret;
}

void capture__end_tag(struct decoder *d, uint32_t process, const char *tag, uint64_t ts)
{
	for (size_t i = d->n_captures; i-- > 0;) {
		if (d->captures[i].process == process &&
		    !strcmp(d->captures[i].info.tag, *tag ? tag : "default")) {
			capture__close(d, i, ts);
			return;
		}
	}
}

uint64_t decoder__capture_begin(struct decoder *d, const char *tag, uint64_t ts)
{
	return capture__begin(d, UINT32_MAX, tag, ts);
}

int decoder__capture_end(struct decoder *d, uint64_t id, uint64_t ts)
{
	for (size_t i = 0; i < d->n_captures; i++)
		if (d->captures[i].info.id == id)
			return capture__close(d, i, ts);
	return -ENOENT;
}

void decoder__captures_close(struct decoder *d, uint64_t ts)
{
	while (d->n_captures)
		capture__close(d, d->n_captures - 1, ts);
}

/* --- batches -------------------------------------------------------------------------------- */

/*
 * Completed spans are written at their end, so their starts come in post-order. Put into order of
 * time (equal times keep the order of writing) they fit into one stream. Nearly sorted as a rule, and
 * a parent moves past its children only: insertion does. Begins and ends keep their places, since
 * they work on a stack: a span that is told after the fact begins in the past.
 */
static void steps__sort(struct decoder *d, unsigned n)
{
	unsigned run = 0; /* first of the whole events in a row */

	for (unsigned i = 0; i < n; i++) {
		uint64_t ts = d->steps[i].ts;
		unsigned j = i;

		if (d->steps[i].kind != STEP_EVENT)
			run = i + 1;
		while (j > run && d->steps[d->order[j - 1]].ts > ts) {
			d->order[j] = d->order[j - 1];
			j--;
		}
		d->order[j] = i;
	}
}

/* Decodes @len bytes of records into the buffer's chain. Gives the number of records in @taken. */
static int batch__decode(struct decoder *d, struct person_thread *th, struct thread_buffer *b,
			 const uint8_t *p, size_t len, uint64_t *taken)
{
	uint64_t old = 0, records = 0;
	unsigned n = 0;
	size_t at = 0;
	int ret = 0;

	while (at + 8 <= len && n < MAX_BATCH_RECORDS) {
		uint16_t size = p[at] | p[at + 1] << 8;
		struct step *s = &d->steps[n];

		if (size < 8 || size % 8 || size > CLIKA_HALF_BYTES || size > len - at)
			break;
		if (p[at + 2] != CLIKA_REC_PAD) {
			if (size < sizeof(struct clika_rec) || size > CLIKA_MAX_RECORD)
				break;
			ret = marker__step(d, th, b->file, p + at, size, s);
			if (ret < 0)
				break;
			records++;
			if (s->ts < d->o.not_before &&
			    !(s->kind == STEP_EVENT && s->ev.kind == EV_SPAN &&
			      s->ts + s->ev.dur >= d->o.not_before))
				old++;
			else if (ret == 1)
				n++;
			if (s->ts > d->last_ts)
				d->last_ts = s->ts;
		}
		at += size;
	}
	steps__sort(d, n);
	ret = 0;
	for (unsigned i = 0; i < n && !ret; i++)
		ret = marker__apply(d, b->chain, &d->steps[d->order[i]]);
	d->n.older += old;
	*taken = records;
	return ret == -E2BIG ? 0 : ret;
}

void decoder__dropped(struct decoder *d, struct thread_buffer *b, uint64_t dropped)
{
	/* The counter lives in the target: it may say anything, but it cannot run backwards here. */
	if (dropped <= b->dropped)
		return;
	d->n.target_dropped += dropped - b->dropped;
	b->dropped = dropped;
}

/* Records in bytes that were taken before: whole ones, padding not counted. */
static uint64_t batch__count(const uint8_t *p, size_t len)
{
	uint64_t n = 0;
	size_t at = 0;

	while (at + 8 <= len) {
		uint16_t size = p[at] | p[at + 1] << 8;

		if (size < 8 || size % 8 || size > len - at)
			break;
		n += p[at + 2] != CLIKA_REC_PAD;
		at += size;
	}
	return n;
}

/*
 * One stretch of a buffer's stream. What lies before b->expected has been taken already (by another
 * hook, or by a harvest while the hand-over was under way). @claimed: records that the kernel side
 * counted as emitted for these bytes; harvests were not counted there.
 */
static int batch__take(struct decoder *d, struct person_thread *th, struct thread_buffer *b,
		       uint64_t from, const uint8_t *data, size_t len, uint64_t claimed,
		       bool harvested, bool drained)
{
	uint64_t taken = 0, again = 0, old = d->n.older;
	size_t skip = 0;
	int ret = 0;

	if (b->positioned && from < b->expected) {
		skip = b->expected - from < len ? b->expected - from : len;
		again = batch__count(data, skip);
	}
	if (skip < len) {
		ret = batch__decode(d, th, b, data + skip, len - skip, &taken);
		b->expected = from + len;
		b->positioned = true;
	}
	old = d->n.older - old;
	if (harvested) {
		d->n.harvested += taken - old;
	} else {
		d->n.duplicates += again;
		d->n.older_handed += old;
		/* A thread that was killed while it wrote has counted a record that never became one. */
		if (drained && claimed == again + taken + 1)
			d->n.duplicates++;
		else if (claimed > again + taken)
			d->n.bad += claimed - again - taken;
		else
			d->n.uncounted += again + taken - claimed;
	}
	d->n.records += taken - old;
	chain__counted(b->chain, taken - old);
	th->process->recorded += taken - old;
	return ret;
}

static int decoder__batch(struct decoder *d, const struct wire_batch *w, size_t size)
{
	struct person_thread *th;
	struct thread_buffer *b;

	if (w->len > size - sizeof(*w) || w->len > WIRE_HALF)
		return 0;
	th = people__thread(d->o.people, &w->task, w->comm);
	if (!th)
		return -ENOMEM;
	th->ns_tid = w->ns_tid;
	people__rename(d->o.people, th, w->comm, strnlen(w->comm, sizeof(w->comm)), false);
	b = people__buffer(d->o.people, th, w->buffer, w->born);
	if (!b)
		return -ENOMEM;
	b->object = w->object;
	if (b->file == UINT32_MAX)
		b->file = w->file;
	decoder__dropped(d, b, w->dropped);
	return batch__take(d, th, b, w->from, (const uint8_t *)(w + 1), w->len, w->records, false,
			   w->hdr.flags & WF_DRAINED);
}

int decoder__harvest(struct decoder *d, struct person_thread *th, struct thread_buffer *b,
		     uint64_t from, const void *data, size_t len)
{
	return batch__take(d, th, b, from, data, len, 0, true, false);
}

int decoder__open(struct decoder *d, struct thread_buffer *b, unsigned depth, uint64_t start,
		  int32_t name)
{
	const struct name_ids *ids = names__literal(d->o.names, b->file, name);
	struct event ev = { .kind = EV_SPAN, .name = ids->name, .cat = ids->cat, .src = ids->src };
	int ret;

	start -= (uint64_t)b->thread->process->clock_ahead;
	ev.ts = start;
	/* Anything may be written there: what cannot be the start of a span in this recording is not. */
	if (start < d->o.not_before || start > clock__boottime_ns() || ids->hidden || !ids->name ||
	    chain__begin_known(b->chain, depth, start))
		return 0;
	ret = chain__begin_told(b->chain, depth, &ev);
	return ret == -E2BIG ? 0 : ret;
}

static int decoder__opens(struct decoder *d, const struct wire_open *w)
{
	struct person_thread *th = people__thread(d->o.people, &w->task, NULL);
	struct thread_buffer *b = th ? people__buffer(d->o.people, th, w->buffer, w->born) : NULL;
	int ret = 0;

	if (!b)
		return -ENOMEM;
	if (b->file == UINT32_MAX)
		b->file = w->file;
	for (unsigned i = 0; i < w->depth && i < WIRE_MAX_OPEN && !ret; i++)
		ret = decoder__open(d, b, i, w->open[i].start, w->open[i].name);
	return ret;
}

/* --- life ------------------------------------------------------------------------------------- */

static int decoder__process(struct decoder *d, const struct wire_process *w, enum wire_kind kind,
			    uint64_t pass)
{
	struct person_process *old = people__newest(d->o.people, w->task.tgid, w->task.start),
			      *proc;

	if (old && old->exec_gen != w->task.exec_gen && kind == W_EXEC) {
		for (struct person_thread *th = old->threads; th; th = th->next)
			people__thread_ended(d->o.people, th, w->hdr.ts, pass);
		people__process_ended(d->o.people, old, w->hdr.ts, 0);
		people__forget_quiet(d->o.people, old);
	}
	proc = people__process(d->o.people, &w->task, w);
	if (!proc)
		return -ENOMEM;
	if (d->o.on_process)
		d->o.on_process(d->o.ctx, proc, kind);
	return 0;
}

static void decoder__exit(struct decoder *d, const struct wire_exit *w, uint64_t pass)
{
	struct person_thread *th = people__find_thread(d->o.people, &w->task);
	struct person_process *proc;

	if (th) {
		people__rename(d->o.people, th, w->comm, strnlen(w->comm, sizeof(w->comm)), false);
		people__thread_ended(d->o.people, th, w->hdr.ts, pass);
	}
	if (!(w->hdr.flags & WF_LAST))
		return;
	proc = people__find_process(d->o.people, &w->task);
	if (!proc)
		return;
	for (th = proc->threads; th; th = th->next)
		people__thread_ended(d->o.people, th, w->hdr.ts, pass);
	people__process_ended(d->o.people, proc, w->hdr.ts, w->code);
	people__forget_quiet(d->o.people, proc);
}

static int decoder__register(struct decoder *d, const struct wire_register *w)
{
	struct person_thread *th = people__thread(d->o.people, &w->task, NULL);
	struct thread_buffer *b;

	if (!th)
		return -ENOMEM;
	b = people__buffer(d->o.people, th, w->buffer, w->born);
	if (!b)
		return -ENOMEM;
	b->object = w->object;
	b->file = w->file;
	return 0;
}

static bool long_enough(const struct wire_hdr *h, size_t size)
{
	static const uint16_t least[W_KIND_COUNT] = {
#define X(e, n, name, type) [n] = sizeof(type),
		WIRE_KINDS(X)
#undef X
	};

	return size >= sizeof(*h) && h->kind < W_KIND_COUNT && least[h->kind] &&
	       size >= least[h->kind] && h->size <= size && h->size >= least[h->kind];
}

int decoder__record(struct decoder *d, const void *rec, size_t size, uint64_t pass)
{
	const struct wire_hdr *h = rec;
	struct person_thread *th;

	if (!long_enough(h, size))
		return 0;
	if (h->ts > d->last_ts && h->kind != W_HIT)
		d->last_ts = h->ts;
	switch (h->kind) {
	case W_BATCH:
		return decoder__batch(d, rec, size);
	case W_HIT:
		return decoder__hit(d, rec, h->size);
	case W_CALL:
	case W_RETURN:
	case W_CALL_DATA:
	case W_RETURN_DATA:
		return decoder__call(d, rec, h->size);
	case W_PROCESS:
	case W_FORK:
	case W_EXEC:
		return decoder__process(d, rec, h->kind, pass);
	case W_EXIT:
		decoder__exit(d, rec, pass);
		return 0;
	case W_RENAME:
		th = people__find_thread(d->o.people, &((const struct wire_exit *)rec)->task);
		if (th) {
			const struct wire_exit *w = rec;

			people__rename(d->o.people, th, w->comm, strnlen(w->comm, sizeof(w->comm)),
				       false);
		}
		return 0;
	case W_REGISTER:
		return decoder__register(d, rec);
	case W_OPEN:
		return decoder__opens(d, rec);
	}
	return 0;
}
