/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the reader share: scan.c finds segments, reader.c takes in what they say,
 * block_decode.c walks events. */
#ifndef CLIKA_USER_RECORDING_READER_IMPL_H
#define CLIKA_USER_RECORDING_READER_IMPL_H

#include "user/recording/format.h"
#include "user/recording/reader.h"

struct found_segment {
	uint64_t off;
	uint64_t limit; /* bytes from here on belong to others */
	uint64_t seq;
	uint64_t data_bytes;
	uint32_t index_bytes, index_crc;
	bool cut; /* limit is before its end */
};

struct scan {
	struct found_segment *v;
	size_t n, cap;
	uint64_t id; /* of the recording */
	bool id_known;
};

/*
 * Finds the headers of all segments from @from on, in file order. What is found does not overlap,
 * so that checking every checksum costs at most one reading of the file, whatever the headers of
 * a hostile file say.
 */
int scan__run(struct scan *s, int fd, uint64_t from, uint64_t size);
void scan__free(struct scan *s);

int fd__read_at(int fd, void *p, size_t n, uint64_t off); /* -EBADMSG when the file is shorter */

struct stored_block {
	struct recording_block pub;
	uint32_t len, crc;
};

struct dec_arg {
	uint32_t key;
	uint8_t type; /* 0 = not known here: its value is passed over */
	uint8_t class;
};

struct dec_shape {
	uint32_t name, cat, src, pool;
	uint32_t mask;
	uint32_t first_arg;
	uint16_t nargs;
	uint16_t flags;
	uint8_t kind; /* 0 = not known here */
};

struct block_slot {
	const struct block_reader *owner;
	uint64_t serial; /* changes with every block, so that a stale reader is noticed */
	size_t index;
	struct block_slot *next_free;
	struct buf body; /* padded with zeros */
	struct dec_shape *shapes;
	uint32_t n_shapes, cap_shapes;
	struct dec_arg *args;
	uint32_t n_args, cap_args;
};

struct ends_chunk { /* arguments of ends and their strings */
	struct ends_chunk *next;
	size_t used, cap;
	_Alignas(8) char data[];
};

struct table { /* growable array, addressed by what the file calls an element */
	void *v;
	size_t n, cap;
	struct map64 *at; /* number in the file -> index */
};

struct recording {
	int fd;
	struct recording_state state;
	struct recording_meta meta;
	struct strpool *names;
	struct map64 *string_ids; /* id in the file -> id in names */

	struct table processes, threads, captures, losses, warnings; /* of their info structs */
	struct table anchors, blocks, ends;
	struct count_info counts;
	struct dropped_info dropped;
	bool ends_unsorted;
	struct ends_chunk *ends_memory;

	struct block_slot **slots, *free_slots;
	size_t n_slots;
	struct map64 *slot_of; /* owner -> index */
};

/* 0 for strings that the file did not define. */
uint32_t recording__name_id(const struct recording *r, uint64_t file_id);
void block_slot__free(struct block_slot *s);
/* One payload of ITEM_ENDS; -EBADMSG or -ENOMEM. */
int ends__decode(struct recording *r, struct cursor *c);
void *table__push(struct table *t, size_t size);

#endif
