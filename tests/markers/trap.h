/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands where the kernel's uprobe would: puts a trap on a probe site and calls a function with
 * the registers of the hit. The nop that it replaces has nothing to emulate.
 */
#ifndef CLIKA_TESTS_MARKERS_TRAP_H
#define CLIKA_TESTS_MARKERS_TRAP_H

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* @arg: what the six argument registers hold */
typedef void (*trap_fn)(uintptr_t site, const uint64_t arg[6]);
static trap_fn trap__fn;

static void trap__hit(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = (ucontext_t *)context;
	uint64_t arg[6];
	uintptr_t site;

	(void)sig;
	(void)info;
#ifdef __x86_64__
	arg[0] = (uint64_t)uc->uc_mcontext.gregs[REG_RDI];
	arg[1] = (uint64_t)uc->uc_mcontext.gregs[REG_RSI];
	arg[2] = (uint64_t)uc->uc_mcontext.gregs[REG_RDX];
	arg[3] = (uint64_t)uc->uc_mcontext.gregs[REG_RCX];
	arg[4] = (uint64_t)uc->uc_mcontext.gregs[REG_R8];
	arg[5] = (uint64_t)uc->uc_mcontext.gregs[REG_R9];
	site = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP] - 1;
#else
	for (int i = 0; i < 6; i++)
		arg[i] = uc->uc_mcontext.regs[i];
	site = uc->uc_mcontext.pc;
	uc->uc_mcontext.pc += 4;
#endif
	trap__fn(site, arg);
}

static inline int trap__listen(trap_fn fn)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = trap__hit;
	sa.sa_flags = SA_SIGINFO | SA_NODEFER;
	trap__fn = fn;
	return sigaction(SIGTRAP, &sa, NULL);
}

/* -1 when the site is no plain nop. */
static inline int trap__set(uintptr_t site)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *start = (void *)(site & ~(page - 1));
#ifdef __x86_64__
	static const unsigned char nop[] = { 0x90 }, stop[] = { 0xcc };
#else
	static const unsigned char nop[] = { 0x1f, 0x20, 0x03, 0xd5 };
	static const unsigned char stop[] = { 0x00, 0x00, 0x20, 0xd4 };
#endif

	if (memcmp((void *)site, nop, sizeof(nop)) != 0)
		return -1;
	if (mprotect(start, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0 &&
	    mprotect(start, page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		return -1;
	memcpy((void *)site, stop, sizeof(stop));
	__builtin___clear_cache((char *)site, (char *)site + sizeof(stop));
	return 0;
}

#endif
