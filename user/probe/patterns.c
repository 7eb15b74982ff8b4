// SPDX-License-Identifier: Apache-2.0
#include "user/probe/patterns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int probe_pattern__parse(const char *text, struct probe_pattern *p, struct clika_error *err)
{
	const char *colon = strchr(text, ':');

	memset(p, 0, sizeof(*p));
	p->text = text;
	if (!colon || colon == text || !colon[1] || colon[1] == ':')
		return error__set(err, -EINVAL,
				  "--probe '%s': give LIBRARY:FUNCTION, both may be globs, "
				  "like 'libllama*:llama_decode'",
				  text);
	p->lib = strndup(text, colon - text);
	p->func = strdup(colon + 1);
	if (!p->lib || !p->func) {
		probe_pattern__free(p);
		return error__set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

void probe_pattern__free(struct probe_pattern *p)
{
	free(p->lib);
	free(p->func);
	memset(p, 0, sizeof(*p));
}

/* "(0:str,2:str)" */
static int parse_strings(const char *text, const char *at, uint16_t *mask, struct clika_error *err)
{
	while (*at && *at != ')') {
		char *end;
		unsigned long n = strtoul(at, &end, 10);

		if (end == at || n >= WIRE_MAX_ARGS || strncmp(end, ":str", 4) != 0 ||
		    (end[4] != ',' && end[4] != ')'))
			return error__set(err, -EINVAL,
					  "--usdt '%s': arguments are told like (0:str,2:str), "
					  "numbered from 0 to %d",
					  text, WIRE_MAX_ARGS - 1);
		*mask |= 1u << n;
		at = end + 4 + (end[4] == ',');
	}
	if (at[0] != ')' || at[1])
		return error__set(err, -EINVAL,
				  "--usdt '%s': the argument list is not closed at the end", text);
	return 0;
}

int usdt_pattern__parse(const char *text, struct usdt_pattern *p, struct clika_error *err)
{
	const char *paren = strchr(text, '('), *first, *second;
	__cleanup_free char *head = NULL;
	int ret;

	memset(p, 0, sizeof(*p));
	p->text = text;
	head = paren ? strndup(text, paren - text) : strdup(text);
	if (!head)
		return error__set(err, -ENOMEM, "out of memory");
	if (paren) {
		ret = parse_strings(text, paren + 1, &p->str_mask, err);
		if (ret)
			return ret;
	}
	first = strchr(head, ':');
	second = first ? strchr(first + 1, ':') : NULL;
	if (!first || first == head || !first[1] || (second && (second == first + 1 || !second[1])))
		return error__set(err, -EINVAL,
				  "--usdt '%s': give PROVIDER:NAME or LIBRARY:PROVIDER:NAME, all "
				  "may be globs",
				  text);
	if (second) {
		p->lib = strndup(head, first - head);
		p->provider = strndup(first + 1, second - first - 1);
		p->name = strdup(second + 1);
	} else {
		p->provider = strndup(head, first - head);
		p->name = strdup(first + 1);
	}
	if (!p->provider || !p->name || (second && !p->lib)) {
		usdt_pattern__free(p);
		return error__set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

void usdt_pattern__free(struct usdt_pattern *p)
{
	free(p->lib);
	free(p->provider);
	free(p->name);
	memset(p, 0, sizeof(*p));
}

bool pattern__lib_matches(const char *glob, const char *path)
{
	const char *base = strrchr(path, '/');

	if (strchr(glob, '/'))
		return text__glob(glob, path);
	return text__glob(glob, base ? base + 1 : path);
}
