// SPDX-License-Identifier: Apache-2.0
/*
 * The bodies of the BPF programs, run on this very process by bpf_prog_test_run_opts through their
 * raw_tp twins (the kernel refuses to test-run uprobe programs): what reaches the ring, what is
 * counted, what a target may not do to them.
 */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "include/wire.h"
#define CLIKA_ABI_ONLY
#include <clika/markers.h>

#include "clika.skel.h"

#define PAGE 4096

struct fixture {
	struct clika_bpf *skel;
	struct ring_buffer *rb;
	int ring;
	struct clika_buffer *buffer; /* data follows in the same mapping */
	size_t n;
	union {
		struct wire_hdr hdr;
		struct wire_batch batch;
		struct wire_hit_full hit;
		struct wire_call call;
		struct wire_process process;
		struct wire_register reg;
		uint8_t bytes[16384];
	} rec[16];
	size_t size[16];
	bool keep; /* count only */
};

static int on_record(void *ctx, void *data, size_t size)
{
	struct fixture *f = ctx;

	if (f->keep) {
		f->n++;
		return 0;
	}
	assert_true(f->n < 16);
	assert_true(size <= sizeof(f->rec[0]));
	memcpy(f->rec[f->n].bytes, data, size);
	f->size[f->n++] = size;
	return 0;
}

static struct fixture *open_with(size_t ring_bytes, bool target, bool system_wide)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint32_t zero = 0, pid = getpid();
	struct wire_target t = { .taken = 1 };
	struct wire_site site;

	assert_non_null(f);
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL & ~LIBBPF_STRICT_AUTO_RLIMIT_MEMLOCK);
	f->skel = clika_bpf__open();
	assert_non_null(f->skel);
	f->skel->rodata->cfg_rings = 1;
	f->skel->rodata->cfg_system = system_wide;
	assert_int_equal(clika_bpf__load(f->skel), 0);
	f->ring = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "test_ring", 0, 0, ring_bytes, NULL);
	assert_true(f->ring >= 0);
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(f->skel->maps.rings), &zero, &f->ring, 0),
			 0);
	f->rb = ring_buffer__new(f->ring, on_record, f, NULL);
	assert_non_null(f->rb);
	if (target) {
		/* start 0 would match nothing: learn it from the program that lists tasks. */
		struct bpf_link *l = bpf_program__attach_iter(f->skel->progs.tasks, NULL);
		struct wire_task_info info;
		int it;

		assert_non_null(l);
		it = bpf_iter_create(bpf_link__fd(l));
		while (read(it, &info, sizeof(info)) == (ssize_t)sizeof(info))
			if (info.task.tgid == pid && info.task.tid == pid)
				t.start = info.task.start;
		close(it);
		bpf_link__destroy(l);
		assert_true(t.start > 0);
		bpf_map_update_elem(bpf_map__fd(f->skel->maps.targets), &pid, &t, 0);
	}
	memset(&site, 0, sizeof(site));
	bpf_map_update_elem(bpf_map__fd(f->skel->maps.sites), &zero, &site, 0);
	f->buffer = mmap(NULL, PAGE + CLIKA_DATA_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(f->buffer != MAP_FAILED);
	f->buffer->magic = CLIKA_BUFFER_MAGIC;
	f->buffer->abi = CLIKA_ABI_VERSION;
	f->buffer->data_offset = PAGE;
	f->buffer->tid = gettid();
	f->buffer->born = 42;
	f->buffer->object = 0x1234;
	memset((uint8_t *)f->buffer + PAGE, 0x5a, CLIKA_DATA_BYTES);
	return f;
}

static void shut(struct fixture *f)
{
	munmap(f->buffer, PAGE + CLIKA_DATA_BYTES);
	ring_buffer__free(f->rb);
	close(f->ring);
	clika_bpf__destroy(f->skel);
	free(f);
}

static void run(struct bpf_program *prog, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	uint64_t args[4] = { a, b, c, d };
	LIBBPF_OPTS(bpf_test_run_opts, o, .ctx_in = args, .ctx_size_in = sizeof(args));

	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(prog), &o), 0);
	assert_int_equal(o.retval, 0);
}

static void flush(struct fixture *f, uint64_t from, uint64_t to, uint64_t records)
{
	f->buffer->flushed = from;
	f->buffer->head = to;
	f->buffer->count = f->buffer->flushed_count + records;
	run(f->skel->progs.twin_batch, (uintptr_t)f->buffer, from, to, 7);
	f->buffer->flushed_count = f->buffer->count;
}

static struct wire_stats counters(struct fixture *f)
{
	int cpus = libbpf_num_possible_cpus();
	struct wire_stats *per = calloc(cpus, sizeof(*per)), sum = { 0 };
	uint32_t zero = 0;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(f->skel->maps.stats), &zero, per), 0);
	for (int i = 0; i < cpus; i++)
		for (size_t w = 0; w < sizeof(sum) / 8; w++)
			((uint64_t *)&sum)[w] += ((uint64_t *)&per[i])[w];
	free(per);
	return sum;
}

/* The first record of a target is always what BPF tells of its process. */
static size_t collect(struct fixture *f)
{
	f->n = 0;
	ring_buffer__consume(f->rb);
	return f->n;
}

static void tells_of_the_process_before_its_first_record(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);

	(void)state;
	run(f->skel->progs.twin_call, 0x7000, 3, 0, 0);
	assert_int_equal(collect(f), 2);
	assert_int_equal(f->rec[0].hdr.kind, W_PROCESS);
	assert_int_equal(f->rec[0].process.task.tgid, getpid());
	assert_int_equal(f->rec[0].process.ptgid, getppid());
	assert_int_equal(f->rec[0].process.uid, getuid());
	assert_true(f->rec[0].process.args_len > 0);
	assert_int_equal(f->rec[1].hdr.kind, W_CALL);
	run(f->skel->progs.twin_call, 0x7000, 3, 0, 0);
	assert_int_equal(collect(f), 1);
	shut(f);
}

static void hands_over_a_batch_with_its_bytes_and_counts(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);
	uint8_t *data = (uint8_t *)f->buffer + PAGE;
	const struct wire_batch *b;

	(void)state;
	for (int i = 0; i < 240; i++)
		data[CLIKA_HALF_BYTES + 48 + i] = (uint8_t)i;
	flush(f, 3 * CLIKA_HALF_BYTES + 48, 3 * CLIKA_HALF_BYTES + 288, 10);
	assert_int_equal(collect(f), 2);
	b = &f->rec[1].batch;
	assert_int_equal(b->hdr.kind, W_BATCH);
	assert_int_equal(b->hdr.size, sizeof(*b) + 240);
	assert_int_equal(b->len, 240);
	assert_int_equal(b->records, 10);
	assert_int_equal(b->from, 3 * CLIKA_HALF_BYTES + 48);
	assert_int_equal(b->file, 7);
	assert_int_equal(b->born, 42);
	assert_int_equal(b->object, 0x1234);
	assert_int_equal(b->ns_tid, gettid());
	assert_int_equal(b->task.tid, gettid());
	for (int i = 0; i < 240; i++)
		assert_int_equal(((const uint8_t *)(b + 1))[i], i);
	assert_int_equal(counters(f).emitted, 10);
	assert_int_equal(counters(f).recorded, 10);
	shut(f);
}

static void hands_over_a_whole_half(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);

	(void)state;
	flush(f, 0, CLIKA_HALF_BYTES, 341);
	assert_int_equal(collect(f), 2);
	assert_int_equal(f->rec[1].batch.len, CLIKA_HALF_BYTES);
	shut(f);
}

static void counts_every_record_that_finds_no_ring_space(void **state)
{
	struct fixture *f = open_with(PAGE * 4, true, false);
	struct wire_loss_key key, next;
	struct wire_stats st;
	uint64_t lost = 0, n;
	bool first = true;

	(void)state;
	for (int i = 0; i < 20; i++)
		flush(f, (uint64_t)i * CLIKA_HALF_BYTES, (uint64_t)(i + 1) * CLIKA_HALF_BYTES,
		      100 + i);
	st = counters(f);
	assert_int_equal(st.emitted, 20 * 100 + 190);
	assert_true(st.recorded > 0);
	assert_true(st.lost[WL_RING_FULL] > 0);
	assert_int_equal(st.emitted, st.recorded + st.lost[WL_RING_FULL]);
	while (!bpf_map_get_next_key(bpf_map__fd(f->skel->maps.losses), first ? NULL : &key,
				     &next)) {
		first = false;
		key = next;
		assert_int_equal(key.tgid, getpid());
		assert_int_equal(key.probe, 0);
		assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(f->skel->maps.losses), &key, &n),
				 0);
		lost += n;
	}
	assert_int_equal(lost, st.lost[WL_RING_FULL]);
	assert_int_equal(st.unattributed, 0);
	shut(f);
}

static void counts_lost_single_hits_by_probe(void **state)
{
	struct fixture *f = open_with(PAGE, true, false);
	struct wire_loss_key key = { 0 };
	struct wire_stats st;
	uint64_t n = 0;

	(void)state;
	for (int i = 0; i < 100; i++)
		run(f->skel->progs.twin_call, 0x7000 - i, 5, 0, 0);
	st = counters(f);
	assert_int_equal(st.emitted, st.lost[WL_RING_FULL]);
	assert_true(st.lost[WL_RING_FULL] > 0);
	assert_int_equal(bpf_map_get_next_key(bpf_map__fd(f->skel->maps.losses), NULL, &key), 0);
	assert_int_equal(key.probe, 6);
	assert_int_equal(key.call, 1);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(f->skel->maps.losses), &key, &n), 0);
	assert_int_equal(n, st.lost[WL_RING_FULL]);
	f->keep = true;
	assert_int_equal(collect(f), 100 - n + 1); /* and what is told of the process */
	shut(f);
}

static void takes_nothing_from_a_process_that_is_no_target(void **state)
{
	struct fixture *f = open_with(1 << 16, false, false);

	(void)state;
	flush(f, 0, 240, 10);
	run(f->skel->progs.twin_call, 0x7000, 3, 0, 0);
	assert_int_equal(collect(f), 0);
	assert_int_equal(counters(f).emitted, 0);
	shut(f);
}

static void takes_nothing_from_another_process_under_a_reused_pid(void **state)
{
	struct fixture *f = open_with(1 << 16, false, false);
	struct wire_target t = { .start = 12345, .taken = 1 };
	uint32_t pid = getpid();

	(void)state;
	bpf_map_update_elem(bpf_map__fd(f->skel->maps.targets), &pid, &t, 0);
	flush(f, 0, 240, 10);
	assert_int_equal(collect(f), 0);
	shut(f);
}

static void takes_every_process_system_wide_but_the_loader(void **state)
{
	struct fixture *f = open_with(1 << 16, false, true);

	(void)state;
	f->skel->bss->loader_tgid = getpid();
	flush(f, 0, 240, 10);
	assert_int_equal(collect(f), 0);
	f->skel->bss->loader_tgid = 0;
	flush(f, 240, 480, 10);
	assert_int_equal(collect(f), 2);
	shut(f);
}

static void takes_nothing_once_stopped(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);

	(void)state;
	f->skel->bss->stopped = 1;
	flush(f, 0, 240, 10);
	assert_int_equal(collect(f), 0);
	assert_int_equal(counters(f).emitted, 0);
	shut(f);
}

static void refuses_lengths_that_no_half_can_hold(void **state)
{
	static const struct {
		uint64_t from, to;
	} bad[] = { { 0, CLIKA_HALF_BYTES + 8 },
		    { 100, 0 },
		    { 8, UINT64_MAX },
		    { CLIKA_HALF_BYTES - 8, CLIKA_HALF_BYTES + 8 } };
	struct fixture *f = open_with(1 << 16, true, false);
	struct wire_stats st;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		flush(f, bad[i].from, bad[i].to, 3);
	st = counters(f);
	assert_int_equal(st.emitted, 12);
	assert_int_equal(st.lost[WL_BAD_RECORD], 12);
	assert_int_equal(collect(f), 1); /* the process alone */
	shut(f);
}

static void clamps_counts_that_a_target_makes_up(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);

	(void)state;
	flush(f, 0, 240, UINT64_MAX / 2);
	assert_int_equal(collect(f), 2);
	assert_true(f->rec[1].batch.records <= CLIKA_HALF_BYTES / 8);
	shut(f);
}

static void counts_a_buffer_that_cannot_be_read(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);
	struct wire_stats st;

	(void)state;
	run(f->skel->progs.twin_batch, 0xdead0000, 0, 240, 7);
	st = counters(f);
	assert_int_equal(st.emitted, 1);
	assert_int_equal(st.lost[WL_BAD_RECORD], 1);
	shut(f);
}

static void remembers_a_buffer_that_registers(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);
	struct wire_buffer_key key = { .tid = gettid(), .slot = 0 };
	struct wire_buffer val;

	(void)state;
	run(f->skel->progs.twin_batch, (uintptr_t)f->buffer, 0, 0, 7);
	assert_int_equal(collect(f), 2);
	assert_int_equal(f->rec[1].hdr.kind, W_REGISTER);
	assert_int_equal(f->rec[1].reg.buffer, (uintptr_t)f->buffer);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(f->skel->maps.buffers), &key, &val), 0);
	assert_int_equal(val.addr, (uintptr_t)f->buffer);
	assert_int_equal(val.file, 7);
	shut(f);
}

static void set_site(struct fixture *f, const struct wire_site *s)
{
	uint32_t one = 1;

	assert_int_equal(bpf_map_update_elem(bpf_map__fd(f->skel->maps.sites), &one, s, 0), 0);
}

static void reads_every_kind_of_argument(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);
	struct pt_regs_words {
		uint64_t w[42];
	} regs = { { 0 } };
	int32_t mem[4] = { -5, 6, -7, 8 };
	struct wire_site s = {
		.kind = SITE_USDT,
		.n_specs = 6,
		.specs = {
			{ .kind = SPEC_CONST, .value = -9, .bytes = 8, .is_signed = 1 },
			{ .kind = SPEC_REG, .reg = 8, .bytes = 1 },
			{ .kind = SPEC_REG, .reg = 8, .bytes = 1, .is_signed = 1 },
			{ .kind = SPEC_MEM, .reg = 16, .value = 8, .bytes = 4, .is_signed = 1 },
			{ .kind = SPEC_SIB, .reg = 16, .index = 24, .scale = 4, .value = 4, .bytes = 4 },
			{ .kind = SPEC_REG, .reg = 8, .bytes = 8 },
		},
	};

	(void)state;
	set_site(f, &s);
	regs.w[1] = 0x11223344556677f0;
	regs.w[2] = (uintptr_t)mem;
	regs.w[3] = 2;
	run(f->skel->progs.twin_hit, 1, (uintptr_t)&regs, 0, 0);
	assert_int_equal(collect(f), 2);
	assert_int_equal(f->rec[1].hdr.kind, W_HIT);
	assert_int_equal(f->rec[1].hit.hit.n_vals, 6);
	assert_int_equal((int64_t)f->rec[1].hit.vals[0], -9);
	assert_int_equal(f->rec[1].hit.vals[1], 0xf0);
	assert_int_equal((int64_t)f->rec[1].hit.vals[2], -16);
	assert_int_equal((int64_t)f->rec[1].hit.vals[3], -7);
	assert_int_equal(f->rec[1].hit.vals[4], 8);
	assert_int_equal(f->rec[1].hit.vals[5], 0x11223344556677f0);
	shut(f);
}

static void reads_a_name_and_typed_arguments(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);
	struct wire_hit_arg args[3] = { { 1, 0, (uintptr_t) "rows", (uint64_t)-3 },
					{ 4, 0, (uintptr_t) "model", (uintptr_t) "tiny" },
					{ 3, 0, (uintptr_t) "loss", 0x3ff0000000000000 } };
	struct wire_site s = { .kind = SITE_MARKER,
			       .n_specs = 4,
			       .str_mask = 3,
			       .n_strs = 2,
			       .str_at = { 0, 1 },
			       .args_at = 3 };
	uint64_t regs[42] = { (uintptr_t) "prefill", (uintptr_t) "phase", 3, (uintptr_t)args };
	const struct wire_hit_full *h;

	(void)state;
	for (int i = 0; i < 4; i++)
		s.specs[i] = (struct wire_spec){ .kind = SPEC_REG, .reg = i * 8, .bytes = 8 };
	set_site(f, &s);
	run(f->skel->progs.twin_hit, 1, (uintptr_t)regs, 0, 0);
	assert_int_equal(collect(f), 2);
	h = &f->rec[1].hit;
	assert_int_equal(h->hit.n_args, 3);
	assert_string_equal(h->text[0], "prefill");
	assert_string_equal(h->text[1], "phase");
	assert_string_equal(h->text[2], "rows");
	assert_string_equal(h->text[3], "model");
	assert_string_equal(h->text[11], "tiny");
	assert_int_equal((int64_t)h->args[0].value, -3);
	assert_int_equal(h->hit.hdr.flags & WF_FAULT, 0);
	shut(f);
}

static void flags_text_that_cannot_be_read(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);
	struct wire_site s = { .kind = SITE_MARKER, .n_specs = 1, .str_mask = 1, .n_strs = 1 };
	uint64_t regs[42] = { 0xdead0000 };

	(void)state;
	s.specs[0] = (struct wire_spec){ .kind = SPEC_REG, .reg = 0, .bytes = 8 };
	set_site(f, &s);
	run(f->skel->progs.twin_hit, 1, (uintptr_t)regs, 0, 0);
	assert_int_equal(collect(f), 2);
	assert_int_equal(f->rec[1].hdr.flags & WF_FAULT, WF_FAULT);
	assert_string_equal(f->rec[1].hit.text[0], "");
	assert_int_equal(f->rec[1].hit.vals[0], 0xdead0000);
	shut(f);
}

static void survives_a_million_made_up_arguments(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);
	struct wire_site s = { .kind = SITE_MARKER, .n_specs = 2, .args_at = 1 };
	uint64_t regs[42] = { 1000000, 0xdead0000 };

	(void)state;
	for (int i = 0; i < 2; i++)
		s.specs[i] = (struct wire_spec){ .kind = SPEC_REG, .reg = i * 8, .bytes = 8 };
	set_site(f, &s);
	run(f->skel->progs.twin_hit, 1, (uintptr_t)regs, 0, 0);
	assert_int_equal(collect(f), 2);
	assert_int_equal(f->rec[1].hit.hit.n_args, 0);
	assert_int_equal(f->rec[1].hdr.flags & WF_FAULT, WF_FAULT);
	shut(f);
}

/* Words of struct pt_regs that hold the argument registers. */
#ifdef __x86_64__
static const int arg_words[] = { 14, 13, 12, 11, 9, 8 };
#else
static const int arg_words[] = { 0, 1, 2, 3, 4, 5 };
#endif

static const struct wire_hit *hit_by_registers(struct fixture *f, struct wire_site *s,
					       const uint64_t arg[6])
{
	uint64_t regs[42] = { 0 };

	s->in_regs = 1;
	for (int i = 0; i < 6; i++) {
		regs[arg_words[i]] = arg[i];
		s->specs[i] =
			(struct wire_spec){ .kind = SPEC_REG, .reg = arg_words[i] * 8, .bytes = 8 };
	}
	set_site(f, s);
	f->n = 0;
	run(f->skel->progs.twin_hit, 1, (uintptr_t)regs, 0, 0);
	collect(f);
	assert_true(f->n > 0);
	assert_int_equal(f->rec[f->n - 1].hdr.size, f->size[f->n - 1]);
	return &f->rec[f->n - 1].hit.hit;
}

static const char *brief_text(const struct wire_hit *h, unsigned i)
{
	return (const char *)(h + 1) + h->room * 8 + i * WIRE_BRIEF;
}

static void keeps_short_texts_in_brief_records(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);
	struct wire_site s = {
		.kind = SITE_MARKER, .n_specs = 2, .str_mask = 3, .n_strs = 2, .str_at = { 0, 1 }
	};
	char longest[WIRE_BRIEF], longer[WIRE_BRIEF + 1];
	const struct wire_hit_full *full;
	const struct wire_hit *h;

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 2] = 0;
	memset(longer, 'y', sizeof(longer));
	longer[sizeof(longer) - 2] = 0;
	h = hit_by_registers(f, &s, (uint64_t[6]){ (uintptr_t) "linear", 0 });
	assert_int_equal(h->n_texts, 1);
	assert_int_equal(h->hdr.size, sizeof(*h) + 2 * 8 + WIRE_BRIEF);
	assert_string_equal(brief_text(h, 0), "linear");
	assert_int_equal(((const uint64_t *)(h + 1))[1], 0);
	h = hit_by_registers(f, &s, (uint64_t[6]){ (uintptr_t)longest, (uintptr_t) "phase" });
	assert_int_equal(h->n_texts, 2);
	assert_int_equal(h->n_vals, 2);
	assert_string_equal(brief_text(h, 0), longest);
	assert_string_equal(brief_text(h, 1), "phase");
	full = (const struct wire_hit_full *)(const void *)hit_by_registers(
		f, &s, (uint64_t[6]){ (uintptr_t)longer, (uintptr_t) "phase" });
	assert_int_equal(full->hit.room, WIRE_MAX_ARGS);
	assert_string_equal(full->text[0], longer);
	assert_string_equal(full->text[1], "phase");
	/* Nobody can read the name; the marker did happen. */
	full = (const struct wire_hit_full *)(const void *)hit_by_registers(
		f, &s, (uint64_t[6]){ 0xdead0000, 0 });
	assert_int_equal(full->hit.hdr.flags & WF_FAULT, WF_FAULT);
	assert_int_equal(full->vals[0], 0xdead0000);
	/* The string is the last of four. */
	s = (struct wire_site){
		.kind = SITE_MARKER, .n_specs = 4, .str_mask = 8, .n_strs = 1, .str_at = { 3 }
	};
	h = hit_by_registers(f, &s, (uint64_t[6]){ 1, 0x1000, 64, (uintptr_t) "arena" });
	assert_int_equal(h->room, 4);
	assert_int_equal(((const uint64_t *)(h + 1))[2], 64);
	assert_string_equal(brief_text(h, 0), "arena");
	shut(f);
}

static void takes_time_and_literal_from_the_marker(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);
	struct wire_site s = { .kind = SITE_MARKER,
			       .n_specs = 2,
			       .str_mask = 3,
			       .n_strs = 2,
			       .str_at = { 0, 1 },
			       .time_at = 3,
			       .literal_at = 4 };
	const struct wire_hit *h;

	(void)state;
	h = hit_by_registers(f, &s, (uint64_t[6]){ 0xdead0000, 0, 1234567, (uint64_t)-96 });
	assert_int_equal(h->hdr.ts, 1234567);
	assert_int_equal((int32_t)h->task.aux, -96);
	assert_int_equal(h->hdr.size, sizeof(*h));
	assert_int_equal(h->n_texts + h->n_vals, 0);
	/* Made at run time, and without a time: both have to be asked for. */
	h = hit_by_registers(f, &s, (uint64_t[6]){ (uintptr_t) "gelu", 0, 0, 0 });
	assert_true(h->hdr.ts > 1234567);
	assert_int_equal(h->task.aux, 0);
	assert_string_equal(brief_text(h, 0), "gelu");
	/* No displacement at all. */
	h = hit_by_registers(f, &s, (uint64_t[6]){ (uintptr_t) "gelu", 0, 0, 1ull << 40 });
	assert_int_equal(h->task.aux, 0);
	/* A counter's value is kept beside the literal; the end of a span has nothing but its time. */
	s = (struct wire_site){ .kind = SITE_MARKER,
				.n_specs = 2,
				.str_mask = 1,
				.n_strs = 1,
				.time_at = 3,
				.literal_at = 4 };
	h = hit_by_registers(f, &s, (uint64_t[6]){ (uintptr_t) "depth", 7, 99, 8 });
	assert_int_equal(h->task.aux, 8);
	assert_int_equal(((const uint64_t *)(h + 1))[1], 7);
	assert_int_equal(h->n_texts, 0);
	s = (struct wire_site){ .kind = SITE_MARKER, .time_at = 1 };
	h = hit_by_registers(f, &s, (uint64_t[6]){ 77 });
	assert_int_equal(h->hdr.ts, 77);
	assert_int_equal(h->hdr.size, sizeof(*h));
	shut(f);
}

static void tells_calls_from_returns(void **state)
{
	struct fixture *f = open_with(1 << 16, true, false);

	(void)state;
	run(f->skel->progs.twin_call, 0x7ff0, 3, 0, 0);
	run(f->skel->progs.twin_call, 0x7ff0, 3 | COOKIE_RETURN | COOKIE_TAIL, 0, 0);
	assert_int_equal(collect(f), 3);
	assert_int_equal(f->rec[1].hdr.kind, W_CALL);
	assert_int_equal(f->rec[2].hdr.kind, W_RETURN);
	assert_int_equal(f->rec[2].hdr.flags, WF_TAIL);
	assert_int_equal(f->rec[1].call.sp, f->rec[2].call.sp);
	assert_int_equal(f->rec[2].call.task.aux, 3);
	assert_true(f->rec[2].hdr.ts >= f->rec[1].hdr.ts);
	shut(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_of_the_process_before_its_first_record),
		cmocka_unit_test(hands_over_a_batch_with_its_bytes_and_counts),
		cmocka_unit_test(hands_over_a_whole_half),
		cmocka_unit_test(counts_every_record_that_finds_no_ring_space),
		cmocka_unit_test(counts_lost_single_hits_by_probe),
		cmocka_unit_test(takes_nothing_from_a_process_that_is_no_target),
		cmocka_unit_test(takes_nothing_from_another_process_under_a_reused_pid),
		cmocka_unit_test(takes_every_process_system_wide_but_the_loader),
		cmocka_unit_test(takes_nothing_once_stopped),
		cmocka_unit_test(refuses_lengths_that_no_half_can_hold),
		cmocka_unit_test(clamps_counts_that_a_target_makes_up),
		cmocka_unit_test(counts_a_buffer_that_cannot_be_read),
		cmocka_unit_test(remembers_a_buffer_that_registers),
		cmocka_unit_test(reads_every_kind_of_argument),
		cmocka_unit_test(reads_a_name_and_typed_arguments),
		cmocka_unit_test(flags_text_that_cannot_be_read),
		cmocka_unit_test(survives_a_million_made_up_arguments),
		cmocka_unit_test(keeps_short_texts_in_brief_records),
		cmocka_unit_test(takes_time_and_literal_from_the_marker),
		cmocka_unit_test(tells_calls_from_returns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
