/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the checksums of a damaged recording right again, so that damage reaches the code behind
 * them: what a hostile writer would do.
 */
#ifndef CLIKA_TESTS_RECORDING_RESEAL_H
#define CLIKA_TESTS_RECORDING_RESEAL_H

#include <string.h>
#include <zlib.h>

#include "user/base/base.h"
#include "user/recording/format.h"

static inline void reseal__put32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
	p[2] = (uint8_t)(v >> 16);
	p[3] = (uint8_t)(v >> 24);
}

static inline void reseal__bodies(uint8_t *index, size_t len, const uint8_t *data, size_t data_len)
{
	struct cursor c = cursor__over(index, len);

	while (cursor__left(&c)) {
		uint64_t type = cursor__varint(&c), n = cursor__varint(&c), off, body;
		const uint8_t *p = n <= cursor__left(&c) ? cursor__bytes(&c, (size_t)n) : NULL;
		struct cursor b;
		int i;

		if (!p || c.bad)
			return;
		if (type != ITEM_BLOCK)
			continue;
		b = cursor__over(p, (size_t)n);
		for (i = 0; i < 6; i++)
			cursor__varint(&b);
		off = cursor__varint(&b);
		body = cursor__varint(&b);
		if (!b.bad && cursor__left(&b) >= 4 && off <= data_len && body <= data_len - off)
			reseal__put32(index + (b.p - index),
				      (uint32_t)crc32_z(0, data + off, (size_t)body));
	}
}

static inline void recording__reseal(uint8_t *file, size_t len)
{
	size_t at = FMT_FILE_HEADER;

	if (len < FMT_FILE_HEADER)
		return;
	reseal__put32(file + FMT_FILE_CRC_AT, (uint32_t)crc32_z(0, file, FMT_FILE_CRC_AT));
	while (at + FMT_SEGMENT_HEADER <= len) {
		uint8_t *h = file + at;
		struct cursor c = cursor__over(h + 28, 12);
		uint64_t index, data, room = len - at - FMT_SEGMENT_HEADER;

		if (memcmp(h, FMT_SEGMENT_MAGIC, FMT_MAGIC_BYTES)) {
			at++;
			continue;
		}
		index = cursor__u32le(&c);
		data = cursor__u64le(&c);
		if (index <= room) {
			uint8_t *p = h + FMT_SEGMENT_HEADER;

			if (data > room - index)
				data = room - index;
			reseal__bodies(p, (size_t)index, p + index, (size_t)data);
			reseal__put32(h + 40, (uint32_t)crc32_z(0, p, (size_t)index));
			at += (size_t)(index + data);
		}
		reseal__put32(h + FMT_SEGMENT_CRC_AT, (uint32_t)crc32_z(0, h, FMT_SEGMENT_CRC_AT));
		at += FMT_SEGMENT_HEADER;
	}
}

#endif
