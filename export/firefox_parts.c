// SPDX-License-Identifier: Apache-2.0
#include "export/firefox_parts.h"

#include "export/digits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CATEGORIES 64

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

static void pair_bool(struct json *j, const char *key, bool value)
{
	json__key(j, key);
	json__bool(j, value);
}

void firefox__ms(struct json *j, uint64_t ns)
{
	char text[32], *end = text + sizeof(text), *p;

	p = digits__padded(end, ns % 1000000, 6);
	*--p = '.';
	p = digits__u64(p, ns / 1000000);
	json__raw(j, p, (size_t)(end - p));
}

/* --- strings ---------------------------------------------------------------------------------------- */

uint32_t firefox__string(struct firefox *f, uint32_t id, enum string_part part)
{
	uint64_t key = (uint64_t)id << 2 | part, *at = map64__get(f->string_at, key), *bigger;

	if (at)
		return (uint32_t)*at;
	if (f->n_strings == f->cap_strings) {
		size_t cap = f->cap_strings ? f->cap_strings * 2 : 64;

		bigger = realloc(f->strings, cap * sizeof(*bigger));
		if (!bigger)
			goto fail;
		f->strings = bigger;
		f->cap_strings = cap;
	}
	if (!map64__put(f->string_at, key, f->n_strings))
		goto fail;
	f->strings[f->n_strings] = key;
	return (uint32_t)f->n_strings++;
fail:
	f->j.err = f->j.err ? f->j.err : -ENOMEM;
	return 0;
}

void firefox__string_array(struct firefox *f)
{
	const char *s;
	uint32_t id;
	size_t i, len;

	json__key(&f->j, "stringArray");
	json__array(&f->j);
	for (i = 0; i < f->n_strings; i++) {
		id = (uint32_t)(f->strings[i] >> 2);
		s = session__str(f->s, id);
		len = strpool__len(session__names(f->s), id);
		if ((f->strings[i] & 3) == STRING_FILE)
			stacks__line(s, &len);
		else if ((f->strings[i] & 3) == STRING_MORE)
			s = stack_frames__name(&f->st.frames, f->s, 0, &len);
		json__str(&f->j, s, len);
	}
	json__end_array(&f->j);
	f->n_strings = 0;
	map64__clear(f->string_at);
}

/* --- metadata --------------------------------------------------------------------------------------- */

/* 0 is for what has none. Later ones share the last. */
uint32_t firefox__category(struct firefox *f, uint32_t cat)
{
	size_t n = map64__count(f->category_of) + 1;
	uint64_t *at;

	if (!cat)
		return 0;
	at = map64__get(f->category_of, cat);
	if (!at && f->categories_written)
		return 0;
	if (!at && n >= MAX_CATEGORIES)
		return MAX_CATEGORIES - 1;
	if (!at)
		at = map64__put(f->category_of, cat, n);
	if (!at)
		f->j.err = f->j.err ? f->j.err : -ENOMEM;
	return at ? (uint32_t)*at : 0;
}

static void put_category(struct json *j, const char *name, size_t len, const char *colour)
{
	json__object(j);
	json__key(j, "name");
	json__str(j, name, len);
	pair_str(j, "color", colour);
	json__key(j, "subcategories");
	json__array(j);
	json__cstr(j, "Other");
	json__end_array(j);
	json__end_object(j);
}

static void put_categories(struct firefox *f)
{
	static const char *const colours[] = { "blue",   "green",   "orange", "purple", "lightblue",
					       "yellow", "magenta", "brown",  "red" };
	uint32_t by_number[MAX_CATEGORIES] = { 0 };
	uint64_t key, *value;
	size_t it = 0, i, n;

	/* Those of stacks are numbered in their order; those of markers alone come to "Other". */
	for (i = 0; i < f->st.frames.n; i++)
		firefox__category(f, f->st.frames.of[i].cat);
	n = map64__count(f->category_of) + 1;
	while (map64__next(f->category_of, &it, &key, &value))
		by_number[*value] = (uint32_t)key;
	json__key(&f->j, "categories");
	json__array(&f->j);
	put_category(&f->j, "Other", 5, "grey");
	for (i = 1; i < n; i++)
		put_category(&f->j, session__str(f->s, by_number[i]),
			     strpool__len(session__names(f->s), by_number[i]),
			     colours[(i - 1) % ARRAY_SIZE(colours)]);
	json__end_array(&f->j);
	f->categories_written = true;
}

static const char *const schemas[][2] = {
	[MARK_SPAN] = { "Span", "{marker.name} {marker.data.details}" },
	[MARK_INSTANT] = { "Instant", "{marker.name} {marker.data.details}" },
	[MARK_ASYNC] = { "Async", "{marker.name} {marker.data.details}" },
	[MARK_REQUEST] = { "Request", "{marker.name} {marker.data.details}" },
};

static void put_schemas(struct json *j)
{
	size_t i;

	json__key(j, "markerSchema");
	json__array(j);
	for (i = 0; i < ARRAY_SIZE(schemas); i++) {
		json__object(j);
		pair_str(j, "name", schemas[i][0]);
		pair_str(j, "tooltipLabel", "{marker.name}");
		pair_str(j, "tableLabel", schemas[i][1]);
		pair_str(j, "chartLabel", "{marker.name}");
		json__key(j, "display");
		json__array(j);
		json__cstr(j, "marker-chart");
		json__cstr(j, "marker-table");
		json__end_array(j);
		json__key(j, "fields");
		json__array(j);
		json__object(j);
		pair_str(j, "key", "details");
		pair_str(j, "label", "Details");
		pair_str(j, "format", "string");
		json__end_object(j);
		json__end_array(j);
		json__end_object(j);
	}
	json__end_array(j);
}

void firefox__marker_data(struct json *j, const struct marker *m)
{
	json__object(j);
	pair_str(j, "type", schemas[m->kind][0]);
	if (m->len) {
		json__key(j, "details");
		json__str(j, m->text, m->len);
	}
	json__end_object(j);
}

/* Readers tell the format by the first key. */
void firefox__meta(struct firefox *f)
{
	const struct recording_meta *m = recording__meta(session__recording(f->s));
	struct json *j = &f->j;

	json__key(j, "meta");
	json__object(j);
	json__key(j, "interval");
	json__raw(j, "0.001", 5);
	json__key(j, "startTime");
	firefox__ms(j, session__realtime(f->s, f->base));
	json__key(j, "endTime");
	json__null(j);
	pair_u64(j, "processType", 0);
	pair_str(j, "product", m->targets && *m->targets ? m->targets : "clika-bpf-prof");
	pair_str(j, "importedFrom", m->tool ? m->tool : "clika-bpf-prof");
	pair_u64(j, "stackwalk", 1);
	pair_u64(j, "debug", 0);
	pair_u64(j, "version", 24);
	pair_u64(j, "preprocessedProfileVersion", 55);
	pair_bool(j, "symbolicated", true);
	pair_bool(j, "keepProfileThreadOrder", true);
	pair_str(j, "platform", "Linux");
	pair_str(j, "oscpu", m->kernel);
	pair_str(j, "abi", m->arch);
	pair_u64(j, "physicalCPUs", m->cpus);
	pair_u64(j, "logicalCPUs", m->cpus);
	put_categories(f);
	put_schemas(j);
	json__key(j, "sampleUnits");
	json__object(j);
	pair_str(j, "time", "ms");
	pair_str(j, "eventDelay", "ms");
	pair_str(j, "threadCPUDelta", "ns");
	json__end_object(j);
	json__end_object(j);
}

/* --- threads ----------------------------------------------------------------------------------------- */

static void pair_moment(struct firefox *f, const char *key, uint64_t boottime, bool or_begin)
{
	json__key(&f->j, key);
	if (boottime > f->base)
		firefox__ms(&f->j, boottime - f->base);
	else if (or_begin)
		json__u64(&f->j, 0);
	else
		json__null(&f->j);
}

void firefox__thread_head(struct firefox *f, const struct track *t)
{
	struct json *j = &f->j;
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", f->ids.pid[t->index]);
	pair_str(j, "processType", "default");
	pair_moment(f, "processStartupTime", t->proc->start, true);
	pair_moment(f, "processShutdownTime", t->proc->ended, false);
	pair_moment(f, "registerTime", t->info->start, true);
	pair_moment(f, "unregisterTime", t->info->ended, false);
	json__key(j, "pausedRanges");
	json__array(j);
	json__end_array(j);
	pair_str(j, "name", t->name);
	pair_bool(j, "isMainThread", t->tid == t->pid);
	pair_str(j, "processName", t->proc->comm ? t->proc->comm : "");
	pair_str(j, "pid", pid);
	pair_u64(j, "tid", f->ids.tid[t->index]);
}

static void column_open(struct firefox *f, const char *name)
{
	json__key(&f->j, name);
	json__array(&f->j);
}

/* A column that says the same in each row: "null" or a number. */
static void column_same(struct firefox *f, const char *name, const char *value, size_t n)
{
	size_t len = strlen(value);

	column_open(f, name);
	while (n--)
		json__raw(&f->j, value, len);
	json__end_array(&f->j);
}

static void table_close(struct firefox *f, size_t n)
{
	pair_u64(&f->j, "length", n);
	json__end_object(&f->j);
	json__line(&f->j);
}

static void table_open(struct firefox *f, const char *name)
{
	json__key(&f->j, name);
	json__object(&f->j);
}

struct used_frames {
	uint32_t *of; /* by number in the thread */
	size_t n;
};

static int collect_frames(struct firefox *f, const struct track *t, struct used_frames *u)
{
	const struct firefox_track *ft = &f->tracks[t->index];
	uint32_t i, frame;

	u->n = 0;
	u->of = malloc((ft->n_nodes ? ft->n_nodes : 1) * sizeof(*u->of));
	if (!u->of)
		return -ENOMEM;
	for (i = 0; i < ft->n_nodes; i++) {
		frame = f->st.nodes[f->order[ft->first_node + i]].key;
		if (f->frame_thread[frame] == t->index + 1)
			continue;
		f->frame_thread[frame] = t->index + 1;
		f->frame_local[frame] = (uint32_t)u->n;
		u->of[u->n++] = frame;
	}
	return 0;
}

static void put_stack_table(struct firefox *f, const struct track *t)
{
	const struct firefox_track *ft = &f->tracks[t->index];
	const uint32_t *order = f->order + ft->first_node;
	uint32_t i, parent;

	table_open(f, "stackTable");
	column_open(f, "frame");
	for (i = 0; i < ft->n_nodes; i++)
		json__u64(&f->j, f->frame_local[f->st.nodes[order[i]].key]);
	json__end_array(&f->j);
	column_open(f, "prefix");
	for (i = 0; i < ft->n_nodes; i++) {
		parent = f->st.nodes[order[i]].parent;
		if (f->st.nodes[parent].role == STACK_THREAD)
			json__null(&f->j);
		else
			json__u64(&f->j, f->local[parent]);
	}
	json__end_array(&f->j);
	table_close(f, ft->n_nodes);
}

static uint32_t frame_line(const struct firefox *f, uint32_t frame, size_t *file_len)
{
	return stacks__line(session__str(f->s, f->st.frames.of[frame].src), file_len);
}

static void put_lines(struct firefox *f, const char *name, const struct used_frames *u)
{
	size_t i, len;
	uint32_t line;

	column_open(f, name);
	for (i = 0; i < u->n; i++) {
		line = frame_line(f, u->of[i], &len);
		if (line)
			json__u64(&f->j, line);
		else
			json__null(&f->j);
	}
	json__end_array(&f->j);
}

static void put_frame_table(struct firefox *f, const struct used_frames *u)
{
	size_t i;

	table_open(f, "frameTable");
	column_same(f, "address", "-1", u->n);
	column_same(f, "inlineDepth", "0", u->n);
	column_open(f, "category");
	for (i = 0; i < u->n; i++)
		json__u64(&f->j, firefox__category(f, f->st.frames.of[u->of[i]].cat));
	json__end_array(&f->j);
	column_same(f, "subcategory", "0", u->n);
	column_open(f, "func");
	for (i = 0; i < u->n; i++)
		json__u64(&f->j, i);
	json__end_array(&f->j);
	column_same(f, "nativeSymbol", "null", u->n);
	column_same(f, "innerWindowID", "0", u->n);
	column_same(f, "implementation", "null", u->n);
	put_lines(f, "line", u);
	column_same(f, "column", "null", u->n);
	table_close(f, u->n);
}

static void put_func_table(struct firefox *f, const struct used_frames *u)
{
	const struct stack_frame *frame;
	size_t i, len;

	table_open(f, "funcTable");
	column_open(f, "name");
	for (i = 0; i < u->n; i++)
		json__u64(&f->j, firefox__string(f, f->st.frames.of[u->of[i]].name,
						 u->of[i] ? STRING_WHOLE : STRING_MORE));
	json__end_array(&f->j);
	column_same(f, "isJS", "false", u->n);
	column_same(f, "relevantForJS", "false", u->n);
	column_same(f, "resource", "-1", u->n);
	column_open(f, "fileName");
	for (i = 0; i < u->n; i++) {
		frame = &f->st.frames.of[u->of[i]];
		frame_line(f, u->of[i], &len);
		if (len)
			json__u64(&f->j, firefox__string(f, frame->src, STRING_FILE));
		else
			json__null(&f->j);
	}
	json__end_array(&f->j);
	put_lines(f, "lineNumber", u);
	column_same(f, "columnNumber", "null", u->n);
	table_close(f, u->n);
}

static void put_empty_table(struct firefox *f, const char *name, const char *const *columns)
{
	table_open(f, name);
	for (; *columns; columns++)
		column_same(f, *columns, "null", 0);
	table_close(f, 0);
}

int firefox__stack_tables(struct firefox *f, const struct track *t)
{
	static const char *const resources[] = { "lib", "name", "host", "type", NULL };
	static const char *const symbols[] = { "libIndex", "address", "name", "functionSize",
					       NULL };
	struct used_frames u;

	if (collect_frames(f, t, &u))
		return -ENOMEM;
	put_stack_table(f, t);
	put_frame_table(f, &u);
	put_func_table(f, &u);
	put_empty_table(f, "resourceTable", resources);
	put_empty_table(f, "nativeSymbols", symbols);
	free(u.of);
	return 0;
}
