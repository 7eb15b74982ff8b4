/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables for a terminal: rows of cells that know their unit, sorted and cut to what fits. What a
 * table holds is a row of the list in report_tables.c.
 */
#ifndef CLIKA_USER_PROF_REPORT_VIEW_H
#define CLIKA_USER_PROF_REPORT_VIEW_H

#include "user/session/stats.h"

enum cell_unit {
	CELL_COUNT,
	CELL_NS,
	CELL_AT, /* ns since the begin of the view */
	CELL_BYTES,
	CELL_SHARE, /* millionths */
	CELL_RATE,  /* thousandths a second */
	CELL_PLAIN, /* a number that names something */
};

struct view_column {
	const char *name;  /* what --sort takes */
	const char *title; /* of the column */
	uint8_t width, unit;
	uint8_t rank;    /* 0: always shown; the greatest go first when room is short */
	const char *key; /* of the same number in a row of report.json; NULL = it has none */
};

struct view_cell {
	int64_t v;
	bool known;
};

#define VIEW_MAX_COLUMNS 16

struct view_row {
	char *name;
	const char *category; /* shown behind the name, NULL = none */
	struct view_cell cell[VIEW_MAX_COLUMNS];
};

struct view_rows {
	const struct stats *st;
	struct view_row *rows;
	size_t n, cap;
	int err;
};

struct view_table {
	const char *by;   /* what --by takes; several tables may share it */
	const char *head; /* over the table */
	const char *what; /* title of the first column */
	const char *note; /* below the table, NULL = none */
	const struct view_column *columns;
	size_t n_columns;
	const char *sort; /* column, NULL = as filled in */
	void (*fill)(struct view_rows *rows);
	const char *part;  /* key of the array in report.json */
	const char *label; /* key of a row's name there */
};

extern const struct view_table view_tables[]; /* ends with by == NULL */

/* A new row with all cells unknown; NULL: out of memory (rows->err is set). */
struct view_row *view_rows__add(struct view_rows *rows, const char *fmt, ...) CLIKA_PRINTF(2, 3);

#endif
