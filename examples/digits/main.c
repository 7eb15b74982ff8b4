/* SPDX-License-Identifier: Apache-2.0 */
#include <clika/markers.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "digits.h"
#include "server.h"

#define ENOUGH_TO_JUDGE 360 /* requests before the accuracy decides the exit status */
#define WANTED_PERCENT 95

static const char help[] =
	"Usage: digits run   [--requests N] [options]   answer N requests and stop\n"
	"       digits serve [--rate R] [options]       answer synthetic clients until stopped\n"
	"\n"
	"An inference server in one process: clients send images of handwritten digits, a batcher\n"
	"collects them, workers run each batch through a small convolutional network. The network\n"
	"and the images (none of them used in training) are part of the program. It is marked\n"
	"throughout with clika/markers.h, so that a recorder has something real to look at:\n"
	"\n"
	"  digits serve --rate 500 &\n"
	"  sudo clika-bpf-prof record -p $! -d 5\n"
	"\n"
	"How work is done\n"
	"  -w, --workers K          threads that compute (default 2)\n"
	"  -b, --batch B            requests in a batch, at most (default 8). Larger batches mean\n"
	"                           more throughput, and a longer wait for the first one in it\n"
	"  -u, --batch-wait-us U    how long a batch waits for more requests (default 2000)\n"
	"  -q, --queue Q            requests that may wait (default 256); `run` then waits for\n"
	"                           room, `serve` turns requests away\n"
	"  -v, --views V            show the network V shifted copies of each image and average\n"
	"                           what it says, 1 to 9 (default 1): V times the work\n"
	"  -s, --seed S             order of the images, times of arrival (default 1)\n"
	"run\n"
	"  -n, --requests N         (default 1000)\n"
	"  -r, --repeat[=R]         R times over (no number: until SIGINT or SIGTERM), and check\n"
	"                           that each pass computes the same bits\n"
	"serve\n"
	"  -R, --rate R             requests a second on average, a Poisson process (default 200)\n"
	"  -S, --seconds S          stop after S seconds (default: at SIGINT or SIGTERM)\n"
	"Looking inside\n"
	"      --capture-from N     open a capture from within, at request N, counted from 0 ...\n"
	"      --capture-to M       ... and close it at request M (default: the end)\n"
	"      --exact              at the end, print how often each thing that is marked was\n"
	"                           done, as one line of JSON, counted without the markers\n"
	"  -h, --help               this text\n"
	"\n"
	"The checksum is over the bits of all results. It depends on images, seed and views, not "
	"on\n"
	"workers, batches, timing, or on being recorded.\n"
	"Exit status: 0; 1 when something failed, passes differed, or fewer than 95 of 100 "
	"answers\n"
	"were right (judged from 360 requests on); 2 for a wrong command line.\n";

enum { OPT_CAPTURE_FROM = 256, OPT_CAPTURE_TO, OPT_EXACT };

static const struct option options[] = {
	{ "requests", required_argument, NULL, 'n' },
	{ "workers", required_argument, NULL, 'w' },
	{ "batch", required_argument, NULL, 'b' },
	{ "batch-wait-us", required_argument, NULL, 'u' },
	{ "queue", required_argument, NULL, 'q' },
	{ "views", required_argument, NULL, 'v' },
	{ "seed", required_argument, NULL, 's' },
	{ "repeat", optional_argument, NULL, 'r' },
	{ "rate", required_argument, NULL, 'R' },
	{ "seconds", required_argument, NULL, 'S' },
	{ "capture-from", required_argument, NULL, OPT_CAPTURE_FROM },
	{ "capture-to", required_argument, NULL, OPT_CAPTURE_TO },
	{ "exact", no_argument, NULL, OPT_EXACT },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct args {
	bool serve, exact;
	bool from_set, to_set;
	uint64_t requests, repeat; /* repeat: 0 = until a signal */
	struct digits_options engine;
	struct serve_opts client;
};

static bool parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *out >= min && *out <= max;
}

static bool parse_u32(const char *text, uint64_t min, uint64_t max, uint32_t *out)
{
	uint64_t value;

	if (!parse_u64(text, min, max, &value))
		return false;
	*out = value;
	return true;
}

static bool parse_f64(const char *text, double min, double max, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return end != text && !*end && *out >= min && *out <= max;
}

static bool parse_option(struct args *a, int c, const char *text)
{
	switch (c) {
	case 'n':
		return parse_u64(text, 1, 1ull << 39, &a->requests);
	case 'w':
		return parse_u32(text, 1, DIGITS_MAX_WORKERS, &a->engine.workers);
	case 'b':
		return parse_u32(text, 1, DIGITS_MAX_BATCH, &a->engine.batch);
	case 'u':
		return parse_u32(text, 0, 60000000, &a->engine.batch_wait_us);
	case 'q':
		return parse_u32(text, 1, 1 << 20, &a->engine.queue);
	case 'v':
		return parse_u32(text, 1, DIGITS_MAX_VIEWS, &a->engine.views);
	case 's':
		return parse_u64(text, 0, UINT64_MAX, &a->client.seed);
	case 'r':
		a->repeat = 0;
		return !text || parse_u64(text, 1, UINT64_MAX, &a->repeat);
	case 'R':
		return parse_f64(text, 0.001, 1e7, &a->client.rate);
	case 'S':
		return parse_f64(text, 0.001, 1e9, &a->client.seconds);
	case OPT_CAPTURE_FROM:
		a->from_set = true;
		return parse_u64(text, 0, UINT64_MAX - 1, &a->engine.capture_from);
	case OPT_CAPTURE_TO:
		a->to_set = true;
		return parse_u64(text, 1, UINT64_MAX, &a->engine.capture_to);
	case OPT_EXACT:
		a->exact = true;
		return true;
	default:
		return false;
	}
}

static const char *option_name(int c)
{
	for (const struct option *o = options; o->name; o++)
		if (o->val == c)
			return o->name;
	return "";
}

/* 0 = go on; else leave with *@status. */
static int parse_args(int argc, char **argv, struct args *a, int *status)
{
	int c;

	*status = 2;
	while ((c = getopt_long(argc, argv, "n:w:b:u:q:v:s:r::R:S:h", options, NULL)) != -1) {
		if (c == 'h') {
			fputs(help, stdout);
			*status = 0;
			return 1;
		}
		if (c == '?')
			return 1;
		if (!parse_option(a, c, optarg)) {
			fprintf(stderr, "digits: --%s: '%s' is not a number it takes\n",
				option_name(c), optarg ? optarg : "");
			return 1;
		}
	}
	if (argc - optind == 1)
		a->serve = strcmp(argv[optind], "serve") == 0;
	if (argc - optind != 1 || (!a->serve && strcmp(argv[optind], "run") != 0)) {
		fprintf(stderr, "digits: say `run` or `serve`; `digits --help` tells more\n");
		return 1;
	}
	if (a->from_set && !a->to_set)
		a->engine.capture_to = UINT64_MAX;
	if (a->engine.capture_to < a->engine.capture_from ||
	    (a->to_set && a->engine.capture_to == a->engine.capture_from)) {
		fprintf(stderr, "digits: --capture-to must be greater than --capture-from\n");
		return 1;
	}
	return 0;
}

/* Says how it went; whether that is good enough. */
static bool report(const struct digits_summary *s)
{
	double seconds = s->elapsed_ns / 1e9;
	double percent = s->requests ? 100.0 * s->right / s->requests : 0;

	printf("right: %llu of %llu (%.2f %%)\n", (unsigned long long)s->right,
	       (unsigned long long)s->requests, percent);
	printf("checksum: %016llx\n", (unsigned long long)s->checksum);
	printf("time: %.3f s, %.0f requests/s\n", seconds, s->requests / seconds);
	fflush(stdout);
	if (s->failed) {
		fprintf(stderr, "digits: %llu requests failed\n", (unsigned long long)s->failed);
		return false;
	}
	if (s->requests >= ENOUGH_TO_JUDGE && percent < WANTED_PERCENT) {
		fprintf(stderr, "digits: fewer than %d of 100 were right\n", WANTED_PERCENT);
		return false;
	}
	return true;
}

static int run(struct digits_engine *e, const struct args *a)
{
	struct timespec none = { 0 };
	struct digits_summary first, s;

	for (uint64_t pass = 0; !a->repeat || pass < a->repeat; pass++) {
		int err = digits_engine__run(e, a->requests, a->client.seed, &s);

		if (err) {
			fprintf(stderr, "digits: %s\n", strerror(-err));
			return 1;
		}
		if (!report(&s))
			return 1;
		if (!pass)
			first = s;
		if (s.checksum != first.checksum || s.right != first.right) {
			fprintf(stderr,
				"digits: pass %llu computed something else than the first\n",
				(unsigned long long)pass + 1);
			return 1;
		}
		if (sigtimedwait(a->client.stop, NULL, &none) > 0)
			break;
	}
	return 0;
}

static int serve(struct digits_engine *e, const struct args *a)
{
	struct serve_summary s;
	int err;

	printf("serving about %g requests/s, pid %d\n", a->client.rate, (int)getpid());
	fflush(stdout);
	err = client__serve(e, &a->client, &s);
	if (s.rejected)
		printf("turned away: %llu\n", (unsigned long long)s.rejected);
	if (err)
		fprintf(stderr, "digits: %s\n", strerror(-err));
	return report(&s.answers) && !err ? 0 : 1;
}

static int print_counts(const struct digits_engine *e)
{
	char text[8192];
	int n = digits_engine__counts(e, text, sizeof(text));

	if (n < 0 || (size_t)n >= sizeof(text))
		return 1;
	fputs(text, stdout);
	return 0;
}

int main(int argc, char **argv)
{
	struct args a = { .requests = 1000, .repeat = 1, .client = { .rate = 200, .seed = 1 } };
	struct digits_engine *e;
	int err, status;
	sigset_t stop;

	digits_options__init(&a.engine);
	a.engine.label = "digits";
	if (parse_args(argc, argv, &a, &status))
		return status;

	/* Blocked before any thread starts, taken with sigtimedwait(): nothing runs in a handler. */
	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &stop, NULL);
	a.client.stop = &stop;

	err = digits_engine__create(&a.engine, &e);
	if (err) {
		fprintf(stderr, "digits: cannot start: %s\n", strerror(-err));
		return 1;
	}
	CLIKA_THREAD_NAME("client");
	tally__add(digits_engine__tally(e), COUNT_THREAD_NAMES, 1);
	status = a.serve ? serve(e, &a) : run(e, &a);
	digits_engine__stop(e);
	if (a.exact && print_counts(e))
		status = 1;
	digits_engine__destroy(e);
	return status;
}
