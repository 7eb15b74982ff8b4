// SPDX-License-Identifier: Apache-2.0
#include "user/cli/record.h"

#include <time.h>
#include <unistd.h>

#define REDRAW_NS 200000000ull
#define RATE_NS 1000000000ull

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void status_line__init(struct status_line *s, bool wanted)
{
	*s = (struct status_line){ .active = wanted && isatty(STDERR_FILENO) };
}

void status_line__erase(struct status_line *s)
{
	if (s->shown)
		fputs("\r\033[K", stderr);
	s->shown = false;
}

void status_line__note(struct status_line *s, const char *text)
{
	if (!s->active)
		return;
	fprintf(stderr, "\r%s\033[K", text);
	s->shown = true;
}

static void update_rate(struct status_line *s, uint64_t now, const struct clika_recorder_stats *st)
{
	if (!s->rate_ns || st->spans < s->rate_spans) {
		s->rate_ns = now;
		s->rate_spans = st->spans;
	} else if (now - s->rate_ns >= RATE_NS) {
		s->spans_per_s =
			(double)(st->spans - s->rate_spans) * 1e9 / (double)(now - s->rate_ns);
		s->rate_ns = now;
		s->rate_spans = st->spans;
	} else if (st->elapsed_ns && st->elapsed_ns < RATE_NS) {
		s->spans_per_s = (double)st->spans * 1e9 / (double)st->elapsed_ns;
	}
}

void status_line__update(struct status_line *s, const struct clika_recorder_stats *st)
{
	char elapsed[32], rate[32], lost[32], bytes[32], off[48] = "", line[256];
	uint64_t now = now_ns();

	if (!s->active)
		return;
	update_rate(s, now, st);
	if (s->shown && now - s->last_ns < REDRAW_NS)
		return;
	s->last_ns = now;
	if (st->elapsed_ns < 60000000000ull)
		snprintf(elapsed, sizeof(elapsed), "%.1f s", (double)st->elapsed_ns / 1e9);
	else
		format__duration(elapsed, sizeof(elapsed), st->elapsed_ns);
	format__count(rate, sizeof(rate), (uint64_t)s->spans_per_s);
	format__count(lost, sizeof(lost), st->lost);
	format__bytes(bytes, sizeof(bytes), st->file_bytes);
	if (st->functions_off)
		snprintf(off, sizeof(off), "  %u probes off (budget)", st->functions_off);
	snprintf(line, sizeof(line), "%s %s  %s spans/s  %s lost  %s  %u process%s%s",
		 st->capture_open ? "recording" : "waiting for --delay", elapsed, rate, lost, bytes,
		 st->processes, st->processes == 1 ? "" : "es", off);
	status_line__note(s, line);
}
