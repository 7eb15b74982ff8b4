/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random recordings as a recorder may write them: a pid used twice, many equal times, nesting that
 * does not fit, ends that never came, ids used again, hostile names. Times are sane.
 */
#ifndef CLIKA_TESTS_RANDOM_SESSION_H
#define CLIKA_TESTS_RANDOM_SESSION_H

#include "tests/common/rec_builder.h"

#define RANDOM_BEGIN 1000000000000ull
#define RANDOM_END 1000001000000ull

struct rec *random_session(uint64_t seed);

#endif
