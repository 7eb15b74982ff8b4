// SPDX-License-Identifier: Apache-2.0
#include "user/recording/writer_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

#define DEFAULT_SEGMENT_BYTES (1u << 20)
#define META_EVERY_BYTES (64u << 10) /* a segment this large also says who recorded it */
#define FRAME_BYTES 16               /* more than type and length of an item take */

static uint64_t align_up(uint64_t v)
{
	return (v + FMT_ALIGN - 1) & ~(uint64_t)(FMT_ALIGN - 1);
}

static int pwritev_all(int fd, struct iovec *iov, int n, uint64_t off)
{
	while (n) {
		ssize_t done;

		if (!iov->iov_len) {
			iov++;
			n--;
			continue;
		}
		done = pwritev(fd, iov, n, (off_t)off);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		if (!done)
			return -EIO;
		off += (uint64_t)done;
		while (n && (size_t)done >= iov->iov_len) {
			done -= (ssize_t)iov->iov_len;
			iov++;
			n--;
		}
		if (n) {
			iov->iov_base = (char *)iov->iov_base + done;
			iov->iov_len -= (size_t)done;
		}
	}
	return 0;
}

int segment__write_file_header(struct recording_writer *w, bool incomplete)
{
	struct buf *b = &w->scratch;
	struct iovec iov;

	buf__reset(b);
	buf__append(b, FMT_FILE_MAGIC, FMT_MAGIC_BYTES);
	buf__u16le(b, FMT_MAJOR);
	buf__u16le(b, FMT_MINOR);
	buf__u32le(b, FMT_FILE_HEADER);
	buf__u64le(b, w->id);
	buf__u64le(b, incomplete ? 0 : w->seq);
	buf__u64le(b, 0);
	buf__u32le(b, (incomplete ? FMT_INCOMPLETE : 0) | (w->opts.drop_oldest ? FMT_CIRCULAR : 0));
	if (!buf__error(b))
		buf__u32le(b, (uint32_t)crc32_z(0, b->data, b->len));
	buf__u64le(b, 0);
	buf__u64le(b, 0);
	if (buf__error(b))
		return -ENOMEM;
	iov = (struct iovec){ b->data, b->len };
	return pwritev_all(w->fd, &iov, 1, 0);
}

/* --- what the segment must carry -------------------------------------------------------- */

void segment__item(struct buf *b, unsigned type, const void *payload, size_t len)
{
	buf__varint(b, type);
	buf__varint(b, len);
	buf__append(b, payload, len);
}

static void defs__queue(struct writer_defs *d, uint32_t i, uint64_t mark)
{
	if (d->v[i].mark == mark)
		return;
	d->v[i].mark = mark;
	buf__append(&d->queue, &i, sizeof(i));
	d->queued_bytes += d->v[i].len + FRAME_BYTES;
}

void segment__use_process(struct recording_writer *w, uint32_t process)
{
	if (process < w->processes.n)
		defs__queue(&w->processes, process, w->seq + 1);
}

void segment__use_thread(struct recording_writer *w, uint32_t thread)
{
	defs__queue(&w->threads, thread, w->seq + 1);
	segment__use_process(w, w->threads.v[thread].process);
}

static size_t string__stored_len(const struct recording_writer *w, uint32_t id)
{
	size_t len = strpool__len(w->names, id);

	return len < FMT_MAX_NAME ? len : FMT_MAX_NAME;
}

int segment__use_string(struct recording_writer *w, uint32_t id)
{
	if (id >= w->n_string_marks) {
		size_t n = w->n_string_marks ? w->n_string_marks : 1024;
		uint32_t *m;

		while (n <= id)
			n *= 2;
		m = realloc(w->string_marks, n * sizeof(*m));
		if (!m)
			return -ENOMEM;
		memset(m + w->n_string_marks, 0, (n - w->n_string_marks) * sizeof(*m));
		w->string_marks = m;
		w->n_string_marks = n;
	}
	if (w->string_marks[id] == (uint32_t)(w->seq + 1))
		return 0;
	w->string_marks[id] = (uint32_t)(w->seq + 1);
	buf__append(&w->strings, &id, sizeof(id));
	w->string_bytes += string__stored_len(w, id) + FRAME_BYTES;
	return 0;
}

uint64_t segment__size(const struct recording_writer *w)
{
	return FMT_SEGMENT_HEADER + FMT_ALIGN + 4 * FRAME_BYTES + w->string_bytes +
	       w->processes.queued_bytes + w->threads.queued_bytes + w->meta.len + w->blocks.len +
	       w->data.len + (w->has_meta ? 0 : w->meta_enc.len + FRAME_BYTES);
}

/* --- closing ------------------------------------------------------------------------------ */

static void segment__put_defs(struct buf *b, const struct writer_defs *d, unsigned type)
{
	const uint32_t *queue = (const uint32_t *)(const void *)d->queue.data;
	size_t i, n = d->queue.len / sizeof(*queue);

	for (i = 0; i < n; i++)
		segment__item(b, type, d->v[queue[i]].enc, d->v[queue[i]].len);
}

static void segment__put_strings(struct recording_writer *w)
{
	const uint32_t *ids = (const uint32_t *)(const void *)w->strings.data;
	size_t i, n = w->strings.len / sizeof(*ids);
	uint32_t before = 0;

	if (!n)
		return;
	buf__reset(&w->scratch);
	for (i = 0; i < n; i++) {
		size_t len = string__stored_len(w, ids[i]);

		buf__svarint(&w->scratch, (int64_t)ids[i] - (int64_t)before);
		buf__varint(&w->scratch, len);
		buf__append(&w->scratch, strpool__str(w->names, ids[i]), len);
		before = ids[i];
	}
	segment__item(&w->index, ITEM_STRINGS, w->scratch.data, w->scratch.len);
}

/* Definitions come before what uses them, so that a reader needs one pass. */
static int segment__build_index(struct recording_writer *w)
{
	buf__reset(&w->index);
	segment__put_strings(w);
	segment__put_defs(&w->index, &w->processes, ITEM_PROCESS);
	segment__put_defs(&w->index, &w->threads, ITEM_THREAD);
	if (w->opts.drop_oldest) {
		/* of fixed size, because what is dropped depends on the size of the segment */
		buf__varint(&w->index, ITEM_DROPPED);
		buf__varint(&w->index, 24);
		buf__u64le(&w->index, w->dropped.segments);
		buf__u64le(&w->index, w->dropped.events);
		buf__u64le(&w->index, w->dropped.until);
	}
	buf__append(&w->index, w->meta.data, w->meta.len);
	buf__append(&w->index, w->blocks.data, w->blocks.len);
	if (w->index.failed || w->scratch.failed || w->meta.failed || w->blocks.failed ||
	    w->data.failed || w->strings.failed || w->processes.queue.failed ||
	    w->threads.queue.failed)
		return -ENOMEM;
	return w->index.len > FMT_MAX_INDEX || w->data.len > FMT_MAX_DATA ? -EFBIG : 0;
}

static uint64_t segment__exact_size(const struct recording_writer *w)
{
	return align_up(FMT_SEGMENT_HEADER + w->index.len + w->data.len);
}

/*
 * Where @len bytes go in a circular file, and how many of the oldest segments that costs. Live
 * segments lie behind each other, the oldest right behind the write position; what does not fit
 * before the limit goes to the front.
 */
static uint64_t circular__place(const struct recording_writer *w, uint64_t len, size_t *dropped)
{
	const struct writer_live *live = (const struct writer_live *)(const void *)w->live.data;
	size_t i = 0, n = w->live.len / sizeof(*live);
	uint64_t at = w->pos;

	if (at + len > w->opts.max_bytes) {
		while (i < n && live[i].off >= at)
			i++;
		at = FMT_FILE_HEADER;
	}
	while (i < n && live[i].off >= at && live[i].off < at + len)
		i++;
	*dropped = i;
	return at;
}

/* Start of the oldest event that stays in the file when @dropped segments go. */
static uint64_t circular__oldest_ts(const struct recording_writer *w, size_t dropped)
{
	const struct writer_live *live = (const struct writer_live *)(const void *)w->live.data;
	size_t i, n = w->live.len / sizeof(*live);
	uint64_t ts = w->first_ts;

	for (i = dropped; i < n; i++)
		if (live[i].first_ts < ts)
			ts = live[i].first_ts;
	return ts;
}

static int circular__cut(struct recording_writer *w, uint64_t size)
{
	if (w->size <= size)
		return 0;
	if (ftruncate(w->fd, (off_t)size))
		return -errno;
	w->size = size;
	return 0;
}

/* Finds the place of the segment; what dies with the segments under it moves into it. */
static int circular__make_room(struct recording_writer *w)
{
	size_t i, dropped, budget = (size_t)(w->opts.max_bytes / 4);
	const struct writer_live *live;
	uint64_t at;
	int err;

	for (;;) {
		at = circular__place(w, segment__exact_size(w), &dropped);
		live = (const struct writer_live *)(const void *)w->live.data;
		if (!dropped)
			break;
		writer__prune_states(w, circular__oldest_ts(w, dropped));
		if (!writer__save_states(w, live[dropped - 1].seq, budget))
			break;
		err = segment__build_index(w);
		if (err)
			return err;
	}
	if (at + segment__exact_size(w) > w->opts.max_bytes)
		return -EFBIG;
	for (i = 0; i < dropped; i++) {
		w->dropped.segments++;
		w->dropped.events += live[i].events;
		if (live[i].events && live[i].last_ts > w->dropped.until)
			w->dropped.until = live[i].last_ts;
	}
	err = dropped ? segment__build_index(w) : 0;
	if (err)
		return err;
	w->live.len -= dropped * sizeof(*live);
	if (dropped)
		memmove(w->live.data, w->live.data + dropped * sizeof(*live), w->live.len);
	/* What lay behind the write position is older than what is overwritten next. */
	err = at < w->pos ? circular__cut(w, w->pos) : 0;
	/* Of what lies behind this segment nothing is left but the rest of one. */
	if (!err && (!w->live.len || live[0].off < at))
		err = circular__cut(w, at);
	w->pos = at;
	return err;
}

static int segment__write(struct recording_writer *w)
{
	static const uint8_t zeros[FMT_ALIGN];
	uint64_t raw = FMT_SEGMENT_HEADER + w->index.len + w->data.len, len = align_up(raw);
	struct buf *h = &w->scratch;
	struct iovec iov[4];
	int err;

	buf__reset(h);
	buf__append(h, FMT_SEGMENT_MAGIC, FMT_MAGIC_BYTES);
	buf__u64le(h, w->id);
	buf__u64le(h, w->seq);
	buf__u32le(h, FMT_SEGMENT_HEADER);
	buf__u32le(h, (uint32_t)w->index.len);
	buf__u64le(h, w->data.len);
	buf__u32le(h, (uint32_t)crc32_z(0, w->index.data, w->index.len));
	buf__u16le(h, FMT_MAJOR);
	buf__u16le(h, FMT_MINOR);
	buf__u64le(h, 0);
	buf__u32le(h, 0);
	if (buf__error(h))
		return -ENOMEM;
	buf__u32le(h, (uint32_t)crc32_z(0, h->data, h->len));
	if (buf__error(h))
		return -ENOMEM;
	iov[0] = (struct iovec){ h->data, h->len };
	iov[1] = (struct iovec){ w->index.data, w->index.len };
	iov[2] = (struct iovec){ w->data.data, w->data.len };
	iov[3] = (struct iovec){ (void *)(uintptr_t)zeros, (size_t)(len - raw) };
	err = pwritev_all(w->fd, iov, 4, w->pos);
	if (err)
		return err;
	if (w->opts.drop_oldest) {
		struct writer_live l = {
			w->pos, len, w->seq, w->first_ts, w->last_ts, w->seg_events
		};

		buf__append(&w->live, &l, sizeof(l));
		if (buf__error(&w->live))
			return -ENOMEM;
	}
	w->pos += len;
	if (w->pos > w->size)
		w->size = w->pos;
	return 0;
}

static void segment__reset(struct recording_writer *w)
{
	w->seq++;
	buf__reset(&w->data);
	buf__reset(&w->blocks);
	buf__reset(&w->meta);
	buf__reset(&w->index);
	buf__reset(&w->strings);
	buf__reset(&w->processes.queue);
	buf__reset(&w->threads.queue);
	w->string_bytes = w->processes.queued_bytes = w->threads.queued_bytes = 0;
	w->has_meta = false;
	w->first_ts = UINT64_MAX;
	w->last_ts = w->seg_events = 0;
}

int segment__close(struct recording_writer *w)
{
	int err;

	if (w->err)
		return w->err;
	if (!w->data.len && !w->blocks.len && !w->meta.len && !w->processes.queue.len &&
	    !w->threads.queue.len)
		return 0;
	if (!w->has_meta && (w->opts.drop_oldest || w->data.len >= META_EVERY_BYTES)) {
		segment__item(&w->meta, ITEM_META, w->meta_enc.data, w->meta_enc.len);
		w->has_meta = true;
	}
	err = segment__build_index(w);
	if (!err && w->opts.drop_oldest)
		err = circular__make_room(w);
	if (!err)
		err = segment__write(w);
	if (err) {
		/* half a segment at the end says nothing: give its space back */
		if (!w->opts.drop_oldest && !ftruncate(w->fd, (off_t)w->pos))
			w->size = w->pos;
		w->err = err;
		return err;
	}
	segment__reset(w);
	return 0;
}

int segment__close_when_large(struct recording_writer *w)
{
	uint64_t limit = w->opts.segment_bytes ? w->opts.segment_bytes : DEFAULT_SEGMENT_BYTES;

	return segment__size(w) >= limit ? segment__close(w) : 0;
}
