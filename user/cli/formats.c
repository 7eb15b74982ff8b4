// SPDX-License-Identifier: Apache-2.0
/* Lists of export formats as people write them: "chrome,summary", "standard", "all". */
#include "user/cli/cli.h"

#include <string.h>

static bool is_word(const char *s, size_t len, const char *word)
{
	return strlen(word) == len && !memcmp(s, word, len);
}

/* Index of the format, -1 for "standard", -2 for "none such". */
static long find(const char *s, size_t len)
{
	size_t i;

	if (is_word(s, len, "standard"))
		return -1;
	for (i = 0; clika_format__name(i); i++) {
		if (is_word(s, len, clika_format__name(i)))
			return (long)i;
	}
	return -2;
}

bool formats__exists(const char *name)
{
	return find(name, strlen(name)) >= 0;
}

bool formats__known(const char *list, char *bad, size_t n)
{
	for (;; list++) {
		size_t len = strcspn(list, ",");

		if (find(list, len) == -2) {
			snprintf(bad, n, "%.*s", (int)len, list);
			return false;
		}
		list += len;
		if (!*list)
			return true;
	}
}

void formats__names(char *to, size_t n)
{
	size_t i, used = 0;

	for (i = 0; clika_format__name(i) && used < n; i++)
		used += (size_t)snprintf(to + used, n - used, "%s%s", i ? ", " : "",
					 clika_format__name(i));
}

static size_t add_file(const char **files, size_t n, size_t max, const char *file)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (!strcmp(files[i], file))
			return n;
	}
	if (n + 1 < max)
		files[n++] = file;
	return n;
}

size_t formats__files(const char *list, const char **files, size_t max)
{
	size_t n = 0, i;

	for (;; list++) {
		size_t len = strcspn(list, ",");
		long at = find(list, len);

		for (i = 0; at == -1 && clika_format__name(i); i++) {
			if (clika_format__is_standard(i))
				n = add_file(files, n, max, clika_format__file(i));
		}
		if (at >= 0)
			n = add_file(files, n, max, clika_format__file((size_t)at));
		list += len;
		if (!*list)
			break;
	}
	files[n] = NULL;
	return n;
}

#define HELP_COLUMNS 100

/* @text in lines of at most @columns, each after the first set in by @indent. */
static void print_wrapped(FILE *out, const char *text, int indent, int columns)
{
	while (*text) {
		size_t len = strlen(text), end = len;

		if (len > (size_t)columns) {
			for (end = (size_t)columns; end && text[end] != ' '; end--)
				;
			if (!end)
				end = len;
		}
		fprintf(out, "%.*s\n", (int)end, text);
		text += end + (text[end] == ' ');
		if (*text)
			fprintf(out, "%*s", indent, "");
	}
}

void formats__print(FILE *out)
{
	int name = 0, file = 0;
	size_t i;

	for (i = 0; clika_format__name(i); i++) {
		int n = (int)strlen(clika_format__name(i)), f = (int)strlen(clika_format__file(i));

		name = n > name ? n : name;
		file = f > file ? f : file;
	}
	fprintf(out, "\nFormats:\n");
	for (i = 0; clika_format__name(i); i++) {
		fprintf(out, "%c %-*s %-*s ", clika_format__is_standard(i) ? '*' : ' ', name,
			clika_format__name(i), file, clika_format__file(i));
		print_wrapped(out, clika_format__summary(i), name + file + 4,
			      HELP_COLUMNS - name - file - 4);
	}
	fprintf(out, "* part of the standard set, also written as \"standard\"\n");
}
