// SPDX-License-Identifier: Apache-2.0
/* Spans too many to be told one by one: merged into slots of time. */
#include "export/html_spans.h"

#include <errno.h>
#include <stdlib.h>

/* Of all rows together in a page. */
#define MAX_SLOTS_WRITTEN (1u << 16)

/* *@row is NULL when there is no room for more. */
static int row_of(struct html_spans *h, uint32_t stream, uint32_t depth, struct html_row **row)
{
	uint64_t key = (uint64_t)stream << 8 | depth, *at = map64__get(h->row_of, key);
	struct html_slot *slots;

	*row = at ? &h->rows[*at] : NULL;
	if (at || h->n_rows == HTML_MAX_ROWS)
		return 0;
	slots = calloc(HTML_SLOTS, sizeof(*slots));
	if (!slots || !map64__put(h->row_of, key, h->n_rows)) {
		free(slots);
		return -ENOMEM;
	}
	*row = &h->rows[h->n_rows++];
	**row = (struct html_row){ stream, depth, slots };
	return 0;
}

static uint32_t slot_of(const struct html_spans *h, uint64_t at)
{
	uint64_t from = at > h->begin ? at - h->begin : 0;

	if (from >= h->length)
		return HTML_SLOTS - 1;
	return (uint32_t)((unsigned __int128)from * HTML_SLOTS / h->length);
}

static uint64_t start_of(const struct html_spans *h, uint32_t slot)
{
	/* Rounded up: the first moment whose slot it is. */
	return h->begin +
	       (uint64_t)(((unsigned __int128)slot * h->length + HTML_SLOTS - 1) / HTML_SLOTS);
}

int html_spans__merge(struct html_spans *h, uint32_t stream, uint32_t depth, uint64_t at,
		      uint64_t dur, uint32_t op)
{
	uint32_t first = slot_of(h, at), last = slot_of(h, at + (dur ? dur - 1 : 0)), i;
	struct html_row *row;
	uint64_t from, to;
	int err = row_of(h, stream, depth, &row);

	h->unplaced += !err && !row;
	if (err || !row)
		return err;
	row->slots[first].count++;
	for (i = first; i <= last; i++) {
		struct html_slot *slot = &row->slots[i];

		from = i == first ? at : start_of(h, i);
		to = i == last ? at + dur : start_of(h, i + 1);
		slot->busy += to > from ? to - from : 0;
		if (dur >= slot->longest) {
			slot->longest = dur;
			slot->op = op;
		}
	}
	return 0;
}

static void join(struct html_slot *to, const struct html_slot *from)
{
	to->count += from->count;
	to->busy += from->busy;
	if (from->longest > to->longest) {
		to->longest = from->longest;
		to->op = from->op;
	}
}

/* Slots that hold something: how many they lie behind the one before, and what they hold. */
static void put_row(struct html_spans *h, const struct html_row *row, unsigned int log2,
		    struct buf *out)
{
	uint32_t n = HTML_SLOTS >> log2, i, k, before = 0, used = 0;
	struct html_slot all[HTML_SLOTS];

	for (i = 0; i < n; i++) {
		all[i] = row->slots[i << log2];
		for (k = 1; k < 1u << log2; k++)
			join(&all[i], &row->slots[(i << log2) + k]);
		used += all[i].count || all[i].busy;
	}
	buf__u8(out, 2);
	buf__varint(out, row->stream);
	buf__varint(out, row->depth);
	buf__varint(out, n);
	buf__varint(out, used);
	for (i = 0; i < n; i++) {
		if (!all[i].count && !all[i].busy)
			continue;
		buf__varint(out, i - before);
		before = i;
		buf__varint(out, all[i].count);
		/* In thousandths of the slot. */
		buf__varint(out, (uint64_t)((double)all[i].busy * n * 1000 /
					    (double)(h->length ? h->length : 1)));
		buf__varint(out, all[i].op);
		buf__varint(out, all[i].longest);
	}
}

uint64_t html_spans__in_rows(const struct html_spans *h)
{
	uint64_t n = 0;
	uint32_t i, k;

	for (i = 0; i < h->n_rows; i++)
		for (k = 0; k < HTML_SLOTS; k++)
			n += h->rows[i].slots[k].count;
	return n;
}

void html_spans__put_rows(struct html_spans *h, struct buf *out)
{
	unsigned int log2 = 0;
	uint32_t i;

	while (h->n_rows * (HTML_SLOTS >> log2) > MAX_SLOTS_WRITTEN)
		log2++;
	for (i = 0; i < h->n_rows; i++)
		put_row(h, &h->rows[i], log2, out);
}
