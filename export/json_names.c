// SPDX-License-Identifier: Apache-2.0
#include "export/json_names.h"

#include <errno.h>
#include <stdlib.h>

struct json_name {
	char *text;
	uint32_t len;
};

int json_names__init(struct json_names *names, const struct session *s)
{
	names->s = s;
	names->n = (size_t)strpool__count(session__names(s)) + 1;
	names->of = calloc(names->n, sizeof(*names->of));
	return names->of ? 0 : -ENOMEM;
}

void json_names__free(struct json_names *names)
{
	size_t i;

	for (i = 0; names->of && i < names->n; i++)
		free(names->of[i].text);
	free(names->of);
	names->of = NULL;
}

static struct json_name *name_of(struct json_names *names, struct json *j, uint32_t id)
{
	struct json_name *e = &names->of[id < names->n ? id : 0];
	struct buf b = { 0 };

	if (e->text)
		return e;
	json__escape(&b, session__str(names->s, id), strpool__len(session__names(names->s), id));
	if (buf__error(&b)) {
		j->err = j->err ? j->err : -ENOMEM;
		buf__free(&b);
		return NULL;
	}
	e->text = (char *)b.data;
	e->len = (uint32_t)b.len;
	return e;
}

void json_names__put(struct json_names *names, struct json *j, uint32_t id)
{
	const struct json_name *e = name_of(names, j, id);

	if (e)
		json__raw(j, e->text, e->len);
	else
		json__str(j, "", 0);
}

void json_names__key(struct json_names *names, struct json *j, uint32_t id)
{
	const struct json_name *e = name_of(names, j, id);

	if (e)
		json__raw_key(j, e->text, e->len);
	else
		json__key(j, "");
}

void json_names__put_prefixed(const struct json_names *names, struct json *j, const char *prefix,
			      uint32_t id)
{
	struct buf b = { 0 };

	buf__printf(&b, "%s", prefix);
	buf__append(&b, session__str(names->s, id), strpool__len(session__names(names->s), id));
	if (buf__error(&b))
		j->err = j->err ? j->err : -ENOMEM;
	else
		json__str(j, (const char *)b.data, b.len);
	buf__free(&b);
}
