// SPDX-License-Identifier: Apache-2.0
/*
 * One order out of many blocks: a heap of tracks, and in each track a heap of its streams. A
 * track acts at the end of its innermost span or at its next event, whichever is first. Ties
 * never depend on the order in which anything arrived or was written.
 */
#include "user/session/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- streams of a track ---------------------------------------------------------------------- */

/* At one moment: parents before children (so longer first), spans before what lies in them. */
static bool event_before(const struct walk *w, const struct stream_cursor *a,
			 const struct stream_cursor *b)
{
	const struct event *x, *y;
	bool x_span, y_span;
	int c;

	if (a->ts != b->ts)
		return a->ts < b->ts;
	if (!a->reading || !b->reading)
		return !a->reading;
	x = &a->reading->ev;
	y = &b->reading->ev;
	x_span = x->kind == EV_SPAN;
	y_span = y->kind == EV_SPAN;
	if (x_span != y_span)
		return x_span;
	if (x_span && x->dur != y->dur)
		return x->dur > y->dur;
	if (x->kind != y->kind)
		return x->kind < y->kind;
	if (x->id != y->id && !x_span)
		return x->id < y->id;
	if (x->value != y->value)
		return x->value < y->value;
	c = x->name == y->name ? 0
			       : strcmp(session__str(w->s, x->name), session__str(w->s, y->name));
	return c ? c < 0 : a->stream < b->stream;
}

static void streams__sift(struct walk *w, struct walk_track *wt, size_t i)
{
	struct stream_cursor *c = wt->heap[i];
	size_t child;

	while ((child = 2 * i + 1) < wt->n_streams) {
		if (child + 1 < wt->n_streams &&
		    event_before(w, wt->heap[child + 1], wt->heap[child]))
			child++;
		if (!event_before(w, wt->heap[child], c))
			break;
		wt->heap[i] = wt->heap[child];
		i = child;
	}
	wt->heap[i] = c;
}

static void streams__sort(struct walk *w, struct walk_track *wt)
{
	for (size_t i = wt->n_streams / 2; i-- > 0;)
		streams__sift(w, wt, i);
}

/* When nothing closed it: the death of its thread or process did, or the recording's end. */
static uint64_t left_open_until(const struct walk *w, const struct track *t, uint64_t start)
{
	uint64_t end = t->info->ended ? t->info->ended : t->proc->ended;

	if (!end || end > w->s->rec_end)
		end = w->s->rec_end;
	return end > start ? end : start;
}

/* Gives the span its duration. False: its times are out of range. */
static bool resolve_span(struct walk *w, const struct track *t, struct reading *rd)
{
	struct event *ev = &rd->ev;
	uint64_t end;

	rd->end = NULL;
	if (!(ev->flags & EVS_OPEN))
		return ev->dur <= w->s->horizon - ev->ts;
	rd->end = recording__span_end(w->s->r, ev->id);
	if (rd->end && (rd->end->ts < ev->ts || rd->end->ts > w->s->horizon)) {
		w->s->counts.bad_times++;
		rd->end = NULL;
	}
	if (rd->end) {
		end = rd->end->ts;
		ev->flags |= rd->end->flags;
	} else {
		end = left_open_until(w, t, ev->ts);
		ev->flags |= EVS_UNFINISHED;
	}
	ev->flags &= (uint16_t)~EVS_OPEN;
	ev->dur = end - ev->ts;
	ev->id = 0;
	return true;
}

static struct reading *reading__take(struct walk *w)
{
	struct reading *rd = w->unused_readings;

	if (!rd)
		return calloc(1, sizeof(*rd));
	w->unused_readings = rd->unused;
	return rd;
}

static void reading__give_back(struct walk *w, struct reading *rd)
{
	block_reader__stop(&rd->br);
	rd->unused = w->unused_readings;
	w->unused_readings = rd;
}

/* In front of its next block, if there is one. */
static bool cursor__rest(struct walk *w, struct stream_cursor *c)
{
	if (c->reading)
		reading__give_back(w, c->reading);
	c->reading = NULL;
	if (c->next_block == NO_BLOCK)
		return false;
	/* Early enough for streams__settle() to see it. */
	c->ts = recording__block(w->s->r, c->next_block)->first_ts;
	c->ts -= c->ts < CLOCK_SLACK_NS ? c->ts : CLOCK_SLACK_NS;
	return true;
}

/* Later than it was told; the end stays. */
static void event__begin_at(struct event *ev, uint64_t ts)
{
	uint64_t by = ts - ev->ts;

	ev->ts = ts;
	ev->dur -= ev->dur < by ? ev->dur : by;
}

/* 1: the cursor holds the next event or rests in front of the next block, 0: it is over. */
static int cursor__next(struct walk *w, const struct track *t, struct stream_cursor *c)
{
	struct session *s = w->s;
	struct reading *rd = c->reading;
	struct event *ev = &rd->ev;
	int got;

	while (rd->br.left) {
		got = block_reader__next(&rd->br, ev);
		if (got == -EBADMSG) {
			s->counts.damaged++;
			break;
		}
		if (got < 0)
			return got;
		if (!got)
			break;
		if (ev->ts < s->origin || ev->ts > s->horizon || ev->ts < c->last_ts ||
		    (ev->kind == EV_SPAN && !resolve_span(w, t, rd))) {
			s->counts.bad_times++;
			continue;
		}
		c->last_ts = ev->ts;
		if (ev->ts < c->floor)
			event__begin_at(ev, c->floor);
		c->ts = ev->ts;
		return 1;
	}
	return cursor__rest(w, c);
}

/* Opens the block in front of which the cursor rests; then as cursor__next(). */
static int cursor__read(struct walk *w, const struct track *t, struct stream_cursor *c)
{
	uint32_t block = c->next_block;
	int err;

	c->next_block = w->s->next_block[block];
	c->reading = reading__take(w);
	if (!c->reading)
		return -ENOMEM;
	err = block_reader__init(&c->reading->br, w->s->r, block);
	if (err == -ENOMEM)
		return err;
	if (err) {
		w->s->counts.damaged++;
		return cursor__rest(w, c);
	}
	return cursor__next(w, t, c);
}

/* --- tracks ---------------------------------------------------------------------------------- */

static bool track_before(const struct walk_track *a, const struct walk_track *b)
{
	if (a->ts != b->ts)
		return a->ts < b->ts;
	if (a->act != b->act)
		return a->act < b->act;
	return a->track->index < b->track->index;
}

static void tracks__sift(struct walk *w, size_t i)
{
	struct walk_track *t = w->heap[i];
	size_t child;

	while ((child = 2 * i + 1) < w->n_heap) {
		if (child + 1 < w->n_heap && track_before(w->heap[child + 1], w->heap[child]))
			child++;
		if (!track_before(w->heap[child], t))
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = t;
}

/* False when the track has nothing left to do. */
static bool track__plan(struct walk_track *wt)
{
	const struct stream_cursor *c = wt->n_streams ? wt->heap[0] : NULL;

	if (wt->top && (!c || wt->top->end < c->ts || (wt->top->end == c->ts && c->reading))) {
		wt->ts = wt->top->end;
		wt->act = ACT_END;
		return true;
	}
	if (!c)
		return false;
	wt->ts = c->ts;
	wt->act = c->reading ? ACT_EVENT : ACT_READ;
	return true;
}

static void walk__open_streams(struct walk *w)
{
	const struct session *s = w->s;
	struct stream_cursor *c;
	struct walk_track *wt;
	size_t i;

	for (i = 0; i < s->n_chains; i++) { /* sorted by track */
		wt = &w->tracks[s->chains[i].track];
		if (!wt->heap)
			wt->heap = w->streams + i;
		c = &w->cursors[i];
		c->next_block = s->chains[i].first;
		c->stream = s->chains[i].stream;
		if (cursor__rest(w, c))
			wt->heap[wt->n_streams++] = c;
	}
	for (i = 0; i < s->n_tracks; i++) {
		wt = &w->tracks[i];
		streams__sort(w, wt);
		if (track__plan(wt))
			w->heap[w->n_heap++] = wt;
	}
	for (i = w->n_heap / 2; i-- > 0;)
		tracks__sift(w, i);
}

/* --- items ----------------------------------------------------------------------------------- */

bool walk__shows(struct walk *w, const struct walk_track *wt, uint64_t mask)
{
	if (!(mask & WINDOW_RANGE) || !wt->selected)
		return false;
	return !w->s->must_capture || (mask & WINDOW_CAPTURES);
}

bool walk__shows_name(struct walk *w, uint32_t name)
{
	if (!w->s->name_glob || !name || name >= w->n_names)
		return !w->s->name_glob;
	if (!w->name_shown[name])
		w->name_shown[name] = text__glob(w->s->name_glob, session__str(w->s, name)) ? 1 : 2;
	return w->name_shown[name] == 1;
}

uint32_t walk__process(const struct walk *w, const struct walk_track *wt)
{
	uint32_t p = wt->track->process;

	return p < w->n_processes ? p : (uint32_t)w->n_processes - 1;
}

void walk__item(const struct walk *w, const struct walk_track *wt, enum item_kind kind,
		const struct event *ev, uint64_t mask, struct item *it)
{
	memset(it, 0, sizeof(*it));
	it->kind = kind;
	it->ts = w->now;
	it->track = wt->track;
	it->ev = ev;
	it->span = wt->top && wt->top->shown ? &wt->top->shown->pub : NULL;
	it->captures = mask & WINDOW_CAPTURES;
}

int walk__note_late(struct walk *w, enum late_kind kind, uint64_t number, uint64_t mask)
{
	uint64_t key = late__key(kind, number), *there = map64__get(w->s->late, key);

	if (there)
		*there |= mask;
	else if (!map64__put(w->s->late, key, mask))
		return -ENOMEM;
	return 0;
}

uint64_t walk__late(const struct walk *w, enum late_kind kind, uint64_t number)
{
	const uint64_t *mask;

	if (!w->fn || !w->s->late)
		return 0;
	mask = map64__get(w->s->late, late__key(kind, number));
	return mask ? *mask : 0;
}

static int point(struct walk *w, struct walk_track *wt, const struct event *ev)
{
	struct session_counts *n = &w->s->counts;
	uint64_t mask = span__point_mask(w, wt);
	struct item it;

	if (!walk__shows(w, wt, mask))
		return 0;
	if (ev->kind == EV_INSTANT || ev->kind == EV_COUNTER_I64 || ev->kind == EV_COUNTER_F64) {
		if (!walk__shows_name(w, ev->name))
			return 0;
		if (ev->kind == EV_INSTANT)
			n->instants++;
		else
			n->counters++;
	}
	walk__item(w, wt, IT_EVENT, ev, mask, &it);
	if (ev->kind == EV_INSTANT || ev->kind == EV_CAPTURE_BEGIN || ev->kind == EV_CAPTURE_END)
		span__had_point(wt);
	return walk__emit(w, &it);
}

static int dispatch(struct walk *w, struct walk_track *wt, const struct reading *rd)
{
	switch ((enum event_kind)rd->ev.kind) {
	case EV_SPAN:
		return span__begin(w, wt, &rd->ev, rd->end);
	case EV_ASYNC_BEGIN:
	case EV_ASYNC_END:
	case EV_FLOW_OUT:
	case EV_FLOW_STEP:
	case EV_FLOW_IN:
	case EV_REQUEST_BEGIN:
	case EV_REQUEST_FIRST:
	case EV_REQUEST_OUTPUT:
	case EV_REQUEST_END:
		return link__event(w, wt, &rd->ev);
	case EV_ALLOC:
	case EV_FREE:
	case EV_RESERVE:
	case EV_RELEASE:
		return memory__event(w, wt, &rd->ev);
	case EV_INSTANT:
	case EV_COUNTER_I64:
	case EV_COUNTER_F64:
	case EV_THREAD_NAME:
	case EV_QUEUE_NAME:
	case EV_DEVICE_NAME:
	case EV_PROCESS_LABEL:
	case EV_CAPTURE_BEGIN:
	case EV_CAPTURE_END:
		return point(w, wt, &rd->ev);
	case EV_KIND_COUNT:
		break;
	}
	return 0; /* a kind of a later version: nothing here knows what it means */
}

/*
 * The next span of a track may lie a little beside its place, because another source tells of the
 * spans around it. One that begins just before the span before it ends, and lasts, comes after it;
 * one that begins just before a span that outlasts it lies in that. True: something was moved.
 */
static bool streams__settle(struct walk_track *wt)
{
	struct event *x = &wt->heap[0]->reading->ev, *y;
	uint64_t end = x->ts + x->dur, apart;
	struct stream_cursor *c;
	bool moved = false;
	size_t i;

	if (x->kind != EV_SPAN)
		return false;
	if (wt->top && wt->top->end > x->ts && wt->top->end - x->ts <= CLOCK_SLACK_NS &&
	    end > wt->top->end && end - wt->top->end > CLOCK_SLACK_NS) {
		c = wt->heap[0];
		c->ts = c->floor = x->ts = wt->top->end;
		x->dur = end - x->ts;
		return true;
	}
	if (wt->n_streams < 2 || x->dur <= CLOCK_SLACK_NS)
		return false;
	for (i = 1; i < wt->n_streams; i++) {
		c = wt->heap[i];
		if (!c->reading || c->ts == x->ts || c->ts - x->ts > CLOCK_SLACK_NS)
			continue;
		y = &c->reading->ev;
		if (y->kind != EV_SPAN || y->ts + y->dur <= end || end - y->ts <= CLOCK_SLACK_NS)
			continue;
		apart = y->ts - x->ts;
		c->ts = y->ts = x->ts;
		y->dur += apart;
		moved = true;
	}
	return moved;
}

static int track__step(struct walk *w, struct walk_track *wt)
{
	struct stream_cursor *c = wt->heap[0];
	int got;

	if (wt->act == ACT_READ) {
		got = cursor__read(w, wt->track, c);
	} else if (streams__settle(wt)) {
		streams__sort(w, wt);
		return 0;
	} else {
		got = dispatch(w, wt, c->reading);
		if (got)
			return got;
		got = cursor__next(w, wt->track, c);
	}
	if (got < 0)
		return got;
	if (!got)
		wt->heap[0] = wt->heap[--wt->n_streams];
	if (wt->n_streams > 1)
		streams__sift(w, wt, 0);
	return 0;
}

/* --- the walk -------------------------------------------------------------------------------- */

static int close_process(struct walk *w, uint32_t process)
{
	int err = link__close_process(w, process);

	memory__close_process(w, process);
	return err;
}

static void walk__see_windows(struct walk *w, uint64_t ts)
{
	w->now = ts;
	w->open_mask = window_sweep__at(&w->sweep, &w->s->windows, ts);
}

static int walk__pass_ends(struct walk *w, uint64_t ts)
{
	const struct process_end *pe;
	int err;

	for (; w->next_process_end < w->n_process_ends; w->next_process_end++) {
		pe = &w->process_ends[w->next_process_end];
		if (pe->ts >= ts)
			break;
		walk__see_windows(w, pe->ts > w->now ? pe->ts : w->now);
		err = close_process(w, pe->process);
		if (err)
			return err;
	}
	walk__see_windows(w, ts);
	w->quiet_until = window_sweep__until(&w->sweep, &w->s->windows, ts);
	if (w->next_process_end < w->n_process_ends &&
	    w->process_ends[w->next_process_end].ts < w->quiet_until)
		w->quiet_until = w->process_ends[w->next_process_end].ts;
	return 0;
}

/* Whatever is due before something happens at @ts. */
static inline int walk__advance(struct walk *w, uint64_t ts)
{
	if (ts >= w->quiet_until)
		return walk__pass_ends(w, ts);
	w->now = ts;
	return 0;
}

static int walk__finish(struct walk *w)
{
	uint64_t end = w->s->rec_end > w->now ? w->s->rec_end : w->now;
	int err = walk__advance(w, end);
	size_t i;

	/* By tracks: their order, unlike that of processes in the file, says who and not when. */
	for (i = 0; !err && i < w->s->n_tracks; i++)
		err = close_process(w, walk__process(w, &w->tracks[i]));
	return err;
}

static int walk__run(struct walk *w)
{
	struct walk_track *wt;
	int err = 0;

	walk__open_streams(w);
	while (!err && w->n_heap) {
		wt = w->heap[0];
		if (wt->act != ACT_READ)
			err = walk__advance(w, wt->ts);
		if (!err)
			err = wt->act == ACT_END ? span__end(w, wt) : track__step(w, wt);
		if (err)
			break;
		if (!track__plan(wt))
			w->heap[0] = w->heap[--w->n_heap];
		if (w->n_heap > 1)
			tracks__sift(w, 0);
	}
	return err ? err : walk__finish(w);
}

static int by_time(const void *a, const void *b)
{
	const struct process_end *x = a, *y = b;

	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int walk__plan_process_ends(struct walk *w)
{
	const struct track *t, *last = NULL;
	size_t i, n = w->s->n_tracks;

	w->process_ends = calloc(n ? n : 1, sizeof(*w->process_ends));
	if (!w->process_ends)
		return -ENOMEM;
	for (i = 0; i < n; i++, last = t) {
		t = &w->s->tracks[i];
		if (last && last->process == t->process)
			continue;
		if (t->proc->ended && t->proc->ended < w->s->rec_end)
			w->process_ends[w->n_process_ends++] = (struct process_end){
				t->proc->ended, walk__process(w, &w->tracks[i]), (uint32_t)i
			};
	}
	qsort(w->process_ends, w->n_process_ends, sizeof(*w->process_ends), by_time);
	return 0;
}

static void walk__free_readings(struct walk *w)
{
	struct reading *rd;
	size_t i;

	for (i = 0; w->cursors && i < w->s->n_chains; i++)
		if (w->cursors[i].reading)
			reading__give_back(w, w->cursors[i].reading);
	while ((rd = w->unused_readings)) {
		w->unused_readings = rd->unused;
		free(rd);
	}
}

static void walk__fini(struct walk *w)
{
	walk__free_readings(w);
	span__free_all(w);
	id_table__free(w->flows);
	id_table__free(w->asyncs);
	link__free_lanes(w);
	id_table__free(w->requests);
	id_table__free(w->blocks);
	id_table__free(w->reserved_blocks);
	id_table__free(w->balances);
	free(w->name_shown);
	free(w->process_ends);
	free(w->heap);
	free(w->tracks);
	free(w->streams);
	free(w->cursors);
}

static int walk__init(struct walk *w, struct session *s, int (*fn)(void *, const struct item *),
		      void *ctx)
{
	size_t i, n_tracks = s->n_tracks ? s->n_tracks : 1,
		  n_chains = s->n_chains ? s->n_chains : 1;
	struct walk_track *wt;

	memset(w, 0, sizeof(*w));
	w->s = s;
	w->fn = fn;
	w->ctx = ctx;
	w->now = s->origin;
	w->n_processes = recording__n_processes(s->r) + 1;
	w->n_names = (size_t)strpool__count(recording__names(s->r)) + 1;
	w->cursors = calloc(n_chains, sizeof(*w->cursors));
	w->streams = calloc(n_chains, sizeof(*w->streams));
	w->tracks = calloc(n_tracks, sizeof(*w->tracks));
	w->heap = calloc(n_tracks, sizeof(*w->heap));
	w->name_shown = calloc(w->n_names, 1);
	w->flows = link__new_flows(w->n_processes);
	w->asyncs = link__new_asyncs(w->n_processes);
	w->lanes = link__new_lanes(w->n_processes);
	w->requests = link__new_requests(w->n_processes);
	w->blocks = memory__new_blocks(w->n_processes);
	w->reserved_blocks = memory__new_blocks(w->n_processes);
	w->balances = id_table__new(sizeof(struct balance), w->n_processes);
	if (!w->cursors || !w->streams || !w->tracks || !w->heap || !w->name_shown || !w->flows ||
	    !w->asyncs || !w->lanes || !w->requests || !w->blocks || !w->reserved_blocks ||
	    !w->balances)
		return -ENOMEM;
	for (i = 0; i < s->n_tracks; i++) {
		wt = &w->tracks[i];
		wt->track = &s->tracks[i];
		wt->selected = wt->track->used;
	}
	return walk__plan_process_ends(w);
}

static int walk__do(struct session *s, int (*fn)(void *, const struct item *), void *ctx)
{
	struct walk w;
	int err = walk__init(&w, s, fn, ctx);

	if (!err)
		err = walk__run(&w);
	walk__fini(&w);
	return err;
}

/*
 * Work that a capture caused may run after its window has closed, and an async span may begin
 * before a window opens: both are known only afterwards. When windows cut the recording, a first
 * pass finds them; its memory grows with such late work alone.
 */
static int session__find_late(struct session *s)
{
	int err;

	if (s->late_known)
		return 0;
	if (windows__cut(&s->windows, s->first_start, s->last_start)) {
		s->late = map64__new();
		err = s->late ? walk__do(s, NULL, NULL) : -ENOMEM;
		if (err) {
			map64__free(s->late);
			s->late = NULL;
			return err;
		}
	}
	s->late_known = true;
	return 0;
}

int session__walk(struct session *s, int (*fn)(void *ctx, const struct item *it), void *ctx)
{
	int err = session__find_late(s);

	if (err)
		return err;
	memset(&s->counts, 0, sizeof(s->counts));
	return walk__do(s, fn, ctx);
}
