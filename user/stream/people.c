// SPDX-License-Identifier: Apache-2.0
#include "user/stream/people.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/proc.h"

#define MAX_THREAD_BUFFERS 64

struct people {
	struct people_opts o;
	struct map64 *by_tgid;   /* tgid -> struct person_process * (newest image first) */
	struct map64 *by_thread; /* hash of identity -> struct person_thread *, chained by check */
	struct person_thread *all;
	size_t n_processes, n_threads;
	/* The same thread comes again and again: one look before the map. */
	struct person_thread *last;
};

struct people *people__new(const struct people_opts *o)
{
	struct people *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->o = *o;
	p->by_tgid = map64__new();
	p->by_thread = map64__new();
	if (!p->by_tgid || !p->by_thread) {
		people__free(p);
		return NULL;
	}
	return p;
}

void person_thread__drop_frame(struct person_thread *th, struct chain_env *env)
{
	struct call_frame *fr = &th->frames[--th->n_frames];

	env->frame_bytes -= fr->data_bytes;
	free(fr->data);
}

static void thread__free(struct people *p, struct person_thread *th)
{
	struct thread_buffer *b, *next;

	for (b = th->buffers; b; b = next) {
		next = b->next;
		chain__free(b->chain);
		free(b);
	}
	chain__free(th->hits);
	chain__free(th->calls);
	while (th->n_frames)
		person_thread__drop_frame(th, p->o.env);
	free(th->frames);
	if (th->prev_all) {
		*th->prev_all = th->next_all;
		if (th->next_all)
			th->next_all->prev_all = th->prev_all;
	}
	if (p->last == th)
		p->last = NULL;
	free(th->info.name);
	free(th);
}

static void process__free(struct people *p, struct person_process *proc)
{
	struct person_thread *th, *next;

	for (th = proc->threads; th; th = next) {
		next = th->next;
		thread__free(p, th);
	}
	free(proc->info.comm);
	free(proc->info.exe);
	free(proc->info.cmdline);
	free(proc->info.cgroup);
	free(proc->info.container);
	free(proc->info.label);
	free(proc->objects);
	free(proc);
}

void people__free(struct people *p)
{
	struct person_process *proc, *next;
	uint64_t key, *value;
	size_t it = 0;

	if (!p)
		return;
	while (p->by_tgid && map64__next(p->by_tgid, &it, &key, &value)) {
		for (proc = (void *)(uintptr_t)*value; proc; proc = next) {
			next = proc->next_same_tgid;
			process__free(p, proc);
		}
	}
	map64__free(p->by_tgid);
	map64__free(p->by_thread);
	free(p);
}

static struct person_process *first_of(const struct people *p, uint32_t tgid)
{
	uint64_t *v = map64__get(p->by_tgid, tgid);

	return v ? (void *)(uintptr_t)*v : NULL;
}

struct person_process *people__find_process(struct people *p, const struct wire_task *t)
{
	struct person_process *proc = first_of(p, t->tgid);

	while (proc && (proc->start != t->start || proc->exec_gen != t->exec_gen))
		proc = proc->next_same_tgid;
	return proc;
}

struct person_process *people__newest(struct people *p, uint32_t tgid, uint64_t start)
{
	struct person_process *proc = first_of(p, tgid);

	while (proc && start && proc->start != start)
		proc = proc->next_same_tgid;
	return proc;
}

/* A process that has just ended still has files in /proc, but they are empty. */
static char *dup_some(const char *s, size_t max)
{
	return s && *s ? strndup(s, max) : NULL;
}

/* argv as it lies in memory becomes a line. */
static char *args_line(const struct wire_process *wp)
{
	uint32_t len = wp->args_len > sizeof(wp->args) ? sizeof(wp->args) : wp->args_len;
	char *line;

	while (len && !wp->args[len - 1])
		len--;
	if (!len)
		return NULL;
	line = malloc(len + 1);
	if (!line)
		return NULL;
	for (uint32_t i = 0; i < len; i++)
		line[i] = wp->args[i] ? wp->args[i] : ' ';
	line[len] = 0;
	return line;
}

static void replace(char **to, char *from)
{
	if (!from)
		return;
	free(*to);
	*to = from;
}

static void process__from_wire(struct people *p, struct person_process *proc,
			       const struct wire_process *wp)
{
	proc->lpid = wp->lpid;
	proc->clock_ahead = wp->clock_ahead;
	proc->args_at = wp->args_at;
	proc->info.ppid = wp->ptgid;
	proc->info.uid = wp->uid;
	proc->info.ns_pid = wp->ns_pid;
	replace(&proc->info.comm, strndup(wp->comm, sizeof(wp->comm)));
	if (!p->o.redact)
		replace(&proc->info.cmdline, args_line(wp));
}

/* Nothing in /proc tells images of one process apart by number, but each has its arguments elsewhere. */
static bool is_another_image(const struct person_process *proc)
{
	struct proc_stat st;

	return proc->args_at && !proc__stat(proc->lpid, &st) && st.args_at &&
	       (uint32_t)st.args_at != proc->args_at;
}

/* While the process lives /proc knows more; the image must still be the same one. */
static void process__from_proc(struct people *p, struct person_process *proc)
{
	struct proc_details d;

	proc->detailed = true;
	if (!proc->lpid || proc__details(proc->lpid, &d))
		return;
	/* Asked after the reading, so that no exec can come between. */
	if (is_another_image(proc)) {
		replace(&proc->info.cgroup, dup_some(d.cgroup, 4096));
		replace(&proc->info.container, dup_some(d.container, 256));
		proc_details__free(&d);
		return;
	}
	proc->info.uid = d.uid;
	if (d.ns_pid)
		proc->info.ns_pid = d.ns_pid;
	replace(&proc->info.comm, dup_some(d.comm, 64));
	replace(&proc->info.exe, dup_some(d.exe, 4096));
	if (!p->o.redact)
		replace(&proc->info.cmdline, dup_some(d.cmdline, 4096));
	replace(&proc->info.cgroup, dup_some(d.cgroup, 4096));
	replace(&proc->info.container, dup_some(d.container, 256));
	proc_details__free(&d);
}

struct person_process *people__process(struct people *p, const struct wire_task *t,
				       const struct wire_process *wp)
{
	struct person_process *proc = people__find_process(p, t), *first;

	if (proc) {
		/* This alone /proc does not know better. */
		if (wp)
			proc->clock_ahead = wp->clock_ahead;
		if (wp && !proc->detailed)
			process__from_wire(p, proc, wp);
		return proc;
	}
	proc = calloc(1, sizeof(*proc));
	if (!proc)
		return NULL;
	proc->tgid = t->tgid;
	proc->start = t->start;
	proc->exec_gen = t->exec_gen;
	proc->index = UINT32_MAX;
	proc->lpid = t->tgid; /* right outside of pid namespaces; a wire_process tells better */
	proc->info.pid = t->tgid;
	proc->info.ns_pid = t->tgid;
	proc->info.start = t->start;
	proc->info.exec_gen = t->exec_gen;
	proc->info.first_seen = clock__boottime_ns();
	if (wp)
		process__from_wire(p, proc, wp);
	first = first_of(p, t->tgid);
	proc->next_same_tgid = first;
	if (!map64__put(p->by_tgid, t->tgid, (uintptr_t)proc)) {
		free(proc);
		return NULL;
	}
	return proc;
}

void people__look(struct people *p, struct person_process *proc)
{
	if (!proc->detailed && !proc->ended)
		process__from_proc(p, proc);
}

uint32_t people__index(struct people *p, struct person_process *proc)
{
	int ret;

	if (proc->index != UINT32_MAX)
		return proc->index;
	people__look(p, proc);
	ret = writer__add_process(p->o.w, &proc->info, &proc->index);
	p->n_processes++;
	if (ret && !p->o.env->err)
		p->o.env->err = ret;
	return proc->index;
}

static uint64_t thread_key(const struct wire_task *t)
{
	return hash__mix(hash__mix(((uint64_t)t->tgid << 32) | t->tid, t->start),
			 hash__mix(t->tstart, t->exec_gen));
}

static bool thread__is(const struct person_thread *th, const struct wire_task *t)
{
	return th->tid == t->tid && th->start == t->tstart && th->process->tgid == t->tgid &&
	       th->process->start == t->start && th->process->exec_gen == t->exec_gen;
}

struct person_thread *people__find_thread(struct people *p, const struct wire_task *t)
{
	uint64_t *v;

	if (p->last && thread__is(p->last, t))
		return p->last;
	v = map64__get(p->by_thread, thread_key(t));
	if (!v || !thread__is((void *)(uintptr_t)*v, t))
		return NULL;
	p->last = (void *)(uintptr_t)*v;
	return p->last;
}

struct person_thread *people__thread(struct people *p, const struct wire_task *t, const char *comm)
{
	struct person_thread *th = people__find_thread(p, t);
	struct person_process *proc;
	char name[64];
	int ret;

	if (th)
		return th;
	proc = people__process(p, t, NULL);
	if (!proc)
		return NULL;
	th = calloc(1, sizeof(*th));
	if (!th)
		return NULL;
	th->tid = t->tid;
	th->ns_tid = t->tid;
	th->start = t->tstart;
	th->process = proc;
	th->info.process = people__index(p, proc);
	th->info.tid = t->tid;
	th->info.ns_tid = t->tid;
	th->info.start = t->tstart;
	if (comm && *comm)
		th->info.name = strndup(comm, 16);
	else if (proc->lpid && !proc__thread_name(proc->lpid, t->tid, name))
		th->info.name = strdup(name);
	ret = writer__add_thread(p->o.w, &th->info, &th->index);
	if (ret && !p->o.env->err)
		p->o.env->err = ret;
	if (!map64__put(p->by_thread, thread_key(t), (uintptr_t)th)) {
		free(th->info.name);
		free(th);
		return NULL;
	}
	th->next = proc->threads;
	proc->threads = th;
	proc->alive_threads++;
	th->next_all = p->all;
	if (p->all)
		p->all->prev_all = &th->next_all;
	th->prev_all = &p->all;
	p->all = th;
	p->n_threads++;
	p->last = th;
	return th;
}

bool people__add_object(struct person_process *proc, uint64_t addr, uint32_t file)
{
	struct marked_object *more;

	for (unsigned i = 0; i < proc->n_objects; i++)
		if (proc->objects[i].addr == addr)
			return false;
	more = realloc(proc->objects, (proc->n_objects + 1) * sizeof(*more));
	if (!more)
		return false;
	proc->objects = more;
	proc->objects[proc->n_objects++] = (struct marked_object){ addr, file };
	return true;
}

/* A thread has one buffer an object; libraries that come and go, or a target that makes numbers up,
 * must not make this grow: the oldest gives way, with what it holds. */
static void buffers__trim(struct person_thread *th)
{
	struct thread_buffer **at = &th->buffers, *last;
	unsigned n = 0;

	while (*at && (*at)->next) {
		at = &(*at)->next;
		n++;
	}
	if (n < MAX_THREAD_BUFFERS)
		return;
	last = *at;
	*at = NULL;
	chain__close_all(last->chain, clock__boottime_ns());
	chain__flush(last->chain);
	chain__free(last->chain);
	free(last);
}

struct thread_buffer *people__buffer(struct people *p, struct person_thread *th, uint64_t addr,
				     uint64_t born)
{
	struct thread_buffer *b;

	for (b = th->buffers; b; b = b->next)
		if (b->addr == addr && b->born == born)
			return b;
	buffers__trim(th);
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->chain = chain__new(p->o.env, th->index);
	if (!b->chain) {
		free(b);
		return NULL;
	}
	b->addr = addr;
	b->born = born;
	b->file = UINT32_MAX;
	b->thread = th;
	b->next = th->buffers;
	th->buffers = b;
	return b;
}

void people__rename(struct people *p, struct person_thread *th, const char *name, size_t len,
		    bool by_marker)
{
	char *copy;

	/* The runtime's own name says more than the 15 bytes that the kernel keeps. */
	if (!len || (th->named_by_marker && !by_marker))
		return;
	if (th->info.name && strlen(th->info.name) == len && !memcmp(th->info.name, name, len)) {
		th->named_by_marker |= by_marker;
		return;
	}
	copy = strndup(name, len);
	if (!copy)
		return;
	free(th->info.name);
	th->info.name = copy;
	th->named_by_marker |= by_marker;
	writer__set_thread(p->o.w, th->index, &th->info);
}

void people__label(struct people *p, struct person_process *proc, const char *label, size_t len)
{
	char *copy;

	if (!len || (proc->info.label && strlen(proc->info.label) == len &&
		     !memcmp(proc->info.label, label, len)))
		return;
	copy = strndup(label, len);
	if (!copy)
		return;
	replace(&proc->info.label, copy);
	if (proc->index != UINT32_MAX)
		writer__set_process(p->o.w, proc->index, &proc->info);
}

void people__thread_ended(struct people *p, struct person_thread *th, uint64_t ts, uint64_t pass)
{
	if (th->ended)
		return;
	for (struct thread_buffer *b = th->buffers; b; b = b->next)
		chain__close_all(b->chain, ts);
	if (th->hits)
		chain__close_all(th->hits, ts);
	if (th->calls)
		chain__close_all(th->calls, ts);
	while (th->n_frames)
		person_thread__drop_frame(th, p->o.env);
	th->ended = ts;
	th->ended_pass = pass;
	th->info.ended = ts;
	writer__set_thread(p->o.w, th->index, &th->info);
	if (th->process->alive_threads)
		th->process->alive_threads--;
}

void people__process_ended(struct people *p, struct person_process *proc, uint64_t ts, int status)
{
	if (proc->ended)
		return;
	proc->ended = ts;
	proc->info.ended = ts;
	proc->info.exit_code = status;
	if (proc->index != UINT32_MAX)
		writer__set_process(p->o.w, proc->index, &proc->info);
}

static int thread__flush(struct person_thread *th)
{
	int ret = 0, err;

	for (struct thread_buffer *b = th->buffers; b; b = b->next) {
		err = chain__flush(b->chain);
		ret = ret ? ret : err;
	}
	err = th->hits ? chain__flush(th->hits) : 0;
	ret = ret ? ret : err;
	err = th->calls ? chain__flush(th->calls) : 0;
	return ret ? ret : err;
}

int people__flush(struct people *p)
{
	int ret = 0;

	for (struct person_thread *th = p->all; th; th = th->next_all) {
		int err = thread__flush(th);

		ret = ret ? ret : err;
	}
	return ret;
}

static void unlink_thread(struct people *p, struct person_thread *th)
{
	struct wire_task t = { .tgid = th->process->tgid,
			       .tid = th->tid,
			       .start = th->process->start,
			       .tstart = th->start,
			       .exec_gen = th->process->exec_gen };
	struct person_thread **at = &th->process->threads;
	uint64_t key = thread_key(&t), *v = map64__get(p->by_thread, key);

	if (v && *v == (uintptr_t)th)
		map64__del(p->by_thread, key);
	while (*at && *at != th)
		at = &(*at)->next;
	if (*at)
		*at = th->next;
}

static void unlink_process(struct people *p, struct person_process *proc)
{
	struct person_process *first = first_of(p, proc->tgid), **at = &first;

	while (*at && *at != proc)
		at = &(*at)->next_same_tgid;
	if (*at)
		*at = proc->next_same_tgid;
	if (first)
		map64__put(p->by_tgid, proc->tgid, (uintptr_t)first);
	else
		map64__del(p->by_tgid, proc->tgid);
}

void people__reap(struct people *p, uint64_t before)
{
	struct person_thread *th, *next;

	for (th = p->all; th; th = next) {
		struct person_process *proc = th->process;

		next = th->next_all;
		if (!th->ended || th->ended_pass >= before)
			continue;
		thread__flush(th);
		unlink_thread(p, th);
		thread__free(p, th);
		if (proc->ended && !proc->threads) {
			unlink_process(p, proc);
			process__free(p, proc);
		}
	}
}

/* A process that never marked anything leaves nothing behind. */
void people__forget_quiet(struct people *p, struct person_process *proc)
{
	if (proc->threads || !proc->ended)
		return;
	unlink_process(p, proc);
	process__free(p, proc);
}

size_t people__n_processes(const struct people *p)
{
	return p->n_processes;
}

size_t people__n_threads(const struct people *p)
{
	return p->n_threads;
}

/* What @fn does may drain the ring, and with it make and free processes: so the list is made first,
 * by identity, and each is looked up again. */
int people__each_process(struct people *p, int (*fn)(void *ctx, struct person_process *proc),
			 void *ctx)
{
	struct person_process *proc;
	struct wire_task *list;
	size_t it = 0, n = 0, cap = 0;
	uint64_t key, *value;
	int ret = 0;

	while (map64__next(p->by_tgid, &it, &key, &value))
		for (proc = (void *)(uintptr_t)*value; proc; proc = proc->next_same_tgid)
			cap += !proc->ended;
	list = calloc(cap + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (it = 0; map64__next(p->by_tgid, &it, &key, &value);)
		for (proc = (void *)(uintptr_t)*value; proc; proc = proc->next_same_tgid)
			if (!proc->ended && n < cap)
				list[n++] = (struct wire_task){ .tgid = proc->tgid,
								.start = proc->start,
								.exec_gen = proc->exec_gen };
	for (size_t i = 0; i < n && !ret; i++) {
		proc = people__find_process(p, &list[i]);
		if (proc && !proc->ended)
			ret = fn(ctx, proc);
	}
	free(list);
	return ret;
}
