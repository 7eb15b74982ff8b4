/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks from inside one ELF object (a program, or a shared one when SHARED names the function)
 * that its markers write what they should. Needs part.c built as part_a and part_b. Also C++.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <clika/markers.h>
#include "tests/markers/records.h"
#include <sys/syscall.h>
#include <unistd.h>

#define REQUIRE(what)                                                                              \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);         \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

#ifdef __cplusplus
extern "C" {
#endif
int part_a(int n, const char *dynamic);
int part_b(int n, const char *dynamic);
#ifdef SHARED
__attribute__((visibility("default"))) int SHARED(void);
#endif
#ifdef __cplusplus
}
#endif

static struct mark mark[64];

static int is(const struct mark *m, unsigned int kind, const char *name)
{
	return m->kind == kind && strcmp(m->name, name) == 0;
}

static int check_part(const struct mark *m, const char *part)
{
	REQUIRE(is(m, CLIKA_REC_SPAN, "work") && strcmp(m->cat, part) == 0);
	m++;
	REQUIRE(is(m, CLIKA_REC_BEGIN, part) && m->depth == 0 && strstr(m->src, "part.c:"));
	m++;
	for (int i = 1; i <= 2; i++, m += 3) {
		REQUIRE(is(m, CLIKA_REC_BEGIN, "inlined") && m->depth == 1 && m->nargs == 1);
		REQUIRE(strcmp(m->args[0].key, "n") == 0 && m->args[0].i == i);
		REQUIRE(is(m + 1, CLIKA_REC_COUNTER_I64, "depth") && m[1].value == (uint64_t)i);
		REQUIRE(m[2].kind == CLIKA_REC_END && m[2].depth == 1);
	}
	REQUIRE(is(m, CLIKA_REC_INSTANT, "instant") && strcmp(m->cat, "cat") == 0 && m->nargs == 3);
	REQUIRE(m->args[0].i == 3 && m->args[1].f == 2.5 && !strcmp(m->args[2].str, "dynamic"));
	m++;
	REQUIRE(is(m, CLIKA_REC_INSTANT, "dynamic") && m->flags == CLIKA_RECF_INLINE);
	m++;
	REQUIRE(is(m, CLIKA_REC_SPAN, "complete"));
	m++;
	REQUIRE(m->kind == CLIKA_REC_ALLOC && m->id == 0x4000 && m->value == 4096);
	REQUIRE(m->device == 1 && strcmp(m->pool, "pool") == 0);
	m++;
	REQUIRE(m->kind == CLIKA_REC_END && m->depth == 0 && m->args[0].i == 6);
	return 0;
}

static int check(void)
{
	struct clika_buffer *b;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	REQUIRE(marks__wait_unwatched(&clika_semaphore_v1) == 0);
	REQUIRE(part_a(3, "dynamic") == 6 && clika_object_v1.buffers == 0);
	CLIKA_THREAD_NAME("checker");
	clika_semaphore_v1 = 1;
	REQUIRE(part_a(3, "dynamic") == 6 && part_b(3, "dynamic") == 6);
	clika_semaphore_v1 = 0;
	b = marks__buffer(&clika_object_v1, tid);
	REQUIRE(b && b->object == (uint64_t)(uintptr_t)&clika_object_v1);
	REQUIRE(b->pid == (uint32_t)getpid() && clika_object_v1.pid == b->pid && b->next == 0);
	REQUIRE(strcmp(b->thread_name, "checker") == 0);
	REQUIRE(b->count == 26 && b->dropped == 0 && b->depth == 0 && b->flushed == 0);
	REQUIRE(marks__decode(b, 0, b->head, mark, 64) == 26);
	REQUIRE(check_part(mark, "part_a") == 0 && check_part(mark + 13, "part_b") == 0);
	for (int i = 0; i < 1000; i++) {
		clika_semaphore_v1 = 1;
		part_a(3, "dynamic");
		clika_semaphore_v1 = 0;
		part_b(3, "dynamic");
	}
	REQUIRE(b->count == 26 + 13000 && b->dropped == 0);
	REQUIRE(b->flushed > 0 && b->head - b->flushed <= CLIKA_HALF_BYTES);
	REQUIRE(marks__decode(b, b->flushed, b->head, mark, 64) ==
		(int)(b->count - b->flushed_count));
	CLIKA_FLUSH();
	REQUIRE(b->flushed == b->head && b->flushed_count == b->count);
	return 0;
}

#ifdef SHARED
int SHARED(void)
{
	return check();
}
#else
int main(void)
{
	return check();
}
#endif
