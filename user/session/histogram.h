/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations, counted in buckets of equal relative width: 64 to a power of two. A quantile is off
 * by at most 1/128 of its value (0.8 %), and exact below 128 ns; count, sum, squares, least and
 * greatest are exact. Memory goes with the powers of two that occur, not with the values.
 */
#ifndef CLIKA_USER_SESSION_HISTOGRAM_H
#define CLIKA_USER_SESSION_HISTOGRAM_H

#include "user/base/base.h"

struct histogram {
	uint64_t count, sum, min, max; /* sum stops at UINT64_MAX */
	unsigned __int128 squares;     /* sum of them; stops at its greatest value */
	uint64_t *buckets;             /* of the octaves [first, first + n) */
	uint8_t first, n;
};

int histogram__add(struct histogram *h, uint64_t value); /* 0 or -ENOMEM */
/* The value that @permille of a thousand do not exceed (nearest rank); 0 when empty. */
uint64_t histogram__quantile(const struct histogram *h, unsigned int permille);
/* Least and greatest value that the @rank-th smallest one, from 1, may have. */
void histogram__bounds(const struct histogram *h, uint64_t rank, uint64_t *least,
		       uint64_t *greatest);
uint64_t histogram__mean(const struct histogram *h);
/* Of a sample: divided by one less than the count. 0 with fewer than two values. */
uint64_t histogram__stddev(const struct histogram *h);
int histogram__merge(struct histogram *h, const struct histogram *other); /* 0 or -ENOMEM */
/* How many values were 0 (in [0]) and in [1 << (k - 1), 1 << k) (in [k]). */
#define HISTOGRAM_POWERS 65
void histogram__powers(const struct histogram *h, uint64_t count[HISTOGRAM_POWERS]);
void histogram__free(struct histogram *h);

#endif
