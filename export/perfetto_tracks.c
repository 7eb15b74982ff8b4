// SPDX-License-Identifier: Apache-2.0
#include "export/perfetto_tracks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_PROCESS, KIND_THREAD, KIND_GROUP, KIND_LANE, KIND_COUNTER, KIND_ROW };

enum { ORDER_EXPLICIT = 3, MERGE_NONE = 2, UNIT_BYTES = 3 };

/* A number that nothing else in this trace has; the same in every export of the recording. */
static uint64_t new_uuid(struct pf_tracks *t, enum kind kind, const struct track *track, uint64_t a,
			 uint64_t b)
{
	static const struct process_info nobody;
	const struct process_info *p = track ? track->proc : &nobody;
	uint64_t is[] = { kind, t->host, p->pid, p->start, p->exec_gen, a, b }, uuid;

	do {
		uuid = hash__bytes(is, sizeof(is), 0);
		is[0] += 16; /* taken: try the next */
	} while (!uuid || map64__get(t->taken, uuid));
	if (!map64__put(t->taken, uuid, 1))
		t->err = -ENOMEM;
	return uuid;
}

int pf_tracks__init(struct pf_tracks *t, const struct session *s, struct pf_out *o,
		    struct pf_seq *seq)
{
	const struct recording_meta *m = recording__meta(session__recording(s));
	const char *boot = m->machine_id ? m->machine_id : "";
	size_t i, n = session__n_tracks(s), room = n ? n : 1;
	const struct track *track;
	uint32_t leader = 0;

	*t = (struct pf_tracks){ .s = s, .o = o, .seq = seq };
	t->host = hash__bytes(boot, strlen(boot), 0);
	t->uuid = calloc(room, sizeof(*t->uuid));
	t->leader = calloc(room, sizeof(*t->leader));
	t->process = calloc(room, sizeof(*t->process));
	t->described = calloc(room, sizeof(*t->described));
	t->taken = map64__new();
	t->pids = map64__new();
	t->lanes = map64__new();
	t->groups = map64__new();
	t->counters = map64__new();
	if (!t->uuid || !t->leader || !t->process || !t->described || !t->taken || !t->pids ||
	    !t->lanes || !t->groups || !t->counters || trace_ids__init(&t->ids, s))
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		track = session__track(s, i);
		if (t->ids.first[i]) {
			leader = (uint32_t)i;
			t->process[i] = new_uuid(t, KIND_PROCESS, track, 0, 0);
		}
		t->leader[i] = leader;
		t->uuid[i] = new_uuid(t, KIND_THREAD, track, track->tid, track->info->start);
	}
	return t->err;
}

void pf_tracks__free(struct pf_tracks *t)
{
	trace_ids__free(&t->ids);
	free(t->uuid);
	free(t->leader);
	free(t->process);
	free(t->described);
	map64__free(t->taken);
	map64__free(t->pids);
	map64__free(t->lanes);
	map64__free(t->groups);
	map64__free(t->counters);
}

static void write_descriptor(struct pf_tracks *t, Pf__TrackDescriptor *d, uint64_t uuid,
			     uint64_t ts)
{
	Pf__TracePacket p = PF__TRACE_PACKET__INIT;

	d->has_uuid = true;
	d->uuid = uuid;
	p.has_timestamp = true;
	p.timestamp = pf__time(ts);
	p.track_descriptor = d;
	pf_seq__packet(t->o, t->seq, &p);
}

/* --- processes and threads ------------------------------------------------------------------------- */

/* Readers give 0 and numbers that no kernel has a meaning of their own. */
static int32_t shown_number(uint32_t real, uint32_t otherwise)
{
	return (int32_t)(real && real <= TRACE_PID_MAX ? real : otherwise);
}

static int32_t shown_pid(const struct pf_tracks *t, const struct track *track)
{
	return shown_number(track->pid, t->ids.pid[t->leader[track->index]]);
}

static void add_label(struct pf_out *o, ProtobufCBinaryData *labels, size_t *n, const char *key,
		      const char *value)
{
	char text[1024];
	int len;

	if (!value || !*value)
		return;
	if (!*key) {
		labels[(*n)++] = pf_out__cstr(o, value);
		return;
	}
	len = snprintf(text, sizeof(text), "%s %s", key, value);
	if (len >= (int)sizeof(text))
		len = (int)sizeof(text) - 1;
	labels[(*n)++] = pf_out__keep(o, text, (size_t)len);
}

/*
 * Readers go by the pid, and take a second image for the first one unless they see that one end.
 * Only the scheduler's events tell them. Of two packets of one moment, such an event may be read
 * last, so it comes a moment earlier.
 */
static void end_process(struct pf_tracks *t, int32_t pid, uint64_t ts)
{
	Pf__TracePacket p = PF__TRACE_PACKET__INIT;
	Pf__FtraceEventBundle bundle = PF__FTRACE_EVENT_BUNDLE__INIT;
	Pf__FtraceEvent event = PF__FTRACE_EVENT__INIT, *at = &event;
	Pf__SchedProcessFree end = PF__SCHED_PROCESS_FREE__INIT;

	end.has_pid = true;
	end.pid = pid;
	event.has_timestamp = event.has_pid = true;
	event.timestamp = pf__time(ts ? ts - 1 : 0);
	event.pid = (uint32_t)pid;
	event.sched_process_free = &end;
	bundle.has_cpu = true;
	bundle.event = &at;
	bundle.n_event = 1;
	p.ftrace_events = &bundle;
	pf_seq__packet(t->o, t->seq, &p);
}

static void describe_process(struct pf_tracks *t, const struct track *track, uint64_t ts)
{
	const struct process_info *info = track->proc;
	Pf__TrackDescriptor d = PF__TRACK_DESCRIPTOR__INIT;
	Pf__ProcessDescriptor p = PF__PROCESS_DESCRIPTOR__INIT;
	ProtobufCBinaryData labels[4], cmdline;
	char number[24];

	p.has_pid = true;
	p.pid = shown_pid(t, track);
	if (map64__get(t->pids, (uint64_t)p.pid))
		end_process(t, p.pid, ts);
	else if (!map64__put(t->pids, (uint64_t)p.pid, 1))
		t->err = -ENOMEM;
	p.has_process_name = true;
	p.process_name = pf_out__cstr(t->o, info->comm);
	if (info->start && info->start <= INT64_MAX) {
		p.has_start_timestamp_ns = true;
		p.start_timestamp_ns = (int64_t)info->start;
	}
	if (info->cmdline && *info->cmdline) {
		cmdline = pf_out__cstr(t->o, info->cmdline);
		p.cmdline = &cmdline;
		p.n_cmdline = 1;
	}
	p.process_labels = labels;
	add_label(t->o, labels, &p.n_process_labels, "", info->label);
	add_label(t->o, labels, &p.n_process_labels, "container", info->container);
	add_label(t->o, labels, &p.n_process_labels, "cgroup", info->cgroup);
	if (info->ns_pid && info->ns_pid != info->pid) {
		snprintf(number, sizeof(number), "%u", info->ns_pid);
		add_label(t->o, labels, &p.n_process_labels, "pid there", number);
	}
	d.process = &p;
	write_descriptor(t, &d, t->process[track->index], ts);
}

/* A tid that two threads of one process had: readers would take them for one. */
static bool same_tid_before(const struct pf_tracks *t, const struct track *track)
{
	uint32_t i = track->index;

	return i > t->leader[i] && session__track(t->s, i - 1)->tid == track->tid;
}

static void describe_thread(struct pf_tracks *t, const struct track *track, uint64_t ts)
{
	Pf__TrackDescriptor d = PF__TRACK_DESCRIPTOR__INIT;
	Pf__ThreadDescriptor h = PF__THREAD_DESCRIPTOR__INIT;

	h.has_pid = h.has_tid = h.has_thread_name = true;
	h.pid = shown_pid(t, track);
	h.tid = same_tid_before(t, track) ? (int32_t)t->ids.tid[track->index]
					  : shown_number(track->tid, t->ids.tid[track->index]);
	h.thread_name = pf_out__cstr(t->o, track->name);
	d.thread = &h;
	write_descriptor(t, &d, t->uuid[track->index], ts);
}

/*
 * Its threads with it: readers find the process of a thread by its pid, and that must not have
 * been taken by another process meanwhile.
 */
static uint32_t ensure_process(struct pf_tracks *t, const struct track *track, uint64_t ts)
{
	uint32_t leader = t->leader[track->index];
	size_t i, n = session__n_tracks(t->s);

	if (t->described[leader])
		return leader;
	t->described[leader] = true;
	describe_process(t, session__track(t->s, leader), ts);
	for (i = leader; i < n && t->leader[i] == leader; i++)
		if (session__track(t->s, i)->used)
			describe_thread(t, session__track(t->s, i), ts);
	return leader;
}

uint64_t pf_tracks__process(struct pf_tracks *t, const struct track *track, uint64_t ts)
{
	return t->process[ensure_process(t, track, ts)];
}

uint64_t pf_tracks__thread(struct pf_tracks *t, const struct track *track, uint64_t ts)
{
	ensure_process(t, track, ts);
	return t->uuid[track->index];
}

/* --- rows below a process ---------------------------------------------------------------------------- */

static uint64_t known(struct pf_tracks *t, struct map64 *m, uint64_t key)
{
	const uint64_t *uuid = map64__get(m, key);

	(void)t;
	return uuid ? *uuid : 0;
}

static uint64_t remember(struct pf_tracks *t, struct map64 *m, uint64_t key, uint64_t uuid)
{
	if (!map64__put(m, key, uuid))
		t->err = -ENOMEM;
	return uuid;
}

static uint64_t group_for(struct pf_tracks *t, const struct item *it, uint32_t name, bool request)
{
	uint32_t leader = t->leader[it->track->index];
	uint64_t key = (uint64_t)leader << 33 | (uint64_t)name << 1 | request;
	uint64_t uuid = known(t, t->groups, key);
	Pf__TrackDescriptor d = PF__TRACK_DESCRIPTOR__INIT;

	if (uuid)
		return uuid;
	uuid = new_uuid(t, KIND_GROUP, it->track, name, request);
	d.has_parent_uuid = d.has_name = d.has_description = d.has_child_ordering = true;
	d.parent_uuid = pf_tracks__process(t, it->track, it->ts);
	d.name = pf_out__string(t->o, name);
	d.description = pf_out__cstr(t->o, request ? "requests, in as many rows as ran at once"
						   : "async spans, in as many rows as ran at once");
	d.child_ordering = ORDER_EXPLICIT;
	write_descriptor(t, &d, uuid, it->ts);
	return remember(t, t->groups, key, uuid);
}

uint64_t pf_tracks__lane(struct pf_tracks *t, const struct item *it, uint32_t name, bool request)
{
	uint64_t uuid = known(t, t->lanes, it->lane_key);
	Pf__TrackDescriptor d = PF__TRACK_DESCRIPTOR__INIT;

	if (uuid)
		return uuid;
	d.parent_uuid = group_for(t, it, name, request);
	uuid = new_uuid(t, KIND_LANE, it->track, d.parent_uuid, it->lane);
	d.has_parent_uuid = d.has_name = true;
	d.name = pf_out__string(t->o, name);
	d.has_sibling_order_rank = d.has_sibling_merge_behavior = true;
	d.sibling_order_rank = (int32_t)(it->lane & INT32_MAX);
	d.sibling_merge_behavior = MERGE_NONE;
	write_descriptor(t, &d, uuid, it->ts);
	return remember(t, t->lanes, it->lane_key, uuid);
}

uint64_t pf_tracks__counter(struct pf_tracks *t, const struct track *track, enum pf_counter what,
			    uint32_t id, uint64_t ts)
{
	uint32_t leader = t->leader[track->index];
	uint64_t key = (uint64_t)leader << 34 | (uint64_t)what << 32 | id;
	uint64_t uuid = known(t, t->counters, key);
	Pf__TrackDescriptor d = PF__TRACK_DESCRIPTOR__INIT;
	Pf__CounterDescriptor c = PF__COUNTER_DESCRIPTOR__INIT;
	char name[64];

	if (uuid)
		return uuid;
	uuid = new_uuid(t, KIND_COUNTER, track, what, id);
	d.has_parent_uuid = d.has_name = true;
	d.parent_uuid = pf_tracks__process(t, track, ts);
	if (what == PF_COUNTER_PLAIN) {
		d.name = pf_out__string(t->o, id);
	} else {
		snprintf(name, sizeof(name), "memory %s (device %u)",
			 what == PF_COUNTER_IN_USE ? "in use" : "reserved", id);
		d.name = pf_out__cstr(t->o, name);
		c.has_unit = true;
		c.unit = UNIT_BYTES;
	}
	d.counter = &c;
	write_descriptor(t, &d, uuid, ts);
	return remember(t, t->counters, key, uuid);
}

uint64_t pf_tracks__row(struct pf_tracks *t, const struct track *track, const char *name,
			const char *about, uint64_t ts)
{
	Pf__TrackDescriptor d = PF__TRACK_DESCRIPTOR__INIT;
	uint64_t uuid;

	if (track) {
		d.has_parent_uuid = true;
		d.parent_uuid = pf_tracks__process(t, track, ts);
	}
	uuid = new_uuid(t, KIND_ROW, track, hash__bytes(name, strlen(name), 0), 0);
	d.has_name = d.has_description = d.has_sibling_merge_behavior = true;
	d.name = pf_out__cstr(t->o, name);
	d.description = pf_out__cstr(t->o, about);
	d.sibling_merge_behavior = MERGE_NONE;
	write_descriptor(t, &d, uuid, ts);
	return uuid;
}
