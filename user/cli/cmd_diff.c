// SPDX-License-Identifier: Apache-2.0
/* diff: what changed between two recordings, and whether it is more than noise. */
#include "user/cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_FAIL_ABOVE = 256,
	OPT_METRIC,
	OPT_EITHER_WAY,
	OPT_PER_SECOND,
	OPT_FILTER,
	OPT_TOP,
	OPT_JSON,
};

static const struct cli_opt options[] = {
	{ 1, NULL, NULL, "To guard a build:" },
	{ OPT_FAIL_ABOVE, "fail-above", "PERCENT",
	  "exit with 1 when something grew by more than this and by\n"
	  "more than its noise" },
	{ OPT_METRIC, "metric", "WHAT", "what must not grow: median (default), total or count" },
	{ OPT_EITHER_WAY, "either-way", NULL, "what shrank by that much fails, too" },
	{ 1, NULL, NULL, "What to show:" },
	{ OPT_PER_SECOND, "per-second", NULL,
	  "counts and totals for each second that was observed" },
	{ OPT_FILTER, "filter", "GLOB", "compare only what has such a name" },
	{ OPT_TOP, "top", "N", "rows of the table (default: 30)" },
	{ OPT_JSON, "json", NULL, "everything as JSON" },
	CLI_VIEW_OPTS,
	{ 1, NULL, NULL, "Other:" },
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "A B [--fail-above PERCENT] [--metric WHAT] [--json] [FILTERS]",
	.about = "Compares B with A: count, median and total of each operation, and of the latency "
		 "of\n"
		 "requests. Each is a recording (recording.clika or its folder) or a report.json.\n"
		 "Each change comes with its noise: how much chance alone may change it, judged "
		 "from\n"
		 "the spread inside the two. A star marks what is past it.",
	.examples = "  " CLI_NAME " diff before after\n"
		    "  " CLI_NAME " diff before/report.json after --fail-above 5%\n"
		    "  " CLI_NAME
		    " diff before after --metric total --per-second --fail-above 10\n",
	.after = "Exit status: 0 nothing failed, 1 past --fail-above or failed, 2 usage.",
};

struct diff {
	const char *path[2];
	size_t n;
	struct clika_view_opts view;
	struct clika_diff_opts opts;
};

static int parse_percent(const char *text, double *to)
{
	char *end;

	errno = 0;
	*to = strtod(text, &end);
	if (*end == '%')
		end++;
	if (!isdigit((unsigned char)*text) || *end || errno || *to > 1e9)
		return say_usage("diff", "'%s' is no percentage (5%%, 2.5)", text);
	return 0;
}

static int parse_option(struct diff *d, int key)
{
	uint32_t v = 0;
	int rc = 0;

	switch (key) {
	case OPT_FAIL_ABOVE:
		rc = parse_percent(optarg, &d->opts.fail_above);
		break;
	case OPT_METRIC:
		d->opts.metric = optarg;
		break;
	case OPT_EITHER_WAY:
		d->opts.either_way = true;
		break;
	case OPT_PER_SECOND:
		d->opts.per_second = true;
		break;
	case OPT_FILTER:
		d->opts.filter = optarg;
		break;
	case OPT_TOP:
		rc = option__number("diff", "number of rows", optarg, &v);
		d->opts.top = v;
		break;
	case OPT_JSON:
		d->opts.json = true;
		break;
	default:
		rc = view__option("diff", key, &d->view);
		rc = rc < 0 ? EXIT_USAGE : rc;
	}
	return rc;
}

static int parse(struct diff *d, int argc, char **argv)
{
	struct cli_getopt g;
	int key, rc;

	cli_getopt__init(&g, options);
	while (optind < argc) {
		key = cli_getopt__next(&g, argc, argv);
		if (key == 'h') {
			cli_help__print("diff", &help, options);
			return -1;
		}
		if (key != -1) {
			rc = parse_option(d, key);
			if (rc)
				return rc;
		} else if (optind < argc) {
			if (d->n == 2)
				return say_usage("diff", "'%s' is one argument too many",
						 argv[optind]);
			d->path[d->n++] = argv[optind++];
		}
	}
	if (d->n < 2)
		return say_usage("diff", "which two recordings?");
	return view__check("diff", &d->view);
}

static int run(int argc, char **argv)
{
	struct clika_diff_result result = { .sz = sizeof(result) };
	struct clika_prof_error err = { 0 };
	struct diff d = { .view.sz = sizeof(d.view) };
	char a[4096], b[4096], *text = NULL;
	size_t len = 0;
	int rc;

	clika_diff_opts__init(&d.opts);
	rc = parse(&d, argc, argv);
	if (rc)
		return rc < 0 ? EXIT_OK : rc;
	d.opts.view = &d.view;
	d.opts.columns = output__columns(100);
	recording__path(d.path[0], a, sizeof(a));
	recording__path(d.path[1], b, sizeof(b));
	if (clika_diff(a, b, &d.opts, &text, &len, &result, &err)) {
		say_error("%s", err.msg);
		return err.code == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	fwrite(text, 1, len, stdout);
	free(text);
	return result.failed ? EXIT_FAILED : EXIT_OK;
}

const struct cli_verb verb_diff = {
	.name = "diff",
	.summary = "what changed between two recordings, and is it noise",
	.run = run,
};
