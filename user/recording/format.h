/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the recording file; docs/recording-format.md explains them. */
#ifndef CLIKA_USER_RECORDING_FORMAT_H
#define CLIKA_USER_RECORDING_FORMAT_H

#include <stdint.h>

#define FMT_FILE_MAGIC                                                                             \
	"\x89"                                                                                     \
	"CLIKA\r\n"
#define FMT_SEGMENT_MAGIC                                                                          \
	"\x93"                                                                                     \
	"clkseg\n"
#define FMT_MAGIC_BYTES 8

/* Another major number means that older readers cannot read the file. */
#define FMT_MAJOR 1
#define FMT_MINOR 0

/*
 * File header, 64 bytes: magic, u16 major, u16 minor, u32 header bytes, u64 recording id,
 * u64 segments written (0 until finished), u64 reserved, u32 flags, u32 crc32 of what precedes,
 * 16 bytes reserved.
 */
#define FMT_FILE_HEADER 64
#define FMT_FILE_CRC_AT 44
#define FMT_INCOMPLETE 0x1u /* cleared last */
#define FMT_CIRCULAR 0x2u   /* old segments are overwritten: order by sequence number */

/*
 * Segment header, 64 bytes: magic, u64 recording id, u64 sequence, u32 header bytes, u32 index
 * bytes, u64 data bytes, u32 crc32 of the index, u16 major, u16 minor, 12 bytes reserved, u32
 * crc32 of what precedes. Then the index, the data, and zeros up to a multiple of 8.
 */
#define FMT_SEGMENT_HEADER 64
#define FMT_SEGMENT_CRC_AT 60
#define FMT_ALIGN 8
#define FMT_MAX_INDEX (64u << 20)
#define FMT_MAX_DATA (256u << 20)

/* Items of an index: varint type, varint length, payload. Unknown types are skipped. */
enum fmt_item {
	ITEM_STRINGS = 1,
	ITEM_PROCESS = 2,
	ITEM_THREAD = 3,
	ITEM_META = 4,
	ITEM_LOSS = 5,
	ITEM_COUNTS = 6,
	ITEM_CAPTURE = 7,
	ITEM_ANCHOR = 8,
	ITEM_WARNING = 9,
	ITEM_BLOCK = 10,
	ITEM_ENDS = 11,
	ITEM_DROPPED = 12,
};

/* Fields that each event of a shape carries, lowest bit first, one varint each. */
#define SHAPE_DUR 0x01u
#define SHAPE_ID 0x02u /* zig-zag difference to the id before it in the block */
#define SHAPE_VALUE 0x04u
#define SHAPE_AUX 0x08u
#define SHAPE_KNOWN 0x0fu

/* Type of an argument in a shape: enum arg_type << 2 | how its value is stored. */
enum fmt_class {
	CLASS_VARINT = 0,
	CLASS_FIXED64 = 1,
	CLASS_BYTES = 2, /* varint length, bytes */
};

#define FMT_MAX_STRING 16383u            /* of definitions; longer ones are cut */
#define FMT_MAX_NAME 4095u               /* of the string table; likewise */
#define FMT_BLOCK_BYTES (32u << 10)      /* a body is closed when it has grown to this, */
#define FMT_BLOCK_NAME_BYTES (64u << 10) /* or when it refers to this much of names */
#define FMT_MAX_SHAPES 4096u             /* in one block */

#endif
