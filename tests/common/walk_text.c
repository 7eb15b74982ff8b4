// SPDX-License-Identifier: Apache-2.0
#include "tests/common/walk_text.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct transcript {
	struct session *s;
	struct buf b, line;
	const char *only;
	uint64_t last_ts;
};

static const char *str(const struct transcript *t, uint32_t id)
{
	return session__str(t->s, id);
}

static void put_captures(struct transcript *t, uint64_t mask)
{
	size_t i, n = session__n_captures(t->s);
	const char *sep = " [";

	if (!mask)
		return;
	for (i = 0; i < n; i++) {
		if (!(mask & session__capture_bit(i)))
			continue;
		buf__printf(&t->line, "%s%s", sep, session__capture(t->s, i)->tag);
		sep = " ";
	}
	buf__printf(&t->line, "]");
}

static void put_span(struct transcript *t, const struct item *it)
{
	const struct event *ev = it->ev;
	uint16_t f = ev->flags;
	size_t i;

	assert_true(it->span && ev == &it->span->ev);
	if (it->kind == IT_SPAN_END) {
		buf__printf(&t->line, "< %s self %llu", str(t, ev->name),
			    (unsigned long long)it->self_ns);
		return;
	}
	buf__printf(&t->line, "> %s +%llu", str(t, ev->name), (unsigned long long)ev->dur);
	for (i = 0; i < ev->nargs; i++) {
		const struct event_arg *a = &ev->args[i];

		if (a->type == ARG_STR)
			buf__printf(&t->line, " %s=\"%.*s\"", str(t, a->key), a->len, a->str);
		else
			buf__printf(&t->line, " %s=%lld", str(t, a->key), (long long)a->i);
	}
	if (it->span->parent)
		buf__printf(&t->line, " in %s", str(t, it->span->parent->ev.name));
	buf__printf(&t->line, "%s%s%s%s%s", f & EVS_UNFINISHED ? " unfinished" : "",
		    f & EVS_CLIPPED ? " clipped" : "", f & EVS_NO_BEGIN ? " no_begin" : "",
		    it->span->late ? " late" : "", it->span->cut ? " cut" : "");
}

static void put_flow(struct transcript *t, const struct item *it)
{
	static const char *const what[] = { "out", "step", "in" };

	buf__printf(&t->line, "flow %s %s #%llu", what[it->ev->kind - EV_FLOW_OUT],
		    str(t, it->ev->name), (unsigned long long)it->flow_key);
	if (it->flow_from)
		buf__printf(&t->line, " wait %llu", (unsigned long long)it->flow_wait_ns);
	if (it->flow_arrow)
		buf__printf(&t->line, " arrow from %s %llu", it->flow_from->name,
			    (unsigned long long)it->flow_from_ts);
}

static void put_number(struct transcript *t, const char *what, uint64_t v)
{
	if (v == UINT64_MAX)
		buf__printf(&t->line, " %s -", what);
	else
		buf__printf(&t->line, " %s %llu", what, (unsigned long long)v);
}

static void put_request(struct transcript *t, const struct item *it)
{
	static const char *const what[] = { "begin", "first", "output", "end" };

	buf__printf(&t->line, "request %s %s", what[it->ev->kind - EV_REQUEST_BEGIN],
		    str(t, it->request_name));
	if (it->ev->kind != EV_REQUEST_BEGIN) {
		put_number(t, "since", it->since_begin_ns);
		put_number(t, "first", it->first_ns);
		put_number(t, "units", it->units);
	}
	if (it->request_unfinished)
		buf__printf(&t->line, " unfinished");
}

static void put_memory(struct transcript *t, const struct item *it)
{
	static const char *const what[] = { "alloc", "free", "reserve", "release" };

	buf__printf(&t->line, "%s %llu device %u: %lld in use, %lld reserved%s",
		    what[it->ev->kind - EV_ALLOC], (unsigned long long)it->bytes, it->ev->aux,
		    (long long)it->current, (long long)it->reserved, it->older ? " older" : "");
}

static void put_event(struct transcript *t, const struct item *it)
{
	const struct event *ev = it->ev;
	double f;

	memcpy(&f, &ev->value, sizeof(f));
	if (ev->kind == EV_COUNTER_I64)
		buf__printf(&t->line, "# %s %lld", str(t, ev->name), (long long)ev->value);
	else if (ev->kind == EV_COUNTER_F64)
		buf__printf(&t->line, "# %s %g", str(t, ev->name), f);
	else
		buf__printf(&t->line, ". %s %s", event_kind__name(ev->kind), str(t, ev->name));
}

static int transcript__item(void *ctx, const struct item *it)
{
	struct transcript *t = ctx;

	assert_true(it->ts >= t->last_ts);
	t->last_ts = it->ts;
	buf__reset(&t->line);
	buf__printf(&t->line, "%llu %s ", (unsigned long long)it->ts, it->track->name);
	switch (it->kind) {
	case IT_SPAN_BEGIN:
	case IT_SPAN_END:
		put_span(t, it);
		break;
	case IT_EVENT:
		put_event(t, it);
		break;
	case IT_ASYNC_BEGIN:
		buf__printf(&t->line, "( %s lane %u", str(t, it->async_begin->name), it->lane);
		break;
	case IT_ASYNC_END:
		buf__printf(&t->line, ") %s lane %u dur %llu%s", str(t, it->async_begin->name),
			    it->lane, (unsigned long long)(it->ts - it->begin_ts),
			    it->async_flags & EVS_UNFINISHED ? " unfinished" : "");
		break;
	case IT_FLOW:
		put_flow(t, it);
		break;
	case IT_MEMORY:
		put_memory(t, it);
		break;
	case IT_REQUEST:
		put_request(t, it);
		break;
	}
	put_captures(t, it->captures);
	buf__append(&t->line, "\n", 2);
	if (t->only && !strstr((const char *)t->line.data, t->only))
		return 0;
	buf__append(&t->b, t->line.data, t->line.len - 1);
	return 0;
}

char *walk__text(struct session *s, const char *only)
{
	struct transcript t = { .s = s, .only = only };

	assert_int_equal(session__walk(s, transcript__item, &t), 0);
	buf__append(&t.b, "", 1);
	assert_int_equal(buf__error(&t.b), 0);
	buf__free(&t.line);
	return (char *)t.b.data;
}

void assert_walk_only(const struct recording *r, const struct session_opts *o, const char *only,
		      const char *expected)
{
	struct clika_error err = { 0 };
	struct session *s;
	char *text, *again;

	if (session__new(r, o, &s, &err))
		fail_msg("session: %s", err.msg);
	text = walk__text(s, only);
	if (strcmp(text, expected))
		fail_msg("expected\n%s\nbut the walk gave\n%s", expected, text);
	again = walk__text(s, only);
	assert_string_equal(text, again);
	free(text);
	free(again);
	session__free(s);
}

void assert_walk(const struct recording *r, const struct session_opts *o, const char *expected)
{
	assert_walk_only(r, o, NULL, expected);
}
