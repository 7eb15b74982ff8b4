/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrows of a Perfetto trace. An arrow is a number that two slices carry; it is written with the
 * end of a span, since only then all arrows that touch it are known.
 */
#ifndef CLIKA_EXPORT_PERFETTO_FLOWS_H
#define CLIKA_EXPORT_PERFETTO_FLOWS_H

#include "user/session/session.h"

/* Readers keep so many open slices a track; what lies deeper they drop. */
#define PF_MAX_DEPTH 512
/* So many arrows a span; further ones get an instant each. */
#define PF_MAX_ARROWS 64

/* Those that wait for the end of an open span of one thread, innermost span last. */
struct pf_arrows {
	struct pf_arrow *at;
	size_t n, cap;
};

struct pf_flows {
	struct map64 *at; /* flow -> index of the place of its newest step */
	struct pf_place *places;
	size_t n, cap;
	uint64_t free; /* index + 1 of a place that is free */
	uint64_t seed; /* keeps apart what several hosts call alike */
	int err;
};

int pf_flows__init(struct pf_flows *f, uint64_t seed);
void pf_flows__free(struct pf_flows *f);

/* An arrow ends here (the item's flow_arrow is set). False: an instant must carry *@id. */
bool pf_flows__arrive(struct pf_flows *f, struct pf_arrows *a, const struct item *it, uint64_t *id);
/* One may leave here (it->span is set, and the flow goes on). False: likewise. */
bool pf_flows__leave(struct pf_flows *f, struct pf_arrows *a, const struct item *it, uint64_t *id);
void pf_flows__over(struct pf_flows *f, const struct item *it);

/* What a span that ends carries: @ids[*n], and in @last[*n_last] those that nothing follows. */
void pf_arrows__take(struct pf_arrows *a, uint32_t depth, uint64_t *ids, size_t *n, uint64_t *last,
		     size_t *n_last);

#endif
