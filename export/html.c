// SPDX-License-Identifier: Apache-2.0
/*
 * One page that shows a recording in any browser and asks no network. What varies is data: a JSON
 * object and the compressed timeline, in elements that are never run; the scripts, which are named
 * by their checksums in the page's policy, make text nodes of it.
 */
#include "export/embed.h"
#include "export/html_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PAGE 9900000u /* bytes; the timeline takes what is left */
#define MIN_TIMELINE 1200000u
#define MAX_TEXTS 131072
#define TEXT_BYTES (1200u << 10)

static const struct embed *const scripts[] = {
	&embed_util_js,     &embed_data_js, &embed_table_js, &embed_charts_js,   &embed_overview_js,
	&embed_timeline_js, &embed_draw_js, &embed_flame_js, &embed_sections_js, &embed_main_js,
};

/* --- members of JSON ---------------------------------------------------------------------------- */

uint32_t html__cstr_id(struct html *h, const char *s, size_t len)
{
	uint32_t id = html_texts__id(&h->texts, s, len);

	if (id == UINT32_MAX) {
		h->err = h->err ? h->err : -ENOMEM;
		return 0;
	}
	return id;
}

uint32_t html__text_id(struct html *h, uint32_t id)
{
	uint32_t *at = &h->text_of[id < h->n_names ? id : 0];

	if (!*at)
		*at = 1 + html__cstr_id(h, session__str(h->s, id),
					strpool__len(session__names(h->s), id));
	return *at - 1;
}

void html__text(struct html *h, const char *key, uint32_t id)
{
	json__key(&h->j, key);
	json__u64(&h->j, html__text_id(h, id));
}

void html__cstr(struct html *h, const char *key, const char *s)
{
	json__key(&h->j, key);
	if (s)
		json__u64(&h->j, html__cstr_id(h, s, strlen(s)));
	else
		json__null(&h->j);
}

void html__u64(struct html *h, const char *key, uint64_t v)
{
	json__key(&h->j, key);
	json__u64(&h->j, v);
}

void html__i64(struct html *h, const char *key, int64_t v)
{
	json__key(&h->j, key);
	json__i64(&h->j, v);
}

void html__bool(struct html *h, const char *key, bool v)
{
	json__key(&h->j, key);
	json__bool(&h->j, v);
}

void html__at(struct html *h, const char *key, uint64_t boottime)
{
	html__u64(h, key, boottime > h->spans.origin ? boottime - h->spans.origin : 0);
}

/* --- safe bytes ------------------------------------------------------------------------------------- */

static void put(struct html *h, const void *p, size_t n)
{
	int err = outfile__write(h->out, p, n);

	h->err = h->err ? h->err : err;
}

static void puts_out(struct html *h, const char *s)
{
	put(h, s, strlen(s));
}

/* What '<' and the like are in JSON; U+2028 and U+2029 end lines for some readers. */
static const char *safe_form(const uint8_t *p, size_t left, size_t *len)
{
	*len = 1;
	switch (*p) {
	case '<':
		return "\\u003c";
	case '>':
		return "\\u003e";
	case '&':
		return "\\u0026";
	case 0xe2:
		*len = 3;
		if (left < 3 || p[1] != 0x80)
			return NULL;
		return p[2] == 0xa8 ? "\\u2028" : p[2] == 0xa9 ? "\\u2029" : NULL;
	default:
		return NULL;
	}
}

void html__flush(struct html *h)
{
	const uint8_t *p = h->j.b.data;
	size_t i, from = 0, n = h->j.b.len, len;
	const char *as;

	h->err = h->err ? h->err : h->j.err ? h->j.err : buf__error(&h->j.b);
	/* These bytes can only be part of strings: nothing else of JSON has them. */
	for (i = 0; i < n; i++) {
		as = safe_form(p + i, n - i, &len);
		if (!as)
			continue;
		put(h, p + from, i - from);
		puts_out(h, as);
		from = i + len;
		i = from - 1;
	}
	put(h, p + from, n - from);
	buf__reset(&h->j.b);
}

/* --- the page ------------------------------------------------------------------------------------------ */

static void put_head(struct html *h)
{
	size_t i;

	puts_out(h, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		    "base-uri 'none'; form-action 'none'; style-src '");
	puts_out(h, embed_report_css.sha256);
	puts_out(h, "'; script-src");
	for (i = 0; i < ARRAY_SIZE(scripts); i++) {
		puts_out(h, " '");
		puts_out(h, scripts[i]->sha256);
		puts_out(h, "'");
	}
	puts_out(h,
		 "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		 "<meta name=\"color-scheme\" content=\"light dark\">\n"
		 "<title>clika-bpf-prof report</title>\n<style>");
	put(h, embed_report_css.data, embed_report_css.len);
	puts_out(h, "</style>\n</head>\n<body>\n");
	put(h, embed_body_html.data, embed_body_html.len);
}

static void put_drawn(struct html *h)
{
	const struct html_spans *sp = &h->spans;
	uint64_t end = session__end(h->s) - sp->origin;

	json__key(&h->j, "drawn");
	json__object(&h->j);
	html__u64(h, "first", sp->first < sp->begin ? sp->first : sp->begin);
	html__u64(h, "last", sp->last > end ? sp->last : end);
	html__u64(h, "slotBegin", sp->begin);
	html__u64(h, "slotLength", sp->length);
	html__u64(h, "tooDeep", sp->too_deep);
	html__u64(h, "maxDepth", HTML_MAX_DEPTH);
	html__u64(h, "lostLanes", sp->lost_lanes);
	html__u64(h, "flows", sp->flows);
	html__bool(h, "args", sp->with_args);
	json__end_object(&h->j);
}

static void put_data(struct html *h)
{
	puts_out(h, "<script type=\"application/json\" id=\"data\">");
	json__object(&h->j);
	html__u64(h, "version", 1);
	html__put_context(h);
	html__put_stats(h);
	html__put_memory(h);
	html__put_counters(h);
	html__put_flame(h);
	html__put_streams(h);
	put_drawn(h);
	json__key(&h->j, "argTexts");
	html_texts__put(&h->spans.texts, &h->j);
	html__flush(h);
	json__key(&h->j, "texts");
	html_texts__put(&h->texts, &h->j);
	json__end_object(&h->j);
	html__flush(h);
	puts_out(h, "</script>\n");
}

static void put_timeline(struct html *h)
{
	uint64_t taken = outfile__bytes(h->out);
	size_t i, room;
	int err;

	for (i = 0; i < ARRAY_SIZE(scripts); i++)
		taken += scripts[i]->len;
	room = taken < MAX_PAGE - MIN_TIMELINE ? MAX_PAGE - taken : MIN_TIMELINE;
	puts_out(h, "<script type=\"text/plain\" id=\"spans\">");
	err = h->err ? 0 : html_spans__put(&h->spans, h->out, room);
	h->err = h->err ? h->err : err;
	puts_out(h, "</script>\n");
}

static int html__close(void *state, struct clika_error *err)
{
	struct html *h = state;
	size_t i;

	(void)err;
	put_head(h);
	put_data(h);
	put_timeline(h);
	for (i = 0; i < ARRAY_SIZE(scripts); i++) {
		puts_out(h, "<script>");
		put(h, scripts[i]->data, scripts[i]->len);
		puts_out(h, "</script>\n");
	}
	puts_out(h, "</body>\n</html>\n");
	return h->err;
}

static void html__stats(void *state, const struct stats *st)
{
	struct html *h = state;

	h->st = st;
}

static int html__item(void *state, const struct item *it)
{
	struct html *h = state;
	int err = stacks__item(&h->stacks, it);

	err = err ? err : html_spans__item(&h->spans, it);
	if (!err && it->kind == IT_EVENT &&
	    (it->ev->kind == EV_COUNTER_I64 || it->ev->kind == EV_COUNTER_F64))
		err = html__counter(h, it);
	return err;
}

static void html__free(void *state)
{
	struct html *h = state;
	uint32_t i;

	for (i = 0; i < h->n_series; i++)
		free(h->series[i].slots);
	map64__free(h->series_of);
	json__free(&h->j);
	html_spans__free(&h->spans);
	html_texts__free(&h->texts);
	stacks__free(&h->stacks);
	free(h->text_of);
	free(h);
}

static int html__open(struct session *s, struct outfile *out, const struct export_opts *o,
		      void **state, struct clika_error *err)
{
	struct html *h = calloc(1, sizeof(*h));
	int code;

	if (!h)
		return error__set(err, -ENOMEM, "out of memory");
	*state = h;
	h->s = s;
	h->out = out;
	json__init(&h->j, NULL);
	h->n_names = (size_t)strpool__count(session__names(s)) + 1;
	h->text_of = calloc(h->n_names, sizeof(*h->text_of));
	h->series_of = map64__new();
	code = html_spans__init(&h->spans, s, o->stack_args);
	code = code ? code : html_texts__init(&h->texts, MAX_TEXTS, TEXT_BYTES);
	code = code ? code : stacks__init(&h->stacks, s, STACKS_TEXT);
	if (code || !h->text_of || !h->series_of)
		return error__set(err, -ENOMEM, "out of memory");
	return 0;
}

const struct exporter_ops exporter_html = {
	.format = "html",
	.file = "report.html",
	.summary = "one page for any browser: operations, timeline, flame graph, requests, memory",
	.open = html__open,
	.item = html__item,
	.stats = html__stats,
	.close = html__close,
	.free = html__free,
};
