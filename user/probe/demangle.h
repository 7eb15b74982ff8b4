/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIKA_USER_PROBE_DEMANGLE_H
#define CLIKA_USER_PROBE_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* malloc'ed; NULL: not a mangled C++ name, or one that would unfold to megabytes. */
char *demangle__name(const char *symbol);
/* A glob against the whole demangled name, against it without its parameters, and without the
 * return type that template functions carry. */
bool demangle__matches(const char *glob, const char *demangled);
/* The same name in the forms that a glob is tried on, short to long; equal ones are left out. */
#define DEMANGLE_FORMS 3
struct demangled {
	char *full, *bare;
	const char
		*forms[DEMANGLE_FORMS]; /* no parameters and no return type; no parameters; whole */
	unsigned n;
};
int demangled__make(const char *demangled, struct demangled *d); /* -ENOMEM */
void demangled__free(struct demangled *d);
/*
 * The longest piece of @glob that must occur in a mangled name if the demangled one is to match:
 * most names are told apart by it without being demangled. False when there is none.
 */
bool demangle__needle(const char *glob, char *needle, size_t n);
/* All such pieces, each with its NUL, behind the last one another NUL. malloc'ed; NULL: out of memory. */
char *demangle__needles(const char *glob);

#endif
