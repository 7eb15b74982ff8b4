// SPDX-License-Identifier: Apache-2.0
#include "user/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int file__read_all(int dirfd, const char *path, size_t max, char **data, size_t *len)
{
	__cleanup_close int fd = -1;
	struct buf b = { 0 };
	int err = 0;

	*data = NULL;
	if (len)
		*len = 0;
	/* O_NONBLOCK: a FIFO put in the place of a file must not hold us */
	fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n;

		err = buf__reserve(&b, 4096);
		if (err)
			break;
		n = read(fd, b.data + b.len, b.cap - b.len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			err = -errno;
		if (n <= 0)
			break;
		b.len += (size_t)n;
		if (b.len > max) {
			err = -EFBIG;
			break;
		}
	}
	if (err) {
		buf__free(&b);
		return err;
	}
	b.data[b.len] = '\0';
	*data = (char *)b.data;
	if (len)
		*len = b.len;
	return 0;
}

int fd__write_all(int fd, const void *p, size_t n)
{
	const char *from = p;

	while (n) {
		ssize_t done = write(fd, from, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0 && errno == EAGAIN) {
			struct pollfd pfd = { .fd = fd, .events = POLLOUT };

			if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
				return -errno;
			continue;
		}
		if (done < 0)
			return -errno;
		if (!done)
			return -EIO;
		from += done;
		n -= (size_t)done;
	}
	return 0;
}
