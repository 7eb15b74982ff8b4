// SPDX-License-Identifier: Apache-2.0
#include "user/session/histogram.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SUB_BITS 6
#define SUB (1u << SUB_BITS)

/*
 * Octave 0 holds 0..63 and octave 1 holds 64..127, each value in a bucket of its own; octave k
 * holds [64 << (k - 1), 128 << (k - 1)) in 64 buckets of 1 << (k - 1).
 */
static unsigned int octave_of(uint64_t v)
{
	return v < SUB ? 0 : 64 - (unsigned int)__builtin_clzll(v) - SUB_BITS;
}

static unsigned int bucket_of(uint64_t v, unsigned int octave)
{
	return octave ? (unsigned int)(v >> (octave - 1)) - SUB : (unsigned int)v;
}

static uint64_t middle_of(unsigned int octave, unsigned int bucket)
{
	if (!octave)
		return bucket;
	return ((uint64_t)(SUB + bucket) << (octave - 1)) + ((1ull << (octave - 1)) - 1) / 2;
}

static int cover(struct histogram *h, unsigned int octave)
{
	unsigned int first = h->n ? h->first : octave, end = h->n ? h->first + h->n : octave;
	uint64_t *buckets;

	if (h->n && octave >= first && octave < end)
		return 0;
	first = octave < first ? octave : first;
	end = octave >= end ? octave + 1 : end;
	buckets = calloc((size_t)(end - first) * SUB, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	if (h->n)
		memcpy(buckets + (size_t)(h->first - first) * SUB, h->buckets,
		       (size_t)h->n * SUB * sizeof(*buckets));
	free(h->buckets);
	h->buckets = buckets;
	h->first = (uint8_t)first;
	h->n = (uint8_t)(end - first);
	return 0;
}

int histogram__add(struct histogram *h, uint64_t value)
{
	unsigned int octave = octave_of(value);
	int err;

	if (octave - h->first >= h->n) { /* also when it lies before the first */
		err = cover(h, octave);
		if (err)
			return err;
	}
	h->buckets[(size_t)(octave - h->first) * SUB + bucket_of(value, octave)]++;
	h->min = h->count && h->min < value ? h->min : value;
	h->max = h->max > value ? h->max : value;
	h->count++;
	if (__builtin_add_overflow(h->sum, value, &h->sum))
		h->sum = UINT64_MAX;
	if (__builtin_add_overflow(h->squares, (unsigned __int128)value * value, &h->squares))
		h->squares = ~(unsigned __int128)0;
	return 0;
}

int histogram__merge(struct histogram *h, const struct histogram *other)
{
	size_t i, from;
	int err;

	if (!other->count)
		return 0;
	err = cover(h, other->first);
	if (!err)
		err = cover(h, other->first + other->n - 1u);
	if (err)
		return err;
	from = (size_t)(other->first - h->first) * SUB;
	for (i = 0; i < (size_t)other->n * SUB; i++)
		h->buckets[from + i] += other->buckets[i];
	h->min = h->count && h->min < other->min ? h->min : other->min;
	h->max = h->max > other->max ? h->max : other->max;
	h->count += other->count;
	if (__builtin_add_overflow(h->sum, other->sum, &h->sum))
		h->sum = UINT64_MAX;
	if (__builtin_add_overflow(h->squares, other->squares, &h->squares))
		h->squares = ~(unsigned __int128)0;
	return 0;
}

uint64_t histogram__quantile(const struct histogram *h, unsigned int permille)
{
	uint64_t rank, seen = 0, v;
	size_t i, n = (size_t)h->n * SUB;

	if (!h->count)
		return 0;
	/* In two parts: the product of count and permille may not fit. */
	rank = h->count / 1000 * permille + (h->count % 1000 * permille + 999) / 1000;
	if (rank <= 1)
		return h->min;
	if (rank >= h->count)
		return h->max;
	for (i = 0; i < n; i++) {
		seen += h->buckets[i];
		if (seen >= rank)
			break;
	}
	v = middle_of(h->first + (unsigned int)(i / SUB), (unsigned int)(i % SUB));
	return v < h->min ? h->min : v > h->max ? h->max : v;
}

void histogram__bounds(const struct histogram *h, uint64_t rank, uint64_t *least,
		       uint64_t *greatest)
{
	uint64_t seen = 0, step = 1;
	size_t i, n = (size_t)h->n * SUB;
	unsigned int octave, bucket;

	*least = h->min;
	*greatest = h->max;
	for (i = 0; i < n && (seen += h->buckets[i]) < rank; i++)
		;
	if (!rank || i == n)
		return;
	octave = h->first + (unsigned int)(i / SUB);
	bucket = (unsigned int)(i % SUB);
	*least = bucket;
	if (octave) {
		step = 1ull << (octave - 1);
		*least = (uint64_t)(SUB + bucket) << (octave - 1);
	}
	*greatest = *least + (step - 1);
	*least = *least > h->min ? *least : h->min;
	*greatest = *greatest < h->max ? *greatest : h->max;
}

uint64_t histogram__mean(const struct histogram *h)
{
	return h->count ? h->sum / h->count : 0;
}

uint64_t histogram__stddev(const struct histogram *h)
{
	unsigned __int128 mean_part;
	long double variance;

	if (h->count < 2)
		return 0;
	/* As integers: of two great numbers that are near each other only they leave the rest. */
	mean_part = (unsigned __int128)h->sum * h->sum / h->count;
	if (h->squares <= mean_part)
		return 0;
	variance = (long double)(h->squares - mean_part) / (long double)(h->count - 1);
	return (uint64_t)(sqrtl(variance) + 0.5L);
}

void histogram__powers(const struct histogram *h, uint64_t count[HISTOGRAM_POWERS])
{
	uint64_t v;
	size_t i;

	memset(count, 0, HISTOGRAM_POWERS * sizeof(*count));
	for (i = 0; i < (size_t)h->n * SUB; i++) {
		/* No bucket reaches over a power of two, so its middle stands for all of it. */
		v = middle_of(h->first + (unsigned int)(i / SUB), (unsigned int)(i % SUB));
		count[v ? 64 - __builtin_clzll(v) : 0] += h->buckets[i];
	}
}

void histogram__free(struct histogram *h)
{
	free(h->buckets);
	memset(h, 0, sizeof(*h));
}
