/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that targets map, and what is attached to each. A file is opened once, judged once and
 * known by a number; files with nothing to probe are remembered so that they are not opened again.
 */
#ifndef CLIKA_USER_PROBE_FILES_H
#define CLIKA_USER_PROBE_FILES_H

#include <sys/stat.h>

#include "user/probe/attach.h"
#include "user/probe/elf_file.h"
#include "user/probe/fetch.h"
#include "user/probe/proc.h"

enum site_role { ROLE_MARKER, ROLE_USDT };

/* A single-hit marker, by the index that its records carry. */
struct hit_site {
	enum site_role role;
	uint8_t rec_kind; /* ROLE_MARKER: CLIKA_REC_ kind */
	bool with_args;   /* ROLE_MARKER: the variant with typed arguments */
	char *provider, *name;
	uint32_t file;
	uint8_t n_args;
	uint16_t str_mask;
	bool is_signed[WIRE_MAX_ARGS];
	uint64_t literals_vaddr; /* what displacements of literals count from */
};

/* What the functions of one rule of a recipe in one file have in common. */
struct func_kind {
	const struct recipe *recipe;
	const struct recipe_function *rule;
	uint32_t file;
	struct fetch_arg args[RECIPE_MAX_ARGS];
	uint16_t entry_set, return_set; /* 0 = nothing to fetch */
	bool returns;
	bool never; /* no call is kept: its functions get no probes */
};

struct func_probe {
	char *name;   /* demangled when mangled; by a recipe: its first name, "{arg}" in it stays */
	char **names; /* of rule->names, when there are several; else NULL */
	const struct func_kind *kind; /* NULL = asked for by a pattern of the user's */
	uint32_t file;
	uint32_t n_sites;
	bool off;        /* its probes were taken off again */
	uint64_t off_ts; /* ns; calls that ran then have no end */
};

struct probed_file {
	uint32_t number;
	char *path; /* as the process that showed it first sees it */
	struct elf_file *elf;
	int fd;
	struct stat st; /* when it was attached */
	bool batched;
	struct clika_note note;
	uint32_t n_hits, n_funcs;
	uint32_t first_func;
	/* Of functions, by offset; kept so that some can be taken off. */
	struct probe_site *func_sites;
	size_t n_func_sites;
	uint32_t func_group; /* of links */
	unsigned func_switch;
	bool func_parity;
};

struct files;
struct files_opts {
	struct attacher *attacher;
	const struct logger *log;
	bool markers;
	const char *const *probes; /* "LIB-GLOB:FUNC-GLOB" */
	size_t n_probes;
	const char *const *usdts; /* "[LIB-GLOB:]PROVIDER:NAME[(N:str,...)]" */
	size_t n_usdts;
	pid_t only_pid; /* links bound to this process; 0 = the process set in BPF decides */
	bool retprobe;  /* calls end by return probes instead of return instructions */
	unsigned max_single_funcs;     /* functions at most where every probe costs a link */
	const struct recipes *recipes; /* NULL = none; must outlive it */
	/* One line when a recipe applies to a file; may be NULL. */
	void (*told)(void *ctx, const char *line);
	/* A file with something to say about it: "late" and "refused" become warnings. */
	void (*warn)(void *ctx, const char *code, const char *text);
	void *warn_ctx;
};

/* -EINVAL: a pattern is malformed, the message says which. */
int files__new(const struct files_opts *o, struct files **out, struct clika_error *err);
void files__free(struct files *f);

/*
 * Judges the file of a mapping, attaches when there is something to. Gives its number, or
 * UINT32_MAX for "nothing there". 1: the process or the mapping has gone, which says nothing about
 * the file. Errors are for this file only.
 */
/* @settled: the process runs its own code already, or is about to: its libraries are relocated. */
void files__settled(struct files *f, bool settled);
int files__mapped(struct files *f, pid_t pid, const struct proc_map *m, uint32_t *number,
		  struct clika_error *err);
/* The same for an open descriptor (a command before it runs). */
int files__opened(struct files *f, int fd, const char *path, uint32_t *number,
		  struct clika_error *err);
/* A mapping seen in an event: true when this very file is known to have nothing to probe. */
bool files__is_dull(const struct files *f, uint32_t maj, uint32_t min, uint64_t ino, uint64_t gen);
void files__set_dull(struct files *f, uint32_t maj, uint32_t min, uint64_t ino, uint64_t gen);

size_t files__count(const struct files *f);
const struct probed_file *files__get(const struct files *f, uint32_t number);
size_t files__n_sites(const struct files *f); /* probe sites attached in all */
const struct hit_site *files__hit(const struct files *f, uint32_t site);
const struct func_probe *files__func(const struct files *f, uint32_t func);
size_t files__n_funcs(const struct files *f);
/*
 * Takes the probes of functions off for which @off says so (it gets the function's number), by a
 * smaller link that takes the place of the old one. Functions that are off stay off. Returns the
 * number taken off, 0 when the kernel's links cannot do that for this file, or an error: then all
 * is as it was.
 */
int files__take_off(struct files *f, uint32_t file, bool (*off)(void *ctx, uint32_t func),
		    void *ctx, struct clika_error *err);
/* A pattern that matched nothing so far: its text, or NULL at the end. */
const char *files__unmatched(const struct files *f, size_t i);

#endif
