// SPDX-License-Identifier: Apache-2.0
#include "export/html_keep.h"

#include <errno.h>
#include <stdlib.h>

int keep__init(struct keep *k, size_t n_streams, uint64_t room)
{
	*k = (struct keep){ .n = n_streams, .room = room, .recount = room + room / 2 };
	k->streams = calloc(n_streams ? n_streams : 1, sizeof(*k->streams));
	return k->streams ? 0 : -ENOMEM;
}

void keep__free(struct keep *k)
{
	size_t i, o;

	for (i = 0; k->streams && i < k->n; i++) {
		for (o = 0; k->streams[i].bytes && o < KEEP_OCTAVES; o++)
			free(k->streams[i].bytes[o]);
		free(k->streams[i].bytes);
	}
	free(k->streams);
	*k = (struct keep){ 0 };
}

uint32_t keep__class(uint64_t dur)
{
	unsigned int octave;

	if (dur < 16)
		return (uint32_t)dur;
	octave = 63 - (unsigned int)__builtin_clzll(dur);
	return (octave - 3) * 16 + (uint32_t)(dur >> (octave - 4) & 15);
}

uint64_t keep__shortest(uint32_t class)
{
	if (class < 16)
		return class;
	return (uint64_t)(16 + class % 16) << (class / 16 - 1);
}

int keep__admit(struct keep *k, size_t stream, uint32_t class, size_t bytes)
{
	struct keep_stream *s = &k->streams[stream];

	if (!s->bytes) {
		s->bytes = calloc(KEEP_OCTAVES, sizeof(*s->bytes));
		if (!s->bytes)
			return -ENOMEM;
	}
	if (!s->bytes[class / 16]) {
		s->bytes[class / 16] = calloc(16, sizeof(**s->bytes));
		if (!s->bytes[class / 16])
			return -ENOMEM;
	}
	s->bytes[class / 16][class % 16] += bytes;
	s->all += bytes;
	if (class < s->least)
		return 0;
	k->held += bytes;
	if (k->held > k->recount)
		keep__recount(k, k->room);
	return class >= s->least;
}

/* How much each stream may have at most, so that all together fill the room. */
static uint64_t share_of(const struct keep *k, uint64_t room)
{
	uint64_t lo = 0, hi = room, mid, sum = 0;
	size_t i;

	for (i = 0; i < k->n; i++)
		sum += k->streams[i].all;
	if (sum <= room)
		return room;
	while (lo < hi) {
		mid = lo + (hi - lo + 1) / 2;
		for (sum = 0, i = 0; i < k->n; i++)
			sum += k->streams[i].all < mid ? k->streams[i].all : mid;
		if (sum <= room)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

void keep__recount(struct keep *k, uint64_t room)
{
	uint64_t share = share_of(k, room), sum, *of;
	struct keep_stream *s;
	uint32_t class;
	size_t i;

	k->held = 0;
	for (i = 0; i < k->n; i++) {
		s = &k->streams[i];
		if (!s->all)
			continue;
		sum = 0;
		for (class = KEEP_CLASSES; class > s->least; class --) {
			of = s->bytes[(class - 1) / 16];
			if (of && sum + of[(class - 1) % 16] > share)
				break;
			sum += of ? of[(class - 1) % 16] : 0;
		}
		s->least = class;
		k->held += sum;
	}
	k->recount = k->held + room / 2;
}
