// SPDX-License-Identifier: Apache-2.0
/* Values that markers carry: counters, and arguments whose names are known. */
#include "user/session/stats_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- counters -------------------------------------------------------------------------------- */

static void counter__add(struct counter_stats *c, int64_t i, double d, bool first)
{
	c->i.last = i;
	c->i.min = first || i < c->i.min ? i : c->i.min;
	c->i.max = first || i > c->i.max ? i : c->i.max;
	c->i.sum += i;
	c->d.last = d;
	c->d.min = first || d < c->d.min ? d : c->d.min;
	c->d.max = first || d > c->d.max ? d : c->d.max;
	c->d.sum += d;
}

int stats__counter(struct stats *st, const struct item *it)
{
	uint64_t key = (uint64_t)it->track->process << 32 | it->ev->name;
	bool fresh, real = it->ev->kind == EV_COUNTER_F64;
	size_t i = STATS_ROW(st, TABLE_COUNTERS, key, counters, n_counters, &fresh);
	struct counter_stats *c;
	double d;

	if (i == SIZE_MAX)
		return -ENOMEM;
	c = &st->counters[i];
	if (fresh) {
		c->track = it->track;
		c->name = it->ev->name;
	}
	memcpy(&d, &it->ev->value, sizeof(d));
	c->real |= real;
	if (real && !isfinite(d)) {
		c->not_finite++;
		return 0;
	}
	if (real)
		counter__add(c, 0, d, !c->n);
	else
		counter__add(c, (int64_t)it->ev->value, (double)(int64_t)it->ev->value, !c->n);
	c->n++;
	c->last_at = it->ts;
	return 0;
}

/* --- arguments ------------------------------------------------------------------------------- */

static const struct {
	const char *key;
	int role; /* enum op_text, ROLE_FLOPS */
} roles[STATS_ROLES] = {
	{ "flops", ROLE_FLOPS },           { "shape", OP_INPUT_SHAPE },
	{ "input_shape", OP_INPUT_SHAPE }, { "output_shape", OP_OUTPUT_SHAPE },
	{ "dtype", OP_INPUT_TYPE },        { "input_type", OP_INPUT_TYPE },
	{ "output_type", OP_OUTPUT_TYPE },
};

void stats__plan_args(struct stats *st)
{
	const struct strpool *names = session__names(st->s);
	struct stats_index *x = st->index;
	uint32_t id, n = strpool__count(names);
	const char *text;
	size_t i;

	for (id = 1; id <= n && x->n_roles < STATS_ROLES; id++) {
		text = strpool__str(names, id);
		for (i = 0; i < STATS_ROLES; i++)
			if (*text == *roles[i].key && !strcmp(text, roles[i].key))
				x->role[x->n_roles++] = (struct stats_role){ id, roles[i].role };
	}
}

static void add_flops(struct op_stats *op, const struct event_arg *a)
{
	uint64_t flops = a->u;

	if (a->type == ARG_F64) {
		if (!isfinite(a->f) || a->f < 0 || a->f >= 0x1p63)
			return;
		flops = (uint64_t)a->f;
	} else if (a->type == ARG_STR || (a->type == ARG_I64 && a->i < 0)) {
		return;
	}
	stats__add(&op->args.flops, flops);
	op->args.with_flops++;
}

static int add_text(struct op_stats *op, const struct event_arg *a, int role)
{
	char *known = op->args.text[role];

	if (a->type != ARG_STR || op->args.varies[role])
		return 0;
	if (known) {
		op->args.varies[role] = strlen(known) != a->len || memcmp(known, a->str, a->len);
		return 0;
	}
	op->args.text[role] = strndup(a->len ? a->str : "", a->len);
	return op->args.text[role] ? 0 : -ENOMEM;
}

int stats__args(struct stats *st, struct op_stats *op, const struct event *ev)
{
	const struct stats_index *x = st->index;
	size_t i, k;
	int err = 0;

	for (i = 0; !err && x->n_roles && i < ev->nargs; i++) {
		for (k = 0; k < x->n_roles && x->role[k].key != ev->args[i].key; k++)
			;
		if (k == x->n_roles)
			continue;
		if (x->role[k].role == ROLE_FLOPS)
			add_flops(op, &ev->args[i]);
		else
			err = add_text(op, &ev->args[i], x->role[k].role);
	}
	return err;
}
