// SPDX-License-Identifier: Apache-2.0
#include "export/report_tree.h"

#include <errno.h>
#include <stdlib.h>

static void add(uint64_t *sum, uint64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = UINT64_MAX;
}

int call_tree__init(struct call_tree *t, const struct session *s)
{
	size_t n = session__n_tracks(s);

	*t = (struct call_tree){
		.nodes = calloc(64, sizeof(*t->nodes)),
		.n = 1,
		.cap = 64,
		.places = calloc(n ? n : 1, sizeof(*t->places)),
		.n_places = n,
		.ops = map64__new(),
		.children = map64__new(),
	};
	return t->nodes && t->places && t->ops && t->children ? 0 : -ENOMEM;
}

void call_tree__free(struct call_tree *t)
{
	free(t->nodes);
	free(t->places);
	map64__free(t->ops);
	map64__free(t->children);
	*t = (struct call_tree){ 0 };
}

/* --- the sink ---------------------------------------------------------------------------------- */

static int node__new(struct call_tree *t, uint32_t parent, const struct event *ev, uint32_t *node)
{
	struct call_node *up, *n, *bigger;

	if (t->n == t->cap) {
		bigger = realloc(t->nodes, (size_t)t->cap * 2 * sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		t->nodes = bigger;
		t->cap *= 2;
	}
	up = &t->nodes[parent];
	n = &t->nodes[t->n];
	*n = (struct call_node){
		.name = ev->name,
		.cat = ev->cat,
		.parent = parent,
		.next = up->child,
		.depth = up->depth + 1,
	};
	up->child = t->n;
	up->children++;
	*node = t->n++;
	return 0;
}

static bool is_node_of(const struct call_tree *t, uint32_t node, const struct event *ev)
{
	return node && t->nodes[node].name == ev->name && t->nodes[node].cat == ev->cat;
}

/* The child of @parent for the event; 0: there is no room for it. */
static int child_of(struct call_tree *t, uint32_t parent, const struct event *ev, uint32_t *node)
{
	uint64_t op = (uint64_t)ev->name << 32 | ev->cat, key, *number, *at;

	*node = 0;
	number = map64__get(t->ops, op);
	if (!number) {
		if (t->n >= CALL_TREE_MAX)
			return 0;
		number = map64__put(t->ops, op, map64__count(t->ops));
	}
	if (!number)
		return -ENOMEM;
	key = (uint64_t)parent << 32 | *number;
	at = map64__get(t->children, key);
	if (at) {
		*node = (uint32_t)*at;
		return 0;
	}
	if (t->n >= CALL_TREE_MAX || t->nodes[parent].depth >= CALL_TREE_DEPTH)
		return 0;
	if (node__new(t, parent, ev, node) || !map64__put(t->children, key, *node))
		return -ENOMEM;
	return 0;
}

/* Where it stands which node is likely to come. */
static uint32_t *guess_of(const struct call_tree *t, const struct call_place *p)
{
	struct call_node *last = &t->nodes[p->last];

	return p->last && last->parent == p->top ? &last->follow : &t->nodes[p->top].enter;
}

static int span_begin(struct call_tree *t, const struct item *it)
{
	struct call_place *p = &t->places[it->track->index];
	uint32_t node, *guess;
	int err;

	if (p->beyond) {
		p->beyond++;
		return 0;
	}
	guess = guess_of(t, p);
	if (is_node_of(t, *guess, it->ev)) {
		p->top = *guess;
		return 0;
	}
	err = child_of(t, p->top, it->ev, &node);
	if (err)
		return err;
	if (!node) {
		p->beyond++;
		return 0;
	}
	*guess_of(t, p) = node; /* again: a new node may have moved them all */
	p->top = node;
	return 0;
}

static void span_end(struct call_tree *t, const struct item *it)
{
	struct call_place *p = &t->places[it->track->index];
	struct call_node *n = &t->nodes[p->top];

	if (p->beyond) {
		n->rest_calls++;
		add(&n->rest_self_ns, it->self_ns);
		if (p->beyond-- == 1)
			add(&n->rest_total_ns, it->ev->dur);
		return;
	}
	n->calls++;
	add(&n->total_ns, it->ev->dur);
	add(&n->self_ns, it->self_ns);
	p->last = p->top;
	p->top = n->parent;
}

int call_tree__item(struct call_tree *t, const struct item *it)
{
	struct call_node *n;

	if (it->kind == IT_SPAN_BEGIN)
		return span_begin(t, it);
	if (it->kind == IT_SPAN_END) {
		span_end(t, it);
	} else if (it->kind == IT_MEMORY && it->ev->kind == EV_ALLOC) {
		n = &t->nodes[t->places[it->track->index].top];
		n->allocs++;
		add(&n->alloc_bytes, it->bytes);
	}
	return 0;
}

/* --- writing ----------------------------------------------------------------------------------- */

static void pair(struct json *j, const char *key, uint64_t v)
{
	json__key(j, key);
	json__u64(j, v);
}

/* Sorting has no argument for the tree but this one. */
static int by_total(const void *a, const void *b, void *tree)
{
	const struct call_node *nodes = ((const struct call_tree *)tree)->nodes;
	const struct call_node *x = &nodes[*(const uint32_t *)a], *y = &nodes[*(const uint32_t *)b];

	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	if (x->calls != y->calls)
		return x->calls > y->calls ? -1 : 1;
	/* Nodes are numbered as they turned up, which is the same in every walk. */
	return x < y ? -1 : x > y;
}

struct rest {
	uint64_t names, calls, total_ns, self_ns;
};

/* All below a node that is not written itself. */
static void rest__add(struct rest *r, const struct call_tree *t, uint32_t node)
{
	const struct call_node *n = &t->nodes[node];
	uint32_t c;

	r->calls += n->calls + n->rest_calls;
	add(&r->self_ns, n->self_ns);
	add(&r->self_ns, n->rest_self_ns);
	for (c = n->child; c; c = t->nodes[c].next)
		rest__add(r, t, c);
}

static void write_rest(struct json *j, const struct rest *r)
{
	json__key(j, "other");
	if (!r->calls) {
		json__null(j);
		return;
	}
	json__object(j);
	pair(j, "paths", r->names);
	pair(j, "calls", r->calls);
	pair(j, "total_ns", r->total_ns);
	pair(j, "self_ns", r->self_ns);
	json__end_object(j);
}

static int write_children(const struct call_tree *t, struct json *j, struct json_names *names,
			  uint32_t node);

static int write_node(const struct call_tree *t, struct json *j, struct json_names *names,
		      uint32_t node)
{
	const struct call_node *n = &t->nodes[node];
	int err;

	json__line(j);
	json__object(j);
	json__key(j, "name");
	json_names__put(names, j, n->name);
	json__key(j, "category");
	if (n->cat)
		json_names__put(names, j, n->cat);
	else
		json__null(j);
	pair(j, "calls", n->calls);
	pair(j, "total_ns", n->total_ns);
	pair(j, "self_ns", n->self_ns);
	pair(j, "allocations", n->allocs);
	pair(j, "allocated_bytes", n->alloc_bytes);
	err = write_children(t, j, names, node);
	json__end_object(j);
	return err;
}

/* As deep as the tree, which is bounded. */
static int write_children(const struct call_tree *t, struct json *j, struct json_names *names,
			  uint32_t node)
{
	const struct call_node *n = &t->nodes[node];
	struct rest rest = { 0, n->rest_calls, n->rest_total_ns, n->rest_self_ns };
	uint32_t c, i, used = 0, *sorted = malloc((n->children + 1) * sizeof(*sorted));
	int err = 0;

	if (!sorted)
		return -ENOMEM;
	for (c = n->child; c; c = t->nodes[c].next)
		sorted[used++] = c;
	qsort_r(sorted, used, sizeof(*sorted), by_total, (void *)(uintptr_t)t);
	json__key(j, "children");
	json__array(j);
	for (i = 0; !err && i < used && i < CALL_TREE_CHILDREN; i++)
		err = write_node(t, j, names, sorted[i]);
	json__end_array(j);
	for (; i < used; i++) {
		rest.names++;
		add(&rest.total_ns, t->nodes[sorted[i]].total_ns);
		rest__add(&rest, t, sorted[i]);
	}
	write_rest(j, &rest);
	free(sorted);
	return err;
}

int call_tree__write(const struct call_tree *t, struct json *j, struct json_names *names)
{
	int err;

	json__object(j);
	pair(j, "nodes", t->n - 1);
	pair(j, "max_nodes", CALL_TREE_MAX - 1);
	pair(j, "max_depth", CALL_TREE_DEPTH);
	pair(j, "max_children", CALL_TREE_CHILDREN);
	err = write_children(t, j, names, 0);
	json__end_object(j);
	return err;
}
