/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several recordings become one: all times are moved to one machine's CLOCK_BOOTTIME, all names,
 * processes, threads and ids get numbers of the new file. Events stream through; memory goes with
 * names, threads and blocks.
 */
#ifndef CLIKA_USER_PROF_MERGE_H
#define CLIKA_USER_PROF_MERGE_H

#include "clika/prof.h"
#include "user/recording/writer.h"
#include "user/session/session.h"

struct merge_activity {
	uint64_t first, last; /* first > last: never */
};

struct merge_input {
	const char *path;
	struct recording *r;
	struct session *s;
	uint64_t begin, end;  /* of its own clock */
	uint64_t horizon;     /* events after are out of range */
	uint64_t shift;       /* added to its times */
	uint32_t *process_of; /* index there -> index here */
	uint32_t *thread_of;
	uint32_t first_process;        /* index here of the first one that it may bring along */
	struct merge_activity *active; /* by process: when something of it was recorded */
	uint32_t *name_of;             /* string id there -> here, 0 = not asked for yet */
	struct map64 *captures;        /* id there -> here */
	uint64_t bad_times, bad_blocks;
	char *label; /* for people: machine, or file */
	size_t boot; /* which boot of which machine */
};

/* Recordings of one boot share CLOCK_BOOTTIME. */
struct merge_boot {
	const char *id, *host;
	bool anchored;
	uint64_t wall;   /* CLOCK_REALTIME at boot time 0: the middle of what its anchors say */
	uint64_t spread; /* between the least and the greatest of them */
};

struct merge {
	struct clika_merge_opts o;
	struct merge_input *in;
	size_t n;
	struct merge_boot *boots;
	size_t n_boots, base; /* base: whose clock the result has */
	struct strpool *names;
	struct recording_writer *w;
	struct map64 *process_at; /* who it is -> index, of recorded ones */
	struct map64 *thread_at;
	struct process_info *processes; /* by index; as recorded; strings are the recording's */
	struct thread_info *threads;
	size_t n_processes, cap_processes, n_threads, cap_threads;
	uint64_t next_open, next_capture;
	uint64_t begin, end; /* of all recordings, in the clock of the result */
	struct clika_merge_result result;
};

/* What is worth knowing and no error. */
void merge__note(const struct merge *m, const char *fmt, ...) CLIKA_PRINTF(2, 3);

/* --- merge_align.c --------------------------------------------------------------------------- */

int merge__align(struct merge *m, struct clika_error *err);
/* CLOCK_REALTIME to the time of the result. */
int merge__from_realtime(const struct merge *m, const char *path, uint64_t realtime, uint64_t *ts,
			 struct clika_error *err);
/* All clocks of a moment of the result; false: no recording of that machine has any. */
bool merge__anchor_at(const struct merge *m, uint64_t ts, struct clock_anchor *a);

/* --- merge_people.c -------------------------------------------------------------------------- */

/* Writes processes and threads of all inputs. Refuses what would be there twice. */
int merge__people(struct merge *m, struct clika_error *err);
/* Losses, counts, captures, anchors, warnings. */
int merge__account(struct merge *m);
/*
 * Where there are anchors, what lies far from all of them is taken for noise. What has none of its
 * own gets some at its edges, so that others' do not shut it out.
 */
int merge__put_edges(struct merge *m, uint64_t first, uint64_t last);

/* --- merge_copy.c ---------------------------------------------------------------------------- */

int merge__copy(struct merge *m, struct clika_error *err);
uint32_t merge__name(struct merge *m, struct merge_input *in, uint32_t id);

/* --- import.c -------------------------------------------------------------------------------- */

/* A trace of another tool, when the file is one; else -ENOEXEC and nothing in @err. */
bool import__is_trace(const char *path);
int import__trace(struct merge *m, const struct clika_merge_input *from, struct clika_error *err);

#endif
