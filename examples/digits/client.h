/* SPDX-License-Identifier: Apache-2.0 */
/* Synthetic clients: they send held-out images and know the right answers. */
#ifndef DIGITS_CLIENT_H
#define DIGITS_CLIENT_H

#include <signal.h>

#include "digits.h"

struct serve_opts {
	double rate;    /* requests a second, on average; arrivals are a Poisson process */
	double seconds; /* 0 = until a signal */
	uint64_t seed;
	/* Ends serving; blocked in all threads by the caller. NULL = none. */
	const sigset_t *stop;
};

struct serve_summary {
	struct digits_summary answers;
	uint64_t rejected; /* the queue was full */
	int signal;        /* that ended it, 0 = time was up */
};

int client__serve(struct digits_engine *e, const struct serve_opts *o, struct serve_summary *out);

#endif
