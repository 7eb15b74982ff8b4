// SPDX-License-Identifier: Apache-2.0
/* What is there: features, the doctor and the list of marked processes. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <clika/prof.h>

#include "tests/common/scratch.h"
#include "user/probe/features.h"

/* Runs @fn as nobody (root) or as it is (others); its value is the exit status. */
static int unprivileged(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
			_exit(100);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int probe_without_rights(void)
{
	struct clika_error err = { 0 };
	struct features f;
	char line[512];
	int rc = features__probe(&f, &err);

	if (!rc || f.load_bpf || f.cap_bpf || f.cap_perfmon || f.multi_uprobe || f.uprobe)
		return 1;
	if (!f.kernel[0])
		return 2;
	if (!features__missing(&f, line, sizeof(line)) || strcmp(line, err.msg) != 0)
		return 3;
	if (!strstr(line, "CAP_BPF") || !strstr(line, "CAP_PERFMON") || !strstr(line, "sudo") ||
	    !strstr(line, "setcap cap_bpf,cap_perfmon"))
		return 4;
	return 0;
}

static void says_without_rights_what_is_missing_and_how_to_get_it(void **state)
{
	(void)state;
	assert_int_equal(unprivileged(probe_without_rights), 0);
}

static void finds_what_root_can_do(void **state)
{
	struct clika_error err = { 0 };
	struct features f;
	char line[512];

	(void)state;
	if (geteuid() != 0)
		skip();
	if (features__probe(&f, &err)) {
		/* root of a container: then it must say so */
		assert_true(features__missing(&f, line, sizeof(line)));
		skip();
	}
	assert_true(f.load_bpf && f.cap_bpf && f.cap_perfmon && f.ringbuf);
	assert_false(features__missing(&f, line, sizeof(line)));
	assert_string_equal(line, "");
	if (f.multi_session)
		assert_true(f.multi_uprobe); /* came later */
	if (f.attach_cookie)
		assert_true(f.uprobe);
}

struct checks {
	int n, required_missing, bad;
	bool names_bpf;
};

static int note_check(void *ctx, const struct clika_check *c)
{
	struct checks *k = ctx;

	k->n++;
	k->required_missing += c->required && c->state == CLIKA_CHECK_MISSING;
	if (!c->name || !*c->name || !c->detail || !*c->detail)
		k->bad++;
	if (c->state == CLIKA_CHECK_OK ? c->advice != NULL : !c->advice || !*c->advice)
		k->bad++;
	if (strcmp(c->name, "BPF programs") == 0)
		k->names_bpf = c->state == CLIKA_CHECK_OK ||
			       (strstr(c->detail, "missing") && strstr(c->advice, "sudo"));
	return 0;
}

static int doctor_without_rights(void)
{
	struct checks k = { 0 };
	int missing = clika_doctor(note_check, &k);

	return k.n < 8 || k.bad || !k.names_bpf || missing < 1 || missing != k.required_missing;
}

static void the_doctor_gives_advice_for_all_that_is_missing(void **state)
{
	struct checks k = { 0 };

	(void)state;
	assert_int_equal(unprivileged(doctor_without_rights), 0);
	assert_int_equal(clika_doctor(note_check, &k), k.required_missing);
	assert_int_equal(k.bad, 0);
}

static int stop_at_once(void *ctx, const struct clika_check *c)
{
	(void)c;
	return ++*(int *)ctx;
}

static void the_doctor_stops_when_told(void **state)
{
	int calls = 0;

	(void)state;
	clika_doctor(stop_at_once, &calls);
	assert_int_equal(calls, 1);
}

/* --- list ------------------------------------------------------------------------------------- */

static const char marked[] = "#include <clika/markers.h>\n"
			     "void work(void);\n"
			     "void work(void) { CLIKA_SPAN(\"work\"); __asm__ volatile(\"\"); }\n";
static const char other[] = "#include <sys/sdt.h>\n"
			    "void acme(long x);\n"
			    "void acme(long x) { DTRACE_PROBE1(acme, second, x);"
			    " DTRACE_PROBE1(acme, first, x); DTRACE_PROBE1(acme, first, x); }\n";

static const char *marked_lib, *other_lib;

static void build(void)
{
	if (marked_lib)
		return;
	marked_lib = scratch__build("marked.so", marked, "-O2 -fPIC -shared -Wl,--build-id=sha1");
	other_lib = scratch__build("other.so", other, "-O2 -fPIC -shared");
}

static pid_t child_with_libraries(void)
{
	int ready[2];
	pid_t pid;
	char c;

	build();
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!dlopen(marked_lib, RTLD_NOW) || !dlopen(other_lib, RTLD_NOW) ||
		    write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

struct listed {
	pid_t want;
	int processes, wanted, objects;
	bool marked, other, bad;
	bool all;
};

static int note_process(void *ctx, const struct clika_marked_process *p)
{
	struct listed *l = ctx;
	size_t i;

	l->processes++;
	if (!p->comm || !p->exe || !p->cgroup || !p->container || !p->n_objects)
		l->bad = true;
	if (p->pid != l->want)
		return 0;
	l->wanted++;
	for (i = 0; i < p->n_objects; i++) {
		const struct clika_marked_object *o = &p->objects[i];

		l->objects++;
		if (strcmp(o->path, marked_lib) == 0)
			l->marked = o->batched && strlen(o->build_id) == 40 && !o->deleted;
		if (strcmp(o->path, other_lib) == 0)
			l->other = !o->batched && o->n_markers == 3 && o->n_marker_names == 2 &&
				   strcmp(o->markers[0], "acme:first") == 0 &&
				   strcmp(o->markers[1], "acme:second") == 0;
	}
	return 0;
}

static void lists_processes_with_clika_markers(void **state)
{
	struct clika_prof_error err = { 0 };
	struct listed l = { .want = child_with_libraries() };

	(void)state;
	assert_int_equal(clika_list(l.want, false, note_process, &l, &err), 0);
	assert_int_equal(l.processes, 1);
	assert_true(l.marked && !l.other && !l.bad);
	assert_int_equal(l.objects, 1);

	l = (struct listed){ .want = l.want };
	assert_true(clika_list(0, false, note_process, &l, &err) >= 0);
	assert_int_equal(l.wanted, 1);
	assert_true(l.marked && !l.bad);
	kill(l.want, SIGKILL);
	waitpid(l.want, NULL, 0);
}

static void lists_markers_of_all_providers_when_asked(void **state)
{
	struct clika_prof_error err = { 0 };
	struct listed l = { .want = child_with_libraries() };

	(void)state;
	assert_int_equal(clika_list(l.want, true, note_process, &l, &err), 0);
	assert_true(l.marked && l.other && !l.bad);
	kill(l.want, SIGKILL);
	waitpid(l.want, NULL, 0);
	assert_int_equal(clika_list(l.want, true, note_process, &l, &err), -ESRCH);
	assert_int_equal(err.code, -ESRCH);
	assert_non_null(strstr(err.msg, "no process"));
}

static int give_up(void *ctx, const struct clika_marked_process *p)
{
	(void)ctx;
	(void)p;
	return 42;
}

static void a_listing_stops_when_told(void **state)
{
	pid_t pid = child_with_libraries();

	(void)state;
	assert_int_equal(clika_list(pid, false, give_up, NULL, NULL), 42);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static pid_t of_root;

static int list_of_root(void)
{
	struct clika_prof_error err = { 0 };
	struct listed l = { .want = of_root };

	if (clika_list(of_root, false, note_process, &l, &err) != -EPERM)
		return 1;
	if (!strstr(err.msg, "sudo"))
		return 2;
	/* In a listing of all it is counted. */
	return clika_list(0, false, note_process, &l, &err) > 0 && !l.wanted ? 0 : 3;
}

static void counts_processes_that_may_not_be_looked_into(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	of_root = child_with_libraries();
	assert_int_equal(unprivileged(list_of_root), 0);
	kill(of_root, SIGKILL);
	waitpid(of_root, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_without_rights_what_is_missing_and_how_to_get_it),
		cmocka_unit_test(finds_what_root_can_do),
		cmocka_unit_test(the_doctor_gives_advice_for_all_that_is_missing),
		cmocka_unit_test(the_doctor_stops_when_told),
		cmocka_unit_test(lists_processes_with_clika_markers),
		cmocka_unit_test(lists_markers_of_all_providers_when_asked),
		cmocka_unit_test(a_listing_stops_when_told),
		cmocka_unit_test(counts_processes_that_may_not_be_looked_into),
	};

	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
