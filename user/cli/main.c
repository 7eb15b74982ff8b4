// SPDX-License-Identifier: Apache-2.0
#include "user/cli/cli.h"

#include <string.h>

static const struct cli_verb *const verbs[] = {
	&verb_record, &verb_export, &verb_report,   &verb_diff,   &verb_merge,   &verb_list,
	&verb_doctor, &verb_serve,  &verb_sessions, &verb_schema, &verb_recipes,
};

static const char examples[] =
	"Examples:\n"
	"  sudo " CLI_NAME " record -p 4711 -d 10          a running process, ten seconds\n"
	"  sudo " CLI_NAME " record -- ./server --model m  a command and its children\n"
	"  sudo " CLI_NAME " record                        the whole machine, until Ctrl-C\n"
	"  " CLI_NAME " export out/recording.clika --format chrome -o t.json\n"
	"  " CLI_NAME " report out                         where the time went\n"
	"  " CLI_NAME " list                               processes that carry markers\n"
	"  " CLI_NAME " doctor                             what works here, and what is missing\n";

static void usage(FILE *out)
{
	size_t i;

	fprintf(out,
		"Usage: " CLI_NAME " VERB [OPTIONS]\n"
		"\n"
		"Records what inference processes do, with eBPF: spans, requests, memory, queues.\n"
		"Writes a Chrome trace, a summary and a recording that can be exported again.\n"
		"\n%s\nVerbs:\n",
		examples);
	for (i = 0; i < ARRAY_LEN(verbs); i++)
		fprintf(out, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
	fprintf(out, "\nOptions:\n"
		     "  -h, --help     show this help\n"
		     "  -V, --version  show the version\n"
		     "\n'" CLI_NAME " VERB --help' tells more about a verb, 'man " CLI_NAME
		     "-VERB' all.\n");
}

static const struct cli_verb *find_verb(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(verbs); i++) {
		if (!strcmp(verbs[i]->name, name))
			return verbs[i];
	}
	return NULL;
}

static bool is_any(const char *arg, const char *a, const char *b, const char *c)
{
	return !strcmp(arg, a) || !strcmp(arg, b) || !strcmp(arg, c);
}

int main(int argc, char **argv)
{
	const struct cli_verb *verb;
	int rc = EXIT_OK;
	char name[64];

	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (is_any(argv[1], "-V", "--version", "version")) {
		printf(CLI_NAME " %s\n", clika_prof_version());
	} else if (is_any(argv[1], "-h", "--help", "help")) {
		verb = argc > 2 ? find_verb(argv[2]) : NULL;
		if (verb) {
			char *help[] = { argv[2], (char[]){ "--help" }, NULL };

			rc = verb->run(2, help);
		} else {
			usage(stdout);
		}
	} else {
		verb = find_verb(argv[1]);
		if (!verb) {
			say_error("there is no verb '%s'; '" CLI_NAME " --help' lists them",
				  argv[1]);
			return EXIT_USAGE;
		}
		/* getopt's messages begin with argv[0]. */
		snprintf(name, sizeof(name), CLI_NAME " %s", verb->name);
		argv[1] = name;
		rc = verb->run(argc - 1, argv + 1);
	}
	/* What could not be written (a full disk behind a redirection) is a failure. */
	if (fflush(stdout) || ferror(stdout)) {
		say_error("standard output: %m");
		return rc ? rc : EXIT_FAILED;
	}
	return rc;
}
