/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of any number of records fit into a page: those with the longest durations. Streams share
 * the room so that a short one is kept whole before a long one takes more; of each, records are
 * kept from some duration on. What is known at one time only falls: a record that is refused once
 * would be refused ever after.
 */
#ifndef CLIKA_EXPORT_HTML_KEEP_H
#define CLIKA_EXPORT_HTML_KEEP_H

#include "user/base/base.h"

/* Of durations: 16 to a power of two, and one each below 16. */
#define KEEP_OCTAVES 61
#define KEEP_CLASSES (KEEP_OCTAVES * 16)

struct keep_stream {
	uint64_t **bytes; /* of all records, by octave and class; NULL: none of the octave */
	uint64_t all;
	uint32_t least; /* class of the shortest that are kept */
};

struct keep {
	struct keep_stream *streams;
	size_t n;
	uint64_t room, held, recount;
};

int keep__init(struct keep *k, size_t n_streams, uint64_t room);
void keep__free(struct keep *k);

uint32_t keep__class(uint64_t dur);
/* The shortest duration of a class. */
uint64_t keep__shortest(uint32_t class);

/* Counts a record in. 1: it may be kept, 0: it never will, -ENOMEM. Until the last
 * keep__recount() up to half as much again as there is room for may be let in. */
int keep__admit(struct keep *k, size_t stream, uint32_t class, size_t bytes);
void keep__recount(struct keep *k, uint64_t room);
static inline bool keep__has(const struct keep *k, size_t stream, uint32_t class)
{
	return class >= k->streams[stream].least;
}

#endif
