/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a small function does with its first argument, told from its machine code: every path through it is
 * followed with what registers and the stack hold as far as that is an address built from the argument, a
 * word read through it, or a number. Nothing is run, and the code is not trusted: all of it is bounded.
 */
#ifndef CLIKA_USER_PROBE_FOLLOW_H
#define CLIKA_USER_PROBE_FOLLOW_H

#include "user/probe/elf_internal.h"

#define FOLLOW_REGS 32
#define FOLLOW_SLOTS 24
#define FOLLOW_MAX_RETURNS 32

enum value_kind {
	VALUE_UNKNOWN,
	VALUE_NUMBER, /* n itself; addresses of the file among them */
	VALUE_ARG,    /* first argument + n */
	VALUE_LOADED, /* what lies in memory at first argument + n */
	VALUE_STACK,  /* stack pointer at entry + n */
};
struct value {
	enum value_kind kind;
	int64_t n;
};

struct followed {
	struct value returns[FOLLOW_MAX_RETURNS]; /* by path, each once, unknown ones left out */
	unsigned n_returns;
	bool reads; /* memory through the argument */
	int64_t lowest_read;
	const char *cut; /* why not all paths were followed to their ends; NULL = they were */
};

/* @relocs: fill in pointers that code reads from the file's data; may be NULL. Only -ENOMEM and a
 * disassembler that does not start are errors. */
int follow__function(struct elf_file *f, const struct elf_relocs *relocs, uint64_t vaddr,
		     uint64_t size, struct followed *out, struct clika_error *err);

/* --- between follow.c and the two machines ------------------------------------------------------ */

#include <capstone/capstone.h>

struct follow_state {
	struct value reg[FOLLOW_REGS];
	struct {
		int64_t at;
		uint8_t size;
		struct value v;
	} slot[FOLLOW_SLOTS];
	uint8_t n_slots;
	bool argument_tested; /* the flags say whether the first argument is null */
};

enum follow_next {
	NEXT_ON,     /* the instruction behind */
	NEXT_END,    /* nothing of interest on this path any more */
	NEXT_RETURN, /* with its value in @result */
	NEXT_JUMP,   /* to @target */
	NEXT_BRANCH, /* to @target or on */
};

struct follow {
	struct elf_file *f;
	const struct elf_relocs *relocs;
	struct followed *out;
	csh handle;
	cs_insn *insn;
	struct follow_state now;
	/* by an instruction: */
	uint64_t target;
	struct value result;
	bool forked; /* goes on with @other as well */
	struct follow_state other;
};

enum follow_next follow_x86__step(struct follow *w, const cs_insn *in);
enum follow_next follow_arm64__step(struct follow *w, const cs_insn *in);

struct value value__number(int64_t n);
struct value value__plus(struct value a, struct value b);
struct value value__minus(struct value a, struct value b);
struct value value__times(struct value a, int64_t by);
/* What a register of 32 bits keeps of it. */
struct value value__low_half(struct value v);
/* Memory of @size bytes at @at is read, written. */
struct value follow__load(struct follow *w, struct value at, unsigned size);
void follow__store(struct follow *w, struct value at, unsigned size, struct value v);

#endif
