/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of another profiler on its way into a recording. */
#ifndef CLIKA_USER_PROF_IMPORT_H
#define CLIKA_USER_PROF_IMPORT_H

#include "user/prof/import_scan.h"
#include "user/prof/merge.h"

#include <cjson/cJSON.h>

#define IMPORT_MAX_TRACKS 16384u
/* Phases that become events: spans, whole or as begin and end, instants, counters, flows, async spans. */
#define IMPORT_PHASES "XBEiICstfbe"

struct import_track {
	char *pid, *tid; /* as the file writes them */
	char *name;      /* NULL = none given */
	bool is_process; /* holds the name of a process, no events */
	uint64_t events;
	uint32_t thread; /* index in the result */
};

struct import {
	struct merge *m;
	const char *path;
	struct import_track *tracks;
	size_t n_tracks;
	struct map64 *track_at;
	bool kineto, onnx;   /* whose it seems to be */
	uint64_t base;       /* baseTimeNanoseconds, 0 = none */
	int64_t first, last; /* ns, as the file counts */
	uint64_t begin, end; /* the same in the clock of the result */
	uint64_t events, left_out;
	uint32_t process;
	struct clika_error *err;
};

const char *import__kind(const struct import *im);
/* NULL: the first reading saw no event of it. */
struct import_track *import__track(struct import *im, struct json_text pid, struct json_text tid);

/* import_events.c: the second reading. */
int import__events(struct import *im, struct clika_error *err);

#endif
