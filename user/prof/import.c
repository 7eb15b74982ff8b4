// SPDX-License-Identifier: Apache-2.0
/*
 * Traces of other profilers as tracks of a recording: Chrome-style JSON, as PyTorch's (Kineto's)
 * and ONNX Runtime's profilers write it. Read twice: once for clocks, names and tracks, once for
 * events, which are sorted piece by piece; the pieces become streams, and readers merge those.
 */
#include "user/prof/import.h"

#include "user/prof/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Numbers of microseconds above this are wall-clock times: 2001 and later. */
#define EPOCH_US 1000000000000000ll
/* A base of less than that is none. */
#define MIN_BASE_NS 1000000000000000000ull
#define PID_MAX 4194304u
/* Above every number that a kernel gives. */
#define MADE_UP 5000000u

bool import__is_trace(const char *path)
{
	gzFile z = gzopen(path, "rbe");
	char c = 0;

	if (!z)
		return false;
	while (gzread(z, &c, 1) == 1 && (c == ' ' || c == '\t' || c == '\n' || c == '\r'))
		;
	gzclose(z);
	return c == '{' || c == '[';
}

/* --- tracks ----------------------------------------------------------------------------------- */

static uint64_t text_hash(struct json_text t, uint64_t seed)
{
	return hash__bytes(t.p ? t.p : "", t.p ? (size_t)(t.end - t.p) : 0, seed);
}

static bool text_is(struct json_text t, const char *s)
{
	return t.p && (size_t)(t.end - t.p) == strlen(s) && !memcmp(t.p, s, strlen(s));
}

static char *text_copy(struct json_text t)
{
	return t.p ? strndup(t.p, (size_t)(t.end - t.p)) : strdup("");
}

/* -EBADMSG: more than there can be rows for. */
static int find_track(struct import *im, struct json_text pid, struct json_text tid,
		      struct import_track **out)
{
	uint64_t key = hash__mix(text_hash(pid, 1), text_hash(tid, 2));
	uint64_t *at = map64__get(im->track_at, key);
	struct import_track *t;

	if (at) {
		*out = &im->tracks[*at];
		return 0;
	}
	if (im->n_tracks == IMPORT_MAX_TRACKS)
		return -EBADMSG;
	t = &im->tracks[im->n_tracks];
	*t = (struct import_track){ .pid = text_copy(pid), .tid = text_copy(tid) };
	if (!t->pid || !t->tid || !map64__put(im->track_at, key, im->n_tracks))
		return -ENOMEM;
	im->n_tracks++;
	*out = t;
	return 0;
}

/* A pid or tid as the kernel gives them; 0: it is something else. */
static uint32_t kernel_number(const char *text)
{
	char *end;
	unsigned long v;

	if (*text < '1' || *text > '9')
		return 0;
	v = strtoul(text, &end, 10);
	return *end || v > PID_MAX ? 0 : (uint32_t)v;
}

/* Without the quotes of a JSON string. */
static const char *plain(const char *text, int *len)
{
	*len = (int)strlen(text);
	if (*len < 2 || *text != '"')
		return text;
	*len -= 2;
	return text + 1;
}

/* --- first reading ---------------------------------------------------------------------------- */

static int member(void *ctx, const char *key, struct json_text value)
{
	struct import *im = ctx;
	char text[32];

	if (!strcmp(key, "baseTimeNanoseconds")) {
		snprintf(text, sizeof(text), "%.*s", (int)(value.end - value.p), value.p);
		im->base = strtoull(text, NULL, 10);
	} else if (!strcmp(key, "schemaVersion") || !strcmp(key, "deviceProperties") ||
		   !strcmp(key, "traceName")) {
		im->kineto = true;
	}
	return 0;
}

static int set_name(char **to, const cJSON *args)
{
	const cJSON *name = cJSON_GetObjectItemCaseSensitive(args, "name");

	if (!cJSON_IsString(name) || !*name->valuestring)
		return 0;
	free(*to);
	*to = strdup(name->valuestring);
	return *to ? 0 : -ENOMEM;
}

/* Names of threads and processes; a process's name is kept with each of its tracks that follow,
 * so it is looked for by pid afterwards. */
static int metadata(struct import *im, struct json_text event)
{
	struct json_text args = json_text__member(event, "args"),
			 what = json_text__member(event, "name");
	struct import_track *t;
	cJSON *tree;
	bool process;
	int err;

	process = text_is(what, "\"process_name\"");
	if (!process && !text_is(what, "\"thread_name\""))
		return 0;
	err = find_track(im, json_text__member(event, "pid"),
			 process ? (struct json_text){ 0 } : json_text__member(event, "tid"), &t);
	if (err)
		return err == -EBADMSG ? 0 : err;
	tree = args.p ? cJSON_ParseWithLength(args.p, (size_t)(args.end - args.p)) : NULL;
	err = set_name(&t->name, tree);
	t->is_process = t->is_process || process;
	cJSON_Delete(tree);
	return err;
}

static bool is_phase(struct json_text ph, const char *letters)
{
	return ph.p && ph.end - ph.p == 3 && strchr(letters, ph.p[1]);
}

static int survey(void *ctx, struct json_text event)
{
	struct import *im = ctx;
	struct json_text ph = json_text__member(event, "ph");
	struct import_track *t;
	int64_t ts, dur = 0;
	int err;

	if (is_phase(ph, "M"))
		return metadata(im, event);
	if (!is_phase(ph, IMPORT_PHASES) || !trace_scan__us(json_text__member(event, "ts"), &ts) ||
	    (is_phase(ph, "X") &&
	     (!trace_scan__us(json_text__member(event, "dur"), &dur) || dur < 0)) ||
	    __builtin_add_overflow(ts, dur, &dur)) {
		im->left_out++;
		return 0;
	}
	err = find_track(im, json_text__member(event, "pid"), json_text__member(event, "tid"), &t);
	if (err)
		return err == -EBADMSG ? error__set(im->err, err, "%s has more than %u tracks",
						    im->path, IMPORT_MAX_TRACKS)
				       : err;
	if (text_is(json_text__member(event, "cat"), "\"Session\""))
		im->onnx = true;
	t->events++;
	im->first = ts < im->first ? ts : im->first;
	im->last = dur > im->last ? dur : im->last;
	im->events++;
	return 0;
}

/* --- clocks ----------------------------------------------------------------------------------- */

static int no_clock(const struct import *im, struct clika_error *err)
{
	return error__set(err, -EINVAL,
			  "%s does not say when it was made: its times count from the start of "
			  "the profiler. Say when its first event was: --at "
			  "FILE=2026-11-30T12:00:00.5Z, FILE=name for the time in an ONNX "
			  "Runtime file's name, FILE=mtime when it lies as it was written",
			  im->path);
}

/* The moment of the first event, in the clock of the result. */
static int find_begin(struct import *im, const struct clika_merge_input *from, uint64_t *ts,
		      struct clika_error *err)
{
	const struct merge *m = im->m;
	uint64_t length = (uint64_t)(im->last - im->first), wall;
	struct stat st;

	switch (from->at) {
	case CLIKA_AT_OFFSET:
		*ts = m->begin + from->at_ns;
		return 0;
	case CLIKA_AT_REALTIME:
		wall = from->at_ns;
		break;
	case CLIKA_AT_MTIME:
		if (stat(im->path, &st))
			return error__set(err, -errno, "%s: %s", im->path, strerror(errno));
		wall = (uint64_t)st.st_mtim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_mtim.tv_nsec;
		if (wall < length)
			return no_clock(im, err);
		wall -= length;
		break;
	default:
		if (im->base >= MIN_BASE_NS && im->first >= 0)
			wall = im->base + (uint64_t)im->first;
		else if (im->first >= EPOCH_US * 1000)
			wall = (uint64_t)im->first;
		else
			return no_clock(im, err);
	}
	return merge__from_realtime(m, im->path, wall, ts, err);
}

static int align(struct import *im, const struct clika_merge_input *from, struct clika_error *err)
{
	const struct merge *m = im->m;
	uint64_t length = (uint64_t)(im->last - im->first), begin = 0;
	int code = find_begin(im, from, &begin, err);

	if (code)
		return code;
	if (begin + length < begin || begin + length > INT64_MAX)
		return error__set(err, -ERANGE, "the times of %s are out of range", im->path);
	im->begin = begin;
	im->end = begin + length;
	if (im->end < m->begin || im->begin > m->end)
		merge__note(m, "%s lies %.3f s %s the recordings: was it made at that time?",
			    im->path,
			    (double)(im->end < m->begin ? m->begin - im->end : im->begin - m->end) /
				    1e9,
			    im->end < m->begin ? "before" : "behind");
	if (from->at == CLIKA_AT_MTIME)
		merge__note(m,
			    "%s is placed by the time it was last written: that may be off by as "
			    "long as writing it took",
			    im->path);
	return 0;
}

/* --- the process that stands for the file ------------------------------------------------------ */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The name that the metadata gives a pid, NULL = none. */
static const char *process_name(const struct import *im, const char *pid)
{
	size_t i;

	for (i = 0; i < im->n_tracks; i++)
		if (im->tracks[i].is_process && !strcmp(im->tracks[i].pid, pid))
			return im->tracks[i].name;
	return NULL;
}

/* Most events of a profile are of the process that was profiled; the others are devices. */
static const char *main_pid(const struct import *im)
{
	uint64_t most = 0, n;
	const char *pid = NULL;
	size_t i, k;

	for (i = 0; i < im->n_tracks; i++) {
		if (!kernel_number(im->tracks[i].pid))
			continue;
		for (k = 0, n = 0; k < im->n_tracks; k++)
			if (!strcmp(im->tracks[k].pid, im->tracks[i].pid))
				n += im->tracks[k].events;
		if (n > most) {
			most = n;
			pid = im->tracks[i].pid;
		}
	}
	return pid;
}

static int add_thread(struct import *im, struct import_track *t, const char *main)
{
	const char *process, *pid, *tid;
	struct thread_info info = { .process = im->process, .start = im->begin };
	uint32_t number = kernel_number(t->tid);
	int pid_len, tid_len, n, err;
	char *name = NULL;

	pid = plain(t->pid, &pid_len);
	tid = plain(t->tid, &tid_len);
	process = process_name(im, t->pid);
	if (main && !strcmp(t->pid, main)) {
		n = t->name ? asprintf(&name, "%s", t->name)
			    : asprintf(&name, "thread %.*s", tid_len, tid);
		info.tid = number;
	} else if (process) {
		n = asprintf(&name, "%s %.*s: %.*s", process, pid_len, pid, t->name ? 200 : tid_len,
			     t->name ? t->name : tid);
	} else {
		n = asprintf(&name, "%.*s: %.*s", pid_len, pid, t->name ? 200 : tid_len,
			     t->name ? t->name : tid);
	}
	if (n < 0)
		return -ENOMEM;
	if (!info.tid)
		info.tid = MADE_UP + (uint32_t)(t - im->tracks);
	info.ns_tid = info.tid;
	info.name = name;
	err = writer__add_thread(im->m->w, &info, &t->thread);
	free(name);
	im->m->result.threads++;
	return err;
}

static int add_people(struct import *im)
{
	const char *main = main_pid(im), *name = main ? process_name(im, main) : NULL;
	struct process_info p = { 0 };
	char *label = NULL, *comm = NULL;
	size_t i;
	int err;

	if (asprintf(&label, "%s: %s", import__kind(im), base_name(im->path)) < 0 ||
	    !(comm = strdup(name ? name : import__kind(im)))) {
		free(label);
		return -ENOMEM;
	}
	p.pid = main ? kernel_number(main) : MADE_UP + im->m->result.traces;
	p.ns_pid = p.pid;
	p.uid = UINT32_MAX;
	/* As if it had begun here: a recorded process of that number began earlier, and keeps it. */
	p.start = p.first_seen = im->begin;
	p.comm = comm;
	p.label = label;
	err = writer__add_process(im->m->w, &p, &im->process);
	for (i = 0; !err && i < im->n_tracks; i++)
		if (im->tracks[i].events)
			err = add_thread(im, &im->tracks[i], main);
	free(label);
	free(comm);
	return err;
}

/* It has a window of its own, as everything else in a merged recording has. */
static int add_surroundings(struct import *im)
{
	struct capture_info c = { .id = ++im->m->next_capture,
				  .process = UINT32_MAX,
				  .begin = im->begin,
				  .end = im->end + 1,
				  .tag = (char[]){ "imported" } };
	int err = writer__capture(im->m->w, &c);

	return err ? err : merge__put_edges(im->m, im->begin, im->end);
}

/* --- all of it -------------------------------------------------------------------------------- */

const char *import__kind(const struct import *im)
{
	return im->kineto ? "Kineto" : im->onnx ? "ONNX Runtime" : "trace";
}

struct import_track *import__track(struct import *im, struct json_text pid, struct json_text tid)
{
	uint64_t key = hash__mix(text_hash(pid, 1), text_hash(tid, 2));
	uint64_t *at = map64__get(im->track_at, key);

	return at ? &im->tracks[*at] : NULL;
}

static int first_reading(struct import *im, struct clika_error *err)
{
	struct trace_scan scan = { .event = survey, .member = member, .ctx = im };
	int code;

	im->first = INT64_MAX;
	im->last = INT64_MIN;
	im->err = err;
	code = trace_scan__file(&scan, im->path, err);
	if (code)
		return code;
	im->left_out += scan.large;
	if (scan.cut && !scan.array)
		return error__set(err, -EBADMSG, "%s is cut off: it has no end", im->path);
	if (scan.cut)
		merge__note(im->m, "%s is cut off: what is there was taken", im->path);
	if (!im->events)
		return error__set(err, -EBADMSG, "%s holds no events that can be taken", im->path);
	return 0;
}

static void import__free(struct import *im)
{
	size_t i;

	for (i = 0; i < im->n_tracks; i++) {
		free(im->tracks[i].pid);
		free(im->tracks[i].tid);
		free(im->tracks[i].name);
	}
	free(im->tracks);
	map64__free(im->track_at);
}

int import__trace(struct merge *m, const struct clika_merge_input *from, struct clika_error *err)
{
	struct import im = { .m = m,
			     .path = from->path,
			     .tracks = calloc(IMPORT_MAX_TRACKS, sizeof(*im.tracks)),
			     .track_at = map64__new() };
	int code = im.tracks && im.track_at ? first_reading(&im, err) : -ENOMEM;

	if (!code)
		code = align(&im, from, err);
	if (!code)
		code = add_people(&im);
	if (!code)
		code = add_surroundings(&im);
	if (!code)
		code = import__events(&im, err);
	if (!code) {
		m->result.traces++;
		m->result.left_out += im.left_out;
		m->begin = im.begin < m->begin ? im.begin : m->begin;
		m->end = im.end > m->end ? im.end : m->end;
	}
	import__free(&im);
	return code;
}
