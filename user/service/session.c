// SPDX-License-Identifier: Apache-2.0
/*
 * One session of the service, in a process of its own with its own BPF objects, ring and recording:
 * it can neither see nor starve another.
 */
#include "user/service/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <clika/client.h>

#define TICK_MS 20
#define ANSWER_MS 2000
#define MAX_RING (64ull << 20)
#define MAX_CAPTURES_OPEN 256
/* A connection that makes no session keeps others from a place. */
#define UNUSED_NS (10 * NSEC_PER_SEC)

struct run {
	struct service_session *s;
	struct clika_recorder *r;
	struct worker worker;
	struct proto_message m;
	uint32_t captures_open;
	uint64_t begun, until;
	bool ended, full, hello;
};

static int answer(struct run *run, uint32_t seq, uint16_t type, int code, const char *why,
		  const struct buf *payload)
{
	struct proto_header h = { .seq = seq, .type = type, .code = code };
	struct buf text = { 0 };
	int ret;

	if (code) {
		proto__put_string(&text, why);
		payload = &text;
	}
	ret = proto__send(run->s->sock, &h, payload, NULL, 0,
			  clock__boottime_ns() + ANSWER_MS * NSEC_PER_MSEC);
	buf__free(&text);
	return ret;
}

static int refuse(struct run *run, int code, const char *why)
{
	return answer(run, run->m.h.seq, run->m.h.type, code, why, NULL);
}

/* --- who may profile whom ------------------------------------------------------------------------ */

static bool may_profile(const struct peer *peer, uint32_t pid)
{
	return peer->uid == 0 || owner__is((pid_t)pid, peer->uid);
}

static int target_of(struct run *run, const struct proto_new *m, pid_t *pid, char *why, size_t n)
{
	const struct peer *peer = &run->s->peer;

	switch (m->target) {
	case CLIKA_CLIENT_SELF:
		*pid = (pid_t)peer->pid;
		break;
	case CLIKA_CLIENT_PID:
		*pid = (pid_t)m->pid;
		break;
	case CLIKA_CLIENT_SYSTEM:
		*pid = 0;
		if (peer->uid == 0)
			return 0;
		snprintf(why, n, "only root may record the whole machine");
		return -EPERM;
	default:
		snprintf(why, n, "unknown kind of target %u", m->target);
		return -EINVAL;
	}
	if (*pid <= 0 || !may_profile(peer, (uint32_t)*pid)) {
		snprintf(why, n,
			 "process %d is not yours to profile: it must run as your user and be "
			 "dumpable",
			 (int)*pid);
		return -EPERM;
	}
	return 0;
}

/* --- requests ---------------------------------------------------------------------------------------- */

/* Started by a process for itself: it may name files, since it could read them as well. */
static bool is_private(const struct run *run)
{
	return run->s->o->private_fd >= 0 && run->s->peer.uid == geteuid();
}

static int on_new(struct run *run, struct cursor *c)
{
	const struct clika_service_opts *so = run->s->o;
	struct clika_recorder_opts o;
	struct clika_prof_error err = { 0 };
	struct proto_new m;
	char why[300] = "";
	struct buf b = { 0 };
	pid_t pid = 0;
	int ret;

	if (run->r)
		return refuse(run, -EALREADY, "this connection has its session already");
	if (proto__get_new(c, &m))
		return refuse(run, -EBADMSG, "malformed request");
	ret = target_of(run, &m, &pid, why, sizeof(why));
	if (!ret && m.budget != PROTO_BUDGET_OFF && m.budget > PROTO_BUDGET_MAX) {
		ret = -EINVAL;
		snprintf(why, sizeof(why), "a budget is at most %u %% of CPU time",
			 PROTO_BUDGET_MAX / 10000);
	}
	if (ret) {
		proto_new__free(&m);
		return refuse(run, ret, why);
	}
	clika_recorder_opts__init(&o);
	o.target = pid ? CLIKA_TARGET_PIDS : CLIKA_TARGET_SYSTEM;
	o.pids = &pid;
	o.n_pids = pid ? 1 : 0;
	o.no_follow = !(m.flags & NEW_CHILDREN);
	o.redact = m.flags & NEW_REDACT;
	o.drop_oldest = m.flags & NEW_FLIGHT;
	o.ring_bytes = m.ring_bytes > MAX_RING ? MAX_RING : m.ring_bytes;
	o.max_bytes = so->max_bytes ? so->max_bytes : 1ull << 30;
	if (m.max_bytes && m.max_bytes < o.max_bytes)
		o.max_bytes = m.max_bytes;
	o.probes = (const char *const *)m.probes;
	o.n_probes = m.n_probes;
	o.usdts = (const char *const *)m.usdts;
	o.n_usdts = m.n_usdts;
	o.no_auto = m.flags & NEW_NO_AUTO;
	o.recipes = (const char *const *)m.recipes;
	o.n_recipes = m.n_recipes;
	o.no_recipe_files = !is_private(run);
	o.budget = m.budget == PROTO_BUDGET_OFF ? -1 : m.budget / 1e6;
	o.no_capture = true;
	o.on_behalf = run->s->peer.uid ? (int64_t)run->s->peer.uid : -1;
	o.log = so->log;
	o.log_ctx = so->log_ctx;
	ret = clika_recorder__new(&o, &run->r, &err);
	if (!ret)
		ret = clika_recorder__start(run->r, &err);
	/* Between the check and the attach the pid may have become somebody else's. */
	if (!ret && pid && !may_profile(&run->s->peer, (uint32_t)pid)) {
		ret = -EPERM;
		snprintf(err.msg, sizeof(err.msg), "process %d is not yours to profile", (int)pid);
	}
	/* To a client that code says that there is no loader. */
	if (ret == -ENOENT)
		ret = -EINVAL;
	if (ret) {
		clika_recorder__free(run->r, NULL, NULL);
		run->r = NULL;
		proto_new__free(&m);
		return refuse(run, ret, err.msg);
	}
	if (run->s->slot) {
		run->s->slot->info.target = m.target;
		run->s->slot->info.target_pid = (uint32_t)pid;
	}
	proto_new__free(&m);
	buf__u32le(&b, (uint32_t)pid);
	ret = answer(run, run->m.h.seq, run->m.h.type, 0, NULL, &b);
	buf__free(&b);
	return ret;
}

static int on_capture_begin(struct run *run, struct cursor *c)
{
	struct clika_prof_error err = { 0 };
	char *tag = proto__get_string(c);
	struct buf b = { 0 };
	int64_t id;
	int ret;

	if (!tag)
		return refuse(run, -EBADMSG, "malformed request");
	if (run->captures_open >= MAX_CAPTURES_OPEN) {
		free(tag);
		return refuse(run, -EMFILE, "too many captures are open");
	}
	id = clika_recorder__capture_begin(run->r, tag, &err);
	free(tag);
	if (id < 0)
		return refuse(run, (int)id, err.msg);
	run->captures_open++;
	buf__u64le(&b, (uint64_t)id);
	ret = answer(run, run->m.h.seq, run->m.h.type, 0, NULL, &b);
	buf__free(&b);
	return ret;
}

static int on_capture_end(struct run *run, struct cursor *c)
{
	struct clika_prof_error err = { 0 };
	int64_t id = (int64_t)cursor__u64le(c);
	int ret = clika_recorder__capture_end(run->r, id, &err);

	if (ret)
		return refuse(run, ret, err.msg);
	run->captures_open--;
	return answer(run, run->m.h.seq, run->m.h.type, 0, NULL, NULL);
}

static int barrier(struct run *run)
{
	struct clika_prof_error err = { 0 };
	int ret = clika_recorder__flush(run->r, &err);

	/* What a full file no longer takes is no failure of this request: the statistics say so. */
	if (ret == -EFBIG)
		ret = 0;
	return ret ? refuse(run, ret, err.msg) : 0;
}

static int start_export(struct run *run, const struct export_job *job)
{
	unsigned seconds = run->s->o->export_seconds ? run->s->o->export_seconds : 300;
	int ret;

	if (run->worker.pid)
		return refuse(run, -EBUSY, "an export is still being written");
	ret = clika_recorder__flush(run->r, NULL);
	if (ret && ret != -EFBIG)
		return refuse(run, ret, "the recording could not be brought up to date");
	ret = worker__start(&run->worker, clika_recorder__recording_fd(run->r), job, &run->s->peer,
			    seconds);
	if (ret)
		return refuse(run, ret, "cannot start an export worker");
	run->worker.seq = run->m.h.seq;
	return 0; /* answered when the worker has ended */
}

static int on_export(struct run *run, struct cursor *c)
{
	struct export_job job = { .fds = run->m.fds };
	char *capture = NULL;
	int ret;

	job.formats = proto__get_strings(c, &job.n);
	if (job.formats)
		capture = proto__get_string(c);
	job.capture = capture;
	job.last_ns = cursor__u64le(c);
	if (!capture || c->bad || !job.n || job.n != run->m.n_fds)
		ret = refuse(run, -EBADMSG, "an export needs one descriptor for each format");
	else
		ret = start_export(run, &job);
	free(capture);
	proto__free_strings(job.formats, job.n);
	return ret;
}

static int on_cancel(struct run *run, struct cursor *c)
{
	uint32_t seq = cursor__u32le(c);
	int ret = 0;

	if (c->bad)
		return refuse(run, -EBADMSG, "malformed request");
	/* Another one, or none: it has ended meanwhile. */
	if (run->worker.pid && run->worker.seq == seq) {
		worker__kill(&run->worker);
		ret = answer(run, seq, REQ_EXPORT, -ECANCELED, "the export was given up", NULL);
	}
	return ret ? ret : answer(run, run->m.h.seq, REQ_CANCEL, 0, NULL, NULL);
}

static int on_stats(struct run *run)
{
	struct clika_recorder_stats st = { .sz = sizeof(st) };
	struct proto_stats p = { 0 };
	struct buf b = { 0 };
	int ret;

	clika_recorder__stats(run->r, &st);
	p.elapsed_ns = st.elapsed_ns;
	p.records = st.records;
	p.spans = st.spans;
	p.lost = st.lost;
	p.filtered = st.filtered;
	p.unknown_at_most = st.unknown_at_most;
	p.file_bytes = st.file_bytes;
	p.processes = st.processes;
	p.threads = st.threads;
	p.captures_open = run->captures_open;
	p.targets_alive = st.targets_alive;
	p.full = run->full;
	p.ended = run->ended;
	proto__put_stats(&b, &p);
	ret = answer(run, run->m.h.seq, run->m.h.type, 0, NULL, &b);
	buf__free(&b);
	return ret;
}

static int on_list(struct run *run)
{
	struct service_session *s = run->s;
	struct buf b = { 0 };
	uint32_t n = 0;
	int ret;

	buf__u32le(&b, 0);
	for (unsigned i = 0; i < s->n_slots; i++) {
		struct session_slot *slot = &s->slots[i];

		if (!__atomic_load_n(&slot->used, __ATOMIC_ACQUIRE) || slot == s->slot ||
		    (s->peer.uid && slot->info.uid != s->peer.uid))
			continue;
		proto__put_session(&b, &slot->info);
		n++;
	}
	if (!buf__error(&b))
		memcpy(b.data, &n, sizeof(n));
	ret = answer(run, run->m.h.seq, run->m.h.type, 0, NULL, &b);
	buf__free(&b);
	return ret;
}

static int on_hello(struct run *run)
{
	struct buf b = { 0 };
	int ret;

	run->hello = true;
	buf__u32le(&b, PROTO_VERSION);
	proto__put_string(&b, clika_prof_version());
	ret = answer(run, run->m.h.seq, run->m.h.type, 0, NULL, &b);
	buf__free(&b);
	return ret;
}

static int handle(struct run *run)
{
	struct cursor c = cursor__over(run->m.payload, run->m.payload_len);
	char why[120];

	if (run->m.h.type == REQ_HELLO)
		return on_hello(run);
	if (run->m.h.version != PROTO_VERSION) {
		snprintf(why, sizeof(why),
			 "the loader speaks protocol %u, its caller %u: install the same version "
			 "of both",
			 PROTO_VERSION, run->m.h.version);
		return refuse(run, -EPROTONOSUPPORT, why);
	}
	if (!run->hello)
		return refuse(run, -EPROTONOSUPPORT, "say hello first");
	switch (run->m.h.type) {
	case REQ_NEW:
		return on_new(run, &c);
	case REQ_LIST:
		return on_list(run);
	}
	if (!run->r)
		return refuse(run, -EINVAL, "there is no session yet");
	switch (run->m.h.type) {
	case REQ_CAPTURE_BEGIN:
		return on_capture_begin(run, &c);
	case REQ_CAPTURE_END:
		return on_capture_end(run, &c);
	case REQ_FLUSH:
		return barrier(run) ? 0 : answer(run, run->m.h.seq, REQ_FLUSH, 0, NULL, NULL);
	case REQ_EXPORT:
		return on_export(run, &c);
	case REQ_STATS:
		return on_stats(run);
	case REQ_CANCEL:
		return on_cancel(run, &c);
	}
	return refuse(run, -EINVAL, "unknown request");
}

/* --- the loop --------------------------------------------------------------------------------------- */

static void look_at_recorder(struct run *run)
{
	struct clika_recorder_stats st = { .sz = sizeof(st) };
	int ret;

	if (!run->r)
		return;
	if (!run->ended && !run->full) {
		ret = clika_recorder__poll(run->r, 0, NULL);
		clika_recorder__stats(run->r, &st);
		if (ret <= 0) {
			run->full = st.full;
			run->ended = !st.full;
		}
		if (run->s->slot) {
			run->s->slot->info.records = st.records;
			run->s->slot->info.lost = st.lost;
			run->s->slot->info.bytes = st.file_bytes;
		}
	}
}

static int look_at_worker(struct run *run)
{
	char why[600];

	if (!worker__ended(&run->worker, why, sizeof(why)))
		return 0;
	return answer(run, run->worker.seq, REQ_EXPORT, why[0] ? -EIO : 0, why, NULL);
}

void service_session__run(struct service_session *s)
{
	unsigned seconds = s->o->max_seconds ? s->o->max_seconds : 86400;
	struct run *run = calloc(1, sizeof(*run));

	if (!run)
		return;
	run->s = s;
	run->begun = clock__boottime_ns();
	run->until = run->begun + seconds * NSEC_PER_SEC;
	while (clock__boottime_ns() < run->until) {
		struct pollfd p[2] = { { s->sock, POLLIN, 0 },
				       { run->r ? clika_recorder__fd(run->r) : -1, POLLIN, 0 } };
		int ret;

		if (poll(p, run->ended || run->full ? 1 : 2, run->r ? TICK_MS : 1000) < 0 &&
		    errno != EINTR)
			break;
		look_at_recorder(run);
		if (look_at_worker(run))
			break;
		if (!run->r && clock__boottime_ns() - run->begun > UNUSED_NS)
			break;
		if (!(p[0].revents & (POLLIN | POLLHUP | POLLERR)))
			continue;
		ret = proto__receive(s->sock, &run->m, clock__boottime_ns() + NSEC_PER_MSEC);
		if (ret == -ETIMEDOUT)
			continue;
		if (ret)
			break; /* the client has gone, or does not speak this protocol */
		ret = handle(run);
		proto_message__close_fds(&run->m);
		if (ret)
			break;
	}
	worker__kill(&run->worker);
	clika_recorder__free(run->r, NULL, NULL);
	free(run);
}
