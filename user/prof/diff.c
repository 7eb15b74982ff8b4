// SPDX-License-Identifier: Apache-2.0
/* `diff`: what changed between two recordings or reports, and whether it is more than noise. */
#include "user/prof/diff.h"

#include "export/json_emit.h"
#include "export/text_out.h"
#include "user/prof/recording_impl.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* All intervals of one metric hold together with this probability. */
#define CONFIDENCE_PERCENT 99
/* Sides whose lengths differ by more are pointed out. */
#define LENGTH_PERCENT 10

enum metric { COUNT, MEDIAN, TOTAL, METRICS };

static const char *const metric_names[METRICS] = { "count", "median", "total" };

struct diff_row {
	const struct diff_op *a, *b; /* NULL: not on that side */
	const struct diff_op *op;    /* either of them, for the name */
	struct diff_change of[METRICS];
	bool failed;
};

struct diff {
	struct diff_side side[2];
	struct clika_diff_opts o;
	enum metric gate;
	struct diff_row *rows;
	size_t n;
	double alpha;
	struct clika_diff_result result;
};

/* --- rows ------------------------------------------------------------------------------------ */

static bool wanted(const struct diff *d, const struct diff_op *op)
{
	return !d->o.filter || text__glob(d->o.filter, op->name);
}

static void add_row(struct diff *d, const struct diff_op *a, const struct diff_op *b)
{
	const struct diff_op *op = a ? a : b;

	if (!op || !wanted(d, op))
		return;
	d->rows[d->n++] = (struct diff_row){ .a = a, .b = b, .op = op };
	d->result.compared += a && b;
	d->result.appeared += !a;
	d->result.vanished += !b;
}

static int pair(struct diff *d)
{
	const struct diff_side *a = &d->side[0], *b = &d->side[1];
	size_t i = 0, k = 0;
	int c;

	d->rows = calloc(a->n + b->n + 1, sizeof(*d->rows));
	if (!d->rows)
		return -ENOMEM;
	while (i < a->n || k < b->n) {
		if (i < a->n && k < b->n)
			c = diff_op__compare(&a->ops[i], &b->ops[k]);
		else
			c = i < a->n ? -1 : 1;
		add_row(d, c <= 0 ? &a->ops[i] : NULL, c >= 0 ? &b->ops[k] : NULL);
		i += c <= 0;
		k += c >= 0;
	}
	return 0;
}

static void measure(struct diff *d, struct diff_row *row)
{
	static const struct diff_op none = { .median = NAN };
	const struct diff_op *op[2] = { row->a ? row->a : &none, row->b ? row->b : &none };
	bool same = op[0]->calls == op[1]->calls;
	struct diff_value v[METRICS][2];
	int i;

	for (i = 0; i < 2; i++) {
		noise__count(op[i], d->alpha, &v[COUNT][i]);
		noise__median(op[i], d->alpha, &v[MEDIAN][i]);
		noise__total(op[i], d->alpha, same, &v[TOTAL][i]);
		if (d->o.per_second && d->side[i].observed_ns) {
			noise__scale(&v[COUNT][i], 1e9 / (double)d->side[i].observed_ns);
			noise__scale(&v[TOTAL][i], 1e9 / (double)d->side[i].observed_ns);
		}
	}
	for (i = 0; i < METRICS; i++)
		noise__change(&v[i][0], &v[i][1], &row->of[i]);
}

static double percent_of(const struct diff_change *c, double part)
{
	return c->a.v > 0 ? 100 * part / c->a.v : NAN;
}

/* What appeared has grown by more than any percentage. */
static bool fails(const struct diff *d, const struct diff_row *row)
{
	const struct diff_change *c = &row->of[d->gate];
	double percent = c->a.v > 0 ? percent_of(c, c->change) : c->change > 0 ? INFINITY : 0;

	if (d->o.fail_above < 0 || !c->significant)
		return false;
	if (d->o.either_way)
		percent = fabs(percent);
	return percent > d->o.fail_above;
}

static double size_of(const struct diff_row *row)
{
	double v = fabs(row->of[TOTAL].change);

	return isnan(v) ? 0 : v;
}

static int by_total(const void *a, const void *b)
{
	const struct diff_row *x = a, *y = b;

	if (size_of(x) != size_of(y))
		return size_of(x) > size_of(y) ? -1 : 1;
	return diff_op__compare(x->op, y->op);
}

static int compare(struct diff *d)
{
	struct diff_row *row;
	size_t i;
	int m, err = pair(d);

	if (err)
		return err;
	/* The more rows, the more of them change by chance: each interval is made wider. */
	d->alpha = (100 - CONFIDENCE_PERCENT) / 100.0 / (d->n ? (double)d->n : 1);
	for (i = 0; i < d->n; i++) {
		row = &d->rows[i];
		measure(d, row);
		for (m = 0; m < METRICS; m++)
			if (row->of[m].significant)
				break;
		d->result.significant += m < METRICS;
		row->failed = fails(d, row);
		d->result.failed += row->failed;
	}
	qsort(d->rows, d->n, sizeof(*d->rows), by_total);
	return 0;
}

/* --- notes ----------------------------------------------------------------------------------- */

/* Calls @fn with a line for whatever makes the two hard to compare. */
static void for_notes(const struct diff *d, void (*fn)(void *ctx, const char *line), void *ctx)
{
	const struct diff_side *s = d->side;
	double la = (double)s[0].observed_ns, lb = (double)s[1].observed_ns;
	char line[512], ta[TEXT_CELL], tb[TEXT_CELL];
	int i;

	if (!d->o.per_second && fabs(la - lb) * 100 > LENGTH_PERCENT * (la > lb ? la : lb)) {
		text__duration(ta, s[0].observed_ns);
		text__duration(tb, s[1].observed_ns);
		snprintf(line, sizeof(line),
			 "the lengths differ, %s and %s: counts and totals follow them; "
			 "--per-second takes that out",
			 ta, tb);
		fn(ctx, line);
	}
	if (s[0].host && s[1].host && strcmp(s[0].host, s[1].host)) {
		snprintf(line, sizeof(line), "recorded on two machines, %.100s and %.100s",
			 s[0].host, s[1].host);
		fn(ctx, line);
	}
	for (i = 0; i < 2; i++) {
		if (s[i].report) {
			snprintf(line, sizeof(line),
				 "%c is a report: its noise is that of independent calls, what "
				 "drifted while it was recorded is not known",
				 'A' + i);
			fn(ctx, line);
		}
		if (s[i].lost) {
			snprintf(line, sizeof(line),
				 "%c lost %llu records: its counts and totals are too low", 'A' + i,
				 (unsigned long long)s[i].lost);
			fn(ctx, line);
		}
		if (s[i].incomplete) {
			snprintf(line, sizeof(line), "%c is incomplete or damaged", 'A' + i);
			fn(ctx, line);
		}
	}
}

/* --- text ------------------------------------------------------------------------------------ */

static void put_note(void *ctx, const char *line)
{
	struct buf b = { 0 };

	buf__printf(&b, "note: %s", line);
	text_out__wrap(ctx, 6, b.data ? (const char *)b.data : "", b.len);
	buf__free(&b);
}

static void put_side(struct text_out *t, char letter, const struct diff_side *s)
{
	time_t at = (time_t)(s->begin_realtime / NSEC_PER_SEC);
	char length[TEXT_CELL], when[64] = "";
	struct buf b = { 0 };
	struct tm tm;

	text__duration(length, s->observed_ns);
	if (s->begin_realtime && gmtime_r(&at, &tm))
		strftime(when, sizeof(when), ", %Y-%m-%d %H:%M:%S UTC", &tm);
	buf__printf(&b, "%c: %s: %s%s%s%s, %zu rows%s", letter, s->path, length, when,
		    s->host ? " on " : "", s->host ? s->host : "", s->n,
		    s->report ? " (report)" : "");
	text_out__wrap(t, 3, b.data ? (const char *)b.data : "", b.len);
	buf__free(&b);
}

static void put_ns(char *to, double ns, bool sign)
{
	if (isnan(ns)) {
		snprintf(to, TEXT_CELL, "-");
		return;
	}
	if (sign)
		*to++ = ns < 0 ? '-' : '+';
	ns = fabs(ns);
	text__duration(to, ns < 1.8e19 ? (uint64_t)(ns + 0.5) : UINT64_MAX);
}

static void put_count(char *to, double n, bool sign)
{
	if (sign)
		*to++ = n < 0 ? '-' : '+';
	n = fabs(n);
	if (n < 100 && n != floor(n))
		snprintf(to, TEXT_CELL - 1, "%.1f", n);
	else
		text__count(to, n < 1.8e19 ? (uint64_t)(n + 0.5) : UINT64_MAX);
}

/* Past the noise: with a mark. */
static void put_percent(char *to, const struct diff_row *row, enum metric m)
{
	const struct diff_change *c = &row->of[m];
	double p = percent_of(c, c->change);

	if (!row->a || !row->b)
		snprintf(to, TEXT_CELL,
			 m == MEDIAN ? "-"
			 : row->a    ? "gone%s"
				     : "new%s",
			 c->significant ? "*" : " ");
	else if (isnan(p))
		snprintf(to, TEXT_CELL, "-");
	else if (fabs(p) >= 9999.5)
		snprintf(to, TEXT_CELL, "x %.0f%s", c->b.v / c->a.v, c->significant ? "*" : " ");
	else
		snprintf(to, TEXT_CELL, "%+.*f%%%s", fabs(p) < 99.95 ? 1 : 0, p,
			 c->significant ? "*" : " ");
}

static void put_noise(char *to, const struct diff_change *c)
{
	double p = percent_of(c, c->noise);

	if (isnan(c->noise) || isnan(p))
		snprintf(to, TEXT_CELL, "?");
	else
		snprintf(to, TEXT_CELL, p >= 9999.5 ? "> 9999%%" : "%.*f%%", p < 99.95 ? 1 : 0,
			 p < 9999.5 ? p : 9999);
}

static const struct {
	const char *title;
	uint8_t width, rank; /* the greatest rank goes first when room is short */
} diff_columns[] = {
	{ "total A", 7, 2 },  { "total B", 7, 1 },  { "change", 8, 0 },   { "total %", 8, 0 },
	{ "noise", 7, 0 },    { "median A", 8, 3 }, { "median B", 8, 2 }, { "change", 8, 4 },
	{ "median %", 8, 0 }, { "noise", 7, 0 },    { "calls A", 9, 5 },  { "calls B", 9, 4 },
	{ "change", 9, 5 },   { "calls %", 8, 0 },  { "noise", 7, 1 },
};
#define DIFF_COLUMNS ARRAY_SIZE(diff_columns)

static void format_row(char (*cells)[TEXT_CELL], const struct diff_row *row)
{
	const struct diff_change *t = &row->of[TOTAL], *m = &row->of[MEDIAN], *n = &row->of[COUNT];

	put_ns(cells[0], t->a.v, false);
	put_ns(cells[1], t->b.v, false);
	put_ns(cells[2], t->change, true);
	put_percent(cells[3], row, TOTAL);
	put_noise(cells[4], t);
	put_ns(cells[5], m->a.v, false);
	put_ns(cells[6], m->b.v, false);
	put_ns(cells[7], m->change, true);
	put_percent(cells[8], row, MEDIAN);
	put_noise(cells[9], m);
	put_count(cells[10], n->a.v, false);
	put_count(cells[11], n->b.v, false);
	put_count(cells[12], n->change, true);
	put_percent(cells[13], row, COUNT);
	put_noise(cells[14], n);
}

static void row_name(struct buf *b, const struct diff_row *row)
{
	buf__reset(b);
	if (row->op->kind == DIFF_REQUEST)
		buf__printf(b, "request ");
	buf__printf(b, "%s", *row->op->name ? row->op->name : "(no name)");
	if (row->op->category)
		buf__printf(b, " [%s]", row->op->category);
}

#define NAME_WIDTH 18

static size_t choose_columns(size_t *column, unsigned int columns)
{
	unsigned int rank, used;
	size_t i, n = 0;

	for (rank = 6; rank-- > 0;) {
		n = used = 0;
		for (i = 0; i < DIFF_COLUMNS; i++) {
			if (diff_columns[i].rank > rank)
				continue;
			column[n++] = i;
			used += diff_columns[i].width + 1u;
		}
		if (used + NAME_WIDTH <= columns)
			break;
	}
	return n;
}

static void put_table(const struct diff *d, struct text_out *t)
{
	size_t column[DIFF_COLUMNS], n = choose_columns(column, t->columns), i, k;
	size_t top = d->o.top ? d->o.top : 30;
	char all[DIFF_COLUMNS][TEXT_CELL], cells[DIFF_COLUMNS][TEXT_CELL];
	const char *titles[DIFF_COLUMNS];
	unsigned int widths[DIFF_COLUMNS];
	struct buf name = { 0 };
	struct text_table tab;

	text_out__heading(t, d->o.per_second ? "Changes for each second, largest total first"
					     : "Changes, largest total first");
	if (!d->n) {
		text_out__line(t, "nothing to compare");
		return;
	}
	for (i = 0; i < n; i++) {
		titles[i] = diff_columns[column[i]].title;
		widths[i] = diff_columns[column[i]].width;
	}
	text_table__begin(&tab, t, "operation", titles, widths, (unsigned int)n);
	for (k = 0; k < d->n && k < top; k++) {
		format_row(all, &d->rows[k]);
		for (i = 0; i < n; i++)
			memcpy(cells[i], all[column[i]], TEXT_CELL);
		row_name(&name, &d->rows[k]);
		text_table__row(&tab, name.data ? (const char *)name.data : "", name.len,
				(const char(*)[TEXT_CELL])cells);
	}
	if (d->n > top)
		text_out__line(t, "... and %zu more (--top shows more)", d->n - top);
	text_out__line(t,
		       "*: past the noise, that is what chance may do with %d%% certainty for "
		       "all rows together",
		       CONFIDENCE_PERCENT);
	buf__free(&name);
}

static void put_names(const struct diff *d, struct text_out *t, const char *what,
		      bool (*is)(const struct diff_row *row))
{
	struct buf b = { 0 }, name = { 0 };
	size_t i, n = 0;

	for (i = 0; i < d->n; i++) {
		if (!is(&d->rows[i]))
			continue;
		row_name(&name, &d->rows[i]);
		if (n++ < 20)
			buf__printf(&b, "%s%.*s", n > 1 ? ", " : "", (int)name.len,
				    (const char *)name.data);
	}
	if (n) {
		struct buf line = { 0 };

		buf__printf(&line, "%s: %zu: %.*s%s", what, n, (int)b.len, (const char *)b.data,
			    n > 20 ? ", ..." : "");
		text_out__wrap(t, 2, line.data ? (const char *)line.data : "", line.len);
		buf__free(&line);
	}
	buf__free(&b);
	buf__free(&name);
}

static bool is_new(const struct diff_row *row)
{
	return !row->a;
}

static bool is_gone(const struct diff_row *row)
{
	return !row->b;
}

static bool is_failed(const struct diff_row *row)
{
	return row->failed;
}

static void put_verdict(const struct diff *d, struct text_out *t)
{
	char what[128];

	text_out__line(t, "%u of %zu rows changed past their noise", d->result.significant, d->n);
	put_names(d, t, "only in B", is_new);
	put_names(d, t, "only in A", is_gone);
	if (d->o.fail_above < 0)
		return;
	snprintf(what, sizeof(what), "past %s%g%% in %s", d->o.either_way ? "+-" : "+",
		 d->o.fail_above, metric_names[d->gate]);
	if (d->result.failed)
		put_names(d, t, what, is_failed);
	else
		text_out__line(t, "%s: none", what);
}

static int text(const struct diff *d, struct outfile *out)
{
	struct text_out t;
	int err;

	text_out__init(&t, out, d->o.columns ? d->o.columns : 100);
	put_side(&t, 'A', &d->side[0]);
	put_side(&t, 'B', &d->side[1]);
	for_notes(d, put_note, &t);
	put_table(d, &t);
	text_out__line(&t, "%s", "");
	put_verdict(d, &t);
	err = text_out__error(&t);
	text_out__free(&t);
	return err;
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void pair_f64(struct json *j, const char *key, double v)
{
	json__key(j, key);
	if (isfinite(v) && v == floor(v) && fabs(v) < 9e15)
		json__i64(j, (int64_t)v);
	else
		json__f64(j, v); /* what is no number becomes null */
}

static void pair_bool(struct json *j, const char *key, bool v)
{
	json__key(j, key);
	json__bool(j, v);
}

static void pair_str(struct json *j, const char *key, const char *v)
{
	json__key(j, key);
	json__cstr(j, v);
}

static void json_value(struct json *j, const char *key, const struct diff_value *v)
{
	json__key(j, key);
	json__object(j);
	pair_f64(j, "value", v->v);
	pair_f64(j, "low", v->low);
	pair_f64(j, "high", v->high);
	json__end_object(j);
}

static void json_change(struct json *j, const char *key, const struct diff_change *c)
{
	json__key(j, key);
	json__object(j);
	json_value(j, "a", &c->a);
	json_value(j, "b", &c->b);
	pair_f64(j, "change", c->change);
	pair_f64(j, "change_percent", percent_of(c, c->change));
	pair_f64(j, "noise", c->noise);
	pair_f64(j, "noise_percent", percent_of(c, c->noise));
	pair_bool(j, "significant", c->significant);
	json__end_object(j);
}

static void json_side(struct json *j, const char *key, const struct diff_side *s)
{
	json__key(j, key);
	json__object(j);
	pair_str(j, "path", s->path);
	pair_str(j, "from", s->report ? "report" : "recording");
	pair_str(j, "host", s->host);
	json__key(j, "begin_realtime_ns");
	if (s->begin_realtime)
		json__u64(j, s->begin_realtime);
	else
		json__null(j);
	json__key(j, "observed_ns");
	json__u64(j, s->observed_ns);
	json__key(j, "lost");
	json__u64(j, s->lost);
	pair_bool(j, "complete", !s->incomplete);
	json__end_object(j);
}

static void json_row(struct json *j, const struct diff_row *row)
{
	json__line(j);
	json__object(j);
	pair_str(j, "kind", row->op->kind == DIFF_REQUEST ? "request" : "op");
	pair_str(j, "name", row->op->name);
	pair_str(j, "category", row->op->category);
	pair_str(j, "in", !row->a ? "b" : !row->b ? "a" : "both");
	json_change(j, "count", &row->of[COUNT]);
	json_change(j, "median_ns", &row->of[MEDIAN]);
	json_change(j, "total_ns", &row->of[TOTAL]);
	pair_bool(j, "failed", row->failed);
	json__end_object(j);
}

static void add_note(void *ctx, const char *line)
{
	json__cstr(ctx, line);
}

static int json(const struct diff *d, struct outfile *out)
{
	struct json j;
	size_t i;
	int err;

	json__init(&j, out);
	json__object(&j);
	json__key(&j, "schema_version");
	json__u64(&j, 1);
	pair_str(&j, "format", "clika-bpf-prof diff");
	json__line(&j);
	json_side(&j, "a", &d->side[0]);
	json__line(&j);
	json_side(&j, "b", &d->side[1]);
	json__line(&j);
	json__key(&j, "confidence_percent");
	json__u64(&j, CONFIDENCE_PERCENT);
	pair_bool(&j, "per_second", d->o.per_second);
	json__key(&j, "notes");
	json__array(&j);
	for_notes(d, add_note, &j);
	json__end_array(&j);
	json__line(&j);
	pair_str(&j, "metric", metric_names[d->gate]);
	pair_f64(&j, "fail_above_percent", d->o.fail_above < 0 ? NAN : d->o.fail_above);
	pair_bool(&j, "either_way", d->o.either_way);
	pair_f64(&j, "failed", d->result.failed);
	pair_f64(&j, "significant", d->result.significant);
	json__line(&j);
	json__key(&j, "rows");
	json__array(&j);
	for (i = 0; i < d->n && (!d->o.top || i < d->o.top); i++)
		json_row(&j, &d->rows[i]);
	json__end_array(&j);
	json__end_object(&j);
	err = json__flush(&j);
	if (!err)
		err = outfile__write(out, "\n", 1);
	json__free(&j);
	return err;
}

/* --- both ------------------------------------------------------------------------------------ */

void clika_diff_opts__init(struct clika_diff_opts *o)
{
	*o = (struct clika_diff_opts){ .sz = sizeof(*o), .fail_above = -1 };
}

static int find_metric(const char *name, enum metric *m, struct clika_error *err)
{
	int i;

	*m = MEDIAN;
	if (!name)
		return 0;
	for (i = 0; i < METRICS; i++)
		if (!strcmp(metric_names[i], name)) {
			*m = (enum metric)i;
			return 0;
		}
	return error__set(err, -EINVAL,
			  "there is no metric \"%.40s\"; there are: median, total, "
			  "count",
			  name);
}

static int write_out(const struct diff *d, struct buf *b, struct clika_error *err)
{
	struct outfile *out = NULL;
	int code = outfile__memory(b, &out);

	if (!code)
		code = d->o.json ? json(d, out) : text(d, out);
	if (!code)
		return outfile__commit(out, err);
	outfile__abort(out);
	return error__set(err, code, "out of memory");
}

int clika_diff(const char *a, const char *b, const struct clika_diff_opts *given, char **data,
	       size_t *len, struct clika_diff_result *result, struct clika_prof_error *error)
{
	struct clika_error err = { 0 };
	struct diff d = { 0 };
	struct buf out = { 0 };
	int code;

	*data = NULL;
	*len = 0;
	clika_diff_opts__init(&d.o);
	if (given)
		TAKE_OPTS(&d.o, given);
	code = find_metric(d.o.metric, &d.gate, &err);
	if (!code)
		code = diff_side__read(&d.side[0], a, d.o.view, &err);
	if (!code)
		code = diff_side__read(&d.side[1], b, d.o.view, &err);
	if (!code && compare(&d))
		code = error__set(&err, -ENOMEM, "out of memory");
	if (!code)
		code = write_out(&d, &out, &err);
	buf__u8(&out, 0);
	if (!code && buf__error(&out))
		code = error__set(&err, -ENOMEM, "out of memory");
	diff_side__free(&d.side[0]);
	diff_side__free(&d.side[1]);
	free(d.rows);
	if (code) {
		buf__free(&out);
		return error__give(error, &err, code);
	}
	if (result) {
		d.result.sz = result->sz < sizeof(d.result) ? result->sz : sizeof(d.result);
		memcpy(result, &d.result, d.result.sz);
	}
	*data = (char *)out.data;
	*len = out.len - 1;
	return 0;
}
