// SPDX-License-Identifier: Apache-2.0
#include "user/service/proto.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

void proto__put_string(struct buf *b, const char *s)
{
	size_t len = s ? strlen(s) : 0;

	buf__u32le(b, (uint32_t)len);
	buf__append(b, s ? s : "", len);
}

char *proto__get_string(struct cursor *c)
{
	uint32_t len = cursor__u32le(c);
	const uint8_t *p;
	char *s;

	if (c->bad || len > PROTO_MAX_STRING) {
		c->bad = true;
		return NULL;
	}
	p = cursor__bytes(c, len);
	if (!p || memchr(p, 0, len)) {
		c->bad = true;
		return NULL;
	}
	s = malloc(len + 1);
	if (!s) {
		c->bad = true;
		return NULL;
	}
	memcpy(s, p, len);
	s[len] = 0;
	return s;
}

void proto__put_strings(struct buf *b, const char *const *s, size_t n)
{
	buf__u32le(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		proto__put_string(b, s[i]);
}

void proto__free_strings(char **s, size_t n)
{
	for (size_t i = 0; s && i < n; i++)
		free(s[i]);
	free(s);
}

char **proto__get_strings(struct cursor *c, size_t *n)
{
	uint32_t count = cursor__u32le(c);
	char **s;

	*n = 0;
	if (c->bad || count > PROTO_MAX_STRINGS) {
		c->bad = true;
		return NULL;
	}
	s = calloc(count + 1, sizeof(*s));
	if (!s) {
		c->bad = true;
		return NULL;
	}
	for (; *n < count; (*n)++) {
		s[*n] = proto__get_string(c);
		if (!s[*n]) {
			proto__free_strings(s, *n);
			*n = 0;
			return NULL;
		}
	}
	return s;
}

void proto__put_new(struct buf *b, const struct proto_new *m)
{
	buf__u32le(b, m->target);
	buf__u32le(b, m->pid);
	buf__u32le(b, m->flags);
	buf__u32le(b, m->budget);
	buf__u64le(b, m->ring_bytes);
	buf__u64le(b, m->max_bytes);
	proto__put_strings(b, (const char *const *)m->probes, m->n_probes);
	proto__put_strings(b, (const char *const *)m->usdts, m->n_usdts);
	proto__put_strings(b, (const char *const *)m->recipes, m->n_recipes);
}

int proto__get_new(struct cursor *c, struct proto_new *m)
{
	memset(m, 0, sizeof(*m));
	m->target = cursor__u32le(c);
	m->pid = cursor__u32le(c);
	m->flags = cursor__u32le(c);
	m->budget = cursor__u32le(c);
	m->ring_bytes = cursor__u64le(c);
	m->max_bytes = cursor__u64le(c);
	m->probes = proto__get_strings(c, &m->n_probes);
	m->usdts = proto__get_strings(c, &m->n_usdts);
	m->recipes = proto__get_strings(c, &m->n_recipes);
	if (!c->bad)
		return 0;
	proto_new__free(m);
	return -EBADMSG;
}

void proto_new__free(struct proto_new *m)
{
	proto__free_strings(m->probes, m->n_probes);
	proto__free_strings(m->usdts, m->n_usdts);
	proto__free_strings(m->recipes, m->n_recipes);
	m->probes = m->usdts = m->recipes = NULL;
	m->n_probes = m->n_usdts = m->n_recipes = 0;
}

void proto__put_stats(struct buf *b, const struct proto_stats *s)
{
	const uint64_t words[] = { s->elapsed_ns, s->records,         s->spans,     s->lost,
				   s->filtered,   s->unknown_at_most, s->file_bytes };
	const uint32_t halves[] = { s->processes,     s->threads, s->captures_open,
				    s->targets_alive, s->full,    s->ended };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		buf__u64le(b, words[i]);
	for (size_t i = 0; i < ARRAY_SIZE(halves); i++)
		buf__u32le(b, halves[i]);
}

int proto__get_stats(struct cursor *c, struct proto_stats *s)
{
	uint64_t *words[] = { &s->elapsed_ns, &s->records,         &s->spans,     &s->lost,
			      &s->filtered,   &s->unknown_at_most, &s->file_bytes };
	uint32_t *halves[] = { &s->processes,     &s->threads, &s->captures_open,
			       &s->targets_alive, &s->full,    &s->ended };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		*words[i] = cursor__u64le(c);
	for (size_t i = 0; i < ARRAY_SIZE(halves); i++)
		*halves[i] = cursor__u32le(c);
	return c->bad ? -EBADMSG : 0;
}

void proto__put_session(struct buf *b, const struct proto_session *s)
{
	const uint32_t halves[] = { s->pid, s->client, s->uid, s->target, s->target_pid };
	const uint64_t words[] = { s->begun, s->records, s->lost, s->bytes };

	for (size_t i = 0; i < ARRAY_SIZE(halves); i++)
		buf__u32le(b, halves[i]);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		buf__u64le(b, words[i]);
}

int proto__get_session(struct cursor *c, struct proto_session *s)
{
	uint32_t *halves[] = { &s->pid, &s->client, &s->uid, &s->target, &s->target_pid };
	uint64_t *words[] = { &s->begun, &s->records, &s->lost, &s->bytes };

	for (size_t i = 0; i < ARRAY_SIZE(halves); i++)
		*halves[i] = cursor__u32le(c);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		*words[i] = cursor__u64le(c);
	return c->bad ? -EBADMSG : 0;
}

/* --- messages -------------------------------------------------------------------------------- */

static int wait_for(int sock, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = sock, .events = events };

	for (;;) {
		uint64_t now = clock__boottime_ns();
		int left = -1, ret;

		if (deadline) {
			if (now >= deadline)
				return -ETIMEDOUT;
			left = (int)((deadline - now) / NSEC_PER_MSEC) + 1;
		}
		ret = poll(&p, 1, left);
		if (ret > 0)
			return 0;
		if (ret < 0 && errno != EINTR)
			return -errno;
	}
}

int proto__send(int sock, const struct proto_header *h, const struct buf *payload, const int *fds,
		size_t n_fds, uint64_t deadline)
{
	struct proto_header head = *h;
	struct iovec iov[2] = { { &head, sizeof(head) } };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * PROTO_MAX_FDS)];
	} control;
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 1 };
	int ret;

	head.magic = PROTO_MAGIC;
	head.version = PROTO_VERSION;
	head.length = sizeof(head);
	if (payload && payload->len) {
		if (buf__error(payload))
			return -ENOMEM;
		iov[1] = (struct iovec){ payload->data, payload->len };
		msg.msg_iovlen = 2;
		head.length += (uint32_t)payload->len;
	}
	if (head.length > PROTO_MAX_MESSAGE || n_fds > PROTO_MAX_FDS)
		return -EMSGSIZE;
	if (n_fds) {
		struct cmsghdr *c = &control.align;

		memset(&control, 0, sizeof(control));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
	}
	for (;;) {
		if (sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno == ECONNRESET)
			return -EPIPE;
		if (errno != EAGAIN)
			return -errno;
		ret = wait_for(sock, POLLOUT, deadline);
		if (ret)
			return ret;
	}
}

static void take_fds(struct proto_message *m, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (m->n_fds < PROTO_MAX_FDS)
				m->fds[m->n_fds++] = fd;
			else
				close(fd);
		}
	}
}

int proto__receive(int sock, struct proto_message *m, uint64_t deadline)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * PROTO_MAX_FDS)];
	} control;
	struct iovec iov = { m->bytes, sizeof(m->bytes) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;
	int ret;

	m->n_fds = 0;
	for (;;) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
		if (n >= 0)
			break;
		if (errno == EINTR)
			continue;
		if (errno == ECONNRESET)
			return -EPIPE;
		if (errno != EAGAIN)
			return -errno;
		ret = wait_for(sock, POLLIN, deadline);
		if (ret)
			return ret;
	}
	take_fds(m, &msg);
	if (n == 0) {
		proto_message__close_fds(m);
		return -EPIPE;
	}
	if ((size_t)n < sizeof(m->h) || msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		goto bad;
	memcpy(&m->h, m->bytes, sizeof(m->h));
	if (m->h.magic != PROTO_MAGIC || m->h.length != (size_t)n)
		goto bad;
	m->payload = m->bytes + sizeof(m->h);
	m->payload_len = (size_t)n - sizeof(m->h);
	return 0;
bad:
	proto_message__close_fds(m);
	return -EBADMSG;
}

void proto_message__close_fds(struct proto_message *m)
{
	while (m->n_fds)
		close(m->fds[--m->n_fds]);
}
