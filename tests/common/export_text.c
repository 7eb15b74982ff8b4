// SPDX-License-Identifier: Apache-2.0
#include "tests/common/export_text.h"

#include <setjmp.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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
