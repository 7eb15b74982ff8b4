// SPDX-License-Identifier: Apache-2.0
/* report.json: everything that can be added up, for programs. */
#include "export/report.h"

#include <errno.h>
#include <stdlib.h>

static int report__open(struct session *s, struct outfile *out, const struct export_opts *o,
			void **state, struct clika_error *err)
{
	struct report *r = calloc(1, sizeof(*r));

	(void)o;
	if (!r)
		return error__set(err, -ENOMEM, "out of memory");
	*state = r;
	if (report__init(r, s, out) || call_tree__init(&r->tree, s))
		return error__set(err, -ENOMEM, "out of memory");
	return 0;
}

static int report__item(void *state, const struct item *it)
{
	struct report *r = state;

	return call_tree__item(&r->tree, it);
}

static void report__stats(void *state, const struct stats *st)
{
	struct report *r = state;

	r->st = st;
}

static int report__call_tree(struct report *r)
{
	json__key(&r->j, "call_tree");
	return call_tree__write(&r->tree, &r->j, &r->names);
}

static int report__close(void *state, struct clika_error *err)
{
	static void (*const sections[])(struct report *) = {
		report__targets,  report__captures, report__loss,  report__counts,
		report__warnings, report__ops,      report__types, report__tags,
		report__threads,  report__requests, report__flows, report__asyncs,
		report__counters, report__memory,
	};
	/* Sections of other profilers that no record of ours tells anything about yet. */
	static const char *const unknown[] = { "kernels", "memory_copies", "api_calls",
					       "system_calls" };
	struct report *r = state;
	size_t i;
	int code;

	json__object(&r->j);
	report__head(r, "clika-bpf-prof report");
	for (i = 0; i < ARRAY_SIZE(sections); i++) {
		json__line(&r->j);
		sections[i](r);
	}
	json__line(&r->j);
	code = report__call_tree(r);
	if (code)
		return error__set(err, code, "out of memory");
	json__line(&r->j);
	for (i = 0; i < ARRAY_SIZE(unknown); i++)
		put_null(r, unknown[i]);
	return report__end(r);
}

static void report__close_state(void *state)
{
	struct report *r = state;

	call_tree__free(&r->tree);
	report__free(r);
	free(r);
}

const struct exporter_ops exporter_report = {
	.format = "report",
	.file = "report.json",
	.summary = "JSON: totals of operations, threads, requests, memory, losses",
	.standard = true,
	.open = report__open,
	.item = report__item,
	.stats = report__stats,
	.close = report__close,
	.free = report__close_state,
};
