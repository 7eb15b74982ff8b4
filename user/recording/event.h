/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a recording, as the recorder builds them, the file holds them and the session
 * walks them. One row below makes the enum, the names and the table of fields that are stored.
 */
#ifndef CLIKA_USER_RECORDING_EVENT_H
#define CLIKA_USER_RECORDING_EVENT_H

#include "user/base/base.h"

/* Which fields of struct event a kind stores (beside ts, name, cat, flags and arguments). */
#define EVF_DUR 0x01   /* dur */
#define EVF_ID 0x02    /* id */
#define EVF_VALUE 0x04 /* value (as 64 bits) */
#define EVF_AUX 0x08   /* aux */
#define EVF_POOL 0x10  /* pool (string id) */

/*   enum          name             fields                          numbers are stored: append only */
#define EVENT_KINDS(X)                                                                             \
	X(EV_SPAN, 1, "span", EVF_DUR)                                                             \
	X(EV_INSTANT, 2, "instant", 0)                                                             \
	X(EV_COUNTER_I64, 3, "counter_i64", EVF_VALUE)                                             \
	X(EV_COUNTER_F64, 4, "counter_f64", EVF_VALUE)                                             \
	X(EV_ASYNC_BEGIN, 5, "async_begin", EVF_ID)                                                \
	X(EV_ASYNC_END, 6, "async_end", EVF_ID)                                                    \
	X(EV_FLOW_OUT, 7, "flow_out", EVF_ID)                                                      \
	X(EV_FLOW_STEP, 8, "flow_step", EVF_ID)                                                    \
	X(EV_FLOW_IN, 9, "flow_in", EVF_ID)                                                        \
	X(EV_REQUEST_BEGIN, 10, "request_begin", EVF_ID)                                           \
	X(EV_REQUEST_FIRST, 11, "request_first_output", EVF_ID)                                    \
	X(EV_REQUEST_OUTPUT, 12, "request_output", EVF_ID | EVF_VALUE)                             \
	X(EV_REQUEST_END, 13, "request_end", EVF_ID)                                               \
	X(EV_ALLOC, 14, "alloc", EVF_ID | EVF_VALUE | EVF_AUX | EVF_POOL)                          \
	X(EV_FREE, 15, "free", EVF_ID | EVF_AUX)                                                   \
	X(EV_RESERVE, 16, "reserve", EVF_ID | EVF_VALUE | EVF_AUX | EVF_POOL)                      \
	X(EV_RELEASE, 17, "release", EVF_ID | EVF_AUX)                                             \
	X(EV_THREAD_NAME, 18, "thread_name", 0)                                                    \
	X(EV_QUEUE_NAME, 19, "queue_name", EVF_ID)                                                 \
	X(EV_DEVICE_NAME, 20, "device_name", EVF_AUX)                                              \
	X(EV_PROCESS_LABEL, 21, "process_label", 0)                                                \
	X(EV_CAPTURE_BEGIN, 22, "capture_begin", EVF_ID)                                           \
	X(EV_CAPTURE_END, 23, "capture_end", EVF_ID)

enum event_kind {
#define X(e, n, name, fields) e = n,
	EVENT_KINDS(X)
#undef X
		EV_KIND_COUNT
};

/*
 * Span flags. A span on a thread is stored where it *starts* (pre-order), with its duration when
 * the end was seen before its block was written; otherwise it is stored EVS_OPEN with an open id
 * in `id`, and its end follows as a struct span_end in a later block of the same recording.
 */
enum event_flags {
	EVS_OPEN = 0x0001, /* dur unknown here; id = open id, unique in the recording, never 0 */
	EVS_UNFINISHED = 0x0002, /* no end was seen: closed at the moment that proved it was left */
	EVS_NO_BEGIN = 0x0004,   /* was running when recording began: ts is the attach time */
	EVS_CLIPPED = 0x0008,    /* end cut to its parent's end (streams that did not nest) */
	EVS_FUNCTION = 0x0010,   /* from a function probe */
	EVS_USDT = 0x0020,       /* from a USDT marker of another provider */
	EVS_ADDRESS_NAME = 0x0040, /* the name could not be read; it shows the address */
	EVS_REDACTED = 0x0080,     /* an argument was left out or cut by --redact */
};

enum arg_type { ARG_I64 = 1, ARG_U64 = 2, ARG_F64 = 3, ARG_STR = 4 };
#define EVENT_MAX_ARGS 12 /* a USDT marker has up to 12, ours up to 8 */

struct event_arg {
	uint32_t key; /* string id */
	uint8_t type; /* enum arg_type */
	uint16_t len; /* of str */
	union {
		int64_t i;
		uint64_t u;
		double f;
		const char *str; /* not NUL-terminated; lives as long as the event's arguments */
	};
};

struct event {
	uint64_t ts;    /* CLOCK_BOOTTIME ns */
	uint64_t dur;   /* ns; EV_SPAN that is not EVS_OPEN */
	uint64_t id;    /* async, flow, request, queue id; open id; address of memory; capture id */
	uint64_t value; /* counter value (f64: its bits), output units, bytes */
	uint32_t name;  /* string id: span, counter, flow, request kind, tag, the given name;
			 * for memory events: 0 */
	uint32_t cat;   /* string id, 0 = none */
	uint32_t src;   /* string id of "file:line" of the marker, 0 = unknown */
	uint32_t aux;   /* device number of memory events */
	uint32_t pool;  /* string id of a memory pool or tag, 0 = none */
	uint16_t flags; /* enum event_flags */
	uint8_t kind;   /* enum event_kind */
	uint8_t nargs;
	const struct event_arg *args;
};

/* The end of a span that an earlier block announced as EVS_OPEN. */
struct span_end {
	uint64_t open_id;
	uint64_t ts;
	uint16_t flags; /* EVS_UNFINISHED when no end was seen */
	uint8_t nargs;  /* arguments given at the end; they join those of the begin */
	const struct event_arg *args;
};

/* One process image. (pid, start, exec_gen) is the identity, never pid alone. */
struct process_info {
	uint32_t pid, ppid; /* as the recorder's pid namespace sees them */
	uint32_t ns_pid;    /* as the process sees itself */
	uint32_t uid;
	uint64_t start;      /* start_boottime of the group leader, ns */
	uint32_t exec_gen;   /* times the identity executed another image */
	uint64_t first_seen; /* ns */
	uint64_t ended;      /* ns, 0 = was alive at the end */
	int32_t exit_code;   /* wait status when ended */
	char *comm, *exe, *cmdline, *cgroup, *container, *label; /* NULL = unknown; malloc'ed */
};

struct thread_info {
	uint32_t process; /* index of its process, as returned by the writer */
	uint32_t tid, ns_tid;
	uint64_t start; /* start_boottime of the thread, ns; 0 = unknown */
	uint64_t ended;
	char *name; /* last known; malloc'ed */
};

/* Why records were not taken. One row a cause; zeros are written too. */
#define LOSS_CAUSES(X)                                                                             \
	X(LOSS_RING_FULL, 1, "ring buffer full")                                                   \
	X(LOSS_READ_FAULT, 2, "target memory could not be read")                                   \
	X(LOSS_BAD_RECORD, 3, "malformed record from the target")                                  \
	X(LOSS_OVERWRITTEN, 4, "thread buffer overwritten before it was read")                     \
	X(LOSS_MAP_FULL, 5, "BPF map full")                                                        \
	X(LOSS_TARGET_DROPPED, 6, "dropped in the target (nesting too deep, signal in a marker)")  \
	X(LOSS_FILE_LIMIT, 7, "recording reached --max-size")                                      \
	X(LOSS_PROBE_MISSED, 8, "probe missed by the kernel")

enum loss_cause {
	LOSS_NONE,
#define X(e, n, text) e = n,
	LOSS_CAUSES(X)
#undef X
		LOSS_CAUSE_COUNT
};

/* Totals so far; the newest row of a (process, cpu, cause, probe) key counts. */
struct loss_info {
	uint32_t process; /* index, UINT32_MAX = not known */
	int32_t cpu;      /* -1 = not known or all */
	uint16_t cause;   /* enum loss_cause */
	uint64_t records; /* exactly lost */
	uint64_t at_most; /* unknown, at most this many more (0 = nothing unknown) */
	char *probe;      /* single-hit probe, NULL = markers */
};

struct count_info { /* emitted = recorded + lost, in records, over the whole recording so far */
	uint64_t emitted, recorded, lost, filtered;
};

struct dropped_info { /* what a flight recorder has overwritten */
	uint64_t segments, events;
	uint64_t until; /* greatest ts of these events: from later on nothing is missing */
};

struct capture_info {
	uint64_t id;      /* unique in the recording */
	uint32_t process; /* opened by this process's marker; UINT32_MAX = by the session itself */
	uint64_t begin, end; /* ns; end 0 = still open */
	char *tag;
};

struct warning_info {
	char *code; /* stable, like "late-attach" */
	char *text;
};

/* Who recorded, where, how: written once at the start. */
struct recording_meta {
	char *tool, *version;       /* "clika-bpf-prof", "0.1.0" */
	char *command;              /* the command line of the recorder */
	char *host, *kernel, *arch; /* uname */
	char *machine_id;           /* boot id: recordings of one boot share CLOCK_BOOTTIME */
	char *targets;              /* what was asked for, for people */
	uint32_t cpus, page_size;
	uint64_t ram_bytes;
	uint64_t created_realtime; /* ns */
};

/* From the tables above; NULL (or 0) for numbers that they do not have. */
const char *event_kind__name(unsigned kind);
unsigned event_kind__fields(unsigned kind); /* EVF_* */
const char *loss_cause__text(unsigned cause);

#endif
