/* SPDX-License-Identifier: Apache-2.0 */
/* Finds parts of a JSON text without building a tree: what is wanted is handed out as it stands. */
#ifndef CLIKA_USER_PROF_JSON_TEXT_H
#define CLIKA_USER_PROF_JSON_TEXT_H

#include "user/base/base.h"

struct json_text { /* p == NULL: nothing */
	const char *p, *end;
};

/* The value at the begin of @t, blanks in front skipped; @t moves behind it. */
struct json_text json_text__value(struct json_text *t);
/* The value of a member of an object; "a.b" looks into the member "a". Keys are compared as they
 * are written, so only plain ones are found. */
struct json_text json_text__member(struct json_text object, const char *path);
/* Elements of an array, one call each: start with the array itself in *@at; nothing at the end. */
struct json_text json_text__element(struct json_text *at);

#endif
