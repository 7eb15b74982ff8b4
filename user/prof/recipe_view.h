/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes as text for people. */
#ifndef CLIKA_USER_PROF_RECIPE_VIEW_H
#define CLIKA_USER_PROF_RECIPE_VIEW_H

#include "include/clika/prof.h"
#include "user/probe/recipe.h"

void recipe_view__show(struct buf *out, const struct recipe *r, unsigned columns);
/* What @r finds in @f; nothing when it does not fit. */
int recipe_view__check(struct buf *out, const struct recipe *r, struct elf_file *f,
		       const char *path, unsigned columns, struct clika_recipe_check *result,
		       struct clika_error *err);

/* @label in column @from, @text wrapped at blanks, its second and later lines in column @indent. */
void recipe_view__line(struct buf *out, unsigned from, unsigned indent, const char *label,
		       const char *text, unsigned columns);

#endif
