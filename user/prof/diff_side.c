// SPDX-License-Identifier: Apache-2.0
/* One side of a comparison. */
#include "user/prof/diff.h"

#include "user/prof/recording_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#define REPORT_MAX_BYTES (512u << 20)

int diff_op__compare(const struct diff_op *a, const struct diff_op *b)
{
	int c;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	c = strcmp(a->name, b->name);
	return c ? c : strcmp(a->category ? a->category : "", b->category ? b->category : "");
}

static int by_op(const void *a, const void *b)
{
	return diff_op__compare(a, b);
}

struct diff_op *diff_side__add(struct diff_side *side, enum diff_kind kind, const char *name,
			       const char *category)
{
	struct diff_op *op;

	if (side->n == side->cap) {
		size_t cap = side->cap ? side->cap * 2 : 64;
		struct diff_op *ops = realloc(side->ops, cap * sizeof(*ops));

		if (!ops)
			return NULL;
		side->ops = ops;
		side->cap = cap;
	}
	op = &side->ops[side->n];
	*op = (struct diff_op){ .kind = kind, .name = strdup(name) };
	if (op->name && category && *category) {
		op->category = strdup(category);
		if (!op->category) {
			free(op->name);
			return NULL;
		}
	}
	if (!op->name)
		return NULL;
	side->n++;
	return op;
}

void diff_side__free(struct diff_side *side)
{
	size_t i;

	for (i = 0; i < side->n; i++) {
		free(side->ops[i].name);
		free(side->ops[i].category);
		free(side->ops[i].slots);
		histogram__free(&side->ops[i].dur);
	}
	free(side->ops);
	free(side->host);
}

/* --- from a recording ------------------------------------------------------------------------ */

/* The second walk: which slot each call lies in, and whether it is longer than the median. */
struct slotting {
	struct diff_side *side;
	struct session *s;
	uint64_t begin, length;
	struct map64 *ops, *requests; /* (name, category) -> index */
};

static uint64_t op_key(uint32_t name, uint32_t cat)
{
	return (uint64_t)name << 32 | cat;
}

static void slot__add(struct slotting *w, const struct map64 *in, uint64_t key, uint64_t ts,
		      uint64_t dur)
{
	const uint64_t *at = map64__get(in, key);
	struct diff_slot *slot;
	struct diff_op *op;
	uint64_t i;

	if (!at)
		return; /* one of the names too many */
	op = &w->side->ops[*at];
	i = ts > w->begin ? (uint64_t)((unsigned __int128)(ts - w->begin) * DIFF_SLOTS / w->length)
			  : 0;
	slot = &op->slots[i < DIFF_SLOTS ? i : DIFF_SLOTS - 1];
	slot->calls++;
	slot->below += (double)dur <= op->median;
	slot->sum += (double)dur;
}

static int slot_item(void *ctx, const struct item *it)
{
	struct slotting *w = ctx;

	if (it->kind == IT_SPAN_END)
		slot__add(w, w->ops, op_key(it->ev->name, it->ev->cat), it->ev->ts, it->ev->dur);
	else if (it->kind == IT_REQUEST && it->ev->kind == EV_REQUEST_END &&
		 it->since_begin_ns != UINT64_MAX && !it->request_unfinished)
		slot__add(w, w->requests, it->request_name, it->ts - it->since_begin_ns,
			  it->since_begin_ns);
	return 0;
}

static int fill(struct diff_op *op, struct histogram *dur, double total)
{
	op->calls = dur->count;
	op->total = total;
	op->mean = (double)dur->sum / (double)dur->count;
	op->stddev = dur->count > 1 ? (double)histogram__stddev(dur) : NAN;
	op->median = (double)histogram__quantile(dur, 500);
	op->dur = *dur;
	*dur = (struct histogram){ 0 };
	op->slots = calloc(DIFF_SLOTS, sizeof(*op->slots));
	return op->slots ? 0 : -ENOMEM;
}

/* Takes the histograms of @st over. */
static int take_stats(struct slotting *w, struct stats *st)
{
	struct request_stats *q;
	struct op_stats *op;
	struct diff_op *to;
	size_t i;

	for (i = 0; i < st->n_ops; i++) {
		op = &st->ops[i];
		to = diff_side__add(w->side, DIFF_OP,
				    op->other ? "(all other names)" : session__str(w->s, op->name),
				    op->other ? NULL : session__str(w->s, op->cat));
		if (!to || fill(to, &op->dur, (double)op->total_ns) ||
		    (!op->other && !map64__put(w->ops, op_key(op->name, op->cat), w->side->n - 1)))
			return -ENOMEM;
	}
	for (i = 0; i < st->n_requests; i++) {
		q = &st->requests[i];
		if (!q->latency.count)
			continue;
		to = diff_side__add(w->side, DIFF_REQUEST, session__str(w->s, q->name), NULL);
		if (!to || fill(to, &q->latency, (double)q->latency.sum) ||
		    !map64__put(w->requests, q->name, w->side->n - 1))
			return -ENOMEM;
	}
	return 0;
}

static int add_item(void *ctx, const struct item *it)
{
	return stats__item(ctx, it);
}

static int walk_twice(struct slotting *w)
{
	struct stats *st = NULL;
	int code = stats__new(w->s, &st);

	if (!code)
		code = session__walk(w->s, add_item, st);
	if (!code)
		code = stats__finish(st);
	if (!code) {
		w->side->observed_ns = st->observed_ns;
		code = take_stats(w, st);
	}
	stats__free(st);
	if (!code)
		code = session__walk(w->s, slot_item, w);
	return code;
}

static int from_recording(struct diff_side *side, const struct clika_view_opts *view,
			  struct clika_error *err)
{
	struct slotting w = { .side = side, .ops = map64__new(), .requests = map64__new() };
	struct clika_prof_error why = { 0 };
	struct clika_recording *r = NULL;
	const struct recording_state *st;
	const struct recording_meta *m;
	int code = -ENOMEM;

	if (!w.ops || !w.requests)
		goto out;
	code = clika_recording__open(side->path, view, &r, &why);
	if (code) {
		code = code == -EINVAL ? -EBADMSG : code; /* the file is wrong, not the call */
		error__set(err, code, "%s", why.msg);
		goto out;
	}
	w.s = r->s;
	w.begin = session__begin(w.s);
	w.length = session__end(w.s) > w.begin ? session__end(w.s) - w.begin : 1;
	code = walk_twice(&w);
	st = recording__state(r->r);
	m = recording__meta(r->r);
	side->incomplete = st->incomplete || st->bad_segments;
	side->lost = recording__counts(r->r)->lost;
	side->begin_realtime = session__realtime(w.s, w.begin);
	side->host = m->host ? strdup(m->host) : NULL;
	if (code)
		error__set(err, code, "cannot read %s: %s", side->path, strerror(-code));
out:
	if (code == -ENOMEM)
		error__set(err, code, "out of memory");
	clika_recording__close(r);
	map64__free(w.ops);
	map64__free(w.requests);
	return code;
}

/* --- from either ----------------------------------------------------------------------------- */

/* The text, unpacked when it is packed; *@first gets its first byte as it lies there. */
static int read_text(const char *path, struct buf *b, int *first, struct clika_error *err)
{
	__cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char c;
	gzFile z;
	int n, code = 0;

	if (fd < 0)
		return error__set(err, -errno, "cannot open %s: %s", path, strerror(errno));
	if (pread(fd, &c, 1, 0) != 1)
		return error__set(err, -EBADMSG, "%s is empty or cannot be read", path);
	*first = c;
	if (c != '{' && c != 0x1f && c != ' ' && c != '\n')
		return 0;
	z = gzdopen(dup(fd), "rb");
	if (!z)
		return error__set(err, -ENOMEM, "out of memory");
	do {
		if (buf__reserve(b, 1u << 20)) {
			code = error__set(err, -ENOMEM, "out of memory");
			break;
		}
		n = gzread(z, b->data + b->len, 1u << 20);
		if (n < 0)
			code = error__set(err, -EBADMSG, "%s is damaged", path);
		else
			b->len += (size_t)n;
		if (b->len > REPORT_MAX_BYTES)
			code = error__set(err, -EFBIG, "%s is larger than any report", path);
	} while (!code && n > 0);
	gzclose(z);
	return code;
}

static bool filters(const struct clika_view_opts *v)
{
	return v && (v->from_ns || v->to_ns || v->capture || v->pid || v->tid || v->name ||
		     v->outside_captures);
}

int diff_side__read(struct diff_side *side, const char *path, const struct clika_view_opts *view,
		    struct clika_error *err)
{
	struct buf text = { 0 };
	int first = 0, code;

	*side = (struct diff_side){ .path = path };
	code = read_text(path, &text, &first, err);
	if (!code && !text.len)
		code = from_recording(side, view, err);
	else if (!code && filters(view))
		code = error__set(err, -EINVAL,
				  "%s is a report: only a recording can be cut down to a part",
				  path);
	else if (!code)
		code = diff_report__read(side, (const char *)text.data, text.len, err);
	if (!code && side->n)
		qsort(side->ops, side->n, sizeof(*side->ops), by_op);
	buf__free(&text);
	return code;
}
