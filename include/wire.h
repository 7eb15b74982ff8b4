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

struct wire_spec {
	__ws64 value;     /* constant or displacement */
	__wu16 reg;       /* byte offset in the kernel's struct pt_regs (arm64: user_pt_regs) */
	__wu16 index;     /* likewise */
	__wu8 kind;       /* enum wire_spec_kind */
	__wu8 bytes;      /* 1, 2, 4, 8 */
	__wu8 is_signed;  /* extend the sign to 64 bits */
	__wu8 scale;      /* 1, 2, 4, 8 */
};
WIRE_ASSERT_SIZE(struct wire_spec, 16);

#endif
