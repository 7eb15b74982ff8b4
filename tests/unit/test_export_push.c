// SPDX-License-Identifier: Apache-2.0
/* Pushing to a collector: a small server in this process answers as the script says. */
#include "include/clika/prof.h"
#include "tests/common/rec_builder.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#define MAX_POSTS 16

struct post {
	char head[2048];
	char *body; /* unpacked */
	uint64_t at;
};

struct server {
	int listener;
	uint16_t port;
	pthread_t thread;
	const char *const *answers; /* whole responses, NULL: hang up; the last one stays */
	size_t n_answers;
	struct post posts[MAX_POSTS];
	size_t n_posts;
};

struct world {
	struct rec *b;
	uint32_t thread;
	struct server s;
	struct clika_recording *r;
	struct clika_push_opts o;
	struct clika_push_result result;
	struct clika_prof_error err;
	char url[64];
};

/* --- the server --------------------------------------------------------------------------------------- */

static char *unpack(const uint8_t *data, size_t len)
{
	size_t room = 8u << 20;
	z_stream z = { .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)len };
	char *text = malloc(room);

	z.next_out = (Bytef *)text;
	z.avail_out = (uInt)room - 1;
	if (!text || inflateInit2(&z, 15 + 16) != Z_OK || inflate(&z, Z_FINISH) != Z_STREAM_END)
		abort();
	text[z.total_out] = '\0';
	inflateEnd(&z);
	return text;
}

/* False: the client is gone. */
static bool read_post(int fd, struct post *p)
{
	size_t n = 0, length = 0;
	uint8_t *packed;
	const char *at;
	char *end;
	ssize_t got;

	for (;;) {
		got = read(fd, p->head + n, 1); /* a byte at a time: the body stays in the socket */
		if (got <= 0 || n + 2 > sizeof(p->head))
			return false;
		p->head[++n] = '\0';
		end = strstr(p->head, "\r\n\r\n");
		if (end)
			break;
	}
	at = strstr(p->head, "Content-Length: ");
	if (at)
		length = strtoul(at + 16, NULL, 10);
	packed = malloc(length + 1);
	for (n = 0; n < length; n += (size_t)got) {
		got = read(fd, packed + n, length - n);
		if (got <= 0)
			break;
	}
	p->body = n == length ? unpack(packed, length) : NULL;
	p->at = clock__boottime_ns();
	free(packed);
	return p->body;
}

static void *serve(void *arg)
{
	struct server *s = arg;
	const char *answer;
	int fd;

	while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
		while (s->n_posts < MAX_POSTS && read_post(fd, &s->posts[s->n_posts])) {
			answer = s->answers[s->n_posts < s->n_answers ? s->n_posts
								      : s->n_answers - 1];
			s->n_posts++;
			if (!answer || write(fd, answer, strlen(answer)) < 0)
				break;
		}
		close(fd);
	}
	return NULL;
}

static void server__start(struct server *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(s->listener, 8), 0);
	assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &len), 0);
	s->port = ntohs(a.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server__stop(struct server *s)
{
	size_t i;

	shutdown(s->listener, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->listener);
	for (i = 0; i < s->n_posts; i++)
		free(s->posts[i].body);
}

/* --- the world ------------------------------------------------------------------------------------------ */

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->b = rec__new();
	w->thread = rec__thread(w->b, rec__process(w->b, 100, "server"), 100, "main");
	rec__anchor(w->b, 1000, 1700000000000000000);
	w->result.sz = sizeof(w->result);
	w->o = (struct clika_push_opts){ .sz = sizeof(w->o), .url = w->url, .backoff_ms = 1 };
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	clika_recording__close(w->r);
	if (w->s.port)
		server__stop(&w->s);
	rec__free(w->b);
	free(w);
	return 0;
}

static int push(struct world *w, uint64_t spans, const char *const *answers, size_t n)
{
	uint64_t i;
	int fd;

	w->s.answers = answers;
	w->s.n_answers = n;
	server__start(&w->s);
	snprintf(w->url, sizeof(w->url), "http://127.0.0.1:%u", w->s.port);
	for (i = 0; i < spans; i++)
		rec__span(w->b, w->thread, 2000 + 10 * i, 5, "op");
	fd = rec__write(w->b, NULL);
	assert_int_equal(clika_recording__open_fd(fd, NULL, &w->r, &w->err), 0);
	close(fd);
	return clika_recording__push_otlp(w->r, &w->o, &w->result, &w->err);
}

#define ANSWER(status, more, body) "HTTP/1.1 " status "\r\n" more body
#define OK ANSWER("200 OK", "Content-Length: 2\r\n\r\n", "{}")
#define BUSY ANSWER("503 Service Unavailable", "Content-Length: 0\r\n\r\n", "")

static void sends_all_spans_as_compressed_json(void **state)
{
	static const char *const answers[] = { OK };
	static const char *const headers[] = { "X-Token: secret" };
	struct world *w = *state;
	const cJSON *spans;
	cJSON *tree;

	w->o.headers = headers;
	w->o.n_headers = 1;
	assert_int_equal(push(w, 700, answers, 1), 0);
	assert_int_equal(w->result.requests, 2);
	assert_int_equal(w->result.spans, 700);
	assert_int_equal(w->result.retries, 0);
	assert_int_equal(w->s.n_posts, 2);
	assert_non_null(strstr(w->s.posts[0].head, "POST /v1/traces HTTP/1.1\r\n"));
	assert_non_null(strstr(w->s.posts[0].head, "Content-Type: application/json\r\n"));
	assert_non_null(strstr(w->s.posts[0].head, "Content-Encoding: gzip\r\n"));
	assert_non_null(strstr(w->s.posts[1].head, "X-Token: secret\r\n"));
	tree = cJSON_ParseWithOpts(w->s.posts[0].body, NULL, true);
	assert_non_null(tree);
	spans = cJSON_GetObjectItem(tree, "resourceSpans")->child;
	spans = cJSON_GetObjectItem(cJSON_GetObjectItem(spans, "scopeSpans")->child, "spans");
	assert_int_equal(cJSON_GetArraySize(spans), 512);
	cJSON_Delete(tree);
}

static void tries_again_when_the_server_is_busy_or_hangs_up(void **state)
{
	static const char *const answers[] = {
		BUSY, NULL, ANSWER("429 Too Many Requests", "Content-Length: 0\r\n\r\n", ""), OK
	};
	struct world *w = *state;

	assert_int_equal(push(w, 3, answers, 4), 0);
	/* The same body each time. A connection that was hung up is also reopened by libcurl. */
	assert_true(w->s.n_posts >= 4);
	assert_string_equal(w->s.posts[0].body, w->s.posts[3].body);
	assert_int_equal(w->result.requests, 1);
	assert_true(w->result.retries >= 2);
}

static void waits_as_long_as_the_server_asks(void **state)
{
	static const char *const answers[] = {
		ANSWER("503 Busy", "Retry-After: 1\r\nContent-Length: 0\r\n\r\n", ""), OK
	};
	struct world *w = *state;

	assert_int_equal(push(w, 3, answers, 2), 0);
	assert_int_equal(w->s.n_posts, 2);
	assert_true(w->s.posts[1].at - w->s.posts[0].at >= 990 * NSEC_PER_MSEC);
}

static void never_waits_longer_than_its_limit(void **state)
{
	static const char *const answers[] = {
		ANSWER("503 Busy", "Retry-After: 86400\r\nContent-Length: 0\r\n\r\n", ""), OK
	};
	struct world *w = *state;

	w->o.max_wait_ms = 50;
	assert_int_equal(push(w, 3, answers, 2), 0);
	assert_true(w->s.posts[1].at - w->s.posts[0].at < 20 * NSEC_PER_SEC);
}

static void gives_up_after_the_last_try(void **state)
{
	static const char *const answers[] = { BUSY };
	struct world *w = *state;

	w->o.tries = 3;
	assert_true(push(w, 3, answers, 1) < 0);
	assert_int_equal(w->s.n_posts, 3);
	assert_int_equal(w->result.spans, 0);
	assert_non_null(strstr(w->err.msg, "503"));
	assert_non_null(strstr(w->err.msg, "3 tries"));
}

static void does_not_repeat_what_the_server_refuses(void **state)
{
	static const char *const answers[] = { ANSWER(
		"401 Unauthorized", "Content-Length: 15\r\n\r\n", "no token\x1b[31m!!") };
	struct world *w = *state;

	assert_true(push(w, 3, answers, 1) < 0);
	assert_int_equal(w->s.n_posts, 1);
	assert_non_null(strstr(w->err.msg, "401"));
	assert_non_null(strstr(w->err.msg, "no token"));
	assert_null(strchr(w->err.msg, '\x1b'));
}

static void tells_what_a_collector_rejected(void **state)
{
#define PARTIAL "{\"partialSuccess\":{\"rejectedSpans\":\"2\",\"errorMessage\":\"too old\"}}"
	static const char *const answers[] = { ANSWER("200 OK", "Content-Length: 65\r\n\r\n",
						      PARTIAL) };
	struct world *w = *state;

	assert_int_equal(sizeof(PARTIAL) - 1, 65);
	assert_int_equal(push(w, 3, answers, 1), 0);
	assert_int_equal(w->result.rejected, 2);
	assert_int_equal(w->result.spans, 1);
	assert_string_equal(w->result.message, "too old");
}

static void says_that_nobody_listens(void **state)
{
	static const char *const answers[] = { OK };
	struct world *w = *state;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	char url[64];

	/* A port that is taken, and on which nobody accepts. */
	assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/traces", ntohs(a.sin_port));
	w->o.url = url;
	w->o.tries = 2;
	assert_true(push(w, 3, answers, 1) < 0);
	assert_int_equal(w->result.retries, 1);
	assert_non_null(strstr(w->err.msg, "2 tries"));
	close(fd);
}

static void gives_up_on_a_server_that_says_nothing(void **state)
{
	static const char *const answers[] = { "" };
	struct world *w = *state;

	w->o.timeout_ms = 100;
	w->o.tries = 1;
	assert_true(push(w, 3, answers, 1) < 0);
	assert_int_equal(w->s.n_posts, 1);
}

static void refuses_other_addresses_and_broken_headers(void **state)
{
	static const char *const answers[] = { OK }, *const bad[] = { "X: a\r\nY: b" };
	struct world *w = *state;

	w->o.url = "file:///etc/passwd";
	assert_int_equal(push(w, 1, answers, 1), -EINVAL);
	w->o.url = w->url;
	w->o.headers = bad;
	w->o.n_headers = 1;
	assert_int_equal(clika_recording__push_otlp(w->r, &w->o, &w->result, &w->err), -EINVAL);
	assert_int_equal(w->s.n_posts, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sends_all_spans_as_compressed_json),
		TEST(tries_again_when_the_server_is_busy_or_hangs_up),
		TEST(waits_as_long_as_the_server_asks),
		TEST(never_waits_longer_than_its_limit),
		TEST(gives_up_after_the_last_try),
		TEST(does_not_repeat_what_the_server_refuses),
		TEST(tells_what_a_collector_rejected),
		TEST(says_that_nobody_listens),
		TEST(gives_up_on_a_server_that_says_nothing),
		TEST(refuses_other_addresses_and_broken_headers),
	};

	/* A proxy of the environment is not for the loopback. */
	setenv("no_proxy", "127.0.0.1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
