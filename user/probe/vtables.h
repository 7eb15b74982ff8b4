/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual functions of C++ classes in libraries without symbols: the classes' own type information stays in
 * the file when it is stripped, and tells names, bases and where the tables of functions are.
 */
#ifndef CLIKA_USER_PROBE_VTABLES_H
#define CLIKA_USER_PROBE_VTABLES_H

#include "user/probe/elf_file.h"

#define VTABLE_MAX_SLOTS 256

struct vtable {
	const char *class_name; /* "ns::Name<float>"; lives until the callback returns */
	unsigned depth;         /* 0: the base itself, 1: derives from it, ... */
	uint64_t slots
		[VTABLE_MAX_SLOTS]; /* vaddr of the functions; 0: pure virtual, or another library's */
	size_t n_slots;
};

struct vtables;
/* Everything that all of the file's classes need; to be freed before the file is closed. */
int vtables__read(struct elf_file *f, struct vtables **out, struct clika_error *err);
void vtables__free(struct vtables *x);

/*
 * Calls @fn for the table of @base ("ns::Name") and of each class that derives from it so that their slots are the same
 * (non-virtually, with the base's part at the class's own address), bases before what derives from them; non-zero
 * stops and is returned. 1: the base is in the file, 0: it is not, negative: an error. Shared libraries and
 * position-independent programs only: the tables are read from relocations.
 */
int vtables__each(struct vtables *x, const char *base, int (*fn)(void *ctx, const struct vtable *v),
		  void *ctx, struct clika_error *err);

/* Where a function goes that only sets up further arguments and jumps on, its first two and the stack as they
 * were; 0: it is none such. */
uint64_t elf_file__jumps_on(struct elf_file *f, uint64_t vaddr);

#endif
