/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every room of the house may use: fixed-width types, errors as values, growable
 * buffers, a string pool, logging through a callback. Knows nothing of profiling.
 */
#ifndef CLIKA_USER_BASE_BASE_H
#define CLIKA_USER_BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CLIKA_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull

/* --- errors ------------------------------------------------------------------------ */

/*
 * An error is a negative errno and one line for a person: what went wrong, in which file or
 * process, what to do next. Functions return the code; @err may be NULL everywhere.
 */
struct clika_error {
	int code;
	char msg[512];
};

/* Fills @err (if any) with one printable line and returns @code, so that `return error__set(err, -ENOENT, ...)` works. */
int error__set(struct clika_error *err, int code, const char *fmt, ...) CLIKA_PRINTF(3, 4);
/* Puts "text: " in front of what is there already; keeps the code. */
int error__prefix(struct clika_error *err, const char *fmt, ...) CLIKA_PRINTF(2, 3);

/* --- cleanup attribute: descriptors and buffers only --------------------------------- */

void cleanup__close(int *fd); /* closes *fd when it is >= 0, keeps errno */
void cleanup__free(void *p);  /* p is a pointer to the pointer */
#define __cleanup_close __attribute__((cleanup(cleanup__close)))
#define __cleanup_free __attribute__((cleanup(cleanup__free)))

/* --- growable byte buffer ------------------------------------------------------------ */

struct buf {
	uint8_t *data;
	size_t len, cap;
	bool failed; /* an allocation failed; later appends do nothing, buf__error() tells */
};

void buf__free(struct buf *b);
void buf__reset(struct buf *b); /* len = 0, keeps the memory */
int buf__reserve(struct buf *b, size_t more);
void buf__append(struct buf *b, const void *p, size_t n);
void buf__u8(struct buf *b, uint8_t v);
void buf__u16le(struct buf *b, uint16_t v);
void buf__u32le(struct buf *b, uint32_t v);
void buf__u64le(struct buf *b, uint64_t v);
void buf__varint(struct buf *b, uint64_t v); /* LEB128, at most 10 bytes */
void buf__svarint(struct buf *b, int64_t v); /* zig-zag, then LEB128 */
void buf__printf(struct buf *b, const char *fmt, ...) CLIKA_PRINTF(2, 3);
int buf__error(const struct buf *b); /* 0 or -ENOMEM */

/* A bounds-checked reader over foreign bytes. After any failed read `bad` stays set and
 * every later read gives 0 (or NULL), so callers check once at the end. */
struct cursor {
	const uint8_t *p, *end;
	bool bad;
};

static inline struct cursor cursor__over(const void *p, size_t n)
{
	return (struct cursor){ (const uint8_t *)p, (const uint8_t *)p + n, false };
}
static inline size_t cursor__left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}
uint8_t cursor__u8(struct cursor *c);
uint16_t cursor__u16le(struct cursor *c);
uint32_t cursor__u32le(struct cursor *c);
uint64_t cursor__u64le(struct cursor *c);
uint64_t cursor__varint(struct cursor *c);
int64_t cursor__svarint(struct cursor *c);
const uint8_t *cursor__bytes(struct cursor *c, size_t n); /* NULL when fewer are left */

/* --- string pool ---------------------------------------------------------------------- */

/* Interned strings; ids are dense from 1, 0 means "none" and gives "". Owned by the pool. */
struct strpool;
struct strpool *strpool__new(size_t max_strings, size_t max_bytes); /* 0 = no limit */
void strpool__free(struct strpool *p);
/* Id of @s[0..len); may contain any byte but is stored NUL-terminated. When the pool is full:
 * the id of one fixed string "(too many distinct names)". 0 only when memory is exhausted. */
uint32_t strpool__id(struct strpool *p, const char *s, size_t len);
uint32_t strpool__ids(struct strpool *p, const char *s); /* NUL-terminated; NULL gives 0 */
const char *strpool__str(const struct strpool *p, uint32_t id);
size_t strpool__len(const struct strpool *p, uint32_t id);
uint32_t strpool__count(const struct strpool *p); /* highest id */

/* --- hash map u64 -> u64 --------------------------------------------------------------- */

struct map64; /* open addressing, grows; any key value is allowed */
struct map64 *map64__new(void);
void map64__free(struct map64 *m);
/* Pointer to the value, NULL when absent; valid until the next put or del. */
uint64_t *map64__get(const struct map64 *m, uint64_t key);
uint64_t *map64__put(struct map64 *m, uint64_t key, uint64_t value); /* NULL: out of memory */
bool map64__del(struct map64 *m, uint64_t key);
size_t map64__count(const struct map64 *m);
/* Iterate: start with *it = 0; false at the end. The key just given may be removed meanwhile. */
bool map64__next(const struct map64 *m, size_t *it, uint64_t *key, uint64_t **value);
void map64__clear(struct map64 *m);
uint64_t hash__bytes(const void *p, size_t n, uint64_t seed); /* FNV-1a 64 */
uint64_t hash__mix(uint64_t a, uint64_t b);                   /* two words to one */
uint64_t hash__seed(void);                                    /* random */

/* --- log -------------------------------------------------------------------------------- */

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
struct logger {
	void (*fn)(void *ctx, enum log_level level, const char *area, const char *line);
	void *ctx;
	enum log_level max;
};
void logger__log(const struct logger *l, enum log_level level, const char *area, const char *fmt,
		 ...) CLIKA_PRINTF(4, 5);

/* --- clocks ------------------------------------------------------------------------------ */

uint64_t clock__boottime_ns(void);
/* The clocks of one moment, nanoseconds; read back to back, the tightest of several tries. */
struct clock_anchor {
	uint64_t boottime, monotonic, monotonic_raw, realtime, monotonic_coarse;
};
void clock__anchor(struct clock_anchor *a);

/* --- text that may be hostile ------------------------------------------------------------- */

/*
 * The one replacement rule of every exporter: invalid UTF-8 sequences become U+FFFD (one for
 * each maximal invalid subpart, as Unicode recommends). Appends to @out; never drops a string.
 */
void utf8__append_valid(struct buf *out, const char *s, size_t len);
bool utf8__valid(const char *s, size_t len);
/* For terminals and text files: valid UTF-8; control characters (C0, DEL, C1) are shown as \xNN,
 * those that reorder or split text unseen (bidi controls, U+2028, U+2029) as \uNNNN. */
void text__append_printable(struct buf *out, const char *s, size_t len);
/* Shell-style match of bytes with * ? [..] [!..]; no other characters are special. */
bool text__glob(const char *pattern, const char *s);
/* The same, and what the stars stand for, up to @max of them: from the left, each takes as little
 * as lets the rest match. Filled only on a match; those that the pattern does not have are empty. */
struct text_part {
	const char *at;
	size_t len;
};
bool text__glob_parts(const char *pattern, const char *s, struct text_part *parts, size_t max);

/* --- files ---------------------------------------------------------------------------------- */

/* Whole of a small file (procfs too), NUL-terminated, at most @max bytes. malloc'ed. */
int file__read_all(int dirfd, const char *path, size_t max, char **data, size_t *len);
/* May @uid, without rights, look into the process? What a read-only ptrace check asks. */
bool owner__is(pid_t pid, uid_t uid);
int fd__write_all(int fd, const void *p, size_t n); /* -errno; handles short writes and EINTR */

/*
 * A file that is made beside its final name (".name.XXXXXX", O_EXCL|O_NOFOLLOW, mode 0600, given
 * to @owner when not (uid_t)-1) and takes the name by rename. The folder is held open, so that
 * another one put in its place is not hit. What exists under the name and is no regular file (a
 * device, a link) is refused, never replaced.
 */
struct newfile {
	int dirfd, fd;
	char *path;
	const char *name; /* inside path */
	char temp[256];
};
int newfile__create(struct newfile *f, const char *path, uid_t owner, gid_t group,
		    struct clika_error *err);
int newfile__publish(struct newfile *f); /* rename; fd stays open */
void newfile__close(struct newfile *f);  /* closes; removes what was not published */

/*
 * An output that appears under its final name only when complete: a newfile, buffered. A name
 * that ends in ".gz" is written compressed.
 */
struct outfile;
int outfile__create(const char *path, uid_t owner, gid_t group, struct outfile **out,
		    struct clika_error *err);
/* Writes to a descriptor that is somebody else's: no name, no temporary file. @fd stays open. */
int outfile__over_fd(int fd, struct outfile **out);
/* More than @bytes in the file, after compression, are an error: -EFBIG. 0 = no limit. */
void outfile__limit(struct outfile *f, uint64_t bytes);
int outfile__write(struct outfile *f, const void *p, size_t n); /* buffered */
int outfile__printf(struct outfile *f, const char *fmt, ...) CLIKA_PRINTF(2, 3);
uint64_t outfile__bytes(const struct outfile *f); /* as written, before compression */
/* First error of any write is reported here again; on error the temporary file is gone and
 * an older file under @path is untouched. Frees @f in both cases. */
int outfile__commit(struct outfile *f, struct clika_error *err);
void outfile__abort(struct outfile *f); /* NULL is fine */
/* A memory sink with the same writing calls: bytes end up in @b at commit. */
int outfile__memory(struct buf *b, struct outfile **out);

#endif
