// SPDX-License-Identifier: Apache-2.0
/* Schemas of the JSON files that are ours; they are files of the tree, embedded. */
#include "clika/prof.h"

#include "user/base/embed.h"

#include <string.h>

extern const struct embed embed_report_schema_json, embed_memory_stats_schema_json,
	embed_diff_schema_json, embed_recipe_schema_json;

static const struct {
	const char *name;
	const struct embed *file;
} schemas[] = {
	{ "report", &embed_report_schema_json },
	{ "memory", &embed_memory_stats_schema_json },
	{ "diff", &embed_diff_schema_json },
	{ "recipe", &embed_recipe_schema_json },
};

const char *clika_schema__name(size_t i)
{
	return i < sizeof(schemas) / sizeof(schemas[0]) ? schemas[i].name : NULL;
}

const char *clika_schema(const char *name)
{
	size_t i;

	for (i = 0; clika_schema__name(i); i++)
		if (!strcmp(schemas[i].name, name))
			return schemas[i].file->data;
	return NULL;
}
