// SPDX-License-Identifier: Apache-2.0
#include "user/recording/reader_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "user/recording/info_codec.h"

#define CRC_WINDOW (256u << 10)

void *table__push(struct table *t, size_t size)
{
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap + t->cap / 2 : 32;
		void *v = reallocarray(t->v, cap, size);

		if (!v)
			return NULL;
		t->v = v;
		t->cap = cap;
	}
	return (char *)t->v + t->n++ * size;
}

uint32_t recording__name_id(const struct recording *r, uint64_t file_id)
{
	uint64_t *id = file_id ? map64__get(r->string_ids, file_id) : NULL;

	return id ? (uint32_t)*id : 0;
}

/* --- items: what a file says may be anything -------------------------------------------- */

static int item__strings(struct recording *r, struct cursor *c)
{
	uint64_t id = 0;

	while (cursor__left(c)) {
		uint64_t len;
		const uint8_t *p;
		uint32_t ours;

		id += (uint64_t)cursor__svarint(c);
		len = cursor__varint(c);
		p = len <= cursor__left(c) ? cursor__bytes(c, (size_t)len) : NULL;
		if (!p || c->bad)
			return -EBADMSG;
		if (map64__get(r->string_ids, id))
			continue;
		ours = strpool__id(r->names, (const char *)p, (size_t)len);
		if (!ours || !map64__put(r->string_ids, id, ours))
			return -ENOMEM;
	}
	return 0;
}

/* Index of element @number of the file; a new zeroed one when there is none yet. */
static void *table__element(struct table *t, size_t size, uint64_t number)
{
	uint64_t *have = map64__get(t->at, number);
	void *e;

	if (have)
		return (char *)t->v + *have * size;
	if (!map64__put(t->at, number, t->n))
		return NULL;
	e = table__push(t, size);
	if (e)
		memset(e, 0, size);
	return e;
}

static int item__process(struct recording *r, struct cursor *c)
{
	struct process_info p = { 0 }, *to;
	uint32_t number;
	int err = process_info__decode(c, &number, &p);

	if (err)
		return err;
	to = table__element(&r->processes, sizeof(*to), number);
	if (!to) {
		process_info__clear(&p);
		return -ENOMEM;
	}
	process_info__clear(to);
	*to = p;
	return 0;
}

static int item__thread(struct recording *r, struct cursor *c)
{
	struct thread_info t = { 0 }, *to;
	uint64_t *process;
	uint32_t number;
	int err = thread_info__decode(c, &number, &t);

	if (err)
		return err;
	process = map64__get(r->processes.at, t.process);
	to = process ? table__element(&r->threads, sizeof(*to), number) : NULL;
	if (!to) {
		thread_info__clear(&t);
		return process ? -ENOMEM : -EBADMSG;
	}
	t.process = (uint32_t)*process;
	thread_info__clear(to);
	*to = t;
	return 0;
}

static int item__meta(struct recording *r, struct cursor *c)
{
	struct recording_meta m = { 0 };
	int err = recording_meta__decode(c, &m);

	if (err)
		return err;
	recording_meta__clear(&r->meta);
	r->meta = m;
	return 0;
}

/* A process that no segment defines any more is as good as unknown. */
static uint32_t recording__process_index(const struct recording *r, uint32_t number)
{
	uint64_t *at = number == UINT32_MAX ? NULL : map64__get(r->processes.at, number);

	return at ? (uint32_t)*at : UINT32_MAX;
}

static bool loss__same_key(const struct loss_info *a, const struct loss_info *b)
{
	if (a->process != b->process || a->cpu != b->cpu || a->cause != b->cause)
		return false;
	if (!a->probe || !b->probe)
		return a->probe == b->probe;
	return !strcmp(a->probe, b->probe);
}

static int item__loss(struct recording *r, struct cursor *c)
{
	struct loss_info l = { 0 }, *to;
	uint64_t key, *have;
	int err = loss_info__decode(c, &l);

	if (err)
		return err;
	l.process = recording__process_index(r, l.process);
	key = hash__mix((uint64_t)l.process << 32 | (uint32_t)l.cpu, l.cause);
	if (l.probe)
		key = hash__bytes(l.probe, strlen(l.probe), key);
	for (; (have = map64__get(r->losses.at, key)); key++) {
		to = (struct loss_info *)r->losses.v + *have;
		if (loss__same_key(to, &l)) {
			loss_info__clear(to);
			*to = l;
			return 0;
		}
	}
	to = table__element(&r->losses, sizeof(*to), key);
	if (!to) {
		loss_info__clear(&l);
		return -ENOMEM;
	}
	*to = l;
	return 0;
}

static int item__counts(struct recording *r, struct cursor *c)
{
	struct count_info n = { 0 };
	int err = count_info__decode(c, &n);

	if (!err)
		r->counts = n;
	return err;
}

static int item__dropped(struct recording *r, struct cursor *c)
{
	struct dropped_info d;

	d.segments = cursor__u64le(c);
	d.events = cursor__u64le(c);
	d.until = cursor__u64le(c);
	if (c->bad)
		return -EBADMSG;
	r->dropped = d;
	return 0;
}

static int item__capture(struct recording *r, struct cursor *c)
{
	struct capture_info i = { 0 }, *to;
	int err = capture_info__decode(c, &i);

	if (err)
		return err;
	i.process = recording__process_index(r, i.process);
	to = table__element(&r->captures, sizeof(*to), i.id);
	if (!to) {
		capture_info__clear(&i);
		return -ENOMEM;
	}
	capture_info__clear(to);
	*to = i;
	return 0;
}

static int item__anchor(struct recording *r, struct cursor *c)
{
	struct clock_anchor a = { 0 }, *to;
	int err = clock_anchor__decode(c, &a);

	if (err)
		return err;
	to = table__push(&r->anchors, sizeof(*to));
	if (!to)
		return -ENOMEM;
	*to = a;
	return 0;
}

/* Circular files say a warning again and again. */
static int item__warning(struct recording *r, struct cursor *c)
{
	struct warning_info w = { 0 }, *to;
	uint64_t key;
	int err = warning_info__decode(c, &w);

	if (err)
		return err;
	key = hash__bytes(w.code, strlen(w.code), 0);
	key = hash__bytes(w.text, strlen(w.text), key);
	to = table__element(&r->warnings, sizeof(*to), key);
	if (!to) {
		warning_info__clear(&w);
		return -ENOMEM;
	}
	warning_info__clear(to);
	*to = w;
	return 0;
}

/* --- blocks ------------------------------------------------------------------------------- */

/* Where the bodies of a segment are; checked in the order of the file, so none is read twice. */
struct bodies {
	uint64_t base, limit; /* in the file; limit is the end of what this segment has */
	uint64_t data_bytes;
	uint64_t used; /* bodies begin behind this */
	uint8_t *window;
};

static int body__check(const struct recording *r, const struct bodies *b, uint64_t off,
		       uint64_t len, uint32_t crc)
{
	uint64_t at = b->base + off;
	unsigned long sum = 0;

	if (off > b->data_bytes || len > b->data_bytes - off || at + len > b->limit)
		return -EBADMSG;
	while (len) {
		size_t n = len < CRC_WINDOW ? (size_t)len : CRC_WINDOW;
		int err = fd__read_at(r->fd, b->window, n, at);

		if (err)
			return err;
		sum = crc32_z(sum, b->window, n);
		at += n;
		len -= n;
	}
	return (uint32_t)sum == crc ? 0 : -EBADMSG;
}

static void recording__saw(struct recording *r, uint64_t first, uint64_t last)
{
	if (!r->state.first_ts || first < r->state.first_ts)
		r->state.first_ts = first;
	if (last > r->state.last_ts)
		r->state.last_ts = last;
}

static int item__block(struct recording *r, struct cursor *c, struct bodies *b)
{
	struct stored_block s = { 0 }, *to;
	uint64_t thread = cursor__varint(c), stream = cursor__varint(c), count = cursor__varint(c);
	uint64_t first = cursor__varint(c), last = cursor__varint(c), end = cursor__varint(c);
	uint64_t off = cursor__varint(c), len = cursor__varint(c), *at;
	int err;

	s.crc = cursor__u32le(c);
	at = map64__get(r->threads.at, thread);
	/* an event takes at least two bytes; bodies do not overlap */
	if (c->bad || !at || stream > UINT32_MAX || len > FMT_MAX_DATA || count > len / 2 ||
	    !count || end < last || end > UINT64_MAX - first || off < b->used)
		return -EBADMSG;
	err = body__check(r, b, off, len, s.crc);
	if (err)
		return err;
	b->used = off + len;
	s.pub = (struct recording_block){ .thread = (uint32_t)*at,
					  .stream = (uint32_t)stream,
					  .count = (uint32_t)count,
					  .first_ts = first,
					  .last_ts = first + last,
					  .last_end = first + end,
					  .pos = b->base + off };
	s.len = (uint32_t)len;
	to = table__push(&r->blocks, sizeof(*to));
	if (!to)
		return -ENOMEM;
	*to = s;
	r->state.events += count;
	recording__saw(r, first, first + end);
	return 0;
}

static int recording__item(struct recording *r, unsigned type, struct cursor *c, struct bodies *b)
{
	switch (type) {
	case ITEM_STRINGS:
		return item__strings(r, c);
	case ITEM_PROCESS:
		return item__process(r, c);
	case ITEM_THREAD:
		return item__thread(r, c);
	case ITEM_META:
		return item__meta(r, c);
	case ITEM_LOSS:
		return item__loss(r, c);
	case ITEM_COUNTS:
		return item__counts(r, c);
	case ITEM_DROPPED:
		return item__dropped(r, c);
	case ITEM_CAPTURE:
		return item__capture(r, c);
	case ITEM_ANCHOR:
		return item__anchor(r, c);
	case ITEM_WARNING:
		return item__warning(r, c);
	case ITEM_BLOCK:
		return item__block(r, c, b);
	case ITEM_ENDS:
		return ends__decode(r, c);
	default:
		return 0; /* of a later version */
	}
}

/* --- segments --------------------------------------------------------------------------------- */

/* 0: the segment is whole; -EBADMSG: something of it is lost, the rest was taken in. */
static int recording__index(struct recording *r, struct cursor *c, struct bodies *b)
{
	int err = 0;

	while (cursor__left(c)) {
		uint64_t type = cursor__varint(c), len = cursor__varint(c);
		const uint8_t *p;
		struct cursor one;
		int e;

		p = len <= cursor__left(c) ? cursor__bytes(c, (size_t)len) : NULL;
		if (!p || c->bad)
			return -EBADMSG;
		one = cursor__over(p, (size_t)len);
		e = recording__item(r, type < UINT32_MAX ? (unsigned)type : 0, &one, b);
		if (e == -ENOMEM)
			return e;
		if (e)
			err = -EBADMSG;
	}
	return err;
}

static int recording__segment(struct recording *r, const struct found_segment *f, uint8_t *window)
{
	struct bodies b = { .base = f->off + FMT_SEGMENT_HEADER + f->index_bytes,
			    .limit = f->limit < r->state.bytes ? f->limit : r->state.bytes,
			    .data_bytes = f->data_bytes,
			    .window = window };
	__cleanup_free uint8_t *index = NULL;
	struct cursor c;
	int err;

	if (b.base > b.limit)
		return -EBADMSG;
	index = malloc(f->index_bytes ? f->index_bytes : 1);
	if (!index)
		return -ENOMEM;
	err = fd__read_at(r->fd, index, f->index_bytes, f->off + FMT_SEGMENT_HEADER);
	if (err)
		return err;
	if ((uint32_t)crc32_z(0, index, f->index_bytes) != f->index_crc)
		return -EBADMSG;
	c = cursor__over(index, f->index_bytes);
	err = recording__index(r, &c, &b);
	/* bytes that no body claims are of no harm when they are missing */
	return err;
}

static int segment__by_seq(const void *va, const void *vb)
{
	const struct found_segment *a = va, *b = vb;

	if (a->seq != b->seq)
		return a->seq < b->seq ? -1 : 1;
	return a->off < b->off ? -1 : a->off > b->off;
}

/* What the numbers of the segments say about those that are not there at all. */
static void recording__count_missing(struct recording *r, const struct scan *s, bool circular,
				     uint64_t written)
{
	uint64_t missing = 0, most = r->state.bytes / FMT_SEGMENT_HEADER, next;
	size_t i;

	next = circular && s->n ? s->v[0].seq : 0;
	for (i = 0; i < s->n; i++) {
		if (s->v[i].seq > next)
			missing += s->v[i].seq - next < most ? s->v[i].seq - next : most;
		next = s->v[i].seq + 1;
	}
	if (written > next)
		missing += written - next < most ? written - next : most;
	r->state.bad_segments += missing < most ? missing : most;
}

static int recording__take_segments(struct recording *r, struct scan *s, bool circular,
				    uint64_t written)
{
	__cleanup_free uint8_t *window = malloc(CRC_WINDOW);
	uint64_t whole_end = FMT_FILE_HEADER;
	bool wrapped = false;
	size_t i;

	if (!window)
		return -ENOMEM;
	for (i = 1; i < s->n; i++)
		wrapped |= s->v[i].seq < s->v[i - 1].seq;
	if (s->n > 1)
		qsort(s->v, s->n, sizeof(*s->v), segment__by_seq);
	for (i = 0; i < s->n; i++) {
		int err = recording__segment(r, &s->v[i], window);

		if (err == -ENOMEM)
			return err;
		if (!err && !s->v[i].cut) {
			r->state.segments++;
			if (s->v[i].limit > whole_end)
				whole_end = s->v[i].limit;
		} else if (s->v[i].off + FMT_SEGMENT_HEADER + s->v[i].index_bytes +
				   s->v[i].data_bytes <=
			   r->state.bytes) {
			r->state.bad_segments++;
		}
	}
	recording__count_missing(r, s, circular, written);
	if (!wrapped && r->state.bytes > whole_end)
		r->state.trailing_bytes = r->state.bytes - whole_end;
	return 0;
}

/* --- opening ------------------------------------------------------------------------------------- */

static int end__by_id(const void *va, const void *vb)
{
	const struct span_end *a = va, *b = vb;

	if (a->open_id != b->open_id)
		return a->open_id < b->open_id ? -1 : 1;
	return a->ts < b->ts ? -1 : a->ts > b->ts;
}

static int anchor__by_boottime(const void *va, const void *vb)
{
	const struct clock_anchor *a = va, *b = vb;

	return a->boottime < b->boottime ? -1 : a->boottime > b->boottime;
}

static int recording__finish_tables(struct recording *r)
{
	struct clock_anchor *a = r->anchors.v;
	size_t i, k = 0;

	if (r->ends_unsorted)
		qsort(r->ends.v, r->ends.n, sizeof(struct span_end), end__by_id);
	if (r->anchors.n > 1)
		qsort(a, r->anchors.n, sizeof(*a), anchor__by_boottime);
	for (i = 0; i < r->anchors.n; i++)
		if (!k || memcmp(&a[k - 1], &a[i], sizeof(*a)))
			a[k++] = a[i];
	r->anchors.n = k;
	return recording_meta__fill_empty(&r->meta);
}

static int recording__read(struct recording *r, struct clika_error *err)
{
	uint8_t raw[FMT_FILE_HEADER];
	struct cursor c = cursor__over(raw, sizeof(raw));
	struct scan s = { 0 };
	uint64_t written;
	uint32_t flags;
	uint16_t major;
	int code;

	if (r->state.bytes < sizeof(raw) || fd__read_at(r->fd, raw, sizeof(raw), 0) ||
	    memcmp(cursor__bytes(&c, FMT_MAGIC_BYTES), FMT_FILE_MAGIC, FMT_MAGIC_BYTES))
		return error__set(err, -EINVAL, "not a clika recording");
	major = cursor__u16le(&c);
	r->state.version = (uint32_t)major << 16 | cursor__u16le(&c);
	cursor__u32le(&c);
	s.id = cursor__u64le(&c);
	s.id_known = true;
	written = cursor__u64le(&c);
	cursor__u64le(&c);
	flags = cursor__u32le(&c);
	if (cursor__u32le(&c) != (uint32_t)crc32_z(0, raw, FMT_FILE_CRC_AT)) {
		/* Only the header is damaged: segments say themselves what they are. */
		s.id_known = false;
		written = 0;
		flags = FMT_INCOMPLETE | FMT_CIRCULAR;
		r->state.version = (uint32_t)FMT_MAJOR << 16;
	} else if (major != FMT_MAJOR) {
		return error__set(err, -EPROTONOSUPPORT,
				  "the recording has format %u; this version reads format %u",
				  major, FMT_MAJOR);
	}
	r->state.incomplete = flags & FMT_INCOMPLETE;
	code = scan__run(&s, r->fd, FMT_FILE_HEADER, r->state.bytes);
	if (!code)
		code = recording__take_segments(r, &s, flags & FMT_CIRCULAR, written);
	if (!code)
		code = recording__finish_tables(r);
	scan__free(&s);
	return code ? error__set(err, code, "cannot read the recording: %s", strerror(-code)) : 0;
}

static int recording__new(struct recording **out)
{
	struct recording *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->fd = -1;
	r->names = strpool__new(0, 0);
	r->string_ids = map64__new();
	r->slot_of = map64__new();
	r->processes.at = map64__new();
	r->threads.at = map64__new();
	r->captures.at = map64__new();
	r->losses.at = map64__new();
	r->warnings.at = map64__new();
	*out = r;
	return r->names && r->string_ids && r->slot_of && r->processes.at && r->threads.at &&
			       r->captures.at && r->losses.at && r->warnings.at
		       ? 0
		       : -ENOMEM;
}

/* Takes @fd over. */
static int recording__open_own(int fd, struct recording **out, struct clika_error *err)
{
	struct recording *r = NULL;
	struct stat st;
	int code = recording__new(&r);

	if (code)
		error__set(err, code, "out of memory");
	if (r)
		r->fd = fd;
	else
		close(fd);
	if (!code && fstat(fd, &st)) {
		code = -errno;
		error__set(err, code, "cannot read the recording: %s", strerror(-code));
	}
	if (!code && !S_ISREG(st.st_mode))
		code = error__set(err, -EINVAL, "not a regular file");
	if (!code) {
		r->state.bytes = (uint64_t)st.st_size;
		code = recording__read(r, err);
	}
	if (code) {
		recording__close(r);
		r = NULL;
	}
	*out = r;
	return code;
}

int recording__open(const char *path, struct recording **out, struct clika_error *err)
{
	/* O_NONBLOCK: a FIFO under the name must not hold us */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), code;

	*out = NULL;
	if (fd < 0) {
		code = -errno;
		return error__set(err, code, "cannot open %s: %s", path, strerror(-code));
	}
	code = recording__open_own(fd, out, err);
	if (code)
		error__prefix(err, "%s", path);
	return code;
}

int recording__open_fd(int fd, struct recording **out, struct clika_error *err)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 3), code;

	*out = NULL;
	if (own < 0) {
		code = -errno;
		return error__set(err, code, "cannot use the descriptor: %s", strerror(-code));
	}
	return recording__open_own(own, out, err);
}

#define CLEAR_TABLE(table, type, clear)                                                            \
	do {                                                                                       \
		size_t i_;                                                                         \
		for (i_ = 0; i_ < (table).n; i_++)                                                 \
			clear((type *)(table).v + i_);                                             \
		free((table).v);                                                                   \
		map64__free((table).at);                                                           \
	} while (0)

void recording__is_live(struct recording *r)
{
	r->state.incomplete = false;
}

void recording__close(struct recording *r)
{
	struct ends_chunk *c, *next;
	size_t i;

	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	CLEAR_TABLE(r->processes, struct process_info, process_info__clear);
	CLEAR_TABLE(r->threads, struct thread_info, thread_info__clear);
	CLEAR_TABLE(r->captures, struct capture_info, capture_info__clear);
	CLEAR_TABLE(r->losses, struct loss_info, loss_info__clear);
	CLEAR_TABLE(r->warnings, struct warning_info, warning_info__clear);
	free(r->anchors.v);
	free(r->blocks.v);
	free(r->ends.v);
	for (c = r->ends_memory; c; c = next) {
		next = c->next;
		free(c);
	}
	for (i = 0; i < r->n_slots; i++)
		block_slot__free(r->slots[i]);
	free(r->slots);
	map64__free(r->slot_of);
	map64__free(r->string_ids);
	strpool__free(r->names);
	recording_meta__clear(&r->meta);
	free(r);
}

/* --- what was found -------------------------------------------------------------------------------- */

const struct recording_state *recording__state(const struct recording *r)
{
	return &r->state;
}

const struct recording_meta *recording__meta(const struct recording *r)
{
	return &r->meta;
}

struct strpool *recording__names(const struct recording *r)
{
	return r->names;
}

const struct count_info *recording__counts(const struct recording *r)
{
	return &r->counts;
}

const struct dropped_info *recording__dropped(const struct recording *r)
{
	return &r->dropped;
}

#define TABLE_ACCESS(plural, singular, type, table)                                                \
	size_t recording__n_##plural(const struct recording *r)                                    \
	{                                                                                          \
		return r->table.n;                                                                 \
	}                                                                                          \
	const struct type *recording__##singular(const struct recording *r, size_t i)              \
	{                                                                                          \
		return i < r->table.n ? (const struct type *)r->table.v + i : NULL;                \
	}

TABLE_ACCESS(processes, process, process_info, processes)
TABLE_ACCESS(threads, thread, thread_info, threads)
TABLE_ACCESS(captures, capture, capture_info, captures)
TABLE_ACCESS(losses, loss, loss_info, losses)
TABLE_ACCESS(anchors, anchor, clock_anchor, anchors)
TABLE_ACCESS(warnings, warning, warning_info, warnings)

size_t recording__n_blocks(const struct recording *r)
{
	return r->blocks.n;
}

const struct recording_block *recording__block(const struct recording *r, size_t i)
{
	return i < r->blocks.n ? &((const struct stored_block *)r->blocks.v + i)->pub : NULL;
}

const struct span_end *recording__span_end(const struct recording *r, uint64_t open_id)
{
	const struct span_end *v = r->ends.v;
	size_t lo = 0, hi = r->ends.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v[mid].open_id < open_id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < r->ends.n && v[lo].open_id == open_id ? &v[lo] : NULL;
}
