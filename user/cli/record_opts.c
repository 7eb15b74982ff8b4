// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "user/cli/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_NO_FOLLOW = 256,
	OPT_AS_ROOT,
	OPT_COMM,
	OPT_CGROUP,
	OPT_UID,
	OPT_PROBE,
	OPT_USDT,
	OPT_NO_MARKERS,
	OPT_RETPROBE,
	OPT_DELAY,
	OPT_TAG,
	OPT_MIN_DURATION,
	OPT_NAME,
	OPT_REDACT,
	OPT_FORCE,
	OPT_FORMAT,
	OPT_NO_EXPORT,
	OPT_RING_SIZE,
	OPT_MAX_SIZE,
	OPT_MEMORY,
	OPT_FLIGHT_RECORDER,
	OPT_RECIPE,
	OPT_NO_AUTO,
	OPT_BUDGET,
};

static const struct cli_opt options[] = {
	{ 1, NULL, NULL, "Whom to record (without -p and command: the whole machine):" },
	{ 'p', "pid", "PID,...", "running processes; may be repeated" },
	{ OPT_NO_FOLLOW, "no-follow", NULL, "not their children and what those execute" },
	{ OPT_COMM, "comm", "NAME[*]", "only processes of this command name" },
	{ OPT_CGROUP, "cgroup", "PATH", "only processes in this cgroup (v2) and below" },
	{ OPT_UID, "uid", "USER", "only processes of this user" },
	{ OPT_AS_ROOT, "as-root", NULL,
	  "under sudo, run the command as root, not as the invoking user" },
	{ 1, NULL, NULL, "What to record:" },
	{ OPT_PROBE, "probe", "LIB:FUNC",
	  "spans on functions, as globs: 'libllama*:llama_decode';\n"
	  "may be repeated" },
	{ OPT_USDT, "usdt", "PROV:NAME",
	  "USDT markers of other providers, as globs; also\n"
	  "LIB:PROV:NAME; may be repeated" },
	{ OPT_RECIPE, "recipe", "NAME|FILE",
	  "probe a runtime as this recipe says (see 'recipes'); NAME:all\n"
	  "also what is off by default; may be repeated" },
	{ OPT_NO_AUTO, "no-auto", NULL,
	  "do not look for known runtimes (PyTorch, llama.cpp, ...):\n"
	  "only the recipes named" },
	{ OPT_BUDGET, "budget", "PERCENT|off",
	  "what function probes may cost (default: 10%); beyond it the\n"
	  "least telling are taken off" },
	{ OPT_NO_MARKERS, "no-markers", NULL, "leave clika markers alone" },
	{ OPT_RETPROBE, "retprobe", NULL,
	  "end function spans by return probes. DANGER: a C++ exception\n"
	  "that passes such a function ends the target" },
	{ OPT_NAME, "name", "GLOB",
	  "only spans whose name matches, '!GLOB' leaves out; may be\n"
	  "repeated" },
	{ OPT_MIN_DURATION, "min-duration", "TIME", "leave out shorter spans (they are counted)" },
	{ OPT_REDACT, "redact", NULL, "leave out string arguments and command lines" },
	{ 1, NULL, NULL, "How long:" },
	{ 'd', "duration", "TIME", "stop after that time: 10, 10s, 500ms, 2m" },
	{ 'd', "max-time", "TIME", NULL },
	{ OPT_DELAY, "delay", "TIME", "leave the first time after attaching out (warm-up)" },
	{ OPT_MAX_SIZE, "max-size", "SIZE", "stop when recording.clika has that size: 500M, 2G" },
	{ OPT_FLIGHT_RECORDER, "flight-recorder", NULL,
	  "at --max-size drop the oldest data instead of stopping" },
	{ 1, NULL, NULL, "What to write:" },
	{ 'o', "output", "DIR", "folder for the files (default: ./clika-YYYYmmdd-HHMMSS)" },
	{ OPT_FORCE, "force", NULL, "write over the files of an earlier recording in DIR" },
	{ OPT_FORMAT, "format", "LIST", "formats to export, separated by commas" },
	{ OPT_NO_EXPORT, "no-export", NULL, "write recording.clika alone" },
	{ OPT_TAG, "tag", "NAME", "name of the capture (default: default)" },
	{ 1, NULL, NULL, "Other:" },
	{ OPT_RING_SIZE, "ring-size", "SIZE",
	  "of each kernel ring buffer: 64K to 1G (default: 16M)" },
	{ OPT_MEMORY, "memory", "SIZE",
	  "cap of memory for data on its way to disk (default: 256M)" },
	{ 'q', "quiet", NULL, "no status line, no summary; only warnings and errors" },
	{ 'v', "verbose", NULL, "say what is attached; twice: debug" },
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "[-p PID] [-d TIME] [-o DIR] [OPTIONS] [-- COMMAND [ARG...]]",
	.about = "Records what processes do (markers, and runtimes that a recipe knows: PyTorch, "
		 "llama.cpp,\n"
		 "ONNX Runtime and more, see 'recipes') until the time is over, the targets have "
		 "ended,\n"
		 "or Ctrl-C; then writes the files and prints a summary. A second Ctrl-C aborts at "
		 "once and\n"
		 "leaves a recording that 'export' can still read.",
	.examples = "  sudo " CLI_NAME
		    " record -p 4711 -d 10             a running process, ten seconds\n"
		    "  sudo " CLI_NAME
		    " record -- ./server --model m     a command and its children\n"
		    "  sudo " CLI_NAME
		    " record                           the whole machine, until Ctrl-C\n"
		    "  sudo " CLI_NAME " record -p 4711 --delay 30s -d 10 leave the warm-up out\n"
		    "  sudo " CLI_NAME " record -p 4711 --probe 'libllama*:llama_decode'\n",
	.after = "Exit status: 0 done, 1 failed, 2 usage, 3 a privilege or kernel feature is "
		 "missing,\n"
		 "4 no target, or it ended before anything was recorded, 5 stopped at --max-size,\n"
		 "130 aborted by a second Ctrl-C. The command's own exit status is shown, not "
		 "passed on.",
};

static int parse_duration(const char *opt, uint64_t *ns, bool zero_is_fine)
{
	int err = parse__duration(optarg, ns);

	if (!err && (*ns || zero_is_fine))
		return 0;
	return say_usage("record", "--%s: '%s' is %s (10, 10s, 500ms, 2m)", opt, optarg,
			 err == -ERANGE ? "too long a time" : "no time");
}

static int parse_size(const char *opt, uint64_t *bytes, uint64_t min, uint64_t max)
{
	if (parse__size(optarg, bytes))
		return say_usage("record", "--%s: '%s' is no size (64K, 16M, 2G)", opt, optarg);
	if (*bytes < min || *bytes > max)
		return say_usage("record", "--%s: '%s' is out of range", opt, optarg);
	return 0;
}

static int add(struct str_list *l, const char *s)
{
	if (!str_list__add(l, s))
		return 0;
	say_error("out of memory");
	return EXIT_FAILED;
}

/* "LIB:FUNC": both sides must be there; a colon in a C++ name belongs to the name. */
static int add_probe(struct record *rec, const char *s)
{
	const char *colon = strchr(s, ':');

	if (!colon || colon == s || !colon[1])
		return say_usage("record", "--probe: '%s' is not of the form LIBRARY:FUNCTION", s);
	return add(&rec->probes, s);
}

static int add_usdt(struct record *rec, const char *s)
{
	const char *colon = strchr(s, ':');

	if (!colon || colon == s || !colon[1])
		return say_usage("record", "--usdt: '%s' is not of the form PROVIDER:NAME", s);
	return add(&rec->usdts, s);
}

static int parse_budget(double *budget)
{
	char *end;
	double v;

	if (!strcmp(optarg, "off")) {
		*budget = -1;
		return 0;
	}
	errno = 0;
	v = strtod(optarg, &end);
	if (*end == '%')
		end++;
	if (end == optarg || *end || errno || !(v > 0) || v > 1000)
		return say_usage("record", "--budget: '%s' is no share (5%%, 10%%) and not 'off'",
				 optarg);
	*budget = v / 100;
	return 0;
}

static int parse_what(struct record *rec, int key)
{
	struct clika_recorder_opts *o = &rec->opts;
	uid_t uid;

	switch (key) {
	case OPT_NO_FOLLOW:
		o->no_follow = true;
		return 0;
	case OPT_AS_ROOT:
		o->stay_root = true;
		return 0;
	case OPT_COMM:
		o->comm = optarg;
		return 0;
	case OPT_CGROUP:
		o->cgroup = optarg;
		return 0;
	case OPT_UID:
		if (parse__uid(optarg, &uid))
			return say_usage("record", "--uid: there is no user '%s'", optarg);
		o->uid = uid;
		return 0;
	case OPT_PROBE:
		return add_probe(rec, optarg);
	case OPT_USDT:
		return add_usdt(rec, optarg);
	case OPT_RECIPE:
		return add(&rec->recipes, optarg);
	case OPT_NO_AUTO:
		o->no_auto = true;
		return 0;
	case OPT_BUDGET:
		return parse_budget(&o->budget);
	case OPT_NO_MARKERS:
		o->no_markers = true;
		return 0;
	case OPT_RETPROBE:
		o->retprobe = true;
		return 0;
	case OPT_NAME:
		return add(&rec->names, optarg);
	case OPT_REDACT:
		o->redact = true;
		return 0;
	default:
		return EXIT_USAGE;
	}
}

static int parse_option(struct record *rec, int key)
{
	struct clika_recorder_opts *o = &rec->opts;
	uint64_t v = 0;
	int rc = 0;

	switch (key) {
	case 'p':
		rc = parse__pids(optarg, &rec->pids);
		if (rc)
			rc = say_usage("record", "'%s' is no list of process numbers", optarg);
		break;
	case 'd':
		rc = parse_duration("duration", &rec->duration_ns, false);
		break;
	case OPT_DELAY:
		rc = parse_duration("delay", &o->delay_ns, true);
		break;
	case OPT_MIN_DURATION:
		rc = parse_duration("min-duration", &o->min_duration_ns, true);
		break;
	case OPT_MAX_SIZE:
		rc = parse_size("max-size", &o->max_bytes, 64u << 10, UINT64_MAX);
		break;
	case OPT_RING_SIZE:
		rc = parse_size("ring-size", &v, 64u << 10, 1u << 30);
		o->ring_bytes = (size_t)v;
		break;
	case OPT_MEMORY:
		rc = parse_size("memory", &v, 1u << 20, SIZE_MAX);
		o->memory_bytes = (size_t)v;
		break;
	case OPT_FLIGHT_RECORDER:
		o->drop_oldest = true;
		break;
	case 'o':
		if (!*optarg || strlen(optarg) >= sizeof(rec->output))
			return say_usage("record", "-o: '%s' is no folder name", optarg);
		snprintf(rec->output, sizeof(rec->output), "%s", optarg);
		break;
	case OPT_FORCE:
		rec->force = true;
		break;
	case OPT_FORMAT:
		rec->formats = optarg;
		break;
	case OPT_NO_EXPORT:
		rec->no_export = true;
		break;
	case OPT_TAG:
		o->tag = optarg;
		break;
	case 'q':
		rec->quiet = true;
		break;
	case 'v':
		rec->verbose++;
		break;
	default:
		rc = parse_what(rec, key);
	}
	return rc;
}

static int check(struct record *rec, int argc, char **argv)
{
	struct clika_recorder_opts *o = &rec->opts;
	char bad[64], names[512];

	if (optind < argc) {
		if (rec->pids.n)
			return say_usage("record", "-p and a command exclude each other");
		o->target = CLIKA_TARGET_COMMAND;
		o->argv = argv + optind;
	} else if (rec->pids.n) {
		o->target = CLIKA_TARGET_PIDS;
		o->pids = rec->pids.pids;
		o->n_pids = rec->pids.n;
	}
	if (o->stay_root && o->target != CLIKA_TARGET_COMMAND)
		return say_usage("record", "--as-root is for a command after --");
	if (o->drop_oldest && !o->max_bytes)
		return say_usage("record", "--flight-recorder needs --max-size");
	if (o->no_markers && o->no_auto && !rec->probes.n && !rec->usdts.n && !rec->recipes.n)
		return say_usage("record", "--no-markers and --no-auto leave nothing to record "
					   "without --probe, --usdt or --recipe");
	if (rec->no_export && rec->formats)
		return say_usage("record", "--no-export and --format exclude each other");
	if (rec->formats && !formats__known(rec->formats, bad, sizeof(bad))) {
		formats__names(names, sizeof(names));
		return say_usage("record", "there is no format '%s'; there are: %s, standard", bad,
				 names);
	}
	o->probes = rec->probes.s;
	o->n_probes = rec->probes.n;
	o->usdts = rec->usdts.s;
	o->n_usdts = rec->usdts.n;
	o->recipes = rec->recipes.s;
	o->n_recipes = rec->recipes.n;
	o->names = rec->names.s;
	o->n_names = rec->names.n;
	return 0;
}

int record__parse(struct record *rec, int argc, char **argv)
{
	struct cli_getopt g;
	int key, rc;

	clika_recorder_opts__init(&rec->opts);
	cli_getopt__init(&g, options);
	while ((key = cli_getopt__next(&g, argc, argv)) != -1) {
		if (key == 'h') {
			cli_help__print("record", &help, options);
			formats__print(stdout);
			return -1;
		}
		rc = parse_option(rec, key);
		if (rc)
			return rc;
	}
	rc = check(rec, argc, argv);
	if (rc)
		return rc;
	if (!rec->formats) {
		snprintf(rec->default_formats, sizeof(rec->default_formats), "standard%s",
			 formats__exists("perfetto") ? ",perfetto" : "");
		rec->formats = rec->default_formats;
	}
	return 0;
}

void record__free(struct record *rec)
{
	free(rec->pids.pids);
	free(rec->probes.s);
	free(rec->usdts.s);
	free(rec->recipes.s);
	free(rec->names.s);
}
