// SPDX-License-Identifier: Apache-2.0
/* emitted = recorded + lost: the kernel's counters and the decoder's, brought together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/prof/recorder.h"

static void cpu_losses(void *ctx, int cpu, const struct wire_stats *st)
{
	struct clika_recorder *r = ctx;

	for (unsigned cause = 1; cause < WL_CAUSES && cause < LOSS_CAUSE_COUNT; cause++) {
		struct loss_info l = { .process = UINT32_MAX,
				       .cpu = cpu,
				       .cause = cause,
				       .records = st->lost[cause] };

		if (l.records)
			writer__loss(r->w, &l);
	}
}

static void process_loss(void *ctx, const struct wire_loss_key *k, uint64_t n)
{
	struct clika_recorder *r = ctx;
	struct loss_info l = { .process = UINT32_MAX, .cpu = -1, .cause = k->cause, .records = n };
	struct person_process *proc = people__newest(r->people, k->tgid, k->start);
	char probe[600];

	if (proc)
		l.process = people__index(r->people, proc);
	else if (!k->probe)
		return; /* the row of the whole recording says it */
	if (k->probe && k->call) {
		const struct func_probe *f = files__func(r->files, k->probe - 1);

		snprintf(probe, sizeof(probe), "%s", f ? f->name : "?");
		l.probe = probe;
	} else if (k->probe) {
		const struct hit_site *h = files__hit(r->files, k->probe - 1);

		snprintf(probe, sizeof(probe), "%s:%s", h ? h->provider : "?", h ? h->name : "?");
		l.probe = probe;
	}
	writer__loss(r->w, &l);
}

static uint64_t kernel_lost(const struct wire_stats *st)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < WL_CAUSES; i++)
		n += st->lost[i];
	return n;
}

static void totals(const struct clika_recorder *r, const struct wire_stats *st,
		   struct count_info *c, uint64_t *unknown)
{
	const struct decoder_counts *n = decoder__counts(r->decoder);

	c->emitted = st->emitted + n->singles - n->duplicates - n->older_handed + n->uncounted +
		     n->harvested + n->target_dropped;
	c->lost = kernel_lost(st) + n->bad + n->target_dropped + r->env.refused;
	c->recorded = n->records - r->env.refused;
	c->filtered = n->hidden + r->env.filtered;
	/* The smallest record is 16 bytes long. */
	*unknown = st->unknown_bytes / 16;
}

void recorder__totals(const struct clika_recorder *r, struct count_info *c, uint64_t *unknown)
{
	struct wire_stats st;

	memset(c, 0, sizeof(*c));
	*unknown = 0;
	if (!attacher__stats(r->attacher, &st, NULL, NULL))
		totals(r, &st, c, unknown);
}

static void own_loss(struct clika_recorder *r, enum loss_cause cause, uint64_t records,
		     uint64_t at_most)
{
	struct loss_info l = { .process = UINT32_MAX,
			       .cpu = -1,
			       .cause = cause,
			       .records = records,
			       .at_most = at_most };

	/* Zero is said too: absence would not be zero. */
	writer__loss(r->w, &l);
}

void recorder__account(struct clika_recorder *r, bool final)
{
	const struct decoder_counts *n = decoder__counts(r->decoder);
	struct wire_stats st;
	struct count_info c = { 0 };
	uint64_t unknown;
	char text[300];

	if (attacher__stats(r->attacher, &st, cpu_losses, r))
		return;
	totals(r, &st, &c, &unknown);
	/* While programs run some records are between two counters; at the end nothing is. */
	if (!final)
		c.emitted = c.recorded + c.lost;
	writer__counts(r->w, &c);
	attacher__losses(r->attacher, process_loss, r);
	own_loss(r, LOSS_RING_FULL, st.lost[WL_RING_FULL], 0);
	own_loss(r, LOSS_READ_FAULT, st.lost[WL_READ_FAULT], unknown);
	own_loss(r, LOSS_BAD_RECORD, st.lost[WL_BAD_RECORD] + n->bad, 0);
	own_loss(r, LOSS_TARGET_DROPPED, n->target_dropped, 0);
	own_loss(r, LOSS_FILE_LIMIT, r->env.refused, 0);
	if (!final)
		return;
	if (c.emitted != c.recorded + c.lost) {
		snprintf(text, sizeof(text),
			 "the account does not come out even: emitted %llu, recorded %llu, "
			 "lost %llu",
			 (unsigned long long)c.emitted, (unsigned long long)c.recorded,
			 (unsigned long long)c.lost);
		writer__warning(r->w, "account", text);
		logger__log(&r->log, LOG_WARN, "account", "%s", text);
	}
	if (st.map_full) {
		snprintf(text, sizeof(text),
			 "a BPF map was full %llu times (targets, buffers, calls or blocks of "
			 "memory): processes beyond it are not recorded or not drained when they "
			 "are killed, and frees of some blocks are missing",
			 (unsigned long long)st.map_full);
		writer__warning(r->w, "map-full", text);
	}
	if (st.life_lost) {
		snprintf(text, sizeof(text),
			 "%llu notices of process life found no ring space: names and ends "
			 "of some threads may be missing",
			 (unsigned long long)st.life_lost);
		writer__warning(r->w, "life-lost", text);
	}
}
