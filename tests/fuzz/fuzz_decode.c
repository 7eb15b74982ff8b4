// SPDX-License-Identifier: Apache-2.0
/* Ring records whose every byte is made up: a hostile target writes the batches. */
#include <stdint.h>
#include <string.h>

#include <stdlib.h>

#define CLIKA_ABI_ONLY
#include <clika/markers.h>

#include "tests/common/decode_bench.c"
#include "user/probe/files_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char recipe_text[] =
	"{ \"recipe\": 1, \"name\": \"t\", \"libraries\": [ { \"id\": \"a\", \"file\": \"*\" } ],"
	"  \"functions\": ["
	"  { \"match\": \"a\", \"name\": [ { \"if\": { \"arg\": \"n\", \"gt\": 1 }, \"text\": "
	"\"{t} of {n}\" }, \"{s}{f}\" ], \"args\": ["
	"    { \"name\": \"n\", \"from\": \"arg0\", \"type\": \"i8\", \"values\": { \"3\": \"x\" } "
	"},"
	"    { \"name\": \"t\", \"from\": \"arg1\", \"type\": \"string\" },"
	"    { \"name\": \"s\", \"from\": \"arg2\", \"path\": [0], \"type\": \"counted\", "
	"\"element\": "
	"\"i8\", \"count\": 64 },"
	"    { \"name\": \"f\", \"from\": \"arg2\", \"path\": [0], \"type\": \"array\", "
	"\"element\": "
	"\"f64\", \"count\": 8, \"positive\": true },"
	"    { \"name\": \"c\", \"from\": \"arg3\", \"path\": [0], \"type\": \"chars\", \"count\": "
	"9 },"
	"    { \"name\": \"r\", \"from\": \"return\", \"type\": \"pointer\" } ],"
	"    \"does\": [ { \"what\": \"alloc\", \"address\": \"r\", \"bytes\": \"n\" },"
	"      { \"what\": \"counter\", \"name\": \"{c}\", \"value\": \"n\" } ] },"
	"  { \"match\": \"b\", \"span\": false, \"args\": ["
	"    { \"name\": \"i\", \"from\": \"arg0\", \"type\": \"u64\" } ],"
	"    \"does\": [ { \"what\": \"request_begin\", \"id\": \"i\" },"
	"      { \"what\": \"request_output\", \"id\": \"i\", \"when\": \"return\" } ] },"
	"  { \"match\": \"c\", \"args\": ["
	"    { \"name\": \"i\", \"from\": \"arg0\", \"type\": \"u64\" },"
	"    { \"name\": \"l\", \"from\": \"arg1\", \"type\": \"string\", \"at\": \"return\" } ],"
	"    \"does\": [ { \"what\": \"request_end\", \"id\": \"i\" },"
	"      { \"what\": \"async_begin\", \"name\": \"q\", \"id\": \"i\" },"
	"      { \"what\": \"free\", \"address\": \"i\" } ] } ] }";

/* What attaching would do, and a function that no recipe knows. */
static void add_functions(struct files *f)
{
	static struct func_kind kinds[3];
	static struct recipe *r;
	static const int64_t layouts[1];
	static const bool known[1];
	struct clika_error err;
	struct fetch_plan plan;

	if (!r) {
		if (recipe__parse(recipe_text, strlen(recipe_text), "t", &r, &err) ||
		    r->n_functions != ARRAY_SIZE(kinds))
			abort();
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
			fetch__plan(&r->functions[i], 62, layouts, known, &plan);
			kinds[i].recipe = r;
			kinds[i].rule = &r->functions[i];
			memcpy(kinds[i].args, plan.args, sizeof(plan.args));
			kinds[i].returns = plan.returns;
		}
	}
	f->funcs = calloc(ARRAY_SIZE(kinds) + 1, sizeof(*f->funcs));
	for (size_t i = 0; i <= ARRAY_SIZE(kinds); i++) {
		struct func_probe *p = &f->funcs[f->n_funcs++];

		p->kind = i < ARRAY_SIZE(kinds) ? &kinds[i] : NULL;
		p->name = strdup(p->kind ? p->kind->rule->names[0].text : "plain");
		if (!p->kind || p->kind->rule->n_names < 2)
			continue;
		p->names = calloc(p->kind->rule->n_names, sizeof(*p->names));
		for (unsigned n = 0; n < p->kind->rule->n_names; n++)
			p->names[n] = strdup(p->kind->rule->names[n].text);
	}
}

/* Calls of functions that are there, with numbers of values that a record can have half of the time. */
static void tame_call(struct wire_call_data *w)
{
	w->call.task.aux %= 5;
	w->call.task.tid %= 4;
	w->call.task.tgid %= 2;
	w->call.task.start = w->call.task.tstart = 1;
	w->call.sp %= 1 << 12;
	if (w->pad[0] & 1) {
		w->n %= WIRE_FETCHES + 1;
		w->texts %= WIRE_FETCH_TEXTS + 1;
	}
	for (unsigned i = 0; i < WIRE_FETCHES; i++)
		if (w->pad[0] & (2u << i))
			w->vals[i] %= WIRE_FETCH_BYTES + 4;
}

/* A marker of each kind, the second half with typed arguments; and somebody else's. */
static void add_hits(struct files *f)
{
	enum { KINDS = CLIKA_REC_CAPTURE_END + 1, N = 2 * KINDS + 1 };

	f->hits = calloc(N, sizeof(*f->hits));
	for (unsigned i = 0; i < N; i++) {
		struct hit_site *h = &f->hits[f->n_hits++];

		h->role = i < 2 * KINDS ? ROLE_MARKER : ROLE_USDT;
		h->rec_kind = i % KINDS < CLIKA_REC_BEGIN ? CLIKA_REC_BEGIN : (uint8_t)(i % KINDS);
		h->with_args = i >= KINDS;
		h->provider = strdup("somebody");
		h->name = strdup("else");
		h->n_args = WIRE_MAX_ARGS;
		h->str_mask = 5;
		h->literals_vaddr = 4096;
	}
}

/* A record whose parts fit half of the time. */
static void tame_hit(const struct files *f, struct wire_hit *w)
{
	static const uint8_t rooms[] = { 0, 2, 4, WIRE_MAX_ARGS };

	w->site %= (uint32_t)f->n_hits;
	w->task.tid %= 4;
	w->task.tgid %= 2;
	w->task.start = w->task.tstart = 1;
	if (!(w->n_args & 1))
		return;
	w->room = rooms[w->room % 4];
	w->n_vals %= (uint8_t)(w->room + 1);
	w->n_texts %= 4;
	w->n_args %= 9;
}

/* The input is a row of (kind, length, bytes); the header is made whole so that bodies are reached. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static union {
		struct wire_hdr hdr;
		uint8_t bytes[16384];
	} rec;
	struct decode_bench b;
	uint64_t pass = 0;

	if (decode_bench__open(&b, 1000, size & 1))
		return 0;
	add_functions(b.files);
	add_hits(b.files);
	while (size >= 4) {
		uint8_t kind = data[0] % (W_KIND_COUNT + 1);
		size_t len = (data[1] | data[2] << 8) % (sizeof(rec) - sizeof(rec.hdr));

		data += 3;
		size -= 3;
		if (len > size)
			len = size;
		memset(&rec, 0, sizeof(rec));
		memcpy(rec.bytes + sizeof(rec.hdr), data, len);
		rec.hdr.kind = kind;
		rec.hdr.size = sizeof(rec.hdr) + len;
		rec.hdr.ts = 2000 + pass;
		rec.hdr.flags = data[0];
		if (kind == W_CALL_DATA || kind == W_RETURN_DATA || kind == W_CALL ||
		    kind == W_RETURN)
			tame_call((struct wire_call_data *)(void *)rec.bytes);
		if (kind == W_HIT)
			tame_hit(b.files, (struct wire_hit *)(void *)rec.bytes);
		decoder__record(b.d, &rec, sizeof(rec.hdr) + len, ++pass);
		data += len;
		size -= len;
	}
	people__reap(b.people, pass);
	decode_bench__finish(&b);
	decode_bench__close(&b);
	return 0;
}
