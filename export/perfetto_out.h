/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of a Perfetto trace, one at a time into one buffer. A sequence is one writer: its names
 * are told once and then meant by number, its times are steps from the packet before.
 */
#ifndef CLIKA_EXPORT_PERFETTO_OUT_H
#define CLIKA_EXPORT_PERFETTO_OUT_H

#include "export/exporter.h"
#include "proto/perfetto_subset.pb-c.h"

enum pf_type { PF_BEGIN = 1, PF_END = 2, PF_COUNTER = 4 };

/* What gets numbers; each kind counts for itself. */
enum pf_kind { PF_CATEGORIES, PF_NAMES, PF_KEYS, PF_SOURCES, PF_KINDS };

/* Our own texts: string ids that no recording has. */
#define PF_TEXTS(X)                                                                                \
	X(PF_T_FUNCTION, "function")                                                               \
	X(PF_T_USDT, "usdt")                                                                       \
	X(PF_T_INSTANT, "instant")                                                                 \
	X(PF_T_ASYNC, "async")                                                                     \
	X(PF_T_REQUEST, "request")                                                                 \
	X(PF_T_CAPTURE, "capture")                                                                 \
	X(PF_T_FLOW, "flow")                                                                       \
	X(PF_T_CLIKA, "clika")                                                                     \
	X(PF_T_FIRST_OUTPUT, "first output")                                                       \
	X(PF_T_OUTPUT, "output")                                                                   \
	X(PF_T_ID, "clika_id")                                                                     \
	X(PF_T_UNITS, "clika_units")                                                               \
	X(PF_T_FIRST_NS, "clika_first_output_ns")                                                  \
	X(PF_T_UNFINISHED, "clika_unfinished")                                                     \
	X(PF_T_NO_BEGIN, "clika_no_begin")                                                         \
	X(PF_T_CLIPPED, "clika_clipped")                                                           \
	X(PF_T_REDACTED, "clika_redacted")                                                         \
	X(PF_T_LATE, "clika_late")                                                                 \
	X(PF_T_CUT, "clika_cut")

enum pf_text {
	PF_T_BASE = 0x7fff0000,
#define X(e, text) e,
	PF_TEXTS(X)
#undef X
};

struct pf_seq {
	uint32_t id;    /* 0: nothing written yet */
	bool lossy;     /* records of what it shows were lost */
	bool absolute;  /* times are those of CLOCK_BOOTTIME, not steps */
	uint64_t track; /* where its events go when they do not say */
	uint64_t last_ts;
	uint32_t iids[PF_KINDS];
};

#define PF_NOTES 48

/* The event being put together. */
struct pf_event {
	struct pf_seq *seq;
	uint64_t ts;
	Pf__TrackEvent te;
	uint64_t category;
	Pf__DebugAnnotation notes[PF_NOTES], *note_at[PF_NOTES];
	Pf__InternedData fresh; /* what this packet tells for the first time */
	Pf__InternedName names[PF_NOTES + 4], *at[PF_SOURCES][PF_NOTES + 4];
	size_t n_names;
	Pf__SourceLocation source, *source_at[1];
	bool told_anew;
};

/* The rest of a span's packet behind its time, kept for the next span like it. */
struct pf_tail {
	uint32_t seq, name, category, source;
	uint8_t type, len, bytes[46];
};
#define PF_TAILS 2048 /* a power of two */

struct pf_out {
	const struct session *s;
	struct outfile *out;
	uint8_t *buf; /* whole packets, framed */
	size_t len, cap;
	uint8_t *packed; /* the same, deflated; NULL: as they are */
	size_t packed_cap;
	struct pf_tail *tails;
	struct map64 *iids; /* sequence, kind, string id -> iid */
	uint32_t n_seqs;
	struct pf_event ev;
	void **repaired; /* texts of the packet in work */
	size_t n_repaired, cap_repaired;
	int err; /* the first failure */
};

int pf_out__init(struct pf_out *o, const struct session *s, struct outfile *out, bool compress);
void pf_out__free(struct pf_out *o);
int pf_out__flush(struct pf_out *o);

/* Any bytes as valid UTF-8; lives until the next packet is written. */
ProtobufCBinaryData pf_out__text(struct pf_out *o, const char *s, size_t len);
/* The same, of a text that does not live as long. */
ProtobufCBinaryData pf_out__keep(struct pf_out *o, const char *s, size_t len);
ProtobufCBinaryData pf_out__cstr(struct pf_out *o, const char *s); /* NULL: "" */
ProtobufCBinaryData pf_out__string(struct pf_out *o, uint32_t id);

/* Readers count time with a sign: what they cannot count is as late as they can. */
uint64_t pf__time(uint64_t ts);
/* The first packet of a sequence, which makes it valid. */
void pf_seq__start(struct pf_out *o, struct pf_seq *q, uint64_t ts);
/* Any other packet of it: sequence and flags are filled in here. */
void pf_seq__packet(struct pf_out *o, struct pf_seq *q, Pf__TracePacket *p);

/* A begin or end without anything but names; the sequence has a track. 0: not given. */
void pf_seq__span(struct pf_out *o, struct pf_seq *q, enum pf_type type, uint64_t ts, uint32_t name,
		  uint32_t category, uint32_t source);

/* Anything else, in steps; @track 0: that of the sequence. */
struct pf_event *pf_event__open(struct pf_out *o, struct pf_seq *q, enum pf_type type, uint64_t ts,
				uint64_t track);
void pf_event__name(struct pf_out *o, uint32_t id);
void pf_event__category(struct pf_out *o, uint32_t id);
void pf_event__source(struct pf_out *o, uint32_t id);
/* An annotation with its key; the caller sets its value. Never NULL. */
Pf__DebugAnnotation *pf_event__note(struct pf_out *o, uint32_t key);
/* The same, for a key that is used once: it gets no number. */
Pf__DebugAnnotation *pf_event__note_named(struct pf_out *o, const char *key);
void pf_event__note_u64(struct pf_out *o, uint32_t key, uint64_t v);
void pf_event__flag(struct pf_out *o, uint32_t key, bool set);
void pf_event__write(struct pf_out *o);
/*
 * Writes a begin as an instant: with its end at the same time. The format has instants too, but
 * readers take what comes at the very same time for their children.
 */
void pf_event__write_instant(struct pf_out *o);

#endif
