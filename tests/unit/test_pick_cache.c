// SPDX-License-Identifier: Apache-2.0
/* Functions that a recipe found once: given back for the same code, for no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/scratch.h"
#include "user/probe/pick_cache.h"

static const char recipe_text[] =
	"{ \"recipe\": 1, \"name\": \"toy\", \"title\": \"t\", \"records\": \"r\",\n"
	"  \"libraries\": [ { \"id\": \"lib\", \"file\": [\"*\"] } ],\n"
	"  \"functions\": [ { \"match\": \"pick_cache__*\" }, { \"match\": \"code_*\" } ] }\n";

struct bench {
	struct recipe *r;
	struct elf_file *f;
	struct elf_func fu;
	struct func_sites sites;
	char symbol[64];
};

static int remember(void *ctx, const struct elf_func *fu)
{
	struct bench *b = ctx;

	b->fu = *fu;
	snprintf(b->symbol, sizeof(b->symbol), "%s", fu->symbol);
	b->fu.symbol = b->symbol;
	b->fu.demangled = NULL;
	return 1;
}

static struct elf_file *open_elf(const char *path)
{
	struct elf_file *f = NULL;
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(elf_file__open(fd, path, &f, NULL), 0);
	close(fd);
	return f;
}

static int set_up(void **state)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct clika_error err = { 0 };

	scratch__run("rm -rf %s", scratch__path("cache"));
	setenv("CLIKA_CACHE_DIR", scratch__path("cache"), 1);
	assert_int_equal(recipe__parse(recipe_text, strlen(recipe_text), "toy.json", &b->r, &err),
			 0);
	/* Whatever this program is linked with is a file with functions and a build id. */
	b->f = open_elf("/proc/self/exe");
	assert_int_equal(elf_file__functions(b->f, "pick_cache__free", remember, b, NULL, &err), 1);
	assert_int_equal(func_sites__find(b->f, &b->fu, &b->sites, &err), 0);
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	elf_file__close(b->f);
	recipe__free(b->r);
	free(b);
	return 0;
}

static bool all_on(void *ctx, const struct recipe_function *fn)
{
	(void)fn;
	return !ctx || *(bool *)ctx;
}

static struct pick_cache *open_cache(struct bench *b, struct elf_file *f, uint64_t salt)
{
	struct pick_cache *c = pick_cache__new(f, b->r, all_on, NULL, salt);

	assert_non_null(c);
	return c;
}

static void save_one(struct bench *b, const struct func_sites *sites)
{
	struct pick_cache *c = open_cache(b, b->f, 1);
	struct func_skips skips = { .ifunc = 3, .cold = 4 };
	struct cached_pick p = { .rule = 1,
				 .n_names = 1,
				 .names = { "a name, of \xc3\xa9" },
				 .vaddr = b->fu.vaddr,
				 .size = b->fu.size,
				 .sites = sites };

	pick_cache__add(c, &p);
	pick_cache__save(c, 7, &skips);
	pick_cache__free(c);
}

struct got {
	unsigned n;
	struct cached_pick p;
	struct func_sites sites;
	char name[64];
};

static int take(void *ctx, const struct cached_pick *p)
{
	struct got *g = ctx;

	g->n++;
	g->p = *p;
	snprintf(g->name, sizeof(g->name), "%s", p->names[0]);
	if (p->sites)
		g->sites = *p->sites;
	return 0;
}

static int load(struct bench *b, struct elf_file *f, uint64_t salt, struct got *g)
{
	struct pick_cache *c = open_cache(b, f, salt);
	struct func_skips skips = { 0 };
	uint32_t refused = 0;
	int ret;

	memset(g, 0, sizeof(*g));
	ret = pick_cache__load(c, take, g, &refused, &skips);
	if (ret == 1) {
		assert_int_equal(refused, 7);
		assert_int_equal(skips.ifunc, 3);
		assert_int_equal(skips.cold, 4);
	}
	pick_cache__free(c);
	return ret;
}

static void gives_back_what_was_found(void **state)
{
	struct bench *b = *state;
	struct got g;

	assert_int_equal(load(b, b->f, 1, &g), 0);
	save_one(b, &b->sites);
	assert_int_equal(load(b, b->f, 1, &g), 1);
	assert_int_equal(g.n, 1);
	assert_int_equal(g.p.rule, 1);
	assert_string_equal(g.name, "a name, of \xc3\xa9");
	assert_int_equal(g.p.vaddr, b->fu.vaddr);
	assert_int_equal(g.sites.entry, b->sites.entry);
	assert_int_equal(g.sites.n_exits, b->sites.n_exits);
	assert_memory_equal(g.sites.exits, b->sites.exits, b->sites.n_exits * 8);
	/* Something else that the outcome depends on is another entry. */
	assert_int_equal(load(b, b->f, 2, &g), 0);
}

static void asks_again_for_ends_outside_the_function(void **state)
{
	struct bench *b = *state;
	struct func_sites far = b->sites;
	struct got g;

	far.exits[0] += 1 << 20;
	save_one(b, &far);
	assert_int_equal(load(b, b->f, 1, &g), 1);
	assert_int_equal(g.n, 1);
	assert_null(g.p.sites);
}

static char *only_file(const char *dir)
{
	DIR *d = opendir(dir);
	static char path[600];
	struct dirent *e;

	path[0] = 0;
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
	closedir(d);
	assert_true(path[0]);
	return path;
}

static void believes_no_file_of_others(void **state)
{
	struct bench *b = *state;
	char *path;
	struct got g;

	save_one(b, &b->sites);
	path = only_file(getenv("CLIKA_CACHE_DIR"));
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(load(b, b->f, 1, &g), 0);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(load(b, b->f, 1, &g), 1);
}

static void notices_every_byte_that_changed(void **state)
{
	struct bench *b = *state;
	uint8_t byte;
	struct stat st;
	struct got g;
	int fd;

	save_one(b, &b->sites);
	fd = open(only_file(getenv("CLIKA_CACHE_DIR")), O_RDWR);
	assert_int_equal(fstat(fd, &st), 0);
	for (off_t i = 0; i < st.st_size; i++) {
		assert_int_equal(pread(fd, &byte, 1, i), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, i), 1);
		assert_int_equal(load(b, b->f, 1, &g), 0);
		assert_int_equal(g.n, 0);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, i), 1);
	}
	assert_int_equal(load(b, b->f, 1, &g), 1);
	for (off_t n = st.st_size - 1; n >= 0; n--) {
		assert_int_equal(ftruncate(fd, n), 0);
		assert_int_equal(load(b, b->f, 1, &g), 0);
	}
	close(fd);
}

/* The same build id and size is not the same file: symbols, tables and code may be others. */
static void believes_no_build_id_alone(void **state)
{
	struct bench *b = *state;
	const char *copy = scratch__path("copy");
	struct elf_file *own = b->f, *other;
	uint64_t offset;
	struct got g;
	uint8_t byte;
	int fd;

	scratch__run("cp /proc/%d/exe %s", (int)getpid(), copy);
	save_one(b, &b->sites);
	other = open_elf(copy);
	assert_int_equal(load(b, other, 1, &g), 0);
	/* What was found in the other one, until it is written to. */
	b->f = other;
	save_one(b, &b->sites);
	b->f = own;
	assert_int_equal(load(b, other, 1, &g), 1);
	elf_file__close(other);
	assert_true(elf_file__offset(b->f, b->fu.vaddr + b->fu.size - 1, &offset));
	fd = open(copy, O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
	close(fd);
	other = open_elf(copy);
	assert_int_equal(load(b, other, 1, &g), 0);
	assert_int_equal(g.n, 0);
	elf_file__close(other);
	assert_int_equal(load(b, b->f, 1, &g), 1);
}

/* Only what is an entry makes room for new ones, whatever else lies in the folder. */
static void removes_entries_only(void **state)
{
	const char *dir = getenv("CLIKA_CACHE_DIR");
	struct bench *b = *state;
	struct got g;

	scratch__run("mkdir -p %s && cd %s && for i in $(seq 600); do : >letter-$i; done && "
		     "for i in $(seq 100 999); do : >00112233445566ff-0000000000000$i; done",
		     dir, dir);
	save_one(b, &b->sites);
	assert_int_equal(load(b, b->f, 1, &g), 1);
	scratch__run("cd %s && test $(ls letter-* | wc -l) = 600 && test $(ls | wc -l) = 601", dir);
}

/* A pipe in place of an entry is not waited for. */
static void waits_for_nobody(void **state)
{
	struct bench *b = *state;
	struct got g;
	char *path;

	save_one(b, &b->sites);
	path = only_file(getenv("CLIKA_CACHE_DIR"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(load(b, b->f, 1, &g), 0);
}

static void keeps_apart_what_is_on(void **state)
{
	struct bench *b = *state;
	struct func_skips skips;
	struct pick_cache *c;
	uint32_t refused;
	bool on = false;
	struct got g = { 0 };

	save_one(b, &b->sites);
	c = pick_cache__new(b->f, b->r, all_on, &on, 1);
	assert_int_equal(pick_cache__load(c, take, &g, &refused, &skips), 0);
	pick_cache__free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
		TEST(gives_back_what_was_found),  TEST(asks_again_for_ends_outside_the_function),
		TEST(believes_no_file_of_others), TEST(notices_every_byte_that_changed),
		TEST(believes_no_build_id_alone), TEST(keeps_apart_what_is_on),
		TEST(removes_entries_only),       TEST(waits_for_nobody),
	};

	return cmocka_run_group_tests(tests, scratch__setup, scratch__teardown);
}
