// SPDX-License-Identifier: Apache-2.0
/*
 * Memory of a target, read with a deadline.
 *
 * A page of a target can be backed by userfaultfd or FUSE, and then process_vm_readv() sleeps
 * until the target's accomplice answers; only SIGKILL wakes it. So untrusted memory is read
 * by a helper thread that can be left behind. It reads into memory of its own: the kernel may
 * still write there long after the caller has gone on.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "user/probe/proc.h"

#define MAX_STUCK 32u
#define MAX_IDLE 4u
#define PATIENCE_MS 1000
#define MAX_JOB_BYTES (64u << 20)

struct job {
	pid_t pid;
	size_t n;
	atomic_size_t done; /* ranges that are complete */
	atomic_int users;   /* caller and reader; the last one frees */
	sem_t finished;
	uint8_t *bytes;
	struct proc_range ranges[]; /* their `to` lies in bytes */
};

struct reader {
	pthread_t thread;
	sem_t wake;
	struct job *job;
	bool stuck, quit, over; /* under lock */
	struct timespec stuck_since;
	struct reader *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came_back = PTHREAD_COND_INITIALIZER; /* one that was left behind */
static struct reader *idle, *stuck;
static unsigned n_idle, n_stuck;

static ssize_t read_range(pid_t pid, uint64_t addr, void *to, size_t n)
{
	struct iovec local = { to, n };
	struct iovec remote = { (void *)(uintptr_t)addr, n };
	ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return got < 0 ? -errno : got;
}

static void job__put(struct job *j)
{
	if (atomic_fetch_sub(&j->users, 1) != 1)
		return;
	sem_destroy(&j->finished);
	free(j->bytes);
	free(j);
}

static void reader__free(struct reader *r)
{
	sem_destroy(&r->wake);
	free(r);
}

static void wait_for(sem_t *s)
{
	while (sem_wait(s) < 0 && errno == EINTR)
		;
}

/* Whoever was left behind is nobody's any more and cleans up after itself. */
static bool was_left_behind(struct reader *r)
{
	struct reader **at;
	bool was;

	pthread_mutex_lock(&lock);
	was = r->stuck;
	if (was) {
		for (at = &stuck; *at != r; at = &(*at)->next)
			;
		*at = r->next;
		n_stuck--;
		pthread_cond_broadcast(&came_back);
	}
	r->over = true;
	pthread_mutex_unlock(&lock);
	return was;
}

static void *reader__main(void *arg)
{
	struct reader *r = arg;

	for (;;) {
		struct job *j;
		size_t i;

		wait_for(&r->wake);
		if (r->quit)
			return NULL;
		j = r->job;
		for (i = 0; i < j->n; i++) {
			struct proc_range *g = &j->ranges[i];

			g->got = read_range(j->pid, g->addr, g->to, g->n);
			atomic_store_explicit(&j->done, i + 1, memory_order_release);
		}
		if (was_left_behind(r)) {
			pthread_detach(pthread_self());
			job__put(j);
			reader__free(r);
			return NULL;
		}
		sem_post(&j->finished);
		job__put(j);
	}
}

static struct reader *reader__new(void)
{
	struct reader *r = calloc(1, sizeof(*r));
	pthread_attr_t attr;
	sigset_t all, before;
	int rc;

	if (!r)
		return NULL;
	sem_init(&r->wake, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	/* Signals of the program must not land on a thread it knows nothing of. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&r->thread, &attr, reader__main, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc) {
		reader__free(r);
		return NULL;
	}
	return r;
}

static struct timespec later(struct timespec t, long ms)
{
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static struct reader *stuck_with(pid_t pid)
{
	struct reader *r;

	for (r = stuck; r && r->job->pid != pid; r = r->next)
		;
	return r;
}

/*
 * A target that has one reader stuck gets no second one: it would only catch that too. But a
 * reader may just be late, on a machine that is out of breath: a young one is waited for.
 */
static int wait_for_stuck(pid_t pid, int timeout_ms)
{
	struct timespec until, patience;
	struct reader *r;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until = later(until, timeout_ms);
	while ((r = stuck_with(pid))) {
		patience = later(r->stuck_since, PATIENCE_MS);
		if (is_before(&until, &patience))
			patience = until;
		if (pthread_cond_clockwait(&came_back, &lock, CLOCK_MONOTONIC, &patience))
			return stuck_with(pid) ? -ETIMEDOUT : 0;
	}
	return 0;
}

static int take_reader(pid_t pid, int timeout_ms, struct reader **out)
{
	struct reader *r;
	int rc;

	pthread_mutex_lock(&lock);
	rc = wait_for_stuck(pid, timeout_ms);
	if (n_stuck >= MAX_STUCK)
		rc = -ETIMEDOUT;
	r = NULL;
	if (!rc && idle) {
		r = idle;
		idle = r->next;
		n_idle--;
	}
	pthread_mutex_unlock(&lock);
	if (rc)
		return rc;
	*out = r ? r : reader__new();
	return *out ? 0 : -ENOMEM;
}

static void reader__stop(struct reader *r)
{
	r->quit = true;
	sem_post(&r->wake);
	pthread_join(r->thread, NULL);
	reader__free(r);
}

static void give_reader(struct reader *r)
{
	bool keep;

	pthread_mutex_lock(&lock);
	r->over = false;
	keep = n_idle < MAX_IDLE;
	if (keep) {
		r->next = idle;
		idle = r;
		n_idle++;
	}
	pthread_mutex_unlock(&lock);
	if (!keep)
		reader__stop(r);
}

/* Also for dlclose: a thread that waits in code that is no longer mapped would crash. */
__attribute__((destructor)) static void stop_idle_readers(void)
{
	struct reader *r;

	while ((r = idle)) {
		idle = r->next;
		n_idle--;
		reader__stop(r);
	}
}

static struct job *job__new(pid_t pid, const struct proc_range *ranges, size_t n)
{
	size_t i, total = 0, at = 0;
	struct job *j;

	for (i = 0; i < n; i++) {
		if (ranges[i].n > MAX_JOB_BYTES - total) {
			errno = E2BIG;
			return NULL;
		}
		total += ranges[i].n;
	}
	j = calloc(1, sizeof(*j) + n * sizeof(*j->ranges));
	if (!j)
		return NULL;
	j->bytes = malloc(total ? total : 1);
	if (!j->bytes) {
		free(j);
		return NULL;
	}
	sem_init(&j->finished, 0, 0);
	atomic_init(&j->users, 2);
	j->pid = pid;
	j->n = n;
	for (i = 0; i < n; i++) {
		j->ranges[i] = ranges[i];
		j->ranges[i].to = j->bytes + at;
		at += ranges[i].n;
	}
	return j;
}

/* True when the job is complete, false when the reader was left behind with it. */
static bool wait_or_leave(struct reader *r, struct job *j, int timeout_ms)
{
	struct timespec until;
	bool left;
	int rc;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until = later(until, timeout_ms);
	do
		rc = sem_clockwait(&j->finished, CLOCK_MONOTONIC, &until);
	while (rc < 0 && errno == EINTR);
	if (!rc)
		return true;
	pthread_mutex_lock(&lock);
	left = !r->over;
	if (left) {
		r->stuck = true;
		clock_gettime(CLOCK_MONOTONIC, &r->stuck_since);
		r->next = stuck;
		stuck = r;
		n_stuck++;
	}
	pthread_mutex_unlock(&lock);
	if (!left)
		wait_for(&j->finished);
	return !left;
}

static int fail_all(struct proc_range *ranges, size_t n, int code)
{
	size_t i;

	for (i = 0; i < n; i++)
		ranges[i].got = code;
	return code;
}

int proc__read_memoryv(pid_t pid, struct proc_range *ranges, size_t n, int timeout_ms)
{
	struct reader *r;
	struct job *j;
	size_t i, done;
	bool complete;
	int rc;

	if (timeout_ms < 0) {
		for (i = 0; i < n; i++)
			ranges[i].got = read_range(pid, ranges[i].addr, ranges[i].to, ranges[i].n);
		return 0;
	}
	j = job__new(pid, ranges, n);
	if (!j)
		return fail_all(ranges, n, errno == E2BIG ? -E2BIG : -ENOMEM);
	rc = take_reader(pid, timeout_ms, &r);
	if (rc) {
		job__put(j);
		job__put(j);
		return fail_all(ranges, n, rc);
	}
	r->job = j;
	sem_post(&r->wake);
	complete = wait_or_leave(r, j, timeout_ms);
	done = atomic_load_explicit(&j->done, memory_order_acquire);
	for (i = 0; i < n; i++) {
		ranges[i].got = i < done ? j->ranges[i].got : -ETIMEDOUT;
		if (ranges[i].got > 0)
			memcpy(ranges[i].to, j->ranges[i].to, (size_t)ranges[i].got);
	}
	job__put(j);
	if (!complete)
		return -ETIMEDOUT;
	give_reader(r);
	return 0;
}

ssize_t proc__read_memory(pid_t pid, uint64_t addr, void *to, size_t n, int timeout_ms)
{
	struct proc_range one = { .addr = addr, .to = to, .n = n };
	int rc = proc__read_memoryv(pid, &one, 1, timeout_ms);

	return rc ? rc : one.got;
}
