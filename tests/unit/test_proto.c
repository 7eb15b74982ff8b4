// SPDX-License-Identifier: Apache-2.0
/* Messages between client and loader service: round trips, and whatever else may come. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/service/proto.h"

static uint64_t soon(void)
{
	return clock__boottime_ns() + 200 * NSEC_PER_MSEC;
}

static void pair(int s[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
}

static void a_message_arrives_with_payload_and_descriptors(void **state)
{
	struct proto_header h = { .seq = 7, .type = REQ_EXPORT, .code = -5 };
	struct proto_message *m = malloc(sizeof(*m));
	struct buf b = { 0 };
	int s[2], p[2];
	char byte = 0;

	(void)state;
	pair(s);
	assert_int_equal(pipe(p), 0);
	proto__put_string(&b, "chrome");
	assert_int_equal(proto__send(s[0], &h, &b, &p[1], 1, soon()), 0);
	assert_int_equal(proto__receive(s[1], m, soon()), 0);
	assert_int_equal(m->h.seq, 7);
	assert_int_equal(m->h.type, REQ_EXPORT);
	assert_int_equal(m->h.code, -5);
	assert_int_equal(m->payload_len, 10);
	assert_int_equal(m->n_fds, 1);
	assert_int_equal(write(m->fds[0], "x", 1), 1);
	assert_int_equal(read(p[0], &byte, 1), 1);
	proto_message__close_fds(m);
	buf__free(&b);
	for (int i = 0; i < 2; i++) {
		close(s[i]);
		close(p[i]);
	}
	free(m);
}

static void a_request_for_a_session_survives_the_way(void **state)
{
	char *probes[] = { (char *)"lib*:f", (char *)"" }, *usdts[] = { (char *)"a:b" };
	char *recipes[] = { (char *)"pytorch:all", (char *)"mine" };
	struct proto_new in = { .target = 1,
				.pid = 4711,
				.flags = NEW_CHILDREN | NEW_REDACT | NEW_NO_AUTO,
				.budget = PROTO_BUDGET_OFF,
				.ring_bytes = 1ull << 40,
				.max_bytes = 3,
				.probes = probes,
				.n_probes = 2,
				.usdts = usdts,
				.n_usdts = 1,
				.recipes = recipes,
				.n_recipes = 2 },
			 out;
	struct buf b = { 0 };
	struct cursor c;

	(void)state;
	proto__put_new(&b, &in);
	c = cursor__over(b.data, b.len);
	assert_int_equal(proto__get_new(&c, &out), 0);
	assert_int_equal(cursor__left(&c), 0);
	assert_int_equal(out.pid, 4711);
	assert_int_equal(out.flags, NEW_CHILDREN | NEW_REDACT | NEW_NO_AUTO);
	assert_int_equal(out.budget, PROTO_BUDGET_OFF);
	assert_true(out.ring_bytes == 1ull << 40);
	assert_int_equal(out.n_probes, 2);
	assert_string_equal(out.probes[0], "lib*:f");
	assert_string_equal(out.probes[1], "");
	assert_string_equal(out.usdts[0], "a:b");
	assert_int_equal(out.n_recipes, 2);
	assert_string_equal(out.recipes[0], "pytorch:all");
	assert_string_equal(out.recipes[1], "mine");
	proto_new__free(&out);
	/* Cut anywhere it is refused, and nothing leaks. */
	for (size_t n = 0; n < b.len; n++) {
		c = cursor__over(b.data, n);
		assert_int_equal(proto__get_new(&c, &out), -EBADMSG);
	}
	buf__free(&b);
}

static void refuses_strings_that_are_too_long_or_hold_nul(void **state)
{
	static const uint8_t nul[] = { 3, 0, 0, 0, 'a', 0, 'b' };
	struct buf b = { 0 };
	struct cursor c = cursor__over(nul, sizeof(nul));
	char *long_one = malloc(PROTO_MAX_STRING + 2);

	(void)state;
	assert_null(proto__get_string(&c));
	assert_true(c.bad);
	memset(long_one, 'x', PROTO_MAX_STRING + 1);
	long_one[PROTO_MAX_STRING + 1] = 0;
	proto__put_string(&b, long_one);
	c = cursor__over(b.data, b.len);
	assert_null(proto__get_string(&c));
	free(long_one);
	buf__free(&b);
}

static void refuses_more_strings_than_anybody_needs(void **state)
{
	static const uint8_t many[] = { 0xff, 0xff, 0xff, 0xff };
	struct cursor c = cursor__over(many, sizeof(many));
	size_t n;

	(void)state;
	assert_null(proto__get_strings(&c, &n));
	assert_true(c.bad);
	assert_int_equal(n, 0);
}

static void refuses_what_is_not_this_protocol(void **state)
{
	struct proto_message *m = malloc(sizeof(*m));
	struct proto_header h = { .magic = PROTO_MAGIC, .length = sizeof(h) + 8, .version = 1 };
	int s[2];

	(void)state;
	pair(s);
	assert_int_equal(write(s[0], "hello", 5), 5);
	assert_int_equal(proto__receive(s[1], m, soon()), -EBADMSG);
	/* A length that is not the packet's. */
	assert_int_equal(write(s[0], &h, sizeof(h)), sizeof(h));
	assert_int_equal(proto__receive(s[1], m, soon()), -EBADMSG);
	h.magic++;
	h.length = sizeof(h);
	assert_int_equal(write(s[0], &h, sizeof(h)), sizeof(h));
	assert_int_equal(proto__receive(s[1], m, soon()), -EBADMSG);
	close(s[0]);
	close(s[1]);
	free(m);
}

static void tells_silence_from_an_end(void **state)
{
	struct proto_message *m = malloc(sizeof(*m));
	int s[2];

	(void)state;
	pair(s);
	assert_int_equal(proto__receive(s[1], m, clock__boottime_ns() + 20 * NSEC_PER_MSEC),
			 -ETIMEDOUT);
	close(s[0]);
	assert_int_equal(proto__receive(s[1], m, soon()), -EPIPE);
	close(s[1]);
	free(m);
}

static void a_receiver_that_reads_nothing_does_not_hold_the_sender(void **state)
{
	struct proto_header h = { .type = REQ_FLUSH };
	struct buf b = { 0 };
	int s[2], ret = 0;

	(void)state;
	pair(s);
	buf__reserve(&b, 60000);
	memset(b.data, 0, 60000);
	b.len = 60000;
	for (int i = 0; i < 1000 && !ret; i++)
		ret = proto__send(s[0], &h, &b, NULL, 0, clock__boottime_ns() + 20 * NSEC_PER_MSEC);
	assert_int_equal(ret, -ETIMEDOUT);
	buf__free(&b);
	close(s[0]);
	close(s[1]);
}

static void random_bytes_never_become_a_session(void **state)
{
	uint8_t bytes[512];
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t n = (size_t)(rand_r(&seed) % (int)sizeof(bytes));
		struct proto_new m;
		struct cursor c;

		for (size_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)(rand_r(&seed) % 5 ? 0 : rand_r(&seed));
		c = cursor__over(bytes, n);
		if (!proto__get_new(&c, &m))
			proto_new__free(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_arrives_with_payload_and_descriptors),
		cmocka_unit_test(a_request_for_a_session_survives_the_way),
		cmocka_unit_test(refuses_strings_that_are_too_long_or_hold_nul),
		cmocka_unit_test(refuses_more_strings_than_anybody_needs),
		cmocka_unit_test(refuses_what_is_not_this_protocol),
		cmocka_unit_test(tells_silence_from_an_end),
		cmocka_unit_test(a_receiver_that_reads_nothing_does_not_hold_the_sender),
		cmocka_unit_test(random_bytes_never_become_a_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
