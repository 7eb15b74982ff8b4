// SPDX-License-Identifier: Apache-2.0
/* Calls that a recipe knows: names, arguments, memory, flows and requests that come of their records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/common/decode_bench.h"
#include "user/probe/files_internal.h"
#include "user/recording/reader.h"
#include "user/stream/call.h"
#include "user/stream/decode_internal.h"

#define MS 1000000ull
#define EM_X86 62

static const char recipe_text[] =
	"{ \"recipe\": 1, \"name\": \"toy\", \"title\": \"t\", \"records\": \"r\",\n"
	"  \"libraries\": [ { \"id\": \"lib\", \"file\": [\"libtoy.so\"] } ],\n"
	"  \"functions\": [\n"
	"  { \"match\": \"decode\",\n"
	"    \"name\": [ { \"if\": {\"arg\": \"n\", \"gt\": 1}, \"text\": \"prompt of {n}\" }, { "
	"\"text\": \"step\" } ],\n"
	"    \"args\": [ { \"name\": \"ctx\", \"from\": \"arg0\", \"type\": \"pointer\", \"show\": "
	"false },\n"
	"              { \"name\": \"n\", \"from\": \"arg1\", \"type\": \"i32\" } ],\n"
	"    \"does\": [ { \"what\": \"request_begin\", \"name\": \"chat\", \"id\": \"ctx\", "
	"\"if\": {\"arg\": \"n\", \"gt\": 1} } ] },\n"
	"  { \"match\": \"sample\", \"span\": false,\n"
	"    \"args\": [ { \"name\": \"ctx\", \"from\": \"arg0\", \"type\": \"pointer\" } ],\n"
	"    \"does\": [ { \"what\": \"request_output\", \"name\": \"chat\", \"id\": \"ctx\", "
	"\"when\": \"return\" } ] },\n"
	"  { \"match\": \"get\", \"span\": false,\n"
	"    \"args\": [ { \"name\": \"bytes\", \"from\": \"arg0\", \"type\": \"u64\" },\n"
	"              { \"name\": \"at\", \"from\": \"return\", \"type\": \"pointer\" } ],\n"
	"    \"does\": [ { \"what\": \"alloc\", \"address\": \"at\", \"bytes\": \"bytes\", "
	"\"device\": 2, \"pool\": \"heap\", \"device_name\": \"gpu:0\" } ] },\n"
	"  { \"match\": \"put\", \"span\": false,\n"
	"    \"args\": [ { \"name\": \"at\", \"from\": \"arg0\", \"type\": \"pointer\" } ],\n"
	"    \"does\": [ { \"what\": \"free\", \"address\": \"at\", \"device\": 2 } ] },\n"
	"  { \"match\": \"op\", \"name\": \"op {name}\",\n"
	"    \"args\": [ { \"name\": \"name\", \"from\": \"arg0\", \"path\": [8], \"type\": "
	"\"chars\", \"count\": 32, \"show\": false },\n"
	"              { \"name\": \"shape\", \"from\": \"arg0\", \"path\": [40], \"type\": "
	"\"counted\", \"element\": \"i64\", \"count\": 5 },\n"
	"              { \"name\": \"kind\", \"from\": \"arg1\", \"type\": \"i32\", \"values\": { "
	"\"2\": \"device to host\" } },\n"
	"              { \"name\": \"status\", \"from\": \"return\", \"type\": \"i32\" } ],\n"
	"    \"does\": [ { \"what\": \"flow_out\", \"name\": \"queue\", \"id\": \"kind\" } ] },\n"
	"  { \"match\": \"batch\",\n"
	"    \"args\": [ { \"name\": \"flags\", \"from\": \"arg0\", \"type\": \"pointer\", "
	"\"show\": "
	"false },\n"
	"              { \"name\": \"first\", \"from\": \"arg0\", \"path\": [0], \"type\": \"i8\", "
	"\"if\": { \"arg\": \"flags\", \"ne\": 0 } } ] },\n"
	"  { \"match\": \"begin\", \"span\": false,\n"
	"    \"args\": [ { \"name\": \"at\", \"from\": \"arg0\", \"type\": \"pointer\" },\n"
	"              { \"name\": \"n\", \"from\": \"arg1\", \"type\": \"i32\" } ],\n"
	"    \"does\": [ { \"what\": \"async_begin\", \"name\": \"job {n}\", \"id\": \"at\" } ] "
	"},\n"
	"  { \"match\": \"end\", \"span\": false,\n"
	"    \"args\": [ { \"name\": \"at\", \"from\": \"arg0\", \"type\": \"pointer\" } ],\n"
	"    \"does\": [ { \"what\": \"async_end\", \"id\": \"at\" } ] },\n"
	"  { \"match\": \"mixed\", \"name\": \"m {text} {bytes}\",\n"
	"    \"args\": [ { \"name\": \"text\", \"from\": \"arg0\", \"path\": [0], \"type\": "
	"\"chars\", \"count\": 8 },\n"
	"              { \"name\": \"bytes\", \"from\": \"arg0\", \"path\": [8], \"type\": "
	"\"array\", \"element\": \"u8\", \"count\": 4 },\n"
	"              { \"name\": \"halves\", \"from\": \"arg0\", \"path\": [16], \"type\": "
	"\"array\", \"element\": \"f32\", \"count\": 2 } ] },\n"
	"  { \"match\": \"later\", \"span\": false,\n"
	"    \"args\": [ { \"name\": \"shape\", \"from\": \"arg0\", \"path\": [40], \"type\": "
	"\"counted\", \"element\": \"i64\", \"count\": 5 } ],\n"
	"    \"does\": [ { \"what\": \"instant\", \"name\": \"of {shape}\", \"when\": "
	"\"return\" } ] }\n"
	"] }\n";

enum { DECODE, SAMPLE, GET, PUT, OP, BATCH, BEGIN, END, MIXED, LATER, FUNCS };

struct bench {
	struct decode_bench d;
	struct recipe *recipe;
	struct func_kind kinds[FUNCS];
	unsigned implausible;
};

static void on_implausible(void *ctx, const struct func_probe *f, const struct recipe_arg *a)
{
	struct bench *b = ctx;

	(void)f;
	assert_non_null(a->name);
	b->implausible++;
}

/* What attaching would do, without a kernel. */
static void open_bench_as(struct bench *b, bool redact)
{
	static const bool known[1];
	static const int64_t layouts[1];
	struct clika_error err = { 0 };
	struct files *f;

	memset(b, 0, sizeof(*b));
	assert_int_equal(decode_bench__open(&b->d, 0, redact), 0);
	if (recipe__parse(recipe_text, strlen(recipe_text), "toy.json", &b->recipe, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(b->recipe->n_functions, FUNCS);
	decoder__on_implausible(b->d.d, on_implausible, b);
	f = b->d.files;
	f->funcs = calloc(FUNCS, sizeof(*f->funcs));
	f->n_funcs = f->cap_funcs = FUNCS;
	for (int i = 0; i < FUNCS; i++) {
		const struct recipe_function *rule = &b->recipe->functions[i];
		struct func_kind *k = &b->kinds[i];
		struct func_probe *fp = &f->funcs[i];
		struct fetch_plan plan;

		fetch__plan(rule, EM_X86, layouts, known, &plan);
		k->recipe = b->recipe;
		k->rule = rule;
		memcpy(k->args, plan.args, sizeof(k->args));
		k->returns = plan.returns;
		fp->kind = k;
		fp->name = strdup(rule->names[0].text);
		if (rule->n_names > 1) {
			fp->names = calloc(rule->n_names, sizeof(*fp->names));
			for (unsigned n = 0; n < rule->n_names; n++)
				fp->names[n] = strdup(rule->names[n].text);
		}
	}
}

static void open_bench(struct bench *b)
{
	open_bench_as(b, false);
}

static void close_bench(struct bench *b)
{
	decode_bench__close(&b->d);
	recipe__free(b->recipe);
}

struct record {
	struct wire_call_data d;
	char text[WIRE_FETCH_TEXTS][WIRE_FETCH_BYTES];
};

static struct record make(int func, bool ret, uint64_t sp, uint64_t ts, unsigned n, uint64_t a,
			  uint64_t c)
{
	struct record r = { 0 };

	r.d.call.hdr = (struct wire_hdr){ .size = sizeof(r),
					  .kind = ret ? W_RETURN_DATA : W_CALL_DATA,
					  .ts = ts };
	r.d.call.task = (struct wire_task){
		.tgid = 0x3ffffff0, .tid = 0x3ffffff0, .start = 5, .tstart = 5
	};
	r.d.call.sp = sp;
	r.d.call.task.aux = func;
	r.d.n = n;
	r.d.vals[0] = a;
	r.d.vals[1] = c;
	return r;
}

static void feed(struct bench *b, const struct record *r)
{
	assert_int_equal(decoder__record(b->d.d, r, sizeof(*r), 1), 0);
}

static void call(struct bench *b, int func, uint64_t sp, uint64_t ts, unsigned n, uint64_t a,
		 uint64_t c)
{
	struct record r = make(func, false, sp, ts, n, a, c);

	feed(b, &r);
}

static void back(struct bench *b, int func, uint64_t sp, uint64_t ts, unsigned n, uint64_t a)
{
	struct record r = make(func, true, sp, ts, n, a, 0);

	feed(b, &r);
}

struct seen {
	struct event ev;
	char name[64], pool[32], args[128];
};

static int by_time(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->ev.ts != y->ev.ts)
		return x->ev.ts < y->ev.ts ? -1 : 1;
	return x->ev.kind - y->ev.kind;
}

/* All events by time. */
static size_t read_back(struct bench *b, struct seen *s, size_t max)
{
	struct recording *r;
	struct block_reader br;
	struct event ev;
	size_t n = 0;

	assert_int_equal(decode_bench__finish(&b->d), 0);
	assert_int_equal(recording__open_fd(b->d.fd, &r, NULL), 0);
	for (size_t i = 0; i < recording__n_blocks(r); i++) {
		assert_int_equal(block_reader__init(&br, r, i), 0);
		while (block_reader__next(&br, &ev) == 1) {
			struct seen *to = &s[n];
			size_t used = 0;

			assert_true(n++ < max);
			to->ev = ev;
			snprintf(to->name, sizeof(to->name), "%s",
				 strpool__str(recording__names(r), ev.name));
			snprintf(to->pool, sizeof(to->pool), "%s",
				 strpool__str(recording__names(r), ev.pool));
			to->args[0] = 0;
			for (unsigned k = 0; k < ev.nargs; k++) {
				const struct event_arg *a = &ev.args[k];
				const char *key = strpool__str(recording__names(r), a->key);

				used += a->type == ARG_STR
						? snprintf(to->args + used, sizeof(to->args) - used,
							   "%s=%.*s ", key, a->len, a->str)
						: snprintf(to->args + used, sizeof(to->args) - used,
							   "%s=%lld ", key, (long long)a->i);
			}
		}
	}
	recording__close(r);
	qsort(s, n, sizeof(*s), by_time);
	return n;
}

static void names_a_call_by_its_arguments(void **state)
{
	struct seen s[16];
	struct bench b;

	(void)state;
	open_bench(&b);
	call(&b, DECODE, 0x7000, 10 * MS, 2, 0xc0, 1);
	back(&b, DECODE, 0x7000, 12 * MS, 0, 0);
	call(&b, DECODE, 0x7000, 20 * MS, 2, 0xc0, 1);
	back(&b, DECODE, 0x7000, 21 * MS, 0, 0);
	assert_int_equal(read_back(&b, s, 16), 2);
	assert_string_equal(s[0].name, "step");
	assert_int_equal(s[0].ev.dur, 2 * MS);
	assert_string_equal(s[0].args, "n=1 ");
	close_bench(&b);
}

static void makes_requests_of_prompts_and_outputs(void **state)
{
	struct seen s[64];
	struct bench b;
	size_t n, i = 0;

	(void)state;
	open_bench(&b);
	/* Output of a request that began earlier belongs to none. */
	call(&b, SAMPLE, 0x7000, 5 * MS, 1, 0xc0, 0);
	back(&b, SAMPLE, 0x7000, 6 * MS, 0, 0);
	/* A prompt in two parts, three outputs. */
	for (int k = 0; k < 2; k++) {
		call(&b, DECODE, 0x7000, (10 + 2 * k) * MS, 2, 0xc0, 512);
		back(&b, DECODE, 0x7000, (11 + 2 * k) * MS, 0, 0);
	}
	for (int k = 0; k < 3; k++) {
		call(&b, SAMPLE, 0x7000, (20 + 10 * k) * MS, 1, 0xc0, 0);
		back(&b, SAMPLE, 0x7000, (21 + 10 * k) * MS, 0, 0);
	}
	/* The next prompt, a good while later, ends it where its last output was. */
	call(&b, DECODE, 0x7000, 500 * MS, 2, 0xc0, 7);
	n = read_back(&b, s, 64);
	{
		static const struct {
			uint8_t kind;
			uint64_t ts;
		} want[] = {
			{ EV_REQUEST_BEGIN, 10 * MS },      { EV_REQUEST_FIRST, 21 * MS - 1 },
			{ EV_REQUEST_OUTPUT, 21 * MS - 1 }, { EV_REQUEST_OUTPUT, 31 * MS - 1 },
			{ EV_REQUEST_OUTPUT, 41 * MS - 1 }, { EV_REQUEST_END, 41 * MS - 1 },
			{ EV_REQUEST_BEGIN, 500 * MS },
		};
		size_t w = 0;

		for (i = 0; i < n; i++) {
			if (s[i].ev.kind == EV_SPAN)
				continue;
			assert_true(w < ARRAY_SIZE(want));
			assert_int_equal(s[i].ev.kind, want[w].kind);
			assert_int_equal(s[i].ev.ts, want[w].ts);
			assert_int_equal(s[i].ev.id, 0xc0);
			assert_string_equal(s[i].name, "chat");
			w++;
		}
		assert_int_equal(w, ARRAY_SIZE(want));
	}
	close_bench(&b);
}

static void joins_a_size_with_the_address_that_comes_back(void **state)
{
	struct seen s[16];
	struct bench b;

	(void)state;
	open_bench(&b);
	call(&b, GET, 0x7000, 10 * MS, 1, 4096, 0);
	/* Another allocation inside of it. */
	call(&b, GET, 0x6000, 11 * MS, 1, 64, 0);
	back(&b, GET, 0x6000, 12 * MS, 1, 0xa000);
	back(&b, GET, 0x7000, 13 * MS, 1, 0xb000);
	/* One that failed, one that an exception left, one whose begin was not seen. */
	call(&b, GET, 0x7000, 20 * MS, 1, 1, 0);
	back(&b, GET, 0x7000, 21 * MS, 1, 0);
	call(&b, GET, 0x5000, 22 * MS, 1, 2, 0);
	call(&b, PUT, 0x7000, 30 * MS, 1, 0xb000, 0);
	call(&b, PUT, 0x7000, 31 * MS, 1, 0, 0);
	back(&b, GET, 0x7000, 32 * MS, 1, 0xc000);
	assert_int_equal(read_back(&b, s, 16), 4);
	assert_int_equal(s[0].ev.kind, EV_ALLOC);
	assert_int_equal(s[0].ev.id, 0xa000);
	assert_int_equal(s[0].ev.value, 64);
	/* The device's name is told once. */
	assert_int_equal(s[1].ev.kind, EV_DEVICE_NAME);
	assert_int_equal(s[1].ev.aux, 2);
	assert_string_equal(s[1].name, "gpu:0");
	assert_int_equal(s[2].ev.id, 0xb000);
	assert_int_equal(s[2].ev.value, 4096);
	assert_int_equal(s[2].ev.aux, 2);
	assert_string_equal(s[2].pool, "heap");
	assert_int_equal(s[3].ev.kind, EV_FREE);
	assert_int_equal(s[3].ev.id, 0xb000);
	close_bench(&b);
}

/* One link takes the place of another: of a hit that both take the older one's record is dropped, and only that. */
static void drops_what_is_told_again(void **state)
{
	enum { OLD = 0, NEW = WF_PARITY, AGAIN = WF_AGAIN };
	static const struct {
		uint8_t flags;
		bool ret, dropped;
	} frees[] = {
		/* Only the old one counted yet, or the new one's handler ran just before both did. */
		{ OLD, false, false },
		{ AGAIN, false, false },
		{ NEW, false, false },
		{ AGAIN, false, true },
		{ NEW, false, false },
		{ AGAIN, false, true },
		/* The old one has gone. */
		{ NEW, false, false },
		{ NEW, false, false },
	};
	const struct decoder_counts *n;
	struct seen s[16];
	struct bench b;
	size_t kept = 0;

	(void)state;
	open_bench(&b);
	n = decoder__counts(b.d.d);
	for (size_t i = 0; i < ARRAY_SIZE(frees); i++) {
		struct record r = make(PUT, false, 0x7000, (10 + i) * MS, 1, 0xb000 + i, 0);

		r.d.call.hdr.flags = frees[i].flags;
		feed(&b, &r);
		kept += !frees[i].dropped;
		assert_int_equal(n->records, kept);
		assert_int_equal(n->singles - n->duplicates, kept);
	}
	assert_int_equal(decoder__call_count(b.d.d, PUT)->calls, kept);
	/* The end of a call is not its begin, a call from elsewhere is another. */
	for (int i = 0; i < 3; i++) {
		struct record r = make(DECODE, i == 1, i == 2 ? 0x6000 : 0x7000,
				       (uint64_t)(30 + i) * MS, 0, 0, 0);

		r.d.call.hdr.flags = i % 2 ? AGAIN : NEW;
		feed(&b, &r);
	}
	assert_int_equal(n->records, kept + 3);
	assert_int_equal(read_back(&b, s, 16), kept + 2);
	close_bench(&b);
}

/* Its probes were taken off while it ran: what is called later is not inside of it. */
static void closes_a_call_whose_end_will_not_be_told(void **state)
{
	struct func_probe *off;
	struct seen s[16];
	struct bench b;

	(void)state;
	open_bench(&b);
	off = &b.d.files->funcs[DECODE];
	call(&b, DECODE, 0x7000, 10 * MS, 2, 0xc0, 1);
	off->off = true;
	off->off_ts = 20 * MS;
	/* From before, though it is read after. */
	call(&b, OP, 0x6000, 15 * MS, 0, 0, 0);
	back(&b, OP, 0x6000, 16 * MS, 0, 0);
	call(&b, OP, 0x6000, 30 * MS, 0, 0, 0);
	back(&b, OP, 0x6000, 31 * MS, 0, 0);
	call(&b, OP, 0x6000, 40 * MS, 0, 0, 0);
	back(&b, OP, 0x6000, 41 * MS, 0, 0);
	assert_int_equal(read_back(&b, s, 16), 4);
	assert_string_equal(s[0].name, "step");
	assert_int_equal(s[0].ev.dur, 20 * MS);
	assert_int_equal(s[0].ev.flags & EVS_UNFINISHED, EVS_UNFINISHED);
	for (int i = 1; i < 4; i++) {
		assert_int_equal(s[i].ev.dur, MS);
		assert_int_equal(s[i].ev.flags & EVS_UNFINISHED, 0);
	}
	close_bench(&b);
}

static void keeps_memory_whole_under_a_filter_on_names(void **state)
{
	static const char *const filters[] = { "nothing*" };
	struct names *unfiltered;
	struct seen s[8];
	struct bench b;

	(void)state;
	open_bench(&b);
	unfiltered = b.d.d->o.names;
	b.d.d->o.names = names__new(b.d.pool, b.d.files, filters, 1);
	call(&b, GET, 0x7000, 10 * MS, 1, 4096, 0);
	back(&b, GET, 0x7000, 11 * MS, 1, 0xb000);
	call(&b, PUT, 0x7000, 12 * MS, 1, 0xb000, 0);
	assert_int_equal(read_back(&b, s, 8), 3);
	assert_int_equal(s[0].ev.kind, EV_ALLOC);
	assert_int_equal(s[2].ev.kind, EV_FREE);
	names__free(b.d.d->o.names);
	b.d.d->o.names = unfiltered;
	close_bench(&b);
}

static struct record op(const char *name, uint64_t dims, uint64_t ts)
{
	struct record r = make(OP, false, 0x7000, ts, 3, strlen(name), 48);
	int64_t shape[6] = { (int64_t)dims, 2, 3, 4, 5, 6 };

	r.d.texts = 2;
	r.d.vals[2] = 2;
	snprintf(r.text[0], sizeof(r.text[0]), "%s", name);
	memcpy(r.text[1], shape, sizeof(shape));
	return r;
}

static void shows_texts_shapes_and_named_values(void **state)
{
	struct seen s[16];
	struct record r;
	struct bench b;

	(void)state;
	open_bench(&b);
	r = op("blk.0", 3, 10 * MS);
	feed(&b, &r);
	back(&b, OP, 0x7000, 11 * MS, 1, (uint64_t)-1);
	r = op("blk.1", 7, 20 * MS);
	feed(&b, &r);
	back(&b, OP, 0x7000, 21 * MS, 0, 0);
	assert_int_equal(read_back(&b, s, 16), 4);
	assert_string_equal(s[0].name, "op blk.0");
	assert_string_equal(s[0].args, "shape=[2,3,4] kind=device to host status=-1 ");
	assert_int_equal(s[1].ev.kind, EV_FLOW_OUT);
	assert_int_equal(s[1].ev.id, 2);
	/* More dimensions than fit in place. */
	assert_string_equal(s[2].args, "shape=[...] kind=device to host ");
	close_bench(&b);
}

static void an_argument_that_is_not_there_by_its_condition_is_not_given_up(void **state)
{
	struct seen s[100];
	struct record r;
	struct bench b;
	size_t n;

	(void)state;
	open_bench(&b);
	for (int i = 0; i < 30; i++) {
		r = make(BATCH, false, 0x7000, (10 + 2 * i) * MS, 2, 0, 0);
		r.d.faults = 1 << 1;
		feed(&b, &r);
		back(&b, BATCH, 0x7000, (11 + 2 * i) * MS, 0, 0);
	}
	assert_int_equal(b.implausible, 0);
	call(&b, BATCH, 0x7000, 100 * MS, 2, 0x1234, 7);
	back(&b, BATCH, 0x7000, 101 * MS, 0, 0);
	n = read_back(&b, s, 100);
	assert_int_equal(n, 31);
	assert_string_equal(s[0].args, "");
	assert_string_equal(s[30].args, "first=7 ");
	close_bench(&b);
}

static void gives_an_argument_up_that_is_none(void **state)
{
	struct seen s[100];
	struct record r;
	struct bench b;
	size_t n;

	(void)state;
	open_bench(&b);
	for (int i = 0; i < 30; i++) {
		r = op("x", 0x7f0011223344, (10 + 2 * i) * MS);
		feed(&b, &r);
		back(&b, OP, 0x7000, (11 + 2 * i) * MS, 0, 0);
	}
	assert_int_equal(b.implausible, 1);
	r = op("x", 2, 100 * MS);
	feed(&b, &r);
	n = read_back(&b, s, 100);
	assert_int_equal(n, 62);
	/* Not even when it looks right later: nobody could tell right from wrong. */
	assert_string_equal(s[60].args, "kind=device to host ");
	close_bench(&b);
}

/* The end of an asynchronous span knows its id alone. */
static void ends_what_was_begun_under_an_id(void **state)
{
	struct seen s[16];
	struct bench b;

	(void)state;
	open_bench(&b);
	call(&b, BEGIN, 0x7000, 10 * MS, 2, 0xa0, 1);
	call(&b, BEGIN, 0x7000, 11 * MS, 2, 0xb0, 2);
	call(&b, END, 0x7000, 12 * MS, 1, 0xa0, 0);
	call(&b, END, 0x7000, 13 * MS, 1, 0xa0, 0); /* nothing is open there any more */
	call(&b, END, 0x7000, 14 * MS, 1, 0xb0, 0);
	assert_int_equal(read_back(&b, s, 16), 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(s[i].ev.kind, i < 2 ? EV_ASYNC_BEGIN : EV_ASYNC_END);
		assert_int_equal(s[i].ev.id, i % 2 ? 0xb0 : 0xa0);
		assert_string_equal(s[i].name, i % 2 ? "job 2" : "job 1");
	}
	close_bench(&b);
}

static void refuses_lengths_that_no_record_has(void **state)
{
	struct record r;
	struct bench b;

	(void)state;
	open_bench(&b);
	r = op("x", 2, 10 * MS);
	r.d.n = 9;
	feed(&b, &r);
	r = op("x", 2, 10 * MS);
	r.d.texts = 5;
	feed(&b, &r);
	r = op("x", 2, 10 * MS);
	r.d.texts = 4;
	r.d.call.hdr.size = sizeof(r.d) + 64;
	feed(&b, &r);
	assert_int_equal(decoder__counts(b.d.d)->bad, 3);
	assert_int_equal(decoder__counts(b.d.d)->records, 0);
	close_bench(&b);
}

static void counts_the_time_that_is_a_functions_own(void **state)
{
	const struct call_count *c;
	struct record r;
	struct bench b;

	(void)state;
	open_bench(&b);
	call(&b, DECODE, 0x7000, 10 * MS, 2, 1, 1);
	r = op("x", 2, 12 * MS);
	r.d.call.sp = 0x6000;
	feed(&b, &r);
	back(&b, OP, 0x6000, 15 * MS, 0, 0);
	back(&b, DECODE, 0x7000, 20 * MS, 0, 0);
	c = decoder__call_count(b.d.d, DECODE);
	assert_int_equal(c->calls, 1);
	assert_int_equal(c->hits, 2);
	assert_int_equal(c->self_ns, 7 * MS);
	assert_int_equal(decoder__call_count(b.d.d, OP)->self_ns, 3 * MS);
	close_bench(&b);
}

static struct record mixed(uint64_t ts)
{
	struct record r = make(MIXED, false, 0x7000, ts, 3, 6, 4);
	const float halves[2] = { 0.5f, -1.5f };

	r.d.texts = 4;
	r.d.vals[2] = sizeof(halves);
	memcpy(r.text[0], "secret", 6);
	memcpy(r.text[1], "\x68\x69\x21\x00", 4);
	memcpy(r.text[2], halves, sizeof(halves));
	return r;
}

static void leaves_out_what_may_be_text(void **state)
{
	struct seen s[4];
	struct record r;
	struct bench b;

	(void)state;
	open_bench(&b);
	r = mixed(10 * MS);
	feed(&b, &r);
	back(&b, MIXED, 0x7000, 11 * MS, 0, 0);
	assert_int_equal(read_back(&b, s, 4), 1);
	assert_string_equal(s[0].name, "m secret [104,105,33,0]");
	assert_string_equal(s[0].args, "text=secret bytes=[104,105,33,0] halves=[0.5,-1.5] ");
	close_bench(&b);

	open_bench_as(&b, true);
	r = mixed(10 * MS);
	feed(&b, &r);
	back(&b, MIXED, 0x7000, 11 * MS, 0, 0);
	assert_int_equal(read_back(&b, s, 4), 1);
	assert_string_equal(s[0].name, "m (redacted) (redacted)");
	assert_string_equal(s[0].args, "text=(redacted) bytes=(redacted) halves=[0.5,-1.5] ");
	close_bench(&b);
}

static struct record later(bool good, uint64_t sp, uint64_t ts)
{
	const uint64_t shape[] = { good ? 1 : UINT64_MAX, 2 };
	struct record r = make(LATER, false, sp, ts, 1, sizeof(shape), 0);

	r.d.texts = 2;
	r.d.vals[0] = WIRE_FETCH_BYTES;
	memcpy(r.text[0], shape, sizeof(shape));
	return r;
}

/* Also when what came at the entry is looked at once more at the return. */
static void judges_each_value_once(void **state)
{
	struct record r;
	struct bench b;

	(void)state;
	open_bench(&b);
	for (int i = 0; i < 20; i++) {
		r = later(i >= 7, 0x7000, (10 + 2 * i) * MS);
		feed(&b, &r);
		back(&b, LATER, 0x7000, (11 + 2 * i) * MS, 0, 0);
	}
	assert_int_equal(b.implausible, 0);
	assert_int_equal(decode_bench__finish(&b.d), 0);
	close_bench(&b);
}

/* Coroutines: calls on two stacks end in the order in which they began. */
static void joins_calls_of_stacks_that_take_turns(void **state)
{
	uint64_t other = 0x7f0000000000;
	struct seen s[8];
	struct bench b;

	(void)state;
	open_bench(&b);
	call(&b, GET, 0x7000, 10 * MS, 1, 4096, 0);
	call(&b, GET, other, 11 * MS, 1, 64, 0);
	back(&b, GET, 0x7000, 12 * MS, 1, 0xa000);
	back(&b, GET, other, 13 * MS, 1, 0xb000);
	/* The name of the device lies between. */
	assert_int_equal(read_back(&b, s, 8), 3);
	assert_int_equal(s[0].ev.kind, EV_ALLOC);
	assert_int_equal(s[0].ev.id, 0xa000);
	assert_int_equal(s[0].ev.value, 4096);
	assert_int_equal(s[2].ev.id, 0xb000);
	assert_int_equal(s[2].ev.value, 64);
	close_bench(&b);
}

/* Stack pointers are whatever a target sets them to. */
static void keeps_no_frames_without_end(void **state)
{
	struct record r;
	struct bench b;

	(void)state;
	open_bench(&b);
	for (uint32_t t = 0; t < 10; t++) {
		for (uint64_t i = 0; i < 70000; i++) {
			r = later(true, 0x7f0000000000 - 16 * i, (10 + i) * 1000);
			r.d.call.task.tid -= t;
			feed(&b, &r);
		}
		assert_true(b.d.env.frame_bytes < 65u << 20);
	}
	assert_true(b.d.env.frame_bytes > 32u << 20);
	/* What is called last still finds its entry. */
	r = later(true, 0x1000, 200 * MS);
	r.d.call.task.tid -= 20;
	feed(&b, &r);
	people__free(b.d.people);
	b.d.people = NULL;
	assert_int_equal(b.d.env.frame_bytes, 0);
	close_bench(&b);
}

/* One that begins ever new requests costs other processes nothing. */
static void keeps_requests_of_others(void **state)
{
	static struct seen s[200000];
	struct record r;
	struct bench b;
	size_t n, ends = 0;

	(void)state;
	open_bench(&b);
	call(&b, DECODE, 0x7000, 10 * MS, 2, 0xc0, 512);
	back(&b, DECODE, 0x7000, 11 * MS, 0, 0);
	for (uint64_t i = 0; i < 70000; i++) {
		r = make(DECODE, false, 0x7000, 20 * MS + i, 2, 0x10000 + i, 512);
		r.d.call.task.tgid -= 1;
		r.d.call.task.tid -= 1;
		feed(&b, &r);
	}
	call(&b, SAMPLE, 0x7000, 50 * MS, 1, 0xc0, 0);
	back(&b, SAMPLE, 0x7000, 51 * MS, 0, 0);
	n = read_back(&b, s, ARRAY_SIZE(s));
	for (size_t i = 0; i < n; i++)
		ends += s[i].ev.kind == EV_REQUEST_OUTPUT && s[i].ev.id == 0xc0;
	assert_int_equal(ends, 1);
	close_bench(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_a_call_by_its_arguments),
		cmocka_unit_test(makes_requests_of_prompts_and_outputs),
		cmocka_unit_test(joins_a_size_with_the_address_that_comes_back),
		cmocka_unit_test(closes_a_call_whose_end_will_not_be_told),
		cmocka_unit_test(drops_what_is_told_again),
		cmocka_unit_test(keeps_memory_whole_under_a_filter_on_names),
		cmocka_unit_test(shows_texts_shapes_and_named_values),
		cmocka_unit_test(gives_an_argument_up_that_is_none),
		cmocka_unit_test(an_argument_that_is_not_there_by_its_condition_is_not_given_up),
		cmocka_unit_test(ends_what_was_begun_under_an_id),
		cmocka_unit_test(refuses_lengths_that_no_record_has),
		cmocka_unit_test(counts_the_time_that_is_a_functions_own),
		cmocka_unit_test(leaves_out_what_may_be_text),
		cmocka_unit_test(judges_each_value_once),
		cmocka_unit_test(joins_calls_of_stacks_that_take_turns),
		cmocka_unit_test(keeps_no_frames_without_end),
		cmocka_unit_test(keeps_requests_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
