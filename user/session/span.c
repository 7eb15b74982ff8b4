// SPDX-License-Identifier: Apache-2.0
/* The stacks of open spans: nesting and its repair, belonging to captures, self time. */
#include "user/session/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* As calloc() gives it, but for the event and its arguments, which the caller fills. */
static struct span_node *node__take(struct walk *w)
{
	struct span_node *n = w->unused;
	size_t cap;
	char *text;

	if (!n)
		return calloc(1, sizeof(*n));
	w->unused = n->up;
	text = n->text;
	cap = n->text_cap;
	memset((char *)n + offsetof(struct open_span, parent), 0,
	       sizeof(*n) - offsetof(struct open_span, parent));
	n->text = text;
	n->text_cap = cap;
	return n;
}

static void node__give_back(struct walk *w, struct span_node *n)
{
	n->up = w->unused;
	w->unused = n;
}

void span__free_all(struct walk *w)
{
	struct span_node *n, *up;
	size_t i;

	for (i = 0; w->tracks && i < w->s->n_tracks; i++) {
		for (n = w->tracks[i].top; n; n = up) {
			up = n->up;
			node__give_back(w, n);
		}
		w->tracks[i].top = NULL;
	}
	for (n = w->unused; n; n = up) {
		up = n->up;
		free(n->text);
		free(n);
	}
	w->unused = NULL;
}

/* Arguments of the begin live only until the next event is read; those of the end stay. */
static int node__keep_args(struct span_node *n, const struct event *ev, const struct span_end *end)
{
	struct event_arg *a = n->pub.args;
	size_t i, bytes = 0;
	char *text;

	n->pub.ev.args = a;
	if (!ev->nargs && !end)
		return 0;
	for (i = 0; i < ev->nargs; i++) {
		a[i] = ev->args[i];
		if (a[i].type == ARG_STR)
			bytes += a[i].len;
	}
	if (bytes > n->text_cap) {
		text = realloc(n->text, bytes);
		if (!text)
			return -ENOMEM;
		n->text = text;
		n->text_cap = bytes;
	}
	text = n->text;
	for (i = 0; bytes && i < ev->nargs; i++) {
		if (a[i].type != ARG_STR || !a[i].len)
			continue;
		memcpy(text, a[i].str, a[i].len);
		a[i].str = text;
		text += a[i].len;
	}
	n->pub.ev.nargs = ev->nargs;
	for (i = 0; end && i < end->nargs && i < EVENT_MAX_ARGS; i++)
		a[n->pub.ev.nargs++] = end->args[i];
	return 0;
}

/* A span that passes its parent's end is cut there: spans of one thread nest. */
static void node__nest(struct span_node *n, const struct span_node *up)
{
	struct event *ev = &n->pub.ev;
	uint64_t beyond;

	n->end = ev->ts + ev->dur;
	if (!up || n->end <= up->end)
		return;
	beyond = n->end - up->end;
	n->end = up->end;
	ev->dur = n->end - ev->ts;
	/* One without an end was left, at the latest, when its parent was: nothing is lost. */
	if (!(ev->flags & EVS_UNFINISHED) && beyond > CLOCK_SLACK_NS)
		ev->flags |= EVS_CLIPPED;
}

static void node__belong(struct walk *w, struct span_node *n, const struct span_node *up)
{
	uint64_t windows, caused = 0;

	windows = w->open_mask;
	if (n->pub.ev.dur)
		windows |= windows__begin_between(&w->s->windows, w->now, n->end);
	if (up) {
		n->drag = up->drag | up->cause.mask;
		n->cause = up->cause;
	}
	if (w->s->late) {
		caused = n->drag | walk__late(w, LATE_SPAN, n->number);
		n->drag |= walk__late(w, LATE_DRAG, n->number);
	}
	n->open_mask = w->open_mask;
	n->pub.cut = (windows & ~w->open_mask) ||
		     window_sweep__ends_before(&w->sweep, &w->s->windows, n->end);
	n->pub.captures = windows | caused;
	n->pub.late_captures = caused & ~windows & WINDOW_CAPTURES;
	n->pub.late = n->pub.late_captures != 0;
	/* The caller's time range knows no cause: late work lies in it or does not. */
	n->pub.captures &= ~WINDOW_RANGE | windows;
}

static void count_span(struct walk *w, const struct span_node *n)
{
	struct session_counts *c = &w->s->counts;
	uint16_t flags = n->pub.ev.flags;

	c->spans++;
	c->unfinished += (flags & EVS_UNFINISHED) != 0;
	c->no_begin += (flags & EVS_NO_BEGIN) != 0;
	c->clipped += (flags & EVS_CLIPPED) != 0;
	c->late += n->pub.late;
}

static struct item *span__item(struct walk *w, const struct walk_track *wt, struct span_node *n,
			       enum item_kind kind)
{
	struct item *it = &w->span_item;

	it->kind = kind;
	it->ts = w->now;
	it->track = wt->track;
	it->ev = &n->pub.ev;
	it->span = &n->pub;
	it->captures = n->pub.captures & WINDOW_CAPTURES;
	return it;
}

static int span__show(struct walk *w, struct walk_track *wt, struct span_node *n)
{
	struct span_node *outer = n->up ? n->up->shown : NULL;

	n->shown = outer;
	if (!walk__shows(w, wt, n->pub.captures)) {
		/* Outside of what was asked for is no news. */
		w->s->counts.outside += wt->selected && (n->pub.captures & WINDOW_RANGE);
		return 0;
	}
	if (!walk__shows_name(w, n->pub.ev.name))
		return 0;
	n->shown = n;
	n->pub.parent = outer ? &outer->pub : NULL;
	n->pub.depth = outer ? outer->pub.depth + 1 : 0;
	if (outer)
		outer->pub.inner++;
	n->pub.seq = ++w->n_shown;
	n->pub.captures &= WINDOW_CAPTURES;
	count_span(w, n);
	w->span_item.self_ns = 0;
	return walk__emit(w, span__item(w, wt, n, IT_SPAN_BEGIN));
}

int span__begin(struct walk *w, struct walk_track *wt, const struct event *ev,
		const struct span_end *end)
{
	struct span_node *n = node__take(w), *up = wt->top;

	if (!n)
		return -ENOMEM;
	n->pub.ev = *ev;
	n->number = ++w->n_spans;
	n->up = up;
	if (node__keep_args(n, ev, end)) {
		node__give_back(w, n);
		return -ENOMEM;
	}
	node__nest(n, up);
	node__belong(w, n, up);
	wt->top = n;
	return span__show(w, wt, n);
}

/* What the first pass found about a span is kept only where its windows do not tell it. */
static int span__note(struct walk *w, const struct span_node *n)
{
	uint64_t told = n->open_mask & w->open_mask;
	int err = 0;

	if (n->found & ~told)
		err = walk__note_late(w, LATE_SPAN, n->number, n->found);
	if (!err && n->found_drag & ~told)
		err = walk__note_late(w, LATE_DRAG, n->number, n->found_drag);
	return err;
}

int span__end(struct walk *w, struct walk_track *wt)
{
	struct span_node *n = wt->top;
	int err = 0;

	if (walk__first_pass(w)) {
		err = span__note(w, n);
	} else if (n->shown == n) {
		w->span_item.self_ns = n->pub.ev.dur - n->pub.child_ns;
		err = walk__emit(w, span__item(w, wt, n, IT_SPAN_END));
	}
	if (n->up)
		n->up->pub.child_ns += n->pub.ev.dur;
	wt->top = n->up;
	node__give_back(w, n);
	return err;
}

void span__had_point(struct walk_track *wt)
{
	if (wt->top && wt->top->shown)
		wt->top->shown->pub.inner++;
}

uint64_t span__point_mask(const struct walk *w, const struct walk_track *wt)
{
	const struct span_node *n = wt->top;

	return w->open_mask | (n ? (n->drag | n->cause.mask) & WINDOW_CAPTURES : 0);
}
