/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk as text, one item a line, so that a test can say what it expects by writing it down:
 *
 *   1000 main > step +5000          a span begins; its duration
 *   6000 main < step self 4500      and ends
 *   1200 main flow out job #1       "#1": flow_key
 *   2001 worker flow in job #1 wait 801 arrow
 *   1300 main ( copy lane 0         an async span begins
 *   1600 worker ) copy lane 0 dur 300
 *   2100 worker alloc 4096 device 0: 4096 in use, 0 reserved
 *   1600 main request end chat since 300 first 100 units 8
 *
 * Then flags (unfinished, clipped, no_begin, late, cut) and the captures' tags, "[a b]".
 */
#ifndef CLIKA_TESTS_WALK_TEXT_H
#define CLIKA_TESTS_WALK_TEXT_H

#include "user/session/session.h"

/* malloc'ed. Only items of which @only (a word of their line, NULL = all) is part. */
char *walk__text(struct session *s, const char *only);

/* Opens a session on @r, walks it, compares; prints both texts when they differ. */
void assert_walk(const struct recording *r, const struct session_opts *o, const char *expected);
void assert_walk_only(const struct recording *r, const struct session_opts *o, const char *only,
		      const char *expected);

#endif
