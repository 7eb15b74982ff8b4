// SPDX-License-Identifier: Apache-2.0
/* What is wanted on one file: clika markers, other markers, functions; attached family by family. */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIKA_ABI_ONLY
#include <clika/markers.h>

#include "user/probe/files_internal.h"

#define PROVIDER "clika"
#define BATCH_NAME "batch"

/* The simple transport's markers: docs/markers.md. */
static const struct simple_marker {
	const char *name;
	uint8_t rec_kind;
	uint8_t n_args;
	uint16_t str_mask;
	uint8_t args_at;
} simple_markers[] = {
	{ "span_begin", CLIKA_REC_BEGIN, 2, 3, 0 },
	{ "span_begin_args", CLIKA_REC_BEGIN, 4, 3, 3 },
	{ "span_end", CLIKA_REC_END, 0, 0, 0 },
	{ "span_end_args", CLIKA_REC_END, 2, 0, 1 },
	{ "instant", CLIKA_REC_INSTANT, 2, 3, 0 },
	{ "instant_args", CLIKA_REC_INSTANT, 4, 3, 3 },
	{ "counter_i64", CLIKA_REC_COUNTER_I64, 2, 1, 0 },
	{ "counter_f64", CLIKA_REC_COUNTER_F64, 2, 1, 0 },
	{ "async_begin", CLIKA_REC_ASYNC_BEGIN, 2, 1, 0 },
	{ "async_begin_args", CLIKA_REC_ASYNC_BEGIN, 4, 1, 3 },
	{ "async_end", CLIKA_REC_ASYNC_END, 2, 1, 0 },
	{ "async_end_args", CLIKA_REC_ASYNC_END, 4, 1, 3 },
	{ "flow_out", CLIKA_REC_FLOW_OUT, 2, 1, 0 },
	{ "flow_step", CLIKA_REC_FLOW_STEP, 2, 1, 0 },
	{ "flow_in", CLIKA_REC_FLOW_IN, 2, 1, 0 },
	{ "request_begin", CLIKA_REC_REQUEST_BEGIN, 2, 1, 0 },
	{ "request_begin_args", CLIKA_REC_REQUEST_BEGIN, 4, 1, 3 },
	{ "request_first", CLIKA_REC_REQUEST_FIRST, 2, 1, 0 },
	{ "request_output", CLIKA_REC_REQUEST_OUTPUT, 3, 1, 0 },
	{ "request_end", CLIKA_REC_REQUEST_END, 2, 1, 0 },
	{ "request_end_args", CLIKA_REC_REQUEST_END, 4, 1, 3 },
	{ "alloc", CLIKA_REC_ALLOC, 4, 8, 0 },
	{ "free", CLIKA_REC_FREE, 2, 0, 0 },
	{ "reserve", CLIKA_REC_RESERVE, 4, 8, 0 },
	{ "release", CLIKA_REC_RELEASE, 2, 0, 0 },
	{ "thread_name", CLIKA_REC_THREAD_NAME, 1, 1, 0 },
	{ "queue_name", CLIKA_REC_QUEUE_NAME, 2, 2, 0 },
	{ "device_name", CLIKA_REC_DEVICE_NAME, 2, 2, 0 },
	{ "process_label", CLIKA_REC_PROCESS_LABEL, 1, 1, 0 },
	{ "capture_begin", CLIKA_REC_CAPTURE_BEGIN, 1, 1, 0 },
	{ "capture_end", CLIKA_REC_CAPTURE_END, 1, 1, 0 },
};

/* Probe sites on their way to the kernel. */
int site_list__add(struct site_list *l, uint64_t offset, uint64_t semaphore, uint64_t cookie)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 16;
		struct probe_site *more = realloc(l->sites, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		l->sites = more;
		l->cap = cap;
	}
	l->sites[l->n++] = (struct probe_site){ offset, semaphore, cookie };
	return 0;
}

void files__warn(struct files *f, const char *code, const char *fmt, ...)
{
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	logger__log(f->o.log, LOG_WARN, "attach", "%s", text);
	if (f->o.warn)
		f->o.warn(f->o.warn_ctx, code, text);
}

struct hit_plan {
	struct files *f;
	struct probed_file *p;
	struct site_list sites;
	int err;
};

static int attach_batch(struct files *f, struct probed_file *p, struct clika_error *err)
{
	struct probe_site site = { p->note.probe_offset, p->note.semaphore_offset, p->number };
	int ret = attacher__attach(f->o.attacher, PROBE_BATCH, p->fd, &site, 1, f->o.only_pid, err);

	if (ret < 0)
		return error__prefix(err, "%s", p->path);
	f->n_sites++;
	return 1;
}

static void hit__refused(void *ctx, const struct probe_site *s, int why)
{
	struct refusals *r = ctx;
	const struct hit_site *h = &r->f->hits[(uint32_t)s->cookie];

	r->n++;
	files__warn(r->f, "marker-refused", "%s: marker %s:%s at offset 0x%llx is left out: %s",
		    r->p->path, h->provider, h->name, (unsigned long long)s->offset,
		    attacher__reason(why));
}

/* --- single-hit markers ---------------------------------------------------------------------- */

/* Any of them may carry its time behind its arguments, and what has a name its literal behind that. */
static const struct simple_marker *simple__find(const char *name, int n_args)
{
	for (size_t i = 0; i < ARRAY_SIZE(simple_markers); i++) {
		const struct simple_marker *m = &simple_markers[i];

		if (!strcmp(m->name, name) && n_args >= m->n_args &&
		    n_args <= m->n_args + 1 + !!m->str_mask)
			return m;
	}
	return NULL;
}

/* The usual recipe of our own markers: value i in argument register i. */
static bool specs__are_arguments(uint16_t machine, const struct wire_spec *specs, int n)
{
	static const uint16_t x86[] = { 112, 104, 96, 88, 72, 64 }; /* rdi rsi rdx rcx r8 r9 */

	for (int i = 0; i < n; i++) {
		uint16_t reg = i < 6 && machine == EM_X86_64 ? x86[i] : (uint16_t)(8 * i);

		if (i >= 6 || specs[i].kind != SPEC_REG || specs[i].bytes != 8 ||
		    specs[i].reg != reg)
			return false;
	}
	return true;
}

static int hit__add(struct hit_plan *pl, const struct usdt_site *u, const struct wire_spec *specs,
		    int n, const struct simple_marker *m, uint16_t str_mask)
{
	struct files *f = pl->f;
	struct wire_site ws = { .kind = m ? SITE_MARKER : SITE_USDT };
	int n_vals = m ? m->n_args : n;
	struct hit_site *h;
	int ret;

	if (f->n_hits >= attacher__max_sites(f->o.attacher))
		return -ENOSPC;
	if (f->n_hits == f->cap_hits) {
		size_t cap = f->cap_hits ? f->cap_hits * 2 : 32;
		struct hit_site *more = realloc(f->hits, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		f->hits = more;
		f->cap_hits = cap;
	}
	h = &f->hits[f->n_hits];
	memset(h, 0, sizeof(*h));
	h->role = m ? ROLE_MARKER : ROLE_USDT;
	h->file = pl->p->number;
	h->n_args = ws.n_specs = n_vals;
	if (n > n_vals)
		ws.time_at = n_vals + 1;
	if (n > n_vals + 1 && u->semaphore_vaddr) {
		ws.literal_at = n_vals + 2;
		h->literals_vaddr = u->semaphore_vaddr;
	}
	if (m) {
		h->rec_kind = m->rec_kind;
		h->with_args = m->args_at != 0;
		str_mask = m->str_mask;
		ws.args_at = m->args_at;
	}
	h->str_mask = ws.str_mask = str_mask & ((1u << n_vals) - 1);
	for (int i = 0; i < n_vals; i++) {
		if (!(ws.str_mask & (1u << i)))
			continue;
		if (ws.n_strs < 2)
			ws.str_at[ws.n_strs] = i;
		ws.n_strs++;
	}
	ws.in_regs = specs__are_arguments(elf_file__ident(pl->p->elf)->machine, specs, n);
	memcpy(ws.specs, specs, n * sizeof(*specs));
	for (int i = 0; i < n_vals; i++)
		h->is_signed[i] = specs[i].is_signed;
	h->provider = strdup(u->provider);
	h->name = strdup(u->name);
	if (!h->provider || !h->name) {
		free(h->provider);
		free(h->name);
		return -ENOMEM;
	}
	ret = attacher__site_set(f->o.attacher, f->n_hits, &ws);
	if (!ret)
		ret = site_list__add(&pl->sites, u->pc_offset, u->semaphore_offset, f->n_hits);
	f->n_hits++;
	return ret;
}

static int usdt__wanted(struct hit_plan *pl, const struct usdt_site *u, uint16_t *str_mask)
{
	int wanted = 0;

	for (size_t i = 0; i < pl->f->o.n_usdts; i++) {
		struct usdt_pattern *pat = &pl->f->usdts[i];

		if ((pat->lib && !pattern__lib_matches(pat->lib, pl->p->path)) ||
		    !text__glob(pat->provider, u->provider) || !text__glob(pat->name, u->name))
			continue;
		pat->matched++;
		*str_mask |= pat->str_mask;
		wanted = 1;
	}
	return wanted;
}

static int plan_usdt(void *ctx, const struct usdt_site *u)
{
	struct hit_plan *pl = ctx;
	bool ours = !strcmp(u->provider, PROVIDER);
	struct wire_spec specs[WIRE_MAX_ARGS];
	const struct simple_marker *m = NULL;
	struct clika_error err = { 0 };
	uint16_t str_mask = 0;
	int n, ret;

	if (ours && (!strcmp(u->name, BATCH_NAME) || !pl->f->o.markers))
		return 0;
	if (!ours && !usdt__wanted(pl, u, &str_mask))
		return 0;
	if (u->refusal) {
		files__warn(pl->f, "marker-refused", "%s: marker %s:%s: %s", pl->p->path,
			    u->provider, u->name, u->refusal);
		return 0;
	}
	if (!u->is_nop) {
		files__warn(
			pl->f, "marker-refused",
			"%s: marker %s:%s is not on a nop that is safe to probe%s", pl->p->path,
			u->provider, u->name,
			u->is_nop5
				? " (a 5-byte nop: probing it would overwrite the target's stack)"
				: "");
		return 0;
	}
	n = argspec__parse(elf_file__ident(pl->p->elf)->machine, u->args, specs, &err);
	if (n < 0) {
		files__warn(pl->f, "marker-refused", "%s: marker %s:%s: %s", pl->p->path,
			    u->provider, u->name, err.msg);
		return 0;
	}
	if (ours) {
		m = simple__find(u->name, n);
		if (!m) {
			files__warn(pl->f, "marker-unknown",
				    "%s: marker clika:%s with %d arguments is not one "
				    "of this version's",
				    pl->p->path, u->name, n);
			return 0;
		}
	}
	ret = hit__add(pl, u, specs, n, m, str_mask);
	if (ret == -ENOSPC) {
		files__warn(pl->f, "too-many-markers",
			    "%s: more than %u single-hit markers: the rest is "
			    "left out",
			    pl->p->path, attacher__max_sites(pl->f->o.attacher));
		return 1;
	}
	pl->err = ret;
	return ret;
}

static int attach_hits(struct files *f, struct probed_file *p, struct clika_error *err)
{
	struct hit_plan pl = { .f = f, .p = p };
	struct refusals refused = { .f = f, .p = p };
	int ret;

	if (!f->o.markers && !f->o.n_usdts)
		return 0;
	ret = elf_file__usdts(p->elf, plan_usdt, &pl, err);
	if (ret < 0) {
		files__warn(f, "bad-notes", "%s: %s", p->path, err ? err->msg : strerror(-ret));
		ret = 0;
	} else {
		ret = pl.err;
	}
	if (!ret && pl.sites.n)
		ret = attacher__attach_some(f->o.attacher, PROBE_HIT, p->fd, pl.sites.sites,
					    pl.sites.n, f->o.only_pid, hit__refused, &refused, err);
	if (ret >= 0) {
		p->n_hits = pl.sites.n - refused.n;
		f->n_sites += p->n_hits;
		ret = p->n_hits;
	}
	free(pl.sites.sites);
	return ret;
}

int files__attach(struct files *f, struct probed_file *p, struct clika_error *err)
{
	int sites = 0, ret;

	if (f->o.markers) {
		ret = elf_file__clika(p->elf, &p->note, err);
		if (ret < 0) {
			files__warn(f, "bad-notes", "%s: %s", p->path,
				    err ? err->msg : strerror(-ret));
		} else if (ret > 0 && p->note.abi != CLIKA_ABI_VERSION) {
			files__warn(f, "marker-version",
				    "%s: markers of ABI %u, this loader knows %u", p->path,
				    p->note.abi, CLIKA_ABI_VERSION);
		} else if (ret > 0) {
			ret = attach_batch(f, p, err);
			if (ret < 0)
				return ret;
			p->batched = true;
			sites += ret;
		}
	}
	/* What is attached already stays: one family's trouble is a warning then. */
	ret = attach_hits(f, p, err);
	if (ret < 0 && !sites)
		return error__prefix(err, "%s", p->path);
	if (ret < 0)
		files__warn(f, "attach-failed", "%s: %s", p->path, err ? err->msg : strerror(-ret));
	sites += ret > 0 ? ret : 0;
	ret = files__attach_funcs(f, p, err);
	if (ret < 0 && !sites)
		return error__prefix(err, "%s", p->path);
	if (ret < 0)
		files__warn(f, "attach-failed", "%s: %s", p->path, err ? err->msg : strerror(-ret));
	sites += ret > 0 ? ret : 0;
	return sites;
}
