/* SPDX-License-Identifier: Apache-2.0 */
/* What a Chrome trace says beside its events: head, names of tracks, losses, metadata. */
#ifndef CLIKA_EXPORT_CHROME_META_H
#define CLIKA_EXPORT_CHROME_META_H

#include "export/json_emit.h"
#include "export/trace_ids.h"

/* Up to and with the opened array of events. */
void chrome_meta__head(struct json *j, const struct session *s, uint64_t base);
void chrome_meta__names(struct json *j, const struct session *s, const struct trace_ids *ids);
/* A global instant at @ts (relative) when anything was lost. */
void chrome_meta__loss_event(struct json *j, const struct session *s, const struct trace_ids *ids,
			     uint64_t ts);
/* One object: who recorded, processes, captures, losses (zeros too), counts, warnings. */
void chrome_meta__tail(struct json *j, const struct session *s, const struct trace_ids *ids,
		       uint64_t not_finite);

#endif
