/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a recording in memory out of single events, for tests of what reads recordings. Events
 * may be given in any order; each (thread, stream) is sorted by time, keeping the order of equal
 * times, and written in blocks. Whatever fails aborts the test.
 */
#ifndef CLIKA_TESTS_REC_BUILDER_H
#define CLIKA_TESTS_REC_BUILDER_H

#include "user/recording/reader.h"
#include "user/recording/writer.h"

struct rec;

struct rec *rec__new(void);
void rec__free(struct rec *b); /* closes what rec__open() gave, too */

uint32_t rec__process(struct rec *b, uint32_t pid, const char *comm);
struct process_info *rec__process_info(struct rec *b, uint32_t process); /* to change before open */
uint32_t rec__thread(struct rec *b, uint32_t process, uint32_t tid, const char *name);
struct thread_info *rec__thread_info(struct rec *b, uint32_t thread);
struct recording_meta *rec__meta(struct rec *b); /* strings are not freed */
uint32_t rec__id(struct rec *b, const char *s);

/* The event just added, to fill in more; valid until the next one is added. */
struct event *rec__event(struct rec *b, uint32_t thread, uint8_t kind, uint64_t ts,
			 const char *name);
void rec__stream(struct rec *b, uint32_t stream); /* of the events that follow; 0 at first */
struct event *rec__span(struct rec *b, uint32_t thread, uint64_t ts, uint64_t dur,
			const char *name);
/* Announced as open; the end comes in a later block (0: never). */
struct event *rec__open_span(struct rec *b, uint32_t thread, uint64_t ts, uint64_t end,
			     const char *name);
/* Arguments of the event just added. */
void rec__arg_i64(struct rec *b, const char *key, int64_t v);
void rec__arg_u64(struct rec *b, const char *key, uint64_t v);
void rec__arg_f64(struct rec *b, const char *key, double v);
void rec__arg_str(struct rec *b, const char *key, const char *s, size_t len);

void rec__capture(struct rec *b, uint64_t begin, uint64_t end, const char *tag);
struct capture_info *rec__capture_info(struct rec *b, size_t i); /* to change before open */
void rec__anchor(struct rec *b, uint64_t boottime, uint64_t realtime);
void rec__loss(struct rec *b, uint16_t cause, uint64_t records, uint64_t at_most);
struct loss_info *rec__loss_info(struct rec *b, size_t i); /* to change before open */
void rec__counts(struct rec *b, const struct count_info *c);
void rec__warning(struct rec *b, const char *code, const char *text);

/* How it is written: events of a block, and a seed that changes the order of blocks of
 * different streams, of threads and of strings; 0 = as given. */
void rec__layout(struct rec *b, size_t block_events, unsigned int seed);
/* Writes the file; may be called again with another layout. -1 = in memory. */
int rec__write(struct rec *b, const char *path);
struct recording *rec__open(struct rec *b);
bool rec__finish_file(struct rec *b, bool finish); /* false: leaves the file incomplete */

#endif
