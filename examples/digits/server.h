/* SPDX-License-Identifier: Apache-2.0 */
/* What the synthetic clients need of the engine beside its public interface. */
#ifndef DIGITS_SERVER_H
#define DIGITS_SERVER_H

#include "digits.h"
#include "tally.h"

struct tally *digits_engine__tally(struct digits_engine *e);

#endif
