/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads of the definition and meta items. Decoders fill a zeroed struct and return 0, -EBADMSG
 * or -ENOMEM; on failure nothing is left to free. What a later version appended is not looked at.
 */
#ifndef CLIKA_USER_RECORDING_INFO_CODEC_H
#define CLIKA_USER_RECORDING_INFO_CODEC_H

#include "user/recording/event.h"

void process_info__encode(struct buf *b, uint32_t index, const struct process_info *p);
int process_info__decode(struct cursor *c, uint32_t *index, struct process_info *p);
void process_info__clear(struct process_info *p);

void thread_info__encode(struct buf *b, uint32_t index, const struct thread_info *t);
int thread_info__decode(struct cursor *c, uint32_t *index, struct thread_info *t);
void thread_info__clear(struct thread_info *t);

void recording_meta__encode(struct buf *b, const struct recording_meta *m);
int recording_meta__decode(struct cursor *c, struct recording_meta *m);
void recording_meta__clear(struct recording_meta *m);
int recording_meta__fill_empty(struct recording_meta *m); /* NULL strings become "" */

void loss_info__encode(struct buf *b, const struct loss_info *l);
int loss_info__decode(struct cursor *c, struct loss_info *l);
void loss_info__clear(struct loss_info *l);

void count_info__encode(struct buf *b, const struct count_info *n);
int count_info__decode(struct cursor *c, struct count_info *n);

void capture_info__encode(struct buf *b, const struct capture_info *i);
int capture_info__decode(struct cursor *c, struct capture_info *i); /* tag is never NULL */
void capture_info__clear(struct capture_info *i);

void clock_anchor__encode(struct buf *b, const struct clock_anchor *a);
int clock_anchor__decode(struct cursor *c, struct clock_anchor *a);

void warning_info__encode(struct buf *b, const char *code, const char *text);
int warning_info__decode(struct cursor *c, struct warning_info *w); /* strings are never NULL */
void warning_info__clear(struct warning_info *w);

#endif
