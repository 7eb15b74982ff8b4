// SPDX-License-Identifier: Apache-2.0
#include "user/cli/cli.h"

#include <ctype.h>
#include <string.h>

void cli_getopt__init(struct cli_getopt *g, const struct cli_opt *opts)
{
	size_t n = 0, s = 0;

	memset(g, 0, sizeof(*g));
	g->sopts[s++] = '+'; /* what follows a target belongs to the command */
	for (; opts->key; opts++) {
		if (!opts->name || n == CLI_MAX_OPTS)
			continue;
		g->lopts[n++] = (struct option){
			.name = opts->name,
			.has_arg = opts->arg ? required_argument : no_argument,
			.val = opts->key,
		};
		/* An alias shares its key; one short option is enough. */
		if (opts->key < 128 && isprint(opts->key) && !strchr(g->sopts, opts->key)) {
			g->sopts[s++] = (char)opts->key;
			if (opts->arg)
				g->sopts[s++] = ':';
		}
	}
}

int cli_getopt__next(const struct cli_getopt *g, int argc, char **argv)
{
	return getopt_long(argc, argv, g->sopts, g->lopts, NULL);
}

static void print_option(const struct cli_opt *o)
{
	char left[64];
	const char *p = o->help;

	if (o->key < 128 && isprint(o->key))
		snprintf(left, sizeof(left), "  -%c, --%s%s%s", o->key, o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
	else
		snprintf(left, sizeof(left), "      --%s%s%s", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
	printf("%-28s", left);
	if (strlen(left) > 27)
		printf("\n%28s", "");
	while (*p) {
		size_t len = strcspn(p, "\n");

		printf("%.*s\n", (int)len, p);
		p += len;
		if (*p == '\n') {
			p++;
			printf("%28s", "");
		}
	}
}

void cli_help__print(const char *verb, const struct cli_help *h, const struct cli_opt *opts)
{
	printf("Usage: " CLI_NAME " %s %s\n\n%s\n", verb, h->usage, h->about);
	printf("\nExamples:\n%s", h->examples);
	for (; opts->key; opts++) {
		if (!opts->name)
			printf("\n%s\n", opts->help);
		else if (opts->help)
			print_option(opts);
	}
	if (h->after)
		printf("\n%s\n", h->after);
}
