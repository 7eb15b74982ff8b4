/* SPDX-License-Identifier: Apache-2.0 */
/* One call of an empty function, compiled so that uftrace sees its entry and its exit. */
#include "bench.h"

#define UNTRACED __attribute__((no_instrument_function))

extern void traced_call(void);

__attribute__((noinline)) void traced_call(void)
{
	BENCH_BARRIER();
}

UNTRACED static void calls(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		traced_call();
}

UNTRACED int main(int argc, char **argv)
{
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : 100000;

	fprintf(stderr, "%.3f\n", bench__run(calls, n));
	return 0;
}
