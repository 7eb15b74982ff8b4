/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which request a span belongs to. A request's trace holds the request itself and what it caused:
 *
 * - spans that begin, on the thread where a request began, after it and in the same span;
 * - the span that takes a flow of the request, when it began after the flow was sent; when it was
 *   running before (a worker's loop), what begins in it until it takes the next flow;
 * - spans inside of those, and async spans begun there.
 *
 * A flow is of the request in whose work it is sent, or of an open request with the same id. A
 * span that takes flows of several requests (a batch) stands in the trace of the first; the others
 * link to it. What no request caused is a trace of its own.
 */
#ifndef CLIKA_EXPORT_OTLP_CONTEXT_H
#define CLIKA_EXPORT_OTLP_CONTEXT_H

#include "user/session/session.h"

enum ot_kind { OT_NONE, OT_REQUEST, OT_SPAN, OT_ASYNC };

struct ot_ref { /* a span of a trace, or the trace that begins with it */
	enum ot_kind kind;
	uint64_t key; /* request_key, number of the span, async_key */
};

struct ot_place {
	struct ot_ref trace, parent;
};

#define OT_MAX_LINKS 128 /* as collectors have it by default; the rest is counted */

struct ot_link {
	struct ot_ref trace, span;
};

struct ot_request {
	uint64_t key, begin_ts, id;
	uint32_t process, track;
	struct ot_link *links;
	uint32_t n_links, cap_links, more_links;
	char *attributes; /* of the begin, as the writer keeps them */
	size_t attributes_len;
};

struct ot_context;

struct ot_context *ot_context__new(const struct session *s); /* NULL: out of memory */
void ot_context__free(struct ot_context *c);

int ot_context__span_begin(struct ot_context *c, const struct item *it);
struct ot_place ot_context__span_end(struct ot_context *c, const struct item *it);
int ot_context__async_begin(struct ot_context *c, const struct item *it);
struct ot_place ot_context__async_end(struct ot_context *c, const struct item *it);
int ot_context__flow(struct ot_context *c, const struct item *it);
/* NULL: out of memory. Belongs to the context until the request's end is said. */
struct ot_request *ot_context__request_begin(struct ot_context *c, const struct item *it);
struct ot_request *ot_context__request(struct ot_context *c, uint64_t key); /* NULL: unknown */
void ot_context__request_end(struct ot_context *c, struct ot_request *r);

#endif
