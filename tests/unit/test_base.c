// SPDX-License-Identifier: Apache-2.0
/* Buffers, cursors, string pool, map, errors, log, clocks. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/base/base.h"

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

/* --- buffers and cursors ------------------------------------------------------------------ */

static void numbers_come_back_from_a_buffer(void **state)
{
	static const uint64_t v[] = { 0,          1,          127,       128,        255,
				      256,        16383,      16384,     65535,      65536,
				      UINT32_MAX, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX };
	struct buf b = { 0 };
	struct cursor c;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(v); i++) {
		buf__u8(&b, (uint8_t)v[i]);
		buf__u16le(&b, (uint16_t)v[i]);
		buf__u32le(&b, (uint32_t)v[i]);
		buf__u64le(&b, v[i]);
		buf__varint(&b, v[i]);
		buf__svarint(&b, (int64_t)v[i]);
		buf__svarint(&b, -(int64_t)(v[i] >> 1) - 1);
	}
	assert_int_equal(buf__error(&b), 0);
	c = cursor__over(b.data, b.len);
	for (i = 0; i < ARRAY_SIZE(v); i++) {
		assert_int_equal(cursor__u8(&c), (uint8_t)v[i]);
		assert_int_equal(cursor__u16le(&c), (uint16_t)v[i]);
		assert_int_equal(cursor__u32le(&c), (uint32_t)v[i]);
		assert_int_equal(cursor__u64le(&c), v[i]);
		assert_int_equal(cursor__varint(&c), v[i]);
		assert_true(cursor__svarint(&c) == (int64_t)v[i]);
		assert_true(cursor__svarint(&c) == -(int64_t)(v[i] >> 1) - 1);
	}
	assert_int_equal(cursor__left(&c), 0);
	assert_false(c.bad);
	buf__free(&b);
}

static void numbers_are_little_endian_and_varints_as_short_as_can_be(void **state)
{
	static const uint8_t want[] = { 0x34, 0x12, 0x78, 0x56, 0x34, 0x12,
					0x7f, 0x80, 0x01, 0x01, 0x02 };
	struct buf b = { 0 };

	(void)state;
	buf__u16le(&b, 0x1234);
	buf__u32le(&b, 0x12345678);
	buf__varint(&b, 127);
	buf__varint(&b, 128);
	buf__svarint(&b, -1);
	buf__svarint(&b, 1);
	assert_int_equal(b.len, sizeof(want));
	assert_memory_equal(b.data, want, sizeof(want));
	buf__reset(&b);
	buf__varint(&b, UINT64_MAX);
	assert_int_equal(b.len, 10);
	buf__free(&b);
}

static void reading_past_the_end_gives_zero_and_stays_bad(void **state)
{
	static const uint8_t raw[] = { 1, 2, 3 };
	struct cursor c = cursor__over(raw, sizeof(raw));

	(void)state;
	assert_int_equal(cursor__u32le(&c), 0);
	assert_true(c.bad);
	assert_int_equal(cursor__u8(&c), 0); /* one byte would be there */
	assert_null(cursor__bytes(&c, 0));
	c = cursor__over(raw, sizeof(raw));
	assert_ptr_equal(cursor__bytes(&c, 3), raw);
	assert_non_null(cursor__bytes(&c, 0));
	assert_null(cursor__bytes(&c, SIZE_MAX));
	c = cursor__over(raw, 0);
	assert_int_equal(cursor__varint(&c), 0);
	assert_true(c.bad);
}

static void endless_and_overflowing_varints_are_bad(void **state)
{
	uint8_t raw[12];
	struct cursor c;

	(void)state;
	memset(raw, 0x80, sizeof(raw));
	c = cursor__over(raw, sizeof(raw));
	assert_int_equal(cursor__varint(&c), 0);
	assert_true(c.bad);
	memset(raw, 0xff, sizeof(raw));
	raw[9] = 2; /* bit 64 */
	c = cursor__over(raw, sizeof(raw));
	cursor__varint(&c);
	assert_true(c.bad);
	raw[9] = 1;
	c = cursor__over(raw, sizeof(raw));
	assert_int_equal(cursor__varint(&c), UINT64_MAX);
	assert_false(c.bad);
	c = cursor__over(raw, 9);
	cursor__svarint(&c);
	assert_true(c.bad);
}

static void buffers_grow_and_printf_fits_exactly(void **state)
{
	struct buf b = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < 300; i++)
		buf__printf(&b, "%0*zu", (int)i, i);
	for (i = 0; i < 100000; i++)
		buf__u8(&b, (uint8_t)i);
	assert_int_equal(buf__error(&b), 0);
	assert_int_equal(b.data[b.len - 1], (uint8_t)99999);
	buf__append(&b, NULL, 0);
	assert_int_equal(buf__reserve(&b, SIZE_MAX), -ENOMEM);
	assert_int_equal(buf__error(&b), -ENOMEM);
	i = b.len;
	buf__u8(&b, 1);
	assert_int_equal(b.len, i);
	buf__free(&b);
	assert_null(b.data);
}

/* --- string pool ----------------------------------------------------------------------------- */

static void equal_strings_have_one_id_and_ids_are_dense(void **state)
{
	enum { N = 5000 };
	struct strpool *p = strpool__new(0, 0);
	const char *first;
	char text[32];
	uint32_t i;

	(void)state;
	first = strpool__str(p, strpool__ids(p, "string 0"));
	for (i = 0; i < N; i++) {
		snprintf(text, sizeof(text), "string %u", i);
		assert_int_equal(strpool__ids(p, text), i + 1);
	}
	for (i = 0; i < N; i++) {
		int n = snprintf(text, sizeof(text), "string %u", i);

		assert_int_equal(strpool__id(p, text, (size_t)n), i + 1);
		assert_string_equal(strpool__str(p, i + 1), text);
		assert_int_equal(strpool__len(p, i + 1), n);
	}
	assert_ptr_equal(first, strpool__str(p, 1)); /* strings never move */
	assert_int_equal(strpool__count(p), N);
	assert_int_equal(strpool__ids(p, NULL), 0);
	assert_string_equal(strpool__str(p, 0), "");
	assert_string_equal(strpool__str(p, N + 1), "");
	assert_int_equal(strpool__len(p, UINT32_MAX), 0);
	strpool__free(p);
	strpool__free(NULL);
}

static void strings_may_hold_any_bytes(void **state)
{
	struct strpool *p = strpool__new(0, 0);
	uint32_t a = strpool__id(p, "a\0b", 3), b = strpool__id(p, "a\0c", 3),
		 e = strpool__id(p, "", 0);

	(void)state;
	assert_int_not_equal(a, b);
	assert_int_not_equal(e, 0);
	assert_int_equal(strpool__id(p, NULL, 0), e);
	assert_memory_equal(strpool__str(p, a), "a\0b\0", 4);
	assert_int_equal(strpool__ids(p, "a"), strpool__id(p, "a\0", 1));
	strpool__free(p);
}

static void a_full_pool_gives_one_name_for_all_that_is_new(void **state)
{
	struct strpool *by_number = strpool__new(3, 0), *by_size = strpool__new(0, 10);
	uint32_t full;

	(void)state;
	strpool__ids(by_number, "a");
	strpool__ids(by_number, "b");
	strpool__ids(by_number, "c");
	full = strpool__ids(by_number, "d");
	assert_string_equal(strpool__str(by_number, full), "(too many distinct names)");
	assert_int_equal(strpool__ids(by_number, "e"), full);
	assert_int_equal(strpool__ids(by_number, "b"), 2); /* what is known stays known */
	assert_int_equal(strpool__count(by_number), 4);

	assert_int_equal(strpool__ids(by_size, "0123456789"), 1);
	full = strpool__ids(by_size, "x");
	assert_string_equal(strpool__str(by_size, full), "(too many distinct names)");
	assert_int_equal(strpool__ids(by_size, "y"), full);
	strpool__free(by_number);
	strpool__free(by_size);
}

/* --- map --------------------------------------------------------------------------------------- */

static void the_map_agrees_with_an_array_through_random_use(void **state)
{
	enum { KEYS = 3000, STEPS = 200000 };
	struct map64 *m = map64__new();
	uint64_t *want = calloc(KEYS, sizeof(*want)), seed = 42, key, *value;
	size_t n = 0, seen = 0, it = 0;
	unsigned i;

	(void)state;
	for (i = 0; i < STEPS; i++) {
		uint64_t r = next_random(&seed), k = r % KEYS, name = k * 0x9e3779b97f4a7c15ull;

		if (r >> 40 & 1) {
			n += !want[k];
			want[k] = i + 1;
			assert_int_equal(*map64__put(m, name, i + 1), i + 1);
		} else {
			assert_int_equal(map64__del(m, name), want[k] != 0);
			n -= want[k] != 0;
			want[k] = 0;
		}
		assert_int_equal(map64__count(m), n);
	}
	for (i = 0; i < KEYS; i++) {
		value = map64__get(m, i * 0x9e3779b97f4a7c15ull);
		assert_int_equal(value ? *value : 0, want[i]);
	}
	while (map64__next(m, &it, &key, &value)) {
		seen++;
		assert_true(map64__del(m, key)); /* allowed while iterating */
	}
	assert_int_equal(seen, n);
	assert_int_equal(map64__count(m), 0);
	assert_false(map64__next(m, &it, &key, &value));
	free(want);
	map64__free(m);
	map64__free(NULL);
}

static void any_key_is_allowed_and_clear_forgets_all(void **state)
{
	struct map64 *m = map64__new();

	(void)state;
	map64__put(m, 0, 1);
	map64__put(m, UINT64_MAX, 2);
	assert_int_equal(*map64__get(m, 0), 1);
	assert_int_equal(*map64__get(m, UINT64_MAX), 2);
	*map64__get(m, 0) = 7;
	assert_int_equal(*map64__get(m, 0), 7);
	map64__clear(m);
	assert_null(map64__get(m, 0));
	assert_int_equal(map64__count(m), 0);
	map64__free(m);
}

/* Keys chosen to meet in a table whose hash is known must not make it a list. */
static void keys_in_steps_do_not_collide(void **state)
{
	enum { N = 200000 };
	struct map64 *m = map64__new();
	uint64_t i;

	(void)state;
	alarm(60);
	for (i = 0; i < N; i++)
		map64__put(m, i << 44, i);
	for (i = 0; i < N; i++)
		assert_int_equal(*map64__get(m, i << 44), i);
	alarm(0);
	map64__free(m);
}

static void hashes_depend_on_every_part(void **state)
{
	(void)state;
	assert_true(hash__bytes("", 0, 0) == 0xcbf29ce484222325ull);
	assert_true(hash__bytes("a", 1, 0) == 0xaf63dc4c8601ec8cull);
	assert_true(hash__bytes("a", 1, 1) != hash__bytes("a", 1, 0));
	assert_true(hash__mix(1, 2) != hash__mix(2, 1));
	assert_true(hash__mix(0, 0) != hash__mix(0, 1));
}

/* --- errors, log, clocks ------------------------------------------------------------------------ */

static void errors_keep_code_and_one_printable_line(void **state)
{
	struct clika_error err = { 0 };
	char text[2000];
	size_t i;

	(void)state;
	assert_int_equal(error__set(NULL, -EIO, "x"), -EIO);
	errno = EPERM;
	assert_int_equal(error__set(&err, -ENOENT, "no %s: %d", "file\n\x1b[2J", 7), -ENOENT);
	assert_int_equal(errno, EPERM);
	assert_int_equal(err.code, -ENOENT);
	assert_string_equal(err.msg, "no file\\x0a\\x1b[2J: 7");
	assert_int_equal(error__prefix(&err, "open %s", "a"), -ENOENT);
	assert_string_equal(err.msg, "open a: no file\\x0a\\x1b[2J: 7");
	assert_int_equal(error__set(&err, -EIO, "again: %s", err.msg), -EIO);
	assert_string_equal(err.msg, "again: open a: no file\\x0a\\x1b[2J: 7");
	error__prefix(NULL, "x");

	for (i = 0; i + 3 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa9", 3);
	error__set(&err, -EIO, "%s", text);
	assert_true(strlen(err.msg) > 500);
	assert_true(utf8__valid(err.msg, strlen(err.msg) - 2));
}

struct told {
	unsigned lines;
	char last[2000];
};

static void tell(void *ctx, enum log_level level, const char *area, const char *line)
{
	struct told *t = ctx;

	t->lines++;
	snprintf(t->last, sizeof(t->last), "%d %s %s", (int)level, area, line);
}

static void lines_below_the_level_are_dropped_and_all_are_printable(void **state)
{
	struct told t = { 0 };
	struct logger l = { tell, &t, LOG_WARN };

	(void)state;
	logger__log(&l, LOG_INFO, "area", "not %d", 1);
	assert_int_equal(t.lines, 0);
	logger__log(&l, LOG_WARN, "area", "name %s", "\x07\xff\xc2\x9bx");
	assert_int_equal(t.lines, 1);
	assert_string_equal(t.last, "1 area name \\x07\xef\xbf\xbd\\x9bx");
	logger__log(NULL, LOG_ERROR, "area", "x");
	l.fn = NULL;
	logger__log(&l, LOG_ERROR, "area", "x");
	assert_int_equal(t.lines, 1);
}

static void the_clocks_of_an_anchor_are_of_one_moment(void **state)
{
	uint64_t before = clock__boottime_ns(), after;
	struct clock_anchor a = { 0 };

	(void)state;
	clock__anchor(&a);
	after = clock__boottime_ns();
	assert_true(a.boottime >= before && a.boottime <= after);
	assert_true(a.monotonic && a.monotonic <= a.boottime + NSEC_PER_SEC);
	assert_true(a.monotonic_raw);
	assert_true(a.realtime > 1600000000ull * NSEC_PER_SEC);
	/* the coarse clock stands still between ticks */
	assert_true(a.monotonic_coarse <= a.monotonic + NSEC_PER_MSEC);
	assert_true(a.monotonic - a.monotonic_coarse < NSEC_PER_SEC);
}

static void cleanup_closes_and_frees_and_keeps_errno(void **state)
{
	int copy;

	(void)state;
	errno = EXDEV;
	{
		__cleanup_close int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		__cleanup_close int none = -1;
		__cleanup_free char *p = strdup("x");

		assert_true(fd >= 0 && p && none < 0);
		copy = fd;
		errno = EXDEV;
	}
	assert_int_equal(errno, EXDEV);
	assert_int_equal(fcntl(copy, F_GETFD), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_come_back_from_a_buffer),
		cmocka_unit_test(numbers_are_little_endian_and_varints_as_short_as_can_be),
		cmocka_unit_test(reading_past_the_end_gives_zero_and_stays_bad),
		cmocka_unit_test(endless_and_overflowing_varints_are_bad),
		cmocka_unit_test(buffers_grow_and_printf_fits_exactly),
		cmocka_unit_test(equal_strings_have_one_id_and_ids_are_dense),
		cmocka_unit_test(strings_may_hold_any_bytes),
		cmocka_unit_test(a_full_pool_gives_one_name_for_all_that_is_new),
		cmocka_unit_test(the_map_agrees_with_an_array_through_random_use),
		cmocka_unit_test(any_key_is_allowed_and_clear_forgets_all),
		cmocka_unit_test(keys_in_steps_do_not_collide),
		cmocka_unit_test(hashes_depend_on_every_part),
		cmocka_unit_test(errors_keep_code_and_one_printable_line),
		cmocka_unit_test(lines_below_the_level_are_dropped_and_all_are_printable),
		cmocka_unit_test(the_clocks_of_an_anchor_are_of_one_moment),
		cmocka_unit_test(cleanup_closes_and_frees_and_keeps_errno),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
