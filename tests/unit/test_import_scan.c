// SPDX-License-Identifier: Apache-2.0
/* Traces of other tools are foreign input: whole, cut anywhere, or nonsense. */
#include "user/prof/import_scan.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

struct seen {
	struct buf events, members;
	int stop_at, n;
};

static int on_event(void *ctx, struct json_text e)
{
	struct seen *s = ctx;

	buf__printf(&s->events, "%.*s|", (int)(e.end - e.p), e.p);
	return ++s->n == s->stop_at ? -EINTR : 0;
}

static int on_member(void *ctx, const char *key, struct json_text v)
{
	struct seen *s = ctx;

	buf__printf(&s->members, "%s=%.*s|", key, (int)(v.end - v.p), v.p);
	return 0;
}

static char path[] = "/tmp/clika-scan-XXXXXX";

static void put(const char *text, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static int scan(struct trace_scan *t, struct seen *s)
{
	struct clika_error err = { 0 };
	int code;

	buf__free(&s->events);
	buf__free(&s->members);
	*s = (struct seen){ .stop_at = s->stop_at };
	*t = (struct trace_scan){ .event = on_event, .member = on_member, .ctx = s };
	code = trace_scan__file(t, path, &err);
	buf__u8(&s->events, 0);
	buf__u8(&s->members, 0);
	if (code && code != -EINTR)
		assert_true(err.msg[0]);
	return code;
}

static void drop(struct seen *s)
{
	buf__free(&s->events);
	buf__free(&s->members);
}

static const char object[] = "{\"schemaVersion\": 1, \"deviceProperties\":[{\"id\":0}],\n"
			     "\"traceEvents\": [ {\"a\":\"x]}\\\"\"}, 5 ,{\"b\":{\"c\":[1]}} ],"
			     "\"base\":123, \"s\":\"t\"}";

static void gives_events_and_members_of_an_object(void **state)
{
	struct seen s = { 0 };
	struct trace_scan t;

	(void)state;
	put(object, strlen(object));
	assert_int_equal(scan(&t, &s), 0);
	assert_string_equal((char *)s.events.data, "{\"a\":\"x]}\\\"\"}|{\"b\":{\"c\":[1]}}|");
	assert_string_equal((char *)s.members.data,
			    "schemaVersion=1|deviceProperties=[{\"id\":0}]|base=123|s=\"t\"|");
	assert_false(t.array);
	assert_false(t.cut);
	assert_int_equal(t.events, 3);
	drop(&s);
}

static void gives_events_of_an_array(void **state)
{
	static const char *const same[] = { "[{},{}]", " [\n{} , {} ] \n", "[{},{},]" };
	struct seen s = { 0 };
	struct trace_scan t;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(same); i++) {
		put(same[i], strlen(same[i]));
		assert_int_equal(scan(&t, &s), 0);
		assert_string_equal((char *)s.events.data, "{}|{}|");
		assert_true(t.array);
		assert_false(t.cut);
	}
	drop(&s);
}

static void reads_packed_files(void **state)
{
	struct seen s = { 0 };
	struct trace_scan t;
	gzFile z = gzopen(path, "w");

	(void)state;
	assert_int_equal(gzwrite(z, object, (unsigned int)strlen(object)), strlen(object));
	gzclose(z);
	assert_int_equal(scan(&t, &s), 0);
	assert_int_equal(s.n, 2);
	drop(&s);
}

static void says_where_a_file_is_cut(void **state)
{
	struct seen s = { 0 };
	struct trace_scan t;
	size_t len;
	int code;

	(void)state;
	for (len = 1; len < strlen(object); len++) {
		put(object, len);
		code = scan(&t, &s);
		assert_true(code == 0 && t.cut);
	}
	put("", 0);
	assert_int_equal(scan(&t, &s), -EBADMSG);
	drop(&s);
}

static void stops_when_told(void **state)
{
	struct seen s = { .stop_at = 1 };
	struct trace_scan t;

	(void)state;
	put(object, strlen(object));
	assert_int_equal(scan(&t, &s), -EINTR);
	assert_int_equal(s.n, 1);
	drop(&s);
}

static void passes_over_what_is_too_large(void **state)
{
	struct seen s = { 0 };
	struct trace_scan t;
	struct buf b = { 0 };
	size_t i;

	(void)state;
	buf__printf(&b, "{\"big\":\"");
	for (i = 0; i < 70000; i++)
		buf__u8(&b, 'x');
	buf__printf(&b, "\",\"traceEvents\":[{\"a\":\"");
	for (i = 0; i < 3u << 20; i++)
		buf__u8(&b, 'y');
	buf__printf(&b, "\"},{\"small\":1}],\"base\":7}");
	put((const char *)b.data, b.len);
	assert_int_equal(scan(&t, &s), 0);
	assert_string_equal((char *)s.events.data, "{\"small\":1}|");
	assert_string_equal((char *)s.members.data, "base=7|");
	assert_int_equal(t.large, 1);
	buf__free(&b);
	drop(&s);
}

static void survives_any_bytes(void **state)
{
	static const char alphabet[] = "[]{}\",:\\ 1x\n";
	struct seen s = { 0 };
	struct trace_scan t;
	uint64_t x = 1;
	char text[64];
	int round;
	size_t i, len;

	(void)state;
	for (round = 0; round < 1000; round++) {
		len = 1 + (size_t)round % sizeof(text);
		for (i = 0; i < len; i++) {
			x = hash__mix(x, i);
			text[i] = alphabet[x % (sizeof(alphabet) - 1)];
		}
		text[0] = round % 2 ? '[' : '{';
		put(text, len);
		scan(&t, &s);
	}
	drop(&s);
}

static void microseconds_become_nanoseconds_exactly(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = {
		{ "0", 0 },
		{ "1", 1000 },
		{ "-1.5", -1500 },
		{ "0.001", 1 },
		{ "12.3456", 12345 },
		{ "1700000000000000.123", 1700000000000000123 },
		{ "7812345678901.999", 7812345678901999 },
		{ "1e3", 1000000 },
		{ "2.5E-1", 250 },
	};
	static const char *const bad[] = { "",      "-",
					   "x",     "\"1\"",
					   "null",  "9300000000000000000",
					   "1e300", "99999999999999999999999",
					   "[1]" };
	struct json_text t;
	int64_t ns;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		t = (struct json_text){ good[i].text, good[i].text + strlen(good[i].text) };
		assert_true(trace_scan__us(t, &ns));
		assert_int_equal(ns, good[i].ns);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		t = (struct json_text){ bad[i], bad[i] + strlen(bad[i]) };
		assert_false(trace_scan__us(t, &ns));
	}
	assert_false(trace_scan__us((struct json_text){ 0 }, &ns));
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_events_and_members_of_an_object),
		cmocka_unit_test(gives_events_of_an_array),
		cmocka_unit_test(reads_packed_files),
		cmocka_unit_test(says_where_a_file_is_cut),
		cmocka_unit_test(stops_when_told),
		cmocka_unit_test(passes_over_what_is_too_large),
		cmocka_unit_test(survives_any_bytes),
		cmocka_unit_test(microseconds_become_nanoseconds_exactly),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
