// SPDX-License-Identifier: Apache-2.0
/* Balances of memory by (process, device); blocks are known by address while they live. */
#include "user/session/walk.h"

#include <errno.h>

struct block {
	struct id_entry e; /* domain: device */
	uint64_t bytes, ts, captures;
	uint32_t pool, name, cat;
	bool in_span, shown;
};

struct id_table *memory__new_blocks(size_t n_processes)
{
	return id_table__new(sizeof(struct block), n_processes);
}

static struct balance *balance_of(struct walk *w, uint32_t process, uint32_t device)
{
	struct balance *b = id_table__get(w->balances, process, 0, device);

	return b ? b : id_table__put(w->balances, process, 0, device);
}

static void sum__add(int64_t *sum, int64_t bytes)
{
	/* Sizes are the target's word: absurd ones stop at the end of the scale. */
	if (__builtin_add_overflow(*sum, bytes, sum))
		*sum = bytes > 0 ? INT64_MAX : 0;
	if (*sum < 0)
		*sum = 0;
}

static int64_t clamp_bytes(uint64_t bytes)
{
	return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

static void tell_block(const struct block *k, struct item *it)
{
	it->alloc_ts = k->ts;
	it->alloc_pool = k->pool;
	it->alloc_name = k->name;
	it->alloc_cat = k->cat;
	it->alloc_in_span = k->in_span;
	it->alloc_shown = k->shown;
	it->alloc_captures = k->captures;
}

static int take(struct walk *w, struct id_table *blocks, uint32_t process, int64_t *sum,
		struct item *it, bool shown)
{
	const struct event *ev = it->ev;
	struct block *k = id_table__get(blocks, process, ev->aux, ev->id);

	it->bytes = ev->value;
	if (k) { /* was freed unseen: nobody hands out the same memory twice */
		sum__add(sum, -clamp_bytes(k->bytes));
		it->replaced = true;
		it->replaced_bytes = k->bytes;
		tell_block(k, it);
	} else {
		if (id_table__count(blocks) >= MAX_BLOCKS_ALIVE) {
			id_table__del(blocks, id_table__oldest(blocks));
			w->s->counts.forgotten++;
		}
		k = id_table__put(blocks, process, ev->aux, ev->id);
		if (!k)
			return -ENOMEM;
	}
	k->bytes = ev->value;
	k->ts = ev->ts;
	k->captures = it->captures;
	k->pool = ev->pool;
	k->in_span = it->span;
	k->name = it->span ? it->span->ev.name : 0;
	k->cat = it->span ? it->span->ev.cat : 0;
	k->shown = shown;
	sum__add(sum, clamp_bytes(ev->value));
	return 0;
}

static void give(struct id_table *blocks, uint32_t process, int64_t *sum, struct item *it)
{
	struct block *k = id_table__get(blocks, process, it->ev->aux, it->ev->id);

	if (!k) {
		it->older = true;
		return;
	}
	it->bytes = k->bytes;
	tell_block(k, it);
	sum__add(sum, -clamp_bytes(k->bytes));
	id_table__del(blocks, k);
}

int memory__event(struct walk *w, struct walk_track *wt, const struct event *ev)
{
	bool pool = ev->kind == EV_RESERVE || ev->kind == EV_RELEASE;
	uint64_t mask = span__point_mask(w, wt);
	uint32_t process = walk__process(w, wt);
	/* Pools take memory from a device and hand it on: one address may live in both. */
	struct id_table *blocks = pool ? w->reserved_blocks : w->blocks;
	struct balance *b;
	struct item it;
	int64_t *sum;
	bool shown;
	int err = 0;

	if (walk__first_pass(w))
		return 0;
	b = balance_of(w, process, ev->aux);
	if (!b)
		return -ENOMEM;
	sum = pool ? &b->reserved : &b->current;
	walk__item(w, wt, IT_MEMORY, ev, mask, &it);
	shown = walk__shows(w, wt, mask) && (!w->s->name_glob || it.span);
	if (ev->kind == EV_ALLOC || ev->kind == EV_RESERVE)
		err = take(w, blocks, process, sum, &it, shown);
	else
		give(blocks, process, sum, &it);
	if (err)
		return err;
	it.current = b->current;
	it.reserved = b->reserved;
	if (!shown)
		return 0;
	w->s->counts.memory++;
	return walk__emit(w, &it);
}

void memory__close_process(struct walk *w, uint32_t process)
{
	void *k;

	while ((k = id_table__oldest_of(w->blocks, process)))
		id_table__del(w->blocks, k);
	while ((k = id_table__oldest_of(w->reserved_blocks, process)))
		id_table__del(w->reserved_blocks, k);
	while ((k = id_table__oldest_of(w->balances, process)))
		id_table__del(w->balances, k);
}
