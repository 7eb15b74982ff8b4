// SPDX-License-Identifier: Apache-2.0
/* Text that may be hostile: UTF-8 repair, printable text, globs. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/base/base.h"

#define R "\xef\xbf\xbd"

static void assert_repaired(const char *in, size_t len, const char *want)
{
	struct buf b = { 0 };

	utf8__append_valid(&b, in, len);
	buf__u8(&b, 0);
	assert_int_equal(buf__error(&b), 0);
	assert_string_equal((const char *)b.data, want);
	assert_true(utf8__valid((const char *)b.data, b.len - 1));
	assert_int_equal(utf8__valid(in, len), b.len - 1 == len && !memcmp(b.data, in, len));
	buf__free(&b);
}

static void each_maximal_invalid_subpart_becomes_one_replacement(void **state)
{
	static const struct {
		const char *in, *want;
	} v[] = {
		{ "", "" },
		{ "plain", "plain" },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ R, R },
		{ "\x80", R },
		{ "a\x80\xbf"
		  "b",
		  "a" R R "b" },
		{ "\xff\xfe", R R },
		/* the table in the Unicode standard, section 3.9 */
		{ "\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", R R R R R R R R "A" },
		{ "\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", R R R R R R R R "A" },
		{ "\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", R R R R R "A" R R "B" },
		{ "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A" },
		/* overlong forms of '/' */
		{ "\xc0\xaf", R R },
		{ "\xe0\x80\xaf", R R R },
		{ "\xf0\x80\x80\xaf", R R R R },
		{ "\xf8\x80\x80\x80\xaf", R R R R R },
		/* borders */
		{ "\xc2\x80", "\xc2\x80" },
		{ "\xe0\xa0\x80", "\xe0\xa0\x80" },
		{ "\xe0\x9f\xbf", R R R },
		{ "\xed\x9f\xbf", "\xed\x9f\xbf" },
		{ "\xed\xa0\x80", R R R },
		{ "\xee\x80\x80", "\xee\x80\x80" },
		{ "\xf0\x90\x80\x80", "\xf0\x90\x80\x80" },
		{ "\xf0\x8f\xbf\xbf", R R R R },
		{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
		{ "\xf4\x90\x80\x80", R R R R },
		/* cut short: what could have begun a character is one */
		{ "\xc3", R },
		{ "\xe2\x82", R },
		{ "\xf0\x9f\x98", R },
		{ "\xf0\x9f\x98x", R "x" },
		{ "\xe2\x82\xe2\x82\xac", R "\xe2\x82\xac" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(v); i++)
		assert_repaired(v[i].in, strlen(v[i].in), v[i].want);
}

static void every_pair_of_bytes_becomes_valid(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < 65536; i++) {
		char in[4] = { 'x', (char)(i >> 8), (char)i, 'y' };
		struct buf b = { 0 };

		utf8__append_valid(&b, in, 4);
		if (!utf8__valid((const char *)b.data, b.len) || b.data[0] != 'x' ||
		    b.data[b.len - 1] != 'y')
			fail_msg("bytes %02x %02x", i >> 8, i & 255);
		buf__free(&b);
	}
}

static void nothing_is_ever_dropped(void **state)
{
	struct buf b = { 0 };

	(void)state;
	utf8__append_valid(&b, NULL, 0);
	assert_int_equal(b.len, 0);
	utf8__append_valid(&b, "a\0b", 3);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "a\0b", 3);
	buf__free(&b);
}

static void assert_printable(const char *in, size_t len, const char *want)
{
	struct buf b = { 0 };

	text__append_printable(&b, in, len);
	buf__u8(&b, 0);
	assert_string_equal((const char *)b.data, want);
	buf__free(&b);
}

static void control_characters_are_shown_not_sent(void **state)
{
	unsigned i;

	(void)state;
	assert_printable("", 0, "");
	assert_printable("caf\xc3\xa9 \xe2\x82\xac", 9, "caf\xc3\xa9 \xe2\x82\xac");
	assert_printable("\x1b]52;c;\x07", 8, "\\x1b]52;c;\\x07");
	assert_printable("a\0b\nc\td\x7f", 8, "a\\x00b\\x0ac\\x09d\\x7f");
	assert_printable("\xc2\x9b"
			 "31m",
			 5, "\\x9b31m"); /* CSI as one character */
	assert_printable("\x9b"
			 "31m",
			 4, R "31m"); /* CSI as one byte is not UTF-8 */
	assert_printable("a\xe2\x80\xae"
			 "b",
			 5, "a\\u202eb");
	assert_printable("\xe2\x80\xa8\xe2\x81\xa6", 6, "\\u2028\\u2066");
	for (i = 0; i < 256; i++) {
		char c = (char)i;
		struct buf b = { 0 };
		size_t k;

		text__append_printable(&b, &c, 1);
		assert_true(b.len > 0);
		for (k = 0; k < b.len; k++)
			assert_true(b.data[k] >= 0x20 && b.data[k] != 0x7f);
		assert_true(utf8__valid((const char *)b.data, b.len));
		buf__free(&b);
	}
}

static void globs_match_as_in_a_shell(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool match;
	} v[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "a", "", false },
		{ "*", "", true },
		{ "*", "anything/at all", true },
		{ "abc", "abc", true },
		{ "abc", "abcd", false },
		{ "a*c", "abbbc", true },
		{ "a*c", "abbbd", false },
		{ "*a*b*", "xxaxxbxx", true },
		{ "*a*b*", "xxbxxaxx", false },
		{ "a**b", "ab", true },
		{ "?", "a", true },
		{ "?", "", false },
		{ "a?c", "abc", true },
		{ "?*", "a", true },
		{ "[abc]", "b", true },
		{ "[abc]", "d", false },
		{ "[a-c]x", "bx", true },
		{ "[a-c]x", "dx", false },
		{ "[!a-c]", "d", true },
		{ "[^a-c]", "b", false },
		{ "[]]", "]", true },
		{ "[!]]", "]", false },
		{ "[a-]", "-", true },
		{ "[", "[", true },
		{ "[abc", "[abc", true },
		{ "[abc", "a", false },
		{ "*[0-9]", "layer12", true },
		{ "*[0-9]", "layer", false },
		{ "a.b", "axb", false },
		{ "a\\*", "a\\b", true }, /* a backslash is only itself */
		{ "[\xc3]\xa9", "\xc3\xa9", true },
		{ "lib*.so*", "libggml-base.so.1", true },
		{ "ggml_*_compute*", "ggml_backend_graph_compute_async", true },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(v); i++)
		if (text__glob(v[i].pattern, v[i].text) != v[i].match)
			fail_msg("%s on %s", v[i].pattern, v[i].text);
}

static void many_stars_take_no_exponential_time(void **state)
{
	char pattern[201], text[20001];
	size_t i;

	(void)state;
	for (i = 0; i < 200; i += 2)
		memcpy(pattern + i, "*a", 2);
	pattern[199] = 'b';
	pattern[200] = '\0';
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	alarm(30);
	assert_false(text__glob(pattern, text));
	alarm(0);
}

static void stars_take_as_little_as_they_can(void **state)
{
	static const struct {
		const char *pattern, *text, *parts[4]; /* NULL: no more */
	} v[] = {
		{ "*", "abc", { "abc" } },
		{ "a*", "a", { "" } },
		{ "*::*", "a::b::c", { "a", "b::c" } },
		{ "ns::*::*_x::*", "ns::a::b_x::c_x::d", { "a", "b", "c_x::d" } },
		{ "*_*", "__", { "", "_" } },
		{ "a*b*c", "abbc", { "", "b" } },
		{ "a*?c", "abbc", { "b" } },
		{ "*[0-9]*", "ab12", { "ab", "2" } },
		{ "**", "ab", { "", "ab" } },
		{ "x*y**", "xy", { "", "", "" } },
		{ "*ab", "aab", { "a" } },
		{ "plain", "plain", { NULL } },
	};
	struct text_part parts[4];
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(v); i++) {
		if (!text__glob_parts(v[i].pattern, v[i].text, parts, ARRAY_SIZE(parts)))
			fail_msg("'%s' does not match '%s'", v[i].pattern, v[i].text);
		for (k = 0; k < ARRAY_SIZE(parts); k++) {
			const char *want = v[i].parts[k] ? v[i].parts[k] : "";

			if (parts[k].len != strlen(want) ||
			    memcmp(parts[k].at, want, parts[k].len) != 0)
				fail_msg("'%s' on '%s': star %zu is '%.*s', not '%s'", v[i].pattern,
					 v[i].text, k + 1, (int)parts[k].len, parts[k].at, want);
		}
	}
	assert_false(text__glob_parts("a*b", "ac", parts, ARRAY_SIZE(parts)));
	/* fewer places than stars */
	assert_true(text__glob_parts("*.*.*", "1.2.3", parts, 1));
	assert_int_equal(parts[0].len, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_maximal_invalid_subpart_becomes_one_replacement),
		cmocka_unit_test(every_pair_of_bytes_becomes_valid),
		cmocka_unit_test(nothing_is_ever_dropped),
		cmocka_unit_test(control_characters_are_shown_not_sent),
		cmocka_unit_test(globs_match_as_in_a_shell),
		cmocka_unit_test(stars_take_as_little_as_they_can),
		cmocka_unit_test(many_stars_take_no_exponential_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
