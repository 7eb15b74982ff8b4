/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text, for writers of millions of them. */
#ifndef CLIKA_EXPORT_DIGITS_H
#define CLIKA_EXPORT_DIGITS_H

#include <stdint.h>

/* Decimal digits of @v that end before @end; at most 20. Returns the first. */
static inline char *digits__u64(char *end, uint64_t v)
{
	do {
		*--end = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	return end;
}

/* Exactly @n digits, with zeros in front. */
static inline char *digits__padded(char *end, uint64_t v, unsigned int n)
{
	while (n--) {
		*--end = (char)('0' + v % 10);
		v /= 10;
	}
	return end;
}

static inline void digits__hex16(char *out, uint64_t v)
{
	static const char hex[] = "0123456789abcdef";
	int i;

	for (i = 15; i >= 0; i--, v >>= 4)
		out[i] = hex[v & 15];
}

#endif
