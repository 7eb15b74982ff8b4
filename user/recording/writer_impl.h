/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two halves of the writer: writer.c takes what callers give, segment.c puts it into segments
 * of the file.
 */
#ifndef CLIKA_USER_RECORDING_WRITER_IMPL_H
#define CLIKA_USER_RECORDING_WRITER_IMPL_H

#include "user/recording/block_encode.h"
#include "user/recording/format.h"
#include "user/recording/writer.h"

/*
 * A process or thread as it is stored. Kept encoded, because any later segment whose blocks use
 * it must carry it again.
 */
struct writer_def {
	uint8_t *enc;
	uint32_t len;
	uint32_t process; /* threads: of which process */
	uint64_t mark;    /* queued for (or last written in) the segment with this number + 1 */
};

struct writer_defs {
	struct writer_def *v;
	uint32_t n, cap;
	struct buf queue; /* uint32_t: indexes that the current segment carries */
	size_t queued_bytes;
};

/*
 * In a circular file only: a meta item that must not vanish when the segment that holds it is
 * overwritten.
 */
struct writer_state {
	uint8_t *enc;
	uint32_t len;
	uint32_t process; /* UINT32_MAX = none */
	uint64_t key;     /* 0 = never replaced */
	uint64_t mark;
	uint64_t
		until; /* of no use once all data before this time is gone; UINT64_MAX = for ever */
	uint8_t type;
};

struct writer_live { /* segment in a circular file */
	uint64_t off, len, seq, first_ts, last_ts, events;
};

struct recording_writer {
	int fd;
	char *path; /* for messages */
	const struct strpool *names;
	struct writer_opts opts;
	uint64_t id;
	int err; /* first failure of the file; stays */
	bool full;
	uint64_t reserve; /* kept free below max_bytes for what is no block */

	/* the file */
	uint64_t pos; /* of the next segment */
	uint64_t size;
	uint64_t seq; /* of the segment being built */
	uint64_t events;

	/* the segment being built */
	struct buf data;    /* block bodies */
	struct buf blocks;  /* ITEM_BLOCK and ITEM_ENDS */
	struct buf meta;    /* other items */
	struct buf index;   /* put together on closing */
	struct buf strings; /* uint32_t: ids that it carries */
	size_t string_bytes;
	uint64_t first_ts; /* of its events; UINT64_MAX when there are none */
	uint64_t last_ts, seg_events;
	bool has_meta;

	struct block_encoder *encoder;
	struct buf scratch;
	struct buf meta_enc;    /* payload of ITEM_META */
	uint32_t *string_marks; /* number + 1 of the last segment that got the string */
	size_t n_string_marks;
	struct writer_defs processes, threads;

	/* circular files */
	struct buf live;             /* struct writer_live, oldest first */
	struct dropped_info dropped; /* so far */
	struct writer_state *states;
	size_t n_states, cap_states;
	struct map64 *state_at; /* key -> index */
};

/* --- segment.c ------------------------------------------------------------------------ */

int segment__write_file_header(struct recording_writer *w, bool incomplete);
/* Upper bound of the size of the segment as it stands. */
uint64_t segment__size(const struct recording_writer *w);
int segment__close(struct recording_writer *w); /* writes it when it holds anything */
int segment__close_when_large(struct recording_writer *w);
void segment__use_thread(struct recording_writer *w, uint32_t thread);
void segment__use_process(struct recording_writer *w, uint32_t process);
int segment__use_string(struct recording_writer *w, uint32_t id);
void segment__item(struct buf *b, unsigned type, const void *payload, size_t len);

/* --- writer.c -------------------------------------------------------------------------- */

/* Circular files: puts what would vanish with the segments up to @seq into this one.
 * True: something was added. */
bool writer__save_states(struct recording_writer *w, uint64_t seq, size_t budget);
/* Forgets states that speak only of times before @ts. */
void writer__prune_states(struct recording_writer *w, uint64_t ts);

#endif
