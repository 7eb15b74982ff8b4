// SPDX-License-Identifier: Apache-2.0
/*
 * What one hit of a function probe costs here: three functions of the recorder's own are called with
 * and without a probe, with the very programs and rings of the recording. Their records are thrown
 * away. Kernels emulate some instructions (push, nop, jumps; newer ones more) and single-step the
 * others through an exception of their own, which costs several times as much.
 *
 * In a loop of nothing but calls the kernel's way through a probe stays in the caches, and costs little
 * more than half of what it costs a program that has work to do. So memory and code are walked through
 * from one call to the next, with and without the probe alike, and the median counts.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "user/prof/recorder.h"

#define ROUNDS 9
#define CALLS 30
#define WORK_BYTES (1u << 20)
#define LINE 64u
#define OWN_FUNC 0xffffff00u /* no function has such a number */

/* One instruction of each class, at a label of its own. */
void clika_hit_emulated(void);
void clika_hit_stepped(void);
void clika_hit_return(void);
#if defined(__x86_64__)
__asm__(".text\n"
	".p2align 4\n.globl clika_hit_emulated\n.hidden clika_hit_emulated\n"
	"clika_hit_emulated:\n\tpush %rbp\n\tpop %rbp\n\tret\n"
	".p2align 4\n.globl clika_hit_stepped\n.hidden clika_hit_stepped\n"
	"clika_hit_stepped:\n\tmov %rdi, %rax\n\tret\n"
	".p2align 4\n.globl clika_hit_return\n.hidden clika_hit_return\n"
	"clika_hit_return:\n\tret\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".p2align 4\n.globl clika_hit_emulated\n.hidden clika_hit_emulated\n"
	"clika_hit_emulated:\n\tnop\n\tret\n"
	".p2align 4\n.globl clika_hit_stepped\n.hidden clika_hit_stepped\n"
	"clika_hit_stepped:\n\tmov x1, x0\n\tret\n"
	".p2align 4\n.globl clika_hit_return\n.hidden clika_hit_return\n"
	"clika_hit_return:\n\tret\n");
#endif

/* Code on a thousand lines of its own, as a program has that does more than to call. */
void clika_hit_between(void);
__asm__(".text\n"
	".p2align 6\n.globl clika_hit_between\n.hidden clika_hit_between\n"
	"clika_hit_between:\n"
	"\t.rept 1024\n"
#if defined(__x86_64__)
	"\tjmp 1f\n"
#else
	"\tb 1f\n"
#endif
	"\t.p2align 6\n"
	"1:\n"
	"\t.endr\n"
	"\tret\n");

static void (*const subjects[HIT_CLASSES])(void) = {
	[HIT_EMULATED] = clika_hit_emulated,
	[HIT_STEPPED] = clika_hit_stepped,
	[HIT_RETURN] = clika_hit_return,
};

enum hit_class hit__class(const struct elf_file *f, uint64_t offset)
{
	uint8_t b[4] = { 0 };
	uint64_t vaddr;

	if (!elf_file__vaddr(f, offset, &vaddr) || elf_file__read(f, vaddr, b, sizeof(b)) < 1)
		return HIT_STEPPED;
#if defined(__x86_64__)
	if ((b[0] >= 0x50 && b[0] <= 0x57) || b[0] == 0x90 || b[0] == 0xe8 || b[0] == 0xe9 ||
	    b[0] == 0xeb || (b[0] & 0xf0) == 0x70 || (b[0] == 0x0f && (b[1] & 0xf0) == 0x80) ||
	    (b[0] == 0x41 && b[1] >= 0x50 && b[1] <= 0x57))
		return HIT_EMULATED;
	if (b[0] == 0xc3 || b[0] == 0xc2 || (b[0] == 0xf3 && b[1] == 0xc3))
		return HIT_RETURN;
	return HIT_STEPPED;
#else
	{
		uint32_t insn = b[0] | b[1] << 8 | b[2] << 16 | (uint32_t)b[3] << 24;

		/* nop, hints; b, bl, b.cond, cbz, tbz, br, ret: these the kernel simulates. */
		if ((insn & 0xfffff01f) == 0xd503201f || (insn & 0x7c000000) == 0x14000000 ||
		    (insn & 0xff000010) == 0x54000000 || (insn & 0x7e000000) == 0x34000000 ||
		    (insn & 0x7e000000) == 0x36000000)
			return HIT_EMULATED;
		if ((insn & 0xfffffc1f) == 0xd65f0000)
			return HIT_RETURN;
		return HIT_STEPPED;
	}
#endif
}

bool calibrate__is_own(const struct clika_recorder *r, const void *rec, size_t size)
{
	const struct wire_hdr *h = rec;
	const struct wire_call *c = rec;

	if ((h->kind == W_CALL || h->kind == W_RETURN) && size >= sizeof(*c))
		return c->task.aux >= OWN_FUNC;
	return h->kind == W_PROCESS && size >= sizeof(struct wire_process) &&
	       ((const struct wire_process *)rec)->task.tgid == attacher__self(r->attacher);
}

struct own_code {
	uint64_t addr;
	struct proc_map map;
	char path[4096];
	bool found;
};

static int find_own(void *ctx, const struct proc_map *m)
{
	struct own_code *o = ctx;

	if (o->addr < m->start || o->addr >= m->end)
		return 0;
	o->map = *m;
	snprintf(o->path, sizeof(o->path), "%s", m->path);
	o->map.path = o->path;
	o->found = true;
	return 1;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

/* What a target does between two hits, as far as caches go. */
static void work(void)
{
	static uint8_t memory[WORK_BYTES];

	for (unsigned i = 0; i < WORK_BYTES; i += LINE)
		((volatile uint8_t *)memory)[i]++;
	clika_hit_between();
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* ns a call; the work before it is not in it. Median of the rounds. */
static double call_cost(struct clika_recorder *r, void (*fn)(void), bool drain)
{
	double took[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t sum = 0, t;

		for (int k = 0; k < CALLS; k++) {
			work();
			t = now();
			fn();
			sum += now() - t;
		}
		took[i] = (double)sum / CALLS;
		if (drain)
			recorder__drain(r, NULL);
	}
	qsort(took, ROUNDS, sizeof(took[0]), by_size);
	return took[ROUNDS / 2];
}

static int measure(struct clika_recorder *r, int fd, const struct probe_site *sites,
		   struct hit_costs *out, struct clika_error *err)
{
	double before[HIT_CLASSES], with;
	int ret;

	for (int i = 0; i < HIT_CLASSES; i++)
		before[i] = call_cost(r, subjects[i], false);
	ret = attacher__attach(r->attacher, PROBE_CALL, fd, sites, HIT_CLASSES, getpid(), err);
	if (ret < 0)
		return ret;
	for (int i = 0; i < HIT_CLASSES; i++) {
		with = call_cost(r, subjects[i], true);
		out->ns[i] = with > before[i] ? with - before[i] : 0;
	}
	attacher__detach(r->attacher, attacher__group(r->attacher));
	return 0;
}

int calibrate__hits(struct clika_recorder *r, struct hit_costs *out, struct clika_error *err)
{
	struct own_code own = { .addr = (uintptr_t)clika_hit_emulated };
	struct probe_site sites[HIT_CLASSES] = { 0 };
	__cleanup_close int fd = -1;
	int ret, off;

	proc__maps(getpid(), find_own, &own);
	if (!own.found)
		return error__set(err, -ENOENT, "the recorder's own code is not in its mappings");
	fd = proc__open_mapped(getpid(), &own.map, err);
	if (fd < 0)
		return fd;
	for (int i = 0; i < HIT_CLASSES; i++) {
		sites[i].offset = (uintptr_t)subjects[i] - own.map.start + own.map.offset;
		sites[i].cookie = OWN_FUNC + (uint64_t)i;
	}
	r->calibrating = true;
	ret = attacher__admit_self(r->attacher, true);
	if (!ret)
		ret = measure(r, fd, sites, out, err);
	off = attacher__admit_self(r->attacher, false);
	recorder__drain(r, NULL);
	r->calibrating = false;
	if (!ret && off)
		ret = error__set(err, off, "cannot stop taking the recorder's own calls: %s",
				 strerror(-off));
	return ret;
}
