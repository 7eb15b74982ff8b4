/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of its own for a test program, and small target programs compiled into it. */
#ifndef CLIKA_TESTS_COMMON_SCRATCH_H
#define CLIKA_TESTS_COMMON_SCRATCH_H

#include <stddef.h>

/* Group setup and teardown of CMocka. */
int scratch__setup(void **state);
int scratch__teardown(void **state);

/* "DIR/NAME"; the strings live until the teardown. */
const char *scratch__path(const char *name);
const char *scratch__write(const char *name, const void *data, size_t n);
/*
 * Compiles @source as DIR/NAME with `cc` ("c++" when @flags begin with "c++ ") and @flags; fails
 * the test with the compiler's output when that does not work.
 */
const char *scratch__build(const char *name, const char *source, const char *flags);
/* Runs a shell command, fails the test when it fails. */
void scratch__run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
