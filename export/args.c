// SPDX-License-Identifier: Apache-2.0
#include "export/args.h"

#include "export/digits.h"
#include "export/json_emit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool args__is_newest(const struct event *ev, size_t i)
{
	size_t k = i + 1;

	while (k < ev->nargs && ev->args[k].key != ev->args[i].key)
		k++;
	return k == ev->nargs;
}

bool args__is_reserved(const char *key)
{
	static const char *const names[] = { "External id",    "Ev Idx",          "Input Dims",
					     "correlation",    "thread.id",       "thread.name",
					     "code.file.path", "code.line.number" };
	size_t i;

	if (!strchr("EIct", *key))
		return false;
	if (!strncmp(key, "clika.", 6))
		return true;
	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(key, names[i]))
			return true;
	return false;
}

static void put_double(struct buf *out, double v)
{
	char text[40], *comma;
	int n = snprintf(text, sizeof(text), "%.17g", v);

	/* The host program's locale may write a comma. */
	comma = memchr(text, ',', (size_t)n);
	if (comma)
		*comma = '.';
	buf__append(out, text, (size_t)n);
}

static void put_number(struct buf *out, const struct event_arg *a)
{
	char text[24], *end = text + sizeof(text), *p;
	bool minus = a->type == ARG_I64 && a->i < 0;

	if (a->type == ARG_I64 || a->type == ARG_U64) {
		p = digits__u64(end, minus ? 0 - a->u : a->u);
		if (minus)
			*--p = '-';
		buf__append(out, p, (size_t)(end - p));
	} else if (a->type == ARG_F64 && isfinite(a->f)) {
		put_double(out, a->f);
	} else {
		buf__append(out, "null", 4);
	}
}

void args__json(struct buf *out, const struct session *s, const struct event *ev)
{
	const struct strpool *names = session__names(s);
	const struct event_arg *a;
	bool more = false;
	size_t i;

	buf__u8(out, '{');
	for (i = 0; i < ev->nargs; i++) {
		a = &ev->args[i];
		if (!args__is_newest(ev, i))
			continue;
		if (more)
			buf__u8(out, ',');
		more = true;
		json__escape(out, session__str(s, a->key), strpool__len(names, a->key));
		buf__u8(out, ':');
		if (a->type == ARG_STR)
			json__escape(out, a->str, a->len);
		else
			put_number(out, a);
	}
	buf__u8(out, '}');
}

void args__text(struct buf *out, const struct session *s, const struct event *ev)
{
	const struct strpool *names = session__names(s);
	const struct event_arg *a;
	size_t i, start = out->len;

	for (i = 0; i < ev->nargs; i++) {
		a = &ev->args[i];
		if (!args__is_newest(ev, i))
			continue;
		if (out->len > start)
			buf__append(out, ", ", 2);
		text__append_printable(out, session__str(s, a->key), strpool__len(names, a->key));
		buf__u8(out, '=');
		if (a->type == ARG_STR)
			text__append_printable(out, a->str, a->len);
		else
			put_number(out, a);
	}
}

void args__flags(struct buf *out, const struct open_span *span)
{
	static const struct {
		uint16_t flag;
		const char *word;
	} words[] = {
		{ EVS_UNFINISHED, "unfinished" },
		{ EVS_NO_BEGIN, "no_begin" },
		{ EVS_CLIPPED, "clipped" },
		{ EVS_FUNCTION, "function" },
		{ EVS_USDT, "usdt" },
		{ EVS_ADDRESS_NAME, "address_name" },
		{ EVS_REDACTED, "redacted" },
	};
	size_t i, start = out->len;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (span->ev.flags & words[i].flag)
			buf__printf(out, "%s%s", out->len > start ? " " : "", words[i].word);
	if (span->late)
		buf__printf(out, "%slate", out->len > start ? " " : "");
	if (span->cut)
		buf__printf(out, "%scut", out->len > start ? " " : "");
}
