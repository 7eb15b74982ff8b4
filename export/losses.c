// SPDX-License-Identifier: Apache-2.0
#include "export/losses.h"

#include <string.h>

/* A cause that is added to LOSS_CAUSES without a code here does not compile. */
#define LOSS_RING_FULL_CODE "ring_full"
#define LOSS_READ_FAULT_CODE "read_fault"
#define LOSS_BAD_RECORD_CODE "bad_record"
#define LOSS_OVERWRITTEN_CODE "overwritten"
#define LOSS_MAP_FULL_CODE "map_full"
#define LOSS_TARGET_DROPPED_CODE "target_dropped"
#define LOSS_FILE_LIMIT_CODE "file_limit"
#define LOSS_PROBE_MISSED_CODE "probe_missed"

static const struct {
	const char *code, *text;
} causes[LOSS_CAUSE_COUNT] = {
#define X(e, n, text) [n] = { e##_CODE, text },
	LOSS_CAUSES(X)
#undef X
};

const char *losses__code(unsigned int cause)
{
	return cause && cause < LOSS_CAUSE_COUNT ? causes[cause].code : "unknown";
}

const char *losses__text(unsigned int cause)
{
	return cause && cause < LOSS_CAUSE_COUNT ? causes[cause].text : "unknown";
}

static void add(uint64_t *sum, uint64_t n)
{
	if (__builtin_add_overflow(*sum, n, sum))
		*sum = UINT64_MAX;
}

void losses__add(struct losses *l, const struct loss_info *row)
{
	if (row->cause && row->cause < LOSS_CAUSE_COUNT) {
		add(&l->records[row->cause], row->records);
		add(&l->at_most[row->cause], row->at_most);
	}
	add(&l->all_records, row->records);
	add(&l->all_at_most, row->at_most);
}

void losses__sum(struct losses *l, const struct recording *r)
{
	size_t i;

	memset(l, 0, sizeof(*l));
	for (i = 0; i < recording__n_losses(r); i++)
		losses__add(l, recording__loss(r, i));
}
