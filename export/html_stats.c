// SPDX-License-Identifier: Apache-2.0
/* Operations, waiting, async spans and requests, as the statistics have them. */
#include "export/html_parts.h"

#define MAX_SHAPES 300 /* operations whose durations are drawn */

/*
 * The buckets of a histogram, @parts (a divisor of 64) to a power of two: least value, width,
 * count. See histogram.c for what its buckets are.
 */
static void put_shape(struct html *h, const char *key, const struct histogram *hist,
		      unsigned int parts)
{
	unsigned int octave, part, i, each = 64 / parts;
	const uint64_t *b;
	uint64_t sum, width;

	json__key(&h->j, key);
	json__array(&h->j);
	for (octave = hist->first; octave < (unsigned int)hist->first + hist->n; octave++) {
		b = hist->buckets + (size_t)(octave - hist->first) * 64;
		width = (uint64_t)each << (octave ? octave - 1 : 0);
		for (part = 0; part < parts; part++) {
			for (sum = 0, i = 0; i < each; i++)
				sum += b[part * each + i];
			if (!sum)
				continue;
			json__u64(&h->j, (octave ? 64ull << (octave - 1) : 0) + part * width);
			json__u64(&h->j, width);
			json__u64(&h->j, sum);
		}
	}
	json__end_array(&h->j);
}

/* count, sum, min, p50, p90, p95, p99, p99.9, max */
static void put_spread(struct html *h, const char *key, const struct histogram *hist)
{
	static const unsigned int permille[] = { 500, 900, 950, 990, 999 };
	size_t i;

	json__key(&h->j, key);
	json__array(&h->j);
	json__u64(&h->j, hist->count);
	json__u64(&h->j, hist->sum);
	json__u64(&h->j, hist->min);
	for (i = 0; i < ARRAY_SIZE(permille); i++)
		json__u64(&h->j, histogram__quantile(hist, permille[i]));
	json__u64(&h->j, hist->max);
	json__end_array(&h->j);
}

static void put_op(struct html *h, const struct op_stats *op, bool shape)
{
	uint32_t n = op->other ? 0 : html_spans__op(&h->spans, op->name, op->cat);
	const struct html_op *seen = &h->spans.ops[n];

	json__object(&h->j);
	html__u64(h, "op", n);
	if (op->other)
		html__bool(h, "other", true);
	html__u64(h, "total", op->total_ns);
	html__u64(h, "self", op->self_ns);
	put_spread(h, "dur", &op->dur);
	if (op->src)
		html__text(h, "src", op->src);
	if (op->flags & EVS_FUNCTION)
		html__bool(h, "function", true);
	if (op->unfinished)
		html__u64(h, "unfinished", op->unfinished);
	if (op->allocs || op->frees) {
		html__u64(h, "allocs", op->allocs);
		html__u64(h, "allocBytes", op->alloc_bytes);
		html__u64(h, "frees", op->frees);
		html__u64(h, "freedBytes", op->freed_bytes);
	}
	if (n && seen->seen && seen->stream < h->spans.n_tracks) {
		html__u64(h, "at", seen->at);
		html__u64(h, "stream", seen->stream);
	}
	if (shape)
		put_shape(h, "shape", &op->dur, 8);
	json__end_object(&h->j);
}

static void put_op_rows(struct html *h)
{
	size_t i;
	uint64_t rest = 0;

	json__key(&h->j, "ops");
	json__array(&h->j);
	for (i = 0; i < h->st->n_ops && i < HTML_MAX_ROWS_SHOWN; i++)
		put_op(h, &h->st->ops[i], i < MAX_SHAPES);
	json__end_array(&h->j);
	for (; i < h->st->n_ops; i++)
		rest += h->st->ops[i].self_ns;
	html__u64(h, "nOps", h->st->n_ops);
	html__u64(h, "restSelf", rest);
}

static void put_waits(struct html *h)
{
	size_t i;

	json__key(&h->j, "waits");
	json__array(&h->j);
	for (i = 0; i < h->st->n_waits && i < HTML_MAX_ROWS_SHOWN; i++) {
		const struct wait_stats *w = &h->st->waits[i];

		json__object(&h->j);
		html__text(h, "name", w->name);
		html__text(h, "into", w->into);
		put_spread(h, "wait", &w->wait);
		html__u64(h, "ran", w->ran);
		html__u64(h, "ranNs", w->ran_ns);
		json__end_object(&h->j);
	}
	json__end_array(&h->j);
}

static void put_asyncs(struct html *h)
{
	size_t i;

	json__key(&h->j, "asyncs");
	json__array(&h->j);
	for (i = 0; i < h->st->n_asyncs && i < HTML_MAX_ROWS_SHOWN; i++) {
		const struct async_stats *a = &h->st->asyncs[i];

		json__object(&h->j);
		html__text(h, "name", a->name);
		put_spread(h, "dur", &a->dur);
		html__u64(h, "most", a->most);
		html__u64(h, "unfinished", a->unfinished);
		json__end_object(&h->j);
	}
	json__end_array(&h->j);
}

static void put_request(struct html *h, const struct request_stats *r)
{
	json__object(&h->j);
	html__text(h, "name", r->name);
	html__u64(h, "begun", r->begun);
	html__u64(h, "ended", r->ended);
	html__u64(h, "unfinished", r->unfinished);
	html__u64(h, "noBegin", r->no_begin);
	html__u64(h, "units", r->units);
	html__u64(h, "most", r->most);
	html__at(h, "firstBegin", r->first_begin);
	html__at(h, "lastEnd", r->last_end);
	put_spread(h, "latency", &r->latency);
	put_shape(h, "latencyShape", &r->latency, 16);
	put_spread(h, "first", &r->first);
	put_spread(h, "perUnit", &r->per_unit);
	put_spread(h, "queued", &r->queued);
	put_spread(h, "computed", &r->computed);
	json__end_object(&h->j);
}

void html__put_stats(struct html *h)
{
	size_t i;

	put_op_rows(h);
	html__flush(h);
	put_waits(h);
	put_asyncs(h);
	json__key(&h->j, "requests");
	json__array(&h->j);
	for (i = 0; i < h->st->n_requests && i < 100; i++)
		put_request(h, &h->st->requests[i]);
	json__end_array(&h->j);
	html__u64(h, "nRequests", h->st->n_requests);
	html__flush(h);
}
