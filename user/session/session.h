/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recording means: processes, tracks, captures, nesting, flows, memory, requests. A view:
 * it holds names, tracks, captures and indexes, never all spans. Exporters and statistics take
 * the events from session__walk() in one global time order; memory stays bounded by what is
 * open at one moment.
 */
#ifndef CLIKA_USER_SESSION_SESSION_H
#define CLIKA_USER_SESSION_SESSION_H

#include "user/recording/reader.h"

struct session;

struct session_opts {
	/* Filters; 0 / NULL = everything. */
	uint64_t from, to;       /* ns, CLOCK_BOOTTIME */
	bool relative;           /* from and to count from the begin of the recording */
	const char *capture_tag; /* only what belongs to captures with this tag */
	uint32_t pid, tid;
	const char *name_glob;
	/* What belongs to no capture is in no result, unless: */
	bool outside_captures;
	unsigned max_cause_depth; /* how far caused work is followed; 0 = 16 */
};

/* Takes over nothing: @r must stay open until session__free(). */
int session__new(const struct recording *r, const struct session_opts *opts, struct session **out,
		 struct clika_error *err);
void session__free(struct session *s);

/* One timeline: a thread of one process image. */
struct track {
	uint32_t index;           /* dense from 0 */
	uint32_t thread, process; /* indexes into the recording */
	uint32_t pid, tid;
	const struct process_info *proc;
	const struct thread_info *info;
	const char *name; /* never NULL; thread name, else comm, else "" */
	bool used;        /* has events, and passes the filter of processes and threads */
	bool leads;       /* the first used one of its process */
};

struct session_capture {
	const struct capture_info *info;
	const char *tag;
	uint64_t begin, end; /* [begin, end); end: of the recording when still open */
	bool open;
};

const struct recording *session__recording(const struct session *s);
const struct session_opts *session__opts(const struct session *s); /* as given */
const struct strpool *session__names(const struct session *s);
const char *session__str(const struct session *s, uint32_t id);
size_t session__n_tracks(const struct session *s);
const struct track *session__track(const struct session *s, size_t i);
/* Sorted by begin. With a tag filter only those with the tag. */
size_t session__n_captures(const struct session *s);
const struct session_capture *session__capture(const struct session *s, size_t i);
/* Only what belongs to one of them is in the result. */
bool session__only_captures(const struct session *s);
/* Its bit in item.captures; from the 63rd on all share one. */
uint64_t session__capture_bit(size_t i);
uint64_t
session__begin(const struct session *s); /* ns: bounds of the recording (or of the filter) */
uint64_t session__end(const struct session *s);
/* Begin of the whole recording whatever the filter: no item lies before it. */
uint64_t session__origin(const struct session *s);
/* CLOCK_REALTIME of a CLOCK_BOOTTIME moment, by the nearest anchor at or before it. */
uint64_t session__realtime(const struct session *s, uint64_t boottime);

/* What repair and bounds checks found; complete after a walk. Zero is meant as zero. */
struct session_counts {
	uint64_t spans, instants, counters, asyncs, flows, memory, requests;
	uint64_t unfinished, no_begin, clipped, orphan_ends, bad_times,
		late;       /* late: caused work */
	uint64_t damaged;   /* blocks that could not be read to their end */
	uint64_t forgotten; /* flows, async spans, requests, allocations given up: too many alive */
	uint64_t outside;   /* spans left out because they belong to no capture */
};
const struct session_counts *session__counts(const struct session *s);

enum item_kind {
	IT_SPAN_BEGIN,  /* pre-order; ev->dur is final (also for spans that crossed blocks) */
	IT_SPAN_END,    /* every IT_SPAN_BEGIN gets one, innermost first; self_ns is final */
	IT_EVENT,       /* instant, counter, naming: by ev->kind */
	IT_ASYNC_BEGIN, /* async span on a lane; lane is free again after its IT_ASYNC_END */
	IT_ASYNC_END,
	IT_FLOW,    /* EV_FLOW_OUT / STEP / IN; flow_key joins them */
	IT_MEMORY,  /* EV_ALLOC / FREE / RESERVE / RELEASE; balances are filled */
	IT_REQUEST, /* EV_REQUEST_*; times since begin are filled */
};

/* An open span on a track, innermost = track's top. Lives until its IT_SPAN_END returned. */
struct open_span {
	struct event ev;                           /* ts, dur, names; args are copied */
	struct event_arg args[2 * EVENT_MAX_ARGS]; /* those of the begin, then those of the end */
	struct open_span *parent;                  /* NULL = root */
	uint32_t depth;                            /* 0 = root */
	uint64_t child_ns;                         /* so far */
	uint64_t inner;         /* spans and instants of the result directly in it, so far */
	uint64_t captures;      /* bit i: belongs to capture i */
	uint64_t late_captures; /* those of them to which it belongs by cause alone */
	bool late;              /* there are such: it ran after the window */
	bool cut;               /* reaches over the edge of a window; its times are the true ones */
	uint64_t seq;           /* number of this span in the walk, from 1 */
	void *user[4];          /* sinks may hang what they need here; NULL at begin */
};

struct item { /* members of other kinds are not set */
	enum item_kind kind;
	uint64_t ts;
	const struct track *track;
	const struct event *ev; /* for IT_SPAN_*: &span->ev */
	struct open_span *span; /* IT_SPAN_*: itself; others: innermost open span or NULL */
	uint64_t captures;      /* bit mask the item belongs to */
	uint64_t self_ns;       /* IT_SPAN_END */

	/* IT_ASYNC_*; lane and lane_key also IT_REQUEST whose begin was seen */
	uint64_t async_key; /* unique for this async span in the session, never 0 */
	uint32_t lane;      /* dense from 0 within (process, name) */
	uint64_t lane_key;  /* unique for (process, name, lane) in the session, never 0 */
	uint64_t begin_ts;  /* of its begin; queue wait = its dur */
	const struct event *async_begin; /* its begin, without arguments: name and category */
	uint16_t async_flags;            /* EVS_UNFINISHED */

	/* IT_FLOW: */
	uint64_t flow_key;          /* unique for this flow in the session, never 0 */
	uint64_t flow_wait_ns;      /* EV_FLOW_STEP / IN: since the step before; queue wait */
	bool flow_first, flow_last; /* true ends of a flow; a FLOW_IN is the last */
	/* STEP / IN: draw one arrow from there to here. Both ends lie in spans of the result. */
	bool flow_arrow;
	uint64_t flow_from_ts;
	const struct track *flow_from;
	uint64_t flow_from_begin; /* of the span that the step before lies in */
	bool flow_from_inner;     /* something of the result had begun in that span before it */

	/* IT_MEMORY: after this event */
	uint64_t bytes;            /* of the block, also for frees; 0 = not known */
	bool older;                /* freed, but allocated before the recording */
	int64_t current, reserved; /* bytes in use / reserved by pools: process and device */
	/* Of the block that a free gives back; of an allocation, of the block that had been there
	 * and was freed unseen (replaced). All 0 when older. */
	uint64_t alloc_ts;
	uint32_t alloc_pool;            /* string id: as the allocation says */
	uint32_t alloc_name, alloc_cat; /* string ids: of the span it was allocated in */
	bool alloc_in_span;
	bool alloc_shown;        /* the allocation was an item of this walk */
	uint64_t alloc_captures; /* that it belonged to */
	bool replaced;
	uint64_t replaced_bytes;

	/* IT_REQUEST: */
	uint64_t request_key;    /* never 0 */
	uint32_t request_name;   /* string id: as its begin says */
	uint64_t since_begin_ns; /* UINT64_MAX: begin not seen */
	uint64_t first_ns;       /* begin to first output; UINT64_MAX: none yet */
	uint64_t units;          /* output units so far */
	/* Begin to the begin of the span that served it: the outermost one, open when the first
	 * output (or else the end) was marked, that began later. UINT64_MAX: not known. */
	uint64_t served_ns;
	uint64_t last_ns;        /* begin to the last output; UINT64_MAX: none yet */
	bool request_unfinished; /* an EV_REQUEST_END that nobody marked: closes what is open */
};

/*
 * Calls @fn for every item in time order; at equal times: ends before begins, parents before
 * children, then by track. Non-zero from @fn stops and is returned. May be repeated; results
 * are the same each time.
 */
int session__walk(struct session *s, int (*fn)(void *ctx, const struct item *it), void *ctx);

#endif
