// SPDX-License-Identifier: Apache-2.0
/* A small importer: framing, sequences, clocks, interning, tracks, nesting, flows. */
#include "tests/common/perfetto_lines.h"
#include "tests/common/perfetto_text.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "proto/perfetto_subset.pb-c.h"

enum { T_BEGIN = 1, T_END = 2, T_COUNTER = 4 };
enum { CLOCK_BOOT = 6, CLOCK_FIRST_OF_SEQUENCE = 64 };

struct text {
	char *s;
	size_t len;
};

struct seq {
	bool valid;
	uint32_t clock; /* of packets that name none */
	bool has_steps;
	uint64_t steps_clock, steps_at; /* the sequence's own clock */
	uint64_t track;
	uint64_t n_iids[4];
};

struct row {
	uint64_t parent;
	struct text name;
	int32_t pid;
	int64_t tid, start;
	bool process, thread, counter;
	size_t *open; /* slices */
	size_t n_open;
};

struct tp_event {
	uint64_t ts;
	size_t order;
	uint64_t track;
	uint32_t type;
	char *name, *cat, *source; /* as shown in a line */
	struct parts args;
	uint64_t *flows, *last_flows;
	size_t n_flows, n_last;
	char *value;
};

struct slice {
	struct tp_event *ev;
	uint64_t end;
	unsigned int depth;
	size_t parent; /* index + 1 */
	bool open;
};

struct importer {
	struct seq *seqs;
	size_t n_seqs;
	struct map64 *texts_at; /* (sequence, kind, iid) -> index */
	struct text *texts;
	size_t n_texts;
	struct map64 *tracks_at;
	struct row *tracks;
	size_t n_tracks;
	struct tp_event *events;
	size_t n_events;
	struct slice *slices;
	size_t n_slices;
	struct map64 *flows; /* id -> slice index */
	struct parts lines;
	struct map64 *starts; /* pid -> start of the process that has it now */
	uint64_t snapshot[7]; /* newest value of each clock */
	size_t n_packets, n_stats, n_uuids, n_systems;
};

#define ADD(array, n)                                                                              \
	({                                                                                         \
		if (!((n) & ((n)-1))) {                                                            \
			(array) = realloc(array, ((n) ? (n)*2 : 1) * sizeof(*(array)));            \
			assert_non_null(array);                                                    \
		}                                                                                  \
		memset(&(array)[n], 0, sizeof(*(array)));                                          \
		&(array)[(n)++];                                                                   \
	})

static struct text keep(ProtobufCBinaryData d)
{
	struct text t = { malloc(d.len + 1), d.len };

	assert_non_null(t.s);
	assert_true(utf8__valid((const char *)d.data, d.len));
	if (d.len)
		memcpy(t.s, d.data, d.len);
	t.s[d.len] = '\0';
	return t;
}

/* --- sequences ---------------------------------------------------------------------------------------- */

static struct seq *seq_of(struct importer *im, uint32_t id)
{
	while (im->n_seqs <= id)
		ADD(im->seqs, im->n_seqs);
	return &im->seqs[id];
}

static uint64_t iid_key(const struct importer *im, const struct seq *q, unsigned int kind,
			uint64_t iid)
{
	return (uint64_t)(q - im->seqs) << 40 | (uint64_t)kind << 36 | iid;
}

static void define(struct importer *im, struct seq *q, unsigned int kind, uint64_t iid,
		   struct text t)
{
	uint64_t key = iid_key(im, q, kind, iid);

	/* Numbers begin at 1, have no gaps, and mean one thing. */
	assert_int_equal(iid, ++q->n_iids[kind]);
	assert_null(map64__get(im->texts_at, key));
	map64__put(im->texts_at, key, im->n_texts);
	*ADD(im->texts, im->n_texts) = t;
}

static struct text defined(struct importer *im, struct seq *q, unsigned int kind, uint64_t iid)
{
	uint64_t *at = map64__get(im->texts_at, iid_key(im, q, kind, iid));

	if (!at)
		fail_msg("number %llu of kind %u is not defined", (unsigned long long)iid, kind);
	return im->texts[*at];
}

static void read_interned(struct importer *im, struct seq *q, const Pf__InternedData *d)
{
	const Pf__SourceLocation *l;
	struct buf b;
	size_t i;

	for (i = 0; i < d->n_event_categories; i++)
		define(im, q, 0, d->event_categories[i]->iid, keep(d->event_categories[i]->name));
	for (i = 0; i < d->n_event_names; i++)
		define(im, q, 1, d->event_names[i]->iid, keep(d->event_names[i]->name));
	for (i = 0; i < d->n_debug_annotation_names; i++)
		define(im, q, 2, d->debug_annotation_names[i]->iid,
		       keep(d->debug_annotation_names[i]->name));
	for (i = 0; i < d->n_source_locations; i++) {
		l = d->source_locations[i];
		b = (struct buf){ 0 };
		buf__append(&b, l->file_name.data, l->file_name.len);
		if (l->has_line_number)
			buf__printf(&b, ":%u", l->line_number);
		define(im, q, 3, l->iid, keep((ProtobufCBinaryData){ b.len, b.data }));
		buf__free(&b);
	}
}

static void read_state(struct seq *q, const Pf__TracePacket *p)
{
	assert_true(p->has_trusted_packet_sequence_id && p->trusted_packet_sequence_id);
	assert_true(p->has_sequence_flags);
	if (p->sequence_flags & 1) {
		/* One generation a sequence: what it needs comes once. */
		assert_false(q->valid);
		assert_true(p->first_packet_on_sequence);
		assert_non_null(p->trace_packet_defaults);
		q->valid = true;
		q->clock = p->trace_packet_defaults->timestamp_clock_id;
		if (p->trace_packet_defaults->track_event_defaults)
			q->track = p->trace_packet_defaults->track_event_defaults->track_uuid;
	} else {
		assert_int_equal(p->sequence_flags, 2);
		assert_true(q->valid);
		assert_false(p->previous_packet_dropped);
		assert_null(p->trace_packet_defaults);
	}
}

static void read_clocks(struct importer *im, struct seq *q, const Pf__ClockSnapshot *s)
{
	uint64_t boot = 0;
	size_t i;

	for (i = 0; i < s->n_clocks; i++)
		if (s->clocks[i]->clock_id == CLOCK_BOOT)
			boot = s->clocks[i]->timestamp;
	for (i = 0; i < s->n_clocks; i++) {
		uint32_t id = s->clocks[i]->clock_id;

		if (id >= CLOCK_FIRST_OF_SEQUENCE) {
			assert_true(id < 128 && s->clocks[i]->is_incremental && !q->has_steps);
			q->has_steps = true;
			q->steps_clock = id;
			q->steps_at = s->clocks[i]->timestamp;
			assert_int_equal(q->steps_at, boot);
			continue;
		}
		assert_true(id < 7);
		assert_true(s->clocks[i]->timestamp >= im->snapshot[id]);
		im->snapshot[id] = s->clocks[i]->timestamp;
	}
}

static uint64_t time_of(struct seq *q, const Pf__TracePacket *p)
{
	uint32_t clock = p->has_timestamp_clock_id ? p->timestamp_clock_id : q->clock;

	assert_true(p->has_timestamp);
	if (clock == CLOCK_BOOT)
		return p->timestamp;
	assert_true(q->has_steps);
	assert_int_equal(clock, q->steps_clock);
	q->steps_at += p->timestamp;
	return q->steps_at;
}

/* --- tracks --------------------------------------------------------------------------------------------- */

static struct row *track_of(struct importer *im, uint64_t uuid)
{
	uint64_t *at = map64__get(im->tracks_at, uuid);

	if (!at)
		fail_msg("track %llx is used before it is described", (unsigned long long)uuid);
	return &im->tracks[*at];
}

static void read_track(struct importer *im, const Pf__TrackDescriptor *d)
{
	struct row *t, *parent = NULL;
	size_t i;

	assert_true(d->has_uuid && d->uuid);
	assert_null(map64__get(im->tracks_at, d->uuid));
	if (d->has_parent_uuid)
		parent = track_of(im, d->parent_uuid);
	map64__put(im->tracks_at, d->uuid, im->n_tracks);
	i = im->n_tracks;
	t = ADD(im->tracks, im->n_tracks);
	t->parent = d->has_parent_uuid ? d->parent_uuid : 0;
	if (d->has_name)
		t->name = keep(d->name);
	if (parent)
		parent = track_of(im, d->parent_uuid); /* the array may have moved */
	t = &im->tracks[i];
	t->process = d->process;
	t->thread = d->thread;
	t->counter = d->counter;
	if (d->process) {
		assert_true(d->process->pid > 0);
		assert_null(parent);
		t->pid = d->process->pid;
		t->start = d->process->start_timestamp_ns;
		/* Readers see a second process only when the first has ended. */
		assert_null(map64__get(im->starts, (uint64_t)t->pid));
		map64__put(im->starts, (uint64_t)t->pid, (uint64_t)t->start);
	} else if (d->thread) {
		assert_true(d->thread->pid > 0 && d->thread->tid > 0);
		assert_null(parent);
		t->pid = d->thread->pid;
		t->tid = d->thread->tid;
		assert_non_null(map64__get(im->starts, (uint64_t)t->pid));
		t->start = (int64_t)*map64__get(im->starts, (uint64_t)t->pid);
	} else if (parent) {
		t->pid = parent->pid;
		t->start = parent->start;
	}
}

/* --- events --------------------------------------------------------------------------------------------- */

static char *shown(struct text t)
{
	struct buf b = { 0 };

	line__text(&b, t.s, t.len);
	buf__u8(&b, 0);
	return (char *)b.data;
}

static void read_note(struct importer *im, struct seq *q, struct parts *to,
		      const Pf__DebugAnnotation *a)
{
	struct text key;
	struct buf b = { 0 };

	assert_true(a->has_name_iid != a->has_name);
	key = a->has_name ? keep(a->name) : defined(im, q, 2, a->name_iid);
	line__key(&b, key.s, key.len);
	if (a->has_name)
		free(key.s);
	buf__u8(&b, '=');
	if (a->has_bool_value)
		buf__printf(&b, "b%s", a->bool_value ? "true" : "false");
	else if (a->has_uint_value)
		buf__printf(&b, "i%lld", (long long)a->uint_value);
	else if (a->has_int_value)
		buf__printf(&b, "i%lld", (long long)a->int_value);
	else if (a->has_double_value)
		line__f64(&b, a->double_value);
	else {
		assert_true(a->has_string_value);
		assert_true(utf8__valid((char *)a->string_value.data, a->string_value.len));
		buf__u8(&b, 's');
		line__text(&b, a->string_value.data, a->string_value.len);
	}
	parts__add(to, &b);
}

static uint64_t *copy_ids(const uint64_t *ids, size_t n)
{
	uint64_t *copy = calloc(n + 1, sizeof(*copy));

	assert_non_null(copy);
	if (n)
		memcpy(copy, ids, n * sizeof(*copy));
	return copy;
}

static void read_event(struct importer *im, struct seq *q, uint64_t ts, const Pf__TrackEvent *te)
{
	struct tp_event *e = ADD(im->events, im->n_events);
	struct buf b = { 0 };
	struct text t;
	size_t i;

	e->ts = ts;
	e->order = im->n_events;
	e->type = te->type;
	e->track = te->has_track_uuid ? te->track_uuid : q->track;
	track_of(im, e->track);
	if (te->has_name) {
		t = keep(te->name);
		e->name = shown(t);
		free(t.s);
	} else if (te->has_name_iid) {
		e->name = shown(defined(im, q, 1, te->name_iid));
	}
	assert_true(te->n_category_iids <= 1);
	if (te->n_category_iids)
		e->cat = shown(defined(im, q, 0, te->category_iids[0]));
	if (te->has_source_location_iid)
		e->source = shown(defined(im, q, 3, te->source_location_iid));
	for (i = 0; i < te->n_debug_annotations; i++)
		read_note(im, q, &e->args, te->debug_annotations[i]);
	e->n_flows = te->n_flow_ids;
	e->flows = copy_ids(te->flow_ids, e->n_flows);
	e->n_last = te->n_terminating_flow_ids;
	e->last_flows = copy_ids(te->terminating_flow_ids, e->n_last);
	if (e->type == T_COUNTER) {
		assert_true(track_of(im, e->track)->counter);
		assert_true(te->has_counter_value != te->has_double_counter_value);
		if (te->has_counter_value)
			buf__printf(&b, "i%lld", (long long)te->counter_value);
		else
			line__f64(&b, te->double_counter_value);
		buf__u8(&b, 0);
		e->value = (char *)b.data;
	} else {
		/* Instants make children of what comes at the same time. */
		assert_true(e->type == T_BEGIN || e->type == T_END);
		assert_int_equal(e->type == T_END, !e->name);
	}
}

/* --- packets --------------------------------------------------------------------------------------------- */

static size_t read_framed(struct importer *im, const uint8_t *data, size_t len);

static void read_packed(struct importer *im, ProtobufCBinaryData d)
{
	uLongf len = 512 << 10;
	uint8_t *open = malloc(len);

	assert_non_null(open);
	assert_int_equal(uncompress(open, &len, d.data, d.len), Z_OK);
	assert_int_equal(read_framed(im, open, len), len);
	free(open);
}

static void read_packet(struct importer *im, const Pf__TracePacket *p)
{
	struct seq *q;
	uint64_t ts = 0;

	if (p->has_compressed_packets) {
		read_packed(im, p->compressed_packets);
		return;
	}
	/* A file begins with the clocks. */
	if (im->n_packets++ == 1)
		assert_non_null(p->clock_snapshot);
	q = seq_of(im, p->trusted_packet_sequence_id);
	read_state(q, p);
	if (p->interned_data)
		read_interned(im, q, p->interned_data);
	if (p->clock_snapshot)
		read_clocks(im, q, p->clock_snapshot);
	if (p->has_timestamp)
		ts = time_of(q, p);
	if (p->ftrace_events)
		map64__del(im->starts,
			   (uint64_t)p->ftrace_events->event[0]->sched_process_free->pid);
	if (p->track_descriptor)
		read_track(im, p->track_descriptor);
	if (p->track_event)
		read_event(im, q, ts, p->track_event);
	im->n_stats += p->trace_stats != NULL;
	im->n_uuids += p->trace_uuid != NULL;
	im->n_systems += p->system_info != NULL;
}

static size_t read_framed(struct importer *im, const uint8_t *data, size_t len)
{
	struct cursor c = cursor__over(data, len);
	Pf__TracePacket *p;
	const uint8_t *at;
	uint64_t n;

	while (cursor__left(&c)) {
		assert_int_equal(cursor__u8(&c), 0x0a);
		n = cursor__varint(&c);
		assert_true(!c.bad && n <= cursor__left(&c));
		at = cursor__bytes(&c, n);
		p = pf__trace_packet__unpack(NULL, n, at);
		assert_non_null(p);
		assert_int_equal(p->base.n_unknown_fields, 0);
		read_packet(im, p);
		pf__trace_packet__free_unpacked(p, NULL);
	}
	assert_false(c.bad);
	return len;
}

/* --- slices ------------------------------------------------------------------------------------------------ */

static int by_time(const void *a, const void *b)
{
	const struct tp_event *x = a, *y = b;

	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static void put_process(struct buf *b, const struct row *t)
{
	line__number(b, (uint64_t)t->pid);
	buf__printf(b, "@%lld", (long long)t->start);
}

static void put_who(struct importer *im, struct buf *b, uint64_t uuid)
{
	struct row *t = track_of(im, uuid);

	if (t->thread) {
		put_process(b, t);
		buf__u8(b, '/');
		line__number(b, (uint64_t)t->tid);
	} else if (t->pid) {
		put_process(b, t);
		buf__u8(b, ':');
	}
	if (!t->thread)
		line__text(b, t->name.s, t->name.len);
}

/* An instant that only carries an arrow stands for the span it lies in. */
static size_t span_of(struct importer *im, size_t slice)
{
	const struct slice *s = &im->slices[slice];

	if (s->ev->cat && !strcmp(s->ev->cat, "flow")) {
		assert_true(s->parent);
		return s->parent - 1;
	}
	return slice;
}

static char *flow_end(struct importer *im, size_t slice)
{
	const struct slice *s = &im->slices[slice];
	struct buf b = { 0 };

	put_who(im, &b, s->ev->track);
	buf__printf(&b, "@%llu %s", (unsigned long long)s->ev->ts, s->ev->name);
	buf__u8(&b, 0);
	return (char *)b.data;
}

/* Importers draw from the slice that began first. */
static void arrow(struct importer *im, size_t a, size_t b)
{
	bool turned = im->slices[a].ev->ts > im->slices[b].ev->ts;
	size_t from = span_of(im, turned ? b : a), to = span_of(im, turned ? a : b);
	char *x = flow_end(im, from), *y = flow_end(im, to);

	line__flow(&im->lines, x, im->slices[from].ev->ts, y, im->slices[to].ev->ts);
	free(x);
	free(y);
}

static void step_flows(struct importer *im, size_t slice, const struct tp_event *e)
{
	uint64_t *at;
	size_t i;

	for (i = 0; i < e->n_flows; i++) {
		at = map64__get(im->flows, e->flows[i]);
		if (at)
			arrow(im, *at, slice);
		map64__put(im->flows, e->flows[i], slice);
	}
	for (i = 0; i < e->n_last; i++) {
		at = map64__get(im->flows, e->last_flows[i]);
		assert_non_null(at);
		arrow(im, *at, slice);
		map64__del(im->flows, e->last_flows[i]);
	}
}

static size_t begin_slice(struct importer *im, struct tp_event *e)
{
	struct row *t = track_of(im, e->track);
	struct slice *s = ADD(im->slices, im->n_slices);
	size_t index = im->n_slices - 1;

	assert_true(!t->counter && t->n_open < 512);
	s->ev = e;
	s->end = e->ts;
	s->depth = (unsigned int)t->n_open;
	s->parent = t->n_open ? t->open[t->n_open - 1] + 1 : 0;
	return index;
}

static void play(struct importer *im, struct tp_event *e)
{
	struct row *t = track_of(im, e->track);
	struct buf b = { 0 };
	size_t i, k;

	switch (e->type) {
	case T_BEGIN:
		i = begin_slice(im, e);
		im->slices[i].open = true;
		*ADD(t->open, t->n_open) = i;
		break;
	case T_END:
		assert_true(t->n_open);
		i = t->open[--t->n_open];
		im->slices[i].open = false;
		im->slices[i].end = e->ts;
		for (k = 0; k < e->args.n; k++) {
			struct buf arg = { 0 };

			buf__printf(&arg, "%s", e->args.at[k]);
			parts__add_arg(&im->slices[i].ev->args, &arg);
			free(e->args.at[k]);
		}
		free(e->args.at);
		e->args = (struct parts){ 0 };
		break;
	default:
		buf__printf(&b, "counter ");
		put_process(&b, t);
		buf__u8(&b, ' ');
		line__text(&b, t->name.s, t->name.len);
		buf__printf(&b, " %llu %s", (unsigned long long)e->ts, e->value);
		parts__add(&im->lines, &b);
		return;
	}
	step_flows(im, i, e);
}

static void slice_line(struct importer *im, struct slice *s)
{
	struct tp_event *e = s->ev;
	char *args = parts__join(&e->args, " ");
	struct buf b = { 0 };

	assert_false(s->open);
	if (!e->cat || strcmp(e->cat, "flow") != 0) {
		buf__printf(&b, "slice ");
		put_who(im, &b, e->track);
		buf__printf(&b, " %llu +%llu d%u %s %s", (unsigned long long)e->ts,
			    (unsigned long long)(s->end - e->ts), s->depth, e->cat ? e->cat : "-",
			    e->name);
		if (e->source)
			buf__printf(&b, " @%s", e->source);
		buf__printf(&b, " {%s}", args);
		parts__add(&im->lines, &b);
	}
	free(args);
}

static void importer__free(struct importer *im)
{
	size_t i;

	for (i = 0; i < im->n_texts; i++)
		free(im->texts[i].s);
	for (i = 0; i < im->n_tracks; i++) {
		free(im->tracks[i].name.s);
		free(im->tracks[i].open);
	}
	for (i = 0; i < im->n_events; i++) {
		free(im->events[i].name);
		free(im->events[i].cat);
		free(im->events[i].source);
		free(im->events[i].value);
		free(im->events[i].flows);
		free(im->events[i].last_flows);
	}
	free(im->texts);
	free(im->tracks);
	free(im->events);
	free(im->slices);
	free(im->seqs);
	map64__free(im->texts_at);
	map64__free(im->tracks_at);
	map64__free(im->flows);
	map64__free(im->starts);
}

char *perfetto__seen(const void *data, size_t len)
{
	struct importer im = { 0 };
	char *text;
	size_t i;

	im.texts_at = map64__new();
	im.tracks_at = map64__new();
	im.flows = map64__new();
	im.starts = map64__new();
	read_framed(&im, data, len);
	assert_int_equal(im.n_stats, 1);
	assert_int_equal(im.n_uuids, 1);
	assert_int_equal(im.n_systems, 1);
	if (im.n_events)
		qsort(im.events, im.n_events, sizeof(*im.events), by_time);
	for (i = 0; i < im.n_events; i++)
		play(&im, &im.events[i]);
	for (i = 0; i < im.n_slices; i++) {
		if (track_of(&im, im.slices[i].ev->track)->name.s &&
		    !strcmp(track_of(&im, im.slices[i].ev->track)->name.s, "records lost"))
			free(parts__join(&im.slices[i].ev->args, ""));
		else
			slice_line(&im, &im.slices[i]);
	}
	importer__free(&im);
	text = parts__join(&im.lines, "\n");
	return text;
}
