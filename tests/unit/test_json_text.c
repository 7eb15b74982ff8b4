// SPDX-License-Identifier: Apache-2.0
#include "user/prof/json_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct json_text over(const char *s)
{
	return (struct json_text){ s, s + strlen(s) };
}

static void assert_is(struct json_text t, const char *want)
{
	if (!want) {
		assert_null(t.p);
		return;
	}
	assert_non_null(t.p);
	assert_int_equal(t.end - t.p, strlen(want));
	assert_memory_equal(t.p, want, strlen(want));
}

static const char sample[] = " { \"a\" : 1 , \"b\":{\"c\":\"x,}\\\"]\",\"d\":[1,[2,{}],\"]\"]},\n"
			     "\"e\":[ ] , \"f\":null,\"a\":2 } ";

static void finds_members_and_members_of_members(void **state)
{
	(void)state;
	assert_is(json_text__member(over(sample), "a"), "1");
	assert_is(json_text__member(over(sample), "f"), "null");
	assert_is(json_text__member(over(sample), "b.c"), "\"x,}\\\"]\"");
	assert_is(json_text__member(over(sample), "b.d"), "[1,[2,{}],\"]\"]");
	assert_is(json_text__member(over(sample), "e"), "[ ]");
	assert_is(json_text__member(over(sample), "c"), NULL);
	assert_is(json_text__member(over(sample), "b.x"), NULL);
	assert_is(json_text__member(over(sample), "a.x"), NULL);
	assert_is(json_text__member(over("[1]"), "a"), NULL);
	assert_is(json_text__member(over("{}"), "a"), NULL);
	assert_is(json_text__member(over(""), "a"), NULL);
}

static void gives_the_elements_of_an_array_in_order(void **state)
{
	struct json_text at = json_text__member(over(sample), "b.d"), empty = over(" [ ] ");

	(void)state;
	assert_is(json_text__element(&at), "1");
	assert_is(json_text__element(&at), "[2,{}]");
	assert_is(json_text__element(&at), "\"]\"");
	assert_is(json_text__element(&at), NULL);
	assert_is(json_text__element(&at), NULL);
	assert_is(json_text__element(&empty), NULL);
}

/* Each in a buffer of exactly its size, so that one byte too far is seen. */
static void reads_nothing_behind_a_text_that_ends_anywhere(void **state)
{
	static const char *const paths[] = { "a", "b.c", "b.d", "e", "f", "none" };
	struct json_text at;
	size_t len, i;
	char *copy;

	(void)state;
	for (len = 0; len < sizeof(sample); len++) {
		copy = malloc(len + !len);
		assert_non_null(copy);
		memcpy(copy, sample, len);
		for (i = 0; i < ARRAY_SIZE(paths); i++) {
			at = json_text__member((struct json_text){ copy, copy + len }, paths[i]);
			if (at.p)
				assert_true(at.p >= copy && at.end <= copy + len);
			while (at.p && json_text__element(&at).p)
				;
		}
		free(copy);
	}
}

static void gives_nothing_of_what_is_not_closed(void **state)
{
	static const char *const bad[] = { "{\"a\":[1",   "{\"a\":\"x", "{\"a\":{\"b\":1",
					   "{\"a\":\"\\", "{\"a\"",     "{\"a\" 1}",
					   "{,\"a\":1}",  "{\"a\":}" };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		assert_is(json_text__member(over(bad[i]), "a"), NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_members_and_members_of_members),
		cmocka_unit_test(gives_the_elements_of_an_array_in_order),
		cmocka_unit_test(reads_nothing_behind_a_text_that_ends_anywhere),
		cmocka_unit_test(gives_nothing_of_what_is_not_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
