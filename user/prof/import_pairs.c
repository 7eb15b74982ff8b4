// SPDX-License-Identifier: Apache-2.0
#include "user/prof/import_pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A file of begins without ends fills neither memory nor time. */
#define MAX_OPEN 1000 /* of one thread */
#define MAX_OPEN_BYTES (64u << 20)

struct open_pair {
	char *text;
	size_t len;
	int64_t ts;
};

struct open_track {
	struct open_pair *pairs;
	uint32_t n, cap;
	uint32_t too_deep; /* begins that were not kept: so many ends are theirs */
};

struct import_pairs {
	struct open_track *tracks;
	size_t n_tracks, bytes;
	import_pair_fn fn;
	void *ctx;
	uint64_t left_out;
};

struct import_pairs *import_pairs__new(size_t n_tracks, import_pair_fn fn, void *ctx)
{
	struct import_pairs *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct import_pairs){ .n_tracks = n_tracks, .fn = fn, .ctx = ctx };
	p->tracks = calloc(n_tracks ? n_tracks : 1, sizeof(*p->tracks));
	if (!p->tracks) {
		free(p);
		return NULL;
	}
	return p;
}

void import_pairs__free(struct import_pairs *p)
{
	size_t i;

	if (!p)
		return;
	for (i = 0; i < p->n_tracks; i++) {
		while (p->tracks[i].n)
			free(p->tracks[i].pairs[--p->tracks[i].n].text);
		free(p->tracks[i].pairs);
	}
	free(p->tracks);
	free(p);
}

uint64_t import_pairs__left_out(const struct import_pairs *p)
{
	return p->left_out;
}

static struct json_text text_of(const struct open_pair *o)
{
	return (struct json_text){ o->text, o->text + o->len };
}

int import_pairs__begin(struct import_pairs *p, size_t track, struct json_text event, int64_t ts)
{
	struct open_track *t = &p->tracks[track];
	size_t len = (size_t)(event.end - event.p);
	struct open_pair *bigger;
	char *text;

	if (t->too_deep || t->n == MAX_OPEN || p->bytes + len > MAX_OPEN_BYTES) {
		t->too_deep++;
		p->left_out++;
		return 0;
	}
	if (t->n == t->cap) {
		bigger = realloc(t->pairs, ((size_t)t->cap * 2 + 8) * sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		t->pairs = bigger;
		t->cap = t->cap * 2 + 8;
	}
	text = malloc(len ? len : 1);
	if (!text)
		return -ENOMEM;
	memcpy(text, event.p, len);
	t->pairs[t->n++] = (struct open_pair){ text, len, ts };
	p->bytes += len;
	return 0;
}

static int hand_out(struct import_pairs *p, size_t track, struct json_text end, int64_t ts)
{
	struct open_track *t = &p->tracks[track];
	struct open_pair *o = &t->pairs[--t->n];
	struct import_pair pair = { track, t->n, text_of(o), end, o->ts, ts };
	int err = 0;

	if (ts < o->ts)
		p->left_out += end.p ? 2 : 1;
	else
		err = p->fn(p->ctx, &pair);
	p->bytes -= o->len;
	free(o->text);
	return err;
}

static bool same_name(struct json_text a, struct json_text b)
{
	size_t len = (size_t)(a.end - a.p);

	return a.p && b.p && len == (size_t)(b.end - b.p) && !memcmp(a.p, b.p, len);
}

/* How many begins are open up to the one that @event ends, 0 = none of them is. */
static uint32_t depth_of(const struct open_track *t, struct json_text event)
{
	struct json_text name = json_text__member(event, "name");
	uint32_t i;

	if (!name.p || name.end - name.p <= 2) /* an end needs none */
		return t->n;
	for (i = t->n; i; i--)
		if (same_name(name, json_text__member(text_of(&t->pairs[i - 1]), "name")))
			return i;
	return 0;
}

int import_pairs__end(struct import_pairs *p, size_t track, struct json_text event, int64_t ts)
{
	struct open_track *t = &p->tracks[track];
	uint32_t depth;
	int err = 0;

	if (t->too_deep) {
		t->too_deep--;
		p->left_out++;
		return 0;
	}
	depth = depth_of(t, event);
	if (!depth) {
		p->left_out++;
		return 0;
	}
	while (!err && t->n > depth)
		err = hand_out(p, track, (struct json_text){ 0 }, ts);
	return err ? err : hand_out(p, track, event, ts);
}

int import_pairs__finish(struct import_pairs *p, int64_t ts)
{
	size_t i;
	int err = 0;

	for (i = 0; i < p->n_tracks; i++)
		while (!err && p->tracks[i].n)
			err = hand_out(p, i, (struct json_text){ 0 }, ts);
	return err;
}
