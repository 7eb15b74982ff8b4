// SPDX-License-Identifier: Apache-2.0
#include "user/stream/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LITERAL 512
#define MAX_LITERALS (1u << 20)

struct names {
	struct strpool *pool;
	const struct files *files;
	const char *const *filters;
	size_t n_filters;
	bool has_keep;            /* some filter is not an exclusion */
	struct map64 *by_literal; /* file and displacement -> index in ids */
	struct name_ids *ids;
	size_t n_ids, cap_ids;
	struct name_ids none;
	/* A batch is full of few names: a small direct-mapped cache before the map. */
	struct {
		uint64_t key;
		uint32_t index;
	} recent[256];
};

struct names *names__new(struct strpool *pool, const struct files *files,
			 const char *const *filters, size_t n_filters)
{
	struct names *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->pool = pool;
	n->files = files;
	n->filters = filters;
	n->n_filters = n_filters;
	for (size_t i = 0; i < n_filters; i++)
		n->has_keep |= filters[i][0] != '!';
	n->by_literal = map64__new();
	if (!n->by_literal) {
		names__free(n);
		return NULL;
	}
	return n;
}

void names__free(struct names *n)
{
	if (!n)
		return;
	map64__free(n->by_literal);
	free(n->ids);
	free(n);
}

bool names__hidden(const struct names *n, const char *name)
{
	bool kept = !n->has_keep;

	for (size_t i = 0; i < n->n_filters; i++) {
		if (n->filters[i][0] == '!') {
			if (text__glob(n->filters[i] + 1, name))
				return true;
		} else if (text__glob(n->filters[i], name)) {
			kept = true;
		}
	}
	return !kept;
}

/* @vaddr: what displacements of @simple markers count from; those of batched ones do from their object. */
static struct name_ids names__read(struct names *n, uint32_t file, bool simple, uint64_t vaddr,
				   int32_t disp)
{
	const struct probed_file *pf = files__get(n->files, file);
	struct name_ids ids = { 0 };
	char text[MAX_LITERAL + 1];
	const char *part[3] = { "", "", "" };
	size_t len = 0, at = 0;

	if (pf && !simple)
		vaddr = pf->batched ? pf->note.object_vaddr : 0;
	if (pf && vaddr)
		len = elf_file__read(pf->elf, vaddr + (int64_t)disp, text, MAX_LITERAL);
	text[len] = 0;
	for (int i = 0; i < 3 && at < len; i++) {
		part[i] = text + at;
		at += strlen(text + at) + 1;
	}
	/* An empty name is one; no text at all is none. */
	if (!len) {
		snprintf(text, sizeof(text), "(no name at %+d)", disp);
		part[0] = text;
		part[1] = part[2] = "";
	}
	ids.name = strpool__ids(n->pool, part[0]);
	ids.cat = *part[1] ? strpool__ids(n->pool, part[1]) : 0;
	ids.src = *part[2] ? strpool__ids(n->pool, part[2]) : 0;
	ids.hidden = names__hidden(n, part[0]);
	return ids;
}

static const struct name_ids *names__at(struct names *n, uint32_t file, bool simple, uint64_t vaddr,
					int32_t disp)
{
	uint64_t at = simple ? vaddr + (uint64_t)(int64_t)disp : (uint32_t)disp;
	uint64_t key = (uint64_t)simple << 63 | (uint64_t)file << 44 | (at & 0xfffffffffff), *v;
	size_t slot = (uint32_t)disp / 8 % ARRAY_SIZE(n->recent);

	if (!disp)
		return &n->none;
	/* Keys are stored plus one so that an empty slot matches nothing. */
	if (n->recent[slot].key == key + 1)
		return &n->ids[n->recent[slot].index];
	v = map64__get(n->by_literal, key);
	if (!v) {
		/* Displacements come from the target: it may invent as many as it likes. */
		if (n->n_ids >= MAX_LITERALS)
			return &n->none;
		if (n->n_ids == n->cap_ids) {
			size_t cap = n->cap_ids ? n->cap_ids * 2 : 256;
			struct name_ids *more = realloc(n->ids, cap * sizeof(*more));

			if (!more)
				return &n->none;
			n->ids = more;
			n->cap_ids = cap;
		}
		n->ids[n->n_ids] = names__read(n, file, simple, vaddr, disp);
		v = map64__put(n->by_literal, key, n->n_ids);
		if (!v)
			return &n->none;
		n->n_ids++;
	}
	n->recent[slot].key = key + 1;
	n->recent[slot].index = *v;
	return &n->ids[*v];
}

const struct name_ids *names__literal(struct names *n, uint32_t file, int32_t disp)
{
	return names__at(n, file, false, 0, disp);
}

const struct name_ids *names__simple_literal(struct names *n, uint32_t file, uint64_t vaddr,
					     int32_t disp)
{
	return names__at(n, file, true, vaddr, disp);
}

struct name_ids names__text(struct names *n, const char *s, size_t len)
{
	struct name_ids ids = { .name = strpool__id(n->pool, s, len) };

	ids.hidden = n->n_filters && names__hidden(n, strpool__str(n->pool, ids.name));
	return ids;
}

struct strpool *names__pool(struct names *n)
{
	return n->pool;
}
