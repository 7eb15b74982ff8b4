/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a recording file, finished or not. Opening reads headers, definitions and ends, never
 * event bodies, so memory grows with blocks and distinct names, not with spans. Files are
 * foreign input: every length is checked, a damaged segment is skipped and counted.
 */
#ifndef CLIKA_USER_RECORDING_READER_H
#define CLIKA_USER_RECORDING_READER_H

#include "user/recording/event.h"

struct recording;

struct recording_state {
	bool incomplete; /* the recorder did not finish the file */
	uint32_t version;
	uint64_t segments, bad_segments;
	uint64_t trailing_bytes;    /* after the last whole segment */
	uint64_t events;            /* in all blocks */
	uint64_t first_ts, last_ts; /* of all events, spans' ends included; 0 when there are none */
	uint64_t bytes;             /* of the file */
};

struct recording_block { /* index entry */
	uint32_t thread, stream;
	uint32_t count;
	uint64_t first_ts, last_ts; /* last_ts: greatest event ts (starts of spans) */
	uint64_t last_end;          /* greatest ts + dur */
	uint64_t pos;               /* opaque to callers */
};

int recording__open(const char *path, struct recording **out, struct clika_error *err);
int recording__open_fd(int fd, struct recording **out, struct clika_error *err); /* dups @fd */
void recording__close(struct recording *r);
/* Its writer is at work and has just flushed: that it has not finished says nothing. */
void recording__is_live(struct recording *r);

const struct recording_state *recording__state(const struct recording *r);
const struct recording_meta *recording__meta(const struct recording *r);
struct strpool *recording__names(const struct recording *r);

size_t recording__n_processes(const struct recording *r);
const struct process_info *recording__process(const struct recording *r, size_t i);
size_t recording__n_threads(const struct recording *r);
const struct thread_info *recording__thread(const struct recording *r, size_t i);
size_t recording__n_captures(const struct recording *r);
const struct capture_info *recording__capture(const struct recording *r, size_t i);
size_t recording__n_losses(const struct recording *r); /* newest row of each key */
const struct loss_info *recording__loss(const struct recording *r, size_t i);
const struct count_info *recording__counts(const struct recording *r);
const struct dropped_info *recording__dropped(const struct recording *r); /* flight recorders */
size_t recording__n_anchors(const struct recording *r);
const struct clock_anchor *recording__anchor(const struct recording *r, size_t i);
size_t recording__n_warnings(const struct recording *r);
const struct warning_info *recording__warning(const struct recording *r, size_t i);

/* All blocks, in file order. */
size_t recording__n_blocks(const struct recording *r);
const struct recording_block *recording__block(const struct recording *r, size_t i);

/* End of an announced span; NULL: never seen (the recording ended first). Arguments included.
 * Lives as long as the recording. */
const struct span_end *recording__span_end(const struct recording *r, uint64_t open_id);

/*
 * Walks the events of one block in order. Small, reusable, no allocation per event. The bytes of
 * the block lie in a buffer of the recording, which takes it back when the last event has been
 * read, when the same reader starts another block, or by block_reader__stop().
 */
struct block_reader {
	const struct recording *r;
	struct block_slot *slot;
	uint64_t serial;
	const uint8_t *p, *end;
	uint32_t left; /* events not read yet; 0 after damage */
	uint64_t ts, id;
	uint64_t last_ts, last_end; /* no event is later, none lasts longer */
	struct event_arg args[EVENT_MAX_ARGS];
	char strings[256]; /* of the last event, when the buffer is gone already */
};
int block_reader__init(struct block_reader *br, const struct recording *r, size_t block);
/* 1: *@ev is filled (its args live until the next call), 0: end, -EBADMSG: damaged. Kinds of
 * later versions are passed over. Times never decrease; ts + dur does not overflow. */
int block_reader__next(struct block_reader *br, struct event *ev);
/* Gives up a block that was not read to its end. */
void block_reader__stop(struct block_reader *br);

#endif
