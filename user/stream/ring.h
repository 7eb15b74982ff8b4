/* SPDX-License-Identifier: Apache-2.0 */
/* The ring buffers of one recorder: handled in turn, each up to what was there when asked. */
#ifndef CLIKA_USER_STREAM_RING_H
#define CLIKA_USER_STREAM_RING_H

#include "user/probe/attach.h"

struct ring;
int ring__new(struct attacher *a, int (*fn)(void *ctx, const void *rec, size_t size), void *ctx,
	      struct ring **out, struct clika_error *err);
void ring__free(struct ring *r);
int ring__fd(const struct ring *r); /* readable when a quarter of a ring is filled */
/*
 * Handles what is there. Never more than the rings hold at once, so that it returns however fast
 * writers are, and everything submitted before the call has been handled. Bytes handled, or the
 * first error of @fn.
 */
ssize_t ring__drain(struct ring *r);
uint64_t ring__bytes(const struct ring *r); /* handled so far */

#endif
