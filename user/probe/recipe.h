/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes: what to probe in a runtime that carries no markers of ours, as data. One JSON file (with
 * comments) a runtime; docs/recipes.md describes it for people, recipes/recipe.schema.json for
 * machines. Nothing here or elsewhere in C knows a runtime by name.
 */
#ifndef CLIKA_USER_PROBE_RECIPE_H
#define CLIKA_USER_PROBE_RECIPE_H

#include "user/probe/elf_file.h"

#define RECIPE_FORMAT 1
#define RECIPE_MAX_ARGS 8   /* of one function, the return value among them */
#define RECIPE_MAX_PATH 5   /* steps from a register to a value */
#define RECIPE_MAX_IFS 4    /* conditions joined by and */
#define RECIPE_MAX_NAMES 8  /* names of one function, by condition */
#define RECIPE_MAX_DOES 8   /* meanings of one function */
#define RECIPE_MAX_BYTES 64 /* of one text or array argument */

/* Where an argument starts from. */
enum recipe_source {
	RECIPE_ARG = 1,    /* the index-th integer argument: a register, 0 to 5 */
	RECIPE_STACK = 2,  /* the index-th 8-byte word above the return address, at entry */
	RECIPE_RETURN = 3, /* what the function returns in its first register */
};

enum recipe_type {
	RECIPE_I8 = 1,
	RECIPE_U8,
	RECIPE_I16,
	RECIPE_U16,
	RECIPE_I32,
	RECIPE_U32,
	RECIPE_I64,
	RECIPE_U64,
	RECIPE_POINTER,
	RECIPE_F32,
	RECIPE_F64,    /* in memory only: path must not be empty */
	RECIPE_STRING, /* NUL-terminated text at the place */
	RECIPE_CHARS,  /* the same, in an array of `count` bytes at the place */
	RECIPE_STD_STRING, /* a std::string of libstdc++ or libc++-compatible layout {data, size} at the place */
	RECIPE_ARRAY,   /* `count` elements at the place: shown as "[2,3,4]" */
	RECIPE_COUNTED, /* u64 number of elements, then room for `count` elements in place: longer
			    * ones are shown by their first element's absence as "[...]" */
};

/* One step of a path: value, plus that of a layout. All steps but the last are followed (the word
 * there becomes the next base); the last is where the value lies. An empty path: the source itself
 * is the value (numbers), or the address of it (texts, arrays). */
struct recipe_step {
	int64_t value;
	int layout; /* index into the recipe's layouts, -1 = none */
};

/* "if": all must hold. Numbers only. A condition on an argument that could not be read is false. */
enum recipe_op { RECIPE_EQ = 1, RECIPE_NE, RECIPE_LT, RECIPE_LE, RECIPE_GT, RECIPE_GE };
struct recipe_if {
	int arg; /* index into the function's args */
	enum recipe_op op;
	int64_t value;
};
struct recipe_ifs {
	struct recipe_if all[RECIPE_MAX_IFS];
	unsigned n;
};

/* "values": texts for numbers ({"1": "host to device"}). */
struct recipe_value {
	int64_t value;
	char *text;
};

struct recipe_arg {
	char *name;
	enum recipe_source source;
	uint8_t index;
	struct recipe_step path[RECIPE_MAX_PATH];
	unsigned n_path;
	enum recipe_type type;
	enum recipe_type element; /* of RECIPE_ARRAY, RECIPE_COUNTED: a number type */
	uint8_t count;            /* of RECIPE_CHARS, RECIPE_ARRAY, RECIPE_COUNTED */
	bool late;                /* RECIPE_ARG with "at": "return": the register as it was at the
				   * entry, followed at the return (a result through a pointer) */
	uint8_t shift;            /* numbers: shifted right by so many bits before they are cut */
	uint8_t times;            /* numbers: times the argument register times - 1; 0 = not */
	bool hidden;              /* "show": false: not an argument of the span */
	bool positive;            /* numbers and elements below 1 are implausible */
	struct recipe_ifs ifs;    /* shown only then */
	struct recipe_value *values;
	size_t n_values;
};

/* What a call means beside a span. */
enum recipe_what {
	RECIPE_ALLOC = 1,
	RECIPE_FREE,
	RECIPE_RESERVE,
	RECIPE_RELEASE,
	RECIPE_FLOW_OUT,
	RECIPE_FLOW_STEP,
	RECIPE_FLOW_IN,
	RECIPE_ASYNC_BEGIN,
	RECIPE_ASYNC_END,
	RECIPE_REQUEST_BEGIN,
	RECIPE_REQUEST_OUTPUT,
	RECIPE_REQUEST_END,
	RECIPE_COUNTER,
	RECIPE_INSTANT,
};

/*
 * ALLOC, RESERVE: id = address, amount = bytes. FREE, RELEASE: id = address. FLOW, ASYNC: name and id.
 * REQUEST_BEGIN with a request open under that id that has had output: that one ends at its last output and a new
 * one begins; without output yet it goes on (a prompt in several parts). REQUEST_OUTPUT: amount
 * units; the first of a request is its first output. ASYNC_END without a name: of what was begun under that id. COUNTER: name, amount. INSTANT: name.
 */
struct recipe_does {
	enum recipe_what what;
	bool at_return; /* else at entry */
	char *name; /* pool, flow, async span, request kind, counter; may hold {arg}; NULL = the recipe's name */
	int id;     /* index into args, -1 = none (then 0) */
	int amount; /* index into args, -1 = amount_value counts */
	int64_t amount_value;
	int device; /* index into args, -1 = device_value counts */
	int64_t device_value;
	char *device_name; /* of that device; may hold {arg}; NULL = it has none */
	struct recipe_ifs ifs;
};

struct recipe_name {
	struct recipe_ifs ifs; /* n = 0: always */
	/* "$1" text of the first star of the pattern, "$0" the name without parameters and return type,
	 * "{arg}" an argument's text */
	char *text;
};

struct recipe_function {
	unsigned line;      /* of its "match" in the file, for messages */
	uint64_t libraries; /* bit i: recipe->libraries[i] */
	/*
	 * Globs, the first that matches counts. Each is tried on the symbol, then on the demangled name:
	 * without parameters and return type, without parameters, whole. "$1" is text of the first of
	 * these that matches, each star taking as little as it can, from the left.
	 */
	char **match;
	size_t n_match;
	char **only; /* when there are any: one of these must match as well */
	size_t n_only;
	char **except;
	size_t n_except;
	int table; /* index into recipe->tables: functions that a table of pointers leads to; -1 = symbols */
	bool span;   /* "span": false: no span, only what it does */
	bool off;    /* hot: only with --recipe NAME:all (or ":group") */
	char *group; /* NULL = none */
	char *why_off;
	char *category; /* NULL = the recipe's */
	struct recipe_name
		names[RECIPE_MAX_NAMES]; /* the last one has no condition: "$0" by default */
	unsigned n_names;
	/*
	 * Not 0: the file's constants hold the name as a text, up to one of these characters at which it
	 * may be cut ("ns::$1" for "add_Tensor" is "ns::add" where "ns::add_Tensor" is no text and that
	 * is). Where none is, the name stays whole. There is one name then, with a constant beginning.
	 */
	char cut_at;
	struct recipe_arg args[RECIPE_MAX_ARGS];
	unsigned n_args;
	struct recipe_does does[RECIPE_MAX_DOES];
	unsigned n_does;
	/* What the kernel side takes: calls that one of the two is true of; both -1 = all. */
	int keep_size; /* argument that is at least keep_min; the block of their ALLOC is remembered */
	uint64_t keep_min;
	int keep_block; /* argument that is the address of a remembered block */
};

struct recipe_library {
	char *id;
	char **files; /* globs on the file's name (a path when they hold a slash); any of them */
	size_t n_files;
	char **sonames; /* globs on DT_SONAME */
	size_t n_sonames;
	char **exports; /* symbols of the dynamic symbol table: all of them must be there */
	size_t n_exports;
	char **build_ids; /* hex */
	size_t n_build_ids;
	/* A file is the library when it fits every one of the lists above that is not empty. */
};

/* A number that differs between versions of a runtime, and where to find it. */
enum recipe_how {
	RECIPE_HOW_ADDRESS = 1, /* "address": accessor returns its argument plus the number */
	RECIPE_HOW_LOAD, /* "load": it reads memory at its argument plus the number: the lowest such */
	RECIPE_HOW_VALUE, /* "value": it returns what lies at its argument plus the number */
	/* All paths through it count. On some it may return something else; those that return what
	 * is asked for must agree. Paths that are taken for a null argument only do not count. */
};
struct recipe_layout {
	char *name;
	uint64_t libraries; /* that hold the accessor */
	char *accessor;     /* glob on symbol or demangled name; NULL = none */
	enum recipe_how how;
	int64_t add;                     /* to what the accessor gives */
	char *debug_type, *debug_member; /* from DWARF when the file (or its debug file) has it */
	struct recipe_layout_row { /* "versions": by build id or by an exported symbol, the first that fits */
		char *build_id, *exports;
		int64_t value;
	} * rows;
	size_t n_rows;
};

/* A table of function pointers in the file's data (an API struct), read from relocations; or the virtual functions
 * of a class and of those that derive from it, found by their type information: named "ns::Class<float>::SLOT". */
struct recipe_table {
	char *name;
	uint64_t libraries;
	char *derived_from; /* the base, "ns::Class"; NULL = one table */
	unsigned entries;   /* functions that the base's own table has, exactly; 0 = any number */
	bool follow_jumps;  /* a function that only jumps on stands for the one that it jumps to */
	char *getter; /* exported function that returns the address of a struct whose first word is a
			   * function that returns the table; NULL = longest run of relocations */
	unsigned at_least; /* entries that it must have */
	struct recipe_slot {
		unsigned index;
		char *name;
	} * slots; /* the names under which patterns find them */
	size_t n_slots;
};

struct recipe {
	char *path; /* where it came from, "built in" text for those that are part of the program */
	uint64_t hash; /* of its text */
	char *name, *title, *versions, *records, *category;
	bool automatic; /* applied when a file matches; else only when named */
	struct recipe_library *libraries;
	size_t n_libraries; /* at most 64 */
	struct recipe_layout *layouts;
	size_t n_layouts;
	struct recipe_table *tables;
	size_t n_tables;
	struct recipe_function *functions;
	size_t n_functions;
};

/* JSON with comments (// and block). The message names file, line and reason. */
int recipe__parse(const char *text, size_t len, const char *shown_as, struct recipe **out,
		  struct clika_error *err);
void recipe__free(struct recipe *r);
const char *recipe_what__name(enum recipe_what what); /* as in the JSON: "alloc" */
const char *recipe_type__name(enum recipe_type type); /* "i32" */
const char *recipe_op__name(enum recipe_op op);       /* "gt" */

/* --- the set that is in force ------------------------------------------------------------------ */

struct recipes;
struct recipes_opts {
	bool automatic; /* those that say so apply by themselves */
	/* NAME, NAME:all, NAME:GROUP, or a path (holds a slash or ends in .json); later files replace earlier of one name */
	const char *const *wanted;
	size_t n_wanted;
	bool names_only;      /* a path is an error */
	const char *user_dir; /* NULL = none; see recipes__user_dir() */
};
/* Built in, then /etc/clika-bpf-prof/recipes, then the user's folder: a later one of the same name replaces an earlier.
 * A file that is broken is an error when it was named, else one line through @log. */
int recipes__open(const struct recipes_opts *o, const struct logger *log, struct recipes **out,
		  struct clika_error *err);
void recipes__free(struct recipes *rs);
size_t recipes__count(const struct recipes *rs);
const struct recipe *recipes__get(const struct recipes *rs, size_t i);
/* The file as it is. */
const char *recipes__text(const struct recipes *rs, size_t i, size_t *len);
bool recipes__applies(const struct recipes *rs, size_t i); /* automatic, or named */
/* Is the function on: not off, or asked for by NAME:all or its group. */
bool recipes__function_on(const struct recipes *rs, size_t i, const struct recipe_function *fn);
/* Does a function that is on keep allocations by their size? */
bool recipes__keep_blocks(const struct recipes *rs);
/* $XDG_CONFIG_HOME or ~/.config of the invoking user (under sudo: of SUDO_UID), with /clika-bpf-prof/recipes; malloc'ed. */
char *recipes__user_dir(void);

/* --- a file ---------------------------------------------------------------------------------------- */

/* Which of the recipe's libraries @f is: bit i = libraries[i]. Headers, and for exports the hash table of dynamic
 * symbols: cheap enough for every file that a machine maps. */
uint64_t recipe__library_of(const struct recipe *r, struct elf_file *f, const char *path);

struct recipe_pick {
	const struct recipe_function *rule;
	size_t match; /* which of rule->match; a slot's name stands as symbol for functions of tables */
	const struct elf_func *func; /* lives until the callback returns */
	const char *names
		[RECIPE_MAX_NAMES]; /* of rule->names, "$n" filled in; "{arg}" stays; live likewise */
};
struct recipe_found {       /* per function rule, by index */
	uint32_t functions; /* also those that @on says no to */
};
/*
 * Functions of the file that the recipe's rules name, by address, each once, under the first rule (in the order of the
 * recipe) that matches. A function whose rule @on says no to is not given, nor left to a later rule:
 * so a rule that is off keeps its functions from a wider one behind it. @on NULL: all are. Tables count too. One pass over the symbols
 * however many rules there are. @found: n_functions entries, may be NULL. -ENODATA: the file has no symbols at all.
 */
int recipe__pick(const struct recipe *r, uint64_t libraries, struct elf_file *f,
		 bool (*on)(void *ctx, const struct recipe_function *fn),
		 int (*fn)(void *ctx, const struct recipe_pick *p), void *ctx,
		 struct recipe_found *found, struct func_skips *skips, struct clika_error *err);

/*
 * Texts that begin with @begin among the constants of the file (sections that are neither written nor run), for names
 * that are cut to one of them. No such text: an empty set.
 */
struct recipe_texts;
int recipe_texts__read(struct elf_file *f, const char *begin, struct recipe_texts **out,
		       struct clika_error *err);
void recipe_texts__free(struct recipe_texts *t);
size_t recipe_texts__count(const struct recipe_texts *t);
/* Cuts @name, given without @begin, to the longest of the texts that it is or that goes up to an @at; false (and whole) when there is none. */
bool recipe_texts__cut(const struct recipe_texts *t, char *name, char at);

#endif
