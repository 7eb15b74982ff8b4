/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP's messages as JSON: ids in hex, 64-bit numbers as text, times since the epoch. */
#ifndef CLIKA_EXPORT_OTLP_SPAN_H
#define CLIKA_EXPORT_OTLP_SPAN_H

#include "export/exporter.h"
#include "export/json_names.h"
#include "export/otlp_context.h"

struct ot_writer {
	const struct session *s;
	struct json j; /* the span that is being written */
	struct json_names names;
	struct buf *threads; /* by track: its attributes */
	uint64_t seed;       /* ids of different recordings differ */
	uint64_t realtime;   /* without anchors: of the begin of the recording */
	bool no_clock;       /* nothing tells the wall-clock time */
	bool args;
};

int ot_writer__init(struct ot_writer *w, const struct session *s, const struct export_opts *o);
void ot_writer__free(struct ot_writer *w);

void ot_writer__thread_span(struct ot_writer *w, const struct item *it,
			    const struct ot_place *place);
void ot_writer__async_span(struct ot_writer *w, const struct item *it,
			   const struct ot_place *place);
void ot_writer__request_span(struct ot_writer *w, const struct item *it,
			     const struct ot_request *r);
/* What was written last, until the next; NULL: out of memory. */
const struct buf *ot_writer__span(struct ot_writer *w);
/* Arguments live only now: those of a request's begin wait in @r until its span is written. */
int ot_writer__keep_attributes(struct ot_writer *w, const struct event *ev, struct ot_request *r);
/* An export request around @spans of the process of @t. */
void ot_writer__body(struct ot_writer *w, struct buf *out, const struct track *t,
		     const struct buf *spans);

#endif
