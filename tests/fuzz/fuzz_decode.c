// SPDX-License-Identifier: Apache-2.0
/* Ring records whose every byte is made up: a hostile target writes the batches. */
#include <stdint.h>
#include <string.h>

#include "tests/common/decode_bench.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input is a row of (kind, length, bytes); the header is made whole so that bodies are reached. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static union {
		struct wire_hdr hdr;
		uint8_t bytes[16384];
	} rec;
	struct decode_bench b;
	uint64_t pass = 0;

	if (decode_bench__open(&b, 1000, size & 1))
		return 0;
	while (size >= 4) {
		uint8_t kind = data[0] % (W_KIND_COUNT + 1);
		size_t len = (data[1] | data[2] << 8) % (sizeof(rec) - sizeof(rec.hdr));

		data += 3;
		size -= 3;
		if (len > size)
			len = size;
		memset(&rec, 0, sizeof(rec));
		memcpy(rec.bytes + sizeof(rec.hdr), data, len);
		rec.hdr.kind = kind;
		rec.hdr.size = sizeof(rec.hdr) + len;
		rec.hdr.ts = 2000 + pass;
		rec.hdr.flags = data[0];
		decoder__record(b.d, &rec, sizeof(rec.hdr) + len, ++pass);
		data += len;
		size -= len;
	}
	people__reap(b.people, pass);
	decode_bench__finish(&b);
	decode_bench__close(&b);
	return 0;
}
