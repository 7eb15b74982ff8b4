/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is alive at one moment, by the id its process gave it: flows, async spans, requests,
 * blocks of memory. Keys are (process image, domain, id); entries remember their order, so that
 * closing what is left gives the same result every time, and the oldest can go when there are
 * too many.
 */
#ifndef CLIKA_USER_SESSION_ID_TABLE_H
#define CLIKA_USER_SESSION_ID_TABLE_H

#include "user/base/base.h"

struct id_table;

/* Callers' data begins with this; the rest of an entry is theirs, zeroed at put. */
struct id_entry {
	struct id_entry *chain;             /* same bucket */
	struct id_entry *older, *newer;     /* all entries */
	struct id_entry *p_older, *p_newer; /* entries of one process */
	uint64_t id;
	uint32_t process, domain;
};

struct id_table *id_table__new(size_t entry_bytes, size_t n_processes);
void id_table__free(struct id_table *t);
void *id_table__get(const struct id_table *t, uint32_t process, uint32_t domain, uint64_t id);
/* The key must not be there. NULL: out of memory. */
void *id_table__put(struct id_table *t, uint32_t process, uint32_t domain, uint64_t id);
void id_table__del(struct id_table *t, void *entry);
void *id_table__oldest(const struct id_table *t);
void *id_table__oldest_of(const struct id_table *t, uint32_t process);
size_t id_table__count(const struct id_table *t);

#endif
