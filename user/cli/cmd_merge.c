// SPDX-License-Identifier: Apache-2.0
/* merge: several recordings, and traces of other tools, on one timeline. */
#define _GNU_SOURCE
#include "user/cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	OPT_AT = 256,
	OPT_MAX_STEP,
};

static const struct cli_opt options[] = {
	{ 1, NULL, NULL, "Options:" },
	{ 'o', "output", "FILE", "the merged recording (required)" },
	{ OPT_AT, "at", "FILE=TIME",
	  "when the first event of a trace was: 2026-11-30T12:00:00.25Z,\n"
	  "@1796040000.25 (seconds since 1970), +1.5s (behind the begin of\n"
	  "the recordings), name (ONNX Runtime's file names hold the local\n"
	  "time), or mtime (its last event was when it was written)" },
	{ OPT_MAX_STEP, "max-step", "TIME",
	  "a wall clock that was set by more than this while it was\n"
	  "recorded is refused, when it is needed (default: 1ms)" },
	{ 'q', "quiet", NULL, "say only what went wrong" },
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "RECORDING... [TRACE...] -o FILE",
	.about = "Makes one recording of several, of several processes or machines. Recordings of "
		 "one "
		 "boot\n"
		 "share a clock; other machines are aligned by the wall clock that each recording "
		 "notes.\n"
		 "Traces of ONNX Runtime's and PyTorch's (Kineto's) profilers become further "
		 "tracks, "
		 "also\n"
		 "when packed (.gz). What cannot be aligned is refused.",
	.examples = "  " CLI_NAME " merge server/ client/ -o both.clika\n"
		    "  " CLI_NAME " merge out/ worker.pt.trace.json.gz -o with-torch.clika\n"
		    "  " CLI_NAME " merge out/ ort_2026-11-30_12-00-00_741.json \\\n"
		    "      --at ort_2026-11-30_12-00-00_741.json=name -o with-ort.clika\n",
	.after = "Exit status: 0 done, 1 failed, 2 usage, 5 written, but some recording was "
		 "incomplete or damaged.",
};

#define MAX_INPUTS 256

struct merge {
	struct clika_merge_input in[MAX_INPUTS];
	char *paths[MAX_INPUTS];
	size_t n;
	const char *at[MAX_INPUTS];
	size_t n_at;
	const char *output;
	struct clika_merge_opts opts;
	bool quiet;
};

static void note(void *ctx, const char *line)
{
	const struct merge *m = ctx;

	if (!m->quiet)
		say("%s", line);
}

/* Digits behind a point as nanoseconds; *@p moves behind them. */
static uint64_t fraction(const char **p)
{
	uint64_t ns = 0, unit = 100000000;

	if (**p != '.')
		return 0;
	for ((*p)++; isdigit((unsigned char)**p); (*p)++, unit /= 10)
		ns += unit * (uint64_t)(**p - '0');
	return ns;
}

static bool parse_date(const char *text, uint64_t *ns)
{
	struct tm tm = { 0 };
	const char *p = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	uint64_t part;
	long minutes = 0;
	int h, m, used = 0;
	time_t t;

	if (!p)
		return false;
	part = fraction(&p);
	if ((*p == '+' || *p == '-') && sscanf(p + 1, "%2d:%2d%n", &h, &m, &used) == 2) {
		minutes = (*p == '-' ? -1 : 1) * (60l * h + m);
		p += 1 + used;
	} else if (*p == 'Z') {
		p++;
	} else {
		return false; /* in which zone? */
	}
	t = timegm(&tm);
	if (*p || t < 0 || t - 60 * minutes < 0)
		return false;
	*ns = (uint64_t)(t - 60 * minutes) * 1000000000u + part;
	return true;
}

static bool parse_epoch(const char *text, uint64_t *ns)
{
	const char *p = text + 1;
	char *end;
	unsigned long long s;

	if (!isdigit((unsigned char)*p))
		return false;
	s = strtoull(p, &end, 10);
	p = end;
	*ns = s < 10000000000ull ? s * 1000000000u : 0;
	*ns += fraction(&p);
	return !*p && s < 10000000000ull;
}

/* ONNX Runtime puts the local time of its start into the name: prefix_2026-11-30_12-00-00.json,
 * later versions with milliseconds behind it. */
static bool parse_name(const char *path, uint64_t *ns)
{
	const char *slash = strrchr(path, '/'), *p = slash ? slash + 1 : path, *end;
	struct tm tm;
	time_t t;

	for (p = strchr(p, '_'); p; p = strchr(p + 1, '_')) {
		tm = (struct tm){ .tm_isdst = -1 };
		end = strptime(p, "_%Y-%m-%d_%H-%M-%S", &tm);
		t = end ? mktime(&tm) : -1;
		if (t < 0)
			continue;
		*ns = (uint64_t)t * 1000000000u;
		if (*end == '_' && strspn(end + 1, "0123456789") == 3)
			*ns += strtoul(end + 1, NULL, 10) * 1000000u;
		return true;
	}
	return false;
}

static int parse_at(const char *text, struct clika_merge_input *in)
{
	if (!strcmp(text, "mtime"))
		in->at = CLIKA_AT_MTIME;
	else if (!strcmp(text, "name") && parse_name(in->path, &in->at_ns))
		in->at = CLIKA_AT_REALTIME;
	else if (!strcmp(text, "name"))
		return say_usage("merge", "the name %s holds no date", in->path);
	else if (*text == '+' && !parse__duration(text + 1, &in->at_ns))
		in->at = CLIKA_AT_OFFSET;
	else if (*text == '@' ? parse_epoch(text, &in->at_ns) : parse_date(text, &in->at_ns))
		in->at = CLIKA_AT_REALTIME;
	else
		return say_usage("merge",
				 "'%s' is no time (2026-11-30T12:00:00.25Z, @1796040000.25, "
				 "+1.5s, name, mtime)",
				 text);
	return 0;
}

/* FILE is a word of the command line; it may have a '=' itself. */
static int apply_at(struct merge *m, const char *text)
{
	const char *eq = strrchr(text, '=');
	size_t i;

	if (!eq)
		return say_usage("merge", "--at takes FILE=TIME, not '%s'", text);
	for (i = 0; i < m->n; i++)
		if (strlen(m->in[i].path) == (size_t)(eq - text) &&
		    !memcmp(m->in[i].path, text, (size_t)(eq - text)))
			return parse_at(eq + 1, &m->in[i]);
	return say_usage("merge", "--at names '%.*s', which is no file to be merged",
			 (int)(eq - text), text);
}

static int parse_option(struct merge *m, int key)
{
	switch (key) {
	case 'o':
		m->output = optarg;
		return 0;
	case OPT_AT:
		if (m->n_at == MAX_INPUTS)
			return say_usage("merge", "--at is there too often");
		m->at[m->n_at++] = optarg;
		return 0;
	case OPT_MAX_STEP:
		if (!parse__duration(optarg, &m->opts.max_step_ns) && m->opts.max_step_ns)
			return 0;
		return say_usage("merge", "'%s' is no time (1ms, 2s)", optarg);
	case 'q':
		m->quiet = true;
		return 0;
	default:
		return EXIT_USAGE;
	}
}

static int parse(struct merge *m, int argc, char **argv)
{
	struct cli_getopt g;
	size_t i;
	int key, rc = 0;

	cli_getopt__init(&g, options);
	while (optind < argc) {
		key = cli_getopt__next(&g, argc, argv);
		if (key == 'h') {
			cli_help__print("merge", &help, options);
			return -1;
		}
		if (key != -1) {
			rc = parse_option(m, key);
			if (rc)
				return rc;
		} else if (optind < argc) {
			if (m->n == MAX_INPUTS)
				return say_usage("merge", "more than %d files", MAX_INPUTS);
			m->in[m->n++].path = argv[optind++];
		}
	}
	if (!m->n)
		return say_usage("merge", "which recordings?");
	if (!m->output)
		return say_usage("merge", "where to? name a file with -o");
	for (i = 0; !rc && i < m->n_at; i++)
		rc = apply_at(m, m->at[i]);
	return rc;
}

/* As it was typed, for whoever finds the result later. */
static char *command_line(int argc, char **argv)
{
	size_t bytes = 1;
	char *text, *to;
	int i;

	for (i = 0; i < argc; i++)
		bytes += strlen(argv[i]) + 1;
	text = to = malloc(bytes);
	if (!text)
		return NULL;
	*text = 0;
	for (i = 0; i < argc; i++)
		to += sprintf(to, "%s%s", i ? " " : "", argv[i]);
	return text;
}

static void tell(const struct merge *m, const struct clika_merge_result *r)
{
	char events[32], bytes[32], length[32], left_out[32];

	format__count(events, sizeof(events), r->events);
	format__bytes(bytes, sizeof(bytes), r->bytes);
	format__duration(length, sizeof(length), r->duration_ns);
	say("%s: %u recording%s and %u trace%s of %u machine%s, %u processes, %u threads, %s "
	    "events, %s, %s",
	    m->output, r->recordings, r->recordings == 1 ? "" : "s", r->traces,
	    r->traces == 1 ? "" : "s", r->machines, r->machines == 1 ? "" : "s", r->processes,
	    r->threads, events, length, bytes);
	if (!r->left_out)
		return;
	format__count(left_out, sizeof(left_out), r->left_out);
	say("%s rows of the traces are no events that can be taken", left_out);
}

static int merge(struct merge *m)
{
	struct clika_merge_result result = { .sz = sizeof(result) };
	struct clika_prof_error err = { 0 };
	struct owner owner = owner__invoking();
	char path[4096];
	size_t i;

	m->opts.owner = owner.uid;
	m->opts.group = owner.gid;
	m->opts.note = note;
	m->opts.note_ctx = m;
	for (i = 0; i < m->n; i++) {
		recording__path(m->in[i].path, path, sizeof(path));
		m->paths[i] = strdup(path);
		if (!m->paths[i])
			return EXIT_FAILED;
		m->in[i].path = m->paths[i];
	}
	if (clika_merge(m->in, m->n, m->output, &m->opts, &result, &err)) {
		say_error("%s", err.msg);
		return EXIT_FAILED;
	}
	if (!m->quiet)
		tell(m, &result);
	if (result.incomplete)
		say_warning("some recording was incomplete or damaged: what it had is there");
	return result.incomplete ? EXIT_INCOMPLETE : EXIT_OK;
}

static int run(int argc, char **argv)
{
	struct merge *m = calloc(1, sizeof(*m));
	char *command = command_line(argc, argv);
	size_t i;
	int rc;

	if (!m || !command) {
		say_error("out of memory");
		free(command);
		free(m);
		return EXIT_FAILED;
	}
	clika_merge_opts__init(&m->opts);
	m->opts.command = command;
	rc = parse(m, argc, argv);
	rc = rc ? rc : merge(m);
	for (i = 0; i < m->n; i++)
		free(m->paths[i]);
	free(command);
	free(m);
	return rc < 0 ? EXIT_OK : rc;
}

const struct cli_verb verb_merge = {
	.name = "merge",
	.summary = "one recording of several, and of other tools' traces",
	.run = run,
};
