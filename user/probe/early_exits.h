/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways out of a function that cost less to probe than its return instructions (x86-64). Shared by
 * func_sites.c and early_exits.c only.
 */
#ifndef CLIKA_USER_PROBE_EARLY_EXITS_H
#define CLIKA_USER_PROBE_EARLY_EXITS_H

#include <capstone/capstone.h>

#include "user/probe/elf_file.h"

/* Instructions after which another than the next one may run. */
enum flow_kind {
	FLOW_CONDITIONAL, /* to `target`, or on */
	FLOW_JUMP,        /* to `target` */
	FLOW_CALL,        /* of `callee`, and on */
	FLOW_OTHER_CALL,  /* no one knows whom, or not to be probed cheaply */
	FLOW_STOP,        /* returns, leaves the function, or never goes on */
};

#define FLOW_NOWHERE UINT32_MAX

struct flow {
	enum flow_kind kind;
	bool emulated;       /* the kernel takes its part over instead of stepping it */
	bool away;           /* a jump to a part of the function that lies elsewhere */
	uint8_t condition;   /* FLOW_CONDITIONAL: low half of the opcode */
	uint32_t at, target; /* from the function's begin; FLOW_NOWHERE: out of it */
	uint64_t callee;
};

#define FUNC_MAX_PARTS 4 /* of a function that lie elsewhere */

struct func_code {
	struct elf_file *f;
	uint64_t vaddr, offset;
	const uint8_t *code;
	const uint8_t *begins; /* bit 0 of each byte: an instruction begins here */
	size_t size;
	const struct flow *flows; /* in order of `at`, all that there are */
	size_t n_flows;
	struct func_part {
		uint64_t vaddr, size;
	} parts[FUNC_MAX_PARTS];
	size_t n_parts;
	csh handle;
	cs_insn *insn;
	/* Bytes of an instruction that the disassembler does not know, and that never jumps; 0: of none. */
	size_t (*unknown_size)(const uint8_t *p, size_t left);
	bool (*refused)(void *ctx, size_t at); /* by the kernel */
	void *ctx;
};

/* Fills @out->early from @out->exits where something is gained; else leaves n_early 0. */
void early_exits__find(const struct func_code *c, struct func_sites *out);

#endif
