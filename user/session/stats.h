/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a walk adds up to: operations, threads, waiting, requests, memory, captures, and warnings
 * with their evidence. A sink of the walk; memory goes with distinct names, threads and devices.
 */
#ifndef CLIKA_USER_SESSION_STATS_H
#define CLIKA_USER_SESSION_STATS_H

#include "user/session/histogram.h"
#include "user/session/session.h"

/* Names beyond this many operations are added up as one. */
#define STATS_MAX_OPS 65536

struct op_stats { /* spans of one (category, name) */
	uint32_t name, cat;
	bool other;           /* all operations beyond STATS_MAX_OPS */
	uint16_t flags;       /* of any of its spans: EVS_FUNCTION, EVS_USDT ... */
	uint64_t total_ns;    /* a recursive call counts once, for its outermost span */
	uint64_t self_ns;     /* without the spans inside */
	struct histogram dur; /* count is the calls */
	uint64_t unfinished, late;
	uint64_t allocs, alloc_bytes, frees, freed_bytes; /* while it was the innermost span */
};

struct thread_stats {
	const struct track *track;
	uint64_t spans;
	uint64_t busy_ns;        /* in spans, and inside the observed time */
	uint64_t longest_gap_ns; /* between two spans, with nothing marked */
	uint64_t longest_gap_at; /* ns: begin of that gap */
	uint64_t last_end;
};

struct wait_stats { /* flows of one name into spans of one name: since the step before */
	uint32_t name;
	uint32_t into; /* string id of the receiving span's name; 0 = received outside spans */
	struct histogram wait;
	uint64_t ran_ns; /* durations of the spans that received them */
	uint64_t ran;    /* how many of those */
};

struct async_stats { /* async spans of one name */
	uint32_t name;
	struct histogram dur;
	uint32_t most; /* at the same time, in one process */
	uint64_t unfinished;
};

struct request_stats { /* requests of one kind */
	uint32_t name;
	uint64_t begun, ended, unfinished;
	uint64_t no_begin;   /* ended, but begun before the recording */
	uint64_t units;      /* of all output */
	uint64_t open, most; /* at the same time */
	uint64_t first_begin, last_end;
	struct histogram latency;  /* begin to end */
	struct histogram first;    /* begin to first output */
	struct histogram per_unit; /* first output to end, for each unit after the first */
};

struct memory_stats {                 /* of one (process, device) */
	const struct track *track;    /* of its process */
	uint32_t device, device_name; /* string id, 0 = none given */
	int64_t baseline;             /* in use before the first event of the result */
	int64_t current, peak;        /* in use at the end, at most */
	int64_t reserved, reserved_peak;
	uint64_t peak_at; /* ns */
	uint64_t allocs, alloc_bytes, frees, freed_bytes;
	uint64_t older_frees; /* freed, but allocated before the recording */
	uint64_t reserves, reserved_bytes, releases, released_bytes;
};

struct pool_stats {            /* of one (process, device, pool) */
	uint32_t memory;       /* index into stats.memory */
	uint32_t pool;         /* string id, 0 = none */
	int64_t current, peak; /* of blocks whose allocation was seen */
	uint64_t allocs, alloc_bytes, frees, freed_bytes;
};

struct capture_stats {
	const struct session_capture *capture;
	uint64_t spans, late, cut;
	uint64_t self_ns; /* of all its spans */
};

struct stats_warning {
	char code[32]; /* stable: "queue-wait" */
	char *text;    /* what, and the numbers that show it; no newline */
};

struct stats {
	struct session *s;
	struct op_stats *ops;
	size_t n_ops;
	struct thread_stats *threads;
	size_t n_threads; /* by track, all of them */
	struct wait_stats *waits;
	size_t n_waits;
	struct async_stats *asyncs;
	size_t n_asyncs;
	struct request_stats *requests;
	size_t n_requests;
	struct memory_stats *memory;
	size_t n_memory;
	struct pool_stats *pools;
	size_t n_pools;
	struct capture_stats *captures;
	size_t n_captures; /* those told apart */
	struct stats_warning *warnings;
	size_t n_warnings;
	uint64_t observed_ns; /* length of all windows together, or of the recording */
	uint64_t self_ns;     /* of all operations */
	struct stats_index *index;
};

int stats__new(struct session *s, struct stats **out);
int stats__item(struct stats *st, const struct item *it);
/* After the walk: sorts (most self time first, ...) and collects the warnings. */
int stats__finish(struct stats *st);
void stats__free(struct stats *st);

#endif
