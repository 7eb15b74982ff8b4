/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIKA_USER_STREAM_DECODE_INTERNAL_H
#define CLIKA_USER_STREAM_DECODE_INTERNAL_H

#include "user/stream/decode.h"

struct open_capture {
	struct capture_info info;
	uint32_t process; /* index, UINT32_MAX = the recording's own */
};

/* A decoded record on its way to its chain. */
enum step_kind { STEP_EVENT, STEP_BEGIN, STEP_END };
struct step {
	uint64_t ts;
	enum step_kind kind;
	bool hidden;
	uint64_t key;
	struct event ev;
	struct event_arg args[EVENT_MAX_ARGS];
};

#define MAX_BATCH_RECORDS (8192 / 8)

struct call_state; /* decode_call.c: what the decoder knows of each function */
struct request_table;

struct decoder {
	struct decoder_opts o;
	struct decoder_counts n;
	struct step *steps; /* of the batch in hand */
	uint16_t order[MAX_BATCH_RECORDS];
	struct open_capture *captures;
	size_t n_captures, cap_captures;
	uint64_t next_capture, captures_full;
	uint64_t last_ts; /* newest time seen */
	uint64_t hit_key;
	struct call_state *calls; /* by function */
	size_t n_calls;
	struct request_table *requests;
	struct map64
		*devices; /* hash of process and device -> string id of the name that was told */
	struct map64
		*async_names; /* of asynchronous spans that recipes began: process and id -> name */
	void (*on_implausible)(void *ctx, const struct func_probe *f, const struct recipe_arg *a);
	void *implausible_ctx;
};

/* Parses one marker record into @s. Returns 1 (a step), 0 (understood, nothing to place),
 * negative: malformed. */
int marker__step(struct decoder *d, struct person_thread *th, uint32_t file, const uint8_t *p,
		 size_t size, struct step *s);
int marker__apply(struct decoder *d, struct chain *c, const struct step *s);
int decoder__hit(struct decoder *d, const void *rec, size_t size);
int decoder__call(struct decoder *d, const void *rec, size_t size);
void decoder__calls_free(struct decoder *d);

/* decode_request.c: requests as recipes tell them, by (process image, kind, id). */
struct request_table *requests__new(void);
void requests__free(struct request_table *t);
int requests__begin(struct decoder *d, struct person_thread *th, uint32_t kind, uint64_t id,
		    uint64_t ts);
int requests__output(struct decoder *d, struct person_thread *th, uint32_t kind, uint64_t id,
		     uint64_t units, uint64_t ts);
int requests__end(struct decoder *d, struct person_thread *th, uint32_t kind, uint64_t id,
		  uint64_t ts);
uint64_t capture__begin(struct decoder *d, uint32_t process, const char *tag, uint64_t ts);
void capture__end_tag(struct decoder *d, uint32_t process, const char *tag, uint64_t ts);
void step__arg_text(struct decoder *d, struct event *ev, struct event_arg *a, const char *s,
		    size_t len);

#endif
