// SPDX-License-Identifier: Apache-2.0
#include "user/base/base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Messages carry names of foreign files and processes and end on a terminal, so they are made
 * printable here, once, and cut at a character boundary.
 */
static void error__store(struct clika_error *err, const char *text)
{
	struct buf b = { 0 };
	size_t n;

	text__append_printable(&b, text, strlen(text));
	if (buf__error(&b)) {
		snprintf(err->msg, sizeof(err->msg), "out of memory");
		buf__free(&b);
		return;
	}
	n = b.len;
	if (n >= sizeof(err->msg)) {
		n = sizeof(err->msg) - 1;
		while (n && (b.data[n] & 0xc0) == 0x80)
			n--;
	}
	if (n)
		memcpy(err->msg, b.data, n);
	err->msg[n] = '\0';
	buf__free(&b);
}

int error__set(struct clika_error *err, int code, const char *fmt, ...)
{
	char text[sizeof(err->msg)]; /* apart, because an argument may be err->msg itself */
	int saved = errno;
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err->code = code;
	error__store(err, text);
	errno = saved;
	return code;
}

int error__prefix(struct clika_error *err, const char *fmt, ...)
{
	char text[2 * sizeof(err->msg) + 4], head[sizeof(err->msg)];
	va_list ap;

	if (!err)
		return 0;
	va_start(ap, fmt);
	vsnprintf(head, sizeof(head), fmt, ap);
	va_end(ap);
	snprintf(text, sizeof(text), "%s: %s", head, err->msg);
	error__store(err, text);
	return err->code;
}

void cleanup__close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

void cleanup__free(void *p)
{
	void *v;

	memcpy(&v, p, sizeof(v));
	free(v);
}
