// SPDX-License-Identifier: Apache-2.0
/* sessions: what the loader service is recording. */
#include "user/cli/cli.h"

#include <clika/service.h>

#include <inttypes.h>
#include <stdarg.h>
#include <pwd.h>

static const struct cli_opt options[] = {
	{ 1, NULL, NULL, "Options:" },
	{ 's', "socket", "PATH", "of the service (default: " CLIKA_SERVICE_SOCKET ")" },
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "[--socket PATH]",
	.about = "Shows the sessions that the loader service has open: those of the user who asks, "
		 "all\n"
		 "of them for root.",
	.examples = "  " CLI_NAME " sessions\n",
	.after = "Exit status: 0 done, 1 no service answers, 2 usage.",
};

static void cell(struct table *t, const char *fmt, ...) CLI_PRINTF(2, 3);
static void cell(struct table *t, const char *fmt, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	table__cell(t, text);
}

static int show(void *ctx, const struct clika_service_session *s)
{
	struct table *t = ctx;
	struct passwd *pw = getpwuid(s->uid);
	char text[32];

	cell(t, "%" PRIu32, s->client_pid);
	if (pw)
		table__cell(t, pw->pw_name);
	else
		cell(t, "%" PRIu32, s->uid);
	if (s->system_wide)
		table__cell(t, "whole machine");
	else
		cell(t, "%" PRIu32, s->target_pid);
	format__duration(text, sizeof(text), s->seconds * 1000000000ull);
	table__cell(t, s->seconds ? text : "0 s");
	format__count(text, sizeof(text), s->records);
	table__cell(t, text);
	format__count(text, sizeof(text), s->lost);
	table__cell(t, text);
	format__bytes(text, sizeof(text), s->bytes);
	table__cell(t, text);
	return 0;
}

static int run(int argc, char **argv)
{
	static const char *const heads[] = { "CLIENT",  "USER", "TARGET", "SINCE",
					     "RECORDS", "LOST", "SIZE" };
	struct clika_prof_error err = { 0 };
	const char *socket_path = NULL;
	struct cli_getopt g;
	struct table *t;
	int key, ret;

	cli_getopt__init(&g, options);
	while ((key = cli_getopt__next(&g, argc, argv)) != -1) {
		switch (key) {
		case 's':
			socket_path = optarg;
			break;
		case 'h':
			cli_help__print("sessions", &help, options);
			return EXIT_OK;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind < argc)
		return say_usage("sessions", "'%s' is one argument too many", argv[optind]);
	t = table__new(ARRAY_LEN(heads));
	if (!t)
		return EXIT_FAILED;
	for (size_t i = 0; i < ARRAY_LEN(heads); i++)
		table__cell(t, heads[i]);
	ret = clika_service__sessions(socket_path, show, t, &err);
	if (!ret)
		ret = table__print(t, stdout);
	table__free(t);
	return err.code ? say_failure(&err) : ret ? EXIT_FAILED : EXIT_OK;
}

const struct cli_verb verb_sessions = {
	.name = "sessions",
	.summary = "what the loader service is recording",
	.run = run,
};
