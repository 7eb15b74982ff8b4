/* SPDX-License-Identifier: 0BSD */
/*
 * clika/markers.h - markers for inference runtimes. One file, no library to link.
 * The ABI below is version 1 and documented in docs/markers.md, as is every macro.
 *
 * Before inclusion may be defined:
 *   CLIKA_ABI_ONLY           only the ABI section is seen (for readers of the records)
 *   CLIKA_TRANSPORT_SIMPLE   every marker is a USDT probe hit of its own, no thread buffers
 *   CLIKA_TRANSPORT_OFF      markers compile to nothing (so they do where we have no probes)
 *   CLIKA_SOURCE             what stands for __FILE__ in the literals
 *   CLIKA_TLS_MODEL          "initial-exec" for a shared object that is never dlopen'ed
 *   CLIKA_NO_TSC             every time is a clock_gettime(), also on x86-64
 */
#ifndef CLIKA_MARKERS_ABI_H
#define CLIKA_MARKERS_ABI_H

#include <stdint.h>

/* ---- ABI, version 1 ------------------------------------------------------------------------ */

#define CLIKA_ABI_VERSION 1
#define CLIKA_OBJECT_MAGIC 0x4a424f4b494c4331ull /* struct clika_object.magic */
#define CLIKA_BUFFER_MAGIC 0x4655424bu           /* struct clika_buffer.magic */
#define CLIKA_HALF_BYTES 8192u                   /* a batch never crosses a half */
#define CLIKA_DATA_BYTES (2u * CLIKA_HALF_BYTES)
#define CLIKA_MAX_RECORD 1024u /* bytes, header and padding included */
#define CLIKA_MAX_OPEN 64u     /* spans open at one moment on one thread */
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
	uint32_t abi;     /* CLIKA_ABI_VERSION */
	uint32_t bytes;   /* sizeof(struct clika_object) */
	uint64_t buffers; /* address of the newest struct clika_buffer of this object, 0 = none */
	uint32_t pid;     /* process that the list belongs to, as it sees itself */
	uint32_t n_names;
	char label[64]; /* process label, "" = none */
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
	uint32_t magic; /* CLIKA_BUFFER_MAGIC once usable; 0 after fork */
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
	uint32_t dead;  /* 0: its thread lives; 3: it ends, all is handed over; 1: it has gone;
				 * 2: a new thread takes the memory over (new born) */
	uint64_t limit; /* head may grow to here before the half is full; 0 = slow path */
	char thread_name[64]; /* "" = none */
	struct clika_open open[CLIKA_MAX_OPEN];
	/* at data_offset: CLIKA_DATA_BYTES; byte n of the stream lies at n % CLIKA_DATA_BYTES */
};

enum clika_rec_kind {
	CLIKA_REC_PAD = 0,             /* fills a half up; only size counts, at least 8 */
	CLIKA_REC_SPAN = 1,            /* u64 end */
	CLIKA_REC_BEGIN = 2,           /* u32 depth (0 = outermost), u32 0; args */
	CLIKA_REC_END = 3,             /* u32 depth, u32 0; args; closes everything deeper too */
	CLIKA_REC_INSTANT = 4,         /* args */
	CLIKA_REC_COUNTER_I64 = 5,     /* i64 value */
	CLIKA_REC_COUNTER_F64 = 6,     /* f64 value */
	CLIKA_REC_ASYNC_BEGIN = 7,     /* u64 id; args */
	CLIKA_REC_ASYNC_END = 8,       /* u64 id; args */
	CLIKA_REC_FLOW_OUT = 9,        /* u64 id */
	CLIKA_REC_FLOW_STEP = 10,      /* u64 id */
	CLIKA_REC_FLOW_IN = 11,        /* u64 id */
	CLIKA_REC_REQUEST_BEGIN = 12,  /* u64 id; args */
	CLIKA_REC_REQUEST_FIRST = 13,  /* u64 id */
	CLIKA_REC_REQUEST_OUTPUT = 14, /* u64 id, u64 units */
	CLIKA_REC_REQUEST_END = 15,    /* u64 id; args */
	CLIKA_REC_ALLOC = 16,          /* u64 address, u64 bytes, u32 device, i32 pool (literal) */
	CLIKA_REC_FREE = 17,           /* u64 address, u32 device, u32 0 */
	CLIKA_REC_RESERVE = 18,        /* as ALLOC: a caching pool took memory from the device */
	CLIKA_REC_RELEASE = 19,        /* as FREE */
	CLIKA_REC_THREAD_NAME = 20,    /* the name */
	CLIKA_REC_QUEUE_NAME = 21,     /* u64 id; the name */
	CLIKA_REC_DEVICE_NAME = 22,    /* u64 device; the name */
	CLIKA_REC_PROCESS_LABEL = 23,  /* the name */
	CLIKA_REC_CAPTURE_BEGIN = 24,  /* tag = name */
	CLIKA_REC_CAPTURE_END = 25,    /* tag = name */
};

/*
 * Flags: the number of arguments; and whether the name follows the fixed part (u16 length, bytes,
 * padded to 8), `name` being 0 then, as with names of threads, queues and devices and labels.
 * In ALLOC and RESERVE what follows so is the pool, and the pool's literal is 0.
 */
#define CLIKA_RECF_NARGS 0x0f
#define CLIKA_RECF_INLINE 0x10

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
	uint64_t ts; /* CLOCK_BOOTTIME ns; PAD has none */
};

enum clika_arg_type { CLIKA_ARG_I64 = 1, CLIKA_ARG_U64 = 2, CLIKA_ARG_F64 = 3, CLIKA_ARG_STR = 4 };

struct clika_rec_arg {
	uint8_t type;    /* enum clika_arg_type */
	uint8_t key_len; /* bytes of a key made at run time, padded to 8, before the value; or 0 */
	uint16_t len;    /* bytes of the value: a string's, padded to 8; a number's 8 */
	int32_t key;     /* displacement to a literal, as in struct clika_rec; 0 with key_len */
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

#endif /* CLIKA_MARKERS_ABI_H */

#if !defined(CLIKA_ABI_ONLY) && !defined(CLIKA_MARKERS_H)
#define CLIKA_MARKERS_H

#include <stddef.h>

#if defined(__linux__) && defined(__GNUC__) && defined(__LP64__) &&                                \
	(defined(__x86_64__) || (defined(__aarch64__) && !defined(__AARCH64EB__)))
#define CLIKA__SUPPORTED 1
#else
#define CLIKA__SUPPORTED 0
#endif

#if defined(CLIKA_TRANSPORT_OFF) || !CLIKA__SUPPORTED
#define CLIKA__OFF 1
#define CLIKA__SIMPLE 0
#define CLIKA__BATCHED 0
#elif defined(CLIKA_TRANSPORT_SIMPLE)
#define CLIKA__OFF 0
#define CLIKA__SIMPLE 1
#define CLIKA__BATCHED 0
#else
#define CLIKA__OFF 0
#define CLIKA__SIMPLE 0
#define CLIKA__BATCHED 1
#endif

/* Proof that a span was begun; 0 = it was not, and its end does nothing. */
typedef uint64_t clika_token;

/* One typed argument, as CLIKA_I64() and its kin make it. Part of the simple transport's ABI. */
struct clika_arg {
	uint32_t type; /* enum clika_arg_type */
	uint32_t len;  /* bytes of the string; 8 for numbers */
	const char *key;
	uint64_t value; /* the number's bits, or the address of the string */
};

#ifdef __cplusplus
#define CLIKA__CAST(type, v) static_cast<type>(v)
#define CLIKA__NULL nullptr
#define CLIKA__ASSERT(what) static_assert(what, #what)
#else
#define CLIKA__CAST(type, v) ((type)(v))
#define CLIKA__NULL ((void *)0)
#define CLIKA__ASSERT(what) _Static_assert(what, #what)
#endif
#define CLIKA__NO_TEXT CLIKA__CAST(const char *, CLIKA__NULL)
#define CLIKA__NO_ARGS CLIKA__CAST(const struct clika_arg *, CLIKA__NULL)
#define CLIKA__NO_BUFFER CLIKA__CAST(struct clika_buffer *, CLIKA__NULL)

#if CLIKA__SUPPORTED
#define CLIKA__INLINE static inline __attribute__((__always_inline__, __unused__))
#define CLIKA__FUNC static __attribute__((__noinline__, __unused__))
#define CLIKA__MEMBER __attribute__((__always_inline__)) inline
#define CLIKA__UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define CLIKA__INLINE static inline
#define CLIKA__FUNC static inline
#define CLIKA__MEMBER inline
#define CLIKA__UNLIKELY(x) (x)
#endif

#if CLIKA__SUPPORTED
#pragma GCC diagnostic push
#ifdef __cplusplus
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- both transports: facts of the machine --------------------------------------------------- */

#if !CLIKA__OFF

#ifdef __x86_64__
#define CLIKA__RELOC_NONE "R_X86_64_NONE"
#define CLIKA__A0 "%rdi"
#define CLIKA__A1 "%rsi"
#define CLIKA__A2 "%rdx"
#else
#define CLIKA__RELOC_NONE "R_AARCH64_NONE"
#define CLIKA__A0 "x0"
#define CLIKA__A1 "x1"
#define CLIKA__A2 "x2"
#endif

#define CLIKA__MAX_STRING 255u /* bytes of a string that a record takes */

/* Declared under names of our own: no feature-test macro of the includer matters. */
struct clika__timespec {
	int64_t sec, nsec;
};
extern int clika__clock_gettime(int clock, void *ts) __asm__("clock_gettime");

CLIKA__INLINE uint64_t clika__clock(void)
{
	struct clika__timespec ts = { 0, 0 };

	clika__clock_gettime(7 /* CLOCK_BOOTTIME */, &ts);
	return (uint64_t)ts.sec * 1000000000u + (uint64_t)ts.nsec;
}

/* memchr() stops at the first match, so it never reads past the string's end. */
CLIKA__INLINE uint32_t clika__length(const char *s)
{
	const char *end;

	__asm__("" : "+r"(s));
	end = (const char *)__builtin_memchr(s, 0, CLIKA__MAX_STRING);
	return end ? (uint32_t)(end - s) : CLIKA__MAX_STRING;
}

/* Tools find out from this address how far a prelinked file was moved; the note names it. */
__asm__(".ifndef _.stapsdt.base\n"
	".pushsection .stapsdt.base,\"aG\",@progbits,.stapsdt.base,comdat\n"
	".weak _.stapsdt.base\n"
	".hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n"
	".size _.stapsdt.base, 1\n"
	".popsection\n"
	".endif\n");

#define CLIKA__DATA(name, kind)                                                                    \
	".weak " name "\n.hidden " name "\n.type " name "," kind "\n" name ":\n"

#define CLIKA__HIDDEN __attribute__((__visibility__("hidden")))

/* ---- both transports: the clock --------------------------------------------------------------- */

#if defined(__x86_64__) && !defined(CLIKA_NO_TSC)

/*
 * Half of a span's cost would be its two readings of CLOCK_BOOTTIME. The processor's counter
 * takes half as long to read, and for some 50 microseconds (CLIKA__TICKS) after a real reading
 * it tells the time as well. All threads of an object share one reading, so they agree among
 * themselves. Each new one is compared with what the counter told; once it was wrong, or where
 * the counter is not known to be steady, every time is a real reading.
 *
 * The group is apart from the others: files with and without CLIKA_NO_TSC may meet in an object.
 */
struct clika_clock {
	uint64_t tsc;  /* the counter at the last real reading; CLIKA__NEVER while that changes */
	uint64_t ns;   /* the time then */
	uint64_t rate; /* ns a tick, with 32 bits of fraction; 0 = real readings only */
	uint64_t old_tsc, old_ns; /* an earlier reading, which the rate is taken from */
	uint32_t lock;
	uint32_t state; /* enum clika__clock_state */
	uint32_t quick; /* ticks that a reading takes at best; longer ones tell less */
};

enum clika__clock_state { CLIKA__UNKNOWN = 0, CLIKA__WARMING, CLIKA__STEADY, CLIKA__REFUSED };

#define CLIKA__NEVER (1ull << 63)
#define CLIKA__TICKS (1u << 17)      /* how long one reading is good for */
#define CLIKA__RATE_TICKS (1u << 23) /* between the two readings that make a rate */
#define CLIKA__SLACK_TICKS 16u       /* over the best that a reading may take */
#define CLIKA__ROUGH_TICKS 1000u     /* where none takes less nothing is gained */
#define CLIKA__WRONG_NS 250u

/* clang-format off */
__asm__(".ifndef clika_clock_v1\n"
	".pushsection .bss.clika_clock_v1,\"awG\",@nobits,clika_clock_v1,comdat\n"
	".balign 64\n"
	CLIKA__DATA("clika_clock_v1", "@object")
	".zero 64\n"
	".size clika_clock_v1, 64\n"
	".popsection\n"
	".endif\n");
/* clang-format on */

CLIKA__ASSERT(sizeof(struct clika_clock) <= 64);

extern struct clika_clock clika_clock_v1 CLIKA__HIDDEN;

CLIKA__INLINE uint64_t clika__tsc(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

/* Does the counter run at one speed whatever the processor does? */
CLIKA__INLINE int clika__tsc_invariant(void)
{
	uint32_t a = 0x80000000u, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	if (a < 0x80000007u)
		return 0;
	a = 0x80000007u;
	c = 0;
	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return (int)(d >> 8 & 1);
}

/* No other thread sees half of it: what it took from before does not have the same tsc after. */
CLIKA__INLINE void clika__clock_set(struct clika_clock *c, uint64_t tsc, uint64_t ns, uint64_t rate)
{
	__atomic_store_n(&c->tsc, CLIKA__NEVER, __ATOMIC_RELAXED);
	__atomic_store_n(&c->ns, ns, __ATOMIC_RELEASE);
	__atomic_store_n(&c->rate, rate, __ATOMIC_RELEASE);
	__atomic_store_n(&c->tsc, tsc, __ATOMIC_RELEASE);
}

CLIKA__INLINE void clika__clock_refuse(struct clika_clock *c)
{
	__atomic_store_n(&c->rate, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&c->state, CLIKA__REFUSED, __ATOMIC_RELAXED);
}

/* The first reading of two that make the rate. */
CLIKA__INLINE void clika__clock_mark(struct clika_clock *c, uint64_t tsc, uint64_t ns)
{
	__atomic_store_n(&c->old_tsc, tsc, __ATOMIC_RELAXED);
	c->old_ns = ns;
}

/*
 * What to do with a real reading: @ns at @tsc. Returns the time to tell, which is later than any
 * that was told from the reading before.
 */
CLIKA__FUNC uint64_t clika__clock_take(struct clika_clock *c, uint64_t tsc, uint64_t ns)
{
	uint64_t rate = c->rate, since = tsc - c->old_tsc, elapsed = ns - c->old_ns, fresh = 0;
	uint64_t ticks, told, wrong;

	/* Too far apart to divide; or the counter was set back. */
	if (since >> 62 || elapsed >> 31) {
		clika__clock_mark(c, tsc, ns);
	} else if (since >= CLIKA__RATE_TICKS) {
		fresh = (elapsed << 32) / since;
		clika__clock_mark(c, tsc, ns);
	}
	if (c->state == CLIKA__WARMING) {
		if (fresh >> 36) /* less than 64 MHz is no such counter */
			clika__clock_refuse(c);
		else if (fresh) {
			__atomic_store_n(&c->state, CLIKA__STEADY, __ATOMIC_RELAXED);
			clika__clock_set(c, tsc, ns, fresh);
		}
		return ns;
	}
	ticks = tsc - c->tsc;
	if (ticks < CLIKA__TICKS) /* another thread was faster */
		return ns;
	if (ticks >> 63) {
		/* Set back; or only another processor's reading, just before. */
		if (c->tsc - tsc > CLIKA__TICKS)
			clika__clock_refuse(c);
		return ns;
	}
	if (ticks < 64 * CLIKA__TICKS) {
		told = c->ns + (ticks * rate >> 32);
		wrong = told > ns ? told - ns : ns - told;
		/* Or it is the clock that is being set right. */
		if (wrong > CLIKA__WRONG_NS + ticks / 2048) {
			clika__clock_refuse(c);
			return ns;
		}
	}
	/* Not where the machine slept in between: the time went on, the counter perhaps not. */
	if (fresh > rate - (rate >> 9) && fresh < rate + (rate >> 9))
		rate = fresh;
	told = c->ns + (CLIKA__TICKS * c->rate >> 32);
	if (told > ns)
		ns = told;
	clika__clock_set(c, tsc, ns, rate);
	return ns;
}

/* Is a reading that took @ticks one of the better ones? Each that is not lowers what is asked. */
CLIKA__INLINE int clika__clock_quick(struct clika_clock *c, uint64_t ticks)
{
	if (ticks <= c->quick + CLIKA__SLACK_TICKS) {
		if (ticks < c->quick)
			c->quick = (uint32_t)ticks;
		return 1;
	}
	c->quick += c->quick / 32 + 1;
	if (c->quick > CLIKA__ROUGH_TICKS)
		clika__clock_refuse(c);
	return 0;
}

/* The counter alone does not tell: a real reading. A signal handler may have interrupted one. */
CLIKA__FUNC uint64_t clika__now_slow(void)
{
	struct clika_clock *c = &clika_clock_v1;
	uint32_t state = __atomic_load_n(&c->state, __ATOMIC_RELAXED);
	uint64_t ns, before, after;

	if (state == CLIKA__REFUSED ||
	    (state == CLIKA__WARMING &&
	     clika__tsc() - __atomic_load_n(&c->old_tsc, __ATOMIC_RELAXED) < CLIKA__RATE_TICKS) ||
	    __atomic_exchange_n(&c->lock, 1, __ATOMIC_ACQUIRE))
		return clika__clock();
	before = clika__tsc();
	ns = clika__clock();
	after = clika__tsc();
	if (c->state == CLIKA__UNKNOWN) {
		if (clika__tsc_invariant()) {
			c->quick = CLIKA__SLACK_TICKS;
			clika__clock_mark(c, before, ns);
			__atomic_store_n(&c->state, CLIKA__WARMING, __ATOMIC_RELAXED);
		} else {
			clika__clock_refuse(c);
		}
	} else if (c->state != CLIKA__REFUSED && clika__clock_quick(c, after - before)) {
		ns = clika__clock_take(c, before + (after - before) / 2, ns);
	}
	__atomic_store_n(&c->lock, 0, __ATOMIC_RELEASE);
	return ns;
}

/* Start or end of a span. What the processor has still in flight may count to either side. */
CLIKA__INLINE uint64_t clika__now(void)
{
	struct clika_clock *c = &clika_clock_v1;
	uint64_t tsc = __atomic_load_n(&c->tsc, __ATOMIC_ACQUIRE);
	uint64_t ns = __atomic_load_n(&c->ns, __ATOMIC_ACQUIRE);
	uint64_t rate = __atomic_load_n(&c->rate, __ATOMIC_ACQUIRE), ticks;

	if (CLIKA__UNLIKELY(!rate))
		return clika__now_slow();
	ticks = clika__tsc() - tsc;
	if (CLIKA__UNLIKELY(ticks >= CLIKA__TICKS ||
			    __atomic_load_n(&c->tsc, __ATOMIC_RELAXED) != tsc))
		return clika__now_slow();
	return ns + (ticks * rate >> 32);
}

/* Not before anything that this thread has seen of others: what is tied across threads. */
CLIKA__INLINE uint64_t clika__now_after(void)
{
	__asm__ volatile("lfence" : : : "memory");
	return clika__now();
}

#else /* the kernel's clock */

CLIKA__INLINE uint64_t clika__now(void)
{
	return clika__clock();
}

CLIKA__INLINE uint64_t clika__now_after(void)
{
	return clika__clock();
}

#endif

#endif /* !CLIKA__OFF */

/* ---- batched transport ----------------------------------------------------------------------- */

#if CLIKA__BATCHED

/*
 * Everything that exists once an ELF object is one COMDAT group written in assembler: the
 * compiler can neither fold the semaphore nor leave a copy in each translation unit, and a
 * group that no marker refers to is dropped whole. LTO may hand all of it to one assembler
 * run, hence .ifndef. No code of the header is shared between translation units: one of them
 * may be compiled for a CPU that the others must do without.
 *
 * The .reloc keeps .stapsdt.base, which only a section that is not loaded refers to.
 */
#define CLIKA__GROUP ",clika_batch_v1,comdat\n"
/* clang-format off */
__asm__(".ifndef clika_batch_v1\n"
	".pushsection .text.clika_batch_v1,\"axG\",@progbits" CLIKA__GROUP
	".balign 16\n"
	CLIKA__DATA("clika_batch_v1", "@function")
	".cfi_startproc\n"
	".reloc ., " CLIKA__RELOC_NONE ", _.stapsdt.base\n"
	"nop\n"
	"ret\n"
	".cfi_endproc\n"
	".size clika_batch_v1, .-clika_batch_v1\n"
	".popsection\n"

	".pushsection .data.clika_object_v1,\"awG\",@progbits" CLIKA__GROUP
	".balign 64\n"
	CLIKA__DATA("clika_object_v1", "@object")
	".8byte 0x4a424f4b494c4331\n"
	".4byte 1, 2144\n"
	".zero 2128\n"
	".size clika_object_v1, 2144\n"
	".popsection\n"

	".pushsection .probes,\"awG\",@progbits" CLIKA__GROUP
	".balign 2\n"
	CLIKA__DATA("clika_semaphore_v1", "@object")
	".2byte 0\n"
	".size clika_semaphore_v1, 2\n"
	".popsection\n"

	".pushsection .bss.clika_state_v1,\"awG\",@nobits" CLIKA__GROUP
	".balign 64\n"
	CLIKA__DATA("clika_blocked_v1", "@object")
	".zero 1192\n"
	".size clika_blocked_v1, 1192\n"
	CLIKA__DATA("clika_key_v1", "@object")
	".zero 4\n"
	".size clika_key_v1, 4\n"
	CLIKA__DATA("clika_nowipe_v1", "@object")
	".zero 4\n"
	".size clika_nowipe_v1, 4\n"
	".popsection\n"

	".pushsection .note.clika,\"aG\",@note" CLIKA__GROUP
	".balign 4\n"
	".4byte 6, 16, 1\n"
	".ascii \"clika\\0\\0\\0\"\n"
	".4byte 1\n"
	".4byte clika_object_v1 - .\n"
	".4byte clika_semaphore_v1 - .\n"
	".4byte clika_batch_v1 - .\n"
	".popsection\n"

	".pushsection .note.stapsdt,\"G\",@note" CLIKA__GROUP
	".balign 4\n"
	".4byte 8, 991f-990f, 3\n"
	".asciz \"stapsdt\"\n"
	"990:\n"
	".8byte clika_batch_v1\n"
	".8byte _.stapsdt.base\n"
	".8byte clika_semaphore_v1\n"
	".asciz \"clika\"\n"
	".asciz \"batch\"\n"
	".asciz \"8@" CLIKA__A0 " 8@" CLIKA__A1 " 8@" CLIKA__A2 "\"\n"
	"991: .balign 4\n"
	".popsection\n"
	".endif\n");
/* clang-format on */

CLIKA__ASSERT(sizeof(struct clika_object) == 2144);
CLIKA__ASSERT(sizeof(struct clika_buffer) == 1192);
CLIKA__ASSERT(sizeof(struct clika_rec) == 16);

#ifdef CLIKA_TLS_MODEL
#define CLIKA__TLS __attribute__((__tls_model__(CLIKA_TLS_MODEL)))
#else
#define CLIKA__TLS
#endif

extern struct clika_object clika_object_v1 CLIKA__HIDDEN;
extern volatile uint16_t clika_semaphore_v1 CLIKA__HIDDEN;
/* What a thread has while it may not write: always busy, and where its losses are counted. */
extern struct clika_buffer clika_blocked_v1 CLIKA__HIDDEN;
extern uint32_t clika_key_v1 CLIKA__HIDDEN;    /* pthread key + 1; 0 = none yet */
extern uint32_t clika_nowipe_v1 CLIKA__HIDDEN; /* no MADV_WIPEONFORK here: compare pids */
/* Not in the group: lld refuses a thread-local that a bitcode file defines in assembler. */
extern __thread struct clika_buffer *clika_tls_v1 CLIKA__HIDDEN CLIKA__TLS;
__thread struct clika_buffer *clika_tls_v1 __attribute__((__weak__, __used__));
extern void clika_batch_v1(struct clika_buffer *buffer, uint64_t from, uint64_t to) CLIKA__HIDDEN;

#define CLIKA__KEY_CLOSED 0xffffffffu
#define CLIKA__DATA_OFFSET 4096u
/* the thread's last time: a word of the buffer that is ours */
#define CLIKA__LAST_OFFSET 4088u
#define CLIKA__SHORT_REC 24u /* a span, a begin and an end without arguments */
#define CLIKA__FENCE() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* glibc before 2.34 keeps threads in a library of their own, which may not be there. */
#if defined(__GLIBC__) && !(__GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 34))
#define CLIKA__PTHREAD __attribute__((__weak__))
#else
#define CLIKA__PTHREAD
#endif
extern int clika__key_create(unsigned int *key,
			     void (*dtor)(void *)) __asm__("pthread_key_create") CLIKA__PTHREAD;
extern int clika__key_delete(unsigned int key) __asm__("pthread_key_delete") CLIKA__PTHREAD;
extern int clika__key_set(unsigned int key,
			  const void *value) __asm__("pthread_setspecific") CLIKA__PTHREAD;
extern unsigned long clika__self(void) __asm__("pthread_self") CLIKA__PTHREAD;
extern int clika__cpu_clock(unsigned long thread,
			    int *clock) __asm__("pthread_getcpuclockid") CLIKA__PTHREAD;

/* Bare system calls: they leave errno alone and are safe in signal handlers. */
#ifdef __x86_64__
enum {
	CLIKA__MMAP = 9,
	CLIKA__MADVISE = 28,
	CLIKA__GETPID = 39,
	CLIKA__GETPPID = 110,
	CLIKA__GETTID = 186
};

CLIKA__INLINE long clika__syscall(long nr, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = 0;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#else
enum {
	CLIKA__MMAP = 222,
	CLIKA__MADVISE = 233,
	CLIKA__GETPID = 172,
	CLIKA__GETPPID = 173,
	CLIKA__GETTID = 178
};

CLIKA__INLINE long clika__syscall(long nr, long a, long b, long c, long d, long e)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = 0;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#endif

#if defined(__x86_64__) && !defined(CLIKA_NO_TSC)
/* A thread's own times never step back, however they were read. @b is locked. */
CLIKA__INLINE uint64_t clika__in_order(struct clika_buffer *b, uint64_t now)
{
	uint64_t *last = (uint64_t *)((char *)b + CLIKA__LAST_OFFSET);

	if (CLIKA__UNLIKELY(now < *last))
		now = *last;
	*last = now;
	return now;
}
#else
CLIKA__INLINE uint64_t clika__in_order(struct clika_buffer *b, uint64_t now)
{
	(void)b;
	return now;
}
#endif

CLIKA__INLINE uint32_t clika__id(long nr)
{
	return (uint32_t)clika__syscall(nr, 0, 0, 0, 0, 0);
}

CLIKA__INLINE void clika__drop(struct clika_buffer *b)
{
	__atomic_fetch_add(&b->dropped, 1, __ATOMIC_RELAXED);
}

CLIKA__INLINE void clika__unlock(struct clika_buffer *b)
{
	CLIKA__FENCE();
	b->busy = 0;
}

CLIKA__INLINE uint64_t *clika__at(struct clika_buffer *b)
{
	return (uint64_t *)((char *)b + CLIKA__DATA_OFFSET + (b->head & (CLIKA_DATA_BYTES - 1)));
}

/* Readers outside trust head alone: the bytes and the count come first. */
CLIKA__INLINE void clika__publish(struct clika_buffer *b, uint32_t bytes)
{
	__atomic_store_n(&b->count, b->count + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&b->head, b->head + bytes, __ATOMIC_RELEASE);
}

CLIKA__INLINE uint64_t clika__header(uint32_t size, uint32_t kind, uint32_t flags, int32_t name)
{
	return size | kind << 16 | (uint64_t)(flags << 24) | (uint64_t)(uint32_t)name << 32;
}

CLIKA__INLINE int64_t clika__displacement(const char *literal)
{
	return (int64_t)((uintptr_t)literal - (uintptr_t)&clika_object_v1);
}

CLIKA__INLINE int clika__fits(int64_t d)
{
	return d == (int32_t)d;
}

CLIKA__INLINE uint64_t clika__half_end(uint64_t head)
{
	return (head / CLIKA_HALF_BYTES + 1) * CLIKA_HALF_BYTES;
}

/*
 * limit = end of the half less a short record for every open span that is not announced: the
 * span's own record if it ends here, its announcement if the half ends first. So both always fit.
 */
CLIKA__FUNC void clika__announce(struct clika_buffer *b)
{
	while (b->announced < b->depth) {
		uint32_t d = b->announced;
		uint64_t *p = clika__at(b);

		p[0] = clika__header(CLIKA__SHORT_REC, CLIKA_REC_BEGIN, 0, b->open[d].name);
		p[1] = b->open[d].start;
		p[2] = d;
		clika__publish(b, CLIKA__SHORT_REC);
		b->limit += CLIKA__SHORT_REC;
		b->announced = d + 1;
	}
}

/* Hands over what is there, announcing what is open. @b is locked. */
CLIKA__FUNC void clika__hand_over(struct clika_buffer *b, int next_half)
{
	uint64_t end = b->limit + (uint64_t)(b->depth - b->announced) * CLIKA__SHORT_REC;

	clika__announce(b);
	if (next_half && b->head < end) {
		*clika__at(b) = clika__header((uint32_t)(end - b->head), CLIKA_REC_PAD, 0, 0);
		__atomic_store_n(&b->head, end, __ATOMIC_RELEASE);
	}
	CLIKA__FENCE();
	if (b->head != b->flushed) {
		clika_batch_v1(b, b->flushed, b->head);
		b->flushed = b->head;
		b->flushed_count = b->count;
	}
	b->limit = clika__half_end(b->head);
}

/*
 * Is this a child that borrows its parent's memory (vfork, posix_spawn)? @owner made the buffer
 * that still lies here whole; a real child would find it wiped.
 */
CLIKA__INLINE int clika__borrowed(uint32_t owner)
{
	uint32_t parent = clika__id(CLIKA__GETPPID);

	return !clika_nowipe_v1 && (parent == owner || parent == 0);
}

/*
 * The same where no buffer tells. libc knows its threads by the numbers that fork() and
 * pthread_create() gave them: a child in borrowed memory has another one. A thread's processor
 * clock is that number.
 */
CLIKA__FUNC int clika__not_libcs(void)
{
	int clock;

#if defined(__GLIBC__) && !(__GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 34))
	if (!clika__self || !clika__cpu_clock)
		return 0;
#endif
	return !clika__cpu_clock(clika__self(), &clock) &&
	       (uint32_t) ~(clock >> 3) != clika__id(CLIKA__GETTID);
}

CLIKA__FUNC void clika__thread_exit(void *p)
{
	struct clika_buffer *b = (struct clika_buffer *)p;

	if (b->magic != CLIKA_BUFFER_MAGIC || b->tid != clika__id(CLIKA__GETTID) ||
	    b->pid != clika__id(CLIKA__GETPID))
		return;
	b->busy = 1;
	CLIKA__FENCE();
	clika__hand_over(b, 0);
	clika_tls_v1 = CLIKA__NO_BUFFER;
	/* Told, so that nobody looks for more when the thread is gone. */
	__atomic_store_n(&b->dead, 3, __ATOMIC_RELEASE);
	clika_batch_v1(b, b->head, b->head);
	clika__unlock(b);
	__atomic_store_n(&b->dead, 1, __ATOMIC_RELEASE);
}

/* Has the end of this thread call clika__thread_exit(). */
CLIKA__FUNC void clika__watch_exit(struct clika_buffer *b)
{
	uint32_t have = __atomic_load_n(&clika_key_v1, __ATOMIC_ACQUIRE);
	unsigned int key;

#if defined(__GLIBC__) && !(__GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 34))
	if (!clika__key_create || !clika__key_set)
		return;
#endif
	if (!have) {
		if (clika__key_create(&key, clika__thread_exit))
			return;
		if (!__atomic_compare_exchange_n(&clika_key_v1, &have, key + 1, 0, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE))
			clika__key_delete(key);
		else
			have = key + 1;
	}
	if (have != CLIKA__KEY_CLOSED)
		clika__key_set(have - 1, b);
}

/* A buffer of a thread that has gone, or a fresh one. NULL = no memory. Comes out not usable. */
CLIKA__FUNC struct clika_buffer *clika__find_memory(uint32_t pid)
{
	uint64_t at = __atomic_load_n(&clika_object_v1.buffers, __ATOMIC_ACQUIRE);
	struct clika_buffer *b;
	uint32_t gone;
	long ret;

	for (; at; at = b->next) {
		b = (struct clika_buffer *)at;
		if (b->pid != pid)
			break;
		gone = 1;
		if (__atomic_load_n(&b->dead, __ATOMIC_ACQUIRE) == 1 &&
		    __atomic_compare_exchange_n(&b->dead, &gone, 2, 0, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED)) {
			__atomic_store_n(&b->magic, 0, __ATOMIC_RELEASE);
			return b;
		}
	}
	/* readable and writable, private and anonymous, no file */
	ret = clika__syscall(CLIKA__MMAP, 0, CLIKA__DATA_OFFSET + CLIKA_DATA_BYTES, 3, 0x22, -1);
	if (ret < 0 && ret > -4096)
		return CLIKA__NO_BUFFER;
	if (clika__syscall(CLIKA__MADVISE, ret, CLIKA__DATA_OFFSET + CLIKA_DATA_BYTES,
			   18 /* MADV_WIPEONFORK */, 0, 0))
		__atomic_store_n(&clika_nowipe_v1, 1, __ATOMIC_RELAXED);
	return (struct clika_buffer *)ret;
}

/*
 * Puts @b at the head of the object's list. A head that this process did not make belongs to a
 * parent: the list starts anew. Nothing is ever taken out or unmapped, so looking is safe.
 */
CLIKA__FUNC void clika__enlist(struct clika_buffer *b, uint32_t pid)
{
	uint64_t head = __atomic_load_n(&clika_object_v1.buffers, __ATOMIC_ACQUIRE);

	do {
		b->next = head && ((struct clika_buffer *)head)->pid == pid ? head : 0;
	} while (!__atomic_compare_exchange_n(&clika_object_v1.buffers, &head, (uint64_t)b, 1,
					      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	__atomic_store_n(&clika_object_v1.pid, pid, __ATOMIC_RELEASE);
}

/* This thread's buffer, made now; NULL when there can be none. */
CLIKA__FUNC struct clika_buffer *clika__make(void)
{
	uint32_t pid = clika__id(CLIKA__GETPID), i;
	struct clika_buffer *b =
		(struct clika_buffer *)__atomic_load_n(&clika_object_v1.buffers, __ATOMIC_ACQUIRE);
	int known = 0;

	if (b ? b->magic == CLIKA_BUFFER_MAGIC && b->pid != pid && clika__borrowed(b->pid)
	      : clika__not_libcs()) {
		clika__drop(&clika_blocked_v1);
		return CLIKA__NO_BUFFER;
	}
	clika_blocked_v1.busy = 1;
	clika_tls_v1 = &clika_blocked_v1;
	CLIKA__FENCE();
	b = clika__find_memory(pid);
	if (!b) {
		clika__drop(&clika_blocked_v1);
		clika_tls_v1 = b;
		return b;
	}
	known = b->pid == pid;
	b->abi = CLIKA_ABI_VERSION;
	b->data_offset = CLIKA__DATA_OFFSET;
	b->head = b->flushed = b->count = b->flushed_count = 0;
	b->dropped = __atomic_exchange_n(&clika_blocked_v1.dropped, 0, __ATOMIC_RELAXED);
	b->object = (uint64_t)&clika_object_v1;
	b->pid = pid;
	b->tid = clika__id(CLIKA__GETTID);
	b->born = clika__clock();
	b->depth = b->announced = 0;
	b->limit = CLIKA_HALF_BYTES;
	for (i = 0; i < sizeof(b->thread_name); i++)
		b->thread_name[i] = 0;
	b->busy = 1;
	__atomic_store_n(&b->dead, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&b->magic, CLIKA_BUFFER_MAGIC, __ATOMIC_RELEASE);
	if (!known)
		clika__enlist(b, pid);
	clika__watch_exit(b);
	clika_tls_v1 = b;
	CLIKA__FENCE();
	clika_batch_v1(b, 0, 0);
	clika__unlock(b);
	return b;
}

/* No buffer yet, or one that must prove to be of this process at every marker. */
CLIKA__FUNC struct clika_buffer *clika__first(struct clika_buffer *b)
{
	if (b && (b == &clika_blocked_v1 || b->pid == clika__id(CLIKA__GETPID)))
		return b;
	return clika__make();
}

/* The thread's buffer, claimed against signal handlers; NULL = drop, and it has been counted. */
CLIKA__INLINE struct clika_buffer *clika__lock(void)
{
	struct clika_buffer *b = clika_tls_v1;

	if (CLIKA__UNLIKELY(!b || clika_nowipe_v1)) {
		b = clika__first(b);
		if (!b)
			return b;
	}
	if (CLIKA__UNLIKELY(b->busy)) {
		clika__drop(b);
		return CLIKA__NO_BUFFER;
	}
	b->busy = 1;
	CLIKA__FENCE();
	return b;
}

/* The half is full, or this is a child and the buffer was wiped or is borrowed. */
CLIKA__FUNC struct clika_buffer *clika__make_room(struct clika_buffer *b)
{
	if (b->magic == CLIKA_BUFFER_MAGIC && b->tid == clika__id(CLIKA__GETTID)) {
		clika__hand_over(b, 1);
		return b;
	}
	clika__unlock(b);
	if (b->magic == CLIKA_BUFFER_MAGIC && clika__borrowed(b->pid)) {
		clika__drop(b);
		return CLIKA__NO_BUFFER;
	}
	b = clika__make();
	if (b)
		b->busy = 1;
	CLIKA__FENCE();
	return b;
}

CLIKA__INLINE struct clika_buffer *clika__room(struct clika_buffer *b, uint32_t bytes)
{
	if (CLIKA__UNLIKELY(b->head + bytes > b->limit))
		return clika__make_room(b);
	return b;
}

CLIKA__INLINE uint32_t clika__pad8(uint32_t n)
{
	return (n + 7u) & ~7u;
}

CLIKA__INLINE char *clika__put_bytes(char *p, const char *s, uint32_t n)
{
	char *end = p + clika__pad8(n);

	while (p + n < end)
		*--end = 0;
	__builtin_memcpy(p, s, n);
	return p + clika__pad8(n);
}

/* What a record will look like, worked out before anything is claimed. */
struct clika__shape {
	const char *name; /* inline, NULL = none */
	const struct clika_arg *args;
	uint32_t nargs;
	uint32_t bytes;
	uint32_t name_len;
	uint16_t len[CLIKA_MAX_ARGS];
	int32_t literal;
};

CLIKA__INLINE void clika__plan(struct clika__shape *s, uint32_t fixed, const char *literal,
			       const char *name, uint32_t nargs, const struct clika_arg *args)
{
	int64_t d = literal ? clika__displacement(literal) : 0;
	uint32_t i, n, left;

	if (nargs > CLIKA_MAX_ARGS)
		nargs = CLIKA_MAX_ARGS;
	s->name = name;
	s->name_len = 0;
	s->literal = 0;
	s->args = args;
	s->nargs = nargs;
	__builtin_memset(s->len, 0, sizeof(s->len));
	s->bytes = (uint32_t)sizeof(struct clika_rec) + fixed * 8;
	if (!name && clika__fits(d))
		s->literal = (int32_t)d;
	else if (!name)
		s->name = literal;
	if (s->name) {
		s->name_len = clika__length(s->name);
		s->bytes += clika__pad8(2 + s->name_len);
	}
	for (i = 0; i < nargs; i++) {
		s->len[i] = 8;
		if (args[i].type == CLIKA_ARG_STR) {
			/* the arguments still to come need 16 bytes at least */
			left = CLIKA_MAX_RECORD - s->bytes - 8 - (nargs - 1 - i) * 16;
			n = args[i].len < CLIKA__MAX_STRING ? args[i].len : CLIKA__MAX_STRING;
			s->len[i] = (uint16_t)(n < left ? n : left);
		}
		s->bytes += 8 + clika__pad8(s->len[i]);
	}
}

/* Writes and publishes what was planned; there is room. */
CLIKA__INLINE void clika__write(struct clika_buffer *b, const struct clika__shape *s, uint32_t kind,
				uint64_t ts, uint32_t fixed, const uint64_t *words)
{
	uint32_t flags = s->nargs | (s->name ? CLIKA_RECF_INLINE : 0u), i;
	uint64_t *at = clika__at(b);
	char *p = (char *)(at + 2 + fixed);
	int64_t key;

	at[0] = clika__header(s->bytes, kind, flags, s->literal);
	at[1] = ts;
	for (i = 0; i < fixed; i++)
		at[2 + i] = words[i];
	if (s->name) {
		uint16_t n = (uint16_t)s->name_len;
		uint32_t whole = clika__pad8(2 + s->name_len);

		*(uint64_t *)(p + whole - 8) = 0;
		__builtin_memcpy(p, &n, 2);
		__builtin_memcpy(p + 2, s->name, s->name_len);
		p += whole;
	}
	for (i = 0; i < s->nargs; i++) {
		const struct clika_arg *a = &s->args[i];

		key = clika__displacement(a->key);
		*(uint64_t *)p = a->type | (uint64_t)s->len[i] << 16 |
				 (clika__fits(key) ? (uint64_t)(uint32_t)key << 32 : 0);
		p += 8;
		if (a->type == CLIKA_ARG_STR)
			p = clika__put_bytes(p, (const char *)(uintptr_t)a->value, s->len[i]);
		else
			*(uint64_t *)p = a->value, p += 8;
	}
	clika__publish(b, s->bytes);
}

CLIKA__INLINE void clika__push(struct clika_buffer *b, uint64_t start, int32_t name)
{
	b->open[b->depth].start = start;
	b->open[b->depth].name = name;
	__atomic_store_n(&b->depth, b->depth + 1, __ATOMIC_RELEASE);
}

/* The start time in a token makes it good for this one span only, in whatever process or thread. */
CLIKA__INLINE clika_token clika__token(uint64_t start, uint32_t depth)
{
	return start << 8 | (depth + 1);
}

/* A span whose name or arguments are written now: all outer ones are announced first. */
CLIKA__FUNC clika_token clika__span_begin_x(const char *literal, const char *name, uint32_t nargs,
					    const struct clika_arg *args)
{
	struct clika__shape s;
	struct clika_buffer *b;
	uint64_t words[1], start;
	uint32_t d;

	clika__plan(&s, 1, literal, name, nargs, args);
	b = clika__lock();
	if (b)
		b = clika__room(b, s.bytes);
	if (!b)
		return 0;
	d = b->depth;
	if (d >= CLIKA_MAX_OPEN) {
		clika__drop(b);
		clika__unlock(b);
		return 0;
	}
	clika__announce(b);
	start = clika__in_order(b, clika__now());
	words[0] = d;
	clika__write(b, &s, CLIKA_REC_BEGIN, start, 1, words);
	clika__push(b, start, s.literal);
	b->announced = d + 1;
	clika__unlock(b);
	return clika__token(start, d);
}

CLIKA__FUNC clika_token clika__span_begin(const char *literal)
{
	int64_t name = clika__displacement(literal);
	struct clika_buffer *b;
	uint64_t start;
	uint32_t d;

	if (CLIKA__UNLIKELY(!clika__fits(name)))
		return clika__span_begin_x(literal, CLIKA__NO_TEXT, 0, CLIKA__NO_ARGS);
	b = clika__lock();
	if (CLIKA__UNLIKELY(!b))
		return 0;
	b = clika__room(b, CLIKA__SHORT_REC);
	if (CLIKA__UNLIKELY(!b))
		return 0;
	d = b->depth;
	if (CLIKA__UNLIKELY(d >= CLIKA_MAX_OPEN)) {
		clika__drop(b);
		clika__unlock(b);
		return 0;
	}
	start = clika__in_order(b, clika__now());
	b->limit -= CLIKA__SHORT_REC;
	clika__push(b, start, (int32_t)name);
	clika__unlock(b);
	return clika__token(start, d);
}

/* Ends that are not the plain one: announced, with arguments, or with deeper spans left open. */
CLIKA__FUNC void clika__close(struct clika_buffer *b, uint32_t d, uint64_t now, uint32_t nargs,
			      const struct clika_arg *args)
{
	struct clika_buffer *mine = b;
	struct clika__shape s;
	uint64_t words[1];

	clika__plan(&s, 1, CLIKA__NO_TEXT, CLIKA__NO_TEXT, nargs, args);
	b = clika__room(b, s.bytes);
	if (b != mine) {
		if (b)
			clika__unlock(b);
		return;
	}
	clika__announce(b);
	words[0] = d;
	clika__write(b, &s, CLIKA_REC_END, clika__in_order(b, now), 1, words);
	b->announced = d;
	__atomic_store_n(&b->depth, d, __ATOMIC_RELEASE);
	clika__unlock(b);
}

/* The open span that @token stands for; NULL, unlocked, when it has been closed already. */
CLIKA__INLINE struct clika_buffer *clika__lock_open(clika_token token)
{
	uint32_t d = (uint32_t)(token & 0xff) - 1;
	struct clika_buffer *b;

	if (!clika_tls_v1)
		return clika_tls_v1;
	b = clika__lock();
	if (CLIKA__UNLIKELY(!b))
		return b;
	if (CLIKA__UNLIKELY(d >= b->depth || clika__token(b->open[d].start, d) != token)) {
		clika__unlock(b);
		return CLIKA__NO_BUFFER;
	}
	return b;
}

CLIKA__FUNC void clika__span_end(clika_token token)
{
	uint64_t now = clika__now(), *p;
	struct clika_buffer *b = clika__lock_open(token);
	uint32_t d = (uint32_t)(token & 0xff) - 1;

	if (CLIKA__UNLIKELY(!b))
		return;
	if (CLIKA__UNLIKELY(d + 1 != b->depth || d < b->announced)) {
		clika__close(b, d, now, 0, CLIKA__NO_ARGS);
		return;
	}
	p = clika__at(b);
	p[0] = clika__header(CLIKA__SHORT_REC, CLIKA_REC_SPAN, 0, b->open[d].name);
	p[1] = b->open[d].start;
	p[2] = clika__in_order(b, now);
	clika__publish(b, CLIKA__SHORT_REC);
	b->limit += CLIKA__SHORT_REC;
	__atomic_store_n(&b->depth, d, __ATOMIC_RELEASE);
	clika__unlock(b);
}

CLIKA__FUNC void clika__span_end_x(clika_token token, uint32_t nargs, const struct clika_arg *args)
{
	uint64_t now = clika__now();
	struct clika_buffer *b = token ? clika__lock_open(token) : CLIKA__NO_BUFFER;

	if (b)
		clika__close(b, (uint32_t)(token & 0xff) - 1, now, nargs, args);
}

/* @kind: enum clika_rec_kind, and in the second byte how many fixed words it has. */
CLIKA__FUNC void clika__emit(uint32_t kind, const char *literal, const char *name, uint64_t w0,
			     uint64_t w1, uint64_t w2, uint32_t nargs, const struct clika_arg *args)
{
	uint64_t words[3], now = clika__now_after();
	uint32_t fixed = kind >> 8;
	struct clika__shape s;
	struct clika_buffer *b;

	words[0] = w0;
	words[1] = w1;
	words[2] = w2;
	clika__plan(&s, fixed, literal, name, nargs, args);
	b = clika__lock();
	if (b)
		b = clika__room(b, s.bytes);
	if (!b)
		return;
	clika__write(b, &s, kind & 0xff, clika__in_order(b, now), fixed, words);
	clika__unlock(b);
}

/* A span that is told after the fact. Arguments need the pair of records. */
CLIKA__FUNC void clika__span_complete(const char *literal, const char *name, uint64_t start,
				      uint32_t nargs, const struct clika_arg *args)
{
	uint64_t now = clika__now(), words[1];
	struct clika__shape s;
	struct clika_buffer *b;

	if (!start)
		return;
	clika__plan(&s, 1, literal, name, nargs, args);
	b = clika__lock();
	if (b)
		b = clika__room(b, s.bytes + (nargs ? CLIKA__SHORT_REC : 0));
	if (!b)
		return;
	now = clika__in_order(b, now);
	now = now < start ? start : now;
	words[0] = now;
	if (!nargs) {
		clika__write(b, &s, CLIKA_REC_SPAN, start, 1, words);
	} else if (b->depth < CLIKA_MAX_OPEN) {
		clika__announce(b);
		words[0] = b->depth;
		clika__write(b, &s, CLIKA_REC_BEGIN, start, 1, words);
		s.bytes = CLIKA__SHORT_REC;
		s.name = CLIKA__NO_TEXT;
		s.nargs = 0;
		s.literal = 0;
		clika__write(b, &s, CLIKA_REC_END, now, 1, words);
	} else {
		clika__drop(b);
	}
	clika__unlock(b);
}

CLIKA__INLINE void clika__copy_name(char *to, uint32_t size, const char *from)
{
	uint32_t i, n = clika__length(from);

	n = n < size - 1 ? n : size - 1;
	for (i = 0; i < n; i++)
		to[i] = from[i];
	to[n] = 0;
}

CLIKA__FUNC void clika__keep_name(uint32_t kind, uint64_t id, const char *text)
{
	struct clika_object *o = &clika_object_v1;
	uint32_t n = __atomic_load_n(&o->n_names, __ATOMIC_ACQUIRE), i;

	for (i = 0; i < n && i < CLIKA_NAMES; i++) {
		if (__atomic_load_n(&o->names[i].kind, __ATOMIC_ACQUIRE) == kind &&
		    o->names[i].id == id)
			break;
	}
	if (i == n) {
		do {
			if (n >= CLIKA_NAMES)
				return;
			i = n;
		} while (!__atomic_compare_exchange_n(&o->n_names, &n, n + 1, 0, __ATOMIC_ACQ_REL,
						      __ATOMIC_ACQUIRE));
	}
	__atomic_exchange_n(&o->names[i].kind, 0, __ATOMIC_ACQ_REL);
	o->names[i].id = id;
	clika__copy_name(o->names[i].name, CLIKA_NAME_BYTES, text);
	__atomic_store_n(&o->names[i].kind, kind, __ATOMIC_RELEASE);
}

/* Names stay for whoever looks later, so they are kept also while nobody does. */
CLIKA__FUNC void clika__name(uint32_t kind, uint64_t id, const char *text)
{
	uint32_t what = kind & 0xff;
	struct clika_buffer *b;

	if (what == CLIKA_REC_THREAD_NAME) {
		b = clika__lock();
		if (b && (b->magic != CLIKA_BUFFER_MAGIC || b->tid != clika__id(CLIKA__GETTID)))
			b = clika__make_room(b);
		if (!b)
			return;
		clika__copy_name(b->thread_name, sizeof(b->thread_name), text);
		clika__unlock(b);
	} else if (what == CLIKA_REC_PROCESS_LABEL) {
		clika__copy_name(clika_object_v1.label, sizeof(clika_object_v1.label), text);
	} else {
		clika__keep_name(what, id, text);
	}
	if (clika_semaphore_v1)
		clika__emit(kind, CLIKA__NO_TEXT, text, id, 0, 0, 0, CLIKA__NO_ARGS);
}

CLIKA__FUNC void clika__flush(void)
{
	struct clika_buffer *b = clika_tls_v1;

	if (!b || b->busy)
		return;
	b->busy = 1;
	CLIKA__FENCE();
	if (b->magic == CLIKA_BUFFER_MAGIC && b->tid == clika__id(CLIKA__GETTID) &&
	    b->pid == clika__id(CLIKA__GETPID))
		clika__hand_over(b, 0);
	clika__unlock(b);
}

/* Last of the object's destructors: at dlclose() the key must not outlive the code behind it. */
__attribute__((__destructor__(101), __unused__)) static void clika__unload(void)
{
	uint32_t key = __atomic_exchange_n(&clika_key_v1, CLIKA__KEY_CLOSED, __ATOMIC_ACQ_REL);
	struct clika_buffer *b = clika_tls_v1;

	/* A destructor that still marks after this one makes itself a new buffer. */
	if (b && b != &clika_blocked_v1 && !b->busy)
		clika__thread_exit(b);
	if (key && key != CLIKA__KEY_CLOSED)
		clika__key_delete(key - 1);
}

#define CLIKA_ENABLED() CLIKA__UNLIKELY(clika_semaphore_v1 != 0)
#define CLIKA__POOL(literal) clika__pool(literal)

CLIKA__INLINE uint64_t clika__pool(const char *literal)
{
	int64_t d = clika__displacement(literal);

	return clika__fits(d) ? (uint64_t)(uint32_t)d << 32 : 0;
}

#endif /* CLIKA__BATCHED */

/* ---- simple transport ------------------------------------------------------------------------ */

#if CLIKA__SIMPLE

/* One semaphore for all simple markers of the object: whoever looks at one of them turns on all. */
__asm__(".ifndef clika_simple_semaphore_v1\n"
	".pushsection .probes,\"awG\",@progbits,clika_simple_semaphore_v1,comdat\n"
	".balign 2\n"
	".weak clika_simple_semaphore_v1\n"
	".hidden clika_simple_semaphore_v1\n"
	".type clika_simple_semaphore_v1,@object\n"
	"clika_simple_semaphore_v1:\n"
	".2byte 0\n"
	".size clika_simple_semaphore_v1, 2\n"
	".popsection\n"
	".endif\n");

extern volatile uint16_t clika_simple_semaphore_v1 __attribute__((__visibility__("hidden")));

#ifdef __x86_64__
#define CLIKA__SIMPLE_REG0 "%%rdi"
#define CLIKA__SIMPLE_REG1 "%%rsi"
#define CLIKA__SIMPLE_REG2 "%%rdx"
#define CLIKA__SIMPLE_REG3 "%%rcx"
#define CLIKA__SIMPLE_REG4 "%%r8"
#define CLIKA__SIMPLE_REG5 "%%r9"
#define CLIKA__IN0 "D"
#define CLIKA__IN1 "S"
#define CLIKA__IN2 "d"
#define CLIKA__IN3 "c"
#define CLIKA__REGISTER(i) uint64_t clika__r##i = w##i
#define CLIKA__REGISTER_OF(i, reg) register uint64_t clika__r##i __asm__(reg) = w##i
#else
#define CLIKA__SIMPLE_REG0 "x0"
#define CLIKA__SIMPLE_REG1 "x1"
#define CLIKA__SIMPLE_REG2 "x2"
#define CLIKA__SIMPLE_REG3 "x3"
#define CLIKA__SIMPLE_REG4 "x4"
#define CLIKA__SIMPLE_REG5 "x5"
#define CLIKA__IN0 "r"
#define CLIKA__IN1 "r"
#define CLIKA__IN2 "r"
#define CLIKA__IN3 "r"
#define CLIKA__REGISTER(i) register uint64_t clika__r##i __asm__("x" #i) = w##i
#define CLIKA__REGISTER_OF(i, reg) CLIKA__REGISTER(i)
#endif

/*
 * The arguments always sit in the first argument registers, so every site has the same recipe; `now`,
 * the time, follows them, and `place`, where the literal lies, if it may have one. The note joins the
 * section group of the code, if there is one, and goes when it goes.
 */
#define CLIKA__HIT_AS(probe, recipe)                                                               \
	do {                                                                                       \
		CLIKA__REGISTER(0);                                                                \
		CLIKA__REGISTER(1);                                                                \
		CLIKA__REGISTER(2);                                                                \
		CLIKA__REGISTER(3);                                                                \
		CLIKA__REGISTER_OF(4, "r8");                                                       \
		CLIKA__REGISTER_OF(5, "r9");                                                       \
		__asm__ volatile("990: nop\n"                                                      \
				 ".reloc 990b, " CLIKA__RELOC_NONE ", _.stapsdt.base\n"            \
				 ".pushsection .note.stapsdt,\"?\",@note\n"                        \
				 ".balign 4\n"                                                     \
				 ".4byte 8, 992f-991f, 3\n"                                        \
				 ".asciz \"stapsdt\"\n"                                            \
				 "991:\n"                                                          \
				 ".8byte 990b\n"                                                   \
				 ".8byte _.stapsdt.base\n"                                         \
				 ".8byte clika_simple_semaphore_v1\n"                              \
				 ".asciz \"clika\"\n"                                              \
				 ".asciz \"" #probe "\"\n"                                         \
				 ".asciz \"" recipe "\"\n"                                         \
				 "992: .balign 4\n"                                                \
				 ".popsection\n"                                                   \
				 :                                                                 \
				 : CLIKA__IN0(clika__r0), CLIKA__IN1(clika__r1),                   \
				   CLIKA__IN2(clika__r2), CLIKA__IN3(clika__r3), "r"(clika__r4),   \
				   "r"(clika__r5)                                                  \
				 : "memory");                                                      \
	} while (0)
/* The time is word n, the place word m. */
#define CLIKA__HIT(probe, n)                                                                       \
	do {                                                                                       \
		w##n = now;                                                                        \
		CLIKA__HIT_AS(probe, CLIKA__RECIPE##n);                                            \
	} while (0)
#define CLIKA__HIT_NAMED_AS(probe, n, m, recipe)                                                   \
	do {                                                                                       \
		w##n = now;                                                                        \
		w##m = place;                                                                      \
		CLIKA__HIT_AS(probe, recipe);                                                      \
	} while (0)
#define CLIKA__HIT_NAMED(probe, n, m) CLIKA__HIT_NAMED_AS(probe, n, m, CLIKA__RECIPE##m)

#define CLIKA__RECIPE0 "8@" CLIKA__SIMPLE_REG0
#define CLIKA__RECIPE1 CLIKA__RECIPE0 " 8@" CLIKA__SIMPLE_REG1
#define CLIKA__RECIPE2 CLIKA__RECIPE1 " 8@" CLIKA__SIMPLE_REG2
#define CLIKA__RECIPE3 CLIKA__RECIPE2 " 8@" CLIKA__SIMPLE_REG3
#define CLIKA__RECIPE4 CLIKA__RECIPE3 " 8@" CLIKA__SIMPLE_REG4
#define CLIKA__RECIPE5 CLIKA__RECIPE4 " 8@" CLIKA__SIMPLE_REG5
/* its second value is signed; so is every displacement, whose sign nobody needs */
#define CLIKA__RECIPE_SIGNED                                                                       \
	CLIKA__RECIPE0 " -8@" CLIKA__SIMPLE_REG1 " 8@" CLIKA__SIMPLE_REG2 " 8@" CLIKA__SIMPLE_REG3

/* Displacement of the literal from the semaphore: readers find the text in the file. 0 = none. */
CLIKA__INLINE uint64_t clika__place(const char *literal)
{
	int64_t d = (int64_t)((uintptr_t)literal - (uintptr_t)&clika_simple_semaphore_v1);

	return literal && d == (int32_t)d ? CLIKA__CAST(uint64_t, d) : 0;
}

/* Reads the string through: the kernel's reader does not fault a page in. */
CLIKA__INLINE uint64_t clika__touch(const char *s)
{
	uint32_t n = clika__length(s);

	__asm__ volatile("" : : "r"(n));
	return (uint64_t)(uintptr_t)s;
}

CLIKA__INLINE uint64_t clika__category(const char *literal)
{
	if (!literal)
		return 0;
	while (*literal)
		literal++;
	return literal[1] ? clika__touch(literal + 1) : 0;
}

CLIKA__INLINE void clika__touch_keys(uint32_t nargs, const struct clika_arg *args)
{
	uint32_t i;

	for (i = 0; i < nargs; i++)
		clika__touch(args[i].key);
}

CLIKA__FUNC clika_token clika__span_begin(const char *literal)
{
	uint64_t w0 = clika__touch(literal), w1 = clika__category(literal), w2, w3, w4 = 0, w5 = 0;
	uint64_t place = clika__place(literal), now = clika__now();

	CLIKA__HIT_NAMED(span_begin, 2, 3);
	return 1;
}

CLIKA__FUNC clika_token clika__span_begin_x(const char *literal, const char *name, uint32_t nargs,
					    const struct clika_arg *args)
{
	uint64_t w0 = clika__touch(name ? name : literal), w1 = clika__category(literal);
	uint64_t w2 = nargs, w3 = (uint64_t)(uintptr_t)args, w4 = 0, w5 = 0, now;
	uint64_t place = clika__place(name ? CLIKA__NO_TEXT : literal);

	clika__touch_keys(nargs, args);
	now = clika__now();
	if (nargs)
		CLIKA__HIT_NAMED(span_begin_args, 4, 5);
	else
		CLIKA__HIT_NAMED(span_begin, 2, 3);
	return 1;
}

CLIKA__FUNC void clika__span_end(clika_token token)
{
	uint64_t w0, w1 = 0, w2 = 0, w3 = 0, w4 = 0, w5 = 0, now = clika__now();

	(void)token;
	CLIKA__HIT(span_end, 0);
}

CLIKA__FUNC void clika__span_end_x(clika_token token, uint32_t nargs, const struct clika_arg *args)
{
	uint64_t w0 = nargs, w1 = (uint64_t)(uintptr_t)args, w2 = 0, w3 = 0, w4 = 0, w5 = 0;
	uint64_t now = clika__now();

	if (!token)
		return;
	clika__touch_keys(nargs, args);
	if (nargs)
		CLIKA__HIT(span_end_args, 2);
	else
		CLIKA__HIT(span_end, 0);
}

/* Values other than the name shift to where the probe of that kind has them. */
CLIKA__FUNC void clika__emit(uint32_t kind, const char *literal, const char *name, uint64_t v0,
			     uint64_t v1, uint64_t v2, uint32_t nargs, const struct clika_arg *args)
{
	uint64_t w0 = clika__touch(name ? name : literal), w1 = v0, w2 = v1, w3 = v2, w4 = 0;
	uint64_t w5 = 0, place = clika__place(name ? CLIKA__NO_TEXT : literal), now;

	clika__touch_keys(nargs, args);
	now = clika__now_after();
	switch (kind & 0xff) {
	case CLIKA_REC_INSTANT:
		w1 = clika__category(literal);
		w2 = nargs;
		w3 = (uint64_t)(uintptr_t)args;
		if (nargs)
			CLIKA__HIT_NAMED(instant_args, 4, 5);
		else
			CLIKA__HIT_NAMED(instant, 2, 3);
		return;
	case CLIKA_REC_COUNTER_I64:
		CLIKA__HIT_NAMED_AS(counter_i64, 2, 3, CLIKA__RECIPE_SIGNED);
		return;
	case CLIKA_REC_COUNTER_F64:
		CLIKA__HIT_NAMED(counter_f64, 2, 3);
		return;
	case CLIKA_REC_FLOW_OUT:
		CLIKA__HIT_NAMED(flow_out, 2, 3);
		return;
	case CLIKA_REC_FLOW_STEP:
		CLIKA__HIT_NAMED(flow_step, 2, 3);
		return;
	case CLIKA_REC_FLOW_IN:
		CLIKA__HIT_NAMED(flow_in, 2, 3);
		return;
	case CLIKA_REC_REQUEST_FIRST:
		CLIKA__HIT_NAMED(request_first, 2, 3);
		return;
	case CLIKA_REC_REQUEST_OUTPUT:
		CLIKA__HIT_NAMED(request_output, 3, 4);
		return;
	case CLIKA_REC_CAPTURE_BEGIN:
		CLIKA__HIT_NAMED(capture_begin, 1, 2);
		return;
	case CLIKA_REC_CAPTURE_END:
		CLIKA__HIT_NAMED(capture_end, 1, 2);
		return;
	case CLIKA_REC_ALLOC:
	case CLIKA_REC_RESERVE: /* address, bytes, device; the pool comes as the name */
		w3 = w0;
		w0 = (uint32_t)v2;
		w1 = v0;
		w2 = v1;
		if ((kind & 0xff) == CLIKA_REC_ALLOC)
			CLIKA__HIT_NAMED(alloc, 4, 5);
		else
			CLIKA__HIT_NAMED(reserve, 4, 5);
		return;
	case CLIKA_REC_FREE:
	case CLIKA_REC_RELEASE: /* address, device */
		w0 = (uint32_t)v1;
		w1 = v0;
		if ((kind & 0xff) == CLIKA_REC_FREE)
			CLIKA__HIT(free, 2);
		else
			CLIKA__HIT(release, 2);
		return;
	default:
		break;
	}
	w2 = nargs;
	w3 = (uint64_t)(uintptr_t)args;
	switch (kind & 0xff) {
	case CLIKA_REC_ASYNC_BEGIN:
		if (nargs)
			CLIKA__HIT_NAMED(async_begin_args, 4, 5);
		else
			CLIKA__HIT_NAMED(async_begin, 2, 3);
		return;
	case CLIKA_REC_ASYNC_END:
		if (nargs)
			CLIKA__HIT_NAMED(async_end_args, 4, 5);
		else
			CLIKA__HIT_NAMED(async_end, 2, 3);
		return;
	case CLIKA_REC_REQUEST_BEGIN:
		if (nargs)
			CLIKA__HIT_NAMED(request_begin_args, 4, 5);
		else
			CLIKA__HIT_NAMED(request_begin, 2, 3);
		return;
	case CLIKA_REC_REQUEST_END:
		if (nargs)
			CLIKA__HIT_NAMED(request_end_args, 4, 5);
		else
			CLIKA__HIT_NAMED(request_end, 2, 3);
		return;
	default:
		return;
	}
}

CLIKA__FUNC void clika__name(uint32_t kind, uint64_t id, const char *text)
{
	uint64_t w0 = id, w1 = clika__touch(text), w2 = 0, w3 = 0, w4 = 0, w5 = 0, now;

	if (!clika_simple_semaphore_v1)
		return;
	now = clika__now();
	switch (kind & 0xff) {
	case CLIKA_REC_QUEUE_NAME:
		CLIKA__HIT(queue_name, 2);
		return;
	case CLIKA_REC_DEVICE_NAME:
		CLIKA__HIT(device_name, 2);
		return;
	case CLIKA_REC_THREAD_NAME:
		w0 = w1;
		CLIKA__HIT(thread_name, 1);
		return;
	default:
		w0 = w1;
		CLIKA__HIT(process_label, 1);
		return;
	}
}

/* What has begun cannot begin earlier than what was told before: a past span becomes an instant that tells its length. */
CLIKA__FUNC void clika__span_complete(const char *literal, const char *name, uint64_t start,
				      uint32_t nargs, const struct clika_arg *args)
{
	struct clika_arg all[CLIKA_MAX_ARGS];
	uint64_t now = clika__clock();
	uint32_t n;

	if (!start)
		return;
	for (n = 0; n < nargs && n < CLIKA_MAX_ARGS; n++)
		all[n] = args[n];
	if (n < CLIKA_MAX_ARGS) {
		all[n].type = CLIKA_ARG_U64;
		all[n].len = 8;
		all[n].key = "dur_ns\0\0";
		all[n].value = now < start ? 0 : now - start;
		n++;
	}
	clika__emit(CLIKA_REC_INSTANT, literal, name, 0, 0, 0, n, all);
}

CLIKA__INLINE void clika__flush(void)
{
}

#define CLIKA_ENABLED() CLIKA__UNLIKELY(clika_simple_semaphore_v1 != 0)

#endif /* CLIKA__SIMPLE */

/* ---- no transport ---------------------------------------------------------------------------- */

#if CLIKA__OFF

#define CLIKA_ENABLED() 0

CLIKA__INLINE uint64_t clika__now(void)
{
	return 0;
}

CLIKA__INLINE uint64_t clika__now_after(void)
{
	return 0;
}

CLIKA__INLINE uint32_t clika__length(const char *s)
{
	(void)s;
	return 0;
}

CLIKA__INLINE clika_token clika__span_begin(const char *literal)
{
	(void)literal;
	return 0;
}

CLIKA__INLINE clika_token clika__span_begin_x(const char *literal, const char *name, uint32_t nargs,
					      const struct clika_arg *args)
{
	(void)literal, (void)name, (void)nargs, (void)args;
	return 0;
}

CLIKA__INLINE void clika__span_end(clika_token token)
{
	(void)token;
}

CLIKA__INLINE void clika__span_end_x(clika_token token, uint32_t nargs,
				     const struct clika_arg *args)
{
	(void)token, (void)nargs, (void)args;
}

CLIKA__INLINE void clika__span_complete(const char *literal, const char *name, uint64_t start,
					uint32_t nargs, const struct clika_arg *args)
{
	(void)literal, (void)name, (void)start, (void)nargs, (void)args;
}

CLIKA__INLINE void clika__emit(uint32_t kind, const char *literal, const char *name, uint64_t w0,
			       uint64_t w1, uint64_t w2, uint32_t nargs,
			       const struct clika_arg *args)
{
	(void)kind, (void)literal, (void)name, (void)w0, (void)w1, (void)w2, (void)nargs;
	(void)args;
}

CLIKA__INLINE void clika__name(uint32_t kind, uint64_t id, const char *text)
{
	(void)kind, (void)id, (void)text;
}

CLIKA__INLINE void clika__flush(void)
{
}

#endif /* CLIKA__OFF */

/* ---- arguments ------------------------------------------------------------------------------- */

CLIKA__INLINE struct clika_arg clika__arg(uint32_t type, uint32_t len, const char *key,
					  uint64_t value)
{
	struct clika_arg a;

	a.type = type;
	a.len = len;
	a.key = key;
	a.value = value;
	return a;
}

CLIKA__INLINE uint64_t clika__bits(double v)
{
	union {
		double f;
		uint64_t u;
	} bits;

	bits.f = v;
	return bits.u;
}

CLIKA__INLINE const char *clika__text(const char *s)
{
	return s ? s : "(null)";
}

CLIKA__INLINE struct clika_arg clika__arg_str(const char *key, const char *s)
{
	s = clika__text(s);
	return clika__arg(CLIKA_ARG_STR, clika__length(s), key, (uint64_t)(uintptr_t)s);
}

CLIKA__INLINE void clika__scope_end(clika_token *token)
{
	if (CLIKA__UNLIKELY(*token != 0))
		clika__span_end(*token);
}

CLIKA__INLINE void clika__end(clika_token token)
{
	if (CLIKA__UNLIKELY(token != 0))
		clika__span_end(token);
}

#ifdef __cplusplus
} /* extern "C" */

/*
 * Templates and members would be shared between translation units; inlined ones are not.
 * The linkage is said again for those who include C headers in a block of their own.
 */
extern "C++" {

template <unsigned N> struct clika__pack {
	clika_arg a[N];
};

template <typename... T> CLIKA__INLINE clika__pack<sizeof...(T)> clika__packed(T... args)
{
	return clika__pack<sizeof...(T)>{ { args... } };
}

template <typename T> CLIKA__INLINE uint64_t clika__word(T *p)
{
	return reinterpret_cast<uintptr_t>(p);
}

template <typename T> CLIKA__INLINE uint64_t clika__word(T v)
{
	return static_cast<uint64_t>(v);
}

class clika_scope
{
	clika_token token;

      public:
	CLIKA__MEMBER explicit clika_scope(clika_token t) : token(t)
	{
	}
	CLIKA__MEMBER ~clika_scope()
	{
		clika__scope_end(&token);
	}
	clika_scope(const clika_scope &) = delete;
	clika_scope &operator=(const clika_scope &) = delete;
};

} /* extern "C++" */
#endif

#if CLIKA__SUPPORTED
#pragma GCC diagnostic pop
#endif

/* ---- the macros ------------------------------------------------------------------------------ */

#define CLIKA__TEXT_(x) #x
#define CLIKA__TEXT(x) CLIKA__TEXT_(x)
#define CLIKA__JOIN_(a, b) a##b
#define CLIKA__JOIN(a, b) CLIKA__JOIN_(a, b)
#ifdef __COUNTER__
#define CLIKA__UNIQUE(prefix) CLIKA__JOIN(prefix, __COUNTER__)
#else
#define CLIKA__UNIQUE(prefix) CLIKA__JOIN(prefix, __LINE__)
#endif
#ifndef CLIKA_SOURCE
#define CLIKA_SOURCE __FILE__
#endif

/* The form in which all literals lie in the file, for whoever reads them there. */
#define CLIKA__LITERAL(name, cat) "" name "\0" cat "\0" CLIKA_SOURCE ":" CLIKA__TEXT(__LINE__)
#define CLIKA__KEY(name) "" name "\0\0"

/* First of 1 to 9 macro arguments, and the rest of them as a count and an array. */
#define CLIKA__FIRST(...) CLIKA__FIRST_(__VA_ARGS__, ~)
#define CLIKA__FIRST_(first, ...) first
#define CLIKA__MORE(...) CLIKA__TENTH(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0, ~)
#define CLIKA__TENTH(a, b, c, d, e, f, g, h, i, n, ...) n
#define CLIKA__REST(...) CLIKA__JOIN(CLIKA__REST_, CLIKA__MORE(__VA_ARGS__))(__VA_ARGS__)
#define CLIKA__REST_0(first) 0, CLIKA__NO_ARGS
#define CLIKA__REST_1(first, ...) CLIKA__ARGS(1, __VA_ARGS__)
#define CLIKA__REST_2(first, ...) CLIKA__ARGS(2, __VA_ARGS__)
#define CLIKA__REST_3(first, ...) CLIKA__ARGS(3, __VA_ARGS__)
#define CLIKA__REST_4(first, ...) CLIKA__ARGS(4, __VA_ARGS__)
#define CLIKA__REST_5(first, ...) CLIKA__ARGS(5, __VA_ARGS__)
#define CLIKA__REST_6(first, ...) CLIKA__ARGS(6, __VA_ARGS__)
#define CLIKA__REST_7(first, ...) CLIKA__ARGS(7, __VA_ARGS__)
#define CLIKA__REST_8(first, ...) CLIKA__ARGS(8, __VA_ARGS__)

#ifdef __cplusplus
#define CLIKA__ARGS(n, ...) n, clika__packed(__VA_ARGS__).a
#define CLIKA__WORD(v) clika__word(v)
#define CLIKA__SCOPE(token) const clika_scope CLIKA__UNIQUE(clika__scope_)(token)
#else
/* clang-format off */
#define CLIKA__ARGS(n, ...) n, (const struct clika_arg[]){ __VA_ARGS__ }
/* clang-format on */
#define CLIKA__WORD(v) ((uint64_t)(uintptr_t)(v))
#if CLIKA__SUPPORTED
#define CLIKA__CLEANUP __attribute__((__cleanup__(clika__scope_end), __unused__))
#define CLIKA__SCOPE(t) CLIKA__CLEANUP clika_token CLIKA__UNIQUE(clika__scope_) = (t)
#else
#define CLIKA__SCOPE(token) (void)(token)
#endif
#endif

#define CLIKA__DO(call)                                                                            \
	do {                                                                                       \
		if (CLIKA_ENABLED())                                                               \
			call;                                                                      \
	} while (0)
#define CLIKA__KIND(kind, fixed) (CLIKA__CAST(uint32_t, CLIKA_REC_##kind) | fixed##u << 8)
#define CLIKA__EMIT(kind, fixed, literal, name, w0, w1, w2, ...)                                   \
	CLIKA__DO(clika__emit(CLIKA__KIND(kind, fixed), literal, name, w0, w1, w2, __VA_ARGS__))
#define CLIKA__BEGIN(call) (CLIKA_ENABLED() ? call : CLIKA__CAST(clika_token, 0))

/*
 * Everywhere: name, cat, kind, tag, key and pool are string literals; what ends in _DYN takes
 * any string instead. "..." is up to eight of the arguments below. While nobody looks, nothing
 * in the parentheses is evaluated (naming excepted, which stays for later).
 */
#define CLIKA_I64(key, v)                                                                          \
	clika__arg(CLIKA_ARG_I64, 8, CLIKA__KEY(key),                                              \
		   CLIKA__CAST(uint64_t, CLIKA__CAST(int64_t, v)))
#define CLIKA_U64(key, v) clika__arg(CLIKA_ARG_U64, 8, CLIKA__KEY(key), CLIKA__WORD(v))
#define CLIKA_F64(key, v)                                                                          \
	clika__arg(CLIKA_ARG_F64, 8, CLIKA__KEY(key), clika__bits(CLIKA__CAST(double, v)))
#define CLIKA_STR(key, s) clika__arg_str(CLIKA__KEY(key), s)

#define CLIKA_NOW() clika__now_after() /* CLOCK_BOOTTIME, ns, as the markers tell it */
/* Start of a span that CLIKA_SPAN_COMPLETE() may tell later; 0, which tells none, if disabled */
#define CLIKA_START() (CLIKA_ENABLED() ? clika__now() : CLIKA__CAST(uint64_t, 0))
#define CLIKA_FLUSH() clika__flush()

/* Spans on this thread. From here to the end of the enclosing block: (name, ...) */
#define CLIKA_SPAN(...) CLIKA__SCOPE(CLIKA_SPAN_BEGIN(__VA_ARGS__))
#define CLIKA_SPAN_CAT(name, ...) CLIKA__SCOPE(CLIKA_SPAN_BEGIN_CAT(name, __VA_ARGS__))
#define CLIKA_SPAN_DYN(...) CLIKA__SCOPE(CLIKA_SPAN_BEGIN_DYN(__VA_ARGS__))

/* clika_token t = CLIKA_SPAN_BEGIN("decode", ...); ... CLIKA_SPAN_END(t, ...); */
#define CLIKA_SPAN_BEGIN(...)                                                                      \
	CLIKA__SPAN_BEGIN(CLIKA__LITERAL(CLIKA__FIRST(__VA_ARGS__), ""), __VA_ARGS__)
#define CLIKA_SPAN_BEGIN_CAT(name, ...)                                                            \
	CLIKA__SPAN_BEGIN(CLIKA__LITERAL(name, CLIKA__FIRST(__VA_ARGS__)), __VA_ARGS__)
#define CLIKA_SPAN_BEGIN_DYN(...)                                                                  \
	CLIKA__BEGIN(clika__span_begin_x(CLIKA__NO_TEXT, clika__text(CLIKA__FIRST(__VA_ARGS__)),   \
					 CLIKA__REST(__VA_ARGS__)))
#define CLIKA_SPAN_END(...) CLIKA__JOIN(CLIKA__SPAN_END_, CLIKA__IF_MORE(__VA_ARGS__))(__VA_ARGS__)
#define CLIKA__IF_MORE(...) CLIKA__TENTH(__VA_ARGS__, x, x, x, x, x, x, x, x, 0, ~)
#define CLIKA__SPAN_END_0(token) clika__end(token)
#define CLIKA__SPAN_END_x(token, ...)                                                              \
	CLIKA__SPAN_END_X(CLIKA__UNIQUE(clika__t_), token, __VA_ARGS__)
#define CLIKA__SPAN_END_X(t, token, ...)                                                           \
	do {                                                                                       \
		const clika_token t = (token);                                                     \
		if (CLIKA__UNLIKELY(t != 0))                                                       \
			clika__span_end_x(t, CLIKA__REST(token, __VA_ARGS__));                     \
	} while (0)
#define CLIKA__SPAN_BEGIN(literal, ...)                                                            \
	CLIKA__JOIN(CLIKA__SPAN_BEGIN_, CLIKA__IF_MORE(__VA_ARGS__))(literal, __VA_ARGS__)
#define CLIKA__SPAN_BEGIN_0(literal, first) CLIKA__BEGIN(clika__span_begin(literal))
#define CLIKA__SPAN_BEGIN_x(literal, ...)                                                          \
	CLIKA__BEGIN(clika__span_begin_x(literal, CLIKA__NO_TEXT, CLIKA__REST(__VA_ARGS__)))

/* A span that has just ended: (name, start, ...), start from CLIKA_START() or CLIKA_NOW() */
#define CLIKA_SPAN_COMPLETE(name, ...)                                                             \
	CLIKA__DO(clika__span_complete(CLIKA__LITERAL(name, ""), CLIKA__NO_TEXT,                   \
				       CLIKA__FIRST(__VA_ARGS__), CLIKA__REST(__VA_ARGS__)))
#define CLIKA_SPAN_COMPLETE_CAT(name, cat, ...)                                                    \
	CLIKA__DO(clika__span_complete(CLIKA__LITERAL(name, cat), CLIKA__NO_TEXT,                  \
				       CLIKA__FIRST(__VA_ARGS__), CLIKA__REST(__VA_ARGS__)))
#define CLIKA_SPAN_COMPLETE_DYN(name, ...)                                                         \
	CLIKA__DO(clika__span_complete(CLIKA__NO_TEXT, clika__text(name),                          \
				       CLIKA__FIRST(__VA_ARGS__), CLIKA__REST(__VA_ARGS__)))

#define CLIKA_INSTANT(...)                                                                         \
	CLIKA__EMIT(INSTANT, 0, CLIKA__LITERAL(CLIKA__FIRST(__VA_ARGS__), ""), CLIKA__NO_TEXT, 0,  \
		    0, 0, CLIKA__REST(__VA_ARGS__))
#define CLIKA_INSTANT_CAT(name, ...)                                                               \
	CLIKA__EMIT(INSTANT, 0, CLIKA__LITERAL(name, CLIKA__FIRST(__VA_ARGS__)), CLIKA__NO_TEXT,   \
		    0, 0, 0, CLIKA__REST(__VA_ARGS__))
#define CLIKA_INSTANT_DYN(...)                                                                     \
	CLIKA__EMIT(INSTANT, 0, CLIKA__NO_TEXT, clika__text(CLIKA__FIRST(__VA_ARGS__)), 0, 0, 0,   \
		    CLIKA__REST(__VA_ARGS__))

#define CLIKA_COUNTER_I64(name, v)                                                                 \
	CLIKA__EMIT(COUNTER_I64, 1, CLIKA__LITERAL(name, ""), CLIKA__NO_TEXT,                      \
		    CLIKA__CAST(uint64_t, CLIKA__CAST(int64_t, v)), 0, 0, 0, CLIKA__NO_ARGS)
#define CLIKA_COUNTER_I64_DYN(name, v)                                                             \
	CLIKA__EMIT(COUNTER_I64, 1, CLIKA__NO_TEXT, clika__text(name),                             \
		    CLIKA__CAST(uint64_t, CLIKA__CAST(int64_t, v)), 0, 0, 0, CLIKA__NO_ARGS)
#define CLIKA_COUNTER_F64(name, v)                                                                 \
	CLIKA__EMIT(COUNTER_F64, 1, CLIKA__LITERAL(name, ""), CLIKA__NO_TEXT,                      \
		    clika__bits(CLIKA__CAST(double, v)), 0, 0, 0, CLIKA__NO_ARGS)
#define CLIKA_COUNTER_F64_DYN(name, v)                                                             \
	CLIKA__EMIT(COUNTER_F64, 1, CLIKA__NO_TEXT, clika__text(name),                             \
		    clika__bits(CLIKA__CAST(double, v)), 0, 0, 0, CLIKA__NO_ARGS)

/* (literal or NULL, string or NULL, id, ...) */
#define CLIKA__WITH_ID(kind, literal, name, ...)                                                   \
	CLIKA__EMIT(kind, 1, literal, name, CLIKA__WORD(CLIKA__FIRST(__VA_ARGS__)), 0, 0,          \
		    CLIKA__REST(__VA_ARGS__))
#define CLIKA__NAMED_ID(kind, name, ...)                                                           \
	CLIKA__WITH_ID(kind, CLIKA__LITERAL(name, ""), CLIKA__NO_TEXT, __VA_ARGS__)
#define CLIKA__CAT_ID(kind, name, cat, ...)                                                        \
	CLIKA__WITH_ID(kind, CLIKA__LITERAL(name, cat), CLIKA__NO_TEXT, __VA_ARGS__)
#define CLIKA__DYN_ID(kind, name, ...)                                                             \
	CLIKA__WITH_ID(kind, CLIKA__NO_TEXT, clika__text(name), __VA_ARGS__)

/* Spans that end on whatever thread, tied by id: (name, id, ...) */
#define CLIKA_ASYNC_BEGIN(name, ...) CLIKA__NAMED_ID(ASYNC_BEGIN, name, __VA_ARGS__)
#define CLIKA_ASYNC_BEGIN_CAT(name, cat, ...) CLIKA__CAT_ID(ASYNC_BEGIN, name, cat, __VA_ARGS__)
#define CLIKA_ASYNC_BEGIN_DYN(name, ...) CLIKA__DYN_ID(ASYNC_BEGIN, name, __VA_ARGS__)
#define CLIKA_ASYNC_END(name, ...) CLIKA__NAMED_ID(ASYNC_END, name, __VA_ARGS__)
#define CLIKA_ASYNC_END_CAT(name, cat, ...) CLIKA__CAT_ID(ASYNC_END, name, cat, __VA_ARGS__)
#define CLIKA_ASYNC_END_DYN(name, ...) CLIKA__DYN_ID(ASYNC_END, name, __VA_ARGS__)

/* What was enqueued here runs there: same name and id at both ends */
#define CLIKA_FLOW_OUT(name, id) CLIKA__NAMED_ID(FLOW_OUT, name, id)
#define CLIKA_FLOW_OUT_DYN(name, id) CLIKA__DYN_ID(FLOW_OUT, name, id)
#define CLIKA_FLOW_STEP(name, id) CLIKA__NAMED_ID(FLOW_STEP, name, id)
#define CLIKA_FLOW_STEP_DYN(name, id) CLIKA__DYN_ID(FLOW_STEP, name, id)
#define CLIKA_FLOW_IN(name, id) CLIKA__NAMED_ID(FLOW_IN, name, id)
#define CLIKA_FLOW_IN_DYN(name, id) CLIKA__DYN_ID(FLOW_IN, name, id)

/* Requests: (kind, id, ...); units are tokens, images, what the runtime puts out */
#define CLIKA_REQUEST_BEGIN(kind, ...) CLIKA__NAMED_ID(REQUEST_BEGIN, kind, __VA_ARGS__)
#define CLIKA_REQUEST_BEGIN_DYN(kind, ...) CLIKA__DYN_ID(REQUEST_BEGIN, kind, __VA_ARGS__)
#define CLIKA_REQUEST_FIRST_OUTPUT(kind, id) CLIKA__NAMED_ID(REQUEST_FIRST, kind, id)
#define CLIKA_REQUEST_FIRST_OUTPUT_DYN(kind, id) CLIKA__DYN_ID(REQUEST_FIRST, kind, id)
#define CLIKA_REQUEST_OUTPUT(kind, id, units)                                                      \
	CLIKA__EMIT(REQUEST_OUTPUT, 2, CLIKA__LITERAL(kind, ""), CLIKA__NO_TEXT, CLIKA__WORD(id),  \
		    CLIKA__WORD(units), 0, 0, CLIKA__NO_ARGS)
#define CLIKA_REQUEST_OUTPUT_DYN(kind, id, units)                                                  \
	CLIKA__EMIT(REQUEST_OUTPUT, 2, CLIKA__NO_TEXT, clika__text(kind), CLIKA__WORD(id),         \
		    CLIKA__WORD(units), 0, 0, CLIKA__NO_ARGS)
#define CLIKA_REQUEST_END(kind, ...) CLIKA__NAMED_ID(REQUEST_END, kind, __VA_ARGS__)
#define CLIKA_REQUEST_END_DYN(kind, ...) CLIKA__DYN_ID(REQUEST_END, kind, __VA_ARGS__)

/* Memory. Device 0 is the host; the source line is told, a name is not. */
#if CLIKA__BATCHED
#define CLIKA__TAKE(kind, device, address, bytes, pool)                                            \
	CLIKA__EMIT(kind, 3, CLIKA__LITERAL("", ""), CLIKA__NO_TEXT, CLIKA__WORD(address),         \
		    CLIKA__WORD(bytes),                                                            \
		    CLIKA__CAST(uint32_t, device) | CLIKA__POOL("" pool "\0\0"), 0,                \
		    CLIKA__NO_ARGS)
#else
#define CLIKA__TAKE(kind, device, address, bytes, pool)                                            \
	CLIKA__EMIT(kind, 3, "" pool "\0\0", CLIKA__NO_TEXT, CLIKA__WORD(address),                 \
		    CLIKA__WORD(bytes), CLIKA__CAST(uint32_t, device), 0, CLIKA__NO_ARGS)
#endif
#define CLIKA__GIVE(kind, device, address)                                                         \
	CLIKA__EMIT(kind, 2, CLIKA__LITERAL("", ""), CLIKA__NO_TEXT, CLIKA__WORD(address),         \
		    CLIKA__CAST(uint32_t, device), 0, 0, CLIKA__NO_ARGS)
#define CLIKA_ALLOC(device, address, bytes, pool) CLIKA__TAKE(ALLOC, device, address, bytes, pool)
#define CLIKA_FREE(device, address) CLIKA__GIVE(FREE, device, address)
#define CLIKA_RESERVE(device, address, bytes, pool)                                                \
	CLIKA__TAKE(RESERVE, device, address, bytes, pool)
#define CLIKA_RELEASE(device, address) CLIKA__GIVE(RELEASE, device, address)

/* Names: any string, kept also while nobody looks (batched transport). */
#define CLIKA_THREAD_NAME(name) clika__name(CLIKA__KIND(THREAD_NAME, 0), 0, clika__text(name))
#define CLIKA_QUEUE_NAME(id, name)                                                                 \
	clika__name(CLIKA__KIND(QUEUE_NAME, 1), CLIKA__WORD(id), clika__text(name))
#define CLIKA_DEVICE_NAME(device, name)                                                            \
	clika__name(CLIKA__KIND(DEVICE_NAME, 1), CLIKA__WORD(device), clika__text(name))
#define CLIKA_PROCESS_LABEL(name) clika__name(CLIKA__KIND(PROCESS_LABEL, 0), 0, clika__text(name))

/* The window between the two is a capture of its own. */
#define CLIKA_CAPTURE_BEGIN(tag)                                                                   \
	CLIKA__EMIT(CAPTURE_BEGIN, 0, CLIKA__LITERAL(tag, ""), CLIKA__NO_TEXT, 0, 0, 0, 0,         \
		    CLIKA__NO_ARGS)
#define CLIKA_CAPTURE_BEGIN_DYN(tag)                                                               \
	CLIKA__EMIT(CAPTURE_BEGIN, 0, CLIKA__NO_TEXT, clika__text(tag), 0, 0, 0, 0, CLIKA__NO_ARGS)
#define CLIKA_CAPTURE_END(tag)                                                                     \
	CLIKA__EMIT(CAPTURE_END, 0, CLIKA__LITERAL(tag, ""), CLIKA__NO_TEXT, 0, 0, 0, 0,           \
		    CLIKA__NO_ARGS)
#define CLIKA_CAPTURE_END_DYN(tag)                                                                 \
	CLIKA__EMIT(CAPTURE_END, 0, CLIKA__NO_TEXT, clika__text(tag), 0, 0, 0, 0, CLIKA__NO_ARGS)

#endif /* !CLIKA_ABI_ONLY && !CLIKA_MARKERS_H */
