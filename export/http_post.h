/* SPDX-License-Identifier: Apache-2.0 */
/* Posting JSON to one place, over one connection, by libcurl. */
#ifndef CLIKA_EXPORT_HTTP_POST_H
#define CLIKA_EXPORT_HTTP_POST_H

#include "user/base/base.h"

struct http_client;

/* @path is added to a @url that has none. -ENOTSUP: there is no libcurl. */
int http_client__new(const char *url, const char *path, const char *const *headers,
		     size_t n_headers, unsigned int timeout_ms, struct http_client **out,
		     struct clika_error *err);
void http_client__free(struct http_client *c);

struct http_answer {
	long status;            /* 0: none came, why tells */
	uint64_t retry_after_s; /* 0: the server did not say */
	struct buf body;
	char why[256];
};
/* Sends @body, which is gzip. An error means that nothing could be tried at all. */
int http_client__post(struct http_client *c, const void *body, size_t len, size_t max_answer,
		      struct http_answer *a);

#endif
