/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions lose their probes when these cost too much: the choice alone. */
#ifndef CLIKA_USER_PROF_BUDGET_CHOICE_H
#define CLIKA_USER_PROF_BUDGET_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct candidate {
	uint32_t func;
	double cost;      /* ns in this look */
	double cost_call; /* ns a call */
	double mean_self; /* ns */
	uint64_t calls, self_ns;
	bool cheap; /* calls that take less than twice their probes */
	bool small; /* nothing much is won; set by the choice */
	bool does;  /* memory, requests, flows: one without the others would be wrong */
};

/*
 * @cost: of all functions, those that are no candidates counted in; @allowed: what they may cost. The
 * first so many of @all, which is put in order, are to go.
 */
size_t budget__choose(struct candidate *all, size_t n, double cost, double allowed);

#endif
