// SPDX-License-Identifier: Apache-2.0
/* The text summary: where the time goes first, then what it may be blamed on. */
#include "export/summary.h"

#include <errno.h>
#include <stdlib.h>

static int summary__open(struct session *s, struct outfile *out, const struct export_opts *o,
			 void **state, struct clika_error *err)
{
	struct summary *m = calloc(1, sizeof(*m));

	if (!m)
		return error__set(err, -ENOMEM, "out of memory");
	*state = m;
	m->s = s;
	m->top = o->top ? o->top : 30;
	text_out__init(&m->t, out, o->columns ? o->columns : 100);
	return 0;
}

static void summary__stats(void *state, const struct stats *st)
{
	struct summary *m = state;

	m->st = st;
}

static int summary__close(void *state, struct clika_error *err)
{
	struct summary *m = state;

	(void)err;
	summary__headline(m);
	summary__recorded(m);
	summary__operations(m);
	summary__warnings(m);
	summary__threads(m);
	summary__waits(m);
	summary__requests(m);
	summary__memory(m);
	summary__losses(m);
	summary__processes(m);
	return text_out__error(&m->t);
}

static void summary__free(void *state)
{
	struct summary *m = state;

	text_out__free(&m->t);
	free(m);
}

const struct exporter_ops exporter_summary = {
	.format = "summary",
	.file = "summary.txt",
	.summary = "text: time by operation, threads, waiting, requests, memory, losses",
	.standard = true,
	.open = summary__open,
	.stats = summary__stats,
	.close = summary__close,
	.free = summary__free,
};
