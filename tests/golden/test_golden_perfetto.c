// SPDX-License-Identifier: Apache-2.0
/*
 * Perfetto traces of the golden recordings, compared byte for byte with NAME.pftrace, which a
 * test with the real importer reads. CLIKA_GOLDEN_UPDATE=1 writes them anew.
 */
#include "include/clika/prof.h"
#include "tests/common/perfetto_text.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *path_of(const char *scene, const char *suffix)
{
	static char path[256];
	const char *slash = strrchr(__FILE__, '/');

	snprintf(path, sizeof(path), "%.*s/%s.%s", (int)(slash - __FILE__), __FILE__, scene,
		 suffix);
	return path;
}

static char *export_scene(const char *scene, size_t *len)
{
	struct clika_prof_error err = { 0 };
	struct clika_recording *r;
	char *data = NULL;

	if (clika_recording__open(path_of(scene, "clika"), NULL, &r, &err) ||
	    clika_recording__export_mem(r, "perfetto", NULL, &data, len, &err))
		fail_msg("%s: %s", scene, err.msg);
	clika_recording__close(r);
	return data;
}

static char *expected_of(const char *scene)
{
	struct recording *r;
	struct session *s;
	char *text;

	assert_int_equal(recording__open(path_of(scene, "clika"), &r, NULL), 0);
	assert_int_equal(session__new(r, NULL, &s, NULL), 0);
	text = perfetto__expected(s);
	session__free(s);
	recording__close(r);
	return text;
}

static void update(const char *scene, const char *data, size_t len)
{
	FILE *f = fopen(path_of(scene, "pftrace"), "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void run(void **state)
{
	const char *scene = *state;
	char *data, *kept = NULL, *seen, *expected;
	size_t len, n;

	data = export_scene(scene, &len);
	seen = perfetto__seen(data, len);
	expected = expected_of(scene);
	assert_string_equal(seen, expected);
	if (getenv("CLIKA_GOLDEN_UPDATE"))
		update(scene, data, len);
	assert_int_equal(file__read_all(AT_FDCWD, path_of(scene, "pftrace"), 16u << 20, &kept, &n),
			 0);
	assert_int_equal(n, len);
	assert_memory_equal(kept, data, len);
	free(kept);
	free(data);
	free(seen);
	free(expected);
}

#define SCENE(name) (void *)(uintptr_t)name

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "the_trace_of_a_serving_process_is_as_before", run, NULL, NULL,
		  SCENE("serving") },
		{ "the_trace_of_a_damaged_recording_is_as_before", run, NULL, NULL,
		  SCENE("repaired") },
		{ "the_trace_of_reused_pids_is_as_before", run, NULL, NULL, SCENE("images") },
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
