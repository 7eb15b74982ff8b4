/* SPDX-License-Identifier: 0BSD */
/*
 * clika/markers.h - markers for inference runtimes. One file, no library to link.
 * The ABI below is version 1 and documented in docs/markers.md.
 */
#ifndef CLIKA_MARKERS_H
#define CLIKA_MARKERS_H

#include <stdint.h>

/* ---- ABI, version 1 ------------------------------------------------------------------------ */

#define CLIKA_ABI_VERSION 1
#define CLIKA_OBJECT_MAGIC 0x4a424f4b494c4331ull /* struct clika_object.magic */
#define CLIKA_BUFFER_MAGIC 0x4655424bu           /* struct clika_buffer.magic */
#define CLIKA_HALF_BYTES 8192u                   /* a batch never crosses a half */
#define CLIKA_DATA_BYTES (2u * CLIKA_HALF_BYTES)
#define CLIKA_MAX_RECORD 1024u                   /* bytes, header and padding included */
#define CLIKA_MAX_OPEN 64u                       /* spans open at one moment on one thread */
#define CLIKA_MAX_ARGS 8u
#define CLIKA_NAME_BYTES 48u
#define CLIKA_NAMES 32u

/* A name that was given before anybody looked (queues, devices). */
struct clika_name {
	uint32_t kind; /* CLIKA_REC_QUEUE_NAME, CLIKA_REC_DEVICE_NAME; 0 = unused; written last */
	uint32_t pad;
	uint64_t id;
	char name[CLIKA_NAME_BYTES]; /* NUL-terminated */
};

/* One an ELF object (hidden, weak). The allocated ELF note leads to it. */
struct clika_object {
	uint64_t magic;
	uint32_t abi;      /* CLIKA_ABI_VERSION */
	uint32_t bytes;    /* sizeof(struct clika_object) */
	uint64_t buffers;  /* address of the newest struct clika_buffer of this object, 0 = none */
	uint32_t pid;      /* process that the list belongs to, as it sees itself */
	uint32_t n_names;
	char label[64];    /* process label, "" = none */
	struct clika_name names[CLIKA_NAMES];
};

/* An open span, kept so that a flush can announce it. */
struct clika_open {
	uint64_t start;
	int32_t name; /* as in struct clika_rec */
	uint32_t pad;
};

/* One a thread and object; page-aligned mapping, MADV_WIPEONFORK. */
struct clika_buffer {
	uint32_t magic;         /* CLIKA_BUFFER_MAGIC once usable; 0 after fork */
	uint16_t abi;
	uint16_t data_offset;   /* of the data bytes from the start of this struct */
	uint64_t head;          /* bytes ever written; store-release after the bytes */
	uint64_t flushed;       /* bytes handed to the probe */
	uint64_t count;         /* records ever written (padding is none); stored before head */
	uint64_t flushed_count; /* records handed to the probe */
	uint64_t dropped;       /* records that could not be written */
	uint64_t next;          /* address of the next older buffer of the object */
	uint64_t object;        /* address of its struct clika_object */
	uint32_t pid, tid;      /* as the process sees them */
	uint64_t born;          /* CLOCK_BOOTTIME ns: (address, born) is the buffer's identity */
	uint32_t depth;         /* open spans */
	uint32_t announced;     /* of those, how many a BEGIN record has told */
	uint32_t busy;          /* writer inside a record: a signal handler drops its own */
	uint32_t dead;          /* thread has gone; may be reused by a new one (new born) */
	uint64_t limit;         /* head may grow to here before the half is full; 0 = slow path */
	char thread_name[64];   /* "" = none */
	struct clika_open open[CLIKA_MAX_OPEN];
	/* data_offset: CLIKA_DATA_BYTES of records; byte n of the stream lies at n % CLIKA_DATA_BYTES */
};

enum clika_rec_kind {
	CLIKA_REC_PAD = 0,           /* fills a half up; only size counts, at least 8 */
	CLIKA_REC_SPAN = 1,          /* u64 end */
	CLIKA_REC_BEGIN = 2,         /* u32 depth (0 = outermost), u32 0; args */
	CLIKA_REC_END = 3,           /* u32 depth, u32 0; args; closes everything deeper too */
	CLIKA_REC_INSTANT = 4,       /* args */
	CLIKA_REC_COUNTER_I64 = 5,   /* i64 value */
	CLIKA_REC_COUNTER_F64 = 6,   /* f64 value */
	CLIKA_REC_ASYNC_BEGIN = 7,   /* u64 id; args */
	CLIKA_REC_ASYNC_END = 8,     /* u64 id; args */
	CLIKA_REC_FLOW_OUT = 9,      /* u64 id */
	CLIKA_REC_FLOW_STEP = 10,    /* u64 id */
	CLIKA_REC_FLOW_IN = 11,      /* u64 id */
	CLIKA_REC_REQUEST_BEGIN = 12,/* u64 id; args */
	CLIKA_REC_REQUEST_FIRST = 13,/* u64 id */
	CLIKA_REC_REQUEST_OUTPUT = 14, /* u64 id, u64 units */
	CLIKA_REC_REQUEST_END = 15,  /* u64 id; args */
	CLIKA_REC_ALLOC = 16,        /* u64 address, u64 bytes, u32 device, i32 pool (literal, 0 = none) */
	CLIKA_REC_FREE = 17,         /* u64 address, u32 device, u32 0 */
	CLIKA_REC_RESERVE = 18,      /* as ALLOC: a caching pool took memory from the device */
	CLIKA_REC_RELEASE = 19,      /* as FREE */
	CLIKA_REC_THREAD_NAME = 20,  /* the name */
	CLIKA_REC_QUEUE_NAME = 21,   /* u64 id; the name */
	CLIKA_REC_DEVICE_NAME = 22,  /* u64 device; the name */
	CLIKA_REC_PROCESS_LABEL = 23,/* the name */
	CLIKA_REC_CAPTURE_BEGIN = 24,/* tag = name */
	CLIKA_REC_CAPTURE_END = 25,  /* tag = name */
};

#define CLIKA_RECF_NARGS 0x0f  /* flags: number of arguments */
#define CLIKA_RECF_INLINE 0x10 /* the name follows the fixed part: u16 length, bytes, padded to 8;
				* `name` is 0 then. Thread, queue, device names and labels always are */

/*
 * A record: this header, the fixed part of its kind, the inline name (if flagged), the arguments.
 * Everything little-endian as the machine is, 8-byte aligned.
 * name: displacement in bytes from the object's struct clika_object to a string literal of the
 * form "name\0category\0file:line\0" (category may be empty). 0 = no name.
 */
struct clika_rec {
	uint16_t size; /* of the whole record, a multiple of 8 */
	uint8_t kind;
	uint8_t flags;
	int32_t name;
	uint64_t ts;   /* CLOCK_BOOTTIME ns; PAD has none */
};

enum clika_arg_type { CLIKA_ARG_I64 = 1, CLIKA_ARG_U64 = 2, CLIKA_ARG_F64 = 3, CLIKA_ARG_STR = 4 };

struct clika_rec_arg {
	uint8_t type;  /* enum clika_arg_type */
	uint8_t pad;
	uint16_t len;  /* of a string: that many bytes follow, padded to 8; numbers: 8 bytes follow */
	int32_t key;   /* displacement to a literal, as in struct clika_rec */
};

/*
 * ELF note, allocated (found through PT_NOTE, survives every strip): owner "clika", type 1,
 * desc = 4 words: u32 abi, then i32 displacements, each from its own address, to
 * struct clika_object, to the semaphore (u16) and to the probe site.
 */
#define CLIKA_NOTE_NAME "clika"
#define CLIKA_NOTE_TYPE 1

/*
 * Probe site of the batched transport: one function of the object, first instruction a 1-byte nop
 * (arm64: nop), called with (struct clika_buffer *buffer, uint64_t from, uint64_t to) in the
 * first three argument registers. from == to: the buffer has just been made (registration).
 * The bytes [from, to) lie in one half.
 */
#endif /* CLIKA_ABI_ONLY consumers stop here */
