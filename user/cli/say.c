// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "user/cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void say_with(const char *prefix, const char *fmt, va_list ap)
{
	char *raw = NULL, *shown = NULL;

	if (vasprintf(&raw, fmt, ap) >= 0)
		shown = text__printable(raw);
	fprintf(stderr, "%s%s\n", prefix, shown ? shown : "(out of memory)");
	free(shown);
	free(raw);
}

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_with("", fmt, ap);
	va_end(ap);
}

void say_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_with(CLI_NAME ": ", fmt, ap);
	va_end(ap);
}

void say_warning(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_with(CLI_NAME ": warning: ", fmt, ap);
	va_end(ap);
}

int say_usage(const char *verb, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_with(CLI_NAME ": ", fmt, ap);
	va_end(ap);
	fprintf(stderr, "'" CLI_NAME " %s --help' shows how it is used.\n", verb);
	return EXIT_USAGE;
}

static int print_missing(void *ctx, const struct clika_check *c)
{
	(void)ctx;
	if (c->state != CLIKA_CHECK_MISSING || !c->required)
		return 0;
	say("  missing: %s%s%s%s", c->name, c->detail && *c->detail ? " (" : "",
	    c->detail ? c->detail : "", c->detail && *c->detail ? ")" : "");
	if (c->advice)
		say("           %s", c->advice);
	return 0;
}

void say_missing(void)
{
	clika_doctor(print_missing, NULL);
}

int say_failure(const struct clika_prof_error *err)
{
	say_error("%s", err->msg[0] ? err->msg : strerror(-err->code));
	switch (err->code) {
	case -EPERM:
	case -EACCES:
	case -ENOTSUP:
	case -ENOSYS:
		return EXIT_MISSING;
	case -ESRCH:
	case -ENOENT:
		return EXIT_NO_TARGET;
	case -EINVAL:
		return EXIT_USAGE;
	default:
		return EXIT_FAILED;
	}
}
