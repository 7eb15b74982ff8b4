/* SPDX-License-Identifier: Apache-2.0 */
/* What calls of each probed function have come to: the overhead budget goes by it. */
#ifndef CLIKA_USER_STREAM_CALL_H
#define CLIKA_USER_STREAM_CALL_H

#include "user/stream/decode.h"

struct call_count {
	uint64_t hits;    /* of its probes: entries and returns */
	uint64_t calls;   /* begun */
	uint64_t ended;   /* of these, the ones whose time is in self_ns */
	uint64_t self_ns; /* without the probed functions that they called */
};
/* NULL: no call yet. */
const struct call_count *decoder__call_count(const struct decoder *d, uint32_t func);

#endif
