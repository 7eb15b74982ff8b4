// SPDX-License-Identifier: Apache-2.0
/* What verbs over a recording have in common: which part of it, and what is missing from it. */
#include "user/cli/cli.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

int option__number(const char *verb, const char *what, const char *text, uint32_t *v)
{
	if (!parse__u32(text, v) && *v)
		return 0;
	return say_usage(verb, "'%s' is no %s", text, what);
}

static int parse_time(const char *verb, const char *text, uint64_t *ns)
{
	if (!parse__duration(text, ns))
		return 0;
	return say_usage(verb, "'%s' is no time (2s, 500ms, 1.5m)", text);
}

int view__option(const char *verb, int key, struct clika_view_opts *v)
{
	switch (key) {
	case CLI_KEY_FROM:
		return parse_time(verb, optarg, &v->from_ns);
	case CLI_KEY_TO:
		return parse_time(verb, optarg, &v->to_ns);
	case CLI_KEY_CAPTURE:
		v->capture = optarg;
		return 0;
	case CLI_KEY_OUTSIDE:
		v->outside_captures = true;
		return 0;
	case 'p':
		return option__number(verb, "process number", optarg, &v->pid);
	case CLI_KEY_TID:
		return option__number(verb, "thread number", optarg, &v->tid);
	case CLI_KEY_NAME:
		v->name = optarg;
		return 0;
	default:
		return -1;
	}
}

int view__check(const char *verb, const struct clika_view_opts *v)
{
	if (v->to_ns && v->from_ns >= v->to_ns)
		return say_usage(verb, "--from must lie before --to");
	return 0;
}

bool path__is_dir(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

void recording__path(const char *given, char *path, size_t n)
{
	snprintf(path, n, "%s%s", given, path__is_dir(given) ? "/recording.clika" : "");
}

bool recording__tell_incomplete(const struct clika_recording *r)
{
	struct clika_recording_info info = { .sz = sizeof(info) };
	char bytes[32];

	clika_recording__info(r, &info);
	if (info.incomplete) {
		format__bytes(bytes, sizeof(bytes), info.trailing_bytes);
		say_warning(
			"the recording is incomplete: its recorder did not finish it; recovered "
			"%llu segments with %llu events, %s after them could not be used",
			(unsigned long long)info.segments, (unsigned long long)info.events, bytes);
	}
	if (info.bad_segments)
		say_warning("%llu segments of the recording are damaged and were left out",
			    (unsigned long long)info.bad_segments);
	return info.incomplete || info.bad_segments;
}

unsigned output__columns(unsigned otherwise)
{
	struct winsize ws;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) || !ws.ws_col)
		return otherwise;
	return ws.ws_col < 60 ? 60 : ws.ws_col > 200 ? 200 : ws.ws_col;
}
