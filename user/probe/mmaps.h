/* SPDX-License-Identifier: Apache-2.0 */
/* Executable mappings as the kernel makes them, on the whole machine (PERF_RECORD_MMAP2). */
#ifndef CLIKA_USER_PROBE_MMAPS_H
#define CLIKA_USER_PROBE_MMAPS_H

#include "user/base/base.h"

struct mmap_event {
	uint32_t pid, tid; /* in the loader's pid namespace */
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	const char *path;
};

struct mmaps;
int mmaps__new(struct mmaps **out, struct clika_error *err);
void mmaps__free(struct mmaps *m);
int mmaps__fd(const struct mmaps *m); /* epoll descriptor */
/* Calls @fn for each mapping seen since. */
int mmaps__drain(struct mmaps *m, void (*fn)(void *ctx, const struct mmap_event *e), void *ctx);
uint64_t mmaps__lost(const struct mmaps *m);

#endif
