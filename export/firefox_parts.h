/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a Firefox profile that do not grow with spans: metadata, stacks, strings. */
#ifndef CLIKA_EXPORT_FIREFOX_PARTS_H
#define CLIKA_EXPORT_FIREFOX_PARTS_H

#include "export/args.h"
#include "export/exporter.h"
#include "export/json_emit.h"
#include "export/spool.h"
#include "export/stacks.h"
#include "export/trace_ids.h"

enum marker_kind { MARK_SPAN, MARK_INSTANT, MARK_ASYNC, MARK_REQUEST };

struct marker {
	enum marker_kind kind;
	uint64_t at, dur; /* since the begin of the recording */
	uint32_t name, cat;
	const char *text;
	size_t len;
};

struct firefox_track {
	uint32_t top; /* node of the innermost open span */
	uint64_t since, last_sample;
	uint32_t n_nodes, first_node; /* in firefox.order */
	bool used;
};

struct firefox {
	struct session *s;
	struct json j;
	struct stacks st;
	struct spool *samples, *markers;
	struct trace_ids ids;
	struct firefox_track *tracks;
	struct buf row, text;
	uint64_t base;
	bool args;
	/* by node: its number in its thread; and nodes in order of threads */
	uint32_t *local, *order, *track_of;
	/* by frame: its number in the thread that is being written (that thread's number + 1) */
	uint32_t *frame_local, *frame_thread;
	/* of the thread that is being written */
	struct map64 *string_at; /* string id << 2 | part -> index */
	uint64_t *strings;
	size_t n_strings, cap_strings;
	struct map64 *category_of; /* string id -> index */
	bool categories_written;   /* no further ones */
};

enum string_part { STRING_WHOLE, STRING_FILE, STRING_MORE };

void firefox__ms(struct json *j, uint64_t ns);
uint32_t firefox__string(struct firefox *f, uint32_t id, enum string_part part);
uint32_t firefox__category(struct firefox *f, uint32_t cat);
void firefox__marker_data(struct json *j, const struct marker *m);
void firefox__meta(struct firefox *f);
void firefox__thread_head(struct firefox *f, const struct track *t);
int firefox__stack_tables(struct firefox *f, const struct track *t);
/* Also forgets them: the next thread has its own. */
void firefox__string_array(struct firefox *f);

#endif
