/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perfetto traces as sorted lines of text, from two sides: as a reader of the format sees the
 * bytes, and as a session's walk says that they should be.
 *
 *   slice 100@5/101 1000 +500 d0 layer conv2d @a.c:7 {flops=i9 unit=sms}
 *       pid, start of the process, thread; begin, duration, depth; category, name, source,
 *       arguments sorted by key
 *   slice 100@5:classify ...                             the same in a row below the process
 *   flow 100@5/100@1000 submit -> 100@5/101@1200 batch   between the spans that began then
 *   counter 100@5 queue%20depth 1000 i5
 *
 * Characters other than letters, digits and _.-/ are shown as %XX; "-" is the empty text.
 */
#ifndef CLIKA_TESTS_PERFETTO_TEXT_H
#define CLIKA_TESTS_PERFETTO_TEXT_H

#include "user/session/session.h"

/* Reads like an importer does, and fails the test where one would complain. malloc'ed. */
char *perfetto__seen(const void *data, size_t len);
/* malloc'ed. */
char *perfetto__expected(struct session *s);

#endif
