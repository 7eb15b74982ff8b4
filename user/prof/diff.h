/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `diff` compares: two sides, each from a recording or a report, and how sure each of their
 * numbers is. docs/diff.md states the formulas.
 */
#ifndef CLIKA_USER_PROF_DIFF_H
#define CLIKA_USER_PROF_DIFF_H

#include "clika/prof.h"
#include "user/session/stats.h"

/* A recording is cut into slots of equal length, to see what drifts. */
#define DIFF_SLOTS 20

struct diff_slot {
	uint64_t calls, below; /* begun in it; of those, not longer than the median */
	double sum;
};

enum diff_kind { DIFF_OP, DIFF_REQUEST };

/* Quantiles that a report tells, least first. */
enum { DIFF_MIN, DIFF_P50, DIFF_P90, DIFF_P95, DIFF_P99, DIFF_MAX, DIFF_QUANTILES };

struct diff_op { /* an operation, or the latencies of a kind of request */
	enum diff_kind kind;
	char *name, *category; /* category: NULL = none */
	uint64_t calls;
	double total, mean, stddev, median; /* ns; NAN = not known */
	struct histogram dur;               /* from a recording */
	struct diff_slot *slots;            /* DIFF_SLOTS of them; NULL: from a report */
	double quantile[DIFF_QUANTILES];
};

struct diff_side {
	const char *path;
	bool report;
	bool incomplete;
	uint64_t lost;
	uint64_t observed_ns;
	uint64_t begin_realtime; /* 0 = not known */
	char *host;
	struct diff_op *ops; /* by kind, name, category */
	size_t n, cap;
};

int diff_side__read(struct diff_side *side, const char *path, const struct clika_view_opts *view,
		    struct clika_error *err);
void diff_side__free(struct diff_side *side);
int diff_op__compare(const struct diff_op *a, const struct diff_op *b);
/* A new zeroed row; strings are copied. NULL: out of memory. */
struct diff_op *diff_side__add(struct diff_side *side, enum diff_kind kind, const char *name,
			       const char *category);

/* diff_report.c: fills @side from the text of a report.json. */
int diff_report__read(struct diff_side *side, const char *text, size_t len,
		      struct clika_error *err);

/* --- diff_noise.c ---------------------------------------------------------------------------- */

struct diff_value {
	double v, low, high; /* low and high: NAN when nothing tells them */
};

struct diff_change {
	struct diff_value a, b;
	double change, noise; /* noise: NAN = not known */
	bool significant;     /* the change is past the noise */
};

/* Of a two-sided interval that misses with @alpha: standard deviations, with a known one and with
 * one that @df + 1 values estimate. */
double noise__z(double alpha);
double noise__t(double alpha, unsigned int df);

/* @same_calls: both sides have the same count, so that it is the work given, not chance. */
void noise__median(const struct diff_op *op, double alpha, struct diff_value *out);
void noise__total(const struct diff_op *op, double alpha, bool same_calls, struct diff_value *out);
void noise__count(const struct diff_op *op, double alpha, struct diff_value *out);
void noise__scale(struct diff_value *v, double by);
void noise__change(const struct diff_value *a, const struct diff_value *b, struct diff_change *out);

#endif
