// SPDX-License-Identifier: Apache-2.0
/* How far a number may be off by chance, from the spread inside its own recording. */
#include "user/prof/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Fewer slots with calls than this tell nothing about drift. */
#define ENOUGH_SLOTS 4
/* Quantiles of a histogram are off by half a bucket of 1/64. */
#define REPORT_RESOLUTION (1.0 / 128)

double noise__z(double alpha)
{
	double low = 0, high = 40, middle;
	int i;

	for (i = 0; i < 80; i++) {
		middle = (low + high) / 2;
		if (erfc(middle / M_SQRT2) > alpha)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/* Student's quantile by the expansion of Cornish and Fisher. */
double noise__t(double alpha, unsigned int df)
{
	double z = noise__z(alpha), z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z, n = df;

	return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
	       (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

static unsigned int slots_used(const struct diff_op *op)
{
	unsigned int i, n = 0;

	for (i = 0; op->slots && i < DIFF_SLOTS; i++)
		n += op->slots[i].calls > 0;
	return n;
}

static void set(struct diff_value *out, double v, double half)
{
	*out = (struct diff_value){ v, v - half, v + half };
}

/* --- medians --------------------------------------------------------------------------------- */

/*
 * Half the width, in parts of all calls, of the ranks between which the true median lies: as for
 * independent calls, or wider when the part below the median differs more between slots.
 */
static double rank_width(const struct diff_op *op, double alpha)
{
	double n = (double)op->calls, below = 0, squares = 0, half, d;
	unsigned int i, used = slots_used(op);

	half = noise__z(alpha) * 0.5 / sqrt(n);
	if (used < ENOUGH_SLOTS)
		return half;
	for (i = 0; i < DIFF_SLOTS; i++)
		below += (double)op->slots[i].below;
	for (i = 0; i < DIFF_SLOTS; i++) {
		d = (double)op->slots[i].below - below / n * (double)op->slots[i].calls;
		squares += d * d;
	}
	d = noise__t(alpha, used - 1) * sqrt(squares * used / (used - 1)) / n;
	return d > half ? d : half;
}

static double report_quantile(const struct diff_op *op, double p)
{
	static const double at[DIFF_QUANTILES] = { 0, 0.5, 0.9, 0.95, 0.99, 1 };
	int i = 1;

	while (i + 1 < DIFF_QUANTILES && at[i] < p)
		i++;
	return op->quantile[i - 1] +
	       (op->quantile[i] - op->quantile[i - 1]) * (p - at[i - 1]) / (at[i] - at[i - 1]);
}

void noise__median(const struct diff_op *op, double alpha, struct diff_value *out)
{
	double n = (double)op->calls, half, low, high;
	uint64_t least, greatest, unused;

	*out = (struct diff_value){ op->median, NAN, NAN };
	if (!op->calls)
		return;
	half = rank_width(op, alpha);
	low = floor(n * (0.5 - half));
	high = ceil(n * (0.5 + half)) + 1;
	if (low < 1 || high > n)
		return; /* too few calls to say */
	if (op->slots) {
		histogram__bounds(&op->dur, (uint64_t)low, &least, &unused);
		histogram__bounds(&op->dur, (uint64_t)high, &unused, &greatest);
		out->low = (double)least;
		out->high = (double)greatest;
	} else {
		out->low = report_quantile(op, 0.5 - half) * (1 - REPORT_RESOLUTION);
		out->high = report_quantile(op, 0.5 + half) * (1 + REPORT_RESOLUTION);
	}
}

/* --- counts ---------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Of the count in one slot, from the steps between neighbours: a slow change adds little to them,
 * and a burst touches only two. */
static double slot_deviation(const struct diff_op *op)
{
	double step[DIFF_SLOTS - 1];
	unsigned int i;

	for (i = 0; i + 1 < DIFF_SLOTS; i++)
		step[i] = fabs((double)op->slots[i + 1].calls - (double)op->slots[i].calls);
	qsort(step, DIFF_SLOTS - 1, sizeof(*step), by_size);
	/* The median of |x - y| of normal x and y is 0.954 standard deviations. */
	return step[(DIFF_SLOTS - 1) / 2] / 0.954;
}

static double count_deviation(const struct diff_op *op)
{
	double poisson = sqrt(op->calls ? (double)op->calls : 1), slots;

	if (slots_used(op) < ENOUGH_SLOTS)
		return poisson;
	slots = sqrt(DIFF_SLOTS) * slot_deviation(op);
	return slots > poisson ? slots : poisson;
}

void noise__count(const struct diff_op *op, double alpha, struct diff_value *out)
{
	set(out, (double)op->calls, noise__z(alpha) * count_deviation(op));
}

/* --- totals ---------------------------------------------------------------------------------- */

void noise__total(const struct diff_op *op, double alpha, bool same_calls, struct diff_value *out)
{
	double half, squares = 0, d, mean = op->mean;
	unsigned int i, used = slots_used(op);

	if (!op->calls) {
		set(out, 0, 0);
		return;
	}
	*out = (struct diff_value){ op->total, NAN, NAN };
	if (op->calls < 2 || isnan(op->stddev))
		return;
	half = noise__z(alpha) * sqrt((double)op->calls) * op->stddev;
	if (used >= ENOUGH_SLOTS) {
		for (i = 0; i < DIFF_SLOTS; i++) {
			d = op->slots[i].sum - mean * (double)op->slots[i].calls;
			squares += d * d;
		}
		d = noise__t(alpha, used - 1) * sqrt(squares * used / (used - 1));
		half = d > half ? d : half;
	}
	if (!same_calls)
		half = hypot(half, noise__z(alpha) * count_deviation(op) * mean);
	set(out, op->total, half);
}

/* --- two sides ------------------------------------------------------------------------------- */

void noise__scale(struct diff_value *v, double by)
{
	v->v *= by;
	v->low *= by;
	v->high *= by;
}

/* The limits of each side keep their own distance to its value, on the side towards the other. */
void noise__change(const struct diff_value *a, const struct diff_value *b, struct diff_change *out)
{
	*out = (struct diff_change){ .a = *a, .b = *b, .change = b->v - a->v };
	if (out->change >= 0)
		out->noise = hypot(b->v - b->low, a->high - a->v);
	else
		out->noise = hypot(b->high - b->v, a->v - a->low);
	out->significant = fabs(out->change) > out->noise; /* never, when it is not known */
}
