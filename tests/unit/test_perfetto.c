// SPDX-License-Identifier: Apache-2.0
/*
 * Perfetto traces as a reader of the format sees them.
 *
 * For the tests that ask a real importer:
 * `test_perfetto --write DIR N` writes N random recordings and what an importer must find in each
 * (DIR/I.clika, DIR/I.expected); `test_perfetto --expect FILE [TAG]` prints that of a recording,
 * or of its captures with that tag; `test_perfetto --deep FILE` writes one with 600 spans in one
 * another.
 */
#include "export/exporter.h"
#include "tests/common/perfetto_text.h"
#include "tests/common/random_session.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/perfetto_subset.pb-c.h"

#define ROUNDS 200

struct world {
	struct rec *b;
	uint32_t server, main, worker;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->b = rec__new();
	w->server = rec__process(w->b, 100, "server");
	w->main = rec__thread(w->b, w->server, 100, "main");
	w->worker = rec__thread(w->b, w->server, 101, "worker");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	rec__free(w->b);
	free(w);
	return 0;
}

static struct session *open_session(struct rec *b)
{
	struct session_opts all = { .outside_captures = true };
	struct session *s;

	assert_int_equal(session__new(rec__open(b), &all, &s, NULL), 0);
	return s;
}

static struct buf export_session(struct session *s, bool packed)
{
	struct export_job job = { .ops = exporter__find("perfetto") };
	struct export_opts o;
	struct buf b = { 0 };

	export_opts__init(&o);
	o.compress_packets = packed;
	assert_non_null(job.ops);
	assert_int_equal(outfile__memory(&b, &job.out), 0);
	assert_int_equal(exporter__run(s, &job, 1, &o, NULL), 0);
	return b;
}

static struct buf export_recording(struct rec *b)
{
	struct session *s = open_session(b);
	struct buf data = export_session(s, false);

	session__free(s);
	return data;
}

static void assert_same_text(const char *seen, const char *expected)
{
	const char *a = seen, *b = expected;
	size_t i, line = 0;

	if (!strcmp(seen, expected))
		return;
	for (i = 0; seen[i] && seen[i] == expected[i]; i++)
		if (seen[i] == '\n')
			line = i + 1;
	a += line;
	b += line;
	fail_msg("the trace shows\n%.*s\nwhere it should show\n%.*s", (int)strcspn(a, "\n"), a,
		 (int)strcspn(b, "\n"), b);
}

static void assert_shows(struct rec *b, const char *expected)
{
	struct buf data = export_recording(b);
	char *seen = perfetto__seen(data.data, data.len);

	assert_same_text(seen, expected);
	free(seen);
	buf__free(&data);
}

/* --- single packets -------------------------------------------------------------------------------- */

struct packets {
	Pf__Trace *trace;
};

static struct packets unpack(struct rec *b)
{
	struct buf data = export_recording(b);
	struct packets p = { pf__trace__unpack(NULL, data.len, data.data) };

	assert_non_null(p.trace);
	buf__free(&data);
	return p;
}

static void packets__free(struct packets *p)
{
	pf__trace__free_unpacked(p->trace, NULL);
}

static bool is(ProtobufCBinaryData d, const char *text)
{
	return d.len == strlen(text) && !memcmp(d.data, text, d.len);
}

static long attribute(const struct packets *p, const char *key)
{
	const Pf__TraceAttributes *a;
	size_t i, k;

	for (i = 0; i < p->trace->n_packet; i++) {
		a = p->trace->packet[i]->trace_attributes;
		for (k = 0; a && k < a->n_attribute; k++)
			if (is(a->attribute[k]->key, key))
				return a->attribute[k]->long_value;
	}
	fail_msg("no attribute %s", key);
	return 0;
}

static const Pf__TrackDescriptor *process_track(const struct packets *p, int nth)
{
	const Pf__TrackDescriptor *d;
	size_t i;

	for (i = 0; i < p->trace->n_packet; i++) {
		d = p->trace->packet[i]->track_descriptor;
		if (d && d->process && !nth--)
			return d;
	}
	return NULL;
}

static const Pf__TrackDescriptor *named_track(const struct packets *p, const char *name, int nth)
{
	const Pf__TrackDescriptor *d;
	size_t i;

	for (i = 0; i < p->trace->n_packet; i++) {
		d = p->trace->packet[i]->track_descriptor;
		if (d && d->has_name && is(d->name, name) && !nth--)
			return d;
	}
	return NULL;
}

/* --- spans ------------------------------------------------------------------------------------------ */

static void spans_keep_names_times_nesting_and_arguments(void **state)
{
	struct world *w = *state;
	struct event *ev;

	rec__span(w->b, w->main, 1000, 5000, "step");
	ev = rec__span(w->b, w->main, 1100, 500, "conv2d");
	ev->cat = rec__id(w->b, "layer");
	ev->src = rec__id(w->b, "conv.c:12");
	rec__arg_str(w->b, "shape", "1x3x8x8", 7);
	rec__arg_i64(w->b, "delta", -5);
	rec__arg_u64(w->b, "flops", 1ull << 40);
	rec__arg_f64(w->b, "load", 0.5);
	rec__span(w->b, w->worker, 1200, 100, "copy");
	assert_shows(w->b, "slice 100@1100/100 1000 +5000 d0 - step {}\n"
			   "slice 100@1100/100 1100 +500 d1 layer conv2d @conv.c%3A12 {delta=i-5 "
			   "flops=i1099511627776 load=f3fe0000000000000 shape=s1x3x8x8}\n"
			   "slice 100@1100/101 1200 +100 d0 - copy {}");
}

static void what_is_known_of_odd_spans_is_told(void **state)
{
	struct world *w = *state;

	rec__open_span(w->b, w->main, 1000, 0, "left open");
	rec__span(w->b, w->main, 1100, 100, "attached late")->flags = EVS_NO_BEGIN;
	rec__span(w->b, w->main, 1300, 50, "secret")->flags = EVS_REDACTED;
	rec__span(w->b, w->worker, 1000, 300, "a");
	rec__stream(w->b, 1);
	rec__span(w->b, w->worker, 1150, 300, "b");
	rec__span(w->b, w->worker, 1400, 100, "last");
	assert_shows(w->b,
		     "slice 100@1100/100 1000 +500 d0 - left%20open {clika_unfinished=btrue}\n"
		     "slice 100@1100/100 1100 +100 d1 - attached%20late {clika_no_begin=btrue}\n"
		     "slice 100@1100/100 1300 +50 d1 - secret {clika_redacted=btrue}\n"
		     "slice 100@1100/101 1000 +300 d0 - a {}\n"
		     "slice 100@1100/101 1150 +150 d1 - b {clika_clipped=btrue}\n"
		     "slice 100@1100/101 1400 +100 d0 - last {}");
}

static void spans_that_touch_do_not_nest(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 100, "a");
	rec__span(w->b, w->main, 1100, 0, "b");
	rec__span(w->b, w->main, 1100, 100, "c");
	assert_shows(w->b, "slice 100@1100/100 1000 +100 d0 - a {}\n"
			   "slice 100@1100/100 1100 +0 d0 - b {}\n"
			   "slice 100@1100/100 1100 +100 d0 - c {}");
}

static void hostile_names_arrive_as_valid_text(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 10, "\xff\xfe");
	rec__span(w->b, w->main, 1020, 10, "\xed\xa0\x80");
	rec__span(w->b, w->main, 1040, 10, "");
	rec__span(w->b, w->main, 1060, 10, "\x1b[0m\n");
	rec__arg_str(w->b, "\x80", "nul\0and \xc3", 9);
	assert_shows(
		w->b,
		"slice 100@1100/100 1000 +10 d0 - %EF%BF%BD%EF%BF%BD {}\n"
		"slice 100@1100/100 1020 +10 d0 - %EF%BF%BD%EF%BF%BD%EF%BF%BD {}\n"
		"slice 100@1100/100 1040 +10 d0 - - {}\n"
		"slice 100@1100/100 1060 +10 d0 - %1B%5B0m%0A {%EF%BF%BD=snul%00and%20%EF%BF%BD}");
}

static void add_deep_spans(struct rec *b, uint32_t thread)
{
	uint64_t i;

	for (i = 0; i < 600; i++)
		rec__span(b, thread, 1000 + i, 10000 - 2 * i, "nest");
	rec__event(b, thread, EV_INSTANT, 1800, "deep");
}

static void what_is_too_deep_for_readers_is_left_out_and_counted(void **state)
{
	struct world *w = *state;
	struct packets p;

	add_deep_spans(w->b, w->main);
	p = unpack(w->b);
	assert_int_equal(attribute(&p, "clika.count.spans"), 600);
	assert_int_equal(attribute(&p, "clika.count.too_deep"), 89);
	packets__free(&p);
}

/* --- async spans, requests, flows ----------------------------------------------------------------- */

static void async_spans_that_overlap_get_rows_of_their_own(void **state)
{
	struct world *w = *state;
	const Pf__TrackDescriptor *group, *lane;
	struct packets p;

	rec__event(w->b, w->main, EV_ASYNC_BEGIN, 1000, "copy")->id = 1;
	rec__arg_i64(w->b, "n", 1);
	rec__event(w->b, w->main, EV_ASYNC_BEGIN, 1100, "copy")->id = 2;
	rec__event(w->b, w->worker, EV_ASYNC_END, 1200, "copy")->id = 1;
	rec__arg_i64(w->b, "n", 2);
	rec__event(w->b, w->worker, EV_ASYNC_BEGIN, 1200, "copy")->id = 3;
	rec__event(w->b, w->worker, EV_ASYNC_END, 1300, "copy")->id = 2;
	rec__event(w->b, w->worker, EV_INSTANT, 1400, "end");
	assert_shows(
		w->b,
		"slice 100@1100/101 1400 +0 d0 instant end {}\n"
		"slice 100@1100:copy 1000 +200 d0 async copy {clika_id=i1 n=i2}\n"
		"slice 100@1100:copy 1100 +200 d0 async copy {clika_id=i2}\n"
		"slice 100@1100:copy 1200 +200 d0 async copy {clika_id=i3 clika_unfinished=btrue}");
	p = unpack(w->b);
	group = named_track(&p, "copy", 0);
	assert_int_equal(group->child_ordering, 3);
	assert_int_equal(group->parent_uuid, process_track(&p, 0)->uuid);
	lane = named_track(&p, "copy", 2);
	assert_int_equal(lane->parent_uuid, group->uuid);
	assert_int_equal(lane->sibling_order_rank, 1);
	assert_int_equal(lane->sibling_merge_behavior, 2);
	assert_null(named_track(&p, "copy", 3));
	packets__free(&p);
}

static void a_request_shows_its_latency_and_its_first_output(void **state)
{
	struct world *w = *state;

	rec__event(w->b, w->main, EV_REQUEST_BEGIN, 1000, "chat")->id = 7;
	rec__event(w->b, w->worker, EV_REQUEST_FIRST, 1400, "chat")->id = 7;
	*rec__event(w->b, w->worker, EV_REQUEST_OUTPUT, 1500, "chat") =
		(struct event){ .kind = EV_REQUEST_OUTPUT,
				.ts = 1500,
				.name = rec__id(w->b, "chat"),
				.id = 7,
				.value = 3 };
	rec__event(w->b, w->main, EV_REQUEST_END, 1900, "chat")->id = 7;
	rec__event(w->b, w->main, EV_REQUEST_END, 2000, "chat")->id = 8;
	assert_shows(w->b,
		     "slice 100@1100/100 2000 +0 d0 instant end%20of%20chat {}\n"
		     "slice 100@1100:chat 1000 +900 d0 request chat {clika_first_output_ns=i400 "
		     "clika_id=i7 "
		     "clika_units=i3}\n"
		     "slice 100@1100:chat 1400 +0 d1 request first%20output {clika_units=i0}\n"
		     "slice 100@1100:chat 1500 +0 d1 request output {clika_units=i3}");
}

static void windows_of_targets_are_rows_the_recorders_own_is_the_trace(void **state)
{
	struct world *w = *state;

	rec__capture(w->b, 900, 3000, "default");
	rec__capture(w->b, 1000, 2000, "warm");
	rec__capture_info(w->b, 1)->process = w->server;
	rec__capture(w->b, 1500, 2500, "hot \xff");
	rec__capture_info(w->b, 2)->process = w->server;
	rec__capture(w->b, 2000, 0, "open");
	rec__capture_info(w->b, 3)->process = w->server;
	rec__span(w->b, w->main, 1900, 200, "step");
	assert_shows(w->b, "slice 100@1100/100 1900 +200 d0 - step {clika_cut=btrue}\n"
			   "slice captures 1000 +1000 d0 capture warm {}\n"
			   "slice captures 1500 +1000 d0 capture hot%20%EF%BF%BD {}\n"
			   "slice captures 2000 +1000 d0 capture open {clika_unfinished=btrue}");
}

static void flows_join_the_spans_they_left_and_reached(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->main, 1000, 100, "submit");
	rec__event(w->b, w->main, EV_FLOW_OUT, 1050, "job")->id = 1;
	rec__span(w->b, w->worker, 1200, 100, "batch");
	rec__event(w->b, w->worker, EV_FLOW_STEP, 1210, "job")->id = 1;
	rec__span(w->b, w->main, 1400, 100, "reply");
	rec__event(w->b, w->main, EV_FLOW_IN, 1410, "job")->id = 1;
	assert_shows(w->b, "flow 100@1100/100@1000 submit -> 100@1100/101@1200 batch\n"
			   "flow 100@1100/101@1200 batch -> 100@1100/100@1400 reply\n"
			   "slice 100@1100/100 1000 +100 d0 - submit {}\n"
			   "slice 100@1100/100 1400 +100 d0 - reply {}\n"
			   "slice 100@1100/101 1200 +100 d0 - batch {}");
}

/* Readers would turn such an arrow round: it ends in an instant at the true moment. */
static void a_flow_into_a_span_that_began_earlier_keeps_its_direction(void **state)
{
	struct world *w = *state;

	rec__span(w->b, w->worker, 900, 1000, "loop");
	rec__span(w->b, w->main, 1000, 100, "submit");
	rec__event(w->b, w->main, EV_FLOW_OUT, 1050, "job")->id = 1;
	rec__event(w->b, w->worker, EV_FLOW_IN, 1300, "job")->id = 1;
	assert_shows(w->b, "flow 100@1100/100@1000 submit -> 100@1100/101@900 loop\n"
			   "slice 100@1100/100 1000 +100 d0 - submit {}\n"
			   "slice 100@1100/101 900 +1000 d0 - loop {}");
}

static void many_flows_out_of_one_span_all_arrive(void **state)
{
	struct world *w = *state;
	struct buf data;
	char *seen, *at;
	unsigned int i, n = 0;

	rec__span(w->b, w->main, 1000, 5000, "submit all");
	for (i = 0; i < 300; i++) {
		rec__event(w->b, w->main, EV_FLOW_OUT, 1000 + i, "job")->id = i;
		rec__span(w->b, w->worker, 10000 + i * 10, 5, "run");
		rec__event(w->b, w->worker, EV_FLOW_IN, 10001 + i * 10, "job")->id = i;
	}
	data = export_recording(w->b);
	seen = perfetto__seen(data.data, data.len);
	for (at = seen; (at = strstr(at, "flow 100@1100/100@1000 submit%20all -> 100@1100/101@"));
	     at++)
		n++;
	assert_int_equal(n, 300);
	free(seen);
	buf__free(&data);
}

/* --- counters ------------------------------------------------------------------------------------------ */

static void counters_are_written_again_at_the_end(void **state)
{
	struct world *w = *state;
	double half = 0.5;

	rec__event(w->b, w->main, EV_COUNTER_I64, 1000, "depth")->value = (uint64_t)-3;
	memcpy(&rec__event(w->b, w->main, EV_COUNTER_F64, 1100, "load")->value, &half,
	       sizeof(half));
	*rec__event(w->b, w->worker, EV_ALLOC, 1200, NULL) = (struct event){
		.kind = EV_ALLOC, .ts = 1200, .id = 0x1000, .value = 4096, .aux = 1
	};
	rec__event(w->b, w->main, EV_COUNTER_I64, 2000, "depth")->value = 4;
	assert_shows(w->b, "counter 100@1100 depth 1000 i-3\n"
			   "counter 100@1100 depth 2000 i4\n"
			   "counter 100@1100 load 1100 f3fe0000000000000\n"
			   "counter 100@1100 load 2000 f3fe0000000000000\n"
			   "counter 100@1100 memory%20in%20use%20%28device%201%29 1200 i4096\n"
			   "counter 100@1100 memory%20in%20use%20%28device%201%29 2000 i4096");
}

static void equal_counter_names_of_two_processes_stay_apart(void **state)
{
	struct world *w = *state;
	uint32_t other = rec__thread(w->b, rec__process(w->b, 200, "other"), 200, "main");

	rec__event(w->b, w->main, EV_COUNTER_I64, 1000, "depth")->value = 1;
	rec__event(w->b, other, EV_COUNTER_I64, 1000, "depth")->value = 2;
	assert_shows(w->b, "counter 100@1100 depth 1000 i1\ncounter 200@1200 depth 1000 i2");
}

/* --- processes ------------------------------------------------------------------------------------------- */

static void a_reused_pid_is_another_process(void **state)
{
	struct world *w = *state;
	uint32_t later = rec__process(w->b, 100, "server");
	struct packets p;

	rec__process_info(w->b, later)->start = 5000;
	rec__span(w->b, w->main, 1000, 100, "a");
	rec__span(w->b, rec__thread(w->b, later, 100, "main"), 6000, 100, "b");
	p = unpack(w->b);
	assert_int_equal(process_track(&p, 0)->process->pid, 100);
	assert_int_equal(process_track(&p, 1)->process->pid, 100);
	assert_int_equal(process_track(&p, 1)->process->start_timestamp_ns, 5000);
	assert_int_not_equal(process_track(&p, 0)->uuid, process_track(&p, 1)->uuid);
	assert_null(process_track(&p, 2));
	packets__free(&p);
}

static void an_image_executed_later_is_another_process(void **state)
{
	struct world *w = *state;
	uint32_t later = rec__process(w->b, 100, "python");
	struct packets p;

	rec__process_info(w->b, later)->exec_gen = 1;
	rec__span(w->b, w->main, 1000, 100, "a");
	rec__span(w->b, rec__thread(w->b, later, 100, "main"), 6000, 100, "b");
	p = unpack(w->b);
	assert_true(is(process_track(&p, 1)->process->process_name, "python"));
	assert_int_not_equal(process_track(&p, 0)->uuid, process_track(&p, 1)->uuid);
	packets__free(&p);
}

static void numbers_that_mean_something_to_readers_are_replaced(void **state)
{
	struct world *w = *state;
	uint32_t idle = rec__thread(w->b, rec__process(w->b, 0, "unknown"), 0, "?");
	struct packets p;

	rec__span(w->b, idle, 1000, 100, "a");
	p = unpack(w->b);
	assert_true(process_track(&p, 0)->process->pid >= 10000000);
	packets__free(&p);
}

static void processes_say_where_they_run(void **state)
{
	struct world *w = *state;
	struct process_info *info = rec__process_info(w->b, w->server);
	const Pf__ProcessDescriptor *d;
	struct packets p;

	info->cmdline = (char *)(uintptr_t) "server --model m";
	info->container = (char *)(uintptr_t) "0123abcd";
	info->cgroup = (char *)(uintptr_t) "/kube/pod";
	info->label = (char *)(uintptr_t) "rank 3";
	info->ns_pid = 7;
	rec__span(w->b, w->main, 1000, 100, "a");
	p = unpack(w->b);
	d = process_track(&p, 0)->process;
	assert_true(is(d->process_name, "server"));
	assert_int_equal(d->n_cmdline, 1);
	assert_true(is(d->cmdline[0], "server --model m"));
	assert_int_equal(d->n_process_labels, 4);
	assert_true(is(d->process_labels[0], "rank 3"));
	assert_true(is(d->process_labels[1], "container 0123abcd"));
	assert_true(is(d->process_labels[2], "cgroup /kube/pod"));
	assert_true(is(d->process_labels[3], "pid there 7"));
	packets__free(&p);
}

/* --- head and tail --------------------------------------------------------------------------------------- */

static void begins_with_clocks_then_machine_and_recorder(void **state)
{
	struct world *w = *state;
	const Pf__TracePacket *clocks;
	struct packets p;

	rec__anchor(w->b, 1500, 1700000000000000000ull);
	rec__span(w->b, w->main, 1000, 100, "a");
	p = unpack(w->b);
	assert_true(p.trace->packet[0]->first_packet_on_sequence);
	clocks = p.trace->packet[1];
	assert_int_equal(clocks->clock_snapshot->n_clocks, 5);
	/* An event older than the first anchor: the clocks are those of that moment. */
	assert_int_equal(clocks->timestamp, 1000);
	assert_int_equal(clocks->clock_snapshot->clocks[0]->clock_id, 1);
	assert_int_equal(clocks->clock_snapshot->clocks[0]->timestamp,
			 1700000000000000000ull - 500);
	assert_int_equal(clocks->clock_snapshot->primary_trace_clock, 6);
	assert_non_null(p.trace->packet[2]->system_info);
	assert_non_null(p.trace->packet[3]->trace_uuid);
	assert_non_null(p.trace->packet[4]->trace_attributes);
	assert_non_null(p.trace->packet[p.trace->n_packet - 1]->trace_stats);
	packets__free(&p);
}

static void the_same_recording_gives_the_same_bytes(void **state)
{
	struct world *w = *state;
	struct session *s;
	struct buf a, b;

	rec__span(w->b, w->main, 1000, 100, "a");
	s = open_session(w->b);
	a = export_session(s, false);
	b = export_session(s, false);
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.data, b.data, a.len);
	buf__free(&a);
	buf__free(&b);
	session__free(s);
}

static void losses_are_written_also_when_there_are_none(void **state)
{
	struct world *w = *state;
	struct packets p;

	rec__span(w->b, w->main, 1000, 100, "a");
	p = unpack(w->b);
	assert_int_equal(attribute(&p, "clika.loss.records"), 0);
	assert_int_equal(attribute(&p, "clika.loss.ring_full.records"), 0);
	assert_int_equal(attribute(&p, "clika.loss.probe_missed.unknown_at_most"), 0);
	assert_null(named_track(&p, "records lost", 0));
	packets__free(&p);
}

static void losses_are_seen_in_four_places(void **state)
{
	struct world *w = *state;
	const Pf__TracePacket *last, *q;
	bool marked = false, instant = false;
	struct packets p;
	uint64_t row;
	size_t i;

	rec__loss(w->b, LOSS_RING_FULL, 42, 0);
	rec__loss(w->b, LOSS_READ_FAULT, 0, 9);
	rec__span(w->b, w->main, 1000, 100, "a");
	p = unpack(w->b);
	assert_int_equal(attribute(&p, "clika.loss.ring_full.records"), 42);
	assert_int_equal(attribute(&p, "clika.loss.read_fault.unknown_at_most"), 9);
	last = p.trace->packet[p.trace->n_packet - 1];
	assert_int_equal(last->trace_stats->buffer_stats[0]->trace_writer_packet_loss, 42);
	row = named_track(&p, "records lost", 0)->uuid;
	for (i = 0; i < p.trace->n_packet; i++) {
		q = p.trace->packet[i];
		marked |= q->previous_packet_dropped;
		if (q->track_event && q->track_event->track_uuid == row)
			instant |= is(q->track_event->name, "records lost: 42, at most 9 more");
	}
	assert_true(marked && instant);
	packets__free(&p);
}

/* A recorder tells them as a whole, by CPU, and by process: they are the same records. */
static void losses_told_several_times_count_once(void **state)
{
	struct world *w = *state;
	struct packets p;

	rec__loss(w->b, LOSS_RING_FULL, 42, 0);
	rec__loss(w->b, LOSS_RING_FULL, 30, 0);
	rec__loss_info(w->b, 1)->cpu = 0;
	rec__loss(w->b, LOSS_RING_FULL, 12, 0);
	rec__loss_info(w->b, 2)->cpu = 1;
	rec__loss(w->b, LOSS_RING_FULL, 42, 0);
	rec__loss_info(w->b, 3)->process = w->server;
	rec__span(w->b, w->main, 1000, 100, "a");
	p = unpack(w->b);
	assert_int_equal(attribute(&p, "clika.loss.records"), 42);
	assert_non_null(named_track(&p, "records lost", 1));
	assert_int_equal(named_track(&p, "records lost", 1)->parent_uuid,
			 process_track(&p, 0)->uuid);
	packets__free(&p);
}

static void an_empty_recording_is_a_valid_trace(void **state)
{
	struct world *w = *state;

	assert_shows(w->b, "");
}

/* --- size ------------------------------------------------------------------------------------------------ */

static uint64_t bytes_per_span(struct rec *b, bool packed)
{
	struct session *s = open_session(b);
	struct buf data = export_session(s, packed);
	uint64_t n = session__counts(s)->spans, len = data.len;
	char *seen = perfetto__seen(data.data, data.len), *expected = perfetto__expected(s);

	assert_same_text(seen, expected);
	free(seen);
	free(expected);
	buf__free(&data);
	session__free(s);
	return (len + n - 1) / n;
}

static void a_span_without_arguments_takes_little_room(void **state)
{
	static const char *const names[] = { "conv2d", "gemm", "softmax", "norm", "add" };
	struct world *w = *state;
	uint64_t i, ts = 1000000, x = 88172645463325252ull;
	struct event *ev;

	for (i = 0; i < 20000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		ev = rec__span(w->b, i % 2 ? w->main : w->worker, ts, 200 + x % 5000, names[x % 5]);
		ev->cat = rec__id(w->b, "layer");
		ts += 5300 + (x >> 20) % 8000;
	}
	assert_in_range(bytes_per_span(w->b, false), 1, 32);
	assert_in_range(bytes_per_span(w->b, true), 1, 10);
}

/* --- random recordings -------------------------------------------------------------------------------- */

static void random_recordings_show_exactly_what_was_recorded(void **state)
{
	char *seen, *expected;
	struct session *s;
	struct buf data;
	uint64_t seed;
	struct rec *b;

	(void)state;
	for (seed = 1; seed <= ROUNDS; seed++) {
		b = random_session(seed);
		s = open_session(b);
		data = export_session(s, seed % 2);
		seen = perfetto__seen(data.data, data.len);
		expected = perfetto__expected(s);
		assert_same_text(seen, expected);
		free(seen);
		free(expected);
		buf__free(&data);
		session__free(s);
		rec__free(b);
	}
}

static int write_samples(const char *dir, unsigned long n)
{
	char path[4096], *expected;
	struct session *s;
	unsigned long i;
	struct rec *b;
	FILE *f;

	for (i = 1; i <= n; i++) {
		b = random_session(i);
		snprintf(path, sizeof(path), "%s/%lu.clika", dir, i);
		rec__write(b, path);
		s = open_session(b);
		expected = perfetto__expected(s);
		snprintf(path, sizeof(path), "%s/%lu.expected", dir, i);
		f = fopen(path, "w");
		if (!f || fputs(expected, f) < 0 || fclose(f)) {
			perror(path);
			return 1;
		}
		free(expected);
		session__free(s);
		rec__free(b);
	}
	return 0;
}

static int write_deep(const char *path)
{
	struct rec *b = rec__new();

	add_deep_spans(b, rec__thread(b, rec__process(b, 100, "server"), 100, "main"));
	rec__write(b, path);
	rec__free(b);
	return 0;
}

static int print_expected(const char *path, const char *tag)
{
	struct session_opts o = { .capture_tag = tag };
	struct clika_error err = { 0 };
	struct recording *r = NULL;
	struct session *s = NULL;
	char *expected;

	if (recording__open(path, &r, &err) || session__new(r, &o, &s, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	expected = perfetto__expected(s);
	puts(expected);
	free(expected);
	session__free(s);
	recording__close(r);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(spans_keep_names_times_nesting_and_arguments),
		TEST(what_is_known_of_odd_spans_is_told),
		TEST(spans_that_touch_do_not_nest),
		TEST(hostile_names_arrive_as_valid_text),
		TEST(what_is_too_deep_for_readers_is_left_out_and_counted),
		TEST(async_spans_that_overlap_get_rows_of_their_own),
		TEST(a_request_shows_its_latency_and_its_first_output),
		TEST(windows_of_targets_are_rows_the_recorders_own_is_the_trace),
		TEST(flows_join_the_spans_they_left_and_reached),
		TEST(a_flow_into_a_span_that_began_earlier_keeps_its_direction),
		TEST(many_flows_out_of_one_span_all_arrive),
		TEST(counters_are_written_again_at_the_end),
		TEST(equal_counter_names_of_two_processes_stay_apart),
		TEST(a_reused_pid_is_another_process),
		TEST(an_image_executed_later_is_another_process),
		TEST(numbers_that_mean_something_to_readers_are_replaced),
		TEST(processes_say_where_they_run),
		TEST(begins_with_clocks_then_machine_and_recorder),
		TEST(the_same_recording_gives_the_same_bytes),
		TEST(losses_are_written_also_when_there_are_none),
		TEST(losses_are_seen_in_four_places),
		TEST(losses_told_several_times_count_once),
		TEST(an_empty_recording_is_a_valid_trace),
		TEST(a_span_without_arguments_takes_little_room),
		cmocka_unit_test(random_recordings_show_exactly_what_was_recorded),
	};

	if (argc == 4 && !strcmp(argv[1], "--write"))
		return write_samples(argv[2], strtoul(argv[3], NULL, 10));
	if (argc == 3 && !strcmp(argv[1], "--deep"))
		return write_deep(argv[2]);
	if (argc >= 3 && !strcmp(argv[1], "--expect"))
		return print_expected(argv[2], argc > 3 ? argv[3] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
