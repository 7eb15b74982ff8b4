/* SPDX-License-Identifier: Apache-2.0 */
/* Every macro of the header in each of its forms; to be compiled strictly, in C and C++. */
#include <clika/markers.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C"
#endif
	void
	every_macro(const char *s, void *p, unsigned long n);
void every_macro(const char *s, void *p, unsigned long n)
{
	clika_token t;
	uint64_t st;

	CLIKA_SPAN("a");
	CLIKA_SPAN("1b", CLIKA_I64("x", n));
	CLIKA_SPAN_CAT("c", "cat");
	CLIKA_SPAN_CAT("d", "cat", CLIKA_U64("x", n), CLIKA_F64("f", 1.5f));
	CLIKA_SPAN_DYN(s);
	CLIKA_SPAN_DYN(s, CLIKA_STR("s", s), CLIKA_STR("z", NULL));
	t = CLIKA_SPAN_BEGIN("e");
	CLIKA_SPAN_END(t);
	t = CLIKA_SPAN_BEGIN("e", CLIKA_I64("a", 1), CLIKA_I64("b", 1), CLIKA_I64("c", 1),
			     CLIKA_I64("d", 1), CLIKA_I64("e", 1), CLIKA_I64("f", 1),
			     CLIKA_I64("g", 1), CLIKA_I64("h", 8));
	CLIKA_SPAN_END(t, CLIKA_I64("r", -1));
	t = CLIKA_SPAN_BEGIN_CAT("e", "c");
	CLIKA_SPAN_END(t, CLIKA_I64("r", -1), CLIKA_STR("s", "x"));
	t = CLIKA_SPAN_BEGIN_DYN(s);
	CLIKA_SPAN_END(t);
	st = CLIKA_START();
	CLIKA_SPAN_COMPLETE("comp", st);
	CLIKA_SPAN_COMPLETE("comp", st, CLIKA_I64("r", 1));
	CLIKA_SPAN_COMPLETE_CAT("comp", "c", CLIKA_NOW());
	CLIKA_SPAN_COMPLETE_DYN(s, st, CLIKA_I64("r", 1));
	CLIKA_INSTANT("i");
	CLIKA_INSTANT("i", CLIKA_I64("r", 1));
	CLIKA_INSTANT_CAT("i", "c");
	CLIKA_INSTANT_CAT("i", "c", CLIKA_I64("r", 1));
	CLIKA_INSTANT_DYN(s);
	CLIKA_INSTANT_DYN(s, CLIKA_I64("r", 1));
	CLIKA_COUNTER_I64("q", -3);
	CLIKA_COUNTER_I64_DYN(s, n);
	CLIKA_COUNTER_F64("q", 3);
	CLIKA_COUNTER_F64_DYN(s, 1.0f);
	CLIKA_ASYNC_BEGIN("as", n);
	CLIKA_ASYNC_BEGIN_CAT("as", "c", p);
	CLIKA_ASYNC_BEGIN_DYN(s, 3, CLIKA_I64("r", 1));
	CLIKA_ASYNC_END("as", n, CLIKA_I64("r", 1));
	CLIKA_ASYNC_END_CAT("as", "c", p, CLIKA_I64("r", 1));
	CLIKA_ASYNC_END_DYN(s, 3);
	CLIKA_FLOW_OUT("f", 1);
	CLIKA_FLOW_OUT_DYN(s, 1);
	CLIKA_FLOW_STEP("f", 1);
	CLIKA_FLOW_STEP_DYN(s, 1);
	CLIKA_FLOW_IN("f", 1u);
	CLIKA_FLOW_IN_DYN(s, 1);
	CLIKA_REQUEST_BEGIN("gen", 7);
	CLIKA_REQUEST_BEGIN("gen", 7, CLIKA_I64("p", 5));
	CLIKA_REQUEST_BEGIN_DYN(s, 7, CLIKA_I64("p", 5));
	CLIKA_REQUEST_FIRST_OUTPUT("gen", 7);
	CLIKA_REQUEST_FIRST_OUTPUT_DYN(s, 7);
	CLIKA_REQUEST_OUTPUT("gen", 7, 2);
	CLIKA_REQUEST_OUTPUT_DYN(s, 7, 2);
	CLIKA_REQUEST_END("gen", 7, CLIKA_I64("p", 5));
	CLIKA_REQUEST_END_DYN(s, 7);
	CLIKA_ALLOC(0, p, n, "pool");
	CLIKA_FREE(0, p);
	CLIKA_RESERVE(1, 0x1000ull, 64, "p2");
	CLIKA_RELEASE(1, p);
	CLIKA_THREAD_NAME("main");
	CLIKA_QUEUE_NAME(3, s);
	CLIKA_DEVICE_NAME(0, NULL);
	CLIKA_PROCESS_LABEL("lbl");
	CLIKA_CAPTURE_BEGIN("w");
	CLIKA_CAPTURE_BEGIN_DYN(s);
	CLIKA_CAPTURE_END("w");
	CLIKA_CAPTURE_END_DYN(s);
	if (n)
		CLIKA_INSTANT("x");
	else
		CLIKA_FLUSH();
	if (CLIKA_ENABLED())
		CLIKA_FLUSH();
}
