// SPDX-License-Identifier: Apache-2.0
#include "tests/common/export_text.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define KEEP_BYTES (1u << 20) /* what validators take in no time */

/* For validators that are no C: the JSON reports of the tests, when the variable names a folder. */
static void keep(const char *format, const char *text, size_t len)
{
	const char *dir = getenv("CLIKA_KEEP_EXPORTS");
	static unsigned int n;
	char path[512];
	int fd;

	if (!dir || len > KEEP_BYTES || (strcmp(format, "report") && strcmp(format, "memory")))
		return;
	snprintf(path, sizeof(path), "%s/%u.%s.json", dir, n++, format);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd__write_all(fd, text, len), 0);
	close(fd);
}

char *export__text(struct rec *b, const char *format, const struct clika_view_opts *view,
		   const struct clika_export_opts *o, size_t *len)
{
	struct clika_prof_error err = { 0 };
	struct clika_recording *r = NULL;
	int fd = rec__write(b, NULL);
	char *text = NULL;
	size_t n = 0;

	if (clika_recording__open_fd(fd, view, &r, &err) ||
	    clika_recording__export_mem(r, format, o, &text, &n, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(text[n], '\0');
	keep(format, text, n);
	clika_recording__close(r);
	close(fd);
	if (len)
		*len = n;
	return text;
}

void assert_plain_text(const char *text, size_t len, unsigned int columns)
{
	unsigned int width = 0;
	size_t i;

	assert_true(utf8__valid(text, len));
	for (i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\n') {
			assert_true(!i || text[i - 1] != ' ');
			width = 0;
			continue;
		}
		if (c < 0x20 || c == 0x7f ||
		    (c == 0xc2 && (unsigned char)text[i + 1] >= 0x80 &&
		     (unsigned char)text[i + 1] < 0xa0))
			fail_msg("control byte at %zu", i);
		width += (c & 0xc0) != 0x80;
		if (width > columns)
			fail_msg("a line is wider than %u: %.*s", columns, 120, text + i - 60);
	}
}
