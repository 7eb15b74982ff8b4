// SPDX-License-Identifier: Apache-2.0
/* Whom to record: roots and their children, what they map, what they map later. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLIKA_ABI_ONLY
#include <clika/markers.h>

#include "user/prof/recorder.h"

/* Descriptors are for a few targets; hundreds of them are looked at now and then. */
#define MAX_PIDFDS 32
#define LOOK_NS (200 * NSEC_PER_MSEC)

static int pidfd_open(pid_t pid)
{
	return syscall(SYS_pidfd_open, pid, 0);
}

static bool status_says(const char *status, const char *key, const char *none)
{
	const char *line = strstr(status, key);

	if (!line)
		return false;
	line += strlen(key);
	line += strspn(line, " \t");
	return strncmp(line, none, strlen(none)) != 0 || (none[0] && line[strlen(none)] != '\n');
}

/* What would not survive a replaced return address, or the system call that newer kernels return by. */
static int check_retprobe(pid_t pid, struct clika_error *err)
{
	__cleanup_free char *status = NULL;
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file__read_all(-1, path, 65536, &status, &len))
		return 0;
	if (status_says(status, "\nSeccomp:", "0"))
		return error__set(err, -EPERM,
				  "pid %d runs under a system call filter, which may end it at a "
				  "return probe: leave --retprobe out",
				  (int)pid);
	if (strstr(status, "x86_Thread_features:") && strstr(status, "shstk"))
		return error__set(err, -EPERM,
				  "pid %d runs with a shadow stack: leave --retprobe out",
				  (int)pid);
	return 0;
}

static int add_root(struct clika_recorder *r, pid_t pid, struct clika_error *err)
{
	struct root_target *more;
	struct proc_stat st;
	int fd = -1;

	if (proc__stat(pid, &st) || st.state == 'Z' || st.state == 'X')
		return error__set(err, -ESRCH,
				  "no process %d: it has ended, or belongs to another pid "
				  "namespace",
				  (int)pid);
	if (proc__is_32bit(pid))
		return error__set(err, -ENOTSUP, "pid %d is 32-bit, not supported", (int)pid);
	if (r->o.retprobe && check_retprobe(pid, err)) {
		close(fd);
		return -EPERM;
	}
	more = realloc(r->roots, (r->n_roots + 1) * sizeof(*more));
	if (!more)
		return error__set(err, -ENOMEM, "out of memory");
	r->roots = more;
	if (r->n_roots < MAX_PIDFDS)
		fd = pidfd_open(pid);
	r->roots[r->n_roots++] =
		(struct root_target){ .pid = pid, .pidfd = fd, .start_ticks = st.start_ticks };
	return 0;
}

static int count_task(void *ctx, pid_t tid)
{
	(void)tid;
	return ++*(int *)ctx > 1;
}

static bool root_ended(const struct root_target *t, bool look)
{
	struct pollfd p = { .fd = t->pidfd, .events = POLLIN };
	struct proc_stat st;
	int tasks = 0;

	if (t->pidfd >= 0)
		return poll(&p, 1, 0) > 0;
	if (!look)
		return false;
	if (proc__stat(t->pid, &st) || st.start_ticks != t->start_ticks)
		return true;
	if (st.state != 'Z' && st.state != 'X')
		return false;
	/* A leader that has gone may leave threads that go on. */
	proc__threads(t->pid, count_task, &tasks);
	return tasks < 2;
}

int recorder__find_targets(struct clika_recorder *r, struct clika_error *err)
{
	int ret = 0;

	for (size_t i = 0; i < r->o.n_pids && !ret; i++) {
		if (r->o.pids[i] == getpid())
			return error__set(err, -EINVAL, "pid %d is the recorder itself",
					  (int)getpid());
		ret = add_root(r, r->o.pids[i], err);
	}
	if (r->command.pid)
		ret = add_root(r, r->command.pid, err);
	return ret;
}

/* --- tasks that exist ------------------------------------------------------------------------ */

struct task_list {
	struct attacher *a;
	struct wire_task_info *t;
	size_t n, cap;
	bool failed;
};

static int list_task(void *ctx, const struct wire_task_info *t)
{
	struct task_list *l = ctx;

	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 256;
		struct wire_task_info *more = realloc(l->t, cap * sizeof(*more));

		if (!more) {
			l->failed = true;
			return -ENOMEM;
		}
		l->t = more;
		l->cap = cap;
	}
	l->t[l->n++] = *t;
	return 0;
}

static const struct wire_task_info *find_leader(const struct task_list *l, pid_t lpid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->t[i].task.tgid == l->t[i].task.tid &&
		    attacher__local_pid(l->a, &l->t[i]) == (uint32_t)lpid)
			return &l->t[i];
	return NULL;
}

/* The thread of @tgid that calls itself @ns_tid. */
static const struct wire_task_info *find_thread(const struct task_list *l, uint32_t tgid,
						uint32_t ns_tid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->t[i].task.tgid == tgid && l->t[i].level < WIRE_NS_LEVELS &&
		    l->t[i].numbers[l->t[i].level] == ns_tid)
			return &l->t[i];
	return NULL;
}

/* --- what a process maps ---------------------------------------------------------------------- */

struct scan {
	struct clika_recorder *r;
	struct person_process *proc;
	pid_t lpid;
	struct clika_error *err;
	int first_error;
};

static void note_object(struct clika_recorder *r, struct person_process *proc, uint32_t number,
			const struct proc_map *m)
{
	const struct probed_file *f = files__get(r->files, number);
	uint64_t vaddr;

	if (!proc || !f || !f->batched || !elf_file__vaddr(f->elf, m->offset, &vaddr))
		return;
	people__add_object(proc, m->start - vaddr + f->note.object_vaddr, number);
}

static int scan_mapping(void *ctx, const struct proc_map *m)
{
	struct scan *s = ctx;
	struct clika_error err = { 0 };
	uint32_t number;
	int ret;

	if (!m->exec)
		return 0;
	ret = files__mapped(s->r->files, s->lpid, m, &number, &err);
	if (ret < 0) {
		logger__log(&s->r->log, LOG_WARN, "attach", "pid %d: %s", (int)s->lpid, err.msg);
		if (!s->first_error) {
			s->first_error = ret;
			if (s->err)
				*s->err = err;
		}
	}
	if (number != UINT32_MAX)
		note_object(s->r, s->proc, number, m);
	return 0;
}

int recorder__scan_process(struct clika_recorder *r, pid_t lpid, struct person_process *proc,
			   struct clika_error *err)
{
	struct scan s = { .r = r, .proc = proc, .lpid = lpid, .err = err };
	int ret = proc__maps(lpid, scan_mapping, &s);

	return ret < 0 ? ret : s.first_error;
}

/* --- buffers that exist ------------------------------------------------------------------------- */

struct positioning {
	struct clika_recorder *r;
	struct person_process *proc;
	uint32_t file;
	struct task_list tasks;
	bool listed, whole;
};

static int position_buffer(void *ctx, const struct seen_buffer *s)
{
	struct positioning *p = ctx;
	const struct wire_task_info *t;
	struct person_thread *th;
	struct thread_buffer *b;

	if (s->dead)
		return 0;
	if (!p->listed) {
		attacher__tasks(p->r->attacher, list_task, &p->tasks, NULL);
		p->listed = true;
	}
	t = find_thread(&p->tasks, p->proc->tgid, s->tid);
	if (!t)
		return 0;
	th = people__thread(p->r->people, &t->task, NULL);
	b = th ? people__buffer(p->r->people, th, s->addr, s->born) : NULL;
	if (!b)
		return 0;
	th->ns_tid = s->tid;
	b->object = s->object;
	b->file = p->file;
	b->dropped = s->dropped;
	if (!b->positioned) {
		b->expected = p->whole ? s->flushed : s->head;
		b->positioned = true;
	}
	people__rename(p->r->people, th, s->thread_name, strlen(s->thread_name), true);
	attacher__buffer_add(p->r->attacher, t->task.tid, s->addr, p->file, s->tid);
	return 0;
}

static void tell_names(struct clika_recorder *r, struct person_process *proc,
		       const struct seen_names *n)
{
	struct person_thread *th = proc->threads;
	struct event ev = { .ts = clock__boottime_ns() };

	people__label(r->people, proc, n->label, strlen(n->label));
	if (!n->n || !th)
		return;
	if (!th->hits)
		th->hits = chain__new(&r->env, th->index);
	for (uint32_t i = 0; th->hits && i < n->n; i++) {
		ev.kind = n->names[i].kind == CLIKA_REC_QUEUE_NAME ? EV_QUEUE_NAME : EV_DEVICE_NAME;
		ev.id = n->names[i].id;
		ev.aux = (uint32_t)n->names[i].id;
		ev.name = strpool__ids(r->pool, n->names[i].name);
		chain__event(th->hits, &ev);
	}
}

void recorder__position_buffers(struct clika_recorder *r, struct person_process *proc, bool whole)
{
	struct positioning p = {
		.r = r, .proc = proc, .tasks = { .a = r->attacher }, .whole = whole
	};
	struct seen_names names = { 0 };

	if (!proc->lpid)
		return;
	for (unsigned i = 0; i < proc->n_objects; i++) {
		p.file = proc->objects[i].file;
		memset(&names, 0, sizeof(names));
		if (harvest__buffers(proc->lpid, proc->objects[i].addr, &names, position_buffer,
				     &p) >= 0)
			tell_names(r, proc, &names);
	}
	free(p.tasks.t);
}

/* --- attaching at the start ------------------------------------------------------------------- */

static int add_process(struct clika_recorder *r, struct task_list *tasks, pid_t lpid,
		       struct clika_error *err)
{
	const struct wire_task_info *t = find_leader(tasks, lpid);
	struct person_process *proc;
	struct proc_stat st;
	int ret;

	if (!t && !proc__stat(lpid, &st) && st.state != 'Z' && st.state != 'X')
		return error__set(err, -EPERM,
				  "process %d runs, but this kernel does not show it to BPF: it "
				  "cannot be recorded from here",
				  (int)lpid);
	if (!t)
		return error__set(err, -ESRCH, "process %d has ended", (int)lpid);
	ret = attacher__target_add(r->attacher, t->task.tgid, t->task.start);
	if (ret)
		return error__set(err, ret, "cannot add process %d to the targets: %s", (int)lpid,
				  ret == -E2BIG ? "the map is full" : strerror(-ret));
	proc = people__process(r->people, &t->task, NULL);
	if (!proc)
		return error__set(err, -ENOMEM, "out of memory");
	proc->lpid = lpid;
	proc->info.ppid = t->ptgid;
	proc->info.ns_pid = t->level < WIRE_NS_LEVELS ? t->numbers[t->level] : 0;
	if (lpid != r->command.pid)
		people__look(r->people, proc);
	return 0;
}

struct descent {
	struct clika_recorder *r;
	struct task_list *tasks;
	struct clika_error *err;
};

static int add_descendant(void *ctx, pid_t pid)
{
	struct descent *d = ctx;

	/* A child may be another program by now, which its user may not look into. */
	if (d->r->o.on_behalf >= 0 && !owner__is(pid, (uid_t)d->r->o.on_behalf))
		return 0;
	/* One that ends meanwhile is no error. */
	add_process(d->r, d->tasks, pid, NULL);
	return 0;
}

static int scan_known(void *ctx, struct person_process *proc)
{
	struct descent *d = ctx;

	if (proc->lpid && (!d->r->command.pid || (pid_t)proc->lpid != d->r->command.pid)) {
		struct clika_error err = { 0 };
		int ret = recorder__scan_process(d->r, proc->lpid, proc, &err);

		if (ret && ret != -ESRCH && d->err && !d->err->code)
			*d->err = err;
	}
	return 0;
}

static int position_known(void *ctx, struct person_process *proc)
{
	recorder__position_buffers(ctx, proc, false);
	return 0;
}

/* A command's file before it runs, so that its first marker is already heard. */
static int attach_command(struct clika_recorder *r, struct clika_error *err)
{
	__cleanup_close int fd = -1;
	char path[4096], *real;
	uint32_t number;
	int ret;

	ret = command__find(r->o.argv[0], path, sizeof(path), err);
	if (ret)
		return ret;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 0; /* execute permission only: its mappings will tell */
	real = realpath(path, NULL);
	ret = files__opened(r->files, fd, real ? real : path, &number, err);
	free(real);
	return ret;
}

/* The filters that BPF asks at a process's first hit, asked here of one that has not hit yet: its
 * thread buffers are read from outside, where no program stands in between. */
static bool passes_filters(const struct clika_recorder *r, pid_t pid)
{
	const struct clika_recorder_opts *o = &r->o;
	struct proc_details d;
	const char *want;
	bool ok = true;
	size_t n;

	if (o->uid < 0 && !o->comm && !o->cgroup)
		return true;
	if (proc__details(pid, &d))
		return false;
	if (o->uid >= 0 && d.uid != (uid_t)o->uid)
		ok = false;
	if (o->comm && !(d.comm && text__glob(o->comm, d.comm)))
		ok = false;
	if (o->cgroup) {
		want = o->cgroup;
		if (!strncmp(want, "/sys/fs/cgroup", 14))
			want += 14;
		want += strspn(want, "/");
		n = strlen(want);
		while (n && want[n - 1] == '/')
			n--;
		if (n && (!d.cgroup || strncmp(d.cgroup + 1, want, n) ||
			  (d.cgroup[1 + n] && d.cgroup[1 + n] != '/')))
			ok = false;
	}
	proc_details__free(&d);
	return ok;
}

static int system_process(void *ctx, pid_t pid)
{
	struct descent *d = ctx;
	const struct wire_task_info *t = find_leader(d->tasks, pid);
	struct person_process *proc;

	if (pid == getpid() || !t)
		return 0;
	proc = people__process(d->r->people, &t->task, NULL);
	if (!proc)
		return -ENOMEM;
	proc->lpid = pid;
	recorder__scan_process(d->r, pid, proc, NULL);
	if (!proc->n_objects || !passes_filters(d->r, pid)) {
		/* Nothing for us in there: not kept; its first record would make it again. */
		proc->ended = 1;
		people__forget_quiet(d->r->people, proc);
	} else {
		people__look(d->r->people, proc);
		/* Known as a target before its first hit: killed before that, it is drained all the same. */
		attacher__target_add(d->r->attacher, t->task.tgid, t->task.start);
	}
	return 0;
}

int recorder__scan_targets(struct clika_recorder *r, struct clika_error *err)
{
	struct task_list tasks = { .a = r->attacher };
	struct descent d = { r, &tasks, err };
	int ret = attacher__tasks(r->attacher, list_task, &tasks, err);

	files__settled(r->files, true);
	for (size_t i = 0; i < r->n_roots && !ret; i++) {
		ret = add_process(r, &tasks, r->roots[i].pid, err);
		if (!ret && !r->o.no_follow)
			proc__descendants(r->roots[i].pid, add_descendant, &d);
	}
	if (!ret && r->command.pid)
		ret = attach_command(r, err);
	if (!ret && r->o.target == CLIKA_TARGET_SYSTEM)
		ret = proc__each(system_process, &d);
	else if (!ret)
		people__each_process(r->people, scan_known, &d);
	if (!ret)
		people__each_process(r->people, position_known, r);
	if (!ret && err && err->code && !files__n_sites(r->files))
		ret = err->code;
	files__settled(r->files, false);
	free(tasks.t);
	return ret;
}

/* --- mappings made later -------------------------------------------------------------------------- */

static void new_mapping(void *ctx, const struct mmap_event *e)
{
	struct clika_recorder *r = ctx;
	struct proc_map m = { .start = e->addr,
			      .end = e->addr + e->len,
			      .offset = e->pgoff,
			      .dev_major = e->maj,
			      .dev_minor = e->min,
			      .inode = e->ino,
			      .exec = true,
			      .path = e->path };
	size_t had = files__count(r->files);
	struct person_process *proc;
	struct clika_error err = { 0 };
	uint32_t number;
	int ret;

	if (e->path[0] != '/' || e->pid == (uint32_t)getpid() ||
	    files__is_dull(r->files, e->maj, e->min, e->ino, e->ino_generation))
		return;
	/* In a nested pid namespace the event's number is not the map's key; there every process that
	 * is visible at all is looked at. */
	if (r->o.target != CLIKA_TARGET_SYSTEM && attacher__level(r->attacher) == 0 &&
	    !attacher__is_target(r->attacher, e->pid))
		return;
	ret = files__mapped(r->files, e->pid, &m, &number, &err);
	if (ret < 0)
		logger__log(&r->log, LOG_WARN, "attach", "pid %u: %s", e->pid, err.msg);
	if (ret == 1 || ret == -ESTALE)
		return;
	if (number == UINT32_MAX) {
		files__set_dull(r->files, e->maj, e->min, e->ino, e->ino_generation);
		return;
	}
	if (files__count(r->files) == had)
		return;
	/* First seen now: buffers may have been made before its probes were on. */
	proc = people__newest(r->people, e->pid, 0);
	if (proc) {
		note_object(r, proc, number, &m);
		/* What was marked between the attach and this moment is part of the recording. */
		recorder__position_buffers(r, proc, true);
	}
	if (r->started)
		logger__log(&r->log, LOG_INFO, "attach",
			    "%s: attached as pid %u mapped it; markers before "
			    "that moment are not in the recording",
			    e->path, e->pid);
}

void recorder__new_mappings(struct clika_recorder *r)
{
	uint64_t lost;

	if (!r->mmaps)
		return;
	mmaps__drain(r->mmaps, new_mapping, r);
	lost = mmaps__lost(r->mmaps);
	if (lost != r->mmaps_lost_told) {
		r->mmaps_lost_told = lost;
		writer__warning(r->w, "mappings-lost",
				"the kernel dropped notices of new mappings: files mapped at that "
				"moment may "
				"have been attached late or not at all");
	}
}

void recorder__at_entry(void *ctx)
{
	struct clika_recorder *r = ctx;

	/* The notices of the same mappings come later and find the files known. */
	files__settled(r->files, true);
	recorder__scan_process(r, r->command.pid, NULL, NULL);
	files__settled(r->files, false);
}

bool recorder__targets_left(struct clika_recorder *r)
{
	uint64_t now = clock__boottime_ns();
	bool left = false, look = now - r->roots_looked >= LOOK_NS;

	command__reap(&r->command);
	if (r->command.pid)
		return !r->command.ended;
	if (r->o.target == CLIKA_TARGET_SYSTEM)
		return true;
	if (look)
		r->roots_looked = now;
	for (size_t i = 0; i < r->n_roots; i++) {
		r->roots[i].ended = r->roots[i].ended || root_ended(&r->roots[i], look);
		left |= !r->roots[i].ended;
	}
	return left || (!r->o.no_follow && attacher__targets(r->attacher) > 0);
}
