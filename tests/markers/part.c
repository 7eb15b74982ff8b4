/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One translation unit of several in an object: built more than once, with PART naming the
 * function that it defines. Also valid C++.
 */
#include <clika/markers.h>

#ifndef PART
#define PART part_a
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

#ifdef __cplusplus
extern "C"
#endif
	int
	PART(int n, const char *dynamic);

/* Inlined into several places: each must still be one marker with its own values. */
static inline __attribute__((always_inline)) void inlined(int n)
{
	CLIKA_SPAN("inlined", CLIKA_I64("n", n));
	CLIKA_COUNTER_I64("depth", n);
}

static int work(int n)
{
	CLIKA_SPAN_CAT("work", TEXT(PART));

	return n * 2;
}

/* Writes 13 records when enabled. */
int PART(int n, const char *dynamic)
{
	clika_token t = CLIKA_SPAN_BEGIN(TEXT(PART));
	uint64_t start = CLIKA_START();
	int ret = work(n);

	inlined(1);
	if (n > 0)
		inlined(2);
	CLIKA_INSTANT_CAT("instant", "cat", CLIKA_U64("u", n), CLIKA_F64("f", 2.5),
			  CLIKA_STR("s", dynamic));
	CLIKA_INSTANT_DYN(dynamic);
	CLIKA_SPAN_COMPLETE("complete", start);
	CLIKA_ALLOC(1, 0x4000, 4096, "pool");
	CLIKA_SPAN_END(t, CLIKA_I64("ret", ret));
	return ret;
}
