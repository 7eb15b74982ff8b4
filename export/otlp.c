// SPDX-License-Identifier: Apache-2.0
/*
 * OTLP traces. Spans are sent when they end, and ids are made from what a span is in the recording,
 * so nothing waits for anything: memory goes with what is open, and the same recording gives the
 * same ids each time.
 */
#include "export/otlp.h"
#include "export/otlp_context.h"
#include "export/otlp_span.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HELD_BYTES (8u << 20) /* of unsent spans of all processes */

struct batch { /* of one process */
	const struct track *track;
	struct buf spans;
	size_t n;
};

struct otlp {
	struct session *s;
	struct ot_context *context;
	struct ot_writer w;
	struct batch *batches;
	size_t n_batches, cap_batches, held;
	struct map64 *batch_of; /* process -> index */
	struct buf body;
	int (*send)(void *ctx, const void *body, size_t len, size_t spans);
	void *ctx;
};

/* --- bodies ----------------------------------------------------------------------------------------- */

static int batch__send(struct otlp *t, struct batch *b)
{
	int err;

	if (!b->n)
		return 0;
	buf__reset(&t->body);
	ot_writer__body(&t->w, &t->body, b->track, &b->spans);
	err = buf__error(&t->body);
	if (!err)
		err = t->send(t->ctx, t->body.data, t->body.len, b->n);
	t->held -= b->spans.len;
	b->n = 0;
	buf__free(&b->spans);
	return err;
}

static struct batch *batch_of(struct otlp *t, const struct track *track)
{
	uint64_t *at = map64__get(t->batch_of, track->process);
	struct batch *bigger;

	if (at)
		return &t->batches[*at];
	if (t->n_batches == t->cap_batches) {
		size_t cap = t->cap_batches ? t->cap_batches * 2 : 4;

		bigger = realloc(t->batches, cap * sizeof(*bigger));
		if (!bigger)
			return NULL;
		t->batches = bigger;
		t->cap_batches = cap;
	}
	if (!map64__put(t->batch_of, track->process, t->n_batches))
		return NULL;
	t->batches[t->n_batches] = (struct batch){ .track = track };
	return &t->batches[t->n_batches++];
}

static int send_all(struct otlp *t)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && i < t->n_batches; i++)
		err = batch__send(t, &t->batches[i]);
	return err;
}

/* The span that the writer holds joins those of its process. */
static int add_span(struct otlp *t, const struct track *track)
{
	const struct buf *span = ot_writer__span(&t->w);
	struct batch *b = span ? batch_of(t, track) : NULL;
	int err = 0;

	if (!b)
		return -ENOMEM;
	if (b->n == OTLP_BODY_SPANS || (b->n && b->spans.len + span->len > OTLP_BODY_BYTES))
		err = batch__send(t, b);
	else if (t->held > HELD_BYTES)
		err = send_all(t);
	if (err)
		return err;
	if (b->n++)
		buf__u8(&b->spans, ',');
	buf__append(&b->spans, span->data, span->len);
	t->held += span->len + (b->n > 1);
	return buf__error(&b->spans);
}

/* --- items ------------------------------------------------------------------------------------------ */

static int span_end(struct otlp *t, const struct item *it)
{
	struct ot_place place = ot_context__span_end(t->context, it);

	ot_writer__thread_span(&t->w, it, &place);
	return add_span(t, it->track);
}

static int async_end(struct otlp *t, const struct item *it)
{
	struct ot_place place = ot_context__async_end(t->context, it);

	ot_writer__async_span(&t->w, it, &place);
	return add_span(t, it->track);
}

static int request(struct otlp *t, const struct item *it)
{
	struct ot_request *r;
	int err;

	if (it->ev->kind == EV_REQUEST_BEGIN) {
		r = ot_context__request_begin(t->context, it);
		return r ? ot_writer__keep_attributes(&t->w, it->ev, r) : -ENOMEM;
	}
	if (it->ev->kind != EV_REQUEST_END)
		return 0;
	r = ot_context__request(t->context, it->request_key);
	if (!r) /* its begin was not seen: when it began nobody knows */
		return 0;
	ot_writer__request_span(&t->w, it, r);
	err = add_span(t, it->track);
	ot_context__request_end(t->context, r);
	return err;
}

int otlp__item(void *otlp, const struct item *it)
{
	struct otlp *t = otlp;

	switch (it->kind) {
	case IT_SPAN_BEGIN:
		return ot_context__span_begin(t->context, it);
	case IT_SPAN_END:
		return span_end(t, it);
	case IT_ASYNC_BEGIN:
		return ot_context__async_begin(t->context, it);
	case IT_ASYNC_END:
		return async_end(t, it);
	case IT_FLOW:
		return ot_context__flow(t->context, it);
	case IT_REQUEST:
		return request(t, it);
	case IT_EVENT:
	case IT_MEMORY:
		break;
	}
	return 0;
}

int otlp__finish(struct otlp *t)
{
	return send_all(t);
}

/* --- the whole --------------------------------------------------------------------------------------- */

void otlp__free(struct otlp *t)
{
	size_t i;

	if (!t)
		return;
	for (i = 0; i < t->n_batches; i++)
		buf__free(&t->batches[i].spans);
	free(t->batches);
	map64__free(t->batch_of);
	ot_context__free(t->context);
	ot_writer__free(&t->w);
	buf__free(&t->body);
	free(t);
}

int otlp__new(struct session *s, const struct export_opts *o,
	      int (*send)(void *ctx, const void *body, size_t len, size_t spans), void *ctx,
	      struct otlp **out, struct clika_error *err)
{
	struct otlp *t = calloc(1, sizeof(*t));
	int code = -ENOMEM;

	if (!t)
		return error__set(err, code, "out of memory");
	t->s = s;
	t->send = send;
	t->ctx = ctx;
	t->context = ot_context__new(s);
	t->batch_of = map64__new();
	if (t->context && t->batch_of)
		code = ot_writer__init(&t->w, s, o);
	if (code == -ENODATA)
		error__set(err, code,
			   "the recording has no wall-clock time, and OTLP knows no other");
	else if (code)
		error__set(err, code, "out of memory");
	if (code) {
		otlp__free(t);
		return code;
	}
	*out = t;
	return 0;
}

struct otlp_file {
	struct otlp *t;
	struct outfile *out;
};

static int to_file(void *ctx, const void *body, size_t len, size_t spans)
{
	struct otlp_file *f = ctx;
	int err = outfile__write(f->out, body, len);

	(void)spans;
	return err ? err : outfile__write(f->out, "\n", 1);
}

static int otlp_file__item(void *state, const struct item *it)
{
	return otlp__item(((struct otlp_file *)state)->t, it);
}

static int otlp_file__close(void *state, struct clika_error *err)
{
	(void)err;
	return otlp__finish(((struct otlp_file *)state)->t);
}

static void otlp_file__free(void *state)
{
	struct otlp_file *f = state;

	otlp__free(f->t);
	free(f);
}

static int otlp_file__open(struct session *s, struct outfile *out, const struct export_opts *o,
			   void **state, struct clika_error *err)
{
	struct otlp_file *f = calloc(1, sizeof(*f));

	if (!f)
		return error__set(err, -ENOMEM, "out of memory");
	*state = f;
	f->out = out;
	return otlp__new(s, o, to_file, f, &f->t, err);
}

const struct exporter_ops exporter_otlp = {
	.format = "otlp",
	.file = "otlp_traces.jsonl",
	.summary = "OpenTelemetry traces (OTLP in JSON, one request a line): a trace each request",
	.open = otlp_file__open,
	.item = otlp_file__item,
	.close = otlp_file__close,
	.free = otlp_file__free,
};
