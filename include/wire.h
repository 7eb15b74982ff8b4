/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the BPF programs and the loader agree on: records in the ring, values in the maps.
 * Fixed-width types only; every size is asserted; no pointers.
 */
#ifndef CLIKA_WIRE_H
#define CLIKA_WIRE_H

#ifndef __bpf__
#include <stdint.h>
typedef uint8_t __wu8;
typedef uint16_t __wu16;
typedef uint32_t __wu32;
typedef uint64_t __wu64;
typedef int32_t __ws32;
typedef int64_t __ws64;
#else
typedef __u8 __wu8;
typedef __u16 __wu16;
typedef __u32 __wu32;
typedef __u64 __wu64;
typedef __s32 __ws32;
typedef __s64 __ws64;
#endif

#define WIRE_ASSERT_SIZE(type, n) _Static_assert(sizeof(type) == (n), #type " changed its size")

/* --- arguments of a USDT marker, as its note tells where they are ----------------------------- */

#define WIRE_MAX_ARGS 12

enum wire_spec_kind {
	SPEC_CONST = 1, /* value */
	SPEC_REG = 2,   /* a register */
	SPEC_MEM = 3,   /* *(reg + value) */
	SPEC_SIB = 4,   /* *(reg + index * scale + value) */
};

#define SPEC_NO_REG 0xffff

struct wire_spec {
	__ws64 value;    /* constant or displacement */
	__wu16 reg;      /* byte offset in the kernel's struct pt_regs (arm64: user_pt_regs);
			   * SPEC_NO_REG: nothing (SPEC_MEM, SPEC_SIB) */
	__wu16 index;    /* likewise */
	__wu8 kind;      /* enum wire_spec_kind */
	__wu8 bytes;     /* 1, 2, 4, 8 */
	__wu8 is_signed; /* extend the sign to 64 bits */
	__wu8 scale;     /* a factor: 1, 2, 4, 8, 16 */
};
WIRE_ASSERT_SIZE(struct wire_spec, 16);

/* --- records in the ring ----------------------------------------------------------------------- */

/*  kind            number  name        struct                    append only: numbers are compared across builds */
#define WIRE_KINDS(X)                                                                              \
	X(W_BATCH, 1, "batch", struct wire_batch)                                                  \
	X(W_HIT, 2, "hit", struct wire_hit)                                                        \
	X(W_CALL, 3, "call", struct wire_call)                                                     \
	X(W_RETURN, 4, "return", struct wire_call)                                                 \
	X(W_PROCESS, 5, "process", struct wire_process)                                            \
	X(W_FORK, 6, "fork", struct wire_process)                                                  \
	X(W_EXEC, 7, "exec", struct wire_process)                                                  \
	X(W_EXIT, 8, "exit", struct wire_exit)                                                     \
	X(W_RENAME, 9, "rename", struct wire_exit)                                                 \
	X(W_REGISTER, 10, "register", struct wire_register)                                        \
	X(W_OPEN, 11, "open", struct wire_open)                                                    \
	X(W_CALL_DATA, 12, "call with data", struct wire_call_data)                                \
	X(W_RETURN_DATA, 13, "return with data", struct wire_call_data)

enum wire_kind {
#define X(e, n, name, type) e = n,
	WIRE_KINDS(X)
#undef X
		W_KIND_COUNT
};

struct wire_hdr {
	__wu16 size; /* bytes that carry meaning; the ring may hold more */
	__wu8 kind;  /* enum wire_kind */
	__wu8 flags; /* enum wire_flags */
	__wu32 cpu;
	__wu64 ts; /* CLOCK_BOOTTIME ns */
};
WIRE_ASSERT_SIZE(struct wire_hdr, 16);

enum wire_flags {
	WF_DRAINED = 1,   /* batch: taken by a hook when its thread ended, not handed over */
	WF_FAULT = 2,     /* some text could not be read */
	WF_LAST = 4,      /* exit: last thread of the process */
	WF_TAIL = 8,      /* return: by a jump out of the function */
	WF_PARITY = 16,   /* call, return: of the link whose cookies have COOKIE_PARITY */
	WF_AGAIN = 32,    /* call, return: what is before it may be of the same hit */
	WF_OWN_TIME = 64, /* hit: the time is the target's, by its own clock */
};

struct wire_task { /* pids as the initial namespace of the loader's kernel sees them */
	__wu32 tgid, tid;
	__wu64 start;    /* start_boottime of the group leader, ns */
	__wu64 tstart;   /* start_boottime of the thread, ns */
	__wu32 exec_gen; /* self_exec_id, low half */
	__wu32 aux; /* no fact of the task: here for records that fill whole lines of the cache */
};
WIRE_ASSERT_SIZE(struct wire_task, 32);

#define WIRE_HALF 8192 /* CLIKA_HALF_BYTES of the marker ABI */
#define WIRE_SMALL_BATCH 1024

struct wire_batch {
	struct wire_hdr hdr;
	struct wire_task task;
	__wu64 buffer, born, object; /* from the target's struct clika_buffer */
	__wu64 from;                 /* position of the first byte in the buffer's stream */
	__wu64 dropped;              /* of the buffer, so far */
	__wu32 records;              /* in this batch */
	__wu32 len;                  /* bytes */
	__wu32 file;                 /* loader's number of the file whose probe fired */
	__wu32 ns_tid;
	char comm[16];
	/* len bytes of marker records follow */
};
WIRE_ASSERT_SIZE(struct wire_batch, 120);

#define WIRE_TEXT 128
#define WIRE_BRIEF 32
#define WIRE_HIT_TEXTS 18 /* name, category, 8 keys, 8 string values; or a marker's strings */

/*
 * task.aux is the displacement of the marker's literal from its semaphore, in two's complement; 0: the
 * texts tell. `room` values follow, of which n_vals mean something, then n_texts texts, each NUL-terminated (in
 * what follows the end lies anything): of WIRE_TEXT bytes where the room is WIRE_MAX_ARGS values, else
 * of WIRE_BRIEF.
 */
struct wire_hit {
	struct wire_hdr hdr;
	struct wire_task task;
	__wu32 site;
	__wu8 n_vals, n_texts, n_args, room;
};
WIRE_ASSERT_SIZE(struct wire_hit, 56);

struct wire_hit_arg { /* marker ABI of the simple transport */
	__wu32 type, len;
	__wu64 key, value;
};
WIRE_ASSERT_SIZE(struct wire_hit_arg, 24);

struct wire_hit_full {
	struct wire_hit hit; /* room for all values */
	__wu64 vals[WIRE_MAX_ARGS];
	char text[WIRE_HIT_TEXTS][WIRE_TEXT];
	struct wire_hit_arg args[8];
};
WIRE_ASSERT_SIZE(struct wire_hit_full, 152 + WIRE_HIT_TEXTS * WIRE_TEXT + 192);

struct wire_call { /* task.aux: number of the function */
	struct wire_hdr hdr;
	struct wire_task task;
	__wu64 sp;
};
WIRE_ASSERT_SIZE(struct wire_call, 56);

/* What a call brings along: numbers, and texts or arrays that they stand for. */
#define WIRE_FETCHES 8
#define WIRE_FETCH_TEXTS 4
#define WIRE_FETCH_BYTES 64

struct wire_call_data {
	struct wire_call call;
	__wu8 n;      /* of vals */
	__wu8 faults; /* bit i: fetch i could not be read */
	__wu8 texts;  /* that follow */
	__wu8 pad[5];
	__wu64 vals[WIRE_FETCHES]; /* of a text: its length in bytes */
				   /* texts times WIRE_FETCH_BYTES bytes */
};
WIRE_ASSERT_SIZE(struct wire_call_data, 128);

struct wire_process { /* W_FORK: task is the child's first thread, ptgid its parent */
	struct wire_hdr hdr;
	struct wire_task task;
	__wu32 ptgid, uid, ns_pid, args_len;
	__wu32 lpid;    /* pid in the loader's namespace, 0 = not visible there */
	__wu32 args_at; /* low half of where argv lies: another place in nearly every image */
	__wu64 cgroup;
	__ws64 clock_ahead; /* ns: CLOCK_BOOTTIME in its time namespace, less the kernel's own */
	char comm[16];
	char args[256]; /* argv as in memory, NUL between */
};
WIRE_ASSERT_SIZE(struct wire_process, 360);

struct wire_exit { /* also W_RENAME, where comm is the new name */
	struct wire_hdr hdr;
	struct wire_task task;
	__ws32 code; /* wait status */
	__wu32 pad;
	char comm[16];
};
WIRE_ASSERT_SIZE(struct wire_exit, 72);

struct wire_register {
	struct wire_hdr hdr;
	struct wire_task task;
	__wu64 buffer, born, object;
	__wu32 file, ns_tid;
};
WIRE_ASSERT_SIZE(struct wire_register, 80);

#define WIRE_MAX_OPEN 64 /* CLIKA_MAX_OPEN of the marker ABI */

struct wire_open_span { /* struct clika_open */
	__wu64 start;
	__ws32 name;
	__wu32 pad;
};
WIRE_ASSERT_SIZE(struct wire_open_span, 16);

struct wire_open { /* spans still open in a buffer whose thread is about to end */
	struct wire_hdr hdr;
	struct wire_task task;
	__wu64 buffer, born, object;
	__wu32 file, ns_tid;
	__wu32 depth, pad;
	struct wire_open_span open[WIRE_MAX_OPEN];
};
WIRE_ASSERT_SIZE(struct wire_open, 88 + 16 * WIRE_MAX_OPEN);

/* One task that existed when asked (iterator, not ring). */
#define WIRE_NS_LEVELS 8
struct wire_task_info {
	struct wire_task task;
	__wu32 level; /* of its own pid namespace; numbers[0] is the initial one's */
	__wu32 ptgid;
	__wu32 reader; /* tgid of the process that asks */
	__wu32 pad;
	__wu32 numbers[WIRE_NS_LEVELS];
};
WIRE_ASSERT_SIZE(struct wire_task_info, 80);

/* --- attach cookies ------------------------------------------------------------------------------ */

/* Low 32 bits: file number (batch), site (marker hit) or function (call). */
#define COOKIE_RETURN (1ull << 32)
#define COOKIE_TAIL (1ull << 33)
#define COOKIE_RETPROBE (1ull << 34) /* hit after the return address was popped */
/* Bit 35: parity, bits 36 to 41: switch (0 = none). A hit whose parity is not the switch's is an
 * old link's, which is about to be closed. */
#define COOKIE_PARITY (1ull << 35)
#define COOKIE_SWITCH_AT 36
#define COOKIE_SWITCHES 64
#define SWITCH_PARITY 1
#define SWITCH_BOTH 2
/* Bits 48 to 63: what to fetch, a number in the map `fetches`; 0 = nothing. */
#define COOKIE_FETCH_AT 48
/*
 * A return that is seen at a jump before it (x86): bits 43 to 46 are the low half of a conditional
 * jump's opcode, which must be taken, unless it is ALWAYS one. Nothing is fetched; the bits for it tell
 * where the stack pointer was at the entry: as many words (48 to 62) above the stack pointer of the hit,
 * or above the frame pointer.
 */
#define COOKIE_EARLY (1ull << 42)
#define COOKIE_CONDITION_AT 43
#define COOKIE_ALWAYS (1ull << 47)
#define COOKIE_WORDS_AT 48
#define COOKIE_FROM_FP (1ull << 63)

/* --- what function probes fetch -------------------------------------------------------------------- */

enum wire_fetch_kind {
	FETCH_VALUE = 1,  /* a number: the base itself without steps, else what lies at the place */
	FETCH_BYTES = 2,  /* `bytes` bytes at the place */
	FETCH_TEXT = 3,   /* NUL-terminated, at most `bytes` with the NUL */
	FETCH_STRING = 4, /* {pointer, size} at the place */
};

#define WIRE_STEPS 6
#define FETCH_BASE_RETURN 6 /* bases 0 to 5: arguments (at a return: as saved at the entry) */
#define FETCH_BASE_SP 7

/* Every step but the last is added and followed; the last leads to the place. */
struct wire_fetch {
	__wu8 base;
	__wu8 kind; /* enum wire_fetch_kind */
	__wu8 n_steps;
	__wu8 bytes;
	__wu8 is_signed;
	__wu8 slot;  /* of a text */
	__wu8 times; /* of a value: times base times - 1; 0 = by nothing */
	__wu8 shift; /* of a value: shifted right first */
	__ws32 steps[WIRE_STEPS];
};
WIRE_ASSERT_SIZE(struct wire_fetch, 32);

/* Which calls are kept: all, or those that one of these bits is true of. */
enum wire_keep {
	KEEP_ALL = 0,
	KEEP_AT_LEAST = 1, /* an entry: fetch 0 is at least `least` */
	KEEP_KNOWN = 2,    /* an entry: fetch `known` is a block that was remembered */
	KEEP_FRAME = 4,    /* a return: its entry was kept */
};

struct wire_fetch_set {
	__wu8 n, texts;
	__wu8 keep;     /* enum wire_keep */
	__wu8 save;     /* an entry: bit i: argument i is wanted at the return */
	__wu8 frame;    /* an entry: leaves something for its return */
	__wu8 remember; /* a return: 1 + the fetch that is the address of a block */
	__wu8 known;    /* fetch that is the address of a block */
	__wu8 pad;
	__wu64 least;
	struct wire_fetch f[WIRE_FETCHES];
};
WIRE_ASSERT_SIZE(struct wire_fetch_set, 16 + 32 * WIRE_FETCHES);

#define WIRE_SAVED 2 /* arguments that a frame can save */
struct wire_frame_key {
	__wu64 sp;
	__wu32 tid;
	__wu32 pad;
};
struct wire_frame {
	__wu64 func;              /* whose call it is */
	__wu64 saved[WIRE_SAVED]; /* of the lowest bits of `save`, in order */
};
struct wire_block_key {
	__wu64 addr;
	__wu32 tgid;
	__wu32 pad;
};

/* --- maps ------------------------------------------------------------------------------------------ */

enum wire_lost { /* = enum loss_cause of the recording, where BPF can see it */
		 WL_RING_FULL = 1,
		 WL_READ_FAULT = 2,
		 WL_BAD_RECORD = 3,
		 WL_MAP_FULL = 5,
		 WL_CAUSES = 8,
};

struct wire_stats { /* per CPU */
	__wu64 emitted, recorded;
	__wu64 lost[WL_CAUSES];
	__wu64 unattributed;  /* of lost: no room in the loss map for their process */
	__wu64 map_full;      /* updates refused by targets / buffers maps */
	__wu64 unknown_bytes; /* of buffers that could not be read when their thread ended */
	__wu64 life_lost;     /* process events that found no room */
};

struct wire_loss_key {
	__wu64 start;
	__wu32 tgid;
	__wu32 probe; /* site or function + 1, 0 = batches */
	__wu32 cause;
	__wu32 call; /* 1: probe is a function */
};
WIRE_ASSERT_SIZE(struct wire_loss_key, 24);

struct wire_target {
	__wu64 start; /* start_boottime: another process under a reused pid does not match */
	__wu32 taken; /* 0: looked at and refused */
	__wu32 told;  /* W_PROCESS was sent for exec_gen told - 1 */
};
WIRE_ASSERT_SIZE(struct wire_target, 16);

#define WIRE_SLOTS 4 /* buffers of one thread that the exit hook can drain: one an object */
struct wire_buffer_key {
	__wu32 tid;
	__wu32 slot;
};
struct wire_buffer {
	__wu64 tstart; /* of the thread; 0 = not known (found from outside) */
	__wu64 addr;
	__wu32 file;
	__wu32 ns_tid;
	__wu32 drained; /* a hook has taken all there was: the thread runs no more */
	__wu32 pad;
};
WIRE_ASSERT_SIZE(struct wire_buffer, 32);

enum wire_site_kind {
	SITE_MARKER = 1, /* simple transport of clika/markers.h: row is the CLIKA_REC_ kind */
	SITE_USDT = 2,   /* somebody else's marker */
};

struct wire_site {
	__wu8 kind;
	__wu8 n_specs;
	__wu16 str_mask; /* values that are C strings */
	__wu8 args_at;   /* 1 + index of the value that counts typed arguments; pointer follows */
	__wu8 n_strs;    /* with two or fewer, and no typed arguments, a small record does */
	__wu8 str_at[2]; /* indexes of the first two */
	__wu8 in_regs;   /* spec i is argument register i, all 8 bytes */
	/* Of no value, but of what follows the values; 1 + index in specs, 0 = there is none. */
	__wu8 time_at;
	__wu8 literal_at; /* the displacement of the literal that holds all strings */
	__wu8 pad[5];
	struct wire_spec specs[WIRE_MAX_ARGS];
};
WIRE_ASSERT_SIZE(struct wire_site, 16 + 16 * WIRE_MAX_ARGS);

#endif
