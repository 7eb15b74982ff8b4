/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder over an in-memory recording, for tests that feed it records of the ring. */
#ifndef CLIKA_TESTS_COMMON_DECODE_BENCH_H
#define CLIKA_TESTS_COMMON_DECODE_BENCH_H

#include "user/stream/decode.h"

struct decode_bench {
	struct strpool *pool;
	struct chain_env env;
	struct files *files;
	struct names *names;
	struct people *people;
	struct decoder *d;
	int fd; /* of the recording */
};

/* 0 or -errno; @not_before as in struct decoder_opts. */
int decode_bench__open(struct decode_bench *b, uint64_t not_before, bool redact);
/* Flushes and completes the recording; b->fd can be read then. */
int decode_bench__finish(struct decode_bench *b);
void decode_bench__close(struct decode_bench *b);

#endif
