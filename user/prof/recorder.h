/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIKA_USER_PROF_RECORDER_H
#define CLIKA_USER_PROF_RECORDER_H

#include <clika/prof.h>

#include "user/probe/files.h"
#include "user/probe/mmaps.h"
#include "user/stream/harvest.h"
#include "user/stream/ring.h"

/* A process that was asked for, or the command that was started. */
struct root_target {
	pid_t pid; /* in the caller's namespace */
	int pidfd; /* -1: looked at by its start time instead */
	uint64_t start_ticks;
	bool ended;
};

struct command {
	pid_t pid;  /* 0 = none */
	int go;     /* written to let it exec; -1 when done */
	int failed; /* reads the errno of an exec that failed */
	bool ended;
	int status;
};

struct clika_recorder {
	struct clika_recorder_opts o; /* strings below are copies */
	char *output_dir, *path, *tag;
	struct logger log;
	struct features features;

	struct strpool *pool;
	struct recording_writer *w;
	int recording_fd;
	struct chain_env env;
	struct attacher *attacher;
	struct files *files;
	struct recipes *recipes;
	struct budget *budget; /* NULL = no limit */
	struct mmaps *mmaps;
	struct ring *ring;
	struct names *names;
	struct people *people;
	struct decoder *decoder;
	int epoll;

	struct root_target *roots;
	size_t n_roots;
	uint64_t roots_looked; /* those without a pidfd, last time */
	struct command command;

	uint64_t attach_ts, start_ts, stop_ts;
	uint64_t capture;    /* id of the session's own capture, 0 = not open */
	uint64_t capture_at; /* opens then */
	uint64_t pass;       /* drain passes so far */
	uint64_t last_flush, last_anchor, last_look;
	unsigned idle; /* passes in a row without data */
	size_t pending_limit;
	bool started, stopped, full, ended;
	uint64_t full_ts; /* when the file had reached its size */
	uint64_t mmaps_lost_told;
	bool calibrating;
	const struct recipe_arg *told_args[64]; /* that were found implausible */
	size_t n_told_args;
};

/* targets.c */
int recorder__find_targets(struct clika_recorder *r, struct clika_error *err);
int recorder__scan_targets(struct clika_recorder *r, struct clika_error *err);
/* Looks at every mapping of a process; attaches to what it finds. */
int recorder__scan_process(struct clika_recorder *r, pid_t lpid, struct person_process *proc,
			   struct clika_error *err);
/* The command is held at its entry: its libraries get their probes. */
void recorder__at_entry(void *ctx);
void recorder__new_mappings(struct clika_recorder *r);
bool recorder__targets_left(struct clika_recorder *r);
/* Takes note of buffers that exist already. What they hold now is older than the recording and stays
 * out, unless @whole: then times decide, record by record. */
void recorder__position_buffers(struct clika_recorder *r, struct person_process *proc, bool whole);

/* launch.c */
int command__prepare(struct command *c, char *const *argv, uid_t uid, gid_t gid,
		     struct clika_error *err);
int command__find(const char *name, char *path, size_t n, struct clika_error *err);
/* Lets it become the program; @at_entry is called while it is held at its first instruction, with
 * everything mapped that it needs to start (where the kernel allows holding it). */
int command__go(struct command *c, void (*at_entry)(void *ctx), void *ctx, struct clika_error *err);
void command__reap(struct command *c);
void command__abort(struct command *c);

/* budget.c */
struct budget *budget__new(double share);
void budget__free(struct budget *b);
/* Now and then: what do function probes cost, and should some be taken off? */
void budget__look(struct budget *b, struct clika_recorder *r);
void budget__stats(const struct budget *b, struct clika_recorder_stats *st);

/* calibrate.c: what a hit costs on this machine, in ns, measured on the recorder itself. */
enum hit_class { HIT_EMULATED, HIT_STEPPED, HIT_RETURN, HIT_CLASSES };
struct hit_costs {
	double ns[HIT_CLASSES];
};
int calibrate__hits(struct clika_recorder *r, struct hit_costs *out, struct clika_error *err);
/* A record of its own making. */
bool calibrate__is_own(const struct clika_recorder *r, const void *rec, size_t size);
enum hit_class hit__class(const struct elf_file *f, uint64_t offset);

/* account.c */
void recorder__account(struct clika_recorder *r, bool final);
void recorder__totals(const struct clika_recorder *r, struct count_info *c, uint64_t *unknown);

/* drain.c */
int recorder__drain(struct clika_recorder *r, struct clika_error *err);
int recorder__barrier(struct clika_recorder *r, struct clika_error *err);
int recorder__write_out(struct clika_recorder *r, struct clika_error *err);
int recorder__on_record(void *ctx, const void *rec, size_t size);

int prof_error__set(struct clika_prof_error *to, int code, const struct clika_error *from);

#endif
