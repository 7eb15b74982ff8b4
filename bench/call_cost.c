// SPDX-License-Identifier: Apache-2.0
/*
 * Functions with one way in and one way out, called by the thousand: what their probes cost. work ends at its
 * return instruction, work_jump at the jump before it. The same places can be given an empty program, by this
 * very process: what the kernel takes for any probe.
 *
 * Commands on standard input, one answer each: "run N" and "jump N" (ns a call of work and of work_jump),
 * "pace RATE SECONDS", "empty on", "empty off".
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define UPROBE_MULTI 48

void work(void);
void work_jump(void);
extern const char work_end[], work_jump_end[];
#if defined(__x86_64__)
__asm__(".text\n.p2align 4\n.globl work\n.type work, @function\nwork:\n\tpush %rbp\n\tmov %rsp, "
	"%rbp\n\tpop %rbp\n"
	".globl work_end\nwork_end:\n\tret\n.size work, . - work\n"
	".p2align 4\n.globl work_jump\n.type work_jump, "
	"@function\nwork_jump:\n\t.cfi_startproc\n\tpush %rbp\n"
	"\t.cfi_def_cfa_offset 16\n\tmov %rsp, %rbp\n\ttest %rbp, %rbp\n"
	".globl work_jump_end\nwork_jump_end:\n\tjne 1f\n\tud2\n"
	"1:\tpop %rbp\n\t.cfi_def_cfa_offset 8\n\tret\n\t.cfi_endproc\n.size work_jump, . - "
	"work_jump\n");
#else
__asm__(".text\n.p2align 4\n.globl work\n.type work, @function\nwork:\n\tnop\n\tnop\n"
	".globl work_end\nwork_end:\n\tret\n.size work, . - work\n"
	".p2align 4\n.globl work_jump\n.type work_jump, @function\nwork_jump:\n\tnop\n\tnop\n"
	".globl work_jump_end\nwork_jump_end:\n\tret\n.size work_jump, . - work_jump\n");
#endif

static int prog = -1, link_fd = -1;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint64_t file_offset(const void *code)
{
	uint64_t start, end, offset;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 &&
		    (uintptr_t)code >= start && (uintptr_t)code < end) {
			fclose(f);
			return (uintptr_t)code - start + offset;
		}
	}
	exit(1);
}

static int empty_on(void)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, o, .expected_attach_type = UPROBE_MULTI);
	uint64_t offsets[4] = { file_offset((void *)work), file_offset(work_end),
				file_offset((void *)work_jump), file_offset(work_jump_end) };
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t cnt, multi_flags, pid, pad;
		uint8_t rest[64];
	} attr = { .attach_type = UPROBE_MULTI, .cnt = 4 };

	prog = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "empty", "GPL", insns, 2, &o);
	if (prog < 0)
		return -errno;
	attr.prog_fd = (uint32_t)prog;
	attr.path = (uintptr_t) "/proc/self/exe";
	attr.offsets = (uintptr_t)offsets;
	link_fd = (int)syscall(__NR_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	return link_fd < 0 ? -errno : 0;
}

static void empty_off(void)
{
	close(link_fd);
	close(prog);
}

static double cost(void (*fn)(void), unsigned long n)
{
	uint64_t t = now();

	for (unsigned long i = 0; i < n; i++)
		fn();
	return (double)(now() - t) / (double)n;
}

int main(void)
{
	unsigned long n, rate, seconds;
	char line[128];

	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "run %lu", &n) == 1) {
			printf("%.2f\n", cost(work, n));
		} else if (sscanf(line, "jump %lu", &n) == 1) {
			printf("%.2f\n", cost(work_jump, n));
		} else if (sscanf(line, "pace %lu %lu", &rate, &seconds) == 2) {
			uint64_t t = now(), done = 0, end = t + seconds * 1000000000ull;

			for (uint64_t at = t; at < end; at = now()) {
				uint64_t due = (uint64_t)((double)(at - t) * (double)rate / 1e9);

				for (; done < due; done++)
					work();
				usleep(200);
			}
			printf("%lu\n", (unsigned long)done);
		} else if (!strncmp(line, "empty on", 8)) {
			printf("%d\n", empty_on());
		} else if (!strncmp(line, "empty off", 9)) {
			empty_off();
			printf("0\n");
		}
		fflush(stdout);
	}
	return 0;
}
