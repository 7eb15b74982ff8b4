// SPDX-License-Identifier: Apache-2.0
#include "tests/common/rec_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MUST(x)                                                                                    \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct built {
	struct event ev;
	struct event_arg args[EVENT_MAX_ARGS];
	uint32_t thread, stream;
	size_t order;
	uint64_t end; /* of an open span, 0 = none */
};

struct rec {
	struct strpool *names;
	struct recording_meta meta;
	struct process_info *processes;
	struct thread_info *threads;
	struct built *events;
	struct capture_info *captures;
	struct clock_anchor *anchors;
	struct loss_info *losses;
	struct warning_info *warnings;
	char **texts;
	size_t n_processes, n_threads, n_events, n_captures, n_anchors, n_losses, n_warnings,
		n_texts;
	struct count_info counts;
	uint32_t stream;
	uint64_t n_open;
	size_t block_events;
	unsigned int seed;
	bool unfinished;
	struct recording *opened;
};

#define APPEND(b, member, n)                                                                       \
	({                                                                                         \
		if (!((b)->n & ((b)->n - 1))) {                                                    \
			size_t cap = (b)->n ? (b)->n * 2 : 1;                                      \
			(b)->member = realloc((b)->member, cap * sizeof(*(b)->member));            \
			MUST((b)->member);                                                         \
		}                                                                                  \
		memset(&(b)->member[(b)->n], 0, sizeof(*(b)->member));                             \
		&(b)->member[(b)->n++];                                                            \
	})

struct rec *rec__new(void)
{
	struct rec *b = calloc(1, sizeof(*b));

	MUST(b);
	b->names = strpool__new(1u << 20, 64u << 20);
	MUST(b->names);
	b->block_events = 1000;
	b->meta = (struct recording_meta){
		.tool = (char *)"clika-bpf-prof",
		.version = (char *)"0.1.0",
		.command = (char *)"clika-bpf-prof record",
		.host = (char *)"test",
		.kernel = (char *)"6.1",
		.arch = (char *)"x86_64",
		.targets = (char *)"pid 100",
		.cpus = 4,
		.page_size = 4096,
		.ram_bytes = 8ull << 30,
	};
	return b;
}

void rec__free(struct rec *b)
{
	size_t i;

	recording__close(b->opened);
	for (i = 0; i < b->n_texts; i++)
		free(b->texts[i]);
	free(b->texts);
	free(b->processes);
	free(b->threads);
	free(b->events);
	free(b->captures);
	free(b->anchors);
	free(b->losses);
	free(b->warnings);
	strpool__free(b->names);
	free(b);
}

static char *keep(struct rec *b, const char *s, size_t len)
{
	char *copy = malloc(len + 1);

	MUST(copy);
	memcpy(copy, s, len);
	copy[len] = '\0';
	*APPEND(b, texts, n_texts) = copy;
	return copy;
}

static char *keep_str(struct rec *b, const char *s)
{
	return s ? keep(b, s, strlen(s)) : NULL;
}

uint32_t rec__process(struct rec *b, uint32_t pid, const char *comm)
{
	struct process_info *p = APPEND(b, processes, n_processes);

	p->pid = p->ns_pid = pid;
	p->ppid = 1;
	p->start = 1000 + pid;
	p->comm = keep_str(b, comm);
	return (uint32_t)b->n_processes - 1;
}

struct process_info *rec__process_info(struct rec *b, uint32_t process)
{
	return &b->processes[process];
}

uint32_t rec__thread(struct rec *b, uint32_t process, uint32_t tid, const char *name)
{
	struct thread_info *t = APPEND(b, threads, n_threads);

	t->process = process;
	t->tid = t->ns_tid = tid;
	t->start = 2000 + tid;
	t->name = keep_str(b, name);
	return (uint32_t)b->n_threads - 1;
}

struct thread_info *rec__thread_info(struct rec *b, uint32_t thread)
{
	return &b->threads[thread];
}

struct recording_meta *rec__meta(struct rec *b)
{
	return &b->meta;
}

uint32_t rec__id(struct rec *b, const char *s)
{
	return s ? strpool__ids(b->names, s) : 0;
}

void rec__stream(struct rec *b, uint32_t stream)
{
	b->stream = stream;
}

struct event *rec__event(struct rec *b, uint32_t thread, uint8_t kind, uint64_t ts,
			 const char *name)
{
	struct built *e = APPEND(b, events, n_events);

	e->thread = thread;
	e->stream = b->stream;
	e->order = b->n_events;
	e->ev.kind = kind;
	e->ev.ts = ts;
	e->ev.name = rec__id(b, name);
	return &e->ev;
}

struct event *rec__span(struct rec *b, uint32_t thread, uint64_t ts, uint64_t dur, const char *name)
{
	struct event *ev = rec__event(b, thread, EV_SPAN, ts, name);

	ev->dur = dur;
	return ev;
}

struct event *rec__open_span(struct rec *b, uint32_t thread, uint64_t ts, uint64_t end,
			     const char *name)
{
	struct event *ev = rec__event(b, thread, EV_SPAN, ts, name);

	ev->flags = EVS_OPEN;
	ev->id = ++b->n_open;
	b->events[b->n_events - 1].end = end;
	return ev;
}

static struct event_arg *arg(struct rec *b, const char *key, uint8_t type)
{
	struct built *e = &b->events[b->n_events - 1];
	struct event_arg *a = &e->args[e->ev.nargs++];

	MUST(e->ev.nargs <= EVENT_MAX_ARGS);
	a->key = rec__id(b, key);
	a->type = type;
	return a;
}

void rec__arg_i64(struct rec *b, const char *key, int64_t v)
{
	arg(b, key, ARG_I64)->i = v;
}

void rec__arg_u64(struct rec *b, const char *key, uint64_t v)
{
	arg(b, key, ARG_U64)->u = v;
}

void rec__arg_f64(struct rec *b, const char *key, double v)
{
	arg(b, key, ARG_F64)->f = v;
}

void rec__arg_str(struct rec *b, const char *key, const char *s, size_t len)
{
	struct event_arg *a = arg(b, key, ARG_STR);

	a->str = keep(b, s, len);
	a->len = (uint16_t)len;
}

void rec__capture(struct rec *b, uint64_t begin, uint64_t end, const char *tag)
{
	struct capture_info *c = APPEND(b, captures, n_captures);

	c->id = b->n_captures;
	c->process = UINT32_MAX;
	c->begin = begin;
	c->end = end;
	c->tag = keep_str(b, tag);
}

struct capture_info *rec__capture_info(struct rec *b, size_t i)
{
	return &b->captures[i];
}

void rec__anchor(struct rec *b, uint64_t boottime, uint64_t realtime)
{
	struct clock_anchor *a = APPEND(b, anchors, n_anchors);

	a->boottime = a->monotonic = a->monotonic_raw = a->monotonic_coarse = boottime;
	a->realtime = realtime;
}

void rec__loss(struct rec *b, uint16_t cause, uint64_t records, uint64_t at_most)
{
	struct loss_info *l = APPEND(b, losses, n_losses);

	l->process = UINT32_MAX;
	l->cpu = -1;
	l->cause = cause;
	l->records = records;
	l->at_most = at_most;
}

struct loss_info *rec__loss_info(struct rec *b, size_t i)
{
	return &b->losses[i];
}

void rec__counts(struct rec *b, const struct count_info *c)
{
	b->counts = *c;
}

void rec__warning(struct rec *b, const char *code, const char *text)
{
	struct warning_info *w = APPEND(b, warnings, n_warnings);

	w->code = keep_str(b, code);
	w->text = keep_str(b, text);
}

void rec__layout(struct rec *b, size_t block_events, unsigned int seed)
{
	b->block_events = block_events;
	b->seed = seed;
}

bool rec__finish_file(struct rec *b, bool finish)
{
	b->unfinished = !finish;
	return finish;
}

/* --- writing --------------------------------------------------------------------------------- */

static int by_stream(const void *x, const void *y)
{
	const struct built *a = *(const struct built *const *)x,
			   *b = *(const struct built *const *)y;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	if (a->ev.ts != b->ev.ts)
		return a->ev.ts < b->ev.ts ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

struct chunk { /* a block to be */
	size_t from, n;
	uint32_t thread, stream;
};

static unsigned int next_random(unsigned int *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return *seed >> 8;
}

/* The blocks of one stream keep their order; between streams any order is right. */
static void mix_chunks(struct chunk *c, size_t n, unsigned int seed)
{
	size_t i, round;

	for (round = 0; seed && round < 8; round++) {
		for (i = 0; i + 1 < n; i++) {
			struct chunk t = c[i];

			if ((t.thread == c[i + 1].thread && t.stream == c[i + 1].stream) ||
			    next_random(&seed) & 1)
				continue;
			c[i] = c[i + 1];
			c[i + 1] = t;
		}
	}
}

static void write_chunks(struct rec *b, struct recording_writer *w, const uint32_t *thread_at)
{
	struct built **sorted = calloc(b->n_events + 1, sizeof(*sorted));
	struct chunk *chunks = calloc(b->n_events + 1, sizeof(*chunks)), *c = NULL;
	struct event *events = calloc(b->n_events + 1, sizeof(*events));
	size_t i, j, n = 0;

	MUST(sorted && chunks && events);
	for (i = 0; i < b->n_events; i++)
		sorted[i] = &b->events[i];
	qsort(sorted, b->n_events, sizeof(*sorted), by_stream);
	for (i = 0; i < b->n_events; i++) {
		if (!c || c->n == b->block_events || c->thread != sorted[i]->thread ||
		    c->stream != sorted[i]->stream) {
			c = &chunks[n++];
			*c = (struct chunk){ i, 0, sorted[i]->thread, sorted[i]->stream };
		}
		c->n++;
	}
	mix_chunks(chunks, n, b->seed);
	for (i = 0; i < n; i++) {
		c = &chunks[i];
		for (j = 0; j < c->n; j++) {
			events[j] = sorted[c->from + j]->ev;
			events[j].args = sorted[c->from + j]->args;
		}
		MUST(!writer__block(w, thread_at[c->thread], c->stream, events, c->n, NULL, 0));
	}
	for (i = 0; i < b->n_events; i++) {
		struct span_end end = { .open_id = b->events[i].ev.id, .ts = b->events[i].end };

		if (!(b->events[i].ev.flags & EVS_OPEN) || !end.ts)
			continue;
		MUST(!writer__block(w, thread_at[b->events[i].thread], b->events[i].stream, NULL, 0,
				    &end, 1));
	}
	free(sorted);
	free(chunks);
	free(events);
}

/* Indexes as written, so that a seed can change the order in which things turn up. */
static uint32_t *shuffled(size_t n, unsigned int seed)
{
	uint32_t *order = calloc(n + 1, sizeof(*order)), t;
	size_t i, k;

	MUST(order);
	for (i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (i = n; seed && i > 1; i--) {
		k = next_random(&seed) % i;
		t = order[i - 1];
		order[i - 1] = order[k];
		order[k] = t;
	}
	return order;
}

static void write_definitions(struct rec *b, struct recording_writer *w, uint32_t *thread_at)
{
	uint32_t *po = shuffled(b->n_processes, b->seed), *to = shuffled(b->n_threads, b->seed);
	uint32_t *process_at = calloc(b->n_processes + 1, sizeof(*process_at));
	struct thread_info t;
	size_t i;

	MUST(process_at);
	for (i = 0; i < b->n_processes; i++)
		MUST(!writer__add_process(w, &b->processes[po[i]], &process_at[po[i]]));
	for (i = 0; i < b->n_threads; i++) {
		t = b->threads[to[i]];
		t.process = process_at[t.process];
		MUST(!writer__add_thread(w, &t, &thread_at[to[i]]));
	}
	for (i = 0; i < b->n_captures; i++)
		MUST(!writer__capture(w, &b->captures[i]));
	for (i = 0; i < b->n_anchors; i++)
		MUST(!writer__anchor(w, &b->anchors[i]));
	for (i = 0; i < b->n_losses; i++)
		MUST(!writer__loss(w, &b->losses[i]));
	for (i = 0; i < b->n_warnings; i++)
		MUST(!writer__warning(w, b->warnings[i].code, b->warnings[i].text));
	MUST(!writer__counts(w, &b->counts));
	free(po);
	free(to);
	free(process_at);
}

int rec__write(struct rec *b, const char *path)
{
	struct writer_opts o = { .owner = (uid_t)-1, .group = (gid_t)-1 };
	uint32_t *thread_at = calloc(b->n_threads + 1, sizeof(*thread_at));
	struct recording_writer *w;
	struct clika_error err = { 0 };
	int fd = -1;

	MUST(thread_at);
	if (path) {
		MUST(!writer__create(path, &b->meta, b->names, &o, &w, &err));
	} else {
		fd = memfd_create("recording", MFD_CLOEXEC);
		MUST(fd >= 0);
		MUST(!writer__create_fd(dup(fd), &b->meta, b->names, &o, &w, &err));
	}
	write_definitions(b, w, thread_at);
	write_chunks(b, w, thread_at);
	if (b->unfinished) {
		MUST(!writer__flush(w));
		writer__abort(w);
	} else {
		MUST(!writer__finish(w, &err));
	}
	free(thread_at);
	return fd;
}

struct recording *rec__open(struct rec *b)
{
	struct clika_error err = { 0 };
	int fd = rec__write(b, NULL), code;

	recording__close(b->opened);
	b->opened = NULL;
	code = recording__open_fd(fd, &b->opened, &err);
	if (code)
		fprintf(stderr, "%s\n", err.msg);
	MUST(!code);
	close(fd);
	return b->opened;
}
