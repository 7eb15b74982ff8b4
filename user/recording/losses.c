// SPDX-License-Identifier: Apache-2.0
#include "user/recording/losses.h"

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

/*
 * A recorder tells the same losses several times: as a whole, by CPU, by process and probe. The
 * whole counts. Where it is missing, the others are parts of it, and the fullest of them is as
 * near as one gets.
 */
enum view { WHOLE, BY_CPU, BY_PROCESS, VIEWS };

static enum view view_of(const struct loss_info *row)
{
	if (row->cpu >= 0)
		return BY_CPU;
	return row->process == UINT32_MAX && !row->probe ? WHOLE : BY_PROCESS;
}

static void take(struct losses *l, const struct losses *from, unsigned int cause)
{
	struct loss_info row = { .cause = (uint16_t)cause,
				 .records = from->records[cause],
				 .at_most = from->at_most[cause] };

	losses__add(l, &row);
}

void losses__sum(struct losses *l, const struct recording *r)
{
	struct losses views[VIEWS] = { 0 };
	bool whole[LOSS_CAUSE_COUNT] = { 0 };
	const struct loss_info *row;
	unsigned int cause;
	size_t i;

	memset(l, 0, sizeof(*l));
	for (i = 0; i < recording__n_losses(r); i++) {
		row = recording__loss(r, i);
		/* A cause of a later version is part of the sums alone. */
		if (!row->cause || row->cause >= LOSS_CAUSE_COUNT) {
			if (view_of(row) == WHOLE)
				losses__add(l, row);
			continue;
		}
		losses__add(&views[view_of(row)], row);
		whole[row->cause] |= view_of(row) == WHOLE;
	}
	for (cause = 1; cause < LOSS_CAUSE_COUNT; cause++) {
		const struct losses *cpu = &views[BY_CPU], *process = &views[BY_PROCESS];

		if (whole[cause])
			take(l, &views[WHOLE], cause);
		else if (cpu->records[cause] >= process->records[cause])
			take(l, cpu, cause);
		else
			take(l, process, cause);
	}
}
