/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chain turns what arrives from one source of one thread (a marker buffer, single markers,
 * function probes) into blocks of the recording: events by start, each begin joined with its end
 * while both are in memory, the rest announced as open and ended later.
 *
 * Whatever comes with a time before the chain's last goes to a further stream of the same thread;
 * each stream stays in order and the reader merges them, so the result does not depend on the
 * order of arrival and nothing is ever held back to wait for stragglers.
 */
#ifndef CLIKA_USER_STREAM_CHAIN_H
#define CLIKA_USER_STREAM_CHAIN_H

#include "user/recording/writer.h"

struct chain_env { /* shared by all chains of a recorder */
	struct recording_writer *w;
	uint64_t next_open_id;
	uint64_t min_duration_ns;
	size_t pending_bytes; /* memory in all chains: the owner flushes when it grows */
	uint64_t spans;       /* begun, kept or not */
	uint64_t filtered;    /* spans not kept because of min_duration_ns */
	uint64_t refused;     /* records whose events the writer did not take: the file is full */
	size_t frame_bytes; /* what calls that have not returned keep of their entries, in all threads */
	uint32_t next_stream;
	int err; /* first error of the writer */
};

struct chain;

struct chain *chain__new(struct chain_env *env, uint32_t thread);
void chain__free(struct chain *c); /* drops what was not flushed; NULL is fine */

/* Arguments are copied. Times must not be 0. */
int chain__event(struct chain *c, const struct event *ev); /* all kinds but open spans */
/* @key: what its end will be found by (depth, stack pointer). */
int chain__begin(struct chain *c, uint64_t key, const struct event *ev);
/* The same for a span that was seen open from outside: its own record may follow, as a begin, or
 * whole once it has ended. */
int chain__begin_told(struct chain *c, uint64_t key, const struct event *ev);
/* A begin that was told already counts as its own from now on. True when it was. */
bool chain__begin_known(struct chain *c, uint64_t key, uint64_t start);
/* A whole span that was told as open: ends it. True when it was. */
bool chain__end_told(struct chain *c, uint64_t start, uint64_t end);
/* A begin that is left out (filters): its end must be known to belong to nothing. */
int chain__begin_hidden(struct chain *c, uint64_t key);
/* Ends the span with @key; those begun after it were left without an end and are closed at @ts as
 * unfinished. Returns 1 when found, 0 when no such span is open. */
int chain__end(struct chain *c, uint64_t key, uint64_t ts, uint16_t flags,
	       const struct event_arg *args, unsigned nargs);
/* Closes, as unfinished, every open span with a key for which @left says so, innermost first, until
 * the first that is not left. */
void chain__unwind(struct chain *c, uint64_t ts, bool (*left)(uint64_t key, void *ctx), void *ctx);
/* The innermost open span's key; false when none is open. */
bool chain__top(const struct chain *c, uint64_t *key);
void chain__close_all(struct chain *c, uint64_t ts); /* the thread has ended */
unsigned chain__depth(const struct chain *c);

/* So many records went in since the last call: known when the writer takes no more. */
void chain__counted(struct chain *c, uint64_t records);
int chain__flush(struct chain *c);       /* writes what is there as blocks */
bool chain__idle(const struct chain *c); /* nothing pending, nothing open */

#endif
