/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a walk adds up to: operations, threads, waiting, requests, counters, memory, captures, and
 * warnings with their evidence. A sink of the walk; memory goes with distinct names, threads and
 * devices. Every export takes its totals from here, so that they agree.
 */
#ifndef CLIKA_USER_SESSION_STATS_H
#define CLIKA_USER_SESSION_STATS_H

#include "user/session/histogram.h"
#include "user/session/session.h"
#include "user/session/timeline.h"

/* Names beyond this many operations are added up as one. */
#define STATS_MAX_OPS 65536

/* What arguments of these names tell about an operation. */
enum op_text { OP_INPUT_SHAPE, OP_OUTPUT_SHAPE, OP_INPUT_TYPE, OP_OUTPUT_TYPE, OP_TEXTS };

struct op_args {
	uint64_t flops, with_flops; /* sum; calls that told it */
	char *text[OP_TEXTS];       /* of the first call that told it, NULL = none did */
	bool varies[OP_TEXTS];      /* other calls told another one */
};

struct op_stats { /* spans of one (category, name) */
	uint32_t name, cat;
	uint32_t type;        /* while the walk runs: index into stats.types */
	uint32_t tag;         /* of stats.tag_ops: index into stats.tags */
	uint32_t src;         /* string id: marker of the first one */
	bool more_srcs;       /* others had another marker */
	bool other;           /* all operations beyond STATS_MAX_OPS */
	uint16_t flags;       /* of any of its spans: EVS_FUNCTION, EVS_USDT ... */
	uint64_t total_ns;    /* a recursive call counts once, for its outermost span */
	uint64_t self_ns;     /* without the spans inside */
	struct histogram dur; /* count is the calls */
	uint64_t first, last; /* ns: the first begin, the last end */
	uint64_t unfinished, late, redacted;
	uint64_t allocs, alloc_bytes, frees, freed_bytes; /* while it was the innermost span */
	uint64_t all_alloc_bytes, all_freed_bytes;        /* in it and in the spans inside */
	uint64_t first_dur;                               /* of the call that began first */
	struct op_args args;
};

struct type_stats { /* operations of one category */
	uint32_t cat;
	size_t n_ops;
	uint64_t total_ns; /* a span inside one of the same category does not count */
	uint64_t self_ns;
	struct histogram dur;
	uint64_t first, last;
	uint64_t allocs, alloc_bytes, frees, freed_bytes;
};

struct thread_stats {
	const struct track *track;
	uint64_t spans;
	uint64_t busy_ns;        /* in spans, and inside the observed time */
	uint64_t longest_gap_ns; /* between two spans, with nothing marked */
	uint64_t longest_gap_at; /* ns: begin of that gap */
	uint64_t first_begin, last_end;
};

#define WAIT_RECEIVERS 32

struct wait_stats { /* flows of one name into spans of one name: since the step before */
	uint32_t name;
	uint32_t into; /* string id of the receiving span's name; 0 = received outside spans */
	struct histogram wait;
	uint64_t ran_ns;                    /* durations of the spans that received them */
	uint64_t ran;                       /* how many of those */
	uint32_t receivers[WAIT_RECEIVERS]; /* indices of threads: the first ones */
	uint32_t n_receivers;
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
	struct histogram queued;   /* begin to the begin of the span that served it */
	struct histogram computed; /* from there to the last output (to the end without outputs) */
};

struct counter_stats {             /* of one (process, name) */
	const struct track *track; /* of its process */
	uint32_t name;
	bool real;  /* some value was not an integer: the d members count */
	uint64_t n; /* values */
	uint64_t not_finite;
	uint64_t last_at;
	struct {
		int64_t last, min, max;
		__int128 sum;
	} i;
	struct {
		double last, min, max, sum;
	} d;
};

/* --- memory (stats_memory.c) --------------------------------------------------------------- */

#define SIZE_CLASSES HISTOGRAM_POWERS /* the same */
struct size_classes {
	uint64_t count[SIZE_CLASSES], bytes[SIZE_CLASSES];
};

struct held { /* blocks that are in use */
	uint64_t blocks, bytes;
	/* Bytes at the peak of the device, once .stamp is that peak's; before, .bytes are. */
	uint64_t at_peak;
	uint32_t stamp;
};

struct memory_stats {                 /* of one (process, device) */
	const struct track *track;    /* of its process */
	uint32_t device, device_name; /* string id, 0 = none given */
	int64_t baseline;             /* in use before the first event of the result */
	int64_t current, peak;        /* in use at the end, at most */
	int64_t reserved_baseline, reserved, reserved_peak;
	int64_t reserved_at_peak;                     /* when .peak was reached */
	uint64_t first_at, peak_at, reserved_peak_at; /* ns */
	uint64_t allocs, alloc_bytes, frees, freed_bytes;
	uint64_t older_frees; /* freed, but allocated before the recording: size not known */
	uint64_t earlier_frees, earlier_bytes; /* allocated in the recording, not in the result */
	uint64_t replaced, replaced_bytes;     /* freed unseen: their address was given out again */
	uint64_t reserves, reserved_bytes, releases, released_bytes;
	uint64_t older_releases;
	struct held unfreed;        /* of the result's allocations */
	struct size_classes *sizes; /* of allocations; NULL: none */
	struct histogram lifetimes;
	struct timeline time;
	uint32_t peaks; /* how often .peak rose: the stamp of the last one */
};

struct pool_stats {            /* of one (process, device, pool) */
	uint32_t memory;       /* index into stats.memory */
	uint32_t pool;         /* string id, 0 = none */
	int64_t current, peak; /* of blocks whose allocation is in the result */
	uint64_t peak_at;
	uint64_t allocs, alloc_bytes, frees, freed_bytes;
	int64_t reserved, reserved_peak; /* of reservations in the result */
	int64_t reserved_at_peak;        /* when .peak was reached */
	uint64_t reserves, reserved_bytes, releases, released_bytes;
	struct held held;
	struct histogram lifetimes;
	struct timeline time; /* only of pools that reserve */
};

struct memory_op { /* blocks of one (process, device) that one operation allocated */
	uint32_t memory;
	uint32_t name, cat;
	bool in_span, other;
	uint64_t allocs, alloc_bytes;
	struct held unfreed;
};

/* What was allocated in one capture, and of that what was not freed in it. */
struct capture_memory {
	uint32_t capture, memory;
	uint64_t allocs, alloc_bytes;
	uint64_t unfreed, unfreed_bytes;
};

#define CAPTURE_MEMORY_REST UINT32_MAX
struct capture_memory_op {
	uint32_t capture,
		op; /* index into stats.memory_ops; CAPTURE_MEMORY_REST: no room for more */
	uint64_t allocs, alloc_bytes;
	uint64_t unfreed, unfreed_bytes;
};

/* Of what was held at the peak of its device. */
uint64_t held__at_peak(const struct held *h, const struct memory_stats *m);

/* ------------------------------------------------------------------------------------------- */

struct capture_stats {
	const struct session_capture *capture;
	uint64_t spans, late, cut;
	uint64_t self_ns; /* of all its spans */
};

struct tag_stats {       /* captures of one tag together */
	const char *tag; /* NULL: the captures that are not told apart have several */
	size_t n_captures;
	uint64_t spans, self_ns;
	const struct op_stats *ops; /* after the walk; most self time first */
	size_t n_ops;
};

#define WARNING_FACTS 4
struct stats_fact {
	const char *key; /* "records" */
	uint64_t value;
};

struct stats_warning {
	char code[32]; /* stable: "queue-wait" */
	char *text;    /* what, and the numbers that show it; no newline */
	struct stats_fact facts[WARNING_FACTS];
	size_t n_facts;
};

struct stats {
	struct session *s;
	struct op_stats *ops;
	size_t n_ops;
	struct type_stats *types;
	size_t n_types;
	struct thread_stats *threads;
	size_t n_threads; /* by track, all of them */
	struct wait_stats *waits;
	size_t n_waits;
	struct async_stats *asyncs;
	size_t n_asyncs;
	struct request_stats *requests;
	size_t n_requests;
	struct counter_stats *counters;
	size_t n_counters;
	struct memory_stats *memory;
	size_t n_memory;
	struct pool_stats *pools;
	size_t n_pools;
	struct memory_op *memory_ops;
	size_t n_memory_ops;
	struct capture_memory *capture_memory;
	size_t n_capture_memory;
	struct capture_memory_op *capture_memory_ops;
	size_t n_capture_memory_ops;
	struct capture_stats *captures;
	size_t n_captures; /* those told apart */
	struct tag_stats *tags;
	size_t n_tags;
	struct op_stats *tag_ops; /* by tag, when there are several */
	size_t n_tag_ops;
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
