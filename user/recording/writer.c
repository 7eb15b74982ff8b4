// SPDX-License-Identifier: Apache-2.0
#include "user/recording/writer_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <zlib.h>

#include "user/recording/info_codec.h"

#define MIN_MAX_BYTES (64u << 10)
#define MIN_CIRCULAR_BYTES (1u << 20)
#define MAX_SEGMENT_BYTES (16u << 20)
#define MAX_CALL_BYTES (32u << 20) /* together well below what an index may hold */
#define MAX_DEFS (UINT32_MAX / 2)

/* --- making one --------------------------------------------------------------------------- */

static int opts__check(struct writer_opts *o, struct clika_error *err)
{
	if (o->max_bytes && o->drop_oldest && o->max_bytes < MIN_CIRCULAR_BYTES)
		return error__set(err, -EINVAL,
				  "a recording that drops its oldest part needs a limit "
				  "of at least 1 MiB");
	if (o->max_bytes && o->max_bytes < MIN_MAX_BYTES)
		return error__set(err, -EINVAL, "the limit of a recording must be at least 64 KiB");
	if (!o->max_bytes)
		o->drop_oldest = false;
	if (o->max_bytes > INT64_MAX)
		o->max_bytes = INT64_MAX;
	if (o->segment_bytes > MAX_SEGMENT_BYTES)
		o->segment_bytes = MAX_SEGMENT_BYTES;
	/* the oldest segment goes as a whole: it should be a small part of all */
	if (o->drop_oldest && (!o->segment_bytes || o->segment_bytes > o->max_bytes / 8))
		o->segment_bytes = o->max_bytes / 8 < (1u << 20) ? (size_t)(o->max_bytes / 8)
								 : 1u << 20;
	return 0;
}

static void writer__free(struct recording_writer *w)
{
	struct writer_defs *d[] = { &w->processes, &w->threads };
	size_t i, k;

	if (w->fd >= 0)
		close(w->fd);
	for (i = 0; i < ARRAY_SIZE(d); i++) {
		for (k = 0; k < d[i]->n; k++)
			free(d[i]->v[k].enc);
		free(d[i]->v);
		buf__free(&d[i]->queue);
	}
	for (i = 0; i < w->n_states; i++)
		free(w->states[i].enc);
	free(w->states);
	map64__free(w->state_at);
	buf__free(&w->data);
	buf__free(&w->blocks);
	buf__free(&w->meta);
	buf__free(&w->index);
	buf__free(&w->strings);
	buf__free(&w->scratch);
	buf__free(&w->meta_enc);
	buf__free(&w->live);
	free(w->string_marks);
	block_encoder__free(w->encoder);
	free(w->path);
	free(w);
}

/* Takes @fd over, also on failure. */
static int writer__new(int fd, const char *path, const struct recording_meta *meta,
		       const struct strpool *names, const struct writer_opts *opts,
		       struct recording_writer **out, struct clika_error *err)
{
	struct recording_writer *w = calloc(1, sizeof(*w));
	int code;

	*out = NULL;
	if (!w) {
		close(fd);
		return error__set(err, -ENOMEM, "out of memory");
	}
	w->fd = fd;
	w->names = names;
	if (opts)
		w->opts = *opts;
	else
		w->opts.owner = (uid_t)-1;
	w->path = strdup(path);
	w->encoder = block_encoder__new();
	w->state_at = map64__new();
	recording_meta__encode(&w->meta_enc, meta);
	if (!w->path || !w->encoder || !w->state_at || buf__error(&w->meta_enc)) {
		code = error__set(err, -ENOMEM, "out of memory");
		goto fail;
	}
	code = opts__check(&w->opts, err);
	if (code)
		goto fail;
	w->reserve = w->opts.max_bytes / 16 < (256u << 10) ? w->opts.max_bytes / 16 : 256u << 10;
	w->pos = w->size = FMT_FILE_HEADER;
	w->first_ts = UINT64_MAX;
	/* what a recorded process cannot guess, so that none can plant segments in its strings */
	if (getrandom(&w->id, sizeof(w->id), 0) != (ssize_t)sizeof(w->id))
		w->id = hash__mix(clock__boottime_ns(), (uint64_t)(uintptr_t)w);
	code = ftruncate(fd, 0) ? -errno : segment__write_file_header(w, true);
	if (!code) {
		segment__item(&w->meta, ITEM_META, w->meta_enc.data, w->meta_enc.len);
		w->has_meta = true;
		code = segment__close(w);
	}
	if (code) {
		error__set(err, code, "cannot write %s: %s", path, strerror(-code));
		goto fail;
	}
	*out = w;
	return 0;
fail:
	writer__free(w);
	return code;
}

int writer__create_fd(int fd, const struct recording_meta *meta, const struct strpool *names,
		      const struct writer_opts *opts, struct recording_writer **out,
		      struct clika_error *err)
{
	return writer__new(fd, "the recording", meta, names, opts, out, err);
}

int writer__create(const char *path, const struct recording_meta *meta, const struct strpool *names,
		   const struct writer_opts *opts, struct recording_writer **out,
		   struct clika_error *err)
{
	uid_t owner = opts ? opts->owner : (uid_t)-1;
	struct newfile f;
	int code, fd;

	*out = NULL;
	code = newfile__create(&f, path, owner, opts ? opts->group : (gid_t)-1, err);
	if (code)
		return code;
	fd = f.fd;
	f.fd = -1;
	code = writer__new(fd, path, meta, names, opts, out, err);
	if (!code) {
		code = newfile__publish(&f);
		if (code) {
			error__set(err, code, "cannot create %s: %s", path, strerror(-code));
			writer__free(*out);
			*out = NULL;
		}
	}
	newfile__close(&f);
	return code;
}

/* --- processes and threads -------------------------------------------------------------------- */

/* Stores what lies in scratch as definition @i. */
static int defs__store(struct recording_writer *w, struct writer_defs *d, uint32_t i)
{
	uint8_t *enc;

	if (buf__error(&w->scratch))
		return -ENOMEM;
	enc = malloc(w->scratch.len);
	if (!enc)
		return -ENOMEM;
	memcpy(enc, w->scratch.data, w->scratch.len);
	free(d->v[i].enc);
	if (d->v[i].mark == w->seq + 1) /* queued with the old size */
		d->queued_bytes += w->scratch.len > d->v[i].len ? w->scratch.len - d->v[i].len : 0;
	d->v[i].enc = enc;
	d->v[i].len = (uint32_t)w->scratch.len;
	return 0;
}

static int defs__add(struct recording_writer *w, struct writer_defs *d, uint32_t process)
{
	int err;

	if (d->n == d->cap) {
		uint32_t cap = d->cap ? d->cap * 2 : 64;
		struct writer_def *v;

		if (cap > MAX_DEFS)
			return -E2BIG;
		v = realloc(d->v, cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		d->v = v;
		d->cap = cap;
	}
	d->v[d->n] = (struct writer_def){ .process = process };
	err = defs__store(w, d, d->n);
	if (!err)
		d->n++;
	return err;
}

int writer__add_process(struct recording_writer *w, const struct process_info *p, uint32_t *index)
{
	int err;

	if (w->err)
		return w->err;
	buf__reset(&w->scratch);
	process_info__encode(&w->scratch, w->processes.n, p);
	err = defs__add(w, &w->processes, 0);
	if (err)
		return err;
	*index = w->processes.n - 1;
	segment__use_process(w, *index);
	return segment__close_when_large(w);
}

int writer__set_process(struct recording_writer *w, uint32_t index, const struct process_info *p)
{
	int err;

	if (w->err)
		return w->err;
	if (index >= w->processes.n)
		return -EINVAL;
	buf__reset(&w->scratch);
	process_info__encode(&w->scratch, index, p);
	err = defs__store(w, &w->processes, index);
	if (err)
		return err;
	segment__use_process(w, index);
	return segment__close_when_large(w);
}

int writer__add_thread(struct recording_writer *w, const struct thread_info *t, uint32_t *index)
{
	int err;

	if (w->err)
		return w->err;
	if (t->process >= w->processes.n)
		return -EINVAL;
	buf__reset(&w->scratch);
	thread_info__encode(&w->scratch, w->threads.n, t);
	err = defs__add(w, &w->threads, t->process);
	if (err)
		return err;
	*index = w->threads.n - 1;
	segment__use_thread(w, *index);
	return segment__close_when_large(w);
}

int writer__set_thread(struct recording_writer *w, uint32_t index, const struct thread_info *t)
{
	int err;

	if (w->err)
		return w->err;
	if (index >= w->threads.n || t->process >= w->processes.n)
		return -EINVAL;
	buf__reset(&w->scratch);
	thread_info__encode(&w->scratch, index, t);
	err = defs__store(w, &w->threads, index);
	if (err)
		return err;
	w->threads.v[index].process = t->process;
	segment__use_thread(w, index);
	return segment__close_when_large(w);
}

/* --- blocks --------------------------------------------------------------------------------------- */

static int writer__chunk(struct recording_writer *w, uint32_t thread, uint32_t stream,
			 const struct enc_chunk *c, const uint8_t *bytes, const uint32_t *used)
{
	struct buf *b = &w->scratch;
	size_t i;
	int err;

	for (i = 0; i < c->n_used; i++) {
		err = segment__use_string(w, used[c->first_used + i]);
		if (err)
			return err;
	}
	segment__use_thread(w, thread);
	if (c->ends) {
		segment__item(&w->blocks, ITEM_ENDS, bytes, c->len);
		return 0;
	}
	buf__reset(b);
	buf__varint(b, thread);
	buf__varint(b, stream);
	buf__varint(b, c->count);
	buf__varint(b, c->first_ts);
	buf__varint(b, c->last_ts - c->first_ts);
	buf__varint(b, c->last_end - c->first_ts);
	buf__varint(b, w->data.len);
	buf__varint(b, c->len);
	buf__u32le(b, (uint32_t)crc32_z(0, bytes, c->len));
	if (buf__error(b))
		return -ENOMEM;
	segment__item(&w->blocks, ITEM_BLOCK, b->data, b->len);
	buf__append(&w->data, bytes, c->len);
	if (c->first_ts < w->first_ts)
		w->first_ts = c->first_ts;
	if (c->last_ts > w->last_ts)
		w->last_ts = c->last_ts;
	w->seg_events += c->count;
	w->events += c->count;
	return 0;
}

/* How much larger the segment grows at most by what the encoder holds. */
static uint64_t writer__call_bytes(const struct recording_writer *w, uint32_t thread)
{
	const struct enc_chunk *chunks;
	const uint32_t *used;
	size_t i, n_used = block_encoder__used(w->encoder, &used);
	uint64_t bytes = block_encoder__out(w->encoder)->len;
	uint32_t process = w->threads.v[thread].process;

	bytes += block_encoder__chunks(w->encoder, &chunks) * 64;
	for (i = 0; i < n_used; i++)
		if (used[i] >= w->n_string_marks ||
		    w->string_marks[used[i]] != (uint32_t)(w->seq + 1))
			bytes += strpool__len(w->names, used[i]) + 16;
	if (w->threads.v[thread].mark != w->seq + 1)
		bytes += w->threads.v[thread].len + 16;
	if (w->processes.v[process].mark != w->seq + 1)
		bytes += w->processes.v[process].len + 16;
	return bytes;
}

int writer__block(struct recording_writer *w, uint32_t thread, uint32_t stream,
		  const struct event *events, size_t n, const struct span_end *ends, size_t n_ends)
{
	bool whole = w->opts.max_bytes && !w->opts.drop_oldest;
	const struct enc_chunk *chunks;
	const uint32_t *used;
	size_t i, n_chunks;
	int err;

	if (w->err)
		return w->err;
	if (w->full)
		return -EFBIG;
	if (thread >= w->threads.n)
		return -EINVAL;
	err = block_encoder__run(w->encoder, w->names, events, n, ends, n_ends);
	if (err)
		return err;
	if (whole) {
		uint64_t more = writer__call_bytes(w, thread);

		if (more > MAX_CALL_BYTES)
			return -E2BIG;
		if (w->pos + segment__size(w) + more > w->opts.max_bytes - w->reserve) {
			w->full = true;
			return -EFBIG;
		}
	}
	n_chunks = block_encoder__chunks(w->encoder, &chunks);
	block_encoder__used(w->encoder, &used);
	for (i = 0; i < n_chunks; i++) {
		const uint8_t *bytes = block_encoder__out(w->encoder)->data + chunks[i].off;

		err = writer__chunk(w, thread, stream, &chunks[i], bytes, used);
		if (!err && (!whole || i + 1 == n_chunks))
			err = segment__close_when_large(w);
		if (err) {
			/* part of the call may be in the file already: no way back */
			w->err = err;
			return err;
		}
	}
	return 0;
}

/* --- what is no block ---------------------------------------------------------------------------- */

static void states__index(struct recording_writer *w)
{
	size_t i;

	map64__clear(w->state_at);
	for (i = 0; i < w->n_states; i++)
		if (w->states[i].key && !map64__put(w->state_at, w->states[i].key, i))
			w->err = -ENOMEM;
}

void writer__prune_states(struct recording_writer *w, uint64_t ts)
{
	size_t i, k = 0, newest = SIZE_MAX;

	/* the last anchor before @ts still tells what @ts is in other clocks */
	for (i = 0; i < w->n_states; i++) {
		const struct writer_state *s = &w->states[i];

		if (s->type == ITEM_ANCHOR && s->until < ts &&
		    (newest == SIZE_MAX || s->until > w->states[newest].until))
			newest = i;
	}
	for (i = 0; i < w->n_states; i++) {
		if (w->states[i].until < ts && i != newest)
			free(w->states[i].enc);
		else
			w->states[k++] = w->states[i];
	}
	if (k == w->n_states)
		return;
	w->n_states = k;
	states__index(w);
}

bool writer__save_states(struct recording_writer *w, uint64_t seq, size_t budget)
{
	size_t i, bytes = 0;

	for (i = 0; i < w->n_states && w->meta.len + bytes < budget; i++) {
		struct writer_state *s = &w->states[i];

		if (s->mark > seq + 1)
			continue;
		s->mark = w->seq + 1;
		segment__item(&w->meta, s->type, s->enc, s->len);
		segment__use_process(w, s->process);
		bytes += s->len;
	}
	return bytes > 0;
}

static int states__keep(struct recording_writer *w, unsigned type, uint32_t process, uint64_t key,
			uint64_t until)
{
	uint64_t *have = key ? map64__get(w->state_at, key) : NULL;
	struct writer_state *s;
	uint8_t *enc = malloc(w->scratch.len ? w->scratch.len : 1);

	if (!enc)
		return -ENOMEM;
	if (!have) {
		if (w->n_states == w->cap_states) {
			size_t cap = w->cap_states ? w->cap_states * 2 : 64;

			s = realloc(w->states, cap * sizeof(*s));
			if (!s) {
				free(enc);
				return -ENOMEM;
			}
			w->states = s;
			w->cap_states = cap;
		}
		if (key && !map64__put(w->state_at, key, w->n_states)) {
			free(enc);
			return -ENOMEM;
		}
		s = &w->states[w->n_states++];
	} else {
		s = &w->states[*have];
		free(s->enc);
	}
	memcpy(enc, w->scratch.data, w->scratch.len);
	*s = (struct writer_state){ .enc = enc,
				    .len = (uint32_t)w->scratch.len,
				    .process = process,
				    .key = key,
				    .mark = w->seq + 1,
				    .until = until,
				    .type = (uint8_t)type };
	return 0;
}

/* Puts what lies in scratch into the segment as an item. */
static int writer__item(struct recording_writer *w, unsigned type, uint32_t process, uint64_t key,
			uint64_t until)
{
	int err = buf__error(&w->scratch);

	if (!err && w->opts.drop_oldest)
		err = states__keep(w, type, process, key, until);
	if (err)
		return err;
	segment__item(&w->meta, type, w->scratch.data, w->scratch.len);
	segment__use_process(w, process);
	return segment__close_when_large(w);
}

static uint64_t state__key(unsigned type, uint64_t a, uint64_t b)
{
	uint64_t key = hash__mix(hash__mix(type, a), b);

	return key ? key : 1;
}

int writer__loss(struct recording_writer *w, const struct loss_info *l)
{
	uint64_t key;

	if (w->err)
		return w->err;
	if (l->process != UINT32_MAX && l->process >= w->processes.n)
		return -EINVAL;
	key = l->probe ? hash__bytes(l->probe, strlen(l->probe), l->cause) : l->cause;
	key = state__key(ITEM_LOSS, (uint64_t)l->process << 32 | (uint32_t)l->cpu, key);
	buf__reset(&w->scratch);
	loss_info__encode(&w->scratch, l);
	return writer__item(w, ITEM_LOSS, l->process, key, UINT64_MAX);
}

int writer__counts(struct recording_writer *w, const struct count_info *c)
{
	if (w->err)
		return w->err;
	buf__reset(&w->scratch);
	count_info__encode(&w->scratch, c);
	return writer__item(w, ITEM_COUNTS, UINT32_MAX, state__key(ITEM_COUNTS, 0, 0), UINT64_MAX);
}

int writer__capture(struct recording_writer *w, const struct capture_info *c)
{
	if (w->err)
		return w->err;
	if (c->process != UINT32_MAX && c->process >= w->processes.n)
		return -EINVAL;
	buf__reset(&w->scratch);
	capture_info__encode(&w->scratch, c);
	return writer__item(w, ITEM_CAPTURE, c->process, state__key(ITEM_CAPTURE, c->id, 0),
			    c->end ? c->end : UINT64_MAX);
}

int writer__anchor(struct recording_writer *w, const struct clock_anchor *a)
{
	if (w->err)
		return w->err;
	buf__reset(&w->scratch);
	clock_anchor__encode(&w->scratch, a);
	return writer__item(w, ITEM_ANCHOR, UINT32_MAX, 0, a->boottime);
}

int writer__warning(struct recording_writer *w, const char *code, const char *text)
{
	uint64_t key;

	if (w->err)
		return w->err;
	buf__reset(&w->scratch);
	warning_info__encode(&w->scratch, code, text);
	if (buf__error(&w->scratch))
		return -ENOMEM;
	key = hash__bytes(w->scratch.data, w->scratch.len, 0);
	return writer__item(w, ITEM_WARNING, UINT32_MAX, state__key(ITEM_WARNING, key, 0),
			    UINT64_MAX);
}

/* --- the rest --------------------------------------------------------------------------------------- */

int writer__flush(struct recording_writer *w)
{
	return segment__close(w);
}

bool writer__full(const struct recording_writer *w)
{
	return w->full;
}

uint64_t writer__bytes(const struct recording_writer *w)
{
	return w->size;
}

uint64_t writer__events(const struct recording_writer *w)
{
	return w->events;
}

static int fd__sync(int fd)
{
	/* EINVAL, EROFS: a kind of file that has nothing to synchronise */
	return fsync(fd) && errno != EINVAL && errno != EROFS ? -errno : 0;
}

int writer__finish(struct recording_writer *w, struct clika_error *err)
{
	int code = w->err;

	if (!code) {
		if (!w->has_meta)
			segment__item(&w->meta, ITEM_META, w->meta_enc.data, w->meta_enc.len);
		w->has_meta = true;
		code = segment__close(w);
	}
	if (!code)
		code = fd__sync(w->fd);
	if (!code)
		code = segment__write_file_header(w, false);
	if (!code)
		code = fd__sync(w->fd);
	if (code)
		error__set(err, code, "cannot write %s: %s", w->path, strerror(-code));
	writer__free(w);
	return code;
}

void writer__abort(struct recording_writer *w)
{
	if (!w)
		return;
	segment__close(w);
	writer__free(w);
}
