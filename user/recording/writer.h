/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the recording file: self-contained, checksummed segments; see docs/recording-format.md. */
#ifndef CLIKA_USER_RECORDING_WRITER_H
#define CLIKA_USER_RECORDING_WRITER_H

#include "user/recording/event.h"

struct recording_writer;

struct writer_opts {
	uid_t owner; /* (uid_t)-1: leave */
	gid_t group;
	uint64_t max_bytes;   /* 0 = no limit; when reached writer__full() turns true */
	bool drop_oldest;     /* at max_bytes drop whole segments from the front instead */
	size_t segment_bytes; /* payload that closes a segment; 0 = 1 MiB */
};

/*
 * Creates @path (O_EXCL|O_NOFOLLOW beside it, then renamed at once: the file is recoverable
 * under its final name from the first segment on) with the "incomplete" mark set.
 * @names: pool that all string ids of events refer to; must outlive the writer.
 */
int writer__create(const char *path, const struct recording_meta *meta, const struct strpool *names,
		   const struct writer_opts *opts, struct recording_writer **out,
		   struct clika_error *err);
/* The same on an open descriptor (memfd, client's file); the writer owns @fd afterwards. */
int writer__create_fd(int fd, const struct recording_meta *meta, const struct strpool *names,
		      const struct writer_opts *opts, struct recording_writer **out,
		      struct clika_error *err);

/* Definitions. The returned index names the process / thread from then on. Set again when more is
 * known (name, end): the newest definition counts. Strings are copied. */
int writer__add_process(struct recording_writer *w, const struct process_info *p, uint32_t *index);
int writer__set_process(struct recording_writer *w, uint32_t index, const struct process_info *p);
int writer__add_thread(struct recording_writer *w, const struct thread_info *t, uint32_t *index);
int writer__set_thread(struct recording_writer *w, uint32_t index, const struct thread_info *t);

/*
 * One block: events of one stream of one thread, ts never decreasing (spans by start, a parent
 * before its children), and ends of spans that earlier blocks announced. A thread may have any
 * number of streams; the reader merges them by time. Everything is encoded before it returns.
 */
int writer__block(struct recording_writer *w, uint32_t thread, uint32_t stream,
		  const struct event *events, size_t n, const struct span_end *ends, size_t n_ends);

int writer__loss(struct recording_writer *w, const struct loss_info *l);
int writer__counts(struct recording_writer *w, const struct count_info *c);
int writer__capture(struct recording_writer *w,
		    const struct capture_info *c); /* again when it ends */
int writer__anchor(struct recording_writer *w, const struct clock_anchor *a);
int writer__warning(struct recording_writer *w, const char *code, const char *text);

int writer__flush(struct recording_writer *w); /* close the segment now, write it */
bool writer__full(const struct recording_writer *w);
uint64_t writer__bytes(const struct recording_writer *w);  /* in the file so far */
uint64_t writer__events(const struct recording_writer *w); /* events written so far */

/* Last segment, fsync, clears the "incomplete" mark; frees @w, also on error. */
int writer__finish(struct recording_writer *w, struct clika_error *err);
void writer__abort(struct recording_writer *w); /* leaves a recoverable file; NULL is fine */

#endif
