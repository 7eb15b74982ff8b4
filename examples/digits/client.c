/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "request.h"

/* What came back so far; callbacks of several workers write here. */
struct answers {
	uint32_t order[512]; /* of the images */
	_Atomic uint64_t right, failed, checksum;
};

_Static_assert(sizeof(((struct answers *)0)->order) / sizeof(uint32_t) >= 360, "all images fit");

/* splitmix64: a full-period generator in four lines, good enough to mix hashes with too. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t value = mix(*state);

	*state += 0x9e3779b97f4a7c15u;
	return value;
}

static void answers__init(struct answers *a, uint64_t seed)
{
	uint32_t n = digits_data__count();
	uint64_t state = seed;

	memset(a, 0, sizeof(*a));
	for (uint32_t i = 0; i < n; i++)
		a->order[i] = i;
	for (uint32_t i = n; seed && i > 1; i--) {
		uint32_t j = next_random(&state) % i;
		uint32_t kept = a->order[i - 1];

		a->order[i - 1] = a->order[j];
		a->order[j] = kept;
	}
}

static uint32_t answers__image(const struct answers *a, uint64_t number)
{
	return a->order[number % digits_data__count()];
}

/* A sum over requests of a hash of (number, logits): the same in whatever order they finish. */
static void on_done(void *ctx, const struct digits_result *r)
{
	struct answers *a = ctx;
	uint64_t hash = mix(r->tag);
	uint32_t bits;

	if (r->error) {
		atomic_fetch_add(&a->failed, 1);
		return;
	}
	for (int i = 0; i < DIGITS_CLASSES; i++) {
		memcpy(&bits, &r->logits[i], sizeof(bits));
		hash = mix(hash ^ bits);
	}
	atomic_fetch_add(&a->checksum, hash);
	if (r->digit == digits_data__label(answers__image(a, r->tag)))
		atomic_fetch_add(&a->right, 1);
}

static void answers__sum_up(const struct answers *a, uint64_t requests, uint64_t began,
			    struct digits_summary *out)
{
	out->requests = requests;
	out->right = a->right;
	out->failed = a->failed;
	out->checksum = a->checksum;
	out->elapsed_ns = now_ns() - began;
}

int digits_engine__run(struct digits_engine *e, uint64_t n, uint64_t seed,
		       struct digits_summary *out)
{
	uint64_t began = now_ns();
	struct answers a;
	uint64_t i;
	int err = 0;

	answers__init(&a, seed);
	for (i = 0; i < n && !err; i++)
		err = digits_engine__submit(e, digits_data__pixels(answers__image(&a, i)), i,
					    on_done, &a, NULL);
	/* Also after an error: callbacks of those before it still use what lies on this stack. */
	digits_engine__drain(e);
	answers__sum_up(&a, n, began, out);
	return err;
}

static double next_gap(uint64_t *random, double rate)
{
	double u = (next_random(random) >> 11) * 0x1p-53; /* [0, 1) */

	return -log(1.0 - u) / rate * 1e9;
}

/* Sleeps until @at. The signal that came instead, or 0. */
static int sleep_until(uint64_t at, const sigset_t *stop)
{
	uint64_t now = now_ns();
	uint64_t ns = at > now ? at - now : 0;
	struct timespec t = { .tv_sec = ns / 1000000000u, .tv_nsec = ns % 1000000000u };
	int sig;

	if (!stop) {
		nanosleep(&t, NULL);
		return 0;
	}
	sig = sigtimedwait(stop, NULL, &t);
	return sig > 0 ? sig : 0;
}

int client__serve(struct digits_engine *e, const struct serve_opts *o, struct serve_summary *out)
{
	uint64_t began = now_ns(), end = UINT64_MAX, sent = 0, random = o->seed;
	double next = began;
	struct answers a;
	int err = 0;

	*out = (struct serve_summary){ 0 };
	answers__init(&a, o->seed);
	if (o->seconds > 0)
		end = began + (uint64_t)(o->seconds * 1e9);
	while (!err) {
		next += next_gap(&random, o->rate);
		out->signal = sleep_until(next < end ? next : end, o->stop);
		if (out->signal || now_ns() >= end)
			break;
		err = digits_engine__try_submit(e, digits_data__pixels(answers__image(&a, sent)),
						sent, on_done, &a, NULL);
		if (err == -EAGAIN) {
			out->rejected++;
			err = 0;
		} else if (!err) {
			sent++;
		}
	}
	digits_engine__drain(e);
	answers__sum_up(&a, sent, began, &out->answers);
	return err;
}
