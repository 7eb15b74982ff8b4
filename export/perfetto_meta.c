// SPDX-License-Identifier: Apache-2.0
#include "export/perfetto_meta.h"

#include "export/losses.h"

#include <stdio.h>
#include <string.h>

enum {
	CLOCK_ID_REALTIME = 1,
	CLOCK_ID_MONO = 3,
	CLOCK_ID_COARSE = 4,
	CLOCK_ID_RAW = 5,
	CLOCK_ID_BOOT = 6
};

/* --- clocks --------------------------------------------------------------------------------------- */

static void add_clock(Pf__ClockSnapshot__Clock *clocks, size_t *n, uint32_t id, uint64_t at)
{
	if (!at)
		return;
	pf__clock_snapshot__clock__init(&clocks[*n]);
	clocks[*n].has_clock_id = clocks[*n].has_timestamp = true;
	clocks[*n].clock_id = id;
	clocks[*n].timestamp = pf__time(at);
	(*n)++;
}

static void write_anchor(struct pf_clocks *c, const struct clock_anchor *a)
{
	Pf__TracePacket p = PF__TRACE_PACKET__INIT;
	Pf__ClockSnapshot snapshot = PF__CLOCK_SNAPSHOT__INIT;
	Pf__ClockSnapshot__Clock clocks[5], *at[5];
	size_t i, n = 0;

	/* Somebody may set this one back, and readers then trust it no more: it stays as it was. */
	if (a->realtime >= c->realtime) {
		add_clock(clocks, &n, CLOCK_ID_REALTIME, a->realtime);
		c->realtime = a->realtime;
	}
	add_clock(clocks, &n, CLOCK_ID_MONO, a->monotonic);
	add_clock(clocks, &n, CLOCK_ID_COARSE, a->monotonic_coarse);
	add_clock(clocks, &n, CLOCK_ID_RAW, a->monotonic_raw);
	add_clock(clocks, &n, CLOCK_ID_BOOT, a->boottime);
	for (i = 0; i < n; i++)
		at[i] = &clocks[i];
	snapshot.clocks = at;
	snapshot.n_clocks = n;
	snapshot.has_primary_trace_clock = true;
	snapshot.primary_trace_clock = CLOCK_ID_BOOT;
	p.has_timestamp = true;
	p.timestamp = pf__time(a->boottime);
	p.clock_snapshot = &snapshot;
	pf_seq__packet(c->o, c->seq, &p);
	c->last = *a;
}

/* Readers take no snapshot in which one of these clocks has gone back. */
static bool follows(const struct clock_anchor *a, const struct clock_anchor *last)
{
	return a->boottime > last->boottime && a->monotonic >= last->monotonic &&
	       a->monotonic_raw >= last->monotonic_raw &&
	       a->monotonic_coarse >= last->monotonic_coarse;
}

static void find_next(struct pf_clocks *c)
{
	const struct recording *r = session__recording(c->o->s);
	const struct clock_anchor *a;

	for (; c->next < recording__n_anchors(r); c->next++) {
		a = recording__anchor(r, c->next);
		if (follows(a, &c->last)) {
			c->next_at = a->boottime;
			return;
		}
	}
	c->next_at = UINT64_MAX;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Events may be older than the first anchor; between the two all clocks ran alike. */
void pf_clocks__start(struct pf_clocks *c, struct pf_out *o, struct pf_seq *seq)
{
	const struct recording *r = session__recording(o->s);
	uint64_t origin = session__origin(o->s), back;
	struct clock_anchor a = { .boottime = origin };

	*c = (struct pf_clocks){ .o = o, .seq = seq };
	if (recording__n_anchors(r)) {
		a = *recording__anchor(r, 0);
		back = minus(a.boottime, origin);
		a.boottime -= back;
		a.monotonic = minus(a.monotonic, back);
		a.monotonic_raw = minus(a.monotonic_raw, back);
		a.monotonic_coarse = minus(a.monotonic_coarse, back);
		a.realtime = minus(a.realtime, back);
	}
	pf_seq__start(o, seq, a.boottime);
	write_anchor(c, &a);
	find_next(c);
}

void pf_clocks__advance(struct pf_clocks *c, uint64_t ts)
{
	while (c->next_at <= ts && c->next_at != UINT64_MAX) {
		write_anchor(c, recording__anchor(session__recording(c->o->s), c->next));
		find_next(c);
	}
}

/* --- attributes -------------------------------------------------------------------------------------- */

#define ATTRIBUTES 64

struct attributes {
	struct pf_out *o;
	Pf__TraceAttributes__Attribute all[ATTRIBUTES], *at[ATTRIBUTES];
	size_t n;
};

static void attributes__write(struct attributes *as, struct pf_seq *seq)
{
	Pf__TracePacket p = PF__TRACE_PACKET__INIT;
	Pf__TraceAttributes a = PF__TRACE_ATTRIBUTES__INIT;

	a.attribute = as->at;
	a.n_attribute = as->n;
	p.trace_attributes = &a;
	if (as->n)
		pf_seq__packet(as->o, seq, &p);
	as->n = 0;
}

static Pf__TraceAttributes__Attribute *attribute(struct attributes *as, const char *key)
{
	Pf__TraceAttributes__Attribute *a = &as->all[as->n];

	as->at[as->n++] = a;
	pf__trace_attributes__attribute__init(a);
	a->has_key = true;
	a->key = pf_out__keep(as->o, key, strlen(key));
	return a;
}

static void number(struct attributes *as, const char *key, uint64_t v)
{
	Pf__TraceAttributes__Attribute *a = attribute(as, key);

	a->has_long_value = true;
	a->long_value = v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static void string(struct attributes *as, const char *key, const char *v)
{
	Pf__TraceAttributes__Attribute *a;

	if (!v || !*v)
		return;
	a = attribute(as, key);
	a->has_string_value = true;
	a->string_value = pf_out__cstr(as->o, v);
}

/* --- head --------------------------------------------------------------------------------------------- */

static void put_system(struct pf_out *o, struct pf_seq *seq, const struct recording_meta *m)
{
	Pf__TracePacket p = PF__TRACE_PACKET__INIT;
	Pf__SystemInfo info = PF__SYSTEM_INFO__INIT;
	Pf__Utsname uts = PF__UTSNAME__INIT;
	char version[128];

	snprintf(version, sizeof(version), "%s %s", m->tool ? m->tool : "",
		 m->version ? m->version : "");
	uts.has_sysname = uts.has_release = uts.has_machine = true;
	uts.sysname = pf_out__cstr(o, "Linux");
	uts.release = pf_out__cstr(o, m->kernel);
	uts.machine = pf_out__cstr(o, m->arch);
	info.utsname = &uts;
	info.has_tracing_service_version = info.has_machine_name = true;
	info.tracing_service_version = pf_out__cstr(o, version);
	info.machine_name = pf_out__cstr(o, m->host);
	info.has_page_size = m->page_size != 0;
	info.page_size = m->page_size;
	info.has_num_cpus = m->cpus != 0;
	info.num_cpus = m->cpus;
	info.has_system_ram_bytes = m->ram_bytes != 0;
	info.system_ram_bytes = m->ram_bytes;
	p.system_info = &info;
	pf_seq__packet(o, seq, &p);
}

/* The same recording gives the same number, another one another. */
static void put_uuid(struct pf_out *o, struct pf_seq *seq, const struct recording_meta *m)
{
	const struct recording_state *st = recording__state(session__recording(o->s));
	const char *boot = m->machine_id ? m->machine_id : "";
	uint64_t is[] = { m->created_realtime, st->first_ts, st->last_ts, st->events };
	uint64_t low = hash__bytes(is, sizeof(is), hash__bytes(boot, strlen(boot), 0));
	Pf__TracePacket p = PF__TRACE_PACKET__INIT;
	Pf__TraceUuid u = PF__TRACE_UUID__INIT;

	u.has_msb = u.has_lsb = true;
	u.lsb = (int64_t)low;
	u.msb = (int64_t)hash__mix(low, st->events);
	p.trace_uuid = &u;
	pf_seq__packet(o, seq, &p);
}

void pf_meta__head(struct pf_out *o, struct pf_seq *seq)
{
	const struct recording *r = session__recording(o->s);
	const struct recording_meta *m = recording__meta(r);
	struct attributes as = { .o = o };

	put_system(o, seq, m);
	put_uuid(o, seq, m);
	string(&as, "clika.tool", m->tool);
	string(&as, "clika.version", m->version);
	string(&as, "clika.command", m->command);
	string(&as, "clika.targets", m->targets);
	string(&as, "clika.host", m->host);
	string(&as, "clika.boot_id", m->machine_id);
	number(&as, "clika.created_realtime_ns", m->created_realtime);
	number(&as, "clika.begin_boottime_ns", session__begin(o->s));
	number(&as, "clika.end_boottime_ns", session__end(o->s));
	number(&as, "clika.incomplete", recording__state(r)->incomplete);
	attributes__write(&as, seq);
}

/* --- tail --------------------------------------------------------------------------------------------- */

static void put_losses(struct attributes *as, const struct losses *l)
{
	char key[96];
	unsigned int i;

	number(as, "clika.loss.records", l->all_records);
	number(as, "clika.loss.unknown_at_most", l->all_at_most);
	for (i = 1; i < LOSS_CAUSE_COUNT; i++) {
		snprintf(key, sizeof(key), "clika.loss.%s.records", losses__code(i));
		number(as, key, l->records[i]);
		snprintf(key, sizeof(key), "clika.loss.%s.unknown_at_most", losses__code(i));
		number(as, key, l->at_most[i]);
	}
}

static void put_counts(struct attributes *as, const struct session *s, const struct pf_counts *n)
{
	const struct recording_state *st = recording__state(session__recording(s));
	const struct count_info *r = recording__counts(session__recording(s));
	const struct session_counts *c = session__counts(s);

	number(as, "clika.count.emitted", r->emitted);
	number(as, "clika.count.recorded", r->recorded);
	number(as, "clika.count.lost", r->lost);
	number(as, "clika.count.filtered", r->filtered);
	number(as, "clika.count.spans", c->spans);
	number(as, "clika.count.instants", c->instants);
	number(as, "clika.count.counters", c->counters);
	number(as, "clika.count.asyncs", c->asyncs);
	number(as, "clika.count.flows", c->flows);
	number(as, "clika.count.memory", c->memory);
	number(as, "clika.count.requests", c->requests);
	number(as, "clika.count.unfinished", c->unfinished);
	number(as, "clika.count.no_begin", c->no_begin);
	number(as, "clika.count.clipped", c->clipped);
	number(as, "clika.count.orphan_ends", c->orphan_ends);
	number(as, "clika.count.bad_times", c->bad_times);
	number(as, "clika.count.late", c->late);
	number(as, "clika.count.outside_captures", c->outside);
	number(as, "clika.count.forgotten", c->forgotten);
	number(as, "clika.count.not_finite_samples", n->not_finite);
	number(as, "clika.count.too_deep", n->too_deep);
	number(as, "clika.count.damaged_blocks", c->damaged);
	number(as, "clika.count.bad_segments", st->bad_segments);
	number(as, "clika.count.trailing_bytes", st->trailing_bytes);
}

static void put_warnings(struct attributes *as, struct pf_seq *seq, const struct recording *r)
{
	const struct warning_info *w;
	char key[96];
	size_t i;

	for (i = 0; i < recording__n_warnings(r); i++) {
		w = recording__warning(r, i);
		if (as->n + 2 > ATTRIBUTES)
			attributes__write(as, seq);
		snprintf(key, sizeof(key), "clika.warning.%zu.code", i);
		string(as, key, w->code);
		snprintf(key, sizeof(key), "clika.warning.%zu.text", i);
		string(as, key, w->text);
	}
	attributes__write(as, seq);
}

void pf_meta__tail(struct pf_out *o, struct pf_seq *seq, const struct pf_counts *n)
{
	const struct recording *r = session__recording(o->s);
	struct attributes as = { .o = o };
	Pf__TracePacket p = PF__TRACE_PACKET__INIT;
	Pf__TraceStats stats = PF__TRACE_STATS__INIT;
	Pf__TraceStats__BufferStats buffer = PF__TRACE_STATS__BUFFER_STATS__INIT, *at = &buffer;
	struct losses l;

	losses__sum(&l, r);
	put_losses(&as, &l);
	attributes__write(&as, seq);
	put_counts(&as, o->s, n);
	attributes__write(&as, seq);
	put_warnings(&as, seq, r);
	buffer.has_trace_writer_packet_loss = true;
	buffer.trace_writer_packet_loss = l.all_records;
	stats.buffer_stats = &at;
	stats.n_buffer_stats = 1;
	stats.has_total_buffers = true;
	stats.total_buffers = 1;
	stats.has_final_flush_outcome = !recording__state(r)->incomplete;
	stats.final_flush_outcome = 1;
	p.trace_stats = &stats;
	pf_seq__packet(o, seq, &p);
}
