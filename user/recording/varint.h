/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of event bodies, inlined: these are the hot loops of writing and reading. */
#ifndef CLIKA_USER_RECORDING_VARINT_H
#define CLIKA_USER_RECORDING_VARINT_H

#include <stdbool.h>
#include <stdint.h>

#define VARINT_MAX 10

static inline uint64_t zigzag(int64_t v)
{
	return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

static inline int64_t unzigzag(uint64_t v)
{
	return (int64_t)((v >> 1) ^ (v & 1 ? UINT64_MAX : 0));
}

/* Writes at most VARINT_MAX bytes. */
static inline uint8_t *varint__put(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

/* Reads at most VARINT_MAX bytes, which must be readable; sets *@bad when there is no end. */
static inline const uint8_t *varint__get(const uint8_t *p, uint64_t *v, bool *bad)
{
	uint64_t r = *p++;
	unsigned shift;

	if (r < 0x80) {
		*v = r;
		return p;
	}
	r &= 0x7f;
	for (shift = 7; shift < 64; shift += 7) {
		uint8_t b = *p++;

		if (shift == 63 && b > 1)
			break;
		r |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80) {
			*v = r;
			return p;
		}
	}
	*v = 0;
	*bad = true;
	return p;
}

#endif
