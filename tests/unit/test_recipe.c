// SPDX-License-Identifier: Apache-2.0
/* Recipes as text: what they say, and which line a mistake is on. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/probe/recipe.h"

static const char whole[] =
	"// what a recipe may say\n"
	"{\n"
	"  \"recipe\": 1, /* the format */\n"
	"  \"name\": \"demo\",\n"
	"  \"title\": \"A demo // not a comment\",\n"
	"  \"records\": \"calls\",\n"
	"  \"automatic\": false,\n"
	"  \"libraries\": [\n"
	"    { \"id\": \"core\", \"file\": [\"libcore*.so*\"], \"exports\": [\"core_run\"] },\n"
	"    { \"id\": \"extra\", \"soname\": \"libextra.so.1\", \"build_id\": \"ab12\" }\n"
	"  ],\n"
	"  \"layouts\": [\n"
	"    { \"name\": \"thing.name\", \"library\": \"core\", \"accessor\": \"thing_name\",\n"
	"      \"how\": \"load\", \"add\": 8,\n"
	"      \"debug\": { \"type\": \"thing\", \"member\": \"name\" },\n"
	"      \"versions\": [ { \"exports\": \"thing_v2\", \"value\": 40 } ] }\n"
	"  ],\n"
	"  \"tables\": [\n"
	"    { \"name\": \"Api\", \"library\": [\"core\"], \"getter\": \"GetApi\",\n"
	"      \"slots\": { \"3\": \"Run\", \"9\": \"Free\" } }\n"
	"  ],\n"
	"  \"functions\": [\n"
	"    { \"library\": [\"core\"],\n"
	"      \"match\": [\"core_*\", \"ns::*::call\"],\n"
	"      \"except\": \"core_init\",\n"
	"      \"name\": [ { \"if\": { \"arg\": \"n\", \"gt\": 1 }, \"text\": \"$1 (many)\" } ],\n"
	"      \"args\": [\n"
	"        { \"name\": \"n\", \"from\": \"stack2\", \"path\": [ 8, \"thing.name\",\n"
	"          { \"layout\": \"thing.name\", \"add\": -4 } ], \"type\": \"i32\",\n"
	"          \"values\": { \"0\": \"none\", \"-1\": \"all\" } },\n"
	"        { \"name\": \"shape\", \"from\": \"arg1\", \"type\": \"counted\", \"element\": "
	"\"i64\",\n"
	"          \"count\": 5, \"positive\": true, \"if\": { \"arg\": \"n\", \"ne\": 0 } },\n"
	"        { \"name\": \"p\", \"from\": \"return\", \"type\": \"pointer\", \"show\": false "
	"}\n"
	"      ],\n"
	"      \"does\": [\n"
	"        { \"what\": \"alloc\", \"address\": \"p\", \"bytes\": \"n\", \"pool\": \"of "
	"{n}\" },\n"
	"        { \"what\": \"request_output\", \"id\": \"n\",\n"
	"          \"if\": [ { \"arg\": \"n\", \"ge\": 1 }, { \"arg\": \"n\", \"lt\": 9 } ] }\n"
	"      ],\n"
	"      \"keep\": { \"arg\": \"n\", \"at_least\": 65536 }\n"
	"    },\n"
	"    { \"table\": \"Api\", \"match\": \"R*\", \"name\": \"api $1\", \"off\": \"hot\",\n"
	"      \"group\": \"api\", \"category\": \"api\" }\n"
	"  ]\n"
	"}\n";

static struct recipe *parse(const char *text)
{
	struct clika_error err = { 0 };
	struct recipe *r;

	if (recipe__parse(text, strlen(text), "demo.json", &r, &err))
		fail_msg("%s", err.msg);
	return r;
}

static void knows_what_the_file_says(void **state)
{
	struct recipe *r = parse(whole);
	const struct recipe_function *fn;

	(void)state;
	assert_string_equal(r->name, "demo");
	assert_string_equal(r->category, "demo");
	assert_string_equal(r->title, "A demo // not a comment");
	assert_false(r->automatic);
	assert_int_equal(r->n_libraries, 2);
	assert_string_equal(r->libraries[0].exports[0], "core_run");
	assert_string_equal(r->libraries[1].sonames[0], "libextra.so.1");
	assert_int_equal(r->n_layouts, 1);
	assert_int_equal(r->layouts[0].libraries, 1);
	assert_int_equal(r->layouts[0].how, RECIPE_HOW_LOAD);
	assert_int_equal(r->layouts[0].add, 8);
	assert_string_equal(r->layouts[0].debug_member, "name");
	assert_int_equal(r->layouts[0].rows[0].value, 40);
	assert_int_equal(r->tables[0].at_least, 10);
	assert_int_equal(r->tables[0].slots[1].index, 9);

	assert_int_equal(r->n_functions, 2);
	fn = &r->functions[0];
	assert_int_equal(fn->line, 24);
	assert_int_equal(fn->libraries, 1);
	assert_int_equal(fn->table, -1);
	assert_int_equal(fn->n_match, 2);
	assert_string_equal(fn->except[0], "core_init");
	assert_true(fn->span);
	assert_false(fn->off);
	assert_int_equal(fn->n_names, 2);
	assert_int_equal(fn->names[0].ifs.all[0].op, RECIPE_GT);
	assert_string_equal(fn->names[1].text, "$0");
	assert_int_equal(fn->n_args, 3);
	assert_int_equal(fn->args[0].source, RECIPE_STACK);
	assert_int_equal(fn->args[0].index, 2);
	assert_int_equal(fn->args[0].n_path, 3);
	assert_int_equal(fn->args[0].path[0].layout, -1);
	assert_int_equal(fn->args[0].path[0].value, 8);
	assert_int_equal(fn->args[0].path[1].layout, 0);
	assert_int_equal(fn->args[0].path[2].value, -4);
	assert_int_equal(fn->args[0].values[1].value, -1);
	assert_string_equal(fn->args[0].values[1].text, "all");
	assert_int_equal(fn->args[1].type, RECIPE_COUNTED);
	assert_int_equal(fn->args[1].element, RECIPE_I64);
	assert_int_equal(fn->args[1].count, 5);
	assert_true(fn->args[1].positive);
	assert_int_equal(fn->args[1].ifs.all[0].arg, 0);
	assert_true(fn->args[2].hidden);
	assert_int_equal(fn->n_does, 2);
	assert_int_equal(fn->does[0].what, RECIPE_ALLOC);
	assert_true(fn->does[0].at_return); /* the address is what it returns */
	assert_int_equal(fn->does[0].id, 2);
	assert_int_equal(fn->does[0].amount, 0);
	assert_int_equal(fn->does[0].device, -1);
	assert_int_equal(fn->does[0].device_value, 0);
	assert_string_equal(fn->does[0].name, "of {n}");
	assert_false(fn->does[1].at_return);
	assert_int_equal(fn->does[1].amount, -1);
	assert_int_equal(fn->does[1].amount_value, 1);
	assert_int_equal(fn->does[1].ifs.n, 2);
	assert_int_equal(fn->keep_size, 0);
	assert_int_equal(fn->keep_min, 65536);
	assert_int_equal(fn->keep_block, -1);

	fn = &r->functions[1];
	assert_int_equal(fn->table, 0);
	assert_int_equal(fn->libraries, 1); /* the table's */
	assert_true(fn->off);
	assert_string_equal(fn->why_off, "hot");
	assert_string_equal(fn->group, "api");
	recipe__free(r);
}

static void knows_results_left_behind_a_pointer_and_tables_of_classes(void **state)
{
	struct recipe *r =
		parse("{ \"recipe\": 1, \"name\": \"m\", \"libraries\": [ { \"id\": \"c\", "
		      "\"file\": \"x\" } ],\n"
		      "  \"tables\": [ { \"name\": \"K\", \"derived_from\": \"rt::Kernel\", "
		      "\"entries\": 7,\n"
		      "    \"slots\": { \"2\": \"Compute\" } } ],\n"
		      "  \"functions\": [ { \"match\": \"make\", \"args\": [\n"
		      "    { \"name\": \"p\", \"from\": \"arg1\", \"path\": [0], \"type\": "
		      "\"pointer\", \"at\": "
		      "\"return\" },\n"
		      "    { \"name\": \"n\", \"from\": \"arg0\", \"type\": \"u64\" } ],\n"
		      "    \"does\": [ { \"what\": \"alloc\", \"address\": \"p\", \"bytes\": \"n\" "
		      "} ] } ] }\n");

	(void)state;
	assert_true(r->functions[0].args[0].late);
	assert_false(r->functions[0].args[1].late);
	assert_true(r->functions[0].does[0].at_return);
	assert_string_equal(r->tables[0].derived_from, "rt::Kernel");
	assert_int_equal(r->tables[0].entries, 7);
	assert_null(r->tables[0].getter);
	recipe__free(r);
}

/* One change to the whole recipe: the text that is replaced, what stands there then. */
static const struct mistake {
	const char *was, *is, *line, *says;
} mistakes[] = {
	{ "\"name\": \"demo\",\n", "\"name\": \"demo\"\n", "5", "a comma is missing before" },
	{ "\"bytes\": \"n\", \"pool\"", "\"bytes\": \"n\" \"pool\"", "36", "a comma is missing" },
	{ "\"count\": 5, ", "\"count\": 5x, ", "32", "not understood as JSON: x" },
	{ "\"add\": -4 }", "\"add\": -4, }", "29", "a comma before '}'" },
	{ "/* the format */", "/* the format", "3", "comment has no end" },
	{ "  ],\n  \"tables\"", "  ,\n  \"tables\"", "18", "not understood as JSON: : [" },
	{ "\"recipe\": 1,", "\"recipe\": 2,", "3", "recipe format 2" },
	{ "\"name\": \"demo\"", "\"name\": \"Demo!\"", "4", "a-z, 0-9" },
	{ "\"automatic\": false", "\"automatc\": false", "7", "did you mean 'automatic'?" },
	{ "\"automatic\": false", "\"automatic\": 1", "7", "true or false" },
	{ "\"records\": \"calls\"", "\"name\": \"calls\"", "6", "'name' is there twice" },
	{ "\"records\": \"calls\"", "\"records\": \"a\\nb\"", "6", "control character" },
	{ "\"id\": \"extra\", \"soname\": \"libextra.so.1\", \"build_id\": \"ab12\"",
	  "\"id\": \"extra\"", "10", "nothing to be known by" },
	{ "\"id\": \"extra\"", "\"id\": \"core\"", "10", "two libraries have the id 'core'" },
	{ "\"build_id\": \"ab12\"", "\"build_id\": \"AB12\"", "10", "0-9 and a-f" },
	{ "\"how\": \"load\"", "\"how\": \"lod\"", "14", "did you mean 'load'?" },
	{ "\"exports\": \"thing_v2\", \"value\": 40", "\"exports\": \"thing_v2\"", "16",
	  "needs \"value\"" },
	{ "{ \"exports\": \"thing_v2\", \"value\": 40 }", "{ \"value\": 40 }", "16",
	  "either build_id or exports" },
	{ "\"9\": \"Free\"", "\"x\": \"Free\"", "20", "numbers for keys" },
	{ "\"getter\": \"GetApi\"", "\"getter\": \"GetApi\", \"derived_from\": \"a::B\"", "19",
	  "have no 'getter'" },
	{ "\"getter\": \"GetApi\"", "\"getter\": \"GetApi\", \"entries\": 4", "19",
	  "is for classes" },
	{ "\"from\": \"stack2\"", "\"from\": \"stack2\", \"at\": \"return\"", "28",
	  "only arg0 to arg5 are kept" },
	{ "\"from\": \"return\"", "\"from\": \"return\", \"at\": \"entry\"", "33",
	  "not known at the entry" },
	{ "\"from\": \"return\"", "\"from\": \"arg0\", \"at\": \"return\"", "33",
	  "the same at the return" },
	{ "\"from\": \"stack2\"", "\"from\": \"arg2\", \"at\": \"exit\"", "28",
	  "cannot be 'exit'" },
	{ "\"9\": \"Free\"", "\"3\": \"Free\"", "20", "twice" },
	{ "\"library\": [\"core\"],\n      \"match\"", "\"library\": [\"cora\"],\n      \"match\"",
	  "23", "did you mean 'core'?" },
	{ "\"match\": [\"core_*\", \"ns::*::call\"],", "\"match\": [],", "24", "empty list" },
	{ "\"ns::*::call\"", "\"ns::call\"", "26", "'$1', but 'ns::call' has 0 stars" },
	{ "\"text\": \"$1 (many)\"", "\"text\": \"{m} (many)\"", "26", "no argument 'm'" },
	{ "\"text\": \"$1 (many)\"", "\"text\": \"{n (many)\"", "26", "without '}'" },
	{ "\"name\": \"api $1\"", "\"name\": []", "42", "'name' is an empty list" },
	{ "\"text\": \"$1 (many)\"", "\"text\": \"{p}\"", "26", "needed at entry" },
	{ "\"arg\": \"n\", \"gt\": 1", "\"arg\": \"p\", \"gt\": 1", "26", "chosen at entry" },
	{ "\"arg\": \"n\", \"gt\": 1", "\"arg\": \"n\", \"gtt\": 1", "26", "did you mean 'gt'?" },
	{ "\"arg\": \"n\", \"gt\": 1", "\"arg\": \"n\"", "26", "compares with nothing" },
	{ "\"arg\": \"n\", \"gt\": 1", "\"arg\": \"shape\", \"gt\": 1", "26",
	  "must be an integer" },
	{ "\"gt\": 1 }", "\"gt\": 1.5 }", "26", "whole number" },
	{ "\"from\": \"stack2\"", "\"from\": \"arg6\"", "28", "the seventh is stack0" },
	{ "\"from\": \"stack2\"", "\"from\": \"rdi\"", "28", "not 'rdi'" },
	{ "[ 8, \"thing.name\"", "[ 8, \"thing.nam\"", "28", "did you mean 'thing.name'?" },
	{ "[ 8, \"thing.name\"", "[ 8, 1, 2, 3, \"thing.name\"", "29", "more than 5 steps" },
	{ "\"type\": \"i32\"", "\"type\": \"int\"", "29", "cannot be 'int'" },
	{ "\"0\": \"none\"", "\"zero\": \"none\"", "30", "not 'zero'" },
	{ "\"count\": 5", "\"count\": 9", "32", "more than 64 bytes" },
	{ "\"arg\": \"n\", \"ne\": 0", "\"arg\": \"p\", \"ne\": 0", "32", "read at entry" },
	{ "\"name\": \"p\", \"from\": \"return\"", "\"name\": \"n\", \"from\": \"return\"", "33",
	  "two arguments" },
	{ "\"type\": \"pointer\"", "\"type\": \"f32\"", "33", "needs a 'path'" },
	{ "\"what\": \"alloc\"", "\"what\": \"aloc\"", "36", "did you mean 'alloc'?" },
	{ "\"what\": \"alloc\"", "\"what\": \"alloc\", \"when\": \"entry\"", "36",
	  "not known there" },
	{ "\"bytes\": \"n\", ", "", "36", "needs \"bytes\"" },
	{ "\"bytes\": \"n\", ", "\"bytes\": \"n\", \"id\": \"n\", ", "36", "has no 'id'" },
	{ "\"at_least\": 65536", "\"known\": false", "40", "either" },
	{ "\"arg\": \"n\", \"at_least\"", "\"arg\": \"p\", \"at_least\"", "40",
	  "decided at entry" },
	{ "\"match\": \"R*\"", "\"match\": \"X*\"", "42", "no slot named 'X*'" },
	{ "\"table\": \"Api\"", "\"table\": \"Apis\"", "42", "did you mean 'Api'?" },
	{ "\"off\": \"hot\",\n", "\n", "43", "add \"off\"" },
	{ "\"group\": \"api\"", "\"span\": false", "42", "says nothing" },
	{ "\"group\": \"api\"", "\"cut_to_text\": \"__\"", "43", "one character" },
	{ "\"name\": \"api $1\"", "\"name\": \"a$1\", \"cut_to_text\": \"_\"", "42",
	  "begins with a text" },
	{ "\"name\": [ {", "\"cut_to_text\": \"_\", \"name\": [ {", "26", "one 'name'" },
};

static void knows_where_a_name_may_be_cut(void **state)
{
	struct recipe *r = parse(
		"{\"recipe\": 1, \"name\": \"demo\", \"title\": \"demo\", \"records\": \"calls\","
		"\"libraries\": [{\"id\": \"core\", \"file\": \"lib*\"}],"
		"\"functions\": [{\"match\": \"ns::*::call\", \"name\": \"ns::$1\","
		"\"cut_to_text\": \"_\"}, {\"match\": \"x\"}]}");

	(void)state;
	assert_int_equal(r->functions[0].cut_at, '_');
	assert_int_equal(r->functions[1].cut_at, 0);
	recipe__free(r);
}

static char *changed(const struct mistake *m)
{
	const char *at = strstr(whole, m->was);
	char *text = malloc(sizeof(whole) + strlen(m->is) + 1);

	if (!at || !text)
		fail_msg("'%s' is not in the recipe", m->was);
	sprintf(text, "%.*s%s%s", (int)(at - whole), whole, m->is, at + strlen(m->was));
	return text;
}

static void names_line_and_reason_of_mistakes(void **state)
{
	char place[32];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(mistakes); i++) {
		const struct mistake *m = &mistakes[i];
		char *text = changed(m);
		struct clika_error err = { 0 };
		struct recipe *r;
		int rc = recipe__parse(text, strlen(text), "demo.json", &r, &err);

		snprintf(place, sizeof(place), "demo.json:%s: ", m->line);
		if (rc != -EINVAL || r || strncmp(err.msg, place, strlen(place)) != 0 ||
		    !strstr(err.msg, m->says))
			fail_msg("'%s': expected %s...%s\ngot %d %s", m->is, place, m->says, rc,
				 err.msg);
		free(text);
	}
}

static void every_cut_is_an_error_not_a_crash(void **state)
{
	struct clika_error err;
	struct recipe *r;
	size_t n;

	(void)state;
	for (n = 0; n < sizeof(whole) - 2; n++)
		if (recipe__parse(whole, n, "cut", &r, &err) != -EINVAL)
			fail_msg("the first %zu bytes were taken", n);
}

static void refuses_what_is_no_text_or_has_no_end(void **state)
{
	struct clika_error err;
	struct recipe *r;
	size_t n = 2u << 20;
	char *big = malloc(n);

	(void)state;
	assert_non_null(big);
	memset(big, '[', n);
	assert_int_equal(recipe__parse(big, n, "big", &r, &err), -EFBIG);
	assert_int_equal(recipe__parse(big, 100000, "deep", &r, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "deep:1: nested"));
	assert_int_equal(recipe__parse("{\0}", 3, "zero", &r, &err), -EINVAL);
	assert_int_equal(recipe__parse("{\"name\": \"\xff\"}", 14, "bytes", &r, &err), -EINVAL);
	assert_int_equal(recipe__parse("[1]", 3, "list", &r, &err), -EINVAL);
	assert_int_equal(recipe__parse("", 0, "nothing", &r, &err), -EINVAL);
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_what_the_file_says),
		cmocka_unit_test(knows_results_left_behind_a_pointer_and_tables_of_classes),
		cmocka_unit_test(knows_where_a_name_may_be_cut),
		cmocka_unit_test(names_line_and_reason_of_mistakes),
		cmocka_unit_test(every_cut_is_an_error_not_a_crash),
		cmocka_unit_test(refuses_what_is_no_text_or_has_no_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
