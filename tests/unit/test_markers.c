/* SPDX-License-Identifier: Apache-2.0 */
/* The records that the batched transport writes: their bytes, halves, announcements, ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/markers/watch.h"

#define RUN_TEST_BODY(name)                                                                        \
	static void name(void **state)                                                             \
	{                                                                                          \
		(void)state;                                                                       \
		assert_int_equal(watch__run(name##_body), 0);                                      \
	}

static int is(const struct mark *m, unsigned int kind, const char *name)
{
	return m->kind == kind && strcmp(m->name, name) == 0;
}

static void every_kind_has_its_bytes_body(void)
{
	static const unsigned int kinds[] = {
		CLIKA_REC_SPAN,          CLIKA_REC_INSTANT,       CLIKA_REC_COUNTER_I64,
		CLIKA_REC_COUNTER_F64,   CLIKA_REC_ASYNC_BEGIN,   CLIKA_REC_ASYNC_END,
		CLIKA_REC_FLOW_OUT,      CLIKA_REC_FLOW_STEP,     CLIKA_REC_FLOW_IN,
		CLIKA_REC_REQUEST_BEGIN, CLIKA_REC_REQUEST_FIRST, CLIKA_REC_REQUEST_OUTPUT,
		CLIKA_REC_REQUEST_END,   CLIKA_REC_ALLOC,         CLIKA_REC_FREE,
		CLIKA_REC_RESERVE,       CLIKA_REC_RELEASE,       CLIKA_REC_THREAD_NAME,
		CLIKA_REC_QUEUE_NAME,    CLIKA_REC_DEVICE_NAME,   CLIKA_REC_PROCESS_LABEL,
		CLIKA_REC_CAPTURE_BEGIN, CLIKA_REC_CAPTURE_END,
	};
	struct mark *m = watch__mark;
	uint64_t before = CLIKA_NOW(), f;
	clika_token t = CLIKA_SPAN_BEGIN("span");
	double half = 0.5;

	CLIKA_SPAN_END(t);
	CLIKA_INSTANT("instant");
	CLIKA_COUNTER_I64("i64", -7);
	CLIKA_COUNTER_F64("f64", half);
	CLIKA_ASYNC_BEGIN("async", 11);
	CLIKA_ASYNC_END("async", 11);
	CLIKA_FLOW_OUT("flow", 12);
	CLIKA_FLOW_STEP("flow", 12);
	CLIKA_FLOW_IN("flow", 12);
	CLIKA_REQUEST_BEGIN("request", 13);
	CLIKA_REQUEST_FIRST_OUTPUT("request", 13);
	CLIKA_REQUEST_OUTPUT("request", 13, 4);
	CLIKA_REQUEST_END("request", 13);
	CLIKA_ALLOC(2, 0x1000, 64, "pool");
	CLIKA_FREE(2, 0x1000);
	CLIKA_RESERVE(3, 0x2000, 128, "arena");
	CLIKA_RELEASE(3, 0x2000);
	CLIKA_THREAD_NAME("thread");
	CLIKA_QUEUE_NAME(14, "queue");
	CLIKA_DEVICE_NAME(3, "device");
	CLIKA_PROCESS_LABEL("label");
	CLIKA_CAPTURE_BEGIN("tag");
	CLIKA_CAPTURE_END("tag");
	CHECK(watch__collect() == (int)(sizeof(kinds) / sizeof(kinds[0])));
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		CHECK(m[i].kind == kinds[i]);
		CHECK(m[i].ts >= before && m[i].ts <= CLIKA_NOW());
		CHECK(i == 0 || m[i].ts >= m[i - 1].ts);
		CHECK(m[i].nargs == 0);
	}
	CHECK(is(&m[0], CLIKA_REC_SPAN, "span") && m[0].size == 24 && m[0].end >= m[0].ts);
	CHECK(is(&m[1], CLIKA_REC_INSTANT, "instant") && m[1].size == 16);
	CHECK(strcmp(m[2].name, "i64") == 0 && (int64_t)m[2].value == -7);
	memcpy(&f, &half, sizeof(f));
	CHECK(strcmp(m[3].name, "f64") == 0 && m[3].value == f);
	CHECK(strcmp(m[4].name, "async") == 0 && m[4].id == 11 && m[5].id == 11);
	for (int i = 6; i < 9; i++)
		CHECK(strcmp(m[i].name, "flow") == 0 && m[i].id == 12);
	for (int i = 9; i < 13; i++)
		CHECK(strcmp(m[i].name, "request") == 0 && m[i].id == 13);
	CHECK(m[11].value == 4);
	CHECK(m[13].id == 0x1000 && m[13].value == 64 && m[13].device == 2);
	CHECK(strcmp(m[13].pool, "pool") == 0 && strstr(m[13].src, "test_markers.c:"));
	CHECK(m[14].id == 0x1000 && m[14].device == 2);
	CHECK(m[15].id == 0x2000 && m[15].value == 128 && strcmp(m[15].pool, "arena") == 0);
	CHECK(m[16].id == 0x2000 && m[16].device == 3);
	for (int i = 17; i < 21; i++)
		CHECK(m[i].flags & CLIKA_RECF_INLINE);
	CHECK(strcmp(m[17].name, "thread") == 0);
	CHECK(strcmp(m[18].name, "queue") == 0 && m[18].id == 14);
	CHECK(strcmp(m[19].name, "device") == 0 && m[19].id == 3);
	CHECK(strcmp(m[20].name, "label") == 0);
	CHECK(strcmp(m[21].name, "tag") == 0 && strcmp(m[22].name, "tag") == 0);
}
RUN_TEST_BODY(every_kind_has_its_bytes)

static void literal_tells_name_category_file_and_line_body(void)
{
	char line[64];

	CLIKA_INSTANT("1st name");
	snprintf(line, sizeof(line), "%s:%d", __FILE__, __LINE__ - 1);
	CLIKA_INSTANT_CAT("name", "2nd cat");
	CHECK(watch__collect() == 2);
	CHECK(is(&watch__mark[0], CLIKA_REC_INSTANT, "1st name"));
	CHECK(strcmp(watch__mark[0].cat, "") == 0 && strcmp(watch__mark[0].src, line) == 0);
	CHECK(strcmp(watch__mark[1].cat, "2nd cat") == 0);
	CHECK(watch__mark[1].flags == 0);
}
RUN_TEST_BODY(literal_tells_name_category_file_and_line)

static void arguments_keep_type_key_and_value_body(void)
{
	clika_token t = CLIKA_SPAN_BEGIN_CAT("span", "cat", CLIKA_I64("i", INT64_MIN),
					     CLIKA_U64("u", UINT64_MAX), CLIKA_F64("f", -0.25),
					     CLIKA_STR("s", "text"), CLIKA_STR("empty", ""),
					     CLIKA_STR("null", NULL), CLIKA_I64("g", 7),
					     CLIKA_STR("eight", "12345678"));
	const struct mark *m = watch__mark;

	CLIKA_SPAN_END(t, CLIKA_I64("result", 42));
	CHECK(watch__collect() == 2);
	CHECK(is(m, CLIKA_REC_BEGIN, "span") && m->depth == 0 && m->nargs == 8);
	CHECK(m->args[0].type == CLIKA_ARG_I64 && m->args[0].i == INT64_MIN);
	CHECK(strcmp(m->args[0].key, "i") == 0 && m->args[0].key[2] == 0 && m->args[0].key[3] == 0);
	CHECK(m->args[1].type == CLIKA_ARG_U64 && (uint64_t)m->args[1].i == UINT64_MAX);
	CHECK(m->args[2].type == CLIKA_ARG_F64 && m->args[2].f == -0.25);
	CHECK(m->args[3].type == CLIKA_ARG_STR && strcmp(m->args[3].str, "text") == 0);
	CHECK(strcmp(m->args[4].str, "") == 0 && strcmp(m->args[5].str, "(null)") == 0);
	CHECK(m->args[6].i == 7 && strcmp(m->args[7].str, "12345678") == 0);
	m++;
	CHECK(m->kind == CLIKA_REC_END && m->depth == 0 && m->nargs == 1 && m->args[0].i == 42);
	CHECK(strcmp(m->args[0].key, "result") == 0);
}
RUN_TEST_BODY(arguments_keep_type_key_and_value)

static void long_strings_are_cut_to_a_record_that_fits_body(void)
{
	char text[400];
	const struct mark *m = watch__mark;
	size_t total = 0;

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	CLIKA_INSTANT("one", CLIKA_STR("a", text));
	CLIKA_INSTANT_DYN(text, CLIKA_STR("a", text), CLIKA_STR("b", text), CLIKA_STR("c", text),
			  CLIKA_STR("d", text), CLIKA_STR("e", text), CLIKA_STR("f", text),
			  CLIKA_STR("g", text), CLIKA_I64("last", 5));
	CHECK(watch__collect() == 2);
	CHECK(strlen(m[0].args[0].str) == 255);
	CHECK(m[1].size <= CLIKA_MAX_RECORD && m[1].size > CLIKA_MAX_RECORD - 32);
	CHECK(strlen(m[1].name) == 255 && strlen(m[1].args[0].str) == 255);
	CHECK(m[1].args[7].i == 5);
	for (int i = 0; i < 7; i++)
		total += strlen(m[1].args[i].str);
	CHECK(total > 500);
}
RUN_TEST_BODY(long_strings_are_cut_to_a_record_that_fits)

static void other_names_are_written_inline_body(void)
{
	char name[16] = "made up";
	const struct mark *m = watch__mark;
	clika_token t = CLIKA_SPAN_BEGIN_DYN(name);

	strcpy(name, "changed");
	CLIKA_SPAN_END(t);
	CLIKA_INSTANT_DYN(NULL);
	CLIKA_ASYNC_BEGIN_DYN(name, 1);
	CLIKA_COUNTER_I64_DYN(name, 2);
	CHECK(watch__collect() == 5);
	CHECK(is(&m[0], CLIKA_REC_BEGIN, "made up") && m[0].flags == CLIKA_RECF_INLINE);
	CHECK(m[1].kind == CLIKA_REC_END);
	CHECK(is(&m[2], CLIKA_REC_INSTANT, "(null)"));
	CHECK(is(&m[3], CLIKA_REC_ASYNC_BEGIN, "changed") && m[3].id == 1);
	CHECK(is(&m[4], CLIKA_REC_COUNTER_I64, "changed") && m[4].value == 2);
}
RUN_TEST_BODY(other_names_are_written_inline)

/* Farther than a displacement reaches, and so is the argument's key. */
static void literal_out_of_reach_is_written_inline_body(void)
{
	char *far = (char *)mmap((void *)0x10000000000, 4096, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct clika_arg arg = { CLIKA_ARG_I64, 8, far, 3 };
	clika_token t;

	CHECK(far != MAP_FAILED);
	memcpy(far, "far\0cat\0file:1", 15);
	t = clika__span_begin(far);
	clika__span_end(t);
	t = clika__span_begin_x(far, NULL, 1, &arg);
	clika__span_end(t);
	CHECK(watch__collect() == 4);
	CHECK(is(&watch__mark[0], CLIKA_REC_BEGIN, "far"));
	CHECK(watch__mark[1].kind == CLIKA_REC_END);
	CHECK(is(&watch__mark[2], CLIKA_REC_BEGIN, "far") && watch__mark[2].nargs == 1);
	CHECK(watch__mark[2].args[0].i == 3 && strcmp(watch__mark[2].args[0].key, "") == 0);
}
RUN_TEST_BODY(literal_out_of_reach_is_written_inline)

static void complete_spans_have_the_given_start_body(void)
{
	uint64_t start = CLIKA_START();
	const struct mark *m = watch__mark;

	CLIKA_SPAN_COMPLETE("plain", start);
	CLIKA_SPAN_COMPLETE_CAT("args", "cat", start, CLIKA_I64("i", 1));
	CLIKA_SPAN_COMPLETE_DYN("dynamic", start);
	CLIKA_SPAN_COMPLETE("never begun", 0);
	CHECK(watch__collect() == 4);
	CHECK(is(&m[0], CLIKA_REC_SPAN, "plain") && m[0].ts == start && m[0].end > start);
	CHECK(is(&m[1], CLIKA_REC_BEGIN, "args") && m[1].ts == start && m[1].args[0].i == 1);
	CHECK(m[2].kind == CLIKA_REC_END && m[2].depth == 0 && m[2].ts > start);
	CHECK(is(&m[3], CLIKA_REC_SPAN, "dynamic") && m[3].ts == start);
}
RUN_TEST_BODY(complete_spans_have_the_given_start)

static void complete_span_with_arguments_lies_in_the_open_ones_body(void)
{
	const struct mark *m = watch__mark;
	clika_token a = CLIKA_SPAN_BEGIN("a"), b = CLIKA_SPAN_BEGIN("b");

	CLIKA_SPAN_COMPLETE("c", CLIKA_NOW(), CLIKA_I64("i", 1));
	CLIKA_SPAN_END(b);
	CLIKA_SPAN_END(a);
	CHECK(watch__collect() == 6);
	CHECK(is(&m[0], CLIKA_REC_BEGIN, "a") && is(&m[1], CLIKA_REC_BEGIN, "b"));
	CHECK(is(&m[2], CLIKA_REC_BEGIN, "c") && m[2].depth == 2);
	for (unsigned int i = 3; i < 6; i++)
		CHECK(m[i].kind == CLIKA_REC_END && m[i].depth == 5 - i);
}
RUN_TEST_BODY(complete_span_with_arguments_lies_in_the_open_ones)

static void nested_spans_without_arguments_are_one_record_each_body(void)
{
	const struct mark *m = watch__mark;

	{
		CLIKA_SPAN("outer");
		{
			CLIKA_SPAN("inner");
		}
		{
			CLIKA_SPAN_CAT("inner", "second");
		}
	}
	CHECK(watch__collect() == 3);
	CHECK(is(&m[0], CLIKA_REC_SPAN, "inner") && is(&m[1], CLIKA_REC_SPAN, "inner"));
	CHECK(is(&m[2], CLIKA_REC_SPAN, "outer"));
	CHECK(m[2].ts < m[0].ts && m[0].end < m[1].ts && m[1].end < m[2].end);
	CHECK(watch__mine()->head == 72 && watch__mine()->limit == CLIKA_HALF_BYTES);
}
RUN_TEST_BODY(nested_spans_without_arguments_are_one_record_each)

static void first_hit_registers_the_empty_buffer_body(void)
{
	CLIKA_INSTANT("x");
	CHECK(watch__batches == 1);
	CHECK(watch__batch[0].buffer == watch__mine());
	CHECK(watch__batch[0].from == 0 && watch__batch[0].to == 0);
	CHECK(marks__buffer(&clika_object_v1, watch__mine()->tid) == watch__mine());
}
RUN_TEST_BODY(first_hit_registers_the_empty_buffer)

/* Sizes from the smallest to the largest record, over many halves, with spans open meanwhile. */
static void batches_cover_the_stream_once_and_stay_in_a_half_body(void)
{
	char text[256];
	const struct watch_batch *w;
	clika_token open[20] = { 0 };
	uint64_t at = 0, records = 0;
	int begins = 0, ends = 0, instants = 0, spans = 0, depth = 0, made = 0, written = 0;

	memset(text, 'y', sizeof(text));
	text[255] = 0;
	for (unsigned int i = 0; i < 2500; i++) {
		const char *s = text + 255 - i * 7 % 256;

		if (i % 3 == 0 && depth < 20)
			open[depth++] = CLIKA_SPAN_BEGIN("open"), made++;
		else if (i % 5 == 0 && depth > 0)
			CLIKA_SPAN_END(open[--depth]);
		CLIKA_INSTANT("i", CLIKA_STR("s", s), CLIKA_STR("t", i % 11 ? "" : text));
		written++;
	}
	while (depth > 0)
		CLIKA_SPAN_END(open[--depth]);
	watch__collect();
	for (w = watch__batch; w < watch__batch + watch__batches; w++) {
		CHECK(w->buffer == watch__mine() && w->from == at);
		at = w->to;
		records += w->records;
	}
	CHECK(at == watch__mine()->head && records == watch__mine()->count);
	CHECK(watch__mine()->dropped == 0 && watch__batches > 20);
	for (int i = 0; i < watch__marks; i++) {
		begins += watch__mark[i].kind == CLIKA_REC_BEGIN;
		ends += watch__mark[i].kind == CLIKA_REC_END;
		spans += watch__mark[i].kind == CLIKA_REC_SPAN;
		instants += watch__mark[i].kind == CLIKA_REC_INSTANT;
	}
	CHECK(instants == written && begins == ends && begins + spans == made && begins > 0);
}
RUN_TEST_BODY(batches_cover_the_stream_once_and_stay_in_a_half)

static void open_spans_are_announced_once_at_the_end_of_a_batch_body(void)
{
	clika_token a = CLIKA_SPAN_BEGIN("a"), b = CLIKA_SPAN_BEGIN("b"), c;
	const struct mark *m = watch__mark;

	CHECK(watch__collect() == 2);
	CHECK(is(&m[0], CLIKA_REC_BEGIN, "a") && m[0].depth == 0);
	CHECK(is(&m[1], CLIKA_REC_BEGIN, "b") && m[1].depth == 1 && m[1].ts > m[0].ts);
	CHECK(watch__collect() == 2);
	c = CLIKA_SPAN_BEGIN("c");
	CHECK(watch__collect() == 3);
	CHECK(is(&m[2], CLIKA_REC_BEGIN, "c") && m[2].depth == 2);
	CLIKA_SPAN_END(c);
	CLIKA_SPAN_END(b);
	{
		CLIKA_SPAN("short");
	}
	CLIKA_SPAN_END(a);
	CHECK(watch__collect() == 7);
	CHECK(m[3].kind == CLIKA_REC_END && m[3].depth == 2);
	CHECK(m[4].kind == CLIKA_REC_END && m[4].depth == 1);
	CHECK(is(&m[5], CLIKA_REC_SPAN, "short"));
	CHECK(m[6].kind == CLIKA_REC_END && m[6].depth == 0);
}
RUN_TEST_BODY(open_spans_are_announced_once_at_the_end_of_a_batch)

/* All 64 are open and untold when the half ends, whatever is left of it. */
static void announcements_always_fit_into_the_half_body(void)
{
	clika_token t[CLIKA_MAX_OPEN];
	struct clika_buffer *b;

	for (unsigned int fill = 0; fill < 60; fill++) {
		CLIKA_FLUSH();
		watch__forget();
		b = NULL;
		CLIKA_INSTANT("first");
		b = watch__mine();
		while (b->head % CLIKA_HALF_BYTES < CLIKA_HALF_BYTES - 64 * 24 - 400 + fill * 16)
			CLIKA_INSTANT("fill");
		for (unsigned int i = 0; i < CLIKA_MAX_OPEN; i++) {
			t[i] = CLIKA_SPAN_BEGIN("open");
			CHECK(t[i] != 0);
			CHECK(b->limit + (b->depth - b->announced) * 24ull ==
			      (b->head / CLIKA_HALF_BYTES +
			       (b->head % CLIKA_HALF_BYTES != 0 || b->head == b->flushed)) *
				      CLIKA_HALF_BYTES);
		}
		for (unsigned int i = 0; i < 40; i++)
			CLIKA_INSTANT("over the edge");
		for (unsigned int i = CLIKA_MAX_OPEN; i-- > 0;)
			CLIKA_SPAN_END(t[i]);
		CHECK(b->depth == 0 && b->announced == 0 && b->dropped == 0);
	}
	CHECK(watch__batches >= 1);
}
RUN_TEST_BODY(announcements_always_fit_into_the_half)

static void spans_nested_too_deep_are_counted_and_their_ends_write_nothing_body(void)
{
	clika_token t[CLIKA_MAX_OPEN + 6];
	int spans = 0;

	for (unsigned int i = 0; i < CLIKA_MAX_OPEN + 6; i++) {
		t[i] = i % 2 ? CLIKA_SPAN_BEGIN("deep")
			     : CLIKA_SPAN_BEGIN("deep", CLIKA_I64("i", i));
		CHECK((t[i] != 0) == (i < CLIKA_MAX_OPEN));
	}
	for (unsigned int i = CLIKA_MAX_OPEN + 6; i-- > 0;)
		CLIKA_SPAN_END(t[i]);
	watch__collect();
	for (int i = 0; i < watch__marks; i++)
		spans += watch__mark[i].kind == CLIKA_REC_SPAN ||
			 watch__mark[i].kind == CLIKA_REC_END;
	CHECK(spans == CLIKA_MAX_OPEN);
	CHECK(watch__mine()->dropped == 6 && watch__mine()->depth == 0);
}
RUN_TEST_BODY(spans_nested_too_deep_are_counted_and_their_ends_write_nothing)

static jmp_buf out;

static __attribute__((noinline)) void leave_two_spans_open(void)
{
	clika_token t = CLIKA_SPAN_BEGIN("left"), u = CLIKA_SPAN_BEGIN("left too");

	if (t && u)
		longjmp(out, 1);
}

static void longjmp_over_spans_closes_them_with_the_outer_one_body(void)
{
	const struct mark *m = watch__mark;
	const clika_token t = CLIKA_SPAN_BEGIN("outer");

	if (setjmp(out) == 0)
		leave_two_spans_open();
	CLIKA_SPAN_END(t);
	CHECK(watch__mine()->depth == 0);
	CHECK(watch__collect() == 4);
	CHECK(is(&m[0], CLIKA_REC_BEGIN, "outer") && is(&m[1], CLIKA_REC_BEGIN, "left"));
	CHECK(is(&m[2], CLIKA_REC_BEGIN, "left too") && m[2].depth == 2);
	CHECK(m[3].kind == CLIKA_REC_END && m[3].depth == 0);
}
RUN_TEST_BODY(longjmp_over_spans_closes_them_with_the_outer_one)

static clika_token foreign;

static void begin_foreign(void)
{
	foreign = CLIKA_SPAN_BEGIN("of another thread");
}

static void token_is_good_once_and_for_its_own_span_body(void)
{
	clika_token a = CLIKA_SPAN_BEGIN("a"), b;
	pthread_t t;
	void *arg;
	void (*fn)(void) = begin_foreign;

	CLIKA_SPAN_END(a);
	CLIKA_SPAN_END(a);
	b = CLIKA_SPAN_BEGIN("b");
	CHECK(a != b);
	CLIKA_SPAN_END(a);
	CHECK(watch__mine()->depth == 1);
	memcpy(&arg, &fn, sizeof(arg));
	CHECK(pthread_create(&t, NULL, watch__thread, arg) == 0 && pthread_join(t, NULL) == 0);
	CHECK(foreign != 0);
	CLIKA_SPAN_END(foreign);
	CHECK(watch__mine()->depth == 1);
	CLIKA_SPAN_END(0);
	CLIKA_SPAN_END(0, CLIKA_I64("i", 1));
	CLIKA_SPAN_END(b);
	CHECK(watch__mine()->depth == 0 && watch__mine()->count == 2);
	CHECK(watch__mine()->dropped == 0);
}
RUN_TEST_BODY(token_is_good_once_and_for_its_own_span)

static void end_follows_its_begin_not_the_semaphore_body(void)
{
	clika_token a = CLIKA_SPAN_BEGIN("seen"), b;

	clika_semaphore_v1 = 0;
	b = CLIKA_SPAN_BEGIN("unseen");
	CHECK(b == 0 && CLIKA_START() == 0 && !CLIKA_ENABLED());
	CLIKA_SPAN_END(a);
	clika_semaphore_v1 = 1;
	CLIKA_SPAN_END(b);
	CHECK(watch__collect() == 1);
	CHECK(is(&watch__mark[0], CLIKA_REC_SPAN, "seen"));
}
RUN_TEST_BODY(end_follows_its_begin_not_the_semaphore)

static int evaluated;

static int side_effect(void)
{
	return ++evaluated;
}

static void disabled_markers_evaluate_nothing_body(void)
{
	clika_token t;

	clika_semaphore_v1 = 0;
	{
		CLIKA_SPAN("span", CLIKA_I64("i", side_effect()));
		CLIKA_INSTANT("i", CLIKA_I64("i", side_effect()));
	}
	t = CLIKA_SPAN_BEGIN_DYN(side_effect() ? "x" : "y");
	CLIKA_SPAN_END(t, CLIKA_I64("i", side_effect()));
	CLIKA_COUNTER_I64("c", side_effect());
	CLIKA_ALLOC(side_effect(), side_effect(), side_effect(), "pool");
	CLIKA_REQUEST_OUTPUT("r", side_effect(), side_effect());
	CHECK(evaluated == 0 && watch__mine() == NULL && watch__batches == 0);
	clika_semaphore_v1 = 1;
	CLIKA_COUNTER_I64("c", side_effect());
	CHECK(evaluated == 1);
}
RUN_TEST_BODY(disabled_markers_evaluate_nothing)

static void markers_leave_errno_alone_body(void)
{
	errno = 77;
	for (int i = 0; i < 2000; i++)
		CLIKA_INSTANT("x");
	CLIKA_THREAD_NAME("name");
	CHECK(errno == 77);
}
RUN_TEST_BODY(markers_leave_errno_alone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_has_its_bytes),
		cmocka_unit_test(literal_tells_name_category_file_and_line),
		cmocka_unit_test(arguments_keep_type_key_and_value),
		cmocka_unit_test(long_strings_are_cut_to_a_record_that_fits),
		cmocka_unit_test(other_names_are_written_inline),
		cmocka_unit_test(literal_out_of_reach_is_written_inline),
		cmocka_unit_test(complete_spans_have_the_given_start),
		cmocka_unit_test(complete_span_with_arguments_lies_in_the_open_ones),
		cmocka_unit_test(nested_spans_without_arguments_are_one_record_each),
		cmocka_unit_test(first_hit_registers_the_empty_buffer),
		cmocka_unit_test(batches_cover_the_stream_once_and_stay_in_a_half),
		cmocka_unit_test(open_spans_are_announced_once_at_the_end_of_a_batch),
		cmocka_unit_test(announcements_always_fit_into_the_half),
		cmocka_unit_test(spans_nested_too_deep_are_counted_and_their_ends_write_nothing),
		cmocka_unit_test(longjmp_over_spans_closes_them_with_the_outer_one),
		cmocka_unit_test(token_is_good_once_and_for_its_own_span),
		cmocka_unit_test(end_follows_its_begin_not_the_semaphore),
		cmocka_unit_test(disabled_markers_evaluate_nothing),
		cmocka_unit_test(markers_leave_errno_alone),
	};

	if (watch__start() != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
