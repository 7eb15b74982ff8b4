/* SPDX-License-Identifier: Apache-2.0 */
/* Which of many globs a symbol may match, told from one look over its name. */
#ifndef CLIKA_USER_PROBE_GLOB_SET_H
#define CLIKA_USER_PROBE_GLOB_SET_H

#include "user/base/base.h"

struct glob_set;
/* globs[n] stay the caller's. */
struct glob_set *glob_set__new(const char *const *globs, size_t n);
void glob_set__free(struct glob_set *s);
/* The globs, by index and rising, that @symbol or its demangled name can match; room for all of them. */
size_t glob_set__candidates(struct glob_set *s, const char *symbol, uint32_t *list);
/* Are there any. */
bool glob_set__any(struct glob_set *s, const char *symbol);

#endif
