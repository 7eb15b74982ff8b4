// SPDX-License-Identifier: Apache-2.0
#include "user/base/base.h"

#include <string.h>

/*
 * Looks at the sequence that starts at @s. Returns its length and sets *@cp when it is well
 * formed; otherwise sets *@cp to UINT32_MAX and returns the length of the maximal subpart: the
 * longest prefix that could have begun a well-formed sequence, at least 1.
 */
static size_t utf8__step(const uint8_t *s, size_t len, uint32_t *cp)
{
	uint8_t lead = s[0], low = 0x80, high = 0xbf;
	size_t need, i;
	uint32_t v;

	*cp = UINT32_MAX;
	if (lead < 0x80) {
		*cp = lead;
		return 1;
	}
	if (lead < 0xc2 || lead > 0xf4)
		return 1;
	if (lead < 0xe0) {
		need = 2;
		v = lead & 0x1f;
	} else if (lead < 0xf0) {
		need = 3;
		v = lead & 0x0f;
		if (lead == 0xe0)
			low = 0xa0; /* shorter forms exist */
		else if (lead == 0xed)
			high = 0x9f; /* surrogates */
	} else {
		need = 4;
		v = lead & 0x07;
		if (lead == 0xf0)
			low = 0x90;
		else if (lead == 0xf4)
			high = 0x8f; /* above U+10FFFF */
	}
	for (i = 1; i < need; i++) {
		if (i >= len || s[i] < low || s[i] > high)
			return i;
		v = v << 6 | (s[i] & 0x3f);
		low = 0x80;
		high = 0xbf;
	}
	*cp = v;
	return need;
}

bool utf8__valid(const char *s, size_t len)
{
	uint32_t cp;
	size_t i;

	for (i = 0; i < len;) {
		i += utf8__step((const uint8_t *)s + i, len - i, &cp);
		if (cp == UINT32_MAX)
			return false;
	}
	return true;
}

void utf8__append_valid(struct buf *out, const char *s, size_t len)
{
	size_t i = 0, from = 0, n;
	uint32_t cp;

	while (i < len) {
		n = utf8__step((const uint8_t *)s + i, len - i, &cp);
		if (cp == UINT32_MAX) {
			buf__append(out, s + from, i - from);
			buf__append(out, "\xef\xbf\xbd", 3);
			from = i + n;
		}
		i += n;
	}
	if (len > from)
		buf__append(out, s + from, len - from);
}

/* Characters that reorder or split a line of text without being seen. */
static bool cp__hides_text(uint32_t cp)
{
	return cp == 0x061c || cp == 0x200e || cp == 0x200f || (cp >= 0x2028 && cp <= 0x202e) ||
	       (cp >= 0x2066 && cp <= 0x2069);
}

void text__append_printable(struct buf *out, const char *s, size_t len)
{
	size_t i = 0, from = 0, n;
	uint32_t cp;

	for (; i < len; i += n) {
		n = utf8__step((const uint8_t *)s + i, len - i, &cp);
		if (cp >= 0x20 && cp != 0x7f && !(cp >= 0x80 && cp < 0xa0) && cp != UINT32_MAX &&
		    !cp__hides_text(cp))
			continue;
		buf__append(out, s + from, i - from);
		from = i + n;
		if (cp == UINT32_MAX)
			buf__append(out, "\xef\xbf\xbd", 3);
		else if (cp < 0x100)
			buf__printf(out, "\\x%02x", cp);
		else
			buf__printf(out, "\\u%04x", cp);
	}
	if (len > from)
		buf__append(out, s + from, len - from);
}

/* Matches one [..] set that starts at @p; *@next is behind it. Without a ']' it is no set. */
static bool glob__set(const char *p, unsigned char c, bool *hit, const char **next)
{
	bool negate = false, in = false;
	const char *q = p + 1;

	if (*q == '!' || *q == '^') {
		negate = true;
		q++;
	}
	do {
		unsigned char lo = (unsigned char)*q, hi = lo;

		if (!lo)
			return false;
		if (q[1] == '-' && q[2] && q[2] != ']') {
			hi = (unsigned char)q[2];
			q += 2;
		}
		q++;
		in |= c >= lo && c <= hi;
	} while (*q != ']');
	*hit = in != negate;
	*next = q + 1;
	return true;
}

bool text__glob_parts(const char *pattern, const char *s, struct text_part *parts, size_t max)
{
	const char *star = NULL, *retry = NULL, *next;
	size_t n = 0, i;
	bool hit;

	for (i = 0; i < max; i++)
		parts[i] = (struct text_part){ s, 0 };
	while (*s) {
		next = pattern + 1;
		if (*pattern == '*') {
			star = ++pattern;
			retry = s;
			if (n++ < max)
				parts[n - 1].at = s;
			continue;
		}
		if (*pattern == '?')
			hit = true;
		else if (*pattern != '[' || !glob__set(pattern, (unsigned char)*s, &hit, &next))
			hit = *pattern && *pattern == *s;
		if (hit) {
			pattern = next;
			s++;
		} else if (star) {
			pattern = star;
			s = ++retry;
			if (n <= max)
				parts[n - 1].len = (size_t)(retry - parts[n - 1].at);
		} else {
			return false;
		}
	}
	for (; *pattern == '*'; pattern++)
		if (n++ < max)
			parts[n - 1].at = s;
	return !*pattern;
}

bool text__glob(const char *pattern, const char *s)
{
	return text__glob_parts(pattern, s, NULL, 0);
}
