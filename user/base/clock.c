// SPDX-License-Identifier: Apache-2.0
#include "user/base/base.h"

#include <time.h>

#define ANCHOR_TRIES 8

static uint64_t clock__ns(clockid_t id)
{
	struct timespec ts;

	if (clock_gettime(id, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t clock__boottime_ns(void)
{
	return clock__ns(CLOCK_BOOTTIME);
}

void clock__anchor(struct clock_anchor *a)
{
	uint64_t best = UINT64_MAX;
	int i;

	for (i = 0; i < ANCHOR_TRIES; i++) {
		struct clock_anchor t;
		uint64_t before = clock__boottime_ns(), after;

		t.monotonic = clock__ns(CLOCK_MONOTONIC);
		t.monotonic_raw = clock__ns(CLOCK_MONOTONIC_RAW);
		t.realtime = clock__ns(CLOCK_REALTIME);
		t.monotonic_coarse = clock__ns(CLOCK_MONOTONIC_COARSE);
		after = clock__boottime_ns();
		t.boottime = before + (after - before) / 2;
		if (after - before < best) {
			best = after - before;
			*a = t;
		}
	}
}
