/* SPDX-License-Identifier: Apache-2.0 */
/* Random events of every kind, remembered so that what a recording gives can be compared. */
#ifndef CLIKA_TESTS_RECORDING_SAMPLES_H
#define CLIKA_TESTS_RECORDING_SAMPLES_H

#include "user/recording/reader.h"
#include "user/recording/writer.h"

#define SAMPLE_THREADS 5
#define SAMPLE_STREAMS 3

struct sample_block { /* one call of writer__block() */
	uint32_t thread, stream;
	struct event *events;
	size_t n;
	struct span_end *ends;
	size_t n_ends;
};

struct samples {
	uint64_t seed;
	struct strpool *names;
	struct buf memory; /* void *: everything allocated for events */
	struct sample_block *blocks;
	size_t n_blocks;
	uint64_t ts;
	uint64_t next_open_id;
	uint64_t events, n_ends;
};

struct samples *samples__new(uint64_t seed);
void samples__free(struct samples *s);
uint64_t samples__random(struct samples *s);
uint64_t samples__extreme(struct samples *s); /* often 0, 1, a border or all bits */

/* A random block, kept in @s; valid until samples__free(). */
const struct sample_block *samples__block(struct samples *s, uint32_t thread, uint32_t stream,
					  size_t n, size_t n_ends);
/* The memory file, a writer on it with one process and SAMPLE_THREADS threads. */
int samples__memfd(void);
struct recording_writer *samples__writer(struct samples *s, int fd, const struct writer_opts *opts);
int samples__write(struct recording_writer *w, const struct sample_block *b);

/* Fails the test unless @got is what @want was stored as. */
void samples__assert_event(const struct samples *s, const struct recording *r,
			   const struct event *want, const struct event *got);
/* All blocks in @s, in order, nothing else; ends too. */
void samples__assert_all(const struct samples *s, const struct recording *r);
/* Reads everything that a recording has, as a careless user would; returns the events read. */
uint64_t recording__read_everything(const struct recording *r);

#endif
