/* SPDX-License-Identifier: Apache-2.0 */
/* Names of marker records: literals read from the mapped ELF file, never from a target's memory. */
#ifndef CLIKA_USER_STREAM_NAMES_H
#define CLIKA_USER_STREAM_NAMES_H

#include "user/probe/files.h"

struct name_ids {
	uint32_t name, cat, src; /* in the recording's string pool */
	bool hidden;             /* the user's name filters leave it out */
};

struct names;
/* @filters: "glob" keeps, "!glob" leaves out; none = all. @pool and @files outlive it. */
struct names *names__new(struct strpool *pool, const struct files *files,
			 const char *const *filters, size_t n_filters);
void names__free(struct names *n);
/* The literal at @disp from the file's clika object. Always gives something printable. */
const struct name_ids *names__literal(struct names *n, uint32_t file, int32_t disp);
/* The same of a simple marker, whose displacements count from @vaddr, its semaphore. */
const struct name_ids *names__simple_literal(struct names *n, uint32_t file, uint64_t vaddr,
					     int32_t disp);
/* A name given as text. */
struct name_ids names__text(struct names *n, const char *s, size_t len);
bool names__hidden(const struct names *n, const char *name);
struct strpool *names__pool(struct names *n);

#endif
