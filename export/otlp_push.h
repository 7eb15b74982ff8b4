/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a recording to a collector: OTLP over HTTP, JSON bodies, gzip. libcurl does the talking; it
 * is loaded when it is first needed, so that what only records or exports does not carry it.
 */
#ifndef CLIKA_EXPORT_OTLP_PUSH_H
#define CLIKA_EXPORT_OTLP_PUSH_H

#include "export/otlp.h"

struct otlp_push_opts {
	const char *url;            /* without a path: /v1/traces is added */
	const char *const *headers; /* "Name: value" */
	size_t n_headers;
	unsigned int timeout_ms;  /* of one try */
	unsigned int tries;       /* of one body */
	unsigned int backoff_ms;  /* before the second try; doubles, with jitter */
	unsigned int max_wait_ms; /* before any try, whatever the server asks for */
};
/* 10 s a try, 6 tries, 1 s, 60 s. */
void otlp_push_opts__init(struct otlp_push_opts *o);

struct otlp_push_result {       /* complete on errors too */
	uint64_t bodies, spans; /* accepted */
	uint64_t rejected;      /* spans that the collector took out of accepted bodies */
	uint64_t retries;
	char message[256]; /* what it said about them, "" = nothing */
};

int otlp_push(struct session *s, const struct export_opts *eo, const struct otlp_push_opts *o,
	      struct otlp_push_result *result, struct clika_error *err);

#endif
