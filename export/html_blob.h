/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes on their way into a page: compressed (zlib), at most so many, then base64. They lie in an
 * unnamed file until it is known that they fit.
 */
#ifndef CLIKA_EXPORT_HTML_BLOB_H
#define CLIKA_EXPORT_HTML_BLOB_H

#include "export/spool.h"
#include "user/base/base.h"

struct html_blob {
	size_t max, len; /* compressed bytes: allowed, there */
	struct spool *bytes;
	void *stream;
	uint8_t *step; /* what the compressor gives at a time */
};

/* Again after a failure: forgets what there is. */
int html_blob__start(struct html_blob *blob);
/* Beyond the limit nothing is kept, and html_blob__finish() says so. */
int html_blob__add(struct html_blob *blob, const void *p, size_t n);
int html_blob__finish(struct html_blob *blob); /* -EFBIG: more than the limit */
int html_blob__base64(struct html_blob *blob, struct outfile *out);
void html_blob__free(struct html_blob *blob);

#endif
