// SPDX-License-Identifier: Apache-2.0
/*
 * A flame graph as one SVG file: root at the top, widths are time. It needs no script to be read;
 * the one inside zooms and searches, works on the document's own text nodes and asks no network.
 * Names are text, escaped for XML, and appear nowhere else.
 */
#include "export/exporter.h"
#include "export/flamegraph_parts.h"
#include "export/losses.h"
#include "export/stacks.h"
#include "export/text_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROW 18 /* pixels */
#define HEAD 84
#define FOOT 16
#define NOMINAL 1200 /* the width that decides what is too narrow to be drawn */
#define NARROWEST 0.3
#define MAX_ROWS 1000

struct shape {
	uint32_t row;
	uint64_t x; /* ns from the left edge */
};

struct flamegraph {
	struct session *s;
	struct stacks st;
	struct outfile *out;
	struct buf b;
	uint64_t *time; /* by node: its own and that of what lies in it */
	uint64_t total;
	struct shape *shapes;
	uint32_t *order; /* nodes by parent, then name */
	uint32_t rows, hidden;
	int err;
};

/* --- text ------------------------------------------------------------------------------------------ */

static void put_xml(struct buf *b, const char *s, size_t len)
{
	size_t i, from = 0;
	const char *as;

	for (i = 0; i < len; i++) {
		switch (s[i]) {
		case '<':
			as = "&lt;";
			break;
		case '>':
			as = "&gt;";
			break;
		case '&':
			as = "&amp;";
			break;
		case '"':
			as = "&quot;";
			break;
		default:
			continue;
		}
		buf__append(b, s + from, i - from);
		buf__append(b, as, strlen(as));
		from = i + 1;
	}
	buf__append(b, s + from, len - from);
}

/* XML knows no U+FFFE and U+FFFF, whatever the encoding. */
static void put_text(struct buf *b, const char *s)
{
	const char *bad;

	for (; (bad = strstr(s, "\xef\xbf")); s = bad + 3) {
		put_xml(b, s, (size_t)(bad - s));
		if ((uint8_t)bad[2] >= 0xbe)
			buf__append(b, "\xef\xbf\xbd", 3);
		else
			buf__append(b, bad, 3);
	}
	put_xml(b, s, strlen(s));
}

static void flush(struct flamegraph *f)
{
	int err = buf__error(&f->b);

	if (!err)
		err = outfile__write(f->out, f->b.data, f->b.len);
	if (err && !f->err)
		f->err = err;
	buf__reset(&f->b);
}

/* --- layout ---------------------------------------------------------------------------------------- */

static void add(uint64_t *sum, uint64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = UINT64_MAX;
}

/* Children have higher numbers than their parents. */
static void add_up(struct flamegraph *f)
{
	const struct stack_node *n;
	uint32_t i = f->st.n;

	while (i--) {
		n = &f->st.nodes[i];
		add(&f->time[i], n->self_ns);
		add(n->parent == STACK_NONE ? &f->total : &f->time[n->parent], f->time[i]);
	}
}

static int by_parent_and_name(const void *a, const void *b, void *ctx)
{
	const struct flamegraph *f = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	/* Roots, whose parent is the greatest number, come first. */
	uint32_t px = f->st.nodes[x].parent + 1, py = f->st.nodes[y].parent + 1;

	if (px != py)
		return px < py ? -1 : 1;
	return strcmp(stacks__text(&f->st, x), stacks__text(&f->st, y));
}

/* Too narrow or too deep ones are left out; their time is in the frames around them. */
static bool is_drawn(const struct flamegraph *f, uint32_t node)
{
	return f->shapes[node].row < MAX_ROWS &&
	       (double)f->time[node] * NOMINAL >= (double)f->total * NARROWEST;
}

/* In this order parents have their place before their children. */
static void place(struct flamegraph *f)
{
	uint32_t i, node, parent, last = STACK_NONE;
	uint64_t x = 0;

	for (i = 0; i < f->st.n; i++)
		f->order[i] = i;
	qsort_r(f->order, f->st.n, sizeof(*f->order), by_parent_and_name, f);
	for (i = 0; i < f->st.n; i++) {
		node = f->order[i];
		parent = f->st.nodes[node].parent;
		if (parent != last)
			x = f->shapes[parent].x;
		last = parent;
		f->shapes[node].x = x;
		f->shapes[node].row = parent == STACK_NONE ? 0 : f->shapes[parent].row + 1;
		x += f->time[node];
		if (!is_drawn(f, node))
			f->hidden += f->time[node] > 0;
		else if (f->shapes[node].row >= f->rows)
			f->rows = f->shapes[node].row + 1;
	}
}

/* --- drawing ---------------------------------------------------------------------------------------- */

static void put_class(struct flamegraph *f, uint32_t node)
{
	const char *text = stacks__text(&f->st, node);

	if (f->st.nodes[node].role == STACK_PROCESS)
		buf__append(&f->b, "p", 1);
	else if (f->st.nodes[node].role == STACK_THREAD)
		buf__append(&f->b, "t", 1);
	else
		buf__printf(
			&f->b, "c%u",
			(unsigned int)(hash__bytes(text, strlen(text), 0) % FLAMEGRAPH_COLOURS));
}

static void put_tooltip(struct flamegraph *f, uint32_t node)
{
	const struct stack_node *n = &f->st.nodes[node];
	char all[TEXT_CELL], own[TEXT_CELL], share[TEXT_CELL], calls[TEXT_CELL];

	text__duration(all, f->time[node]);
	text__percent(share, f->time[node], f->total);
	put_text(&f->b, stacks__text(&f->st, node));
	buf__printf(&f->b, ": %s, %s", all, share);
	if (n->role != STACK_SPAN)
		return;
	text__duration(own, n->self_ns);
	text__count(calls, n->calls);
	buf__printf(&f->b, ", of its own %s, %s call%s", own, calls, n->calls == 1 ? "" : "s");
}

/* Percent with five digits after the point, whatever the locale. */
static void put_percent(struct buf *b, uint64_t part, uint64_t of)
{
	uint64_t v = of ? (uint64_t)((double)part / (double)of * 1e7 + 0.5) : 0;

	buf__printf(b, "%llu.%05llu%%", (unsigned long long)(v / 100000),
		    (unsigned long long)(v % 100000));
}

static void put_frame(struct flamegraph *f, uint32_t node)
{
	const struct shape *sh = &f->shapes[node];
	double wide = (double)f->time[node] / (double)f->total * NOMINAL;

	buf__printf(&f->b, "<svg class=\"f ");
	put_class(f, node);
	buf__printf(&f->b, "%s\" x=\"", wide < 30 ? " n" : "");
	put_percent(&f->b, sh->x, f->total);
	buf__printf(&f->b, "\" width=\"");
	put_percent(&f->b, f->time[node], f->total);
	buf__printf(&f->b, "\" y=\"%u\" height=\"%u\"><title>", HEAD + sh->row * ROW, ROW);
	put_tooltip(f, node);
	buf__printf(&f->b, "</title><rect width=\"100%%\" height=\"100%%\"/>"
			   "<text x=\"4\" y=\"13\">");
	put_text(&f->b, stacks__text(&f->st, node));
	buf__printf(&f->b, "</text></svg>\n");
	flush(f);
}

static void put_subtitle(struct flamegraph *f)
{
	const struct recording *r = session__recording(f->s);
	char all[TEXT_CELL], took[TEXT_CELL], lost[TEXT_CELL];
	struct losses l;

	text__duration(all, f->total);
	text__duration(took, session__end(f->s) - session__begin(f->s));
	losses__sum(&l, r);
	buf__printf(&f->b,
		    "<text class=\"s\" x=\"14\" y=\"46\">%s in spans, all threads together, "
		    "of %s recorded; width is time, and what a span calls lies below it",
		    all, took);
	if (f->hidden)
		buf__printf(&f->b, "; %u too narrow or too deep to be drawn", f->hidden);
	buf__printf(&f->b, "</text>\n");
	if (l.all_records || l.all_at_most || recording__state(r)->incomplete) {
		text__count(lost, l.all_records);
		buf__printf(&f->b,
			    "<text class=\"s warn\" x=\"14\" y=\"64\">%s records lost%s%s"
			    "</text>\n",
			    lost, l.all_at_most ? ", perhaps more" : "",
			    recording__state(r)->incomplete ? "; the recorder did not finish" : "");
	}
}

static void put_head(struct flamegraph *f)
{
	const struct recording_meta *m = recording__meta(session__recording(f->s));
	struct buf targets = { 0 };

	text__append_printable(&targets, m->targets ? m->targets : "",
			       m->targets ? strlen(m->targets) : 0);
	buf__u8(&targets, 0);
	buf__printf(&f->b,
		    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%%\" "
		    "height=\"%u\">\n<title>Flame graph: ",
		    HEAD + (f->rows ? f->rows : 1) * ROW + FOOT);
	put_text(&f->b, (const char *)targets.data);
	buf__printf(&f->b,
		    "</title>\n<style>\n%s</style>\n"
		    "<rect class=\"bg\" width=\"100%%\" height=\"100%%\"/>\n"
		    "<text class=\"h\" x=\"14\" y=\"26\">Flame graph: ",
		    flamegraph_style);
	put_text(&f->b, (const char *)targets.data);
	buf__printf(&f->b, "</text>\n");
	put_subtitle(f);
	buf__printf(&f->b, "<text id=\"search\" class=\"s b gone\" x=\"100%%\" y=\"26\" dx=\"-14\" "
			   "text-anchor=\"end\">Search</text>\n"
			   "<text id=\"reset\" class=\"s b gone\" x=\"100%%\" y=\"26\" dx=\"-76\" "
			   "text-anchor=\"end\">Whole graph</text>\n"
			   "<text id=\"info\" class=\"s\" x=\"14\" y=\"78\"></text>\n");
	f->b.failed |= targets.failed;
	buf__free(&targets);
	flush(f);
}

static int flamegraph__close(void *state, struct clika_error *err)
{
	struct flamegraph *f = state;
	size_t n = f->st.n ? f->st.n : 1;
	uint32_t i;

	(void)err;
	f->time = calloc(n, sizeof(*f->time));
	f->shapes = calloc(n, sizeof(*f->shapes));
	f->order = calloc(n, sizeof(*f->order));
	if (!f->time || !f->shapes || !f->order)
		return -ENOMEM;
	add_up(f);
	if (f->total)
		place(f);
	put_head(f);
	for (i = 0; f->total && i < f->st.n && !f->err; i++)
		if (is_drawn(f, i))
			put_frame(f, i);
	if (!f->total)
		buf__printf(&f->b, "<text class=\"s\" x=\"14\" y=\"%u\">No spans.</text>\n",
			    HEAD + 13);
	buf__printf(&f->b, "<script><![CDATA[\n%s]]></script>\n</svg>\n", flamegraph_script);
	flush(f);
	return f->err;
}

static int flamegraph__item(void *state, const struct item *it)
{
	struct flamegraph *f = state;

	return stacks__item(&f->st, it);
}

static void flamegraph__free(void *state)
{
	struct flamegraph *f = state;

	stacks__free(&f->st);
	buf__free(&f->b);
	free(f->time);
	free(f->shapes);
	free(f->order);
	free(f);
}

static int flamegraph__open(struct session *s, struct outfile *out, const struct export_opts *o,
			    void **state, struct clika_error *err)
{
	struct flamegraph *f = calloc(1, sizeof(*f));

	(void)o;
	if (!f)
		return error__set(err, -ENOMEM, "out of memory");
	*state = f;
	f->s = s;
	f->out = out;
	return stacks__init(&f->st, s, STACKS_TEXT) ? error__set(err, -ENOMEM, "out of memory") : 0;
}

const struct exporter_ops exporter_flamegraph = {
	.format = "flamegraph",
	.file = "flamegraph.svg",
	.summary = "flame graph of spans as one SVG file, for any browser",
	.open = flamegraph__open,
	.item = flamegraph__item,
	.close = flamegraph__close,
	.free = flamegraph__free,
};
