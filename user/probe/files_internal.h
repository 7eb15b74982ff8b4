/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIKA_USER_PROBE_FILES_INTERNAL_H
#define CLIKA_USER_PROBE_FILES_INTERNAL_H

#include "user/probe/files.h"
#include "user/probe/layout.h"
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
	struct func_kind **kinds;
	size_t n_kinds, cap_kinds;
	struct map64 *fetch_sets; /* hash of a set -> its number */
	uint32_t n_fetch_sets;
	unsigned n_switches;
	pid_t pid;      /* that maps the file in hand; 0 = not known */
	bool settled;   /* and has come so far that its libraries are relocated */
	bool full_told; /* that there are more functions than the kernel should be given */
	size_t n_sites;
};

struct site_list {
	struct probe_site *sites;
	size_t n, cap;
};
int site_list__add(struct site_list *l, uint64_t offset, uint64_t semaphore, uint64_t cookie);

/* Sites of one file that the kernel refused. */
struct refusals {
	struct files *f;
	const struct probed_file *p;
	size_t n;
	struct probe_site
		*sites; /* of functions: what was asked for, refused ones are marked there */
};

void func_probe__free(struct func_probe *fp);
void files__warn(struct files *f, const char *code, const char *fmt, ...) CLIKA_PRINTF(3, 4);

/* files_funcs.c: functions by patterns and recipes. Number of sites, or an error. */
int files__attach_funcs(struct files *f, struct probed_file *p, struct clika_error *err);
/* files_layout.c: the recipe's layouts as this file, or one that the same process maps, tells them. */
void files__layouts(struct files *f, const struct recipe *r, uint64_t libraries,
		    struct probed_file *p, int64_t *values, bool *known);
/* False: a table of the recipe lies otherwise in the live process. */
bool files__tables_confirmed(struct files *f, const struct recipe *r, uint64_t libraries,
			     struct probed_file *p);

/* Puts every probe on @p that is wanted there. Number of sites, 0 = nothing, or an error. */
int files__attach(struct files *f, struct probed_file *p, struct clika_error *err);

#endif
