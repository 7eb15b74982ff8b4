// SPDX-License-Identifier: Apache-2.0
/* Any bytes as the payload of a request or an answer. What is taken for a session's request comes out the same again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/service/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void bounded(char *const *s, size_t n)
{
	if (n > PROTO_MAX_STRINGS || (n && !s))
		abort();
	for (size_t i = 0; i < n; i++)
		if (strlen(s[i]) > PROTO_MAX_STRING)
			abort();
}

static void as_new(const uint8_t *data, size_t size)
{
	struct cursor c = cursor__over(data, size);
	struct proto_new m;
	struct buf b = { 0 };

	if (proto__get_new(&c, &m)) {
		if (m.probes || m.usdts || m.recipes)
			abort();
		return;
	}
	bounded(m.probes, m.n_probes);
	bounded(m.usdts, m.n_usdts);
	bounded(m.recipes, m.n_recipes);
	proto__put_new(&b, &m);
	if (!buf__error(&b) &&
	    (b.len != size - cursor__left(&c) || memcmp(b.data, data, b.len) != 0))
		abort();
	buf__free(&b);
	proto_new__free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor__over(data, size);
	struct proto_session session;
	struct proto_stats stats;
	char **strings;
	size_t n;

	if (size > PROTO_MAX_MESSAGE)
		return 0;
	as_new(data, size);
	strings = proto__get_strings(&c, &n);
	free(proto__get_string(&c));
	bounded(strings, n);
	proto__free_strings(strings, n);
	c = cursor__over(data, size);
	proto__get_stats(&c, &stats);
	c = cursor__over(data, size);
	proto__get_session(&c, &session);
	return 0;
}
