/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What client and loader service say to each other, over a SOCK_SEQPACKET UNIX socket: one message
 * a packet, each with its length in front. Requests are answered in order, one answer each. Both
 * sides treat the other's bytes as foreign: bounded, checked, never trusted.
 *
 * Protocol 2 is described in docs/service.md. Both sides tell theirs with hello, and neither goes on with another one.
 */
#ifndef CLIKA_USER_SERVICE_PROTO_H
#define CLIKA_USER_SERVICE_PROTO_H

#include "user/base/base.h"

#define PROTO_MAGIC 0x50414b43u /* "CKAP" */
#define PROTO_VERSION 2
#define PROTO_MAX_MESSAGE (64u << 10)
#define PROTO_MAX_FDS 16
#define PROTO_MAX_STRING 4096
#define PROTO_MAX_STRINGS 64

/*  request         number  payload -> answer's payload                       append only */
#define PROTO_REQUESTS(X)                                                                          \
	X(REQ_HELLO, 1)         /* u32 version -> u32 version, string loader's version */          \
	X(REQ_NEW, 2)           /* struct proto_new -> u32 pid of the target */                    \
	X(REQ_CAPTURE_BEGIN, 3) /* string tag -> u64 id */                                         \
	X(REQ_CAPTURE_END, 4)   /* u64 id -> nothing */                                            \
	X(REQ_FLUSH, 5)         /* nothing -> nothing */                                           \
	X(REQ_EXPORT, 6) /* strings formats, one descriptor each, string tag ("" = all),    \
				 * u64 last ns (0 = all) -> nothing */      \
	X(REQ_STATS, 7)  /* nothing -> struct proto_stats */                                       \
	X(REQ_LIST, 8)   /* nothing -> u32 n, n times struct proto_session */                      \
	X(REQ_CANCEL, 9) /* u32 seq of an export -> nothing; the export is answered first */

enum proto_request {
#define X(e, n) e = n,
	PROTO_REQUESTS(X)
#undef X
};

struct proto_header {
	uint32_t magic;
	uint32_t length; /* of the whole message */
	uint32_t seq;    /* an answer repeats its request's */
	uint16_t type;   /* enum proto_request; in an answer too */
	uint16_t version;
	int32_t code; /* answers: 0 or a negative errno; then the payload is one string */
	uint32_t pad;
};
_Static_assert(sizeof(struct proto_header) == 24, "the header is part of the protocol");

struct proto_new {
	uint32_t target; /* enum clika_client_target: self, pid or system */
	uint32_t pid;
	uint32_t flags; /* enum proto_new_flags */
	uint32_t
		budget; /* millionths of CPU time; 0 = the loader's default, PROTO_BUDGET_OFF = none */
	uint64_t ring_bytes, max_bytes;
	char **probes, **usdts, **recipes;
	size_t n_probes, n_usdts, n_recipes;
};
enum proto_new_flags { NEW_CHILDREN = 1, NEW_REDACT = 2, NEW_FLIGHT = 4, NEW_NO_AUTO = 8 };
#define PROTO_BUDGET_OFF UINT32_MAX
#define PROTO_BUDGET_MAX 10000000u

struct proto_stats {
	uint64_t elapsed_ns, records, spans, lost, filtered, unknown_at_most, file_bytes;
	uint32_t processes, threads, captures_open, targets_alive;
	uint32_t full, ended;
};

struct proto_session { /* for a list of sessions */
	uint32_t pid;  /* of the session's loader process */
	uint32_t client, uid, target, target_pid;
	uint64_t begun, records, lost, bytes; /* begun: CLOCK_BOOTTIME ns */
};

/* Payloads. Readers leave c->bad set when something is wrong. */
void proto__put_string(struct buf *b, const char *s);
/* malloc'ed; NULL when bad, longer than PROTO_MAX_STRING or not printable text (NUL inside). */
char *proto__get_string(struct cursor *c);
void proto__put_strings(struct buf *b, const char *const *s, size_t n);
char **proto__get_strings(struct cursor *c, size_t *n); /* proto__free_strings() */
void proto__free_strings(char **s, size_t n);
void proto__put_new(struct buf *b, const struct proto_new *m);
int proto__get_new(struct cursor *c, struct proto_new *m);
void proto_new__free(struct proto_new *m);
void proto__put_stats(struct buf *b, const struct proto_stats *s);
int proto__get_stats(struct cursor *c, struct proto_stats *s);
void proto__put_session(struct buf *b, const struct proto_session *s);
int proto__get_session(struct cursor *c, struct proto_session *s);

/* One message. @deadline: CLOCK_BOOTTIME ns, 0 = never. -ETIMEDOUT, -EPIPE (the other side has
 * gone), -EBADMSG (not this protocol). */
int proto__send(int sock, const struct proto_header *h, const struct buf *payload, const int *fds,
		size_t n_fds, uint64_t deadline);
struct proto_message {
	struct proto_header h;
	const uint8_t *payload;
	size_t payload_len;
	int fds[PROTO_MAX_FDS]; /* owned by the receiver: proto_message__close_fds() */
	size_t n_fds;
	uint8_t bytes[PROTO_MAX_MESSAGE];
};
int proto__receive(int sock, struct proto_message *m, uint64_t deadline);
void proto_message__close_fds(struct proto_message *m);

#endif
