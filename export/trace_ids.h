/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process and thread numbers for formats that know nothing else. A pid names one image there: the
 * first image of a pid keeps it; a later one (reused pid, exec) gets a number above every pid of
 * the kernel, and the real one goes into its label. Thread numbers likewise, and they are unique
 * in the whole trace. Viewers give 0 and negative numbers a meaning of their own.
 */
#ifndef CLIKA_EXPORT_TRACE_IDS_H
#define CLIKA_EXPORT_TRACE_IDS_H

#include "user/session/session.h"

#define TRACE_PID_MAX 4194304u  /* the kernel's PID_MAX_LIMIT */
#define TRACE_MADE_UP 10000000u /* made-up numbers begin here */

struct trace_ids {
	uint32_t *pid;   /* by track */
	uint32_t *tid;   /* by track */
	uint32_t *image; /* by track: 1 for the first image of its pid, 2 for the next ... */
	bool *first;     /* by track: the first track of its process */
	size_t n;
};

int trace_ids__init(struct trace_ids *ids, const struct session *s);
void trace_ids__free(struct trace_ids *ids);

#endif
