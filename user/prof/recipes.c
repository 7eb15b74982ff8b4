// SPDX-License-Identifier: Apache-2.0
/* Recipes for those who want to see them: which there are, what they say, what they find. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/prof/recipe_view.h"
#include "user/prof/recorder.h"

#define COLUMNS 100u

struct log_to {
	clika_prof_log_fn fn;
	void *ctx;
};

static void pass_on(void *ctx, enum log_level level, const char *area, const char *line)
{
	const struct log_to *to = ctx;

	to->fn(to->ctx, (int)level, area, line);
}

static int open_set(const char *const *wanted, size_t n, const struct logger *log,
		    struct recipes **out, struct clika_error *err)
{
	__cleanup_free char *dir = recipes__user_dir();
	struct recipes_opts o = { .wanted = wanted, .n_wanted = n, .user_dir = dir };

	return recipes__open(&o, log, out, err);
}

int clika_recipes(int (*fn)(void *ctx, const struct clika_recipe *r), void *ctx,
		  clika_prof_log_fn log, void *log_ctx, struct clika_prof_error *perr)
{
	struct log_to to = { log, log_ctx };
	struct logger l = { log ? pass_on : NULL, &to, LOG_WARN };
	struct clika_error err = { 0 };
	struct recipes *rs;
	size_t i, k;
	int rc = open_set(NULL, 0, &l, &rs, &err);

	if (rc)
		return prof_error__set(perr, rc, &err);
	for (i = 0; i < recipes__count(rs) && !rc; i++) {
		const struct recipe *r = recipes__get(rs, i);
		struct clika_recipe c = {
			.name = r->name,
			.title = r->title,
			.versions = r->versions,
			.records = r->records,
			.from = r->path,
			.automatic = r->automatic,
			.functions = (uint32_t)r->n_functions,
		};

		for (k = 0; k < r->n_functions; k++)
			c.off += r->functions[k].off;
		rc = fn(ctx, &c);
	}
	recipes__free(rs);
	return rc;
}

/* The bytes become the caller's. */
static int hand_over(struct buf *b, char **data, size_t *len, struct clika_error *err)
{
	size_t n = b->len;

	buf__u8(b, 0);
	if (buf__error(b)) {
		buf__free(b);
		return error__set(err, -ENOMEM, "out of memory");
	}
	*data = (char *)b->data;
	*len = n;
	return 0;
}

int clika_recipe__show(const char *recipe, bool json, unsigned columns, char **data, size_t *len,
		       struct clika_prof_error *perr)
{
	struct clika_error err = { 0 };
	struct logger quiet = { 0 };
	struct buf b = { 0 };
	struct recipes *rs;
	const char *text;
	size_t i, n;
	int rc;

	*data = NULL;
	*len = 0;
	rc = open_set(&recipe, 1, &quiet, &rs, &err);
	if (rc)
		return prof_error__set(perr, rc, &err);
	for (i = 0; !recipes__applies(rs, i); i++) /* the one that was named does */
		;
	if (json) {
		text = recipes__text(rs, i, &n);
		buf__append(&b, text, n);
	} else {
		recipe_view__show(&b, recipes__get(rs, i), columns ? columns : COLUMNS);
	}
	recipes__free(rs);
	rc = hand_over(&b, data, len, &err);
	return rc ? prof_error__set(perr, rc, &err) : 0;
}

static int check_file(const char *path, const struct recipes *rs, struct buf *out, unsigned columns,
		      struct clika_recipe_check *result, struct clika_error *err)
{
	__cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct elf_file *f;
	size_t i;
	int rc;

	if (fd < 0)
		return error__set(err, -errno, "%s: %s", path, strerror(errno));
	rc = elf_file__open(fd, path, &f, err);
	if (rc)
		return rc;
	for (i = 0; i < recipes__count(rs) && !rc; i++)
		rc = recipe_view__check(out, recipes__get(rs, i), f, path, columns, result, err);
	elf_file__close(f);
	return rc;
}

int clika_recipe__check(const char *path, const char *const *recipes, size_t n_recipes,
			unsigned columns, char **data, size_t *len,
			struct clika_recipe_check *result, struct clika_prof_error *perr)
{
	struct clika_recipe_check r = { .sz = sizeof(r) };
	struct clika_error err = { 0 };
	struct logger quiet = { 0 };
	struct buf b = { 0 };
	struct recipes *rs;
	int rc;

	*data = NULL;
	*len = 0;
	rc = open_set(recipes, n_recipes, &quiet, &rs, &err);
	if (!rc) {
		rc = check_file(path, rs, &b, columns ? columns : COLUMNS, &r, &err);
		recipes__free(rs);
	}
	if (!rc)
		rc = hand_over(&b, data, len, &err);
	else
		buf__free(&b);
	if (result && result->sz) {
		size_t sz = result->sz < sizeof(r) ? result->sz : sizeof(r);

		r.sz = result->sz;
		memcpy(result, &r, sz);
	}
	return rc ? prof_error__set(perr, rc, &err) : 0;
}
