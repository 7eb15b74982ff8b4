/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline of a page: a stream for each thread and for each lane of async spans and requests.
 * The longest spans are there one by one, as many as fit; the others are merged into slots of
 * equal length, of which each tells how many there were, how much of it they cover and which was
 * the longest. docs/formats/html.md describes the bytes.
 *
 * Memory: what the spool keeps, some KiB a stream, HTML_MAX_ROWS rows of slots, one chunk of spans,
 * the compressed bytes. None of it grows with the number of spans.
 */
#ifndef CLIKA_EXPORT_HTML_SPANS_H
#define CLIKA_EXPORT_HTML_SPANS_H

#include "export/html_keep.h"
#include "export/html_texts.h"
#include "export/spool.h"
#include "user/session/session.h"

#define HTML_MAX_LANES 1024
#define HTML_MAX_ROWS 512   /* (stream, depth) that merged spans are told apart by */
#define HTML_SLOTS 1024     /* of a row */
#define HTML_MAX_DEPTH 250  /* deeper spans are counted, not drawn */
#define HTML_MAX_OPS 65536u /* later ones are all number 0 */

enum html_flags { /* in the page */
		  HF_UNFINISHED = 1,
		  HF_NO_BEGIN = 2,
		  HF_CLIPPED = 4,
		  HF_INSTANT = 8,
		  HF_LATE = 16,
		  HF_CUT = 32,
		  HF_REDACTED = 64,
};

struct html_op { /* spans of one name, category and kind */
	uint32_t name, cat;
	uint64_t longest, at; /* ns; at: from the origin */
	uint32_t stream;
	bool seen;
};

enum html_lane_kind { LANE_ASYNC, LANE_REQUEST };

struct html_lane {
	uint8_t kind; /* enum html_lane_kind */
	uint32_t name, lane;
	const struct track *track; /* of its process */
	bool used;
};

struct html_slot {
	uint64_t busy, longest; /* ns */
	uint32_t count, op;
};

struct html_row {
	uint32_t stream, depth;
	struct html_slot *slots;
};

struct html_stream {
	uint64_t last; /* ns from the origin: begin of the record before */
};

struct html_spans {
	struct session *s;
	bool with_args;
	uint64_t origin, begin, length; /* slots are of [begin, begin + length) */
	size_t n_tracks, n_streams;     /* tracks, then lanes */
	struct html_stream *streams;
	struct html_lane *lanes;
	uint32_t n_lanes;
	struct map64 *lane_of; /* lane key -> lane */
	struct html_op *ops;
	uint32_t n_ops, cap_ops;
	struct map64 *op_of;     /* name << 32 | cat -> number */
	struct html_name *names; /* by string id: what was asked for last */
	size_t n_names;
	struct keep keep, keep_args, keep_flows;
	struct spool *spool;
	struct html_texts texts; /* keys and text values of arguments */
	struct buf record, args;
	struct html_row rows[HTML_MAX_ROWS];
	uint32_t n_rows;
	struct map64 *row_of; /* stream << 8 | depth -> row */
	uint64_t lost_lanes;  /* spans of lanes beyond HTML_MAX_LANES */
	uint64_t too_deep, unplaced;
	uint64_t flows, lost_flows;
	uint64_t first, last; /* ns from the origin: of all that is drawn */
};

int html_spans__init(struct html_spans *h, struct session *s, bool with_args);
void html_spans__free(struct html_spans *h);
int html_spans__item(struct html_spans *h, const struct item *it);
/* The number of an operation, 0 when it is none of ours. */
uint32_t html_spans__op(const struct html_spans *h, uint32_t name, uint32_t cat);
/* Base64 of at most @max bytes. */
int html_spans__put(struct html_spans *h, struct outfile *out, size_t max);

/* html_slots.c */
/* @at and @dur in ns, from the origin. */
int html_spans__merge(struct html_spans *h, uint32_t stream, uint32_t depth, uint64_t at,
		      uint64_t dur, uint32_t op);
void html_spans__put_rows(struct html_spans *h, struct buf *out);
uint64_t html_spans__in_rows(const struct html_spans *h); /* spans merged into slots */

#endif
