// SPDX-License-Identifier: Apache-2.0
#include "export/report.h"

#include <errno.h>
#include <string.h>

int report__init(struct report *r, struct session *s, struct outfile *out)
{
	r->s = s;
	json__init(&r->j, out);
	return json_names__init(&r->names, s);
}

int report__end(struct report *r)
{
	json__end_object(&r->j);
	r->j.comma = false; /* nothing follows the line */
	json__line(&r->j);
	return json__flush(&r->j);
}

void report__free(struct report *r)
{
	json_names__free(&r->names);
	json__free(&r->j);
}

void put_u64(struct report *r, const char *key, uint64_t v)
{
	json__key(&r->j, key);
	json__u64(&r->j, v);
}

void put_i64(struct report *r, const char *key, int64_t v)
{
	json__key(&r->j, key);
	json__i64(&r->j, v);
}

void put_f64(struct report *r, const char *key, double v)
{
	json__key(&r->j, key);
	json__f64(&r->j, v);
}

void put_bool(struct report *r, const char *key, bool v)
{
	json__key(&r->j, key);
	json__bool(&r->j, v);
}

void put_null(struct report *r, const char *key)
{
	json__key(&r->j, key);
	json__null(&r->j);
}

void put_cstr(struct report *r, const char *key, const char *s)
{
	json__key(&r->j, key);
	json__cstr(&r->j, s && *s ? s : NULL);
}

void put_name(struct report *r, const char *key, uint32_t id)
{
	json__key(&r->j, key);
	json_names__put(&r->names, &r->j, id);
}

void put_known(struct report *r, const char *key, uint32_t id)
{
	if (id)
		put_name(r, key, id);
	else
		put_null(r, key);
}

/* Six decimals are more than the clock gives, and no locale writes a comma into them. */
void put_share(struct report *r, const char *key, uint64_t part, uint64_t of)
{
	uint64_t millionths;
	char text[8];
	int i;

	if (!of) {
		put_null(r, key);
		return;
	}
	part = part < of ? part : of;
	millionths = (uint64_t)(((unsigned __int128)part * 1000000 + of / 2) / of);
	text[0] = millionths >= 1000000 ? '1' : '0';
	text[1] = '.';
	for (i = 7; i > 1; i--, millionths /= 10)
		text[i] = (char)('0' + millionths % 10);
	json__key(&r->j, key);
	json__raw(&r->j, text, sizeof(text));
}

void put_at(struct report *r, const char *key, uint64_t ts)
{
	uint64_t origin = session__origin(r->s);

	put_u64(r, key, ts > origin ? ts - origin : 0);
}

void put_stat(struct report *r, const char *key, const struct histogram *h, uint64_t v)
{
	if (h->count)
		put_u64(r, key, v);
	else
		put_null(r, key);
}

void put_object(struct report *r, const char *key)
{
	json__key(&r->j, key);
	json__object(&r->j);
}

void put_array(struct report *r, const char *key)
{
	json__key(&r->j, key);
	json__array(&r->j);
}

void put_end_object(struct report *r)
{
	json__end_object(&r->j);
}

void put_end_array(struct report *r)
{
	json__end_array(&r->j);
}

void put_row(struct report *r)
{
	json__line(&r->j);
	json__object(&r->j);
}

void put_spread(struct report *r, const struct histogram *h)
{
	put_stat(r, "mean_ns", h, histogram__mean(h));
	put_stat(r, "min_ns", h, h->min);
	put_stat(r, "max_ns", h, h->max);
	if (h->count > 1)
		put_u64(r, "stddev_ns", histogram__stddev(h));
	else
		put_null(r, "stddev_ns");
	put_stat(r, "p50_ns", h, histogram__quantile(h, 500));
	put_stat(r, "p90_ns", h, histogram__quantile(h, 900));
	put_stat(r, "p95_ns", h, histogram__quantile(h, 950));
	put_stat(r, "p99_ns", h, histogram__quantile(h, 990));
}

void put_distribution(struct report *r, const char *key, const struct histogram *h)
{
	put_object(r, key);
	put_u64(r, "count", h->count);
	put_stat(r, "total_ns", h, h->sum);
	put_spread(r, h);
	put_end_object(r);
}

void put_process(struct report *r, const struct track *t)
{
	put_u64(r, "process", t->process);
	put_u64(r, "pid", t->pid);
}
