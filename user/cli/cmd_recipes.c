// SPDX-License-Identifier: Apache-2.0
/* recipes: which there are, what they say, what they find in a file. */
#include "user/cli/cli.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_opt options[] = {
	{ 'j', "json", NULL, "the list as JSON; with show: the file as it is" },
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "[--json] | show NAME [--json] | check FILE...",
	.about = "Recipes say what to probe in runtimes that carry no markers. Without a word they "
		 "are listed;\n"
		 "show tells what one records, and what is off and why; check tells what they find "
		 "in a program\n"
		 "or library. A recipe (.json) among the files is checked itself, and tried on the "
		 "others.",
	.examples = "  " CLI_NAME " recipes\n"
		    "  " CLI_NAME " recipes show pytorch\n"
		    "  " CLI_NAME " recipes check /usr/lib/libllama.so\n"
		    "  " CLI_NAME " recipes check ./mine.json ./libmine.so\n",
	.after = "Exit status: 0 done, 1 failed or a recipe with a mistake, 2 usage, 4 there is no "
		 "such recipe\nor file, or no recipe fits the file.",
};

struct list {
	struct table *table; /* or: */
	cJSON *json;
};

static void on_log(void *ctx, int level, const char *area, const char *line)
{
	(void)ctx;
	(void)level;
	(void)area;
	say_warning("%s", line);
}

static void add_text(cJSON *to, const char *key, const char *s)
{
	char *valid = s ? text__utf8(s) : NULL;

	if (valid)
		cJSON_AddStringToObject(to, key, valid);
	else
		cJSON_AddNullToObject(to, key);
	free(valid);
}

static int on_recipe(void *ctx, const struct clika_recipe *r)
{
	struct list *l = ctx;
	char text[32];
	cJSON *o;

	if (l->json) {
		o = cJSON_CreateObject();
		add_text(o, "name", r->name);
		add_text(o, "title", r->title);
		add_text(o, "versions", r->versions);
		add_text(o, "records", r->records);
		add_text(o, "from", r->from);
		cJSON_AddBoolToObject(o, "automatic", r->automatic);
		cJSON_AddNumberToObject(o, "functions", r->functions);
		cJSON_AddNumberToObject(o, "off", r->off);
		cJSON_AddItemToArray(l->json, o);
		return 0;
	}
	table__cell(l->table, r->name);
	table__cell(l->table, r->automatic ? "by itself" : "when named");
	snprintf(text, sizeof(text), "%u", r->functions - r->off);
	table__cell(l->table, text);
	snprintf(text, sizeof(text), "%u", r->off);
	table__cell(l->table, text);
	table__cell(l->table, r->from);
	table__cell(l->table, r->title);
	return 0;
}

static int list(bool json)
{
	static const char *const heads[] = {
		"RECIPE", "APPLIES", "ENTRIES", "OFF", "FROM", "TITLE"
	};
	struct clika_prof_error err = { 0 };
	struct list l = { 0 };
	char *text;
	size_t i;
	int rc;

	if (json)
		l.json = cJSON_CreateArray();
	else
		l.table = table__new(ARRAY_LEN(heads));
	for (i = 0; l.table && i < ARRAY_LEN(heads); i++)
		table__cell(l.table, heads[i]);
	rc = l.json || l.table ? clika_recipes(on_recipe, &l, on_log, NULL, &err) : -ENOMEM;
	if (!rc && l.json) {
		text = cJSON_Print(l.json);
		rc = text ? (puts(text), 0) : -ENOMEM;
		cJSON_free(text);
	} else if (!rc) {
		rc = table__print(l.table, stdout);
	}
	cJSON_Delete(l.json);
	table__free(l.table);
	if (!rc)
		return EXIT_OK;
	err.code = rc;
	return say_failure(&err);
}

/* A mistake in a file is no wrong command line. */
static int recipe_failure(const struct clika_prof_error *err)
{
	int rc = say_failure(err);

	return rc == EXIT_USAGE ? EXIT_FAILED : rc;
}

static int show(const char *name, bool json)
{
	struct clika_prof_error err = { 0 };
	char *text;
	size_t len;

	if (clika_recipe__show(name, json, output__columns(100), &text, &len, &err))
		return recipe_failure(&err);
	fwrite(text, 1, len, stdout);
	free(text);
	return EXIT_OK;
}

static bool is_recipe(const char *path)
{
	size_t n = strlen(path);

	return n > 5 && !strcmp(path + n - 5, ".json");
}

static int check_recipe(const char *path)
{
	struct clika_prof_error err = { 0 };
	char named[4200], *text;
	size_t len;

	/* A bare file name is a file here, never a recipe's name. */
	snprintf(named, sizeof(named), "%s%s", strchr(path, '/') ? "" : "./", path);
	if (clika_recipe__show(named, false, 0, &text, &len, &err))
		return recipe_failure(&err);
	printf("%s: a recipe without mistakes\n", path);
	free(text);
	return EXIT_OK;
}

static int check_file(const char *path, const char *const *recipes, size_t n)
{
	struct clika_recipe_check result = { .sz = sizeof(result) };
	struct clika_prof_error err = { 0 };
	char *text;
	size_t len;

	if (clika_recipe__check(path, recipes, n, output__columns(100), &text, &len, &result, &err))
		return recipe_failure(&err);
	if (!result.recipes) {
		say("%s: no recipe fits", path);
		free(text);
		return EXIT_NO_TARGET;
	}
	printf("%s: ", path);
	fwrite(text, 1, len, stdout);
	printf("  in all     %u functions, %u patterns that find none\n", result.functions,
	       result.silent);
	free(text);
	return EXIT_OK;
}

static int check(char **files, size_t n)
{
	const char **recipes = calloc(n, sizeof(*recipes));
	size_t i, n_recipes = 0;
	int rc = EXIT_OK, one;

	if (!recipes) {
		say_error("out of memory");
		return EXIT_FAILED;
	}
	for (i = 0; i < n; i++) {
		if (!is_recipe(files[i]))
			continue;
		one = check_recipe(files[i]);
		if (one)
			rc = one;
		else
			recipes[n_recipes++] = files[i];
	}
	for (i = 0; i < n; i++) {
		one = is_recipe(files[i]) ? 0 : check_file(files[i], recipes, n_recipes);
		if (one && !rc)
			rc = one;
	}
	free(recipes);
	return rc;
}

static int run_words(char **words, size_t n, bool json)
{
	if (!n)
		return list(json);
	if (!strcmp(words[0], "show")) {
		if (n != 2)
			return say_usage("recipes",
					 "show which one? '" CLI_NAME " recipes' lists them");
		return show(words[1], json);
	}
	if (!strcmp(words[0], "check")) {
		if (n < 2)
			return say_usage("recipes", "check which file?");
		if (json)
			return say_usage("recipes", "check has no --json");
		return check(words + 1, n - 1);
	}
	return say_usage("recipes", "'%s' is neither show nor check", words[0]);
}

static int run(int argc, char **argv)
{
	char **words = calloc((size_t)argc + 1, sizeof(*words));
	struct cli_getopt g;
	bool json = false;
	size_t n = 0;
	int key, rc = words ? -1 : EXIT_FAILED;

	cli_getopt__init(&g, options);
	/* Words and options in any order. */
	while (rc < 0 && optind < argc) {
		key = cli_getopt__next(&g, argc, argv);
		if (key == 'j') {
			json = true;
		} else if (key == 'h') {
			cli_help__print("recipes", &help, options);
			rc = EXIT_OK;
		} else if (key != -1) {
			rc = EXIT_USAGE;
		} else if (optind < argc) {
			words[n++] = argv[optind++];
		}
	}
	if (rc < 0)
		rc = run_words(words, n, json);
	free(words);
	return rc;
}

const struct cli_verb verb_recipes = {
	.name = "recipes",
	.summary = "what is probed in runtimes without markers",
	.run = run,
};
