// SPDX-License-Identifier: Apache-2.0
/*
 * The recipes that are in force: built in, of the machine, of the user, and those that were named.
 * A recipe says what of a process's memory is read, so a file in a folder counts only when nobody
 * but root and the user can have written it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/base/embed.h"
#include "user/probe/recipe_json.h"

#define SYSTEM_DIR "/etc/clika-bpf-prof/recipes"
#define MAX_FILES 1000u /* in one folder */

extern const struct embed_entry embed_recipes[];

struct entry {
	struct recipe *r;
	char *text;
	size_t len;
	bool named, all;
	char **groups;
	size_t n_groups;
};

struct recipes {
	struct entry *entries;
	size_t n, cap;
	bool automatic;
};

static void entry__free(struct entry *e)
{
	recipe__free(e->r);
	free(e->text);
	texts__free(e->groups, e->n_groups);
}

static struct entry *find(const struct recipes *rs, const char *name)
{
	size_t i;

	for (i = 0; i < rs->n; i++)
		if (strcmp(rs->entries[i].r->name, name) == 0)
			return &rs->entries[i];
	return NULL;
}

/* Takes @text over. A recipe of the same name is replaced where it stands. */
static int add(struct recipes *rs, char *text, size_t len, const char *path, const char *shown_as,
	       struct entry **out, struct clika_error *err)
{
	struct entry *e, fresh = { .text = text, .len = len };
	int rc = recipe__parse(text, len, shown_as, &fresh.r, err);

	if (!rc && strcmp(path, shown_as) != 0) {
		free(fresh.r->path);
		fresh.r->path = strdup(path);
		rc = fresh.r->path ? 0 : error__set(err, -ENOMEM, "out of memory");
	}
	if (rc) {
		entry__free(&fresh);
		return rc;
	}
	e = find(rs, fresh.r->name);
	if (e) {
		entry__free(e);
	} else if (rs->n == rs->cap) {
		size_t cap = rs->cap ? rs->cap * 2 : 16;
		void *p = reallocarray(rs->entries, cap, sizeof(*rs->entries));

		if (!p) {
			entry__free(&fresh);
			return error__set(err, -ENOMEM, "out of memory");
		}
		rs->entries = p;
		rs->cap = cap;
	}
	if (!e)
		e = &rs->entries[rs->n++];
	*e = fresh;
	if (out)
		*out = e;
	return 0;
}

/* --- files ------------------------------------------------------------------------------------------- */

/* Of the user behind sudo or pkexec, else whoever runs. */
static uid_t invoking_uid(void)
{
	static const char *const names[] = { "SUDO_UID", "PKEXEC_UID" };
	const char *text;
	unsigned long id;
	char *end;
	size_t i;

	for (i = 0; geteuid() == 0 && i < ARRAY_SIZE(names); i++) {
		text = getenv(names[i]);
		if (!text || !*text)
			continue;
		errno = 0;
		id = strtoul(text, &end, 10);
		if (!errno && !*end && *text != '-' && id < UINT32_MAX)
			return (uid_t)id;
	}
	return geteuid();
}

static int check_owner(int fd, const char *path, struct clika_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error__set(err, -errno, "%s: %s", path, strerror(errno));
	if (st.st_uid != 0 && st.st_uid != geteuid() && st.st_uid != invoking_uid())
		return error__set(err, -EPERM,
				  "%s: belongs to another user, so it is passed over; name it with "
				  "its path to use it all the same",
				  path);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return error__set(err, -EPERM,
				  "%s: others may write it, so it is passed over: chmod go-w '%s'",
				  path, path);
	return 0;
}

static int read_text(int fd, const char *path, char **text, size_t *len, struct clika_error *err)
{
	struct stat st;
	size_t n = 0;
	ssize_t got;
	char *p;

	if (fstat(fd, &st) < 0)
		return error__set(err, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error__set(err, -EINVAL, "%s: not a regular file", path);
	/* Messages quote the file: root must not quote what the user behind sudo cannot read. */
	if (invoking_uid() != geteuid() && st.st_uid != invoking_uid() && !(st.st_mode & S_IROTH))
		return error__set(err, -EACCES, "%s: %s", path, strerror(EACCES));
	if (st.st_size > (off_t)RECIPE_MAX_FILE)
		return error__set(err, -EFBIG, "%s: larger than a recipe may be (%u bytes)", path,
				  RECIPE_MAX_FILE);
	p = malloc((size_t)st.st_size + 1);
	if (!p)
		return error__set(err, -ENOMEM, "out of memory");
	while (n < (size_t)st.st_size) {
		got = read(fd, p + n, (size_t)st.st_size - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			free(p);
			return error__set(err, -errno, "%s: %s", path, strerror(errno));
		}
		if (!got)
			break;
		n += (size_t)got;
	}
	p[n] = 0;
	*text = p;
	*len = n;
	return 0;
}

static int add_file(struct recipes *rs, int dirfd, const char *name, const char *path,
		    bool of_folder, struct entry **out, struct clika_error *err)
{
	__cleanup_close int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text = NULL;
	size_t len = 0;
	int rc;

	if (fd < 0)
		return error__set(err, -errno, "%s: %s", path, strerror(errno));
	rc = of_folder ? check_owner(fd, path, err) : 0;
	if (!rc)
		rc = read_text(fd, path, &text, &len, err);
	return rc ? rc : add(rs, text, len, path, path, out, err);
}

static int is_recipe(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 5 && d->d_name[0] != '.' && strcmp(d->d_name + n - 5, ".json") == 0 &&
	       strcmp(d->d_name, "recipe.schema.json") != 0;
}

/* What is wrong with a file of a folder that nobody asked for is a line, not the end. */
static int add_folder(struct recipes *rs, const char *path, const struct logger *log,
		      struct clika_error *err)
{
	__cleanup_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **list = NULL;
	struct clika_error e = { 0 };
	char file[4200];
	int n, i, rc = 0;

	if (fd < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			logger__log(log, LOG_WARN, "recipes", "%s: %s", path, strerror(errno));
		return 0;
	}
	if (check_owner(fd, path, &e)) {
		logger__log(log, LOG_WARN, "recipes", "%s", e.msg);
		return 0;
	}
	n = scandirat(fd, ".", &list, is_recipe, alphasort);
	for (i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, list[i]->d_name);
		if (!rc && (unsigned)i < MAX_FILES)
			rc = add_file(rs, fd, list[i]->d_name, file, true, NULL, &e);
		if (rc && rc != -ENOMEM) {
			logger__log(log, LOG_WARN, "recipes", "%s", e.msg);
			rc = 0;
		}
		free(list[i]);
	}
	free(list);
	return rc ? error__set(err, rc, "out of memory") : 0;
}

static int add_built_in(struct recipes *rs, const struct logger *log, struct clika_error *err)
{
	const struct embed_entry *b;
	struct clika_error e = { 0 };
	char *text;
	int rc;

	for (b = embed_recipes; b->file; b++) {
		text = malloc(b->file->len + 1);
		if (!text)
			return error__set(err, -ENOMEM, "out of memory");
		memcpy(text, b->file->data, b->file->len + 1);
		rc = add(rs, text, b->file->len, "built in", b->path, NULL, &e);
		if (rc == -ENOMEM)
			return error__set(err, rc, "out of memory");
		if (rc)
			logger__log(log, LOG_WARN, "recipes", "%s", e.msg);
	}
	return 0;
}

char *recipes__user_dir(void)
{
	uid_t uid = invoking_uid();
	/* Under sudo the environment is root's, or whatever sudo was told to keep. */
	bool own = uid == geteuid();
	const char *config = own ? getenv("XDG_CONFIG_HOME") : NULL;
	const char *home = own ? getenv("HOME") : NULL;
	struct passwd *pw;
	char *path;
	int n;

	if (config && config[0] == '/') {
		n = asprintf(&path, "%s/clika-bpf-prof/recipes", config);
		return n < 0 ? NULL : path;
	}
	if (!home || home[0] != '/') {
		pw = getpwuid(uid);
		home = pw ? pw->pw_dir : NULL;
	}
	if (!home || home[0] != '/')
		return NULL;
	n = asprintf(&path, "%s/.config/clika-bpf-prof/recipes", home);
	return n < 0 ? NULL : path;
}

/* --- what was named -------------------------------------------------------------------------------------- */

static bool is_path(const char *text, size_t n)
{
	return memchr(text, '/', n) || (n > 5 && memcmp(text + n - 5, ".json", 5) == 0);
}

static int no_recipe(const struct recipes *rs, const char *name, struct clika_error *err)
{
	const char *names[64];
	char hint[256];
	size_t i;

	for (i = 0; i < rs->n && i < ARRAY_SIZE(names); i++)
		names[i] = rs->entries[i].r->name;
	rj__suggest(name, names, i, hint, sizeof(hint));
	return error__set(err, -ENOENT, "there is no recipe '%s'%s", name, hint);
}

static int no_group(const struct entry *e, const char *group, struct clika_error *err)
{
	const char *names[64] = { "all" };
	char hint[256];
	size_t i, k, n = 1;

	for (i = 0; i < e->r->n_functions && n < ARRAY_SIZE(names); i++) {
		const char *g = e->r->functions[i].group;

		for (k = 0; g && k < n && strcmp(names[k], g) != 0; k++)
			;
		if (g && k == n)
			names[n++] = g;
	}
	rj__suggest(group, names, n, hint, sizeof(hint));
	return error__set(err, -ENOENT, "recipe '%s' has no group '%s'%s", e->r->name, group, hint);
}

static int turn_on(struct entry *e, const char *group, struct clika_error *err)
{
	size_t i;
	void *p;

	if (strcmp(group, "all") == 0) {
		e->all = true;
		return 0;
	}
	for (i = 0; i < e->r->n_functions; i++)
		if (e->r->functions[i].group && strcmp(e->r->functions[i].group, group) == 0)
			break;
	if (i == e->r->n_functions)
		return no_group(e, group, err);
	p = reallocarray(e->groups, e->n_groups + 1, sizeof(*e->groups));
	if (p)
		e->groups = p;
	if (!p || !(e->groups[e->n_groups] = strdup(group)))
		return error__set(err, -ENOMEM, "out of memory");
	e->n_groups++;
	return 0;
}

static int want(struct recipes *rs, const struct recipes_opts *o, const char *text, bool paths,
		struct clika_error *err)
{
	const char *colon =
		is_path(text, strlen(text)) && !strstr(text, ".json:") ? NULL : strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	__cleanup_free char *name = strndup(text, n);
	struct entry *e = NULL;
	int rc = 0;

	if (!name)
		return error__set(err, -ENOMEM, "out of memory");
	if (!n || (colon && !colon[1]))
		return error__set(err, -EINVAL,
				  "recipe '%s': give NAME, NAME:all, NAME:GROUP or a file", text);
	if (is_path(name, n) != paths)
		return 0;
	if (paths && o->names_only)
		return error__set(err, -EPERM,
				  "recipe '%s': no file is opened for you here; root can put it "
				  "into " SYSTEM_DIR ", then give its name",
				  name);
	if (paths)
		rc = add_file(rs, AT_FDCWD, name, name, false, &e, err);
	else if (!(e = find(rs, name)))
		rc = no_recipe(rs, name, err);
	if (rc || !e)
		return rc;
	e->named = true;
	return colon ? turn_on(e, colon + 1, err) : 0;
}

int recipes__open(const struct recipes_opts *o, const struct logger *log, struct recipes **out,
		  struct clika_error *err)
{
	struct recipes *rs = calloc(1, sizeof(*rs));
	size_t i;
	int rc;

	*out = NULL;
	if (!rs)
		return error__set(err, -ENOMEM, "out of memory");
	rs->automatic = o->automatic;
	rc = add_built_in(rs, log, err);
	if (!rc)
		rc = add_folder(rs, SYSTEM_DIR, log, err);
	if (!rc && o->user_dir)
		rc = add_folder(rs, o->user_dir, log, err);
	/* Files first: they may replace what is named beside them. */
	for (i = 0; i < o->n_wanted && !rc; i++)
		rc = want(rs, o, o->wanted[i], true, err);
	for (i = 0; i < o->n_wanted && !rc; i++)
		rc = want(rs, o, o->wanted[i], false, err);
	if (rc) {
		recipes__free(rs);
		return rc;
	}
	*out = rs;
	return 0;
}

void recipes__free(struct recipes *rs)
{
	size_t i;

	if (!rs)
		return;
	for (i = 0; i < rs->n; i++)
		entry__free(&rs->entries[i]);
	free(rs->entries);
	free(rs);
}

size_t recipes__count(const struct recipes *rs)
{
	return rs->n;
}

const struct recipe *recipes__get(const struct recipes *rs, size_t i)
{
	return rs->entries[i].r;
}

const char *recipes__text(const struct recipes *rs, size_t i, size_t *len)
{
	*len = rs->entries[i].len;
	return rs->entries[i].text;
}

bool recipes__applies(const struct recipes *rs, size_t i)
{
	const struct entry *e = &rs->entries[i];

	return e->named || (rs->automatic && e->r->automatic);
}

bool recipes__function_on(const struct recipes *rs, size_t i, const struct recipe_function *fn)
{
	const struct entry *e = &rs->entries[i];
	size_t k;

	if (!fn->off || e->all)
		return true;
	for (k = 0; fn->group && k < e->n_groups; k++)
		if (strcmp(e->groups[k], fn->group) == 0)
			return true;
	return false;
}

bool recipes__keep_blocks(const struct recipes *rs)
{
	for (size_t i = 0; i < recipes__count(rs); i++)
		for (size_t k = 0; recipes__applies(rs, i) && k < recipes__get(rs, i)->n_functions;
		     k++)
			if (recipes__get(rs, i)->functions[k].keep_size >= 0 &&
			    recipes__function_on(rs, i, &recipes__get(rs, i)->functions[k]))
				return true;
	return false;
}
