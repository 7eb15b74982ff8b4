// SPDX-License-Identifier: Apache-2.0
/*
 * record: the course of one recording. Data first: stop saves the file, then it is exported, then
 * the summary is shown, and only then are the kernel's links closed, which can take long.
 */
#define _GNU_SOURCE
#include "user/cli/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_MS 200

/* A handler reaches nothing else: what it may print is made beforehand. */
static volatile sig_atomic_t signals_seen;
static volatile sig_atomic_t abort_code = EXIT_ABORTED;
static char abort_note[5000];
static volatile sig_atomic_t abort_note_len;

static void on_signal(int sig)
{
	int saved = errno;

	(void)sig;
	if (signals_seen++) {
		/* Nothing can be done when the terminal is gone. */
		if (write(STDERR_FILENO, abort_note, (size_t)abort_note_len) < 0)
			_exit(abort_code);
		_exit(abort_code);
	}
	errno = saved;
}

static void set_abort_note(const char *fmt, ...) CLI_PRINTF(1, 2);
static void set_abort_note(const char *fmt, ...)
{
	char *raw = NULL, *shown = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&raw, fmt, ap) >= 0)
		shown = text__printable(raw);
	va_end(ap);
	abort_note_len = 0;
	if (shown)
		snprintf(abort_note, sizeof(abort_note), "\n%s\n", shown);
	abort_note_len = (sig_atomic_t)strlen(abort_note);
	free(shown);
	free(raw);
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigemptyset(&sa.sa_mask);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

struct course {
	struct record *rec;
	struct clika_recorder *r;
	struct status_line line;
	struct owner owner;
	char dir[4096], file[4200];
	bool dir_created;
	bool natural_end; /* targets gone, command ended, file full */
	char answer[512]; /* how the summary begins, where a terminal shows it */
	struct clika_recorder_stats st;
};

static void on_log(void *ctx, int level, const char *area, const char *text)
{
	struct course *c = ctx;

	if (level >= 2 && (c->rec->quiet || level > c->rec->verbose + 1))
		return;
	status_line__erase(&c->line);
	if (level == 0)
		say_error("%s: %s", area, text);
	else if (level == 1)
		say_warning("%s: %s", area, text);
	else
		say("%s: %s", area, text);
}

static void on_note(void *ctx, const char *line)
{
	struct course *c = ctx;

	if (c->rec->quiet)
		return;
	status_line__erase(&c->line);
	say("%s", line);
}

static int prepare_output(struct course *c)
{
	const char *files[32] = { NULL }, *holds;
	static const char *const own[] = { "recording.clika", NULL };
	struct record *rec = c->rec;
	char why[4400];
	size_t len;

	if (rec->output[0])
		snprintf(c->dir, sizeof(c->dir), "%s", rec->output);
	else if (outdir__default(c->dir, sizeof(c->dir)))
		return say_usage("record", "name an output folder with -o");
	/* "link/" would follow the link that "link" refuses. */
	for (len = strlen(c->dir); len > 1 && c->dir[len - 1] == '/'; len--)
		c->dir[len - 1] = 0;
	c->owner = owner__invoking();
	if (outdir__open(c->dir, &c->owner, &c->dir_created, why, sizeof(why))) {
		say_error("%s", why);
		return EXIT_FAILED;
	}
	if (!c->dir_created && !rec->force) {
		if (!rec->no_export)
			formats__files(rec->formats, files, ARRAY_LEN(files));
		holds = outdir__holds(c->dir, own);
		if (!holds)
			holds = outdir__holds(c->dir, files);
		if (holds) {
			say_error("%s/%s is there already; take another folder, or --force to "
				  "write over it",
				  c->dir, holds);
			return EXIT_FAILED;
		}
	}
	snprintf(c->file, sizeof(c->file), "%s/recording.clika", c->dir);
	rec->opts.output_dir = c->dir;
	rec->opts.overwrite = rec->force;
	rec->opts.owner = c->owner.uid;
	rec->opts.group = c->owner.gid;
	return 0;
}

static void announce(const struct course *c)
{
	const struct record *rec = c->rec;
	char what[64], howlong[64] = "";

	if (rec->opts.target == CLIKA_TARGET_SYSTEM)
		snprintf(what, sizeof(what), "every process with markers or a known runtime");
	else if (rec->opts.target == CLIKA_TARGET_COMMAND)
		snprintf(what, sizeof(what), "the command");
	else if (rec->opts.n_pids == 1)
		snprintf(what, sizeof(what), "process %d", rec->opts.pids[0]);
	else
		snprintf(what, sizeof(what), "%zu processes", rec->opts.n_pids);
	if (rec->duration_ns) {
		strcpy(howlong, " for ");
		format__duration(howlong + 5, sizeof(howlong) - 5, rec->duration_ns);
	}
	say("Recording %s%s to %s (Ctrl-C stops and saves)", what, howlong, c->dir);
}

static void update_stats(struct course *c)
{
	c->st.sz = sizeof(c->st);
	clika_recorder__stats(c->r, &c->st);
}

/* Returns 0 or a negative errno told already; what was recorded is saved in both cases. */
static int record_until_end(struct course *c)
{
	struct clika_prof_error err = { 0 };
	uint64_t end = 0, now;
	int rc, wait;

	if (c->rec->duration_ns &&
	    __builtin_add_overflow(now_ns() + c->rec->opts.delay_ns, c->rec->duration_ns, &end))
		end = 0;
	while (!signals_seen) {
		wait = POLL_MS;
		now = now_ns();
		if (end && now >= end)
			return 0;
		if (end && (end - now) / 1000000 < POLL_MS)
			wait = (int)((end - now) / 1000000) + 1;
		rc = clika_recorder__poll(c->r, wait, &err);
		if (rc == -EINTR)
			continue;
		update_stats(c);
		if (rc == 0) {
			c->natural_end = true;
			return 0;
		}
		if (rc < 0) {
			status_line__erase(&c->line);
			say_error("recording stopped: %s", err.msg);
			return rc;
		}
		status_line__update(&c->line, &c->st);
	}
	return 0;
}

static void show_files(const struct course *c)
{
	const char *files[32] = { NULL };
	size_t n = 0, i;
	char path[4400], bytes[32];
	struct stat st;

	if (!c->rec->no_export)
		n = formats__files(c->rec->formats, files, ARRAY_LEN(files) - 1);
	files[n] = "recording.clika";
	say("Files in %s:", c->dir);
	for (i = 0; i <= n; i++) {
		snprintf(path, sizeof(path), "%s/%s", c->dir, files[i]);
		if (stat(path, &st))
			continue;
		format__bytes(bytes, sizeof(bytes), (uint64_t)st.st_size);
		say("  %-20s %9s", files[i], bytes);
	}
	if (n)
		say("Open the trace at https://ui.perfetto.dev or chrome://tracing.");
	else
		say("Make other files with: " CLI_NAME " export %s", c->dir);
	if (c->owner.uid != (uid_t)-1)
		say("They belong to user %u, who ran this.", c->owner.uid);
	if (*c->answer)
		say("%s", c->answer);
}

/* The summary's first sentence, in one line: on a terminal its tables have pushed it out of sight. */
static void keep_answer(struct course *c, const char *text, size_t len)
{
	size_t i, n = 0;

	if (!isatty(STDOUT_FILENO))
		return;
	for (i = 0; i < len && n < sizeof(c->answer) - 1; i++) {
		if (text[i] != '\n') {
			c->answer[n++] = text[i];
			continue;
		}
		if (i + 2 >= len || text[i + 1] != ' ')
			break;
		while (i + 2 < len && text[i + 2] == ' ')
			i++; /* it went on in an indented line */
	}
	c->answer[n] = '\0';
}

static int print_summary(struct course *c, const char *path)
{
	char chunk[8192];
	FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		return -errno;
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0) {
		if (!*c->answer)
			keep_answer(c, chunk, n);
		fwrite(chunk, 1, n, stdout);
	}
	fclose(f);
	return 0;
}

/* The summary as it was written, or made again when the terminal is narrower than the file. */
static void show_summary(struct course *c, struct clika_recording *rec,
			 struct clika_export_opts *opts)
{
	struct clika_prof_error err = { 0 };
	const char *files[32] = { NULL };
	struct winsize ws = { 0 };
	char path[4400], *text = NULL;
	bool written = false, narrow;
	size_t i, len;

	if (!formats__exists("summary"))
		return;
	formats__files(c->rec->formats, files, ARRAY_LEN(files));
	for (i = 0; files[i]; i++)
		written = written || !strcmp(files[i], "summary.txt");
	narrow = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) && ws.ws_col >= 40 && ws.ws_col < 100;
	snprintf(path, sizeof(path), "%s/summary.txt", c->dir);
	if (written && !narrow && !print_summary(c, path))
		return;
	opts->columns = narrow ? ws.ws_col : 0;
	if (clika_recording__export_mem(rec, "summary", opts, &text, &len, &err)) {
		say_error("the summary could not be made: %s", err.msg);
		return;
	}
	keep_answer(c, text, len);
	fwrite(text, 1, len, stdout);
	free(text);
}

static int export_files(struct course *c)
{
	struct clika_view_opts view = { .sz = sizeof(view) };
	struct clika_prof_error err = { 0 };
	struct clika_recording *rec = NULL;
	struct clika_export_opts opts;
	int rc;

	clika_export_opts__init(&opts);
	opts.owner = c->owner.uid;
	opts.group = c->owner.gid;
	status_line__note(&c->line, "exporting ...");
	rc = clika_recording__open(c->file, &view, &rec, &err);
	if (!rc)
		rc = clika_recording__export(rec, c->rec->formats, c->dir, NULL, &opts, &err);
	status_line__erase(&c->line);
	if (rc)
		say_error("export failed: %s; the recording is saved: %s", err.msg, c->file);
	if (rec && !c->rec->quiet && c->st.records) {
		show_summary(c, rec, &opts);
		fflush(stdout);
	}
	clika_recording__close(rec);
	return rc;
}

/* What a person must know about how it went; returns the exit code. */
static int verdict(struct course *c)
{
	const struct clika_recorder_stats *st = &c->st;
	const struct record *rec = c->rec;
	int code = EXIT_OK;

	if (st->command_ended && WIFSIGNALED(st->command_status))
		say("The command was ended by signal %d (%s).", WTERMSIG(st->command_status),
		    strsignal(WTERMSIG(st->command_status)));
	else if (st->command_ended && (!rec->quiet || WEXITSTATUS(st->command_status)))
		say("The command exited with status %d.", WEXITSTATUS(st->command_status));
	if (st->lost)
		say_warning("%llu of %llu records were lost; summary.txt says where, --ring-size "
			    "may help",
			    (unsigned long long)st->lost,
			    (unsigned long long)(st->records + st->lost));
	if (st->full && !rec->opts.drop_oldest) {
		say_warning("stopped at --max-size: what came later is not in the recording");
		code = EXIT_INCOMPLETE;
	}
	if (!st->records && rec->opts.target != CLIKA_TARGET_SYSTEM && c->natural_end) {
		say_error("nothing was recorded: the %s ended before a marker or probe ran",
			  rec->opts.target == CLIKA_TARGET_COMMAND ? "command" : "target");
		code = EXIT_NO_TARGET;
	} else if (!st->records) {
		say_warning("nothing was recorded: no marker or probe ran in that time ('" CLI_NAME
			    " list' shows who carries markers, '" CLI_NAME
			    " recipes' the runtimes that are known)");
	}
	return code;
}

static void show_detach(void *ctx, size_t done, size_t total)
{
	struct course *c = ctx;
	char text[80];

	snprintf(text, sizeof(text), "detaching: %zu of %zu", done, total);
	status_line__note(&c->line, text);
}

/* The command keeps the terminal, so this waits for it unless somebody wanted to leave. */
static void wait_for_command(struct course *c)
{
	if (c->rec->opts.target != CLIKA_TARGET_COMMAND || c->st.command_ended || signals_seen)
		return;
	if (!c->rec->quiet)
		say("The command still runs; waiting for its end (Ctrl-C leaves it).");
	while (!signals_seen && (waitpid(-1, NULL, 0) >= 0 || errno == EINTR))
		;
}

static int finish(struct course *c, int record_rc)
{
	struct clika_prof_error err = { 0 };
	int code, rc;

	status_line__note(&c->line, "saving ...");
	rc = clika_recorder__stop(c->r, &err);
	update_stats(c);
	status_line__erase(&c->line);
	if (rc)
		say_error("the recording was not completed: %s", err.msg);
	else
		set_abort_note("Aborted; the recording is complete: " CLI_NAME " export %s",
			       c->dir);
	/* From here on a reader of our output may go away; that must not keep links open. */
	signal(SIGPIPE, SIG_IGN);
	code = verdict(c);
	if (!c->rec->no_export && export_files(c))
		code = EXIT_FAILED;
	if (!c->rec->quiet)
		show_files(c);
	if (rc || record_rc)
		code = EXIT_FAILED;
	set_abort_note("Aborted while detaching; all files are complete.");
	abort_code = code;
	clika_recorder__free(c->r, show_detach, c);
	c->r = NULL;
	status_line__erase(&c->line);
	wait_for_command(c);
	return code;
}

static int fail_early(struct course *c, const struct clika_prof_error *err)
{
	int code = say_failure(err);

	status_line__erase(&c->line);
	clika_recorder__free(c->r, NULL, NULL);
	/* Nothing was recorded: the file has no more than its head. */
	if (c->dir_created) {
		unlink(c->file);
		rmdir(c->dir);
	}
	/* The library names missing capabilities itself, and the command that gives them. */
	if (code == EXIT_MISSING && !strstr(err->msg, "sudo"))
		say_missing();
	return code;
}

static int record_all(struct course *c)
{
	struct record *rec = c->rec;
	struct clika_prof_error err = { 0 };
	int rc;

	rc = prepare_output(c);
	if (rc)
		return rc;
	status_line__init(&c->line, !rec->quiet);
	rec->opts.log = on_log;
	rec->opts.log_ctx = c;
	rec->opts.note = on_note;
	rec->opts.note_ctx = c;
	if (rec->opts.retprobe)
		say_warning(
			"--retprobe: a C++ exception that passes a probed function will end the "
			"target");
	set_abort_note("Aborted before recording began.");
	catch_signals();
	status_line__note(&c->line, "attaching ...");
	rc = clika_recorder__new(&rec->opts, &c->r, &err);
	if (!rc && signals_seen) {
		err.code = -EINTR;
		snprintf(err.msg, sizeof(err.msg), "interrupted before recording began");
		rc = err.code;
	}
	if (!rc) {
		set_abort_note("Aborted; what was recorded can be recovered: " CLI_NAME
			       " export %s",
			       c->dir);
		rc = clika_recorder__start(c->r, &err);
	}
	if (rc) {
		err.code = err.code ? err.code : rc;
		status_line__erase(&c->line);
		return fail_early(c, &err);
	}
	status_line__erase(&c->line);
	if (!rec->quiet)
		announce(c);
	rc = record_until_end(c);
	return finish(c, rc);
}

static int run(int argc, char **argv)
{
	struct record rec = { 0 };
	struct course c = { .rec = &rec };
	int rc;

	rc = record__parse(&rec, argc, argv);
	if (!rc)
		rc = record_all(&c);
	else if (rc < 0)
		rc = EXIT_OK;
	record__free(&rec);
	return rc;
}

const struct cli_verb verb_record = {
	.name = "record",
	.summary = "record processes and write trace, summary and recording",
	.run = run,
};
