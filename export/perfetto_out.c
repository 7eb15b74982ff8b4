// SPDX-License-Identifier: Apache-2.0
#include "export/perfetto_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define CLOCK_BOOT 6
/* Numbers from 64 to 127 mean a clock of the sequence. */
#define CLOCK_STEPS 64

#define STATE_CLEARED 1
#define STATE_NEEDED 2

#define FULL (128u << 10) /* so much is handed on at once */
#define SMALL_PACKET 128  /* no begin or end without arguments is longer */
#define FRAME 11          /* tag and length before a packet */

int pf_out__init(struct pf_out *o, const struct session *s, struct outfile *out, bool compress)
{
	*o = (struct pf_out){ .s = s, .out = out, .cap = FULL + SMALL_PACKET };
	o->buf = malloc(o->cap);
	o->iids = map64__new();
	o->tails = calloc(PF_TAILS, sizeof(*o->tails));
	if (compress) {
		o->packed_cap = compressBound(o->cap);
		o->packed = malloc(o->packed_cap);
	}
	return o->buf && o->iids && o->tails && (!compress || o->packed) ? 0 : -ENOMEM;
}

static void forget_repaired(struct pf_out *o)
{
	while (o->n_repaired)
		free(o->repaired[--o->n_repaired]);
}

void pf_out__free(struct pf_out *o)
{
	forget_repaired(o);
	free(o->repaired);
	map64__free(o->iids);
	free(o->tails);
	free(o->packed);
	free(o->buf);
}

static void fail(struct pf_out *o, int err)
{
	if (!o->err)
		o->err = err;
}

/* --- framing ------------------------------------------------------------------------------------- */

static size_t put_varint(uint8_t *to, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		to[n++] = (uint8_t)v | 0x80;
	to[n++] = (uint8_t)v;
	return n;
}

static size_t put_frame(uint8_t *to, size_t len)
{
	to[0] = 1 << 3 | 2; /* Trace.packet, a message */
	return 1 + put_varint(to + 1, len);
}

static void write_packed(struct pf_out *o)
{
	uLongf len = o->packed_cap;
	Pf__TracePacket p = PF__TRACE_PACKET__INIT;
	uint8_t head[2 * FRAME + 8], *at = head;

	if (compress2(o->packed, &len, o->buf, o->len, Z_DEFAULT_COMPRESSION) != Z_OK) {
		fail(o, -ENOMEM);
		return;
	}
	/* The head of such a packet is what is left when its content is empty. */
	p.has_compressed_packets = true;
	p.compressed_packets = (ProtobufCBinaryData){ len, o->packed };
	at += put_frame(at, pf__trace_packet__get_packed_size(&p));
	p.compressed_packets.len = 0;
	at += pf__trace_packet__pack(&p, at) - 1;
	at += put_varint(at, len);
	if (outfile__write(o->out, head, (size_t)(at - head)))
		return;
	outfile__write(o->out, o->packed, len);
}

int pf_out__flush(struct pf_out *o)
{
	int err;

	if (o->err || !o->len)
		return o->err;
	/* Readers take no more than half a MiB in one packed piece. */
	if (o->packed && o->len <= o->cap && o->len <= FULL + SMALL_PACKET)
		write_packed(o);
	else
		outfile__write(o->out, o->buf, o->len);
	o->len = 0;
	err = outfile__write(o->out, "", 0);
	if (err)
		fail(o, err);
	return o->err;
}

static bool make_room(struct pf_out *o, size_t len)
{
	uint8_t *bigger;

	if (o->len + FRAME + len > FULL)
		pf_out__flush(o);
	if (!o->err && FRAME + len > o->cap) {
		bigger = realloc(o->buf, FRAME + len);
		if (bigger) {
			o->buf = bigger;
			o->cap = FRAME + len;
		} else {
			fail(o, -ENOMEM);
		}
	}
	return !o->err;
}

static void write_packet(struct pf_out *o, const Pf__TracePacket *p)
{
	size_t len = pf__trace_packet__get_packed_size(p);

	if (make_room(o, len)) {
		o->len += put_frame(o->buf + o->len, len);
		o->len += pf__trace_packet__pack(p, o->buf + o->len);
	}
	forget_repaired(o);
}

/* --- texts ----------------------------------------------------------------------------------------- */

static const struct {
	const char *text;
	size_t len;
} texts[] = {
#define X(e, s) [e - PF_T_BASE] = { s, sizeof(s) - 1 },
	PF_TEXTS(X)
#undef X
};

static ProtobufCBinaryData as_it_is(const char *s, size_t len)
{
	return (ProtobufCBinaryData){ len, (uint8_t *)(uintptr_t)s };
}

static ProtobufCBinaryData repair(struct pf_out *o, const char *s, size_t len)
{
	struct buf b = { 0 };
	void **more;

	if (o->n_repaired == o->cap_repaired) {
		more = realloc(o->repaired, (o->cap_repaired + 16) * sizeof(*more));
		if (!more) {
			fail(o, -ENOMEM);
			return as_it_is("", 0);
		}
		o->repaired = more;
		o->cap_repaired += 16;
	}
	utf8__append_valid(&b, s, len);
	if (buf__error(&b)) {
		fail(o, -ENOMEM);
		buf__free(&b);
		return as_it_is("", 0);
	}
	o->repaired[o->n_repaired++] = b.data;
	return (ProtobufCBinaryData){ b.len, b.data };
}

ProtobufCBinaryData pf_out__text(struct pf_out *o, const char *s, size_t len)
{
	return utf8__valid(s, len) ? as_it_is(s, len) : repair(o, s, len);
}

ProtobufCBinaryData pf_out__keep(struct pf_out *o, const char *s, size_t len)
{
	return repair(o, s, len);
}

ProtobufCBinaryData pf_out__cstr(struct pf_out *o, const char *s)
{
	return s ? pf_out__text(o, s, strlen(s)) : as_it_is("", 0);
}

ProtobufCBinaryData pf_out__string(struct pf_out *o, uint32_t id)
{
	if (id > PF_T_BASE)
		return as_it_is(texts[id - PF_T_BASE].text, texts[id - PF_T_BASE].len);
	return pf_out__text(o, session__str(o->s, id), strpool__len(session__names(o->s), id));
}

/* --- sequences --------------------------------------------------------------------------------------- */

uint64_t pf__time(uint64_t ts)
{
	return ts > INT64_MAX ? INT64_MAX : ts;
}

void pf_seq__start(struct pf_out *o, struct pf_seq *q, uint64_t ts)
{
	Pf__TracePacket p = PF__TRACE_PACKET__INIT;
	Pf__TracePacketDefaults defaults = PF__TRACE_PACKET_DEFAULTS__INIT;
	Pf__TrackEventDefaults events = PF__TRACK_EVENT_DEFAULTS__INIT;
	Pf__ClockSnapshot snapshot = PF__CLOCK_SNAPSHOT__INIT;
	Pf__ClockSnapshot__Clock boot = PF__CLOCK_SNAPSHOT__CLOCK__INIT, steps = boot;
	Pf__ClockSnapshot__Clock *clocks[] = { &boot, &steps };

	ts = pf__time(ts);
	q->id = ++o->n_seqs;
	q->last_ts = ts;
	defaults.has_timestamp_clock_id = true;
	defaults.timestamp_clock_id = q->absolute ? CLOCK_BOOT : CLOCK_STEPS;
	if (q->track) {
		events.has_track_uuid = true;
		events.track_uuid = q->track;
		defaults.track_event_defaults = &events;
	}
	p.has_trusted_packet_sequence_id = true;
	p.trusted_packet_sequence_id = q->id;
	p.has_sequence_flags = true;
	p.sequence_flags = STATE_CLEARED;
	p.has_first_packet_on_sequence = true;
	p.first_packet_on_sequence = true;
	p.has_previous_packet_dropped = q->lossy;
	p.previous_packet_dropped = 1;
	p.trace_packet_defaults = &defaults;
	if (!q->absolute) {
		boot.has_clock_id = boot.has_timestamp = true;
		boot.clock_id = CLOCK_BOOT;
		boot.timestamp = ts;
		steps.has_clock_id = steps.has_timestamp = steps.has_is_incremental = true;
		steps.clock_id = CLOCK_STEPS;
		steps.timestamp = ts;
		steps.is_incremental = true;
		snapshot.clocks = clocks;
		snapshot.n_clocks = 2;
		p.clock_snapshot = &snapshot;
		p.has_timestamp = p.has_timestamp_clock_id = true;
		p.timestamp = ts;
		p.timestamp_clock_id = CLOCK_BOOT;
	}
	write_packet(o, &p);
}

void pf_seq__packet(struct pf_out *o, struct pf_seq *q, Pf__TracePacket *p)
{
	p->has_trusted_packet_sequence_id = true;
	p->trusted_packet_sequence_id = q->id;
	p->has_sequence_flags = true;
	p->sequence_flags = STATE_NEEDED;
	write_packet(o, p);
}

static uint64_t seq__time(struct pf_seq *q, uint64_t ts)
{
	uint64_t step;

	ts = pf__time(ts);
	if (q->absolute)
		return ts;
	if (ts < q->last_ts)
		ts = q->last_ts;
	step = ts - q->last_ts;
	q->last_ts = ts;
	return step;
}

static uint64_t iid_key(const struct pf_seq *q, enum pf_kind kind, uint32_t id)
{
	return (uint64_t)q->id << 34 | (uint64_t)kind << 32 | id;
}

/* 0: not told on this sequence yet. */
static uint64_t iid_known(const struct pf_out *o, const struct pf_seq *q, enum pf_kind kind,
			  uint32_t id)
{
	const uint64_t *iid = map64__get(o->iids, iid_key(q, kind, id));

	return iid ? *iid : 0;
}

static uint64_t iid_new(struct pf_out *o, struct pf_seq *q, enum pf_kind kind, uint32_t id)
{
	uint64_t iid = ++q->iids[kind];

	if (!map64__put(o->iids, iid_key(q, kind, id), iid))
		fail(o, -ENOMEM);
	return iid;
}

/* --- spans --------------------------------------------------------------------------------------------- */

/* Longest: three fields of a packet and four of an event, numbers of 32 bits, a tag each. */
_Static_assert(sizeof(((struct pf_tail *)NULL)->bytes) >= 2 * 6 + 2 + 2 + 2 * 6 + 7,
	       "room for any tail");

/* False: something of it has not been told on the sequence. */
static bool tail__make(struct pf_out *o, const struct pf_seq *q, struct pf_tail *t)
{
	Pf__SpanPacket p = PF__SPAN_PACKET__INIT;
	Pf__SpanEvent e = PF__SPAN_EVENT__INIT;

	if (t->type == PF_BEGIN) {
		e.name_iid = iid_known(o, q, PF_NAMES, t->name);
		e.category_iid = t->category ? iid_known(o, q, PF_CATEGORIES, t->category) : 0;
		e.source_location_iid = t->source ? iid_known(o, q, PF_SOURCES, t->source) : 0;
		if (!e.name_iid || (t->category && !e.category_iid) ||
		    (t->source && !e.source_location_iid))
			return false;
	}
	e.type = t->type;
	e.has_name_iid = e.name_iid != 0;
	e.has_category_iid = e.category_iid != 0;
	e.has_source_location_iid = e.source_location_iid != 0;
	p.trusted_packet_sequence_id = q->id;
	p.track_event = &e;
	p.sequence_flags = STATE_NEEDED;
	t->seq = q->id;
	t->len = (uint8_t)pf__span_packet__pack(&p, t->bytes);
	return true;
}

static struct pf_tail *tail_of(struct pf_out *o, const struct pf_seq *q, enum pf_type type,
			       uint32_t name, uint32_t category, uint32_t source)
{
	struct pf_tail *t = &o->tails[((name + q->id * 67) ^ source * 31) & (PF_TAILS - 1)];

	if (t->seq == q->id && t->name == name && t->type == type && t->category == category &&
	    t->source == source)
		return t;
	*t = (struct pf_tail){ .name = name, .category = category, .source = source, .type = type };
	return tail__make(o, q, t) ? t : NULL;
}

void pf_seq__span(struct pf_out *o, struct pf_seq *q, enum pf_type type, uint64_t ts, uint32_t name,
		  uint32_t category, uint32_t source)
{
	const struct pf_tail *t;
	uint8_t *at;
	size_t len;

	if (!q->id)
		pf_seq__start(o, q, ts);
	t = tail_of(o, q, type, name, category, source);
	if (!t) {
		pf_event__open(o, q, type, ts, 0);
		pf_event__name(o, name);
		pf_event__category(o, category);
		pf_event__source(o, source);
		pf_event__write(o);
		return;
	}
	if (!make_room(o, SMALL_PACKET))
		return;
	/* Less than 128 bytes: its length takes one. */
	at = o->buf + o->len + 2;
	at[0] = 8 << 3; /* TracePacket.timestamp, a varint */
	len = 1 + put_varint(at + 1, seq__time(q, ts));
	/* All of it, since copying a constant length is quicker. */
	memcpy(at + len, t->bytes, sizeof(t->bytes));
	len += t->len;
	o->len += put_frame(o->buf + o->len, len) + len;
}

/* --- events ---------------------------------------------------------------------------------------------- */

struct pf_event *pf_event__open(struct pf_out *o, struct pf_seq *q, enum pf_type type, uint64_t ts,
				uint64_t track)
{
	static const Pf__TrackEvent no_event = PF__TRACK_EVENT__INIT;
	static const Pf__InternedData no_data = PF__INTERNED_DATA__INIT;
	struct pf_event *e = &o->ev;

	if (!q->id)
		pf_seq__start(o, q, ts);
	e->seq = q;
	e->ts = ts;
	e->te = no_event;
	e->fresh = no_data;
	e->n_names = 0;
	e->told_anew = false;
	e->te.has_type = true;
	e->te.type = type;
	e->te.has_track_uuid = track != 0;
	e->te.track_uuid = track;
	e->te.debug_annotations = e->note_at;
	e->fresh.event_categories = e->at[PF_CATEGORIES];
	e->fresh.event_names = e->at[PF_NAMES];
	e->fresh.debug_annotation_names = e->at[PF_KEYS];
	e->fresh.source_locations = e->source_at;
	return e;
}

static uint64_t event__intern(struct pf_out *o, enum pf_kind kind, uint32_t id)
{
	struct pf_event *e = &o->ev;
	size_t *n = kind == PF_CATEGORIES ? &e->fresh.n_event_categories
		    : kind == PF_NAMES    ? &e->fresh.n_event_names
					  : &e->fresh.n_debug_annotation_names;
	uint64_t iid = iid_known(o, e->seq, kind, id);
	Pf__InternedName *name;

	if (iid)
		return iid;
	name = &e->names[e->n_names++];
	pf__interned_name__init(name);
	name->has_iid = name->has_name = true;
	name->iid = iid_new(o, e->seq, kind, id);
	name->name = pf_out__string(o, id);
	e->at[kind][(*n)++] = name;
	e->told_anew = true;
	return name->iid;
}

void pf_event__name(struct pf_out *o, uint32_t id)
{
	o->ev.te.has_name_iid = true;
	o->ev.te.name_iid = event__intern(o, PF_NAMES, id);
}

void pf_event__category(struct pf_out *o, uint32_t id)
{
	struct pf_event *e = &o->ev;

	if (!id)
		return;
	e->category = event__intern(o, PF_CATEGORIES, id);
	e->te.category_iids = &e->category;
	e->te.n_category_iids = 1;
}

/* "file:line" */
void pf_event__source(struct pf_out *o, uint32_t id)
{
	struct pf_event *e = &o->ev;
	Pf__SourceLocation *l = &e->source;
	ProtobufCBinaryData text;
	uint64_t iid, line = 0;
	size_t digits = 0, at;

	if (!id)
		return;
	iid = iid_known(o, e->seq, PF_SOURCES, id);
	if (!iid) {
		iid = iid_new(o, e->seq, PF_SOURCES, id);
		text = pf_out__string(o, id);
		for (at = text.len; at && text.data[at - 1] >= '0' && text.data[at - 1] <= '9';
		     at--)
			digits++;
		pf__source_location__init(l);
		if (digits && digits <= 9 && at && text.data[at - 1] == ':') {
			for (; at < text.len; at++)
				line = line * 10 + (uint64_t)(text.data[at] - '0');
			l->has_line_number = true;
			l->line_number = (uint32_t)line;
			text.len -= digits + 1;
		}
		l->has_iid = l->has_file_name = true;
		l->iid = iid;
		l->file_name = text;
		e->source_at[0] = l;
		e->fresh.n_source_locations = 1;
		e->told_anew = true;
	}
	e->te.has_source_location_iid = true;
	e->te.source_location_iid = iid;
}

static Pf__DebugAnnotation *event__add_note(struct pf_event *e)
{
	Pf__DebugAnnotation *a;

	/* More than any event has: the last one is written over. */
	if (e->te.n_debug_annotations == PF_NOTES)
		return &e->notes[PF_NOTES - 1];
	a = &e->notes[e->te.n_debug_annotations];
	pf__debug_annotation__init(a);
	e->note_at[e->te.n_debug_annotations++] = a;
	return a;
}

Pf__DebugAnnotation *pf_event__note(struct pf_out *o, uint32_t key)
{
	Pf__DebugAnnotation *a = event__add_note(&o->ev);

	if (!a->has_name_iid) {
		a->has_name_iid = true;
		a->name_iid = event__intern(o, PF_KEYS, key);
	}
	return a;
}

Pf__DebugAnnotation *pf_event__note_named(struct pf_out *o, const char *key)
{
	Pf__DebugAnnotation *a = event__add_note(&o->ev);

	a->has_name = true;
	a->name = pf_out__cstr(o, key);
	return a;
}

void pf_event__note_u64(struct pf_out *o, uint32_t key, uint64_t v)
{
	Pf__DebugAnnotation *a = pf_event__note(o, key);

	a->has_uint_value = true;
	a->uint_value = v;
}

void pf_event__flag(struct pf_out *o, uint32_t key, bool set)
{
	Pf__DebugAnnotation *a;

	if (!set)
		return;
	a = pf_event__note(o, key);
	a->has_bool_value = true;
	a->bool_value = true;
}

void pf_event__write(struct pf_out *o)
{
	struct pf_event *e = &o->ev;
	Pf__TracePacket p = PF__TRACE_PACKET__INIT;

	p.has_timestamp = true;
	p.timestamp = seq__time(e->seq, e->ts);
	p.track_event = &e->te;
	if (e->told_anew)
		p.interned_data = &e->fresh;
	pf_seq__packet(o, e->seq, &p);
}

void pf_event__write_instant(struct pf_out *o)
{
	struct pf_seq *q = o->ev.seq;
	uint64_t ts = o->ev.ts, track = o->ev.te.has_track_uuid ? o->ev.te.track_uuid : 0;

	pf_event__write(o);
	pf_event__open(o, q, PF_END, ts, track);
	pf_event__write(o);
}
