/* SPDX-License-Identifier: Apache-2.0 */
/* How both sides of perfetto_text.h write their lines. */
#ifndef CLIKA_TESTS_PERFETTO_LINES_H
#define CLIKA_TESTS_PERFETTO_LINES_H

#include "user/base/base.h"

struct parts {
	char **at;
	size_t n, cap;
};

void parts__add(struct parts *p, struct buf *b); /* takes the buffer */
/* "key=value"; takes the place of one with that key: what an end says stands. */
void parts__add_arg(struct parts *p, struct buf *b);
char *parts__join(struct parts *p, const char *between); /* sorted; frees the parts */

void line__text(struct buf *b, const void *text, size_t len);
void line__valid(struct buf *b, const char *s, size_t len);
void line__key(struct buf *b, const char *key, size_t len);
/* Of a process or thread; "?": made up, because readers give the real one a meaning. */
void line__number(struct buf *b, uint64_t n);
void line__f64(struct buf *b, double f);
void line__flow(struct parts *lines, const char *from, uint64_t from_ts, const char *to,
		uint64_t to_ts);

#endif
