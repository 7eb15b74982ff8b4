// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "user/probe/elf_file.h"

struct one {
	const char *text;
	struct wire_spec spec;
};

#define CONST_(v, n, s)                                                                            \
	{                                                                                          \
		.kind = SPEC_CONST, .value = (v), .bytes = (n), .is_signed = (s)                   \
	}
#define REG(r, n, s)                                                                               \
	{                                                                                          \
		.kind = SPEC_REG, .reg = (r), .bytes = (n), .is_signed = (s)                       \
	}
#define MEM(r, d, n, s)                                                                            \
	{                                                                                          \
		.kind = SPEC_MEM, .reg = (r), .value = (d), .bytes = (n), .is_signed = (s)         \
	}
#define SIB(r, i, k, d, n, s)                                                                      \
	{                                                                                          \
		.kind = SPEC_SIB, .reg = (r), .index = (i), .scale = (k), .value = (d),            \
		.bytes = (n), .is_signed = (s)                                                     \
	}

static void check(uint16_t machine, const struct one *all, size_t n)
{
	struct wire_spec specs[WIRE_MAX_ARGS];
	struct clika_error err;
	size_t i;

	for (i = 0; i < n; i++) {
		const struct wire_spec *want = &all[i].spec, *got = specs;
		int rc;

		memset(specs, 0xff, sizeof(specs));
		err.msg[0] = 0;
		rc = argspec__parse(machine, all[i].text, specs, &err);
		if (rc != 1)
			fail_msg("%s: %d %s", all[i].text, rc, err.msg);
		if (memcmp(want, got, sizeof(*want)) != 0)
			fail_msg("%s: kind %u value %lld reg %u index %u bytes %u signed %u scale "
				 "%u",
				 all[i].text, got->kind, (long long)got->value, got->reg,
				 got->index, got->bytes, got->is_signed, got->scale);
	}
}

/* Offsets in the kernel's struct pt_regs, by name. */
enum {
	R15,
	R14 = 8,
	R13 = 16,
	R12 = 24,
	RBP = 32,
	RBX = 40,
	R11 = 48,
	R10 = 56,
	R9 = 64,
	R8 = 72,
	RAX = 80,
	RCX = 88,
	RDX = 96,
	RSI = 104,
	RDI = 112,
	RSP = 152
};

static void reads_x86_registers_of_every_width(void **state)
{
	static const struct one all[] = {
		{ "8@%rdi", REG(RDI, 8, 0) },
		{ "-8@%rax", REG(RAX, 8, 1) },
		{ "-4@%eax", REG(RAX, 4, 1) },
		{ "4@%r8d", REG(R8, 4, 0) },
		{ "2@%si", REG(RSI, 2, 0) },
		{ "-2@%r15w", REG(R15, 2, 1) },
		{ "1@%al", REG(RAX, 1, 0) },
		{ "-1@%dil", REG(RDI, 1, 1) },
		{ "1@%r10b", REG(R10, 1, 0) },
		{ "8@%rsp", REG(RSP, 8, 0) },
		{ "8@%rbp", REG(RBP, 8, 0) },
		{ "8@%rbx", REG(RBX, 8, 0) },
		{ "8@%rcx", REG(RCX, 8, 0) },
		{ "8@%rdx", REG(RDX, 8, 0) },
		{ "8@%r9", REG(R9, 8, 0) },
		{ "8@%r11", REG(R11, 8, 0) },
		{ "8@%r12", REG(R12, 8, 0) },
		{ "8@%r13", REG(R13, 8, 0) },
		{ "8@%r14", REG(R14, 8, 0) },
		/* as wide as both the marker and the register */
		{ "8@%eax", REG(RAX, 4, 0) },
		{ "4@%rax", REG(RAX, 4, 0) },
		{ "%rdi", REG(RDI, 8, 0) },
		{ "%edi", REG(RDI, 4, 0) },
	};

	(void)state;
	check(EM_X86_64, all, ARRAY_SIZE(all));
}

static void reads_x86_constants_cut_to_their_size(void **state)
{
	static const struct one all[] = {
		{ "4@$5", CONST_(5, 4, 0) },
		{ "-4@$-5", CONST_(-5, 4, 1) },
		{ "4@$-1", CONST_(0xffffffff, 4, 0) },
		{ "-1@$255", CONST_(-1, 1, 1) },
		{ "1@$-1", CONST_(255, 1, 0) },
		{ "8@$0x10", CONST_(16, 8, 0) },
		{ "8@$18446744073709551615", CONST_(-1, 8, 0) },
		{ "-8@$-9223372036854775808", CONST_(INT64_MIN, 8, 1) },
		{ "$7", CONST_(7, 8, 1) },
	};

	(void)state;
	check(EM_X86_64, all, ARRAY_SIZE(all));
}

static void reads_x86_memory_operands(void **state)
{
	static const struct one all[] = {
		{ "8@-16(%rbp)", MEM(RBP, -16, 8, 0) },
		{ "8@(%rax)", MEM(RAX, 0, 8, 0) },
		{ "-4@0x20(%rsp)", MEM(RSP, 32, 4, 1) },
		{ "8@8(%rax,%rbx,4)", SIB(RAX, RBX, 4, 8, 8, 0) },
		{ "8@(%rax,%rbx)", SIB(RAX, RBX, 1, 0, 8, 0) },
		{ "1@-1(%rdi,%r9,1)", SIB(RDI, R9, 1, -1, 1, 0) },
		{ "8@(,%rbx,8)", SIB(SPEC_NO_REG, RBX, 8, 0, 8, 0) },
		{ "8@4210752(,%rbx,8)", SIB(SPEC_NO_REG, RBX, 8, 4210752, 8, 0) },
		{ "8@4210752", MEM(SPEC_NO_REG, 4210752, 8, 0) },
		{ "-16(%rbp)", MEM(RBP, -16, 8, 0) },
	};

	(void)state;
	check(EM_X86_64, all, ARRAY_SIZE(all));
}

static void reads_arm64_operands(void **state)
{
	static const struct one all[] = {
		{ "8@x0", REG(0, 8, 0) },
		{ "-4@w1", REG(8, 4, 1) },
		{ "8@w1", REG(8, 4, 0) },
		{ "8@x30", REG(240, 8, 0) },
		{ "8@sp", REG(248, 8, 0) },
		{ "8@xzr", CONST_(0, 8, 0) },
		{ "-4@wzr", CONST_(0, 4, 1) },
		{ "8@[sp, 16]", MEM(248, 16, 8, 0) },
		{ "8@[sp,#-16]", MEM(248, -16, 8, 0) },
		{ "-8@[x0]", MEM(0, 0, 8, 1) },
		{ "4@[x29, #0x18]", MEM(232, 24, 4, 0) },
		{ "2@[x0, x1]", SIB(0, 8, 1, 0, 2, 0) },
		{ "8@[x2, x3, lsl 3]", SIB(16, 24, 8, 0, 8, 0) },
		{ "8@[x2, x3, lsl #2]", SIB(16, 24, 4, 0, 8, 0) },
		{ "8@[x2, xzr]", MEM(16, 0, 8, 0) },
		{ "4@7", CONST_(7, 4, 0) },
		{ "-4@-7", CONST_(-7, 4, 1) },
		{ "4@#9", CONST_(9, 4, 0) },
	};

	(void)state;
	check(EM_AARCH64, all, ARRAY_SIZE(all));
}

static void refuses_by_name_what_it_does_not_understand(void **state)
{
	static const struct {
		uint16_t machine;
		const char *text, *names; /* part of the message */
	} all[] = {
		{ EM_X86_64, "8@%xmm0", "vector" },
		{ EM_X86_64, "8f@%xmm0", "floating point" },
		{ EM_X86_64, "-8f@-8(%rbp)", "floating point" },
		{ EM_X86_64, "8@%ymm15", "vector" },
		{ EM_X86_64, "1@%ah", "high byte" },
		{ EM_X86_64, "8@global(%rip)", "symbols" },
		{ EM_X86_64, "8@16(%rip)", "relative to the instruction" },
		{ EM_X86_64, "8@$global", "symbols" },
		{ EM_X86_64, "8@global", "symbols" },
		{ EM_X86_64, "8@global+8(%rax)", "symbols" },
		{ EM_X86_64, "8@%fs:16", "segment" },
		{ EM_X86_64, "8@(%eax)", "32-bit" },
		{ EM_X86_64, "8@(%rax,%rbx,3)", "scale" },
		{ EM_X86_64, "16@%rax", "more than 8 bytes" },
		{ EM_X86_64, "8@%rxx", "unknown register" },
		{ EM_X86_64, "8@%st", "unknown register" },
		{ EM_AARCH64, "8@d0", "vector" },
		{ EM_AARCH64, "8@v31", "vector" },
		{ EM_AARCH64, "4f@s0", "floating point" },
		{ EM_AARCH64, "16@q0", "more than 8 bytes" },
		{ EM_AARCH64, "8@[x0, w1, sxtw 3]", "extended" },
		{ EM_AARCH64, "8@[x0, w1]", "32-bit" },
		{ EM_AARCH64, "8@[x0, 8]!", "this form" },
		{ EM_AARCH64, "8@[x0], 8", "\"8@[x0],\"" },
		{ EM_AARCH64, "8@[x0, #:lo12:sym]", "symbols" },
		{ EM_AARCH64, "8@x31", "unknown register" },
		{ EM_AARCH64, "8@sym", "symbol" },
		{ EM_386, "4@%eax", "machine" },
	};
	struct wire_spec specs[WIRE_MAX_ARGS];
	struct clika_error err;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		int rc = argspec__parse(all[i].machine, all[i].text, specs, &err);

		if (rc != -ENOTSUP || err.code != rc || !strstr(err.msg, all[i].names))
			fail_msg("%s: %d %s", all[i].text, rc, err.msg);
	}
}

static void refuses_malformed_sizes(void **state)
{
	static const char *const all[] = { "3@%rax",
					   "0@%rax",
					   "x@%rax",
					   "-@%rax",
					   "8@",
					   "@%rax",
					   "99999999999999999999@%rax",
					   "8 @%rax @" };
	struct wire_spec specs[WIRE_MAX_ARGS];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(all); i++)
		if (argspec__parse(EM_X86_64, all[i], specs, NULL) >= 0)
			fail_msg("%s was accepted", all[i]);
	assert_int_equal(argspec__parse(EM_X86_64, "3@%rax", specs, NULL), -EINVAL);
	assert_int_equal(argspec__parse(EM_X86_64, "8@", specs, NULL), -EINVAL);
}

static void counts_arguments_up_to_the_limit(void **state)
{
	struct wire_spec specs[WIRE_MAX_ARGS];
	char text[256] = "";
	int i;

	(void)state;
	assert_int_equal(argspec__parse(EM_X86_64, "", specs, NULL), 0);
	assert_int_equal(argspec__parse(EM_X86_64, "   ", specs, NULL), 0);
	for (i = 1; i <= WIRE_MAX_ARGS; i++) {
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s4@$%d",
			 i > 1 ? "  " : "", i);
		assert_int_equal(argspec__parse(EM_X86_64, text, specs, NULL), i);
		assert_int_equal(specs[i - 1].value, i);
	}
	strcat(text, " 4@$13");
	assert_int_equal(argspec__parse(EM_X86_64, text, specs, NULL), -ENOTSUP);
	assert_int_equal(argspec__parse(EM_AARCH64, "8@[sp, 16] -4@w0 8@[x0, x1, lsl 3] 8@x2",
					specs, NULL),
			 4);
	assert_int_equal(specs[3].reg, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_x86_registers_of_every_width),
		cmocka_unit_test(reads_x86_constants_cut_to_their_size),
		cmocka_unit_test(reads_x86_memory_operands),
		cmocka_unit_test(reads_arm64_operands),
		cmocka_unit_test(refuses_by_name_what_it_does_not_understand),
		cmocka_unit_test(refuses_malformed_sizes),
		cmocka_unit_test(counts_arguments_up_to_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
