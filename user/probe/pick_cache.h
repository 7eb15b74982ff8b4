/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recipe found in a file, kept for the next time: which functions, where their calls begin and
 * end. A large library takes a good part of a second to search; reading this takes some milliseconds.
 *
 * A build id is a name, not a proof: a file with a made-up one must not decide where probes go in
 * another, what functions are called there, or that there are none. So an entry is for one file as
 * it was last changed (its number and time of change, which only the kernel sets), and each function is
 * kept with a hash of its code: one that does not match throws the whole entry away.
 */
#ifndef CLIKA_USER_PROBE_PICK_CACHE_H
#define CLIKA_USER_PROBE_PICK_CACHE_H

#include "user/probe/recipe.h"

struct cached_pick {
	uint32_t rule;    /* index of the recipe's function */
	uint32_t n_names; /* as many as the rule has, or 1 when it has none */
	const char *names[RECIPE_MAX_NAMES];
	uint64_t vaddr, size; /* of the function */
	/* NULL: some lie outside the function (parts that the compiler moved away), look again */
	const struct func_sites *sites;
};

struct pick_cache;

/*
 * The folder: $CLIKA_CACHE_DIR, else /var/cache/clika-bpf-prof for root, else below $XDG_CACHE_HOME or ~/.cache. NULL: there is
 * nothing to key by (no build id), or no memory. @on says which rules are on, @salt whatever else the
 * outcome depends on. The file must outlive it.
 */
struct pick_cache *pick_cache__new(struct elf_file *f, const struct recipe *r,
				   bool (*on)(void *ctx, const struct recipe_function *fn),
				   void *ctx, uint64_t salt);
void pick_cache__free(struct pick_cache *c); /* NULL is fine */
/* 1: all was given to @fn and *@refused set; 0: not there, or of no use; negative: from @fn. */
int pick_cache__load(struct pick_cache *c, int (*fn)(void *ctx, const struct cached_pick *p),
		     void *ctx, uint32_t *refused, struct func_skips *skips);
/* What is found now, for pick_cache__save(). */
void pick_cache__add(struct pick_cache *c, const struct cached_pick *p);
/* Failing to save is no error: the next one searches again. */
void pick_cache__save(struct pick_cache *c, uint32_t refused, const struct func_skips *skips);

#endif
