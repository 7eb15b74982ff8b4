/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of events as text, for formats that have no typed ones. */
#ifndef CLIKA_EXPORT_ARGS_H
#define CLIKA_EXPORT_ARGS_H

#include "user/session/session.h"

/* A key given again (at the end of a span) replaces the earlier value. */
bool args__is_newest(const struct event *ev, size_t i);
/* A name that an exporter writes itself beside arguments: one that an argument has gets "arg." in
 * front, so that no key comes twice. */
bool args__is_reserved(const char *key);
/* {"key":value,...}, valid JSON without line breaks. */
void args__json(struct buf *out, const struct session *s, const struct event *ev);
/* key=value, key=value. Printable text. */
void args__text(struct buf *out, const struct session *s, const struct event *ev);
/* Words for what is particular about a span, "unfinished cut"; nothing when nothing is. */
void args__flags(struct buf *out, const struct open_span *span);

#endif
