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
	OPT_MAX_SIZE,
	OPT_PUSH,
	OPT_HEADER,
	OPT_PUSH_TIMEOUT,
};

static const struct cli_opt options[] = {
	{ 1, NULL, NULL, "What to write:" },
	{ 'f', "format", "LIST", "formats, separated by commas (default: standard)" },
	{ 'o', "output", "FILE|DIR",
	  "a file for one format, a folder for several; '-' writes a text\n"
	  "format to standard output (default: the recording's folder)" },
	{ 'z', "gzip", NULL, "pack the files; a FILE that ends in .gz is packed anyhow" },
	{ OPT_MAX_SIZE, "max-size", "SIZE",
	  "split what would be larger (500M, 2G) by time, into files of\n"
	  "their own: chrome_trace.part1.json, chrome_trace.part2.json" },
	{ OPT_TOP, "top", "N", "rows of tables in text formats" },
	{ OPT_COMPRESS_PACKETS, "compress-packets", NULL,
	  "pack a Perfetto trace inside: a quarter of the size, and it\n"
	  "opens as it is" },
	CLI_VIEW_OPTS,
	{ 1, NULL, NULL, "To a collector, as OTLP traces:" },
	{ OPT_PUSH, "push", "URL",
	  "send to http(s)://HOST:4318, path /v1/traces unless one is given;\n"
	  "no file is written unless --format asks for one" },
	{ OPT_HEADER, "header", "TEXT|@FILE", "a header, \"Name: value\"; @FILE: one a line" },
	{ OPT_PUSH_TIMEOUT, "push-timeout", "TIME", "of one try (default: 10s)" },
	{ 1, NULL, NULL, "Other:" },
	{ 'q', "quiet", NULL, "do not say which files were written" },
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "RECORDING [--format LIST] [-o FILE|DIR] [--push URL] [FILTERS]",
	.about = "Writes files from a recording; RECORDING is recording.clika or the folder that "
		 "holds it.\n"
		 "A recording that was cut off (its recorder was killed) is read up to its last "
		 "whole\n"
		 "segment.",
	.examples = "  " CLI_NAME " export out/recording.clika --format chrome -o t.json\n"
		    "  " CLI_NAME " export out --format summary -o - --from 2s --to 3s\n"
		    "  " CLI_NAME " export out --capture warm --pid 4711 -o warm/\n"
		    "  " CLI_NAME " export out --format chrome,html,pprof -o all/ --max-size 500M\n"
		    "  " CLI_NAME " export out --push http://collector:4318 --header @token\n",
	.after = "Exit status: 0 done, 1 failed, 2 usage, 5 files were written, but the recording "
		 "is\n"
		 "incomplete or damaged.",
};

struct export
{
	const char *recording, *formats, *output;
	struct clika_view_opts view;
	struct clika_export_opts opts;
	const char *push;
	struct str_list headers;
	char *header_text; /* of a file: headers point into it */
	unsigned push_timeout_ms;
	bool quiet;
};

static int add_headers(struct export *e, const char *text)
{
	struct stat st;
	char *line, *next;
	FILE *f;
	size_t n;

	if (*text != '@')
		return strchr(text, ':') && !str_list__add(&e->headers, text)
			       ? 0
			       : say_usage("export", "'%s' is no header \"Name: value\"", text);
	if (e->header_text)
		return say_usage("export", "one file of headers is enough");
	f = fopen(text + 1, "re");
	if (!f || fstat(fileno(f), &st) || !S_ISREG(st.st_mode) || st.st_size > 65536) {
		say_error("%s: %s", text + 1, f ? "is no small file" : strerror(errno));
		if (f)
			fclose(f);
		return EXIT_FAILED;
	}
	e->header_text = calloc(1, (size_t)st.st_size + 1);
	n = e->header_text ? fread(e->header_text, 1, (size_t)st.st_size, f) : 0;
	fclose(f);
	if (!e->header_text)
		return EXIT_FAILED;
	e->header_text[n] = 0;
	for (line = e->header_text; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (*line && (!strchr(line, ':') || str_list__add(&e->headers, line)))
			return say_usage("export", "%s holds a line that is no header", text + 1);
	}
	return 0;
}

static int parse_timeout(struct export *e, const char *text)
{
	uint64_t ns;

	if (parse__duration(text, &ns) || ns < 1000000 || ns > 3600000000000ull)
		return say_usage("export", "'%s' is no time (500ms, 10s)", text);
	e->push_timeout_ms = (unsigned)(ns / 1000000);
	return 0;
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
		rc = option__number("export", "number of rows", optarg, &v);
		e->opts.top = rc ? 0 : v;
		break;
	case OPT_COMPRESS_PACKETS:
		e->opts.compress_packets = true;
		break;
	case 'z':
		e->opts.gzip = true;
		break;
	case OPT_MAX_SIZE:
		if (parse__size(optarg, &e->opts.max_bytes) || !e->opts.max_bytes)
			rc = say_usage("export", "'%s' is no size (500M, 2G)", optarg);
		break;
	case OPT_PUSH:
		e->push = optarg;
		break;
	case OPT_HEADER:
		rc = add_headers(e, optarg);
		break;
	case OPT_PUSH_TIMEOUT:
		rc = parse_timeout(e, optarg);
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
	if (!e->push && (e->headers.n || e->push_timeout_ms))
		return say_usage("export", "--header and --push-timeout are for --push");
	if (!e->formats && !e->push)
		e->formats = "standard";
	if (e->formats && !formats__known(e->formats, bad, sizeof(bad))) {
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
	if (e->opts.gzip || e->opts.max_bytes)
		return say_usage("export", "--gzip and --max-size are for files; name one with -o");
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

/* Viewers run in a browser: beyond this some fail without a word. */
#define LARGE_BYTES 500000000

static void on_wrote(void *ctx, const char *path)
{
	const struct export *e = ctx;
	struct stat st;
	char size[32];

	if (!e->quiet)
		say("%s", path);
	if (e->opts.max_bytes || stat(path, &st) || st.st_size < LARGE_BYTES ||
	    (!strstr(path, ".json") && !strstr(path, ".pftrace")))
		return;
	format__bytes(size, sizeof(size), (uint64_t)st.st_size);
	say_warning("%s has %s, which viewers may not open: --max-size 500M splits it, --from and "
		    "--to take a part, and a Perfetto trace is a fifth of Chrome's",
		    path, size);
}

static int to_files(struct export *e, struct clika_recording *r, const char *source)
{
	struct clika_prof_error err = { 0 };
	const char *files[32], *slash = strrchr(source, '/');
	char dir[4096], why[4400];
	struct owner owner = owner__invoking();
	bool created = false;
	int rc;

	e->opts.owner = owner.uid;
	e->opts.group = owner.gid;
	e->opts.wrote = on_wrote;
	e->opts.wrote_ctx = e;
	if (e->output && formats__files(e->formats, files, ARRAY_LEN(files)) == 1 &&
	    !path__is_dir(e->output) && e->output[strlen(e->output) - 1] != '/') {
		if (same_file(e->output, source))
			return say_usage("export", "%s is the recording itself", e->output);
		rc = clika_recording__export(r, e->formats, NULL, e->output, &e->opts, &err);
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
	if (rc && created)
		rmdir(dir);
out:
	if (!rc)
		return EXIT_OK;
	say_error("%s", err.msg);
	return EXIT_FAILED;
}

static int push(struct export *e, struct clika_recording *r)
{
	struct clika_push_opts o = {
		.sz = sizeof(o),
		.url = e->push,
		.headers = e->headers.s,
		.n_headers = e->headers.n,
		.timeout_ms = e->push_timeout_ms,
	};
	struct clika_push_result result = { .sz = sizeof(result) };
	struct clika_prof_error err = { 0 };
	char spans[32], rejected[32];

	if (clika_recording__push_otlp(r, &o, &result, &err)) {
		if (result.requests)
			say_warning("%llu requests had been accepted before",
				    (unsigned long long)result.requests);
		return say_failure(&err);
	}
	format__count(spans, sizeof(spans), result.spans);
	if (!e->quiet)
		say("%s: %s spans in %llu request%s%s", e->push, spans,
		    (unsigned long long)result.requests, result.requests == 1 ? "" : "s",
		    result.retries ? ", some tried again" : "");
	if (!result.rejected)
		return EXIT_OK;
	format__count(rejected, sizeof(rejected), result.rejected);
	say_error("the collector did not take %s spans: %s", rejected,
		  *result.message ? result.message : "it gave no reason");
	return EXIT_FAILED;
}

/* What is to be written: with --push, OTLP is what is sent, and no file unless it has a name. */
static bool wants_files(const struct export *e)
{
	return e->formats && !(e->push && !e->output && !strcmp(e->formats, "otlp"));
}

static int run_export(struct export *e)
{
	struct clika_prof_error err = { 0 };
	struct clika_recording *r = NULL;
	char source[4096];
	int rc = EXIT_OK;

	recording__path(e->recording, source, sizeof(source));
	if (clika_recording__open(source, &e->view, &r, &err)) {
		say_error("%s", err.msg);
		return EXIT_FAILED;
	}
	if (wants_files(e))
		rc = e->output && !strcmp(e->output, "-") ? to_stdout(e, r)
							  : to_files(e, r, source);
	if (!rc && e->push)
		rc = push(e, r);
	if (!rc && recording__tell_incomplete(r))
		rc = EXIT_INCOMPLETE;
	clika_recording__close(r);
	return rc;
}

static int run(int argc, char **argv)
{
	struct export e = { 0 };
	int rc;

	e.view.sz = sizeof(e.view);
	clika_export_opts__init(&e.opts);
	rc = parse(&e, argc, argv);
	rc = rc ? rc : run_export(&e);
	free(e.headers.s);
	free(e.header_text);
	return rc < 0 ? EXIT_OK : rc;
}

const struct cli_verb verb_export = {
	.name = "export",
	.summary = "files in any format from a recording",
	.run = run,
};
