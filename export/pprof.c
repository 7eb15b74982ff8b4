// SPDX-License-Identifier: Apache-2.0
/*
 * pprof: spans as call stacks. One sample a distinct stack and thread; allocations have samples
 * of their own, since they know a device. Each sample is packed as a profile that holds nothing
 * else: joined, such messages are one profile, so that only the sums are ever in memory.
 */
#include "export/exporter.h"
#include "export/losses.h"
#include "export/stacks.h"
#include "proto/pprof.pb-c.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_CALLS, VALUE_SELF, VALUE_WALL, VALUE_ALLOCS, VALUE_BYTES, N_VALUES };

static const char *const value_names[N_VALUES][2] = {
	[VALUE_CALLS] = { "calls", "count" },       [VALUE_SELF] = { "self", "nanoseconds" },
	[VALUE_WALL] = { "wall", "nanoseconds" },   [VALUE_ALLOCS] = { "alloc_objects", "count" },
	[VALUE_BYTES] = { "alloc_space", "bytes" },
};

static const char OUTSIDE[] = "(outside spans)";

struct taken { /* allocations of one (stack, device) */
	uint32_t node, device;
	const struct track *track;
	uint64_t allocs, bytes;
};

struct pprof {
	struct session *s;
	struct outfile *out;
	struct stacks st;
	struct strpool *strings; /* its ids are the string table's indexes */
	struct buf packed, text;
	struct taken *taken;
	size_t n_taken, cap_taken;
	struct map64 *taken_at; /* node << 32 | device -> index */
	struct map64 *devices;  /* process << 32 | device -> string id of its name */
	uint64_t *locations;    /* of one stack, leaf first */
	size_t cap_locations;
	int err;
};

static void fail(struct pprof *p, int code)
{
	if (code && !p->err)
		p->err = code;
}

/* --- strings -------------------------------------------------------------------------------------- */

static int64_t string(struct pprof *p, const char *s, size_t len)
{
	uint32_t id;

	buf__reset(&p->text);
	text__append_printable(&p->text, s, len);
	if (!p->text.len)
		return 0;
	id = strpool__id(p->strings, (const char *)p->text.data, p->text.len);
	if (!id || buf__error(&p->text))
		fail(p, -ENOMEM);
	return id;
}

static int64_t cstring(struct pprof *p, const char *s)
{
	return s ? string(p, s, strlen(s)) : 0;
}

static int64_t name_string(struct pprof *p, uint32_t id)
{
	return string(p, session__str(p->s, id), strpool__len(session__names(p->s), id));
}

/* --- messages --------------------------------------------------------------------------------------- */

static void put_part(struct pprof *p, const Pprof__Profile *part)
{
	size_t n = pprof__profile__get_packed_size(part);

	buf__reset(&p->packed);
	if (buf__reserve(&p->packed, n)) {
		fail(p, -ENOMEM);
		return;
	}
	n = pprof__profile__pack(part, p->packed.data);
	fail(p, outfile__write(p->out, p->packed.data, n));
}

static int64_t clamp(uint64_t v)
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

struct labels {
	Pprof__Label label[8];
	Pprof__Label *list[8];
	size_t n;
};

static Pprof__Label *labels__add(struct pprof *p, struct labels *l, const char *key)
{
	Pprof__Label *label = &l->label[l->n];

	pprof__label__init(label);
	label->has_key = true;
	label->key = cstring(p, key);
	l->list[l->n++] = label;
	return label;
}

static void labels__str(struct pprof *p, struct labels *l, const char *key, int64_t str)
{
	Pprof__Label *label;

	if (!str) /* an empty text and a number of 0 look the same */
		return;
	label = labels__add(p, l, key);
	label->has_str = true;
	label->str = str;
}

static void labels__num(struct pprof *p, struct labels *l, const char *key, int64_t num)
{
	Pprof__Label *label = labels__add(p, l, key);

	label->has_num = true;
	label->num = num;
}

static void labels__track(struct pprof *p, struct labels *l, const struct track *t)
{
	struct buf b = { 0 };

	labels__num(p, l, "pid", t->pid);
	labels__num(p, l, "tid", t->tid);
	stacks__process_name(&b, t);
	labels__str(p, l, "process", string(p, (const char *)b.data, b.len));
	buf__reset(&b);
	stacks__thread_name(&b, t);
	labels__str(p, l, "thread", string(p, (const char *)b.data, b.len));
	fail(p, buf__error(&b));
	buf__free(&b);
}

/* A frame's location has the number after its own; the last one is what lies outside of spans. */
static size_t stack_locations(struct pprof *p, uint32_t node)
{
	const struct stack_node *n;
	uint64_t *bigger;
	size_t count = 0;

	for (; node != STACK_NONE; node = n->parent) {
		n = &p->st.nodes[node];
		if (n->role == STACK_THREAD)
			break;
		if (count == p->cap_locations) {
			bigger = realloc(p->locations, (count ? count * 2 : 64) * sizeof(*bigger));
			if (!bigger) {
				fail(p, -ENOMEM);
				return 0;
			}
			p->locations = bigger;
			p->cap_locations = count ? count * 2 : 64;
		}
		p->locations[count++] = (uint64_t)n->key + 1;
	}
	return count;
}

static const struct track *node_track(const struct pprof *p, uint32_t node)
{
	while (p->st.nodes[node].role != STACK_THREAD)
		node = p->st.nodes[node].parent;
	return session__track(p->s, p->st.nodes[node].key);
}

static void put_sample(struct pprof *p, uint32_t node, int64_t *values, struct labels *l)
{
	Pprof__Profile part = PPROF__PROFILE__INIT;
	Pprof__Sample sample = PPROF__SAMPLE__INIT, *samples[] = { &sample };
	uint64_t outside = (uint64_t)p->st.frames.n + 1;

	sample.n_location_id = stack_locations(p, node);
	sample.location_id = p->locations;
	if (!sample.n_location_id) {
		sample.location_id = &outside;
		sample.n_location_id = 1;
	}
	sample.n_value = N_VALUES;
	sample.value = values;
	sample.n_label = l->n;
	sample.label = l->list;
	part.n_sample = 1;
	part.sample = samples;
	put_part(p, &part);
}

static void put_node(struct pprof *p, uint32_t node)
{
	const struct stack_node *n = &p->st.nodes[node];
	int64_t values[N_VALUES] = {
		[VALUE_CALLS] = clamp(n->calls),
		[VALUE_SELF] = clamp(n->self_ns),
		[VALUE_WALL] = clamp(n->wall_ns),
	};
	struct labels l = { 0 };

	if (!n->calls)
		return;
	labels__track(p, &l, node_track(p, node));
	if (n->role == STACK_SPAN)
		labels__str(p, &l, "category", name_string(p, p->st.frames.of[n->key].cat));
	put_sample(p, node, values, &l);
}

static void put_taken(struct pprof *p, const struct taken *t)
{
	int64_t values[N_VALUES] = {
		[VALUE_ALLOCS] = clamp(t->allocs),
		[VALUE_BYTES] = clamp(t->bytes),
	};
	uint64_t *name = map64__get(p->devices, (uint64_t)t->track->process << 32 | t->device);
	struct labels l = { 0 };
	struct buf b = { 0 };

	labels__track(p, &l, t->track);
	if (!name)
		buf__printf(&b, t->device ? "device %u" : "host", t->device);
	fail(p, buf__error(&b));
	labels__str(p, &l, "device",
		    name ? name_string(p, (uint32_t)*name)
			 : string(p, (const char *)b.data, b.len));
	buf__free(&b);
	put_sample(p, t->node, values, &l);
}

static void put_location(struct pprof *p, uint64_t id, const char *name, size_t len,
			 const char *src, bool mapped)
{
	Pprof__Profile part = PPROF__PROFILE__INIT;
	Pprof__Location location = PPROF__LOCATION__INIT, *locations[] = { &location };
	Pprof__Function function = PPROF__FUNCTION__INIT, *functions[] = { &function };
	Pprof__Line line = PPROF__LINE__INIT, *lines[] = { &line };
	size_t file_len;
	uint32_t number = stacks__line(src, &file_len);

	function.has_id = function.has_name = function.has_system_name = true;
	function.id = id;
	function.name = function.system_name = string(p, len ? name : "(unnamed)", len ? len : 9);
	function.has_filename = file_len > 0;
	function.filename = string(p, src, file_len);
	line.has_function_id = true;
	line.function_id = id;
	line.has_line = number > 0;
	line.line = number;
	location.has_id = true;
	location.id = id;
	location.has_mapping_id = mapped;
	location.mapping_id = mapped;
	location.n_line = 1;
	location.line = lines;
	part.n_location = part.n_function = 1;
	part.location = locations;
	part.function = functions;
	put_part(p, &part);
}

/* The program, when all of the profile is of one. */
static const char *only_program(const struct pprof *p)
{
	const struct track *t;
	const char *exe = NULL;
	size_t i;

	for (i = 0; i < session__n_tracks(p->s); i++) {
		t = session__track(p->s, i);
		if (!t->used)
			continue;
		if (!t->proc->exe || (exe && strcmp(exe, t->proc->exe)))
			return NULL;
		exe = t->proc->exe;
	}
	return exe;
}

static void put_locations(struct pprof *p)
{
	Pprof__Profile part = PPROF__PROFILE__INIT;
	Pprof__Mapping mapping = PPROF__MAPPING__INIT, *mappings[] = { &mapping };
	const char *exe = only_program(p), *name;
	uint32_t i;
	size_t len;

	if (exe) {
		mapping.has_id = mapping.has_filename = true;
		mapping.id = 1;
		mapping.filename = cstring(p, exe);
		mapping.has_has_functions = mapping.has_functions = true;
		mapping.has_has_filenames = mapping.has_filenames = true;
		mapping.has_has_line_numbers = mapping.has_line_numbers = true;
		part.n_mapping = 1;
		part.mapping = mappings;
		put_part(p, &part);
	}
	for (i = 0; i < p->st.frames.n; i++) {
		name = stack_frames__name(&p->st.frames, p->s, i, &len);
		put_location(p, (uint64_t)i + 1, name, len,
			     session__str(p->s, p->st.frames.of[i].src), exe);
	}
	put_location(p, (uint64_t)p->st.frames.n + 1, OUTSIDE, sizeof(OUTSIDE) - 1, "", exe);
}

/* --- head and tail ------------------------------------------------------------------------------------ */

static int64_t comment(struct pprof *p, const char *fmt, ...) CLIKA_PRINTF(2, 3);
static int64_t comment(struct pprof *p, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return cstring(p, text);
}

static size_t comments(struct pprof *p, int64_t *out)
{
	const struct recording *r = session__recording(p->s);
	const struct recording_meta *m = recording__meta(r);
	struct losses l;
	size_t n = 0;

	losses__sum(&l, r);
	out[n++] = comment(p, "%s %s on %s", m->tool ? m->tool : "", m->version ? m->version : "",
			   m->host ? m->host : "");
	out[n++] = comment(p, "records lost: %llu, and at most %llu more",
			   (unsigned long long)l.all_records, (unsigned long long)l.all_at_most);
	if (recording__state(r)->incomplete)
		out[n++] = comment(p, "the recorder did not finish the recording");
	return n;
}

static void put_head(struct pprof *p)
{
	Pprof__Profile head = PPROF__PROFILE__INIT;
	Pprof__ValueType types[N_VALUES], *list[N_VALUES], period = PPROF__VALUE_TYPE__INIT;
	uint64_t begin = session__begin(p->s), end = session__end(p->s);
	int64_t notes[4];
	size_t i;

	for (i = 0; i < N_VALUES; i++) {
		pprof__value_type__init(&types[i]);
		types[i].has_type = types[i].has_unit = true;
		types[i].type = cstring(p, value_names[i][0]);
		types[i].unit = cstring(p, value_names[i][1]);
		list[i] = &types[i];
	}
	period.has_type = period.has_unit = true;
	period.type = types[VALUE_SELF].type;
	period.unit = types[VALUE_SELF].unit;
	head.n_sample_type = N_VALUES;
	head.sample_type = list;
	head.period_type = &period;
	head.has_period = true;
	head.period = 1;
	head.has_default_sample_type = true;
	head.default_sample_type = types[VALUE_SELF].type;
	head.has_time_nanos = true;
	head.time_nanos = clamp(session__realtime(p->s, begin));
	head.has_duration_nanos = true;
	head.duration_nanos = clamp(end - begin);
	head.n_comment = comments(p, notes);
	head.comment = notes;
	put_part(p, &head);
}

static void put_strings(struct pprof *p)
{
	Pprof__Profile part = PPROF__PROFILE__INIT;
	ProtobufCBinaryData text;
	uint32_t i;

	part.n_string_table = 1;
	part.string_table = &text;
	for (i = 0; i <= strpool__count(p->strings) && !p->err; i++) {
		text.data = (uint8_t *)(uintptr_t)strpool__str(p->strings, i);
		text.len = strpool__len(p->strings, i);
		put_part(p, &part);
	}
}

static int pprof__close(void *state, struct clika_error *err)
{
	struct pprof *p = state;
	uint32_t i;
	size_t k;

	(void)err;
	put_head(p);
	for (i = 0; i < p->st.n && !p->err; i++)
		put_node(p, i);
	for (k = 0; k < p->n_taken && !p->err; k++)
		put_taken(p, &p->taken[k]);
	put_locations(p);
	put_strings(p);
	return p->err;
}

/* --- items ------------------------------------------------------------------------------------------- */

static int pprof__alloc(struct pprof *p, const struct item *it)
{
	uint32_t node = stacks__top(&p->st, it->track), device = it->ev->aux;
	uint64_t key = (uint64_t)node << 32 | device, *at;
	struct taken *bigger, *t;

	if (node == STACK_NONE)
		return -ENOMEM;
	at = map64__get(p->taken_at, key);
	if (!at) {
		if (p->n_taken == p->cap_taken) {
			size_t cap = p->cap_taken ? p->cap_taken * 2 : 64;

			bigger = realloc(p->taken, cap * sizeof(*bigger));
			if (!bigger)
				return -ENOMEM;
			p->taken = bigger;
			p->cap_taken = cap;
		}
		p->taken[p->n_taken] = (struct taken){ node, device, it->track, 0, 0 };
		at = map64__put(p->taken_at, key, p->n_taken++);
		if (!at)
			return -ENOMEM;
	}
	t = &p->taken[*at];
	t->allocs++;
	if (__builtin_add_overflow(t->bytes, it->ev->value, &t->bytes))
		t->bytes = UINT64_MAX;
	return 0;
}

static int pprof__item(void *state, const struct item *it)
{
	struct pprof *p = state;

	if (it->kind == IT_MEMORY && it->ev->kind == EV_ALLOC)
		return pprof__alloc(p, it);
	if (it->kind == IT_EVENT && it->ev->kind == EV_DEVICE_NAME &&
	    !map64__put(p->devices, (uint64_t)it->track->process << 32 | it->ev->aux, it->ev->name))
		return -ENOMEM;
	return stacks__item(&p->st, it);
}

static void pprof__free(void *state)
{
	struct pprof *p = state;

	stacks__free(&p->st);
	strpool__free(p->strings);
	buf__free(&p->packed);
	buf__free(&p->text);
	free(p->taken);
	free(p->locations);
	map64__free(p->taken_at);
	map64__free(p->devices);
	free(p);
}

static int pprof__open(struct session *s, struct outfile *out, const struct export_opts *o,
		       void **state, struct clika_error *err)
{
	struct pprof *p = calloc(1, sizeof(*p));

	(void)o;
	if (!p)
		return error__set(err, -ENOMEM, "out of memory");
	*state = p;
	p->s = s;
	p->out = out;
	p->strings = strpool__new(0, 0);
	p->taken_at = map64__new();
	p->devices = map64__new();
	if (!p->strings || !p->taken_at || !p->devices || stacks__init(&p->st, s, STACKS_EXACT))
		return error__set(err, -ENOMEM, "out of memory");
	return 0;
}

const struct exporter_ops exporter_pprof = {
	.format = "pprof",
	.file = "profile.pb.gz",
	.summary = "pprof profile: self and wall time, calls, allocations by stack of spans",
	.open = pprof__open,
	.item = pprof__item,
	.close = pprof__close,
	.free = pprof__free,
};
