// SPDX-License-Identifier: Apache-2.0
/* The text summary: what it must say, and how it may look. */
#include "export/text_out.h"
#include "tests/common/export_text.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
	struct rec *b;
	uint32_t server, main, worker;
	char *text;
	size_t len;
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

	free(w->text);
	rec__free(w->b);
	free(w);
	return 0;
}

static void export_text(struct world *w, const struct clika_export_opts *o, unsigned int columns)
{
	free(w->text);
	w->text = export__text(w->b, "summary", NULL, o, &w->len);
	assert_plain_text(w->text, w->len, columns);
}

static void assert_says(const struct world *w, const char *what)
{
	if (!strstr(w->text, what))
		fail_msg("\"%s\" is missing in\n%s", what, w->text);
}

/* The words of a line, each with one space between. */
static void assert_row(const struct world *w, const char *words)
{
	size_t i, n = 0;
	char *flat = malloc(w->len + 1);

	assert_non_null(flat);
	for (i = 0; i < w->len; i++)
		if (w->text[i] != ' ' || (i && w->text[i - 1] != ' '))
			flat[n++] = w->text[i];
	flat[n] = '\0';
	if (!strstr(flat, words))
		fail_msg("\"%s\" is missing in\n%s", words, w->text);
	free(flat);
}

static void first_line_says_where_the_time_goes(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10000, "step");
	rec__span(w->b, w->main, 1500, 7500, "conv2d");
	export_text(w, NULL, 100);
	assert_int_equal(
		strncmp(w->text, "75.0% of the time in spans is conv2d: 7.50 us in 1 call", 55), 0);
	assert_row(w, "\noperation calls self share total mean p50 p90 p99 max\n"
		      "conv2d 1 7.50 us 75.0% 7.50 us 7.50 us 7.50 us 7.50 us 7.50 us 7.50 us\n"
		      "step 1 2.50 us 25.0% 10.0 us 10.0 us 10.0 us 10.0 us 10.0 us 10.0 us\n");
}

static void says_zero_losses_and_no_warnings_as_such(void **state)
{
	struct count_info n = { .emitted = 1, .recorded = 1 };
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "a");
	rec__counts(w->b, &n);
	export_text(w, NULL, 100);
	assert_says(w, "\nWarnings\n--------\nnone\n");
	assert_true(strstr(w->text, "\nOperations") < strstr(w->text, "\nWarnings"));
	assert_says(w, "emitted 1 = recorded 1 + lost 0");
	assert_row(w, "\n ring buffer full 0\n");
	assert_row(w, "\n probe missed by the kernel 0\n");
}

static void shows_losses_with_their_cause(void **state)
{
	struct count_info n = { .emitted = 2000, .recorded = 766, .lost = 1234 };
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "a");
	rec__counts(w->b, &n);
	rec__loss(w->b, LOSS_RING_FULL, 1234, 0);
	rec__loss(w->b, LOSS_READ_FAULT, 0, 55);
	export_text(w, NULL, 100);
	assert_row(w, "\n ring buffer full 1,234\n");
	assert_row(w, "\n target memory could not be read 0, at most 55 more\n");
	assert_says(w, "lost: 1234 of 2000 records lost");
	assert_non_null(strstr(w->text, "\nLOST      1234 of 2000 records lost"));
	assert_true(strstr(w->text, "\nLOST ") < strstr(w->text, "\nOperations"));
}

static void tells_a_few_warnings_of_a_kind_and_counts_the_others(void **state)
{
	struct world *w = *state;
	char text[32];
	int i;

	rec__span(w->b, w->main, 1000, 10, "a");
	for (i = 1; i <= 9; i++) {
		snprintf(text, sizeof(text), "refusal %d", i);
		rec__warning(w->b, i == 5 ? "seldom" : "often", text);
	}
	export_text(w, NULL, 100);
	assert_says(w, "often: refusal 1\noften: refusal 2\noften: refusal 3\n"
		       "often: 5 more of these; report.json has them all\nseldom: refusal 5\n");
}

static void fits_the_width_that_is_asked_for(void **state)
{
	struct clika_export_opts o;
	struct world *w = *state;
	char name[400];
	unsigned int i;

	clika_export_opts__init(&o);
	for (i = 0; i < 40; i++) {
		memset(name, 'a' + (int)(i % 26), i * 9);
		name[i * 9] = '\0';
		rec__span(w->b, w->main, 1000 + i * 100000000000ull, 99999999999 - i, name);
	}
	rec__warning(w->b, "long",
		     "words and words and words and words and words and words and words "
		     "and words and words and words and words and words and words");
	export_text(w, NULL, 100);
	for (o.columns = 80; o.columns < 200; o.columns += 13)
		export_text(w, &o, o.columns);
	assert_says(w, "... and 10 more operations with");
}

static void names_from_targets_cannot_send_control_bytes(void **state)
{
	struct world *w = *state;
	const char *bad = "\x1b[2J\n\r\xff\xc2\x85 end";

	rec__process_info(w->b, w->server)->label = (char *)"\x1b]52;c;aGk=\a";
	rec__process_info(w->b, w->server)->exe = (char *)"/bin/\x08\x08";
	rec__meta(w->b)->command = (char *)"rec\x1bord";
	rec__thread_info(w->b, w->main)->name = (char *)bad;
	rec__span(w->b, w->main, 1000, 10, bad);
	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 1001, bad)->id = 1;
	rec__event(w->b, w->main, EV_ASYNC_BEGIN, 1001, bad)->id = 1;
	rec__event(w->b, w->main, EV_ALLOC, 1002, NULL)->pool = rec__id(w->b, bad);
	rec__warning(w->b, bad, bad);
	export_text(w, NULL, 100);
	assert_says(w, "\\x1b[2J\\x0a");
}

static void shows_requests_memory_waits_and_captures(void **state)
{
	struct world *w = *state;
	struct event *ev;

	rec__capture(w->b, 1000, 101000, "bench");
	rec__span(w->b, w->main, 1000, 1000, "enqueue");
	rec__event(w->b, w->main, EV_FLOW_OUT, 1500, "job")->id = 1;
	rec__span(w->b, w->worker, 3000, 4000, "run");
	rec__event(w->b, w->worker, EV_FLOW_IN, 3500, "job")->id = 1;
	ev = rec__event(w->b, w->worker, EV_ALLOC, 3600, NULL);
	ev->id = 1;
	ev->value = 3u << 20;
	ev->pool = rec__id(w->b, "arena");
	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 1000, "chat")->id = 1;
	rec__event(w->b, w->main, EV_REQUEST_FIRST, 11000, "chat")->id = 1;
	ev = rec__event(w->b, w->main, EV_REQUEST_OUTPUT, 50000, "chat");
	ev->id = 1;
	ev->value = 21;
	rec__event(w->b, w->main, EV_REQUEST_END, 51000, "chat")->id = 1;
	rec__event(w->b, w->main, EV_INSTANT, 101000, "end");
	export_text(w, NULL, 100);
	assert_says(w, "captures  \"bench\": 100 us from 0 ns, 2 spans");
	assert_row(w, "\njob > run 1 2.00 us 2.00 us 2.00 us 2.00 us 2.00 us 4.00 us\n");
	assert_says(w, "chat: 1 finished (10000/s)");
	assert_row(w, "\n latency 1 50.0 us 50.0 us");
	assert_row(w, "\n time to first output 1 10.0 us");
	assert_row(w, "\n time per output unit 1 2.00 us");
	assert_says(w, "device 0: peak 3.00 MiB");
	assert_row(w, "\nrun 1 3.00 MiB 0 0 B\n");
	assert_row(w, "\narena 1 3.00 MiB 3.00 MiB 3.00 MiB\n");
}

static void says_that_a_file_is_incomplete(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "a");
	rec__finish_file(w->b, false);
	export_text(w, NULL, 100);
	assert_says(w, "INCOMPLETE");
	assert_says(w, "incomplete: the recorder did not finish the file");
}

static void says_that_nothing_was_recorded(void **state)
{
	struct world *w = *state;

	export_text(w, NULL, 100);
	assert_int_equal(strncmp(w->text, "No spans", 8), 0);
}

static void processes_show_container_and_cgroup(void **state)
{
	struct world *w = *state;

	rec__process_info(w->b, w->server)->container = (char *)"c0ffee";
	rec__process_info(w->b, w->server)->cgroup = (char *)"/kube/pod1";
	rec__process_info(w->b, w->server)->ns_pid = 7;
	rec__span(w->b, w->main, 1000, 10, "a");
	export_text(w, NULL, 100);
	assert_says(w, "100 server, sees itself as 7, container c0ffee, cgroup /kube/pod1");
}

static void durations_have_three_digits_and_a_unit(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0 ns" },
		{ 999, "999 ns" },
		{ 1000, "1.00 us" },
		{ 9994, "9.99 us" },
		{ 9995, "10.0 us" },
		{ 99949, "99.9 us" },
		{ 99950, "100 us" },
		{ 999499, "999 us" },
		{ 999500, "1.00 ms" },
		{ 12345678, "12.3 ms" },
		{ 999499999, "999 ms" },
		{ 999500000, "1.00 s" },
		{ 59900000000, "59.9 s" },
		{ 3600000000000, "3600 s" },
		{ 9999500000000, "2.78 h" },
		{ UINT64_MAX, "5124096 h" },
	};
	char text[TEXT_CELL];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		text__duration(text, cases[i].ns);
		assert_string_equal(text, cases[i].text);
	}
}

static void bytes_and_counts_are_readable(void **state)
{
	char text[TEXT_CELL];

	(void)state;
	text__bytes(text, 999);
	assert_string_equal(text, "999 B");
	text__bytes(text, 1000);
	assert_string_equal(text, "0.98 KiB");
	text__bytes(text, 1048576);
	assert_string_equal(text, "1.00 MiB");
	text__bytes(text, UINT64_MAX);
	assert_string_equal(text, "16.0 EiB");
	text__signed_bytes(text, INT64_MIN);
	assert_string_equal(text, "-8.00 EiB");
	text__count(text, 1234567);
	assert_string_equal(text, "1,234,567");
	text__count(text, 12);
	assert_string_equal(text, "12");
	text__count(text, UINT64_MAX);
	assert_string_equal(text, "18446744073709551615");
	text__percent(text, 1, 3);
	assert_string_equal(text, "33.3%");
	text__percent(text, 1, 0);
	assert_string_equal(text, "0.0%");
	text__rate(text, 5, 2 * NSEC_PER_SEC);
	assert_string_equal(text, "2.50/s");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(first_line_says_where_the_time_goes),
		TEST(says_zero_losses_and_no_warnings_as_such),
		TEST(tells_a_few_warnings_of_a_kind_and_counts_the_others),
		TEST(shows_losses_with_their_cause),
		TEST(fits_the_width_that_is_asked_for),
		TEST(names_from_targets_cannot_send_control_bytes),
		TEST(shows_requests_memory_waits_and_captures),
		TEST(says_that_a_file_is_incomplete),
		TEST(says_that_nothing_was_recorded),
		TEST(processes_show_container_and_cgroup),
		cmocka_unit_test(durations_have_three_digits_and_a_unit),
		cmocka_unit_test(bytes_and_counts_are_readable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
