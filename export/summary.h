/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of summary.txt, in their order. */
#ifndef CLIKA_EXPORT_SUMMARY_H
#define CLIKA_EXPORT_SUMMARY_H

#include "export/exporter.h"
#include "export/text_out.h"
#include "user/session/stats.h"

struct summary {
	struct session *s;
	const struct stats *st; /* after the walk */
	struct text_out t;
	unsigned int top; /* rows of a table */
};

/* summary_time.c */
void summary__headline(struct summary *m);
void summary__operations(struct summary *m);
void summary__threads(struct summary *m);
void summary__waits(struct summary *m);
void summary__requests(struct summary *m);

/* summary_context.c */
void summary__recorded(struct summary *m);
void summary__warnings(struct summary *m);
void summary__memory(struct summary *m);
void summary__losses(struct summary *m);
void summary__processes(struct summary *m);

#endif
