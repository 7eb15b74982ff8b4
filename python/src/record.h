/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marker records whose names and keys are made at run time, over the batched transport of
 * clika/markers.h: that header takes literals, and a Python program has none.
 */
#ifndef CLIKA_PYTHON_RECORD_H
#define CLIKA_PYTHON_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include <clika/markers.h>

#define RECORD_MAX_KEY 63u

struct record_arg {
	const char *key;
	uint64_t value; /* bits, or the address of a string */
	uint32_t type;  /* enum clika_arg_type */
	uint16_t key_len, len;
};

struct record {
	uint32_t kind; /* enum clika_rec_kind */
	uint32_t fixed;
	uint64_t words[3];
	const char *name; /* NULL = none */
	uint32_t name_len;
	uint32_t nargs;
	const struct record_arg *args;
};

clika_token record__span_begin(const char *name, uint32_t len, uint32_t nargs,
			       const struct record_arg *args);
void record__span_end(clika_token token);
/* Only when no other is open inside it; true: it is closed now, or was before. */
bool record__span_end_last(clika_token token);
void record__emit(const struct record *r);
/* A span that has ended, between two moments of CLOCK_BOOTTIME. */
void record__span(const char *name, uint32_t len, uint64_t begin, uint64_t end);
void record__thread_name(const char *name);
bool record__enabled(void);

#endif
