/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exporter a file, one table of them. Every exporter is a sink of the same walk over a const
 * session, so that any number of formats costs one pass over the recording.
 */
#ifndef CLIKA_EXPORT_EXPORTER_H
#define CLIKA_EXPORT_EXPORTER_H

#include "user/session/stats.h"

struct export_opts {
	size_t sz;             /* sizeof(struct export_opts): grows compatibly */
	bool stack_args;       /* write arguments of spans (default true by export_opts__init) */
	unsigned columns;      /* width of text output, 0 = 100 */
	unsigned top;          /* rows in text tables, 0 = 30 */
	bool compress_packets; /* Perfetto: packed inside, so that every reader opens it as it is */
	const char *step_name; /* Kineto: spans whose name fits this glob are steps; NULL = none */
};
void export_opts__init(struct export_opts *o);

struct exporter_ops {
	const char *format;  /* "chrome": what --format takes */
	const char *file;    /* "chrome_trace.json": name in an output folder */
	const char *summary; /* one line for --help */
	bool standard;       /* part of the standard set */
	/* State is the exporter's own. open() may write a head; item() sees every item of the walk
	 * (NULL: wants none); close() writes the rest (session__counts() is complete then). free()
	 * always follows. */
	int (*open)(struct session *s, struct outfile *out, const struct export_opts *o,
		    void **state, struct clika_error *err);
	int (*item)(void *state, const struct item *it);
	/* NULL, or: wants what all items add up to. It is added up once for all jobs and given
	 * between the walk and close(); it lives until free() is over. */
	void (*stats)(void *state, const struct stats *st);
	int (*close)(void *state, struct clika_error *err);
	void (*free)(void *state);
};

extern const struct exporter_ops *const exporters[]; /* NULL-terminated */
const struct exporter_ops *exporter__find(const char *format);

struct export_job {
	const struct exporter_ops *ops;
	struct outfile *out; /* committed or aborted by exporter__run() */
	int err;             /* how it went, given by exporter__run() */
	uint64_t failed_at;  /* ts of the item that it failed at; 0 = none */
};
/* One walk for all jobs. When one fails, the others still finish; the first error is returned. */
int exporter__run(struct session *s, struct export_job *jobs, size_t n, const struct export_opts *o,
		  struct clika_error *err);

#endif
