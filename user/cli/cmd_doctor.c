// SPDX-License-Identifier: Apache-2.0
/* doctor: what this kernel and this user can do, what is missing, how to get it. */
#include "user/cli/cli.h"

#include <stdlib.h>
#include <unistd.h>

static const struct cli_opt options[] = {
	{ 1, NULL, NULL, "Options:" },
	{ 'q', "quiet", NULL, "show only what is not ok" },
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "[-q]",
	.about = "Tries what recording needs (nothing is guessed from versions) and shows for each "
		 "part\n"
		 "whether it works, works slower, or is missing, and how to get it.",
	.examples = "  " CLI_NAME " doctor        what works for the user who asks\n"
		    "  sudo " CLI_NAME
		    " doctor   what works for root: recording needs this one to be ok\n",
	.after = "Exit status: 0 recording is possible, 3 it is not.",
};

struct doctor {
	bool quiet;
	unsigned ok, slower, missing;
};

static int show(void *ctx, const struct clika_check *c)
{
	static const char *const words[] = { "ok", "slower", "MISSING" };
	static const char *const colours[] = { "\033[32m", "\033[33m", "\033[31m" };
	bool colour = isatty(STDOUT_FILENO);
	struct doctor *d = ctx;
	char *detail, *advice;

	d->ok += c->state == CLIKA_CHECK_OK;
	d->slower += c->state == CLIKA_CHECK_SLOWER;
	d->missing += c->state == CLIKA_CHECK_MISSING;
	if (d->quiet && c->state == CLIKA_CHECK_OK)
		return 0;
	detail = text__printable(c->detail ? c->detail : "");
	advice = text__printable(c->advice ? c->advice : "");
	if (detail && advice) {
		printf("%s%-8s%s %-28s %s\n", colour ? colours[c->state] : "", words[c->state],
		       colour ? "\033[0m" : "", c->name, detail);
		if (*advice)
			printf("%-8s %-28s -> %s\n", "", "", advice);
	}
	free(detail);
	free(advice);
	return 0;
}

static int run(int argc, char **argv)
{
	struct doctor d = { 0 };
	struct cli_getopt g;
	int key, missing;

	cli_getopt__init(&g, options);
	while ((key = cli_getopt__next(&g, argc, argv)) != -1) {
		switch (key) {
		case 'q':
			d.quiet = true;
			break;
		case 'h':
			cli_help__print("doctor", &help, options);
			return EXIT_OK;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind < argc)
		return say_usage("doctor", "'%s' is one argument too many", argv[optind]);

	missing = clika_doctor(show, &d);
	if (missing < 0) {
		say_error("the checks could not be run: errno %d", -missing);
		return EXIT_FAILED;
	}
	printf("%s%u ok, %u slower, %u missing: ", d.quiet && !d.slower && !d.missing ? "" : "\n",
	       d.ok, d.slower, d.missing);
	if (missing)
		printf("recording is not possible%s.\n",
		       geteuid() ? " for this user; try 'sudo " CLI_NAME " doctor'" : "");
	else
		printf("recording is possible.\n");
	return missing ? EXIT_MISSING : EXIT_OK;
}

const struct cli_verb verb_doctor = {
	.name = "doctor",
	.summary = "what works on this machine, what is missing, how to get it",
	.run = run,
};
