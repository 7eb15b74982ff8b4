// SPDX-License-Identifier: Apache-2.0
/* Functions that set up some arguments and jump on to the one that does the work. */
#include <capstone/capstone.h>

#include "user/probe/elf_internal.h"
#include "user/probe/vtables.h"

#define MAX_BYTES 64
#define MAX_INSNS 10

static bool is_first_argument(bool x86, unsigned reg)
{
	static const uint16_t intel[] = { X86_REG_RDI, X86_REG_EDI, X86_REG_DI,
					  X86_REG_DIL, X86_REG_RSI, X86_REG_ESI,
					  X86_REG_SI,  X86_REG_SIL, X86_REG_RSP };
	static const uint16_t arm[] = { ARM64_REG_X0, ARM64_REG_W0, ARM64_REG_X1, ARM64_REG_W1,
					ARM64_REG_SP };
	const uint16_t *list = x86 ? intel : arm;
	size_t n = x86 ? ARRAY_SIZE(intel) : ARRAY_SIZE(arm), i;

	for (i = 0; i < n; i++)
		if (list[i] == reg)
			return true;
	return false;
}

/* Registers and constants only, and neither the first two arguments nor the stack pointer are written. */
static bool is_set_up(csh handle, bool x86, const cs_insn *in)
{
	static const uint8_t flow[] = { CS_GRP_JUMP, CS_GRP_CALL, CS_GRP_RET, CS_GRP_INT };
	cs_regs reads, writes;
	uint8_t n_reads, n_writes;
	unsigned i;

	for (i = 0; i < sizeof(flow); i++)
		if (cs_insn_group(handle, in, flow[i]))
			return false;
	for (i = 0; x86 && i < in->detail->x86.op_count; i++)
		if (in->detail->x86.operands[i].type == X86_OP_MEM && in->id != X86_INS_NOP)
			return false;
	for (i = 0; !x86 && i < in->detail->arm64.op_count; i++)
		if (in->detail->arm64.operands[i].type == ARM64_OP_MEM)
			return false;
	if (cs_regs_access(handle, in, reads, &n_reads, writes, &n_writes) != CS_ERR_OK)
		return false;
	for (i = 0; i < n_writes; i++)
		if (is_first_argument(x86, writes[i]))
			return false;
	return true;
}

static uint64_t follow(csh handle, bool x86, cs_insn *in, const uint8_t *code, size_t n,
		       uint64_t vaddr)
{
	unsigned count;

	for (count = 0; count < MAX_INSNS; count++) {
		/* The disassembler knows bti only as a hint, and that one writes nothing. */
		if (!cs_disasm_iter(handle, &code, &n, &vaddr, in))
			return 0;
		if (x86 ? in->id == X86_INS_JMP : in->id == ARM64_INS_B) {
			if (x86)
				return in->detail->x86.operands[0].type == X86_OP_IMM
					       ? (uint64_t)in->detail->x86.operands[0].imm
					       : 0;
			if (in->detail->arm64.cc != ARM64_CC_INVALID &&
			    in->detail->arm64.cc != ARM64_CC_AL)
				return 0;
			return (uint64_t)in->detail->arm64.operands[0].imm;
		}
		if (!is_set_up(handle, x86, in))
			return 0;
	}
	return 0;
}

uint64_t elf_file__jumps_on(struct elf_file *f, uint64_t vaddr)
{
	bool x86 = f->ident.machine == EM_X86_64;
	const struct elf_load *l;
	uint8_t code[MAX_BYTES];
	size_t n = elf_file__read(f, vaddr, code, sizeof(code));
	uint64_t to = 0;
	cs_insn *in;
	csh handle;

	if (!n || cs_open(x86 ? CS_ARCH_X86 : CS_ARCH_ARM64,
			  x86 ? CS_MODE_64 : CS_MODE_LITTLE_ENDIAN, &handle) != CS_ERR_OK)
		return 0;
	if (cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON) == CS_ERR_OK && (in = cs_malloc(handle))) {
		to = follow(handle, x86, in, code, n, vaddr);
		cs_free(in, 1);
	}
	cs_close(&handle);
	l = to ? elf_file__load_at(f, to) : NULL;
	return l && l->flags & PF_X ? to : 0;
}
