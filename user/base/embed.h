/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are part of the library; tools/embed.sh makes each from the file of its name. */
#ifndef CLIKA_USER_BASE_EMBED_H
#define CLIKA_USER_BASE_EMBED_H

#include <stddef.h>

struct embed {
	const char *data; /* a NUL follows */
	size_t len;
	const char *sha256; /* as a Content-Security-Policy takes it */
};

/* All files of a folder that are there when the library is built; file NULL at the end. */
struct embed_entry {
	const char *path; /* in the tree: "recipes/NAME.json" */
	const struct embed *file;
};

#endif
