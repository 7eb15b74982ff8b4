/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one walk. walk.c merges blocks into one order, span.c keeps the stacks of open
 * spans, link.c what ids join (flows, async spans, requests), memory.c the balances.
 */
#ifndef CLIKA_USER_SESSION_WALK_H
#define CLIKA_USER_SESSION_WALK_H

#include "user/session/id_table.h"
#include "user/session/session_internal.h"

/* More than this alive at one moment: the oldest is given up, and counted. */
#define MAX_ALIVE (1u << 18)
#define MAX_BLOCKS_ALIVE (1u << 20)

/*
 * What the clocks of two sources on one thread may differ by: each object makes its times for
 * itself (docs/markers.md), and probes have the kernel's.
 */
#define CLOCK_SLACK_NS 100

/* Masks of captures that reach work through cause, and over how many hops. */
struct cause {
	uint64_t mask;
	uint32_t hops;
};

struct span_node {
	struct open_span pub;    /* first: sinks hold pointers to it */
	struct span_node *up;    /* enclosing span, shown or not */
	struct span_node *shown; /* innermost span of the result: itself or one further out */
	uint64_t end;
	uint64_t number;    /* of all spans, shown or not: the same in both passes */
	uint64_t open_mask; /* windows open when it began */
	uint64_t drag;      /* captures that all spans inside come along to */
	uint64_t found;     /* first pass: caused for these captures */
	uint64_t found_drag;
	struct cause cause; /* now: of what begins or is sent in it */
	char *text;         /* copies of string arguments */
	size_t text_cap;
};

/* A block that is being read; only streams that are in the midst of one hold it. */
struct reading {
	struct block_reader br;     /* its address is the reader's key to the buffer */
	struct event ev;            /* the next one */
	const struct span_end *end; /* of an announced span, NULL: not seen or not needed */
	struct reading *unused;
};

/*
 * A stream rests in front of a block until its time has come: a recording of many short-lived
 * threads would otherwise lie in memory whole.
 */
struct stream_cursor {
	uint64_t ts;         /* of the next event; resting: not later than it */
	uint64_t last_ts;    /* of the event before */
	uint64_t floor;      /* nothing comes earlier: what was moved drags what lies in it along */
	uint32_t next_block; /* behind the one that is read; NO_BLOCK: none */
	uint32_t stream;
	struct reading *reading; /* NULL: resting */
};

struct walk_track {
	const struct track *track;
	struct stream_cursor **heap; /* streams by their next event */
	size_t n_streams;
	struct span_node *top;
	uint64_t ts; /* of the next action */
	enum {
		ACT_READ, /* gives no item, so it comes before all else of its moment */
		ACT_END,  /* of the top span */
		ACT_EVENT,
	} act;
	bool selected; /* by the thread filter */
};

struct process_end {
	uint64_t ts;
	uint32_t process;
	uint32_t rank; /* among processes that end at one moment */
};

struct balance { /* (process, device) */
	struct id_entry e;
	int64_t current, reserved;
};

struct walk {
	struct session *s;
	int (*fn)(void *ctx, const struct item *it); /* NULL: first pass */
	void *ctx;

	struct stream_cursor *cursors;
	struct stream_cursor **streams; /* room for all tracks' heaps */
	struct walk_track *tracks;
	struct walk_track **heap;
	size_t n_heap;

	uint64_t now;
	uint64_t open_mask;
	uint64_t quiet_until; /* before it no window changes and no process ends */
	struct window_sweep sweep;
	struct process_end *process_ends;
	size_t n_process_ends, next_process_end;
	size_t n_processes; /* one more than defined: the unknown one */

	struct item span_item; /* that of every span: most of its fields are for others, and 0 */
	struct span_node *unused;
	struct reading *unused_readings;
	uint64_t n_spans, n_shown, n_flows, n_asyncs, n_lanes, n_requests;

	struct id_table *flows, *asyncs, *lanes, *requests;
	struct id_table *blocks, *reserved_blocks, *balances;
	uint8_t *name_shown; /* by name id: 0 not asked yet, 1 yes, 2 no */
	size_t n_names;
	int err;
};

/* walk.c */
bool walk__shows(struct walk *w, const struct walk_track *wt, uint64_t mask);
bool walk__shows_name(struct walk *w, uint32_t name);
static inline int walk__emit(struct walk *w, struct item *it)
{
	return w->fn ? w->fn(w->ctx, it) : 0;
}
uint32_t walk__process(const struct walk *w, const struct walk_track *wt);
int walk__note_late(struct walk *w, enum late_kind kind, uint64_t number, uint64_t mask);
uint64_t walk__late(const struct walk *w, enum late_kind kind, uint64_t number);
static inline bool walk__first_pass(const struct walk *w)
{
	return !w->fn;
}
/* Fills what all items have. */
void walk__item(const struct walk *w, const struct walk_track *wt, enum item_kind kind,
		const struct event *ev, uint64_t mask, struct item *it);

/* span.c */
int span__begin(struct walk *w, struct walk_track *wt, const struct event *ev,
		const struct span_end *end);
int span__end(struct walk *w, struct walk_track *wt);
void span__free_all(struct walk *w);
/* An instant is in the result: it lies in the innermost span of the result. */
void span__had_point(struct walk_track *wt);
/* Captures that an event on the track, now, belongs to. */
uint64_t span__point_mask(const struct walk *w, const struct walk_track *wt);

/* link.c */
struct id_table *link__new_flows(size_t n_processes);
struct id_table *link__new_asyncs(size_t n_processes);
struct id_table *link__new_lanes(size_t n_processes);
struct id_table *link__new_requests(size_t n_processes);
int link__event(struct walk *w, struct walk_track *wt, const struct event *ev);
void link__free_lanes(struct walk *w);
/* The process is gone (or the recording is): close what it left open. */
int link__close_process(struct walk *w, uint32_t process);

/* memory.c */
struct id_table *memory__new_blocks(size_t n_processes);
int memory__event(struct walk *w, struct walk_track *wt, const struct event *ev);
void memory__close_process(struct walk *w, uint32_t process);

#endif
