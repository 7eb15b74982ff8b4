/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and functions that only the machine code and data of a library tell. */
#ifndef CLIKA_USER_PROBE_LAYOUT_H
#define CLIKA_USER_PROBE_LAYOUT_H

#include "user/probe/recipe.h"

/*
 * The value of @l in the file that is library @libraries of the recipe: its accessor, else debug information, else
 * the table. 1 found, 0 this file does not tell, negative: an error worth a line (the accessor is there but its code
 * is not understood, and nothing else tells).
 */
int layout__find(const struct recipe_layout *l, struct elf_file *f, int64_t *value,
		 struct clika_error *err);

/* The pointers of a table in the file, by slot: vaddr of functions, 0 = not one. malloc'ed. 1 found, 0 none. */
int pointer_table__find(const struct recipe_table *t, struct elf_file *f, uint64_t *table_vaddr,
			uint64_t **slots, size_t *n, struct clika_error *err);
/* Does the process hold at @at (run-time address of the table) these very functions? 1 yes, 0 no, negative: cannot be read. */
int pointer_table__confirm(pid_t pid, uint64_t at, uint64_t bias, const uint64_t *slots, size_t n);

/* Start and size of the function around @vaddr by the unwind tables (.eh_frame), for code without symbols; else by
 * the symbol whose code it is. */
bool elf_file__function_at(struct elf_file *f, uint64_t vaddr, uint64_t *start, uint64_t *size);

#endif
