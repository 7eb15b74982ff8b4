/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a JSON document by path, "ops.0.name". What is not there fails the test. */
#ifndef CLIKA_TESTS_JSON_PATH_H
#define CLIKA_TESTS_JSON_PATH_H

#include <cjson/cJSON.h>
#include <stdbool.h>

const cJSON *json__at(const cJSON *root, const char *path);
const char *json__text(const cJSON *root, const char *path);
double json__number(const cJSON *root, const char *path);
bool json__is_null(const cJSON *root, const char *path);
bool json__is_true(const cJSON *root, const char *path);
/* An exact number. */
#define assert_json(root, path, value)                                                             \
	assert_json_at(root, path, (double)(value), __FILE__, __LINE__)
void assert_json_at(const cJSON *root, const char *path, double value, const char *file, int line);

/* Within a millionth. */
#define assert_near(root, path, value) assert_near_at(root, path, value, __FILE__, __LINE__)
void assert_near_at(const cJSON *root, const char *path, double value, const char *file, int line);

#endif
