// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/scratch.h"
#include "user/probe/elf_file.h"

static struct elf_file *open_path(const char *path)
{
	struct clika_error err = { 0 };
	struct elf_file *f;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	if (elf_file__open(fd, path, &f, &err))
		fail_msg("%s", err.msg);
	close(fd);
	return f;
}

struct look {
	struct elf_file *f;
	uint64_t start, size;
	struct func_sites sites;
	struct clika_error err;
	int rc, found;
};

static int look_at(void *ctx, const struct elf_func *fu)
{
	struct look *l = ctx;

	l->found++;
	l->start = fu->offset;
	l->size = fu->size;
	l->rc = func_sites__find(l->f, fu, &l->sites, &l->err);
	return 0;
}

static void look(struct elf_file *f, const char *name, struct look *l)
{
	memset(l, 0, sizeof(*l));
	l->f = f;
	assert_int_equal(elf_file__functions(f, name, look_at, l, NULL, NULL), 0);
	if (l->found != 1)
		fail_msg("%s: %d functions", name, l->found);
}

struct want {
	const char *name;
	int entry;          /* from the start; -1 = refused */
	const char *reason; /* part of it */
	const char *exits;  /* "+8 +12t": from the start, t = tail */
	unsigned unsure;
};

static void check(struct elf_file *f, const struct want *w)
{
	char exits[1024] = "";
	struct look l;
	uint32_t i;

	look(f, w->name, &l);
	if (w->entry < 0) {
		if (l.rc != -ENOTSUP || !strstr(l.err.msg, w->reason) ||
		    !strstr(l.err.msg, w->name))
			fail_msg("%s: %d %s", w->name, l.rc, l.err.msg);
		return;
	}
	if (l.rc)
		fail_msg("%s: %s", w->name, l.err.msg);
	for (i = 0; i < l.sites.n_exits; i++)
		sprintf(exits + strlen(exits), "%s+%d%s", i ? " " : "",
			(int)(l.sites.exits[i] - l.start), l.sites.tail_exit[i] ? "t" : "");
	if (l.sites.entry - l.start != (uint64_t)w->entry || strcmp(exits, w->exits) != 0 ||
	    l.sites.unsure != w->unsure)
		fail_msg("%s: entry +%d, exits %s, %u unsure", w->name,
			 (int)(l.sites.entry - l.start), exits, l.sites.unsure);
}

/* --- code written for it ---------------------------------------------------------------------- */

#ifdef __x86_64__
/* clang-format off */
/* Jumps of a fixed size. */
#define JMP(to) ".byte 0xe9\\n.long " to " - . - 4"
#define JE(to) ".byte 0x0f,0x84\\n.long " to " - . - 4"
#define PUSH "push %rbx\\n.cfi_def_cfa_offset 16\\n"
#define POP "pop %rbx\\n.cfi_def_cfa_offset 8\\n"
#define JNE(to) ".byte 0x0f,0x85\\n.long " to " - . - 4"
#define F(name, body)                                                                              \
	"__asm__(\".globl " name "\\n.hidden " name "\\n.type " name ", @function\\n" name ": .cfi_startproc\\n" body \
	"\\n.cfi_endproc\\n.size " name ", . - " name "\\n\");\n"

static const char code[] =
	F("fs_other", "mov %rdi, %rax\\nret")
	F("fs_endbr", "endbr64\\nmov %rdi, %rax\\nret")
	F("fs_endbr_loop", "endbr64\\n1: dec %rdi\\njnz 1b\\nret")
	F("fs_endbr_ret", "endbr64\\nret")
	F("fs_nop5", ".byte 0x0f,0x1f,0x44,0,0\\nmov %rdi, %rax\\nret")
	F("fs_endbr_nop5", "endbr64\\n.byte 0x0f,0x1f,0x44,0,0\\nmov %rdi, %rax\\nret")
	F("fs_patchable", ".byte 0x0f,0x1f,0x44,0,8\\nmov %rdi, %rax\\nret")
	F("fs_nop5_ret", ".byte 0x0f,0x1f,0x44,0,0\\nret")
	F("fs_empty", "ret")
	F("fs_thunk", "jmp fs_other")
	F("fs_two", "test %rdi, %rdi\\nje 1f\\nret\\n1: xor %eax, %eax\\nrepz ret")
	F("fs_tail", "inc %rdi\\njmp fs_other")
	F("fs_self", "inc %rdi\\njns fs_self\\njmp fs_self + 0\\nret")
	F("fs_conditional", "test %rdi, %rdi\\n" JNE("fs_other") "\\nret")
	F("fs_forever", "1: pause\\njmp 1b")
	F("fs_noreturn", "call fs_other\\nud2")
	F("fs_undecodable", "mov %rdi, %rax\\n.byte 0x06\\nret")
	F("fs_padded", "mov %rdi, %rax\\nret\\n.byte 0xcc,0xcc,0xcc,0,0x90")
	F("fs_into", "test %rdi, %rdi\\njne 1f + 1\\n1: mov $1, %eax\\nret")
	F("fs_over_lock", "test %rdi, %rdi\\njne 1f + 1\\n1: lock incq (%rsi)\\nret")
	F("fs_many", "mov %rdi, %rax\\n.rept 65\\nret\\n.endr")
	F("fs_evex", "mov %rdi, %rax\\n.byte 0x62,0xf3,0x7d,0x20,0x3f,0x07,0x00\\n"
		     ".byte 0xc5,0xfb,0x93,0xc0\\nret")
	F("fs_kernel", "mov %rdi, %rax\\niretq")
	F("fs_fma4", ".byte 0xc4,0xe3,0xf9,0x6b,0xc2,0x10\\nret")
	F("fs_evex_first", ".byte 0x62,0xf1,0x7d,0x48,0x6f,0x7f,0x02\\nret")
	F("fs_endbr_vector", "endbr64\\nvmovdqa (%rdi), %ymm5\\nret")
	F("fs_prefixed", ".byte 0x2e\\nmov (%rdi), %rax\\nret")
	/* jumps through pointers: a virtual call, a loaded one, one given */
	F("fs_vcall", "mov (%rdi), %rax\\njmp *16(%rax)")
	F("fs_loaded", "mov (%rdi), %rax\\nmov 8(%rax), %rax\\njmp *%rax")
	F("fs_given", "mov %rdi, %rax\\nmov %rsi, %rdi\\njmp *%rax")
	F("fs_got", "inc %rdi\\njmp *fs_slot(%rip)")
	/* the check that inlines what a virtual call most often arrives at */
	F("fs_devirtual", "mov (%rdi), %rax\\nmov 24(%rax), %rax\\ncmp %rsi, %rax\\njne 1f\\n"
			  "movzbl (%rax), %eax\\nret\\nnopl 0(%rax)\\n1: jmp *%rax")
	/* switches: both ways that compilers write them, with and without a frame */
	F("fs_table", "lea fs_slot(%rip), %rdx\\nmovslq (%rdx,%rdi,4), %rax\\nadd %rdx, %rax\\n"
		      "jmp *%rax\\nret")
	F("fs_notrack", "mov (%rdi), %rax\\nnotrack jmp *%rax\\nret")
	F("fs_indexed", "test %rdi, %rdi\\njmp *4096(,%rdi,8)\\nret")
	F("fs_in_frame", "push %rbx\\n.cfi_def_cfa_offset 16\\nmov (%rdi), %rax\\njmp *%rax\\n"
			 "pop %rbx\\n.cfi_def_cfa_offset 8\\nret")
	F("fs_epilogue", "push %rbx\\n.cfi_def_cfa_offset 16\\nlea fs_slot(%rip), %rax\\n"
			 "add %rdi, %rax\\npop %rbx\\n.cfi_def_cfa_offset 8\\njmp *%rax")
	/* a jump out with the frame in place goes to a part of the function, whatever its name */
	F("fs_to_part", "push %rbx\\n.cfi_def_cfa_offset 16\\ntest %rdi, %rdi\\njne 1f\\n"
			JMP("fs_part") "\\n1: pop %rbx\\n.cfi_def_cfa_offset 8\\nret")
	F("fs_part", "nop\\nud2")
	F("fs_to_cold", "test %rdi, %rdi\\njne 1f\\n" JMP("fs_to_cold.cold") "\\n1: ret")
	F("fs_to_cold.cold", "nop\\nud2")
	/* ways into the piece before a return */
	F("ee_joined", PUSH "test %rdi, %rdi\\n" JE("1f") "\\ncall fs_other\\n" JMP("2f")
		       "\\n1: xor %eax, %eax\\n2: " POP "ret")
	F("ee_falls", PUSH "call fs_other\\ntest %eax, %eax\\n" JNE("1f") "\\n" POP "ret\\n"
		      ".cfi_def_cfa_offset 16\\n1: call fs_other\\nud2")
	F("ee_both", "test %rdi, %rdi\\n" JNE("1f") "\\nret\\n1: xor %eax, %eax\\nret")
	F("ee_loop", PUSH "1: call fs_other\\ndec %rbx\\n" JNE("1b") "\\n" POP "ret")
	F("ee_in_loop", PUSH "1: call fs_other\\ntest %eax, %eax\\n" JE("2f") "\\ncall fs_other\\n" JMP("1b")
			"\\n2: " POP "ret")
	F("ee_after_call", PUSH "test %rdi, %rdi\\n" JE("1f") "\\ncall fs_other\\n1: " POP "ret")
	F("ee_frees", PUSH "test %rdi, %rdi\\n" JE("1f") "\\ncall free@PLT\\n1: " POP "ret")
	F("ee_frame_pointer", "push %rbp\\n.cfi_def_cfa_offset 16\\nmov %rsp, %rbp\\n.cfi_def_cfa_register 6\\n"
			      "sub $64, %rsp\\ntest %rdi, %rdi\\n" JE("1f") "\\ncall fs_other\\n" JMP("1f")
			      "\\n1: leave\\n.cfi_def_cfa 7, 8\\nret")
	F("ee_switch", PUSH "test %rdi, %rdi\\n" JE("1f") "\\nmov (%rdi), %rax\\nnotrack jmp *%rax\\n1: " POP "ret")
	F("ee_jrcxz", PUSH "test %rdi, %rdi\\n" JE("1f") "\\nmov %rdi, %rcx\\njrcxz 1f\\nud2\\n1: " POP "ret")
	F("ee_partly", PUSH "test %rdi, %rdi\\n" JE("1f") "\\ncall fs_other\\n" POP "ret\\n"
		       ".cfi_def_cfa_offset 16\\n1: " POP "ret")
	F("ee_over_lock", PUSH "test %rdi, %rdi\\n" JE("1f + 1") "\\n1: lock incq (%rsi)\\n" POP "ret")
	/* the unwind table says nothing of what the code does, or something else */
	F("ee_unsaid", "sub $64, %rsp\\ntest %rdi, %rdi\\n" JE("1f") "\\ncall fs_other\\n" JMP("2f")
		       "\\n1: xor %eax, %eax\\n2: mov (%rsp), %rbx\\nadd $64, %rsp\\nret")
	F("ee_realigned", "push %rbp\\nmov %rsp, %rbp\\ntest %rdi, %rdi\\n" JE("1f") "\\nud2\\n1: and $-32, %rsp\\n"
			  "leave\\nret")
	F("ee_lost_fp", "push %rbp\\nmov %rsp, %rbp\\ntest %rdi, %rdi\\n" JE("1f") "\\nud2\\n1: pop %rbp\\n"
			"mov %rbp, %rsp\\npop %rbp\\nret")
	F("ee_no_way", "test %rdi, %rdi\\n" JE("1f") "\\nret\\n1: mov $1, %eax\\nret\\nmov $2, %eax\\nret")
	F("ee_break", PUSH "test %rdi, %rdi\\n" JE("1f") "\\nint3\\n1: " POP "ret")
	F("ee_many", ".rept 9\\ncmp $1, %rdi\\n.byte 0x75,1\\nret\\n.endr\\nret")
	F("ee_away", PUSH "test %rdi, %rdi\\n" JE("1f") "\\ntest %rsi, %rsi\\n" JNE("ee_away.cold")
		     "\\ncall fs_other\\nud2\\n1: " POP "ret")
	F("ee_away.cold", "call fs_other\\n ud2")
	F("ee_comes_back", PUSH "test %rdi, %rdi\\n" JE("1f") "\\ntest %rsi, %rsi\\n" JNE("ee_comes_back.cold")
			   "\\ncall fs_other\\nud2\\n.globl ee_back\\n.hidden ee_back\\nee_back:\\n1: " POP "ret")
	F("ee_comes_back.cold", "call fs_other\\n" JMP("ee_back"))
	F("ee_loops_by_cold", PUSH "call fs_other\\n.globl ee_again\\n.hidden ee_again\\nee_again: test %rdi, %rdi\\n"
			      JE("1f") "\\n" JMP("ee_loops_by_cold.cold") "\\n1: " POP "ret")
	F("ee_loops_by_cold.cold", "call fs_other\\n" JMP("ee_again"))
	"__attribute__((visibility(\"hidden\"))) long fs_slot[8];\n";
/* clang-format on */

/* Instructions instead of return instructions: condition, a = always; r = the return, t = a jump out; and
 * the words of the frame. */
static const struct {
	const char *name, *early;
} early_wants[] = {
	{ "ee_joined", "+15:a sp1 +4:4 sp1" },
	{ "ee_falls", "+8:4 sp1" },
	{ "ee_both", "+3:a sp0" },
	{ "ee_loop", "" },
	{ "ee_in_loop", "" },
	{ "ee_after_call", "" },
	{ "ee_frees", "+4:4 sp1 +10:a sp1" },
	{ "ee_frame_pointer", "+11:4 fp1 +22:a fp1" },
	{ "ee_switch", "" },
	{ "ee_jrcxz", "" },
	{ "ee_partly", "+16:r +4:4 sp1" },
	{ "ee_over_lock", "" },
	{ "ee_unsaid", "+18:a sp8 +7:4 sp8" },
	{ "ee_realigned", "" },
	{ "ee_lost_fp", "" },
	{ "ee_no_way", "+21:r +3:a sp0" },
	{ "ee_break", "" },
	{ "ee_many", "+62:r +63:r +4:4 sp0 +11:4 sp0 +18:4 sp0 +25:4 sp0 +32:4 sp0 +39:4 sp0 +46:4 "
		     "sp0 +53:4 sp0" },
	{ "ee_away", "+4:4 sp1" },
	{ "ee_comes_back", "" },
	{ "ee_loops_by_cold", "" },
	{ "fs_two", "+3:a sp0" },
	{ "fs_tail", "" },
	{ "fs_devirtual", "+19:t +10:4 sp0" },
};

static void finds_cheaper_ways_out(void **state)
{
	const char *path = scratch__build("code.so", code, "-fPIC -shared -Wl,-z,notext -w");
	struct elf_file *f = open_path(path);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(early_wants); i++) {
		char got[512] = "";
		struct look l;

		look(f, early_wants[i].name, &l);
		if (l.rc)
			fail_msg("%s: %s", early_wants[i].name, l.err.msg);
		for (uint32_t k = 0; k < l.sites.n_early; k++) {
			const struct early_exit *e = &l.sites.early[k];
			char *to = got + strlen(got);

			to += sprintf(to, "%s+%d:", k ? " " : "", (int)(e->offset - l.start));
			if (e->how == EXIT_RETURN || e->how == EXIT_TAIL)
				sprintf(to, "%c", e->how == EXIT_TAIL ? 't' : 'r');
			else if (e->how == EXIT_ALWAYS)
				sprintf(to, "a %s%d", e->from_fp ? "fp" : "sp", e->words);
			else
				sprintf(to, "%d %s%d", e->how, e->from_fp ? "fp" : "sp", e->words);
		}
		if (strcmp(got, early_wants[i].early) != 0)
			fail_msg("%s: '%s' instead of '%s'", early_wants[i].name, got,
				 early_wants[i].early);
	}
	elf_file__close(f);
}

static const struct want wants[] = {
	{ "fs_other", 0, NULL, "+3", 0 },
	{ "fs_endbr", 4, NULL, "+7", 0 },
	{ "fs_endbr_loop", 0, NULL, "+9", 0 },
	{ "fs_endbr_ret", 0, NULL, "+4", 0 },
	{ "fs_nop5", 5, NULL, "+8", 0 },
	{ "fs_endbr_nop5", 9, NULL, "+12", 0 },
	{ "fs_patchable", 5, NULL, "+8", 0 },
	{ "fs_nop5_ret", -1, "5-byte nop", NULL, 0 },
	{ "fs_empty", -1, "first instruction is its last", NULL, 0 },
	{ "fs_thunk", -1, "first instruction is its last", NULL, 0 },
	{ "fs_two", 0, NULL, "+5 +8", 0 },
	{ "fs_tail", 0, NULL, "+3t", 0 },
	{ "fs_self", 0, NULL, "+7", 0 },
	{ "fs_conditional", 0, NULL, "+9", 1 },
	{ "fs_forever", -1, "no way out", NULL, 0 },
	{ "fs_noreturn", -1, "no way out", NULL, 0 },
	{ "fs_undecodable", -1, "no known instruction", NULL, 0 },
	{ "fs_padded", 0, NULL, "+3", 0 },
	{ "fs_into", -1, "into an instruction", NULL, 0 },
	{ "fs_over_lock", 0, NULL, "+9", 0 },
	{ "fs_many", -1, "more than 64", NULL, 0 },
	{ "fs_evex", 0, NULL, "+14", 0 },
	{ "fs_kernel", -1, "no ordinary function", NULL, 0 },
	{ "fs_prefixed", -1, "takes no probe", NULL, 0 },
	{ "fs_fma4", -1, "takes no probe", NULL, 0 },
	{ "fs_evex_first", -1, "takes no probe", NULL, 0 },
	{ "fs_endbr_vector", 0, NULL, "+8", 0 },
	{ "fs_vcall", 0, NULL, "+3t", 0 },
	{ "fs_loaded", 0, NULL, "+7t", 0 },
	{ "fs_given", 0, NULL, "+6t", 0 },
	{ "fs_got", 0, NULL, "+3t", 0 },
	{ "fs_devirtual", 0, NULL, "+15 +19t", 0 },
	{ "fs_table", 0, NULL, "+16", 1 },
	{ "fs_notrack", 0, NULL, "+6", 0 },
	{ "fs_in_frame", 0, NULL, "+7", 0 },
	{ "fs_epilogue", 0, NULL, "+12t", 0 },
	{ "fs_to_part", 0, NULL, "+12", 0 },
	{ "fs_to_cold", 0, NULL, "+10", 0 },
};

static void finds_entry_and_exits_of_every_kind_of_code(void **state)
{
	const char *path = scratch__build("code.so", code, "-fPIC -shared -Wl,-z,notext -w");
	struct elf_file *f = open_path(path);
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wants); i++)
		check(f, &wants[i]);
	elf_file__close(f);
}

/* Without unwind tables: a jump out is taken at its word, one through a register is not. */
static void is_careful_without_unwind_tables(void **state)
{
	static const struct want bare[] = {
		{ "fs_tail", 0, NULL, "+3t", 0 },
		{ "fs_loaded", -1, "no way out", NULL, 0 },
		{ "fs_epilogue", 0, NULL, "+12t", 0 },
		{ "fs_in_frame", 0, NULL, "+7", 1 },
	};
	const char *out = scratch__path("bare.so");
	struct elf_file *f;
	size_t i;

	(void)state;
	scratch__run("sed 's/[.]cfi_[a-z_]*\\( [0-9]*,*\\)*//g' '%s' > '%s'",
		     scratch__path("code.so.c"), scratch__path("bare.c"));
	scratch__run("%s -o '%s' '%s' -fPIC -shared -Wl,-z,notext -w -nostdlib",
		     getenv("CC") ? getenv("CC") : "cc", out, scratch__path("bare.c"));
	f = open_path(out);
	for (i = 0; i < ARRAY_SIZE(bare); i++)
		check(f, &bare[i]);
	elf_file__close(f);
}

/* --- real libraries, against another disassembler -------------------------------------------- */

struct addresses {
	uint64_t *p;
	size_t n, cap;
};

static void addresses__add(struct addresses *a, uint64_t v)
{
	if (a->n == a->cap) {
		a->cap = a->cap ? a->cap * 2 : 4096;
		a->p = realloc(a->p, a->cap * sizeof(*a->p));
		assert_non_null(a->p);
	}
	a->p[a->n++] = v;
}

static size_t at_least(const struct addresses *a, uint64_t v)
{
	size_t lo = 0, hi = a->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (a->p[mid] < v)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void read_objdump(const char *path, struct addresses *returns, struct addresses *starts)
{
	char line[1024], *colon;
	FILE *in;

	snprintf(line, sizeof(line), "objdump -d --no-show-raw-insn '%s'", path);
	in = popen(line, "r");
	assert_non_null(in);
	while (fgets(line, sizeof(line), in)) {
		uint64_t v;

		colon = strchr(line, ':');
		if (line[0] != ' ' || !colon || colon[1] != '\t')
			continue;
		v = strtoull(line, NULL, 16);
		addresses__add(starts, v);
		colon += 2;
		if (!strncmp(colon, "ret", 3) || !strncmp(colon, "repz ret", 8) ||
		    !strncmp(colon, "bnd ret", 7))
			addresses__add(returns, v);
	}
	assert_int_equal(pclose(in), 0);
}

struct comparison {
	struct elf_file *f;
	struct addresses returns, starts;
	int functions, refused;
};

static int compare(void *ctx, const struct elf_func *fu)
{
	struct comparison *c = ctx;
	struct func_sites s;
	uint64_t vaddr;
	size_t at, i;

	c->functions++;
	if (func_sites__find(c->f, fu, &s, NULL)) {
		c->refused++;
		return 0;
	}
	at = at_least(&c->returns, fu->vaddr);
	for (i = 0; i < s.n_exits; i++) {
		assert_true(elf_file__vaddr(c->f, s.exits[i], &vaddr));
		if (s.tail_exit[i]) {
			if (c->starts.p[at_least(&c->starts, vaddr)] != vaddr)
				fail_msg("%s: tail jump at %#llx", fu->symbol,
					 (unsigned long long)vaddr);
			continue;
		}
		if (at >= c->returns.n || c->returns.p[at] != vaddr)
			fail_msg("%s: return at %#llx", fu->symbol, (unsigned long long)vaddr);
		at++;
	}
	if (at < c->returns.n && c->returns.p[at] < fu->vaddr + fu->size)
		fail_msg("%s: no return at %#llx", fu->symbol,
			 (unsigned long long)c->returns.p[at]);
	assert_true(elf_file__vaddr(c->f, s.entry, &vaddr));
	if (c->starts.p[at_least(&c->starts, vaddr)] != vaddr)
		fail_msg("%s: entry at %#llx", fu->symbol, (unsigned long long)vaddr);
	return 0;
}

static int on_line(const char *command, char *line, size_t n)
{
	FILE *in = popen(command, "r");
	char *got = in ? fgets(line, (int)n, in) : NULL;

	if (in)
		pclose(in);
	if (!got)
		return -1;
	line[strcspn(line, "\n")] = 0;
	return 0;
}

static void agrees_with_objdump(const char *name, int at_least_functions)
{
	struct comparison c = { 0 };
	char command[128], path[512];

	snprintf(command, sizeof(command), "c++ -print-file-name=%s", name);
	assert_int_equal(on_line(command, path, sizeof(path)), 0);
	if (path[0] != '/')
		skip();
	c.f = open_path(path);
	read_objdump(path, &c.returns, &c.starts);
	addresses__add(&c.starts, UINT64_MAX);
	assert_int_equal(elf_file__functions(c.f, "*", compare, &c, NULL, NULL), 0);
	if (c.functions < at_least_functions || c.refused > c.functions / 10)
		fail_msg("%s: %d functions, %d refused", name, c.functions, c.refused);
	elf_file__close(c.f);
	free(c.returns.p);
	free(c.starts.p);
}

static void agrees_with_objdump_on_every_return_of_libstdcxx(void **state)
{
	(void)state;
	agrees_with_objdump("libstdc++.so.6", 3000);
}

static void agrees_with_objdump_on_every_return_of_libm(void **state)
{
	(void)state;
	agrees_with_objdump("libm.so.6", 300);
}
#endif

/* --- arm64 ------------------------------------------------------------------------------------ */

static void finds_entry_and_exits_on_arm64(void **state)
{
	static const struct want arm[] = {
		{ "arm_leaf", 4, NULL, "+16", 0 },  /* behind bti */
		{ "arm_calls", 0, NULL, "+52", 0 }, /* paciasp is kept */
		{ "arm_tail", 4, NULL, "+8t", 0 },
		{ "arm_switch", 0, NULL, "+60 +112 +144 +168 +192 +220 +236t", 0 },
		{ "arm_two_returns", 4, NULL, "+56 +64", 0 },
		{ "arm_pointer", 4, NULL, "+16t", 0 },
		{ "arm_markers", 4, NULL, "+20", 0 },
	};
	struct elf_file *f = open_path("tests/fixtures/elf/arm64.so");
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(arm); i++)
		check(f, &arm[i]);
	elf_file__close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(finds_entry_and_exits_of_every_kind_of_code),
		cmocka_unit_test(finds_cheaper_ways_out),
		cmocka_unit_test(is_careful_without_unwind_tables),
		cmocka_unit_test(agrees_with_objdump_on_every_return_of_libstdcxx),
		cmocka_unit_test(agrees_with_objdump_on_every_return_of_libm),
#endif
		cmocka_unit_test(finds_entry_and_exits_on_arm64),
	};

	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
