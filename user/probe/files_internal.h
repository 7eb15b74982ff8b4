/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIKA_USER_PROBE_FILES_INTERNAL_H
#define CLIKA_USER_PROBE_FILES_INTERNAL_H

#include "user/probe/files.h"
#include "user/probe/patterns.h"

struct files {
	struct files_opts o;
	struct probed_file **files;
	size_t n_files, cap_files;
	struct map64 *known; /* identity by stat -> number, UINT32_MAX = nothing there */
	struct map64 *dull;  /* identity by event */
	struct hit_site *hits;
	size_t n_hits, cap_hits;
	struct func_probe *funcs;
	size_t n_funcs, cap_funcs;
	struct probe_pattern *probes;
	struct usdt_pattern *usdts;
	size_t n_sites;
};

/* Puts every probe on @p that is wanted there. Number of sites, 0 = nothing, or an error. */
int files__attach(struct files *f, struct probed_file *p, struct clika_error *err);

#endif
