// SPDX-License-Identifier: Apache-2.0
/* schema: what the JSON files look like, for programs that read them. */
#include "user/cli/cli.h"

#include <string.h>

static const struct cli_opt options[] = {
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "report|memory|diff|recipe",
	.about = "Prints the JSON Schema (draft 2020-12) of report.json, of memory_stats.json, of "
		 "what\n"
		 "diff --json prints, or of recipes.",
	.examples = "  " CLI_NAME " schema report > report.schema.json\n",
};

static int run(int argc, char **argv)
{
	struct cli_getopt g;
	const char *text;
	size_t i, n = 0;
	char names[128];
	int key;

	cli_getopt__init(&g, options);
	key = cli_getopt__next(&g, argc, argv);
	if (key == 'h') {
		cli_help__print("schema", &help, options);
		return EXIT_OK;
	}
	if (key != -1)
		return EXIT_USAGE;
	names[0] = '\0';
	for (i = 0; clika_schema__name(i) && n < sizeof(names); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
				      clika_schema__name(i));
	if (argc - optind != 1)
		return say_usage("schema", "which one? There are: %s", names);
	text = clika_schema(argv[optind]);
	if (!text)
		return say_usage("schema", "there is no schema '%s'; there are: %s", argv[optind],
				 names);
	fputs(text, stdout);
	return EXIT_OK;
}

const struct cli_verb verb_schema = {
	.name = "schema",
	.summary = "JSON Schema of report.json, memory_stats.json, diff --json, recipes",
	.run = run,
};
