/* SPDX-License-Identifier: Apache-2.0 */
/* Text for people: units, aligned columns, wrapped lines; never a control byte. */
#ifndef CLIKA_EXPORT_TEXT_OUT_H
#define CLIKA_EXPORT_TEXT_OUT_H

#include "user/base/base.h"

struct text_out {
	struct outfile *out;
	unsigned int columns;
	struct buf line;
	int err;
};

void text_out__init(struct text_out *t, struct outfile *out, unsigned int columns);
void text_out__free(struct text_out *t);
int text_out__error(const struct text_out *t);

/* A heading with a rule below it and an empty line above. */
void text_out__heading(struct text_out *t, const char *text);
/* One line, cut to the width; control bytes are shown, not sent. */
void text_out__line(struct text_out *t, const char *fmt, ...) CLIKA_PRINTF(2, 3);
/* Words over as many lines as it takes; all but the first begin with @indent spaces. */
void text_out__wrap(struct text_out *t, unsigned int indent, const char *text, size_t len);

/*
 * Columns of a table: the first takes the width that is left and is for text, aligned left; the
 * others are right-aligned numbers. A text too long for its column gets a line of its own.
 */
#define TEXT_CELL 24
struct text_table {
	struct text_out *t;
	unsigned int n, width[16], first;
};
void text_table__begin(struct text_table *tab, struct text_out *t, const char *what,
		       const char *const *titles, const unsigned int *widths, unsigned int n);
void text_table__row(struct text_table *tab, const char *name, size_t len,
		     const char (*cells)[TEXT_CELL]);

/* At most 7 characters: three digits and a unit. */
void text__duration(char *out, uint64_t ns);
void text__bytes(char *out, uint64_t bytes); /* "12.3 MiB", at most 8 characters */
void text__signed_bytes(char *out, int64_t bytes);
void text__count(char *out, uint64_t n);                   /* "1,234,567" */
void text__percent(char *out, uint64_t part, uint64_t of); /* "12.3%" */
void text__rate(char *out, uint64_t n, uint64_t ns);       /* "123.4/s" */

#endif
