// SPDX-License-Identifier: Apache-2.0
#include "export/otlp_span.h"

#include "export/args.h"
#include "export/digits.h"
#include "export/stacks.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_INTERNAL = 1, KIND_SERVER = 2 };

/* --- values ------------------------------------------------------------------------------------------ */

/* 64-bit numbers are text in this JSON, since readers keep numbers as doubles. */
static void put_u64_text(struct json *j, uint64_t v)
{
	char text[24], *end = text + sizeof(text), *p;

	*--end = '"';
	p = digits__u64(end, v);
	*--p = '"';
	json__raw(j, p, (size_t)(end + 1 - p));
}

static void pair_u64_text(struct json *j, const char *key, uint64_t v)
{
	json__key(j, key);
	put_u64_text(j, v);
}

static void attribute_open(struct json *j, const char *type)
{
	json__key(j, "value");
	json__object(j);
	json__key(j, type);
}

static void attribute_close(struct json *j)
{
	json__end_object(j);
	json__end_object(j);
}

static void key_cstr(struct json *j, const char *key)
{
	json__object(j);
	json__key(j, "key");
	json__cstr(j, key);
}

static void attr_str(struct json *j, const char *key, const char *s, size_t len)
{
	key_cstr(j, key);
	attribute_open(j, "stringValue");
	json__str(j, s, len);
	attribute_close(j);
}

/* Nothing when it is not known. */
static void attr_cstr(struct json *j, const char *key, const char *s)
{
	if (s && *s)
		attr_str(j, key, s, strlen(s));
}

static void attr_u64(struct json *j, const char *key, uint64_t v)
{
	key_cstr(j, key);
	if (v > INT64_MAX) {
		attribute_open(j, "stringValue");
	} else {
		attribute_open(j, "intValue");
	}
	put_u64_text(j, v);
	attribute_close(j);
}

static void attr_true(struct json *j, const char *key)
{
	key_cstr(j, key);
	attribute_open(j, "boolValue");
	json__bool(j, true);
	attribute_close(j);
}

static void put_i64_text(struct json *j, int64_t v)
{
	char text[24];

	json__raw(j, text, (size_t)snprintf(text, sizeof(text), "\"%lld\"", (long long)v));
}

static void put_arg_value(struct json *j, const struct event_arg *a)
{
	if (a->type == ARG_STR || (a->type == ARG_U64 && a->u > INT64_MAX) ||
	    (a->type == ARG_F64 && !isfinite(a->f))) {
		attribute_open(j, "stringValue");
		if (a->type == ARG_STR)
			json__str(j, a->str, a->len);
		else if (a->type == ARG_U64)
			put_u64_text(j, a->u);
		else
			json__cstr(j, isnan(a->f) ? "NaN" : a->f > 0 ? "Infinity" : "-Infinity");
	} else if (a->type == ARG_F64) {
		attribute_open(j, "doubleValue");
		json__f64(j, a->f);
	} else {
		attribute_open(j, "intValue");
		put_i64_text(j, a->i);
	}
}

static void put_args(struct ot_writer *w, const struct event *ev)
{
	size_t i;

	for (i = 0; w->args && i < ev->nargs; i++) {
		if (!args__is_newest(ev, i))
			continue;
		json__object(&w->j);
		json__key(&w->j, "key");
		if (args__is_reserved(session__str(w->s, ev->args[i].key)))
			json_names__put_prefixed(&w->names, &w->j, "arg.", ev->args[i].key);
		else
			json_names__put(&w->names, &w->j, ev->args[i].key);
		put_arg_value(&w->j, &ev->args[i]);
		attribute_close(&w->j);
	}
}

/* --- ids --------------------------------------------------------------------------------------------- */

static uint64_t id_of(const struct ot_writer *w, struct ot_ref r, uint64_t salt)
{
	uint64_t id = hash__mix(w->seed ^ salt, hash__mix(r.kind, r.key));

	return id ? id : 1; /* all zeros is no id */
}

static void put_trace_id(struct ot_writer *w, struct ot_ref r)
{
	char text[34];

	text[0] = text[33] = '"';
	digits__hex16(text + 1, id_of(w, r, 0x74726163));
	digits__hex16(text + 17, id_of(w, r, 0x65696400));
	json__key(&w->j, "traceId");
	json__raw(&w->j, text, sizeof(text));
}

static void put_span_id(struct ot_writer *w, const char *key, struct ot_ref r)
{
	char text[18];

	text[0] = text[17] = '"';
	digits__hex16(text + 1, id_of(w, r, 0x7370616e));
	json__key(&w->j, key);
	json__raw(&w->j, text, sizeof(text));
}

/* --- spans ------------------------------------------------------------------------------------------- */

static uint64_t realtime(const struct ot_writer *w, uint64_t ts)
{
	uint64_t t = session__realtime(w->s, ts);

	return t ? t : w->realtime + (ts - session__origin(w->s));
}

/* The clock may have been set while a span ran: its length is what was measured. */
static uint64_t span_open(struct ot_writer *w, struct ot_ref self, const struct ot_place *place,
			  uint64_t ts, uint64_t dur)
{
	uint64_t start = realtime(w, ts);

	w->j.b.len = 0;
	w->j.comma = false;
	json__object(&w->j);
	put_trace_id(w, place->trace);
	put_span_id(w, "spanId", self);
	if (place->parent.kind)
		put_span_id(w, "parentSpanId", place->parent);
	pair_u64_text(&w->j, "startTimeUnixNano", start);
	pair_u64_text(&w->j, "endTimeUnixNano", start + dur);
	return start;
}

static void put_name_and_kind(struct ot_writer *w, uint32_t name, unsigned int kind)
{
	json__key(&w->j, "name");
	json_names__put(&w->names, &w->j, name);
	json__key(&w->j, "kind");
	json__u64(&w->j, kind);
}

static void attributes_open(struct ot_writer *w)
{
	json__key(&w->j, "attributes");
	json__array(&w->j);
}

/* The same in each span of the thread, so made once. */
static void put_thread(struct ot_writer *w, const struct track *t)
{
	struct buf *b = &w->threads[t->index];
	struct json j;

	if (!b->len) {
		json__init(&j, NULL);
		attr_u64(&j, "thread.id", t->tid);
		attr_cstr(&j, "thread.name", t->name);
		buf__append(b, j.b.data, j.b.len);
		w->j.err = w->j.err ? w->j.err : j.err;
		json__free(&j);
	}
	if (buf__error(b))
		w->j.err = -ENOMEM;
	else
		json__raw(&w->j, (const char *)b->data, b->len);
}

static void put_source(struct ot_writer *w, const struct event *ev)
{
	const char *src = session__str(w->s, ev->src);
	size_t file;
	uint32_t line = stacks__line(src, &file);

	if (!w->args || !file)
		return;
	attr_str(&w->j, "code.file.path", src, file);
	if (line)
		attr_u64(&w->j, "code.line.number", line);
}

static void put_category(struct ot_writer *w, const struct event *ev)
{
	if (!ev->cat)
		return;
	key_cstr(&w->j, "clika.category");
	attribute_open(&w->j, "stringValue");
	json_names__put(&w->names, &w->j, ev->cat);
	attribute_close(&w->j);
}

void ot_writer__thread_span(struct ot_writer *w, const struct item *it,
			    const struct ot_place *place)
{
	struct ot_ref self = { OT_SPAN, it->span->seq };
	struct buf flags = { 0 };

	span_open(w, self, place, it->ev->ts, it->ev->dur);
	put_name_and_kind(w, it->ev->name, KIND_INTERNAL);
	attributes_open(w);
	put_thread(w, it->track);
	put_category(w, it->ev);
	put_source(w, it->ev);
	args__flags(&flags, it->span);
	if (flags.len)
		attr_str(&w->j, "clika.flags", (const char *)flags.data, flags.len);
	buf__free(&flags);
	put_args(w, it->ev);
	json__end_array(&w->j);
	json__end_object(&w->j);
}

void ot_writer__async_span(struct ot_writer *w, const struct item *it, const struct ot_place *place)
{
	struct ot_ref self = { OT_ASYNC, it->async_key };

	span_open(w, self, place, it->begin_ts, it->ts - it->begin_ts);
	put_name_and_kind(w, it->async_begin->name, KIND_INTERNAL);
	attributes_open(w);
	attr_true(&w->j, "clika.async");
	attr_u64(&w->j, "clika.id", it->async_begin->id);
	put_category(w, it->async_begin);
	if (it->async_flags & EVS_UNFINISHED)
		attr_str(&w->j, "clika.flags", "unfinished", 10);
	else
		put_args(w, it->ev);
	json__end_array(&w->j);
	json__end_object(&w->j);
}

static void put_first_output(struct ot_writer *w, uint64_t at)
{
	json__key(&w->j, "events");
	json__array(&w->j);
	json__object(&w->j);
	pair_u64_text(&w->j, "timeUnixNano", at);
	json__key(&w->j, "name");
	json__cstr(&w->j, "first output");
	json__end_object(&w->j);
	json__end_array(&w->j);
}

static void put_links(struct ot_writer *w, const struct ot_request *r)
{
	uint32_t i;

	json__key(&w->j, "links");
	json__array(&w->j);
	for (i = 0; i < r->n_links; i++) {
		json__object(&w->j);
		put_trace_id(w, r->links[i].trace);
		put_span_id(w, "spanId", r->links[i].span);
		json__end_object(&w->j);
	}
	json__end_array(&w->j);
	if (r->more_links) {
		json__key(&w->j, "droppedLinksCount");
		json__u64(&w->j, r->more_links);
	}
}

void ot_writer__request_span(struct ot_writer *w, const struct item *it, const struct ot_request *r)
{
	struct ot_ref self = { OT_REQUEST, r->key };
	struct ot_place place = { self, { OT_NONE, 0 } };
	uint64_t start = span_open(w, self, &place, r->begin_ts, it->ts - r->begin_ts);

	put_name_and_kind(w, it->request_name, KIND_SERVER);
	attributes_open(w);
	attr_u64(&w->j, "clika.request.id", r->id);
	attr_u64(&w->j, "clika.request.units", it->units);
	if (it->first_ns != UINT64_MAX)
		attr_u64(&w->j, "clika.request.first_output_ns", it->first_ns);
	if (it->request_unfinished)
		attr_str(&w->j, "clika.flags", "unfinished", 10);
	if (r->attributes_len)
		json__raw(&w->j, r->attributes, r->attributes_len);
	if (!it->request_unfinished)
		put_args(w, it->ev);
	json__end_array(&w->j);
	if (it->first_ns != UINT64_MAX)
		put_first_output(w, start + it->first_ns);
	if (r->n_links)
		put_links(w, r);
	json__end_object(&w->j);
}

const struct buf *ot_writer__span(struct ot_writer *w)
{
	return w->j.err || buf__error(&w->j.b) ? NULL : &w->j.b;
}

int ot_writer__keep_attributes(struct ot_writer *w, const struct event *ev, struct ot_request *r)
{
	w->j.b.len = 0;
	w->j.comma = false;
	put_args(w, ev);
	if (!ot_writer__span(w))
		return -ENOMEM;
	if (!w->j.b.len)
		return 0;
	r->attributes = malloc(w->j.b.len);
	if (!r->attributes)
		return -ENOMEM;
	memcpy(r->attributes, w->j.b.data, w->j.b.len);
	r->attributes_len = w->j.b.len;
	return 0;
}

/* --- bodies ------------------------------------------------------------------------------------------ */

static void put_resource(const struct ot_writer *w, struct json *j, const struct track *t)
{
	const struct recording_meta *m = recording__meta(session__recording(w->s));
	const struct process_info *p = t->proc;
	struct buf name = { 0 };

	json__key(j, "resource");
	json__object(j);
	json__key(j, "attributes");
	json__array(j);
	if (p->label && *p->label)
		text__append_printable(&name, p->label, strlen(p->label));
	else
		stacks__process_name(&name, t);
	if (!buf__error(&name))
		attr_str(j, "service.name", (const char *)name.data, name.len);
	buf__free(&name);
	attr_u64(j, "process.pid", t->pid);
	attr_u64(j, "process.parent_pid", p->ppid);
	attr_cstr(j, "process.executable.path", p->exe);
	attr_cstr(j, "process.command_line", p->cmdline);
	attr_cstr(j, "container.id", p->container);
	attr_cstr(j, "process.linux.cgroup", p->cgroup);
	attr_cstr(j, "host.name", m->host);
	attr_cstr(j, "host.arch", m->arch);
	attr_cstr(j, "os.type", "linux");
	attr_cstr(j, "os.version", m->kernel);
	if (w->no_clock)
		attr_cstr(j, "clika.clock", "unknown: times count from the begin of the recording");
	json__end_array(j);
	json__end_object(j);
}

void ot_writer__body(struct ot_writer *w, struct buf *out, const struct track *t,
		     const struct buf *spans)
{
	const struct recording_meta *m = recording__meta(session__recording(w->s));
	struct json j;

	json__init(&j, NULL);
	json__object(&j);
	json__key(&j, "resourceSpans");
	json__array(&j);
	json__object(&j);
	put_resource(w, &j, t);
	json__key(&j, "scopeSpans");
	json__array(&j);
	json__object(&j);
	json__key(&j, "scope");
	json__object(&j);
	json__key(&j, "name");
	json__cstr(&j, "clika-bpf-prof");
	json__key(&j, "version");
	json__cstr(&j, m->version ? m->version : "");
	json__end_object(&j);
	json__key(&j, "spans");
	json__array(&j);
	json__raw(&j, (const char *)spans->data, spans->len);
	json__end_array(&j);
	json__end_object(&j);
	json__end_array(&j);
	json__end_object(&j);
	json__end_array(&j);
	json__end_object(&j);
	buf__append(out, j.b.data, j.b.len);
	out->failed |= j.err || buf__error(&j.b);
	json__free(&j);
}

/* --- the writer --------------------------------------------------------------------------------------- */

static uint64_t seed_of(const struct session *s, const struct recording_meta *m)
{
	uint64_t seed = hash__mix(m->created_realtime, session__origin(s));

	if (m->machine_id)
		seed = hash__bytes(m->machine_id, strlen(m->machine_id), seed);
	if (m->host)
		seed = hash__bytes(m->host, strlen(m->host), seed);
	return seed;
}

int ot_writer__init(struct ot_writer *w, const struct session *s, const struct export_opts *o)
{
	const struct recording_meta *m = recording__meta(session__recording(s));

	w->s = s;
	w->args = o->stack_args;
	w->seed = seed_of(s, m);
	w->realtime = m->created_realtime;
	json__init(&w->j, NULL);
	w->threads = calloc(session__n_tracks(s) + 1, sizeof(*w->threads));
	if (!w->threads)
		return -ENOMEM;
	w->no_clock = !w->realtime && !session__realtime(s, session__end(s));
	return json_names__init(&w->names, s);
}

void ot_writer__free(struct ot_writer *w)
{
	size_t i;

	for (i = 0; w->threads && i < session__n_tracks(w->s); i++)
		buf__free(&w->threads[i]);
	free(w->threads);
	json_names__free(&w->names);
	json__free(&w->j);
}
