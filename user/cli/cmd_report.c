// SPDX-License-Identifier: Apache-2.0
/* report: tables on the terminal, from a recording. */
#include "user/cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_BY = 256,
	OPT_SORT,
	OPT_FILTER,
	OPT_TOP,
	OPT_JSON,
};

static const struct cli_opt options[] = {
	{ 1, NULL, NULL, "What to show:" },
	{ OPT_BY, "by", "TABLE",
	  "op, type, thread, request, memory or capture\n"
	  "(default: what was recorded, then op)" },
	{ OPT_SORT, "sort", "COLUMN",
	  "greatest first, names from a to z; -COLUMN: turned round.\nColumns are below" },
	{ OPT_FILTER, "filter", "GLOB", "rows whose name matches; sums stay those of all" },
	{ OPT_TOP, "top", "N", "rows of a table (default: 30)" },
	{ OPT_JSON, "json", NULL, "report.json, or with --by the rows of that part of it" },
	CLI_VIEW_OPTS,
	{ 1, NULL, NULL, "Other:" },
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "RECORDING [--by TABLE] [--sort COLUMN] [--filter GLOB] [FILTERS]",
	.about = "Shows where the time and the memory went; RECORDING is recording.clika or the "
		 "folder that\n"
		 "holds it. Columns that do not fit the terminal are left out, the one sorted by "
		 "never.",
	.examples = "  " CLI_NAME " report out\n"
		    "  " CLI_NAME " report out --sort p99 --filter 'conv*' --from 2s --to 3s\n"
		    "  " CLI_NAME " report out --by thread --sort -busy\n"
		    "  " CLI_NAME " report out --by request --json | jq '.[0].latency.p99_ns'\n",
};

static const char after[] =
	"Exit status: 0 done, 1 failed, 2 usage, 5 shown, but the recording is incomplete or "
	"damaged.";

/* Two tables of one name may have a column in common. */
static bool is_repeated(const char *table, size_t column)
{
	const char *name = clika_report__column(table, column);
	size_t i;

	for (i = 0; i < column; i++)
		if (!strcmp(clika_report__column(table, i), name))
			return true;
	return false;
}

static void print_columns(void)
{
	const char *table, *column;
	size_t i, k;

	printf("\nColumns:\n");
	for (i = 0; (table = clika_report__table(i)); i++) {
		size_t used = (size_t)printf("  %-9s name", table);

		for (k = 0; (column = clika_report__column(table, k)); k++) {
			char word[32];
			int n;

			if (is_repeated(table, k))
				continue;
			n = snprintf(word, sizeof(word), ", %s", column);

			if (used + (size_t)n > 96)
				used = (size_t)printf(",\n%12s%s", "", word + 2) - 2;
			else
				used += (size_t)printf("%s", word);
		}
		printf("\n");
	}
	printf("\n%s\n", after);
}

struct report {
	const char *recording;
	struct clika_view_opts view;
	struct clika_report_opts opts;
};

static int parse_option(struct report *r, int key)
{
	uint32_t v = 0;
	int rc = 0;

	switch (key) {
	case OPT_BY:
		r->opts.by = optarg;
		break;
	case OPT_SORT:
		r->opts.sort = optarg;
		break;
	case OPT_FILTER:
		r->opts.filter = optarg;
		break;
	case OPT_TOP:
		rc = option__number("report", "number of rows", optarg, &v);
		r->opts.top = v;
		break;
	case OPT_JSON:
		r->opts.json = true;
		break;
	default:
		rc = view__option("report", key, &r->view);
		rc = rc < 0 ? EXIT_USAGE : rc;
	}
	return rc;
}

static int parse(struct report *r, int argc, char **argv)
{
	struct cli_getopt g;
	int key, rc;

	cli_getopt__init(&g, options);
	while (optind < argc) {
		key = cli_getopt__next(&g, argc, argv);
		if (key == 'h') {
			cli_help__print("report", &help, options);
			print_columns();
			return -1;
		}
		if (key != -1) {
			rc = parse_option(r, key);
			if (rc)
				return rc;
		} else if (optind < argc) {
			if (r->recording)
				return say_usage("report", "'%s' is one argument too many",
						 argv[optind]);
			r->recording = argv[optind++];
		}
	}
	if (!r->recording)
		return say_usage("report", "which recording?");
	return view__check("report", &r->view);
}

static int run(int argc, char **argv)
{
	struct clika_prof_error err = { 0 };
	struct clika_recording *rec = NULL;
	struct report r = { .view.sz = sizeof(r.view) };
	char path[4096], *text = NULL;
	size_t len = 0;
	int rc;

	clika_report_opts__init(&r.opts);
	rc = parse(&r, argc, argv);
	if (rc)
		return rc < 0 ? EXIT_OK : rc;
	r.opts.columns = output__columns(100);
	recording__path(r.recording, path, sizeof(path));
	if (clika_recording__open(path, &r.view, &rec, &err)) {
		say_error("%s", err.msg);
		return EXIT_FAILED;
	}
	rc = EXIT_OK;
	if (clika_recording__report(rec, &r.opts, &text, &len, &err)) {
		say_error("%s", err.msg);
		rc = err.code == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	} else {
		fwrite(text, 1, len, stdout);
		if (recording__tell_incomplete(rec))
			rc = EXIT_INCOMPLETE;
	}
	free(text);
	clika_recording__close(rec);
	return rc;
}

const struct cli_verb verb_report = {
	.name = "report",
	.summary = "tables of where time and memory went",
	.run = run,
};
