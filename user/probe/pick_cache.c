// SPDX-License-Identifier: Apache-2.0
#include "user/probe/pick_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "user/probe/elf_internal.h"

#define MAGIC                                                                                      \
	"clika-picks 2\n" /* raise the number with any change below, or of what is searched for */
#define MAX_BYTES (64u << 20)
#define MAX_CODE (1u << 20)              /* of one function; longer ones are hashed up to here */
#define MAX_FILES 512                    /* in the folder; beyond that it starts anew */
#define NOT_INSIDE (FUNC_MAX_EXITS + 1u) /* in place of a number of exits */

struct pick_cache {
	struct elf_file *f;
	const struct recipe *r;
	char dir[3800], path[4096];
	struct buf out;
	uint32_t n;
};

static bool folder(char *dir, size_t n)
{
	const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	const char *own = getenv("CLIKA_CACHE_DIR");
	int len;

	if (own && own[0] == '/')
		len = snprintf(dir, n, "%s", own);
	else if (geteuid() == 0)
		len = snprintf(dir, n, "/var/cache/clika-bpf-prof");
	else if (base && base[0] == '/')
		len = snprintf(dir, n, "%s/clika-bpf-prof", base);
	else if (home && home[0] == '/')
		len = snprintf(dir, n, "%s/.cache/clika-bpf-prof", home);
	else
		return false;
	return len > 0 && (size_t)len < n;
}

struct pick_cache *pick_cache__new(struct elf_file *f, const struct recipe *r,
				   bool (*on)(void *ctx, const struct recipe_function *fn),
				   void *ctx, uint64_t salt)
{
	const char *id = elf_file__ident(f)->build_id;
	uint64_t key = hash__mix(r->hash, salt);
	struct pick_cache *c;
	struct stat st;
	char debug[160];

	if (strlen(id) < 16 || fstat(f->fd, &st))
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c || !folder(c->dir, sizeof(c->dir))) {
		free(c);
		return NULL;
	}
	c->f = f;
	c->r = r;
	for (size_t i = 0; i < r->n_functions; i++)
		key = hash__mix(key, on(ctx, &r->functions[i]));
	/* A debug file brings names that the file itself has not. */
	snprintf(debug, sizeof(debug), "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
	key = hash__mix(key, !access(debug, F_OK));
	key = hash__mix(hash__mix(key, st.st_dev), st.st_ino);
	key = hash__mix(hash__mix(key, st.st_ctim.tv_sec), st.st_ctim.tv_nsec);
	key = hash__mix(key, elf_file__size(f));
	snprintf(c->path, sizeof(c->path), "%s/%s-%016llx", c->dir, id, (unsigned long long)key);
	return c;
}

void pick_cache__free(struct pick_cache *c)
{
	if (!c)
		return;
	buf__free(&c->out);
	free(c);
}

static uint64_t code_hash(const struct elf_file *f, uint64_t vaddr, uint64_t size)
{
	uint64_t h = size;
	uint8_t piece[4096];

	if (size > MAX_CODE)
		size = MAX_CODE;
	while (size) {
		size_t n = size < sizeof(piece) ? (size_t)size : sizeof(piece);

		if (elf_file__read(f, vaddr, piece, n) != n)
			return 0;
		h = hash__bytes(piece, n, h);
		vaddr += n;
		size -= n;
	}
	return h;
}

/* --- reading ------------------------------------------------------------------------------------- */

/* Ours alone: nobody else can have written what is believed here. */
static bool is_private(int fd, struct stat *st)
{
	return !fstat(fd, st) && S_ISREG(st->st_mode) && st->st_uid == geteuid() &&
	       !(st->st_mode & 022) && st->st_size <= MAX_BYTES;
}

static uint8_t *read_entry(const struct pick_cache *c, size_t *len)
{
	int fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	uint8_t *data = NULL;
	struct stat st;
	size_t n = 0;
	ssize_t got;

	if (fd < 0)
		return NULL;
	if (is_private(fd, &st))
		data = malloc((size_t)st.st_size + 1);
	while (data && n < (size_t)st.st_size) {
		got = read(fd, data + n, (size_t)st.st_size - n);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	close(fd);
	*len = n;
	return data;
}

static const char *get_text(struct cursor *c)
{
	uint64_t n = cursor__varint(c);
	const uint8_t *p = n < MAX_BYTES ? cursor__bytes(c, (size_t)n + 1) : NULL;

	return p && !p[n] ? (const char *)p : NULL;
}

static uint32_t names_of(const struct recipe_function *fn)
{
	return fn->n_names ? fn->n_names : 1;
}

static bool get_early(struct cursor *in, struct func_sites *sites)
{
	sites->n_early = (uint32_t)cursor__varint(in);
	if (in->bad || sites->n_early > FUNC_MAX_EXITS)
		return false;
	for (uint32_t i = 0; i < sites->n_early; i++) {
		struct early_exit *e = &sites->early[i];
		uint64_t word;

		e->offset = cursor__varint(in);
		word = cursor__varint(in);
		e->from_fp = word & 1;
		e->how = word >> 1 & 31;
		e->words = (uint16_t)(word >> 6);
		if (e->how > EXIT_TAIL || word >> 21)
			return false;
	}
	return true;
}

static void put_early(struct buf *out, const struct func_sites *sites)
{
	buf__varint(out, sites->n_early);
	for (uint32_t i = 0; i < sites->n_early; i++) {
		const struct early_exit *e = &sites->early[i];

		buf__varint(out, e->offset);
		buf__varint(out, (uint64_t)e->words << 6 | (uint64_t)e->how << 1 | e->from_fp);
	}
}

static bool get_pick(const struct pick_cache *c, struct cursor *in, struct cached_pick *p,
		     struct func_sites *sites)
{
	uint64_t hash;

	memset(p, 0, sizeof(*p));
	p->rule = (uint32_t)cursor__varint(in);
	p->n_names = (uint32_t)cursor__varint(in);
	if (in->bad || p->rule >= c->r->n_functions ||
	    p->n_names != names_of(&c->r->functions[p->rule]))
		return false;
	for (uint32_t i = 0; i < p->n_names; i++) {
		p->names[i] = get_text(in);
		if (!p->names[i])
			return false;
	}
	p->vaddr = cursor__varint(in);
	p->size = cursor__varint(in);
	hash = cursor__u64le(in);
	memset(sites, 0, sizeof(*sites));
	sites->entry = cursor__varint(in);
	sites->n_exits = (uint32_t)cursor__varint(in);
	if (sites->n_exits == NOT_INSIDE)
		return !in->bad && hash && code_hash(c->f, p->vaddr, p->size) == hash;
	if (in->bad || sites->n_exits > FUNC_MAX_EXITS)
		return false;
	for (uint32_t i = 0; i < sites->n_exits; i++) {
		uint64_t word = cursor__varint(in);

		sites->exits[i] = word >> 1;
		sites->tail_exit[i] = word & 1;
	}
	if (!get_early(in, sites))
		return false;
	p->sites = sites;
	return !in->bad && hash && code_hash(c->f, p->vaddr, p->size) == hash;
}

/* All sites lie inside their function: what was hashed is what is probed. */
static bool is_inside(const struct pick_cache *c, const struct cached_pick *p)
{
	uint64_t begin, n = p->size < MAX_CODE ? p->size : MAX_CODE;
	const struct func_sites *s = p->sites;

	if (!elf_file__offset(c->f, p->vaddr, &begin) || s->entry < begin || s->entry - begin >= n)
		return false;
	for (uint32_t i = 0; i < s->n_exits; i++)
		if (s->exits[i] < begin || s->exits[i] - begin >= n)
			return false;
	for (uint32_t i = 0; i < s->n_early; i++)
		if (s->early[i].offset < begin || s->early[i].offset - begin >= n)
			return false;
	return true;
}

static int walk(const struct pick_cache *c, struct cursor in,
		int (*fn)(void *ctx, const struct cached_pick *p), void *ctx, uint32_t *refused,
		struct func_skips *skips)
{
	uint64_t n = cursor__varint(&in);
	struct func_sites sites;
	struct cached_pick p;
	int ret;

	*refused = (uint32_t)cursor__varint(&in);
	skips->ifunc = (uint32_t)cursor__varint(&in);
	skips->no_size = (uint32_t)cursor__varint(&in);
	skips->not_code = (uint32_t)cursor__varint(&in);
	skips->cold = (uint32_t)cursor__varint(&in);
	for (uint64_t i = 0; i < n; i++) {
		if (!get_pick(c, &in, &p, &sites) || (p.sites && !is_inside(c, &p)))
			return 0;
		ret = fn ? fn(ctx, &p) : 0;
		if (ret)
			return ret < 0 ? ret : 1;
	}
	return !in.bad && !cursor__left(&in);
}

int pick_cache__load(struct pick_cache *c, int (*fn)(void *ctx, const struct cached_pick *p),
		     void *ctx, uint32_t *refused, struct func_skips *skips)
{
	size_t len, head = sizeof(MAGIC) - 1;
	__cleanup_free uint8_t *data = read_entry(c, &len);
	struct cursor in;
	uint32_t sum;

	if (!data || len < head + 4 || memcmp(data, MAGIC, head))
		return 0;
	in = cursor__over(data + len - 4, 4);
	sum = cursor__u32le(&in);
	if (sum != crc32(0, data, (uInt)(len - 4)))
		return 0;
	in = cursor__over(data + head, len - 4 - head);
	/* All of it is looked at before the first is believed. */
	if (walk(c, in, NULL, NULL, refused, skips) <= 0)
		return 0;
	return walk(c, in, fn, ctx, refused, skips);
}

/* --- writing --------------------------------------------------------------------------------------- */

void pick_cache__add(struct pick_cache *c, const struct cached_pick *p)
{
	buf__varint(&c->out, p->rule);
	buf__varint(&c->out, p->n_names);
	for (uint32_t i = 0; i < p->n_names; i++) {
		size_t n = strlen(p->names[i]);

		buf__varint(&c->out, n);
		buf__append(&c->out, p->names[i], n + 1);
	}
	buf__varint(&c->out, p->vaddr);
	buf__varint(&c->out, p->size);
	buf__u64le(&c->out, code_hash(c->f, p->vaddr, p->size));
	c->n++;
	buf__varint(&c->out, p->sites->entry);
	if (!is_inside(c, p)) {
		buf__varint(&c->out, NOT_INSIDE);
		return;
	}
	buf__varint(&c->out, p->sites->n_exits);
	for (uint32_t i = 0; i < p->sites->n_exits; i++)
		buf__varint(&c->out, p->sites->exits[i] << 1 | p->sites->tail_exit[i]);
	put_early(&c->out, p->sites);
}

/* True when the folder is there and nobody else can put files into it. */
static bool folder_is_safe(const char *dir)
{
	int fd;
	struct stat st;
	bool safe;

	if (mkdir(dir, 0700) && errno != EEXIST)
		return false;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	safe = !fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 022);
	close(fd);
	return safe;
}

/* BUILDID-KEY as pick_cache__new() makes them: the folder may be one that somebody named, with other things in it. */
static int is_entry(const struct dirent *e)
{
	static const char hex[] = "0123456789abcdef";
	size_t id = strspn(e->d_name, hex);

	return id >= 16 && e->d_name[id] == '-' && strspn(e->d_name + id + 1, hex) == 16 &&
	       !e->d_name[id + 17];
}

/* What nobody asks for any more must not pile up. */
static void make_room(const char *dir)
{
	struct dirent **list;
	char path[4200];
	int n = scandir(dir, &list, is_entry, NULL);

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
		if (n >= MAX_FILES)
			unlink(path);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

void pick_cache__save(struct pick_cache *c, uint32_t refused, const struct func_skips *skips)
{
	struct buf all = { 0 };
	struct newfile file;

	buf__append(&all, MAGIC, sizeof(MAGIC) - 1);
	buf__varint(&all, c->n);
	buf__varint(&all, refused);
	buf__varint(&all, skips->ifunc);
	buf__varint(&all, skips->no_size);
	buf__varint(&all, skips->not_code);
	buf__varint(&all, skips->cold);
	buf__append(&all, c->out.data, c->out.len);
	buf__u32le(&all, (uint32_t)crc32(0, all.data, (uInt)all.len));
	if (!buf__error(&all) && !buf__error(&c->out) && all.len <= MAX_BYTES &&
	    folder_is_safe(c->dir)) {
		make_room(c->dir);
		if (!newfile__create(&file, c->path, (uid_t)-1, (gid_t)-1, NULL)) {
			if (!fd__write_all(file.fd, all.data, all.len))
				newfile__publish(&file);
			newfile__close(&file);
		}
	}
	buf__free(&all);
}
