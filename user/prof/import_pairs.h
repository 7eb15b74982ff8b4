/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans of an imported trace that are told as two events, a begin and an end. They belong together
 * by thread, the latest begin first, as they stand in the file: the format has them in order of
 * time. An end that has a name ends the latest begin of that name; what was begun inside it has
 * lost its end.
 */
#ifndef CLIKA_USER_PROF_IMPORT_PAIRS_H
#define CLIKA_USER_PROF_IMPORT_PAIRS_H

#include "user/prof/json_text.h"

struct import_pairs;

struct import_pair {
	size_t track;
	uint32_t depth; /* begins that were open when it began */
	struct json_text begin, end;
	int64_t begin_ts, end_ts; /* without an end (.p == NULL): where it must have been left */
};
typedef int (*import_pair_fn)(void *ctx, const struct import_pair *pair);

struct import_pairs *import_pairs__new(size_t n_tracks, import_pair_fn fn, void *ctx);
void import_pairs__free(struct import_pairs *p);
/* The text is copied. */
int import_pairs__begin(struct import_pairs *p, size_t track, struct json_text event, int64_t ts);
int import_pairs__end(struct import_pairs *p, size_t track, struct json_text event, int64_t ts);
/* Hands out what is still open. */
int import_pairs__finish(struct import_pairs *p, int64_t ts);
/* Events that found no other, or came in no order. */
uint64_t import_pairs__left_out(const struct import_pairs *p);

#endif
