// SPDX-License-Identifier: Apache-2.0
/* export: files from a recording, made while nothing runs any more. */
#define _GNU_SOURCE
#include "user/cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	OPT_FROM = 256,
	OPT_TO,
	OPT_CAPTURE,
	OPT_TID,
	OPT_NAME,
	OPT_OUTSIDE,
	OPT_TOP,
	OPT_COMPRESS_PACKETS,
};

static const struct cli_opt options[] = {
	{ 1, NULL, NULL, "What to write:" },
	{ 'f', "format", "LIST", "formats, separated by commas (default: standard)" },
	{ 'o', "output", "FILE|DIR",
	  "a file for one format, a folder for several; '-' writes a text\n"
	  "format to standard output (default: the recording's folder)" },
	{ OPT_TOP, "top", "N", "rows of tables in text formats" },
	{ OPT_COMPRESS_PACKETS, "compress-packets", NULL,
	  "pack a Perfetto trace inside: a quarter of the size, and it\n"
	  "opens as it is" },
	{ 1, NULL, NULL,
	  "Which part of the recording (times count from its start: 2s, 500ms, 1.5m):" },
	{ OPT_FROM, "from", "TIME", "leave out what ended before" },
	{ OPT_TO, "to", "TIME", "leave out what began after" },
	{ OPT_CAPTURE, "capture", "TAG", "what belongs to captures of this tag" },
	{ OPT_OUTSIDE, "outside-captures", NULL, "also what belongs to no capture" },
	{ 'p', "pid", "PID", "one process" },
	{ OPT_TID, "tid", "TID", "one thread" },
	{ OPT_NAME, "name", "GLOB", "spans and counters whose name matches" },
	{ 1, NULL, NULL, "Other:" },
	{ 'q', "quiet", NULL, "do not say which files were written" },
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "RECORDING [--format LIST] [-o FILE|DIR] [FILTERS]",
	.about = "Writes files from a recording; RECORDING is recording.clika or the folder that "
		 "holds it.\n"
		 "A recording that was cut off (its recorder was killed) is read up to its last "
		 "whole\n"
		 "segment.",
	.examples = "  " CLI_NAME " export out/recording.clika --format chrome -o t.json\n"
		    "  " CLI_NAME " export out --format summary -o - --from 2s --to 3s\n"
		    "  " CLI_NAME " export out --capture warm --pid 4711 -o warm/\n",
	.after = "Exit status: 0 done, 1 failed, 2 usage, 5 files were written, but the recording "
		 "is\n"
		 "incomplete or damaged.",
};

struct export
{
	const char *recording, *formats, *output;
	struct clika_view_opts view;
	struct clika_export_opts opts;
	bool quiet;
};

static int parse_number(const char *what, const char *text, uint32_t *v)
{
	if (!parse__u32(text, v) && *v)
		return 0;
	return say_usage("export", "'%s' is no %s", text, what);
}

static int parse_time(const char *text, uint64_t *ns)
{
	if (!parse__duration(text, ns))
		return 0;
	return say_usage("export", "'%s' is no time (2s, 500ms, 1.5m)", text);
}

static int parse_option(struct export *e, int key)
{
	uint32_t v;
	int rc = 0;

	switch (key) {
	case 'f':
		e->formats = optarg;
		break;
	case 'o':
		e->output = optarg;
		break;
	case OPT_TOP:
		rc = parse_number("number of rows", optarg, &v);
		e->opts.top = rc ? 0 : v;
		break;
	case OPT_COMPRESS_PACKETS:
		e->opts.compress_packets = true;
		break;
	case OPT_FROM:
		rc = parse_time(optarg, &e->view.from_ns);
		break;
	case OPT_TO:
		rc = parse_time(optarg, &e->view.to_ns);
		break;
	case OPT_CAPTURE:
		e->view.capture = optarg;
		break;
	case OPT_OUTSIDE:
		e->view.outside_captures = true;
		break;
	case 'p':
		rc = parse_number("process number", optarg, &e->view.pid);
		break;
	case OPT_TID:
		rc = parse_number("thread number", optarg, &e->view.tid);
		break;
	case OPT_NAME:
		e->view.name = optarg;
		break;
	case 'q':
		e->quiet = true;
		break;
	default:
		rc = EXIT_USAGE;
	}
	return rc;
}

static int parse(struct export *e, int argc, char **argv)
{
	char bad[64], names[512];
	struct cli_getopt g;
	int key, rc;

	cli_getopt__init(&g, options);
	/* Options may stand on both sides of the recording. */
	while (optind < argc) {
		key = cli_getopt__next(&g, argc, argv);
		if (key == 'h') {
			cli_help__print("export", &help, options);
			formats__print(stdout);
			return -1;
		}
		if (key != -1) {
			rc = parse_option(e, key);
			if (rc)
				return rc;
		} else if (optind < argc) {
			if (e->recording)
				return say_usage("export", "'%s' is one argument too many",
						 argv[optind]);
			e->recording = argv[optind++];
		}
	}
	if (!e->recording)
		return say_usage("export", "which recording?");
	if (e->view.to_ns && e->view.from_ns >= e->view.to_ns)
		return say_usage("export", "--from must lie before --to");
	if (!formats__known(e->formats, bad, sizeof(bad))) {
		formats__names(names, sizeof(names));
		return say_usage("export", "there is no format '%s'; there are: %s, standard", bad,
				 names);
	}
	return 0;
}

static bool is_dir(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static bool same_file(const char *a, const char *b)
{
	struct stat sa, sb;

	return !stat(a, &sa) && !stat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* "dir/" and "dir" are one; "/" stays. */
static void strip_slashes(char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		path[--len] = 0;
}

static int to_stdout(struct export *e, struct clika_recording *r)
{
	struct clika_prof_error err = { 0 };
	const char *files[3];
	char *data = NULL;
	size_t len = 0;
	int rc;

	if (formats__files(e->formats, files, ARRAY_LEN(files)) != 1)
		return say_usage("export", "standard output takes one format");
	if (isatty(STDOUT_FILENO) && !strstr(files[0], ".txt") && !strstr(files[0], ".json"))
		return say_usage("export", "%s is not text; name a file with -o", e->formats);
	rc = clika_recording__export_mem(r, e->formats, &e->opts, &data, &len, &err);
	if (rc) {
		say_error("%s", err.msg);
		return EXIT_FAILED;
	}
	fwrite(data, 1, len, stdout);
	free(data);
	return EXIT_OK;
}

static int to_files(struct export *e, struct clika_recording *r, const char *source)
{
	struct clika_prof_error err = { 0 };
	const char *files[32], *slash = strrchr(source, '/');
	char dir[4096], path[4200], why[4400];
	struct owner owner = owner__invoking();
	size_t n, i;
	bool created = false;
	int rc;

	n = formats__files(e->formats, files, ARRAY_LEN(files));
	e->opts.owner = owner.uid;
	e->opts.group = owner.gid;
	if (e->output && n == 1 && !is_dir(e->output) && e->output[strlen(e->output) - 1] != '/') {
		if (same_file(e->output, source))
			return say_usage("export", "%s is the recording itself", e->output);
		rc = clika_recording__export(r, e->formats, NULL, e->output, &e->opts, &err);
		if (!rc && !e->quiet)
			say("%s", e->output);
		goto out;
	}
	if (e->output)
		snprintf(dir, sizeof(dir), "%s", e->output);
	else
		snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - source) + 1 : 1,
			 slash ? source : ".");
	strip_slashes(dir);
	if (e->output && outdir__open(dir, &owner, &created, why, sizeof(why))) {
		say_error("%s", why);
		return EXIT_FAILED;
	}
	rc = clika_recording__export(r, e->formats, dir, NULL, &e->opts, &err);
	for (i = 0; !rc && !e->quiet && i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		say("%s", path);
	}
	if (rc && created)
		rmdir(dir);
out:
	if (!rc)
		return EXIT_OK;
	say_error("%s", err.msg);
	return EXIT_FAILED;
}

/* Tells what is missing from the recording. */
static bool tell_incomplete(const struct clika_recording *r)
{
	struct clika_recording_info info = { .sz = sizeof(info) };
	char bytes[32];

	clika_recording__info(r, &info);
	if (info.incomplete) {
		format__bytes(bytes, sizeof(bytes), info.trailing_bytes);
		say_warning(
			"the recording is incomplete: its recorder did not finish it; recovered "
			"%llu segments with %llu events, %s after them could not be used",
			(unsigned long long)info.segments, (unsigned long long)info.events, bytes);
	}
	if (info.bad_segments)
		say_warning("%llu segments of the recording are damaged and were left out",
			    (unsigned long long)info.bad_segments);
	return info.incomplete || info.bad_segments;
}

static int run(int argc, char **argv)
{
	struct export e = { .formats = "standard" };
	struct clika_prof_error err = { 0 };
	struct clika_recording *r = NULL;
	char source[4096];
	int rc;

	e.view.sz = sizeof(e.view);
	clika_export_opts__init(&e.opts);
	rc = parse(&e, argc, argv);
	if (rc)
		return rc < 0 ? EXIT_OK : rc;

	snprintf(source, sizeof(source), "%s%s", e.recording,
		 is_dir(e.recording) ? "/recording.clika" : "");
	if (clika_recording__open(source, &e.view, &r, &err)) {
		say_error("%s", err.msg);
		return EXIT_FAILED;
	}
	if (e.output && !strcmp(e.output, "-"))
		rc = to_stdout(&e, r);
	else
		rc = to_files(&e, r, source);
	if (!rc && tell_incomplete(r))
		rc = EXIT_INCOMPLETE;
	clika_recording__close(r);
	return rc;
}

const struct cli_verb verb_export = {
	.name = "export",
	.summary = "files in any format from a recording",
	.run = run,
};
