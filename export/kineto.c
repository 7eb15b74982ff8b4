// SPDX-License-Identifier: Apache-2.0
/*
 * Trace events as PyTorch's profiler library writes them, for tools that read its files: spans are
 * cpu_op rows, calls of a device's runtime API cuda_runtime or cuda_driver rows, requests
 * user_annotation rows, memory instants. What those tools have no row for lies in categories of
 * ours, which they pass over.
 */
#include "export/args.h"
#include "export/chrome_meta.h"
#include "export/exporter.h"
#include "export/json_names.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows of async spans and requests are threads with numbers above those of trace_ids. */
#define LANE_TIDS 1000000000u
#define MAX_DIMS 16

struct kineto {
	struct session *s;
	struct json j;
	struct json_names names;
	struct trace_ids ids;
	struct map64 *lanes; /* keys of those that have a name */
	char *step;          /* glob: spans that are steps */
	uint64_t base, n_steps, n_arrows, n_events, not_finite;
	bool args;
};

static void pair_str(struct json *j, const char *key, const char *value)
{
	json__key(j, key);
	json__cstr(j, value);
}

static void pair_u64(struct json *j, const char *key, uint64_t value)
{
	json__key(j, key);
	json__u64(j, value);
}

static void pair_i64(struct json *j, const char *key, int64_t value)
{
	json__key(j, key);
	json__i64(j, value);
}

static void event_open(struct kineto *k, const char *ph, const char *cat, uint64_t ts)
{
	json__line(&k->j);
	json__object(&k->j);
	pair_str(&k->j, "ph", ph);
	if (cat)
		pair_str(&k->j, "cat", cat);
	json__key(&k->j, "ts");
	json__us(&k->j, ts - k->base);
}

static void put_who(struct kineto *k, const struct track *t, uint64_t lane)
{
	pair_u64(&k->j, "pid", k->ids.pid[t->index]);
	pair_u64(&k->j, "tid", lane ? LANE_TIDS + lane : k->ids.tid[t->index]);
}

static void put_dur(struct kineto *k, uint64_t dur)
{
	json__key(&k->j, "dur");
	json__us(&k->j, dur);
}

static void put_name(struct kineto *k, uint32_t id)
{
	json__key(&k->j, "name");
	json_names__put(&k->names, &k->j, id);
}

/* --- arguments -------------------------------------------------------------------------------------- */

/* "2x16x28x28" as its numbers; 0 when it is no such text. */
static size_t parse_dims(const char *s, size_t len, uint64_t *dims)
{
	size_t i = 0, n = 0, digits;

	while (n < MAX_DIMS) {
		dims[n] = 0;
		for (digits = 0; i < len && isdigit((unsigned char)s[i]) && digits < 18; digits++)
			dims[n] = dims[n] * 10 + (uint64_t)(s[i++] - '0');
		if (!digits)
			return 0;
		n++;
		if (i == len)
			return n;
		if (s[i++] != 'x')
			return 0;
	}
	return 0;
}

static void put_dims(struct kineto *k, const struct event *ev)
{
	uint64_t dims[MAX_DIMS];
	const struct event_arg *a;
	size_t i, d, n;

	for (i = 0; i < ev->nargs; i++) {
		a = &ev->args[i];
		if (a->type != ARG_STR || strcmp(session__str(k->s, a->key), "shape"))
			continue;
		n = parse_dims(a->str, a->len, dims);
		if (!n)
			continue;
		json__key(&k->j, "Input Dims");
		json__array(&k->j);
		json__array(&k->j);
		for (d = 0; d < n; d++)
			json__u64(&k->j, dims[d]);
		json__end_array(&k->j);
		json__end_array(&k->j);
		return;
	}
}

static void put_key(struct kineto *k, uint32_t key)
{
	const char *name = session__str(k->s, key);
	struct buf b = { 0 };

	if (!args__is_reserved(name)) {
		json_names__key(&k->names, &k->j, key);
		return;
	}
	buf__printf(&b, "arg.%s", name);
	if (buf__error(&b))
		k->j.err = k->j.err ? k->j.err : -ENOMEM;
	else
		json__key_str(&k->j, (const char *)b.data, b.len);
	buf__free(&b);
}

static void put_args(struct kineto *k, const struct event *ev)
{
	const struct event_arg *a;
	size_t i;

	if (!k->args)
		return;
	put_dims(k, ev);
	for (i = 0; i < ev->nargs; i++) {
		a = &ev->args[i];
		if (!args__is_newest(ev, i))
			continue;
		put_key(k, a->key);
		if (a->type == ARG_I64)
			json__i64(&k->j, a->i);
		else if (a->type == ARG_U64)
			json__u64(&k->j, a->u);
		else if (a->type == ARG_F64)
			json__f64(&k->j, a->f);
		else
			json__str(&k->j, a->str, a->len);
	}
}

/* --- rows ------------------------------------------------------------------------------------------- */

/* Function probes on a device's runtime carry the names that readers look for. */
static const char *span_category(const struct kineto *k, const struct event *ev)
{
	const char *name;

	if (!(ev->flags & EVS_FUNCTION))
		return "cpu_op";
	name = session__str(k->s, ev->name);
	if (!strncmp(name, "cuda", 4) || !strncmp(name, "hip", 3))
		return "cuda_runtime";
	if (name[0] == 'c' && name[1] == 'u' && isupper((unsigned char)name[2]))
		return "cuda_driver";
	return "cpu_op";
}

static void put_step(struct kineto *k, const struct item *it)
{
	char name[48];

	snprintf(name, sizeof(name), "ProfilerStep#%llu", (unsigned long long)k->n_steps++);
	event_open(k, "X", "user_annotation", it->ts);
	put_dur(k, it->ev->dur);
	put_who(k, it->track, 0);
	pair_str(&k->j, "name", name);
	json__key(&k->j, "args");
	json__object(&k->j);
	pair_u64(&k->j, "Ev Idx", k->n_events++);
	json__end_object(&k->j);
	json__end_object(&k->j);
}

static int kineto__span(struct kineto *k, const struct item *it)
{
	const struct event *ev = it->ev;
	const char *cat = span_category(k, ev);
	struct buf flags = { 0 };

	if (k->step && text__glob(k->step, session__str(k->s, ev->name)))
		put_step(k, it);
	event_open(k, "X", cat, it->ts);
	put_dur(k, ev->dur);
	put_who(k, it->track, 0);
	put_name(k, ev->name);
	json__key(&k->j, "args");
	json__object(&k->j);
	pair_u64(&k->j, "External id", it->span->seq);
	pair_u64(&k->j, "Ev Idx", k->n_events++);
	if (*cat != 'c' || cat[1] != 'p')
		pair_u64(&k->j, "correlation", it->span->seq);
	put_args(k, ev);
	if (ev->cat) {
		json__key(&k->j, "clika.category");
		json_names__put(&k->names, &k->j, ev->cat);
	}
	if (ev->src && k->args) {
		json__key(&k->j, "clika.source");
		json_names__put(&k->names, &k->j, ev->src);
	}
	args__flags(&flags, it->span);
	if (flags.len) {
		json__key(&k->j, "clika.flags");
		json__str(&k->j, (const char *)flags.data, flags.len);
	}
	buf__free(&flags);
	json__end_object(&k->j);
	json__end_object(&k->j);
	return k->j.err;
}

static int name_lane(struct kineto *k, const struct item *it, uint32_t name, const char *what)
{
	const char *text = session__str(k->s, name);
	struct buf b = { 0 };

	if (map64__get(k->lanes, it->lane_key))
		return 0;
	if (!map64__put(k->lanes, it->lane_key, 1))
		return -ENOMEM;
	buf__printf(&b, "%s ", what);
	buf__append(&b, text, strpool__len(session__names(k->s), name));
	buf__printf(&b, " (%u)", it->lane);
	event_open(k, "M", NULL, k->base);
	pair_str(&k->j, "name", "thread_name");
	put_who(k, it->track, it->lane_key);
	json__key(&k->j, "args");
	json__object(&k->j);
	json__key(&k->j, "name");
	json__str(&k->j, (const char *)b.data, b.len);
	json__end_object(&k->j);
	json__end_object(&k->j);
	k->j.err = k->j.err ? k->j.err : buf__error(&b);
	buf__free(&b);
	return k->j.err;
}

/* A lane holds one async span or request at a time, so complete events on it never cross. */
static void lane_open(struct kineto *k, const struct item *it, const char *cat, uint32_t name,
		      uint64_t begin)
{
	event_open(k, "X", cat, begin);
	put_dur(k, it->ts - begin);
	put_who(k, it->track, it->lane_key);
	put_name(k, name);
	json__key(&k->j, "args");
	json__object(&k->j);
	pair_u64(&k->j, "Ev Idx", k->n_events++);
	pair_u64(&k->j, "clika.id", it->ev->id);
}

static int lane_close(struct kineto *k, const struct item *it, bool unfinished)
{
	if (!unfinished)
		put_args(k, it->ev);
	if (unfinished)
		pair_str(&k->j, "clika.flags", "unfinished");
	json__end_object(&k->j);
	json__end_object(&k->j);
	return k->j.err;
}

static int kineto__async(struct kineto *k, const struct item *it)
{
	int err = name_lane(k, it, it->async_begin->name, "async");

	if (err)
		return err;
	lane_open(k, it, "clika.async", it->async_begin->name, it->begin_ts);
	return lane_close(k, it, it->async_flags & EVS_UNFINISHED);
}

static int kineto__request(struct kineto *k, const struct item *it)
{
	int err;

	if (it->ev->kind != EV_REQUEST_END || !it->lane_key)
		return 0;
	err = name_lane(k, it, it->request_name, "requests");
	if (err)
		return err;
	lane_open(k, it, "user_annotation", it->request_name, it->ts - it->since_begin_ns);
	pair_u64(&k->j, "clika.units", it->units);
	if (it->first_ns != UINT64_MAX)
		pair_u64(&k->j, "clika.first_output_ns", it->first_ns);
	return lane_close(k, it, it->request_unfinished);
}

static int kineto__memory(struct kineto *k, const struct item *it)
{
	int64_t bytes = it->bytes > INT64_MAX ? INT64_MAX : (int64_t)it->bytes;
	uint32_t device = it->ev->aux;

	if (it->ev->kind != EV_ALLOC && it->ev->kind != EV_FREE)
		return 0;
	event_open(k, "i", "cpu_instant_event", it->ts);
	pair_str(&k->j, "s", "t");
	put_who(k, it->track, 0);
	pair_str(&k->j, "name", "[memory]");
	json__key(&k->j, "args");
	json__object(&k->j);
	pair_i64(&k->j, "Total Reserved", it->reserved);
	pair_i64(&k->j, "Total Allocated", it->current);
	pair_i64(&k->j, "Bytes", it->ev->kind == EV_ALLOC ? bytes : -bytes);
	pair_u64(&k->j, "Addr", it->ev->id);
	/* Markers count devices from 1 and call the host 0; here the host is type 0, number -1. */
	pair_i64(&k->j, "Device Id", (int64_t)device - 1);
	pair_u64(&k->j, "Device Type", device > 0);
	pair_u64(&k->j, "Ev Idx", k->n_events++);
	json__end_object(&k->j);
	json__end_object(&k->j);
	return k->j.err;
}

static void arrow_end(struct kineto *k, const char *ph, const struct track *t, uint64_t ts)
{
	event_open(k, ph, "ac2g", ts);
	if (*ph == 'f')
		pair_str(&k->j, "bp", "e");
	pair_u64(&k->j, "id", k->n_arrows);
	put_who(k, t, 0);
	pair_str(&k->j, "name", "ac2g");
	json__end_object(&k->j);
}

static int kineto__flow(struct kineto *k, const struct item *it)
{
	if (!it->flow_arrow)
		return 0;
	k->n_arrows++;
	arrow_end(k, "s", it->flow_from, it->flow_from_ts);
	arrow_end(k, "f", it->track, it->ts);
	return k->j.err;
}

static int kineto__counter(struct kineto *k, const struct item *it)
{
	double f;

	memcpy(&f, &it->ev->value, sizeof(f));
	if (it->ev->kind == EV_COUNTER_F64 && !isfinite(f)) {
		k->not_finite++;
		return 0;
	}
	event_open(k, "C", NULL, it->ts);
	put_who(k, it->track, 0);
	put_name(k, it->ev->name);
	json__key(&k->j, "args");
	json__object(&k->j);
	json__key(&k->j, "value");
	if (it->ev->kind == EV_COUNTER_F64)
		json__f64(&k->j, f);
	else
		json__i64(&k->j, (int64_t)it->ev->value);
	json__end_object(&k->j);
	json__end_object(&k->j);
	return k->j.err;
}

static int kineto__event(struct kineto *k, const struct item *it)
{
	if (it->ev->kind == EV_COUNTER_I64 || it->ev->kind == EV_COUNTER_F64)
		return kineto__counter(k, it);
	if (it->ev->kind != EV_INSTANT)
		return 0;
	event_open(k, "i", "clika.instant", it->ts);
	pair_str(&k->j, "s", "t");
	put_who(k, it->track, 0);
	put_name(k, it->ev->name);
	json__key(&k->j, "args");
	json__object(&k->j);
	put_args(k, it->ev);
	json__end_object(&k->j);
	json__end_object(&k->j);
	return k->j.err;
}

static int kineto__item(void *state, const struct item *it)
{
	struct kineto *k = state;

	switch (it->kind) {
	case IT_SPAN_BEGIN:
		return kineto__span(k, it);
	case IT_EVENT:
		return kineto__event(k, it);
	case IT_ASYNC_END:
		return kineto__async(k, it);
	case IT_FLOW:
		return kineto__flow(k, it);
	case IT_MEMORY:
		return kineto__memory(k, it);
	case IT_REQUEST:
		return kineto__request(k, it);
	case IT_SPAN_END:
	case IT_ASYNC_BEGIN:
		break;
	}
	return 0;
}

/* --- head and tail ------------------------------------------------------------------------------------ */

static void put_head(struct kineto *k)
{
	uint64_t realtime = session__realtime(k->s, k->base);
	const struct recording_meta *m = recording__meta(session__recording(k->s));

	json__object(&k->j);
	pair_u64(&k->j, "schemaVersion", 1);
	json__key(&k->j, "deviceProperties");
	json__array(&k->j);
	json__end_array(&k->j);
	json__key(&k->j, "distributedInfo");
	json__object(&k->j);
	pair_str(&k->j, "backend", "");
	pair_u64(&k->j, "rank", 0);
	pair_u64(&k->j, "world_size", 1);
	json__end_object(&k->j);
	pair_str(&k->j, "displayTimeUnit", "ms");
	pair_u64(&k->j, "baseTimeNanoseconds", realtime);
	pair_str(&k->j, "hostname", m->host);
	json__key(&k->j, "traceEvents");
	json__array(&k->j);
	chrome_meta__names(&k->j, k->s, &k->ids);
}

static void put_frame_event(struct kineto *k, const char *name, uint64_t ts)
{
	size_t i;

	for (i = 0; i < k->ids.n && !session__track(k->s, i)->used; i++)
		;
	if (i == k->ids.n)
		return;
	event_open(k, "i", NULL, ts);
	pair_str(&k->j, "s", "g");
	put_who(k, session__track(k->s, i), 0);
	pair_str(&k->j, "name", name);
	json__end_object(&k->j);
}

static int kineto__close(void *state, struct clika_error *err)
{
	struct kineto *k = state;

	(void)err;
	chrome_meta__loss_event(&k->j, k->s, &k->ids, session__end(k->s) - k->base);
	put_frame_event(k, "Record Window End", session__end(k->s));
	json__end_array(&k->j);
	pair_str(&k->j, "traceName", "kineto.pt.trace.json");
	json__key(&k->j, "clika");
	chrome_meta__tail(&k->j, k->s, &k->ids, k->not_finite);
	json__end_object(&k->j);
	return json__flush(&k->j);
}

static void kineto__free(void *state)
{
	struct kineto *k = state;

	json_names__free(&k->names);
	trace_ids__free(&k->ids);
	map64__free(k->lanes);
	free(k->step);
	json__free(&k->j);
	free(k);
}

static int kineto__open(struct session *s, struct outfile *out, const struct export_opts *o,
			void **state, struct clika_error *err)
{
	struct kineto *k = calloc(1, sizeof(*k));

	if (!k)
		return error__set(err, -ENOMEM, "out of memory");
	*state = k;
	k->s = s;
	k->args = o->stack_args;
	k->base = session__origin(s);
	json__init(&k->j, out);
	k->lanes = map64__new();
	k->step = o->step_name ? strdup(o->step_name) : NULL;
	if (!k->lanes || (o->step_name && !k->step) || json_names__init(&k->names, s) ||
	    trace_ids__init(&k->ids, s))
		return error__set(err, -ENOMEM, "out of memory");
	put_head(k);
	put_frame_event(k, "Iteration Start: clika-bpf-prof", session__begin(s));
	return k->j.err;
}

const struct exporter_ops exporter_kineto = {
	.format = "kineto",
	.file = "kineto.pt.trace.json",
	.summary = "trace events in PyTorch's flavour: for tools that read Kineto traces",
	.open = kineto__open,
	.item = kineto__item,
	.close = kineto__close,
	.free = kineto__free,
};
