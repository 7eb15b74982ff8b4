/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From ring records and harvested buffers to chains. Everything that stems from a target is
 * checked here: sizes, counts, positions, times.
 */
#ifndef CLIKA_USER_STREAM_DECODE_H
#define CLIKA_USER_STREAM_DECODE_H

#include "user/stream/names.h"
#include "user/stream/people.h"

struct decoder;

struct decoder_opts {
	struct people *people;
	struct names *names;
	const struct files *files;
	struct recording_writer *w;
	struct chain_env *env;
	bool redact;
	uint64_t not_before; /* ns: what was marked before is not in the recording */
	/* A process was told of (begin, exec) or a buffer registered; may be NULL. */
	void (*on_process)(void *ctx, struct person_process *proc, enum wire_kind kind);
	void *ctx;
};

/*
 * The decoder's own account. With the kernel's counters it must come out even:
 * emitted(kernel) + singles - duplicates - older_handed + uncounted + harvested
 *	= records + bad + lost(kernel).
 */
struct decoder_counts {
	uint64_t singles; /* of one hit each: the kernel side counts only those that it loses */
	uint64_t records; /* taken into the recording, or left out by a name filter */
	/* Counted by the kernel side a second time: two hooks, or harvest and hand-over. */
	uint64_t duplicates;
	uint64_t older;          /* from before the recording began */
	uint64_t older_handed;   /* of those, the ones that the kernel side counted */
	uint64_t bad;            /* promised by a batch, but not decodable */
	uint64_t uncounted;      /* in a batch beyond what its target said */
	uint64_t harvested;      /* of records: read from thread buffers */
	uint64_t hidden;         /* of records: left out by name filters */
	uint64_t target_dropped; /* counted by targets themselves */
	uint64_t implausible;    /* arguments of functions that were given up */
};

struct decoder *decoder__new(const struct decoder_opts *o);
void decoder__free(struct decoder *d);
/* One ring record. Returns 0 or the first serious error (memory, writer). */
int decoder__record(struct decoder *d, const void *rec, size_t size, uint64_t pass);
/* Bytes [from, from + len) of a thread buffer, read from outside. */
int decoder__harvest(struct decoder *d, struct person_thread *th, struct thread_buffer *b,
		     uint64_t from, const void *data, size_t len);
/* A span that is open in a buffer as it is seen from outside, outermost first. */
int decoder__open(struct decoder *d, struct thread_buffer *b, unsigned depth, uint64_t start,
		  int32_t name);
void decoder__dropped(struct decoder *d, struct thread_buffer *b, uint64_t dropped);
/* A recipe's argument has proved implausible and is left out from now on: @fn is told. */
void decoder__on_implausible(struct decoder *d,
			     void (*fn)(void *ctx, const struct func_probe *f,
					const struct recipe_arg *a),
			     void *ctx);
const struct decoder_counts *decoder__counts(const struct decoder *d);
/* Captures of the recording itself. Ids are shared with those that targets open. */
uint64_t decoder__capture_begin(struct decoder *d, const char *tag, uint64_t ts);
int decoder__capture_end(struct decoder *d, uint64_t id, uint64_t ts);
void decoder__captures_close(struct decoder *d, uint64_t ts);

#endif
