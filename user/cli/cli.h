/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line tool: one file a verb, one row in main.c's table each. It stands on
 * clika/prof.h alone, like any other program that uses the library.
 */
#ifndef CLIKA_USER_CLI_CLI_H
#define CLIKA_USER_CLI_CLI_H

#include <clika/prof.h>

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define CLI_NAME "clika-bpf-prof"
#define CLI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Documented in clika-bpf-prof(1): numbers are stable. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_MISSING = 3,    /* a privilege or a kernel feature */
	EXIT_NO_TARGET = 4,  /* not found, or gone before anything was recorded */
	EXIT_INCOMPLETE = 5, /* files were written, but the recording is not whole */
	EXIT_ABORTED = 130,  /* second Ctrl-C; what the shell makes of SIGINT */
};

struct cli_verb {
	const char *name;
	const char *summary;               /* one line of --help */
	int (*run)(int argc, char **argv); /* argv[0] is the verb; returns enum exit_code */
};
extern const struct cli_verb verb_record, verb_export, verb_list, verb_doctor;
extern const struct cli_verb verb_serve, verb_sessions, verb_schema;
extern const struct cli_verb verb_report, verb_diff, verb_merge, verb_recipes;

/* ---- options: one table makes getopt's tables and --help --------------------------------------- */

struct cli_opt {
	int key;          /* a printable character is the short option too */
	const char *name; /* long option; NULL: a heading in --help */
	const char *arg;  /* NULL = takes none */
	const char *help; /* NULL: an alias that --help leaves out */
};
#define CLI_OPT_HELP                                                                               \
	{                                                                                          \
		'h', "help", NULL, "show this help"                                                \
	}
#define CLI_OPT_END                                                                                \
	{                                                                                          \
		0, NULL, NULL, NULL                                                                \
	}

struct cli_help {
	const char *usage;    /* lines after "clika-bpf-prof " */
	const char *about;    /* a paragraph */
	const char *examples; /* whole lines */
	const char *after;    /* a paragraph at the end, or NULL */
};

#define CLI_MAX_OPTS 48
struct cli_getopt {
	struct option lopts[CLI_MAX_OPTS + 1];
	char sopts[3 * CLI_MAX_OPTS + 2];
};
void cli_getopt__init(struct cli_getopt *g, const struct cli_opt *opts);
/* The key, -1 at the end, '?' after it told what is wrong. */
int cli_getopt__next(const struct cli_getopt *g, int argc, char **argv);
void cli_help__print(const char *verb, const struct cli_help *h, const struct cli_opt *opts);

/* ---- what goes to a person (stderr; escaped, so that a hostile name is shown, not obeyed) -------- */

void say(const char *fmt, ...) CLI_PRINTF(1, 2);
void say_error(const char *fmt, ...) CLI_PRINTF(1, 2);
void say_warning(const char *fmt, ...) CLI_PRINTF(1, 2);
/* "clika-bpf-prof VERB: ..., see --help"; returns EXIT_USAGE. */
int say_usage(const char *verb, const char *fmt, ...) CLI_PRINTF(2, 3);
/* Tells a library error and returns the exit code that it stands for. */
int say_failure(const struct clika_prof_error *err);
/* Names the required features that doctor misses, one line each, and how to get them. */
void say_missing(void);

/* ---- text ---------------------------------------------------------------------------------------- */

/* @s for terminals: valid UTF-8 as it is, control bytes and invalid bytes as \xNN. malloc'ed. */
char *text__printable(const char *s);
/* @s as valid UTF-8: each invalid byte becomes U+FFFD. malloc'ed. */
char *text__utf8(const char *s);
/* Columns that @s takes; one a code point, which is right for what /proc and ELF files hold. */
size_t text__width(const char *s);

/* Cells are copied and escaped; the last column is never padded. */
struct table;
struct table *table__new(size_t columns);
void table__free(struct table *t);
void table__cell(struct table *t, const char *s); /* row by row; NULL shows "-" */
int table__print(const struct table *t, FILE *out);

void format__bytes(char *to, size_t n, uint64_t bytes); /* "12.3 MB" */
void format__count(char *to, size_t n, uint64_t count); /* "1.2 M" */
void format__duration(char *to, size_t n, uint64_t ns); /* "12.3 s" */

/* ---- values of options: 0, -EINVAL or -ERANGE ------------------------------------------------------ */

int parse__duration(const char *s, uint64_t *ns); /* 10, 1.5s, 500ms, 20us, 100ns, 2m, 1h */
int parse__size(const char *s, uint64_t *bytes);  /* 65536, 64K, 64KiB, 16M, 1.5G */
int parse__u32(const char *s, uint32_t *v);
int parse__uid(const char *s, uid_t *uid); /* a number or a user's name */

struct pid_list {
	pid_t *pids;
	size_t n;
};
int parse__pids(const char *s, struct pid_list *l); /* "1,22,333" is added; duplicates once */

struct str_list {
	const char **s; /* pointers into argv */
	size_t n;
};
int str_list__add(struct str_list *l, const char *s);

/* ---- where files go ----------------------------------------------------------------------------------- */

struct owner {
	uid_t uid; /* (uid_t)-1: whoever runs */
	gid_t gid;
};
/* The user behind sudo or pkexec, when this process is root and what they say is plausible. */
struct owner owner__invoking(void);
/* The same from given values (NULL = unset); split off so that it can be tested. */
struct owner owner__from(uid_t euid, const char *sudo_uid, const char *sudo_gid,
			 const char *pkexec_uid);

/*
 * Makes or takes over the output folder; never follows a link at its end. Created 0700 for
 * @owner. @created tells whether to remove it when nothing comes of it. -ELOOP, -ENOTDIR, -EPERM
 * (somebody else's folder): told in @why.
 */
int outdir__open(const char *path, const struct owner *owner, bool *created, char *why, size_t n);
/* ./clika-YYYYmmdd-HHMMSS that does not exist yet. */
int outdir__default(char *path, size_t n);
/* First file that is in the folder already, of @names; NULL = none. */
const char *outdir__holds(const char *path, const char *const *names);

/* ---- recordings, and parts of them ---------------------------------------------------------------------- */

/* Rows of options that choose a part of a recording; view__option() takes them. */
enum {
	CLI_KEY_FROM = 1024,
	CLI_KEY_TO,
	CLI_KEY_CAPTURE,
	CLI_KEY_OUTSIDE,
	CLI_KEY_TID,
	CLI_KEY_NAME,
};
#define CLI_VIEW_OPTS                                                                              \
	{ 1, NULL, NULL,                                                                           \
	  "Which part of the recording (times count from its start: 2s, 500ms, 1.5m):" },          \
		{ CLI_KEY_FROM, "from", "TIME", "leave out what ended before" },                   \
		{ CLI_KEY_TO, "to", "TIME", "leave out what began after" },                        \
		{ CLI_KEY_CAPTURE, "capture", "TAG", "what belongs to captures of this tag" },     \
		{ CLI_KEY_OUTSIDE, "outside-captures", NULL, "also what belongs to no capture" },  \
		{ 'p', "pid", "PID", "one process" }, { CLI_KEY_TID, "tid", "TID", "one thread" }, \
	{                                                                                          \
		CLI_KEY_NAME, "name", "GLOB", "spans and counters whose name matches"              \
	}
/* 0: taken; -1: not one of them; else what say_usage() returned. */
int view__option(const char *verb, int key, struct clika_view_opts *v);
int view__check(const char *verb, const struct clika_view_opts *v); /* once all are there */

/* 0, or say_usage()'s: a number of at least one. */
int option__number(const char *verb, const char *what, const char *text, uint32_t *v);

/* A folder stands for the recording.clika in it. */
void recording__path(const char *given, char *path, size_t n);
bool path__is_dir(const char *path);
/* Tells what is missing from the recording; false: nothing is. */
bool recording__tell_incomplete(const struct clika_recording *r);
/* Of standard output, when it is a terminal; else @otherwise. */
unsigned output__columns(unsigned otherwise);

/* ---- formats -------------------------------------------------------------------------------------------- */

/* Whether every name of the comma-separated list exists; else @bad holds the first that does not. */
bool formats__known(const char *list, char *bad, size_t n);
/* "chrome, report, summary": for messages. */
void formats__names(char *to, size_t n);
bool formats__exists(const char *name);
/* File names that the list gives, NULL-terminated, at most @max - 1 of them. */
size_t formats__files(const char *list, const char **files, size_t max);
void formats__print(FILE *out);

#endif
