// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/scratch.h"

static char dir[256];
static char *paths[512];
static size_t n_paths;

int scratch__setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(dir, sizeof(dir), "%s/clika-test.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

int scratch__teardown(void **state)
{
	char line[300];

	(void)state;
	while (n_paths)
		free(paths[--n_paths]);
	snprintf(line, sizeof(line), "rm -rf '%s'", dir);
	return system(line) == 0 ? 0 : -1;
}

const char *scratch__path(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_true(n_paths < sizeof(paths) / sizeof(paths[0]));
	paths[n_paths] = strdup(path);
	assert_non_null(paths[n_paths]);
	return paths[n_paths++];
}

const char *scratch__write(const char *name, const void *data, size_t n)
{
	const char *path = scratch__path(name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	return path;
}

void scratch__run(const char *fmt, ...)
{
	char line[4096];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	assert_true(n > 0 && (size_t)n < sizeof(line));
	if (system(line) != 0)
		fail_msg("failed: %s", line);
}

const char *scratch__build(const char *name, const char *source, const char *flags)
{
	int cxx = strncmp(flags, "c++ ", 4) == 0;
	const char *cc = getenv(cxx ? "CXX" : "CC");
	char file[128];
	const char *out = scratch__path(name), *in;

	if (!cc || !*cc)
		cc = cxx ? "c++" : "cc";
	snprintf(file, sizeof(file), "%s.%s", name, cxx ? "cpp" : "c");
	in = scratch__write(file, source, strlen(source));
	scratch__run("%s -Iinclude -I. -o '%s' '%s' %s", cc, out, in, cxx ? flags + 4 : flags);
	return out;
}
