/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and end of a span as two LTTng-UST tracepoints. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_tp.h"

#include "bench.h"

static void spans(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		lttng_ust_tracepoint(clika_bench, span_begin, "step");
		BENCH_BARRIER();
		lttng_ust_tracepoint(clika_bench, span_end);
	}
}

int main(void)
{
	char line[128], kind[64];
	unsigned long long n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "run %63s %llu", kind, &n) == 2)
			printf("%.3f\n", bench__run(spans, n));
		else if (!strncmp(line, "quit", 4))
			break;
	}
	return 0;
}
