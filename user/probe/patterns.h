/* SPDX-License-Identifier: Apache-2.0 */
/* What the user asked to probe beside clika markers: --probe and --usdt patterns. */
#ifndef CLIKA_USER_PROBE_PATTERNS_H
#define CLIKA_USER_PROBE_PATTERNS_H

#include "include/wire.h"
#include "user/base/base.h"

struct probe_pattern {
	const char *text; /* as given */
	char *lib, *func; /* globs */
	size_t matched;   /* functions found so far */
};

struct usdt_pattern {
	const char *text;
	char *lib; /* NULL = any file */
	char *provider, *name;
	uint16_t str_mask; /* arguments that are C strings */
	size_t matched;
};

int probe_pattern__parse(const char *text, struct probe_pattern *p, struct clika_error *err);
void probe_pattern__free(struct probe_pattern *p);
int usdt_pattern__parse(const char *text, struct usdt_pattern *p, struct clika_error *err);
void usdt_pattern__free(struct usdt_pattern *p);
/* A library glob means the file's name, or its whole path when it holds a slash. */
bool pattern__lib_matches(const char *glob, const char *path);

#endif
