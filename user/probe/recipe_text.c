// SPDX-License-Identifier: Apache-2.0
/* Names that a library holds as texts: where a symbol runs two names together, its constants tell where the first ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/elf_internal.h"
#include "user/probe/recipe.h"

/* Limits on what a file may make us keep; far above what real files hold. */
#define MAX_TEXTS (1u << 18)
#define MAX_TEXT_BYTES (8u << 20)
#define MAX_TEXT 256u
#define CHUNK (1u << 20)
#define MAX_SECTION (512u << 20) /* larger ones hold programs for other processors */
#define MAX_BYTES (1u << 30)     /* of all sections */

struct recipe_texts {
	struct buf bytes; /* texts without their beginning, each with its NUL */
	const char **sorted;
	size_t n;
	uint64_t left; /* bytes that are still read of the file */
};

/* Texts in @p[0..n) that begin there; with @more, those that may go on behind it are left to the next look. Returns how
 * many bytes have been dealt with. */
static size_t take(struct recipe_texts *t, const char *begin, const char *p, size_t n, bool more)
{
	size_t len = strlen(begin), at = 0;

	while (n - at >= len) {
		const char *hit = memmem(p + at, n - at, begin, len), *text, *nul;
		size_t left;

		if (!hit)
			return more ? n - len + 1 : n;
		text = hit + len;
		left = n - (size_t)(text - p);
		nul = memchr(text, 0, left < MAX_TEXT ? left : MAX_TEXT);
		if (!nul && left < MAX_TEXT && more)
			return (size_t)(hit - p);
		if (nul && nul > text && t->n < MAX_TEXTS && t->bytes.len < MAX_TEXT_BYTES) {
			buf__append(&t->bytes, text, (size_t)(nul - text) + 1);
			t->n++;
		}
		at = (size_t)(text - p);
	}
	return at;
}

static int read_section(struct recipe_texts *t, const struct elf_file *f, const char *begin,
			const GElf_Shdr *sh, char *chunk)
{
	uint64_t at = sh->sh_offset, end;
	size_t kept = 0;

	if (at >= f->size)
		return 0;
	end = sh->sh_size > f->size - at ? f->size : at + sh->sh_size;
	if (end - at > MAX_SECTION || end - at > t->left)
		return 0;
	t->left -= end - at;
	while (at < end && !t->bytes.failed) {
		size_t want = CHUNK - kept, got, used;

		if (want > end - at)
			want = (size_t)(end - at);
		got = elf_file__pread(f, at, chunk + kept, want);
		if (!got)
			break;
		at += got;
		used = take(t, begin, chunk, kept + got, at < end);
		kept = kept + got - used;
		memmove(chunk, chunk + used, kept);
	}
	return buf__error(&t->bytes);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int recipe_texts__read(struct elf_file *f, const char *begin, struct recipe_texts **out,
		       struct clika_error *err)
{
	struct recipe_texts *t = calloc(1, sizeof(*t));
	__cleanup_free char *chunk = malloc(CHUNK);
	Elf_Scn *section = NULL;
	const char *p;
	GElf_Shdr sh;
	int rc = 0;
	size_t i;

	*out = NULL;
	if (t)
		t->left = MAX_BYTES;
	while (t && chunk && !rc && (section = elf_nextscn(f->elf, section))) {
		/* Constants that nobody writes to and nobody runs. */
		if (gelf_getshdr(section, &sh) && sh.sh_type == SHT_PROGBITS &&
		    (sh.sh_flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR | SHF_COMPRESSED)) ==
			    SHF_ALLOC)
			rc = read_section(t, f, begin, &sh, chunk);
	}
	if (t && !rc)
		t->sorted = calloc(t->n + 1, sizeof(*t->sorted));
	if (!t || !chunk || rc || !t->sorted) {
		recipe_texts__free(t);
		return error__set(err, -ENOMEM, "out of memory");
	}
	p = (const char *)t->bytes.data;
	for (i = 0; i < t->n; i++, p += strlen(p) + 1)
		t->sorted[i] = p;
	qsort(t->sorted, t->n, sizeof(*t->sorted), by_text);
	*out = t;
	return 0;
}

void recipe_texts__free(struct recipe_texts *t)
{
	if (!t)
		return;
	buf__free(&t->bytes);
	free(t->sorted);
	free(t);
}

size_t recipe_texts__count(const struct recipe_texts *t)
{
	return t->n;
}

bool recipe_texts__cut(const struct recipe_texts *t, char *name, char at)
{
	size_t whole = strlen(name), len = whole;
	const char *key = name;

	/* None of the texts is longer. */
	if (len > MAX_TEXT)
		len = MAX_TEXT;
	for (; len; len--) {
		char was = name[len];

		if (len != whole && was != at)
			continue;
		name[len] = 0;
		if (bsearch(&key, t->sorted, t->n, sizeof(*t->sorted), by_text))
			return true;
		name[len] = was;
	}
	return false;
}
