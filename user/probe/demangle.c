// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/base.h"
#include "user/probe/demangle.h"

#define MAX_MANGLED 1024u
#define MAX_UNFOLDED (4u << 20)

/* Of libstdc++; its header is C++ only. */
char *__cxa_demangle(const char *mangled, char *out, size_t *length, int *status);

/*
 * A mangled name may refer back to its own parts, so that 265 bytes unfold to gigabytes, and the
 * demangler has no limit. Nesting references three at a time grows fastest, by 3^(1/3) < 1.45
 * for each; names whose worst case stays small are safe whatever they say.
 */
static bool unfolds_too_far(const char *s)
{
	double worst = (double)strlen(s) * 4;

	for (; *s && worst < MAX_UNFOLDED; s++) {
		if (isdigit((unsigned char)*s)) { /* an identifier: its letters refer to nothing */
			size_t n = strtoul(s, NULL, 10);

			s += strspn(s, "0123456789");
			s += strnlen(s, n);
			s--;
		} else if ((*s == 'S' || *s == 'T') &&
			   (s[1] == '_' || isdigit((unsigned char)s[1]) ||
			    (isupper((unsigned char)s[1])))) {
			worst *= 1.45;
			s += strspn(s + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		}
	}
	return worst >= MAX_UNFOLDED;
}

char *demangle__name(const char *symbol)
{
	int status;

	if (symbol[0] != '_' || symbol[1] != 'Z' ||
	    strnlen(symbol, MAX_MANGLED + 1) > MAX_MANGLED || unfolds_too_far(symbol))
		return NULL;
	return __cxa_demangle(symbol, NULL, NULL, &status);
}

static bool is_operator(const char *p)
{
	return *p == 'o' && strncmp(p, "operator", 8) == 0;
}

/* Where the parameter list begins; the end of the string when there is none. */
static const char *parameters(const char *s)
{
	const char *p;
	int depth = 0;

	for (p = s; *p; p++) {
		if (!depth && is_operator(p) && p[8] && !isalnum((unsigned char)p[8]) &&
		    p[8] != '_') {
			p += 8;
			if (strncmp(p, "()", 2) == 0)
				p += 2;
			else
				p += strspn(p, "<>=-!");
			if (!*p)
				return p;
		}
		if (*p == '(' && !depth && strncmp(p, "(anonymous namespace)", 21) != 0 &&
		    (p - s < 8 || strncmp(p - 8, "decltype", 8) != 0))
			return p;
		if (*p == '<' || *p == '(' || *p == '{')
			depth++;
		else if ((*p == '>' || *p == ')' || *p == '}') && depth)
			depth--;
	}
	return p;
}

/* Behind the return type, if the name has one. */
static char *behind_type(char *s)
{
	char *p, *name = s;
	int depth = 0;

	for (p = s; *p; p++) {
		if (*p == '<' || *p == '(' || *p == '{')
			depth++;
		else if ((*p == '>' || *p == ')' || *p == '}') && depth)
			depth--;
		else if (*p == ' ' && !depth)
			name = p + 1;
		else if (!depth && is_operator(p))
			break;
	}
	return name;
}

int demangled__make(const char *demangled, struct demangled *d)
{
	char *name;

	memset(d, 0, sizeof(*d));
	d->full = strdup(demangled);
	d->bare = strndup(demangled, (size_t)(parameters(demangled) - demangled));
	if (!d->full || !d->bare) {
		demangled__free(d);
		return -ENOMEM;
	}
	name = behind_type(d->bare);
	d->forms[d->n++] = name;
	if (name != d->bare)
		d->forms[d->n++] = d->bare;
	if (strlen(d->bare) != strlen(d->full))
		d->forms[d->n++] = d->full;
	return 0;
}

void demangled__free(struct demangled *d)
{
	free(d->full);
	free(d->bare);
	memset(d, 0, sizeof(*d));
}

bool demangle__matches(const char *glob, const char *demangled)
{
	struct demangled d;
	bool hit = false;
	unsigned i;

	if (text__glob(glob, demangled))
		return true;
	if (demangled__make(demangled, &d))
		return false;
	for (i = 0; i < d.n && !hit; i++)
		hit = text__glob(glob, d.forms[i]);
	demangled__free(&d);
	return hit;
}

/* Words that a mangled name writes in another way, and their pieces: the glob may cut them. */
static bool is_abbreviated(const char *p, size_t n)
{
	static const char words[] =
		"std allocator basic_string string basic_istream basic_ostream "
		"basic_iostream istream ostream iostream char_traits operator void wchar_t "
		"bool char signed unsigned short int long float double const volatile "
		"restrict decltype auto true false anonymous namespace vtable typeinfo "
		"guard variable lambda unnamed type clone abi new delete virtual thunk non "
		"sizeof alignof noexcept throw this nullptr nullptr_t complex imaginary "
		"decimal32 decimal64 decimal128 char8_t char16_t char32_t half static_cast "
		"dynamic_cast const_cast reinterpret_cast default initializer for "
		"reference temporary transaction covariant return to fn construction in "
		"VTT TLS init function wrapper name enable_if typeid requires ";

	return memmem(words, sizeof(words) - 1, p, n) ||
	       (n >= 2 && p[0] == '_' && p[1] == '_'); /* __int128, __vector and their like */
}

/* The next piece from *@p on that no form of a name writes in another way; NULL = no more. */
static const char *next_piece(const char **p, size_t *len)
{
	while (**p) {
		const char *piece = *p;

		if (*piece == '[') { /* one of several letters: no literal */
			const char *close = strchr(piece + 1, ']');

			*p = close ? close + 1 : piece + strlen(piece);
			continue;
		}
		for (*len = 0; isalnum((unsigned char)piece[*len]) || piece[*len] == '_'; ++*len)
			;
		*p += *len ? *len : 1;
		if (*len && !isdigit((unsigned char)*piece) && !is_abbreviated(piece, *len))
			return piece;
	}
	return NULL;
}

bool demangle__needle(const char *glob, char *needle, size_t n)
{
	const char *piece;
	size_t best = 0, len;

	while ((piece = next_piece(&glob, &len))) {
		if (len > best && len < n) {
			memcpy(needle, piece, len);
			needle[len] = 0;
			best = len;
		}
	}
	return best > 0;
}

char *demangle__needles(const char *glob)
{
	char *all = malloc(strlen(glob) + 2), *to = all;
	const char *piece;
	size_t len;

	while (all && (piece = next_piece(&glob, &len))) {
		memcpy(to, piece, len);
		to += len;
		*to++ = 0;
	}
	if (all)
		*to = 0;
	return all;
}
