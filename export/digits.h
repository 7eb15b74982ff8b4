/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text, for writers of millions of them. */
#ifndef CLIKA_EXPORT_DIGITS_H
#define CLIKA_EXPORT_DIGITS_H

#include <stdint.h>
#include <string.h>

/* Decimal digits of @v that end before @end; at most 20. Returns the first. */
static inline char *digits__u64(char *end, uint64_t v)
{
	static const char pairs[200] = "00010203040506070809101112131415161718192021222324"
				       "25262728293031323334353637383940414243444546474849"
				       "50515253545556575859606162636465666768697071727374"
				       "75767778798081828384858687888990919293949596979899";

	for (; v >= 100; v /= 100) {
		end -= 2;
		memcpy(end, pairs + v % 100 * 2, 2);
	}
	if (v >= 10) {
		end -= 2;
		memcpy(end, pairs + v * 2, 2);
	} else {
		*--end = (char)('0' + v);
	}
	return end;
}

/* How many these are. */
static inline unsigned int digits__count(uint64_t v)
{
	static const uint64_t tens[20] = {
		1ull,
		10ull,
		100ull,
		1000ull,
		10000ull,
		100000ull,
		1000000ull,
		10000000ull,
		100000000ull,
		1000000000ull,
		10000000000ull,
		100000000000ull,
		1000000000000ull,
		10000000000000ull,
		100000000000000ull,
		1000000000000000ull,
		10000000000000000ull,
		100000000000000000ull,
		1000000000000000000ull,
		10000000000000000000ull,
	};
	/* 1233 / 4096 is a little more than log10(2): right or one too few */
	unsigned int n = (unsigned int)(64 - __builtin_clzll(v | 1)) * 1233 >> 12;

	return n + ((v | 1) >= tens[n]);
}

/* Nanoseconds as microseconds with three decimals, at most DIGITS_US bytes from @p on. */
#define DIGITS_US 21
static inline char *digits__us(char *p, uint64_t ns)
{
	uint64_t us = ns / 1000;
	unsigned int rest = (unsigned int)(ns - us * 1000);

	p += digits__count(us);
	digits__u64(p, us);
	p[0] = '.';
	p[1] = (char)('0' + rest / 100);
	p[2] = (char)('0' + rest / 10 % 10);
	p[3] = (char)('0' + rest % 10);
	return p + 4;
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

/* Without zeros in front, from @p on; at most 16. Returns the end. */
static inline char *digits__hex(char *p, uint64_t v)
{
	static const char hex[] = "0123456789abcdef";
	unsigned int shift = (unsigned int)(63 - __builtin_clzll(v | 1)) & ~3u;

	*p++ = hex[v >> shift];
	while (shift) {
		shift -= 4;
		*p++ = hex[v >> shift & 15];
	}
	return p;
}

static inline void digits__hex16(char *out, uint64_t v)
{
	static const char hex[] = "0123456789abcdef";
	int i;

	for (i = 15; i >= 0; i--, v >>= 4)
		out[i] = hex[v & 15];
}

#endif
