// SPDX-License-Identifier: Apache-2.0
#include "tests/common/random_session.h"

#include <math.h>
#include <string.h>

#define MIDDLE ((RANDOM_BEGIN + RANDOM_END) / 2)

struct dice {
	uint64_t x;
};

struct place { /* a thread and when it lives */
	uint32_t thread;
	uint64_t from, to;
};

static uint64_t roll(struct dice *d, uint64_t below)
{
	d->x ^= d->x << 13;
	d->x ^= d->x >> 7;
	d->x ^= d->x << 17;
	return below ? d->x % below : d->x;
}

static const char *some_name(struct dice *d)
{
	static const char *const names[] = {
		"conv2d",       "gemm",
		"softmax",      "ns::op<int, 4>",
		"\"quoted\"",   "back\\slash",
		"line\nbreak",  "\x1b[31mred",
		"bad \xff\xfe", "\xc3\xa9t\xc3\xa9",
		"</script>",    "a;b c",
		"%s%n",         "",
	};

	return names[roll(d, ARRAY_SIZE(names))];
}

/* Few distinct ones, so that much happens at one moment. */
static uint64_t some_time(struct dice *d, const struct place *p)
{
	uint64_t at = p->from + roll(d, p->to - p->from);

	return roll(d, 3) ? at : at - at % 10000;
}

static void add_args(struct rec *b, struct dice *d)
{
	static const char *const keys[] = {
		"shape", "flops", "a key", "n.items", "\xc3\xbc", "k6"
	};
	size_t i, n = roll(d, 3) ? 0 : 1 + roll(d, ARRAY_SIZE(keys));
	const char *s;

	for (i = 0; i < n; i++) {
		switch (roll(d, 4)) {
		case 0:
			rec__arg_i64(b, keys[i], -(int64_t)roll(d, 1u << 20));
			break;
		case 1:
			rec__arg_u64(b, keys[i], roll(d, 0) >> 1);
			break;
		case 2:
			rec__arg_f64(b, keys[i], roll(d, 8) ? (double)roll(d, 1u << 30) / 7 : NAN);
			break;
		default:
			s = some_name(d);
			rec__arg_str(b, keys[i], s, strlen(s));
		}
	}
}

static void add_span(struct rec *b, struct dice *d, const struct place *p)
{
	uint64_t ts = some_time(d, p), most = p->to - ts;
	static const uint64_t scale[] = { 1, 100, 10000, 100000 };
	uint64_t dur = roll(d, scale[roll(d, ARRAY_SIZE(scale))]);
	struct event *ev;

	if (roll(d, 4) == 0)
		dur -= dur % 10000;
	dur = dur < most ? dur : most;
	if (roll(d, 12) == 0)
		ev = rec__open_span(b, p->thread, ts, roll(d, 3) ? ts + dur : 0, some_name(d));
	else
		ev = rec__span(b, p->thread, ts, dur, some_name(d));
	ev->cat = rec__id(b, roll(d, 3) ? NULL : "layer");
	ev->src = rec__id(b, roll(d, 2) ? NULL : "src/op.c:17");
	if (roll(d, 20) == 0)
		ev->flags |= roll(d, 2) ? EVS_NO_BEGIN : EVS_REDACTED;
	if (roll(d, 10) == 0)
		ev->flags |= roll(d, 2) ? EVS_FUNCTION : EVS_USDT;
	add_args(b, d);
}

static void add_event(struct rec *b, struct dice *d, const struct place *p)
{
	static const uint8_t kinds[] = {
		EV_INSTANT,       EV_COUNTER_I64,   EV_COUNTER_F64,    EV_ASYNC_BEGIN,
		EV_ASYNC_END,     EV_FLOW_OUT,      EV_FLOW_STEP,      EV_FLOW_IN,
		EV_REQUEST_BEGIN, EV_REQUEST_FIRST, EV_REQUEST_OUTPUT, EV_REQUEST_END,
		EV_ALLOC,         EV_FREE,          EV_RESERVE,        EV_RELEASE,
		EV_CAPTURE_BEGIN, EV_CAPTURE_END,
	};
	uint8_t kind = kinds[roll(d, ARRAY_SIZE(kinds))];
	bool flow = kind >= EV_FLOW_OUT && kind <= EV_FLOW_IN;
	struct event *ev;
	double f;

	ev = rec__event(b, p->thread, kind, some_time(d, p),
			flow                                   ? "job"
			: kind >= EV_ASYNC_BEGIN && roll(d, 2) ? "work"
							       : some_name(d));
	ev->id = roll(d, 5);
	ev->value = roll(d, 5000);
	ev->aux = (uint32_t)roll(d, 2);
	if (kind == EV_COUNTER_F64) {
		f = roll(d, 10) ? (double)roll(d, 1000) / 8 : INFINITY;
		memcpy(&ev->value, &f, sizeof(f));
	}
	ev->cat = rec__id(b, roll(d, 4) ? NULL : "io");
	ev->src = rec__id(b, roll(d, 4) ? NULL : "src/queue.c:5");
	add_args(b, d);
}

struct rec *random_session(uint64_t seed)
{
	struct dice d = { seed * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull };
	struct rec *b = rec__new();
	/* The third process has the first one's pid, later. */
	uint32_t p[3] = { rec__process(b, 100, "server"), rec__process(b, 200, "client"),
			  rec__process(b, 100, "server") };
	struct place at[6];
	uint64_t n;
	size_t i;

	rec__process_info(b, p[0])->ended = MIDDLE;
	rec__process_info(b, p[2])->start = MIDDLE;
	rec__process_info(b, p[1])->cgroup = (char *)(uintptr_t) "/system.slice/\xff client";
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		uint32_t pid = i / 2 == 1 ? 200 : 100;

		at[i].thread = rec__thread(b, p[i / 2], pid + i % 2, i % 2 ? "worker" : "main");
		at[i].from = i / 2 == 2 ? MIDDLE : RANDOM_BEGIN;
		at[i].to = i / 2 == 0 ? MIDDLE : RANDOM_END;
	}
	if (roll(&d, 4)) {
		rec__anchor(b, RANDOM_BEGIN + roll(&d, 2) * 1000, 1700000000000000000ull);
		rec__anchor(b, MIDDLE, 1700000000000500000ull);
		/* Somebody set the clock back. */
		rec__anchor(b, RANDOM_END, 1600000000000000000ull);
	}
	for (n = roll(&d, 400); n--;) {
		const struct place *where = &at[roll(&d, ARRAY_SIZE(at))];

		rec__stream(b, (uint32_t)roll(&d, 3));
		if (roll(&d, 2))
			add_span(b, &d, where);
		else
			add_event(b, &d, where);
	}
	rec__layout(b, 1 + roll(&d, 60), (unsigned int)roll(&d, 4));
	rec__finish_file(b, roll(&d, 5) != 0);
	return b;
}
