/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of a page: each once, printable, cut when very long, in a JSON array. What the array
 * takes is bounded: texts beyond that are null.
 */
#ifndef CLIKA_EXPORT_HTML_TEXTS_H
#define CLIKA_EXPORT_HTML_TEXTS_H

#include "export/json_emit.h"

#define HTML_TEXT_BYTES 600 /* of one text; an ellipsis stands for the rest */

struct html_texts {
	struct strpool *pool;
	struct buf scratch;
	uint8_t *refused; /* by id */
	uint32_t n, cap;
	size_t left; /* bytes of the array not taken yet */
};

int html_texts__init(struct html_texts *t, size_t max_texts, size_t max_bytes);
void html_texts__free(struct html_texts *t);
/* Index in the array; 0 is the empty text. UINT32_MAX: out of memory. */
uint32_t html_texts__id(struct html_texts *t, const char *s, size_t len);
void html_texts__put(const struct html_texts *t, struct json *j);

/* Bytes that @s takes in JSON that html_page__json() has made safe. */
size_t html_texts__cost(const char *s, size_t len);

#endif
