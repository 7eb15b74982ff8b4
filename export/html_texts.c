// SPDX-License-Identifier: Apache-2.0
#include "export/html_texts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CUT "\xe2\x80\xa6" /* an ellipsis */

int html_texts__init(struct html_texts *t, size_t max_texts, size_t max_bytes)
{
	*t = (struct html_texts){ .left = max_bytes };
	/* Texts grow by half at most when they are made printable and cut. */
	t->pool = strpool__new(max_texts, 2 * max_bytes);
	return t->pool ? 0 : -ENOMEM;
}

void html_texts__free(struct html_texts *t)
{
	strpool__free(t->pool);
	buf__free(&t->scratch);
	free(t->refused);
	*t = (struct html_texts){ 0 };
}

size_t html_texts__cost(const char *s, size_t len)
{
	size_t i, n = len + 3;

	for (i = 0; i < len; i++) {
		if (s[i] == '<' || s[i] == '>' || s[i] == '&')
			n += 5;
		else if (s[i] == '"' || s[i] == '\\')
			n++;
	}
	return n;
}

/* A new text takes its part of the budget, or is refused for good. */
static int charge(struct html_texts *t, uint32_t id)
{
	size_t cost = html_texts__cost(strpool__str(t->pool, id), strpool__len(t->pool, id));
	uint8_t *bigger;

	if (id >= t->cap) {
		uint32_t cap = id < 64 ? 128 : id * 2;

		bigger = realloc(t->refused, cap);
		if (!bigger)
			return -ENOMEM;
		memset(bigger + t->cap, 0, cap - t->cap);
		t->refused = bigger;
		t->cap = cap;
	}
	t->refused[id] = cost > t->left;
	t->left -= cost > t->left ? 0 : cost;
	t->n = id;
	return 0;
}

uint32_t html_texts__id(struct html_texts *t, const char *s, size_t len)
{
	bool cut = len > HTML_TEXT_BYTES;
	uint32_t id;

	if (!len)
		return 0;
	if (cut) /* not inside a character */
		for (len = HTML_TEXT_BYTES; len && ((uint8_t)s[len] & 0xc0) == 0x80;)
			len--;
	buf__reset(&t->scratch);
	text__append_printable(&t->scratch, s, len);
	if (cut)
		buf__append(&t->scratch, CUT, sizeof(CUT) - 1);
	if (buf__error(&t->scratch))
		return UINT32_MAX;
	id = strpool__id(t->pool, (const char *)t->scratch.data, t->scratch.len);
	if (!id || (id > t->n && charge(t, id)))
		return UINT32_MAX;
	return id;
}

void html_texts__put(const struct html_texts *t, struct json *j)
{
	uint32_t i;

	json__array(j);
	json__str(j, "", 0);
	for (i = 1; i <= t->n; i++) {
		if (t->refused[i])
			json__null(j);
		else
			json__str(j, strpool__str(t->pool, i), strpool__len(t->pool, i));
	}
	json__end_array(j);
}
