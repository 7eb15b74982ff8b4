// SPDX-License-Identifier: Apache-2.0
/* Any bytes as a recording, as they are and with their checksums put right. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/common/recording_reseal.h"
#include "user/recording/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t use_bytes(const char *p, size_t n)
{
	return hash__bytes(p, n, 0); /* touches all of them */
}

static uint64_t use_text(const char *s)
{
	return s ? use_bytes(s, strlen(s)) : 0;
}

static uint64_t use_args(const struct recording *r, const struct event_arg *args, unsigned n)
{
	uint64_t sum = 0;
	unsigned i;

	if (n > EVENT_MAX_ARGS)
		abort();
	for (i = 0; i < n; i++) {
		sum += use_text(strpool__str(recording__names(r), args[i].key));
		sum += args[i].type == ARG_STR ? use_bytes(args[i].str, args[i].len) : args[i].u;
	}
	return sum;
}

static uint64_t read_block(const struct recording *r, size_t i)
{
	const struct recording_block *b = recording__block(r, i);
	uint64_t sum = 0, before = b->first_ts;
	struct block_reader br;
	struct event ev;
	uint32_t n = 0;

	if (b->thread >= recording__n_threads(r) || b->last_ts < b->first_ts ||
	    b->last_end < b->last_ts)
		abort();
	if (block_reader__init(&br, r, i))
		return 0;
	while (block_reader__next(&br, &ev) == 1) {
		const struct span_end *end;

		if (ev.ts < before || ev.ts > b->last_ts || ev.dur > b->last_end - ev.ts ||
		    !ev.kind || ev.kind >= EV_KIND_COUNT || ++n > b->count)
			abort();
		before = ev.ts;
		sum += use_text(strpool__str(recording__names(r), ev.name)) +
		       use_args(r, ev.args, ev.nargs);
		end = recording__span_end(r, ev.id);
		if (end)
			sum += use_args(r, end->args, end->nargs);
	}
	return sum;
}

static uint64_t read_all(const struct recording *r)
{
	uint64_t sum = use_text(recording__meta(r)->tool) + use_text(recording__meta(r)->targets);
	size_t i;

	for (i = 0; i < recording__n_processes(r); i++)
		sum += use_text(recording__process(r, i)->comm) +
		       use_text(recording__process(r, i)->label);
	for (i = 0; i < recording__n_threads(r); i++) {
		if (recording__thread(r, i)->process >= recording__n_processes(r))
			abort();
		sum += use_text(recording__thread(r, i)->name);
	}
	for (i = 0; i < recording__n_captures(r); i++)
		sum += use_text(recording__capture(r, i)->tag);
	for (i = 0; i < recording__n_losses(r); i++)
		sum += use_text(recording__loss(r, i)->probe);
	for (i = 0; i < recording__n_warnings(r); i++)
		sum += use_text(recording__warning(r, i)->code) +
		       use_text(recording__warning(r, i)->text);
	for (i = 0; i < recording__n_anchors(r); i++)
		sum += recording__anchor(r, i)->realtime;
	for (i = 0; i < recording__n_blocks(r); i++)
		sum += read_block(r, i);
	return sum;
}

static void try_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct recording *r;

	if (fd < 0 || fd__write_all(fd, data, size))
		abort();
	if (!recording__open_fd(fd, &r, NULL)) {
		if (read_all(r) == 0x5eed5eed5eed5eedull) /* so that nothing is left out */
			abort();
		recording__close(r);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	try_file(data, size);
	if (size >= FMT_MAGIC_BYTES)
		memcpy(copy, FMT_FILE_MAGIC, FMT_MAGIC_BYTES);
	recording__reseal(copy, size);
	try_file(copy, size);
	free(copy);
	return 0;
}
