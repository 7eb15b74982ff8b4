// SPDX-License-Identifier: Apache-2.0
#include "user/recording/event.h"

#define X(e, n, name, fields) [n] = name,
static const char *const kind_names[EV_KIND_COUNT] = { EVENT_KINDS(X) };
#undef X
#define X(e, n, name, fields) [n] = fields,
static const uint8_t kind_fields[EV_KIND_COUNT] = { EVENT_KINDS(X) };
#undef X
#define X(e, n, text) [n] = text,
static const char *const cause_texts[LOSS_CAUSE_COUNT] = { LOSS_CAUSES(X) };
#undef X

const char *event_kind__name(unsigned kind)
{
	return kind < EV_KIND_COUNT ? kind_names[kind] : NULL;
}

unsigned event_kind__fields(unsigned kind)
{
	return kind < EV_KIND_COUNT ? kind_fields[kind] : 0;
}

const char *loss_cause__text(unsigned cause)
{
	return cause < LOSS_CAUSE_COUNT ? cause_texts[cause] : NULL;
}
