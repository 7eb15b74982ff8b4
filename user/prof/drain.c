// SPDX-License-Identifier: Apache-2.0
/* Moving data: ring to chains, chains to the file, thread buffers at a barrier. */
#include <errno.h>
#include <string.h>

#include "user/prof/recorder.h"

int recorder__on_record(void *ctx, const void *rec, size_t size)
{
	struct clika_recorder *r = ctx;

	if (r->calibrating && calibrate__is_own(r, rec, size))
		return 0;
	return decoder__record(r->decoder, rec, size, r->pass);
}

/* What the writer refuses because the file is full ends the recording, it is no failure. */
static int recorder__checked(struct clika_recorder *r, int ret, struct clika_error *err)
{
	if (!ret)
		ret = r->env.err;
	if (ret == -EFBIG || writer__full(r->w)) {
		if (!r->full)
			r->full_ts = clock__boottime_ns();
		r->full = true;
		r->env.err = 0;
		return 0;
	}
	if (ret)
		return error__set(err, ret, "%s: cannot write the recording: %s",
				  r->path ? r->path : "recording", strerror(-ret));
	return 0;
}

int recorder__write_out(struct clika_recorder *r, struct clika_error *err)
{
	int ret = people__flush(r->people);

	r->last_flush = clock__boottime_ns();
	return recorder__checked(r, ret, err);
}

int recorder__drain(struct clika_recorder *r, struct clika_error *err)
{
	ssize_t n;

	r->pass++;
	n = ring__drain(r->ring);
	if (n < 0)
		return recorder__checked(r, (int)n, err);
	r->idle = n ? 0 : r->idle + 1;
	if (r->env.pending_bytes > r->pending_limit)
		return recorder__write_out(r, err);
	return 0;
}

static int harvest_process(void *ctx, struct person_process *proc)
{
	struct clika_recorder *r = ctx;
	struct harvested h;
	struct seen_buffer s;

	if (!proc->lpid)
		return 0;
	for (struct person_thread *th = proc->threads; th; th = th->next) {
		for (struct thread_buffer *b = th->buffers; b; b = b->next) {
			int ret = harvest__look(proc->lpid, b->addr, &s);

			if (ret == -ESRCH || ret == -EPERM)
				return 0;
			if (ret == -ETIMEDOUT) {
				writer__warning(
					r->w, "target-stuck",
					"memory of a target could not be read in "
					"time; what its threads had not handed over is missing");
				return 0;
			}
			/* The same memory under a new owner is another buffer; a library that was unloaded
			 * has taken its buffers along, flushed. */
			if (ret != 1 || s.born != b->born)
				continue;
			decoder__dropped(r->decoder, b, s.dropped);
			ret = 0;
			if ((!b->positioned || s.head > b->expected) &&
			    harvest__read(proc->lpid, &s, b->positioned ? b->expected : s.flushed,
					  &h) == 1) {
				/* What was handed over before these bytes may still lie in the ring. */
				ret = recorder__drain(r, NULL);
				/* The drain may have made this buffer's entry give way. */
				b = people__buffer(r->people, th, s.addr, s.born);
				if (!b)
					return -ENOMEM;
				if (!ret)
					ret = decoder__harvest(r->decoder, th, b, h.from, h.data,
							       h.len);
			}
			for (unsigned i = 0; i < s.depth && !ret; i++)
				ret = decoder__open(r->decoder, b, i, s.open[i].start,
						    s.open[i].name);
			if (ret && !r->env.err)
				r->env.err = ret;
		}
	}
	return 0;
}

int recorder__barrier(struct clika_recorder *r, struct clika_error *err)
{
	int ret = recorder__drain(r, err);

	if (ret)
		return ret;
	people__each_process(r->people, harvest_process, r);
	ret = recorder__drain(r, err);
	return ret ? ret : recorder__write_out(r, err);
}
