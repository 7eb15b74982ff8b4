// SPDX-License-Identifier: Apache-2.0
#include "export/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How far out a span of the same operation is looked for: as the statistics do. */
#define RECURSION_LOOK 64

static const char UNNAMED[] = "(unnamed)";
static const char BEYOND[] = "(more stacks)";

int stacks__init(struct stacks *st, const struct session *s, enum stacks_kind kind)
{
	size_t i, n = session__n_tracks(s);

	*st = (struct stacks){
		.s = s,
		.kind = kind,
		.n_names = (size_t)strpool__count(session__names(s)) + 1,
		.texts = strpool__new(0, 0),
		.tracks = calloc(n ? n : 1, sizeof(*st->tracks)),
		.children = map64__new(),
	};
	st->text_of = calloc(st->n_names, sizeof(*st->text_of));
	if (stack_frames__init(&st->frames) || !st->texts || !st->tracks || !st->children ||
	    !st->text_of)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		st->tracks[i] = (struct stacks_track){ STACK_NONE, STACK_NONE, STACK_NONE, 0 };
	return 0;
}

void stacks__free(struct stacks *st)
{
	free(st->nodes);
	stack_frames__free(&st->frames);
	strpool__free(st->texts);
	free(st->text_of);
	free(st->tracks);
	map64__free(st->children);
	*st = (struct stacks){ 0 };
}

static void add(uint64_t *sum, uint64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = UINT64_MAX;
}

/* --- frames ------------------------------------------------------------------------------------ */

static void *grow(void *array, uint32_t n, uint32_t *cap, size_t bytes)
{
	void *bigger;

	if (n < *cap)
		return array;
	bigger = realloc(array, (*cap ? (size_t)*cap * 2 : 64) * bytes);
	if (bigger)
		*cap = *cap ? *cap * 2 : 64;
	return bigger;
}

int stack_frames__init(struct stack_frames *f)
{
	*f = (struct stack_frames){
		.of = calloc(64, sizeof(*f->of)),
		.n = 1,
		.cap = 64,
		.ops = map64__new(),
		.at = map64__new(),
	};
	return f->of && f->ops && f->at ? 0 : -ENOMEM;
}

void stack_frames__free(struct stack_frames *f)
{
	free(f->of);
	map64__free(f->ops);
	map64__free(f->at);
	*f = (struct stack_frames){ 0 };
}

uint32_t stack_frames__of(struct stack_frames *f, const struct event *ev)
{
	uint64_t op = (uint64_t)ev->name << 32 | ev->cat, *number = map64__get(f->ops, op), *at;
	struct stack_frame *bigger;

	at = number ? map64__get(f->at, *number << 32 | ev->src) : NULL;
	if (at)
		return (uint32_t)*at;
	if (f->n >= STACKS_MAX)
		return 0;
	if (!number)
		number = map64__put(f->ops, op, map64__count(f->ops));
	bigger = grow(f->of, f->n, &f->cap, sizeof(*bigger));
	if (!number || !bigger)
		return STACK_NONE;
	f->of = bigger;
	if (!map64__put(f->at, *number << 32 | ev->src, f->n))
		return STACK_NONE;
	f->of[f->n] = (struct stack_frame){ ev->name, ev->cat, ev->src };
	return f->n++;
}

const char *stack_frames__name(const struct stack_frames *f, const struct session *s,
			       uint32_t frame, size_t *len)
{
	uint32_t name = f->of[frame].name;

	*len = frame ? strpool__len(session__names(s), name) : sizeof(BEYOND) - 1;
	return frame ? session__str(s, name) : BEYOND;
}

/* --- text -------------------------------------------------------------------------------------- */

static uint32_t text__intern(struct stacks *st, const char *s, size_t len)
{
	struct buf b = { 0 };
	uint32_t id = 0;
	size_t i;

	text__append_printable(&b, s, len);
	for (i = 0; st->separator && i < b.len; i++)
		if (b.data[i] == (uint8_t)st->separator)
			b.data[i] = ':';
	if (!buf__error(&b))
		id = b.len ? strpool__id(st->texts, (const char *)b.data, b.len)
			   : strpool__ids(st->texts, UNNAMED);
	buf__free(&b);
	return id;
}

static uint32_t text__of_name(struct stacks *st, uint32_t name)
{
	if (name >= st->n_names)
		name = 0;
	if (!st->text_of[name])
		st->text_of[name] = text__intern(st, session__str(st->s, name),
						 strpool__len(session__names(st->s), name));
	return st->text_of[name];
}

void stacks__process_name(struct buf *out, const struct track *t)
{
	const char *name = t->proc->comm;

	if (name && *name)
		text__append_printable(out, name, strlen(name));
	else
		buf__printf(out, "pid %u", t->pid);
}

void stacks__thread_name(struct buf *out, const struct track *t)
{
	if (*t->name)
		text__append_printable(out, t->name, strlen(t->name));
	else
		buf__printf(out, "tid %u", t->tid);
}

uint32_t stacks__line(const char *src, size_t *len)
{
	size_t n = strlen(src), at = n;
	uint64_t line = 0;

	while (at && src[at - 1] >= '0' && src[at - 1] <= '9')
		at--;
	*len = n;
	if (at < 2 || at == n || n - at > 9 || src[at - 1] != ':')
		return 0;
	*len = at - 1;
	for (; at < n; at++)
		line = line * 10 + (uint64_t)(src[at] - '0');
	return (uint32_t)line;
}

const char *stacks__text(const struct stacks *st, uint32_t node)
{
	return strpool__str(st->texts, st->nodes[node].key);
}

/* --- nodes --------------------------------------------------------------------------------------- */

static uint32_t node__new(struct stacks *st, uint32_t parent, uint32_t key, enum stack_role role)
{
	struct stack_node *bigger = grow(st->nodes, st->n, &st->cap, sizeof(*bigger));

	if (!bigger)
		return STACK_NONE;
	st->nodes = bigger;
	st->nodes[st->n] = (struct stack_node){
		.parent = parent, .key = key, .newest = STACK_NONE, .role = (uint8_t)role
	};
	st->n_spans += role == STACK_SPAN;
	return st->n++;
}

static uint32_t node__child(struct stacks *st, uint32_t parent, uint32_t key, enum stack_role role)
{
	/* Roots of text have no parent: their keys lie beyond those of any node. */
	uint64_t id = (uint64_t)parent << 32 | key, *at = map64__get(st->children, id);
	uint32_t node;

	if (at)
		return (uint32_t)*at;
	node = node__new(st, parent, key, role);
	if (node == STACK_NONE || !map64__put(st->children, id, node))
		return STACK_NONE;
	return node;
}

static int track__start(struct stacks *st, const struct track *t)
{
	struct stacks_track *k = &st->tracks[t->index];
	uint32_t process, thread;
	struct buf b = { 0 };

	if (k->root != STACK_NONE)
		return 0;
	if (st->kind == STACKS_EXACT) {
		k->root = k->top = node__new(st, STACK_NONE, t->index, STACK_THREAD);
		return k->root == STACK_NONE ? -ENOMEM : 0;
	}
	stacks__process_name(&b, t);
	process = text__intern(st, (const char *)b.data, b.len);
	buf__reset(&b);
	stacks__thread_name(&b, t);
	thread = text__intern(st, (const char *)b.data, b.len);
	buf__free(&b);
	if (!process || !thread)
		return -ENOMEM;
	k->root = node__child(st, STACK_NONE, process, STACK_PROCESS);
	if (k->root != STACK_NONE)
		k->root = node__child(st, k->root, thread, STACK_THREAD);
	k->top = k->root;
	return k->root == STACK_NONE ? -ENOMEM : 0;
}

static bool same_op(const struct stacks *st, uint32_t a, uint32_t b)
{
	if (st->kind == STACKS_TEXT)
		return a == b;
	return st->frames.of[a].name == st->frames.of[b].name &&
	       st->frames.of[a].cat == st->frames.of[b].cat;
}

static bool inside_itself(const struct stacks *st, uint32_t node)
{
	const struct stack_node *n = &st->nodes[node];
	uint32_t p = n->parent;
	int i;

	for (i = 0; i < RECURSION_LOOK && p != STACK_NONE; i++, p = st->nodes[p].parent) {
		if (st->nodes[p].role != STACK_SPAN)
			break;
		if (same_op(st, st->nodes[p].key, n->key))
			return true;
	}
	return false;
}

static bool is_newest(const struct stacks *st, uint32_t node, const struct event *ev)
{
	const struct stack_frame *f;

	if (node == STACK_NONE)
		return false;
	if (st->kind == STACKS_TEXT)
		return ev->name < st->n_names && st->nodes[node].key == st->text_of[ev->name];
	f = &st->frames.of[st->nodes[node].key];
	return f->name == ev->name && f->cat == ev->cat && f->src == ev->src;
}

/* --- items ----------------------------------------------------------------------------------------- */

static int span_begin(struct stacks *st, const struct item *it)
{
	struct stacks_track *k = &st->tracks[it->track->index];
	uint32_t key, node;
	uint64_t *at;

	if (track__start(st, it->track))
		return -ENOMEM;
	if (k->beyond) {
		k->beyond++;
		return 0;
	}
	node = st->nodes[k->top].newest;
	if (is_newest(st, node, it->ev)) {
		k->top = node;
		return 0;
	}
	key = st->kind == STACKS_TEXT ? text__of_name(st, it->ev->name)
				      : stack_frames__of(&st->frames, it->ev);
	if (st->kind == STACKS_TEXT ? !key : key == STACK_NONE)
		return -ENOMEM;
	at = map64__get(st->children, (uint64_t)k->top << 32 | key);
	if (!at && st->n_spans >= STACKS_MAX) {
		if (k->other == STACK_NONE)
			k->other = st->kind == STACKS_TEXT
					   ? node__child(st, k->root,
							 strpool__ids(st->texts, BEYOND),
							 STACK_OTHER)
					   : node__new(st, k->root, 0, STACK_OTHER);
		k->beyond = 1;
		return k->other == STACK_NONE ? -ENOMEM : 0;
	}
	node = at ? (uint32_t)*at : node__child(st, k->top, key, STACK_SPAN);
	if (node == STACK_NONE)
		return -ENOMEM;
	if (!at)
		st->nodes[node].again = inside_itself(st, node);
	st->nodes[k->top].newest = node;
	k->top = node;
	return 0;
}

static void span_end(struct stacks *st, const struct item *it)
{
	struct stacks_track *k = &st->tracks[it->track->index];
	struct stack_node *n = &st->nodes[k->beyond ? k->other : k->top];

	n->calls++;
	add(&n->self_ns, it->self_ns);
	if (!n->again && k->beyond <= 1)
		add(&n->wall_ns, it->ev->dur);
	if (k->beyond)
		k->beyond--;
	else
		k->top = n->parent;
}

static int alloc(struct stacks *st, const struct item *it)
{
	struct stacks_track *k = &st->tracks[it->track->index];
	struct stack_node *n;

	if (track__start(st, it->track))
		return -ENOMEM;
	n = &st->nodes[k->beyond ? k->other : k->top];
	n->allocs++;
	add(&n->alloc_bytes, it->ev->value);
	return 0;
}

int stacks__item(struct stacks *st, const struct item *it)
{
	if (it->kind == IT_SPAN_BEGIN)
		return span_begin(st, it);
	if (it->kind == IT_SPAN_END)
		span_end(st, it);
	else if (it->kind == IT_MEMORY && it->ev->kind == EV_ALLOC)
		return alloc(st, it);
	return 0;
}

uint32_t stacks__top(struct stacks *st, const struct track *t)
{
	struct stacks_track *k = &st->tracks[t->index];

	if (track__start(st, t))
		return STACK_NONE;
	return k->beyond ? k->other : k->top;
}
