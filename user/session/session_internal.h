/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share; nobody else includes it. */
#ifndef CLIKA_USER_SESSION_INTERNAL_H
#define CLIKA_USER_SESSION_INTERNAL_H

#include "user/session/session.h"
#include "user/session/windows.h"

/* Markers may give a start that lies before the attach; earlier than this is no time but noise. */
#define TIME_SLACK_NS (60 * NSEC_PER_SEC)
#define CAUSE_DEPTH_DEFAULT 16

/* Blocks of one stream of one track, times never decreasing along the links. */
struct chain {
	uint32_t track, stream;
	uint32_t first; /* index of a block; session.next_block leads on */
};
#define NO_BLOCK UINT32_MAX

/* What the first pass found out and the second must know when a span begins. */
enum late_kind {
	LATE_SPAN,  /* caused: belongs to these captures */
	LATE_DRAG,  /* and so do all spans inside it */
	LATE_ASYNC, /* windows that opened while it ran */
	LATE_REQUEST,
};

static inline uint64_t late__key(enum late_kind kind, uint64_t number)
{
	return number << 2 | kind;
}

struct session {
	const struct recording *r;
	struct session_opts opts;
	char *capture_tag, *name_glob;

	struct track *tracks; /* sorted by who they are, not by when they turned up */
	size_t n_tracks;
	uint32_t *track_of; /* thread -> track */

	struct session_capture *captures;
	size_t n_captures;
	struct windows windows;
	bool must_capture; /* what belongs to no capture is left out */

	struct chain *chains;
	size_t n_chains;
	uint32_t *next_block;
	uint64_t first_start, last_start; /* of the blocks, only times in bounds */

	uint64_t begin, end; /* as seen from outside: with the filter */
	uint64_t origin;     /* events before are out of range */
	uint64_t rec_end;    /* closes what nothing else closes */
	uint64_t horizon;    /* events after are out of range */

	struct map64 *late; /* late__key -> mask; NULL: not needed or not known yet */
	bool late_known;
	struct session_counts counts;
};

int session__plan_chains(struct session *s);

#endif
