/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What report.json and memory_stats.json are made of. Both are written as they go, one row a
 * line, so that neither stands in memory as a tree. What nobody recorded is null, never 0 and
 * never left out; times of the recording count from its begin.
 */
#ifndef CLIKA_EXPORT_REPORT_H
#define CLIKA_EXPORT_REPORT_H

#include "export/exporter.h"
#include "export/json_names.h"
#include "export/report_tree.h"

#define REPORT_SCHEMA_VERSION 1
/* Lists of processes, threads, captures and losses end here; how many more there are is told. */
#define REPORT_MAX_ROWS 10000

struct report {
	struct session *s;
	const struct stats *st; /* after the walk */
	struct json j;
	struct json_names names;
	struct call_tree tree;
};

/* --- report_json.c: pairs of a key and a value ---------------------------------------------- */

void put_u64(struct report *r, const char *key, uint64_t v);
void put_i64(struct report *r, const char *key, int64_t v);
void put_f64(struct report *r, const char *key, double v);
void put_bool(struct report *r, const char *key, bool v);
void put_null(struct report *r, const char *key);
void put_cstr(struct report *r, const char *key, const char *s); /* NULL and "" are null */
void put_name(struct report *r, const char *key, uint32_t id);   /* "" stays */
void put_known(struct report *r, const char *key, uint32_t id);  /* 0 is null */
void put_share(struct report *r, const char *key, uint64_t part, uint64_t of); /* 0 to 1 */
void put_at(struct report *r, const char *key,
	    uint64_t ts); /* ns since the begin of the recording */
void put_stat(struct report *r, const char *key, const struct histogram *h, uint64_t v);
void put_object(struct report *r, const char *key);
void put_array(struct report *r, const char *key);
void put_end_object(struct report *r);
void put_end_array(struct report *r);
void put_row(struct report *r); /* an object that begins a line */
/* mean_ns, min_ns ... of the object that is open; null without values. */
void put_spread(struct report *r, const struct histogram *h);
/* An object of its own: count and the same. */
void put_distribution(struct report *r, const char *key, const struct histogram *h);
/* The key "process": which process, as numbered in targets.processes. */
void put_process(struct report *r, const struct track *t);

int report__init(struct report *r, struct session *s, struct outfile *out);
int report__end(struct report *r); /* of the whole document; 0 or the first error */
void report__free(struct report *r);

/* --- sections ------------------------------------------------------------------------------- */

/* report_context.c: both files */
void report__head(struct report *r, const char *format);
void report__loss(struct report *r);
void report__targets(struct report *r);
void report__captures(struct report *r);
void report__counts(struct report *r);
void report__warnings(struct report *r);

/* report_work.c */
void report__ops(struct report *r);
void report__types(struct report *r);
void report__tags(struct report *r);
void report__threads(struct report *r);
void report__requests(struct report *r);
void report__flows(struct report *r);
void report__asyncs(struct report *r);
void report__counters(struct report *r);

/* report_memory.c */
void report__memory(struct report *r);
/* Why there is nothing about memory; NULL when there is. */
const char *report__no_memory(const struct report *r);
bool memory__in_use(const struct memory_stats *m);
/* An object of a count and bytes. */
void put_blocks(struct report *r, const char *key, uint64_t count, uint64_t bytes);
/* Pairs that both files have of one (process, device). */
void put_memory_totals(struct report *r, const struct memory_stats *m);

#endif
