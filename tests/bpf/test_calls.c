// SPDX-License-Identifier: Apache-2.0
/* What calls bring along, by the twin of the program on function probes: numbers, texts, arrays,
 * results behind pointers, what is kept and what is dropped before ring space is taken. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "include/wire.h"

#include "clika.skel.h"

#define FUNC 3u
#define SP 0x7000u

struct fixture {
	struct clika_bpf *skel;
	struct ring_buffer *rb;
	int ring;
	size_t n;
	union {
		struct wire_hdr hdr;
		struct wire_call call;
		struct {
			struct wire_call_data d;
			char text[WIRE_FETCH_TEXTS][WIRE_FETCH_BYTES];
		} data;
		uint8_t bytes[4096];
	} rec[16];
};

static int on_record(void *ctx, void *data, size_t size)
{
	struct fixture *f = ctx;
	const struct wire_hdr *h = data;

	if (h->kind == W_PROCESS)
		return 0;
	assert_true(f->n < 16 && size <= sizeof(f->rec[0]));
	memcpy(f->rec[f->n++].bytes, data, size);
	return 0;
}

static int open_fixture(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint32_t zero = 0;

	libbpf_set_strict_mode(LIBBPF_STRICT_ALL & ~LIBBPF_STRICT_AUTO_RLIMIT_MEMLOCK);
	f->skel = clika_bpf__open();
	assert_non_null(f->skel);
	f->skel->rodata->cfg_rings = 1;
	f->skel->rodata->cfg_system = 1;
	assert_int_equal(clika_bpf__load(f->skel), 0);
	f->ring = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "test_ring", 0, 0, 1 << 16, NULL);
	assert_true(f->ring >= 0);
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(f->skel->maps.rings), &zero, &f->ring, 0),
			 0);
	f->rb = ring_buffer__new(f->ring, on_record, f, NULL);
	assert_non_null(f->rb);
	*state = f;
	return 0;
}

static int shut(void **state)
{
	struct fixture *f = *state;

	ring_buffer__free(f->rb);
	close(f->ring);
	clika_bpf__destroy(f->skel);
	free(f);
	return 0;
}

static void put(struct fixture *f, uint32_t number, const struct wire_fetch_set *s)
{
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(f->skel->maps.fetches), &number, s, 0), 0);
}

static void hit(struct fixture *f, uint64_t sp, uint64_t cookie, const uint64_t words[7])
{
	uint64_t args[4] = { sp, cookie, (uintptr_t)words, 0 };
	LIBBPF_OPTS(bpf_test_run_opts, o, .ctx_in = args, .ctx_size_in = sizeof(args));

	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(f->skel->progs.twin_call), &o), 0);
	assert_int_equal(o.retval, 0);
}

static size_t collect(struct fixture *f)
{
	f->n = 0;
	memset(f->rec, 0xee, sizeof(f->rec));
	ring_buffer__consume(f->rb);
	return f->n;
}

static uint64_t with_set(uint64_t number)
{
	return FUNC | number << COOKIE_FETCH_AT;
}

static void reads_numbers_of_every_width(void **state)
{
	struct fixture *f = *state;
	struct {
		int8_t i8;
		uint16_t u16;
		int32_t i32;
		uint64_t u64;
	} mem = { -5, 60000, -70000, 1ull << 40 };
	uint64_t words[7] = { (uintptr_t)&mem, (uint64_t)-2, 0xffffffff80000001ull };
	struct wire_fetch_set s = {
		.n = 6,
		.f = {
			{ .base = 0, .kind = FETCH_VALUE, .n_steps = 1, .bytes = 1, .is_signed = 1 },
			{ .base = 0, .kind = FETCH_VALUE, .n_steps = 1, .bytes = 2, .steps = { 2 } },
			{ .base = 0, .kind = FETCH_VALUE, .n_steps = 1, .bytes = 4, .is_signed = 1,
			  .steps = { 4 } },
			{ .base = 0, .kind = FETCH_VALUE, .n_steps = 1, .bytes = 8, .steps = { 8 } },
			{ .base = 1, .kind = FETCH_VALUE, .bytes = 8, .is_signed = 1 },
			{ .base = 2, .kind = FETCH_VALUE, .bytes = 4 },
		},
	};

	put(f, 1, &s);
	hit(f, SP, with_set(1), words);
	assert_int_equal(collect(f), 1);
	assert_int_equal(f->rec[0].hdr.kind, W_CALL_DATA);
	assert_int_equal(f->rec[0].call.task.aux, FUNC);
	assert_int_equal(f->rec[0].call.sp, SP);
	assert_int_equal(f->rec[0].data.d.n, 6);
	assert_int_equal(f->rec[0].data.d.faults, 0);
	assert_int_equal((int64_t)f->rec[0].data.d.vals[0], -5);
	assert_int_equal(f->rec[0].data.d.vals[1], 60000);
	assert_int_equal((int64_t)f->rec[0].data.d.vals[2], -70000);
	assert_int_equal(f->rec[0].data.d.vals[3], 1ull << 40);
	assert_int_equal((int64_t)f->rec[0].data.d.vals[4], -2);
	assert_int_equal(f->rec[0].data.d.vals[5], 0x80000001u);
	/* Nothing of the ring's old bytes is left in what carries no value. */
	assert_int_equal(f->rec[0].data.d.vals[6], 0);
	assert_int_equal(f->rec[0].data.d.vals[7], 0);
}

static void shifts_and_multiplies(void **state)
{
	struct fixture *f = *state;
	uint64_t words[7] = { 0x0201, 12, 7 };
	struct wire_fetch_set s = {
		.n = 2,
		.f = {
			{ .base = 0, .kind = FETCH_VALUE, .bytes = 1, .shift = 8 },
			{ .base = 1, .kind = FETCH_VALUE, .bytes = 8, .times = 3 },
		},
	};

	put(f, 1, &s);
	hit(f, SP, with_set(1), words);
	assert_int_equal(collect(f), 1);
	assert_int_equal(f->rec[0].data.d.vals[0], 2);
	assert_int_equal(f->rec[0].data.d.vals[1], 84);
}

static void follows_pointers_to_texts_and_arrays(void **state)
{
	struct fixture *f = *state;
	struct {
		uint64_t size;
		const char *name;
		char in_place[16];
		int64_t shape[3];
		const char *words[2];
	} obj = { 3, "conv1", "inside", { 2, 3, 4 }, { "zero", "one" } };
	struct {
		const char *p;
		uint64_t n;
	} string = { "a std::string of which only a part is meant", 13 };
	const void *handle = &obj;
	uint64_t words[7] = { (uintptr_t)&handle, (uintptr_t)&string };
	struct wire_fetch_set s = {
		.n = 4,
		.texts = 4,
		.f = {
			{ .base = 0, .kind = FETCH_TEXT, .n_steps = 3, .bytes = 64,
			  .steps = { 0, (int)offsetof(typeof(obj), name), 0 } },
			{ .base = 0, .kind = FETCH_TEXT, .n_steps = 2, .bytes = 16, .slot = 1,
			  .steps = { 0, (int)offsetof(typeof(obj), in_place) } },
			{ .base = 0, .kind = FETCH_BYTES, .n_steps = 2, .bytes = 24, .slot = 2,
			  .steps = { 0, (int)offsetof(typeof(obj), shape) } },
			{ .base = 1, .kind = FETCH_STRING, .bytes = 64, .slot = 3 },
		},
	};

	put(f, 1, &s);
	hit(f, SP, with_set(1), words);
	assert_int_equal(collect(f), 1);
	assert_int_equal(f->rec[0].data.d.texts, 4);
	assert_int_equal(f->rec[0].data.d.faults, 0);
	assert_string_equal(f->rec[0].data.text[0], "conv1");
	assert_int_equal(f->rec[0].data.d.vals[0], 5);
	assert_string_equal(f->rec[0].data.text[1], "inside");
	assert_int_equal(f->rec[0].data.d.vals[2], 24);
	assert_memory_equal(f->rec[0].data.text[2], obj.shape, 24);
	assert_int_equal(f->rec[0].data.d.vals[3], 13);
	assert_memory_equal(f->rec[0].data.text[3], "a std::string", 13);
}

static void flags_what_cannot_be_read(void **state)
{
	struct fixture *f = *state;
	uint64_t words[7] = { 8, 5 };
	struct wire_fetch_set s = {
		.n = 3,
		.texts = 1,
		.f = {
			{ .base = 0, .kind = FETCH_VALUE, .n_steps = 2, .bytes = 8 },
			{ .base = 1, .kind = FETCH_VALUE, .bytes = 8 },
			{ .base = 0, .kind = FETCH_TEXT, .bytes = 64 },
		},
	};

	put(f, 1, &s);
	hit(f, SP, with_set(1), words);
	assert_int_equal(collect(f), 1);
	assert_int_equal(f->rec[0].data.d.faults, 5);
	assert_int_equal(f->rec[0].data.d.vals[1], 5);
	assert_int_equal(f->rec[0].data.text[0][0], 0);
}

static void reads_a_result_through_a_pointer_that_the_entry_had(void **state)
{
	struct fixture *f = *state;
	uint64_t result = 0, words[7] = { (uintptr_t)&result, 4096 }, later[7] = { 0 };
	struct wire_fetch_set entry = {
		.n = 1,
		.save = 1,
		.frame = 1,
		.f = { { .base = 1, .kind = FETCH_VALUE, .bytes = 8 } },
	};
	struct wire_fetch_set ret = {
		.n = 2,
		.save = 1,
		.f = { { .base = 0, .kind = FETCH_VALUE, .n_steps = 1, .bytes = 8 },
		       { .base = FETCH_BASE_RETURN,
			 .kind = FETCH_VALUE,
			 .bytes = 4,
			 .is_signed = 1 } },
	};

	put(f, 1, &entry);
	put(f, 2, &ret);
	hit(f, SP, with_set(1), words);
	result = 0xabcdef;
	later[6] = (uint64_t)-1;
	hit(f, SP, with_set(2) | COOKIE_RETURN, later);
	/* One that was not seen to begin has no pointer. */
	hit(f, SP, with_set(2) | COOKIE_RETURN, later);
	assert_int_equal(collect(f), 3);
	assert_int_equal(f->rec[1].hdr.kind, W_RETURN_DATA);
	assert_int_equal(f->rec[1].data.d.vals[0], 0xabcdef);
	assert_int_equal((int64_t)f->rec[1].data.d.vals[1], -1);
	assert_int_equal(f->rec[1].data.d.faults, 0);
	assert_int_equal(f->rec[2].data.d.faults, 1);
	/* At a jump into another function the result is not there yet. */
	hit(f, SP, with_set(2) | COOKIE_RETURN | COOKIE_TAIL, later);
	assert_int_equal(collect(f), 1);
	assert_int_equal(f->rec[0].hdr.kind, W_RETURN);
}

static void keeps_large_blocks_and_their_ends(void **state)
{
	struct fixture *f = *state;
	struct wire_fetch_set alloc = {
		.n = 1,
		.keep = KEEP_AT_LEAST,
		.least = 4096,
		.frame = 1,
		.f = { { .base = 0, .kind = FETCH_VALUE, .bytes = 8 } },
	};
	struct wire_fetch_set alloced = {
		.n = 1,
		.keep = KEEP_FRAME,
		.remember = 1,
		.f = { { .base = FETCH_BASE_RETURN, .kind = FETCH_VALUE, .bytes = 8 } },
	};
	struct wire_fetch_set freed = {
		.n = 1,
		.keep = KEEP_KNOWN,
		.f = { { .base = 0, .kind = FETCH_VALUE, .bytes = 8 } },
	};
	uint64_t w[7] = { 4095 };

	put(f, 1, &alloc);
	put(f, 2, &alloced);
	put(f, 3, &freed);
	hit(f, SP, with_set(1), w);
	w[6] = 0x1000;
	hit(f, SP, with_set(2) | COOKIE_RETURN, w);
	assert_int_equal(collect(f), 0);
	w[0] = 4096;
	hit(f, SP, with_set(1), w);
	w[6] = 0x2000;
	hit(f, SP, with_set(2) | COOKIE_RETURN, w);
	assert_int_equal(collect(f), 2);
	assert_int_equal(f->rec[1].data.d.vals[0], 0x2000);
	/* Only the block that was told is told again when it goes, and once. */
	w[0] = 0x1000;
	hit(f, SP, with_set(3), w);
	w[0] = 0x2000;
	hit(f, SP, with_set(3), w);
	hit(f, SP, with_set(3), w);
	assert_int_equal(collect(f), 1);
	assert_int_equal(f->rec[0].data.d.vals[0], 0x2000);
	/* A failed allocation is not remembered. */
	w[0] = 8192;
	hit(f, SP, with_set(1), w);
	w[6] = 0;
	hit(f, SP, with_set(2) | COOKIE_RETURN, w);
	w[0] = 0;
	hit(f, SP, with_set(3), w);
	assert_int_equal(collect(f), 2);
}

static void hits_of_an_old_link_do_not_count(void **state)
{
	struct fixture *f = *state;
	uint64_t at = FUNC | 5ull << COOKIE_SWITCH_AT;

	hit(f, SP, at, NULL);
	hit(f, SP, at | COOKIE_PARITY, NULL);
	assert_int_equal(collect(f), 1);
	f->skel->bss->switches[5] = SWITCH_PARITY;
	hit(f, SP, at, NULL);
	hit(f, SP, at | COOKIE_PARITY, NULL);
	/* Another switch's links go on. */
	hit(f, SP, FUNC | 6ull << COOKIE_SWITCH_AT, NULL);
	hit(f, SP, FUNC, NULL);
	assert_int_equal(collect(f), 3);
}

static void hits_of_both_links_count_while_one_takes_the_others_place(void **state)
{
	struct fixture *f = *state;
	uint64_t at = FUNC | 5ull << COOKIE_SWITCH_AT;

	f->skel->bss->switches[5] = SWITCH_BOTH | SWITCH_PARITY;
	hit(f, SP, at, NULL);
	hit(f, SP, at | COOKIE_PARITY, NULL);
	assert_int_equal(collect(f), 2);
	assert_int_equal(f->rec[0].hdr.flags, WF_AGAIN);
	assert_int_equal(f->rec[1].hdr.flags, WF_PARITY);
	f->skel->bss->switches[5] = SWITCH_BOTH;
	hit(f, SP, at, NULL);
	hit(f, SP, at | COOKIE_PARITY, NULL);
	assert_int_equal(collect(f), 2);
	assert_int_equal(f->rec[0].hdr.flags, 0);
	assert_int_equal(f->rec[1].hdr.flags, WF_AGAIN | WF_PARITY);
}

#ifdef __x86_64__
/* The processor itself says which of its jumps it takes: bit i of what comes back is condition i. */
static uint16_t conditions_met(uint64_t flags)
{
	uint8_t met[16];
	uint16_t all = 0;

#define SET(i, name) "set" name " " #i "(%1)\n\t"
	__asm__ volatile(
		"lea -128(%%rsp), %%rsp\n\tpush %0\n\tpopf\n\tlea 128(%%rsp), %%rsp\n\t" SET(0, "o")
			SET(1, "no") SET(2, "b") SET(3, "ae") SET(4, "e") SET(5, "ne") SET(6, "be")
				SET(7, "a") SET(8, "s") SET(9, "ns") SET(10, "p") SET(11, "np")
					SET(12, "l") SET(13, "ge") SET(14, "le") SET(15, "g")
		:
		: "r"(flags), "r"(met)
		: "cc", "memory");
#undef SET
	for (int i = 0; i < 16; i++)
		all |= (uint16_t)(met[i] << i);
	return all;
}

static void early_exits_count_when_their_jump_is_taken(void **state)
{
	static const uint8_t bits[] = { 0, 2, 6, 7, 11 }; /* carry, parity, zero, sign, overflow */
	struct fixture *f = *state;
	uint64_t early = FUNC | COOKIE_RETURN | COOKIE_EARLY | 3ull << COOKIE_WORDS_AT;

	for (unsigned which = 0; which < 32; which++) {
		uint64_t words[7] = { 0 };
		uint16_t met, seen = 0;

		for (unsigned i = 0; i < sizeof(bits); i++)
			words[6] |= (uint64_t)(which >> i & 1) << bits[i];
		met = conditions_met(words[6] | 2);
		for (uint64_t i = 0; i < 16; i++) {
			hit(f, SP - 24, early | i << COOKIE_CONDITION_AT, words);
			seen |= (uint16_t)(collect(f) << i);
		}
		assert_int_equal(seen, met);
	}
}

static void early_exits_tell_where_the_entrys_stack_pointer_was(void **state)
{
	struct fixture *f = *state;
	const uint64_t sp = 1ull << 40;
	uint64_t words[7] = { 0, 0, 0, 0, 0, sp - 16, 0 };
	uint64_t early = FUNC | COOKIE_RETURN | COOKIE_EARLY | COOKIE_ALWAYS;

	hit(f, sp - 24, early | 3ull << COOKIE_WORDS_AT, words);
	hit(f, sp - 24, early | COOKIE_FROM_FP | 2ull << COOKIE_WORDS_AT, words);
	hit(f, sp - 0x7fff * 8, early | 0x7fffull << COOKIE_WORDS_AT, words);
	assert_int_equal(collect(f), 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(f->rec[i].hdr.kind, W_RETURN);
		assert_int_equal(f->rec[i].call.sp, sp);
		assert_int_equal(f->rec[i].call.task.aux, FUNC);
		assert_int_equal(f->rec[i].hdr.flags, 0);
	}
}
#endif

/* A call that an exception left has no end: what returns from there later was not kept itself. */
static void frames_that_nobody_took_are_no_later_calls(void **state)
{
	struct fixture *f = *state;
	uint64_t words[7] = { 1 << 20 };
	struct wire_fetch_set entry = { .n = 1,
					.keep = KEEP_AT_LEAST,
					.frame = 1,
					.least = 1 << 16,
					.f = { { .base = 0, .kind = FETCH_VALUE, .bytes = 8 } } };
	struct wire_fetch_set ret = { .keep = KEEP_FRAME };
	uint64_t other = (with_set(2) + 1) | COOKIE_RETURN;

	put(f, 1, &entry);
	put(f, 2, &ret);
	hit(f, SP, with_set(1), words);
	assert_int_equal(collect(f), 1);
	/* Another function from the same place. */
	hit(f, SP, other, words);
	assert_int_equal(collect(f), 0);
	words[0] = 5;
	hit(f, SP, with_set(1), words);
	hit(f, SP, with_set(2) | COOKIE_RETURN, words);
	assert_int_equal(collect(f), 0);
}

/* Whatever a description says, a program that the verifier took stays inside its record. */
static void survives_made_up_descriptions(void **state)
{
	struct fixture *f = *state;
	uint64_t words[7];
	unsigned seed = 1;

	for (int i = 0; i < 20000; i++) {
		struct wire_fetch_set s;
		uint8_t *p = (uint8_t *)&s;

		for (size_t k = 0; k < sizeof(s); k++)
			p[k] = (uint8_t)rand_r(&seed);
		for (int k = 0; k < WIRE_FETCHES; k++)
			s.f[k].kind = 1 + rand_r(&seed) % 4;
		for (int k = 0; k < 7; k++)
			words[k] = (uintptr_t)&s + rand_r(&seed) % 64;
		put(f, 1, &s);
		hit(f, SP, with_set(1) | (i & 1 ? COOKIE_RETURN : 0), words);
		while (ring_buffer__consume(f->rb) > 0)
			f->n = 0;
		f->n = 0;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, open_fixture, shut)
		TEST(reads_numbers_of_every_width),
		TEST(shifts_and_multiplies),
		TEST(follows_pointers_to_texts_and_arrays),
		TEST(flags_what_cannot_be_read),
		TEST(reads_a_result_through_a_pointer_that_the_entry_had),
		TEST(keeps_large_blocks_and_their_ends),
		TEST(hits_of_an_old_link_do_not_count),
		TEST(hits_of_both_links_count_while_one_takes_the_others_place),
#ifdef __x86_64__
		TEST(early_exits_count_when_their_jump_is_taken),
		TEST(early_exits_tell_where_the_entrys_stack_pointer_was),
#endif
		TEST(frames_that_nobody_took_are_no_later_calls),
		TEST(survives_made_up_descriptions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
