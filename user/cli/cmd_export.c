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
	OPT_TOP = 256,
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
	CLI_VIEW_OPTS,
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
		rc = option__number("export", "number of rows", optarg, &v);
		e->opts.top = rc ? 0 : v;
		break;
	case OPT_COMPRESS_PACKETS:
		e->opts.compress_packets = true;
		break;
	case 'q':
		e->quiet = true;
		break;
	default:
		rc = view__option("export", key, &e->view);
		rc = rc < 0 ? EXIT_USAGE : rc;
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
	if (view__check("export", &e->view))
		return EXIT_USAGE;
	if (!formats__known(e->formats, bad, sizeof(bad))) {
		formats__names(names, sizeof(names));
		return say_usage("export", "there is no format '%s'; there are: %s, standard", bad,
				 names);
	}
	return 0;
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
	if (e->output && n == 1 && !path__is_dir(e->output) &&
	    e->output[strlen(e->output) - 1] != '/') {
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

	recording__path(e.recording, source, sizeof(source));
	if (clika_recording__open(source, &e.view, &r, &err)) {
		say_error("%s", err.msg);
		return EXIT_FAILED;
	}
	if (e.output && !strcmp(e.output, "-"))
		rc = to_stdout(&e, r);
	else
		rc = to_files(&e, r, source);
	if (!rc && recording__tell_incomplete(r))
		rc = EXIT_INCOMPLETE;
	clika_recording__close(r);
	return rc;
}

const struct cli_verb verb_export = {
	.name = "export",
	.summary = "files in any format from a recording",
	.run = run,
};
