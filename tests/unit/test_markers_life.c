/* SPDX-License-Identifier: Apache-2.0 */
/* Marker buffers over the life of threads and processes: signals, fork, exit, names, notes. */
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <cmocka.h>
#include "tests/markers/watch.h"

#define RUN_TEST_BODY(name)                                                                        \
	static void name(void **state)                                                             \
	{                                                                                          \
		(void)state;                                                                       \
		assert_int_equal(watch__run(name##_body), 0);                                      \
	}

static void start(pthread_t *t, void (*fn)(void))
{
	void *arg;

	memcpy(&arg, &fn, sizeof(arg));
	CHECK(pthread_create(t, NULL, watch__thread, arg) == 0);
}

static void other_thread(void (*fn)(void))
{
	pthread_t t;

	start(&t, fn);
	CHECK(pthread_join(t, NULL) == 0);
}

/* What a hit keeps is not made for many threads. */
static void uncounted_hit(uintptr_t site, const uint64_t arg[4])
{
	(void)site;
	(void)arg;
}

/* --- signals ---------------------------------------------------------------------------- */

static void mark_inside(void)
{
	clika_token t = CLIKA_SPAN_BEGIN("inside");

	CHECK(t == 0);
	CLIKA_SPAN_END(t);
	CLIKA_INSTANT("inside", CLIKA_I64("i", 1));
	CLIKA_FLUSH();
}

static void marker_inside_a_marker_is_dropped_and_counted_body(void)
{
	CLIKA_INSTANT("first");
	CHECK(watch__batches == 1);
	watch__on_batch = mark_inside;
	CLIKA_FLUSH();
	watch__on_batch = NULL;
	CHECK(watch__batches == 2 && watch__mine()->dropped == 2);
	CHECK(watch__mine()->busy == 0 && watch__mine()->depth == 0);
	CLIKA_INSTANT("later");
	CHECK(watch__collect() == 2 && watch__mine()->count == 2);
}
RUN_TEST_BODY(marker_inside_a_marker_is_dropped_and_counted)

static volatile unsigned int ticks;

static void tick(int sig)
{
	CLIKA_SPAN("in handler", CLIKA_I64("signal", sig));
	CLIKA_INSTANT("tick");
	ticks++;
}

struct tally {
	uint64_t begins, ends, spans, instants;
};

/* Only the thread that the storm is for takes its signals, and not while it counts. */
static void storm(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

static void tally_up(struct tally *t)
{
	storm(SIG_BLOCK);
	for (int i = 0; i < watch__marks; i++) {
		t->begins += watch__mark[i].kind == CLIKA_REC_BEGIN;
		t->ends += watch__mark[i].kind == CLIKA_REC_END;
		t->spans += watch__mark[i].kind == CLIKA_REC_SPAN;
		t->instants += watch__mark[i].kind == CLIKA_REC_INSTANT;
	}
	watch__forget();
	storm(SIG_UNBLOCK);
}

static void nothing_is_lost_uncounted_under_a_storm_of_signals_body(void)
{
	const struct itimerval every = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
	struct tally t = { 0, 0, 0, 0 };
	struct sigaction sa;
	uint64_t made = 0;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = tick;
	sa.sa_flags = SA_RESTART;
	ticks = 0;
	CLIKA_INSTANT("first");
	storm(SIG_UNBLOCK);
	CHECK(sigaction(SIGALRM, &sa, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
	while (ticks < 400 && made < 200000000) {
		{
			CLIKA_SPAN("span");
		}
		made++;
		if (watch__batches > WATCH_BATCHES / 2 || watch__marks > WATCH_MARKS / 2)
			tally_up(&t);
	}
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	watch__collect();
	tally_up(&t);
	CHECK(ticks >= 400 && t.begins == t.ends && watch__mine()->depth == 0);
	CHECK(t.spans + t.ends + t.instants + watch__mine()->dropped == made + 2ull * ticks + 1);
}
RUN_TEST_BODY(nothing_is_lost_uncounted_under_a_storm_of_signals)

/* --- fork, vfork ------------------------------------------------------------------------ */

static int child_ends_well(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void mark_once(void)
{
	CLIKA_INSTANT("once");
}

static int list_length(uint32_t pid)
{
	const struct clika_buffer *b =
		(const struct clika_buffer *)(uintptr_t)clika_object_v1.buffers;
	int n = 0;

	for (; b; b = (const struct clika_buffer *)(uintptr_t)b->next, n++) {
		CHECK(b->magic == CLIKA_BUFFER_MAGIC && b->pid == pid);
		if (b->magic != CLIKA_BUFFER_MAGIC)
			break;
	}
	return n;
}

static void child_of_fork_begins_with_a_buffer_of_its_own_body(void)
{
	const clika_token a = CLIKA_SPAN_BEGIN("of the parent");
	struct clika_buffer *mine = watch__mine();
	pthread_t t[4];
	pid_t pid;

	CLIKA_INSTANT("of the parent");
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		watch__failures = 0;
		watch__forget();
		CHECK(mine->magic == 0 && mine->head == 0);
		CLIKA_SPAN_END(a);
		CHECK(watch__batches == 0);
		trap__fn = uncounted_hit;
		for (unsigned int i = 0; i < 4; i++)
			start(&t[i], mark_once);
		CLIKA_INSTANT("of the child");
		for (unsigned int i = 0; i < 4; i++)
			CHECK(pthread_join(t[i], NULL) == 0);
		CHECK(watch__mine() != mine && watch__mine()->pid == (uint32_t)getpid());
		CHECK(watch__mine()->count == 1 && watch__mine()->depth == 0);
		CHECK(clika_object_v1.pid == (uint32_t)getpid());
		CHECK(list_length((uint32_t)getpid()) <= 5);
		CHECK(marks__buffer(&clika_object_v1, watch__mine()->tid) == watch__mine());
		_exit(watch__failures != 0);
	}
	CHECK(child_ends_well(pid));
	CHECK(watch__mine() == mine && mine->count == 1 && mine->depth == 1);
	CLIKA_SPAN_END(a);
	CHECK(watch__collect() == 2);
}
RUN_TEST_BODY(child_of_fork_begins_with_a_buffer_of_its_own)

static void child_finds_out_by_pid_where_memory_is_not_wiped_body(void)
{
	const clika_token a = CLIKA_SPAN_BEGIN("of the parent");
	struct clika_buffer *mine = watch__mine();
	pid_t pid;

	CHECK(madvise(mine, 20480, MADV_KEEPONFORK) == 0);
	clika_nowipe_v1 = 1;
	CLIKA_INSTANT("of the parent");
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		watch__failures = 0;
		watch__forget();
		CHECK(mine->magic == CLIKA_BUFFER_MAGIC && mine->count == 1);
		CLIKA_SPAN_END(a);
		CLIKA_INSTANT("of the child");
		CHECK(watch__mine() != mine && mine->count == 1);
		CHECK(watch__mine()->count == 1 && watch__mine()->pid == (uint32_t)getpid());
		CHECK(list_length((uint32_t)getpid()) == 1);
		_exit(watch__failures != 0);
	}
	CHECK(child_ends_well(pid));
	clika_nowipe_v1 = 0;
	CHECK(madvise(mine, 20480, MADV_WIPEONFORK) == 0);
	CLIKA_SPAN_END(a);
	CHECK(watch__collect() == 2);
}
RUN_TEST_BODY(child_finds_out_by_pid_where_memory_is_not_wiped)

static int mark_much(void *unused)
{
	(void)unused;
	for (int i = 0; i < 3000; i++)
		CLIKA_INSTANT("in a borrowed address space");
	CLIKA_FLUSH();
	return 0;
}

static void borrow(void)
{
	static char stack[65536] __attribute__((aligned(64)));
	pid_t pid = clone(mark_much, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);

	CHECK(child_ends_well(pid));
}

static void child_that_borrows_memory_hands_nothing_over_body(void)
{
	struct clika_buffer *mine;
	uint64_t dropped;

	CLIKA_INSTANT("of the parent");
	mine = watch__mine();
	borrow();
	dropped = mine->dropped;
	CHECK(watch__batches == 1 && watch__mine() == mine && dropped > 2000);
	CHECK(mine->tid == (uint32_t)syscall(SYS_gettid) && mine->busy == 0);
	for (int i = 0; i < 1000; i++)
		CLIKA_INSTANT("of the parent");
	watch__collect();
	CHECK(mine->count == 1001 + 3000 - dropped && mine->dropped == dropped);
}
RUN_TEST_BODY(child_that_borrows_memory_hands_nothing_over)

static void child_that_borrows_memory_makes_no_buffer_body(void)
{
	other_thread(mark_once);
	watch__forget();
	borrow();
	CHECK(watch__batches == 0 && watch__mine() == NULL);
	CLIKA_INSTANT("of the parent");
	CHECK(watch__mine()->tid == (uint32_t)syscall(SYS_gettid));
	CHECK(watch__mine()->dropped == 3000 && watch__mine()->count == 1);
}
RUN_TEST_BODY(child_that_borrows_memory_makes_no_buffer)

/* --- threads, exit ---------------------------------------------------------------------- */

static const struct clika_buffer *gone;
static uint64_t gone_born;

static void end_with_an_open_span(void)
{
	CLIKA_INSTANT("last words");
	(void)CLIKA_SPAN_BEGIN("never ended");
	gone = watch__mine();
	gone_born = gone->born;
}

static void look_at_reused(void)
{
	CLIKA_INSTANT("of the heir");
	CHECK(watch__mine() == gone && gone->born > gone_born && gone->depth == 0);
	CHECK(gone->count == 1 && gone->dead == 0 && gone->thread_name[0] == 0);
}

static void thread_that_ends_hands_over_and_leaves_its_buffer_body(void)
{
	const struct watch_batch *w;

	CLIKA_INSTANT("of the main thread");
	watch__forget();
	other_thread(end_with_an_open_span);
	CHECK(watch__batches == 3 && gone->dead == 1 && gone->head == gone->flushed);
	CHECK(watch__marks == 2 && watch__mark[0].kind == CLIKA_REC_INSTANT);
	CHECK(watch__mark[1].kind == CLIKA_REC_BEGIN);
	CHECK(strcmp(watch__mark[1].name, "never ended") == 0);
	other_thread(look_at_reused);
	/* Each life: made, handed over, told that it ends. */
	w = &watch__batch[3];
	CHECK(watch__batches == 6 && w->buffer == gone && w->from == w->to && w->born > gone_born);
}
RUN_TEST_BODY(thread_that_ends_hands_over_and_leaves_its_buffer)

static pthread_barrier_t together;

static void mark_together(void)
{
	pthread_barrier_wait(&together);
	CLIKA_INSTANT("together");
	CHECK(marks__buffer(&clika_object_v1, watch__mine()->tid) == watch__mine());
	pthread_barrier_wait(&together);
}

static void mark_together_often(void)
{
	pthread_t t[16];
	int before;

	CLIKA_INSTANT("mine");
	before = list_length((uint32_t)getpid());
	CHECK(pthread_barrier_init(&together, NULL, 16) == 0);
	for (int round = 0; round < 20; round++) {
		for (unsigned int i = 0; i < 16; i++)
			start(&t[i], mark_together);
		for (unsigned int i = 0; i < 16; i++)
			CHECK(pthread_join(t[i], NULL) == 0);
		CHECK(list_length((uint32_t)getpid()) <= before + 16);
	}
	CHECK(pthread_barrier_destroy(&together) == 0);
}

static void buffers_made_at_once_are_all_listed_and_come_back_into_use(void **state)
{
	(void)state;
	trap__fn = uncounted_hit;
	assert_int_equal(watch__run(mark_together_often), 0);
	trap__fn = watch__hit;
}

/* A child that exits holds what its parent has allocated: no leaks to look for there. */
static pid_t whole_process;
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return getpid() != whole_process;
}

static int tell_fd;

static void tell(void)
{
	const struct watch_batch *w = &watch__batch[watch__batches - 1];
	int n = w->n;

	CHECK(write(tell_fd, &n, sizeof(n)) == (ssize_t)sizeof(n));
}

static void process_exit_hands_over_body(void)
{
	int fd[2], n = 0;
	pid_t pid;

	CHECK(pipe(fd) == 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		CLIKA_INSTANT("one");
		CLIKA_INSTANT("two");
		(void)CLIKA_SPAN_BEGIN("open");
		tell_fd = fd[1];
		watch__on_batch = tell;
		exit(0);
	}
	close(fd[1]);
	CHECK(read(fd[0], &n, sizeof(n)) == (ssize_t)sizeof(n) && n == 3);
	/* Then the notice that the thread ends, which hands over nothing. */
	CHECK(read(fd[0], &n, sizeof(n)) == (ssize_t)sizeof(n) && n == 0);
	CHECK(read(fd[0], &n, sizeof(n)) == 0);
	close(fd[0]);
	CHECK(child_ends_well(pid));
}
RUN_TEST_BODY(process_exit_hands_over)

/* --- what is kept, what leads here ------------------------------------------------------- */

static void names_are_kept_while_nobody_looks_body(void)
{
	const struct clika_object *o = &clika_object_v1;
	char text[200];
	unsigned int i;

	clika_semaphore_v1 = 0;
	CHECK(o->n_names == 0 && watch__mine() == NULL);
	CLIKA_THREAD_NAME("worker");
	CHECK(watch__mine() && strcmp(watch__mine()->thread_name, "worker") == 0);
	CHECK(watch__mine()->count == 0 && watch__batches == 1);
	CLIKA_PROCESS_LABEL("model a");
	CHECK(strcmp(o->label, "model a") == 0);
	CLIKA_QUEUE_NAME(5, "first");
	CLIKA_DEVICE_NAME(5, "card");
	CLIKA_QUEUE_NAME(5, "second");
	CHECK(o->n_names == 2);
	CHECK(o->names[0].kind == CLIKA_REC_QUEUE_NAME && o->names[0].id == 5);
	CHECK(strcmp(o->names[0].name, "second") == 0);
	CHECK(o->names[1].kind == CLIKA_REC_DEVICE_NAME && strcmp(o->names[1].name, "card") == 0);
	memset(text, 'n', sizeof(text));
	text[199] = 0;
	CLIKA_THREAD_NAME(text);
	CLIKA_PROCESS_LABEL(text);
	for (i = 0; i < 2 * CLIKA_NAMES; i++)
		CLIKA_QUEUE_NAME(100 + i, text);
	CHECK(strlen(watch__mine()->thread_name) == 63 && strlen(o->label) == 63);
	CHECK(o->n_names == CLIKA_NAMES && strlen(o->names[31].name) == CLIKA_NAME_BYTES - 1);
	CHECK(watch__mine()->count == 0);
}
RUN_TEST_BODY(names_are_kept_while_nobody_looks)

struct found {
	int notes;
	uintptr_t object, semaphore, probe;
};

static int look_for_note(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct found *f = (struct found *)arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + ph->p_vaddr, end = at + ph->p_memsz;

		if (ph->p_type != PT_NOTE)
			continue;
		while (end - at >= 12) {
			const uint32_t *n = (const uint32_t *)at;
			uintptr_t align = ph->p_align < 4 ? 4 : ph->p_align;
			const char *name = (const char *)(n + 3);
			uintptr_t desc = (at + 12 + n[0] + align - 1) & ~(align - 1);
			const int32_t *d = (const int32_t *)desc;

			if (n[0] == sizeof(CLIKA_NOTE_NAME) && !strcmp(name, CLIKA_NOTE_NAME)) {
				CHECK(n[1] == 16 && n[2] == CLIKA_NOTE_TYPE && d[0] == 1);
				f->notes++;
				f->object = (uintptr_t)&d[1] + (uintptr_t)(intptr_t)d[1];
				f->semaphore = (uintptr_t)&d[2] + (uintptr_t)(intptr_t)d[2];
				f->probe = (uintptr_t)&d[3] + (uintptr_t)(intptr_t)d[3];
			}
			at = (desc + n[1] + align - 1) & ~(align - 1);
		}
	}
	return 1; /* the program itself comes first */
}

static void allocated_note_leads_to_object_semaphore_and_probe(void **state)
{
	struct found f = { 0, 0, 0, 0 };

	(void)state;
	dl_iterate_phdr(look_for_note, &f);
	assert_int_equal(f.notes, 1);
	assert_true(f.object == (uintptr_t)&clika_object_v1);
	assert_true(f.semaphore == (uintptr_t)&clika_semaphore_v1);
	assert_true(f.probe == (uintptr_t)clika_batch_v1);
	assert_true(clika_object_v1.magic == CLIKA_OBJECT_MAGIC && clika_object_v1.abi == 1);
	assert_true(clika_object_v1.bytes == sizeof(struct clika_object));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_kept_while_nobody_looks),
		cmocka_unit_test(allocated_note_leads_to_object_semaphore_and_probe),
		cmocka_unit_test(marker_inside_a_marker_is_dropped_and_counted),
		cmocka_unit_test(nothing_is_lost_uncounted_under_a_storm_of_signals),
		cmocka_unit_test(child_of_fork_begins_with_a_buffer_of_its_own),
		cmocka_unit_test(child_finds_out_by_pid_where_memory_is_not_wiped),
		cmocka_unit_test(child_that_borrows_memory_hands_nothing_over),
		cmocka_unit_test(child_that_borrows_memory_makes_no_buffer),
		cmocka_unit_test(thread_that_ends_hands_over_and_leaves_its_buffer),
		cmocka_unit_test(buffers_made_at_once_are_all_listed_and_come_back_into_use),
		cmocka_unit_test(process_exit_hands_over),
	};

	whole_process = getpid();
	storm(SIG_BLOCK);
	if (watch__start() != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
