/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe's arguments as the kernel side fetches them. */
#ifndef CLIKA_USER_PROBE_FETCH_H
#define CLIKA_USER_PROBE_FETCH_H

#include "include/wire.h"
#include "user/probe/recipe.h"

enum fetch_when { FETCH_NEVER, FETCH_AT_ENTRY, FETCH_AT_RETURN };

struct fetch_arg {
	uint8_t when; /* enum fetch_when; never: its layout is not known */
	uint8_t val;  /* index of its value in the record */
	uint8_t slot; /* of its text */
};

struct fetch_plan {
	struct fetch_arg args[RECIPE_MAX_ARGS];
	struct wire_fetch_set entry, ret;
	bool at_entry, at_return; /* the sets say something */
	bool returns;             /* the return is worth a probe */
	bool never; /* which calls are kept cannot be decided: what does it is not known */
};

enum fetch_when recipe_arg__when(const struct recipe_arg *a);
bool recipe_type__is_text(enum recipe_type t);   /* texts and arrays: what takes a slot */
unsigned recipe_type__bytes(enum recipe_type t); /* of numbers */
bool recipe_type__is_signed(enum recipe_type t);

/*
 * @layouts: values of the recipe's layouts in this file, @known: which of them are; an argument
 * whose layout is not known is left out. Never fails: the recipe was checked when it was read.
 */
void fetch__plan(const struct recipe_function *fn, uint16_t machine, const int64_t *layouts,
		 const bool *known, struct fetch_plan *out);

#endif
