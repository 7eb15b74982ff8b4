/* SPDX-License-Identifier: Apache-2.0 */
/* Exports of recordings built in a test, as text. Whatever fails fails the test. */
#ifndef CLIKA_TESTS_EXPORT_TEXT_H
#define CLIKA_TESTS_EXPORT_TEXT_H

#include "include/clika/prof.h"
#include "tests/common/rec_builder.h"

/* malloc'ed; *@len may be NULL. */
char *export__text(struct rec *b, const char *format, const struct clika_view_opts *view,
		   const struct clika_export_opts *o, size_t *len);

/* Fails unless @text is what a summary may be: valid UTF-8, no control byte but the newline, no
 * line of more than @columns characters, no blank at the end of a line. */
void assert_plain_text(const char *text, size_t len, unsigned int columns);

#endif
