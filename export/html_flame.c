// SPDX-License-Identifier: Apache-2.0
/* Spans added up by their stacks, the widest of them. */
#include "export/html_parts.h"

#include <errno.h>
#include <stdlib.h>

static void add(uint64_t *sum, uint64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = UINT64_MAX;
}

static int larger_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x > y ? -1 : x < y;
}

/* What at most HTML_MAX_FRAMES exceed. Nothing exceeds what it lies in, so parents stay. */
static uint64_t limit_of(const uint64_t *time, uint32_t n)
{
	uint64_t *sorted, limit = 0;

	if (n <= HTML_MAX_FRAMES)
		return 0;
	sorted = malloc(n * sizeof(*sorted));
	if (!sorted)
		return UINT64_MAX;
	for (uint32_t i = 0; i < n; i++)
		sorted[i] = time[i];
	qsort(sorted, n, sizeof(*sorted), larger_first);
	limit = sorted[HTML_MAX_FRAMES];
	free(sorted);
	return limit;
}

static uint32_t number_nodes(struct html *h, const uint64_t *time, uint32_t *number)
{
	uint64_t limit = limit_of(time, h->stacks.n);
	uint32_t i, n = 0;

	for (i = 0; i < h->stacks.n; i++)
		number[i] = time[i] > limit ? n++ : STACK_NONE;
	return n;
}

/* By node: its parent, its role, its text, calls, own time. All time is own time and children's. */
static void put_nodes(struct html *h, const uint32_t *number)
{
	const struct stacks *st = &h->stacks;
	uint32_t i;

	json__key(&h->j, "nodes");
	json__array(&h->j);
	for (i = 0; i < st->n; i++) {
		const struct stack_node *n = &st->nodes[i];
		const char *text = stacks__text(st, i);
		uint32_t parent = n->parent == STACK_NONE ? STACK_NONE : number[n->parent];

		if (number[i] == STACK_NONE)
			continue;
		json__i64(&h->j, parent == STACK_NONE ? -1 : (int64_t)parent);
		json__u64(&h->j, n->role);
		json__u64(&h->j, html__cstr_id(h, text, strpool__len(st->texts, n->key)));
		json__u64(&h->j, n->calls);
		json__u64(&h->j, n->self_ns);
	}
	json__end_array(&h->j);
}

static void put_times(struct html *h, const uint64_t *time, const uint32_t *number)
{
	uint32_t i;

	json__key(&h->j, "times");
	json__array(&h->j);
	for (i = 0; i < h->stacks.n; i++)
		if (number[i] != STACK_NONE)
			json__u64(&h->j, time[i]);
	json__end_array(&h->j);
}

void html__put_flame(struct html *h)
{
	struct stacks *st = &h->stacks;
	uint64_t *time = calloc(st->n ? st->n : 1, sizeof(*time)), hidden = 0;
	uint32_t *number = calloc(st->n ? st->n : 1, sizeof(*number)), i;

	if (!time || !number) {
		h->err = h->err ? h->err : -ENOMEM;
		goto out;
	}
	for (i = st->n; i--;) { /* children have higher numbers than their parents */
		add(&time[i], st->nodes[i].self_ns);
		if (st->nodes[i].parent != STACK_NONE)
			add(&time[st->nodes[i].parent], time[i]);
	}
	number_nodes(h, time, number);
	for (i = 0; i < st->n; i++)
		hidden += number[i] == STACK_NONE && time[i];
	json__key(&h->j, "flame");
	json__object(&h->j);
	put_nodes(h, number);
	put_times(h, time, number);
	html__u64(h, "hidden", hidden);
	json__end_object(&h->j);
	html__flush(h);
out:
	free(time);
	free(number);
}
