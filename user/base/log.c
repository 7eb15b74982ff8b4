// SPDX-License-Identifier: Apache-2.0
#include "user/base/base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void logger__log(const struct logger *l, enum log_level level, const char *area, const char *fmt,
		 ...)
{
	int saved = errno;
	char line[1024];
	struct buf b = { 0 };
	va_list ap;

	if (!l || !l->fn || level > l->max)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	/* Lines quote names of foreign processes and may end on a terminal. */
	text__append_printable(&b, line, strlen(line));
	buf__u8(&b, 0);
	if (!buf__error(&b))
		l->fn(l->ctx, level, area, (const char *)b.data);
	buf__free(&b);
	errno = saved;
}
