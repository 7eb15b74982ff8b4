/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracks of a Perfetto trace. Each is described once, before the first event on it, and known
 * by a number made from what it is: a process image is (host boot, pid, start, exec generation),
 * so that a reused pid is another process.
 */
#ifndef CLIKA_EXPORT_PERFETTO_TRACKS_H
#define CLIKA_EXPORT_PERFETTO_TRACKS_H

#include "export/perfetto_out.h"
#include "export/trace_ids.h"

struct pf_tracks {
	const struct session *s;
	struct pf_out *o;
	struct pf_seq *seq; /* takes the descriptions */
	struct trace_ids ids;
	uint64_t host;          /* goes into every number */
	uint64_t *uuid;         /* by track: of its thread */
	uint32_t *leader;       /* by track: the first track of its process */
	uint64_t *process;      /* by leader */
	bool *described;        /* by leader */
	struct map64 *taken;    /* numbers in use */
	struct map64 *pids;     /* that processes of the trace have had so far */
	struct map64 *lanes;    /* lane key -> number */
	struct map64 *groups;   /* (process, name, requests?) -> number */
	struct map64 *counters; /* the same for counters -> number */
	int err;
};

int pf_tracks__init(struct pf_tracks *t, const struct session *s, struct pf_out *o,
		    struct pf_seq *seq);
void pf_tracks__free(struct pf_tracks *t);

/* Of the thread; it and its process are described if they were not. */
uint64_t pf_tracks__thread(struct pf_tracks *t, const struct track *track, uint64_t ts);
uint64_t pf_tracks__process(struct pf_tracks *t, const struct track *track, uint64_t ts);
/* Of the lane of an async span or a request: a row below a group with that name. */
uint64_t pf_tracks__lane(struct pf_tracks *t, const struct item *it, uint32_t name, bool request);

enum pf_counter { PF_COUNTER_PLAIN, PF_COUNTER_IN_USE, PF_COUNTER_RESERVED };
/* @id: string id of a plain counter's name, else number of the device. */
uint64_t pf_tracks__counter(struct pf_tracks *t, const struct track *track, enum pf_counter what,
			    uint32_t id, uint64_t ts);

/* A row with one name, below a process (NULL: on its own); made anew by every call. */
uint64_t pf_tracks__row(struct pf_tracks *t, const struct track *track, const char *name,
			const char *about, uint64_t ts);

#endif
