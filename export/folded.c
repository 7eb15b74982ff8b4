// SPDX-License-Identifier: Apache-2.0
/*
 * Folded stacks: "process;thread;span;span NANOSECONDS", one line a distinct stack with time of
 * its own, sorted by bytes. The format has no escapes: what would split a line or a frame is
 * replaced before stacks are told apart, so that no stack has two lines.
 */
#include "export/exporter.h"
#include "export/stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Lines are sorted without being kept: what follows a frame in a line is known, ' ' and the
 * number in its own line, ';' in those of its children. Each is an entry, and the entries of one
 * parent are sorted by the bytes they will begin with.
 */
struct entry {
	uint32_t node;
	bool own;
	const char *text;
	size_t len;
	char after[24]; /* " 123\n" or ";" */
};

struct level {
	struct entry *entries;
	size_t n, next;
	size_t prefix; /* length of the line up to here */
};

struct folded {
	struct stacks st;
	struct outfile *out;
	struct buf line;
	uint32_t *first, *sibling; /* children by node; [n] holds the roots */
	struct level *levels;
	size_t n_levels, cap_levels;
};

static int by_bytes(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	size_t n = x->len < y->len ? x->len : y->len;
	int c = memcmp(x->text, y->text, n);

	if (c)
		return c;
	if (x->len == y->len)
		return strcmp(x->after, y->after);
	if (x->len < y->len)
		return strncmp(x->after, y->text + n, y->len - n);
	return -strncmp(y->after, x->text + n, x->len - n);
}

static int folded__index(struct folded *f)
{
	uint32_t i, at, n = f->st.n;

	f->first = malloc(((size_t)n + 1) * sizeof(*f->first));
	f->sibling = malloc(((size_t)n + 1) * sizeof(*f->sibling));
	if (!f->first || !f->sibling)
		return -ENOMEM;
	for (i = 0; i <= n; i++)
		f->first[i] = STACK_NONE;
	for (i = 0; i < n; i++) {
		at = f->st.nodes[i].parent == STACK_NONE ? n : f->st.nodes[i].parent;
		f->sibling[i] = f->first[at];
		f->first[at] = i;
	}
	return 0;
}

static void entry__set(struct entry *e, const struct folded *f, uint32_t node, bool own)
{
	e->node = node;
	e->own = own;
	e->text = stacks__text(&f->st, node);
	e->len = strlen(e->text);
	if (own)
		snprintf(e->after, sizeof(e->after), " %llu\n",
			 (unsigned long long)f->st.nodes[node].self_ns);
	else
		memcpy(e->after, ";", 2);
}

/* The children of @parent become the innermost level. */
static int level__open(struct folded *f, uint32_t parent)
{
	struct level *bigger, *l;
	uint32_t i;
	size_t n = 0;

	if (f->n_levels == f->cap_levels) {
		size_t cap = f->cap_levels ? f->cap_levels * 2 : 64;

		bigger = realloc(f->levels, cap * sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		f->levels = bigger;
		f->cap_levels = cap;
	}
	for (i = f->first[parent]; i != STACK_NONE; i = f->sibling[i])
		n += (f->st.nodes[i].self_ns > 0) + (f->first[i] != STACK_NONE);
	l = &f->levels[f->n_levels];
	*l = (struct level){ .prefix = f->line.len };
	l->entries = malloc((n ? n : 1) * sizeof(*l->entries));
	if (!l->entries)
		return -ENOMEM;
	f->n_levels++;
	for (i = f->first[parent]; i != STACK_NONE; i = f->sibling[i]) {
		if (f->st.nodes[i].self_ns)
			entry__set(&l->entries[l->n++], f, i, true);
		if (f->first[i] != STACK_NONE)
			entry__set(&l->entries[l->n++], f, i, false);
	}
	qsort(l->entries, l->n, sizeof(*l->entries), by_bytes);
	return 0;
}

static int folded__close(void *state, struct clika_error *err)
{
	struct folded *f = state;
	const struct entry *e;
	struct level *l;
	int code = folded__index(f);

	(void)err;
	if (!code)
		code = level__open(f, f->st.n);
	while (!code && f->n_levels) {
		l = &f->levels[f->n_levels - 1];
		f->line.len = l->prefix;
		if (l->next == l->n) {
			free(l->entries);
			f->n_levels--;
			continue;
		}
		e = &l->entries[l->next++];
		/* Readers take a line that begins so for a comment. */
		if (!f->line.len && *e->text == '#')
			buf__printf(&f->line, "\\x23%s%s", e->text + 1, e->after);
		else
			buf__printf(&f->line, "%s%s", e->text, e->after);
		code = buf__error(&f->line);
		if (!code)
			code = e->own ? outfile__write(f->out, f->line.data, f->line.len)
				      : level__open(f, e->node);
	}
	return code;
}

static int folded__item(void *state, const struct item *it)
{
	struct folded *f = state;

	return stacks__item(&f->st, it);
}

static void folded__free(void *state)
{
	struct folded *f = state;

	while (f->n_levels)
		free(f->levels[--f->n_levels].entries);
	free(f->levels);
	free(f->first);
	free(f->sibling);
	buf__free(&f->line);
	stacks__free(&f->st);
	free(f);
}

static int folded__open(struct session *s, struct outfile *out, const struct export_opts *o,
			void **state, struct clika_error *err)
{
	struct folded *f = calloc(1, sizeof(*f));

	(void)o;
	if (!f)
		return error__set(err, -ENOMEM, "out of memory");
	*state = f;
	f->out = out;
	if (stacks__init(&f->st, s, STACKS_TEXT))
		return error__set(err, -ENOMEM, "out of memory");
	f->st.separator = ';';
	return 0;
}

const struct exporter_ops exporter_folded = {
	.format = "folded",
	.file = "stacks.folded",
	.summary = "folded stacks of spans with their self time, for flame graph tools",
	.open = folded__open,
	.item = folded__item,
	.close = folded__close,
	.free = folded__free,
};
