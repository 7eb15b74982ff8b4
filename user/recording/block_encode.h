/* SPDX-License-Identifier: Apache-2.0 */
/* Turns events and ends into the bytes of block bodies and ITEM_ENDS payloads. */
#ifndef CLIKA_USER_RECORDING_BLOCK_ENCODE_H
#define CLIKA_USER_RECORDING_BLOCK_ENCODE_H

#include "user/recording/event.h"

struct enc_chunk {       /* one finished body, or one finished payload of ends */
	size_t off, len; /* in out */
	size_t first_used, n_used;
	uint32_t count;
	bool ends;
	uint64_t first_ts, last_ts, last_end;
};

struct block_encoder;

struct block_encoder *block_encoder__new(void);
void block_encoder__free(struct block_encoder *e);

/*
 * Encodes one call of writer__block(). On success the chunks lie in chunks(), their bytes in
 * out(), and used() lists the string ids that each refers to (at least once). All of it
 * lives until the next call. Ids that @names does not have are stored as 0.
 */
int block_encoder__run(struct block_encoder *e, const struct strpool *names,
		       const struct event *events, size_t n, const struct span_end *ends,
		       size_t n_ends);
const struct buf *block_encoder__out(const struct block_encoder *e);
size_t block_encoder__chunks(const struct block_encoder *e, const struct enc_chunk **chunks);
size_t block_encoder__used(const struct block_encoder *e, const uint32_t **ids);

#endif
