// SPDX-License-Identifier: Apache-2.0
#include "export/report.h"

#include <string.h>

bool memory__in_use(const struct memory_stats *m)
{
	return m->allocs || m->frees || m->reserves || m->releases;
}

const char *report__no_memory(const struct report *r)
{
	size_t i;

	for (i = 0; i < r->st->n_memory; i++)
		if (memory__in_use(&r->st->memory[i]))
			return NULL;
	return "nothing was allocated, freed or reserved through markers in what this is about";
}

/*
 * Whether all that the process ever did was recorded: it began afterwards, or the recorder started
 * it, stopped before its first instruction.
 */
static bool recorded_from_its_begin(const struct report *r, const struct process_info *p)
{
	const char *asked = recording__meta(session__recording(r->s))->targets;

	return (p->start && p->start >= session__origin(r->s)) ||
	       (asked && !strncmp(asked, "command ", 8));
}

/* What an older process had in use when recording began, no marker told. */
static void put_baseline(struct report *r, const struct memory_stats *m)
{
	put_i64(r, "recorded_baseline_bytes", m->baseline);
	if (recorded_from_its_begin(r, m->track->proc))
		put_i64(r, "baseline_bytes", m->baseline);
	else
		put_null(r, "baseline_bytes");
}

void put_blocks(struct report *r, const char *key, uint64_t count, uint64_t bytes)
{
	put_object(r, key);
	put_u64(r, "count", count);
	put_u64(r, "bytes", bytes);
	put_end_object(r);
}

void put_memory_totals(struct report *r, const struct memory_stats *m)
{
	put_process(r, m->track);
	put_u64(r, "device", m->device);
	put_known(r, "device_name", m->device_name);
	put_baseline(r, m);
	put_i64(r, "current_bytes", m->current);
	put_i64(r, "peak_bytes", m->peak);
	put_at(r, "peak_at_ns", m->peak_at);
	put_blocks(r, "allocated", m->allocs, m->alloc_bytes);
	put_blocks(r, "freed", m->frees, m->freed_bytes);
	put_object(r, "freed_but_older");
	put_u64(r, "before_recording", m->older_frees);
	put_null(r, "before_recording_bytes");
	put_u64(r, "before_captures", m->earlier_frees);
	put_u64(r, "before_captures_bytes", m->earlier_bytes);
	put_end_object(r);
	put_blocks(r, "freed_unseen", m->replaced, m->replaced_bytes);
	put_blocks(r, "not_freed", m->unfreed.blocks, m->unfreed.bytes);
	if (!m->reserves && !m->releases) {
		put_null(r, "reserved");
		return;
	}
	put_object(r, "reserved");
	put_i64(r, "recorded_baseline_bytes", m->reserved_baseline);
	put_i64(r, "current_bytes", m->reserved);
	put_i64(r, "peak_bytes", m->reserved_peak);
	put_at(r, "peak_at_ns", m->reserved_peak_at);
	put_blocks(r, "taken", m->reserves, m->reserved_bytes);
	put_blocks(r, "given_back", m->releases, m->released_bytes);
	put_u64(r, "older_given_back", m->older_releases);
	put_end_object(r);
}

void report__memory(struct report *r)
{
	const char *why = report__no_memory(r);
	size_t i;

	put_object(r, "memory");
	put_cstr(r, "empty_because", why);
	put_array(r, "devices");
	for (i = 0; i < r->st->n_memory; i++) {
		if (!memory__in_use(&r->st->memory[i]))
			continue;
		put_row(r);
		put_memory_totals(r, &r->st->memory[i]);
		put_end_object(r);
	}
	put_end_array(r);
	/* Nobody measures it yet. */
	put_null(r, "resident_peak_bytes");
	put_null(r, "heap_peak_bytes");
	put_end_object(r);
}
