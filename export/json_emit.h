/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON as it goes: no tree, exact integers, one escaping rule. Strings are made valid
 * UTF-8 by utf8__append_valid(); what is not a finite number becomes null.
 */
#ifndef CLIKA_EXPORT_JSON_EMIT_H
#define CLIKA_EXPORT_JSON_EMIT_H

#include <string.h>

#include "user/base/base.h"

struct json {
	struct outfile *out;
	struct buf b;       /* handed to @out whenever it is long enough */
	struct buf scratch; /* a string that had to be repaired */
	bool comma;         /* something stands before in this object or array */
	int err;            /* the first failure */
};

/* Without @out all of it stays in j->b. */
void json__init(struct json *j, struct outfile *out);
int json__flush(struct json *j); /* 0 or the first error */
void json__free(struct json *j);

void json__object(struct json *j);
void json__end_object(struct json *j);
void json__array(struct json *j);
void json__end_array(struct json *j);
/* A key; it must need no escaping: for our own names. */
void json__key_len(struct json *j, const char *key, size_t len);
static inline void json__key(struct json *j, const char *key)
{
	json__key_len(j, key, strlen(key)); /* known where it is a constant */
}
void json__key_str(struct json *j, const char *key, size_t len); /* any bytes */
/* A key as json__escape() gave it, quotes included. */
void json__raw_key(struct json *j, const char *s, size_t len);

void json__str(struct json *j, const char *s, size_t len);
void json__cstr(struct json *j, const char *s); /* NULL: null */
void json__u64(struct json *j, uint64_t v);
void json__i64(struct json *j, int64_t v);
void json__f64(struct json *j, double v);
void json__bool(struct json *j, bool v);
void json__null(struct json *j);
/* Nanoseconds as microseconds with three decimals. */
void json__us(struct json *j, uint64_t ns);
/* A value that is ready as it is: rendered earlier by this emitter. */
void json__raw(struct json *j, const char *s, size_t len);
/* A line break where whitespace is allowed, for people who look into the file. */
void json__line(struct json *j);

/*
 * For writers of millions of equal events: room for @n more bytes (NULL: out of memory), commas
 * theirs to write, and where they stopped. Whatever follows is in the same object or array.
 */
char *json__room(struct json *j, size_t n);
static inline void json__used(struct json *j, const char *end, bool comma)
{
	j->b.len = (size_t)(end - (char *)j->b.data);
	j->comma = comma;
}

/* The escaped form of a string, with its quotes, to be kept and written by json__raw(). */
void json__escape(struct buf *out, const char *s, size_t len);

#endif
