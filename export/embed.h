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

/* export/html/ */
extern const struct embed embed_report_css, embed_body_html, embed_util_js, embed_data_js,
	embed_table_js, embed_charts_js, embed_overview_js, embed_timeline_js, embed_draw_js,
	embed_flame_js, embed_sections_js, embed_main_js;

#endif
