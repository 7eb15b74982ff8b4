/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording as OTLP traces in JSON: bodies of export requests, each with spans of one process.
 * A file holds one body a line; pushing sends the same bodies.
 */
#ifndef CLIKA_EXPORT_OTLP_H
#define CLIKA_EXPORT_OTLP_H

#include "export/exporter.h"

/* Far below what receivers take by default. */
#define OTLP_BODY_SPANS 512
#define OTLP_BODY_BYTES (1u << 20)

struct otlp;

/* @send gets each body when it is ready; non-zero stops. */
int otlp__new(struct session *s, const struct export_opts *o,
	      int (*send)(void *ctx, const void *body, size_t len, size_t spans), void *ctx,
	      struct otlp **out, struct clika_error *err);
void otlp__free(struct otlp *t);
int otlp__item(void *otlp, const struct item *it);
int otlp__finish(struct otlp *t); /* sends what is left */

#endif
