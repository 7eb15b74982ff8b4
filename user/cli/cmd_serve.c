// SPDX-License-Identifier: Apache-2.0
/* serve: the loader as a service. */
#include "user/cli/cli.h"

#include <clika/service.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

enum { OPT_EVERYONE = 256, OPT_PRIVATE, OPT_MAX_SESSIONS, OPT_MAX_SIZE };

static const struct cli_opt options[] = {
	{ 1, NULL, NULL, "Options:" },
	{ 's', "socket", "PATH", "where to listen (default: " CLIKA_SERVICE_SOCKET ")" },
	{ OPT_EVERYONE, "everyone", NULL,
	  "let every user connect, not only the group " CLIKA_SERVICE_GROUP },
	{ OPT_MAX_SESSIONS, "max-sessions", "N", "at the same time (default: 32)" },
	{ OPT_MAX_SIZE, "max-size", "SIZE", "of one session's recording (default: 1G)" },
	{ OPT_PRIVATE, "private", "FD",
	  "serve one connection and end: how a client starts its own" },
	{ 'v', "verbose", NULL, "say what is attached" },
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "[--socket PATH] [--everyone]",
	.about = "Records on behalf of processes that may not load BPF themselves, such as a "
		 "Python\n"
		 "program with a ProfileSession. A caller may profile processes of its own user "
		 "that\n"
		 "are dumpable, root any. Results go to descriptors that the caller passes; the "
		 "service\n"
		 "opens no path of a caller's.",
	.examples = "  sudo " CLI_NAME
		    " serve               in the foreground, for the group " CLIKA_SERVICE_GROUP
		    "\n"
		    "  sudo " CLI_NAME " serve --everyone    for every user of this machine\n",
	.after = "Exit status: 0 stopped by a signal, 1 failed, 2 usage, 3 a privilege is missing.",
};

/* A socket that systemd made comes as descriptor 3. */
static int handed_over(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");

	return pid && fds && atol(pid) == getpid() && atoi(fds) >= 1 ? 3 : -1;
}

static void log_line(void *ctx, int level, const char *area, const char *line)
{
	if (level <= 1 + *(const int *)ctx)
		say("%s: %s", area, line);
}

static int take_number(const char *name, const char *value, uint32_t *to)
{
	return parse__u32(value, to) ? say_usage("serve", "--%s: '%s' is no number", name, value)
				     : EXIT_OK;
}

static int run(int argc, char **argv)
{
	struct clika_service_opts o;
	struct clika_prof_error err = { 0 };
	struct sigaction sa = { .sa_handler = on_signal };
	struct cli_getopt g;
	int verbose = 0, key, ret = EXIT_OK;
	uint32_t n;

	clika_service_opts__init(&o);
	o.listen_fd = handed_over();
	o.log = log_line;
	o.log_ctx = &verbose;
	cli_getopt__init(&g, options);
	while (!ret && (key = cli_getopt__next(&g, argc, argv)) != -1) {
		switch (key) {
		case 's':
			o.socket_path = optarg;
			break;
		case OPT_EVERYONE:
			o.everyone = true;
			break;
		case OPT_PRIVATE:
			ret = take_number("private", optarg, &n);
			o.private_fd = ret ? -1 : (int)n;
			break;
		case OPT_MAX_SESSIONS:
			ret = take_number("max-sessions", optarg, &n);
			if (!ret && (!n || n > 1024))
				ret = say_usage("serve", "--max-sessions: 1 to 1024");
			o.max_sessions = ret ? 0 : n;
			break;
		case OPT_MAX_SIZE:
			if (parse__size(optarg, &o.max_bytes) || o.max_bytes < 1 << 20)
				ret = say_usage("serve", "--max-size: 1M or more, like 500M");
			break;
		case 'v':
			verbose++;
			break;
		case 'h':
			cli_help__print("serve", &help, options);
			return EXIT_OK;
		default:
			return EXIT_USAGE;
		}
	}
	if (ret)
		return ret;
	if (optind < argc)
		return say_usage("serve", "'%s' is one argument too many", argv[optind]);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	if (o.private_fd < 0 && o.listen_fd < 0 && isatty(STDERR_FILENO))
		say("Serving at %s (Ctrl-C stops)",
		    o.socket_path ? o.socket_path : CLIKA_SERVICE_SOCKET);
	return clika_service__run(&o, &stop, &err) ? say_failure(&err) : EXIT_OK;
}

const struct cli_verb verb_serve = {
	.name = "serve",
	.summary = "record for processes that may not load BPF themselves",
	.run = run,
};
