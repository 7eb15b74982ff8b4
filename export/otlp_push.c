// SPDX-License-Identifier: Apache-2.0
#include "export/otlp_push.h"
#include "export/http_post.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#define ANSWER_BYTES (64u << 10)

struct push {
	const struct otlp_push_opts *o;
	struct otlp_push_result *result;
	struct clika_error *err;
	struct http_client *http;
	struct buf packed;
};

void otlp_push_opts__init(struct otlp_push_opts *o)
{
	*o = (struct otlp_push_opts){
		.timeout_ms = 10000,
		.tries = 6,
		.backoff_ms = 1000,
		.max_wait_ms = 60000,
	};
}

/* --- bodies ------------------------------------------------------------------------------------------ */

static int pack(struct buf *out, const void *body, size_t len)
{
	z_stream z = { 0 };
	size_t room;
	int rc;

	/* 15 + 16: the largest window, with a gzip header */
	if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	room = deflateBound(&z, len);
	buf__reset(out);
	if (buf__reserve(out, room)) {
		deflateEnd(&z);
		return -ENOMEM;
	}
	z.next_in = (Bytef *)(uintptr_t)body;
	z.avail_in = (uInt)len; /* OTLP_BODY_BYTES and one span */
	z.next_out = out->data;
	z.avail_out = (uInt)room;
	rc = deflate(&z, Z_FINISH);
	out->len = room - z.avail_out;
	deflateEnd(&z);
	return rc == Z_STREAM_END ? 0 : -EIO;
}

/* {"partialSuccess":{"rejectedSpans":"3","errorMessage":"..."}}; numbers may be text or not. */
static void read_answer(struct push *p, const struct http_answer *a)
{
	cJSON *tree = cJSON_ParseWithLength((const char *)a->body.data, a->body.len);
	const cJSON *part = cJSON_GetObjectItemCaseSensitive(tree, "partialSuccess");
	const cJSON *n = cJSON_GetObjectItemCaseSensitive(part, "rejectedSpans");
	const cJSON *text = cJSON_GetObjectItemCaseSensitive(part, "errorMessage");
	struct buf clean = { 0 };

	if (cJSON_IsString(n))
		p->result->rejected += strtoull(n->valuestring, NULL, 10);
	else if (cJSON_IsNumber(n) && n->valuedouble > 0 && n->valuedouble < 1e15)
		p->result->rejected += (uint64_t)n->valuedouble;
	if (cJSON_IsString(text) && !p->result->message[0]) {
		text__append_printable(&clean, text->valuestring, strlen(text->valuestring));
		buf__u8(&clean, 0);
		if (!buf__error(&clean))
			strncpy(p->result->message, (const char *)clean.data,
				sizeof(p->result->message) - 1);
		buf__free(&clean);
	}
	cJSON_Delete(tree);
}

/* --- tries ------------------------------------------------------------------------------------------- */

static bool is_retried(const struct http_answer *a)
{
	/* No answer: the collector is restarting, or the network is away for a moment. */
	return !a->status || a->status == 429 || a->status == 502 || a->status == 503 ||
	       a->status == 504;
}

static void wait_ms(uint64_t ms)
{
	struct timespec left = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

/* The server's word, else twice as long each time; from half of it to all, so that many who were
 * turned away do not come back at one moment. */
static uint64_t pause_before(const struct push *p, unsigned int try, const struct http_answer *a)
{
	uint64_t ms = p->o->backoff_ms, max = p->o->max_wait_ms;

	for (; try > 1 && ms < max; try--)
		ms *= 2;
	ms = ms > max ? max : ms;
	if (a->retry_after_s)
		return a->retry_after_s > max / 1000 ? max : a->retry_after_s * 1000;
	return ms / 2 + hash__seed() % (ms / 2 + 1);
}

static int refused(struct push *p, const struct http_answer *a, unsigned int tries)
{
	struct buf said = { 0 };
	int code;

	text__append_printable(&said, (const char *)a->body.data,
			       a->body.len < 200 ? a->body.len : 200);
	if (a->status)
		code = error__set(p->err, -EREMOTEIO, "%s answered %ld after %u tr%s: %.*s",
				  p->o->url, a->status, tries, tries == 1 ? "y" : "ies",
				  (int)said.len, (const char *)said.data);
	else
		code = error__set(p->err, -EHOSTUNREACH, "%s gave no answer in %u tr%s: %s",
				  p->o->url, tries, tries == 1 ? "y" : "ies", a->why);
	buf__free(&said);
	return code;
}

static int push__body(void *ctx, const void *body, size_t len, size_t spans)
{
	struct push *p = ctx;
	struct http_answer a = { 0 };
	unsigned int try = 1;
	int err = pack(&p->packed, body, len);

	if (err)
		return error__set(p->err, err, "cannot compress a body of %zu bytes", len);
	for (;; try++) {
		err = http_client__post(p->http, p->packed.data, p->packed.len, ANSWER_BYTES, &a);
		if (err || (a.status >= 200 && a.status < 300) || !is_retried(&a) ||
		    try >= p->o->tries)
			break;
		p->result->retries++;
		wait_ms(pause_before(p, try, &a));
	}
	if (err) {
		error__set(p->err, err, "cannot send to %s: %s", p->o->url, strerror(-err));
	} else if (a.status < 200 || a.status >= 300) {
		err = refused(p, &a, try);
	} else {
		p->result->bodies++;
		p->result->spans += spans;
		read_answer(p, &a);
	}
	buf__free(&a.body);
	return err;
}

int otlp_push(struct session *s, const struct export_opts *eo, const struct otlp_push_opts *o,
	      struct otlp_push_result *result, struct clika_error *err)
{
	struct push p = { .o = o, .result = result, .err = err };
	struct clika_error unused;
	struct otlp *t = NULL;
	int code;

	memset(result, 0, sizeof(*result));
	if (!err)
		p.err = &unused;
	p.err->msg[0] = '\0';
	code = http_client__new(o->url, "/v1/traces", o->headers, o->n_headers, o->timeout_ms,
				&p.http, p.err);
	if (!code)
		code = otlp__new(s, eo, push__body, &p, &t, p.err);
	if (!code)
		code = session__walk(s, otlp__item, t);
	if (!code)
		code = otlp__finish(t);
	if (code && !p.err->msg[0])
		error__set(p.err, code, "cannot read the recording: %s", strerror(-code));
	otlp__free(t);
	http_client__free(p.http);
	buf__free(&p.packed);
	if (result->rejected > result->spans)
		result->rejected = result->spans;
	result->spans -= result->rejected;
	return code;
}
