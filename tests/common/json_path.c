// SPDX-License-Identifier: Apache-2.0
#include "tests/common/json_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const cJSON *json__at(const cJSON *root, const char *path)
{
	const char *p = path;
	char key[64];
	size_t len;

	while (root && *p) {
		len = strcspn(p, ".");
		if (len >= sizeof(key))
			break;
		memcpy(key, p, len);
		key[len] = '\0';
		root = cJSON_IsArray(root) ? cJSON_GetArrayItem(root, atoi(key))
					   : cJSON_GetObjectItemCaseSensitive(root, key);
		p += len + (p[len] == '.');
	}
	if (!root)
		fail_msg("there is no %s", path);
	return root;
}

const char *json__text(const cJSON *root, const char *path)
{
	const cJSON *v = json__at(root, path);

	if (!cJSON_IsString(v))
		fail_msg("%s is no text", path);
	return v->valuestring;
}

double json__number(const cJSON *root, const char *path)
{
	const cJSON *v = json__at(root, path);

	if (!cJSON_IsNumber(v))
		fail_msg("%s is no number", path);
	return v->valuedouble;
}

bool json__is_null(const cJSON *root, const char *path)
{
	return cJSON_IsNull(json__at(root, path));
}

bool json__is_true(const cJSON *root, const char *path)
{
	return cJSON_IsTrue(json__at(root, path));
}

void assert_json_at(const cJSON *root, const char *path, double value, const char *file, int line)
{
	double got = json__number(root, path);

	if (got == value)
		return;
	print_error("%s is %.17g instead of %.17g\n", path, got, value);
	_fail(file, line);
}

void assert_near_at(const cJSON *root, const char *path, double value, const char *file, int line)
{
	double got = json__number(root, path);

	if (got > value - 1e-6 && got < value + 1e-6)
		return;
	print_error("%s is %.17g instead of %.17g\n", path, got, value);
	_fail(file, line);
}
