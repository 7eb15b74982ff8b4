// SPDX-License-Identifier: Apache-2.0
/*
 * Two recordings of events that no sane target sends, merged: nothing may get lost or appear. What
 * follows a zero byte is a trace of another tool, or a report, as it comes from outside.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clika/prof.h"
#include "user/prof/diff.h"
#include "user/session/session.h"

#include "tests/common/rec_builder.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EPOCH 1000000000000ull

static const char *const names[] = { "a", "b", "\xff", "\"\n", "" };

/* A folder of this process, in memory where the system has such. */
static const char *file(const char *name)
{
	static char dir[64], path[4][128];
	static unsigned int next;

	if (!dir[0]) {
		snprintf(dir, sizeof(dir), "%s/clika-fuzz-XXXXXX",
			 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
		if (!mkdtemp(dir))
			abort();
	}
	next = (next + 1) % 4;
	snprintf(path[next], sizeof(path[next]), "%s/%s", dir, name);
	return path[next];
}

static void add_event(struct rec *b, const uint32_t *thread, const uint8_t *p, uint64_t *ts)
{
	uint8_t kind = p[0] % EV_KIND_COUNT;
	const char *name = names[p[6] % ARRAY_SIZE(names)];
	uint64_t length = (uint64_t)(p[4] & 15) << (p[4] >> 4) * 3;
	struct event *ev;
	int i;

	*ts += (uint64_t)p[3] << (p[1] >> 6) * 6;
	rec__stream(b, p[1] >> 2 & 3);
	if (!kind)
		return;
	if (kind == EV_SPAN && p[2] & 1)
		ev = rec__open_span(b, thread[p[1] & 1], *ts, p[2] & 2 ? *ts + length : 0, name);
	else
		ev = rec__event(b, thread[p[1] & 1], kind, *ts, name);
	if (kind == EV_SPAN && !(p[2] & 1))
		ev->dur = length;
	if (kind != EV_SPAN)
		ev->id = p[5] & 7;
	ev->value = (uint64_t)p[7] << (p[5] >> 3) * 2;
	ev->aux = p[5] >> 7;
	for (i = 0; p[2] & 4 && i < p[7] % 13; i++)
		rec__arg_str(b, name, name, strlen(name));
}

/* Every other event goes to the other one. */
static void record(const char *path, uint32_t pid, const uint8_t *data, size_t size, size_t skip)
{
	struct rec *b = rec__new();
	uint32_t thread[2], p = rec__process(b, pid, "p");
	uint64_t ts = EPOCH;
	size_t i;

	thread[0] = rec__thread(b, p, pid, "t");
	thread[1] = rec__thread(b, p, pid + 1, "t");
	rec__meta(b)->machine_id = (char[]){ "boot" };
	if (size && data[0] & 1 << skip)
		rec__anchor(b, EPOCH, EPOCH + 1);
	if (size && data[0] & 4 << skip)
		rec__process_info(b, p)->ended = EPOCH + 5000;
	for (i = 1 + 8 * skip; i + 8 <= size && i < 8 * 400; i += 16)
		add_event(b, thread, data + i, &ts);
	rec__write(b, path);
	rec__free(b);
}

static int ignore(void *ctx, const struct item *it)
{
	(void)ctx;
	(void)it;
	return 0;
}

static struct session_counts count(const char *path)
{
	struct session_opts all = { .outside_captures = true };
	struct session_counts n;
	struct recording *r;
	struct session *s;

	if (recording__open(path, &r, NULL) || session__new(r, &all, &s, NULL) ||
	    session__walk(s, ignore, NULL))
		abort();
	n = *session__counts(s);
	session__free(s);
	recording__close(r);
	return n;
}

static void must_add_up(const char *what, uint64_t a, uint64_t b, uint64_t both)
{
	if (a + b == both)
		return;
	fprintf(stderr, "%s: %llu and %llu give %llu\n", what, (unsigned long long)a,
		(unsigned long long)b, (unsigned long long)both);
	abort();
}

static void check_merge(const uint8_t *data, size_t size)
{
	const char *a = file("a"), *b = file("b"), *out = file("out");
	struct clika_merge_input in[] = { { .path = a }, { .path = b } };
	struct clika_prof_error err = { 0 };
	struct session_counts x, y, z;

	record(a, 100, data, size, 0);
	record(b, 200, data, size, 1);
	if (clika_merge(in, 2, out, NULL, NULL, &err)) {
		fprintf(stderr, "merge: %s\n", err.msg);
		abort();
	}
	x = count(a);
	y = count(b);
	z = count(out);
	must_add_up("spans", x.spans, y.spans, z.spans);
	must_add_up("instants", x.instants, y.instants, z.instants);
	must_add_up("counters", x.counters, y.counters, z.counters);
	must_add_up("async spans", x.asyncs, y.asyncs, z.asyncs);
	must_add_up("flows", x.flows, y.flows, z.flows);
	must_add_up("memory", x.memory, y.memory, z.memory);
	must_add_up("requests", x.requests, y.requests, z.requests);
	must_add_up("unfinished", x.unfinished, y.unfinished, z.unfinished);
	must_add_up("clipped", x.clipped, y.clipped, z.clipped);
	must_add_up("out of range", 0, 0, z.bad_times);
	must_add_up("damaged", 0, 0, z.damaged);
}

static void check_foreign(const uint8_t *data, size_t size)
{
	const char *a = file("a"), *t = file("trace"), *out = file("out");
	struct clika_merge_input in[] = {
		{ .path = a },
		{ .path = t, .at = CLIKA_AT_OFFSET, .at_ns = 5 },
	};
	struct clika_diff_opts o;
	char *text = NULL;
	size_t len;
	FILE *f = fopen(t, "w");

	if (!f || fwrite(data, 1, size, f) != size || fclose(f))
		abort();
	record(a, 100, data, 0, 0);
	if (!clika_merge(in, 2, out, NULL, NULL, NULL))
		count(out);
	clika_diff_opts__init(&o);
	o.fail_above = 0;
	if (!clika_diff(t, t, &o, &text, &len, NULL, NULL))
		free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && !data[0])
		check_foreign(data + 1, size - 1);
	else
		check_merge(data, size);
	return 0;
}
