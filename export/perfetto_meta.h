/* SPDX-License-Identifier: Apache-2.0 */
/* What a Perfetto trace says beside its events: clocks, machine, who recorded, what was lost. */
#ifndef CLIKA_EXPORT_PERFETTO_META_H
#define CLIKA_EXPORT_PERFETTO_META_H

#include "export/perfetto_out.h"

struct pf_clocks {
	struct pf_out *o;
	struct pf_seq *seq;
	size_t next;      /* anchor to write */
	uint64_t next_at; /* its time; UINT64_MAX: none is left */
	struct clock_anchor last;
	uint64_t realtime; /* the latest that was written */
};

/* Starts the sequence with the clocks of the first moment. */
void pf_clocks__start(struct pf_clocks *c, struct pf_out *o, struct pf_seq *seq);
/* Writes the anchors up to @ts. */
void pf_clocks__advance(struct pf_clocks *c, uint64_t ts);

/* What only the exporter knows. */
struct pf_counts {
	uint64_t not_finite; /* counter samples that are no number */
	uint64_t too_deep;   /* spans and instants below the deepest level that readers take */
};

void pf_meta__head(struct pf_out *o, struct pf_seq *seq);
void pf_meta__tail(struct pf_out *o, struct pf_seq *seq, const struct pf_counts *n);

#endif
