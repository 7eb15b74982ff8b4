// SPDX-License-Identifier: Apache-2.0
/*
 * Exports compared with files that were looked at and found right. Each scene is kept as
 * NAME.clika, so that recordings of today stay readable, and in each format of the table below.
 * CLIKA_GOLDEN_UPDATE=1 writes the exports anew, CLIKA_GOLDEN_UPDATE=all the
 * recordings too; read the difference before you commit it.
 */
#include "tests/common/export_text.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SEC NSEC_PER_SEC
#define T0 (3600 * SEC)
#define MS(n) (T0 + (uint64_t)((n)*1000000))

/* --- scenes ---------------------------------------------------------------------------------- */

static struct event *at(struct rec *b, uint32_t thread, uint8_t kind, uint64_t ts, const char *name,
			uint64_t id, uint64_t value)
{
	struct event *ev = rec__event(b, thread, kind, ts, name);

	ev->id = id;
	ev->value = value;
	return ev;
}

static void layer(struct rec *b, uint32_t thread, uint64_t ts, uint64_t dur, const char *name,
		  const char *shape)
{
	struct event *ev = rec__span(b, thread, ts, dur, name);

	ev->cat = rec__id(b, "layer");
	ev->src = rec__id(b, "engine.c:120");
	rec__arg_str(b, "shape", shape, strlen(shape));
}

static void batch(struct rec *b, uint32_t worker, uint64_t ts, uint64_t number)
{
	rec__span(b, worker, ts, 8000000, "batch")->cat = rec__id(b, "batch");
	rec__arg_u64(b, "size", 2);
	at(b, worker, EV_FLOW_IN, ts + 5000, "request", number * 2, 0);
	at(b, worker, EV_FLOW_IN, ts + 6000, "request", number * 2 + 1, 0);
	at(b, worker, EV_ALLOC, ts + 10000, NULL, 0x1000 + number, 1 << 20)->pool =
		rec__id(b, "activations");
	at(b, worker, EV_ASYNC_BEGIN, ts + 20000, "copy", number, 0);
	at(b, worker, EV_ASYNC_END, ts + 900000, "copy", number, 0);
	layer(b, worker, ts + 1000000, 4000000, "conv", "2x16x28x28");
	layer(b, worker, ts + 1500000, 3000000, "gemm", "144x784");
	layer(b, worker, ts + 5500000, 1000000, "softmax", "2x10");
	at(b, worker, EV_FREE, ts + 7000000, NULL, 0x1000 + number, 0);
	at(b, worker, EV_REQUEST_FIRST, ts + 7100000, "digit", number * 2, 0);
	at(b, worker, EV_REQUEST_OUTPUT, ts + 7200000, "digit", number * 2, 1);
	at(b, worker, EV_REQUEST_OUTPUT, ts + 7300000, "digit", number * 2 + 1, 1);
}

static void scene_serving(struct rec *b)
{
	uint32_t p = rec__process(b, 4711, "digits"), main = rec__thread(b, p, 4711, "frontend");
	uint32_t worker = rec__thread(b, p, 4712, "worker 0");
	struct count_info n = { .emitted = 300, .recorded = 300 };
	uint64_t i;

	rec__process_info(b, p)->container = (char *)"3f4e1c0ffee0";
	rec__process_info(b, p)->cgroup = (char *)"/system.slice/digits.service";
	rec__process_info(b, p)->label = (char *)"digits server";
	rec__process_info(b, p)->exe = (char *)"/usr/bin/digits";
	rec__process_info(b, p)->cmdline = (char *)"digits --serve --rate 100";
	rec__meta(b)->created_realtime = 1700000000 * SEC;
	rec__anchor(b, T0, 1700000000 * SEC);
	rec__anchor(b, MS(100), 1700000000 * SEC + 100000000);
	rec__capture(b, MS(0), MS(100), "default");
	rec__capture(b, MS(20), MS(42), "steady");
	rec__counts(b, &n);
	at(b, worker, EV_DEVICE_NAME, MS(0.1), "cpu arena", 0, 0);
	at(b, worker, EV_RESERVE, MS(0.2), NULL, 0x1000, 64 << 20);
	for (i = 0; i < 9; i++) {
		uint64_t ts = MS(1) + i * 10000000;

		rec__span(b, main, ts, 100000, "accept");
		at(b, main, EV_REQUEST_BEGIN, ts + 10000, "digit", i * 2, 0);
		at(b, main, EV_FLOW_OUT, ts + 20000, "request", i * 2, 0);
		at(b, main, EV_REQUEST_BEGIN, ts + 30000, "digit", i * 2 + 1, 0);
		at(b, main, EV_FLOW_OUT, ts + 40000, "request", i * 2 + 1, 0);
		at(b, main, EV_COUNTER_I64, ts + 50000, "queue depth", 0, 2);
		batch(b, worker, ts + 1000000, i);
		at(b, main, EV_COUNTER_I64, ts + 1050000, "queue depth", 0, 0);
		at(b, main, EV_REQUEST_END, ts + 9500000, "digit", i * 2, 0);
		at(b, main, EV_REQUEST_END, ts + 9600000, "digit", i * 2 + 1, 0);
	}
	at(b, main, EV_INSTANT, MS(99), "drain", 0, 0);
}

static void scene_repaired(struct rec *b)
{
	uint32_t p = rec__process(b, 100, "bad\x1b[31m\xff"), t = rec__thread(b, p, 100, "main");
	struct count_info n = { .emitted = 1020, .recorded = 1000, .lost = 20, .filtered = 3 };
	double inf = __builtin_inf();

	rec__process_info(b, p)->ended = MS(9);
	rec__anchor(b, T0, 1700000000 * SEC);
	rec__anchor(b, MS(10), 1700000000 * SEC + 10000000);
	rec__counts(b, &n);
	rec__loss(b, LOSS_RING_FULL, 20, 0);
	rec__loss(b, LOSS_READ_FAULT, 0, 64);
	rec__warning(b, "late-attach", "libworker.so was mapped 1.2 s before it was attached");
	rec__span(b, t, MS(0.5), 100, "old")->flags = EVS_NO_BEGIN;
	rec__span(b, t, MS(1), 1000000, "parent");
	rec__span(b, t, MS(1.5), 1000000, "crosses its parent");
	rec__span(b, t, MS(3), 10, "\"quotes\", \\, \n and \xc3\x28 bytes");
	rec__arg_f64(b, "inf", inf);
	rec__arg_u64(b, "all ones", UINT64_MAX);
	rec__arg_str(b, "prompt", "line\none", 8);
	rec__open_span(b, t, MS(4), 0, "never ended");
	rec__span(b, t, MS(5), UINT64_MAX / 4, "absurd length");
	rec__event(b, t, EV_INSTANT, 17, "absurd time");
	at(b, t, EV_ASYNC_BEGIN, MS(6), "never ended", 1, 0);
	at(b, t, EV_ASYNC_END, MS(6.1), "never begun", 2, 0);
	at(b, t, EV_REQUEST_END, MS(6.2), "never begun", 3, 0);
	at(b, t, EV_REQUEST_BEGIN, MS(6.3), "never ended", 4, 0);
	at(b, t, EV_FREE, MS(6.4), NULL, 0x1234, 0);
	at(b, t, EV_FLOW_OUT, MS(6.5), "nobody listens", 5, 0);
	at(b, t, EV_FLOW_IN, MS(6.6), "nobody sent", 6, 0);
	rec__finish_file(b, false);
}

static void scene_images(struct rec *b)
{
	uint32_t sh = rec__process(b, 50, "sh"), sh_main = rec__thread(b, sh, 50, "sh");
	uint32_t app = rec__process(b, 50, "app"), app_main = rec__thread(b, app, 50, "app");
	uint32_t late = rec__process(b, 50, "later"), late_main = rec__thread(b, late, 50, "later");
	uint32_t twin = rec__thread(b, app, 51, "helper"), other = rec__process(b, 60, "other");
	uint32_t moved = rec__thread(b, other, 51, "same tid"),
		 zero = rec__thread(b, other, 0, "zero");
	uint32_t threads[] = { sh_main, app_main, late_main, twin, moved, zero };
	size_t i;

	rec__process_info(b, app)->exec_gen = 1;
	rec__process_info(b, app)->start = rec__process_info(b, sh)->start;
	rec__process_info(b, late)->start = 900 * SEC;
	rec__process_info(b, sh)->ended = MS(1.5);
	rec__process_info(b, app)->ended = MS(3.5);
	rec__anchor(b, T0, 1700000000 * SEC);
	for (i = 0; i < ARRAY_SIZE(threads); i++) {
		rec__span(b, threads[i], MS(1) + i * 500000, 250000, "work");
		at(b, threads[i], EV_COUNTER_I64, MS(1) + i * 500000, "depth", 0, i);
		at(b, threads[i], EV_ALLOC, MS(1) + i * 500000 + 10, NULL, i, 100 * (i + 1));
	}
}

static const struct scene {
	const char *name;
	void (*build)(struct rec *b);
} scenes[] = {
	{ "serving", scene_serving },
	{ "repaired", scene_repaired },
	{ "images", scene_images },
};

/* --- comparing ------------------------------------------------------------------------------- */

static char *path_of(const char *scene, const char *suffix)
{
	static char path[256];
	const char *slash = strrchr(__FILE__, '/');

	snprintf(path, sizeof(path), "%.*s/%s.%s", (int)(slash - __FILE__), __FILE__, scene,
		 suffix);
	return path;
}

static void write_file(const char *path, const char *text, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static char *export_file(const char *path, const char *format, size_t *len)
{
	struct clika_prof_error err = { 0 };
	struct clika_recording *r;
	char *text = NULL;

	if (clika_recording__open(path, NULL, &r, &err) ||
	    clika_recording__export_mem(r, format, NULL, &text, len, &err))
		fail_msg("%s: %s", path, err.msg);
	clika_recording__close(r);
	return text;
}

/* The size of the file is the format's business, not the summary's. */
static void normalise_file_size(char *text)
{
	char *line = strstr(text, "\nfile "), *from, *to;

	if (!line || !(from = strstr(line, " events, ")) || !(to = strchr(from + 9, ',')))
		return;
	from += 9;
	memmove(from, to, strlen(to) + 1);
}

/* Where the file was cut is the recorder's business, too. */
static void normalise_segments(char *text)
{
	char *from = strstr(text, " segments,"), *to;

	if (!from || !(to = strstr(from, "after them)")))
		return;
	while (from > text && from[-1] != '(')
		from--;
	memmove(from, to, strlen(to) + 1);
}

/* What comes behind @before, up to @end, which stays. */
static void cut(char *text, const char *before, char end)
{
	char *from = text, *to;

	while ((from = strstr(from, before))) {
		from += strlen(before);
		to = strchr(from, end);
		if (to)
			memmove(from, to, strlen(to) + 1);
	}
}

static void normalise(char *text)
{
	normalise_file_size(text);
	cut(text, "\n\"recording\":{", '}');
	cut(text, "\"evidence\":{\"segments\":", '}');
	normalise_segments(text);
}

static void assert_same_as_file(const char *what, char *text, const char *path)
{
	char *expected = NULL;
	size_t len, i;

	assert_int_equal(file__read_all(AT_FDCWD, path, 16u << 20, &expected, &len), 0);
	normalise(expected);
	normalise(text);
	for (i = 0; expected[i] && expected[i] == text[i]; i++)
		;
	if (expected[i] || text[i])
		fail_msg("%s differs from %s at byte %zu:\n%.300s\ninstead of\n%.300s", what, path,
			 i, text + (i > 100 ? i - 100 : 0), expected + (i > 100 ? i - 100 : 0));
	free(expected);
}

static const struct {
	const char *format, *suffix;
} outputs[] = {
	{ "chrome", "chrome.json" },
	{ "summary", "summary.txt" },
	{ "report", "report.json" },
	{ "memory", "memory_stats.json" },
	{ "folded", "folded" },
	{ "flamegraph", "flamegraph.svg" },
	{ "speedscope", "speedscope.json" },
	{ "firefox", "firefox.json" },
	{ "kineto", "kineto.json" },
	{ "csv", "csv" },
	{ "otlp", "otlp.jsonl" },
};

static void update(const struct scene *scene)
{
	size_t i, len;
	struct rec *b;
	char *text;

	if (!strcmp(getenv("CLIKA_GOLDEN_UPDATE"), "all")) {
		b = rec__new();
		scene->build(b);
		unlink(path_of(scene->name, "clika"));
		rec__write(b, path_of(scene->name, "clika"));
		rec__free(b);
	}
	for (i = 0; i < ARRAY_SIZE(outputs); i++) {
		text = export_file(path_of(scene->name, "clika"), outputs[i].format, &len);
		write_file(path_of(scene->name, outputs[i].suffix), text, len);
		free(text);
	}
}

static void compare(const struct scene *scene)
{
	struct rec *b = rec__new();
	size_t i, len;
	char *text;

	scene->build(b);
	for (i = 0; i < ARRAY_SIZE(outputs); i++) {
		text = export_file(path_of(scene->name, "clika"), outputs[i].format, &len);
		assert_same_as_file("the golden recording", text,
				    path_of(scene->name, outputs[i].suffix));
		free(text);
		text = export__text(b, outputs[i].format, NULL, NULL, &len);
		assert_same_as_file("the recording of today", text,
				    path_of(scene->name, outputs[i].suffix));
		free(text);
	}
	rec__free(b);
}

static void run(void **state)
{
	const struct scene *scene = *state;

	if (getenv("CLIKA_GOLDEN_UPDATE"))
		update(scene);
	compare(scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "exports_of_a_serving_process_are_as_before", run, NULL, NULL,
		  (void *)(uintptr_t)&scenes[0] },
		{ "exports_of_a_damaged_recording_are_as_before", run, NULL, NULL,
		  (void *)(uintptr_t)&scenes[1] },
		{ "exports_of_reused_pids_are_as_before", run, NULL, NULL,
		  (void *)(uintptr_t)&scenes[2] },
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
