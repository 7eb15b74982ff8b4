// SPDX-License-Identifier: Apache-2.0
/*
 * One clock out of many. CLOCK_BOOTTIME and CLOCK_REALTIME are slewed alike, so their difference
 * moves only when somebody sets the wall clock: anchors tell by how much.
 */
#include "user/prof/merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STEP_NS NSEC_PER_MSEC

static uint64_t max_step(const struct merge *m)
{
	return m->o.max_step_ns ? m->o.max_step_ns : MAX_STEP_NS;
}

/* A recording without a boot id shares its clock with nobody. */
static size_t boot_of(struct merge *m, const struct recording_meta *meta)
{
	size_t i;

	for (i = 0; i < m->n_boots; i++)
		if (meta->machine_id && *meta->machine_id && m->boots[i].id &&
		    !strcmp(m->boots[i].id, meta->machine_id))
			return i;
	m->boots[m->n_boots] = (struct merge_boot){
		.id = meta->machine_id && *meta->machine_id ? meta->machine_id : NULL,
		.host = meta->host && *meta->host ? meta->host : "a machine without a name",
	};
	return m->n_boots++;
}

static void measure(struct merge_boot *boot, const struct merge *m)
{
	uint64_t least = UINT64_MAX, greatest = 0, wall;
	const struct clock_anchor *a;
	size_t i, k;

	for (i = 0; i < m->n; i++) {
		if (&m->boots[m->in[i].boot] != boot)
			continue;
		for (k = 0; k < recording__n_anchors(m->in[i].r); k++) {
			a = recording__anchor(m->in[i].r, k);
			if (a->realtime < a->boottime)
				continue; /* a wall clock before 1970 tells nothing */
			wall = a->realtime - a->boottime;
			least = wall < least ? wall : least;
			greatest = wall > greatest ? wall : greatest;
		}
	}
	boot->anchored = least <= greatest;
	if (!boot->anchored)
		return;
	boot->spread = greatest - least;
	boot->wall = least + boot->spread / 2;
}

/* Whether the wall clock can tell when something of this boot was. */
static int check_wall(const struct merge *m, const struct merge_boot *boot, struct clika_error *err)
{
	if (!boot->anchored)
		return error__set(err, -EINVAL,
				  "recordings of %s hold no anchors of the wall clock: they "
				  "cannot be aligned with another machine",
				  boot->host);
	if (boot->spread > max_step(m))
		return error__set(err, -EINVAL,
				  "the wall clock of %s was set by %.3f ms while it was recorded: "
				  "what is aligned by it may be off by that; --max-step allows it",
				  boot->host, (double)boot->spread / 1e6);
	return 0;
}

static int align_boots(struct merge *m, struct clika_error *err)
{
	size_t i;
	int code;

	for (i = 0; i < m->n_boots; i++) {
		code = check_wall(m, &m->boots[i], err);
		if (code)
			return code;
		/* Whose boot is the earliest: every other clock is moved forward, none below 0. */
		if (m->boots[i].wall < m->boots[m->base].wall)
			m->base = i;
	}
	for (i = 0; i < m->n_boots; i++) {
		uint64_t off = m->boots[i].spread + m->boots[m->base].spread;

		if (i != m->base && off > m->result.accuracy_ns)
			m->result.accuracy_ns = off;
	}
	return 0;
}

static int shift(struct merge *m, struct merge_input *in, struct clika_error *err)
{
	in->shift = m->n_boots > 1 ? m->boots[in->boot].wall - m->boots[m->base].wall : 0;
	if (in->horizon == UINT64_MAX && in->shift)
		in->horizon -= in->shift;
	if (in->horizon + in->shift < in->horizon || in->end + in->shift < in->end)
		return error__set(err, -ERANGE, "the times of %s are out of range", in->path);
	if (in->begin + in->shift < m->begin)
		m->begin = in->begin + in->shift;
	if (in->end + in->shift > m->end)
		m->end = in->end + in->shift;
	return 0;
}

static void note_alignment(const struct merge *m)
{
	const struct merge_boot *b;
	size_t i;

	for (i = 0; i < m->n_boots; i++) {
		b = &m->boots[i];
		if (m->n_boots == 1 && b->anchored && b->spread > max_step(m))
			merge__note(m,
				    "the wall clock of %s was set by %.3f ms in between; the "
				    "recordings are aligned by the time since boot, which was not",
				    b->host, (double)b->spread / 1e6);
	}
	if (m->n_boots > 1)
		merge__note(m,
			    "%zu machines (or boots) are aligned by their wall clocks: to %.3f ms, "
			    "beside what these clocks differ themselves",
			    m->n_boots, (double)m->result.accuracy_ns / 1e6);
}

int merge__align(struct merge *m, struct clika_error *err)
{
	size_t i;
	int code;

	m->boots = calloc(m->n + 1, sizeof(*m->boots));
	if (!m->boots)
		return error__set(err, -ENOMEM, "out of memory");
	for (i = 0; i < m->n; i++)
		m->in[i].boot = boot_of(m, recording__meta(m->in[i].r));
	for (i = 0; i < m->n_boots; i++)
		measure(&m->boots[i], m);
	code = m->n_boots > 1 ? align_boots(m, err) : 0;
	m->begin = UINT64_MAX;
	for (i = 0; !code && i < m->n; i++)
		code = shift(m, &m->in[i], err);
	m->result.machines = (uint32_t)m->n_boots;
	if (!code)
		note_alignment(m);
	return code;
}

int merge__from_realtime(const struct merge *m, const char *path, uint64_t realtime, uint64_t *ts,
			 struct clika_error *err)
{
	const struct merge_boot *boot = &m->boots[m->base];
	int code = check_wall(m, boot, err);

	if (code)
		return code;
	if (realtime < boot->wall)
		return error__set(err, -ERANGE,
				  "%s begins before %s was booted: it cannot lie on its timeline",
				  path, boot->host);
	*ts = realtime - boot->wall;
	return 0;
}

/* Clocks of the base's nearest anchor, carried on to @ts. */
bool merge__anchor_at(const struct merge *m, uint64_t ts, struct clock_anchor *a)
{
	const struct clock_anchor *best = NULL, *b;
	uint64_t far = UINT64_MAX, d;
	size_t i, k;

	for (i = 0; i < m->n; i++) {
		if (m->in[i].boot != m->base)
			continue;
		for (k = 0; k < recording__n_anchors(m->in[i].r); k++) {
			b = recording__anchor(m->in[i].r, k);
			d = b->boottime > ts ? b->boottime - ts : ts - b->boottime;
			if (d < far) {
				far = d;
				best = b;
			}
		}
	}
	if (!best)
		return false;
	*a = (struct clock_anchor){ .boottime = ts };
	d = ts - best->boottime; /* modulo 2^64: it may lie before */
	a->monotonic = best->monotonic + d;
	a->monotonic_raw = best->monotonic_raw + d;
	a->realtime = best->realtime + d;
	a->monotonic_coarse = best->monotonic_coarse + d;
	return true;
}
