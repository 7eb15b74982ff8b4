/* SPDX-License-Identifier: Apache-2.0 */
/* The record verb in three files: its options, its status line, its course. */
#ifndef CLIKA_USER_CLI_RECORD_H
#define CLIKA_USER_CLI_RECORD_H

#include "user/cli/cli.h"

struct record {
	struct clika_recorder_opts opts;
	struct pid_list pids;
	struct str_list probes, usdts, names, recipes;
	uint64_t duration_ns; /* 0 = no limit */
	const char *formats;  /* what to export, checked */
	char default_formats[64];
	char output[4096]; /* "" = not named */
	bool no_export, force, quiet;
	int verbose;
};
/* 0: go on; > 0: enum exit_code, told already; < 0: help was shown. */
int record__parse(struct record *rec, int argc, char **argv);
void record__free(struct record *rec);

/* The live line on a terminal; does nothing when stderr is not one. */
struct status_line {
	bool active, shown;
	uint64_t last_ns; /* when it was drawn */
	uint64_t rate_ns, rate_spans;
	double spans_per_s;
};
void status_line__init(struct status_line *s, bool wanted);
void status_line__update(struct status_line *s, const struct clika_recorder_stats *st);
void status_line__note(struct status_line *s, const char *text); /* "saving ..." */
void status_line__erase(struct status_line *s);

uint64_t now_ns(void); /* CLOCK_MONOTONIC: for waiting only, never in a file */

#endif
