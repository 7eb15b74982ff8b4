/* SPDX-License-Identifier: Apache-2.0 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER clika_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_tp.h"

#if !defined(CLIKA_BENCH_LTTNG_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define CLIKA_BENCH_LTTNG_TP_H

#include <lttng/tracepoint.h>

/* As much as one of our spans says: its name at the begin, nothing at the end. */
LTTNG_UST_TRACEPOINT_EVENT(clika_bench, span_begin, LTTNG_UST_TP_ARGS(const char *, name_arg),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_string(name, name_arg)))
LTTNG_UST_TRACEPOINT_EVENT(clika_bench, span_end, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

#endif

#include <lttng/tracepoint-event.h>
