/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind the public face of recordings share. */
#ifndef CLIKA_USER_PROF_RECORDING_IMPL_H
#define CLIKA_USER_PROF_RECORDING_IMPL_H

#include "clika/prof.h"
#include "export/exporter.h"

#include <string.h>

struct clika_recording {
	struct recording *r;
	struct session *s;
};

#define EXPORT_MAX_JOBS 32
struct export_jobs {
	struct export_job job[EXPORT_MAX_JOBS];
	size_t n;
};
/* A list of formats as callers write it; each once. */
int export_jobs__parse(struct export_jobs *j, const char *formats, struct clika_error *err);
struct export_opts export_opts__of(const struct clika_export_opts *o);
/* @given, as far as it goes; NULL: what is usual. */
struct clika_export_opts export_opts__own(const struct clika_export_opts *given);

/* Hands an error of the library over to its caller; returns @code. */
static inline int error__give(struct clika_prof_error *out, const struct clika_error *err, int code)
{
	if (out && code) {
		out->code = code;
		memcpy(out->msg, err->msg, sizeof(out->msg));
		out->msg[sizeof(out->msg) - 1] = '\0';
	}
	return code;
}

/* Callers built against an older header give a shorter struct: the rest stays at its default. */
#define TAKE_OPTS(to, from)                                                                        \
	do {                                                                                       \
		size_t bytes_ = (from)->sz < sizeof(*(to)) ? (from)->sz : sizeof(*(to));           \
		memcpy(to, from, bytes_);                                                          \
	} while (0)

#endif
