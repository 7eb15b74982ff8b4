// SPDX-License-Identifier: Apache-2.0
/* Spans as call stacks: folded lines, pprof profiles, and the sums behind both. */
#include "export/stacks.h"
#include "proto/pprof.pb-c.h"
#include "tests/common/export_text.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
	struct rec *b;
	uint32_t server, main, worker;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->b = rec__new();
	w->server = rec__process(w->b, 100, "server");
	w->main = rec__thread(w->b, w->server, 100, "main");
	w->worker = rec__thread(w->b, w->server, 101, "worker");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	rec__free(w->b);
	free(w);
	return 0;
}

static void some_work(struct world *w)
{
	struct event *ev;

	rec__span(w->b, w->main, 1000, 5000, "step")->src = rec__id(w->b, "engine.c:12");
	rec__span(w->b, w->main, 1100, 500, "load")->cat = rec__id(w->b, "io");
	rec__span(w->b, w->main, 2000, 2000, "step"); /* inside itself */
	rec__span(w->b, w->worker, 1000, 100, "load");
	rec__span(w->b, w->worker, 2000, 300, "load");
	ev = rec__event(w->b, w->worker, EV_ALLOC, 2100, NULL);
	ev->id = 1;
	ev->value = 4096;
	ev = rec__event(w->b, w->worker, EV_ALLOC, 2200, NULL);
	ev->id = 2;
	ev->value = 1000;
	ev->aux = 1;
	ev = rec__event(w->b, w->worker, EV_ALLOC, 5000, NULL);
	ev->id = 3;
	ev->value = 7;
}

/* --- folded -------------------------------------------------------------------------------------- */

static void assert_folded(struct world *w, const char *expected)
{
	char *text = export__text(w->b, "folded", NULL, NULL, NULL);

	assert_string_equal(text, expected);
	free(text);
}

static void folds_one_line_a_stack_with_its_self_time(void **state)
{
	some_work(*state);
	assert_folded(*state, "server;main;step 2500\n"
			      "server;main;step;load 500\n"
			      "server;main;step;step 2000\n"
			      "server;worker;load 400\n");
}

static void sorts_lines_by_their_bytes(void **state)
{
	struct world *w = *state;

	/* What follows a frame sorts too: ' ' before '-' before ';' before letters. */
	rec__span(w->b, w->main, 1000, 100, "ab");
	rec__span(w->b, w->main, 2000, 100, "a");
	rec__span(w->b, w->main, 2010, 10, "z");
	rec__span(w->b, w->main, 3000, 100, "a-b");
	rec__span(w->b, w->main, 4000, 100, "a b");
	rec__span(w->b, w->main, 5000, 100, "Z");
	assert_folded(w, "server;main;Z 100\n"
			 "server;main;a 90\n"
			 "server;main;a b 100\n"
			 "server;main;a-b 100\n"
			 "server;main;a;z 10\n"
			 "server;main;ab 100\n");
}

static void hostile_names_split_no_line_and_no_frame(void **state)
{
	struct world *w = *state;
	uint32_t p = rec__process(w->b, 200, "#x;y"), t = rec__thread(w->b, p, 200, "");

	rec__span(w->b, w->main, 1000, 100, "a;b\r\nc 1\n");
	rec__span(w->b, w->main, 2000, 100, "");
	rec__span(w->b, w->main, 3000, 100, "\xff\x1b[31m");
	/* Reads the same as another one: one line, one sum. */
	rec__span(w->b, w->main, 4000, 50, "a:b\r\nc 1\n");
	rec__span(w->b, t, 1000, 1, "op");
	assert_folded(w, "\\x23x:y;#x:y;op 1\n"
			 "server;main;(unnamed) 100\n"
			 "server;main;a:b\\x0d\\x0ac 1\\x0a 150\n"
			 "server;main;\xef\xbf\xbd\\x1b[31m 100\n");
}

static void leaves_out_stacks_without_time_of_their_own(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 100, "outer");
	rec__span(w->b, w->main, 1000, 100, "inner");
	rec__span(w->b, w->main, 5000, 0, "nothing");
	assert_folded(w, "server;main;outer;inner 100\n");
}

static void folds_deep_recursion(void **state)
{
	struct world *w = *state;
	const char *last;
	unsigned int i;
	char *text;

	for (i = 0; i < 3000; i++)
		rec__span(w->b, w->main, 1000 + i, 100000 - 2 * i, "f");
	text = export__text(w->b, "folded", NULL, NULL, NULL);
	last = strrchr(text, ';');
	assert_non_null(last);
	assert_string_equal(last, ";f 94002\n");
	free(text);
}

/* --- pprof ----------------------------------------------------------------------------------------- */

static Pprof__Profile *profile(struct rec *b)
{
	size_t len;
	char *data = export__text(b, "pprof", NULL, NULL, &len);
	Pprof__Profile *p = pprof__profile__unpack(NULL, len, (uint8_t *)data);

	assert_non_null(p);
	free(data);
	return p;
}

static const char *str(const Pprof__Profile *p, int64_t i)
{
	static char text[4][256];
	static unsigned int turn;
	char *to = text[turn++ % 4];

	assert_true(i >= 0 && (size_t)i < p->n_string_table);
	snprintf(to, sizeof(text[0]), "%.*s", (int)p->string_table[i].len,
		 (const char *)p->string_table[i].data);
	return to;
}

/* What pprof itself asks of a profile. */
static void assert_valid(const Pprof__Profile *p)
{
	size_t i, k;

	assert_true(p->n_string_table > 0);
	assert_int_equal(p->string_table[0].len, 0);
	for (i = 0; i < p->n_function; i++)
		assert_int_equal(p->function[i]->id, i + 1);
	for (i = 0; i < p->n_location; i++) {
		assert_int_equal(p->location[i]->id, i + 1);
		assert_true(p->location[i]->mapping_id <= p->n_mapping);
		assert_int_equal(p->location[i]->n_line, 1);
		assert_in_range(p->location[i]->line[0]->function_id, 1, p->n_function);
	}
	for (i = 0; i < p->n_sample; i++) {
		assert_int_equal(p->sample[i]->n_value, p->n_sample_type);
		assert_true(p->sample[i]->n_location_id > 0);
		for (k = 0; k < p->sample[i]->n_location_id; k++)
			assert_in_range(p->sample[i]->location_id[k], 1, p->n_location);
		for (k = 0; k < p->sample[i]->n_label; k++) {
			assert_true(p->sample[i]->label[k]->key > 0);
			if (!p->sample[i]->label[k]->has_num)
				assert_true(p->sample[i]->label[k]->str > 0);
		}
	}
}

static void sample_text(const Pprof__Profile *p, const Pprof__Sample *s, char *out, size_t room)
{
	const Pprof__Function *f;
	size_t i, n = 0;

	for (i = 0; i < s->n_value; i++)
		n += (size_t)snprintf(out + n, room - n, "%lld ", (long long)s->value[i]);
	for (i = 0; i < s->n_location_id; i++) {
		f = p->function[p->location[s->location_id[i] - 1]->line[0]->function_id - 1];
		n += (size_t)snprintf(out + n, room - n, "%s%s", i ? " < " : "", str(p, f->name));
	}
	for (i = 0; i < s->n_label; i++) {
		n += (size_t)snprintf(out + n, room - n, " %s=", str(p, s->label[i]->key));
		if (s->label[i]->has_num)
			n += (size_t)snprintf(out + n, room - n, "%lld",
					      (long long)s->label[i]->num);
		else
			n += (size_t)snprintf(out + n, room - n, "%s", str(p, s->label[i]->str));
	}
}

static void assert_sample(const Pprof__Profile *p, const char *expected)
{
	char text[1024], all[8192] = "";
	size_t i, n = 0;

	for (i = 0; i < p->n_sample; i++) {
		sample_text(p, p->sample[i], text, sizeof(text));
		if (!strcmp(text, expected))
			return;
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s\n", text);
	}
	fail_msg("no sample is\n%s\nthere are\n%s", expected, all);
}

static void pprof_has_a_sample_for_each_stack_leaf_first(void **state)
{
	struct world *w = *state;
	Pprof__Profile *p;

	some_work(w);
	p = profile(w->b);
	assert_valid(p);
	assert_int_equal(p->n_sample_type, 5);
	assert_string_equal(str(p, p->sample_type[1]->type), "self");
	assert_string_equal(str(p, p->sample_type[1]->unit), "nanoseconds");
	assert_int_equal(p->default_sample_type, p->sample_type[1]->type);
	assert_int_equal(p->n_sample, 7);
	/* calls, self, wall, allocations, bytes */
	assert_sample(p, "1 2500 5000 0 0 step pid=100 tid=100 process=server thread=main");
	assert_sample(p, "1 500 500 0 0 load < step pid=100 tid=100 process=server thread=main "
			 "category=io");
	/* a recursive call counts once, for its outermost span */
	assert_sample(p, "1 2000 0 0 0 step < step pid=100 tid=100 process=server thread=main");
	assert_sample(p, "2 400 400 0 0 load pid=100 tid=101 process=server thread=worker");
	assert_sample(p, "0 0 0 1 4096 load pid=100 tid=101 process=server thread=worker "
			 "device=host");
	assert_sample(p, "0 0 0 1 1000 load pid=100 tid=101 process=server thread=worker "
			 "device=device 1");
	assert_sample(p, "0 0 0 1 7 (outside spans) pid=100 tid=101 process=server thread=worker "
			 "device=host");
	pprof__profile__free_unpacked(p, NULL);
}

static void pprof_tells_source_lines_program_and_epoch_time(void **state)
{
	struct world *w = *state;
	const Pprof__Location *l = NULL;
	Pprof__Profile *p;
	size_t i;

	rec__process_info(w->b, w->server)->exe = (char *)"/usr/bin/server";
	rec__anchor(w->b, 1000, 1700000000000000000);
	rec__anchor(w->b, 9000, 1700000000000008000);
	some_work(w);
	p = profile(w->b);
	assert_valid(p);
	assert_int_equal(p->time_nanos, 1700000000000000000);
	assert_int_equal(p->duration_nanos, 8000);
	assert_int_equal(p->n_mapping, 1);
	assert_string_equal(str(p, p->mapping[0]->filename), "/usr/bin/server");
	for (i = 0; i < p->n_location; i++)
		if (p->location[i]->line[0]->line == 12)
			l = p->location[i];
	assert_non_null(l);
	assert_string_equal(str(p, p->function[l->line[0]->function_id - 1]->filename), "engine.c");
	pprof__profile__free_unpacked(p, NULL);
}

static void pprof_of_nothing_is_valid(void **state)
{
	struct world *w = *state;
	Pprof__Profile *p = profile(w->b);

	assert_valid(p);
	assert_int_equal(p->n_sample, 0);
	pprof__profile__free_unpacked(p, NULL);
}

/* --- sums ------------------------------------------------------------------------------------------- */

static int to_stacks(void *ctx, const struct item *it)
{
	return stacks__item(ctx, it);
}

static void keeps_sums_when_there_are_too_many_stacks(void **state)
{
	struct world *w = *state;
	uint64_t calls = 0, self = 0, allocs = 0;
	struct session *s;
	struct stacks st;
	unsigned int i;
	uint32_t k;

	for (i = 0; i < 3000; i++)
		rec__span(w->b, w->main, 1000 + i, 100000 - 2 * i, i % 2 ? "f" : "g");
	rec__event(w->b, w->main, EV_ALLOC, 50000, NULL)->value = 5;
	rec__span(w->b, w->main, 200000, 10, "f");
	assert_int_equal(session__new(rec__open(w->b), NULL, &s, NULL), 0);
	assert_int_equal(stacks__init(&st, s, STACKS_EXACT), 0);
	st.n_spans = STACKS_MAX - 100; /* room for 100 more */
	assert_int_equal(session__walk(s, to_stacks, &st), 0);
	for (k = 0; k < st.n; k++) {
		calls += st.nodes[k].calls;
		self += st.nodes[k].self_ns;
		allocs += st.nodes[k].alloc_bytes;
	}
	assert_int_equal(st.n, 1 + 100 + 1);
	assert_int_equal(calls, 3001);
	assert_int_equal(self, 100010);
	assert_int_equal(allocs, 5);
	assert_int_equal(st.nodes[st.tracks[0].root].calls, 0);
	assert_int_equal(st.tracks[0].top, st.tracks[0].root);
	stacks__free(&st);
	session__free(s);
}

static void reads_the_line_behind_a_file_name(void **state)
{
	size_t len;

	(void)state;
	assert_int_equal(stacks__line("a/b.c:12", &len), 12);
	assert_int_equal(len, 5);
	assert_int_equal(stacks__line("a/b.c", &len), 0);
	assert_int_equal(len, 5);
	assert_int_equal(stacks__line("", &len), 0);
	assert_int_equal(len, 0);
	assert_int_equal(stacks__line(":7", &len), 0);
	assert_int_equal(stacks__line("12", &len), 0);
	assert_int_equal(stacks__line("a:", &len), 0);
	assert_int_equal(stacks__line("a:99999999999999999999", &len), 0);
	assert_int_equal(len, 22);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(folds_one_line_a_stack_with_its_self_time),
		TEST(sorts_lines_by_their_bytes),
		TEST(hostile_names_split_no_line_and_no_frame),
		TEST(leaves_out_stacks_without_time_of_their_own),
		TEST(folds_deep_recursion),
		TEST(pprof_has_a_sample_for_each_stack_leaf_first),
		TEST(pprof_tells_source_lines_program_and_epoch_time),
		TEST(pprof_of_nothing_is_valid),
		TEST(keeps_sums_when_there_are_too_many_stacks),
		TEST(reads_the_line_behind_a_file_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
