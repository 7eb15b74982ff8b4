// SPDX-License-Identifier: Apache-2.0
/* The streaming emitter: escaping, exact numbers, commas. */
#include "export/json_emit.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

struct bench {
	struct buf b;
	struct json j;
	struct outfile *out;
};

static void start(struct bench *t)
{
	memset(t, 0, sizeof(*t));
	assert_int_equal(outfile__memory(&t->b, &t->out), 0);
	json__init(&t->j, t->out);
}

static const char *finish(struct bench *t)
{
	assert_int_equal(json__flush(&t->j), 0);
	assert_int_equal(outfile__commit(t->out, NULL), 0);
	buf__append(&t->b, "", 1);
	json__free(&t->j);
	return (const char *)t->b.data;
}

static void assert_str(const char *s, size_t len, const char *expected)
{
	struct buf escaped = { 0 };
	struct bench t;

	start(&t);
	json__str(&t.j, s, len);
	assert_string_equal(finish(&t), expected);
	json__escape(&escaped, s, len);
	assert_int_equal(escaped.len, strlen(expected));
	assert_memory_equal(escaped.data, expected, escaped.len);
	buf__free(&escaped);
	buf__free(&t.b);
}

static void writes_commas_where_they_belong(void **state)
{
	struct bench t;

	(void)state;
	start(&t);
	json__object(&t.j);
	json__key(&t.j, "a");
	json__array(&t.j);
	json__u64(&t.j, 1);
	json__object(&t.j);
	json__end_object(&t.j);
	json__array(&t.j);
	json__end_array(&t.j);
	json__line(&t.j);
	json__null(&t.j);
	json__end_array(&t.j);
	json__key(&t.j, "b");
	json__bool(&t.j, false);
	json__key_str(&t.j, "c\"", 2);
	json__raw(&t.j, "\"x\"", 3);
	json__end_object(&t.j);
	assert_string_equal(finish(&t), "{\"a\":[1,{},[],\nnull],\"b\":false,\"c\\\"\":\"x\"}");
	buf__free(&t.b);
}

static void escapes_what_json_must_not_hold(void **state)
{
	(void)state;
	assert_str("plain", 5, "\"plain\"");
	assert_str("", 0, "\"\"");
	assert_str("a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\"");
	assert_str("\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\"");
	assert_str("\0\x1b\x1f\x7f", 4, "\"\\u0000\\u001b\\u001f\\u007f\"");
	assert_str("</script>", 9, "\"</script>\"");
}

static void keeps_valid_utf8_and_replaces_the_rest(void **state)
{
	(void)state;
	assert_str("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
		   "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
	assert_str("a\xff\"b", 4, "\"a\xef\xbf\xbd\\\"b\"");
	assert_str("\xc3", 1, "\"\xef\xbf\xbd\"");
	assert_str("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void integers_are_exact_at_both_ends(void **state)
{
	struct bench t;

	(void)state;
	start(&t);
	json__array(&t.j);
	json__u64(&t.j, 0);
	json__u64(&t.j, UINT64_MAX);
	json__i64(&t.j, INT64_MIN);
	json__i64(&t.j, -1);
	json__i64(&t.j, INT64_MAX);
	json__end_array(&t.j);
	assert_string_equal(finish(&t), "[0,18446744073709551615,-9223372036854775808,-1,"
					"9223372036854775807]");
	buf__free(&t.b);
}

static void nanoseconds_are_microseconds_with_three_digits(void **state)
{
	struct bench t;

	(void)state;
	start(&t);
	json__array(&t.j);
	json__us(&t.j, 0);
	json__us(&t.j, 7);
	json__us(&t.j, 999);
	json__us(&t.j, 1000);
	json__us(&t.j, 1234567);
	json__us(&t.j, UINT64_MAX);
	json__end_array(&t.j);
	assert_string_equal(finish(&t), "[0.000,0.007,0.999,1.000,1234.567,18446744073709551.615]");
	buf__free(&t.b);
}

static void every_length_of_a_number_is_written_like_printf(void **state)
{
	char expected[96];
	uint64_t ten, v;
	struct bench t;
	int i, digits;

	(void)state;
	for (digits = 0, ten = 1; digits < 20; digits++, ten *= 10)
		for (i = -1; i <= 1; i++) {
			v = ten + (uint64_t)(int64_t)i;
			start(&t);
			json__u64(&t.j, v);
			json__us(&t.j, v);
			snprintf(expected, sizeof(expected), "%llu,%llu.%03llu",
				 (unsigned long long)v, (unsigned long long)v / 1000,
				 (unsigned long long)v % 1000);
			assert_string_equal(finish(&t), expected);
			buf__free(&t.b);
		}
}

static void numbers_that_json_has_not_become_null(void **state)
{
	static const double back[] = { 0.1, -1e300, 5e-324, 1.7976931348623157e308, 3 };
	struct bench t;
	const char *text;
	cJSON *tree;
	size_t i;

	(void)state;
	start(&t);
	json__array(&t.j);
	json__f64(&t.j, NAN);
	json__f64(&t.j, INFINITY);
	json__f64(&t.j, -INFINITY);
	for (i = 0; i < ARRAY_SIZE(back); i++)
		json__f64(&t.j, back[i]);
	json__end_array(&t.j);
	text = finish(&t);
	assert_int_equal(strncmp(text, "[null,null,null,", 16), 0);
	tree = cJSON_Parse(text);
	assert_non_null(tree);
	for (i = 0; i < ARRAY_SIZE(back); i++)
		assert_true(cJSON_GetArrayItem(tree, (int)i + 3)->valuedouble == back[i]);
	cJSON_Delete(tree);
	buf__free(&t.b);
}

static void long_texts_pass_through_the_buffer_whole(void **state)
{
	size_t n = 3u << 20, i;
	char *big = malloc(n);
	struct bench t;

	(void)state;
	assert_non_null(big);
	memset(big, '\n', n);
	start(&t);
	json__str(&t.j, big, n);
	finish(&t);
	assert_int_equal(t.b.len, 2 * n + 3);
	for (i = 0; i < n; i++)
		assert_memory_equal(t.b.data + 1 + 2 * i, "\\n", 2);
	buf__free(&t.b);
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_commas_where_they_belong),
		cmocka_unit_test(escapes_what_json_must_not_hold),
		cmocka_unit_test(keeps_valid_utf8_and_replaces_the_rest),
		cmocka_unit_test(integers_are_exact_at_both_ends),
		cmocka_unit_test(nanoseconds_are_microseconds_with_three_digits),
		cmocka_unit_test(every_length_of_a_number_is_written_like_printf),
		cmocka_unit_test(numbers_that_json_has_not_become_null),
		cmocka_unit_test(long_texts_pass_through_the_buffer_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
