/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of a recording in their JSON form, made when first written and kept. */
#ifndef CLIKA_EXPORT_JSON_NAMES_H
#define CLIKA_EXPORT_JSON_NAMES_H

#include "export/json_emit.h"
#include "user/session/session.h"

struct json_name;

struct json_names {
	const struct session *s;
	struct json_name *of; /* by string id */
	size_t n;
};

int json_names__init(struct json_names *names, const struct session *s);
void json_names__free(struct json_names *names);
void json_names__put(struct json_names *names, struct json *j, uint32_t id);
/* With @prefix in front; made anew each time. */
void json_names__put_prefixed(const struct json_names *names, struct json *j, const char *prefix,
			      uint32_t id);
/* As a key. */
void json_names__key(struct json_names *names, struct json *j, uint32_t id);

#endif
