/* SPDX-License-Identifier: Apache-2.0 */
/* What was lost is added up for the session's warnings as well: see there. */
#ifndef CLIKA_EXPORT_LOSSES_H
#define CLIKA_EXPORT_LOSSES_H

#include "user/recording/losses.h"

#endif
