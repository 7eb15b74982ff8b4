/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libclika-prof: record inference processes with eBPF and export what was recorded.
 *
 * Opaque types, object__verb style names, errors as values: every function that can fail returns
 * 0 or a negative errno and fills a struct clika_prof_error with one line for a person. Nothing
 * in the library prints or exits. Times are CLOCK_BOOTTIME nanoseconds unless a name says
 * otherwise. A recorder or a recording belongs to one thread at a time.
 */
#ifndef CLIKA_PROF_H
#define CLIKA_PROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CLIKA_API
#define CLIKA_API __attribute__((visibility("default")))
#endif

#define CLIKA_PROF_VERSION "0.1.0"

struct clika_prof_error {
	int code; /* negative errno */
	char msg[512];
};

CLIKA_API const char *clika_prof_version(void);

/* Level: 0 error, 1 warning, 2 info, 3 debug. The line has no newline at its end. */
typedef void (*clika_prof_log_fn)(void *ctx, int level, const char *area, const char *line);

/* ---- recording ------------------------------------------------------------------------- */

struct clika_recorder;

enum clika_target_kind {
	CLIKA_TARGET_SYSTEM = 0, /* every process that carries markers, also those started later */
	CLIKA_TARGET_PIDS = 1,
	CLIKA_TARGET_COMMAND = 2,
};

struct clika_recorder_opts {
	size_t sz; /* sizeof(struct clika_recorder_opts), set by clika_recorder_opts__init() */

	enum clika_target_kind target;
	const pid_t *pids; /* in the caller's pid namespace */
	size_t n_pids;
	char *const *argv; /* command, NULL-terminated; found through PATH */
	bool no_follow;    /* default: children and what they exec are followed */
	bool stay_root;    /* under sudo a command runs as the invoking user; true: as the caller */

	/* filters, applied in BPF before ring space is taken; NULL / -1 = none */
	const char *comm;   /* glob on the command name of a process */
	const char *cgroup; /* path below the cgroup v2 mount; children included */
	int64_t uid;        /* -1 = any */

	/* what to record beside clika markers */
	const char *const *probes; /* "LIB-GLOB:FUNC-GLOB": spans on functions */
	size_t n_probes;
	const char *const *usdts; /* "PROVIDER:NAME" globs, or "LIB-GLOB:PROVIDER:NAME" */
	size_t n_usdts;
	/*
	 * Runtimes that carry no markers: recipes say what to probe in them (docs/recipes.md). Those that
	 * are automatic apply to every target that maps such a runtime.
	 */
	bool no_auto;               /* only those that are named here */
	const char *const *recipes; /* NAME, NAME:all, NAME:GROUP, or a file */
	size_t n_recipes;
	bool no_recipe_files; /* only built-in recipes and those of /etc: none of a user's, none by path */
	/* Share of the CPU time of the threads that hit them which function probes may cost, by estimate:
	 * beyond it the least telling are taken off. 0 = 0.1; negative = no limit. */
	double budget;
	bool no_markers; /* leave clika markers alone */
	bool retprobe;   /* end function spans by return probes: see the manual's warning */

	/* what to leave out */
	uint64_t min_duration_ns; /* spans shorter than this are not kept (counted as filtered) */
	const char *const *names; /* name globs, "!glob" excludes; NULL = all */
	size_t n_names;
	bool redact; /* string arguments and command lines are left out */

	/* how */
	size_t ring_bytes;      /* per ring; 0 = 16 MiB; rounded up to a power of two */
	uint64_t delay_ns;      /* the capture opens this long after attaching */
	const char *tag;        /* of the capture; NULL = "default" */
	bool no_capture;        /* open no capture: what follows opens its own */
	int64_t on_behalf;      /* -1; else of a user without rights: only what this user may look
				 * into is recorded, as ptrace sees it; set-user-id programs are not */
	const char *output_dir; /* where recording.clika goes; NULL = memory file only */
	bool overwrite;
	uid_t owner; /* of files; (uid_t)-1 = leave as created */
	gid_t group;
	uint64_t max_bytes;  /* of recording.clika; 0 = none */
	bool drop_oldest;    /* at max_bytes drop old segments instead of stopping */
	size_t memory_bytes; /* cap of resident memory for buffered data; 0 = 256 MiB */

	clika_prof_log_fn log;
	void *log_ctx;
	/* One line worth telling at once: a recipe applies, probes were taken off. NULL = nobody asks. */
	void (*note)(void *ctx, const char *line);
	void *note_ctx;
};
CLIKA_API void clika_recorder_opts__init(struct clika_recorder_opts *o);

/* Checks options, opens targets, loads BPF, attaches. For a command: starts it, stopped before
 * its first instruction, lets it go in clika_recorder__start(). */
CLIKA_API int clika_recorder__new(const struct clika_recorder_opts *o, struct clika_recorder **out,
				  struct clika_prof_error *err);
/* Data flows from here on. */
CLIKA_API int clika_recorder__start(struct clika_recorder *r, struct clika_prof_error *err);
/*
 * Handles what is there and waits at most @timeout_ms for more. Returns > 0 while it should be
 * called again; 0 when recording has come to its natural end (targets gone, command ended, file
 * limit reached): call stop then.
 */
CLIKA_API int clika_recorder__poll(struct clika_recorder *r, int timeout_ms,
				   struct clika_prof_error *err);
/* A descriptor that becomes readable when poll has something to do. Owned by the recorder. */
CLIKA_API int clika_recorder__fd(const struct clika_recorder *r);

/* Further captures; they may nest, overlap and share a tag. Returns an id > 0. */
CLIKA_API int64_t clika_recorder__capture_begin(struct clika_recorder *r, const char *tag,
						struct clika_prof_error *err);
CLIKA_API int clika_recorder__capture_end(struct clika_recorder *r, int64_t id,
					  struct clika_prof_error *err);
/* Barrier: everything marked before this call began is in the file when it returns. */
CLIKA_API int clika_recorder__flush(struct clika_recorder *r, struct clika_prof_error *err);
/* Barrier, then completes the file. Links are still open; clika_recorder__free() closes them. */
CLIKA_API int clika_recorder__stop(struct clika_recorder *r, struct clika_prof_error *err);
/* Detaches. @progress (may be NULL) is told as links close. NULL is fine. */
CLIKA_API void clika_recorder__free(struct clika_recorder *r,
				    void (*progress)(void *ctx, size_t done, size_t total),
				    void *ctx);

struct clika_recorder_stats {
	size_t sz; /* set by the caller */
	uint64_t elapsed_ns;
	uint64_t records, spans, lost, filtered, unknown_at_most;
	uint64_t file_bytes;
	uint32_t processes, threads;  /* seen so far */
	uint32_t files, sites, links; /* attached: files with probes, probe sites, kernel links */
	bool capture_open, full;
	bool command_ended;
	int command_status; /* wait status when command_ended */
	uint32_t targets_alive;
	uint32_t functions, functions_off; /* probed so far; of them, taken off by the budget */
	double probe_share; /* of the threads' CPU time that function probes cost lately; < 0 = not known */
};
CLIKA_API void clika_recorder__stats(const struct clika_recorder *r,
				     struct clika_recorder_stats *st);
/* Path of recording.clika, or NULL for a memory recording. */
CLIKA_API const char *clika_recorder__path(const struct clika_recorder *r);
/* Descriptor of the recording (memory recordings); owned by the recorder. */
CLIKA_API int clika_recorder__recording_fd(const struct clika_recorder *r);

/* ---- recordings and exports --------------------------------------------------------------- */

struct clika_recording;

struct clika_view_opts { /* which part of a recording */
	size_t sz;
	uint64_t from_ns, to_ns; /* since the start of the recording; 0 = all */
	const char *capture;     /* tag */
	uint32_t pid, tid;
	const char *name; /* glob */
	bool outside_captures;
	bool live; /* a snapshot of what is still being recorded: it does not count as incomplete */
};
CLIKA_API int clika_recording__open(const char *path, const struct clika_view_opts *view,
				    struct clika_recording **out, struct clika_prof_error *err);
CLIKA_API int clika_recording__open_fd(int fd, const struct clika_view_opts *view,
				       struct clika_recording **out, struct clika_prof_error *err);
CLIKA_API void clika_recording__close(struct clika_recording *r);

struct clika_recording_info {
	size_t sz;
	bool incomplete;
	uint64_t segments, bad_segments, trailing_bytes, events, bytes;
	uint64_t duration_ns;
	uint32_t processes, threads, captures;
	uint64_t emitted, recorded, lost, filtered, unknown_at_most;
};
CLIKA_API void clika_recording__info(const struct clika_recording *r,
				     struct clika_recording_info *i);

/* The exporters: index from 0 until NULL. */
CLIKA_API const char *clika_format__name(size_t i);
CLIKA_API const char *clika_format__file(size_t i);
CLIKA_API const char *clika_format__summary(size_t i);
CLIKA_API bool clika_format__is_standard(size_t i);

struct clika_export_opts {
	size_t sz;
	uid_t owner; /* (uid_t)-1 = leave */
	gid_t group;
	unsigned columns, top;
	const char *step_name; /* kineto: spans whose name fits this glob are steps; NULL = none */
	bool compress_packets; /* perfetto: packed inside, so that readers open it as it is */
	bool gzip;             /* files are packed; those in a folder get names that end in .gz */
	/*
	 * A file that would be larger is split by time into NAME.part1.EXT, NAME.part2.EXT, ... of at
	 * most this size, each whole in itself; spans over an edge are in both. 0 = no limit.
	 */
	uint64_t max_bytes;
	void (*wrote)(void *ctx, const char *path); /* is told each file; NULL = nobody asks */
	void *wrote_ctx;
};
CLIKA_API void clika_export_opts__init(struct clika_export_opts *o);

/*
 * Writes several formats in one pass. @formats: comma-separated names, "standard" for the standard
 * set. @dir: folder, files get their standard names; or, for one format, NULL and @path the file
 * ("-" is not special here). Files appear complete or not at all.
 */
CLIKA_API int clika_recording__export(struct clika_recording *r, const char *formats,
				      const char *dir, const char *path,
				      const struct clika_export_opts *o,
				      struct clika_prof_error *err);
/* Several formats in one pass, formats[i] to fds[i]. The descriptors stay the caller's. */
CLIKA_API int clika_recording__export_fds(struct clika_recording *r, const char *const *formats,
					  const int *fds, size_t n,
					  const struct clika_export_opts *o,
					  struct clika_prof_error *err);
/* One format to memory; *@data is malloc'ed, NUL-terminated, *@len without the NUL. */
CLIKA_API int clika_recording__export_mem(struct clika_recording *r, const char *format,
					  const struct clika_export_opts *o, char **data,
					  size_t *len, struct clika_prof_error *err);

/* JSON Schema (draft 2020-12) of report.json ("report"), memory_stats.json ("memory"), what diff
 * prints ("diff") and of recipes ("recipe"); NULL: there is no such one. Names: index from 0 until
 * NULL. */
CLIKA_API const char *clika_schema(const char *name);
CLIKA_API const char *clika_schema__name(size_t i);

/*
 * Tables for people: operations, threads, requests, memory, captures; or the rows of report.json
 * that say the same. *@data is malloc'ed, NUL-terminated, *@len without the NUL.
 */
struct clika_report_opts {
	size_t sz;
	const char *by;   /* a table: clika_report__table(); NULL = what was recorded, operations */
	const char *sort; /* a column, greatest first: clika_report__column(); or "name"; "-" in
			     * front turns it round; NULL = the order of the table */
	const char *filter; /* glob on the names of rows */
	unsigned top;       /* rows; 0 = 30, in JSON all */
	unsigned columns;   /* width of the text, 0 = 100 */
	bool json;
};
CLIKA_API void clika_report_opts__init(struct clika_report_opts *o);
CLIKA_API int clika_recording__report(struct clika_recording *r, const struct clika_report_opts *o,
				      char **data, size_t *len, struct clika_prof_error *err);
/* Names of tables and of the columns of one: index from 0 until NULL. */
CLIKA_API const char *clika_report__table(size_t i);
CLIKA_API const char *clika_report__column(const char *table, size_t i);

/*
 * Compares two recordings or reports (report.json, also packed with gzip): operations and kinds of
 * requests, by count, median and total, each change with the noise that the spread inside the two
 * makes likely. docs/diff.md has the formulas.
 */
struct clika_diff_opts {
	size_t sz;
	const struct clika_view_opts *view; /* of both recordings; NULL = all of them */
	const char *filter;                 /* glob on the names of rows that are compared */
	bool per_second;    /* counts and totals for each second that was observed */
	const char *metric; /* "median" (NULL too), "total" or "count": what @fail_above is about */
	double fail_above;  /* percent; below 0: nothing fails */
	bool either_way;    /* decreases fail, too */
	unsigned top;       /* rows of the text; 0 = 30 */
	unsigned columns;   /* width of the text, 0 = 100 */
	bool json;
};
struct clika_diff_result {
	size_t sz;            /* set by the caller */
	uint32_t compared;    /* rows on both sides */
	uint32_t significant; /* rows with a change past its noise */
	uint32_t appeared, vanished;
	uint32_t failed; /* past the noise, and past @fail_above in @metric */
};
CLIKA_API void clika_diff_opts__init(struct clika_diff_opts *o);
CLIKA_API int clika_diff(const char *a, const char *b, const struct clika_diff_opts *o, char **data,
			 size_t *len, struct clika_diff_result *result,
			 struct clika_prof_error *err);

/*
 * Makes one recording of several, and of traces of ONNX Runtime's or PyTorch's (Kineto's) profiler.
 * Recordings of one boot share a clock; other machines are aligned by the wall clock, and what
 * cannot be aligned is refused. Traces need a wall clock too, their own or the one given here.
 */
enum clika_merge_at {
	CLIKA_AT_TRACE = 0,    /* as the trace itself says */
	CLIKA_AT_REALTIME = 1, /* its first event lies at @at_ns of CLOCK_REALTIME */
	CLIKA_AT_OFFSET = 2,   /* its first event lies @at_ns behind the begin of the recordings */
	CLIKA_AT_MTIME = 3,    /* its last event lies where the file was last written */
};
struct clika_merge_input {
	const char *path;
	enum clika_merge_at at; /* of traces */
	uint64_t at_ns;
};
struct clika_merge_opts {
	size_t sz;
	uid_t owner; /* (uid_t)-1 = leave */
	gid_t group;
	uint64_t max_step_ns; /* a wall clock that was set by more than this is refused; 0 = 1 ms */
	const char *command;  /* to be noted in the result, NULL = none */
	void (*note)(void *ctx, const char *line); /* what is worth knowing; NULL = nobody asks */
	void *note_ctx;
};
struct clika_merge_result {
	size_t sz; /* set by the caller */
	uint32_t recordings, traces, machines, processes, threads;
	uint64_t events, imported; /* imported: of them, from traces */
	uint64_t left_out;         /* rows of traces that are no event of ours */
	uint64_t duration_ns, bytes;
	uint64_t accuracy_ns; /* of the alignment, beside what the wall clocks differ themselves */
	bool incomplete;      /* some recording was incomplete or damaged */
};
CLIKA_API void clika_merge_opts__init(struct clika_merge_opts *o);
/* The file appears complete or not at all. */
CLIKA_API int clika_merge(const struct clika_merge_input *inputs, size_t n, const char *path,
			  const struct clika_merge_opts *o, struct clika_merge_result *result,
			  struct clika_prof_error *err);

/*
 * Sends the recording as OTLP traces to a collector's HTTP receiver. What the server refuses for
 * now (429, 502, 503, 504, no answer) is tried again, after what it says in Retry-After or with
 * growing pauses; anything else ends the push. Needs libcurl at run time: -ENOTSUP without.
 */
struct clika_push_opts {
	size_t sz;
	const char *url;            /* http(s)://host:4318; without a path /v1/traces is added */
	const char *const *headers; /* "Name: value", for instance with a token */
	size_t n_headers;
	unsigned timeout_ms;  /* of one try; 0 = 10,000 */
	unsigned tries;       /* of one body; 0 = 6 */
	unsigned backoff_ms;  /* before the second try, then doubled; 0 = 1,000 */
	unsigned max_wait_ms; /* longest pause, also when the server asks for more; 0 = 60,000 */
};
struct clika_push_result { /* filled on errors too */
	size_t sz;         /* set by the caller */
	uint64_t requests; /* accepted; each holds up to 512 spans */
	uint64_t spans;    /* accepted */
	uint64_t rejected; /* spans that the collector did not take from accepted requests */
	uint64_t retries;
	char message[256]; /* what the collector said about rejected spans, "" = nothing */
};
CLIKA_API int clika_recording__push_otlp(struct clika_recording *r, const struct clika_push_opts *o,
					 struct clika_push_result *result,
					 struct clika_prof_error *err);

/* ---- what is there: list and doctor ---------------------------------------------------------- */

struct clika_marked_object {
	const char *path; /* as the process sees it; " (deleted)" stripped, flag below */
	bool deleted;
	const char *build_id;       /* hex, "" = none */
	bool batched;               /* carries clika markers with the batched transport */
	uint32_t n_markers;         /* USDT notes */
	const char *const *markers; /* "provider:name", sorted, unique */
	size_t n_marker_names;
};
struct clika_marked_process {
	pid_t pid;
	uid_t uid;
	const char *comm, *exe, *cgroup, *container;
	const struct clika_marked_object *objects;
	size_t n_objects;
};
/* Calls @fn for each process that maps an object with markers (only clika's, or any provider's
 * with @all_providers); pid 0 = all that may be read. Non-zero from @fn stops and is returned;
 * else the number of processes that this user may not look into. */
CLIKA_API int clika_list(pid_t pid, bool all_providers,
			 int (*fn)(void *ctx, const struct clika_marked_process *p), void *ctx,
			 struct clika_prof_error *err);

/*
 * Recipes: what to probe in runtimes that carry no markers. Those that are part of the library,
 * those of /etc/clika-bpf-prof/recipes and of the user's ~/.config/clika-bpf-prof/recipes, a later
 * one of the same name in place of an earlier. @log is told of files that are passed over.
 */
struct clika_recipe {
	const char *name, *title;
	const char *versions, *records; /* NULL = it does not say */
	const char *from;               /* "built in", or the file */
	bool automatic;                 /* applied by itself wherever a file fits */
	uint32_t functions;             /* entries; each may stand for many functions */
	uint32_t off;                   /* of them, only on demand */
};
CLIKA_API int clika_recipes(int (*fn)(void *ctx, const struct clika_recipe *r), void *ctx,
			    clika_prof_log_fn log, void *log_ctx, struct clika_prof_error *err);

/* One recipe, by its name or file, as text for people; @json: the file itself. *@data is malloc'ed,
 * NUL-terminated, *@len without the NUL. */
CLIKA_API int clika_recipe__show(const char *recipe, bool json, unsigned columns, char **data,
				 size_t *len, struct clika_prof_error *err);

/*
 * What the recipes find in a program or library, as text: which of them fit, functions for each
 * pattern, layouts, tables. @recipes: further recipe files, tried beside those that are there.
 */
struct clika_recipe_check {
	size_t sz;          /* set by the caller */
	uint32_t recipes;   /* that fit the file */
	uint32_t functions; /* that they find */
	uint32_t silent;    /* patterns that find none */
};
CLIKA_API int clika_recipe__check(const char *path, const char *const *recipes, size_t n_recipes,
				  unsigned columns, char **data, size_t *len,
				  struct clika_recipe_check *result, struct clika_prof_error *err);

enum clika_check_state { CLIKA_CHECK_OK = 0, CLIKA_CHECK_SLOWER = 1, CLIKA_CHECK_MISSING = 2 };
struct clika_check {
	const char *name; /* "multi-uprobe links" */
	enum clika_check_state state;
	const char *detail; /* what was found */
	const char *advice; /* what to do, NULL = nothing */
	bool required;      /* recording is impossible without */
};
/* Probes kernel and rights by trying, not by version. Returns the number of required ones missing. */
CLIKA_API int clika_doctor(int (*fn)(void *ctx, const struct clika_check *c), void *ctx);

#ifdef __cplusplus
}
#endif
#endif
