/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a Chrome-style JSON trace of any size, packed with gzip or not: an array of events, or an
 * object that holds one. One event at a time is in memory.
 */
#ifndef CLIKA_USER_PROF_IMPORT_SCAN_H
#define CLIKA_USER_PROF_IMPORT_SCAN_H

#include "user/prof/json_text.h"

struct trace_scan {
	/* An event: a whole object. Non-zero stops and is returned. */
	int (*event)(void *ctx, struct json_text event);
	/* A member of the object around; values of more than 64 KiB are passed over. NULL: none. */
	int (*member)(void *ctx, const char *key, struct json_text value);
	void *ctx;

	/* what was found */
	bool array;      /* the whole file is an array */
	bool cut;        /* it ends in the middle */
	uint64_t events; /* seen */
	uint64_t large;  /* events of more than 1 MiB, passed over */
};

/* -EBADMSG: no such file. A file that ends early gives what is there, and .cut. */
int trace_scan__file(struct trace_scan *s, const char *path, struct clika_error *err);

/* A JSON number of microseconds as nanoseconds, exact to the last of three decimals. */
bool trace_scan__us(struct json_text number, int64_t *ns);

#endif
