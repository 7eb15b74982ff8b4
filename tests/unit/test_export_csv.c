// SPDX-License-Identifier: Apache-2.0
/* Spans as a table, read back by the rules of RFC 4180. */
#include "tests/common/export_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

enum {
	ID,
	PARENT,
	DEPTH,
	PROCESS,
	PID,
	THREAD,
	TID,
	NAME,
	CATEGORY,
	START,
	DURATION,
	SELF,
	UNIX,
	CAPTURES,
	SOURCE,
	FLAGS,
	ARGUMENTS,
	N_COLUMNS
};

struct table {
	char *text; /* cells in place */
	char *cell[64][N_COLUMNS];
	size_t n;
};

struct world {
	struct rec *b;
	uint32_t server, main, worker;
	struct table t;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->b = rec__new();
	w->server = rec__process(w->b, 100, "server");
	w->main = rec__thread(w->b, w->server, 100, "main");
	w->worker = rec__thread(w->b, w->server, 101, "worker");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	rec__free(w->b);
	free(w->t.text);
	free(w);
	return 0;
}

/* One cell; returns what follows its separator, *@last: it ended the row. */
static char *read_cell(char *p, char **cell, bool *last)
{
	bool quoted = *p == '"';
	char *to;

	*cell = to = p;
	if (quoted)
		p++;
	for (;; p++) {
		if (quoted && *p == '"') {
			if (p[1] != '"') {
				p++;
				break;
			}
			p++;
		} else if (!quoted && (*p == ',' || *p == '\r')) {
			break;
		} else if (!quoted) {
			assert_true(*p != '"');
		}
		/* Cells hold no control byte, so no line break either. */
		assert_true((unsigned char)*p >= 0x20);
		*to++ = *p;
	}
	*last = *p == '\r';
	if (*last)
		assert_int_equal(*++p, '\n');
	else
		assert_int_equal(*p, ',');
	*to = '\0';
	return p + 1;
}

static void read_table(struct world *w, const char *format_header)
{
	struct table *t = &w->t;
	size_t len, column;
	char *p;
	bool last;

	t->text = export__text(w->b, "csv", NULL, NULL, &len);
	assert_int_equal(strlen(t->text), len);
	assert_true(utf8__valid(t->text, len));
	assert_int_equal(strncmp(t->text, format_header, strlen(format_header)), 0);
	for (p = t->text + strlen(format_header); *p; t->n++) {
		assert_true(t->n < ARRAY_SIZE(t->cell));
		for (column = 0, last = false; !last; column++) {
			assert_true(column < N_COLUMNS);
			p = read_cell(p, &t->cell[t->n][column], &last);
		}
		assert_int_equal(column, N_COLUMNS);
	}
}

static const char header[] =
	"id,parent_id,depth,process,pid,thread,tid,name,category,start_ns,duration_ns,self_ns,"
	"start_unix_ns,captures,source,flags,arguments\r\n";

static void writes_one_row_a_span_when_it_ends(void **state)
{
	struct world *w = *state;
	char *(*c)[N_COLUMNS] = w->t.cell;

	rec__anchor(w->b, 1000, 1700000000000000000);
	rec__anchor(w->b, 9000, 1700000000000008000);
	rec__capture(w->b, 1000, 9000, "all of it");
	rec__capture(w->b, 1200, 1300, "some");
	rec__span(w->b, w->main, 1000, 5000, "step")->cat = rec__id(w->b, "runtime");
	rec__arg_u64(w->b, "size", 18446744073709551615ull);
	rec__arg_f64(w->b, "inf", INFINITY);
	rec__arg_str(w->b, "shape", "1x3, \"x\"", 8);
	rec__span(w->b, w->main, 1100, 500, "load")->src = rec__id(w->b, "engine.c:12");
	rec__open_span(w->b, w->worker, 2000, 0, "loop");
	read_table(w, header);
	assert_int_equal(w->t.n, 3);
	assert_string_equal(c[0][NAME], "load");
	assert_string_equal(c[0][ID], "2");
	assert_string_equal(c[0][PARENT], "1");
	assert_string_equal(c[0][DEPTH], "1");
	assert_string_equal(c[0][SOURCE], "engine.c:12");
	assert_string_equal(c[0][CAPTURES], "all of it;some");
	assert_string_equal(c[1][NAME], "step");
	assert_string_equal(c[1][CATEGORY], "runtime");
	assert_string_equal(c[1][PARENT], "");
	assert_string_equal(c[1][PROCESS], "server");
	assert_string_equal(c[1][PID], "100");
	assert_string_equal(c[1][THREAD], "main");
	assert_string_equal(c[1][TID], "100");
	assert_string_equal(c[1][START], "0");
	assert_string_equal(c[1][DURATION], "5000");
	assert_string_equal(c[1][SELF], "4500");
	assert_string_equal(c[1][UNIX], "1700000000000000000");
	assert_string_equal(
		c[1][ARGUMENTS],
		"{\"size\":18446744073709551615,\"inf\":null,\"shape\":\"1x3, \\\"x\\\"\"}");
	assert_string_equal(c[2][NAME], "loop");
	assert_string_equal(c[2][FLAGS], "unfinished");
}

static void no_cell_starts_a_formula(void **state)
{
	static const char *const names[][2] = {
		{ "=1+1", "'=1+1" },
		{ "+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0" },
		{ "-2", "'-2" },
		{ "@SUM(A1)", "'@SUM(A1)" },
		{ "'quoted", "''quoted" },
		{ "\t=1", "\\x09=1" },
		{ "\r\n=1", "\\x0d\\x0a=1" },
		{ "a=b", "a=b" },
	};
	struct world *w = *state;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		rec__span(w->b, w->main, 1000 + 100 * i, 10, names[i][0]);
	read_table(w, header);
	assert_int_equal(w->t.n, ARRAY_SIZE(names));
	for (i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(w->t.cell[i][NAME], names[i][1]);
}

static void arguments_stay_json_whatever_they_hold(void **state)
{
	static const char hostile[] = "a\x1b[31m\"\\\n\xff\xc2\x9b,;\xe2\x80\xae\x7f";
	struct world *w = *state;
	const char *text;
	cJSON *tree;

	rec__span(w->b, w->main, 1000, 10, "op");
	rec__arg_str(w->b, hostile, hostile, sizeof(hostile) - 1);
	rec__arg_i64(w->b, "twice", 1);
	rec__arg_i64(w->b, "twice", -2);
	read_table(w, header);
	tree = cJSON_ParseWithOpts(w->t.cell[0][ARGUMENTS], NULL, true);
	assert_non_null(tree);
	assert_int_equal(cJSON_GetArraySize(tree), 2);
	assert_int_equal(cJSON_GetObjectItem(tree, "twice")->valuedouble, -2);
	text = tree->child->valuestring;
	assert_string_equal(text, "a\x1b[31m\"\\\n\xef\xbf\xbd\xc2\x9b,;\xe2\x80\xae\x7f");
	cJSON_Delete(tree);
}

static void has_a_header_when_there_is_no_span(void **state)
{
	struct world *w = *state;

	read_table(w, header);
	assert_int_equal(w->t.n, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(writes_one_row_a_span_when_it_ends),
		TEST(no_cell_starts_a_formula),
		TEST(arguments_stay_json_whatever_they_hold),
		TEST(has_a_header_when_there_is_no_span),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
