/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans added up by the path of names they ran in, over all threads. Memory goes with distinct
 * paths, at most CALL_TREE_MAX of them and CALL_TREE_DEPTH deep: what lies beyond is added up at
 * the last place that has a node.
 */
#ifndef CLIKA_EXPORT_REPORT_TREE_H
#define CLIKA_EXPORT_REPORT_TREE_H

#include "export/json_names.h"
#include "user/session/session.h"

#define CALL_TREE_MAX 65536
#define CALL_TREE_DEPTH 64
#define CALL_TREE_CHILDREN 50 /* written for each node; the rest as one */

struct call_node {
	uint32_t name, cat;
	uint32_t parent, child, next; /* nodes; 0 = none, node 0 is the root */
	/* What came then the last time, which most work repeats: as the first child, and after
	 * this one among its siblings. */
	uint32_t enter, follow;
	uint32_t children;
	uint32_t depth;
	uint64_t calls, total_ns, self_ns;
	uint64_t allocs, alloc_bytes;
	uint64_t rest_calls, rest_total_ns, rest_self_ns; /* of what has no node below this one */
};

struct call_place { /* of a track */
	uint32_t top;
	uint32_t last;   /* the node left last */
	uint32_t beyond; /* open spans that have no node */
};

struct call_tree {
	struct call_node *nodes;
	uint32_t n, cap;
	struct call_place *places;
	size_t n_places;
	struct map64 *ops;      /* name << 32 | cat -> number */
	struct map64 *children; /* parent << 32 | number of the operation -> node */
};

int call_tree__init(struct call_tree *t, const struct session *s);
void call_tree__free(struct call_tree *t);
int call_tree__item(struct call_tree *t, const struct item *it);
/* The value of the key that was just written. 0 or -ENOMEM. */
int call_tree__write(const struct call_tree *t, struct json *j, struct json_names *names);

#endif
