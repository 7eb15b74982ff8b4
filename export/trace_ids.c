// SPDX-License-Identifier: Apache-2.0
#include "export/trace_ids.h"

#include <errno.h>
#include <stdlib.h>

/* Tracks come sorted by pid, start, image, then tid: tracks of one process are neighbours. */
static bool same_process(const struct track *a, const struct track *b)
{
	return a->process == b->process && a->proc == b->proc;
}

enum { FREE_FOR_MAIN = 1, TAKEN };

static int number_threads(struct trace_ids *ids, const struct session *s, uint32_t next)
{
	struct map64 *seen = map64__new();
	const struct track *t;
	uint64_t *state;
	int err = -ENOMEM;
	size_t i;

	if (!seen)
		return -ENOMEM;
	/* Viewers know the main thread by tid == pid, so no other thread may have such a number. */
	for (i = 0; i < ids->n; i++)
		if (ids->first[i] && !map64__put(seen, ids->pid[i], FREE_FOR_MAIN))
			goto out;
	for (i = 0; i < ids->n; i++) {
		t = session__track(s, i);
		ids->tid[i] = t->tid == t->pid ? ids->pid[i] : t->tid;
		state = map64__get(seen, ids->tid[i]);
		if (!ids->tid[i] || t->tid > TRACE_PID_MAX ||
		    (state && !(*state == FREE_FOR_MAIN && t->tid == t->pid)))
			ids->tid[i] = next++;
		if (!map64__put(seen, ids->tid[i], TAKEN))
			goto out;
	}
	err = 0;
out:
	map64__free(seen);
	return err;
}

int trace_ids__init(struct trace_ids *ids, const struct session *s)
{
	size_t i, n = session__n_tracks(s), room = n ? n : 1;
	const struct track *t, *prev = NULL;
	uint32_t next = TRACE_MADE_UP, image = 0;

	*ids = (struct trace_ids){
		.pid = calloc(room, sizeof(*ids->pid)),
		.tid = calloc(room, sizeof(*ids->tid)),
		.image = calloc(room, sizeof(*ids->image)),
		.first = calloc(room, sizeof(*ids->first)),
		.n = n,
	};
	if (!ids->pid || !ids->tid || !ids->image || !ids->first) {
		trace_ids__free(ids);
		return -ENOMEM;
	}
	for (i = 0; i < n; i++, prev = t) {
		t = session__track(s, i);
		if (prev && same_process(prev, t)) {
			ids->pid[i] = ids->pid[i - 1];
			ids->image[i] = image;
			continue;
		}
		ids->first[i] = true;
		image = prev && prev->pid == t->pid ? image + 1 : 1;
		ids->image[i] = image;
		ids->pid[i] = image > 1 || !t->pid || t->pid > TRACE_PID_MAX ? next++ : t->pid;
	}
	if (number_threads(ids, s, next)) {
		trace_ids__free(ids);
		return -ENOMEM;
	}
	return 0;
}

void trace_ids__free(struct trace_ids *ids)
{
	free(ids->pid);
	free(ids->tid);
	free(ids->image);
	free(ids->first);
	*ids = (struct trace_ids){ 0 };
}
