/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are part of the library; tools/embed.sh makes each from the file of its name. */
#ifndef CLIKA_EXPORT_EMBED_H
#define CLIKA_EXPORT_EMBED_H

#include <stddef.h>

struct embed {
	const char *data; /* a NUL follows */
	size_t len;
	const char *sha256; /* as a Content-Security-Policy takes it */
};

extern const struct embed embed_report_css;

#endif
