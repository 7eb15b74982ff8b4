// SPDX-License-Identifier: Apache-2.0
/*
 * Spans as a table: RFC 4180, one row a span, written when it ends, since its self time is known
 * only then. Text cells carry no control bytes and nothing that a spreadsheet would run.
 */
#include "export/exporter.h"

#include "export/args.h"
#include "export/digits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char columns[] =
	"id,parent_id,depth,process,pid,thread,tid,name,category,start_ns,duration_ns,self_ns,"
	"start_unix_ns,captures,source,flags,arguments\r\n";

struct cell { /* ready to be written */
	char *text;
	uint32_t len;
};

struct csv {
	struct session *s;
	struct outfile *out;
	struct cell *names; /* by string id: made when first used */
	size_t n_names;
	struct cell *tracks; /* "process,pid,thread,tid" */
	size_t n_tracks;
	struct buf row, text;
	uint64_t base;
	bool args;
};

/* --- cells ------------------------------------------------------------------------------------------ */

/*
 * Spreadsheets take a cell that begins so for a formula; an apostrophe in front makes it text.
 * One that was there gets another, so that taking one away always gives the name back.
 */
static bool is_guarded(char first)
{
	return first == '=' || first == '+' || first == '-' || first == '@' || first == '\'';
}

/* @s is printable already. */
static void put_quoted(struct buf *row, const char *s, size_t len)
{
	bool guard = len && is_guarded(*s);
	size_t i, from = 0;

	if (!len)
		return;
	for (i = 0; i < len && !strchr("\",; ", s[i]); i++)
		;
	if (!guard && i == len) {
		buf__append(row, s, len);
		return;
	}
	buf__u8(row, '"');
	if (guard)
		buf__u8(row, '\'');
	for (i = 0; i < len; i++) {
		if (s[i] != '"')
			continue;
		buf__append(row, s + from, i + 1 - from);
		buf__u8(row, '"');
		from = i + 1;
	}
	buf__append(row, s + from, len - from);
	buf__u8(row, '"');
}

static void put_text(struct csv *c, const char *s, size_t len)
{
	buf__reset(&c->text);
	text__append_printable(&c->text, s, len);
	put_quoted(&c->row, (const char *)c->text.data, c->text.len);
}

static int cell__keep(struct cell *cell, const struct buf *row, size_t from)
{
	size_t len = row->len - from;

	if (buf__error(row))
		return -ENOMEM;
	cell->text = malloc(len + 1);
	if (!cell->text)
		return -ENOMEM;
	memcpy(cell->text, row->data + from, len);
	cell->len = (uint32_t)len;
	return 0;
}

static int put_name(struct csv *c, uint32_t id)
{
	struct cell *cell = &c->names[id < c->n_names ? id : 0];
	size_t from = c->row.len;

	if (cell->text) {
		buf__append(&c->row, cell->text, cell->len);
		return 0;
	}
	put_text(c, session__str(c->s, id), strpool__len(session__names(c->s), id));
	return cell__keep(cell, &c->row, from);
}

static int put_track(struct csv *c, const struct track *t)
{
	struct cell *cell = &c->tracks[t->index];
	const char *comm = t->proc->comm ? t->proc->comm : "";
	size_t from = c->row.len;

	if (cell->text) {
		buf__append(&c->row, cell->text, cell->len);
		return 0;
	}
	put_text(c, comm, strlen(comm));
	buf__printf(&c->row, ",%u,", t->pid);
	put_text(c, t->name, strlen(t->name));
	buf__printf(&c->row, ",%u", t->tid);
	return cell__keep(cell, &c->row, from);
}

static void put_captures(struct csv *c, uint64_t mask)
{
	size_t i, n = session__n_captures(c->s);
	uint64_t seen = 0, bit;
	const char *tag;

	buf__reset(&c->text);
	for (i = 0; mask && i < n; i++) {
		bit = session__capture_bit(i);
		if (!(mask & bit & ~seen))
			continue;
		seen |= bit;
		if (c->text.len)
			buf__u8(&c->text, ';');
		tag = session__capture(c->s, i)->tag;
		text__append_printable(&c->text, tag ? tag : "", tag ? strlen(tag) : 0);
	}
	put_quoted(&c->row, (const char *)c->text.data, c->text.len);
}

/* Stays valid JSON: a control character beyond ASCII becomes \u00NN, not \xNN. */
static void put_args(struct csv *c, const struct event *ev)
{
	struct buf json = { 0 };
	size_t i, from = 0;

	args__json(&json, c->s, ev);
	buf__reset(&c->text);
	for (i = 0; i + 1 < json.len; i++) {
		if (json.data[i] != 0xc2 || json.data[i + 1] >= 0xa0)
			continue;
		text__append_printable(&c->text, (const char *)json.data + from, i - from);
		buf__printf(&c->text, "\\u00%02x", json.data[i + 1]);
		from = i + 2;
	}
	text__append_printable(&c->text, (const char *)json.data + from, json.len - from);
	c->text.failed |= json.failed;
	buf__free(&json);
	put_quoted(&c->row, (const char *)c->text.data, c->text.len);
}

/* --- rows ------------------------------------------------------------------------------------------- */

static void put_u64(struct buf *row, uint64_t v)
{
	char text[24], *end = text + sizeof(text), *p = digits__u64(end - 1, v);

	end[-1] = ',';
	buf__append(row, p, (size_t)(end - p));
}

static int csv__item(void *state, const struct item *it)
{
	struct csv *c = state;
	const struct open_span *sp = it->span;
	uint64_t unix_ns;
	int err;

	if (it->kind != IT_SPAN_END)
		return 0;
	buf__reset(&c->row);
	put_u64(&c->row, sp->seq);
	if (sp->parent)
		put_u64(&c->row, sp->parent->seq);
	else
		buf__u8(&c->row, ',');
	put_u64(&c->row, sp->depth);
	err = put_track(c, it->track);
	buf__u8(&c->row, ',');
	err = err ? err : put_name(c, it->ev->name);
	buf__u8(&c->row, ',');
	err = err ? err : put_name(c, it->ev->cat);
	buf__u8(&c->row, ',');
	put_u64(&c->row, it->ev->ts - c->base);
	put_u64(&c->row, it->ev->dur);
	put_u64(&c->row, it->self_ns);
	unix_ns = session__realtime(c->s, it->ev->ts);
	if (unix_ns)
		put_u64(&c->row, unix_ns);
	else
		buf__u8(&c->row, ',');
	put_captures(c, it->captures);
	buf__u8(&c->row, ',');
	err = err ? err : put_name(c, it->ev->src);
	buf__u8(&c->row, ',');
	buf__reset(&c->text);
	args__flags(&c->text, sp);
	put_quoted(&c->row, (const char *)c->text.data, c->text.len);
	buf__u8(&c->row, ',');
	if (c->args && it->ev->nargs)
		put_args(c, it->ev);
	buf__append(&c->row, "\r\n", 2);
	if (!err && (buf__error(&c->row) || buf__error(&c->text)))
		err = -ENOMEM;
	return err ? err : outfile__write(c->out, c->row.data, c->row.len);
}

static int csv__close(void *state, struct clika_error *err)
{
	(void)state;
	(void)err;
	return 0;
}

static void csv__free(void *state)
{
	struct csv *c = state;
	size_t i;

	for (i = 0; c->names && i < c->n_names; i++)
		free(c->names[i].text);
	for (i = 0; c->tracks && i < c->n_tracks; i++)
		free(c->tracks[i].text);
	free(c->names);
	free(c->tracks);
	buf__free(&c->row);
	buf__free(&c->text);
	free(c);
}

static int csv__open(struct session *s, struct outfile *out, const struct export_opts *o,
		     void **state, struct clika_error *err)
{
	struct csv *c = calloc(1, sizeof(*c));

	if (!c)
		return error__set(err, -ENOMEM, "out of memory");
	*state = c;
	c->s = s;
	c->out = out;
	c->args = o->stack_args;
	c->base = session__origin(s);
	c->n_names = (size_t)strpool__count(session__names(s)) + 1;
	c->n_tracks = session__n_tracks(s);
	c->names = calloc(c->n_names, sizeof(*c->names));
	c->tracks = calloc(c->n_tracks ? c->n_tracks : 1, sizeof(*c->tracks));
	if (!c->names || !c->tracks)
		return error__set(err, -ENOMEM, "out of memory");
	return outfile__write(out, columns, sizeof(columns) - 1);
}

const struct exporter_ops exporter_csv = {
	.format = "csv",
	.file = "spans.csv",
	.summary = "spans as a table (RFC 4180): times, nesting, thread, arguments",
	.open = csv__open,
	.item = csv__item,
	.close = csv__close,
	.free = csv__free,
};
