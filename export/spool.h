/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps what a walk gives in time order until it can be written thread by thread. Little of it is
 * in memory: the rest lies in an unnamed file.
 */
#ifndef CLIKA_EXPORT_SPOOL_H
#define CLIKA_EXPORT_SPOOL_H

#include "user/base/base.h"

struct spool;

struct spool *spool__new(size_t n_streams); /* NULL: out of memory */
void spool__free(struct spool *sp);
/* Appends one record; it comes back in one piece. */
int spool__put(struct spool *sp, size_t stream, const void *p, size_t n);
bool spool__has(const struct spool *sp, size_t stream);

/* Reads a stream from its begin, as often as needed, after the last put. */
struct spool_reader {
	struct spool *sp;
	size_t stream, block;
	struct cursor c; /* whole records */
	struct buf b;
	int err;
};
void spool_reader__init(struct spool_reader *r, struct spool *sp, size_t stream);
/* True: at least one record is left in r->c. False: the end, or r->err is set. */
bool spool_reader__more(struct spool_reader *r);
void spool_reader__free(struct spool_reader *r);

#endif
