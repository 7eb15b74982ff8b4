/* SPDX-License-Identifier: Apache-2.0 */
/* Files of export/html that are part of the library. */
#ifndef CLIKA_EXPORT_EMBED_H
#define CLIKA_EXPORT_EMBED_H

#include "user/base/embed.h"

extern const struct embed embed_report_css, embed_body_html, embed_util_js, embed_data_js,
	embed_table_js, embed_charts_js, embed_overview_js, embed_timeline_js, embed_draw_js,
	embed_flame_js, embed_sections_js, embed_main_js;

#endif
