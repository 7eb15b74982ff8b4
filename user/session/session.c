// SPDX-License-Identifier: Apache-2.0
#include "user/session/session_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A thread whose process the file does not define still gets its timeline. */
static const struct process_info unknown_process;

static const struct process_info *process_of(const struct recording *r, const struct thread_info *t)
{
	return t->process < recording__n_processes(r) ? recording__process(r, t->process)
						      : &unknown_process;
}

#define COMPARE(a, b)                                                                              \
	do {                                                                                       \
		if ((a) != (b))                                                                    \
			return (a) < (b) ? -1 : 1;                                                 \
	} while (0)

static int by_identity(const void *a, const void *b)
{
	const struct track *x = a, *y = b;

	COMPARE(x->pid, y->pid);
	COMPARE(x->proc->start, y->proc->start);
	COMPARE(x->proc->exec_gen, y->proc->exec_gen);
	COMPARE(x->process, y->process);
	COMPARE(x->tid, y->tid);
	COMPARE(x->info->start, y->info->start);
	COMPARE(x->thread, y->thread);
	return 0;
}

static int session__plan_tracks(struct session *s)
{
	size_t i, n = recording__n_threads(s->r);
	struct track *t;

	s->tracks = calloc(n ? n : 1, sizeof(*s->tracks));
	s->track_of = calloc(n ? n : 1, sizeof(*s->track_of));
	if (!s->tracks || !s->track_of)
		return -ENOMEM;
	s->n_tracks = n;
	for (i = 0; i < n; i++) {
		t = &s->tracks[i];
		t->info = recording__thread(s->r, i);
		t->proc = process_of(s->r, t->info);
		t->thread = (uint32_t)i;
		t->process = t->info->process;
		t->pid = t->proc->pid;
		t->tid = t->info->tid;
		t->name = t->info->name && *t->info->name ? t->info->name
			  : t->proc->comm                 ? t->proc->comm
							  : "";
	}
	qsort(s->tracks, n, sizeof(*s->tracks), by_identity);
	for (i = 0; i < n; i++) {
		s->tracks[i].index = (uint32_t)i;
		s->track_of[s->tracks[i].thread] = (uint32_t)i;
	}
	return 0;
}

static int by_begin(const void *a, const void *b)
{
	const struct session_capture *x = a, *y = b;

	COMPARE(x->begin, y->begin);
	COMPARE(x->end, y->end);
	COMPARE(x->info->id, y->info->id);
	return 0;
}

static int no_such_capture(const struct session *s, struct clika_error *err)
{
	size_t i, n = recording__n_captures(s->r);
	struct buf tags = { 0 };
	const char *tag;
	int code;

	for (i = 0; i < n && i < 8; i++) {
		tag = recording__capture(s->r, i)->tag;
		buf__printf(&tags, "%s\"", i ? ", " : "");
		text__append_printable(&tags, tag ? tag : "", tag ? strlen(tag) : 0);
		buf__printf(&tags, "\"");
	}
	if (n > 8)
		buf__printf(&tags, ", ...");
	if (n)
		code = error__set(err, -ENOENT,
				  "no capture is tagged \"%s\"; the recording holds %.*s",
				  s->capture_tag, (int)tags.len, (const char *)tags.data);
	else
		code = error__set(err, -ENOENT, "the recording holds no captures");
	buf__free(&tags);
	return code;
}

static int session__plan_captures(struct session *s, struct clika_error *err)
{
	size_t i, n = recording__n_captures(s->r);
	const struct capture_info *info;
	struct session_capture *c;
	struct window *w;

	s->captures = calloc(n ? n : 1, sizeof(*s->captures));
	w = calloc(n ? n : 1, sizeof(*w));
	if (!s->captures || !w) {
		free(w);
		return error__set(err, -ENOMEM, "out of memory");
	}
	for (i = 0; i < n; i++) {
		info = recording__capture(s->r, i);
		if (s->capture_tag && strcmp(info->tag ? info->tag : "", s->capture_tag))
			continue;
		c = &s->captures[s->n_captures++];
		c->info = info;
		c->tag = info->tag ? info->tag : "";
		c->begin = info->begin;
		c->open = !info->end;
		c->end = c->open ? UINT64_MAX : info->end;
		if (c->end < c->begin)
			c->end = c->begin;
	}
	qsort(s->captures, s->n_captures, sizeof(*s->captures), by_begin);
	for (i = 0; i < s->n_captures; i++)
		w[i] = (struct window){ s->captures[i].begin, s->captures[i].end };
	if (windows__init(&s->windows, w, s->n_captures))
		return error__set(err, -ENOMEM, "out of memory");
	if (s->capture_tag && !s->n_captures)
		return no_such_capture(s, err);
	s->must_capture = s->capture_tag || (n && !s->opts.outside_captures);
	return 0;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static void session__plan_range(struct session *s)
{
	struct window *range = &s->windows.range;

	range->begin = s->opts.from;
	range->end = s->opts.to ? s->opts.to : UINT64_MAX;
	if (s->opts.relative) {
		range->begin = plus(s->origin, range->begin);
		range->end = plus(s->origin, range->end);
	}
	/* Where a flight recorder's file begins some threads are there already and others not yet. */
	if (range->begin < recording__dropped(s->r)->until)
		range->begin = recording__dropped(s->r)->until;
	s->begin = range->begin > s->origin ? range->begin : s->origin;
	s->end = range->end < s->rec_end ? range->end : s->rec_end;
	if (s->end < s->begin)
		s->end = s->begin;
}

/*
 * The bounds come from what the recorder itself read (anchors, windows) where it did, since one
 * absurd stamp of a target must neither stretch the trace nor shut the real events out.
 */
static void session__plan_bounds(struct session *s)
{
	const struct recording_state *st = recording__state(s->r);
	size_t i, n_anchors = recording__n_anchors(s->r), n = recording__n_blocks(s->r);
	uint64_t lo = 0, hi = UINT64_MAX, begin = UINT64_MAX, end = 0, ts;
	const struct recording_block *b;

	for (i = 0; i < n_anchors; i++) {
		ts = recording__anchor(s->r, i)->boottime;
		begin = ts < begin ? ts : begin;
		end = ts > end ? ts : end;
	}
	if (n_anchors) {
		lo = begin > TIME_SLACK_NS ? begin - TIME_SLACK_NS : 0;
		hi = end < UINT64_MAX - TIME_SLACK_NS ? end + TIME_SLACK_NS : UINT64_MAX;
	}
	s->first_start = UINT64_MAX;
	for (i = 0; i < n; i++) {
		b = recording__block(s->r, i);
		if (!b->count)
			continue;
		if (b->first_ts >= lo && b->first_ts <= hi && b->first_ts < s->first_start)
			s->first_start = b->first_ts;
		if (b->last_ts >= lo && b->last_ts <= hi && b->last_ts > s->last_start)
			s->last_start = b->last_ts;
	}
	begin = s->first_start < begin ? s->first_start : begin;
	end = s->last_start > end ? s->last_start : end;
	if (st->last_ts <= hi && st->last_ts > end)
		end = st->last_ts;
	for (i = 0; i < s->n_captures; i++) {
		ts = s->captures[i].begin;
		if (ts >= lo && ts < begin)
			begin = ts;
		ts = s->captures[i].end;
		if (!s->captures[i].open && ts <= hi && ts > end)
			end = ts;
	}
	if (begin == UINT64_MAX)
		begin = end;
	s->origin = begin;
	s->rec_end = end;
	s->horizon = hi;
	for (i = 0; i < s->n_captures; i++)
		if (s->captures[i].open)
			s->captures[i].end = end > s->captures[i].begin ? end
									: s->captures[i].begin;
	session__plan_range(s);
}

int session__new(const struct recording *r, const struct session_opts *opts, struct session **out,
		 struct clika_error *err)
{
	struct session *s = calloc(1, sizeof(*s));
	int code;

	*out = NULL;
	if (!s)
		return error__set(err, -ENOMEM, "out of memory");
	s->r = r;
	if (opts)
		s->opts = *opts;
	if (!s->opts.max_cause_depth)
		s->opts.max_cause_depth = CAUSE_DEPTH_DEFAULT;
	code = -ENOMEM;
	if (s->opts.capture_tag && !(s->capture_tag = strdup(s->opts.capture_tag)))
		goto out;
	if (s->opts.name_glob && !(s->name_glob = strdup(s->opts.name_glob)))
		goto out;
	s->opts.capture_tag = s->capture_tag;
	s->opts.name_glob = s->name_glob;
	code = session__plan_tracks(s);
	if (code)
		goto out;
	code = session__plan_captures(s, err);
	if (code)
		goto out;
	session__plan_bounds(s);
	code = session__plan_chains(s);
	if (code)
		goto out;
	*out = s;
	return 0;
out:
	if (code == -ENOMEM)
		error__set(err, code, "out of memory");
	session__free(s);
	return code;
}

void session__free(struct session *s)
{
	if (!s)
		return;
	map64__free(s->late);
	free(s->next_block);
	free(s->chains);
	windows__free(&s->windows);
	free(s->captures);
	free(s->track_of);
	free(s->tracks);
	free(s->name_glob);
	free(s->capture_tag);
	free(s);
}

/* --- blocks to chains ------------------------------------------------------------------------ */

/* How many unfinished chains of one stream are tried before another one is opened. */
#define CHAIN_TRIES 8

static const struct track *track_of_block(const struct session *s, uint32_t block)
{
	return &s->tracks[s->track_of[recording__block(s->r, block)->thread]];
}

static int by_stream(const void *a, const void *b, void *session)
{
	const struct session *s = session;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct recording_block *x = recording__block(s->r, i), *y = recording__block(s->r, k);

	COMPARE(s->track_of[x->thread], s->track_of[y->thread]);
	COMPARE(x->stream, y->stream);
	COMPARE(x->first_ts, y->first_ts);
	COMPARE(x->last_ts, y->last_ts);
	COMPARE(i, k);
	return 0;
}

static size_t collect_blocks(const struct session *s, uint32_t *blocks)
{
	size_t i, n = recording__n_blocks(s->r), used = 0;
	const struct recording_block *b;

	for (i = 0; i < n; i++) {
		b = recording__block(s->r, i);
		if (!b->count || b->thread >= s->n_tracks)
			continue;
		/* Ids, memory and causes stay inside a process, so other processes need no walk. */
		if (s->opts.pid && track_of_block(s, (uint32_t)i)->pid != s->opts.pid)
			continue;
		blocks[used++] = (uint32_t)i;
	}
	return used;
}

static void session__mark_used(struct session *s)
{
	const struct track *last = NULL;
	struct track *t;
	size_t i;

	for (i = 0; i < s->n_chains; i++) {
		t = &s->tracks[s->chains[i].track];
		t->used = !s->opts.tid || t->tid == s->opts.tid;
	}
	for (i = 0; i < s->n_tracks; i++) {
		t = &s->tracks[i];
		if (!t->used)
			continue;
		t->leads = !last || last->process != t->process || last->proc != t->proc;
		last = t;
	}
}

/* Chains of one stream while they are made. */
struct chain_ends {
	uint32_t *last; /* chain -> its last block */
	size_t cap;
	size_t from; /* first chain of the stream at hand */
};

/* Makes room for one more chain. */
static int chains__grow(struct session *s, struct chain_ends *e)
{
	size_t cap = e->cap ? e->cap * 2 : 64;
	struct chain *chains;
	uint32_t *last;

	if (s->n_chains < e->cap)
		return 0;
	chains = realloc(s->chains, cap * sizeof(*chains));
	if (!chains)
		return -ENOMEM;
	s->chains = chains;
	last = realloc(e->last, cap * sizeof(*last));
	if (!last)
		return -ENOMEM;
	e->last = last;
	e->cap = cap;
	return 0;
}

/*
 * A recorder writes the blocks of a stream in order, so there is one chain a stream. A file that
 * breaks the rule gets further chains, and the walk merges them like streams.
 */
static int chains__add(struct session *s, struct chain_ends *e, uint32_t block)
{
	const struct recording_block *b = recording__block(s->r, block);
	size_t c;
	int err;

	for (c = s->n_chains; c > e->from && c + CHAIN_TRIES > s->n_chains; c--) {
		if (recording__block(s->r, e->last[c - 1])->last_ts > b->first_ts)
			continue;
		s->next_block[e->last[c - 1]] = block;
		e->last[c - 1] = block;
		return 0;
	}
	err = chains__grow(s, e);
	if (err)
		return err;
	e->last[s->n_chains] = block;
	s->chains[s->n_chains++] = (struct chain){ s->track_of[b->thread], b->stream, block };
	return 0;
}

int session__plan_chains(struct session *s)
{
	size_t i, n = recording__n_blocks(s->r), room = n ? n : 1, used;
	const struct recording_block *b, *before = NULL;
	struct chain_ends ends = { 0 };
	uint32_t *blocks = calloc(room, sizeof(*blocks));
	int err = 0;

	s->next_block = malloc(room * sizeof(*s->next_block));
	if (!blocks || !s->next_block) {
		free(blocks);
		return -ENOMEM;
	}
	memset(s->next_block, 0xff, room * sizeof(*s->next_block));
	used = collect_blocks(s, blocks);
	qsort_r(blocks, used, sizeof(*blocks), by_stream, s);
	for (i = 0; !err && i < used; i++, before = b) {
		b = recording__block(s->r, blocks[i]);
		if (!before || before->thread != b->thread || before->stream != b->stream)
			ends.from = s->n_chains;
		err = chains__add(s, &ends, blocks[i]);
	}
	if (!err)
		session__mark_used(s);
	free(ends.last);
	free(blocks);
	return err;
}

/* --- what is asked of a session -------------------------------------------------------------- */

const struct recording *session__recording(const struct session *s)
{
	return s->r;
}

const struct session_opts *session__opts(const struct session *s)
{
	return &s->opts;
}

const struct strpool *session__names(const struct session *s)
{
	return recording__names(s->r);
}

const char *session__str(const struct session *s, uint32_t id)
{
	return strpool__str(recording__names(s->r), id);
}

size_t session__n_tracks(const struct session *s)
{
	return s->n_tracks;
}

const struct track *session__track(const struct session *s, size_t i)
{
	return &s->tracks[i];
}

size_t session__n_captures(const struct session *s)
{
	return s->n_captures;
}

const struct session_capture *session__capture(const struct session *s, size_t i)
{
	return &s->captures[i];
}

bool session__only_captures(const struct session *s)
{
	return s->must_capture;
}

uint64_t session__capture_bit(size_t i)
{
	return windows__bit(i);
}

uint64_t session__begin(const struct session *s)
{
	return s->begin;
}

uint64_t session__end(const struct session *s)
{
	return s->end;
}

uint64_t session__origin(const struct session *s)
{
	return s->origin;
}

uint64_t session__realtime(const struct session *s, uint64_t boottime)
{
	size_t i, n = recording__n_anchors(s->r);
	const struct clock_anchor *a, *best = NULL, *first = NULL;

	for (i = 0; i < n; i++) {
		a = recording__anchor(s->r, i);
		if (!first || a->boottime < first->boottime)
			first = a;
		if (a->boottime <= boottime && (!best || a->boottime > best->boottime))
			best = a;
	}
	if (!best)
		best = first;
	return best ? best->realtime + (boottime - best->boottime) : 0;
}

const struct session_counts *session__counts(const struct session *s)
{
	return &s->counts;
}
