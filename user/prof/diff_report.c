// SPDX-License-Identifier: Apache-2.0
/* A side of a comparison from report.json: foreign input, so nothing in it is taken for granted. */
#include "user/prof/diff.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const cJSON *at(const cJSON *object, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(object, key);
}

static double number(const cJSON *object, const char *key)
{
	const cJSON *v = at(object, key);

	return cJSON_IsNumber(v) && isfinite(v->valuedouble) && v->valuedouble >= 0 ? v->valuedouble
										    : NAN;
}

static uint64_t whole(const cJSON *object, const char *key)
{
	double v = number(object, key);

	return v > 0 && v < 1.8e19 ? (uint64_t)v : 0;
}

static const char *text(const cJSON *object, const char *key)
{
	const cJSON *v = at(object, key);

	return cJSON_IsString(v) ? v->valuestring : NULL;
}

static int bad(const struct diff_side *side, const char *what, struct clika_error *err)
{
	return error__set(err, -EBADMSG, "%s is no report that can be compared: %s", side->path,
			  what);
}

/* @spread: the object with the distribution. */
static int add(struct diff_side *side, enum diff_kind kind, const char *name, const char *category,
	       const cJSON *spread, const char *count, struct clika_error *err)
{
	static const char *const keys[DIFF_QUANTILES] = { "min_ns", "p50_ns", "p90_ns",
							  "p95_ns", "p99_ns", "max_ns" };
	struct diff_op *op;
	double last = 0;
	int i;

	if (!whole(spread, count))
		return 0; /* nothing ended */
	op = diff_side__add(side, kind, name, category);
	if (!op)
		return error__set(err, -ENOMEM, "out of memory");
	op->calls = whole(spread, count);
	op->total = number(spread, "total_ns");
	op->mean = number(spread, "mean_ns");
	op->stddev = number(spread, "stddev_ns");
	for (i = 0; i < DIFF_QUANTILES; i++) {
		op->quantile[i] = number(spread, keys[i]);
		if (!(op->quantile[i] >= last))
			return bad(side, "quantiles are missing or not in order", err);
		last = op->quantile[i];
	}
	op->median = op->quantile[DIFF_P50];
	if (isnan(op->total) || isnan(op->mean))
		return bad(side, "totals or means are missing", err);
	return 0;
}

static int take(struct diff_side *side, const cJSON *root, struct clika_error *err)
{
	const cJSON *row, *recording = at(root, "recording"), *loss = at(root, "loss");
	const cJSON *clocks = at(root, "clocks");
	const char *host = text(at(root, "host"), "name");
	int code = 0;

	if (!cJSON_IsArray(at(root, "ops")) || !cJSON_IsObject(clocks))
		return bad(side, "operations or clocks are missing", err);
	side->report = true;
	side->observed_ns = whole(clocks, "observed_ns");
	side->begin_realtime = whole(clocks, "base_realtime_ns");
	side->incomplete = cJSON_IsFalse(at(recording, "complete"));
	side->lost = whole(loss, "records");
	side->host = host ? strdup(host) : NULL;
	cJSON_ArrayForEach(row, at(root, "ops"))
	{
		if (!text(row, "name"))
			return bad(side, "an operation has no name", err);
		code = add(side, DIFF_OP, text(row, "name"), text(row, "category"), row, "calls",
			   err);
		if (code)
			return code;
	}
	cJSON_ArrayForEach(row, at(root, "requests"))
	{
		if (text(row, "kind"))
			code = add(side, DIFF_REQUEST, text(row, "kind"), NULL, at(row, "latency"),
				   "count", err);
		if (code)
			return code;
	}
	return 0;
}

int diff_report__read(struct diff_side *side, const char *json, size_t len, struct clika_error *err)
{
	cJSON *root = cJSON_ParseWithLength(json, len);
	const char *format;
	int code;

	if (!root)
		return error__set(err, -EBADMSG, "%s is neither a recording nor JSON", side->path);
	format = text(root, "format");
	if (!format || strcmp(format, "clika-bpf-prof report"))
		code = bad(side, "it is some other JSON", err);
	else if (whole(root, "schema_version") != 1)
		code = bad(side, "its schema is of another version", err);
	else
		code = take(side, root, err);
	cJSON_Delete(root);
	return code;
}
