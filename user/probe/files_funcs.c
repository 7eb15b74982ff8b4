// SPDX-License-Identifier: Apache-2.0
/* Functions of one file: those that the user names and those that recipes know; on and off. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/files_internal.h"
#include "user/probe/pick_cache.h"

struct func_plan {
	struct files *f;
	struct probed_file *p;
	struct site_list sites;
	struct map64 *entries; /* offsets that are planned already */
	struct probe_pattern *pattern;
	/* of the recipe in hand */
	const struct recipe *recipe;
	size_t recipe_at;
	bool tables_bad;
	int64_t *layouts;
	bool *known;
	struct func_kind **kinds; /* by rule */
	struct pick_cache *cache; /* NULL = none */
	uint32_t picked, refused;
	int err;
};

#define MAX_FUNCS                                                                                  \
	(1u                                                                                        \
	 << 17) /* of one file; each costs the kernel some memory, and all at once some seconds */
#define REFUSED UINT64_MAX /* a cookie that no site has */

static void call__refused(void *ctx, const struct probe_site *s, int why)
{
	struct refusals *r = ctx;

	r->n++;
	files__warn(r->f, "function-refused", "%s: %s: %s at offset 0x%llx is left out: %s",
		    r->p->path, r->f->funcs[(uint32_t)s->cookie].name,
		    s->cookie & COOKIE_RETURN
			    ? "one of its ends (calls that take it end with their caller)"
			    : "its begin",
		    (unsigned long long)s->offset, attacher__reason(why));
	r->sites[s - r->sites].cookie = REFUSED;
}

static size_t without_refused(struct probe_site *sites, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		if (sites[i].cookie != REFUSED)
			sites[left++] = sites[i];
	return left;
}

/* A new function with its sites; its name is the caller's to fill in. NULL: out of memory. */
static struct func_probe *func__new(struct func_plan *pl)
{
	struct files *f = pl->f;
	struct func_probe *fp;

	if (f->n_funcs == f->cap_funcs) {
		size_t cap = f->cap_funcs ? f->cap_funcs * 2 : 64;
		struct func_probe *more = realloc(f->funcs, cap * sizeof(*more));

		if (!more)
			return NULL;
		f->funcs = more;
		f->cap_funcs = cap;
	}
	fp = &f->funcs[f->n_funcs];
	memset(fp, 0, sizeof(*fp));
	fp->file = pl->p->number;
	return fp;
}

static uint64_t early__cookie(const struct early_exit *e)
{
	switch (e->how) {
	case EXIT_RETURN:
		return 0;
	case EXIT_TAIL:
		return COOKIE_TAIL;
	default:
		return COOKIE_EARLY | (uint64_t)e->words << COOKIE_WORDS_AT |
		       (e->from_fp ? COOKIE_FROM_FP : 0) |
		       (e->how == EXIT_ALWAYS ? COOKIE_ALWAYS
					      : (uint64_t)e->how << COOKIE_CONDITION_AT);
	}
}

/* Where the function returns: as cheaply as can be, unless what it returns is wanted. */
static int func__exits(struct func_plan *pl, const struct func_probe *fp,
		       const struct func_sites *sites, uint64_t cookie)
{
	bool early = sites->n_early && !(fp->kind && fp->kind->return_set);
	uint32_t n = early ? sites->n_early : sites->n_exits;
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		uint64_t offset = early ? sites->early[i].offset : sites->exits[i], how;

		how = early                 ? early__cookie(&sites->early[i])
		      : sites->tail_exit[i] ? COOKIE_TAIL
					    : 0;
		/* A function of one instruction: its entry is its return, and one place takes one
		 * probe. */
		if (offset != sites->entry)
			err = site_list__add(&pl->sites, offset, 0, cookie | how);
	}
	return err;
}

static int func__sites(struct func_plan *pl, struct func_probe *fp, const struct func_sites *sites)
{
	uint64_t func = pl->f->n_funcs, entry = func, ret = func | COOKIE_RETURN;
	size_t had = pl->sites.n;
	int err;

	if (fp->kind) {
		entry |= (uint64_t)fp->kind->entry_set << COOKIE_FETCH_AT;
		ret |= (uint64_t)fp->kind->return_set << COOKIE_FETCH_AT;
	}
	err = site_list__add(&pl->sites, sites->entry, 0, entry);
	if (!err && (!fp->kind || fp->kind->returns))
		err = func__exits(pl, fp, sites, ret);
	fp->n_sites = pl->sites.n - had;
	if (!err && !map64__put(pl->entries, sites->entry, 1))
		err = -ENOMEM;
	return err;
}

/* 1: the kernel takes no more, or the limit is reached; the search ends. */
static int func__room(struct func_plan *pl)
{
	struct files *f = pl->f;

	if (f->n_funcs - pl->p->first_func >= MAX_FUNCS) {
		files__warn(f, "too-many-functions", "%s: only the first %u functions are probed",
			    pl->p->path, MAX_FUNCS);
		return 1;
	}
	if (attacher__has_multi(f->o.attacher) || f->n_funcs < f->o.max_single_funcs)
		return 0;
	if (!f->full_told)
		files__warn(f, "too-many-functions",
			    "this kernel takes probes off one by one (about 0.1 s each): only the "
			    "first %u functions are probed; --probe, and --recipe with --no-auto, "
			    "name those that matter",
			    f->o.max_single_funcs);
	f->full_told = true;
	return 1;
}

/* 0 found, 1 refused (@err says why), negative: memory. @entry_only: its ends are of no interest. */
static int func__find(struct func_plan *pl, const struct elf_func *fu, bool entry_only,
		      struct func_sites **out, struct clika_error *err)
{
	struct func_sites *sites = calloc(1, sizeof(*sites));

	if (!sites)
		return -ENOMEM;
	if (pl->f->o.retprobe || entry_only) {
		sites->entry = fu->offset;
	} else if (func_sites__find(pl->p->elf, fu, sites, err)) {
		free(sites);
		return 1;
	}
	*out = sites;
	return 0;
}

static int plan_pattern(void *ctx, const struct elf_func *fu)
{
	struct func_plan *pl = ctx;
	struct files *f = pl->f;
	const char *name = fu->demangled ? fu->demangled : fu->symbol;
	struct clika_error err = { 0 };
	__cleanup_free struct func_sites *sites = NULL;
	struct func_probe *fp;
	int ret;

	if (func__room(pl))
		return 1;
	ret = func__find(pl, fu, false, &sites, &err);
	if (ret > 0) {
		files__warn(f, "function-refused", "%s", err.msg);
		return 0;
	}
	if (ret)
		return pl->err = ret;
	pl->pattern->matched++;
	if (map64__get(pl->entries, sites->entry))
		return 0;
	fp = func__new(pl);
	if (!fp)
		return pl->err = -ENOMEM;
	fp->name = strdup(name);
	ret = fp->name ? func__sites(pl, fp, sites) : -ENOMEM;
	if (ret) {
		free(fp->name);
		return pl->err = ret;
	}
	f->n_funcs++;
	return 0;
}

/* --- recipes ----------------------------------------------------------------------------------- */

/* The number of @s in the kernel's map; functions that fetch alike share one. 0: no room. */
static uint32_t fetch_set__number(struct files *f, const struct wire_fetch_set *s)
{
	uint64_t key = hash__bytes(s, sizeof(*s), 0), *v = map64__get(f->fetch_sets, key);
	uint32_t number = f->n_fetch_sets + 1;

	if (v)
		return (uint32_t)*v;
	if (number >= attacher__max_fetch_sets(f->o.attacher) ||
	    attacher__fetch_set(f->o.attacher, number, s) ||
	    !map64__put(f->fetch_sets, key, number))
		return 0;
	f->n_fetch_sets = number;
	return number;
}

static struct func_kind *kind__of(struct func_plan *pl, const struct recipe_function *rule)
{
	size_t at = (size_t)(rule - pl->recipe->functions);
	struct files *f = pl->f;
	struct fetch_plan plan;
	struct func_kind *k;

	if (pl->kinds[at])
		return pl->kinds[at];
	if (f->n_kinds == f->cap_kinds) {
		size_t cap = f->cap_kinds ? f->cap_kinds * 2 : 64;
		struct func_kind **more = realloc(f->kinds, cap * sizeof(struct func_kind *));

		if (!more)
			return NULL;
		f->kinds = more;
		f->cap_kinds = cap;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	fetch__plan(rule, elf_file__ident(pl->p->elf)->machine, pl->layouts, pl->known, &plan);
	for (unsigned i = 0; i < rule->n_args; i++)
		if (!plan.args[i].when)
			logger__log(
				f->o.log, LOG_INFO, "attach",
				"%s: recipe %s, line %u: where '%s' lies is not known here: spans "
				"without it",
				pl->p->path, pl->recipe->name, rule->line, rule->args[i].name);
	k->recipe = pl->recipe;
	k->rule = rule;
	k->file = pl->p->number;
	memcpy(k->args, plan.args, sizeof(k->args));
	k->returns = plan.returns;
	k->never = plan.never;
	if (plan.never)
		files__warn(
			f, "layout",
			"%s: recipe %s, line %u: what decides which calls are kept is not known "
			"here: these functions are left out",
			pl->p->path, pl->recipe->name, rule->line);
	if (plan.at_entry && !plan.never)
		k->entry_set = fetch_set__number(f, &plan.entry);
	if (plan.at_return && !plan.never)
		k->return_set = fetch_set__number(f, &plan.ret);
	if (!plan.never &&
	    ((plan.at_entry && !k->entry_set) || (plan.at_return && !k->return_set))) {
		files__warn(f, "too-many-rules",
			    "%s: no room for the arguments of recipe %s, line %u: spans without",
			    pl->p->path, pl->recipe->name, rule->line);
		memset(k->args, 0, sizeof(k->args));
		k->entry_set = k->return_set = 0;
	}
	f->kinds[f->n_kinds++] = k;
	pl->kinds[at] = k;
	return k;
}

/* Names of the rule, or the one that it has without any. */
static int names__copy(struct func_probe *fp, const struct recipe_function *rule,
		       const char *const *names)
{
	unsigned n = rule->n_names;

	fp->name = strdup(names[0]);
	if (!fp->name)
		return -ENOMEM;
	if (n < 2 && !(n && rule->names[0].ifs.n))
		return 0;
	fp->names = calloc(n, sizeof(*fp->names));
	if (!fp->names)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		fp->names[i] = strdup(names[i]);
		if (!fp->names[i])
			return -ENOMEM;
	}
	return 0;
}

/* 0, or an error of memory. */
static int plan_func(struct func_plan *pl, const struct recipe_function *rule,
		     const struct func_kind *kind, const char *const *names,
		     const struct func_sites *sites)
{
	struct func_probe *fp;
	int ret;

	if (kind->never || map64__get(pl->entries, sites->entry))
		return 0;
	fp = func__new(pl);
	if (!fp)
		return -ENOMEM;
	fp->kind = kind;
	ret = names__copy(fp, rule, names);
	if (!ret)
		ret = func__sites(pl, fp, sites);
	if (ret) {
		for (unsigned i = 0; fp->names && i < rule->n_names; i++)
			free(fp->names[i]);
		free(fp->names);
		free(fp->name);
		return ret;
	}
	pl->f->n_funcs++;
	pl->picked++;
	return 0;
}

static int plan_pick(void *ctx, const struct recipe_pick *pick)
{
	struct func_plan *pl = ctx;
	const struct elf_func *fu = pick->func;
	const struct recipe_function *rule = pick->rule;
	struct cached_pick found = { .rule = (uint32_t)(rule - pl->recipe->functions),
				     .n_names = rule->n_names ? rule->n_names : 1,
				     .vaddr = fu->vaddr,
				     .size = fu->size };
	struct clika_error err = { 0 };
	__cleanup_free struct func_sites *sites = NULL;
	struct func_kind *kind;
	int ret;

	if (func__room(pl))
		return 1;
	kind = kind__of(pl, rule);
	if (!kind)
		return pl->err = -ENOMEM;
	ret = func__find(pl, fu, !kind->returns, &sites, &err);
	if (ret > 0) {
		/* Of thousands some always are: counted where the recipe is told of. */
		pl->refused++;
		logger__log(pl->f->o.log, LOG_DEBUG, "attach", "%s", err.msg);
		return 0;
	}
	if (ret)
		return pl->err = ret;
	found.names[0] = fu->demangled ? fu->demangled : fu->symbol;
	for (unsigned i = 0; i < rule->n_names; i++)
		found.names[i] = pick->names[i];
	found.sites = sites;
	if (pl->cache)
		pick_cache__add(pl->cache, &found);
	return pl->err = plan_func(pl, rule, kind, found.names, sites);
}

/* The same for a function that is known from an earlier time. */
static int plan_cached(void *ctx, const struct cached_pick *p)
{
	struct func_plan *pl = ctx;
	const struct recipe_function *rule = &pl->recipe->functions[p->rule];
	__cleanup_free struct func_sites *sites = NULL;
	struct elf_func fu = { .symbol = p->names[0], .vaddr = p->vaddr, .size = p->size };
	struct func_kind *kind;

	if (func__room(pl))
		return 1;
	kind = kind__of(pl, rule);
	if (!kind)
		return pl->err = -ENOMEM;
	if (!p->sites) {
		if (!elf_file__offset(pl->p->elf, fu.vaddr, &fu.offset) ||
		    func__find(pl, &fu, !kind->returns, &sites, NULL)) {
			pl->refused++;
			return 0;
		}
	}
	return pl->err = plan_func(pl, rule, kind, p->names, p->sites ? p->sites : sites);
}

static bool rule__on(void *ctx, const struct recipe_function *fn)
{
	struct func_plan *pl = ctx;

	return recipes__function_on(pl->f->o.recipes, pl->recipe_at, fn) &&
	       !(fn->table >= 0 && pl->tables_bad);
}

static void tell_applied(struct func_plan *pl)
{
	const char *slash = strrchr(pl->p->path, '/');
	char line[600], more[80] = "";

	if (!pl->f->o.told)
		return;
	if (pl->refused)
		snprintf(more, sizeof(more), ", %u left out (-vv says why)", pl->refused);
	snprintf(line, sizeof(line), "recipe %s: %u functions of %s%s", pl->recipe->name,
		 pl->picked, slash ? slash + 1 : pl->p->path, more);
	pl->f->o.told(pl->f->o.warn_ctx, line);
}

/* From the cache, else by searching the file. */
static int pick_functions(struct func_plan *pl, uint64_t libraries, struct func_skips *skips,
			  struct clika_error *err)
{
	uint64_t salt = hash__mix(libraries, pl->f->o.retprobe);
	uint32_t refused = 0;
	int ret = 0;

	/* Kernels that take probes one by one have a limit that may cut the search short. */
	if (attacher__has_multi(pl->f->o.attacher))
		pl->cache = pick_cache__new(pl->p->elf, pl->recipe, rule__on, pl, salt);
	if (pl->cache)
		ret = pick_cache__load(pl->cache, plan_cached, pl, &refused, skips);
	if (ret > 0)
		pl->refused += refused;
	if (!ret && !pl->err) {
		ret = recipe__pick(pl->recipe, libraries, pl->p->elf, rule__on, plan_pick, pl, NULL,
				   skips, err);
		if (!ret && !pl->err && pl->cache)
			pick_cache__save(pl->cache, pl->refused, skips);
	}
	pick_cache__free(pl->cache);
	pl->cache = NULL;
	return ret < 0 ? ret : 0;
}

static int plan_recipe(struct func_plan *pl, size_t at, uint64_t libraries,
		       struct func_skips *skips, struct clika_error *err)
{
	const struct recipe *r = recipes__get(pl->f->o.recipes, at);
	struct func_skips some = { 0 };
	int ret = -ENOMEM;

	pl->recipe = r;
	pl->recipe_at = at;
	pl->picked = pl->refused = 0;
	pl->layouts = calloc(r->n_layouts + 1, sizeof(*pl->layouts));
	pl->known = calloc(r->n_layouts + 1, sizeof(*pl->known));
	pl->kinds = calloc(r->n_functions + 1, sizeof(*pl->kinds));
	if (pl->layouts && pl->known && pl->kinds) {
		files__layouts(pl->f, r, libraries, pl->p, pl->layouts, pl->known);
		pl->tables_bad = !files__tables_confirmed(pl->f, r, libraries, pl->p);
		ret = pick_functions(pl, libraries, &some, err);
	}
	free(pl->layouts);
	free(pl->known);
	free(pl->kinds);
	pl->layouts = NULL;
	pl->known = NULL;
	pl->kinds = NULL;
	skips->ifunc += some.ifunc;
	if (ret == -ENODATA) {
		files__warn(pl->f, "stripped", "%s: recipe %s cannot be applied: %s", pl->p->path,
			    r->name, err ? err->msg : "no symbols");
		return 0;
	}
	if (pl->err || ret == -ENOMEM)
		return pl->err ? pl->err : ret;
	if (ret < 0)
		/* Other recipes and what the user named have nothing to do with it. */
		files__warn(pl->f, "recipe-failed", "%s: recipe %s: %s", pl->p->path, r->name,
			    err && err->msg[0] ? err->msg : strerror(-ret));
	if (pl->picked)
		tell_applied(pl);
	return 0;
}

static int plan_recipes(struct func_plan *pl, struct func_skips *skips, struct clika_error *err)
{
	const struct recipes *rs = pl->f->o.recipes;
	int ret = 0;

	for (size_t i = 0; rs && i < recipes__count(rs) && !ret; i++) {
		uint64_t libraries;

		if (!recipes__applies(rs, i))
			continue;
		libraries = recipe__library_of(recipes__get(rs, i), pl->p->elf, pl->p->path);
		if (libraries)
			ret = plan_recipe(pl, i, libraries, skips, err);
	}
	return ret;
}

/* --- on and off ----------------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
	const struct probe_site *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	/* The function that was planned first keeps a place that two share. */
	return (uint32_t)x->cookie < (uint32_t)y->cookie
		       ? -1
		       : (uint32_t)x->cookie > (uint32_t)y->cookie;
}

static int is_there(void *ctx, const struct elf_func *fu)
{
	(void)ctx;
	(void)fu;
	return 1;
}

/* Asked for by an option: every probe sits at an entry, and the kernel takes over the return address. */
static int attach_returns(struct files *f, struct probed_file *p, const struct probe_site *entries,
			  size_t n, struct clika_error *err)
{
	struct func_skips skips = { 0 };
	struct probe_site *sites;
	int ret;

	if (elf_file__functions(p->elf, "runtime.goexit", is_there, NULL, &skips, NULL) == 1)
		return error__set(err, -EPERM,
				  "a Go program checks and moves its stacks: a return probe would "
				  "crash it; leave --retprobe out");
	sites = calloc(n, sizeof(*sites));
	if (!sites)
		return error__set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct func_kind *k = f->funcs[(uint32_t)entries[i].cookie].kind;

		sites[i] = entries[i];
		sites[i].cookie = (uint32_t)entries[i].cookie | COOKIE_RETURN | COOKIE_RETPROBE |
				  (k ? (uint64_t)k->return_set << COOKIE_FETCH_AT : 0);
	}
	ret = attacher__attach(f->o.attacher, PROBE_RETURN, p->fd, sites, n, f->o.only_pid, err);
	free(sites);
	return ret;
}

static uint64_t switch_bits(unsigned number, bool parity)
{
	return (uint64_t)number << COOKIE_SWITCH_AT | (parity ? COOKIE_PARITY : 0);
}

/* All sites of the plan, each place once. Number of sites that got a probe, or an error. */
static int attach_sites(struct files *f, struct probed_file *p, struct site_list *l,
			struct clika_error *err)
{
	struct refusals refused = { .f = f, .p = p, .sites = l->sites };
	uint64_t since;
	size_t n = 0;
	int ret = 0;

	qsort(l->sites, l->n, sizeof(*l->sites), by_offset);
	for (size_t i = 0; i < l->n; i++)
		if (!n || l->sites[n - 1].offset != l->sites[i].offset)
			l->sites[n++] = l->sites[i];
	l->n = n;
	if (attacher__has_multi(f->o.attacher) && !f->o.retprobe &&
	    f->n_switches + 1 < COOKIE_SWITCHES) {
		p->func_switch = ++f->n_switches;
		for (size_t i = 0; i < n; i++)
			l->sites[i].cookie |= switch_bits(p->func_switch, false);
	}
	since = clock__boottime_ns();
	if (f->o.retprobe)
		ret = attach_returns(f, p, l->sites, n, err);
	if (ret >= 0)
		ret = attacher__attach_some(f->o.attacher, PROBE_CALL, p->fd, l->sites, n,
					    f->o.only_pid, call__refused, &refused, err);
	if (ret < 0)
		return ret;
	logger__log(f->o.log, LOG_INFO, "attach", "%zu functions of %s got their probes in %.1f ms",
		    f->n_funcs - p->first_func, p->path,
		    (double)(clock__boottime_ns() - since) / NSEC_PER_MSEC);
	n = without_refused(l->sites, n);
	if (!n)
		return 0;
	p->func_group = attacher__group(f->o.attacher);
	p->func_sites = l->sites;
	p->n_func_sites = n;
	l->sites = NULL;
	return (int)n;
}

/* Of a plan that was not carried out: nothing can have hit them. */
static void forget_funcs(struct files *f, size_t first_func, size_t first_kind)
{
	while (f->n_funcs > first_func)
		func_probe__free(&f->funcs[--f->n_funcs]);
	while (f->n_kinds > first_kind)
		free(f->kinds[--f->n_kinds]);
}

/*
 * Probes may have been there for a moment, so records may still name these functions: they stay, but
 * belong to no file. Its number goes to the next one when nothing else was found in it.
 */
static void abandon_funcs(struct files *f, struct probed_file *p)
{
	for (size_t i = p->first_func; i < f->n_funcs; i++) {
		f->funcs[i].file = UINT32_MAX;
		f->funcs[i].off = true;
	}
}

int files__attach_funcs(struct files *f, struct probed_file *p, struct clika_error *err)
{
	struct func_plan pl = { .f = f, .p = p };
	struct func_skips skips = { 0 };
	size_t first_kind = f->n_kinds;
	int ret = 0;

	p->first_func = f->n_funcs;
	pl.entries = map64__new();
	if (!pl.entries)
		return error__set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < f->o.n_probes && !ret; i++) {
		pl.pattern = &f->probes[i];
		if (!pattern__lib_matches(pl.pattern->lib, p->path))
			continue;
		ret = elf_file__functions(p->elf, pl.pattern->func, plan_pattern, &pl, &skips, err);
		if (ret == -ENODATA) {
			files__warn(f, "stripped", "%s: %s", p->path,
				    err ? err->msg : "no symbols");
			ret = 0;
		} else if (ret >= 0) {
			ret = pl.err;
		}
	}
	if (!ret)
		ret = plan_recipes(&pl, &skips, err);
	if (ret) {
		forget_funcs(f, p->first_func, first_kind);
	} else if (pl.sites.n) {
		ret = attach_sites(f, p, &pl.sites, err);
		if (ret <= 0)
			abandon_funcs(f, p);
	}
	if (skips.ifunc && pl.sites.n)
		files__warn(f, "ifunc-skipped",
			    "%s: %u indirect functions left alone (a probe would sit on "
			    "their resolver)",
			    p->path, skips.ifunc);
	free(pl.sites.sites);
	map64__free(pl.entries);
	if (ret <= 0)
		return ret;
	p->n_funcs = f->n_funcs - p->first_func;
	f->n_sites += ret;
	return ret;
}

int files__take_off(struct files *f, uint32_t file, bool (*off)(void *ctx, uint32_t func),
		    void *ctx, struct clika_error *err)
{
	struct probed_file *p = file < f->n_files ? f->files[file] : NULL;
	struct refusals refused = { .f = f, .p = p };
	uint32_t old_group;
	uint64_t now;
	struct probe_site *left;
	size_t n = 0, asked;
	int ret, taken = 0;

	if (!p || !p->func_switch || !p->n_func_sites)
		return 0;
	left = calloc(p->n_func_sites, sizeof(*left));
	if (!left)
		return error__set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < p->n_func_sites; i++) {
		uint32_t func = (uint32_t)p->func_sites[i].cookie;

		if (f->funcs[func].off || off(ctx, func))
			continue;
		left[n] = p->func_sites[i];
		left[n++].cookie ^= COOKIE_PARITY;
	}
	if (n == p->n_func_sites) {
		free(left);
		return 0;
	}
	/* The smaller link first; then both count until the kernel has taken the old one off, which
	 * waits for the hits that are under way. No call of what stays is missed, and what both took
	 * the decoder recognises. */
	old_group = p->func_group;
	refused.sites = left;
	asked = n;
	ret = attacher__attach_some(f->o.attacher, PROBE_CALL, p->fd, left, n, f->o.only_pid,
				    call__refused, &refused, err);
	if (ret < 0) {
		free(left);
		return error__prefix(err, "%s", p->path);
	}
	p->func_parity = !p->func_parity;
	attacher__switch(f->o.attacher, p->func_switch, p->func_parity, n > 0);
	attacher__detach(f->o.attacher, old_group);
	attacher__switch(f->o.attacher, p->func_switch, p->func_parity, false);
	now = clock__boottime_ns();
	n = without_refused(left, n);
	if (asked)
		p->func_group = attacher__group(f->o.attacher);
	for (uint32_t i = p->first_func; i < p->first_func + p->n_funcs; i++) {
		if (f->funcs[i].off || !off(ctx, i))
			continue;
		f->funcs[i].off = true;
		f->funcs[i].off_ts = now;
		taken++;
	}
	f->n_sites -= p->n_func_sites - n;
	free(p->func_sites);
	p->func_sites = left;
	p->n_func_sites = n;
	return taken;
}
