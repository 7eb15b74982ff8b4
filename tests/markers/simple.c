/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simple transport: a trap on each site that the program's own notes name stands in for the
 * kernel and sees probe, recipe and values of every marker. Also C++.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define CLIKA_TRANSPORT_SIMPLE
#include <clika/markers.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "tests/markers/records.h"
#include "tests/markers/trap.h"

#define REQUIRE(what)                                                                              \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

struct site {
	uintptr_t pc;
	const char *probe, *recipe;
};
static struct site sites[512];
static int n_sites;

struct hit {
	const char *probe, *recipe;
	uint64_t arg[6];
};
static struct hit hits[64];
static volatile int n_hits; /* a trap changes it behind the compiler's back */

static void on_hit(uintptr_t pc, const uint64_t arg[6])
{
	for (int i = 0; i < n_sites; i++) {
		if (sites[i].pc != pc)
			continue;
		REQUIRE(n_hits < 64);
		hits[n_hits].probe = sites[i].probe;
		hits[n_hits].recipe = sites[i].recipe;
		memcpy(hits[n_hits].arg, arg, sizeof(hits[0].arg));
		n_hits++;
		return;
	}
	REQUIRE(!"a trap at no site");
}

static int program_base(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uintptr_t *)arg = info->dlpi_addr;
	return 1;
}

static void take_note(uintptr_t base, const char *desc, uintptr_t semaphore)
{
	uint64_t addr[3];
	const char *s = desc + sizeof(addr);

	memcpy(addr, desc, sizeof(addr));
	if (strcmp(s, "clika") != 0 || strcmp(s + 6, "batch") == 0)
		return;
	REQUIRE(base + addr[2] == semaphore && addr[1] != 0 && n_sites < 512);
	sites[n_sites].pc = base + addr[0];
	sites[n_sites].probe = s + 6;
	sites[n_sites].recipe = s + 6 + strlen(s + 6) + 1;
	n_sites++;
}

static void find_sites(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	uintptr_t base = 0;
	struct stat st;
	const char *f;

	REQUIRE(fd >= 0 && fstat(fd, &st) == 0);
	f = (const char *)mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	REQUIRE(f != MAP_FAILED);
	close(fd);
	dl_iterate_phdr(program_base, &base);
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)f;
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(f + eh->e_shoff);
	const char *names = f + sh[eh->e_shstrndx].sh_offset;

	for (int i = 0; i < eh->e_shnum; i++) {
		const char *p = f + sh[i].sh_offset, *end = p + sh[i].sh_size;

		if (strcmp(names + sh[i].sh_name, ".note.stapsdt") != 0)
			continue;
		while (p < end) {
			const Elf64_Nhdr *n = (const Elf64_Nhdr *)p;

			REQUIRE(n->n_namesz == 8 && n->n_type == 3);
			take_note(base, p + 20, (uintptr_t)&clika_simple_semaphore_v1);
			p += 20 + ((n->n_descsz + 3u) & ~3u);
		}
	}
	for (int i = 0; i < n_sites; i++)
		REQUIRE(trap__set(sites[i].pc) == 0);
}

static const char *text(uint64_t v)
{
	return (const char *)(uintptr_t)v;
}

#ifdef __x86_64__
static const char *const regs[] = { "%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9" };
#else
static const char *const regs[] = { "x0", "x1", "x2", "x3", "x4", "x5" };
#endif

static uint64_t begun; /* when the first marker was told */

/* The displacement leads to the literal of the marker's own name. */
static const char *literal(uint64_t place)
{
	return (const char *)((uintptr_t)&clika_simple_semaphore_v1 + (uintptr_t)place);
}

/* The next hit: of @probe, with @n values, its time behind them and, unless @name is NULL, its place. */
static const struct hit *next_of(const char *probe, int n, const char *name, const char *second)
{
	static uint64_t last;
	static int at;
	const struct hit *h = &hits[at++];
	char recipe[128] = "";

	REQUIRE(at <= n_hits);
	for (int i = 0; i < n + 1 + (name != NULL); i++) {
		strcat(recipe, i == 0 ? "" : " ");
		strcat(recipe, i == 1 ? second : "8@");
		strcat(recipe, regs[i]);
	}
	if (strcmp(h->probe, probe) != 0 || strcmp(h->recipe, recipe) != 0)
		fprintf(stderr, "%s(%s) instead of %s(%s)\n", h->probe, h->recipe, probe, recipe);
	REQUIRE(strcmp(h->probe, probe) == 0 && strcmp(h->recipe, recipe) == 0);
	REQUIRE(h->arg[n] >= (last ? last : begun) && h->arg[n] <= clika__clock() + 1000);
	last = h->arg[n];
	if (name && *name)
		REQUIRE(strcmp(literal(h->arg[n + 1]), name) == 0);
	else if (name)
		REQUIRE(h->arg[n + 1] == 0);
	return h;
}

static const struct hit *next(const char *probe, int n)
{
	return next_of(probe, n, NULL, "8@");
}

/* @name: of the literal; "" = the name was made at run time. */
static const struct hit *next_named(const char *probe, int n, const char *name)
{
	return next_of(probe, n, name, "8@");
}

static void is_named(const struct hit *h, const char *name)
{
	REQUIRE(strcmp(text(h->arg[0]), name) == 0);
}

static void has_id(const char *probe, const char *name, uint64_t id)
{
	const struct hit *h = next_named(probe, 2, name);

	is_named(h, name);
	REQUIRE(h->arg[1] == id);
}

/* In C the array of arguments lives as long as the enclosing block. */
static void has_args(uint64_t n, uint64_t args)
{
	const struct clika_arg *a = (const struct clika_arg *)(uintptr_t)args;

	REQUIRE(n >= 1 && a != NULL);
}

static void mark_all(const char *dynamic)
{
	clika_token t = CLIKA_SPAN_BEGIN_CAT("span", "cat");

	CLIKA_SPAN_END(t);
	t = CLIKA_SPAN_BEGIN_DYN(dynamic, CLIKA_I64("i", 1), CLIKA_STR("s", "text"));
	CLIKA_SPAN_END(t, CLIKA_I64("i", 2));
	{
		CLIKA_SPAN("scoped");
	}
	CLIKA_INSTANT("instant");
	CLIKA_INSTANT_CAT("instant", "cat", CLIKA_F64("f", 1.5));
	CLIKA_COUNTER_I64("i64", -5);
	CLIKA_COUNTER_F64("f64", 0.5);
	CLIKA_ASYNC_BEGIN("async", 6);
	CLIKA_ASYNC_END("async", 6, CLIKA_I64("i", 3));
	CLIKA_FLOW_OUT("flow", 7);
	CLIKA_FLOW_STEP("flow", 7);
	CLIKA_FLOW_IN("flow", 7);
	CLIKA_REQUEST_BEGIN("request", 8, CLIKA_I64("i", 4));
	CLIKA_REQUEST_FIRST_OUTPUT("request", 8);
	CLIKA_REQUEST_OUTPUT("request", 8, 9);
	CLIKA_REQUEST_END("request", 8);
	CLIKA_ALLOC(1, 0x1000, 64, "pool");
	CLIKA_FREE(1, 0x1000);
	CLIKA_RESERVE(2, 0x2000, 128, "arena");
	CLIKA_RELEASE(2, 0x2000);
	CLIKA_THREAD_NAME("thread");
	CLIKA_QUEUE_NAME(10, "queue");
	CLIKA_DEVICE_NAME(2, "device");
	CLIKA_PROCESS_LABEL("label");
	CLIKA_CAPTURE_BEGIN("tag");
	CLIKA_CAPTURE_END_DYN(dynamic);
}

static void check_spans(void)
{
	const struct hit *h = next_named("span_begin", 2, "span");
	const char *place = literal(h->arg[3]);

	is_named(h, "span");
	REQUIRE(strcmp(text(h->arg[1]), "cat") == 0);
	REQUIRE(strcmp(place + 5, "cat") == 0 && strstr(place + 9, "simple.c:"));
	next("span_end", 0);
	h = next_named("span_begin_args", 4, "");
	is_named(h, "dynamic");
	REQUIRE(h->arg[1] == 0 && h->arg[2] == 2);
	has_args(h->arg[2], h->arg[3]);
	h = next("span_end_args", 2);
	has_args(h->arg[0], h->arg[1]);
	is_named(next_named("span_begin", 2, "scoped"), "scoped");
	next("span_end", 0);
	h = next_named("instant", 2, "instant");
	is_named(h, "instant");
	REQUIRE(h->arg[1] == 0);
	h = next_named("instant_args", 4, "instant");
	REQUIRE(strcmp(text(h->arg[1]), "cat") == 0 && h->arg[2] == 1);
}

static void check_values(void)
{
	const struct hit *h = next_of("counter_i64", 2, "i64", "-8@");
	double half = 0.5;
	uint64_t bits;

	memcpy(&bits, &half, sizeof(bits));
	is_named(h, "i64");
	REQUIRE((int64_t)h->arg[1] == -5);
	has_id("counter_f64", "f64", bits);
	has_id("async_begin", "async", 6);
	h = next_named("async_end_args", 4, "async");
	is_named(h, "async");
	REQUIRE(h->arg[1] == 6);
	has_args(h->arg[2], h->arg[3]);
	has_id("flow_out", "flow", 7);
	has_id("flow_step", "flow", 7);
	has_id("flow_in", "flow", 7);
	h = next_named("request_begin_args", 4, "request");
	REQUIRE(h->arg[1] == 8 && h->arg[2] == 1);
	has_id("request_first", "request", 8);
	h = next_named("request_output", 3, "request");
	REQUIRE(h->arg[1] == 8 && h->arg[2] == 9);
	has_id("request_end", "request", 8);
}

static void check_memory_and_names(void)
{
	const struct hit *h = next_named("alloc", 4, "pool");

	REQUIRE(h->arg[0] == 1 && h->arg[1] == 0x1000 && h->arg[2] == 64);
	REQUIRE(strcmp(text(h->arg[3]), "pool") == 0);
	h = next("free", 2);
	REQUIRE(h->arg[0] == 1 && h->arg[1] == 0x1000);
	h = next_named("reserve", 4, "arena");
	REQUIRE(h->arg[0] == 2 && h->arg[2] == 128 && strcmp(text(h->arg[3]), "arena") == 0);
	h = next("release", 2);
	REQUIRE(h->arg[0] == 2 && h->arg[1] == 0x2000);
	is_named(next("thread_name", 1), "thread");
	h = next("queue_name", 2);
	REQUIRE(h->arg[0] == 10 && strcmp(text(h->arg[1]), "queue") == 0);
	h = next("device_name", 2);
	REQUIRE(h->arg[0] == 2 && strcmp(text(h->arg[1]), "device") == 0);
	is_named(next("process_label", 1), "label");
	is_named(next_named("capture_begin", 1, "tag"), "tag");
	is_named(next_named("capture_end", 1, ""), "dynamic");
}

/* What the array holds is looked at inside the hit, while it lives. */
static void on_args_hit(uintptr_t pc, const uint64_t arg[6])
{
	const struct clika_arg *a = (const struct clika_arg *)(uintptr_t)arg[3];

	on_hit(pc, arg);
	REQUIRE(strcmp(hits[n_hits - 1].probe, "instant_args") == 0 && arg[2] == 4);
	REQUIRE(a[0].type == CLIKA_ARG_I64 && !strcmp(a[0].key, "i") && (int64_t)a[0].value == -1);
	REQUIRE(a[1].type == CLIKA_ARG_U64 && !strcmp(a[1].key, "u") && a[1].value == 2);
	REQUIRE(a[2].type == CLIKA_ARG_STR && a[2].len == 4 && !strcmp(text(a[2].value), "text"));
	REQUIRE(a[3].type == CLIKA_ARG_STR && !strcmp(text(a[3].value), "(null)"));
	REQUIRE(a[0].len == 8 && sizeof(*a) == 24);
}

int main(void)
{
	char dynamic[] = "dynamic";
	int before;

	REQUIRE(marks__wait_unwatched(&clika_simple_semaphore_v1) == 0);
	find_sites();
	REQUIRE(n_sites >= 30 && trap__listen(on_hit) == 0);
	mark_all(dynamic);
	REQUIRE(n_hits == 0);
	clika_simple_semaphore_v1 = 1;
	begun = clika__clock();
	mark_all(dynamic);
	before = n_hits;
	check_spans();
	check_values();
	check_memory_and_names();
	trap__fn = on_args_hit;
	CLIKA_INSTANT("last", CLIKA_I64("i", -1), CLIKA_U64("u", 2), CLIKA_STR("s", "text"),
		      CLIKA_STR("n", NULL));
	is_named(next_named("instant_args", 4, "last"), "last");
	REQUIRE(n_hits == before + 1);
	return 0;
}
