/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of report.html: everything but the timeline is one JSON object. */
#ifndef CLIKA_EXPORT_HTML_PARTS_H
#define CLIKA_EXPORT_HTML_PARTS_H

#include "export/exporter.h"
#include "export/html_spans.h"
#include "export/stacks.h"
#include "user/session/stats.h"

#define HTML_MAX_TRACKS 4096 /* described one by one */
#define HTML_MAX_ROWS_SHOWN 1000
#define HTML_MAX_COUNTERS 48
#define HTML_COUNTER_SLOTS 400
#define HTML_MAX_FRAMES 12000

struct html_series { /* a counter over time */
	const struct track *track;
	uint32_t name;
	struct html_sample {
		bool seen;
		float min, max, last;
	} * slots;
};

struct html {
	struct session *s;
	struct outfile *out;
	struct json j; /* without output: what is there goes through html__flush() */
	struct html_spans spans;
	struct html_texts texts;
	uint32_t *text_of; /* string id -> 1 + text */
	size_t n_names;
	struct stacks stacks;
	const struct stats *st; /* of the whole pass */
	struct html_series series[HTML_MAX_COUNTERS];
	uint32_t n_series;
	struct map64 *series_of; /* process track << 32 | name */
	uint64_t lost_series;
	int err;
};

/* Members of objects. Texts are indexes into the array "texts". */
void html__text(struct html *h, const char *key, uint32_t id);   /* a string of the recording */
void html__cstr(struct html *h, const char *key, const char *s); /* NULL: null */
void html__u64(struct html *h, const char *key, uint64_t v);
void html__i64(struct html *h, const char *key, int64_t v);
void html__bool(struct html *h, const char *key, bool v);
void html__at(struct html *h, const char *key, uint64_t boottime); /* ns from the origin */
uint32_t html__text_id(struct html *h, uint32_t id);
uint32_t html__cstr_id(struct html *h, const char *s, size_t len);
/* Hands what is in h->j on, so that no byte of it can end the element it stands in. */
void html__flush(struct html *h);

void html__put_context(struct html *h); /* html_context.c: what was recorded, and lost */
void html__put_stats(struct html *h);   /* html_stats.c */
void html__put_memory(struct html *h);  /* html_memory.c */
int html__counter(struct html *h, const struct item *it);
void html__put_counters(struct html *h);
void html__put_flame(struct html *h);   /* html_flame.c */
void html__put_streams(struct html *h); /* html_context.c: what the timeline's streams are */

#endif
