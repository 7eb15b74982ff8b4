/* SPDX-License-Identifier: Apache-2.0 */
/* Losses added up by cause: everybody says the same numbers, zeros included. */
#ifndef CLIKA_USER_RECORDING_LOSSES_H
#define CLIKA_USER_RECORDING_LOSSES_H

#include "user/recording/reader.h"

struct losses {
	uint64_t records[LOSS_CAUSE_COUNT]; /* exactly lost, by cause; [0] unused */
	uint64_t at_most[LOSS_CAUSE_COUNT]; /* unknown, at most this many more */
	uint64_t all_records, all_at_most;
};

void losses__add(struct losses *l, const struct loss_info *row);
void losses__sum(struct losses *l, const struct recording *r);
const char *losses__code(unsigned int cause); /* stable: "ring_full" */
const char *losses__text(unsigned int cause); /* for people */

#endif
