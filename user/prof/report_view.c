// SPDX-License-Identifier: Apache-2.0
/* `report`: tables for a terminal, or the same rows of report.json. */
#include "user/prof/report_view.h"

#include "export/summary.h"
#include "user/prof/json_text.h"
#include "user/prof/recording_impl.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Below this a name says little; columns go first. */
#define NAME_WIDTH 20

struct view_row *view_rows__add(struct view_rows *rows, const char *fmt, ...)
{
	struct view_row *row;
	va_list ap;
	int n;

	if (rows->n == rows->cap) {
		size_t cap = rows->cap ? rows->cap * 2 : 64;
		struct view_row *grown = realloc(rows->rows, cap * sizeof(*grown));

		if (!grown) {
			rows->err = -ENOMEM;
			return NULL;
		}
		rows->rows = grown;
		rows->cap = cap;
	}
	row = &rows->rows[rows->n];
	memset(row, 0, sizeof(*row));
	va_start(ap, fmt);
	n = vasprintf(&row->name, fmt, ap);
	va_end(ap);
	if (n < 0) {
		rows->err = -ENOMEM;
		return NULL;
	}
	rows->n++;
	return row;
}

static void view_rows__free(struct view_rows *rows)
{
	size_t i;

	for (i = 0; i < rows->n; i++)
		free(rows->rows[i].name);
	free(rows->rows);
}

/* --- what was asked for ---------------------------------------------------------------------- */

struct view_order {
	const char *column; /* NULL: as it comes */
	bool up;            /* least first */
};

static struct view_order order_of(const struct clika_report_opts *o)
{
	struct view_order order = { o->sort, false };

	if (o->sort && *o->sort == '-') {
		order.column++;
		order.up = true;
	}
	return order;
}

/* Index of the column, -1 = the table has none of that name; -2: the row's name itself. */
static int find_column(const struct view_table *t, const char *name)
{
	size_t i;

	for (i = 0; i < t->n_columns; i++)
		if (!strcmp(t->columns[i].name, name))
			return (int)i;
	return !strcmp(name, "name") ? -2 : -1;
}

static int no_such_table(const char *by, struct clika_error *err)
{
	const struct view_table *t;
	struct buf all = { 0 };
	const char *last = "";
	int code;

	for (t = view_tables; t->by; last = t->by, t++)
		if (strcmp(t->by, last))
			buf__printf(&all, "%s%s", all.len ? ", " : "", t->by);
	code = error__set(err, -EINVAL, "there is no table by \"%.40s\"; there are: %.*s", by,
			  (int)all.len, (const char *)all.data);
	buf__free(&all);
	return code;
}

static int no_such_column(const char *by, const char *column, struct clika_error *err)
{
	const struct view_table *t;
	struct buf all = { 0 };
	size_t i;
	int code;

	buf__printf(&all, "name");
	for (t = view_tables; t->by; t++)
		for (i = 0; !strcmp(t->by, by) && i < t->n_columns; i++)
			buf__printf(&all, ", %s", t->columns[i].name);
	code = error__set(err, -EINVAL,
			  "the table by %s has no column \"%.40s\" to sort by; there are: %.*s", by,
			  column, (int)all.len, (const char *)all.data);
	buf__free(&all);
	return code;
}

static int check(const struct clika_report_opts *o, const char *by, struct clika_error *err)
{
	struct view_order order = order_of(o);
	const struct view_table *t;
	bool table = false, column = !order.column;

	for (t = view_tables; t->by; t++) {
		if (strcmp(t->by, by))
			continue;
		table = true;
		column = column || find_column(t, order.column) != -1;
	}
	if (!table)
		return no_such_table(by, err);
	return column ? 0 : no_such_column(by, order.column, err);
}

/* --- order ----------------------------------------------------------------------------------- */

struct ordering {
	int column;
	bool up;
};

/* What is not known comes last either way. */
static int by_cell(const void *a, const void *b, void *ctx)
{
	const struct view_row *x = *(const struct view_row *const *)a;
	const struct view_row *y = *(const struct view_row *const *)b;
	const struct ordering *o = ctx;
	const struct view_cell *c = &x->cell[o->column < 0 ? 0 : o->column];
	const struct view_cell *d = &y->cell[o->column < 0 ? 0 : o->column];
	int less = o->up ? -1 : 1, by_name;

	if (o->column < 0) {
		by_name = strcmp(x->name, y->name);
		if (by_name)
			return o->up ? -by_name : by_name;
	} else if (c->known != d->known) {
		return c->known ? -1 : 1;
	} else if (c->v != d->v) {
		return c->v < d->v ? less : -less;
	}
	return x < y ? -1 : x > y; /* as the table has them */
}

/* --- text ------------------------------------------------------------------------------------ */

static void format_cell(char *to, const struct view_cell *c, enum cell_unit unit)
{
	uint64_t v = (uint64_t)c->v;

	if (!c->known) {
		snprintf(to, TEXT_CELL, "-");
		return;
	}
	switch (unit) {
	case CELL_COUNT:
		text__count(to, v);
		break;
	case CELL_NS:
	case CELL_AT:
		text__duration(to, v);
		break;
	case CELL_BYTES:
		text__signed_bytes(to, c->v);
		break;
	case CELL_SHARE:
		text__percent(to, v, 1000000);
		break;
	case CELL_RATE:
		text__rate(to, v, 1000 * NSEC_PER_SEC);
		break;
	case CELL_PLAIN:
		snprintf(to, TEXT_CELL, "%llu", (unsigned long long)v);
		break;
	}
}

struct layout {
	size_t column[VIEW_MAX_COLUMNS];
	const char *titles[VIEW_MAX_COLUMNS];
	unsigned int widths[VIEW_MAX_COLUMNS], n;
};

/* Columns up to the greatest rank that leaves room for names; the one sorted by is among them. */
static void lay_out(struct layout *l, const struct view_table *t, int sorted, unsigned int columns)
{
	unsigned int used, rank;
	size_t i;

	for (rank = 8; rank-- > 0;) {
		l->n = used = 0;
		for (i = 0; i < t->n_columns; i++) {
			if (t->columns[i].rank > rank && (int)i != sorted)
				continue;
			l->column[l->n] = i;
			l->titles[l->n] = t->columns[i].title;
			l->widths[l->n++] = t->columns[i].width;
			used += t->columns[i].width + 1u;
		}
		if (used + NAME_WIDTH <= columns)
			return;
	}
}

static void print_rows(struct text_out *out, const struct view_table *t,
		       struct view_row *const *rows, size_t n, size_t top, int sorted)
{
	char cells[VIEW_MAX_COLUMNS][TEXT_CELL];
	struct text_table tab;
	struct buf name = { 0 };
	struct layout l;
	size_t i, k;

	lay_out(&l, t, sorted, out->columns);
	text_table__begin(&tab, out, t->what, l.titles, l.widths, l.n);
	for (i = 0; i < n && i < top; i++) {
		for (k = 0; k < l.n; k++)
			format_cell(cells[k], &rows[i]->cell[l.column[k]],
				    t->columns[l.column[k]].unit);
		buf__reset(&name);
		buf__printf(&name, "%s", *rows[i]->name ? rows[i]->name : "(no name)");
		if (rows[i]->category)
			buf__printf(&name, " [%s]", rows[i]->category);
		text_table__row(&tab, name.data ? (const char *)name.data : "", name.len,
				(const char(*)[TEXT_CELL])cells);
	}
	buf__free(&name);
	if (n > top)
		text_out__line(out, "... and %zu more (--top shows more)", n - top);
	if (t->note)
		text_out__wrap(out, 0, t->note, strlen(t->note));
}

static int print_table(struct text_out *out, const struct view_table *t, const struct stats *st,
		       const struct clika_report_opts *o)
{
	struct view_order order = order_of(o);
	struct ordering by = { order.column ? find_column(t, order.column) : -1, order.up };
	struct view_rows all = { .st = st };
	struct view_row **rows = NULL;
	size_t i, n = 0;

	t->fill(&all);
	rows = calloc(all.n + 1, sizeof(*rows));
	if (!rows || all.err)
		goto out;
	for (i = 0; i < all.n; i++)
		if (!o->filter || text__glob(o->filter, all.rows[i].name))
			rows[n++] = &all.rows[i];
	if (!order.column && t->sort)
		by.column = find_column(t, t->sort);
	if (by.column != -1)
		qsort_r(rows, n, sizeof(*rows), by_cell, &by);
	text_out__heading(out, t->head);
	if (n)
		print_rows(out, t, rows, n, o->top ? o->top : 30, by.column);
	else
		text_out__line(out, all.n ? "no name matches" : "none");
out:
	if (!rows)
		all.err = -ENOMEM;
	free(rows);
	view_rows__free(&all);
	return all.err;
}

static int print_tables(struct clika_recording *r, const struct clika_report_opts *o,
			const char *by, struct outfile *out, const struct stats *st)
{
	struct summary m = { .s = r->s, .st = st, .top = o->top ? o->top : 30 };
	const struct view_table *t;
	int err = 0;

	text_out__init(&m.t, out, o->columns ? o->columns : 100);
	if (!o->by) {
		summary__headline(&m);
		summary__recorded(&m);
		if (st->n_warnings)
			summary__warnings(&m);
	}
	for (t = view_tables; !err && t->by; t++)
		if (!strcmp(t->by, by))
			err = print_table(&m.t, t, st, o);
	if (!err)
		err = text_out__error(&m.t);
	text_out__free(&m.t);
	return err;
}

static int add_item(void *ctx, const struct item *it)
{
	return stats__item(ctx, it);
}

static int report_text(struct clika_recording *r, const struct clika_report_opts *o, struct buf *b,
		       struct clika_error *err)
{
	struct outfile *out = NULL;
	struct stats *st = NULL;
	int code = stats__new(r->s, &st);

	if (!code)
		code = session__walk(r->s, add_item, st);
	if (!code)
		code = stats__finish(st);
	if (!code)
		code = outfile__memory(b, &out);
	if (!code)
		code = print_tables(r, o, o->by ? o->by : "op", out, st);
	if (!code)
		code = outfile__commit(out, err);
	else
		outfile__abort(out);
	stats__free(st);
	return code ? error__set(err, code, "cannot make the report: %s", strerror(-code)) : 0;
}

/* --- JSON ------------------------------------------------------------------------------------ */

struct json_row {
	struct json_text text;
	cJSON *tree;
	double v;
	const char *label;
	bool known;
};

static const cJSON *member(const cJSON *object, const char *path)
{
	size_t len = strcspn(path, ".");
	char key[64];

	snprintf(key, sizeof(key), "%.*s", (int)len, path);
	object = cJSON_GetObjectItemCaseSensitive(object, key);
	return object && path[len] ? member(object, path + len + 1) : object;
}

static int by_json(const void *a, const void *b, void *ctx)
{
	const struct json_row *x = a, *y = b;
	const struct ordering *o = ctx;
	int less = o->up ? -1 : 1, c;

	if (o->column == -2) {
		c = strcmp(x->label, y->label);
		if (c)
			return o->up ? -c : c;
	} else if (x->known != y->known) {
		return x->known ? -1 : 1;
	} else if (x->known && x->v != y->v) {
		return x->v < y->v ? less : -less;
	}
	return x->text.p < y->text.p ? -1 : 1;
}

/* The rows with their text as it stands: cJSON's numbers do not hold every 64-bit integer. */
static int put_rows(struct buf *b, const struct view_table *t, const struct clika_report_opts *o,
		    struct json_row *rows, size_t n)
{
	struct view_order order = order_of(o);
	struct ordering by = { order.column ? find_column(t, order.column) : -1, order.up };
	const char *key = by.column >= 0 ? t->columns[by.column].key : NULL;
	size_t i, used = 0;
	const cJSON *v;

	for (i = 0; i < n; i++) {
		struct json_row *row = &rows[i];

		row->tree =
			cJSON_ParseWithLength(row->text.p, (size_t)(row->text.end - row->text.p));
		v = t->label && row->tree ? member(row->tree, t->label) : NULL;
		row->label = v && cJSON_IsString(v) ? v->valuestring : "";
		v = key && row->tree ? member(row->tree, key) : NULL;
		row->known = v && cJSON_IsNumber(v);
		row->v = row->known ? v->valuedouble : 0;
		if (!o->filter || text__glob(o->filter, row->label))
			rows[used++] = *row;
		else
			cJSON_Delete(row->tree);
	}
	if (used && (key || by.column == -2))
		qsort_r(rows, used, sizeof(*rows), by_json, &by);
	buf__printf(b, "[");
	for (i = 0; i < used; i++) {
		if (!o->top || i < o->top) {
			buf__printf(b, "%s", i ? ",\n" : "\n");
			buf__append(b, rows[i].text.p, (size_t)(rows[i].text.end - rows[i].text.p));
		}
		cJSON_Delete(rows[i].tree);
	}
	buf__printf(b, "\n]\n");
	return buf__error(b);
}

static int json_part(struct buf *b, struct json_text all, const struct view_table *t,
		     const struct clika_report_opts *o, struct clika_error *err)
{
	struct json_text at = json_text__member(all, t->part), row;
	struct json_row *rows = NULL, *grown;
	size_t n = 0, cap = 0;
	int code = 0;

	while (!code && (row = json_text__element(&at)).p) {
		if (n == cap) {
			cap = cap ? cap * 2 : 64;
			grown = realloc(rows, cap * sizeof(*rows));
			if (!grown) {
				code = -ENOMEM;
				break;
			}
			rows = grown;
		}
		rows[n++] = (struct json_row){ .text = row };
	}
	if (!code)
		code = put_rows(b, t, o, rows, n);
	free(rows);
	return code ? error__set(err, code, "out of memory") : 0;
}

static int report_json(struct clika_recording *r, const struct clika_report_opts *o, struct buf *b,
		       struct clika_error *err)
{
	struct clika_prof_error why = { 0 };
	const struct view_table *t = view_tables;
	char *data = NULL;
	size_t len = 0;
	int code;

	code = clika_recording__export_mem(r, "report", NULL, &data, &len, &why);
	if (code)
		return error__set(err, code, "%s", why.msg);
	if (o->by) {
		while (strcmp(t->by, o->by))
			t++;
		code = json_part(b, (struct json_text){ data, data + len }, t, o, err);
	} else {
		buf__append(b, data, len);
		code = buf__error(b) ? error__set(err, -ENOMEM, "out of memory") : 0;
	}
	free(data);
	return code;
}

/* --- both ------------------------------------------------------------------------------------ */

void clika_report_opts__init(struct clika_report_opts *o)
{
	*o = (struct clika_report_opts){ .sz = sizeof(*o) };
}

int clika_recording__report(struct clika_recording *r, const struct clika_report_opts *given,
			    char **data, size_t *len, struct clika_prof_error *error)
{
	struct clika_report_opts o;
	struct clika_error err = { 0 };
	struct buf b = { 0 };
	int code;

	*data = NULL;
	*len = 0;
	clika_report_opts__init(&o);
	if (given)
		TAKE_OPTS(&o, given);
	code = check(&o, o.by ? o.by : "op", &err);
	if (!code)
		code = o.json ? report_json(r, &o, &b, &err) : report_text(r, &o, &b, &err);
	buf__u8(&b, 0);
	if (!code && buf__error(&b))
		code = error__set(&err, -ENOMEM, "out of memory");
	if (code) {
		buf__free(&b);
		return error__give(error, &err, code);
	}
	*data = (char *)b.data;
	*len = b.len - 1;
	return 0;
}

const char *clika_report__table(size_t i)
{
	const struct view_table *t;
	const char *last = "";

	for (t = view_tables; t->by; last = t->by, t++)
		if (strcmp(t->by, last) && i-- == 0)
			return t->by;
	return NULL;
}

const char *clika_report__column(const char *table, size_t i)
{
	const struct view_table *t;

	for (t = view_tables; t->by; t++) {
		if (strcmp(t->by, table))
			continue;
		if (i < t->n_columns)
			return t->columns[i].name;
		i -= t->n_columns;
	}
	return NULL;
}
