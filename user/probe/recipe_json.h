/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the recipe_*.c files only: JSON with comments whose values know their lines. */
#ifndef CLIKA_USER_PROBE_RECIPE_JSON_H
#define CLIKA_USER_PROBE_RECIPE_JSON_H

#include <cjson/cJSON.h>

#include "user/probe/recipe.h"

/* Limits on what a file may make us keep; far above what a runtime needs. */
#define RECIPE_MAX_FILE (1u << 20)
#define RECIPE_MAX_LIBRARIES 64u
#define RECIPE_MAX_LAYOUTS 256u
#define RECIPE_MAX_TABLES 16u
#define RECIPE_MAX_SLOTS 2048u
#define RECIPE_MAX_FUNCTIONS 2048u
#define RECIPE_MAX_LIST 1024u /* entries of one list */
#define RECIPE_MAX_TEXT 512u  /* bytes of one text */

struct rj {
	const char *shown_as;
	cJSON *root;
	struct clika_error *err;
};

/* The members of valueint are lines from here on: numbers are in valuedouble. */
int rj__open(struct rj *j, const char *text, size_t len, const char *shown_as,
	     struct clika_error *err);
void rj__close(struct rj *j);
/* "FILE:LINE: reason" with the line of @at; -EINVAL. */
int rj__bad(const struct rj *j, const cJSON *at, const char *fmt, ...) CLIKA_PRINTF(3, 4);
int rj__no_memory(const struct rj *j);

/* Is @o an object (called @what in the message) with no other keys than these, each once. NULL-terminated. */
int rj__keys(const struct rj *j, const cJSON *o, const char *what, const char *const *known);
/* " (did you mean 'x'?)", or " (there are: a, b)"; words[n], NULLs are left out. */
void rj__suggest(const char *word, const char *const *words, size_t n, char *to, size_t size);

const cJSON *rj__get(const cJSON *o, const char *key);
/* Leaves *@out alone when the key is not there; what is there must fit. */
int rj__text(const struct rj *j, const cJSON *o, const char *key, char **out);
int rj__text_of(const struct rj *j, const cJSON *item, const char *what, char **out);
int rj__texts(const struct rj *j, const cJSON *o, const char *key, char ***out, size_t *n);
int rj__int(const struct rj *j, const cJSON *o, const char *key, int64_t min, int64_t max,
	    int64_t *out);
int rj__int_of(const struct rj *j, const cJSON *item, const char *what, int64_t min, int64_t max,
	       int64_t *out);
int rj__bool(const struct rj *j, const cJSON *o, const char *key, bool *out);
/* One of words[1..n-1] by its index; words[0] is not looked at. */
int rj__word_of(const struct rj *j, const cJSON *item, const char *what, const char *const *words,
		size_t n, int *out);
/* A list of at most @max entries, none of which may be missing; NULL (and 0) when the key is not there. */
int rj__array(const struct rj *j, const cJSON *o, const char *key, size_t max, const cJSON **first,
	      size_t *n);
int rj__required(const struct rj *j, const cJSON *o, const char *what, const char *key);

/* "library": the ids as bits; all of them when the key is not there. */
int rj__libraries(const struct rj *j, const struct recipe *r, const cJSON *o, uint64_t *out);
/* recipe_rules.c */
int recipe__parse_functions(const struct rj *j, struct recipe *r, const cJSON *first);
void recipe_function__free(struct recipe_function *fn);
void texts__free(char **list, size_t n);

#endif
