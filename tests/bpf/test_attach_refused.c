// SPDX-License-Identifier: Apache-2.0
/* A place that the kernel refuses costs itself alone, not the link of its whole file. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/probe/attach.h"
#include "user/probe/proc.h"

#define PLACES 40

/* One nop each, so that probes have somewhere to be; a few places that no kernel takes. */
#if defined(__x86_64__)
#define REFUSED "lock incl (%rsp)\n"
#else
#define REFUSED "ldxr x0, [sp]\n"
#endif
asm(".text\n"
    ".globl refused_taken, refused_not\n"
    ".balign 16\n"
    "refused_taken: .rept 64\n nop\n .endr\n ret\n"
    ".balign 16\n"
    "refused_not: .rept 8\n" REFUSED ".balign 8\n .endr\n ret\n");
extern const char refused_taken[], refused_not[];

#if defined(__x86_64__)
#define NOP_BYTES 1
#else
#define NOP_BYTES 4
#endif

struct place {
	uintptr_t at;
	uint64_t offset;
};

static int find_offset(void *ctx, const struct proc_map *m)
{
	struct place *p = ctx;

	if (p->at < m->start || p->at >= m->end)
		return 0;
	p->offset = p->at - m->start + m->offset;
	return 1;
}

static uint64_t offset_of(const char *at)
{
	struct place p = { .at = (uintptr_t)at };

	assert_int_equal(proc__maps(getpid(), find_offset, &p), 1);
	return p.offset;
}

struct told {
	uint64_t cookie[PLACES];
	size_t n;
};

static void on_refused(void *ctx, const struct probe_site *s, int why)
{
	struct told *t = ctx;

	assert_int_not_equal(why, 0);
	assert_true(t->n < PLACES);
	t->cookie[t->n++] = s->cookie;
}

struct fixture {
	struct attacher *a;
	int fd;
};

static char singly; /* as on kernels without links of many probes */

static int open_attacher(void **state)
{
	static struct fixture fx;
	struct attach_opts o = { .ring_bytes = 4096, .uid = -1 };
	struct clika_error err = { 0 };
	struct features f;

	features__probe(&f, NULL);
	if (*state == &singly)
		f.multi_uprobe = false;
	if (attacher__new(&f, &o, &fx.a, &err)) {
		print_error("%s\n", err.msg);
		return -1;
	}
	fx.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	*state = &fx;
	return fx.fd < 0;
}

static int close_attacher(void **state)
{
	struct fixture *fx = *state;

	attacher__free(fx->a, NULL, NULL);
	close(fx->fd);
	return 0;
}

static void sites__fill(struct probe_site *s, size_t n, const size_t *refused, size_t n_refused)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		bool is_refused = k < n_refused && refused[k] == i;

		s[i] = (struct probe_site){
			.offset = is_refused ? offset_of(refused_not) + 8 * k
					     : offset_of(refused_taken) + NOP_BYTES * i,
			.cookie = i,
		};
		k += is_refused;
	}
}

static void one_refused_place_costs_itself_alone(void **state)
{
	static const size_t where[] = { 0, 17, 18, PLACES - 1 };
	struct fixture *fx = *state;
	struct probe_site s[PLACES];
	struct clika_error err = { 0 };
	struct told t = { .n = 0 };
	int links;

	sites__fill(s, PLACES, where, ARRAY_SIZE(where));
	links = attacher__attach_some(fx->a, PROBE_CALL, fx->fd, s, PLACES, 0, on_refused, &t,
				      &err);
	assert_string_equal(err.msg, "");
	assert_true(links > 0);
	assert_int_equal(t.n, ARRAY_SIZE(where));
	for (size_t i = 0; i < t.n; i++)
		assert_int_equal(t.cookie[i], where[i]);
	assert_int_equal(attacher__n_links(fx->a), links);
}

static void who_does_not_ask_for_that_gets_all_or_nothing(void **state)
{
	static const size_t where[] = { 5 };
	struct fixture *fx = *state;
	struct probe_site s[PLACES];
	struct clika_error err = { 0 };

	sites__fill(s, PLACES, where, ARRAY_SIZE(where));
	assert_true(attacher__attach(fx->a, PROBE_CALL, fx->fd, s, PLACES, 0, &err) < 0);
	assert_non_null(strstr(err.msg, "instruction"));
	assert_int_equal(attacher__n_links(fx->a), 0);
}

static void without_a_refused_place_there_is_one_link(void **state)
{
	struct fixture *fx = *state;
	struct probe_site s[PLACES];
	struct clika_error err = { 0 };
	struct told t = { .n = 0 };
	int links;

	sites__fill(s, PLACES, NULL, 0);
	links = attacher__attach_some(fx->a, PROBE_CALL, fx->fd, s, PLACES, 0, on_refused, &t,
				      &err);
	assert_int_equal(links, attacher__has_multi(fx->a) ? 1 : PLACES);
	assert_int_equal(t.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_refused_place_costs_itself_alone, open_attacher,
						close_attacher),
		{ "one_refused_place_costs_itself_alone_without_multi_links",
		  one_refused_place_costs_itself_alone, open_attacher, close_attacher, &singly },
		cmocka_unit_test_setup_teardown(who_does_not_ask_for_that_gets_all_or_nothing,
						open_attacher, close_attacher),
		cmocka_unit_test_setup_teardown(without_a_refused_place_there_is_one_link,
						open_attacher, close_attacher),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
