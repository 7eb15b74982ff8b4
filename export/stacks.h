/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans added up by the stack of spans they ran in: a tree whose size goes with distinct stacks,
 * not with spans. For formats that know call stacks and weights but no time.
 */
#ifndef CLIKA_EXPORT_STACKS_H
#define CLIKA_EXPORT_STACKS_H

#include "user/session/session.h"

/* More distinct stacks than this are added up as one, for each root. */
#define STACKS_MAX (1u << 20)
#define STACK_NONE UINT32_MAX

enum stacks_kind {
	STACKS_EXACT, /* a root for each thread; frames are told apart by name, category, source */
	STACKS_TEXT,  /* roots are processes, then threads; whatever reads the same is the same */
};

struct stack_frame { /* string ids of the recording */
	uint32_t name, cat, src;
};

/* At most STACKS_MAX of them: later ones are all frame 0, whose name says so. */
struct stack_frames {
	struct stack_frame *of;
	uint32_t n, cap;
	struct map64 *ops; /* name << 32 | cat -> number */
	struct map64 *at;  /* number << 32 | src -> frame */
};

int stack_frames__init(struct stack_frames *f);
void stack_frames__free(struct stack_frames *f);
/* STACK_NONE: out of memory. */
uint32_t stack_frames__of(struct stack_frames *f, const struct event *ev);
/* Its name as it is, for 0 "(more stacks)". */
const char *stack_frames__name(const struct stack_frames *f, const struct session *s,
			       uint32_t frame, size_t *len);

enum stack_role { STACK_PROCESS, STACK_THREAD, STACK_SPAN, STACK_OTHER };

struct stack_node {
	uint32_t parent; /* a node, STACK_NONE */
	/* STACKS_TEXT: string id of stacks.texts. STACKS_EXACT: of a span the index of its frame,
	 * of a thread that of its track, of other stacks frame 0. */
	uint32_t key;
	uint32_t newest; /* child looked up last */
	uint8_t role;    /* enum stack_role; STACK_OTHER: stacks beyond the limit */
	bool again;      /* a span inside one of the same operation */
	uint64_t calls, self_ns;
	uint64_t wall_ns; /* a recursive call counts once, for its outermost span */
	uint64_t allocs, alloc_bytes;
};

struct stacks_track {
	uint32_t root, top; /* nodes; STACK_NONE: not seen yet */
	uint32_t other;     /* node of stacks beyond the limit */
	uint32_t beyond;    /* open spans that have no node of their own */
};

struct stacks {
	const struct session *s;
	enum stacks_kind kind;
	char separator;           /* STACKS_TEXT: replaced in names by ':'; 0 = none */
	struct stack_node *nodes; /* parents before children */
	uint32_t n, cap, n_spans;
	struct stack_frames frames;
	struct strpool *texts;
	uint32_t *text_of; /* name -> its text; 0 = not asked yet */
	size_t n_names;
	struct stacks_track *tracks;
	struct map64 *children; /* parent << 32 | key -> node */
};

int stacks__init(struct stacks *st, const struct session *s, enum stacks_kind kind);
void stacks__free(struct stacks *st);
/* Any item of the walk; those that say nothing about stacks are passed over. */
int stacks__item(struct stacks *st, const struct item *it);

/* The node of the innermost open span, its thread's root when there is none. */
uint32_t stacks__top(struct stacks *st, const struct track *t);
const char *stacks__text(const struct stacks *st, uint32_t node);

/* "FILE:LINE" as the markers tell it; 0 when there is no line. @len of the file's name. */
uint32_t stacks__line(const char *src, size_t *len);

/* For names of processes and threads that have none. Clean text, never empty. */
void stacks__process_name(struct buf *out, const struct track *t);
void stacks__thread_name(struct buf *out, const struct track *t);

#endif
